"""The questions and answers of a running project as arrays, and the records of a dashboard."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noracle.collect.model import DONE, LEASED, UNDO_SECONDS, VOID, ProjectSpec, read_spec
from noracle.collect.service.access import project_of
from noracle.collect.store.base import SQL, Row, Work
from noracle.results import Check, Estimate
from noracle.results.base import encode


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClassProgress:
    """One pool: a class (partitioned), a place of the balanced design (ordinary), or everybody.

    ``asked`` counts main questions, ``answered`` those with an answer, ``in_order`` those before
    the first gap; the rates are shares of the answered ones (``expired_rate``: of the questions
    that somebody has seen).
    """

    pool: int
    name: str
    people: int
    asked: int
    answered: int
    in_order: int
    yes: int
    unsure: int
    expired: int
    unsure_rate: float
    expired_rate: float

    @property
    def completion(self) -> float:
        """Share of the main questions that are answered; 1 where there are none."""
        return self.answered / self.asked if self.asked else 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The interval after so many answers of the sealed order."""

    n: int
    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SystemView:
    """One system.

    ``estimate`` has the value repaired for unequal completion and the interval that holds at every
    look. ``worst`` and ``best`` are the value if all unsure verdicts and absent classes go against
    the system, or for it. ``fixed`` is the interval at the declared n, None before. ``corrected``
    is the sensitivity line with the error rates of gold or panel items, None without them. ``late``:
    uploaded after the first answer, so that it may have been made from the verdicts.
    """

    name: str
    estimate: Estimate
    worst: float
    best: float
    absent_share: float = 0.0
    fixed: Estimate | None = None
    corrected: Estimate | None = None
    path: tuple[Point, ...] = ()
    late: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """A project now. ``alarms`` name checks that failed: falsely in at most 5 % of projects."""

    project: str
    name: str
    state: str
    protocol: str
    n_classes: int
    at: float
    asked: int
    answered: int
    in_order: int
    planned_n: int | None
    pending: int
    classes: tuple[ClassProgress, ...]
    systems: tuple[SystemView, ...]
    checks: tuple[Check, ...]
    rates: Mapping[str, Estimate]
    """Error rates: ``gold false yes``, ``gold false no``, ``panel``."""
    agreement: Estimate | None = None
    notes: tuple[str, ...] = ()

    @property
    def alarms(self) -> tuple[str, ...]:
        """Names of the checks that failed."""
        return tuple(dict.fromkeys(c.name for c in self.checks if not c.passed))

    @property
    def completion(self) -> float:
        """Share of the main questions that are answered."""
        return self.answered / self.asked if self.asked else 0.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON; undefined numbers are None."""
        plain = {f.name: encode(getattr(self, f.name)) for f in dataclasses.fields(self)}
        plain["checks"] = [{**c.to_dict(), "passed": c.passed} for c in self.checks]
        for row, c in zip(plain["classes"], self.classes, strict=True):
            row["completion"] = c.completion
        more = {"alarms": list(self.alarms), "completion": self.completion}
        return {"schema": "live/1", **plain, **more}


Whole = NDArray[np.int64]
Real = NDArray[np.float64]
Bools = NDArray[np.bool_]
KINDS = ("main", "gold", "panel", "attention", "reask")
MAIN, GOLD, PANEL, _, REASK = range(5)
NO, YES = 0, 1
"""Values of a partitioned answer; for pick-wrong and ordinary a value is the number of a class."""
UNANSWERED, UNSURE, TRAP = -1, -2, -3
NO_ANSWER = -1
"""What a system says about an item that it did not answer."""
_FOREVER = np.iinfo(np.int64).max


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Questions in the sealed order (by place), without void ones and with answers to re-asks put
    in their place.

    ``value`` is the answer that counts: the first one, or where that was "unsure" the first that
    was not among the re-asks. ``unsure`` says that the first answer was "unsure". ``held`` marks a
    question that somebody has seen and not answered. ``shown`` and ``verdicts`` (judge-all, grade)
    have one column a shown class or answer. ``propensity`` is None where every class was asked with
    the same chance.
    """

    item: Whole
    place: Whole
    pool: Whole
    kind: Whole
    value: Whole
    unsure: Bools
    held: Bools
    expired: Whole
    shown: Whole | None = None
    verdicts: Whole | None = None
    propensity: Real | None = None
    pending: int = 0
    """Re-asks that wait for an answer."""

    @property
    def done(self) -> Bools:
        """Which questions have an answer."""
        return np.asarray(self.value != UNANSWERED)

    def where(self, chosen: NDArray[Any]) -> Rows:
        """Some of the rows, in the same order."""
        if chosen.dtype == bool and chosen.all():
            return self
        parts = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        arrays = {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}
        return dataclasses.replace(self, **{name: part[chosen] for name, part in arrays.items()})

    @property
    def items(self) -> Whole:
        """The different items, in order."""
        return np.flatnonzero(np.bincount(self.item)) if len(self.item) else self.item

    @property
    def firsts(self) -> Whole:
        """The first row of each item, in the sealed order."""
        return np.sort(np.unique(self.item, return_index=True)[1])

    def of(self, kind: int) -> Rows:
        """The rows of one kind."""
        return self.where(self.kind == kind)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project as the estimators see it.

    ``answers`` maps a system to its answer by item number (-1: none); ``truth`` is that of gold
    items; ``members`` has the number of people in each pool; ``late`` names systems that came after
    the first answer, and ``unrevealed`` those that were committed to and never shown.
    """

    slug: str
    name: str
    state: str
    spec: ProjectSpec
    rows: Rows
    answers: Mapping[str, Whole]
    truth: Mapping[int, int]
    members: Mapping[int, int] = dataclasses.field(default_factory=dict)
    late: frozenset[str] = frozenset()
    unrevealed: tuple[str, ...] = ()


def read_project(work: Work, project: int, *, now: float = math.inf) -> Project:
    """What the live view needs; answers that are not final at ``now`` are as if they had not come."""
    row = project_of(work, project)
    spec = read_spec(row["spec"])
    recent = math.inf if row["state"] == "closed" else now - UNDO_SECONDS
    rows = read_rows(work, project, spec, recent)
    gold = work.all(SQL.gold, project=project)
    members = work.all(SQL.pools_with_people, project=project)
    size = int(rows.item.max()) + 1 if len(rows.item) else 1
    systems = work.all(SQL.systems, project=project)
    committed = [str(r["name"]) for r in work.all(SQL.committed, project=project)]
    return Project(
        **{key: str(row[key]) for key in ("slug", "name", "state")},
        spec=spec,
        rows=rows,
        truth={int(r["item_id"]): int(r["truth"]) for r in gold},
        answers=_read_systems(work, systems, size, row["root"]),
        late=frozenset(str(r["name"]) for r in systems if r["late"]),
        unrevealed=tuple(n for n in committed if n not in {r["name"] for r in systems}),
        members={int(r["pool"]): int(r["n"]) for r in members},
    )


def read_rows(work: Work, project: int, spec: ProjectSpec, recent: float = math.inf) -> Rows:
    """All questions of a project with the answers that count, final since the time ``recent``."""
    kind = " ".join(f"WHEN '{name}' THEN {i}" for i, name in enumerate(KINDS))
    several = spec.drawn
    place = f"((CAST(place AS BIGINT) * 1024 + pool) * 8 + CASE kind {kind} END) * 4 + status"
    packed = f"({place}) * 64 + CASE WHEN lease > 63 THEN 63 ELSE lease END"
    columns = ["id", "item_id", packed, *(["shown"] if several else [])]
    parts = ", ".join(f"{_text(work, column)} AS c{i}" for i, column in enumerate(columns))
    odd = "MAX(CASE WHEN kind = 'main' THEN ABS(propensity - :chance) ELSE 0 END) AS odd"
    # The sign keeps the database to one pass over the table, which is faster than the index here.
    where = "id BETWEEN :first AND :last AND +project_id = :project"
    span = {"first": 0, "last": -1, **(work.one(SQL.question_span, project=project) or {})}
    chance = spec.draws / spec.n_classes
    sql = f"SELECT {parts}, {odd} FROM question WHERE {where}"  # noqa: S608
    found = work.one(sql, project=project, chance=chance, **span) or {}
    texts = [str(found.get(f"c{i}") or "") for i in range(len(columns))]
    ids, items, code = map(_numbers, texts[:3])
    q = {"id": ids, "item": items, "place": code >> 21, "pool": (code >> 11) & 1023}
    q |= {"kind": (code >> 8) & 7, "status": (code >> 6) & 3, "lease": code & 63}
    odd_ones, chances = float(found.get("odd") or 0) > 1e-9, None
    if spec.protocol == "grade" or (spec.protocol == "partitioned" and odd_ones):
        rows = work.all(SQL.propensities, project=project)
        by_id = {int(r["id"]): float(r["propensity"]) for r in rows}
        chances = np.array([by_id[i] for i in ids.tolist()])
    shown = texts[-1] if several else ""
    return _joined(spec, q, _read_answers(work, project, spec, recent), shown, chances)


Columns = Mapping[str, Whole]


def _joined(spec: ProjectSpec, q: Columns, said: Columns, shown: str, chances: Real | None) -> Rows:
    n, ids = len(q["id"]), q["id"]
    value = np.full(n, UNANSWERED, dtype=np.int64)
    width = spec.shown if spec.drawn else 0
    verdicts = np.full((n, width), UNANSWERED) if spec.drawn and spec.judged else None
    if len(said["question"]):
        row_of = np.zeros(int(ids.max()) - int(ids.min()) + 1, dtype=np.int64)
        row_of[ids - ids.min()] = np.arange(n)
        at = row_of[said["question"] - ids.min()]
        value[at] = said["value"]
        if verdicts is not None:
            verdicts[at] = said["verdicts"]
    unsure, again, place = value == UNSURE, q["kind"] == REASK, q["place"]
    pending = int((again & (value == UNANSWERED)).sum())
    second = np.flatnonzero(again & (value != UNANSWERED) & ~unsure)
    better = dict(zip(place[second].tolist(), second.tolist(), strict=True))
    for i in np.flatnonzero(unsure & ~again) if better else ():
        j = better.get(int(place[i]), i)
        value[i] = value[j]
        if verdicts is not None:
            verdicts[i] = verdicts[j]
    used = np.isin(q["status"], [DONE, LEASED])
    keep = np.flatnonzero((q["status"] != VOID) & ~again)
    keep = keep[np.argsort(place[keep], kind="stable")]
    return Rows(
        **{name: q[name][keep] for name in ("item", "place", "pool", "kind")},
        value=value[keep],
        unsure=unsure[keep],
        held=((value == UNANSWERED) & (q["lease"] > 0))[keep],
        expired=np.maximum(q["lease"] - used, 0)[keep],
        shown=_numbers(shown).reshape(n, width)[keep] if width else None,
        verdicts=None if verdicts is None else verdicts[keep],
        propensity=None if chances is None else chances[keep],
        pending=pending,
    )


_VALUE = "CASE value WHEN 'unsure' THEN '-2' WHEN 'none' THEN '-3' ELSE value END"
_PACKED = "question_id * 4 + CASE value WHEN 'yes' THEN 1 WHEN 'no' THEN 0 ELSE 2 END"


def _read_answers(work: Work, project: int, spec: ProjectSpec, recent: float) -> dict[str, Whole]:
    where = f"FROM answer a WHERE +a.project_id = :project AND {SQL.final}"
    known = {"project": project, "recent": recent}
    if spec.protocol == "partitioned":
        code = _packed(work, f"SELECT {_text(work, _PACKED)} AS packed {where}", **known)
        return {"question": code >> 2, "value": np.array([NO, YES, UNSURE, UNSURE])[code & 3]}
    value = _text(work, "value" if spec.judged else _VALUE)
    sql = f"SELECT {_text(work, 'question_id')} AS question, {value} AS value {where}"
    found = work.one(sql, **known) or {}
    question, text = (str(found[name] or "") for name in ("question", "value"))
    if not spec.judged:
        return {"question": _numbers(question), "value": _numbers(text)}
    for word, code_ in (("unsure", str(UNSURE)), ("yes", str(YES)), ("no", str(NO)), ("|", " ")):
        text = text.replace(word, code_)
    verdicts = _numbers(text).reshape(-1, spec.shown)
    value_of = np.where((verdicts == UNSURE).all(axis=1), UNSURE, YES)
    return {"question": _numbers(question), "value": value_of, "verdicts": verdicts}


_KEPT: dict[tuple[str, int, str, int], Whole] = {}
"""A few answers of systems, which never change: a dashboard asks for them every few seconds."""


def _read_systems(work: Work, systems: list[Row], size: int, root: str | None) -> dict[str, Whole]:
    """The answers of each system by item number, in the order in which the systems came."""
    found = {}
    for system in systems:
        # The root of a sealed project is unique in the world.
        key = (str(root), int(system["id"]), str(system["sha256"]), size)
        answers = _KEPT.get(key) if root else None
        if answers is None:
            packed, where = _text(work, "item_id * 1024 + answer"), "system_id = :system"
            sql = f"SELECT {packed} AS packed FROM prediction WHERE {where} AND answer IS NOT NULL"  # noqa: S608
            code = _packed(work, sql, system=key[1])
            last = int(code.max() >> 10) + 1 if len(code) else 0
            answers = np.full(max(size, last), NO_ANSWER, dtype=np.int64)
            answers[code >> 10] = code & 1023
            answers.flags.writeable = False
            if root:
                while len(_KEPT) >= 16:
                    _KEPT.pop(next(iter(_KEPT)), None)
                _KEPT[key] = answers
        found[str(system["name"])] = answers
    return found


def _packed(work: Work, sql: str, **values: object) -> Whole:
    return _numbers(str((work.one(sql, **values) or {})["packed"] or ""))


def _text(work: Work, column: str) -> str:
    """SQL for all values of a column as one text."""
    if work.dialect == "sqlite":
        return f"group_concat({column}, ' ')"
    return f"string_agg(CAST({column} AS text), ' ')"


_BRACKETS = str.maketrans("[],", "   ")


def _numbers(text: str) -> Whole:
    text = text.translate(_BRACKETS)
    return np.fromstring(text if text.strip() else "", sep=" ", dtype=np.int64)


def open_places(rows: Rows, pools: int) -> Whole:
    """For each pool the place up to which its main questions are complete.

    That is the first question which somebody holds or let expire, or the first that nobody has seen
    after the last answered one. (Earlier ones that nobody has seen were passed over because their
    experts know the item already; this does not depend on any answer.)
    """
    places = np.full(pools, _FOREVER, dtype=np.int64)
    last = np.full(pools, -1, dtype=np.int64)
    done = rows.done
    np.maximum.at(last, rows.pool[done], rows.place[done])
    stops = ~done & (rows.held | (rows.place > last[rows.pool]))
    np.minimum.at(places, rows.pool[stops], rows.place[stops])
    return places
