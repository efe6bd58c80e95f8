"""Covariances of scores out of additive sums, with rows that observe only some of the columns.

Every sum is over the rows that observe both columns of a pair, so that any pattern of missing
values is allowed, sums of disjoint rows add, and leaving rows out (a fold, a single row) is a
subtraction. All arrays may have leading axes: one entry per simulated world or fold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import EvidenceError, fault, require_evidence

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

FLOOR = 1e-8
"""Smallest eigenvalue of a correlation matrix; of two raters that say the same it is lifted."""

_ROWS = 1 << 16


class Covariance(NamedTuple):
    """Means, covariance, how far it was shrunk, and on how many rows each pair was seen."""

    mean: Array
    cov: Array
    intensity: Array
    n: Array


@dataclasses.dataclass(frozen=True, slots=True)
class Moments:
    """n, Σz_j, Σz_j², Σz_j·z_k, Σz_j²·z_k, Σz_j²·z_k² over rows, z = value - origin."""

    origin: Array
    n: Array
    s10: Array
    s20: Array
    s11: Array
    s21: Array
    s22: Array

    @classmethod
    def of(cls, values: Array, counts: Array, columns: Sequence[int], origin: Array) -> Moments:
        """Sums over rows ``values`` (…, rows, r) that occur ``counts`` (…, rows) times."""
        place, size = np.array(columns), origin.shape[-1]
        z = values - origin[list(columns)]
        one, square = np.ones_like(z), z * z
        sums = []
        for a, b in ((one, one), (z, one), (square, one), (z, z), (square, z), (square, square)):
            part = _products(a, b, counts)
            whole = np.zeros((*part.shape[:-2], size, size))
            whole[..., place[:, None], place] = part
            sums.append(whole)
        return cls(origin, *sums)

    def each(self, change: Callable[..., Array], *others: Moments) -> Moments:
        """Every sum changed, together with the same sum of others."""
        sums = ((m.n, m.s10, m.s20, m.s11, m.s21, m.s22) for m in (self, *others))
        changed = (change(*parts) for parts in zip(*sums, strict=True))
        return Moments(self.origin, *changed)

    def __add__(self, other: Moments) -> Moments:
        """The sums over both sets of rows."""
        return self.each(np.add, other)

    def __sub__(self, other: Moments) -> Moments:
        """The sums without the rows of ``other``."""
        return self.each(np.subtract, other)

    def where(self, mask: Mask, other: Moments) -> Moments:
        """These sums where the mask holds, else those of ``other``."""

        def pick(a: Array, b: Array) -> Array:
            return np.where(mask, a, b)

        return self.each(pick, other)

    def spread(self, axis: int = -3) -> Moments:
        """The same sums with one more axis, to be compared with folds or rows."""
        return self.each(lambda a: np.expand_dims(a, axis))

    def covariance(self, *, shrink: bool = True) -> Covariance:
        """The covariance; ``shrink`` moves correlations towards 0 by Ledoit and Wolf's share.

        The share is Σ_jk Var(r_jk) / Σ_{j≠k} r_jk², estimated from fourth moments on the
        correlation scale, so that it does not depend on units. Pairs that were never seen together
        have covariance 0.
        """
        n, s10, s20, s11 = self.n, self.s10, self.s20, self.s11
        safe = np.maximum(n, 1.0)
        at = s10 / safe
        within = np.maximum(s20 / safe - at**2, 0.0)
        both = np.sqrt(within * np.swapaxes(within, -1, -2))
        cross = s11 / safe - at * np.swapaxes(at, -1, -2)
        seen = (n >= 2) & (both > 0)
        r = np.clip(np.divide(cross, both, out=np.zeros_like(cross), where=seen), -1.0, 1.0)
        diagonal = np.eye(r.shape[-1], dtype=bool)
        r = np.where(diagonal, 1.0, r)
        mean, own, variance = (np.diagonal(x, axis1=-2, axis2=-1) for x in (at, n, within))
        share = np.zeros(r.shape[:-2])
        if shrink:
            spread = (self._fourth(mean, variance) - r**2) / safe
            noise = np.where(seen | diagonal, spread, 0.0).sum(axis=(-1, -2))
            signal = np.where(diagonal, 0.0, r**2).sum(axis=(-1, -2))
            share = np.divide(noise, signal, out=np.ones_like(noise), where=signal > 0)
            share = np.clip(share, 0.0, 1.0)
            r = np.where(diagonal, 1.0, r * (1 - share)[..., None, None])
        # A column that does not vary in these rows is uncorrelated, so that its variance does not
        # matter; it must be positive.
        sd = np.sqrt(np.where(variance > 0, variance * own / np.maximum(own - 1, 1.0), 1.0))
        cov = lift(r) * sd[..., :, None] * sd[..., None, :]
        return Covariance(mean=mean + self.origin, cov=cov, intensity=share, n=n)

    def _fourth(self, mean: Array, variance: Array) -> Array:
        """Means of z_j²·z_k² on the standardised scale."""
        j, k = mean[..., :, None], mean[..., None, :]
        t10, t20, t21 = (np.swapaxes(a, -1, -2) for a in (self.s10, self.s20, self.s21))
        total = self.s22 - 2 * k * self.s21 - 2 * j * t21 + k**2 * self.s20 + j**2 * t20
        total = total + 4 * j * k * self.s11 - 2 * j * k**2 * self.s10 - 2 * j**2 * k * t10
        total = total + j**2 * k**2 * self.n
        scale = variance[..., :, None] * variance[..., None, :] * np.maximum(self.n, 1.0)
        fourth: Array = np.divide(total, scale, out=np.zeros_like(total), where=scale > 0)
        return fourth


def _products(a: Array, b: Array, counts: Array) -> Array:
    """Σ counts·a_j·b_k over rows; where all worlds share the rows, some rows at a time."""
    if a.ndim > 2:
        return np.asarray(np.swapaxes(a * counts[..., None], -1, -2) @ b)
    r = a.shape[1]
    total = np.zeros((*counts.shape[:-1], r * r))
    for at in range(0, len(a), _ROWS):
        part = slice(at, at + _ROWS)
        total += counts[..., part] @ (a[part, :, None] * b[part, None, :]).reshape(-1, r * r)
    return total.reshape(*counts.shape[:-1], r, r)


def block(cov: Array, columns: Sequence[int]) -> Array:
    """The covariance of some columns."""
    place = np.array(columns)
    return np.asarray(cov[..., place[:, None], place])


def lift(correlation: Array) -> Array:
    """The correlation matrices with no eigenvalue below :data:`FLOOR` and a diagonal of ones."""
    smallest = np.linalg.eigvalsh(correlation)[..., 0]
    low = smallest < FLOOR
    if not np.any(low):
        return correlation
    values, vectors = np.linalg.eigh(correlation[low])
    mended = (vectors * np.maximum(values, FLOOR)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    sd = np.sqrt(np.diagonal(mended, axis1=-2, axis2=-1))
    lifted = correlation.copy()
    lifted[low] = mended / (sd[..., :, None] * sd[..., None, :])
    return lifted


def pilot_covariance(
    values: ArrayLike, shrink: bool = True, *, names: Sequence[str] | None = None
) -> tuple[Array, Array, int]:
    """Means and covariance of a pilot, and the fewest rows on which two raters were seen together.

    ``values`` has a column per rater, NaN where it did not look, completely at random. Correlations
    r_jk are taken over the rows that observe both raters; variances over all rows of a rater. With
    ``shrink`` they move to (1-s)·r_jk with s of Ledoit and Wolf (2004), computed on the correlation
    scale: the usual form changes with the units of a rater.

    References
    ----------
    Ledoit and Wolf (2004), J. Multivariate Analysis 88, 365-411.
    """
    rows = as_rows(values, names, "pilot")
    called = list(names) if names is not None else [f"column {j}" for j in range(rows.shape[1])]
    _check_pilot(rows, called)
    moments = pilot_moments(rows)
    apart = np.argwhere(np.triu(moments.n < 2, 1))
    pairs = ", ".join(f"{called[a]} and {called[b]}" for a, b in apart[:5])
    rule = "must have at least two rows for every pair of raters"
    require_evidence(not pairs, "pilot", rule, f"none for {pairs}")
    found = moments.covariance(shrink=shrink)
    return found.mean, found.cov, int(moments.n.min())


def as_rows(table: object, names: Sequence[str] | None, what: str) -> Array:
    """The table as a 2-D array with one column for each name."""
    try:
        rows = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        rule = "must be rows of numbers, NaN where not observed"
        raise EvidenceError.of(what, rule, type(table).__name__) from None
    rule, shape = "must be a table of rows and columns", f"shape {rows.shape}"
    require_evidence(rows.ndim == 2, what, rule, shape)
    k = rows.shape[1]
    n, rule = k if names is None else len(names), f"must be {k}, one for each column"
    require_evidence(n == k, "names", rule, n)
    return rows


def _check_pilot(rows: Array, names: Sequence[str]) -> None:
    rule = "must be a table of rows and columns"
    require_evidence(rows.size, "pilot", rule, f"shape {rows.shape}")
    faults = []
    if np.isinf(rows).any():
        where = np.flatnonzero(np.isinf(rows).any(axis=1)).tolist()
        faults.append(fault("pilot", "must be finite", "an infinite value", where=where))
    if len(rows) < 2:
        faults.append(fault("pilot", "must have at least two rows", len(rows)))
    for j, name in enumerate(names):
        column = rows[~np.isnan(rows[:, j]), j]
        if not len(column):
            rule, came, remedy = "must have values", "NaN everywhere", "Leave this rater out."
        elif len(column) > 1 and column.min() == column.max():
            rule, came = "must vary", f"{column[0]:g} in all {len(column)} rows"
            remedy = "A rater that always says the same tells nothing: leave it out."
        else:
            continue
        faults.append(fault(f"pilot.{name}", rule, came, remedy=remedy))
    if faults:
        raise EvidenceError(*faults)


def pilot_moments(rows: Array) -> Moments:
    """Sums of rows with NaN where nothing was observed, pattern by pattern."""
    seen = ~np.isnan(rows)
    origin = np.nansum(rows, axis=0) / np.maximum(seen.sum(axis=0), 1)
    patterns, which = np.unique(seen, axis=0, return_inverse=True)
    parts = []
    for number, pattern in enumerate(patterns):
        columns = np.flatnonzero(pattern)
        if len(columns):
            chosen = rows[which.ravel() == number][:, columns]
            part = Moments.of(chosen[None], np.ones((1, len(chosen))), columns.tolist(), origin)
            parts.append(part.each(lambda a: a[0]))
    require_evidence(parts, "pilot", "must have values", "NaN everywhere")
    return reduce(add, parts)
