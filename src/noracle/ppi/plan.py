"""What to ask of whom, how often: the best plan within budgets, or the smallest budget for a wanted
half-width.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from noracle.bounds.binomial import ndtri
from noracle.errors import ArgumentError, require
from noracle.ppi.covariance import Array
from noracle.ppi.measurements import CostModel, LabelType, Measurement
from noracle.ppi.planner import FoundPlan, Planner
from noracle.ppi.problem import (
    Population,
    Problem,
    ProblemBuilder,
    Target,
    priced_raters,
    read_budgets,
    read_costs,
    read_population,
)
from noracle.ppi.solver import target_variance
from noracle.results import Assumption, Guarantee, Kind, Plan, check_confidence

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class CovarianceLoss(NamedTuple):
    """What the estimation of the covariance from ``n`` rows can cost, as factors of the variance.

    ``typical`` is (n − 2)/(n − p − 2), the expected factor for p = k − 1 tuned Gaussian raters.
    ``bound`` holds with probability ``confidence`` for Gaussian rows and the empirical covariance;
    infinite where n is too small for it to say anything.
    """

    n: int
    k: int
    typical: float
    bound: float
    confidence: float


def covariance_loss(*, n: int, k: int, confidence: float = 0.95) -> CovarianceLoss:
    """What a covariance of k variables, estimated from n rows, can cost.

    For Gaussian rows the singular values of the whitened sample lie in √n ± (√k + t) with
    probability 1 − 2exp(−t²/2), which gives e and the bound (1 + e)/(1 − e).

    References
    ----------
    Davidson and Szarek, "Local operator theory, random matrices and Banach spaces" (2001), Theorem
    II.13.
    """
    p = k - 1
    typical = (n - 2) / (n - p - 2) if n - p - 2 > 0 else math.inf
    t = math.sqrt(2 * math.log(2 / (1 - confidence)))
    r = (math.sqrt(k) + t) / math.sqrt(max(n - 1, 1))
    e = (1 + r) ** 2 - 1
    return CovarianceLoss(n, k, typical, (1 + e) / (1 - e) if e < 1 else math.inf, confidence)


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
    labels: Sequence[LabelType] = (),
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
    open_ = None in (budgets.values() if isinstance(budgets, Mapping) else [budgets])
    neither = half_width is None and open_
    wrong = half_width is not None and not (half_width > 0 and math.isfinite(half_width))
    require(not neither, "budgets must be given, or a half_width; got neither.")
    require(not wrong, f"half_width must be positive; got {half_width}.")
    limits, free = read_budgets(budgets)
    models = read_costs(costs, tuple(limits))
    called = names if names is not None else priced_raters(models, target, labels)
    population = read_population(pilot, cov, called, labels, strata, shares, shrink)
    sold = ProblemBuilder(population, target, models, limits, labels, accuracy, caps or {})
    problem = sold.problem(measurements, have)
    if half_width is not None and free is None:
        raise ArgumentError("budgets must leave one budget open (None) for a half_width.")
    z = float(ndtri((1 + confidence) / 2))
    wanted = None if half_width is None else (half_width / z) ** 2
    planner = Planner(problem, free, wanted)
    found = planner.find(None, problem.prior())
    return _as_plan(population, planner, found, z, confidence, half_width, target)


def _as_plan(
    population: Population,
    planner: Planner,
    found: FoundPlan,
    z: float,
    confidence: float,
    half_width: float | None,
    target: Target,
) -> Plan:
    problem, real, place = planner.problem, found.real, planner.place or 0
    weights, hand = _weights(problem, found)
    lower = real.lower_bound
    gap = max(0.0, found.variance / lower - 1) if lower > 0 else math.nan
    if half_width is not None:
        gap = max(0.0, found.spent[place] / found.least - 1) if found.least > 0 else 0.0
    predicted = z * math.sqrt(found.variance)
    diagnostics: dict[str, Any] = {
        "variance": found.variance,
        "standard_error": math.sqrt(found.variance),
        "half_width": predicted,
        "lower_bound": lower,
        "gap": gap,
        "relaxed_variance": real.variance,
        "relaxed_gap": real.gap,
        "prices": dict(zip(planner.names, real.prices.tolist(), strict=True)),
        "spent": dict(zip(planner.names, found.spent.tolist(), strict=True)),
        "weights": weights,
        "weights_in_hand": hand,
        "y": real.y.tolist(),
        "problem": problem.to_dict(),
        "generated": problem.generated,
    }
    if half_width is not None:
        diagnostics["least_budget"] = found.least
    n_pilot, raters = population.n_pilot, population.raters
    if n_pilot is not None:
        loss = covariance_loss(n=n_pilot, k=len(raters))
        diagnostics["covariance_loss"] = loss._asdict()
    simpler = planner.simpler(raters)
    alternatives = [_alternative(planner, z, name, sold, prior) for name, sold, prior in simpler]
    classical = next(a for a in alternatives if a["name"] == "classical")
    diagnostics["classical"] = classical
    if classical["feasible"] and half_width is None:
        diagnostics["variance_ratio"] = found.variance * z**2 / classical["predicted"] ** 2
    limits = {
        name: float(found.budgets[i]) if i != planner.place else None
        for i, name in enumerate(planner.names)
    }
    in_hand: Counter[str] = Counter()
    for one, n in problem.have:
        in_hand[one.name] += n
    shown = dict(target) if isinstance(target, Mapping) else target
    inputs = {
        "planner": "budget",
        "target": shown if isinstance(shown, (str, dict)) else [float(v) for v in shown],
        "raters": list(raters),
        "strata": list(population.strata) or None,
        "budgets": limits,
        "in_hand": dict(in_hand),
        "pilot_rows": n_pilot,
    }
    return Plan(
        goal="budget" if half_width is None else "half-width",
        wanted=float(found.budgets[place]) if half_width is None else half_width,
        predicted=predicted,
        buy=found.buy,
        cost=float(found.spent[place]),
        confidence=confidence,
        method="least variance over sets of raters within the budgets, rounded",
        interval="normal approximation",
        guarantee=_promise(confidence, problem, n_pilot),
        inputs=inputs,
        alternatives=tuple(alternatives),
        diagnostics=diagnostics,
        notes=_notes(n_pilot, planner, found),
    )


def _weights(
    problem: Problem, found: FoundPlan
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """λ_I = n_I Σ_I⁻¹ H_I M⁻¹ a of what is bought, and the share M0 M⁻¹ a of what is in hand."""
    bought = [(found.measurements[j], int(found.n[j])) for j in np.flatnonzero(found.n)]
    prior, cov, a = problem.prior(), problem.covariance, problem.target
    M = prior + sum((n * m.information(cov) for m, n in bought), np.zeros_like(cov))
    d = np.where(np.diag(M) > 0, 1 / np.sqrt(np.where(np.diag(M) > 0, np.diag(M), 1.0)), 1.0)
    inverse = np.linalg.pinv(M * np.outer(d, d), rcond=1e-11, hermitian=True)
    y = d * (inverse @ (d * a))
    y = y + d * (inverse @ (d * (a - M @ y)))
    weights = {m.name: m.weights(n, cov, problem.names, y) for m, n in bought}
    share = dict(zip(problem.names, (prior @ y).tolist(), strict=True))
    return weights, share if problem.have else {}


def _alternative(
    planner: Planner, z: float, name: str, sold: Sequence[Measurement], prior: Array
) -> dict[str, Any]:
    row = {"name": name, "buy": {}, "cost": math.nan, "predicted": math.nan, "feasible": False}
    try:
        if sold:
            plan = planner.find(sold, prior)
            buy, cost, variance = plan.buy, float(plan.spent[planner.place or 0]), plan.variance
        else:
            buy, cost = {}, 0.0
            variance = float(target_variance(prior, planner.problem.target))
            if not (math.isfinite(variance) and variance <= (planner.wanted or math.inf)):
                raise ArgumentError("nothing for sale is enough")
    except ArgumentError as error:
        return row | {"why": str(error)}
    predicted = z * math.sqrt(variance)
    return row | {"buy": buy, "cost": cost, "predicted": predicted, "feasible": True}


def _promise(confidence: float, problem: Problem, n_pilot: int | None) -> Guarantee:
    known = "as given"
    if n_pilot is not None:
        known = f"estimated from a pilot, at least {n_pilot} rows for each pair"
    names = {"known covariance": known, "iid items": ""}
    if problem.have:
        names["rows in hand are missing completely at random"] = ""
    if any(f.noise for f in problem.families) or any(m.noise for m in problem.listed):
        names["ruled-out classes are drawn uniformly, whatever raters and answers say"] = ""
    assumptions = tuple(Assumption(name=name, detail=detail) for name, detail in names.items())
    return Guarantee(kind=Kind.HEURISTIC, error_rate=1 - confidence, assumptions=assumptions)


def _notes(n_pilot: int | None, planner: Planner, found: FoundPlan) -> tuple[str, ...]:
    notes = ["the plan rests on the covariance; the estimate and its interval do not"]
    prices = found.real.prices.tolist()
    for name, price, budget in zip(planner.names, prices, found.budgets, strict=True):
        if price * budget > 1e-6 * found.variance:
            notes.append(f"one more unit of {name!r} lowers the variance by {price:.3g}")
    if n_pilot is not None and n_pilot < 50:
        notes.append(f"the pilot has only {n_pilot} rows; 50 or more make the plan dependable")
    return tuple(notes)
