"""One line for each system: what can truthfully be said of it, in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from noracle.oversight import plain
from noracle.oversight.model import Finding, NextStep, Settings, Step, SystemLine
from noracle.results import Certificate, Estimate, Guarantee, Kind, Plan, Ranges

_STATUS = {
    "failed": "REFUTED by a check",
    "assumed": "assumed",
    "checked": "checked",
    "by-design": "ensured",
}
_ORDER = {"failed": 0, "assumed": 1, "checked": 2, "by-design": 3}


def rests_on(guarantee: Guarantee) -> str:
    """What a promise rests on in plain words, refuted assumptions first.

    Examples
    --------
    >>> from noracle.results import Assumption
    >>> rests_on(Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=0.05, assumptions=(Assumption(name="right verdicts"),)))
    'nobody gave a wrong verdict (assumed)'
    """
    ordered = sorted(guarantee.assumptions, key=lambda a: _ORDER[a.status])
    return "; ".join(f"{plain.clause(a.name)} ({_STATUS[a.status]})" for a in ordered)


def system_lines(
    systems: Sequence[str],
    steps: Sequence[Step],
    findings: Sequence[Finding],
    next_steps: Sequence[NextStep],
    settings: Settings,
) -> tuple[SystemLine, ...]:
    """One line for each system, in their order."""
    of = {step.name: step for step in steps}
    return tuple(_line(name, of, findings, next_steps, settings) for name in systems)


def _line(
    name: str,
    of: Mapping[str, Step],
    findings: Sequence[Finding],
    next_steps: Sequence[NextStep],
    settings: Settings,
) -> SystemLine:
    broken = [
        f
        for f in findings
        if not f.agrees and (not f.subject or name == f.subject or name in f.subject.split(" and "))
    ]
    estimate = next(
        (r for r in _results(of, "accuracy") if isinstance(r, Estimate) and r.subject == name), None
    )
    certificate = next(
        (
            r
            for r in _results(of, "certificate")
            if isinstance(r, Certificate) and r.subject == name
        ),
        None,
    )
    beside = _better(certificate)
    if estimate is not None and not (math.isnan(estimate.low) or math.isnan(estimate.high)):
        return SystemLine(
            system=name,
            value=estimate.value,
            low=estimate.low,
            high=estimate.high,
            guarantee=estimate.guarantee,
            rests_on=rests_on(estimate.guarantee),
            statement=_said(estimate, broken) + beside,
            next_step=_next(estimate, broken, next_steps, of, settings),
        )
    first = next_steps[0].statement if next_steps else ""
    possible = _possible(name, of)
    if possible is not None:
        low, high, guarantee = possible
        words = f"Without labels: whatever is true, between {_percent(low)} and {_percent(high)} of the answers that it gave are right."
        if low <= 0 and high >= 1:
            words = "Nothing can be said of its accuracy yet: without labels everything from 0 % to 100 % is possible."
        return SystemLine(
            system=name,
            low=low,
            high=high,
            guarantee=guarantee,
            rests_on=rests_on(guarantee),
            statement=words + beside,
            next_step=first,
        )
    reason = of["accuracy"].reason if "accuracy" in of else ""
    promise = certificate.guarantee if certificate is not None else None
    return SystemLine(
        system=name,
        guarantee=promise,
        rests_on="" if promise is None else rests_on(promise),
        statement=f"Its accuracy is not known. {reason}".strip() + beside,
        next_step=first,
    )


def _said(estimate: Estimate, broken: Sequence[Finding]) -> str:
    span = f"{_percent(estimate.low)} and {_percent(estimate.high)}"
    value = "" if math.isnan(estimate.value) else f", best estimate {_percent(estimate.value)}"
    if estimate.guarantee.kind is Kind.HEURISTIC:
        return f"The labels failed a check, so this is a guess and no promise: between {span} of the items are answered right{value}."
    if broken:
        return f"The parts of this report contradict each other here. Taken alone, labels say: between {span} of the items are answered right."  # noqa: E501
    if estimate.low <= 0 and estimate.high >= 1:
        return "Nothing can be said of its accuracy yet: these labels are too few."
    return f"Between {span} of the items are answered right{value}."


def _better(certificate: Certificate | None) -> str:
    if certificate is None:
        return ""
    if certificate.certified:
        more = f" by more than {certificate.margin:g}" if certificate.margin else ""
        return f" It is certified to be more accurate than the average annotator{more}."
    return " It is not certified to be better than its annotators."


def _next(
    estimate: Estimate,
    broken: Sequence[Finding],
    next_steps: Sequence[NextStep],
    of: Mapping[str, Step],
    settings: Settings,
) -> str:
    if broken:
        return next_steps[0].statement if next_steps else "Repair the contradiction."
    half = (estimate.high - estimate.low) / 2
    if half <= settings.half_width:
        return f"No more labels are needed for ± {settings.half_width:g}."
    plan = next((r for r in _results(of, "labels") if isinstance(r, Plan)), None)
    if plan is None:
        return (
            f"Label more items: the interval is ± {half:.3f}, wanted is ± {settings.half_width:g}."
        )
    own = plan.inputs.get("by_system", {}).get(estimate.subject)
    if own is None:
        buy = ", ".join(f"{n:,} {kind}" for kind, n in plan.buy.items() if n)
        return f"Label more items: the interval is ± {half:.3f}; {buy} labels in all give about ± {settings.half_width:g}."
    if not plan.buy:
        return (
            f"Bring more items: the interval is ± {half:.3f}, and no item without a label is left."
        )
    reached = (
        settings.half_width if own["predicted"] <= settings.half_width * 1.001 else own["predicted"]
    )
    more = "grades" if plan.inputs["kind"] == "grades" else f"{plan.inputs['kind']} labels"
    return f"Label more items: the interval is ± {half:.3f}; {own['n']:,} more {more} give about ± {reached:.3g}."


def _possible(name: str, of: Mapping[str, Step]) -> tuple[float, float, Guarantee] | None:
    for result in _results(of, "ranges"):
        if isinstance(result, Ranges):
            for r in result.ranges:
                if r.name in (f"grade of {name}", f"grade of {name!r}") and not math.isnan(r.low):
                    return r.low, r.high, result.guarantee
    return None


def _results(of: Mapping[str, Step], name: str) -> tuple[object, ...]:
    return of[name].results if name in of else ()


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
