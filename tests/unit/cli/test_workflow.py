"""``noracle workflow show``: the list, the drawing, the bound, JSON to edit, and errors in one
line.
"""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import typer
from typer.testing import CliRunner

from noracle.cli.workflow import app
from noracle.errors import ArgumentError
from noracle.search.workflow import (
    WorkflowError,
    load_workflow,
    parse_workflow_text,
    workflow_names,
)

WHOLE = typer.Typer()
WHOLE.add_typer(app, name="workflow")


@WHOLE.callback()
def _whole() -> None:
    """The top of a command line, as the package has it."""


def ran(*arguments: str) -> str:
    ended = CliRunner().invoke(WHOLE, ["workflow", "show", *arguments], catch_exceptions=False)
    assert ended.exit_code == 0
    return ended.stdout


def test_without_a_name_all_are_listed_with_their_calls() -> None:
    lines = ran().splitlines()
    assert [line.split()[0] for line in lines[: len(workflow_names())]] == list(workflow_names())
    assert any("2 to 11 calls" in line for line in lines if line.startswith("self-refine"))
    rows = json.loads(ran("--json"))["workflows"]
    assert {row["name"]: row["most_calls"] for row in rows} == {
        name: load_workflow(name).most_calls for name in workflow_names()
    }


def test_a_name_is_drawn_with_its_bound() -> None:
    out = ran("debate")
    assert out.startswith("debate: 9 calls per item\n")
    assert '["verdict: decide · 1 call"]' in out


def test_json_can_be_edited_and_shown_again(tmp_path: Path) -> None:
    out = ran("cot-sc", "--json")
    assert parse_workflow_text(out) == load_workflow("cot-sc")
    path = tmp_path / "mine.json"
    path.write_text(out.replace('"n": 5', '"n": 7'), encoding="utf-8")
    assert "7 calls per item" in ran(str(path))


def test_svg_is_written_whole_and_named(tmp_path: Path) -> None:
    path = tmp_path / "debate.svg"
    assert str(path) in ran("debate", "--svg", str(path))
    assert ET.parse(path).getroot().tag.endswith("svg")
    assert [p.name for p in tmp_path.iterdir()] == ["debate.svg"]
    assert json.loads(ran("debate", "--svg", str(path), "--json"))["name"] == "debate"


def test_a_broken_file_an_unknown_name_and_a_wrong_path_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(
        '{"schema": "workflow/1", "name": "x", "nodes": [], "code": "import os"}', encoding="utf-8"
    )
    with pytest.raises(WorkflowError, match=r"got 'code'\. Remove it"):
        ran(str(path))
    with pytest.raises(WorkflowError, match=r"one of .*cot-sc"):
        ran("no-such")
    with pytest.raises(ArgumentError, match="--svg"):
        ran("cot", "--svg", str(tmp_path / "none" / "x.svg"))
    with pytest.raises(ArgumentError, match="--svg must stand with the name"):
        ran("--svg", str(tmp_path / "x.svg"))
