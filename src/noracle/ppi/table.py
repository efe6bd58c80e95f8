"""Scores as an array: a column for each rater, NaN where a rater did not score."""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noracle.errors import ArgumentError, EvidenceError, EvidenceWarning, fault
from noracle.evidence.frames import fetch, open_frames
from noracle.evidence.shapes import ALIASES, renamed, resolve
from noracle.evidence.tables import TABLES

Array = NDArray[np.float64]
_LONG = ("item", "rater", "value")
_NO_RATERS = ("item", "cluster", *ALIASES["item"])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """Rows of scores; ``strata`` names the stratum of each row where a column says so."""

    names: tuple[str, ...]
    rows: Array
    strata: tuple[str, ...] = ()


def one_table(tables: object, what: str = "data", columns: Mapping[str, str] | None = None) -> Any:
    """Several files or frames as one wide table; anything else as it is.

    Each has a column for each rater, or rows ``item, rater, value``; they need not be alike. Rows
    of one item are one row. A file without a column ``item`` has items of its own. ``columns`` are
    the caller's names of ``item``, ``rater`` and ``value``, where they have others: ``{"item":
    "question_id"}``.

    Examples
    --------
    >>> one_table({"human": [1, 0]})
    {'human': [1, 0]}
    """
    if columns:
        tables = with_names(
            tables if isinstance(tables, (list, tuple)) else [tables], columns, what
        )
    if not isinstance(tables, (list, tuple)) or not tables or not all(_is_table(t) for t in tables):
        return tables
    if len(tables) == 1:
        return tables[0]
    parts = [_cells(table, what) for table in tables]
    nameless = [
        _called(table, n)
        for n, (table, (_, has_items)) in enumerate(zip(tables, parts, strict=True))
        if not has_items
    ]
    if nameless:
        note = f"{', '.join(nameless)}: no column item, so that its rows are taken as items of their own, in no other file"
        warnings.warn(note, EvidenceWarning, stacklevel=2)
    items: dict[str, dict[str, Any]] = {}
    twice: dict[str, dict[Any, None]] = {}
    for number, (rows, has_items) in enumerate(parts):
        for place, (item, cells) in enumerate(rows):
            known = items.setdefault(
                _key(item) if has_items else f"row {place} of table {number}", {"item": item}
            )
            for name, value in cells.items():
                if known.get(name) is None:
                    known[name] = value
                elif value is not None and value != known[name]:
                    twice.setdefault(name, {})[item] = None
    if twice:
        rule, remedy = (
            "must have one value for each item in all files together",
            "Keep one of them.",
        )
        raise EvidenceError(
            *(
                fault(
                    f"{what}.{name}",
                    rule,
                    "two",
                    where=list(where),
                    total=len(where),
                    remedy=remedy,
                )
                for name, where in twice.items()
            )
        )
    names = dict.fromkeys(name for row in items.values() for name in row)
    found = {name: [row.get(name) for row in items.values()] for name in names}
    for name, values in found.items():
        if any(isinstance(v, str) for v in values):
            found[name] = [None if v is None else str(v) for v in values]
    if nameless:
        del found["item"]
    return found


def with_names(
    tables: Sequence[object], columns: Mapping[str, str], what: str = "data"
) -> list[dict[str, list[Any]]]:
    """The tables with the caller's columns under their canonical names; every name must be in one
    of them.

    Examples
    --------
    >>> with_names([{"qid": [1], "human": [0.5]}], {"item": "qid"})
    [{'item': [1], 'human': [0.5]}]
    """
    names = {column: name.removeprefix("scores.") for name, column in columns.items()}
    strange = [name for name in names.values() if name not in (*_LONG, "cluster")]
    if strange:
        raise ArgumentError(
            f"columns must name item, rater, value or cluster of scores; got {', '.join(strange)}."
        )
    found, seen = [], set[str]()
    for table in tables:
        frames, _connection = open_frames({what: table})
        given = list(frames[what].columns)
        seen |= {column for column in given if column in names}
        rows = fetch(frames[what])
        found.append(
            {names.get(column, column): [row[i] for row in rows] for i, column in enumerate(given)}
        )
    missing = [column for column in names if column not in seen]
    if missing:
        raise EvidenceError(
            fault("columns", f"must be columns of {what}", f"no {', '.join(missing)} there")
        )
    return found


def _is_table(table: object) -> bool:
    return isinstance(table, (str, os.PathLike, Mapping)) or hasattr(table, "columns")


def _called(table: object, number: int) -> str:
    return os.fspath(table) if isinstance(table, (str, os.PathLike)) else f"table {number + 1}"


def _key(item: Any) -> str:
    """An item by its text, so that 7 in one file is 7 in another; a float that is whole is that
    number.
    """
    return f"item {int(item)}" if isinstance(item, float) and item.is_integer() else f"item {item}"


def _cells(table: object, what: str) -> tuple[list[tuple[Any, dict[str, Any]]], bool]:
    """The rows of one file as item and cells, raters of a long table side by side; and whether it
    names items.
    """
    frames, _connection = open_frames({what: table})
    frame = frames[what]
    columns = list(frame.columns)
    fetched = fetch(frame)
    has_items = "item" in columns
    plain = [
        [None if isinstance(v, float) and math.isnan(v) else v for v in row] for row in fetched
    ]
    rows = [
        (row[columns.index("item")] if has_items else None, dict(zip(columns, row, strict=True)))
        for row in plain
    ]
    if set(_LONG) <= set(columns):
        return [
            (
                i,
                {
                    **_others(c),
                    str(c["rater"]): None if c["value"] is None else _score(c["value"], what),
                },
            )
            for i, c in rows
        ], True
    names = [item for item, _ in rows]
    if has_items and len(set(names)) < len(names):
        again = [item for item, n in Counter(names).items() if n > 1]
        shown = repr(os.fspath(table)) if isinstance(table, (str, os.PathLike)) else "a table"
        raise EvidenceError(
            fault(
                what,
                "must have one row for each item",
                f"two in {shown}",
                where=again,
                total=len(again),
            )
        )
    return [
        (item, {k: v for k, v in cells.items() if k != "item"}) for item, cells in rows
    ], has_items


def _others(cells: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in cells.items() if name not in _LONG}


def _score(value: Any, what: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise EvidenceError(fault(f"{what}.value", "must hold numbers", repr(value))) from None


def read_clusters(table: object, column: str) -> NDArray[np.int64] | None:
    """A number for the cluster of each row of :func:`read_scores`, None without that column; a row
    without a cluster is one of its own.

    Examples
    --------
    >>> read_clusters({"human": [1, 0, 1], "cluster": ["a", None, "a"]}, "cluster").tolist()
    [0, 1, 0]
    """
    if isinstance(table, (np.ndarray, list, tuple)):
        return None
    if isinstance(table, Mapping):
        given: Mapping[str, Any] = {str(name): values for name, values in table.items()}
        if column not in given:
            return None
        is_long = set(_LONG) <= set(given)
        rows = list(zip(given["item"] if is_long else given[column], given[column], strict=True))
    else:
        frames, _connection = open_frames({"data": table})
        columns = list(frames["data"].columns)
        if column not in columns:
            return None
        is_long = set(_LONG) <= set(columns)
        rows = [
            (row[0], row[-1])
            for row in fetch(frames["data"].select(*(["item"] if is_long else []), column))
        ]
    named = [cluster for _, cluster in rows]
    if is_long:
        by_item: dict[Any, Any] = {}
        for item, cluster in rows:
            if by_item.setdefault(item, cluster) != cluster:
                raise EvidenceError(
                    fault(
                        column,
                        "must be the same in all rows of an item",
                        "two",
                        where=[item],
                        total=1,
                    )
                )
        named = list(by_item.values())
    place: dict[Any, int] = {}
    return np.array(
        [place.setdefault(("", i) if c is None else c, len(place)) for i, c in enumerate(named)],
        dtype=np.int64,
    )


def read_scores(
    table: object,
    *,
    names: Sequence[str] | None = None,
    strata: str | None = None,
    what: str = "pilot",
) -> Scores:
    """Scores out of an array, a dict of columns, a file or any data frame.

    Parameters
    ----------
    table
        A 2-D array (then ``names`` says what its columns are); or a wide table with a column for
        each rater; or a long table with the columns ``item``, ``rater`` and ``value``; or a list of
        files of both forms. Null and NaN mean: not observed.
    names
        The wanted raters, in this order. By default all columns that hold numbers, but ``item``
        (also called ``id``, ``question_id``, …) and ``cluster``.
    strata
        The column that names the stratum of an item.

    Examples
    --------
    >>> read_scores({"human": [1, 0, None], "judge": [0.9, 0.2, 0.4]}).rows.tolist()
    [[1.0, 0.9], [0.0, 0.2], [nan, 0.4]]
    >>> long = {"item": [1, 1, 2], "rater": ["human", "judge", "judge"], "value": [1.0, 0.9, 0.2]}
    >>> read_scores(long, names=["human", "judge"]).rows.tolist()
    [[1.0, 0.9], [nan, 0.2]]
    """
    table = one_table(table, what)
    if isinstance(table, (np.ndarray, list, tuple)):
        return _from_array(table, names, what)
    frames, _connection = open_frames({what: table})
    names_of, _, _ = resolve(frames[what].columns, TABLES["scores"], {})
    frame = renamed(frames[what], names_of) if set(_LONG) <= set(names_of) else frames[what]
    columns = list(frame.columns)
    if set(_LONG) <= set(columns):
        return _from_long(fetch(frame.select(*_LONG, *((strata,) if strata else ()))), names, what)
    schema = frame.collect_schema()
    chosen = (
        list(names)
        if names is not None
        else [c for c in columns if c not in _NO_RATERS and c != strata and schema[c].is_numeric()]
    )
    missing = [c for c in [*chosen, *((strata,) if strata else ())] if c not in columns]
    if missing or not chosen:
        raise EvidenceError(
            fault(
                what,
                f"must have columns {', '.join(chosen) or 'of numbers'}",
                f"no {', '.join(missing) or 'such column'}",
            )
        )
    other = [
        c
        for c in chosen
        if not (
            schema[c].is_numeric()
            or schema[c].is_boolean()
            or str(schema[c]) in ("Unknown", "Null")
        )
    ]
    if other:
        raise EvidenceError(
            fault(what, "must hold numbers", f"{schema[other[0]]} in column {other[0]!r}")
        )
    fetched = fetch(frame.select(*chosen, *((strata,) if strata else ())))
    rows = np.array(
        [[_number(v) for v in row[: len(chosen)]] for row in fetched], dtype=np.float64
    ).reshape(-1, len(chosen))
    return Scores(
        names=tuple(chosen),
        rows=rows,
        strata=tuple(str(row[-1]) for row in fetched) if strata else (),
    )


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _from_array(table: object, names: Sequence[str] | None, what: str) -> Scores:
    try:
        rows = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise EvidenceError(
            fault(what, "must be rows of numbers, NaN where not observed", type(table).__name__)
        ) from None
    if rows.ndim != 2:
        raise EvidenceError(
            fault(what, "must be a table of rows and columns", f"shape {rows.shape}")
        )
    if names is not None and len(names) != rows.shape[1]:
        raise EvidenceError(
            fault("names", f"must be {rows.shape[1]}, one for each column", len(names))
        )
    return Scores(
        names=tuple(names) if names is not None else tuple(f"x{j}" for j in range(rows.shape[1])),
        rows=rows,
    )


def _from_long(
    fetched: Sequence[tuple[Any, ...]], names: Sequence[str] | None, what: str
) -> Scores:
    raters = (
        list(names) if names is not None else list(dict.fromkeys(str(row[1]) for row in fetched))
    )
    place = {rater: j for j, rater in enumerate(raters)}
    missing = sorted(set(raters) - {str(row[1]) for row in fetched})
    if missing:
        raise EvidenceError(
            fault(what, f"must have values of {', '.join(raters)}", f"none of {', '.join(missing)}")
        )
    items: dict[Any, int] = {}
    for row in fetched:
        items.setdefault(row[0], len(items))
    rows = np.full((len(items), len(raters)), np.nan)
    seen: set[tuple[int, int]] = set()
    twice: dict[Any, None] = {}
    strata = [""] * len(items)
    for row in fetched:
        i, j = items[row[0]], place.get(str(row[1]))
        if len(row) > 3:
            strata[i] = str(row[3])
        if j is None:
            continue
        if (i, j) in seen:
            twice[row[0]] = None
        seen.add((i, j))
        rows[i, j] = _number(row[2])
    if twice:
        raise EvidenceError(
            fault(
                what,
                "must have one value for each item and rater",
                "two",
                where=list(twice),
                total=len(twice),
            )
        )
    return Scores(
        names=tuple(raters),
        rows=rows,
        strata=tuple(strata) if fetched and len(fetched[0]) > 3 else (),
    )


def patterns(rows: Array) -> Mapping[tuple[int, ...], int]:
    """How many rows observe each set of columns; rows that observe nothing are left out.

    Examples
    --------
    >>> patterns(np.array([[1.0, np.nan], [0.0, 2.0], [1.0, 3.0]]))
    {(0,): 1, (0, 1): 2}
    """
    seen, count = np.unique(~np.isnan(rows), axis=0, return_counts=True)
    return {
        tuple(np.flatnonzero(p).tolist()): int(n)
        for p, n in zip(seen, count, strict=True)
        if p.any()
    }
