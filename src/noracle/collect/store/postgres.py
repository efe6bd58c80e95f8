"""PostgreSQL: one function call per request, in as many server processes as wanted.

The functions stand in ``migrations/0002_guards.postgresql.sql``. Calls run in threads, each with a
connection of its own. All other writing goes one transaction at a time, over all processes, as with
SQLite. Events of the hot path are chained later, in the order of their numbers, by whichever
process is first; an export waits for that (:meth:`PostgresStore.read_chained`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from noracle.collect import errors
from noracle.collect.model import Answered, Asked, ProjectSpec
from noracle.collect.store import hot
from noracle.collect.store.base import Work
from noracle.collect.store.migrate import migrate
from noracle.collect.store.postgres_work import (
    PROJECT_LOCK,
    WRITERS_LOCK,
    Connection,
    PostgresWork,
    chain,
    check_durable,
    connect,
    lock_writers,
)
from noracle.errors import ArgumentError, MissingExtra

try:
    import psycopg
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra("A PostgreSQL database", "psycopg", "collect") from error

Value = TypeVar("Value")

_HOT, _WRITERS, _READERS = 8, 2, 4
_TRIES = 5
_STATUS = {
    "NR401": errors.SignedOut,
    "NR403": errors.Forbidden,
    "NR404": errors.NotFound,
    "NR409": errors.Conflict,
    "NR422": errors.Refused,
}
_LOST = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
)  # no connection, a lost one, no room, no answer in time
_logger = logging.getLogger("noracle")

_ANSWER = "SELECT * FROM noracle_answer(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
_AMEND = "SELECT * FROM noracle_amend(%s, %s, %s, %s, %s, %s, %s, %s)"
_NEXT = "SELECT * FROM noracle_next(%s, %s, %s, %s, %s)"


class PostgresStore:
    """A PostgreSQL database. See :class:`noracle.collect.store.base.Store`."""

    def __init__(self, url: str, *, unsafe: bool = False) -> None:
        self.url = url
        with _reaching(tell=True), connect(url) as connection:
            if not unsafe:
                check_durable(connection)
            with connection.transaction():
                lock_writers(connection)
                migrate(PostgresWork(connection), now=time.time())
        self._free: queue.LifoQueue[Connection] = queue.LifoQueue()
        self._specs: dict[int, ProjectSpec] = {}
        self._hot = ThreadPoolExecutor(_HOT, thread_name_prefix="noracle-hot")
        self._writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="noracle-write")
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="noracle-read")
        self._closed = False
        self._stop = threading.Event()
        self._chainer = threading.Thread(
            target=self._chain_forever, name="noracle-chain", daemon=True
        )
        self._chainer.start()

    @contextlib.contextmanager
    def _borrow(self) -> Iterator[Connection]:
        if self._closed:
            raise ArgumentError("store must be open; it was closed.")
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

    # -------------------------------------------------------------------------------------------------------
    # write and read

    async def write(self, op: Callable[[Work], Value]) -> Value:
        """Run ``op`` in a transaction that is on the disk when this returns."""
        return await asyncio.get_running_loop().run_in_executor(self._writers, self.write_now, op)

    def write_now(self, op: Callable[[Work], Value]) -> Value:
        """As ``write``, for callers without an event loop."""
        begun = False

        def once(connection: Connection) -> Value:
            nonlocal begun
            with connection.transaction():
                lock_writers(connection)
                begun = True
                return op(PostgresWork(connection))

        return self._retried(
            once, again=lambda: not begun
        )  # a lost commit may have been kept; only the caller can tell

    async def read(self, op: Callable[[Work], Value]) -> Value:
        """Run ``op`` on one consistent state."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self.read_now, op)

    def read_now(self, op: Callable[[Work], Value]) -> Value:
        """As ``read``, for callers without an event loop."""

        def once(connection: Connection) -> Value:
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                return op(PostgresWork(connection))

        return self._retried(once, again=lambda: True)

    async def read_chained(self, project: int, op: Callable[[Work], Value]) -> Value:
        """As ``read``, on a state in which every event of the project is chained."""
        return await asyncio.get_running_loop().run_in_executor(
            self._readers, self.read_chained_now, project, op
        )

    def read_chained_now(self, project: int, op: Callable[[Work], Value]) -> Value:
        """Hold answers back for the moment that it takes to chain the last events and to take a
        snapshot; then read at leisure.
        """
        with _reaching(), connect(self.url) as connection:
            chain(connection, project)  # most of them, while work goes on
            connection.execute("SELECT pg_advisory_lock(%s, 0)", (WRITERS_LOCK,))
            connection.execute("SELECT pg_advisory_lock(%s, %s::integer)", (PROJECT_LOCK, project))
            chain(connection, project)
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.execute("SELECT id FROM project LIMIT 1")
                connection.execute("SELECT pg_advisory_unlock_all()")
                return op(PostgresWork(connection))

    def _retried(self, once: Callable[[Connection], Value], *, again: Callable[[], bool]) -> Value:
        """Run a transaction; again where PostgreSQL asks for it (a deadlock), and, if ``again()``,
        once where the connection was lost.

        Connections that waited unused are all dead after a restart of PostgreSQL; they are dropped,
        and the second try opens a new one.
        """
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

    def _drop_idle(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._free.get_nowait().close()

    # ---------------------------------------------------------------------------------------------------------
    # the hot path

    async def next_question(self, token_hash: str, project: int, *, now: float) -> Asked | None:
        """The question that the person holds, else the next one."""

        def call() -> Asked | None:
            hot.check_form("-", "", now)
            spec = self._spec(project)
            rows = self._call(
                _NEXT,
                (
                    token_hash,
                    project,
                    float(now),
                    spec.lease_seconds if spec else 0.0,
                    hot.new_key(),
                ),
            )
            return _asked(project, rows[0]) if rows else None

        return await asyncio.get_running_loop().run_in_executor(self._hot, call)

    async def answer(
        self,
        token_hash: str,
        project: int,
        *,
        question: int,
        key: str,
        value: str,
        shown_at: float,
        client_ms: int | None,
        now: float,
        want_next: bool,
    ) -> Answered:
        """Keep the first answer."""

        def call() -> Answered:
            hot.check_form(key, value, shown_at, now, question=question, client_ms=client_ms)
            spec = self._spec(project)
            words = (
                (spec.protocol, spec.trap, spec.reasks, spec.lease_seconds)
                if spec
                else ("", False, 0, 0.0)
            )
            given = (
                token_hash,
                project,
                question,
                key,
                value,
                float(shown_at),
                client_ms,
                float(now),
                want_next,
            )
            row = self._call(_ANSWER, (*given, *words, hot.new_key()))[0]
            follow = None if row[3] is None else _asked(project, row[3:])
            return Answered(
                answer=row[0], question=question, revision=row[1], again=row[2], next=follow
            )

        return await asyncio.get_running_loop().run_in_executor(self._hot, call)

    async def amend(
        self, token_hash: str, project: int, *, answer: int, key: str, value: str, now: float
    ) -> Answered:
        """Append a revision."""

        def call() -> Answered:
            hot.check_form(key, value, now, question=answer)
            spec = self._spec(project)
            words = (spec.protocol, spec.trap) if spec else ("", False)
            row = self._call(_AMEND, (token_hash, project, answer, key, value, float(now), *words))[
                0
            ]
            return Answered(answer=row[0], question=row[1], revision=row[2], again=row[3])

        return await asyncio.get_running_loop().run_in_executor(self._hot, call)

    def _call(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """One function; it is safe to call it again, because a key is kept once and a lease is
        given once.
        """

        def once(connection: Connection) -> list[tuple[Any, ...]]:
            return connection.execute(sql, values, prepare=True).fetchall()

        try:
            return self._retried(once, again=lambda: True)
        except psycopg.errors.UniqueViolation:
            raise errors.Conflict(hot.MESSAGES["key"]) from None
        except psycopg.Error as error:
            kind = _STATUS.get(error.sqlstate or "")
            if kind is None:
                raise
            raise (
                kind()
                if kind is errors.SignedOut
                else kind(hot.MESSAGES[error.diag.message_primary or ""])
            ) from None

    def _spec(self, project: int) -> ProjectSpec | None:
        """The specification, once it cannot change any more; None before that, when the functions
        refuse anyway.
        """
        if project not in self._specs:
            row = self.read_now(
                lambda work: work.one(
                    "SELECT spec FROM project WHERE id = :id AND state IN ('open', 'closed')",
                    id=project,
                )
            )
            if row is None:
                return None
            self._specs[project] = hot.read_spec(row["spec"])
        return self._specs[project]

    # ------------------------------------------------------------------------------------------------------------
    # the rest

    def chain(self, project: int) -> None:
        """Number and hash the events that are not chained yet, in the order in which they were
        written.
        """
        with _reaching(), self._borrow() as connection:
            chain(connection, project)

    def _chain_forever(self) -> None:
        told = False
        while not self._stop.wait(1.0):
            try:
                with self._borrow() as connection:
                    for (project,) in connection.execute(
                        "SELECT DISTINCT project_id FROM event WHERE seq IS NULL"
                    ).fetchall():
                        chain(connection, project)
                told = False
            except psycopg.Error as error:
                if not told:
                    _logger.warning(
                        "events cannot be chained now; tried again every second: %s", error
                    )
                told = True

    def backup(self, path: Path) -> None:
        """An archive of one consistent state, while work goes on."""
        from noracle.collect.store.postgres_backup import write_backup

        with _reaching(), connect(self.url) as connection:
            write_backup(connection, path)

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
    """Turn what a database that cannot be reached says into :class:`Unavailable`; ``tell`` quotes
    it, for those who started the program.
    """
    try:
        yield
    except _LOST as error:
        if not tell:
            raise errors.Unavailable from error
        why = " ".join(str(error).split())
        raise errors.Unavailable(
            f"the database must answer; it does not ({why}). Is it running, and is its address right?"
        ) from error


def _asked(project: int, row: Sequence[Any]) -> Asked:
    return hot.asked(project, row, row[6], row[7], row[8])
