"""What a watch remembers between looks, in one private SQLite file: files, evidence that still
waits, counts, and a journal.

One look is one transaction. A watch that is killed at any moment goes on from its last whole look
and ends in the same state as one that was not. Items are kept by name, never their texts. The
journal is never emptied, not even by starting over.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.oversight.arrivals import Seen

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
