"""How accurate can the average annotator be at most?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.bounds.betting import betting_interval, equal_together
from noracle.bounds.binomial import clopper_pearson, gammaln
from noracle.counts.ratings import RatingCounts, count_ratings
from noracle.errors import ArgumentError, require
from noracle.evidence.ratings import Ratings
from noracle.results import Assumption, Check, Estimate, Guarantee, Kind, check_confidence, choose
from noracle.superhuman.bounds import (
    FROM_AGREEMENT,
    empirical_bound,
    pairwise_bound,
    plurality_bound,
)

Reals = NDArray[np.float64]
# Kinds of votes × labels × annotators³ beyond which the path leaves out plurality.
MOST_WORK = 2e8


def expected_top_share(votes: ArrayLike, n_drawn: int) -> Reals:
    """The mean share of the top label among ``n_drawn`` of an item's votes, row by row.

    P(max <= t) is the coefficient of z^k in Π_l Σ_{j<=t} C(n_l, j)·z^j, divided by C(n, k); the
    mean of the largest count is the sum of P(max > t) over t. Rows must have at least ``n_drawn``
    votes.
    """
    tally = np.asarray(votes, dtype=np.int64)
    total = tally.sum(axis=1)
    log_all = _log_choose(total, n_drawn)
    j = np.arange(n_drawn + 1)
    spare = tally[:, :, None] - j
    logs = _log_choose(np.maximum(tally[:, :, None], j), j)
    # The divisor C(n, k) is shared out over the labels by their votes, so that products stay
    # finite.
    divisor = log_all[:, None, None] * (tally / total[:, None])[:, :, None]
    ways = np.where(spare >= 0, np.exp(logs - divisor), 0.0)
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


def _log_choose(n: NDArray[np.int64], k: int | NDArray[np.int64]) -> Reals:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


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
    v = min(1.0, float((counts.agreement * counts.n_items).sum() / counts.n_items.sum()))
    return [
        {
            "annotators": k,
            "plurality": float(share @ expected_top_share(kinds, k)) if work <= MOST_WORK else None,
            **{name: bound(v, k) for name, bound in _CONCAVE.items()},
        }
        for k in range(2, last + 1)
    ]


Method = Literal["plurality", "pairwise", "quadratic", "free", "paper", "paper-empirical"]
METHODS: tuple[Method, ...] = get_args(Method)
Pairs = Literal["item", "pooled"]

AGREEMENT = "independent-or-positively-correlated annotators: p_i·p_j ≤ P_ij"
"""Assumption (2), as results name it."""
ONE_LABEL = Assumption(name="one true label per item")
IID = Assumption(name="iid items", detail="the items are a random sample of the items asked about")
POOL = Assumption(
    name="the same pool of annotators",
    detail="the ceiling is that of the people who annotated, not of other people",
)
SAME_NUMBER = Assumption(
    name="same number of annotations per item",
    detail="by plan, not by chance: every item gets as many as these",
)
UNRELATED = Assumption(
    name="who annotates an item does not depend on the item",
    detail="pairs are compared on the items they share",
)

VACUOUS = "the interval is [0, 1]: these ratings say nothing at this confidence"
SINGLE = "every item has one rating: ratings that nobody else checked say nothing about accuracy"
AVERAGE = "the human of this claim is the average annotation, each item counting equally"
NO_BOUND = "not a bound: two independent annotators with accuracies 1 and 0.6 have a mean of 0.8, and this number is 0.775"

DIFFERENT_ITEMS = "raters saw different items: the mean is over raters, each counting equally, as if each had rated every item"
UNEVEN = "items have different numbers of ratings: an item that two raters did not share counts as agreement"

_CONCAVE: dict[str, Callable[[float, int], float]] = {
    **FROM_AGREEMENT,
    "paper-empirical": lambda v, n_ratings: empirical_bound(v) if n_ratings > 1 else 1.0,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """A bound at the sample, its limit, and what the limit rests on."""

    value: float
    high: float
    interval: str = "betting"
    anytime: bool = True
    se: float = math.nan
    rests: tuple[Assumption, ...] = ()
    notes: tuple[str, ...] = ()
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def estimate_ceiling(
    ratings: Ratings | RatingCounts,
    *,
    method: Method = "plurality",
    confidence: float = 0.95,
    pairs: Pairs = "item",
    by_annotators: bool = False,
    checks: Sequence[Check] = (),
    strict: bool = False,
) -> Estimate:
    """Bound the accuracy of the average annotator from above, without an answer key.

    m = E[right votes / votes of the item]. ``value`` is the bound at the sample and ``high`` its
    upper limit: P(m <= high) is at least ``confidence``. Nothing is said from below, so ``low`` is
    0.

    Parameters
    ----------
    ratings
        Ratings, or counts of them.
    method
        ``plurality``, the mean share of votes for the most frequent label, is the smallest that
        assumes nothing of annotators. ``free``, ``quadratic`` and ``paper`` (Theorem 1) are
        functions of mean pairwise agreement v and are never below it. ``pairwise`` (U*) needs to
        know who rated what and assumption (2). ``paper-empirical``, sqrt(v), is not a bound.
    pairs
        How v is averaged: ``item`` gives each item the same weight, within items that have the same
        number of ratings. ``pooled`` gives each pair the same weight, which is the same where all
        items have as many ratings, and is refused where they do not.
    by_annotators
        Write to ``diagnostics["by_annotators"]`` what each bound would be with fewer annotators.
    checks
        Results of :func:`noracle.superhuman.check_assumptions`: a supported one is written to the
        guarantee, a failed one makes it HEURISTIC, or raises if ``strict``.

    Notes
    -----
    ``plurality``: limit by betting on top/n in [0, 1], valid at every look and however n was
    decided. Functions g_K of agreement: where every item has K ratings, g_K at the betting limit of
    v. Else m = Σ w_K m_K over numbers of ratings K, the shares w_K being those of the items asked
    about; the limit is 1 - Σ low(w_K)·(1 - g_K(high(v_K))), each at error rate (1 -
    confidence)/(2K(K - 1)), whose sum over all K >= 2 is 1 - confidence. ``pairwise``: U* at
    Clopper–Pearson limits of every P_ij, joined by Bonferroni. Where items have different numbers
    of ratings, an item that two did not share counts as agreement, since what they skipped may be
    what is easy.

    Assumes one true label per item and iid items; it is a statement on the pool of annotators at
    hand.

    References
    ----------
    Xu, Walder and Xu, "Humanly certifying superhuman classifiers" (ICLR 2023), Theorems 1 and 5,
    with the corrections listed in the documentation.

    Examples
    --------
    >>> counts = RatingCounts.from_votes([[3, 0]] * 700 + [[2, 1]] * 300)
    >>> estimate_ceiling(counts)
    Estimate(ceiling on the accuracy of 'average annotator': 0.9 [0, 0.9154] at 0.95, betting, finite-sample)
    >>> round(estimate_ceiling(counts, method="paper").value, 4)
    0.9309
    """
    error = 1 - check_confidence(confidence)
    choose("method", method, METHODS)
    choose("pairs", pairs, get_args(Pairs))
    counts = counts_of(ratings, pairs=method == "pairwise")
    if pairs == "pooled" and method != "plurality":
        _refuse_pooled(counts)
    unnamed = isinstance(ratings, RatingCounts) or not counts.raters
    rule = "must say who rated what for method 'pairwise'; got votes without pairs of raters"
    remedy = "Count with pairs=True, or use method='plurality'."
    require(method != "pairwise" or counts.pairs or not unnamed, f"ratings {rule}. {remedy}")
    found = _bound(counts, method, error)
    heuristic = method == "paper-empirical"
    guarantee = Guarantee(
        kind=Kind.HEURISTIC if heuristic else Kind.FINITE_SAMPLE,
        error_rate=error,
        anytime=found.anytime,
        assumptions=(ONE_LABEL, IID, POOL, *found.rests),
    )
    high = min(1.0, found.high)
    single = int(counts.n_ratings.max(initial=0)) == 1
    said = {NO_BOUND: heuristic, SINGLE: single, VACUOUS: high >= 1}
    notes = [*(note for note, holds in said.items() if holds), *found.notes]
    notes += [f"not used: {k} {name}" for name, k in counts.unused.items() if k]
    diagnostics = dict(found.diagnostics)
    if by_annotators:
        diagnostics["by_annotators"] = ceiling_path(counts)
    return Estimate(
        quantity="ceiling on the accuracy",
        subject="average annotator",
        value=found.value,
        low=0.0,
        high=high,
        confidence=confidence,
        side="upper",
        method=method,
        interval=found.interval,
        guarantee=guarantee.given(*checks, strict=strict),
        se=found.se,
        counts=counts.summary(),
        diagnostics=diagnostics,
        notes=tuple(notes),
        reason="no ratings" if math.isnan(found.value) else "",
    )


def counts_of(ratings: Ratings | RatingCounts, *, pairs: bool = False) -> RatingCounts:
    """The counts themselves, or those of the ratings; kinds of votes without items are left out."""
    if isinstance(ratings, RatingCounts):
        seen = ratings.n_items > 0
        if seen.all():
            return ratings
        kept: dict[str, Any] = {"votes": ratings.votes[seen], "n_items": ratings.n_items[seen]}
        return dataclasses.replace(ratings, **kept, answers={}, matches={})
    rule = f"must be Ratings or RatingCounts; got {type(ratings).__name__}"
    require(isinstance(ratings, Ratings), f"ratings {rule}. Use Ratings.from_tables(…).")
    return count_ratings(ratings, pairs=pairs)


def _bound(counts: RatingCounts, method: str, error: float) -> _Bound:
    if not counts.n_items.sum():
        return _Bound(value=math.nan, high=1.0)
    if method == "plurality":
        return _plurality(counts, error)
    if method == "pairwise":
        return _pairwise(counts, error)
    return _by_agreement(counts, _CONCAVE[method], error, heuristic=method == "paper-empirical")


def _refuse_pooled(counts: RatingCounts) -> None:
    sizes = np.unique(counts.n_ratings)
    if len(sizes) > 1:
        raise ArgumentError(
            f"pairs must be 'item' where items have different numbers of ratings; got 'pooled' with {sizes[0]} to {sizes[-1]}. If ratings "
            "were added where the first ones disagreed, pooled pairs are mostly those of hard items and the result is no ceiling "
            "(0.876 for 0.961 was seen). Use pairs='item', or only the first ratings of every item."
        )


def _upper(values: Reals, n: NDArray[np.int64], error: float) -> float:
    """The betting limit of the mean of values in [0, 1]."""
    return betting_interval(equal_together(values, 0.0, 1.0, n), 0.0, error)[1]


def _plurality(counts: RatingCounts, error: float) -> _Bound:
    share, n = counts.top / counts.n_ratings, counts.n_items
    value, total = plurality_bound(counts.top, counts.n_ratings, n), int(n.sum())
    se = math.nan
    if total > 1:
        se = math.sqrt(float((n * (share - value) ** 2).sum()) / (total - 1) / total)
    return _Bound(value=value, high=_upper(share, n, error), se=se, notes=(AVERAGE,))


def _by_agreement(
    counts: RatingCounts, bound: Callable[[float, int], float], error: float, *, heuristic: bool
) -> _Bound:
    """A concave function of agreement, for each number of ratings on its own."""
    sizes, total = [int(k) for k in np.unique(counts.n_ratings)], int(counts.n_items.sum())
    rows, value, high = [], 0.0, 1.0
    for size in sizes:
        here = counts.n_ratings == size
        agreement, n = counts.agreement[here], counts.n_items[here]
        own = int(n.sum())
        v = min(1.0, float((agreement * n).sum() / own)) if size > 1 else 1.0
        at = bound(v, size)
        value += own / total * at
        top = 1.0
        if size > 1:
            # Rates that depend on the number of ratings alone, so that a number not seen so far has
            # its part too.
            part = error if len(sizes) == 1 else error / (2 * size * (size - 1))
            top = min(1.0, bound(min(1.0, _upper(agreement, n, part)), size))
            low = 1.0
            if len(sizes) > 1:
                shares = equal_together([1.0, 0.0], 0.0, 1.0, [own, total - own])
                low = betting_interval(shares, part, 0.0)[0]
            high -= low * (1.0 - top)
        seen = v if size > 1 else math.nan
        rows.append({"ratings": size, "items": own, "agreement": seen, "value": at, "high": top})
    # Without the assumption that all items have as many ratings, items with other numbers
    # contribute 1.
    one = len(sizes) == 1 and not heuristic
    return _Bound(
        value=value,
        high=high,
        rests=(SAME_NUMBER,) if one else (),
        notes=(AVERAGE,),
        diagnostics={"by_number_of_ratings": rows},
    )


def _pairwise(counts: RatingCounts, error: float) -> _Bound:
    """U* of the rates at which every two raters agree."""
    size = max(len(counts.raters), 1 + max((j for _, j in counts.pairs), default=0))
    total = int(counts.n_items.sum())
    n_shared = [int(t.sum()) for t in counts.pairs.values() if t.sum()]
    uneven = len(np.unique(counts.n_ratings)) > 1
    rates, limits = _agreement_rates(counts, size, error, uneven=uneven)
    value, high = pairwise_bound(rates), pairwise_bound(limits)
    rests = [Assumption(name=AGREEMENT, detail="assumption (2), for any two persons")]
    notes = ["a rater must be one person throughout"]
    diagnostics: dict[str, Any] = {"n_raters": size, "n_pairs": len(n_shared)}
    every_pair = len(n_shared) == size * (size - 1) // 2 and min(n_shared, default=0) == total
    if every_pair and (counts.n_ratings == size).all():
        # Both limits hold together if each has half the error rate.
        plain = _plurality(counts, error / 2)
        joint = pairwise_bound(_agreement_rates(counts, size, error / 2, uneven=False)[1])
        both = {"value": min(value, plain.value), "high": min(joint, plain.high)}
        alone = {"value": plain.value, "high": plain.high}
        diagnostics |= {"plurality": alone, "with_plurality": both}
        joint_limit = f"with limit {both['high']:.4f} for both together"
        notes.append(f"the smaller of this and plurality is {both['value']:.4f}, {joint_limit}")
    else:
        notes.append(DIFFERENT_ITEMS)
        if uneven:
            notes.append(UNEVEN)
        else:
            rests.append(UNRELATED)
    return _Bound(
        value=value,
        high=high,
        interval="exact",
        anytime=False,
        rests=tuple(rests),
        notes=tuple(notes),
        diagnostics=diagnostics,
    )


def _agreement_rates(
    counts: RatingCounts, size: int, error: float, *, uneven: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P_ij at the sample and joint upper limits at ``error``; 1 for two who share no item."""
    total = int(counts.n_items.sum())
    shared = {pair: int(t.sum()) for pair, t in counts.pairs.items() if t.sum()}
    rates, limits = np.ones((size, size)), np.ones((size, size))
    for (i, j), n in shared.items():
        same = int(np.trace(counts.pairs[i, j]))
        if uneven:
            same, n = same + total - n, total
        rates[i, j] = rates[j, i] = same / n
        limits[i, j] = limits[j, i] = clopper_pearson(same, n, 0.0, error / len(shared))[1]
    return rates, limits
