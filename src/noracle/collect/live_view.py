"""What a dashboard shows: frozen records, ready for JSON. The rules behind the numbers stand in
``live.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from noracle.results import Check, Estimate
from noracle.results.base import encode


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClassProgress:
    """One pool: a class (partitioned), a place of the balanced design (ordinary), or everybody.

    ``asked`` counts main questions, ``answered`` those with an answer, ``in_order`` those before
    the first gap; the rates are shares of the answered ones (``expired_rate``: of the questions
    that somebody has seen).
    """

    pool: int
    name: str
    people: int
    asked: int
    answered: int
    in_order: int
    yes: int
    unsure: int
    expired: int
    unsure_rate: float
    expired_rate: float

    @property
    def completion(self) -> float:
        """Share of the main questions that are answered; 1 where there are none."""
        return self.answered / self.asked if self.asked else 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The interval after so many answers of the sealed order."""

    n: int
    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SystemView:
    """One system.

    ``estimate`` has the value repaired for unequal completion and the interval that holds at every
    look. ``worst`` and ``best`` are the value if all unsure verdicts and absent classes go against
    the system, or for it. ``fixed`` is the interval at the declared n, None before. ``corrected``
    is the sensitivity line with the error rates of gold or panel items, None without them.
    """

    name: str
    estimate: Estimate
    worst: float
    best: float
    absent_share: float = 0.0
    fixed: Estimate | None = None
    corrected: Estimate | None = None
    path: tuple[Point, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """A project now. ``alarms`` are the names of the checks that failed; all checks together cry
    wolf in at most 5 % of projects.
    """

    project: str
    name: str
    state: str
    protocol: str
    n_classes: int
    at: float
    asked: int
    answered: int
    in_order: int
    planned_n: int | None
    pending: int
    classes: tuple[ClassProgress, ...]
    systems: tuple[SystemView, ...]
    checks: tuple[Check, ...]
    rates: Mapping[str, Estimate]
    """Error rates: ``gold false yes``, ``gold false no``, ``panel``."""
    agreement: Estimate | None = None
    notes: tuple[str, ...] = ()

    @property
    def alarms(self) -> tuple[str, ...]:
        """Names of the checks that failed."""
        return tuple(dict.fromkeys(c.name for c in self.checks if not c.passed))

    @property
    def completion(self) -> float:
        """Share of the main questions that are answered."""
        return self.answered / self.asked if self.asked else 0.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON; undefined numbers are None."""
        plain = {f.name: encode(getattr(self, f.name)) for f in dataclasses.fields(self)}
        plain["checks"] = [{**c.to_dict(), "passed": c.passed} for c in self.checks]
        for row, c in zip(plain["classes"], self.classes, strict=True):
            row["completion"] = c.completion
        return {
            "schema": "live/1",
            **plain,
            "alarms": list(self.alarms),
            "completion": self.completion,
        }
