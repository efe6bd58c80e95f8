"""What a strategy makes of scores: where each entry stands, and who is worked on next. The scale of
the scores never matters.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from noracle.search.candidates import Scored, standardised
from noracle.search.workflow import Workflow


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """An entry and how many standard errors it lies below the best one (0 for the best)."""

    scored: Scored
    z: float

    @property
    def number(self) -> int:
        """The number of the entry."""
        return self.scored.entry.number


class Told:
    """All that a strategy was told, by entry: telling an entry again changes nothing."""

    def __init__(self) -> None:
        self._by_number: dict[int, Scored] = {}

    def tell(self, scored: Scored) -> None:
        """Take note of an entry."""
        self._by_number[scored.entry.number] = scored

    def told(self) -> list[Scored]:
        """Everything, by number."""
        return [self._by_number[k] for k in sorted(self._by_number)]

    def digests(self) -> dict[str, int]:
        """The workflows that were tried, with the number of their first entry."""
        entries = [s.entry for s in reversed(self.told()) if not s.entry.problem]
        return {entry.workflow.digest: entry.number for entry in entries}

    def standings(self) -> list[Standing]:
        """Where the entries that have a score stand, by number."""
        return stand(self.told())

    def best(self) -> Workflow | None:
        """The workflow that stands best (the first of several), or the first that was told."""
        ranked = [s.scored for s in rank(self.standings())]
        first = (ranked or self.told())[:1]
        return first[0].entry.workflow if first else None


def stand(scored: Sequence[Scored]) -> list[Standing]:
    """Standardised scores of the entries that have one.

    Numbers are settled at nine decimals, far below anything that matters, so that the last bits of
    q, A and 100·A cannot tell apart what is equal: the choices are then the same, bit for bit.
    """
    useful = [s for s in scored if not s.entry.problem and math.isfinite(s.score)]
    scores = np.array([s.score for s in useful])
    flat = scores.size and float(np.ptp(scores)) <= 1e-12 * float(np.abs(scores).max(initial=0.0))
    z = np.zeros(len(useful)) if flat else np.round(standardised(useful), 9) + 0.0
    return [Standing(s, float(v)) for s, v in zip(useful, z, strict=True)]


def rank(standings: Sequence[Standing]) -> list[Standing]:
    """Best first; the earlier one where two are equal."""
    return sorted(standings, key=lambda s: (-s.z, s.number))


def mixture(
    z: Sequence[float], *, uniform: float = 0.3, sharpness: float = 1.0
) -> np.ndarray[Any, Any]:
    r"""Probabilities of being worked on: ``uniform/n + (1 - uniform)·softmax(sharpness·z)``.

    z is in standard errors. AFlow's 0.2 per percentage point is a ``sharpness`` of 1 where the
    standard error is five points, as with some hundred ordinary labels; on q, on A and on
    percentages that rule itself would give three different searches.

    Examples
    --------
    >>> mixture([0.0, -1.0, -1.0]).round(3).tolist()
    [0.503, 0.248, 0.248]
    """
    values = np.asarray(z, dtype=float)
    weights = np.exp(sharpness * (values - values.max()))
    return np.asarray(uniform / values.size + (1 - uniform) * weights / weights.sum())


def pick(
    standings: Sequence[Standing],
    rng: np.random.Generator,
    *,
    uniform: float = 0.3,
    sharpness: float = 1.0,
) -> Standing:
    """One entry, drawn from the mixture."""
    p = mixture([s.z for s in standings], uniform=uniform, sharpness=sharpness)
    place = np.searchsorted(np.cumsum(p), rng.random() * p.sum(), side="right")
    return standings[min(int(place), len(standings) - 1)]
