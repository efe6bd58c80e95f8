"""Limits with stakes for a fixed number of labels: exact coverage by enumeration, and the range of
spreads.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from noracle.learn.scores import score_table
from noracle.learn.transition import Transition
from noracle.learn.validation import fixed_n_limits, spread_range

T = np.array(
    [[0.05, 0.6, 0.15, 0.2], [0.3, 0.0, 0.5, 0.2], [0.1, 0.2, 0.1, 0.6], [0.45, 0.25, 0.3, 0.0]]
)


@pytest.mark.parametrize("n", [1, 2, 5, 20, 100, 400])
@pytest.mark.parametrize("least", [-1.0, -3.0, -9.0])
@pytest.mark.parametrize("spread", [(0.5, 1.0), (0.05, 3.0), (2.0, 4.0), (0.0, 100.0)])
def test_two_valued_scores_are_covered_on_both_sides(n: int, least: float, spread) -> None:
    """Every number of hits, every mean on a grid: each side misses with probability at most its
    tail, however wrong the spread is.
    """
    limits = [
        fixed_n_limits(
            np.repeat([least, 1.0], [h, n - h]),
            least=least,
            greatest=1.0,
            spread=spread,
            below=0.025,
            above=0.025,
        )
        for h in range(n + 1)
    ]
    for mean in np.linspace(0, 1, 41):
        chances = binom.pmf(np.arange(n + 1), n, (1 - mean) / (1 - least))
        above = sum(p for p, limit in zip(chances, limits, strict=True) if limit.low > mean + 1e-9)
        below = sum(p for p, limit in zip(chances, limits, strict=True) if limit.high < mean - 1e-9)
        assert above <= 0.025 + 1e-9, (mean, above)
        assert below <= 0.025 + 1e-9, (mean, below)


def test_width_is_a_little_more_than_a_normal_one() -> None:
    values = np.repeat([-9.0, 1.0], [200, 9800])
    limits = fixed_n_limits(
        values, least=-9.0, greatest=1.0, spread=(1.0, 2.0), below=0.025, above=0.025
    )
    normal = 2 * 1.96 * values.std() / 100
    assert 1.35 < (limits.high - limits.low) / normal < 1.45


def test_scores_that_fit_no_mean_are_empty_and_none_leave_all() -> None:
    assert fixed_n_limits(
        np.full(50, -3.0), least=-3.0, greatest=1.0, spread=(1.0, 2.0), below=0.025, above=0.025
    ).empty
    assert fixed_n_limits(
        np.full(50, 5.0), least=-3.0, greatest=5.0, spread=(1.0, 2.0), below=0.025, above=0.025
    ).empty
    free = fixed_n_limits(
        np.zeros(0), least=-3.0, greatest=1.0, spread=(1.0, 2.0), below=0.025, above=0.025
    )
    assert (free.low, free.high, free.empty) == (0, 1, False)


def test_scores_that_cannot_be_negative_still_have_a_lower_limit() -> None:
    """Labels that always rule out the true class are ordinary labels: T = I."""
    limits = fixed_n_limits(
        np.ones(200), least=0.0, greatest=1.0, spread=(0.0, 1.0), below=0.025, above=0.025
    )
    assert 0.9 < limits.low < limits.high == 1


@pytest.mark.parametrize(
    "matrix", [T, Transition.noisy(4, 0.1).matrix, Transition.uniform(4).matrix]
)
@pytest.mark.parametrize(("fewest", "most"), [(1, 1), (1, 3), (2, 2)])
def test_spread_range_holds_every_standard_deviation(matrix, fewest: int, most: int) -> None:
    """Random joint chances of truth and answer, and numbers of labels: the exact standard deviation
    lies inside.
    """
    transition = Transition(matrix)
    scores = score_table(transition)[:, :-1]
    low, high = spread_range(transition, scores, fewest, most)
    rng = np.random.default_rng(1)
    k = len(matrix)
    for concentration, s in product((0.05, 0.3, 3.0), range(fewest, most + 1)):
        for joint in rng.dirichlet(np.full(k * k, concentration), size=50).reshape(-1, k, k):
            accuracy = np.trace(joint)
            right = np.eye(k)
            within = (
                (matrix @ scores**2) - right
            ) / s  # variance of the mean of s labels, given truth and answer
            variance = float((joint * within).sum() + accuracy * (1 - accuracy))
            assert low - 1e-9 <= np.sqrt(max(variance, 0)) <= high + 1e-9
