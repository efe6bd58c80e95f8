"""A plan from evidence: what is there counts, and what is missing is bought in the kind that is
there.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from noracle import (
    AccuracyCounts,
    ArgumentError,
    Evidence,
    estimate_accuracy,
    plan_accuracy,
    read_result,
    route_items,
)
from noracle.ppi.accuracy_plan import held_kind

N, K = 2000, 5


def ordinary(
    n: int,
    share: float = 0.78,
    *,
    n_items: int | None = N,
    system: str = "system",
    stratum: str = "",
) -> AccuracyCounts:
    return AccuracyCounts.from_counts(
        n_classes=K, system=system, ordinary=(n, round(share * n)), n_items=n_items, stratum=stratum
    )


def asked(design: str, n: int, *systems: float) -> Evidence:
    rng = np.random.default_rng(len(systems) * 100 + n)
    key = rng.integers(K, size=N)
    answers = {
        f"s{i}": np.where(rng.random(N) < a, key, (key + 1 + rng.integers(K - 1, size=N)) % K)
        for i, a in enumerate(systems)
    }
    table = {
        "item": list(range(N)) * len(systems),
        "system": [s for s in answers for _ in range(N)],
        "answer": np.concatenate(list(answers.values())).tolist(),
    }
    drawn = route_items(
        Evidence.from_tables(answers=table, n_classes=K), design=design, n=n, seed=1
    ).columns()  # type: ignore[arg-type]
    drawn["verdict"] = [
        "yes" if key[i] == c else "no" for i, c in zip(drawn["item"], drawn["class"], strict=True)
    ]
    return Evidence.from_tables(answers=table, judgements=drawn, n_classes=K)


def test_labels_that_are_there_count() -> None:
    none, some, many = (plan_accuracy(ordinary(n), half_width=0.03) for n in (0, 200, 400))
    assert none.inputs["by_system"]["system"]["accuracy"] == 0.7
    assert some.buy["ordinary"] == pytest.approx(many.buy["ordinary"] + 200, abs=10)
    assert some.inputs["have"] == {"ordinary": 200}
    total = 200 + some.buy["ordinary"]
    assert estimate_accuracy(ordinary(total)).width / 2 == pytest.approx(0.03, rel=0.02)


def test_every_system_gets_its_interval() -> None:
    counts = ordinary(200, 0.95, system="a") + ordinary(200, 0.6, system="b")
    plan = plan_accuracy(counts, half_width=0.03)
    needs = {name: row["n"] for name, row in plan.inputs["by_system"].items()}
    assert needs["a"] < needs["b"] == plan.buy["ordinary"]
    assert (
        plan.predicted == max(row["predicted"] for row in plan.inputs["by_system"].values()) <= 0.03
    )
    assert plan_accuracy(counts, half_width=0.03, systems=["a"]).buy["ordinary"] == needs["a"]


@pytest.mark.full
def test_kind_is_that_of_the_labels() -> None:
    assert held_kind(ordinary(0)) is None
    assert (
        held_kind(AccuracyCounts.from_counts(n_classes=K, complementary=(50, 45)))
        == "complementary"
    )
    assert (
        held_kind(
            AccuracyCounts.from_counts(n_classes=K, ordinary=(40, 30), complementary=(160, 150))
        )
        == "question"
    )
    assert (
        held_kind(
            AccuracyCounts.from_counts(n_classes=K, ordinary=(400, 300), complementary=(20, 18))
        )
        == "ordinary"
    )
    for design, kind in (("uniform", "question"), ("targeted", "targeted")):
        plan = plan_accuracy(asked(design, 200, 0.8), half_width=0.045)
        assert set(plan.buy) == {kind}
        assert plan.verify()


@pytest.mark.full
def test_several_systems_that_share_targeted_questions_are_planned_by_their_scores() -> None:
    plan = plan_accuracy(asked("targeted", 500, 0.8, 0.7), half_width=0.06)
    assert (
        plan.inputs["estimator"]
        == {"method": "scores", "interval": "fixed-n"}
        == {"method": plan.method, "interval": plan.interval}
    )
    assert plan.inputs["systems"] == ["s0", "s1"]
    assert 0 < plan.buy["targeted"] <= N - 500


def test_a_goal_that_is_kept_needs_nothing() -> None:
    plan = plan_accuracy(ordinary(1900), half_width=0.03)
    assert (plan.buy, plan.cost, plan.reason) == ({}, 0.0, "")


def test_a_goal_out_of_reach_buys_what_is_left_and_says_so() -> None:
    plan = plan_accuracy(asked("uniform", 300, 0.8), half_width=0.01)
    assert plan.buy == {"question": N - 300}
    assert "out of reach" in plan.reason
    assert plan.predicted > 0.01
    capped = plan_accuracy(ordinary(100), half_width=0.02, caps={"ordinary": 50})
    assert capped.buy == {"ordinary": 50}
    assert "the cap" in capped.reason


def test_a_cheaper_kind_is_named_with_its_price() -> None:
    counts = AccuracyCounts.from_counts(
        n_classes=K, ordinary=(40, 30), complementary=(160, 150), n_items=20_000
    )
    plan = plan_accuracy(counts, half_width=0.03, costs={"question": 1.0, "ordinary": 1.5})
    assert set(plan.buy) == {"question"}
    assert any("ordinary labels would do, at 1.5 each" in note for note in plan.notes)
    assert {kind for option in plan.alternatives for kind in option["buy"]} == {
        "question",
        "ordinary",
    }


@pytest.mark.full
def test_strata_that_were_labelled_at_different_rates_are_brought_to_one() -> None:
    counts = ordinary(200, 0.9, stratum="a", n_items=1000) + ordinary(
        20, 0.5, stratum="b", n_items=1000
    )
    assert estimate_accuracy(counts).interval == "parts"
    coarse = plan_accuracy(counts, half_width=0.045)
    assert list(coarse.buy) == ["b/ordinary"]
    assert (coarse.interval, coarse.verify()) == ("parts", True)
    plan = plan_accuracy(counts, half_width=0.035)
    assert 20 + plan.buy["b/ordinary"] == pytest.approx(200 + plan.buy["a/ordinary"], abs=1)
    assert plan.interval == "hypergeometric"
    assert plan.verify()


def test_kinds_that_cannot_be_estimated_together_are_refused() -> None:
    with pytest.raises(ArgumentError, match="kind must fit the labels that are there"):
        plan_accuracy(asked("targeted", 300, 0.8), half_width=0.05, kind="question")
    with pytest.raises(ArgumentError, match="half_width must be in"):
        plan_accuracy(ordinary(10), half_width=0.6)
    with pytest.raises(ArgumentError, match="costs must be positive"):
        plan_accuracy(ordinary(10), half_width=0.1, costs={"ordinary": 0.0})
    with pytest.raises(ArgumentError, match="evidence must be"):
        plan_accuracy({"a": 1}, half_width=0.1)  # type: ignore[arg-type]


def test_tampered_plan_does_not_verify_and_a_read_one_does() -> None:
    plan = plan_accuracy(ordinary(200), half_width=0.03)
    back = read_result(plan.to_dict())
    assert back.verify()  # type: ignore[attr-defined]
    assert not dataclasses.replace(plan, buy={"ordinary": 60}, cost=60.0).verify()
    assert not dataclasses.replace(plan, cost=1.0).verify()
    assert not dataclasses.replace(plan, interval="exact").verify()
