"""``noracle plan FOLDER``: the plan of the library for what a folder holds, and from there to
questions.
"""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest

from noracle import Evidence, plan_accuracy
from tests.unit.cli.conftest import Run

N, K, LABELLED = 600, 4, 80


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(2)
    place = tmp_path / "evidence"
    place.mkdir()
    key = [rng.randrange(K) for _ in range(N)]
    with (place / "answers.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [
            (i, s, key[i] if rng.random() < a else (key[i] + 1) % K)
            for s, a in (("a", 0.9), ("b", 0.7))
            for i in range(N)
        ]
        csv.writer(file).writerows([("item", "system", "answer"), *rows])
    with (place / "judgements.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [
                ("item", "class", "verdict"),
                *((i, key[i], "yes") for i in rng.sample(range(N), LABELLED)),
            ]
        )
    (place / "noracle.toml").write_text("n_classes = 4\nhalf_width = 0.05\n", encoding="utf-8")
    return place


def test_plan_of_a_folder_is_that_of_the_library(noracle: Run, folder: Path) -> None:
    ended = noracle("plan", folder, "--json")
    assert (ended.code, ended.err) == (0, "")
    evidence = Evidence.from_tables(
        str(folder / "answers.csv"), str(folder / "judgements.csv"), n_classes=K
    )
    expected = plan_accuracy(evidence, half_width=0.05)
    assert ended.json["buy"] == expected.buy
    assert ended.json["inputs"]["have"] == {"ordinary": LABELLED}
    assert set(ended.json["inputs"]["by_system"]) == {"a", "b"}
    only = noracle("plan", folder, "--systems", "a", "--half-width", 0.05, "--json")
    assert only.json["buy"]["ordinary"] < ended.json["buy"]["ordinary"]


def test_planned_questions_are_about_items_without_a_label(
    noracle: Run, folder: Path, tmp_path: Path
) -> None:
    plan, questions = tmp_path / "plan.json", tmp_path / "questions.csv"
    assert noracle("plan", folder, "--out", plan, "--verify").code == 0
    tables = [
        "--answers",
        folder / "answers.csv",
        "--judgements",
        folder / "judgements.csv",
        "--n-classes",
        K,
    ]
    assert noracle("route", *tables, "--plan", plan, "--seed", 1, "--out", questions).code == 0
    with questions.open(encoding="utf-8") as file:
        asked = {row["item"] for row in csv.DictReader(file)}
    with (folder / "judgements.csv").open(encoding="utf-8") as file:
        labelled = {row["item"] for row in csv.DictReader(file)}
    assert len(asked) == json.loads(plan.read_text(encoding="utf-8"))["buy"]["ordinary"]
    assert not asked & labelled


def test_a_half_width_out_of_reach_is_told_by_the_exit_code(noracle: Run, folder: Path) -> None:
    ended = noracle("plan", folder, "--half-width", 0.02, "--kind", "question", "--json")
    assert ended.code == 3
    assert "out of reach" in ended.json["reason"]
    assert ended.json["buy"] == {"question": N - LABELLED}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--accuracy", 0.8], "--accuracy must come without a folder"),
        (["--budget", 10], "--budget must come without a folder"),
        (["--kind", "cheapest"], "--kind cheapest must come with prices"),
        (["--half-width", 0.7], "half_width must be in"),
        (["--systems", "nobody"], "system must be one of"),
    ],
)
def test_options_that_do_not_fit_a_folder_are_refused(
    noracle: Run, folder: Path, more: list[object], words: str
) -> None:
    ended = noracle("plan", folder, *more)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err


def test_cheapest_kind_of_a_folder_is_by_its_price(noracle: Run, folder: Path) -> None:
    ended = noracle(
        "plan",
        folder,
        "--kind",
        "cheapest",
        "--cost",
        "ordinary=50",
        "--cost",
        "question=1",
        "--half-width",
        0.07,
        "--json",
    )
    assert set(ended.json["buy"]) == {"question"}


def test_folder_options_need_a_folder(noracle: Run) -> None:
    ended = noracle(
        "plan", "--n-classes", 4, "--accuracy", 0.8, "--half-width", 0.05, "--systems", "a"
    )
    assert ended.code == 2
    assert "--systems must come with a folder" in ended.err


def test_population_can_be_told_without_a_folder(noracle: Run) -> None:
    words = [
        "plan",
        "--n-classes",
        4,
        "--accuracy",
        0.8,
        "--half-width",
        0.05,
        "--kind",
        "ordinary",
        "--json",
    ]
    assert (
        noracle(*words, "--n-items", 300).json["buy"]["ordinary"]
        < noracle(*words).json["buy"]["ordinary"]
    )
