"""Column generation: the same as writing all sets down, and a bound that holds over all of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from noracle.errors import ArgumentError
from noracle.ppi.columns import diagonal_part, refute, solve_columns, sweep, sweep_prices
from noracle.ppi.measurements import Measurement, SetPrices, information_of, subsets
from noracle.ppi.solver import solve
from tests.unit.ppi.problems import COSTS, FAMILIES, covariance, make_program, set_prices


@pytest.mark.parametrize("family", FAMILIES)
def test_sweep_is_every_set_one_by_one(family: str) -> None:
    rng = np.random.default_rng(1)
    S, y = covariance(rng, 7, family), rng.normal(size=7)
    prices = [set_prices(rng, 7, "cascade"), set_prices(rng, 7, "fee")]
    u = np.array([0.3, 0.7])
    used, paid = sweep(S, y), sweep_prices(prices, u, 7)
    assert used[0] == 0
    for chosen in subsets(7):
        index = sum(1 << i for i in chosen)
        block = S[np.ix_(chosen, chosen)]
        assert used[index] == pytest.approx(
            y[list(chosen)] @ np.linalg.inv(block) @ y[list(chosen)], rel=1e-9
        )
        assert paid[index] == pytest.approx(
            sum(w * p.of(chosen) for p, w in zip(prices, u, strict=True))
        )


@pytest.mark.parametrize(("number", "pair"), list(enumerate(itertools.product(FAMILIES, COSTS))))
@pytest.mark.parametrize("sweep_to", [20, 3])
def test_columns_reach_the_optimum_over_all_sets(
    number: int, pair: tuple[str, str], sweep_to: int
) -> None:
    rng = np.random.default_rng([9, number])
    k = 8
    S = covariance(rng, k, pair[0])
    prices, budgets = [set_prices(rng, k, pair[1])], [500.0]
    if number % 3 == 0:
        prices.append(SetPrices(per_item=0.0, sums=(1.0,) + (0.0,) * (k - 1), largest=(0.0,) * k))
        budgets.append(20.0)
    prior = 250 * np.linalg.inv(S) if number % 2 else np.zeros((k, k))
    target = np.eye(k)[0]
    sets = list(subsets(k))
    measured = [Measurement(name="", observes=s, cost=()) for s in sets]
    whole = solve(
        make_program(
            information_of(measured, S),
            [[p.of(s) for p in prices] for s in sets],
            budgets,
            prior,
            target,
        )
    )
    tolerance = 1e-6 if sweep_to == 20 else 1e-3
    found = solve_columns(
        S, prices, np.array(budgets), prior, target, tolerance=tolerance, sweep_to=sweep_to
    )
    assert found.allocation.gap <= tolerance
    assert found.allocation.lower_bound <= whole.variance * (1 + 1e-8)
    assert (
        whole.lower_bound * (1 - 1e-8)
        <= found.allocation.variance
        <= whole.variance * (1 + tolerance)
    )
    assert (found.nodes > 0) == (sweep_to == 3)
    assert len(found.sets) < len(sets)


def test_variables_that_are_not_for_sale_stay_out_of_the_sets() -> None:
    rng = np.random.default_rng(3)
    S = covariance(rng, 6, "factor")
    prices = SetPrices(per_item=0.0, sums=(1.0, 0.5, 0.3, 0.2, 0.1), largest=(0.0,) * 5)
    found = solve_columns(
        S,
        [prices],
        np.array([100.0]),
        50 * np.linalg.inv(S),
        np.eye(6)[0],
        variables=[1, 2, 3, 4, 5],
    )
    assert all(0 not in s for s in found.sets)
    assert found.allocation.gap <= 1e-6


@pytest.mark.parametrize("seed", range(6))
def test_refute_tells_true_from_false_claims(seed: int) -> None:
    rng = np.random.default_rng(seed)
    S, y = covariance(rng, 9, FAMILIES[seed % 3]), rng.normal(size=9)
    prices, u = [set_prices(rng, 9, COSTS[seed % 4])], np.array([0.2])
    ratios = (sweep(S, y)[1:] / sweep_prices(prices, u, 9)[1:]).max()
    found, proved, _ = refute(S, y, prices, u, ratios * (1 + 1e-6))
    assert (found, proved) == ([], True)
    found, proved, _ = refute(S, y, prices, u, ratios * (1 - 1e-3))
    assert not proved
    for chosen in found:
        value = y[list(chosen)] @ np.linalg.solve(S[np.ix_(chosen, chosen)], y[list(chosen)])
        assert value > ratios * (1 - 1e-3) * 0.2 * prices[0].of(chosen)


def test_a_search_that_is_cut_short_proves_nothing() -> None:
    rng = np.random.default_rng(0)
    S, y = covariance(rng, 14, "wishart"), rng.normal(size=14)
    prices, u = [set_prices(rng, 14, "additive")], np.array([1.0])
    most = (sweep(S, y)[1:] / sweep_prices(prices, u, 14)[1:]).max()
    assert refute(S, y, prices, u, most * 1.0001, most_nodes=3)[1] is False


def test_diagonal_part_leaves_a_positive_matrix() -> None:
    rng = np.random.default_rng(4)
    for family in FAMILIES:
        S = covariance(rng, 12, family)
        D = diagonal_part(S)
        assert (D > 0).all()
        assert np.linalg.eigvalsh(S - np.diag(D))[0] > -1e-10 * np.trace(S)


@pytest.mark.parametrize("family", FAMILIES)
def test_twenty_variables_are_solved_to_a_proved_optimum(family: str) -> None:
    rng = np.random.default_rng(20)
    S = covariance(rng, 20, family)
    prices = SetPrices(per_item=0.05, sums=(10.0, *rng.uniform(0.05, 1, 19)), largest=(0.0,) * 20)
    found = solve_columns(
        S, [prices], np.array([500.0]), 250 * np.linalg.inv(S), np.eye(20)[0], tolerance=1e-4
    )
    assert found.allocation.gap <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_thirty_variables_are_solved_to_a_thousandth(family: str) -> None:
    rng = np.random.default_rng(30)
    S = covariance(rng, 30, family)
    prices = SetPrices(per_item=0.05, sums=(10.0, *rng.uniform(0.05, 1, 29)), largest=(0.0,) * 30)
    found = solve_columns(
        S, [prices], np.array([500.0]), 250 * np.linalg.inv(S), np.eye(30)[0], tolerance=1e-3
    )
    assert found.allocation.gap <= 1e-3


def test_prices_of_another_size_are_refused() -> None:
    prices = SetPrices(per_item=0.0, sums=(1.0,), largest=(0.0,))
    with pytest.raises(ArgumentError, match="prices must have one entry"):
        solve_columns(np.eye(2), [prices], np.array([1.0]), np.zeros((2, 2)), np.array([1.0, 0.0]))
