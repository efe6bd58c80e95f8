"""What a certificate says, what it rests on, and why it is not given."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from noracle.errors import ArgumentError
from noracle.results import Assumption, Certificate, Check, Guarantee, Kind, check_confidence
from noracle.superhuman.difference import Outcome

Trained = Literal["yes", "no", "unknown"]
MOST_ITEMS = 10**9

SIX = "where the vote is wrong, the system is right at least as often as it repeats the vote (6)"
ONE_LABEL = Assumption(name="one true label per item")
IID = Assumption(name="iid items")
BY_CLUSTER = Assumption(
    name="clusters are a random sample",
    detail="items of one cluster may depend on each other in any way",
)
DEPENDENT = Assumption(
    name="independent items",
    status="failed",
    detail="items come in clusters, and items of one cluster depend on each other",
)
BLIND = "the vote does not see the system"
NOT_A_BOUND = Assumption(
    name="exchangeable annotators with p_i·p_j ≤ P_ij (U_e)",
    detail="sqrt(v) is not a bound: accuracies 1 and 0.6 have mean 0.8 > 0.775",
)


ONE_RATING = "every item has one rating, which says nothing about how often annotators are right"
TWO_RATINGS = "with two ratings an item no system can match the vote more often than the ceiling; at least three are needed"
_NOT_STATED = (
    "trained_on_annotators is not stated: a system trained on these annotators repeats their errors and nothing here would show it; "
    "say 'yes' or 'no'"
)


def check_margin(margin: float) -> float:
    """Return ``margin`` if it is in [0, 1)."""
    if isinstance(margin, bool) or not (isinstance(margin, (int, float)) and 0 <= margin < 1):
        raise ArgumentError(f"margin must be in [0, 1); got {margin!r}. For 2 points pass 0.02.")
    return float(margin)


def trained_word(trained: Trained | bool | None) -> Trained:
    """The statement as one of three words."""
    word = (
        {True: "yes", False: "no", None: "unknown"}.get(trained, trained)
        if not isinstance(trained, str)
        else trained
    )
    if word not in ("yes", "no", "unknown"):
        raise ArgumentError(
            f"trained_on_annotators must be 'yes', 'no' or 'unknown'; got {trained!r}."
        )
    return word  # type: ignore[return-value]


def read_check(check: Check | None, system: str | None) -> dict[str, Any] | None:
    """What a certificate keeps of the check of (6)."""
    if check is None:
        return None
    if not isinstance(check, Check) or "supported" not in check.diagnostics:
        raise ArgumentError(
            "check must be a check of (6) with diagnostics['supported'], as check_assumptions returns; got another."
        )
    about = check.diagnostics.get("system")
    if about is not None and system is not None and about != system:
        raise ArgumentError(f"check must be about {system!r}; got one about {about!r}.")
    confidence = check.diagnostics.get("confidence")
    return {
        "supported": bool(check.diagnostics["supported"]),
        "passed": bool(check.passed),
        "confidence": None if confidence is None else float(confidence),
        "p_value": None if math.isnan(check.p_value) else float(check.p_value),
        "finding": check.finding,
    }


def statement_faults(
    trained: Trained, check: Mapping[str, Any] | None, confidence: float
) -> list[str]:
    """Why what is known of the training forbids a certificate."""
    if check is not None and not check["passed"]:
        return [f"(6) was checked on known answers and fails: {check['finding']}"]
    if trained == "no":
        return []
    if trained == "unknown":
        return [_NOT_STATED]
    if check is None:
        return [
            "the system was trained on these annotators, and (6) was not checked on items with known answers"
        ]
    if not check["supported"]:
        return [
            f"the system was trained on these annotators, and known answers do not support (6): {check['finding']}"
        ]
    if check["confidence"] is None or check["confidence"] < confidence - 1e-12:
        return [
            f"(6) is supported at confidence {check['confidence'] or 0:g} only, below {confidence:g}"
        ]
    return []


def six(trained: Trained, check: Mapping[str, Any] | None) -> Assumption:
    """Assumption (6) with what is known about it."""
    if check is not None and not check["passed"]:
        return Assumption(
            name=SIX, status="failed", detail=check["finding"], p_value=check["p_value"]
        )
    if check is not None and check["supported"]:
        return Assumption(
            name=SIX, status="checked", detail=check["finding"], p_value=check["p_value"]
        )
    said = {
        "no": "stated: not trained on these annotators",
        "yes": "trained on these annotators",
        "unknown": "training not stated",
    }[trained]
    return Assumption(name=SIX, status="assumed", detail=said)


def guarantee_of(
    outcome: Outcome, confidence: float, assumptions: tuple[Assumption, ...], *, doubled: bool
) -> Guarantee:
    """The promise of a test; ``doubled`` where a split was chosen after the fact."""
    failed = any(a.status == "failed" for a in assumptions)
    return Guarantee(
        kind=Kind.HEURISTIC if failed else outcome.kind,
        error_rate=min(1.0, (2 if doubled else 1) * (1 - confidence)),
        anytime=outcome.anytime and not failed,
        assumptions=assumptions,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that the verdict needs beside the outcome of the test."""

    subject: str
    margin: float
    confidence: float
    test: str
    method: str
    n_items: int
    match_rate: float
    ceiling: float
    vacuous: str
    """Why the ratings can prove nothing, whatever the system answers; empty where they can."""
    trained: Trained
    check: Mapping[str, Any] | None
    rests_on: tuple[Assumption, ...]
    inputs: Mapping[str, Any]
    counts: Mapping[str, Any]
    diagnostics: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    p_at: Callable[[float], float] | None = None
    """The p-value if there were so many times as many items at the same rates."""


def conclude(case: Case, outcome: Outcome) -> Certificate:
    """The certificate, with every reason why it is not given."""
    check_confidence(case.confidence)
    error = 1 - case.confidence
    proved = outcome.value > case.margin and outcome.p_value <= error
    needed = _needed(case, outcome, error)
    reasons = []
    if not case.n_items:
        reasons.append("no item has ratings and could be answered")
    elif case.vacuous:
        reasons.append(case.vacuous)
    if case.n_items and not outcome.value > case.margin:
        reasons.append(
            f"the system matches the vote on {case.match_rate:.4f} of the items and the annotators' ceiling is {case.ceiling:.4f}: "
            f"the difference {outcome.value:+.4f} is not above the margin {case.margin:g}"
        )
    elif case.n_items and not proved:
        much = (
            f"about {needed:,} items would be needed"
            if needed
            else "no number of items up to a billion would do"
        )
        reasons.append(
            f"confidence {max(0.0, 1 - outcome.p_value):.4g} is attained and {case.confidence:g} is asked for; "
            f"at these rates {much} (there are {case.n_items:,})"
        )
    reasons += statement_faults(case.trained, case.check, case.confidence)
    reasons += [
        f"nothing is promised: {a.name} ({a.detail})"
        for a in case.rests_on
        if a is NOT_A_BOUND or a.status == "failed"
    ]
    blind = Assumption(
        name=BLIND, status="assumed" if case.inputs["kind"] == "published" else "by-design"
    )
    assumptions = (
        ONE_LABEL,
        BY_CLUSTER if "clusters" in case.inputs else IID,
        blind,
        six(case.trained, case.check),
        *case.rests_on,
    )
    doubled = case.test.startswith("paper")
    return Certificate(
        claim=f"{case.subject!r} is more accurate than the average annotation"
        + (f" by more than {case.margin:g}" if case.margin else ""),
        subject=case.subject,
        certified=proved and not reasons,
        value=outcome.value,
        low=outcome.low,
        margin=case.margin,
        confidence=case.confidence,
        attained=max(0.0, 1 - outcome.p_value) if outcome.value > case.margin else 0.0,
        method=case.method,
        test=case.test,
        guarantee=guarantee_of(outcome, case.confidence, assumptions, doubled=doubled),
        reasons=tuple(reasons),
        inputs={**case.inputs, "digest": _digest(case.inputs)},
        counts=case.counts,
        diagnostics={
            "match_rate": case.match_rate,
            "ceiling": case.ceiling,
            "p_value": outcome.p_value,
            **({} if math.isnan(outcome.score) else {"score": outcome.score}),
            "needed_items": needed,
            **case.diagnostics,
        },
        notes=(*case.notes, *_notes(case, doubled=doubled)),
        reason="" if case.n_items else "no items",
    )


def _digest(inputs: Mapping[str, Any]) -> str:
    """A number that changes with any of the inputs."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _notes(case: Case, *, doubled: bool) -> list[str]:
    notes = [
        "the human of the claim is the average annotation, each item counting equally, not a named person"
    ]
    if doubled:
        notes.append(
            "the published score chooses its split after the fact: the error is up to twice 1 - confidence"
        )
    if case.test == "t" and case.n_items < 1000:
        notes.append(f"Student's t promises nothing at {case.n_items:,} items; betting does")
    return notes


def _needed(case: Case, outcome: Outcome, error: float) -> int | None:
    """How many items would do at the same rates: doubling, then bisection to one per cent; None if
    none or if enough are there.
    """
    if (
        case.p_at is None
        or not case.n_items
        or not outcome.value > case.margin
        or outcome.p_value <= error
    ):
        return None
    low, high = 1.0, 2.0
    while case.p_at(high) > error:
        low, high = high, 2 * high
        if case.n_items * high > MOST_ITEMS:
            return None
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if case.p_at(middle) > error else (low, middle)
    return math.ceil(case.n_items * high)
