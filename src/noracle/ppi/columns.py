"""Column generation: the best allocation over all sets of variables without writing all of them
down.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from noracle.errors import ArgumentError
from noracle.ppi.covariance import Array, Mask
from noracle.ppi.measurements import Measurement, SetPrices, information_of
from noracle.ppi.solver import Allocation, DesignProgram, solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

Set = tuple[int, ...]

SWEEP_TO = 20
"""Up to so many variables all sets are priced in one sweep."""
_MOST_ROUNDS = 60
_MOST_NODES = 400_000
_BLOCK, _ENOUGH = 256, 30


class Columns(NamedTuple):
    """The last ``sets`` with their allocation, where q_I(y) ≤ ``ratio``·C_I·u over all sets."""

    sets: tuple[Set, ...]
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
    sweep_to: int = SWEEP_TO,
) -> Columns:
    """The best allocation over all non-empty sets of the variables.

    ``prices`` has one :class:`SetPrices` for each budget, over ``variables`` (all by default; others
    may be in the prior and in the target). ``tolerance`` is the relative gap to prove against all
    2^k − 1 sets: sweeps prove 1e-6 easily, branch and bound takes longer the smaller it is; the gap
    of the allocation says what was proved.
    """
    at = list(range(len(covariance)) if variables is None else variables)
    k, local = len(at), covariance[np.ix_(at, at)]
    if len(prices) != len(budgets) or any(len(p.sums) != k for p in prices):
        raise ArgumentError("prices must have one entry for each budget and variable.")
    wanted = np.flatnonzero(target[at]).tolist()
    pairs = [tuple(sorted((i, j))) for i in wanted for j in range(k) if i != j]
    columns = dict.fromkeys([*((i,) for i in range(k)), tuple(range(k)), *pairs])
    best_lower, ratio = 0.0, np.inf
    best_y, best_u = np.zeros(len(covariance)), np.zeros(len(budgets))
    nodes = rounds = 0
    while True:
        rounds += 1
        sets = tuple(columns)
        named = tuple(tuple(at[i] for i in s) for s in sets)
        measured = [Measurement(name="", observes=seen, cost=()) for seen in named]
        costs = np.array([[p.of(s) for p in prices] for s in sets])
        information = information_of(measured, covariance)
        program = DesignProgram(information, costs, budgets, prior, target)
        answer = solve(program, tolerance=min(1e-8, tolerance / 10))
        seen = answer._replace(y=answer.y[at])
        if k <= sweep_to:
            f, new = _price_by_sweep(local, seen, prices)
        else:
            f, new = np.inf, _climb(local, seen, sets, prices, tolerance)
            if not new:
                # How much of the bound the ratio touches; the rest is in hand.
                share = float(budgets @ answer.prices) / answer.variance
                f = 1 + 0.95 * tolerance / min(max(share, 1e-3), 1.0)
                new, proved, looked = refute(local, seen.y, prices, answer.prices, f)
                f, nodes = f if proved else np.inf, nodes + looked
        if np.isfinite(f):
            v, u = answer.y, answer.prices
            lower = float(target @ v) ** 2 / (float(v @ prior @ v) + f * float(budgets @ u))
            if lower > best_lower:
                best_lower, best_y, best_u, ratio = lower, v, u, f
        new = [s for s in new if s not in columns]
        if answer.variance <= best_lower * (1 + tolerance) or not new or rounds == _MOST_ROUNDS:
            break
        columns.update(dict.fromkeys(new))
    gap = max(0.0, answer.variance / best_lower - 1) if best_lower > 0 else np.inf
    lower = min(best_lower, answer.variance)
    best = answer._replace(lower_bound=lower, gap=gap, y=best_y, prices=best_u)
    return Columns(named, best, float(ratio), rounds, nodes)


def sweep(covariance: Array, y: Array) -> Array:
    """q_I(y) = y_Iᵀ Σ_I⁻¹ y_I for all 2^k sets; the bits of the index say which variables are in I.

    Variables are eliminated one after the other for all sets at once: leaving a variable out drops
    its row; taking it in adds (residual)²/(pivot) to q and conditions the rest on it. The work is
    about 6·2^k.
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
    priced = list(zip(prices, u, strict=True))
    total = np.full(1, sum(weight * p.per_item for p, weight in priced))
    for i in range(k):
        one = sum(weight * p.sums[i] for p, weight in priced)
        total = np.concatenate([total, total + one])
    for p, weight in priced:
        if any(p.largest):
            most = np.zeros(1)
            for i in range(k):
                most = np.concatenate([most, np.maximum(most, p.largest[i])])
            total += weight * most
    return total


def _price_by_sweep(
    covariance: Array, answer: Allocation, prices: Sequence[SetPrices]
) -> tuple[float, list[Set]]:
    k = len(covariance)
    used = sweep(covariance, answer.y)
    paid = sweep_prices(prices, answer.prices, k)
    used[0], paid[0] = 0.0, 1.0
    with np.errstate(divide="ignore"):
        ratios = np.where(used > 0, used / paid, 0.0)
    most = min(4 * k, len(ratios) - 1)
    top = np.argpartition(ratios, -most)[-most:]
    top = top[np.argsort(-ratios[top])]
    over = [index for index in top.tolist() if ratios[index] > 1 + 1e-10]
    new = [tuple(i for i in range(k) if index >> i & 1) for index in over]
    return float(ratios.max()), new


def _climb(
    covariance: Array,
    answer: Allocation,
    sets: Sequence[Set],
    prices: Sequence[SetPrices],
    tolerance: float,
    kept: int = 40,
) -> list[Set]:
    """Sets worth more than they cost, by changing one variable at a time: quick, and no proof."""
    k = len(covariance)
    inside = np.zeros((int(np.sum(answer.n > 0)), k), dtype=bool)
    for row, j in enumerate(np.flatnonzero(answer.n > 0).tolist()):
        inside[row, list(sets[j])] = True
    best = 1 + tolerance / 10
    found: dict[Set, float] = {}
    for _ in range(2 * k):
        near = np.unique((inside[:, None, :] ^ np.eye(k, dtype=bool)).reshape(-1, k), axis=0)
        near = near[near.any(axis=1)]
        ratios = _ratios(covariance, answer, near, prices)
        top = np.argsort(-ratios)[:kept]
        if not ratios[top[0]] > best * (1 + 1e-9):
            break
        best = float(ratios[top[0]])
        inside = near[top]
        for j in top[ratios[top] > 1 + tolerance / 10]:
            found[tuple(np.flatnonzero(near[j]).tolist())] = float(ratios[j])
    return _best_first(found)[:kept]


def _ratios(
    covariance: Array, answer: Allocation, inside: Mask, prices: Sequence[SetPrices]
) -> Array:
    """q_I(y)/(C_I·u) of the sets whose variables are marked."""
    both = inside[:, :, None] & inside[:, None, :]
    outside = np.where(inside, 0.0, 1.0)[:, :, None] * np.eye(inside.shape[1])
    S = np.where(both, covariance, 0.0) + outside
    y = np.where(inside, answer.y, 0.0)
    used = np.einsum("bk,bk->b", y, np.linalg.solve(S, y[..., None])[..., 0])
    paid = np.zeros(len(inside))
    for p, weight in zip(prices, answer.prices, strict=True):
        largest = np.where(inside, np.array(p.largest), 0.0).max(axis=1)
        paid += weight * (p.per_item + inside @ np.array(p.sums) + largest)
    return np.asarray(used / paid, dtype=np.float64)


@dataclasses.dataclass(slots=True, eq=False)
class _Nodes:
    """Partly decided sets, conditioned on the variables taken so far."""

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
    most_nodes: int = _MOST_NODES,
) -> tuple[list[Set], bool, int]:
    """Prove that q_I(y) ≤ f·C_I·u for every non-empty set I, or find sets that break it: these
    (best first), whether the claim is proved, and how many nodes were looked at.

    Notes
    -----
    q_I(y) = max over z supported on I of 2yᵀz − zᵀΣz. With a diagonal D such that A = Σ − D is
    positive semi-definite and prices p_i, every v bounds what any set of open variables can add:

        max_T q_T − Σ_T p_i  ≤  vᵀ A v + Σ_i max(0, (y − A v)_i² / D_i − p_i).

    v is found by accelerated proximal steps on the convex relaxation; the bound holds for any v.
    """
    k = len(covariance)
    scale = 1 / np.sqrt(np.diag(covariance))
    S = covariance * np.outer(scale, scale)
    priced = list(zip(prices, u, strict=True))
    sums = f * np.array([sum(w * p.sums[i] for p, w in priced) for i in range(k)])
    fee = f * float(sum(w * p.per_item for p, w in priced))
    peaks = [[w * x for x in p.largest] for p, w in priced if any(p.largest)]
    costs = _Costs(sums, fee, f * np.array(peaks).reshape(-1, k))
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
    found: dict[Set, float] = {}
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
        # What is not a number is not proved.
        hopeful = ~(block.worth - block.most.sum(axis=1) + bound <= 0)
        if not hopeful.any():
            continue
        block, v, score, part = block.pick(hopeful), v[hopeful], score[hopeful], part[hopeful]
        _try_sets(block, score > 0, S, y * scale, costs, found)
        if len(found) >= _ENOUGH:
            return _best_first(found), False, nodes
        left: Mask = np.asarray(block.open.any(axis=1))
        if not left.any():
            continue
        block, part = block.pick(left), part[left]
        block.start = v[left]
        # Branch where the relaxation takes the largest part of a variable, but not all of it.
        likely = np.where(part < 1, part, 1e-6) + 1e-9 * np.abs(block.rest)
        i = np.argmax(np.where(block.open, likely, -1.0), axis=1)
        stack += [_leave(block, i), _take(block, i, costs)]
    return _best_first(found), not found, nodes


class _Costs(NamedTuple):
    """f times the prices at the dual prices of the budgets: sums, fee per item, and maxima."""

    sums: Array
    fee: float
    peaks: Array


def _join(a: _Nodes, b: _Nodes) -> _Nodes:
    names = [f.name for f in dataclasses.fields(a)]
    return _Nodes(*(np.concatenate([getattr(a, n), getattr(b, n)]) for n in names))


def _best_first(found: dict[Set, float]) -> list[Set]:
    return sorted(found, key=lambda s: -found[s])


def diagonal_part(S: Array) -> Array:
    """Diagonals D ∝ conditional variances with S − D positive semi-definite, for many S."""
    conditional = 1 / np.einsum("...ii->...i", np.linalg.inv(S))
    root = np.sqrt(conditional)
    least = np.linalg.eigvalsh(S / (root[..., :, None] * root[..., None, :]))[..., :1]
    return np.asarray(conditional * np.maximum(least * (1 - 1e-9) - 1e-13, 1e-15), dtype=np.float64)


def _relax(block: _Nodes, p: Array, iterations: int = 40) -> tuple[Array, Array, Array, Array]:
    """The bound of each node, its point, what each variable adds there, and how far it is taken."""
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
        shrunk = np.where(small > knee, L * size / (L + 2 * D), small)
        new = np.where(block.open, np.sign(centre) * shrunk, 0.0)
        following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead = new + ((t - 1) / following) * (new - z)
        z, t = new, following
    Az = (A @ z[..., None])[..., 0]
    score = np.where(block.open, (y - Az) ** 2 / D - p, 0.0)
    bound = np.einsum("bk,bk->b", z, Az) + np.maximum(score, 0.0).sum(axis=1)
    return bound, z, score, np.abs(z) / (knee + 1e-300)


def _try_sets(
    block: _Nodes, likely: Mask, S: Array, y: Array, costs: _Costs, found: dict[Set, float]
) -> None:
    """Look at the sets that the relaxation likes, together with what is taken so far."""
    for mask in {row.tobytes(): row for row in block.taken | likely}.values():
        chosen = np.flatnonzero(mask)
        key = tuple(chosen.tolist())
        if not key or key in found:
            continue
        rest = np.linalg.solve(S[np.ix_(chosen, chosen)], y[chosen])
        value = float(y[chosen] @ rest) - float(costs.sums[chosen].sum()) - costs.fee
        peaks = costs.peaks[:, chosen]
        value -= float(peaks.max(axis=1).sum()) if len(peaks) else 0.0
        if value > 1e-12:
            found[key] = value


def _leave(block: _Nodes, i: NDArray[np.intp]) -> _Nodes:
    at = np.arange(len(i))
    still, S = block.open.copy(), block.S.copy()
    still[at, i] = False
    S[at, i, :] = S[at, :, i] = 0.0
    return dataclasses.replace(block, S=S, open=still)


def _take(block: _Nodes, i: NDArray[np.intp], costs: _Costs) -> _Nodes:
    at = np.arange(len(i))
    pivot, first, column = block.S[at, i, i], block.rest[at, i], block.S[at, :, i]
    share = column / pivot[:, None]
    still, taken = block.open.copy(), block.taken.copy()
    still[at, i], taken[at, i] = False, True
    S = block.S - share[:, :, None] * column[:, None, :]
    S[at, i, :] = S[at, :, i] = 0.0
    rest, gain = block.rest - share * first[:, None], first**2 / pivot - costs.sums[i]
    most = np.maximum(block.most, costs.peaks[:, i].T) if len(costs.peaks) else block.most
    return _Nodes(S, rest, still, taken, block.worth + gain, most, block.start)
