"""Losses from an estimated covariance and a restricted collection."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from noracle.ppi.measurements import Measurement, information_of, subsets
from noracle.ppi.plan import covariance_loss
from noracle.ppi.solver import DesignProgram, solve
from tests.unit.ppi.problems import COSTS, FAMILIES, covariance, make_program, set_prices


def program_for(S: np.ndarray, prices: np.ndarray, budget: float) -> DesignProgram:
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


def worst_factor(S: np.ndarray, E: np.ndarray) -> float:
    """(1 + e)/(1 − e), e the largest relative error of the variance of any combination."""
    L = np.linalg.cholesky(S)
    relative = np.linalg.solve(L, np.linalg.solve(L, E).T)
    e = float(np.abs(np.linalg.eigvalsh((relative + relative.T) / 2) - 1).max())
    return (1 + e) / (1 - e) if e < 1 else math.inf


@pytest.mark.parametrize("seed", range(12))
def test_plans_of_an_estimated_covariance_stay_within_the_bounds(seed: int) -> None:
    """For fixed (n, λ) the variance is linear in Σ: R(n̂, λ̂) ≤ (1 + e)/(1 − e)·R(n*, λ*)."""
    rng = np.random.default_rng(seed)
    k = 3 + seed % 3
    S = covariance(rng, k, FAMILIES[seed % 3])
    E = np.cov(rng.multivariate_normal(np.zeros(k), S, size=400).T)
    prices = np.r_[5.0, rng.uniform(0.1, 1, k - 1)]
    best = solve(program_for(S, prices, 100.0)).variance
    excess = real_variance(S, E, prices, 100.0) / best
    assert 1 - 1e-6 <= excess <= worst_factor(S, E) * (1 + 1e-6)


@pytest.mark.parametrize(("n", "k"), [(250, 3), (1000, 6), (2000, 11)])
def test_covariance_loss_bounds_the_error_of_gaussian_pilots(n: int, k: int) -> None:
    rng = np.random.default_rng([n, k])
    loss = covariance_loss(n=n, k=k, confidence=0.95)
    worse = 0
    for _ in range(200):
        E = np.cov(rng.normal(size=(n, k)).T)
        worse += worst_factor(np.eye(k), E) > loss.bound
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
        linear = (tuple(range(k)), tuple(range(1, k)), *((i,) for i in range(1, k)))
        kept = [sets.index(s) for s in linear]  # the collection of the paper's section D.4
        measured = [Measurement(name="", observes=s, cost=()) for s in sets]
        program = make_program(
            information_of(measured, S),
            [prices.of(s) for s in sets],
            500.0,
            250 * np.linalg.inv(S),
            np.eye(k)[0],
        )
        few = dataclasses.replace(
            program, information=program.information[kept], costs=program.costs[kept]
        )
        losses.append(solve(few).variance / solve(program).variance)
    assert min(losses) >= 1 - 1e-7
    assert max(losses) > 1.02
