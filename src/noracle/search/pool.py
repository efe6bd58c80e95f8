"""The best of systems that exist already: a race that asks only questions which can change its
outcome.

An item that all systems in the race answered in the same way is passed over: their differences are
0 there, whatever the truth, so the item counts in full and the wealth processes stay valid.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import numpy as np

from noracle.accuracy import Race, compare_systems
from noracle.accuracy.score import verification_scores
from noracle.counts.tally import Label, Pattern, PatternCounts, Verdict
from noracle.errors import require, require_evidence
from noracle.evidence import Evidence
from noracle.results import (
    Assumption,
    Comparison,
    Difference,
    Guarantee,
    Kind,
    Rank,
    check_confidence,
    choose,
)
from noracle.search.fitness import RIGHT, class_places, sizes_of
from noracle.search.model import at_least

_SAMPLE = "the items are a random sample of those that matter, taken in a random order"
_ASKED = "the class to ask about was drawn as recorded"
_ORDERED = Assumption(name="iid items", detail=_SAMPLE, status="assumed")
_DRAWN = Assumption(name="recorded propensities", detail=_ASKED, status="by-design")
Design = Literal["targeted", "equal", "uniform"]
Judge = Callable[[Any, Any], bool | str | None]
"""Says whether an item is of a class: True or "yes", False or "no", None or "unsure"."""


Array = np.ndarray[Any, Any]
_Row = tuple[int, int, float, Verdict]  # place of the item, class, propensity, what was said


@dataclasses.dataclass(frozen=True, slots=True)
class RaceQuestion:
    """One question of a race: the class asked about, its probability among the classes of the item,
    and what was said.
    """

    item: Any
    asked: Any
    propensity: float
    verdict: Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class RaceStep:
    """Where a race stood after some labels: the best guess, and how many systems were left."""

    labels: int
    best: str
    left: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """What a race over a pool found.

    ``comparison.leaders`` are the systems that may be the best: one, or a set that these labels do
    not separate, best guess first. ``asked`` are the questions in order, as judgements with
    propensities. ``passed_over`` counts items on which all systems in the race agreed. ``path``
    says where the race stood after 1, 2, 4, 8, … labels and at its end.

    Examples
    --------
    >>> truth = [i % 3 for i in range(300)]
    >>> answers = {"item": [*range(300)] * 2, "system": ["a"] * 300 + ["b"] * 300, "answer": truth + [0] * 300}
    >>> picked = race_pool(Evidence.from_tables(answers=answers, n_classes=3), lambda item, k: truth[item] == k)
    >>> picked.best, picked.separable, picked.judgements()["verdict"][:2]
    ('a', True, ['no', 'no'])
    """

    comparison: Comparison
    asked: tuple[RaceQuestion, ...]
    passed_over: int
    design: Design
    path: tuple[RaceStep, ...] = ()

    @property
    def best(self) -> str:
        """The system with the highest estimate among those that may be the best."""
        return self.comparison.leaders[0]

    @property
    def separable(self) -> bool:
        """Whether only one system is left."""
        return len(self.comparison.leaders) == 1

    def judgements(self) -> dict[str, list[Any]]:
        """The questions as a judgements table (unbiased for differences of the systems that were in
        the race when it was asked).
        """
        names = {"item": "item", "class": "asked", "verdict": "verdict", "propensity": "propensity"}
        return {name: [getattr(a, field) for a in self.asked] for name, field in names.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """Answers of systems to items as numbers of classes, one row per system; -1 is no answer. Made by
    :meth:`read`.

    Examples
    --------
    >>> answers = {"item": [1, 1, 2, 2], "system": ["a", "b", "a", "b"], "answer": [0, 2, 1, None]}
    >>> pool = Pool.read(Evidence.from_tables(answers=answers, n_classes=3))
    >>> pool.systems, pool.answers.tolist()
    (('a', 'b'), [[0, 1], [2, -1]])
    """

    systems: tuple[str, ...]
    items: tuple[Any, ...]
    n_classes: Array
    answers: Array
    names: tuple[int | str, ...] | None

    @classmethod
    def read(cls, evidence: Evidence, systems: Sequence[str] | None = None) -> Pool:
        """The items that all systems were asked about, sorted, so that the order of rows does not
        matter.
        """
        require_evidence(evidence.answers is not None, "evidence", "must have answers", "none")
        evidence.check()
        place, n_classes = class_places(evidence), sizes_of(evidence)
        given: dict[Any, dict[str, int]] = defaultdict(dict)
        for item, system, answer in evidence.rows("answers", "item", "system", "answer"):
            number = -1 if answer is None else int(answer) if place is None else place[answer]
            given[item][str(system)] = number
        every = {s for row in given.values() for s in row}
        names = sorted(every) if systems is None else list(dict.fromkeys(systems))
        missing = [s for s in names if s not in every]
        came = f"{missing}, which have no answers"
        require_evidence(not missing, "systems", "must be in answers", came)
        require(len(names) >= 2, f"systems must be at least two; got {names}.")
        items = tuple(sorted(item for item, row in given.items() if row.keys() >= set(names)))
        rule = "must have items that all systems were asked about"
        require_evidence(items, "answers", rule, "none")
        sizes = np.array([n_classes(item) for item in items])
        table = np.array([[given[item][s] for item in items] for s in names])
        return cls(tuple(names), items, sizes, table, evidence.classes)

    def classes_of(self, t: int) -> Sequence[int | str]:
        """The classes of an item."""
        k = int(self.n_classes[t])
        return range(k) if self.names is None else self.names[:k]

    def chances(self, t: int, alive: Array | None, *, uniform: bool) -> Array | None:
        """The probability of each class of the item; None where all systems in the race agree, so
        that no label can tell them apart.
        """
        k = int(self.n_classes[t])
        if uniform:
            return np.full(k, 1 / k)
        given = self.answers[:, t] if alive is None else self.answers[alive, t]
        if alive is not None and (given == given[0]).all():
            return None
        weights = np.sqrt(np.bincount(given[given >= 0], minlength=k))
        total = weights.sum()
        return weights / total if total > 0 else np.full(k, 1 / k)

    def question(self, row: _Row) -> RaceQuestion:
        """One question by the names of its item and class."""
        t, k, propensity, verdict = row
        return RaceQuestion(self.items[t], self.classes_of(t)[k], propensity, verdict)

    def scores(self, row: _Row) -> Array:
        """1/2 + 1{asked}·(verdict - 1/2)/π for each system that answered: differences of systems in
        the race are unbiased.
        """
        t, asked, propensity, verdict = row
        given = self.answers[:, t]
        if verdict == "unsure":
            return np.zeros(len(given))
        how: dict[str, Any] = {"propensity": propensity, "guess": 0.5}
        return verification_scores(given == asked, given >= 0, yes=verdict == "yes", **how)

    def pattern(self, row: _Row, only: Array | None = None) -> Pattern:
        """One question as the race and the comparison take it."""
        t, asked, propensity, verdict = row
        given = (self.answers[:, t] if only is None else self.answers[only, t]).tolist()
        label = Label(int(self.n_classes[t]), verdict, frozenset({asked}), propensity)
        return label.meet_all([None if a < 0 else a for a in given])


def race_pool(
    evidence: Evidence | Pool,
    judge: Judge,
    *,
    design: Design = "targeted",
    budget: int | None = None,
    until: int = 1,
    systems: Sequence[str] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Picked:
    """Find the best of several systems with as few questions as possible.

    A question is "is item i of class k?" and costs one label. Systems that are certainly not the
    best are dropped. The best system is ever dropped with probability at most 1 - ``confidence``,
    whenever the race ends.

    Parameters
    ----------
    evidence
        The answers of every system to every item (null: no answer, which is wrong). Judgements in
        it are not looked at. For many races read them once, with :meth:`Pool.read`.
    judge
        Asked (item, class); answers True, False or None (unsure: the label is spent, the item says
        nothing).
    design
        ``targeted`` asks about answers of the systems *still in the race*, only where they differ.
        ``equal`` asks about the answers of all systems to the end, ``uniform`` about any class;
        both take every item. They are there to compare with.
    budget
        The most labels; by default one for each item.
    until
        Stop when so few systems are left.

    Notes
    -----
    Of the answers to an item, class k is asked with probability π_k ∝ √(number of systems that gave
    it), which minimises the summed variance Σ n_k/π_k. A pair of systems i, j with different
    answers gets the score 1{i's class asked, yes}/π + 1{j's class asked, no}/π - 1, whose mean is
    the difference of accuracies and which is never below -1; a pair with the same answer gets 0.

    Assumes that the items are a random sample of those that matter (or all of them: drawn without
    replacement the wealth is, at any number of items fixed beforehand, no larger on average) and
    that verdicts are right. Labels of a targeted race compare the systems in it; they are no sample
    to estimate an accuracy from.

    References
    ----------
    Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27, for the wealth processes.

    Examples
    --------
    >>> truth = [i % 3 for i in range(300)]
    >>> answers = {"item": [*range(300)] * 2, "system": ["a"] * 300 + ["b"] * 300, "answer": truth + [0] * 300}
    >>> picked = race_pool(Evidence.from_tables(answers=answers, n_classes=3), lambda item, k: truth[item] == k)
    >>> picked.best, picked.separable, len(picked.asked) < 30
    ('a', True, True)
    """
    choose("design", design, ("targeted", "equal", "uniform"))
    rule = "systems must be left out where the pool was read before"
    fine = systems is None or not isinstance(evidence, Pool)
    require(fine, f"{rule}; name them in Pool.read.")
    pool = evidence if isinstance(evidence, Pool) else Pool.read(evidence, systems)
    limit = len(pool.items) if budget is None else budget
    at_least(0, budget=budget)
    at_least(1, until=until)
    rng, aimed = np.random.default_rng(seed), design == "targeted"
    most, level = int(pool.n_classes.max()), check_confidence(confidence)
    race = Race(pool.systems, n_classes=most, confidence=level, aimed=aimed)
    alive = np.arange(len(pool.systems))
    rows: list[_Row] = []
    path: list[RaceStep] = []
    values, read = np.zeros(len(pool.systems)), 0
    for t in map(int, rng.permutation(len(pool.items))):
        if len(rows) >= limit or len(alive) <= until:
            break
        read += 1
        chances = pool.chances(t, alive if aimed else None, uniform=design == "uniform")
        if chances is None:
            continue
        drawn = np.searchsorted(np.cumsum(chances), rng.random(), side="right")
        k = min(int(drawn), len(chances) - 1)
        said = _verdict(judge(pool.items[t], pool.classes_of(t)[k]))
        rows.append(row := (t, k, float(chances[k]), said))
        values += pool.scores(row)
        race.update(pool.pattern(row))
        if race.dropped:
            alive = np.array([i for i in alive if pool.systems[i] not in race.dropped])
        if len(rows).bit_count() == 1:
            best = pool.systems[alive[np.argmax(values[alive])]]
            path.append(RaceStep(len(rows), best, len(alive)))
    return _picked(pool, race, rows, path, values / max(1, read), read, design)


class AimedLabels:
    """Yes/no questions about the answers that candidates gave, asked once and shared by all of
    them, also by those that come later.

    Items come in random order. The first question of an item is about the answer that most of the
    candidates in the race gave: a yes is an ordinary label for everybody. After a no comes one more
    question, about a class drawn among the others with a recorded probability that is never 0.
    Where all candidates in the race agree, an item is only asked about with probability ``unanimous``.

    Parameters
    ----------
    n_classes
        The number of classes of every item.
    judge
        Asked (place of the item, class); answers True, False or None (unsure: the item says
        nothing).
    budget
        The most questions. An item is begun only where two are left, so that no item is dropped
        after a no.
    uniform
        The share of second questions that goes to all classes equally, so that the scores of later
        candidates, which give other answers, stay calm.
    unanimous
        The probability that an item is asked about on which all agree.

    Notes
    -----
    The score of an answer c to an item is 1{c right} after a yes, 0 for a class that had a no, and
    else q_c + (1{k = c} - a_c)·(v - q_k)/π_k: k is the class of the second question, v its verdict,
    q the shares of the answers, a_c ∝ q_c(1 - q_c)/π_c. Exactly one class is right, therefore its
    mean is 1{c right} whatever q is; q and a only make it less noisy. Items on which all agree have
    q_c + 1{asked}·(score - q_c)/``unanimous``. No answer scores 0. q and π are settled before the
    verdict that they go with, from the answers alone. The number of items that a budget
    reaches follows from the verdicts, which leaves a bias of the order of one item.

    Assumes that the items are a random sample of those that matter, that each has one right class,
    and that verdicts are right. The mean over the items that were read is unbiased for a candidate
    that was fixed before they were labelled; the best of many looks better than it is.

    Examples
    --------
    >>> truth = np.arange(60) % 3
    >>> answers = np.array([truth, np.zeros(60, int), (truth + 1) % 3])
    >>> labels = AimedLabels(np.full(60, 3), lambda item, k: bool(truth[item] == k), budget=50, seed=1)
    >>> labels.ask(answers), labels.spent <= 50
    (False, True)
    >>> labels.scores(answers).mean(axis=1).round(1).tolist()
    [1.0, 0.4, 0.0]
    """

    def __init__(
        self,
        n_classes: Array,
        judge: Judge,
        *,
        budget: int,
        uniform: float = 0.4,
        unanimous: float = 0.25,
        seed: int = 0,
    ) -> None:
        at_least(2, budget=budget)
        for name, value in {"uniform": uniform, "unanimous": unanimous}.items():
            require(0 < value <= 1, f"{name} must be in (0, 1]; got {value}.")
        self.n_classes, self.judge, self.budget = np.asarray(n_classes), judge, budget
        self.uniform, self.unanimous = uniform, unanimous
        self._rng = np.random.default_rng(seed)
        self._order = self._rng.permutation(len(self.n_classes)).tolist()
        self._read: dict[int, Array] = {}
        self.asked: list[RaceQuestion] = []

    @property
    def spent(self) -> int:
        """How many questions were asked."""
        return len(self.asked)

    @property
    def read(self) -> tuple[int, ...]:
        """The places of the items that have a score, in the order in which they were read."""
        return tuple(self._read)

    def ask(self, answers: Array, *, at_most: int | None = None) -> bool:
        """Ask about the answers of the candidates in the race: one row per candidate, one column
        per item, -1 for no answer. False where the budget or the items have run out.
        """
        goal = self.budget if at_most is None else min(self.budget, self.spent + at_most)
        while self._order and self.spent < goal and self.spent + 2 <= self.budget:
            t = self._order.pop(0)
            found = self._item(t, np.asarray(answers)[:, t])
            if found is not None:
                self._read[t] = found
        return bool(self._order) and self.spent + 2 <= self.budget

    def scores(self, answers: Array) -> Array:
        """The score of each candidate for each item that was read, in the order of :attr:`read`."""
        given, most = np.asarray(answers)[:, list(self._read)], int(self.n_classes.max())
        table = np.zeros((len(self._read), most + 1))  # the last column: no answer
        for row, score in zip(table, self._read.values(), strict=True):
            row[: len(score)] = score
        return np.asarray(table[np.arange(len(table)), given])

    def _item(self, t: int, given: Array) -> Array | None:
        """The score of each class of an item; None where a verdict is unsure."""
        k = int(self.n_classes[t])
        votes = np.bincount(given[given >= 0], minlength=k).astype(float)
        share: Array = np.asarray((votes + 0.5) / (votes + 0.5).sum())
        p = 1.0 if votes.max() < len(given) else self.unanimous
        if p < 1 and self._rng.random() >= p:
            return share
        first = int(np.argmax(votes))
        score = np.zeros(k)
        said = self._put(t, first, p)
        if said == "yes":
            score[first] = 1.0
        elif said == "no" and k == 2:
            score[1 - first] = 1.0
        elif said == "no":
            rest = np.delete(np.arange(k), first)
            q, weight = share[rest] / share[rest].sum(), np.sqrt(votes[rest])
            aimed = weight / weight.sum() if weight.any() else np.full(len(rest), 1 / len(rest))
            chances = (1 - self.uniform) * aimed + self.uniform / len(rest)
            drawn = int(np.searchsorted(np.cumsum(chances), self._rng.random(), side="right"))
            j = min(drawn, len(rest) - 1)
            said = self._put(t, int(rest[j]), p * float(chances[j]))
            noise = q * (1 - q) / chances
            shared = noise / noise.sum() if noise.any() else noise
            hit = np.arange(len(rest)) == j
            score[rest] = q + (hit - shared) * ((said == "yes") - q[j]) / chances[j]
        if said == "unsure":
            return None
        return np.asarray(share + (score - share) / p)

    def _put(self, t: int, k: int, propensity: float) -> Verdict:
        said = _verdict(self.judge(t, k))
        self.asked.append(RaceQuestion(t, k, propensity, said))
        return said


def _verdict(said: bool | str | None) -> Verdict:
    if said is None or isinstance(said, (bool, np.bool_)):
        return "unsure" if said is None else "yes" if said else "no"
    rule = "judge must answer True, False or None (or yes, no, unsure)"
    require(said in ("yes", "no", "unsure"), f"{rule}; got {said!r}.")
    return cast("Verdict", said)


def _picked(
    pool: Pool,
    race: Race,
    rows: Sequence[_Row],
    path: Sequence[RaceStep],
    values: Array,
    read: int,
    design: Design,
) -> Picked:
    value = dict(zip(pool.systems, values.tolist(), strict=True))
    names = sorted(race.leaders, key=lambda s: (-value[s], s))
    left = np.array([pool.systems.index(s) for s in names])
    most, last = len(names), sorted(race.dropped, key=lambda s: (-race.dropped[s], s))
    own = {s: value[s] if most > 1 else math.nan for s in names}
    ranks = [Rank(system=s, best=1, worst=most, value=own[s]) for s in names]
    ranks += [Rank(system=s, best=2, worst=len(value), value=math.nan) for s in last]
    spent, passed_over = len(rows), read - len(rows)
    unsure = sum(row[3] == "unsure" for row in rows)
    same = "all systems in the race gave the same answer"
    notes = {
        f"{passed_over} items were passed over: {same}": passed_over,
        f"not separable with {spent} labels: {', '.join(names)}": len(names) > 1,
    }
    promise: dict[str, Any] = {"kind": Kind.FINITE_SAMPLE, "error_rate": 1 - race.confidence}
    comparison = Comparison(
        systems=pool.systems,
        differences=_differences(pool, rows, left, read, race.confidence),
        ranks=tuple(ranks),
        leaders=tuple(names),
        confidence=race.confidence,
        method=f"race of paired scores, {design} questions",
        interval="betting",
        dropped=dict(race.dropped),
        guarantee=Guarantee(**promise, anytime=True, assumptions=(_ORDERED, _DRAWN, RIGHT)),
        counts={"labelled": spent, "items": read, "unsure": unsure, "passed_over": passed_over},
        notes=tuple(said for said, holds in notes.items() if holds),
    )
    end = [RaceStep(spent, names[0], len(names))] if not path or path[-1].labels < spent else []
    return Picked(
        comparison=comparison,
        asked=tuple(pool.question(row) for row in rows),
        passed_over=passed_over,
        design=design,
        path=(*path, *end),
    )


def _differences(
    pool: Pool, rows: Sequence[_Row], left: Array, read: int, confidence: float
) -> tuple[Difference, ...]:
    """Differences among the systems left, at the limits that all pairs would have."""
    if len(left) < 2 or not read:
        return ()
    patterns = Counter(pool.pattern(row, left) for row in rows)
    if read > len(rows):
        same = Label(int(pool.n_classes.max()), "no", frozenset({1}), 1.0).meet_all([0] * len(left))
        patterns[same] = read - len(rows)
    counts = PatternCounts(systems=tuple(pool.systems[i] for i in left), patterns=dict(patterns))
    pairs = math.comb(len(pool.systems), 2)
    level = 1 - (1 - confidence) * math.comb(len(left), 2) / pairs
    return compare_systems(counts, interval="betting", confidence=level).differences
