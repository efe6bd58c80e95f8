"""The help of every verb: one screen, brackets as they were written, examples that run."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from noracle.cli import VERBS, app
from noracle.cli import run as run_line
from noracle.cli._help import COLUMNS, LINES, brief
from tests.unit.cli.conftest import Run


def verbs(command: Any, *path: str) -> list[tuple[str, ...]]:
    """Every verb, and every verb of a group."""
    if not hasattr(command, "commands"):
        return [path]
    return [v for name, c in sorted(command.commands.items()) for v in verbs(c, *path, name)]


ALL = verbs(typer.main.get_command(app))
BRACKETED = re.compile(r"\[(?!default|x|\d)[^\]]+\]")


@pytest.fixture(autouse=True)
def _screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("LINES", "60")


def examples(text: str) -> list[str]:
    """The commands under Example, as a reader would copy them."""
    lines = re.sub(r" \\\n +", " ", text).splitlines()
    return [line.strip() for line in lines if re.match(r"  (noracle|printf) ", line)]


@pytest.mark.thin(5)
@pytest.mark.parametrize("verb", ALL, ids=" ".join)
def test_the_help_of_a_verb_fits_one_screen_and_loses_nothing(
    noracle: Run, verb: tuple[str, ...]
) -> None:
    short, whole = noracle(*verb, "--help"), noracle(*verb, "--help-all")
    assert (short.code, whole.code, short.err, whole.err) == (0, 0, "", "")
    lines = short.out.splitlines()
    assert len(lines) <= LINES
    assert max(map(len, [*lines, *whole.out.splitlines()])) <= COLUMNS
    assert len(examples(short.out)) >= min(2, len(examples(whole.out)))
    command: Any = typer.main.get_command(app)
    for name in verb:
        command = command.commands[name]
    unwrapped = " ".join(whole.out.split())
    for param in command.params:
        if param.param_type_name == "option" and not param.hidden:
            # An option is explained or at least named on the screen, and explained in full by the other.
            assert param.opts[0] in short.out
            assert " ".join((param.help or "").split()) in unwrapped
            assert set(BRACKETED.findall(param.help or "")) <= set(BRACKETED.findall(unwrapped))


def test_brackets_are_printed_as_they_are_written(noracle: Run) -> None:
    whole = " ".join(noracle("plan", "--help-all").out.split())
    assert "TOML with [labels], [raters], [caps], [costs] and [budgets.NAME]" in whole
    assert "[FOLDER]..." in noracle("plan", "--help").out


def test_the_list_of_verbs_fits_the_screen_of_a_laptop(noracle: Run) -> None:
    assert len(noracle("--help").out.splitlines()) <= 56
    assert max(map(len, noracle("--help").out.splitlines())) <= COLUMNS


def test_a_narrow_terminal_gets_narrow_help(noracle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = noracle("rank", "--help").out
    assert "--win-rates" in text
    described = [line for line in text.splitlines() if not line.startswith("  noracle")]
    assert max(map(len, described)) <= 60


@pytest.mark.parametrize("width", [1, 2, 8, 30])
def test_brief_never_exceeds_its_width_by_more_than_the_ellipsis(width: int) -> None:
    for text in ("", "one", "a (b, c; d) e", "word " * 40, "x" * 99, "First. Second; third (more)"):
        assert len(brief(text, width)) <= max(width, 2) + 1


# ----------------------------------------------------------------------------------------------------------------
# the examples, run in a folder that has what they name

CODES = {0, 1, 3}  # an answer: yes, a considered no, undecided
NEEDS = {"learn": "torch", "collect": "fastapi"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders with the files that examples name: a world of choices, and one of mails."""
    import json

    from noracle.cli._output import write_table
    from noracle.simulate import simulate_raters, simulate_world

    root = tmp_path_factory.mktemp("stage")
    world = simulate_world(
        n_items=600, n_classes=10, systems={"agent-7": 0.9, "agent-8": 0.6}, seed=1
    )
    place = root / "choices"
    place.mkdir()
    tables = {"answers": world.answers, "judgements": world.judgements, "items": world.items}
    for name, columns in tables.items():
        write_table(place / f"{name}.csv", columns)
    raters = {"ann": 0.9, "bob": 0.8, "cy": 0.85}
    key = {i: world.key[i] for i in range(200)}
    ratings = simulate_raters(key, raters=raters, n_classes=10, seed=2)
    write_table(place / "ratings.csv", ratings)
    verdicts: dict[str, list[Any]] = {"item": [], "system": [], "rater": [], "verdict": []}
    people = ("ann", "bob")
    for item, system, answer in zip(*world.answers.values(), strict=True):
        right = answer == world.key[item]
        for n, rater in enumerate(("gpt", "claude", "gemini", *people)):
            if rater in people and (int(item) > 200 or int(item) % 2 != n % 2):
                continue
            wrong = rater not in people and (int(item) * (n + 3)) % 11 == 0
            row = (item, system, rater, "right" if right != wrong else "wrong")
            for column, cell in zip(verdicts.values(), row, strict=True):
                column.append(cell)
    by_people = [i for i, rater in enumerate(verdicts["rater"]) if rater in people]
    write_table(place / "judged.csv", verdicts)
    write_table(place / "grades.csv", {k: [v[i] for i in by_people] for k, v in verdicts.items()})
    for day in ("monday", "tuesday"):
        told = [f"--{t}={place / t}.csv" for t in tables]
        assert run_line(["-q", "estimate", *told, f"--save-counts={place / day}.json"]) == 0
    pairs = [(i, "agent-7", "agent-8", ("first", "second", "first")[i % 3]) for i in range(90)]
    names = ("item", "first", "second", "winner")
    table = dict(zip(names, map(list, zip(*pairs, strict=True)), strict=True))
    for name in ("preferences.csv", "arena.jsonl"):
        write_table(place / name, table)
    evals = place / "evals"
    evals.mkdir()
    renamed = {"agent-7": "new", "agent-8": "base"}
    for name, columns in tables.items():
        shown = dict(columns)
        if "system" in shown:
            shown["system"] = [renamed[s] for s in shown["system"]]
        write_table(evals / f"{name}.csv", shown)
    shutil.copytree(evals, place / "evidence")
    (place / "model.json").write_text(json.dumps({"rules": [], "otherwise": "ANSWER: A"}), "utf-8")
    (place / "judge.json").write_text(
        json.dumps({"rules": [], "otherwise": "VERDICT: yes"}), "utf-8"
    )
    mail = root / "mails"
    mail.mkdir()
    graders = {"gpt": 0.9, "claude": 0.85, "llama": 0.8}
    spam = simulate_world(n_items=400, n_classes=2, systems=graders, seed=3)
    words = ["spam", "ham"]
    answers = dict(spam.answers)
    answers["answer"] = [words[int(a)] for a in answers["answer"]]
    write_table(mail / "answers.csv", answers)
    rows = [
        f"q{i},{i % 2 if i < 120 else ''},{(i + (i % 9 == 0)) % 2},{(i + (i % 4 == 0)) % 2}"
        for i in range(240)
    ]
    (place / "pilot.csv").write_text("\n".join(["item,human,judge,mini", *rows]) + "\n", "utf-8")
    shutil.copy(place / "pilot.csv", place / "scores.csv")
    (place / "work.csv").write_text("item,rater,value\nw1,human,1\nw2,judge,0\n", "utf-8")
    (place / "prices.toml").write_text(
        "[raters]\nhuman = 1.0\njudge = 0.05\nmini = 0.01\n", "utf-8"
    )
    rows = [
        f"q{i},{'ABC'[i % 3]},{'ABC'[i % 3]},{'ABC'[(i + (i % 5 == 0)) % 3]}" for i in range(60)
    ]
    (place / "wide.csv").write_text("\n".join(["question,ann,bob,cy", *rows]) + "\n", "utf-8")
    texts = {
        "item": list(range(600)),
        "text": [f"Abstract {i}" for i in range(600)],
        "options": ["|".join("ABCDEFGHIJ")] * 600,
    }
    write_table(place / "texts.csv", texts)
    return root


@pytest.mark.full
@pytest.mark.parametrize("verb", [v.name for v in VERBS if not v.group])
def test_the_first_two_examples_run(
    noracle: Run, verb: str, stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    mails = verb in {"alarm", "ranges", "conflict", "verify"}
    shutil.copytree(stage / ("mails" if mails else "choices"), place)
    monkeypatch.chdir(place)
    if verb == "judge":
        shutil.move("judged.csv", "grades.csv")
    if verb in {"ask", "search", "view"}:
        shutil.move("texts.csv", "items.csv")
    if verb == "mean":
        before = (
            "plan --pilot pilot.csv --target human --costs prices.toml --budget 50 --out plan.json"
        )
        assert run_line(["-q", *before.split()]) == 0
    if verb == "route":
        judged = Path("judgements.csv").read_text("utf-8").splitlines()[:50]
        Path("judgements.csv").write_text("\n".join(judged) + "\n", "utf-8")
        wish = "--half-width 0.2 --kind question --cost question=1 --out plan.json"
        assert run_line(["-q", "plan", "--n-classes=10", "--accuracy=0.8", *wish.split()]) == 0
    if verb == "view":
        given = "--items items.csv --model script:model.json --yes"
        assert run_line(["-q", "ask", *given.split(), "--limit=9", "--out=answers.csv"]) == 0
        found = "--judgements judgements.csv --budget 500"
        assert run_line(["-q", "search", *given.split(), *found.split()]) in CODES
    monkeypatch.setenv("NORACLE_CACHE", str(tmp_path / "cache"))
    shown = examples(noracle(verb, "--help").out)[:2]
    assert len(shown) == 2
    for line in shown:
        words = [
            f"{shlex.quote(sys.executable)} -m noracle" if w == "noracle" else w
            for w in line.split(" ")
        ]
        ended = subprocess.run(
            ["bash", "-c", " ".join(words)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode in CODES, (line, ended.stderr)
