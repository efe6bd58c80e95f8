"""Charts of pages: what they draw, where, and with which words."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from noracle.report.chart import BLUE, INK, Chart
from noracle.report.plots import name_rows, new_axes
from tests.unit.report.samples import SAMPLES


def drawn(chart: Chart) -> ET.Element:
    return ET.fromstring(chart.svg(name="one", title="A chart"))


def words(chart: Chart) -> list[str]:
    return [str(node.text) for node in drawn(chart).iter("text")]


def rows(*names: str) -> Chart:
    chart = Chart()
    new_axes(chart, len(names))
    name_rows(chart, names)
    return chart


@pytest.mark.parametrize("name", SAMPLES)
def test_every_result_says_on_a_chart_what_it_says_on_axes(name: str) -> None:
    chart, ax = Chart(), SAMPLES[name].plot()
    SAMPLES[name].plot(chart)
    said = words(chart)
    assert [t.get_text() for t in ax.get_yticklabels() if t.get_text() not in said] == []
    assert [t.get_text() for t in ax.texts if t.get_text() not in said] == []
    assert ax.get_xlabel() in " ".join(said)


def test_marks_lie_where_the_ticks_say() -> None:
    chart = rows("a", "b")
    chart.plot([0.25], [0], "o", color=BLUE)
    chart.barh(1, 0.5, color=BLUE)
    chart.set_xlim(0, 1)
    root = drawn(chart)
    at = {node.text: float(node.get("x", "nan")) for node in root.iter("text")}
    (circle,), (bar,) = root.iter("circle"), root.iter("rect")
    middle = (at["0.2"] + at["0.4"]) / 2 - (at["0.4"] - at["0.2"]) / 4
    assert float(circle.get("cx", "nan")) == pytest.approx(middle, abs=0.02)
    assert float(bar.get("x", "nan")) == pytest.approx(at["0.0"], abs=0.02)
    wide = float(bar.get("width", "nan"))
    assert wide == pytest.approx((at["1.0"] - at["0.0"]) / 2, abs=0.03)


def test_first_row_is_on_top() -> None:
    chart = rows("first", "second")
    at = {node.text: float(node.get("y", "nan")) for node in drawn(chart).iter("text")}
    assert at["first"] < at["second"]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-0.12, 0.31, ["−0.1", "0.0", "0.1", "0.2", "0.3"]),
        (0, 21_000, ["0", "5,000", "10,000", "15,000", "20,000"]),
        (0.741, 0.745, ["0.741", "0.742", "0.743", "0.744", "0.745"]),
    ],
)
def test_ticks_are_round(low: float, high: float, ticks: list[str]) -> None:
    chart = Chart()
    chart.set_xlim(low, high)
    chart.set_yticks([], [])
    assert words(chart) == ticks


def test_ticks_can_be_whole() -> None:
    chart = Chart()
    chart.plot([1, 2, 3], [0, 0, 0], color=BLUE)
    chart.set_yticks([], [])
    chart.locator_params(axis="x", integer=True)
    assert words(chart) == ["1", "2", "3"]


def test_logarithmic_axes_have_equal_steps_and_named_lines() -> None:
    chart = Chart()
    new_axes(chart, 1, size=(6.4, 3.2), left=True)
    for label, dash in (("set a", "-"), (r"set \$b", "--")):
        chart.plot([1, 1000], [10, 10], dash, marker="s", color=BLUE, label=label)
    chart.set_xscale("log")
    chart.set_yticks([], [])
    chart.legend(loc="center left")
    at = {node.text: float(node.get("x", "nan")) for node in drawn(chart).iter("text")}
    assert at["100"] - at["10"] == pytest.approx(at["1,000"] - at["100"], abs=0.02)
    assert {"set a", "set $b"} <= set(at)


@pytest.mark.parametrize("value", [0.0, 5.0, -3.0])
def test_one_value_is_a_chart_too(value: float) -> None:
    chart = rows("a")
    chart.barh(0, value, color=BLUE, hatch="//", edgecolor=INK)
    assert "url(#one-0)" in chart.svg(name="one", title="A chart")
    assert rows().svg(name="one", title="Nothing")


def test_a_long_label_is_broken_into_lines() -> None:
    chart = rows("a")
    chart.set_xlabel("what is drawn here " * 8)
    lines = [text for text in words(chart) if "drawn" in text]
    assert len(lines) > 1
    assert " ".join(lines) == ("what is drawn here " * 8).strip()


def test_the_same_chart_is_the_same_text_without_colours_of_its_own() -> None:
    made = []
    for _ in range(2):
        chart = Chart()
        SAMPLES["estimate"].plot(chart)
        made.append(chart.svg(name="one", title="A <title>"))
    assert made[0] == made[1]
    assert not re.search(r"#[0-9a-f]{6}\b", made[0])
    assert "A &lt;title&gt;" in made[0]


def test_a_page_needs_no_matplotlib() -> None:
    code = (
        "from tests.unit.report.samples import SAMPLES; from noracle.report.page import render_page;"
        "render_page(list(SAMPLES.values()), title='x');"
        "sys.exit('matplotlib' in sys.modules and 'matplotlib was imported')"
    )
    subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"], check=True
    )
