"""What the evidence says about an assumption, whether a level still holds, and what remains possible."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from noracle._version import __version__
from noracle.errors import ArgumentError, fault, known_names
from noracle.results.base import FAILED_BELOW, Guarantee, Result


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Check(Result):
    """Does the evidence look as the assumption says it should?

    ``passed`` is ``p_value >= threshold``; a check without enough evidence has p NaN, passes, and
    says so in ``finding``. ``refutes_only`` says that a pass proves nothing, because faults can
    cancel.

    Examples
    --------
    >>> from noracle import AccuracyCounts, check_overlap
    >>> check = check_overlap(AccuracyCounts.from_counts(n_classes=4, ordinary=(300, 210), complementary=(600, 540)))
    >>> check.passed, check.assumption, check.refutes_only
    (True, 'uniform routing', False)
    """

    schema: ClassVar[str] = "check/1"

    name: str
    assumption: str
    p_value: float
    statistic: float
    finding: str
    method: str
    threshold: float = FAILED_BELOW
    refutes_only: bool = False
    parts: tuple[Mapping[str, Any], ...] = ()
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    @property
    def passed(self) -> bool:
        """False only if the evidence speaks against the assumption."""
        return math.isnan(self.p_value) or self.p_value >= self.threshold

    def __repr__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        return f"Check({self.name}: {verdict}, p = {self.p_value:.3g})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Drift(Result):
    """Has the accuracy of a system fallen below a level, since when, and where?

    ``label`` is the number of the label that raised the alarm (None: no alarm), counted from 1 in
    the order of the stream, ``at`` its time. ``since`` are the first and the last label that can
    be the first one below ``level``, at the stated ``confidence``; ``likely`` is the one that fits
    best. ``statistic`` is the e-detector at the alarm, else its largest value so far; it raises an
    alarm at ``run_length``. ``windows`` are the accuracies in windows, ``moved`` the strata and
    clusters before and since.

    Examples
    --------
    >>> from noracle import Evidence, detect_drift
    >>> right = ["yes", "yes", "yes", "no"] * 100 + ["yes", "no"] * 60
    >>> grades = {"item": list(range(520)), "system": ["a"] * 520, "verdict": right}
    >>> drift = detect_drift(Evidence.from_tables(grades=grades), floor=0.7, run_length=1000)["a"]
    >>> drift.alarm, drift.label > 400, drift.since[0] <= 401 <= drift.since[1]
    (True, True, True)
    """

    schema: ClassVar[str] = "drift/1"

    subject: str
    level: float
    statistic: float
    run_length: float
    confidence: float
    label: int | None = None
    at: str = ""
    since: tuple[int, int] | None = None
    since_at: tuple[str, str] | None = None
    likely: int | None = None
    windows: tuple[Mapping[str, Any], ...] = ()
    moved: tuple[Mapping[str, Any], ...] = ()
    method: str
    guarantee: Guarantee
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    @property
    def alarm(self) -> bool:
        """Whether the accuracy was found below the level."""
        return self.label is not None

    def __repr__(self) -> str:
        said = f"ALARM at label {self.label}, since {self.since}" if self.alarm else "no alarm"
        return f"Drift({self.subject!r} against {self.level:.4g}: {said})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The smallest and the largest possible value of one quantity.

    Examples
    --------
    >>> Range(name="accuracy of gpt on A", low=0.0, high=27 / 190).high < 0.15
    True
    """

    name: str
    low: float
    high: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ranges(Result):
    """What remains possible for some quantities, whatever the unknown part is; ``subject`` says
    what they are about.

    ``ranges["gpt"]`` is the range of a system over all labels, ``ranges["gpt", "A"]`` that on one
    label, and ``ranges[name]`` the range of any name.

    Examples
    --------
    >>> from noracle import Sketch, range_accuracies
    >>> sketch = Sketch.from_counts({("A", "A"): 3, ("A", "B"): 1}, classifiers=["x", "y"], labels=["A", "B"])
    >>> found = range_accuracies(sketch, given={"x": "accuracy > 1/2"})
    >>> found["y"].low, found["y"].high, found["grade of y"] == found["y"], found.guarantee.kind.label
    (0.75, 0.75, True, 'logical')
    >>> found["y", "A"].low
    0.75
    """

    schema: ClassVar[str] = "ranges/1"

    ranges: tuple[Range, ...]
    method: str
    subject: str = ""
    guarantee: Guarantee
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    def __getitem__(self, name: str | tuple[str, str]) -> Range:
        wanted: list[object] = [name]
        for say in (str, repr):  # names are quoted where two quantities would read the same
            if isinstance(name, tuple):
                wanted.append(f"accuracy of {say(name[0])} on {say(name[1])}")
            else:
                wanted += [f"grade of {say(name)}", f"accuracy of {say(name)}"]
        known: dict[object, Range] = {r.name: r for r in self.ranges}
        found = next((known[each] for each in wanted if each in known), None)
        if found is not None:
            return found
        rule = "must be a system, (system, label) or the name of a range"
        raise ArgumentError(fault("name", rule, repr(name), remedy=known_names(name, known)))

    def __repr__(self) -> str:
        inside = ", ".join(f"{r.name} [{r.low:.4g}, {r.high:.4g}]" for r in self.ranges[:4])
        return f"Ranges({inside}{', …' if len(self.ranges) > 4 else ''})"
