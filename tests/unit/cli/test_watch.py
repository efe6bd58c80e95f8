"""``noracle watch`` on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from noracle.cli import run
from tests.unit.cli.conftest import Run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    assert run(["-q", "init", str(folder)]) == 0
    return folder


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Two graders who say the opposite of each other."""
    folder = tmp_path / "graders"
    folder.mkdir()
    rows = [
        f"{i},{name},{answer}"
        for i in range(30)
        for name, answer in (("x", "AB"[i % 2]), ("y", "BA"[i % 2]))
    ]
    (folder / "answers.csv").write_text(
        "\n".join(["item,system,answer", *rows]) + "\n", encoding="utf-8"
    )
    (folder / "noracle.toml").write_text(
        "classes = ['A', 'B']\nclaim = 'accuracy > 1/2'\n", encoding="utf-8"
    )
    return folder


def test_once_says_a_line_a_system_and_goes_on_from_there(noracle: Run, project: Path) -> None:
    first = noracle("watch", project, "--once")
    assert (first.code, first.err) == (0, "")
    assert "look 1: 5,000 new rows" in first.out
    assert "wrong with probability at most 0.05" in first.out
    assert [line.split()[0] for line in first.out.splitlines() if "labels" in line] == [
        "agent-1",
        "agent-2",
        "agent-3",
    ]
    again = noracle("watch", project, "--once")
    assert "look 2: 0 new rows" in again.out
    page = (project / ".noracle" / "watch.html").read_text(encoding="utf-8")
    assert "agent-1" in page


def test_json_is_one_line_a_look(noracle: Run, project: Path) -> None:
    ended = noracle("watch", project, "--once", "--json", "--no-page")
    (line,) = ended.out.splitlines()
    value = json.loads(line)
    assert value["watch"]["look"] == 1
    assert [r["schema"] for r in value["results"]] == ["estimate/1"] * 3 + ["certificate/1"] * 3
    assert not (project / ".noracle" / "watch.html").exists()


def test_an_alarm_is_exit_code_1_and_a_proof_that_can_be_verified(
    noracle: Run, broken: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    ended = noracle("watch", broken, "--once", "--out", out)
    assert ended.code == 1
    assert "ALARM: on 30 items not all of x, y can keep 'accuracy > 1/2'" in ended.out
    moved = (out / "proof.json").rename(tmp_path / "elsewhere.json")
    for path in broken.glob("*.csv"):
        path.unlink()
    checked = noracle("verify", moved)
    assert (checked.code, "verified" in checked.out) == (0, True)


def test_the_alarm_is_said_again_at_every_look(noracle: Run, broken: Path) -> None:
    noracle("watch", broken, "--once")
    ended = noracle("watch", broken, "--once")
    assert (ended.code, "ALARM (raised before)" in ended.out) == (1, True)


def test_without_a_claim_there_is_no_alarm_and_the_line_that_states_one_is_said(
    noracle: Run, broken: Path
) -> None:
    (broken / "noracle.toml").write_text("classes = ['A', 'B']\n", encoding="utf-8")
    ended = noracle("watch", broken, "--once")
    assert (ended.code, "ALARM" in ended.out) == (0, False)
    assert 'claim = "accuracy > 1/2" at the top of noracle.toml' in ended.out
    assert not (broken / ".noracle" / "proof.json").exists()


def test_bad_evidence_is_exit_code_2(noracle: Run, tmp_path: Path) -> None:
    assert noracle("watch", tmp_path / "nowhere", "--once").code == 2
    (tmp_path / "empty").mkdir()
    assert noracle("watch", tmp_path / "empty", "--once").code == 2
    (tmp_path / "empty" / "answers.csv").write_text("item,system,answer\n1,a,0\n", encoding="utf-8")
    assert noracle("watch", tmp_path / "empty", "--once", "--out", tmp_path / "nowhere").code == 2


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is no signal of its own there")
def test_a_watch_follows_and_ends_with_130_and_its_memory(noracle: Run, project: Path) -> None:
    line = [
        sys.executable,
        "-u",
        "-m",
        "noracle",
        "watch",
        str(project),
        "--every",
        "0.1",
        "--json",
        "--no-page",
    ]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert json.loads(child.stdout.readline())["watch"]["look"] == 1
        with (project / "judgements.csv").open("a", encoding="utf-8") as file:
            file.write("0,1,perhaps\n")  # is named, and waits to be corrected
        said = []
        for said_now in child.stderr:
            said.append(said_now)
            if "waiting:" in said_now:
                break
        text = (project / "judgements.csv").read_text(encoding="utf-8")
        (project / "judgements.csv").write_text(
            text.replace("0,1,perhaps\n", "0,1,unsure\n"), encoding="utf-8"
        )
        second = json.loads(child.stdout.readline())
        os.kill(child.pid, signal.SIGINT)
        _, rest = child.communicate(timeout=60)
    err = "".join(said) + rest
    assert (second["watch"]["look"], second["watch"]["run"], second["watch"]["new_rows"]) == (
        2,
        1,
        1,
    )
    assert child.returncode == 130
    assert "waiting: judgements.verdict must be yes, no or unsure" in err
    assert err.endswith("interrupted\n")
    assert "look 3: 0 new rows" in noracle("watch", project, "--once").out
