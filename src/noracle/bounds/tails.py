"""Tail probabilities as p-values: how surprising is the sample if the mean is at most, or at least,
a given number?
"""

from __future__ import annotations

import math

from noracle.bounds.special import betainc


def binomial_at_least(successes: int, n: int, rate: float) -> float:
    """P(S >= successes) for S ~ Binomial(n, rate); it rises with the rate.

    Examples
    --------
    >>> round(binomial_at_least(9, 10, 0.5), 4), binomial_at_least(0, 10, 0.5)
    (0.0107, 1.0)
    """
    if successes <= 0 or rate >= 1:
        return 1.0
    return 0.0 if successes > n or rate <= 0 else float(betainc(successes, n - successes + 1, rate))


def binomial_at_most(successes: int, n: int, rate: float) -> float:
    """P(S <= successes) for S ~ Binomial(n, rate); it falls as the rate rises.

    Examples
    --------
    >>> round(binomial_at_most(1, 10, 0.5), 4), binomial_at_most(10, 10, 0.5)
    (0.0107, 1.0)
    """
    if successes >= n or rate <= 0:
        return 1.0
    return (
        0.0
        if successes < 0 or rate >= 1
        else float(betainc(n - successes, successes + 1, 1 - rate))
    )


def relative_entropy(first: float, second: float) -> float:
    """Kullback–Leibler divergence of two coins, p·log(p/q) + (1-p)·log((1-p)/(1-q)).

    Examples
    --------
    >>> relative_entropy(0.3, 0.3), relative_entropy(0.5, 1.0)
    (0.0, inf)
    """
    total = 0.0
    for p, q in ((first, second), (1 - first, 1 - second)):
        if p > 0:
            total += p * math.log(p / q) if q > 0 else math.inf
    return max(total, 0.0)


def chernoff_at_most(mean: float, n: int, expected: float) -> float:
    """Bound on P(average of n <= mean) for independent values in [0, 1] with this expectation:
    exp(-n·KL(mean, expected)).

    It is 1 where the average is not below the expectation. Independence, not equality in
    distribution, is needed.

    References
    ----------
    Hoeffding (1963), JASA 58, 13-30, Theorem 1.

    Examples
    --------
    >>> chernoff_at_most(0.4, 100, 0.3), round(chernoff_at_most(0.4, 100, 0.5), 4)
    (1.0, 0.1335)
    """
    return 1.0 if mean >= expected or n < 1 else math.exp(-n * relative_entropy(mean, expected))


def bernstein_low(mean: float, variance: float, n: int, width: float, tail: float) -> float:
    """Lower limit for the mean of independent values in a range of this width (Maurer and Pontil
    2009, Theorem 4).

    mean - sqrt(2·V·log(2/tail)/n) - 7·width·log(2/tail)/(3(n-1)), with V the unbiased sample
    variance. Minus infinity below n = 2.

    Examples
    --------
    >>> round(bernstein_low(0.5, 0.25, 300, 1.0, 0.025), 3)
    0.38
    """
    if n < 2 or tail <= 0:
        return -math.inf
    log = math.log(2 / tail)
    return mean - math.sqrt(2 * variance * log / n) - 7 * width * log / (3 * (n - 1))


def bernstein_above(mean: float, variance: float, n: int, width: float, margin: float) -> float:
    """The smallest tail at which :func:`bernstein_low` is still above ``margin``: a p-value for
    "the mean is at most margin"; at most 1.

    With x = sqrt(log(2/p)) it solves a·x² + b·x = mean - margin, a = 7·width/(3(n-1)), b =
    sqrt(2V/n).

    Examples
    --------
    >>> p = bernstein_above(0.5, 0.25, 300, 1.0, 0.35)
    >>> abs(bernstein_low(0.5, 0.25, 300, 1.0, p) - 0.35) < 1e-12
    True
    """
    excess = mean - margin
    if n < 2 or excess <= 0:
        return 1.0
    a, b = 7 * width / (3 * (n - 1)), math.sqrt(2 * variance / n)
    root = 2 * excess / (b + math.sqrt(b * b + 4 * a * excess))
    return min(1.0, 2 * math.exp(-root * root))
