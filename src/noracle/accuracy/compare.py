"""Which system is better: paired differences of scores on the same labels, and races."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np

from noracle.accuracy.check import for_comparison, label_checks
from noracle.accuracy.clusters import Place, labels_go_by_cluster, refuse_weights, sampled_alike
from noracle.accuracy.estimate import GRADED, REPEATED, Checks, taking_repeats
from noracle.accuracy.score import (
    DIFFERENT_BELOW,
    PatternScores,
    difference_scores,
    law_of,
    least_difference,
    rates_p_value,
)
from noracle.bounds.betting import FRACTIONS, LOG_PRIOR, Score, betting_interval, fixed_interval
from noracle.bounds.binomial import ndtri, ordered
from noracle.bounds.clusters import cluster_limits, cr2, cr2_interval
from noracle.bounds.paired import difference_limits
from noracle.counts import PatternCounts, count_patterns, label_rows
from noracle.counts.count import CONTRADICTORY
from noracle.counts.tally import Cell, Pattern, Repeats, Verdict
from noracle.errors import ArgumentError
from noracle.evidence import Evidence
from noracle.results import (
    Assumption,
    Check,
    Comparison,
    Difference,
    Guarantee,
    Kind,
    Rank,
    check_confidence,
    choose,
)

SAME_RATES = "same label rate in all strata"
Interval = Literal["auto", "exact", "fixed-n", "betting", "wald"]
_MOST_ORDERS, _WORK = 64, 1000


def compare_systems(
    evidence: Evidence | PatternCounts,
    *,
    systems: Sequence[str] | None = None,
    interval: Interval = "auto",
    confidence: float = 0.95,
    checks: Checks = "auto",
    protocol: Literal["question", "sets"] | None = None,
    clusters: Literal["auto", "ignore"] = "auto",
    population: Literal["answers", "beyond"] = "answers",
    repeats: Repeats | None = None,
    strict: bool = False,
    seed: int = 0,
) -> Comparison:
    """Compare systems on the same labels; all differences hold together at ``confidence``.

    For each pair the scores are subtracted label by label, d = score(first) - score(second), whose
    mean is the difference of accuracies. An item without an answer scores 0 for that system. The
    error rate is split evenly over the pairs.

    Parameters
    ----------
    evidence
        Tables, or counts of joint patterns.
    systems
        Which systems; all by default. Only items that all of them were asked about are used.
    interval
        ``auto`` is ``exact`` where all labels are ordinary and strata were labelled at the same
        rate (which of two systems is better is then decided by the exact sign test on the items on
        which one of them is right), else ``fixed-n``: bets at this number of labels. ``betting`` is
        valid at every look, ``wald`` asymptotic (paired).
    checks, protocol, strict
        As in :func:`estimate_accuracy`.
    clusters
        Items of one cluster (column ``cluster`` of the items) may depend on each other. ``auto``
        takes the cluster as the unit where that matters: for items beyond these, and where whole
        clusters were labelled. ``ignore`` takes all items as independent.
    population
        ``answers``: the difference on these items. ``beyond``: these items are a sample of more
        items of their kind; it matters only where they come in clusters.
    repeats
        As in :func:`estimate_accuracy`. Systems need not have the same number of runs.
    seed
        For the random order of bets.

    Notes
    -----
    Assumes that labelled items are a random sample of the items asked about; labels of different
    kinds may be mixed as long as the kind does not depend on the item. Numbers of classes may
    differ by item. Strata that were labelled at different rates are weighted by their share of the
    items. Ranks follow from the simultaneous differences: a system's best place is one more than
    the number of systems that are certainly better.

    References
    ----------
    Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27 (betting); Dunn (1961), JASA 56, 52-64
    (simultaneous intervals by dividing the error rate).

    Examples
    --------
    >>> from noracle import PatternCounts, compare_systems
    >>> counts = PatternCounts.from_counts(n_classes=4, systems=("a", "b"),
    ...     yes={(True, True): 300, (True, False): 80, (False, True): 20, (False, False): 100})
    >>> compare_systems(counts).difference("a", "b").verdict
    'first'
    """
    choose("interval", interval, ("auto", "exact", "fixed-n", "betting", "wald"))
    choose("clusters", clusters, ("auto", "ignore"))
    choose("population", population, ("answers", "beyond"))
    evidence = taking_repeats(evidence, repeats)
    if isinstance(evidence, Evidence) and evidence.open_ended:
        population = "beyond"
    found = _patterns(evidence, systems, by_cluster=clusters == "auto")
    counts = found.without_clusters()
    names = counts.systems
    error = 1 - check_confidence(confidence)
    pairs = list(combinations(range(len(names)), 2))
    samples = _samples(found, pairs, beyond=population == "beyond")
    chosen = _interval(interval, list(samples.values()))
    orders = max(8, min(_MOST_ORDERS, _WORK // max(1, len(pairs))))
    limits = _Limits(
        interval=chosen, tail=error / (2 * max(1, len(pairs))), orders=orders, seed=seed
    )
    differences = [samples[pair].difference(*pair, limits) for pair in pairs]
    plain = [s.sample for s in samples.values()]
    finite = chosen not in ("wald", "cr2") and not any(sample.unknown_weights for sample in plain)
    unequal = any(sample.unequal for sample in plain)
    worst = (
        max(samples.values(), key=lambda s: (s.sample.unequal, s.sample.blind)) if samples else None
    )
    sample, grouped = (_Sample(counts), None) if worst is None else (worst.sample, worst.grouped)
    guarantee = Guarantee(
        kind=Kind.FINITE_SAMPLE if finite else Kind.ASYMPTOTIC,
        error_rate=error,
        anytime=finite
        and (chosen == _CLUSTERED["betting"] or (chosen == "betting" and not unequal)),
        assumptions=_assumptions(counts, sample, grouped),
    )
    values = [_value(found, samples, i) for i in range(len(names))]
    ranks = _ranks(names, values, differences)
    labelled = any(len(sample.n) for sample in plain)
    reason = "" if labelled else "no usable label of an item that all systems were asked about"
    used = _checks(
        evidence, checks, names, protocol, seed, clusters=clusters, population=population
    )
    if counts.items:  # strata that were labelled at different rates are weighted
        used = tuple(c for c in used if c.assumption != SAME_RATES)
    notes = _notes(counts, sample, differences, grouped)
    if checks == "none":
        notes = (*notes, "the labels were not checked: checks='none'")
    return Comparison(
        systems=names,
        differences=tuple(differences),
        ranks=ranks,
        leaders=tuple(r.system for r in ranks if r.best == 1),
        confidence=confidence,
        method="paired scores",
        interval=chosen,
        guarantee=guarantee.given(*used, strict=strict),
        counts={
            "labelled": sum(counts.patterns.values()),
            "unsure": sum(k for p, k in counts.patterns.items() if p.verdict == "unsure"),
            "unused": dict(counts.unused),
            **({"clusters": grouped.n} if grouped else {}),
        },
        diagnostics={"repeats": counts.when_right()}
        if counts.runs and counts.repeats != "mean"
        else {},
        notes=notes,
        reason=reason,
    )


def _checks(
    evidence: Evidence | PatternCounts,
    checks: Checks,
    systems: Sequence[str],
    protocol: Literal["question", "sets"] | None,
    seed: int,
    **about_items: Any,
) -> tuple[Check, ...]:
    """The checks of the labels that go into a race or a comparison; all of its systems matter."""
    if checks == "none":
        return ()
    if checks == "auto":
        checks = ()
        if isinstance(evidence, Evidence):
            checks = label_checks(
                evidence, systems=systems, protocol=protocol, seed=seed, **about_items
            )
    return for_comparison(checks)


def _patterns(
    evidence: Evidence | PatternCounts, systems: Sequence[str] | None, *, by_cluster: bool
) -> PatternCounts:
    if not isinstance(evidence, (Evidence, PatternCounts)):
        raise ArgumentError(
            f"evidence must be Evidence or PatternCounts; got {type(evidence).__name__}. Use Evidence.from_tables(…)."
        )
    if isinstance(evidence, PatternCounts):
        counts = evidence if by_cluster else evidence.without_clusters()
    else:
        counts = count_patterns(
            evidence, systems=systems, by_cluster=by_cluster and _has_clusters(evidence)
        )
    if (
        isinstance(evidence, PatternCounts)
        and systems is not None
        and tuple(systems) != counts.systems
    ):
        raise ArgumentError(
            f"systems must be {list(counts.systems)}, the ones that were counted; got {list(systems)}."
        )
    if len(counts.systems) < 2:
        raise ArgumentError(f"systems must be at least two; got {list(counts.systems)}.")
    return counts


def _assumptions(
    counts: PatternCounts, sample: _Sample, grouped: _Clusters | None
) -> tuple[Assumption, ...]:
    rests = [
        Assumption(
            name="iid items", detail="labelled items are a random sample of the items asked about"
        )
    ]
    if grouped is not None:
        rests = [grouped.assumption]
    if any(p.design == "recorded" for p in counts.patterns):
        rests.append(
            Assumption(
                name="recorded propensities",
                detail="each class was asked about with the probability that was recorded",
            )
        )
    if any(p.design == "uniform" and p.verdict == "no" for p in counts.patterns):
        rests.append(
            Assumption(
                name="uniform routing",
                detail="the class asked about does not depend on item, truth or answers",
            )
        )
    dropped = counts.unused.get(CONTRADICTORY, 0)
    told = (
        f"{dropped} items with verdicts that contradict each other were left out" if dropped else ""
    )
    detail = told or "nobody says yes to a wrong class or no to the true one"
    rests.append(
        Assumption(name="right verdicts", status="failed" if dropped else "assumed", detail=detail)
    )
    if grouped is None and sample.several and not counts.items:
        rests.append(
            Assumption(name=SAME_RATES, detail="the numbers of items of the strata are not known")
        )
    if any(p.design == "graded" for p in counts.patterns):
        rests.append(GRADED)
    unsure = sum(n for p, n in counts.patterns.items() if p.verdict == "unsure")
    if unsure:
        rests.append(
            Assumption(
                name="verdicts missing at random",
                detail=f"{unsure} items were judged unsure and are left out",
            )
        )
    return (*rests, *(Assumption(name=line) for line in counts.inferred))


def _notes(
    counts: PatternCounts,
    sample: _Sample,
    differences: Sequence[Difference],
    grouped: _Clusters | None,
) -> tuple[str, ...]:
    notes = []
    open_pairs = sum(d.verdict == "not separable" for d in differences)
    if open_pairs:
        notes.append(
            f"{open_pairs} of {len(differences)} pairs cannot be separated with these labels"
        )
    if grouped is not None:
        notes.append(
            f"items come in {grouped.n} clusters: the cluster is the unit, and its items may depend on each other"
        )
    elif sample.unequal:
        notes.append(
            "strata were labelled at different rates: each counts by its share of the items"
        )
    if grouped is None and sample.blind:
        notes.append(
            f"{sample.blind:.1%} of the items are in strata without labels: the difference there may be anything"
        )
    if sample.unknown_weights:
        notes.append(
            "weights differ: their mean and the heaviest are taken from the labelled items, so the promise is asymptotic"
        )
    if counts.runs:
        notes.append(REPEATED[counts.repeats])
    notes += [
        _missing(system, counts.states)
        for system in counts.systems
        if any(key[0] == system for key in counts.states)
    ]
    notes += [f"not used: {k} {name}" for name, k in counts.unused.items() if k]
    return tuple(notes)


def _missing(system: str, states: Mapping[tuple[str, str], int]) -> str:
    """How many answers of a system are missing, and why."""
    own = {state: n for (name, state), n in states.items() if name == system}
    return f"{system}: {sum(own.values())} without an answer ({', '.join(f'{n} {state}' for state, n in own.items())}), counted as wrong"


# -------------------------------------------------------------------------------------------------------
# scores of patterns


def _kind(p: Pattern) -> int:
    """0 ordinary, m > 0 for m ruled-out classes, -1 for a question with recorded propensity."""
    return -1 if p.design == "recorded" else 0 if p.verdict == "yes" else p.n_ruled_out


def _lowest(kind: int, n_classes: int, most_answers: int = 1) -> float:
    """The least difference of scores for a kind of label; grades need no classes."""
    verdict: Verdict = "no" if kind > 0 and n_classes > 1 else "yes"
    return least_difference(
        verdict, n_classes, max(kind, 1), recorded=kind < 0, most_answers=most_answers
    )


def _most_answers(counts: PatternCounts, *, beyond: bool = False) -> int:
    """The most different answers of a system to an item, where any right one will do; beyond these
    items there may be more.
    """
    most = max(counts.most_answers.values(), default=1)
    sizes = [*(c.n_classes for c in counts.items), *(p.n_classes for p in counts.patterns)]
    return max(sizes, default=most) if beyond and most > 1 else most


def _mixed(patterns: Iterable[Pattern]) -> bool:
    """Whether the kind of a label may go with the item, so that all kinds must share one bet and
    one mean.

    A uniform question is answered yes with probability 1/K, and aimed questions reach some items
    only.
    """
    used = [p for p in patterns if p.verdict != "unsure"]
    kinds = {_kind(p) for p in used}
    return len(kinds) > 1 and (-1 in kinds or len({p.n_classes for p in used}) > 1)


def _place(p: Pattern | Cell) -> tuple[str, int, float]:
    return p.stratum, p.n_classes, p.weight


class _Sample:
    """The labelled items as arrays, and what each counts for: its stratum's share of the items over
    its share of the labels.
    """

    def __init__(self, counts: PatternCounts, *, beyond: bool = False) -> None:
        rows = [(p, n) for p, n in counts.patterns.items() if p.verdict != "unsure"]
        self.systems = counts.systems
        self.averaged = counts.repeats == "mean" and any(p.hit_shares is not None for p, _ in rows)
        self.most_answers = _most_answers(counts, beyond=beyond)
        self.patterns = [p for p, _ in rows]
        self.n = np.array([n for _, n in rows], dtype=float)
        self.scores = PatternScores(self.patterns)
        self.kinds = np.array([_kind(p) for p in self.patterns], dtype=int)
        self.mixed = _mixed(self.patterns)
        self.most = max((p.n_classes for p in self.patterns), default=2)
        labels: Counter[tuple[str, int, float]] = Counter()
        for p, n in rows:
            labels[_place(p)] += n
        items: Counter[tuple[str, int, float]] = Counter()
        for cell, n in counts.items.items():
            items[_place(cell)] += n
        self.several = len({p.stratum for p in self.patterns}) > 1
        self.unknown_weights = not items and len({p.weight for p in self.patterns}) > 1
        self.unequal = (
            bool(items)
            and rates_p_value([(n, labels[place]) for place, n in items.items()]) < DIFFERENT_BELOW
        )
        self.blind = 0.0
        weights = np.array([p.weight for p in self.patterns])
        if self.unequal:
            total = sum(place[2] * n for place, n in items.items())
            shares = {place: place[2] * n / total for place, n in items.items()}
            self.blind = sum(share for place, share in shares.items() if not labels[place])
            labelled = sum(labels.values())
            self.factor = np.array(
                [
                    shares[_place(p)] * labelled / labels[_place(p)] / (1 - self.blind)
                    for p in self.patterns
                ]
            )
        else:
            population = items or labels
            mean = sum(place[2] * n for place, n in population.items()) / max(
                1, sum(population.values())
            )
            self.factor = weights / (mean or 1.0)
        # The heaviest is that of the population where it is known: a bet must not depend on which
        # items were drawn.
        heavy = [place[2] for place in items] if items and not self.unequal else []
        scale = float(weights[0] / self.factor[0]) if len(weights) else 1.0
        self.heaviest = max(
            [float(self.factor.max(initial=0.0)) or 1.0, *(w / scale for w in heavy)]
        )

    def interval(self, asked: str) -> str:
        """The interval to use, by the design."""
        plain = (
            bool(len(self.n))
            and not self.kinds.any()
            and not self.unequal
            and len(set(self.factor)) == 1
            and not self.averaged
        )
        if asked == "auto":
            return "exact" if plain else "fixed-n"
        if asked == "exact" and not plain and len(self.n):
            raise ArgumentError(
                "interval must be fixed-n, betting or wald unless all labels are ordinary, of one weight and one rate, and repeats are not "
                "averaged; got 'exact'."
            )
        return asked

    def rows(self, i: int, j: int) -> tuple[Score, ...]:
        """Lower scores of A_i - A_j with the range of their kind, or of all kinds together."""
        lowest = {
            kind: _lowest(kind, self.most, self.most_answers) for kind in {*self.kinds.tolist()}
        }
        if self.mixed or len(set(self.factor)) > 1:
            lowest = dict.fromkeys(lowest, min(lowest.values(), default=-1.0))
        least = np.array([lowest[kind] for kind in self.kinds.tolist()])
        found: Counter[tuple[float, float]] = Counter()
        for value, low, n in zip(
            (self.factor * self.scores.lower(i, j)).tolist(),
            (self.heaviest * least).tolist(),
            self.n.tolist(),
            strict=True,
        ):
            found[value, low] += int(n)
        return tuple(Score(value, low, math.inf, n) for (value, low), n in found.items())

    def moments(self, values: np.ndarray[Any, Any]) -> tuple[float, float]:
        """Mean of scores with its standard error.

        Kinds of label are weighted by the inverse of their typical variance, which is fixed
        beforehand: the mean stays unbiased, and the mean difference of two systems is the
        difference of their means.
        """
        means, variances, sizes, shares = [], [], [], []
        kinds = np.zeros_like(self.kinds) if self.mixed or self.unequal else self.kinds
        for kind in sorted({*kinds.tolist()}):
            chosen = kinds == kind
            n, weighted = self.n[chosen], (self.factor * values)[chosen]
            size = float(n.sum())
            mean = float(n @ weighted) / size
            typical = (
                0.25
                if kind <= 0 or self.mixed or self.unequal
                else law_of("no", self.most, kind).variance
            )
            means.append(mean)
            sizes.append(size)
            shares.append(size / typical)
            variances.append(
                float(n @ (weighted - mean) ** 2) / (size - 1) / size if size > 1 else math.nan
            )
        if not sizes:
            return math.nan, math.nan
        share = np.array(shares) / sum(shares)
        variance = float(share**2 @ np.array(variances))
        return float(share @ np.array(means)), math.sqrt(variance) if variance > 0 else math.nan


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Labels:
    """The labels that two systems share: those of all systems where every label speaks of all of
    them.
    """

    counts: PatternCounts
    sample: _Sample
    grouped: _Clusters | None
    places: tuple[int, int] | None

    def difference(self, i: int, j: int, how: _Limits) -> Difference:
        """The difference of two systems, named by their places among all."""
        first, second = (i, j) if self.places is None else (0, 1)
        found = (
            _difference(self.sample, first, second, how)
            if self.grouped is None
            else self.grouped.difference(first, second, how)
        )
        share = 1 - self.counts.still  # elsewhere both have no answer, and do not differ
        return dataclasses.replace(
            found, value=share * found.value, low=share * found.low, high=share * found.high
        )


def _samples(
    counts: PatternCounts, pairs: Sequence[tuple[int, int]], *, beyond: bool
) -> dict[tuple[int, int], _Labels]:
    """The labels of each pair. Grades may speak of some systems only; then a pair has the items on
    which both were graded.
    """

    def labels(own: PatternCounts, places: tuple[int, int] | None) -> _Labels:
        grouped = _Clusters(own, beyond=beyond) if _clusters_matter(own, beyond=beyond) else None
        return _Labels(
            counts=own,
            sample=_Sample(own.without_clusters(), beyond=beyond),
            grouped=grouped,
            places=places,
        )

    if counts.partial or not counts.whole:
        return {pair: labels(counts.of(pair), pair) for pair in pairs}
    alike = labels(counts, None)
    return dict.fromkeys(pairs, alike)


def _interval(asked: str, samples: Sequence[_Labels]) -> str:
    """One interval for all pairs, by the design."""
    found = {
        s.sample.interval(asked) if s.grouped is None else _CLUSTERED.get(asked, "clusters")
        for s in samples
        if len(s.sample.n)
    }
    if len(found) < 2:
        return found.pop() if found else ("fixed-n" if asked == "auto" else asked)
    return _CLUSTERED.get(asked, "clusters") if any(s.grouped for s in samples) else "fixed-n"


def _value(counts: PatternCounts, samples: Mapping[tuple[int, int], _Labels], i: int) -> float:
    """The accuracy of one system on the labels that compare it."""
    every = next((s for s in samples.values() if s.places is None), None)
    if every is None:
        own = counts.of([i]).without_clusters()
        sample, place, share = _Sample(own), 0, 1 - own.still
    else:
        sample, place, share = every.sample, i, 1.0
    if not len(sample.n):
        return math.nan
    if every is not None and every.grouped is not None:
        return every.grouped.value(i)
    return share * sample.moments(sample.scores.value[:, place])[0]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """How the limits of a pair are found."""

    interval: str
    tail: float
    orders: int
    seed: int


def _difference(sample: _Sample, i: int, j: int, how: _Limits) -> Difference:
    names, n = (i, j), int(sample.n.sum())
    value, se = sample.moments(sample.scores.difference(i, j)) if n else (math.nan, math.nan)
    low, high = -1.0, 1.0
    if how.interval == "exact" and n:
        differences = np.rint(sample.scores.difference(i, j))
        wins, losses = (int(sample.n[differences == sign].sum()) for sign in (1, -1))
        limits = difference_limits(wins, losses, n, how.tail, how.tail)
        low, high = limits.low, limits.high
    elif how.interval in ("betting", "fixed-n") and n:
        ends = []
        for first, second in (names, names[::-1]):
            rows = sample.rows(first, second)
            if how.interval == "fixed-n" and not sample.unequal:
                ends.append(
                    fixed_interval(
                        rows, how.tail, 0.0, floor=-1.0, orders=how.orders, seed=how.seed
                    )[0]
                )
            else:  # bets that adapt are not valid over strata with numbers of labels of their own; fixed ones are
                ends.append(betting_interval(rows, how.tail, 0.0, floor=-1.0)[0])
        limits = ordered(ends[0], -ends[1], -1.0)
        low, high = limits.low, limits.high
    elif se > 0:
        z = -float(ndtri(how.tail))
        low, high = (min(max(x, -1.0), 1.0) for x in (value - z * se, value + z * se))
    if sample.blind:
        low, high = (
            (1 - sample.blind) * low - sample.blind,
            (1 - sample.blind) * high + sample.blind,
        )
    return Difference(
        first=sample.systems[i], second=sample.systems[j], value=value, low=low, high=high, n=n
    )


# -----------------------------------------------------------------------------------------------------------------
# clusters

_CLUSTERED = {"betting": "clusters, every look", "wald": "cr2"}


def _has_clusters(evidence: Evidence) -> bool:
    return evidence.items is not None and "cluster" in evidence.items.columns


def _places(counts: PatternCounts) -> tuple[Counter[Place], Counter[Place]]:
    """Items and labels by stratum and cluster."""
    sizes: Counter[Place] = Counter()
    labels: Counter[Place] = Counter()
    for c, n in counts.items.items():
        sizes[c.stratum, c.cluster] += n
    for p, n in counts.patterns.items():
        labels[p.stratum, p.cluster] += n * (p.verdict != "unsure")
    return sizes, +labels


def _sizes(counts: PatternCounts) -> Counter[str]:
    """Items of each cluster."""
    found: Counter[str] = Counter()
    for c, n in counts.items.items():
        found[c.cluster] += n
    return found


def _clusters_matter(counts: PatternCounts, *, beyond: bool) -> bool:
    """Whether the cluster must be the unit; as in
    :func:`noracle.accuracy.clusters.clusters_matter`.
    """
    if not counts.clustered or max(_sizes(counts).values()) < 2:
        return False
    sizes, labels = _places(counts)
    return bool(labels) and (beyond or labels_go_by_cluster(sizes, labels))


class _Clusters:
    """The labelled items by cluster."""

    def __init__(self, counts: PatternCounts, *, beyond: bool = False) -> None:
        refuse_weights(counts.items)
        rows = [(p, n) for p, n in counts.patterns.items() if p.verdict != "unsure"]
        sizes = _sizes(counts)
        names = sorted({p.cluster for p, _ in rows})
        place = {name: k for k, name in enumerate(names)}
        self.n = len(names)
        self.systems = counts.systems
        self.assumption = sampled_alike(*_places(counts))
        self.largest = max(sizes.values())
        self._scores = PatternScores([p for p, _ in rows])
        self._times = np.array([n for _, n in rows], dtype=float)
        self._at = np.array([place[p.cluster] for p, _ in rows], dtype=int)
        self._size = np.array([sizes[name] for name in names], dtype=float)
        self._labelled = self._sum(np.ones(len(rows)))
        most = max((p.n_classes for p, _ in rows), default=2)
        most_answers = _most_answers(counts, beyond=beyond)
        self._least = min((_lowest(_kind(p), most, most_answers) for p, _ in rows), default=-1.0)

    def _sum(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.bincount(self._at, self._times * values, self.n)

    def value(self, i: int) -> float:
        """The accuracy of a system."""
        return cr2(self._size, self._labelled, self._sum(self._scores.value[:, i]))[0]

    def difference(self, i: int, j: int, how: _Limits) -> Difference:
        """The difference of two systems with its limits."""
        middle = self._sum(self._scores.difference(i, j))
        value = cr2(self._size, self._labelled, middle)[0]
        if how.interval == "cr2":
            limits = cr2_interval(self._size, self._labelled, middle, how.tail, how.tail, low=-1.0)
        else:
            ends = [
                cluster_limits(
                    self._size,
                    self._labelled,
                    self._sum(self._scores.lower(first, second)),
                    how.tail,
                    0.0,
                    largest=self.largest,
                    low=self._least,
                    high=math.inf,
                    floor=-1.0,
                    anytime=how.interval == _CLUSTERED["betting"],
                    orders=how.orders,
                    seed=how.seed,
                ).low
                for first, second in ((i, j), (j, i))
            ]
            limits = ordered(ends[0], -ends[1], -1.0)
        names = self.systems
        return Difference(
            first=names[i],
            second=names[j],
            value=value,
            low=limits.low,
            high=limits.high,
            n=int(self._times.sum()),
        )


def _ranks(
    names: Sequence[str], values: Sequence[float], differences: Sequence[Difference]
) -> tuple[Rank, ...]:
    better: dict[str, int] = dict.fromkeys(names, 0)
    worse: dict[str, int] = dict.fromkeys(names, 0)
    for d in differences:
        if d.verdict == "not separable":
            continue
        winner, loser = (d.first, d.second) if d.verdict == "first" else (d.second, d.first)
        better[loser] += 1
        worse[winner] += 1
    ranks = [
        Rank(system=s, best=1 + better[s], worst=len(names) - worse[s], value=v)
        for s, v in zip(names, values, strict=True)
    ]
    return tuple(
        sorted(
            ranks,
            key=lambda r: (
                r.best,
                r.worst,
                -r.value if not math.isnan(r.value) else math.inf,
                r.system,
            ),
        )
    )


# -------------------------------------------------------------------------------------------------------------------
# races


class Race:
    """Labels come one by one; systems that are certainly not the best are dropped.

    For every ordered pair a wealth process bets that the first is better than the second. When it
    reaches (S - 1)/error the second is dropped. The best of S systems is ever dropped with
    probability at most ``error``, whenever one looks or stops.

    Parameters
    ----------
    n_classes, heaviest
        The largest number of classes and the largest weight of any item.
    mixed
        Bet the same on every kind of label. Needed where kinds go with items: questions about items
        with different numbers of classes, or propensities for some labels only.
    aimed
        Labels are aimed at the systems still in the race: those that were dropped bet no more,
        since nobody asks about their answers.
    largest
        The size of the largest cluster, for :meth:`update_cluster`.
    most_answers
        The most different answers of a system to an item, where any right one will do.

    Notes
    -----
    W_ij = mean over θ of Π(1 + θ·d/m), with d the score of i minus that of j and -m the least that
    it can be. Where j is at least as good as i, P(W_ij ever reaches x) ≤ 1/x (Ville); the best of S
    systems has S - 1 rivals, and x = (S - 1)/error.

    Assumes that items come in random order, that labels were drawn as the design says (or with the
    recorded propensities), and that verdicts are right.

    References
    ----------
    Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27.

    Examples
    --------
    >>> from noracle.counts import Pattern
    >>> race = Race(("a", "b"), n_classes=4)
    >>> for _ in range(60):
    ...     race.update(Pattern(4, "yes", (True, False)))
    >>> race.leaders
    ('a',)
    """

    def __init__(
        self,
        systems: Sequence[str],
        *,
        n_classes: int,
        confidence: float = 0.95,
        heaviest: float = 1.0,
        mixed: bool = False,
        aimed: bool = False,
        largest: int = 1,
        most_answers: int = 1,
    ) -> None:
        if len(systems) < 2:
            raise ArgumentError(f"systems must be at least two; got {list(systems)}.")
        self.systems = tuple(systems)
        self.confidence = check_confidence(confidence)
        self.n_classes = n_classes
        self.heaviest = heaviest
        self.mixed = mixed
        self.aimed = aimed
        self.largest = largest
        self.most_answers = most_answers
        self.n = 0
        self.dropped: dict[str, int] = {}
        size = len(self.systems)
        self._threshold = math.log((size - 1) / (1 - confidence))
        self._wealth = np.zeros((size, size, len(FRACTIONS)))
        self._seen: dict[tuple[int, int], Pattern] = {}

    @property
    def leaders(self) -> tuple[str, ...]:
        """The systems still in the race."""
        return tuple(s for s in self.systems if s not in self.dropped)

    def update(self, pattern: Pattern, times: int = 1) -> None:
        """Take one labelled item (or ``times`` equal ones)."""
        self.n += times
        if pattern.verdict != "unsure":
            self._bet(self._gains(pattern), times)

    def update_cluster(self, patterns: Sequence[Pattern], size: int) -> None:
        """Take all labelled items of one cluster of ``size`` items at once; they may depend on each
        other in any way.

        The gain is (m/ℓ)·Σ d over ``largest`` times the least that d can be. Clusters must come in
        random order.
        """
        if size > self.largest:
            raise ArgumentError(
                f"largest must bound every cluster; got {self.largest} and a cluster of {size} items."
            )
        self.n += len(patterns)
        gains = [self._gains(p) for p in patterns if p.verdict != "unsure"]
        if gains:
            self._bet(np.sum(gains, axis=0) * (size / len(gains) / self.largest), 1)

    def _gains(self, pattern: Pattern) -> np.ndarray[Any, Any]:
        """The difference of scores of every ordered pair, over the least that it can be."""
        if pattern.n_classes > self.n_classes or pattern.weight > self.heaviest:
            raise ArgumentError(
                f"n_classes and heaviest must bound every item; got {pattern.n_classes} classes and weight {pattern.weight:g}."
            )
        self._seen.setdefault((_kind(pattern), pattern.n_classes), pattern)
        if not self.mixed and _mixed(self._seen.values()):
            raise ArgumentError(
                "mixed must be True where kinds of label go with items (numbers of classes or designs differ); got False."
            )
        kinds = {_kind(pattern), 1} if self.mixed else {_kind(pattern)}
        least = self.heaviest * min(
            _lowest(kind, self.n_classes, self.most_answers) for kind in kinds
        )
        return difference_scores(pattern) * (pattern.weight / -least)

    def _bet(self, gains: np.ndarray[Any, Any], times: int) -> None:
        if self.aimed and self.dropped:
            out = [i for i, system in enumerate(self.systems) if system in self.dropped]
            gains[out, :] = gains[:, out] = 0.0
        moved = np.nonzero(gains)
        if not len(moved[0]):
            return
        with np.errstate(divide="ignore"):
            self._wealth[moved] += times * np.log1p(gains[moved][:, None] * FRACTIONS)
        logs = self._wealth[moved] + LOG_PRIOR
        top = logs.max(axis=1)
        finite = np.isfinite(top)
        total = np.where(
            finite,
            top + np.log(np.exp(logs - np.where(finite, top, 0.0)[:, None]).sum(axis=1)),
            -np.inf,
        )
        for loser in {self.systems[j] for j in moved[1][total >= self._threshold]}:
            self.dropped.setdefault(loser, self.n)


def race_systems(
    evidence: Evidence,
    *,
    systems: Sequence[str] | None = None,
    confidence: float = 0.95,
    checks: Checks = "auto",
    protocol: Literal["question", "sets"] | None = None,
    clusters: Literal["auto", "ignore"] = "auto",
    population: Literal["answers", "beyond"] = "answers",
    repeats: Repeats | None = None,
    strict: bool = False,
    seed: int = 0,
) -> Comparison:
    """Drop systems that are certainly not the best, label by label, valid under continuous looking.

    Labels are taken in the order of ``at`` (else of the rows). The best system is ever dropped with
    probability at most 1 - ``confidence``; the differences at the end hold together at
    ``confidence``, also whenever one stops. Where items come in clusters that matter (see
    ``clusters`` and ``population`` of :func:`compare_systems`), a cluster enters as a whole, when
    its last label is in. ``repeats`` is as in :func:`estimate_accuracy`.

    Notes
    -----
    A system is dropped when a bet that another one is better has the wealth W ≥ (S - 1)/(1 -
    confidence), see :class:`Race`.

    Assumes that items (or clusters) come in random order, as sealed beforehand, and that verdicts
    are right. If questions are aimed at the systems still in the race, their propensities must be
    recorded.

    References
    ----------
    Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27, for the wealth processes.

    Examples
    --------
    >>> from noracle.simulate import simulate_world
    >>> world = simulate_world(n_items=1500, n_classes=4, systems={"good": 0.9, "fair": 0.6, "poor": 0.4}, seed=3)
    >>> race = race_systems(world.evidence())
    >>> race.leaders, sorted(race.dropped)
    (('good',), ['fair', 'poor'])
    """
    choose("clusters", clusters, ("auto", "ignore"))
    choose("population", population, ("answers", "beyond"))
    evidence = evidence if repeats is None else evidence.with_repeats(repeats)
    by_cluster = clusters == "auto" and _has_clusters(evidence)
    if evidence.open_ended:
        population = "beyond"
    names, rows = label_rows(evidence, systems=systems, by_cluster=by_cluster)
    if len(names) < 2:
        raise ArgumentError(f"systems must be at least two; got {list(names)}.")
    counted = count_patterns(evidence, systems=systems, by_cluster=by_cluster)
    counts = dataclasses.replace(counted, patterns=dict(Counter(rows)))
    if (
        not counts.whole
    ):  # graded items are a sample of more, and their clusters as large as they are here
        cells = Counter(Cell("", p.n_classes, p.stratum, p.weight, p.cluster) for p in rows)
        counts = dataclasses.replace(counts, items=dict(cells))
    grouped = _clusters_matter(counts, beyond=population == "beyond")
    if not grouped:
        counts, rows = counts.without_clusters(), [row._replace(cluster="") for row in rows]
    pairs = list(combinations(range(len(names)), 2))
    beyond = population == "beyond"
    unequal = any(
        s.sample.unequal for s in _samples(counts.without_clusters(), pairs, beyond=False).values()
    )
    scale = _mean_weight(counts)
    sizes = _sizes(counts)
    race = Race(
        names,
        n_classes=max((p.n_classes for p in rows), default=2),
        confidence=confidence,
        heaviest=max((p.weight / scale for p in rows), default=1.0),
        mixed=_mixed(rows)
        or (grouped and len({_kind(p) for p in rows if p.verdict != "unsure"}) > 1),
        largest=max(sizes.values(), default=1),
        most_answers=_most_answers(counts, beyond=beyond),
    )
    rows = [row._replace(weight=row.weight / scale) for row in rows]
    if grouped:
        for cluster in _complete(rows):
            race.update_cluster(cluster, sizes[cluster[0].cluster])
    else:
        for row in rows:
            race.update(row)
    used = _checks(
        evidence, checks, names, protocol, seed, clusters=clusters, population=population
    )
    end = compare_systems(
        counts,
        interval="betting",
        confidence=confidence,
        checks=used,
        clusters=clusters,
        population=population,
        strict=strict,
    )
    guarantee, notes = end.guarantee, end.notes
    if unequal and not grouped:
        told = "strata were labelled at different rates, and which system leads may depend on the stratum"
        failed = Assumption(name=SAME_RATES, status="failed", detail=told)
        guarantee = dataclasses.replace(
            guarantee, kind=Kind.HEURISTIC, assumptions=(*guarantee.assumptions, failed)
        )
        notes = (
            *notes,
            "a race needs labels at the same rate in all strata; compare_systems weights them",
        )
    if checks == "none":
        notes = (*notes, "the labels were not checked: checks='none'")
    order = {r.system: k for k, r in enumerate(end.ranks)}
    return Comparison(
        systems=end.systems,
        differences=end.differences,
        ranks=end.ranks,
        leaders=tuple(sorted(race.leaders, key=order.__getitem__)),
        confidence=confidence,
        method="race of paired scores",
        interval=end.interval,
        guarantee=guarantee,
        dropped=race.dropped,
        counts=end.counts,
        diagnostics={**end.diagnostics, "labels_read": race.n},
        notes=notes,
        reason=end.reason,
    )


def _complete(rows: Sequence[Pattern]) -> list[list[Pattern]]:
    """The labelled items of each cluster, in the order in which clusters were complete."""
    found: dict[str, list[Pattern]] = {}
    last: dict[str, int] = {}
    for k, row in enumerate(rows):
        found.setdefault(row.cluster, []).append(row)
        last[row.cluster] = k
    return [found[name] for name in sorted(found, key=last.__getitem__)]


def _mean_weight(counts: PatternCounts) -> float:
    """Mean weight of the items, or of the labelled ones where the others are not known."""
    population = counts.items or counts.patterns
    n = sum(population.values())
    return sum(place.weight * k for place, k in population.items()) / n if n else 1.0
