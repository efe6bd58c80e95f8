"""Plots of results: colour-blind-safe, readable without colour, and without touching matplotlib's
global state.

Shape and line carry the meaning too: a hollow marker is "not separable", a dashed line is a
heuristic, a cross has no interval. Every plot has the same numbers as a table in the page that
shows it.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from noracle.report import words
from noracle.report.chart import BLUE, GREY, INK, LINE, ORANGE, Chart
from noracle.report.content import against_leader, module_of, plan_options
from noracle.results import Check, Comparison, Difference, Estimate, Kind, Plan, Ranges, Routing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BARS = 20


@functools.singledispatch
def plot(result: object, ax: Axes | None = None) -> Axes:
    """Draw a result.

    Examples
    --------
    >>> from noracle.results import Guarantee, Kind, Range, Ranges
    >>> promise = Guarantee(kind=Kind.LOGICAL, error_rate=0)
    >>> ranges = Ranges(ranges=(Range(name="a", low=0.2, high=0.7),), method="worst case", guarantee=promise)
    >>> [label.get_text() for label in plot(ranges).get_yticklabels()]
    ['a']
    """
    drawn: Axes = module_of(result).draw(result, ax)
    return drawn


@plot.register(Estimate)
def _(result: Estimate, ax: Axes | None = None) -> Axes:
    return interval_plot([result], ax)


def interval_plot(estimates: Sequence[Estimate], ax: Axes | None = None) -> Axes:
    """Draw the intervals of several estimates, one line each, the first on top.

    Examples
    --------
    >>> from noracle.results import Estimate, Guarantee, Kind
    >>> promise = Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=0.05)
    >>> one = Estimate(quantity="accuracy", subject="a", value=0.8, low=0.7, high=0.9, confidence=0.95, method="ml",
    ...                interval="exact", guarantee=promise)
    >>> interval_plot([one]).get_xlabel()
    'accuracy, 95 % interval'
    """
    ax = new_axes(ax, len(estimates))
    for y, e in enumerate(estimates):
        _interval(ax, y, e, dashed=e.guarantee.kind == Kind.HEURISTIC)
    name_rows(ax, [e.subject for e in estimates])
    if estimates:
        first = estimates[0]
        spread = {words.level(e.confidence) for e in estimates}
        sides = {"interval" if e.side == "two-sided" else f"{e.side} bound" for e in estimates}
        shown = f"{' and '.join(sorted(spread))} {' or '.join(sorted(sides))}"
        ax.set_xlabel(f"{first.quantity}, {shown}")
        ends = [v for e in estimates for v in (e.value, e.low, e.high) if math.isfinite(v)]
        _limits(ax, ends, unit=len(estimates) == 1 and first.quantity == "accuracy")
    return ax


def rank_plot(result: Comparison, ax: Axes | None = None) -> Axes:
    """Draw the places that each system of a comparison can hold.

    Examples
    --------
    >>> from noracle.results import Comparison, Guarantee, Kind, Rank
    >>> promise = Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=0.05)
    >>> ranks = (Rank(system="a", best=1, worst=1, value=0.8), Rank(system="b", best=2, worst=2, value=0.7))
    >>> result = Comparison(systems=("a", "b"), differences=(), ranks=ranks, leaders=("a",), confidence=0.95, method="scores",
    ...                     interval="betting", guarantee=promise)
    >>> rank_plot(result).get_xlabel()
    'place (1 is best)'
    """
    ax = new_axes(ax, len(result.ranks))
    for y, r in enumerate(result.ranks):
        color = BLUE if r.system in result.leaders else GREY
        span(ax, y, r.best, r.worst, color, linewidth=6, solid_capstyle="round", alpha=0.9)
        places = str(r.best) if r.best == r.worst else f"{r.best}–{r.worst}"
        note(ax, places, (r.worst, y), (8, 0), fontsize=8.5)
    name_rows(ax, [r.system for r in result.ranks])
    last = max((r.worst for r in result.ranks), default=1)
    ax.set_xlim(0.6, last + 0.9)
    ax.set_xticks(range(1, last + 1, max(1, math.ceil(last / 10))))
    ax.set_xlabel("place (1 is best)")
    return ax


def drawn_differences(result: Comparison) -> tuple[Difference, ...]:
    """The differences that are drawn: all if few, else those against the first system."""
    return against_leader(result, _MOST_BARS)


@plot.register(Comparison)
def _(result: Comparison, ax: Axes | None = None) -> Axes:
    shown = drawn_differences(result)
    ax = new_axes(ax, len(shown))
    ax.axvline(0, color=GREY, linewidth=1)
    for y, d in enumerate(shown):
        _interval(ax, y, d, hollow=d.verdict == "not separable")
    name_rows(ax, [f"{short_name(d.first)} − {short_name(d.second)}" for d in shown])
    ax.set_xlabel(f"difference of accuracy, {words.level(result.confidence)} simultaneous")
    _limits(ax, [0.0, *(v for d in shown for v in (d.low, d.high, d.value) if math.isfinite(v))])
    return ax


@plot.register(Plan)
def _(result: Plan, ax: Axes | None = None) -> Axes:
    from noracle.report import budgets

    if budgets.is_budget_plan(result):
        return budgets.alternatives_plot(result, ax)
    options = plan_options(result)[:_MOST_BARS]
    chosen = options[0].buy
    key = "cost" if all(_number(option.said.get("cost")) for option in options) else "predicted"
    options = [option for option in options if _number(option.said.get(key))]
    ax = new_axes(ax, len(options))
    told = ["chosen" if option.buy == chosen else "" for option in options]
    draw_bars(ax, [float(option.said[key]) for option in options], told, highlight={0})
    bought = ({kind: n for kind, n in option.buy.items() if n} for option in options)
    name_rows(ax, [words.bought(buy) for buy in bought])
    ax.set_xlabel("cost" if key == "cost" else f"predicted {result.goal}")
    return ax


@plot.register(Check)
def _(result: Check, ax: Axes | None = None) -> Axes:
    """Bars of what was observed beside what was expected, or of p-values beside the threshold."""
    parts = result.parts[:_MOST_BARS]
    compared = bool(parts) and all(_number(part.get("expected")) for part in parts)
    wanted = ("observed", "value", "rate", "statistic") if compared else ("p_value", "p")
    key = next((k for k in wanted if parts and all(_number(part.get(k)) for part in parts)), None)
    if key is None:
        parts, key, compared = ({"name": result.name, "p_value": result.p_value},), "p_value", False
    values = [float(part[key]) for part in parts]
    ax = new_axes(ax, len(parts))
    told = ["" if compared else words.p_value(v) for v in values]
    against = {
        i
        for i, part in enumerate(parts)
        if _number(part.get("p_value")) and part["p_value"] < result.threshold
    }
    heights = [0.0 if math.isnan(v) else v for v in values]
    draw_bars(ax, heights, told, highlight=set() if result.passed else against)
    if compared:
        expected = [float(part["expected"]) for part in parts]
        ax.plot(expected, range(len(parts)), "D", color=INK, markersize=6, markeredgecolor="white")
        label = f"{key} (bars) and expected (◆)"
    else:
        ax.axvline(result.threshold, color=INK, linestyle="--", linewidth=1)
        ax.set_xlim(0, 1.15)
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
        label = f"p-value; fails below {result.threshold:g}"
    name_rows(ax, [_label(part, (key, "expected", "p_value")) for part in parts])
    if len(parts) < len(result.parts):
        label += f", first {len(parts)} of {len(result.parts)}"
    ax.set_xlabel(label)
    return ax


@plot.register(Ranges)
def _(result: Ranges, ax: Axes | None = None) -> Axes:
    from noracle.report import proofs

    special = proofs.ranges_plot(result, ax)
    if special is not None:
        return special
    ax = new_axes(ax, len(result.ranges))
    for y, r in enumerate(result.ranges):
        if math.isfinite(r.low) and math.isfinite(r.high):
            span(ax, y, r.low, r.high, BLUE, linewidth=6, solid_capstyle="butt")
        else:
            ax.plot([0.5], [y], "x", color=ORANGE)
    name_rows(ax, [r.name for r in result.ranges])
    ends = [v for r in result.ranges for v in (r.low, r.high) if math.isfinite(v)]
    _limits(ax, ends, unit=all(0 <= v <= 1 for v in ends))
    ax.set_xlabel("possible values")
    return ax


@plot.register(Routing)
def _(result: Routing, ax: Axes | None = None) -> Axes:
    counted = Counter("open" if k is None else f"class {k}" for _, k, _ in result.rows)
    asked = counted.most_common(_MOST_BARS)
    asked.sort(key=lambda pair: (len(pair[0]), pair[0]))
    ax = new_axes(ax, len(asked))
    draw_bars(ax, [float(n) for _, n in asked], [words.count(n) for _, n in asked])
    name_rows(ax, [k for k, _ in asked])
    ax.set_xlabel("questions")
    return ax


def new_axes(
    ax: Axes | None, rows: int, *, size: tuple[float, float] | None = None, left: bool = False
) -> Axes:
    """``ax``, or new ones with room for these rows (or this size, in inches), in house style."""
    size = size or (4.9, 0.75 + 0.32 * max(rows, 1))
    chart: object = ax  # of a page; it can be drawn on like matplotlib's
    if isinstance(chart, Chart):
        chart.set_size(*size, left=left)
        return cast("Axes", chart)
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if ax is None:
        ax = Figure(figsize=size, layout="constrained").subplots()
    for name in ("top", "right", "left"):
        ax.spines[name].set_visible(name == "left" and left)
    for name in ("bottom", "left"):
        ax.spines[name].set_color(GREY)
    ax.tick_params(axis="x", colors=INK, labelsize=8.5)
    ax.tick_params(axis="y", length=0, colors=INK, labelsize=8.5)
    ax.xaxis.label.set_color(INK)
    ax.xaxis.label.set_fontsize(8.5)
    ax.grid(axis="x", color=LINE, linewidth=0.8)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    ax.set_axisbelow(True)
    ax.set_facecolor("none")
    return ax


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Write the names of rows at the left, the first on top."""
    ax.set_yticks(range(len(names)), [short_name(n) for n in names], parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)


def short_name(name: str, most: int = 34) -> str:
    """A name that fits beside a plot."""
    name = "".join(c if c.isprintable() else " " for c in name)
    return name if len(name) <= most else name[: most - 1] + "…"


def _interval(
    ax: Axes, y: float, of: Estimate | Difference, *, dashed: bool = False, hollow: bool = False
) -> None:
    low, high, color = of.low, of.high, ORANGE if dashed else GREY if hollow else BLUE
    bounded = math.isfinite(low) and math.isfinite(high)
    if bounded:
        span(ax, y, low, high, color, linestyle="--" if dashed else "-", solid_capstyle="butt")
        ax.plot([low, high], [y, y], "|", color=color, markersize=9, markeredgewidth=2)
    if math.isfinite(of.value):
        look: dict[str, Any] = {"markersize": 7, "markeredgewidth": 1.6}
        mark(ax, (of.value, y), "o" if bounded else "x", color, hollow=hollow, **look)
    else:
        centre = (low + high) / 2 if bounded else 0.5
        note(ax, "estimate undefined", (centre, y), (0, 5), ha="center", va="bottom")


def span(ax: Axes, y: float, low: float, high: float, color: str, **style: Any) -> None:
    """Draw a line from ``low`` to ``high`` in a row."""
    ax.plot([low, high], [y, y], color=color, **{"linewidth": 2.4, **style})


def mark(
    ax: Axes, at: tuple[float, float], form: str, color: str, *, hollow: bool = False, **style: Any
) -> None:
    """Draw one marker; a hollow one has the colour of the ground inside."""
    look = {"markersize": 6, "markerfacecolor": "white" if hollow else color, **style}
    ax.plot([at[0]], [at[1]], form, color=color, **look)


def note(
    ax: Axes, text: str, at: tuple[float, float], by: tuple[float, float], **style: Any
) -> None:
    """Write beside a place of the data, so many points off."""
    look = {"va": "center", "fontsize": 8, "color": INK, **style}
    ax.annotate(text, at, by, textcoords="offset points", **look)


def draw_bars(
    ax: Axes, values: Sequence[float], notes: Sequence[str], highlight: set[int] | None = None
) -> None:
    """Draw horizontal bars with a note at the end of each; highlighted ones are hatched."""
    for y, (value, told) in enumerate(zip(values, notes, strict=True)):
        marked = highlight is not None and y in highlight
        look: dict[str, Any] = {"color": BLUE, "edgecolor": BLUE}
        if marked:
            look = {"color": ORANGE, "edgecolor": "white", "hatch": "//"}
        ax.barh(y, value, height=0.62, linewidth=0, **look)
        if told:
            note(ax, told, (value, y), (4, 0))
    ax.margins(x=0.14)


def _limits(ax: Axes, ends: Sequence[float], *, unit: bool = False) -> None:
    """Show the values with some air, and all of the unit interval if it is the scale."""
    if unit:
        ends = [0.0, 1.0, *ends]
    if ends:
        air = 0.02 if unit else 0.06 * max(max(ends) - min(ends), 1e-3)
        ax.set_xlim(min(ends) - air, max(ends) + air)


def _label(row: Mapping[str, Any], skip: Sequence[str]) -> str:
    """What a row is called: its first text, or its first value that is not drawn."""
    others = {k: v for k, v in row.items() if k not in skip}
    for name in ("name", "part", "group", "class", "system", "stratum", "rater", "what"):
        if name in others:
            return f"{name} {others[name]}" if name == "class" else str(others[name])
    texts = [str(v) for v in others.values() if isinstance(v, str)]
    return texts[0] if texts else words.pairs(dict(list(others.items())[:2])) or "—"


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


__all__ = ["BLUE", "GREY", "INK", "LINE", "ORANGE", "draw_bars", "drawn_differences"]
__all__ += ["interval_plot", "mark", "name_rows", "new_axes", "note", "plot", "rank_plot"]
__all__ += ["short_name", "span"]
