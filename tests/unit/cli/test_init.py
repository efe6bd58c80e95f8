"""``noracle init``: a project that runs, and that never overwrites."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from noracle.cli.init import FILES
from tests.unit.cli.conftest import Run


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from noracle.cli import run

    folder = tmp_path_factory.mktemp("somewhere") / "my project"
    assert run(["-q", "init", str(folder)]) == 0
    return folder


def test_it_writes_the_files_and_says_what_to_do(
    noracle: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = noracle("init")
    assert (ended.code, ended.err) == (0, "")
    assert sorted(p.name for p in (tmp_path / "noracle-project").iterdir()) == sorted(FILES)
    assert "noracle report noracle-project" in ended.out


def test_the_same_seed_writes_the_same_bytes(
    noracle: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        assert noracle("init", "p", "--seed", 3).code == 0
    assert noracle("init", "q", "--seed", 4).code == 0
    one, two, other = (
        {p.name: p.read_bytes() for p in (tmp_path / d).iterdir()}
        for d in ("one/p", "two/p", "two/q")
    )
    assert one == two
    assert one["answers.csv"] != other["answers.csv"]


@pytest.mark.parametrize("name", FILES)
def test_it_refuses_to_overwrite_and_names_the_file(
    noracle: Run, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("mine", encoding="utf-8")
    ended = noracle("init", tmp_path)
    assert ended.code == 2
    assert name in ended.err
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text(encoding="utf-8") == "mine"


def test_a_file_is_no_folder(noracle: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("", encoding="utf-8")
    ended = noracle("init", tmp_path / "f")
    assert ended.code == 2
    assert "must be a folder" in ended.err


@pytest.mark.full
def test_every_command_of_its_readme_runs_and_the_report_holds_the_truth(
    noracle: Run, project: Path
) -> None:
    from noracle.cli.init import _CLASSES, _ITEMS, _SYSTEMS
    from noracle.simulate import simulate_world

    text = (project / "README.md").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.startswith("    noracle")]
    assert len(lines) == 7
    for line in lines:
        arguments = shlex.split(line)[1:]
        if arguments[0] == "watch":
            arguments.append("--once")
        if arguments[0] == "report":
            arguments += ["--out", str(project / "report.html")]
        ended = noracle(*arguments)
        assert ended.code == (1 if arguments[0] == "certify" else 0), (
            line,
            ended.err,
        )  # not every system is better than its annotators
    report = json.loads((project / "report.json").read_text(encoding="utf-8"))
    world = simulate_world(
        n_items=_ITEMS, n_classes=_CLASSES, systems=_SYSTEMS, no_answer=0.02, unsure=0.02, seed=7
    )
    found = {line["system"]: line for line in report["systems"]}
    assert found.keys() == world.accuracy.keys()
    for name, truth in world.accuracy.items():
        assert found[name]["low"] <= truth <= found[name]["high"]
