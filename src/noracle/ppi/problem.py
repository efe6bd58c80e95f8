"""A budget problem in numbers, made of what a user gives: pilot, prices, budgets, caps and rows in
hand.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import ArgumentError
from noracle.ppi.covariance import pilot_covariance
from noracle.ppi.measurements import (
    Additive,
    Cascade,
    CostModel,
    Label,
    Maximum,
    Measurement,
    SetPrices,
    Table,
    information_of,
    price_model,
)
from noracle.ppi.solver import Program
from noracle.ppi.table import Scores, patterns, read_scores

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


# ----------------------------------------------------------------------------
# From what a user gives (pilot, prices, budgets, caps, rows in hand) to a problem in numbers.


Target = str | Mapping[str, float] | Sequence[float]
Have = Literal["pilot"] | Mapping[str | tuple[str, ...], int] | ArrayLike | object


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """The problem, and what was found out on the way to it."""

    problem: Problem
    raters: tuple[str, ...]
    strata: tuple[str, ...]
    n_pilot: int | None
    mean: Array | None
    free: str | None
    caps: Mapping[str, float]


def make_setting(
    pilot: object,
    *,
    cov: ArrayLike | Mapping[str, ArrayLike] | None,
    names: Sequence[str] | None,
    target: Target,
    costs: CostModel | Mapping[str, CostModel],
    budgets: float | Mapping[str, float | None] | None,
    caps: Mapping[str, float] | None,
    have: Have | None,
    labels: Sequence[Label],
    accuracy: float | None,
    measurements: Literal["auto"] | Sequence[Any],
    strata: str | Sequence[object] | None,
    shares: Mapping[str, float] | None,
    shrink: bool,
) -> Setting:
    """Read, check and number everything; see :func:`~noracle.ppi.plan.plan_budget` for the
    arguments.
    """
    if (pilot is None) == (cov is None):
        raise ArgumentError(
            "one of pilot and cov must be given; got " + ("none." if pilot is None else "both.")
        )
    limits, free = _budgets(budgets)
    models = _models(costs, tuple(limits))
    raters = list(names) if names is not None else _named(models, target, labels)
    scores: Scores | None = None
    if pilot is not None:
        column = strata if isinstance(strata, str) else None
        wanted = raters or None
        scores = read_scores(pilot, names=wanted, strata=column)
        raters = list(scores.names)
        if strata is not None and column is None:
            scores = dataclasses.replace(scores, strata=tuple(str(s) for s in strata))
            if len(scores.strata) != len(scores.rows):
                raise ArgumentError(
                    f"strata must have one entry for each of {len(scores.rows)} pilot rows; got {len(scores.strata)}."
                )
    if len(set(raters)) != len(raters) or not raters:
        raise ArgumentError(
            f"names must be different and not empty; got {', '.join(raters) or 'none'}."
        )
    joined = [n for n in (*raters, *(label.name for label in labels)) if "+" in n]
    if joined:
        raise ArgumentError(
            f"names must not hold '+', which joins the variables of a set; got {', '.join(joined)}."
        )
    blocks, means, groups, n_pilot = _covariances(scores, cov, raters, shrink)
    weights = _shares(groups, shares, scores)
    k = len(raters)
    a = _target(target, raters)
    covariance = np.zeros((k * len(groups), k * len(groups)))
    for g, block in enumerate(blocks):
        covariance[g * k : (g + 1) * k, g * k : (g + 1) * k] = block
    full_target = np.concatenate([w * a for w in weights])
    prefixes = [f"{g}/" for g in groups] if groups != ("",) else [""]
    coordinates = tuple(prefix + name for prefix in prefixes for name in raters)
    builder = _Builder(raters=tuple(raters), prefixes=tuple(prefixes), a=a, limits=dict(limits))
    builder.add_caps(caps or {}, [label.name for label in labels])
    mean = means[0] if len(means) == 1 else None
    noises = [_noises(labels, accuracy, means, g, a, raters) for g in range(len(groups))]
    if isinstance(measurements, str):
        if measurements != "auto":
            raise ArgumentError(f"measurements must be 'auto' or a list; got {measurements!r}.")
        families, listed = builder.all_sets(models, labels, noises)
    else:
        families, listed = (), builder.chosen_sets(measurements, models, labels, noises)
    problem = Problem(
        names=coordinates,
        covariance=covariance,
        target=full_target,
        budgets=builder.limits,
        families=families,
        listed=listed,
        have=_in_hand(have, scores, strata, raters, prefixes, labels, noises, a),
        of=tuple(i % k for i in range(len(coordinates))),
        set_caps=builder.set_caps,
    )
    return Setting(
        problem=problem,
        raters=tuple(raters),
        strata=() if groups == ("",) else tuple(groups),
        n_pilot=n_pilot,
        mean=mean,
        free=free,
        caps=dict(caps or {}),
    )


def _budgets(
    budgets: float | Mapping[str, float | None] | None,
) -> tuple[dict[str, float], str | None]:
    given: Mapping[str, float | None] = (
        budgets if isinstance(budgets, Mapping) else {"budget": budgets}
    )
    if not given:
        raise ArgumentError("budgets must name at least one budget; got none.")
    free = [name for name, value in given.items() if value is None]
    if len(free) > 1:
        raise ArgumentError(f"budgets must leave at most one budget open; got {', '.join(free)}.")
    for name, value in given.items():
        if value is not None and not (
            isinstance(value, (int, float, np.number)) and value > 0 and math.isfinite(value)
        ):
            raise ArgumentError(f"budgets must be positive numbers; got {value} for {name!r}.")
    return {str(n): math.nan if v is None else float(v) for n, v in given.items()}, free[
        0
    ] if free else None


def _models(costs: object, names: tuple[str, ...]) -> list[Any]:
    """One price model for each budget."""
    if (
        isinstance(costs, Mapping)
        and costs
        and all(not isinstance(v, (int, float, np.number)) for v in costs.values())
    ):
        missing = [n for n in names if n not in costs]
        if missing or len(costs) != len(names):
            raise ArgumentError(
                f"costs must have prices for each budget ({', '.join(names)}); got {', '.join(map(str, costs))}."
            )
        return [price_model(costs[n]) for n in names]
    if len(names) > 1:
        raise ArgumentError(
            f"costs must have prices for each budget, as {{{names[0]!r}: {{…}}, {names[1]!r}: {{…}}}}; got one set of prices."
        )
    return [price_model(costs)]  # type: ignore[arg-type]


def _named(models: Sequence[Any], target: Target, labels: Sequence[Label]) -> list[str]:
    """The raters that prices and target speak of, target first; none where a function prices sets."""
    if any(not isinstance(m, (Additive, Maximum, Cascade, Table)) for m in models):
        return []
    wanted = (
        [target] if isinstance(target, str) else list(target) if isinstance(target, Mapping) else []
    )
    for model in models:
        if isinstance(model, Table):
            for key in model.prices:
                wanted += key.split("+") if isinstance(key, str) else list(key)
        else:
            wanted += [*getattr(model, "lengths", {}), *model.prices]
    kinds = {label.name for label in labels}
    return [name for name in dict.fromkeys(wanted) if name not in kinds]


def _target(target: Target, raters: Sequence[str]) -> Array:
    a = np.zeros(len(raters))
    if isinstance(target, str):
        target = {target: 1.0}
    if isinstance(target, Mapping):
        unknown = [n for n in target if n not in raters]
        if unknown:
            raise ArgumentError(
                f"target must name variables; got {', '.join(unknown)}. Variables are {', '.join(raters)}."
            )
        for name, weight in target.items():
            a[list(raters).index(name)] = weight
    else:
        if len(target) != len(raters):
            raise ArgumentError(
                f"target must have {len(raters)} numbers, one for each variable; got {len(target)}."
            )
        a[:] = target
    if not np.isfinite(a).all() or not a.any():
        raise ArgumentError(f"target must be finite and not zero; got {a.tolist()}.")
    return a


def _covariances(
    scores: Scores | None,
    cov: ArrayLike | Mapping[str, ArrayLike] | None,
    raters: Sequence[str],
    shrink: bool,
) -> tuple[list[Array], list[Array | None], tuple[str, ...], int | None]:
    if scores is None:
        given: Mapping[str, Any] = cov if isinstance(cov, Mapping) else {"": cov}
        blocks = [check_covariance(np.asarray(c, dtype=np.float64), raters) for c in given.values()]
        return blocks, [None] * len(blocks), tuple(given), None
    groups = tuple(dict.fromkeys(scores.strata)) or ("",)
    blocks, means, fewest = [], [], []
    for group in groups:
        rows = (
            scores.rows
            if group == ""
            else scores.rows[np.array([s == group for s in scores.strata])]
        )
        mean, block, n = pilot_covariance(rows, shrink, names=raters)
        blocks.append(check_covariance(block, raters))
        means.append(mean)
        fewest.append(n)
    return blocks, list(means), groups, min(fewest)


def _shares(
    groups: tuple[str, ...], shares: Mapping[str, float] | None, scores: Scores | None
) -> list[float]:
    if groups == ("",):
        return [1.0]
    if shares is None:
        if scores is None:
            raise ArgumentError(
                "shares must say how much of the population each stratum is; got none."
            )
        return [sum(s == g for s in scores.strata) / len(scores.strata) for g in groups]
    unknown = sorted(set(groups) ^ set(shares))
    if unknown or not all(v > 0 for v in shares.values()):
        raise ArgumentError(
            f"shares must be positive and name the strata {', '.join(groups)}; got {dict(shares)}."
        )
    total = sum(shares.values())
    return [shares[g] / total for g in groups]


def _noises(
    labels: Sequence[Label],
    accuracy: float | None,
    means: Sequence[Array | None],
    group: int,
    a: Array,
    raters: Sequence[str],
) -> dict[str, float]:
    """The variance that each kind of label adds in one stratum."""
    if not labels:
        return {}
    wanted = np.flatnonzero(a)
    if len(wanted) != 1:
        raise ArgumentError(
            "labels must be of one target variable; got a target that combines several. Pass measurements instead."
        )
    for kind in labels:
        if kind.name in raters:
            raise ArgumentError(
                f"labels must not share their names with variables; got {kind.name!r}."
            )
    known = means[group]
    level = accuracy if accuracy is not None else None if known is None else float(known[wanted[0]])
    if level is None and any(label.noise(0.5) for label in labels):
        raise ArgumentError(
            "accuracy must be given with cov: the noise of these kinds of label depends on it."
        )
    if level is not None and not 0 <= level <= 1:
        raise ArgumentError(
            f"accuracy must be in [0, 1]; got {level:g}. Labels of this kind need a target of zeros and ones."
        )
    return {label.name: label.noise(0.0 if level is None else level) for label in labels}


class _Builder:
    """Sets and caps, with one price for each budget; caps are further budgets."""

    def __init__(
        self,
        *,
        raters: tuple[str, ...],
        prefixes: tuple[str, ...],
        a: Array,
        limits: dict[str, float],
    ) -> None:
        self.raters, self.prefixes, self.a, self.limits = raters, prefixes, a, limits
        self.n_priced = len(limits)
        self.rater_caps: dict[str, int] = {}  # rater → place among the budgets
        self.label_caps: dict[str, int] = {}
        self.set_caps: dict[str, int] = {}
        self.shut: set[str] = set()

    def add_caps(self, caps: Mapping[str, float], kinds: Sequence[str]) -> None:
        """A budget for each cap; a cap of 0 shuts a rater or a kind of label."""
        for name, most in caps.items():
            if not (
                isinstance(most, (int, float, np.integer)) and most >= 0 and math.isfinite(most)
            ):
                raise ArgumentError(f"caps must be numbers of at least 0; got {most} for {name!r}.")
            if most == 0:
                self.shut.add(name)
                continue
            place = len(self.limits)
            self.limits[f"cap {name}"] = float(most)
            if name in self.raters:
                self.rater_caps[name] = place
            elif name in kinds:
                self.label_caps[name] = place
            else:
                self.set_caps[name] = place

    def _prices(
        self, models: Sequence[Any], kind: Label | None
    ) -> tuple[list[int], tuple[SetPrices, ...]]:
        """Raters that are for sale and their prices in each budget, caps included."""
        wanted = int(np.flatnonzero(self.a)[0])
        rows = []
        for number, model in enumerate(models):
            p = model.set_prices(self.raters)
            if kind is not None:
                sums, largest = list(p.sums), list(p.largest)
                sums[wanted] = (
                    kind.price
                    if number == 0
                    else (sums[wanted] if math.isfinite(sums[wanted]) else 0.0)
                )
                largest[wanted] = (
                    0.0 if number == 0 or not math.isfinite(largest[wanted]) else largest[wanted]
                )
                p = dataclasses.replace(p, sums=tuple(sums), largest=tuple(largest))
            rows.append(p)
        zero = (0.0,) * len(self.raters)
        for place in range(self.n_priced, len(self.limits)):
            sums = list(zero)
            for name, at in self.rater_caps.items():
                plain = kind is None or name != self.raters[wanted]
                if at == place and plain:
                    sums[self.raters.index(name)] = 1.0
            if kind is not None and self.label_caps.get(kind.name) == place:
                sums[wanted] = 1.0
            rows.append(SetPrices(per_item=0.0, sums=tuple(sums), largest=zero))
        shut = {
            i
            for i, name in enumerate(self.raters)
            if name in self.shut and not (kind is not None and i == wanted)
        }
        sold = [
            i
            for i in range(len(self.raters))
            if i not in shut
            and all(math.isfinite(p.sums[i]) and math.isfinite(p.largest[i]) for p in rows)
        ]
        cut = tuple(
            SetPrices(
                per_item=p.per_item,
                sums=tuple(p.sums[i] for i in sold),
                largest=tuple(p.largest[i] for i in sold),
            )
            for p in rows
        )
        for place, i in enumerate(sold):
            if all(p.per_item + p.sums[place] + p.largest[place] == 0 for p in cut):
                name = kind.name if kind is not None and i == wanted else self.raters[i]
                raise ArgumentError(
                    f"costs must be positive, or capped; got 0 for {name!r}. Give it a cap, or count what is there among have."
                )
        return sold, cut

    def all_sets(
        self, models: Sequence[Any], labels: Sequence[Label], noises: Sequence[Mapping[str, float]]
    ) -> tuple[tuple[Family, ...], tuple[Measurement, ...]]:
        """Every set that is for sale."""
        k, wanted = len(self.raters), int(np.flatnonzero(self.a)[0])
        if any(not isinstance(m, (Additive, Maximum, Cascade)) for m in models):
            if k > 12:
                raise ArgumentError(
                    f"costs must be additive, a maximum or a cascade beyond 12 variables; got {k}. Pass a list of measurements."
                )
            from noracle.ppi.measurements import subsets

            return (), self.chosen_sets(
                [tuple(self.raters[i] for i in s) for s in subsets(k)],
                models,
                labels,
                noises,
                skip=True,
            )
        families = []
        for g, prefix in enumerate(self.prefixes):
            for kind in (None, *(label for label in labels if label.name not in self.shut)):
                sold, prices = self._prices(models, kind)
                if not sold or (kind is not None and wanted not in sold):
                    continue
                families.append(
                    Family(
                        variables=tuple(g * k + i for i in sold),
                        prices=prices,
                        label=None if kind is None else g * k + wanted,
                        noise=0.0 if kind is None else noises[g][kind.name],
                        called="" if kind is None else kind.name,
                        prefix=prefix,
                    )
                )
        total = sum(len(f) for f in families)
        if total > MOST_SETS and len(families) > 1:
            raise ArgumentError(
                f"measurements must be listed beyond {MOST_SETS} sets when there are strata or kinds of label; got {total} sets. "
                "Pass measurements=[…], or fewer raters."
            )
        return tuple(families), ()

    def chosen_sets(
        self,
        chosen: Sequence[Any],
        models: Sequence[Any],
        labels: Sequence[Label],
        noises: Sequence[Mapping[str, float]],
        *,
        skip: bool = False,
    ) -> tuple[Measurement, ...]:
        """The sets that a user names, in every stratum."""
        k = len(self.raters)
        found: list[Measurement] = []
        for entry in chosen:
            if isinstance(entry, Measurement):
                found.append(self._own(entry))
                continue
            words = tuple(entry.split("+")) if isinstance(entry, str) else tuple(entry)
            for g, prefix in enumerate(self.prefixes):
                cost = self._cost(words, models, labels)
                if cost is None:
                    if skip:
                        continue
                    raise ArgumentError(
                        f"measurements must be for sale; got {'+'.join(words)} without a price."
                    )
                kinds = {label.name: label for label in labels}
                wanted = int(np.flatnonzero(self.a)[0])
                order = [
                    (wanted, noises[g][w]) if w in kinds else (self._place(w), 0.0) for w in words
                ]
                order.sort()
                noise = tuple(
                    tuple(v if r == c else 0.0 for c in range(len(order)))
                    for r, (_, v) in enumerate(order)
                )
                found.append(
                    Measurement(
                        name=prefix + "+".join(words),
                        observes=tuple(g * k + i for i, _ in order),
                        cost=cost,
                        noise=noise if any(v for _, v in order) else None,
                    )
                )
        if len({m.name for m in found}) != len(found) or not found:
            raise ArgumentError("measurements must have different names, and there must be some.")
        for one in found:
            if not any(one.cost) and one.name not in self.set_caps:
                raise ArgumentError(
                    f"costs must be positive, or capped; got 0 for {one.name!r}. Give it a cap, or count it among have."
                )
        return tuple(found)

    def _place(self, name: str) -> int:
        if name not in self.raters:
            raise ArgumentError(
                f"measurements must name variables; got {name!r}. Variables are {', '.join(self.raters)}."
            )
        return self.raters.index(name)

    def _own(self, one: Measurement) -> Measurement:
        if len(one.cost) != self.n_priced:
            raise ArgumentError(
                f"measurement {one.name!r} must have {self.n_priced} costs, one for each budget; got {len(one.cost)}."
            )
        seen = {self.raters[i % len(self.raters)] for i in one.observes}
        return dataclasses.replace(one, cost=(*one.cost, *self._cap_costs(seen, set())))

    def _cap_costs(self, raters: set[str], kinds: set[str]) -> tuple[float, ...]:
        spread = {
            **{at: n in raters for n, at in self.rater_caps.items()},
            **{at: n in kinds for n, at in self.label_caps.items()},
        }
        return tuple(float(spread.get(at, False)) for at in range(self.n_priced, len(self.limits)))

    def _cost(
        self, words: tuple[str, ...], models: Sequence[Any], labels: Sequence[Label]
    ) -> tuple[float, ...] | None:
        kinds = {label.name: label for label in labels}
        used = [kinds[w] for w in words if w in kinds]
        plain = tuple(w for w in words if w not in kinds)
        if set(words) & self.shut:
            return None
        if len(used) > 1:
            raise ArgumentError(
                f"measurements must hold one kind of label at most; got {'+'.join(words)}."
            )
        cost = []
        for number, model in enumerate(models):
            if isinstance(model, (Additive, Maximum, Cascade)):
                price: float | None = model.set_prices(self.raters).of(
                    [self._place(w) for w in plain]
                )
            else:
                known = model(plain) if plain else 0.0
                price = None if known is None else float(known)
            if price is None or not math.isfinite(price):
                return None
            if price < 0:
                raise ArgumentError(
                    f"costs must not be negative; got {price:g} for {'+'.join(words)}."
                )
            cost.append(price + (used[0].price if used and number == 0 else 0.0))
        return (*cost, *self._cap_costs(set(plain), {label.name for label in used}))


def _in_hand(
    have: Have | None,
    scores: Scores | None,
    strata: str | Sequence[object] | None,
    raters: Sequence[str],
    prefixes: Sequence[str],
    labels: Sequence[Label],
    noises: Sequence[Mapping[str, float]],
    a: Array,
) -> tuple[tuple[Measurement, int], ...]:
    """What is in hand as measurements with counts."""
    if have is None:
        return ()
    k = len(raters)
    if isinstance(have, str) and have == "pilot":
        if scores is None:
            raise ArgumentError("have='pilot' needs a pilot; got cov.")
        table = scores
    elif isinstance(have, Mapping) and all(isinstance(v, (int, np.integer)) for v in have.values()):
        return _counted(have, raters, prefixes, labels, noises, a)
    else:
        column = strata if isinstance(strata, str) else None
        table = read_scores(have, names=raters, strata=column, what="have")
        if prefixes != [""] and not table.strata:
            raise ArgumentError(
                "have must name the stratum of each row, in a column as the pilot does; got rows without strata."
            )
    if np.isinf(table.rows).any():
        raise ArgumentError("have must be finite numbers, NaN where not observed; got infinity.")
    found: list[tuple[Measurement, int]] = []
    for g, prefix in enumerate(prefixes):
        rows = (
            table.rows
            if prefix == ""
            else table.rows[np.array([s == prefix[:-1] for s in table.strata], dtype=bool)]
        )
        for seen, n in patterns(rows).items():
            name = prefix + "+".join(raters[i] for i in seen)
            found.append(
                (Measurement(name=name, observes=tuple(g * k + i for i in seen), cost=()), n)
            )
    return tuple(found)


def _counted(
    have: Mapping[Any, int],
    raters: Sequence[str],
    prefixes: Sequence[str],
    labels: Sequence[Label],
    noises: Sequence[Mapping[str, float]],
    a: Array,
) -> tuple[tuple[Measurement, int], ...]:
    """Counts by pattern as measurements."""
    k = len(raters)
    found: list[tuple[Measurement, int]] = []
    kinds = {label.name for label in labels}
    wanted = int(np.flatnonzero(a)[0])
    for key, n in have.items():
        if n < 0:
            raise ArgumentError(f"have must be counts of at least 0; got {n} for {key!r}.")
        said = key if isinstance(key, str) else "+".join(key)
        g = next((g for g, p in enumerate(prefixes) if p and said.startswith(p)), 0)
        words = said.removeprefix(prefixes[g]).split("+")
        unknown = [w for w in words if w not in raters and w not in kinds]
        if unknown:
            raise ArgumentError(
                f"have must name variables or kinds of label; got {', '.join(unknown)}. Variables are {', '.join(raters)}."
            )
        order = sorted(
            (wanted, noises[g][w]) if w in kinds else (list(raters).index(w), 0.0) for w in words
        )
        noise = tuple(
            tuple(v if r == c else 0.0 for c in range(len(order))) for r, (_, v) in enumerate(order)
        )
        one = Measurement(
            name=said,
            observes=tuple(g * k + i for i, _ in order),
            cost=(),
            noise=noise if any(v for _, v in order) else None,
        )
        if n:
            found.append((one, int(n)))
    return tuple(found)
