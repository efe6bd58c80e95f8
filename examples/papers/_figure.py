"""Figure 2: the best weight of the ordinary labels, and the variance with and without it, against
the number of complementary labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from _protocol import Labels, repeat

N_CLASSES, ACCURACY, N_ORDINARY = 4, 0.927, 300
_BLUE, _ORANGE = "#0072B2", "#D55E00"


class Point(NamedTuple):
    """One number of complementary labels: weight and variances by the formulae, and the variances
    measured with noracle.
    """

    n_complementary: int
    best_weight: float
    best_variance: float
    equal_variance: float
    measured_ivw: float
    measured_equal: float


def figure_points(
    repetitions: int, seed: int, ratios: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20)
) -> list[Point]:
    """Equations (6) and (8), and the variance of ``ivw`` and ``weighted`` over repetitions."""
    rng = np.random.default_rng(seed)
    k, a, n_o = N_CLASSES, ACCURACY, N_ORDINARY
    q = (a + k - 2) / (k - 1)
    points = []
    for ratio in ratios:
        n_c = ratio * n_o
        v_o, v_c = a * (1 - a) / n_o, (a + k - 2) * (1 - a) / n_c

        def draw(n_c: int = n_c) -> dict[str, Labels]:
            mixed = Labels(
                k,
                ordinary=(n_o, int(rng.binomial(n_o, a))),
                complementary=(n_c, int(rng.binomial(n_c, q))),
            )
            return {"IVW": mixed, "IVW-0.5": mixed}

        found = repeat(draw, a, repetitions, exact_too=False)
        weight = (a + k - 2) * n_o / (a * n_c + (a + k - 2) * n_o)
        points.append(
            Point(
                n_c,
                weight,
                v_o * v_c / (v_o + v_c),
                (v_o + v_c) / 4,
                found["IVW"].sd ** 2,
                found["IVW-0.5"].sd ** 2,
            )
        )
    return points


def draw_figure(points: list[Point], path: Path) -> None:
    """Two panels, as in the paper; the numbers are also in the table beside it."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    n_c = [p.n_complementary for p in points]
    with plt.rc_context({"svg.hashsalt": "noracle", "font.size": 9}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
        left.plot(
            n_c,
            [p.best_weight for p in points],
            color=_BLUE,
            marker="o",
            label="best weight, equation (8)",
        )
        left.axhline(0.5, color=_ORANGE, linestyle="--", label="equal weights")
        left.set(
            xlabel="complementary labels",
            ylabel="weight of the ordinary labels",
            ylim=(0, 1),
            title="(a) best weight",
        )
        right.plot(
            n_c, [p.best_variance for p in points], color=_BLUE, label="best weight, formula"
        )
        right.plot(
            n_c,
            [p.equal_variance for p in points],
            color=_ORANGE,
            linestyle="--",
            label="equal weights, formula",
        )
        right.plot(
            n_c,
            [p.measured_ivw for p in points],
            color=_BLUE,
            marker="o",
            linestyle="",
            label="ivw, measured",
        )
        right.plot(
            n_c,
            [p.measured_equal for p in points],
            color=_ORANGE,
            marker="s",
            linestyle="",
            label="weighted 0.5, measured",
        )
        right.set(
            xlabel="complementary labels", ylabel="variance", yscale="log", title="(b) variance"
        )
        for axes in (left, right):
            axes.legend(frameon=False)
            axes.grid(alpha=0.3)
        figure.suptitle(f"K = {N_CLASSES}, accuracy {ACCURACY}, {N_ORDINARY} ordinary labels")
        path.parent.mkdir(parents=True, exist_ok=True)
        for suffix, metadata in ((".svg", {"Date": None}), (".png", {})):
            figure.savefig(path.with_suffix(suffix), metadata=metadata, dpi=150)
        plt.close(figure)
