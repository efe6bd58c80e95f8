"""SQLite: settings, group commit, callers that go away, backups."""

from __future__ import annotations

import asyncio
import functools
import random
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noracle.collect.store import open_store, restore_store
from noracle.collect.store.sqlite import SqliteStore
from noracle.errors import ArgumentError
from tests.service.stress import work_through
from tests.service.worlds import START, audit, build


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "labels.db"


def test_settings_are_those_that_survive_a_power_cut(file: Path) -> None:
    store = SqliteStore(file)

    def settings(work: Any) -> dict[str, object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
        return {name: work.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}

    assert store.write_now(settings) == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "secure_delete": 1,
    }
    store.close()


def test_what_is_deleted_or_overwritten_is_not_left_in_the_file(file: Path) -> None:
    store = SqliteStore(file)
    name = "a name that is to be forgotten"
    for i in range(50):
        row = {"e": f"p{i}@example.org", "n": f"{name} {i} " + "x" * 50}
        store.write_now(
            lambda w, row=row: w.run(
                "INSERT INTO person (email, name, created_at) VALUES (:e, :n, 0)", **row
            )
        )  # type: ignore[misc]
    store.close()
    assert name.encode() in file.read_bytes()
    store = SqliteStore(file)
    store.write_now(lambda w: w.run("DELETE FROM person WHERE id <= 25"))
    store.write_now(lambda w: w.run("UPDATE person SET name = '', email = CAST(id AS TEXT)"))
    store.close()
    left = b"".join(path.read_bytes() for path in file.parent.glob("labels.db*"))
    assert name.encode() not in left
    assert b"@example.org" not in left


@pytest.mark.parametrize("level", ["normal", "off", "NORMAL"])
def test_weaker_settings_need_unsafe(file: Path, level: str) -> None:
    with pytest.raises(ArgumentError, match="power cut"):
        open_store(f"sqlite:///{file}?synchronous={level}")
    open_store(f"sqlite:///{file}?synchronous={level}", unsafe=True).close()
    open_store(f"sqlite:///{file}?synchronous=extra").close()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///:memory:",
        "sqlite://",
        "labels.db",
        "mysql://u:secret@h/d",
        "sqlite:///x.db?cache=shared",
        "sqlite:///no/such/folder/x.db",
    ],
)
def test_other_addresses_are_refused_without_showing_a_password(url: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        open_store(url)
    assert "secret" not in str(raised.value)


def test_files_are_for_their_owner_alone(file: Path) -> None:
    store = open_store(f"sqlite:///{file}")
    build(store)
    store.backup(file.with_name("copy.db"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
    assert {"labels.db", "labels.db-wal", "copy.db"} <= set(modes)
    assert set(modes.values()) == {0o600}
    store.close()
    file.chmod(0o644)
    open_store(f"sqlite:///{file}").close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_operations_that_wait_share_one_commit(file: Path) -> None:
    store = SqliteStore(file)
    world = build(store, n_items=80, n_people=32)
    commits: list[str] = []
    store.write_now(
        lambda work: work.connection.set_trace_callback(
            lambda sql: commits.append(sql) if sql == "COMMIT" else None
        )
    )  # type: ignore[attr-defined]

    async def all_at_once() -> None:
        await asyncio.gather(
            *(store.next_question(world.token(i), world.project, now=START) for i in range(32))
        )

    asyncio.run(all_at_once())
    assert 2 <= len(commits) <= 10  # the first is that of the operation that set the trace
    store.close()


def test_nobody_hears_of_an_operation_before_its_commit(file: Path) -> None:
    store = SqliteStore(file)
    world = build(store, n_people=8, n_items=40)
    seen: list[int] = []

    async def one(i: int) -> None:
        asked = await store.next_question(world.token(i), world.project, now=START)
        assert asked is not None
        other = sqlite3.connect(file)
        seen.append(
            other.execute("SELECT status FROM question WHERE id = ?", (asked.question,)).fetchone()[
                0
            ]
        )
        other.close()

    async def all_at_once() -> None:
        await asyncio.gather(*map(one, range(8)))

    asyncio.run(all_at_once())
    assert seen == [1] * 8
    store.close()


def test_a_commit_that_fails_is_an_error_for_everybody_in_it(file: Path) -> None:
    store = SqliteStore(file)
    world = build(store)

    def breaks(work: Any) -> None:
        work.connection.execute("ROLLBACK")  # as SQLite does by itself when the disk is full
        raise sqlite3.OperationalError("database or disk is full")

    async def together() -> list[Any]:
        busy, hold = threading.Event(), threading.Event()
        jobs: list[asyncio.Task[Any]] = [
            asyncio.create_task(store.write(lambda w: (busy.set(), hold.wait(30))))
        ]
        await asyncio.to_thread(busy.wait, 30)  # the next commit takes all that waits meanwhile
        jobs += [
            asyncio.create_task(store.next_question(world.token(0), world.project, now=START)),
            asyncio.create_task(store.write(breaks)),
        ]
        await asyncio.sleep(0)  # both are in the queue
        hold.set()
        return await asyncio.gather(*jobs, return_exceptions=True)

    got = asyncio.run(together())
    assert isinstance(got[1], sqlite3.OperationalError)
    assert isinstance(got[2], sqlite3.OperationalError)
    assert store.read_now(
        lambda w: w.one("SELECT COUNT(*) AS n FROM question WHERE status = 1")
    ) == {"n": 0}
    assert asyncio.run(store.next_question(world.token(0), world.project, now=START)) is not None
    audit(store, world)
    store.close()


def test_a_caller_that_goes_away_harms_nobody(file: Path) -> None:
    store = SqliteStore(file)
    world = build(store, n_people=8, n_items=40)

    async def cancel_some() -> None:
        hold = threading.Event()
        slow = asyncio.create_task(store.write(lambda work: hold.wait(30)))
        tasks = [
            asyncio.create_task(store.next_question(world.token(i), world.project, now=START))
            for i in range(8)
        ]
        await asyncio.sleep(0.02)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.sleep(0)
        hold.set()
        got = await asyncio.gather(*tasks, return_exceptions=True)
        await slow
        assert [isinstance(g, asyncio.CancelledError) for g in got] == [True, False] * 4
        after = await asyncio.gather(
            *(store.next_question(world.token(i), world.project, now=START) for i in range(8))
        )
        assert all(after)
        assert list(after[1::2]) == got[1::2]

    asyncio.run(cancel_some())
    audit(store, world)
    store.close()


def test_an_event_loop_that_closed_harms_nobody(file: Path) -> None:
    store = SqliteStore(file)
    hold = threading.Event()

    async def leave() -> None:
        task = asyncio.create_task(store.write(lambda work: hold.wait(5)))
        await asyncio.sleep(0.05)
        task.cancel()

    asyncio.run(leave())
    hold.set()
    assert store.write_now(lambda work: 7) == 7
    store.close()


def _when(ready: Callable[[], bool], act: Callable[[], object]) -> None:
    """Act as soon as it is ready, or after half a minute in which it never was."""
    ends = time.monotonic() + 30
    while not ready() and time.monotonic() < ends:
        time.sleep(0.001)
    act()


def test_closing_finishes_what_waits(file: Path) -> None:
    store = SqliteStore(file)
    busy, hold = threading.Event(), threading.Event()
    write = functools.partial(
        store.write_now, lambda w: w.run("INSERT INTO throttle VALUES ('k', 1)")
    )
    threads = [
        threading.Thread(target=store.write_now, args=(lambda w: (busy.set(), hold.wait(30)),))
    ]
    threads[0].start()
    assert busy.wait(30)
    threads += [threading.Thread(target=write) for _ in range(20)]
    threads += [
        threading.Thread(target=_when, args=(lambda: store._queue.qsize() == 20, store.close))
    ]
    threads += [threading.Thread(target=_when, args=(lambda: store._closed, hold.set))]
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    with pytest.raises(ArgumentError, match="closed"):
        store.write_now(lambda w: None)
    store = SqliteStore(file)
    assert store.read_now(lambda w: w.one("SELECT COUNT(*) AS n FROM throttle")) == {"n": 20}
    store.close()


def test_an_operation_cannot_wait_for_itself(file: Path) -> None:
    store = SqliteStore(file)
    with pytest.raises(ArgumentError, match="transaction that it was given"):
        store.write_now(lambda w: store.write_now(lambda x: None))
    store.close()


def test_the_index_of_places_serves_the_pick(file: Path) -> None:
    from noracle.collect.store import sqlite as hot

    store = SqliteStore(file)
    plans = store.read_now(
        lambda w: w.connection.execute(
            f"EXPLAIN QUERY PLAN {hot.SQL.hot_pick}", (1, 1, 0)
        ).fetchall()
    )  # type: ignore[attr-defined]
    text = "\n".join(str(row[3]) for row in plans)
    assert "question_open (project_id=? AND pool=? AND place>?)" in text
    assert "SCAN" not in text
    store.close()


@pytest.mark.parametrize("n", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_backups_under_load_are_whole(file: Path, n: int) -> None:
    store = SqliteStore(file)
    world = build(store, n_items=400 * n, n_people=8)
    stop = threading.Event()
    worker = threading.Thread(
        target=lambda: asyncio.run(work_through(store, world, rng=random.Random(1), stop=stop))
    )
    worker.start()
    counts = []
    for i in range(n):
        time.sleep(0.05)
        copy = file.with_name(f"copy-{i}.db")
        store.backup(copy)
        restored = file.with_name(f"restored-{i}.db")
        restore_store(copy, f"sqlite:///{restored}")
        other = SqliteStore(restored)
        counts.append(audit(other, world)["answers"])
        other.close()
    stop.set()
    worker.join()
    assert counts == sorted(counts)
    assert counts[-1] > 0
    store.close()


def test_restore_refuses_what_is_no_backup_and_never_overwrites(file: Path, tmp_path: Path) -> None:
    store = SqliteStore(file)
    store.backup(tmp_path / "copy.db")
    store.close()
    with pytest.raises(ArgumentError, match="does not exist yet"):
        restore_store(tmp_path / "copy.db", f"sqlite:///{file}")
    with pytest.raises(ArgumentError, match="no file"):
        restore_store(tmp_path / "none.db", f"sqlite:///{tmp_path}/new.db")
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(ArgumentError, match="backup"):
        restore_store(tmp_path / "text", f"sqlite:///{tmp_path}/new.db")
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(ArgumentError, match="backup"):
        restore_store(tmp_path / "other.db", f"sqlite:///{tmp_path}/new.db")
    assert not (tmp_path / "new.db").exists()


def test_another_process_may_write_in_between(file: Path) -> None:
    """The command line and a server on one file: the chain goes on where the other left it."""
    one, two = SqliteStore(file), SqliteStore(file)
    world = build(one)
    for store in (one, two, one, two):
        store.write_now(lambda w: w.log(world.project, "look", {}, actor="system", at=START))
        asyncio.run(store.next_question(world.token(0), world.project, now=START))
    assert audit(two, world)["look"] == 4
    one.close()
    two.close()
