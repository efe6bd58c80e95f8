"""Meta agent search: a designer sees the whole archive and writes the next workflow (Hu et al.
2025).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noracle.errors import ArgumentError
from noracle.search.candidates import Proposal, Scored
from noracle.search.model import Message
from noracle.search.strategies.designer import Rules, design
from noracle.search.strategies.standing import Told, rank
from noracle.search.strategies.telling import (
    STANDING,
    SYSTEM,
    describe_archive,
    describe_failures,
    describe_format,
    describe_task,
)
from noracle.search.task import Task
from noracle.search.workflow import load_workflow

if TYPE_CHECKING:
    import numpy as np

    from noracle.search.model import Calls

NOVELTY = (
    "Look at your proposal again. How does it differ from every workflow in the archive, and why should that raise the standing and not "
    "only the number of calls? If it is a small variation, find something bolder; if it has a fault, mend it. Reply with the whole JSON "
    "object again."
)
MISTAKES = (
    "Check your proposal against mistakes that are often made: a node that refers to itself or to a later one; a node that nothing leads "
    "from; several samples without a vote or a decide; a vote over a node that gives no answer; a critic that never says CORRECT; prompts "
    "that ask for two things at once; text for a person instead of a model. Reply with the whole JSON object again."
)


class Adas:
    """The designer sees every entry with its standing, proposes, reflects twice (is it new? is it
    right?), and repairs at most three times.

    There is no choice of a parent and nothing is forgotten: the archive is the memory. A generation
    whose talk ends without a valid workflow is used up, and its entry says why.

    Parameters
    ----------
    task
        For its name and the texts of a few validation items on which the best workflow failed;
        None: the designer sees ids only.
    generations
        After so many the strategy is done.
    most_calls
        The most calls per item that a new workflow may take.
    """

    name = "adas"
    repeats = 1

    def __init__(
        self, *, task: Task | None = None, generations: int = 30, most_calls: int = 20
    ) -> None:
        if generations < 1 or most_calls < 1:
            raise ArgumentError(
                f"generations and most_calls must be at least 1; got {generations} and {most_calls}."
            )
        self.task, self.generations, self.most_calls = task, generations, most_calls
        self._told = Told()

    def tell(self, scored: Scored) -> None:
        """Take note of an entry."""
        self._told.add(scored)

    async def ask(
        self, generation: int, rng: np.random.Generator, designer: Calls | None
    ) -> Proposal | None:
        """What the designer came to."""
        if generation > self.generations:
            return None
        rules = Rules(known=self._told.digests(), most_calls=self.most_calls)
        draft = await design(designer, self._opening(rng), rules, reflections=(NOVELTY, MISTAKES))
        if draft.workflow is None:
            return Proposal(
                workflow=self._told.best() or load_workflow("direct"), problem=draft.problem
            )
        return Proposal(workflow=draft.workflow, change=draft.change, thought=draft.thought)

    def _opening(self, rng: np.random.Generator) -> list[Message]:
        told, ranked = self._told.all(), rank(self._told.standings())
        parts = [describe_task(self.task), describe_format(self.most_calls), STANDING]
        if told:
            parts.append(
                f"The archive of all that was tried, one entry a line:\n{describe_archive(told)}"
            )
        if ranked:
            best = ranked[0]
            parts.append(
                f"The best so far is entry {best.number}. {describe_failures(best.scored, self.task, rng)}"
            )
        parts.append(
            "Propose the next workflow: something new that could stand above all of these."
        )
        return [Message("system", SYSTEM), Message("user", "\n\n".join(parts))]
