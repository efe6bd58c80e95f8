"""Appendix G: the Bernstein bound of Theorem 4 holds for a weight that was fixed beforehand. Three
ways to let the data choose it and keep the promise, beside the plug-in that does not.

    plug-in   equation (16): the weight and both variances from the same labels (no promise)
    split     the weight from one half of the labels, Theorem 4 on the other half
    crossed   both halves in turn, each at half of the error rate, the mean of both intervals
    grid      Theorem 4 for each of 9 weights at a ninth of the error rate, all intervals together
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from noracle import AccuracyCounts, GuaranteeWarning, estimate_accuracy

GRID = tuple(w / 10 for w in range(1, 10))
WAYS = ("plug-in", "split", "crossed", "grid", "exact")
Pair = tuple[int, int]  # labels, and those that speak for the answer


def ivw_weight(ordinary: Pair, complementary: Pair, n_classes: int) -> float:
    """The weight of the ordinary labels by equation (7), with one label more of each kind, half of
    it right, so that no variance is 0.
    """
    a, q = ((s + 0.5) / (n + 1) for n, s in (ordinary, complementary))
    v_o = a * (1 - a) / ordinary[0]
    v_c = (n_classes - 1) ** 2 * q * (1 - q) / complementary[0]
    return v_c / (v_o + v_c)


def limits(
    way: str,
    ordinary: tuple[Pair, Pair],
    complementary: tuple[Pair, Pair],
    n_classes: int,
    *,
    error: float = 0.05,
) -> tuple[float, float]:
    """Limits for the accuracy from two halves of the labels."""
    whole_o, whole_c = (_sum(halves) for halves in (ordinary, complementary))
    if way == "plug-in":
        return _plug_in(whole_o, whole_c, n_classes, error)
    if way == "exact":
        return _estimate(whole_o, whole_c, n_classes, error, method="ml", interval="exact")
    if way == "grid":
        rates = error / len(GRID)
        each = [theorem4(whole_o, whole_c, n_classes, w, rates) for w in GRID]
        return max(low for low, _ in each), min(high for _, high in each)
    folds = [
        theorem4(
            ordinary[i],
            complementary[i],
            n_classes,
            ivw_weight(ordinary[1 - i], complementary[1 - i], n_classes),
            error if way == "split" else error / 2,
        )
        for i in ((0,) if way == "split" else (0, 1))
    ]
    return tuple(np.mean(folds, axis=0).tolist())  # type: ignore[return-value]


def theorem4(
    ordinary: Pair, complementary: Pair, n_classes: int, weight: float, error: float
) -> tuple[float, float]:
    """Theorem 4 inverted over the accuracy, for a weight fixed beforehand."""
    fixed = {"method": "weighted", "interval": "theorem4", "weight": weight}
    return _estimate(ordinary, complementary, n_classes, error, **fixed)


def _estimate(
    ordinary: Pair, complementary: Pair, n_classes: int, error: float, **how: Any
) -> tuple[float, float]:
    counts = AccuracyCounts.from_counts(
        n_classes=n_classes, ordinary=ordinary, complementary=complementary
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        found = estimate_accuracy(counts, confidence=1 - error, **how)
    return found.low, found.high


def _plug_in(
    ordinary: Pair, complementary: Pair, n_classes: int, error: float
) -> tuple[float, float]:
    (n_o, s_o), (n_c, s_c), k = ordinary, complementary, n_classes
    a, q = s_o / n_o, s_c / n_c
    v_o, v_c = a * (1 - a) / n_o, (k - 1) ** 2 * q * (1 - q) / n_c
    if v_o + v_c == 0:
        v_o = v_c = 0.0
    w = v_c / (v_o + v_c) if v_o + v_c else 0.5
    value = w * a + (1 - w) * ((k - 1) * q - (k - 2))
    t = math.log(2 / error)
    least = v_o * v_c / (v_o + v_c) if v_o + v_c else 0.0
    radius = math.sqrt(2 * t * least) + t * max(w / n_o, (1 - w) * (k - 1) / n_c)
    return max(0.0, value - radius), min(1.0, value + radius)


def _sum(halves: tuple[Pair, Pair]) -> Pair:
    return halves[0][0] + halves[1][0], halves[0][1] + halves[1][1]


def coverage(
    way: str, accuracy: float, n_classes: int, sizes: Pair, *, repetitions: int, seed: int
) -> tuple[float, float]:
    """How often the limits hold the accuracy, and their mean width."""
    rng = np.random.default_rng(seed)
    rates = accuracy, (accuracy + n_classes - 2) / (n_classes - 1)
    held, widths = 0, []
    known: dict[Any, tuple[float, float]] = {}
    for _ in range(repetitions):
        drawn = []
        for n, rate in zip(sizes, rates, strict=True):
            halves = n // 2, n - n // 2
            drawn.append(tuple((h, int(rng.binomial(h, rate))) for h in halves))
        key = tuple(drawn)
        if key not in known:
            known[key] = limits(way, *drawn, n_classes)  # type: ignore[arg-type]
        low, high = known[key]
        held += low <= accuracy <= high
        widths.append(high - low)
    return held / repetitions, float(np.mean(widths))
