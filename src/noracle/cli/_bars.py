"""Systems as one table in the terminal, the best first, with their intervals as bars."""

from __future__ import annotations

import math
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noracle.report.chart import Bar, Bars
    from noracle.results import Estimate, Result

MOST_CARDS = 3
"""More systems than that are a table; ``--verbose`` prints a card for each."""
_MOST_SYSTEMS, _LEAST_BAR = 40, 10
_BRACKETS, _FLOOR = {"": " ", "first": "┐", "inner": "│", "last": "┘"}, "┊"


def estimate_lines(estimates: Sequence[Estimate], width: int | None = None) -> list[str]:
    """Estimates of one quantity and one confidence: a headline, the table, and what is true of all
    of them.
    """
    from noracle.report import words
    from noracle.report.card import labelled_lines
    from noracle.report.chart import Bars
    from noracle.report.content import content

    width = width or columns()

    ordered = sorted(estimates, key=lambda e: -e.value if math.isfinite(e.value) else 1.0)
    first, rows = ordered[0], [_row(e) for e in ordered]
    told = [content(e) for e in ordered]
    alerts = list(dict.fromkeys(alert for one in told for alert in one.alerts))
    some = [e.subject for e, one in zip(ordered, told, strict=True) if one.alerts]
    kind = "intervals" if first.side == "two-sided" else f"{first.side} bounds"
    headline = f"{first.quantity} of {len(rows):,} systems"
    headline += f"    {words.level(first.confidence)} {kind}, each by itself"
    lines = ["    ".join([headline, *alerts])]
    lines += bars_lines(Bars(anchor="", title="", rows=rows, most=(0.0, 1.0)), "", width)[:-1]
    if some and len(some) < len(rows):
        lines.append(f"  {'promise':<12}weaker for {words.listed(some)}")
    sound = [e for e, one in zip(ordered, told, strict=True) if not one.alerts] or ordered
    guarantee = reduce(and_, (e.guarantee for e in sound))
    how = dict.fromkeys(words.how(e.method, e.interval) for e in sound)
    shared = [note for note in sound[0].notes if all(note in e.notes for e in sound)]
    said = [("method", text) for text in how]
    said += [("guarantee", words.kind(guarantee)), ("rests on", words.rests_on(guarantee))]
    said += [("note", note) for note in shared]
    said.append(("--verbose", "a card for each system, with its evidence"))
    return [*lines, *(line for pair in said for line in labelled_lines(*pair, width))]


def best_line(estimates: Sequence[Estimate]) -> str:
    """The system with the highest value, in one line."""
    known = [e for e in estimates if math.isfinite(e.value)]
    if not known:
        return f"no {estimates[0].quantity} of {len(estimates):,} systems is known"
    row = _row(max(known, key=lambda e: e.value))
    return f"highest {known[0].quantity} of {len(estimates):,} systems: {row.name!r} {row.said} ({row.more} %)"


def in_columns(result: Result) -> str:
    """The card of a result, no wider than the terminal."""
    if not sys.stdout.isatty():
        return str(result)
    from noracle.report.card import WIDTH, card

    return card(result, min(WIDTH, columns()))


def columns() -> int:
    """The width of the terminal; 100 columns where there is none."""
    return max(40, shutil.get_terminal_size((100, 24)).columns)


def _row(estimate: Estimate) -> Bar:
    from noracle.report.chart import Bar

    return Bar.of(estimate.subject, estimate.low, estimate.high, estimate.value)


def bars_lines(chart: Bars, tied: str = "", width: int | None = None) -> list[str]:
    """The rows of a chart in the width of the terminal; a bracket holds those that cannot be told
    apart.
    """
    width = max(40, width or columns())
    rows = chart.rows[:_MOST_SYSTEMS]
    more = [row.more if row.more == "unknown" else f"{row.more} %" for row in rows]
    lanes = ["".join(_BRACKETS[lane] for lane in row.lanes) for row in rows]
    ends = max(len(row.said) for row in rows) + max(map(len, more)) + max(map(len, lanes)) + 6
    name = min(max(_cells(row.name) for row in rows), max(12, (width - ends) // 2))
    room = width - ends - name - 2
    lines = []
    for row, told, ties in zip(rows, more, lanes, strict=True):
        bar = _bar(chart, row, room) if room >= _LEAST_BAR else ""
        value = row.said.rjust(max(len(r.said) for r in rows))
        cells = (_cut(row.name, name), bar, value, told.rjust(max(map(len, more))), ties)
        lines.append("  ".join(cell for cell in cells if cell).rstrip())
    if room >= _LEAST_BAR:
        (first, low), (last, high) = chart.ticks[0], chart.ticks[-1]
        scale = [" "] * (room + 5)
        for at, text in ((first, low), (last, high)):
            start = max(0, round(float(at) / 100 * (room - 1)) - len(text) // 2)
            scale[start : start + len(text)] = text
        lines.append((" " * (name + 2) + "".join(scale)).rstrip())
    left = len(chart.rows) - len(rows)
    if left > 0:
        lines.append(f"… and {left:,} more systems; the report has all of them")
    if tied:
        lines.append("┐┘ " + tied.removesuffix(" with these labels"))
    lines += [f"{_FLOOR} {said}" for _, said in chart.lines]
    return [*lines, ""]


def _bar(chart: Bars, row: Bar, room: int) -> str:
    """An interval with its value on a line of so many characters."""

    def at(value: float) -> int:
        return round(float(chart.at(value)) / 100 * (room - 1))

    cells = [" "] * room
    for x, _ in chart.lines:
        cells[at(x)] = _FLOOR
    if row.low == row.low and row.high == row.high:
        low, high = at(row.low), at(row.high)
        cells[low : high + 1] = "─" * (high + 1 - low)
    if row.value == row.value:
        cells[at(row.value)] = "●"
    return "".join(cells)


def _cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _cut(text: str, cells: int) -> str:
    """The text in so many columns, cut where it is longer."""
    text = "".join(c if c.isprintable() else "\ufffd" for c in text)
    if _cells(text) > cells:
        while _cells(text) >= cells:
            text = text[:-1]
        text += "…"
    return text + " " * (cells - _cells(text))
