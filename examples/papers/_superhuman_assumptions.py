"""Table 1: the two assumptions, on items with a key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from _superhuman_data import N_RATERS, TASKS, Rated, number, task_of, third_person
from _tables import Page, markdown

from noracle.superhuman import check_assumptions


class Together(NamedTuple):
    """Assumption (2) on items with a key: how often a rater is right, and where another is right;
    means over raters and pairs.
    """

    right: float
    given_right: float


def together(rated: Rated) -> Together:
    """The two columns of Table 1a."""
    if rated.key is None:
        raise ValueError("Table 1 needs the key")
    right = (rated.ratings == rated.key[:, None]).astype(float)
    both = right.T @ right / len(right)
    single = np.diag(both)
    given = both / single[None, :]
    return Together(float(single.mean()), float(given[~np.eye(len(single), dtype=bool)].mean()))


class WhereWrong(NamedTuple):
    """Assumption (6) where the vote is wrong: the system is right, is wrong in any way, repeats the
    vote. Ties are shared.
    """

    n_items: float
    right: float
    wrong: float
    repeats: float


def where_wrong(rated: Rated, system: str) -> WhereWrong:
    """The columns of Table 1b, and the one that (6) needs: the vote's own wrong label."""
    if rated.key is None:
        raise ValueError("Table 1 needs the key")
    votes, given, rows = rated.votes, rated.answers[system], np.arange(len(rated.key))
    top = votes == votes.max(axis=1, keepdims=True)
    weight = top / top.sum(
        axis=1, keepdims=True
    )  # a tie is each of its labels with the same chance
    weight[rows, rated.key] = 0.0
    wrong = weight.sum(axis=1)
    total = float(wrong.sum())
    if total == 0:
        return WhereWrong(0.0, math.nan, math.nan, math.nan)
    right = float(wrong[given == rated.key].sum()) / total
    return WhereWrong(total, right, 1 - right, float(weight[rows, given].sum()) / total)


def table1(page: Page, sets: Sequence[Rated], real: Rated | None) -> None:
    """Both assumptions on items with a key."""
    rows = []
    for rated in (*sets, *([real] if real else [])):
        found, theirs = together(rated), TASKS.get(task_of(rated))
        printed = [number(theirs.given_right), number(theirs.right)] if theirs else ["–", "–"]
        rows.append(
            [
                rated.name,
                f"{len(rated.ratings):,}",
                *printed,
                number(found.given_right),
                number(found.right),
                verdict(rated, None),
            ]
        )
    page.add(
        "Table 1a: do raters err together? (2)",
        f"Accuracy of a rater where another one is right, and overall; {N_RATERS} raters. Raters of the generated tasks are simulated "
        "to these figures, so "
        "they agree by design; CIFAR-10N is real. No bound but `pairwise` needs (2).",
        markdown(
            [
                "task",
                "items",
                "theirs: given right",
                "theirs: right",
                "ours: given right",
                "ours: right",
                "check of (2)",
            ],
            rows,
        ),
        *(
            []
            if real
            else [
                "CIFAR-10N is left out: NORACLE_DATA does not name a folder with cifar10_train.npz."
            ]
        ),
    )
    rows = []
    for rated in (*sets, *([third_person(real)] if real else [])):
        theirs = TASKS.get(task_of(rated))
        for system in rated.answers:
            found_wrong = where_wrong(rated, system)
            printed = number(theirs.right_where_wrong[system]) if theirs else "–"
            ours = [
                number(found_wrong.right),
                number(found_wrong.wrong),
                number(found_wrong.repeats),
            ]
            rows.append(
                [
                    f"{rated.name}, {len(rated.ratings):,} items, {system}",
                    f"{found_wrong.n_items:,.1f}",
                    printed,
                    *ours,
                    verdict(rated, system),
                ]
            )
    page.add(
        "Table 1b: is the system right where the vote is wrong? (6)",
        "Only on items whose vote is wrong (a tie counts by the share of its labels). The paper adds up all wrong labels, which is "
        "more than (6) asks; the column "
        "'repeats the vote' is what (6) compares with. The systems differ from the paper's, and so do the figures.",
        markdown(
            [
                "task and system",
                "vote wrong",
                "theirs: right",
                "ours: right",
                "ours: wrong",
                "ours: repeats the vote",
                "check of (6)",
            ],
            rows,
        ),
    )


def verdict(rated: Rated, system: str | None) -> str:
    """What the package's own check says."""
    check = check_assumptions(
        rated.ratings, rated.key, system=system, answers=rated.answers if system else None
    )
    supported = check.diagnostics["every_pair_supported" if system is None else "supported"]
    return "fails" if not check.passed else "supported" if supported else "undecided"
