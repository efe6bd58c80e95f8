"""Losses from an estimated covariance and a restricted collection, and the limits of plans."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from noracle.errors import ArgumentError
from noracle.ppi.measurements import Measurement, information_of, restricted, subsets
from noracle.ppi.plan import covariance_loss, limits, restricted_loss, stability, theorem9_rate
from noracle.ppi.solver import Program, make_program, solve
from tests.unit.ppi.problems import COSTS, FAMILIES, covariance, set_prices


def program_for(S: np.ndarray, prices: np.ndarray, budget: float) -> Program:
    sets = list(subsets(len(S)))
    measured = [Measurement(name="", observes=s, cost=()) for s in sets]
    return make_program(
        information_of(measured, S),
        [prices[list(s)].sum() for s in sets],
        budget,
        None,
        np.eye(len(S))[0],
    )


def real_variance(S: np.ndarray, E: np.ndarray, prices: np.ndarray, budget: float) -> float:
    """R(n̂, λ̂): counts and weights made for E, variance under S."""
    program = program_for(E, prices, budget)
    n = solve(program).n
    sets = list(subsets(len(S)))
    M = np.einsum("j,jkl->kl", n, program.information)
    y = np.linalg.pinv(M, rcond=1e-12, hermitian=True) @ program.target
    total = 0.0
    for count, s in zip(n, sets, strict=True):
        if count > 0:
            weights = count * np.linalg.solve(E[np.ix_(s, s)], y[list(s)])
            total += float(weights @ S[np.ix_(s, s)] @ weights) / count
    return total


@pytest.mark.parametrize("seed", range(12))
def test_plans_of_an_estimated_covariance_stay_within_the_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = 3 + seed % 3
    S = covariance(rng, k, FAMILIES[seed % 3])
    X = rng.multivariate_normal(np.zeros(k), S, size=400)
    E = np.cov(X.T)
    prices = np.r_[5.0, rng.uniform(0.1, 1, k - 1)]
    best = solve(program_for(S, prices, 100.0)).variance
    found = stability(S, E, least_variance=best, classical_variance=S[0, 0] * prices[0] / 100)
    excess = real_variance(S, E, prices, 100.0) / best
    assert 1 - 1e-6 <= excess <= found.multiplicative * (1 + 1e-6)
    for printed in (found.theorem4, found.theorem5):
        assert math.isnan(printed) or excess <= printed
    if not math.isnan(found.theorem5):
        assert found.multiplicative <= found.theorem5


def test_the_multiplicative_bound_does_not_change_when_variables_are_mixed() -> None:
    rng = np.random.default_rng(0)
    S, A = covariance(rng, 4, "factor"), rng.normal(size=(4, 4))
    E = np.cov(rng.multivariate_normal(np.zeros(4), S, size=300).T)
    plain = stability(S, E, least_variance=1.0, classical_variance=1.0)
    mixed = stability(A @ S @ A.T, A @ E @ A.T, least_variance=1.0, classical_variance=1.0)
    assert mixed.error == pytest.approx(plain.error, rel=1e-8)
    with pytest.raises(ArgumentError, match="one size"):
        stability(S, E[:3, :3], least_variance=1.0, classical_variance=1.0)


@pytest.mark.parametrize(("n", "k"), [(250, 3), (1000, 6), (2000, 11)])
def test_covariance_loss_bounds_the_error_of_gaussian_pilots(n: int, k: int) -> None:
    rng = np.random.default_rng([n, k])
    loss = covariance_loss(n=n, k=k, confidence=0.95)
    worse = 0
    for _ in range(200):
        E = np.cov(rng.normal(size=(n, k)).T)
        worse += (
            stability(np.eye(k), E, least_variance=1.0, classical_variance=1.0).multiplicative
            > loss.bound
        )
    assert worse <= 20  # at most one in twenty is promised
    assert loss.typical == pytest.approx((n - 2) / (n - k - 1))
    assert loss.typical < loss.bound


def test_a_tiny_pilot_promises_nothing() -> None:
    assert math.isinf(covariance_loss(n=8, k=6).bound)
    assert math.isinf(covariance_loss(n=7, k=6).typical)


def test_restricted_collection_can_cost_much() -> None:
    losses = []
    for seed in range(40):
        rng = np.random.default_rng([4, seed])
        k = 4 + seed % 3
        S = covariance(rng, k, "wishart")
        prices = set_prices(rng, k, COSTS[seed % 4])
        sets = list(subsets(k))
        kept = [sets.index(s) for s in restricted(k)]
        measured = [Measurement(name="", observes=s, cost=()) for s in sets]
        program = make_program(
            information_of(measured, S),
            [prices.of(s) for s in sets],
            500.0,
            250 * np.linalg.inv(S),
            np.eye(k)[0],
        )
        losses.append(restricted_loss(program, kept))
    assert min(losses) >= 1 - 1e-7
    assert max(losses) > 1.02


def test_theorem_9_needs_the_fourth_power_of_the_largest_eigenvalue() -> None:
    """In other units (X·c) both terms under the root scale as c⁴·(proxy scale): the printed second
    term would not.
    """
    S = np.array([[1.0, 0.5], [0.5, 2.0]])
    first, second = theorem9_rate(S, n=100, proxy=1.0)
    for c in (10.0, 0.1):
        one, two = theorem9_rate(c**2 * S, n=100, proxy=1.0)
        assert one / first == pytest.approx(c**4)
        assert two / second == pytest.approx(c**4)
        largest = np.linalg.eigvalsh(S)[-1]
        spread = np.linalg.norm(S - np.eye(2) * np.trace(S) / 2) ** 2 / 2
        printed = (c**2 * largest / (c**4 * spread)) / (largest / spread)
        assert printed != pytest.approx(c**4)
    with pytest.raises(ArgumentError, match="identity"):
        theorem9_rate(np.eye(3), n=100, proxy=1.0)


@pytest.mark.parametrize("seed", range(6))
def test_limits_are_where_plans_tend(seed: int) -> None:
    rng = np.random.default_rng([10, seed])
    k = 4
    S = covariance(rng, k, FAMILIES[seed % 3])
    prices = rng.uniform(0.2, 2, k)
    sets = [s for s in subsets(k) if 0 not in s]
    measured = [
        Measurement(name=str(s), observes=s, cost=(float(prices[list(s)].sum()),)) for s in sets
    ]
    prior = 100 * np.linalg.inv(S)
    found = limits(S, measured, prior, np.eye(k)[0])
    program = make_program(
        information_of(measured, S), [m.cost[0] for m in measured], 1e-4, prior, np.eye(k)[0]
    )
    small = solve(program)
    shares = small.n * program.costs[:, 0] / 1e-4
    assert measured[int(np.argmax(shares))].name == found.first
    assert small.prices[0] == pytest.approx(found.rate, rel=1e-3)
    large = solve(dataclasses.replace(program, budgets=np.array([1e9])))
    assert large.variance == pytest.approx(found.floor, rel=1e-4)
    free = [Measurement(name="free", observes=(1,), cost=(0.0,))]
    with pytest.raises(ArgumentError, match="positive prices"):
        limits(S, free, prior, np.eye(k)[0])
