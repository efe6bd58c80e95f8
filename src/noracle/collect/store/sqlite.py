"""SQLite: one writer thread with group commit, a few readers.

The writer takes all operations that wait, runs each in a savepoint, commits once, and only then
tells the callers: what was acknowledged is on the disk (write-ahead log, ``synchronous=FULL``).
Several writers on one file are slower than one, and their slowest calls far slower.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import queue
import secrets
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from noracle.collect import errors, model
from noracle.collect.chain import STEPPED, Clamped, ClockStep, clamped, event_hash
from noracle.collect.errors import Conflict, NotFound, Refused, Unavailable
from noracle.collect.model import Amended, Answered, Given, HeldQuestion, ProjectSpec, fits
from noracle.collect.store.base import CLOSED, SQL, Dialect, Payload, Store, Value, Work, migrate
from noracle.errors import ArgumentError, require
from noracle.files import canonical

REASK_STEP = 1000
"""A question that is put again has the draw of the first plus this number, once for each time."""

MESSAGES = {
    "project": "There is no such project among yours.",
    "role": "Only annotators are asked questions.",
    "state": "The project is not open.",
    "question": "There is no such question in this project.",
    "lease": "This question is not yours now: its time ran out, or it was answered.",
    "key": "This form was sent before with another answer; the first one counts.",
    "last": "Only your last answer can be amended.",
    "value": "That is no answer to this question.",
    "form": "A form has a key of 1 to 100 characters and times that are true.",
}
_LONGEST = 10_000  # of an answer: "unsure|" for a thousand classes is shorter
_READERS, _BATCH = 4, 256
_SAFE = ("full", "extra")
# Of each connection; what is deleted, such as a name to be forgotten, is overwritten.
_ON = ("fullfsync", "checkpoint_fullfsync", "foreign_keys", "secure_delete")
_SETTINGS = (*(f"{name} = 1" for name in _ON), "trusted_schema = 0", "cache_size = -16000")
Connection = sqlite3.Connection
Cursors = dict[int, dict[int, int]]


class SqliteWork(Work):
    """One transaction; ``cursors``: by project and person, no open question below is for them."""

    dialect: Dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection, cursors: Cursors | None = None) -> None:
        self.connection = connection
        self.heads: dict[int, tuple[int, str, float]] = {}
        self._pending: set[int] = set()
        self.cursors = {} if cursors is None else cursors

    def _execute(self, sql: str, values: Mapping[str, object]) -> sqlite3.Cursor:
        if self._pending:
            self.flush()
        return self.connection.execute(sql, values)

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

    def log(self, project: int, kind: str, payload: Payload, *, actor: str, at: float) -> float:
        """Append an event to the chain."""
        at = self.append(project, kind, payload, actor=actor, at=at)
        self.flush()
        return at

    def append(self, project: int, kind: str, payload: Payload, *, actor: str, at: float) -> float:
        """As ``log``; the head in the project's row follows later in the transaction."""
        if project not in self.heads:
            found = self.connection.execute(SQL.hot_chain, (project,)).fetchone()
            require(found, f"project must be the number of a project; got {project}.")
            self.heads[project] = found
        last = self.heads[project][2]
        at, stepped = clamp(self, project, at, last)
        if stepped is not None:
            self._link(project, STEPPED, stepped, actor="system", at=at)
        self._link(project, kind, payload, actor=actor, at=at)
        return at

    def _link(self, project: int, kind: str, payload: Payload, *, actor: str, at: float) -> None:
        last, prev, _ = self.heads[project]
        seq, text = last + 1, canonical(payload)
        head = event_hash(prev, seq=seq, at=at, actor=actor, kind=kind, payload=text)
        row = (project, float(at), actor, kind, text, seq, prev, head)
        self.connection.execute(SQL.hot_event, row)
        self.heads[project] = (seq, head, float(at))
        self._pending.add(project)

    def flush(self) -> None:
        """Write the heads of the chains that grew."""
        for project in self._pending:
            self.connection.execute(SQL.hot_head, (project, *self.heads[project][:2]))
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


def clamp(
    work: Work, project: int, at: float, last: float, step: ClockStep | None = None
) -> Clamped:
    """:func:`clamped` in a project; a step that was chained is looked up where it matters."""
    found = clamped(at, last, step)
    if found[1] is None or (row := work.one(SQL.last_step, project=project)) is None:
        return found
    return clamped(at, last, ClockStep(row["at"], json.loads(row["payload"])["to"]))


def connect(path: Path, *, synchronous: str = "full", read_only: bool = False) -> Connection:
    """A connection with the settings that the promises rest on."""
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=512, timeout=30.0
    )
    _write_ahead(connection)
    for setting in (f"synchronous = {synchronous}", *_SETTINGS, f"query_only = {read_only:d}"):
        connection.execute(f"PRAGMA {setting}").fetchone()
    return connection


def _write_ahead(connection: sqlite3.Connection, *, seconds: float = 30.0) -> None:
    """Turn on the log. SQLite does not wait for others here: servers that start together would."""
    last = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > last:
                connection.close()
                raise
            time.sleep(0.01)


class _Asker(NamedTuple):
    person: int
    alias: str
    state: str
    spec: ProjectSpec
    project: int


@functools.lru_cache(maxsize=4096)
def _numbers(text: str) -> tuple[int, ...]:
    return tuple(json.loads(text))


def new_key() -> str:
    """The key of one rendered question: 144 random bits."""
    return secrets.token_urlsafe(18)


def asked(project: int, row: Sequence[Any], until: float, key: str, done: int) -> HeldQuestion:
    """The row (question, item, shown, lease, content, options) as its person may see it."""
    question, item, shown, lease, text, order = row[:6]
    content = json.loads(text)
    content.pop("attention", None)  # that an item tests their attention is not for their eyes
    if "answers" in content:  # nor whose answer it is
        replies, number = model.replies_in(content), _numbers(shown)[0]
        content["reply"] = number if number in replies else replies[number]
        del content["answers"]
    options, classes = None if order is None else _numbers(order), _numbers(shown)
    return HeldQuestion(question, project, item, content, options, classes, lease, until, done, key)


def form_of(spec: ProjectSpec) -> str:
    """The protocol whose answers have the same form, by which PostgreSQL tells whether one fits."""
    return "partitioned" if spec.protocol == "grade" else spec.protocol


def check_form(
    key: str, value: str, *times: float, question: int = 1, client_ms: int | None = None
) -> None:
    """Refuse what no form of ours sends, before a database sees it."""
    short = 1 <= len(key) <= 100 and key.isascii()
    Refused.unless(short and all(0 <= at < 1e12 for at in times), MESSAGES["form"])
    plain = len(value) <= _LONGEST and value.isascii() and "\0" not in key + value
    Refused.unless(plain, MESSAGES["value"])
    NotFound.unless(0 < question < 2**63, MESSAGES["question"])
    Refused.unless(client_ms is None or 0 <= client_ms < 2**53, MESSAGES["form"])


def _enter(work: SqliteWork, token_hash: str, project: int, now: float) -> _Asker:
    """Who asks; refuses everybody who is no annotator of the project."""
    row = work.connection.execute(SQL.hot_gate, (token_hash, now, project)).fetchone()
    person, role, alias, state, spec = errors.SignedOut.given(row)
    NotFound.unless(role is not None, MESSAGES["project"])
    errors.Forbidden.unless(role == "annotator", MESSAGES["role"])
    return _Asker(person, alias, state, model.read_spec(spec), project)


def next_question(work: SqliteWork, token: str, project: int, now: float) -> HeldQuestion | None:
    """The question that the person holds, else the next one."""
    who = _enter(work, token, project, now)
    Conflict.unless(who.state == "open", MESSAGES["state"])
    return _serve(work, who, now)


def _serve(work: SqliteWork, who: _Asker, now: float) -> HeldQuestion | None:
    run, project = work.connection.execute, who.project
    _return_late(work, project, now)
    done = run(SQL.hot_done, (project, who.person)).fetchone()[0]
    row = run(SQL.hot_held, (project, who.person)).fetchone()
    if row is not None:
        return asked(project, row, row[6], row[7], done)
    row = _pick(work, project, who.person)
    if row is None:
        return None
    row = (*row[:3], row[3] + 1, *row[4:])
    until, key = now + who.spec.lease_seconds, new_key()
    run(SQL.hot_lease, (row[0], who.person, row[3], now, until, key))
    return asked(project, row, until, key, done)


def _pick(work: SqliteWork, project: int, person: int) -> tuple[Any, ...] | None:
    """The first open question, from where the person's last search found one: earlier is none."""
    places, run = work.cursors.setdefault(project, {}), work.connection.execute
    start = places.get(person, 0)
    row: tuple[Any, ...] | None = run(SQL.hot_pick, (project, person, start)).fetchone()
    if row is None and start:
        row = run(SQL.hot_pick, (project, person, 0)).fetchone()
    if row is not None:
        places[person] = row[6]
    return row


def _reopened(work: SqliteWork, project: int, place: int) -> None:
    """A question is open again at this place: nobody's search may begin behind it."""
    places = work.cursors.get(project, {})
    places.update((person, place) for person, start in places.items() if start > place)


def _return_late(work: SqliteWork, project: int, now: float) -> None:
    """Put questions whose lease ran out back to their place."""
    run = work.connection.execute
    late = run(SQL.hot_late, (project, now)).fetchall()
    for question, item, person, place, lease, begun, until, alias in late:
        if until > now:  # it was given before the clock stepped back
            run(SQL.hot_again, (question, now, now + until - begun))
            continue
        run(SQL.hot_return, (question,))
        _reopened(work, project, place)
        if alias is None:  # to be asked again: the answer before it is final now
            continue
        run(SQL.hot_hold, (item, person, question))
        payload = {"lease": lease, "place": place, "question": question, "until": until}
        work.append(project, "lease-expired", payload, actor=alias, at=now)


def answer(work: SqliteWork, token_hash: str, project: int, **given: Unpack[Given]) -> Answered:
    """Keep the answer to a question that the person holds; see ``service.answers`` for undoing."""
    question, key, now = given["question"], given["key"], given["now"]
    times = (given["shown_at"], now)
    check_form(key, given["value"], *times, question=question, client_ms=given["client_ms"])
    who = _enter(work, token_hash, project, now)
    kept = _again(work, who, key, given["value"], question) or _keep(work, who, given)
    if given["want_next"] and who.state == "open":
        return dataclasses.replace(kept, next=_serve(work, who, now))
    return kept


def _again(work: SqliteWork, who: _Asker, key: str, value: str, question: int) -> Answered | None:
    """The answer that this key gave before."""
    row = work.connection.execute(SQL.hot_by_key, (who.project, key)).fetchone()
    if row is None:
        return None
    answer, asked, revision, person, said = row
    same = (person, said, asked) == (who.person, value, question)
    Conflict.unless(same, MESSAGES["key"])
    return Answered(answer=answer, question=question, revision=revision, again=True)


def _keep(work: SqliteWork, who: _Asker, given: Given) -> Answered:
    run, project, now = work.connection.execute, who.project, given["now"]
    Conflict.unless(who.state == "open", MESSAGES["state"])
    row = run(SQL.hot_question, (given["question"], project)).fetchone()
    row = NotFound.given(row, MESSAGES["question"])
    item, place, draw, kind, pool, shown, propensity, status, person, key, leased_at, undone = row
    held = (status, person, key) == (1, who.person, given["key"])
    Conflict.unless(held, MESSAGES["lease"])
    Refused.unless(fits(who.spec, _numbers(shown), given["value"]), MESSAGES["value"])
    given = {**given, "shown_at": min(max(given["shown_at"], leased_at), now)}
    kept = _add_answer(work, who, place, undone, undone, **given)
    run(SQL.hot_answered, (given["question"],))
    # Nothing was decided: "unsure", or "unsure" about every class shown.
    again = set(given["value"].split("|")) == {"unsure"} and kind in ("main", "reask")
    if again and draw // REASK_STEP < who.spec.reasks:
        asked = (project, item, place, draw + REASK_STEP, pool, shown, propensity)
        # Leased to nobody until this is final.
        run(SQL.hot_reask, (*asked, now + model.UNDO_SECONDS))
    return kept


def amend(work: SqliteWork, token: str, project: int, **given: Unpack[Amended]) -> Answered:
    """Append a revision of the person's last answer."""
    answer, key, value, now = given["answer"], given["key"], given["value"], given["now"]
    check_form(key, value, now, question=answer)
    who = _enter(work, token, project, now)
    run = work.connection.execute
    mine = run(SQL.hot_mine, (answer, project, who.person)).fetchone()
    mine = NotFound.given(mine, MESSAGES["question"])
    if (before := _again(work, who, key, value, mine[0])) is not None:
        return before
    Conflict.unless(who.state == "open", MESSAGES["state"])
    last = run(SQL.hot_last, (project, who.person)).fetchone()
    if last is None or last[0] != mine[0]:
        raise Conflict(MESSAGES["last"])
    question, shown_at, place, shown, revision, undone = last
    Refused.unless(fits(who.spec, _numbers(shown), value), MESSAGES["value"])
    sent: Any = {"question": question, "key": key, "value": value, "client_ms": None}
    return _add_answer(work, who, place, revision + 1, undone, shown_at=shown_at, now=now, **sent)


def _add_answer(
    work: SqliteWork, who: _Asker, place: int, revision: int, undone: int, **given: Unpack[Given]
) -> Answered:
    question, value, shown_at = given["question"], given["value"], given["shown_at"]
    now, client_ms, key = given["now"], given["client_ms"], given["key"]
    row = (who.project, question, revision, who.person, value, shown_at, now, client_ms, key)
    number = work.connection.execute(SQL.hot_answer, (*row, undone)).fetchone()[0]
    payload = {"answer": number, "question": question, "place": place, "revision": revision}
    payload |= {"value": value, "shown_at": shown_at, "received_at": now}
    kind = "answer" if revision == undone else "amended"
    work.append(who.project, kind, payload, actor=who.alias, at=now)
    return Answered(answer=number, question=question, revision=revision, again=False)


def make_private(path: Path) -> None:
    """Create the file for its owner alone; the log beside it gets the same mode."""
    require(path.parent.is_dir(), f"url must name a file in a folder that exists; got {path}.")
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)


def copy_database(source: sqlite3.Connection, path: Path) -> None:
    """Copy an open database to a new file: written under another name, checked, then renamed."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    make_private(part)
    copy = sqlite3.connect(part, isolation_level=None)
    try:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE").fetchone()
        copy.execute("PRAGMA synchronous = FULL")
        found = copy.execute("PRAGMA integrity_check").fetchone()[0]
        require(found == "ok", f"database must be whole; SQLite found: {found}.")
    except BaseException:
        copy.close()
        part.unlink(missing_ok=True)
        raise
    copy.close()
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    part.replace(path)


def restore(path: Path, target: Path) -> None:
    """Put a copy of a backup where no database is yet."""
    require(not target.exists(), f"url must name a file that does not exist yet; got {target}.")
    rule = "path must name a backup of a collection database"
    names = "SELECT name FROM sqlite_master WHERE name IN ('schema_version', 'project', 'answer')"
    source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    with contextlib.closing(source):
        try:
            require(len(source.execute(names).fetchall()) == 3, f"{rule}; got {path}.")
            copy_database(source, target)
        except sqlite3.DatabaseError as error:
            raise ArgumentError(f"{rule}; got {path} ({error}).") from None


_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_TROUBLE = {
    sqlite3.SQLITE_FULL: "The disk is full: nothing can be kept until there is room.",
    sqlite3.SQLITE_IOERR: "The disk cannot be read or written.",
    sqlite3.SQLITE_CANTOPEN: "The database file cannot be opened.",
}
_LEAST_ROOM = 1 << 20


def told(error: BaseException, path: Path) -> BaseException:
    """What is wrong with the disk or the file, in words and with the remedy; else the error."""
    code = getattr(error, "sqlite_errorcode", None) if isinstance(error, sqlite3.Error) else None
    if code is None:
        return error
    if code & 0xFF in _DAMAGED:
        rule = f"the database must be whole; SQLite says of {path}: {error}"
        return errors.Damaged(f"{rule}. Restore a copy: noracle collect restore BACKUP --db NEW")
    words = _TROUBLE.get(code & 0xFF)
    return error if words is None else Unavailable(words, wait=30.0)


class _Task(NamedTuple):
    """An operation that waits for the writer; ``hot`` ones keep the cursors of the hot path."""

    op: Callable[[Any], Any]
    future: Future[Any]
    hot: bool


class SqliteStore(Store):
    """A database file. See :class:`noracle.collect.store.base.Store`."""

    def __init__(self, path: Path, *, synchronous: str = "full", unsafe: bool = False) -> None:
        known = synchronous in (*_SAFE, "normal", "off")
        require(known, f"synchronous must be full, extra, normal or off; got {synchronous!r}.")
        rule = f"synchronous must be full, or answers are lost at a power cut; got {synchronous!r}"
        require(unsafe or synchronous in _SAFE, f"{rule}. Pass unsafe=True to accept that.")
        self.path = path = path.absolute()
        self.url = f"sqlite:///{path}"
        make_private(path)
        try:
            self._connection = connect(path, synchronous=synchronous)
        except sqlite3.Error as error:
            raise told(error, path) from error
        try:
            mode = self._connection.execute("PRAGMA journal_mode").fetchone()[0]
            rule = f"url must name a file on a disk that can hold a write-ahead log; got {path}"
            require(unsafe or mode == "wal", f"{rule}. Pass unsafe=True to accept less.")
            self._connection.execute("BEGIN IMMEDIATE")
            migrate(SqliteWork(self._connection), now=time.time())
            self._connection.execute("COMMIT")
        except BaseException as error:
            self._connection.close()  # undoes what was begun
            if (plain := told(error, path)) is not error:
                raise plain from error
            raise
        self._cursors: Cursors = {}
        self._version = -1
        self._queue: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._free: queue.LifoQueue[sqlite3.Connection | None] = queue.LifoQueue()
        for _ in range(_READERS):
            self._free.put(None)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="noracle-read")
        self._closed = False
        self._trouble = ""
        self._gate = threading.Lock()
        name = "noracle-write"
        self._writer = threading.Thread(target=self._write_forever, name=name, daemon=True)
        self._writer.start()

    def write_now(self, op: Callable[[Work], Value]) -> Value:
        """As ``write``, for callers without an event loop."""
        rule = "op must not call the store again; use the transaction that it was given."
        require(threading.current_thread() is not self._writer, rule)
        return self._put(op).result()

    _next = staticmethod(next_question)
    _answer = staticmethod(answer)
    _amend = staticmethod(amend)

    def _soon(self, hot: Callable[..., Value], *sent: object, **given: object) -> Future[Value]:
        return self._put(lambda work: hot(work, *sent, **given), hot=True)

    def _put(self, op: Callable[[Any], Value], *, hot: bool = False) -> Future[Value]:
        future: Future[Value] = Future()
        with self._gate:
            require(not self._closed, CLOSED)
            self._queue.put(_Task(op, future, hot))
        return future

    def _write_forever(self) -> None:
        waiting = True
        while waiting:
            batch = [self._queue.get()]
            with contextlib.suppress(queue.Empty):
                while len(batch) < _BATCH and batch[-1] is not None:
                    batch.append(self._queue.get_nowait())
            waiting = batch[-1] is not None
            tasks = [t for t in batch if t is not None and t.future.set_running_or_notify_cancel()]
            if tasks:
                for task, (result, error) in zip(tasks, self._commit(tasks), strict=True):
                    if error is not None:
                        error = told(error, self.path)
                        self._trouble = str(error) if isinstance(error, Unavailable) else ""
                        task.future.set_exception(error)
                    else:
                        task.future.set_result(result)

    def _commit(self, tasks: list[_Task]) -> list[tuple[Any, BaseException | None]]:
        """One transaction for all: if it is lost, those that had gone well have failed too."""
        done: list[tuple[Any, BaseException | None]] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            version = self._connection.execute("PRAGMA data_version").fetchone()[0]
            if version != self._version:  # another process has written: cursors say nothing
                self._cursors.clear()
                self._version = version
            work = SqliteWork(self._connection, self._cursors)
            done.extend(self._run(work, task) for task in tasks)
            work.flush()
            self._connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - handed to every caller
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._cursors.clear()
            done += [(None, error)] * (len(tasks) - len(done))
            return [(None, own or error) for _, own in done]
        return done

    @staticmethod
    def _run(work: SqliteWork, task: _Task) -> tuple[Any, BaseException | None]:
        try:
            with work.savepoint():
                result = task.op(work)
                if not task.hot:
                    work.cursors.clear()
        except BaseException as error:
            if not work.connection.in_transaction:
                raise  # SQLite gave the whole transaction up: the disk is full, or broken
            return None, error
        return result, None

    def check(self) -> None:
        """Refuse a file that is damaged; reads all of it."""
        found = self.read_now(lambda work: work.one("PRAGMA quick_check(1)"))
        words = "nothing" if found is None else str(found["quick_check"])
        rule = f"the database must be whole; SQLite says of {self.path}: {words}"
        remedy = "Restore a copy: noracle collect restore BACKUP --db NEW"
        errors.Damaged.unless(words == "ok", f"{rule}. {remedy}")

    def health_now(self) -> str:
        """What keeps the store from writing, in words; empty if nothing does."""
        if shutil.disk_usage(self.path.parent).free < _LEAST_ROOM:
            return _TROUBLE[sqlite3.SQLITE_FULL]
        return super().health_now()

    def read_now(self, op: Callable[[Work], Value]) -> Value:
        """Run ``op`` on one consistent state."""
        require(not self._closed, CLOSED)
        connection = self._free.get()
        try:
            connection = connection or connect(self.path, read_only=True)
            connection.execute("BEGIN")
            try:
                return op(SqliteWork(connection))
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            if (plain := told(error, self.path)) is not error:
                raise plain from error
            raise
        finally:
            self._free.put(connection)

    def backup(self, path: Path) -> None:
        """A copy of the database in one file, checked, while work goes on."""
        with contextlib.closing(connect(self.path, read_only=True)) as source:
            copy_database(source, path)

    def scrub(self) -> None:
        """Empty the log, which still has the pages as they were (the file itself was overwritten)."""
        with contextlib.closing(connect(self.path)) as connection:
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        remedy = "Try again, or restart the server: it empties the log when it ends."
        require(not busy, f"the log must be free to be emptied; others read it. {remedy}")

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
            if (connection := self._free.get()) is not None:
                connection.close()
        self._connection.close()
