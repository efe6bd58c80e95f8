"""Tree search with small edits by a designer: select, expand, evaluate, remember (Zhang et al.
2025).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noracle.errors import ArgumentError
from noracle.search.candidates import Proposal, Scored
from noracle.search.model import Message
from noracle.search.strategies.designer import Rules, design, normal
from noracle.search.strategies.standing import Standing, Told, pick, rank
from noracle.search.strategies.telling import (
    STANDING,
    SYSTEM,
    describe_archive,
    describe_experience,
    describe_failures,
    describe_format,
    describe_task,
)
from noracle.search.task import Task
from noracle.search.workflow import load_workflow

if TYPE_CHECKING:
    from noracle.search.model import Calls


class Aflow:
    """One of the best entries is drawn, and the designer makes one small edit to it, knowing what
    became of earlier edits.

    Parents are the ``top`` best entries, the first one always among them, drawn with probability
    ``uniform/n + (1 - uniform)·softmax( sharpness·z)`` over standings z in standard errors. An edit
    or a workflow that was tried before is sent back to the designer, at most three times together
    with other faults. The strategy is done after ``rounds`` rounds, or when the mean standing of
    the best three has risen by less than ``flat`` standard errors in each of ``patience`` rounds.

    Parameters
    ----------
    task
        For its name and the texts of a few validation items on which the parent failed; None: the
        designer sees ids only.
    rounds, patience, flat
        When to stop.
    top, uniform, sharpness
        Whom to work on.
    most_calls
        The most calls per item that a new workflow may take.

    Notes
    -----
    The reference evaluates each workflow three times on the validation items; :attr:`repeats` says
    so to whoever runs the search.
    """

    name = "aflow"
    repeats = 3

    def __init__(
        self,
        *,
        task: Task | None = None,
        rounds: int = 20,
        patience: int = 5,
        flat: float = 0.1,
        top: int = 4,
        uniform: float = 0.3,
        sharpness: float = 1.0,
        most_calls: int = 20,
    ) -> None:
        if min(rounds, patience, top, most_calls) < 1:
            came = f"{rounds}, {patience}, {top}, {most_calls}"
            raise ArgumentError(
                f"rounds, patience, top and most_calls must be at least 1; got {came}."
            )
        if not 0 <= uniform <= 1 or sharpness < 0 or flat < 0:
            raise ArgumentError(
                f"uniform must be in [0, 1], sharpness and flat at least 0; got {uniform}, {sharpness}, {flat}."
            )
        self.task, self.rounds, self.patience, self.flat = task, rounds, patience, flat
        self.top, self.uniform, self.sharpness, self.most_calls = (
            top,
            uniform,
            sharpness,
            most_calls,
        )
        self._told = Told()

    def tell(self, scored: Scored) -> None:
        """Take note of an entry."""
        self._told.add(scored)

    async def ask(
        self, generation: int, rng: np.random.Generator, designer: Calls | None
    ) -> Proposal | None:
        """One small edit of one of the best."""
        if generation > self.rounds or self.is_flat():
            return None
        parents = self.parents()
        if not parents:
            return Proposal(workflow=load_workflow("direct"), change="round 1: one plain call")
        parent = pick(parents, rng, uniform=self.uniform, sharpness=self.sharpness)
        told = self._told.all()
        tried = frozenset(
            normal(s.entry.change)
            for s in told
            if parent.number in s.entry.parents and s.entry.change
        )
        rules = Rules(known=self._told.digests(), most_calls=self.most_calls, changes=tried)
        draft = await design(designer, self._opening(parent, rng), rules)
        if draft.workflow is None:
            return Proposal(
                workflow=parent.scored.entry.workflow,
                parents=(parent.number,),
                problem=draft.problem,
            )
        return Proposal(
            workflow=draft.workflow,
            parents=(parent.number,),
            change=draft.change,
            thought=draft.thought,
        )

    def parents(self) -> list[Standing]:
        """The best entries, the first one that has a score always among them."""
        standings = self._told.standings()
        first = standings[:1]
        others = [s for s in rank(standings) if s not in first]
        return rank([*first, *others[: self.top - 1]])

    def is_flat(self) -> bool:
        """Whether the mean of the best three has not risen in ``patience`` rounds, each by less
        than ``flat`` standard errors.
        """
        standings = self._told.standings()
        rounds = [s for s in standings if s.scored.entry.generation > 0]
        if len(rounds) < self.patience:
            return False
        heights = [
            _height(standings[: len(standings) - back]) for back in range(self.patience, -1, -1)
        ]
        return (
            bool(np.all(np.diff(heights) < max(self.flat, 1e-9)))
            and len(standings) - self.patience >= 3
        )

    def _opening(self, parent: Standing, rng: np.random.Generator) -> list[Message]:
        told, standings = self._told.all(), self._told.standings()
        ours = [s for s in told if s.entry.number == parent.number]
        failed = [s for s in told if s.entry.problem]
        parts = [
            describe_task(self.task),
            describe_format(self.most_calls),
            STANDING,
            f"Work on this workflow (its standing among {len(standings)} is {parent.z + 0.0:.2f}):\n{describe_archive(ours)}",
            describe_failures(parent.scored, self.task, rng),
            describe_experience(parent, standings, failed),
            "Make one small change to it: one node or one prompt, nothing else. Say in the field change what it is.",
        ]
        return [Message("system", SYSTEM), Message("user", "\n\n".join(parts))]


def _height(standings: list[Standing]) -> float:
    return float(np.mean([s.z for s in rank(standings)[:3]])) if standings else 0.0
