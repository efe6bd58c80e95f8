"""Follows CONTRIBUTING.md to the letter: its five steps, applied to a copy of the tree, give a
working interval in five files.

Before each block of code the source of the page has a comment that says where it goes: ``<!-- edit
FILE: append -->``, ``create``, ``before LINE``, ``after LINE`` or ``replace TEXT``. LINE and TEXT
must stand in the file exactly once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EDIT = re.compile(
    r"^<!-- edit (?P<file>\S+): (?P<how>append|create|before|after|replace)(?: (?P<at>[^\n]+?))? -->\n```text\n(?P<text>.*?)^```$",
    flags=re.DOTALL | re.MULTILINE,
)
GENERATED = {".venv", ".git", ".slow", "_build", "generated", "__pycache__", "build", "dist"}
USE = """
import json, noracle
counts = noracle.AccuracyCounts.from_counts(n_classes=10, ordinary=(300, 235), complementary=(2700, 2634))
found = noracle.estimate_accuracy(counts, interval="split")
exact = noracle.estimate_accuracy(counts)
said = {"file": noracle.__file__, "interval": found.interval, "width": found.width, "exact": exact.width, "result": found.to_dict()}
print(json.dumps(said))
"""


class Edit(NamedTuple):
    file: str
    how: str
    at: str
    text: str


def edits(page: str) -> list[Edit]:
    return [Edit(m["file"], m["how"], m["at"] or "", m["text"]) for m in EDIT.finditer(page)]


def apply(edit: Edit, root: Path) -> None:
    """Do what a contributor would do with one block."""
    path = root / edit.file
    if edit.how == "create":
        assert not path.exists(), f"{edit.file} exists already"
        path.write_text(edit.text, encoding="utf-8")
        return
    text = path.read_text(encoding="utf-8")
    if edit.how == "append":
        path.write_text(f"{text.rstrip()}\n\n\n{edit.text}", encoding="utf-8")
        return
    place = edit.at if edit.how == "replace" else f"\n{edit.at}\n"
    assert text.count(place) == 1, (
        f"{edit.file} must hold {edit.at!r} once; it does {text.count(place)} times"
    )
    made = {
        "replace": edit.text.rstrip("\n"),
        "before": f"\n{edit.text}{edit.at}\n",
        "after": f"\n{edit.at}\n{edit.text}",
    }[edit.how]
    path.write_text(text.replace(place, made), encoding="utf-8")


def tree() -> list[str]:
    """What is tracked, or would be; in a source archive, everything that is not generated."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    files = [p.relative_to(ROOT) for p in ROOT.rglob("*") if p.is_file()]
    return [p.as_posix() for p in files if not GENERATED & set(p.parts)]


def contents(root: Path) -> dict[str, bytes]:
    return {
        p.relative_to(root).as_posix(): p.read_bytes()
        for p in root.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }


class Clone(NamedTuple):
    """A copy of the tree with the five steps applied, and the files that they touched."""

    root: Path
    touched: set[str]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    root = tmp_path_factory.mktemp("clone")
    for name in tree():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, root / name)
    before = contents(root)
    for edit in edits(PAGE):
        apply(edit, root)
    after = contents(root)
    return Clone(root, {name for name in {*before, *after} if before.get(name) != after.get(name)})


def run(root: Path, *arguments: str) -> str:
    env = {
        **os.environ,
        "PYTHONPATH": str(root / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_COLOR": "1",
        "COLUMNS": "140",
    }
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=root, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, (
        f"`{' '.join(arguments)}` ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    )
    return done.stdout


def test_the_steps_touch_at_most_five_files(clone: Clone) -> None:
    assert clone.touched == {edit.file for edit in edits(PAGE)}
    assert len(clone.touched) <= 5


def test_every_step_has_its_block_and_every_block_its_place() -> None:
    steps = PAGE.split("## Add an estimator in five steps")[1].split("\n## ")[0]
    assert re.findall(r"^\*\*(\d)\.", steps, flags=re.MULTILINE) == ["1", "2", "3", "4", "5"]
    assert steps.count("```text") == len(edits(PAGE))
    parts = re.split(r"^\*\*\d\.", steps, flags=re.MULTILINE)[1:]
    assert all(edits(part) for part in parts)
    assert all(
        f"`{edit.file}`" in part or Path(edit.file).parent.as_posix() in part
        for part in parts
        for edit in edits(part)
    )


@pytest.mark.full
def test_the_new_interval_works_and_says_what_it_promises(clone: Clone) -> None:
    said = json.loads(run(clone.root, "-c", USE))
    assert Path(said["file"]).is_relative_to(clone.root)
    assert said["interval"] == "split"
    assert said["result"]["guarantee"]["kind"] == "finite-sample"
    assert [a["name"] for a in said["result"]["guarantee"]["assumptions"]] == [
        "iid items",
        "uniform routing",
        "right verdicts",
        "answers made without the verdicts",
    ]
    assert said["exact"] < said["width"] < 0.2


@pytest.mark.full
def test_the_new_tests_and_the_contracts_hold_in_the_copy(clone: Clone) -> None:
    plain = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow")
    new = run(
        clone.root,
        *plain,
        "tests/unit/bounds/test_split.py",
        "src/noracle/bounds/binomial.py",
        "-k",
        "split",
    )
    assert "7 passed" in new  # six accuracies, and the example of the docstring
    contracts = run(
        clone.root, *plain, "tests/contracts", "-k", "split and estimate_accuracy or registry"
    )
    assert int(re.findall(r"(\d+) passed", contracts)[0]) >= 20
    run(
        clone.root,
        *plain,
        "tests/docs/test_layers.py",
        "tests/docs/test_exports.py",
        "-k",
        "imports or are_the_pinned_ones",
    )


@pytest.mark.full
def test_the_new_code_passes_the_linter_once_it_is_formatted(clone: Clone) -> None:
    ruff = Path(sys.executable).parent / "ruff"
    if not ruff.exists():
        pytest.skip("ruff is not installed beside this Python")
    files = sorted(name for name in clone.touched if name.endswith(".py"))
    for command in (["format", "--no-cache"], ["check", "--no-cache"]):
        done = subprocess.run(
            [str(ruff), *command, *files],
            cwd=clone.root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_place_that_is_gone_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    with pytest.raises(AssertionError, match="must hold 'three' once"):
        apply(Edit("a.py", "before", "three", "x\n"), tmp_path)
    apply(Edit("a.py", "before", "two", "x\n"), tmp_path)
    apply(Edit("a.py", "append", "", "y\n"), tmp_path)
    assert (tmp_path / "a.py").read_text() == "one\nx\ntwo\n\n\ny\n"
    with pytest.raises(AssertionError, match="exists already"):
        apply(Edit("a.py", "create", "", "x\n"), tmp_path)
