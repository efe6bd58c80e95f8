"""The e-detector is the sum over all starts, and the set for the change that of its tests."""

from __future__ import annotations

import math

import numpy as np
import pytest

from noracle.bounds.drift import _BETS, _WEIGHTS, _best_wealth, change_points, detector_path


def by_hand(x: np.ndarray, high: np.ndarray, level: float) -> list[float]:
    """Σ_k w_k Σ_j Π_{i=j..t} (1 + θ_k·(a - x_i)/(h_i - a)), sum by sum."""
    factor = 1 + np.multiply.outer(_BETS, (level - x) / (high - level))
    n = len(x)
    return [
        sum(float(_WEIGHTS @ factor[:, j : t + 1].prod(axis=1)) for j in range(t + 1))
        for t in range(n)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_path_is_the_sum_over_all_starts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    high = rng.uniform(1, 1.8, 40)
    x = np.minimum(rng.normal(0.6, 0.6, 40), high)
    assert np.allclose(detector_path(x, high, 0.7), by_hand(x, high, 0.7), rtol=1e-12)


def test_streams_beside_each_other_are_those_alone() -> None:
    rng = np.random.default_rng(2)
    x = (rng.random((60, 3)) < 0.7).astype(float)
    together = detector_path(x, 1.0, 0.8)
    assert np.allclose(together, np.stack([detector_path(c, 1.0, 0.8) for c in x.T], axis=1), 1e-12)


def test_a_prefix_has_the_same_path_bit_for_bit() -> None:
    x = (np.random.default_rng(3).random(300) < 0.8).astype(float)
    whole = detector_path(x, 1.0, 0.8)
    assert all(np.array_equal(detector_path(x[:n], 1.0, 0.8), whole[:n]) for n in (0, 1, 57, 299))


def test_path_stays_finite_for_ever() -> None:
    path = detector_path(np.repeat([0.0, 1.0], 4000), 1.0, 0.9)
    assert np.isfinite(path).all()
    assert path[3999] > 1e200


def test_wealth_from_each_start_is_close_to_the_best_of_all_ends() -> None:
    gain = (np.random.default_rng(4).random(80) < 0.4) / 0.6 - 0.5
    factor = 1 + np.multiply.outer(_BETS, gain)
    found = _best_wealth(gain)
    for j in range(80):
        ends = [math.log(float(_WEIGHTS @ factor[:, j : n + 1].prod(axis=1))) for n in range(j, 80)]
        assert max(ends) - 0.5 <= found[j] <= max(ends) + 1e-9


def test_a_bet_that_lost_everything_stays_lost() -> None:
    # With θ = 1 and x = h nothing is left; other bets go on.
    assert np.isfinite(_best_wealth(np.array([-1.0, 5.0, 5.0]))).all()


def test_change_points_find_a_plain_change_and_never_fail() -> None:
    right = np.repeat([1.0, 0.0], [200, 15])
    first, last = change_points((right, 0.0), (right, 1.0), 0.8, 0.05)
    assert first <= 200 <= last
    assert first > 170
    assert last < 208
    for n in (1, 2):
        assert change_points((np.zeros(n), 0.0), (np.zeros(n), 1.0), 0.8, 0.05) == (0, n - 1)


def test_labels_that_fell_twice_leave_nothing_out() -> None:
    right = np.repeat([1.0, 0.0, 1.0, 0.0], [300, 60, 300, 60])
    first, last = change_points((right, 0.0), (right, 1.0), 0.8, 0.05)
    assert 0 <= first <= last < len(right)
