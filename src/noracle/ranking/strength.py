"""Strengths of systems: the Bradley–Terry model with ties and an effect of the order shown."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noracle.errors import EvidenceError
from noracle.evidence.preferences import FIRST, SECOND, Codes, Preferences

Floats = NDArray[np.float64]
_STEPS = 100
_MOST = 20_000_000
FEWEST_HELPED = 30
"""Verdicts on comparisons that a judge saw, too, below which its help is not taken."""
_LEAST_WORTH, _HARDLY = 0.05, 0.01


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Strengths:
    """A fitted model.

    ``values`` are the strengths β, with mean 0; ``position`` is γ (NaN where it is not in the
    model) and ``tie`` is τ (-inf without ties). With d = β_first - β_second + γ,

        P(first) : P(second) : P(tie or neither) = exp(d/2) : exp(-d/2) : exp(τ).

    ``spread`` is the covariance of β, γ and τ, which allows for any dependence within clusters;
    ``df`` its degrees of freedom. Where the likelihood had no maximum, ``gains`` are what the
    verdicts gain on each other by a step of the parameters: it falls along no step by which all of
    them gain or stay.
    """

    values: Floats
    position: float
    tie: float
    spread: Floats
    df: int
    gains: Floats | None = None
    weight: float = 0.0
    """How far people's wins follow the judge's: the weight of its help."""
    helped: int = 0
    """Verdicts of people on comparisons that the judge saw, too."""
    worth: float = 1.0
    """The variance of a win with the judge's help, as a share of that without."""
    pull: Floats | None = None
    """What hardly any even verdicts would move the strengths by, where some were added."""

    @property
    def smoothed(self) -> bool:
        """Whether half wins were added."""
        return self.gains is not None


class Judged(NamedTuple):
    """A judge's verdicts as a control variate.

    A comparison is an item and a pair of systems; the judge's mean sign on it is told less the mean
    over its ``stratum``: all comparisons of the pair that the judge saw in the same order. ``off``
    is that of each verdict of people, with the sign of the order shown (0 where the judge is silent:
    not ``told``), ``own`` that of each of the judge's comparisons, of which ``low``, ``high`` and
    ``item`` are the systems and the item, and ``at`` the one that each verdict of people is about.
    """

    off: Floats
    told: NDArray[np.bool_]
    own: Floats
    low: Codes
    high: Codes
    item: Codes
    stratum: Codes
    at: Codes


def judged_pairs(people: Preferences, judge: Preferences) -> Judged:
    """What the judge said of the comparisons that people saw, and of all others."""
    size = len(people.systems)

    def unit(p: Preferences) -> Codes:
        low, high = np.minimum(p.first, p.second), np.maximum(p.first, p.second)
        return (p.item * size + low) * size + high

    units, place = np.unique(unit(judge), return_inverse=True)
    forward = np.where(judge.first < judge.second, 1.0, -1.0)
    mean = np.bincount(place, signs(judge) * forward) / np.bincount(place)
    # People may be shown the order of the judge, which moves both: means are those of one order.
    _, order = np.unique(np.bincount(place, forward) / np.bincount(place), return_inverse=True)
    kind = units % size**2 * (int(order.max()) + 1) + order
    _, stratum = np.unique(kind, return_inverse=True)
    own = mean - (np.bincount(stratum, mean) / np.bincount(stratum))[stratum]
    at = np.minimum(np.searchsorted(units, unit(people)), len(units) - 1)
    told = units[at] == unit(people)
    off = np.where(told, own[at], 0.0) * np.where(people.first < people.second, 1.0, -1.0)
    low, high = units % size**2 // size, units % size
    return Judged(off, told, own, low, high, units // size**2, stratum, at)


def signs(p: Preferences) -> Floats:
    """1 where the first was preferred, -1 where the second, 0 for a tie."""
    return np.select([p.outcome == FIRST, p.outcome == SECOND], [1.0, -1.0], 0.0)


def fit_strengths(
    preferences: Preferences,
    *,
    position: bool = True,
    by_rater: bool = False,
    judged: Judged | None = None,
) -> Strengths:
    """The maximum-likelihood strengths, and their covariance by the jackknife over clusters.

    A cluster is an item; with ``by_rater`` items and raters are crossed clusters, whose
    covariances add, less that of verdicts of one rater on one item. The jackknife takes one
    Newton step from the fit for each cluster left out, which is a little too wide rather than too
    narrow. Where a system, or a group of them, won or lost all comparisons with the others, the
    likelihood has no maximum: half a win is then added on either side of each pair compared.

    With ``judged``, each win of people is told less ``weight`` times what the judge said of that
    comparison beyond its mean on the pair in that order. That has mean 0 whatever the judge says, if
    people saw a random sample of the comparisons of each pair; the weight is that of least squares.
    How well the judge's means are known is part of the covariance.
    """
    p = preferences
    size = len(p.systems)
    _require_connected(p)
    sign = signs(p)
    design = np.zeros((len(sign), size + 2))
    rows = np.arange(len(sign))
    design[rows, p.first], design[rows, p.second] = 1.0, -1.0
    design[:, size] = float(position)
    ties = bool((sign == 0).any())
    # Verdicts on the same pair in the same order count together.
    cells, place = np.unique(design, axis=0, return_inverse=True)
    place = place.reshape(-1)
    n = np.bincount(place, minlength=len(cells)).astype(np.float64)
    wins = np.bincount(place, sign, len(cells)).astype(np.float64)
    tied = np.bincount(place, sign == 0, len(cells)).astype(np.float64)
    gains = _gains(cells, n, wins, tied)
    endless = _gaining(gains).any()
    even = (size - 1 + position) / len(cells) if endless else 0.0
    n += even
    at = np.zeros(size + 2)
    total, n_ties = float(n.sum()), float(tied.sum())
    at[-1] = np.log(max(n_ties, 0.5) / max(total - n_ties, 0.5)) + np.log(2) if ties else -np.inf
    fixed = np.zeros((size + 2, size + 2))
    fixed[:size, :size] = 1.0 / size  # strengths are known up to a constant: their mean is 0
    if not position:
        fixed[size, size] = 1.0
    if not ties:
        fixed[-1, -1] = 1.0
    at, _ = _maximum(cells, n, wins, tied, at, fixed)
    pull = None
    if even:
        free, _ = _maximum(cells, n - even * (1 - _HARDLY), wins, tied, at, fixed)
        pull = free[:size] - at[:size]
    weight, helped, worth, extra = 0.0, 0, 1.0, None
    if judged is not None and not endless:
        helped = int(judged.told.sum())
        moved = _helped(judged, design, sign, at) if helped >= FEWEST_HELPED else None
        if moved is not None:
            adjusted = wins - moved[0] * np.bincount(place, judged.off, len(cells))
            there, found = _maximum(cells, n, adjusted, tied, at, fixed)
            if found:
                (weight, worth), at, wins = moved, there, adjusted
                sign = sign - weight * judged.off
                extra = _own_slopes(judged, p, weight, position), judged.item
    _, information = _moments(cells, n, wins, tied, at)
    slopes = _slopes(design, sign, at, p.outcome)
    spread, df = _jackknife(information + fixed, design, slopes, at, p.item, extra)
    if by_rater:
        other, fewer = _jackknife(information + fixed, design, slopes, at, p.rater)
        both = p.item * (int(p.rater.max()) + 1) + p.rater
        crossed, _ = _jackknife(information + fixed, design, slopes, at, both)
        least = np.linalg.eigvalsh(other - crossed)[0]
        # A difference of covariances may have negative directions; the sum is never too small.
        spread, df = spread + other - (crossed if least >= 0 else 0.0), min(df, fewer)
    # Near its ends the jackknife sees no variation: the covariance is nowhere below the model's,
    # or the judge's share of it.
    root = np.linalg.cholesky(information + fixed)
    size_of, ways = np.linalg.eigh(root.T @ spread @ root)
    free = np.linalg.solve(root.T, ways)
    spread = (free * np.maximum(size_of, worth)) @ free.T
    return Strengths(
        values=at[:size] - at[:size].mean(),
        position=float(at[size]) if position else np.nan,
        tie=float(at[-1]),
        spread=spread,
        df=df,
        gains=gains if endless else None,
        weight=weight,
        helped=helped,
        worth=worth,
        pull=pull,
    )


def _maximum(
    cells: Floats, n: Floats, wins: Floats, tied: Floats, at: Floats, fixed: Floats
) -> tuple[Floats, bool]:
    """The parameters of the largest likelihood by Newton's method, and whether it was reached."""
    before = np.inf
    for _ in range(_STEPS):
        slope, information = _moments(cells, n, wins, tied, at)
        try:
            step = np.linalg.solve(information + fixed, slope)
        except np.linalg.LinAlgError:
            return at, False
        largest = float(np.abs(step).max())
        at = at + step / max(1.0, largest / 2)
        if largest < 1e-10 or (largest < 1e-7 and largest >= before):
            return at, True
        before = largest
    return at, False


def _helped(judged: Judged, design: Floats, sign: Floats, at: Floats) -> tuple[float, float] | None:
    """The weight of the judge's help and what is left of the variance; None where it is no help."""
    first, second, _ = chances(design[:, :-1] @ at[:-1], at[-1])
    left = sign - (first - second)
    square, whole = float(judged.off @ judged.off), float(left @ left)
    if square <= 0 or whole <= 0:
        return None
    weight = float(judged.off @ left) / square
    # What people saw of the judge's comparisons is known of those alone: a finite population.
    seen = min(1.0, float(judged.told.sum()) / len(judged.own))
    least = float(np.sum((left - weight * judged.off) ** 2)) / whole
    least *= (len(left) - 1) / max(len(left) - 2, 1)
    return weight, float(np.clip(least + (1 - least) * seen, _LEAST_WORTH, 1.0))


def _own_slopes(judged: Judged, p: Preferences, weight: float, position: bool) -> Floats:
    """The slope of each of the judge's comparisons: the means of the strata are over these."""
    size, own = len(p.systems), judged.stratum
    n, about = np.bincount(own), own[judged.at]
    forward = np.where(p.first < p.second, 1.0, -1.0)
    times = np.bincount(about, judged.told.astype(float), len(n))[own]
    turned = np.bincount(about, judged.told * forward * position, len(n))[own]
    pull = weight * judged.own / n[own] / 2
    slopes, rows = np.zeros((len(own), size + 2)), np.arange(len(own))
    slopes[rows, judged.low], slopes[rows, judged.high] = pull * times, -pull * times
    slopes[:, size] = pull * turned
    return slopes


def chances(d: Floats, tie: float) -> tuple[Floats, Floats, Floats]:
    """P(first), P(second) and P(tie) at d = β_first - β_second + γ."""
    top = np.maximum(np.abs(d) / 2, tie)
    first, second, tied = np.exp(d / 2 - top), np.exp(-d / 2 - top), np.exp(tie - top)
    total = first + second + tied
    return first / total, second / total, tied / total


def _moments(
    cells: Floats, n: Floats, wins: Floats, tied: Floats, at: Floats
) -> tuple[Floats, Floats]:
    """Slope of the log-likelihood and its information, over cells."""
    first, second, tie = chances(cells[:, :-1] @ at[:-1], at[-1])
    mean = first - second
    slope = (cells * ((wins - n * mean) / 2)[:, None]).sum(axis=0)
    slope[-1] = float((tied - n * tie).sum())
    squares = n * (first + second - mean**2) / 4
    information = (cells * squares[:, None]).T @ cells
    crossed = -(cells * (n * mean * tie / 2)[:, None]).sum(axis=0)
    information[-1, :] = information[:, -1] = crossed
    information[-1, -1] = float((n * tie * (1 - tie)).sum())
    return slope, information


def _slopes(design: Floats, sign: Floats, at: Floats, outcome: Codes) -> Floats:
    """The slope of each verdict's log-likelihood."""
    first, second, tie = chances(design[:, :-1] @ at[:-1], at[-1])
    slopes = design * ((sign - (first - second)) / 2)[:, None]
    slopes[:, -1] = ((outcome != FIRST) & (outcome != SECOND)) - tie
    return slopes


def _jackknife(
    information: Floats,
    design: Floats,
    slopes: Floats,
    at: Floats,
    cluster: Codes,
    extra: tuple[Floats, Codes] | None = None,
) -> tuple[Floats, int]:
    """The covariance of the parameters with each cluster left out in turn, and its degrees of freedom;
    ``extra`` are slopes of what is in clusters, too.
    """
    more, theirs = extra or (slopes[:0], cluster[:0])
    _, place = np.unique(np.concatenate([cluster, theirs]), return_inverse=True)
    cluster, df = place[: len(cluster)], len(np.unique(cluster)) - 1
    size, width = int(place.max()) + 1, slopes.shape[1]
    sums = np.zeros((size, width))
    np.add.at(sums, place, np.concatenate([slopes, more]))
    exact = max(size, len(design)) * width**2 <= _MOST
    if exact:
        first, second, tie = chances(design[:, :-1] @ at[:-1], at[-1])
        mean = first - second
        own = np.zeros((size, width, width))
        squares = (first + second - mean**2) / 4
        np.add.at(own, cluster, design[:, :, None] * design[:, None, :] * squares[:, None, None])
        crossed = np.zeros((size, width))
        np.add.at(crossed, cluster, -design * (mean * tie / 2)[:, None])
        own[:, -1, :] = own[:, :, -1] = crossed
        own[:, -1, -1] = np.bincount(cluster, tie * (1 - tie), size)
        left = information[None] - own
        # A cluster that carries a direction alone cannot be left out: it keeps its plain step.
        alone = np.linalg.eigvalsh(left)[:, 0] < 1e-3 * np.linalg.eigvalsh(information)[0]
        left[alone] = information
        moved = np.linalg.solve(left, sums[:, :, None])[:, :, 0]
    else:
        moved = np.linalg.solve(information, sums.T).T
    factor = (size - 1) / size if exact else size / max(1, size - 1)
    return np.asarray(factor * moved.T @ moved), df


def _gains(cells: Floats, n: Floats, wins: Floats, tied: Floats) -> Floats:
    """One row for each kind of verdict seen and each of the other two: what the one gains on the
    other, in log-odds, by a step of the parameters.
    """
    half, tie = cells / 2, np.zeros(cells.shape[1])
    tie[-1] = 1.0
    won, lost, level = n - tied + wins > 0.5, n - tied - wins > 0.5, tied > 0
    gains = [2 * half[won], -2 * half[lost]]
    if level.any():
        gains += [half[won] - tie, -half[lost] - tie, tie - half[level], tie + half[level]]
    return np.unique(np.vstack(gains), axis=0)


def _gaining(gains: Floats) -> NDArray[np.bool_]:
    """Which rows a step can make larger while none gets smaller. If there is none, the likelihood
    has a maximum (Albert and Anderson 1984).
    """
    from scipy.optimize import linprog

    rows, width = gains.shape
    found: Any = linprog(
        np.r_[np.zeros(width), -np.ones(rows)],
        A_ub=np.hstack([-gains, np.eye(rows)]),
        b_ub=np.zeros(rows),
        bounds=[(None, None)] * width + [(0, 1)] * rows,
    )
    return np.asarray(found.x[width:] > 0.5)


def unbounded(contrasts: Floats, gains: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which contrasts can fall, and which can rise, along steps by which no verdict loses: what the
    verdicts do not bound from below, and from above.
    """
    from scipy.linalg import null_space
    from scipy.optimize import linprog

    some = _gaining(gains)
    free = null_space(gains[~some]) if not some.all() else np.eye(gains.shape[1])
    kinds, place = np.unique(np.round(contrasts @ free, 9), axis=0, return_inverse=True)
    steps = np.unique(np.round(gains[some] @ free, 9), axis=0)
    moves: Any = [
        [
            linprog(way * kind, A_ub=-steps, b_ub=np.zeros(len(steps)), bounds=(-1, 1))
            for kind in kinds
        ]
        for way in (1, -1)
    ]
    falls, rises = (np.array([m.fun < -1e-7 for m in way])[place.reshape(-1)] for way in moves)
    return falls, rises


def _require_connected(p: Preferences) -> None:
    from scipy.sparse.csgraph import connected_components

    size = len(p.systems)
    compared = np.zeros((size, size), dtype=bool)
    compared[p.first, p.second] = True
    n, group = connected_components(compared, directed=False)
    if n > 1:
        one, other = (p.systems[int(np.flatnonzero(group == g)[0])] for g in (0, 1))
        rule = "must compare all systems, at least over others"
        came = f"none between the groups of {one!r} and {other!r}"
        remedy = "Compare some of both groups, or rank them apart."
        raise EvidenceError.of("preferences", rule, came, remedy=remedy)
