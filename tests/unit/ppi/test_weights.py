"""Best linear unbiased weights, against least squares written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from noracle.errors import ArgumentError
from noracle.ppi.intervals import blue_weights, drop_useless


def random_cov(rng: np.random.Generator, k: int) -> np.ndarray:
    a = rng.standard_normal((k + 2, k))
    return a.T @ a / k


def least_squares(
    cov: np.ndarray,
    samples: list[tuple[int, ...]],
    n: list[int],
    target: np.ndarray,
    design: np.ndarray,
) -> float:
    """Variance of the generalised least squares estimate from all sample means stacked."""
    rows = np.vstack([design[list(s)] for s in samples])
    blocks = [cov[np.ix_(s, s)] / m for s, m in zip(samples, n, strict=True)]
    size = sum(len(s) for s in samples)
    noise = np.zeros((size, size))
    at = 0
    for b in blocks:
        noise[at : at + len(b), at : at + len(b)] = b
        at += len(b)
    root = np.linalg.cholesky(noise)
    pseudo = np.linalg.pinv(np.linalg.solve(root, rows))
    return float(np.sum((target @ pseudo) ** 2))


@pytest.mark.parametrize("seed", range(20))
def test_weights_sum_to_the_target_and_are_least_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    cov = random_cov(rng, k) * 10.0 ** rng.integers(-3, 4)
    every = [s for r in range(1, k + 1) for s in itertools.combinations(range(k), r)]
    samples = [tuple(range(k)), *[every[i] for i in rng.choice(len(every), size=4)]]
    n = [int(m) for m in rng.integers(2, 300, size=len(samples))]
    target = rng.standard_normal(k)
    found = blue_weights(cov, samples, n, target)
    total = np.zeros(k)
    for columns, weight in zip(samples, found.samples, strict=True):
        total[list(columns)] += weight
    assert np.abs(total - target).max() <= 1e-10
    assert float(found.variance) == pytest.approx(
        least_squares(cov, samples, n, target, np.eye(k)), rel=1e-8
    )
    spent = sum(
        w @ cov[np.ix_(s, s)] @ w / m for s, w, m in zip(samples, found.samples, n, strict=True)
    )
    assert float(found.variance) == pytest.approx(spent, rel=1e-9)


def test_two_columns_may_share_a_mean() -> None:
    cov = np.diag([1.0, 4.0])
    design = np.array([[1.0], [1.0]])
    found = blue_weights(cov, [(0,), (1,)], [10, 40], np.array([1.0]), design=design)
    assert [float(w[0]) for w in found.samples] == pytest.approx([0.5, 0.5])
    assert float(found.variance) == pytest.approx(0.05)


def test_worlds_go_together() -> None:
    rng = np.random.default_rng(2)
    covs = np.stack([random_cov(rng, 3) for _ in range(5)])
    n = rng.integers(2, 50, size=5).astype(float)
    batch = blue_weights(covs, [(0, 1, 2), (1,)], [n, 2 * n], np.eye(3)[0])
    for world in range(5):
        one = blue_weights(covs[world], [(0, 1, 2), (1,)], [n[world], 2 * n[world]], np.eye(3)[0])
        assert np.allclose(batch.samples[0][world], one.samples[0])
        assert float(batch.variance[world]) == pytest.approx(float(one.variance))


def test_labels_alone_are_enough() -> None:
    """M is singular where nothing observes a rater; the target does not need it."""
    found = blue_weights(np.diag([0.25, 1.0]), [(0,)], [100], np.array([1.0, 0.0]))
    assert float(found.variance) == pytest.approx(0.0025)
    assert found.samples[0].tolist() == pytest.approx([1.0])


@pytest.mark.parametrize("n", [[0, 50], [0, 0]])
def test_uncovered_target_is_an_error_not_a_zero(n: list[int]) -> None:
    """The printed pseudo-inverse formula returns weights that sum to 0 here."""
    cov = np.array([[1.0, 0.5], [0.5, 1.0]])
    printed = np.linalg.pinv(n[1] * np.diag([0.0, 1.0])) @ np.array([1.0, 0.0])
    assert np.allclose(printed, 0)
    with pytest.raises(ArgumentError, match="must be covered"):
        blue_weights(cov, [(0, 1), (1,)], n, np.array([1.0, 0.0]))


def test_singular_covariance_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="positive definite"):
        blue_weights(np.ones((2, 2)), [(0, 1)], [10], np.array([1.0, 0.0]))


def chain(correlations: list[float]) -> np.ndarray:
    cov = np.eye(len(correlations) + 1)
    cov[0, 1:] = cov[1:, 0] = correlations
    return cov


def test_noise_is_dropped_and_help_is_kept() -> None:
    cov = chain([0.7, 0.02])
    changed, dropped = drop_useless(
        cov, [(0, 1, 2), (1, 2)], [100, 5000], np.eye(3)[0], (1, 2), 100
    )
    assert dropped.tolist() == [False, False, True]
    assert changed[0, 2] == 0
    assert changed[0, 1] == 0.7
    weights = blue_weights(changed, [(0, 1, 2), (1, 2)], [100, 5000], np.eye(3)[0])
    assert weights.samples[0][2] == pytest.approx(0)
    assert abs(weights.samples[0][1]) > 0.6


def test_one_of_two_twins_stays() -> None:
    cov = np.array([[1.0, 0.6, 0.6], [0.6, 1.0, 1 - 1e-7], [0.6, 1 - 1e-7, 1.0]])
    _, dropped = drop_useless(cov, [(0, 1, 2), (1, 2)], [100, 5000], np.eye(3)[0], (1, 2), 100)
    assert dropped.sum() == 1


def test_rule_is_the_partial_r2_where_means_are_known() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        cov = random_cov(rng, 4)
        inverse = np.linalg.inv(cov)
        partial = [inverse[0, j] ** 2 / (inverse[0, 0] * inverse[j, j]) for j in (1, 2, 3)]
        worst = int(np.argmin(partial))
        for labelled, goes in ((1 / partial[worst] + 3, True), (1 / partial[worst] + 5, False)):
            _, dropped = drop_useless(
                cov, [(0, 1, 2, 3), (1, 2, 3)], [labelled, 1e12], np.eye(4)[0], (1, 2, 3), labelled
            )
            assert bool(dropped[1 + worst]) is goes


def test_redundant_rater_stays_where_it_is_cheap() -> None:
    """Given the dear rater the cheap one tells nothing new, but it was seen 100 times as often: the
    partial R² alone would drop it.
    """
    cov = np.array([[1.0, 0.8, 0.72], [0.8, 1.0, 0.9], [0.72, 0.9, 1.0]])
    inverse = np.linalg.inv(cov)
    assert inverse[0, 2] ** 2 / (inverse[0, 0] * inverse[2, 2]) < 1e-12
    samples, n = [(0, 1, 2), (1,), (2,)], [200, 100, 10_000]
    _, dropped = drop_useless(cov, samples, n, np.eye(3)[0], (1, 2), 200)
    assert not dropped[2]
    without = blue_weights(cov[:2, :2], [(0, 1), (1,)], [200, 100], np.eye(2)[0]).variance
    assert float(blue_weights(cov, samples, n, np.eye(3)[0]).variance) < 0.7 * float(without)
