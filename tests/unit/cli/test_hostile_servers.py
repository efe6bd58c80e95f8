"""Servers and replies that are broken or mean: ``noracle ask`` ends in order and in time, stores what
it paid for, and asks for it no second time when the server is well again.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

pytest.importorskip("httpx", reason="httpx is not installed")

from noracle.search.caller import Cache
from noracle.search.journal import JOURNAL
from noracle.search.model import Message, Request
from noracle.search.transcript import TRANSCRIPT, read_exchanges
from tests.service.openai_server import Act as Fine
from tests.service.openai_server import (
    OpenAIServer,
    anthropic_message,
    completion,
    gemini_content,
    status,
)
from tests.unit.cli.conftest import Ended, Run
from tests.unit.search.searching import World
from tests.unit.search.test_outage import design

N, SECONDS, LATE = 3, 3.0, 5.0
Act = Callable[[asyncio.StreamWriter], Awaitable[None]]
GOOD = {"": completion, "anthropic:": anthropic_message, "gemini:": gemini_content}


class RawServer:
    """Reads whole requests, counts them, and does with each what ``act`` says."""

    def __init__(self) -> None:
        self.act: Act = sends(b"")
        self.requests = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            self.requests += 1
            await self.act(writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


def sends(*parts: bytes) -> Act:
    async def act(writer: asyncio.StreamWriter) -> None:
        writer.write(b"".join(parts))

    return act


def http(
    body: bytes | str, *headers: str, status: str = "200 OK", length: int | None = None
) -> Act:
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    size = len(data) if length is None else length
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {size}", "Connection: close", *headers]
    return sends("\r\n".join(lines).encode() + b"\r\n\r\n", data)


def says(content: object, **message: object) -> Act:
    whole = {"choices": [{"message": {"content": content, **message}, "finish_reason": "stop"}]}
    return http(json.dumps(whole))


def drips(head: bytes, piece: bytes, pause: float) -> Act:
    """Never ends."""

    async def act(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)

    return act


async def silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def hangs_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


def bomb() -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(bytes(2**20)) for _ in range(200)) + packer.flush()


def with_usage(*counts: str) -> Act:
    said = '{"choices":[{"message":{"content":"ANSWER: A"}}],"usage":{"prompt_tokens":%s,"completion_tokens":%s}}'
    return http(said % counts)


FINE = completion("ANSWER: A").decode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
LATER = '{"error":{"message":"later"}}'
ACTS: dict[str, Act] = {
    # no HTTP
    "silence": silent,
    "hangs up": hangs_up,
    "closes at once": sends(b""),
    "noise": sends(bytes(range(256)) * 40),
    "TLS alert": sends(b"\x15\x03\x01\x00\x02\x02\x46"),
    "HTTP/0.9": sends(b"ANSWER: A\n"),
    "SSH": sends(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "status 99": http(FINE, status="99 Odd"),
    "status 999": http(FINE, status="999 Odd"),
    "status with letters": http(FINE, status="2OO OK"),
    "100 Continue for ever": drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05),
    "headers for ever": drips(b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"a" * 100 + b"\r\n", 0.05),
    "a header of 10 MB": sends(b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 10_000_000 + b"\r\n\r\n"),
    "drips a body": drips(HEAD + b"Content-Length: 9999\r\n\r\n", b" ", 0.2),
    "a body for ever": drips(HEAD + b"\r\n", b" " * 2**20, 0.0),
    "chunks for ever": drips(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", 0.05),
    "broken chunks": sends(HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n"),
    "promises more": http(FINE, length=10_000_000),
    "promises less": http(FINE, length=20),
    "a negative length": http(FINE, length=-5),
    "two lengths": http(FINE, "Content-Length: 7"),
    "gzip that is none": http(FINE, "Content-Encoding: gzip"),
    "a gzip bomb": http(bomb(), "Content-Encoding: gzip"),
    "an unknown encoding": http(FINE, "Content-Encoding: br, zstd, x"),
    "a cut gzip": http(gzip.compress(FINE.encode() * 99)[:-20], "Content-Encoding: gzip"),
    # statuses
    "204": http("", status="204 No Content"),
    "to itself": http("", "Location: /v1/chat/completions", status="307 Temporary Redirect"),
    "401": http(LATER, status="401 Unauthorized"),
    "402": http(LATER, status="402 Payment Required"),
    "404 in HTML": http("<html>" + "x" * 9999, status="404 Not Found"),
    "400 without words": http("", status="400 Bad Request"),
    "429 for a year": http(LATER, "Retry-After: 31536000", status="429 Too Many"),
    "429 for -5": http(LATER, "Retry-After: -5", status="429 Too Many"),
    "429 for nan": http(LATER, "Retry-After: nan", status="429 Too Many"),
    "429 for inf": http(LATER, "retry-after-ms: inf", status="429 Too Many"),
    "429 for digits": http(LATER, "Retry-After: " + "9" * 400, status="429 Too Many"),
    "429 for odd digits": http(LATER, "Retry-After: ²", status="429 Too Many"),
    "429 until the year 99999": http(
        LATER, "Retry-After: Fri, 31 Dec 99999 23:59:59 GMT", status="429 T"
    ),
    "500 in HTML": http("<html>", status="500 Oops"),
    "an error that quotes a list": http(
        '{"error":[{"message":{}}],"detail":[1,{}]}', status="422 No"
    ),
    "an error with a code of text": http('{"error":{"code":"x","message":7}}'),
    "an error with a huge code": http('{"error":{"code":' + "9" * 400 + "}}"),
    # bodies
    "no JSON": http("ANSWER: A"),
    "half of it": http(FINE[:40]),
    "a stream": http("data: " + FINE + "\n\ndata: [DONE]\n\n"),
    "UTF-16": http(FINE.encode("utf-16")),
    "a byte order mark": http("\ufeff" + FINE),
    "half a surrogate": http(b'{"choices":[{"message":{"content":"ANSWER: A \\ud83d"}}]}'),
    "no UTF-8": http(b'{"choices":[{"message":{"content":"\xff\xfe ANSWER: A"}}]}'),
    "NUL": says("\x00\x1b[2J ANSWER: A \x07"),
    "too deep": http("[" * 200_000),
    "deep": http('{"a":' * 50_000 + "1" + "}" * 50_000),
    "deep content": http('{"choices":[{"message":{"content":' + "[" * 900 + "]" * 900 + "}}]}"),
    "NaN": http('{"choices":NaN,"usage":Infinity}'),
    "a huge integer": http('{"choices":' + "9" * 10_000 + "}"),
    "a list": http("[]"),
    "null": http("null"),
    "no choices": http('{"choices":[]}'),
    "choices as an object": http('{"choices":{"0":{}}}'),
    "a choice that is null": http('{"choices":[null]}'),
    "a message that is a list": http('{"choices":[{"message":[]}]}'),
    "content that is a number": says(7),
    "content that is true": says(True),
    "content that is an object": says({"text": "ANSWER: A"}),
    "parts of parts": says([{"text": {"text": "A"}}, None, 7, [], {"type": "image_url"}]),
    "a refusal that is a list": says(None, refusal=[{}], reasoning_content={"a": 1}),
    "nothing": says(""),
    "10 MB": says("ANSWER: A\n" * 1_000_000),
    "a line of 10 MB": says("(" * 10_000_000),
    "negative tokens": with_usage("-5", "-7"),
    "huge tokens": with_usage("1e308", "9" * 300),
    "tokens of text": with_usage('"7"', "true"),
    "tokens that are lists": with_usage("[1]", "{}"),
    "an ending that is a list": http(
        '{"choices":[{"message":{"content":"ANSWER: A"},"finish_reason":["stop"]}]}'
    ),
}
OTHERS = {
    "anthropic:": {
        "content as text": http('{"content":"ANSWER: A"}'),
        "parts that are none": http('{"content":[null,7,{"type":"text","text":null}],"usage":[]}'),
        "an ending that is a number": http('{"content":[],"stop_reason":7}'),
    },
    "gemini:": {
        "candidates as an object": http('{"candidates":{}}'),
        "parts as an object": http('{"candidates":[{"content":{"parts":{}}}]}'),
        "a delay of a year": http(
            '{"error":{"code":429,"details":[{"retryDelay":"31536000s"}]}}', status="429 Too Many"
        ),
        "feedback that is a list": http('{"promptFeedback":[1],"candidates":[{"content":7}]}'),
    },
}
SHARED = (
    "silence",
    "drips a body",
    "no JSON",
    "too deep",
    "a huge integer",
    "a list",
    "429 for nan",
    "401",
)
CASES = [("", name, act) for name, act in ACTS.items()]
CASES += [(kind, name, act) for kind, acts in OTHERS.items() for name, act in acts.items()]
CASES += [(kind, name, ACTS[name]) for kind in OTHERS for name in SHARED]


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with RawServer() as running:
        yield running


def test_there_are_more_than_forty() -> None:
    assert len(ACTS) >= 40


@pytest.mark.thin(12)
@pytest.mark.parametrize(("kind", "name", "act"), CASES, ids=[f"{k}{n}" for k, n, _ in CASES])
def test_a_hostile_server_costs_time_within_the_limit_and_nothing_twice(
    noracle: Run,
    server: RawServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    name: str,
    act: Act,
) -> None:
    monkeypatch.chdir(tmp_path)
    for key in ("NORACLE", "OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE"):
        monkeypatch.delenv(f"{key}_API_KEY", raising=False)
    rows = [{"item": i, "text": f"Abstract {i}.", "options": ["x", "y"]} for i in range(N)]
    Path("items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def ask(*more: object) -> Any:
        server.requests, begun = 0, time.monotonic()
        ended = noracle(
            *("ask", "--items", "items.jsonl", "--model", f"{kind}m", "--base-url", server.url),
            *("--no-cache", "--out", "answers.csv", "--json", *more),
        )
        return ended, time.monotonic() - begun

    server.act = act
    limits = ("--max-seconds", SECONDS, "--timeout", 1, "--retries", 1)
    ended, seconds = ask(*limits)
    assert ended.code in (0, 3), (name, ended.err)
    assert seconds <= SECONDS + LATE
    assert "Traceback" not in ended.err
    assert ended.err or ended.code == 0
    with Cache.open("answers.run/calls.sqlite") as calls:
        stored = len(calls)
    assert ended.json["ledger"]["calls"] == stored  # what was counted as paid is kept
    # ----- and when the server is well again
    server.act = http(GOOD[kind]("ANSWER: A"))
    ended, _ = ask()
    assert ended.code == 0, ended.err
    assert server.requests == N - stored
    assert ended.json["ledger"]["calls"] == N
    assert ended.json["done"] == N
    assert ended.json["states"]["errored"] == 0


SEARCH = (
    *("search", "--items", "items.jsonl", "--judgements", "judgements.csv", "--json", "--yes"),
    *("--strategy", "adas", "--baseline", "direct", "--generations", 2, "--budget", 4000),
    *("--no-cache", "--model", "m", "--base-url"),
)


def write_world(world: World) -> None:
    """The items and labels of a world, here."""
    told = [{"item": i.id, "text": i.text, "options": i.options} for i in world.items]
    Path("items.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in told))
    rows = [f"{i},{k},no" for i, k in enumerate(world.ruled_out)]
    Path("judgements.csv").write_text("\n".join(["item,class,verdict", *rows]))


@pytest.mark.full
def test_a_command_whose_server_answers_503_gives_no_number_and_then_the_same_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noracle: Run
) -> None:
    """Over HTTP, from the first request, in the middle, and at the very last final item."""
    monkeypatch.chdir(tmp_path)
    world = World(40)
    write_world(world)

    def reply(body: dict[str, Any]) -> str:
        messages = tuple(Message(m["role"], m["content"]) for m in body["messages"])
        request = Request(messages=messages, seed=body.get("seed"))
        return world.reply(request) if "seed" in body else design(request)

    def find(out: str) -> Ended:
        return noracle(*SEARCH, server.url, "--retries", 0, "--out", out)

    with OpenAIServer(reply) as server:
        whole, journal = find("whole"), Path("whole", JOURNAL).read_bytes()
        assert whole.json["held_out"], whole.err
        n = len(server.seen)
        for at in (0, n // 3, 2 * n // 3, n - 1):
            server.reset()
            server.plan = [Fine()] * at + [status(503)] * n
            ended = find(f"{at}")
            assert ended.code == 3
            assert "503" in ended.err
            assert "goes on" in ended.err
            assert not ended.out or ended.json["held_out"] is ended.json["comparison"] is None
            assert journal.startswith(Path(f"{at}", JOURNAL).read_bytes())
            paid = sum(e.reply is not None for e in read_exchanges(Path(f"{at}", TRANSCRIPT)))
            server.reset()
            again = find(f"{at}")
            assert again.code == whole.code
            assert again.json["held_out"] == whole.json["held_out"], at
            assert Path(f"{at}", JOURNAL).read_bytes() == journal
            assert len(server.seen) == n - paid  # nothing is paid for twice


@pytest.mark.full
@pytest.mark.parametrize("name", ["silence", "drips a body", "429 for a year", "401"])
def test_a_search_on_a_hostile_server_stops_in_time_and_fails_fast(
    noracle: Run,
    server: RawServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_world(World(40))
    server.act, server.requests, begun = ACTS[name], 0, time.monotonic()
    ended = noracle(*SEARCH, server.url, "--max-seconds", SECONDS, "--timeout", 60, "--retries", 9)
    assert ended.code == 3, ended.err
    assert time.monotonic() - begun <= SECONDS + LATE
    assert "stopped: " in ended.err
    assert not ended.out or ended.json["held_out"] is None
    assert server.requests <= (3 if name[0] == "4" else 8)
