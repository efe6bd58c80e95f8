"""Agents re-created: the selection noise, the searches on both scales, and the figures."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from _agents_noise import SIZES, answers, scores, selection_noise
from _agents_search import benches, search

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_script_runs_and_says_that_the_designer_is_a_script(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-W",
        "error",
        str(ROOT / "examples/papers/agents.py"),
        "--quick",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    text = (tmp_path / "agents.md").read_text(encoding="utf-8")
    assert "above the best baseline" in text
    assert "The designer of ADAS and AFlow is a script" in " ".join(text.split())
    for name in ("figure3", "figure4", "noise"):
        assert ET.parse(tmp_path / f"{name}.svg").getroot().tag.endswith("svg")
        assert (tmp_path / f"{name}.png").stat().st_size > 1000


@pytest.mark.parametrize("size", SIZES, ids=[s.name for s in SIZES])
def test_selection_noise_of_identical_agents_is_as_found_before(size: object) -> None:
    found = selection_noise(size, replications=300, seed=5)  # type: ignore[arg-type]
    assert found.complementary == pytest.approx(size.earlier_complementary, abs=2)  # type: ignore[attr-defined]
    assert found.ordinary == pytest.approx(size.earlier_ordinary, abs=1)  # type: ignore[attr-defined]
    assert abs(found.held_out) < 2.5
    assert 0.5 < found.picks_complementary < found.picks_ordinary < 1


def test_identical_agents_have_the_accuracy_that_was_asked_for() -> None:
    chosen, ruled_out = answers(np.random.default_rng(0), (400, 3, 88), 0.45, 4, lead=0.1)
    weak, right = scores(chosen, ruled_out, 4)
    np.testing.assert_allclose(right.mean(axis=0), [0.55, 0.45, 0.45], atol=0.015)
    np.testing.assert_allclose(weak.mean(axis=0), [0.55, 0.45, 0.45], atol=0.03)


@pytest.mark.full
@pytest.mark.parametrize("name", ["adas", "aflow", "mutate"])
def test_q_and_its_transform_lead_to_the_same_search(name: str) -> None:
    (bench,) = benches(60, seeds=2, only=1)
    q, a = (search(bench, name, scale=scale, seed=0, generations=4) for scale in ("q", "A"))  # type: ignore[arg-type]
    other = search(bench, name, scale="A", seed=1, generations=4)  # type: ignore[arg-type]
    assert q == a
    assert other.choices != a.choices
