"""The allocation solver against a conic solver, its own certificate and problems with a known
answer.
"""

from __future__ import annotations

import numpy as np
import pytest

from noracle.errors import ArgumentError
from noracle.ppi.measurements import Measurement, information_of, subsets
from noracle.ppi.planner import round_counts
from noracle.ppi.solver import (
    dual_bound,
    interior_variance,
    solve,
    solve_batch,
    target_variance,
    variance_of,
)
from tests.unit.ppi.problems import certified_bound, covariance, make_program, problem, referee


def check(seed: int) -> None:
    """Done-when 1 for one problem."""
    program = problem(seed)
    answer = solve(program)
    assert answer.gap <= 1e-7
    assert answer.variance / referee(program) == pytest.approx(1, abs=1e-6)
    assert (answer.n @ program.costs <= program.budgets * (1 + 1e-12)).all()
    assert variance_of(program, answer.n) == pytest.approx(answer.variance, rel=1e-10)
    assert certified_bound(program, answer.y, answer.prices) == pytest.approx(
        answer.lower_bound, rel=1e-10
    )
    counts = round_counts(program, answer)
    assert (counts @ program.costs <= program.budgets * (1 + 1e-12)).all()
    assert set(counts.tolist()).isdisjoint({1})
    # The weights of the whole counts sum to the target.
    M = program.prior + np.einsum("j,jkl->kl", counts.astype(float), program.information)
    d = 1 / np.sqrt(np.where(np.diag(M) > 0, np.diag(M), 1.0))
    y = d * np.linalg.lstsq(M * np.outer(d, d), program.target * d, rcond=1e-11)[0]
    assert np.abs(M @ y - program.target).max() <= 1e-10 * max(1.0, np.abs(program.target).max())


@pytest.mark.thin(3)
@pytest.mark.parametrize("seed", [*range(0, 144, 7), 20, 51, 89, 92])
def test_allocation_is_that_of_the_conic_solver(seed: int) -> None:
    pytest.importorskip("cvxpy")
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_two_hundred_allocations_are_those_of_the_conic_solver(seed: int) -> None:
    pytest.importorskip("cvxpy")
    check(seed)


def test_one_variable_has_variance_sigma_squared_times_price_over_budget() -> None:
    for variance, price, budget in ((0.25, 2.0, 100.0), (9.0, 0.01, 3.0), (1e-6, 1e4, 1e6)):
        answer = solve(make_program([[[1 / variance]]], [price], budget, None, [1.0]))
        assert answer.variance == pytest.approx(variance * price / budget, rel=1e-9)
        assert answer.prices[0] == pytest.approx(variance * price / budget**2, rel=1e-6)


@pytest.mark.parametrize("seed", range(0, 60, 5))
def test_few_measurements_are_taken(seed: int) -> None:
    program = problem(seed)
    answer = solve(program)
    assert np.sum(answer.n > 0) <= program.target.size + program.budgets.size


@pytest.mark.parametrize("seed", [3, 8, 16, 22])
def test_price_of_a_budget_is_what_the_variance_loses(seed: int) -> None:
    program = problem(seed)
    answer = solve(program)
    for place in range(program.budgets.size):
        more = program.budgets.copy()
        more[place] *= 1.001
        after = solve(
            make_program(program.information, program.costs, more, program.prior, program.target)
        )
        slope = (answer.variance - after.variance) / (more[place] - program.budgets[place])
        assert slope == pytest.approx(
            answer.prices[place], rel=5e-3, abs=1e-6 * answer.variance / program.budgets[place]
        )


def test_multipliers_of_a_dual_point_make_it_feasible_and_worth_its_bound() -> None:
    rng = np.random.default_rng(6)
    program = problem(9)
    G, C, M0, a, b = (
        program.information,
        program.costs,
        program.prior,
        program.target,
        program.budgets,
    )
    for _ in range(20):
        y, u = rng.normal(size=a.size), rng.uniform(0.1, 1, b.size)
        y = y if a @ y > 0 else -y
        bound, by_y, by_u = dual_bound(a @ y, y @ M0 @ y, G @ y @ y, C @ u, b @ u)
        y, u = y * by_y, u * by_u
        assert bound == pytest.approx(certified_bound(program, y, u), rel=1e-12)
        assert bound == pytest.approx(2 * a @ y - y @ M0 @ y - b @ u, rel=1e-9)
        assert (G @ y @ y <= C @ u * (1 + 1e-12)).all()


def test_variance_at_an_interior_point_is_that_of_the_careful_way() -> None:
    rng = np.random.default_rng(7)
    a = rng.normal(size=(5, 4))
    B = rng.normal(size=(5, 4, 4))
    M = B @ B.swapaxes(1, 2)
    assert interior_variance(M, a) == pytest.approx(target_variance(M, a), rel=1e-9)
    M[1] = np.diag([1.0, 2.0, 0.0, 0.0])  # one singular matrix sends all to the careful way
    a[1, 2:] = 0.0
    M[2, 0, 0] = np.nan
    found = interior_variance(M, a)
    assert found[1] == pytest.approx(a[1, 0] ** 2 + a[1, 1] ** 2 / 2)
    assert np.isinf(found[2])
    assert found[[0, 3, 4]] == pytest.approx(target_variance(M[[0, 3, 4]], a[[0, 3, 4]]), rel=1e-9)


def test_any_dual_point_bounds_every_allocation() -> None:
    rng = np.random.default_rng(5)
    program = problem(9)
    best = solve(program).variance
    for _ in range(50):
        y, u = rng.normal(size=program.target.size), rng.uniform(0.1, 1, program.budgets.size)
        assert certified_bound(program, y, u) <= best * (1 + 1e-9)


def test_a_batch_is_the_same_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    sets = list(subsets(3))
    measured = [Measurement(name="", observes=s, cost=()) for s in sets]
    covariances = [covariance(rng, 3, family) for family in ("factor", "wishart", "nested") * 20]
    G = np.array([information_of(measured, S) for S in covariances])
    prior = np.array([50 * np.linalg.inv(S) for S in covariances])
    costs = np.array([[1.0 + len(s)] for s in sets])
    budgets = rng.uniform(10, 1000, size=(60, 1))
    target = np.array([1.0, 0.0, 0.0])
    batch = solve_batch(G, costs, budgets, prior, target)
    assert batch.gap.max() <= 2e-9
    assert ((batch.n @ costs)[:, 0] <= budgets[:, 0] * (1 + 1e-12)).all()
    for i in range(60):
        alone = solve(make_program(G[i], costs, budgets[i], prior[i], target))
        assert batch.variance[i] == pytest.approx(alone.variance, rel=1e-8)


def test_scales_of_variables_and_money_change_nothing() -> None:
    rng = np.random.default_rng(1)
    S = covariance(rng, 4, "wishart")
    sets = list(subsets(4))
    measured = [Measurement(name="", observes=s, cost=()) for s in sets]
    costs = np.array([[1.0 + len(s)] for s in sets])
    plain = solve(make_program(information_of(measured, S), costs, 100.0, None, np.eye(4)[0]))
    scale = np.array([1.0, 1e4, 1e-5, 30.0])
    other = solve(
        make_program(
            information_of(measured, S * np.outer(scale, scale)),
            1e6 * costs,
            1e8,
            None,
            np.eye(4)[0],
        )
    )
    assert other.variance == pytest.approx(plain.variance, rel=1e-8)
    assert other.gap <= 1e-7


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"costs": [0.0, 1.0]}, "free measurement"),
        ({"costs": [-1.0, 1.0]}, "not be negative"),
        ({"budgets": 0.0}, "budgets must be positive"),
        ({"target": [0.0, 0.0]}, "must not be zero"),
        ({"target": [0.0, 1.0]}, "target must be covered"),
        ({"target": [np.nan, 1.0]}, "must be finite"),
    ],
)
def test_bad_programs_are_refused(change: dict[str, object], says: str) -> None:
    given = {
        "information": np.array([[[1.0, 0], [0, 0]], [[2.0, 0], [0, 0]]]),
        "costs": [1.0, 1.0],
        "budgets": 10.0,
        "target": [1.0, 0.0],
    }
    given |= change
    with pytest.raises(ArgumentError, match=says):
        solve(
            make_program(
                given["information"], given["costs"], given["budgets"], None, given["target"]
            )
        )


def test_unreachable_targets_of_a_batch_are_infinite() -> None:
    G = np.array([[[[1.0, 0], [0, 0]]], [[[1.0, 0], [0, 1.0]]]])
    batch = solve_batch(G, [[1.0]], 10.0, None, [0.0, 1.0])
    assert np.isinf(batch.variance[0])
    assert batch.variance[1] == pytest.approx(0.1)
