"""One search over a pool of workflows with one kind of label, in a simulated world, and its price.

A question ("is this item of this class?", "is this answer right?", a class that is ruled out) costs
1, an ordinary label 5. Whatever the label, the search is the same: seven baselines, ten random
workflows of the pool, then four times five that a model of what helps promises most of; at the end
the one that the model believes in. Answers of all workflows to all items are drawn beforehand, and
a search sees those of the workflows that it runs.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

import numpy as np
from _simulated_fast import answers_of
from _simulated_world import SimulatedWorld, simulated_world

from noracle.search.pool import AimedLabels
from noracle.search.strategies.evolution import Effects, Surrogate, believed
from noracle.search.workflow import BASELINES

Array = np.ndarray[Any, Any]
Kind = Literal["targeted", "grades", "ordinary", "ruled out", "all labels"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BUDGET, PRICE = 120, 5
N_ITEMS, N_TEST, MOST_CALLS = 200, 2000, 6
WIDE, ROUNDS, BATCH, RACING, FINALISTS = 10, 4, 5, 6, 4
# Lead of the right option over the lure and its spread: one chain of thought is right in about 45
# to 60 % of items.
SKILL = {4: (-0.2, 1.5), 5: (0.75, 1.8), 10: (0.75, 1.8)}


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Field:
    """A pool of workflows and their answers in one world: test items first, then those of each
    search. The first seven workflows are the baselines.
    """

    world: SimulatedWorld
    answers: Array
    traits: Array

    @property
    def accuracy(self) -> Array:
        """The true accuracy of each workflow, on test items that no search sees."""
        key = self.world.truth[:N_TEST]
        return np.asarray((self.answers[:, :N_TEST] == key).mean(axis=1))


def field(
    n_classes: int, *, seeds: int, n_random: int = 500, wording: float = 1.0, seed: int = 0
) -> Field:
    """A new world, and a pool that was made without a label."""
    skill, spread = SKILL[n_classes]
    n = N_TEST + seeds * N_ITEMS
    world = simulated_world(n, n_classes, skill=skill, spread=spread, wording=wording, seed=seed)
    pool = Surrogate(n_random=n_random, most_calls=MOST_CALLS, seed=seed)
    drawn = [answers_of(w, world, np.arange(n), seed=seed).astype(np.int8) for w in pool.pool]
    return Field(world=world, answers=np.array(drawn), traits=pool.table)


class Labels:
    """Labels of one kind, and the scores of workflows by them: one row a workflow, one column a
    labelled item; NaN where a label cannot serve a workflow.
    """

    def __init__(self, kind: Kind, answers: Array, key: Array, k: int, budget: int, seed: int):
        rng = np.random.default_rng([seed, k, 1])
        self.kind, self.answers, self.key, self.k = kind, answers, key, k
        order = rng.permutation(len(key))
        n = {"ordinary": budget // PRICE, "ruled out": budget, "all labels": len(key)}.get(kind, 0)
        self.items = order[:n]
        self.wrong = (key + rng.integers(1, k, size=len(key))) % k
        self.aimed = AimedLabels(
            np.full(len(key), k), lambda t, c: bool(key[t] == c), budget=budget, seed=seed
        )
        self.budget, self.order = budget, order[::-1].tolist()
        self.graded: list[tuple[int, Array, set[int]]] = []
        self.rng = rng

    def ask(self, run: list[int], n: int) -> None:
        """Spend so many questions on the workflows in the race."""
        if self.kind == "targeted":
            self.aimed.ask(self.answers[run], at_most=n)
        while self.kind == "grades" and n > 0 and self.order and len(self.graded) < self.budget:
            t, n = self.order.pop(), n - 1
            given = self.answers[run, t]
            votes = np.sqrt(np.bincount(given[given >= 0], minlength=self.k))
            score = np.zeros(self.k + 1)
            if votes.any():
                chances = votes / votes.sum()
                c = int(self.rng.choice(self.k, p=chances))
                score[c] = (self.key[t] == c) / chances[c]
            self.graded.append((t, score, set(run)))

    def scores(self, run: list[int]) -> Array:
        """The scores of these workflows; a grade serves those that were in the race for it."""
        given = self.answers[run]
        if self.kind == "targeted":
            return self.aimed.scores(given)
        if self.kind == "grades":
            columns = [
                np.where([r in those for r in run], score[given[:, t]], np.nan)
                for t, score, those in self.graded
            ]
            return np.array(columns).T
        given = given[:, self.items]
        if self.kind == "ruled out":
            return np.where(given < 0, 0.0, 1 - (self.k - 1.0) * (given == self.wrong[self.items]))
        return (given == self.key[self.items]).astype(float)


def search(field: Field, kind: Kind, *, seed: int, budget: int = BUDGET) -> int:
    """The place of the winner in the pool."""
    first = N_TEST + seed * N_ITEMS
    answers = field.answers[:, first : first + N_ITEMS]
    key = field.world.truth[first : first + N_ITEMS]
    labels = Labels(kind, answers, key, field.world.n_classes, budget, seed)
    rng = np.random.default_rng([seed, field.world.n_classes, 2])
    n_base = len(BASELINES)
    run = [*range(n_base), *(n_base + rng.choice(len(answers) - n_base, WIDE, False)).tolist()]

    def standing() -> Array:
        scores = labels.scores(run)
        n = np.sum(~np.isnan(scores), axis=1)
        mean, spread = np.nanmean(scores, axis=1), np.nanstd(scores, axis=1)
        errors = spread[n > 1] / np.sqrt(n[n > 1] - 1)
        typical = float(np.median(errors[errors > 0])) if (errors > 0).any() else 1.0
        return np.asarray((mean - mean.max()) / typical)

    def leaders(n: int) -> list[int]:
        return [run[i] for i in np.argsort(-believed(field.traits[run], standing()))[:n]]

    labels.ask(run, 2 * budget // 5)
    for _ in range(ROUNDS):
        z, new = standing(), list[int]()
        for _ in range(BATCH):
            promise = Effects.fitted(field.traits[run], z, rng).of(field.traits)
            promise[[*run, *new]] = -np.inf
            new.append(int(np.argmax(promise)))
        race = leaders(RACING) + new
        run = [*run, *new]
        labels.ask(race, budget // 10)
    labels.ask(leaders(FINALISTS), budget)
    return leaders(1)[0]
