"""The small HTTP client: what it reads, what it repeats, what it refuses."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable

import pytest

from noracle.collect.errors import (
    CollectError,
    Conflict,
    Forbidden,
    NotFound,
    Refused,
    SignedOut,
    Throttled,
    Unavailable,
)
from noracle.collect.simulate import CrowdClient, Unreachable, connect
from noracle.errors import ArgumentError

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter


class Fake:
    """A server that answers each request with the next of its replies (raw bytes; None hangs up)
    and keeps what it was sent.
    """

    def __init__(self, *replies: bytes | None) -> None:
        self.replies = list(replies)
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.connections = 0

    async def handle(self, reader: Reader, writer: Writer) -> None:
        self.connections += 1
        try:
            while self.replies:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head.lower())
                length = int((re.findall(r"content-length: (\d+)", head.lower()) or ["0"])[0])
                self.bodies.append(await reader.readexactly(length))
                reply = self.replies.pop(0)
                if reply is None:
                    break
                writer.write(reply)
                await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    def run(self, work: Callable[[str], Awaitable[None]]) -> None:
        async def main() -> None:
            server = await asyncio.start_server(self.handle, "127.0.0.1", 0)
            async with server:
                port = server.sockets[0].getsockname()[1]
                await work(f"http://127.0.0.1:{port}")

        asyncio.run(main())


def reply(value: object, status: str = "200 OK", *headers: str) -> bytes:
    body = json.dumps(value).encode()
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


ASKED = {"question": 7, "key": "k", "content": {"text": "x"}, "shown": [1]}


def test_a_connection_is_kept_and_the_session_goes_with_every_request() -> None:
    fake = Fake(
        reply(
            {"csrf": "secret", "name": "A"}, "200 OK", "set-cookie: noracle=token; HttpOnly; Path=/"
        ),
        reply({"next": ASKED}),
        reply({"answer": 5, "revision": 0, "again": False, "next": None}),
    )

    async def work(url: str) -> None:
        async with CrowdClient(url) as client:
            await client.sign_in("a@example.org", "password")
            assert await client.next("p") == ASKED
            assert await client.answer("p", ASKED, "no", shown_at=1.0) == (5, None)

    fake.run(work)
    assert fake.connections == 1
    assert "cookie" not in fake.heads[0]
    for head in fake.heads[1:]:
        assert "cookie: noracle=token\r\n" in head
        assert "x-csrf-token: secret\r\n" in head
        assert "origin: http://127.0.0.1:" in head
    assert json.loads(fake.bodies[2]) == {
        "question": 7,
        "key": "k",
        "value": "no",
        "want_next": True,
        "client_ms": None,
        "shown_at": 1.0,
    }


def test_an_answer_that_was_lost_is_sent_again_with_the_same_key() -> None:
    fake = Fake(
        None,
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        reply({"answer": 5, "next": None}),
    )
    fake.replies.insert(2, None)

    async def work(url: str) -> None:
        async with CrowdClient(url, patience=5, timeout=0.5) as client:
            assert await client.answer("p", ASKED, "yes") == (5, None)

    fake.run(work)
    assert len(set(fake.bodies)) == 1
    assert len(fake.bodies) == 4
    assert fake.connections == 4


@pytest.mark.full
def test_a_server_without_its_database_is_asked_again_with_the_same_key() -> None:
    away = reply({"detail": "away"}, "503 X", "retry-after: 1")
    fake = Fake(away, away, reply({"answer": 5, "next": None}), away)

    async def work(url: str) -> None:
        async with CrowdClient(url, patience=20) as client:
            began = time.monotonic()
            assert await client.answer("p", ASKED, "yes") == (5, None)
            assert time.monotonic() - began >= 2, "the client waits as long as it was told"
            with pytest.raises(Unavailable, match="away"):
                await client.sign_in("a@example.org", "password")

    fake.run(work)
    assert len(set(fake.bodies[:3])) == 1
    assert len(fake.bodies) == 4


def test_a_session_that_began_elsewhere_is_used() -> None:
    fake = Fake(reply({"next": ASKED}))

    async def work(url: str) -> None:
        async with CrowdClient(url, token="secret") as client:
            assert await client.next("p") == ASKED

    fake.run(work)
    assert "authorization: bearer secret\r\n" in fake.heads[0]


def test_signing_in_is_not_repeated() -> None:
    fake = Fake(None, reply({"csrf": "x"}))

    async def work(url: str) -> None:
        async with CrowdClient(url, patience=5) as client:
            with pytest.raises(Unreachable):
                await client.sign_in("a@example.org", "password")

    fake.run(work)
    assert len(fake.bodies) == 1


def test_chunks_announcements_and_empty_replies_are_read() -> None:
    chunked = b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4;x=y\r\n{"a"\r\n4\r\n: 1}\r\n0\r\n\r\n'
    fake = Fake(
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + chunked,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        reply([1]),
    )

    async def work(url: str) -> None:
        async with CrowdClient(url) as client:
            assert await client.call("GET", "/x") == {"a": 1}
            assert await client.call("DELETE", "/x") is None
            assert await client.call("GET", "/x") == [1]

    fake.run(work)
    assert fake.connections == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, SignedOut),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (422, Refused),
        (429, Throttled),
        (503, Unavailable),
        (400, CollectError),
        (500, CollectError),
    ],
)
def test_a_refusal_is_the_exception_of_its_status(status: int, kind: type[CollectError]) -> None:
    fake = Fake(reply({"title": "T", "detail": "the reason"}, f"{status} X", "retry-after: 7"))

    async def work(url: str) -> None:
        async with CrowdClient(url) as client:
            with pytest.raises(kind, match="the reason") as caught:
                await client.next("p")
            assert type(caught.value) is kind
            if isinstance(caught.value, Throttled | Unavailable):
                assert caught.value.wait == 7

    fake.run(work)


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
    ],
)
def test_what_is_no_reply_is_an_unreachable_server(raw: bytes) -> None:
    fake = Fake(raw)

    async def work(url: str) -> None:
        async with CrowdClient(url, timeout=2) as client:
            with pytest.raises(Unreachable, match="must answer"):
                await client.next("p")

    fake.run(work)


def test_a_server_that_is_not_there_is_unreachable() -> None:
    async def work() -> None:
        async with CrowdClient("http://127.0.0.1:9", timeout=2) as client:
            with pytest.raises(Unreachable, match="Is it running"):
                await client.next("p")

    asyncio.run(work())


def test_an_address_must_be_http() -> None:
    for wrong in ("127.0.0.1:8000", "ftp://host", "http://"):
        with pytest.raises(ArgumentError, match="base_url"):
            connect(wrong)


def test_nothing_can_be_smuggled_into_the_head() -> None:
    fake = Fake(reply({}))

    async def work(url: str) -> None:
        async with CrowdClient(url) as client:
            with pytest.raises(ArgumentError, match="headers must hold no control"):
                await client.call("GET", "/x y\r\nevil: 1")
        async with CrowdClient(url, token="a\r\nevil: 1") as client:
            with pytest.raises(ArgumentError, match="headers must hold no control"):
                await client.call("GET", "/x")

    fake.run(work)
    assert fake.heads == []
