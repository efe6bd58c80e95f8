"""Claim: the store alone keeps 32 annotators waiting for milliseconds, with every answer on the
disk before it is acknowledged.

    python benchmarks/bench_collect_store.py [--people 32] [--loops 4000] [--record]

A loop is one answer that brings the next question: session, role, state, idempotency key, answer,
event, lease, in one transaction. People answer without a pause. The same run on SQLite and on a
PostgreSQL server that is started for it (left out where its programs are absent), beside SQLite
with one commit for each operation. ``disk_ms`` is the median time of one ``fdatasync`` of 4 KiB on
the same disk.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from _common import emit

from noracle.collect.store import open_store, sqlite
from noracle.collect.store.base import Store
from tests.service.worlds import START, PostgresServer, World, audit, build, some_value

PARTS = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}


async def run(store: Store, world: World, loops: int) -> dict[str, Any]:
    """All people answer until ``loops`` are done."""
    times: list[float] = []

    async def person(i: int) -> None:
        rng, who = random.Random(i), world.token(i)
        asked = await store.next_question(who, world.project, now=START)
        while asked is not None and len(times) < loops:
            value = some_value(world.spec, asked, rng)
            form = {
                "question": asked.question,
                "key": asked.key,
                "value": value,
                "shown_at": START,
                "client_ms": 900,
                "now": START + 1,
            }
            begin = time.perf_counter()
            done = await store.answer(who, world.project, **form, want_next=True)
            times.append(time.perf_counter() - begin)
            asked = done.next

    begin, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(person(i) for i in range(len(world.people))))
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    times.sort()
    parts = {
        name: round(1000 * times[int(part * (len(times) - 1))], 1) for name, part in PARTS.items()
    }
    return {
        "loops_per_s": round(len(times) / wall),
        **parts,
        "cpu_ms_per_loop": round(1000 * cpu / len(times), 2),
    }


def measure(url: str, *, people: int, loops: int) -> dict[str, Any]:
    """One run on a new database; what was kept is checked afterwards."""
    store = open_store(url)
    try:
        world = build(store, n_items=loops + 40 * people, n_people=people, reasks=1)
        figures = asyncio.run(run(store, world, loops))
        figures["answers"] = audit(store, world)["answers"]
        return figures
    finally:
        store.close()


def disk_ms(folder: Path) -> float:
    """The median time of one synced write."""
    times = []
    with (folder / "probe").open("wb") as file:
        for _ in range(51):
            file.write(bytes(4096))
            file.flush()
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    return round(1000 * sorted(times)[25], 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=32)
    parser.add_argument("--loops", type=int, default=4000)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    sizes = {"people": given.people, "loops": given.loops}
    figures: dict[str, Any] = {**sizes}
    with tempfile.TemporaryDirectory() as name:
        figures["disk_ms"] = disk_ms(Path(name))
        figures["sqlite"] = measure(f"sqlite:///{name}/group.db", **sizes)
        most, sqlite._BATCH = sqlite._BATCH, 1
        figures["sqlite_one_commit_each"] = measure(
            f"sqlite:///{name}/single.db", people=given.people, loops=given.loops // 4
        )
        sqlite._BATCH = most
    if shutil.which("initdb") and shutil.which("postgres"):
        server = PostgresServer.create()
        try:
            figures["postgresql"] = measure(server.url(server.new_database()), **sizes)
        finally:
            server.remove()
    else:
        figures["postgresql"] = None
    figures["load"] = round(os.getloadavg()[0], 1)
    command = "python benchmarks/bench_collect_store.py" + (
        f" --people {given.people}" if given.people != 32 else ""
    )
    emit(
        "collect-store",
        "32 annotators at once: milliseconds a loop, every answer synced",
        figures,
        command=command,
        record=given.record,
    )


if __name__ == "__main__":
    main()
