"""Appendices G and H of seed 000: weights that the data choose, and options out of wrong answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from _bernstein_weights import GRID, WAYS, coverage, ivw_weight, limits, theorem4
from math_mc import distractors, main, multiple_choice, normal

from noracle.search.task import read_task


@pytest.mark.full
@pytest.mark.parametrize(
    ("accuracy", "n_classes", "sizes"),
    [
        (0.93, 4, (40, 120)),
        (1.0, 4, (4, 4)),
        (0.0, 10, (10, 10)),
        (0.5, 3, (2, 2)),
        (0.99, 5, (60, 200)),
    ],
)
def test_chosen_weights_keep_the_promise(
    accuracy: float, n_classes: int, sizes: tuple[int, int]
) -> None:
    found = {
        way: coverage(way, accuracy, n_classes, sizes, repetitions=150, seed=3) for way in WAYS
    }
    assert all(found[way][0] >= 0.93 for way in ("split", "crossed", "grid", "exact")), found
    assert found["exact"][1] <= min(found[way][1] for way in ("split", "crossed", "grid"))


def test_plug_in_limits_have_no_promise() -> None:
    """All labels speak for the answer: the plug-in variance is 0, and so is its root."""
    low, _ = limits("plug-in", ((5, 5), (5, 5)), ((500, 500), (500, 500)), 4)
    held, _ = theorem4((10, 10), (1000, 1000), 4, 0.5, 0.05)
    assert low > held


def test_the_weight_comes_from_the_half_that_the_bound_does_not_use() -> None:
    ordinary, complementary = ((10, 6), (10, 1)), ((40, 30), (40, 20))
    weight = ivw_weight(ordinary[1], complementary[1], 4)
    other = ivw_weight(ordinary[0], complementary[0], 4)
    first = theorem4(ordinary[0], complementary[0], 4, weight, 0.05)
    assert limits("split", ordinary, complementary, 4) == pytest.approx(first)
    both = (
        theorem4(ordinary[0], complementary[0], 4, weight, 0.025),
        theorem4(ordinary[1], complementary[1], 4, other, 0.025),
    )
    mean = [sum(limit) / 2 for limit in zip(*both, strict=True)]
    assert limits("crossed", ordinary, complementary, 4) == pytest.approx(mean)
    assert len(GRID) == 9


def test_distractors_are_the_wrong_answers_given_most_often() -> None:
    tries = ["$3$", "3.0", "4", "1/2", "\\frac{1}{2}", "0.5", "7", " 4 ", "x+1", "5", ""]
    assert [normal(t) for t in ("$\\frac{2}{4}$", "0.5", "1,000", "X + 1.")] == [
        "1/2",
        "1/2",
        "1000",
        "x+1",
    ]
    assert distractors("5", tries) == ["1/2", "$3$", "4", "7"]


def test_open_questions_become_items_that_noracle_reads(tmp_path: Path) -> None:
    rows = [
        {"question": "What is 2 + 3?", "answer": "5", "tries": ["4", "6", "7", "8", "5", "4"]},
        {"question": "What is 2 + 3?", "answer": "5", "tries": ["4", "6", "7", "8"]},
        {"question": "What is 1 + 1?", "answer": "2", "tries": ["3", "3.0", "$3$", "2", "4"]},
    ]
    made = list(multiple_choice(rows, seed=1))
    assert len(made) == 1
    assert made[0][made[0]["Answer"]] == "5"
    places = {next(iter(multiple_choice(rows, seed=s)))["Answer"] for s in range(30)}
    assert places == set("ABCDE")
    (tmp_path / "tries.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), "utf-8")
    assert main([str(tmp_path / "tries.jsonl"), str(tmp_path / "items.jsonl")]) == 0
    (item,) = read_task(tmp_path / "items.jsonl", preset="math-mc").items
    assert sorted(item.options) == ["4", "5", "6", "7", "8"]
