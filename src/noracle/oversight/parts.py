"""What the steps of a report say, sorted for holding them against each other."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from noracle.oversight.model import Step
from noracle.results import (
    Certificate,
    Check,
    Comparison,
    Estimate,
    Guarantee,
    Proof,
    Range,
    Ranges,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the steps say, by kind."""

    accuracies: Mapping[str, Estimate]
    grades: Mapping[str, Range]
    comparison: Comparison | None
    proof: Proof | None
    certificates: Mapping[str, Certificate]
    ceiling: Estimate | None
    checks: tuple[Check, ...]
    logic: Guarantee | None


def parts_of(steps: Sequence[Step]) -> Parts:
    """What the steps say, by kind of statement."""
    by_name = {step.name: step for step in steps}

    def results(name: str) -> tuple[Any, ...]:
        step = by_name.get(name)
        return () if step is None else step.results

    accuracies = {r.subject: r for r in results("accuracy") if isinstance(r, Estimate)}
    ranges = [r for r in results("ranges") if isinstance(r, Ranges)]
    named = {range_.name: range_ for r in ranges for range_ in r.ranges}
    grades: dict[str, Range] = {}
    for name in accuracies:
        range_ = named.get(f"grade of {name}", named.get(f"grade of {name!r}"))
        if range_ is not None:
            grades[name] = range_
    return Parts(
        accuracies=accuracies,
        grades=grades,
        comparison=next((r for r in results("comparison") if isinstance(r, Comparison)), None),
        proof=next((r for r in results("alarm") if isinstance(r, Proof)), None),
        certificates={r.subject: r for r in results("certificate") if isinstance(r, Certificate)},
        ceiling=next((r for r in results("ceiling") if isinstance(r, Estimate)), None),
        checks=tuple(r for r in results("checks") if isinstance(r, Check)),
        logic=ranges[0].guarantee if ranges else None,
    )


def answered_share(estimate: Estimate) -> float | None:
    """a/r, answered items among those asked about; None where items were answered more than once,
    so that items have no one answer.
    """
    items = estimate.counts.get("items", 0)
    if not items or "answers" in estimate.counts:
        return None
    return 1 - float(estimate.counts.get("without_answer", 0)) / float(items)


def claims_of(proof: Proof) -> list[tuple[str, str, float, bool]] | None:
    """(kind, classifier, p, strict) of every statement, one for each classifier; None where one is
    not an accuracy or grade.
    """
    names = list(proof.sketch.get("classifiers", ()))
    found: list[tuple[str, str, float, bool]] = []
    for s in proof.spec.get("statements", ()):
        if s["kind"] not in ("accuracy", "grade") or s.get("on") is not None:
            return None
        of = [s["of"]] if s["of"] is not None else names
        found += [
            (str(s["kind"]), str(name), float(Fraction(str(s["above"]))), bool(s["strict"]))
            for name in of
        ]
    return found or None


def floor_of(parts: Parts, name: str, *, same_items: bool) -> tuple[float, str] | None:
    """The largest lower limit of a grade, and where it comes from."""
    estimate = parts.accuracies.get(name)
    share = None if estimate is None else answered_share(estimate)
    if estimate is None or not share or math.isnan(estimate.low):
        return None
    floors = [(estimate.low / share, "by labels")]
    certificate = parts.certificates.get(name)
    if same_items and certificate is not None and certificate.certified:
        floors.append((certificate.margin, "certified"))
    return max(floors)


def resting_on(parts: Parts, names: Iterable[str]) -> Guarantee:
    """The joint promise of the accuracies of these systems."""
    return functools.reduce(operator.and_, (parts.accuracies[name].guarantee for name in names))


def span(low: float, high: float) -> str:
    """An interval for a sentence."""
    return f"[{low:.3f}, {high:.3f}]"


def named_in(guarantee: Guarantee) -> str:
    """The assumptions for a sentence."""
    return "; ".join(a.name for a in guarantee.assumptions) or "nothing is assumed"
