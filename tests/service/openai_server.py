"""A real server on 127.0.0.1 that speaks OpenAI's chat protocol (or, with ``protocol=``, Anthropic's
or Gemini's, as strictly as they do) and misbehaves on demand.

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


def anthropic_message(
    text: str, *, stop: str = "end_turn", usage: tuple[int, int] = (11, 7), thought: str = ""
) -> bytes:
    """A message as Anthropic words it."""
    parts: list[Body] = (
        [{"type": "thinking", "thinking": thought, "signature": "x"}] if thought else []
    )
    parts += [{"type": "text", "text": text}] if text else []
    tokens = {"input_tokens": usage[0], "output_tokens": usage[1], "cache_read_input_tokens": None}
    whole = {"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": parts}
    return json.dumps(
        {**whole, "stop_reason": stop, "stop_sequence": None, "usage": tokens}
    ).encode()


def gemini_content(
    text: str, *, stop: str = "STOP", usage: tuple[int, int] = (11, 7), thought: str = ""
) -> bytes:
    """A reply as Gemini words it; thoughts are counted apart."""
    parts: list[Body] = [{"text": thought, "thought": True}] if thought else []
    parts += [{"text": text}] if text else []
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": stop, "index": 0}
    thinking = {"thoughtsTokenCount": 3, "candidatesTokenCount": usage[1] - 3}
    tokens = {"promptTokenCount": usage[0], "totalTokenCount": sum(usage), **thinking}
    return json.dumps({"candidates": [candidate], "usageMetadata": tokens}).encode()


def strictly_openai(body: Body, headers: dict[str, str]) -> Act | None:
    """Other fields are the business of each test."""
    return None


def strictly_anthropic(body: Body, headers: dict[str, str]) -> Act | None:
    """What the messages protocol refuses."""
    fields = [
        "model",
        "messages",
        "max_tokens",
        "system",
        "temperature",
        "stop_sequences",
        "output_config",
    ]
    roles = [turn.get("role") for turn in body.get("messages", [])]
    wrong = [name for name in body if name not in fields]
    said = ""
    if wrong:
        said = f"{wrong[0]}: Extra inputs are not permitted"
    elif not {"model", "messages", "max_tokens"} <= set(body):
        said = "max_tokens: Field required"
    elif not 0 <= body.get("temperature", 1) <= 1:
        said = "temperature: range: 0..1"
    elif not set(roles) <= {"user", "assistant"} or roles[:1] != ["user"]:
        said = 'messages: Unexpected role "system".'
    elif "anthropic-version" not in headers and "x-api-key" in headers:
        said = "anthropic-version: header is required"
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    return Act(400, content=json.dumps(error).encode()) if said else None


def strictly_gemini(body: Body, headers: dict[str, str]) -> Act | None:
    """What generateContent refuses."""
    fields = [
        "temperature",
        "maxOutputTokens",
        "stopSequences",
        "seed",
        "responseMimeType",
        "responseJsonSchema",
    ]
    settings = body.get("generationConfig", {})
    where = [
        (n, "") for n in body if n not in ("contents", "systemInstruction", "generationConfig")
    ]
    where += [(n, " at 'generation_config'") for n in settings if n not in fields]
    said = "".join(
        f'Invalid JSON payload received. Unknown name "{n}"{at}: Cannot find field.'
        for n, at in where
    )
    roles = {turn.get("role") for turn in body.get("contents", [])}
    if not roles or not roles <= {"user", "model"}:
        said = "Please use a valid role: user, model."
    if "responseJsonSchema" in settings and settings.get("responseMimeType") != "application/json":
        said = "Response schema needs the MIME type application/json."
    error = {"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}
    return Act(400, content=json.dumps(error).encode()) if said else None


PROTOCOLS: dict[str, tuple[str, Callable[..., bytes], Callable[..., Act | None]]] = {
    "openai": ("/v1/chat/completions", completion, strictly_openai),
    "anthropic": ("/v1/messages", anthropic_message, strictly_anthropic),
    "gemini": ("/v1/models/m:generateContent", gemini_content, strictly_gemini),
}


class OpenAIServer:
    """Serves until the ``with`` block ends."""

    def __init__(
        self,
        reply: Callable[[Body], str] = lambda body: "ANSWER: A",
        *,
        protocol: str = "openai",
        latency: float = 0.0,
        usage: bool = True,
    ) -> None:
        self.reply, self.latency, self.usage = reply, latency, usage
        self.path, self.worded, self.strictly = PROTOCOLS[protocol]
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
            await self._answer(scope["path"], body, headers, send)
        finally:
            self.now -= 1

    async def _answer(self, path: str, body: Body, headers: dict[str, str], send: Send) -> None:
        bad = sorted(self.refuses & {*body, *body.get("generationConfig", {})})
        if path != self.path:
            act = status(404, message=f"no {path}")
        elif bad:
            act = status(400, message=f"Unknown parameter: '{bad[0]}'.", param=bad[0])
        elif (refused := self.strictly(body, headers)) is not None:
            act = refused
        else:
            act = self.plan.pop(0) if self.plan else Act()
        await asyncio.sleep(act.seconds or self.latency)
        content = act.content
        if content is None:
            content = self.worded(self.reply(body), **({} if self.usage else {"usage": None}))
        length = len(content) + (1000 if act.cut else 0)
        fixed = [(b"content-type", b"application/json"), (b"content-length", str(length).encode())]
        named = [(name.encode(), value.encode()) for name, value in act.headers.items()]
        await send({"type": "http.response.start", "status": act.status, "headers": fixed + named})
        await send({"type": "http.response.body", "body": content})


if __name__ == "__main__":
    with OpenAIServer(latency=0.01) as running:
        print(running.url, flush=True)  # noqa: T201
        threading.Event().wait()
