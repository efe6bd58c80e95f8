"""Means of bounded scores by betting: finite-sample limits, valid at every look or, narrower, at a
fixed number of scores.

``betting_interval`` is for streams: valid at every look, a function of counts alone.
``fixed_interval`` is for a number of scores that was fixed beforehand: its bets learn from the
scores seen so far, and it needs about two thirds of the labels.

Against the claim "the mean is m" one bets a fixed fraction θ of the money that can be lost on every
score x in [low, high]: the wealth Π(1 + θ·(x - m)/(m - low)) is a non-negative martingale if the
mean is m. It is mixed over a fixed grid of θ, so that nothing is tuned to the data and the order of
the scores does not matter. Scores of different kinds may have different ranges; each must be known
before its label, and each score must have mean m under the claim. A range may be open on the side
that is not bet against.

References
----------
Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27 (section 4 for plug-in bets); Cover (1991), Math.
Finance 1, 1-29.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable

import numpy as np

from noracle.bounds.binomial import find_root

# Fractions 2^0 … 2^-14.5, with slowly falling prior weights.
FRACTIONS = 2.0 ** (-np.arange(30) / 2)
LOG_PRIOR = np.log(1.0 / (np.arange(30) + 3.0))
LOG_PRIOR = LOG_PRIOR - math.log(float(np.exp(LOG_PRIOR).sum()))

# Plug-in bets: how much of what can be lost is bet at most; the weight of the pseudo-scores at both
# ends, and the place of the upper one in a range without an end, times the distance to the largest
# mean; how often a bet is revised in one order; how many scores times orders are kept at most;
# ranges with bets of their own; numbers that are worked out together.
_MOST = 0.95
_PSEUDO = 0.5
_OPEN = 4.0
_REVISIONS = 500
_SIZE = 2_000_000
_KINDS = 6
_BLOCK = 1 << 15


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
    """Values of one range as scores, equal ones together; ``n`` says how often each occurs, by
    default once.

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
    rows = [s for s in scores if s.n]
    if not rows:
        return floor, ceiling
    value = np.array([s.value for s in rows])
    n = np.array([float(s.n) for s in rows])
    low, high = floor, ceiling
    if below > 0:
        low = _limit(value, np.array([s.low for s in rows]), n, below, floor, ceiling)
    if above > 0:
        high = -_limit(-value, -np.array([s.high for s in rows]), n, above, -ceiling, -floor)
    return low, high


def log_wealth(scores: Iterable[Score], mean: float) -> float:
    """Log of the mixed wealth of betting that the mean is *greater* than ``mean``."""
    rows = [s for s in scores if s.n]
    return _log_wealth(
        np.array([s.value for s in rows]),
        np.array([s.low for s in rows]),
        np.array([float(s.n) for s in rows]),
        mean,
    )


def _log_wealth(value: np.ndarray, low: np.ndarray, n: np.ndarray, mean: float) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (value - mean) / (mean - low)
        logs = np.log1p(np.multiply.outer(FRACTIONS, gain)) @ n + LOG_PRIOR
    logs = np.where(np.isnan(logs), -np.inf, logs)
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum())) if math.isfinite(top) else top


def _limit(
    value: np.ndarray, low: np.ndarray, n: np.ndarray, tail: float, floor: float, ceiling: float
) -> float:
    """The smallest mean whose wealth stays below 1/tail; wealth falls as the mean rises. Rounded
    down.
    """
    goal = math.log(1 / tail)
    start = max(floor, float(low.max()))

    def rejected(mean: float) -> bool:
        return _log_wealth(value, low, n, mean) >= goal

    bad, good = start, ceiling
    if rejected(good - 1e-12 * max(1.0, abs(good))):
        return ceiling  # every mean is rejected: the scores contradict their assumptions
    return bisect(rejected, bad, good)


def bisect(rejected: Callable[[float], bool], bad: float, good: float) -> float:
    """The largest mean that is rejected, between one that is and one that is not; ``bad`` itself
    where nothing is.
    """
    first = bad + 1e-12 * max(1.0, abs(bad))
    if not rejected(first):
        return bad
    bad = first
    for _ in range(60):
        middle = (bad + good) / 2
        bad, good = (middle, good) if rejected(middle) else (bad, middle)
        if good - bad < 1e-10:
            break
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

    The scores x_1 … x_n are put in a random order. Against "the mean is at most m" one bets λ_t =
    min(λ'_t, .95/(m - low_t)) at step t, so that the wealth K(m) = Π(1 + λ_t·(x_t - m)) has
    expectation at most 1. It is averaged over ``orders`` seeded orders (an average of such wealths
    has expectation at most 1, too), and m is rejected where the average is at least 1/below. λ'_t
    does not depend on m, so each factor, and with it K, falls as m rises, and the limit is a root.
    The upper limit is the lower limit of the scores -x.

    λ'_t comes from the scores before t only. Their mean, variance and third moment fit a law with
    two values, sa below and sb above its mean; the mean is placed δ lower, such that the best bet
    against that law, δ/((sa - δ)·(sb + δ)), is expected to reach 1/below after n scores: n·KL =
    log(1/below). For small δ this is √(2·log(1/below)/(n·variance)), the bet of Waudby-Smith and
    Ramdas. Two pseudo-scores of weight 1/2 at the ends of the range start it, so a range should be
    as tight as is known. Up to six different ranges have moments of their own and share δ, which
    weights them by their precision.

    Assumptions: n is fixed, not chosen by looking at the scores; given their ranges the scores are
    independent with mean m (iid scores of one range, or kinds of score that were assigned at
    random); the ranges were known before the labels. Where the mean may depend on the range, give
    every row the widest range. Not for strata with sample sizes of their own, and not for
    propensities that adapt. The seed is part of the method: it must not be chosen by its result.
    Coverage is then at least 1 - below - above at every n, but not at several looks: use
    :func:`betting_interval` for these.

    The lower limit uses the lower ends of the ranges, the upper limit the upper ends; the other end
    may be infinite. The order of the rows does not matter. ``orders`` is 64, or 32 from 2,000
    scores on, unless given, so that the limits differ by at most 5 % of the width over seeds; above
    ``2,000,000/orders`` scores fewer are used. Bets are revised at most 500 times in one order.

    References
    ----------
    Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27, section 4.

    Examples
    --------
    >>> rows = [Score(1.0, -2.0, 1.0, 900), Score(-2.0, -2.0, 1.0, 100)]
    >>> [round(x, 2) for x in fixed_interval(rows, 0.025, 0.025)], [round(x, 2) for x in betting_interval(rows, 0.025, 0.025)]
    ([0.62, 0.77], [0.59, 0.79])
    """
    rows = [s for s in scores if s.n]
    value = np.array([float(s.value) for s in rows])
    ends = np.array([(float(s.low), float(s.high)) for s in rows]).reshape(-1, 2)
    n = np.array([s.n for s in rows], dtype=np.int64)
    low, high = floor, ceiling
    if below > 0:
        low = _fixed_limit(value, ends[:, 0], ends[:, 1], n, below, floor, ceiling, orders, seed)
    if above > 0:
        high = -_fixed_limit(
            -value, -ends[:, 1], -ends[:, 0], n, above, -ceiling, -floor, orders, seed
        )
    return low, high


def _fixed_limit(
    value: np.ndarray,
    low: np.ndarray,
    far: np.ndarray,
    n: np.ndarray,
    tail: float,
    floor: float,
    ceiling: float,
    orders: int | None,
    seed: int,
) -> float:
    """Lower limit by plug-in bets; ``far`` are the upper ends, which only guide the first bets."""
    usable = np.isfinite(low)  # against a score without a lower end nothing can be bet
    value, low, far, n = value[usable], low[usable], far[usable], n[usable]
    total = int(n.sum())
    if not total:
        return floor
    far = np.where(np.isfinite(far), far, low + _OPEN * (ceiling - low))
    by_size = np.lexsort((far, low, value))
    value, low, far, n = value[by_size], low[by_size], far[by_size], n[by_size]
    rows = np.repeat(np.arange(len(value), dtype=np.int32), n)
    rng = np.random.default_rng(seed)
    orders = min(max(64_000 // total, 32), 64) if orders is None else orders
    order = np.stack([rng.permutation(rows) for _ in range(max(1, min(orders, _SIZE // total)))])
    goal = math.log(1 / tail)
    bets = _plug_in_bets(order, value, low, far, n, goal)
    seen = value[order]
    ends: float | np.ndarray = float(low[0]) if np.all(low == low[0]) else low[order]

    def excess(mean: float) -> float:
        return _log_average_wealth(seen, bets, ends, mean) - goal

    start = max(floor, float(low.max()))
    first, last = start + 1e-12 * max(1.0, abs(start)), ceiling - 1e-12 * max(1.0, abs(ceiling))
    if start >= ceiling or excess(last) >= 0:
        return ceiling  # every mean is rejected: the scores contradict their assumptions
    return falling_root(excess, first, last, total) if excess(first) >= 0 else start


def falling_root(excess: Callable[[float], float], first: float, last: float, n: int) -> float:
    """The root of a falling function, rounded down to a place where it is not negative; to a
    thousandth of 1/n or better.
    """
    width = 1e-4 / (n + 100)
    root = find_root(excess, first, last, xtol=width, rtol=1e-12)
    while root > first and excess(root) < 0:
        root = max(first, root - 2 * width)
        width *= 2
    return root


def _log_average_wealth(
    seen: np.ndarray, bets: np.ndarray, low: float | np.ndarray, mean: float
) -> float:
    """Log of the wealth against "at most ``mean``", averaged over the orders (rows of ``seen``)."""
    count, n = seen.shape
    logs = np.zeros(count)
    step = max(8, _BLOCK // count // 8 * 8)
    for start in range(0, n, step):
        part = np.s_[:, start : start + step]
        gap = mean - (low if isinstance(low, float) else low[part])
        factors = 1.0 + np.minimum(bets[part], _MOST / gap) * (seen[part] - mean)
        whole = factors.shape[1] // 8 * 8
        products = (
            factors[:, :whole].reshape(count, -1, 8).prod(axis=2)
        )  # one logarithm for eight factors
        logs += np.log(products).sum(axis=1) + np.log(factors[:, whole:]).sum(axis=1)
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).mean()))


def _plug_in_bets(
    order: np.ndarray,
    value: np.ndarray,
    low: np.ndarray,
    far: np.ndarray,
    n: np.ndarray,
    goal: float,
) -> np.ndarray:
    """λ'_t for every order and step, from the steps before t."""
    kinds, kind = np.unique(np.stack([low, far], axis=1), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    if len(kinds) > _KINDS:
        kinds, kind = np.array([[low.min(), far.max()]]), np.zeros(len(low), dtype=int)
    scale = np.maximum(kinds[:, 1] - kinds[:, 0], 1e-12)
    centre = kinds.mean(axis=1)
    share = np.bincount(kind, weights=n, minlength=len(kinds)) / n.sum()
    z = (value - centre[kind]) / scale[kind]
    # Running sums of 1, z, z², z³ per kind and order; the pseudo-scores are at z = -1/2 and 1/2.
    powers = np.stack([np.ones_like(z), z, z * z, z * z * z])
    sums = np.zeros((len(kinds), 4, len(order)))
    sums[:, 0], sums[:, 2] = 2 * _PSEUDO, _PSEUDO / 2
    stride = 1 + order.shape[1] // _REVISIONS
    per_kind = np.empty((len(kinds), len(order), -(-order.shape[1] // stride)))
    step = max(1, _BLOCK // len(order) // stride)
    for start in range(0, per_kind.shape[2], step):
        rows = order[:, start * stride : (start + step) * stride]
        begin = np.arange(0, rows.shape[1], stride)
        atoms = []
        for k in range(len(kinds)):
            at = powers[:, rows] if len(kinds) == 1 else powers[:, rows] * (kind[rows] == k)
            added = np.add.reduceat(at, begin, axis=2)
            running = np.cumsum(added, axis=2) + sums[k][:, :, None]
            sums[k] = running[:, :, -1]
            atoms.append(two_values(running - added, float(scale[k])))
        shift = best_shift(atoms, share, goal / order.shape[1])
        best = [shift / ((sa - shift) * (sb + shift)) for sa, sb in atoms]
        per_kind[:, :, start : start + step] = best
    steps = np.arange(order.shape[1]) // stride
    bets: np.ndarray = (
        per_kind[0][:, steps]
        if len(kinds) == 1
        else per_kind[kind[order], np.arange(len(order))[:, None], steps]
    )
    return bets


def two_values(sums: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Distances below and above the mean of the law with two values that has these moments."""
    first, second, third = sums[1:] / sums[0]
    variance = np.maximum(second - first * first, 1e-12)
    half = (third - first * (3 * second - 2 * first * first)) / (2 * variance)
    root = np.sqrt(half * half + variance)
    larger = np.abs(half) + root
    smaller = variance / larger
    return np.where(half > 0, smaller, larger) * scale, np.where(half > 0, larger, smaller) * scale


def best_shift(
    atoms: list[tuple[np.ndarray, np.ndarray]], share: np.ndarray, goal: float
) -> np.ndarray:
    """δ at which the expected log wealth per score is ``goal``, by Newton's method: it is convex in
    δ, and its slope is the best bet.
    """
    least = np.minimum.reduce([sa for sa, _ in atoms])
    precision = sum(w / (sa * sb) for w, (sa, sb) in zip(share, atoms, strict=True))
    shift: np.ndarray = np.minimum(np.sqrt(2 * goal / precision), 0.8 * least)
    for _ in range(4):
        growth, slope = np.zeros_like(shift), np.zeros_like(shift)
        for w, (sa, sb) in zip(share, atoms, strict=True):
            p = sa / (sa + sb)  # the mass of the upper value
            growth -= w * (p * np.log1p(-shift / sa) + (1 - p) * np.log1p(shift / sb))
            slope += w * shift / ((sa - shift) * (sb + shift))
        shift = np.clip(shift + (goal - growth) / slope, 0.2 * shift, 0.2 * shift + 0.8 * least)
    return shift
