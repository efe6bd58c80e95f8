"""Imports only go down the layers; the picture is in docs/explanation/architecture.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "noracle"

# From the bottom to the top. Units of one layer do not import each other.
LAYERS = (
    ("_version",),
    ("errors",),
    ("files",),
    ("_lazy",),
    ("results", "schemas"),
    ("evidence",),
    ("counts",),
    ("bounds",),
    ("accuracy", "superhuman", "logic"),
    ("ppi", "ranking"),
    ("simulate", "report"),
    ("learn", "collect", "search", "oversight", "gate"),
    ("cli",),
    ("__init__", "__main__"),
)
LEVEL = {unit: level for level, units in enumerate(LAYERS) for unit in units}
# Inside a function of results only: cards and plots, and the checkers of plans.
ALLOWED = {
    ("results", "noracle.report.card"),
    ("results", "noracle.report.plots"),
    ("results", "noracle.ppi.verify"),
    ("results", "noracle.superhuman.verify"),
    ("results", "noracle.superhuman.plan"),
    ("results", "noracle.ranking.pairs"),
    ("results", "noracle.logic.verify"),
    ("results", "noracle.learn.compare"),
}


class Import(NamedTuple):
    module: str
    line: int
    in_function: bool


def imports(tree: ast.AST, package: str, in_function: bool = False) -> Iterator[Import]:
    """Every import of noracle in the tree; ``from noracle import errors`` counts as
    ``noracle.errors``.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (
                Import(a.name, node.lineno, in_function)
                for a in node.names
                if a.name.split(".")[0] == "noracle"
            )
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(p for p in (base, node.module or "") if p)
            if module == "noracle":
                yield from (
                    Import(f"noracle.{a.name}", node.lineno, in_function) for a in node.names
                )
            elif module.startswith("noracle."):
                yield Import(module, node.lineno, in_function)
        else:
            inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from imports(node, package, inside)


def faults(path: Path, text: str) -> list[str]:
    """The upward imports of one module, as lines to read."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    unit = parts[0]
    package = ".".join(("noracle", *parts[:-1]))
    found = []
    for imported in imports(ast.parse(text), package):
        target = imported.module.split(".")[1] if "." in imported.module else "__init__"
        if target == unit or LEVEL.get(target, LEVEL["__init__"]) < LEVEL[unit]:
            continue
        if imported.in_function and (unit, imported.module) in ALLOWED:
            continue
        found.append(
            f"{path.relative_to(ROOT)}:{imported.line} imports {imported.module}, which is not below {unit}"
        )
    return found


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_every_module_has_a_layer() -> None:
    units = {p.relative_to(SOURCE).with_suffix("").parts[0] for p in modules()}
    assert units - set(LEVEL) == set()


def test_imports_only_go_down() -> None:
    assert [
        fault for path in modules() for fault in faults(path, path.read_text(encoding="utf-8"))
    ] == []


@pytest.mark.parametrize(
    ("file", "text", "count"),
    [
        ("errors.py", "from noracle.results import Estimate", 1),
        ("errors.py", "import noracle", 1),
        ("errors.py", "from noracle import cli", 1),
        ("errors.py", "def f():\n    import noracle.counts.tally", 1),
        (
            "counts/tally.py",
            "from noracle.errors import fault\nfrom . import counting\nfrom ..errors import fault",
            0,
        ),
        ("counts/tally.py", "from ..accuracy import estimate", 1),
        ("accuracy/route.py", "from noracle.ppi import mean", 1),
        ("accuracy/route.py", "if True:\n    from noracle.report.card import card", 1),
        ("results.py", "def f():\n    from noracle.report.card import card", 0),
        ("results.py", "from noracle.report.card import card", 1),
        (
            "cli/__init__.py",
            "from noracle.report.page import write_page\nfrom noracle import errors",
            0,
        ),
    ],
)
def test_the_walk_finds_upward_imports(file: str, text: str, count: int) -> None:
    assert len(faults(SOURCE / file, text)) == count


def test_the_architecture_page_shows_these_layers() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    lines = [", ".join(units) for units in reversed(LAYERS[:-1])]
    assert "\n".join(lines) in page
