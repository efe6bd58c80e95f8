"""What to ask of whom, how often: the best plan within budgets, or the smallest budget for a wanted
half-width.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.bounds.special import ndtri
from noracle.errors import ArgumentError
from noracle.ppi.certificate import target_variance
from noracle.ppi.diagnostics import covariance_loss
from noracle.ppi.measurements import CostModel, Label, Measurement
from noracle.ppi.planner import Found, Planner
from noracle.ppi.problem import Problem
from noracle.ppi.setting import Setting, Target, make_setting
from noracle.results import Assumption, Guarantee, Kind, Plan, check_confidence

Array = NDArray[np.float64]


def plan_budget(
    pilot: object = None,
    *,
    target: Target,
    costs: CostModel | Mapping[str, CostModel],
    budgets: float | Mapping[str, float | None] | None = None,
    cov: ArrayLike | Mapping[str, ArrayLike] | None = None,
    names: Sequence[str] | None = None,
    caps: Mapping[str, float] | None = None,
    have: object = None,
    labels: Sequence[Label] = (),
    accuracy: float | None = None,
    half_width: float | None = None,
    measurements: Literal["auto"] | Sequence[Any] = "auto",
    strata: str | Sequence[object] | None = None,
    shares: Mapping[str, float] | None = None,
    shrink: bool = True,
    confidence: float = 0.95,
) -> Plan:
    """Plan which labels and raters to buy, on how many items each, for the mean of the target.

    Parameters
    ----------
    pilot
        Scores from which the covariance is estimated: a 2-D array, a dict of columns, a file or
        data frame with a column for each rater (null: not observed), or a long table ``item``,
        ``rater``, ``value``. Or give ``cov``.
    target
        The rater whose mean is wanted, or a mapping of raters to coefficients (a difference of
        means is ``{"a": 1, "b": -1}``).
    costs
        Price of each variable; or a cost model (:class:`Additive`, :class:`Maximum`,
        :class:`Cascade`, :class:`Table`), or a function of a tuple of names; for several budgets a
        mapping of budget to these. A variable without a price is not for sale.
    budgets
        A number, or a mapping of budget to number. With ``half_width`` the budget that is None is
        made as small as possible.
    cov
        The covariance, in the order of ``names`` (by default that of ``costs``, target first); a
        mapping of stratum to covariance with ``shares``.
    caps
        The most that can be had of a rater, a kind of label or a set (``"human+judge"``).
    have
        What is paid already and will be used: ``"pilot"``, rows (NaN: not observed), or counts such
        as ``{"human+judge": 250}``. Values must be missing completely at random.
    labels
        Further kinds of label of the target, see :func:`ordinary` and :func:`complementary`.
    accuracy
        The mean of the target, where kinds of label need it and there is no pilot.
    half_width
        Find the smallest budget for an interval of this half-width.
    measurements
        ``"auto"`` for all sets of variables that are for sale; or a list of sets (``"human+judge"``
        or tuples) and
        :class:`Measurement` objects.
    strata
        The column of the pilot that names strata, or one entry for each row: covariances differ,
        and counts are planned for each stratum.
    shares
        Share of each stratum in the population; by default as in the pilot.
    shrink
        Shrink the pilot's correlations (Ledoit and Wolf).

    Returns
    -------
    Plan
        ``buy`` maps sets to whole counts (0 or at least 2). ``predicted`` is the half-width z·√V.
        ``diagnostics`` has the standard error, the gap to a proved lower bound, the shadow price of
        each budget, what is spent, the weights of the estimate and the problem itself.
        ``alternatives`` are the classical plan and simpler ones. ``verify()`` checks all of it
        without this code.

    Raises
    ------
    ArgumentError
        If the target cannot be covered, a budget is below the cheapest plan, a price is zero
        without a cap, or the covariance is singular or not positive semi-definite.

    Notes
    -----
    V(n) = aᵀ(M0 + Σ n_I P_Iᵀ Σ_I⁻¹ P_I)⁻¹a is least subject to the budgets. The gap compares V of
    the whole counts with a bound that no plan over *any* of the allowed sets can beat. It holds for
    the covariance as given: how far that can be off is in ``diagnostics["covariance_loss"]``.

    Assumes that items are drawn independently, that what is bought on an item does not depend on
    its values, and that the covariance is that of the items to come. None of these touches the
    validity of the interval of :func:`estimate_mean` on the data that are then bought.

    References
    ----------
    Cowen-Breen et al., "Multiple-prediction-powered inference" (2026), with the corrections on the
    errata page. With a known covariance this is the sample allocation of multilevel best linear
    unbiased estimators (Schaden and Ullmann 2020), a c-optimal design.

    Examples
    --------
    >>> cov = [[0.2275, 0.1140, 0.1161], [0.1140, 0.2436, 0.1443], [0.1161, 0.1443, 0.2475]]
    >>> plan = plan_budget(
    ...     cov=cov, names=["human", "pro", "flash"], target="human", costs={"pro": 1.0, "flash": 0.24}, budgets=500,
    ...     have={"human+pro+flash": 250},
    ... )
    >>> round(plan.diagnostics["variance"] / (0.2275 / 250), 3), plan.verify()
    (0.77, True)
    """
    check_confidence(confidence)
    if half_width is None and (
        budgets is None or (isinstance(budgets, Mapping) and None in budgets.values())
    ):
        raise ArgumentError(
            "budgets must be given, or a half_width to find the smallest for; got neither."
        )
    if half_width is not None and not (half_width > 0 and math.isfinite(half_width)):
        raise ArgumentError(f"half_width must be positive; got {half_width}.")
    setting = make_setting(
        pilot,
        cov=cov,
        names=names,
        target=target,
        costs=costs,
        budgets=budgets,
        caps=caps,
        have=have,
        labels=tuple(labels),
        accuracy=accuracy,
        measurements=measurements,
        strata=strata,
        shares=shares,
        shrink=shrink,
    )
    if half_width is not None and setting.free is None:
        raise ArgumentError(
            "budgets must leave one budget open (None) when a half_width is wanted; got numbers for all."
        )
    z = float(ndtri((1 + confidence) / 2))
    wanted = None if half_width is None else (half_width / z) ** 2
    planner = Planner(setting.problem, setting.free, wanted)
    found = planner.find(None, setting.problem.prior())
    return _as_plan(setting, planner, found, z, confidence, half_width, target, pilot is not None)


# ---------------------------------------------------------------------------------------------------------------
# the result


def _as_plan(
    setting: Setting,
    planner: Planner,
    found: Found,
    z: float,
    confidence: float,
    half_width: float | None,
    target: Target,
    piloted: bool,
) -> Plan:
    problem = setting.problem
    place = planner.place or 0
    bought: list[int] = np.flatnonzero(found.n).tolist()
    weights, hand = _weights(problem, [(found.measurements[j], int(found.n[j])) for j in bought])
    shown_budgets = {
        name: (float(found.budgets[i]) if i != planner.place else None)
        for i, name in enumerate(planner.names)
    }
    lower = found.real.lower_bound
    diagnostics: dict[str, Any] = {
        "variance": found.variance,
        "standard_error": math.sqrt(found.variance),
        "half_width": z * math.sqrt(found.variance),
        "lower_bound": lower,
        "gap": max(0.0, found.variance / lower - 1) if lower > 0 else math.nan,
        "relaxed_variance": found.real.variance,
        "relaxed_gap": found.real.gap,
        "prices": dict(zip(planner.names, found.real.prices.tolist(), strict=True)),
        "spent": dict(zip(planner.names, found.spent.tolist(), strict=True)),
        "weights": weights,
        "weights_in_hand": hand,
        "y": found.real.y.tolist(),
        "problem": problem.to_dict(),
        "generated": problem.generated,
    }
    if half_width is not None:
        diagnostics["least_budget"] = found.least
        diagnostics["gap"] = (
            max(0.0, found.spent[place] / found.least - 1) if found.least > 0 else 0.0
        )
    if setting.n_pilot is not None:
        diagnostics["covariance_loss"] = dataclasses.asdict(
            covariance_loss(n=setting.n_pilot, k=len(setting.raters))
        )
    alternatives = _alternatives(setting, planner, z)
    classical = next(a for a in alternatives if a["name"] == "classical")
    diagnostics["classical"] = classical
    if classical["feasible"] and half_width is None:
        diagnostics["variance_ratio"] = found.variance * z**2 / classical["predicted"] ** 2
    wanted = half_width if half_width is not None else float(found.budgets[place])
    rows = dict.fromkeys(m.name for m, _ in problem.have)
    return Plan(
        goal="half-width" if half_width is not None else "budget",
        wanted=wanted,
        predicted=z * math.sqrt(found.variance),
        buy={found.measurements[j].name: int(found.n[j]) for j in bought},
        cost=float(found.spent[place]),
        confidence=confidence,
        method="least variance over sets of raters within the budgets, rounded",
        interval="normal approximation",
        guarantee=_promise(confidence, setting, piloted),
        inputs={
            "planner": "budget",
            "target": target
            if isinstance(target, str)
            else dict(target)
            if isinstance(target, Mapping)
            else [float(v) for v in target],
            "raters": list(setting.raters),
            "strata": list(setting.strata) or None,
            "budgets": shown_budgets,
            "in_hand": {name: sum(n for m, n in problem.have if m.name == name) for name in rows},
            "pilot_rows": setting.n_pilot,
        },
        alternatives=tuple(alternatives),
        diagnostics=diagnostics,
        notes=_notes(setting, planner, found),
    )


def _weights(
    problem: Problem, bought: Sequence[tuple[Measurement, int]]
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """λ_I = n_I Σ_I⁻¹ H_I M⁻¹ a for what is bought, and the share M0 M⁻¹ a of what is in hand;
    together they sum to the target.
    """
    prior = problem.prior()
    k = len(problem.covariance)
    M = prior + sum((n * m.information(problem.covariance) for m, n in bought), np.zeros((k, k)))
    d = np.where(np.diag(M) > 0, 1 / np.sqrt(np.where(np.diag(M) > 0, np.diag(M), 1.0)), 1.0)
    y = d * (np.linalg.pinv(M * np.outer(d, d), rcond=1e-11, hermitian=True) @ (d * problem.target))
    y = y + d * (
        np.linalg.pinv(M * np.outer(d, d), rcond=1e-11, hermitian=True)
        @ (d * (problem.target - M @ y))
    )
    weights = {}
    for one, n in bought:
        values = n * np.linalg.solve(one.seen(problem.covariance), one.rows(k) @ y)
        said = (
            [problem.names[i] for i in one.observes]
            if one.matrix is None
            else [f"row {r}" for r in range(len(values))]
        )
        weights[one.name] = dict(zip(said, values.tolist(), strict=True))
    share = prior @ y
    return weights, {
        name: float(v) for name, v in zip(problem.names, share, strict=True)
    } if problem.have else {}


def _alternatives(setting: Setting, planner: Planner, z: float) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    place = planner.place or 0
    for name, measurements, prior in planner.simpler(setting):
        row: dict[str, Any] = {
            "name": name,
            "buy": {},
            "cost": math.nan,
            "predicted": math.nan,
            "feasible": False,
        }
        try:
            if not measurements:
                variance = float(target_variance(prior[None], planner.problem.target[None])[0])
                enough = math.isfinite(variance) and (
                    planner.wanted is None or variance <= planner.wanted
                )
                row |= (
                    {"cost": 0.0, "predicted": z * math.sqrt(variance), "feasible": True}
                    if enough
                    else {"why": "nothing for sale is enough"}
                )
            else:
                plan = planner.find(measurements, prior)
                row |= {
                    "buy": {
                        plan.measurements[j].name: int(plan.n[j]) for j in np.flatnonzero(plan.n)
                    },
                    "cost": float(plan.spent[place]),
                    "predicted": z * math.sqrt(plan.variance),
                    "feasible": True,
                }
        except ArgumentError as error:
            row["why"] = str(error)
        found.append(row)
    return found


def _promise(confidence: float, setting: Setting, piloted: bool) -> Guarantee:
    known = (
        f"estimated from a pilot, at least {setting.n_pilot} rows for each pair"
        if piloted
        else "as given"
    )
    assumptions = [
        Assumption(name="known covariance", detail=known),
        Assumption(name="iid items"),
        *(
            [Assumption(name="rows in hand are missing completely at random")]
            if setting.problem.have
            else []
        ),
    ]
    if any(f.noise for f in setting.problem.families) or any(
        m.noise for m in setting.problem.listed
    ):
        assumptions.append(
            Assumption(
                name="ruled-out classes are drawn uniformly, whatever raters and answers say"
            )
        )
    return Guarantee(kind=Kind.HEURISTIC, error_rate=1 - confidence, assumptions=tuple(assumptions))


def _notes(setting: Setting, planner: Planner, found: Found) -> tuple[str, ...]:
    notes = ["the plan rests on the covariance; the estimate and its interval do not"]
    for name, price in zip(planner.names, found.real.prices.tolist(), strict=True):
        if price * found.budgets[planner.names.index(name)] > 1e-6 * found.variance:
            notes.append(f"one more unit of {name!r} lowers the variance by {price:.3g}")
    if setting.n_pilot is not None and setting.n_pilot < 50:
        notes.append(
            f"the pilot has only {setting.n_pilot} rows; 50 or more make the plan dependable"
        )
    return tuple(notes)
