"""One promise for the whole report."""

from __future__ import annotations

import pytest

from noracle import AccuracyCounts, estimate_accuracy
from noracle.oversight.findings import joint_guarantee, left_out
from noracle.oversight.model import Step
from noracle.results import (
    Assumption,
    Check,
    Estimate,
    Guarantee,
    Kind,
    Plan,
    Range,
    Ranges,
    Result,
)


def estimate(kind: Kind, error: float, *assumptions: Assumption) -> Estimate:
    return Estimate(
        quantity="accuracy",
        subject="x",
        value=0.5,
        low=0.4,
        high=0.6,
        confidence=1 - error,
        method="ml",
        interval="exact",
        guarantee=Guarantee(kind=kind, error_rate=error, assumptions=assumptions),
    )


def step(name: str, *results: Result) -> Step:
    return Step(name=name, question=f"{name}?", status="done", results=results)


def test_error_rates_are_added_over_all_statements() -> None:
    steps = [
        step("accuracy", *(estimate(Kind.FINITE_SAMPLE, 0.01) for _ in range(3))),
        step("ceiling", estimate(Kind.FINITE_SAMPLE, 0.02)),
    ]
    assert joint_guarantee(steps).error_rate == pytest.approx(0.05)
    assert joint_guarantee(steps).kind is Kind.FINITE_SAMPLE


def test_logical_statements_add_nothing_and_do_not_strengthen() -> None:
    logical = Ranges(
        ranges=(Range(name="r", low=0, high=1),),
        method="m",
        guarantee=Guarantee(kind=Kind.LOGICAL, error_rate=0.0),
    )
    joint = joint_guarantee(
        [step("ranges", logical), step("accuracy", estimate(Kind.FINITE_SAMPLE, 0.03))]
    )
    assert (joint.kind, joint.error_rate) == (Kind.FINITE_SAMPLE, 0.03)
    assert joint_guarantee([step("ranges", logical)]).kind is Kind.LOGICAL


def test_asymptotic_and_heuristic_statements_are_left_out_and_named() -> None:
    steps = [
        step("accuracy", estimate(Kind.FINITE_SAMPLE, 0.01)),
        step("agreement", estimate(Kind.ASYMPTOTIC, 0.01)),
        step("comparison", estimate(Kind.HEURISTIC, 0.01)),
    ]
    assert joint_guarantee(steps).kind is Kind.FINITE_SAMPLE
    assert joint_guarantee(steps).error_rate == pytest.approx(0.01)
    every = joint_guarantee(steps, every=True)
    assert (every.kind, every.error_rate) == (Kind.HEURISTIC, pytest.approx(0.03))
    assert left_out(steps) == {"agreement": Kind.ASYMPTOTIC, "comparison": Kind.HEURISTIC}


def test_the_weakest_status_of_an_assumption_is_kept() -> None:
    checked, assumed = (
        Assumption(name="iid items", status="checked", p_value=0.4),
        Assumption(name="iid items"),
    )
    joint = joint_guarantee(
        [
            step(
                "a",
                estimate(Kind.FINITE_SAMPLE, 0.01, checked),
                estimate(Kind.FINITE_SAMPLE, 0.01, assumed),
            )
        ]
    )
    assert [a.status for a in joint.assumptions] == ["assumed"]


def test_checks_and_plans_are_no_statements() -> None:
    check = Check(
        name="routing",
        assumption="uniform routing",
        p_value=0.3,
        statistic=1.0,
        finding="fine",
        method="chi-square",
    )
    plan = Plan(
        goal="half-width",
        wanted=0.02,
        predicted=0.02,
        buy={"ordinary": 1},
        cost=1.0,
        confidence=0.95,
        method="m",
        interval="exact",
        guarantee=Guarantee(kind=Kind.HEURISTIC, error_rate=0.05),
    )
    joint = joint_guarantee([step("checks", check), step("labels", plan)], every=True)
    assert (joint.kind, joint.error_rate, joint.assumptions) == (Kind.HEURISTIC, 0.0, ())


def test_statements_at_the_shared_level_hold_together_in_simulated_worlds() -> None:
    """Four accuracies, each at 1 - 0.2/4: the share of worlds in which any interval misses is at
    most 0.2.
    """
    import numpy as np
    from scipy.stats import binom

    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(300):
        rates = rng.uniform(0.1, 0.95, 4)
        right = rng.binomial(40, rates)
        counts = [AccuracyCounts.from_counts(n_classes=3, ordinary=(40, int(r))) for r in right]
        results = [estimate_accuracy(c, confidence=1 - 0.2 / 4) for c in counts]
        assert joint_guarantee([step("accuracy", *results)]).error_rate == pytest.approx(0.2)
        missed += any(not r.low <= p <= r.high for r, p in zip(results, rates, strict=True))
    assert missed <= binom.ppf(0.999, 300, 0.2)
