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
    Floats,
    Limits,
    clopper_pearson,
    exact,
    find_root,
    hypergeometric_limits,
    information,
    last_kept,
    log_choose,
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

# Of each tail this goes to the set that confines the rates of the parts: 0.002 in all at 95 %.
CONFINED = 0.04
REST = (0.0, 0.05, 0.1, 0.2, 0.4)  # of each tail may go to all parts but the largest
# Instead of a share of the error: every part has its own limits, at an equal share of it; or the
# exact law of T, for two parts with one kind of label each.
SPLIT, PAIR = -1.0, -2.0
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
class SumLimits(Limits):
    """An interval for a sum of rates, and how it was made; ``empty`` says that no rates fit the
    counts.
    """

    method: Method = "exact"


@dataclasses.dataclass(frozen=True, slots=True)
class _Sums:
    """Parts as arrays, one row per part and one column per kind; missing kinds have no trials."""

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
        a = np.maximum(1 - self.a - self.b, 0.0)
        return dataclasses.replace(self, successes=self.n - self.successes, a=a)


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
    method: Method = "hypergeometric" if known else "exact"
    if not open_parts:
        return SumLimits(known, known + blind, False, method)
    rest = _choose(open_parts, below, above, guess)
    if rest is None:
        found, method = _profile(open_parts, below, above, guess), "profile"
    elif rest == PAIR:
        found, method = _pair(open_parts, below, above), "exact for two parts"
    elif rest == SPLIT:
        n = len(open_parts)
        found = _together([_single(part, below / n, above / n) for part in open_parts])
        method = "exact for each part"
    else:
        main, others = open_parts[-1], open_parts[:-1]
        found = _single(main, below * (1 - rest), above * (1 - rest))
        method = "hypergeometric" if _drawn_from(main) else "exact"
        if others:
            found = _together([found, _others(others, below * rest, above * rest, guess)])
            method = "exact for the largest part"
    return SumLimits(known + found.low, known + found.high + blind, found.empty, method)


def _together(each: Sequence[Limits]) -> Limits:
    """Limits of a sum of rates that have limits of their own."""
    low, high = sum(e.low for e in each), sum(e.high for e in each)
    return Limits(low, high, any(e.empty for e in each))


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
    blind += unlabelled
    if not open_parts:
        return blind
    return blind + min(width for width, _ in _candidates(open_parts, below, above, guess))


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
    rows = sorted((dataclasses.replace(p, cells=merge(p.cells)) for p in parts), key=_design)
    if not all(part.cells for part in rows):
        return math.nan, math.nan
    rates = np.array([maximum_likelihood(part.cells) for part in rows])
    value = math.fsum(part.share * rate for part, rate in zip(rows, rates, strict=True))
    sums = _arrays(rows, guess)
    p = np.clip(sums.a + sums.b * rates[:, None], 0.0, 1.0)
    spread = sums.unit**2 * sums.n * p * (1 - p)
    left = np.array([_left(part) for part in rows])
    return value, float((spread * left[:, None]).sum())


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


# Which method, by the design


def _sorted(parts: Iterable[Part]) -> tuple[float, list[Part], float]:
    """The sum over parts known completely, the parts with labels in order, the share without."""
    known, unlabelled, rows = [], [], []
    for part in parts:
        cells, size = merge(part.cells), _drawn_from(part)
        if not cells:
            unlabelled.append(part.share)
        elif size is not None and cells[0].n >= size:
            known.append(part.share * cells[0].successes / cells[0].n)
        else:
            ordered_cells = tuple(sorted(cells, key=lambda c: (c.n, c.a, c.b)))
            rows.append(Part(part.share, ordered_cells, part.size))
    rows.sort(key=lambda part: (_design(part), [c.successes for c in part.cells]))
    return math.fsum(known), rows, math.fsum(unlabelled)


def _design(part: Part) -> tuple[float, list[tuple[float, ...]], float]:
    return part.share, [(c.n, c.a, c.b) for c in part.cells], part.size or math.inf


def _drawn_from(part: Part) -> int | None:
    """How many items the labels were drawn from without replacement, where all are ordinary."""
    return part.size if all(c.a == 0 and c.b == 1 for c in part.cells) else None


def _left(part: Part) -> float:
    """What draws without replacement leave of the variance."""
    size = _drawn_from(part)
    return 1.0 if size is None else (size - part.cells[0].n) / max(size - 1, 1)


def _choose(parts: Sequence[Part], below: float, above: float, guess: float) -> float | None:
    """The share of the error for all but the largest (last) part; None for the profile."""
    return min(_candidates(parts, below, above, guess), key=lambda candidate: candidate[0])[1]


def _candidates(
    parts: Sequence[Part], below: float, above: float, guess: float
) -> list[tuple[float, float | None]]:
    """Predicted widths, each with the share of the error for all but the largest part, None for the
    profile, or SPLIT for each alone.
    """

    def alone(part: Part, divide: float = 1.0) -> float:
        return part.share * _single_width(part, below / divide, above / divide, guess)

    main, others = parts[-1], parts[:-1]
    if not others:
        return [(alone(main), 0.0)]
    found: list[tuple[float, float | None]] = [(_profile_width(parts, below, above, guess), None)]
    if _countable(parts):
        found.append((_pair_width(parts, below, above, guess), PAIR))
    if len(parts) <= MOST_SPLIT:
        found.append((sum(alone(part, len(parts)) for part in parts), SPLIT))
    # Which of two equal parts is the largest must not depend on their order.
    if _design(main) == _design(others[-1]):
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
    size = _drawn_from(part)
    if size is not None:
        n *= (size - 1) / (size - part.cells[0].n)
    low, high = clopper_pearson(n * guess, n, below, above)
    return high - low


def _profile_width(parts: Sequence[Part], below: float, above: float, guess: float) -> float:
    """Chernoff limits of one rate with the variance that T has, at the error left by the box."""
    total = math.fsum(part.share for part in parts)
    variance = math.fsum(part.share**2 / information(part.cells, guess) for part in parts)
    n = guess * (1 - guess) * total**2 / variance

    def limit(tail: float, end: float) -> float:
        reach = -math.log(tail * (1 - CONFINED)) / n if tail > 0 else math.inf
        return last_kept(lambda p: relative_entropy(guess, p) <= reach, guess, end, steps=24)

    return total * (limit(above, 1.0) - limit(below, 0.0))


def _pair_width(parts: Sequence[Part], below: float, above: float, guess: float) -> float:
    """Clopper–Pearson at as many ordinary labels as have the variance of T, at the error left."""
    total = math.fsum(part.share for part in parts)
    variance = sum(_left(p) * p.share**2 / information(p.cells, guess) for p in parts)
    n = guess * (1 - guess) * total**2 / variance
    low, high = clopper_pearson(n * guess, n, below * (1 - CONFINED), above * (1 - CONFINED))
    return total * (high - low)


# One part


def _single(part: Part, below: float, above: float) -> Limits:
    size = _drawn_from(part)
    if size is None:
        found = exact(part.cells, below, above)
    else:
        (c,) = part.cells
        found = Limits(*hypergeometric_limits(c.successes, c.n, size, below, above))
    return Limits(part.share * found.low, part.share * found.high, found.empty)


def _others(parts: Sequence[Part], below: float, above: float, guess: float) -> Limits:
    """Limits for all but the largest part; without an error to spend, all that is possible."""
    if below <= 0 and above <= 0:
        return Limits(0.0, math.fsum(part.share for part in parts))
    if len(parts) == 1:
        return _single(parts[0], below, above)
    return _profile(parts, below, above, guess)


# Two parts, exactly


def _countable(parts: Sequence[Part]) -> bool:
    """Whether the law of T can be summed: two parts with one kind each, not too many counts."""
    if len(parts) != 2 or any(len(part.cells) != 1 for part in parts):
        return False
    sizes = [float(part.cells[0].n) for part in parts]
    return all(n.is_integer() and 10 * math.sqrt(n) < _MOST_COUNTS for n in sizes)


def _pair(parts: Sequence[Part], below: float, above: float) -> Limits:
    total = math.fsum(part.share for part in parts)
    low = _pair_limit(parts, below) if below > 0 else 0.0
    high = _pair_limit([_failures(part) for part in parts], above) if above > 0 else 0.0
    return _between(low, high, total)


def _between(low: float | None, failures: float | None, total: float) -> Limits:
    """Limits from lower limits of successes and of failures; None if no rates fit the counts."""
    high = 0.0 if failures is None else total - failures
    found = ordered(total if low is None else low, high, 0.0, total)
    least, most = (min(max(end, 0.0), total) for end in (found.low, found.high))
    return Limits(least, most, found.empty or low is None or failures is None)


def _failures(part: Part) -> Part:
    """The same part with failures for successes, whose rate is 1 - A."""
    (c,) = part.cells
    failures = BinomialCell(c.n, c.n - c.successes, max(1 - c.a - c.b, 0.0), c.b)
    return dataclasses.replace(part, cells=(failures,))


def _pair_limit(parts: Sequence[Part], error: float) -> float | None:
    """The largest sum that is proved, with all smaller ones, too small; None if no rates fit."""
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
            first = max(0, math.floor(c.n * rates[0] - reach))
            last = min(c.n, math.ceil(c.n * rates[1] + reach))
            self.counts.append(np.arange(first, last + 1, dtype=float))
            self.logs.append(log_choose(c.n, self.counts[-1]))
        (one,), (two,) = parts[0].cells, parts[1].cells
        unit, other = (part.share / (part.cells[0].n * part.cells[0].b) for part in parts)
        first_sum, second_sum = (c.successes - c.n * c.a for c in (one, two))
        self.statistic = unit * first_sum + other * second_sum
        # Of the second part, beside each count of the first.
        needed = np.ceil(two.successes + unit / other * (one.successes - self.counts[0]) - 1e-9)
        self.first = np.clip(needed - self.counts[1][0], 0, len(self.counts[1])).astype(int)

    def tail(self, first: Floats, second: Floats) -> Floats:
        """For each pair of rates."""
        mass, missing = self._mass(0, first)
        other, other_missing = self._mass(1, second)
        least = np.zeros((len(other), other.shape[1] + 1))
        least[:, :-1] = np.cumsum(other[:, ::-1], axis=1)[:, ::-1]
        both = (mass * (least[:, self.first] + other_missing[:, None])).sum(axis=1)
        return np.asarray((both + missing) * (1 + 1e-9))

    def _mass(self, which: int, rates: Floats) -> tuple[Floats, Floats]:
        """The probability of every count kept, and of the others together."""
        part, counts = self.parts[which], self.counts[which]
        (c,), size = part.cells, _drawn_from(part)
        if size is None:
            p = np.clip(c.a + c.b * rates, 0.0, 1.0)[:, None]
            mass = np.exp(self.logs[which] + xlogy(counts, p) + xlog1py(c.n - counts, -p))
        else:
            right = np.floor(np.clip(rates, 0.0, 1.0)[:, None] * size + 1e-6)
            possible = (counts <= right) & (c.n - counts <= size - right)
            a, b = np.where(possible, right, c.n), np.where(possible, size - right, c.n)
            logs = log_choose(a, counts) + log_choose(b, c.n - counts) - log_choose(size, c.n)
            mass = np.where(possible, np.exp(logs), 0.0)
        return mass, np.maximum(1 - mass.sum(axis=1), 0.0) + 1e-12


# The profile over parts


def _arrays(parts: Sequence[Part], guess: float) -> _Sums:
    kinds = max(len(part.cells) for part in parts)
    none = BinomialCell(0, 0)
    rows = [[*part.cells, *[none] * (kinds - len(part.cells))] for part in parts]
    n, successes, a, b = np.array(
        [[(c.n, c.successes, c.a, c.b) for c in row] for row in rows], dtype=float
    ).transpose(2, 0, 1)
    p = np.clip(a + b * min(max(guess, 1e-6), 1 - 1e-6), 1e-9, 1 - 1e-9)
    weight = n * b**2 / (p * (1 - p))
    weight /= weight.sum(axis=1, keepdims=True)
    return _Sums(np.array([part.share for part in parts]), n, successes, a, b, weight)


def _profile(parts: Sequence[Part], below: float, above: float, guess: float) -> Limits:
    sums = _arrays(parts, guess)
    low = _lower_limit(sums, below) if below > 0 else 0.0
    high = _lower_limit(sums.mirrored(), above) if above > 0 else 0.0
    return _between(low, high, float(sums.share.sum()))


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


def _entropy_limits(mean: Floats, n: Floats, reach: float) -> tuple[Floats, Floats]:
    """All p with n·KL(mean, p) <= ``reach``, for each entry; rounded outwards."""
    most = np.where(n > 0, reach / np.maximum(n, 1.0), math.inf)
    centre = np.stack([mean, mean])
    inside, outside = centre, np.stack([np.zeros_like(mean), np.ones_like(mean)])
    own = xlogy(centre, centre) + xlogy(1 - centre, 1 - centre)
    for _ in range(14):
        middle = (inside + outside) / 2
        fits = own - xlogy(centre, middle) - xlogy(1 - centre, 1 - middle) <= most
        inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
    return outside[0], outside[1]


class _Bet:
    """T at one λ and ν: g_s(A) = f_s(A, λ) - ν·D_s(A), both without constants, and its derivatives
    at given rates.
    """

    def __init__(
        self, sums: _Sums, bet: float, nu: float, allowance: float, box: tuple[Floats, Floats]
    ) -> None:
        self.sums, self.bet, self.nu, self.unit = sums, bet, nu, sums.unit
        self.low, self.high = box
        self.failures = sums.n - sums.successes
        self.growth = np.expm1(bet * self.unit)
        self.constant = bet * float(np.sum(self.unit * sums.n * sums.a)) - nu * allowance
        self.scaled = sums.b * self.growth
        self.right, self.wrong = nu * sums.successes, nu * self.failures
        # p = b·(above + A), 1 - p = b·(below - A)
        self.above = sums.a / sums.b
        self.below = 1 + np.maximum(1 - sums.a - sums.b, 0.0) / sums.b
        self.at_low, self.at_high = self.slopes(self.low)[0], self.slopes(self.high)[0]

    def slopes(self, rates: Floats) -> tuple[Floats, Floats]:
        """The first derivative of g in A, and minus the second."""
        s, rate = self.sums, rates[:, None]
        f = self.scaled / (1 + (s.a + s.b * rate) * self.growth)
        up, down = 1 / (self.above + rate), 1 / (self.below - rate)
        first, right, wrong = s.n * f, self.right * up, self.wrong * down
        curve = first * f + right * up + wrong * down
        return (first + right - wrong).sum(axis=1), curve.sum(axis=1)

    def values(self, rates: Floats) -> tuple[Floats, float]:
        """All g_s, and the log likelihood of the rates."""
        s = self.sums
        p = s.a + s.b * rates[:, None]
        logs = xlogy(s.successes, p) + xlogy(self.failures, np.maximum(1 - p, 0.0))
        likelihood = logs.sum(axis=1)
        growth = (s.n * np.log1p(p * self.growth)).sum(axis=1)
        return growth + self.nu * likelihood, float(likelihood.sum())

    def moments(self, rates: Floats) -> tuple[float, float]:
        """First and second derivative of Σ f_s in λ: mean and variance of T in the tilted law."""
        s = self.sums
        p = s.a + s.b * rates[:, None]
        tilted = p * (1 + self.growth) / (1 + p * self.growth)
        variance = np.sum(s.n * self.unit**2 * tilted * (1 - tilted))
        return float(np.sum(s.n * self.unit * (tilted - s.a))), float(variance)

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
            room = np.where(rising, self.high - rates, rates - self.low)
            lost = float(np.sum(room * np.abs(slope - wanted)))
            if price * lost < 1e-8:
                break
            left, right = np.where(rising, rates, left), np.where(rising, right, rates)
            new = rates + (slope - wanted) / curve
            new = np.where((new <= left) | (new >= right), (left + right) / 2, new)
            rates = np.where(at_low | at_high, rates, new)
        return rates, curve, lost


def _lower_limit(sums: _Sums, error: float) -> float | None:
    """The largest sum that is proved, with all smaller ones, too small; None if no rates fit."""
    reach = _reach(int(np.sum(sums.n > 0)), CONFINED * error)
    mean = sums.successes / np.maximum(sums.n, 1)
    ends = _entropy_limits(mean, sums.n, reach)  # where even one cell uses up the reach
    low = ((ends[0] - sums.a) / sums.b).max(axis=1) - _EDGE
    high = ((ends[1] - sums.a) / sums.b).min(axis=1) + _EDGE
    if np.any((low > high) | (low > 1) | (high < 0)):
        return None
    floor = float(np.dot(sums.share, np.maximum(low, 0.0)))
    ceiling = float(np.dot(sums.share, np.minimum(high, 1.0)))
    # Off the ends, where the likelihood may vanish: rates nearer to an end change the sum, and f,
    # by less than is taken off the limit.
    low, high = np.clip(low, _EDGE, 1 - 2 * _EDGE), np.clip(high, 2 * _EDGE, 1 - _EDGE)
    fit = float(np.sum(xlogy(sums.successes, mean) + xlogy(sums.n - sums.successes, 1 - mean)))
    statistic, log_tail, unit = sums.statistic(), math.log(error * (1 - CONFINED)), sums.unit
    rates = (unit * (sums.successes - sums.n * sums.a)).sum(axis=1) / sums.share
    rates = np.clip(rates, low + (high - low) / 4, high - (high - low) / 4)
    most = _LARGEST_EXPONENT / float(unit.max())
    p = sums.a + sums.b * rates[:, None]
    each = (unit**2 * sums.n * p * (1 - p)).sum(axis=1)
    bet, nu = min(math.sqrt(-2 * log_tail / float(each.sum())), most), 0.02
    best = floor
    for _ in range(8):
        tilt = _Bet(sums, bet, nu, reach - fit, (low, high))
        goal = tilt.bet * statistic + log_tail + tilt.constant
        limit, rates, likelihood = _limit_at(tilt, rates, goal)
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
    whole = float(share.sum())
    price = whole / max(float(np.sum(tilt.slopes(rates)[0])), tilt.bet * whole / 4)
    limit, likelihood = -math.inf, 0.0
    for _ in range(40):
        rates, curve, lost = tilt.best_rates(price, rates)
        values, likelihood = tilt.values(rates)
        missing = goal - float(values.sum())
        limit = max(limit, float(np.dot(share, rates)) + price * (missing - lost) - _ROUNDING)
        least, most = (price, most) if missing > 0 else (least, price)
        free = (rates > tilt.low) & (rates < tilt.high)
        rise = float(np.sum((share**2 / curve)[free])) / price**3
        stuck = rise <= 0 and (np.all(rates == tilt.low) or np.all(rates == tilt.high))
        if abs(missing) < 1e-2 or most - least <= 1e-9 * price or stuck:
            break
        step = missing / rise if rise > 0 else math.copysign(math.inf, missing)
        new = min(max(price + step, price / 2), 2 * price)
        price = new if least < new < most else (least + most) / 2
    return limit, rates, likelihood


# The likelihood ratio


def _likelihood_limit(sums: _Sums, top: Floats, tail: float) -> float:
    """The least Σ q·A with a likelihood ratio of at most z²."""
    right, wrong = sums.successes, sums.n - sums.successes

    def log_likelihood(rates: Floats) -> float:
        p = np.clip(sums.a + sums.b * rates[:, None], 0.0, 1.0)
        return float(np.sum(xlogy(right, p) + xlogy(wrong, 1 - p)))

    def constrained(price: float) -> Floats:
        least, most = np.zeros_like(top), top.copy()
        for _ in range(45):
            middle = (least + most) / 2
            p = sums.a + sums.b * middle[:, None]
            slopes = right / np.maximum(p, 1e-300) - wrong / np.maximum(1 - p, 1e-300)
            under = np.sum(sums.b * slopes, axis=1) > price * sums.share
            least, most = np.where(under, middle, least), np.where(under, most, middle)
        return least

    best, wanted = log_likelihood(top), -float(ndtri(tail))
    if wanted <= 0 or 2 * (best - log_likelihood(np.zeros_like(top))) <= wanted**2:
        return 0.0 if wanted > 0 else float(np.dot(sums.share, top))

    def excess(price: float) -> float:
        """The root of the likelihood ratio, nearly linear in the price, less what is wanted."""
        return math.sqrt(max(2 * (best - log_likelihood(constrained(price))), 0.0)) - wanted

    p = np.clip(sums.a + sums.b * np.clip(top, 0.01, 0.99)[:, None], 1e-9, 1 - 1e-9)
    informations = (sums.n * sums.b**2 / (p * (1 - p))).sum(axis=1)
    least, most = 0.0, wanted / math.sqrt(float(np.sum(sums.share**2 / informations)))
    under, over = -wanted, excess(most)
    while over < 0 and most < 1e15:
        least, under, most = most, over, 2 * most
        over = excess(most)
    for _ in range(60):
        middle = least + (most - least) * min(max(-under / (over - under), 0.02), 0.98)
        found = excess(middle)
        if found < 0:
            least, under = middle, found
        else:
            most, over = middle, found
        if min(over, -under) < 1e-7 or most - least <= 1e-9 * most:
            break
    price = least if over >= 1e-6 and -under < 1e-6 else most
    return float(np.dot(sums.share, constrained(price)))
