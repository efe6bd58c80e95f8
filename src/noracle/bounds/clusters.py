"""Items that come in clusters (questions on one passage, turns of one dialogue): limits that do not
assume independent items.

Everything is a function of one number per *sampled* cluster: its ``size`` m (items in the
population), how many of them are ``labelled`` (ℓ >= 1, drawn at random within the cluster) and the
``total`` of the labelled items' scores. The accuracy is the mean over all N items.
"""

from __future__ import annotations

import math

import numpy as np

from noracle.bounds.betting import fixed_limit, mixed_limit
from noracle.bounds.binomial import Limits, ordered, stdtrit


def cluster_limits(
    size: np.ndarray,
    labelled: np.ndarray,
    total: np.ndarray,
    below: float,
    above: float,
    *,
    largest: float,
    low: float = 0.0,
    high: float = 1.0,
    floor: float = 0.0,
    ceiling: float = 1.0,
    anytime: bool = False,
    orders: int | None = None,
    seed: int = 0,
) -> Limits:
    """Finite-sample limits of the mean over all items, by bets on one number per cluster.

    For a cluster drawn uniformly, ℓ of its m items drawn at random, and A the mean over all items
    of the population,

        D(A) = (m/ℓ)·Σ(score - A),   the sum over the labelled items,

    has mean 0: sizes cancel, so that neither the number of clusters nor the mean size of the
    population need be known, and accuracy may depend on the size. It is bounded by ``largest``·[low
    - A, high - A]. Against "the mean is at most A" one bets λ·D(A) as in
    :func:`~noracle.bounds.betting.fixed_interval`: λ comes from the clusters before, and from the
    wealth that they left, in several random orders.

    Parameters
    ----------
    size, labelled, total
        m, ℓ >= 1 and the sum of the labelled items' scores, one entry per sampled cluster.
    largest
        No cluster of the *population* has more items.
    low, high
        The range of an item's score; the side that is not bet against may be infinite.
    floor, ceiling
        The range of the mean.
    anytime
        Valid at every look at whole clusters: fixed bets, as in
        :func:`~noracle.bounds.betting.betting_interval`.

    Notes
    -----
    Assumes that the clusters were drawn independently and uniformly (or without replacement), their
    number fixed beforehand unless ``anytime``; that labelled items were drawn at random within
    their cluster; and that ``largest`` and the range of a score were known before the labels. Items
    within a cluster may depend on each other in any way.

    References
    ----------
    Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27, section 4; Voráček and Orabona (2025), STaR-Bets.

    Examples
    --------
    >>> size = np.full(60, 5)
    >>> right = np.array([5, 4, 4, 3, 5, 2] * 10)
    >>> limits = cluster_limits(size, size, right, 0.025, 0.025, largest=5)
    >>> round(limits.low, 2), round(limits.high, 2)
    (0.69, 0.83)
    """
    m, count, total = (np.asarray(x, dtype=float) for x in (size, labelled, total))
    weight, one = m / largest, np.ones(len(m))
    value = weight * total / count

    def limit(value: np.ndarray, near: float, far: float, tail: float, a: float, b: float) -> float:
        if anytime:
            return mixed_limit(value, weight, near * one, one, tail, a, b)
        ends = near * one, far * one
        return fixed_limit(value, weight, *ends, one, tail, a, b, orders, seed)

    lower, upper = floor, ceiling
    if below > 0 and len(m) and math.isfinite(low):
        lower = limit(value, low, high, below, floor, ceiling)
    if above > 0 and len(m) and math.isfinite(high):
        upper = -limit(-value, -high, -low, above, -ceiling, -floor)
    return ordered(lower, upper, floor, ceiling)


def cr2_interval(
    size: np.ndarray,
    labelled: np.ndarray,
    total: np.ndarray,
    below: float,
    above: float,
    *,
    low: float = 0.0,
    high: float = 1.0,
) -> Limits:
    """Asymptotic limits from clusters: CR2 variance, Satterthwaite's degrees of freedom.

    The estimate is the weighted mean Σ w·total/M of the labelled items, each with weight w = m/ℓ, M
    = Σ m: the regression on a constant. With residual sums E = total - ℓ·estimate and S = Σ ℓw²,
    the variance with Bell and McCaffrey's correction, which is unbiased for independent items of
    one variance, is

        V = Σ (w·E)²/(b·M²),   b = 1 - ℓ·(2w/M - S/M²),

    and its degrees of freedom are (Σ G_cc)²/Σ G_cd² with G_cd = a_c·a_d·(ℓ_c·1{c = d} -
    ℓ_c·ℓ_d·(w_c + w_d)/M + ℓ_c·ℓ_d·S/M²), a = w/(M·√b). Assumes that the clusters were drawn
    independently and uniformly. [low, high] below two clusters, and where V = 0.

    References
    ----------
    Bell and McCaffrey (2002), Survey Methodology 28, 169-181; Pustejovsky and Tipton (2018), JBES
    36, 672-683.

    Examples
    --------
    >>> size = np.full(60, 5)
    >>> limits = cr2_interval(size, size, np.array([5, 4, 4, 3, 5, 2] * 10), 0.025, 0.025)
    >>> round(limits.low, 2), round(limits.high, 2)
    (0.71, 0.82)
    """
    value, variance, freedom = cr2(size, labelled, total)
    if not variance > 0:
        return Limits(low, high)
    se = math.sqrt(variance)
    return ordered(
        max(low, value + float(stdtrit(freedom, below)) * se) if below > 0 else low,
        min(high, value - float(stdtrit(freedom, above)) * se) if above > 0 else high,
        low,
        high,
    )


def cr2(size: np.ndarray, labelled: np.ndarray, total: np.ndarray) -> tuple[float, float, float]:
    """Estimate, CR2 variance, degrees of freedom, NaN if undefined; see :func:`cr2_interval`.

    Examples
    --------
    >>> value, variance, freedom = cr2(np.ones(3), np.ones(3), np.array([0.0, 1.0, 2.0]))  # clusters of one: the usual s²/n and n - 1
    >>> value, round(variance, 6), round(freedom, 6)
    (1.0, 0.333333, 2.0)
    """
    m, count, total = (np.asarray(x, dtype=float) for x in (size, labelled, total))
    if not len(m):
        return math.nan, math.nan, math.nan
    w, M = m / count, float(m.sum())
    value = float(w @ total) / M
    if len(m) < 2:
        return value, math.nan, math.nan
    S = float(count @ w**2)
    b = 1 - count * (2 * w / M - S / M**2)
    variance = float(np.sum((w * (total - count * value)) ** 2 / b)) / M**2
    # Σ G_cd² without the matrix: G = diag(d) + R, R = -(vu' + uv')/M + S·uu'/M².
    a = w / (M * np.sqrt(b))
    d, u = a**2 * count, a * count
    v = u * w
    on_diagonal = -2 * u * v / M + S * u**2 / M**2
    uu, uv, vv = float(u @ u), float(u @ v), float(v @ v)
    squares = (2 * uv**2 + 2 * uu * vv) / M**2 - 4 * S * uv * uu / M**3 + (S * uu / M**2) ** 2
    squares += float(np.sum(2 * d * on_diagonal + d**2))
    return value, variance, float(np.sum(d + on_diagonal)) ** 2 / squares


def dependence_p_value(
    residuals: np.ndarray, cluster: np.ndarray, *, resamples: int = 9999, seed: int = 0
) -> float:
    """Permutation p-value of "items are no more alike within clusters than between them".

    The statistic is the sum of r_i·r_j over all pairs within clusters, r the residuals less their
    mean: verdicts, or verdicts less what is expected of the item. Residuals are permuted over all
    items; p = (1 + number of permutations at least as large)/(1 + resamples). After 20 such
    permutations it stops with 20/number drawn (Besag and Clifford), so that clean evidence costs
    little. Both are valid p-values if the residuals are exchangeable. Accuracy that depends on a
    cluster's size is agreement within clusters, too, and is found.

    References
    ----------
    Besag and Clifford (1991), Biometrika 78, 301-304.

    Examples
    --------
    >>> cluster = np.repeat(np.arange(20), 3)
    >>> dependence_p_value(np.repeat([1.0, 0.0], 30), cluster) < 0.001, dependence_p_value(np.tile([1.0, 0.0, 1.0], 20), cluster) > 0.5
    (True, True)
    """
    _, index, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
    r = np.asarray(residuals, dtype=float)
    r = r - r.mean() if len(r) else r
    if not len(r) or sizes.max() < 2 or not np.any(r):
        return 1.0
    by_cluster = np.argsort(index.reshape(-1), kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    # Σr² is the same for every permutation, so the squares of the clusters' sums order them as the
    # pairs do.
    observed = float(np.sum(np.add.reduceat(r[by_cluster], starts) ** 2))
    least = observed - 1e-9 * float(np.sum(r * r)) * float(sizes.max())
    rng = np.random.default_rng(seed)
    drawn = larger = 0
    block = max(1, min(100, 1_000_000 // len(r)))
    while drawn < resamples:
        draws = rng.permuted(np.broadcast_to(r, (min(block, resamples - drawn), len(r))), axis=1)
        hits = np.flatnonzero(np.sum(np.add.reduceat(draws, starts, axis=1) ** 2, axis=1) >= least)
        if larger + len(hits) >= 20:
            return 20 / (drawn + int(hits[19 - larger]) + 1)
        drawn, larger = drawn + len(draws), larger + len(hits)
        block = max(1, min(2 * block, 1_000_000 // len(r)))
    return (1 + larger) / (1 + resamples)
