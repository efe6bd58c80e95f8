"""The printed formulas of "Multiple-prediction-powered inference" (Cowen-Breen et al.) on
allocation, and their corrections.

Each erratum has a test in which the printed form stands beside ours and fails. The errata on
estimation have a file of their own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from noracle.errors import ArgumentError
from noracle.ppi import Additive, Cascade, plan_budget
from noracle.ppi.measurements import Measurement, information_of, subsets
from noracle.ppi.planner import round_counts, within
from noracle.ppi.solver import DesignProgram, solve, solve_batch, variance_of
from tests.unit.ppi.problems import make_program

COV = np.array([[0.2275, 0.1140, 0.1161], [0.1140, 0.2436, 0.1443], [0.1161, 0.1443, 0.2475]])
NAMES = ["human", "pro", "flash"]


def world(
    seed: int, k: int, budget: float = 50.0
) -> tuple[np.ndarray, list[tuple[int, ...]], np.ndarray, DesignProgram]:
    """A covariance, all sets, their additive prices and the program."""
    rng = np.random.default_rng([seed, k])
    loads = rng.uniform(0.5, 0.95, k)
    scale = np.exp(0.4 * rng.normal(size=k))
    S = (np.outer(loads, loads) + np.diag(1 - loads**2)) * np.outer(scale, scale)
    price = np.r_[rng.uniform(2, 5), rng.uniform(0.05, 0.6, k - 1)]
    sets = list(subsets(k))
    costs = np.array([price[list(s)].sum() for s in sets])
    measured = [Measurement(name="", observes=s, cost=()) for s in sets]
    return (
        S,
        sets,
        costs,
        make_program(information_of(measured, S), costs, budget, None, np.eye(k)[0]),
    )


def padded(block: np.ndarray, s: tuple[int, ...], k: int) -> np.ndarray:
    full = np.zeros((k, k))
    full[np.ix_(s, s)] = block
    return full


# ------------------------------------------------------------------------ C.1, G, H(20): the
# constraint is y_Iᵀ Σ_I⁻¹ y_I ≤ c_I


@pytest.mark.parametrize(("variance", "price", "budget"), [(0.25, 2.0, 100.0), (4.0, 0.5, 30.0)])
def test_one_variable_has_the_variance_of_a_mean(
    variance: float, price: float, budget: float
) -> None:
    ours = solve(make_program([[[1 / variance]]], [price], budget, None, [1.0])).variance
    c1 = 1 / (variance * price) / budget  # max y subject to y²σ² ≤ 1/c, squared, over B
    h20 = price / variance / budget  # max y subject to y²σ² ≤ c
    assert ours == pytest.approx(variance * price / budget)
    assert c1 != pytest.approx(ours, rel=0.2)
    assert h20 != pytest.approx(ours, rel=0.2)


@pytest.mark.parametrize("seed", range(8))
def test_printed_constraints_give_another_optimum_and_biased_weights(seed: int) -> None:
    k = 2 + seed % 4
    S, sets, costs, program = world(seed, k)
    target = np.eye(k)[0]
    right = solve(program)
    weights = (
        sum(
            padded(n * np.linalg.inv(S[np.ix_(s, s)]), s, k)
            for n, s in zip(right.n, sets, strict=True)
        )
        @ right.y
    )
    assert (
        np.abs(weights - target).max() < 1e-3
    )  # at the optimum y = M⁻¹a, and the weights of step 2 sum to the target
    blocks = np.array([padded(S[np.ix_(s, s)], s, k) for s in sets])
    for printed_costs in (1 / costs, costs):  # C.1 and G; H(20)
        printed = solve(make_program(blocks, printed_costs, 50.0, None, target))
        assert printed.variance != pytest.approx(right.variance, rel=0.02)
        step2 = (
            sum(
                padded(n * np.linalg.inv(S[np.ix_(s, s)]), s, k)
                for n, s in zip(printed.n, sets, strict=True)
            )
            @ printed.y
        )
        assert np.abs(step2 - target).max() > 0.05


# ------------------------------------------------------------------------------------------------------------
# C.1: n_I = ⌈…⌉


@pytest.mark.parametrize("k", [3, 5, 7])
def test_ceil_overspends(k: int) -> None:
    over = []
    for seed in range(24):
        _, _, costs, program = world(seed, k)
        real = solve(program)
        over.append(float(np.ceil(real.n - 1e-9) @ costs) / 50.0 - 1)
        assert seed % 8 or within(program, round_counts(program, real))
    assert np.mean(over) > 0.03


def test_ceil_of_a_solver_s_output_buys_one_of_every_set() -> None:
    _, sets, costs, program = world(0, 7)
    raw = solve_batch(
        program.information[None], program.costs, program.budgets, program.prior, program.target
    ).n[0]
    assert (np.ceil(raw) >= 1).sum() == len(sets)
    assert np.ceil(raw) @ costs > 3 * 50.0


# --------------------------------------------------------------------------------------------- C.1:
# λ must be that of the whole counts


def test_weights_kept_from_before_rounding_are_biased() -> None:
    biased = 0
    for seed in range(12):
        S, sets, _, program = world(seed, 5, budget=3.0)
        real = solve(program)
        total = np.zeros(5)
        for n, s in zip(real.n, sets, strict=True):
            if np.floor(n + 1e-9) > 0:  # what rounds to zero is never drawn, and its weight is lost
                total[list(s)] += n * np.linalg.solve(S[np.ix_(s, s)], real.y[list(s)])
        biased += bool(np.abs(total - program.target).max() > 0.01)
    assert biased >= 3
    plan = plan_budget(
        cov=COV,
        names=NAMES,
        target="human",
        costs={"human": 3.0, "pro": 1.0, "flash": 0.24},
        budgets=20,
    )
    total = dict.fromkeys(NAMES, 0.0)
    for weights in plan.diagnostics["weights"].values():
        for name, weight in weights.items():
            total[name] += weight
    assert list(total.values()) == pytest.approx([1.0, 0.0, 0.0], abs=1e-10)


# ---------------------------------------------------------------------------------------------------
# C.2: sup t; G: aᵀM⁺a ≥ t


def test_the_semidefinite_program_is_a_minimum() -> None:
    _, _, _, program = world(1, 3)
    answer = solve(program)
    M = np.einsum("j,jkl->kl", answer.n, program.information) + 1e-9 * np.eye(3)

    def least_eigenvalue(t: float) -> float:
        a = program.target
        return float(np.linalg.eigvalsh(np.block([[M, a[:, None]], [a[None], np.array([[t]])]]))[0])

    V = float(program.target @ np.linalg.solve(M, program.target))
    assert least_eigenvalue(1.001 * V) >= 0
    assert least_eigenvalue(1e6 * V) >= 0  # every larger t is feasible: the printed sup is infinite
    assert least_eigenvalue(0.99 * V) < 0  # no smaller one is: the minimum is the variance
    assert (
        V >= -1e12
    )  # the printed "aᵀM⁺a ≥ t" holds for t = −10¹² at any n, so that its minimum is −∞
    assert answer.variance == pytest.approx(V, rel=1e-5)


# ----------------------------------------------------------------------------------------------------------
# C.2: floor without care


def test_floor_of_249_999_loses_a_label() -> None:
    sets = [(0, 1, 2), (1,), (2,), (1, 2)]
    measured = [Measurement(name="", observes=s, cost=()) for s in sets]
    costs = np.array([[0.0, 1.0], [1.0, 0.0], [0.24, 0.0], [1.24, 0.0]])
    lost = 0
    for budget in (50.0, 137.0, 500.0, 2000.0):
        program = make_program(
            information_of(measured, COV), costs, [budget, 250.0], None, np.eye(3)[0]
        )
        raw = solve_batch(
            program.information[None], program.costs, program.budgets, program.prior, program.target
        ).n[0]
        printed = np.floor(raw * (1 - 1e-9))[0]
        lost += printed == 249
        assert round_counts(program, solve(program))[0] == 250
    assert lost == 4


@pytest.mark.parametrize("budget", [5.0, 11.0])
def test_floor_to_zero_of_the_target_is_an_error_not_an_estimate_of_zero(budget: float) -> None:
    costs = {"human": 10.0, "pro": 1.25, "flash": 0.30}
    sets = [
        (0, 1, 2),
        (1, 2),
        (1,),
        (2,),
    ]  # the collection of C.3: labels come with all raters, at 11.55
    prices = np.array([sum(list(costs.values())[i] for i in s) for s in sets])
    measured = [Measurement(name="", observes=s, cost=()) for s in sets]
    program = make_program(information_of(measured, COV), prices, budget, None, np.eye(3)[0])
    n = np.floor(solve(program).n)
    M = np.einsum("j,jkl->kl", n, program.information)
    printed = M @ np.linalg.pinv(M) @ program.target  # the sum of the printed weights
    assert printed == pytest.approx([0.0, 0.0, 0.0], abs=1e-9)  # the "estimate" is 0
    assert math.isinf(variance_of(program, n))
    with pytest.raises(ArgumentError, match="at least 20"):
        plan_budget(cov=COV, names=NAMES, target="human", costs=costs, budgets=budget)


# --------------------------------------------------------------------------------------------------------------------
# n_I = 1


def test_a_sample_of_one_has_no_variance_and_is_never_planned() -> None:
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        assert math.isnan(np.var([0.3], ddof=1))
    for budget in np.linspace(20, 60, 9):
        plan = plan_budget(
            cov=COV,
            names=NAMES,
            target="human",
            costs={"human": 9.0, "pro": 4.0, "flash": 3.0},
            budgets=float(budget),
        )
        assert min(plan.buy.values()) >= 2


# -------------------------------------------------------------------------------------------------------
# Theorem 10: maximises


@pytest.mark.parametrize("seed", range(6))
def test_small_budgets_buy_the_best_correlation_for_the_price(seed: int) -> None:
    rng = np.random.default_rng([10, seed])
    A = rng.normal(size=(4, 7))
    S = A @ A.T
    price = rng.uniform(0.2, 2.0, 4)
    sets = [s for s in subsets(4) if 0 not in s]
    measured = [
        Measurement(name=str(s), observes=s, cost=(float(price[list(s)].sum()),)) for s in sets
    ]
    alpha = [
        S[0, list(s)] @ np.linalg.solve(S[np.ix_(s, s)], S[list(s), 0]) / m.cost[0]
        for s, m in zip(sets, measured, strict=True)
    ]
    costs = np.array([m.cost[0] for m in measured])
    answer = solve(
        make_program(information_of(measured, S), costs, 10.0, 1e5 * np.linalg.inv(S), np.eye(4)[0])
    )
    share = answer.n * costs / 10.0
    assert share[int(np.argmax(alpha))] > 0.99
    assert share[int(np.argmin(alpha))] < 0.01  # the printed I*


# -------------------------------------------------------------------------------------------------------------
# E.1: min over budgets


def test_classical_labels_are_limited_by_the_tightest_budget() -> None:
    printed = max(math.floor(1000 / 1.55), math.floor(250 / 1))
    plan = plan_budget(
        cov=COV,
        names=NAMES,
        target="human",
        costs={"human": 1.55},
        budgets=1000,
        caps={"human": 250},
    )
    classical = next(a for a in plan.alternatives if a["name"] == "classical")
    assert classical["buy"] == {"human": min(math.floor(1000 / 1.55), 250)} == {"human": 250}
    assert printed == 645
    assert printed > plan.diagnostics["problem"]["budgets"]["cap human"]


# ---------------------------------------------------------------------------------------- 4.2.1:
# the N rows are the full set, once


def test_labelled_rows_count_once() -> None:
    plan = plan_budget(
        cov=COV,
        names=NAMES,
        target="human",
        costs={"pro": 1.0, "flash": 0.24},
        budgets=1e9,
        have={"human+pro+flash": 250},
    )
    residual = COV[0, 0] - COV[0, 1:] @ np.linalg.solve(COV[1:, 1:], COV[1:, 0])
    assert plan.diagnostics["variance"] == pytest.approx(
        residual / 250, rel=1e-4
    )  # printed: residual/500, the rows used twice
    assert plan.diagnostics["variance"] > 1.9 * residual / 500


# --------------------------------------------------------------------------------------------------------------------
# cost zero


def test_a_free_measurement_needs_a_cap_or_is_in_hand() -> None:
    given: dict[str, Any] = {
        "cov": COV,
        "names": NAMES,
        "target": "human",
        "costs": {"human": 9.0, "pro": 0.0},
        "budgets": 100,
    }
    with pytest.raises(ArgumentError, match="capped; got 0 for 'pro'"):
        plan_budget(**given)
    with np.errstate(divide="ignore"):
        assert np.isinf(np.float64(100.0) / 0.0)  # the printed n_I = (B/c_I)·…
    plan = plan_budget(**given, caps={"pro": 500})
    assert sum(n for name, n in plan.buy.items() if "pro" in name) == 500


# ------------------------------------------------------------------------------------- section 5
# against I.1.3: prices of debaters


def test_the_two_printed_prices_of_debaters_differ() -> None:
    """Section 5 says equation (8), I.1.3 says additive with 10 raters (A up to 5, R up to 2); we
    take I.1.3.
    """
    debaters = {f"A{a}R{r}": float(a * r) for a in range(1, 6) for r in (1, 2)}
    names = list(debaters)
    additive = Additive(prices=debaters).set_prices(names)
    equation8 = Cascade(lengths=debaters, output=1.0, input=0.0).set_prices(names)
    assert len(names) == 10
    assert additive.of(range(10)) == pytest.approx(45.0)
    assert equation8.of(range(10)) == pytest.approx(10.0)
    assert all(additive.of([i]) == equation8.of([i]) for i in range(10))
