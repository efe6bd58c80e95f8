"""What every verb prints as JSON is what it printed before; see ``cases.py`` for how to write the
golden files again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden import cases


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The tables that the cases run on, as the working folder."""
    with cases.prepared(tmp_path_factory.mktemp("golden").resolve()) as place:
        yield place


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in cases.SLOW else ())
        for name in cases.names()
    ],
)
def test_output_is_as_before(name: str, folder: Path) -> None:
    if cases.needed(name):
        pytest.importorskip(cases.needed(name))
    expected = json.loads(cases.path_of(name).read_text(encoding="utf-8"))
    lines = list(cases.differences(expected, cases.found(name, folder)))
    shown = "\n".join(f"  {line}" for line in lines[:20])
    more = f"\n  and {len(lines) - 20} more" if len(lines) > 20 else ""
    assert not lines, (
        f"{name} differs in {len(lines)} places:\n{shown}{more}\n"
        f"If that is meant: python tests/golden/cases.py --write {name}"
    )


def test_every_golden_file_has_a_case() -> None:
    kept = {cases.path_of(name) for name in cases.names()}
    assert set(cases.EXPECTED.rglob("*.json")) == kept


def test_every_verb_that_prints_json_has_a_case() -> None:
    from noracle.cli import VERBS

    covered = {case.line.split()[0] for case in cases.CASES}
    # The first describes the machine, the second writes a page.
    assert {verb.name for verb in VERBS} - covered == {"doctor", "view"}
