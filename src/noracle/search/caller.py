"""The one way to a model: a reply that is stored is not paid again, two identical requests at one
time are one call, and every try waits in the queue and stays within the caps.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import json
import logging
import math
import os
import random
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from noracle.errors import NoracleError, require
from noracle.files import replacing
from noracle.search.budget import Budget, CallPrices, Ledger
from noracle.search.model import Completion, Model, ModelError, Request, Usage, at_least
from noracle.search.transcript import ABOUT, Exchange, Transcript

_SELECT = "select digest, model, text, finish, input_tokens, output_tokens from calls"
APPLICATION = 0x6E6F7263  # "norc": tells our files from other databases
VERSION = 1
BUSY_MS = 30_000
_PURGE = "delete from calls where (?1 is null or model = ?1) and (?2 is null or at < ?2)"
_PAID = """
select count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0)
from calls where paid and (?1 is null or model = ?1)
"""
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
    known = {"win32": ("LOCALAPPDATA", "AppData/Local"), "darwin": ("", "Library/Caches")}
    variable, usual = known.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    base = Path(os.environ.get(variable) or Path.home() / usual)
    return base / "noracle" / "calls.sqlite"


class Cache(contextlib.AbstractContextManager["Cache"]):
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
            what = f"The cache {str(where)!r} cannot be opened ({error.strerror})."
            raise CacheError(f"{what} Name another file or pass no cache.") from error
        wait = BUSY_MS / 1000
        opened = sqlite3.connect(where, wait, isolation_level=None, check_same_thread=False)
        cache = cls(where, opened)
        with cache._at_work():
            cache._prepare()
        return cache

    def _prepare(self) -> None:
        """Shape a new file; where several processes do so at once, SQLite may not wait by itself."""
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
        # A killed process loses nothing; a power cut may lose the last calls.
        self._db.execute("pragma synchronous = normal")
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
        count = "select count(*) from sqlite_master"
        facts = (count, "pragma application_id", "pragma user_version")
        with self._db:
            tables, kind, version = (self._db.execute(sql).fetchone()[0] for sql in facts)
        if not tables:
            return True
        if (kind, version) == (APPLICATION, VERSION):
            return False
        foreign, other = "another program's database", "not a cache of this version of noracle"
        what = other if kind == APPLICATION else foreign
        raise CacheError(f"{str(self.path)!r} is {what}. Name another file.")

    def get(self, digest: str) -> Completion | None:
        """The reply to a request, or None."""
        with self._at_work():
            row = self._db.execute(f"{_SELECT} where digest = ?", (digest,)).fetchone()
        return None if row is None else _stored(row)[2]

    def put(self, digest: str, model: str, completion: Completion) -> None:
        """Commit a reply. The first one stays; ``completion.cached`` says that it was not paid for
        here.
        """
        usage = completion.usage
        reply = (completion.text, completion.finish, usage.input_tokens, usage.output_tokens)
        row = (digest, model, *reply, time.time(), not completion.cached)
        with self._at_work():
            self._db.execute("insert or ignore into calls values (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def purge(self, *, model: str | None = None, before: dt.datetime | None = None) -> int:
        """Delete the replies of a model, of a time, of both, or all; returns how many. They are
        overwritten in the file.
        """
        came = "" if before is None or before.tzinfo else before.isoformat()
        require(not came, f"before must carry a time zone; got {came}. Add tzinfo=datetime.UTC.")
        limit = None if before is None else before.timestamp()
        with self._at_work():
            gone = self._db.execute(_PURGE, (model, limit)).rowcount
            self._db.execute("pragma wal_checkpoint(truncate)")
        return int(gone)

    def paid(self, model: str | None = None) -> tuple[int, Usage]:
        """How many of these calls were paid for here, and their tokens; copies from other caches do
        not count.
        """
        with self._at_work():
            calls, *tokens = self._db.execute(_PAID, (model,)).fetchone()
        return int(calls), Usage(*map(int, tokens))

    def __len__(self) -> int:
        with self._at_work():
            return int(self._db.execute("select count(*) from calls").fetchone()[0])

    def rows(self) -> Iterator[tuple[str, str, Completion]]:
        """Digest, model and reply of every row, in the order of the digests."""
        with self._at_work():
            rows = self._db.execute(f"{_SELECT} order by digest").fetchall()
        yield from map(_stored, rows)

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """One thread at a time, and SQLite's errors in our words."""
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                what = f"The cache {str(self.path)!r} fails ({error})."
                raise CacheError(f"{what} Free the disk, or name another file.") from error

    def close(self) -> None:
        """Close the file; closing twice does no harm."""
        self._db.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _stored(row: tuple[Any, ...]) -> tuple[str, str, Completion]:
    """Digest, model and reply out of a row of ``_SELECT``."""
    digest, model, text, finish, *tokens = row
    return digest, model, Completion(text=text, finish=finish, usage=Usage(*tokens), cached=True)


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
    rows = []
    for digest, name, reply in cache.rows():
        if model is None or name == model:
            said = {"text": reply.text, "finish": reply.finish, **dataclasses.asdict(reply.usage)}
            rows.append({"digest": digest, "model": name, **said})
    with replacing(path, durable=True) as part:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        part.write_text(text, encoding="utf-8", newline="\n")
    return len(rows)


CHARACTERS_PER_TOKEN = 4
_FIRST = 3  # calls at one time until there is a first reply: a wrong key is tried no more often
Log = Callable[[Mapping[str, object]], None]
_logger = logging.getLogger("noracle")


def estimate_usage(request: Request, text: str) -> Usage:
    """Tokens guessed from characters (four to one), for servers that do not say."""
    said = sum(len(message.text) for message in request.messages)
    return Usage(*(math.ceil(n / CHARACTERS_PER_TOKEN) for n in (said, len(text))))


@dataclasses.dataclass(slots=True, eq=False)
class _Flight:
    """A call under way and how many wait for it."""

    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[Completion] = dataclasses.field(init=False)
    waiters: int = 0
    sent: bool = False


class Caller(contextlib.AbstractAsyncContextManager["Caller"]):
    """Call one model through stores, caps, queue and retries.

    Parameters
    ----------
    model
        Who answers.
    stores
        Where replies are kept: first the store of the run, then the user's cache. The first that
        has a reply gives it to those before it.
    budget
        Caps; may be shared with other callers. A cap on cost needs a price of this model.
    prices
        Money per token. Without them the cost is unknown, and said to be.
    concurrency
        The most calls at one time.
    retries
        How many more times a call is tried after failures that may pass.
    timeout
        Seconds for one try; less where the budget has fewer left.
    backoff
        Seconds before the second try; each later one waits about twice as long, up to a minute.
        Where the server says how long, that.
    log
        Called once for every call with its digest, outcome, tries, tokens and seconds; never with
        texts.
    reply_tokens
        At least so much room for each reply, for models that think before they answer.
    transcript
        Where every exchange is kept, with its prompt and its reply.

    Examples
    --------
    >>> from noracle.search.backends import ScriptedModel
    >>> from noracle.search.model import Message
    >>> caller = Caller(ScriptedModel(lambda request: request.messages[-1].text.upper()))
    >>> asyncio.run(caller.call(Request(messages=(Message("user", "hello"),)))).text
    'HELLO'
    >>> caller.ledger.calls
    1
    """

    def __init__(
        self,
        model: Model,
        *,
        stores: Sequence[Cache] = (),
        budget: Budget | None = None,
        prices: CallPrices | None = None,
        concurrency: int = 8,
        retries: int = 4,
        timeout: float = 300.0,
        backoff: float = 0.5,
        log: Log | None = None,
        reply_tokens: int | None = None,
        transcript: Transcript | None = None,
    ) -> None:
        at_least(1, concurrency=concurrency, reply_tokens=reply_tokens)
        at_least(0, retries=retries)
        require(timeout > 0, f"timeout must be above 0 seconds; got {timeout}.")
        self.model, self.budget, self.prices = model, budget or Budget(), prices or CallPrices()
        self._reason = self.prices.reason(model.name)
        why = f"{self._reason}. Give its price, or cap calls or tokens"
        fine = not self._reason or self.budget.cost is None
        require(fine, f"cost can be capped only where the price is known; {why}.")
        self._stores = tuple(stores)
        self._concurrency, self._retries, self._log = concurrency, retries, log
        self._transcript, self.reply_tokens = transcript, reply_tokens
        self._timeout, self._backoff = timeout, backoff
        self._flights: dict[str, _Flight] = {}
        self._counts = dict.fromkeys(("calls", "cached", "failed", "retried", "estimated"), 0)
        self._usage, self._failure = Usage(), ""
        self._not_before = 0.0
        self._queue: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None
        self._answered, self._broke = False, -math.inf
        self._jitter = random.SystemRandom()

    @property
    def ledger(self) -> Ledger:
        """What was done and paid so far."""
        paid = self._counts["calls"]
        return Ledger(
            **self._counts,
            usage=self._usage,
            cost=self.prices.cost(self.model.name, self._usage) if paid else 0.0,
            reason=self._reason if paid else "",
            currency=self.prices.currency,
            failure=self._failure,
        )

    def count_past(self, run: Cache) -> None:
        """Count what an earlier part of this run paid, out of its store, in the ledger and against
        the caps.

        Call it once for each model of a run that goes on, before the first call.
        """
        calls, usage = run.paid(self.model.name)
        self._counts["calls"] += calls
        self._usage += usage
        self.budget.add_past(calls, usage, self.prices.cost(self.model.name, usage))

    async def call(self, request: Request) -> Completion:
        """Answer a request; raises :class:`ModelError` after the last try and
        :class:`BudgetReached` at a cap.
        """
        room = max(request.max_tokens, self.reply_tokens or 0)
        if room > request.max_tokens:
            request = dataclasses.replace(request, max_tokens=room)
        digest = request.digest(self.model.name)
        found = self._look(digest, request)
        if found is not None:
            self._counts["cached"] += 1
            self._tell(digest, "cached", 0, found.usage, 0.0)
            return found
        flight = self._flights.get(digest)
        if flight is None or flight.loop is not asyncio.get_running_loop():
            # None, or left over from a loop that was stopped.
            return await self._wait(digest, self._start(digest, request))
        completion = await self._wait(digest, flight)
        self._counts["cached"] += 1
        return dataclasses.replace(completion, cached=True)

    async def close(self, *, grace: float = 10.0) -> None:
        """Wait up to ``grace`` seconds for calls that are out, for they are paid; then close the
        model. The stores stay open.
        """
        out = [flight.task for flight in self._flights.values()]
        if out:
            _, late = await asyncio.wait(out, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self.model.close()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _look(self, digest: str, request: Request) -> Completion | None:
        """The first store that has it fills those before it."""
        for place, store in enumerate(self._stores):
            if (found := store.get(digest)) is not None:
                for earlier in self._stores[:place]:
                    earlier.put(digest, self.model.name, found)
                if place:  # what the first store has is in the transcript already
                    self._keep(digest, request, found, "", 0, 0.0)
                return found
        return None

    def _keep(
        self,
        digest: str,
        request: Request,
        said: Completion | None,
        error: str,
        tries: int,
        seconds: float,
    ) -> None:
        if self._transcript is None:
            return
        whole = dataclasses.asdict(request)
        usage = Usage() if said is None else said.usage
        cost = self.prices.cost(self.model.name, usage)
        self._transcript.add(
            Exchange(
                at=time.time(),
                model=self.model.name,
                digest=digest,
                about=dict(ABOUT.get()),
                messages=tuple(whole.pop("messages")),
                settings={name: value for name, value in whole.items() if value},
                reply=None if said is None else said.text,
                finish="" if said is None else said.finish,
                error=error,
                tries=tries,
                seconds=round(seconds, 3),
                cost=None if math.isnan(cost) else cost,
                cached=said is not None and said.cached,
                **dataclasses.asdict(usage),
            )
        )

    def _start(self, digest: str, request: Request) -> _Flight:
        """Begin a call that outlives the one who asked: what is sent is paid, so it is kept."""

        def landed(task: asyncio.Task[Completion]) -> None:
            if self._flights.get(digest) is flight:
                del self._flights[digest]
            if not task.cancelled():
                task.exception()  # seen, also where nobody waits any more

        self._flights[digest] = flight = _Flight(asyncio.get_running_loop())
        flight.task = flight.loop.create_task(self._pay(digest, request, flight))
        flight.task.add_done_callback(landed)
        return flight

    async def _wait(self, digest: str, flight: _Flight) -> Completion:
        """Wait for a call; where the last one who waits leaves before it is sent, it is never sent."""
        task = flight.task
        flight.waiters += 1
        try:
            await asyncio.wait((task,))
        finally:
            flight.waiters -= 1
            if not flight.waiters and not flight.sent and not task.done():
                self._flights.pop(digest, None)
                task.cancel()
        return task.result()

    async def _pay(self, digest: str, request: Request, flight: _Flight) -> Completion:
        """Try until there is a reply, an error that stays, or no try left; commit the reply."""
        begun, tries = time.monotonic(), 0
        self.budget.check()
        loop = asyncio.get_running_loop()
        if self._queue is None or self._queue[0] is not loop:  # used by one loop after another
            most = self._concurrency if self._answered else min(self._concurrency, _FIRST)
            self._queue = (loop, asyncio.Semaphore(most))
        async with self._queue[1]:
            while True:
                if not tries and self._broke > begun:  # a key or a quota failed while this waited
                    raise ModelError(self._failure)
                if (wait := self._not_before - time.monotonic()) > 0:
                    await asyncio.sleep(min(wait, self.budget.seconds_left))
                try:
                    tries += 1
                    completion = self._counted(request, await self._try(request, flight))
                    break
                except ModelError as error:
                    if error.stays:
                        self._broke = time.monotonic()
                    if error.stays or error.refused or tries > self._retries:
                        self._counts["failed"] += 1
                        self._failure = str(error)
                        seconds = time.monotonic() - begun
                        self._tell(digest, "failed", tries, Usage(), seconds)
                        self._keep(digest, request, None, str(error), tries, seconds)
                        raise
                    _logger.info("call %s: %s (try %d)", digest[:12], error, tries)
                    self._counts["retried"] += 1
                    await self._pause(tries, error.after)
        if not self._answered:
            self._answered = True
            for _ in range(self._concurrency - min(self._concurrency, _FIRST)):
                self._queue[1].release()
        for store in self._stores:
            store.put(digest, self.model.name, completion)
        seconds = time.monotonic() - begun
        self._tell(digest, completion.finish, tries, completion.usage, seconds)
        self._keep(digest, request, completion, "", tries, seconds)
        return completion

    async def _try(self, request: Request, flight: _Flight) -> Completion:
        """One try within the caps; the budget learns what became of it."""
        self.budget.reserve()
        flight.sent, lost, paid = True, True, False
        left = self.budget.seconds_left
        try:
            async with asyncio.timeout(min(self._timeout, left)):
                completion = await self.model.complete(request)
            paid = True
            return completion
        except TimeoutError:
            if left < self._timeout:
                self.budget.check()
            late = f"{self.model.name}: no reply within {self._timeout:g} s."
            raise ModelError(late, transient=True) from None
        except Exception:
            lost = False
            raise
        finally:
            flight.sent = paid
            if not paid:
                self.budget.release(lost=lost)

    def _counted(self, request: Request, completion: Completion) -> Completion:
        """A reply that can be stored, with its tokens in ledger and budget."""
        text = completion.text.encode("utf-8", "replace").decode("utf-8")
        usage = completion.usage
        if usage == Usage():
            usage = estimate_usage(request, text)
            self._counts["estimated"] += 1
        self._counts["calls"] += 1
        self._usage += usage
        self.budget.settle(usage, self.prices.cost(self.model.name, usage))
        return Completion(text=text, finish=completion.finish, usage=usage)

    async def _pause(self, tries: int, after: float | None) -> None:
        """Wait before the next try; a pause that the server asked for holds every other call too."""
        share = 0.5 + 0.5 * self._jitter.random()
        if after is not None:
            self._not_before = max(self._not_before, time.monotonic() + after)
            wait = after + 0.1 * share * min(after, 1.0)
        else:
            wait = share * min(60.0, self._backoff * 2 ** (tries - 1))
        await asyncio.sleep(min(wait, self.budget.seconds_left))

    def _tell(self, digest: str, outcome: str, tries: int, usage: Usage, seconds: float) -> None:
        if self._log is not None:
            how = {"digest": digest, "outcome": outcome, "tries": tries}
            self._log({**how, **dataclasses.asdict(usage), "seconds": round(seconds, 6)})
