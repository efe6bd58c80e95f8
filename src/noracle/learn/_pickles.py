"""Pickled arrays without running anything that the file says.

A pickle is a program. This reader knows numbers, texts, bytes, lists, tuples, dicts, sets and numpy
arrays of numbers, texts and these; any other name in the file is an error. Not even numpy's own
functions run on what the file says: stand-ins take the shape, the type and the bytes of an array,
and the array is made out of them after they were checked. The interpreter is the one written in
Python, which does not set memory aside on the word of the file.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from noracle.errors import EvidenceError, fault

MAX_BYTES = 2 << 30
"""Larger pickles are refused."""

MAX_DEPTH = 20

_TYPE = re.compile(r"[|<>=]?(?:b1|[iu][1248]|f[248]|[SU][1-9]\d{0,6}|O8?)")


def read_pickle(path: Path, *, limit: int = MAX_BYTES) -> Any:
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
        self.append(bytes(self.read(min(size, MAX_BYTES))))

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
        return {_key(k): _plain(v, seen, depth) for k, v in value.items()}
    raise _Forbidden(f"a {type(value).__name__.lstrip('_').lower()} on its own")


def _key(key: Any) -> str:
    if isinstance(key, bytes):
        return key.decode("latin1")
    if not isinstance(key, (str, int)):
        raise _Forbidden("a dict with keys other than texts and whole numbers")
    return str(key)
