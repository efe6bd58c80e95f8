"""Figure 3: what bounds and match rates would be with fewer raters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from noracle.superhuman import estimate_ceiling

if TYPE_CHECKING:
    from _superhuman_data import Rated

_COLOURS = {
    "paper": "#D55E00",
    "paper-empirical": "#CC79A7",
    "plurality": "#0072B2",
    "strong": "#000000",
    "weak": "#009E73",
}


class Point(NamedTuple):
    """One number of raters: the ceilings, and how often each system matches the vote of so many."""

    raters: int
    ceilings: dict[str, float]
    matches: dict[str, float]


def match_rates(rated: Rated, n_raters: int, *, subsets: int, seed: int) -> dict[str, float]:
    """Mean match rate with the vote of ``n_raters`` raters over random subsets of them; ties are
    shared.
    """
    rng = np.random.default_rng([seed, n_raters])
    total = dict.fromkeys(rated.answers, 0.0)
    everybody = rated.ratings.shape[1]
    times = 1 if n_raters == everybody else subsets
    for _ in range(times):
        chosen = rng.permutation(everybody)[:n_raters]
        votes = (rated.ratings[:, chosen, None] == np.arange(len(rated.labels))).sum(axis=1)
        top = votes == votes.max(axis=1, keepdims=True)
        credit = top / top.sum(axis=1, keepdims=True)
        for name, given in rated.answers.items():
            total[name] += float(credit[np.arange(len(given)), given].mean()) / times
    return total


def figure_points(rated: Rated, *, subsets: int, seed: int) -> list[Point]:
    """From one rater to all of them. With one rater the bounds are 1 and U_e is not defined."""
    path = estimate_ceiling(rated.counts(), by_annotators=True).diagnostics["by_annotators"]
    names = ("plurality", "free", "quadratic", "paper", "paper-empirical")
    nothing = {name: float("nan") if name == "paper-empirical" else 1.0 for name in names}
    ceilings = [nothing, *({name: row[name] for name in names} for row in path)]
    return [
        Point(k, bounds, match_rates(rated, k, subsets=subsets, seed=seed))
        for k, bounds in enumerate(ceilings, start=1)
    ]


def raters_needed(points: list[Point], system: str, ceiling: str) -> int | None:
    """The smallest number of raters from which on the match rate stays above the ceiling."""
    above = [p.matches[system] > p.ceilings[ceiling] for p in points]
    return (
        None
        if not above[-1]
        else points[max((i + 1 for i, a in enumerate(above) if not a), default=0)].raters
    )


def draw_figure(panels: list[tuple[Rated, list[Point]]], path: Path) -> None:
    """One panel per task; the numbers are also in the tables beside it."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": "noracle", "font.size": 9}):
        figure, every = plt.subplots(
            1, len(panels), figsize=(5 * len(panels), 4.4), layout="constrained", squeeze=False
        )
        for axes, (rated, points) in zip(every[0], panels, strict=True):
            k = [p.raters for p in points]
            for name, label in (
                ("paper", "U_t, Theorem 1"),
                ("paper-empirical", "U_e (no bound)"),
                ("plurality", "plurality (ours)"),
            ):
                axes.plot(
                    k,
                    [p.ceilings[name] for p in points],
                    color=_COLOURS[name],
                    linestyle="--",
                    marker="s",
                    markersize=3,
                    label=label,
                )
            axes.axhline(rated.mean_accuracy, color="0.6", label="average rater, truth")
            for name in rated.answers:
                axes.plot(
                    k,
                    [p.matches[name] for p in points],
                    color=_COLOURS[name],
                    marker="o",
                    markersize=3,
                    label=f"L, {name} system",
                )
                axes.axhline(
                    rated.accuracy(name),
                    color=_COLOURS[name],
                    linewidth=0.8,
                    linestyle=":",
                    label=f"{name} system, truth",
                )
            axes.set(xlabel="raters", ylabel="accuracy", title=rated.name, ylim=(None, 1.01))
            axes.grid(alpha=0.3)
        figure.legend(
            *every[0][0].get_legend_handles_labels(),
            frameon=False,
            fontsize=8,
            loc="outside lower center",
            ncols=4,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        for suffix, metadata in ((".svg", {"Date": None}), (".png", {})):
            figure.savefig(path.with_suffix(suffix), metadata=metadata, dpi=150)
        plt.close(figure)
