"""The search behind a plan: over all sets or some of them, for given budgets or for the smallest
one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from noracle.errors import ArgumentError
from noracle.ppi.columns import SWEEP_TO, solve_columns
from noracle.ppi.measurements import Measurement
from noracle.ppi.problem import Problem, Setting, least_cover
from noracle.ppi.solver import Allocation, Program, solve, solve_batch, target_variance, variance_of

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
    >>> from noracle.ppi.solver import make_program
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


# ----------------------------------------------------------------------------


_MANY_RATERS = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """Whole counts, what they give, and the real solution with its bound."""

    measurements: tuple[Measurement, ...]
    n: NDArray[np.int64]
    variance: float
    real: Allocation
    budgets: Array
    spent: Array
    least: float  # with a wanted half-width: what the free budget must be at least


class Planner:
    """Finds plans over all or some measurements of one problem."""

    def __init__(self, problem: Problem, free: str | None, wanted: float | None) -> None:
        self.problem, self.wanted = problem, wanted
        self.names = list(problem.budgets)
        self.place = None if free is None else self.names.index(free)
        self.given = np.array(list(problem.budgets.values()), dtype=np.float64)

    def find(self, chosen: Sequence[Measurement] | None, prior: Array) -> Found:
        """The best plan over ``chosen`` measurements (all, if None) with this information in hand."""
        cover = self._cover(chosen, prior)
        if self.wanted is None or self.place is None:
            return self._best(chosen, prior, self.given, cover)
        return self._smallest(chosen, prior, self.wanted, self.place, cover)

    # -------------------------------------------------------------------------------------------------------
    # fixed budgets

    def _relaxed(
        self, chosen: Sequence[Measurement] | None, prior: Array, budgets: Array
    ) -> tuple[tuple[Measurement, ...], Program, Allocation]:
        problem = self.problem
        if chosen is None and problem.generated:
            (family,) = problem.families
            tolerance = 1e-6 if len(family.variables) <= SWEEP_TO else 1e-3
            found = solve_columns(
                problem.covariance,
                family.prices,
                budgets,
                prior,
                problem.target,
                variables=family.variables,
                tolerance=tolerance,
            )
            measurements = problem.capped(
                [family.measurement(s, problem.names) for s in found.sets]
            )
            return measurements, problem.program(measurements, budgets, prior), found.allocation
        measurements = problem.measurements() if chosen is None else tuple(chosen)
        program = problem.program(measurements, budgets, prior)
        return measurements, program, solve(program)

    def _best(
        self,
        chosen: Sequence[Measurement] | None,
        prior: Array,
        budgets: Array,
        cover: Sequence[Measurement],
    ) -> Found:
        measurements, program, real = self._relaxed(chosen, prior, budgets)
        seed = np.array([LEAST if m in cover else 0 for m in measurements], dtype=np.int64)
        n = round_counts(program, real, seeds=[seed] if cover else [])
        return Found(
            measurements=measurements,
            n=n,
            variance=variance_of(program, n),
            real=real,
            budgets=budgets,
            spent=n @ program.costs,
            least=math.nan,
        )

    def _cover(self, chosen: Sequence[Measurement] | None, prior: Array) -> list[Measurement]:
        """The cheapest measurements that cover what is not in hand; an error if there are none, or
        if they break a budget.
        """
        problem = self.problem
        if np.isfinite(target_variance(prior[None], problem.target[None])[0]):
            return []
        missing = np.where(np.diag(prior) > 0, 0.0, problem.target)
        if chosen is not None and not missing.any():
            return self._completion(chosen, prior)
        missing = missing if missing.any() else problem.target
        measurements = list(chosen) if chosen is not None else self._small_sets(missing)
        cover: list[Measurement] = []
        for place, limit in enumerate(self.given):
            least, which = least_cover(measurements, missing, place, LEAST)
            if not math.isfinite(least):
                hidden = ", ".join(problem.names[i] for i in np.flatnonzero(missing))
                raise ArgumentError(
                    f"target must be covered by what is for sale or in hand; nothing observes all of {hidden}."
                )
            if least > limit * (1 + 1e-12):
                raise ArgumentError(
                    f"budgets must be at least {least:g} for {self.names[place]!r}: the cheapest plan takes {LEAST} of "
                    f"{', '.join(measurements[j].name for j in which)}; got {limit:g}."
                )
            cover = cover or [measurements[j] for j in which]
        return cover

    def _completion(self, chosen: Sequence[Measurement], prior: Array) -> list[Measurement]:
        """Where what is in hand observes the target, but only beside other variables: as few
        measurements as make it known.
        """

        def known(some: Sequence[Measurement]) -> bool:
            M = prior + sum(
                (LEAST * m.information(self.problem.covariance) for m in some), np.zeros_like(prior)
            )
            return bool(np.isfinite(target_variance(M[None], self.problem.target[None])[0]))

        cover = list(chosen)
        if not known(cover):
            raise ArgumentError(
                "target must be covered by what is for sale or in hand; nothing for sale completes it."
            )
        for one in sorted(chosen, key=lambda m: -sum(m.cost)):
            fewer = [m for m in cover if m is not one]
            cover = fewer if known(fewer) else cover
        for place, limit in enumerate(self.given):
            least = LEAST * sum(m.cost[place] for m in cover)
            if least > limit * (1 + 1e-12):
                names = ", ".join(m.name for m in cover)
                raise ArgumentError(
                    f"budgets must be at least {least:g} for {self.names[place]!r}: the cheapest plan takes {LEAST} of {names}; "
                    f"got {limit:g}."
                )
        return cover

    def _small_sets(self, missing: Array) -> list[Measurement]:
        if not self.problem.generated:
            return list(self.problem.measurements())
        (family,) = self.problem.families
        wanted = tuple(i for i in np.flatnonzero(missing).tolist() if i in family.variables)
        sets = dict.fromkeys([*((i,) for i in wanted), *([wanted] if wanted else [])])
        return list(self.problem.capped([family.measurement(s, self.problem.names) for s in sets]))

    # ----------------------------------------------------------------------------------------------------
    # smallest budget

    def _smallest(
        self,
        chosen: Sequence[Measurement] | None,
        prior: Array,
        wanted: float,
        place: int,
        cover: Sequence[Measurement],
    ) -> Found:
        budgets = self.given.copy()
        measurements = self._listing(chosen)
        prices = np.array([m.cost[place] for m in measurements])
        if not (prices > 0).any():
            raise ArgumentError(
                f"budgets must leave a budget open that something costs; nothing costs any of {self.names[place]!r}."
            )
        cheapest = float(prices[prices > 0].min())
        if float(target_variance(prior[None], self.problem.target[None])[0]) <= wanted:
            budgets[place] = cheapest
            found = self._best(chosen, prior, budgets, [])
            n = np.zeros_like(found.n)
            return dataclasses.replace(
                found,
                n=n,
                variance=float(target_variance(prior[None], self.problem.target[None])[0]),
                spent=0.0 * found.spent,
                least=0.0,
            )
        start = max(sum(m.cost[place] for m in cover) * LEAST, 100 * cheapest)
        budgets[place] = 1e7 * start
        best = self._relaxed(chosen, prior, budgets)[2].variance
        if best > wanted:
            raise ArgumentError(
                f"half_width cannot be reached whatever the budget {self.names[place]!r}: the standard error stays above "
                f"{math.sqrt(best):.4g} where {math.sqrt(wanted):.4g} is needed. Raise the caps, widen the goal or sell more variables."
            )
        budgets[place] = start
        for _ in range(
            60
        ):  # 1/V is concave in the budget: from the left, Newton's steps never pass the solution
            real = self._relaxed(chosen, prior, budgets)[2]
            missing = 1 / wanted - 1 / real.variance
            slope = real.prices[place] / real.variance**2
            move = missing / slope if slope > 0 else budgets[place]
            budgets[place] = min(max(budgets[place] + move, 0.01 * budgets[place]), 1e7 * start)
            if abs(move) <= 1e-9 * budgets[place]:
                break
        least = float(budgets[place])
        found = self._enough(chosen, prior, budgets, place, wanted, cover, cheapest)
        return self._trimmed(dataclasses.replace(found, least=least, real=real), prior, wanted)

    def _listing(self, chosen: Sequence[Measurement] | None) -> list[Measurement]:
        if chosen is not None:
            return list(chosen)
        if not self.problem.generated:
            return list(self.problem.measurements())
        (family,) = self.problem.families
        return [family.measurement((i,), self.problem.names) for i in family.variables]

    def _enough(
        self,
        chosen: Sequence[Measurement] | None,
        prior: Array,
        budgets: Array,
        place: int,
        wanted: float,
        cover: Sequence[Measurement],
        cheapest: float,
    ) -> Found:
        """Raise the budget a little until whole counts reach the goal, then lower it again as far
        as they still do.
        """
        low, step = float(budgets[place]), max(cheapest, 1e-6 * float(budgets[place]))
        least = low
        good: Found | None = None
        for _ in range(40):
            budgets[place] = high = low + step
            found = self._best(chosen, prior, budgets.copy(), cover)
            if found.variance <= wanted:
                good = found
                break
            low, step = high, 2 * step
        if good is None:
            raise ArgumentError(
                "half_width cannot be reached with whole counts within the caps. Raise the caps or widen the goal."
            )
        for _ in range(7):
            if high - low <= max(cheapest, 1e-5 * least):
                break
            budgets[place] = (low + high) / 2
            found = self._best(chosen, prior, budgets.copy(), cover)
            if found.variance <= wanted:
                good, high = found, float(budgets[place])
            else:
                low = float(budgets[place])
        return good

    def _trimmed(self, found: Found, prior: Array, wanted: float) -> Found:
        """Take away what the goal does not need, the dearest first; then exchange one measurement
        for cheaper ones while that saves.
        """
        program = self.problem.program(found.measurements, found.budgets, prior)
        prices = program.costs[:, self.place or 0]
        n = _fewest(program, found.n, prices, wanted)
        for _ in range(20):
            cheaper = _cheaper(program, n, prices, wanted)
            if cheaper is None:
                break
            n = cheaper
        return dataclasses.replace(
            found, n=n, variance=variance_of(program, n), spent=n @ program.costs
        )

    # ---------------------------------------------------------------------------------------------------------
    # simpler plans

    def simpler(self, setting: Setting) -> Iterable[tuple[str, list[Measurement], Array]]:
        """Names, measurements and information in hand of simpler plans."""
        problem = self.problem
        k = len(setting.raters)
        of = problem.of
        wanted = sorted({of[i] for i in np.flatnonzero(problem.target)})
        raters = [i for i in range(k) if i not in wanted]
        alone = set(wanted)
        yield (
            "classical",
            [m for m in self._with(lambda s: len(s) == 1 and s <= alone) if m.noise is None],
            problem.prior(self._all(alone)),
        )
        if any(f.label is not None for f in problem.families) or any(
            m.noise for m in problem.listed
        ):
            yield "labels only", self._with(lambda s: s <= alone), problem.prior(self._all(alone))
        first = int(np.flatnonzero(problem.target)[0]) // k * k
        block = problem.covariance[first : first + k, first : first + k]
        strength = {
            r: block[wanted[0], r] ** 2 / (block[wanted[0], wanted[0]] * block[r, r])
            for r in raters
        }
        shown = (
            raters
            if len(raters) <= _MANY_RATERS
            else sorted(sorted(raters, key=lambda r: -strength[r])[:5])
        )
        for r in shown:
            both = alone | {r}
            if len(alone) == 1:
                sold = [self._plain(m, wanted[0], r) for m in self._with(_one_of(both, {r}))]
                yield (
                    f"PPI {setting.raters[r]}",
                    [m for m in sold if m is not None],
                    self._plain_prior(wanted[0], r),
                )
            yield (
                f"PPI++ {setting.raters[r]}",
                self._with(_one_of(both, {r})),
                problem.prior(self._all(both)),
            )
        if len(raters) > 1:
            everyone = set(raters)
            yield "PPI++ vector", self._with(_one_of(alone | everyone, everyone)), problem.prior()
            left = sorted(raters, key=lambda r: -self._price_alone(r))
            chain = [alone | everyone, *(set(left[drop:]) for drop in range(len(left)))]
            yield "cascade", self._with(_one_of(*chain)), problem.prior()

    def _plain(self, one: Measurement, wanted: int, rater: int) -> Measurement | None:
        """What plain PPI takes of a measurement: the difference of target and rater, or the rater
        alone; None where it takes nothing.

        With these the only unbiased weights are 1 and 1: the mean of the rater, and the mean of the
        differences added to it.
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
        return Measurement(
            name=one.name, observes=seen, cost=one.cost, matrix=(tuple(row.tolist()),), noise=noise
        )

    def _plain_prior(self, wanted: int, rater: int) -> Array:
        """The information in hand as plain PPI uses it."""
        M = np.zeros_like(self.problem.covariance)
        for one, n in self.problem.have:
            part = self._plain(one, wanted, rater)
            M += 0.0 if part is None else n * part.information(self.problem.covariance)
        return M

    def _all(self, kinds: set[int]) -> list[int]:
        return [i for i, r in enumerate(self.problem.of) if r in kinds]

    def _price_alone(self, rater: int) -> float:
        for one in self._with(_one_of({rater})):
            return one.cost[0]
        return 0.0

    def _with(self, wanted: Callable[[set[int]], bool]) -> list[Measurement]:
        """The measurements whose set of raters is ``wanted``."""
        problem = self.problem
        if not problem.generated:
            return [
                m
                for m in problem.measurements()
                if m.matrix is None and wanted({problem.of[i] for i in m.observes})
            ]
        (family,) = problem.families
        at = family.variables
        sets = [
            *((i,) for i in at),
            *((i, j) for i in at for j in at if i < j),
            *(at[d:] for d in range(len(at) - 2)),
        ]
        order = sorted(at, key=lambda i: -family.measurement((i,), problem.names).cost[0])
        sets += [tuple(sorted(order[d:])) for d in range(len(order) - 2)]
        picked = [s for s in dict.fromkeys(sets) if wanted({problem.of[i] for i in s})]
        return list(problem.capped([family.measurement(s, problem.names) for s in picked]))


def _one_of(*sets: set[int]) -> Callable[[set[int]], bool]:
    return lambda s: s in sets


def _fewest(
    program: Program, n: NDArray[np.int64], prices: Array, wanted: float
) -> NDArray[np.int64]:
    """Counts lowered one by one, the dearest first, as long as the variance stays as wanted."""
    n = n.copy()
    for j in np.argsort(-prices):
        while n[j]:
            fewer = n.copy()
            fewer[j] = n[j] - 1 if n[j] > LEAST else 0
            if not variance_of(program, fewer) <= wanted:
                break
            n = fewer
    return n


def _cheaper(
    program: Program, n: NDArray[np.int64], prices: Array, wanted: float
) -> NDArray[np.int64] | None:
    """The cheapest counts that give up some of one measurement for more of another; None if nothing
    is saved.
    """
    best = None
    cost = float(prices @ n)
    bought = np.flatnonzero(n).tolist()
    for j, i in itertools.permutations(bought, 2):
        for fewer in {0, int(n[j]) - 1, int(n[j]) - 2}:
            trial = n.copy()
            trial[j] = fewer if fewer >= LEAST else 0
            other = _raised(
                program,
                trial,
                i,
                wanted,
                price=float(prices[i]),
                limit=cost - float(prices @ trial),
            )
            if other is not None and prices @ other < cost * (1 - 1e-12):
                best = _fewest(program, other, prices, wanted)
                cost = float(prices @ best)
    return best


def _raised(
    program: Program, n: NDArray[np.int64], i: int, wanted: float, *, price: float, limit: float
) -> NDArray[np.int64] | None:
    """The counts with just enough more of measurement i, for less than ``limit``; None if there is
    no such number.
    """
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
