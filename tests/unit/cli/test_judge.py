from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from noracle.cli import run


@pytest.fixture
def grades(tmp_path: Path) -> Path:
    """Two judges who graded 200 answers, one of them swayed by the order, and a person."""
    rng = np.random.default_rng(3)
    right = rng.random(200) < 0.7
    rows = []
    for name, error in (("fair", 0.1), ("swayed", 0.15)):
        said = right ^ (rng.random(200) < error)
        rows += [(i, "a", bool(said[i]), name, 1) for i in range(200)]
        if name == "swayed":
            rows += [(i, "a", bool(said[i]) and i > 30, name, 2) for i in range(200)]
    rows += [(int(i), "a", bool(right[i]), "ann", "") for i in rng.permutation(200)[:60]]
    path = tmp_path / "grades.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("item", "system", "verdict", "rater", "position"), *rows])
    return path


def test_all_that_the_verb_says(grades: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judge", "--grades", str(grades), "--half-width", "0.05"]) == 1  # bias was found
    text = capsys.readouterr().out
    for words in (
        "accuracy of 'a'",
        "people alone",
        "± 0.05 takes about",
        "check of judge",
        "FAILED",
        "unanimous and wrong",
    ):
        assert words in text


def test_fair_judge_is_fine_and_json_has_every_result(
    grades: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "next.csv"
    line = [
        "judge",
        "--grades",
        str(grades),
        "--judge",
        "fair",
        "--next",
        "10",
        "--out",
        str(out),
        "--json",
    ]
    assert run(line) == 0
    found = json.loads(capsys.readouterr().out)["results"]
    assert [r["schema"] for r in found] == ["estimate/1", "check/1", "routing/1"]
    with out.open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 10


def test_a_judge_that_refused_half_is_no_person_for_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its verdicts contradict those of people, and nothing is compared with them."""
    rows = [(i, "a", i % 10 < 7, "model") for i in range(200)]
    rows += [(i, "a", i % 10 < 3, "half") for i in range(0, 200, 2)]
    rows += [(i, "a", i % 10 < 7, "ann") for i in range(0, 200, 3)]
    path = tmp_path / "grades.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("item", "system", "verdict", "rater"), *rows])
    assert run(["judge", "--grades", str(path)]) == 2
    assert "name every judge" in capsys.readouterr().err
    assert run(["judge", "--grades", str(path), "--judge", "model,half", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["results"]
    checks = [r for r in found if r["schema"] == "check/1"]
    assert [r["diagnostics"]["judge"] for r in checks] == ["model", "half"]
    assert [r["diagnostics"]["people"] for r in checks] == [["ann"], ["ann"]]
    assert [r["finding"].split(",")[0] for r in checks] == ["model against ann", "half against ann"]
    assert [r["parts"][0]["value"] for r in checks] == pytest.approx([1.0, 3 / 7], abs=0.1)


@pytest.mark.parametrize(("at_most", "code"), [("0.5", 0), ("0.001", 1)])
def test_at_most_decides_the_exit_code(grades: Path, at_most: str, code: int) -> None:
    text = grades.read_text(encoding="utf-8").splitlines()
    once = [line for line in text if not line.endswith(",2")]
    grades.write_text("\n".join(once) + "\n", encoding="utf-8")
    assert run(["judge", "--grades", str(grades), "--at-most", at_most, "--json"]) == code


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--judge", "nobody"], "judge must be a rater of the grades; got 'nobody'"),
        (["--judge", "fair", "--at-most", "0.1"], "--at-most must go with several judges"),
        (["--out", "next.csv"], "--out must go with --next"),
        (["--method", "ppi", "--weight", "2"], "weight must be in [0, 1]; got 2.0"),
    ],
)
def test_wrong_use_is_one_line(
    grades: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["judge", "--grades", str(grades), *more]) == 2
    assert message in capsys.readouterr().err


def test_grades_must_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judge"]) == 2
    assert "--grades" in capsys.readouterr().err


def test_raters_choose_whose_grades_count(grades: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "--grades", str(grades), "--raters", "ann", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["results"][0]
    assert (found["counts"]["items"], found["counts"]["labelled"]) == (200, 60)
    assert run(["estimate", "--grades", str(grades), "--raters", "zoe"]) == 2
    assert "a column rater with one of ['zoe']" in capsys.readouterr().err


def test_report_has_a_section_and_takes_no_judge_for_the_truth(
    grades: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", str(grades.parent), "--json"]) == 0
    steps = {s["name"]: s for s in json.loads(capsys.readouterr().out)["steps"]}
    assert steps["judge"]["status"] == "done"
    kinds = [r["schema"] for r in steps["judge"]["results"]]
    assert kinds == ["estimate/1", "check/1", "check/1", "certificate/1"]
    own = steps["accuracy"]["results"][0]
    assert own["counts"]["labelled"] == 60
    assert "--raters ann" in steps["accuracy"]["command"]
    assert "--raters" not in steps["judge"]["command"]
