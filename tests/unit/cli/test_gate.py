"""``noracle gate`` on files, in a repository: verb, Action and pytest plugin."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import yaml

from noracle.gate import GateLedger
from noracle.schemas import load_schema
from tests.unit.cli.conftest import Run
from tests.unit.gate.worlds import GateWorld

ROOT = Path(__file__).parents[3]


@pytest.fixture
def world() -> GateWorld:
    world = GateWorld(n=400)
    world.change("new", lost=60, won=10)
    return world


@pytest.fixture
def folder(world: GateWorld, tmp_path: Path) -> Path:
    return world.write(tmp_path / "evals", world.order[:150])


def test_pass_fail_and_undecided_have_their_exit_codes(noracle: Run, folder: Path) -> None:
    good = noracle("gate", folder, "--at-least", "0.6", "--system", "base", "--json")
    assert good.code == 0
    decision = good.json["decisions"][0]
    jsonschema.validate(decision, load_schema("gate/1"))
    assert decision["outcome"] == "pass"
    bad = noracle("gate", folder, "--at-least", "0.95", "--system", "base")
    assert (bad.code, bad.out.startswith("FAIL    accuracy of base at least 0.95")) == (1, True)
    near = noracle("gate", folder, "--at-least", "0.8", "--system", "base")
    assert near.code == 3
    assert "new labels" in near.out
    assert re.search(r"\d+ to see that there is none or \d+ to see a drop", near.out)


def test_all_systems_are_decided_and_the_worst_outcome_counts(noracle: Run, folder: Path) -> None:
    ended = noracle("gate", folder, "--at-least", "0.55", "--json")
    assert [d["system"] for d in ended.json["decisions"]] == ["base", "new"]
    again = noracle("gate", folder, "--at-least", "0.55", "--json")
    assert [d["recorded"] for d in again.json["decisions"]] == [True, True]
    assert (folder / "gate.jsonl").read_text().count('"kind":"decision"') == 2


def test_plan_draws_changed_items_without_a_label_and_spends_nothing(
    noracle: Run, folder: Path, world: GateWorld, tmp_path: Path
) -> None:
    ask = tmp_path / "ask.csv"
    claim = ("--system", "new", "--no-worse-than", "base")
    ended = noracle("gate", "plan", folder, *claim, "--ask", ask)
    assert ended.code == 0
    items = [int(row) for row in ask.read_text().split()[1:]]
    changed = {i for i in range(400) if world.answers["new"][i] != world.answers["base"][i]}
    assert items
    assert set(items) <= changed - set(world.order[:150])
    assert noracle("gate", "plan", folder, *claim, "--json").json["plans"][0]["t"] == 1
    world.write(folder, [*world.order[:150], *items])
    decided = noracle("gate", folder, *claim)
    assert (decided.code, "FAIL" in decided.out) == (1, True)


def test_junit_and_markdown(noracle: Run, folder: Path, tmp_path: Path) -> None:
    files = ("--junit", tmp_path / "g.xml", "--markdown", tmp_path / "g.md")
    (tmp_path / "g.md").write_text("before\n")
    assert noracle("gate", folder, "--at-least", "0.8", *files).code in (1, 3)
    suite = ET.parse(tmp_path / "g.xml").getroot()
    assert suite.attrib["tests"] == "2"
    found = [child.tag for case in suite for child in case]
    assert len(found) == int(suite.attrib["failures"]) + int(suite.attrib["skipped"]) > 0
    text = (tmp_path / "g.md").read_text()
    assert text.startswith("before\n### noracle gate")
    assert text.count("accuracy of") == 2


def test_names_of_systems_cannot_break_the_files(noracle: Run, tmp_path: Path) -> None:
    evil = '<script>|"a\x07&'
    folder = tmp_path / "evals"
    folder.mkdir()
    rows = [f'{i},"{evil.replace(chr(34), chr(34) * 2)}",right' for i in range(50)]
    (folder / "grades.csv").write_text("\n".join(["item,system,verdict", *rows, ""]))
    files = ("--junit", tmp_path / "g.xml", "--markdown", tmp_path / "g.md")
    assert noracle("gate", folder, "--at-least", "0.5", *files).code == 0
    ET.parse(tmp_path / "g.xml")
    assert "\\|" in (tmp_path / "g.md").read_text()
    assert noracle("gate", "history", folder, "--out", tmp_path / "g.html").code == 0
    assert "<script>" not in (tmp_path / "g.html").read_text()


def test_history_shows_no_bound_without_reveal(noracle: Run, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "gate.html"
    noracle("gate", folder, "--at-least", "0.6", "--system", "base")
    before = (folder / "gate.jsonl").read_bytes()
    ended = noracle("gate", "history", folder, "--out", page)
    assert (ended.code, "1 decisions: 1 pass" in ended.out) == (0, True)
    assert "Bounds" not in page.read_text()
    assert (folder / "gate.jsonl").read_bytes() == before
    assert noracle("gate", "history", folder, "--out", page, "--reveal").code == 0
    assert re.search(r"Bounds.*\[0\.\d+, 0\.\d+\]", page.read_text(), re.DOTALL)
    assert GateLedger.read(folder / "gate.jsonl").lines[-1]["kind"] == "reveal"
    late = noracle("gate", folder, "--at-least", "0.61", "--system", "base")
    assert (late.code, "no labels" in late.out) == (3, True)


def test_verify_finds_an_edit(noracle: Run, folder: Path) -> None:
    noracle("gate", folder, "--at-least", "0.95", "--system", "base")
    assert noracle("gate", "verify", folder).code == 0
    path = folder / "gate.jsonl"
    path.write_text(path.read_text().replace('"outcome":"fail"', '"outcome":"pass"'))
    ended = noracle("gate", "verify", folder)
    assert (ended.code, "line 2 was changed" in ended.out) == (1, True)
    refused = noracle("gate", folder, "--at-least", "0.6", "--system", "base")
    assert (refused.code, "ledger must be whole" in refused.err) == (2, True)


def test_a_run_refuses_a_ledger_that_lost_a_line_of_the_last_commit(
    noracle: Run, folder: Path
) -> None:
    path, claim = folder / "gate.jsonl", ("--at-least", "0.95", "--system", "base")
    assert noracle("gate", folder, *claim).code == 1
    git(folder, "init", "-q")
    git(folder, "add", "gate.jsonl")
    git(folder, "commit", "-qm", "failed")
    assert noracle("gate", folder, *claim).code == 1  # recorded
    rows = path.read_text()
    path.write_text("".join(rows.splitlines(keepends=True)[:-1]))
    refused = noracle("gate", folder, "--at-least", "0.6", "--system", "base")
    assert (refused.code, "ledger must be whole" in refused.err) == (2, True)
    assert "git checkout HEAD -- gate.jsonl puts it back" in refused.err
    path.write_text(rows)
    assert noracle("gate", folder, "--at-least", "0.6", "--system", "base").code == 0


def test_raters_choose_whose_grades_count(noracle: Run, tmp_path: Path) -> None:
    """A judge that refused half of the answers is not known for one: people are named."""
    for name, judged in (("half", range(1, 200, 2)), ("all", range(200))):
        rows = [*((i, "a", "right", "ann") for i in range(100))]
        rows += [(i, "a", "wrong", "model") for i in judged]
        table = [("item", "system", "verdict", "rater"), *rows]
        (tmp_path / name).mkdir()
        (tmp_path / name / "grades.csv").write_text("\n".join(",".join(map(str, r)) for r in table))
        claim = ("gate", tmp_path / name, "--at-least", "0.8", "--json")
        assert noracle(*claim, "--raters", "zoe").code == 2
        ended = noracle(*claim, "--raters", "ann")
        assert (ended.code, ended.json["decisions"][0]["n_labels"]) == (0, 100)
        assert noracle(*claim).code == (0 if name == "all" else 2)  # half: they contradict people
        assert (
            noracle(*claim, "--raters", "model", "--ledger", tmp_path / f"{name}.jsonl").code == 1
        )


def test_bad_input_is_named(noracle: Run, folder: Path) -> None:
    for words, told in (
        (["gate", folder], "at_least or no_worse_than must be given"),
        (["gate", folder, "--at-least", "80"], "at_least must be in (0, 1]"),
        (["gate", folder, "--no-worse-than", "bas"], "bas"),
        (["gate", folder, "--at-least", "0.8", "--system", "other"], "other"),
        (["gate", folder / "nothing", "--at-least", "0.8"], "must be"),
        (["gate", "verify"], "FOLDER must be one folder"),
        (["gate", "verify", folder], "ledger must be a readable file"),
        (["gate", "history", folder, "--reveal"], "ledger must be a readable file"),
    ):
        ended = noracle(*words)
        assert (ended.code, told in ended.err) == (2, True), (words, ended)


def test_other_reports_of_the_folder_leave_the_ledger_aside(
    noracle: Run, folder: Path, tmp_path: Path
) -> None:
    noracle("gate", folder, "--at-least", "0.6", "--system", "base")
    ended = noracle("report", folder, "--out", tmp_path / "r.html")
    assert "gate.jsonl: the ledger of a gate, 1 pass, 0 fail, 0 undecided" in ended.out
    assert "gate.key: the key of a gate" in ended.out
    assert ended.code == 0


def test_options_fix_the_ledger_once(noracle: Run, folder: Path) -> None:
    claim = ("--at-least", "0.6", "--system", "base")
    assert noracle("gate", folder, *claim, "--branches", "4", "--confidence", "0.9").code == 0
    assert noracle("gate", folder, *claim).code == 0
    ended = noracle("gate", folder, *claim, "--confidence", "0.99")
    assert (ended.code, "must be those of the first line" in ended.err) == (2, True)


# the Action and the plugin, in a repository that the test makes


def git(folder: Path, *words: str) -> str:
    about = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *about, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def act(work: Path, **given: str) -> tuple[int, dict[str, str], str]:
    """Run the composite's steps with bash as a runner does: exit code, outputs, what was printed."""
    action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    inputs = {name: str(about.get("default", "")) for name, about in action["inputs"].items()}
    inputs |= {name.replace("_", "-"): value for name, value in given.items()}
    output, summary = work.parent / "output", work.parent / "summary"
    output.write_text("")
    outputs: dict[str, str] = {}

    def fill(text: str) -> str:
        text = re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: inputs[m[1]], text)
        return re.sub(
            r"\$\{\{ steps\.gate\.outputs\.(\w+) \}\}", lambda m: outputs.get(m[1], ""), text
        )

    told = ""
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]  # inputs come as variables: nobody can smuggle in a command
        condition = re.fullmatch(
            r"\$\{\{ inputs\.([\w-]+) (==|!=) '(\w*)' \}\}", step.get("if", "")
        )
        if condition and (inputs[condition[1]] == condition[3]) != (condition[2] == "=="):
            continue
        env = {name: fill(value) for name, value in step.get("env", {}).items()}
        paths = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
        paths["RUNNER_TEMP"] = str(work.parent)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=work,
            env={**os.environ, **env, **paths, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        told += done.stdout + done.stderr
        outputs |= dict(row.split("=", 1) for row in output.read_text().split())
        if done.returncode:
            return done.returncode, outputs, told
    return 0, outputs, told


@pytest.fixture
def repository(world: GateWorld, tmp_path: Path) -> Path:
    """A clone with evidence, whose origin takes what is pushed."""
    git(tmp_path, "init", "-q", "--bare", "origin.git")
    git(tmp_path, "clone", "-q", "origin.git", "work")
    work = tmp_path / "work"
    world.write(work / "evals", world.order[:150])
    (work / ".gitignore").write_text("gate.key\nnoracle-gate.xml\n")
    git(work, "checkout", "-qb", "main")
    git(work, "add", ".")
    git(work, "commit", "-qm", "evidence")
    git(work, "push", "-q", "-u", "origin", "main")
    (work / "evals" / "gate.key").write_text("kept with the labels\n")
    return work


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="bash")
def test_the_action_decides_keeps_the_ledger_and_tells(repository: Path) -> None:
    about = {"folder": "evals", "package": "", "system": "base"}
    code, outputs, told = act(repository, at_least="0.6", **about)
    assert (code, outputs) == (0, {"outcome": "pass"}), told
    assert "### noracle gate" in (repository.parent / "summary").read_text()
    assert git(repository, "status", "--porcelain") == ""
    assert (
        git(repository, "log", "--format=%s").splitlines()[0] == "gate: one more line of the ledger"
    )
    pushed = git(repository.parent / "origin.git", "show", "main:evals/gate.jsonl")
    line = json.loads(pushed.splitlines()[-1])
    assert (line["outcome"], line["commit"]) == (
        "pass",
        git(repository, "rev-parse", "HEAD~1").strip(),
    )
    code, outputs, told = act(repository, at_least="0.6", **about)  # nothing new: nothing to push
    assert (code, outputs["outcome"]) == (0, "pass"), told
    assert len(git(repository, "log", "--format=%s").splitlines()) == 2
    code, outputs, _ = act(repository, at_least="0.95", **about)
    assert (code, outputs["outcome"]) == (1, "fail")
    assert len(git(repository, "log", "--format=%s").splitlines()) == 3  # a fail is kept too
    code, outputs, _ = act(repository, at_least="0.8", **about)
    assert (code, outputs["outcome"]) == (1, "undecided")
    code, outputs, _ = act(repository, at_least="0.8", undecided="pass", **about)
    assert (code, outputs["outcome"]) == (0, "undecided")
    code, _, told = act(repository, at_least="80", **about)
    assert (code, "at_least must be in" in told) == (2, True)


def cloned(repository: Path, *words: str) -> Path:
    """Another machine: what was pushed, and the key."""
    other, origin = repository.parent / "other", (repository.parent / "origin.git").as_uri()
    git(repository.parent, "clone", "-q", "-b", "main", *words, origin, "other")
    (other / "evals" / "gate.key").write_bytes((repository / "evals" / "gate.key").read_bytes())
    return other


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="bash")
def test_the_action_pushes_although_somebody_was_faster(repository: Path) -> None:
    """Two jobs at once, one of them on a shallow clone: the lines of both are kept."""
    about = {"folder": "evals", "package": "", "system": "base"}
    assert act(repository, at_least="0.6", **about)[0] == 0
    assert act(cloned(repository, "--depth", "1"), at_least="0.55", **about)[0] == 0
    code, outputs, told = act(repository, at_least="0.95", **about)
    assert (code, outputs["outcome"]) == (1, "fail"), told
    origin = repository.parent / "origin.git"
    assert git(origin, "show", "main:evals/gate.jsonl").count('"kind":"decision"') == 3
    ledger = GateLedger.read(repository / "evals" / "gate.jsonl")
    assert (ledger.faults, ledger.missing(), ledger.parallel) == ([], [], 2)


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="bash")
def test_the_action_sees_what_was_taken_away_before_its_clone_begins(repository: Path) -> None:
    about = {"folder": "evals", "package": "", "system": "base"}
    assert act(repository, at_least="0.95", **about)[0] == 1
    path = repository / "evals" / "gate.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))  # it never failed
    git(repository, "commit", "-qam", "tidy")
    git(repository, "push", "-q")
    other = cloned(repository, "--depth", "1")
    ledger = GateLedger.read(other / "evals" / "gate.jsonl")
    assert (ledger.missing(), "shallow clone" in str(ledger.doubts())) == ([], True)
    code, outputs, told = act(other, at_least="0.6", **about)
    assert (code, outputs, "a line that was committed is gone" in told) == (1, {}, True), told


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="bash")
def test_the_action_tells_no_outcome_whose_line_it_cannot_keep(repository: Path) -> None:
    about = {"folder": "evals", "package": "", "system": "base"}
    git(repository, "checkout", "-q", "--detach")  # as for a pull request
    code, outputs, told = act(repository, at_least="0.6", **about)
    assert (code, outputs, "could not be pushed" in told) == (1, {}, True), told
    assert "PASS" not in told
    assert not (repository.parent / "summary").exists()
    assert not (repository / "noracle-gate.xml").exists()


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="bash")
def test_the_action_begins_no_ledger_whose_key_would_be_lost(repository: Path) -> None:
    (repository / "evals" / "gate.key").unlink()
    code, outputs, told = act(repository, at_least="0.6", folder="evals", package="")
    assert (code, outputs, "gate.key is not here" in told) == (2, {}, True), told
    assert git(repository, "status", "--porcelain") == ""


TESTS = """
import numpy as np

RIGHT = {i: True for i in range(100)}
WRONG = {i: i % 2 == 0 for i in range(100)}
FEW = {0: True, 1: True}
ANSWERS = {i: str(i) for i in range(1000)}

def test_pass(noracle):
    decision = noracle.assert_accuracy(ANSWERS, RIGHT, at_least=0.8)
    assert decision.outcome == "pass"

def test_numbers_of_numpy(noracle):
    items = np.arange(100)
    noracle.assert_accuracy({i: i for i in items}, {i: np.int64(1) for i in items}, at_least=0.8)

def test_fail(noracle):
    noracle.assert_accuracy(ANSWERS, WRONG, at_least=0.8)

def test_undecided(noracle):
    noracle.assert_accuracy(ANSWERS, FEW, at_least=0.8)

def test_undecided_as_xfail(noracle):
    noracle.assert_accuracy(ANSWERS, FEW, at_least=0.8, undecided="xfail")

def test_undecided_as_pass(noracle, tmp_path):
    noracle.assert_accuracy(None, FEW, at_least=0.8, undecided="pass")

def test_misspelled(noracle):
    noracle.assert_accuracy(ANSWERS, FEW, at_least=0.8, undecided="xfial")

def test_ledger(noracle):
    first = noracle.assert_accuracy(ANSWERS, RIGHT, at_least=0.8, ledger="gate.jsonl")
    again = noracle.assert_accuracy(ANSWERS, RIGHT, at_least=0.8, ledger="gate.jsonl")
    assert (first.recorded, again.recorded, again.t) == (False, True, 1)
"""


@pytest.mark.full
def test_the_plugin_fails_passes_and_expects_failures(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    words = ["-p", "no:cacheprovider", "-rA", "-q"]
    known = "noracle.gate.plugin" in str(entry_points())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *([] if known else ["-p", "noracle.gate.plugin"])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    told = {
        name: word
        for word, name in re.findall(
            r"^(PASSED|FAILED|XFAIL) test_it\.py::(\w+)", done.stdout, re.MULTILINE
        )
    }
    assert told == {
        "test_pass": "PASSED",
        "test_numbers_of_numpy": "PASSED",
        "test_fail": "FAILED",
        "test_undecided": "FAILED",
        "test_undecided_as_xfail": "XFAIL",
        "test_undecided_as_pass": "PASSED",
        "test_misspelled": "FAILED",
        "test_ledger": "PASSED",
    }, done.stdout


def entry_points() -> list[object]:
    from importlib.metadata import entry_points

    return list(entry_points(group="pytest11", name="noracle"))


def test_the_plugin_imports_nothing_heavy() -> None:
    code = "import sys, pytest, noracle.gate.plugin; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert not {"numpy", "scipy", "duckdb", "narwhals", "typer"} & loaded
