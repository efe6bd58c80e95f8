"""What a certificate says, what it rests on, and why it is not given."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from noracle.errors import require
from noracle.evidence.ratings import Ratings, raters_in
from noracle.results import Assumption, Certificate, Check, Guarantee, Kind, check_confidence
from noracle.superhuman.difference import Tested

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
TWO_RATINGS = "with two ratings per item no system can match the vote more often than the ceiling; at least three are needed"
_NOT_STATED = (
    "trained_on_annotators is not stated: a system trained on these annotators repeats their errors and nothing here would show it; "
    "say 'yes' or 'no'"
)

_AVERAGE = "the human of the claim is the average annotation, each item counting equally, not a named person"
_DOUBLED = (
    "the published score chooses its split after the fact: the error is up to twice 1 - confidence"
)


def check_margin(margin: float) -> float:
    """Return ``margin`` if it is in [0, 1)."""
    fits = isinstance(margin, (int, float)) and not isinstance(margin, bool) and 0 <= margin < 1
    require(fits, f"margin must be in [0, 1); got {margin!r}. For 2 points pass 0.02.")
    return float(margin)


def trained_word(trained: Trained | bool | None) -> Trained:
    """The statement as one of three words."""
    words: dict[object, Trained] = {True: "yes", False: "no", None: "unknown"}
    words |= {word: word for word in words.values()}
    known = isinstance(trained, str | bool | None) and trained in words
    rule = f"must be 'yes', 'no' or 'unknown'; got {trained!r}"
    require(known, f"trained_on_annotators {rule}.")
    return words[trained]


def recorded_training(
    ratings: Ratings, said_by: Sequence[str] | None, *, stated: Trained | bool | None = "unknown"
) -> Trained:
    """Whether a system was trained on labels of these annotators, by the record of who made the
    labels that it was trained on; without a record, as it is stated.

    A record names who made them, as ``ComplementaryClassifier.said_by_`` does. One that names an
    annotator cannot be stated away. That the record is true is assumed, and so is that those whom
    it names did not copy the annotators.

    Parameters
    ----------
    ratings
        Ratings with names of raters.
    said_by
        Who made the labels of the training; None: no record.
    stated
        What is said where there is no record.

    Examples
    --------
    >>> table = {"item": [1, 1], "rater": ["ann", "bob"], "label": [0, 1]}
    >>> ratings = Ratings.from_tables(table, labels=[0, 1])
    >>> recorded_training(ratings, ["a vision model"]), recorded_training(ratings, ["bob", "eve"]), recorded_training(ratings, None)
    ('no', 'yes', 'unknown')
    """
    word = trained_word(stated)
    if not said_by:
        return word
    named = ratings.raters or (raters_in(ratings.frame) if ratings.form == "long" else ())
    require(named, "said_by must come with ratings whose raters have names; got none.")
    same = sorted({str(name) for name in said_by} & set(named))
    rule = "trained_on_annotators must be what the record of the training says"
    came = f"'no', and labels of {', '.join(same)} in the record"
    require(not (same and word == "no"), f"{rule}; got {came}.")
    return "yes" if same or word == "yes" else "no"


def read_check(check: Check | None, system: str | None) -> dict[str, Any] | None:
    """What a certificate keeps of the check of (6)."""
    if check is None:
        return None
    of_six = isinstance(check, Check) and "supported" in check.diagnostics
    rule = "with diagnostics['supported'], as check_assumptions returns; got another"
    require(of_six, f"check must be a check of (6) {rule}.")
    about = check.diagnostics.get("system")
    same = about is None or system is None or about == system
    require(same, f"check must be about {system!r}; got one about {about!r}.")
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
    trained_on = "the system was trained on these annotators, and"
    if check is None:
        return [f"{trained_on} (6) was not checked on items with known answers"]
    if not check["supported"]:
        return [f"{trained_on} known answers do not support (6): {check['finding']}"]
    at = check["confidence"] or 0
    if check["confidence"] is None or at < confidence - 1e-12:
        return [f"(6) is supported at confidence {at:g} only, below {confidence:g}"]
    return []


def six(trained: Trained, check: Mapping[str, Any] | None) -> Assumption:
    """Assumption (6) with what is known about it."""
    if check is not None and (not check["passed"] or check["supported"]):
        status: Literal["checked", "failed"] = "checked" if check["passed"] else "failed"
        known = {"detail": check["finding"], "p_value": check["p_value"]}
        return Assumption(name=SIX, status=status, **known)
    said = {
        "no": "stated: not trained on these annotators",
        "yes": "trained on these annotators",
        "unknown": "training not stated",
    }[trained]
    return Assumption(name=SIX, status="assumed", detail=said)


def conclude(
    outcome: Tested,
    inputs: Mapping[str, Any],
    *,
    subject: str,
    method: str,
    n_items: int,
    match_rate: float,
    ceiling: float,
    vacuous: str,
    rests_on: Sequence[Assumption],
    counts: Mapping[str, Any],
    diagnostics: Mapping[str, Any],
    notes: Sequence[str],
    p_at: Callable[[float], float],
) -> Certificate:
    """The certificate, with every reason why it is not given.

    ``vacuous`` says why the ratings can prove nothing, whatever the system answers; ``p_at`` is the
    p-value if there were so many times as many items at the same rates.
    """
    margin, confidence, test = inputs["margin"], inputs["confidence"], inputs["test"]
    trained, check = inputs["trained_on_annotators"], inputs["check"]
    error = 1 - check_confidence(confidence)
    above = outcome.value > margin
    proved = above and outcome.p_value <= error
    attained = max(0.0, 1 - outcome.p_value)
    needed = _needed(p_at, n_items, error) if n_items and above and not proved else None
    reasons = [] if n_items else ["no item has ratings and could be answered"]
    if n_items and vacuous:
        reasons.append(vacuous)
    if n_items and not above:
        reasons.append(
            f"the system matches the vote on {match_rate:.4f} of the items and the annotators' ceiling is {ceiling:.4f}: "
            f"the difference {outcome.value:+.4f} is not above the margin {margin:g}"
        )
    elif n_items and not proved:
        much = "no number of items up to a billion would do"
        much = f"about {needed:,} items would be needed" if needed else much
        reasons.append(
            f"confidence {attained:.4g} is attained and {confidence:g} is asked for; "
            f"at these rates {much} (there are {n_items:,})"
        )
    reasons += statement_faults(trained, check, confidence)
    failed = [a for a in rests_on if a is NOT_A_BOUND or a.status == "failed"]
    reasons += [f"nothing is promised: {a.name} ({a.detail})" for a in failed]
    sampled = BY_CLUSTER if "clusters" in inputs else IID
    published = inputs["kind"] == "published"
    blind = Assumption(name=BLIND, status="assumed" if published else "by-design")
    assumptions = (ONE_LABEL, sampled, blind, six(trained, check), *rests_on)
    broken = any(a.status == "failed" for a in assumptions)
    doubled = test.startswith("paper")  # the split was chosen after the fact
    more = [_AVERAGE, _DOUBLED] if doubled else [_AVERAGE]
    if test == "t" and n_items < 1000:
        more.append(f"Student's t promises nothing at {n_items:,} items; betting does")
    by = f" by more than {margin:g}" if margin else ""
    plain = json.dumps(inputs, sort_keys=True)
    return Certificate(
        claim=f"{subject!r} is more accurate than the average annotation{by}",
        subject=subject,
        certified=proved and not reasons,
        value=outcome.value,
        low=outcome.low,
        margin=margin,
        confidence=confidence,
        attained=attained if above else 0.0,
        method=method,
        test=test,
        guarantee=Guarantee(
            kind=Kind.HEURISTIC if broken else outcome.kind,
            error_rate=min(1.0, (2 if doubled else 1) * (1 - confidence)),
            anytime=outcome.anytime and not broken,
            assumptions=assumptions,
        ),
        reasons=tuple(reasons),
        inputs={**inputs, "digest": hashlib.sha256(plain.encode()).hexdigest()},
        counts=counts,
        diagnostics={
            "match_rate": match_rate,
            "ceiling": ceiling,
            "p_value": outcome.p_value,
            **({} if math.isnan(outcome.score) else {"score": outcome.score}),
            "needed_items": needed,
            **diagnostics,
        },
        notes=(*notes, *more),
        reason="" if n_items else "no items",
    )


def _needed(p_at: Callable[[float], float], n_items: int, error: float) -> int | None:
    """How many items would do at the same rates, to one per cent; None if none would."""
    low, high = 1.0, 2.0
    while p_at(high) > error:
        low, high = high, 2 * high
        if n_items * high > MOST_ITEMS:
            return None
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if p_at(middle) > error else (low, middle)
    return math.ceil(n_items * high)
