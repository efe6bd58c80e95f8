"""The client of servers that speak OpenAI's protocol, against a real server on this machine."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("httpx", reason="httpx is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from noracle.errors import ArgumentError
from noracle.search.backends import OpenAIModel, open_model
from noracle.search.caller import Cache, Caller, record
from noracle.search.model import Completion, Message, ModelError, Request, Usage
from tests.service.openai_server import (
    Act,
    OpenAIServer,
    completion,
    dropped,
    malformed,
    slow,
    status,
)

CANARY = "sk-canary-0123456789abcdef"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NORACLE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def running() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def server(running: OpenAIServer) -> OpenAIServer:
    running.reset()
    return running


def ask(text: str = "Which?", **fields: object) -> Request:
    return Request(messages=(Message("system", "Be brief."), Message("user", text)), **fields)


def once(model: OpenAIModel, request: Request | None = None) -> Completion:
    async def work() -> Completion:
        try:
            return await model.complete(request or ask())
        finally:
            await model.close()

    return asyncio.run(work())


async def closing(caller: Caller, *requests: Request) -> list[Completion]:
    async with caller:
        return await asyncio.gather(*(caller.call(request) for request in requests))


def called(
    server: OpenAIServer, *, timeout: float = 10, retries: int = 4
) -> tuple[Completion, Caller]:
    caller = Caller(
        OpenAIModel("m", base_url=server.url), backoff=0.01, timeout=timeout, retries=retries
    )
    return asyncio.run(closing(caller, ask()))[0], caller


def test_request_and_reply_are_what_the_protocol_says(server: OpenAIServer) -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    reply = once(
        OpenAIModel("m", base_url=server.url + "/"),
        ask(temperature=0.5, max_tokens=9, stop=("END",), seed=4, replicate=2, schema=schema),
    )
    assert reply == Completion(text="ANSWER: A", finish="stop", usage=Usage(11, 7))
    assert server.seen[0].body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Which?"},
        ],
        "temperature": 0.5,
        "max_tokens": 9,
        "stop": ["END"],
        "seed": 4,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": schema},
        },
    }
    assert "authorization" not in server.seen[0].headers


def test_429_with_retry_after_waits_as_told(server: OpenAIServer) -> None:
    server.plan += [status(429, {"Retry-After": "0.6"})]
    reply, caller = called(server)
    assert reply.text == "ANSWER: A"
    assert server.seen[1].at - server.seen[0].at >= 0.6
    assert (caller.ledger.calls, caller.ledger.retried, caller.ledger.failed) == (1, 1, 0)


def test_a_pause_the_server_asked_for_holds_the_other_calls(server: OpenAIServer) -> None:
    server.plan += [status(429, {"retry-after-ms": "600"}), slow(0.1)]
    caller = Caller(OpenAIModel("m", base_url=server.url), concurrency=2)
    asyncio.run(closing(caller, *(ask(replicate=i) for i in range(4))))
    assert [seen.at - server.seen[0].at >= 0.55 for seen in server.seen] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert caller.ledger.calls == 4


@pytest.mark.parametrize("header", ["Wed, 21 Oct 2015 07:28:00 GMT", "soon", "-5", "nan", ""])
def test_a_past_or_senseless_retry_after_does_no_harm(server: OpenAIServer, header: str) -> None:
    server.plan += [status(429, {"Retry-After": header})]
    reply, _ = called(server)
    assert reply.text == "ANSWER: A"


def test_a_server_that_asks_for_a_day_fails_the_call(server: OpenAIServer) -> None:
    server.plan += [status(429, {"Retry-After": "86400"})]
    with pytest.raises(ModelError, match="wait 86400 s"):
        called(server)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "act",
    [
        status(500),
        status(503),
        status(529),
        status(408),
        malformed(),
        malformed(b"[1]"),
        malformed(b"{}"),
        malformed(b'{"choices": []}'),
        malformed(b'{"choices": [null]}'),
        malformed(b'{"choices": [{"message": null}]}'),
        malformed(b'{"a":' * 100_000),
        malformed(b'{"choices": [{"index": ' + b"9" * 5000 + b"}]}"),
        malformed(b""),
        malformed(b"\xff\xfe"),
        dropped(),
    ],
    ids=[
        "500",
        "503",
        "529",
        "408",
        "json",
        "list",
        "empty",
        "choices",
        "null",
        "message",
        "deep",
        "long",
        "nothing",
        "bytes",
        "cut",
    ],
)
def test_failures_that_may_pass_are_tried_again(server: OpenAIServer, act: Act) -> None:
    server.plan += [act, act]
    reply, caller = called(server)
    assert reply.text == "ANSWER: A"
    assert (caller.ledger.calls, caller.ledger.retried) == (1, 2)


@pytest.mark.parametrize("code", [401, 402, 403, 404, 400, 301, 501])
def test_failures_that_stay_are_not_tried_again(server: OpenAIServer, code: int) -> None:
    server.plan += [status(code, {"Location": "https://elsewhere.example/"})]
    with pytest.raises(ModelError, match=str(code)):
        called(server)
    assert len(server.seen) == 1


def test_used_up_quota_is_not_tried_again(server: OpenAIServer) -> None:
    server.plan += [status(429, message="You exceeded your quota", code="insufficient_quota")]
    with pytest.raises(ModelError, match="quota"):
        called(server)
    assert len(server.seen) == 1


def test_after_the_last_try_the_error_is_raised_and_counted(server: OpenAIServer) -> None:
    server.plan += [status(500)] * 3
    with pytest.raises(ModelError, match="status 500"):
        called(server, retries=2)
    assert len(server.seen) == 3


def test_a_late_reply_is_a_failure_that_may_pass(server: OpenAIServer) -> None:
    server.plan += [slow(20.0)]
    reply, caller = called(server, timeout=1.0)
    assert reply.text == "ANSWER: A"
    assert caller.ledger.retried == 1
    assert caller.budget.used["calls"] == 2  # the late one may have been charged


def test_a_server_that_is_not_there_is_an_error_that_names_it() -> None:
    caller = Caller(OpenAIModel("m", base_url="http://127.0.0.1:9/v1"), retries=1, backoff=0.01)
    with pytest.raises(ModelError, match=r"m: no whole reply from http://127\.0\.0\.1:9/v1"):
        asyncio.run(closing(caller, ask()))
    assert (caller.ledger.failed, caller.ledger.retried) == (1, 1)


@pytest.mark.parametrize(
    ("content", "finish", "text"),
    [
        (b'{"choices": [{"message": {}}]}', "empty", ""),
        (completion(None), "empty", ""),
        (completion("  \n"), "empty", "  \n"),
        (completion("", finish="length"), "empty", ""),
        (completion("I think", finish="length"), "length", "I think"),
        (completion("", finish="content_filter"), "refused", ""),
        (completion("cut", finish="content_filter"), "refused", "cut"),
        (completion(None, refusal="I cannot help."), "refused", "I cannot help."),
        (completion("x", finish="tool_calls"), "stop", "x"),
        (
            json.dumps(
                {
                    "choices": [
                        {"message": {"content": [{"type": "text", "text": "par"}, {"text": "ts"}]}}
                    ]
                }
            ).encode(),
            "stop",
            "parts",
        ),
    ],
)
def test_how_a_reply_ended_is_kept(
    server: OpenAIServer, content: bytes, finish: str, text: str
) -> None:
    server.plan += [Act(content=content)]
    reply = once(OpenAIModel("m", base_url=server.url))
    assert (reply.finish, reply.text) == (finish, text)


def test_an_error_with_status_200_is_an_error(server: OpenAIServer) -> None:
    server.plan += [
        Act(content=json.dumps({"error": {"message": "upstream down", "code": 502}}).encode())
    ]
    with pytest.raises(ModelError, match="upstream down") as caught:
        once(OpenAIModel("m", base_url=server.url))
    assert caught.value.transient


@pytest.mark.parametrize("field", ["response_format", "seed", "stop", "temperature"])
def test_a_field_that_the_server_refuses_is_left_out_from_then_on(
    server: OpenAIServer, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuses.add(field)
    model = OpenAIModel("m", base_url=server.url)
    request = ask(seed=1, schema={"type": "object"}, stop=("END",))
    with caplog.at_level(logging.WARNING, logger="noracle"):
        assert once(model, request).text == "ANSWER: A"
    assert field in caplog.text
    assert [field in seen.body for seen in server.seen] == [True, False]
    assert set(server.seen[0].body) - set(server.seen[1].body) == {field}
    once(model, request)
    assert len(server.seen) == 3


def test_max_tokens_gives_way_to_its_newer_name(server: OpenAIServer) -> None:
    server.refuses.add("max_tokens")
    once(OpenAIModel("m", base_url=server.url), ask(max_tokens=77))
    assert server.seen[1].body["max_completion_tokens"] == 77


def test_a_refusal_that_names_no_field_is_tried_once_without_schema_and_seed(
    server: OpenAIServer,
) -> None:
    server.plan += [status(400, message="extra inputs are not permitted")] * 2
    with pytest.raises(ModelError, match="extra inputs"):
        once(OpenAIModel("m", base_url=server.url), ask(seed=1, schema={}))
    assert [sorted({"seed", "response_format"} & set(seen.body)) for seen in server.seen] == [
        ["response_format", "seed"],
        [],
    ]


def test_missing_usage_is_estimated_and_said() -> None:
    with OpenAIServer(usage=False) as server:
        reply, caller = called(server)
    assert reply.usage == Usage(4, 3)  # 15 and 9 characters
    assert caller.ledger.estimated == 1
    assert "estimated from characters" in str(caller.ledger)


@pytest.mark.parametrize("n", ["many", -3, 10**40, None, [1], 0.5])
def test_usage_that_is_nonsense_counts_as_missing(server: OpenAIServer, n: object) -> None:
    usage, choices = {"prompt_tokens": n, "completion_tokens": n}, [{"message": {"content": "A"}}]
    server.plan += [Act(content=json.dumps({"choices": choices, "usage": usage}).encode())]
    assert once(OpenAIModel("m", base_url=server.url)).usage == Usage()


def test_lone_surrogates_in_a_reply_reach_nobody(server: OpenAIServer) -> None:
    server.plan += [Act(content=completion("bad \ud83d end"))]
    reply, _ = called(server)
    assert reply.text.encode() == b"bad ? end"


def test_lone_surrogates_in_a_prompt_are_sent_and_addressed(server: OpenAIServer) -> None:
    request = ask("bad \ud83d end")
    assert len(request.digest("m")) == 64
    assert once(OpenAIModel("m", base_url=server.url), request).text == "ANSWER: A"


def test_concurrency_is_kept() -> None:
    with OpenAIServer(latency=0.05) as server:
        caller = Caller(OpenAIModel("m", base_url=server.url), concurrency=3)
        asyncio.run(closing(caller, *(ask(replicate=i) for i in range(12))))
    assert server.most_at_once == 3
    assert caller.ledger.usage == Usage(12 * 11, 12 * 7)


def test_one_model_serves_one_event_loop_after_another(server: OpenAIServer) -> None:
    caller = Caller(OpenAIModel("m", base_url=server.url), concurrency=1)
    for i in range(3):
        asyncio.run(closing(caller, ask(replicate=2 * i), ask(replicate=2 * i + 1)))
    assert caller.ledger.calls == 6


def test_a_reply_without_end_is_refused(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noracle.search.backends.server.LARGEST_REPLY", 1000)
    server.plan += [Act(content=b" " * 5000)]
    with pytest.raises(ModelError, match="larger"):
        once(OpenAIModel("m", base_url=server.url))


# Keys


@pytest.mark.parametrize(
    ("variable", "named"),
    [("NORACLE_API_KEY", None), ("OPENAI_API_KEY", None), ("MY_SERVER", "MY_SERVER")],
)
def test_the_key_comes_from_the_environment(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, variable: str, named: str | None
) -> None:
    monkeypatch.setenv(variable, f" {CANARY}\n")
    once(OpenAIModel("m", base_url=server.url, key_env=named))
    assert server.seen[0].headers["authorization"] == f"Bearer {CANARY}"


def test_our_variable_goes_before_openais_and_a_named_one_before_both(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "NORACLE_API_KEY", "NAMED"):
        monkeypatch.setenv(name, f"key-of-{name}")
    once(OpenAIModel("m", base_url=server.url))
    once(OpenAIModel("m", base_url=server.url, key_env="NAMED"))
    assert [seen.headers["authorization"] for seen in server.seen] == [
        "Bearer key-of-NORACLE_API_KEY",
        "Bearer key-of-NAMED",
    ]


def test_openais_key_goes_to_no_other_company(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    import httpx

    def sent(url: str, key_env: str | None = None) -> str | None:
        model = OpenAIModel("m", base_url=url, key_env=key_env)
        return model._sign(httpx.Request("POST", url)).headers.get("authorization")

    assert sent("https://api.openai.com/v1") == f"Bearer {CANARY}"
    assert sent("https://eu.api.openai.com/v1") == f"Bearer {CANARY}"
    assert sent("https://api.example.com/v1") is None
    assert sent("https://notopenai.com/v1") is None
    assert sent("https://openai.com.example.com/v1") is None
    assert sent("https://api.example.com/v1", "OPENAI_API_KEY") == f"Bearer {CANARY}"


@pytest.mark.parametrize(
    "host", ["example.com", "192.168.1.5:8080", "127.0.0.1.example.com", "[2001:db8::1]", "0.0.0.0"]
)
def test_a_key_is_never_sent_in_the_clear_to_another_machine(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    OpenAIModel("m", base_url=f"http://{host}/v1")  # without a key it is fine
    monkeypatch.setenv("NORACLE_API_KEY", CANARY)
    with pytest.raises(ArgumentError, match="https") as caught:
        OpenAIModel("m", base_url=f"http://{host}/v1")
    assert CANARY not in str(caught.value)


def test_a_key_that_is_set_later_is_not_sent_in_the_clear_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import httpx

    model = OpenAIModel("m", base_url="http://example.com/v1")
    monkeypatch.setenv("NORACLE_API_KEY", CANARY)
    assert (
        "authorization" not in model._sign(httpx.Request("POST", "http://example.com/v1")).headers
    )


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost:1", "[::1]:1", "api.localhost"])
def test_this_machine_may_have_a_key_without_https(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("NORACLE_API_KEY", CANARY)
    OpenAIModel("m", base_url=f"http://{host}/v1")


@pytest.mark.parametrize(
    "url",
    [
        f"https://user:{CANARY}@example.com/v1",
        f"https://example.com/v1?key={CANARY}",
        f"ftp://{CANARY}",
        "example.com/v1",
        "",
    ],
)
def test_addresses_with_secrets_or_without_sense_are_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NORACLE_API_KEY", CANARY)
    with pytest.raises(ArgumentError, match="base_url") as caught:
        OpenAIModel("m", base_url=url)
    assert CANARY not in str(caught.value)


def test_a_named_variable_must_be_set() -> None:
    with pytest.raises(ArgumentError, match="NOT_SET_AT_ALL"):
        open_model("m", base_url="http://127.0.0.1:1", key_env="NOT_SET_AT_ALL")


@pytest.mark.parametrize("code", [400, 401, 403, 404, 429, 500])
def test_a_server_that_shouts_the_key_back_is_not_quoted(
    server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
) -> None:
    monkeypatch.setenv("NORACLE_API_KEY", CANARY)
    server.plan += [status(code, message=f"Bad key {CANARY} in Bearer {CANARY}", code=CANARY)] * 2
    model = OpenAIModel("m", base_url=server.url)
    caller = Caller(model, retries=1, backoff=0.01)
    with caplog.at_level(logging.DEBUG), pytest.raises(ModelError) as caught:
        asyncio.run(closing(caller, ask()))
    assert server.seen[0].headers["authorization"] == f"Bearer {CANARY}"
    told = (
        "".join(traceback.format_exception(caught.value))
        + repr(caught.value)
        + repr(model)
        + repr(vars(model))
        + repr(vars(caller))
    )
    assert CANARY not in told + caplog.text
    assert (
        caught.value.__context__ is None or "httpx" not in type(caught.value.__context__).__module__
    )


@pytest.mark.parametrize("key", ["abc/def/0123456789", "sk-" + "k" * 290])
def test_an_escaped_or_cut_key_does_not_slip_through(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("NORACLE_API_KEY", key)
    escaped = "".join(f"\\u{ord(c):04x}" for c in key)
    server.plan += [
        Act(403, content=f'{{"error": {{"message": "{"x" * 100} {escaped}"}}}}'.encode())
    ]
    with pytest.raises(ModelError, match=r"\[key\]") as caught:
        once(OpenAIModel("m", base_url=server.url))
    assert key[:8] not in str(caught.value)


@pytest.mark.parametrize(
    "key", ["secret\nvalue-0123", "secret value", "sécret-0123456789", "secret\x7f0123"]
)
def test_a_key_that_cannot_stand_in_a_header_is_refused_and_not_quoted(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    model = OpenAIModel("m", base_url="http://127.0.0.1:9/v1")
    monkeypatch.setenv("NORACLE_API_KEY", key)
    for attempt in (lambda: OpenAIModel("m"), lambda: once(model)):
        with pytest.raises(ArgumentError, match="NORACLE_API_KEY") as caught:
            attempt()
        assert "cret" not in str(caught.value)
        assert key not in "".join(traceback.format_exception(caught.value))


def test_a_canary_in_the_key_is_in_no_prompt_no_cache_and_no_log(
    server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("NORACLE_API_KEY", CANARY)
    echo = Act(content=completion(f"Bearer {CANARY}"))
    server.plan += [
        echo,
        status(500, message=CANARY),
        echo,
        dropped(),
        status(404, message=CANARY),
        status(401, message=CANARY),
    ]
    lines: list[object] = []
    with caplog.at_level(logging.DEBUG), Cache.open(tmp_path / "run.sqlite") as run:
        model = OpenAIModel("m", base_url=server.url)
        caller = Caller(model, stores=(run,), backoff=0.001, concurrency=1, log=lines.append)

        async def work() -> list[Completion | BaseException]:
            async with caller:  # one after the other: what waits behind a refused key is not sent
                calls = [caller.call(ask(replicate=i)) for i in range(10)]
                every = [await asyncio.gather(call, return_exceptions=True) for call in calls]
                return [reply for [reply] in every]

        replies = asyncio.run(work())
        record(run, tmp_path / "run.jsonl")
        held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert sum(isinstance(reply, ModelError) for reply in replies) == 2
    assert all(seen.headers["authorization"] == f"Bearer {CANARY}" for seen in server.seen)
    told = (
        caplog.text
        + repr(replies)
        + repr(lines)
        + json.dumps([seen.body for seen in server.seen])
        + str(caller.ledger)
    )
    assert CANARY not in told
    assert CANARY.encode() not in held
    assert b"Bearer [key]" in held


def test_a_reply_that_holds_the_key_is_cleaned(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NORACLE_API_KEY", CANARY)
    server.plan += [Act(content=completion(f"Your key is {CANARY}."))]
    assert once(OpenAIModel("m", base_url=server.url)).text == "Your key is [key]."


def test_a_placeholder_key_spoils_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORACLE_API_KEY", "A")
    with OpenAIServer() as server:
        assert once(OpenAIModel("m", base_url=server.url)).text == "ANSWER: A"


def test_an_error_does_not_quote_what_was_sent(server: OpenAIServer) -> None:
    detail = [
        {"loc": ["body", "n"], "msg": "field required", "input": {"messages": "a private item"}}
    ]
    server.plan += [Act(422, content=json.dumps({"detail": detail}).encode())]
    with pytest.raises(ModelError, match="field required") as caught:
        once(OpenAIModel("m", base_url=server.url))
    assert "private" not in str(caught.value)


def test_redirects_are_not_followed(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORACLE_API_KEY", CANARY)
    server.plan += [status(307, {"Location": server.url + "/elsewhere"})]
    with pytest.raises(ModelError, match="final address"):
        once(OpenAIModel("m", base_url=server.url))
    assert len(server.seen) == 1
