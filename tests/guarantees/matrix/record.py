"""What is measured: a case is one piece of work that gives rows, and a row says how often one
interval held in one setting.
"""

from __future__ import annotations

import dataclasses
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tests.guarantees.measure import Row, excess_p_value

FAMILY = 0.01
"""The chance of one false "FAILS" or more among all rows of a family, if every promise is kept."""
PROMISED = ("finite-sample", "logical")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One piece of work: so many worlds give rows of one setting or of several that share their
    estimates.
    """

    part: str
    name: str
    measured: Callable[[int], list[Row]]
    quick: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.part, self.name


@dataclasses.dataclass
class Seen:
    """Sums over the worlds of one setting."""

    worlds: int = 0
    held: int = 0
    width: float = 0.0
    promise: str = ""

    def add(self, held: bool, width: float, promise: str = "", times: int = 1) -> None:
        self.worlds += times
        self.held += times * bool(held)
        self.width += times * float(width)
        # A failed check turns a promise into a heuristic now and then; the row is about the
        # promise.
        if promise and (promise != "heuristic" or not self.promise):
            self.promise = promise


def row_of(
    seen: Seen,
    *,
    part: str,
    setting: str,
    method: str,
    interval: str,
    n: int,
    started: float,
    promise: str | None = None,
    nominal: float = 0.95,
) -> Row:
    """A row of drawn worlds."""
    misses = seen.worlds - seen.held
    return Row(
        part=part,
        setting=setting,
        method=method,
        interval=interval,
        n=n,
        worlds=seen.worlds,
        enumerated=False,
        coverage=seen.held / seen.worlds,
        nominal=nominal,
        width=seen.width / seen.worlds,
        guarantee=promise or seen.promise,
        p_value=excess_p_value(misses, seen.worlds, 1 - nominal),
        seconds=time.perf_counter() - started,
    )


def seeded(*words: object) -> np.random.Generator:
    """The same worlds for the same words."""
    return np.random.default_rng(zlib.crc32(" ".join(map(str, words)).encode()))


def fewer(worlds: int, divisor: int, least: int = 100) -> int:
    """Fewer worlds where one costs much."""
    return max(min(least, worlds), worlds // divisor)


def judged(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with ``significant``: Bonferroni at 1 % over the drawn rows of a family; enumerated
    and logical rows may not fall short.

    The promised rows are one family and the others another, so that an approximation that fails
    does not make the test of the promises weaker or stronger.
    """
    rows = list(rows)
    drawn = {True: 0, False: 0}
    for r in rows:
        drawn[r["guarantee"] in PROMISED] += not certain(r)
    return [
        {
            **r,
            "significant": r["p_value"]
            < (1e-9 if certain(r) else FAMILY / drawn[r["guarantee"] in PROMISED]),
        }
        for r in rows
    ]


def certain(row: dict[str, Any]) -> bool:
    """Whether nothing is left to chance in this row: all worlds were enumerated, or one miss is one
    too many.
    """
    return bool(row["enumerated"]) or row["nominal"] == 1


def check_names(cases: Sequence[Case]) -> None:
    """No two cases may have one name."""
    keys = [c.key for c in cases]
    twice = sorted({k for k in keys if keys.count(k) > 1}) if len(set(keys)) < len(keys) else []
    if twice:
        raise ValueError(f"cases must have different names; got {twice[:5]} twice.")
