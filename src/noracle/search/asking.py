"""A model answers items: each question once, many at a time, every outcome kept as it comes."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from noracle.errors import ArgumentError
from noracle.evidence.replies import State
from noracle.search.caller import CHARACTERS_PER_TOKEN
from noracle.search.interpreter import run_workflow
from noracle.search.model import STATES, BudgetReached, Calls, Usage
from noracle.search.runs import Line, RunFolder, fingerprint
from noracle.search.task import Question, Task, pose
from noracle.search.workflow import Ask, CritiqueLoop, Decide, Prompt, Route, Workflow

Progress = Callable[[int, int], None]
"""Called with how many questions are done and how many there are."""

_FORM = 320  # characters that a workflow writes around a question, about


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What came out. ``lines`` follows the questions; where a cap stopped the run, ``stopped`` says
    which, and some are missing.
    """

    lines: tuple[Line, ...]
    total: int
    stopped: str = ""

    @property
    def states(self) -> dict[State, int]:
        """How many questions ended in each state.

        Examples
        --------
        >>> Asked(lines=(), total=3).states
        {'answered': 0, 'invalid': 0, 'refused': 0, 'errored': 0}
        """
        count = Counter(line.outcome.state for line in self.lines)
        return {state: count[state] for state in STATES}


async def ask_items(
    task: Task,
    workflow: Workflow,
    calls: Calls,
    *,
    seed: int = 0,
    shuffle: bool = True,
    concurrency: int = 8,
    run: RunFolder | None = None,
    progress: Progress | None = None,
) -> Asked:
    """Put every item of a task to a workflow.

    Parameters
    ----------
    task, workflow, calls
        What is asked, how, and the way to the model.
    seed
        Draws the order of options and everything random in the workflow; the same seed asks the
        same questions.
    shuffle
        Show the options of each item in a random order. The answer is a class all the same: the
        place of the option in the file.
    concurrency
        How many items are under way at one time.
    run
        An open folder: what it holds is not asked again, and each outcome is kept there at once.
    progress
        Called after each item.

    Returns
    -------
    Asked
        One line an item. An item without an answer has a state that says why; nothing is raised for
        it.

    Examples
    --------
    >>> from noracle.search.model import Completion
    >>> from noracle.search.task import TaskItem
    >>> from noracle.search.workflow import load_workflow
    >>> class Fixed:
    ...     async def call(self, request):
    ...         return Completion(text="ANSWER: A")
    >>> task = Task(name="t", items=(TaskItem(id=1, text="Which is even?", options=("one", "two")),))
    >>> asked = asyncio.run(ask_items(task, load_workflow("direct"), Fixed(), shuffle=False))
    >>> asked.lines[0].outcome.answer, asked.states["answered"]
    (0, 1)
    """
    questions = task_questions(task, seed=seed, shuffle=shuffle)
    return await ask_questions(
        questions, workflow, calls, seed=seed, concurrency=concurrency, run=run, progress=progress
    )


def task_questions(task: Task, *, seed: int, shuffle: bool) -> list[Question]:
    """The items as they are shown."""
    return [
        pose(item, instruction=task.instruction, shuffle=seed if shuffle else None)
        for item in task.items
    ]


async def ask_questions(
    questions: Sequence[Question],
    workflow: Workflow,
    calls: Calls,
    *,
    seed: int = 0,
    repeats: int = 1,
    concurrency: int = 8,
    run: RunFolder | None = None,
    progress: Progress | None = None,
) -> Asked:
    """Put questions to a workflow, each ``repeats`` times; see :func:`ask_items`."""
    if concurrency < 1:
        raise ArgumentError(f"concurrency must be at least 1; got {concurrency}.")
    if repeats < 1:
        raise ArgumentError(f"repeats must be at least 1; got {repeats}.")
    work = [(question, repeat) for question in questions for repeat in range(repeats)]
    known = done_before(questions, repeats, run)
    waiting = iter([place for place in range(len(work)) if place not in known])
    stopped: list[str] = []

    async def worker(places: Iterator[int]) -> None:
        for place in places:
            if stopped:
                return
            question, repeat = work[place]
            try:
                outcome = await run_workflow(workflow, question, calls, seed=seed, repeat=repeat)
            except BudgetReached as error:
                stopped.append(str(error))
                return
            line = Line(outcome=outcome, order=question.order, of=_print(question))
            known[place] = line
            if run is not None:
                run.add(line)
            if progress is not None:
                progress(len(known), len(work))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(work) - len(known))):
                group.create_task(worker(waiting))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None  # one error, as if there were no group
    return Asked(
        lines=tuple(known[place] for place in sorted(known)),
        total=len(work),
        stopped=stopped[0] if stopped else "",
    )


def done_before(
    questions: Sequence[Question], repeats: int, run: RunFolder | None
) -> dict[int, Line]:
    """What a run folder holds of these questions, by place (question by question, repeat by
    repeat).
    """
    if run is None:
        return {}
    places = ((q, r) for q in questions for r in range(repeats))
    found = {place: run.done(q.item, r, _print(q)) for place, (q, r) in enumerate(places)}
    return {place: line for place, line in found.items() if line is not None}


def _print(question: Question) -> str:
    return fingerprint(question.instruction, question.text, *question.options)


def answers_table(asked: Asked, system: str) -> dict[str, list[Any]]:
    """The answers table: item, system, answer, state, order (the class at each place), calls and
    tokens.

    Examples
    --------
    >>> list(answers_table(Asked(lines=(), total=0), "m"))
    ['item', 'system', 'answer', 'state', 'order', 'calls', 'input_tokens', 'output_tokens']
    """
    outcomes = [line.outcome for line in asked.lines]
    return {
        "item": [o.item for o in outcomes],
        "system": [system] * len(outcomes),
        "answer": [o.answer for o in outcomes],
        "state": [o.state for o in outcomes],
        "order": [" ".join(map(str, line.order)) for line in asked.lines],
        "calls": [o.calls for o in outcomes],
        "input_tokens": [o.usage.input_tokens for o in outcomes],
        "output_tokens": [o.usage.output_tokens for o in outcomes],
    }


def expected_usage(questions: Sequence[Question], workflow: Workflow) -> Usage:
    """Tokens of one call, for the line before the first: a question at four characters a token, a
    reply as long as allowed.
    """
    if not questions:
        return Usage()
    mean = sum(len(question.prompt()) for question in questions) / len(questions)
    prompts = list(_prompts(workflow))
    longest = max((prompt.max_tokens for prompt in prompts), default=0)
    return Usage(math.ceil((mean + _FORM) / CHARACTERS_PER_TOKEN), longest)


def _prompts(workflow: Workflow) -> Iterator[Prompt]:
    for node in workflow.nodes:
        if isinstance(node, (Ask, Decide)):
            yield node.prompt
        elif isinstance(node, CritiqueLoop):
            yield from (node.critic, node.reviser)
        elif isinstance(node, Route):
            yield from (node.prompt, *node.branches.values())
