"""The best linear unbiased weights of samples that observe different columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from noracle.errors import ArgumentError, fault
from noracle.ppi.covariance import Array, Mask, block


class Weights(NamedTuple):
    """One weight vector per sample (…, columns of the sample), the prior's share (…, k), the
    variance and the information M.
    """

    samples: tuple[Array, ...]
    prior: Array
    variance: Array
    information: Array


def blue_weights(
    cov: Array,
    samples: Sequence[Sequence[int]],
    n: Sequence[Array | float],
    target: Array,
    *,
    design: Array | None = None,
    prior: Array | None = None,
) -> Weights:
    """Weights λ of the sample means with the least variance whose weighted sum has mean aᵀμ,
    whatever μ is.

    M = M0 + Σ n_I·H_Iᵀ·Σ_I⁻¹·H_I, λ_I = n_I·Σ_I⁻¹·H_I·M⁻¹·a, the prior's share is M0·M⁻¹·a, the
    variance aᵀM⁻¹a; then Σ H_Iᵀλ_I + the prior's share = a. Leading axes are worlds or folds.

    Parameters
    ----------
    cov
        Covariance of the columns (…, d, d); only blocks of columns that one sample observes are
        used.
    samples, n
        The columns that each sample observes and its number of rows (a number or an array over
        worlds); 0 is allowed.
    target
        a, the wanted combination of the k means.
    design
        H (d, k): the mean of column c is Σ_j H[c, j]·μ_j. Default: a column per mean.
    prior
        M0 (…, k, k), information already in hand.

    Raises
    ------
    ArgumentError
        If a is not in the range of M: no weights are unbiased. (The printed formula then silently
        returns weights that do not sum to a.)

    References
    ----------
    Cowen-Breen et al., "Multiple-prediction-powered inference", section C.2; Schaden and Ullmann
    (2020), SIAM/ASA J. UQ 8, 601-635 (multilevel best linear unbiased estimators).

    Examples
    --------
    >>> import numpy as np
    >>> cov = np.array([[1.0, 0.8], [0.8, 1.0]])
    >>> found = blue_weights(cov, [(0, 1), (1,)], [100, 900], np.array([1.0, 0.0]))
    >>> found.samples[0].round(2).tolist(), found.samples[1].round(2).tolist(), round(float(found.variance), 5)
    ([1.0, -0.72], [0.72], 0.00424)
    """
    d = cov.shape[-1]
    h = np.eye(d) if design is None else design
    k = h.shape[1]
    inverses = []
    information = (
        np.zeros((*cov.shape[:-2], k, k))
        if prior is None
        else np.broadcast_to(prior, (*cov.shape[:-2], k, k)).copy()
    )
    for columns, size in zip(samples, n, strict=True):
        try:
            inverse = np.asarray(np.linalg.inv(block(cov, columns)), dtype=np.float64)
        except np.linalg.LinAlgError:
            raise ArgumentError(
                fault(
                    "cov",
                    "must be positive definite",
                    f"a singular block of columns {list(columns)}",
                    remedy="Leave a rater out.",
                )
            ) from None
        part = h[list(columns)].T @ inverse @ h[list(columns)]
        information = information + np.asarray(size, dtype=np.float64)[..., None, None] * part
        inverses.append(inverse)
    y = _solve(information, target)
    weights = []
    for columns, size, inverse in zip(samples, n, inverses, strict=True):
        seen: Array = _times(inverse, y @ h[list(columns)].T)
        weights.append(np.asarray(size, dtype=np.float64)[..., None] * seen)
    share = np.zeros_like(y) if prior is None else _times(np.asarray(prior), y)
    return Weights(
        samples=tuple(weights), prior=share, variance=y @ target, information=information
    )


def _times(matrix: Array, vector: Array) -> Array:
    product: Array = (matrix @ vector[..., None])[..., 0]
    return product


def _solve(information: Array, target: Array) -> Array:
    """Solve M·y = a on the scale where M has a diagonal of ones; coordinates that nothing observes
    must not be wanted.
    """
    diagonal = np.diagonal(information, axis1=-2, axis2=-1)
    blind = diagonal <= 0
    scale = 1 / np.sqrt(np.where(blind, 1.0, diagonal))
    scaled = information * scale[..., :, None] * scale[..., None, :]
    wanted = target * scale
    eye = np.eye(information.shape[-1])
    try:
        y = np.linalg.solve(
            np.where(blind[..., None], eye, scaled), np.where(blind, 0.0, wanted)[..., None]
        )[..., 0]
    except np.linalg.LinAlgError:
        y = _times(
            np.asarray(np.linalg.pinv(scaled, rcond=1e-10, hermitian=True), dtype=np.float64),
            wanted,
        )
    off = np.abs(_times(scaled, y) - wanted).max(axis=-1)
    if not np.all(off <= 1e-7 * np.abs(wanted).max(axis=-1)):
        raise ArgumentError(
            "target must be covered by the measurements; some of its means is observed by none of them, so that no weights are unbiased. "
            "Add rows that observe it."
        )
    return np.asarray(y * scale)


def drop_useless(
    cov: Array,
    samples: Sequence[Sequence[int]],
    n: Sequence[Array | float],
    target: Array,
    raters: Sequence[int],
    labelled: Array | float,
    *,
    design: Array | None = None,
) -> tuple[Array, Mask]:
    """Make raters that save next to no variance uncorrelated with everything, so that they get no
    weight.

    A rater stays if leaving it out would raise the variance aᵀM⁻¹a by a share V/V₋ⱼ = 1 - g with g
    of at least 1/(N-p-1), p the raters that stay: below that, the noise of its estimated weight
    costs more than the rater saves. Where the raters' means are known exactly, g is the partial R²
    of the rater given the others, and this is the usual rule for control variates; where they are
    not, a rater that is redundant but often observed stays. The worst goes first, one at a time.

    Parameters
    ----------
    cov
        Covariance of the columns (…, d, d).
    samples, n, target, design
        As in :func:`blue_weights`.
    raters
        Columns that may go.
    labelled
        Labelled rows N, a number or an array over worlds.

    Returns
    -------
    cov, dropped
        The changed covariance and a mask (…, d).
    """
    d, p = cov.shape[-1], len(raters)
    lead = cov.shape[:-2]
    flat = np.array(cov).reshape(-1, d, d)
    dropped = np.zeros((len(flat), d), dtype=bool)
    size = np.broadcast_to(np.asarray(labelled, dtype=np.float64), lead).ravel()
    numbers = [np.broadcast_to(np.asarray(m, dtype=np.float64), lead).ravel() for m in n]
    mask = np.eye(d, dtype=bool)[list(raters)]
    without = (mask[:, :, None] | mask[:, None, :]) & ~np.eye(d, dtype=bool)
    still = np.arange(len(flat))
    for _ in range(p):
        sizes = [m[still] for m in numbers]
        now = blue_weights(flat[still], samples, sizes, target, design=design).variance
        fewer = np.where(without, 0.0, flat[still][:, None])
        then = blue_weights(
            fewer, samples, [m[:, None] for m in sizes], target, design=design
        ).variance
        active = ~dropped[still][:, list(raters)]
        gain = np.where(active, 1 - now[:, None] / then, np.inf)
        worst = gain.argmin(axis=-1)
        room = size[still] - active.sum(axis=-1) - 1
        goes = gain[np.arange(len(gain)), worst] * room < 1
        still, worst = still[goes], worst[goes]
        if not len(still):
            break
        flat[still] = np.where(without[worst], 0.0, flat[still])
        dropped[still, np.array(raters)[worst]] = True
    return flat.reshape(cov.shape), dropped.reshape(*lead, d)
