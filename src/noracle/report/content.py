"""What is said about a result, once for all media.

``content(result)`` is the only function that looks inside a result in order to describe it; cards
and pages only lay it out. A new type of result is taught with ``@content.register``.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from noracle.errors import ArgumentError
from noracle.report import words
from noracle.results import (
    Certificate,
    Check,
    Comparison,
    Difference,
    Estimate,
    Guarantee,
    LabelAnalysis,
    Plan,
    Proof,
    Ranges,
    Routing,
)

# A card shows this many rows of a long list and says how many it left out; pages show all of them.
SHOWN = 12


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContentTable:
    """Rows of text under a caption; ``numeric`` marks the columns that are aligned to the right."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    shown: tuple[int, ...] | None = None
    """Rows that a text card shows; None for the first few."""
    left_out: int = 0
    """Rows that the table itself does not hold."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A headline, what must not be missed, labelled lines, tables and notes."""

    headline: tuple[str, ...]
    alerts: tuple[str, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()
    tables: tuple[ContentTable, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The first piece of the headline, for headings and contents lists."""
        return self.headline[0]


@functools.singledispatch
def content(result: object) -> Content:
    """Describe a result.

    Parameters
    ----------
    result
        Any result of :mod:`noracle.results`.

    Returns
    -------
    Content
        The same words and numbers for text, HTML and pages.
    """
    raise ArgumentError(f"result must be a result of noracle; got {type(result).__name__}.")


def alerts(guarantee: Guarantee) -> tuple[str, ...]:
    """What the first line must say: a promise that is not one, and assumptions that failed."""
    found = [
        f"FAILED: {a.name}" + ("" if a.p_value is None else f" ({words.p_value(a.p_value)})")
        for a in words.failed(guarantee)
    ]
    if guarantee.kind.label == "heuristic":
        found.insert(0, "HEURISTIC: no promise")
    return tuple(found)


def labelled(*pairs: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """The lines that have a text."""
    return tuple((label, text) for label, text in pairs if text)


def promise(guarantee: Guarantee) -> tuple[tuple[str, str], ...]:
    """The lines on the guarantee and what it rests on."""
    return (("guarantee", words.kind(guarantee)), ("rests on", words.rests_on(guarantee)))


@content.register
def _(result: Estimate) -> Content:
    digits = words.digits_for(result.width)
    value = words.number(result.value, digits)
    if math.isnan(result.value) and result.reason:
        value = f"undefined ({result.reason})"
    unit = result.quantity == "accuracy"
    promised = words.bound(
        result.low, result.high, result.confidence, result.side, digits, unit=unit
    )
    name = ", ".join([f"{result.quantity} of {result.subject!r}", *_repeats(result)])
    reason = "" if math.isnan(result.value) else result.reason
    limits = {
        "two-sided": (
            "low",
            "high",
            words.number(result.low, digits),
            words.number(result.high, digits),
        ),
        "lower": ("low", "high", words.number(result.low, digits), "—"),
        "upper": ("low", "high", "—", words.number(result.high, digits)),
    }[result.side]
    table = ContentTable(
        caption=f"{name}, {words.percent(result.confidence)}",
        header=("system", "estimate", limits[0], limits[1], "standard error", "guarantee"),
        rows=(
            (
                result.subject,
                words.number(result.value, digits),
                limits[2],
                limits[3],
                words.number(result.se, digits),
                words.kind(result.guarantee),
            ),
        ),
        numeric=(False, True, True, True, True, False),
        shown=(),
    )
    from noracle.report import budgets

    mean = budgets.is_mean(result)
    return Content(
        headline=(name, value, promised),
        alerts=alerts(result.guarantee),
        lines=labelled(
            *(budgets.mean_lines(result) if mean else ()),
            ("method", words.how(result.method, result.interval)),
            ("evidence", budgets.mean_evidence(result) if mean else words.evidence(result.counts)),
            *promise(result.guarantee),
            ("reason", reason),
        ),
        tables=budgets.mean_tables(result, digits) if mean else (table,),
        notes=result.notes,
    )


@content.register
def _(result: Comparison) -> Content:
    if len(result.leaders) == 1:
        verdict = f"best: {result.leaders[0]!r}"
    elif len(result.leaders) == len(result.systems):
        verdict = (
            "no system is certainly better than another"
            if len(result.systems) > 1
            else "nothing to compare"
        )
    else:
        verdict = f"best is one of {words.listed(result.leaders)}"
    ranks = ContentTable(
        caption="Places that each system can hold",
        header=(
            "system",
            "estimate",
            "best place",
            "worst place",
            *(("dropped after labels",) if result.dropped else ()),
        ),
        rows=tuple(
            (
                r.system,
                words.number(r.value),
                str(r.best),
                str(r.worst),
                *((_dropped(result, r.system),) if result.dropped else ()),
            )
            for r in result.ranks
        ),
        numeric=(False, True, True, True, *((True,) if result.dropped else ())),
    )
    measure = ", ".join(
        [words.MEASURES.get(result.diagnostics.get("measure", ""), "accuracy"), *_repeats(result)]
    )
    differences = ContentTable(
        caption=f"Differences of {measure}, simultaneous at {words.percent(result.confidence)}",
        header=("first", "second", "first − second", "low", "high", "labels", "better"),
        rows=tuple(_difference_row(d) for d in result.differences),
        numeric=(False, False, True, True, True, True, False),
        shown=tuple(result.differences.index(d) for d in against_leader(result)),
    )
    return Content(
        headline=(
            ", ".join([f"comparison of {len(result.systems)} systems", *_repeats(result)]),
            verdict,
            f"{words.percent(result.confidence)} simultaneous",
        ),
        alerts=alerts(result.guarantee),
        lines=labelled(
            ("method", words.how(result.method, result.interval)),
            ("evidence", words.evidence(result.counts)),
            *promise(result.guarantee),
            ("reason", result.reason),
        ),
        tables=(ranks, differences),
        notes=result.notes,
    )


def _repeats(result: Estimate | Comparison) -> list[str]:
    """When an item is right that was answered more than once, where it is not the mean of its runs."""
    return [result.diagnostics["repeats"]] if result.diagnostics.get("repeats") else []


def _dropped(result: Comparison, system: str) -> str:
    return words.count(result.dropped[system]) if system in result.dropped else "—"


def _difference_row(d: Difference) -> tuple[str, ...]:
    better = {"first": d.first, "second": d.second}.get(d.verdict, "not separable")
    if math.isnan(d.value):
        better = "undefined"
    return (
        d.first,
        d.second,
        signed(d.value),
        signed(d.low),
        signed(d.high),
        words.count(d.n),
        better,
    )


def signed(value: float) -> str:
    """Write a difference with its sign."""
    text = words.number(value)
    return text if math.isnan(value) or float(text) < 0 or float(text) == 0 else f"+{text}"


def against_leader(result: Comparison, most: int = SHOWN) -> tuple[Difference, ...]:
    """All differences if they are few, else those against the system that ranks first."""
    if len(result.differences) <= most:
        return result.differences
    first = result.ranks[0].system if result.ranks else result.systems[0]
    return tuple(d for d in result.differences if first in (d.first, d.second))


_NOT_SHOWN = ("planner", "values", "estimator", "by_system", "evidence")


def _by_system(plan: Plan) -> str:
    """Labels that every system needs, where a plan is for several."""
    rows = plan.inputs.get("by_system") or {}
    return "; ".join(
        f"{name} {words.count(row['n'])} at accuracy {words.scalar(row['accuracy'])}"
        for name, row in rows.items()
    )


@content.register
def _(result: Plan) -> Content:
    from noracle.report import budgets

    if budgets.is_budget_plan(result):
        return budgets.budget_content(result)
    bought = (
        " + ".join(f"{words.count(n)} {kind.replace('_', ' ')}" for kind, n in result.buy.items())
        or "nothing"
    )
    options = tuple({**option.buy, **option.said} for option in plan_options(result))
    names = tuple(dict.fromkeys(k for row in options for k in row))
    table = ContentTable(
        caption="The plan and its alternatives",
        header=("", *(n.replace("_", " ") for n in names)),
        rows=tuple(
            ("" if i else "chosen", *(words.scalar(row.get(n, "")) for n in names))
            for i, row in enumerate(options)
        ),
        numeric=(False, *(_numeric(options, n) for n in names)),
        shown=None if result.alternatives else (),
    )
    cost = "" if math.isnan(result.cost) else f"cost {words.scalar(result.cost)}"
    reached = f"predicted {words.scalar(result.predicted)}" + (
        f" ({result.reason})" if math.isnan(result.predicted) and result.reason else ""
    )
    return Content(
        headline=tuple(
            h
            for h in (
                f"plan for {result.goal} {words.scalar(result.wanted)}",
                f"buy {bought}",
                cost,
                reached,
            )
            if h
        ),
        alerts=alerts(result.guarantee),
        lines=labelled(
            ("method", words.how(result.method, result.interval)),
            (
                "supposing",
                words.pairs({k: v for k, v in result.inputs.items() if k not in _NOT_SHOWN}),
            ),
            ("for each", _by_system(result)),
            ("confidence", words.percent(result.confidence)),
            *promise(result.guarantee),
            ("reason", "" if math.isnan(result.predicted) else result.reason),
        ),
        tables=(table,),
        notes=result.notes,
    )


@content.register
def _(result: Certificate) -> Content:
    from noracle.report import certificates

    return certificates.certificate_content(result)


@content.register
def _(result: LabelAnalysis) -> Content:
    from noracle.report import labels

    return labels.analysis_content(result)


class Option(NamedTuple):
    """Something that could be bought, and what the planner says of it."""

    buy: dict[str, int]
    said: dict[str, Any]


def plan_options(result: Plan) -> list[Option]:
    """The plan and then its alternatives, each with a number for every kind of label; the plan
    itself is not repeated.
    """
    options = [Option(dict(result.buy), {"cost": result.cost, "predicted": result.predicted})]
    for alternative in result.alternatives:
        said = dict(alternative)
        buy = dict(said.pop("buy", None) or {k: said.pop(k) for k in result.buy if k in said})
        if buy == dict(result.buy):
            options[0] = Option(buy, {**options[0].said, **said})
        else:
            options.append(Option(buy, said))
    kinds = dict.fromkeys(k for option in options for k in option.buy)
    return [Option({k: option.buy.get(k, 0) for k in kinds}, option.said) for option in options]


@content.register
def _(result: Check) -> Content:
    rows = result.parts or (
        {"statistic": result.statistic, "p_value": result.p_value, "threshold": result.threshold},
    )
    names = tuple(dict.fromkeys(k for row in rows for k in row))
    table = ContentTable(
        caption="Parts of the check" if result.parts else "The check",
        header=tuple(n.replace("_", " ") for n in names),
        rows=tuple(tuple(words.scalar(row.get(n)) for n in names) for row in rows),
        numeric=tuple(_numeric(rows, n) for n in names),
        shown=None if result.parts else (),
    )
    verdict = "passed" if result.passed else "FAILED"
    if math.isnan(result.p_value):
        verdict = f"undecided ({result.reason})" if result.reason else "undecided"
    return Content(
        headline=(
            f"check of {result.name.removeprefix('check_').replace('_', ' ')}",
            verdict,
            words.p_value(result.p_value),
        ),
        alerts=() if result.passed else (f"the evidence speaks against: {result.assumption}",),
        lines=labelled(
            ("finding", result.finding),
            ("assumption", result.assumption),
            ("method", f"{words.how(result.method)}, fails below p = {result.threshold:g}"),
            (
                "statistic",
                "" if math.isnan(result.statistic) else words.scalar(float(result.statistic)),
            ),
            ("evidence", words.evidence(result.counts)),
            ("reason", "" if math.isnan(result.p_value) else result.reason),
        ),
        tables=(table,),
        notes=result.notes,
    )


@content.register
def _(result: Proof) -> Content:
    from noracle.report import proofs

    return proofs.proof_content(result)


@content.register
def _(result: Ranges) -> Content:
    from noracle.report import proofs

    special = proofs.ranges_content(result)
    if special is not None:
        return special

    def row(name: str, low: float, high: float) -> tuple[str, ...]:
        said = "excludes nothing" if low <= 0 and high >= 1 else ""
        return (name, words.number(low), words.number(high), said)

    table = ContentTable(
        caption="What remains possible",
        header=("quantity", "lowest", "highest", ""),
        rows=tuple(row(r.name, r.low, r.high) for r in result.ranges),
        numeric=(False, True, True, False),
    )
    one = result.ranges[0] if len(result.ranges) == 1 else None
    headline = (
        ("possible range of " + one.name, words.interval(one.low, one.high))
        if one
        else (f"{result.subject or f'possible ranges of {len(result.ranges)} quantities'}",)
    )
    return Content(
        headline=headline,
        alerts=alerts(result.guarantee),
        lines=labelled(
            ("method", words.how(result.method)),
            ("evidence", words.evidence(result.counts)),
            *promise(result.guarantee),
            ("reason", result.reason),
        ),
        tables=(table,),
        notes=result.notes,
    )


@content.register
def _(result: Routing) -> Content:
    asked = Counter("open" if k is None else str(k) for _, k, _ in result.rows)
    what = "system" if result.design == "grades" else "class"
    by_class = ContentTable(
        caption=f"Questions by {what}",
        header=(what, "questions"),
        rows=tuple((k, words.count(asked[k])) for k in sorted(asked, key=lambda k: (len(k), k))),
        numeric=(False, True),
        shown=(),
    )
    first = ContentTable(
        caption="First questions",
        header=("item", what, "propensity"),
        rows=tuple(
            (str(i), "open" if k is None else str(k), "" if p is None else f"{p:.4g}")
            for i, k, p in result.rows[:SHOWN]
        ),
        numeric=(False, False, True),
        shown=tuple(range(min(3, len(result.rows)))),
        left_out=max(0, len(result.rows) - SHOWN),
    )
    plural = "" if len(result.rows) == 1 else "s"
    return Content(
        headline=(
            f"{words.count(len(result.rows))} question{plural} to ask",
            f"{result.design} routing",
            f"seed {result.seed}",
        ),
        lines=labelled(
            (
                "uniform",
                f"at least {words.percent(result.epsilon)} of the questions ignore the answers"
                if 0 < result.epsilon < 1
                else "",
            ),
            ("systems", words.listed(result.systems)),
            ("evidence", words.evidence(result.counts)),
            ("reason", result.reason),
        ),
        tables=(by_class, first) if result.rows else (),
        notes=result.notes,
    )


def _numeric(rows: tuple[Mapping[str, Any], ...], name: str) -> bool:
    return all(
        isinstance(row.get(name), (int, float, type(None))) and not isinstance(row.get(name), bool)
        for row in rows
    )
