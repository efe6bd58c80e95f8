"""A server process without HTTP: people answer as fast as they can; each form is told before it is
sent, and again when it is acknowledged.

python -m tests.service.crash_child URL WORLD [CLIENTS] [LOOPS] [--unsafe]
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import random
import sys
import time
from pathlib import Path

from noracle.collect.errors import Unavailable
from noracle.collect.model import HeldQuestion
from noracle.collect.store import open_store
from tests.service.worlds import START, World, some_value


def tell(kind: str, **values: object) -> None:
    """One line in one write, so that a kill leaves whole lines."""
    os.write(1, (json.dumps({"kind": kind, **values}) + "\n").encode())


async def main(url: str, world: World, clients: int, loops: int, unsafe: bool) -> None:
    store = open_store(url, unsafe=unsafe)
    left = [loops]
    tell("ready")

    async def until_it_works(call):  # type: ignore[no-untyped-def]
        while True:
            try:
                return await call()
            except Unavailable:  # the database is down; a browser would try again too
                await asyncio.sleep(0.05)

    async def client(i: int) -> None:
        rng, who = random.Random(os.getpid() * 1000 + i), world.token(i)
        asked: HeldQuestion | None = await until_it_works(
            lambda: store.next_question(who, world.project, now=START)
        )
        while asked is not None and left[0] > 0:
            left[0] -= 1
            form = {
                "question": asked.question,
                "key": asked.key,
                "value": some_value(world.spec, asked, rng),
            }
            tell("sent", person=i, **form)
            done = await until_it_works(
                lambda form=form: store.answer(
                    who,
                    world.project,
                    **form,
                    shown_at=START,
                    client_ms=None,
                    now=START + 1,
                    want_next=True,
                )  # type: ignore[misc]
            )
            tell("acknowledged", person=i, answer=done.answer, **form)
            asked = done.next

    await asyncio.gather(*map(client, range(clients)))
    tell("end")
    time.sleep(600)  # until it is killed


if __name__ == "__main__":
    words = [w for w in sys.argv[1:] if w != "--unsafe"]
    the_world = pickle.loads(Path(words[1]).read_bytes())
    asyncio.run(main(words[0], the_world, int(words[2]), int(words[3]), "--unsafe" in sys.argv))
