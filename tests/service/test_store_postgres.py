"""PostgreSQL: what the server must promise, the chain that follows, exports and backups under load,
lost connections.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noracle.collect.errors import Unavailable
from noracle.collect.store import open_store, restore_store
from noracle.errors import ArgumentError
from tests.service.stress import work_through
from tests.service.worlds import START, PostgresServer, World, audit, build

PostgresStore = pytest.importorskip(
    "noracle.collect.store.postgres", reason="psycopg is not installed"
).PostgresStore


@pytest.fixture
def opened(postgres_url: str) -> Iterator[Any]:
    store = PostgresStore(postgres_url)
    yield store
    store.close()


class Load:
    """People who work in the background."""

    def __init__(self, store: Any, world: World) -> None:
        self.stop = threading.Event()
        self.thread = threading.Thread(
            target=lambda: asyncio.run(
                work_through(store, world, rng=random.Random(1), stop=self.stop, expire=0.005)
            )
        )

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *args: object) -> None:
        self.stop.set()
        self.thread.join()


def test_a_server_that_does_not_wait_for_its_disk_is_refused(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = postgres_url.rpartition("/")[2]
    postgres_server._admin(f"ALTER DATABASE {name} SET synchronous_commit = off")
    with pytest.raises(ArgumentError, match="synchronous_commit must be on"):
        open_store(postgres_url)
    open_store(postgres_url, unsafe=True).close()


def test_events_of_the_hot_path_are_chained_by_themselves(opened: Any) -> None:
    world = build(opened)
    asyncio.run(work_through(opened, world, rng=random.Random(1)))
    ends = time.monotonic() + 10
    while opened.read_now(lambda w: w.one("SELECT COUNT(*) AS n FROM event WHERE seq IS NULL")) != {
        "n": 0
    }:
        assert time.monotonic() < ends
        time.sleep(0.05)
    assert audit(opened, world)["answer"] == 20


def test_an_export_sees_every_event_chained_while_work_goes_on(opened: Any) -> None:
    world = build(
        opened, n_items=12_000, n_people=12
    )  # more than is answered during six reads, also where the first one waits long
    counts = []
    with Load(opened, world):
        for _ in range(6):
            time.sleep(0.1)
            counts.append(
                audit(opened, world)["answers"]
            )  # reads with read_chained, and fails on a loose event
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]


def test_the_chain_keeps_its_beginning(opened: Any) -> None:
    """What was exported once stays as it was: later events only follow."""
    world = build(opened, n_items=2000, n_people=12)
    heads: list[tuple[int, str]] = []

    def read_head(work: Any) -> Any:
        return work.one("SELECT last_seq, head FROM project WHERE id = :p", p=world.project)

    with Load(opened, world):
        for _ in range(5):
            time.sleep(0.1)
            row = opened.read_chained_now(world.project, read_head)
            heads.append((row["last_seq"], row["head"]))
    opened.chain(world.project)
    rows = opened.read_now(
        lambda w: w.all("SELECT seq, hash FROM event WHERE project_id = :p", p=world.project)
    )
    assert set(heads) <= {(row["seq"], row["hash"]) for row in rows}


def test_no_answer_follows_the_event_that_closes_the_project(opened: Any) -> None:
    world = build(opened, n_items=3000, n_people=12)

    def close(work: Any) -> None:
        work.run("UPDATE project SET state = 'closed' WHERE id = :p", p=world.project)
        time.sleep(0.05)
        work.log(world.project, "closed", {}, actor="system", at=START)

    def worker() -> None:
        with pytest.raises(Exception, match="not open"):
            asyncio.run(work_through(opened, world, rng=random.Random(2)))

    thread = threading.Thread(target=worker)
    thread.start()
    time.sleep(0.3)
    opened.write_now(close)
    thread.join()
    counts = audit(opened, world)
    assert counts["closed"] == 1
    assert counts["answers"] > 0
    last = opened.read_now(
        lambda w: w.one(
            "SELECT kind FROM event WHERE project_id = :p ORDER BY seq DESC LIMIT 1",
            p=world.project,
        )
    )
    assert last == {"kind": "closed"}


def test_other_writing_goes_one_at_a_time(opened: Any, postgres_url: str) -> None:
    """A link that may be used once is used once, from two processes' stores."""
    other = PostgresStore(postgres_url)
    used: list[bool] = []

    def use(work: Any) -> bool:
        free = work.one("SELECT COUNT(*) AS n FROM throttle")["n"] == 0
        time.sleep(0.02)
        if free:
            work.run("INSERT INTO throttle VALUES ('used', 1)")
        return bool(free)

    threads = [
        threading.Thread(target=lambda s=s: used.append(s.write_now(use)))
        for s in (opened, other) * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(used) == [False] * 7 + [True]
    other.close()


def test_connections_that_were_lost_are_made_again(
    opened: Any, postgres_server: PostgresServer
) -> None:
    world = build(opened)
    asked = asyncio.run(opened.next_question(world.token(0), world.project, now=START))
    name = opened.url.rpartition("/")[2]
    postgres_server._admin(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    )
    assert asyncio.run(opened.next_question(world.token(0), world.project, now=START)) == asked
    audit(opened, world)


def test_reading_and_writing_survive_lost_connections(
    opened: Any, postgres_server: PostgresServer
) -> None:
    name = opened.url.rpartition("/")[2]
    for _ in range(2):
        assert opened.read_now(lambda w: w.one("SELECT 1 AS one")) == {"one": 1}
        postgres_server._admin(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        assert opened.write_now(lambda w: w.one("SELECT 1 AS one")) == {"one": 1}
        postgres_server._admin(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )


def test_a_write_that_had_begun_is_not_repeated_by_itself(
    opened: Any, postgres_server: PostgresServer
) -> None:
    """Whether its commit was kept cannot be known; whoever asked decides."""
    name, calls = opened.url.rpartition("/")[2], []

    def op(work: Any) -> None:
        calls.append(1)
        work.run("INSERT INTO person (email, name, created_at) VALUES ('a@example.org', 'A', 0)")
        postgres_server._admin(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )

    with pytest.raises(Unavailable, match="does not answer now"):
        opened.write_now(op)
    assert len(calls) == 1
    assert opened.read_now(lambda w: w.one("SELECT COUNT(*) AS n FROM person")) == {"n": 0}


def test_every_call_says_that_the_database_is_away(
    own_server: PostgresServer, tmp_path: Path
) -> None:
    store = open_store(own_server.url(own_server.new_database()))
    world = build(store)
    own_server.kill()
    form = {"key": "k", "value": "no", "now": START}
    calls = (
        lambda: store.read_now(lambda w: w.one("SELECT 1 AS one")),
        lambda: store.write_now(lambda w: w.one("SELECT 1 AS one")),
        lambda: store.read_chained_now(world.project, lambda w: w.one("SELECT 1 AS one")),
        lambda: store.chain(world.project),
        lambda: store.backup(tmp_path / "backup.zip"),
        lambda: asyncio.run(store.next_question(world.token(0), world.project, now=START)),
        lambda: asyncio.run(
            store.answer(
                world.token(0),
                world.project,
                question=1,
                shown_at=START,
                client_ms=1,
                want_next=False,
                **form,
            )
        ),
        lambda: asyncio.run(store.amend(world.token(0), world.project, answer=1, **form)),
    )
    for call in calls:
        with pytest.raises(Unavailable) as raised:
            call()
        assert str(own_server.port) not in str(raised.value)
    own_server.start()
    assert asyncio.run(store.next_question(world.token(0), world.project, now=START)) is not None
    store.close()


def test_a_sealed_specification_is_read_once_it_cannot_change(opened: Any) -> None:
    world = build(opened, state="sealed")
    with pytest.raises(Exception, match="not open"):
        asyncio.run(opened.next_question(world.token(0), world.project, now=START))
    spec = json.dumps({**world.spec.to_dict(), "lease_seconds": 50.0})
    opened.write_now(
        lambda w: w.run(
            "UPDATE project SET state = 'open', spec = :s WHERE id = :p", s=spec, p=world.project
        )
    )
    asked = asyncio.run(opened.next_question(world.token(0), world.project, now=START))
    assert asked is not None
    assert asked.lease_until == START + 50


@pytest.mark.parametrize("n", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_backups_under_load_are_whole(
    opened: Any, postgres_server: PostgresServer, tmp_path: Path, n: int
) -> None:
    world = build(opened, n_items=1000 * n, n_people=12)
    opened.write_now(
        lambda w: w.run(
            "UPDATE project SET seed = :s, name = :n",
            s=bytes(range(256)),
            n="tab\t newline\n \\N ü",
        )
    )
    counts = []
    with Load(opened, world):
        for i in range(n):
            time.sleep(0.2)
            path = tmp_path / f"{i}.zip"
            opened.backup(path)
            assert path.stat().st_mode & 0o077 == 0
            name = postgres_server.new_database()
            restore_store(path, postgres_server.url(name))
            other = PostgresStore(postgres_server.url(name))
            counts.append(audit(other, world)["answers"])
            row = other.read_now(lambda w: w.one("SELECT seed, name FROM project"))
            assert row == {"seed": bytes(range(256)), "name": "tab\t newline\n \\N ü"}
            build(other)  # new rows get new numbers
            other.close()
            postgres_server.drop_database(name)
    assert counts == sorted(counts)
    assert counts[-1] > 0


def test_restore_needs_an_empty_database_and_a_whole_backup(
    opened: Any, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    build(opened)
    path = tmp_path / "backup.zip"
    opened.backup(path)
    with pytest.raises(ArgumentError, match="without tables"):
        restore_store(path, opened.url)
    empty = postgres_server.url(postgres_server.new_database())
    data = path.read_bytes()
    for bad in (b"", b"text", data[: len(data) // 2]):
        (tmp_path / "bad.zip").write_bytes(bad)
        with pytest.raises(ArgumentError, match="backup"):
            restore_store(tmp_path / "bad.zip", empty)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "short.zip", "w") as new:
        for name in old.namelist():
            new.writestr(name, b"" if name == "question.copy" else old.read(name))
    with pytest.raises(ArgumentError, match="whole backup"):
        restore_store(tmp_path / "short.zip", empty)
    restore_store(path, empty)  # what failed before left nothing


def test_an_address_that_nobody_serves_is_an_error_at_once() -> None:
    with pytest.raises(Unavailable, match=r"must answer; it does not \(.*refused"):
        open_store("postgresql://nobody:secret@127.0.0.1:1/none")
