"""Limits for a sum of rates over parts, θ = Σ q_s·A_s with known shares q_s, without splitting the
error between the parts.

Each part has labels of its own, linear in its own rate A_s (`Cell`). A box of one interval per part
is √G times too wide; here one statistic T = Σ q_s Σ_j v_sj·(S_sj/n_sj - a_sj)/b_sj, with weights v
fixed by the design, is inverted as a whole. With c_sj = q_s·v_sj/(n_sj·b_sj), what one success adds
to T, and λ > 0,

    log P(T >= t) <= -λ·t + Σ_s f_s(A_s, λ),   f_s(A, λ) = Σ_j n_j·log(1 + (a_j + b_j·A)(e^(λ·c_j) - 1)) - λ·c_j·n_j·a_j.

The rates are not known; they are confined first, jointly, to a set that holds all of them but with
probability γ:

    D(A) = Σ_s D_s(A_s) <= c,   D_s(A) = Σ_j n_j·KL(S_j/n_j, a_j + b_j·A).

Since E[e^(t·n·KL)] <= 1/(1 - t) for a binomial (Agrawal 2020), D has the tail of a sum of
exponentials: P(D > c) <= e^(-t·c)/(1 - t)^cells. This round set is much smaller than a box, in
which all parts may be off at once. By duality the supremum of Σ f_s over D(A) <= c and Σ q_s·A_s <=
m is at most μ·m + ν·c + Σ_s max_A [f_s(A, λ) - ν·D_s(A) - μ·q_s·A] for all μ, ν >= 0. So every (λ,
μ, ν) proves a lower limit

    m = (log(tail) + λ·t - ν·c - Σ_s max_A [f_s(A, λ) - ν·D_s(A) - μ·q_s·A]) / μ,

a good one is searched for, and what is left to the inner maximum is bounded by tangents. The upper
limit is the lower limit of failures.

Two parts with one kind of label each need no Chernoff bound: P(T >= t) is summed over both counts.
It rises with each rate, so that over a piece of the line Σ q_s·A_s = m it is at most what it is
with both rates at their upper ends; pieces are halved until all are rejected.

Assumes shares known; parts defined without verdicts; in each part a simple random sample, with
replacement or, for one kind of label, without (a convex function of the count has at most its
binomial expectation: Hoeffding 1963, Theorem 4); numbers of labels independent of verdicts; one
count per item; no optional stopping.

References
----------
Agrawal (2020), IEEE Trans. Inf. Theory 66, 6297-6302. Berger and Boos (1994), JASA 89, 1012-1016.
Chernoff (1952), Ann. Math. Statist. 23, 493-507. Hoeffding (1963), JASA 58, 13-30.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from noracle.bounds.binomial import (
    BinomialCell,
    Limits,
    clopper_pearson,
    exact,
    find_root,
    gammaln,
    hypergeometric_limits,
    information,
    maximum_likelihood,
    merge,
    ndtri,
    ordered,
    relative_entropy,
    xlog1py,
    xlogy,
)

Method = Literal[
    "exact",
    "hypergeometric",
    "exact for two parts",
    "exact for the largest part",
    "exact for each part",
    "profile",
]
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

CONFINED = (
    0.04  # of each tail goes to the set that confines the rates of the parts: 0.002 in all at 95 %
)
REST = (0.0, 0.05, 0.1, 0.2, 0.4)  # of each tail may go to all parts but the largest
SPLIT = (
    -1.0
)  # instead of a share of the error: every part has its own limits, at an equal share of it
PAIR = (
    -2.0
)  # instead of a share of the error: the exact law of T, for two parts with one kind of label each
MOST_SPLIT = 3  # with more parts the box is never narrower
_EDGE = 1e-12
_ROUNDING = 1e-9
_LARGEST_EXPONENT = 500.0
_MOST_COUNTS = 5_000  # of one part that are summed over; with more the profile is as good
_MOST_PIECES = 8_192


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A part of the population: its share of it, the labels in it, and its size where those were
    drawn without replacement.
    """

    share: float
    cells: tuple[BinomialCell, ...]
    size: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class SumLimits:
    """An interval for a sum of rates, and how it was made; ``empty`` says that no rates fit the
    counts.
    """

    low: float
    high: float
    empty: bool
    method: Method


@dataclasses.dataclass(frozen=True, slots=True)
class _Sums:
    """Parts as arrays, one row per part and one column per kind of label; missing kinds have no
    trials.
    """

    share: Floats
    n: Floats
    successes: Floats
    a: Floats
    b: Floats
    weight: Floats  # v: of each kind in its part's estimate

    @property
    def unit(self) -> Floats:
        """c: what one success adds to T."""
        return np.asarray(self.share[:, None] * self.weight / (np.maximum(self.n, 1.0) * self.b))

    def statistic(self) -> float:
        """T, unbiased for Σ q_s·A_s."""
        return float(np.sum(self.unit * (self.successes - self.n * self.a)))

    def mirrored(self) -> _Sums:
        """The same with failures for successes, whose rates are 1 - A."""
        return _Sums(
            self.share,
            self.n,
            self.n - self.successes,
            np.maximum(1 - self.a - self.b, 0.0),
            self.b,
            self.weight,
        )


def sum_limits(
    parts: Iterable[Part], below: float, above: float, *, blind: float = 0.0, guess: float = 0.7
) -> SumLimits:
    """Finite-sample limits for Σ q_s·A_s + blind·A_blind.

    One part: its exact limits times its share (hypergeometric where ``size`` is given and all
    labels are ordinary). Two with one kind of label each: the exact law of the sum. Several: either
    the Chernoff bound over all parts (see the module), or exact limits for the largest part plus
    those of the rest at a small share of the error, or for two or three parts exact limits for
    each. The method with the smaller `predicted_width` is taken, which depends on shares, numbers
    of labels and ``guess``, never on successes. Parts that are labelled completely are known and
    cost nothing.

    Of each tail, 4 % is spent on the set that confines the rates of the parts (Berger and Boos) and
    96 % on T. Against normal limits of the same statistic the width is about 1.4 times
    (√(2·log(1/tail)) for the normal quantile), up to 1.55 where rates differ much.

    Parameters
    ----------
    parts
        Shares, labels and, where they are a simple random sample without replacement, sizes. Parts
        without labels count as ``blind``.
    below, above
        Error rates of the lower and of the upper limit; 0 for no limit on that side.
    blind
        Share of the population without labels: adds 0 to the lower and ``blind`` to the upper
        limit. The remaining 1 - Σ q_s - blind has rate 0 (items without an answer).
    guess
        A typical rate, fixed before the labels are seen. It sets weights of kinds and the choice of
        the method; limits hold whatever it is.

    Examples
    --------
    >>> first, second = Part(0.5, (BinomialCell(500, 400),)), Part(0.5, (BinomialCell(500, 250),))
    >>> limits = sum_limits([first, second], 0.025, 0.025)
    >>> round(limits.low, 3), round(limits.high, 3), limits.method
    (0.62, 0.679, 'exact for two parts')
    """
    known, open_parts, unlabelled = _sorted(parts)
    blind += unlabelled
    if not open_parts:
        return SumLimits(known, known + blind, False, "hypergeometric" if known else "exact")
    rest = _choose(open_parts, below, above, guess)
    if rest is None:
        found, method = _profile(open_parts, below, above, guess), "profile"
    elif rest == PAIR:
        found, method = _pair(open_parts, below, above), "exact for two parts"
    elif rest == SPLIT:
        each = [
            _single(part, below / len(open_parts), above / len(open_parts)) for part in open_parts
        ]
        found = Limits(
            sum(e.low for e in each), sum(e.high for e in each), any(e.empty for e in each)
        )
        method = "exact for each part"
    else:
        main, others = open_parts[-1], open_parts[:-1]
        found = _single(main, below * (1 - rest), above * (1 - rest))
        if others:
            more = _others(others, below * rest, above * rest, guess)
            found = Limits(found.low + more.low, found.high + more.high, found.empty or more.empty)
        exactly = "hypergeometric" if _finite(main) else "exact"
        method = "exact for the largest part" if others else exactly
    return SumLimits(known + found.low, known + found.high + blind, found.empty, method)  # type: ignore[arg-type]


def predicted_width(
    parts: Iterable[Part], below: float, above: float, *, guess: float = 0.7, blind: float = 0.0
) -> float:
    """The width that `sum_limits` is expected to have if every rate is ``guess``; successes are not
    looked at.

    Examples
    --------
    >>> halves = [Part(0.5, (BinomialCell(500, 0),)), Part(0.5, (BinomialCell(500, 0),))]
    >>> round(predicted_width(halves, 0.025, 0.025), 3)
    0.058
    """
    _, open_parts, unlabelled = _sorted(parts)
    if not open_parts:
        return blind + unlabelled
    return (
        blind + unlabelled + min(width for width, _ in _candidates(open_parts, below, above, guess))
    )


def sum_estimate(parts: Iterable[Part], *, guess: float = 0.7) -> tuple[float, float]:
    """Σ q_s·Â_s with the maximum-likelihood rate of every part, and the variance of T at those
    rates.

    With one kind of label in each part, T is Σ q_s·Â_s before Â is kept inside [0, 1]. With several
    kinds T has fixed weights, so that it may differ from the value, and its variance is a little
    above that of the value. NaN where a part has no labels.

    Examples
    --------
    >>> value, variance = sum_estimate([Part(0.5, (BinomialCell(500, 400),)), Part(0.5, (BinomialCell(500, 250),))])
    >>> round(value, 3), round(variance, 6)
    (0.65, 0.000205)
    """
    rows = [dataclasses.replace(part, cells=merge(part.cells)) for part in parts]
    rows.sort(key=_design)
    if not all(part.cells for part in rows):
        return math.nan, math.nan
    rates = np.array([maximum_likelihood(part.cells) for part in rows])
    value = math.fsum(part.share * rate for part, rate in zip(rows, rates, strict=True))
    sums = _arrays(rows, guess)
    p = np.clip(sums.a + sums.b * rates[:, None], 0.0, 1.0)
    spread = sums.unit**2 * sums.n * p * (1 - p)
    for row, part in enumerate(rows):
        if part.size is not None and _ordinary(part):
            spread[row] *= (part.size - part.cells[0].n) / max(part.size - 1, 1)
    return value, float(spread.sum())


def sum_profile(parts: Iterable[Part], below: float, above: float, *, blind: float = 0.0) -> Limits:
    """Profile-likelihood limits for Σ q_s·A_s + blind·A_blind: all sums with 2·(l(max) - max l on
    the sum) <= z². Asymptotic.

    On the way down from the maximum the rates solve l_s'(A_s) = ν·q_s with one ν for all parts.
    Sizes are not used, but for parts that are labelled completely. Coverage tends to the confidence
    asked for as labels grow in every part.

    References
    ----------
    Wilks (1938), Ann. Math. Statist. 9, 60-62.

    Examples
    --------
    >>> limits = sum_profile([Part(0.5, (BinomialCell(500, 400),)), Part(0.5, (BinomialCell(500, 250),))], 0.025, 0.025)
    >>> round(limits.low, 3), round(limits.high, 3)
    (0.622, 0.678)
    """
    known, open_parts, unlabelled = _sorted(parts)
    blind += unlabelled
    if not open_parts:
        return Limits(known, known + blind)
    top = np.array([maximum_likelihood(part.cells) for part in open_parts])
    sums = _arrays(open_parts, 0.5)
    total = float(sums.share.sum())
    low = _likelihood_limit(sums, top, below) if below > 0 else 0.0
    high = total - _likelihood_limit(sums.mirrored(), 1 - top, above) if above > 0 else total
    return Limits(known + low, known + high + blind)


# --- Which method, by the design
# ---------------------------------------------------------------------------------------------------------


def _sorted(parts: Iterable[Part]) -> tuple[float, list[Part], float]:
    """The sum over parts that are known completely, the parts with labels in an order of their own,
    and the share without labels.
    """
    known, unlabelled, rows = [], [], []
    for part in parts:
        cells = merge(part.cells)
        if not cells:
            unlabelled.append(part.share)
        elif part.size is not None and _ordinary(part) and cells[0].n >= part.size:
            known.append(part.share * cells[0].successes / cells[0].n)
        else:
            rows.append(
                Part(part.share, tuple(sorted(cells, key=lambda c: (c.n, c.a, c.b))), part.size)
            )
    rows.sort(key=lambda part: (_design(part), [c.successes for c in part.cells]))
    return math.fsum(known), rows, math.fsum(unlabelled)


def _design(part: Part) -> tuple[float, list[tuple[float, ...]], float]:
    return part.share, [(c.n, c.a, c.b) for c in part.cells], part.size or math.inf


def _ordinary(part: Part) -> bool:
    return all(c.a == 0 and c.b == 1 for c in part.cells)


def _finite(part: Part) -> bool:
    return part.size is not None and _ordinary(part)


def _choose(parts: Sequence[Part], below: float, above: float, guess: float) -> float | None:
    """The share of the error for all but the largest part (the last one), or None for the profile
    over all parts.
    """
    return min(_candidates(parts, below, above, guess), key=lambda candidate: candidate[0])[1]


def _candidates(
    parts: Sequence[Part], below: float, above: float, guess: float
) -> list[tuple[float, float | None]]:
    """Predicted widths, each with the share of the error for all but the largest part, None for the
    profile, or SPLIT for each alone.
    """
    main, others = parts[-1], parts[:-1]
    if not others:
        return [(main.share * _single_width(main, below, above, guess), 0.0)]
    found: list[tuple[float, float | None]] = [(_profile_width(parts, below, above, guess), None)]
    if _countable(parts):
        found.append((_pair_width(parts, below, above, guess), PAIR))
    if len(parts) <= MOST_SPLIT:
        shares = (below / len(parts), above / len(parts))
        found.append(
            (sum(part.share * _single_width(part, *shares, guess) for part in parts), SPLIT)
        )
    if _design(main) == _design(
        others[-1]
    ):  # which of two equal parts is the largest must not depend on their order
        return found
    for rest in REST:
        width = main.share * _single_width(main, below * (1 - rest), above * (1 - rest), guess)
        if width >= found[0][0]:
            break  # less error for the largest part is wider still
        if len(others) == 1:
            width += others[0].share * _single_width(others[0], below * rest, above * rest, guess)
        else:
            width += _profile_width(others, below * rest, above * rest, guess)
        found.append((width, rest))
    return found


def _single_width(part: Part, below: float, above: float, guess: float) -> float:
    """Clopper–Pearson at as many ordinary labels as carry the same information."""
    n = information(part.cells, guess) * guess * (1 - guess)
    if _finite(part) and part.size is not None:
        n *= (part.size - 1) / (part.size - part.cells[0].n)
    low, high = clopper_pearson(n * guess, n, below, above)
    return high - low


def _profile_width(parts: Sequence[Part], below: float, above: float, guess: float) -> float:
    """Chernoff limits of one rate with the variance that T has, at the error left by the box."""
    total = math.fsum(part.share for part in parts)
    variance = math.fsum(part.share**2 / information(part.cells, guess) for part in parts)
    n = guess * (1 - guess) * total**2 / variance
    low, high = (
        _entropy_limit(guess, end, -math.log(tail * (1 - CONFINED)) / n) if tail > 0 else end
        for tail, end in ((below, 0.0), (above, 1.0))
    )
    return total * (high - low)


def _pair_width(parts: Sequence[Part], below: float, above: float, guess: float) -> float:
    """Clopper–Pearson at as many ordinary labels as have the variance that T has, at the error left
    by the box.
    """
    total = math.fsum(part.share for part in parts)
    variance = 0.0
    for part in parts:
        left = (
            (part.size - part.cells[0].n) / max(part.size - 1, 1)
            if part.size is not None and _finite(part)
            else 1.0
        )
        variance += left * part.share**2 / information(part.cells, guess)
    n = guess * (1 - guess) * total**2 / variance
    low, high = clopper_pearson(n * guess, n, below * (1 - CONFINED), above * (1 - CONFINED))
    return total * (high - low)


def _entropy_limit(mean: float, end: float, reach: float) -> float:
    """Where KL(mean, p) reaches ``reach`` on the way from the mean to ``end``."""
    inside, outside = mean, end
    for _ in range(24):
        middle = (inside + outside) / 2
        inside, outside = (
            (middle, outside) if relative_entropy(mean, middle) <= reach else (inside, middle)
        )
    return outside


# --- One part
# ----------------------------------------------------------------------------------------------------------------------------


def _single(part: Part, below: float, above: float) -> Limits:
    if _finite(part) and part.size is not None:
        low, high = hypergeometric_limits(
            part.cells[0].successes, part.cells[0].n, part.size, below, above
        )
        return Limits(part.share * low, part.share * high)
    limits = exact(part.cells, below, above)
    return Limits(part.share * limits.low, part.share * limits.high, limits.empty)


def _others(parts: Sequence[Part], below: float, above: float, guess: float) -> Limits:
    """Limits for all but the largest part; without an error to spend, all that is possible."""
    if below <= 0 and above <= 0:
        return Limits(0.0, math.fsum(part.share for part in parts))
    return (
        _single(parts[0], below, above) if len(parts) == 1 else _profile(parts, below, above, guess)
    )


# --- Two parts, exactly
# ------------------------------------------------------------------------------------------------------------------


def _countable(parts: Sequence[Part]) -> bool:
    """Whether the law of T can be summed: two parts, one kind of label in each, whole counts, and
    not too many of them.
    """
    if len(parts) != 2 or any(len(part.cells) != 1 for part in parts):
        return False
    return all(
        float(c.n).is_integer() and 10 * math.sqrt(c.n) < _MOST_COUNTS
        for part in parts
        for c in part.cells
    )


def _pair(parts: Sequence[Part], below: float, above: float) -> Limits:
    total = math.fsum(part.share for part in parts)
    low, high, empty = 0.0, total, False
    if below > 0:
        limit = _pair_limit(parts, below)
        low, empty = (limit, False) if limit is not None else (total, True)
    if above > 0:
        limit = _pair_limit([_failures(part) for part in parts], above)
        high, empty = (total - limit, empty) if limit is not None else (0.0, True)
    found = ordered(low, high, 0.0, total)
    return Limits(
        min(max(found.low, 0.0), total), min(max(found.high, 0.0), total), found.empty or empty
    )


def _failures(part: Part) -> Part:
    """The same part with failures for successes, whose rate is 1 - A."""
    (c,) = part.cells
    return Part(
        part.share, (BinomialCell(c.n, c.n - c.successes, max(1 - c.a - c.b, 0.0), c.b),), part.size
    )


def _pair_limit(parts: Sequence[Part], error: float) -> float | None:
    """The largest sum found for which it and all smaller ones are proved to be too small; None if
    no rates fit the counts.
    """
    each = [_single(part, CONFINED * error / 4, CONFINED * error / 4) for part in parts]
    if any(limits.empty for limits in each):
        return None
    (q, r), tail = (part.share for part in parts), error * (1 - CONFINED)
    (low, high), (other_low, other_high) = (
        (limits.low / part.share, limits.high / part.share)
        for part, limits in zip(parts, each, strict=True)
    )
    law = _PairLaw(parts, [(low, high), (other_low, other_high)])
    floor, ceiling = q * low + r * other_low, q * high + r * other_high

    def ends(m: float) -> tuple[float, float]:
        """The line Σ q_s·A_s = m inside the box, as the first rate at its ends."""
        left = max(low, (m - r * other_high) / q)
        return left, max(left, min(high, (m - r * other_low) / q))

    def seen(m: float) -> float:
        first = np.linspace(*ends(m), 17)
        return float(law.tail(first, (m - q * first) / r).max())

    def proved(m: float) -> bool:
        edges = np.linspace(*ends(m), 17)
        left, right = edges[:-1], edges[1:]
        while len(left) <= _MOST_PIECES:
            over = law.tail(right, (m - q * left) / r) > tail
            if not over.any():
                return True
            left, right = left[over], right[over]
            if right[0] - left[0] < 1e-7 or float(law.tail(left, (m - q * left) / r).max()) > tail:
                return False
            edges = np.linspace(left, right, 5)
            left, right = edges[:-1].ravel(), edges[1:].ravel()
        return False

    if seen(ceiling) <= tail:
        return None
    if seen(floor) > tail:
        return floor
    near = find_root(lambda m: math.log(seen(m) / tail), floor, ceiling, xtol=1e-6, rtol=1e-4)
    for step in (0.002, 0.006, 0.02, 0.06, 0.2):
        m = near - step * (law.statistic - floor)
        if m > floor and proved(m):
            return m
    return floor


class _PairLaw:
    """P(T >= what was seen) for two parts whose rates lie in a box, rounded upwards."""

    def __init__(self, parts: Sequence[Part], box: Sequence[tuple[float, float]]) -> None:
        self.parts, self.counts, self.logs = parts, [], []
        for part, (low, high) in zip(parts, box, strict=True):
            (c,) = part.cells
            rates = np.clip(np.array([c.a + c.b * low, c.a + c.b * high]), 0.0, 1.0)
            inside = np.clip(0.5, *rates)
            reach = 8.5 * math.sqrt(c.n * max(inside * (1 - inside), 1 / c.n)) + 12
            counts = np.arange(
                max(0, math.floor(c.n * rates[0] - reach)),
                min(c.n, math.ceil(c.n * rates[1] + reach)) + 1,
                dtype=float,
            )
            self.counts.append(counts)
            self.logs.append(
                gammaln(c.n + 1.0) - gammaln(counts + 1.0) - gammaln(c.n - counts + 1.0)
            )
        (one,), (two,) = parts[0].cells, parts[1].cells
        unit, other = (part.share / (part.cells[0].n * part.cells[0].b) for part in parts)
        self.statistic = unit * (one.successes - one.n * one.a) + other * (
            two.successes - two.n * two.a
        )
        needed = np.ceil(
            two.successes + unit / other * (one.successes - self.counts[0]) - 1e-9
        )  # of the second part, beside each of the first
        self.first = np.clip(needed - self.counts[1][0], 0, len(self.counts[1])).astype(int)

    def tail(self, first: Floats, second: Floats) -> Floats:
        """For each pair of rates."""
        mass, missing = self._mass(0, first)
        other, other_missing = self._mass(1, second)
        least = np.zeros((len(other), other.shape[1] + 1))
        least[:, :-1] = np.cumsum(other[:, ::-1], axis=1)[:, ::-1]
        return np.asarray(
            ((mass * (least[:, self.first] + other_missing[:, None])).sum(axis=1) + missing)
            * (1 + 1e-9)
        )

    def _mass(self, which: int, rates: Floats) -> tuple[Floats, Floats]:
        """The probability of every count kept, and of the others together."""
        part, counts, logs = self.parts[which], self.counts[which], self.logs[which]
        (c,) = part.cells
        if part.size is not None and _finite(part):
            right = np.floor(np.clip(rates, 0.0, 1.0)[:, None] * part.size + 1e-6)
            possible = (counts <= right) & (c.n - counts <= part.size - right)
            a, b = np.where(possible, right, c.n), np.where(possible, part.size - right, c.n)
            mass = np.where(
                possible,
                np.exp(
                    _log_choose(a, counts)
                    + _log_choose(b, c.n - counts)
                    - _log_choose(part.size, c.n)
                ),
                0.0,
            )
        else:
            p = np.clip(c.a + c.b * rates, 0.0, 1.0)[:, None]
            mass = np.exp(logs + xlogy(counts, p) + xlog1py(c.n - counts, -p))
        return mass, np.maximum(1 - mass.sum(axis=1), 0.0) + 1e-12


def _log_choose(n: Floats | float, k: Floats | float) -> Floats:
    return np.asarray(
        gammaln(np.add(n, 1.0)) - gammaln(np.add(k, 1.0)) - gammaln(np.subtract(n, k) + 1.0)
    )


# --- The profile over parts
# --------------------------------------------------------------------------------------------------------------


def _arrays(parts: Sequence[Part], guess: float) -> _Sums:
    shape = len(parts), max(len(part.cells) for part in parts)
    n, successes, a, b = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.ones(shape)
    for row, part in enumerate(parts):
        for column, c in enumerate(part.cells):
            n[row, column], successes[row, column], a[row, column], b[row, column] = (
                c.n,
                c.successes,
                c.a,
                c.b,
            )
    p = np.clip(a + b * min(max(guess, 1e-6), 1 - 1e-6), 1e-9, 1 - 1e-9)
    weight = n * b**2 / (p * (1 - p))
    weight /= weight.sum(axis=1, keepdims=True)
    return _Sums(np.array([part.share for part in parts]), n, successes, a, b, weight)


def _profile(parts: Sequence[Part], below: float, above: float, guess: float) -> Limits:
    sums = _arrays(parts, guess)
    total = float(sums.share.sum())
    low, high, empty = 0.0, total, False
    if below > 0:
        limit = _lower_limit(sums, below)
        low, empty = (limit, False) if limit is not None else (total, True)
    if above > 0:
        limit = _lower_limit(sums.mirrored(), above)
        high, empty = (total - limit, empty) if limit is not None else (0.0, True)
    found = ordered(low, high, 0.0, total)
    return Limits(
        min(max(found.low, 0.0), total), min(max(found.high, 0.0), total), found.empty or empty
    )


def _reach(kinds: int, error: float) -> float:
    """The c with P(Σ n·KL(successes/n, p) > c) <= ``error`` for this many binomials, whatever their
    n and p.

    E[e^(t·n·KL)] <= 1/(1 - t) for each binomial, so the probability is at most e^(-t·c)/(1 -
    t)^kinds; t = 1 - kinds/c is best.
    """
    need, c = -math.log(error), kinds - math.log(error) + math.sqrt(-2 * kinds * math.log(error))
    for _ in range(50):  # Newton from above on a convex function
        step = (c - kinds - kinds * math.log(c / kinds) - need) / (1 - kinds / c)
        c -= step
        if abs(step) < 1e-9 * c:
            break
    return c * (1 + 1e-9)


def _entropy_limits(
    mean: Floats, n: Floats, below: Floats | float, above: Floats | float
) -> tuple[Floats, Floats]:
    """All p with n·KL(mean, p) <= ``below`` under the mean and ``above`` over it, for each entry;
    rounded outwards.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(
            n > 0,
            np.stack([np.broadcast_to(below, mean.shape), np.broadcast_to(above, mean.shape)]) / n,
            math.inf,
        )
    centre = np.stack([mean, mean])
    inside, outside = centre, np.stack([np.zeros_like(mean), np.ones_like(mean)])
    own = xlogy(centre, centre) + xlogy(1 - centre, 1 - centre)
    for _ in range(14):
        middle = (inside + outside) / 2
        fits = own - xlogy(centre, middle) - xlogy(1 - centre, 1 - middle) <= reach
        inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
    return outside[0], outside[1]


class _Bet:
    """T at one λ and ν: g_s(A) = f_s(A, λ) - ν·D_s(A), both without constants, and its derivatives
    at given rates.
    """

    __slots__ = (
        *(
            "above",
            "at_high",
            "at_low",
            "below",
            "bet",
            "constant",
            "failures",
            "growth",
            "high",
            "low",
            "nu",
        ),
        *("right", "scaled", "sums", "unit", "wrong"),
    )

    def __init__(
        self, sums: _Sums, bet: float, nu: float, allowance: float, box: tuple[Floats, Floats]
    ) -> None:
        self.sums, self.bet, self.nu, self.unit = sums, bet, nu, sums.unit
        self.low, self.high = box
        self.failures = sums.n - sums.successes
        self.growth = np.expm1(bet * self.unit)
        self.constant = bet * float(np.sum(self.unit * sums.n * sums.a)) - nu * allowance
        self.scaled, self.right, self.wrong = (
            sums.b * self.growth,
            nu * sums.successes,
            nu * self.failures,
        )
        self.above, self.below = (
            sums.a / sums.b,
            1 + np.maximum(1 - sums.a - sums.b, 0.0) / sums.b,
        )  # p = b·(above + A), 1 - p = b·(below - A)
        self.at_low, self.at_high = self.slopes(self.low)[0], self.slopes(self.high)[0]

    def slopes(self, rates: Floats) -> tuple[Floats, Floats]:
        """The first derivative of g in A, and minus the second."""
        s, rate = self.sums, rates[:, None]
        f = self.scaled / (1 + (s.a + s.b * rate) * self.growth)
        up, down = 1 / (self.above + rate), 1 / (self.below - rate)
        first, right, wrong = s.n * f, self.right * up, self.wrong * down
        return (first + right - wrong).sum(axis=1), (first * f + right * up + wrong * down).sum(
            axis=1
        )

    def values(self, rates: Floats) -> tuple[Floats, float]:
        """All g_s, and the log likelihood of the rates."""
        s = self.sums
        p = s.a + s.b * rates[:, None]
        likelihood = (xlogy(s.successes, p) + xlogy(self.failures, np.maximum(1 - p, 0.0))).sum(
            axis=1
        )
        return (s.n * np.log1p(p * self.growth)).sum(axis=1) + self.nu * likelihood, float(
            likelihood.sum()
        )

    def moments(self, rates: Floats) -> tuple[float, float]:
        """First and second derivative of Σ f_s in λ: mean and variance of T in the tilted law."""
        s = self.sums
        p = s.a + s.b * rates[:, None]
        tilted = p * (1 + self.growth) / (1 + p * self.growth)
        return float(np.sum(s.n * self.unit * (tilted - s.a))), float(
            np.sum(s.n * self.unit**2 * tilted * (1 - tilted))
        )

    def best_rates(self, price: float, start: Floats) -> tuple[Floats, Floats, float]:
        """The maximum of g_s(A) - μ·q_s·A in the box, with ``price`` 1/μ, by Newton's method inside
        a bracket.

        Also minus the second derivatives there, and Σ of how far each term can still be below its
        maximum, by its tangent.
        """
        wanted, left, right = self.sums.share / price, self.low, self.high
        at_low, at_high = self.at_low <= wanted, self.at_high >= wanted
        rates = np.where(at_low, left, np.where(at_high, right, start))
        for _ in range(60):
            slope, curve = self.slopes(rates)
            rising = slope > wanted
            lost = float(
                np.sum(
                    np.where(rising, self.high - rates, rates - self.low) * np.abs(slope - wanted)
                )
            )
            if price * lost < 1e-8:
                break
            left, right = np.where(rising, rates, left), np.where(rising, right, rates)
            new = rates + (slope - wanted) / curve
            new = np.where((new <= left) | (new >= right), (left + right) / 2, new)
            rates = np.where(at_low | at_high, rates, new)
        return rates, curve, lost


def _lower_limit(sums: _Sums, error: float) -> float | None:
    """The largest sum found for which it and all smaller ones are proved to be too small; None if
    no rates fit the counts.
    """
    reach = _reach(int(np.sum(sums.n > 0)), CONFINED * error)
    mean = sums.successes / np.maximum(sums.n, 1)
    ends = _entropy_limits(mean, sums.n, reach, reach)  # where even one cell uses up the reach
    low, high = (
        ((ends[0] - sums.a) / sums.b).max(axis=1) - _EDGE,
        ((ends[1] - sums.a) / sums.b).min(axis=1) + _EDGE,
    )
    if np.any((low > high) | (low > 1) | (high < 0)):
        return None
    floor, ceiling = (
        float(np.dot(sums.share, np.maximum(low, 0.0))),
        float(np.dot(sums.share, np.minimum(high, 1.0))),
    )
    # Off the ends, where the likelihood may vanish: rates nearer to an end change the sum, and f,
    # by less than is taken off the limit.
    low, high = np.clip(low, _EDGE, 1 - 2 * _EDGE), np.clip(high, 2 * _EDGE, 1 - _EDGE)
    fit = float(np.sum(xlogy(sums.successes, mean) + xlogy(sums.n - sums.successes, 1 - mean)))
    statistic, log_tail, unit = sums.statistic(), math.log(error * (1 - CONFINED)), sums.unit
    rates = np.clip(
        (unit * (sums.successes - sums.n * sums.a)).sum(axis=1) / sums.share,
        low + (high - low) / 4,
        high - (high - low) / 4,
    )
    most = _LARGEST_EXPONENT / float(unit.max())
    p = sums.a + sums.b * rates[:, None]
    each = (unit**2 * sums.n * p * (1 - p)).sum(axis=1)
    bet, nu = min(math.sqrt(-2 * log_tail / float(each.sum())), most), 0.02
    best = floor
    for _ in range(8):
        tilt = _Bet(sums, bet, nu, reach - fit, (low, high))
        limit, rates, likelihood = _limit_at(
            tilt, rates, tilt.bet * statistic + log_tail + tilt.constant
        )
        gain, best = limit - best, max(limit, best)
        if best >= ceiling:
            return None
        mean_now, variance = tilt.moments(rates)
        if variance <= 0 or (abs(gain) <= 5e-4 * (statistic - best) and best > floor):
            break
        bet = min(max(bet + (statistic - mean_now) / variance, bet / 3), 3 * bet, most)
        nu = nu * min(max((fit - likelihood) / reach, 0.25), 4.0) ** 0.75
    return best


def _limit_at(tilt: _Bet, rates: Floats, goal: float) -> tuple[float, Floats, float]:
    """The best proved limit at one λ and ν: where Σ g_s is ``goal``, λ·t + log(tail) + constants; Σ
    g_s rises with 1/μ.
    """
    share, least, most = tilt.sums.share, 0.0, math.inf
    price = float(share.sum()) / max(
        float(np.sum(tilt.slopes(rates)[0])), tilt.bet * float(share.sum()) / 4
    )
    limit, likelihood = -math.inf, 0.0
    for _ in range(40):
        rates, curve, lost = tilt.best_rates(price, rates)
        values, likelihood = tilt.values(rates)
        total = float(values.sum())
        limit = max(limit, float(np.dot(share, rates)) + price * (goal - total - lost) - _ROUNDING)
        missing = goal - total
        least, most = (price, most) if missing > 0 else (least, price)
        free = (rates > tilt.low) & (rates < tilt.high)
        rise = float(np.sum((share**2 / curve)[free])) / price**3
        if (
            abs(missing) < 1e-2
            or most - least <= 1e-9 * price
            or (rise <= 0 and (np.all(rates == tilt.low) or np.all(rates == tilt.high)))
        ):
            break
        new = min(
            max(
                price + (missing / rise if rise > 0 else math.copysign(math.inf, missing)),
                price / 2,
            ),
            2 * price,
        )
        price = new if least < new < most else (least + most) / 2
    return limit, rates, likelihood


# --- The likelihood ratio
# ----------------------------------------------------------------------------------------------------------------


def _likelihood_limit(sums: _Sums, top: Floats, tail: float) -> float:
    """The least Σ q·A with a likelihood ratio of at most z²."""
    failures = sums.n - sums.successes

    def log_likelihood(rates: Floats) -> float:
        p = np.clip(sums.a + sums.b * rates[:, None], 0.0, 1.0)
        return float(np.sum(xlogy(sums.successes, p) + xlogy(failures, 1 - p)))

    def constrained(price: float) -> Floats:
        least, most = np.zeros_like(top), top.copy()
        for _ in range(45):
            middle = (least + most) / 2
            p = sums.a + sums.b * middle[:, None]
            slope = np.sum(
                sums.b
                * (sums.successes / np.maximum(p, 1e-300) - failures / np.maximum(1 - p, 1e-300)),
                axis=1,
            )
            under = slope > price * sums.share
            least, most = np.where(under, middle, least), np.where(under, most, middle)
        return least

    best, wanted = log_likelihood(top), -float(ndtri(tail))
    if wanted <= 0 or 2 * (best - log_likelihood(np.zeros_like(top))) <= wanted**2:
        return 0.0 if wanted > 0 else float(np.dot(sums.share, top))

    def excess(price: float) -> float:
        """The root of the likelihood ratio, nearly linear in the price, less what is wanted."""
        return math.sqrt(max(2 * (best - log_likelihood(constrained(price))), 0.0)) - wanted

    p = np.clip(sums.a + sums.b * np.clip(top, 0.01, 0.99)[:, None], 1e-9, 1 - 1e-9)
    least, most = (
        0.0,
        wanted
        / math.sqrt(
            float(np.sum(sums.share**2 / (sums.n * sums.b**2 / (p * (1 - p))).sum(axis=1)))
        ),
    )
    under, over = -wanted, excess(most)
    while over < 0 and most < 1e15:
        least, under, most = most, over, 2 * most
        over = excess(most)
    for _ in range(60):
        middle = least + (most - least) * min(max(-under / (over - under), 0.02), 0.98)
        found = excess(middle)
        least, under, most, over = (
            (middle, found, most, over) if found < 0 else (least, under, middle, found)
        )
        if min(over, -under) < 1e-7 or most - least <= 1e-9 * most:
            break
    return float(
        np.dot(sums.share, constrained(most if over < 1e-6 else least if -under < 1e-6 else most))
    )
