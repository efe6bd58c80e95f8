"""What is new in a file: bytes that were appended to it, or all of it; and whether what was read
before is still the same.

A table that grows at its end (CSV, JSON lines) is read from where the last look ended, up to its
last whole record. The bytes that were used before are hashed again, not parsed again: so that a
verdict which was changed in the middle of a file is noticed, whatever the size and the time of the
file say. Other files (Parquet, compressed) are partitions: they are new as a whole, or they were
rewritten.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from noracle.evidence.evidence import read_table
from noracle.evidence.frames import fetch
from noracle.evidence.shapes import Shape

GROWS = (".csv", ".tsv", ".jsonl", ".ndjson")
_BLOCK = 1 << 20
_PRIVATE = frozenset({"text", "options", "image"})

State = Literal["new", "grown", "same", "rewritten", "shrunk"]


class Seen(NamedTuple):
    """What is remembered of a file: its stamp at the last look, and how many of its bytes were
    used, with their hash.
    """

    inode: int
    mtime: int
    size: int
    used: int
    digest: str

    @property
    def stamp(self) -> tuple[int, int, int]:
        """What a poll compares."""
        return self.inode, self.mtime, self.size


class Arrival(NamedTuple):
    """A file at this look. ``data`` is a whole small table with the new rows only; None where there
    are none.
    """

    state: State
    seen: Seen
    data: bytes | None = None
    waits: bool = False
    """The last line has no end yet."""
    whole: bool = False
    """All rows of the file are new."""


def stamp_of(path: str | Path) -> tuple[int, int, int]:
    """Inode, time and size of a file.

    Examples
    --------
    >>> stamp_of(__file__)[2] > 1000
    True
    """
    at = Path(path).stat()
    return at.st_ino, at.st_mtime_ns, at.st_size


def look_at(path: str | Path, before: Seen | None) -> Arrival:
    """What a file holds that was not there before."""
    if before is not None and stamp_of(path) == before.stamp:
        return Arrival("same", before)
    suffix = Path(path).suffix.lower()
    with Path(path).open("rb") as file:
        at = os.fstat(file.fileno())
        stamp = (at.st_ino, at.st_mtime_ns, at.st_size)
        used = 0 if before is None else before.used
        if before is not None and at.st_size < used:
            return Arrival("shrunk", before)
        if suffix not in GROWS:
            seen = Seen(*stamp, at.st_size, _hash(file, at.st_size).hexdigest())
            if before is None:
                return Arrival("new", seen, whole=True)
            return (
                Arrival("same", seen)
                if seen.digest == before.digest
                else Arrival("rewritten", before)
            )
        hashed = _hash(file, used)
        if before is not None and hashed.hexdigest() != before.digest:
            return Arrival("rewritten", before)
        rest = file.read(at.st_size - used)
        end = _whole_records(rest, suffix)
        header = b""
        if suffix in (".csv", ".tsv"):
            if used:
                file.seek(0)
                header = file.readline()
            elif rest[:end].strip().count(b"\n") == 0:
                end = 0  # a header alone is read again with the first row
    hashed.update(rest[:end])
    data = header + rest[:end] if rest[:end].strip() else None
    return Arrival(
        "new" if before is None else "grown",
        Seen(*stamp, used + end, hashed.hexdigest()),
        data,
        bool(rest[end:].strip()),
    )


def _hash(file: BinaryIO, length: int) -> Any:
    hashed = hashlib.sha256()
    while length > 0:
        block = file.read(min(_BLOCK, length))
        if not block:
            break
        hashed.update(block)
        length -= len(block)
    return hashed


def _whole_records(data: bytes, suffix: str) -> int:
    """How many bytes are whole records: up to the last line end that is not inside quotes.

    A line of JSON without its end is whole if it reads as an object; a line of CSV may always go
    on.

    Examples
    --------
    >>> _whole_records(b'1,"a', ".csv"), _whole_records(b"1,a" + bytes([10]) + b"2,", ".csv"), _whole_records(b'{"a": 1}', ".jsonl")
    (0, 4, 8)
    """
    end = data.rfind(b"\n") + 1
    if suffix in (".csv", ".tsv"):
        while end and data.count(b'"', 0, end) % 2:
            end = data.rfind(b"\n", 0, end - 1) + 1
        return end
    try:
        return len(data) if isinstance(json.loads(data[end:]), dict) else end
    except ValueError:
        return end


def rows_in(
    path: str | Path, data: bytes | None, table: str, shape: Shape | None = None
) -> list[dict[str, Any]]:
    """The rows of a table in ``data``, or in the whole file where that is None, checked; items and
    classes are text.

    Texts of items are never read.
    """
    if data is None:
        return _rows(str(path), table, shape)
    with tempfile.TemporaryDirectory(prefix="noracle-") as folder:
        part = Path(folder) / f"{Path(path).stem}-new{Path(path).suffix.lower()}"
        part.write_bytes(data)
        return _rows(str(part), table, shape)


def _rows(path: str, table: str, shape: Shape | None) -> list[dict[str, Any]]:
    frame = read_table(path, table, shape=shape)
    names = [
        name for name in frame.columns if name not in _PRIVATE and not name.startswith("_odd_")
    ]
    rows = [dict(zip(names, row, strict=True)) for row in fetch(frame.select(*names))]
    for row in rows:
        for name in ("item", "class", "answer", "label"):
            if name in row:
                row[name] = plain(row[name])
    return rows


def plain(value: Any) -> str | None:
    """The name of an item or class as text; whole numbers have one spelling, as when a whole column
    of them is read.

    Examples
    --------
    >>> plain(7), plain("07"), plain(" cat "), plain(None)
    ('7', '7', ' cat ', None)
    """
    if value is None:
        return None
    text = str(value)
    return str(int(text)) if text.isascii() and text.isdecimal() else text
