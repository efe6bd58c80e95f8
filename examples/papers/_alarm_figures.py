"""Figures 1 to 5 of "A logical alarm for misaligned binary classifiers", drawn from counts alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noracle.report.proofs import trace_plot
from noracle.results import Ranges

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"
_COLOURS = (BLUE, ORANGE, GREEN)


def allowed(n_items: int, uses_a: int, prevalence: int) -> list[tuple[int, int]]:
    """All (right on a, right on b) of a classifier that said a in ``uses_a`` of ``n_items`` items,
    ``prevalence`` of which are a.

    The axiom in its right form: right on b is what is left of the b's after the a's that were
    called b.
    """
    low, high = max(0, uses_a - (n_items - prevalence)), min(prevalence, uses_a)
    return [(r, n_items - prevalence - (uses_a - r)) for r in range(low, high + 1)]


def n_single(n_items: int) -> int:
    """The number of possible evaluations of one classifier, by enumeration."""
    return sum((q + 1) * (n_items - q + 1) for q in range(n_items + 1))


def figure1(uses: Mapping[str, int], n_items: int) -> Any:
    """The plane of evaluations that each classifier's answers leave, in (right on a, right on b,
    prevalence) space.
    """
    figure, ax = _space()
    for (name, a), colour in zip(uses.items(), _COLOURS, strict=False):
        points = np.array(
            [(*p, q) for q in range(0, n_items + 1, 4) for p in allowed(n_items, a, q)[::4]]
        )
        ax.scatter(
            points[:, 0],
            points[:, 1],
            points[:, 2],
            s=1.5,
            color=colour,
            label=f"{name}, {a} times a",
        )
    ax.set(xlabel="right on a", ylabel="right on b", zlabel="items of a")
    ax.legend(fontsize=7, loc="upper left")
    return figure


def figure2(n_items: int = 100, prevalence: int = 60, uses: Sequence[int] = (60, 20)) -> Any:
    """Pairs of (right on a label) at one prevalence: wanted, unwanted, and what the answers allow."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.4), layout="constrained")
    sides = [allowed(n_items, u, prevalence) for u in uses]
    for place, (label, most) in enumerate((("a", prevalence), ("b", n_items - prevalence))):
        ax = figure.add_subplot(1, 2, place + 1)
        grid = np.array(list(itertools.product(range(0, most + 1, 2), repeat=2)))
        safe = (2 * grid > most).all(axis=1)
        ax.plot(*grid[safe].T, "o", color=GREEN, markersize=1.5, label="both above 1/2")
        ax.plot(*grid[~safe].T, "x", color=ORANGE, markersize=1.5, label="one is not")
        found = np.array(list(itertools.product(*(sorted({p[place] for p in s}) for s in sides))))
        ax.plot(
            *found.T,
            "s",
            color=BLUE,
            markersize=2.5,
            fillstyle="none",
            label="allowed by the answers",
        )
        ax.set(
            xlabel=f"first right on {label}",
            ylabel=f"second right on {label}",
            title=f"{most} items of {label}",
        )
        ax.legend(fontsize=6)
    return figure


def figure3(n_items: int = 20) -> Any:
    """All evaluations of one classifier: counts on the left, rates on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.6), layout="constrained")
    points = np.array(
        [
            (a, b, q)
            for q in range(n_items + 1)
            for a in range(q + 1)
            for b in range(n_items - q + 1)
        ]
    )
    left: Any = figure.add_subplot(1, 2, 1, projection="3d")
    left.scatter(*points.T, s=1, color=BLUE)
    left.set(xlabel="right on a", ylabel="right on b", zlabel="items of a")
    inner = points[(points[:, 2] > 0) & (points[:, 2] < n_items)]
    right: Any = figure.add_subplot(1, 2, 2, projection="3d")
    right.scatter(
        inner[:, 0] / inner[:, 2],
        inner[:, 1] / (n_items - inner[:, 2]),
        inner[:, 2] / n_items,
        s=1,
        color=BLUE,
    )
    right.set(xlabel="accuracy on a", ylabel="accuracy on b", zlabel="share of a")
    return figure


def traces(found: Mapping[str, Ranges]) -> Any:
    """Figures 4 and 5: at which prevalences the claims can all hold."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 0.9 + 0.4 * len(found)), layout="constrained")
    trace_plot(list(found.values()), list(found), figure.add_subplot())
    return figure


def save(figure: Any, path: Path) -> None:
    """Write a figure, the same bytes for the same numbers."""
    import matplotlib as mpl

    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "noracle", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None, "Creator": None})


def _space() -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4.2))
    return figure, figure.add_subplot(projection="3d")
