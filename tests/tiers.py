"""Which tests run when.

``make test`` is what one runs before every push: minutes, no chance, no heavy libraries while the
tests are collected. The marker ``full`` is for the rest that a change must pass, ``make test-full``.
Tests are ``full`` by their marker; all but every n-th case of a test marked ``thin(n)`` are; and so
are tests without a marker

- if they open a browser, start Spark, PostgreSQL or our own server in a process (by marker or
  fixture), or
- if their file cannot be imported without one of the libraries named in ``HEAVY``. Such files,
  and those whose ``pytestmark`` is ``full``, are not even imported by ``make test``; a default test
  of what needs such a library imports it inside the test.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {"torch", "matplotlib", "playwright", "pyspark", "inspect_ai", "dspy"}
_MARKERS = ("browser", "spark")
_FIXTURES = {"browser", "spark_session", "postgres_server", "postgres_url", "own_server", "serve"}

_IMPORT = re.compile(r"^import ([\w.]+)|^from ([\w.]+) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)
_HINT = re.compile(rf"^\s*(?:import|from) ({'|'.join(HEAVY)})\b|importorskip", re.MULTILINE)
_MARKED = re.compile(r"^pytestmark = (?:\[[^\]]*|.*)\bmark\.(?:full|browser|spark)\b", re.MULTILINE)


def imports(text: str) -> Iterator[str]:
    """The modules, and names that may be modules, that a file imports when it is imported."""
    for match in _IMPORT.finditer(text):
        module = match[1] or match[2]
        if module.split(".")[0] not in HEAVY:
            yield module
            yield from (
                f"{module}.{name}" for name in re.findall(r"\w+", match[3] or match[4] or "")
            )
    if _HINT.search(text):  # inside a function, or in a text, it does not count
        yield from _heavy(ast.parse(text).body)


def _heavy(body: Sequence[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.Import():
                yield from (name.name for name in node.names if name.name.split(".")[0] in HEAVY)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in HEAVY:
                yield module
            case ast.Try():
                yield from _heavy(node.body)
            case ast.Assign(value=call) | ast.Expr(value=call):
                if (
                    found := re.match(r"pytest\.importorskip\('(\w+)", ast.unparse(call))
                ) is not None:
                    yield found[1]


@functools.cache
def _file(module: str) -> Path | None:
    """Where a module of this repository lies."""
    parts = module.split(".")
    base = ROOT / "src" if parts[0] == "noracle" else ROOT
    if parts[0] not in ("noracle", "tests"):
        return None
    path = base.joinpath(*parts)
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)


@functools.cache
def _next(path: Path) -> tuple[bool, frozenset[Path]]:
    """Whether a file imports a heavy library itself, and the files of ours that it imports."""
    found = set(imports(path.read_text(encoding="utf-8")))
    ours = frozenset(file for module in found if (file := _file(module)))
    return any(module.split(".")[0] in HEAVY for module in found), ours


_light: set[Path] = set()


def needs_heavy(path: Path) -> bool:
    """Whether importing a file imports a heavy library, by itself or through our own modules."""
    seen, left = {path}, [path]
    while left:
        heavy, ours = _next(left.pop())
        if heavy:
            return True
        left += ours - seen - _light
        seen |= ours
    _light.update(seen)
    return False


def _lists_heavy(text: str) -> bool:
    """Whether a module loads a heavy library once it is asked for every name that it lists, as
    pytest does where it looks for examples.
    """
    later = re.findall(r"^    from (noracle[\w.]+) import", text, re.MULTILINE)
    files = [file for module in later if (file := _file(module))]
    return "__getattr__" in text and any(needs_heavy(file) for file in files)


@functools.cache
def is_full(path: Path) -> bool:
    """Whether all tests of a file are ``full``."""
    if path.suffix != ".py":
        return False
    text = path.read_text(encoding="utf-8")
    return bool(_MARKED.search(text)) or needs_heavy(path) or _lists_heavy(text)


class Tiers:
    """Marks tests as ``full``, and leaves their files alone where they are not asked for."""

    def __init__(self, config: pytest.Config) -> None:
        self.default = "not full" in (config.option.markexpr or "")
        self.loaded: set[str] = set()
        """Heavy libraries that were loaded when all tests had been collected."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if not self.default or collection_path.name == "conftest.py":
            return None
        return True if is_full(collection_path) else None

    def pytest_collection_finish(self) -> None:
        self.loaded = HEAVY & set(sys.modules)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        turn: Counter[str] = Counter()
        for item in items:
            thin = item.get_closest_marker("thin")
            if thin and not item.get_closest_marker("slow"):
                test = item.nodeid.partition("[")[0]
                if turn[test] % thin.args[0]:
                    item.add_marker("full")
                turn[test] += 1
            names = set(getattr(item, "fixturenames", ()))
            if (
                any(item.get_closest_marker(name) for name in _MARKERS)
                or names & _FIXTURES
                or is_full(item.path)
            ):
                item.add_marker("full")
