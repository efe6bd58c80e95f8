"""Do the parts of a report fit together?

Each function below holds two parts against each other. It states only what follows, and its
docstring proves it. A finding that disagrees says that the assumptions of both parts cannot all be
true; in a world where they are, it appears with at most the probability that one of the two parts
is wrong, which is part of the error rate of the report already.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from noracle.accuracy.policy import bears_on_estimates
from noracle.oversight.model import Finding, Step
from noracle.oversight.parts import (
    Parts,
    answered_share,
    claims_of,
    floor_of,
    named_in,
    parts_of,
    resting_on,
    span,
)
from noracle.results import Kind
from noracle.results.guarantee import failed_checks

_SLACK = 1e-9
_NOT_ALL_SYSTEMS = "labelled items that some system was not asked about"


def find_contradictions(
    steps: Sequence[Step], *, weighted: bool = False, same_items: bool = False
) -> tuple[Finding, ...]:
    """Hold the parts of a report against each other.

    Parameters
    ----------
    steps
        The steps of a report.
    weighted
        Whether items have different weights. Then an accuracy is not a share of items, and is not
        held against what whole items prove.
    same_items
        Whether ratings and answers are about exactly the same items. Else statements on annotators
        and on answers are about different items, and nothing follows from one for the other.

    Returns
    -------
    tuple of Finding
        Disagreements first; then the agreements, with what two parts say together.

    Notes
    -----
    Two intervals that hold with error rates a and b, and whose intersection is empty, cannot both
    be right. So in a world in which all assumptions are true this happens with probability of at
    most a + b. A logical range has error rate 0.

    Examples
    --------
    >>> from noracle import AccuracyCounts, estimate_accuracy
    >>> from noracle.results import Guarantee, Kind, Range, Ranges
    >>> estimate = estimate_accuracy(AccuracyCounts.from_counts(n_classes=4, system="a", ordinary=(100, 80)))
    >>> logical = Guarantee(kind=Kind.LOGICAL, error_rate=0.0)
    >>> ranges = Ranges(ranges=(Range(name="grade of a", low=0.2, high=0.4),), method="every answer key", guarantee=logical)
    >>> steps = [
    ...     Step(name="accuracy", question="How accurate?", status="done", results=(estimate,)),
    ...     Step(name="ranges", question="What is possible?", status="done", results=(ranges,)),
    ... ]
    >>> [(f.subject, f.agrees) for f in find_contradictions(steps)]
    [('a', False)]
    """
    parts = parts_of(steps)
    found = [
        *_failed_checks(parts),
        *_impossible_labels(parts),
        *([] if weighted else _ranges_against_accuracy(parts)),
        *_comparison_against_accuracy(parts),
        *([] if weighted else _alarm_against_rest(parts, same_items=same_items)),
        *(_annotators_against_accuracy(parts) if same_items else ()),
    ]
    return tuple(sorted(found, key=lambda f: f.agrees))  # stable: the order above within both kinds


# ------------------------------------------------------------------------------------------------------------------
# each pair


def _failed_checks(parts: Parts) -> Iterator[Finding]:
    """A test of an assumption that rejects at p < 0.001 speaks against every statement that rests
    on it.

    Proof: if the assumption is true, one of its tests rejects after Holm's correction with
    probability of at most 0.001 (simulated and normal ones nearly). Nothing else is used.
    Sensitivity is a diagnostic and no test.
    """
    for check in failed_checks(c for c in parts.checks if c.name != "sensitivity"):
        resting = [
            name
            for name, part in (
                ("accuracy", parts.accuracies if bears_on_estimates(check) else None),
                ("comparison", parts.comparison),
            )
            if part
        ]
        if not resting and not bears_on_estimates(check):
            continue
        yield Finding(
            name=f"failed check: {check.name}",
            agrees=False,
            statement=f"The check of {check.name} failed (p = {check.p_value:.2g}): {check.finding}. What rests on "
            f"'{check.assumption}' is therefore a guess and no promise, until the labels are collected as assumed.",
            between=("checks", *resting),
        )


def _impossible_labels(parts: Parts) -> Iterator[Finding]:
    """Labels that no accuracy in [0, 1] fits at the stated confidence.

    Proof: the interval holds every accuracy that the labels do not reject. If it is empty, all are
    rejected, and one of them is true where the assumptions are.
    """
    for name, estimate in parts.accuracies.items():
        if estimate.diagnostics.get("routing_alarm"):
            yield Finding(
                name="impossible labels",
                agrees=False,
                statement=f"No accuracy of {name} in [0, 1] fits its labels, if {named_in(estimate.guarantee)}. At least one of these "
                "is false: the labels were not collected as assumed.",
                between=("accuracy",),
                subject=name,
            )


def _ranges_against_accuracy(parts: Parts) -> Iterator[Finding]:
    """The interval of an accuracy against what every answer key allows.

    Let R be the right answers of a system, r the items it was asked about and a those it answered.
    Its accuracy is R/r, since an item without an answer is wrong; its grade is R/a. So accuracy =
    grade·a/r. If every key that fits answers and judgements gives a grade in [l, h], then the
    accuracy lies in [l·a/r, h·a/r], without any probability. The interval holds the accuracy with
    its confidence. If both are right they share a point, and the shared part holds the accuracy
    with the confidence of the interval.
    """
    for name, estimate in parts.accuracies.items():
        share = answered_share(estimate)
        grade = parts.grades.get(name)
        if grade is None or share is None or math.isnan(grade.low) or math.isnan(estimate.low):
            continue
        low, high = grade.low * share, grade.high * share
        both = max(low, estimate.low), min(high, estimate.high)
        interval, possible = span(estimate.low, estimate.high), span(low, high)
        if both[0] > both[1] + _SLACK:
            logic = "" if parts.logic is None else f"; and, for the range, {named_in(parts.logic)}"
            yield Finding(
                name="accuracy against possible range",
                agrees=False,
                statement=f"CONTRADICTION: the labels put the accuracy of {name} into {interval}, but no answer key that fits the answers "
                f"and judgements gives it a value outside {possible}. These cannot all be true: {named_in(estimate.guarantee)}{logic}.",
                between=("accuracy", "ranges"),
                subject=name,
            )
        elif low > estimate.low + _SLACK or high < estimate.high - _SLACK:
            yield Finding(
                name="accuracy against possible range",
                agrees=True,
                statement=f"The labels put the accuracy of {name} into {interval}, and every possible answer key into {possible}. Both "
                f"together: {span(*both)}, with the confidence of the interval.",
                between=("accuracy", "ranges"),
                subject=name,
            )
        else:
            yield Finding(
                name="accuracy against possible range",
                agrees=True,
                statement=f"The interval of {name}, {interval}, lies inside what every answer key allows, {possible}.",
                between=("accuracy", "ranges"),
                subject=name,
            )


def _comparison_against_accuracy(parts: Parts) -> Iterator[Finding]:
    """The difference of two accuracies against their intervals.

    If A is in [l1, h1] and B in [l2, h2], then A - B is in [l1 - h2, h1 - l2]. The comparison puts
    it into [d, e]. Where the systems were asked about the same items both speak of the same A and
    B, so the two intervals share a point if all three are right.
    """
    comparison = parts.comparison
    if comparison is None or len(parts.accuracies) < 2:
        return
    items = {e.counts.get("items") for e in parts.accuracies.values()}
    if len(items) > 1 or dict(comparison.counts.get("unused", {})).get(_NOT_ALL_SYSTEMS):
        return
    broken = False
    for d in comparison.differences:
        a, b = parts.accuracies.get(d.first), parts.accuracies.get(d.second)
        if a is None or b is None or math.isnan(d.low) or math.isnan(a.low) or math.isnan(b.low):
            continue
        low, high = a.low - b.high, a.high - b.low
        if max(low, d.low) > min(high, d.high) + _SLACK:
            broken = True
            yield Finding(
                name="comparison against accuracy",
                agrees=False,
                statement=f"CONTRADICTION: compared on the same labels {d.first} minus {d.second} is in {span(d.low, d.high)}, but their "
                f"accuracies, {span(a.low, a.high)} and {span(b.low, b.high)}, allow {span(low, high)} only. These cannot all be true: "
                f"{named_in(a.guarantee & b.guarantee & comparison.guarantee)}.",
                between=("accuracy", "comparison"),
                subject=f"{d.first} and {d.second}",
            )
    if not broken:
        yield Finding(
            name="comparison against accuracy",
            agrees=True,
            statement=f"The differences of the {len(comparison.systems)} systems agree with their accuracies one by one.",
            between=("accuracy", "comparison"),
        )


def _alarm_against_rest(parts: Parts, *, same_items: bool) -> Iterator[Finding]:
    """A claim about all graders, refuted or not, against what is known of each.

    Fired, claim "the grade of each is more than p": for every key some grade is at most p. If
    intervals (accuracy·r/a, as above) and certificates (accuracy > margin, since annotators are
    right with probability of at least 0; only on the same items) put *every* grade above p, then no
    key fits all of them. Fired, claim about each label: a grade is a mean of the accuracies on the
    labels and can be above p while one of them is not, so nothing follows from intervals of
    accuracies over all labels.

    Silent: that proves nothing. But if the interval of a system lies at or below p, the claim is
    false with the confidence of the interval, for grades and for labels: if all accuracies on
    labels were above p, so would be their mean.
    """
    proof = parts.proof
    claims = None if proof is None else claims_of(proof)
    if proof is None or claims is None or not parts.accuracies:
        return
    if proof.status == "alarm":
        if any(kind != "grade" for kind, _, _, _ in claims):
            return
        floors = {name: floor_of(parts, name, same_items=same_items) for _, name, _, _ in claims}
        kept = [
            floor is not None and (floor[0] > p + _SLACK or (not strict and floor[0] >= p))
            for (_, name, p, strict) in claims
            for floor in (floors[name],)
        ]
        if kept and all(kept):
            lows = ", ".join(
                f"{name} at least {floor[0]:.3f} ({floor[1]})"
                for name, floor in sorted(floors.items())
                if floor is not None
            )
            yield Finding(
                name="alarm against accuracy",
                agrees=False,
                statement=f"CONTRADICTION: no answer key lets all graders keep '{proof.claim}', but the other parts put every one of them "
                f"above it: {lows}. These cannot all be true: {named_in(resting_on(parts, floors) & proof.guarantee)}.",
                between=("accuracy", "alarm"),
            )
        return
    below = []
    for _, name, p, _ in claims:
        estimate = parts.accuracies.get(name)
        share = None if estimate is None else answered_share(estimate)
        if (
            estimate is not None
            and share
            and not math.isnan(estimate.high)
            and estimate.high / share <= p
        ):
            below.append(name)
    for name in dict.fromkeys(below):
        estimate = parts.accuracies[name]
        yield Finding(
            name="alarm against accuracy",
            agrees=True,
            statement=f"The answers alone raise no alarm, which proves nothing. The labels do say that {name}, in "
            f"{span(estimate.low, estimate.high)}, breaks '{proof.claim}'.",
            between=("accuracy", "alarm"),
            subject=name,
        )


def _annotators_against_accuracy(parts: Parts) -> Iterator[Finding]:
    """Certificates and the ceiling on annotators against accuracies, on the same items.

    Let A be the accuracy of a system and H that of the average annotation, both on these items. A
    certificate says A > H + margin, and H ≥ 0, so A > margin: an interval of A that ends at or
    below the margin contradicts it. The ceiling says H ≤ U. If the interval of A starts above U +
    margin, then A > H + margin: the system is better than the annotators by labels and ceiling
    alone, without what a certificate assumes of its errors, and with both error rates added. Not
    certified is not a statement: nothing contradicts it. And no part bounds H from below by more
    than 0, so a low accuracy alone never contradicts a certificate. Judgements of rated items never
    contradict the ceiling: on every item the votes for the confirmed label are at most those of the
    most frequent one.
    """
    for name, certificate in parts.certificates.items():
        estimate = parts.accuracies.get(name)
        if estimate is None or math.isnan(estimate.low):
            continue
        if certificate.certified and estimate.high <= certificate.margin:
            yield Finding(
                name="certificate against accuracy",
                agrees=False,
                statement=f"CONTRADICTION: {name} is certified to beat its annotators by more than {certificate.margin:g}, so that its "
                f"accuracy exceeds that, but the labels put it into {span(estimate.low, estimate.high)}. These cannot all be true: "
                f"{named_in(certificate.guarantee & estimate.guarantee)}.",
                between=("accuracy", "certificate"),
                subject=name,
            )
    if parts.ceiling is None or math.isnan(parts.ceiling.high):
        return
    for name, estimate in parts.accuracies.items():
        margin = parts.certificates[name].margin if name in parts.certificates else 0.0
        if (
            estimate.low > parts.ceiling.high + margin
            and estimate.guarantee.kind >= Kind.FINITE_SAMPLE
        ):
            yield Finding(
                name="accuracy against ceiling",
                agrees=True,
                statement=f"{name} is more accurate than the average annotator: its accuracy is at least {estimate.low:.3f} by the labels, "
                f"and annotators reach {parts.ceiling.high:.3f} at most. Both hold together at error rate "
                f"{estimate.guarantee.error_rate + parts.ceiling.guarantee.error_rate:.3g}.",
                between=("accuracy", "ceiling"),
                subject=name,
            )
