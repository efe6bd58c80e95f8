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
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from noracle.collect import errors
from noracle.collect.errors import Throttled
from noracle.collect.model import Protocol
from noracle.errors import ArgumentError, MissingExtra, require

try:
    import httpx
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra("noracle collect", "httpx", "collect") from error

_REFUSALS = (errors.SignedOut, errors.Forbidden, errors.NotFound, errors.Conflict, errors.Refused)
_BY_STATUS: dict[int, type[errors.CollectError]] = {kind.status: kind for kind in _REFUSALS}


class Unreachable(errors.Unavailable):
    """The server does not answer, or not as a server of this kind does."""


def connect(base_url: str, *, timeout: float = 30.0) -> httpx.AsyncClient:
    """A connection to a server, opened when it is first needed and again when it was lost."""
    parts = urllib.parse.urlsplit(base_url)
    rule = f"base_url must be http://host:port or https://host:port; got {base_url!r}."
    require(parts.scheme in ("http", "https") and parts.hostname, rule)
    verify = ssl.create_default_context() if parts.scheme == "https" else False
    return httpx.AsyncClient(base_url=base_url, timeout=timeout, verify=verify, trust_env=False)


class Client:
    """What an annotator's browser does, without the browser: a session cookie, its CSRF token,
    questions and answers.

    Parameters
    ----------
    base_url
        Where the server is, such as ``http://127.0.0.1:8000``.
    timeout
        Seconds until a request counts as lost.
    patience
        Seconds during which a lost request is sent again (after a restart of the server or its
        database, say). 0: never.
    token
        The token of a session that has begun already, instead of signing in.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeout: float = 30.0,
        patience: float = 0.0,
        token: str | None = None,
    ) -> None:
        self._http = connect(base_url, timeout=timeout)
        self._origin = str(self._http.base_url).rstrip("/")
        self._patience, self._kept = patience, False
        self._session = {} if token is None else {"authorization": f"Bearer {token}"}

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
        """Call the JSON interface; returns its JSON (None without a body), raises what it refuses.

        ``again`` says that sending the request twice does no harm.
        """
        headers = {"accept": "application/json", "origin": self._origin, **self._session}
        until, url = time.monotonic() + self._patience, f"/api/v1{path}"
        while True:
            kept, self._kept = self._kept, False
            try:
                reply = await self._http.request(method, url, json=value, headers=headers)
                sized = {"content-length", "transfer-encoding"} & reply.headers.keys()
                if not sized and reply.status_code not in (204, 304):
                    raise httpx.RemoteProtocolError("a reply without a length")
            except (httpx.InvalidURL, httpx.LocalProtocolError) as error:
                rule = "path and headers must hold no control characters"
                raise ArgumentError(f"{rule}; got some ({error}).") from None
            except httpx.TransportError as error:
                # A kept connection may have been closed just now.
                if not again or (time.monotonic() >= until and not kept):
                    what = f"the server at {self._origin} must answer"
                    why = str(error) or type(error).__name__
                    raise Unreachable(f"{what}; got {why}. Is it running?") from None
                await asyncio.sleep(0.05)
                continue
            self._kept, left = True, until - time.monotonic()
            if not again or reply.status_code != errors.Unavailable.status or left <= 0:
                break
            await asyncio.sleep(min(_wait(reply, 1.0), max(0.05, left)))
        if reply.status_code >= 400:
            raise refusal(reply)
        return reply.json() if reply.content else None

    async def sign_in(self, email: str, password: str) -> Any:
        """Begin a session."""
        account = {"email": email, "password": password}
        return self._keep(await self.call("POST", "/session", account))

    async def sign_out(self) -> None:
        """End the session."""
        await self.call("DELETE", "/session")
        self._session = {}
        self._http.cookies.clear()

    async def join(self, invitation: str, *, name: str, email: str, password: str) -> Any:
        """Accept an invitation (its token, or the whole link) as a new person, and begin a session."""
        token = urllib.parse.quote(invitation.rstrip("/").rsplit("/", 1)[-1], safe="")
        account = {"name": name, "email": email, "password": password}
        return self._keep(await self.call("POST", f"/invitations/{token}", account))

    async def next(self, project: str) -> dict[str, Any] | None:
        """The question that waits for this person, or None."""
        return _question(await self.call("POST", f"/projects/{project}/next", {}, again=True))

    async def answer(
        self,
        project: str,
        asked: Mapping[str, Any],
        value: str,
        *,
        want_next: bool = True,
        shown_at: float | None = None,
    ) -> tuple[int, dict[str, Any] | None]:
        """Answer a question; returns the number of the answer, and the next question if wanted."""
        sent = {"question": asked["question"], "key": asked["key"], "value": value}
        sent |= {"want_next": want_next, "client_ms": None}
        sent["shown_at"] = time.time() if shown_at is None else shown_at
        kept = await self.call("POST", f"/projects/{project}/answers", sent, again=True)
        return int(kept["answer"]), _question(kept)

    def _keep(self, value: Any) -> Any:
        """Keep the CSRF token that goes with the session."""
        if isinstance(value, dict) and isinstance(value.get("csrf"), str):
            self._session["x-csrf-token"] = value["csrf"]
        return value


def _question(value: Any) -> dict[str, Any] | None:
    """The question in a reply, whether it is the reply or stands under ``next`` or ``question``."""
    found = value.get("next") if isinstance(value, dict) and "next" in value else value
    return found if isinstance(found, dict) and "key" in found else None


def refusal(reply: httpx.Response) -> errors.CollectError:
    """The exception that a refused request stands for."""
    status = reply.status_code
    try:
        problem = reply.json()
    except ValueError:
        problem = {}
    told = problem if isinstance(problem, dict) else {}
    text = str(told.get("detail") or told.get("title") or f"the server answered {status}")
    for kind, usual in ((errors.Throttled, 60.0), (errors.Unavailable, 1.0)):
        if status == kind.status:
            return kind(text, wait=_wait(reply, usual))
    return _BY_STATUS.get(status, errors.CollectError)(text)


def _wait(reply: httpx.Response, usual: float) -> float:
    """Seconds that the server asks for."""
    said = reply.headers.get("retry-after", "")
    return float(said) if said.isdecimal() else usual


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
    errs = rng.random() < (habits.false_no if right else habits.false_yes)
    return "yes" if right != errs else "no"


async def work(
    client: Client,
    project: str,
    answer: Callable[[Mapping[str, Any]], str],
    *,
    most: int | None = None,
    each: Callable[[], None] | None = None,
) -> list[int]:
    """Answer one question after the other; returns the numbers of the answers.

    It ends when there is none, or ``most`` are done. A server that says "too many" is obeyed.
    """
    done: list[int] = []
    asked = await _patiently(lambda: client.next(project))
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
    each: Callable[[], None] | None = None,
) -> list[int]:
    """Let all these people join and answer at the same time; returns answers by person.

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
            truth = key[fingerprint(asked["content"])]
            return reply(protocol, asked["shown"], truth, person.habits, rng)

        account = {key: getattr(person, key) for key in ("name", "email", "password")}
        async with Client(base_url, patience=10.0) as client:
            await client.join(person.invitation, **account)
            done = await work(client, project, answer, most=most, each=each)
            with contextlib.suppress(Exception):
                await client.sign_out()
            return len(done)

    return list(await asyncio.gather(*(one(place, person) for place, person in enumerate(people))))
