"""What ``noracle ask`` does: what is asked, read before any call, and the work itself."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from noracle.cli._models import announce, bar

if TYPE_CHECKING:
    from noracle.search.ask import Asked, Claim, RunFolder
    from noracle.search.budget import Budget, Ledger, Prices
    from noracle.search.model import Model
    from noracle.search.task import Question, Task
    from noracle.search.workflow import Workflow


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The options that say what is asked."""

    items: str
    preset: str | None
    workflow: str
    shuffle: bool
    seed: int
    limit: int | None
    answers: str | None
    repeats: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is asked, read and checked before any call."""

    wish: Wish
    task: Task
    workflow: Workflow
    questions: Sequence[Question]
    claims: Sequence[Claim] | None

    @classmethod
    def prepare(cls, wish: Wish) -> Job:
        """Read items, answers and workflow."""
        from noracle.search.ask import read_claims, task_questions
        from noracle.search.task import read_task
        from noracle.search.workflow import load_workflow

        judged = wish.answers is not None
        workflow = load_workflow(wish.workflow)
        task = read_task(wish.items, preset=wish.preset, limit=None if judged else wish.limit)
        if not judged:
            return cls(
                wish=wish,
                task=task,
                workflow=workflow,
                questions=task_questions(task, seed=wish.seed, shuffle=wish.shuffle),
                claims=None,
            )
        claims = read_claims(
            wish.answers, task, seed=wish.seed if wish.shuffle else None, limit=wish.limit
        )
        return cls(
            wish=wish,
            task=task,
            workflow=workflow,
            questions=[c.question for c in claims if c.question is not None],
            claims=claims,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What makes a run this run; the number of items may grow."""
        return {
            "kind": "ask" if self.claims is None else "judge",
            "workflow": self.workflow.name,
            "workflow_digest": self.workflow.digest,
            "seed": self.wish.seed,
            "shuffle": self.wish.shuffle,
        }


def project(
    job: Job,
    folder: RunFolder,
    budget: Budget,
    prices: Prices | None,
    model: str,
    *,
    ask_first: bool,
) -> None:
    """Say on stderr what is to come; ask on a terminal."""
    from noracle.search.ask import done_before, expected_usage

    repeats = job.wish.repeats
    done = done_before(job.questions, repeats, folder)
    left = len(job.questions) * repeats - len(done)
    projection = budget.project(
        left,
        calls_per_item=job.workflow.most_calls,
        tokens_per_call=expected_usage(job.questions, job.workflow),
        prices=prices,
        model=model,
    )
    before = f" ({len(done):,} done before)" if done else ""
    what = "items" if job.claims is None else "answers"
    announce(
        f"{left:,} {what} to {job.workflow.name}{before}: {projection}",
        ask_first=ask_first and left > 0,
    )


async def work(
    job: Job,
    folder: RunFolder,
    model: Model,
    budget: Budget,
    prices: Prices | None,
    concurrency: int,
    *,
    no_cache: bool,
) -> tuple[Asked, Ledger]:
    """Ask everything that is not done yet; returns what came out and what it took."""
    from noracle.search.ask import ask_questions
    from noracle.search.caller import Cache, Caller

    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(Cache.open(folder.calls))]
        caller_stores = stores if no_cache else [*stores, stack.enter_context(Cache.open())]
        caller = Caller(
            model, stores=caller_stores, budget=budget, prices=prices, concurrency=concurrency
        )
        caller.count_past(stores[0])
        step = stack.enter_context(bar())
        try:
            asked = await ask_questions(
                job.questions,
                job.workflow,
                caller,
                seed=job.wish.seed,
                repeats=job.wish.repeats,
                concurrency=concurrency,
                run=folder,
                progress=None if step is None else functools.partial(step, job.workflow.name),
            )
        finally:
            await caller.close()
        return asked, caller.ledger
