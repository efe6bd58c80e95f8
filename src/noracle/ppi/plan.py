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
from noracle.ppi.measurements import CostModel, Label, Measurement, information_of
from noracle.ppi.planner import Found, Planner
from noracle.ppi.problem import Problem, Setting, Target, make_setting
from noracle.ppi.solver import Program, solve, target_variance
from noracle.results import Assumption, Guarantee, Kind, Plan, check_confidence

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """Bounds of the variance of a plan made for an estimated covariance, in units of the least
    variance.

    ``multiplicative`` is (1 + e)/(1 − e), infinite if e ≥ 1. ``theorem4`` and ``theorem5`` are the
    paper's (Frobenius and operator norm), NaN where they do not apply.
    """

    error: float
    multiplicative: float
    theorem4: float
    theorem5: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CovarianceLoss:
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


def stability(
    true: ArrayLike, estimated: ArrayLike, *, least_variance: float, classical_variance: float
) -> Stability:
    """Bounds of R(n̂, λ̂)/R(n*, λ*) for a plan made with ``estimated`` where ``true`` holds.

    Parameters
    ----------
    true, estimated
        Σ and Σ̂.
    least_variance
        R(n*, λ*), the variance of the best plan under Σ.
    classical_variance
        σ²_classical, the least variance of a sample mean within the budgets.

    Notes
    -----
    For fixed (n, λ) the variance R(n, λ) is linear in Σ, so (1 − e)R ≤ R̂ ≤ (1 + e)R, and R(n̂, λ̂)
    ≤ R̂(n̂, λ̂)/(1 − e) ≤ R̂(n*, λ*)/(1 − e) ≤ (1 + e)/(1 − e)·R(n*, λ*). Theorems 4 and 5: R(n̂,
    λ̂) ≤ R(n*, λ*) + 4 σ²_classical δ/γ_min for δ ≤ γ_min/2. All three need an estimate that is
    independent of the samples that are averaged.

    Examples
    --------
    >>> found = stability([[1.0, 0.5], [0.5, 1.0]], [[1.1, 0.55], [0.55, 1.1]], least_variance=0.01, classical_variance=0.012)
    >>> round(found.error, 6), round(found.multiplicative, 4)
    (0.1, 1.2222)
    """
    S, E = np.asarray(true, dtype=np.float64), np.asarray(estimated, dtype=np.float64)
    if S.shape != E.shape or S.ndim != 2:
        raise ArgumentError(
            f"true and estimated must be covariances of one size; got {S.shape} and {E.shape}."
        )
    L = np.linalg.cholesky(S)
    relative = np.linalg.solve(L, np.linalg.solve(L, E).T)
    e = float(np.abs(np.linalg.eigvalsh((relative + relative.T) / 2) - 1).max())
    least = float(np.linalg.eigvalsh(S)[0])

    def printed(delta: float) -> float:
        return (
            1 + 4 * classical_variance * delta / least / least_variance
            if delta <= least / 2
            else math.nan
        )

    return Stability(
        error=e,
        multiplicative=(1 + e) / (1 - e) if e < 1 else math.inf,
        theorem4=printed(float(np.linalg.norm(E - S))),
        theorem5=printed(float(np.linalg.norm(E - S, 2))),
    )


def covariance_loss(*, n: int, k: int, confidence: float = 0.95) -> CovarianceLoss:
    """What a covariance of k variables, estimated from n rows, can cost.

    Notes
    -----
    For Gaussian rows the singular values of the whitened sample lie in √n ± (√k + t) with
    probability 1 − 2exp(−t²/2), which gives e and the bound (1 + e)/(1 − e).

    References
    ----------
    Davidson and Szarek, "Local operator theory, random matrices and Banach spaces" (2001), Theorem
    II.13.

    Examples
    --------
    >>> loss = covariance_loss(n=250, k=11)
    >>> round(loss.typical, 3), loss.bound > 1.5
    (1.042, True)
    """
    p = k - 1
    typical = (n - 2) / (n - p - 2) if n - p - 2 > 0 else math.inf
    t = math.sqrt(2 * math.log(2 / (1 - confidence)))
    r = (math.sqrt(k) + t) / math.sqrt(max(n - 1, 1))
    e = (1 + r) ** 2 - 1
    return CovarianceLoss(
        n=n,
        k=k,
        typical=typical,
        bound=(1 + e) / (1 - e) if e < 1 else math.inf,
        confidence=confidence,
    )


def theorem9_rate(covariance: ArrayLike, *, n: int, proxy: float) -> tuple[float, float]:
    """The two terms under the root of Theorem 9, without its unknown constants: K⁴γ²_max k²/N and
    K⁸γ⁴_max k³/(a²N).

    The paper prints γ_max in the second term; only γ⁴_max has the units of a squared covariance.
    The terms say how the loss with Ledoit–Wolf shrinkage falls with N; they are no bound without
    the constants.

    Examples
    --------
    >>> first, second = theorem9_rate([[1.0, 0.5], [0.5, 2.0]], n=100, proxy=1.0)
    >>> halved = theorem9_rate([[1.0, 0.5], [0.5, 2.0]], n=200, proxy=1.0)
    >>> round(first / halved[0], 6), round(second / halved[1], 6)
    (2.0, 2.0)
    """
    S = np.asarray(covariance, dtype=np.float64)
    k = len(S)
    largest = float(np.linalg.eigvalsh(S)[-1])
    spread = float(np.linalg.norm(S - np.eye(k) * np.trace(S) / k) ** 2) / k
    if spread <= 0:
        raise ArgumentError(
            "covariance must not be a multiple of the identity (Theorem 9 excludes it)."
        )
    return proxy**4 * largest**2 * k**2 / n, proxy**8 * largest**4 * k**3 / (spread * n)


def restricted_loss(program: Program, kept: Sequence[int]) -> float:
    """How many times the least variance a restricted collection needs: V over ``kept`` measurements
    divided by V over all.

    Examples
    --------
    >>> from noracle.ppi.solver import make_program
    >>> program = make_program([[[4.0]], [[2.0]]], [1.0, 1.0], 10.0, None, [1.0])
    >>> round(restricted_loss(program, [1]), 6)
    2.0
    """
    index = list(kept)
    small = dataclasses.replace(
        program, information=program.information[index], costs=program.costs[index]
    )
    return solve(small).variance / solve(program).variance


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where plans tend when budgets are small or large beside what is in hand.

    ``first`` is the set that the first unit of budget buys and ``rate`` what it lowers the variance
    by, per unit. ``floor`` is the variance when everything for sale is known exactly.
    """

    first: str
    rate: float
    floor: float


def limits(
    covariance: ArrayLike,
    measurements: Sequence[Measurement],
    prior: ArrayLike,
    target: ArrayLike,
    *,
    budget: int = 0,
) -> Limits:
    """The low- and high-budget limits of a plan with information in hand (Theorem 10, the right way
    round).

    Notes
    -----
    dV/dn_I = −yᵀ G_I y with y = M0⁻¹a, so that the first unit of budget goes to the set with the
    *largest* yᵀG_I y/c_I. With N full rows in hand y = Σa/N and yᵀG_I y = ρ_I/N², ρ_I = Cov_Iᵀ
    Σ_I⁻¹ Cov_I: the set with the largest ρ_I/c_I (printed: smallest). With a large budget the
    observed means are known, and only what they leave open remains.

    Examples
    --------
    >>> cov = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.2], [0.3, 0.2, 1.0]])
    >>> raters = [Measurement(name="good", observes=(1,), cost=(1.0,)), Measurement(name="poor", observes=(2,), cost=(1.0,))]
    >>> found = limits(cov, raters, 100 * np.linalg.inv(cov), [1.0, 0.0, 0.0])
    >>> found.first, round(found.floor * 100, 4) < 0.36
    ('good', True)
    """
    S, M0, a = (np.asarray(v, dtype=np.float64) for v in (covariance, prior, target))
    G = information_of(measurements, S)
    prices = np.array([m.cost[budget] for m in measurements])
    if not (prices > 0).all():
        raise ArgumentError(
            "measurements must have positive prices in this budget; a free one has no limit."
        )
    y = np.linalg.solve(M0, a)
    rates = np.einsum("jkl,k,l->j", G, y, y) / prices
    best = int(np.argmax(rates))
    known = sorted({i for m in measurements for i in m.observes})
    rest = [i for i in range(len(S)) if i not in known]
    floor = (
        float(a[rest] @ np.linalg.solve(M0[np.ix_(rest, rest)], a[rest]))
        if rest and a[rest].any()
        else 0.0
    )
    return Limits(first=measurements[best].name, rate=float(rates[best]), floor=floor)


# ----------------------------------------------------------------------------


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
