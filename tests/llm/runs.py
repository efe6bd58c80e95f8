"""The search that is recorded once with a real model and replayed in the default tests."""

from __future__ import annotations

from pathlib import Path

from examples.papers._agents_recorded import Brief, ruled_out
from noracle.search.archive import Found
from noracle.search.engine import search_workflows
from noracle.search.model import Calls
from noracle.search.strategies import make_strategy
from noracle.search.vault import Vault
from noracle.search.workflow import load_workflow
from tests.llm.items import make

RECORDINGS = Path(__file__).parents[1] / "reference" / "recordings"
N_ITEMS, GENERATIONS, MOST_TOKENS = 24, 10, 80


async def search(calls: Calls, folder: Path) -> Found:
    """A ``mutate`` search that begins with one plain call."""
    task, key = make(N_ITEMS)
    vault = Vault.open(ruled_out(key, 4, seed=11), task.items, seed=11, shares=(0.5, 0.25, 0.25))
    return await search_workflows(
        task,
        vault,
        strategy=make_strategy("mutate", most_calls=3),
        calls=Brief(calls, MOST_TOKENS),
        generations=GENERATIONS,
        seed=11,
        folder=folder,
        baselines=[load_workflow("direct")],
    )
