"""Limits from binomial counts: of one rate (Clopper–Pearson, hypergeometric, deviation bounds), and
of one unknown rate A on which success probabilities depend linearly, p = a + b·A.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial

import numpy as np
from scipy.special import (
    bdtr,
    bdtrc,
    betainc,
    betaincinv,
    chdtrc,
    gammaincc,
    gammaln,
    ndtr,
    ndtri,
    owens_t,
    stdtr,
    stdtrit,
    xlog1py,
    xlogy,
)

__all__ = [
    "bdtr",
    "bdtrc",
    "betainc",
    "betaincinv",
    "chdtrc",
    "find_root",
    "gammaincc",
    "gammaln",
    "ndtr",
    "ndtri",
    "owens_t",
    "stdtr",
    "stdtrit",
    "xlog1py",
    "xlogy",
]

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def _put_off(name: str) -> None:
    """Have a module of numpy loaded by its first use, not because scipy asks for all of numpy."""
    whole = f"numpy.{name}"
    spec = None if whole in sys.modules else importlib.util.find_spec(whole)
    if spec is None or spec.loader is None:
        return
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[whole] = module
    spec.loader.exec_module(module)
    setattr(np, name, module)


for _name in ("f2py", "testing"):
    _put_off(_name)


def find_root(
    function: Callable[[float], float],
    first: float,
    last: float,
    *,
    xtol: float,
    rtol: float = 4 * sys.float_info.epsilon,
) -> float:
    """Where a function is 0 between two places at which its signs differ, by Brent's method: the
    same steps as ``scipy.optimize.brentq``.

    Examples
    --------
    >>> round(find_root(lambda x: x * x - 2, 0.0, 2.0, xtol=1e-12, rtol=1e-12), 9)
    1.414213562
    """
    before, now = first, last
    f_before, f_now = function(before), function(now)
    if f_before == 0:
        return before
    if f_now == 0:
        return now
    if (f_before < 0) == (f_now < 0):
        raise ValueError("the signs at first and last must differ")
    other = f_other = step = last_step = 0.0
    for _ in range(100):
        if f_before != 0 and f_now != 0 and (f_before < 0) != (f_now < 0):
            other, f_other = before, f_before
            step = last_step = now - before
        if abs(f_other) < abs(f_now):
            before, now, other = now, other, now
            f_before, f_now, f_other = f_now, f_other, f_now
        near = (xtol + rtol * abs(now)) / 2
        half = (other - now) / 2
        if f_now == 0 or abs(half) < near:
            return now
        trial = math.inf
        if abs(last_step) > near and abs(f_now) < abs(f_before):
            if before == other:  # a line through two points
                trial = -f_now * (now - before) / (f_now - f_before)
            else:  # a curve through three
                slope = (f_before - f_now) / (before - now)
                other_slope = (f_other - f_now) / (other - now)
                trial = -f_now * (f_other * other_slope - f_before * slope)
                trial /= slope * other_slope * (f_other - f_before)
        if 2 * abs(trial) < min(abs(last_step), 3 * abs(half) - near):
            last_step, step = step, trial
        else:
            last_step = step = half
        before, f_before = now, f_now
        now += step if abs(step) > near else near if half > 0 else -near
        f_now = function(now)
    raise RuntimeError("no root was found in 100 steps")


def last_kept(
    keeps: Callable[[float], bool],
    inside: float,
    outside: float,
    *,
    steps: int,
    xtol: float = 0.0,
) -> float:
    """Where a condition that holds at ``inside`` ends on the way to ``outside``, by bisection;
    rounded outwards.

    Examples
    --------
    >>> round(last_kept(lambda x: x * x < 2, 0.0, 2.0, steps=40), 9)
    1.414213562
    """
    for _ in range(steps):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if keeps(middle) else (inside, middle)
        if abs(outside - inside) < xtol:
            break
    return outside


# Exact limits for one rate: draws with replacement (Clopper–Pearson) and without (hypergeometric).


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
    low, high = 0.0, 1.0
    if successes > 0 and below > 0:
        low = float(betaincinv(successes, n - successes + 1, below))
    if successes < n and above > 0:
        high = float(betaincinv(successes + 1, n - successes, 1 - above))
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
    kept = size - (n - successes)  # the most that the sample allows: there S >= successes
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
    first, end = max(least, successes - 1 - reach), successes
    if upward:
        first, end = successes, min(most, successes + reach) + 1
    counts = np.arange(first, end, dtype=float)
    logs = log_choose(right, counts) + log_choose(size - right, n - counts) - log_choose(size, n)
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


def log_choose(n: Floats | float, k: Floats | float) -> Floats:
    """Log of the binomial coefficient C(n, k), for each entry."""
    return np.asarray(
        gammaln(np.add(n, 1.0)) - gammaln(np.add(k, 1.0)) - gammaln(np.subtract(n, k) + 1.0)
    )


# Tail probabilities as p-values: how surprising is the sample if the mean is at most, or at least, a given number?


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
    return binomial_at_least(n - successes, n, 1 - rate)


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


# Deviation bounds for means of independent values in [0, 1]; each takes the error rate of one tail.


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
    centre = min(max(value, 0.0), 1.0)

    def limit(end: float, sign: int, tail: float) -> float:
        """Where exclusion begins on the way from the value to ``end``."""
        if tail <= 0:
            return end
        log = math.log(1 / tail)

        def fits(a: float) -> bool:
            radius = math.sqrt(2 * max(variance(a), 0.0) * log) + scale * log
            return sign * (a - value) - radius <= 0

        if not fits(centre):
            return centre
        return end if fits(end) else last_kept(fits, centre, end, steps=80)

    return limit(0.0, -1, below), limit(1.0, 1, above)


# Binomial counts whose success probability is linear in one unknown rate A: p = a + b·A, b > 0.


_EDGE = 1e-9
_ROUNDING = 1e-12
_MOST_POINTS = 200_000
_MOST_CONVOLVED = 8
_CERTAIN = 1 - 1e-12


@dataclasses.dataclass(frozen=True, slots=True)
class BinomialCell:
    """``successes`` of ``n`` trials, each a success with probability ``a + b·A``."""

    n: int
    successes: int
    a: float = 0.0
    b: float = 1.0

    def p(self, rate: float) -> float:
        """The success probability at A = ``rate``, kept inside [0, 1] against rounding."""
        return min(max(self.a + self.b * rate, 0.0), 1.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """An interval for A; ``empty`` says that no A in [0, 1] fits the counts, so that an assumption
    is broken.
    """

    low: float
    high: float
    empty: bool = False


def merge(cells: Iterable[BinomialCell]) -> tuple[BinomialCell, ...]:
    """Cells with the same success probability become one; empty ones vanish."""
    groups: dict[tuple[float, float], list[int]] = defaultdict(lambda: [0, 0])
    for c in cells:
        group = groups[c.a, c.b]
        group[0] += c.n
        group[1] += c.successes
    return tuple(BinomialCell(n, s, a, b) for (a, b), (n, s) in groups.items() if n)


def log_likelihood(cells: tuple[BinomialCell, ...], rate: float) -> float:
    """Sum of s·log p + (n - s)·log(1 - p); minus infinity where the counts are impossible."""
    total = 0.0
    for c in cells:
        p, failures = c.p(rate), c.n - c.successes
        if (c.successes and p <= 0) or (failures and p >= 1):
            return -math.inf
        right = c.successes * math.log(p) if c.successes else 0.0
        total += right + (failures * math.log1p(-p) if failures else 0.0)
    return total


def _slope(cells: tuple[BinomialCell, ...], rate: float) -> float:
    total = 0.0
    for c in cells:
        p, failures = c.p(rate), c.n - c.successes
        if c.successes:
            total += math.inf if p <= 0 else c.b * c.successes / p
        if failures:
            total -= math.inf if p >= 1 else c.b * failures / (1 - p)
    return total


def maximum_likelihood(cells: Iterable[BinomialCell]) -> float:
    """The A in [0, 1] that maximises the (concave) likelihood; NaN without trials.

    For one ordinary and one complementary cell this is the larger root of seed equation (9), in the
    form that does not cancel.

    Examples
    --------
    >>> K = 10
    >>> complementary = BinomialCell(2700, 2634, (K - 2) / (K - 1), 1 / (K - 1))
    >>> round(maximum_likelihood([BinomialCell(300, 235), complementary]), 4)
    0.7819
    """
    cells = merge(cells)
    if not cells:
        return math.nan
    if len(cells) <= 2 and all(abs(c.a + c.b - 1) < 1e-12 for c in cells):
        return _closed_form(cells)
    if _slope(cells, 0.0) <= 0:
        return 0.0
    if _slope(cells, 1.0) >= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _slope(cells, middle) > 0 else (low, middle)
        if high - low <= 1e-16 * max(high, 1e-300):
            break
    return (low + high) / 2


def _closed_form(cells: tuple[BinomialCell, ...]) -> float:
    """Root of s1/(A + c1) + s2/(A + c2) = T/(1 - A), with offsets c = a/b; valid where 1 - p = b·(1
    - A).
    """
    (s1, c1), (s2, c2) = [(c.successes, c.a / c.b) for c in cells] + [(0, 0.0)] * (2 - len(cells))
    failures = sum(c.n - c.successes for c in cells)
    alpha = s1 + s2 + failures
    beta = s1 * (c2 - 1) + s2 * (c1 - 1) + failures * (c1 + c2)
    gamma = failures * c1 * c2 - s1 * c2 - s2 * c1
    root = math.sqrt(max(beta * beta - 4 * alpha * gamma, 0.0))
    value = -2 * gamma / (beta + root) if beta > 0 else (root - beta) / (2 * alpha)
    return min(max(value, 0.0), 1.0)


def information(cells: Iterable[BinomialCell], rate: float) -> float:
    """Fisher information n·b²/(p·(1 - p)), summed; infinite where some p is 0 or 1."""
    total = 0.0
    for c in cells:
        p = c.p(rate)
        total += math.inf if p <= 0 or p >= 1 else c.n * c.b**2 / (p * (1 - p))
    return total


def wald(cells: Iterable[BinomialCell], below: float, above: float) -> Limits:
    """Normal limits at the maximum of the likelihood; [0, 1] where the information is infinite or
    there is none.
    """
    cells = merge(cells)
    value, info = maximum_likelihood(cells), math.nan
    if cells:
        info = information(cells, value)
    if not cells or not math.isfinite(info) or info <= 0:
        return Limits(0.0, 1.0)
    se = 1 / math.sqrt(info)
    low = max(0.0, value + float(ndtri(below)) * se) if below > 0 else 0.0
    high = min(1.0, value - float(ndtri(above)) * se) if above > 0 else 1.0
    return Limits(low, high)


def profile(cells: Iterable[BinomialCell], below: float, above: float) -> Limits:
    """Likelihood-ratio limits: all A with 2·(l(max) - l(A)) <= z². Asymptotic."""
    cells = merge(cells)
    value = maximum_likelihood(cells)
    if not cells:
        return Limits(0.0, 1.0)
    top = log_likelihood(cells, value)

    def limit(tail: float, end: float) -> float:
        return end if tail <= 0 else _crossing(cells, value, end, top - float(ndtri(tail)) ** 2 / 2)

    return Limits(limit(below, 0.0), limit(above, 1.0))


def anytime(cells: Iterable[BinomialCell], error: float) -> Limits:
    """Likelihood-mixture confidence sequence: valid at every look, in any order of the kinds of
    label.

    Keeps every A with E(A) = ∫ L(A') dA' / L(A) < 1/error. At the true A, E is a non-negative
    martingale that starts at 1, so by Ville's inequality it ever reaches 1/error with probability
    at most ``error``.

    References
    ----------
    Robbins (1970), Ann. Math. Statist. 41, 1397-1409.

    Examples
    --------
    >>> limits = anytime([BinomialCell(300, 235)], 0.05)
    >>> round(limits.low, 3), round(limits.high, 3)
    (0.696, 0.857)
    """
    cells = merge(cells)
    if not cells:
        return Limits(0.0, 1.0)
    value = maximum_likelihood(cells)
    level = _log_mixture(cells, value) + math.log(error)
    return Limits(_crossing(cells, value, 0.0, level), _crossing(cells, value, 1.0, level))


def _log_mixture(cells: tuple[BinomialCell, ...], mode: float) -> float:
    """Log ∫ L(A) dA over [0, 1] by Gauss–Legendre quadrature on both sides of the mode, where L is
    above e^-45 of its top.
    """
    top = log_likelihood(cells, mode)
    nodes, weights = _legendre()
    total = 0.0
    for end in (0.0, 1.0):
        far = _crossing(cells, mode, end, top - 45.0)
        width = abs(far - mode)
        if width == 0.0:
            continue
        rates = mode + (far - mode) * nodes
        logs = np.full(rates.shape, -top)
        for c in cells:
            p = np.clip(c.a + c.b * rates, 1e-300, 1.0)
            if c.successes:
                logs += c.successes * np.log(p)
            if c.n > c.successes:
                logs += (c.n - c.successes) * np.log(np.maximum(1 - c.a - c.b * rates, 1e-300))
        total += width * float(np.dot(weights, np.exp(logs)))
    return top + math.log(total)


@lru_cache(maxsize=1)
def _legendre() -> tuple[Floats, Floats]:
    x, w = np.polynomial.legendre.leggauss(64)
    return (x + 1) / 2, w / 2


def _crossing(cells: tuple[BinomialCell, ...], mode: float, end: float, level: float) -> float:
    """Where the likelihood falls to ``level`` on the way to ``end``, else ``end``; outwards."""

    def keeps(rate: float) -> bool:
        return log_likelihood(cells, rate) >= level

    if mode == end or keeps(end):
        return end
    return last_kept(keeps, mode, end, steps=60, xtol=1e-13)


def exact(cells: Iterable[BinomialCell], below: float, above: float) -> Limits:
    """Limits from the exact distribution of the maximum-likelihood estimate; coverage at least 1 -
    below - above at every n.

    One kind of label: Clopper–Pearson on p, mapped to A. Several kinds: since the likelihood is
    concave, {estimate >= x} is the half space in which the score at x, a weighted sum of the
    counts, is not negative. Its tail is summed over all counts but one where that takes at most
    200,000 points; else the counts are put on a grid of 1/200 standard deviation in all, rounded
    outwards, and their laws are convolved; with more than 8 kinds it is the Chernoff bound of the
    same event. Which of them is used depends on the numbers of trials only. The estimate does not
    fall when a count of successes rises, hence each tail is monotone in A and the limits are roots.

    Examples
    --------
    >>> K = 10
    >>> limits = exact([BinomialCell(300, 293, (K - 2) / (K - 1), 1 / (K - 1))], 0.025, 0.025)
    >>> round(limits.low, 3), round(limits.high, 3)
    (0.573, 0.915)
    """
    cells = merge(cells)
    if not cells:
        return Limits(0.0, 1.0)
    if len(cells) == 1:
        c = cells[0]
        low, high = clopper_pearson(c.successes, c.n, below, above)
        # Outwards, so that rounding excludes nothing.
        return clip((low - c.a) / c.b - _ROUNDING, (high - c.a) / c.b + _ROUNDING)
    return _invert(cells, below, above)


def clip(low: float, high: float) -> Limits:
    """The interval inside [0, 1]; one that misses it entirely is empty and sits at the nearer end."""
    if high < 0 or low > 1:
        end = 0.0 if high < 0 else 1.0
        return Limits(end, end, empty=True)
    return Limits(max(low, 0.0), min(high, 1.0))


def ordered(low: float, high: float, floor: float = 0.0, ceiling: float = 1.0) -> Limits:
    """Limits that were found apart; where they cross no rate fits: the end that one of them
    reached, else the middle, marked empty.

    Examples
    --------
    >>> ordered(0.2, 0.0)
    Limits(low=0.0, high=0.0, empty=True)
    """
    if low <= high:
        return Limits(low, high)
    point = high if high <= floor else low if low >= ceiling else (low + high) / 2
    return Limits(point, point, empty=True)


def _invert(cells: tuple[BinomialCell, ...], below: float, above: float) -> Limits:
    value = maximum_likelihood(cells)
    tail_of = _tail_method(cells)
    edge = _EDGE if tail_of is _summed_tail else 0.5 / (sum(c.n for c in cells) + 1)
    at = min(max(value, edge), 1 - edge)
    # The score at `at` is weight·successes minus a constant. Near an end of [0, 1] the same weights
    # order the counts that share that end.
    weights = [c.b / (c.p(at) * (1 - c.p(at))) for c in cells]

    def tail(rate: float, *, upper: bool) -> float:
        """P(statistic >= observed) if ``upper`` else P(statistic <= observed), ties included."""
        if upper:
            return tail_of(cells, weights, [c.p(rate) for c in cells])
        # Fewer successes are more failures: one function serves both tails.
        mirrored = [BinomialCell(c.n, c.n - c.successes, 1 - c.a - c.b, c.b) for c in cells]
        return tail_of(mirrored, weights, [1 - c.p(rate) for c in cells])

    low, high = 0.0, 1.0
    if below > 0 and value > 0:  # at an estimate of 0 every sample is at least as large
        near = _near(cells, at, below, -1)
        found = _root(partial(tail, upper=True), below, near, at - near, 0.0, 1.0)
        if found is None:
            return Limits(1.0, 1.0, empty=True)
        low = found
    if above > 0:
        near = _near(cells, at, above, +1)
        found = _root(partial(tail, upper=False), above, near, near - at, 1.0, 0.0)
        if found is None:
            return Limits(0.0, 0.0, empty=True)
        high = found
    return Limits(low, high)


def _tail_method(
    cells: tuple[BinomialCell, ...],
) -> Callable[[Sequence[BinomialCell], list[float], list[float]], float]:
    """How the tail is computed: by the numbers of trials and kinds, never by what was observed."""
    sizes = sorted(min(c.n, 2 * (4.0 * math.sqrt(c.n) + 41.0)) + 1 for c in cells)
    if math.prod(sizes[:-1]) <= _MOST_POINTS or len(cells) == 2:
        return _summed_tail
    return _convolved_tail if len(cells) <= _MOST_CONVOLVED else _chernoff_tail


def _summed_tail(cells: Sequence[BinomialCell], weights: list[float], p: list[float]) -> float:
    """P(Σ weight·S >= observed), summed over the supports of all cells but the widest, whose tail
    is a beta function.
    """
    inner = max(range(len(cells)), key=lambda i: cells[i].n * p[i] * (1 - p[i]))
    # weight·(count - observed), summed; the same without signs; probability
    sums, sizes, mass = np.zeros(1), np.zeros(1), np.ones(1)
    for i, c in enumerate(cells):
        if i != inner:
            counts, pmf = support(c.n, p[i])
            terms = weights[i] * (counts - c.successes)
            sums = np.add.outer(sums, terms).ravel()
            sizes = np.add.outer(sizes, np.abs(terms)).ravel()
            mass = np.multiply.outer(mass, pmf).ravel()
    n = cells[inner].n
    more = np.ceil((-sums - 1e-9 * sizes) / weights[inner] - 1e-12)  # ties count
    need = np.clip(cells[inner].successes + more, 0, n + 1)
    if len(cells) > 2:  # many points need the same count of the widest cell
        pooled = np.bincount(need.astype(np.int64), weights=mass, minlength=n + 2)
        need = np.flatnonzero(pooled).astype(float)
        mass = pooled[pooled != 0]
    return float(np.dot(mass, _at_least(need, n, p[inner]))) + 1e-13 * (len(cells) - 1)


def _convolved_tail(cells: Sequence[BinomialCell], weights: list[float], p: list[float]) -> float:
    """P(Σ weight·S >= observed) or a little more: each weight·S is rounded up to a grid, and the
    laws on the grid are convolved.
    """
    # The grid does not move with the rate, so that the tail stays monotone in it.
    rows = list(zip(weights, cells, strict=True))
    spread = math.sqrt(sum(c.n * c.b * w for w, c in rows))
    widest = sum(w * min(c.n, 8 * math.sqrt(c.n) + 80) for w, c in rows)
    step = max(spread / (200 * len(cells)), widest / 2**19)
    start, laws = 0, []
    for (w, c), rate in zip(rows, p, strict=True):
        counts, pmf = support(c.n, rate)
        places = np.ceil((counts - c.successes) * (w / step) - 1e-9).astype(np.int64)
        start += int(places[0])
        laws.append(np.bincount(places - places[0], weights=pmf))
    length = sum(law.size - 1 for law in laws) + 1
    if start >= 0 or start + length <= 0:
        return 1.0 if start >= 0 else 1e-11
    whole = 1 << (length - 1).bit_length()
    product = np.ones(whole // 2 + 1, dtype=complex)
    for law in laws:
        product *= np.fft.rfft(law, whole)
    return min(1.0, float(np.fft.irfft(product, whole)[-start:length].sum()) + 1e-11)


def _chernoff_tail(cells: Sequence[BinomialCell], weights: list[float], p: list[float]) -> float:
    """A bound on P(Σ weight·S >= observed): the least of exp(Σ n·log(1 + p·(e^(λ·weight) - 1)) -
    λ·observed) over λ >= 0.
    """
    w, n, rate = np.array(weights), np.array([c.n for c in cells], dtype=float), np.array(p)
    observed = float(np.dot(w, [c.successes for c in cells]))
    best, bet = 0.0, 0.0
    for _ in range(60):  # damped Newton on a convex function; every λ gives a valid bound
        tilted = rate * np.exp(bet * w) / (1 + rate * np.expm1(bet * w))
        best = min(best, float(np.dot(n, np.log1p(rate * np.expm1(bet * w)))) - bet * observed)
        slope = observed - float(np.dot(n * w, tilted))
        step = slope / max(float(np.dot(n * w * w, tilted * (1 - tilted))), 1e-300)
        new = min(max(bet + step, 0.0), 2 * bet + 1 / float(w.max()), 500 / float(w.max()))
        if abs(new - bet) <= 1e-9 * max(new, 1e-300):
            break
        bet = new
    return math.exp(best)


def _near(cells: tuple[BinomialCell, ...], at: float, error: float, side: int) -> float:
    """About where a limit lies by the normal law, with the variance that holds at the limit."""
    z = side * max(0.0, -float(ndtri(error)))
    first = at + z / math.sqrt(information(cells, at))
    first = min(max(first, at / 9), 1 - (1 - at) / 9)
    return min(max(at + z / math.sqrt(information(cells, first)), 0.0), 1.0)


def _root(
    tail: Callable[[float], float],
    error: float,
    near: float,
    reach: float,
    excluded: float,
    kept: float,
) -> float | None:
    """Where ``tail`` rises to ``error`` on the way from ``excluded`` to ``kept``, rounded towards
    ``excluded``; None if it never does. It is looked for around ``near``, in steps that begin with
    a part of ``reach``.
    """
    level = float(ndtri(min(error, _CERTAIN)))

    def excess(rate: float) -> float:  # nearly a line
        return float(ndtri(min(max(tail(rate), 1e-300), _CERTAIN))) - level

    x, step = near, max(reach, 1e-4) / 8
    here = excess(x)
    end = excluded if here >= 0 else kept
    while True:
        if x == end:
            return end if here >= 0 else None
        y = min(x + step, end) if end > x else max(x - step, end)
        there = excess(y)
        if (there >= 0) != (here >= 0):
            break
        x, here, step = y, there, 3 * step
    known = {x: here, y: there}
    root = find_root(lambda a: known[a] if a in known else excess(a), x, y, xtol=1e-11, rtol=1e-13)
    return min(max(root + math.copysign(2e-11, excluded - kept), 0.0), 1.0)


def support(n: int, p: float) -> tuple[Floats, Floats]:
    """Counts that carry all but 1e-13 of a binomial, and their probabilities."""
    if p <= 0 or p >= 1:
        return np.array([float(n if p >= 1 else 0)]), np.ones(1)
    reach = 8.0 * math.sqrt(n * p * (1 - p)) + 40.0
    first, last = max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach))
    counts = np.arange(first, last + 1, dtype=float)
    logs = log_choose(n, counts) + counts * math.log(p) + (n - counts) * math.log1p(-p)
    return counts, np.exp(logs)


def _at_least(need: Floats, n: int, p: float) -> Floats:
    """P(S >= need) for S ~ Bin(n, p), for every entry of ``need``."""
    inside = np.clip(need, 1, n)
    tail = betainc(inside, n - inside + 1, p)
    return np.where(need <= 0, 1.0, np.where(need > n, 0.0, tail))
