"""How often to take each measurement: the allocation program solved, with its certificate.

The program and its units are in :mod:`noracle.ppi.program`, the iteration is in
:mod:`noracle.ppi.interior` and the bounds that prove an answer are in
:mod:`noracle.ppi.certificate`. The dual is small, whatever the number of measurements:

    max over y and u ≥ 0 of   2 aᵀy − yᵀ M0 y − bᵀu   subject to   yᵀ G_j y ≤ C_j·u  for every j.

Its multipliers are the counts n, and u is the price of each budget (what the variance loses per
unit of budget).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noracle.errors import ArgumentError
from noracle.ppi.certificate import variance_of
from noracle.ppi.interior import interior_point
from noracle.ppi.program import Allocation, AllocationBatch, Array, Program, check_numbers, scale

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

TOLERANCE = 1e-9
"""The relative gap between the two bounds at which the method stops."""
_CHUNK = 1 << 19  # numbers of G that are worked on at once: they stay in the processor's cache


def solve(program: Program, *, tolerance: float = TOLERANCE) -> Allocation:
    """Solve one allocation problem to a certified gap, with at most k + m − 1 measurements taken
    (where rounding allows).

    Parameters
    ----------
    program
        See :class:`Program`.
    tolerance
        Relative gap at which to stop; smaller by as much as the budgets move the variance of what
        is in hand, down to a thousandth.

    Returns
    -------
    Allocation
        ``gap`` says how far from the optimum the counts can be, whatever the solver did.

    Raises
    ------
    ArgumentError
        If a measurement is free, a budget is not positive, or the target is not covered by the
        measurements and the prior.

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

    Examples
    --------
    One variable of variance 0.25, price 2, budget 100: V = σ²c/B.

    >>> from noracle.ppi.program import make_program
    >>> answer = solve(make_program([[[4.0]]], [2.0], 100.0, None, [1.0]))
    >>> round(answer.variance, 9), answer.n.round(6).tolist(), answer.gap < 1e-8
    (0.005, [50.0], True)
    """
    batch = solve_batch(
        program.information[None],
        program.costs,
        program.budgets,
        program.prior,
        program.target,
        tolerance=tolerance,
    )
    if not np.isfinite(batch.variance[0]):
        raise ArgumentError(
            "target must be covered by the measurements; some of its variables are never observed."
        )
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
        Arrays with the leading axis B; the counts are not thinned out to few measurements, as
        :func:`solve` does.

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
    M0 = np.broadcast_to(
        np.zeros((k, k)) if prior is None else np.asarray(prior, dtype=np.float64), (size, k, k)
    )
    a = np.broadcast_to(np.asarray(target, dtype=np.float64), (size, k))
    check_numbers(G, C, b, M0, a)
    step = max(1, _CHUNK // (J * k * k))
    parts = [
        _solve_chunk(
            G[i : i + step],
            C[i : i + step],
            b[i : i + step],
            M0[i : i + step],
            a[i : i + step],
            tolerance,
        )
        for i in range(0, size, step)
    ]
    if len(parts) == 1:
        return parts[0]
    return AllocationBatch(
        n=np.concatenate([p.n for p in parts]),
        variance=np.concatenate([p.variance for p in parts]),
        lower_bound=np.concatenate([p.lower_bound for p in parts]),
        gap=np.concatenate([p.gap for p in parts]),
        prices=np.concatenate([p.prices for p in parts]),
        y=np.concatenate([p.y for p in parts]),
        iterations=np.concatenate([p.iterations for p in parts]),
    )


def _solve_chunk(
    G: Array, C: Array, b: Array, M0: Array, a: Array, tolerance: float
) -> AllocationBatch:
    s = scale(G, C, b, M0, a)
    with np.errstate(
        divide="ignore", invalid="ignore", over="ignore"
    ):  # a problem that is done may go on beside one that is not
        best = interior_point(s, tolerance)
        upper = np.where(s.covered, best.upper * s.value, np.inf)
        lower = np.where(s.covered, best.lower * s.value, np.inf)
        gap = np.where(s.covered, np.maximum(upper / lower - 1, 0.0), np.nan)
    return AllocationBatch(
        n=best.n / s.unit,
        variance=upper,
        lower_bound=np.minimum(lower, upper),
        gap=gap,
        prices=best.u * s.value[:, None] / b,
        y=(s.W @ best.y[..., None])[..., 0] * np.sqrt(s.value)[:, None],
        iterations=best.iterations,
    )


def _purify(program: Program, n: Array, y: Array, *, least: float, forced: bool) -> Array:
    """The same costs and the same M(n) y with few measurements, by null vectors of their stacked
    rows.

    Measurements with less than ``least`` of the largest share go first; at most k + m are left. At
    the optimum the rows hang together (Σ n_j C_j·u follows from M(n) y = a), so that one more can
    go; y is not exact, so this last step is tried only if ``forced``, and judged by the variance.
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
