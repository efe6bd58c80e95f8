"""What both databases offer, the statements that both know, and numbered migrations.

Everything that happens is a function of a :class:`Work`, a transaction: ``store.write(op)`` commits
what it did, ``store.read(op)`` sees one consistent state. The transactions of every click are
methods of the store, because each database has its own fast way.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, Protocol, TypeVar, Unpack

from noracle.collect.errors import Unavailable
from noracle.collect.model import Amended, Answered, Given, HeldQuestion
from noracle.errors import ArgumentError, require

Dialect = Literal["sqlite", "postgresql"]
Row = Mapping[str, Any]
Payload = Mapping[str, object]
Value = TypeVar("Value")
Sent = ParamSpec("Sent")
CLOSED = "store must be open; it was closed."


def _queries() -> SimpleNamespace:
    text = Path(__file__).with_name("queries.sql").read_text(encoding="utf-8")
    _, *parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    plain = (re.sub(r"^--.*", "", sql, flags=re.MULTILINE) for sql in parts[1::2])
    sql = dict(zip(parts[::2], (" ".join(each.split()) for each in plain), strict=True))
    return SimpleNamespace(**{k: v.replace("{final}", sql["final"]) for k, v in sql.items()})


SQL = _queries()
"""The statements of ``queries.sql`` by their names, with ``:name`` for values."""


class Work(Protocol):
    """One transaction."""

    dialect: Dialect

    def _execute(self, sql: str, values: Mapping[str, object]) -> Any: ...

    def all(self, sql: str, /, **values: object) -> list[Row]:
        """All rows."""
        cursor = self._execute(sql, values)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def one(self, sql: str, /, **values: object) -> Row | None:
        """The first row, or None."""
        cursor = self._execute(sql, values)
        row, names = cursor.fetchone(), [column[0] for column in cursor.description or ()]
        cursor.close()
        return None if row is None else dict(zip(names, row, strict=True))

    def run(self, sql: str, /, **values: object) -> int:
        """Number of rows that changed."""
        cursor = self._execute(sql, values)
        if cursor.description:  # with RETURNING, SQLite ends the statement after its last row
            cursor.fetchall()
        return int(cursor.rowcount)

    def many(self, sql: str, rows: Iterable[Mapping[str, object]], /) -> None:
        """The same statement for many rows."""

    def script(self, sql: str, /) -> None:
        """All statements of a file, inside this transaction."""

    def log(self, project: int, kind: str, payload: Payload, *, actor: str, at: float) -> float:
        """Append an event; returns the time under which it stands: ``at``, unless the clock stepped back."""


Op = Callable[Concatenate[Work, Sent], Value]


class Store(Protocol):
    """A database that is open."""

    url: str
    _trouble: str
    _readers: ThreadPoolExecutor
    _next: Callable[..., HeldQuestion | None]
    _answer: Callable[..., Answered]
    _amend: Callable[..., Answered]

    def _put(self, op: Callable[[Any], Value]) -> Future[Value]: ...

    def _soon(self, hot: Callable[..., Value], *sent: object, **given: object) -> Future[Value]: ...

    async def write(self, op: Op[Sent, Value], /, *sent: Sent.args, **on: Sent.kwargs) -> Value:
        """``op(work, …)`` in a transaction that is on the disk when this returns."""
        return await asyncio.wrap_future(self._put(lambda work: op(work, *sent, **on)))

    async def read(self, op: Op[Sent, Value], /, *sent: Sent.args, **on: Sent.kwargs) -> Value:
        """``op(work, …)`` on one consistent state."""
        done = self._readers.submit(self.read_now, lambda work: op(work, *sent, **on))
        return await asyncio.wrap_future(done)

    def write_now(self, op: Callable[[Work], Value]) -> Value:
        """As ``write``, for callers without an event loop."""

    def read_now(self, op: Callable[[Work], Value]) -> Value:
        """As ``read``, for callers without an event loop."""

    async def read_chained(self, project: int, op: Callable[[Work], Value]) -> Value:
        """As ``read``, on a state in which every event of the project is chained; for exports."""
        run = asyncio.get_running_loop().run_in_executor
        return await run(self._readers, self.read_chained_now, project, op)

    def read_chained_now(self, project: int, op: Callable[[Work], Value]) -> Value:
        """As ``read_chained``, without an event loop; as ``read_now`` where events are chained at once."""
        del project
        return self.read_now(op)

    async def next_question(self, token_hash: str, project: int, now: float) -> HeldQuestion | None:
        """The question that this session's person holds, else the next one of their pools."""
        return await asyncio.wrap_future(self._soon(self._next, token_hash, project, now=now))

    async def answer(self, token_hash: str, project: int, **given: Unpack[Given]) -> Answered:
        """Keep the first answer to a question that the person holds; a key counts once."""
        return await asyncio.wrap_future(self._soon(self._answer, token_hash, project, **given))

    async def amend(self, token_hash: str, project: int, **given: Unpack[Amended]) -> Answered:
        """Append a revision of the person's own last answer."""
        return await asyncio.wrap_future(self._soon(self._amend, token_hash, project, **given))

    def chain(self, project: int) -> None:
        """Chain the events that are not chained yet, if they are not chained when written."""
        del project

    def check(self) -> None:
        """Refuse a database that is damaged, where that can be found out."""
        return

    async def health(self) -> str:
        """As ``health_now``, beside what is read."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self.health_now)

    def health_now(self) -> str:
        """What keeps the store from writing, in words; after a failure one small write tries again."""
        self.read_now(lambda work: work.one("SELECT 1 AS one"))
        if self._trouble:
            with contextlib.suppress(Unavailable):
                value = str(time.time())
                self.write_now(lambda work: work.run(SQL.set_setting, name="pulse", value=value))
                self._trouble = ""
        return self._trouble

    def backup(self, path: Path) -> None:
        """A consistent copy for ``restore`` while work goes on: a database file, or an archive."""

    def scrub(self) -> None:
        """Overwrite what was erased from the accounts in the files of the database too."""

    def close(self) -> None:
        """Finish what waits, and close."""


# Numbered migrations: each is run once, in order, and keeps what is in the database.


FOLDER = Path(__file__).parent / "migrations"
_IDENTITY = "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
_MARKS = ("{id}", "{int}", "{real}", "{blob}")
_TYPES = {
    "sqlite": ("INTEGER PRIMARY KEY", "INTEGER", "REAL", "BLOB"),
    "postgresql": (_IDENTITY, "BIGINT", "DOUBLE PRECISION", "BYTEA"),
}
_VERSIONS = (
    "CREATE TABLE schema_version "
    "(version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at DOUBLE PRECISION NOT NULL);"
)
_APPLIED = "INSERT INTO schema_version (version, name, applied_at) VALUES (:version, :name, :now)"

_NAME = re.compile(r"(\d{4})_(\w+)(?:\.(sqlite|postgresql))?\.sql")


class Migration(NamedTuple):
    """One number, and the text that is run for it."""

    version: int
    name: str
    sql: str


def migrations(dialect: Dialect, folder: Path = FOLDER) -> list[Migration]:
    """The migrations of a database, in order.

    >>> [m.name for m in migrations("sqlite")][:1]
    ['first']
    """
    found: dict[int, Migration] = {}
    for path in sorted(folder.glob("*.sql"), key=lambda path: (path.name.count("."), path.name)):
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise ArgumentError(f"folder must hold files named NNNN_name.sql; got {path.name}.")
        if match[3] in (None, dialect):
            number, sql = int(match[1]), path.read_text(encoding="utf-8")
            for mark, name in zip(_MARKS, _TYPES[dialect], strict=True):
                sql = sql.replace(mark, name)
            first = found.get(number, Migration(number, match[2], ""))
            found[number] = first._replace(sql=f"{first.sql}\n{sql}".lstrip("\n"))
    numbers = sorted(found)
    rule = "folder must number its migrations 1, 2, 3, … without gaps"
    require(numbers == list(range(1, len(numbers) + 1)), f"{rule}; got {numbers}.")
    return [found[number] for number in numbers]


def schema_version(work: Work) -> int:
    """The number of the last migration that was run; 0 for an empty database."""
    sqlite = "SELECT 1 AS x FROM sqlite_master WHERE name = 'schema_version'"
    postgresql = "SELECT 1 AS x WHERE to_regclass('schema_version') IS NOT NULL"
    if work.one(sqlite if work.dialect == "sqlite" else postgresql) is None:
        return 0
    row = work.one("SELECT COALESCE(MAX(version), 0) AS version FROM schema_version")
    return 0 if row is None else int(row["version"])


def migrate(work: Work, *, now: float, folder: Path = FOLDER, to: int | None = None) -> int:
    """Bring a database whose lock we hold to the newest version, or to ``to``; returns it."""
    steps = migrations(work.dialect, folder)
    at = schema_version(work)
    rule = f"url must name a database of schema version at most {len(steps)}"
    require(at <= len(steps), f"{rule}; got {at}. Upgrade noracle.")
    if at == 0:
        work.script(_VERSIONS)
    for step in steps[at : to if to is not None else len(steps)]:
        work.script(step.sql)
        work.run(_APPLIED, version=step.version, name=step.name, now=now)
        at = step.version
    return at
