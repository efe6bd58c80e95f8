"""Small evidence for the contract tests: two systems, four classes, uniform questions, some unsure,
some without an answer.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl

from noracle import Evidence

Columns = dict[str, list[Any]]
K = 4


def tables(case: str, n: int = 80) -> tuple[Columns, Columns | None]:
    """Answers and judgements of one case; questions are made in a sealed order, written in ``at``."""
    rng = np.random.default_rng(17)
    truth = rng.integers(K, size=n).tolist()
    answers: Columns = {"item": [], "system": [], "answer": []}
    for system, rate in (("a", 0.8), ("b", 0.5)):
        for i in range(n):
            wrong = (truth[i] + 1 + int(rng.integers(K - 1))) % K
            given: int | None = truth[i] if rng.random() < rate else wrong
            if rng.random() < 0.1:
                given = None
            if case == "all right":
                given = truth[i]
            elif case == "all wrong":
                given = wrong
            elif case == "nothing answered":
                given = None
            answers["item"].append(f"q{i:03d}")
            answers["system"].append(system)
            answers["answer"].append(given)
    if case == "no labels":
        return answers, None
    judgements: Columns = {"item": [], "class": [], "verdict": [], "at": [], "rater": []}
    order = rng.permutation(n).tolist()
    for t, i in enumerate(order[:1] if case == "one label" else order):
        asked = int(rng.integers(K))
        verdict = "yes" if asked == truth[i] else "no"
        if case == "all unsure" or (case == "usual" and rng.random() < 0.05):
            verdict = "unsure"
        for column, value in zip(
            judgements.values(), (f"q{i:03d}", asked, verdict, t, f"r{t % 3}"), strict=True
        ):
            column.append(value)
    return answers, judgements


CASES = (
    "usual",
    "no labels",
    "one label",
    "all right",
    "all wrong",
    "nothing answered",
    "all unsure",
)


@cache
def evidence(case: str = "usual") -> Evidence:
    """The usual case is counted by DuckDB, all others by Polars, which plans small queries faster:
    so the two are compared as well.
    """
    answers, judgements = tables(case)
    if case == "usual":
        return Evidence.from_tables(answers=answers, judgements=judgements, n_classes=K)
    return Evidence.from_tables(
        answers=frame(answers), judgements=judgements and frame(judgements), n_classes=K
    )


def frame(columns: Columns) -> pl.DataFrame:
    return pl.DataFrame(columns)


def permuted(columns: Columns, order: list[int]) -> Columns:
    return {name: [values[i] for i in order] for name, values in columns.items()}


@cache
def changed(
    *, shuffle: bool = False, classes: tuple[Any, ...] | None = None, items: bool = False
) -> Evidence:
    """The usual evidence with its rows in another order, with its classes renamed, or with its
    items renamed.
    """
    answers, judgements = tables("usual")
    assert judgements is not None
    rng = np.random.default_rng(3)
    if classes is not None:
        answers["answer"] = [None if a is None else classes[a] for a in answers["answer"]]
        judgements["class"] = [classes[c] for c in judgements["class"]]
    if items:
        answers["item"] = [f"x-{name[::-1]}" for name in answers["item"]]
        judgements["item"] = [f"x-{name[::-1]}" for name in judgements["item"]]
    if shuffle:
        answers = permuted(answers, rng.permutation(len(answers["item"])).tolist())
        judgements = permuted(judgements, rng.permutation(len(judgements["item"])).tolist())
    named = None if classes is None or isinstance(classes[0], int) else sorted(classes)
    return Evidence.from_tables(
        answers=frame(answers),
        judgements=frame(judgements),
        n_classes=None if named else K,
        classes=named,
    )


@cache
def with_texts() -> Evidence:
    """The usual evidence with a table of items that holds their texts and options."""
    answers, judgements = tables("usual")
    names = sorted(set(answers["item"]))
    texts = [f"SECRET question {name}" for name in names]
    items = {
        "item": names,
        "n_classes": [K] * len(names),
        "text": texts,
        "options": [["SECRET option"] * K for _ in names],
    }
    return Evidence.from_tables(
        answers=frame(answers), judgements=frame(judgements), items=frame(items)
    )
