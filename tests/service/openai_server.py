"""A real server on 127.0.0.1 that speaks OpenAI's chat protocol and misbehaves on demand.

    with OpenAIServer(reply=lambda body: "ANSWER: A") as server:
        server.plan.append(status(429, {"Retry-After": "1"}))   # what happens to the next request; after the plan: fine replies
        server.refuses.add("seed")                              # status 400 for requests with this field
        ...  OpenAIModel("m", base_url=server.url) ...
        server.seen                                             # bodies and headers that came

As a process of its own, for tests that kill others: ``python openai_server.py`` prints its address.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Self

import uvicorn

Body = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclasses.dataclass(frozen=True)
class Seen:
    """A request that came."""

    body: Body
    headers: dict[str, str]
    at: float


@dataclasses.dataclass(frozen=True)
class Act:
    """What the server does with one request. ``cut``: it promises more bytes than it sends and
    hangs up.
    """

    status: int = 200
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    content: bytes | None = None
    seconds: float = 0.0
    cut: bool = False


def status(
    code: int, headers: dict[str, str] | None = None, /, *, message: str = "not now", **error: str
) -> Act:
    """An error as OpenAI words it."""
    return Act(code, headers or {}, json.dumps({"error": {"message": message, **error}}).encode())


def slow(seconds: float) -> Act:
    """A fine reply, late."""
    return Act(seconds=seconds)


def malformed(content: bytes = b'{"choices": [{"mess') -> Act:
    """Status 200 and something that is no completion."""
    return Act(content=content)


def dropped() -> Act:
    """A connection that is cut in the middle of the reply."""
    return Act(content=b'{"choices": [', cut=True)


def completion(
    text: str | None,
    *,
    finish: str = "stop",
    usage: tuple[int, int] | None = (11, 7),
    **message: object,
) -> bytes:
    """A completion as OpenAI words it."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, **message},
        "finish_reason": finish,
    }
    whole: Body = {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}
    if usage is not None:
        whole["usage"] = {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        }
    return json.dumps(whole).encode()


class OpenAIServer:
    """Serves until the ``with`` block ends."""

    def __init__(
        self,
        reply: Callable[[Body], str] = lambda body: "ANSWER: A",
        *,
        latency: float = 0.0,
        usage: bool = True,
    ) -> None:
        self.reply, self.latency, self.usage = reply, latency, usage
        self.reset()
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._app,
                host="127.0.0.1",
                port=0,
                log_level="critical",
                interface="asgi3",
                lifespan="off",
                ws="none",
                http="h11",
                loop="asyncio",
            )
        )
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def reset(self) -> None:
        """Forget what came and what was planned."""
        self.plan: list[Act] = []
        self.refuses: set[str] = set()
        self.seen: list[Seen] = []
        self.now = self.most_at_once = 0

    @property
    def url(self) -> str:
        """The base address, up to and with ``/v1``."""
        return f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(timeout=10)

    async def _app(
        self, scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]], send: Send
    ) -> None:
        raw = b""
        while True:
            event = await receive()
            raw += event.get("body", b"")
            if not event.get("more_body"):
                break
        body = json.loads(raw or b"{}")
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.seen.append(Seen(body, headers, time.monotonic()))
        self.now += 1
        self.most_at_once = max(self.most_at_once, self.now)
        try:
            await self._answer(scope["path"], body, send)
        finally:
            self.now -= 1

    async def _answer(self, path: str, body: Body, send: Send) -> None:
        bad = sorted(self.refuses & set(body))
        if path != "/v1/chat/completions":
            act = status(404, message=f"no {path}")
        elif bad:
            act = status(400, message=f"Unknown parameter: '{bad[0]}'.", param=bad[0])
        else:
            act = self.plan.pop(0) if self.plan else Act()
        await asyncio.sleep(act.seconds or self.latency)
        content = act.content
        if content is None:
            content = completion(self.reply(body), usage=(11, 7) if self.usage else None)
        length = len(content) + (1000 if act.cut else 0)
        fixed = [(b"content-type", b"application/json"), (b"content-length", str(length).encode())]
        named = [(name.encode(), value.encode()) for name, value in act.headers.items()]
        await send({"type": "http.response.start", "status": act.status, "headers": fixed + named})
        await send({"type": "http.response.body", "body": content})


if __name__ == "__main__":
    with OpenAIServer(latency=0.01) as running:
        print(running.url, flush=True)  # noqa: T201
        threading.Event().wait()
