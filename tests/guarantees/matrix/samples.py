"""Items of several kinds, labelled by a design: strata at rates of their own, weights, numbers of
classes, recorded propensities.

The truth is that of the law that the sample was drawn from, which a world must say:

    "finite"   the items are all there are; labelled ones are drawn without replacement, and the truth is the accuracy on these items
    "shares"   the shares of the kinds are known and the items of each are drawn from a law; the counts do not claim to be all items
    "beyond"   the items of the table are themselves drawn from a law, and the accuracy of that law is wanted
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from scipy.stats import hypergeom

from noracle import AccuracyCounts
from noracle.counts import Cell, Tally
from noracle.counts.tally import Label
from tests.guarantees.worlds import Key, Rng, World, no, yes

Population = Literal["finite", "shares", "beyond"]
Outcomes = Sequence[tuple[Tally, float]]
STATES = ("right", "wrong", "silent")


@dataclasses.dataclass(frozen=True)
class Labels:
    """What is said of an item: shares of ordinary labels, of ``m`` ruled-out classes, of uniform
    questions, and of questions about the answer with a recorded ``propensity``.
    """

    ordinary: float = 0.0
    ruled_out: float = 0.0
    questions: float = 0.0
    aimed: float = 0.0
    m: int = 1
    propensity: float = 0.5

    def outcomes(self, k: int, state: str, **where: Any) -> list[tuple[Tally, float]]:
        """What one label of such an item can say, with its chances."""
        right, answered = state == "right", state != "silent"
        about = {**where, "answered": answered}
        hit = (1 - right) * answered * self.m / (k - 1)
        found = [
            (yes(k, hit=right, **about), self.ordinary),
            (no(k, hit=True, m=self.m, **about), self.ruled_out * hit),
            (no(k, hit=False, m=self.m, **about), self.ruled_out * (1 - hit)),
            (yes(k, hit=right, **about), self.questions / k),
            (no(k, hit=True, **about), self.questions * (not right and answered) / k),
            (no(k, hit=False, **about), self.questions * (k - 1 - (not right and answered)) / k),
        ]
        if self.aimed:
            score, told = 1 / self.propensity, {**about, "design": "recorded"}
            asked, rest = (
                self.aimed * self.propensity * answered,
                self.aimed * (1 - self.propensity * answered),
            )
            elsewhere = rest * (not right) / (k - 1 if answered else k)
            found += [
                (yes(k, hit=True, yes_score=score, no_score=0.0, **told), asked * right),
                (no(k, hit=True, yes_score=0.0, no_score=score, **told), asked * (not right)),
                (yes(k, hit=False, yes_score=0.0, no_score=0.0, **told), elsewhere),
                (no(k, hit=False, yes_score=0.0, no_score=0.0, **told), rest - elsewhere),
            ]
        return [(tally, float(p)) for tally, p in found if p > 0]


ORDINARY, RULED_OUT, QUESTIONS = Labels(ordinary=1.0), Labels(ruled_out=1.0), Labels(questions=1.0)


@dataclasses.dataclass(frozen=True)
class Items:
    """``size`` items of one kind, so many of them right, so many without an answer."""

    k: int
    size: int
    right: int
    silent: int = 0
    stratum: str = ""
    weight: float = 1.0
    labels: Labels = ORDINARY
    made: Callable[[str], Outcomes] | None = None
    """What a label can say, by state, instead of ``labels``."""

    @property
    def states(self) -> tuple[int, int, int]:
        return self.right, self.size - self.right - self.silent, self.silent

    @property
    def cell(self) -> Cell:
        return Cell("s", self.k, self.stratum, self.weight)

    def outcomes(self, state: str) -> Outcomes:
        if self.made is not None:
            return self.made(state)
        return self.labels.outcomes(self.k, state, stratum=self.stratum, weight=self.weight)


def part(k: int, size: int, accuracy: float, *, silent: float = 0.0, **more: Any) -> Items:
    """Items with this accuracy among the answered ones, rounded to whole items."""
    without = round(silent * size)
    return Items(k, size, round(accuracy * (size - without)), without, **more)


def sampled(
    kinds: Sequence[Items],
    n: int | Mapping[str, int],
    *,
    population: Population = "finite",
    rest: int = 0,
    **options: Any,
) -> World:
    """Labels of ``n`` items drawn from all of them, or of so many of each stratum.

    Beyond, ``rest`` more items of the table have no label; where labels are drawn by stratum,
    ``rest`` is the size of the table.
    """
    strata: Mapping[str | None, int] = {None: n} if isinstance(n, int) else dict(n)
    frames = [
        [i for i, kind in enumerate(kinds) if stratum is None or kind.stratum == stratum]
        for stratum in strata
    ]
    laws = [[kind.outcomes(state) for state in STATES] for kind in kinds]
    weight = sum(kind.weight * kind.size for kind in kinds)
    truth = sum(kind.weight * kind.right for kind in kinds) / weight

    def by_state(rng: Rng, members: Sequence[int], size: int, worlds: int) -> np.ndarray:
        """How many items of each kind and state are drawn."""
        sizes = np.array([kinds[i].states for i in members]).ravel()
        if population == "finite":
            return rng.multivariate_hypergeometric(sizes, size, size=worlds, method="marginals")
        return rng.multinomial(size, sizes / sizes.sum(), size=worlds)

    def draw(rng: Rng, worlds: int) -> np.ndarray:
        columns: dict[int, np.ndarray] = {}
        for members, size in zip(frames, strata.values(), strict=True):
            states = by_state(rng, members, size, worlds).reshape(worlds, len(members), 3)
            for place, i in enumerate(members):
                said = [
                    rng.multinomial(states[:, place, j], [p for _, p in law])
                    if law
                    else np.zeros((worlds, 0), dtype=int)
                    for j, law in enumerate(laws[i])
                ]
                columns[i] = np.concatenate(said, axis=1)
        labelled = np.concatenate([columns[i] for i in range(len(kinds))], axis=1)
        if population != "beyond":
            return labelled
        if isinstance(n, int):
            return np.concatenate(
                [labelled, by_state(rng, range(len(kinds)), rest, worlds)], axis=1
            )
        sizes = np.array([sum(kinds[i].size for i in members) for members in frames])
        table = rng.multinomial(rest, sizes / sizes.sum(), size=worlds)
        others = np.zeros((worlds, len(kinds), 3), dtype=int)
        for column, (members, size) in enumerate(zip(frames, strata.values(), strict=True)):
            states = np.array([kinds[i].states for i in members]).ravel()
            drawn = rng.multinomial(np.maximum(table[:, column] - size, 0), states / states.sum())
            others[:, members] = drawn.reshape(worlds, len(members), 3)
        return np.concatenate([labelled, others.reshape(worlds, -1)], axis=1)

    tallies = [(i, tally) for i, by in enumerate(laws) for law in by for tally, _ in law]

    def build(key: Key) -> AccuracyCounts:
        found: dict[Tally, int] = {}
        items: dict[Cell, int] = {}
        answered: dict[Cell, int] = {}
        for (i, tally), c in zip(tallies, key, strict=False):
            found[tally] = found.get(tally, 0) + c
            if population == "beyond":
                items[kinds[i].cell] = items.get(kinds[i].cell, 0) + c
                answered[kinds[i].cell] = answered.get(kinds[i].cell, 0) + c * tally.answered
        for i, kind in enumerate(kinds):
            others = (
                key[len(tallies) + 3 * i : len(tallies) + 3 * i + 3]
                if population == "beyond"
                else kind.states
            )
            items[kind.cell] = items.get(kind.cell, 0) + sum(others)
            answered[kind.cell] = answered.get(kind.cell, 0) + others[0] + others[1]
        recorded = any(t.design == "recorded" for t in found)
        return AccuracyCounts(
            tallies={t: c for t, c in found.items() if c},
            items=items,
            answered=answered,
            whole=population == "finite",
            propensities="recorded" if recorded else "none",
        )

    more = {"population": "beyond"} if population == "beyond" else {}
    return World(truth=truth, draw=draw, build=build, options={**more, **options})


def drawn(k: int, right: int, size: int, n: int) -> World:
    """Ordinary labels of n of ``size`` items without replacement, with all that can come out."""
    world = sampled([Items(k, size, right)], n)

    def every() -> dict[Key, float]:
        found: dict[Key, float] = {}
        for hits in range(max(0, n - size + right), min(n, right) + 1):
            found[hits, n - hits, 0] = float(hypergeom.pmf(hits, size, right, n))
        return found

    return dataclasses.replace(world, every=every)


# -------------------------------------------------------------------------------------- several
# questions about one item

Policy = Callable[[list[str]], bool]
POLICIES: dict[str, Policy] = {
    "again after no": lambda said: len(said) == 1 and said[0] == "no",
    "again after yes": lambda said: len(said) == 1 and said[0] == "yes",
    "until settled, 3 at most": lambda said: len(said) < 3 and "yes" not in said,
    "again after unsure": lambda said: len(said) < 2 and said[-1] == "unsure",
}


def asked(
    k: int, policy: Policy, *, aim: float | None, unsure: float = 0.0
) -> Callable[[str], Outcomes]:
    """What the questions about one item become, through the package's own label: class 0 is true,
    class 1 is a wrong answer.

    ``aim`` of the questions are about the answer and the others uniform, with their propensities;
    None asks uniformly, never the same class twice, and records nothing. Each verdict is unsure
    with probability ``unsure``, whatever the class is.
    """

    def outcomes(state: str) -> Outcomes:
        answer = {"right": 0, "wrong": 1, "silent": None}[state]
        found: dict[Tally, float] = {}

        def go_on(rows: list[tuple[int, Any, float | None]], chance: float) -> None:
            if rows and not policy([v for _, v, _ in rows]):
                label = Label.of(rows, n_classes=k, recorded=aim is not None)
                assert label is not None
                tally = label.meet(answer, system="s")
                found[tally] = found.get(tally, 0.0) + chance
                return
            left = (
                range(k)
                if aim is not None
                else [c for c in range(k) if c not in {c for c, _, _ in rows}]
            )
            for c in left:
                p = (
                    1 / len(left)
                    if aim is None
                    else (1 - aim) / k + aim * (c == answer if answer is not None else 1 / k)
                )
                said = "yes" if c == 0 else "no"
                told = p if aim is not None else None
                for verdict, share in ((said, 1 - unsure), ("unsure", unsure)):
                    if share * p > 0:
                        go_on([*rows, (c, verdict, told)], chance * p * share)

        go_on([], 1.0)
        return tuple(found.items())

    return outcomes
