"""Accuracy that falls in a watched folder: the same rows give the same alarm at the same label,
however often somebody looked, in whatever pieces they came, and whatever was killed.
"""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noracle.accuracy.drift import DriftRule
from noracle.cli import run as verb
from noracle.errors import ArgumentError
from noracle.oversight import Oversight, oversee
from noracle.oversight.page import alerts, fallen, render_oversight
from noracle.oversight.watch import Look, Watch, as_oversight
from noracle.oversight.words import answer

Row = tuple[object, ...]
HEADS = {
    "answers.csv": "item,system,answer",
    "judgements.csv": "item,class,verdict,at",
    "people.csv": "item,system,verdict,rater,at",
    "judge.csv": "item,system,verdict,rater,at",
    "items.csv": "item,stratum",
}


def add(folder: Path, name: str, rows: list[Row]) -> None:
    folder.mkdir(exist_ok=True)
    new = not (folder / name).exists()
    with (folder / name).open("a", encoding="utf-8", newline="") as handle:
        if new:
            handle.write(HEADS[name] + "\n")
        csv.writer(handle, lineterminator="\n").writerows(rows)


def look(folder: Path, rule: DriftRule | None = None) -> Look:
    with Watch(folder, drift=rule) as watch:
        return watch.look()


def told(found: Look) -> list[dict[str, Any]]:
    return [d.to_dict() for d in found.drift]


def stamp(i: int) -> str:
    return f"2026-09-{1 + i // 100:02d}T{8 + i % 100 // 10:02d}:{i % 10:02d}:00"


def graded(n: int = 600, change: int = 400, judge: int = 0) -> dict[str, list[Row]]:
    """Grades by people of one answer in ``judge + 1``, and by the judge of all."""
    rng = np.random.default_rng(4)
    tables: dict[str, list[Row]] = {"people.csv": [], "judge.csv": [], "items.csv": []}
    for i in range(n):
        for j in range(judge + 1):
            item = f"{i}-{j}"
            right = bool(rng.random() < (0.9 if i < change else 0.6))
            called = bool(rng.random() < (0.9 if right else 0.15))
            if judge:
                tables["judge.csv"].append((item, "a", int(called), "gpt", stamp(i)))
            if j == 0:
                tables["people.csv"].append((item, "a", int(right), "ann", stamp(i)))
                tables["items.csv"].append((item, "law" if i % 3 else "news"))
    return {name: rows for name, rows in tables.items() if rows}


RULE = DriftRule(floor=0.8, run_length=1000)


def test_looks_in_pieces_end_where_one_look_ends(tmp_path: Path) -> None:
    tables = graded(judge=2)
    rule = DriftRule(floor=0.8, run_length=1000, judge="gpt", window="day")
    one, many = tmp_path / "one", tmp_path / "many"
    for name, rows in tables.items():
        add(one, name, rows)
    whole = look(one, rule)
    rng, done, alarms, told_new = random.Random(0), 0, set[int | None](), list[str]()
    add(many, "items.csv", tables["items.csv"])
    while done < 600:
        step = rng.randint(100, 200)
        add(many, "judge.csv", tables["judge.csv"][3 * done : 3 * (done + step)])
        add(many, "people.csv", tables["people.csv"][done : done + step])
        done += step
        found = look(many, rule)
        alarms.add(found.drift[0].label)
        told_new += found.new_drift
    assert told(found) == told(whole)
    assert whole.drift[0].alarm
    assert whole.alarm
    assert whole.new_drift == ("a",)
    assert told_new == ["a"]  # once
    assert alarms == {None, whole.drift[0].label}
    # Grades of the judge are no labels.
    assert whole.accuracy[0].counts["labelled"] == 600
    assert {row["name"] for row in whole.drift[0].moved} == {"law", "news"}


def test_nothing_is_looked_for_without_a_level(tmp_path: Path) -> None:
    add(tmp_path / "f", "people.csv", graded(200, 0)["people.csv"])
    found = look(tmp_path / "f")
    assert found.drift == ()
    assert not found.alarm
    assert "drift" not in found.to_dict()["watch"]


def test_what_was_stated_is_kept_and_cannot_be_changed(tmp_path: Path) -> None:
    add(tmp_path / "f", "people.csv", graded(500, 100)["people.csv"])
    first = look(tmp_path / "f", RULE)
    assert told(look(tmp_path / "f")) == told(first)
    with pytest.raises(ArgumentError, match=r"must stay as it was stated first .floor 0.8"):
        look(tmp_path / "f", DriftRule(floor=0.7))
    (tmp_path / "f" / "noracle.toml").write_text("[drift]\nfloor = 0.7\n", encoding="utf-8")
    with pytest.raises(ArgumentError, match=r"must stay .* got floor 0.7"):
        look(tmp_path / "f")
    add(tmp_path / "g", "people.csv", graded(50, 10)["people.csv"])
    look(tmp_path / "g")
    with pytest.raises(ArgumentError, match="judge must be named before the first grades"):
        look(tmp_path / "g", DriftRule(floor=0.8, judge="gpt"))
    assert look(tmp_path / "g", DriftRule(floor=0.8)).drift  # a floor may be stated later


def test_a_file_that_was_rewritten_keeps_the_level(tmp_path: Path) -> None:
    folder, rows = tmp_path / "f", graded(400, 100)["people.csv"]
    add(folder, "people.csv", rows)
    before = look(folder, RULE)
    (folder / "people.csv").write_text(HEADS["people.csv"] + "\n", encoding="utf-8")
    add(folder, "people.csv", [(i, s, 1, r, at) for i, s, _, r, at in rows])  # type: ignore[misc]
    after = look(folder)
    assert before.drift[0].alarm
    assert after.run == 2
    assert not after.drift[0].alarm
    assert after.drift[0].level == 0.8


def test_labels_that_come_late_are_told(tmp_path: Path) -> None:
    folder, rows = tmp_path / "f", graded(500, 250)["people.csv"]
    add(folder, "people.csv", rows[:200] + rows[260:])
    before = look(folder, RULE).drift[0].label
    add(folder, "people.csv", rows[200:260])
    found = look(folder)
    assert found.drift[0].label != before
    assert any(f"the alarm of 'a' was at label {before}" in note for note in found.notes)


def test_a_judge_that_nobody_is_is_told(tmp_path: Path) -> None:
    add(tmp_path / "f", "people.csv", graded(30, 10)["people.csv"])
    found = look(tmp_path / "f", DriftRule(floor=0.8, judge="claude"))
    assert "no grade by the judge 'claude' yet; raters are 'ann'" in found.notes


def test_systems_fall_each_for_itself(tmp_path: Path) -> None:
    rows = graded(500, 250)["people.csv"]
    both = [(i, s, v, r, at) for i, _, v, r, at in rows for s, v in (("bad", v), ("good", 1))]
    add(tmp_path / "f", "people.csv", both)  # type: ignore[arg-type]
    found = look(tmp_path / "f", RULE)
    assert [d.alarm for d in found.drift] == [True, False]
    assert found.new_drift == ("bad",)


def test_judgements_and_answers_are_followed_too(tmp_path: Path) -> None:
    folder, rng = tmp_path / "f", np.random.default_rng(1)
    folder.mkdir()
    (folder / "noracle.toml").write_text("n_classes = 4\n", encoding="utf-8")
    answers, judged = list[Row](), list[Row]()
    for i in range(900):
        y = int(rng.integers(4))
        right = rng.random() < (0.95 if i < 500 else 0.3)
        asked = int(rng.integers(4))
        answers.append((i, "a", y if right else (y + 1) % 4))
        judged.append((i, asked, "yes" if asked == y else "no", ""))
    add(folder, "answers.csv", answers)
    add(folder, "judgements.csv", judged)
    found = look(folder, DriftRule(floor=0.8, run_length=2000)).drift[0]
    assert found.alarm
    assert found.label > 500
    assert found.at == ""


def test_the_page_shows_the_curve(tmp_path: Path) -> None:
    from noracle.oversight.page import write_oversight

    add(tmp_path / "f", "people.csv", graded(500, 250)["people.csv"])
    found = look(tmp_path / "f", RULE)
    page = write_oversight(tmp_path / "p.html", as_oversight(found)).read_text(encoding="utf-8")
    assert "Has accuracy fallen below the stated level?" in page
    assert page.count("<svg") >= 1
    assert "fell below 0.800" in page


def stated(folder: Path, level: str, tables: dict[str, list[Row]]) -> Path:
    for name, rows in tables.items():
        add(folder, name, rows)
    text = f"[drift]\n{level}\nrun_length = 1000\n"
    (folder / "noracle.toml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("level", "judge"),
    [("floor = 0.8", 0), ('floor = 0.8\njudge = "gpt"\nwindow = "day"', 2)],
)
def test_the_report_says_what_the_watch_says(level: str, judge: int, tmp_path: Path) -> None:
    tables = graded(judge=judge)
    tables.pop("items.csv" if judge else "judge.csv", None)  # which lists no other item
    folder = stated(tmp_path / "f", level, tables)
    report = oversee(folder)
    step = report.step("drift")
    assert step is not None
    assert [r.to_dict() for r in step.results] == told(look(folder))  # both read noracle.toml
    assert [d.label for d in fallen(report.steps)] == [look(folder).drift[0].label]
    assert answer(step).startswith("ALARM: accuracy of a fell below 0.800 between 2026-09-")
    assert answer(step).endswith(" (95 %)")
    assert f"Alarm: {answer(step)[7:]}." in alerts(report.steps, report.findings)
    assert report.next_steps[0].statement == "Find out what changed in a, or in what it is asked"
    assert any(note.startswith("drift: its promise is an average run") for note in report.notes)
    assert Oversight.from_dict(json.loads(report.to_json())).to_dict() == report.to_dict()
    page = render_oversight(report)
    section = page.partition('id="step-drift"')[2].partition('<details class="part"')[0]
    assert "<svg" in section
    assert "Accuracy by window" in section
    assert "which answers get a label" in page
    told_by = (str(folder), "--once", "--floor", "0.8", "--run-length", "1000")
    assert step.command.startswith("noracle watch ")
    assert all(word in step.command for word in told_by)


def test_the_report_of_a_level_that_holds_raises_no_alarm(tmp_path: Path) -> None:
    folder = stated(tmp_path / "f", "floor = 0.5", graded(300))
    report = oversee(folder)
    step = report.step("drift")
    assert step is not None
    assert answer(step) == "No alarm below 0.500"
    assert fallen(report.steps) == []
    assert report.guarantee == oversee_without(folder).guarantee


def oversee_without(folder: Path) -> Oversight:
    (folder / "noracle.toml").write_text("", encoding="utf-8")
    report = oversee(folder)
    assert report.step("drift") is None
    assert "drift" not in report.to_dict()["inventory"]["settings"]
    return report


def test_the_report_counts_no_grades_of_a_judge_as_labels(tmp_path: Path) -> None:
    tables = graded(300, judge=2)
    tables["people.csv"] = tables["people.csv"][::2]
    step = oversee(stated(tmp_path / "f", "floor = 0.8", tables)).step("drift")
    assert step is not None
    assert step.status == "not possible"
    assert "Write judge = 'gpt' under [drift]" in step.reason


def test_the_report_exits_1_when_accuracy_fell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stated(tmp_path / "f", 'reference = "2026-09-01..2026-09-03"', graded())
    monkeypatch.chdir(tmp_path)
    assert verb(["report", str(folder)]) == 1
    assert "Alarm: accuracy of a fell below 0.8" in capsys.readouterr().out
    (folder / "noracle.toml").write_text("[drift]\nfloor = 0.3\n", encoding="utf-8")
    assert verb(["report", str(folder)]) == 0


_VERB = "from noracle.cli import main; main()"


def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", _VERB, "watch", str(folder), "--once", "--no-page", *more]
    return subprocess.run(line, check=False, capture_output=True, text=True, timeout=120)


def killed(folder: Path, flags: list[str], *, kills: int, seed: int) -> int:
    """Grow a folder, and kill -9 the watch of it at moments of chance; returns how many died."""
    tables, rng, died = graded(), random.Random(seed), 0
    rows = tables["people.csv"]
    cuts = sorted(rng.sample(range(1, len(rows)), kills))
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        add(folder, "people.csv", rows[start:end])
        if end == len(rows):
            break
        line = [sys.executable, "-c", _VERB, "watch", str(folder), "--every", "0.1", *flags]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(line, **quiet)  # type: ignore[call-overload]
        time.sleep(rng.uniform(0.3, 4.0))
        process.kill()
        died += process.wait() == -9
    return died


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9 on Windows")
def test_after_twenty_kills_the_alarm_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    flags = ["--floor", "0.8", "--run-length", "1000"]
    assert killed(tmp_path / "hunted", flags, kills=20, seed=1) == 20
    add(tmp_path / "calm", "people.csv", graded()["people.csv"])
    found = {}
    for name in ("calm", "hunted"):
        ended = run(tmp_path / name, *flags, "--json")
        assert ended.returncode == 1, ended.stderr
        values = json.loads(ended.stdout)
        found[name] = [r for r in values["results"] if r["schema"] == "drift/1"]
    assert found["calm"] == found["hunted"]
    assert found["calm"][0]["label"] > 400


@pytest.mark.full
@pytest.mark.parametrize("seed", [7])
def test_after_two_kills_too(tmp_path: Path, seed: int) -> None:
    flags = ["--floor", "0.8", "--run-length", "1000"]
    killed(tmp_path / "hunted", flags, kills=2, seed=seed)
    add(tmp_path / "calm", "people.csv", graded()["people.csv"])
    assert told(look(tmp_path / "hunted", RULE)) == told(look(tmp_path / "calm", RULE))


@pytest.mark.full
def test_the_verb_says_since_when_and_exits_1(tmp_path: Path) -> None:
    add(tmp_path / "f", "people.csv", graded()["people.csv"])
    ended = run(tmp_path / "f", "--floor", "0.8", "--run-length", "1000")
    assert ended.returncode == 1
    assert "ALARM: accuracy of a fell below 0.800, seen at label" in ended.stdout
    assert "since: label" in ended.stdout
    again = run(tmp_path / "f")
    assert again.returncode == 1
    assert "ALARM (raised before)" in again.stdout
    alone = run(tmp_path / "f", "--judge", "gpt")
    assert alone.returncode == 2
    assert "--judge must come with --floor or --reference" in alone.stderr
    assert run(tmp_path / "f", "--floor", "2").returncode == 2
