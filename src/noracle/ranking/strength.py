"""Strengths of systems: the Bradley–Terry model with ties and an effect of the order shown."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from noracle.errors import EvidenceError
from noracle.evidence.preferences import FIRST, SECOND, Codes, Preferences

Floats = NDArray[np.float64]
_STEPS = 100
_MOST = 20_000_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Strengths:
    """A fitted model.

    ``values`` are the strengths β, with mean 0; ``position`` is γ (NaN where it is not in the
    model) and ``tie`` is τ (-inf without ties). With d = β_first - β_second + γ,

        P(first) : P(second) : P(tie or neither) = exp(d/2) : exp(-d/2) : exp(τ).

    ``spread`` is the covariance of β, γ and τ, which allows for any dependence within clusters;
    ``df`` its degrees of freedom. ``smoothed`` says that the likelihood had no maximum.
    """

    values: Floats
    position: float
    tie: float
    spread: Floats
    df: int
    smoothed: bool


def fit_strengths(
    preferences: Preferences, *, position: bool = True, by_rater: bool = False
) -> Strengths:
    """The maximum-likelihood strengths, and their covariance by the jackknife over clusters.

    A cluster is an item; with ``by_rater`` items and raters are crossed clusters, whose
    covariances add, less that of verdicts of one rater on one item. The jackknife takes one
    Newton step from the fit for each cluster left out, which is a little too wide rather than too
    narrow. Where a system, or a group of them, won or lost all comparisons with the others, the
    likelihood has no maximum: half a win is then added on either side of each pair compared.
    """
    p = preferences
    size = len(p.systems)
    _require_connected(p)
    sign = np.select([p.outcome == FIRST, p.outcome == SECOND], [1.0, -1.0], 0.0)
    design = np.zeros((len(sign), size + 2))
    rows = np.arange(len(sign))
    design[rows, p.first], design[rows, p.second] = 1.0, -1.0
    design[:, size] = float(position)
    pull = np.zeros((0, size + 2))
    smoothed = not _has_maximum(p, sign)
    if smoothed:
        i, j = np.unique(np.sort([p.first, p.second], axis=0), axis=1)
        pull = np.zeros((len(i), size + 2))
        pull[np.arange(len(i)), i], pull[np.arange(len(i)), j] = 1.0, -1.0
    ties = bool((sign == 0).any())
    # Cells of the same design count together.
    cells, place = np.unique(np.vstack([design, pull, -pull]), axis=0, return_inverse=True)
    every = np.concatenate([sign, np.ones(2 * len(pull))])
    weight = np.concatenate([np.ones(len(sign)), np.full(2 * len(pull), 0.5)])
    place = place.reshape(-1)
    n = np.bincount(place, weight, len(cells))
    wins = np.bincount(place, weight * every, len(cells))
    tied = np.bincount(place, weight * (every == 0), len(cells))
    at = np.zeros(size + 2)
    total, n_ties = float(n.sum()), float(tied.sum())
    at[-1] = np.log(max(n_ties, 0.5) / max(total - n_ties, 0.5)) + np.log(2) if ties else -np.inf
    fixed = np.zeros((size + 2, size + 2))
    fixed[:size, :size] = 1.0 / size  # strengths are known up to a constant: their mean is 0
    if not position:
        fixed[size, size] = 1.0
    if not ties:
        fixed[-1, -1] = 1.0
    before = np.inf
    for _ in range(_STEPS):
        slope, information = _moments(cells, n, wins, tied, at)
        step = np.linalg.solve(information + fixed, slope)
        largest = float(np.abs(step).max())
        at = at + step / max(1.0, largest / 2)
        if largest < 1e-10 or (largest < 1e-7 and largest >= before):
            break
        before = largest
    _, information = _moments(cells, n, wins, tied, at)
    slopes = _slopes(design, sign, at)
    spread, df = _jackknife(information + fixed, design, slopes, at, p.item)
    if by_rater:
        other, fewer = _jackknife(information + fixed, design, slopes, at, p.rater)
        both = p.item * (int(p.rater.max()) + 1) + p.rater
        crossed, _ = _jackknife(information + fixed, design, slopes, at, both)
        least = np.linalg.eigvalsh(other - crossed)[0]
        # A difference of covariances may have negative directions; the sum is never too small.
        spread, df = spread + other - (crossed if least >= 0 else 0.0), min(df, fewer)
    return Strengths(
        values=at[:size] - at[:size].mean(),
        position=float(at[size]) if position else np.nan,
        tie=float(at[-1]),
        spread=spread,
        df=df,
        smoothed=smoothed,
    )


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


def _slopes(design: Floats, sign: Floats, at: Floats) -> Floats:
    """The slope of each verdict's log-likelihood."""
    first, second, tie = chances(design[:, :-1] @ at[:-1], at[-1])
    slopes = design * ((sign - (first - second)) / 2)[:, None]
    slopes[:, -1] = (sign == 0) - tie
    return slopes


def _jackknife(
    information: Floats, design: Floats, slopes: Floats, at: Floats, cluster: Codes
) -> tuple[Floats, int]:
    """The covariance of the parameters with each cluster left out in turn, and its degrees of freedom."""
    _, cluster = np.unique(cluster, return_inverse=True)
    size, width = int(cluster.max()) + 1, slopes.shape[1]
    sums = np.zeros((size, width))
    np.add.at(sums, cluster, slopes)
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
    return np.asarray(factor * moved.T @ moved), size - 1


def _edges(p: Preferences, sign: Floats) -> NDArray[np.bool_]:
    """Whether a system won against another, or did not lose."""
    size = len(p.systems)
    edges = np.zeros((size, size), dtype=bool)
    edges[p.first[sign >= 0], p.second[sign >= 0]] = True
    edges[p.second[sign <= 0], p.first[sign <= 0]] = True
    return edges


def _has_maximum(p: Preferences, sign: Floats) -> bool:
    """Whether every system can be reached from every other by wins and ties (Ford 1957)."""
    from scipy.sparse.csgraph import connected_components

    return bool(connected_components(_edges(p, sign), connection="strong")[0] == 1)


def _require_connected(p: Preferences) -> None:
    from scipy.sparse.csgraph import connected_components

    n, group = connected_components(_edges(p, np.zeros(len(p.first))), directed=False)
    if n > 1:
        one, other = (p.systems[int(np.flatnonzero(group == g)[0])] for g in (0, 1))
        rule = "must compare all systems, at least over others"
        came = f"none between the groups of {one!r} and {other!r}"
        remedy = "Compare some of both groups, or rank them apart."
        raise EvidenceError.of("preferences", rule, came, remedy=remedy)
