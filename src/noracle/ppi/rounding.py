"""Whole numbers out of an allocation: never over a budget, and nothing left that would still buy
something.

The dive fixes one measurement after the other, dearest first. For each it tries the whole numbers
next to the current real number and solves the rest of the problem again with what is fixed as
prior; a few of the best beginnings are carried on together. What is left of the budget is then
spent, and single exchanges are tried. Counts are 0 or at least 2, because a sample of one has no
variance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from noracle.errors import ArgumentError
from noracle.ppi.certificate import target_variance
from noracle.ppi.program import Allocation, Program
from noracle.ppi.solver import solve_batch

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

LEAST = 2
"""The smallest sample that is taken at all."""
_BEAM = 12
_TINY, _SMALL = (
    12,
    30,
)  # up to these counts all smaller numbers, or a few more neighbours and none at all, are tried
_POLISHED = 8
_SLACK = 1e-12
_MOST_NEAR = 32


@dataclasses.dataclass(slots=True, eq=False)
class _State:
    """A beginning: fixed counts, and the real counts of the rest as last solved."""

    n: Counts
    fixed: NDArray[np.bool_]
    rest: Array


def snap(n: Array) -> Counts:
    """The whole numbers below, where a solver's 249.9999 is 250.

    Examples
    --------
    >>> snap(np.array([249.99999999, 3.7])).tolist()
    [250, 3]
    """
    return np.floor(n * (1 + 1e-7) + 1e-9).astype(np.int64)


def within(program: Program, n: NDArray[np.int64] | Array) -> bool:
    """Whether counts keep every budget, but for the rounding of floating-point sums."""
    return bool((n @ program.costs <= program.budgets * (1 + _SLACK)).all())


def round_counts(
    program: Program, allocation: Allocation, *, least: int = LEAST, seeds: Sequence[Counts] = ()
) -> Counts:
    """Whole counts near an allocation, each 0 or at least ``least``, within every budget.

    Parameters
    ----------
    program
        The problem that ``allocation`` solves.
    allocation
        Real counts with their dual vector and prices.
    least
        The smallest count that is not 0.
    seeds
        Beginnings to fill up where the dive ends nowhere: budgets that hardly cover the target.

    Returns
    -------
    numpy.ndarray
        Counts (J,).

    Raises
    ------
    ArgumentError
        If no whole counts within the budgets cover the target.

    Examples
    --------
    >>> from noracle.ppi.program import make_program
    >>> from noracle.ppi.solver import solve
    >>> program = make_program([[[4.0]]], [3.0], 100.0, None, [1.0])
    >>> round_counts(program, solve(program)).tolist()
    [33]
    """
    near = _near(program, allocation, seeds)
    small = Program(
        information=program.information[near],
        costs=program.costs[near],
        budgets=program.budgets,
        prior=program.prior,
        target=program.target,
    )
    best = _best_end(small, _dive(small, allocation.n[near], least), least)
    if best is None:
        best = _best_end(
            small,
            [_fill(small, seed[near], least) for seed in seeds if within(program, seed)],
            least,
        )
    if best is None:
        raise ArgumentError(
            "budgets must buy at least two measurements of every part of the target; nothing within them covers it."
        )
    counts = np.zeros(len(program.costs), dtype=np.int64)
    counts[near] = best
    return counts


def _best_end(program: Program, ends: Sequence[Counts], least: int) -> Counts | None:
    """The best counts after trying exchanges on the best few ends."""
    if not len(ends):
        return None
    counts = np.array(ends)
    order = np.argsort(_variances(program, counts), kind="stable")[:_POLISHED]
    counts = np.array([_exchange(program, counts[i], least) for i in order])
    variances = _variances(program, counts)
    best = int(np.argmin(variances))
    return counts[best] if np.isfinite(variances[best]) else None


def _near(program: Program, allocation: Allocation, seeds: Sequence[Counts]) -> NDArray[np.intp]:
    """The measurements that are bought, or nearly so: worth most of what they cost at the dual
    prices.
    """
    used = np.einsum("jkl,k,l->j", program.information, allocation.y, allocation.y)
    paid = program.costs @ allocation.prices
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(paid > 0, used / paid, 0.0)
    needed = (allocation.n > 0) | np.any([seed > 0 for seed in seeds], axis=0)
    ratio = np.where(needed, np.inf, ratio)
    most = max(_MOST_NEAR, int(np.sum(needed)))
    return np.sort(np.argsort(-ratio, kind="stable")[:most])


def _dive(program: Program, real: Array, least: int) -> list[Counts]:
    """Whole counts at the ends of the dive, filled up; beginnings that cannot beat the best end are
    given up.
    """
    J = len(program.costs)
    shares = (program.costs / program.budgets).max(axis=-1)
    start = snap(real)
    start[start < least] = 0
    ends: dict[bytes, Counts] = {}
    best = _keep(program, start, least, ends, np.inf) if within(program, start) else np.inf
    beam = [_State(n=np.zeros(J, dtype=np.int64), fixed=np.zeros(J, dtype=bool), rest=real)]
    for _ in range(J):
        trials: list[_State] = []
        for state in beam:
            open_ = np.flatnonzero(~state.fixed & (state.rest > 1e-6))
            if not len(open_):
                best = _keep(program, state.n, least, ends, best)
                continue
            j = int(open_[np.argmax(shares[open_])])
            for value in _choices(program, state, j, least):
                n, fixed = state.n.copy(), state.fixed.copy()
                n[j], fixed[j] = value, True
                trials.append(_State(n=n, fixed=fixed, rest=state.rest))
        if not trials:
            break
        variances = _solve_rest(program, trials)
        order = np.argsort(variances, kind="stable")
        beam = [trials[i] for i in order[:_BEAM] if variances[i] < best * (1 - 1e-7)]
    for state in beam:
        _keep(program, state.n, least, ends, best)
    return list(ends.values())


def _keep(program: Program, n: Counts, least: int, ends: dict[bytes, Counts], best: float) -> float:
    """Fill up an end, keep it, and return the least variance so far."""
    filled = _fill(program, n, least)
    ends[filled.tobytes()] = filled
    return min(best, float(_variances(program, filled[None])[0]))


def _choices(program: Program, state: _State, j: int, least: int) -> list[int]:
    """The whole numbers next to the real one that keep every budget."""
    floor = int(snap(state.rest[j : j + 1])[0])
    left = program.budgets - state.n @ program.costs
    cost = program.costs[j]
    with np.errstate(divide="ignore"):
        most = int(
            np.floor(
                np.min(np.where(cost > 0, left / np.where(cost > 0, cost, 1.0), np.inf))
                * (1 + 1e-12)
                + 1e-9
            )
        )
    if floor <= _TINY:
        near = tuple(range(floor + 3))
    else:
        near = (
            (0, *range(floor - 2, floor + 3)) if floor <= _SMALL else (floor - 1, floor, floor + 1)
        )
    values = {0 if v < 1 else max(v, least) for v in near}
    return sorted(v for v in values if v <= most) or [0]


def _solve_rest(program: Program, trials: list[_State]) -> Array:
    """Solve what is not fixed for all trials at once; their ``rest`` is filled in, and their
    variance returned.
    """
    fixed = np.array([t.fixed for t in trials])
    n = np.array([t.n for t in trials], dtype=np.float64)
    prior = program.prior + np.einsum("bj,jkl->bkl", n, program.information)
    left = np.maximum(program.budgets - n @ program.costs, 0.0)
    nothing = fixed.all(axis=1)
    # A measurement that is fixed, or too dear for what is left, gives no information in the rest of
    # the problem.
    dear = (program.costs[None] > left[:, None, :] * (1 + 1e-9)).any(axis=-1)
    shut = fixed | dear
    nothing |= shut.all(axis=1)
    variances = target_variance(
        prior, np.broadcast_to(program.target, (len(trials), program.target.size))
    )
    for state in trials:
        state.rest = np.zeros(len(program.costs))
    going = np.flatnonzero(~nothing)
    if len(going):
        G = np.where(shut[going][:, :, None, None], 0.0, program.information[None])
        floor = 1e-9 * program.budgets
        batch = solve_batch(
            G,
            program.costs,
            np.maximum(left[going], floor),
            prior[going],
            program.target,
            tolerance=1e-6,
        )
        for place, i in enumerate(going):
            if batch.variance[place] < variances[i]:
                variances[i] = batch.variance[place]
                trials[i].rest = np.where(shut[i], 0.0, batch.n[place])
                share = trials[i].rest * (program.costs / program.budgets).max(axis=-1)
                trials[i].rest[share < 1e-7] = 0.0
    return variances


def _variances(program: Program, n: NDArray[np.int64]) -> Array:
    M = program.prior + np.einsum("bj,jkl->bkl", n.astype(np.float64), program.information)
    return target_variance(M, np.broadcast_to(program.target, (len(n), program.target.size)))


def _fill(program: Program, n: Counts, least: int) -> Counts:
    """Spend what is left: again and again the measurement that lowers the variance most for its
    share of what is left.
    """
    n = n.copy()
    for _ in range(200):
        left = program.budgets * (1 + _SLACK) - n @ program.costs
        with np.errstate(divide="ignore", invalid="ignore"):
            fits = np.floor(
                np.min(
                    np.where(
                        program.costs > 0,
                        left / np.where(program.costs > 0, program.costs, 1.0),
                        np.inf,
                    ),
                    axis=-1,
                )
            )
        one = np.where(n >= least, 1, least - n)
        able = np.flatnonzero(fits >= one)
        if not len(able):
            break
        more = np.maximum(one, (fits // 4).astype(np.int64))[able]  # large steps while much is left
        trials = np.repeat(n[None], len(able), axis=0)
        trials[np.arange(len(able)), able] += more
        now = float(_variances(program, n[None])[0])
        after = _variances(program, trials)
        if not (after < now * (1 - 1e-13)).any():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            used = (more[:, None] * program.costs[able] / np.maximum(left, 1e-300)).max(axis=-1)
            gain = (now - after) / used if np.isfinite(now) else -after
        n = trials[int(np.nanargmax(gain))]
    return n


def _exchange(program: Program, n: Counts, least: int) -> Counts:
    """Give up some of one measurement and spend it on others, as long as that helps."""
    now = float(_variances(program, n[None])[0])
    for _ in range(40):
        trials = _exchanges(program, n, least)
        if not len(trials):
            break
        after = _variances(program, trials)
        best = int(np.argmin(after))
        if not after[best] < now * (1 - 1e-12):
            break
        n = _fill(program, trials[best], least)
        now = float(_variances(program, n[None])[0])
    return n


def _exchanges(program: Program, n: Counts, least: int) -> Counts:
    """All counts with one, two or all fewer of a measurement, and as many more of another as what
    is then left allows.
    """
    bought = np.repeat(np.flatnonzero(n), 3)
    less = n[bought] - np.where(
        np.arange(len(bought)) % 3 == 2, n[bought], 1 + np.arange(len(bought)) % 3
    )
    fewer = np.repeat(n[None], len(bought), axis=0)
    fewer[np.arange(len(bought)), bought] = np.where(less >= least, less, 0)
    left = program.budgets * (1 + _SLACK) - fewer @ program.costs
    paid = program.costs > 0
    ratio = np.where(paid, left[:, None, :] / np.where(paid, program.costs, 1.0), np.inf)
    more = np.floor(ratio.min(axis=-1)).astype(np.int64)
    able = (more >= 1) & (fewer + more >= least) & (np.arange(len(n)) != bought[:, None])
    which, i = np.nonzero(able)
    trials = fewer[which]
    trials[np.arange(len(which)), i] += more[which, i]
    return trials
