"""A module is a noun of the field, and no two classes have one name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "noracle"
MODULES = sorted(SOURCE.rglob("*.py"))
# Words of the field that end as gerunds do.
NOUNS = {"betting", "ceiling", "drawing", "ranking", "training"}


def test_no_class_name_is_there_twice() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(path.relative_to(SOURCE).as_posix())
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_no_module_name_is_a_gerund_of_our_own() -> None:
    names = {path.stem.strip("_") for path in MODULES}
    assert {name for name in names if name.endswith("ing")} - NOUNS == set()


def test_there_are_at_most_270_modules() -> None:
    assert len(MODULES) <= 270
