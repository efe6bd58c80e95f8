"""How good an allocation is, and what no allocation can beat: the two bounds whose gap is the proof
of an answer.

Any affordable n gives the upper bound V(n) = aᵀ M(n)⁺ a. Any pair (y, u) with C_j·u > 0 gives the
lower bound (aᵀy)² / (yᵀ M0 y + f·bᵀu) with f = max_j yᵀ G_j y / (C_j·u), since the dual of the
allocation program is

    max over y and u ≥ 0 of   2 aᵀy − yᵀ M0 y − bᵀu   subject to   yᵀ G_j y ≤ C_j·u  for every j.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noracle.ppi.program import NULL, Array, Program, unit_eigen

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def variance_of(program: Program, n: ArrayLike) -> float:
    """V(n) = aᵀ M(n)⁺ a, infinite if the target is not in the range of M(n).

    Examples
    --------
    >>> from noracle.ppi.program import make_program
    >>> program = make_program([[[4.0]]], [2.0], 100.0, None, [1.0])
    >>> variance_of(program, [50]), variance_of(program, [0])
    (0.005, inf)
    """
    counts = np.asarray(n, dtype=np.float64)
    k = program.target.size
    M = program.prior + (counts @ program.information.reshape(len(counts), k * k)).reshape(k, k)
    return float(target_variance(M, program.target))


def target_variance(M: Array, a: Array) -> Array:
    """The variance aᵀ M⁺ a of many problems at once; infinite where a is not in the range of M.

    The matrix is brought to a unit diagonal first, so that the decision does not depend on the
    scale of the variables.
    """
    d, values, vectors = unit_eigen(M)
    parts = ((a * d)[..., None, :] @ vectors)[..., 0, :] ** 2
    kept = values > NULL * np.maximum(values[..., -1:], 1e-300)
    inside = np.where(kept, parts / np.where(kept, values, 1.0), 0.0).sum(axis=-1)
    covered = np.where(kept, 0.0, parts).sum(axis=-1) <= 1e-12 * parts.sum(axis=-1)
    return np.where(covered, inside, np.inf)


def interior_variance(M: Array, a: Array) -> Array:
    """As :func:`target_variance`, faster where M is far from singular; infinite where M is not a
    number.
    """
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


def certified_bound(program: Program, y: ArrayLike, prices: ArrayLike) -> float:
    """The lower bound (aᵀy)² / (yᵀ M0 y + f·bᵀu), f the largest yᵀ G_j y / (C_j·u); 0 if ``y`` or
    ``prices`` prove nothing.

    Examples
    --------
    >>> from noracle.ppi.program import make_program
    >>> program = make_program([[[4.0]]], [2.0], 100.0, None, [1.0])
    >>> round(certified_bound(program, [3.0], [1.0]), 12)
    0.005
    """
    v, u = np.asarray(y, dtype=np.float64), np.maximum(np.asarray(prices, dtype=np.float64), 0.0)
    used = program.information @ v @ v
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bound, _, _ = dual_bound(
            program.target @ v, v @ program.prior @ v, used, program.costs @ u, program.budgets @ u
        )
    return float(bound)


def dual_bound(
    gain: ArrayLike, held: ArrayLike, used: Array, paid: Array, worth: ArrayLike
) -> tuple[Array, Array, Array]:
    """The bound of many problems at once, and what to multiply y and u by so that 2aᵀy − yᵀ M0 y −
    bᵀu is the bound itself.

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
