"""Runs candidates on items: each item once, counted, and never more calls than the budget has."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence

from noracle.errors import EvidenceError, fault
from noracle.search.candidates import Outcome
from noracle.search.interpreter import run_workflow
from noracle.search.model import BudgetReached, Calls, Completion, Request, Usage
from noracle.search.task import Question, Task, pose
from noracle.search.vault import PARTS, ItemId, Vault
from noracle.search.workflow import Workflow

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many items of it are done, and how many there are."""


class Runner:
    """Answers of candidates to items. An answer that is known is not asked for again, nor counted
    again.

    The budget counts every call of the search, also one that a cache answered: so a search that was
    stopped and goes on counts as one that was not. What a candidate may need is bounded before it
    starts by :attr:`Workflow.most_calls`.
    """

    def __init__(
        self,
        task: Task,
        vault: Vault,
        calls: Calls,
        *,
        repeats: int,
        seed: int,
        shuffle: bool,
        budget: int | None,
        progress: Progress | None,
    ) -> None:
        self._calls, self._repeats, self._seed, self._progress = calls, repeats, seed, progress
        self._questions = _questions(task, vault, seed if shuffle else None)
        self._known: dict[tuple[str, ItemId, int], Outcome] = {}
        self.budget = budget
        self.spent = 0

    @property
    def left(self) -> float:
        """Calls that are left."""
        return math.inf if self.budget is None else self.budget - self.spent

    async def answers(
        self, workflow: Workflow, items: Sequence[ItemId], what: str
    ) -> list[Outcome]:
        """The answers of a workflow to these items, all repeats, in this order whatever finishes
        first.
        """
        keys = [
            (workflow.digest, item, repeat) for item in items for repeat in range(self._repeats)
        ]
        done = len(keys) - len(missing := [key for key in keys if key not in self._known])
        found = dict.fromkeys(keys)

        async def one(key: tuple[str, ItemId, int]) -> None:
            nonlocal done
            found[key] = await run_workflow(
                workflow, self._questions[key[1]], self._calls, seed=self._seed, repeat=key[2]
            )
            done += 1
            self._say(what, done, len(keys))

        self._say(what, done, len(keys))
        await _all(one(key) for key in missing)
        outcomes = [self._known.get(key) or found[key] for key in keys]
        return [outcome for outcome in outcomes if outcome is not None]

    def remember(self, workflow: Workflow, outcomes: Iterable[Outcome]) -> None:
        """Take outcomes that are in the journal as known, and count their calls."""
        for outcome in self.new(workflow, outcomes):
            self._known[workflow.digest, outcome.item, outcome.repeat] = outcome
            self.spent += outcome.calls

    def new(self, workflow: Workflow, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Those that were not known before."""
        return [o for o in outcomes if (workflow.digest, o.item, o.repeat) not in self._known]

    def needed(self, workflow: Workflow, items: Sequence[ItemId]) -> int:
        """The most calls that a workflow can take for what is not known yet of these items."""
        unknown = sum(
            (workflow.digest, item, repeat) not in self._known
            for item in items
            for repeat in range(self._repeats)
        )
        return unknown * workflow.most_calls

    def _say(self, what: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(what, done, total)


class Counted:
    """Calls of a designer, counted; refused where they would eat what the final estimate needs."""

    def __init__(self, calls: Calls, most: float) -> None:
        self._calls, self._most = calls, most
        self.n, self.usage, self.refused = 0, Usage(), False

    async def call(self, request: Request) -> Completion:
        """Pass a request on."""
        if self.n >= self._most:
            self.refused = True
            raise BudgetReached(
                "the designer has no call left: the rest of the budget is kept for the final estimate"
            )
        self.n += 1
        completion = await self._calls.call(request)
        self.usage += completion.usage
        return completion

    @property
    def cost(self) -> dict[str, int]:
        """Calls and tokens."""
        return {
            "calls": self.n,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
        }


def cost_of(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Calls and tokens of outcomes."""
    outcomes = list(outcomes)
    return {
        "calls": sum(o.calls for o in outcomes),
        "input_tokens": sum(o.usage.input_tokens for o in outcomes),
        "output_tokens": sum(o.usage.output_tokens for o in outcomes),
    }


def first_share(items: Sequence[ItemId], share: float) -> tuple[ItemId, ...]:
    """The first part of the items, at least one."""
    return tuple(items[: max(1, math.ceil(share * len(items) - 1e-9))])


def _questions(task: Task, vault: Vault, shuffle: int | None) -> dict[ItemId, Question]:
    wanted = {item for part in PARTS for item in vault.items(part)}
    found = {
        i.id: pose(i, instruction=task.instruction, shuffle=shuffle)
        for i in task.items
        if i.id in wanted
    }
    missing = sorted(str(item) for item in wanted - found.keys())
    if missing:
        raise EvidenceError(
            fault(
                "vault", "must label items of the task", "others", where=missing, total=len(missing)
            )
        )
    return found


async def _all(jobs: Iterable[object]) -> None:
    """Run all; at the first failure stop the others and wait for them, so that nothing runs on
    behind an error.
    """
    tasks = [asyncio.ensure_future(job) for job in jobs]  # type: ignore[call-overload]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
