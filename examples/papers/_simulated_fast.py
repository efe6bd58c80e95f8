"""The simulated world without prompts: the answers of a workflow to many items at once.

The law is that of :class:`SimulatedModel`, with whole columns of items instead of one prompt after
another, so that hundreds of searches run in minutes. A test holds it against the interpreter.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from _simulated_world import (
    CORRECT_IF_RIGHT,
    CORRECT_IF_WRONG,
    DOUBT,
    WORDINGS,
    SimulatedWorld,
)

from noracle.search.interpreter import _LETTER, reply_form
from noracle.search.task import pose
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

Array = np.ndarray[Any, Any]
_REPLY = ("reasoning", "answer")


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """What a node wrote: opinions, one row per sample (-1: none), or notes; and what it rests on."""

    opinions: Array
    noted: bool
    key: str


def answers_of(
    workflow: Workflow, world: SimulatedWorld, items: Sequence[int] | Array, *, seed: int = 0
) -> Array:
    """The class that a workflow gives each item; -1 where no answer can be read."""
    run = _Run(world, np.asarray(items), seed)
    done: dict[str, Said] = {}
    for node in workflow.nodes:
        done[node.id] = run.node(node, done)
    return done[workflow.nodes[-1].id].opinions[0]


class _Run:
    """One workflow on a column of items."""

    def __init__(self, world: SimulatedWorld, items: Array, seed: int) -> None:
        self.world, self.items, self.seed = world, items, seed
        self.truth, self.k = world.truth[items], world.n_classes
        self.at = np.arange(len(items))
        self.question = pose(world.task.items[0], instruction=world.task.instruction)

    def node(self, node: Node, done: dict[str, Said]) -> Said:
        seen = [done[name] for name in inputs_of(node)]
        if isinstance(node, Ask):
            key = f"{node.id} {node.fields}"
            if "answer" not in node.fields:
                return Said(np.empty((0, len(self.items)), int), True, key)
            drawn = [self.say(node.prompt, seen, node.fields, f"{key} {i}") for i in range(node.n)]
            return Said(np.array(drawn), False, key + "".join(s.key for s in seen))
        if isinstance(node, Decide):
            return Said(self.say(node.prompt, seen, _REPLY, node.id)[None], False, node.id)
        if isinstance(node, Vote):
            return Said(vote(np.concatenate([s.opinions for s in seen]), self.k)[None], False, "")
        if isinstance(node, CritiqueLoop):
            return Said(self.loop(node, done[node.draft])[None], False, node.id)
        if isinstance(node, RouteNode):
            return Said(self.route(node, seen)[None], False, node.id)
        answer = done[node.input].opinions[0]
        if isinstance(node, AnswerNode) and node.fallback:
            letter = self.say(_LETTER, [], (), "letter")
            answer = np.where(answer < 0, letter, answer)
        return Said(answer[None], False, node.id)

    def rng(self, prompt: Prompt, text: str, key: str) -> np.random.Generator:
        """At temperature 0 the same prompt takes the same path."""
        drawn = f"{self.seed} {key}" if prompt.temperature > 0 else ""
        whole = f"{self.world.seed}\x1f{self.k}\x1f{prompt.temperature}\x1f{drawn}\x1f{text}"
        return np.random.default_rng(list(hashlib.sha256(whole.encode()).digest()))

    def say(
        self,
        prompt: Prompt,
        seen: Sequence[Said],
        fields: Sequence[str],
        key: str,
        doubted: Array | None = None,
    ) -> Array:
        """The answers of one call for every item."""
        world, n = self.world, len(self.items)
        form = reply_form(fields, self.question.letters)
        text = f"{self.question.prompt()}\n{prompt.role}\n{prompt.instruction}\n{form}"
        rng = self.rng(prompt, text + "".join(s.key for s in seen), key)
        low = text.casefold()
        shown = np.zeros((n, self.k))
        for row in [row for s in seen for row in s.opinions]:
            shown[self.at[row >= 0], row[row >= 0]] += 1
        u = world.scores[self.items] + world.conformity * np.minimum(shown, 4)
        lead = sum(v for phrase, v in WORDINGS.items() if phrase in low)
        u[self.at, self.truth] += world.wording * lead + world.guidance[self.items] * any(
            s.noted for s in seen
        )
        if doubted is not None:
            u -= DOUBT * doubted
        answer = np.argmax(u + (0.6 + 0.5 * prompt.temperature) * rng.gumbel(size=u.shape), axis=1)
        if not fields:  # the letter alone is never silent
            return answer
        long = len(fields) > 1 and "five sentences" not in text
        cut = 0.15 if prompt.max_tokens < 300 and long else 0.0
        silent = rng.random(n) < np.minimum(0.9, world.invalid + 0.02 * shown.sum(axis=1) + cut)
        return np.where(silent, -1, answer)

    def loop(self, node: CritiqueLoop, draft: Said) -> Array:
        """Criticism and revision in turn, until the critic says CORRECT."""
        latest = draft.opinions[-1].copy()
        known = latest.copy()  # a critic goes by the last opinion that it sees
        seen, doubted = [draft], np.zeros((len(self.items), self.k), dtype=bool)
        going = np.ones(len(self.items), dtype=bool)
        for round_ in range(node.max_rounds):
            rng = self.rng(node.critic, node.critic.instruction, f"{node.id} critic {round_}")
            right = np.where(known == self.truth, CORRECT_IF_RIGHT, CORRECT_IF_WRONG)
            asked = "CORRECT" in node.critic.instruction
            going &= ~((rng.random(len(known)) < right) & (known >= 0) & asked)
            told = going & (known >= 0) & asked
            doubted[self.at[told], known[told]] = True
            key = f"{node.id} reviser {round_}"
            revised = self.say(node.reviser, seen, _REPLY, key, doubted)
            seen.append(Said(np.where(going, revised, -1)[None], False, key))
            latest = np.where(going, revised, latest)
            known = np.where(latest >= 0, latest, known)
        return latest

    def route(self, node: RouteNode, seen: Sequence[Said]) -> Array:
        """A branch at random, then its answer."""
        rng = self.rng(node.prompt, node.prompt.instruction, f"{node.id} route")
        each = [self.say(p, seen, _REPLY, f"{node.id} {b}") for b, p in node.branches.items()]
        return np.array(each)[rng.integers(len(each), size=len(self.items)), self.at]


def vote(opinions: Array, k: int) -> Array:
    """The most frequent class of each column, the one named first where several are level."""
    counts = np.zeros((opinions.shape[1], k))
    first = np.full(counts.shape, float(len(opinions)))
    at = np.arange(opinions.shape[1])
    for i, row in enumerate(opinions):
        there = row >= 0
        counts[at[there], row[there]] += 1
        first[at[there], row[there]] = np.minimum(first[at[there], row[there]], i)
    winner = np.argmax(counts - first / (len(opinions) + 1) * 0.5, axis=1)
    return np.where(counts.max(axis=1) > 0, winner, -1)
