"""Value and limits of the accuracy from the labels of a sample: by binomial counts of its parts, or
by scores.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from noracle.accuracy.strata import (
    ErrorRates,
    Group,
    Guess,
    LabelKinds,
    Matrix,
    Sample,
    binomial_cells,
    score_rows,
)
from noracle.bounds import concentration, linear
from noracle.bounds import parts as sums
from noracle.bounds.betting import betting_interval, fixed_interval
from noracle.bounds.linear import Cell, Limits
from noracle.bounds.special import ndtri
from noracle.errors import ArgumentError

_KINDS: dict[str, LabelKinds] = {"complementary": "complementary", "ordinary": "ordinary"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the accuracy is to be estimated."""

    method: str
    interval: str
    weight: float
    inverse: Matrix | None
    classes: tuple[int | str, ...] | None
    guess: Guess
    rates: ErrorRates | None
    seed: int = 0

    @property
    def scored(self) -> bool:
        """Whether scores are used, so that all items make one part."""
        return self.method == "scores" or self.interval in ("betting", "fixed-n")

    @property
    def kinds(self) -> LabelKinds:
        """The labels that the method uses."""
        return _KINDS.get(self.method, "both")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Value and limits of the accuracy over all items, and how they were made."""

    value: float
    limits: Limits
    variance: float
    n: int
    interval: str
    sharp: Limits | None = None
    parts: tuple[Mapping[str, Any], ...] = ()
    blind: float = 0.0
    fixed: bool = False
    """Whether the number of labels must have been fixed beforehand, whatever the interval promises
    otherwise.
    """
    clusters: int = 0
    """Clusters with labels, where the cluster is the unit."""
    design_effect: float = math.nan
    """How many times as many labels clusters cost: the variance over that of as many independent
    items.
    """


# -------------------------------------------------------------------------------------------------
# from binomial counts


def from_cells(sample: Sample, settings: Settings, below: float, above: float) -> Whole:
    """The accuracy from binomial counts, one set for each part of the sample; every part has one
    unknown rate of its own.
    """
    rows = [
        (
            group,
            linear.merge(
                binomial_cells(group, settings.kinds, rates=settings.rates, seed=settings.seed)
            ),
        )
        for group in sample.groups
    ]
    known = [(group, cells) for group, cells in rows if cells]
    n = sum(c.n for _, cells in known for c in cells)
    values = [_value(cells, settings) for _, cells in known]
    spreads = [_variance(cells, settings) for _, cells in known]
    blind = sum(sample.share(group) for group, cells in rows if not cells)
    value = (
        sum(sample.share(g) * v for (g, _), v in zip(known, values, strict=True)) / (1 - blind)
        if known
        else math.nan
    )
    variance = (
        sum(sample.share(g) ** 2 * v for (g, _), v in zip(known, spreads, strict=True))
        if known
        else math.nan
    )
    parts = [sums.Part(sample.share(g), cells, _size(sample, g, cells)) for g, cells in known]
    interval, sharp = settings.interval, None
    match interval:
        case "exact":
            chosen = _narrower(sample, known, parts, below, above)
            found = sums.sum_limits(chosen, below, above, blind=blind)
            limits, interval = (
                Limits(found.low, found.high, found.empty),
                _NAMES.get(found.method, "parts"),
            )
            if len(parts) > 1:
                sharp = sums.sum_profile(chosen, below, above, blind=blind)
        case "profile" if len(parts) == 1:
            share, alone = parts[0].share, linear.profile(parts[0].cells, below, above)
            limits = Limits(share * alone.low, share * alone.high + blind, alone.empty)
        case "profile":
            limits = sums.sum_profile(parts, below, above, blind=blind)
        case "wald":
            limits = _shifted(normal_limits(value * (1 - blind), variance, below, above), blind)
        case _:
            limits = _split(sample, known, settings, below, above, blind)
    told = tuple(
        {"share": sample.share(g), "n": sum(c.n for c in cells), "value": v, **sample.describe(g)}
        for (g, cells), v in zip(known, values, strict=True)
    )
    return Whole(
        value=value,
        limits=_inside(limits),
        variance=variance,
        n=n,
        interval=interval,
        sharp=sharp,
        parts=told if len(rows) > 1 else (),
        blind=blind,
    )


_NAMES = {"exact": "exact", "hypergeometric": "hypergeometric"}  # all others are parts


def _size(sample: Sample, group: Group, cells: tuple[Cell, ...]) -> int | None:
    """How many items there are to draw from, where all of them are known and their labels are
    ordinary.
    """
    plain = all(c.a == 0 and c.b == 1 for c in cells)
    return sum(s.answered for s in group) if sample.finite and plain else None


def _narrower(
    sample: Sample,
    known: Sequence[tuple[Group, tuple[Cell, ...]]],
    parts: list[sums.Part],
    below: float,
    above: float,
) -> list[sums.Part]:
    """The parts with all labels, or with ordinary ones alone where most items of a finite
    population have one: by the design.

    Ordinary labels of a random part of the items say what is left to know; a few labels of another
    kind would hide that.
    """
    if not sample.finite:
        return parts
    plain = [(g, tuple(c for c in cells if c.a == 0 and c.b == 1)) for g, cells in known]
    if all(
        len(own) == len(cells) for (_, own), (_, cells) in zip(plain, known, strict=True)
    ) or not all(own for _, own in plain):
        return parts
    others = [sums.Part(sample.share(g), own, _size(sample, g, own)) for g, own in plain]
    return min((parts, others), key=lambda found: sums.predicted_width(found, below, above))


def _shifted(limits: Limits, blind: float) -> Limits:
    return Limits(limits.low, limits.high + blind, limits.empty)


def _inside(limits: Limits) -> Limits:
    return Limits(min(max(limits.low, 0.0), 1.0), min(max(limits.high, 0.0), 1.0), limits.empty)


def _split(
    sample: Sample,
    known: Sequence[tuple[Group, tuple[Cell, ...]]],
    settings: Settings,
    below: float,
    above: float,
    blind: float,
) -> Limits:
    """Limits of every part at an equal share of the error, added: for streams and for the papers'
    own bounds.

    Where every look counts, the error is shared by all parts that can have labels, whose number is
    fixed beforehand.
    """
    every_look = settings.interval == "anytime"
    divide = max(
        1, sum(any(s.answered for s in g) for g in sample.groups) if every_look else len(known)
    )
    low = high = 0.0
    empty = False
    for group, cells in known:
        if every_look:
            found = linear.anytime(cells, (below + above) / divide)
            found = Limits(
                found.low if below > 0 else 0.0, found.high if above > 0 else 1.0, found.empty
            )
        else:
            found = _deviation(
                cells, _value(cells, settings), settings, below / divide, above / divide
            )
        share = sample.share(group)
        low, high, empty = low + share * found.low, high + share * found.high, empty or found.empty
    return Limits(low, high + blind, empty)


# ----------------------------------------------------------------------------------------------------------
# from scores


def from_scores(sample: Sample, settings: Settings, below: float, above: float) -> Whole:
    """The accuracy from scores of all labelled items, each with its part's share of the population
    over its share of the labels.
    """
    groups = sample.groups
    strata = tuple(s for g in groups if any(map(sample.labels, g)) for s in g)
    blind = sum(sample.share(g) for g in groups if not any(map(sample.labels, g)))
    scale = sum(sample.share(g) for g in groups) - blind
    rows = score_rows(
        strata,
        factor=sample.factor,
        inverse=settings.inverse,
        classes=settings.classes,
        guess=settings.guess,
        rates=settings.rates,
        unanswered=sample.beyond,
    )
    mean, spread = rows.moments()
    interval = settings.interval
    if interval == "wald":
        limits = normal_limits(mean, spread, below, above)
    else:
        # Bets that adapt are not valid over parts with numbers of labels of their own; fixed ones
        # are, at a fixed number of labels.
        find = fixed_interval if interval == "fixed-n" and not sample.unequal else betting_interval
        more: dict[str, Any] = {"seed": settings.seed} if find is fixed_interval else {}
        low, _ = find(rows.lower, below, 0.0, **more)
        _, high = find(rows.upper, 0.0, above, **more)
        limits = linear.ordered(low, high)
    if (
        settings.method != "scores"
        and len(groups) == 1
        and not sample.beyond
        and len({s.weight for s in groups[0]}) == 1
    ):
        cells = binomial_cells(groups[0], settings.kinds)
        mean = _value(cells, settings) if cells else mean
    limits = Limits(scale * limits.low, scale * limits.high + blind, limits.empty)
    value = mean * scale / (1 - blind) if rows.n else math.nan
    if rows.n and interval == "fixed-n" and settings.rates is None and _all_known(sample):
        limits, interval = Limits(value, value), "hypergeometric"
    return Whole(
        value=value,
        limits=_inside(limits),
        variance=spread * scale**2,
        n=rows.n,
        interval=interval,
        blind=blind,
        fixed=sample.unequal,
    )


def _all_known(sample: Sample) -> bool:
    """Whether these items are all there are, and every one with an answer has an ordinary label."""
    strata = [s for g in sample.groups for s in g]
    plain = all(
        t.verdict == "yes" and t.design == "uniform"
        for s in strata
        for t in s.tallies
        if t.answered
    )
    return sample.finite and plain and all(s.usable() == s.answered for s in strata)


def _pair(cells: tuple[Cell, ...]) -> tuple[Cell, Cell | None]:
    """The ordinary cell (maybe empty) and the one complementary cell, as the paper's estimators
    need them.
    """
    ordinary = next((c for c in cells if c.a == 0 and c.b == 1), Cell(0, 0))
    others = [c for c in cells if c is not ordinary]
    if len(others) > 1:
        raise ArgumentError(
            "method must be 'ml' or 'scores' where items have different numbers of ruled-out classes."
        )
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

    Where a plug-in variance is 0 (all right or all wrong) both variances are taken at the maximum
    of the joint likelihood instead, and at 0 or 1 from equation (8), in which 1 - A cancels;
    otherwise one lucky sample would get all the weight.
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
            return settings.weight**2 * _cell_variance(ordinary, rate) + (
                1 - settings.weight
            ) ** 2 * _cell_variance(other, rate)
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


# ------------------------------------------------------------------------------------- the papers'
# own deviation bounds


def _deviation(
    cells: tuple[Cell, ...], value: float, settings: Settings, below: float, above: float
) -> Limits:
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
        )
        return Limits(low, high)

    def radius(tail: float) -> float:
        if tail <= 0:
            return math.inf
        share = tail / len(terms)
        if settings.interval in ("theorem2", "proposition3"):
            return min(_hoeffding(terms, share / 2), _bernstein(terms, share / 2))
        return (
            _hoeffding(terms, share)
            if settings.interval == "hoeffding"
            else _bernstein(terms, share)
        )

    return linear.clip(value - radius(below), value + radius(above))


def _hoeffding(terms: Sequence[tuple[float, Cell]], tail: float) -> float:
    return sum(f * concentration.hoeffding_radius(c.n, tail) for f, c in terms)


def _bernstein(terms: Sequence[tuple[float, Cell]], tail: float) -> float:
    return sum(f * concentration.bernstein_radius(c.successes / c.n, c.n, tail) for f, c in terms)
