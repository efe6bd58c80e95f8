"""More evidence must not widen the expected interval: labels, strata, items without an answer and
other numbers of classes, one at a time.

Widths are averaged over worlds with the same draws before and after. The default interval may
change with the design; a design with one thing more must not be much worse off. From one to several
numbers of classes the method changes, and a factor of up to 1.45 is honest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from noracle import AccuracyCounts, estimate_accuracy
from noracle.counts.tally import Cell, Label, Tally

Rows = list[tuple[Cell, Label | None, int | None]]
"""Items: where they lie, their label if there is one, and the answer."""


def counted(rows: Rows) -> AccuracyCounts:
    tallies: Counter[Tally] = Counter()
    items: Counter[Cell] = Counter()
    answered: Counter[Cell] = Counter()
    for cell, label, answer in rows:
        items[cell] += 1
        answered[cell] += answer is not None
        if label is not None:
            tallies[
                label._replace(stratum=cell.stratum, weight=cell.weight).meet(answer, system="s")
            ] += 1
    return AccuracyCounts(tallies=dict(tallies), items=dict(items), answered=dict(answered))


def one_label(rng: np.random.Generator, kind: str, k: int, truth: int) -> Label:
    if kind == "ordinary":
        return Label(k, "yes", frozenset({truth}))
    if kind == "question":
        asked = int(rng.integers(k))
        return Label(k, "yes" if asked == truth else "no", frozenset({asked}))
    wrong = [c for c in range(k) if c != truth]
    m = int(kind.removeprefix("ruled out "))
    return Label(k, "no", frozenset(rng.choice(wrong, size=m, replace=False).tolist()))


def world(
    rng: np.random.Generator,
    kind: str,
    n_items: int,
    n_labels: int,
    *,
    k: int = 4,
    rate: float = 0.7,
) -> Rows:
    rows: Rows = []
    for i in range(n_items):
        truth = int(rng.integers(k))
        answer = truth if rng.random() < rate else (truth + 1 + int(rng.integers(k - 1))) % k
        rows.append(
            (Cell("s", k), one_label(rng, kind, k, truth) if i < n_labels else None, answer)
        )
    return rows


def more_label(kind: str) -> Callable[[np.random.Generator, Rows], Rows]:
    def add(rng: np.random.Generator, rows: Rows) -> Rows:
        at = next(i for i, row in enumerate(rows) if row[1] is None)
        cell, _, answer = rows[at]
        truth = answer if rng.random() < 0.7 else (answer + 1) % cell.n_classes  # type: ignore[operator]
        return [
            *rows[:at],
            (cell, one_label(rng, kind, cell.n_classes, int(truth)), answer),
            *rows[at + 1 :],
        ]  # type: ignore[arg-type]

    return add


def more_stratum(rng: np.random.Generator, rows: Rows) -> Rows:
    return [
        (cell._replace(stratum="ab"[int(rng.random() < 0.3)]), label, answer)
        for cell, label, answer in rows
    ]


def more_unanswered(_: np.random.Generator, rows: Rows) -> Rows:
    return [*rows, (rows[0][0], None, None)]


def other_classes(share: float) -> Callable[[np.random.Generator, Rows], Rows]:
    """Some items have one class more; at least one of them has a label of the kind that the first
    item has.
    """

    def add(rng: np.random.Generator, rows: Rows) -> Rows:
        first = rows[0][1]
        kind = (
            "ordinary"
            if first is not None
            and first.verdict == "yes"
            and all(r[1] is None or r[1].verdict == "yes" for r in rows)
            else ""
        )
        changed = 1 if share == 0 else round(share * len(rows))
        picked = {0} if share == 0 else set(rng.choice(len(rows), changed, replace=False).tolist())
        found: Rows = []
        for i, (cell, label, answer) in enumerate(rows):
            if i in picked:
                k = cell.n_classes + 1
                truth = answer if rng.random() < 0.7 else (answer + 1) % k  # type: ignore[operator]
                fresh = None if label is None else one_label(rng, kind or "question", k, int(truth))  # type: ignore[arg-type]
                found.append((cell._replace(n_classes=k), fresh, answer))
            else:
                found.append((cell, label, answer))
        return found

    return add


CHANGES: dict[str, tuple[Callable[[np.random.Generator, Rows], Rows], float]] = {
    "an ordinary label": (more_label("ordinary"), 1.02),
    "a question": (more_label("question"), 1.02),
    "a ruled-out class": (more_label("ruled out 1"), 1.02),
    "two ruled-out classes": (more_label("ruled out 2"), 1.02),
    "a stratum": (more_stratum, 1.02),
    "an item without an answer": (more_unanswered, 1.02),
    "one item of another number of classes": (other_classes(0.0), 1.05),
    "a third of another number of classes": (other_classes(1 / 3), 1.45),
}
BASES: dict[str, tuple[str, int, int]] = {
    "ordinary": ("ordinary", 2000, 150),
    "ordinary, most of them": ("ordinary", 400, 360),
    "questions": ("question", 2000, 400),
    "ruled out": ("ruled out 1", 2000, 400),
}


@pytest.mark.thin(4)
@pytest.mark.filterwarnings("ignore::noracle.GuaranteeWarning")
@pytest.mark.parametrize("worlds", [12, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("base", BASES)
def test_more_evidence_does_not_widen_the_expected_interval(
    base: str, change: str, worlds: int
) -> None:
    kind, n_items, n_labels = BASES[base]
    alter, most = CHANGES[change]
    before = after = normal = 0.0
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        rows = world(rng, kind, n_items, n_labels)
        options: dict[str, Any] = {"checks": "none"}
        before += estimate_accuracy(counted(rows), **options).width
        altered = counted(alter(rng, rows))
        after += estimate_accuracy(altered, **options).width
        normal += estimate_accuracy(altered, interval="wald", **options).width
    # Labels of other numbers of classes say less or more by themselves: a large share of them is
    # compared with its own normal interval.
    against = before if most < 1.45 else max(before, normal)
    assert after <= against * (most + (0.02 if worlds < 100 else 0.0))
