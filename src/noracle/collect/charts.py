"""Charts of the estimates of a running project as SVG text (the template ``chart.svg``): the same
numbers stand in tables beside them.

No script, no inline style: colours are attributes (fine under a strict content policy), and a style
sheet may change them through the classes ``chart-…``, as that of our own pages does for dark ones.
Colours are of Okabe and Ito, and shape or text always says the same as colour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from noracle.collect.live.records import LiveView, Point, SystemView
from noracle.collect.web.page import environment
from noracle.results import Check, Estimate, Kind

_ROOM = 8  # between the lowest value and the axis below it, so that a line at 0 % is seen
_MARGIN = 1.0  # percentage points between the band and the edge of its chart
_EMPTY: dict[str, Any] = dict.fromkeys(("levels", "uprights", "marks", "rows"), ())


def _drawn(**chart: object) -> str:
    return environment().get_template("chart.svg").render({**_EMPTY, **chart})


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
    path, (low, high) = system.path, _window(system.path)
    most = max((p.n for p in path), default=1)

    def x(n: float) -> float:
        return left + (right - left) * n / most

    def y(value: float) -> float:
        return top + (bottom - top - _ROOM) * (high - min(max(value, low), high)) / (high - low)

    steps = [low + (high - low) * i / 4 for i in range(5)]
    ticks = sorted({round(most * i / 4) for i in range(5)})
    known = [(x(p.n), y(p.value)) for p in path if not math.isnan(p.value)]
    edge = [*((x(p.n), y(p.high)) for p in path), *((x(p.n), y(p.low)) for p in reversed(path))]
    e = system.estimate
    between = f"{e.confidence:.0%} interval from {_percent(e.low)} to {_percent(e.high)}"
    words = f"{e.quantity} {_percent(e.value)}, {between}"
    words += ", valid at every look" if e.guarantee.anytime else ""
    frame: dict[str, object] = {"width": width, "height": height}
    frame |= {"left": left, "right": right, "bottom": bottom}
    frame |= {"name": f"estimate-{number}", "middle": (left + width) / 2, "band": edge}
    return _drawn(
        **{**frame, "curve": known, "title": f"{e.quantity} of {system.name} over answers"},
        told=f"{words}, after {most if path else 0} answers in order.",
        levels=[(y(value), f"{100 * value:.4g}%") for value in steps],
        marks=[(x(n), f"{n:,}", "end" if n == most else "middle") for n in ticks],
    )


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
    width, left, step, top = 640, 150, 34, 10
    height = top + step * max(1, len(systems)) + 28

    def x(value: float) -> float:
        return left + (width - left - 20) * min(max(value, 0.0), 1.0)

    rows, said = [], []
    for i, s in enumerate(systems):
        e = final_of(state, s)
        fixed = (x(s.fixed.low), x(s.fixed.high)) if s.fixed is not None and e is s.estimate else ()
        value = None if math.isnan(e.value) else x(e.value)
        ends = {"low": x(e.low), "high": x(e.high), "fixed": fixed, "value": value}
        rows.append({"name": s.name, "y": top + step * (i + 0.5), **ends})
        said.append(f"{s.name} {_percent(e.value)}, from {_percent(e.low)} to {_percent(e.high)}")
    quarters = [i / 4 for i in range(5)]
    frame = {"width": width, "height": height, "left": left, "top": top, "bottom": height - 26}
    return _drawn(
        **{**frame, "name": "intervals", "title": "Intervals of all systems", "rows": rows},
        told="; ".join(said) or "no system yet",
        uprights=[x(q) for q in quarters],
        marks=[(x(q), f"{q:.0%}", "end" if q == 1 else "middle") for q in quarters],
    )


def outcome_of(check: Check) -> bool | None:
    """Whether a check passed; None where there is nothing to check yet."""
    seen = [n for k, n in check.counts.items() if k in ("answered", "complete", "questions")]
    return None if math.isnan(check.p_value) or 0 in seen else check.passed


def charts_of(view: LiveView) -> dict[str, str]:
    """``intervals``, and ``estimate-i`` for the i-th system."""
    each = {f"estimate-{i}": estimate_chart(s, number=i) for i, s in enumerate(view.systems)}
    return {"intervals": intervals_chart(view.systems, state=view.state), **each}
