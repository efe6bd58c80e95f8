"""A designer without a model: typed random edits, for searches whose truth is known."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from noracle.search.model import Completion, Message, ModelError, Request, Usage
from noracle.search.strategies.edits import edit_workflow
from noracle.search.workflow import parse_workflow


class SimulatedDesigner:
    """A designer that makes typed edits: it reads the workflows in the prompt and replies with one
    of them, changed once or twice.

    Where several are shown, those that stand better are taken more often. Every ``fault_rate``-th
    reply or so is not JSON, so that repairs are exercised. It is a stand-in for a model in tests
    and examples, and no better than random typed edits.
    """

    def __init__(
        self, *, name: str = "simulated-designer", fault_rate: float = 0.1, most_calls: int = 12
    ) -> None:
        self.name, self.fault_rate, self.most_calls = name, fault_rate, most_calls

    async def call(self, request: Request) -> Completion:
        """The same as :meth:`complete`."""
        return await self.complete(request)

    async def complete(self, request: Request) -> Completion:
        """Reply with an edit."""
        rng = np.random.default_rng(int(request.digest(self.name)[:16], 16))
        text = "I would rather think about it."
        if rng.random() >= self.fault_rate:
            text = self._reply(request.messages, rng)
        read = sum(len(m.text) for m in request.messages)
        return Completion(text=text, usage=Usage(read // 4, len(text) // 4))

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _reply(self, messages: Sequence[Message], rng: np.random.Generator) -> str:
        lines = [line for line in messages[1].text.splitlines() if line.startswith('{"number"')]
        shown = [entry for line in lines if "workflow" in (entry := json.loads(line))]
        if not shown:
            raise ModelError(
                "the simulated designer needs a workflow in its prompt; there is none."
            )
        weights = np.exp([entry["standing"] for entry in shown])
        drawn = shown[int(rng.choice(len(shown), p=weights / weights.sum()))]
        base = parse_workflow(drawn["workflow"])
        changes: list[str] = []
        for _ in range(50):
            if found := edit_workflow(base, rng, most_calls=self.most_calls):
                base, changes = found.workflow, [*changes, found.change]
                if len(shown) == 1 or len(changes) == 2:
                    break
        said = {"thought": "a typed edit", "change": "; ".join(changes)}
        return json.dumps({**said, "workflow": base.to_dict()})
