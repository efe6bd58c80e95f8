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
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from noracle.collect import errors
from noracle.collect.errors import Throttled
from noracle.collect.model import Protocol
from noracle.errors import ArgumentError

_BY_STATUS: dict[int, type[errors.CollectError]] = {
    kind.status: kind
    for kind in (
        errors.SignedOut,
        errors.Forbidden,
        errors.NotFound,
        errors.Conflict,
        errors.Refused,
    )
}
_LOST = (ConnectionError, asyncio.IncompleteReadError, TimeoutError)
_HEAD_LIMIT, _BODY_LIMIT = 1 << 16, 1 << 28


class Unreachable(errors.Unavailable):
    """The server does not answer, or not as a server of this kind does."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        """The first header of this (small-letter) name, or nothing."""
        return next((value for key, value in self.headers if key == name), "")

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Connection:
    """One connection to a server, opened when it is first needed and again when it was lost."""

    def __init__(self, base_url: str, *, timeout: float = 30.0) -> None:
        parts = urllib.parse.urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ArgumentError(
                f"base_url must be http://host:port or https://host:port; got {base_url!r}."
            )
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._host, self._secure = parts.hostname, parts.scheme == "https"
        self._port = parts.port or (443 if self._secure else 80)
        self._netloc, self._timeout = parts.netloc, timeout
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def kept(self) -> bool:
        """Whether the next request goes over a connection that has been used before."""
        return self._streams is not None

    async def request(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        """Send one request and read its reply; whoever calls decides whether a lost one may be sent
        again.
        """
        lines = [
            f"{method} {path} HTTP/1.1",
            f"host: {self._netloc}",
            f"content-length: {len(body)}",
        ]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if any(ord(c) < 32 or ord(c) == 127 for line in lines for c in line) or " " in path:
            raise ArgumentError(
                "path and headers must hold no control characters, and a path no spaces; got some in a header line."
            )
        if self._streams is not None and self._streams[0].at_eof():
            await self.close()  # the server has closed it meanwhile; nothing was sent yet
        try:
            async with asyncio.timeout(self._timeout):
                reader, writer = self._streams or await self._open()
                writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
                await writer.drain()
                reply = await _read(reader, head=method == "HEAD")
        except BaseException:
            await self.close()  # what a half-read connection says next belongs to nobody
            raise
        if reply.header("connection").lower() == "close":
            await self.close()
        return reply

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context() if self._secure else None
        self._streams = await asyncio.open_connection(
            self._host, self._port, ssl=context, limit=_HEAD_LIMIT
        )
        return self._streams

    async def close(self) -> None:
        """Close the connection, if there is one."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()
            try:
                await streams[1].wait_closed()
            except (OSError, ssl.SSLError):
                pass


async def _read(reader: asyncio.StreamReader, *, head: bool) -> Reply:
    while True:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        first = lines[0].split(" ", 2)
        if len(first) < 2 or not first[0].startswith("HTTP/1.") or not first[1].isdecimal():
            raise ConnectionError("not a reply of HTTP/1.1")
        status = int(first[1])
        if status >= 200:  # anything less is an announcement
            break
    pairs = (line.partition(":") for line in lines[1:] if line)
    headers = tuple((name.strip().lower(), value.strip()) for name, _, value in pairs)
    reply = Reply(status, headers, b"")
    if head or status in (204, 304):
        return reply
    if reply.header("transfer-encoding").lower() == "chunked":
        return dataclasses.replace(reply, body=await _chunks(reader))
    length = reply.header("content-length")
    if not length.isdecimal() or int(length) > _BODY_LIMIT:
        raise ConnectionError("a reply without a length, or with too great a one")
    return dataclasses.replace(reply, body=await reader.readexactly(int(length)))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    total = 0
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        total += size
        if total > _BODY_LIMIT:
            raise ConnectionError("too long a reply")
        part = await reader.readexactly(size + 2)
        if size == 0:
            return b"".join(parts)
        parts.append(part[:-2])


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
        self._connection = Connection(base_url, timeout=timeout)
        self._patience = patience
        self._session: dict[str, str] = (
            {} if token is None else {"authorization": f"Bearer {token}"}
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; the session lives on."""
        await self._connection.close()

    async def call(
        self, method: str, path: str, value: object = None, *, again: bool = False
    ) -> Any:
        """Call the JSON interface; returns its JSON (None without a body), raises what it refuses.

        ``again`` says that sending the request twice does no harm.
        """
        body = b"" if value is None else json.dumps(value, ensure_ascii=False).encode()
        headers = {"accept": "application/json", "origin": self._connection.origin, **self._session}
        if body:
            headers["content-type"] = "application/json"
        until = time.monotonic() + self._patience
        while True:
            kept = self._connection.kept
            try:
                reply = await self._connection.request(
                    method, f"/api/v1{path}", headers=headers, body=body
                )
                if (
                    not again
                    or reply.status != errors.Unavailable.status
                    or time.monotonic() >= until
                ):
                    break
                await asyncio.sleep(min(_wait(reply, 1.0), max(0.05, until - time.monotonic())))
            except (*_LOST, OSError, ValueError) as error:
                if isinstance(error, ArgumentError):
                    raise
                if not again or (
                    time.monotonic() >= until and not kept
                ):  # a kept connection may have been closed just now
                    what = str(error) or type(error).__name__
                    raise Unreachable(
                        f"the server at {self._connection.origin} must answer; got {what}. Is it running?"
                    ) from None
                await asyncio.sleep(0.05)
        self._remember(reply)
        if reply.status >= 400:
            raise refusal(reply)
        return reply.json() if reply.body else None

    async def sign_in(self, email: str, password: str) -> Any:
        """Begin a session."""
        return self._keep(
            await self.call("POST", "/session", {"email": email, "password": password})
        )

    async def sign_out(self) -> None:
        """End the session."""
        await self.call("DELETE", "/session")
        self._session = {}

    async def join(self, invitation: str, *, name: str, email: str, password: str) -> Any:
        """Accept an invitation (its token, or the whole link) as a new person, and begin a session."""
        token = urllib.parse.quote(invitation.rstrip("/").rsplit("/", 1)[-1], safe="")
        return self._keep(
            await self.call(
                "POST",
                f"/invitations/{token}",
                {"name": name, "email": email, "password": password},
            )
        )

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
        """Answer a question; returns the number of the answer, and the next question if it was
        wanted.
        """
        sent = {
            "question": asked["question"],
            "key": asked["key"],
            "value": value,
            "want_next": want_next,
            "client_ms": None,
        }
        sent["shown_at"] = time.time() if shown_at is None else shown_at
        kept = await self.call("POST", f"/projects/{project}/answers", sent, again=True)
        return int(kept["answer"]), _question(kept)

    def _remember(self, reply: Reply) -> None:
        """Keep the session's cookie, as a browser does."""
        for name, value in reply.headers:
            if name == "set-cookie" and "noracle" in value.split("=", 1)[0]:
                self._session["cookie"] = value.split(";", 1)[0]

    def _keep(self, value: Any) -> Any:
        """Keep the CSRF token that goes with the session."""
        if isinstance(value, dict) and isinstance(value.get("csrf"), str):
            self._session["x-csrf-token"] = value["csrf"]
        return value


def _question(value: Any) -> dict[str, Any] | None:
    """The question in a reply, whether it is the reply or stands under ``next`` or ``question``."""
    found = value.get("next") if isinstance(value, dict) and "next" in value else value
    return found if isinstance(found, dict) and "key" in found else None


def refusal(reply: Reply) -> errors.CollectError:
    """The exception that a refused request stands for."""
    try:
        problem = reply.json()
    except ValueError:
        problem = {}
    told = problem if isinstance(problem, dict) else {}
    text = str(told.get("detail") or told.get("title") or f"the server answered {reply.status}")
    if reply.status == errors.Throttled.status:
        return errors.Throttled(text, wait=_wait(reply, 60.0))
    if reply.status == errors.Unavailable.status:
        return errors.Unavailable(text, wait=_wait(reply, 1.0))
    return _BY_STATUS.get(reply.status, errors.CollectError)(text)


def _wait(reply: Reply, usual: float) -> float:
    """Seconds that the server asks for."""
    said = reply.header("retry-after")
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
