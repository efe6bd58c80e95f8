"""A model grades the answers of other systems: yes, no or uncertain.

The judge sees the item, its options and one answer, never a key. Its verdicts are ratings (item,
rater, label) and scores (1, 0 and ½), so that whatever holds for raters holds for it: alarms among
judges, budgets across judges, means with a few gold labels. An item without an answer is no work
for a judge: it is wrong, as everywhere else.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from noracle.errors import EvidenceError, fault
from noracle.evidence import read_table
from noracle.evidence.frames import fetch
from noracle.search.asking import Asked, Progress, ask_questions
from noracle.search.model import Calls
from noracle.search.runs import Line, RunFolder
from noracle.search.task import LETTERS, Question, Task, TaskItem, pose
from noracle.search.workflow import Workflow

VERDICTS = ("yes", "no", "uncertain")
VALUES = (1.0, 0.0, 0.5)
INSTRUCTION = "An answer to a problem is under review. Is the answer right?"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One answer to be graded. ``id`` names it in ratings; ``question`` is None where the system
    gave no answer.
    """

    id: int | str
    item: int | str
    system: str
    answer: int | None
    question: Question | None


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
        raise EvidenceError(
            fault(
                "answers",
                "must be about items of the task",
                "others",
                where=strange,
                total=len(strange),
            )
        )
    several = len({row[1] for row in rows}) > 1
    claims, wrong = [], []
    for name, system, answer in rows:
        item = items[str(name)]
        chosen = _class(answer, item)
        if chosen == -1:
            wrong.append(name)
            continue
        identity = f"{item.id}/{system}" if several else item.id
        question = None if chosen is None else _question(identity, item, chosen, seed)
        claims.append(
            Claim(id=identity, item=item.id, system=str(system), answer=chosen, question=question)
        )
    if wrong:
        rule = "must be a class, the text of an option or its letter"
        raise EvidenceError(
            fault(
                "answer",
                rule,
                "another",
                where=wrong,
                total=len(wrong),
                remedy="Null means no answer.",
            )
        )
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


def _question(identity: int | str, item: TaskItem, answer: int, seed: int | None) -> Question:
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
    return await ask_questions(
        questions,
        workflow,
        calls,
        seed=seed,
        repeats=repeats,
        concurrency=concurrency,
        run=run,
        progress=progress,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a judge made of one claim: the label that most repeats gave (a tie is uncertain) and the
    mean value; None for neither.
    """

    label: str | None
    value: float | None
    state: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def verdicts(claims: Sequence[Claim], asked: Asked) -> list[tuple[Claim, Verdict]]:
    """A verdict for each claim that was graded. A claim without an answer is "no" without a call;
    state ``unanswered`` says so.
    """
    lines: dict[int | str, list[Line]] = {}
    for line in asked.lines:
        lines.setdefault(line.outcome.item, []).append(line)
    found = []
    for claim in claims:
        if claim.question is None:
            found.append((claim, Verdict(label="no", value=0.0, state="unanswered")))
        elif claim.id in lines:
            found.append((claim, _verdict(lines[claim.id])))
    return found


def _verdict(lines: Sequence[Line]) -> Verdict:
    given = [line.outcome.answer for line in lines if line.outcome.answer is not None]
    spent: Mapping[str, int] = {
        "calls": sum(line.outcome.calls for line in lines),
        "input_tokens": sum(line.outcome.usage.input_tokens for line in lines),
        "output_tokens": sum(line.outcome.usage.output_tokens for line in lines),
    }
    if not given:
        state = Counter(line.outcome.state for line in lines).most_common(1)[0][0]
        return Verdict(label=None, value=None, state=state, **spent)
    count = Counter(given).most_common()
    tie = len(count) > 1 and count[0][1] == count[1][1]
    label = "uncertain" if tie else VERDICTS[count[0][0]]
    return Verdict(
        label=label, value=sum(VALUES[v] for v in given) / len(given), state="answered", **spent
    )


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
        "calls": [v.calls for _, v in rows],
        "input_tokens": [v.input_tokens for _, v in rows],
        "output_tokens": [v.output_tokens for _, v in rows],
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
