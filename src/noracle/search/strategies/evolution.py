"""Searches without a designer model: typed random edits of the best so far, and successive halving
of many workflows.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from noracle.errors import require
from noracle.search.candidates import Proposal, Scored, Standing, Told, pick, rank, stand
from noracle.search.model import at_least
from noracle.search.strategies.edits import EDITS, cross, edit_workflow, sentences, valid
from noracle.search.task import draws
from noracle.search.workflow import BASELINES, Workflow, load_workflow, prompts_of

if TYPE_CHECKING:
    from noracle.search.model import Calls


class Halving(Told):
    """Successive halving over a pool: rung r asks for a share of the validation items, and the best
    1/``factor`` go on.

    Shares are nested, so that a workflow that goes on answers only what is new to it. A workflow
    that was evaluated in full already (a baseline of the search) takes no part. A pool of n takes
    about log(n) times the calls of one workflow on all items, instead of n times.

    Parameters
    ----------
    workflows
        The pool; the seven baselines where none are given.
    n_random
        How many random typed edits of the pool join it.
    factor
        The share that goes on is 1/factor, at least one.
    least_share
        No rung asks for less than this share of the items: scores on a handful of weak labels say
        next to nothing. Where the pool is too large for that, the first rung lets fewer go on.
    """

    name = "halving"
    repeats = 1

    def __init__(
        self,
        workflows: Sequence[Workflow] = (),
        *,
        n_random: int = 0,
        factor: int = 2,
        least_share: float = 0.25,
        seed: int = 0,
    ) -> None:
        at_least(2, factor=factor)
        at_least(0, n_random=n_random)
        require(0 < least_share <= 1, f"least_share must be in (0, 1]; got {least_share}.")
        given = tuple(workflows) or tuple(load_workflow(name) for name in BASELINES)
        self.factor, self.least_share = factor, least_share
        self.pool = _grown({w.digest: w for w in given}, n_random, seed)
        super().__init__()

    async def ask(
        self,
        generation: int,  # noqa: ARG002 (a protocol)
        rng: np.random.Generator,  # noqa: ARG002 (a protocol)
        designer: Calls | None,  # noqa: ARG002 (a protocol)
    ) -> Proposal | None:
        """The next workflow of the current rung, or None when one is left."""
        told = [s for s in self.told() if s.entry.workflow.digest in self.pool]
        whole = [s.entry for s in told if not (s.entry.generation or s.entry.problem)]
        full = {entry.workflow.digest for entry in whole}
        alive = [digest for digest in self.pool if digest not in full]
        rungs = self._rungs(len(alive))
        seen: dict[str, list[Scored]] = {digest: [] for digest in self.pool}
        for scored in told:
            if scored.entry.generation > 0:
                seen[scored.entry.workflow.digest].append(scored)
        for rung in range(rungs if alive else 0):
            for digest in alive:
                if len(seen[digest]) <= rung:
                    return self._proposal(self.pool[digest], seen[digest], rung, rungs)
            there = rank(stand([seen[digest][rung] for digest in alive]))
            most = int(self.factor ** (rungs - 1 - rung))
            kept = there[: max(1, min(math.ceil(len(alive) / self.factor), most))]
            alive = [s.scored.entry.workflow.digest for s in kept]
        return None

    def _rungs(self, n: int) -> int:
        """As many as it takes to come down to one; none asks for less than the least share."""
        needed = math.log(max(n, 1), self.factor)
        possible = 1 + math.floor(math.log(1 / self.least_share, self.factor) + 1e-9)
        return max(1, min(math.ceil(needed - 1e-9), possible))

    def _proposal(
        self, workflow: Workflow, seen: Sequence[Scored], rung: int, rungs: int
    ) -> Proposal:
        share = float(self.factor) ** (rung + 1 - rungs)
        return Proposal(
            workflow=workflow,
            parents=tuple(s.entry.number for s in seen[-1:]),
            change=f"rung {rung + 1} of {rungs}: {share:.3g} of the items",
            share=share,
        )


class Surrogate(Told):
    """A pool of random edits and crossings of what is there, made without a label; a linear model
    of what helps, fitted to all scores so far, says which of them to run next.

    A workflow's traits are the sentences and roles of its prompts, its kinds of nodes, samples,
    temperatures and tokens. Each trait is in many workflows, so its effect is known better than any
    one score. The first ``wide`` proposals are random; then each is the best of the pool under
    effects drawn from what the scores leave open (Thompson sampling).

    Parameters
    ----------
    workflows
        What the pool grows from; the seven baselines where none are given.
    n_random
        How many random edits and crossings join it.
    wide
        How many random ones are run first.
    most_calls
        The most calls per item that a new workflow may take.
    """

    name = "surrogate"
    repeats = 1

    def __init__(
        self,
        workflows: Sequence[Workflow] = (),
        *,
        n_random: int = 300,
        wide: int = 10,
        most_calls: int = 20,
        seed: int = 0,
    ) -> None:
        at_least(1, n_random=n_random, wide=wide, most_calls=most_calls)
        given = tuple(workflows) or tuple(load_workflow(name) for name in BASELINES)
        self.wide = wide
        grown = _crossed({w.digest: w for w in given}, n_random, most_calls, seed)
        rows = [traits(workflow) for workflow in grown.values()]
        self.names = sorted({name for row in rows for name in row})
        self.pool, self._place = list(grown.values()), {d: i for i, d in enumerate(grown)}
        self.table = np.array([[row.get(name, 0.0) for name in self.names] for row in rows])
        super().__init__()

    async def ask(
        self,
        generation: int,  # noqa: ARG002 (a protocol)
        rng: np.random.Generator,
        designer: Calls | None,  # noqa: ARG002 (a protocol)
    ) -> Proposal | None:
        """The workflow that promises most, or None when all of the pool were run."""
        known = self.digests()
        left = [i for digest, i in self._place.items() if digest not in known]
        if not left:
            return None
        stands = self.standings()
        if sum(s.scored.entry.generation > 0 for s in stands) < self.wide:
            chosen, why = left[int(rng.integers(len(left)))], "drawn at random"
        else:
            effects = Effects.fitted(self._rows(stands), np.array([s.z for s in stands]), rng)
            chosen, why = left[int(np.argmax(effects.of(self.table[left])))], "promises most"
        workflow = self.pool[chosen]
        return Proposal(workflow=workflow, change=f"{why}: {workflow.description}"[:4000])

    def ranked(self) -> list[Standing]:
        """What was run, best first by what the model of effects makes of the scores."""
        stands = self.standings()
        if len(stands) < self.wide:
            return rank(stands)
        value = believed(self._rows(stands), np.array([s.z for s in stands]))
        return [stands[i] for i in np.argsort(-value, kind="stable")]

    def best(self) -> Workflow | None:
        """The workflow that stands best by that model."""
        ranked = self.ranked()
        return ranked[0].scored.entry.workflow if ranked else super().best()

    def _rows(self, stands: Sequence[Standing]) -> np.ndarray:
        rows = [traits(s.scored.entry.workflow) for s in stands]
        return np.array([[row.get(name, 0.0) for name in self.names] for row in rows])


KEPT = 0.3
"""Of a score's distance from what its traits say, the part that is believed."""


def traits(workflow: Workflow) -> dict[str, float]:
    """What a workflow is like, in numbers of about 1.

    Examples
    --------
    >>> found = traits(load_workflow("cot-sc"))
    >>> found["says Think step by step, then choose."], found["kind vote"], round(found["samples"], 2)
    (1.0, 1.0, 1.16)
    """
    found: defaultdict[str, float] = defaultdict(float)
    found |= {f"says {said}": share for said, share in sentences(workflow).items()}
    prompts = [p for node in workflow.nodes for p in prompts_of(node)]
    for node in workflow.nodes:
        found[f"kind {node.kind}"] += 1
        found["samples"] += math.log2(getattr(node, "n", 1)) / 2
        found["fallback"] += bool(getattr(node, "fallback", False))
    for p in prompts:
        found[f"role {p.role}"] += 1 / len(prompts)
        found["temperature"] += p.temperature / len(prompts)
        found["tokens"] += math.log2(p.max_tokens) / 4 / len(prompts)
    return dict(found)


@dataclasses.dataclass(frozen=True, slots=True)
class Effects:
    """How much each trait adds to a standing: means of a normal posterior, or one draw from it."""

    centre: np.ndarray
    level: float
    beta: np.ndarray

    @classmethod
    def fitted(cls, table: np.ndarray, z: np.ndarray, rng: np.random.Generator | None) -> Effects:
        """Ridge regression; the ratio of the two variances has the largest marginal likelihood."""
        centre, level = table.mean(axis=0), float(np.mean(z))
        x, y = table - centre, z - level
        u, s, v = np.linalg.svd(x, full_matrices=False)
        along, n = u.T @ y, len(y)
        rest = max(float(y @ y - along @ along), 0.0)

        def noise(ratio: float) -> float:
            return (float(np.sum(along**2 / (1 + ratio * s**2))) + rest) / n + 1e-12

        def fit(ratio: float) -> float:
            return float(np.sum(np.log1p(ratio * s**2)) + n * math.log(noise(ratio)))

        ratio = min((10.0**k for k in np.arange(-2, 1.6, 0.5)), key=fit)
        shrunk = ratio * s / (1 + ratio * s**2)
        beta = v.T @ (shrunk * along)
        if rng is not None:  # the prior, less what the scores say about its directions
            draw = rng.standard_normal(len(centre))
            inside = v @ draw
            kept = 1 / np.sqrt(1 + ratio * s**2)
            beta = beta + math.sqrt(noise(ratio) * ratio) * (draw + v.T @ ((kept - 1) * inside))
        return cls(centre, level, beta)

    def of(self, table: np.ndarray) -> np.ndarray:
        """The standing that the traits promise."""
        return np.asarray(self.level + (table - self.centre) @ self.beta)


def believed(table: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Standings as their traits explain them, and a part of what they leave unexplained."""
    fitted = Effects.fitted(table, z, None).of(table)
    return np.asarray(fitted + KEPT * (z - fitted))


def _crossed(
    pool: dict[str, Workflow], n_random: int, most_calls: int, seed: int
) -> dict[str, Workflow]:
    """The pool with random edits and crossings of all that is in it, the same for the same seed."""
    rng, wanted = draws("surrogate", seed), len(pool) + n_random
    members = list(pool.values())
    for _ in range(20 * n_random):
        if len(pool) >= wanted:
            break
        parent = members[int(rng.integers(len(members)))]
        if rng.random() < 0.5:
            found = edit_workflow(parent, rng, most_calls=most_calls)
            new, said = (found.workflow, found.change) if found else (None, "")
        else:
            change = cross(parent, members[int(rng.integers(len(members)))], rng)
            new, said = (valid(change[0]), change[1]) if change else (None, "")
        if new is not None and new.digest not in pool and new.most_calls <= most_calls:
            told = f"{said} (from {parent.name})"[:4000]
            pool[new.digest] = dataclasses.replace(new, description=told)
            members.append(pool[new.digest])
    return pool


def _grown(pool: dict[str, Workflow], n_random: int, seed: int) -> dict[str, Workflow]:
    """The pool and random edits of it, the same for the same seed."""
    rng, wanted, first = draws("halving", seed), len(pool) + n_random, list(pool.values())
    for _ in range(200 * n_random):
        if len(pool) >= wanted:
            break
        if found := edit_workflow(first[int(rng.integers(len(first)))], rng):
            pool.setdefault(found.workflow.digest, found.workflow)
    return pool


class Mutate(Told):
    """A parent among the ``top`` entries (better ones more often), one typed edit or now and then
    two, never a workflow twice.

    Parameters
    ----------
    top
        How many of the best entries may become parents.
    most_calls
        The most calls per item that a new workflow may take.
    kinds
        The edits to draw from (see :data:`~noracle.search.strategies.edits.EDITS`).

    Examples
    --------
    >>> import asyncio, numpy as np
    >>> asyncio.run(Mutate().ask(1, np.random.default_rng(0), None)).change
    'start: one plain call'
    """

    name = "mutate"
    repeats = 1
    tries = 300

    def __init__(
        self, *, top: int = 4, most_calls: int = 20, kinds: Sequence[str] = tuple(EDITS)
    ) -> None:
        at_least(1, top=top, most_calls=most_calls)
        self.top, self.most_calls, self.kinds = top, most_calls, tuple(kinds)
        super().__init__()

    async def ask(
        self,
        generation: int,  # noqa: ARG002 (a protocol)
        rng: np.random.Generator,
        designer: Calls | None,  # noqa: ARG002 (a protocol)
    ) -> Proposal | None:
        """An edit of a good entry, or None when no new workflow is found in a few hundred tries."""
        known, top = self.digests(), rank(self.standings())[: self.top]
        if not top:
            plain = load_workflow("direct")
            start = Proposal(workflow=plain, change="start: one plain call")
            return None if plain.digest in known else start
        for _ in range(self.tries):
            parent = pick(top, rng)
            workflow, changes = parent.scored.entry.workflow, list[str]()
            for _ in range(1 if rng.random() < 0.75 else 2):
                most, kinds = int(min(self.most_calls, self.room)), self.kinds
                if found := edit_workflow(workflow, rng, most_calls=most, kinds=kinds):
                    workflow, changes = found.workflow, [*changes, found.change]
            if changes and workflow.digest not in known and workflow.most_calls <= self.room:
                change = "; ".join(changes)
                about = f"{change} (from entry {parent.number})"[:4000]
                told = dataclasses.replace(workflow, description=about)
                return Proposal(workflow=told, parents=(parent.number,), change=change)
        return None
