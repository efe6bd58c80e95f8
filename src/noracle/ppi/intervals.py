"""Point estimates and variances of weighted sample means, for one data set or for many simulated worlds at once.

A sample is rows of some columns with a count each, so that binary worlds are a few cells and a data set is its different rows. Arrays may
have leading axes (worlds). Samples that estimate the covariance are *pilots*: they are split into folds, or left out row by row; the other
samples only give means.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from noracle.ppi.covariance import Array, Mask, Moments
from noracle.ppi.weights import blue_weights, drop_useless


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Rows that observe the same columns.

    ``values`` (…, rows, columns) may be shared by all worlds; ``counts`` (…, rows) says how often each row occurs; ``folds``
    (…, folds, rows) splits the counts. ``pilot`` says that the rows estimate the covariance.
    """

    columns: tuple[int, ...]
    values: Array
    counts: Array
    pilot: bool = True
    folds: Array | None = None

    @property
    def n(self) -> Array:
        """Number of rows."""
        return np.asarray(self.counts.sum(axis=-1))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wanted: ``target`` combines the k means, ``design`` (d, k) says which mean a column has.

    ``raters`` are the columns that may be dropped where they help too little (none: nothing is dropped). ``cov`` is a known
    covariance: then there is nothing to estimate or to leave out.
    """

    target: Array
    design: Array
    shrink: bool = True
    raters: tuple[int, ...] = ()
    cov: Array | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The estimate, its variance, the weights by sample, which columns were dropped, and how far correlations were shrunk."""

    value: Array
    variance: Array
    weights: tuple[Array, ...]
    dropped: Mask
    intensity: Array


def plug_in(samples: Sequence[Sample], problem: Problem) -> Fit:
    """Weights and means from the same rows; the variance is Σ s²(λ_I·X_I)/n_I (the paper's section C.2).

    Too small where the weights were estimated from few rows: the residuals are in-sample.
    """
    moments = None if problem.cov is not None else _total(samples, problem)
    cov, dropped, intensity = _covariance(moments, problem, samples, samples[0].counts.shape[:-1])
    weights = blue_weights(cov, [s.columns for s in samples], [s.n for s in samples], problem.target, design=problem.design)
    value, variance = np.zeros(()), np.zeros(())
    for sample, weight in zip(samples, weights.samples, strict=True):
        mean, spread = _moments(_combined(sample.values, weight), sample.counts)
        value, variance = value + mean, variance + spread / np.maximum(sample.n, 1)
    return Fit(value=value, variance=variance, weights=weights.samples, dropped=dropped, intensity=intensity)


def cross_fit(samples: Sequence[Sample], problem: Problem) -> Fit:
    """Each fold is weighted by what the other folds say; the residuals are out-of-sample.

    θ̂ = (1/F)·Σ_f [Σ_pilots λ_I^(-f)·mean of fold f + Σ_others λ_I^(-f)·mean]: given the numbers of rows it is exactly unbiased, since
    λ^(-f) has not seen fold f and sums to the target for every f.
    """
    total = _total(samples, problem)
    folds = [s.folds for s in samples if s.pilot and s.folds is not None]
    apart = _sum([Moments.of(_unfolded(s), s.folds, s.columns, total.origin) for s in samples if s.pilot and s.folds is not None])
    n_folds = folds[0].shape[-2]
    cov, dropped, intensity = _covariance(total.spread() - apart, problem, samples, (*total.n.shape[:-2], n_folds))
    sizes = [s.n[..., None] for s in samples]
    weights = blue_weights(cov, [s.columns for s in samples], sizes, problem.target, design=problem.design)
    centre = total.covariance(shrink=False).mean
    value, variance = np.zeros(()), np.zeros(())
    for sample, weight in zip(samples, weights.samples, strict=True):
        n = np.maximum(sample.n, 1)
        if sample.pilot and sample.folds is not None:
            scores = _combined(_unfolded(sample), weight)
            sizes_f = np.maximum(sample.folds.sum(axis=-1), 1)
            value = value + ((scores * sample.folds).sum(axis=-1) / sizes_f).mean(axis=-1)
            away = scores - (weight * centre[..., None, list(sample.columns)]).sum(axis=-1)[..., None]
            mean = (away * sample.folds).sum(axis=(-1, -2)) / n
            spread = ((away - mean[..., None, None]) ** 2 * sample.folds).sum(axis=(-1, -2)) / np.maximum(n - 1, 1)
        else:
            mean, spread = _moments(_combined(sample.values, weight.mean(axis=-2)), sample.counts)
            value = value + mean
        variance = variance + spread / n
    mean_weights = tuple(w.mean(axis=-2) for w in weights.samples)
    everywhere = np.asarray(dropped.all(axis=-2))
    return Fit(value=value, variance=variance, weights=mean_weights, dropped=everywhere, intensity=intensity.mean(axis=-1))


def jackknife(samples: Sequence[Sample], problem: Problem, *, chunk: int = 2048) -> Fit:
    """Leave out each pilot row in turn: θ̂ corrected for bias, and the variance Σ_I (n_I-1)/n_I·Σ_i (θ̂_(-i) - their mean)²."""
    total = _total(samples, problem)
    whole = plug_in(samples, problem)
    # What is dropped is decided once: a choice that flips with one row would make the jackknife jump.
    fixed = dataclasses.replace(problem, raters=())
    apart = whole.dropped[..., None, :, None] | whole.dropped[..., None, None, :]
    apart = apart & ~np.eye(problem.design.shape[0], dtype=bool)
    value, variance = whole.value, np.zeros(())
    sample_means = [_means(s) for s in samples]
    for place, sample in enumerate(samples):
        n = np.maximum(sample.n, 1)
        if not sample.pilot:
            variance = variance + _moments(_combined(sample.values, whole.weights[place]), sample.counts)[1] / n
            continue
        rows = sample.values.shape[-2]
        parts = []
        for start in range(0, rows, chunk):
            values = sample.values[..., start : start + chunk, :]
            counts = sample.counts[..., start : start + chunk]
            single = Moments.of(values[..., None, :], np.ones((*values.shape[:-1], 1)), sample.columns, total.origin)
            fewer = [s.n[..., None] - (s is sample) for s in samples]
            left = total.spread() - single
            # A cell without rows has nothing to leave out; it is given the whole instead and counts for nothing.
            cov, _, _ = _covariance(_where(counts > 0, left, total.spread()), fixed, samples, (*sample.n.shape, values.shape[-2]))
            weights = blue_weights(np.where(apart, 0.0, cov), [s.columns for s in samples], fewer, problem.target, design=problem.design)
            estimate = np.zeros(())
            for other, mean, weight in zip(samples, sample_means, weights.samples, strict=True):
                away = mean[..., None, :]
                if other is sample:
                    away = (away * n[..., None, None] - values) / np.maximum(n - 1, 1)[..., None, None]
                estimate = estimate + (weight * away).sum(axis=-1)
            parts.append(estimate)
        left_out = np.concatenate(parts, axis=-1)
        centre = (left_out * sample.counts).sum(axis=-1) / n
        value = value + (n - 1) * (whole.value - centre)
        variance = variance + (n - 1) / n * ((left_out - centre[..., None]) ** 2 * sample.counts).sum(axis=-1)
    return Fit(value=value, variance=variance, weights=whole.weights, dropped=whole.dropped, intensity=whole.intensity)


def classical(samples: Sequence[Sample], problem: Problem) -> tuple[Array, Array, Array]:
    """Value, variance and rows of Σ a_j·(mean of column j over all rows that observe it), without any rater.

    Where several columns share a mean, the first of them (the gold rater) speaks for it. A row's influence is Σ_j a_j·(x_j - mean_j)/n_j
    over the wanted columns that it observes; the variance is their sum of squares.
    """
    wanted = np.zeros(problem.design.shape[0])
    for mean in np.flatnonzero(problem.target):
        wanted[int(np.flatnonzero(problem.design[:, mean])[0])] += problem.target[mean]
    columns = np.flatnonzero(wanted)
    numbers, sums = [], []
    for j in columns:
        held = [(s, s.columns.index(j)) for s in samples if j in s.columns]
        numbers.append(_added([s.n for s, _ in held]))
        sums.append(_added([(s.values[..., i] * s.counts).sum(axis=-1) for s, i in held]))
    means = [total / np.maximum(n, 1) for total, n in zip(sums, numbers, strict=True)]
    value = _added([wanted[j] * m for j, m in zip(columns, means, strict=True)])
    variance = np.zeros(())
    fewest = np.minimum.reduce(numbers)
    for sample in samples:
        influence = np.zeros(())
        for j, m, n in zip(columns, means, numbers, strict=True):
            if j in sample.columns:
                column = sample.values[..., sample.columns.index(j)]
                influence = influence + wanted[j] * (column - m[..., None]) / np.maximum(n, 1)[..., None]
        variance = variance + (influence**2 * sample.counts).sum(axis=-1)
    return value, variance * fewest / np.maximum(fewest - 1, 1), fewest


def _covariance(moments: Moments | None, problem: Problem, samples: Sequence[Sample], lead: tuple[int, ...]) -> tuple[Array, Mask, Array]:
    """The covariance with useless raters made uncorrelated, which these are, and how far correlations were shrunk."""
    d = problem.design.shape[0]
    if problem.cov is not None or moments is None:
        return np.broadcast_to(np.asarray(problem.cov), (*lead, d, d)), np.zeros((*lead, d), dtype=bool), np.zeros(lead)
    found = moments.covariance(shrink=problem.shrink)
    if not problem.raters:
        return found.cov, np.zeros((*found.cov.shape[:-2], d), dtype=bool), found.intensity
    sizes = [s.n.reshape((*s.n.shape, *(1,) * (len(lead) - s.n.ndim))) for s in samples]
    held = np.diagonal(moments.n, axis1=-2, axis2=-1)[..., np.flatnonzero(problem.design @ problem.target)].min(axis=-1)
    cov, dropped = drop_useless(
        found.cov, [s.columns for s in samples], sizes, problem.target, problem.raters, held, design=problem.design
    )  # fmt: skip
    return cov, dropped, found.intensity


def _total(samples: Sequence[Sample], problem: Problem) -> Moments:
    pilots = [s for s in samples if s.pilot]
    origin = np.zeros(problem.design.shape[0])
    for sample in reversed(pilots):
        rows = sample.values.reshape(-1, len(sample.columns))
        origin[list(sample.columns)] = rows[: 1 << 12].mean(axis=0)
    return _sum([Moments.of(s.values, s.counts, s.columns, origin) for s in pilots])


def _sum(parts: Sequence[Moments]) -> Moments:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _where(condition: Mask, yes: Moments, no: Moments) -> Moments:
    mask = condition[..., None, None]
    return yes._with(*(np.where(mask, a, b) for a, b in zip(yes._sums(), no._sums(), strict=True)))


def _unfolded(sample: Sample) -> Array:
    """The values with an axis for folds, unless all worlds share them."""
    return sample.values if sample.values.ndim == 2 else sample.values[..., None, :, :]


def _combined(values: Array, weight: Array) -> Array:
    """λ·x of every row: (…, rows)."""
    if values.ndim == 2:
        return weight @ values.T
    product: Array = (values @ weight[..., None])[..., 0]
    return product


def _means(sample: Sample) -> Array:
    n = np.maximum(sample.n, 1)
    sums = sample.counts @ sample.values if sample.values.ndim == 2 else (sample.counts[..., None] * sample.values).sum(axis=-2)
    return np.asarray(sums / n[..., None])


def _moments(scores: Array, counts: Array) -> tuple[Array, Array]:
    """Mean and variance (n-1) of scores that occur ``counts`` times; 0 where there are none."""
    n = counts.sum(axis=-1)
    mean = (scores * counts).sum(axis=-1) / np.maximum(n, 1)
    variance = ((scores - mean[..., None]) ** 2 * counts).sum(axis=-1) / np.maximum(n - 1, 1)
    return mean, variance


def _added(parts: Sequence[Array]) -> Array:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
