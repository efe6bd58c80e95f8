"""A judge's verdict divides the answers into two parts, of which people grade a random sample each;
everything that people may say is enumerated.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, hypergeom

from noracle import AccuracyCounts, Estimate, estimate_accuracy
from noracle.counts import Cell
from noracle.counts.tally import Tally, tally
from tests.guarantees.matrix.record import Case
from tests.guarantees.measure import Row

PART = "judges"
JUDGES = {  # sensitivity and specificity
    "good": (0.9, 0.85),
    "very good": (0.98, 0.98),
    "useless": (0.5, 0.5),
    "says right to all": (1.0, 0.0),
    "inverted": (0.1, 0.15),
    "errs with the system": (0.99, 0.2),
}
ACCURACIES = (0.0, 0.02, 0.3, 0.7, 0.98, 1.0)
RATES = {"one rate": (0.1, 0.1), "two rates": (0.04, 0.2)}


class Half(NamedTuple):
    """One part: answers, right ones among them, and how many people grade."""

    size: int
    right: int
    graded: int


def halves(
    n: int, accuracy: float, judge: tuple[float, float], rates: tuple[float, float]
) -> list[Half]:
    """The two parts of ``n`` answers, graded at these rates, at least one where there are any."""
    right = round(n * accuracy)
    hit, slip = round(right * judge[0]), round((n - right) * (1 - judge[1]))
    parts = [(hit + slip, hit), (n - hit - slip, right - hit)]
    return [
        Half(size, good, min(size, max(1, round(rate * size))))
        for (size, good), rate in zip(parts, rates, strict=True)
    ]


def drifting(first: tuple[float, float], last: tuple[float, float]) -> list[Half]:
    """A judge whose quality changes half way."""
    pairs = zip(*(halves(60, 0.7, judge, (0.1, 0.1)) for judge in (first, last)), strict=True)
    return [Half(*map(sum, zip(one, two, strict=True))) for one, two in pairs]


AWKWARD = {
    "one answer": [Half(1, 1, 1), Half(30, 6, 5)],
    "one grade each": [Half(3, 0, 1), Half(3, 3, 1)],
    "no rest": [Half(50, 50, 8), Half(0, 0, 0)],
    "nobody graded the rest": [Half(50, 40, 8), Half(10, 3, 0)],
    "one part known": [Half(6, 3, 6), Half(40, 20, 7)],
    "large": [Half(1000, 900, 9), Half(1000, 100, 9)],
    "drifting down": drifting((0.95, 0.95), (0.4, 0.4)),
    "drifting up": drifting((0.2, 0.2), (0.9, 0.9)),
}
SETTINGS = AWKWARD | {
    f"{judge}, A={accuracy:g}, {told}": halves(120, accuracy, JUDGES[judge], rates)
    for judge, accuracy, (told, rates) in itertools.product(JUDGES, ACCURACIES, RATES.items())
}


def estimate_of(parts: list[Half], right: tuple[int, ...]) -> Estimate:
    """The estimate where people call so many of each part right."""
    items: dict[Cell, int] = {}
    tallies: dict[Tally, int] = {}
    for i, (part, good) in enumerate(zip(parts, right, strict=True)):
        cell = Cell("a", 0, str(i))
        if part.size:
            items[cell] = part.size
        for hit, n in ((True, good), (False, part.graded - good)):
            if n:
                tallies[tally(cell, "yes", hit=hit, graded=True)] = n
    counts = AccuracyCounts(tallies=tallies, items=items, answered=dict(items))
    return estimate_accuracy(counts, strata="apart", checks="none")


def coverage_of(parts: list[Half]) -> tuple[float, float, int]:
    """Exact coverage and mean width over everything that people may say, and how much that is."""
    truth = sum(p.right for p in parts) / sum(p.size for p in parts)
    laws = [hypergeom(p.size, p.right, p.graded) if p.size else binom(0, 0.5) for p in parts]
    covered = width = mass = 0.0
    worlds = 0
    for seen in np.ndindex(*(p.graded + 1 for p in parts)):
        p = math.prod(float(law.pmf(k)) for law, k in zip(laws, seen, strict=True))
        if p > 1e-9:
            found = estimate_of(parts, seen)
            mass, worlds = mass + p, worlds + 1
            covered += p * (found.low - 1e-9 <= truth <= found.high + 1e-9)
            width += p * found.width
    return covered / mass, width / mass, worlds


def _enumerated(setting: str) -> Callable[[int], list[Row]]:
    def rows(_: int) -> list[Row]:
        started, parts = time.perf_counter(), SETTINGS[setting]
        covered, width, worlds = coverage_of(parts)
        return [
            Row(
                part=PART,
                setting=f"judge: {setting}",
                method="post-stratified",
                interval="two parts",
                n=sum(p.graded for p in parts),
                worlds=worlds,
                enumerated=True,
                coverage=covered,
                nominal=0.95,
                width=width,
                guarantee="finite-sample",
                p_value=1.0 if covered >= 0.95 - 1e-9 else 0.0,
                seconds=time.perf_counter() - started,
            )
        ]

    return rows


def cases() -> list[Case]:
    """One for each setting."""
    return [
        Case(part=PART, name=name, measured=_enumerated(name), quick=name == "one grade each")
        for name in SETTINGS
    ]
