"""Cards, pages and plots of certificates."""

from __future__ import annotations

import pytest

from noracle.counts.ratings import RatingCounts
from noracle.report.card import card, html_card
from noracle.report.page import render_page
from noracle.results import Certificate
from noracle.superhuman.certify import certify_superhuman
from noracle.superhuman.plan import plan_certificate
from noracle.superhuman.published import certify_published

GOOD = RatingCounts.from_arrays(
    [[0, 0, 0]] * 150 + [[0, 0, 1]] * 150, labels=2, answers={"agent": [0] * 300}
)
EMPTY = RatingCounts.from_arrays([[-1, -1]], labels=2, answers={"agent": [0]})
CASES = {
    "certified": certify_superhuman(GOOD, trained_on_annotators="no", margin=0.02),
    "not stated": certify_superhuman(GOOD),
    "heuristic": certify_published(
        0.971,
        0.88,
        1821,
        3,
        ceiling="paper-empirical",
        test="paper-oms",
        trained_on_annotators="no",
    ),
    "empty": certify_superhuman(EMPTY),
    "two sides": certify_superhuman(GOOD, test="binomial", ceiling="free"),
}


@pytest.mark.parametrize("name", CASES)
def test_every_certificate_is_described_and_drawn(name: str) -> None:
    result = CASES[name]
    assert card(result) == str(result)
    assert result.claim.replace("'", "&#39;") in html_card(result)
    ax = result.plot()
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == "system matches the vote"
    assert names[1].startswith("ceiling ")
    assert "<svg" in render_page([result], title="Better than the annotators?")


def test_the_first_line_has_the_verdict() -> None:
    first = {name: str(result).splitlines()[0] for name, result in CASES.items()}
    assert "    CERTIFIED    difference +0.167, 95 % lower limit +0.137" in first["certified"]
    assert "NOT certified" in first["not stated"]
    assert "HEURISTIC: no promise" in first["heuristic"]
    assert "undefined" in first["empty"]


def test_every_reason_is_said() -> None:
    bad = RatingCounts.from_arrays(
        [[0, 0, 0]] * 30, labels=2, answers={"agent": [0] * 20 + [1] * 10}
    )
    result = certify_superhuman(bad)
    text = " ".join(str(result).split())
    assert len(result.reasons) == 2
    assert all(" ".join(reason.split()) in text for reason in result.reasons)


def test_the_plot_is_where_the_numbers_are() -> None:
    result = CASES["certified"]
    drawn = {tuple(round(float(x), 6) for x in line.get_xdata()) for line in result.plot().lines}
    ceiling = result.diagnostics["ceiling"]
    assert (round(ceiling + result.low, 6), 1.0) in drawn
    assert any(set(xs) == {round(ceiling + 0.02, 6)} for xs in drawn)
    assert (round(result.diagnostics["ceilings"]["paper"], 6),) in drawn


def test_a_certificate_from_json_is_drawn_alike() -> None:
    for result in CASES.values():
        again = Certificate.from_dict(result.to_dict())
        assert str(again) == str(result)
        again.plot()


def test_a_plan_for_a_certificate_is_described_and_drawn() -> None:
    counts = RatingCounts.from_arrays(
        [[0, 0, 0]] * 70 + [[0, 0, 1]] * 30, labels=2, answers={"a": [0] * 96 + [1] * 4}
    )
    for vary in ("items", "ratings"):
        plan = plan_certificate(counts, vary=vary, most_ratings=4)  # type: ignore[arg-type]
        assert "plan for power of a certificate" in str(plan)
        plan.plot()
        assert "<svg" in render_page([plan], title="How many?")
