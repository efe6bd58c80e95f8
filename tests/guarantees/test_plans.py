"""A plan is kept: plan, route, label, estimate by default, and the interval is as wide as was
planned, at the planned price.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from noracle import (
    Evidence,
    Plan,
    count_accuracy,
    estimate_accuracy,
    plan_accuracy,
    plan_labels,
    route_items,
)
from noracle.results import Routing

pytestmark = pytest.mark.full

REPETITIONS, FEW = 40, 5
WIDER = 1.10
COST = 0.02


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """A population, and what is planned for it."""

    classes: Mapping[int, int]
    accuracies: tuple[float, ...]
    half_width: float
    options: Mapping[str, Any]
    strata: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    """Share of the items and what the accuracy is higher by."""
    pilot: Mapping[str, int] | None = None
    """Labels by stratum that are there before the plan, of the kind that is planned; the plan then
    starts from the evidence.
    """

    @property
    def n_items(self) -> int:
        return sum(self.classes.values())


SETTINGS = {
    "ordinary": Setting(
        classes={5: 3000}, accuracies=(0.8,), half_width=0.04, options={"kind": "ordinary"}
    ),
    "ordinary, most items": Setting(
        classes={5: 500}, accuracies=(0.7,), half_width=0.03, options={"kind": "ordinary"}
    ),
    "ordinary, mixed K, strata": Setting(
        classes={3: 900, 5: 1200, 10: 900},
        accuracies=(0.75, 0.6),
        half_width=0.04,
        options={"kind": "ordinary"},
        strata={"easy": (0.5, 0.15), "hard": (0.5, -0.15)},
    ),
    "question": Setting(
        classes={5: 6000}, accuracies=(0.8,), half_width=0.04, options={"kind": "question"}
    ),
    "question, mixed K": Setting(
        classes={3: 3000, 6: 5000}, accuracies=(0.7,), half_width=0.05, options={"kind": "question"}
    ),
    "question, mixed K, strata, two systems": Setting(
        classes={4: 4000, 8: 4000},
        accuracies=(0.8, 0.7),
        half_width=0.06,
        options={"kind": "question"},
        strata={"a": (0.3, 0.1), "b": (0.7, -0.04)},
    ),
    "complementary": Setting(
        classes={4: 8000}, accuracies=(0.8,), half_width=0.04, options={"kind": "complementary"}
    ),
    "complementary, mixed K": Setting(
        classes={3: 5000, 5: 5000},
        accuracies=(0.75,),
        half_width=0.06,
        options={"kind": "complementary"},
    ),
    "targeted": Setting(
        classes={10: 5000}, accuracies=(0.8,), half_width=0.03, options={"kind": "targeted"}
    ),
    "targeted, mixed K, strata": Setting(
        classes={3: 2000, 10: 3000},
        accuracies=(0.65,),
        half_width=0.04,
        options={"kind": "targeted", "epsilon": 0.1},
        strata={"a": (0.2, 0.2), "b": (0.8, -0.05)},
    ),
    "targeted, three systems": Setting(
        classes={6: 6000}, accuracies=(0.8, 0.8, 0.8), half_width=0.05, options={"kind": "targeted"}
    ),
    "targeted, mixed K, four systems": Setting(
        classes={4: 3000, 10: 5000},
        accuracies=(0.75,) * 4,
        half_width=0.05,
        options={"kind": "targeted", "epsilon": 0.2},
    ),
    "ordinary and questions": Setting(
        classes={5: 5000},
        accuracies=(0.8,),
        half_width=0.04,
        options={"costs": {"ordinary": 2.0, "question": 1.0}, "caps": {"ordinary": 150}},
    ),
    "ordinary and questions, mixed K": Setting(
        classes={4: 3000, 6: 3000},
        accuracies=(0.75,),
        half_width=0.05,
        options={"costs": {"ordinary": 1.5, "question": 1.0}, "caps": {"ordinary": 200}},
    ),
    "targeted and questions": Setting(
        classes={5: 5000},
        accuracies=(0.8,),
        half_width=0.04,
        options={"costs": {"targeted": 1.0, "question": 1.0}, "caps": {"targeted": 150}},
    ),
    "more ordinary labels, strata at different rates": Setting(
        classes={4: 3000},
        accuracies=(0.75, 0.6),
        half_width=0.04,
        options={},
        strata={"a": (0.4, 0.1), "b": (0.6, -0.05)},
        pilot={"a": 200, "b": 50},
    ),
    "more questions, mixed K, two systems": Setting(
        classes={3: 3000, 6: 4000},
        accuracies=(0.8, 0.7),
        half_width=0.06,
        options={},
        pilot={"": 400},
    ),
    "more targeted questions": Setting(
        classes={4: 2000, 8: 2000}, accuracies=(0.8,), half_width=0.04, options={}, pilot={"": 150}
    ),
    "more targeted questions, three systems": Setting(
        classes={6: 8000},
        accuracies=(0.85, 0.75, 0.7),
        half_width=0.05,
        options={},
        pilot={"": 400},
    ),
}
PILOT_KINDS = {
    "more ordinary labels, strata at different rates": "ordinary",
    "more questions, mixed K, two systems": "question",
    "more targeted questions": "targeted",
    "more targeted questions, three systems": "targeted",
}
IN_SHORT = ("ordinary, most items", "targeted, mixed K, strata", "targeted and questions")


class Population:
    """Items with a key, and the answers of every system; shares of right answers are those of the
    setting up to rounding.
    """

    def __init__(self, setting: Setting, rng: np.random.Generator) -> None:
        n = setting.n_items
        self.k = rng.permutation(np.repeat(list(setting.classes), list(setting.classes.values())))
        shares = setting.strata or {"": (1.0, 0.0)}
        cuts = np.rint(np.cumsum([0.0, *(share for share, _ in shares.values())]) * n).astype(int)
        self.stratum = np.repeat(list(shares), np.diff(cuts))
        self.key = rng.integers(self.k)
        self.systems = [f"system {i}" for i in range(len(setting.accuracies))]
        more = np.repeat([gain for _, gain in shares.values()], np.diff(cuts))
        self.answers, self.truth = {}, {}
        for name, accuracy in zip(self.systems, setting.accuracies, strict=True):
            right = rng.random(n) < accuracy + more
            self.answers[name] = np.where(
                right, self.key, (self.key + 1 + rng.integers(self.k - 1)) % self.k
            )
            self.truth[name] = float(right.mean())
        self.unlabelled = self.evidence()

    def evidence(self, judgements: Mapping[str, list[Any]] | None = None) -> Evidence:
        n = len(self.key)
        return Evidence.from_tables(
            answers={
                "item": list(range(n)) * len(self.systems),
                "system": [s for s in self.systems for _ in range(n)],
                "answer": np.concatenate(list(self.answers.values())).tolist(),
            },
            judgements=judgements or None,
            items={
                "item": list(range(n)),
                "n_classes": self.k.tolist(),
                "stratum": self.stratum.tolist(),
            },
        )

    def judged(self, routing: Routing) -> dict[str, list[Any]]:
        """What somebody who knows the key says; an open question gets the class."""
        rows = routing.columns()
        rows["class"] = [
            int(self.key[i]) if c is None else c
            for i, c in zip(rows["item"], rows["class"], strict=True)
        ]
        rows["verdict"] = [
            "yes" if self.key[i] == c else "no"
            for i, c in zip(rows["item"], rows["class"], strict=True)
        ]
        return rows


def pilot_plan(setting: Setting, kind: str) -> Plan:
    """A plan that only says how many labels of the pilot to draw."""
    made = plan_labels(
        n_classes=4,
        accuracy=0.7,
        budget=sum((setting.pilot or {}).values()),
        kind=kind,
        systems=len(setting.accuracies),
    )  # type: ignore[arg-type]
    if setting.strata:
        buy = {f"{name}/{kind}": n for name, n in (setting.pilot or {}).items()}
        return dataclasses.replace(
            made, buy=buy, inputs={**made.inputs, "strata": list(setting.strata)}
        )
    return made


def run(name: str, population: Population, seed: int) -> list[tuple[float, float, bool, bool]]:
    """Half-width over planned, cost over planned, whether the truth is covered and the estimator as
    said, for every system.
    """
    setting = SETTINGS[name]
    before: dict[str, list[Any]] = {}
    if setting.pilot is not None:
        plan = pilot_plan(setting, PILOT_KINDS[name])
        before = population.judged(route_items(population.unlabelled, plan=plan, seed=seed + 1000))
        evidence = population.evidence(before)
        plan = plan_accuracy(evidence, half_width=setting.half_width, **setting.options)
    else:
        evidence, plan = population.unlabelled, PLANS[name]
    routing = route_items(evidence, plan=plan, seed=seed)
    spent = routed_cost(plan, routing)
    new = population.judged(routing)
    assert not set(new["item"]) & set(before.get("item", ()))
    labels = {key: [*before.get(key, ()), *new[key]] for key in new}
    counts = count_accuracy(population.evidence(labels))
    found = []
    for system in population.systems:
        e = estimate_accuracy(counts, system=system)
        told = plan.inputs.get("by_system", {}).get(system) or plan.inputs["estimator"]
        as_said = (e.method, e.interval) == (told["method"], told["interval"])
        found.append(
            (
                e.width / 2 / plan.wanted,
                spent / plan.cost,
                e.low <= population.truth[system] <= e.high,
                as_said,
            )
        )
    return found


def routed_cost(plan: Plan, routing: Routing) -> float:
    kinds = {kind: n for kind, n in routing.counts.items() if kind in plan.inputs["costs"]}
    assert len(routing) == sum(kinds.values())
    return sum(plan.inputs["costs"][kind] * n for kind, n in kinds.items())


def plan_of(setting: Setting) -> Plan:
    strata = {
        name: round(share * setting.n_items) for name, (share, _) in setting.strata.items()
    } or None
    return plan_labels(
        n_classes=setting.classes,
        accuracy=min(setting.accuracies, key=lambda a: abs(a - 0.5)),
        strata=strata,
        systems=len(setting.accuracies),
        half_width=setting.half_width,
        **setting.options,
    )


class _Plans(dict[str, Plan]):
    def __missing__(self, name: str) -> Plan:
        self[name] = plan_of(SETTINGS[name])
        return self[name]


PLANS = _Plans()


def check(name: str, repetitions: int) -> None:
    population = Population(SETTINGS[name], np.random.default_rng(len(name)))
    rows = [run(name, population, seed) for seed in range(repetitions)]
    ratios, costs, covered, as_said = (
        np.array([[system[i] for system in row] for row in rows], dtype=float) for i in range(4)
    )
    worst = float(np.median(ratios, axis=0).max())
    told = f"half-width {worst:.3f}, covered {covered.mean(axis=0).min():.3f}, as said {as_said.mean():.3f}"
    assert worst <= WIDER, told
    assert np.all(np.abs(costs - 1) <= COST)
    assert covered.mean(axis=0).min() >= 0.95 - 2 * (0.95 * 0.05 / repetitions) ** 0.5, told
    assert as_said.mean() >= 0.8, told


@pytest.mark.parametrize("name", IN_SHORT)
def test_a_plan_is_kept(name: str) -> None:
    check(name, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_every_plan_is_kept(name: str) -> None:
    check(name, REPETITIONS)


@pytest.mark.parametrize("name", IN_SHORT)
def test_a_plan_over_a_population_verifies_and_names_its_estimator(name: str) -> None:
    plan = PLANS[name]
    assert plan.inputs["estimator"] == {"method": plan.method, "interval": plan.interval}
    assert plan.verify()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, setting in SETTINGS.items() if setting.pilot is None]
)
def test_every_plan_over_a_population_verifies(name: str) -> None:
    assert PLANS[name].verify()
