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
from noracle.ppi.certificate import target_variance, variance_of
from noracle.ppi.columns import SWEEP_TO, solve_columns
from noracle.ppi.measurements import Measurement
from noracle.ppi.problem import Problem, least_cover
from noracle.ppi.program import Allocation, Program
from noracle.ppi.rounding import LEAST, round_counts, within
from noracle.ppi.setting import Setting
from noracle.ppi.solver import solve

Array = NDArray[np.float64]
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
