"""The two runs that are recorded once with a real model and replayed in the default tests."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from noracle.search.asking import Asked, ask_items
from noracle.search.engine import search_workflows
from noracle.search.found import Found
from noracle.search.model import Calls, Completion, Request
from noracle.search.strategies import make_strategy
from noracle.search.task import Task, read_task
from noracle.search.vault import Vault
from noracle.search.workflows import load_workflow
from tests.llm.items import make

RECORDINGS = Path(__file__).parents[1] / "reference" / "recordings"
N_ITEMS, GENERATIONS, N_ABSTRACTS, MOST_CHARACTERS, MOST_TOKENS = 24, 10, 30, 900, 80


@dataclasses.dataclass(frozen=True)
class Brief:
    """Calls with short replies, so that a small machine records a search in minutes."""

    calls: Calls

    async def call(self, request: Request) -> Completion:
        return await self.calls.call(dataclasses.replace(request, max_tokens=min(request.max_tokens, MOST_TOKENS)))


def ruled_out(key: dict[str, int], n_classes: int, seed: int) -> dict[str, list[object]]:
    """One wrong class for every item, each equally likely: all that the search may know."""
    rng = np.random.default_rng(seed)
    classes = [(y + 1 + int(rng.integers(n_classes - 1))) % n_classes for y in key.values()]
    return {"item": list(key), "class": list(classes), "verdict": ["no"] * len(key)}


async def search(calls: Calls, folder: Path) -> Found:
    """A ``mutate`` search that begins with one plain call."""
    task, key = make(N_ITEMS)
    vault = Vault.open(ruled_out(key, 4, seed=11), task.items, seed=11, shares=(0.5, 0.25, 0.25))
    return await search_workflows(
        task, vault, strategy=make_strategy("mutate", most_calls=3), calls=Brief(calls), generations=GENERATIONS, seed=11, folder=folder,
        baselines=[load_workflow("direct")],
    )  # fmt: skip


def abstracts(path: Path) -> Task:
    """The first medical abstracts, cut so that they fit a small machine."""
    task = read_task(path, preset="medical-abstracts", limit=N_ABSTRACTS)
    return dataclasses.replace(task, items=tuple(dataclasses.replace(i, text=i.text[:MOST_CHARACTERS]) for i in task.items))


async def ask(calls: Calls, path: Path) -> Asked:
    """Each abstract, answered by one plain call."""
    return await ask_items(abstracts(path), load_workflow("direct"), calls, seed=0, shuffle=True, concurrency=2)
