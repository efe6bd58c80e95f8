"""What the documentation makes from code and measurements."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

import noracle
import noracle.learn

EXTENSIONS = Path(__file__).parents[2] / "docs" / "_ext"
ROW = {
    "interval": "exact",
    "method": "ml",
    "setting": "K=10",
    "coverage": 0.96,
    "nominal": 0.95,
    "width": 0.1,
    "guarantee": "finite-sample",
    "significant": False,
}


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    module = importlib.import_module(request.param)
    monkeypatch.delitem(sys.modules, request.param)
    return module


@pytest.mark.parametrize("extension", ["guarantee_rows"], indirect=True)
@pytest.mark.parametrize(("significant", "said"), [(False, "holds"), (True, "FAILS")])
def test_verdict_is_that_of_the_test(extension: ModuleType, significant: bool, said: str) -> None:
    assert extension.cells({**ROW, "significant": significant})[-1] == said


@pytest.mark.parametrize("extension", ["guarantee_rows"], indirect=True)
def test_recorded_table_keeps_finite_sample_promises_and_shows_wald_failing(
    extension: ModuleType,
) -> None:
    rows = extension.read_rows(EXTENSIONS.parents[1] / "benchmarks" / "guarantees.json")
    failing = [
        (r["interval"], r["setting"])
        for r in rows
        if r["significant"] and r["guarantee"] != "asymptotic"
    ]
    assert len({r["setting"] for r in rows}) >= 60
    assert failing == []
    assert any(r["interval"] == "wald" and r["significant"] for r in rows)


@pytest.mark.parametrize("extension", ["guarantee_rows"], indirect=True)
def test_rows_are_read_sorted_and_missing_files_are_empty(
    extension: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "guarantees.json"
    assert extension.read_rows(path) == []
    path.write_text(json.dumps({"rows": [{**ROW, "interval": "wald", "width": None}, ROW]}))
    rows = extension.read_rows(path)
    assert [r["interval"] for r in rows] == ["exact", "wald"]
    assert extension.cells(rows[1])[5] == "undefined"
    assert len(extension.cells(rows[0])) == len(extension.COLUMNS)


@pytest.mark.parametrize("extension", ["public_names"], indirect=True)
def test_every_public_name_gets_a_page(extension: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the learn extra is not installed")
    pytest.importorskip("sklearn", reason="the learn extra is not installed")
    names = extension.public_names()
    assert {*noracle.__all__, *(f"learn.{name}" for name in noracle.learn.__all__)} - set(
        names
    ) == {"__version__"}
    (tmp_path / "gone.md").write_text("")
    extension.write_pages(tmp_path, names)
    assert {p.name for p in tmp_path.glob("*.md")} == {f"{name}.md" for name in (*names, "index")}
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert all(f"[{name}]({name}.md): " in index for name in names)
    assert extension.OTHER not in index
    assert "autoclass:: noracle.learn.Transition" in (tmp_path / "learn.Transition.md").read_text(
        encoding="utf-8"
    )
    assert "autofunction:: noracle.estimate_accuracy" in (
        tmp_path / "estimate_accuracy.md"
    ).read_text(encoding="utf-8")


def test_the_first_use_of_a_word_is_linked_in_text_only(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("docutils", reason="the docs extra is not installed")
    from docutils import nodes
    from docutils.core import publish_doctree

    monkeypatch.syspath_prepend(str(EXTENSIONS))
    extension = importlib.import_module("glossary_links")

    text = """
The item
========

A ``rater`` and a `rater <https://example.org>`_; raters judge items. One item has one system, a subsystem none.

A *ruled-out class* is no class of the item.
"""
    tree = publish_doctree(text)
    terms = ["item", "rater", "class", "ruled-out class", "system", "label"]
    assert extension.link_first_uses(tree, terms, "../glossary.html") == [
        "rater",
        "item",
        "system",
        "ruled-out class",
    ]
    links = [(r.astext(), r["refuri"]) for r in tree.findall(nodes.reference)]
    assert links == [
        ("rater", "https://example.org"),
        ("raters", "../glossary.html#term-rater"),
        ("items", "../glossary.html#term-item"),
        ("system", "../glossary.html#term-system"),
        ("ruled-out class", "../glossary.html#term-ruled-out-class"),
    ]
    assert tree.astext().count("raters judge items. One item has one system") == 1
