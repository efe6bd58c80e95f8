"""Seeded allocation problems: four cost structures, three families of covariances, three kinds of
budgets; and a slow, sure referee.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from noracle.ppi.measurements import Measurement, SetPrices, information_of, subsets
from noracle.ppi.solver import DesignProgram, dual_bound, target_variance

Array = NDArray[np.float64]
FAMILIES = ("factor", "wishart", "nested")
COSTS = ("additive", "fee", "cascade", "maximum")


def make_program(
    information: Any, costs: Any, budgets: Any, prior: Any | None, target: Any
) -> DesignProgram:
    """A program from arrays of the obvious shapes; costs (J,) and one number for the budget are
    understood.
    """
    a, C = np.asarray(target, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    return DesignProgram(
        information=np.asarray(information, dtype=np.float64),
        costs=C[:, None] if C.ndim == 1 else C,
        budgets=np.atleast_1d(np.asarray(budgets, dtype=np.float64)),
        prior=np.zeros((a.size, a.size)) if prior is None else np.asarray(prior, dtype=np.float64),
        target=a,
    )


def certified_bound(program: DesignProgram, y: Array, prices: Array) -> float:
    """The lower bound that y and the prices prove; 0 if they prove nothing."""
    v, u = np.asarray(y, dtype=np.float64), np.maximum(np.asarray(prices, dtype=np.float64), 0.0)
    used = program.information @ v @ v
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bound, _, _ = dual_bound(
            program.target @ v, v @ program.prior @ v, used, program.costs @ u, program.budgets @ u
        )
    return float(bound)


def covariance(rng: np.random.Generator, k: int, family: str) -> Array:
    """A covariance on uneven scales."""
    if family == "factor":
        loads = rng.uniform(0.3, 0.9, k)
        S = np.outer(loads, loads) + np.diag(1 - loads**2)
    elif family == "wishart":
        A = rng.normal(size=(k, k + 2))
        S = A @ A.T / (k + 2)
    else:  # a ladder: each rater knows what the one before knows, and more
        steps = np.arange(1, k + 1)
        S = np.minimum.outer(steps, steps) / k + 0.2 * np.eye(k)
    scale = np.exp(0.5 * rng.normal(size=k))
    return np.asarray(S * np.outer(scale, scale))


def set_prices(rng: np.random.Generator, k: int, kind: str) -> SetPrices:
    """A dear first variable and cheap others."""
    price = np.r_[10 * rng.uniform(0.5, 2), rng.uniform(0.05, 2, k - 1)]
    zero = (0.0,) * k
    if kind in ("additive", "fee"):
        return SetPrices(per_item=0.3 if kind == "fee" else 0.0, sums=tuple(price), largest=zero)
    if kind == "cascade":
        return SetPrices(per_item=0.0, sums=tuple(0.15 * price), largest=tuple(price))
    return SetPrices(per_item=0.0, sums=zero, largest=tuple(price))


def problem(seed: int) -> DesignProgram:
    """One of the seeded problems: k = 3 to 8, all sets, one budget, rows in hand, or two or three
    budgets.
    """
    rng = np.random.default_rng([2, seed])
    k = 3 + seed % 6
    S = covariance(rng, k, FAMILIES[seed // 6 % 3])
    prices = set_prices(rng, k, COSTS[seed // 18 % 4])
    sets = list(subsets(k))
    costs = np.array([[prices.of(s)] for s in sets])
    budgets = [rng.uniform(50, 2000)]
    prior = None
    kind = seed // 2 % 3
    if kind == 1:
        prior = 250 * np.linalg.inv(S)
    elif kind == 2:
        costs = np.c_[costs, [float(0 in s) for s in sets]]
        budgets.append(rng.uniform(3, 100))
        if seed % 4 < 2:
            costs = np.c_[costs, [float(1 in s) for s in sets]]
            budgets.append(rng.uniform(10, 1000))
    target = np.eye(k)[0] if rng.random() < 0.7 else rng.normal(size=k)
    measured = [Measurement(name="", observes=s, cost=()) for s in sets]
    return make_program(information_of(measured, S), costs, budgets, prior, target)


def referee(program: DesignProgram) -> float:
    """The least variance by cvxpy and CLARABEL on the scaled semidefinite program."""
    import warnings

    import cvxpy as cp

    shares = program.costs / program.budgets
    unit = shares.max(axis=1)
    G = program.information / unit[:, None, None]
    reference = program.prior + G.mean(axis=0)
    d = 1 / np.sqrt(np.diag(reference))
    G, M0, a = G * np.outer(d, d), program.prior * np.outer(d, d), program.target * d
    value = float(a @ np.linalg.solve(reference * np.outer(d, d), a))
    a = a / np.sqrt(value)
    k = len(a)
    n, t = cp.Variable(len(G), nonneg=True), cp.Variable()
    M = cp.reshape(G.reshape(len(G), -1).T @ n, (k, k), order="C") + M0
    block: Any = cp.bmat([[M, a[:, None]], [a[None], cp.reshape(t, (1, 1), order="C")]])
    sdp = cp.Problem(cp.Minimize(t), [block >> 0, (shares / unit[:, None]).T @ n <= 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate" at a tolerance of 1e-10
        sdp.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(sdp.value) * value


def brute_force(program: DesignProgram, least: int = 2) -> tuple[float, NDArray[np.int64]]:
    """The best whole counts, each 0 or at least ``least``, by trying all."""
    found: list[NDArray[np.int64]] = []
    n = np.zeros(len(program.costs), dtype=np.int64)

    def go(j: int, left: Array) -> None:
        if j == len(n):
            found.append(n.copy())
            return
        cost = program.costs[j]
        most = int(np.floor(np.min(left[cost > 0] / cost[cost > 0]) + 1e-9))
        for value in (0, *range(least, most + 1)):
            n[j] = value
            go(j + 1, left - value * cost)
        n[j] = 0

    go(0, program.budgets.copy())
    counts = np.array(found)
    best, which = np.inf, counts[0]
    for start in range(0, len(counts), 20_000):
        part = counts[start : start + 20_000]
        M = program.prior + np.einsum("bj,jkl->bkl", part.astype(np.float64), program.information)
        values = target_variance(
            M, np.broadcast_to(program.target, (len(part), program.target.size))
        )
        if values.min() < best:
            best, which = float(values.min()), part[int(values.argmin())]
    return best, which
