"""A budget problem in numbers: variables, covariance, what may be measured, what it costs, what is
in hand.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noracle.errors import ArgumentError
from noracle.ppi.measurements import Measurement, SetPrices, information_of
from noracle.ppi.program import Program

Array = NDArray[np.float64]

MOST_SETS = 4095
"""Up to so many sets are written down (12 variables); beyond, sets are generated as they are
needed.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All non-empty sets of some variables, priced in the same way.

    Attributes
    ----------
    variables
        Indices of the variables.
    prices
        One :class:`SetPrices` for each budget, over ``variables``.
    label
        The variable that every set of this family must hold and that is observed with ``noise``;
        None for plain sets.
    noise
        The variance that the label adds.
    called
        What to call the label in names.
    prefix
        What stands before the names, for example the stratum.
    """

    variables: tuple[int, ...]
    prices: tuple[SetPrices, ...]
    label: int | None = None
    noise: float = 0.0
    called: str = ""
    prefix: str = ""

    def __len__(self) -> int:
        n = len(self.variables)
        return (1 << n) - 1 if self.label is None else 1 << (n - 1)

    def sets(self) -> Iterable[tuple[int, ...]]:
        """All sets, small ones first."""
        for size in range(1, len(self.variables) + 1):
            for chosen in itertools.combinations(self.variables, size):
                if self.label is None or self.label in chosen:
                    yield chosen

    def measurement(self, chosen: tuple[int, ...], names: Sequence[str]) -> Measurement:
        """One set as a measurement."""
        places = [self.variables.index(i) for i in chosen]
        said = "+".join(
            self.called if i == self.label else names[i].removeprefix(self.prefix) for i in chosen
        )
        noise = None
        if self.label is not None and self.noise:
            noise = tuple(
                tuple(self.noise if i == j == self.label else 0.0 for j in chosen) for i in chosen
            )
        return Measurement(
            name=self.prefix + said,
            observes=chosen,
            cost=tuple(p.of(places) for p in self.prices),
            noise=noise,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """Everything a plan rests on.

    ``families`` and ``listed`` are together what may be measured; ``have`` is what is in hand.
    ``of`` maps each variable to the rater it stands for (itself, but for strata). A free budget (to
    be made small) has the value NaN.
    """

    names: tuple[str, ...]
    covariance: Array
    target: Array
    budgets: Mapping[str, float]
    families: tuple[Family, ...] = ()
    listed: tuple[Measurement, ...] = ()
    have: tuple[tuple[Measurement, int], ...] = ()
    of: tuple[int, ...] = ()
    set_caps: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many measurements there are to choose from."""
        return len(self.listed) + sum(len(f) for f in self.families)

    @property
    def generated(self) -> bool:
        """Whether there are too many sets to write down."""
        return self.size > MOST_SETS

    def measurements(self) -> tuple[Measurement, ...]:
        """All measurements, written down."""
        named = [f.measurement(s, self.names) for f in self.families for s in f.sets()]
        return self.capped((*self.listed, *named))

    def capped(self, measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
        """The same with the caps on single measurements in their costs."""
        if not self.set_caps:
            return tuple(measurements)
        changed = []
        for one in measurements:
            cost = list(one.cost)
            if one.name in self.set_caps:
                cost[self.set_caps[one.name]] = 1.0
            changed.append(dataclasses.replace(one, cost=tuple(cost)))
        return tuple(changed)

    def prior(self, keep: Iterable[int] | None = None) -> Array:
        """The information in hand, M0; of the variables ``keep`` only, where given."""
        M = np.zeros_like(self.covariance)
        kept = None if keep is None else set(keep)
        for one, n in self.have:
            seen = one.observes if kept is None else tuple(i for i in one.observes if i in kept)
            if not seen:
                continue
            part = one
            if seen != one.observes:
                places = [one.observes.index(i) for i in seen]
                noise = (
                    None
                    if one.noise is None
                    else tuple(tuple(one.noise[a][b] for b in places) for a in places)
                )
                part = dataclasses.replace(one, observes=seen, noise=noise)
            M += n * part.information(self.covariance)
        return M

    def program(self, measurements: Sequence[Measurement], budgets: Array, prior: Array) -> Program:
        """The allocation program over some measurements."""
        costs = np.array([m.cost for m in measurements], dtype=np.float64).reshape(
            len(measurements), len(budgets)
        )
        return Program(
            information=information_of(measurements, self.covariance),
            costs=costs,
            budgets=budgets,
            prior=prior,
            target=self.target,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, enough to check a plan without this code."""
        return {
            "names": list(self.names),
            "covariance": self.covariance.tolist(),
            "target": self.target.tolist(),
            "budgets": dict(self.budgets),
            "families": [
                {
                    "variables": list(f.variables),
                    "prices": [
                        {"per_item": p.per_item, "sums": list(p.sums), "largest": list(p.largest)}
                        for p in f.prices
                    ],
                    "label": f.label,
                    "noise": f.noise,
                    "called": f.called,
                    "prefix": f.prefix,
                }
                for f in self.families
            ],
            "listed": [dataclasses.asdict(m) for m in self.listed],
            "have": [{"measurement": dataclasses.asdict(m), "n": n} for m, n in self.have],
            "set_caps": dict(self.set_caps),
        }


def check_covariance(covariance: Array, names: Sequence[str]) -> Array:
    """A symmetric positive definite covariance, or one clear error."""
    cov = np.asarray(covariance, dtype=np.float64)
    k = len(names)
    if cov.shape != (k, k):
        raise ArgumentError(
            f"cov must have {k} rows and columns, one for each of {', '.join(names)}; got shape {cov.shape}."
        )
    if not np.isfinite(cov).all():
        raise ArgumentError("cov must be finite numbers; got NaN or infinity.")
    scale = np.sqrt(np.maximum(np.diag(cov), 0.0))
    if (scale == 0).any():
        constant = ", ".join(n for n, s in zip(names, scale, strict=True) if s == 0)
        raise ArgumentError(
            f"cov must have positive variances; got 0 for {constant}. A variable that never varies is known: leave it out."
        )
    correlation = cov / np.outer(scale, scale)
    if np.abs(correlation - correlation.T).max() > 1e-9:
        raise ArgumentError("cov must be symmetric.")
    values, vectors = np.linalg.eigh((correlation + correlation.T) / 2)
    if values[0] < -1e-9:
        raise ArgumentError(
            f"cov must be positive semi-definite; got a correlation matrix with eigenvalue {values[0]:.2g}."
        )
    if values[0] < 1e-10:
        among = [names[i] for i in np.argsort(-np.abs(vectors[:, 0]))[:2]]
        raise ArgumentError(
            f"cov must not be singular; got raters that determine each other ({' and '.join(among)} among them). Leave one out."
        )
    return np.asarray((cov + cov.T) / 2, dtype=np.float64)


def least_cover(
    measurements: Sequence[Measurement], target: Array, budget: int, least: int
) -> tuple[float, list[int]]:
    """The cheapest measurements, ``least`` of each, that together observe every variable of the
    target; infinite if none do.

    Examples
    --------
    >>> plain = [Measurement(name="x", observes=(0,), cost=(3.0,)), Measurement(name="y", observes=(1,), cost=(1.0,))]
    >>> least_cover(plain, np.array([1.0, -1.0]), 0, 2)
    (8.0, [0, 1])
    """
    wanted = np.flatnonzero(target).tolist()
    bit = {i: 1 << place for place, i in enumerate(wanted)}
    cheapest: dict[int, tuple[float, int]] = {}
    for j, one in enumerate(measurements):
        mask = sum(bit.get(i, 0) for i in one.observes)
        price = one.cost[budget]
        if mask and math.isfinite(price) and (mask not in cheapest or price < cheapest[mask][0]):
            cheapest[mask] = (price, j)
    everything = (1 << len(wanted)) - 1
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    if len(wanted) > 16:  # many strata: each wanted variable by its cheapest set
        chosen = [
            min((p for m, p in cheapest.items() if m & b), default=(math.inf, -1))
            for b in bit.values()
        ]
        return least * sum(price for price, _ in chosen), sorted({j for _, j in chosen})
    for state in range(everything):
        if state not in best:
            continue
        for mask, (price, j) in cheapest.items():
            after = state | mask
            cost = best[state][0] + least * price
            if after != state and (after not in best or cost < best[after][0]):
                best[after] = (cost, [*best[state][1], j])
    return best.get(everything, (math.inf, []))
