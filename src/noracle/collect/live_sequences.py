"""Intervals of a running project that hold at every look, whatever the classes' speeds, and
whatever hides behind "unsure".

Write s_k for the share of items that the system answered with class k (known from its answers
alone), r_k = P(the truth is k | answered k), so that A = Σ_k s_k·r_k. For a set S of classes let
r_S = Σ_S s_k·r_k / s_S. The hits of S are the questions about a class of S that is the answer.

**One set.** Given the answers, each hit of S is right with probability r_S, independently, in the
sealed order: the class asked about is drawn uniformly and the places at random, and an item has one
hit at most. So the likelihood-mixture sequence of
:func:`noracle.bounds.linear.anytime` over the hits of S holds for *all* prefixes of the sealed order together with probability 1 - e. The
prefix that is complete for all classes of S may depend on anything, also on answers, because all
prefixes are covered. Then A is in [s_S·low, s_S·high + (1 - s_S - share without an answer)]: the
classes outside S contribute between nothing and their share of the answers.

**All sets at once.** Which classes are slow is seen only in the data. So the error e is divided
over all sets beforehand: one half for S = all classes, and e/(2·j·(j+1)·C(K, j)) for each of the
C(K, j) sets that leave j classes out; the sum over all sets is at most e. The intersection of the
intervals of *any* sets, chosen in any way, is then valid. We take those that leave out the j
slowest classes, j = 0, 1, 2, …

**All classes.** For S = all classes and one question an item both kinds of label enter the
likelihood (``estimate_accuracy``).

**Unsure.** Let every unsure verdict hide an unknown one. Each choice of hidden verdicts gives
counts, and the interval of the true choice is valid; so the union over all choices is. The union is
found at two corners. A label is a factor of the likelihood: h(A) = 1 - A (times a constant) if it
speaks against the system, g(A) = A or A + K - 2 if for it. Let L be the likelihood of the other
labels, Ā the mean of A under the density L/∫L. Since g and h are linear, E_g(A)/E_h(A) =
[g(Ā)/h(Ā)]·[h(A)/g(A)], which is above 1 if and only if A < Ā: below Ā the verdict against the
system keeps every A that the other keeps. Moreover each set contains its own mean: for a
log-concave density on [0, 1] the value at the mean is at least 1/e of the largest one, so E(mean)
<= e < 1/error. The mean with h lies below Ā, that with g above. So if the lower limit with g is
below Ā, the one with h is no higher; and otherwise the one with h is at most its mean, hence at
most Ā. By induction all verdicts against the system give the lowest lower limit, and likewise all
for it the highest upper limit.

Assumes iid items (given the answers), right verdicts, and that the sealed order is kept within each
class.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from noracle.bounds.linear import Cell, anytime
from noracle.collect.live_rows import NO, UNSURE, YES, Real, Rows, Whole

_MOST_SETS = 40
_LONGER = 1.4
_ROUNDING = 1e-12
_LARGEST = 0.36  # below 1/e, as the proof about unsure verdicts needs


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """The questions about a system's own answer, in the sealed order, and the shares of its answers
    over the population.

    ``value`` is the verdict (or unsure). ``shares[k]`` is s_k.
    """

    pool: Whole
    place: Whole
    value: Whole
    shares: Real


def hits_of(main: Rows, answers: Whole, n_classes: int) -> Hits:
    """The hits of a partitioned project; the population are the items with a main question.

    Examples
    --------
    >>> rows = Rows(item=np.arange(4), place=np.arange(4), pool=np.array([0, 1, 0, 1]), kind=np.zeros(4, int), value=np.array([1, 0, 0, 1]),
    ...     unsure=np.zeros(4, bool), held=np.zeros(4, bool), expired=np.zeros(4, int))
    >>> hits = hits_of(rows, np.array([0, 0, 1, 1]), 2)
    >>> hits.place.tolist(), hits.shares.tolist()
    ([0, 3], [0.5, 0.5])
    """
    hit = answers[main.item] == main.pool
    return Hits(
        pool=main.pool[hit],
        place=main.place[hit],
        value=main.value[hit],
        shares=answer_shares(main, answers, n_classes),
    )


def answer_shares(main: Rows, answers: Whole, n_classes: int) -> Real:
    """Share of the items with a main question that the system answered with each class."""
    items = main.items
    given = answers[items]
    counts = np.bincount(given[(given >= 0) & (given < n_classes)], minlength=n_classes)
    return np.asarray(counts / max(1, len(items)), dtype=np.float64)


def set_error(error: float, n_classes: int, left_out: int) -> float:
    """The part of the error that belongs to one set which leaves so many classes out.

    Examples
    --------
    >>> K = 6
    >>> sum(math.comb(K, j) * set_error(0.05, K, j) for j in range(K)) <= 0.05
    True
    """
    return (
        error / 2
        if not left_out
        else error / (2 * left_out * (left_out + 1) * math.comb(n_classes, left_out))
    )


def unsure_limits(yes: int, no: int, unsure: int, error: float) -> tuple[float, float]:
    """Limits for the rate of right answers that hold at every look, whatever the unsure verdicts
    hide.

    Examples
    --------
    >>> unsure_limits(0, 0, 5, 0.05)[0], unsure_limits(80, 20, 0, 0.05)[1] < 0.95
    (0.0, True)
    """
    n = yes + no + unsure
    if not n:
        return 0.0, 1.0
    error = min(error, _LARGEST) if unsure else error
    return anytime([Cell(n, yes)], error).low, anytime([Cell(n, yes + unsure)], error).high


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetLimits:
    """What one set of classes says about the accuracy."""

    left_out: int
    n: int
    low: float
    high: float


def set_limits(
    hits: Hits, open_places: Whole, *, error: float, everything: bool
) -> tuple[SetLimits, ...]:
    """The limits of the sets that leave out the slowest classes; the set of all classes too if
    ``everything``.

    Classes that the system never answers with need not be complete: they are taken as the quickest.
    """
    shares = hits.shares
    k = len(shares)
    end = int(hits.place.max()) + 1 if len(hits.place) else 0
    opened = np.minimum(np.where(shares > 0, open_places, end), end)
    slow = np.argsort(opened, kind="stable")
    rank = np.empty(k, dtype=np.int64)
    rank[slow] = np.arange(k)
    ranks = rank[hits.pool]
    total = float(shares.sum())
    found = []
    reached = int(opened[slow[0]])
    for j in range(0 if everything else 1, min(k, _MOST_SETS)):
        if j and not int(opened[slow[j]]) > _LONGER * reached:
            continue  # the prefix is hardly longer than that of a larger set
        reached = int(opened[slow[j]])
        inside = (ranks >= j) & (hits.place < opened[slow[j]])
        values = hits.value[inside]
        yes, no, unsure = (int((values == v).sum()) for v in (YES, NO, UNSURE))
        low, high = unsure_limits(yes, no, unsure, set_error(error, k, j))
        share = float(shares[slow[j:]].sum())
        ends = (
            max(0.0, share * low - _ROUNDING),
            min(1.0, share * high + total - share + _ROUNDING),
        )  # outwards, so that rounding excludes nothing
        found.append(SetLimits(left_out=j, n=yes + no + unsure, low=ends[0], high=ends[1]))
    return tuple(found)


def class_limits(yes: Whole, n: Whole, unsure: Whole, *, error: float) -> tuple[float, float]:
    """Limits for Σ_k P(yes | asked k) at every look: one sequence a class at a K-th of the error,
    summed. Without answers: [0, 1].
    """
    low = high = 0.0
    for y, total, u in zip(yes.tolist(), n.tolist(), unsure.tolist(), strict=True):
        below, above = unsure_limits(y, total - y - u, u, error / len(yes))
        low, high = low + below, high + above
    return low, high
