"""How often to take each measurement: the allocation program solved, with its certificate.

The dual is small, whatever the number of measurements:

    max over y and u ≥ 0 of   2 aᵀy − yᵀ M0 y − bᵀu   subject to   yᵀ G_j y ≤ C_j·u  for every j.

Its multipliers are the counts n, and u is the price of each budget (what the variance loses per
unit of budget).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import ArgumentError, refuse

Array = NDArray[np.float64]

NULL = 1e-11
"""Eigenvalues below this share of the largest are directions that nothing measures."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class DesignProgram:
    """One allocation problem over J measurements, m budgets and k variables.

    ``information`` (J, k, k) is what one more of each measurement adds to the information matrix,
    ``costs`` (J, m) what it takes from the ``budgets`` (m,), ``prior`` (k, k) the information in
    hand, and ``target`` (k,) the wanted combination of means.
    """

    information: Array
    costs: Array
    budgets: Array
    prior: Array
    target: Array


class Allocation(NamedTuple):
    """The answer to a :class:`DesignProgram`: real counts, their variance, and the proof of ``gap``
    = variance/lower_bound − 1 by ``prices`` u (what the variance loses per unit of each budget) and
    ``y``, close to M(n)⁻¹a, with yᵀ G_j y ≤ C_j·u for every measurement.
    """

    n: Array
    variance: float
    lower_bound: float
    gap: float
    prices: Array
    y: Array
    iterations: int = 0


class AllocationBatch(NamedTuple):
    """The answers to many problems; ``variance`` is infinite where the target is out of reach."""

    n: Array
    variance: Array
    lower_bound: Array
    gap: Array
    prices: Array
    y: Array
    iterations: NDArray[np.int64]


def _check_numbers(G: Array, C: Array, b: Array, M0: Array, a: Array) -> None:
    """Refuse what no solver can use; every array may have a leading axis of problems."""
    given = {"information": G, "costs": C, "budgets": b, "prior": M0, "target": a}
    for name, values in given.items():
        if not np.isfinite(values).all():
            raise ArgumentError(f"{name} must be finite numbers; got NaN or infinity.")
    free, zero = not C.any(axis=-1).all(), not a.any(axis=-1).all()
    empty, negative = not (b > 0).all(), not (C >= 0).all()
    refuse(
        {
            f"budgets must be positive; got {b.min():g}. Leave out what a budget of zero forbids.": empty,
            f"costs must not be negative; got {C.min():g}.": negative,
            "costs must be positive in some budget; got a free measurement. Cap it or count it as in hand.": free,
            "target must not be zero.": zero,
        }
    )


class Scaled(NamedTuple):
    """Problems where budgets are 1, counts shares of them and a reference information is I."""

    G: Array  # (B, k, k, J + m): measurements last, then one for each budget, with G = 0
    C: Array
    M0: Array
    a: Array
    unit: Array  # counts are shares divided by this
    W: Array  # y in the old units is W y
    value: Array  # variances are divided by this
    covered: NDArray[np.bool_]


def _scale(G: Array, C: Array, b: Array, M0: Array, a: Array) -> Scaled:
    """Bring problems to these units; a target that nothing measures is marked and replaced."""
    size, J, k = G.shape[:3]
    shares = C / b[:, None, :]
    unit = np.maximum.reduce(shares, axis=-1)
    shares = shares / unit[..., None]
    per_share = (1 / unit)[:, None, :]
    reference = M0 + (per_share @ G.reshape(size, J, k * k)).reshape(size, k, k) / J
    d, values, vectors = _unit_eigen(reference)
    kept = values > NULL * np.maximum(values[:, -1:], 1e-300)
    widths = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    W = d[:, :, None] * vectors * widths[:, None, :]
    parts = ((a * d)[:, None, :] @ vectors)[:, 0] ** 2
    covered = np.where(kept, 0.0, parts).sum(axis=-1) <= 1e-12 * parts.sum(axis=-1)
    scaled_a = (a[:, None, :] @ W)[:, 0]
    value = (scaled_a**2).sum(axis=-1)
    covered &= value > 0
    if not covered.all():
        value = np.where(covered, value, 1.0)
        scaled_a = np.where(covered[:, None], scaled_a, np.eye(k)[0])
    scaled_a = scaled_a / np.sqrt(value)[:, None]
    # Wᵀ G_j W in two products of all G_j stacked; between them each G_j W is turned. The budgets
    # are measurements that say nothing.
    turned = (G.reshape(size, J * k, k) @ W).reshape(size, J, k, k).swapaxes(2, 3)
    seen = (turned.reshape(size, J * k, k) @ W).reshape(size, J, k * k).swapaxes(1, 2)
    information = np.zeros((size, k, k, J + b.shape[-1]))
    inside = information.reshape(size, k * k, -1)[..., :J]
    np.divide(seen, unit[:, None, :], out=inside)
    prior = W.swapaxes(1, 2) @ M0 @ W
    if not kept.all():
        prior[:, np.arange(k), np.arange(k)] += ~kept
    return Scaled(information, shares, prior, scaled_a, unit, W, value, covered)


def _unit_eigen(M: Array) -> tuple[Array, Array, Array]:
    """Scales d, eigenvalues and eigenvectors of D M D, which has a unit diagonal."""
    diagonal = M.diagonal(axis1=-2, axis2=-1)
    d = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(M * d[..., :, None] * d[..., None, :])
    return d, values, vectors


def variance_of(program: DesignProgram, n: ArrayLike) -> float:
    """V(n) = aᵀ M(n)⁺ a, infinite if the target is not in the range of M(n)."""
    counts = np.asarray(n, dtype=np.float64)
    k = program.target.size
    M = program.prior + (counts @ program.information.reshape(len(counts), k * k)).reshape(k, k)
    return float(target_variance(M, program.target))


def target_variance(M: Array, a: Array) -> Array:
    """aᵀ M⁺ a of many problems, on a unit diagonal; infinite where a is out of range."""
    d, values, vectors = _unit_eigen(M)
    parts = ((a * d)[..., None, :] @ vectors)[..., 0, :] ** 2
    kept = values > NULL * np.maximum(values[..., -1:], 1e-300)
    inside = np.where(kept, parts / np.where(kept, values, 1.0), 0.0).sum(axis=-1)
    covered = np.where(kept, 0.0, parts).sum(axis=-1) <= 1e-12 * parts.sum(axis=-1)
    return np.where(covered, inside, np.inf)


def interior_variance(M: Array, a: Array) -> Array:
    """As target_variance, faster where M is far from singular; infinite where it is NaN."""
    try:
        solved = np.linalg.solve(M, a[..., None])
    except np.linalg.LinAlgError:
        solved = np.zeros((*a.shape, 1))
    row = solved.swapaxes(1, 2)
    value: Array = (row @ a[..., None])[:, 0, 0]
    # 2aᵀx − xᵀMx ≤ V for every x: the size of the correction shows how far to trust the solution.
    held = (row @ M @ solved)[:, 0, 0]
    sound = (value > 0) & (np.abs(value - held) <= 1e-10 * value)
    if not sound.all():
        value = np.where(sound, value, np.inf)
        rest = np.flatnonzero(~sound & np.isfinite(M).all(axis=(-2, -1)))
        value[rest] = target_variance(M[rest], a[rest])
    return value


def dual_bound(
    gain: ArrayLike, held: ArrayLike, used: Array, paid: Array, worth: ArrayLike
) -> tuple[Array, Array, Array]:
    """The bound (aᵀy)² / (yᵀ M0 y + f·bᵀu) of many problems, f the largest yᵀ G_j y / (C_j·u), and
    what to multiply y and u by so that 2aᵀy − yᵀ M0 y − bᵀu is the bound itself.

    ``gain`` is aᵀy, ``held`` is yᵀ M0 y, ``worth`` is bᵀu; ``used`` and ``paid`` have yᵀ G_j y and
    C_j·u for each measurement j. With the multipliers yᵀ G_j y ≤ C_j·u holds for all j. Call it
    where numpy may divide by zero.
    """
    gain = np.asarray(gain)
    f = np.where(used > 0, used / paid, 0.0).max(axis=-1)
    t = gain / (np.asarray(held) + f * np.asarray(worth))
    bound = gain * t
    fine = (gain > 0) & (bound > 0) & np.isfinite(bound)
    return np.where(fine, bound, 0.0), np.where(fine, t, 0.0), np.where(fine, f * t**2, 0.0)


# The iteration: a primal–dual interior-point method with slacks of their own, for many problems at
# once.

_MOST_ITERATIONS = 80
_LEAST_LEFT = 0.01  # a step that goes further loses digits of n: slacks are small differences of large numbers
_LOOK = 16  # the bounds are looked at after so many steps, however far from the end


@dataclasses.dataclass(slots=True)
class Best:
    """The best bounds so far, the counts behind the upper and the dual point behind the lower one."""

    n: Array
    upper: Array
    y: Array
    u: Array
    lower: Array
    iterations: NDArray[np.int64]


@dataclasses.dataclass(slots=True)
class _Iterate:
    """Where the problems stand that still go on. With J measurements and m budgets, L = J + m: a
    budget is one more measurement with G = 0, whose count is what is left of it and whose slack is
    its price.
    """

    live: NDArray[np.int64]  # which problems these are
    G: Array  # (B, k, k, L)
    M0: Array  # (B, k, k)
    a: Array  # (B, k)
    before: Array  # (B,) the variance with what is in hand
    n: Array  # (B, L)
    slack: Array  # (B, L)
    z: Array  # (B, k + m): y and v
    M: Array  # (B, k, k): M0 + Σ n_j G_j
    table: Array  # (B, k + m + 2, L): −G_j y; C_j; the residual of the slack; 1/n

    def keep(self, going: NDArray[np.bool_]) -> None:
        """Go on with some of the problems."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name)[going])

    def refresh(self) -> None:
        """Bring M and the rows −G_j y up to date."""
        (size, k), L = self.a.shape, self.n.shape[1]
        self.M = self.M0 + (self.G.reshape(size, k * k, L) @ self.n[..., None]).reshape(size, k, k)
        rows = self.table[:, :k].reshape(size, 1, k * L)
        np.matmul(-self.z[:, None, :k], self.G.reshape(size, k, k * L), out=rows)


def _interior_point(s: Scaled, tolerance: float) -> Best:
    """Newton steps on the optimality conditions with n_j s_j = μ → 0. Call it where numpy may
    divide by zero.

    Half of the dual is max aᵀy − ½yᵀ M0 y − bᵀv with slacks s_j = C_j·v − ½yᵀ G_j y ≥ 0; the prices
    are u = 2v. Its conditions are M(n) y = a and Cᵀn = 1. With the columns A_j = (−G_j y, C_j), z =
    (y, v), d = n/s and the residual r_j = A_j·(y/2, v) − s_j, one step solves

        (A diag(d) Aᵀ + M ⊕ 0) dz = (a − M0 y, −1) + A(μ/s − d·r),   ds = Aᵀdz + r,   dn = μ/s − n − d·ds.

    The right-hand side is linear in μ: the step towards μ = 0 says how large μ should be, and both
    parts are added.
    """
    state = _start(s)
    (size, J, m), k = s.C.shape, s.a.shape[-1]
    n, y, u = np.zeros((size, J)), np.zeros((size, k)), np.zeros((size, m))
    steps = np.zeros(size, dtype=np.int64)
    best = Best(n, np.full(size, np.inf), y, u, np.zeros(size), steps)
    halves = np.where(np.arange(k + m) < k, 0.5, 1.0)
    for iteration in range(_MOST_ITERATIONS):
        wanted = ((state.z * halves)[:, None, :] @ state.table[:, :-2])[:, 0]  # C_j·v − ½yᵀ G_j y
        product = state.n * state.slack
        total = np.add.reduce(product, axis=-1, keepdims=True)
        end = (total <= 2 * tolerance).any() and _near(state, total, tolerance)
        if end or iteration % _LOOK == _LOOK - 1:
            _look(state, best, wanted, iteration)
            upper, lower = best.upper[state.live], best.lower[state.live]
            apart = upper > lower * (1 + tolerance * _moved(state.before, upper))
            going = apart & (total[:, 0] > 1e-18 * (J + m))
            if not going.any():
                break
            if 2 * going.sum() <= len(going):
                state.keep(going)
                wanted, product, total = wanted[going], product[going], total[going]
        _step(state, wanted, product, total)
    return best


def _start(s: Scaled) -> _Iterate:
    """Budgets spent evenly with one idle share, y to match, prices half as high again."""
    (size, J, m), k = s.C.shape, s.a.shape[-1]
    n = np.full((size, J + m), 1.0 / (J + 1))
    n[:, J:] = 1 - s.C.sum(axis=1) * (1.0 / (J + 1))
    table = np.zeros((size, k + m + 2, J + m))
    table[:, k:-2, :J] = s.C.swapaxes(1, 2)
    table[:, k:-2, J:] = np.eye(m)
    before = interior_variance(s.M0, s.a) if s.M0.any() else np.full(size, np.inf)
    z = np.zeros((size, k + m))
    state = _Iterate(np.arange(size), s.G, s.M0, s.a, before, n, n, z, s.M0, table)
    state.refresh()
    z[:, :k] = np.linalg.solve(state.M, s.a[..., None])[..., 0]
    state.refresh()
    used = np.minimum((z[:, None, :k] @ table[:, :k])[:, 0], 0.0)  # −yᵀ G_j y
    level = (used[:, :J] / s.C.sum(axis=-1)).min(axis=-1, keepdims=True)
    z[:, k:] = np.maximum(-0.75 * level, 1e-6)
    state.slack = 0.5 * used + (z[:, None, k:] @ table[:, k:-2])[:, 0]
    return state


def _moved(before: Array, after: Array) -> Array:
    """How much the budgets move the variance in hand, in [0.001, 1]: the scale of the gap."""
    return np.minimum(np.maximum(before / after - 1, 1e-3), 1.0)


def _near(state: _Iterate, total: Array, tolerance: float) -> bool:
    """Whether the gap that Σ n s foretells (twice it, beside aᵀy) is small in some problem."""
    gain = (state.a * state.z[:, : state.a.shape[-1]]).sum(axis=-1)
    return bool((2 * total[:, 0] <= tolerance * _moved(state.before, gain) * gain).any())


def _look(state: _Iterate, best: Best, wanted: Array, iteration: int) -> None:
    """Note the bounds at this point."""
    k, J = state.a.shape[-1], best.n.shape[-1]
    live, y, v = state.live, state.z[:, :k], state.z[:, k:]
    n, C = state.n[:, :J], state.table[:, k:-2, :J]
    spent = (C @ n[..., None]).max(axis=1)
    upper = interior_variance(state.M0 + (state.M - state.M0) / spent[..., None], state.a)
    paid = (v[:, None, :] @ C)[:, 0]
    held = (y[:, None, :] @ state.M0 @ y[..., None])[:, 0, 0]
    gain = (state.a * y).sum(axis=-1)
    lower, by_y, by_v = dual_bound(gain, held, 2 * (paid - wanted[:, :J]), paid, v.sum(axis=-1))
    at = np.flatnonzero(upper < best.upper[live])
    best.upper[live[at]], best.n[live[at]] = upper[at], n[at] / spent[at]
    at = np.flatnonzero(lower > best.lower[live])
    best.lower[live[at]] = lower[at]
    best.y[live[at]], best.u[live[at]] = (y * by_y[:, None])[at], (v * by_v[:, None])[at]
    best.iterations[live] = iteration


def _step(state: _Iterate, wanted: Array, product: Array, total: Array) -> None:
    """One step of all problems; ``product`` is n·s and ``total`` its sum."""
    table, n, slack, k = state.table, state.n, state.slack, state.a.shape[-1]
    A = table[:, :-2]
    residual = np.subtract(wanted, slack, out=table[:, -2])
    np.divide(1.0, n, out=table[:, -1])
    newton = A @ (table * (n / slack)[:, None, :]).swapaxes(1, 2)
    newton[:, :k, :k] += state.M
    towards = newton[..., -2]
    towards[:, :k] += (state.M0 @ state.z[:, :k, None])[..., 0] - state.a
    towards[:, k:] += 1.0
    # Away from μ = 0, and what one unit of μ adds.
    both = _solved(newton[..., :-2], newton[..., -2:]).swapaxes(1, 2)
    change = both @ A
    # Relative changes: ds/s, and dn/n = μ/(n s) − 1 − ds/s.
    rises, per_mu = (residual - change[:, 0]) / slack, change[:, 1] / slack
    # Towards μ = 0 the fastest to vanish is the largest of 1 + ds/s and −ds/s; left is what remains
    # there of Σ n s.
    reach = 1 / np.maximum(_most(np.abs(rises + 0.5)) + 0.5, 1.0)
    curved = np.add.reduce(product * rises * (1 + rises), axis=-1, keepdims=True)
    left = np.minimum(np.maximum(1 - reach - reach * reach * curved / total, _LEAST_LEFT), 1.0)
    centre = left * left * left * total / n.shape[-1]
    rises += centre * per_mu
    falls = 1 + rises - centre / product
    most = 1 - 0.01 * left  # of the way to the boundary
    reach = most / np.maximum(_most(np.maximum(falls, -rises)), most)
    state.n = n * (1 - reach * falls)
    state.slack = slack * (1 + reach * rises)
    state.z = state.z + reach * (centre * both[:, 1] - both[:, 0])
    state.refresh()


def _most(values: Array) -> Array:
    return np.asarray(np.maximum.reduce(values, axis=-1, keepdims=True))


def _solved(H: Array, rhs: Array) -> Array:
    try:
        found = np.linalg.solve(H, rhs)
    except np.linalg.LinAlgError:
        trace = np.trace(H, axis1=-2, axis2=-1)
        found = np.linalg.solve(H + 1e-14 * trace[:, None, None] * np.eye(H.shape[-1]), rhs)
    return np.asarray(found, dtype=np.float64)


TOLERANCE = 1e-9
"""The relative gap between the two bounds at which the method stops."""
_CHUNK = 1 << 19  # numbers of G that are worked on at once: they stay in the processor's cache


def solve(program: DesignProgram, *, tolerance: float = TOLERANCE) -> Allocation:
    """Solve one allocation problem to a certified gap, with at most k + m − 1 measurements taken
    (where rounding allows).

    ``tolerance`` is the relative gap at which to stop; smaller by as much as the budgets move the
    variance of what is in hand, down to a thousandth. A target that nothing covers is an error.

    Notes
    -----
    The optimum is reached by at most k + m − 1 measurements. The interior-point method ends in the
    middle of the set of optima; null vectors of the stacked rows (G_j y, C_j) then remove
    measurements one at a time without changing M(n) y or the costs.

    References
    ----------
    Schaden and Ullmann, "On multilevel best linear unbiased estimators", SIAM/ASA J. Uncertainty
    Quantification 8 (2020); Harman and Jurík, "Computing c-optimal experimental designs using the
    simplex method", Computational Statistics & Data Analysis 53 (2008).
    """
    p = program
    batch = solve_batch(
        p.information[None], p.costs, p.budgets, p.prior, p.target, tolerance=tolerance
    )
    if not np.isfinite(batch.variance[0]):
        raise ArgumentError("target must be covered by the measurements; got one that is not.")
    n, variance = batch.n[0], float(batch.variance[0])
    for least, forced in ((1e-8, False), (1e-6, False), (1e-6, True)):
        if np.sum(n > 0) < p.target.size + p.budgets.size:
            break
        pure = _purify(program, n, batch.y[0], least=least, forced=forced)
        found = variance_of(program, pure)
        if found <= variance * (1 + 50 * tolerance):
            n, variance = pure, found
    lower = float(batch.lower_bound[0])
    gap = max(0.0, variance / lower - 1) if lower > 0 else np.inf
    prices, y, steps = batch.prices[0], batch.y[0], int(batch.iterations[0])
    return Allocation(n, variance, min(lower, variance), gap, prices, y, steps)


def solve_batch(
    information: ArrayLike,
    costs: ArrayLike,
    budgets: ArrayLike,
    prior: ArrayLike | None,
    target: ArrayLike,
    *,
    tolerance: float = TOLERANCE,
) -> AllocationBatch:
    """Solve many allocation problems with the same measurements and the same number of budgets.

    Shapes are (B, J, k, k) of the information, (J, m) or (B, J, m) of the costs, a number, (m,) or
    (B, m) of the budgets, None, (k, k) or (B, k, k) of the prior, and (k,) or (B, k) of the target.
    The counts are not thinned out to few measurements, as :func:`solve` does.
    """
    G = np.asarray(information, dtype=np.float64)
    size, J, k = G.shape[:3]
    b = np.atleast_1d(np.asarray(budgets, dtype=np.float64))
    b = np.broadcast_to(b, (size, b.shape[-1]))
    C = np.broadcast_to(np.asarray(costs, dtype=np.float64), (size, J, b.shape[-1]))
    M0 = np.zeros((k, k)) if prior is None else np.asarray(prior, dtype=np.float64)
    M0 = np.broadcast_to(M0, (size, k, k))
    a = np.broadcast_to(np.asarray(target, dtype=np.float64), (size, k))
    given = G, C, b, M0, a
    _check_numbers(*given)
    step = max(1, _CHUNK // (J * k * k))
    chunks = [[x[i : i + step] for x in given] for i in range(0, size, step)]
    parts = [_solve_chunk(tolerance, *chunk) for chunk in chunks]
    return AllocationBatch(*map(np.concatenate, zip(*parts, strict=True)))


def _solve_chunk(tolerance: float, *given: Array) -> AllocationBatch:
    s = _scale(*given)
    # A problem that is done may go on beside one that is not.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        best = _interior_point(s, tolerance)
        upper = np.where(s.covered, best.upper * s.value, np.inf)
        lower = np.where(s.covered, best.lower * s.value, np.inf)
        gap = np.where(s.covered, np.maximum(upper / lower - 1, 0.0), np.nan)
    prices = best.u * s.value[:, None] / given[2]
    y = (s.W @ best.y[..., None])[..., 0] * np.sqrt(s.value)[:, None]
    lower = np.minimum(lower, upper)
    return AllocationBatch(best.n / s.unit, upper, lower, gap, prices, y, best.iterations)


def _purify(program: DesignProgram, n: Array, y: Array, *, least: float, forced: bool) -> Array:
    """The same costs and the same M(n) y with few measurements, by null vectors.

    Measurements with less than ``least`` of the largest share go first; at most k + m are left. At
    the optimum one more can go; y is not exact, so this is tried only if ``forced``, and judged by
    the variance.
    """
    most = program.target.size + program.budgets.size - 1
    costs = program.costs / program.budgets
    unit = costs.max(axis=-1)
    shares = n * unit
    active = np.flatnonzero(shares > least * shares.max())
    counts, unit = shares[active], unit[active]
    rows = np.concatenate([program.information[active] @ y, costs[active]], axis=1)
    scale = np.abs(rows).max(axis=0)
    rows /= np.where(scale > 0, scale, 1.0) * unit[:, None]
    while len(counts) > 1:
        _, singular, right = np.linalg.svd(rows.T)
        rank = int(np.sum(singular > 1e-10 * singular[0]))
        if rank == len(counts) and not (forced and len(counts) > most):
            break
        null = right[-1]
        null = null if null.max() >= -null.min() else -null
        with np.errstate(divide="ignore"):
            ratios = np.where(null > 1e-12, counts / np.where(null > 1e-12, null, 1.0), np.inf)
        out = int(np.argmin(ratios))
        counts = np.maximum(counts - ratios[out] * null, 0.0)
        kept = np.arange(len(counts)) != out
        counts, rows, active, unit = counts[kept], rows[kept], active[kept], unit[kept]
    pure = np.zeros_like(n)
    pure[active] = counts / unit
    spent = (pure @ costs).max()
    return np.asarray(pure / spent, dtype=np.float64) if spent > 0 else n
