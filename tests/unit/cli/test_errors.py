"""What goes wrong: one line on stderr, the right exit code, no traceback, no text of an item."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from noracle.cli import plan
from tests.unit.cli.conftest import CANARY, Ended, Run
from tests.unit.evidence.bad_inputs import BAD_INPUTS, SECRET, BadInput


def assert_refused(ended: Ended, code: int = 2) -> None:
    assert ended.code == code, ended
    assert ended.out == ""
    assert ended.err.splitlines(keepends=True) == [ended.err], ended.err
    assert "Traceback" not in ended.err
    assert SECRET not in ended.err
    assert CANARY not in ended.err


@pytest.mark.thin(9)
@pytest.mark.parametrize("case", BAD_INPUTS, ids=[case.id for case in BAD_INPUTS])
def test_bad_input_is_one_line_and_exit_code_2(
    noracle: Run, tmp_path: Path, case: BadInput
) -> None:
    arguments = case.write(tmp_path)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in arguments.items()]
    ended = noracle("estimate", *options, "--json")
    assert_refused(ended)
    if "n_classes" not in arguments or isinstance(arguments["n_classes"], int):
        said, message = _plain(case.message), _plain(ended.err.removeprefix("error: ").rstrip("\n"))
        assert re.search(said, message), message


def _plain(text: str) -> str:
    """A message without the marks of flags: the library says n_classes where the command line says
    --n-classes.
    """
    return (
        text.replace("--columns ", "columns=").replace("--", "").replace("n-classes", "n_classes")
    )


def test_bad_input_in_a_process_of_its_own(shell: Run, tmp_path: Path) -> None:
    case = next(c for c in BAD_INPUTS if c.id == "missing_file")
    assert_refused(
        shell(
            "estimate", *(f"--{n.replace('_', '-')}={v}" for n, v in case.write(tmp_path).items())
        )
    )


@pytest.mark.parametrize(
    "line",
    [
        "estimate",
        "estimate --answers nowhere.csv",
        "estimate --method nonsense",
        "estimate --confidence high",
        "estimate --confidence 1.5 --counts {counts}",
        "estimate --system nobody --counts {counts}",
        "estimate --counts {folder}/nowhere.json",
        "estimate --counts {broken}",
        "estimate --counts {list}",
        "estimate --counts {negative}",
        "estimate --counts {shapeless}",
        "estimate --counts {counts} --html {folder}/nowhere/page.html",
        "estimate --counts {counts} --html {folder}",
        "estimate --counts {counts} --save-counts {folder}/nowhere/counts.json",
        "estimate --counts {counts} --transition {folder}/nowhere.csv",
        "estimate --counts {counts} --transition {broken}",
        "estimate --counts {counts} --method ml --interval theorem4",
        "estimate --counts {counts} --false-no 0.6 --false-yes 0.6",
        "estimate --wide {folder}/nowhere.csv",
        "estimate --label key",
        "compare",
        "race --systems a,b",
        "plan",
        "plan --n-classes 10 --accuracy 0.8",
        "plan --n-classes 10 --accuracy 0.8 --half-width 0.02 --budget 3",
        "plan --n-classes 10 --accuracy 0.8 --half-width 0.02 --cost ordinary",
        "plan --n-classes 10 --accuracy 0.8 --half-width 0.02 --cost gold=1",
        "plan --n-classes 10 --accuracy 0.8 --half-width 0.02 --cap ordinary=1.5",
        "plan --n-classes 1 --accuracy 0.8 --half-width 0.02",
        "plan --n-classes 4 --accuracy 0.8 --half-width 0.001 --cap ordinary=5 --cap complementary=5",
        "route",
        "route --answers {folder}/nowhere.csv",
        "route --answers {folder}/nowhere.csv --out questions.txt",
        "check",
        "check --counts {counts} --at-least 0.5 --at-most 0.6",
        "simulate --n-classes ten",
        "simulate --n-classes 1 --out {folder}/w",
        "simulate --system a --out {folder}/w",
        "simulate --system a=2 --out {folder}/w",
        "simulate --bias 2 --out {folder}/w",
        "simulate --n-items 10 --n-ordinary 11 --out {folder}/w",
        "simulate --n-classes 4 --transition {matrix} --out {folder}/w",
        "simulate --out {counts}",
        "demo --seed -1",
        "nonsense",
        "--nonsense",
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(noracle: Run, tmp_path: Path, line: str) -> None:
    from noracle import AccuracyCounts

    counts = AccuracyCounts.from_counts(
        n_classes=4, system="a", ordinary=(30, 20), complementary=(60, 55)
    ).to_dict()
    negative = {**counts, "tallies": [{**counts["tallies"][0], "n": -5}]}
    shapeless = {**counts, "population": [{"system": "a"}]}
    texts = {
        "counts": json.dumps(counts),
        "broken": '{"schema": ',
        "list": "[1, 2]",
        "negative": json.dumps(negative),
        "shapeless": json.dumps(shapeless),
        "matrix": json.dumps([[0.0, 1.0], [1.0, 0.0]]),
    }
    places = {name: tmp_path / f"{name}.json" for name in texts}
    for name, text in texts.items():
        places[name].write_text(text, encoding="utf-8")
    before = sorted(p.name for p in tmp_path.iterdir())
    assert_refused(noracle(*(part.format(folder=tmp_path, **places) for part in line.split())))
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_error_message_shows_control_characters_harmlessly(noracle: Run) -> None:
    ended = noracle("estimate", "--answers", "evil\x1b[2J\nname.csv")
    assert_refused(ended)
    assert "\x1b" not in ended.err


def test_internal_error_is_70_and_debug_shows_the_traceback(
    noracle: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("a fault\nof ours")

    monkeypatch.setattr(plan, "plan_labels", broken)
    line = ["plan", "--n-classes", 4, "--accuracy", 0.8, "--half-width", 0.1]
    ended = noracle(*line)
    assert_refused(ended, code=70)
    assert ended.err.startswith("internal error: RuntimeError: a fault of ours")
    assert "--debug" in ended.err
    for debug in (["--debug", *line], [*line, "--debug"]):
        ended = noracle(*debug)
        assert ended.code == 70
        assert "Traceback" in ended.err


def test_interrupt_inside_a_verb_is_130(noracle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(**_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    monkeypatch.setattr(plan, "plan_labels", stopped)
    assert_refused(
        noracle("plan", "--n-classes", 4, "--accuracy", 0.8, "--half-width", 0.1), code=130
    )


def test_engine_that_turns_an_interrupt_into_its_own_error_is_130(
    noracle: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from noracle import EvidenceError

    def stopped(**_: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            raise EvidenceError("evidence must be readable; got an interrupt error.") from None

    monkeypatch.setattr(plan, "plan_labels", stopped)
    assert_refused(
        noracle("plan", "--n-classes", 4, "--accuracy", 0.8, "--half-width", 0.1), code=130
    )


@pytest.mark.full
def test_ctrl_c_ends_a_long_race_with_130(noracle: Run, tmp_path: Path) -> None:
    systems = [part for i in range(4) for part in ("--system", f"s{i}=0.7")]
    assert (
        noracle("simulate", "--n-items", 60_000, "--n-classes", 4, *systems, "--out", tmp_path).code
        == 0
    )
    tables = [f"--{n}={tmp_path}/{n}.csv" for n in ("answers", "judgements", "items")]
    line = [sys.executable, "-m", "noracle", "-v", "race", *tables, "--no-check"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        while "the race begins" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == 130
    assert out == ""
    assert err == "interrupted\n"


@pytest.mark.full
def test_broken_pipe_is_silent_and_the_report_is_still_written(
    tables: list[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-m", "noracle", "estimate", *tables, "--html", str(page)]
    with os.fdopen(writer, "wb") as pipe:
        ended = subprocess.run(
            line, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False, timeout=120
        )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert page.exists()


def test_help_into_a_broken_pipe_is_silent() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        ended = subprocess.run(
            [sys.executable, "-m", "noracle", "estimate", "--help"],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.full
def test_warnings_go_to_stderr_and_json_alone_to_stdout(shell: Run, world: Path) -> None:
    ended = shell(
        "estimate",
        f"--answers={world}/answers.csv",
        f"--judgements={world}/judgements.csv",
        "--json",
    )
    assert ended.code == 0
    assert ended.json["schema"] == "results/1"
    assert ended.err.startswith("warning: n_classes = 5 inferred")
    assert ended.err.count("\n") == 1
    quiet = shell(
        "estimate",
        f"--answers={world}/answers.csv",
        f"--judgements={world}/judgements.csv",
        "--json",
        "-q",
    )
    assert (quiet.code, quiet.err, quiet.out) == (0, "", ended.out)


def test_output_is_utf8_whatever_the_terminal_says(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "item,system,answer\n1,modèle ✓,0\n2,modèle ✓,1\n", encoding="utf-8"
    )
    (tmp_path / "j.csv").write_text("item,class,verdict\n1,0,yes\n2,1,yes\n", encoding="utf-8")
    line = [
        sys.executable,
        "-m",
        "noracle",
        "estimate",
        f"--answers={tmp_path}/a.csv",
        f"--judgements={tmp_path}/j.csv",
        "--n-classes=3",
    ]
    ended = subprocess.run(
        line,
        capture_output=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert "modèle ✓" in ended.stdout.decode("utf-8")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from noracle.cli import run; code = run(['--help']); "
        "heavy = {'matplotlib', 'duckdb', 'pandas', 'polars', 'pyarrow', 'pyspark', 'jinja2', 'torch', 'scipy.stats'} & set(sys.modules); "
        "sys.exit(f'heavy: {heavy}' if heavy or code else 0)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
