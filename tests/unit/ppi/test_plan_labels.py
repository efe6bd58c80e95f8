from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

from noracle import (
    AccuracyCounts,
    ArgumentError,
    estimate_accuracy,
    plan_budget,
    plan_labels,
    read_result,
)
from noracle.ppi.expected import make_label

GOALS = {
    "half width": {"half_width": 0.05},
    "questions": {"half_width": 0.08, "kind": "question"},
    "targeted": {"half_width": 0.05, "kind": "targeted"},
    "budget": {"budget": 400, "costs": {"ordinary": 3.0, "complementary": 1.0}},
    "capped": {
        "half_width": 0.04,
        "costs": {"ordinary": 1.0, "complementary": 1.0},
        "caps": {"ordinary": 100},
    },
    "match": {"match": 100},
    "difference": {"difference": 0.15, "disagreement": 0.3, "kind": "ordinary"},
}


@functools.cache
def plan(name: str, **more: object):  # type: ignore[no-untyped-def]
    return plan_labels(n_classes=5, accuracy=0.8, **GOALS[name], **more)  # type: ignore[arg-type]


@pytest.mark.thin(6)
@pytest.mark.parametrize("name", GOALS)
def test_plan_verifies_and_survives_json(name: str) -> None:
    made = plan(name)
    assert made.verify()
    back = read_result(made.to_dict())
    assert back.verify()  # type: ignore[attr-defined]


@pytest.mark.thin(6)
@pytest.mark.parametrize("name", GOALS)
def test_tampered_plan_does_not_verify(name: str) -> None:
    """Fewer labels at their price promise too much; the same labels at a lower price are a lie."""
    made = plan(name)
    kind, n = max(made.buy.items(), key=lambda pair: pair[1])
    fewer = {**made.buy, kind: n // 3}
    cost = made.cost - (n - n // 3) * dict(made.inputs["costs"]).get(kind, 1.0)
    assert not dataclasses.replace(made, buy=fewer, cost=cost).verify()
    assert not dataclasses.replace(made, cost=made.cost / 2).verify()


@pytest.mark.full
def test_plan_over_a_cap_or_a_budget_does_not_verify() -> None:
    capped = plan("capped")
    assert set(capped.buy) == {"ordinary", "complementary"}
    assert capped.buy["ordinary"] == 100
    assert not dataclasses.replace(
        capped, inputs={**capped.inputs, "caps": {"ordinary": 50}}
    ).verify()
    budget = plan("budget")
    assert budget.cost <= 400
    assert not dataclasses.replace(budget, wanted=budget.cost / 2).verify()


def test_planned_half_width_is_kept_by_the_interval_and_not_by_one_label_less() -> None:
    made = plan_labels(n_classes=4, accuracy=0.9, half_width=0.03, kind="ordinary")
    n = made.buy["ordinary"]

    def expected(size: int) -> float:
        from scipy.stats import binom

        widths = [
            estimate_accuracy(AccuracyCounts.from_counts(n_classes=4, ordinary=(size, s))).width
            for s in range(size + 1)
        ]
        return (
            float(
                sum(
                    p * w
                    for p, w in zip(binom.pmf(range(size + 1), size, 0.9), widths, strict=True)
                )
            )
            / 2
        )

    assert made.predicted == pytest.approx(expected(n), rel=1e-6)
    assert expected(n) <= 0.03 < expected(n - 1)


def test_cheaper_labels_are_preferred_until_they_are_too_weak() -> None:
    even = plan_labels(
        n_classes=5, accuracy=0.8, half_width=0.05, costs={"ordinary": 1.0, "complementary": 1.0}
    )
    cheap = plan_labels(
        n_classes=5, accuracy=0.8, half_width=0.05, costs={"ordinary": 100.0, "complementary": 1.0}
    )
    assert set(even.buy) == {"ordinary"}
    assert set(cheap.buy) == {"complementary"}
    assert cheap.cost < 100 * even.buy["ordinary"]


def test_more_power_needs_more_labels() -> None:
    few, many = (plan("difference", power=power).buy["ordinary"] for power in (0.5, 0.95))
    assert few < many


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "one goal must be given"),
        ({"half_width": 0.1, "budget": 10}, "one goal must be given"),
        ({"half_width": 0.7}, "half_width must be in"),
        ({"budget": -1}, "budget must be positive"),
        ({"match": 0}, "match must be at least 1"),
        ({"difference": 0.9, "disagreement": 0.1}, "difference must be positive"),
        ({"difference": 0.1, "power": 1.0}, "power must be in"),
        ({"half_width": 0.01, "caps": {"ordinary": 10, "complementary": 10}}, "cannot be met"),
        ({"half_width": 0.1, "costs": {"gold": 1.0}}, "costs must be one of"),
        ({"half_width": 0.1, "costs": {"ordinary": 0.0}}, "costs must be positive"),
        ({"half_width": 0.1, "kind": "free"}, "kind must be one of"),
        ({"half_width": 0.1, "accuracy": 1.5}, "accuracy must be in"),
        ({"half_width": 0.1, "n_classes": 1}, "n_classes must be"),
    ],
)
def test_impossible_plans_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises((ArgumentError, ValueError), match=words):
        plan_labels(**{"n_classes": 5, "accuracy": 0.8, **options})  # type: ignore[arg-type]


def test_mixture_is_that_of_the_budget_planner() -> None:
    """One allocator: for a budget the counts are those of plan_budget, whatever kinds there are."""
    prices, caps = (
        {"ordinary": 3.0, "question": 1.0, "complementary": 0.2},
        {"ordinary": 40, "complementary": 300},
    )
    made = plan_labels(n_classes=5, accuracy=0.8, budget=400, costs=prices, caps=caps)
    labels = [make_label(name, n_classes=5, price=price) for name, price in prices.items()]
    least = plan_budget(
        cov=[[0.16]],
        names=["right"],
        target="right",
        costs={},
        labels=labels,
        caps=caps,
        accuracy=0.8,
        budgets=400,
    )
    assert len(made.buy) > 1
    assert made.buy == least.buy
    assert made.verify()


def test_no_cap_is_broken_by_a_mixture() -> None:
    """Money that is left after all caps are full buys nothing."""
    made = plan_labels(
        n_classes=3,
        accuracy=0.8,
        budget=200,
        costs={"ordinary": 1.0, "complementary": 1.0},
        caps={"ordinary": 5, "complementary": 7},
    )
    assert made.buy == {"ordinary": 5, "complementary": 7}
    assert made.verify()


@pytest.mark.full
def test_kinds_of_all_sorts_are_mixed_when_the_best_is_capped() -> None:
    made = plan_labels(
        n_classes=5,
        accuracy=0.8,
        half_width=0.05,
        costs={"targeted": 1.0, "question": 1.0},
        caps={"targeted": 100},
    )
    assert set(made.buy) == {"targeted", "question"}
    assert made.buy["targeted"] == 100
    assert made.predicted <= 0.05
    assert made.verify()


@pytest.mark.thin(3)
@pytest.mark.parametrize("accuracy", [0.0, 0.02, 0.98, 1.0])
def test_half_width_of_a_mixture_is_the_expected_one_near_the_ends(accuracy: float) -> None:
    made = plan_labels(
        n_classes=4,
        accuracy=accuracy,
        budget=1000,
        costs={"ordinary": 1.0, "complementary": 0.5},
        caps={"ordinary": 30, "complementary": 80},
    )
    rng = np.random.default_rng(1)
    widths = []
    for _ in range(150):
        ordinary, complementary = (
            rng.binomial(n, p) for n, p in ((30, accuracy), (80, (accuracy + 2) / 3))
        )
        counts = AccuracyCounts.from_counts(
            n_classes=4, ordinary=(30, int(ordinary)), complementary=(80, int(complementary))
        )
        widths.append(estimate_accuracy(counts).width / 2)
    assert made.buy == {"ordinary": 30, "complementary": 80}
    assert made.predicted == pytest.approx(
        np.mean(widths), rel=0.05, abs=4 * np.std(widths) / 150**0.5
    )
    assert made.verify()


def test_one_kind_is_preferred_where_a_second_saves_next_to_nothing() -> None:
    made = plan_labels(
        n_classes=4, accuracy=0.7, budget=2000.9, costs={"ordinary": 1.0, "complementary": 0.3}
    )
    assert made.buy == {"ordinary": 2000}
