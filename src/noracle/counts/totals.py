"""All counts of one evidence together, and their sum over partitions.

Counted     accuracy, judgements, patterns and decisions of some items; counts of disjoint sets of items add
Reading     which partitions were read, known, changed or gone
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np

from noracle.counts.count import (
    NOT_ALL_SYSTEMS,
    WITHOUT_ANSWERS,
    as_aimed,
    count_accuracy,
    count_first_verdicts,
    count_judgements,
    judged_in,
    labels_of,
)
from noracle.counts.patterns import count_patterns, unlabelled_patterns
from noracle.counts.sketch import MISSING, Sketch, count_decisions
from noracle.counts.tally import (
    PER_SYSTEM,
    AccuracyCounts,
    Cell,
    JudgementCounts,
    Pattern,
    PatternCounts,
    Question,
    read_states,
    repeats_together,
    require_schema,
    state_rows,
    summed,
    text_key,
)
from noracle.errors import EvidenceError
from noracle.evidence.evidence import Evidence
from noracle.evidence.labels import as_recorded, knows_classes, propensities_of

SCHEMA = "counted/1"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Which partitions stand behind counts, by name.

    ``read`` were read now, ``known`` come from the store, ``changed`` are those of ``read`` that
    the store held in another state, and ``vanished`` are in the store but were not given now.
    """

    read: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()

    def line(self) -> str:
        """One sentence for people.

        Examples
        --------
        >>> Reading(read=("day=2",), known=("day=1",), changed=("day=2",)).line()
        '2 partitions: 1 read, 1 known from before; changed: day=2.'
        """
        n = len(self.read) + len(self.known)
        text = f"{n} partition{'' if n == 1 else 's'}: {len(self.read)} read, {len(self.known)} known from before"
        for word, names in (("changed", self.changed), ("vanished", self.vanished)):
            if names:
                more = f" and {len(names) - 5} more" if len(names) > 5 else ""
                text += f"; {word}: {', '.join(names[:5])}{more}"
        return text + "."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Everything that was counted of some items.

    Counts of disjoint sets of items add (``a + b``): the sum is what one count of all items would
    give, also where a system answered in only some of the parts.

    Attributes
    ----------
    accuracy
        How answers met labels, by system; None without answers.
    judgements
        What was asked and said; None without judgements.
    patterns
        How systems met the same labels together; None without answers, empty but for its population
        without judgements.
    decisions, answers_only
        Patterns of answers with what judgements say of the items, and without; None where they were
        not asked for. A part without any answer has none, so items of such a part are in no pattern
        of a sum; nothing that is proved of the others changes.
    first_verdicts
        Where propensities were recorded: items by their first verdict and the number of questions
        about them.
    reading
        Which partitions were read; no part of the value.

    Examples
    --------
    >>> evidence = Evidence.from_tables(
    ...     answers={"item": [1, 2, 3], "system": ["a", "a", "a"], "answer": [0, 2, None]},
    ...     judgements={"item": [1, 2], "class": [0, 2], "verdict": ["yes", "no"]},
    ...     n_classes=3,
    ... )
    >>> counted = count_evidence(evidence)
    >>> counted.accuracy.summary()["labelled"], counted.decisions.n_items
    (2, 3)
    >>> Counted.from_dict(counted.to_dict()) == counted
    True
    """

    accuracy: AccuracyCounts | None = None
    judgements: JudgementCounts | None = None
    patterns: PatternCounts | None = None
    decisions: Sketch | None = None
    answers_only: Sketch | None = None
    first_verdicts: Mapping[tuple[str, int], int] = dataclasses.field(default_factory=dict)
    reading: Reading = dataclasses.field(default_factory=Reading, compare=False)

    def __repr__(self) -> str:
        parts = (self.accuracy, self.judgements, self.patterns, self.decisions, self.answers_only)
        return f"Counted({', '.join(repr(part) for part in parts if part is not None)})"

    def __add__(self, other: Counted) -> Counted:
        """Counts of disjoint sets of items add."""
        return Counted.total([self, other])

    @property
    def propensities(self) -> str:
        """Whether probabilities of the questions were recorded; see :class:`AccuracyCounts`."""
        return "none" if self.accuracy is None else self.accuracy.propensities

    @classmethod
    def total(cls, parts: Iterable[Counted]) -> Counted:
        """The sum of many parts at once, which is faster than one after the other.

        Examples
        --------
        >>> Counted.total([]) == Counted()
        True
        """
        found = list(parts)
        accuracy = [p.accuracy for p in found if p.accuracy is not None]
        judgements = [p.judgements for p in found if p.judgements is not None]
        names = [f.name for f in dataclasses.fields(Reading)]
        read = {name: tuple(n for p in found for n in getattr(p.reading, name)) for name in names}
        return cls(
            accuracy=functools.reduce(operator.add, accuracy).ordered() if accuracy else None,
            judgements=functools.reduce(operator.add, judgements).ordered() if judgements else None,
            patterns=_added_patterns(found),
            decisions=add_sketches(p.decisions for p in found),
            answers_only=add_sketches(p.answers_only for p in found),
            first_verdicts=summed(*(p.first_verdicts for p in found)),
            reading=Reading(**read),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values with schema ``counted/1``: items are counted, never named."""
        writers: dict[str, Callable[[Any], dict[str, Any]]] = {
            "accuracy": AccuracyCounts.to_dict,
            "judgements": _judgements_to_dict,
            "patterns": _patterns_to_dict,
            "decisions": Sketch.to_dict,
            "answers_only": Sketch.to_dict,
        }
        data: dict[str, Any] = {"schema": SCHEMA}
        for name, write in writers.items():
            counts = getattr(self, name)
            data[name] = None if counts is None else write(counts)
        verdicts = [[*key, n] for key, n in sorted(self.first_verdicts.items())]
        return {**data, "first_verdicts": verdicts} if verdicts else data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read back what :meth:`to_dict` wrote."""
        require_schema(data, SCHEMA)
        readers = {
            "accuracy": AccuracyCounts.from_dict,
            "judgements": _judgements_from_dict,
            "patterns": _patterns_from_dict,
            "decisions": Sketch.from_dict,
            "answers_only": Sketch.from_dict,
        }
        found: dict[str, Any] = {
            name: read(data[name]) for name, read in readers.items() if data.get(name) is not None
        }
        verdicts = data.get("first_verdicts", ())
        first = {(str(verdict), int(asked)): int(n) for verdict, asked, n in verdicts}
        return cls(**found, first_verdicts=first)

    def without_clusters(self) -> Counted:
        """The same counts as if items had not been counted by cluster."""
        accuracy = None if self.accuracy is None else self.accuracy.without_clusters()
        patterns = None if self.patterns is None else self.patterns.without_clusters()
        return dataclasses.replace(self, accuracy=accuracy, patterns=patterns)

    def without_chances(self) -> Counted:
        """The same counts as if the questions had not been aimed; see
        :meth:`AccuracyCounts.without_chances`.
        """
        if self.accuracy is None:
            return self
        return dataclasses.replace(self, accuracy=self.accuracy.without_chances())


def count_evidence(
    evidence: Evidence,
    *,
    sketch: bool | Literal["decisions"] = True,
    by_cluster: bool = False,
    recorded: bool = False,
    aim: float | None = None,
) -> Counted:
    """All counts of one evidence; judgements are gathered into labels once for all of them.

    Parameters
    ----------
    evidence
        Answers, judgements, grades.
    sketch
        Also count the patterns of answers, for proofs from answers alone; ``"decisions"`` only
        those with what judgements say.
    by_cluster
        Keep the cluster of each item.
    recorded
        The tables are part of larger ones in which propensities other than 1/K were recorded, so
        that 1/K is no uniform question here.
    aim
        The tables are part of larger ones in which questions were aimed at the answers, with this
        uniform share.

    Returns
    -------
    Counted
        Equal to ``count_accuracy``, ``count_judgements``, ``count_patterns`` and
        ``count_decisions`` one by one.

    Examples
    --------
    >>> evidence = Evidence.from_tables(judgements={"item": [1, 2], "class": [0, 0], "verdict": ["yes", "no"]}, n_classes=3)
    >>> counted = count_evidence(evidence)
    >>> sum(counted.judgements.questions.values()), counted.patterns is None
    (2, True)
    """
    if recorded and propensities_of(evidence) == "uniform":
        evidence = as_recorded(evidence)
    if aim is not None:
        evidence = as_aimed(evidence, aim)
    evidence.check()
    judgements = None if evidence.judgements is None else count_judgements(evidence)
    first = count_first_verdicts(evidence)
    if evidence.answers is None and evidence.grades is None:
        accuracy = _unanswered(evidence)
        return Counted(accuracy=accuracy, judgements=judgements, first_verdicts=first)
    # Free text has no classes to agree on.
    sketch = sketch and evidence.answers is not None and knows_classes(evidence)
    bare = evidence.judgements is None and evidence.grades is None
    patterns = unlabelled_patterns if bare else count_patterns
    return Counted(
        accuracy=count_accuracy(evidence, by_cluster=by_cluster),
        judgements=judgements,
        patterns=patterns(evidence, by_cluster=by_cluster),
        decisions=count_decisions(evidence) if sketch else None,
        answers_only=count_decisions(evidence, judgements="ignore") if sketch is True else None,
        first_verdicts=first,
    )


def remember(evidence: Evidence, counted: Counted) -> None:
    """Let an evidence know its partitions' counts: its rows keep the rules, its design is known."""
    evidence._kept["propensities"] = evidence._about, counted.propensities
    evidence._kept["first verdicts"] = evidence._about, counted.first_verdicts
    evidence._checked.append(True)


def _unanswered(evidence: Evidence) -> AccuracyCounts:
    """Judgements without any answers: nothing is labelled, and what was said is named as unused."""
    labels = labels_of(evidence)
    told = {**labels.unused, WITHOUT_ANSWERS: judged_in(labels.items)}
    unused, design = {name: n for name, n in told.items() if n}, propensities_of(evidence)
    about: dict[str, Any] = {"inferred": evidence.assumed, "propensities": design}
    return AccuracyCounts(tallies={}, items={}, answered={}, unused=unused, **about)


def _added_patterns(parts: Sequence[Counted]) -> PatternCounts | None:
    """Patterns of all parts; items of a part without some system were not put to all."""
    found = [p.patterns for p in parts if p.patterns is not None]
    if not found:
        return None
    seen = {s for p in parts if p.accuracy is not None for s in p.accuracy.systems}
    systems = tuple(sorted(seen.union(*(counts.systems for counts in found))))
    total: Counter[Pattern] = Counter()
    unused: Counter[str] = Counter()
    items: Counter[Cell] = Counter()
    for counts in found:
        own = counts.patterns
        if counts.systems == systems:
            total.update(own)
            items.update(counts.items)
        elif own:
            graded = [p for p in own if p.design == "graded"]
            total.update({_widened(p, counts.systems, systems): own[p] for p in graded})
            left = sum(n for p, n in own.items() if p.design != "graded")
            unused.update({NOT_ALL_SYSTEMS: left} if left else {})
            items.update(counts.items if graded else {})
    # Answers or judgements alone make no patterns.
    told = [p.accuracy if p.patterns is None else p.patterns for p in parts]
    rest = [counts for counts in told if counts is not None]
    mine = [counts for counts in found if counts.systems == systems]
    silent = any(counts.silent for counts in mine)
    return PatternCounts(
        systems=systems,
        patterns=dict(total),
        unused=summed(unused, *(counts.unused for counts in rest)),
        inferred=tuple(dict.fromkeys(line for p in found for line in p.inferred)),
        states=summed(*(counts.states for counts in rest)),
        items=dict(items),
        whole=all(counts.whole for counts in found),
        silent=summed(*(counts.by_silence() for counts in mine)) if silent else {},
        **repeats_together(found),
    ).ordered()


def _widened(p: Pattern, own: Sequence[str], systems: Sequence[str]) -> Pattern:
    """A pattern of grades among more systems, of which it says nothing."""
    place = {name: i for i, name in enumerate(own)}
    known = p.known or (True,) * len(own)
    return p._replace(
        hits=tuple(p.hits[place[s]] if s in place else False for s in systems),
        known=tuple(s in place and known[place[s]] for s in systems),
    )


def add_sketches(parts: Iterable[Sketch | None]) -> Sketch | None:
    """The sum of sketches; classifiers and labels that a part lacks are missing there."""
    sketches = [sketch for sketch in parts if sketch is not None]
    if len(sketches) < 2:
        return sketches[0] if sketches else None
    classifiers = sorted({c for s in sketches for c in s.classifiers})
    labels = max((s.labels for s in sketches), key=len)
    for sketch in sketches:
        if sketch.labels != labels[: len(sketch.labels)]:
            came = f"{list(sketch.labels)} and {list(labels)}"
            raise EvidenceError.of("labels of the sketches", "must be the same", came)
    codes = np.full((sum(s.n_groups for s in sketches), len(classifiers)), MISSING, dtype=np.int16)
    allowed = np.zeros((len(codes), len(labels)), dtype=bool)
    start = 0
    for sketch in sketches:
        rows = slice(start, start + sketch.n_groups)
        codes[rows, [classifiers.index(c) for c in sketch.classifiers]] = sketch.patterns
        allowed[rows, : len(sketch.labels)] = sketch.allowed
        start += sketch.n_groups
    n = np.concatenate([s.n for s in sketches])
    return Sketch.from_arrays(codes, labels=labels, classifiers=classifiers, allowed=allowed, n=n)


def _judgements_to_dict(counts: JudgementCounts) -> dict[str, Any]:
    rows = sorted(counts.questions.items(), key=text_key)
    questions = [{**q._asdict(), "n": n} for q, n in rows]
    return {"questions": questions, "inferred": list(counts.inferred)}


def _judgements_from_dict(data: Mapping[str, Any]) -> JudgementCounts:
    questions = {Question(**_fields(row)): int(row["n"]) for row in data["questions"]}
    return JudgementCounts(questions=questions, inferred=tuple(data["inferred"]))


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """All of a row but how often it was counted; lists are tuples again."""
    return {
        k: tuple(v) if k in PER_SYSTEM and v is not None else v for k, v in row.items() if k != "n"
    }


def _patterns_to_dict(counts: PatternCounts) -> dict[str, Any]:
    patterns = [{**p._asdict(), "n": n} for p, n in sorted(counts.patterns.items(), key=text_key)]
    for row in patterns:
        if row["known"] is None:
            del row["known"]
    silent = [(c._asdict(), list(m), n) for (c, m), n in sorted(counts.silent.items())]
    told: dict[str, Any] = {"runs": dict(counts.runs), "repeats": counts.repeats}
    told["most_answers"] = dict(counts.most_answers)
    return {
        "systems": list(counts.systems),
        "patterns": patterns,
        "unused": dict(counts.unused),
        "inferred": list(counts.inferred),
        "states": state_rows(counts.states),
        "population": [{**c._asdict(), "n": n} for c, n in sorted(counts.items.items())],
        **(told if counts.runs else {}),
        **({} if counts.whole else {"whole": False}),
        **({"silent": [{**c, "missing": m, "n": n} for c, m, n in silent]} if silent else {}),
    }


def _patterns_from_dict(data: Mapping[str, Any]) -> PatternCounts:
    silent = {}
    for row in data.get("silent", ()):
        cell = Cell(**{k: row[k] for k in Cell._fields})
        silent[cell, tuple(map(bool, row["missing"]))] = int(row["n"])
    return PatternCounts(
        systems=tuple(data["systems"]),
        patterns={Pattern(**_fields(row)): int(row["n"]) for row in data["patterns"]},
        unused=dict(data["unused"]),
        inferred=tuple(data["inferred"]),
        states=read_states(data["states"]),
        items={Cell(**_fields(row)): int(row["n"]) for row in data.get("population", ())},
        runs=dict(data.get("runs", {})),
        repeats=data.get("repeats", "mean"),
        most_answers=dict(data.get("most_answers", {})),
        whole=bool(data.get("whole", True)),
        silent=silent,
    )
