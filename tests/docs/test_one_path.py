"""One label meets one answer in ``counts/tally.py``, one tally becomes one score in
``accuracy/score.py``; nobody else does either.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "noracle"

TALLIES = ("Tally", "Pattern")

# Who calls Tally(…) or Pattern(…): (module, function) and why.
MAY_TALLY = {
    ("counts/tally.py", "tally"): "the place itself",
    ("counts/tally.py", "pattern"): "the place itself",
    ("counts/tally.py", "read_tally"): "reads back what was written, field by field",
    ("counts/totals.py", "_patterns_from_dict"): "reads back what was written, field by field",
}

# Who else calls Score(…) above the bounds, and why. None of them looks at a label: values come from
# accuracy.score, or there is no label.
MAY_SCORE = {
    "accuracy/score.py": "the place itself; scales scores by the weight of a stratum, and puts the guess between their two sides",
    "accuracy/check.py": "bets on whether scores have the mean that a design says: a test of labels, no accuracy",
    "accuracy/compare.py": "scales difference scores of accuracy.score by the weight of a stratum",
    "search/fitness.py": "means of scores of accuracy.score over the repeats of an item, and their differences",
    "superhuman/difference.py": "agreement with a vote, where no label exists",
}

# Units in which nothing may be divided by K - 1 or K - 1 by anything: it is a complementary score,
# its range or its law once more. Not in it: plans, which weigh labels before there are any (ppi,
# learn/compare.py), losses (learn) and draws of labels (simulate).
SCORING = (
    "accuracy",
    "oversight",
    "collect",
    "search",
    "learn/validation.py",
    "learn/compare.py",
    "learn/scores.py",
)
COUNTS_OF_CLASSES = ("n_classes", "k", "K", "most", "most_classes")
# Who else writes it there: (module, function) and why.
MAY_COUNT = {
    ("learn/compare.py", "zero_one_standard_error"): "a plan, before there are labels",
    ("learn/compare.py", "_guessed"): "a plan, before there are labels",
    ("accuracy/score.py", "law_of"): "the place itself",
    (
        "accuracy/check.py",
        "highest_inverse",
    ): "the largest chance that a class which was not asked can have had, no score",
    (
        "accuracy/check.py",
        "_overlap_part",
    ): "the share of ruled-out classes that a wrong answer should meet: a test of labels, no score",
}


def imported(tree: ast.Module) -> dict[str, str]:
    """The full name behind every name that a module imports."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.asname or a.name: a.name for a in node.names}
    return names


def functions(tree: ast.AST, name: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every node with the name of the outermost function that it stands in."""
    for node in ast.iter_child_nodes(tree):
        inside = name or (
            node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ""
        )
        yield inside, node
        yield from functions(node, inside)


def called(node: ast.AST, names: dict[str, str], home: str) -> str:
    """Tally, Pattern or Score if a call makes one, by whatever name and from whichever module of
    ours it was imported.
    """
    if not isinstance(node, ast.Call):
        return ""
    path = ast.unparse(node.func).removesuffix("._make").split(".")
    first = names.get(path[0], f"{home}.{path[0]}")
    full = ".".join((first, *path[1:]))
    owner, _, last = full.rpartition(".")
    if last in ("Tally", "Pattern") and owner.startswith("noracle.counts"):
        return last
    return last if last == "Score" and owner.startswith("noracle.bounds") else ""


def less_one(node: ast.AST) -> bool:
    """Whether a node divides by, or divides, a number of classes minus 1, as in 1 - (K - 1)/m and
    1/(K - 1).
    """
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)):
        return False
    for inner in ast.walk(node):
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):
            left = (
                inner.left.attr
                if isinstance(inner.left, ast.Attribute)
                else inner.left.id
                if isinstance(inner.left, ast.Name)
                else ""
            )
            if (
                left in COUNTS_OF_CLASSES
                and isinstance(inner.right, ast.Constant)
                and inner.right.value == 1
            ):
                return True
    return False


class Found(NamedTuple):
    what: str
    file: str
    function: str
    line: int


def walk(file: str, text: str) -> list[Found]:
    """Every tally, score and K - 1 that a module makes."""
    tree = ast.parse(text)
    names, home = imported(tree), "noracle." + file.removesuffix(".py").replace("/", ".")
    nodes = (
        (function, node, "K - 1" if less_one(node) else called(node, names, home))
        for function, node in functions(tree)
    )
    return [
        Found(what, file, function, getattr(node, "lineno", 0))
        for function, node, what in nodes
        if what
    ]


@functools.cache
def everywhere() -> tuple[Found, ...]:
    paths = sorted(SOURCE.rglob("*.py"))
    return tuple(
        found
        for p in paths
        for found in walk(p.relative_to(SOURCE).as_posix(), p.read_text(encoding="utf-8"))
    )


def faults(found: Iterable[Found]) -> list[str]:
    """What is made outside its place, as lines to read."""
    lines = []
    for what, file, function, line in found:
        if what in TALLIES and (file, function) not in MAY_TALLY:
            lines.append(f"{file}:{line} makes a {what}; use noracle.counts.tally")
        if what == "Score" and not file.startswith("bounds/") and file not in MAY_SCORE:
            lines.append(
                f"{file}:{line} makes a Score; use noracle.accuracy.score or noracle.bounds.betting.equal_together"
            )
        if what == "K - 1" and file.startswith(SCORING) and (file, function) not in MAY_COUNT:
            lines.append(
                f"{file}:{line} divides by K - 1 or K - 1 itself; use noracle.accuracy.score.law_of"
            )
    return lines


def test_tallies_and_scores_are_made_in_one_place() -> None:
    assert faults(everywhere()) == []


def test_every_exception_is_still_one() -> None:
    """A name that no longer needs its exception leaves the list."""
    tallies = {(f.file, f.function) for f in everywhere() if f.what in TALLIES}
    scores = {f.file for f in everywhere() if f.what == "Score"}
    shares = {(f.file, f.function) for f in everywhere() if f.what == "K - 1"}
    assert (set(MAY_TALLY) - tallies, set(MAY_SCORE) - scores, set(MAY_COUNT) - shares) == (
        set(),
        set(),
        set(),
    )


@pytest.mark.parametrize(
    ("file", "text", "count"),
    [
        ("collect/x.py", "from noracle.counts import Tally\nt = Tally('a', 3, 'yes', True)", 1),
        (
            "collect/x.py",
            "from noracle.counts.tally import Tally as T\nt = T('a', 3, 'yes', True)",
            1,
        ),
        ("collect/x.py", "from noracle.counts.tally import Pattern\np = Pattern._make(row)", 1),
        (
            "collect/x.py",
            "import noracle.counts.tally as label\nt = label.Tally('a', 3, 'yes', True)",
            1,
        ),
        (
            "collect/x.py",
            "from noracle.counts.tally import Tally\ndef f(t: Tally) -> Tally:\n    return t",
            0,
        ),
        (
            "counts/tally.py",
            "from noracle.counts.tally import Tally\ndef read_tally(row):\n    return Tally(**row)",
            0,
        ),
        (
            "counts/tally.py",
            "from noracle.counts.tally import Tally\ndef other(row):\n    return Tally(**row)",
            1,
        ),
        ("learn/x.py", "from noracle.bounds.betting import Score\ns = Score(1.0, 0.0, 1.0, 3)", 1),
        ("bounds/x.py", "from noracle.bounds.betting import Score\ns = Score(1.0, 0.0, 1.0, 3)", 0),
        ("search/inspect.py", "from inspect_ai.scorer import Score\ns = Score(value=1)", 0),
        ("search/x.py", "score = 1 - (n_classes - 1) / m * hit", 1),
        ("search/x.py", "least = 1 - (self.spec.n_classes - 1) / m", 1),
        ("search/x.py", "uniform = abs(propensity * n_classes - 1) < 1e-9", 0),
        ("search/x.py", "p = chdtrc(k - 1, statistic)", 0),
        ("learn/losses.py", "weight = 1 + (1 - p) / (k - 1)", 0),
        ("learn/validation.py", "chance = (1 - noise) / (k - 1)", 1),
    ],
)
def test_the_walk_finds_tallies_and_scores(file: str, text: str, count: int) -> None:
    assert len(faults(walk(file, text))) == count
