"""What a report says in plain words: what it rests on, and one line per system."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from noracle.oversight.findings import by_subject, first_of, results_of
from noracle.oversight.model import Finding, FolderSettings, NextStep, Step, SystemLine
from noracle.report import words
from noracle.report.assumptions import clause
from noracle.report.content import content
from noracle.results import (
    Certificate,
    Check,
    Comparison,
    Drift,
    Estimate,
    Guarantee,
    Kind,
    Plan,
    Proof,
    Ranges,
    Routing,
)
from noracle.results.base import failed_checks

_KINDS = {
    Kind.LOGICAL: "holds for every possible answer key",
    Kind.FINITE_SAMPLE: "holds with at least {confidence} confidence, however few the labels",
    Kind.ASYMPTOTIC: "holds with about {confidence} confidence once labels are many; with few it can fail more often",
    Kind.HEURISTIC: "no promise: read it as a hint",
}


def promised(guarantee: Guarantee) -> str:
    """What one statement promises, in plain words."""
    return _KINDS[guarantee.kind].format(confidence=confidence_of(guarantee.error_rate))


def confidence_of(error_rate: float) -> str:
    """Write one minus an error rate, rounded down to two decimals so that nothing more is claimed
    than is true.
    """
    return words.level(1 - error_rate)


def answer(step: Step) -> str:
    """One line that answers the question of a step."""
    results = step.results
    first = results[0] if results else None
    estimates = [r for r in results if isinstance(r, Estimate)]
    certificates = [r for r in results if isinstance(r, Certificate)]
    if isinstance(first, Comparison):
        open_ = sum(d.verdict == "not separable" for d in first.differences)
        best = f"{first.leaders[0]} leads" if len(first.leaders) == 1 else "No single leader"
        return f"{best}; {open_:,} of {len(first.differences):,} pairs cannot be told apart"
    if isinstance(first, Check):
        checks = [r for r in results if isinstance(r, Check)]
        bad = [c.name for c in failed_checks(checks)]
        return f"{len(checks):,} checks, " + (f"FAILED: {', '.join(bad)}" if bad else "none failed")
    if certificates:
        good = [c.subject for c in certificates if c.certified]
        named = ", ".join(good[:3]) + (f" and {len(good) - 3:,} more" if len(good) > 3 else "")
        return f"{len(good):,} of {len(certificates):,} certified" + (f": {named}" if good else "")
    if isinstance(first, Drift):
        return _fallen([r for r in results if isinstance(r, Drift)])
    if isinstance(first, Ranges):
        known = [r for x in results if isinstance(x, Ranges) for r in x.ranges]
        grades = [r for r in known if r.name.startswith("grade of ") and r.high - r.low < 1]
        if 0 < len(grades) <= 3:
            ends = [(r.name[9:].strip("'"), 100 * r.low, r.high) for r in grades]
            return ", ".join(f"{who} {x:.1f} to {words.percent(y, '.1f')}" for who, x, y in ends)
        open_ = sum(not (r.low <= 0 and r.high >= 1) for r in known)
        return f"{open_:,} of {len(known):,} quantities can be narrowed down"
    if isinstance(first, Proof):
        said = "No alarm" if first.status == "consistent" else first.status.capitalize()
        return f"{said}: {first.claim}"
    if isinstance(first, Routing):
        return f"{len(first):,} questions are drawn"
    if isinstance(first, Plan) and not first.buy:
        if not first.reason or first.goal != "half-width":
            return "Nothing left to buy" if first.reason else "None: the goal is reached"
        return (
            f"Every item has a label; the widest interval is ± {100 * first.predicted:.1f} points"
        )
    if isinstance(first, Plan):
        cost = "" if math.isnan(first.cost) else f", price {first.cost:,.6g}"
        return f"{words.bought(first.buy)}{cost}"
    if estimates:
        shown = sorted(estimates, key=lambda e: -e.value if math.isfinite(e.value) else 1.0)
        if len(shown) > 3:
            shown = [shown[0], shown[-1]]
        parts = [_estimated(e, alone=len(estimates) == 1) for e in shown]
        return (" to " if len(estimates) > 3 else ", ").join(parts)
    headline = content(first).headline if first is not None else ()
    return " · ".join(headline[1:] or headline)


def _fallen(drifts: Sequence[Drift]) -> str:
    fell = [d for d in drifts if d.alarm]
    if len(fell) == 1:
        return f"ALARM: {fall(fell[0])}"
    if fell:
        named = ", ".join(d.subject for d in fell[:3])
        more = f" and {len(fell) - 3:,} more" if len(fell) > 3 else ""
        return f"ALARM: {len(fell):,} of {len(drifts):,} systems fell: {named}{more}"
    levels = {words.number(d.level) for d in drifts if not d.reason}
    below = f" below {levels.pop()}" if len(levels) == 1 else ""
    return f"No alarm{below}" if any(not d.reason for d in drifts) else drifts[0].reason


def fall(drift: Drift) -> str:
    """What fell, below what, and since when."""
    first, last = map(words.count, drift.since or (0, 0))
    since = f"between labels {first} and {last}"
    if drift.since_at is not None:
        start, end = (at[:10] for at in drift.since_at)
        days = f"on {start}" if start == end else f"between {start} and {end}"
        since = f"{days}, labels {first} to {last}"
    below = f"accuracy of {drift.subject} fell below {words.number(drift.level)}"
    return f"{below} {since} ({words.percent(drift.confidence)})"


def is_share(estimate: Estimate) -> bool:
    """Is this a share of items, which people write in percent?"""
    told = estimate.quantity.split()
    return any(word in told for word in ("accuracy", "agreement", "ceiling", "rate", "share"))


def _estimated(e: Estimate, *, alone: bool) -> str:
    limit, which = e.value, ""
    if e.side != "two-sided":
        lower = e.side == "lower"
        limit, which = (e.low, "at least ") if lower else (e.high, "at most ")
    told = words.percent(limit, ".1f") if is_share(e) else words.number(limit)
    named = e.subject if e.quantity == "accuracy" else "" if alone else e.quantity
    return f"{named} {which}{told}".strip()


_STATUS = {
    "failed": "REFUTED by a check",
    "assumed": "assumed",
    "checked": "checked",
    "by-design": "ensured",
}
"""The weakest first."""


def rests_on(guarantee: Guarantee) -> str:
    """What a promise rests on in plain words, refuted assumptions first."""
    ordered = sorted(guarantee.assumptions, key=lambda a: [*_STATUS].index(a.status))
    return "; ".join(f"{clause(a.name)} ({_STATUS[a.status]})" for a in ordered)


def system_lines(
    systems: Sequence[str],
    steps: Sequence[Step],
    findings: Sequence[Finding],
    next_steps: Sequence[NextStep],
    settings: FolderSettings,
) -> tuple[SystemLine, ...]:
    """One line for each system, in their order."""
    of = {step.name: step for step in steps}
    first = next_steps[0].statement if next_steps else ""
    subjects = [f.subject for f in findings if not f.agrees]
    lines = []
    for name in systems:
        broken = any(not s or name in (s, *s.split(" and ")) for s in subjects)
        lines.append(_line(name, of, first, settings, broken=broken))
    return tuple(lines)


def _line(
    name: str, of: Mapping[str, Step], first: str, settings: FolderSettings, *, broken: bool
) -> SystemLine:
    estimate = by_subject(of, "accuracy", Estimate).get(name)
    certificate = by_subject(of, "certificate", Certificate).get(name)
    beside, possible = _better(certificate), _possible(name, of)
    value = low = high = math.nan
    guarantee = None if certificate is None else certificate.guarantee
    if estimate is not None and not (math.isnan(estimate.low) or math.isnan(estimate.high)):
        value, low, high = estimate.value, estimate.low, estimate.high
        guarantee = estimate.guarantee
        said = _said(estimate, broken=broken)
        first = _next(estimate, first, of, settings.half_width, broken=broken)
    elif possible is not None:
        low, high, guarantee = possible
        span = f"{words.percent(low, '.1f')} and {words.percent(high, '.1f')}"
        said = f"Without labels: whatever is true, between {span} of the answers that it gave are right."
        if low <= 0 and high >= 1:
            said = "Nothing can be said of its accuracy yet: without labels everything from 0 % to 100 % is possible."
    else:
        reason = of["accuracy"].reason if "accuracy" in of else ""
        said = f"Its accuracy is not known. {reason}".strip()
    return SystemLine(
        system=name,
        value=value,
        low=low,
        high=high,
        guarantee=guarantee,
        rests_on="" if guarantee is None else rests_on(guarantee),
        statement=said + beside,
        next_step=first,
    )


def _said(estimate: Estimate, *, broken: bool) -> str:
    span = f"{words.percent(estimate.low, '.1f')} and {words.percent(estimate.high, '.1f')}"
    best = words.percent(estimate.value, ".1f")
    value = "" if math.isnan(estimate.value) else f", best estimate {best}"
    if estimate.guarantee.kind is Kind.HEURISTIC:
        return f"The labels failed a check, so this is a guess, not a promise: between {span} of the items are answered right{value}."
    if broken:
        return f"The parts of this report contradict each other here. On their own, the labels say: between {span} of the items are answered right."  # noqa: E501
    if estimate.low <= 0 and estimate.high >= 1:
        return "Nothing can be said about its accuracy yet: there are too few labels."
    return f"Between {span} of the items are answered right{value}."


def _better(certificate: Certificate | None) -> str:
    if certificate is None:
        return ""
    if certificate.certified:
        more = f" by more than {certificate.margin:g}" if certificate.margin else ""
        return f" It is certified to be more accurate than the average annotator{more}."
    return " It is not certified to be better than its annotators."


def _next(
    estimate: Estimate, first: str, of: Mapping[str, Step], wanted: float, *, broken: bool
) -> str:
    if broken:
        return first or "Repair the contradiction."
    half = (estimate.high - estimate.low) / 2
    aim = f"± {100 * wanted:.3g} points"
    if half <= wanted:
        return f"No more labels are needed for {aim}."
    plan, now = first_of(of, "labels", Plan), f"the interval is ± {100 * half:.1f} points"
    if plan is None:
        return f"Label more items: {now}, the target is {aim}."
    own = plan.inputs.get("by_system", {}).get(estimate.subject)
    if own is None:
        buy = ", ".join(f"{n:,} {kind}" for kind, n in plan.buy.items() if n)
        return f"Label more items: {now}; {buy} labels in all give about {aim}."
    if not plan.buy:
        return f"Collect more items: {now}, and every item already has a label."
    reached = wanted if own["predicted"] <= wanted * 1.001 else own["predicted"]
    more = "grades" if plan.inputs["kind"] == "grades" else f"{plan.inputs['kind']} labels"
    return f"Label more items: {now}; {own['n']:,} more {more} give about ± {100 * reached:.3g} points."


def _possible(name: str, of: Mapping[str, Step]) -> tuple[float, float, Guarantee] | None:
    names = (f"grade of {name}", f"grade of {name!r}")
    found = [(r, x.guarantee) for x in results_of(of, "ranges", Ranges) for r in x.ranges]
    known = ((r.low, r.high, g) for r, g in found if r.name in names and not math.isnan(r.low))
    return next(known, None)
