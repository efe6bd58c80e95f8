from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from noracle.errors import ArgumentError
from noracle.report.plots import interval_plot, plot, rank_plot
from noracle.results import Difference, Rank
from tests.unit.report.samples import (
    CHECK,
    COMPARISON,
    ESTIMATE,
    FAILED_CHECK,
    HEURISTIC,
    PLAN,
    RANGES,
    ROUTING,
    SAMPLES,
    UNDEFINED,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def names(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_result_draws_on_given_axes_without_global_change(name: str) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    before = dict(mpl.rcParams)
    figure = Figure()
    ax = figure.subplots()
    assert SAMPLES[name].plot(ax) is ax
    figure.savefig(__import__("io").BytesIO(), format="png")
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("name", SAMPLES)
def test_every_result_draws_on_new_axes(name: str) -> None:
    from matplotlib.axes import Axes

    ax = SAMPLES[name].plot()
    assert isinstance(ax, Axes)
    assert ax.get_xlabel()
    assert names(ax)


def test_plotting_does_not_import_pyplot() -> None:
    code = (
        "import sys; from tests.unit.report.samples import ESTIMATE; ESTIMATE.plot();"
        "sys.exit('matplotlib.pyplot' in sys.modules and 'pyplot was imported')"
    )
    subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"], check=True
    )


def test_intervals_are_drawn_where_they_are() -> None:
    ax = interval_plot([ESTIMATE, UNDEFINED])
    drawn = {tuple(np.round(line.get_xdata(), 6)) for line in ax.lines}
    assert (0.708, 0.869) in drawn
    assert (0.8,) in drawn
    assert (0.0, 1.0) in drawn
    assert names(ax) == ["agent-7", "agent-8"]


def test_single_estimate_shows_the_whole_unit_interval() -> None:
    low, high = plot(ESTIMATE).get_xlim()
    assert low <= 0
    assert high >= 1


def test_value_outside_the_unit_interval_is_in_sight() -> None:
    assert plot(HEURISTIC).get_xlim()[0] < -0.031


def test_names_with_dollar_signs_are_not_mathematics() -> None:
    ax = plot(dataclasses.replace(ESTIMATE, subject=r"$\undefined{$ $"))
    ax.get_figure().savefig(__import__("io").BytesIO(), format="svg")
    assert names(ax) == [r"$\undefined{$ $"]


def test_no_estimates_give_empty_axes() -> None:
    assert names(interval_plot([])) == []


def test_ranks_and_differences() -> None:
    assert names(rank_plot(COMPARISON)) == ["agent-7", "agent-8", "baseline"]
    assert names(plot(COMPARISON))[1] == "agent-7 − baseline"


def test_many_differences_are_drawn_against_the_first() -> None:
    systems = [f"s{i}" for i in range(12)]
    pairs = [(a, b) for i, a in enumerate(systems) for b in systems[i + 1 :]]
    many = dataclasses.replace(
        COMPARISON,
        systems=tuple(systems),
        ranks=tuple(Rank(system=s, best=1, worst=12, value=0.5) for s in systems),
        differences=tuple(
            Difference(first=a, second=b, value=0.0, low=-0.1, high=0.1) for a, b in pairs
        ),
    )
    assert names(plot(many)) == [f"s0 − s{i}" for i in range(1, 12)]


def test_undefined_difference_does_not_break_the_plot() -> None:
    gone = Difference(first="a", second="b", value=math.nan, low=math.nan, high=math.nan)
    assert names(plot(dataclasses.replace(COMPARISON, differences=(gone,)))) == ["a − b"]


def test_plan_bars_are_costs() -> None:
    ax = plot(PLAN)
    assert [p.get_width() for p in ax.patches] == [12100.0, 19000.0, 15600.0]
    assert names(ax) == [
        "300 ordinary + 9,100 complementary",
        "19,000 complementary",
        "1,560 ordinary",
    ]


def test_plan_without_costs_shows_predictions() -> None:
    ax = plot(dataclasses.replace(PLAN, cost=math.nan))
    assert "half-width" in ax.get_xlabel()


def test_plan_alternatives_with_a_basket_do_not_repeat_the_plan() -> None:
    baskets = (
        {
            "buy": {"ordinary": 300, "complementary": 9100},
            "cost": 12100.0,
            "predicted": 0.0198,
            "feasible": True,
        },
        {"buy": {"targeted": 900}, "cost": 9900.0, "predicted": 0.0197, "feasible": False},
    )
    plan = dataclasses.replace(PLAN, alternatives=baskets)
    assert [p.get_width() for p in plot(plan).patches] == [12100.0, 9900.0]
    lines = str(plan).splitlines()
    assert lines[1].split() == [
        "ordinary",
        "complementary",
        "targeted",
        "cost",
        "predicted",
        "feasible",
    ]
    assert lines[2].split() == ["chosen", "300", "9,100", "0", "12,100", "0.0198", "yes"]
    assert lines[3].split() == ["0", "0", "900", "9,900", "0.0197", "no"]


def test_check_bars_are_observations() -> None:
    ax = plot(CHECK)
    assert [p.get_width() for p in ax.patches] == [310.0, 290.0]
    assert "expected" in ax.get_xlabel()


def test_check_without_parts_shows_its_p_value() -> None:
    assert "fails below 0.001" in plot(FAILED_CHECK).get_xlabel()


def test_check_with_wordy_parts_shows_its_p_value() -> None:
    assert (
        "p-value"
        in plot(dataclasses.replace(CHECK, parts=({"name": "a", "finding": "fine"},))).get_xlabel()
    )


def test_check_without_expectations_shows_p_values_and_the_threshold() -> None:
    parts = (
        {"what": "class 3", "statistic": 40.0, "p_value": 1e-8},
        {"what": "class 4", "statistic": 0.5, "p_value": 0.7},
    )
    ax = plot(dataclasses.replace(CHECK, p_value=1e-8, parts=parts))
    assert [p.get_width() for p in ax.patches] == [1e-8, 0.7]
    assert names(ax) == ["class 3", "class 4"]
    assert [p.get_hatch() for p in ax.patches] == ["//", None]


def test_ranges_and_questions() -> None:
    assert names(plot(RANGES)) == ["accuracy of 'agent-7'", "accuracy of 'agent-8'"]
    assert [p.get_width() for p in plot(ROUTING).patches] == [1.0, 2.0, 1.0]


def test_plot_of_something_else_is_refused() -> None:
    with pytest.raises(ArgumentError, match="got str"):
        plot("estimate")
