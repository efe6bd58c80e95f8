"""Thousands of worlds at once: labels, covariance, allocation, purchases, estimate and interval.

The covariance comes from ``noracle.ppi.covariance`` and the allocation from ``noracle.ppi.solver``.
Weights and variances are those of ``estimate_mean``, written for many worlds of which each buys
only a few of the sets: everything is a function of means and second moments, so that rows are
counted, not kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from _multippi_worlds import Array, Set, World, all_sets, restricted_sets
from scipy.special import ndtri, stdtrit

from noracle.ppi.covariance import Moments, block
from noracle.ppi.solver import solve_batch

FOLDS = 5
MULTIPPI, RESTRICTED, KNOWN = "MultiPPI", "MultiPPI, restricted", "MultiPPI, covariance known"
CLASSICAL, VECTOR = "classical", "PPI++ vector"
_NUMBERS = 12_000_000  # how many numbers of information matrices, or of counts, are held at once
_MOST = 20_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """The columns of a labelled row that a method looks at, and the sets of raters that it may buy."""

    full: Set
    sets: tuple[Set, ...]
    known: bool = False


def methods_of(world: World, *, restricted: bool = False) -> dict[str, Method]:
    """The baselines of the paper and MultiPPI: the same estimator with more or fewer sets to buy."""
    every = (0, *world.raters)
    dear, cheap = world.cascade
    methods = {CLASSICAL: Method(full=(0,), sets=())}
    methods.update(
        {f"PPI++ {world.names[r]}": Method(full=(0, r), sets=((r,),)) for r in world.raters}
    )
    methods[VECTOR] = Method(full=every, sets=(world.raters,))
    methods[f"cascade {world.names[dear]} ← {world.names[cheap]}"] = Method(
        full=(0, dear), sets=(tuple(sorted((dear, cheap))), (cheap,))
    )
    methods[MULTIPPI] = Method(full=every, sets=world.sets)
    if restricted:
        return {name: methods[name] for name in (CLASSICAL, MULTIPPI)} | {
            RESTRICTED: Method(full=every, sets=restricted_sets(world.k))
        }
    methods[KNOWN] = Method(full=every, sets=world.sets, known=True)
    return methods


class Found(NamedTuple):
    """Estimates and half-widths of one method in every world.

    ``risk`` is the mean squared error given the labelled rows: what is bought is drawn
    independently of them, so that this part of the error is known exactly and need not be measured.
    """

    value: Array
    half: Array
    risk: Array
    truth: float

    @property
    def coverage(self) -> float:
        """Share of intervals that hold the truth."""
        return float(np.mean(np.abs(self.value - self.truth) <= self.half))

    @property
    def width(self) -> float:
        """Mean width."""
        return float(2 * self.half.mean())

    @property
    def mse(self) -> float:
        """Mean squared error."""
        return float(self.risk.mean())

    @property
    def bias(self) -> float:
        """Mean error."""
        return float(self.value.mean() - self.truth)

    def excess(self, other: Found) -> tuple[float, float]:
        """The difference of the mean squared errors to another method in the same worlds, and its
        Monte-Carlo standard error.
        """
        d = self.risk - other.risk
        return float(d.mean()), float(d.std(ddof=1) / np.sqrt(len(d)))


Runs = dict[tuple[str, float], Found]


@dataclasses.dataclass(slots=True)
class Sample:
    """Means and covariances (n - 1) of one set, in the worlds ``who`` that bought it."""

    columns: Set
    who: Array
    n: Array
    mean: Array
    cov: Array


def run_worlds(
    world: World,
    *,
    labelled: int,
    budgets: Sequence[float],
    worlds: int,
    seed: Sequence[int],
    methods: Mapping[str, Method] | None = None,
    shrink: bool = True,
    crossfit: Sequence[str] = (),
) -> Runs:
    """Every method at every budget in the same worlds; the labelled rows are shared, so that
    differences between methods are sharp.

    Methods named in ``crossfit`` are reported a second time with the default interval, under their
    name and ", crossfit-t".
    """
    chosen = methods_of(world) if methods is None else methods
    labels_rng, rng = (
        np.random.default_rng([*seed, 1]),
        np.random.default_rng([*seed, 2]),
    )  # the same labels whatever is bought
    parts: dict[tuple[str, float], list[tuple[Array, ...]]] = {}
    for size in _chunks(world, worlds):
        folds = draw_labelled(world, labelled, size, labels_rng)
        total = _summed(folds)
        cov = total.covariance(shrink=shrink).cov
        for name, method in chosen.items():
            used = np.broadcast_to(world.cov, cov.shape) if method.known else cov
            plans = allocate(world, method, used[:1] if method.known else used, labelled, budgets)
            for budget, counts in zip(budgets, plans, strict=True):
                bought = draw_bought(
                    world, method.sets, np.broadcast_to(counts, (size, counts.shape[1])), rng
                )
                value, variance, risk = plug_in(total, used, method.full, bought, world)
                parts.setdefault((name, budget), []).append(
                    (value, ndtri(0.975) * np.sqrt(variance), risk)
                )
                if name in crossfit:
                    value, variance, risk = cross_fit(
                        folds, method.full, bought, world, shrink=shrink
                    )
                    df = labelled - len(method.full)  # N - p - 1 with p raters beside the label
                    parts.setdefault((f"{name}, crossfit-t", budget), []).append(
                        (value, stdtrit(df, 0.975) * np.sqrt(variance), risk)
                    )
    joined = {
        key: tuple(np.concatenate(part) for part in zip(*found, strict=True))
        for key, found in parts.items()
    }
    return {
        key: Found(value=value, half=half, risk=risk, truth=world.truth)
        for key, (value, half, risk) in joined.items()
    }


def _chunks(world: World, worlds: int) -> Iterator[int]:
    most = max(
        10, min(_MOST, _NUMBERS // (len(world.sets) * world.k**2), _NUMBERS // len(world.cells))
    )
    for start in range(0, worlds, most):
        yield min(most, worlds - start)


# -------------------------------------------------------------------------------------------------------------------------------
# samples


def draw_labelled(world: World, labelled: int, size: int, rng: np.random.Generator) -> Moments:
    """Sums over the rows of each of five folds, in ``size`` worlds: (worlds, folds, k, k)."""
    each = labelled // FOLDS
    if each * FOLDS != labelled:
        raise ValueError(f"labelled must be a multiple of {FOLDS}; got {labelled}.")
    columns = range(world.k)
    if len(world.cells) <= 64:
        counts = rng.multinomial(
            each, world.shares / world.shares.sum(), size=(size, FOLDS)
        ).astype(np.float64)
        return Moments.of(world.cells, counts, columns, world.means)
    # Many different rows: draw them rather than count them, some worlds at a time.
    parts, step = [], max(1, _NUMBERS // (4 * labelled * world.k))
    limits = np.cumsum(world.shares)
    for start in range(0, size, step):
        rows = np.searchsorted(
            limits / limits[-1], rng.random((min(step, size - start), FOLDS, each)), side="right"
        )
        values = world.cells[np.minimum(rows, len(world.cells) - 1)]
        parts.append(Moments.of(values, np.ones(values.shape[:-1]), columns, world.means))
    names = [f.name for f in dataclasses.fields(Moments) if f.name != "origin"]
    return Moments(
        **{n: np.concatenate([getattr(p, n) for p in parts]) for n in names}, origin=parts[0].origin
    )


def _summed(folds: Moments) -> Moments:
    names = [f.name for f in dataclasses.fields(Moments) if f.name != "origin"]
    return Moments(**{n: getattr(folds, n).sum(axis=1) for n in names}, origin=folds.origin)


def draw_bought(
    world: World, sets: Sequence[Set], counts: Array, rng: np.random.Generator
) -> list[Sample]:
    """What is bought, drawn as counts of the different rows of each set."""
    samples = []
    for place in np.flatnonzero(counts.any(axis=0)).tolist():
        who = np.flatnonzero(counts[:, place])
        values, shares = world.marginal(sets[place])
        n = counts[who, place]
        # Sums of x and of x·xᵀ over the rows, by one product of counts and features.
        width = len(sets[place])
        features = np.hstack(
            [values, (values[:, :, None] * values[:, None, :]).reshape(len(values), -1)]
        )
        drawn = rng.multinomial(n, shares) @ features
        mean = drawn[:, :width] / n[:, None]
        square = drawn[:, width:].reshape(-1, width, width)
        cov = (square - n[:, None, None] * mean[:, :, None] * mean[:, None, :]) / np.maximum(
            n - 1, 1
        )[:, None, None]
        samples.append(Sample(columns=sets[place], who=who, n=n, mean=mean, cov=cov))
    return samples


# ----------------------------------------------------------------------------------------------------------------------------
# allocation


def _at(columns: Set) -> Any:
    """The index of the block of these rows and columns."""
    place = np.array(columns)
    return ..., place[:, None], place


def inform(cov: Array, columns: Set, size: int) -> Array:
    """P_Iᵀ Σ_I⁻¹ P_I in every world, (…, size, size)."""
    g = np.zeros((*cov.shape[:-2], size, size))
    g[_at(columns)] = np.linalg.inv(block(cov, columns))
    return g


def allocate(
    world: World, method: Method, cov: Array, labelled: int, budgets: Sequence[float]
) -> list[Array]:
    """Whole numbers of each set for each budget: rounded down (0 or at least 2), what is left goes
    to the set with most of the budget.
    """
    costs = np.array([world.price(s) for s in method.sets])
    if not len(costs):
        return [np.zeros((len(cov), 0), dtype=np.int64) for _ in budgets]
    if len(costs) == 1:
        return [
            np.full((len(cov), 1), int(b / costs[0] * (1 + 1e-9)), dtype=np.int64) for b in budgets
        ]
    k = world.k
    information = np.stack([inform(cov, s, k) for s in method.sets], axis=1)
    used = set(method.full).union(*method.sets)
    prior = labelled * inform(cov, method.full, k) + np.diag(
        [0.0 if c in used else 1.0 for c in range(k)]
    )
    plans = []
    for budget in budgets:
        n = solve_batch(information, costs[:, None], budget, prior, np.eye(k)[0], tolerance=1e-5).n
        whole = np.floor(n * (1 + 1e-6)).astype(np.int64)
        whole[whole < 2] = 0
        most = np.argmax(whole * costs, axis=1)
        rest = np.maximum(budget - whole @ costs, 0.0)
        whole[np.arange(len(whole)), most] += np.floor(rest / costs[most] * (1 - 1e-12)).astype(
            np.int64
        )
        whole[whole < 2] = 0
        plans.append(whole)
    return plans


# -----------------------------------------------------------------------------------------------------------------------------
# estimates


def weigh(
    cov: Array, full: Set, labelled: float, bought: Sequence[Sample]
) -> tuple[Array, list[Array]]:
    """The best unbiased weights, of the labelled rows and of each sample; ``cov`` may have an axis
    for folds after that for worlds.
    """
    k = cov.shape[-1]
    used = set(full).union(*(s.columns for s in bought))
    own = np.linalg.inv(block(cov, full))
    M = np.zeros(cov.shape)
    M[_at(full)] = labelled * own
    M = M + np.diag([0.0 if c in used else 1.0 for c in range(k)])
    inverses = []
    for sample in bought:
        inverse = np.linalg.inv(block(cov[sample.who], sample.columns))
        n = sample.n.reshape(-1, *(1,) * (cov.ndim - 1))
        part = M[sample.who]
        part[_at(sample.columns)] += n * inverse
        M[sample.who] = part
        inverses.append(inverse)
    # A world that buys nothing of a rater that others buy knows nothing of its mean: it is not
    # wanted, and the row is made 1.
    blind = np.einsum("...ii->...i", M) <= 0
    M = M + blind[..., None] * np.eye(k)
    scale = 1 / np.sqrt(np.einsum("...ii->...i", M))
    y = (
        scale
        * np.linalg.solve(
            M * scale[..., :, None] * scale[..., None, :], (scale * np.eye(k)[0])[..., None]
        )[..., 0]
    )
    first = labelled * (own @ y[..., list(full)][..., None])[..., 0]
    others = []
    for sample, inverse in zip(bought, inverses, strict=True):
        n = sample.n.reshape(-1, *(1,) * (cov.ndim - 2))
        others.append(n * (inverse @ y[sample.who][..., list(sample.columns)][..., None])[..., 0])
    return first, others


def plug_in(
    total: Moments, cov: Array, full: Set, bought: Sequence[Sample], world: World
) -> tuple[Array, Array, Array]:
    """Value, variance and risk with weights and residuals from the same rows: the paper's interval."""
    n, mean, spread = _moments(total)
    labelled = float(n[0])
    first, others = weigh(cov, full, labelled, bought)
    at = list(full)
    value = (first * mean[:, at]).sum(axis=-1)
    variance = _form(block(spread, full), first) / labelled
    return _with_bought(value, variance, bought, others, world)


def cross_fit(
    folds: Moments, full: Set, bought: Sequence[Sample], world: World, *, shrink: bool = True
) -> tuple[Array, Array, Array]:
    """Value, variance and risk with each fold weighted by what the others say: the default interval
    (without dropping raters).
    """
    total = _summed(folds)
    apart = (total.spread() - folds).covariance(shrink=shrink).cov
    n, centre, _ = _moments(total)
    labelled = float(n[0])
    first, others = weigh(apart, full, labelled, bought)
    at = list(full)
    own = np.diagonal(folds.n, axis1=-2, axis2=-1)[..., 0]
    sums = np.diagonal(folds.s10, axis1=-2, axis2=-1)  # of x - origin, in each fold
    means = sums / own[..., None]
    value = (first * (means + folds.origin)[..., at]).sum(axis=-1).mean(axis=-1)
    shift = (centre - folds.origin)[:, None, :]
    # Σ (x - c)(x - c)ᵀ over the rows of a fold, c the mean of all rows.
    squares = (
        folds.s11
        - sums[..., :, None] * shift[..., None, :]
        - shift[..., :, None] * sums[..., None, :]
    )
    squares = squares + own[..., None, None] * shift[..., :, None] * shift[..., None, :]
    away = (first * (sums - own[..., None] * shift)[..., at]).sum(axis=(-1, -2)) / labelled
    spread = (_form(block(squares, full), first).sum(axis=-1) - labelled * away**2) / (labelled - 1)
    return _with_bought(value, spread / labelled, bought, [w.mean(axis=-2) for w in others], world)


def _with_bought(
    value: Array, variance: Array, bought: Sequence[Sample], weights: Sequence[Array], world: World
) -> tuple[Array, Array, Array]:
    """Add the samples that were bought; the risk has their true means and variances."""
    error, noise = value - world.truth, np.zeros_like(value)
    for sample, weight in zip(bought, weights, strict=True):
        value[sample.who] += (weight * sample.mean).sum(axis=-1)
        variance[sample.who] += _form(sample.cov, weight) / sample.n
        error[sample.who] += weight @ world.means[list(sample.columns)]
        noise[sample.who] += _form(block(world.cov, sample.columns), weight) / sample.n
    # Ten equal labels have no variance; rounding may leave a little less than none.
    return value, np.maximum(variance, 0.0), error**2 + noise


def _moments(total: Moments) -> tuple[Array, Array, Array]:
    """Number of rows, means and covariance (n - 1), not shrunk."""
    n = np.diagonal(total.n, axis1=-2, axis2=-1)[..., 0]
    away = np.diagonal(total.s10, axis1=-2, axis2=-1) / n[..., None]
    cov = (total.s11 - n[..., None, None] * away[..., :, None] * away[..., None, :]) / (n - 1)[
        ..., None, None
    ]
    return n, away + total.origin, cov


def _form(matrix: Array, vector: Array) -> Any:
    return (vector * (matrix @ vector[..., None])[..., 0]).sum(axis=-1)


# -------------------------------------------------------------------------------------------------------------------------
# raw autoraters


def raw_raters(world: World, budget: float, worlds: int, seed: Sequence[int]) -> dict[str, Found]:
    """The plain mean of each rater's answers, as many as the budget buys, taken for the mean of the
    label.
    """
    rng = np.random.default_rng(seed)
    found = {}
    for r in world.raters:
        n = int(budget / world.price((r,)) * (1 + 1e-9))
        mean = rng.binomial(n, world.means[r], size=worlds) / n
        half = ndtri(0.975) * np.sqrt(mean * (1 - mean) / n)
        found[world.names[r]] = Found(mean, half, (mean - world.truth) ** 2, world.truth)
    return found


def best_baseline(runs: Runs, budget: float, *, cascade: bool = True) -> str:
    """The method with the least squared error, MultiPPI aside (and the cascade, which is none of
    the paper's baselines).
    """
    others = ("MultiPPI",) if cascade else ("MultiPPI", "cascade")
    names = [name for name, b in runs if b == budget and not name.startswith(others)]
    return min(names, key=lambda name: runs[name, budget].mse)


def spending(
    world: World, labelled: int, budget: float
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """With the true covariance: the share of the budget of each set, and the weights of each sample
    mean (the paper's Figures 2 to 5).
    """
    sets = all_sets(world.k)
    method = Method(full=(0, *world.raters), sets=sets)
    counts = allocate(world, method, world.cov[None], labelled, [budget])[0]
    samples = [
        Sample(
            columns=sets[j],
            who=np.array([0]),
            n=counts[:, j],
            mean=np.zeros((1, len(sets[j]))),
            cov=np.zeros((1, 1, 1)),
        )
        for j in np.flatnonzero(counts[0])
    ]
    first, others = weigh(world.cov[None], method.full, float(labelled), samples)

    def called(columns: Set) -> str:
        return "+".join(world.names[c] for c in columns)

    shares = {called(s.columns): float(s.n[0]) * world.price(s.columns) / budget for s in samples}
    weights = {
        "labelled": {world.names[c]: float(x) for c, x in zip(method.full, first[0], strict=True)}
    }
    for sample, weight in zip(samples, others, strict=True):
        weights[called(sample.columns)] = {
            world.names[c]: float(x) for c, x in zip(sample.columns, weight[0], strict=True)
        }
    return shares, weights
