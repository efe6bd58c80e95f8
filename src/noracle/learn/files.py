"""Files with items and labels as arrays: npz, npy and idx, images through Pillow, and pickles
without running anything that the file says.
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import itertools
import math
import os
import pickle
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noracle.errors import EvidenceError, EvidenceWarning, fault

Numbers = NDArray[np.int64]
Names = list[list[str]]
"""The classes that were named for each item, as text; "" holds the place of none."""

NONE = ("", "-1")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledItems:
    """Items and what is known of their classes.

    Parameters
    ----------
    items
        Features (n, d), images (n, height, width, channels), a sparse matrix, a list of texts, or
        None where the file holds labels only.
    ruled_out
        Classes that are ruled out, (n, s), padded with -1; None where the file names none.
    label
        The true class, -1 where it is not known; None where the file names none.
    annotator
        Who ruled the class out, in the shape of ``ruled_out``; "" where nobody did.
    votes
        Ordinary labels of several annotators, (n, annotators), -1 for none.
    classes
        Names of the classes; the numbers above are places in it.
    ids
        Names or row numbers of the items.
    columns
        The columns of a table that hold the items, or the name of their array where it was asked
        for.

    Examples
    --------
    >>> items = LabelledItems(items=np.eye(2), ruled_out=np.array([[1], [0]]), classes=("cat", "dog"), ids=("a", "b"))
    >>> len(items), items.n_classes, items.texts
    (2, 2, False)
    """

    items: Any = None
    ruled_out: Numbers | None = None
    label: Numbers | None = None
    annotator: NDArray[np.str_] | None = None
    votes: Numbers | None = None
    classes: tuple[str, ...] = ()
    ids: Sequence[int | str] = ()
    columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.classes)

    @property
    def texts(self) -> bool:
        """Whether the items are texts."""
        return isinstance(self.items, list)


@dataclasses.dataclass(slots=True, kw_only=True)
class Raw:
    """What a file says, before class names are made into numbers.

    Classes are whole numbers with -1 for none, (n,) or (n, s), or lists of names for each item.
    """

    items: Any = None
    ruled_out: Numbers | Names | None = None
    label: Numbers | Names | None = None
    votes: Numbers | None = None
    annotator: Names | None = None
    classes: Sequence[str] | None = None
    at_least: int = 0  # columns of a mask
    ids: Sequence[int | str] | None = None
    columns: tuple[str, ...] = ()


def finish(raw: Raw, classes: Sequence[str | int] | None) -> LabelledItems:
    """Check lengths, and number the classes."""
    n = _length(raw)
    ids: Sequence[int | str] = range(n) if raw.ids is None else raw.ids
    given = None if classes is None else _given(classes)
    names = given if given is not None else _found(raw)
    if 0 < len(names) < raw.at_least:
        raise EvidenceError(
            fault("classes", f"must be as many as a mask has columns ({raw.at_least})", len(names))
        )
    _tell_of_minus_one(raw, names)
    ruled_out = _numbered("ruled_out", raw.ruled_out, names, ids)
    label = _numbered("label", raw.label, names, ids)
    votes = _numbered("annotators", raw.votes, names, ids)
    return LabelledItems(
        items=raw.items,
        ruled_out=ruled_out,
        label=None if label is None else _one(label, ids),
        votes=votes,
        annotator=_annotators(raw, ruled_out, ids),
        classes=names,
        ids=ids,
        columns=raw.columns,
    )


def _length(raw: Raw) -> int:
    found = {
        "items": raw.items,
        "ruled_out": raw.ruled_out,
        "label": raw.label,
        "annotators": raw.votes,
        "annotator": raw.annotator,
        "ids": raw.ids,
    }
    lengths = {
        name: value.shape[0] if hasattr(value, "shape") else len(value)
        for name, value in found.items()
        if value is not None
    }
    if len(set(lengths.values())) > 1:
        came = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise EvidenceError(
            fault(
                "items and labels",
                "must be equally many",
                came,
                remedy="Use files of the same items.",
            )
        )
    n = next(iter(lengths.values()), 0)
    if n == 0:
        raise EvidenceError(fault("items", "must be at least one", "none"))
    return int(n)


def _given(classes: Sequence[str | int]) -> tuple[str, ...]:
    names = tuple(str(c) for c in ([] if isinstance(classes, str) else classes))
    if len(names) < 2 or len(set(names)) < len(names):
        raise EvidenceError(
            fault("classes", "must be at least two different names", repr(classes)[:100])
        )
    return names


def _found(raw: Raw) -> tuple[str, ...]:
    """The classes of a file: those it lists, the numbers up to the largest one, or the names in it,
    sorted.
    """
    if raw.classes is not None:
        return _given(raw.classes)
    values = [v for v in (raw.ruled_out, raw.label, raw.votes) if v is not None]
    if all(isinstance(v, np.ndarray) for v in values):
        highest = max((int(v.max()) for v in values if v.size), default=-1)  # type: ignore[union-attr]
        if highest >= 1 << 20:
            raise EvidenceError(
                fault(
                    "classes",
                    "must be numbered from 0",
                    highest,
                    remedy="Number them 0, 1, 2, … or pass their names.",
                )
            )
        return tuple(str(k) for k in range(max(highest + 1, raw.at_least)))
    return sort_names(
        {name for v in values for row in _as_names(v) for name in row if name not in NONE}
    )


def _tell_of_minus_one(raw: Raw, classes: tuple[str, ...]) -> None:
    """In a table -1 may be a class or the usual mark of no label: the choice must be seen."""
    for name, values in (("ruled_out", raw.ruled_out), ("label", raw.label)):
        n = (
            0
            if isinstance(values, np.ndarray) or "-1" in classes
            else sum("-1" in row for row in values or ())
        )
        if n:
            text = f"{name} -1 is taken as no label, at {n} items. If it is a class, name it in classes."
            warnings.warn(text, EvidenceWarning, stacklevel=4)


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Whole numbers by size, all else by the alphabet.

    Examples
    --------
    >>> sort_names({"10", "9"}), sort_names({"b", "10", "a"})
    (('9', '10'), ('10', 'a', 'b'))
    """
    found = sorted(names)
    return tuple(sorted(found, key=int)) if all(is_whole(name) for name in found) else tuple(found)


def is_whole(name: str) -> bool:
    """Whether a name is a whole number in its usual form."""
    digits = name.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(name)) == name


def _as_names(values: Numbers | Names) -> Names:
    if isinstance(values, np.ndarray):
        return [[str(v) for v in np.atleast_1d(row).tolist() if v != -1] for row in values]
    return values


def _numbered(
    name: str, values: Numbers | Names | None, classes: tuple[str, ...], ids: Sequence[int | str]
) -> Numbers | None:
    """Numbers of classes, (n, s), padded with -1."""
    if values is None:
        return None
    if isinstance(values, np.ndarray):
        return _numbers(name, values.reshape(len(ids), -1).astype(np.int64), classes, ids)
    places = {**dict.fromkeys(NONE, -1), **{c: k for k, c in enumerate(classes)}}
    wrong = [i for i, row in enumerate(values) if any(c not in places for c in row)]
    if wrong:
        came = next(c for c in values[wrong[0]] if c not in places)
        raise _outside(name, classes, repr(came)[:60], [ids[i] for i in wrong[:5]], len(wrong))
    width = max(map(len, values), default=0) or 1
    numbers = np.full((len(values), width), -1, dtype=np.int64)
    for i, row in enumerate(values):
        numbers[i, : len(row)] = [places[c] for c in row]
    return numbers


def _numbers(
    name: str, values: Numbers, classes: tuple[str, ...], ids: Sequence[int | str]
) -> Numbers:
    """Whole numbers are places in ``classes``, or, where all classes have whole numbers as names,
    those names.
    """
    if classes and all(map(is_whole, classes)):
        named = np.array([int(c) for c in classes], dtype=np.int64)
        order = np.argsort(named)
        place = np.minimum(np.searchsorted(named[order], values), len(named) - 1)
        numbers = order[place]
        bad = (values != -1) & (named[numbers] != values)
        numbers = np.where(values == -1, -1, numbers)
    else:
        numbers, bad = values, (values < -1) | (values >= len(classes))
    wrong = np.flatnonzero(bad.any(axis=1))
    if wrong.size:
        came = values[wrong[0]][bad[wrong[0]]][0]
        raise _outside(name, classes, came, [ids[int(i)] for i in wrong[:5]], len(wrong))
    return numbers


def _outside(
    name: str, classes: tuple[str, ...], came: object, where: list[int | str], total: int
) -> EvidenceError:
    shown = ", ".join(classes[:8]) + (", …" if len(classes) > 8 else "")
    rule = f"must be one of the {len(classes)} classes ({shown}), or -1 or empty for none"
    return EvidenceError(
        fault(
            name,
            rule,
            came,
            where=where,
            total=total,
            remedy="Name all classes, or drop those items.",
        )
    )


def _one(label: Numbers, ids: Sequence[int | str]) -> Numbers:
    many = np.flatnonzero((label >= 0).sum(axis=1) > 1)
    if many.size:
        where = [ids[int(i)] for i in many[:5]]
        raise EvidenceError(
            fault("label", "must be one class an item", "several", where=where, total=len(many))
        )
    found: Numbers = label.max(axis=1)
    return found


def _annotators(
    raw: Raw, ruled_out: Numbers | None, ids: Sequence[int | str]
) -> NDArray[np.str_] | None:
    """Who said what, in the shape of ``ruled_out``: one name for all labels of an item, or one for
    each.
    """
    names = raw.annotator
    if names is None or ruled_out is None or raw.ruled_out is None:
        return None
    width = ruled_out.shape[1]
    said = (
        [width if isinstance(row, np.ndarray) else len(row) for row in raw.ruled_out]
        if width > 1
        else [1] * len(names)
    )
    wrong = [i for i, row in enumerate(names) if len(row) not in (0, 1, said[i])]
    if wrong:
        came = f"{len(names[wrong[0]])} names for {said[wrong[0]]} labels"
        where = [ids[i] for i in wrong[:5]]
        raise EvidenceError(
            fault(
                "annotator",
                "must name one annotator an item, or one a label",
                came,
                where=where,
                total=len(wrong),
            )
        )
    found = np.array(
        [(row * width if len(row) == 1 else [*row, *[""] * (width - len(row))]) for row in names],
        dtype=np.str_,
    )
    found[ruled_out < 0] = ""
    return found


# ----------------------------------------------------------------------------
# Images out of files and out of bytes, through Pillow (which comes with matplotlib).


Pixels = NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
MAX_PIXELS = 64_000_000
_CHUNK = 256


def decode(sources: Sequence[Any], names: Sequence[int | str]) -> Pixels:
    """Images (n, height, width, channels), decoded by several threads; one channel where all are
    grey.

    ``sources`` are paths or bytes; ``names`` say which image is wrong.
    """

    def some(start: int) -> list[Pixels]:
        return [
            _image(source, name)
            for source, name in zip(
                sources[start : start + _CHUNK], names[start : start + _CHUNK], strict=True
            )
        ]

    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        images = [
            image for part in pool.map(some, range(0, len(sources), _CHUNK)) for image in part
        ]
    return stack(images, names)


def stack(images: Sequence[Pixels], names: Sequence[int | str]) -> Pixels:
    """Images of one size as one array; grey ones get three channels where others have colours."""
    if not images:
        raise EvidenceError(fault("images", "must be at least one", "none"))
    sizes = [image.shape[:2] for image in images]
    other = [i for i, size in enumerate(sizes) if size != sizes[0]]
    if other:
        came = f"{sizes[0][0]}×{sizes[0][1]} and {sizes[other[0]][0]}×{sizes[other[0]][1]}"
        where = [names[i] for i in other[:5]]
        raise EvidenceError(
            fault(
                "images",
                "must be of one size",
                came,
                where=where,
                total=len(other),
                remedy="Resize or crop them first.",
            )
        )
    channels = 3 if any(image.ndim == 3 for image in images) else 1
    made = np.empty((len(images), *sizes[0], channels), dtype=np.uint8)
    for place, image in zip(made, images, strict=True):
        place[...] = image if image.ndim == 3 else image[:, :, None]
    return made


def _image(source: Any, name: int | str) -> Pixels:
    from PIL import Image

    try:
        with Image.open(
            io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS
        ) as image:
            if image.width * image.height > MAX_PIXELS:
                raise EvidenceError(
                    fault(
                        "images",
                        f"must have at most {MAX_PIXELS:,} pixels",
                        f"{image.width}×{image.height}",
                        where=[name],
                    )
                )
            if image.mode.startswith(("I", "F")):
                raise EvidenceError(
                    fault(
                        "images", "must have 8 bits a channel", f"mode {image.mode}", where=[name]
                    )
                )
            return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
    except EvidenceError:
        raise
    except Exception as error:  # noqa: BLE001 (a broken image can fail anywhere in its decoder)
        raise EvidenceError(
            fault(
                "images",
                f"must be complete {', '.join(FORMATS)} files",
                f"a {type(error).__name__}",
                where=[name],
                remedy="Replace it.",
            )
        ) from None


def split_bytes(data: NDArray[Any], offset: NDArray[Any]) -> list[bytes]:
    """The pieces of one long array of bytes: piece i is ``data[offset[i]:offset[i + 1]]``."""
    ends = np.asarray(offset)
    if (
        data.ndim != 1
        or data.dtype != np.uint8
        or ends.ndim != 1
        or len(ends) < 2
        or not np.issubdtype(ends.dtype, np.integer)
    ):
        raise EvidenceError(
            fault(
                "jpeg and offset",
                "must be bytes and the places where images begin and end",
                f"{data.dtype}, {ends.dtype}",
            )
        )
    if ends[0] < 0 or ends[-1] > len(data) or (np.diff(ends) <= 0).any():
        raise EvidenceError(
            fault(
                "offset",
                f"must rise from 0 to {len(data)}, the number of bytes",
                f"{ends[0]} to {ends[-1]}",
            )
        )
    whole = data.tobytes()
    places = ends.tolist()
    return [whole[start:stop] for start, stop in itertools.pairwise(places)]


def read_files(folder: Path, names: Iterable[str]) -> Pixels:
    """The images with these names inside a folder; names that lead out of it are refused."""
    names = list(names)
    strange = [
        n
        for n in names
        if PurePosixPath(n).is_absolute()
        or ".." in PurePosixPath(n).parts
        or not (folder / n).is_file()
    ]
    if strange:
        raise EvidenceError(
            fault(
                "file",
                f"must name images inside the folder {str(folder)!r}",
                repr(strange[0])[:80],
                where=strange[:5],
                total=len(strange),
            )
        )
    return decode([folder / name for name in names], names)


def read_class_folders(folder: Path, choose: Callable[[list[str]], list[str]] = sorted) -> Raw:
    """One folder a class, with images inside; the name of the folder is the *true* class of its
    images.
    """
    classes = choose(
        [
            place.name
            for place in folder.iterdir()
            if place.is_dir() and not place.name.startswith(".")
        ]
    )
    found = [
        (f"{name}/{place.relative_to(folder / name).as_posix()}", name)
        for name in classes
        for place in sorted((folder / name).rglob("*"))
        if place.suffix.lower() in SUFFIXES and place.is_file()
    ]
    if not found:
        raise EvidenceError(
            fault(
                "folder",
                "must hold npy files, idx files, a table with a column file, or class folders with images",
                repr(str(folder)),
                remedy=f"Images end in {', '.join(SUFFIXES)}.",
            )
        )
    names = [name for name, _ in found]
    used = sorted({label for _, label in found})
    return Raw(
        items=read_files(folder, names),
        label=[[label] for _, label in found],
        ids=names,
        classes=used if len(used) > 1 else None,
    )


# ----------------------------------------------------------------------------
# Arrays in files: npz, npy (memory-mapped) and idx, the format of MNIST (also compressed).


MAX_BYTES = 16 << 30
"""Larger archives are refused; a memory-mapped npy file may be of any size."""

ITEMS = ("items", "images", "x", "X", "features", "data")
RULED_OUT = ("ruled_out", "cl_labels")
LABEL = ("label", "labels", "y", "ord_labels")
CLASSES = ("classes", "class_names", "label_names")
IDS = ("item", "ids", "names")
_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_SPARSE = {"data", "indices", "indptr", "shape"}


def read_npz(path: Path, names: dict[str, str | None]) -> Raw:
    """Arrays of one archive by their names; ``jpeg`` and ``offset`` are compressed images one after
    the other.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(entry.file_size for entry in archive.infolist())
        if total > MAX_BYTES:
            came, remedy = f"{total:,}", "Write npy files, which are read from the disk as needed."
            raise EvidenceError(
                fault(
                    f"archive {path.name!r}",
                    f"must unpack to at most {MAX_BYTES:,} bytes",
                    came,
                    remedy=remedy,
                )
            )
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (
        zipfile.BadZipFile,
        zlib.error,
        ValueError,
        EOFError,
        KeyError,
        NotImplementedError,
        MemoryError,
    ) as error:
        if isinstance(error, EvidenceError):
            raise
        why = (
            "arrays of Python objects"
            if "allow_pickle" in str(error)
            else f"a {type(error).__name__}"
        )
        rule, remedy = (
            "must be a complete npz archive of plain arrays",
            "Write it again with numpy.savez.",
        )
        raise EvidenceError(fault(f"archive {path.name!r}", rule, why, remedy=remedy)) from None
    return named(from_arrays(arrays, names, path), names)


def named(raw: Raw, names: dict[str, str | None]) -> Raw:
    """With the name of the items' array, where it was asked for."""
    raw.columns = (names["items"],) if names["items"] else ()
    return raw


def from_arrays(arrays: dict[str, Any], names: dict[str, str | None], path: Path) -> Raw:
    """Items and labels out of named arrays."""
    sparse = arrays.keys() >= _SPARSE and names["items"] is None
    key = None if sparse else _key(arrays, names, "items", ITEMS, path)
    if sparse:
        items = _sparse(arrays)
    elif key is None and names["items"] is None and {"jpeg", "offset"} <= arrays.keys():
        pieces = split_bytes(arrays["jpeg"], arrays["offset"])
        items = decode(pieces, range(len(pieces)))
    else:
        items = None if key is None else as_items(arrays[key])
    found = {
        role: arrays.get(_key(arrays, names, role, usual, path) or "")
        for role, usual in (
            ("ruled_out", RULED_OUT),
            ("label", LABEL),
            ("annotator", ("annotator",)),
        )
    }
    ids = next((arrays[name] for name in IDS if name in arrays and name != key), None)
    listed = next((arrays[name] for name in CLASSES if name in arrays), None)
    return Raw(
        items=items,
        ruled_out=as_classes("ruled_out", found["ruled_out"]),
        label=as_classes("label", found["label"]),
        at_least=_mask_columns(found["ruled_out"]),
        votes=_votes(arrays.get("annotators")),
        annotator=as_names(found["annotator"]),
        classes=None if listed is None else [str(name) for name in np.asarray(listed).tolist()],
        ids=None if ids is None else list(np.asarray(ids).tolist()),
    )


def _key(
    arrays: dict[str, Any],
    names: dict[str, str | None],
    role: str,
    usual: Sequence[str],
    path: Path,
) -> str | None:
    """The name of an array: as asked for, or the first usual one; "" asks for none."""
    asked = names[role]
    if asked == "":
        return None
    if asked is not None and asked not in arrays:
        raise EvidenceError(
            fault(role, f"must be one of {', '.join(arrays)} in {path.name!r}", repr(asked))
        )
    return asked if asked is not None else next((name for name in usual if name in arrays), None)


def _sparse(arrays: dict[str, Any]) -> Any:
    from scipy.sparse import csr_matrix

    try:
        matrix = csr_matrix(
            (arrays["data"], arrays["indices"], arrays["indptr"]),
            shape=tuple(arrays["shape"].tolist()),
        )
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise EvidenceError(
            fault(
                "items",
                "must be a complete sparse matrix by rows (csr)",
                f"a {type(error).__name__}",
            )
        ) from None
    if not np.isfinite(matrix.data).all():
        raise EvidenceError(fault("items", "must be finite numbers", "NaN or infinity"))
    return matrix


def as_items(values: Any) -> Any:
    """Features (n, d) as floats, or images (n, height, width, channels); numbers must be finite.

    Memory-mapped arrays are taken as they are.
    """
    if isinstance(values, list) and values and all(isinstance(v, str) for v in values):
        return values
    array = _stacked(values) if isinstance(values, list) else np.asanyarray(values)
    if array.dtype.kind == "U" and array.ndim == 1:
        return [str(text) for text in array.tolist()]
    if array.dtype.kind not in "biuf" or array.ndim not in (2, 3, 4):
        rule = (
            "must be texts, numbers (items, features), or images (items, height, width[, channels])"
        )
        raise EvidenceError(fault("items", rule, f"{array.dtype} with shape {array.shape}"))
    if array.ndim == 3:
        array = array[:, :, :, None]
    if isinstance(array, np.memmap):
        return array
    if array.ndim == 2 and array.dtype.kind != "f":
        array = array.astype(np.result_type(array.dtype, np.float32))
    if array.dtype.kind == "f":
        wrong = np.flatnonzero(~np.isfinite(array).all(axis=tuple(range(1, array.ndim))))
        if wrong.size:
            remedy = "Fill or drop missing values."
            raise EvidenceError(
                fault(
                    "items",
                    "must be finite numbers",
                    "NaN or infinity",
                    where=wrong[:5].tolist(),
                    total=len(wrong),
                    remedy=remedy,
                )
            )
    return array


def _stacked(values: list[Any]) -> NDArray[Any]:
    arrays = [np.asarray(v) for v in values]
    if arrays and all(a.dtype == np.uint8 and a.ndim in (2, 3) for a in arrays):
        return stack(arrays, range(len(arrays)))
    try:
        return np.stack(arrays)
    except ValueError:
        raise EvidenceError(fault("items", "must all have one shape", "several")) from None


def as_classes(name: str, values: Any) -> Numbers | Names | None:
    """Class numbers (-1 for none) or names, one or several an item, or a mask of classes."""
    if values is None:
        return None
    if isinstance(values, list) and values and isinstance(values[0], list):
        width = max(len(row) for row in values)
        fill: Any = "" if any(isinstance(v, str) for row in values for v in row) else -1
        values = [[*row, *[fill] * (width - len(row))] for row in values]
    try:
        array = np.asarray(values)
    except ValueError:
        raise EvidenceError(
            fault(name, "must be classes, one row an item", "rows of several shapes")
        ) from None
    if array.ndim not in (1, 2):
        raise EvidenceError(
            fault(name, "must be one class an item, or several in a row", f"shape {array.shape}")
        )
    if array.dtype.kind == "U":
        return as_names(array)
    if array.dtype.kind == "b":
        return _from_mask(array) if array.ndim == 2 else array.astype(np.int64)
    if array.dtype.kind == "f" and (np.isnan(array) | (array == np.round(array))).all():
        array = np.where(np.isnan(array), -1, array).astype(np.int64)
    if array.dtype.kind not in "iu":
        raise EvidenceError(
            fault(name, "must be class numbers, names or a mask", f"an array of {array.dtype}")
        )
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise EvidenceError(fault(name, "must be class numbers", array.max()))
    return array.astype(np.int64)


def _from_mask(mask: NDArray[np.bool_]) -> Numbers:
    """A mask (n, K) as class numbers in order, padded with -1."""
    width = max(1, int(mask.sum(axis=1).max()) if mask.size else 1)
    order = np.argsort(~mask, axis=1, kind="stable")[:, :width]
    return np.where(np.take_along_axis(mask, order, axis=1), order, -1).astype(np.int64)


def _votes(values: Any) -> Numbers | None:
    found = as_classes("annotators", values)
    return found if isinstance(found, np.ndarray) else None


def as_names(values: Any) -> Names | None:
    """Each row as texts; -1, None and "" are places without a name."""
    if values is None:
        return None
    array = np.asarray(values)
    return [
        ["" if v in ("", None, -1) else str(v) for v in np.atleast_1d(row).tolist()]
        for row in array
    ]


def _mask_columns(values: Any) -> int:
    array = np.asarray(values) if isinstance(values, np.ndarray) else None
    return (
        int(array.shape[1]) if array is not None and array.dtype == bool and array.ndim == 2 else 0
    )


def read_npy(path: Path) -> NDArray[Any]:
    """One array, memory-mapped."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        why = (
            "an array of Python objects"
            if "allow_pickle" in str(error) or "object" in str(error)
            else f"a {type(error).__name__}"
        )
        remedy = "Write it again with numpy.save."
        raise EvidenceError(
            fault(
                f"file {path.name!r}",
                "must be a complete npy file of a plain array",
                why,
                remedy=remedy,
            )
        ) from None
    return array


def read_idx(path: Path) -> NDArray[Any]:
    """One array in the format of MNIST: two zero bytes, type, number of axes, big-endian lengths,
    then the numbers.
    """
    name = f"file {path.name!r}"
    packed = path.suffix.lower() == ".gz"
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            head = file.read(4)
            if (
                len(head) < 4
                or head[:2] != b"\0\0"
                or head[2] not in _IDX_TYPES
                or not 1 <= head[3] <= 4
            ):
                raise EvidenceError(
                    fault(
                        name,
                        "must begin with the magic number of an idx file",
                        head.hex() or "nothing",
                    )
                )
            shape = tuple(int.from_bytes(file.read(4), "big") for _ in range(head[3]))
            dtype = np.dtype(_IDX_TYPES[head[2]])
            size, start = math.prod(shape) * dtype.itemsize, 4 + 4 * head[3]
            if size > MAX_BYTES:
                raise EvidenceError(
                    fault(name, f"must hold at most {MAX_BYTES:,} bytes", f"{size:,}")
                )
            data = file.read(size + 1) if packed else b""
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise EvidenceError(
            fault(
                name,
                "must be a complete gzip file",
                f"a {type(error).__name__}",
                remedy="Fetch it again.",
            )
        ) from None
    came = len(data) if packed else path.stat().st_size - start
    if came != size:
        more = "more" if came > size else f"{came:,}"
        raise EvidenceError(
            fault(
                name,
                f"must hold {size:,} bytes after its head, as that says",
                more,
                remedy="Fetch it again.",
            )
        )
    if not packed and size:
        array: NDArray[Any] = np.memmap(path, dtype=dtype, mode="r", offset=start, shape=shape)
    else:
        array = np.frombuffer(data, dtype=dtype).reshape(shape)
    return array if dtype.itemsize == 1 else array.astype(dtype.newbyteorder("="))


# ----------------------------------------------------------------------------
# Pickled arrays without running anything that the file says.


MAX_PICKLE_BYTES = 2 << 30
"""Larger pickles are refused."""

MAX_DEPTH = 20

_TYPE = re.compile(r"[|<>=]?(?:b1|[iu][1248]|f[248]|[SU][1-9]\d{0,6}|O8?)")


def read_pickle(path: Path, *, limit: int = MAX_PICKLE_BYTES) -> Any:
    """The plain values and arrays in a pickle; everything else is refused before it can act."""
    size = path.stat().st_size
    if size > limit:
        raise _refused(path, f"must have at most {limit:,} bytes", f"{size:,}")
    try:
        # From memory: what a file promises to hold is then never more than what is there.
        return _plain(_Reader(io.BytesIO(path.read_bytes()), encoding="latin1").load(), {}, 0)
    except _Forbidden as error:
        raise _refused(
            path, "must hold numbers, texts, lists, dicts and numpy arrays only", str(error)
        ) from None
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 (a broken pickle can fail anywhere)
        raise _refused(
            path,
            "must be a complete pickle of numbers, texts and arrays",
            f"a {type(error).__name__}",
        ) from None


def _refused(path: Path, rule: str, came: str) -> EvidenceError:
    return EvidenceError(
        fault(
            f"pickle {path.name!r}",
            rule,
            came,
            remedy="Nothing in it was run. Ask for the data as npz.",
        )
    )


class _Forbidden(Exception):
    """A name that a file of data does not need."""


class _Maker:
    """Stands for a function that a pickle may call; it can be called, and nothing else."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *arguments: Any) -> Any:
        return self._make(*arguments)

    def __setstate__(self, state: object) -> None:
        raise _Forbidden("a changed function")


class _Type:
    """Stands for a numpy dtype."""

    __slots__ = ("code", "order")

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str) or not _TYPE.fullmatch(code):
            raise _Forbidden(f"the array type {str(code)[:40]!r}")
        self.code, self.order = code.lstrip("|<>="), "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, order, subtype, names, fields, *_ = state
        if (
            order not in ("<", ">", "|", "=")
            or subtype is not None
            or names is not None
            or fields is not None
        ):
            raise _Forbidden("an array type with fields")
        self.order = order

    def real(self) -> np.dtype[Any]:
        return np.dtype((self.order if self.order in "<>" else "<") + self.code)


class _Array:
    """Stands for a numpy array until its content is known."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, data = state
        self.value = _filled(shape, kind, data, "F" if fortran else "C")


def _filled(shape: Any, kind: Any, data: Any, order: str) -> Any:
    """The array, or a list of objects (which the pickle holds one by one)."""
    if (
        not isinstance(kind, _Type)
        or not isinstance(shape, tuple)
        or not all(type(n) is int and n >= 0 for n in shape)
    ):
        raise _Forbidden("an array without shape or type")
    if kind.code.startswith("O"):
        if not isinstance(data, list) or len(shape) != 1 or len(data) != shape[0]:
            raise _Forbidden("an array of objects with more than one axis")
        return data
    raw = (
        data.encode("latin1") if isinstance(data, str) else data if isinstance(data, bytes) else b""
    )
    real = kind.real()
    if len(raw) != math.prod(shape) * real.itemsize:
        raise ValueError("the bytes of an array do not fill its shape")
    return (
        np.frombuffer(raw, dtype=real)
        .reshape(shape, order="F" if order == "F" else "C")
        .astype(real.newbyteorder("="))
    )


def _from_buffer(data: Any, kind: Any, shape: Any, order: Any = "C") -> _Array:
    array = _Array()
    array.value = _filled(shape, kind, data, order)
    return array


def _scalar(kind: Any, data: Any = b"") -> Any:
    array = _filled((1,), kind, data, "C")
    if isinstance(array, list):
        raise _Forbidden("a scalar of objects")
    return array[0].item()


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    """How protocol 2 writes bytes; no other encoding is looked up."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise _Forbidden("an encoding other than latin1")
    return text.encode("latin1")


def _empty(*_: object) -> _Array:
    return _Array()


def _no_bytes() -> bytes:
    """How protocol 2 writes no bytes at all; with an argument it could take any amount of memory."""
    return b""


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encoded,
    ("__builtin__", "bytes"): _no_bytes,
    ("builtins", "bytes"): _no_bytes,
}
for _core in ("numpy.core", "numpy._core"):
    _ALLOWED[f"{_core}.multiarray", "_reconstruct"] = _empty
    _ALLOWED[f"{_core}.multiarray", "scalar"] = _scalar
    _ALLOWED[f"{_core}.numeric", "_frombuffer"] = _from_buffer
_NDARRAY = ("numpy", "ndarray")  # named as an argument of _reconstruct, never called


class _Reader(pickle._Unpickler):
    """Finds the stand-ins and nothing else."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)
    read: Callable[[int], bytes]  # both are set by load
    append: Callable[[object], None]

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for an allowed name."""
        if (module, name) == _NDARRAY:
            return _Maker(_never)
        if (module, name) not in _ALLOWED:
            raise _Forbidden(f"the name {f'{module}.{name}'[:80]!r}")
        return _Maker(_ALLOWED[module, name])

    def get_extension(self, code: int) -> None:
        """Codes stand for names that were registered elsewhere; none is needed."""
        raise _Forbidden(f"the extension {code}")

    def load_bytearray8(self) -> None:
        """As bytes: the original sets memory aside before it reads."""
        size = int.from_bytes(self.read(8), "little")
        self.append(bytes(self.read(min(size, MAX_PICKLE_BYTES))))

    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8


def _never(*_: object) -> None:
    raise _Forbidden("a call of numpy.ndarray")


def _plain(value: Any, seen: dict[int, Any], depth: int) -> Any:
    """The same with arrays in place of their stand-ins. A value that occurs often is made once; one
    inside itself is refused.
    """
    if isinstance(value, (str, bytes, int, float, np.ndarray)) or value is None:
        return value
    if id(value) in seen:
        if seen[id(value)] is _OPEN:
            raise _Forbidden("a value inside itself")
        return seen[id(value)][1]
    if depth > MAX_DEPTH:
        raise _Forbidden(f"more than {MAX_DEPTH} values inside each other")
    seen[id(value)] = _OPEN
    made = _made(value, seen, depth + 1)
    seen[id(value)] = (value, made)  # the value is kept, so that no other can get its id
    return made


_OPEN = object()


def _made(value: Any, seen: dict[int, Any], depth: int) -> Any:
    if isinstance(value, _Array):
        return _plain(value.value, seen, depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(v, seen, depth) for v in value]
    if isinstance(value, dict):
        return {_pickle_key(k): _plain(v, seen, depth) for k, v in value.items()}
    raise _Forbidden(f"a {type(value).__name__.lstrip('_').lower()} on its own")


def _pickle_key(key: Any) -> str:
    if isinstance(key, bytes):
        return key.decode("latin1")
    if not isinstance(key, (str, int)):
        raise _Forbidden("a dict with keys other than texts and whole numbers")
    return str(key)
