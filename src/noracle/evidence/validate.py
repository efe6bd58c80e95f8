"""The rules that rows must keep, and the search for rows that do not.

Counters come first, one pass a table; only a counter that is not zero sends a second query to find
the first items.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw

from noracle.errors import fault
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.labels import contradictions, knows_classes, recorded_grades, with_n_classes
from noracle.evidence.normal import UNKNOWN, YES, either, odd
from noracle.evidence.tables import GRADES, MAX_CLASSES, STATES, TABLES, Table

if TYPE_CHECKING:
    from noracle.evidence.evidence import Evidence

_RUNS = "Keep one row of each, or number the runs in a column repeat."
_DROP = "Correct the labels or pass conflicts='drop'."


class RowFault(NamedTuple):
    """A rule about single rows: where ``broken`` is true, ``column`` breaks it."""

    column: str
    rule: str
    broken: nw.Expr
    shown: str | None = None
    remedy: str = ""


def row_faults(table: Table, columns: list[str]) -> list[RowFault]:
    """The rules about single rows of a table with these columns."""
    rules = []
    for column in table.columns:
        name, col = column.name, nw.col(column.name)
        if name not in columns:
            continue
        is_odd = nw.col(odd(name)) if odd(name) in columns else None
        if is_odd is not None:
            words = (
                "must be a whole number"
                if column.kind == "count"
                else "must be whole numbers or text"
            )
            rules.append(RowFault(name, words, is_odd, remedy="Correct it or leave the row out."))
        if not column.nullable:
            null = col.is_null() if is_odd is None else col.is_null() & ~is_odd
            rules.append(
                RowFault(name, "must not be null", null, remedy="Fill it in or leave the row out.")
            )
        if column.kind == "verdict":
            unknown = (nw.col("said") == UNKNOWN) & ~col.is_null()
            rules.append(RowFault(name, "must be yes, no or unsure", unknown, name))
        if column.kind == "grade":
            unknown = (nw.col("said") == UNKNOWN) & ~col.is_null()
            remedy = (
                f"Write one of {', '.join(word for words in GRADES.values() for word in words)}."
            )
            rules.append(RowFault(name, "must say right, wrong or unsure", unknown, name, remedy))
        if column.kind == "state":
            rules += _state_faults(name)
        if column.kind == "count":
            rule = f"must be a whole number from 2 to {MAX_CLASSES}"
            rules.append(
                RowFault(name, rule, ((col < 2) | (col > MAX_CLASSES)).fill_null(value=False), name)
            )
        if column.kind == "number":
            broken = [col.is_nan(), col.abs() == float("inf")]
            if column.low is not None:
                broken.append(col <= column.low if column.above else col < column.low)
            if column.high is not None:
                broken.append(col > column.high)
            rules.append(RowFault(name, column.rule, either(broken).fill_null(value=False), name))
    return rules


def _state_faults(name: str) -> list[RowFault]:
    """A state is one of the known words, and "answered" goes with an answer."""
    state, silent = nw.col(name), nw.col("answer").is_null()
    unknown = (~state.is_in(STATES)).fill_null(value=False)
    clash = (((state == "answered") & silent) | (state.is_in(STATES[1:]) & ~silent)).fill_null(
        value=False
    )
    return [
        RowFault(name, f"must be one of {', '.join(STATES)}", unknown, name),
        RowFault(
            name,
            "must be 'answered' with an answer and another word without",
            clash,
            name,
            "Correct the state or the answer.",
        ),
    ]


def outside(column: str, evidence: Evidence, k: nw.Expr) -> nw.Expr | None:
    """Where a class is not among the classes (null for a null class); None where nothing can be
    outside.
    """
    col = nw.col(column)
    if evidence.classes is not None:
        return ~col.is_in(evidence.classes) & ~col.is_null()
    if evidence.class_kind == "whole" and knows_classes(evidence):
        return (col < 0) | (col >= k)
    return None


def faults_of_table(frame: Frame, table: Table, more: list[RowFault] | None = None) -> list[str]:
    """All faults of one table on its own."""
    rules = row_faults(table, frame.columns) + (more or [])
    counters = {f"fault_{i}": rule.broken.cast(nw.Int64).sum() for i, rule in enumerate(rules)}
    numbers = fetch(frame.select(**counters))[0]
    lines = [
        _located(frame, table.name, rule, int(n))
        for rule, n in zip(rules, numbers, strict=True)
        if n
    ]
    if table.key:
        lines += _repeated(frame, table)
    return lines


def _located(frame: Frame, table: str, rule: RowFault, total: int) -> str:
    argument = f"{table}.{rule.column}"
    if rule.column == "item":
        return fault(argument, rule.rule, _rows(total), remedy=rule.remedy)
    shown = [nw.col(rule.shown).alias("shown")] if rule.shown else []
    found = fetch(frame.filter(rule.broken).select("item", *shown).sort("item").head(5))
    came = _short(found[0][1]) if rule.shown else _rows(total)
    return fault(
        argument, rule.rule, came, where=[row[0] for row in found], total=total, remedy=rule.remedy
    )


def _repeated(frame: Frame, table: Table) -> list[str]:
    repeated = repeats(frame, table.key)
    total = count(repeated)
    if not total:
        return []
    found = fetch(repeated.select("item").sort("item").head(5))
    rule = f"must have one row for each {' and '.join(table.key)}"
    where = [row[0] for row in found]
    remedy = (
        _RUNS if table.name == "answers" and "repeat" not in table.key else "Keep one row of each."
    )
    return [fault(table.name, rule, "repeated rows", where=where, total=total, remedy=remedy)]


def repeats(frame: Frame, key: tuple[str, ...]) -> Frame:
    """The keys that occur more than once."""
    groups = (
        frame.filter(*[~nw.col(name).is_null() for name in key]).group_by(*key).agg(times=nw.len())
    )
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
        if (
            alone is not None
        ):  # one row per item: whether an item is repeated is seen without looking at every system
            table = dataclasses.replace(table, key=())
        if frame is not None:
            lines += faults_of_table(
                with_n_classes(frame, evidence), table, _outside_fault(column, evidence)
            )
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
    if evidence.classes is not None:
        rule, remedy = (
            f"must be one of {_short(list(evidence.classes))}",
            "Correct it or add it to classes.",
        )
    elif evidence.has_own_n_classes:
        rule, remedy = (
            "must be in [0, n_classes) of its item",
            "Correct it or the item's n_classes.",
        )
    else:
        rule, remedy = (
            f"must be in [0, {evidence.n_classes})",
            "Pass a larger n_classes or drop those items.",
        )
    return [RowFault(column, rule, broken, column, remedy)]


def _strangers(evidence: Evidence) -> list[str]:
    """Answers, or grades where there are no answers, of items that the table of items does not
    hold.
    """
    name = "answers" if evidence.answers is not None else "grades"
    frame: Frame | None = getattr(evidence, name)
    if frame is None or evidence.items is None:
        return []
    strange = frame.filter(~nw.col("item").is_null()).join(
        evidence.items.select("item"), on="item", how="anti"
    )
    strange = strange.group_by("item").agg(times=nw.len())
    total = count(strange)
    if not total:
        return []
    found = fetch(strange.select("item").sort("item").head(5))
    remedy = f"Add them to items or drop these {name}."
    return [
        fault(
            f"{name}.item",
            "must be in items",
            "unknown items",
            where=[r[0] for r in found],
            total=total,
            remedy=remedy,
        )
    ]


def _grade_faults(evidence: Evidence) -> list[str]:
    """What grades cannot be used with: repeats of answers; propensities of several systems of an
    item whose answers are not known.
    """
    if evidence.grades is None:
        return []
    if evidence.repeats is not None:
        remedy = "Keep one answer of each item, or name each run as a system of its own."
        return [
            fault(
                "answers",
                "must have one row for each item and system beside grades",
                "repeats",
                remedy=remedy,
            )
        ]
    if evidence.answers is not None:
        return _graded_silence(evidence.grades, evidence.answers)
    if not recorded_grades(evidence):
        return []
    told = (
        evidence.grades.filter(~nw.col("propensity").is_null())
        .group_by("item", "system")
        .agg(times=nw.len())
    )
    several = told.group_by("item").agg(systems=nw.len()).filter(nw.col("systems") > 1)
    total = count(several)
    if not total:
        return []
    where = [row[0] for row in fetch(several.select("item").sort("item").head(5))]
    rule = "must be of one system for each item where there are no answers, which would tell who shares an answer"
    remedy = "Add the table of answers."
    return [
        fault(
            "grades with a propensity",
            rule,
            "several systems",
            where=where,
            total=total,
            remedy=remedy,
        )
    ]


def _graded_silence(grades: Frame, answers: Frame) -> list[str]:
    """Answers that are missing and yet called right: no answer counts as wrong."""
    right = grades.filter(nw.col("said") == YES).group_by("item", "system").agg(times=nw.len())
    silent = answers.filter(nw.col("answer").is_null()).select("item", "system")
    bad = right.join(silent, on=["item", "system"], how="inner")
    total = count(bad)
    if not total:
        return []
    where = [row[0] for row in fetch(bad.select("item").sort("item").head(5))]
    remedy = "Correct the grade, or write the answer."
    return [
        fault(
            "grades.verdict",
            "must not be right where the answer is missing",
            _rows(total),
            where=where,
            total=total,
            remedy=remedy,
        )
    ]


def _contradictions(evidence: Evidence) -> list[str]:
    if evidence.judgements is None and evidence.grades is None:
        return []
    bad = contradictions(evidence)
    found: list[tuple[Any, ...]] = fetch(
        bad.select("item", "n_yes", "clash", "n_no", "k").sort("item").head(5)
    )
    if not found:
        return []
    _, n_yes, clash, n_no, k = found[0]
    graded = evidence.grades is not None
    if clash:
        came = "different verdicts on one answer" if graded else "different verdicts on one class"
    elif n_yes > 1:
        came = "two different right answers" if graded else "two different yes classes"
    else:
        came = f"{n_no} of {k} classes ruled out"
    where = [row[0] for row in found]
    said = (
        "grades"
        if evidence.judgements is None
        else "judgements and grades"
        if graded
        else "judgements"
    )
    return [
        fault(
            said,
            "must not contradict each other",
            came,
            where=where,
            total=count(bad),
            remedy=_DROP,
        )
    ]


def _rows(total: int) -> str:
    return f"{total} such row{'' if total == 1 else 's'}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
