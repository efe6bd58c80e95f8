"""What is said about accuracy that may have fallen, and how its curve is drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from noracle.report import words
from noracle.report.content import Content, alerts, guaranteed, method_and_evidence, table
from noracle.results import Drift

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_MOVED = 20


def describe(result: Drift) -> Content:
    """Describe a drift: the alarm, since when, what moved, and the accuracy by window."""
    level = words.number(result.level)
    verdict = result.reason or f"no alarm below {level}"
    alarms = list(alerts(result.guarantee))
    if result.alarm:
        verdict = f"ALARM at label {words.count(result.label or 0)}{_when(result.at)}"
        alarms.append(f"the accuracy of {result.subject!r} fell below {level}")
    moved = [
        (
            f"{row['what']} {row['name']}",
            words.count(row["n_before"]),
            words.number(row["before"]),
            words.count(row["n_since"]),
            words.number(row["since"]),
            words.number(row["part_of_fall"]),
        )
        for row in result.moved
    ]
    header = ("part", "labels before", "before", "labels since", "since", "part of the fall")
    caption = "Before and since the likely change (a description, no promise)"
    left = max(0, len(moved) - _MOST_MOVED)
    tables = [table(caption, header, moved[:_MOST_MOVED], left_out=left)] if moved else []
    rows = [
        (str(w["window"]), words.count(w["n"]), *(words.number(w[k]) for k in _SHOWN))
        for w in result.windows
    ]
    caption = "Accuracy by window, each with a 95 % interval of its own"
    curve = table(caption, ("window", "labels", "accuracy", "low", "high"), rows, shown=())
    most = "" if math.isnan(result.statistic) else f"{result.statistic:,.4g}"
    said = f"e-detector {most}, alarm at {result.run_length:,.0f}" if most else ""
    length = f"on average at least {result.run_length:,.0f} labels until a false alarm"
    return guaranteed(
        result,
        (f"accuracy of {result.subject!r} over time", verdict),
        ("since", _since(result)),
        ("level", _level(result)),
        ("detector", said),
        ("run length", f"{length}; no probability"),
        *method_and_evidence(result),
        tables=(*tables, curve) if rows else tables,
        alarms=alarms,
    )


_SHOWN = ("value", "low", "high")


def _when(at: str) -> str:
    return f" ({at.removesuffix('T00:00:00')})" if at else ""


def _since(result: Drift) -> str:
    if result.since is None:
        return ""
    first, last = map(words.count, result.since)
    times = ""
    if result.since_at is not None:
        times = " to ".join(at.removesuffix("T00:00:00") for at in result.since_at) + ", "
    share = words.percent(result.confidence)
    return f"{times}labels {first} to {last} ({share}); best fit: label {words.count(result.likely or 0)}"


def _level(result: Drift) -> str:
    told, level = result.diagnostics, words.number(result.level)
    margin = f" less the margin {words.scalar(told['margin'])}" if told.get("margin") else ""
    if told.get("floor") is not None:
        return f"{level}: the floor {words.scalar(told['floor'])}{margin}"
    n, value = told.get("reference_labels"), told.get("reference_value", math.nan)
    what = f"lower bound of the accuracy {words.number(value)} of {n} labels"
    return f"{level}: {what} in {told.get('reference')}{margin}"


def draw(result: Drift, ax: Axes | None = None) -> Axes:
    """Draw accuracy by window with its intervals, the level, the alarm and since when."""
    from noracle.report.plots import BLUE, GREY, INK, ORANGE, new_axes

    ax = new_axes(ax, 0, size=(6.2, 2.6), left=True)
    at = [w["last"] for w in result.windows]
    for x, w in zip(at, result.windows, strict=True):
        ax.plot([x, x], [w["low"], w["high"]], color=GREY, linewidth=1.2)
    look: dict[str, Any] = {"color": BLUE, "linewidth": 1.6, "markersize": 4}
    ax.plot(at, [w["value"] for w in result.windows], marker="o", **look)
    if math.isfinite(result.level):
        ax.axhline(result.level, color=INK, linestyle="--", linewidth=1)
    label = "label (end of each window); dashed: the level"
    if result.label is not None and result.since is not None:
        for end in result.since:
            ax.axvline(end, color=ORANGE, linestyle=":", linewidth=1.4)
        ax.axvline(result.label, color=ORANGE, linewidth=1.6)
        label += "; dotted: since when; solid: alarm"
    values = [v for w in result.windows for v in (w["low"], w["high"]) if math.isfinite(v)]
    ends = [*values, *([result.level] if math.isfinite(result.level) else [])] or [0.0, 1.0]
    low, high = min(ends) - 0.02, max(ends) + 0.02
    step = next(s for s in (0.02, 0.05, 0.1, 0.2, 0.5) if s == 0.5 or high - low <= 6 * s)
    ticks = [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    ax.set_yticks(ticks, [f"{t:.2f}" for t in ticks])
    ax.set_ylim(low, high)
    ax.set_xlabel(label)
    ax.set_ylabel("accuracy")
    return ax
