"""Simulated people who answer over HTTP: for the demo, the tests and the benchmarks.

They see what a browser would see, and nothing else. A key of their own says which class an item
has; habits say how they err.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from noracle.collect import client as sync
from noracle.collect.client import Unreachable
from noracle.collect.errors import Throttled
from noracle.collect.model import Protocol
from noracle.errors import MissingExtra, require

try:
    import httpx
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra("noracle collect", "httpx", "collect") from error

__all__ = ["CrowdClient", "Habits", "Invited", "Unreachable", "connect", "crowd", "fingerprint"]
__all__ += ["reply", "work"]

Each = Callable[[], None] | None
Reply = Callable[[Mapping[str, Any]], str]


def connect(base_url: str, *, timeout: float = 30.0) -> httpx.AsyncClient:
    """A connection to a server, opened when it is first needed and again when it was lost."""
    return httpx.AsyncClient(**sync.options_of(base_url, timeout))


class CrowdClient(sync.Talk):
    """An annotator's browser without the browser, many in one event loop; see ``client.Client``."""

    def __init__(self, base_url: str, *, timeout: float = 30.0, **session: Any) -> None:
        super().__init__(base_url, **session)
        self._http = connect(base_url, timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; the session lives on."""
        await self._http.aclose()

    async def call(
        self, method: str, path: str, value: object = None, *, again: bool = False
    ) -> Any:
        """Call the JSON interface; ``again`` says that sending the request twice does no harm."""
        talk = self.talk(method, path, json=value, again=again)
        step = next(talk)
        while True:
            try:
                if isinstance(step, float):
                    await asyncio.sleep(step)
                    step = next(talk)
                else:
                    step = talk.send(await self._http.request(**step))
            except StopIteration as done:
                return None if done.value is None else done.value.json()
            except (httpx.InvalidURL, httpx.TransportError) as error:
                step = talk.throw(error)

    async def sign_in(self, email: str, password: str) -> Any:
        """Begin a session."""
        account = {"email": email, "password": password}
        return self.keep(await self.call("POST", "/session", account))

    async def sign_out(self) -> None:
        """End the session."""
        await self.call("DELETE", "/session")
        self.session = {}
        self._http.cookies.clear()

    async def join(self, invitation: str, *, name: str, email: str, password: str) -> Any:
        """Accept an invitation (its token, or the whole link) as a new person, and begin a session."""
        account = {"name": name, "email": email, "password": password}
        return self.keep(await self.call("POST", sync.path_of("invitations", invitation), account))

    async def next(self, project: str) -> dict[str, Any] | None:
        """The question that waits for this person, or None."""
        found = await self.call("POST", f"/projects/{project}/next", {}, again=True)
        return sync.question_in(found)

    async def answer(
        self, project: str, asked: Mapping[str, Any], value: str, **more: Any
    ) -> tuple[int, dict[str, Any] | None]:
        """Answer a question; returns the number of the answer, and the next question if wanted."""
        sent = sync.answer_to(asked, value, **more)
        kept = await self.call("POST", f"/projects/{project}/answers", sent, again=True)
        return int(kept["answer"]), sync.question_in(kept)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How a simulated person errs: rates of yes about a class that is not the item's, of no about
    the item's class (for a whole label, of any other class), and of "not sure".
    """

    false_yes: float = 0.0
    false_no: float = 0.0
    unsure: float = 0.0

    def __post_init__(self) -> None:
        for name, rate in dataclasses.asdict(self).items():
            require(0 <= rate <= 1, f"{name} must be in [0, 1]; got {rate}.")


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

    >>> fingerprint({"text": "a", "image": "b"}) == fingerprint({"image": "b", "text": "a"})
    True
    """
    return json.dumps(dict(content), sort_keys=True, ensure_ascii=False)


def reply(
    protocol: Protocol, shown: Sequence[int], truth: int, habits: Habits, rng: random.Random
) -> str:
    """What somebody with these habits answers about an item of class ``truth``, or about an answer
    that is right (1) or wrong (0).

    Whoever picks a wrong class picks each one equally often.

    >>> rng = random.Random(0)
    >>> [reply("partitioned", [k], 2, Habits(), rng) for k in range(4)]
    ['no', 'no', 'yes', 'no']
    >>> reply("judge-all", [1, 2, 3], 2, Habits(), rng), reply("ordinary", range(4), 2, Habits(), rng)
    ('no|yes|no', '2')
    """
    if protocol == "grade":
        return _verdict(bool(truth), habits, rng)
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
    errs = rng.random() < (habits.false_no if right else habits.false_yes)
    return "yes" if right != errs else "no"


async def work(
    client: CrowdClient, project: str, answer: Reply, *, most: int | None = None, each: Each = None
) -> list[int]:
    """Answer question after question, until none or ``most``; returns the numbers of the answers."""
    done: list[int] = []
    asked = await _patiently(functools.partial(client.next, project))
    while asked is not None and (most is None or len(done) < most):
        send = functools.partial(client.answer, project, asked, answer(asked))
        number, asked = await _patiently(send)
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
    each: Each = None,
) -> list[int]:
    """Let all join and answer at once (``key``: classes by :func:`fingerprint`); answers by person."""

    async def one(place: int, person: Invited) -> int:
        rng = random.Random(f"{seed}|{place}")  # noqa: S311 (simulated people need no secrets)

        def answer(asked: Mapping[str, Any]) -> str:
            truth = key[fingerprint(asked["content"])]
            return reply(protocol, asked["shown"], truth, person.habits, rng)

        account = {key: getattr(person, key) for key in ("name", "email", "password")}
        async with CrowdClient(base_url, patience=10.0) as client:
            await client.join(person.invitation, **account)
            done = await work(client, project, answer, most=most, each=each)
            with contextlib.suppress(Exception):
                await client.sign_out()
            return len(done)

    return list(await asyncio.gather(*(one(place, person) for place, person in enumerate(people))))
