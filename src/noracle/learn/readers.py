"""Items and their labels out of local files.

| file | items | labels |
|---|---|---|
| CSV, JSONL, Parquet | a text column, number columns, a column of lists, or a column ``file`` with images | columns |
| npz | an array ``images``, ``x``, ``features``; a sparse matrix; ``jpeg`` with ``offset`` | arrays |
| npy | the array itself, memory-mapped | other npy files |
| idx, also gz (MNIST) | images | the labels file beside it, others by name |
| folder | npy or idx files, a table with a column ``file``, or one folder of images a class | as above; a class folder is a *true* label |
| pkl (CLImage) | ``images`` | ``cl_labels``, ``ord_labels`` |

Nothing is fetched from a network, and no code in a file is run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noracle.errors import EvidenceError, fault
from noracle.evidence.frames import open_frames, unreadable
from noracle.learn.files import (
    ITEMS,
    LABEL,
    RULED_OUT,
    LabelledItems,
    Names,
    Raw,
    finish,
    from_arrays,
    named,
    read_class_folders,
    read_files,
    read_idx,
    read_npy,
    read_npz,
    read_pickle,
)

__all__ = ["LabelledItems", "read_items"]

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


# ----------------------------------------------------------------------------


Choice = str | Sequence[str] | None

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".pq")
_IDX = re.compile(r".*[-._]idx\d(-ubyte)?(\.gz)?|.*\.idx\d?(\.gz)?", re.IGNORECASE)
_PICKLES = (".pkl", ".pickle")


def read_items(
    path: str | Path,
    *,
    items: Choice = None,
    ruled_out: Choice = None,
    label: Choice = None,
    annotator: Choice = None,
    classes: Sequence[str | int] | None = None,
) -> LabelledItems:
    r"""Read items and what is known of their classes from a file or folder.

    Parameters
    ----------
    path
        A table, an npz, npy, idx or pickle file, or a folder.
    items
        Where the items are: column(s) of a table, or the name of an array. By default the column
        ``text``, ``file`` or ``features``, the only text column, or all number columns that hold no
        labels. In a folder with several idx files: how their names begin (by default ``train``).
    ruled_out
        Where the ruled-out classes are: one column (one class, a list, or several separated by
        ``|``) or several columns; an array of class numbers (n,) or (n, s) padded with -1, of
        names, or a mask (n, K); for npy and idx items, another such file. By default ``ruled_out``,
        ``ruled_out_1``, ``ruled_out_2``, …
    label, annotator
        The same for true labels (``label``) and for who ruled the classes out (``annotator``): one
        name an item, or one a label.
    classes
        All classes, in the order of their numbers. By default a table has the classes that occur in
        it, sorted, and an array has the classes 0 to the largest number; so a class that is never
        named must be given here. Numbers in the file are places in ``classes``, unless these are
        whole numbers themselves.

    An empty choice, ``()``, reads none of that kind.

    Returns
    -------
    LabelledItems
        Class numbers are places in its ``classes``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "notes.csv"
    ...     _ = table.write_text("item,text,ruled_out\nn1,a red door,cat|dog\nn2,a blue cat,door\n", encoding="utf-8")
    ...     read = read_items(table)
    >>> read.classes, read.ruled_out.tolist(), read.items, read.ids
    (('cat', 'dog', 'door'), [[0, 1], [2, -1]], ['a red door', 'a blue cat'], ['n1', 'n2'])
    """
    place = Path(path)
    choices = {"items": items, "ruled_out": ruled_out, "label": label, "annotator": annotator}
    if place.is_dir():
        raw = _read_folder(place, choices)
    else:
        if not place.is_file() and not (
            _suffix(place) in TABLES and any(mark in place.name for mark in "*?[")
        ):
            raise EvidenceError(
                fault(
                    "path",
                    "must name a file or a folder",
                    repr(str(path)),
                    remedy="Check the path.",
                )
            )
        raw = _read_file(place, choices)
    return finish(raw, classes)


def _read_file(path: Path, choices: dict[str, Choice]) -> Raw:
    suffix = _suffix(path)
    if suffix in TABLES:
        return read_table(
            path, {role: [c] if isinstance(c, str) else c for role, c in choices.items()}
        )
    if path.is_file() and path.stat().st_size == 0:
        raise EvidenceError(fault("path", "must not be an empty file", repr(str(path))))
    if suffix == ".npz":
        return read_npz(path, _single(choices))
    if suffix in _PICKLES:
        return _from_pickle(path, _single(choices))
    if suffix == ".npy" or _IDX.fullmatch(path.name):
        return _from_arrays_beside(path, _single(choices))
    known = ", ".join((*TABLES, ".npz", ".npy", ".idx", *_PICKLES))
    raise EvidenceError(
        fault(
            "path",
            f"must end in {known} or be a folder",
            repr(str(path)),
            remedy="Convert it to one of these.",
        )
    )


def _suffix(path: Path) -> str:
    suffixes = [s.lower() for s in path.suffixes]
    return (
        suffixes[-2]
        if len(suffixes) > 1 and suffixes[-1] in (".gz", ".zst") and suffixes[-2] in TABLES
        else (suffixes or [""])[-1]
    )


def _single(choices: dict[str, Choice]) -> dict[str, str | None]:
    """Arrays have one name each; "" is none."""
    found: dict[str, str | None] = {}
    for role, choice in choices.items():
        names = [choice] if isinstance(choice, str) else choice
        if names is not None and len(names) > 1:
            raise EvidenceError(fault(role, "must be one array in such a file", ", ".join(names)))
        found[role] = None if names is None else (names[0] if names else "")
    return found


def _from_pickle(path: Path, names: dict[str, str | None]) -> Raw:
    stored = read_pickle(path)
    if not isinstance(stored, dict):
        raise EvidenceError(
            fault(
                f"pickle {path.name!r}", "must hold a dict of arrays", f"a {type(stored).__name__}"
            )
        )
    return named(from_arrays(stored, names, path), names)


def _array(path: Path) -> Any:
    return read_npy(path) if path.suffix.lower() == ".npy" else read_idx(path)


def _from_arrays_beside(path: Path, names: dict[str, str | None]) -> Raw:
    """One file of items; labels in files of their own, in the same folder or at a path."""
    found: dict[str, Any] = {}
    for role in ("ruled_out", "label", "annotator"):
        name = names[role]
        place = None if name else _beside(path, role)
        if name:
            place = Path(name) if Path(name).is_file() else path.parent / name
            if not place.is_file():
                raise EvidenceError(
                    fault(
                        role,
                        f"must be a file beside {path.name!r}, or a path",
                        repr(name),
                        remedy="Check the path.",
                    )
                )
        found[role] = None if place is None or name == "" else _array(place)
    arrays = {**found, "items": _array(path)}
    return from_arrays(
        {k: v for k, v in arrays.items() if v is not None},
        dict.fromkeys(arrays) | {"items": names["items"] and "items"},
        path,
    )


def _beside(path: Path, role: str) -> Path | None:
    """The file that belongs to these items by its name, if there is one."""
    if path.suffix.lower() != ".npy":
        name = re.sub(r"idx\d", "idx1", path.name.replace("images", "labels"))
        return (
            path.with_name(name)
            if role == "label" and name != path.name and path.with_name(name).is_file()
            else None
        )
    if path.stem not in ITEMS:
        return None
    usual = {"ruled_out": RULED_OUT, "label": LABEL, "annotator": ("annotator",)}[role]
    return next(
        (
            path.with_name(f"{stem}.npy")
            for stem in usual
            if path.with_name(f"{stem}.npy").is_file()
        ),
        None,
    )


def _read_folder(folder: Path, choices: dict[str, Choice]) -> Raw:
    files = sorted(
        place for place in folder.iterdir() if place.is_file() and not place.name.startswith(".")
    )
    arrays = [place for stem in ITEMS for place in files if place.name == f"{stem}.npy"]
    if arrays:
        return _from_arrays_beside(arrays[0], {**_single(choices), "items": None})
    images = [place for place in files if _IDX.fullmatch(place.name) and "images" in place.name]
    if images:
        wanted = _single(choices)["items"]
        chosen = (
            [place for place in images if place.name.startswith(wanted or "train")]
            if wanted or len(images) > 1
            else images
        )
        if len(chosen) != 1:
            came = ", ".join(place.name for place in images[:6])
            raise EvidenceError(
                fault(
                    "folder",
                    "must have one idx file of images",
                    came,
                    remedy="Say how the name begins, with items.",
                )
            )
        return _from_arrays_beside(chosen[0], {**_single(choices), "items": None})
    tables = [place for place in files if _suffix(place) in TABLES]
    if len(tables) == 1:
        return _read_file(
            tables[0],
            {**choices, "items": "file" if choices["items"] is None else choices["items"]},
        )
    if len(tables) > 1:
        remedy = "Pass the table itself."
        raise EvidenceError(
            fault(
                "folder",
                "must have one table",
                ", ".join(place.name for place in tables[:6]),
                remedy=remedy,
            )
        )
    if choices["ruled_out"]:
        rule = "must come in a table with the columns file and ruled_out inside the folder"
        raise EvidenceError(fault("ruled_out", rule, repr(choices["ruled_out"])))
    return read_class_folders(folder)
