"""Simulated people who answer over HTTP: for the demo, the tests and the benchmarks.

They see what a browser would see, and nothing else. A key of their own says which class an item
has; habits say how they err.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from noracle.collect.client import Client
from noracle.collect.errors import Throttled
from noracle.collect.model import Protocol
from noracle.errors import ArgumentError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How a simulated person errs: each rate is in [0, 1].

    Parameters
    ----------
    false_yes
        Rate of yes about a class that is not the item's.
    false_no
        Rate of no about the item's class; for a whole label, the rate of any other class.
    unsure
        Rate of "not sure".
    """

    false_yes: float = 0.0
    false_no: float = 0.0
    unsure: float = 0.0

    def __post_init__(self) -> None:
        for name in ("false_yes", "false_no", "unsure"):
            if not 0 <= getattr(self, name) <= 1:
                raise ArgumentError(f"{name} must be in [0, 1]; got {getattr(self, name)}.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Invited:
    """Somebody with an invitation, and how they will answer."""

    invitation: str
    name: str
    email: str
    password: str
    habits: Habits = Habits()


def fingerprint(content: Mapping[str, Any]) -> str:
    """What an item looks like, as a key for a table.

    Examples
    --------
    >>> fingerprint({"text": "a", "image": "b"}) == fingerprint({"image": "b", "text": "a"})
    True
    """
    return json.dumps(dict(content), sort_keys=True, ensure_ascii=False)


def reply(
    protocol: Protocol, shown: Sequence[int], truth: int, habits: Habits, rng: random.Random
) -> str:
    """What somebody with these habits answers about an item of class ``truth``.

    Whoever picks a wrong class picks each one equally often.

    Examples
    --------
    >>> rng = random.Random(0)
    >>> [reply("partitioned", [k], 2, Habits(), rng) for k in range(4)]
    ['no', 'no', 'yes', 'no']
    >>> reply("judge-all", [1, 2, 3], 2, Habits(), rng), reply("ordinary", range(4), 2, Habits(), rng)
    ('no|yes|no', '2')
    """
    if protocol in ("partitioned", "judge-all"):
        return "|".join(_verdict(k == truth, habits, rng) for k in shown)
    if rng.random() < habits.unsure:
        return "unsure"
    others = [k for k in shown if k != truth]
    if protocol == "ordinary":
        return str(rng.choice(others) if rng.random() < habits.false_no else truth)
    if truth in shown and rng.random() < habits.false_yes:
        return str(truth)
    return str(rng.choice(others)) if others else "unsure"


def _verdict(right: bool, habits: Habits, rng: random.Random) -> str:
    if rng.random() < habits.unsure:
        return "unsure"
    return (
        "yes"
        if right != (rng.random() < (habits.false_no if right else habits.false_yes))
        else "no"
    )


async def work(
    client: Client,
    project: str,
    answer: Callable[[Mapping[str, Any]], str],
    *,
    most: int | None = None,
    each: Callable[[], None] | None = None,
) -> list[int]:
    """Answer one question after the other until there is none (or ``most`` are done); returns the
    numbers of the answers.

    A server that says "too many" is obeyed.
    """
    done: list[int] = []
    asked = await _patiently(lambda: client.next(project))
    while asked is not None and (most is None or len(done) < most):
        held, value = asked, answer(asked)
        number, asked = await _patiently(
            lambda held=held, value=value: client.answer(project, held, value)  # type: ignore[misc]
        )
        done.append(number)
        if each is not None:
            each()
    return done


async def _patiently(call: Callable[[], Any]) -> Any:
    while True:
        try:
            return await call()
        except Throttled as error:
            await asyncio.sleep(min(error.wait, 5.0))


async def crowd(
    base_url: str,
    project: str,
    people: Sequence[Invited],
    key: Mapping[str, int],
    *,
    protocol: Protocol,
    seed: int = 0,
    most: int | None = None,
    each: Callable[[], None] | None = None,
) -> list[int]:
    """Let all these people join and answer at the same time, each over a connection of their own;
    returns answers by person.

    Parameters
    ----------
    key
        The class of each item, by :func:`fingerprint` of what is shown.
    most
        Stop each person after so many answers.
    each
        Called after every answer.
    """

    async def one(place: int, person: Invited) -> int:
        rng = random.Random(f"{seed}|{place}")  # noqa: S311 (simulated people need no secrets)

        def answer(asked: Mapping[str, Any]) -> str:
            return reply(
                protocol, asked["shown"], key[fingerprint(asked["content"])], person.habits, rng
            )

        async with Client(base_url, patience=10.0) as client:
            await client.join(
                person.invitation, name=person.name, email=person.email, password=person.password
            )
            done = await work(client, project, answer, most=most, each=each)
            with contextlib.suppress(Exception):
                await client.sign_out()
            return len(done)

    return list(await asyncio.gather(*(one(place, person) for place, person in enumerate(people))))
