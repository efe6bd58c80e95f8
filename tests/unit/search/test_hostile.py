"""Workflows that are hostile or malformed: each is refused with one line, fast, and nothing of it
is run.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from noracle.search.workflow import WorkflowError, parse_workflow, parse_workflow_text

Change = Callable[[dict[str, Any]], object]

ASK = {"kind": "ask", "id": "thought", "prompt": {"instruction": "Think."}}
LOOP = {
    "kind": "critique_loop",
    "id": "loop",
    "draft": "thought",
    "critic": {"instruction": "c"},
    "reviser": {"instruction": "r"},
}
ROUTE = {
    "kind": "route",
    "id": "way",
    "inputs": ["thought"],
    "prompt": {"instruction": "p"},
    "branches": {"a": {"instruction": "1"}, "b": {"instruction": "2"}},
}


def whole(*middle: dict[str, Any], end: str = "thought") -> dict[str, Any]:
    """A valid workflow with these nodes between the first and the answer."""
    data = {
        "schema": "workflow/1",
        "name": "w",
        "nodes": [ASK, *middle, {"kind": "answer", "id": "answer", "input": end}],
    }
    return copy.deepcopy(data)


def put(*path: Any, value: object, base: dict[str, Any] | None = None) -> dict[str, Any]:
    """A workflow with one value changed."""
    data = whole() if base is None else copy.deepcopy(base)
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return data


def drop(*path: Any, base: dict[str, Any] | None = None) -> dict[str, Any]:
    """A workflow with one field gone."""
    data = whole() if base is None else copy.deepcopy(base)
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return data


LOOPED, ROUTED = whole(LOOP, end="loop"), whole(ROUTE, end="way")
VOTED = whole({"kind": "vote", "id": "vote", "inputs": ["thought"]}, end="vote")
TEXTS = whole({"kind": "ask", "id": "notes", "prompt": {"instruction": "n"}, "fields": ["notes"]})
PROMPT = ("nodes", 0, "prompt")

DATA: dict[str, object] = {
    # shape
    "nothing": None,
    "a list": [],
    "a text": "cot",
    "a number": 7,
    "no schema": drop("schema"),
    "another schema": put("schema", value="workflow/2"),
    "schema in a list": put("schema", value=["workflow/1"]),
    "no name": drop("name"),
    "no nodes": drop("nodes"),
    "nodes as an object": put("nodes", value={"0": ASK}),
    "no node at all": put("nodes", value=[]),
    "an answer alone": put("nodes", value=[{"kind": "answer", "input": "task"}]),
    "a field too many": put("code", value="import os"),
    "a field too many in a node": put("nodes", 0, "exec", value="import os"),
    "a field too many in a prompt": put(*PROMPT, "tools", value=["shell"]),
    "a class hook": put("nodes", 0, "__class__", value="os.system"),
    "a node that is text": put("nodes", 0, value="ask"),
    "a kind in a list": put("nodes", 0, "kind", value=["ask"]),
    "an unknown kind": put("nodes", 0, "kind", value="python"),
    "no kind": drop("nodes", 0, "kind"),
    "31 nodes": put(
        "nodes",
        value=[{**ASK, "id": f"n{i}"} for i in range(30)] + [{"kind": "answer", "input": "n0"}],
    ),
    # names
    "a name with capitals": put("name", value="CoT"),
    "a name with a newline": put("name", value="cot\n"),
    "a name with a path": put("name", value="../../etc/passwd"),
    "a name of 41 characters": put("name", value="a" * 41),
    "an empty name": put("name", value=""),
    "a name that is a number": put("name", value=1),
    "an id with spaces": put("nodes", 0, "id", value="a b"),
    "an id in Cyrillic": put("nodes", 0, "id", value="аsk"),
    "an id with an escape": put("nodes", 0, "id", value="\x1b[2J"),
    "an id that is taken": whole(ASK),
    "an id called task": put("nodes", 0, "id", value="task"),
    "a branch with a quote": put(
        "nodes",
        1,
        "branches",
        value={"a'": {"instruction": "1"}, "b": {"instruction": "2"}},
        base=ROUTED,
    ),
    # texts
    "an empty instruction": put(*PROMPT, "instruction", value=""),
    "a blank instruction": put(*PROMPT, "instruction", value=" \n\t"),
    "an instruction of 4001 characters": put(*PROMPT, "instruction", value="x" * 4001),
    "an instruction that is a list": put(*PROMPT, "instruction", value=["Think."]),
    "a NUL in an instruction": put(*PROMPT, "instruction", value="a\x00b"),
    "half a surrogate pair": put(*PROMPT, "instruction", value="\ud800"),
    "a terminal escape in a role": put(*PROMPT, "role", value="\x1b]0;owned\x07"),
    "a role of 4001 characters": put(*PROMPT, "role", value="x" * 4001),
    "a role that is null": put(*PROMPT, "role", value=None),
    "a description of 4001 characters": put("description", value="x" * 4001),
    "no prompt": drop(*PROMPT),
    "a prompt that is text": put(*PROMPT, value="Think."),
    # numbers
    "n of 0": put("nodes", 0, "n", value=0),
    "n of -1": put("nodes", 0, "n", value=-1),
    "n of 11": put("nodes", 0, "n", value=11),
    "n of 2.0": put("nodes", 0, "n", value=2.0),
    "n that is true": put("nodes", 0, "n", value=True),
    "n that is text": put("nodes", 0, "n", value="5"),
    "n of ten thousand digits": put("nodes", 0, "n", value=10**10_000),
    "temperature below 0": put(*PROMPT, "temperature", value=-0.1),
    "temperature above 2": put(*PROMPT, "temperature", value=2.5),
    "temperature NaN": put(*PROMPT, "temperature", value=float("nan")),
    "temperature infinite": put(*PROMPT, "temperature", value=float("inf")),
    "temperature true": put(*PROMPT, "temperature", value=True),
    "max_tokens of 65537": put(*PROMPT, "max_tokens", value=65537),
    "max_tokens of 0": put(*PROMPT, "max_tokens", value=0),
    "max_tokens of 1e3": put(*PROMPT, "max_tokens", value=1e3),
    "6 rounds": put("nodes", 1, "max_rounds", value=6, base=LOOPED),
    "0 rounds": put("nodes", 1, "max_rounds", value=0, base=LOOPED),
    "endless rounds": put("nodes", 1, "max_rounds", value=None, base=LOOPED),
    "force_after 0": put("nodes", 0, "force_after", value=0),
    "force_after true": put("nodes", 0, "force_after", value=True),
    "force_after of a million words": put("nodes", 0, "force_after", value=10**6),
    "111 calls": whole(
        {**LOOP, "n": 10},
        {**LOOP, "id": "l2", "draft": "loop", "n": 10, "result": "critic"},
        end="l2",
    ),
    # references
    "a reference to itself": put("nodes", 0, "inputs", value=["thought"]),
    "a reference forwards": put("nodes", 0, "inputs", value=["answer"]),
    "a reference to nothing": put("nodes", 0, "inputs", value=["labels"]),
    "a reference to a file": put("nodes", 0, "inputs", value=["file:///etc/passwd"]),
    "a reference that is a number": put("nodes", 0, "inputs", value=[0]),
    "a reference that is a list": put("nodes", 0, "inputs", value=[["task"]]),
    "inputs as text": put("nodes", 0, "inputs", value="task"),
    "an input twice": put("nodes", 1, "inputs", value=["thought", "thought"], base=VOTED),
    "a vote without voters": put("nodes", 1, "inputs", value=[], base=VOTED),
    "a vote of the task": put("nodes", 1, "inputs", value=["task"], base=VOTED),
    "a vote of notes": put("nodes", 0, "fields", value=["notes"], base=VOTED),
    "a decision about the task": whole(
        {"kind": "decide", "id": "d", "prompt": {"instruction": "d"}, "inputs": ["task"]}, end="d"
    ),
    "a loop on the task": put("nodes", 1, "draft", value="task", base=LOOPED),
    "a loop on itself": put("nodes", 1, "draft", value="loop", base=LOOPED),
    "a loop on notes": put("nodes", 0, "fields", value=["notes"], base=LOOPED),
    "a draft in a list": put("nodes", 1, "draft", value=["thought"], base=LOOPED),
    "an answer from the task": put("nodes", 1, "input", value="task"),
    "an answer from notes": put("nodes", 0, "fields", value=["notes"]),
    "an answer from five samples": put("nodes", 0, "n", value=5),
    "an answer from itself": put("nodes", 1, "input", value="answer"),
    "an answer that is unhashable": put("nodes", 1, "input", value={}),
    "a node that counts for nothing": TEXTS,
    "no answer node": put("nodes", value=[ASK, {**ASK, "id": "b"}]),
    "two answer nodes": whole({"kind": "answer", "id": "a", "input": "thought"}),
    "an answer first": put("nodes", value=[{"kind": "answer", "input": "task"}, ASK]),
    # the rest of the fields
    "fields empty": put("nodes", 0, "fields", value=[]),
    "fields as text": put("nodes", 0, "fields", value="answer"),
    "a field twice": put("nodes", 0, "fields", value=["answer", "answer"]),
    "an answer before the reasoning": put("nodes", 0, "fields", value=["answer", "reasoning"]),
    "eleven fields": put("nodes", 0, "fields", value=[f"f{i}" for i in range(11)]),
    "force_after without an answer": put(
        "nodes", 0, value={**ASK, "fields": ["notes"], "force_after": 5}, base=VOTED
    ),
    "an unknown result": put("nodes", 1, "result", value="best", base=LOOPED),
    "a result that is unhashable": put("nodes", 1, "result", value=[], base=LOOPED),
    "close as 1": put("nodes", 1, "close", value=1, base=LOOPED),
    "stop as text": put("nodes", 1, "stop", value="CORRECT", base=LOOPED),
    "an empty stop word": put("nodes", 1, "stop", value=[""], base=LOOPED),
    "eleven stop words": put("nodes", 1, "stop", value=["X"] * 11, base=LOOPED),
    "a stop word of 101 characters": put("nodes", 1, "stop", value=["x" * 101], base=LOOPED),
    "no critic": drop("nodes", 1, "critic", base=LOOPED),
    "one branch": put("nodes", 1, "branches", value={"a": {"instruction": "1"}}, base=ROUTED),
    "eleven branches": put(
        "nodes",
        1,
        "branches",
        value={f"b{i}": {"instruction": "1"} for i in range(11)},
        base=ROUTED,
    ),
    "branches as a list": put("nodes", 1, "branches", value=["a", "b"], base=ROUTED),
    "a branch that is a node": put("nodes", 1, "branches", "a", value=ASK, base=ROUTED),
    "branches that read alike": put(
        "nodes",
        1,
        "branches",
        value={"a-b": {"instruction": "1"}, "a_b": {"instruction": "2"}},
        base=ROUTED,
    ),
    "fallback as text": put("nodes", 1, "fallback", value="yes"),
    "coin as 1": put("nodes", 1, "coin", value=1),
    "an answer with a prompt": put("nodes", 1, "prompt", value={"instruction": "x"}),
    # bombs
    "depth 50": put("description", value=[[[[[[[[[[["deep"]]]]]]]]]]]),
    "twenty thousand values": put("nodes", 0, "inputs", value=["task"] * 20_000),
    "more than 64 kB of texts": put(
        "nodes",
        value=[
            *(
                {
                    **ASK,
                    "id": f"n{i}",
                    "prompt": {"instruction": "x" * 4000},
                    "inputs": [f"n{i - 1}"] if i else [],
                }
                for i in range(20)
            ),
            {"kind": "answer", "input": "n19"},
        ],
    ),
}

GOOD = json.dumps(whole())
TEXT: dict[str, str] = {
    "an empty file": "",
    "no JSON": "def solve(task): return 'A'",
    "JSON with words before": "Here is the workflow: " + GOOD,
    "JSON in a fence": f"```json\n{GOOD}\n```",
    "two objects": GOOD + GOOD,
    "half an object": GOOD[: len(GOOD) // 2],
    "a comment": GOOD.replace("{", "{ // note\n", 1),
    "single quotes": GOOD.replace('"', "'"),
    "a trailing comma": GOOD[:-1] + ",}",
    "NaN": GOOD.replace('"Think."', '"Think.", "temperature": NaN'),
    "Infinity": GOOD.replace('"Think."', '"Think.", "temperature": -Infinity'),
    "1e999": GOOD.replace('"Think."', '"Think.", "temperature": 1e999'),
    "a field twice": GOOD.replace('"name"', '"name": "x", "name"'),
    "a nested field twice": GOOD.replace('"instruction"', '"instruction": "x", "instruction"'),
    "a byte order mark": "\ufeff" + GOOD,
    "an integer of 20,000 digits": GOOD.replace(
        '"Think."', '"Think.", "max_tokens": ' + "9" * 20_000
    ),
    "60,000 brackets": "[" * 60_000,
    "20,000 nested objects": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "a megabyte": GOOD + " " * 1_000_000,
    "a string that never ends": '{"schema": "' + "x" * 60_000,
    "backslashes without end": '{"' + "\\" * 60_001,
    "a lone surrogate escape": GOOD.replace("Think.", "\\ud800"),
    "pickle": "cos\nsystem\n(S'id'\ntR.",
    "YAML that makes an object": "!!python/object/apply:os.system ['id']",
}


def refused(read: Callable[[Any], object], value: object) -> str:
    """The line of the error; the fastest of three, so that a busy machine does not count."""
    took = []
    line = ""
    for _ in range(3):
        begin = time.process_time()
        with pytest.raises(WorkflowError) as caught:
            read(value)
        took.append(time.process_time() - begin)
        line = str(caught.value)
    assert min(took) < 0.010
    return line


@pytest.mark.parametrize("name", DATA)
def test_hostile_data_is_refused_with_one_line(name: str) -> None:
    line = refused(parse_workflow, DATA[name])
    assert line.isprintable()
    assert len(line) < 400
    assert " must " in line
    assert "; got " in line


@pytest.mark.parametrize("name", TEXT)
def test_hostile_text_is_refused_with_one_line(name: str) -> None:
    line = refused(parse_workflow_text, TEXT[name])
    assert line.isprintable()
    assert len(line) < 400


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.extend([loop] * 50)
    assert " must " in refused(parse_workflow, loop)
    assert " must " in refused(parse_workflow, put("nodes", value=loop))


def test_what_the_cases_are_made_from_is_valid() -> None:
    """Else a case could be refused for another reason than its own."""
    for data in (whole(), LOOPED, ROUTED, VOTED):
        assert parse_workflow(data).name == "w"
        assert parse_workflow_text(json.dumps(data)).name == "w"
    assert len(DATA) + len(TEXT) >= 60
