"""Errata of seed 002 on the side of estimation: each test fails for what is printed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import stdtr

from noracle.ppi.estimate import estimate_mean
from noracle.ppi.intervals import MeanProblem, ScoreSample, blue_weights, plug_in
from noracle.ppi.table import group_samples
from tests.guarantees.ppi_worlds import CELLS, COV, SHARES, TRUTH, Tally, half_width, known_means


@pytest.mark.full
def test_section_4_2_reusing_rows_is_biased_and_folds_are_not() -> None:
    """Printed: unbiased regardless of the estimated covariance. True only if it is independent of
    the samples.
    """
    found = known_means(
        "binary", 250, 10, 4000, np.random.default_rng(0), ("paper", "crossfit-t"), shrink=False
    )
    assert found["paper"].bias > 0.08
    assert abs(found["crossfit-t"].bias) < 0.05


@pytest.mark.thin(3)
@pytest.mark.parametrize(("n", "p"), [(50, 6), (30, 2), (250, 10)])
def test_appendix_e5_coverage_falls_by_degrees_of_freedom_not_by_bias(n: int, p: int) -> None:
    """Gaussian rows: the bias is exactly 0 and coverage still falls, by as much as in-sample
    residuals explain.
    """
    worlds = 6000
    tally = known_means(
        "gauss", n, p, worlds, np.random.default_rng(n), ("paper", "crossfit-t"), shrink=False
    )
    df = n - p - 1
    foretold = 2 * float(stdtr(df, 1.959964 * math.sqrt(df * (df - 1) / ((n - 1) * (n - 2))))) - 1
    error = 3.5 * math.sqrt(foretold * (1 - foretold) / worlds)
    assert foretold < 0.94
    assert abs(tally["paper"].bias) < 3.5 / math.sqrt(worlds)
    assert tally["paper"].coverage == pytest.approx(foretold, abs=error)
    assert tally["crossfit-t"].coverage == pytest.approx(0.95, abs=error)


def test_one_row_has_no_variance_and_is_not_a_sample() -> None:
    """Printed: the sample variance within every set. For one row it is undefined; a set has 0 or at
    least 2 rows.
    """
    rng = np.random.default_rng(1)
    rows = CELLS[rng.choice(8, size=101, p=SHARES)].copy()
    rows[100, 1:] = np.nan
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning):
        assert math.isnan(np.var(rows[100:, 0], ddof=1))
    grouped = group_samples(rows, (0,))
    assert [int(s.n) for s in grouped.samples] == [100]
    assert grouped.unused == 1
    found = estimate_mean(rows, target="label", raters=["label", "pro", "flash"])
    assert math.isfinite(found.se)


def test_section_4_2_1_counts_labelled_rows_once() -> None:
    """Printed: the n_I new points of every set *and* the N initial samples. The N rows are the full
    set: counted twice, coverage is .83.
    """
    rng = np.random.default_rng(2)
    counts = rng.multinomial(250, SHARES, size=8000).astype(float)
    bought = rng.multinomial(4000, SHARES, size=8000).astype(float)
    problem = MeanProblem(target=np.eye(3)[0], design=np.eye(3))
    full = ScoreSample(columns=(0, 1, 2), values=CELLS, counts=counts)
    flash = ScoreSample(columns=(2,), values=CELLS[:, 2:], counts=bought, pilot=False)
    once, twice = Tally(), Tally()
    for tally, samples in ((once, [full, flash]), (twice, [full, full, flash])):
        fit = plug_in(samples, problem)
        tally.add(fit.value, half_width(fit, None), TRUTH)
    assert once.coverage == pytest.approx(0.948, abs=0.009)
    assert twice.coverage < 0.86


def test_weights_after_rounding_are_computed_again() -> None:
    """C.1 keeps the weights of the fractional plan: where a set is rounded away they no longer sum
    to the target.
    """
    target = np.eye(3)[0]
    sets: list[tuple[int, ...]] = [(0, 1, 2), (1,), (2,)]
    printed = blue_weights(COV, sets, [250.0, 0.9, 700.4], target)
    total = np.zeros(3)
    for columns, weight, n in zip(sets, printed.samples, (250, 0, 700), strict=True):
        if n:
            total[list(columns)] += weight
    assert np.abs(total - target).max() > 1e-5
    ours = blue_weights(COV, sets, [250, 0, 700], target)
    total = np.zeros(3)
    for columns, weight in zip(sets, ours.samples, strict=True):
        total[list(columns)] += weight
    assert np.abs(total - target).max() <= 1e-10
