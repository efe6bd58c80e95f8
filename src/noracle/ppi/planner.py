"""The search behind a plan: over all sets or some of them, for given budgets or for the smallest
one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noracle.errors import ArgumentError, require
from noracle.ppi.columns import SWEEP_TO, solve_columns
from noracle.ppi.covariance import Array
from noracle.ppi.measurements import Measurement
from noracle.ppi.problem import Problem, least_cover
from noracle.ppi.solver import (
    Allocation,
    DesignProgram,
    solve,
    solve_batch,
    target_variance,
    variance_of,
)
from noracle.results import Plan

Counts = NDArray[np.int64]

LEAST = 2
"""The smallest sample that is taken at all."""
_BEAM = 12
_TINY, _SMALL = 12, 30
"""Up to these counts all smaller numbers, or a few more neighbours and none at all, are tried."""
_POLISHED = 8
_SLACK = 1e-12
_MOST_NEAR = 32


@dataclasses.dataclass(slots=True, eq=False)
class _Partial:
    """A beginning: fixed counts, and the real counts of the rest as last solved."""

    n: Counts
    fixed: NDArray[np.bool_]
    rest: Array


def snap(n: Array) -> Counts:
    """The whole numbers below, where a solver's 249.9999 is 250."""
    return np.floor(n * (1 + 1e-7) + 1e-9).astype(np.int64)


def within(program: DesignProgram, n: NDArray[np.int64] | Array) -> bool:
    """Whether counts keep every budget, but for the rounding of floating-point sums."""
    return bool((n @ program.costs <= program.budgets * (1 + _SLACK)).all())


def round_counts(
    program: DesignProgram, allocation: Allocation, seeds: Sequence[Counts] = ()
) -> Counts:
    """Whole counts near an allocation, each 0 or at least :data:`LEAST`, within every budget.

    ``seeds`` are beginnings to fill up where the dive ends nowhere: budgets that hardly cover the
    target. It is an error if no whole counts within the budgets cover the target.
    """
    near = _near(program, allocation, seeds)
    small = dataclasses.replace(
        program, information=program.information[near], costs=program.costs[near]
    )
    best = _best_end(small, _dive(small, allocation.n[near]))
    if best is None:
        filled = [_fill(small, seed[near]) for seed in seeds if within(program, seed)]
        best = _best_end(small, filled)
    if best is None:
        rule = "budgets must buy at least two measurements of every part of the target"
        raise ArgumentError(f"{rule}; nothing within them covers it.")
    counts = np.zeros(len(program.costs), dtype=np.int64)
    counts[near] = best
    return counts


def _best_end(program: DesignProgram, ends: Sequence[Counts]) -> Counts | None:
    """The best counts after trying exchanges on the best few ends."""
    if not len(ends):
        return None
    counts = np.array(ends)
    order = np.argsort(_variances(program, counts), kind="stable")[:_POLISHED]
    counts = np.array([_exchange(program, counts[i]) for i in order])
    variances = _variances(program, counts)
    best = int(np.argmin(variances))
    return counts[best] if np.isfinite(variances[best]) else None


def _near(
    program: DesignProgram, allocation: Allocation, seeds: Sequence[Counts]
) -> NDArray[np.intp]:
    """The measurements that are worth most of what they cost at the dual prices."""
    used = np.einsum("jkl,k,l->j", program.information, allocation.y, allocation.y)
    paid = program.costs @ allocation.prices
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(paid > 0, used / paid, 0.0)
    needed = (allocation.n > 0) | np.any([seed > 0 for seed in seeds], axis=0)
    ratio = np.where(needed, np.inf, ratio)
    most = max(_MOST_NEAR, int(np.sum(needed)))
    return np.sort(np.argsort(-ratio, kind="stable")[:most])


def _dive(program: DesignProgram, real: Array) -> list[Counts]:
    """Whole counts at the ends of the dive; beginnings that cannot beat the best are given up."""
    J = len(program.costs)
    shares = (program.costs / program.budgets).max(axis=-1)
    start = snap(real)
    start[start < LEAST] = 0
    ends: dict[bytes, Counts] = {}
    best = _keep(program, start, ends, np.inf) if within(program, start) else np.inf
    beam = [_Partial(n=np.zeros(J, dtype=np.int64), fixed=np.zeros(J, dtype=bool), rest=real)]
    for _ in range(J):
        trials: list[_Partial] = []
        for state in beam:
            open_ = np.flatnonzero(~state.fixed & (state.rest > 1e-6))
            if not len(open_):
                best = _keep(program, state.n, ends, best)
                continue
            j = int(open_[np.argmax(shares[open_])])
            for value in _choices(program, state, j):
                n, fixed = state.n.copy(), state.fixed.copy()
                n[j], fixed[j] = value, True
                trials.append(_Partial(n=n, fixed=fixed, rest=state.rest))
        if not trials:
            break
        variances = _solve_rest(program, trials)
        order = np.argsort(variances, kind="stable")
        beam = [trials[i] for i in order[:_BEAM] if variances[i] < best * (1 - 1e-7)]
    for state in beam:
        _keep(program, state.n, ends, best)
    return list(ends.values())


def _keep(program: DesignProgram, n: Counts, ends: dict[bytes, Counts], best: float) -> float:
    """Fill up an end, keep it, and return the least variance so far."""
    filled = _fill(program, n)
    ends[filled.tobytes()] = filled
    return min(best, float(_variances(program, filled[None])[0]))


def _room(program: DesignProgram, left: Array) -> Array:
    """How many of each measurement what is left of the budgets could pay, as real numbers."""
    paid = program.costs > 0
    ratio = np.where(paid, left[..., None, :] / np.where(paid, program.costs, 1.0), np.inf)
    return np.asarray(ratio.min(axis=-1))


def _choices(program: DesignProgram, state: _Partial, j: int) -> list[int]:
    """The whole numbers next to the real one that keep every budget."""
    floor = int(snap(state.rest[j : j + 1])[0])
    room = _room(program, program.budgets - state.n @ program.costs)[j]
    most = int(np.floor(room * (1 + 1e-12) + 1e-9))
    near: tuple[int, ...] = (floor - 1, floor, floor + 1)
    if floor <= _SMALL:
        near = (0, *range(floor - 2, floor + 3)) if floor > _TINY else tuple(range(floor + 3))
    values = {0 if v < 1 else max(v, LEAST) for v in near}
    return sorted(v for v in values if v <= most) or [0]


def _solve_rest(program: DesignProgram, trials: list[_Partial]) -> Array:
    """Solve what is not fixed in all trials, whose ``rest`` is filled in; their variances."""
    fixed = np.array([t.fixed for t in trials])
    n = np.array([t.n for t in trials], dtype=np.float64)
    prior = program.prior + np.einsum("bj,jkl->bkl", n, program.information)
    left = np.maximum(program.budgets - n @ program.costs, 0.0)
    # A measurement that is fixed, or too expensive for what is left, gives no information in the
    # rest of the problem.
    shut = fixed | (program.costs[None] > left[:, None, :] * (1 + 1e-9)).any(axis=-1)
    variances = target_variance(prior, program.target)
    for state in trials:
        state.rest = np.zeros(len(program.costs))
    going = np.flatnonzero(~shut.all(axis=1))
    if len(going):
        G = np.where(shut[going][:, :, None, None], 0.0, program.information[None])
        budgets = np.maximum(left[going], 1e-9 * program.budgets)
        batch = solve_batch(G, program.costs, budgets, prior[going], program.target, tolerance=1e-6)
        for place, i in enumerate(going):
            if batch.variance[place] < variances[i]:
                variances[i] = batch.variance[place]
                rest = np.where(shut[i], 0.0, batch.n[place])
                rest[rest * (program.costs / program.budgets).max(axis=-1) < 1e-7] = 0.0
                trials[i].rest = rest
    return variances


def _variances(program: DesignProgram, n: Counts) -> Array:
    M = program.prior + np.einsum("bj,jkl->bkl", n.astype(np.float64), program.information)
    return target_variance(M, program.target)


def _fill(program: DesignProgram, n: Counts) -> Counts:
    """Spend what is left on what lowers the variance most for its share of what is left."""
    n = n.copy()
    for _ in range(200):
        left = program.budgets * (1 + _SLACK) - n @ program.costs
        fits = np.floor(_room(program, left))
        one = np.where(n >= LEAST, 1, LEAST - n)
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


def _exchange(program: DesignProgram, n: Counts) -> Counts:
    """Give up some of one measurement and spend it on others, as long as that helps."""
    now = float(_variances(program, n[None])[0])
    for _ in range(40):
        trials = _exchanges(program, n)
        if not len(trials):
            break
        after = _variances(program, trials)
        best = int(np.argmin(after))
        if not after[best] < now * (1 - 1e-12):
            break
        n = _fill(program, trials[best])
        now = float(_variances(program, n[None])[0])
    return n


def _exchanges(program: DesignProgram, n: Counts) -> Counts:
    """Counts with one, two or all fewer of a measurement, and as many more of another."""
    bought = np.repeat(np.flatnonzero(n), 3)
    step = np.arange(len(bought)) % 3
    less = n[bought] - np.where(step == 2, n[bought], 1 + step)
    fewer = np.repeat(n[None], len(bought), axis=0)
    fewer[np.arange(len(bought)), bought] = np.where(less >= LEAST, less, 0)
    left = program.budgets * (1 + _SLACK) - fewer @ program.costs
    more = np.floor(_room(program, left)).astype(np.int64)
    able = (more >= 1) & (fewer + more >= LEAST) & (np.arange(len(n)) != bought[:, None])
    which, i = np.nonzero(able)
    trials = fewer[which]
    trials[np.arange(len(which)), i] += more[which, i]
    return trials


_MANY_RATERS = 8
_FACTORS = (0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0)
_FEW_FACTORS = (0.25, 1.0, 4.0)
_NOTHING = 1e-6
_COVERED = "target must be covered by what is for sale or in hand"
Chosen = Sequence[Measurement] | None
"""Some measurements, or None for all of the problem."""


class FoundPlan(NamedTuple):
    """Whole counts, what they give, and the real solution with its bound."""

    measurements: tuple[Measurement, ...]
    n: Counts
    variance: float
    real: Allocation
    budgets: Array
    spent: Array
    least: float = math.nan  # with a wanted half-width: what the free budget must be at least

    @property
    def buy(self) -> dict[str, int]:
        """The counts by name."""
        return {self.measurements[j].name: int(self.n[j]) for j in np.flatnonzero(self.n)}


class Planner:
    """Finds plans over all or some measurements of one problem."""

    def __init__(self, problem: Problem, free: str | None, wanted: float | None) -> None:
        self.problem, self.wanted = problem, wanted
        self.names = list(problem.budgets)
        self.place = None if free is None else self.names.index(free)
        self.given = np.array(list(problem.budgets.values()), dtype=np.float64)

    def find(self, chosen: Chosen, prior: Array) -> FoundPlan:
        """The best plan over ``chosen`` measurements (all, if None) with this information in hand."""
        cover = self._cover(chosen, prior)
        if self.wanted is None or self.place is None:
            return self._best(chosen, prior, self.given, cover)
        return self._smallest(chosen, prior, self.wanted, self.place, cover)

    def relaxed(
        self, chosen: Chosen, prior: Array, budgets: Array
    ) -> tuple[tuple[Measurement, ...], DesignProgram, Allocation]:
        """The best real counts for these budgets, and what they count."""
        problem = self.problem
        if chosen is None and problem.generated:
            (family,) = problem.families
            found = solve_columns(
                problem.covariance,
                family.prices,
                budgets,
                prior,
                problem.target,
                variables=family.variables,
                tolerance=1e-6 if len(family.variables) <= SWEEP_TO else 1e-3,
            )
            measurements = problem.members(found.sets)
            return measurements, problem.program(measurements, budgets, prior), found.allocation
        measurements = problem.measurements() if chosen is None else tuple(chosen)
        program = problem.program(measurements, budgets, prior)
        return measurements, program, solve(program)

    def _best(
        self, chosen: Chosen, prior: Array, budgets: Array, cover: Sequence[Measurement]
    ) -> FoundPlan:
        measurements, program, real = self.relaxed(chosen, prior, budgets)
        seed = np.array([LEAST if m in cover else 0 for m in measurements], dtype=np.int64)
        n = round_counts(program, real, [seed] if cover else [])
        variance, spent = variance_of(program, n), n @ program.costs
        return FoundPlan(measurements, n, variance, real, budgets, spent)

    def _cover(self, chosen: Chosen, prior: Array) -> list[Measurement]:
        """The cheapest measurements that cover what is not in hand; an error if none do."""
        problem = self.problem
        if np.isfinite(target_variance(prior, problem.target)):
            return []
        missing = np.where(np.diag(prior) > 0, 0.0, problem.target)
        if chosen is not None and not missing.any():
            return self._completion(chosen, prior)
        missing = missing if missing.any() else problem.target
        measurements = self._listing(chosen, np.flatnonzero(missing).tolist())
        cover: list[Measurement] = []
        for place in range(len(self.given)):
            least, which = least_cover(measurements, missing, place, LEAST)
            hidden = ", ".join(problem.names[i] for i in np.flatnonzero(missing))
            rule = f"{_COVERED}; nothing observes all of {hidden}."
            require(math.isfinite(least), rule)
            found = [measurements[j] for j in which]
            self._affordable(least, place, found)
            cover = cover or found
        return cover

    def _completion(self, chosen: Sequence[Measurement], prior: Array) -> list[Measurement]:
        """As few measurements as make the target known beside what is in hand."""

        def known(some: Sequence[Measurement]) -> bool:
            more = [LEAST * m.information(self.problem.covariance) for m in some]
            M = prior + sum(more, np.zeros_like(prior))
            return bool(np.isfinite(target_variance(M, self.problem.target)))

        cover = list(chosen)
        require(known(cover), f"{_COVERED}.")
        for one in sorted(chosen, key=lambda m: -sum(m.cost)):
            fewer = [m for m in cover if m is not one]
            cover = fewer if known(fewer) else cover
        for place in range(len(self.given)):
            self._affordable(LEAST * sum(m.cost[place] for m in cover), place, cover)
        return cover

    def _affordable(self, least: float, place: int, cover: Sequence[Measurement]) -> None:
        limit, names = self.given[place], ", ".join(m.name for m in cover)
        rule = f"budgets must be at least {least:g} for {self.names[place]!r}"
        takes = f"the cheapest plan takes {LEAST} of {names}; got {limit:g}."
        require(not least > limit * (1 + 1e-12), f"{rule}: {takes}")

    def _smallest(
        self, chosen: Chosen, prior: Array, wanted: float, place: int, cover: Sequence[Measurement]
    ) -> FoundPlan:
        budgets = self.given.copy()
        prices = np.array([m.cost[place] for m in self._listing(chosen)])
        rule = f"budgets must leave a budget open that something costs; nothing costs any of {self.names[place]!r}."
        require((prices > 0).any(), rule)
        cheapest = float(prices[prices > 0].min())
        held = float(target_variance(prior, self.problem.target))
        if held <= wanted:
            budgets[place] = cheapest
            found = self._best(chosen, prior, budgets, [])
            n, spent = np.zeros_like(found.n), 0.0 * found.spent
            return found._replace(n=n, variance=held, spent=spent, least=0.0)
        start = max(sum(m.cost[place] for m in cover) * LEAST, 100 * cheapest)
        budgets[place] = 1e7 * start
        best = self.relaxed(chosen, prior, budgets)[2].variance
        rule = f"half_width cannot be reached whatever the budget {self.names[place]!r}"
        above = f"the standard error stays above {math.sqrt(best):.4g} where {math.sqrt(wanted):.4g} is needed"
        remedy = "Raise the caps, widen the goal or sell more variables."
        require(best <= wanted, f"{rule}: {above}. {remedy}")
        budgets[place] = start
        # 1/V is concave in the budget: from the left, Newton's steps never pass the solution.
        for _ in range(60):
            real = self.relaxed(chosen, prior, budgets)[2]
            missing = 1 / wanted - 1 / real.variance
            slope = real.prices[place] / real.variance**2
            move = missing / slope if slope > 0 else budgets[place]
            budgets[place] = min(max(budgets[place] + move, 0.01 * budgets[place]), 1e7 * start)
            if abs(move) <= 1e-9 * budgets[place]:
                break
        least = float(budgets[place])

        def at(budget: float) -> FoundPlan:
            budgets[place] = budget
            return self._best(chosen, prior, budgets.copy(), cover)

        found = _enough(at, least, wanted, cheapest)
        return self._trimmed(found._replace(least=least, real=real), prior, wanted)

    def _listing(self, chosen: Chosen, wanted: Sequence[int] = ()) -> list[Measurement]:
        """What may be bought; of generated sets single ones, or those of what is ``wanted``."""
        if chosen is not None or not self.problem.generated:
            return list(self.problem.measurements() if chosen is None else chosen)
        (family,) = self.problem.families
        if not wanted:
            return [family.measurement((i,), self.problem.names) for i in family.variables]
        there = tuple(i for i in wanted if i in family.variables)
        sets = dict.fromkeys([*((i,) for i in there), *([there] if there else [])])
        return list(self.problem.members(sets))

    def _trimmed(self, found: FoundPlan, prior: Array, wanted: float) -> FoundPlan:
        """Take away what the goal does not need, then exchange measurements for cheaper ones."""
        program = self.problem.program(found.measurements, found.budgets, prior)
        prices = program.costs[:, self.place or 0]
        n = _fewest(program, found.n, prices, wanted)
        for _ in range(20):
            cheaper = _cheaper(program, n, prices, wanted)
            if cheaper is None:
                break
            n = cheaper
        return found._replace(n=n, variance=variance_of(program, n), spent=n @ program.costs)

    def simpler(self, raters: Sequence[str]) -> Iterable[tuple[str, list[Measurement], Array]]:
        """Names, measurements and information in hand of simpler plans."""
        problem, k = self.problem, len(raters)
        wanted = sorted({problem.of[i] for i in np.flatnonzero(problem.target)})
        others = [i for i in range(k) if i not in wanted]
        alone, everyone = set(wanted), set(others)

        def prior(kinds: set[int]) -> Array:
            return problem.prior([i for i, r in enumerate(problem.of) if r in kinds])

        single = self._with(lambda s: len(s) == 1 and s <= alone)
        yield "classical", [m for m in single if m.noise is None], prior(alone)
        noisy = any(m.noise for m in problem.listed)
        if noisy or any(f.label is not None for f in problem.families):
            yield "labels only", self._with(lambda s: s <= alone), prior(alone)
        first = int(np.flatnonzero(problem.target)[0]) // k * k
        block = problem.covariance[first : first + k, first : first + k]
        at = wanted[0]
        strength = {r: block[at, r] ** 2 / (block[at, at] * block[r, r]) for r in others}
        strongest = sorted(others, key=lambda r: -strength[r])
        shown = others if len(others) <= _MANY_RATERS else sorted(strongest[:5])
        for r in shown:
            both = alone | {r}
            sold = self._with(_one_of(both, {r}))
            if len(alone) == 1:
                taken = [m for m in (self._plain(one, at, r) for one in sold) if m is not None]
                yield f"PPI {raters[r]}", taken, self._plain_prior(at, r)
            yield f"PPI++ {raters[r]}", sold, prior(both)
        if len(others) > 1:
            every = problem.prior()
            yield "PPI++ vector", self._with(_one_of(alone | everyone, everyone)), every
            singles = {r: [m.cost[0] for m in self._with(_one_of({r}))] for r in others}
            left = sorted(others, key=lambda r: -next(iter(singles[r]), 0.0))
            chain = [alone | everyone, *(set(left[drop:]) for drop in range(len(left)))]
            yield "cascade", self._with(_one_of(*chain)), every

    def _plain(self, one: Measurement, wanted: int, rater: int) -> Measurement | None:
        """What plain PPI takes of a measurement: the difference of target and rater, or the rater
        alone, so that the only unbiased weights are 1 and 1; None where it takes nothing.
        """
        at = {self.problem.of[i]: i for i in one.observes}
        if one.matrix is not None or rater not in at:
            return None
        if wanted not in at:
            return Measurement(name=one.name, observes=(at[rater],), cost=one.cost)
        row = np.zeros(len(self.problem.covariance))
        row[at[wanted]], row[at[rater]] = 1.0, -1.0
        place = one.observes.index(at[wanted])
        noise = None if one.noise is None else ((one.noise[place][place],),)
        seen = tuple(sorted((at[wanted], at[rater])))
        name, cost, matrix = one.name, one.cost, (tuple(row.tolist()),)
        return Measurement(name=name, observes=seen, cost=cost, matrix=matrix, noise=noise)

    def _plain_prior(self, wanted: int, rater: int) -> Array:
        cov = self.problem.covariance
        parts = [(self._plain(one, wanted, rater), n) for one, n in self.problem.have]
        known = [n * part.information(cov) for part, n in parts if part is not None]
        return sum(known, np.zeros_like(cov))

    def _with(self, wanted: Callable[[set[int]], bool]) -> list[Measurement]:
        """The measurements whose set of raters is ``wanted``."""
        problem = self.problem
        if not problem.generated:
            plain = [m for m in problem.measurements() if m.matrix is None]
            return [m for m in plain if wanted({problem.of[i] for i in m.observes})]
        (family,) = problem.families
        at = family.variables
        order = sorted(at, key=lambda i: -family.measurement((i,), problem.names).cost[0])
        sets = [*((i,) for i in at), *((i, j) for i in at for j in at if i < j)]
        for chain in (at, order):
            sets += [tuple(sorted(chain[d:])) for d in range(len(at) - 2)]
        picked = [s for s in dict.fromkeys(sets) if wanted({problem.of[i] for i in s})]
        return list(problem.members(picked))


def _one_of(*sets: set[int]) -> Callable[[set[int]], bool]:
    return lambda s: s in sets


def _enough(
    at: Callable[[float], FoundPlan], least: float, wanted: float, cheapest: float
) -> FoundPlan:
    """Raise the budget until whole counts reach the goal, then lower it as far as they do."""
    low, step = least, max(cheapest, 1e-6 * least)
    for _ in range(40):
        high = low + step
        good = at(high)
        if good.variance <= wanted:
            break
        low, step = high, 2 * step
    else:
        raise ArgumentError("half_width is out of reach within the caps. Raise one of them.")
    for _ in range(7):
        if high - low <= max(cheapest, 1e-5 * least):
            break
        middle = (low + high) / 2
        found = at(middle)
        if found.variance <= wanted:
            good, high = found, middle
        else:
            low = middle
    return good


def _fewest(program: DesignProgram, n: Counts, prices: Array, wanted: float) -> Counts:
    """Counts lowered one by one, the most expensive first, while the variance stays as wanted."""
    n = n.copy()
    for j in np.argsort(-prices):
        while n[j]:
            fewer = n.copy()
            fewer[j] = n[j] - 1 if n[j] > LEAST else 0
            if not variance_of(program, fewer) <= wanted:
                break
            n = fewer
    return n


def _cheaper(program: DesignProgram, n: Counts, prices: Array, wanted: float) -> Counts | None:
    """The cheapest counts with less of one measurement and more of another; None if none save."""
    best = None
    cost = float(prices @ n)
    bought = np.flatnonzero(n).tolist()
    for j, i in itertools.permutations(bought, 2):
        for fewer in {0, int(n[j]) - 1, int(n[j]) - 2}:
            trial = n.copy()
            trial[j] = fewer if fewer >= LEAST else 0
            limit = cost - float(prices @ trial)
            other = _raised(program, trial, i, wanted, price=float(prices[i]), limit=limit)
            if other is not None and prices @ other < cost * (1 - 1e-12):
                best = _fewest(program, other, prices, wanted)
                cost = float(prices @ best)
    return best


def _raised(
    program: DesignProgram, n: Counts, i: int, wanted: float, *, price: float, limit: float
) -> Counts | None:
    """The counts with just enough more of measurement i for less than ``limit``; else None."""
    most = int(min(limit / price, 400.0)) if price > 0 else 0
    trial = n.copy()
    trial[i] = n[i] + most
    if most < 1 or not variance_of(program, trial) <= wanted:
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        trial[i] = n[i] + middle
        low, high = (low, middle) if variance_of(program, trial) <= wanted else (middle, high)
    trial[i] = max(n[i] + high, LEAST)
    return trial if within(program, trial) else None


class BudgetPoint(NamedTuple):
    """The best plan for one budget in real numbers: counts and weights by set."""

    budget: float
    half_width: float
    n: Mapping[str, float]
    weights: Mapping[str, Mapping[str, float]]


def budget_path(plan: Plan, *, budgets: Sequence[float] | None = None) -> tuple[BudgetPoint, ...]:
    """Solve the problem of a plan again for other budgets, in real numbers, from the smallest to
    the largest (Cowen-Breen et al. 2026, Figures 2-5).

    ``budgets`` are values of the first budget, or of the one that was to be small; by default from
    an eighth of what the plan spends to eight times as much.
    """
    rule = "plan must be a plan across raters, made by plan_budget; got another plan."
    require(plan.inputs.get("planner") == "budget", rule)
    problem = Problem.from_dict(plan.diagnostics["problem"])
    planner = Planner(problem, None, None)
    place = int(np.argmax(np.isnan(planner.given)))
    spent = plan.cost if plan.cost > 0 else float(plan.wanted)
    factors = _FEW_FACTORS if problem.generated else _FACTORS
    values = [f * spent for f in factors] if budgets is None else [float(b) for b in budgets]
    sound = all(v > 0 and math.isfinite(v) for v in values)
    require(sound, f"budgets must be positive numbers; got {values}.")
    z = NormalDist().inv_cdf((1 + plan.confidence) / 2)
    prior, every = problem.prior(), None if problem.generated else problem.measurements()
    points = []
    for value in sorted(values):
        limits = np.where(np.arange(len(planner.given)) == place, value, planner.given)
        sets, _, found = planner.relaxed(every, prior, limits)
        least = _NOTHING * max(1.0, float(found.n.max(initial=0.0)))
        bought = [(sets[j], float(found.n[j])) for j in np.flatnonzero(found.n > least)]
        about = problem.covariance, problem.names, found.y
        weights = {m.name: m.weights(n, *about) for m, n in bought}
        half = z * math.sqrt(found.variance)
        points.append(BudgetPoint(value, half, {m.name: n for m, n in bought}, weights))
    return tuple(points)
