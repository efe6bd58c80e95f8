"""How good a candidate is, from weak labels of the items that it answered.

Every labelled item gives one score whose mean is the accuracy, and **0 without a valid answer**,
whatever the label. Repeats of one item are averaged inside the item: they are no new items.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self, get_args

import narwhals as nw
import numpy as np

from noracle.accuracy import estimate_accuracy
from noracle.accuracy.score import difference_scores, law_of, least_difference, sided_scores
from noracle.bounds.betting import Score, betting_interval
from noracle.bounds.binomial import ordered
from noracle.counts.tally import AccuracyCounts, Cell, Label, Tally
from noracle.errors import ArgumentError, require, require_evidence
from noracle.evidence import Evidence
from noracle.evidence.frames import fetch
from noracle.evidence.labels import gather, propensities_of
from noracle.evidence.tables import NO, YES
from noracle.results import Assumption, Estimate, Guarantee, Kind, check_confidence, choose, tails
from noracle.search.candidates import Outcome
from noracle.search.model import STATES

_SAMPLED = "labelled items are a random sample of the items that matter"
_RIGHT = "nobody says yes to a wrong class or no to the true one"
SAMPLED = Assumption(name="iid items", detail=_SAMPLED)
RIGHT = Assumption(name="right verdicts", detail=_RIGHT)

Array = np.ndarray[Any, Any]
ItemId = int | str
LabelKind = Literal["ordinary", "complementary", "targeted"]
_Said = tuple[int, bool, float | None]  # class, yes, propensity


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ItemLabel:
    """What is known of one item: its class, or classes that it is not of.

    ``asked`` is the item's first question (class, yes, propensity) where questions were aimed;
    nothing else of the item is used then.
    """

    n_classes: int
    truth: int | None = None
    ruled_out: frozenset[int] = frozenset()
    asked: tuple[tuple[int, bool, float], ...] = ()

    @property
    def kind(self) -> LabelKind:
        """Which kind of score it gives."""
        if self.asked:
            return "targeted"
        return "complementary" if self.truth is None else "ordinary"

    @property
    def code(self) -> int:
        """The kind as a number: -1 targeted, 0 ordinary, m for m ruled-out classes."""
        return -1 if self.asked else 0 if self.truth is not None else len(self.ruled_out)

    @property
    def label(self) -> Label:
        """What the counts take: the aimed question, the class, or the classes ruled out."""
        if self.asked:
            (k, yes, propensity), *_ = self.asked
            return Label(self.n_classes, "yes" if yes else "no", frozenset({k}), propensity)
        if self.truth is None:
            return Label(self.n_classes, "no", self.ruled_out)
        return Label(self.n_classes, "yes", frozenset({self.truth}), ruled_out=self.ruled_out)


@dataclasses.dataclass(frozen=True, slots=True)
class ItemLabels:
    """Labels by item. Held by the vault and what it calls; never shown to a strategy."""

    of: Mapping[ItemId, ItemLabel]

    def __len__(self) -> int:
        return len(self.of)

    def __repr__(self) -> str:
        return f"ItemLabels({len(self.of)} items)"

    @classmethod
    def from_evidence(cls, evidence: Evidence, *, items: Iterable[ItemId] | None = None) -> Self:
        """The labels of these items (all by default); ``unsure`` says nothing.

        Examples
        --------
        >>> evidence = Evidence.from_tables(judgements={"item": [1, 2], "class": [0, 2], "verdict": ["yes", "no"]}, n_classes=3)
        >>> [label.kind for label in ItemLabels.from_evidence(evidence).of.values()]
        ['ordinary', 'complementary']
        """
        there = evidence.judgements is not None
        require_evidence(there, "evidence", "must have judgements", "none")
        evidence.check()
        place, n_classes = class_places(evidence), sizes_of(evidence)
        aimed = propensities_of(evidence) == "recorded"
        found = gather(evidence)
        clash = {item for (item,) in fetch(found.known.filter(nw.col("conflict")).select("item"))}
        said: dict[ItemId, list[_Said]] = defaultdict(list)
        wanted = None if items is None else set(items)
        columns = ("item", "class", "said")
        kept = found.kept.select(*columns, *(["propensity"] if aimed else [])).sort(*columns)
        for item, k, verdict, *rest in fetch(kept):
            if verdict in (YES, NO) and item not in clash and (wanted is None or item in wanted):
                at = place[k] if place is not None else int(k)
                said[item].append((at, verdict == YES, rest[0] if rest else None))
        return cls({item: _label(rows, n_classes(item)) for item, rows in said.items()})


def class_places(evidence: Evidence) -> dict[Any, int] | None:
    """The place of each class by its name; None where classes are places already."""
    if evidence.classes is not None:
        return {c: i for i, c in enumerate(evidence.classes)}
    rule, remedy = "must be given where classes are text", "Pass classes=[…], all of them."
    require_evidence(evidence.class_kind != "text", "classes", rule, "none", remedy=remedy)
    return None


def sizes_of(evidence: Evidence) -> Callable[[ItemId], int]:
    """The number of classes of an item."""
    there = evidence.has_own_n_classes
    own: dict[Any, Any] = dict(evidence.rows("items", "item", "n_classes")) if there else {}
    return lambda item: int(own.get(item) or evidence.n_classes or 0)


def _label(rows: Sequence[_Said], n_classes: int) -> ItemLabel:
    """One label out of what was said of an item."""
    yes, no = {k for k, said, _ in rows if said}, frozenset(k for k, said, _ in rows if not said)
    asked = tuple((k, said, p) for k, said, p in rows if p is not None)
    return ItemLabel(n_classes=n_classes, truth=next(iter(yes), None), ruled_out=no, asked=asked)


FitnessKind = Literal["mixed", "ordinary", "complementary", "ivw", "targeted"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ItemScores:
    """One row for every labelled item that was run: ``value`` a_i, the least and largest value that
    it could take, and its kind.

    ``weight`` is the inverse of the variance to expect of a kind of label (fixed beforehand, 1
    where kinds may go with items), so that
    :attr:`mean` is unbiased. ``answers`` has one entry for each repeat.

    Examples
    --------
    >>> labels = ItemLabels({1: ItemLabel(n_classes=4, truth=2), 2: ItemLabel(n_classes=4, ruled_out=frozenset({0}))})
    >>> scores = score_outcomes([Outcome(item=1, answer=2, state="answered"), Outcome(item=2, answer=0, state="answered")], labels)
    >>> scores.value.tolist(), scores.low.tolist(), scores.high.tolist()
    ([1.0, -2.0], [0.0, -2.0], [1.0, 1.0])
    """

    item: tuple[ItemId, ...]
    value: Array
    low: Array
    high: Array
    kind: tuple[LabelKind, ...]
    weight: Array
    answers: tuple[tuple[int | None, ...], ...]
    labels: tuple[ItemLabel, ...] = dataclasses.field(repr=False)
    states: Mapping[str, int]

    @property
    def mean(self) -> float:
        """The estimated accuracy; NaN without items."""
        return float(np.average(self.value, weights=self.weight)) if len(self.item) else math.nan

    @property
    def se(self) -> float:
        """Standard error over items; NaN below two items."""
        n = len(self.item)
        if n < 2:
            return math.nan
        parts = self.weight * (self.value - self.mean)
        return math.sqrt(n / (n - 1) * float(parts @ parts)) / float(self.weight.sum())


def score_outcomes(outcomes: Iterable[Outcome], labels: ItemLabels) -> ItemScores:
    """Scores of the labelled items among these outcomes; items without a label are only counted by
    state.

    Examples
    --------
    >>> labels = ItemLabels({1: ItemLabel(n_classes=4, ruled_out=frozenset({2})), 2: ItemLabel(n_classes=4, ruled_out=frozenset({0}))})
    >>> outcomes = [Outcome(item=1, answer=2, state="answered"), Outcome(item=2, answer=None, state="invalid")]
    >>> score_outcomes(outcomes, labels).value.tolist()
    [-2.0, 0.0]
    """
    given = _answers(outcomes := tuple(outcomes), labels)
    known = [item for item in given if item in labels.of]
    rows = [labels.of[item] for item in known]
    value = [_mean_score(labels.of[item], given[item]) for item in known]
    low, high = _ranges(rows)
    silent = {"answered": "invalid"}  # without an answer
    found = Counter(silent.get(o.state, o.state) if o.answer is None else o.state for o in outcomes)
    return ItemScores(
        item=tuple(known),
        value=np.array(value, dtype=float),
        low=low,
        high=high,
        kind=tuple(label.kind for label in rows),
        weight=_weights(rows),
        answers=tuple(tuple(given[item]) for item in known),
        labels=tuple(rows),
        states={state: found[state] for state in STATES},
    )


def _answers(outcomes: Sequence[Outcome], labels: ItemLabels) -> dict[ItemId, list[int | None]]:
    """Answers by item, one for each repeat; only a valid answer counts as one."""
    given: dict[ItemId, list[int | None]] = {}
    seen: set[tuple[ItemId, int]] = set()
    for o in sorted(outcomes, key=lambda o: o.repeat):
        came = f"item {o.item!r}, repeat {o.repeat} twice"
        new = (o.item, o.repeat) not in seen
        require(new, f"outcomes must name each item and repeat once; got {came}.")
        seen.add((o.item, o.repeat))
        answer = o.answer if o.state == "answered" else None
        label = labels.of.get(o.item)
        if label is not None and answer is not None and not 0 <= answer < label.n_classes:
            rule, came = f"a class in [0, {label.n_classes})", f"{answer} at item {o.item!r}"
            raise ArgumentError(f"answer must be {rule}; got {came}.")
        given.setdefault(o.item, []).append(answer)
    return given


def _mean_score(label: ItemLabel, answers: Sequence[int | None]) -> float:
    """The mean score of repeats; for a question the mean of its two one-sided forms."""
    return sum(sum(sided_scores(label.label.meet(a))) / 2 for a in answers) / len(answers)


def _shared(labels: Sequence[ItemLabel]) -> bool:
    """Whether the kind of a label may go with the item, so that all share one bet and one mean."""
    kinds = {label.code for label in labels}
    return len(kinds) > 1 and (-1 in kinds or len({label.n_classes for label in labels}) > 1)


def _ranges(labels: Sequence[ItemLabel]) -> tuple[Array, Array]:
    """The least and largest score of each item's kind over all items, or of all kinds together."""
    most, codes = _codes(labels)
    low = {-1: -math.inf, 0: 0.0} | {c: law_of("no", most, c).low for c in codes if c > 0}
    lows = np.array([low[c] for c in codes])
    highs = np.array([1.0 if c >= 0 else math.inf for c in codes])
    if _shared(labels):
        lows[:], highs[:] = lows.min(), highs.max()
    return lows, highs


def _weights(labels: Sequence[ItemLabel]) -> Array:
    if _shared(labels):
        return np.ones(len(labels))
    most, codes = _codes(labels)
    return np.array([1 / (0.25 if c <= 0 else law_of("no", most, c).variance) for c in codes])


def _codes(labels: Sequence[ItemLabel]) -> tuple[int, list[int]]:
    """The most classes of an item, and the kind of each label as a number."""
    return max((label.n_classes for label in labels), default=2), [label.code for label in labels]


def estimate_fitness(
    outcomes: Iterable[Outcome],
    labels: ItemLabels,
    *,
    kind: FitnessKind = "mixed",
    confidence: float = 0.95,
    name: str = "candidate",
    population: Literal["answers", "beyond"] = "beyond",
) -> Estimate:
    """The accuracy of a candidate, by :func:`noracle.estimate_accuracy` on the counts of its
    outcomes.

    Parameters
    ----------
    kind
        ``mixed`` is maximum likelihood on ordinary and ruled-out labels (the mean of scores where
        questions were aimed or numbers of classes differ); ``ivw``, ``ordinary``, ``complementary``
        and ``targeted`` as the methods of :func:`noracle.estimate_accuracy`.
    population
        ``beyond``: the items are a sample of the items that matter, so the share without an answer
        is uncertain too.

    Notes
    -----
    ``counts`` holds the outcomes by state: answered, invalid, refused, errored. Where repeats of an
    item differ, the scores are averaged inside the item and the limits come from betting; where all
    repeats agree, they count as one.

    A = P(answer is right), from a likelihood with q = P(answer is not ruled out) = (A + K - 2)/(K -
    1) for ruled-out labels.

    Assumes that labelled items are a random sample of the items and that labels were drawn as
    recorded. The interval holds for a candidate that was fixed before these labels were looked at.
    It does not hold for the best of many on the labels by which it was chosen.

    References
    ----------
    Yin, Ishida and Sugiyama, "Towards scalable oversight via partitioned human supervision",
    equations (2), (7) and (9).

    Examples
    --------
    >>> labels = ItemLabels({i: ItemLabel(n_classes=4, ruled_out=frozenset({i % 4})) for i in range(80)})
    >>> outcomes = [Outcome(item=i, answer=0 if i % 8 else None, state="answered" if i % 8 else "invalid") for i in range(80)]
    >>> estimate = estimate_fitness(outcomes, labels)
    >>> round(estimate.value, 4), estimate.counts["invalid"]
    (0.5, 10)
    """
    choose("kind", kind, get_args(FitnessKind))
    outcomes = tuple(outcomes)
    scores = score_outcomes(outcomes, labels)
    every = _answers(outcomes, labels)
    if any(len(set(answers)) > 1 for item, answers in every.items() if item in labels.of):
        rule = "must be 'mixed' or 'targeted' where repeats of an item differ"
        require(kind in ("mixed", "targeted"), f"kind {rule}; got {kind!r}.")
        estimate = _averaged(scores, confidence, name)
    else:
        sizes = {label.n_classes for label in scores.labels}
        methods = {"mixed": "scores" if len(sizes) > 1 else None, "targeted": "scores"}
        how: dict[str, Any] = {"method": methods.get(kind, kind), "confidence": confidence}
        counts = _counts(every, labels, name)
        estimate = estimate_accuracy(counts, population=population, **how)
    return dataclasses.replace(estimate, counts={**estimate.counts, **scores.states})


def _counts(
    given: Mapping[ItemId, Sequence[int | None]], labels: ItemLabels, name: str
) -> AccuracyCounts:
    """The tallies that :func:`noracle.counts.count_accuracy` would make of these outcomes."""
    tallies, items, answered = Counter[Tally](), Counter[Cell](), Counter[Cell]()
    sizes = {label.n_classes for label in labels.of.values()}
    for item, answers in given.items():
        label, answer = labels.of.get(item), answers[0]
        if label is None and len(sizes) > 1:
            continue
        cell = Cell(name, label.n_classes if label is not None else next(iter(sizes), 2))
        items[cell] += 1
        answered[cell] += answer is not None
        if label is not None:
            tallies[label.label.meet(answer, system=name)] += 1
    return AccuracyCounts(tallies=dict(tallies), items=dict(items), answered=dict(answered))


def _averaged(scores: ItemScores, confidence: float, name: str) -> Estimate:
    """Mean of the items' averaged scores, with betting limits."""
    below, above = tails(check_confidence(confidence), "two-sided")
    columns = [v.tolist() for v in (scores.value, scores.low, scores.high)]
    lower = upper = [Score(v, low, high, 1) for v, low, high in zip(*columns, strict=True)]
    if "targeted" in scores.kind:
        # Where some questions were aimed, all items share one range: a bet must not go with the
        # item.
        plain = _ranges([label for label in scores.labels if not label.asked])[0]
        least, lower, upper = min(plain.tolist(), default=0.0), [], []
        for answers, label, value in zip(scores.answers, scores.labels, scores.value, strict=True):
            yes = no = float(value)
            if label.asked:
                sides = [sided_scores(label.label.meet(a)) for a in answers]
                yes, no = (sum(side) / len(answers) for side in zip(*sides, strict=True))
            lower.append(Score(yes, min(least, 0.0), math.inf, 1))
            upper.append(Score(no, -math.inf, 1.0, 1))
    limits = ordered(betting_interval(lower, below, 0.0)[0], betting_interval(upper, 0.0, above)[1])
    promise: dict[str, Any] = {"kind": Kind.FINITE_SAMPLE, "error_rate": 1 - confidence}
    repeats = max((len(a) for a in scores.answers), default=0)
    return Estimate(
        quantity="accuracy",
        subject=name,
        value=scores.mean,
        low=limits.low,
        high=limits.high,
        confidence=confidence,
        method="scores",
        interval="betting",
        guarantee=Guarantee(**promise, anytime=True, assumptions=(SAMPLED, RIGHT)),
        se=scores.se,
        counts={"labelled": len(scores.item), "repeats": repeats},
        notes=("repeats are averaged inside an item",),
        reason="" if scores.item else "no labelled item",
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PairedScores:
    """Differences d_i of two candidates on the same labelled items, with the least value that each
    could take.

    Examples
    --------
    >>> pairs = PairedScores(item=(1, 2), value=np.array([1.0, 0.0]), low=np.array([-1.0, -1.0]))
    >>> pairs.n, pairs.mean
    (2, 0.5)
    """

    item: tuple[ItemId, ...]
    value: Array
    low: Array
    kinds: tuple[LabelKind, ...] = ()

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.item)

    @property
    def rows(self) -> list[Score]:
        """The differences in the form that betting takes, bounded below only."""
        pairs = zip(self.value.tolist(), self.low.tolist(), strict=True)
        return [Score(v, low, math.inf, 1) for v, low in pairs]

    @property
    def mean(self) -> float:
        """Mean difference of accuracy; NaN without items."""
        return float(self.value.mean()) if self.n else math.nan


def paired(new: ItemScores, old: ItemScores) -> PairedScores:
    """Scores of the difference of accuracies, new minus old, item by item, each bounded below
    before its label is known.

    For ordinary and ruled-out labels d_i = a_i(new) - a_i(old), with the 0 for no answer
    (differences of "not ruled out" would reward a candidate that refuses). Aimed questions take the
    form of :func:`noracle.accuracy.score.difference_scores`. Only items that both have are
    compared.

    Examples
    --------
    >>> labels = ItemLabels({1: ItemLabel(n_classes=4, truth=2), 2: ItemLabel(n_classes=4, ruled_out=frozenset({0}))})
    >>> new = score_outcomes([Outcome(item=1, answer=2, state="answered"), Outcome(item=2, answer=1, state="answered")], labels)
    >>> old = score_outcomes([Outcome(item=1, answer=0, state="answered"), Outcome(item=2, answer=0, state="answered")], labels)
    >>> paired(new, old).value.tolist(), paired(new, old).low.tolist()
    ([1.0, 3.0], [-1.0, -3.0])
    """
    before = dict(zip(old.item, old.answers, strict=True))
    every = zip(new.item, new.answers, new.labels, strict=True)
    rows = [row for row in every if row[0] in before]
    labels = [label for *_, label in rows]
    most, codes = _codes(labels)
    lows = [least_difference("no" if c > 0 else "yes", most, max(c, 1)) for c in codes]
    if _shared(labels):
        lows = [min(lows)] * len(lows)
    values = [_difference(label, answers, before[item]) for item, answers, label in rows]
    return PairedScores(
        item=tuple(item for item, *_ in rows),
        value=np.array(values, dtype=float),
        low=np.array(lows, dtype=float),
        kinds=tuple(label.kind for label in labels),
    )


def _difference(label: ItemLabel, new: Sequence[int | None], old: Sequence[int | None]) -> float:
    """Mean over all pairs of repeats."""
    if not label.asked:
        return _mean_score(label, new) - _mean_score(label, old)
    pairs = [label.label.meet_all((a, b)) for a in new for b in old]
    return sum(float(difference_scores(pair)[0, 1]) for pair in pairs) / len(pairs)
