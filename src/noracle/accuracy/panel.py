"""A panel that is unanimous: how often is it wrong then, and how many votes is it worth?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from noracle.accuracy.judge import Answer, Names, judged_answers, judges_in
from noracle.accuracy.score import require_type
from noracle.bounds.binomial import hypergeometric_limits, log_choose
from noracle.counts.count import unknown_systems
from noracle.errors import EvidenceError, require, require_evidence
from noracle.evidence import Evidence
from noracle.evidence.tables import NO, UNSURE, YES
from noracle.results import Assumption, Certificate, Guarantee, Kind
from noracle.results.base import check_confidence


def certify_panel(
    evidence: Evidence,
    *,
    panel: Sequence[str] | None = None,
    people: Names = None,
    system: str | None = None,
    at_most: float = 0.05,
    confidence: float = 0.95,
) -> Certificate:
    """Certify that a panel is rarely unanimous and wrong, from labels asked only where it agrees.

    The share of unanimous items is known. Of these a random sample is labelled, so that the share
    that is unanimous *and* wrong is at most the known share times the exact upper limit of the
    sample.

    Parameters
    ----------
    evidence
        Answers of the systems of the panel and labels (judgements or grades); or grades by the
        judges of the panel of every answer, and by people of some.
    panel
        Systems, or judges that are raters of the grades; by default the judges where at least two
        graded everything, else all systems.
    people, system
        For a panel of judges: the raters that they are compared with, by default all others; and
        whose answers they graded, which may be left out where there is one system.
    at_most
        The share that is claimed not to be exceeded.
    confidence
        Of the upper limit.

    Returns
    -------
    Certificate
        ``value`` is the share of items that are *not* unanimous and wrong, ``low`` its lower limit,
        ``margin`` is 1 - ``at_most``. ``diagnostics`` holds the bound, 1 - ``low``, and, where
        labels fall on items without agreement too, the error correlation ρ and the effective number
        of votes.

    Notes
    -----
    P(wrong and unanimous) <= U/N·M/U, M the largest number of wrong items among the U unanimous
    ones with P(X <= seen) > 1 - ``confidence``, X hypergeometric. ρ is the mean correlation of the
    errors of two members; m votes whose errors have it are worth m/(1 + (m - 1)·ρ) independent ones,
    as the variance of their mean goes.

    Assumes that labels were drawn at random among the unanimous items, whatever their rate
    elsewhere, and that they are right. Where people are unsure the panel counts as wrong. It speaks
    of these items.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26, 404-413; Kish (1965), Survey Sampling (effective
    numbers).

    Examples
    --------
    >>> from noracle import Evidence, certify_panel
    >>> items = list(range(1000))
    >>> answers = {"item": items * 2, "system": ["a"] * 1000 + ["b"] * 1000, "answer": [0] * 1000 + [0] * 600 + [1] * 400}
    >>> labels = {"item": items[:600:3], "class": [0] * 200, "verdict": ["yes"] * 196 + ["no"] * 4}
    >>> certificate = certify_panel(Evidence.from_tables(answers, labels, n_classes=3))
    >>> certificate.certified, round(certificate.diagnostics["bound"], 3), certificate.verify()
    (True, 0.024, True)
    """
    require(0 < at_most < 1, f"at_most must be in (0, 1); got {at_most}.")
    check_confidence(confidence)
    require_type(evidence, Evidence)
    names, rows, of = _panel_of(evidence, panel, people, system)
    rule = "must name at least two that answered or graded the same items"
    require_evidence(len(names) > 1, "panel", rule, list(names))
    require_evidence(rows, "panel", rule, "no item that all of them answered or graded")
    return panel_certificate(rows, names, of=of, at_most=at_most, confidence=confidence)


def panel_certificate(
    rows: Sequence[PanelItem], names: Sequence[str], *, of: str, at_most: float, confidence: float
) -> Certificate:
    """The certificate of a panel from what is known of each item."""
    error = 1 - confidence
    agreed = [row for row in rows if row.unanimous]
    told = [row.wrong for row in agreed if row.wrong is not None]
    size, n, wrong = len(agreed), len(told), sum(told)
    high = hypergeometric_limits(wrong, n, size, 0.0, error)[1] if size and n else float(size > 0)
    bound, value = high * size / len(rows), math.nan
    if n or not size:
        value = 1 - (wrong / n * size / len(rows) if n else 0.0)
    attained = _attained(wrong, n, size, math.floor(at_most * len(rows) + 1e-9))
    certified = bound <= at_most + 1e-12
    reasons = []
    if not certified and not n:
        reasons.append(f"nobody labelled any of the {size} items on which the panel agrees")
    elif not certified:
        reasons.append(f"the upper limit {bound:.4f} is above {at_most:g}")
    inputs = {"kind": "panel", "items": len(rows), "unanimous": size, "labelled": n, "wrong": wrong}
    drawn = "drawn at random among the items on which the panel agrees"
    right = Assumption(name="right verdicts", detail="labels and people's grades are right")
    rests = (Assumption(name="labels drawn where the panel agrees", detail=drawn), right)
    return Certificate(
        claim=f"at most {at_most:.4g} of the {of} are unanimous and wrong",
        subject=", ".join(names),
        certified=certified,
        value=value,
        low=1 - bound,
        margin=1 - at_most,
        confidence=confidence,
        attained=attained,
        method="known share of agreement times an exact upper limit",
        test="panel",
        guarantee=Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=error, assumptions=rests),
        reasons=tuple(reasons),
        inputs={**inputs, "at_most": at_most, "confidence": confidence},
        counts={"items": len(rows), "labelled": n},
        diagnostics={"bound": bound, "unanimous": size / len(rows), "size": len(names)}
        | _votes(rows),
        reason="" if not math.isnan(value) else "no label where the panel agrees",
    )


def _attained(wrong: int, n: int, size: int, allowed: int) -> float:
    """The largest confidence of the claim: 1 - P(X <= wrong) with one wrong item more than allowed."""
    most = allowed + 1
    if most > size - (n - wrong):
        return 1.0
    if not n or most < wrong:
        return 0.0
    x = np.arange(0, min(wrong, n) + 1.0)
    x = x[(n - x <= size - most) & (x <= most)]
    logs = log_choose(most, x) + log_choose(size - most, n - x) - log_choose(size, n)
    return max(0.0, 1 - float(np.exp(logs).sum()))


class PanelItem(NamedTuple):
    """Whether all agree; whether they are wrong then (not to be sure of it is to call it wrong), and
    the errors of each, where it is known.
    """

    unanimous: bool
    wrong: bool | None
    errors: tuple[bool, ...] | None


def _panel_of(
    evidence: Evidence, panel: Sequence[str] | None, people: Names, system: str | None
) -> tuple[tuple[str, ...], list[PanelItem], str]:
    """The panel, what is known of each item, and what the items are called."""
    judges = judges_in(evidence) if panel is None else tuple(panel)
    raters: set[str] = set()
    if evidence.grades is not None and "rater" in evidence.grades.columns:
        raters = {rater for (rater,) in evidence.rows("grades", "rater")}
    if len(judges) > 1 and {*judges} <= raters:
        told = judged_answers(evidence, judge=judges, people=people)
        chosen = told.chosen(system)
        rule = f"must be named, one of {list(chosen)}"
        require_evidence(len(chosen) == 1, "system", rule, None)
        given = [a for a in told.answers[chosen[0]] if a.given]
        return judges, [_voted(a) for a in given], f"answers of {chosen[0]!r}"
    if evidence.answers is None:
        rule = "must have answers of systems, or grades by two judges"
        raise EvidenceError.of("evidence", rule, "neither")
    evidence.check()
    said: dict[Any, dict[str, Any]] = defaultdict(dict)
    for item, system, answer in evidence.rows("answers", "item", "system", "answer"):
        said[item][system] = answer
    every = sorted({system for of in said.values() for system in of})
    names = tuple(every if panel is None else panel)
    missing = [name for name in names if name not in every]
    if missing:
        raise unknown_systems(missing, evidence)
    truths = _truths(evidence, said)
    asked = [item for item, of in said.items() if {*names} <= of.keys()]
    rows = [_judged([said[i][s] for s in names], *(t.get(i, set()) for t in truths)) for i in asked]
    return names, rows, "items"


def _voted(answer: Answer) -> PanelItem:
    """What several judges said of one answer that people call right, or not."""
    said, right = answer.judged, answer.right
    agree = len({*said}) == 1 and said[0] in (YES, NO)
    errors = None if right is None else tuple((v == YES) != right for v in said)
    wrong = errors[0] if errors else True if answer.people == UNSURE else None
    return PanelItem(agree, wrong if agree else None, errors)


def _truths(
    evidence: Evidence, said: Mapping[Any, Mapping[str, Any]]
) -> tuple[dict[Any, set[Any]], ...]:
    """The answers of each item that labels call right and wrong, and those they are not sure of."""
    labels = list(evidence.rows("judgements", "item", "class", "said"))
    for item, system, grade in evidence.rows("grades", "item", "system", "said"):
        labels.append((item, said.get(item, {}).get(system), grade))
    true, false, unsure = (defaultdict[Any, set[Any]](set) for _ in range(3))
    of = {YES: true, NO: false, UNSURE: unsure}
    for item, answer, verdict in labels:
        if answer is not None and verdict in of:
            of[verdict][item].add(answer)
    if evidence.judgements is not None:  # one class is true: no other answer is
        for item, label, verdict in evidence.rows("judgements", "item", "class", "said"):
            if verdict == YES:
                false[item] |= {a for a in said.get(item, {}).values() if a != label}
    return true, false, unsure


def _judged(
    answers: Sequence[Any], right: set[Any], wrong: set[Any], unsure: set[Any]
) -> PanelItem:
    """What is known of the answers of a panel to one item; no answer is wrong."""
    errors = tuple(a not in right for a in answers)
    known = bool(right | wrong) and all(a is None or (a in right) != (a in wrong) for a in answers)
    agree = answers[0] is not None and len({*answers}) == 1
    failed = errors[0] if known else answers[0] in unsure | (right & wrong) or None
    return PanelItem(agree, failed if agree else None, errors if known else None)


def _votes(rows: Sequence[PanelItem]) -> dict[str, float]:
    """The error correlation of the panel and its effective number of votes, parts by their shares;
    nothing where a part is without labels or a member never errs.
    """
    means: Any = 0.0
    pairs: Any = 0.0
    for agree in (True, False):
        part = [row.errors for row in rows if row.unanimous == agree]
        told = np.array([errors for errors in part if errors is not None], dtype=float)
        if part and not len(told):
            return {}
        if part:
            share = len(part) / len(rows)
            means, pairs = (
                means + share * told.mean(axis=0),
                pairs + share * (told.T @ told) / len(told),
            )
    spread, m = np.sqrt(means * (1 - means)), len(means)
    if (spread <= 0).any():
        return {}
    rho = (pairs - np.outer(means, means)) / np.outer(spread, spread)
    mean = float((rho.sum() - np.trace(rho)) / (m * (m - 1)))
    found = {"error_correlation": mean, "all_wrong_if_independent": float(np.prod(means))}
    worth = 1 + (m - 1) * mean
    return found | ({"effective_votes": m / worth} if worth > 0 else {})
