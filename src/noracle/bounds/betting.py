"""Means of bounded scores by betting: finite-sample, valid at every look, a function of counts alone.

Against the claim "the mean is m" one bets a fixed fraction θ of the money that can be lost on every score x in [low, high]:
the wealth Π(1 + θ·(x - m)/(m - low)) is a non-negative martingale if the mean is m. It is mixed over a fixed grid of θ, so that nothing is
tuned to the data and the order of the scores does not matter. Scores of different kinds may have different ranges; each must be known
before its label, and each score must have mean m under the claim. A range may be open on the side that is not bet against.

References
----------
Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27; Cover (1991), Math. Finance 1, 1-29.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable

import numpy as np

# Fractions 2^0 … 2^-14.5, with slowly falling prior weights.
FRACTIONS = 2.0 ** (-np.arange(30) / 2)
LOG_PRIOR = np.log(1.0 / (np.arange(30) + 3.0))
LOG_PRIOR = LOG_PRIOR - math.log(float(np.exp(LOG_PRIOR).sum()))


@dataclasses.dataclass(frozen=True, slots=True)
class Score:
    """``n`` scores with the same value and the same range."""

    value: float
    low: float
    high: float
    n: int


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
        np.array([s.value for s in rows]), np.array([s.low for s in rows]), np.array([float(s.n) for s in rows]), mean
    )  # fmt: skip


def _log_wealth(value: np.ndarray, low: np.ndarray, n: np.ndarray, mean: float) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (value - mean) / (mean - low)
        logs = np.log1p(np.multiply.outer(FRACTIONS, gain)) @ n + LOG_PRIOR
    logs = np.where(np.isnan(logs), -np.inf, logs)
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum())) if math.isfinite(top) else top


def _limit(value: np.ndarray, low: np.ndarray, n: np.ndarray, tail: float, floor: float, ceiling: float) -> float:
    """The smallest mean whose wealth stays below 1/tail; wealth falls as the mean rises. Rounded down."""
    goal = math.log(1 / tail)
    start = max(floor, float(low.max()))

    def rejected(mean: float) -> bool:
        return _log_wealth(value, low, n, mean) >= goal

    bad, good = start, ceiling
    if rejected(good - 1e-12 * max(1.0, abs(good))):
        return ceiling  # every mean is rejected: the scores contradict their assumptions
    return _bisect(rejected, bad, good)


def _bisect(rejected: Callable[[float], bool], bad: float, good: float) -> float:
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
