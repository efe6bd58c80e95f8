"""Calls that were paid for, in one SQLite file: the cache of a user, and the store of one run.

A row is found by the digest of its request. It holds the model's name, the reply and its tokens: no
prompt and no key. The file is readable by its owner alone. A reply is committed before anybody sees
it, so a process that is killed loses none; several processes may use one file.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from noracle.errors import ArgumentError, NoracleError
from noracle.search.model import Completion, Usage

APPLICATION = 0x6E6F7263  # "norc": tells our files from other databases
VERSION = 1
BUSY_MS = 30_000
_TABLE = """
create table if not exists calls (
    digest text primary key, model text not null, text text not null, finish text not null,
    input_tokens integer not null, output_tokens integer not null, at real not null, paid integer not null
) without rowid
"""


class CacheError(NoracleError):
    """The file of a cache cannot be read or written."""


def default_path() -> Path:
    """``calls.sqlite`` in the folder that ``NORACLE_CACHE`` names (or the ``.sqlite`` file itself),
    else in the user's cache folder.
    """
    named = os.environ.get("NORACLE_CACHE")
    if named:
        path = Path(named).expanduser()
        return path if path.suffix == ".sqlite" else path / "calls.sqlite"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "noracle" / "calls.sqlite"


class Cache:
    """Replies by the digest of their request.

    Examples
    --------
    >>> import tempfile
    >>> from noracle.search.model import Message, Request
    >>> digest = Request(messages=(Message("user", "Hello"),)).digest("m")
    >>> with tempfile.TemporaryDirectory() as folder, Cache.open(Path(folder) / "calls.sqlite") as cache:
    ...     cache.put(digest, "m", Completion(text="Hi", usage=Usage(3, 1)))
    ...     cache.get(digest)
    Completion(text='Hi', finish='stop', usage=Usage(input_tokens=3, output_tokens=1), cached=True)
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: str | Path | None = None) -> Self:
        """Open the file, made where there is none: mode 0600, its folder 0700."""
        where = Path(path) if path is not None else default_path()
        try:
            where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(where, os.O_CREAT | os.O_RDWR, 0o600))
            if where.stat().st_mode & 0o077:
                where.chmod(0o600)
        except OSError as error:
            raise CacheError(
                f"The cache {str(where)!r} cannot be opened ({error.strerror}). Name another file or pass no cache."
            ) from error
        cache = cls(
            where,
            sqlite3.connect(
                where, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False
            ),
        )
        with cache._at_work():
            cache._prepare()
        return cache

    def _prepare(self) -> None:
        """Bring a new file into shape; where several processes do so at once, SQLite may not wait
        by itself.
        """
        until = time.monotonic() + BUSY_MS / 1000
        while True:
            try:
                return self._shape()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    self._db.close()
                    raise
                time.sleep(0.01)
            except (sqlite3.Error, CacheError):
                self._db.close()
                raise

    def _shape(self) -> None:
        """Refuse a file that is not ours; make the table where there is none, in one step."""
        self._db.execute(f"pragma busy_timeout = {BUSY_MS}")
        new = self._is_new()
        self._db.execute("pragma journal_mode = wal")
        self._db.execute(
            "pragma synchronous = normal"
        )  # a killed process loses nothing; a power cut may lose the last calls
        self._db.execute("pragma secure_delete = on")  # what is purged is overwritten
        if new:
            self._db.execute("begin immediate")
            with self._db:  # commits, or takes all of it back
                self._db.execute(_TABLE)
                self._db.execute(f"pragma application_id = {APPLICATION}")
                self._db.execute(f"pragma user_version = {VERSION}")

    def _is_new(self) -> bool:
        """Whether the file is empty; raises where it belongs to others or to another version."""
        self._db.execute("begin")
        with self._db:
            tables = self._db.execute("select count(*) from sqlite_master").fetchone()[0]
            kind, version = (
                self._db.execute(f"pragma {name}").fetchone()[0]
                for name in ("application_id", "user_version")
            )
        if not tables:
            return True
        if kind != APPLICATION:
            raise CacheError(
                f"{str(self.path)!r} is another program's database. Name another file."
            )
        if version != VERSION:
            raise CacheError(
                f"{str(self.path)!r} is not a cache of this version of noracle. Name another file."
            )
        return False

    def get(self, digest: str) -> Completion | None:
        """The reply to a request, or None."""
        with self._at_work():
            row = self._db.execute(
                "select text, finish, input_tokens, output_tokens from calls where digest = ?",
                (digest,),
            ).fetchone()
        return (
            None
            if row is None
            else Completion(text=row[0], finish=row[1], usage=Usage(row[2], row[3]), cached=True)
        )

    def put(self, digest: str, model: str, completion: Completion) -> None:
        """Commit a reply. The first one stays; ``completion.cached`` says that it was not paid for
        here.
        """
        row = (
            digest,
            model,
            completion.text,
            completion.finish,
            completion.usage.input_tokens,
            completion.usage.output_tokens,
        )
        with self._at_work():
            self._db.execute(
                "insert or ignore into calls values (?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, time.time(), not completion.cached),
            )

    def purge(self, *, model: str | None = None, before: dt.datetime | None = None) -> int:
        """Delete the replies of a model, of a time, of both, or all; returns how many. They are
        overwritten in the file.
        """
        if before is not None and before.tzinfo is None:
            raise ArgumentError(
                f"before must carry a time zone; got {before.isoformat()}. Add tzinfo=datetime.UTC."
            )
        limit = None if before is None else before.timestamp()
        with self._at_work():
            gone = self._db.execute(
                "delete from calls where (?1 is null or model = ?1) and (?2 is null or at < ?2)",
                (model, limit),
            ).rowcount
            self._db.execute("pragma wal_checkpoint(truncate)")
        return int(gone)

    def paid(self, model: str | None = None) -> tuple[int, Usage]:
        """How many of these calls were paid for here, and their tokens; copies from other caches do
        not count.
        """
        with self._at_work():
            row = self._db.execute(
                "select count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0) from calls"
                " where paid and (?1 is null or model = ?1)",
                (model,),
            ).fetchone()
        return int(row[0]), Usage(int(row[1]), int(row[2]))

    def __len__(self) -> int:
        with self._at_work():
            return int(self._db.execute("select count(*) from calls").fetchone()[0])

    def rows(self) -> Iterator[tuple[str, str, Completion]]:
        """Digest, model and reply of every row, in the order of the digests."""
        with self._at_work():
            rows = self._db.execute(
                "select digest, model, text, finish, input_tokens, output_tokens from calls order by digest"
            ).fetchall()
        for digest, model, text, finish, ins, outs in rows:
            yield (
                digest,
                model,
                Completion(text=text, finish=finish, usage=Usage(ins, outs), cached=True),
            )

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """One thread at a time, and SQLite's errors in our words."""
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise CacheError(
                    f"The cache {str(self.path)!r} fails ({error}). Free the disk, or name another file."
                ) from error

    def close(self) -> None:
        """Close the file; closing twice does no harm."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def record(cache: Cache, path: str | Path, *, model: str | None = None) -> int:
    """Write the replies of a cache as a recording for
    :class:`~noracle.search.backends.ReplayModel`; returns how many.

    One JSON object a line: digest, model, text, finish, input_tokens, output_tokens; sorted by
    digest, without times, so that one run gives one file. ``model`` keeps the replies of one model.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Cache.open(Path(folder) / "calls.sqlite") as cache:
    ...     cache.put("1f" * 32, "m", Completion(text="Hi", usage=Usage(3, 1)))
    ...     record(cache, Path(folder) / "calls.jsonl")
    1
    """
    target = Path(path)
    lines = [
        json.dumps(
            {
                "digest": digest,
                "model": name,
                "text": reply.text,
                "finish": reply.finish,
                "input_tokens": reply.usage.input_tokens,
                "output_tokens": reply.usage.output_tokens,
            },
            ensure_ascii=False,
        )
        for digest, name, reply in cache.rows()
        if model is None or name == model
    ]
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    draft.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
    draft.replace(target)
    return len(lines)
