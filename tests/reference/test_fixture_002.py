"""Seed 002 (multiple-prediction-powered inference): a population shaped like its first experiment,
250 labelled rows.

Costs are 1 for pro and .24 for flash. The numbers come from 500,000 runs of the published procedure
(Ledoit-Wolf, allocation, floor, normal interval) with another implementation; ours draws counts of
cells and solves all allocations of a chunk at once. Their mean squared errors have a standard error
of .0015 themselves: 2,000,000 of our worlds give .7285 at budget 2,000. Ours are divided by the
error of the classical mean in the same worlds, which takes a quarter of the noise away.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.guarantees.ppi_worlds import COV, LABELLED, METHODS, SHARES, TRUTH, Tally, shaped_worlds

# budget: coverage, mean squared error over classical, width over classical
PUBLISHED = {
    50: (0.9481, 0.8930, 0.943),
    500: (0.9474, 0.7735, 0.874),
    2000: (0.9469, 0.7266, 0.847),
}
CLASSICAL = float(COV[0, 0]) / LABELLED
WORLDS, ALL = 20_000, 500_000


def run(
    method: str, budget: float, worlds: int, *, known: bool = False
) -> tuple[Tally, float, float]:
    """The published interval, its mean squared error and its width over those of the classical
    mean.
    """
    rng = np.random.default_rng([2, int(budget), sorted(METHODS).index(method)])
    found = shaped_worlds(
        method, budget, worlds, rng, known=known, intervals=("paper", "classical")
    )
    tally = found["paper"]
    return (
        tally,
        tally.mse / found["classical"].mse,
        tally.mean_width / (2 * 1.959964 * CLASSICAL**0.5),
    )


def test_population_is_the_published_one() -> None:
    assert SHARES.sum() == pytest.approx(1)
    assert pytest.approx(0.35) == TRUTH
    assert np.allclose(
        COV,
        [[0.2275, 0.1140, 0.1161], [0.1140, 0.2436, 0.1443], [0.1161, 0.1443, 0.2475]],
        atol=1e-4,
    )


@pytest.mark.parametrize("budget", PUBLISHED)
def test_published_interval_is_reproduced(budget: int) -> None:
    """With 20,000 worlds: four standard errors of coverage (.0016) and of the mean squared error (1
    %).
    """
    tally, ours, narrow = run("multippi", budget, WORLDS)
    coverage, mse, width = PUBLISHED[budget]
    assert tally.coverage == pytest.approx(coverage, abs=0.0064)
    assert ours == pytest.approx(mse, rel=0.04)
    assert narrow == pytest.approx(width, abs=0.002)


@pytest.mark.slow
@pytest.mark.parametrize("budget", PUBLISHED)
def test_published_interval_is_reproduced_by_500_000_worlds(budget: int) -> None:
    start = time.perf_counter()
    tally, ours, narrow = run("multippi", budget, ALL)
    seconds = time.perf_counter() - start
    coverage, mse, width = PUBLISHED[budget]
    assert tally.coverage == pytest.approx(coverage, abs=0.0015)
    assert ours == pytest.approx(mse, abs=0.004)
    assert narrow == pytest.approx(width, abs=0.002)
    assert seconds <= 120


@pytest.mark.parametrize("budget", [50, 2000])
def test_no_baseline_is_better(budget: int) -> None:
    ours = run("multippi", budget, WORLDS)[1]
    best = min(run(m, budget, WORLDS)[1] for m in METHODS if m != "multippi")
    assert ours <= best + 0.03  # about three standard errors of the difference


@pytest.mark.slow
@pytest.mark.parametrize("budget", [50, 250, 500, 1000, 2000])
def test_no_baseline_is_better_in_300_000_worlds(budget: int) -> None:
    ours = run("multippi", budget, 300_000)[1]
    best = min(run(m, budget, 300_000)[1] for m in METHODS if m != "multippi")
    assert ours <= best + 0.004


@pytest.mark.full
def test_flash_leads_at_small_budgets_and_the_vector_at_large_ones() -> None:
    small = {m: run(m, 50, WORLDS)[2] for m in ("pro", "flash", "vector", "cascade")}
    large = {m: run(m, 2000, WORLDS)[2] for m in ("pro", "flash", "vector", "cascade")}
    assert min(small, key=lambda m: small[m]) == "flash"
    assert min(large, key=lambda m: large[m]) == "vector"


def test_coverage_is_lost_by_estimating_not_by_the_budget() -> None:
    """With the true covariance the published interval is better at the largest budget (.9486 in
    150,000 runs).
    """
    assert run("multippi", 2000, WORLDS, known=True)[0].coverage == pytest.approx(
        0.9486, abs=0.0064
    )
