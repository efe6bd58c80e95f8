"""The allocation program: what each measurement tells and costs, the answer and its proof, and the
units that the solver works in.

A measurement j gives information G_j (k by k) on the unknown means each time it is taken, and costs
C_j. With information M0 in hand,

    M(n) = M0 + Σ_j n_j G_j,   V(n) = aᵀ M(n)⁺ a   is least, subject to   Cᵀ n ≤ b,  n ≥ 0.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import ArgumentError

Array = NDArray[np.float64]

NULL = 1e-11
"""Eigenvalues below this share of the largest are directions that nothing measures."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """One allocation problem.

    Attributes
    ----------
    information
        G_j, shape (J, k, k): what one more measurement j adds to the information matrix; symmetric,
        positive semi-definite.
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
    """The answers to many problems, with one more leading axis; ``variance`` is infinite where the
    target cannot be reached.
    """

    n: Array
    variance: Array
    lower_bound: Array
    gap: Array
    prices: Array
    y: Array
    iterations: NDArray[np.int64]


def make_program(
    information: ArrayLike,
    costs: ArrayLike,
    budgets: ArrayLike,
    prior: ArrayLike | None,
    target: ArrayLike,
) -> Program:
    """A :class:`Program` from arrays of the obvious shapes; costs (J,) and one number for the
    budget are understood.

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


def check_numbers(G: Array, C: Array, b: Array, M0: Array, a: Array) -> None:
    """Refuse what no solver can use; every array may have a leading axis of problems."""
    for name, values in (
        ("information", G),
        ("costs", C),
        ("budgets", b),
        ("prior", M0),
        ("target", a),
    ):
        if not np.isfinite(values).all():
            raise ArgumentError(f"{name} must be finite numbers; got NaN or infinity.")
    if not (b > 0).all():
        raise ArgumentError(
            f"budgets must be positive; got {b.min():g}. Leave out what a budget of zero forbids."
        )
    if not (C >= 0).all():
        raise ArgumentError(f"costs must not be negative; got {C.min():g}.")
    if not C.any(axis=-1).all():
        raise ArgumentError(
            "costs must be positive in some budget; got a free measurement. Put a cap on it or count it among what is in hand."
        )
    if not a.any(axis=-1).all():
        raise ArgumentError("target must not be zero.")


class Scaled(NamedTuple):
    """Problems in units in which budgets are 1, each count is a share of a budget and a reference
    information matrix is I.
    """

    G: Array  # (B, k, k, J + m): measurements last, then one for each budget, with G = 0
    C: Array
    M0: Array
    a: Array
    unit: Array  # counts are shares divided by this
    W: Array  # y in the old units is W y
    value: Array  # variances are divided by this
    covered: NDArray[np.bool_]


def scale(G: Array, C: Array, b: Array, M0: Array, a: Array) -> Scaled:
    """Bring problems (leading axis) to these units; a target that nothing measures is marked and
    replaced by a harmless one.
    """
    size, J, k = G.shape[:3]
    shares = C / b[:, None, :]
    unit = np.maximum.reduce(shares, axis=-1)
    shares = shares / unit[..., None]
    per_share = (1 / unit)[:, None, :]
    reference = M0 + (per_share @ G.reshape(size, J, k * k)).reshape(size, k, k) / J
    d, values, vectors = unit_eigen(reference)
    kept = values > NULL * np.maximum(values[:, -1:], 1e-300)
    W = (
        d[:, :, None]
        * vectors
        * np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[:, None, :]
    )
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
    turned = (G.reshape(size, J * k, k) @ W).reshape(size, J, k, k).swapaxes(2, 3).reshape(
        size, J * k, k
    ) @ W
    information = np.zeros((size, k, k, J + b.shape[-1]))
    np.divide(
        turned.reshape(size, J, k * k).swapaxes(1, 2),
        unit[:, None, :],
        out=information.reshape(size, k * k, -1)[..., :J],
    )
    prior = W.swapaxes(1, 2) @ M0 @ W
    if not kept.all():
        prior[:, np.arange(k), np.arange(k)] += ~kept
    return Scaled(information, shares, prior, scaled_a, unit, W, value, covered)


def unit_eigen(M: Array) -> tuple[Array, Array, Array]:
    """Scales d, eigenvalues and eigenvectors of D M D, which has a unit diagonal, so that no
    decision depends on the units.
    """
    diagonal = M.diagonal(axis1=-2, axis2=-1)
    d = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(M * d[..., :, None] * d[..., None, :])
    return d, values, vectors
