"""``noracle init``: a project that runs, and that never overwrites."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
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


# ----------------------------------------------------------------------------------------------------------------
# what the reader has


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files with names and columns of a reader, one row per question."""
    monkeypatch.chdir(tmp_path)
    rows = [f"q{i},{'AB'[i % 7 == 0]},{'AB'[i % 3 == 0]}" for i in range(90)]
    Path("preds «v2».csv").write_text("\n".join(["question_id,gpt,llama", *rows]) + "\n", "utf-8")
    rows = [f"q{i},gpt,{'wrong' if i % 7 == 0 else 'right'}" for i in range(30)]
    Path("said.csv").write_text("\n".join(["question_id,system,verdict", *rows]) + "\n", "utf-8")
    return tmp_path


def test_files_are_named_where_they_lie_and_the_report_runs_on_them(
    noracle: Run, mine: Path
) -> None:
    before = {p.name: p.read_bytes() for p in mine.iterdir()}
    ended = noracle("init", "new", "--from", "preds*.csv", "--from", "said.csv", "--json")
    assert (ended.code, ended.json["have"]) == (0, "files")
    assert sorted(p.name for p in (mine / "new").iterdir()) == ["README.md", "noracle.toml"]
    assert {p.name: p.read_bytes() for p in mine.iterdir() if p.is_file()} == before
    readme = (mine / "new" / "README.md").read_text(encoding="utf-8")
    assert "| answers | preds «v2».csv |" in readme
    assert "| grades | said.csv |" in readme
    assert noracle("report", "new", "--json").json["systems"][0]["system"] == "gpt"


def test_what_is_no_evidence_is_the_error_of_the_reader(noracle: Run, mine: Path) -> None:
    (mine / "notes.csv").write_text("", encoding="utf-8")
    ended = noracle("init", "new", "--from", "notes.csv")
    assert ended.code == 2
    assert not (mine / "new").exists()
    ended = noracle("init", "new", "--from", "nowhere.csv")
    assert (ended.code, "nowhere.csv" in ended.err) == (2, True)


@pytest.mark.parametrize(
    "line",
    [["--have", "files"], ["--have", "logs"], ["--have", "nothing", "--from", "said.csv"]],
)
def test_from_goes_with_files_and_logs(noracle: Run, mine: Path, line: list[str]) -> None:
    ended = noracle("init", "new", *line)
    assert (ended.code, "--from must go with" in ended.err) == (2, True)
    assert not (mine / "new").exists()


@pytest.mark.parametrize(
    ("answers", "have"),
    [(["2", "'preds «v2».csv' said.csv"], "files"), (["4"], "nothing"), (["1"], "example")],
)
def test_on_a_terminal_it_asks(
    noracle: Run,
    mine: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[str],
    have: str,
) -> None:
    from noracle.cli import init

    said = iter(answers)
    monkeypatch.setattr(init, "_on_terminal", lambda: True)
    monkeypatch.setattr(
        init.typer,
        "prompt",
        lambda *_, type=str, **__: type(next(said)),  # noqa: A006
    )
    ended = noracle("init", "new")
    assert (ended.code, ended.err) == (0, "")
    assert "What do you have" not in ended.err
    assert (mine / "new" / "README.md").is_file()
    assert (mine / "new" / "project.toml").is_file() is (have == "nothing")
    assert next(said, None) is None


@pytest.mark.full
def test_every_command_for_nothing_yet_runs(noracle: Run, mine: Path) -> None:
    pytest.importorskip("fastapi")
    assert noracle("init", "new", "--have", "nothing").code == 0
    text = (mine / "new" / "README.md").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.startswith("       noracle")]
    assert len(lines) == 9
    for line in lines[:6]:
        more = ["--yes"] if " seal " in line else []
        ended = subprocess.run(
            [sys.executable, "-m", *shlex.split(line), *more],
            input="a long password\n",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, (line, ended.stderr)
