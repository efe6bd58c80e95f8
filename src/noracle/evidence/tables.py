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
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import narwhals as nw

from noracle.errors import fault
from noracle.evidence.frames import Frame, fetch

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


_ITEM = Column(name="item", kind="id")
_RATER = Column(name="rater", kind="name")

TABLES: dict[str, TableRules] = {
    table.name: table
    for table in (
        TableRules(
            name="answers",
            columns=(
                _ITEM,
                Column(name="system", kind="name"),
                Column(name="answer", kind="class", nullable=True),
                Column(name="guess", kind="number", required=False, nullable=True, low=0, high=1),
                Column(name="state", kind="state", required=False, nullable=True),
                Column(name="repeat", kind="number", required=False, low=0),
            ),
            key=("item", "system"),
        ),
        TableRules(
            name="judgements",
            columns=(
                _ITEM,
                Column(name="class", kind="class"),
                Column(name="verdict", kind="verdict"),
                Column(name="rater", kind="name", required=False, nullable=True),
                Column(
                    name="propensity",
                    kind="number",
                    required=False,
                    nullable=True,
                    low=0,
                    high=1,
                    above=True,
                ),
                Column(name="cost", kind="number", required=False, nullable=True, low=0),
                Column(name="at", kind="any", required=False, nullable=True),
            ),
        ),
        TableRules(
            name="grades",
            columns=(
                _ITEM,
                Column(name="system", kind="name"),
                Column(name="verdict", kind="grade"),
                Column(name="rater", kind="name", required=False, nullable=True),
                Column(
                    name="propensity",
                    kind="number",
                    required=False,
                    nullable=True,
                    low=0,
                    high=1,
                    above=True,
                ),
                Column(name="cost", kind="number", required=False, nullable=True, low=0),
                Column(name="at", kind="any", required=False, nullable=True),
                Column(name="cluster", kind="name", required=False, nullable=True),
            ),
        ),
        TableRules(
            name="items",
            columns=(
                _ITEM,
                Column(name="n_classes", kind="count", required=False),
                Column(name="stratum", kind="name", required=False, nullable=True),
                Column(name="cluster", kind="name", required=False, nullable=True),
                Column(name="weight", kind="number", required=False, low=0, above=True),
                Column(name="text", kind="any", required=False, nullable=True),
                Column(name="options", kind="any", required=False, nullable=True),
                Column(name="image", kind="any", required=False, nullable=True),
            ),
            key=("item",),
        ),
        TableRules(
            name="ratings",
            columns=(_ITEM, _RATER, Column(name="label", kind="class", nullable=True)),
            key=("item", "rater"),
        ),
        TableRules(
            name="scores",
            columns=(_ITEM, _RATER, Column(name="value", kind="number", nullable=True)),
            key=("item", "rater"),
        ),
    )
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
            kind = kind_of(schema[column.name])
            if (
                kind == "text"
                and column.kind in {"number", "count"}
                and _without_values(frame, column.name)
            ):
                kind = "null"
            exprs, problem = _canonical(column, schema[column.name], kind, table.name)
            columns.extend(exprs)
            faults.extend(problem)
    if missing or not columns:
        return frame, faults
    frame = frame.select(*columns)
    if table.name == "judgements":
        frame = frame.with_columns(said=_said())
    if table.name == "grades":
        frame = frame.with_columns(said=_graded())
    return frame, faults


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
    name, col = column.name, nw.col(column.name)
    if column.kind == "any":
        return [col], []
    if column.kind == "number":
        if kind == "null":
            return [nw.lit(None, dtype=nw.Float64).alias(name)], []
        if kind not in {"whole", "float"}:
            return [col], [
                fault(f"{table}.{name}", "must hold numbers", kind, remedy="Convert the column.")
            ]
        return [col if dtype == nw.Float64 else col.cast(nw.Float64)], []
    if column.kind in {"verdict", "grade"}:
        return _verdict(column, dtype, kind, table)
    if kind not in {"whole", "float", "text", "null"}:
        return [col], [
            fault(
                f"{table}.{name}",
                "must hold whole numbers or text",
                kind,
                remedy="Convert the column.",
            )
        ]
    if column.kind in {"name", "state"}:
        return [col if dtype == nw.String else col.cast(nw.String)], []
    if column.kind == "count" and kind == "text":
        return [col], [
            fault(f"{table}.{name}", "must hold whole numbers", kind, remedy="Convert the column.")
        ]
    if kind == "whole":
        return [col if dtype == nw.Int64 else col.cast(nw.Int64)], []
    if kind == "float":
        return _whole(col if dtype == nw.Float64 else col.cast(nw.Float64), name), []
    if kind == "null":
        return [
            nw.lit(None, dtype=nw.Int64 if column.kind == "count" else nw.String).alias(name)
        ], []
    return [col if dtype == nw.String else col.cast(nw.String)], []


def _verdict(column: Column, dtype: Any, kind: str, table: str) -> tuple[list[nw.Expr], list[str]]:
    name, col = column.name, nw.col(column.name)
    if dtype == nw.Boolean:
        return [nw.when(col).then(nw.lit("yes")).when(~col).then(nw.lit("no")).alias(name)], []
    if kind not in {"whole", "float", "text", "null"}:
        return [col], [
            fault(
                f"{table}.{name}", "must hold words or numbers", kind, remedy="Convert the column."
            )
        ]
    if column.kind == "grade" and kind in {
        "whole",
        "float",
    }:  # 1 and 0, also as 1.0 and 0.0; NaN is null
        given = nw.when(col == 1).then(nw.lit("yes")).when(col == 0).then(nw.lit("no"))
        missing = col.is_null() | col.is_nan() if dtype.is_float() else col.is_null()
        return [given.when(~missing).then(col.cast(nw.String)).alias(name)], []
    return [col if dtype == nw.String else col.cast(nw.String)], []


def _whole(col: nw.Expr, name: str) -> list[nw.Expr]:
    """Floats as whole numbers: NaN is null, a fraction is null and marked as odd."""
    broken = (col != col.floor()) | (col.abs() > 2.0**53)
    given = ~col.is_null() & ~col.is_nan()
    safe = nw.when(given & ~broken).then(col).otherwise(nw.lit(None, dtype=nw.Float64))
    return [
        safe.cast(nw.Int64).alias(name),
        (given & broken).fill_null(value=False).alias(odd(name)),
    ]


def _said() -> nw.Expr:
    verdict = nw.col("verdict")
    plain = verdict.str.strip_chars().str.to_lowercase()
    chain = nw.when(verdict == "yes").then(nw.lit(YES)).when(verdict == "no").then(nw.lit(NO))
    for words, code in ((("yes", "true"), YES), (("no", "false"), NO), (("unsure",), UNSURE)):
        chain = chain.when(plain.is_in(words)).then(nw.lit(code))
    return chain.otherwise(nw.lit(UNKNOWN))


def _graded() -> nw.Expr:
    plain = nw.col("verdict").str.strip_chars().str.to_lowercase()
    codes = {"yes": YES, "no": NO, "unsure": UNSURE}
    chain: Any = nw.when(plain.is_in(GRADES["yes"])).then(nw.lit(YES))
    for word in ("no", "unsure"):
        chain = chain.when(plain.is_in(GRADES[word])).then(nw.lit(codes[word]))
    found: nw.Expr = chain.otherwise(nw.lit(UNKNOWN))
    return found


def agree(
    frames: dict[str, Frame], pairs: Iterable[tuple[str, str]], what: str
) -> tuple[dict[str, Frame], str, list[str]]:
    """Make columns of several tables comparable; they must be all whole numbers or all text.

    A column without any value takes the type of the others. Returns the frames, the common kind and
    the faults.
    """
    kinds: dict[tuple[str, str], str] = {}
    for table, column in pairs:
        if table in frames:
            kinds[table, column] = (
                "whole" if frames[table].collect_schema()[column] == nw.Int64 else "text"
            )
    if len(set(kinds.values())) > 1:
        for (table, column), kind in list(kinds.items()):
            if kind == "text" and _without_values(frames[table], column):
                frames[table] = frames[table].with_columns(
                    nw.lit(None, dtype=nw.Int64).alias(column)
                )
                kinds[table, column] = "whole"
    if len(set(kinds.values())) > 1:
        words = {"whole": "whole numbers", "text": "text"}
        found = ", ".join(
            f"{words[kind]} in {table}.{column}" for (table, column), kind in kinds.items()
        )
        remedy = "Write all as text or all as whole numbers."
        return (
            frames,
            "text",
            [fault(what, "must have one type in all tables", found, remedy=remedy)],
        )
    return frames, next(iter(kinds.values()), "text"), []


def _without_values(frame: Frame, column: str) -> bool:
    return not fetch(frame.filter(~nw.col(column).is_null()).select(column).head(1))


def either(exprs: Sequence[nw.Expr]) -> nw.Expr:
    """True where any of the expressions is."""
    return functools.reduce(operator.or_, exprs) if exprs else nw.lit(value=False)
