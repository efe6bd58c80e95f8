"""Every strategy in the real search, on a simulated model: entries, problems and shares arrive
where they should.
"""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from examples.papers._simulated_designer import SimulatedDesigner
from examples.papers._simulated_world import simulated_world
from noracle.search.archive import Found
from noracle.search.caller import Caller
from noracle.search.engine import search_workflows
from noracle.search.strategies import STRATEGIES, StrategyName, make_strategy
from noracle.search.vault import Vault
from noracle.search.workflow import load_workflow

WORLD = simulated_world(90, 4, skill=0.5, seed=3)


def found(
    name: StrategyName, folder: Path, *, generations: int = 6, fault_rate: float = 0.1
) -> Found:
    pool = [load_workflow(w) for w in ("cot-sc", "step-back", "role")]
    strategy = make_strategy(name, task=WORLD.task, workflows=pool, most_calls=6)
    vault = Vault.open(WORLD.judgements(), WORLD.task.items, seed=1)
    search = search_workflows(
        WORLD.task,
        vault,
        strategy=strategy,
        calls=Caller(WORLD.model()),
        designer=Caller(SimulatedDesigner(fault_rate=fault_rate)),
        generations=generations,
        seed=1,
        folder=folder,
        baselines=[load_workflow("direct"), load_workflow("cot")],
    )
    return asyncio.run(search)


@pytest.mark.thin(6)
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_search_runs_to_its_end_and_repeats(name: StrategyName, tmp_path: Path) -> None:
    one, two = found(name, tmp_path / "a"), found(name, tmp_path / "b")
    assert (tmp_path / "a/archive.json").read_bytes() == (tmp_path / "b/archive.json").read_bytes()
    assert one.winner == two.winner
    made = [e for e in one.entries if e.generation > 0]
    assert made
    assert all(e.fitness is not None for e in made)
    if name == "halving":
        full = len(made[-1].outcomes)
        assert full >= 40
        assert [len(e.outcomes) for e in made] == [math.ceil(full / 2)] * 3 + [full] * 2
        assert [e.workflow.name for e in made[:3]] == ["cot-sc", "step-back", "role"]


def test_a_designer_that_says_nothing_useful_uses_generations_up(tmp_path: Path) -> None:
    result = found("adas", tmp_path, fault_rate=1.0)
    made = [e for e in result.entries if e.generation > 0]
    assert made
    assert all(
        "no valid workflow after 3 repairs" in e.problem and e.fitness is None and not e.outcomes
        for e in made
    )
    assert result.winner.name in ("direct", "cot")
