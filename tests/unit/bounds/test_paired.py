"""Differences of two systems on the same items: the limits cover, the naive ones do not, and
"better" has the power of the sign test.
"""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from scipy.stats import binomtest, multinomial

from noracle.bounds.betting import Score, betting_interval
from noracle.bounds.binomial import clopper_pearson
from noracle.bounds.paired import _tail, at_most_as_good, difference_limits


def naive(wins: int, losses: int, n: int, below: float, above: float) -> tuple[float, float]:
    """(d/n)·(2θ - 1) with Clopper–Pearson for θ: takes the discordance as known."""
    d = wins + losses
    low, high = clopper_pearson(wins, d, below, above) if d else (0.0, 1.0)
    return d / n * (2 * low - 1), d / n * (2 * high - 1)


def law(n: int, p10: float, p01: float) -> list[tuple[int, int, float]]:
    """Every (wins, losses) with its probability."""
    p = [p10, p01, max(0.0, 1 - p10 - p01)]
    pairs = [(b, c) for b in range(n + 1) for c in range(n + 1 - b)]
    mass = multinomial.pmf([(b, c, n - b - c) for b, c in pairs], n, np.array(p) / sum(p))
    return [(b, c, float(m)) for (b, c), m in zip(pairs, mass, strict=True)]


CORNERS = [(a / 8, b / 8) for a, b in itertools.product(range(9), repeat=2) if a + b <= 8] + [
    (0.01, 0.0),
    (0.97, 0.02),
    (0.5, 0.49),
]


@pytest.mark.parametrize("n", [1, 2, 5, 12])
@pytest.mark.parametrize("tail", [0.025, 0.1])
def test_each_limit_covers_by_enumeration(n: int, tail: float) -> None:
    found = {
        (b, c): difference_limits(b, c, n, tail, tail)
        for b in range(n + 1)
        for c in range(n + 1 - b)
    }
    assert not any(limits.empty for limits in found.values())
    for p10, p01 in CORNERS:
        delta = p10 - p01
        below = sum(m for b, c, m in law(n, p10, p01) if found[b, c].low > delta + 1e-12)
        above = sum(m for b, c, m in law(n, p10, p01) if found[b, c].high < delta - 1e-12)
        assert below <= tail + 1e-9, (p10, p01)
        assert above <= tail + 1e-9, (p10, p01)


def test_naive_limits_fail_the_same_enumeration() -> None:
    worst = max(
        sum(
            m
            for b, c, m in law(12, p10, p01)
            if not naive(b, c, 12, 0.1, 0.1)[0] <= p10 - p01 <= naive(b, c, 12, 0.1, 0.1)[1]
        )
        for p10, p01 in CORNERS
    )
    assert worst > 0.4


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    ("n", "p10", "p01"),
    [(100, 0.12, 0.05), (100, 0.5, 0.45), (100, 0.3, 0.0), (1000, 0.1, 0.1), (200, 0.6, 0.3)],
)
def test_limits_cover_in_simulation_and_naive_ones_need_not(n: int, p10: float, p01: float) -> None:
    rng = np.random.default_rng(n)
    counts, times = np.unique(
        rng.multinomial(n, [p10, p01, 1 - p10 - p01], size=400)[:, :2], axis=0, return_counts=True
    )
    limits = [difference_limits(int(b), int(c), n, 0.05, 0.05) for b, c in counts]
    missed = sum(
        int(k) for k, x in zip(times, limits, strict=True) if not x.low <= p10 - p01 <= x.high
    )
    assert binomtest(missed, 400, 0.1, alternative="greater").pvalue > 1e-3
    if p01 == 0:
        known = [naive(int(b), int(c), n, 0.05, 0.05) for b, c in counts]
        assert (
            sum(
                int(k)
                for k, (low, high) in zip(times, known, strict=True)
                if not low <= p10 - p01 <= high
            )
            > 100
        )


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize(
    ("p10", "p01"), [(0.05, 0.05), (0.2, 0.1), (0.02, 0.0), (0.35, 0.3), (0.1, 0.7)]
)
def test_limits_cover_in_5000_worlds(n: int, p10: float, p01: float) -> None:
    rng = np.random.default_rng(n + 1)
    counts, times = np.unique(
        rng.multinomial(n, [p10, p01, 1 - p10 - p01], size=5000)[:, :2], axis=0, return_counts=True
    )
    limits = [difference_limits(int(b), int(c), n, 0.025, 0.025) for b, c in counts]
    for side in (lambda x: x.low > p10 - p01, lambda x: x.high < p10 - p01):
        missed = sum(int(k) for k, x in zip(times, limits, strict=True) if side(x))
        assert binomtest(missed, 5000, 0.025, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize(
    ("t", "n", "delta"), [(9, 60, 0.02), (3, 12, -0.1), (40, 90, 0.3), (1, 5, 0.0)]
)
def test_tail_rises_with_the_discordance_up_to_the_bound_of_the_proof(
    t: int, n: int, delta: float
) -> None:
    tails = [
        _tail(t, n, delta, psi) for psi in np.linspace(abs(delta) + 1e-9, (1 + delta**2) / 2, 60)
    ]
    assert np.all(np.diff(tails) >= -1e-10)


def test_tail_need_not_rise_beyond_it() -> None:
    """With every item discordant B - C has the parity of n: cells are needed."""
    tails = [_tail(2, 3, 0.0, psi) for psi in np.linspace(0.5, 1.0, 60)]
    assert np.min(np.diff(tails)) < 0


@pytest.mark.parametrize(
    ("t", "n", "p10", "p01"),
    [(1, 7, 0.3, 0.2), (-2, 9, 0.1, 0.6), (3, 3, 0.9, 0.1), (0, 4, 0.0, 0.0)],
)
def test_tail_is_that_of_the_enumerated_law(t: int, n: int, p10: float, p01: float) -> None:
    wanted = sum(m for b, c, m in law(n, p10, p01) if b - c >= t)
    assert _tail(t, n, p10 - p01, p10 + p01) == pytest.approx(wanted, abs=1e-9)


def test_better_has_the_power_of_the_sign_test() -> None:
    rng = np.random.default_rng(4)
    decided = agreed = 0
    for n, p10, p01 in ((50, 0.3, 0.1), (200, 0.1, 0.04), (1000, 0.06, 0.035), (1000, 0.35, 0.29)):
        for b, c, _ in rng.multinomial(n, [p10, p01, 1 - p10 - p01], size=40):
            decided += at_most_as_good(int(b), int(c)) <= 0.025
            agreed += difference_limits(int(b), int(c), n, 0.025, 0.025).low > 0
    assert decided > 60
    assert agreed >= 0.98 * decided


def test_exchanging_the_systems_mirrors_the_limits() -> None:
    one, two = (
        difference_limits(30, 12, 200, 0.05, 0.01),
        difference_limits(12, 30, 200, 0.01, 0.05),
    )
    assert (one.low, one.high) == (-two.high, -two.low)


def test_ends_are_honest() -> None:
    assert (
        difference_limits(0, 0, 0, 0.025, 0.025).low,
        difference_limits(0, 0, 0, 0.025, 0.025).high,
    ) == (-1.0, 1.0)
    assert (
        difference_limits(5, 3, 10, 0.0, 0.0).low,
        difference_limits(5, 3, 10, 0.0, 0.0).high,
    ) == (-1.0, 1.0)
    everything = difference_limits(100, 0, 100, 0.025, 0.025)
    assert everything.low > 0.9
    assert everything.high == 1.0
    nothing = difference_limits(0, 0, 1000, 0.025, 0.025)
    assert -0.01 < nothing.low < 0 < nothing.high < 0.01


def test_more_confidence_is_not_narrower() -> None:
    for b, c, n in ((20, 9, 150), (90, 60, 200)):
        widths = [
            x.high - x.low
            for x in (difference_limits(b, c, n, tail, tail) for tail in (0.1, 0.05, 0.01, 0.001))
        ]
        assert widths == sorted(widths)


def test_sign_test_is_the_exact_binomial_test() -> None:
    for b, c in ((15, 5), (3, 3), (0, 7), (40, 61)):
        wanted = binomtest(b, b + c, alternative="greater").pvalue
        assert at_most_as_good(b, c) == pytest.approx(wanted, abs=1e-12)
    assert at_most_as_good(0, 0) == 1.0


@pytest.mark.parametrize(
    ("b", "c", "n"), [(60, 35, 500), (150, 120, 1000), (900, 850, 5000), (480, 430, 1000)]
)
def test_limits_are_narrower_than_those_for_streams_and_near_the_normal_ones(
    b: int, c: int, n: int
) -> None:
    limits = difference_limits(b, c, n, 0.025, 0.025)
    rows = [Score(1.0, -1.0, 1.0, b), Score(-1.0, -1.0, 1.0, c), Score(0.0, -1.0, 1.0, n - b - c)]
    low, high = betting_interval(rows, 0.025, 0.025, floor=-1.0)
    normal = 2 * 1.96 * math.sqrt(((b + c) / n - ((b - c) / n) ** 2) / n)
    assert limits.high - limits.low < 0.75 * (high - low)
    assert normal < limits.high - limits.low < 1.25 * normal


@pytest.mark.full
@pytest.mark.timing
def test_limits_of_5000_items_are_quick() -> None:
    difference_limits(600, 500, 5000, 0.025, 0.025)
    start = time.process_time()
    for _ in range(5):
        difference_limits(600, 500, 5000, 0.025, 0.025)
    assert (time.process_time() - start) / 5 < 0.2  # measured: 0.01
