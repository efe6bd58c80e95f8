"""Items in clusters: fair bets, limits that cover where independent items would not, and a test
that finds dependence.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.stats import binomtest, kstest

from noracle.bounds.betting import Score, betting_interval, fixed_interval
from noracle.bounds.binomial import clopper_pearson
from noracle.bounds.clusters import cluster_limits, cr2, cr2_interval, dependence_p_value

Sample = tuple[np.ndarray, np.ndarray, np.ndarray]


def test_bets_on_partly_labelled_clusters_are_fair_by_enumeration() -> None:
    """Over all clusters and all sets of labelled items within them: (m/ℓ)·Σ(score - A) has mean 0
    and the range that is used.
    """
    population = [[1, 0, 1, 1], [0], [1, 1], [0, 0, 1], [1, 0, 0, 0, 1, 1]]
    accuracy = sum(map(sum, population)) / sum(map(len, population))
    for how_many in (1, 2, 3):
        mean, least, most = 0.0, math.inf, -math.inf
        for items in population:
            count = min(how_many, len(items))
            sets = list(itertools.combinations(items, count))
            gains = [len(items) / count * (sum(s) - count * accuracy) for s in sets]
            mean += sum(gains) / len(sets) / len(population)
            least, most = min(least, *gains), max(most, *gains)
        assert mean == pytest.approx(0.0, abs=1e-12)
        assert 6 * (0 - accuracy) <= least <= most <= 6 * (1 - accuracy)


def test_limits_do_not_depend_on_sizes_where_every_cluster_is_alike() -> None:
    """All items right in every cluster: the range of sizes costs nothing beyond the largest one."""
    ones = cluster_limits(np.full(60, 4), np.full(60, 4), np.full(60, 3), 0.025, 0.025, largest=4)
    tenfold = cluster_limits(
        np.full(60, 40), np.full(60, 4), np.full(60, 3), 0.025, 0.025, largest=40
    )
    assert (ones.low, ones.high) == pytest.approx((tenfold.low, tenfold.high), abs=1e-9)


@pytest.mark.parametrize("anytime", [False, True])
def test_clusters_of_one_item_are_the_usual_bets(anytime: bool) -> None:
    one = np.ones(200)
    right = np.repeat([1.0, 0.0], [150, 50])
    find = betting_interval if anytime else fixed_interval
    usual = find([Score(1.0, 0.0, 1.0, 150), Score(0.0, 0.0, 1.0, 50)], 0.025, 0.025)
    found = cluster_limits(one, one, right, 0.025, 0.025, largest=1, anytime=anytime)
    assert (found.low, found.high) == pytest.approx(usual, abs=1e-9 if anytime else 0.01)


def test_limits_widen_with_the_largest_size_and_with_confidence() -> None:
    size = np.full(60, 5)
    right = np.array([5, 4, 4, 3, 5, 2] * 10)
    widths = []
    for largest, tail in ((5, 0.05), (5, 0.025), (10, 0.025), (10, 0.005)):
        limits = cluster_limits(size, size, right, tail, tail, largest=largest)
        widths.append(limits.high - limits.low)
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def draw(kind: str, rng: np.random.Generator) -> tuple[Sample, int]:
    """60 clusters from a large population with accuracy .7 (per item), and the largest size."""
    name, *numbers = kind.split()
    clusters = 60
    if name == "equal":
        m, icc = int(numbers[0]), float(numbers[1])
        rate = rng.beta(0.7 * (1 / icc - 1), 0.3 * (1 / icc - 1), clusters)
        size = labelled = np.full(clusters, m)
    else:  # sizes 2 or 8, right .9 or .65: .7 per item, .775 per cluster
        size = rng.choice([2, 8], clusters)
        base = np.where(size == 2, 0.9, 0.65)
        rate = rng.beta(base * 3, (1 - base) * 3)
        labelled = size if name == "unequal" else np.minimum(size, 3)
    return (size, labelled, rng.binomial(labelled, rate)), int(size.max()) if name == "equal" else 8


KINDS = ["equal 5 0.1", "equal 5 0.3", "equal 10 0.3", "unequal", "partly"]


def misses(kind: str, worlds: int, tail: float) -> dict[str, int]:
    rng = np.random.default_rng(len(kind))
    found = {"finite": 0, "cr2": 0, "iid": 0, "vacuous": 0}
    for _ in range(worlds):
        sample, largest = draw(kind, rng)
        limits = cluster_limits(*sample, tail, tail, largest=largest)
        normal = cr2_interval(*sample, tail, tail)
        low, high = clopper_pearson(int(sample[2].sum()), int(sample[1].sum()), tail, tail)
        found["finite"] += not limits.low <= 0.7 <= limits.high
        found["cr2"] += not normal.low <= 0.7 <= normal.high
        found["iid"] += not low <= 0.7 <= high
        found["vacuous"] += limits.high - limits.low > 0.6
    return found


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_cluster_limits_cover(kind: str) -> None:
    found = misses(kind, 60, 0.1)
    assert binomtest(found["finite"], 60, 0.2, alternative="greater").pvalue > 1e-3
    assert binomtest(found["cr2"], 60, 0.22, alternative="greater").pvalue > 1e-3
    assert found["vacuous"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_cluster_limits_cover_in_2000_worlds(kind: str) -> None:
    found = misses(kind, 2000, 0.025)
    assert binomtest(found["finite"], 2000, 0.05, alternative="greater").pvalue > 1e-3
    assert binomtest(found["cr2"], 2000, 0.06, alternative="greater").pvalue > 1e-3
    if kind != "equal 5 0.1":
        assert found["iid"] > 200  # as independent items: less than 90 % where 95 % are promised


def by_matrices(
    size: np.ndarray, labelled: np.ndarray, values: list[np.ndarray]
) -> tuple[float, float, float]:
    """CR2 of the weighted regression on a constant, item by item, as Pustejovsky and Tipton write
    it.
    """
    cluster = np.repeat(np.arange(len(size)), labelled)
    y, w, one = (
        np.concatenate(values),
        np.repeat(size / labelled, labelled),
        np.ones((len(cluster), 1)),
    )
    bread = np.linalg.inv(one.T @ np.diag(w) @ one)
    hat = one @ bread @ one.T @ np.diag(w)
    rest = np.eye(len(y)) - hat
    beta = (bread @ one.T @ np.diag(w) @ y).item()
    residual = y - beta
    meat, g = 0.0, []
    for c in range(len(size)):
        at = np.flatnonzero(cluster == c)
        root = np.linalg.inv(np.real(sqrtm(rest[at] @ rest[at].T)))
        pull = bread @ one[at].T @ np.diag(w[at]) @ root
        meat += (pull @ residual[at]).item() ** 2
        g.append((pull @ rest[at]).ravel())
    inner = np.array(g) @ np.array(g).T
    return beta, meat, float(np.trace(inner) ** 2 / np.sum(inner**2))


@pytest.mark.parametrize("seed", range(4))
def test_cr2_agrees_with_matrices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 9, 12)
    labelled = np.minimum(size, rng.integers(1, 5, 12))
    values = [rng.random(k) for k in labelled]
    assert cr2(size, labelled, np.array([v.sum() for v in values])) == pytest.approx(
        by_matrices(size, labelled, values), rel=1e-9
    )


def test_cr2_is_undefined_below_two_clusters_and_says_so() -> None:
    assert np.isnan(cr2(np.array([]), np.array([]), np.array([]))[0])
    assert np.isnan(cr2(np.array([4]), np.array([4]), np.array([3]))[1])
    for count in (0, 1, 5):  # five clusters without a wrong answer have no variance to see
        full = np.full(count, 4)
        limits = cr2_interval(full, full, full, 0.025, 0.025)
        assert (limits.low, limits.high) == (0.0, 1.0)


def test_dependence_p_value_is_uniform_without_dependence() -> None:
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(40), rng.integers(1, 8, 40))
    p = [
        dependence_p_value(rng.normal(size=len(cluster)), cluster, resamples=199, seed=s)
        for s in range(300)
    ]
    assert kstest(np.array(p) - 1 / 400, "uniform").pvalue > 1e-3
    binary = [
        dependence_p_value(rng.random(len(cluster)) < 0.8, cluster, resamples=199, seed=s)
        for s in range(200)
    ]
    assert binomtest(sum(x <= 0.05 for x in binary), 200, 0.05, alternative="greater").pvalue > 1e-3


def test_dependence_is_found_in_60_passages_of_5_questions() -> None:
    rng = np.random.default_rng(1)
    cluster = np.repeat(np.arange(60), 5)
    found = 0
    for s in range(30):
        rate = np.repeat(rng.beta(0.7 * (1 / 0.3 - 1), 0.3 * (1 / 0.3 - 1), 60), 5)
        found += dependence_p_value(rng.random(300) < rate, cluster, resamples=1999, seed=s) < 1e-3
    assert found >= 27


def test_dependence_cannot_be_seen_without_pairs_or_variance() -> None:
    assert dependence_p_value(np.array([]), np.array([])) == 1.0
    assert dependence_p_value(np.array([1.0, 0.0, 1.0]), np.arange(3)) == 1.0
    assert dependence_p_value(np.ones(6), np.repeat(np.arange(2), 3)) == 1.0


def test_names_and_order_of_clusters_change_nothing() -> None:
    rng = np.random.default_rng(2)
    values, cluster = rng.normal(size=30), np.repeat(np.arange(10), 3)
    names = np.array([f"passage {c}" for c in cluster])
    assert dependence_p_value(values, names, seed=1) == dependence_p_value(values, cluster, seed=1)
    size, labelled, total = rng.integers(2, 6, 30), np.full(30, 2), rng.integers(0, 3, 30)
    order = rng.permutation(30)
    one = cluster_limits(size, labelled, total, 0.025, 0.025, largest=6)
    two = cluster_limits(size[order], labelled[order], total[order], 0.025, 0.025, largest=6)
    assert one == two
