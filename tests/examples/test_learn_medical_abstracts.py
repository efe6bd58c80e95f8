"""The example on Medical Abstracts: it beats chance, and no true label is used before the last
line.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the learn extra is not installed")
pytest.importorskip("sklearn", reason="the learn extra is not installed")

import learn_medical_abstracts as example

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples/learn_medical_abstracts.py"


def run(data: str) -> str:
    env = {**os.environ, "NORACLE_DATA": data, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT)],
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def figures(out: str) -> tuple[float, float, float]:
    """The interval and the truth."""
    low, high = map(
        float, re.search(r"accuracy of 'chosen' .* \[([\d.]+), ([\d.]+)\]", out).groups()
    )  # type: ignore[union-attr]
    return low, high, float(re.search(r"right for ([\d.]+)", out.splitlines()[-1]).group(1))  # type: ignore[union-attr]


def test_stand_in_is_named_and_learnt() -> None:
    out = run("")
    assert "a made-up corpus" in out
    low, high, truth = figures(out)
    assert low <= truth <= high
    assert truth > 0.9


@pytest.mark.slow
def test_real_abstracts_are_learnt_from_what_they_are_not(data_folder: Path) -> None:
    if not (data_folder / "medical_abstracts.parquet").is_file():
        pytest.skip("NORACLE_DATA has no medical_abstracts.parquet")
    out = run(str(data_folder))
    assert "2888 texts, Medical Abstracts;" in out
    low, high, truth = figures(out)
    assert low <= truth <= high
    assert truth > 0.42  # the largest class has 0.33
    assert low > 0.25  # chance is 0.2, and the labels alone show that the model is better


def test_the_key_is_read_in_the_last_line_only() -> None:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    main = next(
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main"
    )
    lines = [
        node.lineno
        for node in ast.walk(main)
        if isinstance(node, ast.Attribute) and node.attr == "sealed"
    ]
    last = main.body[-2]
    assert len(lines) == 1
    assert last.lineno <= lines[0] <= (last.end_lineno or last.lineno)


def test_another_key_changes_the_last_line_only(
    no_data: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    corpus = example.load(0)
    for shift in (0, 1):
        few = example.Corpus(
            corpus.texts[:700],
            corpus.ruled_out[:700],
            corpus.source,
            (corpus.sealed[:700] + shift) % 5,
        )
        monkeypatch.setattr(example, "load", lambda _seed, few=few: few)
        assert example.main() == 0
        found.append(capsys.readouterr().out.splitlines())
    assert found[0][:-1] == found[1][:-1]
    assert found[0][-1] != found[1][-1]
