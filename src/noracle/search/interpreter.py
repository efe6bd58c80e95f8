"""Runs a workflow on an item: what does not wait for each other runs at the same time.

What is asked does not depend on which call comes back first: every request takes its seed from (seed,
item, node, place in the node, repeat). Prompts are joined, never filled in.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from noracle.evidence.replies import State
from noracle.search.candidates import Outcome
from noracle.search.model import Calls, Completion, Message, ModelError, Request, Usage
from noracle.search.task import PosedQuestion, draws, parse_answer
from noracle.search.transcript import ABOUT
from noracle.search.workflow import (
    AnswerNode,
    Ask,
    CritiqueLoop,
    Decide,
    Node,
    Prompt,
    RouteNode,
    Vote,
    Workflow,
    inputs_of,
)
from noracle.search.workflow import answers as gives_answer

FORCED = "So, the answer is:"
"""What is put into the model's mouth when its thought is cut."""

FORCED_TOKENS = 20
_PLACES = 1000  # above the calls of a node, so that no two repeats share a replicate number
_LETTER = Prompt(
    instruction="Give the letter of the right option and nothing else: no words before or after it.",
    temperature=0.0,
    max_tokens=16,
)
_REPLY = ("reasoning", "answer")
_NEGATED = re.compile(
    r"(?:\b(?:not|never|hardly|nor|cannot)|n[’']t)\s+(?:\w+\s+){0,2}$", re.IGNORECASE
)
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class NodeReply:
    """One text that a node came to, the class that could be read from it, and how that went."""

    text: str
    answer: int | None = None
    state: State = "invalid"


async def run_workflow(
    workflow: Workflow, question: PosedQuestion, calls: Calls, *, seed: int = 0, repeat: int = 0
) -> Outcome:
    """Run a workflow on one item.

    Parameters
    ----------
    workflow
        What to do; its :attr:`~noracle.search.workflow.Workflow.most_calls` bounds the calls.
    question
        The item as it is shown. The answer is a class (the place in the file), whatever the order
        of the options.
    calls
        The way to the model.
    seed, repeat
        The same two give the same requests, so that a run that was stopped repeats none. Another
        ``repeat`` draws again.

    Returns
    -------
    Outcome
        With the class, or None and a state that says why: ``errored`` where the server turned a
        request down for good. ``calls`` counts every call that was made, also one that failed and
        one that the cache answered.

    Raises
    ------
    ModelError
        Where a call has no reply after its last try: that says nothing about the item.
    BudgetReached
        At a cap. Both are raised after the calls in flight have come back.

    Examples
    --------
    >>> import asyncio
    >>> from noracle.search.task import TaskItem, pose
    >>> from noracle.search.workflow import load_workflow
    >>> class Fixed:
    ...     async def call(self, request):
    ...         return Completion(text="REASONING: two is even. ANSWER: B")
    >>> question = pose(TaskItem(id=1, text="Which is even?", options=("one", "two", "three")))
    >>> outcome = asyncio.run(run_workflow(load_workflow("cot-sc"), question, Fixed()))
    >>> outcome.answer, outcome.state, outcome.calls
    (1, 'answered', 5)
    """
    run = _ItemRun(workflow, question, calls, seed, repeat)
    try:
        reply = await run.nodes(waves(workflow))
    except ModelError as error:
        if not error.refused:
            raise
        reply = NodeReply("", None, "errored")
    reached = Outcome(item=question.item, answer=reply.answer, state=reply.state, repeat=repeat)
    return dataclasses.replace(reached, calls=run.made, usage=run.usage)


def waves(workflow: Workflow) -> list[list[Node]]:
    """The nodes in rows: a node stands in the row after the last of those it waits for."""
    row: dict[str, int] = {}
    rows: list[list[Node]] = []
    for node in workflow.nodes:
        row[node.id] = place = max((row[name] + 1 for name in inputs_of(node)), default=0)
        if place == len(rows):
            rows.append([])
        rows[place].append(node)
    return rows


class _ItemRun:
    """One workflow on one item: the texts so far, and what it took."""

    def __init__(
        self, workflow: Workflow, question: PosedQuestion, calls: Calls, seed: int, repeat: int
    ) -> None:
        self.workflow = {node.id: node for node in workflow.nodes}
        self.question, self.calls, self.seed, self.repeat = question, calls, seed, repeat
        self.done: dict[str, tuple[NodeReply, ...]] = {}
        self.made, self.usage = 0, Usage()
        self.about = {"workflow": workflow.digest, "item": question.item, "repeat": repeat}

    async def nodes(self, rows: Sequence[Sequence[Node]]) -> NodeReply:
        """All nodes, row by row; the reply of the last counts."""
        for row in rows:
            found = await together([self.node(node) for node in row])
            self.done.update(zip((node.id for node in row), found, strict=True))
        return self.done[rows[-1][-1].id][0]

    async def node(self, node: Node) -> tuple[NodeReply, ...]:
        if isinstance(node, Ask):
            return tuple(await together([self.sample(node, i) for i in range(node.n)]))
        if isinstance(node, Vote):
            replies = [reply for name in node.inputs for reply in self.done[name]]
            return (vote(replies, self.question),)
        if isinstance(node, Decide):
            return (self.read(await self.say(node, 0, node.prompt, self.above(node), _REPLY)),)
        if isinstance(node, CritiqueLoop):
            return await self.loop(node)
        if isinstance(node, RouteNode):
            return (await self.route(node),)
        return (await self.end(node),)

    async def sample(self, node: Ask, i: int) -> NodeReply:
        """One reply; with ``force_after`` a thought, cut after so many words, then the answer."""
        above = self.above(node)
        if node.force_after is None:
            said = await self.say(node, i, node.prompt, above, node.fields)
            return self.read(said) if "answer" in node.fields else NodeReply(said.text)
        said = await self.say(node, 2 * i, node.prompt, above, node.fields)
        thought = f"{first_words(said.text, node.force_after)}\n\n{FORCED}".lstrip()
        short = dataclasses.replace(node.prompt, max_tokens=FORCED_TOKENS)
        forced = await self.say(node, 2 * i + 1, short, above, node.fields, thought)
        reply = self.read(dataclasses.replace(forced, text=f"ANSWER: {forced.text.strip()}"))
        return dataclasses.replace(reply, text=f"{thought} {forced.text.strip()}")

    async def loop(self, node: CritiqueLoop) -> tuple[NodeReply, ...]:
        """Criticism and revision in turn. All see the task, all drafts and all criticism so far."""
        drafts = self.done[node.draft]
        seen = list(labelled("draft 1", drafts))
        reviser_fields = _REPLY if gives_answer(self.workflow[node.draft]) else ()
        critic_fields = _REPLY if node.result == "critic" else ()
        verdict = NodeReply("")
        for round_ in range(node.max_rounds + node.close):
            place = round_ * (node.n + 1)
            said = await self.say(node, place, node.critic, seen, critic_fields)
            verdict = self.read(said) if node.result == "critic" else NodeReply(said.text)
            seen += labelled(f"criticism {round_ + 1}", (verdict,))
            if round_ == node.max_rounds or self.stops(node, verdict):
                break
            at, shown = range(place + 1, place + 1 + node.n), tuple(seen)
            revised = [self.say(node, i, node.reviser, shown, reviser_fields) for i in at]
            drafts = tuple(self.read(c) for c in await together(revised))
            seen += labelled(f"draft {round_ + 2}", drafts)
        return (verdict,) if node.result == "critic" else drafts

    def stops(self, node: CritiqueLoop, verdict: NodeReply) -> bool:
        """Whether the critic said one of the stop words: as a whole word, capitals as given, and
        not negated ("this is not yet CORRECT").

        Where the critic answers and stop words are options themselves ("yes", "no"), the option
        that it chose decides, so that a "no" in passing does not stop the loop.
        """
        options = {option.strip().casefold() for option in self.question.options}
        chosen = {word.casefold() for word in node.stop} & options
        if node.result == "critic" and chosen:
            return verdict.answer is not None and self.option(verdict.answer) in chosen
        text = verdict.text
        words = (rf"(?<!\w){re.escape(word)}(?!\w)" for word in node.stop)
        found = (match for word in words for match in re.finditer(word, text))
        return any(not _NEGATED.search(text, 0, match.start()) for match in found)

    async def route(self, node: RouteNode) -> NodeReply:
        form = f"Reply with one of these names and nothing else: {', '.join(node.branches)}."
        both = f"{node.prompt.instruction}\n\n{form}"
        prompt = dataclasses.replace(node.prompt, instruction=both)
        said = await self.say(node, 0, prompt, self.above(node), ())
        branch = node.branches[named_branch(said.text, tuple(node.branches))]
        return self.read(await self.say(node, 1, branch, self.above(node), _REPLY))

    async def end(self, node: AnswerNode) -> NodeReply:
        """The answer that counts, after the fallback and the coin where the workflow has them."""
        reply = self.done[node.input][0]
        if node.fallback and reply.answer is None:
            reply = self.read(await self.say(node, 0, _LETTER, self.written(node.input), ()))
        if node.coin and (reply.answer is None or self.unsure(reply.answer)):
            sides = [c for c in sorted(self.question.order) if not self.unsure(c)]
            toss = draws("coin", self.seed, self.question.item, node.id, self.repeat)
            reply = NodeReply(reply.text, sides[int(toss.integers(len(sides)))], "answered")
        return reply

    def unsure(self, answer: int) -> bool:
        """Whether a class is the last of three or more and called "uncertain"."""
        last = len(self.question.order) - 1
        return answer == last >= 2 and self.option(answer).startswith("uncertain")

    def option(self, answer: int) -> str:
        """The text of a class, for comparisons."""
        return self.question.options[self.question.order.index(answer)].strip().casefold()

    def above(self, node: Ask | Decide | RouteNode) -> tuple[tuple[str, str], ...]:
        """What the inputs of a node wrote."""
        return tuple(pair for name in inputs_of(node) for pair in labelled(name, self.done[name]))

    def written(self, name: str) -> list[tuple[str, str]]:
        """What a node wrote; for a vote, what those wrote who had one."""
        node = self.workflow[name]
        if isinstance(node, Vote):
            return [pair for voter in node.inputs for pair in self.written(voter)]
        return labelled(name, self.done[name])

    def read(self, said: Completion) -> NodeReply:
        """The answer in a reply."""
        answer, state = parse_answer(said.text, self.question, finish=said.finish)
        return NodeReply(said.text, answer, state)

    async def say(
        self,
        node: Node,
        place: int,
        prompt: Prompt,
        above: Iterable[tuple[str, str]],
        fields: Sequence[str],
        thought: str = "",
    ) -> Completion:
        """One call: ``place`` is its number inside the node, ``thought`` how the reply begins."""
        shown = (f"[{label}]\n{text}" for label, text in above)
        parts = [self.question.prompt(), *shown, prompt.instruction]
        form = reply_form(fields, self.question.letters)
        messages = [Message("user", "\n\n".join([*parts, form] if form else parts))]
        if prompt.role:
            messages.insert(0, Message("system", prompt.role))
        if thought:
            messages.append(Message("assistant", thought))
        drawn = draws("call", self.seed, self.question.item, node.id, place, self.repeat)
        request = Request(
            messages=tuple(messages),
            temperature=prompt.temperature,
            max_tokens=prompt.max_tokens,
            seed=int(drawn.integers(2**31)),
            replicate=self.repeat * _PLACES + place,
        )
        self.made += 1
        ABOUT.set({**self.about, "node": node.id, "place": place})
        said = await self.calls.call(request)
        self.usage += said.usage
        return said


def vote(replies: Sequence[NodeReply], question: PosedQuestion) -> NodeReply:
    """The most frequent class; of those that are level, the one that was named first."""
    count = Counter(reply.answer for reply in replies if reply.answer is not None)
    if not count:
        refused = all(reply.state == "refused" for reply in replies)
        return NodeReply("No answer had a vote.", None, "refused" if refused else "invalid")
    winner, votes = count.most_common(1)[0]
    place = question.order.index(winner)
    option = f"{question.letters[place]}) {question.options[place]}"
    return NodeReply(f"{votes} of {len(replies)} chose {option}", winner, "answered")


def reply_form(fields: Sequence[str], letters: str) -> str:
    """How a reply should look: its parts by name, the answer as a letter in the last line."""
    last = f"ANSWER: and one letter out of {', '.join(letters)}"
    parts = [name for name in fields if name != "answer"]
    form = f"Write these parts, each under its name: {', '.join(parts)}."
    if "answer" not in fields:
        return form if len(parts) > 1 else ""
    if not parts:
        return f"Reply with one line: {last}."
    return f"{form} End with a line of its own: {last}."


def labelled(name: str, replies: Sequence[NodeReply]) -> list[tuple[str, str]]:
    """Texts with the names under which later prompts show them."""
    if len(replies) == 1:
        return [(name, replies[0].text)]
    return [(f"{name}, {i + 1} of {len(replies)}", reply.text) for i, reply in enumerate(replies)]


def named_branch(text: str, names: Sequence[str]) -> str:
    """The name that stands last in a text, as whole words and in any case; where none does, the
    last of the names.

    Examples
    --------
    >>> named_branch("Rather the Science Generalist than the chemist? No: chemist.", ["chemist", "science-generalist", "doctor"])
    'chemist'
    """
    plain = {" ".join(re.split("[-_]+", name.casefold())).strip(): name for name in reversed(names)}
    longest = sorted(plain, key=len, reverse=True)
    pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, longest))})(?!\w)"
    found = re.findall(pattern, re.sub(r"[-_\s]+", " ", text.casefold()))
    return plain[found[-1]] if found else names[-1]


def first_words(text: str, n: int) -> str:
    """The text up to its n-th word, spaces and lines as they were.

    Examples
    --------
    >>> first_words("one two  three four", 3)
    'one two  three'
    """
    match = re.match(rf"\s*(?:\S+\s+){{0,{n - 1}}}\S*", text)
    return match[0].rstrip() if match else ""


async def grouped(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all at once; at the first failure stop the others, wait for them, and raise it alone."""
    try:
        async with asyncio.TaskGroup() as group:
            for each in work:
                group.create_task(each)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def together(work: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run all at once and wait for all, also where one fails: a call that is paid for is never
    dropped.

    Then the first error counts: first one that is no :class:`ModelError` (a cap), then a call
    without a reply, then a request that was turned down, each in the order of the work.
    """
    if len(work) == 1:
        return [await work[0]]
    found = await asyncio.gather(*work, return_exceptions=True)
    errors = [f for f in found if isinstance(f, BaseException)]
    if errors:
        raise min(errors, key=lambda e: (isinstance(e, ModelError), getattr(e, "refused", False)))
    return [f for f in found if not isinstance(f, BaseException)]
