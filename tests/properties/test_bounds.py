"""Properties of the limits that hold for all counts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binom

from noracle.bounds import binomial as linear
from noracle.bounds.betting import Score, betting_interval, log_wealth
from noracle.bounds.binomial import (
    BinomialCell,
    bernstein_inverted,
    bernstein_radius,
    clopper_pearson,
    hoeffding_radius,
)

SLACK = 1e-9
NODES, WEIGHTS = np.polynomial.legendre.leggauss(300)


@st.composite
def counted(draw: st.DrawFn, most: int = 60, least: int = 0) -> tuple[int, int]:
    n = draw(st.integers(least, most))
    return n, draw(st.integers(0, n))


@st.composite
def cells(draw: st.DrawFn, most: int = 60) -> tuple[BinomialCell, ...]:
    """An ordinary and a complementary cell, at least one label."""
    k = draw(st.integers(2, 20))
    m = draw(st.integers(1, k - 1))
    (n_o, s_o), (n_c, s_c) = draw(counted(most)), draw(counted(most))
    assume(n_o + n_c > 0)
    b = m / (k - 1)
    return BinomialCell(n_o, s_o), BinomialCell(n_c, s_c, 1 - b, b) if b < 1 else BinomialCell(
        n_c, s_c
    )


tails = st.sampled_from([0.1, 0.025, 0.005, 1e-4])


@given(cells(), tails)
def test_exact_limits_are_ordered_and_contain_the_maximum_of_the_likelihood(
    pair: tuple[BinomialCell, ...], tail: float
) -> None:
    limits = linear.exact(pair, tail, tail)
    value = linear.maximum_likelihood(pair)
    assert 0 <= limits.low <= limits.high <= 1
    if not limits.empty:
        assert limits.low - SLACK <= value <= limits.high + SLACK
    else:
        assert limits.low == limits.high


@given(cells(), tails)
def test_exact_limits_do_not_fall_with_another_success(
    pair: tuple[BinomialCell, ...], tail: float
) -> None:
    before = linear.exact(pair, tail, tail)
    for i, c in enumerate(pair):
        if c.successes < c.n:
            more = list(pair)
            more[i] = BinomialCell(c.n, c.successes + 1, c.a, c.b)
            after = linear.exact(more, tail, tail)
            assert after.low >= before.low - SLACK
            assert after.high >= before.high - SLACK


@given(cells(), st.sampled_from([(0.1, 0.05), (0.05, 0.01), (0.01, 1e-4)]))
def test_more_confidence_is_never_narrower(
    pair: tuple[BinomialCell, ...], errors: tuple[float, float]
) -> None:
    for function in (linear.exact, linear.profile):
        wide, narrow = (function(pair, e / 2, e / 2) for e in reversed(errors))
        assert wide.low <= narrow.low + SLACK
        assert wide.high >= narrow.high - SLACK
    wide, narrow = (linear.anytime(pair, e) for e in reversed(errors))
    assert wide.low <= narrow.low + SLACK
    assert wide.high >= narrow.high - SLACK


@given(cells(), st.floats(0, 1))
def test_maximum_of_the_likelihood_beats_every_other_rate(
    pair: tuple[BinomialCell, ...], other: float
) -> None:
    merged = linear.merge(pair)
    top = linear.log_likelihood(merged, linear.maximum_likelihood(merged))
    assert top >= linear.log_likelihood(merged, other) - 1e-9 * (1 + abs(top))


@given(cells(most=200))
def test_closed_form_and_bisection_agree(pair: tuple[BinomialCell, ...]) -> None:
    merged = linear.merge(pair)
    value = linear.maximum_likelihood(merged)
    # A cell without trials of another kind forces the general way.
    if 0 < value < 1:
        slope = linear._slope(merged, value)
        information = linear.information(merged, value)
        assert abs(slope) <= 1e-6 * information
    else:
        assert (
            (linear._slope(merged, 0.0) <= 0) if value == 0 else (linear._slope(merged, 1.0) >= 0)
        )


@given(cells(most=12), st.floats(0.01, 0.99))
def test_two_cell_tails_equal_double_sums(pair: tuple[BinomialCell, ...], rate: float) -> None:
    """The lower limit lies above ``rate`` exactly when P(estimate at least as large), summed over
    all samples, is below the tail.
    """
    merged = linear.merge(pair)
    assume(len(merged) == 2)
    value = linear.maximum_likelihood(merged)
    at = min(max(value, 1e-9), 1 - 1e-9)
    weights = [c.b / (c.p(at) * (1 - c.p(at))) for c in merged]
    observed = sum(w * c.successes for w, c in zip(weights, merged, strict=True))
    upper = lower = 0.0
    chances = [binom.pmf(np.arange(c.n + 1), c.n, c.p(rate)) for c in merged]
    for s0, s1 in itertools.product(range(merged[0].n + 1), range(merged[1].n + 1)):
        p = float(chances[0][s0] * chances[1][s1])
        statistic = weights[0] * s0 + weights[1] * s1
        tie = 1e-9 * abs(observed) + 1e-12
        upper += p * (statistic >= observed - tie)
        lower += p * (statistic <= observed + tie)
        # The same order as the estimates themselves.
        if 0 < value < 1:
            estimate = linear.maximum_likelihood(
                [BinomialCell(c.n, s, c.a, c.b) for c, s in zip(merged, (s0, s1), strict=True)]
            )
            assert (estimate >= value - 1e-9) == (statistic >= observed - tie) or abs(
                estimate - value
            ) < 1e-6
    if value <= 0:
        upper = 1.0  # every estimate is at least 0
    tail = 0.025
    limits = linear.exact(merged, tail, tail)
    if abs(upper - tail) > 1e-9 and not limits.empty:
        assert (limits.low > rate) == (upper < tail)
    if abs(lower - tail) > 1e-9 and not limits.empty:
        assert (limits.high < rate) == (lower < tail)


@given(counted(most=500, least=1), tails)
def test_clopper_pearson_solves_its_defining_equations(count: tuple[int, int], tail: float) -> None:
    n, s = count
    low, high = clopper_pearson(s, n, tail, tail)
    assert 0 <= low <= s / n <= high <= 1
    if s:
        assert float(binom.sf(s - 1, n, low)) == pytest.approx(tail, rel=1e-6)
    if s < n:
        assert float(binom.cdf(s, n, high)) == pytest.approx(tail, rel=1e-6)


@given(cells(), tails)
def test_anytime_contains_the_profile_interval_and_the_maximum(
    pair: tuple[BinomialCell, ...], tail: float
) -> None:
    """The mixture is at most the maximum, so E(A) < 1/error keeps all A with likelihood ratio below
    1/error.
    """
    error = 2 * tail
    limits = linear.anytime(pair, error)
    merged = linear.merge(pair)
    value = linear.maximum_likelihood(merged)
    top = linear.log_likelihood(merged, value)
    assert 0 <= limits.low <= value <= limits.high <= 1
    for rate in np.linspace(0.001, 0.999, 23):
        if top - linear.log_likelihood(merged, float(rate)) < math.log(1 / error) - 1e-9:
            assert limits.low <= rate <= limits.high


@given(cells(), st.sampled_from([0.05, 0.01]))
def test_anytime_level_equals_brute_force_mixture(
    pair: tuple[BinomialCell, ...], error: float
) -> None:
    merged = linear.merge(pair)
    limits = linear.anytime(merged, error)
    rates = (NODES + 1) / 2
    logs = np.zeros_like(rates)
    for c in merged:
        logs += c.successes * np.log(c.a + c.b * rates) + (c.n - c.successes) * np.log(
            1 - c.a - c.b * rates
        )
    mixture = logs.max() + math.log(float(np.dot(WEIGHTS / 2, np.exp(logs - logs.max()))))
    for limit in (limits.low, limits.high):
        if 0 < limit < 1:
            assert mixture - linear.log_likelihood(merged, limit) == pytest.approx(
                math.log(1 / error), abs=1e-5
            )


@st.composite
def scores(draw: st.DrawFn) -> list[Score]:
    low = draw(st.sampled_from([0.0, -2.0, -8.0]))
    values = draw(
        st.lists(st.sampled_from([low, 0.0, 0.5, 1.0]), min_size=1, max_size=4, unique=True)
    )
    return [Score(v, low, 1.0, draw(st.integers(1, 200))) for v in values]


@given(scores(), tails)
def test_betting_limits_are_ordered_and_solve_for_the_wealth(
    rows: list[Score], tail: float
) -> None:
    low, high = betting_interval(rows, tail, tail)
    assert 0 <= low <= 1
    assert 0 <= high <= 1
    goal = math.log(1 / tail)
    if 1e-6 < low < 1 - 1e-6:
        assert log_wealth(rows, low - 1e-7) >= goal >= log_wealth(rows, low + 1e-7)
    mirrored = [Score(-s.value, -s.high, -s.low, s.n) for s in rows]
    if 1e-6 < high < 1 - 1e-6:
        assert log_wealth(mirrored, -high - 1e-7) >= goal >= log_wealth(mirrored, -high + 1e-7)


@given(scores(), tails)
def test_betting_limits_do_not_fall_when_a_score_rises(rows: list[Score], tail: float) -> None:
    before = betting_interval(rows, tail, tail)
    first = rows[0]
    after = betting_interval(
        [
            Score(first.high, first.low, first.high, 1),
            Score(first.value, first.low, first.high, first.n - 1),
            *rows[1:],
        ],
        tail,
        tail,
    )
    assert after[0] >= before[0] - SLACK
    assert after[1] >= before[1] - SLACK


@given(scores())
def test_betting_is_never_narrower_with_more_confidence(rows: list[Score]) -> None:
    wide, narrow = (betting_interval(rows, tail, tail) for tail in (0.005, 0.05))
    assert wide[0] <= narrow[0] + SLACK
    assert wide[1] >= narrow[1] - SLACK


@given(st.floats(0.01, 0.99), st.integers(1, 12), st.sampled_from([0.0, -3.0]))
def test_wealth_has_mean_one_at_the_true_mean(mean: float, n: int, low: float) -> None:
    """All samples of n two-valued scores, enumerated."""
    p = (mean - low) / (1 - low)
    total = sum(
        float(binom.pmf(s, n, p))
        * math.exp(log_wealth([Score(1.0, low, 1.0, s), Score(low, low, 1.0, n - s)], mean))
        for s in range(n + 1)
    )
    assert total == pytest.approx(1.0, rel=1e-9)


@given(counted(most=400, least=2), tails)
def test_deviation_bounds_shrink_with_n_and_grow_with_confidence(
    count: tuple[int, int], tail: float
) -> None:
    n, s = count
    assert hoeffding_radius(n, tail) > hoeffding_radius(n + 1, tail) > 0
    assert hoeffding_radius(n, tail / 2) > hoeffding_radius(n, tail)
    assert bernstein_radius(s / n, n, tail) > bernstein_radius(s / n, n + 1, tail) > 0
    assert hoeffding_radius(0, tail) == bernstein_radius(0.5, 1, tail) == math.inf


@given(st.floats(-0.5, 1.5), st.floats(0, 0.3), st.floats(1e-4, 0.2), tails)
def test_inverted_bernstein_is_an_interval_in_the_unit_interval(
    value: float, spread: float, scale: float, tail: float
) -> None:
    low, high = bernstein_inverted(value, lambda a: spread * a * (1 - a), scale, tail, tail)
    assert 0 <= low <= high <= 1
    if 0 <= value <= 1:
        assert low <= value <= high
