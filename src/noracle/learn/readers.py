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

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noracle.errors import EvidenceError, fault
from noracle.learn._arrays import (
    ITEMS,
    LABEL,
    RULED_OUT,
    from_arrays,
    named,
    read_idx,
    read_npy,
    read_npz,
)
from noracle.learn._images import read_class_folders
from noracle.learn._items import LabelledItems, Raw, finish
from noracle.learn._pickles import read_pickle
from noracle.learn._tables import read_table

__all__ = ["LabelledItems", "read_items"]

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
