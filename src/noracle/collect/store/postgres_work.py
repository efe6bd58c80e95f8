"""A transaction of PostgreSQL, the connection that it runs on, and the chain of its events."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from noracle.collect.chain import canonical, event_hash
from noracle.collect.store.base import Row
from noracle.errors import ArgumentError, MissingExtra

try:
    import psycopg
    from psycopg.adapt import Loader
    from psycopg.rows import dict_row
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra("A PostgreSQL database", "psycopg", "collect") from error

Connection = psycopg.Connection[Any]

_CHUNK = 5000
_TOKENS = re.compile(r"'(?:[^']|'')*'|::|:([A-Za-z_]\w*)|%")

# Advisory locks: all writing but that of the hot path; one project (shared by the hot path); the
# chain of one project.
WRITERS_LOCK, PROJECT_LOCK, CHAIN_LOCK = 28270, 28271, 28272


class _Number(Loader):
    """Sums of whole numbers are whole numbers, other decimals floats; as SQLite gives them."""

    def load(self, data: bytes | bytearray | memoryview) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


@functools.lru_cache(maxsize=1024)
def translate(sql: str) -> str:
    """``:name`` as psycopg writes it.

    Examples
    --------
    >>> translate("SELECT ':x', a::text FROM t WHERE b = :b AND c LIKE '5%'")
    "SELECT ':x', a::text FROM t WHERE b = %(b)s AND c LIKE '5%%'"
    """

    def word(match: re.Match[str]) -> str:
        return f"%({match[1]})s" if match[1] else match[0].replace("%", "%%")

    return _TOKENS.sub(word, sql)


class PostgresWork:
    """One transaction. Values are put into the text by psycopg, so that NULL needs no type."""

    dialect: Literal["sqlite", "postgresql"] = "postgresql"

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._cursor = psycopg.ClientCursor(connection, row_factory=dict_row)

    def all(self, sql: str, /, **values: object) -> list[Row]:
        """All rows."""
        return list(self._cursor.execute(translate(sql), values).fetchall())

    def one(self, sql: str, /, **values: object) -> Row | None:
        """The first row, or None."""
        return self._cursor.execute(translate(sql), values).fetchone()

    def run(self, sql: str, /, **values: object) -> int:
        """Number of rows that changed."""
        return self._cursor.execute(translate(sql), values).rowcount

    def many(self, sql: str, rows: Iterable[Mapping[str, object]], /) -> None:
        """The same statement for many rows, sent in a pipeline."""
        with self.connection.cursor() as cursor:
            cursor.executemany(translate(sql), rows)

    def script(self, sql: str, /) -> None:
        """All statements of a file, inside this transaction."""
        self.connection.execute(sql)

    def log(
        self, project: int, kind: str, payload: Mapping[str, object], *, actor: str, at: float
    ) -> None:
        """Append an event; answers that are on their way come before it, later ones after it."""
        self._cursor.execute(
            "SELECT pg_advisory_xact_lock(%s, %s::integer)", (PROJECT_LOCK, project)
        )
        self._cursor.execute(
            "INSERT INTO event (project_id, at, actor, kind, payload) VALUES (%s, %s, %s, %s, %s)",
            (project, float(at), actor, kind, canonical(payload)),
        )


def connect(url: str) -> Connection:
    """A connection in autocommit."""
    connection: Connection = psycopg.connect(
        url, autocommit=True, application_name="noracle", connect_timeout=10
    )
    connection.adapters.register_loader("numeric", _Number)
    return connection


def lock_writers(connection: Connection) -> None:
    """Wait until no other transaction writes, but those of the hot path; until the end of this one."""
    connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (WRITERS_LOCK,))


def check_durable(connection: Connection) -> None:
    """Refuse a server that acknowledges what is not on the disk."""
    for setting in ("synchronous_commit", "fsync", "full_page_writes"):
        row = connection.execute(f"SHOW {setting}").fetchone()
        if row is not None and row[0] == "off":
            raise ArgumentError(
                f"{setting} must be on, or answers are lost at a power cut; the server has it off. "
                "Turn it on, or pass unsafe=True to accept that."
            )


def chain(connection: Connection, project: int) -> None:
    """Number and hash the events that are not chained yet, in the order in which they were written."""
    while True:
        with connection.transaction():
            connection.execute(
                "SELECT pg_advisory_xact_lock(%s, %s::integer)", (CHAIN_LOCK, project)
            )
            loose = connection.execute(
                "SELECT id, at, actor, kind, payload FROM event WHERE project_id = %s AND seq IS NULL ORDER BY id LIMIT %s",
                (project, _CHUNK),
            ).fetchall()
            if not loose:
                return
            found = connection.execute(
                "SELECT last_seq, head FROM project WHERE id = %s FOR NO KEY UPDATE", (project,)
            ).fetchone()
            seq, head = found if found is not None else (0, "")
            links = []
            for number, at, actor, kind, payload in loose:
                prev, seq = head, seq + 1
                head = event_hash(prev, seq=seq, at=at, actor=actor, kind=kind, payload=payload)
                links.append((number, seq, prev, head))
            connection.execute(
                "UPDATE event SET seq = l.seq, prev = l.prev, hash = l.hash "
                "FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[]) AS l (id, seq, prev, hash) WHERE event.id = l.id",
                [list(column) for column in zip(*links, strict=True)],
            )
            connection.execute(
                "UPDATE project SET last_seq = %s, head = %s WHERE id = %s", (seq, head, project)
            )
