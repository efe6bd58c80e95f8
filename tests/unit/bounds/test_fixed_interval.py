"""Limits at a fixed number of scores: valid, narrower than the mixture, and a root of a falling
wealth.
"""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from noracle.bounds import betting
from noracle.bounds.betting import Score, betting_interval, fixed_interval

TAIL = 0.025


def rows(values: np.ndarray, low: float, high: float) -> list[Score]:
    distinct, counts = np.unique(values, return_counts=True)
    return [Score(float(v), low, high, int(c)) for v, c in zip(distinct, counts, strict=True)]


def draw(law: str, n: int, rng: np.random.Generator) -> list[Score]:
    name, *numbers = law.split()
    if name == "bernoulli":
        return rows((rng.random(n) < float(numbers[0])).astype(float), 0.0, 1.0)
    if name == "complementary":
        k, a = int(numbers[0]), float(numbers[1])
        return rows(1 - (k - 1.0) * (rng.random(n) < (1 - a) / (k - 1)), 2.0 - k, 1.0)
    return rows(rng.beta(float(numbers[0]), float(numbers[1]), n), 0.0, 1.0)


def mean(law: str) -> float:
    name, *numbers = law.split()
    if name == "beta":
        return float(numbers[0]) / (float(numbers[0]) + float(numbers[1]))
    return float(numbers[-1])


LAWS = [
    "bernoulli 0.7",
    "bernoulli 0.98",
    "complementary 4 0.5",
    "complementary 10 0.9",
    "beta 0.5 4.5",
    "beta 10 1",
]


def misses(law: str, n: int, worlds: int, tail: float = 0.1) -> tuple[int, int]:
    """How often the true mean is below the lower and above the upper limit."""
    rng = np.random.default_rng(n)
    limits = np.array(
        [fixed_interval(draw(law, n, rng), tail, tail, orders=8) for _ in range(worlds)]
    )
    return int(np.sum(mean(law) < limits[:, 0])), int(np.sum(mean(law) > limits[:, 1]))


@pytest.mark.thin(2)
@pytest.mark.parametrize("law", LAWS)
def test_each_limit_misses_at_most_its_error(law: str) -> None:
    for count in misses(law, 60, 150):
        assert binomtest(count, 150, 0.1, alternative="greater").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 300])
@pytest.mark.parametrize("law", LAWS)
def test_each_limit_misses_at_most_its_error_in_2000_worlds(law: str, n: int) -> None:
    for count in misses(law, n, 2000):
        assert binomtest(count, 2000, 0.1, alternative="greater").pvalue > 1e-3


def wealth(scores: list[Score], at: float, *, orders: int = 3, seed: int = 0) -> float:
    """The averaged wealth against "at most ``at``", from the parts that the limit is made of."""
    ranked = sorted(scores, key=lambda s: (s.value, s.low, s.high))
    value, low, far = (
        np.array(x)
        for x in zip(
            *[
                (s.value, s.low, s.high if s.high < math.inf else s.low + 4 * (1 - s.low))
                for s in ranked
            ],
            strict=True,
        )
    )
    n = np.array([s.n for s in ranked])
    rng = np.random.default_rng(seed)
    order = np.stack([rng.permutation(np.repeat(np.arange(len(n)), n)) for _ in range(orders)])
    bets = betting._plug_in_bets(order, value, low, far, n, math.log(1 / TAIL))
    return math.exp(betting._log_average_wealth(value[order], bets, low[order], at))


@pytest.mark.parametrize(("n", "low"), [(5, 0.0), (8, -2.0), (9, -8.0)])
def test_expected_wealth_is_one_at_the_mean_by_enumeration(n: int, low: float) -> None:
    """One order of independent scores is as good as any, so the expectation of each order's wealth
    is exactly 1 while no bet is cut.
    """
    p = 0.7
    mean_ = low + p * (1 - low)
    total = 0.0
    for ones in itertools.product((0, 1), repeat=n):
        order = np.array(ones)[None, :]
        value, ends, far = np.array([low, 1.0]), np.full(2, low), np.ones(2)
        bets = betting._plug_in_bets(
            order, value, ends, far, np.array([n - sum(ones), sum(ones)]), math.log(1 / TAIL)
        )
        total += (
            p ** sum(ones)
            * (1 - p) ** (n - sum(ones))
            * math.exp(betting._log_average_wealth(value[order], bets, low, mean_))
        )
    assert total == pytest.approx(1.0, abs=1e-9)


@pytest.mark.thin(3)
@pytest.mark.parametrize("law", LAWS)
def test_wealth_falls_in_the_mean(law: str) -> None:
    scores = draw(law, 40, np.random.default_rng(3))
    mixed = [
        *scores,
        Score(1.0, -3.0, 1.0, 20),
        Score(-3.0, -3.0, 1.0, 2),
        Score(2.5, 0.0, math.inf, 7),
    ]
    for evidence in (scores, mixed):
        start = max(s.low for s in evidence)
        path = [wealth(evidence, float(m)) for m in np.linspace(start + 1e-6, 1.5, 300)]
        assert np.all(np.diff(path) <= 1e-12 * np.array(path[:-1]))
        low = fixed_interval(evidence, TAIL, 0.0, orders=3)[0]
        if 0 < low < 1:
            assert wealth(evidence, low) >= 1 / TAIL > wealth(evidence, low + 1e-5)


def test_bets_know_nothing_of_later_scores() -> None:
    rng = np.random.default_rng(0)
    for n in (200, 1300):  # revised at every step, and at every third
        order = rng.integers(0, 2, (2, n))
        other = order.copy()
        other[:, n // 2 :] = 1 - other[:, n // 2 :]
        parts = (np.array([0.0, 1.0]), np.zeros(2), np.ones(2), np.array([n // 2, n - n // 2]), 3.7)
        one, two = betting._plug_in_bets(order, *parts), betting._plug_in_bets(other, *parts)
        assert np.array_equal(one[:, : n // 2 + 1], two[:, : n // 2 + 1])
        assert not np.allclose(one[:, -1], two[:, -1])


def test_bets_approach_those_of_waudby_smith_and_ramdas() -> None:
    rng = np.random.default_rng(1)
    n = 20_000
    order = (rng.random((1, n)) < 0.3).astype(int)
    bets = betting._plug_in_bets(
        order,
        np.array([0.0, 1.0]),
        np.zeros(2),
        np.ones(2),
        np.array([n - order.sum(), order.sum()]),
        math.log(40),
    )
    assert bets[0, -1] == pytest.approx(math.sqrt(2 * math.log(40) / (n * 0.3 * 0.7)), rel=0.03)


def test_order_of_rows_changes_nothing_and_exchange_mirrors() -> None:
    evidence = [
        Score(1.0, -2.0, 1.0, 70),
        Score(-2.0, -2.0, 1.0, 9),
        Score(0.4, 0.0, 1.0, 30),
        Score(1.0, -2.0, 1.0, 3),
    ]
    limits = fixed_interval(evidence, 0.05, 0.01)
    assert fixed_interval(evidence[::-1], 0.05, 0.01) == limits
    mirrored = [Score(-s.value, -s.high, -s.low, s.n) for s in evidence]
    low, high = fixed_interval(mirrored, 0.01, 0.05, floor=-1.0, ceiling=0.0)
    assert (-high, -low) == limits


def test_ends_that_are_not_bet_against_may_be_infinite() -> None:
    low, high = fixed_interval(
        [Score(0.0, 0.0, math.inf, 150), Score(4.0, 0.0, math.inf, 50)], 0.05, 0.05
    )
    assert 0.6 < low < 1.0
    assert high == 1.0
    assert fixed_interval([Score(9.0, 0.0, math.inf, 200)], 0.05, 0.0)[0] == 1.0


def test_no_scores_and_no_error_exclude_nothing() -> None:
    assert fixed_interval([], TAIL, TAIL) == (0.0, 1.0)
    assert fixed_interval([Score(1.0, 0.0, 1.0, 0)], TAIL, TAIL, floor=-1.0) == (-1.0, 1.0)
    assert fixed_interval([Score(1.0, 0.0, 1.0, 50)], 0.0, 0.0) == (0.0, 1.0)
    assert fixed_interval([Score(1.0, 0.0, 1.0, 1)], TAIL, 0.0)[0] <= TAIL
    low, high = fixed_interval([Score(1.0, 0.0, 1.0, 200)], TAIL, TAIL)
    assert 0.97 < low < 0.025 ** (1 / 200) + 1e-9
    assert high == 1.0


def test_more_confidence_is_not_narrower() -> None:
    evidence = draw("complementary 4 0.8", 300, np.random.default_rng(5))
    widths = [
        np.subtract(*fixed_interval(evidence, tail, tail)[::-1])
        for tail in (0.1, 0.05, 0.025, 0.005)
    ]
    assert widths == sorted(widths)


@pytest.mark.parametrize(
    "law", ["complementary 4 0.7", "complementary 10 0.7", "beta 0.5 4.5", "bernoulli 0.7"]
)
def test_width_is_at_most_that_of_the_mixture_with_two_thirds_of_the_labels(law: str) -> None:
    rng = np.random.default_rng(11)
    ours = np.mean(
        [np.subtract(*fixed_interval(draw(law, 1300, rng), TAIL, TAIL)[::-1]) for _ in range(12)]
    )
    peer = np.mean(
        [np.subtract(*betting_interval(draw(law, 2000, rng), TAIL, TAIL)[::-1]) for _ in range(12)]
    )
    assert ours <= 1.03 * peer


def test_two_kinds_of_score_are_weighted_by_their_precision() -> None:
    rng = np.random.default_rng(2)
    ordinary, complementary = (
        draw("bernoulli 0.8", 300, rng),
        draw("complementary 10 0.8", 2700, rng),
    )
    both, alone, other = (
        np.subtract(*fixed_interval(e, TAIL, TAIL)[::-1])
        for e in (ordinary + complementary, ordinary, complementary)
    )
    assert both < 1.05 / math.sqrt(1 / alone**2 + 1 / other**2)


@pytest.mark.thin(2)
@pytest.mark.parametrize("law", ["bernoulli 0.95", "complementary 10 0.5", "beta 10 1"])
@pytest.mark.parametrize("n", [50, 3000])
def test_seeds_move_the_limits_by_at_most_a_twentieth_of_the_width(law: str, n: int) -> None:
    evidence = draw(law, n, np.random.default_rng(0))
    limits = np.array([fixed_interval(evidence, TAIL, TAIL, seed=seed) for seed in range(20)])
    assert np.ptp(limits, axis=0).max() <= 0.05 * np.diff(limits.mean(axis=0))[0]


def test_never_narrower_than_exact_limits_can_be() -> None:
    """Below the exact one-sided test no valid test can go by much: a guard against a wealth that is
    too large.
    """
    n, hits = 400, 280
    low = fixed_interval([Score(1.0, 0.0, 1.0, hits), Score(0.0, 0.0, 1.0, n - hits)], TAIL, 0.0)[0]
    assert binom.sf(hits - 1, n, low) < TAIL


@pytest.mark.full
def test_many_scores_take_bounded_memory_and_time() -> None:
    evidence = [Score(1.0, 0.0, 1.0, 140_000), Score(0.0, 0.0, 1.0, 60_000)]
    start = time.process_time()
    low, high = fixed_interval(evidence, TAIL, TAIL)
    assert time.process_time() - start < 10
    assert 0.69 < low < 0.7 < high < 0.71
