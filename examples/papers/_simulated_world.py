r"""Simulated models with a known answer key, so that searches have something real to find and tests
know what it is.

Item i has K options; the right one has the score m_i ~ N(skill, spread²), one wrong option (the
lure) 0, the others less. A call to the model draws one path of reasoning and answers

    argmax_k  u_k + s(T)·G_k,      G_k independent Gumbel,  s(T) = 0.6 + 0.5·T

so that errors of separate samples are independent given the item: a vote helps where the right
option leads and hurts where the lure does. At temperature 0 the same prompt gives the same path,
and several samples are one. What a workflow does
changes the scores u: wordings (:data:`WORDINGS`) and principles move the right option, each answer
that is shown adds ``conformity`` to its option (at most four times), a critic says CORRECT on 70 % of
right and 55 % of wrong drafts and else makes the reviser doubt the draft, and 4 % of replies (more
with long prompts or few tokens) end without an answer. The effects are of a size that real models
show; none of them is fitted to one.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from noracle.errors import require
from noracle.search.candidates import Outcome
from noracle.search.interpreter import run_workflow
from noracle.search.model import Calls, Completion, ModelError, Request, Usage
from noracle.search.task import LETTERS, Task, TaskItem, draws, pose
from noracle.search.workflow import Workflow

Array = np.ndarray[Any, Any]
WORDINGS: Mapping[str, float] = {
    "step by step": 0.35,
    "rule out the options": 0.25,
    "only sounds right": 0.35,
    "compare the two": 0.15,
    "decides the question": 0.1,
    "check your answer": 0.1,
    "five sentences": -0.1,
    "at once": -0.3,
    "first impression": -0.3,
    "expert in the field": 0.15,
    "sceptical": 0.1,
    "you are a student": -0.1,
}
"""What a phrase adds to the score of the right option, wherever it stands in a prompt."""

CORRECT_IF_RIGHT, CORRECT_IF_WRONG, DOUBT = 0.7, 0.55, 0.9
_CASE = re.compile(r"Case (\d+)[.:]")
_OPTION = re.compile(r"^([A-Z])\) reading \d+\.(\d+)$", re.MULTILINE)
_OPINION = re.compile(r"(?:my reading is|chose [A-Z]\) reading) \d+\.(\d+)")
_DOUBT = re.compile(r"I doubt reading \d+\.(\d+)")
_BRANCHES = re.compile(r"one of these names and nothing else: (.+)\.")
_NOTED = "These principles matter here"


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SimulatedWorld:
    """Items, their key, and what the model knows of each. Make it with :func:`simulated_world`."""

    task: Task
    truth: Array
    scores: Array
    guidance: Array
    conformity: float
    invalid: float
    seed: int
    wording: float = 1.0

    @property
    def n_classes(self) -> int:
        """The number of options of every item."""
        return int(self.scores.shape[1])

    def model(self, name: str = "simulated") -> SimulatedModel:
        """The model of this world."""
        return SimulatedModel(self, name=name)

    def ruled_out(self, *, seed: int = 0) -> Array:
        """One complementary label an item: a wrong class, each as likely."""
        rng, k = draws("ruled out", self.seed, seed), self.n_classes
        return np.asarray((self.truth + rng.integers(1, k, size=len(self.truth))) % k)

    def judgements(
        self, *, items: Sequence[int] | None = None, seed: int = 0
    ) -> dict[str, list[Any]]:
        """The same as a table that :meth:`noracle.Evidence.from_tables` takes."""
        labels = self.ruled_out(seed=seed)
        ids = list(range(len(self.truth)) if items is None else items)
        return {"item": ids, "class": [int(labels[i]) for i in ids], "verdict": ["no"] * len(ids)}

    def accuracy(self, outcomes: Sequence[Outcome]) -> float:
        """The share of outcomes that are right; no answer is wrong."""
        right = [o.answer == self.truth[int(o.item)] for o in outcomes]
        return float(np.mean(right)) if right else float("nan")


def simulated_world(
    n_items: int,
    n_classes: int,
    *,
    skill: float = 0.2,
    spread: float = 1.5,
    conformity: float = 0.35,
    invalid: float = 0.04,
    wording: float = 1.0,
    seed: int = 0,
    name: str = "simulated",
) -> SimulatedWorld:
    """Draw a world.

    Parameters
    ----------
    skill, spread
        Mean and standard deviation over items of the lead of the right option over the lure.
    conformity
        What a shown answer adds to its option.
    invalid
        The share of replies without an answer, for a short prompt.
    wording
        By what the effects of :data:`WORDINGS` are multiplied; 0: no wording helps.

    Examples
    --------
    >>> world = simulated_world(100, 4, skill=1.0, seed=1)
    >>> from noracle.search.workflow import load_workflow
    >>> outcomes = run_all(load_workflow("cot-sc"), world)
    >>> 0.6 < world.accuracy(outcomes) < 0.95
    True
    """
    rule = f"n_items must be at least 1 and n_classes 2 to {len(LETTERS)}"
    fine = n_items >= 1 and 2 <= n_classes <= len(LETTERS)
    require(fine, f"{rule}; got {n_items} and {n_classes}.")
    rng = draws("world", seed, n_items, n_classes)
    truth = rng.integers(0, n_classes, size=n_items)
    lure = (truth + rng.integers(1, n_classes, size=n_items)) % n_classes
    scores = -0.6 - rng.exponential(0.8, size=(n_items, n_classes))
    scores[np.arange(n_items), lure] = 0.0
    scores[np.arange(n_items), truth] = rng.normal(skill, spread, size=n_items)
    options = [tuple(f"reading {i}.{k}" for k in range(n_classes)) for i in range(n_items)]
    text = "Case {}. Which reading fits it?".format
    items = tuple(TaskItem(id=i, text=text(i), options=o) for i, o in enumerate(options))
    return SimulatedWorld(
        task=Task(name=name, items=items),
        truth=truth,
        scores=scores,
        guidance=rng.normal(0.25, 0.4, size=n_items),
        conformity=conformity,
        invalid=invalid,
        seed=seed,
        wording=wording,
    )


class SimulatedModel:
    """A model of a :class:`SimulatedWorld`; its reply depends on the request alone. Also a way to
    call it, without cache or caps.

    Examples
    --------
    >>> from noracle.search.model import Message
    >>> world = simulated_world(20, 4, seed=1)
    >>> question = pose(world.task.items[0])
    >>> reply = asyncio.run(world.model().complete(Request(messages=(Message("user", question.prompt()),))))
    >>> reply.finish, isinstance(reply.text, str)
    ('stop', True)
    """

    def __init__(self, world: SimulatedWorld, *, name: str = "simulated") -> None:
        self.world = world
        self.name = f"{name}-{world.seed}"

    async def call(self, request: Request) -> Completion:
        """The same as :meth:`complete`."""
        return await self.complete(request)

    async def complete(self, request: Request) -> Completion:
        """Answer a prompt of the interpreter."""
        text = "\n\n".join(m.text for m in request.messages)
        case = _CASE.search(text)
        if case is None or int(case[1]) >= len(self.world.truth):
            why = "knows only items of its own world; none is in the prompt"
            raise ModelError(f"the simulated model {why}.")
        rng = np.random.default_rng(self._path(request, text))
        said = self._said(int(case[1]), text, request, rng)
        return Completion(text=said, usage=Usage(len(text) // 4, len(said) // 4 + 40))

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _path(self, request: Request, text: str) -> int:
        """The path of reasoning: by the prompt, above temperature 0 also by seed and replicate."""
        drawn = (request.seed, request.replicate) if request.temperature > 0 else ()
        whole = f"{self.name}\x1f{request.temperature}\x1f{request.max_tokens}\x1f{drawn}\x1f{text}"
        return int.from_bytes(hashlib.sha256(whole.encode()).digest()[:16], "big")

    def _said(self, item: int, text: str, request: Request, rng: np.random.Generator) -> str:
        opinions = [int(k) for k in _OPINION.findall(text)]
        if branches := _BRANCHES.search(text):
            names = branches[1].split(", ")
            return names[int(rng.integers(len(names)))]
        letter_alone = "letter of the right option and nothing else" in text
        if not letter_alone and "ANSWER: and one letter" not in text:
            if "CORRECT" in text:
                return self._criticism(item, opinions, rng)
            return f"{_NOTED} (note {rng.integers(10_000)})."
        if not letter_alone and rng.random() < self._silence(text, opinions, request):
            return "REASONING: several readings could fit, and I do not see which."
        answer = self._choice(item, text, opinions, request.temperature, rng)
        place = next(letter for letter, k in _OPTION.findall(text) if int(k) == answer)
        if letter_alone:
            return str(place)
        path = rng.integers(10_000)
        return f"REASONING: my reading is {item}.{answer} (path {path}).\nANSWER: {place}"

    def _choice(
        self, item: int, text: str, opinions: Sequence[int], heat: float, rng: np.random.Generator
    ) -> int:
        world, low = self.world, text.casefold()
        scores = world.scores[item].copy()
        right = int(world.truth[item])
        scores[right] += world.wording * sum(v for p, v in WORDINGS.items() if p in low)
        if _NOTED in text:
            scores[right] += world.guidance[item]
        for k, n in collections.Counter(opinions).items():
            scores[k] += world.conformity * min(n, 4)
        for k in set(_DOUBT.findall(text)):
            scores[int(k)] -= DOUBT
        return int(np.argmax(scores + (0.6 + 0.5 * heat) * rng.gumbel(size=scores.size)))

    def _criticism(self, item: int, opinions: Sequence[int], rng: np.random.Generator) -> str:
        if not opinions:
            return "There is no answer yet."
        right = opinions[-1] == self.world.truth[item]
        if rng.random() < (CORRECT_IF_RIGHT if right else CORRECT_IF_WRONG):
            return "CORRECT"
        return f"I doubt reading {item}.{opinions[-1]} (note {rng.integers(10_000)})."

    def _silence(self, text: str, opinions: Sequence[int], request: Request) -> float:
        long = "Write these parts" in text and "five sentences" not in text
        cut = 0.15 if request.max_tokens < 300 and long else 0.0
        return min(0.9, self.world.invalid + 0.02 * len(opinions) + cut)


async def answer_all(
    workflow: Workflow,
    world: SimulatedWorld,
    calls: Calls,
    *,
    items: Sequence[int] | None = None,
    repeats: int = 1,
    seed: int = 0,
) -> list[Outcome]:
    """The outcomes of a workflow on items of a world (all of them by default), options shuffled."""
    places, say = range(len(world.truth)) if items is None else items, world.task.instruction
    posed = [pose(world.task.items[i], instruction=say, shuffle=seed) for i in places]
    again = [(question, r) for question in posed for r in range(repeats)]
    return [await run_workflow(workflow, q, calls, seed=seed, repeat=r) for q, r in again]


def run_all(workflow: Workflow, world: SimulatedWorld, **options: Any) -> list[Outcome]:
    """The same outside of an event loop, straight on the model of the world."""
    return asyncio.run(answer_all(workflow, world, world.model(), **options))
