"""Figures 3 and 4 of the paper in shape, and the selection noise beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from _agents_search import PUBLISHED

if TYPE_CHECKING:
    from _agents_noise import Noise
    from _agents_paper import Found

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"


def save(figure: object, path: Path) -> None:
    """SVG without a date, and PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix, metadata in ((".svg", {"Date": None}), (".png", {})):
        figure.savefig(path.with_suffix(suffix), metadata=metadata, dpi=150)  # type: ignore[attr-defined]


def figure3(rows: Mapping[str, Mapping[str, tuple[float, float]]], path: Path) -> None:
    """True test accuracy of baselines and searches (bars) and what validation said (marks)."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "noracle", "font.size": 8}):
        figure = Figure(figsize=(3.2 * len(rows) + 0.6, 3.6), layout="constrained")
        for place, (name, found) in enumerate(rows.items()):
            ax = figure.add_subplot(1, len(rows), place + 1)
            at = np.arange(len(found))
            colours = [ORANGE if who in ("adas", "aflow") else BLUE for who in found]
            ax.bar(at, [100 * test for _, test in found.values()], color=colours)
            ax.plot(
                at, [100 * value for value, _ in found.values()], "kx", label="on validation labels"
            )
            ax.set_xticks(at, list(found), rotation=60, ha="right")
            ax.set(title=name, ylabel="true accuracy on test items" if place == 0 else "")
            ax.legend(frameon=False, fontsize=7)
        save(figure, path)


def figure4(runs: Mapping[tuple[str, str], Mapping[str, Sequence[Found]]], path: Path) -> None:
    """q against the transform: the paper's pair of numbers, and every seed of ours."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "noracle", "font.size": 8}):
        figure = Figure(figsize=(4.6, 4.2), layout="constrained")
        ax = figure.add_subplot()
        for i, ((bench, name), by_scale) in enumerate(runs.items()):
            q, a = ([100 * r.test for r in by_scale[s]] for s in ("q", "A"))
            colour = (BLUE, ORANGE, GREEN)[i // 2 % 3]
            ax.plot(
                q,
                a,
                "o" if name == "adas" else "s",
                color=colour,
                label=f"{name}, {bench}: ours",
                fillstyle="none",
            )
            ax.plot(
                *PUBLISHED[bench, name],
                "x" if name == "adas" else "+",
                color=colour,
                label="    the paper's",
            )
        ends = [30, 95]
        ax.plot(ends, ends, color=GREY, linewidth=0.8)
        ax.set(xlabel="test accuracy, search on q", ylabel="test accuracy, search on the transform")
        ax.legend(frameon=False, fontsize=6)
        save(figure, path)


def figure_noise(found: Mapping[str, Noise], path: Path) -> None:
    """By how much the best of 37 identical agents looks better than it is."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "noracle", "font.size": 8}):
        figure = Figure(figsize=(4.6, 3), layout="constrained")
        ax = figure.add_subplot()
        at = np.arange(len(found))
        for k, (label, colour) in enumerate(
            (
                ("complementary labels", ORANGE),
                ("ordinary labels", BLUE),
                ("complementary labels, fresh", GREEN),
            )
        ):
            ax.bar(
                at + 0.27 * (k - 1), [n[k] for n in found.values()], 0.25, color=colour, label=label
            )
        ax.set_xticks(at, list(found))
        ax.axhline(0, color="black", linewidth=0.6)
        ax.set(ylabel="winner's value - its accuracy, points")
        ax.legend(frameon=False, fontsize=7)
        save(figure, path)
