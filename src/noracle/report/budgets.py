"""What is said about a plan across raters and about the mean that it leads to, and how both are
drawn.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noracle.report import words
from noracle.report.chart import BLUE, GREY, INK, ORANGE
from noracle.report.content import Content, ContentTable, guaranteed, table
from noracle.results import Estimate, Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from noracle.ppi.planner import BudgetPoint

_MOST_LINES = 8


def is_budget_plan(plan: Plan) -> bool:
    """Whether the plan spreads budgets over raters."""
    return plan.inputs.get("planner") == "budget" and "problem" in plan.diagnostics


def budget_content(plan: Plan) -> Content:
    """Describe a plan across raters: what to buy, how good it is, what more money brings."""
    target = plan.inputs.get("target")
    name = repr(target) if isinstance(target, str) else words.scalar(target)
    rows = plan.inputs.get("pilot_rows")
    pilot = "" if rows is None else f"estimated from a pilot, {words.count(rows)} rows"
    described = guaranteed(
        plan,
        (
            f"plan for {plan.goal} {words.scalar(plan.wanted)}",
            f"buy {words.bought(plan.buy)}",
            f"cost {_money(plan.cost)}",
            f"predicted ± {words.scalar(plan.predicted)} for {name}",
        ),
        ("method", words.how(plan.method, plan.interval)),
        ("in hand", words.pairs(plan.inputs.get("in_hand") or {})),
        ("proved", _gap(plan)),
        ("next unit", _next_unit(plan)),
        ("covariance", pilot or "as given"),
        ("confidence", words.level(plan.confidence)),
        tables=(_alternatives(plan), _allocation(plan), _budgets(plan)),
    )
    notes = (note for note in plan.notes if not note.startswith("one more unit of"))
    return dataclasses.replace(described, notes=tuple(notes))


def _gap(plan: Plan) -> str:
    gap = plan.diagnostics["gap"]
    if not isinstance(gap, (int, float)) or math.isnan(gap):
        return ""
    what = "more variance than the best real-valued plan"
    if plan.goal == "half-width":
        what = "more expensive than the smallest budget"
    return f"at most {words.percent(gap, '.2g')} {what}, over all sets for sale"


def narrowing(plan: Plan) -> dict[str, float]:
    """What one more unit of each budget takes off the half-width (to first order)."""
    variance = plan.diagnostics["variance"]
    return {
        name: plan.predicted * price / (2 * variance)
        for name, price in plan.diagnostics["prices"].items()
        if price > 1e-9 * variance
    }


def _next_unit(plan: Plan) -> str:
    parts = (f"one more of {name!r} narrows ± by {x:.2g}" for name, x in narrowing(plan).items())
    return " · ".join(parts)


def _allocation(plan: Plan) -> ContentTable:
    from noracle.ppi.verify import price_of

    weights = plan.diagnostics["weights"]
    hand = plan.diagnostics.get("weights_in_hand") or {}
    rows = []
    for name, n in plan.buy.items():
        price = price_of(plan, name)
        money = (words.scalar(price), _money(n * price))
        rows.append((name, words.count(n), *money, _weights(weights.get(name, {}))))
    if hand:
        total = sum((plan.inputs.get("in_hand") or {}).values())
        rows.append(("in hand", words.count(total), "paid", "paid", _weights(hand)))
    header = ("set", "items", "price", "cost", "weights in the estimate")
    return table("What to observe on how many items", header, rows, text=(0, -1))


def _weights(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in weights.items())


def _budgets(plan: Plan) -> ContentTable:
    limits, prices = plan.inputs.get("budgets") or {}, plan.diagnostics["prices"]
    rows = []
    for name, spent in plan.diagnostics["spent"].items():
        limit = limits.get(name)
        most = "made small" if limit is None else words.scalar(limit)
        rows.append((name, most, _money(spent), f"{prices[name]:.3g}"))
    return table(
        "Budgets, what is spent, and how much variance one more unit would take away",
        ("budget", "limit", "spent", "shadow price"),
        rows,
        shown=() if len(rows) < 2 else None,
    )


def _alternatives(plan: Plan) -> ContentTable:
    chosen = words.bought(plan.buy)
    rows = [("chosen", _money(plan.cost), words.scalar(plan.predicted), chosen)]
    for other in plan.alternatives:
        why = "" if other.get("feasible", True) else str(other.get("why", ""))
        figures = (_or_dash(other["cost"], 9), _or_dash(other["predicted"]))
        rows.append((str(other["name"]), *figures, why or words.bought(other["buy"])))
    header = ("", "cost", "predicted ±", "buy")
    return table("The plan and simpler ones", header, rows, text=(0, -1))


def _or_dash(value: float | None, digits: int = 12) -> str:
    return "—" if value is None or math.isnan(value) else words.scalar(round(value, digits))


def _money(value: float) -> str:
    """A sum of many prices, without the dust of their addition."""
    return words.scalar(round(value, 9))


def alternatives_plot(plan: Plan, ax: Axes | None = None) -> Axes:
    """Bars of the half-width, or the cost where that was wanted, of the plan and simpler ones."""
    from noracle.report import plots

    key = "cost" if plan.goal == "half-width" else "predicted"
    options = [("chosen", getattr(plan, key))]
    options += [(str(o["name"]), o[key]) for o in plan.alternatives]
    drawn = [(name, float(v)) for name, v in options if v is not None and math.isfinite(v)]
    ax = plots.new_axes(ax, len(drawn))
    plots.draw_bars(ax, [v for _, v in drawn], [words.scalar(v) for _, v in drawn], highlight={0})
    plots.name_rows(ax, [name for name, _ in drawn])
    ax.set_xlabel("cost" if key == "cost" else "predicted half-width")
    return ax


# ------------------------------------------------------------------------------------------------------------
# over the budget


def allocation_plot(points: Sequence[BudgetPoint], ax: Axes | None = None) -> Axes:
    """Draw how many items each set gets, over the budget; both axes are logarithmic."""
    sets = _series(point.n for point in points)
    ax = _lines(points, {s: [point.n.get(s, math.nan) for point in points] for s in sets}, ax)
    ax.set_yscale("log")
    ax.set_ylabel("items", color=INK, fontsize=8.5)
    return ax


def weights_plot(points: Sequence[BudgetPoint], ax: Axes | None = None) -> Axes:
    """Draw the weight of each rater in each set, over the budget."""
    flat = [_flat(point) for point in points]
    series = _series(flat)
    ax = _lines(points, {s: [values.get(s, math.nan) for values in flat] for s in series}, ax)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set_ylabel("weight", color=INK, fontsize=8.5)
    return ax


def path_tables(points: Sequence[BudgetPoint]) -> tuple[ContentTable, ContentTable]:
    """The numbers of both plots."""
    sets = list(dict.fromkeys(s for point in points for s in point.n))
    flat = [_flat(point) for point in points]
    series = list(dict.fromkeys(s for values in flat for s in values))
    items, weights = [], []
    for p, values in zip(points, flat, strict=True):
        budget = words.scalar(p.budget)
        counts = (words.scalar(round(p.n[s], 1)) if s in p.n else "0" for s in sets)
        items.append((budget, words.scalar(p.half_width), *counts))
        weights.append((budget, *(f"{values[s]:.3f}" if s in values else "—" for s in series)))
    caption = "Items of each set over the budget (real numbers, before rounding)"
    hidden: Any = {"text": (), "shown": ()}
    return (
        table(caption, ("budget", "half-width", *sets), items, **hidden),
        table("Weights over the budget (rater in set)", ("budget", *series), weights, **hidden),
    )


def _flat(point: BudgetPoint) -> dict[str, float]:
    return {
        rater if rater == s else f"{rater} in {s}": v
        for s, values in point.weights.items()
        for rater, v in values.items()
    }


def _series(points: Any) -> list[str]:
    """The lines to draw: those that reach the largest values, in the order in which they appear."""
    largest: dict[str, float] = {}
    for values in points:
        for name, v in values.items():
            largest[name] = max(largest.get(name, 0.0), abs(v))
    kept = sorted(largest, key=lambda s: -largest[s])[:_MOST_LINES]
    return [s for s in largest if s in kept]


def _lines(
    points: Sequence[BudgetPoint], series: Mapping[str, Sequence[float]], ax: Axes | None
) -> Axes:
    """Lines over the budget; colour, dash and marker all tell them apart."""
    from noracle.report import plots

    ax = plots.new_axes(ax, 1, size=(6.4, 3.2), left=True)
    marks = zip((BLUE, ORANGE, INK, GREY), "osD^", strict=True)
    styles = itertools.product(("-", "--"), marks)
    x = [point.budget for point in points]
    for (name, values), (dash, (colour, marker)) in zip(series.items(), styles, strict=False):
        label = plots.short_name(name).replace("$", r"\$")
        look: Any = {"marker": marker, "color": colour, "markersize": 4.5, "linewidth": 1.6}
        ax.plot(x, values, dash, label=label, **look)
    ax.set_xscale("log")
    ax.set_xlabel("budget")
    if series:
        ax.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


# -------------------------------------------------------------------------------------------------------------------
# the mean


def mean_lines(estimate: Estimate) -> tuple[tuple[str, str], ...]:
    """The classical interval beside, and what the raters were worth."""
    beside = estimate.diagnostics.get("classical")
    if not beside or estimate.interval == "classical":
        return ()
    digits = words.digits_for(4 * beside["se"])
    text = f"{words.number(beside['value'], digits)} {_limits(estimate, beside, digits)}, from the labels alone"
    ratio = estimate.diagnostics.get("variance_ratio")
    worth = ""
    if isinstance(ratio, (int, float)) and math.isfinite(ratio) and ratio > 0:
        worth = "no help: the variance is that of the labels alone"
        if ratio < 0.995:
            worth = f"they leave {words.percent(ratio, '.0f')} of the classical variance"
    return (("classical", text), ("raters", worth))


def _limits(estimate: Estimate, beside: Mapping[str, float], digits: int) -> str:
    if "low" not in beside:
        return f"with a standard error of {words.number(beside['se'], digits)}"
    if estimate.side == "two-sided":
        return f"[{words.number(beside['low'], digits)}, {words.number(beside['high'], digits)}]"
    limit = beside["low" if estimate.side == "lower" else "high"]
    return f"({estimate.side} bound {words.number(limit, digits)})"


def mean_evidence(estimate: Estimate) -> str:
    """How many rows there are, how many of them with the target, and which sets were observed."""
    counts = estimate.counts
    parts = [f"{words.count(counts['items'])} items"] if "items" in counts else []
    if "labelled" in counts:
        parts.append(f"{words.count(counts['labelled'])} of them with {estimate.subject!r}")
    return ", ".join([*parts, *words.excluded(counts)])


def mean_tables(estimate: Estimate, digits: int) -> tuple[ContentTable, ...]:
    """The estimate with the classical one beside it, and the weights of every sample."""
    beside = estimate.diagnostics.get("classical") or {}
    how = words.how(estimate.method, estimate.interval)
    found = [(how, estimate.value, estimate.low, estimate.high, estimate.se)]
    if beside and estimate.interval != "classical":
        limits = (beside.get("low", math.nan), beside.get("high", math.nan))
        found.append(("classical: the labels alone", beside["value"], *limits, beside["se"]))
    rows = []
    for name, value, low, high, se in found:
        lowest = "—" if estimate.side == "upper" or math.isnan(low) else words.number(low, digits)
        highest = (
            "—" if estimate.side == "lower" or math.isnan(high) else words.number(high, digits)
        )
        rows.append((name, words.number(value, digits), lowest, highest, words.number(se, digits)))
    caption = f"mean of {estimate.subject!r}, {words.level(estimate.confidence)}"
    header = ("method", "estimate", "low", "high", "standard error")
    first = table(caption, header, rows, shown=())
    weights = estimate.diagnostics.get("weights") or {}
    seen = estimate.diagnostics.get("measurements") or {}
    if not seen:
        return (first,)
    samples = [(name, words.count(n)) for name, n in seen.items()]
    if not weights:
        return first, table("What each sample observes", ("sample", "items"), samples, shown=())
    told = [(*row, _weights(weights.get(row[0], {}))) for row in samples]
    caption = "What each sample observes and its weights in the estimate"
    return first, table(caption, ("sample", "items", "weights"), told, text=(0, -1))
