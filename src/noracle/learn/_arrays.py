"""Arrays in files: npz, npy (memory-mapped) and idx, the format of MNIST (also compressed).

Nothing in them is ever unpickled.
"""

from __future__ import annotations

import gzip
import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noracle.errors import EvidenceError, fault
from noracle.learn._images import decode, split_bytes, stack
from noracle.learn._items import Names, Numbers, Raw

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
