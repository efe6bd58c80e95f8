"""What both databases offer.

Everything that happens is a function of a :class:`Work`, a transaction: ``store.write(op)`` commits
what it did, ``store.read(op)`` sees one consistent state. SQL is written once, with ``:name`` for
values; both databases know the rest that we use (RETURNING, ON CONFLICT). The two transactions of
every click, ``next_question`` and ``answer``, are methods of the store, because each database has
its own fast way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from noracle.collect.model import Answered, Asked

Row = Mapping[str, Any]
Value = TypeVar("Value")


class Work(Protocol):
    """One transaction."""

    dialect: Literal["sqlite", "postgresql"]

    def all(self, sql: str, /, **values: object) -> list[Row]:
        """All rows."""

    def one(self, sql: str, /, **values: object) -> Row | None:
        """The first row, or None."""

    def run(self, sql: str, /, **values: object) -> int:
        """Number of rows that changed."""

    def many(self, sql: str, rows: Iterable[Mapping[str, object]], /) -> None:
        """The same statement for many rows."""

    def log(
        self, project: int, kind: str, payload: Mapping[str, object], *, actor: str, at: float
    ) -> None:
        """Append an event; it is chained before anybody can export it."""


class Store(Protocol):
    """A database that is open."""

    url: str

    async def write(self, op: Callable[[Work], Value]) -> Value:
        """Run ``op`` in a transaction that is on the disk when this returns."""

    async def read(self, op: Callable[[Work], Value]) -> Value:
        """Run ``op`` on one consistent state."""

    def write_now(self, op: Callable[[Work], Value]) -> Value:
        """As ``write``, for callers without an event loop."""

    def read_now(self, op: Callable[[Work], Value]) -> Value:
        """As ``read``, for callers without an event loop."""

    async def read_chained(self, project: int, op: Callable[[Work], Value]) -> Value:
        """As ``read``, on a state in which every event of the project is chained; for exports."""

    def read_chained_now(self, project: int, op: Callable[[Work], Value]) -> Value:
        """As ``read_chained``, for callers without an event loop."""

    async def next_question(self, token_hash: str, project: int, *, now: float) -> Asked | None:
        """The question that this session's person holds, else the next one of their pools; None if
        there is none now.
        """

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
        """Keep the first answer to a question that the person holds; a repeated key gives the same
        answer again.
        """

    async def amend(
        self, token_hash: str, project: int, *, answer: int, key: str, value: str, now: float
    ) -> Answered:
        """Append a revision of the person's own last answer."""

    def chain(self, project: int) -> None:
        """Chain the events that are not chained yet."""

    def backup(self, path: Path) -> None:
        """A consistent copy while work goes on (SQLite: a database file; PostgreSQL: an archive
        that ``restore`` reads).
        """

    def close(self) -> None:
        """Finish what waits, and close."""
