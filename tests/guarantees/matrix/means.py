"""Means across raters: what estimates promise asymptotically, from four labels to thousands, with
good, bad and rare raters.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np

from noracle.ppi.estimate import guarantee_of
from tests.guarantees.matrix.record import Case, fewer, seeded
from tests.guarantees.means import (
    PAIRS,
    PUBLISHED,
    RARE,
    USELESS,
    Cells,
    MeanSetting,
    all_means,
    at_once,
    in_batches,
    measure_mean,
)
from tests.guarantees.measure import Row, excess_p_value
from tests.guarantees.ppi_worlds import Tally, known_means, label_kinds

POPULATIONS = {
    "two raters": PUBLISHED,
    "a rare label": RARE,
    "a useless rater": USELESS,
    "a perfect rater": Cells(
        values=PAIRS, shares=np.array([0.4, 0.0, 0.0, 0.6]), rated={(1,): 2000}
    ),
    "a rater who says the opposite": Cells(
        values=PAIRS, shares=np.array([0.02, 0.38, 0.58, 0.02]), rated={(1,): 2000}
    ),
    "a label that is nearly always 1": Cells(
        values=PAIRS, shares=np.array([0.9, 0.08, 0.01, 0.01]), rated={(1,): 2000}
    ),
    "few ratings more": Cells(
        values=PAIRS, shares=np.array([0.35, 0.05, 0.1, 0.5]), rated={(1,): 10}
    ),
}


def _row(tally: Tally, setting: str, interval: str, n: int, started: float) -> Row:
    return Row(
        part="means",
        interval=interval,
        method="classical" if interval == "classical" else "multippi",
        setting=setting,
        worlds=tally.worlds,
        enumerated=False,
        coverage=tally.coverage,
        nominal=0.95,
        width=tally.mean_width,
        n=n,
        seconds=time.perf_counter() - started,
        guarantee=guarantee_of(n, 0.95, anytime=interval == "anytime").kind.label,
        p_value=excess_p_value(tally.worlds - tally.covered, tally.worlds, 0.05),
    )


def _once(name: str, population: Cells, n: int, worlds: int) -> list[Row]:
    started, setting = time.perf_counter(), f"{name}, N={n}"
    found = at_once(population, n, worlds, seeded(setting))
    return [_row(t, setting, interval, n, started) for interval, t in found.items() if t.worlds]


def _batched(name: str, population: Cells, n: int, batches: int, worlds: int) -> list[Row]:
    started, setting = time.perf_counter(), f"{name}, N={n}, every look of {batches} batches"
    tally = in_batches(population, n, worlds, seeded(setting), n_batches=batches, first=1)
    return [_row(tally, setting, "anytime", n, started)] if tally.worlds else []


def _known(kind: str, n: int, p: int, worlds: int) -> list[Row]:
    started, setting = (
        time.perf_counter(),
        f"{p} {'Gaussian' if kind == 'gauss' else 'binary'} raters of known mean, N={n}",
    )
    found = known_means(kind, n, p, worlds, seeded(setting), ("paper", "crossfit-t"), shrink=True)
    return [_row(t, setting, interval, n, started) for interval, t in found.items()]


def _kinds(worlds: int) -> list[Row]:
    started, setting = time.perf_counter(), "labels, ruled-out classes and a rater together"
    return [_row(label_kinds(worlds, seeded(setting))[0], setting, "crossfit-t", 100, started)]


def _cases() -> Iterator[Case]:
    for setting in all_means():
        yield Case(
            part="means", name=setting.name, measured=lambda worlds, s=setting: _tested(s, worlds)
        )
    for (name, population), n in itertools.product(POPULATIONS.items(), (5, 10, 30, 100, 1000)):
        yield Case(
            part="means",
            name=f"{name}, {n}",
            quick=(name, n) == ("two raters", 30),
            measured=lambda worlds, m=name, p=population, n=n: _once(m, p, n, 4 * worlds),
        )
    for name, population in POPULATIONS.items():
        yield Case(
            part="means",
            name=f"{name}, batches",
            measured=lambda worlds, m=name, p=population: _batched(m, p, 200, 10, worlds),
        )
    for kind, (n, p) in itertools.product(("gauss", "binary"), ((20, 2), (50, 10), (250, 10))):
        yield Case(
            part="means",
            name=f"known {kind} {n} {p}",
            measured=lambda worlds, k=kind, n=n, p=p: _known(k, n, p, fewer(worlds, 1)),
        )
    yield Case(part="means", name="kinds of label", measured=lambda worlds: _kinds(5 * worlds))


def _tested(setting: MeanSetting, worlds: int) -> list[Row]:
    return measure_mean(setting, worlds=max(1, worlds // (2 if "Gaussian" in setting.name else 4)))


def cases() -> list[Case]:
    """Every case of this file."""
    return list(_cases())
