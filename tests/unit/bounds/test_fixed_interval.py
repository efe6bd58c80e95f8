"""Limits at a fixed number of scores: valid, much narrower than the mixture, by bets that aim at
what is left to win.
"""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from noracle.bounds import betting
from noracle.bounds.betting import Score, betting_interval, fixed_interval

TAIL = 0.025


def rows(values: np.ndarray, low: float, high: float) -> list[Score]:
    distinct, counts = np.unique(values, return_counts=True)
    return [Score(float(v), low, high, int(c)) for v, c in zip(distinct, counts, strict=True)]


def draw(law: str, n: int, rng: np.random.Generator) -> list[Score]:
    name, *numbers = law.split()
    if name == "bernoulli":
        return rows((rng.random(n) < float(numbers[0])).astype(float), 0.0, 1.0)
    if name == "complementary":
        k, a = int(numbers[0]), float(numbers[1])
        return rows(1 - (k - 1.0) * (rng.random(n) < (1 - a) / (k - 1)), 2.0 - k, 1.0)
    return rows(rng.beta(float(numbers[0]), float(numbers[1]), n), 0.0, 1.0)


def mean(law: str) -> float:
    name, *numbers = law.split()
    if name == "beta":
        return float(numbers[0]) / (float(numbers[0]) + float(numbers[1]))
    return float(numbers[-1])


LAWS = [
    "bernoulli 0.7",
    "bernoulli 0.98",
    "complementary 4 0.5",
    "complementary 10 0.9",
    "beta 0.5 4.5",
    "beta 10 1",
]


def misses(law: str, n: int, worlds: int, tail: float = 0.1) -> tuple[int, int]:
    """How often the true mean is below the lower and above the upper limit."""
    rng = np.random.default_rng(n)
    limits = np.array(
        [fixed_interval(draw(law, n, rng), tail, tail, orders=8) for _ in range(worlds)]
    )
    return int(np.sum(mean(law) < limits[:, 0])), int(np.sum(mean(law) > limits[:, 1]))


@pytest.mark.thin(6)
@pytest.mark.parametrize("law", LAWS)
def test_each_limit_misses_at_most_its_error(law: str) -> None:
    for count in misses(law, 60, 150):
        assert binomtest(count, 150, 0.1, alternative="greater").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 300])
@pytest.mark.parametrize("law", LAWS)
def test_each_limit_misses_at_most_its_error_in_2000_worlds(law: str, n: int) -> None:
    for count in misses(law, n, 2000):
        assert binomtest(count, 2000, 0.1, alternative="greater").pvalue > 1e-3


def bets_in(
    order: np.ndarray, value: list[float], low: list[float], far: list[float]
) -> betting._Bets:
    """The bets on scores that come in these orders."""
    columns = (np.array(x) for x in (value, [1.0] * len(value), low, far))
    return betting._Bets(order, *columns, TAIL)


def expected_wealth(
    values: list[float], chances: list[float], n: int, mean_: float, low: float
) -> float:
    """Of one order of n independent scores, by enumeration."""
    places = np.array(list(itertools.product(range(len(values)), repeat=n)))
    size = len(values)
    total = 0.0
    for order in places:
        bets = bets_in(order[None], values, [low] * size, [1.0] * size)
        total += float(np.prod(np.array(chances)[order])) * math.exp(
            bets.log_wealth(np.array([mean_]))[0]
        )
    return total


@pytest.mark.parametrize(
    ("n", "low", "chances"),
    [
        (5, 0.0, [0.3, 0.7]),
        (8, -2.0, [0.3, 0.7]),
        (8, -8.0, [0.05, 0.95]),
        (5, 0.0, [0.5, 0.2, 0.3]),
    ],
)
def test_expected_wealth_is_one_at_the_mean_by_enumeration(
    n: int, low: float, chances: list[float]
) -> None:
    """One order of independent scores is as good as any, so the expectation of each order's wealth
    is exactly 1 at the mean, and less against a smaller mean.
    """
    values = [low, 1.0] if len(chances) == 2 else [low, 0.4, 1.0]
    mean_ = float(np.dot(values, chances))
    assert expected_wealth(values, chances, n, mean_, low) == pytest.approx(1.0, abs=1e-9)
    assert expected_wealth(values, chances, n, mean_ + 0.05, low) < 1


@pytest.mark.parametrize(
    "population",
    [
        (0, 1),
        (0, 0, 1),
        (0, 0, 0, 0, 1),
        (0, 1, 1, 1, 1),
        (0, 0, 1, 1, 1),
        (0, 0.4, 0.5, 1, 1),
        (0, 0.9, 1, 1, 1, 1),
    ],
)
def test_expected_wealth_is_no_larger_without_replacement(population: tuple[float, ...]) -> None:
    """By enumeration of all orders of a small population, of which all or all but one are drawn: a
    sum that is low so far makes the next score larger, and the bets do not profit from it.
    """
    values = sorted(set(population))
    orders = {tuple(values.index(x) for x in order) for order in itertools.permutations(population)}
    for n in (len(population) - 1, len(population)):
        found = bets_in(
            np.array([order[:n] for order in orders]),
            values,
            [0.0] * len(values),
            [1.0] * len(values),
        ).log_wealth(np.array([np.mean(population)]))
        assert math.exp(found[0]) <= 1 + 1e-9


def test_the_limit_is_the_last_rejected_place_of_the_first_cell_that_is_kept() -> None:
    """All means of a cell have the bets against its upper end, so the wealth falls in the cell, and
    every mean below the limit is rejected by bets of its own cell.
    """
    evidence = draw("beta 2 2", 150, np.random.default_rng(3))
    low = fixed_interval(evidence, TAIL, 0.0)[0]
    values, _, _, n = betting._columns(evidence)
    rng = np.random.default_rng(0)
    rows_ = np.repeat(np.arange(len(n)), n.astype(int))
    order = np.stack([rng.permutation(rows_) for _ in range(213)])
    zero, one = np.zeros(len(n)), np.ones(len(n))
    bets = betting._Bets(order, values, one, zero, one, TAIL * 63 / 64)
    goal = math.log(1 / bets.tail)
    cell = 1 / (betting._CELLS * math.sqrt(150))
    place = math.floor(low / cell + 1e-9)
    ends = bets.log_wealth(cell * np.arange(place - 8, place + 2))
    assert np.all(ends[:-1] >= goal)
    assert ends[-1] < goal
    inside = bets.log_wealth(cell * (place + np.arange(17) / 16), lead=len(ends) - 1)
    assert np.all(np.diff(inside) < 0)
    last = int(np.sum(inside[1:] >= goal))
    assert low == pytest.approx(cell * (place + last / 16), abs=1e-12)


def test_bets_know_nothing_of_later_scores() -> None:
    rng = np.random.default_rng(0)
    for n in (200, 1300):  # revised at every step, and at every seventh
        order = rng.integers(0, 2, (2, n))
        other = order.copy()
        other[:, n // 2 :] = 1 - other[:, n // 2 :]
        one, two = (bets_in(x, [0.0, 1.0], [0.0, 0.0], [1.0, 1.0]) for x in (order, other))
        logs = rng.normal(size=(3, 2))
        half = int(np.searchsorted(one.starts, n // 2, side="right"))
        for step in range(len(one.starts)):
            same = np.array_equal(one.bets(step, logs, 9), two.bets(step, logs, 9))
            assert same == (step < half) or step == len(one.starts) - 1


def test_orders_that_won_bet_no_more() -> None:
    """What one order does may not depend on the others: each stops at its own goal."""
    order = np.random.default_rng(5).permuted(
        np.tile(np.arange(2).repeat([10, 90]), (6, 1)), axis=1
    )
    parts = ([0.0, 1.0], [0.0, 0.0], [1.0, 1.0])
    at = np.array([0.5, 0.6, 0.8])
    alone = np.stack([bets_in(row[None], *parts).log_wealth(at) for row in order])
    assert np.log(np.exp(alone).mean(axis=0)) == pytest.approx(
        bets_in(order, *parts).log_wealth(at)
    )


@pytest.mark.parametrize("orders", [8, 12])
@pytest.mark.parametrize(
    ("low", "weight"),
    [
        ([-3.0, -3.0, -3.0], [1.0, 1.0, 1.0]),
        ([-3.0, -1.0, -3.0], [1.0, 1.0, 1.0]),
        ([-3.0, -3.0, -3.0], [1.0, 0.4, 0.7]),
    ],
    ids=["one range", "two ranges", "weights"],
)
def test_scores_that_are_counted_win_as_much_as_scores_one_by_one(
    low: list[float], weight: list[float], orders: int
) -> None:
    columns = [np.array(x) for x in ([-3.0, 0.4, 0.9], weight, low, [1.0, 1.0, 1.0])]
    rng = np.random.default_rng(1)
    order = rng.permuted(np.tile(np.repeat([0, 1, 2], [100, 800, 1150]), (orders, 1)), axis=1)
    counted = betting._Bets(order, *columns, TAIL)
    alone = betting._Bets(order, *(np.tile(x, 40) for x in columns), TAIL)  # too many to count
    assert counted.counts is not None
    assert alone.counts is None
    middle = columns[0][order[0]].sum() / columns[1][order[0]].sum()
    ends = middle + np.array([-0.3, -0.05, 0.0, 0.05])
    wealth = counted.log_wealth(ends)
    assert wealth == pytest.approx(alone.log_wealth(ends), abs=1e-9)
    assert wealth[0] > math.log(1 / TAIL) > wealth[-1]
    for lead in (1, 3):
        inside = ends[lead] - np.array([0.02, 0.01, 0.0])
        found = counted.log_wealth(inside, lead=lead)
        assert found == pytest.approx(alone.log_wealth(inside, lead=lead), abs=1e-9)


@pytest.mark.full
def test_limits_approach_the_normal_ones() -> None:
    """Bets that do not look at their wealth stay 1.39 times as wide."""
    rng = np.random.default_rng(4)
    wide = []
    for _ in range(4):
        x = rng.beta(2, 2, 8000)
        low, high = fixed_interval(rows(x, 0.0, 1.0), TAIL, TAIL)
        wide.append((high - low) / (2 * 1.959964 * x.std() / math.sqrt(len(x))))
    assert np.mean(wide) <= 1.15


def test_order_of_rows_changes_nothing_and_exchange_mirrors() -> None:
    evidence = [
        Score(1.0, -2.0, 1.0, 70),
        Score(-2.0, -2.0, 1.0, 9),
        Score(0.4, 0.0, 1.0, 30),
        Score(1.0, -2.0, 1.0, 3),
    ]
    limits = fixed_interval(evidence, 0.05, 0.01)
    assert fixed_interval(evidence[::-1], 0.05, 0.01) == limits
    mirrored = [Score(-s.value, -s.high, -s.low, s.n) for s in evidence]
    low, high = fixed_interval(mirrored, 0.01, 0.05, floor=-1.0, ceiling=0.0)
    assert (-high, -low) == limits


def test_ends_that_are_not_bet_against_may_be_infinite() -> None:
    low, high = fixed_interval(
        [Score(0.0, 0.0, math.inf, 150), Score(4.0, 0.0, math.inf, 50)], 0.05, 0.05
    )
    assert 0.6 < low < 1.0
    assert high == 1.0
    assert fixed_interval([Score(9.0, 0.0, math.inf, 200)], 0.05, 0.0)[0] == 1.0


def test_no_scores_and_no_error_exclude_nothing() -> None:
    assert fixed_interval([], TAIL, TAIL) == (0.0, 1.0)
    assert fixed_interval([Score(1.0, 0.0, 1.0, 0)], TAIL, TAIL, floor=-1.0) == (-1.0, 1.0)
    assert fixed_interval([Score(1.0, 0.0, 1.0, 50)], 0.0, 0.0) == (0.0, 1.0)
    assert fixed_interval([Score(1.0, 0.0, 1.0, 1)], TAIL, 0.0)[0] <= TAIL
    low, high = fixed_interval([Score(1.0, 0.0, 1.0, 200)], TAIL, TAIL)
    assert 0.97 < low < 0.025 ** (1 / 200) + 1e-9
    assert high == 1.0


def test_more_confidence_is_not_narrower() -> None:
    evidence = draw("complementary 4 0.8", 300, np.random.default_rng(5))
    widths = [
        np.subtract(*fixed_interval(evidence, tail, tail)[::-1])
        for tail in (0.1, 0.05, 0.025, 0.005)
    ]
    assert widths == sorted(widths)


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    "law", ["complementary 4 0.7", "complementary 10 0.7", "beta 0.5 4.5", "bernoulli 0.7"]
)
def test_width_is_at_most_that_of_the_mixture_with_two_thirds_of_the_labels(law: str) -> None:
    rng = np.random.default_rng(11)
    ours = np.mean(
        [np.subtract(*fixed_interval(draw(law, 1300, rng), TAIL, TAIL)[::-1]) for _ in range(12)]
    )
    peer = np.mean(
        [np.subtract(*betting_interval(draw(law, 2000, rng), TAIL, TAIL)[::-1]) for _ in range(12)]
    )
    assert ours <= 1.03 * peer


def test_two_kinds_of_score_are_weighted_by_their_precision() -> None:
    rng = np.random.default_rng(2)
    ordinary, complementary = (
        draw("bernoulli 0.8", 300, rng),
        draw("complementary 10 0.8", 2700, rng),
    )
    both, alone, other = (
        np.subtract(*fixed_interval(e, TAIL, TAIL)[::-1])
        for e in (ordinary + complementary, ordinary, complementary)
    )
    assert both < 1.05 / math.sqrt(1 / alone**2 + 1 / other**2)


@pytest.mark.thin(6)
@pytest.mark.parametrize("law", ["bernoulli 0.95", "complementary 10 0.5", "beta 10 1"])
@pytest.mark.parametrize("n", [50, 3000])
def test_seeds_move_the_limits_by_at_most_a_twentieth_of_the_width(law: str, n: int) -> None:
    evidence = draw(law, n, np.random.default_rng(0))
    limits = np.array([fixed_interval(evidence, TAIL, TAIL, seed=seed) for seed in range(20)])
    assert np.ptp(limits, axis=0).max() <= 0.05 * np.diff(limits.mean(axis=0))[0]


def test_never_narrower_than_exact_limits_can_be() -> None:
    """Below the exact one-sided test no valid test can go by much: a guard against a wealth that is
    too large.
    """
    n, hits = 400, 280
    low = fixed_interval([Score(1.0, 0.0, 1.0, hits), Score(0.0, 0.0, 1.0, n - hits)], TAIL, 0.0)[0]
    assert binom.sf(hits - 1, n, low) < TAIL


@pytest.mark.full
def test_many_scores_take_bounded_memory_and_time() -> None:
    evidence = [Score(1.0, 0.0, 1.0, 140_000), Score(0.0, 0.0, 1.0, 60_000)]
    start = time.process_time()
    low, high = fixed_interval(evidence, TAIL, TAIL)
    assert time.process_time() - start < 10
    assert 0.69 < low < 0.7 < high < 0.71


@pytest.mark.parametrize(
    "evidence",
    [
        [Score(0.5, 0.5, 0.5, 10)],
        [Score(0.5, 0.5, 0.5, 10), Score(1.0, 0.0, 1.0, 10)],
        [Score(0.5, 0.5 - 1e-9, 0.5 + 1e-9, 50)],
        [Score(1000.0, 0.0, math.inf, 1), Score(0.0, 0.0, math.inf, 400)],
        [Score(1 - i / 10, -1.0 - i, 1.0, 7) for i in range(20)],
    ],
    ids=["no range", "no range and a range", "a tiny range", "one huge score", "twenty ranges"],
)
def test_odd_ranges_give_limits_in_order(evidence: list[Score]) -> None:
    low, high = fixed_interval(evidence, TAIL, TAIL)
    assert 0 <= low <= high <= 1
