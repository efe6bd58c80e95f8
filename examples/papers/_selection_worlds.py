"""Worlds with many candidates whose accuracy is known, and one search in such a world."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from noracle.results import Estimate
from noracle.search.candidates import Outcome
from noracle.search.fitness import (
    ItemLabel,
    ItemLabels,
    ItemScores,
    estimate_fitness,
    paired,
    score_outcomes,
)
from noracle.search.gate import SHARES, Gate

Array = np.ndarray[Any, Any]
Labels = Literal["ruled out", "question", "ordinary"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """``agents`` candidates of one accuracy, the last of them ``better`` by so much.

    ``shared`` is the share of items on which an agent does as one common agent does: 0 is
    independent agents; agents built on one model share most of their answers. ``silent`` is the
    share of items without a valid answer.
    """

    agents: int = 37
    n_classes: int = 4
    accuracy: float = 0.45
    better: float = 0.0
    shared: float = 0.0
    silent: float = 0.0
    labels: Labels = "ruled out"

    @property
    def truth(self) -> Array:
        """The accuracy of each agent; no answer counts as wrong."""
        truth = np.full(self.agents, self.accuracy)
        truth[-1] += self.better
        return truth

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Array, ItemLabels]:
        """Answers (one row an agent, -1 for none) and labels of ``n`` items."""
        k, shape = self.n_classes, (self.agents, n)
        key = rng.integers(k, size=n)
        luck, slip = rng.random(shape), rng.integers(1, k, size=shape)
        common = rng.random(shape) < self.shared
        luck, slip = (
            np.where(common, rng.random(n), luck),
            np.where(common, rng.integers(1, k, size=n), slip),
        )
        right = luck < (self.truth / (1 - self.silent))[:, None]
        answers = np.where(right, key, (key + slip) % k)
        answers[rng.random(shape) < self.silent] = -1
        return answers, self._label(key, rng)

    def _label(self, key: Array, rng: np.random.Generator) -> ItemLabels:
        k = self.n_classes
        asked = (
            rng.integers(k, size=len(key))
            if self.labels == "question"
            else (key + rng.integers(1, k, size=len(key))) % k
        )
        known = (
            asked == key
            if self.labels == "question"
            else np.full(len(key), self.labels == "ordinary")
        )
        return ItemLabels(
            {
                i: ItemLabel(n_classes=k, truth=int(y))
                if yes
                else ItemLabel(n_classes=k, ruled_out=frozenset({int(no)}))
                for i, (y, no, yes) in enumerate(zip(key, asked, known, strict=True))
            }
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What one search reported. ``accepted`` counts the acceptances of the gate, ``false`` those of
    a candidate that is not better.
    """

    returned: int
    truth: float
    validation: float
    held_out: Estimate
    wald: Estimate
    accepted: int
    false: int


def sizes_of(validation: int, shares: tuple[float, float, float] = SHARES) -> tuple[int, int, int]:
    """Numbers of validation, confirm and final labels, at the shares of the library."""
    return (
        validation,
        round(validation * shares[1] / shares[0]),
        round(validation * shares[2] / shares[0]),
    )


def outcomes_of(answers: Array) -> list[Outcome]:
    """The answers of one agent."""
    return [
        Outcome(item=i, answer=None if a < 0 else a, state="invalid" if a < 0 else "answered")
        for i, a in enumerate(answers.tolist())
    ]


def search_once(world: World, sizes: tuple[int, int, int], rng: np.random.Generator) -> Search:
    """One search: candidates in random order, a challenge for each that leads, and the leader on
    fresh labels at the end.
    """
    order = rng.permutation(world.agents)
    truth = world.truth
    (seen, validation), (met, confirm), (last, final) = (world.draw(n, rng) for n in sizes)
    gate = Gate()
    leader = incumbent = int(order[0])
    best = score_outcomes(outcomes_of(seen[leader]), validation).mean
    known: dict[int, ItemScores] = {}
    accepted = false = 0
    for agent in order[1:].tolist():
        value = score_outcomes(outcomes_of(seen[agent]), validation).mean
        if not value > best:
            continue
        leader, best = agent, value
        for who in (agent, incumbent):
            known.setdefault(who, score_outcomes(outcomes_of(met[who]), confirm))
        if gate.challenge(paired(known[agent], known[incumbent]), fresh=True).accepted:
            accepted, false = accepted + 1, false + bool(truth[agent] <= truth[incumbent])
            incumbent = agent
    outcomes = outcomes_of(last[leader])
    held_out = estimate_fitness(outcomes, final)
    scores = score_outcomes(outcomes, final)
    low, high = (min(max(scores.mean + z * scores.se, 0.0), 1.0) for z in (-1.96, 1.96))
    wald = dataclasses.replace(held_out, low=low, high=high, interval="wald")
    return Search(
        returned=leader,
        truth=float(truth[leader]),
        validation=best,
        held_out=held_out,
        wald=wald,
        accepted=accepted,
        false=false,
    )
