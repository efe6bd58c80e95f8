"""Deviation bounds for means of independent values in [0, 1]; each takes the error rate of one
tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable


def hoeffding_radius(n: int, tail: float) -> float:
    """Hoeffding (1963): sqrt(log(1/tail) / (2n)); infinite at n = 0.

    Examples
    --------
    >>> round(hoeffding_radius(300, 0.025), 4)
    0.0784
    """
    return math.inf if n < 1 or tail <= 0 else math.sqrt(math.log(1 / tail) / (2 * n))


def bernstein_radius(mean: float, n: int, tail: float) -> float:
    """Empirical Bernstein bound for 0/1 values (Maurer and Pontil 2009, Theorem 4).

    With the unbiased variance V = n·mean·(1 - mean)/(n - 1): sqrt(2·V·log(2/tail)/n) +
    7·log(2/tail)/(3(n - 1)). Infinite below n = 2.

    Examples
    --------
    >>> round(bernstein_radius(0.5, 300, 0.025), 4)
    0.1198
    """
    if n < 2 or tail <= 0:
        return math.inf
    log = math.log(2 / tail)
    return math.sqrt(2 * mean * (1 - mean) / (n - 1) * log) + 7 * log / (3 * (n - 1))


def bernstein_inverted(
    value: float, variance: Callable[[float], float], scale: float, below: float, above: float
) -> tuple[float, float]:
    """All rates A in [0, 1] that Bernstein's inequality with the variance *at A* does not exclude.

    |value - A| <= sqrt(2·variance(A)·log(1/tail)) + scale·log(1/tail). The variance must be concave in A; then the set is an interval.
    An empty set gives the end of [0, 1] nearest to ``value``, twice.

    References
    ----------
    Boucheron, Lugosi and Massart (2013), Theorem 2.10.
    """

    def radius(a: float, tail: float) -> float:
        log = math.log(1 / tail)
        return math.sqrt(2 * max(variance(a), 0.0) * log) + scale * log

    def outermost(inside: float, end: float, excess: Callable[[float], float]) -> float:
        """The point between ``inside`` (not excluded) and ``end`` where exclusion begins."""
        if excess(end) <= 0:
            return end
        good, bad = inside, end
        for _ in range(80):
            middle = (good + bad) / 2
            good, bad = (middle, bad) if excess(middle) <= 0 else (good, middle)
        return bad

    centre = min(max(value, 0.0), 1.0)
    low, high = 0.0, 1.0
    if below > 0:
        low = (
            centre
            if value - centre - radius(centre, below) > 0
            else outermost(centre, 0.0, lambda a: value - a - radius(a, below))
        )
    if above > 0:
        high = (
            centre
            if centre - value - radius(centre, above) > 0
            else outermost(centre, 1.0, lambda a: a - value - radius(a, above))
        )
    return low, high
