"""The questions of a stranger: every file that the architecture page names is there, and holds what
the page says.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+\?) \| ([\w/.]+\.py) \| ([\w.]+) \|$", PAGE, flags=re.MULTILINE)


def names_of(body: list[ast.stmt], prefix: str = "") -> set[str]:
    """Functions, classes, methods and constants of a module."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(prefix + node.name)
        if isinstance(node, ast.ClassDef):
            found |= names_of(node.body, f"{node.name}.")
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {prefix + t.id for t in targets if isinstance(t, ast.Name)}
    return found


def test_the_page_answers_twenty_questions() -> None:
    assert len(ROWS) >= 20
    assert len({question for question, _, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("question", "file", "name"), ROWS)
def test_the_file_holds_what_the_page_says(question: str, file: str, name: str) -> None:
    path = ROOT / "src" / "noracle" / file
    assert path.is_file(), f"{question} names {file}, which is not there"
    assert name in names_of(ast.parse(path.read_text(encoding="utf-8")).body)


def test_every_file_that_the_page_names_is_there() -> None:
    walk = PAGE.split("## The walk of one judgement")[1].split("## Where is")[0]
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", walk)
    assert len(named) >= 15
    assert [n for n in named if not (ROOT / "src" / "noracle" / n).is_file()] == []
