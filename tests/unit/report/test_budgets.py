"""Plans across raters and means: what cards, pages and plots say of them."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from noracle import ArgumentError, estimate_mean, plan_budget, plan_labels, read_result
from noracle.ppi.planner import budget_path
from noracle.report import budgets
from noracle.report.content import content
from noracle.report.page import render_page
from noracle.report.plots import plot
from noracle.results import Estimate, Plan

COV = [[0.2275, 0.1140, 0.1161], [0.1140, 0.2436, 0.1443], [0.1161, 0.1443, 0.2475]]
NAMES = ["human", "pro", "flash"]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_budget(
        cov=COV,
        names=NAMES,
        target="human",
        costs={"human": 5.0, "pro": 1.0, "flash": 0.24},
        budgets=500,
        have={"human+pro+flash": 60},
    )


@pytest.fixture(scope="module")
def estimate() -> Estimate:
    rng = np.random.default_rng(2)
    truth = rng.normal(size=400)
    judge = truth + rng.normal(scale=0.4, size=400)
    gold = [float(t) if i < 100 else None for i, t in enumerate(truth)]
    return estimate_mean({"gold": gold, "judge": judge}, target="gold")


def table(result: object, caption: str) -> list[tuple[str, ...]]:
    return [row for t in content(result).tables if caption in t.caption for row in t.rows]


def test_allocation_adds_up_to_the_cost(plan: Plan) -> None:
    rows = {row[0]: row for row in table(plan, "What to observe")}
    assert set(rows) == {*plan.buy, "in hand"}
    assert sum(float(rows[name][3].replace(",", "")) for name in plan.buy) == pytest.approx(
        plan.cost, rel=1e-3
    )
    assert rows["in hand"][1:4] == ("60", "paid", "paid")


def test_budgets_show_limits_spending_and_shadow_prices(plan: Plan) -> None:
    ((name, limit, spent, price),) = table(plan, "Budgets")
    assert (name, limit) == ("budget", "500")
    assert float(spent) <= 500
    assert float(price) == pytest.approx(plan.diagnostics["prices"]["budget"], rel=1e-2)


def test_next_unit_is_the_slope_of_the_half_width(plan: Plan) -> None:
    before, after = budget_path(plan, budgets=[500, 501])
    text = dict(content(plan).lines)["next unit"]
    assert float(text.split("by ")[1]) == pytest.approx(
        before.half_width - after.half_width, rel=0.05
    )


def test_alternatives_that_cannot_be_had_say_why() -> None:
    plan = plan_budget(
        cov=COV,
        names=NAMES,
        target="human",
        costs={"pro": 1.0, "flash": 0.24},
        half_width=0.05,
        have={"human+pro+flash": 250},
    )
    rows = {row[0]: row for row in table(plan, "simpler ones")}
    assert rows["classical"][1:] == ("—", "—", "nothing for sale is enough")
    assert "made small" in str(table(plan, "Budgets"))
    assert "nothing for sale is enough" in str(plan)


def test_bars_are_half_widths_for_a_budget_and_costs_for_a_half_width(plan: Plan) -> None:
    ax = plot(plan)
    assert [label.get_text() for label in ax.get_yticklabels()][:2] == ["chosen", "classical"]
    assert ax.patches[0].get_width() == pytest.approx(plan.predicted)
    assert ax.get_xlabel() == "predicted half-width"
    least = plan_budget(
        cov=COV,
        names=NAMES,
        target="human",
        costs={"human": 5.0, "pro": 1.0, "flash": 0.24},
        half_width=0.05,
    )
    assert plot(least).patches[0].get_width() == pytest.approx(least.cost)


def test_path_goes_through_the_plan_and_its_weights_sum_to_the_target(plan: Plan) -> None:
    stored = read_result(plan.to_dict())
    assert isinstance(stored, Plan)
    points = budget_path(stored)
    assert [p.budget for p in points] == sorted(p.budget for p in points)
    assert all(a.half_width > b.half_width for a, b in itertools.pairwise(points))
    (same,) = budget_path(plan, budgets=[500])
    assert same.half_width == pytest.approx(plan.predicted, rel=1e-3)
    assert same.half_width == pytest.approx(
        1.959964 * math.sqrt(plan.diagnostics["relaxed_variance"]), rel=1e-5
    )
    fresh = plan_budget(
        cov=COV,
        names=NAMES,
        target="human",
        costs={"human": 5.0, "pro": 1.0, "flash": 0.24},
        budgets=500,
    )
    for point in budget_path(fresh):
        total = np.sum([[w.get(n, 0.0) for n in NAMES] for w in point.weights.values()], axis=0)
        assert total == pytest.approx([1, 0, 0], abs=1e-5)


def test_path_over_many_raters_generates_sets() -> None:
    k = 13
    cov = np.full((k, k), 0.5) + 0.5 * np.eye(k)
    names = ["gold", *(f"r{j}" for j in range(1, k))]
    plan = plan_budget(
        cov=cov,
        names=names,
        target="gold",
        costs={n: 1.0 if n == "gold" else 0.05 for n in names},
        budgets=100,
    )
    points = budget_path(plan)
    assert len(points) == 3
    assert points[1].half_width == pytest.approx(plan.predicted, rel=2e-2)


def test_path_refuses_other_plans_and_budgets(plan: Plan) -> None:
    with pytest.raises(ArgumentError, match="made by plan_budget"):
        budget_path(plan_labels(n_classes=4, accuracy=0.7, half_width=0.1, kind="ordinary"))
    with pytest.raises(ArgumentError, match="positive"):
        budget_path(plan, budgets=[0])


def test_curves_have_their_numbers_in_tables(plan: Plan) -> None:
    points = budget_path(plan)
    counts, weights = budgets.path_tables(points)
    assert len(counts.rows) == len(weights.rows) == len(points)
    drawn = budgets.allocation_plot(points)
    assert {line.get_label() for line in drawn.get_lines()} <= set(counts.header)
    lines = budgets.weights_plot(points).get_legend_handles_labels()[1]
    assert set(lines) <= set(weights.header)
    styles = [
        (line.get_color(), line.get_linestyle(), line.get_marker()) for line in drawn.get_lines()
    ]
    assert len(set(styles)) == len(styles)


@pytest.mark.full
def test_page_of_a_plan_has_three_plots_and_no_script(plan: Plan) -> None:
    page = render_page([plan], title="Plan")
    assert page.count('role="img"') == 3
    assert "<script" not in page
    assert page == render_page([plan], title="Plan")


def test_mean_shows_weights_and_the_classical_interval(estimate: Estimate) -> None:
    lines = dict(content(estimate).lines)
    beside = estimate.diagnostics["classical"]
    assert f"[{beside['low']:.3f}, {beside['high']:.3f}]" in lines["classical"]
    assert lines["raters"].startswith("they leave ")
    assert lines["evidence"] == "400 items, 100 of them with 'gold'"
    assert {row[0]: row[1] for row in table(estimate, "What each sample")} == {
        "gold+judge": "100",
        "judge": "300",
    }
    assert [row[0] for row in table(estimate, "mean of 'gold'")] == [
        "best weights over all raters, cross-fitted, Student's t",
        "classical: the labels alone",
    ]


def test_mean_without_help_says_so(estimate: Estimate) -> None:
    useless = dataclasses.replace(
        estimate, diagnostics={**estimate.diagnostics, "variance_ratio": 1.0}
    )
    assert dict(content(useless).lines)["raters"].startswith("no help")


def test_axis_of_a_mean_is_not_the_unit_interval(estimate: Estimate) -> None:
    low, high = plot(dataclasses.replace(estimate, value=53.0, low=52.0, high=54.0)).get_xlim()
    assert 51 < low < 52 < 54 < high < 55
