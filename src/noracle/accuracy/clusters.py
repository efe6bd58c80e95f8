"""Items that come in clusters: the cluster is the unit, and its items may depend on each other in
any way.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from noracle.accuracy.score import (
    DIFFERENT_BELOW,
    LimitSettings,
    Whole,
    rates_p_value,
    score_ends,
    sided_scores,
)
from noracle.bounds import clusters as bounds
from noracle.bounds.binomial import Limits, gammaincc, ndtr, ordered
from noracle.counts import AccuracyCounts, count_accuracy
from noracle.counts.tally import Cell
from noracle.errors import ArgumentError
from noracle.evidence import Evidence
from noracle.results import Assumption, Check

SAMPLED = "clusters are a random sample"
_MATTERS_BELOW = 0.01
_MOST_ITEMS = 20_000
_INTERVALS = ("exact", "fixed-n", "betting", "anytime", "wald")
_ADVICE = "name the cluster of each item in a column cluster of the items and leave clusters='auto', or count each cluster as one item"
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Place = tuple[str, str]


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
    wanted = {"ordinary": "yes", "complementary": "no"}.get(method)
    rows: dict[str, list[float]] = defaultdict(
        lambda: [0.0] * 5
    )  # items, answered, labelled, lower, upper
    for column, known in ((0, counts.items), (1, counts.answered)):
        for c, k in known.items():
            rows[c.cluster][column] += k
    low, high, bounded, n, asked_all = 0.0, 1.0, True, 0, False
    most = max(counts.most_answers.values(), default=1)
    for t, k in counts.tallies.items():
        if t.verdict == "unsure" or wanted not in (None, t.verdict):
            continue
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
        drawn = np.random.default_rng(seed).random(len(size)) < some.sum() / max(
            1, int(np.sum(~silent))
        )
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


# ----------------------------------------------------------------------------------------------------
# do clusters matter?


def drawn_by_cluster_p_value(sizes: Mapping[Place, int], labels: Mapping[Place, int]) -> float:
    """P-value of "labelled items were drawn one by one", from items and labels of each (stratum,
    cluster).

    Within a stratum of N items with n labels, the labels of its clusters are then hypergeometric.
    Two statistics are held against that: U = Σ ℓ(ℓ - 1), the pairs of labelled items that share a
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
        chance = [
            math.prod((n - i) / (total - i) if total > i else 0.0 for i in range(k))
            for k in range(5)
        ]
        m2 = m * (m - 1)
        m3, m4 = m2 * (m - 2), m2 * (m - 2) * (m - 3)
        mean = chance[2] * float(m2.sum())
        square = float((chance[4] * m4 + 4 * chance[3] * m3 + 2 * chance[2] * m2).sum())
        square += chance[4] * (float(m2.sum()) ** 2 - float((m2**2).sum()))
        pairs += float((count * (count - 1)).sum()), mean, max(square - mean**2, 0.0)
        spread = float((m**3).sum()) / total - (float((m**2).sum()) / total) ** 2
        trend += (
            float((count * m).sum()),
            n * float((m**2).sum()) / total,
            n * (total - n) / max(total - 1, 1) * spread,
        )
    together = (
        float(gammaincc(pairs[1] ** 2 / pairs[2], pairs[0] * pairs[1] / pairs[2]))
        if pairs[2] > 0
        else 1.0
    )
    by_size = (
        float(2 * ndtr(-abs(trend[0] - trend[1]) / math.sqrt(trend[2]))) if trend[2] > 1e-9 else 1.0
    )
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
    if not labels or max(_clusters(sizes).values(), default=1) < 2:
        return False
    return beyond or not counts.whole or labels_go_by_cluster(sizes, labels)


def _by_place(counts: AccuracyCounts) -> tuple[Counter[Place], Counter[Place]]:
    """Items and labels by stratum and cluster; of answered items only, where no other was labelled."""
    told = [(t, n) for t, n in counts.tallies.items() if t.verdict != "unsure"]
    known = counts.items if any(not t.answered for t, _ in told) else counts.answered
    sizes: Counter[Place] = Counter()
    labels: Counter[Place] = Counter()
    for c, n in known.items():
        sizes[c.stratum, c.cluster] += n
    for t, n in told:
        labels[t.stratum, t.cluster] += n
    return sizes, labels


def _clusters(sizes: Mapping[Place, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, cluster), n in sizes.items():
        found[cluster] += n
    return found


def sampled_alike(sizes: Mapping[Place, int], labels: Mapping[Place, int]) -> Assumption:
    """The assumption that labelled clusters are a random sample; failed where strata had their
    clusters labelled at different rates.
    """
    strata = dict.fromkeys(stratum for stratum, _ in sizes)
    rates = []
    for stratum in strata:
        of = [place for place in sizes if place[0] == stratum]
        rates.append((len(of), sum(labels.get(place, 0) > 0 for place in of)))
    detail = "labelled clusters are a random sample of the clusters, and labelled items of the items of their cluster"
    if rates_p_value(rates) < DIFFERENT_BELOW:
        told = "clusters of some strata were labelled more often than those of others; estimate the strata one by one"
        return Assumption(name=SAMPLED, status="failed", detail=told)
    return Assumption(name=SAMPLED, detail=detail)


def cluster_assumption(counts: AccuracyCounts) -> Assumption:
    """What an estimate by cluster rests on."""
    return sampled_alike(*_by_place(counts))


# ------------------------------------------------------------------------------------------------------
# value and limits


def refuse_weights(cells: Iterable[Cell]) -> None:
    """Clusters of items with different weights have no limits here."""
    if len({c.weight for c in cells}) > 1:
        raise ArgumentError(
            "weights must be equal where items come in clusters that matter; got several. Pass clusters='ignore'."
        )


def from_clusters(
    counts: AccuracyCounts, settings: LimitSettings, below: float, above: float
) -> Whole:
    """The accuracy with the cluster as the unit: finite-sample by bets on clusters, or CR2 for
    ``wald``.
    """
    if settings.inverse is not None or settings.rates is not None:
        raise ArgumentError(
            "clusters must be 'ignore' with a transition matrix or rates of wrong verdicts; got 'auto'."
        )
    if settings.interval not in _INTERVALS:
        raise ArgumentError(
            f"interval must be auto, {', '.join(_INTERVALS)} where items come in clusters; got {settings.interval!r}. "
            "Pass clusters='ignore' to take items as independent."
        )
    refuse_weights(counts.items)
    sums = cluster_sums(counts, method=settings.method, seed=settings.seed)
    size, labelled = sums.size, sums.labelled
    middle = (sums.lower + sums.upper) / 2
    value, variance, _ = bounds.cr2(size, labelled, middle)
    more = _design_effect(counts, settings.method, variance)
    if settings.interval == "wald":
        limits = bounds.cr2_interval(size, labelled, middle, below, above)
        return Whole(
            value=value,
            limits=limits,
            variance=variance,
            n=sums.n,
            interval="cr2",
            clusters=len(size),
            design_effect=more,
        )
    every_look = settings.interval in ("betting", "anytime")
    about: dict[str, Any] = {"largest": sums.largest, "anytime": every_look, "seed": settings.seed}
    # Scores of recorded propensities have an end on one side only, which is the side that is bet
    # against.
    inf = math.inf
    low = bounds.cluster_limits(
        size,
        labelled,
        sums.lower,
        below,
        0.0,
        low=sums.low,
        high=sums.high if sums.bounded else inf,
        **about,
    ).low
    high = bounds.cluster_limits(
        size,
        labelled,
        sums.upper,
        0.0,
        above,
        low=sums.low if sums.bounded else -inf,
        high=sums.high,
        **about,
    ).high
    limits = ordered(low, high)
    interval = "clusters, every look" if every_look else "clusters"
    found = Limits(limits.low, limits.high, limits.empty)
    return Whole(
        value=value,
        limits=found,
        variance=variance,
        n=sums.n,
        interval=interval,
        clusters=len(size),
        design_effect=more,
    )


def _design_effect(counts: AccuracyCounts, method: str, variance: float) -> float:
    """The variance by cluster over that of as many independent items, s²/n; NaN where it is
    undefined.
    """
    wanted = {"ordinary": "yes", "complementary": "no"}.get(method)
    rows = [
        (sum(sided_scores(t)) / 2, k)
        for t, k in counts.tallies.items()
        if t.verdict != "unsure" and wanted in (None, t.verdict)
    ]
    value, times = (
        (np.array(x, dtype=float) for x in zip(*rows, strict=True))
        if rows
        else (np.zeros(0), np.zeros(0))
    )
    n = float(times.sum())
    if n < 2:
        return math.nan
    alone = float(times @ (value - float(times @ value) / n) ** 2) / (n - 1) / n
    return variance / alone if alone > 0 else math.nan


# -------------------------------------------------------------------------------------------------------------
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
    if isinstance(evidence, AccuracyCounts):
        counts = evidence
    elif not isinstance(evidence, Evidence):
        raise ArgumentError(
            f"evidence must be Evidence or AccuracyCounts; got {type(evidence).__name__}. Use Evidence.from_tables(…)."
        )
    elif evidence.items is None or "cluster" not in evidence.items.columns:
        return _checked([], "not applicable: the items have no column cluster")
    else:
        counts = count_accuracy(
            evidence, systems=None if system is None else [system], by_cluster=True
        )
    names = counts.systems if system is None else (system,)
    beyond = population == "beyond"
    mine = {name: counts.of(name) for name in names}
    told = [name for name in names if clusters_matter(mine[name], beyond=beyond)]
    if not told:
        return _checked(
            [],
            "not applicable: labels fall on these items as on a random sample, so that clusters do not matter for them",
        )
    parts = [
        _dependence(mine[name], name, 2000 * len(told), beyond=beyond, seed=seed) for name in told
    ]
    return _checked(parts, "")


def _checked(parts: list[dict[str, Any]], reason: str) -> Check:
    worst = min(parts, key=lambda part: part["p_value"], default=None)
    p_value = math.nan if worst is None else min(1.0, worst["p_value"] * len(parts))
    finding = reason
    if worst is not None:
        finding = f"items of one cluster are no more alike than others for {worst['system']} (correlation {worst['statistic']:.2f})"
        if p_value < 1e-3:
            finding = (
                f"items of one cluster depend on each other for {worst['system']} (correlation {worst['statistic']:.2f} within "
                f"clusters): an interval for independent items is too narrow; {_ADVICE}"
            )
    return Check(
        name="clusters",
        assumption="iid items",
        refutes_only=True,
        p_value=p_value,
        statistic=worst["statistic"] if worst else math.nan,
        finding=finding,
        method="permutation of scores over clusters",
        parts=tuple(parts),
        counts={"systems": len(parts), "items": max((part["n"] for part in parts), default=0)},
    )


def _dependence(
    counts: AccuracyCounts, name: str, resamples: int, *, beyond: bool, seed: int
) -> dict[str, Any]:
    """P-value and correlation within clusters of one system."""
    rows = sorted(
        (
            t.cluster,
            (t.n_classes, t.design, "" if beyond else t.stratum),
            sum(sided_scores(t)) / 2,
            n,
        )
        for t, n in counts.tallies.items()
        if t.verdict != "unsure"
    )
    repeat = np.array([row[3] for row in rows])
    _, cluster = np.unique([row[0] for row in rows], return_inverse=True)
    kinds = {kind: i for i, kind in enumerate(sorted({row[1] for row in rows}))}
    kind = np.repeat([kinds[row[1]] for row in rows], repeat)
    cluster, value = (
        np.repeat(cluster.reshape(-1), repeat),
        np.repeat(np.array([row[2] for row in rows], dtype=float), repeat),
    )
    if len(value) > _MOST_ITEMS:
        chance = _MOST_ITEMS / len(value)
        kept = (np.random.default_rng(seed).random(int(cluster.max()) + 1) < chance)[cluster]
        kind, cluster, value = kind[kept], cluster[kept], value[kept]
    n = np.maximum(np.bincount(kind, minlength=len(kinds)), 1)
    value = value - (np.bincount(kind, value, len(kinds)) / n)[kind]
    spread = np.sqrt(np.bincount(kind, value**2, len(kinds)) / n)
    value = value / np.where(spread > 0, spread, 1.0)[kind]
    sums, sizes = np.bincount(cluster, value), np.bincount(cluster)
    pairs = float((sizes * (sizes - 1.0)).sum())
    alike = float((sums**2).sum() - (value**2).sum()) / pairs if pairs else 0.0
    p_value = bounds.dependence_p_value(value, cluster, resamples=resamples, seed=seed)
    return {
        "system": name,
        "n": len(value),
        "clusters": int(np.sum(sizes > 0)),
        "statistic": alike,
        "p_value": p_value,
    }
