"""A number with an interval, and differences of such numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from noracle._version import __version__
from noracle.errors import ArgumentError
from noracle.results.base import Guarantee, NaN, Result, Side


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Estimate(Result):
    """A number with an interval and the promise behind it.

    ``value`` may lie outside [0, 1] where the estimator is not clipped; ``low`` and ``high`` never
    do for an accuracy.

    Examples
    --------
    >>> from noracle import AccuracyCounts, estimate_accuracy
    >>> estimate = estimate_accuracy(AccuracyCounts.from_counts(n_classes=4, ordinary=(50, 40)))
    >>> estimate.value, round(estimate.low, 3), round(estimate.high, 3), estimate.guarantee.kind.label
    (0.8, 0.663, 0.9, 'finite-sample')
    >>> Estimate.from_dict(estimate.to_dict()) == estimate
    True
    """

    schema: ClassVar[str] = "estimate/1"

    quantity: str
    subject: str
    value: float
    low: float
    high: float
    confidence: float
    method: str
    interval: str
    guarantee: Guarantee
    side: Side = "two-sided"
    se: float = NaN
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    @property
    def width(self) -> float:
        """``high - low``."""
        return self.high - self.low

    def __repr__(self) -> str:
        return (
            f"Estimate({self.quantity} of {self.subject!r}: {self.value:.4g} [{self.low:.4g}, {self.high:.4g}] "
            f"at {self.confidence:g}, {self.interval}, {self.guarantee.kind.label})"
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Accuracy of ``first`` minus accuracy of ``second`` on the same labels.

    Examples
    --------
    >>> Difference(first="a", second="b", value=0.05, low=-0.01, high=0.11).verdict
    'not separable'
    >>> Difference(first="a", second="b", value=0.05, low=0.02, high=0.08).verdict
    'first'
    """

    first: str
    second: str
    value: float
    low: float
    high: float
    n: int = 0

    @property
    def verdict(self) -> Literal["first", "second", "not separable"]:
        """Who is better, if the interval says so."""
        return "first" if self.low > 0 else "second" if self.high < 0 else "not separable"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """The places that a system can hold, given all differences at once.

    Examples
    --------
    >>> rank = Rank(system="a", best=1, worst=2, value=0.8)
    >>> f"{rank.system} holds place {rank.best} to {rank.worst}"
    'a holds place 1 to 2'
    """

    system: str
    best: int
    worst: int
    value: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Result):
    """Differences of systems, simultaneous at ``confidence``, and the ranking that follows.

    ``leaders`` are the systems that nobody is certainly better than. ``dropped`` (races only) says
    after how many labels a system was certainly not the best.

    Examples
    --------
    >>> from noracle import PatternCounts, compare_systems
    >>> said = {(True, True): 300, (True, False): 80, (False, True): 20, (False, False): 100}
    >>> comparison = compare_systems(PatternCounts.from_counts(n_classes=4, systems=("a", "b"), yes=said))
    >>> comparison.leaders, comparison.difference("b", "a").verdict
    (('a',), 'second')
    """

    schema: ClassVar[str] = "comparison/1"

    systems: tuple[str, ...]
    differences: tuple[Difference, ...]
    ranks: tuple[Rank, ...]
    leaders: tuple[str, ...]
    confidence: float
    method: str
    interval: str
    guarantee: Guarantee
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    def difference(self, first: str, second: str) -> Difference:
        """The difference ``first - second``, whichever way round it is stored."""
        for d in self.differences:
            if (d.first, d.second) == (first, second):
                return d
            if (d.first, d.second) == (second, first):
                turned = {"value": -d.value, "low": -d.high, "high": -d.low}
                return Difference(first=first, second=second, **turned, n=d.n)
        came = f"got {first!r} and {second!r}"
        raise ArgumentError(f"systems must be two of {list(self.systems)}; {came}.")

    def __repr__(self) -> str:
        promise = f"at {self.confidence:g}, {self.interval}, {self.guarantee.kind.label}"
        return f"Comparison({len(self.systems)} systems, leaders {list(self.leaders)}, {promise})"
