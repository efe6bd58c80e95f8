"""A transaction of SQLite, and the connection that it runs on."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from noracle.collect.chain import canonical, event_hash
from noracle.collect.store.base import Row
from noracle.errors import ArgumentError


class SqliteWork:
    """One transaction. Events are chained here; the new heads are written with the next statement,
    or before the commit.

    ``cursors`` is the hot path's memory, by project and person: no open question below this place
    is for the person. It only saves time.
    """

    dialect: Literal["sqlite", "postgresql"] = "sqlite"

    def __init__(
        self, connection: sqlite3.Connection, cursors: dict[int, dict[int, int]] | None = None
    ) -> None:
        self.connection = connection
        self.heads: dict[int, tuple[int, str]] = {}
        self._pending: set[int] = set()
        self.cursors = {} if cursors is None else cursors

    def all(self, sql: str, /, **values: object) -> list[Row]:
        """All rows."""
        cursor = self._execute(sql, values)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def one(self, sql: str, /, **values: object) -> Row | None:
        """The first row, or None."""
        cursor = self._execute(sql, values)
        row = cursor.fetchone()
        names = [column[0] for column in cursor.description or ()]
        cursor.close()
        return None if row is None else dict(zip(names, row, strict=True))

    def run(self, sql: str, /, **values: object) -> int:
        """Number of rows that changed."""
        cursor = self._execute(sql, values)
        cursor.fetchall()  # with RETURNING, the statement ends only after its last row
        return cursor.rowcount

    def many(self, sql: str, rows: Iterable[Mapping[str, object]], /) -> None:
        """The same statement for many rows."""
        self.flush()
        self.connection.executemany(sql, rows)

    def script(self, sql: str, /) -> None:
        """All statements of a file, inside this transaction."""
        statement = ""
        for piece in sql.split(";")[:-1]:
            statement += piece + ";"
            if sqlite3.complete_statement(statement):
                self.connection.execute(statement)
                statement = ""

    def log(
        self, project: int, kind: str, payload: Mapping[str, object], *, actor: str, at: float
    ) -> None:
        """Append an event to the chain."""
        self.append(project, kind, payload, actor=actor, at=at)
        self.flush()

    def append(
        self, project: int, kind: str, payload: Mapping[str, object], *, actor: str, at: float
    ) -> None:
        """As ``log``; the head in the project's row follows later in the transaction."""
        if project not in self.heads:
            found = self.connection.execute(
                "SELECT last_seq, head FROM project WHERE id = ?1", (project,)
            ).fetchone()
            if found is None:
                raise ArgumentError(f"project must be the number of a project; got {project}.")
            self.heads[project] = found
        last, prev = self.heads[project]
        seq, text = last + 1, canonical(payload)
        head = event_hash(prev, seq=seq, at=at, actor=actor, kind=kind, payload=text)
        self.connection.execute(
            "INSERT INTO event (project_id, at, actor, kind, payload, seq, prev, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            (project, float(at), actor, kind, text, seq, prev, head),
        )
        self.heads[project] = (seq, head)
        self._pending.add(project)

    def flush(self) -> None:
        """Write the heads of the chains that grew."""
        for project in self._pending:
            seq, head = self.heads[project]
            self.connection.execute(
                "UPDATE project SET last_seq = ?2, head = ?3 WHERE id = ?1", (project, seq, head)
            )
        self._pending.clear()

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is done inside if it raises; the rest of the transaction stays."""
        heads, pending = dict(self.heads), set(self._pending)
        self.connection.execute("SAVEPOINT op")
        try:
            yield
        except BaseException:
            self.cursors.clear()
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK TO op")
                self.connection.execute("RELEASE op")
                self.heads, self._pending = heads, pending
            raise
        self.connection.execute("RELEASE op")

    def _execute(self, sql: str, values: Mapping[str, object]) -> sqlite3.Cursor:
        if self._pending:
            self.flush()
        return self.connection.execute(sql, values)


def connect(
    path: Path, *, synchronous: str = "full", read_only: bool = False
) -> sqlite3.Connection:
    """A connection with the settings that the promises rest on."""
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=512, timeout=30.0
    )
    _write_ahead(connection)
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    for setting in (
        "fullfsync = 1",
        "checkpoint_fullfsync = 1",
        "foreign_keys = 1",
        "trusted_schema = 0",
        "cache_size = -16000",
    ):
        connection.execute(f"PRAGMA {setting}")
    connection.execute(
        "PRAGMA secure_delete = 1"
    ).fetchone()  # what is deleted, such as a name to be forgotten, is overwritten
    if read_only:
        connection.execute("PRAGMA query_only = 1")
    return connection


def _write_ahead(connection: sqlite3.Connection, *, seconds: float = 30.0) -> None:
    """Turn on the write-ahead log. SQLite does not wait for others here, as it does elsewhere:
    servers that start together would fail.
    """
    last = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > last:
                connection.close()
                raise
            time.sleep(0.01)
        else:
            return
