"""How many items or ratings a certificate would need."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from noracle.counts.ratings import RatingCounts
from noracle.errors import ArgumentError
from noracle.results import Kind, Plan, read_result
from noracle.superhuman.certify import certify_superhuman
from noracle.superhuman.plan import plan_certificate

KINDS = {((0, 0, 0), 0): 65, ((0, 0, 1), 0): 30, ((0, 0, 0), 1): 3, ((0, 1, 2), 0): 2}
PILOT = RatingCounts.from_arrays(
    [r for (r, _), n in KINDS.items() for _ in range(n)],
    labels=3,
    answers={"agent": [a for (_, a), n in KINDS.items() for _ in range(n)]},
)


@pytest.mark.parametrize("test", ["betting", "bernstein", "t"])
def test_planned_items_certify_as_often_as_predicted(test: str) -> None:
    plan = plan_certificate(PILOT, test=test, power=0.8)  # type: ignore[arg-type]
    n = plan.buy["items"]
    assert plan.predicted >= 0.8
    assert plan.verify()
    rng = np.random.default_rng(3)
    shares = np.array(list(KINDS.values())) / 100
    passed = {n: 0, n // 2: 0}
    for size in passed:
        for drawn in rng.multinomial(size, shares, size=150):
            ratings = np.repeat([r for r, _ in KINDS], drawn, axis=0)
            answers = np.repeat([a for _, a in KINDS], drawn)
            counts = RatingCounts.from_arrays(ratings, labels=3, answers={"agent": answers})
            passed[size] += certify_superhuman(
                counts, test=test, trained_on_annotators="no"
            ).certified  # type: ignore[arg-type]
    assert passed[n] / 150 == pytest.approx(plan.predicted, abs=0.12)
    assert passed[n // 2] / 150 < 0.75


def test_more_power_confidence_or_margin_needs_more_items() -> None:
    n = plan_certificate(PILOT).buy["items"]
    assert plan_certificate(PILOT, power=0.95).buy["items"] > n
    assert plan_certificate(PILOT, confidence=0.99).buy["items"] > n
    assert plan_certificate(PILOT, margin=0.03).buy["items"] > n


def test_ratings_on_the_same_items() -> None:
    plan = plan_certificate(PILOT, vary="ratings", power=0.6, most_ratings=12)
    tried = {row["ratings_per_item"]: row for row in plan.alternatives}
    assert tried[2]["difference"] <= 1e-12  # two ratings never do
    assert plan.buy["items"] == 100
    assert 4 <= plan.buy["ratings_per_item"] <= 12
    assert plan.predicted >= 0.6
    assert plan.cost == 100 * plan.buy["ratings_per_item"]
    assert plan.verify()
    short = plan_certificate(PILOT, vary="ratings", power=0.99, most_ratings=3)
    assert math.isnan(short.predicted)
    assert "more items are needed" in short.reason
    assert short.verify()


def test_what_more_ratings_bring_is_foreseen_from_three() -> None:
    """Raters on items of very different difficulty: the difference at 5, 7 and 9 ratings, foreseen
    from the first three.
    """
    rng = np.random.default_rng(0)
    n = 8000
    truth, easy = rng.integers(4, size=n), rng.beta(6, 1.5, size=(n, 1))
    ratings = np.where(
        rng.random((n, 9)) < easy,
        truth[:, None],
        (truth[:, None] + rng.integers(1, 4, size=(n, 9))) % 4,
    )
    answers = {"agent": np.where(rng.random(n) < 0.99, truth, (truth + 1) % 4)}
    three = RatingCounts.from_arrays(ratings[:, :3], labels=4, answers=answers)
    plan = plan_certificate(
        three, vary="ratings", margin=0.5, most_ratings=9
    )  # never reached: all numbers are tried
    foreseen = {row["ratings_per_item"]: row["difference"] for row in plan.alternatives}
    for k in (2, 5, 7, 9):
        real = certify_superhuman(
            RatingCounts.from_arrays(ratings[:, :k], labels=4, answers=answers)
        ).value
        assert foreseen[k] == pytest.approx(real, abs=0.02), k


def test_ratings_that_are_there_are_drawn_without_replacement() -> None:
    """With as many ratings as there are nothing is drawn again: the difference is that of the
    pilot.
    """
    value = certify_superhuman(PILOT).value
    plan = plan_certificate(PILOT, vary="ratings", power=0.999, most_ratings=3)
    (three,) = [row for row in plan.alternatives if row["ratings_per_item"] == 3]
    assert three["difference"] == pytest.approx(value, abs=0.01)


def test_no_number_of_items_helps_a_worse_system() -> None:
    worse = RatingCounts.from_arrays(
        [[0, 0, 0]] * 50, labels=2, answers={"agent": [0] * 45 + [1] * 5}
    )
    plan = plan_certificate(worse)
    assert math.isnan(plan.predicted)
    assert "no number of items would do" in plan.reason
    assert plan.verify()
    assert read_result(plan.to_dict()).to_dict() == plan.to_dict()


def test_the_plan_is_a_heuristic_and_says_what_it_supposes() -> None:
    plan = plan_certificate(PILOT)
    assert plan.guarantee.kind is Kind.HEURISTIC
    assert "rates as in the pilot" in str(plan)
    assert "values" not in str(plan)
    assert plan.cost == pytest.approx(plan.buy["items"] * 3)


def test_a_changed_plan_is_found() -> None:
    plan = plan_certificate(PILOT)
    for change in (
        {"buy": {"items": plan.buy["items"] // 3}},
        {"cost": plan.cost + 9},
        {"predicted": 0.99},
        {"wanted": 0.99},
    ):
        assert not dataclasses.replace(plan, **change).verify(), change
    assert Plan.from_dict(plan.to_dict()).verify()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power": 1.0}, r"power must be in \(0, 1\)"),
        ({"vary": "annotators"}, "vary must be one of"),
        ({"test": "binomial"}, "test must be one of"),
        ({"cost_per_rating": -1.0}, "cost_per_rating must not be negative"),
        ({"margin": -0.1}, "margin must be in"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        plan_certificate(PILOT, **options)
