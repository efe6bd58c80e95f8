"""Judgements of the same item as one label.

Whether questions were uniform is a property of the whole table (``propensities_of``): a propensity
that happens to be 1/K in a table with others belongs to a design that may depend on the answers.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import narwhals as nw

from noracle.errors import EvidenceError, fault, raise_faults
from noracle.evidence.frames import (
    Frame,
    cases,
    distinct,
    engine_of,
    fetch,
    has_rows,
    is_there,
    keeps_order,
    number_rows,
    open_frames,
)
from noracle.evidence.tables import (
    GRADES,
    MAX_CLASSES,
    NO,
    STATES,
    TABLES,
    UNKNOWN,
    UNSURE,
    YES,
    Column,
    TableRules,
    either,
    normalise,
    odd,
    shown,
)

if TYPE_CHECKING:
    from noracle.evidence.evidence import Evidence

_KNOWN = (Column(name="item", kind="id"), Column(name="label", kind="class"))


def read_known(known: object, *, name: str = "known") -> dict[Any, Any]:
    """Labels by item, from a table ``item``, ``label`` (in any form that evidence takes) or from a
    mapping; without a label, not known.
    """
    if isinstance(known, Mapping) and isinstance(known.get("item", 0), (int, str)):
        return dict(known)  # it is not a dict of columns
    frames, connection = open_frames({name: known})
    table = TableRules(name=name, columns=_KNOWN, key=("item",))
    frame, faults = normalise(frames[name], table)
    raise_faults(faults)
    rows = fetch(frame.select("item", "label").filter(is_there("label")))
    del connection  # it had to live until the rows were read
    twice = [item for item, n in Counter(row[0] for row in rows).items() if n > 1]
    if twice:
        rule = "must name each item once, with one label for each item"
        where: dict[str, Any] = {"where": twice, "total": len(twice)}
        remedy = "Keep one row per item."
        raise EvidenceError.of(name, rule, "some more often", **where, remedy=remedy)
    return dict(rows)


_MEANT = ("label", "answer", "key", "truth", "target", "gold", "correct", "class")
KEYS = (*_MEANT, "true_label", "correct_answer")
"""What people call the column with the true class."""


def read_key(key: object, column: str | None = None) -> dict[Any, Any]:
    """The true class by item, from a mapping or a table with ``item`` and ``column`` (by default
    the one column named as in KEYS).
    """
    values = key.values() if isinstance(key, Mapping) else ()
    columns = any(isinstance(v, (list, tuple)) or hasattr(v, "__array__") for v in values)
    if isinstance(key, Mapping) and not columns:
        return dict(key)
    frames, connection = open_frames({"key": key})
    names = frames["key"].columns
    found = [name for name in names if name in (KEYS if column is None else (column,))]
    if len(found) != 1 or "item" not in names:
        which = f"one of {', '.join(KEYS)}" if column is None else f"the column {column}"
        rule = f"must have a column item and {which}"
        came = f"{', '.join(found)} in {shown(names)}" if len(found) > 1 else f"{shown(names)}"
        remedy = "Name the column with the true class: --key-column, key_column=."
        raise EvidenceError.of("key", rule, came, remedy=remedy)
    table = frames["key"].select("item", label=nw.col(found[0]))
    rows = read_known(table.to_native(), name="key")
    del connection
    return rows


_SPOKEN = ("yes", "no", "unsure")
_UNIFORM_WITHIN = 1e-9
_NOTHING = -1


class Gathered(NamedTuple):
    """Judgements gathered.

    ``each`` has every judgement once, ``said`` and ``known`` all that they say by item and class
    and by item. ``kept`` has those that make the labels, ``classes`` and ``items`` what these say;
    contradictory items are there and marked. The two differ only where propensities were recorded
    and an item was asked about more than once.
    """

    each: Frame
    said: Frame
    known: Frame
    kept: Frame
    classes: Frame
    items: Frame


def gather(evidence: Evidence) -> Gathered:
    """The judgements gathered into labels; done once, except on a cluster or in a warehouse."""
    return evidence._recall("labels", lambda: _gathered(evidence))


def _gathered(evidence: Evidence) -> Gathered:
    settled, questions = evidence._settled, questions_of(evidence)
    aimed = propensities_of(evidence) == "recorded"
    each = settled(once(number_rows(questions, "row") if aimed else questions))
    # Without an unsure only a yes against a no is mixed, which the classes show: no need to look at
    # each rater.
    quick = evidence._connection is not None or each.implementation.is_polars()
    plain = quick and not has_rows(each.filter(nw.col("said") == UNSURE))
    said = settled(class_labels(evidence, each, by_rater=not plain, scored=aimed))
    known = settled(item_labels(said))
    if not aimed or not has_rows(known.filter(nw.col("n_judged") > 1)):
        return Gathered(each, said, known, each, said, known)
    _require_order(each)
    label = settled(first_questions(each))
    classes = settled(class_labels(evidence, label, by_rater=not plain, scored=True))
    whole = known.select("item", "conflict", "n_judged")
    items = item_labels(classes).drop("conflict", "n_judged").join(whole, on="item", how="left")
    return Gathered(each, said, known, label, classes, settled(items))


def _require_order(each: Frame) -> None:
    """Without an order of rows only ``at`` tells which question of an item was first."""
    if keeps_order(each):
        return
    if "at" in each.columns and not has_rows(each.filter(nw.col("at").is_null())):
        return
    rule = "must have a column at, filled, where propensities are recorded and items were asked about more than once"
    remedy = f"Rows of {engine_of(each)} frames have no order."
    raise EvidenceError.of("judgements", rule, "no times", remedy=remedy)


Design = Literal["none", "uniform", "recorded"]


def propensities_of(evidence: Evidence) -> Design:
    """Whether probabilities of the questions were recorded, and whether every one of them is 1/K."""
    judgements = evidence.judgements
    if recorded_grades(evidence):  # they are aimed at answers, whatever the number
        return "recorded"
    if judgements is None or "propensity" not in judgements.columns:
        return "none"
    return evidence._recall("propensities", lambda: _propensities(evidence, judgements))


def _propensities(evidence: Evidence, judgements: Frame) -> Design:
    told = with_n_classes(judgements.filter(is_there("propensity")), evidence)
    off = (nw.col("propensity") * nw.col("k").cast(nw.Float64) - 1.0).abs() > _UNIFORM_WITHIN
    marked = told.select(off=off.fill_null(value=False).cast(nw.Int64))
    rows, wrong = fetch(marked.select(n=nw.len(), off=nw.col("off").max()))[0]
    return "none" if not rows else "recorded" if wrong else "uniform"


def as_recorded(evidence: Evidence) -> Evidence:
    """The same evidence as part of a larger table whose propensities are not all 1/K."""
    return dataclasses.replace(evidence, _kept={"propensities": (evidence._about, "recorded")})


def first_questions(each: Frame) -> Frame:
    """The first question of each item with recorded propensities, all of the others.

    First is by ``at``, then by the order of rows. Whether there is a second question may depend on
    the first verdict, so that a mean over an item's questions is biased; an ``unsure`` is missing
    and is not replaced by the next question.
    """
    aimed = distinct(each.filter(is_there("propensity")), "item")
    mine = each.join(aimed, on="item", how="inner")
    if "at" in each.columns:
        mine = mine.join(mine.group_by("item").agg(start=nw.col("at").min()), on="item", how="left")
        mine = mine.filter((nw.col("at") == nw.col("start")) | nw.col("start").is_null())
    frame = each.join(mine.group_by("item").agg(first=nw.col("row").min()), on="item", how="left")
    first = (nw.col("row") == nw.col("first")) | nw.col("first").is_null()
    return frame.filter(first).drop("first")


def knows_classes(evidence: Evidence) -> bool:
    """Whether the number of classes is known; grades of free text need none."""
    return evidence.n_classes is not None or evidence.has_own_n_classes


def with_n_classes(frame: Frame, evidence: Evidence) -> Frame:
    """The frame with the number of classes of its item in ``k`` (null for unknown items)."""
    if evidence.has_own_n_classes and evidence.items is not None:
        known = evidence.items.select("item", k=nw.col("n_classes"))
        return frame.join(known, on="item", how="left")
    return frame.with_columns(k=nw.lit(evidence.n_classes, dtype=nw.Int64))


def once(judgements: Frame) -> Frame:
    """Each judgement once, at its first time; without a rater it is of one unnamed rater."""
    rater = nw.col("rater").fill_null("") if "rater" in judgements.columns else nw.lit("")
    frame = judgements.with_columns(rater=rater)
    keys = ["item", "class", "said", "rater"]
    keys += ["propensity"] if "propensity" in judgements.columns else []
    first = {name: nw.col(name).min() for name in ("at", "row") if name in judgements.columns}
    return frame.group_by(*keys).agg(repeats=nw.len(), **first)


def class_labels(
    evidence: Evidence, judgements: Frame, *, by_rater: bool = True, scored: bool = False
) -> Frame:
    """What was said of each class of each item, out of judgements that are there once.

    Columns ``yes``, ``no``, ``unsure`` and ``mixed`` (one rater said different things) are 0 or 1
    and ``n_judged`` counts judgements; where the propensities make the design (``scored``)
    ``recorded`` is 0 or 1 and ``inverse`` is 1/propensity. Without ``by_rater`` it is known that
    nobody was unsure; then mixed is what was confirmed and ruled out.
    """
    frame = with_n_classes(judgements, evidence)
    said = nw.col("said")
    codes = {"yes": YES, "no": NO, "unsure": UNSURE}
    flags = {name: (said == code).cast(nw.Int64) for name, code in codes.items()}
    frame = frame.with_columns(**flags, n_judged=nw.lit(1, dtype=nw.Int64))
    highest = [*flags, "k"]
    if scored:
        told = is_there("propensity")
        inverse = nw.when(told).then(1.0 / nw.col("propensity"))
        frame = frame.with_columns(recorded=told.cast(nw.Int64), inverse=inverse)
        highest += ["recorded", "inverse"]
    wanted = {name: nw.col(name).max() for name in highest}
    wanted["n_judged"] = nw.col("n_judged").sum()
    if not by_rater:
        frame = frame.group_by("item", "class").agg(**wanted)
        return frame.with_columns(mixed=nw.col("yes") * nw.col("no"))
    frame = frame.group_by("item", "class", "rater").agg(**wanted, low=said.min(), high=said.max())
    frame = frame.with_columns(mixed=(nw.col("low") != nw.col("high")).cast(nw.Int64))
    return frame.group_by("item", "class").agg(**wanted, mixed=nw.col("mixed").max())


def item_labels(classes: Frame, *, by_class: bool = False) -> Frame:
    """The label of each item, with ``conflict`` where no true class could explain what was said.

    A conflict is: two confirmed classes, a class both confirmed and ruled out, every class ruled
    out, or one rater who said different things of one class. ``by_class`` adds ``asked``, the class
    that the label speaks of where it is one.
    """
    wanted = {f"n_{name}": nw.col(name).sum() for name in _SPOKEN}
    wanted["n_judged"] = nw.col("n_judged").sum()
    clash = nw.max_horizontal(nw.col("yes") * nw.col("no"), nw.col("mixed"))
    frame, highest = classes.with_columns(clash=clash), ["k", "clash"]
    if "recorded" in classes.columns:
        highest.append("recorded")
    if by_class:
        own = {f"{c}_class": nw.when(nw.col(c) == 1).then(nw.col("class")) for c in _SPOKEN}
        frame, highest = frame.with_columns(**own), [*highest, *own]
    wanted |= {name: nw.col(name).max() for name in highest}
    frame = frame.group_by("item").agg(**wanted)
    n_yes, n_no = nw.col("n_yes"), nw.col("n_no")
    none_left = ((n_yes == 0) & (n_no >= nw.col("k"))).fill_null(value=False)
    verdict = cases([(n_yes > 0, YES), (n_no > 0, NO)], UNSURE)
    conflict = (n_yes > 1) | (nw.col("clash") > 0) | none_left
    frame = frame.with_columns(conflict=conflict, verdict=verdict)
    if by_class:
        unsure = (n_yes == 0) & (n_no == 0) & (nw.col("n_unsure") == 1)
        one = {"yes": n_yes == 1, "no": (n_yes == 0) & (n_no == 1), "unsure": unsure}
        asked = cases((alone, nw.col(f"{name}_class")) for name, alone in one.items())
        frame = frame.with_columns(asked=asked)
    return frame


def recorded_grades(evidence: Evidence) -> bool:
    """Whether some grade has a propensity."""
    grades = evidence.grades
    if grades is None or "propensity" not in grades.columns:
        return False
    told = is_there("propensity")
    return evidence._recall("recorded grades", lambda: has_rows(grades.filter(told).select("item")))


def questions_of(evidence: Evidence) -> Frame:
    """What was said of classes: the judgements and, where the answers are there, the grades with a
    propensity.

    Such a grade is a question about the class that its system answered, asked with that
    probability, and so it speaks of every system. A grade without a propensity is none: which
    answers were graded may depend on whose they are.
    """
    if evidence.grades is None:
        if evidence.judgements is None:
            raise EvidenceError.of("evidence", "must have judgements", "none")
        return evidence.judgements
    recorded = recorded_grades(evidence)
    if evidence.judgements is not None and not recorded:
        return evidence.judgements
    drawn = recorded and evidence.answers is not None
    told = is_there("propensity") if drawn else nw.col("said") == _NOTHING
    rows = _as_judgements(evidence).filter(told)
    return rows if evidence.judgements is None else _joined([evidence.judgements, rows])


def _as_judgements(evidence: Evidence) -> Frame:
    """Grades as judgements of the answered class; without answers, of the system."""
    grades = grades_of(evidence)
    wanted = ("item", "system", "said", "rater", "propensity", "at")
    frame = grades.select(*[c for c in wanted if c in grades.columns])
    if evidence.answers is None:
        return frame.rename({"system": "class"})
    answers = evidence.answers.filter(is_there("answer"))
    given = answers.select("item", "system", nw.col("answer").alias("class"))
    return frame.join(given, on=["item", "system"], how="inner").drop("system")


def _joined(frames: Sequence[Frame]) -> Frame:
    """Rows of several tables with all their columns; a column that a table lacks is null there."""
    schemas = [frame.collect_schema() for frame in frames]
    columns: dict[str, Any] = {}
    for schema in schemas:
        for name in ("item", "class", "said", "rater", "propensity", "at"):
            if name in schema:
                kind = columns.setdefault(name, schema[name])
                if kind != schema[name]:
                    rule = "must have one type in judgements and grades"
                    came = f"{kind} and {schema[name]}"
                    raise EvidenceError.of(name, rule, came, remedy="Write both in the same way.")
    parts = []
    for frame, schema in zip(frames, schemas, strict=True):
        null = {c: nw.lit(None, dtype=kind) for c, kind in columns.items() if c not in schema}
        parts.append(frame.select(**{c: null.get(c, nw.col(c)) for c in columns}))
    return nw.concat(parts)


def grades_of(evidence: Evidence) -> Frame:
    """The grades, which must be there."""
    if evidence.grades is None:
        raise EvidenceError.of("evidence", "must have grades", "none")
    return evidence.grades


def graded_pairs(evidence: Evidence) -> Frame:
    """Graded items and systems: ``times`` graded, as ``right`` or ``wrong``; worked out once."""

    def pairs() -> Frame:
        marked = grades_of(evidence).select("item", "system", **_flags())
        found = marked.group_by("item", "system").agg(times=nw.len(), **_highest(_flags()))
        return evidence._settled(found)

    return evidence._recall("graded pairs", pairs)


def _flags() -> dict[str, nw.Expr]:
    """Whether a grade says right, and whether wrong."""
    codes = {"right": YES, "wrong": NO}
    return {name: (nw.col("said") == code).cast(nw.Int64) for name, code in codes.items()}


def _highest(names: Iterable[str]) -> dict[str, nw.Expr]:
    return {name: nw.col(name).max() for name in names}


def grade_labels(evidence: Evidence) -> Frame:
    """What grades say of each item and system alone: ``grade`` is a code of a verdict.

    ``inverse`` is 1/propensity of a grade with a propensity, where there are no answers that would
    tell whom else it speaks of; where they are there such grades are among :func:`questions_of`.
    """
    frame = grades_of(evidence)
    grade = cases([(nw.col("right") == 1, YES), (nw.col("wrong") == 1, NO)], UNSURE)
    if not recorded_grades(evidence):
        return graded_pairs(evidence).select("item", "system", grade=grade)
    # Of an item with a drawn question that question is the label: whether there is a grade beside
    # it may depend on the draw.
    told = is_there("propensity")
    drawn = distinct(frame.filter(told), "item")
    others = frame.filter(~told).join(drawn, on="item", how="anti")
    flags = _flags()
    if evidence.answers is None:
        others = nw.concat([others, frame.filter(told)])
        flags["inverse"] = 1.0 / nw.col("propensity")
    frame = others.with_columns(**flags).group_by("item", "system").agg(**_highest(flags))
    inverse = ["inverse"] if "inverse" in flags else []
    return frame.select("item", "system", grade.alias("grade"), *inverse)


_CLASH = {"n_yes": 0, "clash": 1, "n_no": 0, "k": 0}


def _grade_clashes(evidence: Evidence, grades: Frame) -> Frame:
    """Items with an answer called right and wrong, or with a rater of two minds."""
    pairs = told = graded_pairs(evidence)
    both = (nw.col("right") == 1) & (nw.col("wrong") == 1)
    if evidence.answers is not None:  # systems that share an answer must have the same grade
        given = evidence.answers.filter(is_there("answer")).select("item", "system", "answer")
        shared = pairs.join(given, on=["item", "system"], how="inner")
        told = shared.group_by("item", "answer").agg(**_highest(_flags()))
    found = [told.filter(both).select("item")]
    if has_rows(pairs.filter(nw.col("times") > 1)):
        if evidence.answers is not None:
            found.append(pairs.filter(both).select("item"))
        rater = nw.col("rater").fill_null("") if "rater" in grades.columns else nw.lit("")
        each = grades.select("item", "system", "said", rater=rater)
        by_rater = each.group_by("item", "system", "rater")
        spread = by_rater.agg(low=nw.col("said").min(), high=nw.col("said").max())
        found.append(spread.filter(nw.col("low") != nw.col("high")).select("item"))
    return distinct(found[0] if len(found) == 1 else nw.concat(found), "item")


def contradictions(evidence: Evidence) -> Frame:
    """The items of which no truth could explain what was said, and what that was.

    With grades an answer that is called right and wrong, by a grade or by a judgement of that
    class, is a contradiction; where classes are known, so are two different right answers of one
    item. Free text may have several right answers.
    """
    names = ("item", "n_yes", "clash", "n_no", "k")
    if evidence.grades is None:
        return gather(evidence).items.filter(nw.col("conflict")).select(*names)
    return evidence._recall("contradictions", lambda: evidence._settled(_clashes(evidence, names)))


def _clashes(evidence: Evidence, names: Sequence[str]) -> Frame:
    zeros = {name: nw.lit(n, dtype=nw.Int64) for name, n in _CLASH.items()}
    found = _grade_clashes(evidence, grades_of(evidence)).select("item", **zeros)
    judgements, known = evidence.judgements, knows_classes(evidence)
    more = []
    if evidence.answers is not None and (known or judgements is not None):
        graded = _as_judgements(evidence)
        told = graded if judgements is None else _joined([judgements, graded])
        items = item_labels(class_labels(evidence, once(told), by_rater=False))
        more.append(items.filter(nw.col("conflict") if known else nw.col("clash") > 0))
    if judgements is not None:
        judged = gather(dataclasses.replace(evidence, grades=None, _kept={}))
        more.append(judged.items.filter(nw.col("conflict")))
    for other in more:
        rest = other.select("item", *[nw.col(name).cast(nw.Int64) for name in names[1:]])
        rest = rest.join(found.select("item"), on="item", how="anti")
        found = nw.concat([found.select(*names), rest])
    return found


_RUNS = "Keep one row of each, or number the runs in a column repeat."
_DROP = "Correct the labels or pass conflicts='drop'."


class RowFault(NamedTuple):
    """A rule about single rows: where ``broken`` is true, ``column`` breaks it."""

    column: str
    rule: str
    broken: nw.Expr
    shown: str | None = None
    remedy: str = ""


def row_faults(table: TableRules, columns: list[str]) -> list[RowFault]:
    """The rules about single rows of a table with these columns."""
    rules = []
    for column in table.columns:
        name, col = column.name, nw.col(column.name)
        if name not in columns:
            continue
        is_odd = nw.col(odd(name)) if odd(name) in columns else None
        if is_odd is not None:
            one = column.kind == "count"
            words = "must be a whole number" if one else "must be whole numbers or text"
            rules.append(RowFault(name, words, is_odd, remedy="Correct it or leave the row out."))
        if not column.nullable:
            null = col.is_null() if is_odd is None else col.is_null() & ~is_odd
            unsure = "Write unsure, or leave" if column.kind in _WORDS else "Fill it in or leave"
            remedy = f"{unsure} the row out."
            rules.append(RowFault(name, "must not be null", null, remedy=remedy))
        if column.kind in _WORDS:
            unknown = (nw.col("said") == UNKNOWN) & ~col.is_null()
            rule, remedy = _WORDS[column.kind]
            rules.append(RowFault(name, rule, unknown, name, remedy))
        if column.kind == "state":
            rules += _state_faults(name)
        if column.kind == "count":
            rule = f"must be a whole number from 2 to {MAX_CLASSES}"
            off = ((col < 2) | (col > MAX_CLASSES)).fill_null(value=False)
            rules.append(RowFault(name, rule, off, name))
        if column.kind == "number":
            broken = [col.is_nan(), col.abs() == float("inf")]
            if column.low is not None:
                broken.append(col <= column.low if column.above else col < column.low)
            if column.high is not None:
                broken.append(col > column.high)
            rules.append(RowFault(name, column.rule, either(broken).fill_null(value=False), name))
    return rules


_GRADES = f"Write one of {', '.join(w for words in GRADES.values() for w in words)}."
_WORDS = {
    "verdict": ("must be yes, no or unsure", ""),
    "grade": ("must say right, wrong or unsure", _GRADES),
}
"""What words must be, and what to do."""


def _state_faults(name: str) -> list[RowFault]:
    """A state is one of the known words, and "answered" goes with an answer."""
    state, silent = nw.col(name), nw.col("answer").is_null()
    unknown = (~state.is_in(STATES)).fill_null(value=False)
    clash = ((state == "answered") & silent) | (state.is_in(STATES[1:]) & ~silent)
    rule = "must be 'answered' with an answer and another word without"
    remedy = "Correct the state or the answer."
    return [
        RowFault(name, f"must be one of {', '.join(STATES)}", unknown, name),
        RowFault(name, rule, clash.fill_null(value=False), name, remedy),
    ]


def outside(column: str, evidence: Evidence, k: nw.Expr) -> nw.Expr | None:
    """Where a class is not among the classes; None where nothing can be outside."""
    col = nw.col(column)
    if evidence.classes is not None:
        return ~col.is_in(evidence.classes) & ~col.is_null()
    if evidence.class_kind == "whole" and knows_classes(evidence):
        return (col < 0) | (col >= k)
    return None


def faults_of_table(
    frame: Frame, table: TableRules, more: list[RowFault] | None = None
) -> list[str]:
    """All faults of one table on its own."""
    rules = row_faults(table, frame.columns) + (more or [])
    counters = {f"fault_{i}": rule.broken.cast(nw.Int64).sum() for i, rule in enumerate(rules)}
    numbers = zip(rules, fetch(frame.select(**counters))[0], strict=True)
    lines = [_located(frame, table.name, rule, int(n)) for rule, n in numbers if n]
    return lines + (_repeated(frame, table) if table.key else [])


def _located(frame: Frame, table: str, rule: RowFault, total: int) -> str:
    argument = f"{table}.{rule.column}"
    if rule.column == "item":
        return fault(argument, rule.rule, _rows(total), remedy=rule.remedy)
    shown = [nw.col(rule.shown).alias("shown")] if rule.shown else []
    found = fetch(frame.filter(rule.broken).select("item", *shown).sort("item").head(5))
    came = short(found[0][1]) if rule.shown else _rows(total)
    where = [row[0] for row in found]
    return fault(argument, rule.rule, came, where=where, total=total, remedy=rule.remedy)


def _repeated(frame: Frame, table: TableRules) -> list[str]:
    rule = f"must have one row for each {' and '.join(table.key)}"
    runs = table.name == "answers" and "repeat" not in table.key
    remedy = _RUNS if runs else "Keep one row of each."
    return items_fault(repeats(frame, table.key), table.name, rule, "repeated rows", remedy)


def items_fault(bad: Frame, what: str, rule: str, came: str, remedy: str) -> list[str]:
    """A fault that names the first items of some rows, where there are any."""
    total = count(bad)
    if not total:
        return []
    where = [row[0] for row in fetch(bad.select("item").sort("item").head(5))]
    came = came.replace("{rows}", _rows(total))
    return [fault(what, rule, came, where=where, total=total, remedy=remedy)]


def repeats(frame: Frame, key: tuple[str, ...]) -> Frame:
    """The keys that occur more than once."""
    groups = frame.filter(*map(is_there, key)).group_by(*key).agg(times=nw.len())
    return groups.filter(nw.col("times") > 1)


def count(frame: Frame) -> int:
    """Number of rows."""
    return int(fetch(frame.select(n=nw.len()))[0][0])


def faults_of_evidence(evidence: Evidence) -> list[str]:
    """All faults of all tables, each with its first five items."""
    lines = []
    for name, column in (("answers", "answer"), ("judgements", "class")):
        frame: Frame | None = getattr(evidence, name)
        table = TABLES[name]
        if name == "answers" and evidence.repeats is not None:
            frame, table = evidence.repeats, dataclasses.replace(table, key=(*table.key, "repeat"))
        alone = evidence._rows if name == "answers" else None
        if alone is not None:  # one row per item: repeats are seen without a look at every system
            table = dataclasses.replace(table, key=())
        if frame is not None:
            sized = with_n_classes(frame, evidence)
            lines += faults_of_table(sized, table, _outside_fault(column, evidence))
        if alone is not None:
            lines += _repeated(alone, dataclasses.replace(table, key=("item",)))
    if evidence.grades is not None:
        lines += faults_of_table(evidence.grades, TABLES["grades"])
    if evidence.items is not None:
        lines += faults_of_table(evidence.items, TABLES["items"])
        lines += _strangers(evidence)
    if evidence.grades is not None and not lines:
        lines += _grade_faults(evidence)
    if evidence.conflicts == "error" and not lines:
        lines += _contradictions(evidence)
    return lines


def _outside_fault(column: str, evidence: Evidence) -> list[RowFault]:
    broken = outside(column, evidence, nw.col("k"))
    if broken is None:
        return []
    rule = f"must be in [0, {evidence.n_classes})"
    remedy = "Pass a larger n_classes or drop those items."
    if evidence.classes is not None:
        rule = f"must be one of {short(list(evidence.classes))}"
        remedy = "Correct it or add it to classes."
    elif evidence.has_own_n_classes:
        rule = "must be in [0, n_classes) of its item"
        remedy = "Correct it or the item's n_classes."
    return [RowFault(column, rule, broken, column, remedy)]


def _strangers(evidence: Evidence) -> list[str]:
    """Answers, or else grades, of items that the table of items does not hold."""
    name = "answers" if evidence.answers is not None else "grades"
    frame: Frame | None = getattr(evidence, name)
    if frame is None or evidence.items is None:
        return []
    listed = evidence.items.select("item")
    strange = frame.filter(is_there("item")).join(listed, on="item", how="anti")
    remedy = f"Add them to items or drop these {name}."
    bad = distinct(strange, "item")
    return items_fault(bad, f"{name}.item", "must be in items", "unknown items", remedy)


def _grade_faults(evidence: Evidence) -> list[str]:
    """What grades cannot be used with: repeats, or drawn grades of several systems alone."""
    if evidence.repeats is not None:
        remedy = "Keep one answer of each item, or name each run as a system of its own."
        rule = "must have one row for each item and system beside grades"
        return [fault("answers", rule, "repeats", remedy=remedy)]
    grades = grades_of(evidence)
    if evidence.answers is not None:
        return _graded_silence(grades, evidence.answers)
    if not recorded_grades(evidence):
        return []
    told = distinct(grades.filter(is_there("propensity")), "item", "system")
    rule = "must be of one system for each item where there are no answers, which would tell who shares an answer"
    what, came = "grades with a propensity", "several systems"
    return items_fault(repeats(told, ("item",)), what, rule, came, "Add the table of answers.")


def _graded_silence(grades: Frame, answers: Frame) -> list[str]:
    """Answers that are missing and yet called right: no answer counts as wrong."""
    right = distinct(grades.filter(nw.col("said") == YES), "item", "system")
    silent = answers.filter(nw.col("answer").is_null()).select("item", "system")
    bad = right.join(silent, on=["item", "system"], how="inner")
    rule = "must not be right where the answer is missing"
    remedy = "Correct the grade, or write the answer."
    return items_fault(bad, "grades.verdict", rule, "{rows}", remedy)


def _contradictions(evidence: Evidence) -> list[str]:
    if evidence.judgements is None and evidence.grades is None:
        return []
    bad = contradictions(evidence)
    found = fetch(bad.select("n_yes", "clash", "n_no", "k", "item").sort("item").head(1))
    if not found:
        return []
    n_yes, clash, n_no, k, _ = found[0]
    graded = evidence.grades is not None
    if clash:
        came = "different verdicts on one answer" if graded else "different verdicts on one class"
    elif n_yes > 1:
        came = "two different right answers" if graded else "two different yes classes"
    else:
        came = f"{n_no} of {k} classes ruled out"
    told = {"judgements": evidence.judgements, "grades": evidence.grades}
    said = " and ".join(name for name, table in told.items() if table is not None)
    return items_fault(bad, said, "must not contradict each other", came, _DROP)


def _rows(total: int) -> str:
    return f"{total} such row{'' if total == 1 else 's'}"


def short(value: object) -> str:
    """A value as a message shows it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
