"""Items and labels in tables: CSV, JSONL and Parquet, through the engine of the evidence."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noracle.errors import EvidenceError, fault
from noracle.evidence.files import unreadable
from noracle.evidence.frames import open_frames
from noracle.learn._images import read_files
from noracle.learn._items import Names, Raw

MARK = "|"
"""Separates several classes in one field."""

_MORE = re.compile(r"ruled_out_?\d+")


def read_table(path: Path, columns: dict[str, Sequence[str] | None]) -> Raw:
    """One row an item; see :func:`noracle.learn.readers.read_items` for the columns."""
    table = _Table(path)
    ruled_out = table.chosen(
        "ruled_out",
        columns["ruled_out"],
        ["ruled_out"] if "ruled_out" in table.kinds else table.like(_MORE),
    )
    label = table.chosen("label", columns["label"], ["label"])
    annotator = table.chosen("annotator", columns["annotator"], ["annotator"])
    taken = {*ruled_out, *label, *annotator, "item", "cost", "at"}
    items = (
        table.chosen("items", columns["items"], None)
        if columns["items"] is not None
        else table.guessed(taken)
    )
    if len(label) > 1:
        raise EvidenceError(fault("label", "must be one column", ", ".join(label)))
    values = table.fetch(
        [
            *dict.fromkeys(
                [
                    *ruled_out,
                    *label,
                    *annotator,
                    *items,
                    *(["item"] if "item" in table.kinds else []),
                ]
            )
        ]
    )
    ids = _ids(values["item"]) if "item" in values else None
    return Raw(
        items=_items(path, items, [values[c] for c in items], ids),
        ruled_out=_classes([values[c] for c in ruled_out]),
        label=_classes([values[c] for c in label]),
        annotator=_classes([values[c] for c in annotator]),
        ids=ids if ids is not None or items != ["file"] else [str(v) for v in values["file"]],
        columns=tuple(items),
    )


class _Table:
    """A file whose columns have kinds: text, number, list or other."""

    def __init__(self, path: Path) -> None:
        frames, self.connection = open_frames({"items": path})
        self.relation: Any = frames["items"].to_native()
        self.path = path
        self.kinds = {
            str(name): _kind(str(sql))
            for name, sql in zip(self.relation.columns, self.relation.types, strict=True)
        }

    def chosen(self, role: str, asked: Sequence[str] | None, usual: list[str] | None) -> list[str]:
        """The columns of a role, as asked for or as usual; an empty choice is none."""
        if asked is None:
            return [name for name in usual or [] if name in self.kinds]
        missing = [name for name in asked if name not in self.kinds]
        if missing:
            known = ", ".join(list(self.kinds)[:12])
            raise EvidenceError(
                fault(
                    role,
                    f"must be columns of {self.path.name!r} ({known})",
                    ", ".join(map(repr, missing[:5])),
                )
            )
        return list(dict.fromkeys(asked))

    def like(self, pattern: re.Pattern[str]) -> list[str]:
        """Columns whose names have a form."""
        return [name for name in self.kinds if pattern.fullmatch(name)]

    def guessed(self, taken: set[str]) -> list[str]:
        """The items: column text, file or features; the only text column; or all number columns."""
        left = {name: kind for name, kind in self.kinds.items() if name not in taken}
        for usual in ("text", "file", "features"):
            if usual in left:
                return [usual]
        texts = [name for name, kind in left.items() if kind == "text"]
        numbers = [name for name, kind in left.items() if kind == "number"]
        if not texts:
            return numbers
        if len(texts) == 1 and not numbers:
            return texts
        remedy = "Say which columns hold the items."
        came = f"several that could be ({', '.join(list(left)[:8])})"
        raise EvidenceError(
            fault(
                "items", "must be one column of texts, or columns of numbers", came, remedy=remedy
            )
        )

    def fetch(self, names: list[str]) -> dict[str, Any]:
        """The columns as arrays, masked where a value is missing."""
        import duckdb

        if not names:
            raise EvidenceError(
                fault(
                    f"table {self.path.name!r}",
                    "must have columns with items or labels",
                    ", ".join(self.kinds),
                )
            )
        try:
            found: dict[str, Any] = self.relation.select(
                *[duckdb.ColumnExpression(name) for name in names]
            ).fetchnumpy()
        except duckdb.Error as error:
            raise unreadable(error, f"table file {self.path.name!r}") from None
        return found


def _kind(sql: str) -> str:
    if sql.endswith("]"):
        return "list"
    if sql.startswith(("VARCHAR", "ENUM")):
        return "text"
    numbers = (
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "HUGEINT",
        "UTINYINT",
        "USMALLINT",
        "UINTEGER",
        "UBIGINT",
        "UHUGEINT",
    )
    return (
        "number"
        if sql in (*numbers, "FLOAT", "DOUBLE", "BOOLEAN") or sql.startswith("DECIMAL")
        else "other"
    )


def _ids(values: Any) -> list[int | str]:
    ids = [v if isinstance(v, (int, str)) else str(v) for v in _list(values)]
    missing = [i for i, v in enumerate(_list(values)) if v is None]
    if missing:
        raise EvidenceError(
            fault(
                "item",
                "must not be empty",
                "nothing",
                where=[f"in row {i + 1}" for i in missing[:5]],
                total=len(missing),
            )
        )
    return ids


def _list(values: Any) -> list[Any]:
    """Plain values, None where masked or NaN."""
    return [
        None if v is None or (isinstance(v, float) and math.isnan(v)) else v
        for v in values.tolist()
    ]


def _items(
    path: Path, names: list[str], columns: list[Any], ids: Sequence[int | str] | None
) -> Any:
    if not columns:
        return None
    first = columns[0]
    if len(columns) == 1 and first.dtype == object:
        values = _list(first)
        if all(v is None or isinstance(v, str) for v in values):
            _require_all(values, names[0], ids)
            return read_files(path.parent, values) if names[0] == "file" else values
        return _vectors(values, names[0], ids)
    faults = []
    for name, column in zip(names, columns, strict=True):
        if column.dtype.kind not in "biuf":
            came = "texts" if column.dtype == object else "dates or the like"
            faults.append(
                fault(
                    f"items: {name}",
                    "must be numbers, as the other columns",
                    came,
                    remedy="Leave that column out.",
                )
            )
            continue
        wrong = np.flatnonzero(
            ~np.isfinite(np.ma.filled(np.ma.asarray(column).astype(np.float64), np.nan))
        )
        if wrong.size:
            where = [int(i) if ids is None else ids[int(i)] for i in wrong[:5]]
            faults.append(
                fault(
                    f"items: {name}",
                    "must be finite numbers",
                    "something else",
                    where=where,
                    total=len(wrong),
                )
            )
    if faults:
        raise EvidenceError(*faults)
    return np.stack([np.ma.getdata(c).astype(np.float64) for c in columns], axis=1)


def _require_all(values: list[Any], name: str, ids: Sequence[int | str] | None) -> None:
    missing = [i for i, v in enumerate(values) if v is None]
    if missing:
        where = [i if ids is None else ids[i] for i in missing[:5]]
        raise EvidenceError(
            fault(f"items: {name}", "must not be empty", "nothing", where=where, total=len(missing))
        )


def _vectors(values: list[Any], name: str, ids: Sequence[int | str] | None) -> Any:
    """A column of lists of numbers, as embeddings are kept."""
    _require_all(values, name, ids)
    try:
        array = np.array([np.ma.filled(np.ma.asarray(v), np.nan) for v in values], dtype=np.float64)
    except (ValueError, TypeError):
        raise EvidenceError(
            fault(f"items: {name}", "must be lists of numbers of one length", "something else")
        ) from None
    wrong = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))
    if array.ndim != 2 or wrong.size:
        where = [int(i) if ids is None else ids[int(i)] for i in wrong[:5]]
        raise EvidenceError(
            fault(
                f"items: {name}",
                "must be lists of finite numbers",
                "something else",
                where=where,
                total=len(wrong),
            )
        )
    return array


def _classes(columns: list[Any]) -> Names | None:
    """Names in columns: one, a list, or several separated by ``|``. Of several columns an empty one
    keeps its place.
    """
    if not columns:
        return None
    empty = [""] if len(columns) > 1 else []
    return [
        [name for cell in row for name in _names(cell) or empty]
        for row in zip(*(_list(c) for c in columns), strict=True)
    ]


def _names(cell: Any) -> list[str]:
    if cell is None:
        return []
    if isinstance(cell, str):
        return [part.strip() for part in cell.split(MARK) if part.strip()]
    if isinstance(cell, bool):
        return ["true" if cell else "false"]
    if isinstance(cell, (int, float)):
        return [str(int(cell)) if float(cell).is_integer() else str(cell)]
    if isinstance(cell, (list, tuple, np.ndarray)):
        return [name for part in _list(np.ma.array(cell, dtype=object)) for name in _names(part)]
    return [str(cell)]
