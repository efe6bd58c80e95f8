"""Arguments that every estimator takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from noracle.errors import ArgumentError

Side = Literal["two-sided", "lower", "upper"]


def check_confidence(confidence: float) -> float:
    """Return ``confidence`` if it lies strictly between 0 and 1."""
    if not (isinstance(confidence, (int, float)) and 0 < confidence < 1):
        raise ArgumentError(
            f"confidence must be in (0, 1); got {confidence!r}. For 95 % pass 0.95."
        )
    return float(confidence)


def tails(confidence: float, side: Side) -> tuple[float, float]:
    """The error rate spent below and above: half each, or all on one side."""
    error = 1 - check_confidence(confidence)
    if side not in ("two-sided", "lower", "upper"):
        raise ArgumentError(f"side must be 'two-sided', 'lower' or 'upper'; got {side!r}.")
    return {"two-sided": (error / 2, error / 2), "lower": (error, 0.0), "upper": (0.0, error)}[side]


def choose(argument: str, value: str, allowed: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``allowed``."""
    if value not in allowed:
        raise ArgumentError(f"{argument} must be one of {', '.join(allowed)}; got {value!r}.")
    return value
