"""What the steps of a report say, sorted for holding them against each other."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from noracle.accuracy.check import bears_on_estimates
from noracle.oversight.model import Finding, Inventory, NextStep, Step
from noracle.oversight.settings import NO_CLAIM
from noracle.results import (
    Certificate,
    Check,
    Comparison,
    Estimate,
    Guarantee,
    Kind,
    Plan,
    Proof,
    Range,
    Ranges,
    Result,
    Routing,
)
from noracle.results.base import failed_checks


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


# ----------------------------------------------------------------------------
# Do the parts of a report fit together?


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


# ----------------------------------------------------------------------------
# One promise for the whole report: what all its statements together are worth.


NOTHING = Guarantee(kind=Kind.HEURISTIC, error_rate=0.0)
"""The promise of a report that says nothing."""


def promises(results: Iterable[Result]) -> tuple[Guarantee, ...]:
    """The promises of the results that state something; checks, plans and questions to ask state
    nothing of systems or annotators.
    """
    return tuple(
        r.guarantee
        for r in results
        if isinstance(r, (Estimate, Comparison, Certificate, Ranges, Proof))
    )


def joint_guarantee(steps: Sequence[Step], *, every: bool = False) -> Guarantee:
    """The promise that all statements of a report hold together.

    By Boole's inequality the probability that some of k statements is wrong is at most the sum of
    their error rates, P(∪ wrong_i) ≤ Σ P(wrong_i), however they depend on each other. So error
    rates are added, the kind is the weakest one, and an assumption has the weakest status that any
    statement gives it (``Guarantee.__and__``).

    Parameters
    ----------
    steps
        The steps of a report.
    every
        False: the statements that hold at every sample size (finite-sample and logical), so that
        the joint promise does too. True: all statements, also those whose promise is asymptotic or
        heuristic; the joint one is then as weak as the weakest.

    Notes
    -----
    Assumes nothing beyond what the statements assume. A statement that rests on a refuted
    assumption is heuristic and left out, unless ``every`` is True: :func:`left_out` names it.

    References
    ----------
    Boole (1854), An investigation of the laws of thought, ch. XIX; Bonferroni (1936).

    Examples
    --------
    >>> from noracle import AccuracyCounts, estimate_accuracy
    >>> counts = AccuracyCounts.from_counts(n_classes=4, ordinary=(100, 80))
    >>> estimates = tuple(estimate_accuracy(counts, confidence=0.975) for _ in range(2))
    >>> step = Step(name="accuracy", question="How accurate is each system?", status="done", results=estimates)
    >>> round(joint_guarantee([step]).error_rate, 3)
    0.05
    """
    found = [
        g for step in steps for g in promises(step.results) if every or g.kind >= Kind.FINITE_SAMPLE
    ]
    return functools.reduce(operator.and_, found) if found else NOTHING


def left_out(steps: Sequence[Step]) -> dict[str, Kind]:
    """The steps with a statement that the finite-sample promise leaves out, and the weakest kind of
    promise that it has.
    """
    weak = {
        step.name: [g.kind for g in promises(step.results) if g.kind < Kind.FINITE_SAMPLE]
        for step in steps
    }
    return {name: min(kinds) for name, kinds in weak.items() if kinds}


# ---------------------------------------------------------------------------- What to do next, by
# rule: repair first, then what makes a question possible, then the labels that are worth their
# price.


QUESTIONS_FILE = "questions.csv"
_MISSING = (
    ("accuracy", "Collect labels: judgements of items that the systems answered"),
    ("mean", "Say which rater is the gold one"),
    ("comparison", "Make the systems comparable"),
    ("ceiling", "Let several people rate the same items"),
    ("certificate", "Bring answers and ratings together"),
    ("budget", "Write down what a score of each rater costs"),
    ("alarm", "Add a second grader"),
)
_ABSENT = (
    "There are no scores",
    "There are no ratings",
    "There are no answers",
    "There is one system",
    "Answers are graded",
    NO_CLAIM,
)


def next_steps(
    inventory: Inventory, steps: Sequence[Step], findings: Sequence[Finding]
) -> tuple[NextStep, ...]:
    """What to do next, the best first.

    In this order: repair what contradicts itself or failed its check, since more labels of the same
    kind repeat the fault; look into an alarm, where a stated claim is refuted; repair a step that
    stopped with an error; provide what makes a question possible that the evidence nearly answers;
    buy the labels that separate the leading systems or reach the wanted precision, with their cost.

    Parameters
    ----------
    inventory
        What was found, with the settings.
    steps, findings
        What was done with it, and what does not fit together.

    Examples
    --------
    >>> step = Step(name="accuracy", question="How accurate?", status="not possible", reason="There are no judgements. Add a table.")
    >>> next_steps(Inventory(place=".", sources=()), [step], [])[0].statement
    'Collect labels: judgements of items that the systems answered'
    """
    of = {step.name: step for step in steps}
    found = [
        *_repairs(of, findings),
        *_alarms(of),
        *_errors(steps),
        *_training(of),
        *_missing(of),
        *_separate(inventory, of),
        *_narrow(inventory, of),
    ]
    unique = {f.statement: f for f in reversed(found)}
    return tuple(f for f in found if unique[f.statement] is f)


def _repairs(of: dict[str, Step], findings: Sequence[Finding]) -> Iterator[NextStep]:
    for finding in findings:
        if finding.agrees:
            continue
        if finding.name.startswith("failed check"):
            what = finding.name.partition(": ")[2]
            yield NextStep(
                statement=f"Repair how labels are collected: the check of {what} failed",
                reason="More labels of this kind would repeat the fault. Draw the questions at random and record their probabilities: "
                f"'noracle route' does both. {finding.statement}",
                command=_questions(of) or _command(of, "checks"),
            )
        else:
            whose = f" about {finding.subject}" if finding.subject else ""
            yield NextStep(
                statement=f"Settle a contradiction{whose}: {finding.name}",
                reason=f"One of the assumptions is false, and no statement that rests on it can be trusted. {finding.statement}",
                command=_command(of, "checks") or _command(of, *finding.between),
            )


def _alarms(of: dict[str, Step]) -> Iterator[NextStep]:
    step = of.get("alarm")
    proof = (
        next((r for r in step.results if isinstance(r, Proof)), None) if step is not None else None
    )
    if step is None or proof is None or proof.status != "alarm":
        return
    conflict = of.get("conflict")
    named = [
        n
        for r in (conflict.results if conflict is not None else ())
        for n in getattr(r, "diagnostics", {}).get("conflict", ())
    ]
    who = (
        f"Find the broken grader among {', '.join(map(str, named))}"
        if len(named) != 1
        else f"Look into {named[0]}, which is broken"
    )
    yield NextStep(
        statement=who if named else "Find the broken grader",
        reason=f"No answer key lets all of them keep '{proof.claim}'. True labels of items on which they differ settle it.",
        command=_command(of, "conflict") or step.command,
    )


def _errors(steps: Sequence[Step]) -> Iterator[NextStep]:
    for step in steps:
        if step.status == "failed":
            yield NextStep(
                statement=f"Repair what stopped '{step.question}'",
                reason=step.reason,
                command=step.command,
            )


def _training(of: dict[str, Step]) -> Iterator[NextStep]:
    step = of.get("certificate")
    if step is None:
        return
    certificates = [r for r in step.results if isinstance(r, Certificate)]
    open_ = [
        r
        for r in certificates
        if any(reason.startswith("trained_on_annotators is not stated") for reason in r.reasons)
    ]
    if open_:
        yield NextStep(
            statement="State whether the systems were trained on labels of these annotators",
            reason=f"Without that nothing is certified ({', '.join(r.subject for r in open_[:5])}): a system that copies its annotators' "
            "errors would look too good. Write trained_on_annotators = 'no' into noracle.toml if it is true.",
            command=step.command,
        )


def _missing(of: dict[str, Step]) -> Iterator[NextStep]:
    """Questions that the evidence nearly answers; those whose whole table is absent come last, and
    only for accuracy.

    A claim that nobody stated is not asked for: what graders are held to is not ours to propose.
    """
    for name, statement in _MISSING:
        step = of.get(name)
        if step is None or step.status != "not possible":
            continue
        if step.reason.startswith(_ABSENT) and name != "accuracy":
            continue
        command = (_questions(of) or _command(of, "labels")) if name == "accuracy" else ""
        yield NextStep(
            statement=statement,
            reason=f"It answers '{step.question}'. {step.reason}",
            command=command,
            cost=_cost(of, name),
        )


def _separate(inventory: Inventory, of: dict[str, Step]) -> Iterator[NextStep]:
    """Labels that separate the leaders: the half-width shrinks as 1/√n, so that
    n·(half-width/difference)² labels would be needed.
    """
    step = of.get("comparison")
    comparison = (
        next((r for r in step.results if isinstance(r, Comparison)), None)
        if step is not None
        else None
    )
    if comparison is None or len(comparison.leaders) < 2:
        return
    values = {r.system: r.value for r in comparison.ranks}
    first, second = sorted(comparison.leaders, key=lambda s: (-values.get(s, -math.inf), s))[:2]
    d = comparison.difference(first, second)
    gap = (
        max(abs(d.value), inventory.settings.half_width)
        if not math.isnan(d.value)
        else inventory.settings.half_width
    )
    k = _plan(of)
    best = _accuracy(of, first)
    if k is None or best is None:
        return
    accuracy = round(min(max(best.value, gap), 1.0), 3)
    words = [
        "plan",
        "--n-classes",
        str(max(2, _most_classes(k))),
        "--accuracy",
        repr(accuracy),
        "--difference",
        repr(round(gap, 4)),
    ]
    prices = {
        name: price
        for name, price in k.inputs.get("costs", {}).items()
        if name in ("ordinary", "complementary")
    }
    words += [w for name, price in prices.items() for w in ("--cost", f"{name}={price!r}")]
    yield NextStep(
        statement=f"Label more items to separate {first} and {second}",
        reason=f"They cannot be told apart yet: the difference is {d.value:.3f}, in [{d.low:.3f}, {d.high:.3f}]. The command says how many "
        f"labels find a difference of {gap:.3f} in all; {int(best.counts.get('labelled', 0)):,} items are labelled already.",
        command=shlex.join(["noracle", *words]),
    )


def _narrow(inventory: Inventory, of: dict[str, Step]) -> Iterator[NextStep]:
    plan, wanted = _plan(of), inventory.settings.half_width
    step = of.get("accuracy")
    estimates = [r for r in step.results if isinstance(r, Estimate)] if step is not None else []
    wide = [e for e in estimates if not math.isnan(e.low) and (e.high - e.low) / 2 > wanted]
    if plan is None or not wide:
        return
    widest = max(wide, key=lambda e: (e.high - e.low, e.subject))
    now = f"The widest, that of {widest.subject}, is ± {(widest.high - widest.low) / 2:.3f}."
    if not plan.buy:
        if plan.reason:
            yield NextStep(
                statement=f"Bring more items: no label is left that could narrow an interval to ± {wanted:g}",
                reason=f"{now} {plan.reason[:1].upper()}{plan.reason[1:]}.",
                command=_command(of, "labels"),
            )
        return
    buy = ", ".join(f"{n:,} {kind}" for kind, n in plan.buy.items() if n)
    there = sum(plan.inputs.get("have", {}).values())
    buy = buy if "grades" in plan.buy else f"{buy} labels"
    told = f"It takes {buy} more than the {there:,} that are there" if there else f"It takes {buy}"
    out = f"; {plan.reason}" if plan.reason else ""
    yield NextStep(
        statement=f"Label until every interval is ± {wanted:g}",
        reason=f"{now} {told}, of items that have none{out}.",
        command=_questions(of) or _command(of, "labels"),
        cost=plan.cost,
    )


# ------------------------------------------------------------------------------------------------------------------
# small things


def _command(of: dict[str, Step], *names: str) -> str:
    return next((of[name].command for name in names if name in of and of[name].command), "")


def _plan(of: dict[str, Step]) -> Plan | None:
    step = of.get("labels")
    return (
        next((r for r in step.results if isinstance(r, Plan)), None) if step is not None else None
    )


def _most_classes(plan: Plan) -> int:
    """The largest number of classes; ordinary labels, which separate systems best, do not depend on
    it.
    """
    told = plan.inputs.get("n_classes")
    if told is None:
        return max(
            (int(row["n_classes"]) for row in plan.inputs["evidence"]["population"]), default=2
        )
    return max(map(int, told)) if isinstance(told, Mapping) else int(told)


def _accuracy(of: dict[str, Step], system: str) -> Estimate | None:
    step = of.get("accuracy")
    return (
        next((r for r in step.results if isinstance(r, Estimate) and r.subject == system), None)
        if step is not None
        else None
    )


def _cost(of: dict[str, Step], name: str) -> float | None:
    plan = _plan(of)
    return (
        plan.cost if name == "accuracy" and plan is not None and not math.isnan(plan.cost) else None
    )


def _questions(of: dict[str, Step]) -> str:
    """The command that draws as many questions as the plan needs and the items allow, into a file;
    "" where the plan must draw them.
    """
    step = of.get("route")
    routing = (
        next((r for r in step.results if isinstance(r, Routing)), None)
        if step is not None
        else None
    )
    if step is None or routing is None:
        return ""
    plan = _plan(of)
    n = int(routing.counts.get("items", len(routing))) - int(
        routing.counts.get("labelled_before", 0)
    )
    words = shlex.split(step.command)
    if "--n" not in words:  # no pattern names the files
        return ""
    if plan is not None:
        if plan.inputs.get("planner") == "evidence" and (
            set(plan.buy) - {"question", "targeted"} or not plan.buy
        ):
            return ""  # open questions, ruled-out classes and strata are drawn by the plan itself
        n = max(1, min(n, sum(plan.buy.values())))
    words[words.index("--n") + 1] = str(n)
    return shlex.join([*words, "--out", QUESTIONS_FILE])
