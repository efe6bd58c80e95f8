"""Drift: has the mean of a stream of scores fallen below a level, and since when?

A score x with a largest value h is bet against the claim "given the past its mean is at least a":

    e = 1 + θ·(a - x)/(h - a),    0 < θ ≤ 1,

has mean at most 1 while the claim is true. The *e-detector* adds the wealths of all starts,

    M_t = Σ_k w_k Σ_{j ≤ t} Π_{i=j..t} e_i(θ_k),

which is R ← (R + 1)·e for each fixed θ_k, mixed over a fixed grid. While the claim is true M_t - t
is a supermartingale, so that the number T of labels until M_T ≥ c has mean at least c: E[T] ≥ E[M_T]
≥ c. That is an *average run length*, no probability of a false alarm.

A change after label t means: given the past, labels up to t have means of at least a, later ones of
at most a. The true t is left out of :func:`change_points` only if the bets "the mean is above a" on
labels after t, forwards, or the bets "below a" on labels before it, backwards, ever reach 2/error;
by Ville's inequality each does so with probability at most error/2. Only the true t must survive,
so nothing is divided by the number of candidates.

References
----------
Shin, Ramdas and Rinaldo (2022), "E-detectors: a nonparametric framework for sequential change
detection"; Lorden (1971), Ann. Math. Statist. 42, 1897-1908; Saha and Ramdas (2025), "Post-detection
inference for sequential changepoint localization".
"""

from __future__ import annotations

import math

import numpy as np

from noracle.bounds.betting import FRACTIONS, LOG_PRIOR

Floats = np.ndarray

# Fractions 2^0 … 2^-9.5: what is smaller needs more labels than any run length that people state.
_BETS = FRACTIONS[:20]
_WEIGHTS = np.exp(LOG_PRIOR[:20]) / float(np.exp(LOG_PRIOR[:20]).sum())
_MOST = 1e300


def detector_path(
    value: Floats, high: Floats | float, level: float, *, run_length: float = math.inf
) -> Floats:
    """The e-detector after each score; rows are labels, further axes are streams of their own.

    It ends with the label at which every stream has reached ``run_length`` once. ``high`` is the
    largest value of each score, known before it; ``level`` is below all of them.

    Examples
    --------
    >>> path = detector_path(np.array([1.0] * 50 + [0.0] * 50), 1.0, 0.8, run_length=1000)
    >>> len(path), bool(path[-1] >= 1000)
    (56, True)
    """
    x = np.asarray(value, dtype=float)
    gain = (level - x) / (np.broadcast_to(np.asarray(high, dtype=float), x.shape) - level)
    shape = (-1,) + (1,) * (x.ndim - 1)
    bets, weights = _BETS.reshape(shape), _WEIGHTS.reshape(shape)
    wealth = np.zeros((len(_BETS), *x.shape[1:]))
    path, reached = np.zeros(x.shape), np.zeros(x.shape[1:], dtype=bool)
    for t, step in enumerate(gain):
        wealth = np.minimum((wealth + 1) * (1 + bets * step), _MOST)
        path[t] = (weights * wealth).sum(axis=0)
        reached |= path[t] >= run_length
        if reached.all():
            return path[: t + 1]
    return path


def _best_wealth(gain: Floats) -> Floats:
    """Log of the mixed wealth of bets from each start to a later end that is good for them.

    It is at most the largest over all ends: the end is where the best single bet is highest.
    """
    n = len(gain)
    best, end = np.full(n, -np.inf), np.zeros(n, dtype=np.int64)
    with np.errstate(divide="ignore"):
        for bet, weight in zip(_BETS, _WEIGHTS, strict=True):
            total = np.cumsum(np.log1p(bet * np.minimum(gain, _MOST)))
            before = np.concatenate([[0.0], total[:-1]])
            top = np.maximum.accumulate(total[::-1])[::-1]
            # The place of that maximum: the last one that is as high.
            where = np.where(total == top, np.arange(n), n)
            where = np.minimum.accumulate(where[::-1])[::-1]
            with np.errstate(invalid="ignore"):
                here = np.where(np.isfinite(before), top - before, -np.inf) + math.log(weight)
            better = here > best
            best, end = np.where(better, here, best), np.where(better, where, end)
    mixed = np.full(n, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for bet, weight in zip(_BETS, _WEIGHTS, strict=True):
            total = np.cumsum(np.log1p(bet * np.minimum(gain, _MOST)))
            before = np.concatenate([[0.0], total[:-1]])
            here = total[end] - before + math.log(weight)
            mixed = np.logaddexp(mixed, np.where(np.isnan(here), -np.inf, here))
    found: Floats = np.maximum(best, mixed)
    return found


def change_points(
    after: tuple[Floats, Floats | float],
    before: tuple[Floats, Floats | float],
    level: float,
    error: float,
) -> tuple[int, int]:
    """The first and the last possible change, as numbers of labels before it: the hull of the set.

    ``after`` are scores with their least values, ``before`` scores with their largest values, both
    of all labels up to the alarm.

    Examples
    --------
    >>> x = np.array([1.0] * 50 + [0.0] * 12)
    >>> change_points((x, 0.0), (x, 1.0), 0.8, 0.05)
    (27, 53)
    """
    x, low = (np.broadcast_to(np.asarray(v, dtype=float), np.shape(after[0])) for v in after)
    y, high = (np.broadcast_to(np.asarray(v, dtype=float), np.shape(before[0])) for v in before)
    goal = math.log(2 / error)
    # With θ = 1 nothing is lost for good backwards either: a wealth of 0 stays 0.
    forward = _best_wealth((x - level) / (level - low)) < goal
    backward = _best_wealth(((level - y) / (high - level))[::-1])[::-1] < goal
    kept = np.flatnonzero(forward & np.concatenate([[True], backward[:-1]]))
    if not len(kept):  # it did not fall once, for good: nothing is left out
        return 0, len(x) - 1
    return int(kept[0]), int(kept[-1])
