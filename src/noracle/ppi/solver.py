"""How often to take each measurement: the allocation program, its solver and its certificate.

A measurement j gives information G_j (k by k) on the unknown means each time it is taken, and costs C_j. With information M0 in hand,

    M(n) = M0 + Σ_j n_j G_j,   V(n) = aᵀ M(n)⁺ a   is least, subject to   Cᵀ n ≤ b,  n ≥ 0.

The dual is small, whatever the number of measurements:

    max over y and u ≥ 0 of   2 aᵀy − yᵀ M0 y − bᵀu   subject to   yᵀ G_j y ≤ C_j·u  for every j.

Its multipliers are the counts n, and u is the price of each budget (what the variance loses per unit of budget). Every pair (y, u) with
C_j·u > 0 gives the lower bound (aᵀy)² / (yᵀ M0 y + f·bᵀu) with f = max_j yᵀ G_j y / (C_j·u), so that an answer carries its own proof.
The method is a primal–dual interior-point method with slacks of their own, for many problems at once, in plain numpy.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import ArgumentError

Array = NDArray[np.float64]

TOLERANCE = 1e-9
"""The relative gap between the two bounds at which the method stops."""
_MOST_ITERATIONS = 80
_CHUNK = 1 << 19  # numbers of G that are worked on at once: they stay in the processor's cache
_NULL = 1e-11  # eigenvalues below this share of the largest are directions that nothing measures


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """One allocation problem.

    Attributes
    ----------
    information
        G_j, shape (J, k, k): what one more measurement j adds to the information matrix; symmetric, positive semi-definite.
    costs
        C, shape (J, m): what it takes from each budget.
    budgets
        b, shape (m,), positive.
    prior
        M0, shape (k, k): the information in hand.
    target
        a, shape (k,): the wanted combination of means.
    """

    information: Array
    costs: Array
    budgets: Array
    prior: Array
    target: Array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Allocation:
    """The answer to a :class:`Program` and its proof.

    Attributes
    ----------
    n
        Counts (J,), real, within the budgets.
    variance
        V(n), an upper bound of the optimum.
    lower_bound
        What no allocation can beat, from ``y`` and ``prices``.
    gap
        ``variance / lower_bound − 1``.
    prices
        u, shape (m,): what the variance loses per unit of each budget.
    y
        The dual vector (k,), close to M(n)⁻¹a; yᵀ G_j y ≤ C_j·u for every measurement.
    iterations
        How many steps the method took.
    """

    n: Array
    variance: float
    lower_bound: float
    gap: float
    prices: Array
    y: Array
    iterations: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AllocationBatch:
    """The answers to many problems, with one more leading axis; ``variance`` is infinite where the target cannot be reached."""

    n: Array
    variance: Array
    lower_bound: Array
    gap: Array
    prices: Array
    y: Array
    iterations: NDArray[np.int64]


def make_program(information: ArrayLike, costs: ArrayLike, budgets: ArrayLike, prior: ArrayLike | None, target: ArrayLike) -> Program:
    """A :class:`Program` from arrays of the obvious shapes; costs (J,) and one number for the budget are understood.

    Examples
    --------
    >>> program = make_program([[[4.0]]], [2.0], 100.0, None, [1.0])
    >>> program.costs.shape, program.budgets.shape
    ((1, 1), (1,))
    """
    G = np.asarray(information, dtype=np.float64)
    a = np.asarray(target, dtype=np.float64)
    b = np.atleast_1d(np.asarray(budgets, dtype=np.float64))
    C = np.asarray(costs, dtype=np.float64)
    C = C[:, None] if C.ndim == 1 else C
    if G.ndim != 3 or G.shape[1:] != (a.size, a.size) or C.shape != (len(G), b.size):
        raise ArgumentError(
            f"information, costs and budgets must have shapes (J, k, k), (J, m) and (m,) for a target of k numbers; "
            f"got {G.shape}, {C.shape}, {b.shape} and k = {a.size}."
        )
    M0 = np.zeros((a.size, a.size)) if prior is None else np.asarray(prior, dtype=np.float64)
    return Program(information=G, costs=C, budgets=b, prior=M0, target=a)


def solve(program: Program, *, tolerance: float = TOLERANCE) -> Allocation:
    """Solve one allocation problem to a certified gap, with at most k + m − 1 measurements taken (where rounding allows).

    Parameters
    ----------
    program
        See :class:`Program`.
    tolerance
        Relative gap at which to stop; smaller by as much as the budgets move the variance of what is in hand, down to a thousandth.

    Returns
    -------
    Allocation
        ``gap`` says how far from the optimum the counts can be, whatever the solver did.

    Raises
    ------
    ArgumentError
        If a measurement is free, a budget is not positive, or the target is not covered by the measurements and the prior.

    Notes
    -----
    The optimum is reached by at most k + m − 1 measurements. The interior-point method ends in the middle of the set of optima;
    null vectors of the stacked rows (G_j y, C_j) then remove measurements one at a time without changing M(n) y or the costs.

    References
    ----------
    Schaden and Ullmann, "On multilevel best linear unbiased estimators", SIAM/ASA J. Uncertainty Quantification 8 (2020); Harman and
    Jurík, "Computing c-optimal experimental designs using the simplex method", Computational Statistics & Data Analysis 53 (2008).

    Examples
    --------
    One variable of variance 0.25, price 2, budget 100: V = σ²c/B.

    >>> answer = solve(make_program([[[4.0]]], [2.0], 100.0, None, [1.0]))
    >>> round(answer.variance, 9), answer.n.round(6).tolist(), answer.gap < 1e-8
    (0.005, [50.0], True)
    """
    batch = solve_batch(program.information[None], program.costs, program.budgets, program.prior, program.target, tolerance=tolerance)
    if not np.isfinite(batch.variance[0]):
        raise ArgumentError("target must be covered by the measurements; some of its variables are never observed.")
    n, variance = batch.n[0], float(batch.variance[0])
    for least, forced in ((1e-8, False), (1e-6, False), (1e-6, True)):
        if np.sum(n > 0) < program.target.size + program.budgets.size:
            break
        pure = _purify(program, n, batch.y[0], least=least, forced=forced)
        found = variance_of(program, pure)
        if found <= variance * (1 + 50 * tolerance):
            n, variance = pure, found
    lower = float(batch.lower_bound[0])
    return Allocation(
        n=n,
        variance=variance,
        lower_bound=min(lower, variance),
        gap=max(0.0, variance / lower - 1) if lower > 0 else np.inf,
        prices=batch.prices[0],
        y=batch.y[0],
        iterations=int(batch.iterations[0]),
    )


def variance_of(program: Program, n: ArrayLike) -> float:
    """V(n) = aᵀ M(n)⁺ a, infinite if the target is not in the range of M(n).

    Examples
    --------
    >>> program = make_program([[[4.0]]], [2.0], 100.0, None, [1.0])
    >>> variance_of(program, [50]), variance_of(program, [0])
    (0.005, inf)
    """
    counts = np.asarray(n, dtype=np.float64)
    M = program.prior + np.tensordot(counts, program.information, axes=1)
    return float(target_variance(M[None], program.target[None])[0])


def target_variance(M: Array, a: Array) -> Array:
    """The variance aᵀ M⁺ a of many problems at once; infinite where a is not in the range of M.

    The matrix is brought to a unit diagonal first, so that the decision does not depend on the scale of the variables.
    """
    diagonal = np.einsum("...ii->...i", M)
    scale = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 1.0)
    values, vectors = np.linalg.eigh(M * scale[..., :, None] * scale[..., None, :])
    parts = np.einsum("...i,...ij->...j", a * scale, vectors)
    kept = values > _NULL * np.maximum(values[..., -1:], 1e-300)
    outside = np.sum(np.where(kept, 0.0, parts**2), axis=-1)
    inside = np.sum(np.where(kept, parts**2 / np.where(kept, values, 1.0), 0.0), axis=-1)
    covered = outside <= 1e-12 * np.sum(parts**2, axis=-1)
    return np.where(covered, inside, np.inf)


def certified_bound(program: Program, y: ArrayLike, prices: ArrayLike) -> float:
    """The lower bound (aᵀy)² / (yᵀ M0 y + f·bᵀu), f the largest yᵀ G_j y / (C_j·u); 0 if ``y`` or ``prices`` prove nothing.

    Examples
    --------
    >>> program = make_program([[[4.0]]], [2.0], 100.0, None, [1.0])
    >>> round(certified_bound(program, [3.0], [1.0]), 12)
    0.005
    """
    v, u = np.asarray(y, dtype=np.float64), np.maximum(np.asarray(prices, dtype=np.float64), 0.0)
    used = np.einsum("jkl,k,l->j", program.information, v, v)
    return float(_bound(program.target @ v, v @ program.prior @ v, used, program.costs @ u, program.budgets @ u))


def _bound(gain: ArrayLike, held: ArrayLike, used: Array, paid: Array, worth: ArrayLike) -> Array:
    """The bound of many problems at once: used and paid have one entry for each measurement."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(used > 0, used / paid, 0.0).max(axis=-1)
        total = np.asarray(held) + ratio * np.asarray(worth)
        bound = np.where(np.asarray(gain) > 0, np.asarray(gain) ** 2 / total, 0.0)
    return np.where(np.isfinite(bound), bound, 0.0)


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

    Parameters
    ----------
    information
        (B, J, k, k).
    costs
        (J, m) or (B, J, m).
    budgets
        A number, (m,) or (B, m).
    prior
        (k, k), (B, k, k) or None.
    target
        (k,) or (B, k).
    tolerance
        Relative gap at which to stop.

    Returns
    -------
    AllocationBatch
        Arrays with the leading axis B; the counts are not thinned out to few measurements, as :func:`solve` does.

    Examples
    --------
    >>> import numpy as np
    >>> batch = solve_batch(np.array([[[[4.0]]], [[[1.0]]]]), [[2.0]], 100.0, None, [1.0])
    >>> batch.variance.round(9).tolist()
    [0.005, 0.02]
    """
    G = np.asarray(information, dtype=np.float64)
    size, J, k = G.shape[:3]
    b = np.atleast_1d(np.asarray(budgets, dtype=np.float64))
    b = np.broadcast_to(b, (size, b.shape[-1]))
    C = np.broadcast_to(np.asarray(costs, dtype=np.float64), (size, J, b.shape[-1]))
    M0 = np.broadcast_to(np.zeros((k, k)) if prior is None else np.asarray(prior, dtype=np.float64), (size, k, k))
    a = np.broadcast_to(np.asarray(target, dtype=np.float64), (size, k))
    _check(G, C, b, M0, a)
    step = max(1, _CHUNK // (J * k * k))
    parts = [
        _solve_chunk(G[i : i + step], C[i : i + step], b[i : i + step], M0[i : i + step], a[i : i + step], tolerance)
        for i in range(0, size, step)
    ]
    return AllocationBatch(
        n=np.concatenate([p.n for p in parts]),
        variance=np.concatenate([p.variance for p in parts]),
        lower_bound=np.concatenate([p.lower_bound for p in parts]),
        gap=np.concatenate([p.gap for p in parts]),
        prices=np.concatenate([p.prices for p in parts]),
        y=np.concatenate([p.y for p in parts]),
        iterations=np.concatenate([p.iterations for p in parts]),
    )


def _check(G: Array, C: Array, b: Array, M0: Array, a: Array) -> None:
    for name, values in (("information", G), ("costs", C), ("budgets", b), ("prior", M0), ("target", a)):
        if not np.isfinite(values).all():
            raise ArgumentError(f"{name} must be finite numbers; got NaN or infinity.")
    if not (b > 0).all():
        raise ArgumentError(f"budgets must be positive; got {b.min():g}. Leave out what a budget of zero forbids.")
    if not (C >= 0).all():
        raise ArgumentError(f"costs must not be negative; got {C.min():g}.")
    if not (C.max(axis=-1) > 0).all():
        raise ArgumentError(
            "costs must be positive in some budget; got a free measurement. Put a cap on it or count it among what is in hand."
        )
    if not np.abs(a).max(axis=-1).all():
        raise ArgumentError("target must not be zero.")


class _Scaled(NamedTuple):
    """A problem in units in which budgets are 1, each count is a share of a budget and a reference information matrix is I."""

    G: Array
    C: Array
    M0: Array
    a: Array
    unit: Array  # counts are shares divided by this
    W: Array  # y in the old units is W y
    value: Array  # variances are divided by this
    covered: NDArray[np.bool_]


def _scale(G: Array, C: Array, b: Array, M0: Array, a: Array) -> _Scaled:
    k = a.shape[-1]
    shares = C / b[:, None, :]
    unit = shares.max(axis=-1)
    shares = shares / unit[..., None]
    G = G / unit[..., None, None]
    reference = M0 + G.mean(axis=1)
    diagonal = np.einsum("bii->bi", reference)
    d = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 1.0)
    values, vectors = np.linalg.eigh(reference * d[:, :, None] * d[:, None, :])
    kept = values > _NULL * np.maximum(values[:, -1:], 1e-300)
    W = d[:, :, None] * vectors * np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[:, None, :]
    parts = np.einsum("bi,bij->bj", a * d, vectors)
    covered = np.sum(np.where(kept, 0.0, parts**2), axis=-1) <= 1e-12 * np.sum(parts**2, axis=-1)
    scaled_a = np.einsum("bi,bij->bj", a, W)
    value = np.sum(scaled_a**2, axis=-1)
    covered &= value > 0
    value = np.where(covered, value, 1.0)
    scaled_a = np.where(covered[:, None], scaled_a / np.sqrt(value)[:, None], np.eye(k)[0])
    # (B, J, k, k): Wᵀ G W in two products, the first of all G_j stacked.
    Wt = np.swapaxes(W, 1, 2)
    G = (G.reshape(len(G), -1, k) @ W).reshape(G.shape)
    G = Wt[:, None] @ G
    null = np.where(kept, 0.0, 1.0)
    prior = Wt @ M0 @ W
    prior[:, np.arange(k), np.arange(k)] += null
    return _Scaled(G, shares, prior, scaled_a, unit, W, value, covered)


def _solve_chunk(G: Array, C: Array, b: Array, M0: Array, a: Array, tolerance: float) -> AllocationBatch:
    s = _scale(G, C, b, M0, a)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a problem that is done may go on beside one that is not
        n, y, u, upper, lower, iterations = _interior_point(s, tolerance)
        y, u = _feasible(s, y, u)
    root = np.sqrt(s.value)
    upper = np.where(s.covered, upper * s.value, np.inf)
    lower = np.where(s.covered, lower * s.value, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(s.covered, np.maximum(upper / lower - 1, 0.0), np.nan)
    return AllocationBatch(
        n=n / s.unit,
        variance=upper,
        lower_bound=np.minimum(lower, upper),
        gap=gap,
        prices=u * s.value[:, None] / b,
        y=np.einsum("bij,bj->bi", s.W, y) * root[:, None],
        iterations=iterations,
    )


def _feasible(s: _Scaled, y: Array, u: Array) -> tuple[Array, Array]:
    """The same direction, scaled so that yᵀ G_j y ≤ C_j·u holds for all j and 2aᵀy − yᵀ M0 y − bᵀu is the lower bound itself."""
    used = np.einsum("bjk,bk->bj", _apply(s.G, y), y)
    u = u * np.where(used > 0, used / _times(s.C, u), 0.0).max(axis=-1, keepdims=True)
    total = np.einsum("bk,bkl,bl->b", y, s.M0, y) + u.sum(axis=-1)
    t = np.where(total > 0, np.einsum("bk,bk->b", s.a, y) / total, 0.0)[:, None]
    return y * t, u * t**2


def _interior_point(s: _Scaled, tolerance: float) -> tuple[Array, Array, Array, Array, Array, NDArray[np.int64]]:
    """Newton steps on the optimality conditions with n_j s_j = μ → 0.

    M(n) y = a;   Cᵀn = 1;   s_j = C_j·u − yᵀ G_j y. The conditions u_l ≥ 0 are m further rows with G = 0 and C = e_l, whose slack is u_l
    and whose count is what is left of budget l. With A = [−2 G_j y, C_j] and d = n/s one step solves
    (Aᵀ diag(d) A + 2M ⊕ 0)(dy, du) = Aᵀ(μ/s − n − d·r_s) + (2(a − M y), −(1 − Cᵀn)), and then ds = A(dy, du) + r_s.
    """
    size, J, k = s.G.shape[:3]
    m = s.C.shape[-1]
    best_n, best_y, best_u = np.zeros((size, J)), np.zeros((size, k)), np.zeros((size, m))
    best_upper, best_lower = np.full(size, np.inf), np.zeros(size)
    iterations = np.zeros(size, dtype=np.int64)

    live = np.arange(size)
    G, M0, a = s.G, s.M0, s.a
    # Where much is in hand the budget moves the variance little: the gap must be small beside that move.
    before = target_variance(M0, a)
    C = np.concatenate([s.C, np.broadcast_to(np.eye(m), (size, m, m))], axis=1)
    n = np.full((size, J + m), 0.5 / J)
    n[:, J:] = 1 - _transposed(s.C, n[:, :J])
    M = M0 + _combine(n[:, :J], G)
    y = np.asarray(np.linalg.solve(M, a[..., None])[..., 0], dtype=np.float64)
    A = np.zeros((size, J + m, k + m))
    A[:, :, k:] = C
    Gy = _apply(G, y)
    q = np.maximum(_times(Gy, y), 0.0)
    level = (q / s.C.sum(axis=-1)).max(axis=-1)
    u = np.repeat(np.maximum(1.5 * level, 1e-6)[:, None], m, axis=1)
    slack = _times(C, u)
    slack[:, :J] -= q

    for iteration in range(_MOST_ITERATIONS):
        complementarity = (n * slack).sum(axis=-1)
        mu = complementarity / (J + m)
        gain = (a * y).sum(axis=-1)
        paid = _times(C, u)
        if (complementarity <= 30 * tolerance * np.abs(gain)).any() or iteration % 8 == 7:
            spent = _transposed(C[:, :J], n[:, :J]).max(axis=-1)
            upper = _upper(M0 + (M - M0) / spent[:, None, None], a)
            lower = _bound(gain, (y * _times(M0, y)).sum(axis=-1), q, paid[:, :J], u.sum(axis=-1))
            better = upper < best_upper[live]
            best_upper[live] = np.where(better, upper, best_upper[live])
            best_n[live] = np.where(better[:, None], n[:, :J] / spent[:, None], best_n[live])
            better = lower > best_lower[live]
            best_lower[live] = np.where(better, lower, best_lower[live])
            best_y[live] = np.where(better[:, None], y, best_y[live])
            best_u[live] = np.where(better[:, None], u, best_u[live])
            moved = np.clip((before[live] - best_upper[live]) / best_upper[live], 1e-3, 1.0)
            going = (best_upper[live] > best_lower[live] * (1 + tolerance * moved)) & (mu > 1e-18)
            iterations[live] = iteration
            if not going.any():
                break
            if 2 * going.sum() <= len(live):
                live = live[going]
                G, C, A, M0, M, a, n, slack, y, u, Gy, q, mu, paid = (
                    v[going] for v in (G, C, A, M0, M, a, n, slack, y, u, Gy, q, mu, paid)
                )

        A[:, :J, :k] = -2 * Gy
        turned = np.swapaxes(A, 1, 2)
        d, inverse = n / slack, 1 / slack
        residual = paid - slack
        residual[:, :J] -= q
        H = turned @ (A * d[..., None])
        H[:, :k, :k] += 2 * M
        # Two right-hand sides: the step towards μ = 0, and what one unit of μ adds.
        pushed = np.empty((*n.shape, 2))
        pushed[..., 0] = -n - d * residual
        pushed[..., 1] = inverse
        rhs = turned @ pushed
        rhs[:, :k, 0] += 2 * (a - _times(M, y))
        rhs[:, k:, 0] -= 1 - _transposed(C, n)
        both = _newton(H, rhs)
        change = A @ both
        ds, ds_mu = change[..., 0] + residual, change[..., 1]
        dn, dn_mu = -n - d * ds, inverse - d * ds_mu
        # Towards μ = 0, −dn/n = 1 + ds/s: one quotient says how far counts and slacks can go.
        quotient = ds * inverse
        reach = 1 / np.maximum(np.maximum(1 + quotient.max(axis=-1), -quotient.min(axis=-1)), 1.0)[:, None]
        ahead = ((n + reach * dn) * (slack + reach * ds)).sum(axis=-1) / (J + m)
        centre = (np.minimum(np.maximum(ahead / mu, 1e-3), 1.0) ** 3 * mu)[:, None]
        ds, dn = ds + centre * ds_mu, dn + centre * dn_mu
        reach = np.minimum(np.minimum(np.maximum(0.99, 1 - 10 * mu), 0.9999) * _reach(n, dn, slack, ds), 1.0)[:, None]
        step = reach * (both[..., 0] + centre * both[..., 1])
        n, slack, y, u = n + reach * dn, slack + reach * ds, y + step[:, :k], u + step[:, k:]
        M = M0 + _combine(n[:, :J], G)
        Gy = _apply(G, y)
        q = np.maximum(_times(Gy, y), 0.0)
    return best_n, best_y, best_u, best_upper, best_lower, iterations


def _combine(n: Array, G: Array) -> Array:
    """Σ_j n_j G_j for every problem."""
    size, J, k = G.shape[:3]
    combined: Array = (n[:, None, :] @ G.reshape(size, J, k * k)).reshape(size, k, k)
    return combined


def _apply(G: Array, y: Array) -> Array:
    """G_j y for every problem and measurement."""
    size, J, k = G.shape[:3]
    applied: Array = (G.reshape(size, J * k, k) @ y[..., None]).reshape(size, J, k)
    return applied


def _times(A: Array, x: Array) -> Array:
    product: Array = (A @ x[..., None])[..., 0]
    return product


def _transposed(A: Array, x: Array) -> Array:
    product: Array = (x[:, None, :] @ A)[:, 0, :]
    return product


def _upper(M: Array, a: Array) -> Array:
    """The variance at an interior point; with care where rounding made M singular, infinite where it is not a number."""
    try:
        solved = np.linalg.solve(M, a[..., None])[..., 0]
    except np.linalg.LinAlgError:
        solved = np.zeros_like(a)
    value: Array = np.einsum("bk,bk->b", a, solved)
    # 2aᵀx − xᵀMx ≤ V for every x: the size of the correction shows how far to trust the solution.
    check = 2 * value - np.einsum("bk,bkl,bl->b", solved, M, solved)
    sound = (value > 0) & (np.abs(check - value) <= 1e-10 * np.abs(value))
    if not sound.all():
        value = np.where(sound, value, np.inf)
        rest = np.flatnonzero(~sound & np.isfinite(M).all(axis=(-2, -1)))
        value[rest] = target_variance(M[rest], a[rest])
    return value


def _newton(H: Array, rhs: Array) -> Array:
    try:
        return np.asarray(np.linalg.solve(H, rhs), dtype=np.float64)
    except np.linalg.LinAlgError:
        trace = np.einsum("bii->b", H)
        return np.asarray(np.linalg.solve(H + 1e-14 * trace[:, None, None] * np.eye(H.shape[-1]), rhs), dtype=np.float64)


def _reach(n: Array, dn: Array, slack: Array, ds: Array) -> Array:
    """How far each problem can go before a positive quantity reaches zero."""
    fastest = np.maximum((-dn / n).max(axis=-1), (-ds / slack).max(axis=-1))
    return np.asarray(1 / np.maximum(fastest, 1e-300), dtype=np.float64)


def _purify(program: Program, n: Array, y: Array, *, least: float, forced: bool) -> Array:
    """The same costs and the same M(n) y with few measurements, by null vectors of their stacked rows.

    Measurements with less than ``least`` of the largest share go first; at most k + m are left. At the optimum the rows hang together
    (Σ n_j C_j·u follows from M(n) y = a), so that one more can go; y is not exact, so this last step is tried only if ``forced``, and
    judged by the variance.
    """
    most = program.target.size + program.budgets.size - 1
    shares = n * (program.costs / program.budgets).max(axis=-1)
    active = np.flatnonzero(shares > least * shares.max())
    counts = n[active]
    rows = np.hstack([program.information[active] @ y, program.costs[active] / program.budgets])
    scale = np.abs(rows).max(axis=0)
    unit = (program.costs[active] / program.budgets).max(axis=-1)
    rows = rows[:, scale > 0] / scale[scale > 0] / unit[:, None]
    counts = counts * unit  # shares of the budget
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
    spent = (pure @ program.costs / program.budgets).max()
    return np.asarray(pure / spent, dtype=np.float64) if spent > 0 else n
