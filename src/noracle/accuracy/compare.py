"""Which system is better: paired differences of scores on the same labels, and races."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal

import numpy as np
from scipy.special import ndtri

from noracle.accuracy.score import difference_scores, law_of, least_difference, pattern_scores
from noracle.bounds.betting import FRACTIONS, LOG_PRIOR, Score, betting_interval
from noracle.bounds.linear import ordered
from noracle.counts import PatternCounts, count_patterns, label_rows
from noracle.counts.label import Pattern
from noracle.counts.repeats import count_states
from noracle.errors import ArgumentError
from noracle.evidence import Evidence
from noracle.results import Assumption, Check, Comparison, Difference, Guarantee, Kind, Rank, check_confidence, choose


def compare_systems(
    evidence: Evidence | PatternCounts, *, systems: Sequence[str] | None = None, interval: Literal["betting", "wald"] = "betting",
    confidence: float = 0.95, checks: Sequence[Check] = (), strict: bool = False,
) -> Comparison:  # fmt: skip
    """Compare systems on the same labels; all differences hold together at ``confidence``.

    For each pair the scores are subtracted label by label, d = score(first) - score(second), whose mean is the difference of accuracies.
    An item without an answer scores 0 for that system. The error rate is split evenly over the pairs.

    Parameters
    ----------
    evidence
        Tables, or counts of joint patterns.
    systems
        Which systems; all by default. Only items that all of them were asked about are used.
    interval
        ``betting`` is finite-sample and valid at every look, ``wald`` asymptotic (paired).

    Notes
    -----
    Assumes that labelled items are a random sample of the items asked about; labels of different kinds may be mixed as long as the kind
    does not depend on the item. Numbers of classes may differ by item. Ranks follow from the simultaneous differences: a system's best
    place is one more than the number of systems that are certainly better.

    References
    ----------
    Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27 (betting); Dunn (1961), JASA 56, 52-64 (simultaneous intervals by dividing the error
    rate).

    Examples
    --------
    >>> from noracle import PatternCounts, compare_systems
    >>> counts = PatternCounts.from_counts(n_classes=4, systems=("a", "b"),
    ...     yes={(True, True): 300, (True, False): 80, (False, True): 20, (False, False): 100})
    >>> compare_systems(counts).difference("a", "b").verdict
    'first'
    """
    choose("interval", interval, ("betting", "wald"))
    counts = _patterns(evidence, systems)
    names = counts.systems
    error = 1 - check_confidence(confidence)
    pairs = list(combinations(range(len(names)), 2))
    tail = error / (2 * max(1, len(pairs)))
    differences = [_difference(counts, i, j, interval, tail) for i, j in pairs]
    finite = interval == "betting" and not _weighted(counts)
    kind = Kind.FINITE_SAMPLE if finite else Kind.ASYMPTOTIC
    guarantee = Guarantee(kind=kind, error_rate=error, anytime=finite, assumptions=_assumptions(counts))
    values = [_mean_score(counts, i) for i in range(len(names))]
    ranks = _ranks(names, values, differences)
    n = sum(counts.patterns.values())
    reason = "" if any(p.verdict != "unsure" for p in counts.patterns) else "no usable label of an item that all systems were asked about"
    return Comparison(
        systems=names,
        differences=tuple(differences),
        ranks=ranks,
        leaders=tuple(r.system for r in ranks if r.best == 1),
        confidence=confidence,
        method="paired scores",
        interval=interval,
        guarantee=guarantee.given(*checks, strict=strict),
        counts={
            "labelled": n,
            "unsure": sum(k for p, k in counts.patterns.items() if p.verdict == "unsure"),
            "unused": dict(counts.unused),
        },
        notes=_notes(counts, differences),
        reason=reason,
    )


def _patterns(evidence: Evidence | PatternCounts, systems: Sequence[str] | None) -> PatternCounts:
    if not isinstance(evidence, (Evidence, PatternCounts)):
        raise ArgumentError(f"evidence must be Evidence or PatternCounts; got {type(evidence).__name__}. Use Evidence.from_tables(…).")
    counts = evidence if isinstance(evidence, PatternCounts) else count_patterns(evidence, systems=systems)
    if isinstance(evidence, PatternCounts) and systems is not None and tuple(systems) != counts.systems:
        raise ArgumentError(f"systems must be {list(counts.systems)}, the ones that were counted; got {list(systems)}.")
    if len(counts.systems) < 2:
        raise ArgumentError(f"systems must be at least two; got {list(counts.systems)}.")
    return counts


def _assumptions(counts: PatternCounts) -> tuple[Assumption, ...]:
    rests = [Assumption(name="iid items", detail="labelled items are a random sample of the items asked about")]
    if any(p.design == "recorded" for p in counts.patterns):
        rests.append(Assumption(name="recorded propensities", detail="each class was asked about with the probability that was recorded"))
    if any(p.design == "uniform" and p.verdict == "no" for p in counts.patterns):
        rests.append(Assumption(name="uniform routing", detail="the class asked about does not depend on item, truth or answers"))
    rests.append(Assumption(name="right verdicts", detail="nobody says yes to a wrong class or no to the true one"))
    return (*rests, *(Assumption(name=line) for line in counts.inferred))


def _notes(counts: PatternCounts, differences: Sequence[Difference]) -> tuple[str, ...]:
    notes = []
    open_pairs = sum(d.verdict == "not separable" for d in differences)
    if open_pairs:
        notes.append(f"{open_pairs} of {len(differences)} pairs cannot be separated with these labels")
    if len({p.stratum for p in counts.patterns}) > 1:
        notes.append("strata are pooled: labels must have been drawn at the same rate in all of them")
    if _weighted(counts):
        notes.append("weights differ: their mean and the heaviest are taken from the labelled items, so the promise is asymptotic")
    notes += [_missing(system, counts.states) for system in counts.systems if any(key[0] == system for key in counts.states)]
    notes += [f"not used: {k} {name}" for name, k in counts.unused.items() if k]
    return tuple(notes)


def _missing(system: str, states: Mapping[tuple[str, str], int]) -> str:
    """How many answers of a system are missing, and why."""
    own = {state: n for (name, state), n in states.items() if name == system}
    return f"{system}: {sum(own.values())} without an answer ({', '.join(f'{n} {state}' for state, n in own.items())}), counted as wrong"


def _weighted(counts: PatternCounts) -> bool:
    return len({p.weight for p in counts.patterns}) > 1


# ------------------------------------------------------------------------------------------------------ scores of a pattern


def _scale(counts: PatternCounts) -> float:
    """Mean weight of the labelled items."""
    n = sum(counts.patterns.values())
    return sum(p.weight * k for p, k in counts.patterns.items()) / n if n else 1.0


def _kind(p: Pattern) -> int:
    """0 ordinary, m > 0 for m ruled-out classes, -1 for a question with recorded propensity."""
    return -1 if p.design == "recorded" else 0 if p.verdict == "yes" else p.n_ruled_out


def _lowest(kind: int, n_classes: int) -> float:
    """The least difference of scores for a kind of label."""
    return least_difference("no" if kind > 0 else "yes", n_classes, max(kind, 1))


def _mixed(patterns: Iterable[Pattern]) -> bool:
    """Whether the kind of a label may go with the item, so that all kinds must share one bet and one mean.

    A uniform question is answered yes with probability 1/K, and aimed questions reach some items only.
    """
    used = [p for p in patterns if p.verdict != "unsure"]
    kinds = {_kind(p) for p in used}
    return len(kinds) > 1 and (-1 in kinds or len({p.n_classes for p in used}) > 1)


def _rows(counts: PatternCounts, i: int, j: int) -> tuple[Score, ...]:
    """Lower scores of A_i - A_j with the range of their kind, or of all kinds together."""
    scale = _scale(counts)
    heaviest = max((p.weight / scale for p in counts.patterns), default=1.0)
    most = max((p.n_classes for p in counts.patterns), default=2)
    rows: Counter[tuple[int, float]] = Counter()
    for p, n in counts.patterns.items():
        if p.verdict != "unsure":
            rows[_kind(p), p.weight / scale * float(difference_scores(p)[i, j])] += n
    least = {kind: _lowest(kind, most) for kind, _ in rows}
    if _mixed(counts.patterns):
        least = dict.fromkeys(least, min(least.values()))
    return tuple(Score(value, heaviest * least[kind], math.inf, n) for (kind, value), n in rows.items())


def _values(counts: PatternCounts, score: Callable[[Pattern], float]) -> tuple[float, float, int]:
    """Mean, standard error and number of the scores of all patterns."""
    mixed = _mixed(counts.patterns)
    most = max((p.n_classes for p in counts.patterns), default=2)

    def kind(p: Pattern) -> tuple[int, float]:
        if mixed:
            return 0, 1.0
        return _kind(p), 0.25 if _kind(p) <= 0 else law_of("no", most, p.n_ruled_out).variance

    return _combined((*kind(p), p.weight, score(p), n) for p, n in counts.patterns.items() if p.verdict != "unsure")


def _difference(counts: PatternCounts, i: int, j: int, interval: str, tail: float) -> Difference:
    value, se, n = _values(counts, lambda p: float(np.subtract(*pattern_scores(p)[[i, j]])))
    low, high = -1.0, 1.0
    if interval == "betting" and n:
        low, _ = betting_interval(_rows(counts, i, j), tail, 0.0, floor=-1.0)
        mirrored, _ = betting_interval(_rows(counts, j, i), tail, 0.0, floor=-1.0)
        limits = ordered(low, -mirrored, -1.0)
        low, high = limits.low, limits.high
    elif se > 0:
        z = -float(ndtri(tail))
        low, high = (min(max(x, -1.0), 1.0) for x in (value - z * se, value + z * se))
    return Difference(first=counts.systems[i], second=counts.systems[j], value=value, low=low, high=high, n=n)


def _combined(rows: Iterable[tuple[int, float, float, float, int]]) -> tuple[float, float, int]:
    """Mean of scores with its standard error, from rows (kind, typical variance, weight, score, number).

    Kinds of label are weighted by the inverse of their typical variance, which is fixed beforehand: the mean stays unbiased, and the mean
    difference of two systems is the difference of their means.
    """
    by_kind: dict[tuple[int, float], list[tuple[float, float, int]]] = {}
    for kind, typical, weight, value, n in rows:
        by_kind.setdefault((kind, typical), []).append((weight, value, n))
    means, variances, sizes, shares = [], [], [], []
    for (_, typical), entries in by_kind.items():
        w, v, k = (np.array(c, dtype=float) for c in zip(*entries, strict=True))
        size = float(k.sum())
        weighted = w * v * size / float(np.dot(k, w))
        mean = float(np.dot(k, weighted)) / size
        means.append(mean)
        sizes.append(size)
        shares.append(size / typical)
        variances.append(float(np.dot(k, (weighted - mean) ** 2)) / (size - 1) / size if size > 1 else math.nan)
    if not sizes:
        return math.nan, math.nan, 0
    share = np.array(shares) / sum(shares)
    variance = float(np.dot(share**2, variances))
    return float(np.dot(share, means)), math.sqrt(variance) if variance > 0 else math.nan, int(sum(sizes))


def _mean_score(counts: PatternCounts, i: int) -> float:
    return _values(counts, lambda p: float(pattern_scores(p)[i]))[0]


def _ranks(names: Sequence[str], values: Sequence[float], differences: Sequence[Difference]) -> tuple[Rank, ...]:
    better: dict[str, int] = dict.fromkeys(names, 0)
    worse: dict[str, int] = dict.fromkeys(names, 0)
    for d in differences:
        if d.verdict == "not separable":
            continue
        winner, loser = (d.first, d.second) if d.verdict == "first" else (d.second, d.first)
        better[loser] += 1
        worse[winner] += 1
    ranks = [Rank(system=s, best=1 + better[s], worst=len(names) - worse[s], value=v) for s, v in zip(names, values, strict=True)]
    return tuple(sorted(ranks, key=lambda r: (r.best, r.worst, -r.value if not math.isnan(r.value) else math.inf, r.system)))


# ------------------------------------------------------------------------------------------------------------------- races


class Race:
    """Labels come one by one; systems that are certainly not the best are dropped.

    For every ordered pair a wealth process bets that the first is better than the second. When it reaches (S - 1)/error the second is
    dropped. The best of S systems is ever dropped with probability at most ``error``, whenever one looks or stops.

    Parameters
    ----------
    n_classes, heaviest
        The largest number of classes and the largest weight of any item.
    mixed
        Bet the same on every kind of label. Needed where kinds go with items: questions about items with different numbers of classes, or
        propensities for some labels only.
    aimed
        Labels are aimed at the systems still in the race: those that were dropped bet no more, since nobody asks about their answers.

    Notes
    -----
    W_ij = mean over θ of Π(1 + θ·d/m), with d the score of i minus that of j and -m the least that it can be. Where j is at least as good
    as i, P(W_ij ever reaches x) ≤ 1/x (Ville); the best of S systems has S - 1 rivals, and x = (S - 1)/error.

    Assumes that items come in random order, that labels were drawn as the design says (or with the recorded propensities), and that
    verdicts are right.

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
        self, systems: Sequence[str], *, n_classes: int, confidence: float = 0.95, heaviest: float = 1.0, mixed: bool = False,
        aimed: bool = False,
    ) -> None:  # fmt: skip
        if len(systems) < 2:
            raise ArgumentError(f"systems must be at least two; got {list(systems)}.")
        self.systems = tuple(systems)
        self.confidence = check_confidence(confidence)
        self.n_classes = n_classes
        self.heaviest = heaviest
        self.mixed = mixed
        self.aimed = aimed
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
        if pattern.verdict == "unsure":
            return
        if pattern.n_classes > self.n_classes or pattern.weight > self.heaviest:
            raise ArgumentError(
                f"n_classes and heaviest must bound every item; got {pattern.n_classes} classes and weight {pattern.weight:g}."
            )
        self._seen.setdefault((_kind(pattern), pattern.n_classes), pattern)
        if not self.mixed and _mixed(self._seen.values()):
            raise ArgumentError("mixed must be True where kinds of label go with items (numbers of classes or designs differ); got False.")
        least = self.heaviest * _lowest(1 if self.mixed else _kind(pattern), self.n_classes)
        gains = difference_scores(pattern) * (pattern.weight / -least)
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
        total = np.where(finite, top + np.log(np.exp(logs - np.where(finite, top, 0.0)[:, None]).sum(axis=1)), -np.inf)
        for loser in {self.systems[j] for j in moved[1][total >= self._threshold]}:
            self.dropped.setdefault(loser, self.n)


def race_systems(
    evidence: Evidence,
    *,
    systems: Sequence[str] | None = None,
    confidence: float = 0.95,
    checks: Sequence[Check] = (),
    strict: bool = False,
) -> Comparison:
    """Drop systems that are certainly not the best, label by label, valid under continuous looking.

    Labels are taken in the order of ``at`` (else of the rows). The best system is ever dropped with probability at most 1 - ``confidence``;
    the differences at the end hold together at ``confidence``, also whenever one stops.

    Notes
    -----
    A system is dropped when a bet that another one is better has the wealth W ≥ (S - 1)/(1 - confidence), see :class:`Race`.

    Assumes that items come in random order, as sealed beforehand, and that verdicts are right. If questions are aimed at the systems still
    in the race, their propensities must be recorded.

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
    names, rows = label_rows(evidence, systems=systems)
    if len(names) < 2:
        raise ArgumentError(f"systems must be at least two; got {list(names)}.")
    states = {} if evidence.answers is None else {key: n for key, n in count_states(evidence.answers).items() if key[0] in names}
    counts = PatternCounts(systems=tuple(names), patterns=dict(Counter(rows)), states=states)
    scale = _scale(counts)
    race = Race(
        names,
        n_classes=max((p.n_classes for p in rows), default=2),
        confidence=confidence,
        heaviest=max((p.weight / scale for p in rows), default=1.0),
        mixed=_mixed(rows),
    )
    for row in rows:
        race.update(row._replace(weight=row.weight / scale))
    end = compare_systems(counts, confidence=confidence, checks=checks, strict=strict)
    order = {r.system: k for k, r in enumerate(end.ranks)}
    return Comparison(
        systems=end.systems, differences=end.differences, ranks=end.ranks, leaders=tuple(sorted(race.leaders, key=order.__getitem__)),
        confidence=confidence, method="race of paired scores", interval="betting", guarantee=end.guarantee, dropped=race.dropped,
        counts=end.counts, diagnostics={"labels_read": race.n}, notes=end.notes, reason=end.reason,
    )  # fmt: skip
