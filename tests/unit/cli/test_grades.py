"""Grades on the command line: every verb that takes them, folders with them, and one's own column
of right answers as judgements.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noracle import Evidence, compare_systems, estimate_accuracy, race_systems
from noracle.oversight.model import FolderSettings
from noracle.oversight.sniff import told_by_columns
from tests.unit.cli.conftest import Run

RATES = {"agent": 0.85, "other": 0.6}


def write(path: Path, columns: list[str], rows: list[tuple[Any, ...]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 items of free text, answers of two systems, 120 items graded; one file for each table."""
    place = tmp_path_factory.mktemp("grades")
    rng = np.random.default_rng(4)
    right = {s: rng.random(300) < a for s, a in RATES.items()}
    answers = [
        (i, s, f"truth {i}" if right[s][i] else f"guess {i % 7}, or so")
        for i in range(300)
        for s in RATES
    ]
    write(place / "answers.csv", ["item", "system", "answer"], answers)
    write(
        place / "grades.csv",
        ["item", "system", "correct"],
        [(i, s, int(right[s][i])) for i in range(120) for s in RATES],
    )
    return place


def test_estimate_from_grades_alone(noracle: Run, folder: Path) -> None:
    ended = noracle("estimate", "--grades", folder / "grades.csv", "--json")
    assert ended.code == 0
    found = {r["subject"]: r for r in ended.json["results"]}
    for name, truth in RATES.items():
        assert found[name]["low"] <= truth <= found[name]["high"]
        assert found[name]["guarantee"]["kind"] == "finite-sample"
        assert found[name]["counts"]["graded"] == 120
        assert found[name]["counts"]["ordinary"] == 0
        assert any("sample of more" in note for note in found[name]["notes"])


def test_card_says_grades(noracle: Run, folder: Path) -> None:
    ended = noracle(
        "estimate",
        "--answers",
        folder / "answers.csv",
        "--grades",
        folder / "grades.csv",
        "--system",
        "agent",
    )
    assert "300 items, 120 graded" in ended.out
    assert "ordinary label" not in ended.out
    assert "graded whatever the answer (assumed)" in ended.out


def test_counts_are_saved_and_read_again(noracle: Run, folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "counts.json"
    first = noracle("estimate", "--grades", folder / "grades.csv", "--save-counts", saved, "--json")
    again = noracle("estimate", "--counts", saved, "--json")
    assert [r["low"] for r in again.json["results"]] == [r["low"] for r in first.json["results"]]


def test_compare_and_race(noracle: Run, folder: Path) -> None:
    ended = noracle("compare", "--grades", folder / "grades.csv", "--json")
    assert (ended.code, ended.json["leaders"]) == (0, ["agent"])
    assert ended.json["guarantee"]["kind"] == "finite-sample"
    raced = noracle(
        "race", "--answers", folder / "answers.csv", "--grades", folder / "grades.csv", "--json"
    )
    assert (raced.code, raced.json["leaders"]) == (0, ["agent"])


def test_check(noracle: Run, folder: Path) -> None:
    ended = noracle(
        "check", "--answers", folder / "answers.csv", "--grades", folder / "grades.csv", "--json"
    )
    assert ended.code == 0
    assert [r["name"] for r in ended.json["results"]] == ["grading"]


def test_plan_counts_grades_for_each_system(noracle: Run, folder: Path) -> None:
    for place in ([folder], ["--grades", folder / "grades.csv"]):
        ended = noracle("plan", *place, "--half-width", "0.05", "--json")
        assert ended.code == 0
        by = ended.json["inputs"]["by_system"]
        assert ended.json["buy"] == {"grades": sum(row["n"] for row in by.values())}
        assert by["other"]["n"] > by["agent"]["n"] > 0


def test_route_draws_answers_to_grade_with_propensities(
    noracle: Run, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "to-grade.csv"
    asked = ["route", "--answers", folder / "answers.csv", "--grades", folder / "grades.csv"]
    ended = noracle(*asked, "--n", "50", "--seed", "2", "--out", out)
    assert ended.code == 0
    rows = read(out)
    assert list(rows[0]) == ["item", "system", "propensity"]
    assert len({row["item"] for row in rows}) == 50
    assert all(int(row["item"]) >= 120 for row in rows)
    assert {float(row["propensity"]) for row in rows} <= {0.5, 1.0}
    shared = [row for row in rows if float(row["propensity"]) == 1.0]
    assert all(sum(other["item"] == row["item"] for other in rows) == 2 for row in shared)
    plan = tmp_path / "plan.json"
    assert noracle("plan", folder, "--half-width", "0.06", "--out", plan).code == 0
    ended = noracle(*asked, "--plan", plan, "--seed", "2", "--out", out)
    assert ended.code == 0
    drawn = read(out)
    wanted = json.loads(plan.read_text(encoding="utf-8"))["inputs"]["by_system"]
    assert {s: sum(row["system"] == s for row in drawn) for s in wanted} == {
        s: row["n"] for s, row in wanted.items()
    }


@pytest.mark.full
def test_routed_grades_are_estimated(noracle: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "to-grade.jsonl"
    assert (
        noracle(
            "route",
            "--answers",
            folder / "answers.csv",
            "--design",
            "grades",
            "--n-classes",
            400,
            "--seed",
            1,
            "--out",
            out,
        ).code
        == 0
    )
    right = {
        (row["item"], row["system"]): row["answer"].startswith("truth")
        for row in read(folder / "answers.csv")
    }
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    graded = tmp_path / "graded.csv"
    write(
        graded,
        ["item", "system", "verdict", "propensity"],
        [
            (
                r["item"],
                r["system"],
                "right" if right[str(r["item"]), r["system"]] else "wrong",
                r["propensity"],
            )
            for r in rows
        ],
    )
    ended = noracle("estimate", "--answers", folder / "answers.csv", "--grades", graded, "--json")
    assert ended.code == 0
    for r in ended.json["results"]:
        truth = np.mean([good for (_, s), good in right.items() if s == r["subject"]])
        assert r["low"] <= truth <= r["high"]
        assert r["high"] - r["low"] < 0.3
        assert r["guarantee"]["kind"] == "finite-sample"


@pytest.mark.full
def test_report_recognises_grades_and_says_what_they_allow(
    noracle: Run, folder: Path, tmp_path: Path
) -> None:
    ended = noracle("report", folder, "--out", tmp_path / "r.html")
    assert ended.code == 0
    assert "found grades: " in ended.out
    assert "columns item, system, correct" in ended.out
    report = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    done = {s["name"]: s["status"] for s in report["steps"]}
    assert {name for name, status in done.items() if status == "done"} == {
        "accuracy",
        "comparison",
        "checks",
        "labels",
        "route",
    }
    assert "failed" not in done.values()
    alone = noracle("report", folder / "answers.csv", "--grades", folder / "grades.csv", "--json")
    assert (alone.code, len(alone.json["systems"])) == (0, 2)
    bare = noracle("report", folder / "grades.csv", "--json")
    assert (bare.code, len(bare.json["systems"])) == (0, 2)


def test_watch_follows_grades(noracle: Run, folder: Path, tmp_path: Path) -> None:
    lines = (folder / "grades.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    grades = tmp_path / "grades.csv"
    grades.write_text("".join(lines[:121]), encoding="utf-8")
    first = noracle("watch", tmp_path, "--once", "--no-page", "--json")
    assert first.code == 0
    assert [r["counts"]["labelled"] for r in first.json["results"]] == [60, 60]
    with grades.open("a", encoding="utf-8") as file:
        file.write("".join(lines[121:]) + "0,agent,unsure\n1,agent,1\n1,agent,0\n")
    second = noracle("watch", tmp_path, "--once", "--no-page", "--json")
    found = {r["subject"]: r for r in second.json["results"]}
    assert [r["counts"]["labelled"] for r in found.values()] == [120, 120]
    assert all(
        found[s]["low"] <= RATES[s] <= found[s]["high"] and found[s]["guarantee"]["anytime"]
        for s in RATES
    )
    said = (
        " ".join(second.json["diagnostics"]["notes"])
        if "notes" in second.json.get("diagnostics", {})
        else second.out
    )
    assert "1 unsure grades are left out" in said
    assert "2 further grades of answers that were counted are not used" in said
    assert "1 of them contradict the first one" in said
    (tmp_path / "more").mkdir()
    other = noracle("watch", tmp_path / "more", "--grades", grades, "--once", "--no-page", "--json")
    assert (other.code, len(other.json["results"])) == (0, 2)


@pytest.mark.parametrize("name", ["verdict", "correct", "is_correct", "grade", "right", "passed"])
def test_tables_of_grades_are_told_by_their_columns(name: str) -> None:
    seen = told_by_columns(
        "any.csv",
        {"item": "whole", "system": "text", name: "whole", "note": "text"},
        settings=FolderSettings(),
    )
    assert (seen.kind, seen.why) == ("grades", f"columns item, system, {name}")
    both = told_by_columns(
        "any.csv",
        {"item": "whole", "system": "text", "answer": "text", name: "whole"},
        settings=FolderSettings(),
    )
    assert both.kind == (
        "answers" if name != "verdict" else None
    )  # that one fits both, and is not guessed
    assert (
        told_by_columns("any.csv", {"item": "whole", name: "whole"}, settings=FolderSettings()).kind
        != "grades"
    )


@pytest.mark.parametrize("verb", ["estimate", "compare", "race", "check", "route"])
def test_mistakes_are_one_line_and_exit_2(noracle: Run, tmp_path: Path, verb: str) -> None:
    bad = write(
        tmp_path / "bad.csv",
        ["item", "system", "verdict"],
        [(1, "a", "right"), (2, "a", "perhaps")],
    )
    ended = noracle(verb, "--grades", bad)
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert "right" in ended.err or "answers or items to draw from" in ended.err


# -------------------------------------------------------------------------------- one's own right
# and wrong as judgements

OWN = 0.358


def own_column(n: int = 500, k: int = 10, seed: int = 3) -> dict[str, Any]:
    """A system's own right and wrong, written down as item, class, verdict, as if a class had been
    drawn; and another system.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    right = np.zeros((2, n), dtype=bool)
    right[0, rng.permutation(n)[: round(OWN * n)]] = True
    right[1] = rng.random(n) < 0.5
    answer = np.where(right, truth, (truth + rng.integers(1, k, size=(2, n))) % k)
    items = list(range(n))
    return {
        "answers": {
            "item": items * 2,
            "system": ["own"] * n + ["other"] * n,
            "answer": answer.ravel().tolist(),
        },
        "judgements": {
            "item": items,
            "class": answer[0].tolist(),
            "verdict": ["yes" if good else "no" for good in right[0].tolist()],
        },
        "grades": {"item": items, "system": ["own"] * n, "verdict": right[0].tolist()},
        "n_classes": k,
    }


@pytest.mark.full
def test_a_column_of_right_answers_as_judgements_is_refuted_everywhere() -> None:
    world = own_column()
    judged = Evidence.from_tables(world["answers"], world["judgements"], n_classes=10)
    estimate = estimate_accuracy(judged, system="own")
    assert not estimate.low <= OWN <= estimate.high  # this is what the check is for
    for result in (estimate, compare_systems(judged), race_systems(judged)):
        assert result.guarantee.kind.label == "heuristic"
        assert "answers made without the verdicts" in {
            a.name for a in result.guarantee.assumptions if a.status == "failed"
        }
    graded = estimate_accuracy(
        Evidence.from_tables(world["answers"], grades=world["grades"]), system="own"
    )
    assert (graded.low, graded.high) == (OWN, OWN)
    assert graded.guarantee.kind.label == "finite-sample"


@pytest.mark.thin(3)
@pytest.mark.parametrize("verb", ["estimate", "compare", "race"])
def test_the_command_line_says_so_too(noracle: Run, tmp_path: Path, verb: str) -> None:
    world = own_column(n=120)
    tables = [
        f"--{name}={write(tmp_path / f'{name}.csv', list(world[name]), list(zip(*world[name].values(), strict=True)))}"
        for name in ("answers", "judgements")
    ]
    ended = noracle(verb, *tables, "--n-classes", 10)
    assert "HEURISTIC" in ended.out
    assert "questions were about the answer" in ended.err
    assert noracle(verb, *tables, "--n-classes", 10, "--strict").code == 1
