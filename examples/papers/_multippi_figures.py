"""The figures of the MultiPPI example; every number in them is also in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _multippi_runs import CLASSICAL, KNOWN, MULTIPPI, VECTOR, Found, Runs

if TYPE_CHECKING:
    from _multippi_worlds import World

_INK = {
    CLASSICAL: ("#666666", ":"),
    VECTOR: ("#009E73", "-"),
    MULTIPPI: ("#D55E00", "-"),
    KNOWN: ("#D55E00", ":"),
}
_OTHERS = (
    "#0072B2",
    "#56B4E9",
    "#CC79A7",
    "#E69F00",
    "#999933",
    "#332288",
    "#882255",
    "#44AA99",
    "#AA4499",
    "#88CCEE",
)


def results_figure(rows: Sequence[tuple[World, Runs]], title: str, path: Path) -> None:
    """Coverage, width and squared error against the budget, a row for each experiment (the paper's
    Figures 1, 6 and 7).
    """
    plt = _pyplot()
    with plt.rc_context({"svg.hashsalt": "noracle", "font.size": 8}):
        figure, grid = plt.subplots(
            len(rows), 3, figsize=(13, 3.2 * len(rows)), layout="constrained", squeeze=False
        )
        for axes, (world, runs) in zip(grid, rows, strict=True):
            for place, name in enumerate(dict.fromkeys(n for n, _ in runs)):
                budgets = [b for n, b in runs if n == name]
                colour, style = _ink(name, place)
                look = {
                    "color": colour,
                    "linestyle": style,
                    "marker": ".",
                    "linewidth": 1.8 if MULTIPPI in name else 1,
                }
                for panel, values in zip(axes, _series(runs, name, budgets), strict=True):
                    panel.plot(budgets, values, label=name, **look)
            for panel, what in zip(
                axes,
                ("coverage of the 95 % interval", "width / classical", "MSE / classical"),
                strict=True,
            ):
                panel.set(xlabel="budget", ylabel=what, title=world.name)
                panel.grid(alpha=0.3)
            axes[0].axhline(0.95, color="black", linewidth=0.6)
            axes[2].legend(frameon=False, fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.suptitle(title)
        _save(figure, path)


def lines_figure(
    panels: Mapping[str, Mapping[str, Mapping[float, float]]], ylabel: str, title: str, path: Path
) -> None:
    """One panel for each experiment, one line for each series, against the budget."""
    plt = _pyplot()
    with plt.rc_context({"svg.hashsalt": "noracle", "font.size": 9}):
        figure, axes = plt.subplots(
            1, len(panels), figsize=(4 * len(panels), 3.3), layout="constrained", squeeze=False
        )
        for panel, (name, series) in zip(axes[0], panels.items(), strict=True):
            for place, (label, points) in enumerate(series.items()):
                panel.plot(
                    list(points),
                    list(points.values()),
                    color=_OTHERS[place % len(_OTHERS)],
                    marker=".",
                    label=label,
                )
            panel.set(xlabel="budget", ylabel=ylabel, title=name)
            panel.grid(alpha=0.3)
            panel.legend(frameon=False, fontsize=7)
        figure.suptitle(title)
        _save(figure, path)


def bias_figure(found: Mapping[str, Mapping[str, Found]], title: str, path: Path) -> None:
    """Mean estimate and the middle 95 % of estimates, by scheme (the paper's Figure 15)."""
    plt = _pyplot()
    colours = dict(zip(found, ("#666666", "#E69F00", "#009E73"), strict=False))
    with plt.rc_context({"svg.hashsalt": "noracle", "font.size": 9}):
        rows = [(group, name, f) for group, members in found.items() for name, f in members.items()]
        figure, axes = plt.subplots(figsize=(7, 0.35 * len(rows) + 1.2), layout="constrained")
        for place, (group, _, f) in enumerate(rows):
            axes.errorbar(
                f.value.mean(),
                place,
                xerr=1.96 * f.value.std(),
                color=colours[group],
                fmt="o",
                capsize=3,
            )
        axes.axvline(rows[0][2].truth, color="black", linewidth=0.8)
        axes.set(
            yticks=range(len(rows)),
            yticklabels=[name for _, name, _ in rows],
            xlabel="estimate",
            title=title,
        )
        axes.invert_yaxis()
        _save(figure, path)


def _series(
    runs: Runs, name: str, budgets: Sequence[float]
) -> tuple[list[float], list[float], list[float]]:
    usual = [runs[CLASSICAL, b] for b in budgets]
    own = [runs[name, b] for b in budgets]
    return (
        [f.coverage for f in own],
        [f.width / c.width for f, c in zip(own, usual, strict=True)],
        [f.mse / c.mse for f, c in zip(own, usual, strict=True)],
    )


def _ink(name: str, place: int) -> tuple[str, str]:
    if name.endswith("crossfit-t"):
        return "#D55E00", "--"
    if name.startswith("cascade"):
        return "black", "-."
    return _INK.get(name, (_OTHERS[place % len(_OTHERS)], "-"))


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix, metadata in ((".svg", {"Date": None}), (".png", {})):
        figure.savefig(path.with_suffix(suffix), metadata=metadata, dpi=120)
        figure.set_layout_engine("none")  # the layout is found once
    _pyplot().close(figure)
