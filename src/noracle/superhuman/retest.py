"""The tests of certificates a second time, in plain Python, for :mod:`noracle.superhuman.verify`;
shares nothing with the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

Items = Sequence[tuple[Fraction, int]]
"""Values of Z and how many items have them."""
Clusters = Sequence[tuple[int, Fraction, int]]
"""Sizes of clusters, sums of Z over them, and how many clusters are alike."""


def log_wealth(items: Items, mean: float) -> float:
    """Log of Σ_j w_j·Π(1 + θ_j·(z - mean)/(mean + 1)) with θ_j = 2^(-j/2) and w_j proportional to
    1/(j + 3), j = 0…29.
    """
    total = math.fsum(1 / (j + 3) for j in range(30))
    logs = []
    for j in range(30):
        fraction = math.sqrt(2.0) ** -j
        log = math.log(1 / (j + 3) / total)
        for z, n in items:
            factor = fraction * (float(z) - mean) / (mean + 1)
            log += n * math.log1p(factor) if factor > -1 else -math.inf
        logs.append(log)
    top = max(logs)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(x - top) for x in logs))


def mean_and_variance(items: Items) -> tuple[Fraction, Fraction]:
    """Exact mean and unbiased variance (0 below two items)."""
    n = sum(m for _, m in items)
    mean = sum((z * m for z, m in items), Fraction()) / n
    squares = sum((z * z * m for z, m in items), Fraction())
    return mean, (squares - n * mean * mean) / (n - 1) if n > 1 else Fraction()


def bernstein_limit(items: Items, tail: float) -> float:
    """Maurer and Pontil's lower limit for values in a range of width 2."""
    n = sum(m for _, m in items)
    mean, variance = mean_and_variance(items)
    if n < 2:
        return -math.inf
    log = math.log(2) - math.log(tail)
    return float(mean) - math.sqrt(2 * float(variance) * log / n) - 14 * log / (3 * n - 3)


def student_tail(t: float, freedom: float) -> float:
    """P(T <= t) by the incomplete beta function."""
    from noracle.bounds.special import betainc

    half = float(betainc(freedom / 2, 0.5, freedom / (freedom + t * t))) / 2
    return half if t <= 0 else 1 - half


def cluster_p(test: str, clusters: Clusters, margin: float) -> float:
    """P-value of "the mean is at most the margin" from (size, sum of Z, number) of clusters:
    betting, or t with CR2.

    With whole clusters CR2 is V = Σ E²/(1 - m/N)/N², E = sum - m·mean, and its degrees of freedom
    are N²/(Σ m² + Σ_{c≠d} (m_c·m_d)²/ ((N - m_c)·(N - m_d))).
    """
    rows = [(m, z, n) for m, z, n in clusters if n]
    if test == "betting":
        most = max(m for m, _, _ in rows)
        gains = [(float(z - m * Fraction(margin)) / (most * (1 + margin)), n) for m, z, n in rows]
        total = math.fsum(1 / (j + 3) for j in range(30))
        logs = []
        for j in range(30):
            factors = [(math.sqrt(2.0) ** -j * gain, n) for gain, n in gains]
            log = math.log(1 / (j + 3) / total)
            logs.append(
                log + math.fsum(n * math.log1p(f) for f, n in factors)
                if all(f > -1 for f, _ in factors)
                else -math.inf
            )
        top = max(logs)
        return (
            1.0
            if top == -math.inf
            else min(
                1.0, math.exp(-max(top + math.log(math.fsum(math.exp(x - top) for x in logs)), 0.0))
            )
        )
    size = sum(m * n for m, _, n in rows)
    if sum(n for *_, n in rows) < 2:
        return 1.0
    mean = sum((z * n for _, z, n in rows), Fraction()) / size
    variance = (
        sum((n * (z - m * mean) ** 2 / (1 - Fraction(m, size)) for m, z, n in rows), Fraction())
        / size**2
    )
    if not variance:
        return 1.0
    shares = [(Fraction(m * m, size - m), n) for m, _, n in rows]
    apart = sum((n * x for x, n in shares), Fraction()) ** 2 - sum(
        (n * x * x for x, n in shares), Fraction()
    )
    freedom = size**2 / (sum(n * m * m for m, _, n in rows) + apart)
    return student_tail((margin - float(mean)) / math.sqrt(variance), float(freedom))


def upper_tail(successes: int, n: int, rate: float) -> float:
    """P(Binomial(n, rate) >= successes), summed term by term from the side that is small."""
    if successes <= 0:
        return 1.0
    if rate >= 1 or rate <= 0:
        return float(rate >= 1)
    if successes <= n * rate:
        return 1 - _run_of_terms(n, n - successes + 1, 1 - rate)
    return _run_of_terms(n, successes, rate)


def _run_of_terms(n: int, start: int, rate: float) -> float:
    """Σ_{k >= start} C(n, k) rate^k (1 - rate)^(n - k), where terms fall from ``start`` on."""
    if start > n:
        return 0.0
    log = (
        math.lgamma(n + 1)
        - math.lgamma(start + 1)
        - math.lgamma(n - start + 1)
        + start * math.log(rate)
        + (n - start) * math.log1p(-rate)
    )
    term, terms, k = 1.0, [1.0], start
    while k < n and term > 1e-20:
        term *= (n - k) / (k + 1) * rate / (1 - rate)
        terms.append(term)
        k += 1
    return min(1.0, math.exp(log) * math.fsum(terms))


def ceiling_at(name: str, mean: float, k: int | None) -> float:
    """The ceiling at a mean of its statistic; ``free`` as the lowest of its chords."""
    if name == "plurality" or k is None:
        return mean
    if name == "paper-empirical":
        return math.sqrt(mean)
    if k == 1:
        return 1.0
    if name == "paper":
        return math.sqrt((1 + (k - 1) * mean) / k)
    if name == "quadratic":
        return 0.5 / k + math.sqrt(0.25 / k**2 + (k - 1) * mean / k)
    return min((j + (k * (k - 1) * mean - j * (j - 1)) / (2 * j)) / k for j in range(1, k))


def ceiling_tail(
    name: str, mean: float, n: int, k: int | None, labels: int | None, threshold: float
) -> float:
    """P-value of "the ceiling is at least this threshold"."""
    if k == 1:
        return 1.0
    low = 0.0
    tops = range(math.ceil(k / (labels or k)), k + 1) if k is not None else range(0)
    two = len(tops) == 2
    if name == "plurality" and k is not None:
        low = tops[0] / k
    elif two and k is not None:
        low = (k - 2) / k  # all but one agree
    if threshold > 1:
        return 0.0
    # The smallest mean at which the ceiling reaches the threshold.
    if ceiling_at(name, low, k) >= threshold:
        return 1.0
    a, b = low, 1.0
    for _ in range(60):
        middle = (a + b) / 2
        a, b = (a, middle) if ceiling_at(name, middle, k) >= threshold else (middle, b)
    share, expected = (mean - low) / (1 - low), (b - low) / (1 - low)
    if two:
        return (
            upper_tail(n - math.ceil(share * n - 1e-6), n, 1 - expected)
            if expected < 1
            else float(share * n > n - 0.5)
        )
    if share >= expected:
        return 1.0
    if expected >= 1:
        return 0.0
    gap = (share * math.log(share / expected) if share > 0 else 0.0) + (1 - share) * math.log(
        (1 - share) / (1 - expected)
    )
    return math.exp(-n * gap)


def non_overlap(hits: int, n: int, tail: Callable[[float], float], margin: float) -> float:
    """2·min over thresholds of the larger of the two tails, by a grid that closes in on the
    crossing.
    """
    a, b = 0.0, 1 - margin
    best = 1.0
    for _ in range(12):
        grid = [a + (b - a) * i / 20 for i in range(21)]
        system = [upper_tail(hits, n, c + margin) for c in grid]
        people = [tail(c) for c in grid]
        best = min(best, *(max(s, p) for s, p in zip(system, people, strict=True)))
        first = next((i for i in range(21) if system[i] >= people[i]), 20)
        a, b = grid[max(first - 1, 0)], grid[first]
    return min(1.0, 2 * best)


def published_score(split: str, match_rate: float, ceiling: float, n: int, margin: float) -> float:
    """The published score: half of the margin to the ceiling (hms), or the best threshold of a
    grid, refined (oms).
    """
    top = match_rate - margin
    if top <= ceiling:
        return -1.0

    def score(upper: float, lower: float) -> float:
        return 1.0 - sum(math.exp(-2.0 * n * max(t, 0.0) ** 2) for t in (upper, lower))

    if split == "paper-hms":
        half = (top - ceiling) / 2
        return score(half, top - math.sqrt(half + ceiling * ceiling))
    a, b, best = ceiling, top, -1.0
    for _ in range(12):
        grid = [a + (b - a) * i / 400 for i in range(401)]
        scores = [score((c - ceiling) * (c + ceiling), top - c) for c in grid]
        at = max(range(401), key=scores.__getitem__)
        best = max(best, scores[at])
        a, b = grid[max(at - 1, 0)], grid[min(at + 1, 400)]
    return best
