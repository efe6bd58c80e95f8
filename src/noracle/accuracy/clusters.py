"""Items that come in clusters: the cluster is the unit, and its items may depend on each other in any way."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict

import numpy as np
from scipy.special import chdtrc

from noracle.accuracy.parts import Settings, Whole
from noracle.accuracy.score import law_of, sided_scores
from noracle.bounds import clusters as bounds
from noracle.bounds.linear import Limits, ordered
from noracle.counts import AccuracyCounts
from noracle.errors import ArgumentError

_MATTERS_BELOW = 0.01
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSums:
    """What each cluster holds: its items, how many have a label, and the sums of their scores for limits from below and above."""

    names: tuple[str, ...]
    size: Floats
    labelled: Floats
    lower: Floats
    upper: Floats
    low: float
    high: float

    @property
    def some(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """The clusters with a label."""
        return self.labelled > 0


def cluster_sums(counts: AccuracyCounts) -> ClusterSums:
    """Scores of the labelled items added up by cluster; no answer scores 0, and ``unsure`` is no label."""
    if len({c.weight for c in counts.items}) > 1:
        raise ArgumentError("clusters and weights that differ cannot be used together; pass clusters='ignore' or one weight.")
    rows: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    for c, n in counts.items.items():
        rows[c.cluster][0] += n
    low, high = 0.0, 1.0
    for t, n in counts.tallies.items():
        if t.verdict == "unsure":
            continue
        row = rows[t.cluster]
        lower, upper = sided_scores(t)
        row[1] += n
        row[2] += n * lower
        row[3] += n * upper
        if t.design == "recorded":
            high = math.inf
        else:
            low = min(low, law_of(t.verdict, t.n_classes, t.n_ruled_out).low)
    names = tuple(sorted(rows))
    size, labelled, below, above = (np.array([rows[name][i] for name in names], dtype=float) for i in range(4))
    return ClusterSums(names=names, size=size, labelled=labelled, lower=below, upper=above, low=low, high=high)


def clusters_matter(counts: AccuracyCounts, *, beyond: bool) -> bool:
    """Whether dependence within clusters can harm: for items beyond these, or where labels do not fall on items as on a random sample.

    Where items were drawn one by one from a finite population, which cluster they belong to says nothing about how they were drawn. The
    numbers of labels per cluster are then hypergeometric; more spread than that (chi-square) shows that clusters were drawn.
    """
    sums = cluster_sums(counts)
    if len(sums.names) < 2 or not sums.some.any():
        return False
    if beyond or not counts.whole:
        return True
    total, n = float(sums.size.sum()), float(sums.labelled.sum())
    if n >= total:
        return False
    expected = n * sums.size / total
    statistic = float(((sums.labelled - expected) ** 2 / (expected * (1 - n / total))).sum())
    return float(chdtrc(len(sums.names) - 1, statistic)) < _MATTERS_BELOW


def from_clusters(counts: AccuracyCounts, settings: Settings, below: float, above: float) -> Whole:
    """The accuracy with the cluster as the unit: finite-sample by bets on cluster scores, or CR2 for ``wald``."""
    if settings.inverse is not None or settings.rates is not None:
        raise ArgumentError("clusters must be 'ignore' with a transition matrix or rates of wrong verdicts; got 'auto'.")
    sums = cluster_sums(counts)
    some = sums.some
    size, labelled = sums.size[some], sums.labelled[some]
    middle = (sums.lower[some] + sums.upper[some]) / 2
    value, variance, _ = bounds.cr2(size, labelled, middle)
    if settings.interval == "wald":
        limits = bounds.cr2_interval(size, labelled, middle, below, above)
        return Whole(value=value, limits=limits, variance=variance, n=int(labelled.sum()), interval="wald")
    about = {"n_items": int(sums.size.sum()), "n_clusters": len(sums.names), "largest": int(sums.size.max())}
    infinite = math.isinf(sums.high)
    low = bounds.cluster_limits(
        size, labelled, sums.lower[some], below, 0.0, low=sums.low, high=1.0 if not infinite else math.inf, seed=settings.seed, **about
    ).low
    high = bounds.cluster_limits(
        size, labelled, sums.upper[some], 0.0, above, low=sums.low if not infinite else -math.inf, high=1.0, seed=settings.seed, **about
    ).high
    found = ordered(max(low, 0.0) if below > 0 else 0.0, min(high, 1.0) if above > 0 else 1.0)
    return Whole(
        value=value, limits=Limits(found.low, found.high, found.empty), variance=variance, n=int(labelled.sum()), interval="clusters"
    )
