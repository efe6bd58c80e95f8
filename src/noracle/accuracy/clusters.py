"""Items that come in clusters: the cluster is the unit, and its items may depend on each other in
any way.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np

from noracle.accuracy.score import (
    DIFFERENT_BELOW,
    VERDICT_OF,
    LimitSettings,
    Whole,
    added,
    rates_p_value,
    require_type,
    score_ends,
    sided_scores,
)
from noracle.bounds import clusters as bounds
from noracle.bounds.binomial import gammaincc, ndtr, ordered
from noracle.counts import AccuracyCounts, count_accuracy
from noracle.counts.tally import Cell, Tally
from noracle.errors import require
from noracle.evidence import Evidence
from noracle.results import Assumption, Check

SAMPLED = "clusters are a random sample"
BY_CLUSTER = (
    "items come in {} clusters: the cluster is the unit, and its items may depend on each other"
)
_MATTERS_BELOW = 0.01
_MOST_ITEMS = 20_000
_INTERVALS = ("exact", "fixed-n", "betting", "anytime", "wald")
_ADVICE = "name the cluster of each item in a column cluster of the items and leave clusters='auto', or count each cluster as one item"
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Place = tuple[str, str]


def has_clusters(evidence: Evidence) -> bool:
    """Whether the items have a column ``cluster``."""
    return evidence.items is not None and "cluster" in evidence.items.columns


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSums:
    """What each sampled cluster holds: its items, how many have a label, and the sums of their
    scores for limits from below and above.

    ``largest`` is the size of the largest cluster, sampled or not; ``low`` and ``high`` are the
    least and the largest score of an item; ``n`` is the number of labels.
    """

    size: Floats
    labelled: Floats
    lower: Floats
    upper: Floats
    largest: int
    low: float
    high: float
    bounded: bool
    n: int


def cluster_sums(counts: AccuracyCounts, *, method: str = "scores", seed: int = 0) -> ClusterSums:
    """Scores of the labelled items added up by cluster; no answer scores 0, and ``unsure`` is no
    label.

    Where only answered items were labelled, the others of a cluster are known to score 0, and a
    cluster without any answer is known altogether: it is counted with the probability with which
    other clusters got a label.
    """
    # Items, answered and labelled ones, and sums of lower and upper scores.
    rows: dict[str, list[float]] = defaultdict(lambda: [0.0] * 5)
    for column, known in ((0, counts.items), (1, counts.answered)):
        for c, k in known.items():
            rows[c.cluster][column] += k
    low, high, bounded, n, asked_all = 0.0, 1.0, True, 0, False
    most = max(counts.most_answers.values(), default=1)
    for t, k in _labels(counts, method):
        lower, upper = sided_scores(t)
        for column, value in ((2, 1.0), (3, lower), (4, upper)):
            rows[t.cluster][column] += k * value
        n += k
        asked_all = asked_all or not t.answered
        if t.design == "recorded":
            bounded, high = False, max(high, float(most))
        else:
            ends = score_ends(t.verdict, t.n_classes, t.n_ruled_out, most)
            low, high = min(low, ends[0]), max(high, ends[1])
    table = np.array([rows[name] for name in sorted(rows)], dtype=float).reshape(-1, 5)
    size, answered, labelled, below, above = table.T
    some = labelled > 0
    if not asked_all and np.any(answered < size):
        share = answered / np.maximum(size, 1)
        below, above = below * share, above * share
        silent = answered == 0
        chance = some.sum() / max(1, int(np.sum(~silent)))
        drawn = np.random.default_rng(seed).random(len(size)) < chance
        labelled = np.where(silent, 1.0, labelled)
        some = some | (silent & drawn & bool(n))
    return ClusterSums(
        size=size[some],
        labelled=labelled[some],
        lower=below[some],
        upper=above[some],
        largest=int(size.max(initial=1)),
        low=low,
        high=high,
        bounded=bounded,
        n=n,
    )


def _labels(counts: AccuracyCounts, method: str = "scores") -> list[tuple[Tally, int]]:
    """The labels that a method uses."""
    wanted = VERDICT_OF.get(method)
    told = ((t, n) for t, n in counts.tallies.items() if t.verdict != "unsure")
    return [(t, n) for t, n in told if wanted in (None, t.verdict)]


# do clusters matter?


def drawn_by_cluster_p_value(sizes: Mapping[Place, int], labels: Mapping[Place, int]) -> float:
    """P-value of "labelled items were drawn one by one", from items and labels of each (stratum,
    cluster).

    Within a stratum of N items with n labels, the labels of its clusters are then hypergeometric.
    Two statistics are compared with that: U = Σ ℓ(ℓ - 1), the pairs of labelled items that share a
    cluster, which is larger where whole clusters were labelled (gamma distribution with its exact
    mean and variance); and T = Σ ℓ·m, which differs where labels went by cluster and not by size
    (normal). The smaller p-value is doubled.

    Examples
    --------
    >>> sizes = {("", str(c)): 5 for c in range(300)}
    >>> drawn_by_cluster_p_value(sizes, {("", str(c)): 5 for c in range(60)}) < 1e-6
    True
    >>> drawn_by_cluster_p_value(sizes, {place: 1 for place in sizes})
    1.0
    """
    strata: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, m in sizes.items():
        strata[place[0]].append((m, labels.get(place, 0)))
    pairs, trend = np.zeros(3), np.zeros(3)  # observed, expected, variance
    for rows in strata.values():
        m, count = np.array(rows, dtype=float).T
        total, n = float(m.sum()), float(count.sum())
        if not 0 < n < total or len(m) < 2:
            continue
        steps = [(n - i) / (total - i) if total > i else 0.0 for i in range(4)]
        chance = [math.prod(steps[:k]) for k in range(5)]
        m2 = m * (m - 1)
        m3, m4 = m2 * (m - 2), m2 * (m - 2) * (m - 3)
        mean = chance[2] * float(m2.sum())
        square = float((chance[4] * m4 + 4 * chance[3] * m3 + 2 * chance[2] * m2).sum())
        square += chance[4] * (float(m2.sum()) ** 2 - float((m2**2).sum()))
        pairs += float((count * (count - 1)).sum()), mean, max(square - mean**2, 0.0)
        squares = float((m**2).sum()) / total
        spread = n * (total - n) / max(total - 1, 1) * (float((m**3).sum()) / total - squares**2)
        trend += float((count * m).sum()), n * float((m**2).sum()) / total, spread
    together = by_size = 1.0
    if pairs[2] > 0:
        together = float(gammaincc(pairs[1] ** 2 / pairs[2], pairs[0] * pairs[1] / pairs[2]))
    if trend[2] > 1e-9:
        by_size = float(2 * ndtr(-abs(trend[0] - trend[1]) / math.sqrt(trend[2])))
    return min(1.0, 2 * min(together, by_size))


def labels_go_by_cluster(sizes: Mapping[Place, int], labels: Mapping[Place, int]) -> bool:
    """Whether labels fall on items as on clusters that were drawn, so that clusters matter on these
    items, too.
    """
    return drawn_by_cluster_p_value(sizes, labels) < _MATTERS_BELOW


def clusters_matter(counts: AccuracyCounts, *, beyond: bool) -> bool:
    """Whether dependence within clusters can harm: for items beyond these, or where labels do not
    fall on items as on a random sample.

    Where items were drawn one by one from a finite population, which cluster they belong to says
    nothing about how they were drawn. Decided by numbers of items and labels, never by verdicts.
    """
    sizes, labels = _by_place(counts)
    largest = max(added((cluster, n) for (_, cluster), n in sizes.items()).values(), default=1)
    if not labels or largest < 2:
        return False
    return beyond or not counts.whole or labels_go_by_cluster(sizes, labels)


def _by_place(counts: AccuracyCounts) -> tuple[Counter[Place], Counter[Place]]:
    """Items and labels by stratum and cluster; of answered items only, where no other was labelled."""
    told = _labels(counts)
    known = counts.answered if all(t.answered for t, _ in told) else counts.items
    sizes = added(((c.stratum, c.cluster), n) for c, n in known.items())
    return sizes, added(((t.stratum, t.cluster), n) for t, n in told)


def sampled_alike(sizes: Mapping[Place, int], labels: Mapping[Place, int]) -> Assumption:
    """The assumption that labelled clusters are a random sample; failed where strata had their
    clusters labelled at different rates.
    """
    rates = []
    for stratum in dict.fromkeys(stratum for stratum, _ in sizes):
        of = [place for place in sizes if place[0] == stratum]
        rates.append((len(of), sum(labels.get(place, 0) > 0 for place in of)))
    if rates_p_value(rates) < DIFFERENT_BELOW:
        told = "clusters of some strata were labelled more often than those of others; estimate the strata one by one"
        return Assumption(name=SAMPLED, status="failed", detail=told)
    detail = "labelled clusters are a random sample of the clusters, and labelled items of the items of their cluster"
    return Assumption(name=SAMPLED, detail=detail)


def cluster_assumption(counts: AccuracyCounts) -> Assumption:
    """What an estimate by cluster rests on."""
    return sampled_alike(*_by_place(counts))


# value and limits


def refuse_weights(cells: Iterable[Cell]) -> None:
    """Clusters of items with different weights have no limits here."""
    require(
        len({c.weight for c in cells}) <= 1,
        "weights must be equal where items come in clusters that matter; got several. Pass clusters='ignore'.",
    )


def from_clusters(
    counts: AccuracyCounts, settings: LimitSettings, below: float, above: float
) -> Whole:
    """The accuracy with the cluster as the unit: finite-sample by bets on clusters, or CR2 for
    ``wald``.
    """
    require(
        settings.inverse is None and settings.rates is None,
        "clusters must be 'ignore' with a transition matrix or rates of wrong verdicts; got 'auto'.",
    )
    require(
        settings.interval in _INTERVALS,
        f"interval must be auto, {', '.join(_INTERVALS)} where items come in clusters; got {settings.interval!r}. "
        "Pass clusters='ignore' to take items as independent.",
    )
    refuse_weights(counts.items)
    sums = cluster_sums(counts, method=settings.method, seed=settings.seed)
    size, labelled = sums.size, sums.labelled
    middle = (sums.lower + sums.upper) / 2
    value, variance, _ = bounds.cr2(size, labelled, middle)
    every_look = settings.interval in ("betting", "anytime")
    if settings.interval == "wald":
        interval, limits = "cr2", bounds.cr2_interval(size, labelled, middle, below, above)
    else:
        interval = "clusters, every look" if every_look else "clusters"
        find = partial(
            bounds.cluster_limits,
            size,
            labelled,
            largest=sums.largest,
            anytime=every_look,
            seed=settings.seed,
        )
        # Scores of recorded propensities have an end on one side only, which is the side that is
        # bet against.
        least, most = (sums.low, sums.high) if sums.bounded else (-math.inf, math.inf)
        low = find(sums.lower, below, 0.0, low=sums.low, high=most).low
        high = find(sums.upper, 0.0, above, low=least, high=sums.high).high
        limits = ordered(low, high)
    return Whole(
        value=value,
        limits=limits,
        variance=variance,
        n=sums.n,
        interval=interval,
        clusters=len(size),
        design_effect=_design_effect(counts, settings.method, variance),
    )


def _design_effect(counts: AccuracyCounts, method: str, variance: float) -> float:
    """The variance by cluster over that of as many independent items; NaN where undefined."""
    rows = _labels(counts, method)
    value = np.array([sum(sided_scores(t)) / 2 for t, _ in rows], dtype=float)
    times = np.array([k for _, k in rows], dtype=float)
    n = float(times.sum())
    if n < 2:
        return math.nan
    alone = float(times @ (value - float(times @ value) / n) ** 2) / (n - 1) / n
    return variance / alone if alone > 0 else math.nan


# the check


def check_clusters(
    evidence: Evidence | AccuracyCounts,
    *,
    system: str | None = None,
    population: Literal["answers", "beyond"] = "answers",
    seed: int = 0,
) -> Check:
    """Do items of one cluster depend on each other?

    For intervals that take items as independent although the items have a column ``cluster``.
    Scores of the labelled items, less the mean and over the spread of their kind (number of
    classes, design, and stratum where the items are all there are), are permuted over all items:
    the statistic is Σ z_i·z_j over pairs within clusters. One p-value per system, joined by
    Bonferroni.

    Parameters
    ----------
    evidence
        Tables whose items have a column ``cluster``, or counts by cluster.
    population
        ``answers``: where labels fall on the items as on a random sample, dependence does no harm,
        and nothing is tested. ``beyond``: these items are a sample of more.
    seed
        For the permutations, and for the clusters that are looked at where there are more than
        20,000 labelled items.

    Notes
    -----
    Assumes under the null that items are exchangeable within their kind. Accuracy that depends on
    the cluster or on its size is found. A pass is no proof: few or small clusters show little. A
    failed check says that an interval for independent items is too narrow.

    References
    ----------
    Besag and Clifford (1991), Biometrika 78, 301-304 (sequential permutation p-values).

    Examples
    --------
    >>> passages = [i // 5 for i in range(200)]
    >>> evidence = Evidence.from_tables(
    ...     answers={"item": list(range(200)), "system": ["a"] * 200, "answer": [1 if p % 3 else 0 for p in passages]},
    ...     judgements={"item": list(range(200)), "class": [1] * 200, "verdict": ["yes"] * 200},
    ...     items={"item": list(range(200)), "cluster": passages},
    ...     n_classes=2,
    ... )
    >>> check_clusters(evidence, population="beyond").passed
    False
    """
    require_type(evidence, Evidence, AccuracyCounts)
    counts = evidence
    if isinstance(counts, Evidence):
        if not has_clusters(counts):
            return _checked([], "not applicable: the items have no column cluster")
        chosen = None if system is None else [system]
        counts = count_accuracy(counts, systems=chosen, by_cluster=True)
    beyond = population == "beyond"
    own = {name: counts.of(name) for name in (counts.systems if system is None else (system,))}
    told = {name: c for name, c in own.items() if clusters_matter(c, beyond=beyond)}
    parts = [_dependence(c, name, 2000 * len(told), beyond, seed) for name, c in told.items()]
    reason = (
        "labels fall on these items as on a random sample, so that clusters do not matter for them"
    )
    return _checked(parts, f"not applicable: {reason}")


def _checked(parts: list[dict[str, Any]], without: str) -> Check:
    worst = min(parts, key=lambda part: float(part["p_value"]), default=None)
    p_value, statistic, finding = math.nan, math.nan, without
    if worst is not None:
        p_value, statistic = min(1.0, worst["p_value"] * len(parts)), worst["statistic"]
        who, found = worst["system"], f"correlation {statistic:.2f}"
        finding = f"items of one cluster are no more alike than others for {who} ({found})"
        if p_value < 1e-3:
            finding = (
                f"items of one cluster depend on each other for {who} ({found} within clusters): "
                f"an interval for independent items is too narrow; {_ADVICE}"
            )
    return Check(
        name="clusters",
        assumption="iid items",
        refutes_only=True,
        p_value=p_value,
        statistic=statistic,
        finding=finding,
        method="permutation of scores over clusters",
        parts=tuple(parts),
        counts={"systems": len(parts), "items": max((part["n"] for part in parts), default=0)},
    )


def _dependence(
    counts: AccuracyCounts, name: str, resamples: int, beyond: bool, seed: int
) -> dict[str, Any]:
    """P-value and correlation within clusters of one system."""
    rows = sorted(
        (
            t.cluster,
            (t.n_classes, t.design, "" if beyond else t.stratum),
            sum(sided_scores(t)) / 2,
            n,
        )
        for t, n in _labels(counts)
    )
    clusters, kinds, scores, times = zip(*rows, strict=True)
    place = {kind: i for i, kind in enumerate(sorted(set(kinds)))}
    _, cluster = np.unique(clusters, return_inverse=True)
    columns = (cluster.reshape(-1), [place[kind] for kind in kinds], np.array(scores, dtype=float))
    cluster, kind, value = (np.repeat(column, times) for column in columns)
    if len(value) > _MOST_ITEMS:
        chance = _MOST_ITEMS / len(value)
        kept = (np.random.default_rng(seed).random(int(cluster.max()) + 1) < chance)[cluster]
        kind, cluster, value = kind[kept], cluster[kept], value[kept]
    n = np.maximum(np.bincount(kind, minlength=len(place)), 1)
    value = value - (np.bincount(kind, value, len(place)) / n)[kind]
    spread = np.sqrt(np.bincount(kind, value**2, len(place)) / n)
    value = value / np.where(spread > 0, spread, 1.0)[kind]
    sums, sizes = np.bincount(cluster, value), np.bincount(cluster)
    pairs = float((sizes * (sizes - 1.0)).sum())
    return {
        "system": name,
        "n": len(value),
        "clusters": int(np.sum(sizes > 0)),
        "statistic": float((sums**2).sum() - (value**2).sum()) / pairs if pairs else 0.0,
        "p_value": bounds.dependence_p_value(value, cluster, resamples=resamples, seed=seed),
    }
