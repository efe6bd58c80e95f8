"""Scripts, recordings, Inspect's models, and the words that name a model."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import noracle
from noracle.errors import ArgumentError, EvidenceError
from noracle.search.backends import (
    InspectModel,
    OpenAIModel,
    ReplayModel,
    ScriptedModel,
    open_model,
)
from noracle.search.caller import Cache, Caller, record
from noracle.search.model import Completion, Message, Model, ModelError, Request, Usage

pytestmark = pytest.mark.filterwarnings(
    "ignore:The 'initial' parameter is deprecated:DeprecationWarning"
)  # Inspect's, of tenacity


def ask(text: str = "Which?", replicate: int = 0) -> Request:
    return Request(
        messages=(Message("system", "Be brief."), Message("user", text)), replicate=replicate
    )


def once(model: Model, request: Request | None = None) -> Completion:
    return asyncio.run(model.complete(request or ask()))


# Scripts


def test_a_function_may_give_text_a_completion_or_an_error() -> None:
    assert once(ScriptedModel(lambda request: "yes")) == Completion(text="yes", usage=Usage(4, 1))
    whole = Completion(text="no", finish="refused", usage=Usage(1, 1))
    assert once(ScriptedModel(lambda request: whole)) == whole
    with pytest.raises(ModelError, match="down"):
        once(ScriptedModel(lambda request: ModelError("down")))


def test_an_empty_text_is_an_empty_reply() -> None:
    assert once(ScriptedModel(lambda request: " \n")).finish == "empty"


def test_a_list_is_given_in_turn_and_then_ends() -> None:
    model = ScriptedModel(["a", "b"])
    assert [once(model).text, once(model).text] == ["a", "b"]
    with pytest.raises(ModelError, match="2 replies"):
        once(model)


def test_rules_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    rules = [
        {"match": "(?i)capital of france", "reply": "ANSWER: A"},
        {"match": "Which", "reply": ["x", "y", "z"]},
    ]
    path.write_text(json.dumps({"name": "demo", "rules": rules, "otherwise": "ANSWER: B"}))
    model = open_model(f"script:{path}")
    assert model.name == "demo"
    assert once(model, ask("The Capital of France?")).text == "ANSWER: A"
    assert [once(model, ask(replicate=i)).text for i in (0, 1, 2, 3, 1)] == [
        "x",
        "y",
        "z",
        "x",
        "y",
    ]
    assert once(model, ask("Else")).text == "ANSWER: B"


def test_a_file_without_otherwise_says_that_nothing_matched(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('{"rules": [{"match": "a", "reply": "b"}]}')
    with pytest.raises(ModelError, match="No rule"):
        once(ScriptedModel.read(path), ask("zzz"))


def test_a_list_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('["one"]')
    assert once(ScriptedModel.read(path)).text == "one"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "[1]",
        "{}",
        '{"rules": 3}',
        '{"rules": [3]}',
        '{"rules": [{"match": "(", "reply": "x"}]}',
        '{"rules": [{"match": "a", "reply": []}]}',
        '{"rules": [{"match": "a"}]}',
        '{"rules": [], "otherwise": null}',
    ],
)
def test_a_file_that_is_no_script_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=r"script must be .*script\.json") as caught:
        open_model(f"script:{path}")
    assert "\n" not in str(caught.value)


# Recordings


def recorded(tmp_path: Path, names: Sequence[str] = ("m",)) -> Path:
    with Cache.open(tmp_path / "calls.sqlite") as cache:
        for name in names:
            caller = Caller(
                ScriptedModel(lambda request, name=name: f"{name} {request.replicate}", name=name),
                stores=(cache,),
            )  # type: ignore[misc]
            for i in range(3):
                asyncio.run(caller.call(ask(replicate=i)))
        record(cache, tmp_path / "run.jsonl")
    return tmp_path / "run.jsonl"


def test_a_recording_is_replayed_exactly(tmp_path: Path) -> None:
    model = open_model(f"replay:{recorded(tmp_path)}")
    assert model.name == "m"
    caller = Caller(model)
    reply = asyncio.run(caller.call(ask(replicate=2)))
    assert (reply.text, reply.finish, reply.usage) == ("m 2", "stop", Usage(4, 1))


def test_a_call_that_was_not_recorded_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"not in the recording 'run\.jsonl'") as caught:
        once(ReplayModel(recorded(tmp_path)), ask("another item"))
    assert not caught.value.transient
    assert "another item" not in str(caught.value)


def test_a_recording_of_two_models_needs_a_name(tmp_path: Path) -> None:
    path = recorded(tmp_path, ("m", "n/x"))
    with pytest.raises(EvidenceError, match="m, n/x"):
        open_model(f"replay:{path}")
    with pytest.raises(EvidenceError, match="'z'"):
        open_model(f"replay:{path}#z")
    assert once(open_model(f"replay:{path}#n/x"), ask(replicate=1)).text == "n/x 1"


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '{"digest": "d"}', '{"digest": "d", "model": "m", "text": 3, "finish": "stop"}'],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    path = recorded(tmp_path)
    path.write_text(path.read_text() + "\n" + line + "\n")
    with pytest.raises(EvidenceError, match="line 5"):
        ReplayModel(path)


def test_recordings_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="No such file"):
        ReplayModel(tmp_path / "none.jsonl")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(EvidenceError, match="UTF-8"):
        ReplayModel(tmp_path / "bytes")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(EvidenceError, match="none"):
        ReplayModel(tmp_path / "empty")


def test_line_separators_inside_a_reply_break_no_line(tmp_path: Path) -> None:
    with Cache.open(tmp_path / "calls.sqlite") as cache:
        cache.put(ask().digest("m"), "m", Completion(text="a\u2028b\x85c\rd", usage=Usage(1, 1)))
        record(cache, tmp_path / "run.jsonl")
    assert once(ReplayModel(tmp_path / "run.jsonl")).text == "a\u2028b\x85c\rd"


# Words


def test_a_plain_name_is_a_model_on_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    model = open_model("gpt-x")
    assert isinstance(model, OpenAIModel)
    assert (model.name, model.base_url) == ("gpt-x", "https://api.openai.com/v1")
    assert open_model("llama3:8b", base_url="http://127.0.0.1:1/v1").name == "llama3:8b"


@pytest.mark.thin(2)
@pytest.mark.parametrize("spec", ["script:", "replay:", "inspect:", "", "  ", "inspect:gpt"])
def test_words_that_name_no_model_are_refused(spec: str) -> None:
    with pytest.raises(ArgumentError, match="model"):
        open_model(spec)


def test_an_address_for_something_that_is_no_server_is_refused() -> None:
    with pytest.raises(ArgumentError, match="base_url"):
        open_model("script:x.json", base_url="http://127.0.0.1:1/v1")


def test_httpx_and_inspect_are_imported_only_where_they_are_used() -> None:
    code = (
        "import sys; from noracle.search.backends import open_model; from noracle.search.caller import Caller;"
        "open_model('m', base_url='http://127.0.0.1:1/v1');"
        "print([m for m in ('httpx', 'inspect_ai', 'pydantic', 'scipy') if m in sys.modules])"
    )
    source = str(Path(noracle.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": source},
    )
    assert done.stdout.strip() == "[]"


def test_nothing_here_runs_text_as_code() -> None:
    folder = Path(noracle.__file__).parent / "search"
    files = [
        *(folder / "backends").glob("*.py"),
        folder / "journal.py",
        folder / "budget.py",
        folder / "caller.py",
    ]
    assert len(files) >= 7
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile", "__import__"}, file
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                assert not {"pickle", "marshal", "shelve", "dill"} & set(names), file


# Inspect


def mocked(*outputs: tuple[str, str, tuple[int, int, int] | None]) -> InspectModel:
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    made = []
    for text, stop, usage in outputs:
        output = ModelOutput.from_content("mockllm/model", text, stop_reason=stop)  # type: ignore[arg-type]
        ins, cached, outs = usage or (0, 0, 0)
        output.usage = ModelUsage(
            input_tokens=ins, output_tokens=outs, input_tokens_cache_read=cached
        )  # always set: else it downloads
        made.append(output)
    return InspectModel(get_model("mockllm/model", custom_outputs=made, memoize=False))


def test_inspect_gives_text_tokens_and_how_it_ended() -> None:
    model = mocked(
        ("ANSWER: A", "stop", (20, 5, 3)),
        ("cut", "max_tokens", (1, 0, 1)),
        ("", "stop", (1, 0, 0)),
        ("no", "content_filter", (1, 0, 1)),
    )
    replies = [once(model) for _ in range(4)]
    assert replies[0] == Completion(
        text="ANSWER: A", usage=Usage(25, 3)
    )  # tokens read from the provider's cache are tokens
    assert [reply.finish for reply in replies] == ["stop", "length", "empty", "refused"]
    assert model.name == "mockllm/model"


def test_inspect_is_told_every_setting() -> None:
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    seen = []

    def reply(messages: object, tools: object, choice: object, config: object) -> ModelOutput:
        seen.append((messages, config))
        output = ModelOutput.from_content("mockllm/model", "x")
        output.usage = ModelUsage(input_tokens=1, output_tokens=1)
        return output

    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    request = Request(
        messages=(Message("system", "s"), Message("user", "u")),
        temperature=0.5,
        max_tokens=9,
        stop=("E",),
        seed=4,
        schema=schema,
    )
    once(InspectModel(get_model("mockllm/model", custom_outputs=reply, memoize=False)), request)
    (messages, config) = seen[0]
    assert [(m.role, m.text) for m in messages] == [("system", "s"), ("user", "u")]
    assert (
        config.temperature,
        config.max_tokens,
        config.stop_seqs,
        config.seed,
        config.max_retries,
    ) == (0.5, 9, ["E"], 4, 0)
    assert "answer" in config.response_schema.json_schema.properties


def test_inspects_mock_by_name_needs_no_network() -> None:
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    reply = once(open_model("inspect:mockllm/model"))
    assert reply.text == "Default output from mockllm/model"
    assert reply.usage == Usage(1, 6)


def test_a_provider_that_inspect_cannot_open_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    with pytest.raises(ArgumentError, match="Inspect can open") as caught:
        open_model("inspect:nobody/model")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "transient"),
    [("rate limit reached", True), ("Connection reset", True), ("unknown model", False)],
)
def test_errors_of_a_provider_are_ours_and_hold_no_key(
    monkeypatch: pytest.MonkeyPatch, said: str, transient: bool
) -> None:
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    from inspect_ai.model import get_model

    monkeypatch.setenv("SOME_PROVIDER_API_KEY", "canary-0123456789")

    def reply(*_: object) -> None:
        raise RuntimeError(f"{said} with canary-0123456789")

    with pytest.raises(ModelError, match=said) as caught:
        once(InspectModel(get_model("mockllm/model", custom_outputs=reply, memoize=False)))
    assert caught.value.transient is transient
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None
