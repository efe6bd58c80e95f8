"""People who work in parallel, slowly and fast, with forms that are sent twice and leases that run
out.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
import threading

from noracle.collect.errors import Conflict
from noracle.collect.model import HeldQuestion
from noracle.collect.store.base import Store
from tests.service.worlds import START, World, some_value


@dataclasses.dataclass
class Tally:
    """What happened: acknowledged first answers by question (number, value), repeats, answers that
    came too late.
    """

    acknowledged: dict[int, tuple[int, str]] = dataclasses.field(default_factory=dict)
    first: set[int] = dataclasses.field(default_factory=set)
    loops: int = 0
    repeats: int = 0
    late: int = 0
    expired: int = 0


class Clock:
    """A time that moves on with every look at it, so that leases run out without waiting."""

    def __init__(self, step: float) -> None:
        self._ticks, self._step = itertools.count(), step

    def __call__(self) -> float:
        return START + next(self._ticks) * self._step


async def work_through(
    store: Store,
    world: World,
    *,
    rng: random.Random,
    stop: threading.Event | None = None,
    loops: int | None = None,
    clients: int | None = None,
    expire: float = 0.0,
    repeat: float = 0.0,
    step: float = 0.001,
) -> Tally:
    """All people answer until nothing is left, ``loops`` are done, or ``stop`` is set. Client i is
    person i modulo their number.

    With chance ``expire`` a client forgets its question and the clock jumps past the lease; with
    chance ``repeat`` it sends a form twice.
    """
    tally, clock = Tally(), Clock(step)
    jump = [0.0]

    def now() -> float:
        return clock() + jump[0]

    def more() -> bool:
        return not (stop is not None and stop.is_set()) and (loops is None or tally.loops < loops)

    async def send(who: str, asked: HeldQuestion, value: str) -> HeldQuestion | None:
        got = await store.answer(
            who,
            world.project,
            question=asked.question,
            key=asked.key,
            value=value,
            shown_at=now(),
            client_ms=1,
            now=now(),
            want_next=True,
        )
        if got.again:
            tally.repeats += 1
        else:
            assert asked.question not in tally.first, "two first answers were acknowledged"
            tally.first.add(asked.question)
        kept = tally.acknowledged.setdefault(asked.question, (got.answer, value))
        assert kept == (got.answer, value)
        return got.next

    async def client(i: int, mine: random.Random) -> None:
        who = world.token(i % len(world.people))
        asked = await store.next_question(who, world.project, now=now())
        while asked is not None and more():
            tally.loops += 1
            value = some_value(world.spec, asked, mine)
            if mine.random() < expire:
                tally.expired += 1
                jump[0] += world.spec.lease_seconds  # all leases of this moment run out
                asked = await store.next_question(who, world.project, now=now())
                continue
            try:
                if mine.random() < repeat:
                    asked, _ = await asyncio.gather(
                        send(who, asked, value), send(who, asked, value)
                    )
                else:
                    asked = await send(who, asked, value)
            except (
                Conflict
            ):  # the lease ran out, or another client of this person answered with another value
                tally.late += 1
                asked = await store.next_question(who, world.project, now=now())

    n = clients or len(world.people)
    await asyncio.gather(*(client(i, random.Random(rng.random())) for i in range(n)))
    return tally
