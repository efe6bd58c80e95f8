"""Pure upper bounds on the accuracy of the average annotator."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from noracle.counts.ratings import RatingCounts
from noracle.errors import ArgumentError
from noracle.superhuman.bounds import (
    empirical_bound,
    free_bound,
    paper_bound,
    plurality_bound,
    quadratic_bound,
)

PUBLISHED = [  # mean agreement under the root, K, U_t as printed in Table 2
    ("SST-5", 0.660, 3, 0.790),
    ("SST-2", 0.939, 3, 0.960),
    ("SNLI", 0.879, 5, 0.904),
]


def random_world(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ratings and truth with nothing imposed: dependent, contrary, colluding and empty-headed
    annotators.
    """
    n, k, r = int(rng.integers(1, 40)), int(rng.integers(2, 9)), int(rng.integers(2, 7))
    truth = rng.integers(0, r, n)
    style = rng.integers(0, 4)
    if style == 0:  # independent, any accuracy
        right = rng.random((n, k)) < rng.random(k)
    elif style == 1:  # hard and easy items
        right = rng.random((n, k)) < rng.random((n, 1))
    elif style == 2:  # annotators take turns in being right
        right = (np.arange(n)[:, None] + np.arange(k)) % k < rng.integers(0, k + 1)
    else:  # all copy one
        right = np.repeat(rng.random((n, 1)) < rng.random(), k, axis=1)
    wrong = (truth[:, None] + rng.integers(1, r, (n, k if rng.random() < 0.5 else 1))) % r
    return np.where(right, truth[:, None], wrong), truth


def test_order_of_bounds_holds_in_3000_random_worlds() -> None:
    rng = np.random.default_rng(20231)
    violations, empirical_below = 0, 0
    for _ in range(3000):
        ratings, truth = random_world(rng)
        counts = RatingCounts.from_arrays(ratings)
        k, m = ratings.shape[1], float((ratings == truth[:, None]).mean())
        v = float((counts.agreement * counts.n_items).sum() / counts.n_items.sum())
        chain = [
            m,
            plurality_bound(counts.top, k, counts.n_items),
            free_bound(v, k),
            quadratic_bound(v, k),
            paper_bound(v, k),
        ]
        violations += any(a > b + 1e-12 for a, b in pairwise(chain))
        empirical_below += empirical_bound(v) < m - 1e-12
    assert violations == 0
    assert empirical_below > 100  # the worlds are hard enough to break what is no bound


def test_empirical_bound_is_no_bound_for_an_oracle_and_a_weak_annotator() -> None:
    agreement, mean = 1.0 * 0.6, (1.0 + 0.6) / 2
    assert empirical_bound(agreement) == pytest.approx(0.7746, abs=5e-5)
    assert empirical_bound(agreement) < mean
    assert free_bound(agreement, 2) == pytest.approx(mean)


@pytest.mark.parametrize(("name", "root", "k", "printed"), PUBLISHED)
def test_paper_bound_matches_table_2_within_rounding(
    name: str, root: float, k: int, printed: float
) -> None:
    low, high = paper_bound((root - 5e-4) ** 2, k), paper_bound((root + 5e-4) ** 2, k)
    assert low - 5e-4 <= printed <= high + 5e-4
    assert paper_bound(root**2, k) == pytest.approx(printed, abs=6e-4)


def test_free_bound_of_the_published_figures() -> None:
    assert free_bound(0.939**2, 3) == pytest.approx(0.9409, abs=5e-5)
    assert free_bound(0.879**2, 5) == pytest.approx(0.8863, abs=5e-5)
    assert [round(quadratic_bound(r**2, k), 4) for _, r, k, _ in PUBLISHED] == [
        0.7307,
        0.9513,
        0.8925,
    ]


@pytest.mark.parametrize("k", [2, 3, 5, 20, 101])
def test_free_bound_is_the_concave_envelope_of_its_points(k: int) -> None:
    tops = np.arange(1, k + 1)
    x, y = tops * (tops - 1) / (k * (k - 1)), tops / k
    v = np.linspace(0, 1, 2001)
    assert np.allclose(free_bound(v, k), np.interp(v, x, y), rtol=0, atol=1e-12)
    assert np.allclose(free_bound(x, k), y, rtol=0, atol=1e-12)
    assert np.diff(free_bound(v, k), 2).max() < 1e-12
    late = v[v >= 1 - 2 / k]
    assert np.allclose(free_bound(late, k), (1 + late) / 2, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bound", [free_bound, quadratic_bound, paper_bound])
def test_bounds_rise_with_agreement_fall_with_ratings_and_end_at_one(bound: object) -> None:
    v = np.linspace(0, 1, 501)
    for k in (1, 2, 3, 7):
        values = bound(v, k)  # type: ignore[operator]
        assert (np.diff(values) >= -1e-15).all()
        assert values[-1] == pytest.approx(1.0)
        assert values[0] >= 1 / k - 1e-12
        assert (bound(v, k + 1) <= values + 1e-12).all()  # type: ignore[operator]
    assert bound(v, 1) == pytest.approx(np.ones(501))  # type: ignore[operator]


def test_plurality_bound_of_nothing_is_undefined() -> None:
    assert np.isnan(plurality_bound([], [], []))


@pytest.mark.parametrize("agreement", [-0.1, 1.1, float("nan")])
def test_agreement_outside_the_unit_interval_is_refused(agreement: float) -> None:
    for bound in (free_bound, quadratic_bound, paper_bound):
        with pytest.raises(ArgumentError, match="agreement must be in"):
            bound(agreement, 3)
    with pytest.raises(ArgumentError, match="n_ratings must be at least 1"):
        free_bound(0.5, 0)
