"""What is new in a file: bytes that were appended to it, or all of it; and whether what was read
before is still the same.

A table that grows at its end (CSV, JSON lines) is read from where the last look ended, up to its
last whole record. The bytes that were used before are hashed again, not parsed again: so that a
verdict which was changed in the middle of a file is noticed, whatever the size and the time of the
file say. Other files (Parquet, compressed) are partitions: they are new as a whole, or they were
rewritten.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, Self

from noracle.errors import ArgumentError, EvidenceError, fault
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


# ---------------------------------------------------------------------------- What a watch
# remembers between looks, in one private SQLite file: files, evidence that still waits, counts, and
# a journal.


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
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal (n INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT, run INTEGER, event TEXT, detail TEXT);
CREATE TEMP TABLE IF NOT EXISTS touched (item TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_FORGOTTEN = ("file", "answer", "label", "grade", "open_label", "item", "rating", "state")


class Memory:
    """The memory of one watch.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Memory(Path(folder) / "watch.sqlite") as memory:
    ...     with memory.look():
    ...         memory.put("run", 1)
    ...         memory.note("start", "a watch begins")
    ...     memory.get("run"), [event for _, _, event, _ in memory.journal()]
    (1, ['start'])
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.parent.exists():
            self.path.parent.mkdir(mode=0o700)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, timeout=5)
            self._db.executescript(_TABLES)
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.DatabaseError as error:
            raise EvidenceError(
                fault(
                    "memory of the watch",
                    "must be a file that noracle wrote",
                    f"{str(self.path)!r} ({error})",
                    remedy="Move it away.",
                )
            ) from None
        if version not in (0, _VERSION):
            raise EvidenceError(
                fault(
                    "memory of the watch",
                    f"must be of version {_VERSION}",
                    version,
                    remedy="Move it away.",
                )
            )
        self._db.execute(f"PRAGMA user_version = {_VERSION}")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def look(self) -> Iterator[None]:
        """Everything inside happens as a whole or not at all."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            raise ArgumentError(
                f"folder must be watched by one process at a time; got a second one at {str(self.path)!r}."
            ) from None
        try:
            self._db.execute("DELETE FROM touched")
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # ------------------------------------------------------------------------------------------------
    # values and journal

    def get(self, name: str, default: Any = None) -> Any:
        """A value that was set."""
        row = self._db.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return default if row is None else json.loads(row[0])

    def put(self, name: str, value: Any) -> None:
        """Remember a value."""
        self._db.execute(
            "INSERT OR REPLACE INTO state VALUES (?, ?)",
            (name, json.dumps(value, allow_nan=False, sort_keys=True)),
        )

    def note(self, event: str, detail: str) -> None:
        """Write to the journal, for ever."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        self._db.execute(
            "INSERT INTO journal (at, run, event, detail) VALUES (?, ?, ?, ?)",
            (now, self.run, event, detail),
        )

    def journal(self) -> list[tuple[str, int, str, str]]:
        """Time, run, event and detail, oldest first."""
        return self._db.execute("SELECT at, run, event, detail FROM journal ORDER BY n").fetchall()

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

    def snapshot(self) -> dict[str, Any]:
        """All that is remembered but stamps of files and times of the journal: two watches of the
        same evidence have the same.
        """
        found: dict[str, Any] = {"journal": [row[1:] for row in self.journal()]}
        for table in _FORGOTTEN:
            columns = "path, used, digest, gone" if table == "file" else "*"
            found[table] = self._db.execute(
                f"SELECT {columns} FROM {table} ORDER BY 1, 2"  # noqa: S608 (fixed names)
            ).fetchall()
        return found

    # ------------------------------------------------------------------------------------------------
    # files

    def files(self) -> dict[str, Seen]:
        """The files that were read, by path; those that are gone too."""
        rows = self._db.execute(
            "SELECT path, inode, mtime, size, used, digest FROM file"
        ).fetchall()
        return {row[0]: Seen(*row[1:]) for row in rows}

    def remember(self, path: str, seen: Seen) -> None:
        """Remember how far a file was read."""
        self._db.execute("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?, 0)", (path, *seen))

    def mark_gone(self, present: Iterable[str]) -> list[str]:
        """Mark files that are no longer there; returns those that were there at the last look."""
        there = set(present)
        rows = self._db.execute("SELECT path FROM file WHERE gone = 0").fetchall()
        gone = sorted(path for (path,) in rows if path not in there)
        self._db.executemany("UPDATE file SET gone = 1 WHERE path = ?", [(path,) for path in gone])
        return gone

    # ------------------------------------------------------------------------------------------------
    # evidence

    def touch(self, items: Iterable[str]) -> None:
        """These items have new evidence in this look."""
        self._db.executemany(
            "INSERT OR IGNORE INTO touched VALUES (?)", ((item,) for item in items)
        )

    def add_answers(self, rows: Iterable[tuple[str, str, str | None]]) -> set[str]:
        """Item, system, answer; returns the items with a new one. The same row twice is one row;
        two different answers are a fault.
        """
        clashes: list[str] = []
        new: set[str] = set()
        for item, system, answer in rows:
            done = self._db.execute(
                "INSERT OR IGNORE INTO answer (item, system, answer) VALUES (?, ?, ?)",
                (item, system, answer),
            )
            if done.rowcount:
                new.add(item)
                continue
            known = self._db.execute(
                "SELECT answer FROM answer WHERE item = ? AND system = ?", (item, system)
            ).fetchone()[0]
            if known != answer:
                clashes.append(item)
        if clashes:
            rule, remedy = (
                "must have one row for each item and system",
                "Correct the rows that were added.",
            )
            raise EvidenceError(
                fault(
                    "answers",
                    rule,
                    "different answers",
                    where=clashes[:5],
                    total=len(clashes),
                    remedy=remedy,
                )
            )
        self.touch(new)
        return new

    def add_label(self, item: str, rows: list[list[Any]]) -> bool:
        """The first judgements of an item; False where it has some already, for an item is counted
        once.
        """
        done = self._db.execute(
            "INSERT OR IGNORE INTO label VALUES (?, ?)", (item, json.dumps(rows))
        )
        if done.rowcount:
            self.touch([item])
        return bool(done.rowcount)

    def add_grade(self, item: str, system: str, verdict: str) -> str | None:
        """The first grade of an answer; returns the one that is there already, for an answer is
        counted once.
        """
        done = self._db.execute(
            "INSERT OR IGNORE INTO grade (item, system, verdict) VALUES (?, ?, ?)",
            (item, system, verdict),
        )
        if done.rowcount:
            self.touch([item])
            return None
        return str(
            self._db.execute(
                "SELECT verdict FROM grade WHERE item = ? AND system = ?", (item, system)
            ).fetchone()[0]
        )

    def open_label(self, path: str) -> tuple[str, list[list[Any]]] | None:
        """The judgements at the end of a file, whose item may get more in the next row."""
        row = self._db.execute(
            "SELECT item, rows FROM open_label WHERE path = ?", (path,)
        ).fetchone()
        return None if row is None else (row[0], json.loads(row[1]))

    def hold_label(self, path: str, held: tuple[str, list[list[Any]]] | None) -> None:
        """Keep the judgements at the end of a file back."""
        self._db.execute("DELETE FROM open_label WHERE path = ?", (path,))
        if held is not None:
            self._db.execute(
                "INSERT INTO open_label VALUES (?, ?, ?)", (path, held[0], json.dumps(held[1]))
            )

    def add_items(self, rows: Iterable[tuple[str, int | None]]) -> None:
        """Item and its number of classes."""
        for item, k in rows:
            self._db.execute("INSERT OR IGNORE INTO item VALUES (?, ?)", (item, k))
            self.touch([item])

    def add_ratings(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Item, rater, label; a rater's first rating of an item counts."""
        place = self._db.execute("SELECT COALESCE(MAX(place), 0) FROM rating").fetchone()[0]
        for item, rater, label in rows:
            place += 1
            self._db.execute(
                "INSERT OR IGNORE INTO rating VALUES (?, ?, ?, ?)", (item, rater, label, place)
            )
            self.touch([item])

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self._db.execute(sql, values).fetchall()

    def mark(self, column: str, pairs: Iterable[tuple[str, str]]) -> None:
        """Mark answers as counted: ``met`` a label, or ``rated``."""
        name = {"met": "met", "rated": "rated"}[column]
        rows = list(pairs)
        if name == "met":
            self._db.executemany("UPDATE grade SET met = 1 WHERE item = ? AND system = ?", rows)
        self._db.executemany(f"UPDATE answer SET {name} = 1 WHERE item = ? AND system = ?", rows)  # noqa: S608 (fixed names)
