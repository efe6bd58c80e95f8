"""Upper bounds on the accuracy m of the average annotator, as pure functions of what annotators
agree on.

On one item let n_l of K votes name label l, the true label among them. Then right votes <= max_l
n_l. Everything here follows from this one line; nothing is assumed of annotators, only that each
item has one true label. v is the mean share of ordered pairs of votes that agree, E[sum_l n_l(n_l -
1)] / (K(K - 1)). For the same votes

    m <= plurality <= free <= quadratic <= paper,

each a population value: a sample of items needs a limit of its own
(:func:`noracle.superhuman.estimate_ceiling`). ``free``, ``quadratic`` and ``paper`` rise with v and
are concave in v. With one vote an item they are 1: they say nothing. ``empirical_bound`` is what
the paper reports beside its bound; it is not a bound. ``floor_bound`` assumes more of annotators.

References
----------
Xu, Walder and Xu, "Humanly certifying superhuman classifiers" (ICLR 2023), Theorem 1 and Definition
1.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import ArgumentError

Value = TypeVar("Value", float, NDArray[np.float64])


def plurality_bound(top: ArrayLike, n_ratings: ArrayLike, n_items: ArrayLike = 1) -> float:
    """U_plur = E[max_l n_l / n]: the mean share of votes for the most frequent label; NaN without
    items.

    Right votes are at most the votes of the most frequent label, on every item and whatever decided
    how many votes it has. Take means.

    Parameters
    ----------
    top, n_ratings
        Votes for the most frequent label, and all votes, of each kind of item.
    n_items
        How many items are of this kind.

    Examples
    --------
    >>> round(plurality_bound([3, 2, 1], 3, [80, 15, 5]), 4)
    0.9167
    """
    share, n = np.broadcast_arrays(
        np.asarray(top, dtype=float) / np.asarray(n_ratings, dtype=float),
        np.asarray(n_items, dtype=float),
    )
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


def floor_bound(agreement: float, n_ratings: int, *, floor: float) -> float:
    """U_a = ((1 + a) + sqrt((1 + a)² + 4K((K - 1)v - a)))/(2K), where every annotator has an
    accuracy of at least a.

    This one needs assumption (2), p_i·p_j <= P_ij for persons i, j, and the floor a. With s = Σ
    p_i: s² - Σ p_i² <= K(K - 1)v, and (p_i - a)(1 - p_i) >= 0 gives Σ p_i² <= (1 + a)s - Ka. Solve
    for s. At a = 0 it is U_r.

    Examples
    --------
    >>> round(floor_bound(0.939**2, 3, floor=0.5), 4)
    0.9454
    """
    _check(agreement, n_ratings)
    if not 0 <= floor <= 1 or (n_ratings > 1 and floor * floor > agreement):
        raise ArgumentError(
            f"floor must be in [0, sqrt(agreement)], else assumption (2) fails; got {floor} with agreement {agreement}."
        )
    if n_ratings == 1:
        return 1.0
    inside = (1 + floor) ** 2 + 4 * n_ratings * ((n_ratings - 1) * agreement - floor)
    return min(1.0, float((1 + floor + max(inside, 0.0) ** 0.5) / (2 * n_ratings)))


def _real_top(agreement: Value, n_ratings: int) -> Value:
    """The real k >= 1 with k(k - 1) = K(K - 1)v."""
    return (1 + _root(1 + 4 * n_ratings * (n_ratings - 1) * agreement)) / 2


def _root(value: Value) -> Value:
    found: Value = value**0.5
    return found


def _check(agreement: float | NDArray[np.float64], n_ratings: int) -> None:
    if not np.all((np.asarray(agreement) >= 0) & (np.asarray(agreement) <= 1)):
        raise ArgumentError(f"agreement must be in [0, 1]; got {agreement}.")
    if n_ratings < 1:
        raise ArgumentError(f"n_ratings must be at least 1; got {n_ratings}.")
