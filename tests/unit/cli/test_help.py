"""``noracle --help`` by question, quickly; and completion in a real shell."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from noracle.cli import VERBS, app, program, wanted
from tests.unit.cli.conftest import Run

QUESTIONS = (
    "Everything",
    "How accurate?",
    "Better than people?",
    "Broken graders?",
    "What next?",
    "Collect",
    "Train",
    "Search",
)
SHELL = shutil.which("bash")


def test_help_is_grouped_by_question_and_names_each_verb_once(noracle: Run) -> None:
    ended = noracle("--help")
    assert ended.code == 0
    places = [ended.out.index(f"\n{question}\n") for question in QUESTIONS]
    assert places == sorted(places)
    verbs = ended.out[places[0] : ended.out.index("\nOptions\n")]
    listed = [line.split()[0] for line in verbs.splitlines() if line.startswith("  ")]
    assert sorted(listed) == sorted(v.name for v in VERBS)
    assert tuple(dict.fromkeys(v.panel for v in VERBS)) == QUESTIONS


@pytest.mark.parametrize("verb", VERBS, ids=lambda v: v.name)
def test_the_list_says_what_the_verb_says_itself(verb: object) -> None:
    name, _, line, group = verb  # type: ignore[misc]
    module = importlib.import_module(f"noracle.cli.{name}")
    said = module.app.info.help if group else module.command.__doc__
    assert " ".join(str(said).strip().split("\n\n")[0].split()) == line


def test_every_file_of_a_verb_is_listed() -> None:
    folder = Path(importlib.import_module("noracle.cli").__file__ or "").parent
    files = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert files == {v.name for v in VERBS}


def test_the_whole_program_and_the_listed_one_have_the_same_verbs() -> None:
    whole, listed = (sorted(typer.main.get_command(p).commands) for p in (app, program("")))  # type: ignore[attr-defined]
    assert whole == listed == sorted(v.name for v in VERBS)


def modules_after(*arguments: str) -> set[str]:
    code = f"import json, sys; from noracle.cli import run; run({list(arguments)!r}); sys.stderr.write(json.dumps(sorted(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(ended.stderr))


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ()])
def test_the_list_of_verbs_imports_no_verb_and_no_library(arguments: tuple[str, ...]) -> None:
    loaded = modules_after(*arguments)
    assert {
        "numpy",
        "scipy",
        "narwhals",
        "duckdb",
        "matplotlib",
        "jinja2",
        "torch",
        "noracle.evidence",
        "noracle.cli.estimate",
    } & loaded == set()


def test_a_verb_imports_itself_and_not_the_others() -> None:
    loaded = modules_after("estimate", "--help")
    assert "noracle.cli.estimate" in loaded
    assert {"noracle.cli.search", "noracle.cli.certify", "noracle.superhuman"} & loaded == set()


def test_a_verb_that_does_not_exist_is_an_error_that_names_it(noracle: Run) -> None:
    ended = noracle("guess")
    assert ended.code == 2
    assert "guess" in ended.err


@pytest.mark.parametrize(
    ("arguments", "verb"),
    [
        (["-q", "--debug", "route", "plan"], "route"),
        (["plan", "route"], "plan"),
        (["--help"], ""),
        (["nonsense"], ""),
        ([], ""),
    ],
)
def test_the_verb_is_the_first_word_that_is_no_flag(arguments: list[str], verb: str) -> None:
    assert wanted(arguments, {}) == verb


# ----------------------------------------------------------------------------------------------------------------
# completion


def complete(line: str) -> list[str]:
    """What a shell is told for this line, through the program itself."""
    words = line.split(" ")
    place = str(len(words) - 1)
    environment = {
        **os.environ,
        "_NORACLE_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": place,
    }
    ended = subprocess.run(
        [sys.executable, "-m", "noracle"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=environment,
    )
    assert ended.stderr == ""
    return ended.stdout.split()


def test_verbs_are_completed() -> None:
    assert set(complete("noracle ce")) == {"ceiling", "certify"}
    assert set(complete("noracle ")) == {v.name for v in VERBS}


@pytest.mark.full
def test_options_and_verbs_of_groups_are_completed() -> None:
    assert complete("noracle estimate --inter") == ["--interval"]
    assert complete("noracle -v watch --onc") == ["--once"]
    assert {"serve", "seal"} <= set(complete("noracle collect s"))


def test_choices_are_completed() -> None:
    assert complete("noracle certify --trained-on-annotators u") == ["unknown"]


@pytest.mark.skipif(SHELL is None, reason="bash is not installed")
def test_completion_works_in_a_real_bash(tmp_path: Path) -> None:
    """The script that --show-completion prints is sourced by bash, and bash's own call completes a
    verb.
    """
    script = tmp_path / "noracle"
    script.write_text(f'#!{SHELL}\nexec "{sys.executable}" -m noracle "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    program = f"""
        export PATH="{tmp_path}:$PATH"
        source <(noracle --show-completion)
        complete -p noracle
        COMP_WORDS=(noracle conf) COMP_CWORD=1
        _noracle_completion noracle
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    ended = subprocess.run(
        [str(SHELL), "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [
        "complete -o default -F _noracle_completion noracle",
        "conflict",
    ]


@pytest.mark.skipif(SHELL is None, reason="bash is not installed")
def test_install_completion_writes_into_the_home_folder(tmp_path: Path) -> None:
    line = f'"{sys.executable}" -m noracle --install-completion; echo "code $?"'
    ended = subprocess.run(
        [str(SHELL), "-c", line],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert ended.stdout.endswith("code 0\n")
    assert "_noracle_completion" in (tmp_path / ".bash_completions" / "noracle.sh").read_text(
        encoding="utf-8"
    )
    assert "noracle.sh" in (tmp_path / ".bashrc").read_text(encoding="utf-8")
