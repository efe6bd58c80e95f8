"""Covariances of scores out of additive sums, with rows that observe only some of the columns.

Every sum is over the rows that observe both columns of a pair, so that any pattern of missing
values is allowed, sums of disjoint rows add, and leaving rows out (a fold, a single row) is a
subtraction. All arrays may have leading axes: one entry per simulated world or fold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import EvidenceError, fault

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

FLOOR = 1e-8
"""Smallest eigenvalue that a correlation matrix keeps; smaller ones (two raters that say the same)
are lifted to it.
"""

_ROWS = 1 << 16


class Covariance(NamedTuple):
    """Means, covariance, how far it was shrunk, and on how many rows each pair was seen."""

    mean: Array
    cov: Array
    intensity: Array
    n: Array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Sums of powers over rows, for each pair of columns j, k: n, Σz_j, Σz_j², Σz_j·z_k, Σz_j²·z_k,
    Σz_j²·z_k², z = value - origin.
    """

    n: Array
    s10: Array
    s20: Array
    s11: Array
    s21: Array
    s22: Array
    origin: Array

    @classmethod
    def of(cls, values: Array, counts: Array, columns: Sequence[int], origin: Array) -> Moments:
        """Sums over rows ``values`` (…, rows, r) of these columns, each row counted ``counts`` (…,
        rows) times.
        """
        size, r = origin.shape[-1], len(columns)
        z = values - origin[list(columns)]
        square = z * z
        if z.ndim == 2:
            # The same rows in every world: one product of counts and features, some rows at a time.
            def pairs(a: Array, b: Array) -> Array:
                total = np.zeros((*counts.shape[:-1], r * r))
                for at in range(0, len(a), _ROWS):
                    part = slice(at, at + _ROWS)
                    total += counts[..., part] @ (a[part, :, None] * b[part, None, :]).reshape(
                        -1, r * r
                    )
                return total.reshape(*counts.shape[:-1], r, r)

        else:
            weighted = counts[..., None]

            def pairs(a: Array, b: Array) -> Array:
                return np.asarray(np.swapaxes(a * weighted, -1, -2) @ b)

        one = np.ones_like(z)
        parts = [
            pairs(one, one),
            pairs(z, one),
            pairs(square, one),
            pairs(z, z),
            pairs(square, z),
            pairs(square, square),
        ]
        place = np.array(columns)
        spread = []
        for part in parts:
            whole = np.zeros((*part.shape[:-2], size, size))
            whole[..., place[:, None], place] = part
            spread.append(whole)
        return cls(
            n=spread[0],
            s10=spread[1],
            s20=spread[2],
            s11=spread[3],
            s21=spread[4],
            s22=spread[5],
            origin=origin,
        )

    def _sums(self) -> tuple[Array, ...]:
        return self.n, self.s10, self.s20, self.s11, self.s21, self.s22

    def __add__(self, other: Moments) -> Moments:
        """The sums over both sets of rows."""
        return self._with(*(a + b for a, b in zip(self._sums(), other._sums(), strict=True)))

    def __sub__(self, other: Moments) -> Moments:
        """The sums without the rows of ``other``."""
        return self._with(*(a - b for a, b in zip(self._sums(), other._sums(), strict=True)))

    def spread(self, axis: int = -3) -> Moments:
        """The same sums with one more axis, to be compared with folds or rows."""
        return self._with(*(np.expand_dims(a, axis) for a in self._sums()))

    def _with(
        self, n: Array, s10: Array, s20: Array, s11: Array, s21: Array, s22: Array
    ) -> Moments:
        return Moments(n=n, s10=s10, s20=s20, s11=s11, s21=s21, s22=s22, origin=self.origin)

    def covariance(self, *, shrink: bool = True) -> Covariance:
        """The covariance of the columns; ``shrink`` moves the correlations towards 0 by the share
        of Ledoit and Wolf.

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
        size = r.shape[-1]
        diagonal = np.eye(size, dtype=bool)
        r = np.where(diagonal, 1.0, r)
        mean = np.diagonal(at, axis1=-2, axis2=-1)
        own = np.diagonal(n, axis1=-2, axis2=-1)
        variance = np.diagonal(within, axis1=-2, axis2=-1)
        share = np.zeros(r.shape[:-2])
        if shrink:
            noise = np.where(
                seen | diagonal, (self._fourth(mean, variance) - r**2) / safe, 0.0
            ).sum(axis=(-1, -2))
            signal = np.where(diagonal, 0.0, r**2).sum(axis=(-1, -2))
            share = np.clip(
                np.divide(noise, signal, out=np.ones_like(noise), where=signal > 0), 0.0, 1.0
            )
            r = np.where(diagonal, 1.0, r * (1 - share)[..., None, None])
        # A column that does not vary in these rows is uncorrelated, so that its variance does not
        # matter; it must be positive.
        sd = np.sqrt(np.where(variance > 0, variance * own / np.maximum(own - 1, 1.0), 1.0))
        cov = lift(r) * sd[..., :, None] * sd[..., None, :]
        return Covariance(mean=mean + self.origin, cov=cov, intensity=share, n=n)

    def _fourth(self, mean: Array, variance: Array) -> Array:
        """Means of z_j²·z_k² on the standardised scale."""
        j, k = mean[..., :, None], mean[..., None, :]

        def t(a: Array) -> Array:
            return np.swapaxes(a, -1, -2)

        total = (
            self.s22
            - 2 * k * self.s21
            - 2 * j * t(self.s21)
            + k**2 * self.s20
            + j**2 * t(self.s20)
            + 4 * j * k * self.s11
            - 2 * j * k**2 * self.s10
            - 2 * j**2 * k * t(self.s10)
            + j**2 * k**2 * self.n
        )
        scale = variance[..., :, None] * variance[..., None, :] * np.maximum(self.n, 1.0)
        fourth: Array = np.divide(total, scale, out=np.zeros_like(total), where=scale > 0)
        return fourth


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

    Correlations r_jk are taken over the rows that observe both raters; variances over all rows of a
    rater. With ``shrink`` they move to (1-s)·r_jk with s of Ledoit and Wolf (2004), computed on the
    correlation scale: the usual form changes with the units of a rater.

    Parameters
    ----------
    values
        Rows of scores, a column per rater; NaN is not observed. Values must be missing completely
        at random.
    shrink
        False for the empirical covariance.
    names
        What to call the columns in messages.

    References
    ----------
    Ledoit and Wolf (2004), J. Multivariate Analysis 88, 365-411.

    Examples
    --------
    >>> rows = [[1, 1, 0], [0, 0, 0], [1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 1, 0]]
    >>> mean, cov, n = pilot_covariance(rows, shrink=False)
    >>> mean.round(2).tolist(), cov[0].round(2).tolist(), n
    ([0.5, 0.5, 0.5], [0.3, 0.1, 0.1], 6)
    """
    rows = pilot_rows(values, names)
    called = list(names) if names is not None else [f"column {j}" for j in range(rows.shape[1])]
    moments = pilot_moments(rows)
    apart = np.argwhere(np.triu(moments.n < 2, 1))
    if len(apart):
        pairs = ", ".join(f"{called[a]} and {called[b]}" for a, b in apart[:5])
        raise EvidenceError(
            fault(
                "pilot", "must have at least two rows for every pair of raters", f"none for {pairs}"
            )
        )
    found = moments.covariance(shrink=shrink)
    return found.mean, found.cov, int(moments.n.min())


def pilot_rows(values: ArrayLike, names: Sequence[str] | None = None) -> Array:
    """The pilot as an array, or all its faults at once."""
    try:
        rows = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise EvidenceError(
            fault("pilot", "must be rows of numbers, NaN where not observed", type(values).__name__)
        ) from None
    if rows.ndim != 2 or not rows.size:
        raise EvidenceError(
            fault("pilot", "must be a table of rows and columns", f"shape {rows.shape}")
        )
    called = list(names) if names is not None else [f"column {j}" for j in range(rows.shape[1])]
    if len(called) != rows.shape[1]:
        raise EvidenceError(
            fault("names", f"must be {rows.shape[1]}, one for each column", len(called))
        )
    faults = []
    if np.isinf(rows).any():
        faults.append(
            fault(
                "pilot",
                "must be finite",
                "an infinite value",
                where=np.flatnonzero(np.isinf(rows).any(axis=1)).tolist(),
            )
        )
    if len(rows) < 2:
        faults.append(fault("pilot", "must have at least two rows", len(rows)))
    seen = ~np.isnan(rows)
    for j, name in enumerate(called):
        column = rows[seen[:, j], j]
        if not len(column):
            faults.append(
                fault(
                    f"pilot.{name}",
                    "must have values",
                    "NaN everywhere",
                    remedy="Leave this rater out.",
                )
            )
        elif len(column) > 1 and column.min() == column.max():
            remedy = "A rater that always says the same tells nothing: leave it out."
            faults.append(
                fault(
                    f"pilot.{name}",
                    "must vary",
                    f"{column[0]:g} in all {len(column)} rows",
                    remedy=remedy,
                )
            )
    if faults:
        raise EvidenceError(*faults)
    return rows


def pilot_moments(rows: Array) -> Moments:
    """Sums of a table of rows with NaN where nothing was observed, one pattern of missing values
    after the other.
    """
    seen = ~np.isnan(rows)
    with np.errstate(invalid="ignore"):
        origin = np.nansum(rows, axis=0) / np.maximum(seen.sum(axis=0), 1)
    patterns, which = np.unique(seen, axis=0, return_inverse=True)
    total: Moments | None = None
    for number, pattern in enumerate(patterns):
        columns = np.flatnonzero(pattern)
        if not len(columns):
            continue
        chosen = rows[which.ravel() == number][:, columns]
        part = Moments.of(chosen[None], np.ones((1, len(chosen))), columns.tolist(), origin)
        part = part._with(*(a[0] for a in part._sums()))
        total = part if total is None else total + part
    if total is None:
        raise EvidenceError(fault("pilot", "must have values", "NaN everywhere"))
    return total
