"""What to buy next, and the questions to ask."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from noracle._version import __version__
from noracle.results.base import Guarantee, Result


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(Result):
    """What to buy next: counts by kind of label, what they cost, and what they will give.

    ``goal`` is the wanted number (for example a half-width of 0.02), ``predicted`` the number the
    plan gives. ``verify()`` recomputes the prediction in another way than the planner did.

    Examples
    --------
    >>> from noracle import plan_labels
    >>> plan = plan_labels(n_classes=10, accuracy=0.78, match=300)
    >>> plan.buy, plan.cost, plan.verify()
    ({'complementary': 3377}, 3377.0, True)
    """

    schema: ClassVar[str] = "plan/1"

    goal: str
    wanted: float
    predicted: float
    buy: Mapping[str, int]
    cost: float
    confidence: float
    method: str
    interval: str
    guarantee: Guarantee
    inputs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    alternatives: tuple[Mapping[str, Any], ...] = ()
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    def verify(self) -> bool:
        """Recompute what the plan promises without the code that made it; True if the promise
        holds.
        """
        if self.inputs.get("planner") == "budget":
            from noracle.ppi.verify import verify_budget_plan

            return verify_budget_plan(self)
        if self.inputs.get("planner") == "certificate":
            from noracle.superhuman.plan import verify_certificate_plan

            return verify_certificate_plan(self)
        if self.inputs.get("planner") == "validation":
            from noracle.learn.compare import verify_validation_plan

            return verify_validation_plan(self)
        if self.inputs.get("planner") == "pairs":
            from noracle.ranking.pairs import verify_pair_plan

            return verify_pair_plan(self)
        from noracle.ppi.verify import verify_label_plan

        return verify_label_plan(self)

    def __repr__(self) -> str:
        bought = ", ".join(f"{n} {kind}" for kind, n in self.buy.items())
        return f"Plan({self.goal} {self.wanted:g}: buy {bought}; predicted {self.predicted:.4g}, cost {self.cost:g})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Routing(Result):
    """The questions to ask, in the order to ask them: is this item of this class?

    ``rows`` are (item, class, propensity); they are the ``judgements`` table without its verdicts.
    A row with neither class nor propensity is an open question: say the class. With design
    ``grades`` they are (item, system, propensity): is this answer right?

    Examples
    --------
    >>> from noracle import Evidence, route_items
    >>> evidence = Evidence.from_tables(answers={"item": [1, 2], "system": ["a", "a"], "answer": [0, 1]}, n_classes=4)
    >>> routing = route_items(evidence, seed=7)
    >>> len(routing), routing.columns()["propensity"]
    (2, [0.25, 0.25])
    """

    schema: ClassVar[str] = "routing/1"

    rows: tuple[tuple[Any, Any, float | None], ...]
    design: str
    epsilon: float
    seed: int
    systems: tuple[str, ...] = ()
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    def columns(self) -> dict[str, list[Any]]:
        """The rows as columns ``item``, ``class`` (or ``system``), ``propensity``, for any data
        frame.
        """
        graded = self.design == "grades"
        names = ("item", "system" if graded else "class", "propensity")
        found = {name: [row[k] for row in self.rows] for k, name in enumerate(names)}
        if graded and all(p is None for p in found["propensity"]):
            del found["propensity"]
        return found

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Routing({len(self.rows)} questions, {self.design}, seed {self.seed})"
