"""Searches without a designer model: typed random edits of the best so far, and successive halving
of many workflows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from noracle.errors import require
from noracle.search.candidates import Proposal, Scored, Told, pick, rank, stand
from noracle.search.model import at_least
from noracle.search.strategies.edits import EDITS, edit_workflow
from noracle.search.task import draws
from noracle.search.workflow import BASELINES, Workflow, load_workflow

if TYPE_CHECKING:
    import numpy as np

    from noracle.search.model import Calls


class Halving(Told):
    """Successive halving over a pool: rung r asks for a share of the validation items, and the best
    1/``factor`` go on.

    Shares are nested, so that a workflow that goes on answers only what is new to it. A workflow
    that was evaluated in full already (a baseline of the search) takes no part. A pool of n takes
    about log(n) times the calls of one workflow on all items, instead of n times.

    Parameters
    ----------
    workflows
        The pool; the seven baselines where none are given.
    n_random
        How many random typed edits of the pool join it.
    factor
        The share that goes on is 1/factor, at least one.
    least_share
        No rung asks for less than this share of the items: scores on a handful of weak labels say
        next to nothing. Where the pool is too large for that, the first rung lets fewer go on.
    """

    name = "halving"
    repeats = 1

    def __init__(
        self,
        workflows: Sequence[Workflow] = (),
        *,
        n_random: int = 0,
        factor: int = 2,
        least_share: float = 0.25,
        seed: int = 0,
    ) -> None:
        at_least(2, factor=factor)
        at_least(0, n_random=n_random)
        require(0 < least_share <= 1, f"least_share must be in (0, 1]; got {least_share}.")
        given = tuple(workflows) or tuple(load_workflow(name) for name in BASELINES)
        self.factor, self.least_share = factor, least_share
        self.pool = _grown({w.digest: w for w in given}, n_random, seed)
        super().__init__()

    async def ask(
        self,
        generation: int,  # noqa: ARG002 (a protocol)
        rng: np.random.Generator,  # noqa: ARG002 (a protocol)
        designer: Calls | None,  # noqa: ARG002 (a protocol)
    ) -> Proposal | None:
        """The next workflow of the current rung, or None when one is left."""
        told = [s for s in self.told() if s.entry.workflow.digest in self.pool]
        whole = [s.entry for s in told if not (s.entry.generation or s.entry.problem)]
        full = {entry.workflow.digest for entry in whole}
        alive = [digest for digest in self.pool if digest not in full]
        rungs = self._rungs(len(alive))
        seen: dict[str, list[Scored]] = {digest: [] for digest in self.pool}
        for scored in told:
            if scored.entry.generation > 0:
                seen[scored.entry.workflow.digest].append(scored)
        for rung in range(rungs if alive else 0):
            for digest in alive:
                if len(seen[digest]) <= rung:
                    return self._proposal(self.pool[digest], seen[digest], rung, rungs)
            there = rank(stand([seen[digest][rung] for digest in alive]))
            most = int(self.factor ** (rungs - 1 - rung))
            kept = there[: max(1, min(math.ceil(len(alive) / self.factor), most))]
            alive = [s.scored.entry.workflow.digest for s in kept]
        return None

    def _rungs(self, n: int) -> int:
        """As many as it takes to come down to one; none asks for less than the least share."""
        needed = math.log(max(n, 1), self.factor)
        possible = 1 + math.floor(math.log(1 / self.least_share, self.factor) + 1e-9)
        return max(1, min(math.ceil(needed - 1e-9), possible))

    def _proposal(
        self, workflow: Workflow, seen: Sequence[Scored], rung: int, rungs: int
    ) -> Proposal:
        share = float(self.factor) ** (rung + 1 - rungs)
        return Proposal(
            workflow=workflow,
            parents=tuple(s.entry.number for s in seen[-1:]),
            change=f"rung {rung + 1} of {rungs}: {share:.3g} of the items",
            share=share,
        )


def _grown(pool: dict[str, Workflow], n_random: int, seed: int) -> dict[str, Workflow]:
    """The pool and random edits of it, the same for the same seed."""
    rng, wanted, first = draws("halving", seed), len(pool) + n_random, list(pool.values())
    for _ in range(200 * n_random):
        if len(pool) >= wanted:
            break
        if found := edit_workflow(first[int(rng.integers(len(first)))], rng):
            pool.setdefault(found.workflow.digest, found.workflow)
    return pool


class Mutate(Told):
    """A parent among the ``top`` entries (better ones more often), one typed edit or now and then
    two, never a workflow twice.

    Parameters
    ----------
    top
        How many of the best entries may become parents.
    most_calls
        The most calls per item that a new workflow may take.
    kinds
        The edits to draw from (see :data:`~noracle.search.strategies.edits.EDITS`).

    Examples
    --------
    >>> import asyncio, numpy as np
    >>> asyncio.run(Mutate().ask(1, np.random.default_rng(0), None)).change
    'start: one plain call'
    """

    name = "mutate"
    repeats = 1
    tries = 300

    def __init__(
        self, *, top: int = 4, most_calls: int = 20, kinds: Sequence[str] = tuple(EDITS)
    ) -> None:
        at_least(1, top=top, most_calls=most_calls)
        self.top, self.most_calls, self.kinds = top, most_calls, tuple(kinds)
        super().__init__()

    async def ask(
        self,
        generation: int,  # noqa: ARG002 (a protocol)
        rng: np.random.Generator,
        designer: Calls | None,  # noqa: ARG002 (a protocol)
    ) -> Proposal | None:
        """An edit of a good entry, or None when no new workflow is found in a few hundred tries."""
        known, top = self.digests(), rank(self.standings())[: self.top]
        if not top:
            plain = load_workflow("direct")
            start = Proposal(workflow=plain, change="start: one plain call")
            return None if plain.digest in known else start
        for _ in range(self.tries):
            parent = pick(top, rng)
            workflow, changes = parent.scored.entry.workflow, list[str]()
            for _ in range(1 if rng.random() < 0.75 else 2):
                most, kinds = int(min(self.most_calls, self.room)), self.kinds
                if found := edit_workflow(workflow, rng, most_calls=most, kinds=kinds):
                    workflow, changes = found.workflow, [*changes, found.change]
            if changes and workflow.digest not in known and workflow.most_calls <= self.room:
                change = "; ".join(changes)
                about = f"{change} (from entry {parent.number})"[:4000]
                told = dataclasses.replace(workflow, description=about)
                return Proposal(workflow=told, parents=(parent.number,), change=change)
        return None
