"""How the best plan changes with the budget: the plan's own problem, solved again for smaller and
larger budgets.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noracle.errors import ArgumentError
from noracle.ppi.columns import SWEEP_TO, solve_columns
from noracle.ppi.measurements import Measurement, SetPrices
from noracle.ppi.problem import Family, Problem
from noracle.ppi.program import Allocation
from noracle.ppi.solver import solve
from noracle.results import Plan

Array = NDArray[np.float64]
_FACTORS = (0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0)
_FEW_FACTORS = (0.25, 1.0, 4.0)
_NOTHING = 1e-6


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPoint:
    """The best plan for one budget, in real numbers: counts and weights by set, before they are
    rounded.
    """

    budget: float
    half_width: float
    n: Mapping[str, float]
    weights: Mapping[str, Mapping[str, float]]


def budget_path(plan: Plan, *, budgets: Sequence[float] | None = None) -> tuple[BudgetPoint, ...]:
    """Solve the problem of a plan again for other budgets.

    Parameters
    ----------
    plan
        A plan of :func:`~noracle.ppi.plan.plan_budget`; it may come from a file.
    budgets
        Values of the first budget, or of the one that was to be small. By default from an eighth of
        what the plan spends to eight times as much. Other budgets and caps stay as they are.

    Returns
    -------
    tuple of BudgetPoint
        From the smallest budget to the largest. Counts are real numbers, so that the curves do not
        jump with the rounding.

    Notes
    -----
    The weights of a set I are λ_I = n_I Σ_I⁻¹ P_I M⁻¹ a, with M the information of all that is
    bought and in hand. With growing budgets the sets of cheap raters saturate and the share of gold
    labels rises.

    References
    ----------
    Cowen-Breen et al., "Multiple-prediction-powered inference" (2026), Figures 2-5.

    Examples
    --------
    >>> from noracle.ppi import plan_budget
    >>> plan = plan_budget(cov=[[1.0, 0.9], [0.9, 1.0]], target="gold", costs={"gold": 1.0, "judge": 0.05}, budgets=100)
    >>> [sorted(point.n) for point in budget_path(plan, budgets=[50, 200])]
    [['gold+judge', 'judge'], ['gold+judge', 'judge']]
    """
    if plan.inputs.get("planner") != "budget":
        raise ArgumentError(
            "plan must be a plan across raters, made by plan_budget; got another plan."
        )
    problem = _problem(plan.diagnostics["problem"])
    names = list(problem.budgets)
    place = next((i for i, name in enumerate(names) if math.isnan(problem.budgets[name])), 0)
    spent = plan.cost if plan.cost > 0 else float(plan.wanted)
    factors = _FEW_FACTORS if problem.generated else _FACTORS
    values = [f * spent for f in factors] if budgets is None else [float(b) for b in budgets]
    if not all(v > 0 and math.isfinite(v) for v in values):
        raise ArgumentError(f"budgets must be positive numbers; got {values}.")
    limits = np.array(
        [math.nan if i == place else problem.budgets[name] for i, name in enumerate(names)]
    )
    z = NormalDist().inv_cdf((1 + plan.confidence) / 2)
    prior = problem.prior()
    fixed = None if problem.generated else problem.measurements()
    return tuple(
        _point(problem, fixed, prior, np.where(np.isnan(limits), v, limits), v, z)
        for v in sorted(values)
    )


def _point(
    problem: Problem,
    fixed: tuple[Measurement, ...] | None,
    prior: Array,
    budgets: Array,
    budget: float,
    z: float,
) -> BudgetPoint:
    if fixed is None:
        (family,) = problem.families
        tolerance = 1e-6 if len(family.variables) <= SWEEP_TO else 1e-3
        columns = solve_columns(
            problem.covariance,
            family.prices,
            budgets,
            prior,
            problem.target,
            variables=family.variables,
            tolerance=tolerance,
        )
        sets, found = (
            tuple(family.measurement(s, problem.names) for s in columns.sets),
            columns.allocation,
        )
    else:
        sets, found = fixed, solve(problem.program(fixed, budgets, prior))
    bought: list[int] = np.flatnonzero(
        found.n > _NOTHING * max(1.0, float(found.n.max(initial=0.0)))
    ).tolist()
    return BudgetPoint(
        budget=budget,
        half_width=z * math.sqrt(found.variance),
        n={sets[j].name: float(found.n[j]) for j in bought},
        weights={sets[j].name: _weights(problem, sets[j], found, j) for j in bought},
    )


def _weights(problem: Problem, one: Measurement, found: Allocation, j: int) -> dict[str, float]:
    """λ = n Σ_I⁻¹ H y, y being M⁻¹a."""
    values = found.n[j] * np.linalg.solve(
        one.seen(problem.covariance), one.rows(len(problem.target)) @ found.y
    )
    said = (
        [problem.names[i] for i in one.observes]
        if one.matrix is None
        else [f"row {r}" for r in range(len(values))]
    )
    return dict(zip(said, values.tolist(), strict=True))


def _problem(stored: Mapping[str, Any]) -> Problem:
    """The problem that a plan carries; the reverse of ``Problem.to_dict``."""
    return Problem(
        names=tuple(stored["names"]),
        covariance=np.array(stored["covariance"], dtype=np.float64),
        target=np.array(stored["target"], dtype=np.float64),
        budgets={
            name: math.nan if v is None else float(v) for name, v in stored["budgets"].items()
        },
        families=tuple(
            Family(
                variables=tuple(f["variables"]),
                prices=tuple(
                    SetPrices(
                        per_item=p["per_item"], sums=tuple(p["sums"]), largest=tuple(p["largest"])
                    )
                    for p in f["prices"]
                ),
                label=f["label"],
                noise=f["noise"],
                called=f["called"],
                prefix=f["prefix"],
            )
            for f in stored["families"]
        ),
        listed=tuple(_measurement(m) for m in stored["listed"]),
        have=tuple(
            (_measurement(entry["measurement"]), int(entry["n"])) for entry in stored["have"]
        ),
        set_caps=dict(stored["set_caps"]),
    )


def _measurement(stored: Mapping[str, Any]) -> Measurement:
    def rows(value: Any) -> tuple[tuple[float, ...], ...] | None:
        return None if value is None else tuple(tuple(float(v) for v in row) for row in value)

    return Measurement(
        name=stored["name"],
        observes=tuple(stored["observes"]),
        cost=tuple(float(c) for c in stored["cost"]),
        matrix=rows(stored.get("matrix")),
        noise=rows(stored.get("noise")),
    )
