"""What the page of every public name must tell, so that nobody needs the source to use it.

- Every name has a docstring; constants are described where they are defined.
- Every function, and every class that is not an exception, a protocol or a type alias, has an
  example that runs: in its own docstring or in that of one of its own public methods (a record is
  often made by a class method). A plain record (a dataclass that is no result) may have it with the
  public function that returns it. Exceptions are described in the drawing of ``noracle.errors`` or
  in their sentence; what raises them has the examples. A protocol has nothing to run.
- A name that makes a *statement* (a verb of the table in the architecture page, a stream, a gate)
  also has a formula, a paragraph that begins with "Assumes" or "Assumptions", and references.

The examples of all modules are run by pytest's ``--doctest-modules``; here those of the public
names are run once more, one by one, so that a module that the collection misses would be noticed.
"""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from noracle.results import Result

pytest.importorskip(
    "torch", reason="the learn extra is not installed, and its names have pages too"
)
pytest.importorskip(
    "sklearn", reason="the learn extra is not installed, and its names have pages too"
)

EXTENSIONS = Path(__file__).parents[2] / "docs" / "_ext"
FOLDERS = (
    "superhuman",
    "ppi",
    "logic",
    "simulate",
    "oversight",
)  # further names that their folders list in __all__
VERB = re.compile(r"(?:^|\.)(estimate|compare|certify|plan|prove|check|range|route|race)_")
STREAMS = ("AccuracyStream", "CertificateStream", "Race", "search.Gate")
ALSO_STATEMENTS = (
    "detect_drift",
    "learn.analyse_labels",
    "search.search_workflows",
)
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", flags=re.MULTILINE)
FORMULA = re.compile(r"\S\s*[=≠≤≥<>∝∈≈]\s*\S|[ΣΠ√∏∑]")
ASSUMES = re.compile(r"(?:^|\n\n)(?:Assumes|Assumptions)\b")


def public_names() -> dict[str, Any]:
    sys.path.insert(0, str(EXTENSIONS))
    try:
        names: dict[str, Any] = dict(importlib.import_module("public_names").public_names())
    finally:
        sys.path.remove(str(EXTENSIONS))
        sys.modules.pop("public_names", None)
    known = {id(value) for value in names.values()}
    for folder in FOLDERS:
        module = importlib.import_module(f"noracle.{folder}")
        names |= {
            f"{folder}.{n}": getattr(module, n)
            for n in module.__all__
            if id(getattr(module, n)) not in known
        }
    return names


NAMES = public_names()
DOCUMENTED = [name for name, value in NAMES.items() if callable(value)]
STATEMENTS = [name for name in NAMES if VERB.search(name)] + [*STREAMS, *ALSO_STATEMENTS]


def sections(doc: str) -> dict[str, str]:
    """The parts of a numpydoc text by heading; what stands before the first is ``Summary``."""
    pieces = SECTION.split(inspect.cleandoc(doc))
    return {"Summary": pieces[0], **dict(zip(pieces[1::2], pieces[2::2], strict=True))}


def own_docs(value: Any) -> dict[str, str]:
    """The docstrings that the page of a name shows and that the package wrote: its own, and those
    of its public members.
    """
    docs = {"": value.__doc__ or ""}
    if inspect.isclass(value):
        for base in value.__mro__:
            if base.__module__.startswith("noracle."):
                for name, member in vars(base).items():
                    text = getattr(getattr(member, "__func__", member), "__doc__", None)
                    if not name.startswith("_") and isinstance(text, str):
                        docs.setdefault(name, text)
    return docs


def needs_example(value: Any) -> bool:
    if inspect.isclass(value):
        return not issubclass(value, BaseException) and not getattr(value, "_is_protocol", False)
    return callable(value)


def makers(value: Any) -> list[str]:
    """The docstrings of the public functions that return a plain record."""
    if not dataclasses.is_dataclass(value) or issubclass(value, Result):
        return []
    functions = [f for f in NAMES.values() if inspect.isfunction(f)]
    return [
        f.__doc__ or ""
        for f in functions
        if value.__name__ in str(f.__annotations__.get("return", ""))
    ]


def has_example(doc: str) -> bool:
    return any(example.want.strip() for example in doctest.DocTestParser().get_examples(doc))


def faults_of_statement(doc: str) -> list[str]:
    """What the docstring of a statement leaves out."""
    parts = sections(doc)
    said = parts["Summary"] + "\n\n" + parts.get("Notes", "")
    found = []
    if not FORMULA.search(said):
        found.append("no formula before the parameters or in the notes")
    if not ASSUMES.search(said):
        found.append("no paragraph that begins with 'Assumes' or 'Assumptions'")
    if not re.search(r"\(\d{4}\)|\b\d{4}\b|\"", parts.get("References", "")):
        found.append("no references")
    return found


@pytest.mark.parametrize("name", DOCUMENTED)
def test_public_name_has_a_docstring_and_its_example_runs(name: str) -> None:
    value = NAMES[name]
    docs = own_docs(value)
    assert docs[""].strip()
    assert not docs[""].startswith(f"{value.__name__}("), (
        "the docstring is the signature that dataclasses write"
    )
    if needs_example(value):
        assert any(has_example(doc) for doc in (*docs.values(), *makers(value)))
    module = inspect.getmodule(value)
    assert isinstance(module, ModuleType)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for member, doc in docs.items():
        if ">>>" in doc and module.__name__.startswith("noracle."):
            report: list[str] = []
            where = f"{name}.{member}" if member else name
            runner.run(
                doctest.DocTestParser().get_doctest(doc, dict(vars(module)), where, None, None),
                out=report.append,
            )
            assert not report, "".join(report)


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement_tells_its_formula_its_assumptions_and_its_source(name: str) -> None:
    assert faults_of_statement(NAMES[name].__doc__) == []


def test_every_verb_is_a_statement() -> None:
    assert {
        "estimate_accuracy",
        "learn.plan_validation",
        "search.race_pool",
        "prove_malfunction",
    } <= set(STATEMENTS)
    assert set(STATEMENTS) <= set(NAMES)


def test_constants_are_described_where_they_are_defined() -> None:
    for name, value in NAMES.items():
        if not callable(value) and not inspect.ismodule(value):
            folder, _, short = name.rpartition(".")
            modules = [m for m in sys.modules if m.startswith(f"noracle.{folder}")]
            texts = [
                Path(file).read_text(encoding="utf-8")
                for m in modules
                if (file := getattr(sys.modules[m], "__file__", None))
            ]
            assert any(
                re.search(
                    rf"^{short}\b[^\n]*=(?:.*?\n)(?:[ )\]}}][^\n]*\n)*\"\"\"\w",
                    text,
                    flags=re.MULTILINE,
                )
                for text in texts
            ), name


WHOLE = """Estimate x.

    x = mean of scores.

    Notes
    -----
    Assumes that items are a random sample.

    References
    ----------
    Hoeffding (1963), JASA 58.

    Examples
    --------
    >>> 1 + 1
    2
    """


@pytest.mark.parametrize(
    ("cut", "fault"),
    [
        ("x = mean of scores.", "no formula"),
        ("Assumes", "no paragraph"),
        ("Hoeffding (1963), JASA 58.", "no references"),
    ],
)
def test_the_walk_notices_what_is_left_out(cut: str, fault: str) -> None:
    assert faults_of_statement(WHOLE) == []
    assert has_example(WHOLE)
    assert not has_example(WHOLE.replace("\n    2\n", "\n"))
    assert [line[: len(fault)] for line in faults_of_statement(WHOLE.replace(cut, "this"))] == [
        fault
    ]
