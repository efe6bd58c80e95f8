"""Anthropic and Gemini over their own HTTP, against real servers on this machine that refuse what they
refuse.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

pytest.importorskip("httpx", reason="httpx is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from noracle.search.backends import kind_of, open_model
from noracle.search.backends.server import AnthropicModel, GeminiModel, OpenAIModel
from noracle.search.caller import Caller
from noracle.search.interpreter import run_workflow
from noracle.search.model import Completion, Message, ModelError, Request, Usage
from noracle.search.task import TaskItem, pose
from noracle.search.workflow import load_workflow
from tests.service.openai_server import (
    Act,
    OpenAIServer,
    anthropic_message,
    completion,
    gemini_content,
)

MODELS = {"openai": OpenAIModel, "anthropic": AnthropicModel, "gemini": GeminiModel}
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}
TURNS = (
    Message("system", "Be brief."),
    Message("user", "Which?"),
    Message("assistant", "So, the answer is:"),
)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NORACLE", "OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)


@pytest.fixture(scope="module", params=["anthropic", "gemini"])
def running(request: pytest.FixtureRequest) -> Iterator[tuple[str, OpenAIServer]]:
    with OpenAIServer(protocol=request.param) as server:
        yield request.param, server


@pytest.fixture
def spoken(running: tuple[str, OpenAIServer]) -> tuple[str, OpenAIServer]:
    running[1].reset()
    return running


def once(protocol: str, server: OpenAIServer, request: Request, *, n: int = 1) -> list[Completion]:
    async def work() -> list[Completion]:
        model = MODELS[protocol]("m", base_url=server.url)
        try:
            return [await model.complete(request) for _ in range(n)]
        finally:
            await model.close()

    return asyncio.run(work())


def ask(**fields: object) -> Request:
    return Request(messages=TURNS[:2], **fields)


def test_a_request_with_everything_is_what_the_protocol_says(
    spoken: tuple[str, OpenAIServer],
) -> None:
    protocol, server = spoken
    request = Request(
        messages=TURNS, temperature=1.5, max_tokens=9, stop=("END",), seed=4, schema=SCHEMA
    )
    assert once(protocol, server, request) == [Completion(text="ANSWER: A", usage=Usage(11, 7))]
    body = server.seen[0].body
    if protocol == "anthropic":
        assert body == {
            "model": "m",
            "system": "Be brief.",
            "messages": [
                {"role": "user", "content": "Which?"},
                {"role": "assistant", "content": "So, the answer is:"},
            ],
            "temperature": 1.0,
            "max_tokens": 9,
            "stop_sequences": ["END"],
            "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        }
        return
    assert body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Which?"}]},
            {"role": "model", "parts": [{"text": "So, the answer is:"}]},
        ],
        "generationConfig": {
            "temperature": 1.5,
            "maxOutputTokens": 9,
            "stopSequences": ["END"],
            "seed": 4,
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
        },
    }


@pytest.mark.parametrize("lacking", [0, 3])
def test_what_a_server_does_not_take_is_left_out_from_then_on(
    spoken: tuple[str, OpenAIServer], lacking: int
) -> None:
    protocol, server = spoken
    field = MODELS[protocol]._optional[lacking]
    server.refuses.add(field)
    replies = once(protocol, server, ask(schema=SCHEMA, seed=1), n=2)
    assert [reply.text for reply in replies] == ["ANSWER: A"] * 2
    bodies = [seen.body.get("generationConfig", seen.body) for seen in server.seen]
    assert [field in body for body in bodies] == [True, False, False]
    assert not any("responseMimeType" in body for body in bodies[1:] if lacking == 0)


def test_keys_go_in_the_header_of_the_protocol_and_nowhere_else(
    spoken: tuple[str, OpenAIServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol, server = spoken
    monkeypatch.setenv(f"{protocol.upper()}_API_KEY", "canary-0123456789")
    monkeypatch.setenv("OPENAI_API_KEY", "another-0123456789")
    once(protocol, server, ask())
    header = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}[protocol]
    assert server.seen[0].headers[header] == "canary-0123456789"
    assert "authorization" not in server.seen[0].headers
    assert "another" not in json.dumps(server.seen[0].headers)
    assert "canary" not in json.dumps(server.seen[0].body)
    away = MODELS[protocol]("m", base_url="https://models.example.org/v1")
    assert away._key() is None
    assert MODELS[protocol]("m")._key() == f"{protocol.upper()}_API_KEY"


@pytest.mark.parametrize(
    ("protocol", "content", "reply"),
    [
        ("anthropic", anthropic_message("B", stop="max_tokens"), ("B", "length")),
        ("anthropic", anthropic_message("", stop="refusal"), ("", "refused")),
        ("anthropic", anthropic_message("B", thought="A? No."), ("B", "stop")),
        ("anthropic", anthropic_message("", stop="max_tokens", thought="A? "), ("", "empty")),
        ("gemini", gemini_content("B", stop="MAX_TOKENS"), ("B", "length")),
        ("gemini", gemini_content("", stop="SAFETY"), ("", "refused")),
        ("gemini", gemini_content("B", thought="A? No."), ("B", "stop")),
        ("gemini", b'{"promptFeedback": {"blockReason": "SAFETY"}}', ("", "refused")),
        ("gemini", b'{"candidates": [{"finishReason": "MAX_TOKENS"}]}', ("", "empty")),
        ("openai", completion(None, reasoning_content="It is B."), ("It is B.", "stop")),
        ("openai", completion("", reasoning="It is B."), ("It is B.", "stop")),
        ("openai", completion("A", reasoning_content="It is B."), ("A", "stop")),
        ("openai", completion("", finish="length", reasoning_content="Hm, B"), ("", "empty")),
    ],
)
def test_how_a_reply_ended_and_that_thoughts_are_no_reply(
    protocol: str, content: bytes, reply: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with OpenAIServer(protocol=protocol) as server:
        server.plan += [Act(content=content)]
        [said] = once(protocol, server, ask())
    assert (said.text, said.finish) == reply
    starved = reply == ("", "empty") and b"finishReason" not in content
    assert ("--reply-tokens" in caplog.text) == starved


@pytest.mark.parametrize(
    ("protocol", "act", "stays", "after"),
    [
        (
            "anthropic",
            Act(529, content=b'{"type":"error","error":{"message":"Overloaded"}}'),
            False,
            None,
        ),
        (
            "anthropic",
            Act(401, content=b'{"type":"error","error":{"message":"invalid x-api-key"}}'),
            True,
            None,
        ),
        (
            "anthropic",
            Act(400, content=b'{"error":{"message":"Your credit balance is too low"}}'),
            True,
            None,
        ),
        ("anthropic", Act(429, {"retry-after": "7"}, b"{}"), False, 7.0),
        ("gemini", Act(503, content=b'{"error":{"code":503,"status":"UNAVAILABLE"}}'), False, None),
        (
            "gemini",
            Act(400, content=b'{"error":{"code":400,"message":"API key not valid. Pass one."}}'),
            True,
            None,
        ),
        (
            "gemini",
            Act(403, content=b'{"error":{"code":403,"status":"PERMISSION_DENIED"}}'),
            True,
            None,
        ),
        (
            "gemini",
            Act(429, content=b'{"error":{"code":429,"details":[{"retryDelay":"34.5s"}]}}'),
            False,
            34.5,
        ),
        ("gemini", Act(200, content=b'{"error":{"code":503,"message":"later"}}'), False, None),
        ("gemini", Act(200, content=b'{"candidates":[]}'), False, None),
        ("anthropic", Act(200, content=b'{"content":null}'), False, None),
    ],
)
def test_errors_that_pass_and_errors_that_stay(
    protocol: str, act: Act, stays: bool, after: float | None
) -> None:
    with OpenAIServer(protocol=protocol) as server:
        server.plan += [act]
        with pytest.raises(ModelError) as caught:
            once(protocol, server, ask())
    assert caught.value.stays is stays
    assert caught.value.transient is not stays
    assert not caught.value.refused
    assert caught.value.after == after


@pytest.mark.parametrize("name", ["cot", "self-refine", "budget-thought", "role"])
def test_workflows_run_on_every_protocol(spoken: tuple[str, OpenAIServer], name: str) -> None:
    """Roles, several turns and thoughts that are cut: nothing that a strict server refuses."""
    protocol, server = spoken
    workflow = load_workflow("cot" if name == "budget-thought" else name)
    if name == "budget-thought":
        data = workflow.to_dict()
        data["nodes"][0]["force_after"] = 5
        from noracle.search.workflow import parse_workflow

        workflow = parse_workflow(data)
    question = pose(TaskItem(id=1, text="Which is even?", options=("one", "two", "three")))
    caller = Caller(MODELS[protocol]("m", base_url=server.url), retries=0)

    async def work() -> str:
        async with caller:
            return (await run_workflow(workflow, question, caller)).state

    assert asyncio.run(work()) == "answered"


@pytest.mark.parametrize(
    ("spec", "kind", "name"),
    [
        ("anthropic:claude", "anthropic", "claude"),
        ("gemini:flash", "gemini", "flash"),
        ("llama3:8b", "", "llama3:8b"),
        ("anthropic", "", "anthropic"),
        ("qwen", "", "qwen"),
    ],
)
def test_models_are_named_by_kind(spec: str, kind: str, name: str) -> None:
    model = open_model(spec, base_url="http://127.0.0.1:9/v1")
    assert (kind_of(spec), model.name) == (kind, name)
    assert type(model) is MODELS[kind or "openai"]
    assert not getattr(open_model(spec), "local", True)
