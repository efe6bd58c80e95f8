"""The error rate of decisions that go on for years, against enumeration of histories."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import multivariate_hypergeom

from noracle.bounds.binomial import hypergeometric_limits
from noracle.bounds.histories import history_share, step_error
from noracle.bounds.paired import finite_difference

OUTCOMES = ("pass", "fail", "undecided")


def histories(n: int, most: int | None = None) -> Iterator[int]:
    """The unusual outcomes of each history that may be."""
    for history in itertools.product(OUTCOMES, repeat=n):
        unusual = sum(outcome != "pass" for outcome in history)
        if most is None or unusual <= most:
            yield unusual


@pytest.mark.parametrize("n", range(8))
@pytest.mark.parametrize("most", [None, 0, 1, 3])
def test_the_parts_of_all_histories_add_up_to_at_most_one(n: int, most: int | None) -> None:
    total = math.fsum(history_share(n, unusual, most) for unusual in histories(n, most))
    if most is None:
        assert total == pytest.approx(1 - 2.0 ** -(n + 1))  # Σ 2^-(i+1) over i = 0 … n
    else:
        assert total == pytest.approx(1)


def test_a_history_with_too_many_unusual_outcomes_gets_nothing() -> None:
    assert history_share(10, 3, most=2) == 0
    assert history_share(4000, 2000) >= 0  # no overflow; too small for a float is 0


def test_steps_spend_the_error_rate_for_ever_and_no_more() -> None:
    steps = [step_error(t, 0.05) for t in range(1, 20_001)]
    assert 0.0499 < math.fsum(steps) < 0.05
    assert step_error(3, 0.05, left=0.05 - sum(steps[:2])) == pytest.approx(steps[2])
    left = 0.001  # merges left less than the plan had
    after = [left := left - step_error(t, 0.05, left=left) for t in range(3, 2000)]
    assert 0 < after[-1] < after[0] < 0.001
    assert step_error(9, 0.05, left=-0.01) == 0
    assert steps[49] == pytest.approx(6 * 0.05 / (math.pi**2 * 2500))
    assert math.fsum(step_error(t, 0.05, branches=4) for t in [1, 1, 1, 1, 2, 2]) < 0.05


@pytest.mark.parametrize(("size", "n"), [(6, 3), (7, 7), (9, 4), (12, 5), (12, 1)])
@pytest.mark.parametrize("tail", [0.025, 0.1])
def test_finite_difference_covers_by_enumeration(size: int, n: int, tail: float) -> None:
    for wins in range(size + 1):
        for losses in range(size + 1 - wins):
            truth = (wins - losses) / size
            law = multivariate_hypergeom([wins, losses, size - wins - losses], n)
            below = above = 0.0
            for b in range(min(wins, n) + 1):
                for c in range(min(losses, n - b) + 1):
                    if n - b - c > size - wins - losses:
                        continue
                    limits = finite_difference(b, c, n, size, tail, tail)
                    mass = float(law.pmf([b, c, n - b - c]))
                    below += mass * (limits.low > truth + 1e-12)
                    above += mass * (limits.high < truth - 1e-12)
            assert below <= tail + 1e-9
            assert above <= tail + 1e-9


def test_finite_difference_narrows_to_nothing_and_is_not_vacuous() -> None:
    whole = finite_difference(3, 5, 20, 20, 0.01, 0.01)
    assert whole.low == pytest.approx(-0.1)
    assert whole.high == pytest.approx(-0.1)
    part = finite_difference(5, 50, 100, 1000, 1e-5, 1e-5)
    assert part.high < -0.05
    endless = finite_difference(5, 50, 100, None, 1e-5, 1e-5)
    assert endless.low < part.low < part.high < endless.high < 0


def test_hypergeometric_limits_keep_tiny_tails() -> None:
    rng = np.random.default_rng(0)
    for size, n in ((10_000, 400), (1000, 700)):
        for tail in (1e-6, 1e-12, 1e-20):
            right = int(rng.integers(size // 4, 3 * size // 4))
            s = int(n * right / size)
            low, high = hypergeometric_limits(s, n, size, tail, tail)
            assert 0 <= low < right / size < high <= 1
            assert high - low < 1
