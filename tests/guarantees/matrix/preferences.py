"""Ranks by preferences: differences that hold together, in worlds of strengths, ties, effects of the
order, clusters and sparse designs; with a judge that saw everything and people who saw some.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from noracle import rank_systems
from tests.guarantees.matrix.record import Case, Seen, fewer, row_of
from tests.guarantees.measure import Row
from tests.guarantees.test_preferences import JUDGED, SETTINGS, judged_world, named, truth, world

PART = "preferences"
METHOD, INTERVAL = "Bradley-Terry with ties", "jackknife by item, largest deviation"


def _measured(setting: dict[str, Any], judged: bool) -> Callable[[int], list[Row]]:
    def rows(worlds: int) -> list[Row]:
        started, seen = time.perf_counter(), Seen()
        beta = np.linspace(-1, 1, setting["size"]) if judged else truth(setting)
        pairs = itertools.combinations(range(len(beta)), 2)
        true = np.array([np.tanh((beta[i] - beta[j]) / 2) for i, j in pairs])
        varies = setting.get("item_sd", 0.0) or setting.get("rater_sd", 0.0)
        slack = 0.01 if varies and not judged else 0.0  # one large draw is not the population
        for k in range(fewer(worlds, 5)):
            p = judged_world([11, k], **setting) if judged else world([11, k], **setting)
            found = rank_systems(p, judge="model" if judged else None, seed=k)
            ends = [(d.low, d.high) for d in found.differences]
            low, high = np.array(ends).T
            held = bool(((true >= low - slack) & (true <= high + slack)).all())
            # A system that won everything is told as a heuristic; the row is about the promise.
            seen.add(held, float((high - low).mean()), found.guarantee.kind.label)
        name = f"judge: {named(setting)}" if judged else named(setting)
        about = {"part": PART, "setting": name, "method": METHOD, "interval": INTERVAL}
        return [row_of(seen, **about, n=setting["n"], started=started)]

    return rows


def cases() -> list[Case]:
    """One for each setting."""
    kinds = [(s, False) for s in SETTINGS] + [(s, True) for s in JUDGED]
    return [
        Case(
            part=PART,
            name=f"judge: {named(s)}" if judged else named(s),
            measured=_measured(s, judged),
            quick=s["size"] == 3,
        )
        for s, judged in kinds
    ]
