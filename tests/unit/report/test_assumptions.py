"""Assumptions and percentages are written in one place each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noracle.accuracy.check import POLICY
from noracle.report.assumptions import PLAIN, clause, meaning, registered
from noracle.superhuman.ceiling import AGREEMENT
from noracle.superhuman.statement import NOT_A_BOUND, SIX

SOURCE = Path(__file__).parents[3] / "src" / "noracle"
FORMATTED = ("report", "cli", "oversight", "learn", "collect/web")


@pytest.mark.parametrize("check", POLICY)
def test_what_a_check_tests_has_plain_words_and_a_remedy(check: str) -> None:
    for name in POLICY[check].assumptions:
        found = registered(name)
        assert found.plain.endswith(".")
        assert POLICY[check].remedy in found.remedies


@pytest.mark.parametrize(
    "name", [SIX, AGREEMENT, NOT_A_BOUND.name, "7 ratings on every item by design"]
)
def test_long_and_numbered_names_are_known(name: str) -> None:
    assert registered(name).identifier in PLAIN
    assert clause(name) != name


def test_a_name_that_explains_itself_needs_no_plain_words() -> None:
    found = registered("3 classes inferred: those that were seen")
    assert (found.plain, found.remedies, meaning(found.name)) == ("", (), "")


def test_percentages_are_written_by_words_percent_alone() -> None:
    by_hand = re.compile(r"\{(round\()?100 \* [^\"]* %")
    files = [file for part in FORMATTED for file in (SOURCE / part).rglob("*.py")]
    found = {str(f.relative_to(SOURCE)) for f in files if by_hand.search(f.read_text("utf-8"))}
    assert found == {"report/words.py"}
