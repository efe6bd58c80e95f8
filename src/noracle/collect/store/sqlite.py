"""SQLite: one writer thread with group commit, a few readers.

The writer takes all operations that wait, runs each in a savepoint, commits once, and only then
tells the callers: what was acknowledged is on the disk (write-ahead log, ``synchronous=FULL``).
Several writers on one file are slower than one, and their slowest calls far slower.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

from noracle.collect.model import Answered, Asked
from noracle.collect.store import hot
from noracle.collect.store.base import Work
from noracle.collect.store.migrate import migrate
from noracle.collect.store.sqlite_backup import copy_database, make_private
from noracle.collect.store.sqlite_work import SqliteWork, connect
from noracle.errors import ArgumentError

Value = TypeVar("Value")

_READERS = 4
_BATCH = 256
_SAFE = ("full", "extra")


class _Task:
    """An operation that waits for the writer, and who waits for it."""

    __slots__ = ("error", "future", "hot", "loop", "op", "result")

    def __init__(
        self,
        op: Callable[[SqliteWork], Any],
        future: Future[Any] | asyncio.Future[Any],
        loop: asyncio.AbstractEventLoop | None,
        *,
        hot: bool = False,
    ) -> None:
        self.op, self.future, self.loop, self.hot = op, future, loop, hot
        self.result: Any = None
        self.error: BaseException | None = None

    def tell(self) -> None:
        """Give the result to who waits; a caller that went away hears nothing."""
        if self.loop is None and not cast("Future[Any]", self.future).running():
            return
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class SqliteStore:
    """A database file. See :class:`noracle.collect.store.base.Store`."""

    def __init__(self, path: Path, *, synchronous: str = "full", unsafe: bool = False) -> None:
        if synchronous not in (*_SAFE, "normal", "off"):
            raise ArgumentError(
                f"synchronous must be full, extra, normal or off; got {synchronous!r}."
            )
        if synchronous not in _SAFE and not unsafe:
            raise ArgumentError(
                f"synchronous must be full, or answers are lost at a power cut; got {synchronous!r}. Pass unsafe=True to accept that."
            )
        self.path = path = path.absolute()
        self.url = f"sqlite:///{path}"
        make_private(path)
        self._connection = connect(path, synchronous=synchronous)
        if self._connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal" and not unsafe:
            self._connection.close()
            raise ArgumentError(
                f"url must name a file on a disk that can hold a write-ahead log; got {path}. Pass unsafe=True to accept less."
            )
        try:
            self._migrate()
        except BaseException:
            self._connection.close()
            raise
        self._cursors: dict[int, dict[int, int]] = {}
        self._version = -1
        self._queue: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._free: queue.LifoQueue[sqlite3.Connection | None] = queue.LifoQueue()
        for _ in range(_READERS):
            self._free.put(None)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="noracle-read")
        self._closed = False
        self._gate = threading.Lock()
        self._writer = threading.Thread(
            target=self._write_forever, name="noracle-write", daemon=True
        )
        self._writer.start()

    def _migrate(self) -> None:
        work = SqliteWork(self._connection)
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            migrate(work, now=time.time())
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    # ---------------------------------------------------------------------------------------------------------------
    # writing

    async def write(self, op: Callable[[Work], Value]) -> Value:
        """Run ``op`` in a transaction that is on the disk when this returns."""
        return await self._soon(op, hot=False)

    async def _soon(self, op: Callable[[SqliteWork], Value], *, hot: bool = True) -> Value:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Value] = loop.create_future()
        self._put(_Task(op, future, loop, hot=hot))
        return await future

    def write_now(self, op: Callable[[Work], Value]) -> Value:
        """As ``write``, for callers without an event loop."""
        if threading.current_thread() is self._writer:
            raise ArgumentError(
                "op must not call the store again; use the transaction that it was given."
            )
        future: Future[Value] = Future()
        future.set_running_or_notify_cancel()
        self._put(_Task(op, future, None))
        return future.result()

    def _put(self, task: _Task) -> None:
        with self._gate:
            if self._closed:
                raise ArgumentError("store must be open; it was closed.")
            self._queue.put(task)

    def _write_forever(self) -> None:
        waiting = True
        while waiting:
            batch = [self._queue.get()]
            with contextlib.suppress(queue.Empty):
                while len(batch) < _BATCH and batch[-1] is not None:
                    batch.append(self._queue.get_nowait())
            waiting = batch[-1] is not None
            tasks = [task for task in batch if task is not None and not task.future.cancelled()]
            if tasks:
                self._commit(tasks)
                self._tell(tasks)

    def _commit(self, tasks: list[_Task]) -> None:
        """One transaction for all. If it is lost, every operation in it has failed, also those that
        had gone well.
        """
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            work = SqliteWork(self._connection, self._remembered())
            for task in tasks:
                self._run(work, task)
            work.flush()
            self._connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - handed to every caller
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._cursors.clear()
            for task in tasks:
                task.error = task.error or error

    def _remembered(self) -> dict[int, dict[int, int]]:
        """Where searches begin; nowhere in particular after another process has written."""
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:
            self._cursors.clear()
            self._version = version
        return self._cursors

    @staticmethod
    def _run(work: SqliteWork, task: _Task) -> None:
        try:
            with work.savepoint():
                task.result = task.op(work)
                if not task.hot:
                    work.cursors.clear()
        except BaseException as error:
            if (
                not work.connection.in_transaction
            ):  # SQLite gave the whole transaction up: the disk is full, or broken
                raise
            task.error = error

    @staticmethod
    def _tell(tasks: list[_Task]) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[_Task]] = {}
        for task in tasks:
            if task.loop is None:
                task.tell()
            else:
                loops.setdefault(task.loop, []).append(task)
        for loop, group in loops.items():
            with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits
                loop.call_soon_threadsafe(_tell_all, group)

    # ---------------------------------------------------------------------------------------------------------------
    # reading

    async def read(self, op: Callable[[Work], Value]) -> Value:
        """Run ``op`` on one consistent state."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self.read_now, op)

    def read_now(self, op: Callable[[Work], Value]) -> Value:
        """As ``read``, for callers without an event loop."""
        if self._closed:
            raise ArgumentError("store must be open; it was closed.")
        connection = self._free.get()
        try:
            if connection is None:
                connection = connect(self.path, read_only=True)
            connection.execute("BEGIN")
            try:
                return op(SqliteWork(connection))
            finally:
                connection.execute("ROLLBACK")
        finally:
            self._free.put(connection)

    async def read_chained(self, project: int, op: Callable[[Work], Value]) -> Value:
        """As ``read``: every event is chained when it is written."""
        del project
        return await self.read(op)

    def read_chained_now(self, project: int, op: Callable[[Work], Value]) -> Value:
        """As ``read_now``: every event is chained when it is written."""
        del project
        return self.read_now(op)

    # ----------------------------------------------------------------------------------------------------------
    # the hot path

    async def next_question(self, token_hash: str, project: int, *, now: float) -> Asked | None:
        """The question that the person holds, else the next one."""
        return await self._soon(
            functools.partial(hot.next_question, token_hash=token_hash, project=project, now=now)
        )

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
        return await self._soon(
            functools.partial(
                hot.answer,
                token_hash=token_hash,
                project=project,
                question=question,
                key=key,
                value=value,
                shown_at=shown_at,
                client_ms=client_ms,
                now=now,
                want_next=want_next,
            )
        )

    async def amend(
        self, token_hash: str, project: int, *, answer: int, key: str, value: str, now: float
    ) -> Answered:
        """Append a revision."""
        return await self._soon(
            functools.partial(
                hot.amend,
                token_hash=token_hash,
                project=project,
                answer=answer,
                key=key,
                value=value,
                now=now,
            )
        )

    # -------------------------------------------------------------------------------------------------------------
    # the rest

    def chain(self, project: int) -> None:
        """Nothing to do: events are chained when they are written."""

    def backup(self, path: Path) -> None:
        """A copy of the database in one file, checked, while work goes on."""
        source = connect(self.path, read_only=True)
        try:
            copy_database(source, path)
        finally:
            source.close()

    def close(self) -> None:
        """Finish what waits, and close."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._writer.join()
        self._readers.shutdown(wait=True)
        for _ in range(_READERS):
            connection = self._free.get()
            if connection is not None:
                connection.close()
        self._connection.close()


def _tell_all(tasks: list[_Task]) -> None:
    for task in tasks:
        task.tell()
