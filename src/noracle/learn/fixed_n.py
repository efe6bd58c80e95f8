"""Limits of a mean by bets whose stakes suit the number of labels in hand.

The intervals of :mod:`noracle.bounds.betting` hold at every look and pay for it: about 1.8 times
the width of a normal interval. With the number n of labels fixed beforehand one stake is enough.
Against "the mean is m" the wealth Π(1 + λ(x - m)) is a non-negative martingale if 0 <= λ <= 1/(m -
least), so it reaches 1/tail with probability at most ``tail`` (Markov). The best λ for scores of
standard deviation σ is √(2·log(1/tail)/n)/σ, and a transition matrix says beforehand within which
range σ lies: one stake, or the mean of a few, serves all of it. The limit is about
√(2·log(1/tail))·σ/√n away, 1.4 times a normal one at 95 %.

References
----------
Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27.
"""

from __future__ import annotations

import math

import numpy as np

from noracle.bounds.linear import Limits, ordered
from noracle.learn.scored import Floats
from noracle.learn.transition import Transition

_CAP = 0.95  # share of the money that may be lost on one score
_REACH = 2.5  # one stake serves standard deviations that differ by this factor
_MOST_STAKES = 4
_TINY = 1e-12


def spread_range(
    transition: Transition, scores: Floats, fewest: int = 1, most: int = 1
) -> tuple[float, float]:
    """Smallest and largest standard deviation that the score of an answered item can have, whatever
    answers and truth are.

    Given truth y and answer a one score has mean 1{a = y} and second moment V[y, a] = Σ_k T[y,
    k]·T⁻¹[k, a]²; the mean of s of them has V/s + (1 - 1/s)·1{a = y}. With accuracy A the variance
    is a mean of these less A², concave in A, so that its least value is at an end.
    """
    second = transition.matrix @ scores**2
    right = np.eye(len(second), dtype=bool)
    least = min(float(second[right].min()) / most - 1 / most, float(second[~right].min()) / most)
    greatest = max(
        float(second[right].max()) / fewest + 1 - 1 / fewest, float(second[~right].max()) / fewest
    )
    return math.sqrt(max(least, 0.0)), math.sqrt(greatest)


def fixed_n_limits(
    values: Floats,
    *,
    least: float,
    greatest: float,
    spread: tuple[float, float],
    below: float,
    above: float,
    floor: float = 0.0,
    ceiling: float = 1.0,
) -> Limits:
    """Limits for the mean of independent scores in [least, greatest], whose standard deviation lies
    within ``spread``.

    The promise rests on the range alone; a wrong ``spread`` only makes the interval wider.

    Examples
    --------
    >>> scores = np.repeat([1.0, -3.0], [900, 100])
    >>> limits = fixed_n_limits(scores, least=-3.0, greatest=1.0, spread=(0.8, 2.0), below=0.025, above=0.025)
    >>> round(limits.low, 3), round(limits.high, 3)
    (0.489, 0.697)
    """
    if not len(values):
        return Limits(floor, ceiling)
    unique, n = np.unique(values, return_counts=True)
    weights = n.astype(np.float64)
    low = _limit(unique, least, weights, spread, below, floor, ceiling) if below > 0 else floor
    high = (
        -_limit(-unique, -greatest, weights, spread, above, -ceiling, -floor)
        if above > 0
        else ceiling
    )
    if low >= ceiling or high <= floor:  # every mean is refuted, also the last one
        return (
            Limits(ceiling, ceiling, empty=True)
            if low >= ceiling
            else Limits(floor, floor, empty=True)
        )
    return ordered(low, high, floor, ceiling)


def _stakes(n: float, spread: tuple[float, float], tail: float) -> Floats:
    low, high = max(spread[0], spread[1] / _REACH**_MOST_STAKES), spread[1]
    size = min(_MOST_STAKES, max(1, math.ceil(math.log(high / low) / math.log(_REACH) - 1e-9)))
    spreads = low * (high / low) ** ((np.arange(size) + 0.5) / size)
    found: Floats = math.sqrt(2 * math.log(size / tail) / n) / spreads
    return found


def _limit(
    value: Floats,
    least: float,
    n: Floats,
    spread: tuple[float, float],
    tail: float,
    floor: float,
    ceiling: float,
) -> float:
    """The smallest mean that is not refuted: λ(m)·(x - m), λ(m) = min(λ, cap/(m - least)), falls as
    m rises.
    """
    stakes = _stakes(float(n.sum()), spread, tail)
    goal = math.log(1 / tail)

    def refuted(m: float) -> bool:
        m = max(m, least + _TINY)
        logs = np.log1p(np.multiply.outer(np.minimum(stakes, _CAP / (m - least)), value - m)) @ n
        top = float(logs.max())
        return top + math.log(float(np.exp(logs - top).mean())) >= goal

    if not refuted(floor):
        return floor
    if refuted(ceiling):
        return ceiling
    bad, good = floor, ceiling
    while good - bad > 1e-10:
        middle = (bad + good) / 2
        bad, good = (middle, good) if refuted(middle) else (bad, middle)
    return bad
