"""Figures 1 to 3 of the CLImage paper in shape; every number in them is also in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, YELLOW = "#56B4E9", "#E69F00"


def draw_shares(shares: Sequence[Any], path: Path) -> None:
    """Bars of the ruled-out classes with their limits."""
    figure = _figure(6.4, 3.0)
    ax = figure.add_subplot()
    at, values = np.arange(len(shares)), np.array([100 * r.value for r in shares])
    limits = np.array(
        [[100 * (r.value - r.low) for r in shares], [100 * (r.high - r.value) for r in shares]]
    )
    ax.bar(at, values, color=BLUE, yerr=limits, capsize=2)
    ax.axhline(100 / len(shares), color=ORANGE, linestyle="--", label="even")
    ax.set_xticks(at, [r.name for r in shares], rotation=45, ha="right")
    ax.set(ylabel="share of the labels, %", ylim=(0, 1.25 * values.max()))
    ax.legend(frameon=False)
    _save(figure, path)


def draw_matrix(matrix: np.ndarray[Any, Any], names: Sequence[str], path: Path) -> None:
    """The matrix as a map, with its numbers."""
    figure = _figure(6.0, 5.2)
    ax = figure.add_subplot()
    shown = ax.imshow(100 * matrix, cmap="cividis", vmin=0)
    for (i, j), value in np.ndenumerate(matrix):
        ax.text(
            j,
            i,
            f"{100 * value:.1f}",
            ha="center",
            va="center",
            fontsize=6,
            color="black" if value > 0.5 * matrix.max() else "white",
        )
    ax.set_xticks(np.arange(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(np.arange(len(names)), names)
    ax.set(xlabel="ruled out", ylabel="true class")
    figure.colorbar(shown, ax=ax, label="%", shrink=0.8)
    _save(figure, path)


def draw_noise(panels: Mapping[str, Mapping[str, Sequence[Any]]], path: Path) -> None:
    """Accuracy against the share of wrong labels, a panel for each setting."""
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    figure = _figure(3.2 * across, 3.0 * down)
    names = sorted({name for lines in panels.values() for name in lines})
    colours = dict(zip(names, (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW), strict=False))
    for place, (title, lines) in enumerate(panels.items()):
        ax = figure.add_subplot(down, across, place + 1)
        for name, points in lines.items():
            ax.plot(
                [p.noise for p in points],
                [p.test for p in points],
                marker="o",
                color=colours[name],
                label=name,
            )
        ax.set(
            title=title,
            xlabel="wrong labels, %",
            ylabel="" if place % across else "test accuracy, %",
        )
        ax.grid(alpha=0.3)
        if lines:
            ax.legend(frameon=False)
    _save(figure, path)


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: Path) -> None:
    import matplotlib as mpl

    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "noracle", "font.size": 8}):
        for suffix, metadata in ((".svg", {"Date": None}), (".png", {})):
            figure.savefig(path.with_suffix(suffix), metadata=metadata, dpi=120)
