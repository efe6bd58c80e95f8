"""Which system is better: paired differences of scores on the same labels, and races."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, Literal

import numpy as np

from noracle.accuracy.check import for_comparison, label_checks, late_of
from noracle.accuracy.clusters import (
    BY_CLUSTER,
    Place,
    has_clusters,
    labels_go_by_cluster,
    refuse_weights,
    sampled_alike,
)
from noracle.accuracy.estimate import (
    GRADED,
    INDEPENDENT,
    RECORDED,
    REPEATED,
    UNCHECKED,
    UNIFORM,
    UNTOLD,
    Checks,
    right_verdicts,
    taking_repeats,
)
from noracle.accuracy.score import (
    DIFFERENT_BELOW,
    Floats,
    PatternScores,
    added,
    difference_scores,
    law_of,
    least_difference,
    rates_p_value,
    require_type,
)
from noracle.bounds.betting import FRACTIONS, LOG_PRIOR, Score, betting_interval, fixed_interval
from noracle.bounds.binomial import Limits, ndtri, ordered
from noracle.bounds.clusters import cluster_limits, cr2, cr2_interval
from noracle.bounds.paired import difference_limits
from noracle.counts import PatternCounts, count_patterns, label_rows
from noracle.counts.tally import Cell, Pattern, Repeats, Verdict
from noracle.errors import require
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
    tail = error / (2 * max(1, len(pairs)))
    limits = _Limits(interval=chosen, tail=tail, orders=orders, seed=seed)
    differences = [samples[pair].difference(*pair, limits) for pair in pairs]
    plain = [s.sample for s in samples.values()]
    sample, grouped = _Sample(counts), None
    if samples:
        worst = max(samples.values(), key=lambda s: (s.sample.unequal, s.sample.blind))
        sample, grouped = worst.sample, worst.grouped
    finite = chosen not in ("wald", "cr2") and not any(s.unknown_weights for s in plain)
    equal = not any(s.unequal for s in plain)
    every_look = chosen == _CLUSTERED["betting"] or (chosen == "betting" and equal)
    guarantee = Guarantee(
        kind=Kind.FINITE_SAMPLE if finite else Kind.ASYMPTOTIC,
        error_rate=error,
        anytime=finite and every_look,
        assumptions=_assumptions(counts, sample, grouped),
    )
    ranks = ranks_of(names, [_value(found, samples, i) for i in range(len(names))], differences)
    about = {"clusters": clusters, "population": population}
    used = _checks(evidence, checks, names, protocol, seed, **about)
    if counts.items:  # strata that were labelled at different rates are weighted
        used = tuple(c for c in used if c.assumption != SAME_RATES)
    unlabelled = "no usable label of an item that all systems were asked about"
    differ = counts.runs and counts.repeats != "mean"
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
            "unsure": _n_unsure(counts),
            "unused": dict(counts.unused),
            **({"clusters": grouped.n} if grouped else {}),
        },
        diagnostics={"repeats": counts.when_right()} if differ else {},
        notes=(*_notes(counts, sample, differences, grouped), *[UNCHECKED] * (checks == "none")),
        reason="" if any(len(s.n) for s in plain) else unlabelled,
    )


def _n_unsure(counts: PatternCounts) -> int:
    return sum(n for p, n in counts.patterns.items() if p.verdict == "unsure")


def _checks(
    evidence: Evidence | PatternCounts,
    checks: Checks,
    systems: Sequence[str],
    protocol: Literal["question", "sets"] | None,
    seed: int,
    **about: Any,
) -> tuple[Check, ...]:
    """The checks of the labels that go into a race or a comparison; all of its systems matter."""
    if checks == "none":
        checks = late_of(evidence, systems) if isinstance(evidence, Evidence) else ()
    elif checks == "auto":
        checks = ()
        if isinstance(evidence, Evidence):
            checks = label_checks(evidence, systems=systems, protocol=protocol, seed=seed, **about)
    return for_comparison(checks)


def _patterns(
    evidence: Evidence | PatternCounts, systems: Sequence[str] | None, *, by_cluster: bool
) -> PatternCounts:
    require_type(evidence, Evidence, PatternCounts)
    if isinstance(evidence, PatternCounts):
        counts = evidence if by_cluster else evidence.without_clusters()
        require(
            systems is None or tuple(systems) == counts.systems,
            f"systems must be {list(counts.systems)}, the ones that were counted; got {list(systems or ())}.",
        )
    else:
        by_cluster = by_cluster and has_clusters(evidence)
        counts = count_patterns(evidence, systems=systems, by_cluster=by_cluster)
    _require_two(counts.systems)
    return counts


def _require_two(systems: Sequence[str]) -> None:
    require(len(systems) > 1, f"systems must be at least two; got {list(systems)}.")


def _assumptions(
    counts: PatternCounts, sample: _Sample, grouped: _Clusters | None
) -> tuple[Assumption, ...]:
    rests = [INDEPENDENT if grouped is None else grouped.assumption]
    designs = {p.design for p in counts.patterns}
    if "recorded" in designs:
        rests.append(RECORDED)
    if any(p.design == "uniform" and p.verdict == "no" for p in counts.patterns):
        rests.append(UNIFORM)
    rests.append(right_verdicts(counts))
    if grouped is None and sample.several and not counts.items:
        detail = "the numbers of items of the strata are not known"
        rests.append(Assumption(name=SAME_RATES, detail=detail))
    if "graded" in designs:
        rests.append(GRADED)
    if designs - {"graded"}:  # a grade is of an answer that was there before it
        rests.append(UNTOLD)
    unsure = _n_unsure(counts)
    if unsure:
        detail = f"{unsure} items were judged unsure and are left out"
        rests.append(Assumption(name="verdicts missing at random", detail=detail))
    return (*rests, *(Assumption(name=line) for line in counts.inferred))


def _notes(
    counts: PatternCounts,
    sample: _Sample,
    differences: Sequence[Difference],
    grouped: _Clusters | None,
) -> tuple[str, ...]:
    n_open = sum(d.verdict == "not separable" for d in differences)
    alone = grouped is None
    sentences = {
        f"{n_open} of {len(differences)} pairs cannot be separated with these labels": n_open,
        BY_CLUSTER.format(0 if grouped is None else grouped.n): not alone,
        "strata were labelled at different rates: each counts by its share of the items": (
            alone and sample.unequal
        ),
        f"{sample.blind:.1%} of the items are in strata without labels: the difference there may be anything": (
            alone and sample.blind
        ),
        "weights differ: their mean and the heaviest are taken from the labelled items, so the promise is asymptotic": (
            sample.unknown_weights
        ),
        REPEATED[counts.repeats]: counts.runs,
    }
    missing = []
    for system in counts.systems:
        own = {state: n for (name, state), n in counts.states.items() if name == system}
        why = ", ".join(f"{n} {state}" for state, n in own.items())
        if own:
            missing.append(
                f"{system}: {sum(own.values())} without an answer ({why}), counted as wrong"
            )
    return (
        *(note for note, holds in sentences.items() if holds),
        *missing,
        *(f"not used: {k} {name}" for name, k in counts.unused.items() if k),
    )


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


def _told(counts: PatternCounts) -> list[tuple[Pattern, int]]:
    """The patterns that have a label."""
    return [(p, n) for p, n in counts.patterns.items() if p.verdict != "unsure"]


class _Sample:
    """The labelled items as arrays, and what each counts for: its stratum's share of the items over
    its share of the labels.
    """

    def __init__(self, counts: PatternCounts, *, beyond: bool = False) -> None:
        rows = _told(counts)
        self.systems = counts.systems
        self.averaged = counts.repeats == "mean" and any(p.hit_shares is not None for p, _ in rows)
        self.most_answers = _most_answers(counts, beyond=beyond)
        self.patterns = [p for p, _ in rows]
        self.n = np.array([n for _, n in rows], dtype=float)
        self.scores = PatternScores(self.patterns)
        self.kinds = np.array([_kind(p) for p in self.patterns], dtype=int)
        self.mixed = _mixed(self.patterns)
        self.most = max((p.n_classes for p in self.patterns), default=2)
        labels = added((_place(p), n) for p, n in rows)
        items = added((_place(cell), n) for cell, n in counts.items.items())
        self.several = len({p.stratum for p in self.patterns}) > 1
        self.unknown_weights = not items and len({p.weight for p in self.patterns}) > 1
        rates = [(n, labels[place]) for place, n in items.items()]
        self.unequal = bool(items) and rates_p_value(rates) < DIFFERENT_BELOW
        self.blind = 0.0
        weights = np.array([p.weight for p in self.patterns])
        heavy: list[float] = []
        if self.unequal:
            total = sum(place[2] * n for place, n in items.items())
            shares = {place: place[2] * n / total for place, n in items.items()}
            self.blind = sum(share for place, share in shares.items() if not labels[place])
            own, seen = labels.total(), 1 - self.blind
            places = [_place(p) for p in self.patterns]
            self.factor = np.array([shares[p] * own / labels[p] / seen for p in places])
        else:
            population = items or labels
            weight = sum(place[2] * n for place, n in population.items())
            self.factor = weights / (weight / max(1, population.total()) or 1.0)
            # The heaviest is that of the population where it is known: a bet must not depend on
            # which items were drawn.
            heavy = [place[2] for place in items]
        scale = float(weights[0] / self.factor[0]) if len(weights) else 1.0
        own_heaviest = float(self.factor.max(initial=0.0)) or 1.0
        self.heaviest = max([own_heaviest, *(w / scale for w in heavy)])

    def interval(self, asked: str) -> str:
        """The interval to use, by the design."""
        labelled, one_weight = bool(len(self.n)), len(set(self.factor)) == 1
        ordinary = labelled and not self.kinds.any() and not self.averaged
        plain = ordinary and one_weight and not self.unequal
        if asked == "auto":
            return "exact" if plain else "fixed-n"
        require(
            asked != "exact" or plain or not labelled,
            "interval must be fixed-n, betting or wald unless all labels are ordinary, of one weight and one rate, and repeats are not "
            "averaged; got 'exact'.",
        )
        return asked

    def rows(self, i: int, j: int) -> tuple[Score, ...]:
        """Lower scores of A_i - A_j with the range of their kind, or of all kinds together."""
        kinds = self.kinds.tolist()
        lowest = {kind: _lowest(kind, self.most, self.most_answers) for kind in {*kinds}}
        if self.mixed or len(set(self.factor)) > 1:
            lowest = dict.fromkeys(lowest, min(lowest.values(), default=-1.0))
        least = self.heaviest * np.array([lowest[kind] for kind in kinds])
        values = self.factor * self.scores.lower(i, j)
        ends, which = np.unique(values + 1j * least, return_inverse=True)
        found = zip(ends.tolist(), np.bincount(which, weights=self.n).tolist(), strict=True)
        return tuple(Score(end.real, end.imag, math.inf, int(n)) for end, n in found)

    def moments(self, values: Floats) -> tuple[float, float]:
        """Mean of scores with its standard error.

        Kinds of label are weighted by the inverse of their typical variance, which is fixed
        beforehand: the mean stays unbiased, and the mean difference of two systems is the
        difference of their means.
        """
        means, variances, shares = [], [], []
        together = self.mixed or self.unequal
        kinds = np.zeros_like(self.kinds) if together else self.kinds
        for kind in sorted({*kinds.tolist()}):
            chosen = kinds == kind
            n, weighted = self.n[chosen], (self.factor * values)[chosen]
            size = float(n.sum())
            mean = float(n @ weighted) / size
            spread = float(n @ (weighted - mean) ** 2)
            typical = 0.25 if kind <= 0 else law_of("no", self.most, kind).variance
            means.append(mean)
            shares.append(size / typical)
            variances.append(spread / (size - 1) / size if size > 1 else math.nan)
        if not means:
            return math.nan, math.nan
        share = np.array(shares) / sum(shares)
        variance = float(share**2 @ np.array(variances))
        return float(share @ np.array(means)), math.sqrt(variance) if variance > 0 else math.nan

    def difference(self, i: int, j: int, how: _Limits) -> Difference:
        """The difference of two systems with its limits."""
        n = int(self.n.sum())
        value, se = self.moments(self.scores.difference(i, j)) if n else (math.nan, math.nan)
        limits = Limits(-1.0, 1.0)
        if how.interval == "exact" and n:
            differences = np.rint(self.scores.difference(i, j))
            wins, losses = (int(self.n[differences == sign].sum()) for sign in (1, -1))
            limits = difference_limits(wins, losses, n, how.tail, how.tail)
        elif how.interval in ("betting", "fixed-n") and n:
            find = betting_interval
            if how.interval == "fixed-n" and not self.unequal:
                # Bets that adapt are not valid over strata with numbers of labels of their own;
                # fixed ones are.
                find = partial(fixed_interval, orders=how.orders, seed=how.seed)
            limits = _two_sided(
                i, j, lambda a, b: find(self.rows(a, b), how.tail, 0.0, floor=-1.0)[0]
            )
        elif se > 0:
            z = -float(ndtri(how.tail))
            low, high = (min(max(x, -1.0), 1.0) for x in (value - z * se, value + z * se))
            limits = Limits(low, high)
        low, high, blind = limits.low, limits.high, self.blind
        if blind:
            low, high = (1 - blind) * low - blind, (1 - blind) * high + blind
        names = self.systems
        return Difference(first=names[i], second=names[j], value=value, low=low, high=high, n=n)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Labels:
    """The labels that two systems share: of all systems where every label speaks of all."""

    counts: PatternCounts
    sample: _Sample
    grouped: _Clusters | None
    places: tuple[int, int] | None

    def difference(self, i: int, j: int, how: _Limits) -> Difference:
        """The difference of two systems, named by their places among all."""
        first, second = (i, j) if self.places is None else (0, 1)
        found = (self.grouped or self.sample).difference(first, second, how)
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
        sample = _Sample(own.without_clusters(), beyond=beyond)
        return _Labels(counts=own, sample=sample, grouped=grouped, places=places)

    if counts.partial or not counts.whole:
        return {pair: labels(counts.of(pair), pair) for pair in pairs}
    return dict.fromkeys(pairs, labels(counts, None))


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


def _two_sided(i: int, j: int, lower: Callable[[int, int], float]) -> Limits:
    """Limits of A_i - A_j from lower limits of both orders."""
    return ordered(lower(i, j), -lower(j, i), -1.0)


# clusters

_CLUSTERED = {"betting": "clusters, every look", "wald": "cr2"}


def _places(counts: PatternCounts) -> tuple[Counter[Place], Counter[Place]]:
    """Items and labels by stratum and cluster."""
    sizes = added(((c.stratum, c.cluster), n) for c, n in counts.items.items())
    return sizes, +added(((p.stratum, p.cluster), n) for p, n in _told(counts))


def _sizes(counts: PatternCounts) -> Counter[str]:
    """Items of each cluster."""
    return added((c.cluster, n) for c, n in counts.items.items())


def _clusters_matter(counts: PatternCounts, *, beyond: bool) -> bool:
    """Whether the cluster must be the unit, as in accuracy.clusters.clusters_matter."""
    if not counts.clustered or max(_sizes(counts).values()) < 2:
        return False
    sizes, labels = _places(counts)
    return bool(labels) and (beyond or labels_go_by_cluster(sizes, labels))


class _Clusters:
    """The labelled items by cluster."""

    def __init__(self, counts: PatternCounts, *, beyond: bool = False) -> None:
        refuse_weights(counts.items)
        rows = _told(counts)
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

    def _sum(self, values: Floats) -> Floats:
        return np.bincount(self._at, self._times * values, self.n)

    def value(self, i: int) -> float:
        """The accuracy of a system."""
        return cr2(self._size, self._labelled, self._sum(self._scores.value[:, i]))[0]

    def difference(self, i: int, j: int, how: _Limits) -> Difference:
        """The difference of two systems with its limits."""
        middle = self._sum(self._scores.difference(i, j))

        def lower(first: int, second: int) -> float:
            return cluster_limits(
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

        if how.interval == "cr2":
            limits = cr2_interval(self._size, self._labelled, middle, how.tail, how.tail, low=-1.0)
        else:
            limits = _two_sided(i, j, lower)
        return Difference(
            first=self.systems[i],
            second=self.systems[j],
            value=cr2(self._size, self._labelled, middle)[0],
            low=limits.low,
            high=limits.high,
            n=int(self._times.sum()),
        )


def ranks_of(
    names: Sequence[str], values: Sequence[float], differences: Sequence[Difference]
) -> tuple[Rank, ...]:
    """The places that systems can hold, the best one first."""
    told = [d for d in differences if d.verdict != "not separable"]
    pairs = [(d.first, d.second) if d.verdict == "first" else (d.second, d.first) for d in told]
    wins, losses = (Counter(pair[side] for pair in pairs) for side in (0, 1))
    ranks = [
        Rank(system=s, best=1 + losses[s], worst=len(names) - wins[s], value=v)
        for s, v in zip(names, values, strict=True)
    ]

    def order(r: Rank) -> tuple[float, ...]:
        return r.best, r.worst, math.inf if math.isnan(r.value) else -r.value

    return tuple(sorted(ranks, key=lambda r: (order(r), r.system)))


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
        _require_two(systems)
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
        require(
            size <= self.largest,
            f"largest must bound every cluster; got {self.largest} and a cluster of {size} items.",
        )
        self.n += len(patterns)
        gains = [self._gains(p) for p in patterns if p.verdict != "unsure"]
        if gains:
            self._bet(np.sum(gains, axis=0) * (size / len(gains) / self.largest), 1)

    def _gains(self, pattern: Pattern) -> Floats:
        """The difference of scores of every ordered pair, over the least that it can be."""
        kind, n_classes, weight = _kind(pattern), pattern.n_classes, pattern.weight
        require(
            n_classes <= self.n_classes and weight <= self.heaviest,
            f"n_classes and heaviest must bound every item; got {n_classes} classes and weight {weight:g}.",
        )
        self._seen.setdefault((kind, n_classes), pattern)
        require(
            self.mixed or not _mixed(self._seen.values()),
            "mixed must be True where kinds of label go with items (numbers of classes or designs differ); got False.",
        )
        kinds = {kind, 1} if self.mixed else {kind}
        least = min(_lowest(own, self.n_classes, self.most_answers) for own in kinds)
        return difference_scores(pattern) * (weight / -(self.heaviest * least))

    def _bet(self, gains: Floats, times: int) -> None:
        if self.aimed and self.dropped:
            out = [i for i, system in enumerate(self.systems) if system in self.dropped]
            gains[out, :] = gains[:, out] = 0.0
        moved = np.nonzero(gains)
        if not len(moved[0]):
            return
        with np.errstate(divide="ignore"):
            self._wealth[moved] += times * np.log1p(gains[moved][:, None] * FRACTIONS)
        total = np.logaddexp.reduce(self._wealth[moved] + LOG_PRIOR, axis=1)
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
    by_cluster = clusters == "auto" and has_clusters(evidence)
    if evidence.open_ended:
        population = "beyond"
    beyond = population == "beyond"
    names, rows = label_rows(evidence, systems=systems, by_cluster=by_cluster)
    _require_two(names)
    counted = count_patterns(evidence, systems=systems, by_cluster=by_cluster)
    counts = dataclasses.replace(counted, patterns=dict(Counter(rows)))
    if not counts.whole:
        # Graded items are a sample of more, and their clusters as large as they are here.
        cells = Counter(Cell("", p.n_classes, p.stratum, p.weight, p.cluster) for p in rows)
        counts = dataclasses.replace(counts, items=dict(cells))
    grouped = _clusters_matter(counts, beyond=beyond)
    if not grouped:
        counts, rows = counts.without_clusters(), [row._replace(cluster="") for row in rows]
    pairs = list(combinations(range(len(names)), 2))
    samples = _samples(counts.without_clusters(), pairs, beyond=False)
    unequal = any(s.sample.unequal for s in samples.values())
    scale, sizes = _mean_weight(counts), _sizes(counts)
    rows = [row._replace(weight=row.weight / scale) for row in rows]
    several_kinds = len({_kind(p) for p in rows if p.verdict != "unsure"}) > 1
    race = Race(
        names,
        n_classes=max((p.n_classes for p in rows), default=2),
        confidence=confidence,
        heaviest=max((p.weight for p in rows), default=1.0),
        mixed=_mixed(rows) or (grouped and several_kinds),
        largest=max(sizes.values(), default=1),
        most_answers=_most_answers(counts, beyond=beyond),
    )
    if grouped:
        for cluster in _complete(rows):
            race.update_cluster(cluster, sizes[cluster[0].cluster])
    else:
        for row in rows:
            race.update(row)
    about: dict[str, Any] = {"clusters": clusters, "population": population}
    used = _checks(evidence, checks, names, protocol, seed, **about)
    end = compare_systems(
        counts, interval="betting", confidence=confidence, checks=used, strict=strict, **about
    )
    guarantee, notes = end.guarantee, end.notes
    if unequal and not grouped:
        told = "strata were labelled at different rates, and which system leads may depend on the stratum"
        failed = Assumption(name=SAME_RATES, status="failed", detail=told)
        rests = (*guarantee.assumptions, failed)
        guarantee = dataclasses.replace(guarantee, kind=Kind.HEURISTIC, assumptions=rests)
        notes += (
            "a race needs labels at the same rate in all strata; compare_systems weights them",
        )
    order = {r.system: k for k, r in enumerate(end.ranks)}
    return dataclasses.replace(
        end,
        leaders=tuple(sorted(race.leaders, key=order.__getitem__)),
        method="race of paired scores",
        guarantee=guarantee,
        dropped=race.dropped,
        diagnostics={**end.diagnostics, "labels_read": race.n},
        notes=(*notes, *[UNCHECKED] * (checks == "none")),
    )


def _complete(rows: Sequence[Pattern]) -> list[list[Pattern]]:
    """The labelled items of each cluster, in the order in which clusters were complete."""
    found: dict[str, list[Pattern]] = {}
    for row in rows:  # the last label puts its cluster at the end
        labels = found.pop(row.cluster, [])
        labels.append(row)
        found[row.cluster] = labels
    return list(found.values())


def _mean_weight(counts: PatternCounts) -> float:
    """Mean weight of the items, or of the labelled ones where the others are not known."""
    population = counts.items or counts.patterns
    n = sum(population.values())
    return sum(place.weight * k for place, k in population.items()) / n if n else 1.0
