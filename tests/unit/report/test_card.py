from __future__ import annotations

import dataclasses
import math

import pytest

from noracle.errors import ArgumentError
from noracle.report.card import card, html_card
from noracle.results import Assumption, Difference, Guarantee, Kind, Rank, Result
from tests.unit.report.samples import (
    CHECK,
    COMPARISON,
    ESTIMATE,
    FAILED_CHECK,
    HEURISTIC,
    PLAN,
    ROUTING,
    SAMPLES,
    UNDEFINED,
)


def test_estimate_card_is_the_documented_one() -> None:
    small = dataclasses.replace(
        ESTIMATE,
        counts={
            "items": 500,
            "complementary": 497,
            "complementary_avoided": 488,
            "without_answer": 3,
        },
    )
    assert card(small).splitlines() == [
        "accuracy of 'agent-7'    0.800    95 % interval [0.708, 0.869]",
        "  method      complementary labels, exact binomial",
        "  evidence    500 items, 497 with a ruled-out class (9 answers ruled out), 3 without an answer (counted as wrong)",
        "  guarantee   finite-sample",
        "  rests on    iid items (assumed) · uniform routing (checked, p = 0.41)",
    ]


def test_str_of_a_result_is_its_card() -> None:
    assert str(ESTIMATE) == card(ESTIMATE)
    assert ESTIMATE._repr_html_() == html_card(ESTIMATE)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_card_is_lines_without_trailing_space(name: str) -> None:
    lines = card(SAMPLES[name]).splitlines()
    assert len(lines) > 1
    assert all(line == line.rstrip() for line in lines)
    assert not lines[0].startswith(" ")
    assert all(line.startswith("  ") for line in lines[1:])


@pytest.mark.parametrize("name", SAMPLES)
def test_html_card_has_the_words_of_the_text_card(name: str) -> None:
    import html

    from noracle.report.content import content

    said = content(SAMPLES[name])
    text = html.unescape(html_card(SAMPLES[name]))
    for words in (*said.headline, *said.alerts, *said.notes, *(t for _, t in said.lines)):
        assert words in text


def test_undefined_says_why_and_vacuous_says_so() -> None:
    first = card(UNDEFINED).splitlines()[0]
    assert "undefined (no labels)" in first
    assert "[0, 1] (vacuous" in first
    assert "nan" not in card(UNDEFINED)


def test_heuristic_and_failed_assumption_are_in_the_first_line() -> None:
    first = card(HEURISTIC).splitlines()[0]
    assert "HEURISTIC" in first
    assert "FAILED: uniform routing (p = 2e-07)" in first
    assert "anytime" not in card(HEURISTIC)


@pytest.mark.parametrize("result", [COMPARISON, PLAN, SAMPLES["ranges"]])
def test_heuristic_is_in_the_first_line_of_every_type(result: Result) -> None:
    weak = Guarantee(
        kind=Kind.HEURISTIC,
        error_rate=0.05,
        assumptions=(Assumption(name="iid items", status="failed"),),
    )
    first = card(dataclasses.replace(result, guarantee=weak)).splitlines()[0]  # type: ignore[type-var]
    assert "HEURISTIC" in first
    assert "FAILED: iid items" in first


@pytest.mark.parametrize(
    ("side", "words"), [("lower", "95 % lower bound 0.708"), ("upper", "95 % upper bound 0.869")]
)
def test_one_sided_estimates_show_one_bound(side: str, words: str) -> None:
    first = card(dataclasses.replace(ESTIMATE, side=side)).splitlines()[0]  # type: ignore[arg-type]
    assert first.endswith(words)


def test_vacuous_one_sided_bound_says_so() -> None:
    assert "vacuous" in card(dataclasses.replace(ESTIMATE, side="lower", low=0.0)).splitlines()[0]
    assert "vacuous" in card(dataclasses.replace(ESTIMATE, side="upper", high=1.0)).splitlines()[0]


def test_narrow_intervals_get_more_digits() -> None:
    assert "[0.79950, 0.80011]" in card(dataclasses.replace(ESTIMATE, low=0.7995, high=0.80011))


def test_undefined_interval_is_not_called_vacuous() -> None:
    first = card(dataclasses.replace(UNDEFINED, low=math.nan, high=math.nan)).splitlines()[0]
    assert first.endswith("95 % interval undefined")


def test_excluded_evidence_is_counted() -> None:
    text = " ".join(card(ESTIMATE).split())
    assert "3 without an answer (counted as wrong)" in text
    assert "4 judgements without answers (not used)" in text


def test_failed_check_says_what_it_speaks_against() -> None:
    first = card(FAILED_CHECK).splitlines()[0]
    assert first.startswith("check of yes rate    FAILED    p = 3e-09")
    assert "verdicts are right" in first


def test_check_without_evidence_is_undecided() -> None:
    first = card(dataclasses.replace(CHECK, p_value=math.nan, reason="no questions")).splitlines()[
        0
    ]
    assert "undecided (no questions)" in first
    assert "passed" not in first


def test_comparison_of_many_systems_is_short_and_says_what_it_left_out() -> None:
    names = [f"s{i}" for i in range(20)]
    many = dataclasses.replace(
        COMPARISON,
        systems=tuple(names),
        ranks=tuple(Rank(system=n, best=1, worst=20, value=0.5) for n in names),
        differences=tuple(
            Difference(first=a, second=b, value=0.0, low=-0.1, high=0.1, n=10)
            for i, a in enumerate(names)
            for b in names[i + 1 :]
        ),
        leaders=tuple(names),
    )
    text = card(many)
    assert "no system is certainly better" in text.splitlines()[0]
    assert "… and 171 more" in text
    assert "… and 8 more" in text


def test_routing_counts_all_questions() -> None:
    many = dataclasses.replace(ROUTING, rows=tuple((f"q{i}", i % 3, 0.5) for i in range(5000)))
    text = card(many)
    assert text.startswith("5,000 questions to ask")
    assert "… and 4,997 more" in text


def test_line_breaks_in_names_cannot_forge_a_line() -> None:
    forged = dataclasses.replace(ESTIMATE, subject="a\n  guarantee   logical", notes=("one\ntwo",))
    assert sum(line.lstrip().startswith("guarantee") for line in card(forged).splitlines()) == 1
    assert "note        one two" in card(forged)


def test_html_card_escapes() -> None:
    assert "<script>" not in html_card(HEURISTIC)


def test_card_of_something_else_is_refused() -> None:
    with pytest.raises(ArgumentError, match="got int"):
        card(3)
