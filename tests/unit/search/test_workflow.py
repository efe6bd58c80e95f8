"""Workflows as data: the shipped files, the bound on calls, round trips, and the schema beside the
parser.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from noracle.schemas import load_schema
from noracle.search import workflow as module
from noracle.search.workflow import (
    Ask,
    Prompt,
    Workflow,
    WorkflowError,
    calls_of,
    load_workflow,
    parse_workflow,
    parse_workflow_text,
    workflow_names,
)
from tests.unit.search.made import workflows

BOUNDS = {
    "direct": (1, 1),
    "cot": (1, 1),
    "cot-sc": (5, 5),
    "self-refine": (2, 11),
    "debate": (9, 9),
    "debate-three-roles": (7, 7),
    "step-back": (2, 2),
    "quality-diversity": (5, 5),
    "role": (2, 2),
    "principles": (2, 2),
    "review-ensemble": (5, 5),
    "judge": (1, 1),
    "judge-forced": (2, 2),
    "judge-debate": (4, 8),
}
VALIDATOR = jsonschema.Draft202012Validator(load_schema("workflow/1"))


def test_shipped_workflows_and_their_bounds_are_those_of_the_papers() -> None:
    assert {
        name: (load_workflow(name).least_calls, load_workflow(name).most_calls)
        for name in workflow_names()
    } == BOUNDS


@pytest.mark.parametrize("name", BOUNDS)
def test_shipped_file_is_read_and_written_back_byte_for_byte(name: str) -> None:
    text = (importlib.resources.files("noracle.search") / "workflows" / f"{name}.json").read_text(
        encoding="utf-8"
    )
    workflow = parse_workflow_text(text)
    assert workflow.name == name
    assert workflow.to_text() == text
    assert workflow.description.endswith(".")
    VALIDATOR.validate(json.loads(text))


@pytest.mark.parametrize("name", ["debate", "debate-three-roles"])
def test_second_round_of_a_debate_sees_everyone_and_its_own_view_first(name: str) -> None:
    nodes = {node.id: node for node in load_workflow(name).nodes}
    roles = [i for i in nodes if f"{i}-again" in nodes]
    for role in roles:
        again = nodes[f"{role}-again"]
        assert isinstance(again, Ask)
        assert again.inputs[0] == role
        assert set(again.inputs) == set(roles)


@given(data=workflows())
@settings(max_examples=150, deadline=None)
def test_what_the_parser_takes_the_schema_takes_and_comes_back_the_same(
    data: dict[str, Any],
) -> None:
    VALIDATOR.validate(data)
    workflow = parse_workflow(data)
    VALIDATOR.validate(workflow.to_dict())
    text = workflow.to_text()
    again = parse_workflow_text(text)
    assert again == workflow
    assert again.to_text() == text
    assert again.digest == workflow.digest
    assert next(iter(workflow.to_dict())) == "schema"
    assert 0 <= workflow.least_calls <= workflow.most_calls <= 100


@pytest.mark.parametrize(
    ("path", "most"),
    [
        (("properties", "nodes", "maxItems"), module.MOST_NODES),
        (("$defs", "ask", "properties", "n", "maximum"), module.MOST_SAMPLES),
    ],
)
def test_schema_states_the_limits_of_the_parser(path: tuple[str, ...], most: int) -> None:
    place: Any = load_schema("workflow/1")
    for step in path:
        place = place[step]
    assert place == most


def test_schema_is_itself_valid_and_lists_every_field_of_every_node() -> None:
    jsonschema.Draft202012Validator.check_schema(load_schema("workflow/1"))
    for kind in (
        module.Ask,
        module.Vote,
        module.Decide,
        module.CritiqueLoop,
        module.RouteNode,
        module.AnswerNode,
    ):
        stated = load_schema("workflow/1")["$defs"][kind.__dataclass_fields__["kind"].default][
            "properties"
        ]
        assert set(stated) == {field.name for field in dataclasses.fields(kind)}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("nodes", 0, "n"), 11),
        (("nodes", 0, "kind"), "python"),
        (("nodes", 0, "prompt", "instruction"), " "),
        (("nodes", 0, "prompt", "temperature"), 3),
        (("nodes", 0, "extra"), 1),
        (("name",), "A"),
        (("schema",), "workflow/2"),
    ],
)
def test_schema_refuses(path: tuple[Any, ...], value: object) -> None:
    data = load_workflow("cot").to_dict()
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert not VALIDATOR.is_valid(data)


def test_digest_is_of_what_is_done_and_not_of_the_name() -> None:
    workflow = load_workflow("cot")
    assert dataclasses.replace(workflow, name="other", description="").digest == workflow.digest
    prompt = Prompt(instruction="Think step by step, then choose.", temperature=0.6)
    hotter = dataclasses.replace(
        workflow, nodes=(Ask(id="thought", prompt=prompt), workflow.nodes[1])
    )
    assert hotter.digest != workflow.digest


def test_defaults_of_a_file_are_those_of_the_records() -> None:
    short = {
        "schema": "workflow/1",
        "name": "w",
        "nodes": [
            {"kind": "ask", "id": "a", "prompt": {"instruction": "x"}},
            {
                "kind": "critique_loop",
                "id": "b",
                "draft": "a",
                "critic": {"instruction": "c"},
                "reviser": {"instruction": "r"},
            },
            {"kind": "answer", "input": "b"},
        ],
    }
    records = (
        Ask(id="a", prompt=Prompt(instruction="x")),
        module.CritiqueLoop(
            id="b", draft="a", critic=Prompt(instruction="c"), reviser=Prompt(instruction="r")
        ),
        module.AnswerNode(input="b"),
    )
    assert parse_workflow(short) == Workflow(name="w", nodes=records)


def test_a_loop_that_cannot_stop_has_one_number_of_calls() -> None:
    loop = module.CritiqueLoop(
        id="b",
        draft="a",
        critic=Prompt(instruction="c"),
        reviser=Prompt(instruction="r"),
        stop=(),
        max_rounds=2,
        n=3,
        close=True,
    )
    assert calls_of(loop) == (9, 9)


def test_load_reads_files_also_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(load_workflow("cot").to_text(), encoding="utf-8-sig")
    assert load_workflow(path) == load_workflow("cot")


@pytest.mark.parametrize("name", ["nothing-like-this", "../workflows/cot", "cot.json", ""])
def test_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(WorkflowError, match=r"cot-sc.*; got "):
        load_workflow(name)


def test_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\x00{")
    (tmp_path / "b.json").write_bytes(b" " * 70_000)
    with pytest.raises(WorkflowError, match="UTF-8"):
        load_workflow(tmp_path / "a.json")
    with pytest.raises(WorkflowError, match="65536"):
        load_workflow(tmp_path / "b.json")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("My prompt.txt", "my-prompt"),
        ("7.md", "prompt"),
        ("Zähl!.TXT", "z-hl-"),
        ("x" * 60 + ".md", "x" * 40),
    ],
)
def test_a_text_file_is_the_prompt_of_one_call(tmp_path: Path, file: str, name: str) -> None:
    said = "Count the letters.\r\n\r\n  Then choose {nothing}. 答え\r\n"
    (tmp_path / file).write_bytes("\ufeff".encode() + said.encode())
    workflow = load_workflow(tmp_path / file)
    (ask, _answer) = workflow.nodes
    assert isinstance(ask, Ask)
    assert ask.prompt.instruction == "Count the letters.\n\n  Then choose {nothing}. 答え"
    assert (workflow.name, workflow.most_calls, ask.prompt.temperature) == (name, 1, 0)
    assert parse_workflow(workflow.to_dict()) == workflow


@pytest.mark.parametrize("text", ["", " \n", "x" * 4001, "a\x00b"])
def test_a_prompt_that_breaks_a_rule_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.txt").write_text(text, encoding="utf-8")
    with pytest.raises(WorkflowError, match="instruction must") as error:
        load_workflow(tmp_path / "p.txt")
    assert "\n" not in str(error.value)
