"""Covariances out of additive sums."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import LedoitWolf

from noracle.errors import EvidenceError
from noracle.ppi.covariance import FLOOR, Moments, lift, pilot_covariance, pilot_moments


def rows_of(n: int, k: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mix = rng.standard_normal((k, k))
    return rng.standard_normal((n, k)) @ mix + rng.standard_normal(k)


@pytest.mark.parametrize(("n", "k"), [(20, 3), (50, 6), (250, 4)])
def test_empirical_covariance_is_the_usual_one(n: int, k: int) -> None:
    rows = rows_of(n, k)
    mean, cov, size = pilot_covariance(rows, shrink=False)
    assert np.allclose(mean, rows.mean(axis=0))
    assert np.allclose(cov, np.cov(rows.T))
    assert size == n


@pytest.mark.parametrize(("n", "k"), [(12, 5), (50, 6), (250, 3)])
def test_shrinkage_is_ledoit_wolf_of_standardised_columns(n: int, k: int) -> None:
    rows = rows_of(n, k, seed=n)
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    peer = LedoitWolf().fit(standard)
    found = pilot_moments(rows).covariance()
    sd = rows.std(axis=0, ddof=1)
    assert float(found.intensity) == pytest.approx(peer.shrinkage_, rel=1e-9)
    assert np.allclose(found.cov, peer.covariance_ * np.outer(sd, sd))


def test_units_of_a_rater_change_nothing_but_units() -> None:
    rows = rows_of(30, 4, seed=3)
    scale = np.array([1.0, 100.0, 0.01, 5.0])
    ours = pilot_covariance(rows * scale + 7.0)[1]
    assert np.allclose(ours, pilot_covariance(rows)[1] * np.outer(scale, scale))
    usual = LedoitWolf().fit(rows * scale).covariance_ / np.outer(scale, scale)
    assert not np.allclose(usual, LedoitWolf().fit(rows).covariance_, rtol=0.05)


def test_missing_values_use_the_rows_that_see_both() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((60, 3)) + 0.7 * rng.standard_normal((60, 1))
    rows[40:, 0] = np.nan
    rows[:10, 2] = np.nan
    mean, cov, n = pilot_covariance(rows, shrink=False)
    assert np.allclose(mean, np.nanmean(rows, axis=0))
    assert np.allclose(np.diag(cov), np.nanvar(rows, axis=0, ddof=1))
    both = rows[10:40]
    correlation = cov / np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
    assert correlation[0, 2] == pytest.approx(np.corrcoef(both[:, 0], both[:, 2])[0, 1])
    assert n == 30


def test_moments_add_and_subtract() -> None:
    rows = rows_of(40, 3, seed=2)
    origin = np.array([0.3, -1.0, 2.0])

    def moments(part: np.ndarray) -> Moments:
        return Moments.of(part, np.ones(len(part)), (0, 1, 2), origin)

    joined = moments(rows[:25]) + moments(rows[25:])
    assert np.allclose(joined.covariance().cov, pilot_covariance(rows)[1])
    assert np.allclose(
        (joined - moments(rows[25:])).covariance().cov, pilot_covariance(rows[:25])[1]
    )


def test_counts_of_cells_are_rows() -> None:
    rng = np.random.default_rng(4)
    cells = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    counts = rng.multinomial(50, [0.1, 0.2, 0.3, 0.4], size=3).astype(float)
    batch = Moments.of(cells, counts, (0, 1), np.zeros(2)).covariance()
    for world in range(3):
        rows = cells.repeat(counts[world].astype(int), axis=0)
        assert np.allclose(batch.cov[world], pilot_covariance(rows)[1])
        assert np.allclose(batch.mean[world], rows.mean(axis=0))


def test_twins_make_a_usable_matrix() -> None:
    rows = rows_of(30, 2, seed=5)
    twins = np.column_stack([rows, rows[:, 1]])
    cov = pilot_covariance(twins, shrink=False)[1]
    sd = np.sqrt(np.diag(cov))
    values = np.linalg.eigvalsh(cov / np.outer(sd, sd))
    assert 0 < values[0] < 1e-6
    assert lift(np.array([[1.0, 1.0], [1.0, 1.0]]))[0, 1] == pytest.approx(1 - FLOOR, abs=2 * FLOOR)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[1.0, np.nan], [0.0, np.nan]], "column 1 must have values; got NaN everywhere"),
        ([[1.0, np.inf], [0.0, 2.0]], "must be finite"),
        ([[1.0, 3.0], [0.0, 3.0]], "must vary; got 3 in all 2 rows"),
        ([[1.0, 2.0]], "at least two rows"),
        ([1.0, 2.0], "rows and columns"),
        ([["a", "b"]], "rows of numbers"),
        ([[1.0, np.nan], [0.0, np.nan], [np.nan, 1.0], [np.nan, 2.0]], "for every pair"),
    ],
)
def test_bad_pilots_are_named(rows: object, said: str) -> None:
    with pytest.raises(EvidenceError, match=said):
        pilot_covariance(rows)  # type: ignore[arg-type]
