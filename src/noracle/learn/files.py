"""Files with items and labels as arrays: npz, npy, idx, images, and pickles that run nothing."""

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

from noracle.errors import EvidenceError, EvidenceWarning, require_evidence, require_rows
from noracle.learn.transition import padded_classes

Ids = Sequence[int | str]
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
    """What a file says; classes are numbers (n,) or (n, s) with -1 for none, or lists of names."""

    items: Any = None
    ruled_out: Numbers | Names | None = None
    label: Numbers | Names | None = None
    votes: Numbers | None = None
    annotator: Names | None = None
    classes: Sequence[str] | None = None
    at_least: int = 0  # columns of a mask
    ids: Ids | None = None
    columns: tuple[str, ...] = ()


def finish(raw: Raw, classes: Sequence[str | int] | None) -> LabelledItems:
    """Check lengths, and number the classes."""
    n = _length(raw)
    ids: Ids = range(n) if raw.ids is None else raw.ids
    names = _found(raw) if classes is None else _given(classes)
    rule = f"must be as many as a mask has columns ({raw.at_least})"
    require_evidence(not 0 < len(names) < raw.at_least, "classes", rule, len(names))
    _tell_of_minus_one(raw, names)
    ruled_out = _numbered("ruled_out", raw.ruled_out, names, ids)
    label = _numbered("label", raw.label, names, ids)
    if label is not None:
        one = (label >= 0).sum(axis=1) <= 1
        require_rows(one, "label", "must be one class per item", "several", ids=ids)
    return LabelledItems(
        items=raw.items,
        ruled_out=ruled_out,
        label=None if label is None else label.max(axis=1),
        votes=_numbered("annotators", raw.votes, names, ids),
        annotator=_annotators(raw, ruled_out, ids),
        classes=names,
        ids=ids,
        columns=raw.columns,
    )


def _length(raw: Raw) -> int:
    parts = ("items", "ruled_out", "label", "annotators", "annotator", "ids")
    found = (raw.items, raw.ruled_out, raw.label, raw.votes, raw.annotator, raw.ids)
    lengths = {
        name: int(value.shape[0] if hasattr(value, "shape") else len(value))
        for name, value in zip(parts, found, strict=True)
        if value is not None
    }
    came, remedy = ", ".join(f"{k} {n}" for k, n in lengths.items()), "Use files of the same items."
    same = len(set(lengths.values())) <= 1
    require_evidence(same, "items and labels", "must be equally many", came, remedy=remedy)
    n = next(iter(lengths.values()), 0)
    require_evidence(n, "items", "must be at least one", "none")
    return n


def _given(classes: Sequence[str | int]) -> tuple[str, ...]:
    names = tuple(str(c) for c in ([] if isinstance(classes, str) else classes))
    ok = len(names) >= 2 and len(set(names)) == len(names)
    require_evidence(ok, "classes", "must be at least two different names", repr(classes)[:100])
    return names


def _found(raw: Raw) -> tuple[str, ...]:
    """The classes that a file lists, the numbers up to the largest, or the names in it, sorted."""
    if raw.classes is not None:
        return _given(raw.classes)
    values = [v for v in (raw.ruled_out, raw.label, raw.votes) if v is not None]
    if all(isinstance(v, np.ndarray) for v in values):
        highest = max((int(np.max(v)) for v in values if np.size(v)), default=-1)
        rule, remedy = "must be numbered from 0", "Number them 0, 1, 2, … or pass their names."
        require_evidence(highest < 1 << 20, "classes", rule, highest, remedy=remedy)
        return tuple(str(k) for k in range(max(highest + 1, raw.at_least)))
    rows = (np.atleast_1d(row).tolist() for v in values for row in v)
    return sort_names({str(name) for row in rows for name in row if str(name) not in NONE})


def _tell_of_minus_one(raw: Raw, classes: tuple[str, ...]) -> None:
    """In a table -1 may be a class or the usual mark of no label: the choice must be seen."""
    for name, values in (("ruled_out", raw.ruled_out), ("label", raw.label)):
        listed = values if isinstance(values, list) and "-1" not in classes else []
        if n := sum("-1" in row for row in listed):
            text = f"{name} -1 is taken as no label, at {n} items."
            text += " If it is a class, name it in classes."
            warnings.warn(text, EvidenceWarning, stacklevel=4)


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Whole numbers by size, all else by the alphabet.

    Examples
    --------
    >>> sort_names({"10", "9"}), sort_names({"b", "10", "a"})
    (('9', '10'), ('10', 'a', 'b'))
    """
    found = sorted(names)
    return tuple(sorted(found, key=int)) if all(map(is_whole, found)) else tuple(found)


def is_whole(name: str) -> bool:
    """Whether a name is a whole number in its usual form."""
    digits = name.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(name)) == name


def _numbered(
    name: str, values: Numbers | Names | None, classes: tuple[str, ...], ids: Ids
) -> Numbers | None:
    """Numbers of classes, (n, s), padded with -1."""
    if values is None:
        return None
    shown = ", ".join(classes[:8]) + (", …" if len(classes) > 8 else "")
    rule = f"must be one of the {len(classes)} classes ({shown}), or -1 or empty for none"
    remedy = "Name all classes, or drop those items."
    if isinstance(values, np.ndarray):
        table = values.reshape(len(ids), -1).astype(np.int64)
        numbers, good = _numbers(table, classes)
        require_rows(good, name, rule, table, ids=ids, remedy=remedy)
        return numbers
    places = {**dict.fromkeys(NONE, -1), **{c: k for k, c in enumerate(classes)}}
    good = np.array([all(c in places for c in row) for row in values])
    came = next((c for row in values for c in row if c not in places), "")
    require_rows(good, name, rule, repr(came)[:60], ids=ids, remedy=remedy)
    numbers = np.full((len(values), max(map(len, values), default=0) or 1), -1, dtype=np.int64)
    for i, row in enumerate(values):
        numbers[i, : len(row)] = [places[c] for c in row]
    return numbers


def _numbers(values: Numbers, classes: tuple[str, ...]) -> tuple[Numbers, NDArray[np.bool_]]:
    """Places in ``classes``, or, where all classes have whole numbers as names, those names."""
    if not classes or not all(map(is_whole, classes)):
        return values, (values >= -1) & (values < len(classes))
    names = np.array([int(c) for c in classes], dtype=np.int64)
    order = np.argsort(names)
    numbers = order[np.minimum(np.searchsorted(names[order], values), len(names) - 1)]
    return np.where(values == -1, -1, numbers), (values == -1) | (names[numbers] == values)


def _annotators(raw: Raw, ruled_out: Numbers | None, ids: Ids) -> NDArray[np.str_] | None:
    """Who said what, in the shape of ``ruled_out``: one name for all labels of an item, or each."""
    names = raw.annotator
    if names is None or ruled_out is None or raw.ruled_out is None:
        return None
    width = ruled_out.shape[1]
    said = [1] * len(names)
    if width > 1:
        said = [width if isinstance(row, np.ndarray) else len(row) for row in raw.ruled_out]
    good = np.array([len(row) in (0, 1, n) for row, n in zip(names, said, strict=True)])
    first = int(np.argmin(good))
    came = f"{len(names[first])} names for {said[first]} labels"
    rule = "must name one annotator per item, or one per label"
    require_rows(good, "annotator", rule, came, ids=ids)
    wide = [row * width if len(row) == 1 else [*row, *[""] * (width - len(row))] for row in names]
    return np.where(ruled_out < 0, "", np.array(wide, dtype=np.str_))


# Images out of files and out of bytes, through Pillow (which comes with matplotlib).

Pixels = NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
MAX_PIXELS = 64_000_000


def decode(sources: Sequence[Any], names: Ids) -> Pixels:
    """Images (n, height, width, channels) out of paths or bytes; grey ones have one channel."""

    def some(start: int) -> list[Pixels]:
        return list(map(_image, sources[start : start + 256], names[start : start + 256]))

    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        parts = pool.map(some, range(0, len(sources), 256))
        return stack([image for part in parts for image in part], names)


def stack(images: Sequence[Pixels], names: Ids) -> Pixels:
    """Images of one size as one array; grey ones get three channels where others have colours."""
    require_evidence(len(images), "images", "must be at least one", "none")
    sizes = [image.shape[:2] for image in images]
    good = np.array([size == sizes[0] for size in sizes])
    other = sizes[int(np.argmin(good))]
    came = f"{sizes[0][0]}×{sizes[0][1]} and {other[0]}×{other[1]}"
    remedy = "Resize or crop them first."
    require_rows(good, "images", "must be of one size", came, ids=names, remedy=remedy)
    channels = 3 if any(image.ndim == 3 for image in images) else 1
    made = np.empty((len(images), *sizes[0], channels), dtype=np.uint8)
    for place, image in zip(made, images, strict=True):
        place[...] = image if image.ndim == 3 else image[:, :, None]
    return made


def _image(source: Any, name: int | str) -> Pixels:
    from PIL import Image

    def refused(rule: str, came: str, remedy: str = "") -> EvidenceError:
        return EvidenceError.of("images", rule, came, where=[name], remedy=remedy)

    file = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        with Image.open(file, formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                rule = f"must have at most {MAX_PIXELS:,} pixels"
                raise refused(rule, f"{image.width}×{image.height}")
            if image.mode.startswith(("I", "F")):
                raise refused("must have 8 bits a channel", f"mode {image.mode}")
            return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
    except EvidenceError:
        raise
    except Exception as error:  # noqa: BLE001 (a broken image can fail anywhere in its decoder)
        rule = f"must be complete {', '.join(FORMATS)} files"
        raise refused(rule, f"a {type(error).__name__}", "Replace it.") from None


def split_bytes(data: NDArray[Any], offset: NDArray[Any]) -> list[bytes]:
    """The pieces of one long array of bytes: piece i is ``data[offset[i]:offset[i + 1]]``."""
    ends = np.asarray(offset)
    whole = np.issubdtype(ends.dtype, np.integer)
    ok = data.ndim == ends.ndim == 1 and data.dtype == np.uint8 and len(ends) > 1 and whole
    rule = "must be bytes and the places where images begin and end"
    require_evidence(ok, "jpeg and offset", rule, f"{data.dtype}, {ends.dtype}")
    rising = ends[0] >= 0 and ends[-1] <= len(data) and (np.diff(ends) > 0).all()
    rule = f"must rise from 0 to {len(data)}, the number of bytes"
    require_evidence(rising, "offset", rule, f"{ends[0]} to {ends[-1]}")
    content = data.tobytes()
    return [content[start:stop] for start, stop in itertools.pairwise(ends.tolist())]


def read_files(folder: Path, names: Iterable[str]) -> Pixels:
    """The images with these names inside a folder; names that lead out of it are refused."""
    names = list(names)
    places = [PurePosixPath(name) for name in names]
    leads_out = [p.is_absolute() or ".." in p.parts for p in places]
    inside = [not out and (folder / p).is_file() for p, out in zip(places, leads_out, strict=True)]
    came = next((repr(n)[:80] for n, ok in zip(names, inside, strict=True) if not ok), "")
    rule = f"must name images inside the folder {str(folder)!r}"
    require_rows(np.array(inside, dtype=bool), "file", rule, came, ids=names)
    return decode([folder / name for name in names], names)


def read_class_folders(folder: Path) -> Raw:
    """One folder per class; the name of the folder is the *true* class of the images inside."""
    folders = sorted(f.name for f in folder.iterdir() if f.is_dir() and f.name[0] != ".")
    found = [
        (f"{name}/{place.relative_to(folder / name).as_posix()}", name)
        for name in folders
        for place in sorted((folder / name).rglob("*"))
        if place.suffix.lower() in SUFFIXES and place.is_file()
    ]
    known = "npy files, idx files, a table with a column file, or class folders with images"
    remedy = f"Images end in {', '.join(SUFFIXES)}."
    require_evidence(found, "folder", f"must hold {known}", repr(str(folder)), remedy=remedy)
    names, labels = [name for name, _ in found], [[label] for _, label in found]
    used = sorted({label for _, label in found})
    classes = used if len(used) > 1 else None
    return Raw(items=read_files(folder, names), label=labels, ids=names, classes=classes)


# Arrays in files: npz, npy (memory-mapped) and idx, the format of MNIST (also compressed).

MAX_BYTES = 16 << 30
"""Larger archives are refused; a memory-mapped npy file may be of any size."""

ITEMS = ("items", "images", "x", "X", "features", "data")
LABELS = {
    "ruled_out": ("ruled_out", "cl_labels"),
    "label": ("label", "labels", "y", "ord_labels"),
    "annotator": ("annotator",),
}
CLASSES = ("classes", "class_names", "label_names")
IDS = ("item", "ids", "names")
_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_SPARSE = {"data", "indices", "indptr", "shape"}
_BROKEN = (zipfile.BadZipFile, zlib.error, ValueError, EOFError, KeyError, NotImplementedError)


def read_npz(path: Path, names: dict[str, str | None]) -> Raw:
    """Arrays of one archive by name; ``jpeg`` and ``offset`` are compressed images in a row."""
    archive = f"archive {path.name!r}"
    try:
        with zipfile.ZipFile(path) as opened:
            total = sum(entry.file_size for entry in opened.infolist())
        rule = f"must unpack to at most {MAX_BYTES:,} bytes"
        remedy = "Write npy files, which are read from the disk as needed."
        require_evidence(total <= MAX_BYTES, archive, rule, f"{total:,}", remedy=remedy)
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except EvidenceError:
        raise
    except (*_BROKEN, MemoryError) as error:
        objects = "allow_pickle" in str(error)
        why = "arrays of Python objects" if objects else f"a {type(error).__name__}"
        rule = "must be a complete npz archive of plain arrays"
        remedy = "Write it again with numpy.savez."
        raise EvidenceError.of(archive, rule, why, remedy=remedy) from None
    return from_arrays(arrays, names, path)


def from_arrays(arrays: dict[str, Any], names: dict[str, str | None], path: Path) -> Raw:
    """Items and labels out of named arrays."""

    def key(role: str, usual: Sequence[str]) -> str | None:
        """The name of an array: as asked for, or the first usual one; "" asks for none."""
        asked = names[role]
        rule = f"must be one of {', '.join(arrays)} in {path.name!r}"
        require_evidence(not asked or asked in arrays, role, rule, repr(asked))
        return next((n for n in usual if n in arrays), None) if asked is None else asked or None

    sparse = arrays.keys() >= _SPARSE and names["items"] is None
    own = None if sparse else key("items", ITEMS)
    if sparse:
        items = _sparse(arrays)
    elif own is None and names["items"] is None and {"jpeg", "offset"} <= arrays.keys():
        pieces = split_bytes(arrays["jpeg"], arrays["offset"])
        items = decode(pieces, range(len(pieces)))
    else:
        items = None if own is None else as_items(arrays[own])
    found = {role: arrays.get(key(role, usual) or "") for role, usual in LABELS.items()}
    ids = next((arrays[name] for name in IDS if name in arrays and name != own), None)
    listed = next((arrays[name] for name in CLASSES if name in arrays), None)
    votes = as_classes("annotators", arrays.get("annotators"))
    mask: Any = found["ruled_out"]
    is_mask = isinstance(mask, np.ndarray) and mask.dtype == bool and mask.ndim == 2
    return Raw(
        items=items,
        ruled_out=as_classes("ruled_out", mask),
        label=as_classes("label", found["label"]),
        at_least=int(mask.shape[1]) if is_mask else 0,
        votes=votes if isinstance(votes, np.ndarray) else None,
        annotator=as_names(found["annotator"]),
        classes=None if listed is None else [str(name) for name in np.asarray(listed).tolist()],
        ids=None if ids is None else list(np.asarray(ids).tolist()),
        columns=(names["items"],) if names["items"] else (),
    )


def _sparse(arrays: dict[str, Any]) -> Any:
    from scipy.sparse import csr_matrix

    parts = (arrays["data"], arrays["indices"], arrays["indptr"])
    try:
        matrix = csr_matrix(parts, shape=tuple(arrays["shape"].tolist()))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        rule = "must be a complete sparse matrix by rows (csr)"
        raise EvidenceError.of("items", rule, f"a {type(error).__name__}") from None
    finite = np.isfinite(matrix.data).all()
    require_evidence(finite, "items", "must be finite numbers", "NaN or infinity")
    return matrix


def as_items(values: Any) -> Any:
    """Features (n, d) as floats, or images (n, height, width, channels); memory maps stay."""
    if isinstance(values, list) and values and all(isinstance(v, str) for v in values):
        return values
    array = _stacked(values) if isinstance(values, list) else np.asanyarray(values)
    if array.dtype.kind == "U" and array.ndim == 1:
        return [str(text) for text in array.tolist()]
    rule = "must be texts, numbers (items, features), or images (items, height, width[, channels])"
    ok = array.dtype.kind in "biuf" and array.ndim in (2, 3, 4)
    require_evidence(ok, "items", rule, f"{array.dtype} with shape {array.shape}")
    if array.ndim == 3:
        array = array[:, :, :, None]
    if isinstance(array, np.memmap):
        return array
    if array.ndim == 2 and array.dtype.kind != "f":
        array = array.astype(np.result_type(array.dtype, np.float32))
    if array.dtype.kind == "f":
        good = np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
        remedy = "Fill or drop missing values."
        require_rows(good, "items", "must be finite numbers", "NaN or infinity", remedy=remedy)
    return array


def _stacked(values: list[Any]) -> NDArray[Any]:
    arrays = [np.asarray(v) for v in values]
    if arrays and all(a.dtype == np.uint8 and a.ndim in (2, 3) for a in arrays):
        return stack(arrays, range(len(arrays)))
    try:
        return np.stack(arrays)
    except ValueError:
        raise EvidenceError.of("items", "must all have one shape", "several") from None


def as_classes(name: str, values: Any) -> Numbers | Names | None:
    """Class numbers (-1 for none) or names, one or several per item, or a mask of classes."""
    if values is None:
        return None
    if isinstance(values, list) and values and isinstance(values[0], list):
        width = max(len(row) for row in values)
        fill: Any = "" if any(isinstance(v, str) for row in values for v in row) else -1
        values = [[*row, *[fill] * (width - len(row))] for row in values]
    try:
        array = np.asarray(values)
    except ValueError:
        rule = "must be classes, one row per item"
        raise EvidenceError.of(name, rule, "rows of several shapes") from None
    rule = "must be one class per item, or several in a row"
    require_evidence(array.ndim in (1, 2), name, rule, f"shape {array.shape}")
    if array.dtype.kind == "U":
        return as_names(array)
    if array.dtype.kind == "b":
        return padded_classes(array) if array.ndim == 2 else array.astype(np.int64)
    if array.dtype.kind == "f" and (np.isnan(array) | (array == np.round(array))).all():
        array = np.where(np.isnan(array), -1, array).astype(np.int64)
    rule = "must be class numbers, names or a mask"
    require_evidence(array.dtype.kind in "iu", name, rule, f"an array of {array.dtype}")
    if array.dtype == np.uint64 and array.size:
        fits = array.max() <= np.iinfo(np.int64).max
        require_evidence(fits, name, "must be class numbers", array.max())
    return array.astype(np.int64)


def as_names(values: Any) -> Names | None:
    """Each row as texts; -1, None and "" are places without a name."""
    if values is None:
        return None
    rows = (np.atleast_1d(row).tolist() for row in np.asarray(values))
    return [["" if v in ("", None, -1) else str(v) for v in row] for row in rows]


def read_npy(path: Path) -> NDArray[Any]:
    """One array, memory-mapped."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise
    except (ValueError, EOFError, OSError) as error:
        objects = "allow_pickle" in str(error) or "object" in str(error)
        why = "an array of Python objects" if objects else f"a {type(error).__name__}"
        rule = "must be a complete npy file of a plain array"
        remedy = "Write it again with numpy.save."
        raise EvidenceError.of(f"file {path.name!r}", rule, why, remedy=remedy) from None
    return array


def read_idx(path: Path) -> NDArray[Any]:
    """One array in the format of MNIST: type, number of axes, big-endian lengths, numbers."""
    name, again = f"file {path.name!r}", "Fetch it again."
    packed = path.suffix.lower() == ".gz"
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            head = file.read(4)
            ok = len(head) == 4 and head[:2] == b"\0\0" and 1 <= head[3] <= 4
            rule = "must begin with the magic number of an idx file"
            require_evidence(ok and head[2] in _IDX_TYPES, name, rule, head.hex() or "nothing")
            shape = tuple(int.from_bytes(file.read(4), "big") for _ in range(head[3]))
            dtype = np.dtype(_IDX_TYPES[head[2]])
            size, start = math.prod(shape) * dtype.itemsize, 4 + 4 * head[3]
            rule = f"must hold at most {MAX_BYTES:,} bytes"
            require_evidence(size <= MAX_BYTES, name, rule, f"{size:,}")
            data = file.read(size + 1) if packed else b""
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        rule, came = "must be a complete gzip file", f"a {type(error).__name__}"
        raise EvidenceError.of(name, rule, came, remedy=again) from None
    held = len(data) if packed else path.stat().st_size - start
    rule = f"must hold {size:,} bytes after its head, as that says"
    more = "more" if held > size else f"{held:,}"
    require_evidence(held == size, name, rule, more, remedy=again)
    if not packed and size:
        array: NDArray[Any] = np.memmap(path, dtype=dtype, mode="r", offset=start, shape=shape)
    else:
        array = np.frombuffer(data, dtype=dtype).reshape(shape)
    return array if dtype.itemsize == 1 else array.astype(dtype.newbyteorder("="))


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
        content = io.BytesIO(path.read_bytes())
        return _plain(_PlainUnpickler(content, encoding="latin1").load(), {}, 0)
    except _Forbidden as error:
        rule = "must hold numbers, texts, lists, dicts and numpy arrays only"
        raise _refused(path, rule, str(error)) from None
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 (a broken pickle can fail anywhere)
        rule = "must be a complete pickle of numbers, texts and arrays"
        raise _refused(path, rule, f"a {type(error).__name__}") from None


def _refused(path: Path, rule: str, came: str) -> EvidenceError:
    remedy = "Nothing in it was run. Ask for the data as npz."
    return EvidenceError.of(f"pickle {path.name!r}", rule, came, remedy=remedy)


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
        plain = subtype is None and names is None and fields is None
        if not plain or order not in ("<", ">", "|", "="):
            raise _Forbidden("an array type with fields")
        self.order = order

    def real(self) -> np.dtype[Any]:
        return np.dtype((self.order if self.order in "<>" else "<") + self.code)


class _Array:
    """Stands for a numpy array until its content is known."""

    __slots__ = ("value",)

    def __init__(self, *_: object) -> None:
        self.value: Any = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, data = state
        self.value = _filled(shape, kind, data, "F" if fortran else "C")


def _filled(shape: Any, kind: Any, data: Any, order: str) -> Any:
    """The array, or a list of objects (which the pickle holds one by one)."""
    sizes = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
    if not isinstance(kind, _Type) or not sizes:
        raise _Forbidden("an array without shape or type")
    if kind.code.startswith("O"):
        if not isinstance(data, list) or len(shape) != 1 or len(data) != shape[0]:
            raise _Forbidden("an array of objects with more than one axis")
        return data
    raw = data.encode("latin1") if isinstance(data, str) else data
    raw, real = raw if isinstance(raw, bytes) else b"", kind.real()
    if len(raw) != math.prod(shape) * real.itemsize:
        raise ValueError("the bytes of an array do not fill its shape")
    array = np.frombuffer(raw, dtype=real).reshape(shape, order="F" if order == "F" else "C")
    return array.astype(real.newbyteorder("="))


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


def _no_bytes() -> bytes:
    """How protocol 2 writes no bytes at all; with an argument it could take any amount of memory."""
    return b""


def _never(*_: object) -> None:
    """For what is named as an argument of _reconstruct, and never called."""
    raise _Forbidden("a call of numpy.ndarray")


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): _never,
    ("_codecs", "encode"): _encoded,
    ("__builtin__", "bytes"): _no_bytes,
    ("builtins", "bytes"): _no_bytes,
}
for _core in ("numpy.core", "numpy._core"):
    _ALLOWED[f"{_core}.multiarray", "_reconstruct"] = _Array
    _ALLOWED[f"{_core}.multiarray", "scalar"] = _scalar
    _ALLOWED[f"{_core}.numeric", "_frombuffer"] = _from_buffer


_OPEN = object()


class _PlainUnpickler(pickle._Unpickler):
    """Finds the stand-ins and nothing else."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)
    read: Callable[[int], bytes]  # both are set by load
    append: Callable[[object], None]

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for an allowed name."""
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


def _plain(value: Any, seen: dict[int, Any], depth: int) -> Any:
    """The same with arrays in place of their stand-ins; a value inside itself is refused."""
    if isinstance(value, (str, bytes, int, float, np.ndarray)) or value is None:
        return value
    if id(value) in seen:
        if seen[id(value)] is _OPEN:
            raise _Forbidden("a value inside itself")
        return seen[id(value)][1]
    if depth > MAX_DEPTH:
        raise _Forbidden(f"more than {MAX_DEPTH} values inside each other")
    seen[id(value)], depth = _OPEN, depth + 1
    made: Any
    if isinstance(value, _Array):
        made = _plain(value.value, seen, depth)
    elif isinstance(value, (list, tuple, set, frozenset)):
        made = [_plain(v, seen, depth) for v in value]
    elif isinstance(value, dict):
        made = {_pickle_key(k): _plain(v, seen, depth) for k, v in value.items()}
    else:
        raise _Forbidden(f"a {type(value).__name__.lstrip('_').lower()} on its own")
    seen[id(value)] = (value, made)  # the value is kept, so that no other can get its id
    return made


def _pickle_key(key: Any) -> str:
    if isinstance(key, bytes):
        return key.decode("latin1")
    if not isinstance(key, (str, int)):
        raise _Forbidden("a dict with keys other than texts and whole numbers")
    return str(key)
