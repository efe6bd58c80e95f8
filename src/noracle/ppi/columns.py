"""Column generation: the best allocation over all sets of variables without writing all of them
down, and how it changes with the budget.
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
from noracle.ppi.measurements import Measurement, SetPrices, information_of
from noracle.ppi.problem import Family, Problem
from noracle.ppi.solver import Allocation, Program, solve
from noracle.results import Plan

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

SWEEP_TO = 20
"""Up to so many variables all sets are priced in one sweep."""
_MOST_ROUNDS = 60
_MOST_NODES = 400_000
_BLOCK = 256


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """The allocation over the sets that were looked at, with a bound over all sets.

    Attributes
    ----------
    sets
        The sets of variables in the last program.
    allocation
        Its solution; ``lower_bound`` and ``gap`` hold against all sets of variables.
    ratio
        f: every set I has q_I(y) ≤ f·C_I·u for the stored y and u.
    rounds, nodes
        How many programs were solved, and how many nodes branch and bound looked at (0 where sweeps
        sufficed).
    """

    sets: tuple[tuple[int, ...], ...]
    allocation: Allocation
    ratio: float
    rounds: int
    nodes: int


def solve_columns(
    covariance: Array,
    prices: Sequence[SetPrices],
    budgets: Array,
    prior: Array,
    target: Array,
    *,
    variables: Sequence[int] | None = None,
    tolerance: float = 1e-6,
    start: Sequence[tuple[int, ...]] = (),
    sweep_to: int = SWEEP_TO,
) -> Columns:
    """The best allocation over all non-empty sets of the variables.

    Parameters
    ----------
    covariance
        Σ, shape (k, k).
    prices
        One :class:`SetPrices` for each budget, over ``variables``.
    variables
        The variables that sets are made of; all by default. Others may be in the prior and in the
        target.
    budgets, prior, target
        As in :class:`~noracle.ppi.solver.Program`.
    tolerance
        Relative gap to prove. Sweeps prove 1e-6 easily; branch and bound takes longer the smaller
        it is.
    start
        Sets to begin with, besides those of one variable, all of them, and those with a variable of
        the target.

    Returns
    -------
    Columns
        ``allocation.gap`` is proved against all 2^k − 1 sets, or says how much was.

    Examples
    --------
    >>> cov = np.array([[1.0, 0.8], [0.8, 1.0]])
    >>> prices = SetPrices(per_item=0.0, sums=(10.0, 0.1), largest=(0.0, 0.0))
    >>> found = solve_columns(cov, [prices], np.array([100.0]), np.zeros((2, 2)), np.array([1.0, 0.0]))
    >>> found.allocation.gap < 1e-6, len(found.sets) <= 3
    (True, True)
    """
    at = list(range(len(covariance)) if variables is None else variables)
    k, local = len(at), covariance[np.ix_(at, at)]
    if len(prices) != len(budgets) or any(len(p.sums) != k for p in prices):
        raise ArgumentError(
            f"prices must have one entry for each of {len(budgets)} budgets and {k} variables."
        )
    columns = dict.fromkeys(
        _first_sets(target[at], k, [tuple(at.index(i) for i in s) for s in start])
    )
    best_lower, best_y, best_u, ratio = (
        0.0,
        np.zeros(len(covariance)),
        np.zeros(len(budgets)),
        np.inf,
    )
    nodes = rounds = 0
    while True:
        rounds += 1
        sets = tuple(columns)
        program = _program(covariance, at, sets, prices, budgets, prior, target)
        answer = solve(program, tolerance=min(1e-8, tolerance / 10))
        seen = dataclasses.replace(answer, y=answer.y[at])
        if k <= sweep_to:
            f, new = _price_by_sweep(local, seen, prices)
        else:
            f, new = np.inf, _climb(local, seen, sets, prices, tolerance)
            if not new:
                f, new, looked = _price_by_bounds(local, seen, prices, budgets, tolerance)
                nodes += looked
        if np.isfinite(f):
            v = answer.y
            lower = float(target @ v) ** 2 / (
                float(v @ prior @ v) + f * float(budgets @ answer.prices)
            )
            if lower > best_lower:
                best_lower, best_y, best_u, ratio = lower, v, answer.prices, f
        new = [s for s in new if s not in columns]
        if answer.variance <= best_lower * (1 + tolerance) or not new or rounds == _MOST_ROUNDS:
            break
        columns.update(dict.fromkeys(new))
    allocation = dataclasses.replace(
        answer,
        lower_bound=min(best_lower, answer.variance),
        gap=max(0.0, answer.variance / best_lower - 1) if best_lower > 0 else np.inf,
        y=best_y,
        prices=best_u,
    )
    named = tuple(tuple(at[i] for i in s) for s in sets)
    return Columns(
        sets=named, allocation=allocation, ratio=float(ratio), rounds=rounds, nodes=nodes
    )


def _first_sets(target: Array, k: int, start: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    wanted = np.flatnonzero(target)
    pairs = [tuple(sorted((int(i), j))) for i in wanted for j in range(k) if i != j]
    return [*((i,) for i in range(k)), tuple(range(k)), *pairs, *(tuple(sorted(s)) for s in start)]


def _program(
    covariance: Array,
    at: Sequence[int],
    sets: Sequence[tuple[int, ...]],
    prices: Sequence[SetPrices],
    budgets: Array,
    prior: Array,
    target: Array,
) -> Program:
    measurements = [
        Measurement(name="", observes=tuple(at[i] for i in s), cost=tuple(p.of(s) for p in prices))
        for s in sets
    ]
    costs = np.array([m.cost for m in measurements])
    return Program(
        information=information_of(measurements, covariance),
        costs=costs,
        budgets=budgets,
        prior=prior,
        target=target,
    )


# --------------------------------------------------------------------------------------------------------------------
# sweep


def sweep(covariance: Array, y: Array) -> Array:
    """q_I(y) = y_Iᵀ Σ_I⁻¹ y_I for all 2^k sets; the bits of the index say which variables are in I.

    Variables are eliminated one after the other for all sets at once: leaving a variable out drops
    its row; taking it in adds (residual)²/(pivot) to q and conditions the rest on it. The work is
    about 6·2^k.

    Examples
    --------
    >>> sweep(np.eye(2), np.array([1.0, 3.0])).tolist()
    [0.0, 1.0, 9.0, 10.0]
    """
    q = np.zeros(1)
    rest = np.asarray(y, dtype=np.float64)[None]
    S = np.asarray(covariance, dtype=np.float64)[None]
    for _ in range(len(covariance)):
        pivot, first = S[:, 0, 0], rest[:, 0]
        share = S[:, 1:, 0] / pivot[:, None]
        q = np.concatenate([q, q + first**2 / pivot])
        rest = np.concatenate([rest[:, 1:], rest[:, 1:] - share * first[:, None]])
        inner = S[:, 1:, 1:]
        S = np.concatenate([inner, inner - share[:, :, None] * S[:, 0:1, 1:]])
    return q


def sweep_prices(prices: Sequence[SetPrices], u: Array, k: int) -> Array:
    """C_I·u for all 2^k sets, in the order of :func:`sweep`; the empty set has the fee per item."""
    total = np.full(1, sum(weight * p.per_item for p, weight in zip(prices, u, strict=True)))
    for i in range(k):
        total = np.concatenate(
            [total, total + sum(weight * p.sums[i] for p, weight in zip(prices, u, strict=True))]
        )
    for p, weight in zip(prices, u, strict=True):
        if any(p.largest):
            most = np.zeros(1)
            for i in range(k):
                most = np.concatenate([most, np.maximum(most, p.largest[i])])
            total += weight * most
    return total


def _price_by_sweep(
    covariance: Array, answer: Allocation, prices: Sequence[SetPrices]
) -> tuple[float, list[tuple[int, ...]]]:
    k = len(covariance)
    used = sweep(covariance, answer.y)
    paid = sweep_prices(prices, answer.prices, k)
    used[0], paid[0] = 0.0, 1.0
    with np.errstate(divide="ignore"):
        ratios = np.where(used > 0, used / paid, 0.0)
    most = min(4 * k, len(ratios) - 1)
    top = np.argpartition(ratios, -most)[-most:]
    top = top[np.argsort(-ratios[top])]
    new = [
        tuple(i for i in range(k) if index >> i & 1)
        for index in top.tolist()
        if ratios[index] > 1 + 1e-10
    ]
    return float(ratios.max()), new


# -------------------------------------------------------------------------------------------------------------
# local search


def _climb(
    covariance: Array,
    answer: Allocation,
    sets: Sequence[tuple[int, ...]],
    prices: Sequence[SetPrices],
    tolerance: float,
    kept: int = 40,
) -> list[tuple[int, ...]]:
    """Sets that are worth more than they cost, by changing one variable at a time in those that are
    bought: quick, and no proof.
    """
    k = len(covariance)
    inside = np.zeros((int(np.sum(answer.n > 0)), k), dtype=bool)
    for row, j in enumerate(np.flatnonzero(answer.n > 0).tolist()):
        inside[row, list(sets[j])] = True
    best = 1 + tolerance / 10
    found: dict[tuple[int, ...], float] = {}
    for _ in range(2 * k):
        near = np.unique((inside[:, None, :] ^ np.eye(k, dtype=bool)).reshape(-1, k), axis=0)
        near = near[near.any(axis=1)]
        ratios = _ratios(covariance, answer, near, prices)
        top = np.argsort(-ratios)[:kept]
        if not ratios[top[0]] > best * (1 + 1e-9):
            break
        best = float(ratios[top[0]])
        inside = near[top]
        found.update(
            {
                tuple(np.flatnonzero(near[j]).tolist()): float(ratios[j])
                for j in top
                if ratios[j] > 1 + tolerance / 10
            }
        )
    return _best_first(found)[:kept]


def _ratios(
    covariance: Array, answer: Allocation, inside: Mask, prices: Sequence[SetPrices]
) -> Array:
    """q_I(y)/(C_I·u) of the sets whose variables are marked."""
    both = inside[:, :, None] & inside[:, None, :]
    S = np.where(both, covariance, 0.0) + np.where(inside, 0.0, 1.0)[:, :, None] * np.eye(
        inside.shape[1]
    )
    y = np.where(inside, answer.y, 0.0)
    used = np.einsum("bk,bk->b", y, np.linalg.solve(S, y[..., None])[..., 0])
    paid = np.zeros(len(inside))
    for p, weight in zip(prices, answer.prices, strict=True):
        paid += weight * (
            p.per_item
            + inside @ np.array(p.sums)
            + np.where(inside, np.array(p.largest), 0.0).max(axis=1)
        )
    return np.asarray(used / paid, dtype=np.float64)


# ---------------------------------------------------------------------------------------------------------
# branch and bound


def _price_by_bounds(
    covariance: Array,
    answer: Allocation,
    prices: Sequence[SetPrices],
    budgets: Array,
    tolerance: float,
) -> tuple[float, list[tuple[int, ...]], int]:
    share = (
        float(budgets @ answer.prices) / answer.variance
    )  # how much of the bound the ratio touches; the rest is in hand
    f = 1 + 0.95 * tolerance / min(max(share, 1e-3), 1.0)
    found, proved, nodes = refute(covariance, answer.y, prices, answer.prices, f)
    if proved:
        return f, [], nodes
    return np.inf, found, nodes


@dataclasses.dataclass(slots=True, eq=False)
class _Nodes:
    """Partly decided sets: what is conditioned on the variables taken so far, for the variables
    still open.
    """

    S: Array
    rest: Array
    open: Mask
    taken: Mask
    worth: Array  # q of what is taken, less f times its price without the part that is a maximum
    most: Array  # the maxima so far, for each budget that has one
    start: Array  # where to begin the relaxation

    def pick(self, index: NDArray[np.intp] | Mask | slice) -> _Nodes:
        return _Nodes(*(getattr(self, f.name)[index] for f in dataclasses.fields(self)))


def refute(
    covariance: Array,
    y: Array,
    prices: Sequence[SetPrices],
    u: Array,
    f: float,
    *,
    most_nodes: int = _MOST_NODES,
    enough: int = 30,
) -> tuple[list[tuple[int, ...]], bool, int]:
    """Prove that q_I(y) ≤ f·C_I·u for every non-empty set I, or find sets that break it.

    Returns
    -------
    tuple
        Sets that break the claim (best first), whether the claim is proved, and how many nodes were
        looked at.

    Notes
    -----
    q_I(y) = max over z supported on I of 2yᵀz − zᵀΣz. With a diagonal D such that A = Σ − D is
    positive semi-definite and prices p_i, every v bounds what any set of open variables can add:

        max_T q_T − Σ_T p_i  ≤  vᵀ A v + Σ_i max(0, (y − A v)_i² / D_i − p_i).

    v is found by accelerated proximal steps on the convex relaxation; the bound holds for any v.

    Examples
    --------
    >>> prices = SetPrices(per_item=0.0, sums=(1.0, 10.0), largest=(0.0, 0.0))
    >>> refute(np.eye(2), np.array([1.0, 3.0]), [prices], np.ones(1), 1.0)[1]
    True
    >>> refute(np.eye(2), np.array([1.0, 4.0]), [prices], np.ones(1), 1.0)[0]
    [(1,), (0, 1)]
    """
    k = len(covariance)
    scale = 1 / np.sqrt(np.diag(covariance))
    S = covariance * np.outer(scale, scale)
    sums = f * np.array(
        [sum(w * p.sums[i] for p, w in zip(prices, u, strict=True)) for i in range(k)]
    )
    fee = f * float(sum(w * p.per_item for p, w in zip(prices, u, strict=True)))
    peaks = f * np.array(
        [[w * x for x in p.largest] for p, w in zip(prices, u, strict=True) if any(p.largest)]
    ).reshape(-1, k)
    root = _Nodes(
        S=S[None],
        rest=(y * scale)[None],
        open=np.ones((1, k), dtype=bool),
        taken=np.zeros((1, k), dtype=bool),
        worth=np.array([-fee]),
        most=np.zeros((1, len(peaks))),
        start=np.zeros((1, k)),
    )
    stack, nodes = [root], 0
    found: dict[tuple[int, ...], float] = {}
    while stack:
        block = stack.pop()
        while stack and len(block.worth) < _BLOCK:
            block = _join(block, stack.pop())
        if len(block.worth) > _BLOCK:
            stack.append(block.pick(slice(_BLOCK, None)))
            block = block.pick(slice(0, _BLOCK))
        nodes += len(block.worth)
        if nodes > most_nodes:
            return _best_first(found), False, nodes
        bound, v, score, part = _relax(block, sums)
        hopeful = ~(
            block.worth - block.most.sum(axis=1) + bound <= 0
        )  # what is not a number is not proved
        if not hopeful.any():
            continue
        block, v, score, part = block.pick(hopeful), v[hopeful], score[hopeful], part[hopeful]
        _try_sets(block, score > 0, S, y * scale, sums, fee, peaks, found)
        if len(found) >= enough:
            return _best_first(found), False, nodes
        left: Mask = np.asarray(block.open.any(axis=1))
        if not left.any():
            continue
        block, part = block.pick(left), part[left]
        block.start = v[left]
        # Branch where the relaxation takes the largest part of a variable, but not all of it.
        i = np.argmax(
            np.where(block.open, np.where(part < 1, part, 1e-6) + 1e-9 * np.abs(block.rest), -1.0),
            axis=1,
        )
        stack += [_leave(block, i), _take(block, i, sums, peaks)]
    return _best_first(found), not found, nodes


def _join(a: _Nodes, b: _Nodes) -> _Nodes:
    return _Nodes(
        *(np.concatenate([getattr(a, f.name), getattr(b, f.name)]) for f in dataclasses.fields(a))
    )


def _best_first(found: dict[tuple[int, ...], float]) -> list[tuple[int, ...]]:
    return sorted(found, key=lambda s: -found[s])


def diagonal_part(S: Array) -> Array:
    """Diagonals D with S − D positive semi-definite, in proportion to the conditional variances;
    for many matrices at once.
    """
    conditional = 1 / np.einsum("...ii->...i", np.linalg.inv(S))
    root = np.sqrt(conditional)
    least = np.linalg.eigvalsh(S / (root[..., :, None] * root[..., None, :]))[..., :1]
    return np.asarray(conditional * np.maximum(least * (1 - 1e-9) - 1e-13, 1e-15), dtype=np.float64)


def _relax(block: _Nodes, p: Array, iterations: int = 40) -> tuple[Array, Array, Array, Array]:
    """The bound of each node, the point that gives it, what each variable contributes there, and
    how nearly it is taken (0 to 1).
    """
    diagonal = np.eye(len(p))
    S = block.S + np.where(block.open, 0.0, 1.0)[:, :, None] * diagonal
    D = np.where(block.open, diagonal_part(S), 1.0)
    A = S - D[:, :, None] * diagonal
    y = np.where(block.open, block.rest, 0.0)
    slope, knee = 2 * np.sqrt(p * D), np.sqrt(p / D)
    L = np.maximum(2 * np.abs(A).sum(axis=-1).max(axis=-1, keepdims=True), 1e-9)
    z = np.where(block.open, block.start, 0.0)
    ahead, t = z, 1.0
    for _ in range(iterations):
        centre = ahead - (2 / L) * ((A @ ahead[..., None])[..., 0] - y)
        size = np.abs(centre)
        small = np.maximum(size - slope / L, 0.0)
        new = np.where(
            block.open, np.sign(centre) * np.where(small > knee, L * size / (L + 2 * D), small), 0.0
        )
        following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead = new + ((t - 1) / following) * (new - z)
        z, t = new, following
    Az = (A @ z[..., None])[..., 0]
    score = np.where(block.open, (y - Az) ** 2 / D - p, 0.0)
    bound = np.einsum("bk,bk->b", z, Az) + np.maximum(score, 0.0).sum(axis=1)
    return bound, z, score, np.abs(z) / (knee + 1e-300)


def _try_sets(
    block: _Nodes,
    likely: Mask,
    S: Array,
    y: Array,
    p: Array,
    fee: float,
    peaks: Array,
    found: dict[tuple[int, ...], float],
) -> None:
    """Look at the sets that the relaxation likes, together with what is taken so far."""
    for mask in {row.tobytes(): row for row in block.taken | likely}.values():
        chosen = np.flatnonzero(mask)
        key = tuple(chosen.tolist())
        if not key or key in found:
            continue
        value = (
            float(y[chosen] @ np.linalg.solve(S[np.ix_(chosen, chosen)], y[chosen]))
            - float(p[chosen].sum())
            - fee
        )
        value -= float(peaks[:, chosen].max(axis=1).sum()) if len(peaks) else 0.0
        if value > 1e-12:
            found[key] = value


def _leave(block: _Nodes, i: NDArray[np.intp]) -> _Nodes:
    at = np.arange(len(i))
    still = block.open.copy()
    still[at, i] = False
    S = block.S.copy()
    S[at, i, :] = 0.0
    S[at, :, i] = 0.0
    return _Nodes(
        S=S,
        rest=block.rest,
        open=still,
        taken=block.taken,
        worth=block.worth,
        most=block.most,
        start=block.start,
    )


def _take(block: _Nodes, i: NDArray[np.intp], p: Array, peaks: Array) -> _Nodes:
    at = np.arange(len(i))
    pivot, first, column = block.S[at, i, i], block.rest[at, i], block.S[at, :, i]
    share = column / pivot[:, None]
    still, taken = block.open.copy(), block.taken.copy()
    still[at, i], taken[at, i] = False, True
    S = block.S - share[:, :, None] * column[:, None, :]
    S[at, i, :] = 0.0
    S[at, :, i] = 0.0
    return _Nodes(
        S=S,
        rest=block.rest - share * first[:, None],
        open=still,
        taken=taken,
        worth=block.worth + first**2 / pivot - p[i],
        most=np.maximum(block.most, peaks[:, i].T) if len(peaks) else block.most,
        start=block.start,
    )


# ---------------------------------------------------------------------------- How the best plan
# changes with the budget: the plan's own problem, solved again for smaller and larger budgets.


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
