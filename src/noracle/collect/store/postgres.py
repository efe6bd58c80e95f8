"""PostgreSQL: one function call per request, in as many server processes as wanted.

The functions stand in ``migrations/0002_guards.postgresql.sql``. Calls run in threads, each with a
connection of its own. All other writing goes one transaction at a time, over all processes, as with
SQLite. Events of the hot path are chained later, in the order of their numbers, by whichever
process is first; an export waits for that (:meth:`PostgresStore.read_chained`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import logging
import os
import queue
import re
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Unpack

from noracle.collect import errors
from noracle.collect.chain import SKEW, STEPPED, ClockStep, event_hash
from noracle.collect.model import Amended, Answered, Given, HeldQuestion, ProjectSpec, read_spec
from noracle.collect.store import base
from noracle.collect.store import sqlite as hot
from noracle.collect.store.base import CLOSED, SQL, Dialect, Payload, Store, Value, Work
from noracle.errors import ArgumentError, MissingExtra, require
from noracle.files import canonical

try:
    import psycopg
    from psycopg.adapt import Loader
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

    >>> translate("SELECT ':x', a::text FROM t WHERE b = :b AND c LIKE '5%'")
    "SELECT ':x', a::text FROM t WHERE b = %(b)s AND c LIKE '5%%'"
    """

    def word(match: re.Match[str]) -> str:
        return f"%({match[1]})s" if match[1] else match[0].replace("%", "%%")

    return _TOKENS.sub(word, sql)


class PostgresWork(Work):
    """One transaction. Values are put into the text by psycopg, so that NULL needs no type."""

    dialect: Dialect = "postgresql"

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def _execute(self, sql: str, values: Mapping[str, object]) -> psycopg.ClientCursor[Any]:
        return psycopg.ClientCursor(self.connection).execute(translate(sql), values)

    def many(self, sql: str, rows: Iterable[Mapping[str, object]], /) -> None:
        """The same statement for many rows, sent in a pipeline."""
        with self.connection.cursor() as cursor:
            cursor.executemany(translate(sql), rows)

    def script(self, sql: str, /) -> None:
        """All statements of a file, inside this transaction."""
        self.connection.execute(sql)

    def log(self, project: int, kind: str, payload: Payload, *, actor: str, at: float) -> float:
        """Append an event; answers that are on their way come before it, later ones after it."""
        run = self.connection.execute
        run(SQL.pg_lock, (PROJECT_LOCK, project))
        last, low = (self.one(SQL.pg_latest, project=project) or {"at": 0.0, "low": 1e15}).values()
        # It is told when that is chained.
        step = ClockStep(last, low) if low < last - SKEW else None
        at, stepped = hot.clamp(self, project, float(at), last, step)
        if stepped is not None:
            run(SQL.pg_event, (project, at, "system", STEPPED, canonical(stepped)))
        run(SQL.pg_event, (project, at, actor, kind, canonical(payload)))
        return at


def connect(url: str) -> Connection:
    """A connection in autocommit."""
    how: Any = {"autocommit": True, "application_name": "noracle", "connect_timeout": 10}
    connection: Connection = psycopg.connect(url, **how)
    connection.adapters.register_loader("numeric", _Number)
    return connection


def lock_writers(connection: Connection) -> None:
    """Wait until no other transaction writes, but those of the hot path; until the end of this one."""
    connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (WRITERS_LOCK,))


def check_durable(connection: Connection) -> None:
    """Refuse a server that acknowledges what is not on the disk."""
    for setting in ("synchronous_commit", "fsync", "full_page_writes"):
        rule = f"{setting} must be on, or answers are lost at a power cut; the server has it off"
        remedy = "Turn it on, or pass unsafe=True to accept that."
        row = connection.execute(f"SHOW {setting}").fetchone()
        require(row is None or row[0] != "off", f"{rule}. {remedy}")


def chain(connection: Connection, project: int) -> None:
    """Number and hash loose events in the order in which they came; times never go back."""
    run = connection.execute
    while True:
        with connection.transaction():
            run(SQL.pg_lock, (CHAIN_LOCK, project))
            loose = run(SQL.pg_loose, (project, _CHUNK)).fetchall()
            if not loose:
                return
            found = run(SQL.pg_head, (project,)).fetchone()
            seq, head, last = found if found is not None else (0, "", 0.0)
            links, work, known = [], PostgresWork(connection), None
            for number, at, actor, kind, payload in loose:
                last, stepped = hot.clamp(work, project, at, last, known)
                told = json.loads(payload) if kind == STEPPED else stepped
                known = known if told is None else ClockStep(last, told["to"])
                rows = [(number, actor, kind, payload)]
                if stepped is not None:
                    step = ("system", STEPPED, canonical(stepped))
                    made = run(f"{SQL.pg_event} RETURNING id", (project, last, *step))
                    rows.insert(0, (made.fetchone()[0], *step))  # type: ignore[index]
                for one, who, what, text in rows:
                    prev, seq = head, seq + 1
                    head = event_hash(prev, seq=seq, at=last, actor=who, kind=what, payload=text)
                    links.append((one, last, seq, prev, head))
            run(SQL.pg_link, [list(column) for column in zip(*links, strict=True)])
            run("UPDATE project SET last_seq = %s, head = %s WHERE id = %s", (seq, head, project))


# A backup of a PostgreSQL database: one zip with a member for each table, read in one transaction.

FORMAT = "noracle-backup/1"
_MADE = "".join(step.sql for step in base.migrations("postgresql"))
TABLES = tuple(re.findall(r"CREATE TABLE (\w+)", _MADE))
"""In an order in which every row finds those that it names."""


def write_backup(connection: Connection, path: Path) -> None:
    """Write the archive under another name, then rename it."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "w+b") as file:
        zipped = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        with zipped as archive, connection.transaction(), connection.cursor() as cursor:
            connection.execute(SQL.pg_snapshot)
            work = PostgresWork(connection)
            tables: dict[str, Any] = {}
            for table in _tables(work):
                columns = _columns(work, table)
                with (
                    archive.open(f"{table}.copy", "w", force_zip64=True) as member,
                    cursor.copy(f"COPY {table} ({', '.join(columns)}) TO STDOUT") as copy,
                ):
                    for block in copy:
                        member.write(block)
                tables[table] = {"columns": columns, "rows": cursor.rowcount}
            about = {"format": FORMAT, "version": base.schema_version(work), "tables": tables}
            archive.writestr("backup.json", json.dumps(about))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def restore(path: Path, url: str) -> None:
    """Fill an empty database: tables as they were then, the rows, then the newer migrations."""
    with zipfile.ZipFile(_checked(path)) as archive, connect(url) as connection:
        about = json.loads(archive.read("backup.json"))
        newest = len(base.migrations("postgresql"))
        ours = about.get("format") == FORMAT and about["version"] <= newest
        rule = f"path must name a backup of schema version at most {newest}"
        require(ours, f"{rule}; got {about.get('version')}. Upgrade noracle.")
        with connection.transaction():
            lock_writers(connection)
            work = PostgresWork(connection)
            rule = "url must name a database without tables; this one has some."
            require(not base.schema_version(work), rule)
            base.migrate(work, now=time.time(), to=about["version"])
            for table, told in about["tables"].items():
                _fill(archive, work, table, told)
            base.migrate(work, now=time.time())


def _fill(archive: zipfile.ZipFile, work: PostgresWork, table: str, told: dict[str, Any]) -> None:
    columns, rule = told["columns"], "path must name a"
    known = table in _tables(work) and set(columns) <= set(_columns(work, table))
    require(known, f"{rule} backup with the tables of its version; got {table}.")
    with archive.open(f"{table}.copy") as member, work.connection.cursor() as cursor:
        with cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
            while block := member.read(1 << 16):
                copy.write(block)
        n, rows = cursor.rowcount, told["rows"]
        require(n == rows, f"{rule} whole backup; {table} has {n} rows of {rows}.")
    if "id" in columns:
        sequence = f"pg_get_serial_sequence('{table}', 'id')"
        work.one(f"SELECT setval({sequence}, COALESCE(MAX(id), 0) + 1, false) FROM {table}")  # noqa: S608 (one of TABLES)


def _checked(path: Path) -> Path:
    try:
        with zipfile.ZipFile(path) as archive:
            if "backup.json" in archive.namelist() and archive.testzip() is None:
                return path
    except (zipfile.BadZipFile, OSError) as error:
        raise ArgumentError(f"path must name a backup; got {path} ({error}).") from None
    raise ArgumentError(f"path must name a whole backup; {path} is something else, or damaged.")


def _tables(work: PostgresWork) -> list[str]:
    """The tables that there are, in the order of those that we know."""
    found = {row["table_name"] for row in work.all(SQL.pg_tables)} - {"schema_version"}
    return [table for table in TABLES if table in found]


def _columns(work: PostgresWork, table: str) -> list[str]:
    return [row["column_name"] for row in work.all(SQL.pg_columns, table=table)]


_HOT, _WRITERS, _READERS = 8, 2, 4
_TRIES = 5
_REFUSALS = (errors.Forbidden, errors.NotFound, errors.Conflict, errors.Refused)
_STATUS = {f"NR{kind.status}": kind for kind in _REFUSALS}
# No connection, a lost one, no room, no answer in time.
_LOST = (psycopg.OperationalError, psycopg.InterfaceError)
_logger = logging.getLogger("noracle")


class PostgresStore(Store):
    """A PostgreSQL database. See :class:`noracle.collect.store.base.Store`."""

    def __init__(self, url: str, *, unsafe: bool = False) -> None:
        self.url = url
        with _reaching(tell=True), connect(url) as connection:
            if not unsafe:
                check_durable(connection)
            with connection.transaction():
                lock_writers(connection)
                base.migrate(PostgresWork(connection), now=time.time())
        self._free: queue.LifoQueue[Connection] = queue.LifoQueue()
        self._specs: dict[int, ProjectSpec] = {}
        self._hot = ThreadPoolExecutor(_HOT, thread_name_prefix="noracle-hot")
        self._writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="noracle-write")
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="noracle-read")
        self._closed = False
        self._trouble = ""
        self._stop = threading.Event()
        name = "noracle-chain"
        self._chainer = threading.Thread(target=self._chain_forever, name=name, daemon=True)
        self._chainer.start()

    @contextlib.contextmanager
    def _borrow(self) -> Iterator[Connection]:
        require(not self._closed, CLOSED)
        try:
            connection = self._free.get_nowait()
        except queue.Empty:
            connection = connect(self.url)
        try:
            yield connection
        finally:
            if connection.closed:  # also when the server went away
                connection.close()
            else:
                self._free.put(connection)

    def _put(self, op: Callable[[Any], Value]) -> Future[Value]:
        return self._writers.submit(self.write_now, op)

    def write_now(self, op: Callable[[Work], Value]) -> Value:
        """As ``write``, for callers without an event loop."""
        begun = False

        def once(connection: Connection) -> Value:
            nonlocal begun
            with connection.transaction():
                lock_writers(connection)
                begun = True
                return op(PostgresWork(connection))

        # A lost commit may have been kept; only the caller can tell.
        try:
            return self._retried(once, again=lambda: not begun)
        except errors.Unavailable as error:
            if isinstance(error.__cause__, psycopg.errors.DiskFull):
                self._trouble = "The disk is full: nothing can be kept until there is room."
                raise errors.Unavailable(self._trouble, wait=30.0) from error
            raise

    def read_now(self, op: Callable[[Work], Value]) -> Value:
        """Run ``op`` on one consistent state."""

        def once(connection: Connection) -> Value:
            with connection.transaction():
                connection.execute(SQL.pg_snapshot)
                return op(PostgresWork(connection))

        return self._retried(once)

    def read_chained_now(self, project: int, op: Callable[[Work], Value]) -> Value:
        """Hold answers back while the last events are chained and a snapshot is taken; then read."""
        with _reaching(), connect(self.url) as connection:
            chain(connection, project)  # most of them, while work goes on
            for lock, number in ((WRITERS_LOCK, 0), (PROJECT_LOCK, project)):
                connection.execute("SELECT pg_advisory_lock(%s, %s::integer)", (lock, number))
            chain(connection, project)
            with connection.transaction():
                connection.execute(SQL.pg_snapshot)
                connection.execute("SELECT id FROM project LIMIT 1")
                connection.execute("SELECT pg_advisory_unlock_all()")
                return op(PostgresWork(connection))

    def _retried(
        self, once: Callable[[Connection], Value], *, again: Callable[[], bool] = lambda: True
    ) -> Value:
        """Run a transaction; again after a deadlock, and once where a connection that waited was lost."""
        lost = False
        for left in reversed(range(_TRIES)):
            try:
                with self._borrow() as connection:
                    return once(connection)
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure) as error:
                if not left:
                    raise errors.Unavailable from error
            except _LOST as error:
                if lost or not left or not again():
                    raise errors.Unavailable from error
                self._drop_idle()
                lost = True
        raise ArgumentError("op must end.")  # pragma: no cover - the loop returns or raises

    def _soon(self, hot: Callable[..., Value], *sent: object, **given: object) -> Future[Value]:
        return self._hot.submit(hot, *sent, **given)

    def _drop_idle(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._free.get_nowait().close()

    def _next(self, token_hash: str, project: int, now: float) -> HeldQuestion | None:
        hot.check_form("-", "", now)
        spec = self._spec(project)
        seconds = spec.lease_seconds if spec else 0.0
        rows = self._call("next", token_hash, project, float(now), seconds, hot.new_key())
        return _asked(project, rows[0]) if rows else None

    def _answer(self, token_hash: str, project: int, **given: Unpack[Given]) -> Answered:
        question, key, value = given["question"], given["key"], given["value"]
        shown_at, now = float(given["shown_at"]), float(given["now"])
        ms, want = given["client_ms"], given["want_next"]
        hot.check_form(key, value, shown_at, now, question=question, client_ms=ms)
        spec = self._spec(project)
        known = spec and (hot.form_of(spec), spec.trap, spec.reasks, spec.lease_seconds)
        sent = (token_hash, project, question, key, value, shown_at, ms, now, want)
        rules = (*(known or ("", False, 0, 0.0)), hot.new_key())
        number, revision, again, *row = self._call("answer", *sent, *rules)[0]
        kept = Answered(answer=number, question=question, revision=revision, again=again)
        return kept if row[0] is None else dataclasses.replace(kept, next=_asked(project, row))

    def _amend(self, token_hash: str, project: int, **given: Unpack[Amended]) -> Answered:
        answer, key, value, now = given["answer"], given["key"], given["value"], given["now"]
        hot.check_form(key, value, now, question=answer)
        spec = self._spec(project)
        rules = (hot.form_of(spec), spec.trap) if spec else ("", False)
        sent = (token_hash, project, answer, key, value, float(now))
        number, question, revision, again = self._call("amend", *sent, *rules)[0]
        return Answered(answer=number, question=question, revision=revision, again=again)

    def _call(self, name: str, *values: object) -> list[tuple[Any, ...]]:
        """One function; safe to call again: a key is kept once and a lease is given once."""
        sql = f"SELECT * FROM noracle_{name}({', '.join(['%s'] * len(values))})"  # noqa: S608 (ours)
        try:
            return self._retried(lambda c: c.execute(sql, values, prepare=True).fetchall())
        except psycopg.errors.UniqueViolation:
            raise errors.Conflict(hot.MESSAGES["key"]) from None
        except psycopg.Error as error:
            if error.sqlstate == f"NR{errors.SignedOut.status}":
                raise errors.SignedOut from None
            kind = _STATUS.get(error.sqlstate or "")
            if kind is None:
                raise
            raise kind(hot.MESSAGES[error.diag.message_primary or ""]) from None

    def _spec(self, project: int) -> ProjectSpec | None:
        """The specification once it cannot change; None before, when the functions refuse anyway."""
        if project not in self._specs:
            sql = "SELECT spec FROM project WHERE id = :id AND state IN ('open', 'closed')"
            row = self.read_now(lambda work: work.one(sql, id=project))
            if row is None:
                return None
            self._specs[project] = read_spec(row["spec"])
        return self._specs[project]

    def chain(self, project: int) -> None:
        """Number and hash the events that are not chained yet."""
        with _reaching(), self._borrow() as connection:
            chain(connection, project)

    def _chain_forever(self) -> None:
        told, loose = False, "SELECT DISTINCT project_id FROM event WHERE seq IS NULL"
        while not self._stop.wait(1.0):
            try:
                with self._borrow() as connection:
                    for (project,) in connection.execute(loose).fetchall():
                        chain(connection, project)
                told = False
            except psycopg.Error as error:
                if not told:
                    _logger.warning("events cannot be chained now; tried again: %s", error)
                told = True

    def backup(self, path: Path) -> None:
        """An archive of one consistent state, while work goes on."""
        with _reaching(), connect(self.url) as connection:
            write_backup(connection, path)

    def scrub(self) -> None:
        """Write the small table of accounts and its indexes again, without rows that are gone."""
        with self._borrow() as connection:
            connection.execute("VACUUM (FULL) person, comment")

    def close(self) -> None:
        """Finish what waits, and close."""
        self._stop.set()
        for executor in (self._hot, self._writers, self._readers):
            executor.shutdown(wait=True)
        self._chainer.join()
        self._closed = True
        self._drop_idle()


@contextlib.contextmanager
def _reaching(*, tell: bool = False) -> Iterator[None]:
    """Raise :class:`Unavailable` where the database cannot be reached; ``tell`` quotes why."""
    try:
        yield
    except _LOST as error:
        if not tell:
            raise errors.Unavailable from error
        what = f"the database must answer; it does not ({' '.join(str(error).split())})"
        raise errors.Unavailable(f"{what}. Is it running, and is its address right?") from error


def _asked(project: int, row: Sequence[Any]) -> HeldQuestion:
    return hot.asked(project, row, *row[6:9])
