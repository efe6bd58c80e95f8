"""Many people at once, leases that run out at random, forms sent twice: the rules hold."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
from typing import Any

import pytest

from noracle.collect.store import open_store
from noracle.collect.store.base import Store
from tests.service.stress import Tally, work_through
from tests.service.worlds import START, World, audit, build

pytestmark = pytest.mark.full


def check(store: Store, world: World, tally: Tally, *, loops: int) -> None:
    counts = audit(store, world, acknowledged=tally.acknowledged)
    assert tally.loops >= loops
    assert counts["answers"] == len(tally.acknowledged)
    assert counts["lease-expired"] > 0
    assert tally.repeats > 0
    assert tally.late > 0


@pytest.mark.parametrize("url", ["sqlite_url", "postgres_url"])
def test_thousands_of_loops_with_leases_that_run_out(
    request: pytest.FixtureRequest, url: str
) -> None:
    loops = 5000 if url == "sqlite_url" else 2000
    store = open_store(request.getfixturevalue(url))
    world = build(store, n_items=loops * 2, n_people=24, reasks=2)
    tally = asyncio.run(
        work_through(
            store, world, rng=random.Random(3), loops=loops, clients=48, expire=0.01, repeat=0.1
        )
    )
    check(store, world, tally, loops=loops)
    store.close()


@pytest.mark.parametrize("protocol", ["judge-all", "ordinary"])
def test_loops_of_other_protocols(store: Store, protocol: str) -> None:
    world = build(store, protocol=protocol, n_items=200, n_people=9, draws=3, reasks=1)
    tally = asyncio.run(work_through(store, world, rng=random.Random(5), expire=0.01, repeat=0.1))
    counts = audit(store, world, acknowledged=tally.acknowledged)
    assert counts["answers"] >= 500


@pytest.mark.slow
@pytest.mark.parametrize("url", ["sqlite_url", "postgres_url"])
def test_a_hundred_thousand_loops_of_64_clients(request: pytest.FixtureRequest, url: str) -> None:
    store = open_store(request.getfixturevalue(url))
    world = build(store, n_items=130_000, n_people=48, reasks=2)
    tally = asyncio.run(
        work_through(
            store, world, rng=random.Random(4), loops=100_000, clients=64, expire=0.005, repeat=0.05
        )
    )
    check(store, world, tally, loops=100_000)
    store.close()


def _process(url: str, world: World, seed: int, results: Any) -> None:
    store = open_store(url)
    tally = asyncio.run(
        work_through(store, world, rng=random.Random(seed), expire=0.01, repeat=0.05)
    )
    store.close()
    results.put(tally.acknowledged)


def test_several_processes_on_one_database(store_url: str) -> None:
    """Two servers, the same people signed in on both."""
    store = open_store(store_url)
    world = build(store, n_items=400, n_people=12, reasks=1)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    servers = [
        context.Process(target=_process, args=(store_url, world, seed, results)) for seed in (1, 2)
    ]
    for server in servers:
        server.start()
    told = [results.get(timeout=60) for _ in servers]
    for server in servers:
        server.join()
    kept = told[0]
    for question, answer in told[1].items():
        assert kept.setdefault(question, answer) == answer
    assert audit(store, world, acknowledged=kept)["answers"] == len(kept) >= 400
    store.close()


def test_nobody_ever_holds_two_questions(store: Store) -> None:
    """Refresh, second tab, other device, a session that ended, a lease that ran out; in any order."""
    world = build(store, n_items=300, n_people=6)
    rng = random.Random(6)

    async def chaos() -> None:
        now = START
        for _ in range(60):
            now += rng.choice((0.0, 1.0, 1000.0))
            who = [world.token(rng.randrange(6)) for _ in range(8)]
            await asyncio.gather(*(store.next_question(t, world.project, now=now) for t in who))
            rows = await store.read(
                lambda w: w.all(
                    "SELECT person_id, COUNT(*) AS n FROM question WHERE status = 1 GROUP BY person_id"
                )
            )
            assert all(row["n"] == 1 for row in rows)

    asyncio.run(chaos())
    audit(store, world)


def test_a_question_that_is_given_is_held_at_that_moment(store: Store) -> None:
    """Also if another call takes its lease away just then: clocks of two servers differ, and one
    sees it run out first.
    """
    world = build(
        store, n_items=60, n_people=8, pools=[(0,)] * 8, protocol="judge-all", lease_seconds=10.0
    )

    async def ask(person: int, now: float) -> None:
        asked = await store.next_question(world.token(person), world.project, now=now)
        assert asked is not None
        assert isinstance(asked.key, str)
        assert asked.lease_until is not None

    async def rounds() -> None:
        for turn in range(40):
            now = START + 20 * turn
            await asyncio.gather(
                *(
                    ask(person, now + (15 if person % 2 else 0))
                    for person in range(8)
                    for _ in range(3)
                )
            )

    asyncio.run(rounds())
    audit(store, world)
