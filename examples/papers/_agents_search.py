"""Searches on simulated worlds with a known key, scored with weak labels on a scale of one's
choice.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, Literal, NamedTuple

import numpy as np
from _agents_noise import SIZES, Size
from _simulated_designer import SimulatedDesigner
from _simulated_world import (
    SimulatedModel,
    SimulatedWorld,
    answer_all,
    simulated_world,
)

from noracle.search.candidates import Entry, Outcome, Scored
from noracle.search.strategies import Adas, Aflow, Mutate
from noracle.search.task import draws
from noracle.search.workflow import BASELINES, Workflow, load_workflow, parse_workflow

Scale = Literal["q", "A"]
Name = Literal["adas", "aflow", "mutate"]
# Lead of the right option and its spread, so that one chain of thought is right about as often as
# the paper's models are.
SKILL = {"GPQA": (-0.2, 1.5), "Medical Abstracts": (0.75, 1.8), "Math-MC": (2.4, 1.8)}
# Test accuracy in the paper's appendix K, by (q, transform).
PUBLISHED = {
    ("GPQA", "adas"): (47.2, 42.4),
    ("GPQA", "aflow"): (47.2, 47.2),
    ("Math-MC", "adas"): (88.1, 84.2),
    ("Math-MC", "aflow"): (86.5, 86.8),
    ("Medical Abstracts", "adas"): (61.6, 67.8),
    ("Medical Abstracts", "aflow"): (68.5, 68.9),
}
MOST_CALLS = 6
# Round 1 of AFlow: one call with no advice.
PLAIN = parse_workflow(
    {
        "schema": "workflow/1",
        "name": "plain",
        "nodes": [
            {"kind": "ask", "id": "reply", "prompt": {"instruction": "Choose."}},
            {"kind": "answer", "input": "reply"},
        ],
    }
)


class Run(NamedTuple):
    """One search: what it chose in each generation, the value of the winner on validation labels,
    and its true accuracy on test items.
    """

    choices: tuple[str, ...]
    validation: float
    test: float
    winner: Workflow


@dataclasses.dataclass
class Bench:
    """A simulated stand-in for a benchmark: test items first, then validation items of each seed.
    Answers are kept, none is drawn twice.
    """

    size: Size
    world: SimulatedWorld
    n_test: int
    kept: dict[tuple[object, ...], list[Outcome]] = dataclasses.field(default_factory=dict)

    @property
    def model(self) -> SimulatedModel:
        return self.world.model()

    async def outcomes(self, workflow: Workflow, *, seed: int, repeats: int = 1) -> list[Outcome]:
        """Answers to the validation items of a seed."""
        key = (workflow.digest, seed, repeats)
        if key not in self.kept:
            first = self.n_test + seed * self.size.n
            items = range(first, first + self.size.n)
            self.kept[key] = await answer_all(
                workflow, self.world, self.model, items=items, repeats=repeats, seed=seed
            )
        return self.kept[key]

    async def test(self, workflow: Workflow) -> float:
        """True accuracy on the test items."""
        key = (workflow.digest, "test")
        if key not in self.kept:
            self.kept[key] = await answer_all(
                workflow, self.world, self.model, items=range(self.n_test), seed=99
            )
        return self.world.accuracy(self.kept[key])

    def scored(self, entry: Entry, labels: np.ndarray[Any, Any], scale: Scale) -> Scored:
        """The entry with its score: A = mean of 1 - (K - 1)·hit (0 for no answer), or q = (A + K -
        2)/(K - 1).
        """
        k, by_item = self.size.n_classes, dict[int, list[float]]()
        for o in entry.outcomes:
            value = 0.0 if o.answer is None else 1.0 - (k - 1) * (o.answer == labels[int(o.item)])
            by_item.setdefault(int(o.item), []).append(value)
        a = np.array([np.mean(v) for v in by_item.values()])
        if scale == "q":
            a = (a + k - 2) / (k - 1)
        hit = {
            (o.item, o.answer): None
            for o in entry.outcomes
            if o.answer is not None and o.answer == labels[int(o.item)]
        }
        silent = tuple(dict.fromkeys(o.item for o in entry.outcomes if o.answer is None))
        return Scored(
            entry=entry,
            score=float(a.mean()),
            se=float(a.std(ddof=1) / np.sqrt(a.size)),
            excluded=tuple(hit),
            unanswered=silent,
        )  # type: ignore[arg-type]


def benches(n_test: int, *, seeds: int, only: int = 3) -> list[Bench]:
    """The three benchmarks."""
    found = []
    for i, size in enumerate(SIZES[:only]):
        skill, spread = SKILL[size.name]
        world = simulated_world(
            n_test + seeds * size.n,
            size.n_classes,
            skill=skill,
            spread=spread,
            seed=i,
            name=size.name,
        )
        found.append(Bench(size, world, n_test))
    return found


def search(bench: Bench, name: Name, *, scale: Scale, seed: int, generations: int) -> Run:
    """Baselines, then generations; the winner has the highest score on the validation labels, as in
    the paper.

    A seed means new items and labels, new draws of the model and new draws of the strategy.
    """
    return asyncio.run(_search(bench, name, scale, seed, generations))


async def _search(bench: Bench, name: Name, scale: Scale, seed: int, generations: int) -> Run:
    task = bench.world.task
    strategy = {
        "adas": lambda: Adas(task=task, most_calls=MOST_CALLS),
        "aflow": lambda: Aflow(task=task, most_calls=MOST_CALLS, patience=generations),
        "mutate": lambda: Mutate(most_calls=MOST_CALLS),
    }[name]()
    designer = SimulatedDesigner(most_calls=MOST_CALLS)
    labels = bench.world.ruled_out(seed=seed)
    told: list[Scored] = []
    # AFlow begins with one plain call and has three repeats of every item; the others begin with
    # the seven baselines.
    start = [PLAIN] if name == "aflow" else [load_workflow(baseline) for baseline in BASELINES]
    repeats = strategy.repeats

    async def evaluate(workflow: Workflow, generation: int, **fields: Any) -> None:
        outcomes = tuple(await bench.outcomes(workflow, seed=seed, repeats=repeats))
        entry = Entry(
            number=len(told),
            workflow=workflow,
            origin=name,
            generation=generation,
            outcomes=outcomes,
            **fields,
        )
        told.append(bench.scored(entry, labels, scale))
        strategy.tell(told[-1])

    for workflow in start:
        await evaluate(workflow, 0)
    choices = []
    for generation in range(1, generations + 1):
        proposal = await strategy.ask(generation, draws("strategy", seed, generation), designer)
        if proposal is None:
            break
        choices.append(f"{proposal.workflow.digest} {proposal.parents} {proposal.problem}")
        if proposal.problem:
            entry = Entry(
                number=len(told),
                workflow=proposal.workflow,
                origin=name,
                generation=generation,
                problem=proposal.problem,
            )
            told.append(Scored(entry=entry, score=float("nan"), se=float("nan")))
            strategy.tell(told[-1])
        else:
            await evaluate(
                proposal.workflow, generation, parents=proposal.parents, change=proposal.change
            )
    best = max(
        (s for s in told if not s.entry.problem), key=lambda s: (round(s.score, 9), -s.entry.number)
    )
    value = bench.scored(best.entry, labels, "A").score
    return Run(tuple(choices), value, await bench.test(best.entry.workflow), best.entry.workflow)
