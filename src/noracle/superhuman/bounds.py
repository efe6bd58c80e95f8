"""Upper bounds on the accuracy m of the average annotator, from what annotators agree on.

Right votes on an item are at most those of its most frequent label; nothing else is assumed. With v
the mean share of ordered pairs of votes that agree, m <= plurality <= free <= quadratic <= paper.
Xu, Walder and Xu, "Humanly certifying superhuman classifiers" (ICLR 2023), Theorem 1, Definition 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import ArgumentError, require

Value = TypeVar("Value", float, NDArray[np.float64])


def plurality_bound(top: ArrayLike, n_ratings: ArrayLike, n_items: ArrayLike = 1) -> float:
    """U_plur = E[max_l n_l / n], the mean share of the top label; NaN without items.

    Right votes are at most the votes of the most frequent label, on every item and whatever decided
    how many votes it has. Take means.
    """
    shares = np.asarray(top, dtype=float) / np.asarray(n_ratings, dtype=float)
    share, n = np.broadcast_arrays(shares, np.asarray(n_items, dtype=float))
    return float((share * n).sum() / n.sum()) if n.sum() > 0 else float("nan")


def free_bound(agreement: Value, n_ratings: int) -> Value:
    """U_free: the least concave function through the points (k(k - 1)/(K(K - 1)), k/K), k = 1…K, at
    v.

    Between k and k + 1 it is (k + (K(K - 1)v - k(k - 1))/(2k))/K; from v = 1 - 2/K on it is (1 +
    v)/2.

    An item with k votes for its most frequent label has agreement of at least k(k - 1)/(K(K - 1)),
    so its share k/K is at most the envelope at its agreement. The envelope is concave: by Jensen's
    inequality the mean share is at most the envelope at v.

    Parameters
    ----------
    agreement
        v, in [0, 1]; a number or an array.
    n_ratings
        K, the votes on every item.

    Examples
    --------
    >>> round(free_bound(0.939**2, 3), 4), free_bound(0.5, 2)
    (0.9409, 0.75)
    """
    _check(agreement, n_ratings)
    pairs = n_ratings * (n_ratings - 1)
    k = _real_top(agreement, n_ratings) // 1.0
    return (k + (pairs * agreement - k * (k - 1)) / (2 * k)) / n_ratings


def quadratic_bound(agreement: Value, n_ratings: int) -> Value:
    """U_r = (1 + sqrt(1 + 4K(K - 1)v))/(2K).

    With k right votes on an item: (E k)² <= E k² = E k + E k(k - 1) <= Km + K(K - 1)v. Solve (Km)²
    <= Km + K(K - 1)v for m.

    Examples
    --------
    >>> round(quadratic_bound(0.939**2, 3), 4)
    0.9513
    """
    _check(agreement, n_ratings)
    return _real_top(agreement, n_ratings) / n_ratings


def paper_bound(agreement: Value, n_ratings: int) -> Value:
    """U_t = sqrt(1/K + (K - 1)v/K), Theorem 1 of the paper.

    m² = (E k/K)² <= E k²/K² <= E sum_l n_l²/K² = 1/K + (K - 1)v/K, with k the right votes; the
    paper's assumption (2) is not needed.

    Examples
    --------
    >>> round(paper_bound(0.939**2, 3), 3), round(paper_bound(0.879**2, 5), 3)
    (0.96, 0.904)
    """
    _check(agreement, n_ratings)
    return _root(1 / n_ratings + (n_ratings - 1) / n_ratings * agreement)


def empirical_bound(agreement: Value) -> Value:
    """U_e = sqrt(v), Definition 1 of the paper: *not* a bound.

    Two independent annotators with accuracies 1 and 0.6 agree on v = 0.6 of the items: sqrt(v) =
    0.7746, and m = 0.8.

    Examples
    --------
    >>> round(empirical_bound(1 * 0.6), 4)
    0.7746
    """
    _check(agreement, 2)
    return _root(agreement)


FROM_AGREEMENT: dict[str, Callable[[float, int], float]] = {
    "free": free_bound,
    "quadratic": quadratic_bound,
    "paper": paper_bound,
}


def _real_top(agreement: Value, n_ratings: int) -> Value:
    """The real k >= 1 with k(k - 1) = K(K - 1)v."""
    return (1 + _root(1 + 4 * n_ratings * (n_ratings - 1) * agreement)) / 2


def _root(value: Value) -> Value:
    found: Value = value**0.5
    return found


def _check(agreement: float | NDArray[np.float64], n_ratings: int) -> None:
    if not np.all((np.asarray(agreement) >= 0) & (np.asarray(agreement) <= 1)):
        raise ArgumentError(f"agreement must be in [0, 1]; got {agreement}.")
    require(n_ratings >= 1, f"n_ratings must be at least 1; got {n_ratings}.")


# The best bound on the mean accuracy of persons who agree at least as often as if they were independent.


Reals = NDArray[np.float64]
Whole = NDArray[np.int64]

LARGEST_ENUMERATED = 5
LARGEST_WITH_FOURS = 12
# With more annotators than this, triples are taken within blocks of about as many as BLOCK.
LARGEST_COMPLETE = 30
LARGEST_WITH_TWO_DIVISIONS = 100
BLOCK = 20
_TINY = 1e-300


def pairwise_bound(agreement: ArrayLike, *, weights: Sequence[float] | None = None) -> float:
    """U*, the largest mean accuracy that the agreement of every two annotators allows under
    assumption (2).

    Exact to 5 annotators; beyond, a cover by groups of three and four that is never below U*. For
    pools with symmetric errors it lies within 0.01 of U*; for arbitrary rates it was up to 0.04
    above.

    Parameters
    ----------
    agreement
        Symmetric matrix P of agreement rates; the diagonal is not read. NaN for two who have no
        item in common counts as 1.
    weights
        The share of each annotator in the mean; default equal.
    """
    rates, share = _checked(agreement, weights)
    size = len(rates)
    if size == 1:
        return 1.0
    if size == 2:
        return float(share.max() + share.min() * rates[0, 1])
    if size == 3:
        return float(min(1.0, triple_bounds(rates, np.array([[0, 1, 2]]), share)[0]))
    if size <= LARGEST_ENUMERATED:
        return vertex_bound(rates, share)
    return cover_bound(rates, share)


def triple_bounds(rates: Reals, triples: Whole, weights: Reals | None = None) -> Reals:
    """The largest Σ w_i p_i over each triple of annotators, in closed form.

    The vertices are: all three pairs tight, p_1 = sqrt(P_12·P_13/P_23) and so on, if none exceeds
    1; or one p_i = 1, one p_j = P_ij and p_k = min(P_ik, P_jk/P_ij).
    """
    weight = np.ones(len(rates)) if weights is None else weights
    w = weight[triples]
    a, b, c = triples.T
    ab, ac, bc = (np.maximum(rates[i, j], _TINY) for i, j in ((a, b), (a, c), (b, c)))
    # Roots one by one, since a product of two tiny rates would vanish.
    ra, rb, rc = np.sqrt(ab), np.sqrt(ac), np.sqrt(bc)
    tight = np.stack([ra / rc * rb, ra / rb * rc, rb / ra * rc], axis=1)
    best = np.where((tight <= 1).all(axis=1), (w * tight).sum(axis=1), -np.inf)
    sides = {(0, 1): ab, (0, 2): ac, (1, 2): bc}
    for i in range(3):
        for j, k in ((x, y) for x in range(3) for y in range(3) if len({i, x, y}) == 3):
            ij, ik, jk = (sides[min(x, y), max(x, y)] for x, y in ((i, j), (i, k), (j, k)))
            best = np.maximum(best, w[:, i] + w[:, j] * ij + w[:, k] * np.minimum(ik, jk / ij))
    return np.asarray(best, dtype=np.float64)


def vertex_bound(rates: Reals, weights: Reals) -> float:
    """U* by all vertices of the polyhedron in -log p; slow with many annotators."""
    every = np.arange(len(rates))[None, :]
    return float(min(1.0, group_bounds(rates, every, weights)[0]))


def group_bounds(rates: Reals, groups: Whole, weights: Reals | None = None) -> Reals:
    """The largest Σ w_i p_i over each group (weights 1 unless given), by all vertices."""
    n_groups, size = groups.shape
    weight = np.ones(len(rates)) if weights is None else weights
    inverses, rows = _systems(size)
    first, second = np.array(list(combinations(range(size), 2))).T
    pairs = -np.log(np.maximum(rates[groups[:, first], groups[:, second]], _TINY))
    needs = np.concatenate([np.zeros((n_groups, size)), pairs], axis=1)
    x = np.einsum("sij,gsj->gsi", inverses, needs[:, rows])
    slack = 1e-9
    sums = x[:, :, first] + x[:, :, second]
    feasible = (x >= -slack).all(axis=2) & (sums >= pairs[:, None, :] - slack).all(axis=2)
    values = np.einsum("gsi,gi->gs", np.exp(-np.maximum(x, 0.0)), weight[groups])
    return np.asarray(np.where(feasible, values, -np.inf).max(axis=1), dtype=np.float64)


@lru_cache(maxsize=LARGEST_ENUMERATED)
def _systems(size: int) -> tuple[Reals, Whole]:
    """Inverses of all regular systems of ``size`` tight rows (x_i = 0, pairs), and the rows."""
    single = np.eye(size)
    pairs = [single[i] + single[j] for i, j in combinations(range(size), 2)]
    equations = np.vstack([single, *pairs])
    rows = np.array(list(combinations(range(len(equations)), size)))
    systems = equations[rows]
    regular = np.abs(np.linalg.det(systems)) > 0.5  # determinants are whole numbers
    return np.linalg.inv(systems[regular]), rows[regular]


def cover_bound(rates: Reals, weights: Reals, *, fours: bool = True) -> float:
    """A bound by groups that cover all annotators; valid also if solved only roughly."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    size = len(rates)
    triples = _triples(rates)
    cost, members = triple_bounds(rates, triples), triples.reshape(-1)
    columns = np.repeat(np.arange(len(cost)), 3)
    if fours and size <= LARGEST_WITH_FOURS:
        groups = np.array(list(combinations(range(size), 4)))
        columns = np.r_[columns, len(cost) + np.repeat(np.arange(len(groups)), 4)]
        cost = np.r_[cost, group_bounds(rates, groups)]
        members = np.r_[members, groups.reshape(-1)]
    cover = csr_array((np.ones(len(members)), (members, columns)), shape=(size, len(cost)))
    found = linprog(cost, A_ub=-cover, b_ub=-weights, bounds=(0, None), method="highs")  # type: ignore[call-overload]  # sparse is fine
    used = np.zeros(len(cost)) if found.x is None else np.maximum(found.x, 0.0)
    uncovered = np.maximum(weights - cover @ used, 0.0)  # such a share has an accuracy of at most 1
    return float(min(1.0, cost @ used + uncovered.sum()))


def _triples(rates: Reals) -> Whole:
    """All triples, or for many annotators those within blocks of mixed and of like agreement."""
    size = len(rates)
    if size <= LARGEST_COMPLETE:
        return np.array(list(combinations(range(size), 3)))
    order = np.argsort(rates.mean(axis=1), kind="stable")
    n_blocks = -(-size // BLOCK)
    blocks = [order[start::n_blocks] for start in range(n_blocks)]
    if size <= LARGEST_WITH_TWO_DIVISIONS:
        blocks += np.array_split(order, n_blocks)
    triples = [t for block in blocks for t in combinations(np.sort(block).tolist(), 3)]
    return np.unique(np.array(triples), axis=0)


def _checked(agreement: ArrayLike, weights: Sequence[float] | None) -> tuple[Reals, Reals]:
    rates = np.array(agreement, dtype=np.float64)
    square = rates.ndim == 2 and rates.shape[0] == rates.shape[1] and len(rates) > 0
    require(square, f"agreement must be a square matrix; got shape {rates.shape}.")
    np.fill_diagonal(rates, 1.0)
    rates = np.where(np.isnan(rates), 1.0, rates)
    inside = ((rates >= 0) & (rates <= 1)).all()
    symmetric = np.allclose(rates, rates.T, rtol=0, atol=1e-12)
    rule = "must be symmetric with entries in [0, 1]; got other entries"
    require(inside and symmetric, f"agreement {rule}. Pass counts of agreement / counts.")
    equal = np.full(len(rates), 1 / len(rates))
    share = equal if weights is None else np.asarray(weights, dtype=np.float64)
    fits = share.shape == (len(rates),) and (share >= 0).all() and abs(share.sum() - 1) <= 1e-9
    require(fits, f"weights must be {len(rates)} shares that sum to 1; got {weights!r}.")
    return rates, share
