"""Rates of labels with limits that hold when an item has several labels, and tests of even use of
classes.

Labels of one item are not independent: a hard item fools all. So items are the sample. With one
label an item the limits are those of Clopper and Pearson; else each item counts with the share of
its labels, a value in [0, 1], and the limits come from betting. Both hold at every number of items.
The tests of even use turn an item's labels together, so that they too need no independence inside
an item.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noracle.bounds.betting import Score, betting_interval, equal_together, log_wealth
from noracle.bounds.binomial import clopper_pearson
from noracle.bounds.special import chdtrc
from noracle.bounds.tails import binomial_at_least
from noracle.learn.labels import _distinct_integers as distinct_integers
from noracle.results import NaN
from noracle.results.analysis import Rate

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]
_FEW = 8  # classes of one item that are drawn one by one


class Sums(NamedTuple):
    """Hits and labels of each item that has a label."""

    hits: Floats
    n: Floats


def sums_by_item(item: Whole, hit: NDArray[np.bool_]) -> Sums:
    """Hits and labels of each item."""
    if item.size and item.max() < 8 * item.size:
        n = np.bincount(item)
        hits = np.bincount(item[hit], minlength=len(n))
        return Sums(hits[n > 0].astype(np.float64), n[n > 0].astype(np.float64))
    _, place = np.unique(item, return_inverse=True)
    place = place.reshape(-1)
    return Sums(
        np.bincount(place, weights=hit).astype(np.float64), np.bincount(place).astype(np.float64)
    )


def rate_of(name: str, sums: Sums, tail: float, *, expected: float = NaN) -> Rate:
    """The rate with limits that each fail with chance ``tail``; NaN and [0, 1] without labels."""
    items = len(sums.n)
    if not items:
        return Rate(
            name=name, hits=0, n=0, items=0, value=NaN, low=0.0, high=1.0, expected=expected
        )
    hits, total = round(float(sums.hits.sum())), round(float(sums.n.sum()))
    if total == items:
        value = hits / items
        low, high = clopper_pearson(hits, items, tail, tail)
    else:
        value = float(np.mean(np.sort(sums.hits / sums.n)))
        low, high = betting_interval(_scores(sums), tail, tail)
        low, high = min(low, value), max(high, value)
    verdict: Literal["", "more", "less"] = (
        "more" if low > expected else "less" if high < expected else ""
    )
    return Rate(
        name=name,
        hits=hits,
        n=total,
        items=items,
        value=value,
        low=low,
        high=high,
        expected=expected,
        verdict=verdict,
    )


def p_at_least(sums: Sums, rate: float) -> float:
    """P-value of "the mean share is at most ``rate``": exact binomial with one label an item, else
    one over the wealth of a bet.
    """
    items = len(sums.n)
    if not items or rate >= 1:
        return 1.0
    if sums.n.sum() == items:
        return binomial_at_least(round(float(sums.hits.sum())), items, rate)
    return min(1.0, math.exp(-max(0.0, log_wealth(_scores(sums), rate))))


def _scores(sums: Sums) -> list[Score]:
    return equal_together(sums.hits / sums.n, 0.0, 1.0)


def interval_name(sums: Sums) -> str:
    """What the limits of :func:`rate_of` are called."""
    return "exact" if sums.n.sum() == len(sums.n) else "betting"


class Use(NamedTuple):
    """How evenly some classes are ruled out. ``patterns`` has, for each item, how often it rules
    out its first class, its second, …
    """

    counts: Whole
    expected: float
    scale: float
    statistic: float
    patterns: Whole

    @property
    def few(self) -> bool:
        """Whether there are too few labels for the chi-square limit."""
        return self.scale > 0 and min(self.expected * self.scale, self.expected / self.scale) < 5

    @property
    def p_limit(self) -> float:
        """The p-value in the limit of many items; 1 where every item rules out every class equally
        often.
        """
        return float(chdtrc(len(self.counts) - 1, self.statistic)) if self.scale > 0 else 1.0


def measure_use(item: Whole, label: Whole, n_classes: int) -> Use | None:
    """Are ``n_classes`` classes, numbered from 0, used evenly, whatever the dependence inside an
    item? None without labels or a choice.

    Under even use the classes of an item's labels may be renamed at random, item by item. Then the
    counts C_k have mean E = n/K and covariance φ·E·(I - J/K), φ = Σ_i (K·Σ_k m_ik² - m_i²)/((K -
    1)·n), with m_ik labels of item i on class k. So X² = Σ (C_k - E)²/(φ·E) tends to chi-square
    with K - 1 degrees; φ is 1 with one label an item. Where E·φ or E/φ is below 5
    :func:`simulate_use` renames instead, which is valid at every n.
    """
    n = len(label)
    if n == 0 or n_classes < 2:
        return None
    counts = np.bincount(label, minlength=n_classes)
    expected = n / n_classes
    pairs, times = np.unique(np.stack([item, label]), axis=1, return_counts=True)
    place = np.unique(pairs[0], return_inverse=True)[1].reshape(-1)
    per_item = np.bincount(place, weights=times)
    scale = float((n_classes * (times**2).sum() - (per_item**2).sum()) / ((n_classes - 1) * n))
    statistic = (
        float(np.sort((counts - expected) ** 2).sum()) / (scale * expected) if scale > 0 else 0.0
    )
    use = Use(counts, expected, scale, statistic, np.empty((0, 0), dtype=np.int64))
    return use._replace(patterns=_patterns(place, times)) if use.few else use


def _patterns(place: Whole, times: Whole) -> Whole:
    order = np.lexsort((-times, place))
    rank = np.arange(len(place)) - np.searchsorted(place[order], place[order], side="left")
    patterns = np.zeros((int(place.max()) + 1, int(rank.max()) + 1), dtype=np.int64)
    patterns[place[order], rank] = times[order]
    return patterns[np.lexsort(patterns.T[::-1])]  # the order of the items must not matter


def simulate_use(use: Use, size: int, rng: np.random.Generator) -> Floats:
    """Statistics under even use: the classes of every item are renamed at random."""
    n_classes, (n, width) = len(use.counts), use.patterns.shape
    if width == 1 and (use.patterns == 1).all():
        drawn = rng.multinomial(n, np.full(n_classes, 1 / n_classes), size=size)
        return _statistics_of(drawn, use)
    found = np.empty(size)
    step = max(1, 1_000_000 // (n * (width if width <= _FEW else n_classes)))
    for start in range(0, size, step):
        block = min(step, size - start)
        if width <= _FEW:
            classes = distinct_integers(block * n, width, n_classes, rng).reshape(block, -1)
            cell = classes + n_classes * np.arange(block)[:, None]
            weights = np.broadcast_to(use.patterns.reshape(-1), cell.shape)
            drawn = np.bincount(
                cell.reshape(-1), weights=weights.reshape(-1), minlength=block * n_classes
            ).reshape(block, n_classes)
        else:
            padded = np.pad(use.patterns, ((0, 0), (0, n_classes - width)))
            drawn = rng.permuted(np.broadcast_to(padded, (block, *padded.shape)), axis=2).sum(
                axis=1
            )
        found[start : start + block] = _statistics_of(drawn, use)
    return found


def _statistics_of(counts: NDArray[Any], use: Use) -> Floats:
    return np.asarray(
        np.sort((counts - use.expected) ** 2, axis=1).sum(axis=1) / (use.scale * use.expected),
        dtype=np.float64,
    )


def p_of(statistic: float, simulated: Floats) -> float:
    """(1 + number that reach the statistic)/(1 + number): valid at every number of simulations."""
    return (1 + int(np.sum(simulated >= statistic - 1e-9 * max(1.0, abs(statistic))))) / (
        1 + len(simulated)
    )
