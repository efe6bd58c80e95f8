"""Strengths of systems: the Bradley–Terry model with ties and an effect of the order shown."""

from __future__ import annotations

import dataclasses
from typing import Any

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
    ``df`` its degrees of freedom. Where the likelihood had no maximum, ``endless`` is a direction of
    the parameters in which it never falls; else it is 0.
    """

    values: Floats
    position: float
    tie: float
    spread: Floats
    df: int
    endless: Floats

    @property
    def smoothed(self) -> bool:
        """Whether half wins were added."""
        return bool(self.endless.any())


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
    ties = bool((sign == 0).any())
    # Verdicts on the same pair in the same order count together.
    cells, place = np.unique(design, axis=0, return_inverse=True)
    place = place.reshape(-1)
    n = np.bincount(place, minlength=len(cells)).astype(np.float64)
    wins = np.bincount(place, sign, len(cells)).astype(np.float64)
    tied = np.bincount(place, sign == 0, len(cells)).astype(np.float64)
    endless = _endless(cells, n, wins, tied)
    if endless.any():
        n += (size - 1 + position) / len(cells)
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
    # Near its ends the jackknife sees no variation: the covariance is nowhere below the model's.
    root = np.linalg.cholesky(information + fixed)
    size_of, ways = np.linalg.eigh(root.T @ spread @ root)
    free = np.linalg.solve(root.T, ways)
    spread = (free * np.maximum(size_of, 1.0)) @ free.T
    return Strengths(
        values=at[:size] - at[:size].mean(),
        position=float(at[size]) if position else np.nan,
        tie=float(at[-1]),
        spread=spread,
        df=df,
        endless=endless,
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


def _endless(cells: Floats, n: Floats, wins: Floats, tied: Floats) -> Floats:
    """A direction that makes verdicts likelier and none less likely; 0 if there is none, and the
    likelihood has a maximum (Albert and Anderson 1984).
    """
    from scipy.optimize import linprog

    half, tie = cells / 2, np.zeros(cells.shape[1])
    tie[-1] = 1.0
    won, lost, level = n - tied + wins > 0.5, n - tied - wins > 0.5, tied > 0
    # What each verdict seen must gain on each of the other two.
    gains = [2 * half[won], -2 * half[lost]]
    if level.any():
        gains += [half[won] - tie, -half[lost] - tie, tie - half[level], tie + half[level]]
    gain = np.vstack(gains)
    found: Any = linprog(-gain.sum(axis=0), A_ub=-gain, b_ub=np.zeros(len(gain)), bounds=(-1, 1))
    endless = np.asarray(found.x, dtype=float)
    return np.where(np.abs(endless) > 1e-9, endless, 0.0) if -float(found.fun) > 1e-7 else 0 * tie


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
