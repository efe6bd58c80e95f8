"""Exact limits for one rate: draws with replacement (Clopper–Pearson) and without (hypergeometric)."""

from __future__ import annotations

import math

import numpy as np

from noracle.bounds.special import betaincinv, gammaln


def clopper_pearson(successes: float, n: float, below: float, above: float) -> tuple[float, float]:
    """Exact limits for a binomial probability.

    The lower limit solves P(S >= successes) = ``below``, the upper one P(S <= successes) =
    ``above``; a tail of 0 gives 0 or 1. Real-valued counts are allowed (the beta function extends
    the limits), which planning uses.

    Assumes independent trials with one probability. Coverage is at least 1 - below - above at every
    n.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26, 404-413.

    Examples
    --------
    >>> low, high = clopper_pearson(0, 10, 0.025, 0.025)
    >>> low, round(high, 4)
    (0.0, 0.3085)
    """
    low = (
        0.0
        if successes <= 0 or below <= 0
        else float(betaincinv(successes, n - successes + 1, below))
    )
    high = (
        1.0
        if successes >= n or above <= 0
        else float(betaincinv(successes + 1, n - successes, 1 - above))
    )
    return low, high


def hypergeometric_limits(
    successes: int, n: int, size: int, below: float, above: float
) -> tuple[float, float]:
    """Exact limits for the rate right/size of a finite population, from ``n`` items drawn without
    replacement.

    With M of ``size`` items right, P(S = s) = C(M, s)·C(size - M, n - s)/C(size, n). The lower
    limit is the least M with P(S >= successes) > ``below``, the upper one the largest M with P(S <=
    successes) > ``above``, each divided by ``size``; both tails are monotone in M, so each limit is
    found by bisection over the integers. A census (``n == size``) has width 0.

    Assumes a simple random sample without replacement. Coverage is at least 1 - below - above at
    every n and size.

    References
    ----------
    Konijn (1973), Statistical Theory of Sample Survey Design and Analysis; Wright (1991), Exact
    Confidence Bounds When Sampling from Small Finite Universes.

    Examples
    --------
    >>> hypergeometric_limits(70, 100, 100, 0.025, 0.025)
    (0.7, 0.7)
    >>> low, high = hypergeometric_limits(70, 100, 200, 0.025, 0.025)
    >>> round(low, 3), round(high, 3)
    (0.63, 0.76)
    """
    if not 0 <= successes <= n <= size:
        raise ValueError(
            f"hypergeometric limits need 0 <= successes <= n <= size; got {successes}, {n} and {size}"
        )
    if size == 0:
        return 0.0, 1.0
    low = _least_right(successes, n, size, below) if below > 0 else successes
    high = size - (_least_right(n - successes, n, size, above) if above > 0 else n - successes)
    return low / size, high / size


def _least_right(successes: int, n: int, size: int, tail: float) -> int:
    """The least number of right items M with P(S >= successes) > tail; every smaller M is rejected."""
    kept = size - (
        n - successes
    )  # the most that the sample allows: there S >= successes is certain
    rejected = successes - 1  # the sample itself holds more
    while kept - rejected > 1:
        middle = (kept + rejected) // 2
        if _hypergeometric_tail(successes, n, size, middle) > tail:
            kept = middle
        else:
            rejected = middle
    return kept


def _hypergeometric_tail(successes: int, n: int, size: int, right: int) -> float:
    """P(S >= successes), rounded upwards: summed from the observed count away from the mean, with
    what is cut off bounded.
    """
    least, most = max(0, n - (size - right)), min(n, right)
    if successes <= least:
        return 1.0
    if successes > most:
        return 0.0
    share = right / size
    reach = int(9.0 * math.sqrt(n * share * (1 - share) * (size - n) / max(size - 1, 1))) + 60
    upward = successes > n * share
    if upward:
        counts = np.arange(successes, min(most, successes + reach) + 1, dtype=float)
    else:
        counts = np.arange(max(least, successes - 1 - reach), successes, dtype=float)
    logs = (
        _log_choose(right, counts)
        + _log_choose(size - right, n - counts)
        - _log_choose(size, np.array([float(n)]))
    )
    mass = np.exp(logs)
    if not upward:
        return min(1.0, 1 - float(mass.sum()) * (1 - 1e-6))
    # The pmf is log-concave: past the last count kept, the terms fall at least as fast as the last
    # ratio.
    cut = 0.0
    if counts[-1] < most:
        ratio = float(mass[-1] / mass[-2]) if mass[-2] > 0 else 0.0
        cut = float(mass[-1]) * ratio / (1 - ratio)
    return (float(mass.sum()) + cut) * (1 + 1e-6) + 1e-300


def _log_choose(n: int, k: np.ndarray) -> np.ndarray:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))
