"""Two models on the same ruled-out labels: differences, verdicts, how many labels would separate,
plans.
"""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from noracle.errors import ArgumentError, EvidenceError, SingularTransition
from noracle.learn import (
    compare_models,
    estimate_model_accuracy,
    estimate_scel,
    plan_validation,
    zero_one_standard_error,
)
from noracle.learn.compare import verify_validation_plan
from noracle.learn.labels import draw_ruled_out
from noracle.learn.transition import Transition
from noracle.results import Comparison, Kind, Plan

K = 4
T = np.array(
    [[0.05, 0.6, 0.15, 0.2], [0.3, 0.0, 0.5, 0.2], [0.1, 0.2, 0.1, 0.6], [0.45, 0.25, 0.3, 0.0]]
)
MATRICES = {
    "uniform": Transition.uniform(K),
    "noisy": Transition.noisy(K, 0.05),
    "biased": Transition(T),
}


def pair(transition: Transition, n: int, first: float, second: float, seed: int = 1):
    """Answers of two models that err on their own, and labels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(transition.n_classes, size=n)
    k = transition.n_classes
    a, b = (
        np.where(rng.random(n) < p, truth, (truth + rng.integers(1, k, size=n)) % k)
        for p in (first, second)
    )
    return a, b, draw_ruled_out(truth, transition=transition, rng=rng)


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("interval", ["betting", "wald"])
def test_difference_is_that_of_the_estimates(name: str, interval) -> None:
    a, b, said = pair(MATRICES[name], 3000, 0.9, 0.6)
    found = compare_models(
        a, b, said, transition=MATRICES[name], interval=interval, names=("new", "old")
    )
    values = [estimate_model_accuracy(p, said, transition=MATRICES[name]).value for p in (a, b)]
    (d,) = found.differences
    assert d.value == pytest.approx(values[0] - values[1], abs=1e-9)
    assert {r.system: r.value for r in found.ranks} == pytest.approx(
        {"new": values[0], "old": values[1]}
    )
    assert d.low <= 0.3 <= d.high
    assert d.verdict == "first"
    assert found.leaders == ("new",)
    assert found.guarantee.kind is (
        Kind.FINITE_SAMPLE if interval == "betting" else Kind.ASYMPTOTIC
    )
    assert Comparison.from_dict(json.loads(found.to_json())).to_dict() == found.to_dict()
    assert "new" in str(found)
    back = compare_models(
        b, a, said, transition=MATRICES[name], interval=interval, names=("old", "new")
    ).differences[0]
    assert (back.value, back.low, back.high) == pytest.approx((-d.value, -d.high, -d.low), abs=1e-9)
    order = np.random.default_rng(2).permutation(len(a))
    assert compare_models(
        a[order], b[order], said[order], transition=MATRICES[name], interval=interval
    ).differences[0].value == (pytest.approx(d.value, abs=1e-12))


@pytest.mark.parametrize("name", MATRICES)
def test_equal_models_cannot_be_separated(name: str) -> None:
    a, b, said = pair(MATRICES[name], 500, 0.7, 0.7)
    for found in (
        compare_models(a, b, said, transition=MATRICES[name]),
        compare_models(a, a, said, transition=MATRICES[name]),
    ):
        assert found.differences[0].verdict == "not separable"
        assert "1 of 1 pairs cannot be separated with these labels" in found.notes
        assert set(found.leaders) == {"a", "b"}
        assert found.to_json()
    assert math.isnan(
        compare_models(a, a, said, transition=MATRICES[name]).diagnostics["separate"]["labels"]
    )


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("interval", ["betting", "wald"])
def test_labels_that_would_separate_do(name: str, interval) -> None:
    """The number in the diagnostics is of the right size: three times as many labels separate, a
    quarter seldom does.
    """
    transition = MATRICES[name]
    a, b, said = pair(transition, 20_000, 0.8, 0.7)
    needed = compare_models(a, b, said, transition=transition, interval=interval).diagnostics[
        "separate"
    ]["labels"]
    verdicts = {
        share: [
            compare_models(
                *pair(transition, round(share * needed), 0.8, 0.7, seed),
                transition=transition,
                interval=interval,
            )
            .differences[0]
            .verdict
            for seed in range(20)
        ]
        for share in (0.25, 3.0)
    }
    assert sum(v == "first" for v in verdicts[3.0]) >= 18
    assert sum(v == "first" for v in verdicts[0.25]) <= 14


@pytest.mark.parametrize("name", MATRICES)
def test_false_separations_are_rare(name: str) -> None:
    """Equal accuracy, independent errors: 200 comparisons, at most 5 % wrong verdicts up to chance."""
    transition = MATRICES[name]
    wrong = sum(
        compare_models(*pair(transition, 300, 0.6, 0.6, seed), transition=transition)
        .differences[0]
        .verdict
        != "not separable"
        for seed in range(200)
    )
    assert wrong <= 19


def test_no_answers_and_several_labels_are_compared_too() -> None:
    transition = MATRICES["biased"]
    rng = np.random.default_rng(3)
    truth = rng.integers(K, size=4000)
    three = draw_ruled_out(truth, transition=transition, n_labels=3, replace=True, rng=rng)
    half = np.where(rng.random(4000) < 0.5, truth, -1)
    found = compare_models(truth, half, three, transition=transition)
    assert found.differences[0].low <= 0.5 <= found.differences[0].high
    assert found.differences[0].verdict == "first"
    without = draw_ruled_out(truth, transition=transition, n_labels=2, rng=rng)
    assert (
        compare_models(truth, half, without, transition=transition).guarantee.kind is Kind.HEURISTIC
    )
    two = draw_ruled_out(truth, n_classes=K, n_labels=2, rng=rng)
    assert (
        compare_models(truth, half, two, transition="uniform", n_classes=K).differences[0].verdict
        == "first"
    )


@pytest.mark.parametrize("name", MATRICES)
def test_edges_of_a_comparison_are_honest(name: str) -> None:
    transition = MATRICES[name]
    none = np.zeros(0, dtype=int)
    empty = compare_models(none, none, none, transition=transition)
    assert empty.reason
    assert math.isnan(empty.differences[0].value)
    for interval in ("betting", "wald"):
        one = compare_models([0], [1], [1], transition=transition, interval=interval)
        assert (one.differences[0].low, one.differences[0].high) == (-1, 1)
        assert one.differences[0].verdict == "not separable"
        assert str(one)
    nothing = compare_models([0, 1], [1, 1], [-1, -1], transition=transition)
    assert nothing.differences[0].verdict == "not separable"


def test_faults_of_a_comparison_are_named() -> None:
    with pytest.raises(SingularTransition):
        compare_models([0], [1], [2], transition=Transition.noisy(K, 1 / K))
    with pytest.raises(EvidenceError, match="b must have one class"):
        compare_models([0, 1], [1], [2, 2], transition=T)
    with pytest.raises(ArgumentError, match="interval must be one of wald"):
        compare_models(
            np.zeros((2, K)),
            np.zeros((2, K)),
            [0, 1],
            transition=T,
            measure="scel",
            interval="betting",
        )
    with pytest.raises(ArgumentError, match="measure must be"):
        compare_models([0], [1], [2], transition=T, measure="f1")
    with pytest.raises(ArgumentError, match="names must be two different"):
        compare_models([0], [1], [2], transition=T, names=("x", "x"))


def test_losses_are_compared_with_their_sign_turned_round() -> None:
    pytest.importorskip("torch", reason="the learn extra is not installed")
    rng = np.random.default_rng(1)
    z = rng.normal(scale=2, size=(3000, K))
    truth = np.array([rng.choice(K, p=np.exp(r) / np.exp(r).sum()) for r in z])
    said = draw_ruled_out(truth, transition=Transition(T), rng=rng)
    flat = np.zeros_like(z)
    found = compare_models(z, flat, said, transition=T, measure="scel", names=("fine", "flat"))
    values = [estimate_scel(x, said, transition=T).value for x in (z, flat)]
    (d,) = found.differences
    assert d.value == pytest.approx(values[1] - values[0])
    assert d.verdict == "first"
    assert found.diagnostics["measure"] == "scel"
    assert found.guarantee.kind is Kind.ASYMPTOTIC
    bold = compare_models(z, 5 * z, said, transition=T, measure="scel", temperature="fit")
    assert bold.differences[0].value == pytest.approx(
        0, abs=1e-6
    )  # a temperature makes the same model of both
    assert bold.diagnostics["temperature"]["b"] == pytest.approx(
        5 * bold.diagnostics["temperature"]["a"], rel=1e-3
    )
    assert any("sign reversed" in note for note in found.notes)
    single = compare_models(z[:1], flat[:1], said[:1], transition=T, measure="scel")
    assert single.differences[0].verdict == "not separable"
    assert single.to_json()


# ----------------------------------------------------------------------------------------------------------------------
# plans


@pytest.mark.parametrize(
    ("n_classes", "noise", "n", "accuracy", "points", "ordinary"),
    [
        (10, 0.0393, 5000, 0.35, 5.8, 0.67),  # CLCIFAR10: a tenth of 50,000 images
        (20, 0.0280, 5000, 0.08, 13.2, 0.38),  # CLCIFAR20
        (10, 0.0519, 500, 0.24, 24.2, 1.91),  # CLMicroImageNet10: a tenth of 5,000
        (20, 0.0321, 1000, 0.06, 36.5, 0.75),  # CLMicroImageNet20
    ],
)
def test_standard_errors_on_the_four_validation_sets(
    n_classes, noise, n, accuracy, points, ordinary
) -> None:
    """Noise rates of section 4 of the paper; accuracies of its row FWD-U, in whole percent (34.83,
    8.03, 23.85, 6.33).
    """
    found = 100 * zero_one_standard_error(n_classes=n_classes, noise=noise, accuracy=accuracy, n=n)
    assert round(found, 1) == points
    assert round(100 * math.sqrt(accuracy * (1 - accuracy) / n), 2) == ordinary


def test_standard_error_is_that_of_the_estimate() -> None:
    transition = Transition.noisy(10, 0.05)
    rng = np.random.default_rng(4)
    truth = rng.integers(10, size=40_000)
    predicted = np.where(
        rng.random(40_000) < 0.7, truth, (truth + rng.integers(1, 10, size=40_000)) % 10
    )
    said = draw_ruled_out(truth, transition=transition, rng=rng)
    found = estimate_model_accuracy(predicted, said, transition=transition, interval="wald")
    assert found.se == pytest.approx(
        zero_one_standard_error(n_classes=10, noise=0.05, accuracy=0.7, n=40_000), rel=0.02
    )
    with pytest.raises(SingularTransition):
        zero_one_standard_error(n_classes=10, noise=0.1, accuracy=0.7, n=100)


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("interval", ["betting", "wald"])
def test_plan_gives_the_power_it_says(name: str, interval) -> None:
    transition = MATRICES[name]
    disagreement = 0.8 * 0.3 + 0.7 * 0.2  # of models that err on their own
    plan = plan_validation(
        transition=transition,
        accuracy=0.8,
        difference=0.1,
        disagreement=disagreement,
        interval=interval,
    )
    assert plan.inputs["difference"] == pytest.approx(0.1, abs=1e-9)
    n = plan.buy["complementary"]
    found = [
        compare_models(
            *pair(transition, n, 0.8, 0.7, seed), transition=transition, interval=interval
        )
        .differences[0]
        .verdict
        for seed in range(100)
    ]
    assert 0.68 <= np.mean([v == "first" for v in found]) <= 0.92
    assert verify_validation_plan(plan)
    assert Plan.from_dict(json.loads(plan.to_json())).buy == plan.buy
    assert "plan for power" in str(plan)


def test_plan_from_a_pilot_agrees_with_one_from_guesses() -> None:
    transition = MATRICES["noisy"]
    a, b, said = pair(transition, 20_000, 0.8, 0.7)
    guess = plan_validation(
        transition=transition, accuracy=0.8, difference=0.1, disagreement=0.38, interval="wald"
    )
    pilot = plan_validation(
        transition=transition, pilot=(a, b, said), difference=0.1, interval="wald"
    )
    turned = plan_validation(
        transition=transition, pilot=(b, a, said), difference=0.1, interval="wald"
    )
    assert pilot.buy["complementary"] == pytest.approx(guess.buy["complementary"], rel=0.1)
    assert turned.buy == pilot.buy
    smaller = plan_validation(
        transition=transition, pilot=(a, b, said), difference=0.02, interval="wald"
    )
    assert smaller.buy["complementary"] > 20 * pilot.buy["complementary"]
    assert verify_validation_plan(pilot)


def test_plans_grow_with_noise_classes_power_and_confidence() -> None:
    def n(noise: float = 0.0, k: int = 10, power: float = 0.8, confidence: float = 0.95) -> int:
        plan = plan_validation(
            transition=Transition.noisy(k, noise),
            accuracy=0.8,
            difference=0.05,
            disagreement=0.2,
            power=power,
            confidence=confidence,
            interval="wald",
        )
        return plan.buy["complementary"]

    assert n() < n(0.03) < n(0.08)
    assert n(k=3) < n(k=10) < n(k=20)
    assert n(power=0.5) < n() < n(power=0.95)
    assert n(confidence=0.9) < n() < n(confidence=0.999)


def test_a_false_plan_is_not_verified() -> None:
    plan = plan_validation(
        transition="uniform", n_classes=10, accuracy=0.8, difference=0.1, disagreement=0.2
    )
    assert verify_validation_plan(plan)
    short = {"complementary": plan.buy["complementary"] // 3}
    assert not verify_validation_plan(dataclasses.replace(plan, buy=short, cost=plan.cost // 3))
    assert not verify_validation_plan(dataclasses.replace(plan, cost=1.0))


def test_faults_of_a_plan_are_named() -> None:
    for options, said in (
        ({"accuracy": 0.8}, "difference must be given"),
        ({}, "one of accuracy and pilot"),
        ({"accuracy": 0.8, "difference": 0.9}, "difference must be positive"),
        ({"accuracy": 0.8, "difference": 0.0}, "difference must be positive"),
        ({"accuracy": 0.8, "difference": 0.1, "disagreement": 0.05}, "at most the disagreement"),
        ({"accuracy": 0.8, "difference": 0.1, "power": 1.0}, "power must be"),
        ({"accuracy": 0.8, "difference": 0.1, "cost": 0}, "cost must be"),
        ({"pilot": ([0, 1], [0, 1], [2, 2])}, "pilot must have labels on which"),
    ):
        with pytest.raises(ArgumentError, match=said):
            plan_validation(transition="uniform", n_classes=4, **options)
    with pytest.raises(SingularTransition):
        plan_validation(transition=Transition.noisy(4, 0.25), accuracy=0.8, difference=0.1)
