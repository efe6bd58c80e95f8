"""Counting questions in one scan gives what the full count gives, and is only done where that is
proved.
"""

from __future__ import annotations

from typing import Any

import pytest

from noracle import Evidence, count_accuracy, count_judgements
from noracle.counts import count as asked

ANSWERS = {"item": [1, 1, 2, 2, 3, 3], "system": ["a", "b"] * 3, "answer": [0, 1, 2, 2, None, 0]}


@pytest.mark.parametrize(
    "judgements",
    [
        {"item": [1, 2, 3], "class": [0, 2, 1], "verdict": ["yes", "no", "unsure"]},
        {"item": [1, 2, 9], "class": [0, 2, 1], "verdict": ["yes", "no", "no"]},
        {
            "item": [1, 2, 3],
            "class": [0, 2, 1],
            "verdict": ["yes", "no", "no"],
            "propensity": [0.9, 1 / 3, None],
            "rater": ["x", "y", None],
        },
    ],
    ids=["plain", "item without answers", "propensities"],
)
@pytest.mark.parametrize("own", [False, True], ids=["one K", "own K"])
def test_one_scan_counts_the_same(
    judgements: dict[str, list[Any]], own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = {"item": [1, 2, 3, 9], "n_classes": [3, 4, 3, 3]} if own else None
    evidence = Evidence.from_tables(ANSWERS, judgements, items, n_classes=None if own else 3)
    expected = count_judgements(evidence, by_rater=False)
    counts = count_accuracy(evidence)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the full count was not needed")

    monkeypatch.setattr(asked, "gather", refuse)
    assert count_judgements(evidence, by_rater=False, counts=counts) == expected


def test_repeated_judgement_needs_the_full_count() -> None:
    judgements = {"item": [1, 1, 2], "class": [0, 0, 2], "verdict": ["yes", "yes", "no"]}
    evidence = Evidence.from_tables(ANSWERS, judgements, n_classes=3)
    questions = count_judgements(evidence, by_rater=False, counts=count_accuracy(evidence))
    assert questions == count_judgements(evidence, by_rater=False)
    assert sum(questions.questions.values()) == 2


def test_questions_are_counted_by_time() -> None:
    judgements = {
        "item": list(range(100)),
        "class": [0] * 50 + [1] * 50,
        "verdict": ["no"] * 100,
        "at": [*range(99, -1, -1)],
    }
    questions = count_judgements(
        Evidence.from_tables(judgements=judgements, n_classes=3), by_time=True
    ).questions
    assert {(q.period, q.asked): n for q, n in questions.items()}["period 1 of 10", 1] == 10
    assert len({q.period for q in questions}) == 10
