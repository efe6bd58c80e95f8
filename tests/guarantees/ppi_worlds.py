"""Worlds with a known mean, many at once, for estimates across raters.

Binary worlds are drawn as counts of cells, Gaussian ones as rows; the whole procedure (covariance,
allocation, rounding, draws, interval) is vectorised over the worlds.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from noracle.ppi.covariance import Moments
from noracle.ppi.intervals import (
    MeanFit,
    MeanProblem,
    ScoreSample,
    blue_weights,
    classical,
    cross_fit,
    jackknife,
    plug_in,
)
from noracle.ppi.sequential import RunningMean, advance
from noracle.ppi.solver import solve_batch

Array = NDArray[np.float64]

CELLS = np.array(
    list(itertools.product((1.0, 0.0), repeat=3))
)  # 111, 110, 101, 100, 011, 010, 001, 000: label, pro, flash
SHARES = np.array([0.2315, 0.0295, 0.0421, 0.0469, 0.1018, 0.0572, 0.0746, 0.4164])
TRUTH = float(SHARES @ CELLS[:, 0])
COV = (CELLS - SHARES @ CELLS).T @ ((CELLS - SHARES @ CELLS) * SHARES[:, None])
PRICES = (1.0, 0.24)
LABELLED = 250
CHUNK = 20_000

# What each method may buy, beside the labelled rows; columns 0 label, 1 pro, 2 flash.
METHODS: dict[str, tuple[tuple[int, ...], ...]] = {
    "classical": (),
    "pro": ((1,),),
    "flash": ((2,),),
    "vector": ((1, 2),),
    "cascade": ((1, 2), (2,)),
    "multippi": ((1,), (2,), (1, 2)),
}
KEPT: dict[str, tuple[int, ...]] = {
    "classical": (0,),
    "pro": (0, 1),
    "flash": (0, 2),
    "cascade": (0, 1),
}
"""The columns of a labelled row that a baseline looks at; all three by default."""


@dataclasses.dataclass
class Tally:
    """Sums over worlds of one interval."""

    worlds: int = 0
    covered: int = 0
    error: float = 0.0
    square: float = 0.0
    width: float = 0.0

    def add(self, value: Array, half: Array, truth: float) -> None:
        self.worlds += len(value)
        self.covered += int((np.abs(value - truth) <= half).sum())
        self.error += float((value - truth).sum())
        self.square += float(((value - truth) ** 2).sum())
        self.width += float(2 * half.sum())

    @property
    def coverage(self) -> float:
        return self.covered / self.worlds

    @property
    def mse(self) -> float:
        return self.square / self.worlds

    @property
    def mean_width(self) -> float:
        return self.width / self.worlds

    @property
    def bias(self) -> float:
        """Bias in standard deviations."""
        mean = self.error / self.worlds
        return mean / float(np.sqrt(self.mse - mean**2))


def half_width(fit: MeanFit, df: float | Array | None, confidence: float = 0.95) -> Array:
    """Half of an interval: normal without degrees of freedom, else Student's t."""
    tail = (1 + confidence) / 2
    return np.asarray((ndtri(tail) if df is None else stdtrit(df, tail)) * np.sqrt(fit.variance))


def allocate(
    cov: Array,
    sets: Sequence[tuple[int, ...]],
    costs: Sequence[float],
    budget: float,
    n_full: int,
    full: tuple[int, ...],
) -> NDArray[np.int64]:
    """Rows to buy of each set in each world, rounded down (0 or at least 2), with the labelled rows
    as prior information.
    """
    size, k = len(cov), cov.shape[-1]
    if not sets:
        return np.zeros((size, 0), dtype=np.int64)
    used = sorted(set(full).union(*sets))
    place = {c: i for i, c in enumerate(used)}

    def inform(columns: tuple[int, ...]) -> Array:
        g = np.zeros((size, len(used), len(used)))
        where = [place[c] for c in columns]
        g[(..., *np.ix_(where, where))] = np.linalg.inv(
            cov[(..., *np.ix_(list(columns), list(columns)))]
        )
        return g

    prior = n_full * inform(full)
    if len(used) > len(full):  # a cascade: the cheap rater is not seen on labelled rows
        prior = prior + 1e-9 * np.eye(len(used))
    information = np.stack([inform(s) for s in sets], axis=1)
    target = np.zeros(len(used))
    target[place[0]] = 1.0
    assert k >= len(used)
    if len(sets) == 1:
        n = np.full((size, 1), budget / costs[0])
    else:
        n = solve_batch(
            information, np.array(costs)[:, None], budget, prior, target, tolerance=1e-6
        ).n
    bought = np.floor(n * (1 + 1e-6)).astype(np.int64)
    bought[bought < 2] = 0
    return bought


def shaped_worlds(
    method: str,
    budget: float,
    worlds: int,
    rng: np.random.Generator,
    *,
    labelled: int = LABELLED,
    n_folds: int = 5,
    drop: bool = True,
    intervals: Sequence[str] = ("paper",),
    known: bool = False,
) -> dict[str, Tally]:
    """The whole procedure on the published population, over many worlds."""
    sets, full = METHODS[method], KEPT.get(method, (0, 1, 2))
    costs = [sum(PRICES[c - 1] for c in s) for s in sets]
    tallies = {name: Tally() for name in intervals}
    done = 0
    while done < worlds:
        size = min(CHUNK, worlds - done)
        done += size
        assert labelled % n_folds == 0
        folds = rng.multinomial(labelled // n_folds, SHARES, size=(size, n_folds)).astype(
            np.float64
        )
        counts = folds.sum(axis=1)
        found = Moments.of(CELLS, counts, (0, 1, 2), np.full(3, 0.4)).covariance().cov
        cov = np.broadcast_to(COV, (size, 3, 3)) if known else found
        bought = allocate(cov, sets, costs, budget, labelled, full)
        samples = [
            ScoreSample(columns=full, values=CELLS[:, list(full)], counts=counts, folds=folds)
        ]
        for place, columns in enumerate(sets):
            drawn = rng.multinomial(bought[:, place], SHARES).astype(np.float64)
            samples.append(
                ScoreSample(
                    columns=columns, values=CELLS[:, list(columns)], counts=drawn, pilot=False
                )
            )
        tally_intervals(tallies, samples, 3, TRUTH, labelled, drop=drop, cov=cov)
    return tallies


def tally_intervals(
    tallies: dict[str, Tally],
    samples: Sequence[ScoreSample],
    k: int,
    truth: float,
    labelled: int,
    *,
    drop: bool = True,
    cov: Array | None = None,
) -> None:
    """Add these worlds to the intervals that are measured."""
    target = np.eye(k)[0]
    columns = sorted({c for s in samples for c in s.columns})
    p = len(columns) - 1
    plain = MeanProblem(
        target=target, design=np.eye(k), cov=cov
    )  # the covariance that the allocation was made with
    guarded = MeanProblem(
        target=target, design=np.eye(k), raters=tuple(columns[1:]) if drop else ()
    )
    for name, tally in tallies.items():
        if name == "paper":
            fit = plug_in(samples, plain)
            tally.add(fit.value, half_width(fit, None), truth)
        elif name == "crossfit-t":
            fit = cross_fit(samples, guarded)
            tally.add(
                fit.value, half_width(fit, labelled - 1 - (p - fit.dropped.sum(axis=-1))), truth
            )
        elif name == "jackknife-t":
            fit = jackknife(samples, guarded)
            tally.add(
                fit.value, half_width(fit, labelled - 1 - (p - fit.dropped.sum(axis=-1))), truth
            )
        else:
            value, variance, n = classical(samples, plain)
            tally.add(value, stdtrit(n - 1, 0.975) * np.sqrt(variance), truth)


# ------------------------------------------------------------------------------------------------------------------------
# Gaussian raters

# Ten debaters: A agents and R rounds cost A·R, in units of the most expensive; more of both agree better
# with the label.
DEBATERS = tuple((agents, rounds) for rounds in (1, 2) for agents in (1, 2, 3, 4, 5))
DEBATE_PRICES = tuple(a * r / 10 for a, r in DEBATERS)


def debate_cov() -> Array:
    """One common opinion of all debaters, partly right; correlations with the label from .50 to
    .66.
    """
    loads = np.array([0.72 + 0.02 * a + 0.03 * r for a, r in DEBATERS])
    right = np.array([0.64 + 0.012 * a + 0.012 * r for a, r in DEBATERS])
    cov = np.outer(loads, loads)
    np.fill_diagonal(cov, 1.0)
    full = np.eye(11)
    full[1:, 1:] = cov
    full[0, 1:] = full[1:, 0] = loads * right
    return full


def stand_in(cov: Array, n: NDArray[np.int64], rng: np.random.Generator) -> tuple[Array, Array]:
    """Rows and counts with the mean and the covariance of n Gaussian rows in each world, without
    drawing the rows.

    The mean is normal, the covariance Wishart (Bartlett's decomposition); 2r rows at ±√r times the
    columns of its root have both.
    """
    size, r = len(n), cov.shape[-1]
    root = np.linalg.cholesky(cov)
    some = np.maximum(n, 2).astype(np.float64)
    mean = (rng.standard_normal((size, r)) / np.sqrt(some)[:, None]) @ root.T
    bartlett = np.zeros((size, r, r))
    for i in range(r):
        bartlett[:, i, i] = np.sqrt(rng.chisquare(np.maximum(some - 1 - i, 1e-3)))
        bartlett[:, i, :i] = rng.standard_normal((size, i))
    spread = root @ bartlett / np.sqrt(some)[:, None, None] * np.sqrt(r)
    rows = np.concatenate([spread, -spread], axis=2).swapaxes(1, 2) + mean[:, None, :]
    counts = np.repeat((n / (2 * r))[:, None], 2 * r, axis=1)
    return rows, counts


def gaussian_worlds(
    budget: float,
    worlds: int,
    labelled: int,
    rng: np.random.Generator,
    *,
    intervals: Sequence[str],
    drop: bool = True,
    shrink: bool = True,
) -> dict[str, Tally]:
    """Ten Gaussian raters, the labelled rows free; bought are single raters and all ten together."""
    cov = debate_cov()
    k = len(cov)
    root = np.linalg.cholesky(cov)
    sets: list[tuple[int, ...]] = [(j,) for j in range(1, k)] + [tuple(range(1, k))]
    costs = [*DEBATE_PRICES, sum(DEBATE_PRICES)]
    tallies = {name: Tally() for name in intervals}
    for start in range(0, worlds, 1000):
        size = min(1000, worlds - start)
        rows = rng.standard_normal((size, labelled, k)) @ root.T
        one = np.ones((size, labelled))
        folds = np.broadcast_to(np.eye(5).repeat(labelled // 5, axis=1), (size, 5, labelled))
        found = Moments.of(rows, one, tuple(range(k)), np.zeros(k)).covariance(shrink=shrink).cov
        bought = allocate(found, sets, costs, budget, labelled, tuple(range(k)))
        samples = [ScoreSample(columns=tuple(range(k)), values=rows, counts=one, folds=folds)]
        for place, columns in enumerate(sets):
            block = cov[np.ix_(columns, columns)]
            values, counts = stand_in(block, bought[:, place], rng)
            samples.append(ScoreSample(columns=columns, values=values, counts=counts, pilot=False))
        tally_intervals(tallies, samples, k, 0.0, labelled, drop=drop, cov=found)
    return tallies


# -------------------------------------------------------------------------------------------------------------------
# raters of known mean


def known_means(
    kind: str,
    n: int,
    p: int,
    worlds: int,
    rng: np.random.Generator,
    intervals: Sequence[str],
    *,
    shrink: bool,
) -> dict[str, Tally]:
    """n labelled rows and p raters whose means are known exactly: only the weights can go wrong.

    ``gauss``: bias is exactly 0, since means and covariances are independent. ``binary``: a rare
    label and raters that notice it, so that weights from the same rows are biased.
    """
    k = p + 1
    tallies = {name: Tally() for name in intervals}
    means = np.zeros(k)
    if kind == "binary":
        means[0], means[1:] = ndtr(-1.3), ndtr(-0.8)
    for start in range(0, worlds, 500):
        size = min(500, worlds - start)
        common = rng.standard_normal((size, n, 1))
        if kind == "gauss":
            own = rng.standard_normal((size, n, k))
            rows = 0.7 * common + 0.7 * own
        else:
            own = rng.standard_normal((size, n, p))
            rows = np.concatenate(
                [common > 1.3, 0.7 * common + np.sqrt(1 - 0.49) * own > 0.8], axis=2
            ).astype(np.float64)
        folds = np.broadcast_to(np.eye(5).repeat(n // 5, axis=1), (size, 5, n))
        known = np.broadcast_to(means[1:], (size, 1, p))
        samples = [
            ScoreSample(
                columns=tuple(range(k)), values=rows, counts=np.ones((size, n)), folds=folds
            ),
            ScoreSample(
                columns=tuple(range(1, k)),
                values=known,
                counts=np.full((size, 1), 1e9),
                pilot=False,
            ),
        ]
        problem = MeanProblem(target=np.eye(k)[0], design=np.eye(k), shrink=shrink)
        for name, tally in tallies.items():
            fit = plug_in(samples, problem) if name == "paper" else cross_fit(samples, problem)
            tally.add(
                fit.value, half_width(fit, None if name == "paper" else n - p - 1), float(means[0])
            )
    return tallies


# ---------------------------------------------------------------------------------------------------------------------------
# label kinds


def label_kinds(worlds: int, rng: np.random.Generator) -> tuple[Tally, float]:
    """100 labels with a rater, 3,525 complementary labels of four classes, 782 ratings; A = .7, R²
    = .5. Also the planned variance.
    """
    right, n_classes = 0.7, 4
    spread = right * (1 - right)
    says = np.sqrt(0.5) * spread  # covariance of the rater, which is right as often
    with_rater = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    shares = np.array([right**2 + says, spread - says, spread - says, (1 - right) ** 2 + says])
    noisy = spread + (1 - right) * (n_classes - 2)
    cov = np.array([[spread, says, 0.0], [says, spread, 0.0], [0.0, 0.0, noisy]])
    design = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    columns: list[tuple[int, ...]] = [(0, 1), (2,), (1,)]
    planned = float(
        blue_weights(cov, columns, [100, 3525, 782], np.array([1.0, 0.0]), design=design).variance
    )
    tally = Tally()
    spared = (right + n_classes - 2) / (n_classes - 1)
    for start in range(0, worlds, CHUNK):
        size = min(CHUNK, worlds - start)
        folds = rng.multinomial(20, shares, size=(size, 5)).astype(np.float64)
        left = rng.multinomial(3525 // 5, [spared, 1 - spared], size=(size, 5)).astype(np.float64)
        rated = rng.multinomial(782, [right, 1 - right], size=size).astype(np.float64)
        samples = [
            ScoreSample(columns=(0, 1), values=with_rater, counts=folds.sum(axis=1), folds=folds),
            ScoreSample(
                columns=(2,),
                values=np.array([[1.0], [2.0 - n_classes]]),
                counts=left.sum(axis=1),
                folds=left,
            ),
            ScoreSample(columns=(1,), values=np.array([[1.0], [0.0]]), counts=rated, pilot=False),
        ]
        fit = cross_fit(
            samples, MeanProblem(target=np.array([1.0, 0.0]), design=design, raters=(1,))
        )
        tally.add(fit.value, half_width(fit, 98), right)
    return tally, planned


# -------------------------------------------------------------------------------------------------------------------------------
# batches


@dataclasses.dataclass
class Looks:
    """Simultaneous coverage over looks, of the sequence and of a repeated normal interval, and the
    ratio of their widths at some looks.
    """

    sequence: float
    repeated: float
    ratios: dict[int, float]


def look_often(
    worlds: int,
    n_batches: int,
    rng: np.random.Generator,
    *,
    first: int = 4,
    labelled: int = 25,
    more: int = 140,
) -> Looks:
    """Batches of labels with the cheap rater and of ratings alone, looked at after each."""
    cells, columns = CELLS[:, [0, 2]], (0, 1)
    problem = MeanProblem(target=np.array([1.0, 0.0]), design=np.eye(2), raters=(1,))
    running = RunningMean()
    kept, naive = np.ones(worlds, dtype=bool), np.ones(worlds, dtype=bool)
    ratios = {}
    for look in range(1, n_batches + 1):
        samples = [
            ScoreSample(
                columns=columns,
                values=cells,
                counts=rng.multinomial(labelled, SHARES, size=worlds).astype(np.float64),
            ),
            ScoreSample(
                columns=(1,),
                values=cells[:, 1:],
                counts=rng.multinomial(more, SHARES, size=worlds).astype(np.float64),
                pilot=False,
            ),
        ]
        running = advance(running, samples, problem)
        if look < first:
            continue
        half = running.half_width(0.95)
        usual = ndtri(0.975) * np.sqrt(running.spread) / running.weight
        away = np.abs(running.value - TRUTH)
        kept &= away <= half
        naive &= away <= usual
        ratios[look] = float(half.mean() / usual.mean())
    return Looks(sequence=float(kept.mean()), repeated=float(naive.mean()), ratios=ratios)
