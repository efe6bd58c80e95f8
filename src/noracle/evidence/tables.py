"""The column rules of every table, in one place.

    answers      item, system, answer, [guess, state, repeat]
    judgements   item, class, verdict, [rater, propensity, cost, at]
    grades       item, system, verdict, [rater, propensity, cost, at, cluster]
    items        item, [n_classes, stratum, cluster, weight, text, options, image]
    ratings      item, rater, label
    scores       item, rater, value

Columns in brackets are optional; other columns are allowed and kept out of the way.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import narwhals as nw

from noracle.errors import fault
from noracle.evidence.frames import Frame, cases, has_rows

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
"""Other names of the column ``verdict`` of grades, where there is none of that name and one of
these.
"""

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
    """``whole``, ``float``, ``text``, ``null`` or the name of a type that cannot name items or
    classes.
    """
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

    Examples
    --------
    >>> verdict_column(["item", "system", "is_correct"]), verdict_column(["item", "system", "verdict", "right"])
    ('is_correct', None)
    """
    names = list(columns)
    found = [name for name in names if name in GRADE_COLUMNS]
    return found[0] if len(found) == 1 and "verdict" not in names else None


def shown(columns: Iterable[str]) -> list[str]:
    """The columns as a message shows them; what looks like text of a file without a header stays
    hidden.
    """
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
