"""A small world with a known truth for the tests of a search: items, labels, a model that is better
the more it is told to think.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from noracle.search.archive import Found
from noracle.search.backends.scripted import ScriptedModel
from noracle.search.caller import Cache, Caller
from noracle.search.candidates import Proposal, Scored
from noracle.search.engine import search_workflows
from noracle.search.model import Calls, Request
from noracle.search.task import Task, TaskItem, draws
from noracle.search.vault import Vault
from noracle.search.workflow import Workflow, load_workflow, parse_workflow

K = 4


class World:
    """``n`` items with truths; a model that is right with probability ``base``, and ``gain`` more
    where a prompt holds "step".
    """

    def __init__(self, n: int = 60, *, base: float = 0.5, gain: float = 0.2, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.n, self.base, self.gain = n, base, gain
        self.truth = rng.integers(K, size=n)
        self.ruled_out = (self.truth + rng.integers(1, K, size=n)) % K
        self.items = tuple(
            TaskItem(id=i, text=f"question {i}?", options=tuple(f"o{k}" for k in range(K)))
            for i in range(n)
        )
        self.task = Task(name="toy", items=self.items)
        self.requests: list[Request] = []

    def judgements(self) -> dict[str, list[Any]]:
        return {
            "item": list(range(self.n)),
            "class": self.ruled_out.tolist(),
            "verdict": ["no"] * self.n,
        }

    def vault(
        self, *, seed: int = 3, shares: tuple[float, float, float] = (0.5, 0.25, 0.25)
    ) -> Vault:
        return Vault.open(self.judgements(), self.items, seed=seed, shares=shares)

    def reply(self, request: Request) -> str:
        self.requests.append(request)
        text = "\n".join(m.text for m in request.messages)
        found = re.search(r"question (\d+)\?", text)
        if found is None:
            return "no item here"
        i = int(found[1])
        rng = draws("world", request.digest("world"))
        right = rng.random() < self.base + self.gain * ("step" in text)
        k = int(self.truth[i]) if right else int(self.truth[i] + rng.integers(1, K)) % K
        line = re.search(rf"^([A-D])\) o{k}$", text, re.MULTILINE)
        return f"REASONING: so\nANSWER: {line[1] if line else 'none'}"


class Listed:
    """A strategy that proposes workflows from a list, and keeps what it was told."""

    name = "listed"

    def __init__(self, workflows: list[Workflow], *, shares: list[float] | None = None) -> None:
        self.workflows, self.shares = workflows, shares or [1.0] * len(workflows)
        self.told: list[Scored] = []

    async def ask(
        self, generation: int, rng: np.random.Generator, designer: Calls | None
    ) -> Proposal | None:
        if generation > len(self.workflows):
            return None
        return Proposal(
            workflow=self.workflows[generation - 1],
            parents=(0,),
            change=f"try {generation}",
            share=self.shares[generation - 1],
        )

    def tell(self, scored: Scored) -> None:
        self.told.append(scored)


def one_call(name: str, instruction: str = "Answer.") -> Workflow:
    """A workflow of one call."""
    nodes = [
        {"kind": "ask", "id": "a", "prompt": {"instruction": instruction}},
        {"kind": "answer", "input": "a"},
    ]
    return parse_workflow({"schema": "workflow/1", "name": name, "nodes": nodes})


def search(
    world: World,
    folder: Path,
    *,
    strategy: Any,
    baselines: list[Workflow] | None = None,
    reply: Callable[[Request], Any] | None = None,
    vault: Vault | None = None,
    **options: Any,
) -> Found:
    """Run a search in a folder with its own store."""

    async def work() -> Found:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(Cache.open(folder / "calls.sqlite")) as store:
            caller = Caller(ScriptedModel(reply or world.reply), stores=[store], retries=0)
            if options.get("designer") == "same":
                options["designer"] = caller
            return await search_workflows(
                world.task,
                vault or world.vault(),
                strategy=strategy,
                calls=caller,
                folder=folder,
                baselines=baselines or [one_call("plain"), load_workflow("cot")],
                **{"generations": 3, "seed": 1, **options},
            )

    return asyncio.run(work())
