"""How noisy and how biased are ruled-out labels?"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from noracle._version import __version__
from noracle.results.base import Guarantee, NaN, Result
from noracle.results.check import Check
from noracle.results.estimate import Estimate


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often something happened: ``hits`` of ``n`` labels on ``items`` items, with limits.

    ``value`` is the mean over items of the share of an item's labels; with one label per item, or
    equally many, that is ``hits / n``. ``expected`` is what fair labels would give, ``verdict``
    says on which side of it the limits lie.
    """

    name: str
    hits: int
    n: int
    items: int
    value: float
    low: float
    high: float
    expected: float = NaN
    verdict: Literal["", "more", "less"] = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatorRow:
    """One annotator: ``noise`` on trusted items, ``agreement`` with others on the same items."""

    name: str
    n_labels: int
    n_items: int
    noise: Rate
    favourite: tuple[str, ...]
    favourite_share: float
    agreement: float
    pairs: int
    seconds: float = NaN


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransitionTable:
    """P(ruled out | true class), rows true classes; a row that nothing is known about is NaN.

    ``oracle`` says that true labels were seen. ``usable`` says that the matrix can be inverted, as
    unbiased risks need; else ``reason``.
    """

    source: str
    oracle: bool
    detail: str
    matrix: tuple[tuple[float, ...], ...]
    counts: tuple[tuple[int, ...], ...] = ()
    noise: float = NaN
    strength: float = NaN
    condition: float = NaN
    usable: bool = False
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LabelAnalysis(Result):
    """Noise, bias and annotators of ruled-out labels; the limits in one table hold together at
    ``confidence``.

    ``oracle`` says that true labels of a trusted part were seen. ``shares`` is how often each class
    was ruled out, ``preferences`` the same for items that are of another class and labels that are
    right. ``checks`` are tests of what methods assume, ``findings`` the whole in plain words.

    Examples
    --------
    >>> from noracle.learn import analyse_labels
    >>> found = analyse_labels([1, 2, 0, 2, 0, 0, 1, 1], n_classes=3, truth=[0, 0, 1, 1, 2, 2, 2, 1])
    >>> found.oracle, found.noise.value, LabelAnalysis.from_dict(found.to_dict()).noise.value
    (True, 0.125, 0.125)
    """

    schema: ClassVar[str] = "analysis/1"

    classes: tuple[str, ...]
    noise: Estimate
    noise_by_class: tuple[Rate, ...]
    shares: tuple[Rate, ...]
    preferences: tuple[Rate, ...]
    transitions: tuple[TransitionTable, ...]
    agreement: Estimate
    annotators: tuple[AnnotatorRow, ...]
    checks: tuple[Check, ...]
    findings: tuple[str, ...]
    confidence: float
    method: str
    oracle: bool
    guarantee: Guarantee
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values with ``"schema"`` first; results inside carry their own schema."""
        data = Result.to_dict(self)
        inside = {"noise": self.noise.to_dict(), "agreement": self.agreement.to_dict()}
        return {**data, **inside, "checks": [check.to_dict() for check in self.checks]}

    def check(self, name: str) -> Check | None:
        """The check of this name, or None where it was not made."""
        return next((c for c in self.checks if c.name == name), None)

    def __repr__(self) -> str:
        n = self.counts.get("labels", 0)
        return (
            f"LabelAnalysis({n} labels, {len(self.classes)} classes: noise {self.noise.value:.4g} "
            f"[{self.noise.low:.4g}, {self.noise.high:.4g}] at {self.confidence:g})"
        )
