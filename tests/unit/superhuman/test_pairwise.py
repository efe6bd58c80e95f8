"""U*: the best bound under p_i·p_j <= P_ij."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest

from noracle.errors import ArgumentError
from noracle.superhuman.bounds import (
    cover_bound,
    free_bound,
    group_bounds,
    pairwise_bound,
    triple_bounds,
    vertex_bound,
)


def pool(rng: np.random.Generator, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Accuracies and agreement rates of independent annotators whose errors spread over some
    labels.
    """
    p = rng.uniform(0.55, 0.98, k)
    others = int(rng.integers(1, 10))
    rates = np.outer(p, p) + np.outer(1 - p, 1 - p) / others
    np.fill_diagonal(rates, 1.0)
    return p, rates


def anything(rng: np.random.Generator, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Any rates above the products of some accuracies, with zeros and ones among them."""
    p = rng.choice(
        [rng.uniform(0, 1, k), rng.uniform(0.9, 1, k), rng.integers(0, 2, k).astype(float)]
    )
    above = np.triu(rng.random((k, k)) * rng.choice([0.0, 0.1, 1.0]), 1)
    rates = np.outer(p, p)
    rates = np.minimum(1.0, rates + (1 - rates) * (above + above.T))
    np.fill_diagonal(rates, 1.0)
    return p, rates


def equal(k: int) -> np.ndarray:
    return np.full(k, 1 / k)


def grid_maximum(rates: np.ndarray, steps: int) -> float:
    """The largest mean on a grid of three accuracies, by trying all of them."""
    p = np.linspace(0, 1, steps)
    a, b, c = np.meshgrid(p, p, p, indexing="ij")
    allowed = (
        (a * b <= rates[0, 1] + 1e-12)
        & (a * c <= rates[0, 2] + 1e-12)
        & (b * c <= rates[1, 2] + 1e-12)
    )
    return float(((a + b + c) / 3)[allowed].max())


def test_closed_form_of_three_equals_vertices() -> None:
    rng = np.random.default_rng(3)
    for _ in range(1500):
        _, rates = (pool if rng.random() < 0.5 else anything)(rng, 3)
        weights = equal(3) if rng.random() < 0.5 else rng.dirichlet(np.ones(3))
        assert triple_bounds(rates, np.array([[0, 1, 2]]), weights)[0] == pytest.approx(
            vertex_bound(rates, weights), abs=1e-12
        )


def test_closed_form_of_three_equals_a_search_of_all_accuracies() -> None:
    rng = np.random.default_rng(8)
    for _ in range(12):
        _, rates = anything(rng, 3)
        found, searched = pairwise_bound(rates), grid_maximum(rates, 101)
        assert searched <= found + 1e-9
        assert found <= searched + 0.03  # the grid has steps of 0.01 in three directions


@pytest.mark.thin(5)
@pytest.mark.parametrize("k", [2, 3, 4, 5, 6, 9, 13])
@pytest.mark.parametrize("family", [pool, anything])
def test_no_feasible_accuracies_lie_above(k: int, family: object) -> None:
    rng = np.random.default_rng(k)
    for _ in range(60):
        p, rates = family(rng, k)  # type: ignore[operator]
        weights = rng.dirichlet(np.ones(k))
        assert float(p.mean()) <= pairwise_bound(rates) + 1e-12
        assert float(p @ weights) <= pairwise_bound(rates, weights=weights.tolist()) + 1e-12


def test_vertices_are_attained_by_feasible_accuracies() -> None:
    """U* is not only a bound: some accuracies that obey all pairs reach it."""
    rng = np.random.default_rng(11)
    for _ in range(40):
        k = int(rng.integers(3, 6))
        _, rates = pool(rng, k)
        best = 0.0
        pairs = list(combinations(range(k), 2))
        for _ in range(400):  # raise coordinates in a random order, each as far as the others allow
            p = np.zeros(k) if rng.random() < 0.5 else np.sqrt(rates[rates < 1].min()) * np.ones(k)
            for i in rng.permutation(k):
                p[i] = min([1.0, *(rates[i, j] / p[j] for j in range(k) if j != i and p[j] > 0)])
            assert all(p[i] * p[j] <= rates[i, j] + 1e-12 for i, j in pairs)
            best = max(best, float(p.mean()))
        assert best <= pairwise_bound(rates) + 1e-12
    assert pairwise_bound([[1, 0.49, 0.49], [0.49, 1, 0.49], [0.49, 0.49, 1]]) == pytest.approx(0.7)


@pytest.mark.thin(2)
@pytest.mark.parametrize("k", [4, 5])
def test_cover_by_triples_lies_within_022_of_the_best_for_pools(k: int) -> None:
    rng = np.random.default_rng(5)
    gaps = []
    for _ in range(150):
        _, rates = pool(rng, k)
        best = vertex_bound(rates, equal(k))
        gaps.append(cover_bound(rates, equal(k), fours=False) - best)
        assert cover_bound(rates, equal(k)) <= cover_bound(rates, equal(k), fours=False) + 1e-12
    assert min(gaps) >= -1e-12
    assert max(gaps) <= 0.022


def test_cover_of_six_lies_within_022_of_the_best() -> None:
    rng = np.random.default_rng(6)
    for _ in range(8):
        _, rates = pool(rng, 6)
        best = float(group_bounds(rates, np.arange(6)[None, :])[0]) / 6
        assert best - 1e-12 <= pairwise_bound(rates) <= best + 0.022


def test_cover_is_valid_for_any_rates() -> None:
    rng = np.random.default_rng(7)
    for _ in range(150):
        _, rates = anything(rng, 5)
        assert cover_bound(rates, equal(5)) >= vertex_bound(rates, equal(5)) - 1e-12


@pytest.mark.full
@pytest.mark.parametrize(("k", "seconds"), [(20, 0.2), (60, 2.0)])
@pytest.mark.timing
def test_many_annotators_are_fast(k: int, seconds: float) -> None:
    p, rates = pool(np.random.default_rng(1), k)
    pairwise_bound(rates)  # imports
    times = []
    for _ in range(3):
        start = time.process_time()
        found = pairwise_bound(rates)
        times.append(time.process_time() - start)
    assert p.mean() - 1e-12 <= found <= p.mean() + 0.06
    assert min(times) <= seconds


def test_two_annotators_give_the_free_bound() -> None:
    for v in (0.0, 0.3, 1.0):
        assert pairwise_bound([[1, v], [v, 1]]) == pytest.approx(free_bound(v, 2))


def test_pairs_without_common_items_say_nothing() -> None:
    nan = float("nan")
    assert pairwise_bound([[1, nan], [nan, 1]]) == 1.0
    assert pairwise_bound([[1, 0.6, nan], [0.6, 1, nan], [nan, nan, 1]]) == pytest.approx(
        (1 + 0.6 + 1) / 3
    )
    assert pairwise_bound([[1.0]]) == 1.0
    apart = np.ones((8, 8))
    assert pairwise_bound(apart) == pytest.approx(1.0)


def test_annotators_who_never_agree_cannot_all_be_good() -> None:
    assert pairwise_bound(np.eye(3)) == pytest.approx(1 / 3)
    assert pairwise_bound(np.eye(5)) == pytest.approx(1 / 5)
    assert 1 / 8 <= pairwise_bound(np.eye(8)) <= 1 / 4 + 1e-12


@pytest.mark.parametrize(
    ("rates", "weights", "message"),
    [
        ([[1, 0.5]], None, "square"),
        ([[1, 0.5], [0.4, 1]], None, "symmetric"),
        ([[1, 1.5], [1.5, 1]], None, "symmetric with entries in"),
        ([[1, 0.5], [0.5, 1]], [1.0], "weights must be 2 shares"),
        ([[1, 0.5], [0.5, 1]], [0.9, 0.9], "weights must be 2 shares"),
    ],
)
def test_bad_rates_are_refused(
    rates: list[list[float]], weights: list[float] | None, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        pairwise_bound(rates, weights=weights)
