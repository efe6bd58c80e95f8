"""The iteration behind an allocation: a primal–dual interior-point method with slacks of their own,
for many problems at once.

Numbers about measurements are rows of one table, and one product of that table with itself gives
the Newton matrix and both right-hand sides. A step is then a few dozen calls of numpy, so that a
single problem is fast too.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from noracle.ppi.certificate import dual_bound, interior_variance
from noracle.ppi.program import Array, Scaled

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_ITERATIONS = 80
_LEAST_LEFT = 0.01  # a step that goes further loses digits of n: slacks are small differences of large numbers
_LOOK = 16  # the bounds are looked at after so many steps, however far from the end


@dataclasses.dataclass(slots=True)
class Best:
    """The best bounds found so far, with the counts behind the upper and the dual point behind the
    lower one.
    """

    n: Array
    upper: Array
    y: Array
    u: Array
    lower: Array
    iterations: NDArray[np.int64]


@dataclasses.dataclass(slots=True)
class _State:
    """Where the problems stand that still go on. With J measurements and m budgets, L = J + m: a
    budget is one more measurement.

    That row has G = 0 and C = e_l; its count is what is left of budget l and its slack is the
    price, which so stays positive.
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
        size, k, L = self.a.shape[0], self.a.shape[1], self.n.shape[1]
        self.M = self.M0 + (self.G.reshape(size, k * k, L) @ self.n[..., None]).reshape(size, k, k)
        np.matmul(
            -self.z[:, None, :k],
            self.G.reshape(size, k, k * L),
            out=self.table[:, :k].reshape(size, 1, k * L),
        )


def interior_point(s: Scaled, tolerance: float) -> Best:
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
    best = Best(
        np.zeros((size, J)),
        np.full(size, np.inf),
        np.zeros((size, k)),
        np.zeros((size, m)),
        np.zeros(size),
        np.zeros(size, dtype=np.int64),
    )
    halves = np.ones(k + m)
    halves[:k] = 0.5
    for iteration in range(_MOST_ITERATIONS):
        wanted = ((state.z * halves)[:, None, :] @ state.table[:, :-2])[:, 0]  # C_j·v − ½yᵀ G_j y
        product = state.n * state.slack
        total = np.add.reduce(product, axis=-1, keepdims=True)
        if iteration % _LOOK == _LOOK - 1 or (
            (total <= 2 * tolerance).any() and _near(state, total, tolerance)
        ):
            _look(state, best, wanted, iteration)
            upper, lower = best.upper[state.live], best.lower[state.live]
            going = (upper > lower * (1 + tolerance * _moved(state.before, upper))) & (
                total[:, 0] > 1e-18 * (J + m)
            )
            if not going.any():
                break
            if 2 * going.sum() <= len(going):
                state.keep(going)
                wanted, product, total = wanted[going], product[going], total[going]
        _step(state, wanted, product, total)
    return best


def _start(s: Scaled) -> _State:
    """The budgets spent evenly on the measurements and one idle share, y to match, and prices half
    as high again as would do.
    """
    (size, J, m), k = s.C.shape, s.a.shape[-1]
    n = np.full((size, J + m), 1.0 / (J + 1))
    n[:, J:] = 1 - s.C.sum(axis=1) * (1.0 / (J + 1))
    table = np.zeros((size, k + m + 2, J + m))
    table[:, k:-2, :J] = s.C.swapaxes(1, 2)
    table[:, k:-2, J:] = np.eye(m)
    before = interior_variance(s.M0, s.a) if s.M0.any() else np.full(size, np.inf)
    z = np.zeros((size, k + m))
    state = _State(np.arange(size), s.G, s.M0, s.a, before, n, n, z, s.M0, table)
    state.refresh()
    z[:, :k] = np.linalg.solve(state.M, s.a[..., None])[..., 0]
    state.refresh()
    used = np.minimum((z[:, None, :k] @ table[:, :k])[:, 0], 0.0)  # −yᵀ G_j y
    level = (used[:, :J] / s.C.sum(axis=-1)).min(axis=-1, keepdims=True)
    z[:, k:] = np.maximum(-0.75 * level, 1e-6)
    state.slack = 0.5 * used + (z[:, None, k:] @ table[:, k:-2])[:, 0]
    return state


def _moved(before: Array, after: Array) -> Array:
    """How much the budgets move the variance that is in hand, between a thousandth and 1: the gap
    must be small beside that move.
    """
    return np.minimum(np.maximum(before / after - 1, 1e-3), 1.0)


def _near(state: _State, total: Array, tolerance: float) -> bool:
    """Whether the gap that Σ n s foretells (twice it, beside aᵀy) is small enough in some problem.
    In these units V is at most 1.
    """
    gain = (state.a * state.z[:, : state.a.shape[-1]]).sum(axis=-1)
    return bool((2 * total[:, 0] <= tolerance * _moved(state.before, gain) * gain).any())


def _look(state: _State, best: Best, wanted: Array, iteration: int) -> None:
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
    best.lower[live[at]], best.y[live[at]], best.u[live[at]] = (
        lower[at],
        (y * by_y[:, None])[at],
        (v * by_v[:, None])[at],
    )
    best.iterations[live] = iteration


def _step(state: _State, wanted: Array, product: Array, total: Array) -> None:
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
    both = _solved(newton[..., :-2], newton[..., -2:]).swapaxes(
        1, 2
    )  # away from μ = 0, and what one unit of μ adds
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
        return np.asarray(np.linalg.solve(H, rhs), dtype=np.float64)
    except np.linalg.LinAlgError:
        trace = np.trace(H, axis1=-2, axis2=-1)
        return np.asarray(
            np.linalg.solve(H + 1e-14 * trace[:, None, None] * np.eye(H.shape[-1]), rhs),
            dtype=np.float64,
        )
