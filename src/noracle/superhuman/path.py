"""Ceilings as they would be with fewer annotators, exactly, from the votes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.bounds.special import gammaln
from noracle.counts.ratings import RatingCounts
from noracle.superhuman.bounds import empirical_bound, free_bound, paper_bound, quadratic_bound

Reals = NDArray[np.float64]
# Kinds of votes × labels × annotators³ beyond which the path leaves out plurality.
MOST_WORK = 2e8


def expected_top_share(votes: ArrayLike, n_drawn: int) -> Reals:
    """The mean share of the most frequent label among ``n_drawn`` of an item's votes, drawn without
    replacement; a value for each row.

    P(max <= t) is the coefficient of z^k in Π_l Σ_{j<=t} C(n_l, j)·z^j, divided by C(n, k); the
    mean of the largest count is the sum of P(max > t) over t. Rows must have at least ``n_drawn``
    votes.

    Examples
    --------
    >>> expected_top_share([[2, 1, 0]], 2).round(4).tolist()
    [0.6667]
    """
    tally = np.asarray(votes, dtype=np.int64)
    total = tally.sum(axis=1)
    log_all = gammaln(total + 1.0) - gammaln(n_drawn + 1.0) - gammaln(total - n_drawn + 1.0)
    j = np.arange(n_drawn + 1)
    spare = tally[:, :, None] - j
    with np.errstate(invalid="ignore"):
        logs = (
            gammaln(tally[:, :, None] + 1.0)
            - gammaln(j + 1.0)
            - gammaln(np.maximum(spare, 0) + 1.0)
        )
    # The divisor C(n, k) is shared out over the labels by their votes, so that products stay
    # finite.
    ways = np.where(
        spare >= 0,
        np.exp(logs - log_all[:, None, None] * (tally / total[:, None])[:, :, None]),
        0.0,
    )
    mean = np.zeros(len(tally))
    for t in range(n_drawn):
        allowed = ways[:, :, : t + 1]
        product = np.zeros((len(tally), n_drawn + 1))
        product[:, 0] = 1.0
        for label in range(tally.shape[1]):
            grown = np.zeros_like(product)
            for used in range(t + 1):
                grown[:, used:] += product[:, : n_drawn + 1 - used] * allowed[:, label, used, None]
            product = grown
        mean += 1 - np.clip(product[:, n_drawn], 0.0, 1.0)
    return np.asarray(mean / n_drawn)


def ceiling_path(counts: RatingCounts) -> list[dict[str, Any]]:
    """What each ceiling would be with k = 2, 3, … of the annotations of every item, chosen at
    random; Figure 3 of the paper.

    Agreement of two random votes does not depend on k, so ``free``, ``quadratic``, ``paper`` and
    ``paper-empirical`` are their formulas at the same v; ``plurality`` is the exact mean over all
    choices. k ends at the smallest number of votes on an item, so that all points speak of the same
    items. Values at the sample; no limits.

    Returns
    -------
    list of dict
        One for each k: ``annotators`` and the five values. Empty where some item has one vote.

    Examples
    --------
    >>> counts = RatingCounts.from_votes([[3, 0], [3, 0], [2, 1]])
    >>> [(row["annotators"], round(row["plurality"], 4)) for row in ceiling_path(counts)]
    [(2, 0.8889), (3, 0.8889)]
    """
    if not counts.n_items.sum():
        return []
    # Which label has how many votes does not matter here.
    ordered = -np.sort(-counts.votes, axis=1)
    kinds, place = np.unique(ordered, axis=0, return_inverse=True)
    n = np.bincount(place.reshape(-1), weights=counts.n_items)
    kinds = kinds[:, kinds.any(axis=0)]
    last = int(counts.n_ratings.min())
    work = kinds.shape[0] * kinds.shape[1] * float(last) ** 3
    share = n / n.sum()
    v = (
        min(1.0, float((counts.agreement * counts.n_items).sum() / counts.n_items.sum()))
        if last > 1
        else float("nan")
    )
    return [
        {
            "annotators": k,
            "plurality": float(share @ expected_top_share(kinds, k)) if work <= MOST_WORK else None,
            "free": free_bound(v, k),
            "quadratic": quadratic_bound(v, k),
            "paper": paper_bound(v, k),
            "paper-empirical": empirical_bound(v),
        }
        for k in range(2, last + 1)
    ]
