"""Charts of a running project as SVG text: the same numbers stand in tables beside them.

No script, no inline style: colours are attributes (fine under a strict content policy), and a style
sheet may change them through the classes ``chart-band``, ``chart-line``, ``chart-axis``,
``chart-grid``, ``chart-text``, ``chart-bar``, ``chart-rest``, ``chart-good``, ``chart- bad``,
``chart-open``.
:data:`CHART_CSS` has rules for dark pages. Colours are from the palette of Okabe and Ito, and shape or text always says the same as colour.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from html import escape

from noracle.collect.live.records import ClassProgress, LiveView, Point, SystemView
from noracle.results import Check

CHART_CSS = """\
.chart { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) {
  .chart-band { fill: #56b4e9; } .chart-line { stroke: #56b4e9; } .chart-dot { fill: #56b4e9; }
  .chart-axis { stroke: #c8c8c8; } .chart-grid { stroke: #4a4a4a; } .chart-text { fill: #e8e8e8; }
  .chart-bar { fill: #56b4e9; } .chart-rest { fill: #3c3c3c; }
  .chart-good { fill: #009e73; } .chart-bad { fill: #d55e00; } .chart-open { fill: #5a5a5a; } .chart-fixed { stroke: #e69f00; }
}
"""
"""Rules for a style sheet."""

_BLUE, _GREEN, _RED, _ORANGE, _GREY, _INK, _PALE = (
    "#0072b2",
    "#009e73",
    "#d55e00",
    "#b06f00",
    "#767676",
    "#1b1b1b",
    "#d9d9d9",
)
_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    'role="img" aria-labelledby="{name}-title {name}-desc">'
)
_FONT = 'font-family="sans-serif" font-size="13"'
_LETTER = 8.0  # how wide a letter of a wide font is on average
_ROOM = (
    8  # between the lowest value of a chart and the axis below it, so that a line at 0 % is seen
)
_MARGIN = 1.0  # percentage points between the band and the edge of its chart


def _svg(name: str, width: int, height: int, title: str, words: str, body: Sequence[str]) -> str:
    """The frame: a picture with a title and a description for people who do not see it."""
    return "\n".join(
        [
            _SVG.format(name=name, width=width, height=height),
            f'<title id="{name}-title">{escape(title)}</title>',
            f'<desc id="{name}-desc">{escape(words)}</desc>',
            *body,
            "</svg>",
        ]
    )


def _n(value: float) -> str:
    """A coordinate, always written in the same way."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _text(x: float, y: float, words: str, *, anchor: str = "start") -> str:
    return f'<text class="chart-text" x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" fill="{_INK}" {_FONT}>{escape(words)}</text>'


def _percent(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.1%}"


def estimate_chart(
    system: SystemView, *, number: int = 0, width: int = 640, height: int = 280
) -> str:
    """The value and its interval over the number of answers in order; the last point is now.

    Examples
    --------
    >>> from noracle.collect.live.simulation import simulate_partitioned
    >>> import numpy as np
    >>> from noracle.collect.live import view_of
    >>> view = view_of(simulate_partitioned(np.random.default_rng(0), n_items=200).project, now=0.0)
    >>> estimate_chart(view.systems[0]).startswith('<svg')
    True
    """
    left, right, top, bottom = 52, 14, 14, 44
    path = system.path
    low, high = _window(path)
    most = max((p.n for p in path), default=1)

    def x(n: float) -> float:
        return left + (width - left - right) * n / most

    def y(value: float) -> float:
        return top + (height - top - bottom - _ROOM) * (high - min(max(value, low), high)) / (
            high - low
        )

    body = []
    for i in range(5):
        value = low + (high - low) * i / 4
        body.append(
            f'<line class="chart-grid" x1="{left}" y1="{_n(y(value))}" x2="{width - right}" y2="{_n(y(value))}" stroke="{_PALE}"/>'
        )
        body.append(_text(left - 6, y(value) + 4, f"{100 * value:.4g}%", anchor="end"))
    body.append(
        f'<line class="chart-axis" x1="{left}" y1="{height - bottom}" x2="{width - right}" y2="{height - bottom}" stroke="{_GREY}"/>'
    )
    body += [
        _text(x(n), height - bottom + 18, f"{n:,}", anchor="end" if n == most else "middle")
        for n in _ticks(most)
    ]
    body.append(
        _text((left + width) / 2, height - 6, "answers in the sealed order", anchor="middle")
    )
    if path:
        edge = [
            *(f"{_n(x(p.n))},{_n(y(p.high))}" for p in path),
            *(f"{_n(x(p.n))},{_n(y(p.low))}" for p in reversed(path)),
        ]
        body.append(
            f'<polygon class="chart-band" points="{" ".join(edge)}" fill="{_BLUE}" fill-opacity="0.25"/>'
        )
        known = [p for p in path if not math.isnan(p.value)]
        line = " ".join(f"{_n(x(p.n))},{_n(y(p.value))}" for p in known)
        body.append(
            f'<polyline class="chart-line" points="{line}" fill="none" stroke="{_BLUE}" stroke-width="2"/>'
        )
        body += [
            f'<circle class="chart-dot" cx="{_n(x(p.n))}" cy="{_n(y(p.value))}" r="3" fill="{_BLUE}"/>'
            for p in known[-1:]
        ]
    else:
        body.append(
            _text((left + width) / 2, height / 2, "not enough answers yet", anchor="middle")
        )
    e = system.estimate
    words = (
        f"{e.quantity} {_percent(e.value)}, {e.confidence:.0%} interval from {_percent(e.low)} to {_percent(e.high)}, valid at every look, "
        f"after {most if path else 0} answers in order."
    )
    return _svg(
        f"estimate-{number}",
        width,
        height,
        f"{e.quantity} of {system.name} over answers",
        words,
        body,
    )


def _window(path: Sequence[Point]) -> tuple[float, float]:
    """The part of [0, 1] that shows the whole band and every point with a margin, four equal steps
    of a whole percentage wide.
    """
    values = [v for p in path for v in (p.low, p.high, p.value) if not math.isnan(v)]
    least, most = min(values, default=0.0), max(values, default=1.0)
    for step in (2, 5, 10, 20):  # percent; the grid has four steps
        low = max(0, math.floor((100 * least - _MARGIN) / step) * step)
        low = min(low, 100 - 4 * step)
        if low >= 0 and low + 4 * step >= min(100.0, 100 * most + _MARGIN):
            return low / 100, (low + 4 * step) / 100
    return 0.0, 1.0


def _ticks(most: int) -> list[int]:
    return sorted({round(most * i / 4) for i in range(5)})


def intervals_chart(systems: Sequence[SystemView], *, width: int = 640) -> str:
    """All systems side by side: value, interval, and the interval at the declared n where it is
    known.
    """
    left, row, top = 150, 34, 10
    height = top + row * max(1, len(systems)) + 28

    def x(value: float) -> float:
        return left + (width - left - 20) * min(max(value, 0.0), 1.0)

    body = [
        f'<line class="chart-grid" x1="{_n(x(i / 4))}" y1="{top}" x2="{_n(x(i / 4))}" y2="{height - 26}" stroke="{_PALE}"/>'
        for i in range(5)
    ]
    body += [_text(x(i / 4), height - 8, f"{i / 4:.0%}", anchor="middle") for i in range(5)]
    for i, s in enumerate(systems):
        e, y = s.estimate, top + row * i + row / 2
        body.append(
            _text(
                left - 10, y + 4, s.name if len(s.name) <= 18 else s.name[:17] + "…", anchor="end"
            )
        )
        body.append(
            f'<line class="chart-line" x1="{_n(x(e.low))}" y1="{_n(y)}" x2="{_n(x(e.high))}" y2="{_n(y)}" stroke="{_BLUE}" '
            'stroke-width="4"/>'
        )
        if s.fixed is not None:
            body.append(
                f'<line class="chart-fixed" x1="{_n(x(s.fixed.low))}" y1="{_n(y + 7)}" x2="{_n(x(s.fixed.high))}" y2="{_n(y + 7)}" '
                f'stroke="{_ORANGE}" '
                'stroke-width="3" stroke-dasharray="6 3"/>'
            )
        if not math.isnan(e.value):
            body.append(
                f'<circle class="chart-dot" cx="{_n(x(e.value))}" cy="{_n(y)}" r="5" fill="{_BLUE}"/>'
            )
    words = "; ".join(
        f"{s.name} {_percent(s.estimate.value)}, from {_percent(s.estimate.low)} to {_percent(s.estimate.high)}"
        for s in systems
    )
    return _svg(
        "intervals", width, height, "Intervals of all systems", words or "no system yet", body
    )


def completion_chart(classes: Sequence[ClassProgress], *, width: int = 640, most: int = 40) -> str:
    """One bar a class: the share of its questions that are answered."""
    left, row, top = 150, 24, 8
    rows = list(classes)[:most]
    height = top + row * max(1, len(rows)) + 8
    span = width - left - 70
    body = []
    for i, c in enumerate(rows):
        y = top + row * i
        body.append(
            _text(
                left - 10, y + 16, c.name if len(c.name) <= 18 else c.name[:17] + "…", anchor="end"
            )
        )
        body.append(
            f'<rect class="chart-rest" x="{left}" y="{y + 4}" width="{span}" height="16" fill="{_PALE}"/>'
        )
        body.append(
            f'<rect class="chart-bar" x="{left}" y="{y + 4}" width="{_n(span * c.completion)}" height="16" fill="{_BLUE}"/>'
        )
        body.append(_text(left + span + 8, y + 16, f"{c.completion:.0%}"))
    words = ", ".join(f"{c.name} {c.answered} of {c.asked}" for c in rows)
    more = f", and {len(classes) - len(rows)} more" if len(classes) > len(rows) else ""
    return _svg(
        "completion",
        width,
        height,
        "Answered questions by class",
        (words or "no classes") + more,
        body,
    )


def checks_chart(checks: Sequence[Check], *, width: int = 640) -> str:
    """One cell a check: passed (tick), alarm (cross), or too early to tell (dot). Long names take
    two lines, and end in … after that.
    """
    columns = max(1, width // 200)
    cell, height = (width - 8) / columns - 8, 46
    rows = max(1, math.ceil(len(checks) / columns))
    body, words = [], []
    for i, c in enumerate(checks):
        x, y = 4 + (i % columns) * (cell + 8), 4 + (i // columns) * (height + 8)
        state, sign, colour = (
            ("open", "·", _GREY)
            if math.isnan(c.p_value)
            else ("good", "✓", _GREEN)
            if c.passed
            else ("bad", "✗", _RED)
        )
        body.append(
            f'<rect class="chart-{state}" x="{_n(x)}" y="{y}" width="{_n(cell)}" height="{height}" rx="4" fill="{colour}" '
            f'fill-opacity="0.25" stroke="{colour}"/>'
        )
        lines = _lines(c.name, int((cell - 36) / _LETTER))
        first = y + height / 2 + 5 - 8 * (len(lines) - 1)
        body.append(_text(x + 10, y + height / 2 + 5, sign))
        body.append(
            f'<svg width="{_n(x + cell)}" height="{y + height}">'
        )  # cuts what is wider than any usual name
        body += [*(_text(x + 28, first + 16 * j, line) for j, line in enumerate(lines)), "</svg>"]
        words.append(
            f"{c.name}: {'too early to tell' if state == 'open' else 'passed' if state == 'good' else 'ALARM'}"
        )
    return _svg(
        "checks",
        width,
        (height + 8) * rows + 8,
        "Checks of the protocol",
        "; ".join(words) or "no checks yet",
        body,
    )


def _lines(words: str, most: int) -> list[str]:
    """At most two lines of at most so many letters, broken between words where that is possible.

    Examples
    --------
    >>> _lines("chance hits of large-eye", 20), _lines("a" * 50, 20)[1]
    (['chance hits of', 'large-eye'], 'aaaaaaaaaaaaaaaaaaa…')
    """
    lines = textwrap.wrap(words, most, break_on_hyphens=False) or [""]
    if len(lines) <= 2:
        return lines
    return [lines[0], lines[1][: most - 1].rstrip() + "…"]


def charts_of(view: LiveView) -> dict[str, str]:
    """All charts of a view by name: ``intervals``, ``completion``, ``checks`` and ``estimate-i``
    for the i-th system.
    """
    found = {
        "intervals": intervals_chart(view.systems),
        "completion": completion_chart(view.classes),
        "checks": checks_chart(view.checks),
    }
    return {
        **found,
        **{f"estimate-{i}": estimate_chart(s, number=i) for i, s in enumerate(view.systems)},
    }
