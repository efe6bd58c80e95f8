"""Measure how often an interval contains the truth, over many simulated worlds of one setting, or
over all of them.
"""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
import zlib
from collections import Counter
from typing import Any

import numpy as np
from scipy.special import betainc

from noracle import ArgumentError, GuaranteeWarning, compare_systems, estimate_accuracy
from tests.guarantees.settings import Setting
from tests.guarantees.streams import Stream, agrees, missed

WORLDS = 2000
SIGNIFICANT = 1e-4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One interval in one setting."""

    interval: str
    method: str
    setting: str
    worlds: int
    enumerated: bool
    coverage: float
    nominal: float
    width: float
    guarantee: str
    p_value: float
    part: str = "accuracy"
    n: int = 0
    seconds: float = 0.0

    @property
    def significant(self) -> bool:
        """Whether so many misses are not chance if the coverage is as promised; for enumerated
        worlds, whether it is below the promise.
        """
        return self.p_value < SIGNIFICANT

    @property
    def z(self) -> float:
        """Standard errors above the promise (negative: below) of drawn worlds; NaN where nothing is
        left to chance.
        """
        spread = math.sqrt(self.nominal * (1 - self.nominal) / max(1, self.worlds))
        return (
            math.nan if self.enumerated or spread == 0 else (self.coverage - self.nominal) / spread
        )

    def to_dict(self) -> dict[str, Any]:
        rounded = {
            "coverage": round(self.coverage, 4),
            "width": None if math.isnan(self.width) else round(self.width, 4),
            "p_value": float(f"{self.p_value:.3g}"),
            "z": None if math.isnan(self.z) else round(self.z, 2),
            "seconds": round(self.seconds, 2),
        }
        return {**dataclasses.asdict(self), **rounded, "significant": self.significant}


def excess_p_value(misses: int, worlds: int, error: float) -> float:
    """P(at least so many misses) if each world is missed with probability ``error``."""
    return 1.0 if misses <= 0 else float(betainc(misses, worlds - misses + 1, error))


def limits(setting: Setting, interval: str, method: str, counts: Any) -> tuple[float, float, str]:
    """The interval for one world, through the public functions."""
    options = dict(setting.world.options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        if method == "compare":
            result = compare_systems(counts, interval=interval, confidence=setting.confidence)  # type: ignore[arg-type]
            difference = result.difference("a", "b")
            return difference.low, difference.high, result.guarantee.kind.label
        chosen = None if method == "default" else method
        estimate = estimate_accuracy(
            counts,
            method=chosen,
            interval=interval,
            confidence=setting.confidence,
            checks="none",
            **options,
        )  # type: ignore[arg-type]
    return estimate.low, estimate.high, estimate.guarantee.kind.label


def _worlds(setting: Setting, worlds: int, seed: int) -> tuple[dict[tuple[int, ...], float], bool]:
    """Different worlds with their shares: all that matter where they are at most 4,000, else
    ``worlds`` drawn ones.
    """
    if setting.world.every is not None:
        found = setting.world.every()
        if len(found) <= 4000:
            return found, True
    rng = np.random.default_rng([seed, zlib.crc32(setting.name.encode())])
    drawn = Counter(map(tuple, setting.world.draw(rng, worlds).tolist()))
    return {key: n / worlds for key, n in drawn.items()}, False


Known = dict[tuple[str, str, float, tuple[int, ...]], tuple[float, float, str]]


def measure(
    setting: Setting,
    interval: str,
    method: str,
    *,
    worlds: int = WORLDS,
    seed: int = 0,
    part: str = "accuracy",
    known: Known | None = None,
) -> Row:
    """Estimate each different world once, and add up. Enumerated worlds that are too rare to look
    at count as missed.

    ``known`` keeps limits for settings that differ in nothing but the truth, whose worlds are the
    same ones with other shares.
    """
    start = time.perf_counter()
    shares, enumerated = _worlds(setting, worlds, seed)
    covered, total, refused, promise = 0.0, 0.0, 0.0, ""
    known = {} if known is None else known
    for key, share in shares.items():
        try:
            place = interval, method, setting.confidence, key
            if place not in known:
                known[place] = limits(setting, interval, method, setting.world.build(key))
            low, high, kind = known[place]
        except ArgumentError:
            # A check at p < 1e-3 refuses to answer now and then; more than a few refusals would
            # hide misses.
            refused += share
            low, high, kind = 0.0, 1.0, promise
        if not low <= high:
            raise AssertionError(
                f"reversed or undefined interval [{low}, {high}] for {key} in {setting.name}"
            )
        # Rounding of the truth, not of the limits: 0.7·0.9 and the like.
        covered += share * (low - 1e-12 <= setting.world.truth <= high + 1e-12)
        total += share * (high - low)
        promise = kind if kind != "heuristic" else promise or kind
    if refused > 0.005:
        raise AssertionError(f"{refused:.1%} of the worlds refused in {setting.name}")
    if enumerated:
        worlds, p_value = len(shares), 1.0 if covered >= setting.confidence - 1e-9 else 0.0
    else:
        p_value = excess_p_value(round((1 - covered) * worlds), worlds, 1 - setting.confidence)
    return Row(
        interval=interval,
        method=method,
        setting=setting.name,
        worlds=worlds,
        enumerated=enumerated,
        coverage=covered,
        nominal=setting.confidence,
        width=total,
        guarantee=promise,
        p_value=p_value,
        part=part,
        n=_labels(setting.world.build(key)),
        seconds=time.perf_counter() - start,
    )


def _labels(counts: Any) -> int:
    """How many labels there are in a world."""
    return sum((counts.tallies if hasattr(counts, "tallies") else counts.patterns).values())


def measure_stream(stream: Stream, interval: str, *, worlds: int = WORLDS, seed: int = 0) -> Row:
    """Share of streams that never miss, looked at after every label; the width is that of the last
    look, over some streams.
    """
    start = time.perf_counter()
    rng = np.random.default_rng([seed, zlib.crc32(stream.name.encode())])
    codes = stream.draw(rng, worlds)
    misses = int(missed(stream, interval, codes).any(axis=1).sum())
    widths = [
        high - low
        for c in codes[:40]
        for _, low, high in agrees(stream, interval, c, (codes.shape[1],))
    ]
    return Row(
        interval=interval,
        method="every look",
        setting=stream.name,
        worlds=worlds,
        enumerated=False,
        coverage=1 - misses / worlds,
        nominal=0.95,
        width=float(np.mean(widths)),
        guarantee="finite-sample",
        p_value=excess_p_value(misses, worlds, 0.05),
        part="every look",
        n=codes.shape[1],
        seconds=time.perf_counter() - start,
    )
