"""Point estimates and variances of weighted sample means, for one data set or for many simulated
worlds at once.

A sample is rows of some columns with a count each, so that binary worlds are a few cells and a data
set is its different rows. Arrays may have leading axes (worlds). Samples that estimate the
covariance are *pilots*: they are split into folds, or left out row by row; the other samples only
give means.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from noracle.errors import ArgumentError, require
from noracle.ppi.covariance import Array, Mask, Moments, block

if TYPE_CHECKING:
    from numpy.typing import NDArray


_CHUNK = 2048


class Weights(NamedTuple):
    """One weight vector per sample (…, columns of the sample), and the variance."""

    samples: tuple[Array, ...]
    variance: Array


def blue_weights(
    cov: Array,
    samples: Sequence[Sequence[int]],
    n: Sequence[Array | float],
    target: Array,
    *,
    design: Array | None = None,
) -> Weights:
    """Weights λ of sample means with mean aᵀμ, whatever μ is, and the least variance.

    M = Σ n_I·H_Iᵀ·Σ_I⁻¹·H_I, λ_I = n_I·Σ_I⁻¹·H_I·M⁻¹·a, the variance is aᵀM⁻¹a; then Σ H_Iᵀλ_I = a.
    Leading axes are worlds or folds. Of the covariance ``cov`` (…, d, d) only blocks of columns that
    one sample observes are used. ``samples`` and ``n`` are the columns of each sample and its number
    of rows, which may be 0; ``target`` is a; ``design`` H (d, k) says that the mean of column c is
    Σ_j H[c, j]·μ_j (default: a column per mean). If a is not in the range of M, no weights are
    unbiased, which is an error. (The printed formula then silently returns weights that do not sum
    to a.)

    References
    ----------
    Cowen-Breen et al., "Multiple-prediction-powered inference", section C.2; Schaden and Ullmann
    (2020), SIAM/ASA J. UQ 8, 601-635 (multilevel best linear unbiased estimators).
    """
    H = np.eye(cov.shape[-1]) if design is None else design
    seen = [H[list(columns)] for columns in samples]
    sizes = [np.asarray(size, dtype=np.float64) for size in n]
    inverses = []
    M = np.zeros((*cov.shape[:-2], H.shape[1], H.shape[1]))
    for columns, size, h in zip(samples, sizes, seen, strict=True):
        try:
            inverse = np.asarray(np.linalg.inv(block(cov, columns)), dtype=np.float64)
        except np.linalg.LinAlgError:
            came = f"a singular block of columns {list(columns)}. Leave a rater out"
            raise ArgumentError(f"cov must be positive definite; got {came}.") from None
        M = M + size[..., None, None] * (h.T @ inverse @ h)
        inverses.append(inverse)
    y = _solve(M, target)
    parts = zip(sizes, inverses, seen, strict=True)
    weights = tuple(size[..., None] * _times(inverse, y @ h.T) for size, inverse, h in parts)
    return Weights(weights, y @ target)


def _times(matrix: Array, vector: Array) -> Array:
    product: Array = (matrix @ vector[..., None])[..., 0]
    return product


def _solve(information: Array, target: Array) -> Array:
    """Solve M·y = a on a unit diagonal; coordinates that nothing observes must not be wanted."""
    diagonal = np.diagonal(information, axis1=-2, axis2=-1)
    blind = diagonal <= 0
    scale = 1 / np.sqrt(np.where(blind, 1.0, diagonal))
    scaled = information * scale[..., :, None] * scale[..., None, :]
    wanted = target * scale
    whole = np.where(blind[..., None], np.eye(information.shape[-1]), scaled)
    try:
        y = np.linalg.solve(whole, np.where(blind, 0.0, wanted)[..., None])[..., 0]
    except np.linalg.LinAlgError:
        inverse = np.linalg.pinv(scaled, rcond=1e-10, hermitian=True)
        y = _times(np.asarray(inverse, dtype=np.float64), wanted)
    off = np.abs(_times(scaled, y) - wanted).max(axis=-1)
    blind_to = "some of its means is observed by none of them, so that no weights are unbiased"
    rule = f"target must be covered by the measurements; {blind_to}. Add rows that observe it."
    require(np.all(off <= 1e-7 * np.abs(wanted).max(axis=-1)), rule)
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
    weight: the changed covariance, and a mask (…, d) of what was dropped.

    A rater stays if leaving it out would raise the variance by a share V/V₋ⱼ = 1 - g with g of at
    least 1/(N-p-1), N the ``labelled`` rows and p the raters that stay: below that, the noise of
    its weight costs more than it saves. Where the raters' means are known exactly, g is the partial
    R² of the rater given the others. The worst goes first, one at a time.
    """
    d, lead = cov.shape[-1], cov.shape[:-2]
    flat = np.array(cov).reshape(-1, d, d)
    dropped = np.zeros((len(flat), d), dtype=bool)
    given = [np.asarray(m, dtype=np.float64) for m in (labelled, *n)]
    size, *numbers = (np.broadcast_to(m, lead).ravel() for m in given)
    mask = np.eye(d, dtype=bool)[list(raters)]
    without = (mask[:, :, None] | mask[:, None, :]) & ~np.eye(d, dtype=bool)
    still = np.arange(len(flat))
    for _ in raters:
        sizes = [m[still] for m in numbers]
        now = blue_weights(flat[still], samples, sizes, target, design=design).variance
        fewer = np.where(without, 0.0, flat[still][:, None])
        apart = [m[:, None] for m in sizes]
        then = blue_weights(fewer, samples, apart, target, design=design).variance
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSample:
    """Rows that observe the same columns: ``values`` (…, rows, columns) may be shared by all
    worlds; ``counts`` (…, rows) says how often each row occurs, ``folds`` (…, folds, rows) splits
    the counts; ``pilot`` rows estimate the covariance.
    """

    columns: tuple[int, ...]
    values: Array
    counts: Array
    pilot: bool = True
    folds: Array | None = None
    clusters: NDArray[np.int64] | None = None

    @property
    def n(self) -> Array:
        """Number of rows."""
        return np.asarray(self.counts.sum(axis=-1))


Samples = Sequence[ScoreSample]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MeanProblem:
    """``design`` (d, k): the mean of each column; ``raters`` may be dropped; ``cov`` is known."""

    target: Array
    design: Array
    shrink: bool = True
    raters: tuple[int, ...] = ()
    cov: Array | None = None


class MeanFit(NamedTuple):
    """The estimate, its variance, weights by sample, dropped columns, and the shrinkage."""

    value: Array
    variance: Array
    weights: tuple[Array, ...]
    dropped: Mask
    intensity: Array


def plug_in(samples: Samples, problem: MeanProblem) -> MeanFit:
    """Weights and means from the same rows, variance Σ s²(λ_I·X_I)/n_I; too small for few rows."""
    moments = None if problem.cov is not None else _total(samples, problem)
    lead = samples[0].counts.shape[:-1]
    cov, dropped, intensity = covariance_of(moments, problem, samples, lead)
    weights = _weights(cov, samples, [s.n for s in samples], problem)
    value, variance = np.zeros(()), np.zeros(())
    for sample, weight in zip(samples, weights, strict=True):
        mean, spread = mean_and_variance(combined(sample.values, weight), sample.counts)
        value, variance = value + mean, variance + spread / np.maximum(sample.n, 1)
    return MeanFit(value, variance, weights, dropped, intensity)


def cross_fit(samples: Samples, problem: MeanProblem) -> MeanFit:
    """Each fold is weighted by what the other folds say; the residuals are out-of-sample.

    θ̂ = (1/F)·Σ_f [Σ_pilots λ_I^(-f)·mean of fold f + Σ_others λ_I^(-f)·mean] is exactly unbiased,
    since λ^(-f) has not seen fold f and sums to the target for every f.
    """
    weights, centre, dropped, intensity = _fold_weights(samples, problem)
    value, variance = np.zeros(()), np.zeros(())
    for sample, weight in zip(samples, weights, strict=True):
        n, folds = np.maximum(sample.n, 1), sample.folds
        if sample.pilot and folds is not None:
            scores = combined(_unfolded(sample), weight)
            of_fold = (scores * folds).sum(axis=-1) / np.maximum(folds.sum(axis=-1), 1)
            value = value + of_fold.mean(axis=-1)
            at = (weight * centre[..., None, list(sample.columns)]).sum(axis=-1)
            away = scores - at[..., None]
            mean = (away * folds).sum(axis=(-1, -2)) / n
            squares = ((away - mean[..., None, None]) ** 2 * folds).sum(axis=(-1, -2))
            spread = squares / np.maximum(n - 1, 1)
        else:
            scores = combined(sample.values, weight.mean(axis=-2))
            mean, spread = mean_and_variance(scores, sample.counts)
            value = value + mean
        variance = variance + spread / n
    averages = tuple(w.mean(axis=-2) for w in weights)
    everywhere = np.asarray(dropped.all(axis=-2))
    return MeanFit(value, variance, averages, everywhere, intensity.mean(axis=-1))


def _fold_weights(
    samples: Samples, problem: MeanProblem
) -> tuple[tuple[Array, ...], Array, Mask, Array]:
    """Weights by sample and fold, the means of all pilots, what was dropped, the shrinkage."""
    total = _total(samples, problem)
    folded = [(s, s.folds) for s in samples if s.pilot and s.folds is not None]
    apart = [Moments.of(_unfolded(s), f, s.columns, total.origin) for s, f in folded]
    left = total.spread() - reduce(add, apart)
    lead = (*total.n.shape[:-2], folded[0][1].shape[-2])
    cov, dropped, intensity = covariance_of(left, problem, samples, lead)
    weights = _weights(cov, samples, [s.n[..., None] for s in samples], problem)
    return weights, total.covariance(shrink=False).mean, dropped, intensity


def cross_fit_clusters(samples: Samples, problem: MeanProblem) -> tuple[MeanFit, Array]:
    """:func:`cross_fit` with folds of whole clusters; returns what each cluster adds, too.

    With q_f the part of the labelled rows in fold f, θ̂ = Σ_f q_f·[Σ_pilots λ_I^(-f)·mean of fold f
    + Σ_others λ_I^(-f)·mean]. A row adds q_f·λ_I^(-f)·(x - mean)/n_If, and the variance is the sum
    of the squares of what clusters add, each sample's part over √(1 - m/n) for the m of its n rows
    in the cluster: the CR2 variance where there is one sample.
    """
    weights, centre, dropped, intensity = _fold_weights(samples, problem)
    pilots = [s.folds for s in samples if s.pilot and s.folds is not None]
    sizes = np.sum([f.sum(axis=-1) for f in pilots], axis=0)
    q = sizes / sizes.sum()
    value, rows = 0.0, []
    for sample, weight in zip(samples, weights, strict=True):
        if sample.pilot and sample.folds is not None:
            scores = combined(sample.values, weight)
            each = q[:, None] * sample.folds / sample.folds.sum(axis=-1, keepdims=True)
            value += float((each * scores).sum())
            away = scores - (weight * centre[list(sample.columns)]).sum(axis=-1)[:, None]
            added = (each * away).sum(axis=0)
            rows.append(added - each.sum(axis=0) * added.sum())
        else:
            scores = combined(sample.values, q @ weight)
            value += float(scores.mean())
            rows.append((scores - scores.mean()) / len(scores))
    added = clusters_added(samples, rows)
    variance, averages = np.asarray(float((added**2).sum())), tuple(q @ w for w in weights)
    everywhere, shrunk = np.asarray(dropped.all(axis=-2)), np.asarray(q @ intensity)
    return MeanFit(np.asarray(value), variance, averages, everywhere, shrunk), added


def clusters_added(samples: Samples, rows: Sequence[Array]) -> Array:
    """Sums of influences over clusters, over √(1 - m/n) with m of a sample's n rows there."""
    size = _n_clusters(samples)
    total = np.zeros(size)
    for sample, row in zip(samples, rows, strict=True):
        if sample.clusters is not None:
            rest = 1 - np.bincount(sample.clusters, minlength=size) / len(sample.clusters)
            spread = np.broadcast_to(row, sample.clusters.shape)
            over = np.sqrt(np.where(rest > 0, rest, 1.0))
            total += np.bincount(sample.clusters, spread, size) / over
    return total


def _n_clusters(samples: Samples) -> int:
    return 1 + max(int(s.clusters.max()) for s in samples if s.clusters is not None)


def cluster_freedom(samples: Samples) -> tuple[int, float]:
    """Clusters with labels, and Satterthwaite's (Σ v)²/Σ v², v = m/n² added over samples."""
    v = np.zeros(_n_clusters(samples))
    for sample in samples:
        if sample.clusters is not None:
            v += np.bincount(sample.clusters, minlength=len(v)) / len(sample.clusters) ** 2
    return int(np.count_nonzero(v)), float(v.sum() ** 2 / (v**2).sum())


def jackknife(samples: Samples, problem: MeanProblem) -> MeanFit:
    """Leave out each pilot row: the variance is Σ_I (n_I-1)/n_I·Σ_i (θ̂_(-i) - their mean)²."""
    total = _total(samples, problem)
    whole = plug_in(samples, problem)
    # What is dropped is decided once: a choice that flips with one row would make the jackknife
    # jump.
    fixed = dataclasses.replace(problem, raters=())
    apart = whole.dropped[..., None, :, None] | whole.dropped[..., None, None, :]
    apart = apart & ~np.eye(problem.design.shape[0], dtype=bool)
    value, variance = whole.value, np.zeros(())
    sample_means = [_means(s) for s in samples]
    for place, sample in enumerate(samples):
        n = np.maximum(sample.n, 1)
        if not sample.pilot:
            scores = combined(sample.values, whole.weights[place])
            variance = variance + mean_and_variance(scores, sample.counts)[1] / n
            continue
        parts = []
        for start in range(0, sample.values.shape[-2], _CHUNK):
            values = sample.values[..., start : start + _CHUNK, :]
            ones = np.ones((*values.shape[:-1], 1))
            single = Moments.of(values[..., None, :], ones, sample.columns, total.origin)
            # A cell without rows has nothing to leave out; it is given the whole instead and counts
            # for nothing.
            held = sample.counts[..., start : start + _CHUNK, None, None] > 0
            left = (total.spread() - single).where(held, total.spread())
            lead = (*sample.n.shape, values.shape[-2])
            cov = np.where(apart, 0.0, covariance_of(left, fixed, samples, lead)[0])
            fewer = [s.n[..., None] - (s is sample) for s in samples]
            weights = _weights(cov, samples, fewer, problem)
            estimate = np.zeros(())
            for other, mean, weight in zip(samples, sample_means, weights, strict=True):
                away = mean[..., None, :]
                if other is sample:
                    rest = np.maximum(n - 1, 1)[..., None, None]
                    away = (away * n[..., None, None] - values) / rest
                estimate = estimate + (weight * away).sum(axis=-1)
            parts.append(estimate)
        left_out = np.concatenate(parts, axis=-1)
        centre = (left_out * sample.counts).sum(axis=-1) / n
        value = value + (n - 1) * (whole.value - centre)
        squares = ((left_out - centre[..., None]) ** 2 * sample.counts).sum(axis=-1)
        variance = variance + (n - 1) / n * squares
    return whole._replace(value=value, variance=variance)


def classical(samples: Samples, problem: MeanProblem) -> tuple[Array, Array, Array]:
    """Value, variance (squared influences) and rows of Σ a_j·(mean of column j over all rows that
    observe it); of several columns with one mean the first speaks for it.
    """
    value, fewest, rows = classical_influences(samples, problem)
    squares = [(u**2 * s.counts).sum(axis=-1) for s, u in zip(samples, rows, strict=True)]
    return value, reduce(add, squares) * fewest / np.maximum(fewest - 1, 1), fewest


def classical_influences(
    samples: Samples, problem: MeanProblem
) -> tuple[Array, Array, tuple[Array, ...]]:
    """Value, rows, and what each row adds: Σ_j a_j·(x_j - mean_j)/n_j over wanted columns."""
    wanted = np.zeros(problem.design.shape[0])
    for mean in np.flatnonzero(problem.target):
        wanted[int(np.flatnonzero(problem.design[:, mean])[0])] += problem.target[mean]
    influences = [np.zeros(()) for _ in samples]
    values, numbers = [], []
    for j in np.flatnonzero(wanted):
        mine = [(i, s) for i, s in enumerate(samples) if j in s.columns]
        seen = {i: s.values[..., s.columns.index(j)] for i, s in mine}
        n = reduce(add, [s.n for _, s in mine])
        m = reduce(add, [(seen[i] * s.counts).sum(axis=-1) for i, s in mine]) / np.maximum(n, 1)
        for i, x in seen.items():
            more = wanted[j] * (x - m[..., None]) / np.maximum(n, 1)[..., None]
            influences[i] = influences[i] + more
        values.append(wanted[j] * m)
        numbers.append(n)
    return reduce(add, values), np.minimum.reduce(numbers), tuple(influences)


SKEWNESS = 0.16
"""Cochran's rule N ≥ 25·γ² says 0.2, as a mean of N rows has skewness γ/√N; less, since few rows
show too little of a tail.
"""
SKEWNESS_OF_MANY = 0.42
"""A skewness that many like rows agree on is known well: right and wrong with ten of either in 100
keeps .93 of .95.
"""
LARGEST, LIKE_ROWS = 0.2, 20
"""Rows are many and alike if none has more than this part of the variance, nor more than this many
times the average row's.
"""


class Tails(NamedTuple):
    """The estimate's ``skewness``, and the ``largest`` share of its variance from one of n rows."""

    skewness: float
    largest: float
    n: float

    @property
    def light(self) -> bool:
        """Whether t can be trusted: skewness up to 0.16, or 0.42 where many rows are alike."""
        many = self.largest <= min(LARGEST, LIKE_ROWS / self.n)
        return self.skewness <= (SKEWNESS_OF_MANY if many else SKEWNESS)


def influences(samples: Samples, weights: Sequence[Array]) -> tuple[Array, ...]:
    """What each row adds to the estimate: λ_I·(x - mean)/n_I, by sample."""
    return tuple(
        combined(s.values - _means(s)[..., None, :], w) / np.maximum(s.n, 1)[..., None]
        for s, w in zip(samples, weights, strict=True)
    )


def tails_of(counts: Sequence[Array], rows: Sequence[Array], n: float) -> Tails:
    """Skewness Σ u³/(Σ u²)^(3/2) of the estimate, and the largest u²/Σ u², for the influences u of
    all rows, which occur ``counts`` times.

    The limits are chosen by simulation with N = 100 to 500: at most 5 % of normal, uniform, t(5)
    and right-or-wrong rows (.1 to .9) are called heavy, and most of lognormal (σ = 1.5 and 2) and
    Pareto (2.1) rows. Symmetric heavy tails pass: with them Student's t holds at least as often as
    it says. What no row shows is not seen. See Cochran (1977), section 2.15 (N > 25·γ²), and Hall
    (1992), section 2.6.
    """
    parts = list(zip(counts, rows, strict=True))
    second = sum(float((u**2 * c).sum()) for c, u in parts)
    third = sum(float((u**3 * c).sum()) for c, u in parts)
    largest = max(float((u**2 * (c > 0)).max()) for c, u in parts)
    if second <= 0:
        return Tails(skewness=0.0, largest=0.0, n=n)
    return Tails(skewness=abs(third) / second**1.5, largest=largest / second, n=n)


def _weights(
    cov: Array, samples: Samples, n: Sequence[Array], problem: MeanProblem
) -> tuple[Array, ...]:
    columns = [s.columns for s in samples]
    return blue_weights(cov, columns, n, problem.target, design=problem.design).samples


def covariance_of(
    moments: Moments | None, problem: MeanProblem, samples: Samples, lead: tuple[int, ...]
) -> tuple[Array, Mask, Array]:
    """The covariance without useless raters, which these are, and the shrinkage."""
    d = problem.design.shape[0]
    if problem.cov is not None or moments is None:
        known = np.broadcast_to(np.asarray(problem.cov), (*lead, d, d))
        return known, np.zeros((*lead, d), dtype=bool), np.zeros(lead)
    found = moments.covariance(shrink=problem.shrink)
    if not problem.raters:
        return found.cov, np.zeros((*found.cov.shape[:-2], d), dtype=bool), found.intensity
    sizes = [s.n.reshape((*s.n.shape, *(1,) * (len(lead) - s.n.ndim))) for s in samples]
    labels = np.flatnonzero(problem.design @ problem.target)
    held = np.diagonal(moments.n, axis1=-2, axis2=-1)[..., labels].min(axis=-1)
    about = [s.columns for s in samples], sizes, problem.target, problem.raters, held
    cov, dropped = drop_useless(found.cov, *about, design=problem.design)
    return cov, dropped, found.intensity


def _total(samples: Samples, problem: MeanProblem) -> Moments:
    pilots = [s for s in samples if s.pilot]
    origin = np.zeros(problem.design.shape[0])
    for sample in reversed(pilots):
        rows = sample.values.reshape(-1, len(sample.columns))
        origin[list(sample.columns)] = rows[: 1 << 12].mean(axis=0)
    return reduce(add, [Moments.of(s.values, s.counts, s.columns, origin) for s in pilots])


def _unfolded(sample: ScoreSample) -> Array:
    """The values with an axis for folds, unless all worlds share them."""
    return sample.values if sample.values.ndim == 2 else sample.values[..., None, :, :]


def combined(values: Array, weight: Array) -> Array:
    """λ·x of every row: (…, rows)."""
    return weight @ values.T if values.ndim == 2 else _times(values, weight)


def _means(sample: ScoreSample) -> Array:
    values, counts = sample.values, sample.counts
    sums = counts @ values if values.ndim == 2 else (counts[..., None] * values).sum(axis=-2)
    return np.asarray(sums / np.maximum(sample.n, 1)[..., None])


def mean_and_variance(scores: Array, counts: Array) -> tuple[Array, Array]:
    """Mean and variance (n-1) of scores that occur ``counts`` times; 0 where there are none."""
    n = counts.sum(axis=-1)
    mean = (scores * counts).sum(axis=-1) / np.maximum(n, 1)
    variance = ((scores - mean[..., None]) ** 2 * counts).sum(axis=-1) / np.maximum(n - 1, 1)
    return mean, variance
