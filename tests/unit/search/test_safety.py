"""Model text is never run, and what the vault holds never leaves it."""

from __future__ import annotations

import ast
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

import noracle
from noracle.search.task import draws

SOURCE = Path(noracle.__file__).parent
FILES = sorted([*(SOURCE / "search").rglob("*.py"), *(SOURCE / "cli").rglob("*.py")])
RUNS = {"exec", "eval", "compile", "__import__", "execfile", "breakpoint"}
MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "code",
    "codeop",
    "runpy",
    "ctypes",
    "imp",
    "builtins",
}
STARTS = {
    "spawnl",
    "spawnv",
    "execv",
    "execve",
    "execl",
    "create_subprocess_exec",
    "create_subprocess_shell",
}
STARTERS = {"subprocess", "multiprocessing"}


def faults(text: str) -> list[str]:
    """What in a source file could run text that it was given."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and node.id in RUNS:
            found.append(f"{node.lineno}: {node.id}")
        elif isinstance(node, ast.Import) and any(
            a.name.split(".")[0] in MODULES for a in node.names
        ):
            found.append(f"{node.lineno}: import")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            found.append(f"{node.lineno}: from {node.module}")
        elif (
            isinstance(node, ast.Attribute)
            and node.attr in {"system", "popen"}
            and isinstance(node.value, ast.Name)
            and node.value.id == "os"
        ):
            found.append(f"{node.lineno}: os.{node.attr}")
        elif isinstance(node, ast.Attribute) and (
            node.attr in STARTS or node.attr in RUNS - {"compile"}
        ):
            found.append(f"{node.lineno}: .{node.attr}")
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "import_module"
            and not _constant(node)
        ):
            found.append(f"{node.lineno}: import_module of a name that is not a constant")
        elif (
            isinstance(node, ast.Attribute)
            and node.attr == "compile"
            and not (isinstance(node.value, ast.Name) and node.value.id == "re")
        ):
            found.append(f"{node.lineno}: .compile")
        elif isinstance(node, ast.Attribute) and node.attr in {
            "__globals__",
            "__builtins__",
            "__subclasses__",
            "__code__",
        }:
            found.append(f"{node.lineno}: .{node.attr}")
        elif (
            isinstance(node, ast.keyword)
            and node.arg == "allow_pickle"
            and not _is(node.value, False)
        ):
            found.append(f"{node.value.lineno}: allow_pickle")
        elif (
            isinstance(node, ast.keyword)
            and node.arg == "weights_only"
            and not _is(node.value, True)
        ):
            found.append(f"{node.value.lineno}: weights_only")
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"format", "format_map"}
        ):
            if not isinstance(
                node.func.value, ast.Constant
            ):  # a template that came from elsewhere may reach into objects
                found.append(f"{node.lineno}: .{node.func.attr} of a text that is not a constant")
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "getattr"
            and not _plain_name(node)
        ):
            found.append(f"{node.lineno}: getattr of a name that is not plain")
    return found


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _constant(call: ast.Call) -> bool:
    """A constant, or an entry of ``_HOME``, the table of the package's own modules that is written
    out beside it.
    """
    if not call.args:
        return False
    name = call.args[0]
    return isinstance(name, ast.Constant) or (
        isinstance(name, ast.Subscript)
        and isinstance(name.value, ast.Name)
        and name.value.id == "_HOME"
    )


def _plain_name(call: ast.Call) -> bool:
    """A constant, or the name of a field or of a loop over constants; never a subscript, a call or
    a sum of texts.
    """
    return isinstance(call.args[1], (ast.Constant, ast.Name)) or (
        isinstance(call.args[1], ast.Attribute) and call.args[1].attr == "name"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_file_can_run_text_that_it_was_given(path: Path) -> None:
    assert faults(path.read_text(encoding="utf-8")) == []


def test_search_starts_no_process_and_opens_no_template() -> None:
    for path in sorted((SOURCE / "search").rglob("*.py")):
        imported = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            for name in (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert not imported & (STARTERS | {"jinja2", "yaml"}), path


@pytest.mark.parametrize(
    "bad",
    [
        "exec(text)",
        "eval(reply)",
        "compile(reply, 'x', 'exec')",
        "__import__(reply)",
        "import pickle",
        "from pickle import loads",
        "import os\nos.system(reply)",
        "import importlib\nimportlib.import_module(reply)",
        "run = eval",
        "import builtins\nbuiltins.exec(reply)",
        "np.load(f, allow_pickle=True)",
        "torch.load(f, weights_only=False)",
        "template.format(answer=reply)",
        "getattr(module, 'e' + 'val')",
        "f.__globals__",
        "code.compile(reply)",
        "prompt.format_map(state)",
        "getattr(x, words[0])",
    ],
)
def test_the_check_sees(bad: str) -> None:
    assert faults(bad)


KEY = "CANARY-KEY-5b1e"
API_KEY = "sk-canary-9c27d1"
TEXT = "Which stone is this"
N, K = 36, 4


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Items with a hidden key, and judgements whose further columns hold it too."""
    rng = draws("canary")
    items, judgements = [], []
    for i in range(N):
        truth = int(rng.integers(K))
        options = [f"stone {i}.{k}" for k in range(K)]
        items.append(
            {
                "item": i,
                "text": f"{TEXT}, number {i}?",
                "options": options,
                "answer": KEY,
                "key": f"{KEY}-{truth}",
                "explanation": KEY,
            }
        )
        judgements.append(
            {
                "item": i,
                "class": int(truth + rng.integers(1, K)) % K,
                "verdict": "no",
                "rater": f"{KEY}-rater",
                "at": f"{KEY}-at",
                "truth": KEY,
                "comment": KEY,
            }
        )
    for name, rows in (("items", items), ("judgements", judgements)):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NORACLE_CACHE", str(tmp_path / "cache" / "calls.sqlite"))
    monkeypatch.setenv("NORACLE_API_KEY", API_KEY)
    return tmp_path


def reply(body: dict[str, Any]) -> str:
    """A model that answers, and a designer that proposes."""
    if "design workflows" in body["messages"][0]["content"]:
        word = f"w{int(draws('designer', json.dumps(body['messages'])).integers(10**9))}"
        nodes = [
            {"kind": "ask", "id": "a", "prompt": {"instruction": f"Look closely {word}."}},
            {"kind": "answer", "input": "a"},
        ]
        whole = {"schema": "workflow/1", "name": word, "nodes": nodes}
        return json.dumps({"thought": "so", "change": f"new words {word}", "workflow": whole})
    return f"ANSWER: {'ABCD'[int(draws('model', json.dumps(body['messages'])).integers(K))]}"


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    "strategy", ["adas", "aflow", pytest.param("mutate", marks=pytest.mark.slow)]
)
def test_a_canary_in_the_key_appears_nowhere_in_a_full_search(
    folder: Path,
    strategy: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    pytest.importorskip("httpx", reason="httpx is not installed")
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    from noracle import cli
    from noracle.cli import search as verb
    from tests.service.openai_server import OpenAIServer

    if "search" not in {command.name for command in cli.app.registered_commands}:
        cli.app.command("search", epilog=verb.EXAMPLE)(verb.command)
    given = [
        "search",
        "--items",
        "items.jsonl",
        "--judgements",
        "judgements.jsonl",
        "--model",
        "m",
        "--strategy",
        strategy,
        "--budget",
        "2500",
        "--generations",
        "4",
        "--out",
        "run",
        "--html",
        "run.html",
        "--yes",
        "-vv",
    ]
    with OpenAIServer(reply) as server, caplog.at_level(logging.DEBUG):
        code = cli.run([*given, "--base-url", server.url])
        seen = list(server.seen)
    said = capsys.readouterr()
    assert code in (0, 3), said.err
    designed = [s for s in seen if "design workflows" in s.body["messages"][0]["content"]]
    assert bool(designed) == (strategy != "mutate")
    assert len(seen) > 100
    prompts = "\n".join(json.dumps(s.body) for s in seen)
    assert TEXT in prompts, "the test must look at prompts that hold items"
    inside = {
        str(p.relative_to(folder)): p.read_bytes()
        for d in ("run", "cache")
        for p in (folder / d).rglob("*")
        if p.is_file()
    }
    assert {
        "run/journal.jsonl",
        "run/archive.json",
        "run/calls.sqlite",
        "run/winner.json",
        "cache/calls.sqlite",
    } <= inside.keys()
    texts = {
        "prompts": prompts,
        "page": (folder / "run.html").read_text(encoding="utf-8"),
        "stdout": said.out,
        "stderr": said.err,
        "log": caplog.text,
        **{name: data.decode("utf-8", "replace") for name, data in inside.items()},
    }
    for where, text in texts.items():
        assert "canary" not in text.lower(), where
    for where in (
        "run/journal.jsonl",
        "run/archive.json",
        "run/calls.sqlite",
        "cache/calls.sqlite",
        "page",
        "stdout",
        "log",
    ):
        assert TEXT not in texts[where], where


@pytest.mark.full
def test_a_designer_hears_of_no_item_outside_validation_and_of_no_label(folder: Path) -> None:
    """What a designer is told of items: ids and texts of validation items that failed, and the
    option that it chose itself.
    """
    pytest.importorskip("httpx", reason="httpx is not installed")
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    from noracle import cli
    from noracle.cli import search as verb
    from tests.service.openai_server import OpenAIServer

    if "search" not in {command.name for command in cli.app.registered_commands}:
        cli.app.command("search", epilog=verb.EXAMPLE)(verb.command)
    with OpenAIServer(reply) as server:
        cli.run(
            [
                "search",
                "--items",
                "items.jsonl",
                "--judgements",
                "judgements.jsonl",
                "--model",
                "m",
                "--strategy",
                "adas",
                "--budget",
                "2500",
                "--generations",
                "4",
                "--out",
                "run",
                "--yes",
                "-q",
                "--base-url",
                server.url,
            ]
        )
        told = [
            s.body["messages"][1]["content"]
            for s in server.seen
            if "design workflows" in s.body["messages"][0]["content"]
        ]
    settings = json.loads(
        (folder / "run" / "journal.jsonl").read_text(encoding="utf-8").splitlines()[0]
    )["settings"]
    named = {int(i) for text in told for i in re.findall(rf"{TEXT}, number (\d+)\?", text)}
    assert named
    assert named <= set(settings["split"]["validation"])
    ruled = {
        row["item"]: row["class"]
        for row in map(
            json.loads, (folder / "judgements.jsonl").read_text(encoding="utf-8").splitlines()
        )
    }
    for item, letter in {
        (int(i), k)
        for text in told
        for i, k in re.findall(r"item (\d+): an expert excluded option ([A-D])", text)
    }:
        assert "ABCD"[ruled[item]] == letter
