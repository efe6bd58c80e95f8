"""Limits for a sum of rates over parts: defining equations by brute force, edges, width and speed.
Coverage is in tests/guarantees.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import time

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from noracle.bounds import binomial as linear
from noracle.bounds import parts
from noracle.bounds.binomial import BinomialCell, clopper_pearson, hypergeometric_limits
from noracle.bounds.parts import Part, predicted_width, sum_estimate, sum_limits, sum_profile

TAIL = 0.025


def complementary(k: int, n: int, s: int) -> BinomialCell:
    return BinomialCell(n, s, (k - 2) / (k - 1), 1 / (k - 1))


def questions(rng: np.random.Generator, k: int, n: int, rate: float) -> tuple[BinomialCell, ...]:
    """One uniform question per item: it hits the answer with probability 1/K, else it rules out
    another class or not.
    """
    hits = int(rng.binomial(n, 1 / k))
    cells = [BinomialCell(hits, int(rng.binomial(hits, rate)))]
    return (
        *cells,
        complementary(k, n - hits, int(rng.binomial(n - hits, 1 - (1 - rate) / (k - 1)))),
    )


def eight(seed: int = 0, n: int = 250) -> list[Part]:
    """Values of K from 3 to 10, more options harder, 2,000 labels."""
    rng = np.random.default_rng(seed)
    return [
        Part(1 / 8, questions(rng, k, n, rate))
        for k, rate in zip(range(3, 11), np.linspace(0.8, 0.55, 8), strict=True)
    ]


def width(limits: linear.Limits | parts.SumLimits) -> float:
    return limits.high - limits.low


# --- One part
# ----------------------------------------------------------------------------------------------------------------------------


def test_one_part_has_its_exact_limits_times_its_share() -> None:
    cells = (BinomialCell(30, 22), complementary(5, 100, 94))
    limits, alone = sum_limits([Part(0.8, cells)], TAIL, TAIL), linear.exact(cells, TAIL, TAIL)
    assert (limits.low, limits.high, limits.method) == (0.8 * alone.low, 0.8 * alone.high, "exact")


def test_one_part_of_known_size_is_hypergeometric() -> None:
    limits = sum_limits([Part(1.0, (BinomialCell(40, 30),), size=100)], TAIL, TAIL)
    assert (limits.low, limits.high) == hypergeometric_limits(30, 40, 100, TAIL, TAIL)
    assert limits.method == "hypergeometric"
    complement = (complementary(4, 40, 38),)
    assert sum_limits([Part(1.0, complement, size=100)], TAIL, TAIL).method == "exact"


def test_parts_labelled_completely_are_known() -> None:
    full, rest = (
        Part(0.6, (BinomialCell(60, 45),), size=60),
        Part(0.4, (BinomialCell(40, 20),), size=40),
    )
    limits = sum_limits([full, rest], TAIL, TAIL)
    assert limits.low == limits.high == pytest.approx(0.65)
    half = sum_limits([full, Part(0.4, (BinomialCell(20, 10),))], TAIL, TAIL)
    low, high = clopper_pearson(10, 20, TAIL, TAIL)
    assert (half.low, half.high) == pytest.approx((0.45 + 0.4 * low, 0.45 + 0.4 * high))
    assert sum_profile([full, rest], TAIL, TAIL) == linear.Limits(limits.low, limits.high)


# --- Two parts, exactly
# ------------------------------------------------------------------------------------------------------------------

PAIRS = {
    "ordinary": ((0.6, 9, None, 0.0, 1.0), (0.4, 6, None, 0.0, 1.0)),
    "one label": ((0.5, 8, None, 0.0, 1.0), (0.5, 1, None, 0.0, 1.0)),
    "ruled out": ((0.5, 10, None, 0.5, 0.5), (0.5, 8, None, 0.75, 0.25)),
    "a share of a third": ((0.33, 7, None, 0.0, 1.0), (0.33, 7, None, 0.0, 1.0)),
    "without replacement": ((0.5, 6, 10, 0.0, 1.0), (0.5, 5, 12, 0.0, 1.0)),
    "one finite": ((0.7, 8, 9, 0.0, 1.0), (0.3, 6, None, 0.8, 0.2)),
}


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("tail", [0.025, 0.1])
def test_two_parts_cover_whatever_their_rates(name: str, tail: float) -> None:
    """By enumeration of all counts; the rates on a grid and, without replacement, all that there
    are.
    """
    shapes = PAIRS[name]
    limits = {}
    for counts in itertools.product(*(range(n + 1) for _, n, *_ in shapes)):
        rows = [
            Part(q, (BinomialCell(n, s, a, b),), size)
            for (q, n, size, a, b), s in zip(shapes, counts, strict=True)
        ]
        found = parts._pair(parts._sorted(rows)[1], tail, tail)
        limits[counts] = (0.0, 0.0) if found.empty else (found.low, found.high)
    grids = [
        np.linspace(0, 1, 41) if size is None else np.arange(size + 1) / size
        for _, _, size, _, _ in shapes
    ]
    laws = [
        [
            binom.pmf(np.arange(n + 1), n, a + b * rate)
            if size is None
            else hypergeom.pmf(np.arange(n + 1), size, round(rate * size), n)
            for rate in grid
        ]
        for (_, n, size, a, b), grid in zip(shapes, grids, strict=True)
    ]
    low = np.array(
        [[limits[i, j][0] for j in range(shapes[1][1] + 1)] for i in range(shapes[0][1] + 1)]
    )
    high = np.array(
        [[limits[i, j][1] for j in range(shapes[1][1] + 1)] for i in range(shapes[0][1] + 1)]
    )
    for (i, first), (j, second) in itertools.product(enumerate(grids[0]), enumerate(grids[1])):
        theta, mass = shapes[0][0] * first + shapes[1][0] * second, np.outer(laws[0][i], laws[1][j])
        assert mass[low > theta + 1e-9].sum() <= tail + 1e-9
        assert mass[high < theta - 1e-9].sum() <= tail + 1e-9


def test_the_tail_of_two_parts_is_the_sum_over_both_counts() -> None:
    rows = [
        Part(0.6, (BinomialCell(40, 31),)),
        Part(0.4, (BinomialCell(25, 20, 0.75, 0.25),), None),
    ]
    law = parts._PairLaw(rows, [(0.0, 1.0), (0.0, 1.0)])
    seen = 0.6 / 40 * 31 + 0.4 / (25 * 0.25) * 20
    for first, second in ((0.7, 0.4), (0.2, 0.9), (1.0, 0.0)):
        mass = np.outer(
            binom.pmf(np.arange(41), 40, first), binom.pmf(np.arange(26), 25, 0.75 + 0.25 * second)
        )
        value = 0.6 / 40 * np.arange(41)[:, None] + 0.4 / (25 * 0.25) * np.arange(26)
        assert law.tail(np.array([first]), np.array([second]))[0] == pytest.approx(
            mass[value >= seen - 1e-9].sum(), rel=1e-6, abs=1e-9
        )


def test_two_parts_are_near_the_normal_limits_and_narrower_than_chernoff() -> None:
    for counts, size in (
        ((500, 400, 500, 250), None),
        ((500, 400, 500, 250), 1000),
        ((195, 185, 105, 25), None),
    ):
        rows = [
            Part(0.65, (BinomialCell(*counts[:2]),), size),
            Part(0.35, (BinomialCell(*counts[2:]),), size),
        ]
        limits, normal = sum_limits(rows, TAIL, TAIL), 2 * 1.96 * math.sqrt(sum_estimate(rows)[1])
        assert limits.method == "exact for two parts"
        assert width(limits) <= 1.27 * normal
        assert width(limits) <= 0.76 * width(parts._profile(rows, TAIL, TAIL, 0.7))


def test_the_order_of_two_parts_does_not_matter() -> None:
    one, two = Part(0.6, (BinomialCell(40, 31),)), Part(0.4, (complementary(5, 100, 90),))
    assert sum_limits([one, two], TAIL, TAIL) == sum_limits([two, one], TAIL, TAIL)


# --- Several parts
# -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [0.2, 0.5, 0.8, 0.95])
def test_moments_of_the_relative_entropy_are_those_of_an_exponential(t: float) -> None:
    for n in (1, 2, 5, 30, 200):
        counts = np.arange(n + 1)
        for p in (1e-4, 0.01, 0.1, 0.3, 0.5):
            entropy = np.array([parts.relative_entropy(k / n, p) for k in counts])
            assert float(np.exp(binom.logpmf(counts, n, p) + t * n * entropy).sum()) <= 1 / (1 - t)


def test_confining_set_spends_its_error() -> None:
    for kinds, error in ((2, 0.001), (15, 0.001), (300, 1e-6)):
        c = parts._reach(kinds, error)
        assert c > kinds
        assert math.exp(kinds - c) * (c / kinds) ** kinds == pytest.approx(error, rel=1e-6)


def worst_exponent(sums: parts._Sums, m: float, reach: float, grid: np.ndarray) -> float:
    """Sup over rates on a fine grid, with Σ qA <= m and inside the set, of the Chernoff exponent at
    its best λ.
    """
    best = -math.inf
    bets = np.geomspace(0.5, 200, 400)
    for rates in itertools.product(grid, repeat=len(sums.share)):
        if np.dot(sums.share, rates) > m:
            continue
        p = sums.a + sums.b * np.array(rates)[:, None]
        seen = sums.successes / np.maximum(sums.n, 1)
        distance = sum(
            n * parts.relative_entropy(float(s), float(x))
            for n, s, x in zip(sums.n.flat, seen.flat, p.flat, strict=True)
            if n
        )
        if distance > reach:
            continue
        moment = np.log1p(p[..., None] * np.expm1(bets * sums.unit[..., None])) * sums.n[..., None]
        drift = float(np.sum(sums.unit * sums.n * sums.a)) + sums.statistic()
        best = max(best, float((moment.sum(axis=(0, 1)) - bets * drift).min()))
    return best


@pytest.mark.parametrize(
    "cells",
    [
        [(BinomialCell(30, 21),), (BinomialCell(20, 8),)],
        [(BinomialCell(12, 9), complementary(4, 30, 28)), (BinomialCell(25, 10),)],
    ],
)
def test_lower_limit_solves_the_profile_equation(cells: list[tuple[BinomialCell, ...]]) -> None:
    """Below the limit every allowed pair of rates is rejected; a little above it one is not."""
    rows = [Part(share, c) for share, c in zip((0.6, 0.4), cells, strict=True)]
    sums = parts._arrays(rows, 0.7)
    limit = parts._lower_limit(sums, 0.05)
    assert limit is not None
    reach = parts._reach(sum(len(c) for c in cells), parts.CONFINED * 0.05)
    grid, wanted = np.linspace(0.01, 0.99, 99), math.log(0.05 * (1 - parts.CONFINED))
    assert worst_exponent(sums, limit, reach, grid) <= wanted
    assert worst_exponent(sums, limit + 0.02, reach, grid) > wanted


def test_bound_is_never_below_the_true_tail() -> None:
    """The true P(T >= t), maximised over a grid of rates with the limit as their sum, is at most
    the error.
    """
    shape = ((0.55, 5), (0.45, 6))
    for counts in itertools.product(range(6), range(7)):
        rows = [Part(q, (BinomialCell(n, s),)) for (q, n), s in zip(shape, counts, strict=True)]
        limit = parts._profile(rows, 0.1, 0.0, 0.7).low
        statistic = sum(q * s / n for (q, n), s in zip(shape, counts, strict=True))
        assert (limit == 0) or statistic > 0
        for first in np.linspace(0, 1, 41):
            second = (limit - 0.55 * first) / 0.45
            if limit > 0 and 0 <= second <= 1:
                tail = sum(
                    binom.pmf(x, 5, first)
                    * binom.sf(
                        math.ceil((statistic - 0.55 * x / 5) * 6 / 0.45 - 1e-9) - 1, 6, second
                    )
                    for x in range(6)
                )
                outside = 5 * parts.relative_entropy(
                    counts[0] / 5, first
                ) + 6 * parts.relative_entropy(counts[1] / 6, second)
                assert tail <= 0.1 or outside > parts._reach(2, 0.004)


def test_width_is_near_the_chernoff_constant() -> None:
    """√(2·log(1/0.024))/1.96 = 1.39 times the normal limits of the same statistic."""
    for seed in range(3):
        rows = eight(seed)
        value, variance = sum_estimate(rows)
        limits, normal = sum_limits(rows, TAIL, TAIL), 2 * 1.96 * math.sqrt(variance)
        assert limits.method == "profile"
        assert limits.low < value < limits.high
        assert 1.3 * normal < width(limits) <= 1.45 * normal


def test_width_of_parts_that_differ_stays_moderate() -> None:
    rng = np.random.default_rng(5)
    for rates in (np.linspace(0.55, 0.8, 8), rng.uniform(0.3, 0.95, 8)):
        rows = [
            Part(1 / 8, questions(rng, k, 250, rate))
            for k, rate in zip(range(3, 11), rates, strict=True)
        ]
        assert width(sum_limits(rows, TAIL, TAIL)) <= 1.6 * 2 * 1.96 * math.sqrt(
            sum_estimate(rows)[1]
        )


def test_box_of_intervals_is_far_wider() -> None:
    rows = eight()
    box = sum(part.share * width(linear.exact(part.cells, TAIL / 8, TAIL / 8)) for part in rows)
    assert width(sum_limits(rows, TAIL, TAIL)) < 0.45 * box


@pytest.mark.parametrize("n", [200, 1000, 20_000])
def test_one_item_of_another_kind_costs_nearly_nothing(n: int) -> None:
    alone = Part(1.0, (BinomialCell(n, round(0.7 * n)),))
    main = dataclasses.replace(alone, share=n / (n + 1))
    limits = sum_limits([main, Part(1 / (n + 1), (complementary(10, 1, 1),))], TAIL, TAIL)
    assert limits.method in {"exact for the largest part", "exact for two parts"}
    assert width(limits) <= 1.05 * width(sum_limits([alone], TAIL, TAIL))


def test_small_parts_beside_a_large_one_cost_little() -> None:
    rows = [
        Part(0.9, (BinomialCell(1800, 1260),)),
        Part(0.06, (BinomialCell(120, 80),)),
        Part(0.04, (BinomialCell(80, 60),)),
    ]
    limits = sum_limits(rows, TAIL, TAIL)
    assert width(limits) <= 1.42 * 2 * 1.96 * math.sqrt(sum_estimate(rows)[1])


def test_method_depends_on_the_design_only() -> None:
    rng = np.random.default_rng(2)
    shapes = [
        [(0.97, 900), (0.03, 20)],
        [(0.5, 100), (0.3, 80), (0.2, 60)],
        [(0.8, 500), (0.15, 20), (0.05, 3)],
    ]
    for shape in shapes:
        found = {
            sum_limits(
                [Part(q, (BinomialCell(n, int(rng.integers(n + 1))),)) for q, n in shape],
                TAIL,
                TAIL,
            ).method
            for _ in range(20)
        }
        assert len(found) == 1


def test_predicted_width_is_near_the_width_at_the_guess() -> None:
    rng = np.random.default_rng(3)
    for rows in (
        [Part(1 / 8, questions(rng, k, 250, 0.7)) for k in range(3, 11)],
        [Part(1 / 40, (BinomialCell(40, 28),)) for _ in range(40)],
        [Part(0.6, (BinomialCell(300, 210),)), Part(0.4, (BinomialCell(100, 70),))],
        [Part(0.98, (BinomialCell(980, 686),)), Part(0.02, (BinomialCell(20, 14),))],
        [Part(1.0, (BinomialCell(100, 70),), size=300)],
    ):
        assert predicted_width(rows, TAIL, TAIL, guess=0.7) == pytest.approx(
            width(sum_limits(rows, TAIL, TAIL)), rel=0.12
        )


def test_prediction_does_not_look_at_successes() -> None:
    rows = eight()
    emptied = [
        Part(p.share, tuple(dataclasses.replace(c, successes=0) for c in p.cells)) for p in rows
    ]
    assert predicted_width(rows, TAIL, TAIL, blind=0.1) == predicted_width(
        emptied, TAIL, TAIL, blind=0.1
    )


def test_order_of_parts_and_cells_changes_nothing() -> None:
    rows = eight()
    turned = [Part(p.share, p.cells[::-1]) for p in rows]
    random.Random(1).shuffle(turned)
    assert sum_limits(turned, TAIL, TAIL) == sum_limits(rows, TAIL, TAIL)
    equal = [Part(0.5, (BinomialCell(30, 25),)), Part(0.5, (BinomialCell(30, 5),))]
    assert sum_limits(equal, TAIL, TAIL) == sum_limits(equal[::-1], TAIL, TAIL)
    assert sum_estimate(turned) == pytest.approx(sum_estimate(rows), rel=1e-12)
    assert sum_profile(turned, TAIL, TAIL) == sum_profile(rows, TAIL, TAIL)


@pytest.mark.parametrize("seed", range(4))
def test_more_confidence_is_never_narrower(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(5))
    rows = [
        Part(float(q), questions(rng, 4, int(rng.integers(1, 80)), rng.uniform())) for q in shares
    ]
    last = linear.Limits(0.6, 0.4)
    for tail in (0.25, 0.1, 0.05, 0.025, 0.005, 1e-4, 1e-8):
        limits = sum_limits(rows, tail, tail)
        assert (
            limits.empty
            or last.low > last.high
            or (limits.low <= last.low + 2e-5 and limits.high >= last.high - 2e-5)
        )
        last = linear.Limits(limits.low, limits.high)


def test_successes_and_failures_mirror() -> None:
    rows = [
        Part(0.5, (BinomialCell(60, 50), BinomialCell(40, 30, 0.3, 0.5))),
        Part(0.3, (BinomialCell(50, 10),)),
        Part(0.2, (BinomialCell(9, 9),)),
    ]
    mirrored = [
        Part(
            p.share,
            tuple(BinomialCell(c.n, c.n - c.successes, 1 - c.a - c.b, c.b) for c in p.cells),
        )
        for p in rows
    ]
    limits, other = (
        sum_limits(rows, 0.01, 0.04, guess=0.6),
        sum_limits(mirrored, 0.04, 0.01, guess=0.4),
    )
    assert (other.low, other.high) == pytest.approx((1 - limits.high, 1 - limits.low), abs=1e-6)


# --- Edges
# -------------------------------------------------------------------------------------------------------------------------------


def test_share_without_labels_is_open() -> None:
    rows = eight()
    limits = sum_limits(rows, TAIL, TAIL)
    for more in (
        sum_limits(rows, TAIL, TAIL, blind=0.2),
        sum_limits([*rows, Part(0.2, ())], TAIL, TAIL),
    ):
        assert (more.low, more.high) == pytest.approx((limits.low, limits.high + 0.2))
    assert sum_limits([], TAIL, TAIL, blind=1.0) == parts.SumLimits(0.0, 1.0, False, "exact")
    assert sum_profile([Part(0.5, (BinomialCell(0, 0),))], TAIL, TAIL, blind=0.5) == linear.Limits(
        0.0, 1.0
    )
    assert predicted_width([], TAIL, TAIL, blind=0.3) == 0.3
    assert all(math.isnan(x) for x in sum_estimate([Part(1.0, ())]))


def test_tails_of_zero_leave_a_side_open() -> None:
    rows = eight()
    both = sum_limits(rows, TAIL, TAIL)
    assert sum_limits(rows, TAIL, 0.0).high == pytest.approx(1.0)
    assert sum_limits(rows, 0.0, TAIL).low == 0.0
    assert sum_limits(rows, TAIL, 0.0).low == both.low
    assert sum_limits(rows, 0.0, TAIL).high == both.high
    assert sum_profile(rows, 0.0, TAIL).low == 0.0


@pytest.mark.parametrize("right", [False, True])
def test_all_right_and_all_wrong(right: bool) -> None:
    rows = [
        Part(q, (BinomialCell(n, n if right else 0),))
        for q, n in ((0.5, 200), (0.3, 120), (0.2, 3))
    ]
    for limits in (sum_limits(rows, TAIL, TAIL), sum_profile(rows, TAIL, TAIL)):
        end = limits.high if right else limits.low
        assert end == pytest.approx(float(right), abs=1e-8)
        assert 0.001 < width(limits) < 0.3  # at most what the 3 labels leave open and a little more


def test_one_label_in_each_part() -> None:
    rows = [Part(1 / 50, (BinomialCell(1, int(i < 35)),)) for i in range(50)]
    limits = sum_limits(rows, TAIL, TAIL)
    assert 0.4 < limits.low < 0.7 < limits.high < 0.95


def test_counts_that_no_rates_explain_are_empty() -> None:
    rows = [
        Part(0.5, (BinomialCell(200, 0), complementary(4, 300, 299))),
        Part(0.5, (BinomialCell(100, 60),)),
    ]
    assert sum_limits(rows, TAIL, TAIL).empty
    low = [Part(0.5, (complementary(10, 300, 200),)), Part(0.5, (BinomialCell(100, 60),))]
    assert sum_limits(low, TAIL, TAIL).empty


def test_very_unequal_parts_and_many_labels_stay_finite() -> None:
    rows = [
        Part(0.3, (BinomialCell(1, 1),)),
        Part(0.699, (BinomialCell(10_000_000, 6_000_000),)),
        Part(0.001, (complementary(1000, 2, 2),)),
    ]
    limits = sum_limits(rows, TAIL, TAIL)
    assert 0.4 < limits.low < 0.43
    assert 0.71 < limits.high <= 0.73


# --- Estimates and the asymptotic line
# ---------------------------------------------------------------------------------------------------


def test_estimate_is_the_weighted_maximum_and_its_variance() -> None:
    rows = [Part(0.6, (BinomialCell(50, 40),)), Part(0.3, (BinomialCell(20, 5),), size=40)]
    value, variance = sum_estimate(rows)
    assert value == pytest.approx(0.6 * 0.8 + 0.3 * 0.25)
    assert variance == pytest.approx(0.36 * 0.8 * 0.2 / 50 + 0.09 * 0.25 * 0.75 / 20 * (20 / 39))


def test_variance_is_that_of_the_statistic() -> None:
    rng = np.random.default_rng(4)
    rows = [
        Part(0.7, (BinomialCell(40, 28), complementary(4, 90, 81))),
        Part(0.3, (BinomialCell(30, 12),)),
    ]
    rates = [linear.maximum_likelihood(p.cells) for p in rows]
    draws = []
    for _ in range(4000):
        drawn = [
            Part(
                p.share,
                tuple(
                    dataclasses.replace(c, successes=int(rng.binomial(c.n, c.p(rate))))
                    for c in p.cells
                ),
            )
            for p, rate in zip(rows, rates, strict=True)
        ]
        draws.append(parts._arrays(drawn, 0.7).statistic())
    value, variance = sum_estimate(rows)
    assert np.mean(draws) == pytest.approx(value, abs=4 * math.sqrt(variance / 4000))
    assert np.var(draws) == pytest.approx(variance, rel=0.1)


def test_profile_of_one_part_is_the_profile_of_its_cells() -> None:
    cells = (BinomialCell(30, 22), complementary(5, 100, 94))
    found, alone = sum_profile([Part(0.5, cells)], TAIL, TAIL), linear.profile(cells, TAIL, TAIL)
    assert (found.low, found.high) == pytest.approx((0.5 * alone.low, 0.5 * alone.high), abs=1e-6)


def test_profile_solves_the_constrained_likelihood_ratio() -> None:
    rows = [Part(0.6, (BinomialCell(60, 42),)), Part(0.4, (BinomialCell(30, 9),))]
    low = sum_profile(rows, TAIL, TAIL).low
    first = np.linspace(0.001, 0.999, 20_001)
    second = (low - 0.6 * first) / 0.4
    first, second = first[(second > 0) & (second < 1)], second[(second > 0) & (second < 1)]
    on_slice = (
        42 * np.log(first) + 18 * np.log1p(-first) + 9 * np.log(second) + 21 * np.log1p(-second)
    )
    top = linear.log_likelihood((BinomialCell(60, 42),), 0.7) + linear.log_likelihood(
        (BinomialCell(30, 9),), 0.3
    )
    assert 2 * (top - on_slice.max()) == pytest.approx(1.959964**2, abs=1e-4)


def test_profile_is_as_narrow_as_the_normal_limits() -> None:
    rows = eight()
    assert width(sum_profile(rows, TAIL, TAIL)) == pytest.approx(
        2 * 1.96 * math.sqrt(sum_estimate(rows)[1]), rel=0.03
    )


@pytest.mark.full
@pytest.mark.timing
def test_limits_are_fast() -> None:
    """8 parts in 8 ms and 107 in 150 ms on an idle machine; three times as much here."""
    rng = np.random.default_rng(6)
    many = [Part(1 / 107, questions(rng, 2 + i % 9 + 1, 50, 0.7)) for i in range(107)]
    for rows, most in ((eight(), 0.024), (many, 0.45)):
        took = []
        for _ in range(5):
            start = time.perf_counter()
            sum_limits(rows, TAIL, TAIL)
            took.append(time.perf_counter() - start)
        assert min(took) < most
