"""The fire alarm re-created: the published table, the figures, and real answers as graders."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import _alarm_figures as figures
import alarm
import numpy as np
import pytest
from _data import mmlu_pro, ten_options
from _tables import Page

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_script_runs_on_the_stand_in_and_says_so(no_data: None, tmp_path: Path) -> None:
    script = str(ROOT / "examples/papers/alarm.py")
    command = [
        sys.executable,
        "-W",
        "error",
        script,
        "--quick",
        "--seconds",
        "5",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    text = (tmp_path / "alarm.md").read_text(encoding="utf-8")
    assert "simulated stand-in" in text
    for row in (
        ("Claude Mistral", "no", "consistent", "12..53", "0.574", "0.523", "0.733"),
        ("Claude GPT4", "no", "consistent", "188..281", "0.685", "0.640", "0.797"),
        ("Mistral GPT4", "yes", "alarm", "none", "0.262", "0.259", "0.626"),
        ("accuracy of Mistral on A", "0.000", "0.142", "0.110", "yes"),
    ):
        assert "|".join(row) in text.replace(" | ", "|").replace("  ", "").replace(
            "| ", "|"
        ).replace(" |", "|").replace("| ", "|"), row
    for k in range(1, 6):
        assert ET.parse(tmp_path / f"figure{k}.svg").getroot().tag.endswith("svg")


def test_axiom_of_figure_1_holds_for_the_truth() -> None:
    """Right on b follows from right on a, the uses and the prevalence."""
    for i in range(3):
        uses_a = sum(sum(n) for p, n in alarm.TABLE_2.items() if p[i] == "A")
        right = tuple(
            sum(n[k] for p, n in alarm.TABLE_2.items() if p[i] == "AB"[k]) for k in (0, 1)
        )
        assert right in figures.allowed(281, uses_a, 237)


def test_number_of_evaluations_is_the_published_formula() -> None:
    for q in (1, 2, 7, 281):
        assert figures.n_single(q) == (q + 1) * (q + 2) * (q + 3) // 6


def test_figure_2_has_no_evaluation_that_is_safe_for_a() -> None:
    """Uses 60 and 20 of a at a prevalence of 60: the second is right on at most 20 of 60."""
    assert max(r for r, _ in figures.allowed(100, 20, 60)) == 20
    assert len(figures.figure2().axes) == 2


@pytest.mark.full
def test_real_answers_prove_what_the_key_confirms(
    mmlu_pro_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = ten_options(mmlu_pro()).keep(np.arange(1500))
    few = alarm.Answers(
        systems=answers.systems[:5],
        n_classes=answers.n_classes,
        key=answers.key,
        given=answers.given[:5],
        source=answers.source,
    )
    assert alarm.models(Page("test"), few, claims=("accuracy > 1/5", "grade > 3/5"), seconds=5)
    assert "alarm" in capsys.readouterr().out
