"""A model answers items, or grades the answers of others: each question once, many at a time, every
outcome kept as it comes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from noracle.errors import EvidenceError
from noracle.evidence import read_table
from noracle.evidence.frames import fetch
from noracle.evidence.replies import State
from noracle.search.caller import CHARACTERS_PER_TOKEN
from noracle.search.candidates import COSTS, Outcome, cost_of, outcome_columns
from noracle.search.interpreter import grouped, run_workflow
from noracle.search.journal import CALLS, Event, EventJournal
from noracle.search.model import STATES, BudgetReached, Calls, ModelError, Usage, at_least
from noracle.search.task import LETTERS, PosedQuestion, Task, TaskItem, pose
from noracle.search.workflow import Workflow, prompts_of

SCHEMA = "run/2"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeLine:
    """One outcome, the order of the options, and the print of the question that it answers."""

    outcome: Outcome
    order: tuple[int, ...]
    of: str

    def to_dict(self) -> dict[str, Any]:
        """As an event of the journal."""
        return {**self.outcome.to_dict(), "order": list(self.order), "of": self.of}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A line that was written."""
        state = data["state"]
        if state not in STATES or (data["answer"] is None) == (state == "answered"):
            raise ValueError(state)
        return cls(outcome=Outcome.from_dict(data), order=tuple(data["order"]), of=data["of"])


def fingerprint(*texts: object) -> str:
    """Sixteen hexadecimal digits that change with the texts, and do not tell them.

    Examples
    --------
    >>> fingerprint("a", "b") == fingerprint("ab"), len(fingerprint("a"))
    (False, 16)
    """
    words = json.dumps([str(t) for t in texts], ensure_ascii=True)
    return hashlib.sha256(words.encode()).hexdigest()[:16]


class RunFolder(EventJournal):
    """An open run folder. ``lines`` holds what is done, by (item, repeat); an item that was written
    twice counts as last written.
    """

    schema, what, sync = SCHEMA, "run", False

    def __init__(self, folder: str | Path, settings: Mapping[str, Any]) -> None:
        self.lines: dict[tuple[int | str, int], OutcomeLine] = {}
        super().__init__(folder, settings)

    @property
    def calls(self) -> Path:
        """Where the completions of this run are kept."""
        return self.folder / CALLS

    def _take(self, event: Event) -> None:
        super()._take(event)
        if event["event"] == "outcome":
            line = OutcomeLine.from_dict(event)
            self.lines[line.outcome.item, line.outcome.repeat] = line

    def add(self, line: OutcomeLine) -> None:
        """Keep an outcome: it is on its way to the disk when this returns."""
        self.append({"event": "outcome", **line.to_dict()})

    def done(self, item: int | str, repeat: int, of: str) -> OutcomeLine | None:
        """The outcome of this very question, unless its request was turned down: then it is asked
        again.
        """
        line = self.lines.get((item, repeat))
        return line if line and line.of == of and line.outcome.state != "errored" else None


Progress = Callable[[int, int], None]
"""Called with how many questions are done and how many there are."""

_GIVE_UP = 3  # after so many calls in a row without a reply a run stops
_FORM = 320  # characters that a workflow writes around a question, about


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What came out. ``lines`` follows the questions; where a cap or a model that did not reply
    stopped the run, ``stopped`` says so, and some are missing.
    """

    lines: tuple[OutcomeLine, ...]
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
        One line per item. An item without an answer has a state that says why; nothing is raised
        for it. An item whose call had no reply has no line: the same call asks it again.

    Examples
    --------
    >>> import asyncio
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
    how: dict[str, Any] = {"concurrency": concurrency, "run": run, "progress": progress}
    return await ask_questions(questions, workflow, calls, seed=seed, **how)


def task_questions(task: Task, *, seed: int, shuffle: bool) -> list[PosedQuestion]:
    """The items as they are shown."""
    order = seed if shuffle else None
    return [pose(item, instruction=task.instruction, shuffle=order) for item in task.items]


async def ask_questions(
    questions: Sequence[PosedQuestion],
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
    at_least(1, concurrency=concurrency, repeats=repeats)
    work = [(question, repeat) for question in questions for repeat in range(repeats)]
    known = done_before(questions, repeats, run)
    waiting = iter([place for place in range(len(work)) if place not in known])
    stopped: list[str] = []
    unreplied, in_a_row, last = 0, 0, ""

    async def worker() -> None:
        nonlocal unreplied, in_a_row, last
        for place in waiting:
            if stopped or in_a_row >= _GIVE_UP:
                return
            question, repeat = work[place]
            try:
                outcome = await run_workflow(workflow, question, calls, seed=seed, repeat=repeat)
            except BudgetReached as error:
                stopped.append(str(error))
                return
            except ModelError as error:
                unreplied, last = unreplied + 1, str(error)
                in_a_row += _GIVE_UP if error.stays else 1
                continue
            in_a_row = 0
            line = OutcomeLine(outcome=outcome, order=question.order, of=_print(question))
            known[place] = line
            if run is not None:
                run.add(line)
            if progress is not None:
                progress(len(known), len(work))

    await grouped(worker() for _ in range(min(concurrency, len(work) - len(known))))
    if unreplied and not stopped:
        what = f"{unreplied:,} of {len(work):,} questions got no reply, the last because: {last}"
        stopped.append(f"{what} The same command asks them again.")
    lines = tuple(known[place] for place in sorted(known))
    return Asked(lines=lines, total=len(work), stopped=stopped[0] if stopped else "")


def done_before(
    questions: Sequence[PosedQuestion], repeats: int, run: RunFolder | None
) -> dict[int, OutcomeLine]:
    """What a run folder holds of these questions, by place."""
    if run is None:
        return {}
    places = ((q, r) for q in questions for r in range(repeats))
    found = {place: run.done(q.item, r, _print(q)) for place, (q, r) in enumerate(places)}
    return {place: line for place, line in found.items() if line is not None}


def _print(question: PosedQuestion) -> str:
    return fingerprint(question.instruction, question.text, *question.options)


def answers_table(asked: Asked, system: str) -> dict[str, list[Any]]:
    """The answers table: item, system, answer, state, order (the class at each place), calls and
    tokens.

    Examples
    --------
    >>> list(answers_table(Asked(lines=(), total=0), "m"))
    ['item', 'system', 'answer', 'state', 'order', 'calls', 'input_tokens', 'output_tokens']
    """
    columns = outcome_columns(line.outcome for line in asked.lines)
    columns["system"] = [system] * len(asked.lines)
    columns["order"] = [" ".join(map(str, line.order)) for line in asked.lines]
    names = ("item", "system", "answer", "state", "order", *COSTS)
    return {name: columns[name] for name in names}


def expected_usage(
    questions: Sequence[PosedQuestion], workflow: Workflow, *, reply_tokens: int | None = None
) -> Usage:
    """Tokens of one call: a question at four characters a token, the longest reply allowed."""
    if not questions:
        return Usage()
    mean = sum(len(question.prompt()) for question in questions) / len(questions)
    longest = max((p.max_tokens for node in workflow.nodes for p in prompts_of(node)), default=0)
    longest = max(longest, reply_tokens or 0)
    return Usage(math.ceil((mean + _FORM) / CHARACTERS_PER_TOKEN), longest)


VERDICTS = ("yes", "no", "uncertain")
VALUES = (1.0, 0.0, 0.5)
INSTRUCTION = "An answer to a problem is under review. Is the answer right?"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One answer to be graded; ``question`` is None where the system gave no answer."""

    id: int | str
    item: int | str
    system: str
    answer: int | None
    question: PosedQuestion | None


def read_claims(
    answers: object, task: Task, *, seed: int | None = None, limit: int | None = None
) -> list[Claim]:
    """The answers of other systems, each as a question to a judge.

    Parameters
    ----------
    answers
        A table with ``item``, ``system``, ``answer``: a class, the text of an option, or its letter
        in the order of the file.
    task
        The items that were answered.
    seed
        With a seed the options of each item are shown in a random order.
    limit
        Take only the first answers.

    Returns
    -------
    list
        Where all answers are of one system a claim is called as its item, else ``item/system``.

    Examples
    --------
    >>> task = Task(name="t", items=(TaskItem(id=1, text="Which is even?", options=("one", "two")),))
    >>> claims = read_claims({"item": [1], "system": ["m"], "answer": [1]}, task)
    >>> print(claims[0].question.prompt())
    An answer to a problem is under review. Is the answer right?
    <BLANKLINE>
    The problem:
    Which is even?
    <BLANKLINE>
    The possible answers:
    - one
    - two
    <BLANKLINE>
    The answer under review: two
    <BLANKLINE>
    A) yes
    B) no
    C) uncertain
    """
    rows = fetch(read_table(answers, "answers").select("item", "system", "answer"))[:limit]
    items = {str(item.id): item for item in task.items}
    strange = [row[0] for row in rows if str(row[0]) not in items]
    if strange:
        rule, n = "must be about items of the task", len(strange)
        raise EvidenceError.of("answers", rule, "others", where=strange, total=n)
    several = len({row[1] for row in rows}) > 1
    read = [(items[str(name)], str(system), answer) for name, system, answer in rows]
    classes = [_class(answer, item) for item, _, answer in read]
    wrong = [row[0] for row, k in zip(rows, classes, strict=True) if k == -1]
    if wrong:
        rule = "must be a class, the text of an option or its letter"
        remedy, n = "Null means no answer.", len(wrong)
        raise EvidenceError.of("answer", rule, "another", where=wrong, total=n, remedy=remedy)
    claims = []
    for (item, system, _), k in zip(read, classes, strict=True):
        name = f"{item.id}/{system}" if several else item.id
        question = None if k is None else _question(name, item, k, seed)
        claims.append(Claim(id=name, item=item.id, system=system, answer=k, question=question))
    return claims


def _class(answer: Any, item: TaskItem) -> int | None:
    """The class of an answer; -1 where it is none of the options."""
    k = len(item.options)
    if answer is None:
        return None
    if isinstance(answer, str):
        text = answer.strip()
        if text in item.options:
            return item.options.index(text) if item.options.count(text) == 1 else -1
        if text.isdecimal() and text.isascii() and len(text) < 4:
            answer = int(text)
        else:
            return LETTERS[:k].find(text.upper()) if len(text) == 1 else -1
    return int(answer) if 0 <= answer < k else -1


def _question(identity: int | str, item: TaskItem, answer: int, seed: int | None) -> PosedQuestion:
    shown = pose(item, shuffle=seed).options
    listed = "\n".join(f"- {option}" for option in shown)
    text = f"The problem:\n{item.text}\n\nThe possible answers:\n{listed}\n\nThe answer under review: {item.options[answer]}"
    # Verdicts keep their order: workflows know "uncertain" by its place.
    return pose(TaskItem(id=identity, text=text, options=VERDICTS), instruction=INSTRUCTION)


async def judge_claims(
    claims: Sequence[Claim],
    workflow: Workflow,
    calls: Calls,
    *,
    seed: int = 0,
    repeats: int = 1,
    concurrency: int = 8,
    run: RunFolder | None = None,
    progress: Progress | None = None,
) -> Asked:
    """Have a workflow grade claims, each ``repeats`` times; the lines follow those claims that have
    an answer.

    Examples
    --------
    >>> import asyncio
    >>> from noracle.search.model import Completion
    >>> from noracle.search.workflow import load_workflow
    >>> class Kind:
    ...     async def call(self, request):
    ...         return Completion(text="ANSWER: yes")
    >>> task = Task(name="t", items=(TaskItem(id=1, text="Which is even?", options=("one", "two")),))
    >>> claims = read_claims({"item": [1], "system": ["m"], "answer": [0]}, task)
    >>> asked = asyncio.run(judge_claims(claims, load_workflow("judge"), Kind()))
    >>> ratings_table(claims, asked, "kind")["label"], scores_table(claims, asked, "kind")["value"]
    (['yes'], [1.0])
    """
    questions = [claim.question for claim in claims if claim.question is not None]
    how: dict[str, Any] = {"concurrency": concurrency, "run": run, "progress": progress}
    return await ask_questions(questions, workflow, calls, seed=seed, repeats=repeats, **how)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a judge made of one claim: the label of most repeats (a tie is uncertain), the mean."""

    label: str | None
    value: float | None
    state: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def verdicts(claims: Sequence[Claim], asked: Asked) -> list[tuple[Claim, Verdict]]:
    """A verdict for each graded claim; a claim without an answer is "no" without a call."""
    outcomes: dict[int | str, list[Outcome]] = defaultdict(list)
    for line in asked.lines:
        outcomes[line.outcome.item].append(line.outcome)
    silent = Verdict(label="no", value=0.0, state="unanswered")
    graded = [claim for claim in claims if claim.question is None or claim.id in outcomes]
    return [(c, _verdict(outcomes[c.id]) if c.question else silent) for c in graded]


def _verdict(outcomes: Sequence[Outcome]) -> Verdict:
    given = [o.answer for o in outcomes if o.answer is not None]
    spent = cost_of(outcomes)
    if not given:
        state = Counter(o.state for o in outcomes).most_common(1)[0][0]
        return Verdict(label=None, value=None, state=state, **spent)
    count = Counter(given).most_common()
    tie = len(count) > 1 and count[0][1] == count[1][1]
    value = sum(VALUES[v] for v in given) / len(given)
    label = "uncertain" if tie else VERDICTS[count[0][0]]
    return Verdict(label=label, value=value, state="answered", **spent)


def ratings_table(claims: Sequence[Claim], asked: Asked, rater: str) -> dict[str, list[Any]]:
    """Ratings with everything beside them; the same file serves as answers and as scores.

    ``item``, ``rater``, ``label`` are the ratings and ``value`` the scores. ``system`` and
    ``answer`` say the same once more with the judge as the system and classes 1 (right) and 0
    (wrong), so that ``noracle alarm --answers`` reads it; an uncertain judge has no answer there.
    ``judged`` and ``judged_item`` name what was graded; ``outcome`` says how the verdict came.

    Examples
    --------
    >>> import asyncio
    >>> from noracle.search.model import Completion
    >>> from noracle.search.workflow import load_workflow
    >>> class Kind:
    ...     async def call(self, request):
    ...         return Completion(text="A")
    >>> task = Task(name="t", items=(TaskItem(id=1, text="Which is even?", options=("one", "two")),))
    >>> claims = read_claims({"item": [1], "system": ["m"], "answer": [0]}, task)
    >>> table = ratings_table(claims, asyncio.run(judge_claims(claims, load_workflow("judge"), Kind())), "kind")
    >>> table["item"], table["rater"], table["label"], table["value"]
    ([1], ['kind'], ['yes'], [1.0])
    """
    rows = verdicts(claims, asked)
    return {
        "item": [claim.id for claim, _ in rows],
        "rater": [rater] * len(rows),
        "label": [v.label for _, v in rows],
        "value": [v.value for _, v in rows],
        "system": [rater] * len(rows),
        "answer": [{"yes": 1, "no": 0}.get(v.label or "") for _, v in rows],
        "judged": [claim.system for claim, _ in rows],
        "judged_item": [claim.item for claim, _ in rows],
        "outcome": [v.state for _, v in rows],
        **{name: [getattr(v, name) for _, v in rows] for name in COSTS},
    }


def scores_table(claims: Sequence[Claim], asked: Asked, rater: str) -> dict[str, list[Any]]:
    """Scores alone: item, rater, value (null where the judge gave no verdict).

    Examples
    --------
    >>> task = Task(name="t", items=(TaskItem(id=1, text="Which is even?", options=("one", "two")),))
    >>> claims = read_claims({"item": [1], "system": ["m"], "answer": [0]}, task)
    >>> scores_table(claims, Asked(lines=(), total=1, stopped="cap on calls"), "kind")  # a run that was stopped at once
    {'item': [], 'rater': [], 'value': []}
    """
    table = ratings_table(claims, asked, rater)
    return {name: table[name] for name in ("item", "rater", "value")}
