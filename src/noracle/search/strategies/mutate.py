"""Typed random edits of what stands well: no designer model, so it runs with any executor. The
control for the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from noracle.errors import ArgumentError
from noracle.search.candidates import Proposal, Scored
from noracle.search.strategies.edits import EDITS, edit_workflow
from noracle.search.strategies.standing import Told, pick, rank
from noracle.search.workflow import load_workflow

if TYPE_CHECKING:
    import numpy as np

    from noracle.search.model import Calls


class Mutate:
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
        if top < 1 or most_calls < 1:
            raise ArgumentError(
                f"top and most_calls must be at least 1; got {top} and {most_calls}."
            )
        self.top, self.most_calls, self.kinds = top, most_calls, tuple(kinds)
        self._told = Told()

    def tell(self, scored: Scored) -> None:
        """Take note of an entry."""
        self._told.add(scored)

    async def ask(
        self,
        generation: int,  # noqa: ARG002 (a protocol)
        rng: np.random.Generator,
        designer: Calls | None,  # noqa: ARG002 (a protocol)
    ) -> Proposal | None:
        """An edit of a good entry, or None when no new workflow is found in a few hundred tries."""
        known, top = self._told.digests(), rank(self._told.standings())[: self.top]
        if not top:
            plain = load_workflow("direct")
            return (
                Proposal(workflow=plain, change="start: one plain call")
                if plain.digest not in known
                else None
            )
        for _ in range(self.tries):
            parent = pick(top, rng)
            workflow, changes = parent.scored.entry.workflow, list[str]()
            for _ in range(1 if rng.random() < 0.75 else 2):
                if found := edit_workflow(
                    workflow, rng, most_calls=self.most_calls, kinds=self.kinds
                ):
                    workflow, changes = found.workflow, [*changes, found.change]
            if changes and workflow.digest not in known:
                change = "; ".join(changes)
                told = dataclasses.replace(
                    workflow, description=f"{change} (from entry {parent.number})"[:4000]
                )
                return Proposal(workflow=told, parents=(parent.number,), change=change)
        return None
