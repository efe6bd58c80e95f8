"""``noracle report`` on every kind of folder, and ``noracle demo``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing

from noracle.cli.report import system_lines
from noracle.oversight.oversight import Oversight
from noracle.schemas import load_schema, schema_names
from tests.unit.cli.conftest import Run
from tests.unit.oversight.folders import FOLDERS, SOUND
from tests.unit.oversight.reports import REPORTS
from tests.unit.report.test_page import Outline

# Every sixth folder here, as many in the full run, the others in the slow one; the report itself is
# made of all of them in tests/unit/oversight/test_oversee.py.
QUICK = [
    pytest.param(name, marks=[pytest.mark.slow] if i % 3 else [pytest.mark.full] if i % 6 else [])
    for i, name in enumerate(sorted(name for name in SOUND if name != "huge"))
]


def assert_valid(value: dict[str, Any]) -> None:
    resources = [
        (load_schema(n)["$id"], referencing.Resource.from_contents(load_schema(n)))
        for n in schema_names()
    ]
    registry: referencing.Registry[Any] = referencing.Registry().with_resources(resources)
    jsonschema.Draft202012Validator(load_schema(value["schema"]), registry=registry).validate(value)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder with a folder ``evidence`` in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def paths_in(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", QUICK)
def test_sound_folder_is_reported_and_every_file_is_named(
    noracle: Run, here: Path, name: str
) -> None:
    expect = FOLDERS[name](here / "evidence")
    ended = noracle("report", "evidence")
    saved = json.loads((here / "noracle-report.json").read_text(encoding="utf-8"))
    page = (here / "noracle-report.html").read_text(encoding="utf-8")
    clash = any(not f["agrees"] for f in saved["findings"])
    alarm = any(
        r["status"] == "alarm"
        for s in saved["steps"]
        if s["name"] == "alarm"
        for r in s["results"][:1]
    )
    assert ended.code == (1 if clash or alarm else 0), ended.err
    assert ended.out.splitlines()[-1] == "report noracle-report.html"
    assert_valid(saved)
    outline = Outline()
    outline.feed(page)
    outline.close()
    assert outline.open == []
    assert "script" not in outline.tags
    assert all(link[1:] in outline.ids for link in outline.links)
    named = json.dumps(saved, ensure_ascii=False)
    for path in paths_in(here / "evidence"):
        assert json.dumps(f"evidence/{path}", ensure_ascii=False)[1:-1] in named, path
    status = {s["name"]: s["status"] for s in saved["steps"]}
    assert {n for n in expect.done if status.get(n) != "done"} == set()
    assert {n for n in expect.not_possible if status.get(n) != "not possible"} == set()
    assert [s["system"] for s in saved["systems"]] == sorted(expect.systems) or {
        s["system"] for s in saved["systems"]
    } == set(expect.systems)
    assert Oversight.from_dict(saved).to_dict() == saved


@pytest.mark.parametrize("name", sorted(set(FOLDERS) - set(SOUND)))
def test_unsound_folder_stops_with_one_clear_line(noracle: Run, here: Path, name: str) -> None:
    expect = FOLDERS[name](here / "evidence")
    ended = noracle("report", "evidence")
    assert ended.code == 2
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert expect.error.lower() in ended.err.lower()
    assert "Traceback" not in ended.err
    assert not (here / "noracle-report.html").exists()
    assert not (here / "noracle-report.json").exists()


def test_planted_contradiction_is_named_and_fails_the_command(noracle: Run, here: Path) -> None:
    expect = FOLDERS["planted_contradiction"](here / "evidence")
    ended = noracle("report", "evidence")
    assert ended.code == 1
    assert "Contradiction: " in ended.out
    page = (here / "noracle-report.html").read_text(encoding="utf-8")
    first = page.split('<div id="answers">')[0]
    assert "Contradiction: " in first
    assert "There is no joint promise" in first
    saved = json.loads((here / "noracle-report.json").read_text(encoding="utf-8"))
    clashes = [
        f
        for f in saved["findings"]
        if not f["agrees"] and set(f["between"]) >= set(expect.contradiction)
    ]
    assert {f["subject"] for f in clashes} == set(expect.systems)


@pytest.mark.slow
def test_same_folder_and_seed_give_the_same_bytes(noracle: Run, here: Path) -> None:
    FOLDERS["complete"](here / "evidence")
    for name in ("a", "b"):
        assert noracle("report", "evidence", "--out", "x.html", "--seed", 3).code == 0
        (here / "x.html").rename(here / f"{name}.html")
        (here / "x.json").rename(here / f"{name}.json")
    assert (here / "a.html").read_bytes() == (here / "b.html").read_bytes()
    assert (here / "a.json").read_bytes() == (here / "b.json").read_bytes()


@pytest.mark.full
def test_an_alarm_needs_a_claim_from_the_option_or_the_settings(noracle: Run, here: Path) -> None:
    """Two systems that never agree: the claim that both are right on more than half of each class
    is false, if somebody makes it.
    """
    folder = here / "evidence"
    folder.mkdir()
    rows = [f"{i},{name},{(i + shift) % 2}" for i in range(40) for shift, name in enumerate("xy")]
    (folder / "answers.csv").write_text(
        "\n".join(["item,system,answer", *rows, ""]), encoding="utf-8"
    )
    unclaimed = noracle("report", "evidence", "--n-classes", 2)
    assert unclaimed.code == 0
    assert "Alarm" not in unclaimed.out
    assert "broken" not in unclaimed.out
    page = (here / "noracle-report.html").read_text(encoding="utf-8")
    assert "Nobody stated a claim" in page.split('id="not-said"')[1]
    option = noracle("report", "evidence", "--n-classes", 2, "--claim", "accuracy > 1/2")
    assert option.code == 1
    assert "Alarm: not every grader can keep 'accuracy > 1/2'" in option.out
    assert "next: Find the broken grader among x, y." in option.out
    (folder / "noracle.toml").write_text(
        'n_classes = 2\nclaim = "accuracy > 1/2"\n', encoding="utf-8"
    )
    settings = noracle("report", "evidence")
    assert (settings.code, "Alarm: " in settings.out) == (1, True)
    assert noracle("report", "evidence", "--claim", "").code == 0  # taken back for this report


@pytest.mark.full
def test_report_inside_the_folder_is_not_taken_for_evidence(
    noracle: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FOLDERS["answers_only"](here / "evidence")
    monkeypatch.chdir(here / "evidence")
    first = noracle("report", ".")
    again = noracle("report", ".", "--json")
    assert first.code == again.code == 0
    assert {Path(u["path"]).name for u in again.json["inventory"]["unused"]} >= {
        "noracle-report.html",
        "noracle-report.json",
    }


def test_json_prints_json_and_writes_only_what_is_named(noracle: Run, here: Path) -> None:
    FOLDERS["ratings_only"](here / "evidence")
    ended = noracle("report", "evidence", "--json")
    assert_valid(ended.json)
    assert {p.name for p in here.iterdir()} == {"evidence"}
    noracle("report", "evidence", "--json", "--save-json", "kept.json")
    assert json.loads((here / "kept.json").read_text(encoding="utf-8")) == ended.json
    assert {p.name for p in here.iterdir()} == {"evidence", "kept.json"}


@pytest.mark.full
def test_files_instead_of_a_folder_and_options_instead_of_settings(
    noracle: Run, here: Path
) -> None:
    FOLDERS["complete"](here / "evidence")
    files = ("evidence/answers.csv", "evidence/judgements.csv")
    ended = noracle(
        "report",
        *files,
        "--n-classes",
        4,
        "--confidence",
        0.9,
        "--seed",
        5,
        "--protocol",
        "question",
        "--json",
    )
    assert ended.code == 0, ended.err
    assert (ended.json["confidence"], ended.json["seed"]) == (0.9, 5)
    assert ended.json["inventory"]["settings"]["n_classes"] == 4
    assert {p for s in ended.json["inventory"]["sources"] for p in s["paths"]} == set(files)
    one = noracle("report", files[0], "--classes", "0,1,2,3", "--json")
    assert one.code == 0, one.err
    assert one.json["inventory"]["settings"]["classes"] == [0, 1, 2, 3]


def test_settings_file_from_elsewhere(noracle: Run, here: Path) -> None:
    FOLDERS["answers_only"](here / "evidence")
    (here / "mine.toml").write_text('title = "Mine"\nconfidence = 0.8\n', encoding="utf-8")
    ended = noracle("report", "evidence", "--settings", "mine.toml", "--json")
    assert (ended.json["title"], ended.json["confidence"]) == ("Mine", 0.8)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("no-such-folder",), "no-such-folder"),
        (("evidence", "--out", "evidence"), "--out must name a file"),
        (("evidence", "--out", "no/x.html"), "Make the folder"),
        (("evidence", "--out", "x.json"), "--save-json must be another file"),
        (("evidence", "--settings", "none.toml"), "none.toml"),
        (("evidence", "--confidence", "1.5"), "confidence"),
        (("evidence", "--claim", "accuracy !! 3"), "accuracy !! 3"),
        ((), "Missing argument"),
    ],
)
def test_wrong_use_is_one_line(
    noracle: Run, here: Path, options: tuple[str, ...], said: str
) -> None:
    FOLDERS["answers_only"](here / "evidence")
    ended = noracle("report", *options)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert said in ended.err
    assert {p.name for p in here.iterdir()} == {"evidence"}


@pytest.mark.full
def test_hostile_names_reach_neither_terminal_nor_page_raw(noracle: Run, here: Path) -> None:
    FOLDERS["odd_names"](here / "evidence")
    ended = noracle("report", "evidence")
    page = (here / "noracle-report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;" in page
    assert "模型 一" in page
    assert "\x1b" not in ended.out


@pytest.mark.slow
def test_huge_folder_is_reported(noracle: Run, here: Path) -> None:
    FOLDERS["huge"](here / "evidence")
    ended = noracle("report", "evidence", "--json")
    assert ended.code in (0, 1)
    assert {s["system"] for s in ended.json["systems"]} == {"a", "b"}


@pytest.mark.full
def test_demo_writes_a_folder_of_evidence_and_reports_on_it(noracle: Run, here: Path) -> None:
    ended = noracle("demo", "--n-items", 800)
    assert (ended.code, ended.err) == (0, "")
    folder = here / "noracle-demo"
    tables = {
        "answers.csv",
        "judgements.csv",
        "items.csv",
        "ratings.csv",
        "pilot.csv",
        "prices.toml",
        "noracle.toml",
        "key.csv",
    }
    assert {p.name for p in folder.iterdir()} == {*tables, "report.html", "report.json"}
    assert ended.out.splitlines()[-1] == f"report {Path('noracle-demo') / 'report.html'}"
    assert "the key, which you would not have, says: agent-1 0." in ended.out
    page = (folder / "report.html").read_text(encoding="utf-8")
    for system in ("agent-1", "agent-2", "agent-3"):
        assert any(re.match(rf"{system} .*●.* \d\d\.\d %", line) for line in ended.out.splitlines())
        assert system in page
    saved = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert_valid(saved)
    assert {Path(u["path"]).name for u in saved["inventory"]["unused"]} == {
        "key.csv",
        "noracle.toml",
    }
    assert {s["name"] for s in saved["steps"] if s["status"] == "done"} >= {
        "accuracy",
        "comparison",
        "checks",
        "ranges",
        "alarm",
        "ceiling",
        "agreement",
        "certificate",
        "mean",
        "labels",
        "budget",
    }
    assert not any(s["status"] == "failed" for s in saved["steps"])


@pytest.mark.slow
def test_demo_as_json_is_the_report_and_repeats_itself(noracle: Run, here: Path) -> None:
    first = noracle("demo", "--n-items", 300, "--json")
    again = noracle("demo", "--n-items", 300, "--json")
    assert first.code == again.code == 0
    assert first.json["schema"] == "oversight/1"
    assert_valid(first.json)
    unused = {u["path"] for u in again.json["inventory"]["unused"]} - {
        u["path"] for u in first.json["inventory"]["unused"]
    }
    assert {Path(path).name for path in unused} == {"report.html", "report.json"}
    assert again.json["systems"] == first.json["systems"]
    assert again.json["steps"] == first.json["steps"]


@pytest.mark.parametrize("width", [40, 60, 80, 140])
@pytest.mark.parametrize("name", ["whole", "crowded", "contradictory"])
def test_systems_are_one_sorted_table_in_the_width_of_the_terminal(name: str, width: int) -> None:
    made = REPORTS[name]()
    lines = system_lines(made, width)
    assert max(map(len, lines)) <= max(width, 50)
    best = max(made.systems, key=lambda s: s.value)
    assert lines[0].startswith(best.system[:8].replace("\u202e", "\ufffd"))
    assert f"{100 * best.value:.1f} %" in lines[0]
    assert all(line.isprintable() for line in lines)
    if name == "crowded":
        assert "… and 160 more systems; the report has all of them" in lines


@pytest.mark.full
def test_quiet_is_one_line_and_verbose_has_cards(noracle: Run, here: Path) -> None:
    FOLDERS["complete"](here / "evidence")
    quiet = noracle("-q", "report", "evidence")
    assert (quiet.out.count("\n"), quiet.err) == (1, "")
    cards = noracle("-v", "report", "evidence")
    assert "  promised    holds with at least " in cards.out
    assert quiet.out.strip() in cards.out
    assert quiet.code == cards.code == 0
