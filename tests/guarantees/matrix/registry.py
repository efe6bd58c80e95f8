"""All cases of the matrix, by part, and what each part is measured with."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
from pathlib import Path

from tests.guarantees.matrix.record import Case, check_names

ROOT = Path(__file__).resolve().parents[3]
HERE = "tests/guarantees/"
# Worlds are drawn as counts, so that what makes counts out of tables does not matter here.
COUNTS = tuple(f"src/noracle/counts/{name}.py" for name in ("tally", "ratings", "sketch"))
SHARED = (
    HERE + "measure.py",
    HERE + "matrix/record.py",
    "src/noracle/results",
    "src/noracle/bounds",
    *COUNTS,
)
LABELS = (
    "src/noracle/accuracy",
    HERE + "worlds.py",
    HERE + "settings.py",
    HERE + "streams.py",
    HERE + "matrix/accuracy.py",
)
PEOPLE = (
    "src/noracle/superhuman",
    HERE + "test_ceiling_coverage.py",
    HERE + "test_certificate_errors.py",
    HERE + "matrix/people.py",
)
VERDICTS = (*LABELS, HERE + "matrix/verdicts.py")
DESIGNS = (*LABELS, HERE + "matrix/samples.py", HERE + "matrix/designs.py")
CANDIDATES = (
    HERE + "matrix/comparisons.py",
    "src/noracle/search",
    "examples/papers/_selection_worlds.py",
)

# The part, and the files whose change makes its rows out of date. A new part needs a line here and
# a module with ``cases``.
PARTS: dict[str, tuple[str, ...]] = {
    "accuracy": LABELS,
    "several ruled out": LABELS,
    "no answer": LABELS,
    "strata and weights": LABELS,
    "targeted questions": LABELS,
    "biased labels": LABELS,
    "finite populations": LABELS,
    "every look": LABELS,
    **dict.fromkeys(
        (
            "unequal rates",
            "recorded propensities",
            "asked again",
            "mixed parts",
            "many weights",
            "beyond",
            "without replacement",
            "aimed, mixed K",
            "fixed n",
        ),
        DESIGNS,
    ),
    "clusters": (*LABELS, HERE + "matrix/samples.py", HERE + "matrix/clustered.py"),
    "grades": (*LABELS, HERE + "matrix/grades.py"),
    "judges": (*LABELS, HERE + "matrix/judges.py"),
    "preferences": (
        "src/noracle/ranking/rank.py",
        "src/noracle/ranking/strength.py",
        HERE + "test_preferences.py",
        HERE + "matrix/preferences.py",
    ),
    "wrong verdicts": VERDICTS,
    "unsure verdicts": VERDICTS,
    "plans": (*VERDICTS, *PEOPLE, "src/noracle/ppi"),
    "comparisons": (*LABELS, *CANDIDATES[:1]),
    **dict.fromkeys(
        ("paired, fixed n", "paired, strata"), (*LABELS, *CANDIDATES[:1], HERE + "matrix/pairs.py")
    ),
    "races": (*LABELS, *CANDIDATES),
    "search": (*LABELS, *CANDIDATES),
    "ceilings": PEOPLE,
    "certificates": PEOPLE,
    "agreement": PEOPLE,
    "means": (
        "src/noracle/ppi",
        HERE + "means.py",
        HERE + "ppi_worlds.py",
        HERE + "matrix/means.py",
    ),
    "logic": ("src/noracle/logic", HERE + "matrix/logic.py"),
    "learning": (
        *LABELS[:1],
        "src/noracle/learn",
        HERE + "test_learn_validation.py",
        HERE + "matrix/trained.py",
    ),
    "collection": (
        *LABELS[:1],
        "src/noracle/collect",
        HERE + "test_collect.py",
        HERE + "matrix/trained.py",
    ),
    "watch": (*LABELS[:1], "src/noracle/oversight/watch/stream.py", HERE + "matrix/watch.py"),
}
MODULES = (
    "accuracy",
    "designs",
    "clustered",
    "grades",
    "judges",
    "preferences",
    "comparisons",
    "pairs",
    "verdicts",
    "people",
    "means",
    "logic",
    "trained",
    "watch",
)


@functools.cache
def all_cases() -> dict[tuple[str, str], Case]:
    """Every case by part and name."""
    found: list[Case] = []
    for name in MODULES:
        found += importlib.import_module(f"tests.guarantees.matrix.{name}").cases()
    check_names(found)
    unknown = sorted({c.part for c in found} ^ set(PARTS))
    if unknown:
        raise ValueError(f"parts of cases must be those of PARTS; got a difference in {unknown}.")
    return {c.key: c for c in found}


@functools.cache
def digest(part: str) -> str:
    """A fingerprint of all that the rows of a part rest on: the code, without comments, docstrings
    and layout.
    """
    whole = hashlib.sha256()
    for place in (*SHARED, *PARTS[part]):
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            whole.update(f"{file.relative_to(ROOT).as_posix()}\0{code_of(file)}\0".encode())
    return whole.hexdigest()[:16]


@functools.cache
def code_of(file: Path) -> str:
    """The syntax tree of a file as text, without docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            node.body = body[1:]  # type: ignore[attr-defined]
    return ast.dump(tree)
