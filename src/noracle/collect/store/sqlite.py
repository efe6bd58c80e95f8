"""SQLite: one writer thread with group commit, a few readers.

The writer takes all operations that wait, runs each in a savepoint, commits once, and only then
tells the callers: what was acknowledged is on the disk (write-ahead log, ``synchronous=FULL``).
Several writers on one file are slower than one, and their slowest calls far slower.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast

from noracle.collect.chain import canonical, event_hash
from noracle.collect.errors import Conflict, Forbidden, NotFound, Refused, SignedOut
from noracle.collect.model import Answered, Asked, ProjectSpec
from noracle.collect.store.base import Row, Work, migrate
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


# The transactions of
# every click, for SQLite; PostgreSQL has the same rules in
# ``migrations/0002_guards.postgresql.sql``.


REASK_STEP = 1000
"""A question that is put again has the draw of the first one plus this number, once for each time.
"""

VERDICTS = frozenset(("yes", "no", "unsure"))

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

_GATE = """
SELECT p.id, m.role, m.alias, j.state, j.spec FROM session s JOIN person p ON p.id = s.person_id
LEFT JOIN project j ON j.id = ?3 LEFT JOIN membership m ON m.project_id = j.id AND m.person_id = p.id
WHERE s.token_hash = ?1 AND s.expires_at > ?2 AND p.active = 1"""

_HELD = """
SELECT q.id, q.item_id, q.shown, q.lease, i.content, i.options, q.lease_until, q.key FROM question q JOIN item i ON i.id = q.item_id
WHERE q.project_id = ?1 AND q.person_id = ?2 AND q.status = 1"""

_PICK = """
SELECT q.id, q.item_id, q.shown, q.lease, i.content, i.options, q.place FROM pool_member m
JOIN question q ON q.id = (
    SELECT o.id FROM question o WHERE o.project_id = m.project_id AND o.pool = m.pool AND o.status = 0 AND o.place >= ?3
    AND NOT EXISTS (SELECT 1 FROM question d WHERE d.item_id = o.item_id AND d.person_id = m.person_id)
    AND NOT EXISTS (SELECT 1 FROM held h WHERE h.item_id = o.item_id AND h.person_id = m.person_id AND h.question_id <> o.id)
    ORDER BY o.place LIMIT 1)
JOIN item i ON i.id = q.item_id
WHERE m.project_id = ?1 AND m.person_id = ?2 ORDER BY q.place LIMIT 1"""

_LATE = """
SELECT q.id, q.item_id, q.person_id, q.place, q.lease, q.lease_until, m.alias FROM question q
JOIN membership m ON m.project_id = q.project_id AND m.person_id = q.person_id
WHERE q.project_id = ?1 AND q.status = 1 AND q.lease_until <= ?2 ORDER BY q.lease_until, q.id"""

_LEASE = "UPDATE question SET status = 1, person_id = ?2, lease = ?3, leased_at = ?4, lease_until = ?5, key = ?6 WHERE id = ?1"
_DONE = "SELECT COUNT(*) FROM answer WHERE project_id = ?1 AND person_id = ?2 AND revision = 0"
_BY_KEY = "SELECT id, question_id, revision, person_id, value FROM answer WHERE project_id = ?1 AND key = ?2"
_QUESTION = """
SELECT item_id, place, draw, kind, pool, shown, propensity, status, person_id, key, leased_at FROM question
WHERE id = ?1 AND project_id = ?2"""
_ANSWER = """
INSERT INTO answer (project_id, question_id, revision, person_id, value, shown_at, received_at, client_ms, key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) RETURNING id"""
_REASK = """
INSERT INTO question (project_id, item_id, place, draw, kind, pool, shown, propensity) VALUES (?1, ?2, ?3, ?4, 'reask', ?5, ?6, ?7)"""
_LAST = """
SELECT a.question_id, a.shown_at, q.place, q.shown, (SELECT MAX(r.revision) FROM answer r WHERE r.question_id = a.question_id)
FROM answer a JOIN question q ON q.id = a.question_id
WHERE a.project_id = ?1 AND a.person_id = ?2 AND a.revision = 0 ORDER BY a.id DESC LIMIT 1"""


class Gate(NamedTuple):
    """Who asks, and where."""

    person: int
    alias: str
    state: str
    spec: ProjectSpec


@functools.lru_cache(maxsize=256)
def read_spec(text: str) -> ProjectSpec:
    """The specification out of its column; remembered, because it is needed at every click."""
    return ProjectSpec.from_dict(json.loads(text))


@functools.lru_cache(maxsize=4096)
def _numbers(text: str) -> tuple[int, ...]:
    return tuple(json.loads(text))


def fits(spec: ProjectSpec, shown: Sequence[int], value: str) -> bool:
    """Whether ``value`` is an answer to a question that shows these classes.

    Examples
    --------
    >>> spec = ProjectSpec.from_dict({"protocol": "judge-all", "classes": ["a", "b", "c"], "shown": 2})
    >>> fits(spec, (2, 0), "no|unsure"), fits(spec, (2, 0), "no")
    (True, False)
    """
    if spec.protocol == "partitioned":
        return value in VERDICTS
    if spec.protocol == "judge-all":
        parts = value.split("|")
        return len(parts) == len(shown) and VERDICTS.issuperset(parts)
    return (
        value == "unsure"
        or value in map(str, shown)
        or (spec.protocol == "pick-wrong" and spec.trap and value == "none")
    )


def is_unsure(value: str) -> bool:
    """Whether nothing was decided: "unsure", or "unsure" about every class shown."""
    return set(value.split("|")) == {"unsure"}


def new_key() -> str:
    """The key of one rendered question: 144 random bits."""
    return secrets.token_urlsafe(18)


def asked(project: int, row: Sequence[Any], until: float, key: str, done: int) -> Asked:
    """The row (question, item, shown, lease, content, options) as its person may see it."""
    question, item, shown, lease, text, options = row[:6]
    content = json.loads(text)
    content.pop("attention", None)  # that an item tests their attention is not for their eyes
    return Asked(
        question=question,
        project=project,
        item=item,
        content=content,
        options=None if options is None else _numbers(options),
        shown=_numbers(shown),
        lease=lease,
        lease_until=until,
        done=done,
        key=key,
    )


def check_form(
    key: str, value: str, *times: float, question: int = 1, client_ms: int | None = None
) -> None:
    """Refuse what no form of ours sends, before a database sees it."""
    if not 1 <= len(key) <= 100 or not key.isascii() or not all(0 <= at < 1e12 for at in times):
        raise Refused(MESSAGES["form"])
    if len(value) > _LONGEST or not value.isascii() or "\0" in key + value:
        raise Refused(MESSAGES["value"])
    if not 0 < question < 2**63:
        raise NotFound(MESSAGES["question"])
    if client_ms is not None and not 0 <= client_ms < 2**53:
        raise Refused(MESSAGES["form"])


def enter(work: SqliteWork, token_hash: str, project: int, now: float) -> Gate:
    """Who asks; refuses everybody who is no annotator of the project."""
    row = work.connection.execute(_GATE, (token_hash, now, project)).fetchone()
    if row is None:
        raise SignedOut
    if row[1] is None:
        raise NotFound(MESSAGES["project"])
    if row[1] != "annotator":
        raise Forbidden(MESSAGES["role"])
    return Gate(row[0], row[2], row[3], read_spec(row[4]))


def next_question(work: SqliteWork, token_hash: str, project: int, *, now: float) -> Asked | None:
    """The question that the person holds, else the next one."""
    gate = enter(work, token_hash, project, now)
    if gate.state != "open":
        raise Conflict(MESSAGES["state"])
    return _serve(work, gate, project, now)


def _serve(work: SqliteWork, gate: Gate, project: int, now: float) -> Asked | None:
    run = work.connection.execute
    _return_late(work, project, now)
    done = run(_DONE, (project, gate.person)).fetchone()[0]
    row = run(_HELD, (project, gate.person)).fetchone()
    if row is not None:
        return asked(project, row, row[6], row[7], done)
    row = _pick(work, project, gate.person)
    if row is None:
        return None
    row = (*row[:3], row[3] + 1, *row[4:])
    until, key = now + gate.spec.lease_seconds, new_key()
    run(_LEASE, (row[0], gate.person, row[3], now, until, key))
    return asked(project, row, until, key, done)


def _pick(work: SqliteWork, project: int, person: int) -> tuple[Any, ...] | None:
    """The open question with the lowest place; from where the person's last search began to find,
    because before it there is nothing.
    """
    places = work.cursors.setdefault(project, {})
    start = places.get(person, 0)
    row: tuple[Any, ...] | None = work.connection.execute(
        _PICK, (project, person, start)
    ).fetchone()
    if row is None and start:
        row = work.connection.execute(_PICK, (project, person, 0)).fetchone()
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
    for question, item, person, place, lease, until, alias in run(_LATE, (project, now)).fetchall():
        run(
            "UPDATE question SET status = 0, person_id = NULL, leased_at = NULL, lease_until = NULL, key = NULL WHERE id = ?1",
            (question,),
        )
        run(
            "INSERT INTO held (item_id, person_id, question_id) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            (item, person, question),
        )
        _reopened(work, project, place)
        payload = {"lease": lease, "place": place, "question": question, "until": until}
        work.append(project, "lease-expired", payload, actor=alias, at=now)


def answer(
    work: SqliteWork,
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
    """Keep the first answer to a question that the person holds. ``shown_at`` is kept between the
    lease and now.
    """
    check_form(key, value, shown_at, now, question=question, client_ms=client_ms)
    gate = enter(work, token_hash, project, now)
    before = _again(work, gate, project, key, value, question)
    if before is None:
        before = _keep(
            work,
            gate,
            project,
            question=question,
            key=key,
            value=value,
            shown_at=shown_at,
            client_ms=client_ms,
            now=now,
        )
    follow = _serve(work, gate, project, now) if want_next and gate.state == "open" else None
    return Answered(
        answer=before[0], question=question, revision=before[1], again=before[2], next=follow
    )


def _again(
    work: SqliteWork, gate: Gate, project: int, key: str, value: str, question: int | None
) -> tuple[int, int, bool] | None:
    """The answer that this key gave before: its number and revision."""
    row = work.connection.execute(_BY_KEY, (project, key)).fetchone()
    if row is None:
        return None
    if row[3] != gate.person or row[4] != value or row[1] != question:
        raise Conflict(MESSAGES["key"])
    return row[0], row[2], True


def _keep(
    work: SqliteWork,
    gate: Gate,
    project: int,
    *,
    question: int,
    key: str,
    value: str,
    shown_at: float,
    client_ms: int | None,
    now: float,
) -> tuple[int, int, bool]:
    run = work.connection.execute
    if gate.state != "open":
        raise Conflict(MESSAGES["state"])
    row = run(_QUESTION, (question, project)).fetchone()
    if row is None:
        raise NotFound(MESSAGES["question"])
    item, place, draw, kind, pool, shown, propensity, status, person, held_key, leased_at = row
    if status != 1 or person != gate.person or held_key != key:
        raise Conflict(MESSAGES["lease"])
    if not fits(gate.spec, _numbers(shown), value):
        raise Refused(MESSAGES["value"])
    shown_at = min(max(shown_at, leased_at), now)
    number = run(
        _ANSWER, (project, question, 0, gate.person, value, shown_at, now, client_ms, key)
    ).fetchone()[0]
    run("UPDATE question SET status = 2 WHERE id = ?1", (question,))
    if is_unsure(value) and kind in ("main", "reask") and draw // REASK_STEP < gate.spec.reasks:
        run(_REASK, (project, item, place, draw + REASK_STEP, pool, shown, propensity))
        _reopened(work, project, place)
    _log_answer(work, gate, project, "answer", number, question, place, 0, value, shown_at, now)
    return number, 0, False


def amend(
    work: SqliteWork,
    token_hash: str,
    project: int,
    *,
    answer: int,
    key: str,
    value: str,
    now: float,
) -> Answered:
    """Append a revision of the person's last answer."""
    check_form(key, value, now, question=answer)
    gate = enter(work, token_hash, project, now)
    run = work.connection.execute
    mine = run(
        "SELECT question_id FROM answer WHERE id = ?1 AND project_id = ?2 AND person_id = ?3",
        (answer, project, gate.person),
    ).fetchone()
    if mine is None:
        raise NotFound(MESSAGES["question"])
    before = _again(work, gate, project, key, value, mine[0])
    if before is not None:
        return Answered(answer=before[0], question=mine[0], revision=before[1], again=True)
    if gate.state != "open":
        raise Conflict(MESSAGES["state"])
    question, shown_at, place, shown, revision = run(_LAST, (project, gate.person)).fetchone()
    if question != mine[0]:
        raise Conflict(MESSAGES["last"])
    if not fits(gate.spec, _numbers(shown), value):
        raise Refused(MESSAGES["value"])
    number = run(
        _ANSWER, (project, question, revision + 1, gate.person, value, shown_at, now, None, key)
    ).fetchone()[0]
    _log_answer(
        work, gate, project, "amended", number, question, place, revision + 1, value, shown_at, now
    )
    return Answered(answer=number, question=question, revision=revision + 1, again=False)


def _log_answer(
    work: SqliteWork,
    gate: Gate,
    project: int,
    kind: str,
    number: int,
    question: int,
    place: int,
    revision: int,
    value: str,
    shown_at: float,
    now: float,
) -> None:
    payload = {
        "answer": number,
        "place": place,
        "question": question,
        "received_at": now,
        "revision": revision,
        "shown_at": shown_at,
        "value": value,
    }
    work.append(project, kind, payload, actor=gate.alias, at=now)


# Copies of a SQLite database: files for their owner alone, backups, restoring.


def make_private(path: Path) -> None:
    """Create the file for its owner alone; the log beside it gets the same mode."""
    if not path.parent.is_dir():
        raise ArgumentError(f"url must name a file in a folder that exists; got {path}.")
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
        if found != "ok":
            raise ArgumentError(f"database must be whole; SQLite found: {found}.")
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
    if target.exists():
        raise ArgumentError(f"url must name a file that does not exist yet; got {target}.")
    source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        found = source.execute(
            "SELECT COUNT(*) FROM sqlite_master WHERE name IN ('schema_version', 'project', 'answer')"
        ).fetchone()[0]
        if found != 3:
            raise ArgumentError(f"path must name a backup of a collection database; got {path}.")
        copy_database(source, target)
    except sqlite3.DatabaseError as error:
        raise ArgumentError(
            f"path must name a backup of a collection database; got {path} ({error})."
        ) from None
    finally:
        source.close()


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

    async def next_question(self, token_hash: str, project: int, *, now: float) -> Asked | None:
        """The question that the person holds, else the next one."""
        return await self._soon(
            functools.partial(next_question, token_hash=token_hash, project=project, now=now)
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
                answer,
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
                amend,
                token_hash=token_hash,
                project=project,
                answer=answer,
                key=key,
                value=value,
                now=now,
            )
        )

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
