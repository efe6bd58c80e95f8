"""Whole counts: within the budgets, never 1, as good as trying all."""

from __future__ import annotations

import numpy as np
import pytest

from noracle.errors import ArgumentError
from noracle.ppi.measurements import Measurement, information_of
from noracle.ppi.planner import round_counts, snap, within
from noracle.ppi.solver import DesignProgram, solve, variance_of
from tests.unit.ppi.problems import brute_force, make_program


def small_problem(seed: int) -> DesignProgram:
    """Few sets, few affordable counts, good raters: all can be tried, and whole numbers matter."""
    rng = np.random.default_rng([36, seed])
    k = 2 + seed % 2
    loads = rng.uniform(0.75, 0.95, k)
    S = np.outer(loads, loads) + np.diag(1 - loads**2)
    sets = [(0,), (1,), (0, 1)] if k == 2 else [(1,), (2,), (0, 1), (0, 1, 2)]
    price = np.r_[3.0, rng.uniform(0.35, 1.0, k - 1)]
    costs = np.array([[price[list(s)].sum()] for s in sets])
    budgets = [(15.0, 22.0, 30.0)[seed // 2 % 3]]
    if seed % 4 == 3:
        costs = np.c_[costs, [float(0 in s) for s in sets]]
        budgets.append(4.0)
    measured = [Measurement(name="", observes=s, cost=()) for s in sets]
    return make_program(information_of(measured, S), costs, budgets, None, np.eye(k)[0])


@pytest.mark.parametrize("seed", range(36))
def test_rounding_is_within_a_thousandth_of_all_whole_counts(seed: int) -> None:
    program = small_problem(seed)
    counts = round_counts(program, solve(program))
    best, _ = brute_force(program)
    assert within(program, counts)
    assert 1 not in counts.tolist()
    assert variance_of(program, counts) <= best * 1.001


def test_plain_floor_is_worse_than_the_dive() -> None:
    losses = []
    for seed in range(36):
        program = small_problem(seed)
        floor = np.floor(solve(program).n)
        losses.append(variance_of(program, floor) / brute_force(program)[0])
    assert np.mean(losses) > 1.05


@pytest.mark.parametrize("budget", np.linspace(40, 4000, 50).round(2).tolist())
def test_250_labelled_rows_stay_250(budget: float) -> None:
    S = np.array([[0.2275, 0.1140, 0.1161], [0.1140, 0.2436, 0.1443], [0.1161, 0.1443, 0.2475]])
    sets = [(0, 1, 2), (1,), (2,), (1, 2)]
    measured = [Measurement(name="", observes=s, cost=()) for s in sets]
    costs = np.array([[0.0, 1.0], [1.0, 0.0], [0.24, 0.0], [1.24, 0.0]])
    program = make_program(information_of(measured, S), costs, [budget, 250.0], None, np.eye(3)[0])
    counts = round_counts(program, solve(program))
    assert counts[0] == 250
    assert within(program, counts)
    assert 1 not in counts.tolist()


def test_what_is_left_of_the_budget_buys_nothing_more() -> None:
    for seed in range(20):
        program = small_problem(seed)
        counts = round_counts(program, solve(program))
        before = variance_of(program, counts)
        for j in range(len(counts)):
            more = counts.copy()
            more[j] = max(2, counts[j] + 1)
            assert not within(program, more) or variance_of(program, more) >= before * (1 - 1e-9)


def test_a_solver_s_249_999_is_250() -> None:
    assert snap(np.array([249.9999999, 250.0, 249.9, 0.0])).tolist() == [250, 250, 249, 0]


def test_a_budget_that_covers_nothing_is_refused() -> None:
    program = make_program([[[1.0]]], [10.0], 15.0, None, [1.0])
    with pytest.raises(ArgumentError, match="at least two"):
        round_counts(program, solve(program))


def test_nothing_is_bought_where_nothing_fits_and_rows_are_in_hand() -> None:
    program = make_program([[[1.0]]], [10.0], 15.0, [[100.0]], [1.0])
    assert round_counts(program, solve(program)).tolist() == [0]
