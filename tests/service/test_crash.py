"""kill -9 of the server, kill -9 of PostgreSQL, and power cuts: no acknowledged answer is lost,
none is kept twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noracle.collect.store import open_store
from noracle.collect.store.base import Store
from tests.service.worlds import START, PostgresServer, World, audit, build

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
Told = list[dict[str, Any]]


class Child:
    """A process that works on a store, and what it told."""

    def __init__(
        self,
        url: str,
        world: Path,
        *,
        clients: int = 16,
        loops: int = 10**9,
        before: tuple[str, ...] = (),
        unsafe: bool = False,
    ) -> None:
        words = [url, str(world), str(clients), str(loops), *(["--unsafe"] if unsafe else [])]
        command = [*before, sys.executable, "-m", "tests.service.crash_child", *words]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, cwd=ROOT, env=environment, start_new_session=True
        )
        self.told: Told = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            with contextlib.suppress(json.JSONDecodeError):
                self.told.append(json.loads(line))

    def wait_for(self, kind: str, n: int = 1, seconds: float = 60.0) -> None:
        ends = time.monotonic() + seconds
        while sum(t["kind"] == kind for t in self.told) < n:
            assert time.monotonic() < ends, f"the child has not told {n} × {kind}"
            assert self.process.poll() is None, "the child has ended"
            time.sleep(0.005)

    def kill(self) -> Told:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        if self.process.stdout:
            self.process.stdout.close()
        return self.told


@pytest.fixture
def children() -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    for child in started:
        child.kill()


def repeat_all(store: Store, world: World, told: Told) -> int:
    """Send every form again with its key: acknowledged ones give the same answer, the others are
    kept now; returns how many.
    """
    known = {t["key"]: t["answer"] for t in told if t["kind"] == "acknowledged"}

    async def again(form: dict[str, Any]) -> int:
        got = await store.answer(
            world.token(form["person"]),
            world.project,
            question=form["question"],
            key=form["key"],
            value=form["value"],
            shown_at=START,
            client_ms=None,
            now=START + 2,
            want_next=False,
        )
        assert known.get(form["key"], got.answer) == got.answer
        assert got.again or form["key"] not in known
        return not got.again

    async def all_of_them() -> int:
        return sum(await asyncio.gather(*(again(t) for t in told if t["kind"] == "sent")))

    return asyncio.run(all_of_them())


def acknowledged(told: Told) -> dict[int, tuple[int, str]]:
    return {t["question"]: (t["answer"], t["value"]) for t in told if t["kind"] == "acknowledged"}


def kill_servers(
    url: str, tmp_path: Path, children: list[Child], kills: int, *, seconds: float = 0.4
) -> None:
    """The same database all the time; a new project for each server, so that looking through all of
    it stays quick.
    """
    rng, done = random.Random(8), []
    for number in range(kills):
        store = open_store(url)
        world = build(store, n_items=2000, n_people=16, lease_seconds=1e5, seed=number)
        store.close()
        path = tmp_path / f"world-{number}"
        path.write_bytes(pickle.dumps(world))
        child = Child(url, path)
        children.append(child)
        child.wait_for("acknowledged", 20)
        time.sleep(rng.random() * seconds)
        told = child.kill()
        store = open_store(url)
        try:
            audit(store, world, acknowledged=acknowledged(told))
            repeat_all(store, world, told)
            found = audit(store, world, acknowledged=acknowledged(told))
            assert (
                found["answers"] == len({t["question"] for t in told if t["kind"] == "sent"}) >= 20
            )
        finally:
            store.close()
        done.append((world, acknowledged(told)))
    store = open_store(url)
    for world, kept in done:
        audit(store, world, acknowledged=kept)
    store.close()


@pytest.mark.parametrize("url", ["sqlite_url", "postgres_url"])
def test_kill_9_of_the_server_loses_and_doubles_nothing(
    request: pytest.FixtureRequest, url: str, tmp_path: Path, children: list[Child]
) -> None:
    kill_servers(request.getfixturevalue(url), tmp_path, children, 3)


@pytest.mark.slow
@pytest.mark.parametrize("url", ["sqlite_url", "postgres_url"])
def test_50_times_kill_9_of_the_server(
    request: pytest.FixtureRequest, url: str, tmp_path: Path, children: list[Child]
) -> None:
    kill_servers(request.getfixturevalue(url), tmp_path, children, 50, seconds=0.3)


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_kill_9_of_postgresql_loses_nothing(
    own_server: PostgresServer, tmp_path: Path, children: list[Child], kills: int
) -> None:
    url = own_server.url(own_server.new_database())
    store = open_store(url)
    world = build(store, n_items=kills * 3000, n_people=16, lease_seconds=1e5)
    store.close()
    path = tmp_path / "world"
    path.write_bytes(pickle.dumps(world))
    child = Child(url, path)
    children.append(child)
    rng = random.Random(9)
    for _ in range(kills):
        child.wait_for("acknowledged", 20 + sum(t["kind"] == "acknowledged" for t in child.told))
        time.sleep(rng.random() * 0.3)
        own_server.kill()
        own_server.start()
    child.wait_for("acknowledged", 20 + sum(t["kind"] == "acknowledged" for t in child.told))
    told = child.kill()
    store = open_store(url)
    kept = acknowledged(told)
    audit(store, world, acknowledged=kept)
    repeat_all(store, world, told)
    assert audit(store, world, acknowledged=kept)["answers"] == len(
        {t["question"] for t in told if t["kind"] == "sent"}
    )
    store.close()


# ---------------------------------------------------------------------------------------------------------------
# power cuts


def cut(file: Path, log: bytes, target: Path) -> set[tuple[int, str]]:
    """The database with a log that ends where the power went; the answers (number, value) that are
    in it.
    """
    shutil.copy(file, target)
    target.with_name(target.name + "-wal").write_bytes(log)
    target.with_name(target.name + "-shm").unlink(missing_ok=True)
    connection = sqlite3.connect(target)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        return set(connection.execute("SELECT id, value FROM answer").fetchall())
    finally:
        connection.close()


def test_every_acknowledged_answer_is_in_the_log_and_a_torn_log_opens(tmp_path: Path) -> None:
    file = tmp_path / "labels.db"
    store = open_store(f"sqlite:///{file}")
    world = build(store, n_items=200, n_people=4)
    store.close()
    store = open_store(f"sqlite:///{file}")
    log = file.with_name("labels.db-wal")
    sizes: list[tuple[int, tuple[int, str]]] = []

    async def one(i: int) -> None:
        asked = await store.next_question(world.token(i), world.project, now=START)
        for _ in range(8):
            assert asked is not None
            form = {
                "question": asked.question,
                "key": asked.key,
                "value": "no",
                "shown_at": START,
                "client_ms": 1,
                "now": START,
            }
            done = await store.answer(world.token(i), world.project, **form, want_next=True)
            sizes.append((log.stat().st_size, (done.answer, "no")))
            asked = done.next

    async def everybody() -> None:
        await asyncio.gather(*map(one, range(4)))

    asyncio.run(everybody())
    whole = log.read_bytes()
    frozen = tmp_path / "frozen.db"
    shutil.copy(file, frozen)
    for size in sorted({size for size, _ in sizes}):
        found = cut(frozen, whole[:size], tmp_path / "cut.db")
        assert {answer for at, answer in sizes if at <= size} <= found
    rng, before = random.Random(10), 0
    for size in sorted(rng.randrange(len(whole)) for _ in range(25)):
        found = cut(frozen, whole[:size], tmp_path / "torn.db")
        assert sorted(number for number, _ in found) == list(
            range(1, len(found) + 1)
        )  # a prefix: commits are whole, in order
        assert len(found) >= before
        before = len(found)
        other = open_store(f"sqlite:///{tmp_path}/torn.db")
        audit(other, world)
        other.close()
    store.close()


_CALL = re.compile(
    r"^(?P<thread>\d+) +(?:(?P<name>\w+)\((?P<inside>.*)|<\.\.\. (?P<resumed>\w+) resumed>(?P<rest>.*))$"
)


def synced_log(trace: str, log: str) -> list[tuple[int, dict[str, Any]]]:
    """For every acknowledged answer of a trace: how many bytes of the log had been synced when it
    was told.
    """
    open_files: set[str] = set()
    pending: dict[str, tuple[str, str, int]] = {}
    written, synced, result = 0, 0, []
    for line in trace.splitlines():
        match = _CALL.match(line)
        if match is None:
            continue
        thread, name, inside = match["thread"], match["name"], match["inside"] or ""
        if match["resumed"]:
            name, inside, seen = pending.pop(thread, ("", "", 0))
            inside += match["rest"]
        else:
            seen = written
            if (
                name == "write" and inside.startswith("1, ") and '\\"acknowledged\\"' in inside
            ):  # told from here on
                text = inside[inside.index('"') + 1 : inside.rindex("\\n")].replace('\\"', '"')
                result.append((synced, json.loads(text)))
            if (
                name == "pwrite64" and inside.partition(",")[0] in open_files
            ):  # may be on the disk or not
                length, offset = (
                    int(n) for n in re.findall(r", (\d+), (\d+)(?:\)| <unfinished)", inside)[-1]
                )
                written = max(written, offset + length)
        if line.endswith("<unfinished ...>"):
            pending[thread] = (name or "", inside.removesuffix("<unfinished ...>"), seen)
            continue
        if name == "openat" and log in inside:
            open_files.add(inside.rpartition("= ")[2].split()[0])
        if name in ("fdatasync", "fsync") and re.split(r"[,)]", inside)[0].strip() in open_files:
            synced = max(synced, seen)  # what was written when the call began
    return result


def power_cut(tmp_path: Path, children: list[Child], options: str) -> tuple[int, int]:
    """Work under strace; cut the power at each acknowledgement. Returns acknowledged and lost
    answers.
    """
    if shutil.which("strace") is None:
        pytest.skip("strace is not on the path")
    file = tmp_path / "labels.db"
    url = f"sqlite:///{file}"
    store = open_store(url)
    world = build(store, n_items=300, n_people=8)
    store.close()  # everything is in the file itself, the log is gone
    frozen = tmp_path / "frozen.db"
    shutil.copy(file, frozen)
    path, trace = tmp_path / "world", tmp_path / "trace"
    path.write_bytes(pickle.dumps(world))
    tracer = (
        "strace",
        "-f",
        "-qq",
        "-s",
        "400",
        "-o",
        str(trace),
        "-e",
        "trace=openat,write,pwrite64,fdatasync,fsync",
    )
    child = Child(url + options, path, clients=8, loops=64, before=tracer, unsafe=bool(options))
    children.append(child)
    try:
        child.wait_for("end", seconds=90)
    except AssertionError:
        if "ptrace" in (trace.read_text() if trace.exists() else "ptrace"):
            pytest.skip("strace may not trace here")
        raise
    whole = file.with_name("labels.db-wal").read_bytes()
    child.kill()
    told = synced_log(trace.read_text(), "labels.db-wal")
    lost, sofar = 0, []
    for size, answer in told:
        sofar.append((answer["answer"], answer["value"]))
        lost = max(lost, len(set(sofar) - cut(frozen, whole[:size], tmp_path / "cut.db")))
    return len(told), lost


def test_a_power_cut_loses_no_acknowledged_answer(tmp_path: Path, children: list[Child]) -> None:
    assert power_cut(tmp_path, children, "") == (64, 0)


def test_the_same_cut_loses_answers_with_weaker_settings(
    tmp_path: Path, children: list[Child]
) -> None:
    """So the test above can fail; and this is what ``unsafe`` means."""
    told, lost = power_cut(tmp_path, children, "?synchronous=normal")
    assert told == 64
    assert lost > 0
