"""The limits at their edges and at size; what holds for all counts is in tests/properties."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from noracle.bounds import binomial as linear
from noracle.bounds.betting import FRACTIONS, LOG_PRIOR, Score, betting_interval, log_wealth
from noracle.bounds.binomial import (
    BinomialCell,
    bernstein_inverted,
    clopper_pearson,
    hypergeometric_limits,
)


def complementary(k: int, n: int, s: int) -> BinomialCell:
    return BinomialCell(n, s, (k - 2) / (k - 1), 1 / (k - 1))


def test_no_labels_exclude_nothing() -> None:
    for limits in (
        linear.exact([], 0.025, 0.025),
        linear.anytime([BinomialCell(0, 0)], 0.05),
        linear.profile([], 0.025, 0.025),
        linear.wald([], 0.1, 0.1),
    ):
        assert (limits.low, limits.high, limits.empty) == (0.0, 1.0, False)
    assert betting_interval([], 0.025, 0.025) == (0.0, 1.0)
    assert math.isnan(linear.maximum_likelihood([]))


def test_cells_with_the_same_probability_merge() -> None:
    assert linear.merge([BinomialCell(3, 1), BinomialCell(0, 0, 0.5, 0.5), BinomialCell(4, 4)]) == (
        BinomialCell(7, 5),
    )


def test_impossible_counts_have_no_likelihood() -> None:
    assert linear.log_likelihood((BinomialCell(3, 1),), 0.0) == -math.inf
    assert linear.log_likelihood((BinomialCell(3, 1),), 1.0) == -math.inf
    assert linear.log_likelihood((BinomialCell(3, 3),), 1.0) == 0.0


@pytest.mark.parametrize(
    ("cells", "value"),
    [
        ([BinomialCell(5, 5), complementary(4, 9, 9)], 1.0),
        ([BinomialCell(5, 0), complementary(4, 9, 1)], 0.0),
    ],
)
def test_maximum_at_the_ends(cells: list[BinomialCell], value: float) -> None:
    assert linear.maximum_likelihood(cells) == value
    limits = linear.exact(cells, 0.025, 0.025)
    assert value in (limits.low, limits.high)


def test_three_kinds_of_label_have_a_maximum_and_sharp_limits() -> None:
    cells = [BinomialCell(30, 18), complementary(6, 80, 74), BinomialCell(80, 60, 0.4, 0.6)]
    value = linear.maximum_likelihood(cells)
    grid = np.linspace(0.001, 0.999, 9981)
    best = grid[np.argmax([linear.log_likelihood(tuple(cells), float(a)) for a in grid])]
    assert value == pytest.approx(best, abs=2e-4)
    exact, profile, anytime = (
        linear.exact(cells, 0.025, 0.025),
        linear.profile(cells, 0.025, 0.025),
        linear.anytime(cells, 0.05),
    )
    assert (exact.low, exact.high) == pytest.approx((profile.low, profile.high), abs=0.005)
    assert anytime.low < exact.low < value < exact.high < anytime.high


def kinds_tail(cells: list[BinomialCell], rate: float) -> float:
    """P(estimate >= the observed one), by going through every sample."""
    seen = linear.maximum_likelihood(cells)
    total = 0.0
    for counts in itertools.product(*(range(c.n + 1) for c in cells)):
        sample = [BinomialCell(c.n, s, c.a, c.b) for c, s in zip(cells, counts, strict=True)]
        if linear.maximum_likelihood(sample) >= seen - 1e-9:
            total += float(np.prod([binom.pmf(s.successes, s.n, s.p(rate)) for s in sample]))
    return total


def test_lower_limit_of_three_kinds_solves_its_equation() -> None:
    cells = [BinomialCell(4, 3), complementary(4, 6, 5), BinomialCell(5, 4, 0.3, 0.5)]
    low = linear.exact(cells, 0.05, 0.0).low
    assert kinds_tail(cells, low) == pytest.approx(0.05, abs=1e-6)


MANY = [
    BinomialCell(300, 204),
    complementary(4, 300, 265),
    complementary(10, 300, 291),
    complementary(6, 300, 284),
]


@pytest.mark.parametrize(("method", "most"), [("_convolved_tail", 1.01), ("_chernoff_tail", 1.45)])
def test_bounds_on_the_tail_of_many_kinds_are_never_below_the_sum(
    method: str, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = MANY[:3]
    sharp = linear.exact(cells, 0.025, 0.025)
    assert linear._tail_method(tuple(cells)) is linear._summed_tail
    monkeypatch.setattr(linear, "_tail_method", lambda _: getattr(linear, method))
    bound = linear.exact(cells, 0.025, 0.025)
    assert bound.low <= sharp.low < sharp.high <= bound.high
    assert bound.high - bound.low <= most * (sharp.high - sharp.low)


def test_one_label_of_another_kind_hardly_widens_the_limits() -> None:
    def width(*cells: BinomialCell) -> float:
        limits = linear.exact(cells, 0.025, 0.025)
        return limits.high - limits.low

    for known in (MANY[:2], MANY[:3], [BinomialCell(40, 27), complementary(5, 90, 83)]):
        mean = 0.9 * width(*known, complementary(8, 1, 1)) + 0.1 * width(
            *known, complementary(8, 1, 0)
        )
        assert mean <= 1.02 * width(*known)


@pytest.mark.parametrize(("at", "low", "high"), [(0.0, 0.0, 0.03), (1.0, 0.97, 1.0)])
def test_many_kinds_have_sharp_limits_at_the_ends(at: float, low: float, high: float) -> None:
    cells = [BinomialCell(c.n, round(c.n * c.p(at)), c.a, c.b) for c in MANY]
    limits = linear.exact(cells, 0.025, 0.025)
    assert low <= limits.low <= at <= limits.high <= high


@pytest.mark.parametrize("tail", [0.005, 0.025, 0.05])
def test_draws_without_replacement_invert_the_hypergeometric(tail: float) -> None:
    for size, n in ((1, 1), (7, 3), (20, 6), (20, 19), (40, 10)):
        right = np.arange(size + 1)
        for s in range(n + 1):
            low, high = hypergeometric_limits(s, n, size, tail, tail)
            possible = (right >= s) & (right <= size - n + s)
            assert low * size == pytest.approx(
                right[possible & (hypergeom.sf(s - 1, size, right, n) > tail * (1 - 1e-5))].min()
            )
            assert high * size == pytest.approx(
                right[possible & (hypergeom.cdf(s, size, right, n) > tail * (1 - 1e-5))].max()
            )
            with_replacement = clopper_pearson(s, n, tail, tail)
            assert with_replacement[0] - 1e-12 <= low <= high <= with_replacement[1] + 1e-12


def test_a_census_has_width_zero_and_large_populations_are_served() -> None:
    assert hypergeometric_limits(3, 10, 10, 0.025, 0.025) == (0.3, 0.3)
    assert hypergeometric_limits(0, 0, 5, 0.025, 0.025) == (0.0, 1.0)
    low, high = hypergeometric_limits(700_000, 1_000_000, 10_000_000, 0.025, 0.025)
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.7 * 0.3 / 1e6 * 0.9), rel=2e-3)
    assert hypergeometric_limits(700, 1000, 10_000_000, 0.025, 0.0)[1] > 0.9999
    with pytest.raises(ValueError, match="n <= size"):
        hypergeometric_limits(3, 10, 9, 0.025, 0.025)


def test_counts_that_no_accuracy_explains_are_empty_on_their_side() -> None:
    low = linear.exact([complementary(10, 300, 200)], 0.025, 0.025)
    assert (low.low, low.high, low.empty) == (0.0, 0.0, True)
    both = linear.exact([BinomialCell(20, 0), complementary(10, 300, 200)], 0.025, 0.025)
    assert (both.low, both.high, both.empty) == (0.0, 0.0, True)
    assert linear.clip(1.2, 1.4) == linear.Limits(1.0, 1.0, empty=True)


def test_exact_with_many_labels_is_near_the_normal_limits() -> None:
    cells = [BinomialCell(20_000, 15_600), complementary(10, 180_000, 175_600)]
    exact = linear.exact(cells, 0.025, 0.025)
    wald = linear.wald(cells, 0.025, 0.025)
    assert (exact.low, exact.high) == pytest.approx((wald.low, wald.high), abs=2e-4)


def test_exact_with_a_negligible_second_kind_is_clopper_pearson() -> None:
    alone = clopper_pearson(70, 100, 0.025, 0.025)
    nearly = linear.exact([BinomialCell(100, 70), complementary(1000, 1, 1)], 0.025, 0.025)
    assert (nearly.low, nearly.high) == pytest.approx(alone, abs=0.01)


@pytest.mark.parametrize(
    ("n", "p"), [(10, 0.5), (5000, 0.001), (100_000, 0.97), (7, 0.0), (7, 1.0)]
)
def test_support_carries_all_mass(n: int, p: float) -> None:
    counts, pmf = linear.support(n, p)
    assert pmf.sum() == pytest.approx(1.0, abs=1e-10)
    assert pmf == pytest.approx(binom.pmf(counts, n, p), rel=1e-7, abs=1e-13)


@pytest.mark.full
@pytest.mark.timing
def test_anytime_update_takes_a_millisecond() -> None:
    cells = [BinomialCell(1000, 780), complementary(10, 9000, 8780)]
    linear.anytime(cells, 0.05)
    start = time.process_time()
    for _ in range(50):
        linear.anytime(cells, 0.05)
    assert (time.process_time() - start) / 50 < 4e-3  # a millisecond on an idle machine


def test_bets_start_with_one() -> None:
    assert float(np.exp(LOG_PRIOR).sum()) == pytest.approx(1.0)
    assert FRACTIONS.max() == 1.0
    assert FRACTIONS.min() > 0


def test_scores_may_be_open_on_the_side_that_is_not_bet_against() -> None:
    rows = [Score(4.0, 0.0, math.inf, 30), Score(0.0, 0.0, math.inf, 100)]
    low, high = betting_interval(rows, 0.05, 0.0)
    assert 0.3 < low < 1
    assert high == 1.0


def test_scores_that_contradict_every_mean_give_the_end() -> None:
    assert betting_interval([Score(9.0, 0.0, math.inf, 200)], 0.05, 0.0)[0] == 1.0


def test_wealth_of_a_loss_of_everything_is_kept_by_smaller_bets() -> None:
    assert math.isfinite(log_wealth([Score(0.0, 0.0, 1.0, 50)], 0.5))
    assert log_wealth([Score(0.0, 0.0, 1.0, 50)], 0.5) < 0


@pytest.mark.parametrize(("value", "expected"), [(-0.8, (0.0, 0.0)), (1.9, (1.0, 1.0))])
def test_inverted_bernstein_far_outside_is_the_nearer_end(
    value: float, expected: tuple[float, float]
) -> None:
    assert bernstein_inverted(value, lambda a: 0.001 * a * (1 - a), 0.01, 0.025, 0.025) == expected


def test_tails_of_zero_leave_a_side_open() -> None:
    cells = [BinomialCell(50, 20), complementary(4, 60, 55)]
    for limits in (
        linear.exact(cells, 0.05, 0.0),
        linear.profile(cells, 0.05, 0.0),
        linear.wald(cells, 0.05, 0.0),
    ):
        assert limits.high == 1.0
        assert limits.low > 0
    assert clopper_pearson(5, 10, 0.0, 0.05)[0] == 0.0


def test_limits_that_cross_are_empty_and_never_reversed() -> None:
    assert linear.ordered(0.3, 0.4) == linear.Limits(0.3, 0.4)
    assert linear.ordered(0.3, 0.0) == linear.Limits(0.0, 0.0, empty=True)
    assert linear.ordered(1.0, 0.4) == linear.Limits(1.0, 1.0, empty=True)
    assert linear.ordered(-0.5, -1.0, -1.0) == linear.Limits(-1.0, -1.0, empty=True)
    assert linear.ordered(0.5, 0.25) == linear.Limits(0.375, 0.375, empty=True)


def test_estimate_of_zero_lies_in_its_interval() -> None:
    """Several samples share the estimate 0; the lower limit must not tell them apart."""
    cells = [BinomialCell(4, 0), complementary(3, 4, 4)]
    assert linear.maximum_likelihood(cells) == 0.0
    assert linear.exact(cells, 0.1, 0.1).low == 0.0
