"""Settings in which the coverage of estimated means is measured, for the table of guarantees.

The intervals are computed for all worlds at once by the functions behind ``estimate_mean``. Worlds
whose labels are all the same are refused there; they are left out here, and the name of the setting
says how many that are.
"""

from __future__ import annotations

import dataclasses
import time
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from noracle.ppi.estimate import guarantee_of
from noracle.ppi.intervals import MeanProblem, ScoreSample
from noracle.ppi.sequential import RunningMean, advance
from tests.guarantees.measure import WORLDS, Row, excess_p_value
from tests.guarantees.ppi_worlds import (
    CELLS,
    SHARES,
    Array,
    Tally,
    debate_cov,
    gaussian_worlds,
    shaped_worlds,
    stand_in,
    tally_intervals,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

Rng = np.random.Generator
ONCE = ("crossfit-t", "jackknife-t", "paper", "classical")
BATCHES = 10
ONCE_MORE, BATCHES_MORE = 20, 5  # worlds of cells cost little: so many times as many are drawn


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cells:
    """A binary population: rows that occur, label first, with their shares; ``rated`` further rows
    observe raters alone.
    """

    values: Array
    shares: Array
    rated: Mapping[tuple[int, ...], int]

    @property
    def truth(self) -> float:
        return float(self.shares @ self.values[:, 0])

    def labelled(self, sizes: list[int], worlds: int, rng: Rng) -> NDArray[np.int64]:
        """How often each row occurs among so many labelled ones: (worlds, parts, rows), only worlds
        in which the label varies.
        """
        drawn = rng.multinomial(sizes, self.shares, size=(worlds, len(sizes)))
        positive = (drawn.sum(axis=1) @ self.values[:, 0]).astype(int)
        return drawn[(positive > 0) & (positive < sum(sizes))]

    def others(self, parts: int, worlds: int, rng: Rng) -> list[ScoreSample]:
        """One of so many parts of the further rows."""
        return [
            ScoreSample(
                columns=columns,
                values=self.values[:, list(columns)],
                pilot=False,
                counts=rng.multinomial(n // parts, self.shares, size=worlds).astype(np.float64),
            )
            for columns, n in self.rated.items()
        ]


def at_once(population: Cells, labelled: int, worlds: int, rng: Rng) -> dict[str, Tally]:
    """All intervals that look once."""
    folds = population.labelled([labelled // 5] * 5, worlds, rng).astype(np.float64)
    k = population.values.shape[1]
    samples = [
        ScoreSample(
            columns=tuple(range(k)), values=population.values, counts=folds.sum(axis=1), folds=folds
        ),
        *population.others(1, len(folds), rng),
    ]
    tallies = {name: Tally() for name in ONCE}
    tally_intervals(tallies, samples, k, population.truth, labelled)
    return tallies


def in_batches(
    population: Cells,
    labelled: int,
    worlds: int,
    rng: Rng,
    *,
    n_batches: int = BATCHES,
    first: int | None = None,
) -> Tally:
    """The interval that holds at every look, with equal batches; looked at from batch ``first`` on,
    by default after the last one.

    As in a stream, rows wait until the labels vary. Worlds that begin together go on together.
    """
    drawn = population.labelled([labelled // n_batches] * n_batches, worlds, rng)
    positive = (drawn @ population.values[:, 0]).cumsum(axis=1)
    varies = (positive > 0) & (positive < np.arange(1, n_batches + 1) * (labelled // n_batches))
    begins = varies.argmax(axis=1)
    k, tally = population.values.shape[1], Tally()
    problem = MeanProblem(target=np.eye(k)[0], design=np.eye(k), raters=tuple(range(1, k)))
    for begin in np.unique(begins):
        counts = drawn[begins == begin].astype(np.float64)
        running, away, half = RunningMean(), np.zeros(()), np.zeros(())
        for batch in range(begin, n_batches):
            waited = slice(0 if batch == begin else batch, batch + 1)
            more = population.others(n_batches, len(counts), rng)
            for _ in range(waited.start, batch):
                extra = population.others(n_batches, len(counts), rng)
                more = [
                    dataclasses.replace(a, counts=a.counts + b.counts)
                    for a, b in zip(more, extra, strict=True)
                ]
            own = ScoreSample(
                columns=tuple(range(k)),
                values=population.values,
                counts=counts[:, waited].sum(axis=1),
            )
            running = advance(running, [own, *more], problem)
            if batch + 1 >= (first or n_batches):
                half = running.half_width(0.95)
                # A miss at any look is a miss: the worst look stands for all.
                away = np.maximum(away, np.abs(running.value - population.truth) / half)
        tally.add(population.truth + away * half, half, population.truth)
    return tally


def debate_in_batches(labelled: int, rated: int, worlds: int, rng: Rng) -> Tally:
    """Ten Gaussian raters in batches, looked at after the last one."""
    cov, tally = debate_cov(), Tally()
    k, root = len(cov), np.linalg.cholesky(cov)
    problem = MeanProblem(target=np.eye(k)[0], design=np.eye(k), raters=tuple(range(1, k)))
    running = RunningMean()
    for _ in range(BATCHES):
        rows = rng.standard_normal((worlds, labelled // BATCHES, k)) @ root.T
        values, counts = stand_in(cov[1:, 1:], np.full(worlds, rated // BATCHES), rng)
        samples = [
            ScoreSample(columns=tuple(range(k)), values=rows, counts=np.ones(rows.shape[:2])),
            ScoreSample(columns=tuple(range(1, k)), values=values, counts=counts, pilot=False),
        ]
        running = advance(running, samples, problem)
    tally.add(running.value, running.half_width(0.95), 0.0)
    return tally


# ------------------------------------------------------------------------------------------------------------------------------
# settings


PUBLISHED = Cells(values=CELLS, shares=SHARES, rated={(1,): 1000, (2,): 2000})
PAIRS = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
RARE = Cells(
    values=PAIRS, shares=np.array([0.018, 0.002, 0.0294, 0.9506]), rated={(1,): 2000}
)  # sees 90 %, 3 % false alarms
USELESS = Cells(values=PAIRS, shares=np.array([0.2, 0.2, 0.3, 0.3]), rated={(1,): 2000})


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanSetting:
    """One kind of world: what is measured there, by interval."""

    name: str
    labelled: int
    measured: Callable[[int, Rng], dict[str, Tally]]
    method: str = "multippi"


def _refused(labelled: int) -> str:
    share = (1 - RARE.truth) ** labelled
    return f"{share:.0%} refused" if share > 0.01 else f"{share:.1%} refused"


def all_means() -> tuple[MeanSetting, ...]:
    """Every setting: few labels, many raters, a rare label, a useless rater; looked at once, after
    batches, and at every look.
    """
    found = []
    for n in (50, 100, 250):
        found += [
            MeanSetting(
                name=f"mean, 2 raters, N={n}",
                labelled=n,
                measured=lambda worlds, rng, n=n: shaped_worlds(
                    "multippi", 2000, ONCE_MORE * worlds, rng, labelled=n, intervals=ONCE
                ),
            ),
            MeanSetting(
                name=f"mean, 2 raters, N={n} in {BATCHES} batches",
                labelled=n,
                measured=lambda worlds, rng, n=n: {
                    "anytime": in_batches(PUBLISHED, n, BATCHES_MORE * worlds, rng)
                },
            ),
            MeanSetting(
                name=f"mean, label in 2 % of the items, N={n} ({_refused(n)})",
                labelled=n,
                measured=lambda worlds, rng, n=n: at_once(RARE, n, ONCE_MORE * worlds, rng),
            ),
            MeanSetting(
                name=f"mean, label in 2 % of the items, N={n} in {BATCHES} batches ({_refused(n)})",
                labelled=n,
                measured=lambda worlds, rng, n=n: {
                    "anytime": in_batches(RARE, n, BATCHES_MORE * worlds, rng)
                },
            ),
        ]
    return (
        *found,
        MeanSetting(
            name="mean, 10 Gaussian raters, N=50",
            labelled=50,
            measured=lambda worlds, rng: gaussian_worlds(2000, worlds, 50, rng, intervals=ONCE),
        ),
        MeanSetting(
            name=f"mean, 10 Gaussian raters, N=50 in {BATCHES} batches",
            labelled=50,
            measured=lambda worlds, rng: {"anytime": debate_in_batches(50, 1000, worlds, rng)},
        ),
        MeanSetting(
            name="mean, a useless rater, N=50",
            labelled=50,
            measured=lambda worlds, rng: at_once(USELESS, 50, ONCE_MORE * worlds, rng),
        ),
        MeanSetting(
            name=f"mean, a useless rater, N=50 in {BATCHES} batches",
            labelled=50,
            measured=lambda worlds, rng: {
                "anytime": in_batches(USELESS, 50, BATCHES_MORE * worlds, rng)
            },
        ),
        MeanSetting(
            name="mean, 2 raters, 60 batches of 25 labels, from the fourth on",
            labelled=1500,
            method="every look",
            measured=lambda worlds, rng: {
                "anytime": in_batches(PUBLISHED, 1500, worlds, rng, n_batches=60, first=4)
            },
        ),
    )


def measure_mean(setting: MeanSetting, *, worlds: int = WORLDS, seed: int = 0) -> list[Row]:
    """A row for each interval; the promise is that of the estimate."""
    start = time.perf_counter()
    rng = np.random.default_rng([seed, zlib.crc32(setting.name.encode())])
    rows = []
    for interval, tally in setting.measured(worlds, rng).items():
        promise = guarantee_of(setting.labelled, 0.95, anytime=interval == "anytime").kind.label
        method = "classical" if interval == "classical" else setting.method
        rows.append(
            Row(
                interval=interval,
                method=method,
                setting=setting.name,
                worlds=tally.worlds,
                enumerated=False,
                coverage=tally.coverage,
                nominal=0.95,
                width=tally.mean_width,
                guarantee=promise,
                p_value=excess_p_value(tally.worlds - tally.covered, tally.worlds, 0.05),
                part="means",
                n=setting.labelled,
                seconds=(time.perf_counter() - start) / (len(rows) + 1),
            )
        )
    return rows
