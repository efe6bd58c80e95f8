"""Searches as the paper ran them: raw scores, 30 generations of ADAS, 20 rounds of AFlow, the best
on validation, each with q and with its transform.

The published rule counts an item without an answer as one whose answer was ruled out. ADAS begins
with the seven baselines; its designer is shown the whole archive with its fitness in per cent, and
here builds on one of the agents, the more often the higher that number (0.2 a point, as in AFlow).
AFlow begins with one plain call, validates three times, and selects among its top four with 0.3/n +
0.7·softmax(0.2·score in per cent). A design is one or two typed edits, at most three tries. Scores
in per cent of A are K - 1 times as far apart as those of q, so the two scales may differ here.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

import numpy as np
from _agents_noise import SIZES, Size
from _agents_search import PLAIN, SKILL, Name, Scale
from _simulated_fast import answers_of
from _simulated_world import SimulatedWorld, simulated_world

from noracle.search.candidates import mixture
from noracle.search.strategies.edits import edit_workflow
from noracle.search.workflow import BASELINES, Workflow, load_workflow

Array = np.ndarray[Any, Any]
GENERATIONS = {"adas": 30, "aflow": 20}
REPEATS = {"adas": 1, "aflow": 3}
TOP, PATIENCE, MOST_CALLS, TRIES = 4, 5, 20, 3
SHARPNESS = 0.2  # for a point in per cent


class Found(NamedTuple):
    """The winner of a search, its validation score as an accuracy, and its true test accuracy."""

    winner: Workflow
    validation: float
    test: float


@dataclasses.dataclass
class PaperBench:
    """A simulated stand-in for a benchmark, in the paper's sizes: test items first, then validation
    items of each seed.
    """

    size: Size
    world: SimulatedWorld
    tested: dict[str, float] = dataclasses.field(default_factory=dict)

    def validated(self, workflow: Workflow, seed: int, repeats: int) -> float:
        """q on the validation items of a seed: the share of answers that are given and not ruled
        out.
        """
        first = self.size.n_test + seed * self.size.n
        items = np.arange(first, first + self.size.n)
        wrong = self.world.ruled_out(seed=seed)[items]
        again = [answers_of(workflow, self.world, items, seed=r) for r in range(repeats)]
        return float(np.mean([(given >= 0) & (given != wrong) for given in again]))

    def test(self, workflow: Workflow) -> float:
        """True accuracy on the test items."""
        if workflow.digest not in self.tested:
            items = np.arange(self.size.n_test)
            given = answers_of(workflow, self.world, items, seed=99)
            self.tested[workflow.digest] = float(np.mean(given == self.world.truth[items]))
        return self.tested[workflow.digest]

    def transformed(self, q: float) -> float:
        """A = (K - 1)q - (K - 2)."""
        return (self.size.n_classes - 1) * q - (self.size.n_classes - 2)


def paper_benches(*, seeds: int, only: int = 3) -> list[PaperBench]:
    """The three benchmarks."""
    found = []
    for i, size in enumerate(SIZES[:only]):
        skill, spread = SKILL[size.name]
        n = size.n_test + seeds * size.n
        world = simulated_world(n, size.n_classes, skill=skill, spread=spread, seed=100 + i)
        found.append(PaperBench(size, world))
    return found


def paper_search(
    bench: PaperBench, name: Name | Literal["adas", "aflow"], *, scale: Scale, seed: int
) -> Found:
    """One search; what is drawn is the same for both scales."""
    rng = np.random.default_rng([seed, len(name)])
    repeats = REPEATS[name]
    start = [PLAIN] if name == "aflow" else [load_workflow(b) for b in BASELINES]
    tried = {w.digest: w for w in start}
    q = {w.digest: bench.validated(w, seed, repeats) for w in start}
    best: list[float] = []
    for _ in range(GENERATIONS[name]):
        order = sorted(tried, key=lambda d: -q[d])
        if name == "aflow":  # the first round always takes part
            order = list(dict.fromkeys([*order[: TOP - 1], PLAIN.digest, *order]))[:TOP]
        shown = 100 * np.array([q[d] if scale == "q" else bench.transformed(q[d]) for d in order])
        uniform = 0.3 if name == "aflow" else 0.0
        p = mixture(shown.tolist(), uniform=uniform, sharpness=SHARPNESS)
        parent = tried[order[int(rng.choice(len(order), p=p))]]
        new = _designed(parent, rng, 1 if name == "aflow" else 2)
        if new is None or new.digest in tried:
            continue
        tried[new.digest], q[new.digest] = new, bench.validated(new, seed, repeats)
        best.append(float(np.mean(sorted(q.values())[-3:])))
        if name == "aflow" and len(best) > PATIENCE and best[-1] == best[-1 - PATIENCE]:
            break
    winner = tried[max(tried, key=lambda d: q[d])]
    return Found(winner, bench.transformed(q[winner.digest]), bench.test(winner))


def _designed(parent: Workflow, rng: np.random.Generator, edits: int) -> Workflow | None:
    """One or two typed edits; a design that breaks a rule is tried again."""
    new = parent
    for _ in range(int(rng.integers(1, edits + 1))):
        made = (edit_workflow(new, rng, most_calls=MOST_CALLS) for _ in range(TRIES))
        new = next((found.workflow for found in made if found), new)
    return new if new is not parent else None
