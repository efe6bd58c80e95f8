"""Items and their labels out of local files.

| file | items | labels |
|---|---|---|
| CSV, JSONL, Parquet | a text column, number columns, a column of lists, or a column ``file`` with images | columns |
| npz | an array ``images``, ``x``, ``features``; a sparse matrix; ``jpeg`` with ``offset`` | arrays |
| npy | the array itself, memory-mapped | other npy files |
| idx, also gz (MNIST) | images | the labels file beside it, others by name |
| folder | npy or idx files, a table with a column ``file``, or a folder of images per class | as above; a class folder is a *true* label |
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

from noracle.errors import EvidenceError, require_evidence, require_rows
from noracle.evidence.frames import open_frames, unreadable
from noracle.learn import files
from noracle.learn.files import Ids, LabelledItems, Names, Raw

__all__ = ["LabelledItems", "read_items"]

MARK = "|"
"""Separates several classes in one field."""

_MORE = re.compile(r"ruled_out_?\d+")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_NUMBERS = {*_WHOLE, *(f"U{name}" for name in _WHOLE), "FLOAT", "DOUBLE", "BOOLEAN"}


def read_table(path: Path, columns: dict[str, Sequence[str] | None]) -> Raw:
    """One row per item; see :func:`noracle.learn.readers.read_items` for the columns."""
    table = _Table(path)
    several = [name for name in table.kinds if _MORE.fullmatch(name)]
    usual = ["ruled_out"] if "ruled_out" in table.kinds else several
    ruled_out = table.chosen("ruled_out", columns["ruled_out"], usual)
    label = table.chosen("label", columns["label"], ["label"])
    annotator = table.chosen("annotator", columns["annotator"], ["annotator"])
    if columns["items"] is None:
        items = table.guessed({*ruled_out, *label, *annotator, "item", "cost", "at"})
    else:
        items = table.chosen("items", columns["items"], [])
    require_evidence(len(label) <= 1, "label", "must be one column", ", ".join(label))
    own = ["item"] if "item" in table.kinds else []
    values = table.fetch([*dict.fromkeys([*ruled_out, *label, *annotator, *items, *own])])
    ids: list[int | str] | None = None
    if "item" in values:
        found = _list(values["item"])
        _require_all(found, "item", [f"in row {i + 1}" for i in range(len(found))])
        ids = [v if isinstance(v, (int, str)) else str(v) for v in found]
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
        types = zip(self.relation.columns, self.relation.types, strict=True)
        self.kinds = {str(name): _kind(str(sql)) for name, sql in types}

    def chosen(self, role: str, asked: Sequence[str] | None, usual: list[str]) -> list[str]:
        """The columns of a role, as asked for or as usual; an empty choice is none."""
        if asked is None:
            return [name for name in usual if name in self.kinds]
        missing = [repr(name) for name in asked if name not in self.kinds]
        rule = f"must be columns of {self.path.name!r} ({', '.join(list(self.kinds)[:12])})"
        require_evidence(not missing, role, rule, ", ".join(missing[:5]))
        return list(dict.fromkeys(asked))

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
        came = f"several that could be ({', '.join(list(left)[:8])})"
        rule = "must be one column of texts, or columns of numbers"
        remedy = "Say which columns hold the items."
        alone = len(texts) == 1 and not numbers
        require_evidence(alone, "items", rule, came, remedy=remedy)
        return texts

    def fetch(self, names: list[str]) -> dict[str, Any]:
        """The columns as arrays, masked where a value is missing."""
        import duckdb

        rule = "must have columns with items or labels"
        require_evidence(names, f"table {self.path.name!r}", rule, ", ".join(self.kinds))
        wanted = [duckdb.ColumnExpression(name) for name in names]
        try:
            found: dict[str, Any] = self.relation.select(*wanted).fetchnumpy()
        except duckdb.Error as error:
            raise unreadable(error, f"table file {self.path.name!r}") from None
        return found


def _kind(sql: str) -> str:
    if sql.endswith("]"):
        return "list"
    if sql.startswith(("VARCHAR", "ENUM")):
        return "text"
    return "number" if sql in _NUMBERS or sql.startswith("DECIMAL") else "other"


def _list(values: Any) -> list[Any]:
    """Plain values, None where masked or NaN."""
    return [None if isinstance(v, float) and math.isnan(v) else v for v in values.tolist()]


def _items(path: Path, names: list[str], columns: list[Any], ids: Ids | None) -> Any:
    if not columns:
        return None
    first = columns[0]
    if len(columns) == 1 and first.dtype == object:
        values = _list(first)
        _require_all(values, f"items: {names[0]}", ids)
        if all(isinstance(v, str) for v in values):
            return files.read_files(path.parent, values) if names[0] == "file" else values
        return _vectors(values, f"items: {names[0]}", ids)
    rule, remedy = "must be numbers, as the other columns", "Leave that column out."
    faults: list[str] = []
    for name, column in zip(names, columns, strict=True):
        who, came = f"items: {name}", "texts" if column.dtype == object else "dates or the like"
        try:
            require_evidence(column.dtype.kind in "biuf", who, rule, came, remedy=remedy)
            good = np.isfinite(np.ma.filled(np.ma.asarray(column).astype(np.float64), np.nan))
            require_rows(good, who, "must be finite numbers", "something else", ids=ids)
        except EvidenceError as error:
            faults += error.faults
    if faults:
        raise EvidenceError(*faults)
    return np.stack([np.ma.getdata(c).astype(np.float64) for c in columns], axis=1)


def _require_all(values: list[Any], name: str, ids: Ids | None) -> None:
    good = np.array([v is not None for v in values], dtype=bool)
    require_rows(good, name, "must not be empty", "nothing", ids=ids)


def _vectors(values: list[Any], name: str, ids: Ids | None) -> Any:
    """A column of lists of numbers, as embeddings are kept."""
    try:
        array = np.array([np.ma.filled(np.ma.asarray(v), np.nan) for v in values], dtype=np.float64)
    except (ValueError, TypeError):
        rule = "must be lists of numbers of one length"
        raise EvidenceError.of(name, rule, "something else") from None
    rule = "must be lists of finite numbers"
    good = np.isfinite(array).reshape(len(array), -1).all(axis=1)
    require_rows(good, name, rule, "something else", ids=ids)
    require_evidence(array.ndim == 2, name, rule, "something else")
    return array


def _classes(columns: list[Any]) -> Names | None:
    """Names in columns: one, a list, or several with ``|`` between; an empty column has a place."""
    if not columns:
        return None
    empty = [""] if len(columns) > 1 else []
    rows = zip(*(_list(c) for c in columns), strict=True)
    return [[name for cell in row for name in _names(cell) or empty] for row in rows]


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
        name per item, or one per label.
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
        return files.finish(_read_folder(place, choices), classes)
    pattern = _suffix(place) in TABLES and any(mark in place.name for mark in "*?[")
    rule, remedy = "must name a file or a folder", "Check the path."
    require_evidence(place.is_file() or pattern, "path", rule, repr(str(path)), remedy=remedy)
    return files.finish(_read_file(place, choices), classes)


def _read_file(path: Path, choices: dict[str, Choice]) -> Raw:
    suffix, came = _suffix(path), repr(str(path))
    if suffix in TABLES:
        columns = {role: [c] if isinstance(c, str) else c for role, c in choices.items()}
        return read_table(path, columns)
    require_evidence(path.stat().st_size, "path", "must not be an empty file", came)
    if suffix == ".npz":
        return files.read_npz(path, _single(choices))
    if suffix in _PICKLES:
        stored, names = files.read_pickle(path), _single(choices)
        rule, kind = "must hold a dict of arrays", type(stored).__name__
        require_evidence(kind == "dict", f"pickle {path.name!r}", rule, f"a {kind}")
        return files.from_arrays(stored, names, path)
    known = ", ".join((*TABLES, ".npz", ".npy", ".idx", *_PICKLES))
    rule, remedy = f"must end in {known} or be a folder", "Convert it to one of these."
    ok = suffix == ".npy" or _IDX.fullmatch(path.name)
    require_evidence(ok, "path", rule, came, remedy=remedy)
    return _from_arrays_beside(path, _single(choices))


def _suffix(path: Path) -> str:
    *_, before, last = "", "", *(s.lower() for s in path.suffixes)
    return before if last in (".gz", ".zst") and before in TABLES else last


def _single(choices: dict[str, Choice]) -> dict[str, str | None]:
    """Arrays have one name each; "" is none."""
    found: dict[str, str | None] = {}
    for role, choice in choices.items():
        names = [choice] if isinstance(choice, str) else choice
        rule = "must be one array in such a file"
        require_evidence(names is None or len(names) < 2, role, rule, ", ".join(names or ()))
        found[role] = None if names is None else (names[0] if names else "")
    return found


def _array(path: Path) -> Any:
    return files.read_npy(path) if path.suffix.lower() == ".npy" else files.read_idx(path)


def _from_arrays_beside(path: Path, names: dict[str, str | None]) -> Raw:
    """One file of items; labels in files of their own, in the same folder or at a path."""
    arrays: dict[str, Any] = {"items": _array(path)}
    for role in files.LABELS:
        name = names[role]
        place = _beside(path, role) if name is None else None
        if name:
            place = Path(name) if Path(name).is_file() else path.parent / name
            rule = f"must be a file beside {path.name!r}, or a path"
            remedy = "Check the path."
            require_evidence(place.is_file(), role, rule, repr(name), remedy=remedy)
        if place is not None:
            arrays[role] = _array(place)
    none = "" if names["items"] == "" else None
    return files.from_arrays(arrays, {**dict.fromkeys(names), "items": none}, path)


def _beside(path: Path, role: str) -> Path | None:
    """The file that belongs to these items by its name, if there is one."""
    names: list[str] = []
    if path.suffix.lower() != ".npy":
        name = re.sub(r"idx\d", "idx1", path.name.replace("images", "labels"))
        names = [name] if role == "label" and name != path.name else []
    elif path.stem in files.ITEMS:
        names = [f"{stem}.npy" for stem in files.LABELS[role]]
    return next((path.with_name(n) for n in names if path.with_name(n).is_file()), None)


def _read_folder(folder: Path, choices: dict[str, Choice]) -> Raw:
    held = sorted(f for f in folder.iterdir() if f.is_file() and not f.name.startswith("."))
    arrays = [place for stem in files.ITEMS for place in held if place.name == f"{stem}.npy"]
    images = [place for place in held if _IDX.fullmatch(place.name) and "images" in place.name]
    if images and not arrays:
        wanted = _single(choices)["items"]
        start = (wanted or "train") if wanted or len(images) > 1 else ""
        arrays = [place for place in images if place.name.startswith(start)]
        came = ", ".join(place.name for place in images[:6])
        rule, remedy = "must have one idx file of images", "Say how the name begins, with items."
        require_evidence(len(arrays) == 1, "folder", rule, came, remedy=remedy)
    if arrays:
        return _from_arrays_beside(arrays[0], {**_single(choices), "items": None})
    tables = [place for place in held if _suffix(place) in TABLES]
    came, remedy = ", ".join(place.name for place in tables[:6]), "Pass the table itself."
    require_evidence(len(tables) < 2, "folder", "must have one table", came, remedy=remedy)
    if tables:
        items = "file" if choices["items"] is None else choices["items"]
        return _read_file(tables[0], {**choices, "items": items})
    rule = "must come in a table with the columns file and ruled_out inside the folder"
    said = choices["ruled_out"]
    require_evidence(not said, "ruled_out", rule, repr(said))
    return files.read_class_folders(folder)
