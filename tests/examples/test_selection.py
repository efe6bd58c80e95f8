"""The luckiest of many, what an honest search reports, and races over systems that exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import _selection_pools
import _selection_worlds
import numpy as np
import pytest
import selection

from noracle.search.fitness import score_outcomes

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_script_runs_on_the_stand_ins_and_says_so(no_data: None, tmp_path: Path) -> None:
    script = str(ROOT / "examples/papers/selection.py")
    sizes = ["--items", "4000", "--repetitions", "4", "--races", "2", "--budget", "256"]
    done = subprocess.run(
        [sys.executable, "-W", "error", script, *sizes, "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    text = (tmp_path / "selection.md").read_text(encoding="utf-8")
    assert text.count("simulated stand-in") == 2
    assert text.count("| targeted") == 2
    for name in ("race-mmlu-pro.svg", "race-medical-abstracts.svg"):
        assert "<svg" in (tmp_path / name).read_text(encoding="utf-8")


@pytest.mark.full
def test_worlds_have_the_accuracy_that_they_say() -> None:
    world = _selection_worlds.World(
        agents=3, better=0.15, shared=0.5, silent=0.1, labels="ordinary"
    )
    answers, labels = world.draw(40_000, np.random.default_rng(0))
    truth = np.array([label.truth for label in labels.of.values()])
    assert (answers == truth).mean(axis=1) == pytest.approx(world.truth, abs=0.01)
    assert (answers < 0).mean() == pytest.approx(0.1, abs=0.01)
    for kind in ("ruled out", "question", "ordinary"):
        world = _selection_worlds.World(agents=1, labels=kind)  # type: ignore[arg-type]
        answers, labels = world.draw(20_000, np.random.default_rng(1))
        scores = score_outcomes(_selection_worlds.outcomes_of(answers[0]), labels)
        assert abs(scores.mean - 0.45) <= 4 * scores.se


def test_an_estimate_on_the_labels_of_the_choice_would_be_noticed() -> None:
    """The bias that the example reports is a check that can fail: the value on validation labels
    fails it.
    """
    rng = np.random.default_rng(2)
    found = [
        _selection_worlds.search_once(_selection_worlds.World(), (88, 10, 88), rng)
        for _ in range(20)
    ]
    assert np.mean([s.validation - s.truth for s in found]) > 0.15
    assert abs(np.mean([s.held_out.value - s.truth for s in found])) < 0.12


def test_races_are_summarised_as_they_ran(no_data: None) -> None:
    answers = _selection_pools.medical_pipelines()
    races = _selection_pools.run_races(answers, "targeted", budget=512, repetitions=3, seed=0)
    assert races.points == (8, 16, 32, 64, 128, 256, 512)
    assert races.regret.shape == races.left.shape == (3, 7)
    assert (np.diff(races.left, axis=1) <= 0).all()
    assert (races.regret >= 0).all()
    assert races.kept == 1.0
    assert "targeted" in selection.race_table([races], 512)


@pytest.mark.slow
def test_real_races_keep_the_best_and_aimed_questions_cost_least(mmlu_pro_file: Path) -> None:
    for answers in (selection.mmlu_pro(), _selection_pools.medical_pipelines()):
        budget = min(4096, len(answers.key))
        races = {
            d: _selection_pools.run_races(answers, d, budget=budget, repetitions=10, seed=0)
            for d in _selection_pools.DESIGNS
        }
        assert all(r.kept >= 0.9 for r in races.values())
        assert (
            races["targeted"].left[:, -1].mean()
            <= races["equal"].left[:, -1].mean()
            <= races["uniform"].left[:, -1].mean() + 0.5
        )
