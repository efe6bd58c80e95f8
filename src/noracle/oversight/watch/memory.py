"""What is new in a file, and what a watch remembers between looks.

A table that grows at its end (CSV, JSON lines) is read from where the last look ended, up to its
last whole record. The bytes that were used before are hashed again, not parsed again: so that a
verdict which was changed in the middle of a file is noticed. Other files (Parquet, compressed) are
partitions: they are new as a whole, or they were rewritten. The memory is one private SQLite file:
files, evidence that still waits, counts, and a journal.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from noracle.errors import ArgumentError, EvidenceError, require_evidence
from noracle.evidence.evidence import read_table
from noracle.evidence.frames import fetch
from noracle.evidence.tables import Shape

GROWS = (".csv", ".tsv", ".jsonl", ".ndjson")
_BLOCK = 1 << 20
_NAMING = ("item", "class", "answer", "label")
_PRIVATE = frozenset({"text", "options", "image"})

State = Literal["new", "grown", "same", "rewritten", "shrunk"]


class FileMark(NamedTuple):
    """What is remembered of a file: its stamp, and the bytes that were used, with their hash."""

    inode: int
    mtime: int
    size: int
    used: int
    digest: str


class Arrival(NamedTuple):
    """A file at this look: ``data`` is a whole small table with the new rows only, None where there
    are none; ``waits``: the last line has no end yet; ``whole``: all rows of the file are new.
    """

    state: State
    seen: FileMark
    data: bytes | None = None
    waits: bool = False
    whole: bool = False


def stamp_of(path: str | Path) -> tuple[int, int, int]:
    """Inode, time and size of a file."""
    at = Path(path).stat()
    return at.st_ino, at.st_mtime_ns, at.st_size


def look_at(path: str | Path, before: FileMark | None) -> Arrival:
    """What a file holds that was not there before."""
    if before is not None and stamp_of(path) == before[:3]:
        return Arrival("same", before)
    suffix = Path(path).suffix.lower()
    with Path(path).open("rb") as file:
        at = os.fstat(file.fileno())
        stamp = (at.st_ino, at.st_mtime_ns, at.st_size)
        used = 0 if before is None else before.used
        if before is not None and at.st_size < used:
            return Arrival("shrunk", before)
        if suffix not in GROWS:
            mark = FileMark(*stamp, at.st_size, _hash(file, at.st_size).hexdigest())
            if before is None:
                return Arrival("new", mark, whole=True)
            same = mark.digest == before.digest
            return Arrival("same", mark) if same else Arrival("rewritten", before)
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
    mark = FileMark(*stamp, used + end, hashed.hexdigest())
    return Arrival("new" if before is None else "grown", mark, data, bool(rest[end:].strip()))


def _hash(file: BinaryIO, length: int) -> Any:
    hashed = hashlib.sha256()
    while length > 0 and (block := file.read(min(_BLOCK, length))):
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
    """The checked rows of ``data``, or of the whole file; never the texts of items."""
    with tempfile.TemporaryDirectory(prefix="noracle-") as folder:
        part = Path(path)
        if data is not None:
            part = Path(folder) / f"{part.stem}-new{part.suffix.lower()}"
            part.write_bytes(data)
        frame = read_table(str(part), table, shape=shape)
        names = [n for n in frame.columns if n not in _PRIVATE and not n.startswith("_odd_")]
        rows = [dict(zip(names, row, strict=True)) for row in fetch(frame.select(*names))]
    for row in rows:
        row |= {name: plain(row[name]) for name in _NAMING if name in row}
    return rows


def plain(value: Any) -> str | None:
    """The name of an item or class as text; whole numbers have one spelling, as when a whole column
    of them is read.
    """
    if value is None:
        return None
    text = str(value)
    return str(int(text)) if text.isascii() and text.isdecimal() else text


_VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS file (path TEXT PRIMARY KEY, inode, mtime, size, used, digest, gone INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS answer (item TEXT, system TEXT, answer TEXT, met INTEGER NOT NULL DEFAULT 0, rated INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (item, system)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS label (item TEXT PRIMARY KEY, rows TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS grade (item TEXT, system TEXT, verdict TEXT, met INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (item, system)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS open_label (path TEXT PRIMARY KEY, item TEXT, rows TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS item (item TEXT PRIMARY KEY, k INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rating (item TEXT, rater TEXT, label TEXT, place INTEGER, PRIMARY KEY (item, rater)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS moment (item TEXT, system TEXT, at TEXT, file TEXT, row INTEGER, PRIMARY KEY (item, system)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS judged (item TEXT, system TEXT, verdict INTEGER, at TEXT, file TEXT, row INTEGER,
    PRIMARY KEY (item, system)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS place (item TEXT PRIMARY KEY, stratum TEXT, cluster TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal (n INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT, run INTEGER, event TEXT, detail TEXT);
CREATE TEMP TABLE IF NOT EXISTS touched (item TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_FORGOTTEN = (
    *("file", "answer", "label", "grade", "open_label", "item", "rating", "state"),
    *("moment", "judged", "place"),
)


class Memory(contextlib.AbstractContextManager["Memory"]):
    """The memory of one watch."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.parent.exists():
            self.path.parent.mkdir(mode=0o700)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        what, remedy = "memory of the watch", "Move it away."
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, timeout=5)
            self._db.executescript(_TABLES)
            version = self.query("PRAGMA user_version")[0][0]
        except sqlite3.DatabaseError as error:
            rule, came = "must be a file that noracle wrote", f"{str(self.path)!r} ({error})"
            raise EvidenceError.of(what, rule, came, remedy=remedy) from None
        known, rule = version in (0, _VERSION), f"must be of version {_VERSION}"
        require_evidence(known, what, rule, version, remedy=remedy)
        self._db.execute(f"PRAGMA user_version = {_VERSION}")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def look(self) -> Iterator[None]:
        """Everything inside happens as a whole or not at all."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            rule = "folder must be watched by one process at a time"
            raise ArgumentError(f"{rule}; got a second one at {str(self.path)!r}.") from None
        try:
            self._db.execute("DELETE FROM touched")
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # values and journal

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self._db.execute(sql, values).fetchall()

    def _insert(self, into: str, *values: Any) -> bool:
        """Insert a row that is not there yet; False where it is."""
        sql = f"INSERT OR IGNORE INTO {into} VALUES ({', '.join('?' * len(values))})"  # noqa: S608 (fixed names)
        return bool(self._db.execute(sql, values).rowcount)

    def get(self, name: str, default: Any = None) -> Any:
        """A value that was set."""
        rows = self.query("SELECT value FROM state WHERE name = ?", name)
        return json.loads(rows[0][0]) if rows else default

    def put(self, name: str, value: Any) -> None:
        """Remember a value."""
        text = json.dumps(value, allow_nan=False, sort_keys=True)
        self._db.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, text))

    def add(self, name: str, n: int) -> int:
        """Add to a number that is remembered; returns the sum."""
        total = int(self.get(name, 0)) + n
        self.put(name, total)
        return total

    def note(self, event: str, detail: str) -> None:
        """Write to the journal for good."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        self._insert("journal (at, run, event, detail)", now, self.run, event, detail)

    @property
    def run(self) -> int:
        """How often the watch began: 1, and one more for each time that it had to start over."""
        return int(self.get("run", 1))

    def start_over(self) -> None:
        """Forget all evidence; the number of the run and the journal stay."""
        run = self.run
        for table in _FORGOTTEN:
            self._db.execute(f"DELETE FROM {table}")  # noqa: S608 (fixed names)
        self.put("run", run + 1)

    # files

    def files(self) -> dict[str, FileMark]:
        """The files that were read, by path; those that are gone too."""
        rows = self.query("SELECT path, inode, mtime, size, used, digest FROM file")
        return {path: FileMark(*mark) for path, *mark in rows}

    def remember(self, path: str, mark: FileMark) -> None:
        """Remember how far a file was read."""
        self._db.execute("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?, 0)", (path, *mark))

    def mark_gone(self, present: Iterable[str]) -> list[str]:
        """Mark files that are no longer there; returns those that were there at the last look."""
        known = {path for (path,) in self.query("SELECT path FROM file WHERE gone = 0")}
        gone = sorted(known - set(present))
        self._db.executemany("UPDATE file SET gone = 1 WHERE path = ?", [(path,) for path in gone])
        return gone

    # evidence

    def touch(self, item: str) -> None:
        """Say that an item has new evidence in this look."""
        self._insert("touched", item)

    def add_answers(self, rows: Iterable[tuple[str, str, str | None]]) -> set[str]:
        """Add answers; returns the items with a new one. Two different answers are a fault."""
        clashes: list[str] = []
        new: set[str] = set()
        there = "SELECT answer FROM answer WHERE item = ? AND system = ?"
        for item, system, answer in rows:
            if self._insert("answer (item, system, answer)", item, system, answer):
                new.add(item)
                self.touch(item)
            elif self.query(there, item, system)[0][0] != answer:
                clashes.append(item)
        if clashes:
            about = "answers", "must have one row for each item and system", "different answers"
            more: dict[str, Any] = {"where": clashes[:5], "total": len(clashes)}
            raise EvidenceError.of(*about, **more, remedy="Correct the rows that were added.")
        return new

    def add_label(self, item: str, rows: list[list[Any]]) -> bool:
        """The first judgements of an item, which is counted once; False where it has some."""
        new = self._insert("label", item, json.dumps(rows))
        if new:
            self.touch(item)
        return new

    def add_grade(self, item: str, system: str, verdict: str) -> str | None:
        """The first grade of an answer, which is counted once; else the one that is there."""
        if self._insert("grade (item, system, verdict)", item, system, verdict):
            self.touch(item)
            return None
        there = "SELECT verdict FROM grade WHERE item = ? AND system = ?"
        return str(self.query(there, item, system)[0][0])

    def open_label(self, path: str) -> tuple[str, list[list[Any]]] | None:
        """The judgements at the end of a file, whose item may get more in the next row."""
        found = self.query("SELECT item, rows FROM open_label WHERE path = ?", path)
        return (found[0][0], json.loads(found[0][1])) if found else None

    def hold_label(self, path: str, held: tuple[str, list[list[Any]]] | None) -> None:
        """Keep the judgements at the end of a file back."""
        self.query("DELETE FROM open_label WHERE path = ?", path)
        if held is not None:
            self._insert("open_label", path, held[0], json.dumps(held[1]))

    def add_items(self, rows: Iterable[tuple[str, int | None]]) -> None:
        """Item and its number of classes."""
        for item, k in rows:
            self._insert("item", item, k)
            self.touch(item)

    def add_moment(self, item: str, system: str, when: tuple[str, str, int]) -> None:
        """Time, file and row of the first label of an item (no system) or of an answer."""
        self._insert("moment", item, system, *when)

    def add_verdict(self, item: str, system: str, said: int, when: tuple[str, str, int]) -> None:
        """What the judge said first of an answer."""
        self._insert("judged", item, system, said, *when)

    def add_place(self, item: str, stratum: str | None, cluster: str | None) -> None:
        """Stratum and cluster of an item, where it has one."""
        if stratum is not None or cluster is not None:
            self._insert("place", item, stratum, cluster)

    def add_ratings(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Item, rater, label; a rater's first rating of an item counts."""
        last = self.query("SELECT COALESCE(MAX(place), 0) FROM rating")[0][0]
        for place, (item, rater, label) in enumerate(rows, start=last + 1):
            self._insert("rating", item, rater, label, place)
            self.touch(item)

    def mark(self, column: Literal["met", "rated"], pairs: Sequence[tuple[str, str]]) -> None:
        """Mark answers as counted: ``met`` a label, or ``rated``."""
        for table in ("answer", "grade") if column == "met" else ("answer",):
            sql = f"UPDATE {table} SET {column} = 1 WHERE item = ? AND system = ?"  # noqa: S608 (fixed names)
            self._db.executemany(sql, pairs)
