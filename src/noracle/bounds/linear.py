"""Binomial counts whose success probability is linear in one unknown rate A: p = a + b·A, b > 0.

An ordinary label has p = A (a = 0, b = 1). With m of the K - 1 wrong classes ruled out uniformly the answer escapes with
p = 1 - (1 - A)·m/(K - 1). Wrong verdicts at known rates change a and b. All limits below hold for any such mixture.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from scipy.special import betainc, gammaln, ndtri

from noracle.bounds.binomial import clopper_pearson

_EDGE = 1e-9
_ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
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
    """An interval for A; ``empty`` says that no A in [0, 1] fits the counts, so that an assumption is broken."""

    low: float
    high: float
    empty: bool = False


def merge(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Cells with the same success probability become one; empty ones vanish."""
    groups: dict[tuple[float, float], list[int]] = defaultdict(lambda: [0, 0])
    for c in cells:
        group = groups[c.a, c.b]
        group[0] += c.n
        group[1] += c.successes
    return tuple(Cell(n, s, a, b) for (a, b), (n, s) in groups.items() if n)


def log_likelihood(cells: tuple[Cell, ...], rate: float) -> float:
    """Sum of s·log p + (n - s)·log(1 - p); minus infinity where the counts are impossible."""
    total = 0.0
    for c in cells:
        p = c.p(rate)
        failures = c.n - c.successes
        if (c.successes and p <= 0) or (failures and p >= 1):
            return -math.inf
        total += (c.successes * math.log(p) if c.successes else 0.0) + (failures * math.log1p(-p) if failures else 0.0)
    return total


def _slope(cells: tuple[Cell, ...], rate: float) -> float:
    total = 0.0
    for c in cells:
        p = c.p(rate)
        failures = c.n - c.successes
        if c.successes:
            total += math.inf if p <= 0 else c.b * c.successes / p
        if failures:
            total -= math.inf if p >= 1 else c.b * failures / (1 - p)
    return total


def maximum_likelihood(cells: Iterable[Cell]) -> float:
    """The A in [0, 1] that maximises the (concave) likelihood; NaN without trials.

    For one ordinary and one complementary cell this is the larger root of seed equation (9), in the form that does not cancel.

    Examples
    --------
    >>> K = 10
    >>> complementary = Cell(2700, 2634, (K - 2) / (K - 1), 1 / (K - 1))
    >>> round(maximum_likelihood([Cell(300, 235), complementary]), 4)
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


def _closed_form(cells: tuple[Cell, ...]) -> float:
    """Root of s1/(A + c1) + s2/(A + c2) = T/(1 - A), with offsets c = a/b; valid where 1 - p = b·(1 - A)."""
    (s1, c1), (s2, c2) = [(c.successes, c.a / c.b) for c in cells] + [(0, 0.0)] * (2 - len(cells))
    failures = sum(c.n - c.successes for c in cells)
    alpha = s1 + s2 + failures
    beta = s1 * (c2 - 1) + s2 * (c1 - 1) + failures * (c1 + c2)
    gamma = failures * c1 * c2 - s1 * c2 - s2 * c1
    root = math.sqrt(max(beta * beta - 4 * alpha * gamma, 0.0))
    value = -2 * gamma / (beta + root) if beta > 0 else (root - beta) / (2 * alpha)
    return min(max(value, 0.0), 1.0)


def information(cells: Iterable[Cell], rate: float) -> float:
    """Fisher information n·b²/(p·(1 - p)), summed; infinite where some p is 0 or 1."""
    total = 0.0
    for c in cells:
        p = c.p(rate)
        total += math.inf if p <= 0 or p >= 1 else c.n * c.b**2 / (p * (1 - p))
    return total


def wald(cells: Iterable[Cell], below: float, above: float) -> Limits:
    """Normal limits at the maximum of the likelihood; [0, 1] where the information is infinite or there is none."""
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


def profile(cells: Iterable[Cell], below: float, above: float) -> Limits:
    """Likelihood-ratio limits: all A with 2·(l(max) - l(A)) <= z². Asymptotic."""
    cells = merge(cells)
    value = maximum_likelihood(cells)
    if not cells:
        return Limits(0.0, 1.0)
    top = log_likelihood(cells, value)

    def limit(tail: float, end: float) -> float:
        return end if tail <= 0 else _crossing(cells, value, end, top - float(ndtri(tail)) ** 2 / 2)

    return Limits(limit(below, 0.0), limit(above, 1.0))


def anytime(cells: Iterable[Cell], error: float) -> Limits:
    """Likelihood-mixture confidence sequence: valid at every look, in any order of the kinds of label.

    Keeps every A with E(A) = ∫ L(A') dA' / L(A) < 1/error. At the true A, E is a non-negative martingale that starts at 1, so by Ville's
    inequality it ever reaches 1/error with probability at most ``error``.

    References
    ----------
    Robbins (1970), Ann. Math. Statist. 41, 1397-1409.

    Examples
    --------
    >>> limits = anytime([Cell(300, 235)], 0.05)
    >>> round(limits.low, 3), round(limits.high, 3)
    (0.696, 0.857)
    """
    cells = merge(cells)
    if not cells:
        return Limits(0.0, 1.0)
    value = maximum_likelihood(cells)
    level = _log_mixture(cells, value) + math.log(error)
    return Limits(_crossing(cells, value, 0.0, level), _crossing(cells, value, 1.0, level))


def _log_mixture(cells: tuple[Cell, ...], mode: float) -> float:
    """Log ∫ L(A) dA over [0, 1] by Gauss–Legendre quadrature on both sides of the mode, where L is above e^-45 of its top."""
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
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.legendre.leggauss(64)
    return (x + 1) / 2, w / 2


def _crossing(cells: tuple[Cell, ...], mode: float, end: float, level: float) -> float:
    """The point between the mode and ``end`` where the likelihood falls to ``level``; ``end`` if it never does. Rounded outwards."""
    if mode == end or log_likelihood(cells, end) >= level:
        return end
    inside, outside = mode, end
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if log_likelihood(cells, middle) >= level else (inside, middle)
        if abs(outside - inside) < 1e-13:
            break
    return outside


def exact(cells: Iterable[Cell], below: float, above: float) -> Limits:
    """Limits from the exact distribution of the maximum-likelihood estimate; coverage at least 1 - below - above at every n.

    One kind of label: Clopper–Pearson on p, mapped to A. Two kinds: since the likelihood is concave, {estimate >= x} is the half plane in
    which the score at x is not negative, so a tail is one sum over one of the counts. The estimate does not fall when a count of successes
    rises, hence each tail is monotone in A and the limits are roots. Three or more kinds: the anytime limits at the same error, which are
    conservative at a fixed n.

    Examples
    --------
    >>> K = 10
    >>> limits = exact([Cell(300, 293, (K - 2) / (K - 1), 1 / (K - 1))], 0.025, 0.025)
    >>> round(limits.low, 3), round(limits.high, 3)
    (0.573, 0.915)
    """
    cells = merge(cells)
    if not cells:
        return Limits(0.0, 1.0)
    if len(cells) == 1:
        c = cells[0]
        p_low, p_high = clopper_pearson(c.successes, c.n, below, above)
        return clip((p_low - c.a) / c.b - _ROUNDING, (p_high - c.a) / c.b + _ROUNDING)  # outwards, so that rounding excludes nothing
    if len(cells) > 2:
        limits = anytime(cells, below + above)
        return Limits(limits.low if below > 0 else 0.0, limits.high if above > 0 else 1.0)
    return _invert_pair(cells, below, above)


def clip(low: float, high: float) -> Limits:
    """The interval inside [0, 1]; one that misses it entirely is empty and sits at the nearer end."""
    if high < 0 or low > 1:
        end = 0.0 if high < 0 else 1.0
        return Limits(end, end, empty=True)
    return Limits(max(low, 0.0), min(high, 1.0))


def ordered(low: float, high: float, floor: float = 0.0, ceiling: float = 1.0) -> Limits:
    """Limits that were found apart; where they cross no rate fits: the end that one of them reached, else the middle, marked empty.

    Examples
    --------
    >>> ordered(0.2, 0.0)
    Limits(low=0.0, high=0.0, empty=True)
    """
    if low <= high:
        return Limits(low, high)
    point = high if high <= floor else low if low >= ceiling else (low + high) / 2
    return Limits(point, point, empty=True)


def _invert_pair(cells: tuple[Cell, ...], below: float, above: float) -> Limits:
    value = maximum_likelihood(cells)
    at = min(max(value, _EDGE), 1 - _EDGE)
    # The score at `at` is weight·successes minus a constant. At an end of [0, 1] the same weights order the counts that share that end.
    weights = [c.b / (c.p(at) * (1 - c.p(at))) for c in cells]
    observed = sum(w * c.successes for w, c in zip(weights, cells, strict=True))
    slack = 1e-9 * abs(observed) + 1e-12

    def tail(rate: float, *, upper: bool) -> float:
        """P(statistic >= observed) if ``upper`` else P(statistic <= observed), ties included."""
        p = [c.p(rate) for c in cells]
        outer, inner = (0, 1) if cells[0].n * p[0] * (1 - p[0]) <= cells[1].n * p[1] * (1 - p[1]) else (1, 0)
        counts, pmf = support(cells[outer].n, p[outer])
        if upper:
            need = np.ceil((observed - slack - weights[outer] * counts) / weights[inner])
            return float(np.dot(pmf, _at_least(need, cells[inner].n, p[inner]))) + 1e-13
        most = np.floor((observed + slack - weights[outer] * counts) / weights[inner])
        return float(np.dot(pmf, 1 - _at_least(most + 1, cells[inner].n, p[inner]))) + 1e-13

    low, high, empty = 0.0, 1.0, False
    if below > 0 and value > 0:  # at an estimate of 0 every sample is at least as large
        if tail(1.0, upper=True) < below:
            low, empty = 1.0, True
        elif tail(0.0, upper=True) < below:
            low = _root(lambda a: tail(a, upper=True) - below, 0.0, 1.0)
    if above > 0:
        if tail(0.0, upper=False) < above:
            high, empty = 0.0, True
        elif tail(1.0, upper=False) < above:
            high = _root(lambda a: tail(a, upper=False) - above, 1.0, 0.0)
    if empty:
        end = low if low == 1.0 else 0.0
        return Limits(end, end, empty=True)
    return Limits(low, high)


def _root(function: Callable[[float], float], excluded: float, kept: float) -> float:
    """Where ``function`` turns from negative (``excluded``) to not negative (``kept``), rounded towards ``excluded``."""
    from scipy.optimize import brentq

    x = float(brentq(function, excluded, kept, xtol=1e-11, rtol=1e-13))
    return min(max(x + math.copysign(2e-11, excluded - kept), 0.0), 1.0)


def support(n: int, p: float) -> tuple[np.ndarray, np.ndarray]:
    """Counts that carry all but 1e-13 of a binomial, and their probabilities."""
    if p <= 0 or p >= 1:
        return np.array([float(n if p >= 1 else 0)]), np.ones(1)
    reach = 8.0 * math.sqrt(n * p * (1 - p)) + 40.0
    counts = np.arange(max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach)) + 1, dtype=float)
    logs = gammaln(n + 1.0) - gammaln(counts + 1) - gammaln(n - counts + 1) + counts * math.log(p) + (n - counts) * math.log1p(-p)
    return counts, np.exp(logs)


def _at_least(need: np.ndarray, n: int, p: float) -> np.ndarray:
    """P(S >= need) for S ~ Bin(n, p), for every entry of ``need``."""
    inside = np.clip(need, 1, n)
    tail = betainc(inside, n - inside + 1, p)
    return np.where(need <= 0, 1.0, np.where(need > n, 0.0, tail))
