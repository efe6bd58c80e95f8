"""Charts: valid, the same each time, readable without seeing them, and allowed by a strict content
policy.
"""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from noracle.collect import charts
from noracle.collect.charts import (
    _window,
    charts_of,
    estimate_chart,
    intervals_chart,
)
from noracle.collect.live import LiveView, view_of
from noracle.collect.live.records import Point
from noracle.collect.live.simulation import Faults, simulate_partitioned, simulate_shown
from noracle.results import Check

SVG = "{http://www.w3.org/2000/svg}"


def view(**options: object) -> LiveView:
    return view_of(
        simulate_partitioned(np.random.default_rng(1), n_items=600, **options).project, now=0.0
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "faults",
    [Faults(), Faults(speeds=(1.0,) * 9 + (0.0,)), Faults(unsure=(0.5, 0.5, 0.5))],
    ids=["full", "absent", "unsure"],
)
def test_charts_are_valid_and_say_what_they_show(faults: Faults) -> None:
    for name, text in charts_of(view(faults=faults)).items():
        root = ET.fromstring(text)
        title, words = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert root.get("role") == "img", name
        assert title is not None
        assert words is not None
        assert title.text
        assert words.text
        assert root.get("aria-labelledby") == f"{title.get('id')} {words.get('id')}"
        assert "nan" not in text.lower().replace("inan", "")


def test_charts_need_no_inline_style_or_script() -> None:
    for text in charts_of(view()).values():
        assert not re.search(r"\sstyle=|<style|<script|\son\w+=|href", text)


def test_charts_are_the_same_each_time() -> None:
    assert charts_of(view()) == charts_of(view())


def test_names_are_escaped() -> None:
    made = view()
    evil = '"><script>alert(1)</script>'
    system = dataclasses.replace(made.systems[0], name=evil)
    for text in (estimate_chart(system), intervals_chart([system])):
        ET.fromstring(text)
        assert "<script" not in text


def test_numbers_of_the_chart_are_those_of_the_view() -> None:
    made = view()
    words = ET.fromstring(estimate_chart(made.systems[0])).find(f"{SVG}desc")
    assert words is not None
    assert f"{made.systems[0].estimate.low:.1%}" in str(words.text)
    assert f"{made.systems[0].estimate.high:.1%}" in str(words.text)


def test_empty_views_have_charts_too() -> None:
    made = view(faults=Faults(speeds=(0.0,) * 10))
    assert "not enough answers yet" in estimate_chart(made.systems[0])
    ET.fromstring(intervals_chart([]))
    shown = view_of(
        simulate_shown(np.random.default_rng(0), protocol="judge-all", n_items=100).project, now=0.0
    )
    ET.fromstring(estimate_chart(shown.systems[0]))


def test_dark_pages_change_every_class_of_a_shape() -> None:
    used = {
        c
        for text in charts_of(view()).values()
        for c in re.findall(r'class="(chart-[a-z]+)"', text)
    }
    styles = Path(charts.__file__).with_name("web") / "static" / "app.css"
    _, dark = styles.read_text(encoding="utf-8").split("\n.chart {")
    assert used <= set(re.findall(r"\.(chart-[a-z]+)", dark))


def drawn_y(points: str) -> list[float]:
    return [float(pair.split(",")[1]) for pair in points.split()]


@pytest.mark.parametrize(
    "path",
    [
        [(10, 0.2, 0.01, 0.93), (40, 0.6, 0.3, 0.85), (90, 0.62, 0.5, 0.7)],
        [(10, 0.0, 0.0, 1.0), (40, 1.0, 0.4, 1.0)],
        [(50, 0.601, 0.6, 0.602), (60, 0.6, 0.599, 0.603)],
        [(50, 0.999, 0.998, 1.0), (60, 1.0, 0.999, 1.0)],
        [(50, 0.0, 0.0, 0.001), (60, math.nan, 0.0, 0.401)],
        [(50, 0.5, 0.1, 0.9)],
    ],
    ids=["early wide", "everything", "narrow", "near one", "near zero", "one point"],
)
def test_the_axis_covers_the_band_and_every_point_with_a_margin(
    path: list[tuple[int, float, float, float]],
) -> None:
    points = tuple(Point(n=n, value=v, low=low, high=high) for n, v, low, high in path)
    low, high = _window(points)
    seen = [v for p in points for v in (p.value, p.low, p.high) if not math.isnan(v)]
    assert 0 <= low <= max(0.0, min(seen) - 0.0099)
    assert 1 >= high >= min(1.0, max(seen) + 0.0099)
    assert [round(100 * (low + (high - low) * i / 4), 6) % 1 for i in range(5)] == [0] * 5, (
        "the grid has whole percentages"
    )
    root = ET.fromstring(estimate_chart(dataclasses.replace(view().systems[0], path=points)))
    band = root.find(f"{SVG}polygon")
    assert band is not None
    ys = drawn_y(str(band.get("points")))
    axis = root.find(f"{SVG}line[@class='chart-axis']")
    assert axis is not None
    assert max(ys) <= float(str(axis.get("y1"))) - 8, "also a line at 0 % is above the axis"
    ends = sorted({p.high for p in points} | {p.low for p in points})
    assert len(set(ys)) == len({round(14 + 214 * (high - v) / (high - low), 1) for v in ends}), (
        "nothing is cut to the edge"
    )


def test_a_check_without_evidence_has_no_tick() -> None:
    from noracle.collect.charts import outcome_of

    base = Check(
        name="a", assumption="b", p_value=1.0, statistic=0.0, finding="", method="", threshold=0.01
    )
    for counts in (
        {"answered": 0, "wrong": 0, "sealed": 8},
        {"complete": 0, "sealed": 4, "broken": 0},
    ):
        assert outcome_of(dataclasses.replace(base, counts=counts)) is None
    assert outcome_of(dataclasses.replace(base, counts={"questions": 0})) is None
    assert outcome_of(dataclasses.replace(base, counts={"answered": 3, "wrong": 0})) is True
    assert outcome_of(dataclasses.replace(base, p_value=0.001, counts={"questions": 3})) is False
