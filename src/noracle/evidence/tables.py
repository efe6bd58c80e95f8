"""The tables: which columns each has, and the shapes in which people keep them.

    answers      item, system, answer, [guess, state, repeat, after_answers]
    judgements   item, class, verdict, [rater, propensity, cost, at]
    grades       item, system, verdict, [rater, propensity, cost, at, cluster, guess, position, length]
    items        item, [n_classes, stratum, cluster, weight, text, options, image]
    ratings      item, rater, label
    scores       item, rater, value

Columns in brackets are optional; other columns are allowed and kept out of the way. Before the
types of a table are looked at, three things are settled:

- **names**: a column is the one that the caller names, or has the canonical name, or that name in
  other case or with white space around it, or a common name of the same thing (``question_id``,
  ``model``, ``prediction``); every such choice is a note, and two candidates are an error that
  shows what to write;
- **roles**: answers given as judgements, and the other way round, are recognised;
- **form**: a table with one row per item and one column per system (or rater) becomes one row per
  item and system, in the engine.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import operator
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import narwhals as nw

from noracle.errors import EvidenceError, fault, known_names, raise_faults, require_evidence
from noracle.evidence.frames import (
    Frame,
    cases,
    engine_of,
    fetch,
    has_rows,
    is_there,
    keeps_order,
    number_rows,
    open_frames,
    quoted,
)

Kind = Literal["id", "name", "class", "count", "number", "verdict", "grade", "state", "any"]

STATES = ("answered", "invalid", "refused", "errored")
"""What became of an item: an answer; text without one; the system declined; the call failed."""

GRADES: dict[str, tuple[str, ...]] = {
    "yes": ("yes", "true", "1", "right", "correct", "pass", "passed"),
    "no": ("no", "false", "0", "wrong", "incorrect", "fail", "failed"),
    "unsure": ("unsure",),
}
"""The words of a grade, in any case: the answer is right, it is wrong, or nobody can tell."""

GRADE_COLUMNS = ("correct", "is_correct", "grade", "right", "passed")
"""Other names of the column ``verdict`` of grades, where there is none of that name."""

MAX_CLASSES = 2**31 - 1
"""The largest number of classes that is taken for one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What one column may hold.

    ``id`` and ``class`` are whole numbers or text, ``name`` is text, ``count`` a number of classes,
    ``number`` lies between ``low`` and ``high`` (without ``low`` itself where ``above``),
    ``verdict`` is yes, no or unsure, ``grade`` is a word of :data:`GRADES`, ``state`` is one of
    :data:`STATES`, ``any`` is taken as it is.
    """

    name: str
    kind: Kind
    required: bool = True
    nullable: bool = False
    low: float | None = None
    high: float | None = None
    above: bool = False

    @property
    def rule(self) -> str:
        """The range in words."""
        if self.low is not None and self.high is not None:
            return f"must be in {'(' if self.above else '['}{self.low:g}, {self.high:g}]"
        if self.low is not None:
            return f"must be a number {'above' if self.above else 'of at least'} {self.low:g}"
        return "must be a finite number"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """The columns of one table and the columns that name a row only once (``key``)."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    def names(self, *, required: bool) -> list[str]:
        """The names of the required or of the optional columns."""
        return [c.name for c in self.columns if c.required is required]


def _optional(name: str, kind: Kind, **range_: Any) -> Column:
    return Column(name=name, kind=kind, required=False, nullable=True, **range_)


_ITEM, _SYSTEM = Column(name="item", kind="id"), Column(name="system", kind="name")
_RATER = Column(name="rater", kind="name")
_SAID = (  # what may be known of a judgement or a grade
    _optional("rater", "name"),
    _optional("propensity", "number", low=0, high=1, above=True),
    _optional("cost", "number", low=0),
    _optional("at", "any"),
)
_COLUMNS: dict[str, tuple[Column, ...]] = {
    "answers": (
        _SYSTEM,
        Column(name="answer", kind="class", nullable=True),
        _optional("guess", "number", low=0, high=1),
        _optional("state", "state"),
        Column(name="repeat", kind="number", required=False, low=0),
        _optional("after_answers", "number", low=0, high=1),
    ),
    "judgements": (
        Column(name="class", kind="class"),
        Column(name="verdict", kind="verdict"),
        *_SAID,
    ),
    "grades": (
        _SYSTEM,
        Column(name="verdict", kind="grade"),
        *_SAID,
        _optional("cluster", "name"),
        _optional("guess", "number", low=0, high=1),
        *(_optional(name, "any") for name in ("position", "length")),
    ),
    "items": (
        Column(name="n_classes", kind="count", required=False),
        _optional("stratum", "name"),
        _optional("cluster", "name"),
        Column(name="weight", kind="number", required=False, low=0, above=True),
        *(_optional(name, "any") for name in ("text", "options", "image")),
    ),
    "ratings": (_RATER, Column(name="label", kind="class", nullable=True)),
    "scores": (_RATER, Column(name="value", kind="number", nullable=True)),
}
_ONCE = {"answers": ("item", "system"), "items": ("item",)}
_ONCE |= dict.fromkeys(("ratings", "scores"), ("item", "rater"))

TABLES: dict[str, TableRules] = {
    name: TableRules(name=name, columns=(_ITEM, *columns), key=_ONCE.get(name, ()))
    for name, columns in _COLUMNS.items()
}
"""The six tables by name."""


YES, NO, UNSURE, UNKNOWN = 1, 0, 2, 9
"""Codes of the column ``said``: the verdict as a number."""

_NAME = re.compile(r"(?=.*[^\W\d_])[\w.:/@+-]{1,40}")

VERDICTS: dict[int, str] = {YES: "yes", NO: "no", UNSURE: "unsure"}


def odd(column: str) -> str:
    """The name of the helper column that marks numbers which should be whole and are not."""
    return f"_odd_{column}"


def kind_of(dtype: Any) -> str:
    """``whole``, ``float``, ``text``, ``null``, or a type that cannot name items or classes."""
    if dtype.is_integer():
        return "whole"
    if dtype.is_float() or dtype.is_decimal():
        return "float"
    if dtype.is_nested() or dtype == nw.Binary or dtype == nw.Object:
        return str(dtype).split("(", 1)[0].lower()
    return "null" if dtype == nw.Unknown else "text"


def normalise(frame: Frame, table: TableRules) -> tuple[Frame, list[str]]:
    """The frame with its known columns in canonical types, and the faults of columns and types."""
    schema = frame.collect_schema()
    other = verdict_column(schema) if table.name == "grades" else None
    if other is not None:
        frame = frame.rename({other: "verdict"})
        schema = frame.collect_schema()
    faults = []
    missing = [c for c in table.names(required=True) if c not in schema]
    if missing:
        rule = f"must have columns {', '.join(table.names(required=True))}"
        came = f"no {', '.join(missing)} in {shown(schema)}"
        faults.append(fault(table.name, rule, came, remedy="Rename the columns."))
    columns: list[nw.Expr] = []
    for column in table.columns:
        if column.name in schema:
            kind, counts = kind_of(schema[column.name]), column.kind in {"number", "count"}
            if kind == "text" and counts and _without_values(frame, column.name):
                kind = "null"
            exprs, problem = _canonical(column, schema[column.name], kind, table.name)
            columns.extend(exprs)
            faults.extend(problem)
    if missing or not columns:
        return frame, faults
    frame, words = frame.select(*columns), _WORDS.get(table.name)
    return (frame if words is None else frame.with_columns(said=_said(words))), faults


def verdict_column(columns: Iterable[str]) -> str | None:
    """The column of a table of grades that stands for ``verdict``; None where that is there, or
    none or several could be it.
    """
    names = list(columns)
    found = [name for name in names if name in GRADE_COLUMNS]
    return found[0] if len(found) == 1 and "verdict" not in names else None


def shown(columns: Iterable[str]) -> list[str]:
    """The columns as a message shows them; what may be text of items stays hidden."""
    return [name if _NAME.fullmatch(name) else "…" for name in list(columns)[:12]]


def _canonical(
    column: Column, dtype: Any, kind: str, table: str
) -> tuple[list[nw.Expr], list[str]]:
    name, col, wanted = column.name, nw.col(column.name), column.kind
    kinds, rule = _HOLDS.get(wanted, ({"whole", "float", "text", "null"}, "whole numbers or text"))
    if wanted == "any":
        return [col], []
    if wanted in {"verdict", "grade"} and dtype == nw.Boolean:
        return [cases([(col, "yes"), (~col, "no")]).alias(name)], []
    if kind not in kinds:
        numbers = "whole numbers" if wanted == "count" and kind == "text" else rule
        what, remedy = f"{table}.{name}", "Convert the column."
        return [col], [fault(what, f"must hold {numbers}", kind, remedy=remedy)]
    if wanted == "grade" and kind in {"whole", "float"}:
        # 1 and 0, also as 1.0 and 0.0; NaN is null.
        missing = col.is_null() | col.is_nan() if dtype.is_float() else col.is_null()
        text = col.cast(nw.String)
        return [cases([(col == 1, "yes"), (col == 0, "no"), (~missing, text)]).alias(name)], []
    if kind == "null" and wanted in _EMPTY:
        return [nw.lit(None, dtype=_EMPTY[wanted]).alias(name)], []
    if wanted == "number" or (kind == "float" and wanted in {"id", "class", "count"}):
        number = col if dtype == nw.Float64 else col.cast(nw.Float64)
        return ([number] if wanted == "number" else _whole(number, name)), []
    to: Any = nw.Int64 if kind == "whole" and wanted in {"id", "class", "count"} else nw.String
    return [col if dtype == to else col.cast(to)], []


_HOLDS: dict[str, tuple[set[str], str]] = {
    "number": ({"whole", "float", "null"}, "numbers"),
    "count": ({"whole", "float", "null"}, "whole numbers or text"),
    **dict.fromkeys(("verdict", "grade"), ({"whole", "float", "text", "null"}, "words or numbers")),
}
"""What columns may hold, by kind, and how a message says it."""
_EMPTY: dict[str, Any] = {
    "number": nw.Float64,
    "count": nw.Int64,
    "id": nw.String,
    "class": nw.String,
}
"""The type of a column without a value."""
_WORDS: dict[str, Mapping[str, Sequence[str]]] = {
    "judgements": {"yes": ("yes", "true"), "no": ("no", "false"), "unsure": ("unsure",)},
    "grades": GRADES,
}
"""The words of verdicts, by table."""


def _whole(col: nw.Expr, name: str) -> list[nw.Expr]:
    """Floats as whole numbers: NaN is null, a fraction is null and marked as odd."""
    broken = (col != col.floor()) | (col.abs() > 2.0**53)
    given = ~col.is_null() & ~col.is_nan()
    safe = nw.when(given & ~broken).then(col).otherwise(nw.lit(None, dtype=nw.Float64))
    is_odd = (given & broken).fill_null(value=False)
    return [safe.cast(nw.Int64).alias(name), is_odd.alias(odd(name))]


def _said(words: Mapping[str, Sequence[str]]) -> nw.Expr:
    verdict = nw.col("verdict")
    plain = verdict.str.strip_chars().str.to_lowercase()
    quick = [(verdict == "yes", YES), (verdict == "no", NO)]
    named = [(plain.is_in(words[word]), code) for code, word in VERDICTS.items()]
    return cases([*quick, *named], UNKNOWN)


def _without_values(frame: Frame, column: str) -> bool:
    return not has_rows(frame.filter(~nw.col(column).is_null()).select(column))


def either(exprs: Sequence[nw.Expr]) -> nw.Expr:
    """True where any of the expressions is."""
    return functools.reduce(operator.or_, exprs) if exprs else nw.lit(value=False)


WIDE = {
    "answers": ("system", "answer"),
    "grades": ("system", "verdict"),
    "ratings": ("rater", "label"),
    "scores": ("rater", "value"),
}
"""Tables that may have one row per item: what a header becomes, and what its values become."""

ALIASES: dict[str, tuple[str, ...]] = {
    "item": (
        "question_id",
        "id",
        "qid",
        "doc_id",
        "example_id",
        "sample_id",
        "item_id",
        "task_id",
        "instance_id",
        "prompt_id",
        "uid",
        "idx",
    ),
    "system": ("model", "model_name", "model_id", "system_name"),
    "rater": ("annotator", "worker", "judge", "grader", "annotator_id", "worker_id", "rater_id"),
    "answers.answer": (
        "prediction",
        "pred",
        "predicted",
        "response",
        "output",
        "choice",
        "model_answer",
        "predicted_answer",
        "predicted_label",
    ),
    "judgements.class": ("label", "option", "choice", "candidate"),
    "judgements.verdict": ("is_correct", "correct", "grade", "judgement", "judgment", "is_right"),
    "grades.verdict": (*GRADE_COLUMNS, "judgement", "judgment", "is_right"),
    "ratings.label": ("rating", "annotation", "grade", "class"),
    "scores.value": ("score", "rating"),
    "votes.n": ("votes", "count"),
    "known.label": ("key", "truth", "gold", "target", "correct_answer", "answer_key"),
    "preferences.first": ("model_a", "system_a", "a", "left", "model_1", "system_1"),
    "preferences.second": ("model_b", "system_b", "b", "right", "model_2", "system_2"),
    "preferences.winner": ("preference", "preferred", "outcome", "verdict", "vote", "winner_model"),
}
"""Common names of required columns, for every table or for one, where the own name is not there."""

_KEY = re.compile(
    "answer|label|class|key|truth|target|gold|correct|correct_answer|answer_key|answer_index|gold_label"
)
"""Names that an answer key has; such a column of a wide table is nobody's answer."""
_NO_SYSTEM = re.compile(
    f"{_KEY.pattern}|n_options|num_options|question|prompt|input|context|choices|category|subject|topic"
    "|difficulty|split|source|src|language|date|time|timestamp|at|cost|notes?|comments?"
)
"""Names of keys, and of columns that are about the item."""
_PLACES = ("n_classes", "stratum", "cluster", "weight", "options")
ROW = "_noracle_row"
_SHOWN = 5
_PEEKED = 2_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the caller says of the shape of the tables.

    Attributes
    ----------
    columns
        The caller's name of a column: ``{"item": "question_id"}`` for every table,
        ``{"answers.item": "id"}`` for one.
    wide
        Whether tables have one row per item; by default their columns tell.
    systems, raters
        The columns of a wide table; by default all that are not the item, about the item, or a key.
    label, ruled_out
        Columns of wide answers with the true class, and with a class that is ruled out.
    """

    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    wide: bool | None = None
    systems: tuple[str, ...] = ()
    raters: tuple[str, ...] = ()
    label: str | None = None
    ruled_out: str | None = None
    no_answer: tuple[str, ...] = ()
    """Texts that stand for no answer: a column of numbers may have some of them."""


def shape_of(
    columns: Mapping[str, Any] | None = None,
    *,
    wide: bool | None = None,
    systems: Sequence[str] | None = None,
    raters: Sequence[str] | None = None,
    item: str | None = None,
    label: str | None = None,
    ruled_out: str | None = None,
    no_answer: Sequence[str] = (),
) -> Shape:
    """The shape, if what was said of it can be meant; ``columns`` may be nested by table."""
    flat: dict[str, str] = {}
    for name, column in (columns or {}).items():
        inner = column.items() if isinstance(column, Mapping) else [("", column)]
        flat |= {f"{name}.{more}" if more else str(name): value for more, value in inner}
    known = {column.name for table in TABLES.values() for column in table.columns} | {"n"}
    faults = []
    for name, column in flat.items():
        table, _, canonical = name.rpartition(".")
        own = {c.name for c in TABLES[table].columns} if table in TABLES else set()
        names = own if table else known
        if canonical not in names or not isinstance(column, str) or not column:
            rule = "must map columns such as item, system or answers.item to columns of the tables"
            remedy = f"Known are {', '.join(sorted(names or TABLES))}."
            faults.append(fault("columns", rule, f"{name}={column}", remedy=remedy))
    for name, given in (("systems", systems), ("raters", raters)):
        differ = given is None or (bool(given) and len(set(given)) == len(given))
        if isinstance(given, str) or not differ:
            faults.append(fault(name, "must be a list of different columns", repr(given)[:80]))
    raise_faults(faults)
    if item is not None:
        flat |= {f"{table}.item": item for table in WIDE}
    return Shape(
        columns=flat,
        wide=wide,
        systems=tuple(map(str, systems or ())),
        raters=tuple(map(str, raters or ())),
        label=label,
        ruled_out=ruled_out,
        no_answer=tuple(no_answer),
    )


@dataclasses.dataclass(slots=True)
class Shaped:
    """Long tables with canonical names, and the items of those that were wide, one row each.

    ``sets``: judgements are columns of a wide table, which were filled separately.
    """

    frames: dict[str, Frame]
    notes: list[str]
    sets: bool = False
    items: dict[str, Frame] = dataclasses.field(default_factory=dict)


def shaped(frames: Mapping[str, Frame], shape: Shape) -> Shaped:
    """Give every table its canonical columns, and one row per item and system."""
    found = Shaped(dict(frames), [])
    faults = [*_roles(frames, shape), *_strange_columns(frames, shape)]
    for name, frame in frames.items() if not faults else ():
        try:
            if name in WIDE and not is_long(frame, name, shape):
                _unfold(found, name, shape)
            else:
                _refuse_stray(name, shape)
                found.frames[name] = rename(frame, TABLES[name], shape.columns, found.notes)
        except EvidenceError as error:
            faults += error.faults
    wide = [name for name in WIDE if name in frames]
    told = shape.wide and wide and not faults
    if told and all(is_long(frames[name], name, shape) for name in wide):
        faults.append(long_fault(wide[0]))
    raise_faults(faults)
    return found


def long_fault(name: str) -> str:
    """The fault of a long table that is said to have one row per item."""
    needed = ", ".join(TABLES[name].names(required=True))
    rule = f"must go with {name} that have one row per item"
    return fault("wide", rule, f"columns {needed}", remedy="Leave it out.")


def rename(frame: Frame, table: TableRules, columns: Mapping[str, str], notes: list[str]) -> Frame:
    """The frame with canonical names of known columns; what was chosen is added to the notes."""
    names, lines, faults = resolve(frame.columns, table, columns)
    missing = [c for c in table.names(required=True) if c not in names]
    if missing and not faults:
        rule = f"must have columns {', '.join(table.names(required=True))}"
        came = f"no {', '.join(missing)} in {shown(frame.columns)}"
        faults.append(fault(table.name, rule, came, remedy=_remedy(table, missing, frame)))
    raise_faults(faults)
    notes += lines
    return renamed(frame, names)


def _remedy(table: TableRules, missing: Sequence[str], frame: Frame) -> str:
    """What to write where columns are missing."""
    known = {*table.names(required=True), *table.names(required=False)}
    strange = [c for c in frame.columns if c.strip().lower() not in known and c.isidentifier()]
    other = strange[0] if strange else "…"
    remedy = f"Rename the columns, or say which is meant: {_line(table.name, missing[0], other)}"
    if table.name in WIDE and len(missing) < len(table.names(required=True)):
        who = WIDE[table.name][0]
        return f"{remedy}; where there is one column per {who}: wide=True."
    return f"{remedy}."


def renamed(frame: Frame, names: Mapping[str, str]) -> Frame:
    """The frame with columns called by the keys of ``names``; others of such a name are dropped."""
    changed = {column: name for name, column in names.items() if name != column}
    if not changed:
        return frame
    hidden = set(changed.values()) - set(names.values())
    kept = [c for c in frame.columns if c not in hidden]
    return frame.select(*(nw.col(c).alias(changed.get(c, c)) for c in kept))


def resolve(
    given: Sequence[str], table: TableRules, columns: Mapping[str, str]
) -> tuple[dict[str, str], list[str], list[str]]:
    """Canonical names with the columns that are meant by them, the choices that were made, and the
    faults.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    faults: list[str] = []
    chosen: list[str] = []
    for column in table.columns:
        own, common = columns.get(f"{table.name}.{column.name}"), columns.get(column.name)
        named = own if own is not None else common if common in given else None
        if own is not None and own not in given:
            came = f"no {own!r} in {shown(given)}"
            rule = "must be a column of the table"
            what = f"{table.name}.{column.name}"
            faults.append(fault(what, rule, came, remedy="Correct the name."))
        elif named is not None:
            found[column.name] = named
            taken.add(named)
    taken |= {c.name for c in table.columns if c.name in given and c.name not in found}
    for column in table.columns:
        name = column.name
        if name in found or name in given:
            found.setdefault(name, name)
            continue
        same = [c for c in given if c not in taken and c.strip().lower() == name]
        others = (*ALIASES.get(name, ()), *ALIASES.get(f"{table.name}.{name}", ()))
        others = others if column.required else ()
        same = same or [c for c in given if c not in taken and c.strip().lower() in others]
        if len(same) > 1:
            remedy = f"Say which: {_line(table.name, name, same[0])}."
            what = f"{table.name}.{name}"
            rule = "must be one column"
            faults.append(fault(what, rule, " and ".join(map(repr, same)), remedy=remedy))
        elif same:
            found[name] = same[0]
            taken.add(same[0])
            line = f"{same[0]!r} as {name}" if chosen else f"column {same[0]!r} is read as {name}"
            chosen.append(line)
    return found, [f"{table.name}: {', '.join(chosen)}"] if chosen else [], faults


def _line(table: str, name: str, column: str) -> str:
    """What to write where a column must be named."""
    return f"columns={{{f'{table}.{name}'!r}: {column!r}}}"


def _strange_columns(frames: Mapping[str, Frame], shape: Shape) -> list[str]:
    """Names in ``columns`` that no table has."""
    everywhere = {column for frame in frames.values() for column in frame.columns}
    faults = []
    for name, column in shape.columns.items():
        table = name.rpartition(".")[0]
        if not table and column not in everywhere:
            came = f"no {column!r} in {shown(sorted(everywhere))}"
            faults.append(fault("columns", f"must name a column of the tables as {name}", came))
    return faults


def _fits(given: Sequence[str], name: str) -> bool:
    """Whether a table has all required columns of a kind under their own names, in any case."""
    plain = {c.strip().lower() for c in given}
    return name in TABLES and set(TABLES[name].names(required=True)) <= plain


def _roles(frames: Mapping[str, Frame], shape: Shape) -> list[str]:
    """Tables that were given as another one than they are."""
    names = ("answers", "judgements", "grades", "ratings", "scores")
    looks: dict[str, str] = {}
    for name, frame in frames.items():
        table = TABLES[name]
        found = resolve(frame.columns, table, shape.columns)[0]
        if name in names and not set(table.names(required=True)) <= set(found):
            fitting = [kind for kind in names if kind != name and _fits(frame.columns, kind)]
            other = fitting[0] if fitting else None
            if other is None and name == "judgements" and _graded(frame.columns):
                other = "grades"
            if other is not None:
                looks[name] = other
    faults = []
    for name, other in looks.items():
        if looks.get(other) == name:
            if name < other:
                came = f"the columns of {other} in {name} and of {name} in {other}"
                remedy = "Give each file under the other name."
                what = f"{name} and {other}"
                faults.append(fault(what, "must not be swapped", came, remedy=remedy))
            continue
        rule = f"must have columns {', '.join(TABLES[name].names(required=True))}"
        came = f"those of {other} ({', '.join(TABLES[other].names(required=True))})"
        faults.append(fault(name, rule, came, remedy=f"Pass this table as {other}."))
    return faults


def _graded(given: Sequence[str]) -> bool:
    """Whether a table says of answers of systems that they are right or wrong."""
    plain = {c.strip().lower() for c in given}
    said = plain & {"verdict", *ALIASES["grades.verdict"]}
    return bool(plain & {"system", *ALIASES["system"]} and said) and "class" not in plain


def is_long(frame: Frame, name: str, shape: Shape) -> bool:
    """Whether the columns are those of the long form, which is taken where neither form shows."""
    table = TABLES[name]
    found, _, faults = resolve(frame.columns, table, shape.columns)
    needed = set(table.names(required=True))
    named = shape.raters if name in ("ratings", "scores") else shape.systems
    elsewhere = bool(named) and not set(named) & set(frame.columns)  # another table is the wide one
    if needed <= set(found) and (not shape.wide or elsewhere or needed <= set(frame.columns)):
        return True
    if shape.wide or (named and set(named) <= set(frame.columns)):
        return False
    who, what = WIDE[name]
    spoken = what in found and not _KEY.fullmatch(found[what])
    if faults or "item" not in found or who in found or spoken:
        return True  # part of the long form is there: what lacks is named
    columns, _ = wide_columns(frame, name, shape, found["item"])
    return len(columns) < 2  # one column alone can be anything


def wide_columns(
    frame: Frame, name: str, shape: Shape, item: str | None
) -> tuple[list[str], list[str]]:
    """The columns of systems or raters of a wide table, and those that are something else."""
    kinds = {column: kind_of(dtype) for column, dtype in frame.collect_schema().items()}

    def numbers(column: str) -> bool:
        return _mostly_numbers(frame, column, shape.no_answer)

    return wide_among(kinds, name, shape, item, numbers)


def wide_among(
    kinds: Mapping[str, str],
    name: str,
    shape: Shape,
    item: str | None,
    numbers: Callable[[str], bool],
) -> tuple[list[str], list[str]]:
    """The same by kinds of value; ``numbers`` says whether a column of text holds numbers."""
    given = list(kinds)
    what = "raters" if name in ("ratings", "scores") else "systems"
    named = shape.raters if what == "raters" else shape.systems
    said = {item, shape.label, shape.ruled_out, *shape.columns.values()} - {None}
    if named:
        missing = [c for c in named if c not in given]
        if missing:
            near = known_names(missing[0], [c for c in given if shown([c]) == [c]])
            came = f"no {', '.join(missing[:6])}"
            raise EvidenceError.of(what, f"must be columns of {name}", came, remedy=near)
        return list(named), [c for c in given if c not in named and c not in said]
    items = {*(c.name for c in TABLES["items"].columns), *ALIASES["item"]}
    plain = {c: c.strip().lower() for c in given if c not in said}
    others = [c for c, n in plain.items() if n in items or _NO_SYSTEM.fullmatch(n)]
    taken = {*said, *others, *(shape.systems if what == "raters" else ())}
    rest = [c for c in given if c not in taken and not c.startswith("_noracle")]
    groups: dict[str, list[str]] = {}
    for column in rest:
        kind = kinds[column]
        groups.setdefault("numbers" if kind in ("whole", "float") else kind, []).append(column)
    groups.pop("null", None)
    if set(groups) == {"numbers", "text"} and all(numbers(c) for c in groups["text"]):
        groups = {"numbers": rest}
    usable = {kind: columns for kind, columns in groups.items() if kind in ("numbers", "text")}
    if len(groups) > 1 and usable:
        held = {kind: ", ".join(shown(columns)[:_SHOWN]) for kind, columns in groups.items()}
        found = "; ".join(f"{kind} in {columns}" for kind, columns in held.items())
        some = next(iter(usable.values()))
        remedy = f"Say which columns are {what}: {what}={some[:3]!r}."
        rule = f"must have columns of one type, one for each of the {what}"
        raise EvidenceError.of(name, rule, found, remedy=remedy)
    return (rest if usable else []), others


def _mostly_numbers(frame: Frame, column: str, no_answer: Sequence[str]) -> bool:
    """Whether the first values of a column of text are whole numbers or stand for no answer."""
    texts = frame.select(nw.col(column).cast(nw.String)).filter(is_there(column))
    plain = {str(row[0]).strip().lower() for row in fetch(texts.head(_PEEKED))}
    told = plain - {"", *no_answer}
    return all(v.lstrip("+-").replace(".0", "").isdecimal() for v in told)


def item_column(frame: Frame, name: str, shape: Shape) -> tuple[str | None, list[str]]:
    """The column of a wide table that names its items, and the choice that was made."""
    only_item = TableRules(name=name, columns=TABLES[name].columns[:1])
    names, lines, faults = resolve(frame.columns, only_item, shape.columns)
    raise_faults(faults)
    return names.get("item"), lines


def rows_as_items(frame: Frame) -> Frame:
    """The frame with the numbers of its rows, from 0, in column :data:`ROW`."""
    rule, remedy = f"must name a column of {engine_of(frame)} frames", "Rows have no order there."
    require_evidence(keeps_order(frame), "item", rule, None, remedy=remedy)
    return number_rows(frame, ROW)


def _unfold(found: Shaped, name: str, shape: Shape) -> None:
    """Put a wide table into its long form; its columns about items are the items, if none are."""
    frame = found.frames[name]
    given = f"{shown(frame.columns)}"
    item, lines = item_column(frame, name, shape)
    columns, others = wide_columns(frame, name, shape, item)
    who, what = WIDE[name]
    rule, remedy = f"must have a column for each {who}", f"Name them: {who}s=[…]."
    require_evidence(columns, name, rule, given, remedy=remedy)
    told = [(c, v) for c, v in ((shape.label, "yes"), (shape.ruled_out, "no")) if c is not None]
    missing = [c for c, _ in told if c not in frame.columns]
    came = f"no {', '.join(missing)} in {given}"
    require_evidence(not missing, name, "must have the columns that are named", came)
    if item is None:
        remedy = f"Say which: {_line(name, 'item', frame.columns[0])}."
        rule, alone = "must be a column, to meet the other tables", len(found.frames) == 1
        require_evidence(alone, f"{name}.item", rule, given, remedy=remedy)
        frame, item = rows_as_items(frame), ROW
        lines = [*lines, f"{name}: rows are items, numbered from 0"]
    found.notes += lines
    found.frames[name] = unpivot(frame, item, columns, (who, what))
    found.items[name] = frame.select(nw.col(item).alias("item"))
    if not (shape.raters if name in ("ratings", "scores") else shape.systems):
        found.notes.append(wide_note(name, who, columns, [c for c in others if c != item]))
    said = [(item, v, c) for c, v in told]
    if said and name == "answers":
        alone = "judgements" not in found.frames
        require_evidence(alone, "label and ruled_out", "must come without judgements", "both")
        found.frames["judgements"] = _stacked(frame, said)
        found.sets = True
    meant = ((p, resolve_one(frame.columns, p, shape.columns)) for p in _PLACES)
    about = {p: column for p, column in meant if column is not None and column not in columns}
    if about and "items" not in found.frames and name in ("answers", "grades"):
        columns_of = {"item": nw.col(item), **{p: nw.col(c) for p, c in about.items()}}
        found.frames["items"] = frame.select(**columns_of)
        taken, many = ", ".join(map(repr, about.values())), "is" if len(about) == 1 else "are"
        found.notes.append(f"{name}: {taken} {many} taken as of the items")


def resolve_one(given: Sequence[str], name: str, columns: Mapping[str, str]) -> str | None:
    """The column that is meant by one name of the table of items."""
    named = columns.get(f"items.{name}", columns.get(name))
    return named if named in given else name if name in given else None


def wide_note(name: str, who: str, columns: Sequence[str], others: Sequence[str]) -> str:
    """What was recognised: the columns of a wide table, and those that are something else."""
    n, some = len(columns), ", ".join(columns[:_SHOWN])
    some += f" and {n - _SHOWN} more" if n > _SHOWN else ""
    more = ", …" if len(others) > _SHOWN else ""
    left = f"; not {who}s: {', '.join(others[:_SHOWN])}{more}" if others else ""
    many = f"the {who}s are the {n} columns" if n > 1 else f"the {who} is the column"
    return f"{name}: one row per item; {many} {some}{left}"


def _refuse_stray(name: str, shape: Shape) -> None:
    """Columns of a wide table that were named for a long one."""
    stray = [word for word in ("label", "ruled_out") if getattr(shape, word) is not None]
    if stray and name == "answers":
        rule = "must go with answers of one row per item"
        came = "one row per item and system"
        raise EvidenceError.of(" and ".join(stray), rule, came, remedy="Give them as judgements.")


def unpivot(wide: Frame, item: str, columns: Sequence[str], into: tuple[str, str]) -> Frame:
    """One row per item and column, with its name and its value; also where that is null.

    Whole numbers stay whole, other numbers meet as floats, and everything else as text.
    """
    who, what = into
    schema = wide.collect_schema()
    types = [schema[column] for column in columns]
    cast = [nw.col(c) for c in columns]
    if len({str(t) for t in types}) > 1 or types[0] == nw.Unknown:
        common = _common(types)
        cast = [_as(nw.col(c), schema[c], common).alias(c) for c in columns]
    wide = wide.select(nw.col(item).alias("item"), *cast)
    if wide.implementation.is_duckdb():
        listed = ", ".join(quoted(c) for c in columns)
        # narwhals leaves nulls out here, and a null is "no answer"
        how = f'UNPIVOT INCLUDE NULLS ("{what}" FOR "{who}" IN ({listed}))'
        query = f"SELECT * FROM noracle_wide {how}"  # noqa: S608 (names are quoted)
        long: Frame = nw.from_native(wide.to_native().query("noracle_wide", query))
    else:
        long = wide.unpivot(on=list(columns), index="item", variable_name=who, value_name=what)
    return long.select("item", who, what)


def _common(types: Sequence[Any]) -> Any:
    """The type in which columns meet; numbers beside text are text."""
    told = [t for t in types if t != nw.Unknown]
    if all(t.is_integer() for t in told):
        return nw.Int64 if told else nw.String
    if all(t.is_numeric() for t in told):
        return nw.Float64
    return nw.String


def _as(col: nw.Expr, dtype: Any, common: Any) -> nw.Expr:
    if common == nw.Float64 and dtype.is_float():
        col = nw.when(~col.is_nan()).then(col)
    return col.cast(common)


def _stacked(wide: Frame, parts: Sequence[tuple[str, str, str]]) -> Frame:
    """Judgements out of columns of classes; no row where nobody said."""
    schema = wide.collect_schema()
    common = _common([schema[c] for _, _, c in parts])
    frames = [
        wide.select(
            nw.col(item).alias("item"),
            _as(nw.col(c), schema[c], common).alias("class"),
            nw.lit(v).alias("verdict"),
        )
        for item, v, c in parts
    ]
    return nw.concat(frames, how="vertical").filter(is_there("class"))


def read_paper_csv(path: str | Path) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Judgements and items of a file ``Question, A, B, …, Answer, Comp_label``."""
    what = f"file {str(path)!r}"
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = importlib.import_module("csv").DictReader(file)
            header, rows = list(reader.fieldnames or []), list(reader)
    except OSError as error:
        came = f"{str(path)!r} ({error.strerror})"
        raise EvidenceError.of("path", "must be a readable file", came) from None
    except UnicodeDecodeError:
        rule, remedy = "must be UTF-8 text", "Save it as UTF-8."
        raise EvidenceError.of(what, rule, "other bytes", remedy=remedy) from None
    letters = [c for c in string.ascii_uppercase if c in header]
    missing = [c for c in ("Question", "A", "B", "Answer", "Comp_label") if c not in header]
    rule = "must have columns Question, A, B, …, Answer, Comp_label"
    require_evidence(not missing, what, rule, f"no {', '.join(missing)}")
    require_evidence(rows, what, "must have rows", "a header only")
    judgements: dict[str, list[Any]] = {"item": [], "class": [], "verdict": []}
    items: dict[str, list[Any]] = {"item": [], "n_classes": [], "text": [], "options": []}
    wrong: dict[str, list[int]] = {"Answer": [], "Comp_label": []}
    for number, row in enumerate(rows):
        options = [(letter, row[letter]) for letter in letters if (row[letter] or "").strip()]
        places = {letter: place for place, (letter, _) in enumerate(options)}
        for column, verdict in (("Answer", "yes"), ("Comp_label", "no")):
            said = (row[column] or "").strip().upper()
            if said and said not in places:
                wrong[column].append(number)
            elif said:
                judgements["item"].append(number)
                judgements["class"].append(places[said])
                judgements["verdict"].append(verdict)
        about = (number, len(options), row["Question"], [option for _, option in options])
        for values, value in zip(items.values(), about, strict=True):
            values.append(value)
    rule, remedy = "must be the letter of a filled option", "Correct it."
    told = {column: where for column, where in wrong.items() if where}
    raise_faults(
        [
            fault(column, rule, "other text", where=where, total=len(where), remedy=remedy)
            for column, where in told.items()
        ]
    )
    return judgements, items


def answers_as_classes(answers: object) -> Mapping[str, list[Any]]:
    """A long table of answers with option letters turned into classes 0, 1, …"""
    frames, _ = open_frames({"answers": answers})
    frame = frames["answers"]
    missing = [c for c in ("item", "system", "answer") if c not in frame.columns]
    came = f"no {', '.join(missing)} in {shown(frame.columns)}"
    require_evidence(not missing, "answers", "must have columns item, system, answer", came)
    rows = fetch(frame.select("item", "system", "answer"))
    places = {letter: place for place, letter in enumerate(string.ascii_uppercase)} | {"": None}
    plain = [a.strip().upper() if isinstance(a, str) else None for _, _, a in rows]
    odd = [row[0] for row, a in zip(rows, plain, strict=True) if a is not None and a not in places]
    if odd:
        rule, remedy = "must be option letters or classes", "Use null for no answer."
        where: dict[str, Any] = {"where": odd, "total": len(odd)}
        raise EvidenceError.of("answers.answer", rule, "other text", **where, remedy=remedy)
    answered = zip(rows, plain, strict=True)
    return {
        "item": [item for item, _, _ in rows],
        "system": [str(system) for _, system, _ in rows],
        "answer": [row[2] if a is None else places[a] for row, a in answered],
    }
