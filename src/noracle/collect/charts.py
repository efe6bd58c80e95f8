"""Charts of the estimates of a running project as SVG text: the same numbers stand in tables
beside them.

No script, no inline style: colours are attributes (fine under a strict content policy), and a style
sheet may change them through the classes ``chart-…``, as that of our own pages does for dark ones.
Colours are of Okabe and Ito, and shape or text always says the same as colour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from noracle.collect.live.records import LiveView, Point, SystemView
from noracle.results import Check, Estimate, Kind

_BLUE, _ORANGE = "#0072b2", "#b06f00"
_GREY, _INK, _PALE = "#767676", "#1b1b1b", "#d9d9d9"
_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    'role="img" aria-labelledby="{name}-title {name}-desc">'
)
_FONT = 'font-family="sans-serif" font-size="13"'
_ROOM = 8  # between the lowest value and the axis below it, so that a line at 0 % is seen
_MARGIN = 1.0  # percentage points between the band and the edge of its chart


def _svg(name: str, width: int, height: int, title: str, words: str, body: Sequence[str]) -> str:
    """The frame: a picture with a title and a description for people who do not see it."""
    frame = _SVG.format(name=name, width=width, height=height)
    titled = f'<title id="{name}-title">{escape(title)}</title>'
    described = f'<desc id="{name}-desc">{escape(words)}</desc>'
    return "\n".join([frame, titled, described, *body, "</svg>"])


def _n(value: float) -> str:
    """A coordinate, always written in the same way."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _text(x: float, y: float, words: str, *, anchor: str = "start") -> str:
    head = f'<text class="chart-text" x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"'
    return f'{head} fill="{_INK}" {_FONT}>{escape(words)}</text>'


def _mark(tag: str, kind: str, **values: float | str) -> str:
    """A shape; the names of its attributes have ``_`` for a hyphen."""
    texts = {k: v if isinstance(v, str) else _n(v) for k, v in values.items()}
    words = " ".join(f'{k.replace("_", "-")}="{text}"' for k, text in texts.items())
    return f'<{tag} class="chart-{kind}" {words}/>'


def _short(name: str) -> str:
    return name if len(name) <= 18 else name[:17] + "…"


def _percent(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.1%}"


def estimate_chart(system: SystemView, *, number: int = 0) -> str:
    """The value and its interval over the number of answers in order; the last point is now.

    >>> from noracle.collect.live.simulation import simulate_partitioned
    >>> import numpy as np
    >>> from noracle.collect.live import view_of
    >>> view = view_of(simulate_partitioned(np.random.default_rng(0), n_items=200).project, now=0.0)
    >>> estimate_chart(view.systems[0]).startswith('<svg')
    True
    """
    width, height, left, top = 640, 280, 52, 14
    right, bottom = width - 14, height - 44
    path, middle = system.path, (left + width) / 2
    low, high = _window(path)
    most = max((p.n for p in path), default=1)

    def x(n: float) -> float:
        return left + (right - left) * n / most

    def y(value: float) -> float:
        return top + (bottom - top - _ROOM) * (high - min(max(value, low), high)) / (high - low)

    body = []
    for value in (low + (high - low) * i / 4 for i in range(5)):
        at = y(value)
        body.append(_mark("line", "grid", x1=left, y1=at, x2=right, y2=at, stroke=_PALE))
        body.append(_text(left - 6, at + 4, f"{100 * value:.4g}%", anchor="end"))
    body.append(_mark("line", "axis", x1=left, y1=bottom, x2=right, y2=bottom, stroke=_GREY))
    ticks = [
        (n, "end" if n == most else "middle")
        for n in sorted({round(most * i / 4) for i in range(5)})
    ]
    body += [_text(x(n), bottom + 18, f"{n:,}", anchor=anchor) for n, anchor in ticks]
    body.append(_text(middle, height - 6, "answers in the sealed order", anchor="middle"))
    if path:
        known = [(p.n, p.value) for p in path if not math.isnan(p.value)]
        edge = [(p.n, p.high) for p in path] + [(p.n, p.low) for p in reversed(path)]
        band, line = (" ".join(f"{_n(x(a))},{_n(y(b))}" for a, b in s) for s in (edge, known))
        body.append(_mark("polygon", "band", points=band, fill=_BLUE, fill_opacity="0.25"))
        pen: dict[str, float | str] = {"fill": "none", "stroke": _BLUE, "stroke_width": 2}
        body.append(_mark("polyline", "line", points=line, **pen))
        dots = known[-1:]
        body += [_mark("circle", "dot", cx=x(n), cy=y(v), r=3, fill=_BLUE) for n, v in dots]
    else:
        body.append(_text(middle, height / 2, "not enough answers yet", anchor="middle"))
    e = system.estimate
    between = f"{e.confidence:.0%} interval from {_percent(e.low)} to {_percent(e.high)}"
    words = f"{e.quantity} {_percent(e.value)}, {between}, valid at every look"
    words += f", after {most if path else 0} answers in order."
    title = f"{e.quantity} of {system.name} over answers"
    return _svg(f"estimate-{number}", width, height, title, words, body)


def _window(path: Sequence[Point]) -> tuple[float, float]:
    """The part of [0, 1] that shows all points with a margin: four steps of a whole percentage."""
    values = [v for p in path for v in (p.low, p.high, p.value) if not math.isnan(v)]
    least, most = min(values, default=0.0), max(values, default=1.0)
    for step in (2, 5, 10, 20):  # percent; the grid has four steps
        low = max(0, math.floor((100 * least - _MARGIN) / step) * step)
        low = min(low, 100 - 4 * step)
        if low >= 0 and low + 4 * step >= min(100.0, 100 * most + _MARGIN):
            return low / 100, (low + 4 * step) / 100
    return 0.0, 1.0


def final_of(state: str, system: SystemView) -> Estimate:
    """The one answer: at the declared n once the project is closed, else that of every look."""
    promised = system.estimate.guarantee.kind is not Kind.HEURISTIC
    fixed = system.fixed if state == "closed" and promised else None
    return system.estimate if fixed is None else fixed


def intervals_chart(systems: Sequence[SystemView], *, state: str = "open") -> str:
    """All systems: value, interval, and before closing the one at the declared n where it is known."""
    width, left, row, top = 640, 150, 34, 10
    height = top + row * max(1, len(systems)) + 28

    def x(value: float) -> float:
        return left + (width - left - 20) * min(max(value, 0.0), 1.0)

    quarters, ends = [i / 4 for i in range(5)], {"y1": top, "y2": height - 26}
    body = [_mark("line", "grid", x1=x(q), x2=x(q), stroke=_PALE, **ends) for q in quarters]
    body += [_text(x(q), height - 8, f"{q:.0%}", anchor="middle") for q in quarters]
    said = []
    for i, s in enumerate(systems):
        e, y = final_of(state, s), top + row * i + row / 2
        body.append(_text(left - 10, y + 4, _short(s.name), anchor="end"))
        span = {"x1": x(e.low), "x2": x(e.high), "stroke_width": 4}
        body.append(_mark("line", "line", y1=y, y2=y, stroke=_BLUE, **span))
        if s.fixed is not None and e is s.estimate:
            dashes = {"stroke": _ORANGE, "stroke_width": "3", "stroke_dasharray": "6 3"}
            span = {"x1": x(s.fixed.low), "x2": x(s.fixed.high)}
            body.append(_mark("line", "fixed", y1=y + 7, y2=y + 7, **span, **dashes))
        if not math.isnan(e.value):
            body.append(_mark("circle", "dot", cx=x(e.value), cy=y, r=5, fill=_BLUE))
        said.append(f"{s.name} {_percent(e.value)}, from {_percent(e.low)} to {_percent(e.high)}")
    words = "; ".join(said) or "no system yet"
    return _svg("intervals", width, height, "Intervals of all systems", words, body)


def outcome_of(check: Check) -> bool | None:
    """Whether a check passed; None where there is nothing to check yet."""
    seen = [n for k, n in check.counts.items() if k in ("answered", "complete", "questions")]
    return None if math.isnan(check.p_value) or 0 in seen else check.passed


def charts_of(view: LiveView) -> dict[str, str]:
    """``intervals``, and ``estimate-i`` for the i-th system."""
    each = {f"estimate-{i}": estimate_chart(s, number=i) for i, s in enumerate(view.systems)}
    return {"intervals": intervals_chart(view.systems, state=view.state), **each}
