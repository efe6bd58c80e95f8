"""Means of bounded scores by betting: finite-sample limits, valid at every look or, narrower, at a
fixed number of scores.

``betting_interval`` is for streams: valid at every look, a function of counts alone.
``fixed_interval`` is for a number of scores that was fixed beforehand: its bets learn from the
scores seen so far and aim at the goal that is left, and it needs about half of the labels.

Against the claim "the mean is m" one bets a fixed fraction θ of the money that can be lost on every
score x in [low, high]: the wealth Π(1 + θ·(x - m)/(m - low)) is a non-negative martingale if the
mean is m. It is mixed over a fixed grid of θ, so that nothing is tuned to the data and the order of
the scores does not matter. Scores of different kinds may have different ranges; each must be known
before its label, and each score must have mean m under the claim. A range may be open on the side
that is not bet against.

References
----------
Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27; Voráček and Orabona (2025), STaR-Bets (bets that
aim at what is left); Cover (1991), Math. Finance 1, 1-29.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable

import numpy as np
from scipy.special import ndtri

# Fractions 2^0 … 2^-14.5, with slowly falling prior weights.
FRACTIONS = 2.0 ** (-np.arange(30) / 2)
LOG_PRIOR = np.log(1.0 / (np.arange(30) + 3.0))
LOG_PRIOR = LOG_PRIOR - math.log(float(np.exp(LOG_PRIOR).sum()))

# Bets at a fixed number of scores: how much of what can be lost is bet at most; the place of the
# upper pseudo-score in a range without an end, times the distance to the largest mean; how often a
# bet is revised in one order; how many scores times orders are kept at most; ranges with bets of
# their own; the share 1/64 of the error that the first, rough limit may spend; cells per width of
# the range and √n, and how many of them are tried together.
_MOST = 0.95
_OPEN = 2.0
_REVISIONS = 200
_SIZE = 1_000_000
_KINDS = 6
_SCREEN = 64
_CELLS = 32
_TOGETHER = 24


@dataclasses.dataclass(frozen=True, slots=True)
class Score:
    """``n`` scores with the same value and the same range."""

    value: float
    low: float
    high: float
    n: int


def equal_together(
    values: Iterable[float], low: float, high: float, n: Iterable[int] | None = None
) -> list[Score]:
    """Values of one range as scores, equal ones together; ``n`` says how often each occurs.

    Examples
    --------
    >>> equal_together([0.5, 1.0, 0.5], 0.0, 1.0)
    [Score(value=0.5, low=0.0, high=1.0, n=2), Score(value=1.0, low=0.0, high=1.0, n=1)]
    """
    rows = np.array(list(values), dtype=float)
    times = np.ones(len(rows), dtype=np.int64) if n is None else np.array(list(n), dtype=np.int64)
    distinct, place = np.unique(rows, return_inverse=True)
    totals = np.bincount(place.reshape(-1), weights=times, minlength=len(distinct))
    return [Score(float(v), low, high, int(k)) for v, k in zip(distinct, totals, strict=True) if k]


def betting_interval(
    scores: Iterable[Score], below: float, above: float, *, floor: float = 0.0, ceiling: float = 1.0
) -> tuple[float, float]:
    """Limits for the common mean of scores, searched in [floor, ceiling].

    The lower limit uses the lower ends of the ranges, the upper limit the upper ends.

    Examples
    --------
    >>> low, high = betting_interval([Score(1, 0, 1, 235), Score(0, 0, 1, 65)], 0.025, 0.025)
    >>> round(low, 2), round(high, 2)
    (0.7, 0.86)
    """
    value, low, high, n = _columns(scores)
    lower, upper = floor, ceiling
    if below > 0 and len(n):
        lower = mixed_limit(value, 1.0, low, n, below, floor, ceiling)
    if above > 0 and len(n):
        upper = -mixed_limit(-value, 1.0, -high, n, above, -ceiling, -floor)
    return lower, upper


def _columns(scores: Iterable[Score]) -> tuple[np.ndarray, ...]:
    """Values, lower and upper ends and numbers of the scores that there are."""
    rows = [(s.value, s.low, s.high, s.n) for s in scores if s.n]
    return tuple(np.array(rows, dtype=float).reshape(-1, 4).T)


def log_wealth(scores: Iterable[Score], mean: float) -> float:
    """Log of the mixed wealth of betting that the mean is *greater* than ``mean``."""
    value, low, _, n = _columns(scores)
    return _log_wealth(value, 1.0, low, n, mean)


def _log_wealth(
    value: np.ndarray, weight: np.ndarray | float, low: np.ndarray, n: np.ndarray, mean: float
) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (value - weight * mean) / (mean - low)
        logs = np.log1p(np.multiply.outer(FRACTIONS, gain)) @ n + LOG_PRIOR
    logs = np.where(np.isnan(logs), -np.inf, logs)
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum())) if math.isfinite(top) else top


def mixed_limit(
    value: np.ndarray,
    weight: np.ndarray | float,
    low: np.ndarray,
    n: np.ndarray,
    tail: float,
    floor: float,
    ceiling: float,
    *,
    within: float = 1e-10,
) -> float:
    """The least mean whose wealth by fixed bets on value - weight·mean stays under 1/tail."""
    goal = math.log(1 / tail)
    bad, good = max(floor, float(low.max())), ceiling

    def rejected(mean: float) -> bool:
        return _log_wealth(value, weight, low, n, mean) >= goal

    if rejected(good - 1e-12 * max(1.0, abs(good))):
        return ceiling  # every mean is rejected: the scores contradict their assumptions
    first = bad + 1e-12 * max(1.0, abs(bad))
    if not rejected(first):
        return bad
    bad = first
    while good - bad >= within:
        middle = (bad + good) / 2
        bad, good = (middle, good) if rejected(middle) else (bad, middle)
    return bad


def fixed_interval(
    scores: Iterable[Score],
    below: float,
    above: float,
    *,
    floor: float = 0.0,
    ceiling: float = 1.0,
    orders: int | None = None,
    seed: int = 0,
) -> tuple[float, float]:
    """Limits for the common mean of a fixed number of scores, searched in [floor, ceiling].

    The scores x_1 … x_n are put in a random order. Against "the mean is at most m" one bets λ_t in
    [0, .95/(m - low_t)] at step t, so that the wealth K(m) = Π(1 + λ_t·(x_t - m)) has expectation at
    most 1. It is averaged over ``orders`` seeded orders (an average of such wealths has expectation
    at most 1, too), and m is rejected where the average is at least 1/below. The upper limit is the
    lower limit of the scores -x.

    λ_t comes from the scores before t and from the wealth that they left. The goal is a wealth of
    c/below after n scores, c > 1 because the average over orders is somewhat less. Two laws say how
    to reach it. (1) The mean, variance and third moment of the scores so far fit a law with two
    values, sa below and sb above its mean; placed δ lower, the best bet against it, δ/((sa -
    δ)·(sb + δ)), is expected to gain what is missing in the steps that are left: (n - t)·KL =
    log(goal/wealth). (2) For sums that are nearly normal the bet that reaches the goal with the
    largest probability is smaller by h(z)/√(2·log(goal/wealth)), where h = φ/(1 - Φ) and 1 - Φ(z) =
    wealth/goal: it replicates an option that pays the goal if the sum is large enough, and the
    limits approach the normal ones, where bets that do not look at their wealth stay √(2·log
    40)/1.96 = 1.39 times as wide. The bet is (1), reduced by (2) as far as a single score cannot
    lose much of the wealth. c is 1.15 + 6·|skewness|/√n, at most 4. Two pseudo-scores of weight 1/2
    at the ends of the range start it, so a range should be as tight as is known. Up to six
    different ranges have moments of their own and share δ, which weights them by their precision.

    Since bets depend on m, K(m) need not fall as m rises. So a grid that is known before the
    scores, (high - low)/(32·√n) apart in one range, divides the means into cells, and all means of
    a cell have the bets against its upper end: in a cell K falls. A cell is rejected where the
    wealth at its upper end is at least 1/below, and in the first cell that is not, the limit is the
    last of 16 places that is rejected. Cells below a limit by :func:`betting_interval` at a
    sixty-fourth of the error are not tried; that share is taken from the others.

    Assumptions: n is fixed, not chosen by looking at the scores; given their ranges the scores are
    independent with mean m (iid scores of one range, or kinds of score that were assigned at
    random); the ranges were known before the labels. Where the mean may depend on the range, give
    every row the widest range. Not for strata with sample sizes of their own, and not for
    propensities that adapt. The seed is part of the method: it must not be chosen by its result.
    Coverage is then at least 1 - below - above at every n, but not at several looks: use
    :func:`betting_interval` for these.

    The lower limit uses the lower ends of the ranges, the upper limit the upper ends; the other end
    may be infinite. The order of the rows does not matter. ``orders`` is 32,000/n, at most 512 and
    at least 64 (32 above 5,000 scores), unless given, so that the limits differ by at most 5 % of
    the width over seeds; above ``1,000,000/orders`` scores fewer are used. Bets are revised at most 200 times in one
    order, 50 times in 16 orders or fewer and 25 times in 8 or fewer, which widens the limits by
    1 % or so.

    References
    ----------
    Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27, section 4; Voráček and Orabona (2025),
    "STaR-Bets: sequential target-recalculating bets for tighter confidence intervals".

    Examples
    --------
    >>> rows = [Score(1.0, -2.0, 1.0, 900), Score(-2.0, -2.0, 1.0, 100)]
    >>> [round(x, 2) for x in fixed_interval(rows, 0.025, 0.025)], [round(x, 2) for x in betting_interval(rows, 0.025, 0.025)]
    ([0.63, 0.76], [0.59, 0.79])
    """
    value, low, high, n = _columns(scores)
    one = np.ones_like(value)
    lower, upper = floor, ceiling
    if below > 0:
        lower = fixed_limit(value, one, low, high, n, below, floor, ceiling, orders, seed)
    if above > 0:
        upper = -fixed_limit(-value, one, -high, -low, n, above, -ceiling, -floor, orders, seed)
    return lower, upper


def fixed_limit(
    value: np.ndarray,
    weight: np.ndarray,
    low: np.ndarray,
    far: np.ndarray,
    n: np.ndarray,
    tail: float,
    floor: float,
    ceiling: float,
    orders: int | None,
    seed: int,
) -> float:
    """Lower limit of m by bets on value - weight·m at a fixed n; see :func:`fixed_interval`.

    Weights are at most 1, and value - weight·m is at least low - m; ``far`` are the upper ends,
    which only guide the first bets.
    """
    usable = np.isfinite(low)  # against a score without a lower end nothing can be bet
    by_size = np.lexsort((far, low, weight, value))
    by_size = by_size[usable[by_size]]
    value, weight, low, far, n = (x[by_size] for x in (value, weight, low, far, n))
    total = int(n.sum())
    if not total:
        return floor
    if max(floor, float(low.max())) >= ceiling:
        return ceiling
    span = np.where(
        np.isfinite(far), np.maximum(far - low, 1e-3 * (ceiling - low)), 2 * (ceiling - low)
    )
    cell = 1 / (_CELLS * math.sqrt(math.fsum(n / span**2)))
    far = np.where(np.isfinite(far), far, low + _OPEN * (ceiling - low))
    reach = mixed_limit(
        value, weight, low, n, tail / _SCREEN, floor, ceiling, within=max(cell / 4, 1e-10)
    )
    if reach >= ceiling:
        return ceiling  # every mean is rejected: the scores contradict their assumptions
    rows = np.repeat(np.arange(len(n)), n.astype(np.int64))
    usual = min(max(32_000 // total, 64 if total <= 5000 else 32), 512)
    count = max(1, min(usual if orders is None else orders, _SIZE // total))
    order = rows[_orders(seed, total, count)]
    bets = _Bets(order, value, weight, low, far, tail - tail / _SCREEN)
    base, goal = float(low.min()), math.log(1 / bets.tail)
    place = math.floor((reach - base) / cell)
    place += base + cell * (place + 1) <= reach
    together = _TOGETHER // 3  # the limit is mostly among the first cells
    while True:
        ends = np.minimum(base + cell * (place + 1 + np.arange(together)), ceiling)
        ends = ends[: 1 + int(np.searchsorted(ends, ceiling))]
        kept = bets.log_wealth(ends) < goal
        if kept.any():
            lead = int(np.argmax(kept))
            place += lead
            inside = np.minimum(base + cell * (place + np.arange(1, 17) / 16), ceiling)
            inside = inside[inside > reach]
            # Wealth falls in a cell: every fourth place first, then those after the last rejected.
            ahead, last = inside[3::4], base + cell * place
            ahead = ahead[bets.log_wealth(ahead, lead=lead) >= goal] if len(ahead) else ahead
            last = max(last, float(ahead.max(initial=base)))
            rest = inside[inside > last][:3]
            rest = rest[bets.log_wealth(rest, lead=lead) >= goal] if len(rest) else rest
            return max(reach, last, float(rest.max(initial=base)))
        if ends[-1] >= ceiling:
            return ceiling
        place += len(ends)
        together = _TOGETHER


@functools.lru_cache(maxsize=2)
def _orders(seed: int, total: int, count: int) -> np.ndarray:
    """So many orders of so many places; all pairs of a comparison have the same ones."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(total) for _ in range(count)])


@functools.cache
def _normal_share() -> np.ndarray:
    """Values of h(z)/√(2x), with 1 - Φ(z) = exp(-x) and h = φ/(1 - Φ), at √x = 0.005, 0.015 … 6."""
    x = (np.arange(600) + 0.5) ** 2 / 10_000
    z = ndtri(np.exp(-x))
    return np.asarray(np.exp(x - z * z / 2) / np.sqrt(4 * np.pi * x))


class _Bets:
    """Scores in seeded orders, and what is known of their law before each revision of the bets."""

    def __init__(
        self,
        order: np.ndarray,
        value: np.ndarray,
        weight: np.ndarray,
        low: np.ndarray,
        far: np.ndarray,
        tail: float,
    ) -> None:
        count, total = order.shape
        few = 1 if count > 16 else 4 if count > 8 else 8
        stride = -(-total // (_REVISIONS // few))
        self.stride = stride if stride < 8 else -(-stride // 8) * 8
        self.starts = np.arange(0, total, self.stride)
        self.counts: np.ndarray | None = None
        if 2 * len(value) <= self.stride:  # between revisions it matters only which scores came
            by_step = np.arange(len(value))[:, None, None]
            cells = (len(self.starts), len(value), count)
            place = (np.arange(total) // self.stride * cells[1] + order) * count
            place += np.arange(count)[:, None]
            counts = np.bincount(place.reshape(-1), minlength=math.prod(cells))
            self.counts = counts.reshape(cells).astype(float)
        else:
            by_step = np.ascontiguousarray(order.T)[:, None]
        self.tail, self.total, self.value = tail, total, value[by_step]
        self.made: list[tuple[np.ndarray, np.ndarray]] = []
        self.weight = weight[by_step] if np.any(weight != 1) else None
        self.low = low[by_step] if np.any(low != low[0]) else low[:1]
        kinds, kind = np.unique(np.stack([low, far], axis=1), axis=0, return_inverse=True)
        kind = kind.reshape(-1)
        if len(kinds) > _KINDS:
            kinds, kind = np.array([[low.min(), far.max()]]), np.zeros(len(low), dtype=int)
        self.kind = kind[by_step] if len(kinds) > 1 else None
        self.share = np.bincount(kind[order[0]], minlength=len(kinds)) / total
        self.laws = [
            self._laws(order, value, weight, end, kind == k) for k, end in enumerate(kinds)
        ]
        skew = sum(
            w * np.abs(above - below) / np.sqrt(above * below)
            for w, (below, above) in zip(self.share, self.laws, strict=True)
        )
        self.goal = np.log(np.minimum(1.15 + 6 * skew / math.sqrt(total), 4.0) / tail)

    def _laws(
        self,
        order: np.ndarray,
        value: np.ndarray,
        weight: np.ndarray,
        ends: np.ndarray,
        ours: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Distances of two values from the mean, by order and revision, from the scores before.

        Moments are those of x - w·r, r the ratio of the sums so far; the two pseudo-scores have the
        mean weight so far.
        """
        scale = max(float(ends[1] - ends[0]), 1e-12)
        w = np.where(ours, weight, 0.0)
        x = np.where(ours, value - weight * ends.mean(), 0.0) / scale
        powers = {(a, b): x**a * w**b for a in range(4) for b in range(4 - a)}
        powers[0, 0] = ours.astype(float)
        sums: dict[tuple[int, int], np.ndarray] = {}
        for (a, b), numbers in powers.items():
            if b and self.weight is None:  # all weights are one
                sums[a, b] = sums[a, 0].copy()
                continue
            added = (
                np.add.reduceat(numbers[order], self.starts, axis=1)
                if self.counts is None
                else (numbers @ self.counts).T
            )
            sums[a, b] = np.cumsum(added, axis=1) - added
        usual = (sums[0, 1] + 1) / (sums[0, 0] + 1)
        for (a, b), total in sums.items():
            if a in (0, 2):  # pseudo-scores at -usual/2 and usual/2, with weight 1/2 each
                total += usual ** (a + b) / (4 if a else 1)
        r = sums[1, 0] / sums[0, 1]
        second = sums[2, 0] - 2 * r * sums[1, 1] + r * r * sums[0, 2]
        third = sums[3, 0] - 3 * r * sums[2, 1] + 3 * r * r * sums[1, 2] - r**3 * sums[0, 3]
        variance = np.maximum(second / sums[0, 0], 1e-12)
        half = third / sums[0, 0] / (2 * variance)
        root = np.sqrt(half * half + variance)
        larger = np.abs(half) + root
        smaller = variance / larger
        below, above = np.where(half > 0, (smaller, larger), (larger, smaller)) * scale
        return below, above

    def log_wealth(self, means: np.ndarray, *, lead: int | None = None) -> np.ndarray:
        """Log of the wealth against "at most ``means``" at the end, averaged over the orders.

        With ``lead`` all have the bets that were made against that mean of the last call, which is
        the largest of these.
        """
        logs = np.zeros((len(means), len(self.goal)))
        if lead is not None:
            made = [bets[:, live == lead] for live, bets in self.made if lead in live]
            if self.counts is not None:  # all steps at once
                logs = self._growth(slice(len(made)), np.stack(made), means).sum(axis=0)
            else:
                for step, bets in enumerate(made):
                    logs += self._growth(step, bets, means)
        else:
            won, live = np.zeros_like(logs, dtype=bool), np.arange(len(means))
            self.made = []
            for step, start in enumerate(self.starts):
                bets = self.bets(step, logs[live], self.total - start)
                bets[:, won[live]] = 0.0
                self.made.append((live, bets))
                logs[live] += self._growth(step, bets, means[live])
                won[live] |= logs[live] >= self.goal[:, step]
                live = live[~won[live].all(axis=1)]
                if not len(live):
                    break
        top = logs.max(axis=1)
        average: np.ndarray = top + np.log(np.exp(logs - top[:, None]).mean(axis=1))
        return average

    def _growth(self, step: int | slice, bets: np.ndarray, means: np.ndarray) -> np.ndarray:
        """What the bets of a step add to the log of the wealth; of several where scores are counted."""
        part, mean = slice(None), means[:, None]
        if isinstance(step, int) and self.counts is None:
            part = slice(self.starts[step], self.starts[step] + self.stride)
        if self.kind is not None:
            kind = self.kind[part]
            bets = np.take_along_axis(bets, kind.reshape((1,) * (bets.ndim - 3) + kind.shape), -3)
        low = self.low if len(self.low) == 1 else self.low[part]
        factors = self.value[part] - (mean if self.weight is None else self.weight[part] * mean)
        factors = factors * np.minimum(bets, _MOST / (mean - low))
        factors += 1.0
        if self.counts is not None:
            return np.asarray((np.log(factors) * self.counts[step][..., None, :]).sum(axis=-3))
        if len(factors) % 8 == 0:  # one logarithm for eight factors
            factors = factors.reshape(-1, 8, *factors.shape[1:]).prod(axis=1)
        elif len(factors) < 8:
            factors = factors.prod(axis=0, keepdims=True)
        return np.asarray(np.log(factors).sum(axis=0))

    def bets(self, step: int, logs: np.ndarray, left: int) -> np.ndarray:
        """λ for every mean, order and kind of score, from the laws and the wealth before the step."""
        missing = np.maximum(self.goal[:, step] - logs, 1e-9)
        atoms = [(below[:, step], above[:, step]) for below, above in self.laws]
        shift = best_shift(atoms, self.share, missing / left)
        place = np.minimum((100 * np.sqrt(missing)).astype(np.intp), 599)
        normal = _normal_share()[place]
        found = []
        for below, above in atoms:
            risk = shift / (above + shift)  # of the wealth, if the lower value comes
            found.append(risk / (below - shift) * (normal + (1 - normal) * risk))
        return np.stack(found)


def best_shift(
    atoms: list[tuple[np.ndarray, np.ndarray]], share: np.ndarray, goal: np.ndarray
) -> np.ndarray:
    """δ where the expected log wealth per score is ``goal``, by Newton: it is convex in δ."""
    least = functools.reduce(np.minimum, [sa for sa, _ in atoms])
    precision = sum(w / (sa * sb) for w, (sa, sb) in zip(share, atoms, strict=True))
    upper = [sa / (sa + sb) for sa, sb in atoms]  # the mass of the upper value
    shift: np.ndarray = np.minimum(np.sqrt(2 * goal / precision), 0.8 * least)
    for _ in range(2):
        growth = slope = 0.0
        for w, (sa, sb), p in zip(share, atoms, upper, strict=True):
            growth = growth - w * (p * np.log1p(-shift / sa) + (1 - p) * np.log1p(shift / sb))
            slope = slope + w * shift / ((sa - shift) * (sb + shift))
        least_shift = 0.2 * shift
        newer = shift + (goal - growth) / slope
        shift = np.minimum(np.maximum(newer, least_shift), least_shift + 0.8 * least)
    return shift
