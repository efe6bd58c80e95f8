"""One part of the items: the value of each method and the limits of each interval, among the answered items."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from scipy.special import ndtri

from noracle.accuracy.strata import ErrorRates, Guess, LabelKinds, Matrix, Stratum, binomial_cells, score_rows
from noracle.bounds import concentration, linear
from noracle.bounds.betting import betting_interval
from noracle.bounds.linear import Cell, Limits
from noracle.errors import ArgumentError

_KINDS: dict[str, LabelKinds] = {"complementary": "complementary", "ordinary": "ordinary"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one stratum is to be estimated."""

    method: str
    interval: str
    weight: float
    inverse: Matrix | None
    classes: tuple[int | str, ...] | None
    guess: Guess
    rates: ErrorRates | None

    @property
    def pooled(self) -> bool:
        """Whether scores are used, so that items with different numbers of classes and weights make one part."""
        return self.method == "scores" or self.interval == "betting"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Accuracy among the answered items of one stratum (or of a pool of strata)."""

    value: float
    limits: Limits
    variance: float
    n: int


def estimate_part(group: tuple[Stratum, ...], settings: Settings, below: float, above: float) -> Part:
    """Value and limits of one part, from its scores or from its binomial counts."""
    if settings.pooled:
        return _scored_part(group, settings, below, above)
    return _binomial_part(group[0], settings, below, above)


def _scored_part(group: tuple[Stratum, ...], settings: Settings, below: float, above: float) -> Part:
    rows = score_rows(
        _only(group, settings.method), inverse=settings.inverse, classes=settings.classes, guess=settings.guess, rates=settings.rates
    )
    mean, spread = rows.moments()
    if settings.interval == "wald":
        limits = normal_limits(mean, spread, below, above)
    else:
        low, _ = betting_interval(rows.lower, below, 0.0)
        _, high = betting_interval(rows.upper, 0.0, above)
        limits = linear.ordered(low, high)
    if settings.method != "scores":
        cells = binomial_cells(group[0], _KINDS.get(settings.method, "both")) if len(group) == 1 else ()
        if cells:
            mean = _value(cells, settings)
    return Part(value=mean, limits=limits, variance=spread, n=rows.n)


def _only(group: tuple[Stratum, ...], method: str) -> tuple[Stratum, ...]:
    wanted = {"ordinary": "yes", "complementary": "no"}.get(method)
    if wanted is None:
        return group
    return tuple(dataclasses.replace(s, tallies={t: n for t, n in s.tallies.items() if t.verdict == wanted}) for s in group)


def _binomial_part(stratum: Stratum, settings: Settings, below: float, above: float) -> Part:
    kinds = _KINDS.get(settings.method, "both")
    cells = linear.merge(binomial_cells(stratum, kinds, rates=settings.rates))
    n = sum(c.n for c in cells)
    if not n:
        return Part(value=math.nan, limits=Limits(0.0, 1.0), variance=math.nan, n=0)
    value, variance = _value(cells, settings), _variance(cells, settings)
    match settings.interval:
        case "exact":
            limits = linear.exact(cells, below, above)
        case "anytime":
            limits = linear.anytime(cells, below + above)
            limits = dataclasses.replace(limits, low=limits.low if below > 0 else 0.0, high=limits.high if above > 0 else 1.0)
        case "profile":
            limits = linear.profile(cells, below, above)
        case "wald":
            limits = normal_limits(value, variance, below, above)
        case _:
            limits = _deviation(cells, value, settings, below, above)
    return Part(value=value, limits=limits, variance=variance, n=n)


def _pair(cells: tuple[Cell, ...]) -> tuple[Cell, Cell | None]:
    """The ordinary cell (maybe empty) and the one complementary cell, as the paper's estimators need them."""
    ordinary = next((c for c in cells if c.a == 0 and c.b == 1), Cell(0, 0))
    others = [c for c in cells if c is not ordinary]
    if len(others) > 1:
        raise ArgumentError("method must be 'ml' or 'scores' where items have different numbers of ruled-out classes.")
    return ordinary, others[0] if others else None


def unclipped(cell: Cell) -> float:
    """The rate at which a cell's observed share is expected, (share - a)/b; may leave [0, 1]."""
    return (cell.successes / cell.n - cell.a) / cell.b


def _value(cells: tuple[Cell, ...], settings: Settings) -> float:
    cells = linear.merge(cells)
    if settings.method in ("complementary", "ordinary"):
        n = sum(c.n for c in cells)
        return sum(c.n * unclipped(c) for c in cells) / n if n else math.nan
    if settings.method in ("ivw", "weighted"):
        ordinary, other = _pair(cells)
        if other is None or not ordinary.n:
            return unclipped(other or ordinary)
        w = ivw_weight(ordinary, other) if settings.method == "ivw" else settings.weight
        return w * unclipped(ordinary) + (1 - w) * unclipped(other)
    return linear.maximum_likelihood(cells)


def _cell_variance(cell: Cell, rate: float) -> float:
    p = cell.p(rate)
    return p * (1 - p) / (cell.b**2 * cell.n)


def ivw_weight(ordinary: Cell, other: Cell) -> float:
    """Weight of the ordinary estimate, from plug-in variances (equation 7).

    Where a plug-in variance is 0 (all right or all wrong) both variances are taken at the maximum of the joint likelihood instead, and
    at 0 or
    1 from equation (8), in which 1 - A cancels; otherwise one lucky sample would get all the weight.
    """
    rates = [unclipped(ordinary), unclipped(other)]
    v_o, v_c = _cell_variance(ordinary, rates[0]), _cell_variance(other, rates[1])
    if v_o <= 0 or v_c <= 0:
        rate = linear.maximum_likelihood((ordinary, other))
        v_o, v_c = _cell_variance(ordinary, rate), _cell_variance(other, rate)
        if v_o <= 0 or v_c <= 0:
            offset = other.a / other.b
            return (rate + offset) * ordinary.n / (rate * other.n + (rate + offset) * ordinary.n)
    return v_c / (v_o + v_c)


def _variance(cells: tuple[Cell, ...], settings: Settings) -> float:
    """Plug-in variance of the value at the maximum of the likelihood; NaN where that is 0 or 1."""
    rate = linear.maximum_likelihood(cells)
    info = linear.information(cells, rate)
    if not math.isfinite(info) or info <= 0:
        return math.nan
    if settings.method == "weighted":
        ordinary, other = _pair(cells)
        if other is not None and ordinary.n:
            return settings.weight**2 * _cell_variance(ordinary, rate) + (1 - settings.weight) ** 2 * _cell_variance(other, rate)
    if settings.method in ("complementary", "ordinary") and len(cells) > 1:
        n = sum(c.n for c in cells)
        return sum((c.n / n) ** 2 * _cell_variance(c, rate) for c in cells)
    return 1 / info


def normal_limits(value: float, variance: float, below: float, above: float) -> Limits:
    """Normal limits inside [0, 1]; all of it without a positive variance."""
    if not variance > 0:
        return Limits(0.0, 1.0)
    se = math.sqrt(variance)
    low = value + float(ndtri(below)) * se if below > 0 else 0.0
    high = value - float(ndtri(above)) * se if above > 0 else 1.0
    return Limits(min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0))


# ------------------------------------------------------------------------------------- the papers' own deviation bounds


def _deviation(cells: tuple[Cell, ...], value: float, settings: Settings, below: float, above: float) -> Limits:
    ordinary, other = _pair(cells)
    weights = [(1.0, ordinary if ordinary.n else other)]
    if ordinary.n and other is not None:
        w = ivw_weight(ordinary, other) if settings.method == "ivw" else settings.weight
        weights = [(w, ordinary), (1 - w, other)]
    terms = [(w / c.b, c) for w, c in weights if c is not None and w > 0]
    if settings.interval == "theorem4":
        fixed = [(w, c) for w, c in weights if c is not None]
        scale = max(w / (c.b * c.n) for w, c in fixed)
        low, high = concentration.bernstein_inverted(
            value, lambda a: sum(w**2 * _cell_variance(c, a) for w, c in fixed), scale, below, above
        )  # fmt: skip
        return Limits(low, high)

    def radius(tail: float) -> float:
        if tail <= 0:
            return math.inf
        share = tail / len(terms)
        if settings.interval in ("theorem2", "proposition3"):
            return min(_hoeffding(terms, share / 2), _bernstein(terms, share / 2))
        return _hoeffding(terms, share) if settings.interval == "hoeffding" else _bernstein(terms, share)

    return linear.clip(value - radius(below), value + radius(above))


def _hoeffding(terms: Sequence[tuple[float, Cell]], tail: float) -> float:
    return sum(f * concentration.hoeffding_radius(c.n, tail) for f, c in terms)


def _bernstein(terms: Sequence[tuple[float, Cell]], tail: float) -> float:
    return sum(f * concentration.bernstein_radius(c.successes / c.n, c.n, tail) for f, c in terms)
