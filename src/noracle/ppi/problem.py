"""A budget problem in numbers, made of what a user gives: pilot, prices, budgets, caps and rows in
hand.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np

from noracle.errors import ArgumentError, refuse, require
from noracle.ppi.covariance import Array, pilot_covariance
from noracle.ppi.measurements import (
    Additive,
    Cascade,
    LabelType,
    Maximum,
    Measurement,
    SetPrices,
    Table,
    check_names,
    information_of,
    price_model,
    subsets,
)
from noracle.ppi.solver import DesignProgram
from noracle.ppi.table import Scores, patterns, read_scores, stratum_shares
from noracle.results.base import decode

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MOST_SETS = 4095
"""Up to so many sets (12 variables) are written down; beyond they are generated."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All non-empty sets of some variables, with one :class:`SetPrices` for each budget.

    With a ``label`` every set holds that variable, which is observed with the further variance
    ``noise`` and ``called`` by the kind of label. ``prefix`` stands before the names: the stratum.
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
        for places in subsets(len(self.variables)):
            chosen = tuple(self.variables[p] for p in places)
            if self.label is None or self.label in chosen:
                yield chosen

    def measurement(self, chosen: tuple[int, ...], names: Sequence[str]) -> Measurement:
        """One set as a measurement."""
        places = [self.variables.index(i) for i in chosen]
        words = {i: names[i].removeprefix(self.prefix) for i in chosen}
        said = "+".join(self.called if i == self.label else words[i] for i in chosen)
        noise = noise_of([self.noise if i == self.label else 0.0 for i in chosen])
        cost = tuple(p.of(places) for p in self.prices)
        return Measurement(name=self.prefix + said, observes=chosen, cost=cost, noise=noise)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """What may be measured and what is in hand; ``of`` names raters, a free budget is NaN."""

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
    def generated(self) -> bool:
        """Whether there are too many sets to write down."""
        return len(self.listed) + sum(len(f) for f in self.families) > MOST_SETS

    def measurements(self) -> tuple[Measurement, ...]:
        """All measurements, written down."""
        named = [f.measurement(s, self.names) for f in self.families for s in f.sets()]
        return self.capped((*self.listed, *named))

    def members(self, sets: Iterable[tuple[int, ...]]) -> tuple[Measurement, ...]:
        """Some sets of the one family from which sets are generated."""
        (family,) = self.families
        return self.capped([family.measurement(s, self.names) for s in sets])

    def capped(self, measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
        """The same with the caps on single measurements in their costs."""
        found = []
        for m in measurements:
            at = self.set_caps.get(m.name)
            cost = tuple(1.0 if i == at else c for i, c in enumerate(m.cost))
            found.append(dataclasses.replace(m, cost=cost))
        return tuple(found)

    def prior(self, keep: Iterable[int] | None = None) -> Array:
        """The information in hand, M0; of the variables ``keep`` only, where given."""
        M = np.zeros_like(self.covariance)
        kept = set(range(len(M))) if keep is None else set(keep)
        for one, n in self.have:
            seen = tuple(i for i in one.observes if i in kept)
            if seen and seen != one.observes:
                at, noise = [one.observes.index(i) for i in seen], one.noise
                noise = noise and tuple(tuple(noise[a][b] for b in at) for a in at)
                one = dataclasses.replace(one, observes=seen, noise=noise)
            M += n * one.information(self.covariance) if seen else 0.0
        return M

    def program(
        self, measurements: Sequence[Measurement], budgets: Array, prior: Array
    ) -> DesignProgram:
        """The allocation program over some measurements."""
        costs = np.array([m.cost for m in measurements], dtype=np.float64)
        return DesignProgram(
            information=information_of(measurements, self.covariance),
            costs=costs.reshape(len(measurements), len(budgets)),
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
            "families": [dataclasses.asdict(f) for f in self.families],
            "listed": [dataclasses.asdict(m) for m in self.listed],
            "have": [{"measurement": dataclasses.asdict(m), "n": n} for m, n in self.have],
            "set_caps": dict(self.set_caps),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The problem that a plan carries, which may come from a file."""
        arrays = {name: np.array(stored[name], dtype=np.float64) for name in _ARRAYS}
        have = [[one["measurement"], one["n"]] for one in stored["have"]]
        found: Self = decode(cls, {**stored, **arrays, "have": have})
        return found


_ARRAYS = ("covariance", "target")


def noise_of(variances: Sequence[float]) -> tuple[tuple[float, ...], ...] | None:
    """The covariance of independent noise with these variances; None where there is no noise."""
    rows = np.diag(variances).tolist() if any(variances) else []
    return tuple(map(tuple, rows)) or None


def check_covariance(covariance: Array, names: Sequence[str]) -> Array:
    """A symmetric positive definite covariance, or one clear error."""
    cov = np.asarray(covariance, dtype=np.float64)
    k = len(names)
    rule = f"cov must have {k} rows and columns, one for each of {', '.join(names)}"
    require(cov.shape == (k, k), f"{rule}; got shape {cov.shape}.")
    require(np.isfinite(cov).all(), "cov must be finite numbers; got NaN or infinity.")
    scale = np.sqrt(np.maximum(np.diag(cov), 0.0))
    constant = ", ".join(n for n, s in zip(names, scale, strict=True) if s == 0)
    remedy = "A variable that never varies is known: leave it out."
    require(not constant, f"cov must have positive variances; got 0 for {constant}. {remedy}")
    correlation = cov / np.outer(scale, scale)
    values, vectors = np.linalg.eigh((correlation + correlation.T) / 2)
    among = " and ".join(names[i] for i in np.argsort(-np.abs(vectors[:, 0]))[:2])
    lopsided = np.abs(correlation - correlation.T).max() > 1e-9
    least = values[0]
    indefinite, singular = least < -1e-9, least < 1e-10
    refuse(
        {
            "cov must be symmetric.": lopsided,
            f"cov must be positive semi-definite; got a correlation matrix with eigenvalue {least:.2g}.": indefinite,
            f"cov must not be singular; got raters that determine each other ({among} among them). Leave one out.": singular,
        }
    )
    return np.asarray((cov + cov.T) / 2, dtype=np.float64)


def least_cover(
    measurements: Sequence[Measurement], target: Array, budget: int, least: int
) -> tuple[float, list[int]]:
    """The cheapest measurements, ``least`` of each, that cover the target; infinite if none do."""
    bit = {i: 1 << place for place, i in enumerate(np.flatnonzero(target).tolist())}
    cheapest: dict[int, tuple[float, int]] = {}
    for j, one in enumerate(measurements):
        mask = sum(bit.get(i, 0) for i in one.observes)
        price = one.cost[budget]
        if mask and math.isfinite(price) and (mask not in cheapest or price < cheapest[mask][0]):
            cheapest[mask] = (price, j)
    if len(bit) > 16:  # many strata: each wanted variable by its cheapest set
        fitting = [[p for m, p in cheapest.items() if m & b] for b in bit.values()]
        chosen = [min(prices, default=(math.inf, -1)) for prices in fitting]
        return least * sum(price for price, _ in chosen), sorted({j for _, j in chosen})
    everything = (1 << len(bit)) - 1
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for state in range(everything):
        if state not in best:
            continue
        for mask, (price, j) in cheapest.items():
            after = state | mask
            cost = best[state][0] + least * price
            if after != state and (after not in best or cost < best[after][0]):
                best[after] = (cost, [*best[state][1], j])
    return best.get(everything, (math.inf, []))


Target = str | Mapping[str, float] | Sequence[float]
_MODELS = (Additive, Maximum, Cascade)


class Population(NamedTuple):
    """Covariance, mean and share of each stratum (or of one without a name)."""

    raters: tuple[str, ...]
    blocks: Mapping[str, Array]
    means: Mapping[str, Array | None]
    shares: list[float]
    n_pilot: int | None
    scores: Scores | None
    column: str | None

    @property
    def strata(self) -> tuple[str, ...]:
        """The names of the strata."""
        return () if tuple(self.blocks) == ("",) else tuple(self.blocks)


def read_population(
    pilot: object,
    cov: ArrayLike | Mapping[str, ArrayLike] | None,
    names: Sequence[str],
    labels: Sequence[LabelType],
    strata: str | Sequence[object] | None,
    shares: Mapping[str, float] | None,
    shrink: bool,
) -> Population:
    """Read and check the pilot, or the covariance that is given instead."""
    got = "none" if pilot is None else "both"
    require((pilot is None) != (cov is None), f"one of pilot and cov must be given; got {got}.")
    raters, scores = tuple(names), None
    column = strata if isinstance(strata, str) else None
    if pilot is not None:
        scores = read_scores(pilot, names=raters or None, strata=column)
        raters, n_rows = scores.names, len(scores.rows)
        if strata is not None and column is None:
            named = tuple(str(s) for s in strata)
            rule = f"strata must have one entry for each of {n_rows} pilot rows"
            require(len(named) == n_rows, f"{rule}; got {len(named)}.")
            scores = dataclasses.replace(scores, strata=named)
    joined = ", ".join(n for n in (*raters, *(label.name for label in labels)) if "+" in n)
    said, several = ", ".join(raters) or "none", len(set(raters)) == len(raters) > 0
    require(several, f"names must be different and not empty; got {said}.")
    require(not joined, f"names must not hold '+', which joins variables; got {joined}.")
    blocks: dict[str, Array] = {}
    means: dict[str, Array | None] = {}
    fewest = []
    if scores is None:
        given: Mapping[str, Any] = cov if isinstance(cov, Mapping) else {"": cov}
        for group, block in given.items():
            blocks[group] = check_covariance(np.asarray(block, dtype=np.float64), raters)
            means[group] = None
    else:
        for group in dict.fromkeys(scores.strata) or ("",):
            means[group], block, n = pilot_covariance(scores.of(group), shrink, names=raters)
            blocks[group] = check_covariance(block, raters)
            fewest.append(n)
    parts, n_pilot = _shares(tuple(blocks), shares, scores), min(fewest, default=None)
    return Population(raters, blocks, means, parts, n_pilot, scores, column)


def read_budgets(
    budgets: float | Mapping[str, float | None] | None,
) -> tuple[dict[str, float], str | None]:
    """The budgets, NaN where one is open, and the name of that one."""
    given = budgets if isinstance(budgets, Mapping) else {"budget": budgets}
    free = [name for name, value in given.items() if value is None]
    require(given, "budgets must name at least one budget; got none.")
    several = f"budgets must leave at most one budget open; got {', '.join(free)}."
    require(len(free) <= 1, several)
    for name, value in given.items():
        sound = value is None or (_is_number(value) and value > 0 and math.isfinite(value))
        require(sound, f"budgets must be positive numbers; got {value} for {name!r}.")
    limits = {str(n): math.nan if v is None else float(v) for n, v in given.items()}
    return limits, free[0] if free else None


def read_costs(costs: object, names: Sequence[str]) -> list[Any]:
    """One price model for each budget."""
    prices = list(costs.values()) if isinstance(costs, Mapping) else []
    rule = "costs must have prices for each budget"
    if isinstance(costs, Mapping) and costs and not any(map(_is_number, prices)):
        got = ", ".join(map(str, costs))
        require(set(names) == set(costs), f"{rule} ({', '.join(names)}); got {got}.")
        return [price_model(costs[n]) for n in names]
    form = ", ".join(f"{name!r}: {{…}}" for name in names[:2])
    require(len(names) == 1, f"{rule}, as {{{form}}}; got one set of prices.")
    return [price_model(costs)]  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number))


def priced_raters(models: Sequence[Any], target: Target, labels: Sequence[LabelType]) -> list[str]:
    """The raters that prices and target speak of, target first; none where a function prices sets."""
    if any(not isinstance(m, (*_MODELS, Table)) for m in models):
        return []
    wanted: list[str] = [target] if isinstance(target, str) else []
    wanted += target if isinstance(target, Mapping) else []
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
        check_names("target", target, raters)
        for name, weight in target.items():
            a[list(raters).index(name)] = weight
    else:
        n = len(target)
        require(n == len(raters), f"target must have {len(raters)} numbers; got {n}.")
        a[:] = target
    sound = np.isfinite(a).all() and a.any()
    require(sound, f"target must be finite and not zero; got {a.tolist()}.")
    return a


def _shares(
    groups: tuple[str, ...], shares: Mapping[str, float] | None, scores: Scores | None
) -> list[float]:
    if groups == ("",):
        return [1.0]
    if shares is None and scores is not None:
        return [sum(s == g for s in scores.strata) / len(scores.strata) for g in groups]
    require(shares is not None, "shares must say how large each stratum is; got none.")
    return list(stratum_shares(groups, shares).values())


class ProblemBuilder:
    """A problem out of the arguments of :func:`~noracle.ppi.plan.plan_budget`; caps are budgets."""

    def __init__(
        self,
        population: Population,
        target: Target,
        models: Sequence[Any],
        limits: Mapping[str, float],
        labels: Sequence[LabelType],
        accuracy: float | None,
        caps: Mapping[str, float],
    ) -> None:
        self.population, self.raters, self.models = population, population.raters, models
        self.prefixes = [f"{g}/" for g in population.strata] or [""]
        self.limits, self.n_priced = dict(limits), len(limits)
        self.target = _target(target, self.raters)
        self.wanted = int(np.flatnonzero(self.target)[0])
        self.labels, self.kinds = labels, {label.name: label for label in labels}
        self.rater_caps: dict[str, int] = {}  # rater → place among the budgets
        self.label_caps: dict[str, int] = {}
        self.set_caps: dict[str, int] = {}
        self.shut: set[str] = set()
        for name, most in caps.items():
            sound = _is_number(most) and most >= 0 and math.isfinite(most)
            require(sound, f"caps must be numbers of at least 0; got {most} for {name!r}.")
            if most == 0:
                self.shut.add(name)
                continue
            places = self.label_caps if name in self.kinds else self.set_caps
            places = self.rater_caps if name in self.raters else places
            places[name] = len(self.limits)
            self.limits[f"cap {name}"] = float(most)
        several = int(np.count_nonzero(self.target)) != 1
        self.noises = [self._noises(accuracy, m, several) for m in population.means.values()]

    def problem(self, measurements: Literal["auto"] | Sequence[Any], have: object) -> Problem:
        """Everything numbered: what may be measured, and what is in hand."""
        families, listed = self._for_sale(measurements)
        k, names = len(self.raters), tuple(p + name for p in self.prefixes for name in self.raters)
        covariance = np.zeros((len(names), len(names)))
        for g, block in enumerate(self.population.blocks.values()):
            covariance[g * k : (g + 1) * k, g * k : (g + 1) * k] = block
        return Problem(
            names=names,
            covariance=covariance,
            target=np.concatenate([share * self.target for share in self.population.shares]),
            budgets=self.limits,
            families=families,
            listed=listed,
            have=self._in_hand(have),
            of=tuple(i % k for i in range(len(names))),
            set_caps=self.set_caps,
        )

    def _noises(
        self, accuracy: float | None, mean: Array | None, several: bool
    ) -> dict[str, float]:
        """The variance that each kind of label adds in one stratum."""
        if not self.labels:
            return {}
        taken = next((name for name in self.kinds if name in self.raters), None)
        known = None if mean is None else float(mean[self.wanted])
        level = known if accuracy is None else accuracy
        blind = level is None and any(label.noise(0.5) for label in self.labels)
        said = 0.0 if level is None else level
        outside = not 0 <= said <= 1
        refuse(
            {
                "labels must be of one target variable; got a target that combines several. Pass measurements instead.": several,
                f"labels must not share their names with variables; got {taken!r}.": taken,
                "accuracy must be given with cov: the noise of these kinds of label depends on it.": blind,
                f"accuracy must be in [0, 1]; got {said:g}. Labels of this kind need a target of zeros and ones.": outside,
            }
        )
        return {label.name: label.noise(said) for label in self.labels}

    def _for_sale(
        self, measurements: Literal["auto"] | Sequence[Any]
    ) -> tuple[tuple[Family, ...], tuple[Measurement, ...]]:
        if not isinstance(measurements, str):
            return (), self._chosen_sets(measurements)
        rule = f"measurements must be 'auto' or a list; got {measurements!r}."
        require(measurements == "auto", rule)
        k = len(self.raters)
        if all(isinstance(m, _MODELS) for m in self.models):
            return self._families(), ()
        rule = f"costs must be additive, a maximum or a cascade beyond 12 variables; got {k}. Pass a list of measurements."
        require(k <= 12, rule)
        every = [tuple(self.raters[i] for i in s) for s in subsets(k)]
        return (), self._chosen_sets(every, skip=True)

    def _families(self) -> tuple[Family, ...]:
        k, families = len(self.raters), []
        for g, prefix in enumerate(self.prefixes):
            for kind in (None, *(label for label in self.labels if label.name not in self.shut)):
                sold, prices = self._prices(kind)
                if not sold or (kind is not None and self.wanted not in sold):
                    continue
                about: dict[str, Any] = {"prices": prices, "prefix": prefix}
                if kind is not None:
                    about |= {"label": g * k + self.wanted, "called": kind.name}
                    about["noise"] = self.noises[g][kind.name]
                families.append(Family(variables=tuple(g * k + i for i in sold), **about))
        total = sum(len(f) for f in families)
        rule = f"measurements must be listed beyond {MOST_SETS} sets when there are strata or kinds of label"
        remedy = "Pass measurements=[…], or fewer raters."
        few = total <= MOST_SETS or len(families) == 1
        require(few, f"{rule}; got {total} sets. {remedy}")
        return tuple(families)

    def _prices(self, kind: LabelType | None) -> tuple[list[int], tuple[SetPrices, ...]]:
        """Raters that are for sale and their prices in each budget, caps included."""
        k, at = len(self.raters), self.wanted
        rows = [model.set_prices(self.raters) for model in self.models]
        caps = {place: self.raters.index(name) for name, place in self.rater_caps.items()}
        if kind is not None:  # it stands in the place of the target
            for number, p in enumerate(rows):
                sums, largest, first = list(p.sums), list(p.largest), number == 0
                sums[at] = kind.price if first else sums[at] if math.isfinite(sums[at]) else 0.0
                largest[at] = largest[at] if not first and math.isfinite(largest[at]) else 0.0
                rows[number] = dataclasses.replace(p, sums=tuple(sums), largest=tuple(largest))
            caps = {place: i for place, i in caps.items() if i != at}
            if kind.name in self.label_caps:
                caps[self.label_caps[kind.name]] = at
        for place in range(self.n_priced, len(self.limits)):
            ones = tuple(float(caps.get(place) == i) for i in range(k))
            rows.append(SetPrices(per_item=0.0, sums=ones, largest=(0.0,) * k))
        priced = [i for i in range(k) if all(math.isfinite(p.of([i])) for p in rows)]
        stands_in = None if kind is None else at
        sold = [i for i in priced if self.raters[i] not in self.shut or i == stands_in]
        for i in sold:
            name = kind.name if kind is not None and i == at else self.raters[i]
            rule = f"costs must be positive, or capped; got 0 for {name!r}"
            remedy = "Give it a cap, or count what is there among have."
            require(any(p.of([i]) for p in rows), f"{rule}. {remedy}")
        return sold, tuple(p.among(sold) for p in rows)

    def _chosen_sets(self, chosen: Sequence[Any], *, skip: bool = False) -> tuple[Measurement, ...]:
        """The sets that a user names, in every stratum; those that are not for sale may be skipped."""
        found: list[Measurement] = []
        for entry in chosen:
            if isinstance(entry, Measurement):
                found.append(self._own(entry))
                continue
            words = tuple(entry.split("+")) if isinstance(entry, str) else tuple(entry)
            for g, prefix in enumerate(self.prefixes):
                cost = self._cost(words)
                said = "+".join(words)
                if cost is not None:
                    found.append(self._measured(prefix + said, words, g, cost))
                rule = f"measurements must be for sale; got {said} without a price."
                require(skip or cost is not None, rule)
        several = len({m.name for m in found}) == len(found) > 0
        require(several, "measurements must have different names, and there must be some.")
        for one in found:
            rule = f"costs must be positive, or capped; got 0 for {one.name!r}"
            paid = any(one.cost) or one.name in self.set_caps
            require(paid, f"{rule}. Give it a cap, or count it among have.")
        return tuple(found)

    def _measured(
        self, name: str, words: Sequence[str], g: int, cost: tuple[float, ...] = ()
    ) -> Measurement:
        """The raters and kinds of label ``words`` observed together in stratum ``g``."""
        noises, k = self.noises[g], len(self.raters)
        order = sorted(
            (self.wanted, noises[w]) if w in self.kinds else (self._place(w), 0.0) for w in words
        )
        at, noise = tuple(g * k + i for i, _ in order), noise_of([v for _, v in order])
        return Measurement(name=name, observes=at, cost=cost, noise=noise)

    def _place(self, name: str) -> int:
        check_names("measurements", [name], self.raters)
        return self.raters.index(name)

    def _own(self, one: Measurement) -> Measurement:
        n, rule = len(one.cost), f"must have {self.n_priced} costs, one for each budget"
        require(n == self.n_priced, f"measurement {one.name!r} {rule}; got {n}.")
        seen = {self.raters[i % len(self.raters)] for i in one.observes}
        return dataclasses.replace(one, cost=(*one.cost, *self._cap_costs(seen, set())))

    def _cap_costs(self, raters: set[str], kinds: set[str]) -> tuple[float, ...]:
        taken = {at for n, at in self.rater_caps.items() if n in raters}
        taken |= {at for n, at in self.label_caps.items() if n in kinds}
        return tuple(float(at in taken) for at in range(self.n_priced, len(self.limits)))

    def _cost(self, words: tuple[str, ...]) -> tuple[float, ...] | None:
        used = [self.kinds[w] for w in words if w in self.kinds]
        plain = tuple(w for w in words if w not in self.kinds)
        if set(words) & self.shut:
            return None
        said, cost = "+".join(words), []
        rule = f"measurements must hold one kind of label at most; got {said}."
        require(len(used) <= 1, rule)
        for number, model in enumerate(self.models):
            if isinstance(model, _MODELS):
                price = model.set_prices(self.raters).of([self._place(w) for w in plain])
            else:
                price = model(plain) if plain else 0.0
            if price is None or not math.isfinite(price):
                return None
            require(price >= 0, f"costs must not be negative; got {price:g} for {said}.")
            cost.append(float(price) + (used[0].price if used and number == 0 else 0.0))
        return (*cost, *self._cap_costs(set(plain), {label.name for label in used}))

    def _in_hand(self, have: object) -> tuple[tuple[Measurement, int], ...]:
        if have is None:
            return ()
        scores = self.population.scores
        if isinstance(have, Mapping) and all(isinstance(v, Integral) for v in have.values()):
            return self._counted(have)
        if not (isinstance(have, str) and have == "pilot"):
            column = self.population.column
            scores = read_scores(have, names=self.raters, strata=column, what="have")
            rule = "have must name the stratum of each row, in a column as the pilot does"
            named = self.prefixes == [""] or scores.strata
            require(named, f"{rule}; got rows without strata.")
        if scores is None:
            raise ArgumentError("have='pilot' needs a pilot; got cov.")
        finite = not np.isinf(scores.rows).any()
        require(finite, "have must be finite, NaN where not observed; got infinity.")
        found = []
        for g, prefix in enumerate(self.prefixes):
            for seen, n in patterns(scores.of(prefix[:-1])).items():
                words = [self.raters[i] for i in seen]
                found.append((self._measured(prefix + "+".join(words), words, g), n))
        return tuple(found)

    def _counted(self, have: Mapping[Any, int]) -> tuple[tuple[Measurement, int], ...]:
        found = []
        for key, n in have.items():
            require(n >= 0, f"have must be counts of at least 0; got {n} for {key!r}.")
            said = key if isinstance(key, str) else "+".join(key)
            g = next((g for g, p in enumerate(self.prefixes) if p and said.startswith(p)), 0)
            words = said.removeprefix(self.prefixes[g]).split("+")
            check_names("have", words, [*self.raters, *self.kinds])
            if n:
                found.append((self._measured(said, words, g), int(n)))
        return tuple(found)
