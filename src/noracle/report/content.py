"""What is said about a result, once for all media.

``content(result)`` is the only function that looks inside a result in order to describe it; cards
and pages only lay it out. A new type of result is taught with ``@content.register``.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from noracle.errors import ArgumentError
from noracle.report import words
from noracle.results import (
    Certificate,
    Check,
    Comparison,
    Difference,
    Drift,
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


_ELSEWHERE: Mapping[type, str] = {
    Certificate: "certificates",
    Drift: "drift",
    LabelAnalysis: "labels",
    Proof: "proofs",
}


def module_of(result: object) -> Any:
    """The module that describes and draws results of this type alone."""
    for kind, name in _ELSEWHERE.items():
        if isinstance(result, kind):
            return importlib.import_module(f"noracle.report.{name}")
    raise ArgumentError(f"result must be a result of noracle; got {type(result).__name__}.")


@functools.singledispatch
def content(result: object) -> Content:
    """Describe a result."""
    described: Content = module_of(result).describe(result)
    return described


def table(
    caption: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    text: Sequence[int] = (0,),
    shown: Iterable[int] | None = None,
    left_out: int = 0,
) -> ContentTable:
    """A table whose columns are numbers but for the places in ``text``."""
    texts = {place % len(header) for place in text}
    return ContentTable(
        caption=caption,
        header=tuple(header),
        rows=tuple(map(tuple, rows)),
        numeric=tuple(place not in texts for place in range(len(header))),
        shown=None if shown is None else tuple(shown),
        left_out=left_out,
    )


def guaranteed(
    result: Any,
    headline: Iterable[str],
    *lines: tuple[str, str],
    tables: Sequence[ContentTable] = (),
    alarms: Sequence[str] | None = None,
    reason: str | None = None,
) -> Content:
    """Describe a result with a guarantee: its own lines, then the promise and the reason."""
    why = getattr(result, "reason", "") if reason is None else reason
    return Content(
        headline=tuple(text for text in headline if text),
        alerts=alerts(result.guarantee) if alarms is None else tuple(alarms),
        lines=labelled(*lines, *promise(result.guarantee), ("reason", why)),
        tables=tuple(tables),
        notes=result.notes,
    )


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


def method_and_evidence(result: Any) -> tuple[tuple[str, str], ...]:
    """The lines on how it was found, and from what."""
    how = words.how(result.method, getattr(result, "interval", ""))
    return ("method", how), ("evidence", words.evidence(result.counts))


def promise(guarantee: Guarantee) -> tuple[tuple[str, str], ...]:
    """The lines on the guarantee and what it rests on."""
    return (("guarantee", words.kind(guarantee)), ("rests on", words.rests_on(guarantee)))


@content.register
def _(result: Estimate) -> Content:
    from noracle.report import budgets

    digits = words.digits_for(result.width)
    value, low, high, se = (
        words.number(v, digits) for v in (result.value, result.low, result.high, result.se)
    )
    name = ", ".join([f"{result.quantity} of {result.subject!r}", *_repeats(result)])
    unknown, unit = math.isnan(result.value), result.quantity == "accuracy"
    promised = words.bound(
        result.low, result.high, result.confidence, result.side, digits, unit=unit
    )
    said = f"undefined ({result.reason})" if unknown and result.reason else value
    how, evidence = method_and_evidence(result)
    if result.quantity == "mean":
        tables = budgets.mean_tables(result, digits)
        lines = (*budgets.mean_lines(result), how, ("evidence", budgets.mean_evidence(result)))
    else:
        lines = (how, evidence)
        limits = ("—" if result.side == "upper" else low, "—" if result.side == "lower" else high)
        header = ("system", "estimate", "low", "high", "standard error", "guarantee")
        row = (result.subject, value, *limits, se, words.kind(result.guarantee))
        caption = f"{name}, {words.level(result.confidence)}"
        tables = (table(caption, header, [row], text=(0, -1), shown=()),)
    reason = "" if unknown else result.reason
    return guaranteed(result, (name, said, promised), *lines, tables=tables, reason=reason)


@content.register
def _(result: Comparison) -> Content:
    systems, leaders = len(result.systems), result.leaders
    verdict = f"best is one of {words.listed(leaders)}"
    if len(leaders) == 1:
        verdict = f"best: {leaders[0]!r}"
    elif len(leaders) == systems:
        certain = "no system is certainly better than another"
        verdict = certain if systems > 1 else "nothing to compare"
    header, rows = ["system", "estimate", "best place", "worst place"], []
    header += ["dropped after labels"] if result.dropped else []
    for r in result.ranks:
        after = words.count(result.dropped[r.system]) if r.system in result.dropped else "—"
        rows.append((r.system, words.number(r.value), str(r.best), str(r.worst), after))
    ranks = table("Places that each system can hold", header, [r[: len(header)] for r in rows])
    measure = words.MEASURES.get(result.diagnostics.get("measure", ""), "accuracy")
    measure = ", ".join([measure, *_repeats(result)])
    confidence = words.level(result.confidence)
    differences = table(
        f"Differences of {measure}, simultaneous at {confidence}",
        ("first", "second", "first − second", "low", "high", "labels", "better"),
        map(_difference_row, result.differences),
        text=(0, 1, -1),
        shown=(result.differences.index(d) for d in against_leader(result)),
    )
    name = ", ".join([f"comparison of {systems} systems", *_repeats(result)])
    headline = (name, verdict, f"{confidence} simultaneous")
    tables = (ranks, differences)
    return guaranteed(result, headline, *method_and_evidence(result), tables=tables)


def _repeats(result: Estimate | Comparison) -> list[str]:
    """When an item is right that was answered more than once, where it is not the mean of its runs."""
    return [result.diagnostics["repeats"]] if result.diagnostics.get("repeats") else []


def _difference_row(d: Difference) -> tuple[str, ...]:
    better = {"first": d.first, "second": d.second}.get(d.verdict, "not separable")
    figures = (signed(v) for v in (d.value, d.low, d.high))
    return (
        *(d.first, d.second, *figures, words.count(d.n)),
        "undefined" if math.isnan(d.value) else better,
    )


def signed(value: float) -> str:
    """Write a difference with its sign."""
    text = words.number(value)
    return text if math.isnan(value) or float(text) <= 0 else f"+{text}"


def against_leader(result: Comparison, most: int = SHOWN) -> tuple[Difference, ...]:
    """All differences if they are few, else those against the system that ranks first."""
    if len(result.differences) <= most:
        return result.differences
    first = result.ranks[0].system if result.ranks else result.systems[0]
    return tuple(d for d in result.differences if first in (d.first, d.second))


_NOT_SHOWN = ("planner", "values", "estimator", "by_system", "evidence")


@content.register
def _(result: Plan) -> Content:
    from noracle.report import budgets

    if budgets.is_budget_plan(result):
        return budgets.budget_content(result)
    bought = words.bought({kind.replace("_", " "): n for kind, n in result.buy.items()})
    options = [
        {"": "" if i else "chosen", **option.buy, **option.said}
        for i, option in enumerate(plan_options(result))
    ]
    caption = "The plan and its alternatives"
    alternatives = _records(options, caption, missing="", several=bool(result.alternatives))
    unknown = math.isnan(result.predicted)
    why = f" ({result.reason})" if unknown and result.reason else ""
    supposed = {k: v for k, v in result.inputs.items() if k not in _NOT_SHOWN}
    by_system = result.inputs.get("by_system") or {}
    needs = (
        f"{name} {words.count(row['n'])} at accuracy {words.scalar(row['accuracy'])}"
        for name, row in by_system.items()
    )
    return guaranteed(
        result,
        (
            f"plan for {result.goal} {words.scalar(result.wanted)}",
            f"buy {bought}",
            "" if math.isnan(result.cost) else f"cost {words.scalar(result.cost)}",
            f"predicted {words.scalar(result.predicted)}{why}",
        ),
        ("method", words.how(result.method, result.interval)),
        ("supposing", words.pairs(supposed)),
        ("for each", "; ".join(needs)),
        ("confidence", words.level(result.confidence)),
        tables=(alternatives,),
        reason="" if unknown else None,
    )


class Option(NamedTuple):
    """Something that could be bought, and what the planner says of it."""

    buy: dict[str, int]
    said: dict[str, Any]


def plan_options(result: Plan) -> list[Option]:
    """The plan and then its alternatives, once each, with a number for every kind of label."""
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
    whole = {name: getattr(result, name) for name in ("statistic", "p_value", "threshold")}
    caption = "Parts of the check" if result.parts else "The check"
    parts = _records(result.parts or [whole], caption, missing=None, several=bool(result.parts))
    undecided, statistic = math.isnan(result.p_value), float(result.statistic)
    verdict = "passed" if result.passed else "FAILED"
    if undecided:
        verdict = f"undecided ({result.reason})" if result.reason else "undecided"
    name = f"check of {result.name.removeprefix('check_').replace('_', ' ')}"
    return Content(
        headline=(name, verdict, words.p_value(result.p_value)),
        alerts=() if result.passed else (f"the evidence speaks against: {result.assumption}",),
        lines=labelled(
            ("finding", result.finding),
            ("assumption", result.assumption),
            ("method", f"{words.how(result.method)}, fails below p = {result.threshold:g}"),
            ("statistic", "" if math.isnan(statistic) else words.scalar(statistic)),
            ("evidence", words.evidence(result.counts)),
            ("reason", "" if undecided else result.reason),
        ),
        tables=(parts,),
        notes=result.notes,
    )


def _records(
    rows: Sequence[Mapping[str, Any]], caption: str, *, missing: object, several: bool
) -> ContentTable:
    """A table of mappings, one column for each name; a card shows it where there are several."""
    names = list(dict.fromkeys(k for row in rows for k in row))

    def is_number(value: object) -> bool:
        return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))

    return table(
        caption,
        [n.replace("_", " ") for n in names],
        ([words.scalar(row.get(n, missing)) for n in names] for row in rows),
        text=[i for i, n in enumerate(names) if not all(is_number(row.get(n)) for row in rows)],
        shown=None if several else (),
    )


@content.register
def _(result: Ranges) -> Content:
    from noracle.report import proofs

    special = proofs.ranges_content(result)
    if special is not None:
        return special
    rows = []
    for r in result.ranges:
        said = "excludes nothing" if r.low <= 0 and r.high >= 1 else ""
        rows.append((r.name, words.number(r.low), words.number(r.high), said))
    header = ("quantity", "lowest", "highest", "")
    possible = table("What remains possible", header, rows, text=(0, -1))
    headline = [result.subject or f"possible ranges of {len(rows)} quantities"]
    if len(rows) == 1:
        one = result.ranges[0]
        headline = [f"possible range of {one.name}", words.interval(one.low, one.high)]
    return guaranteed(result, headline, *method_and_evidence(result), tables=(possible,))


@content.register
def _(result: Routing) -> Content:
    named = [(str(i), "open" if k is None else str(k), p) for i, k, p in result.rows]
    asked = Counter(k for _, k, _ in named)
    what, n = "system" if result.design == "grades" else "class", len(named)
    counted = [(k, words.count(asked[k])) for k in sorted(asked, key=lambda k: (len(k), k))]
    by_class = table(f"Questions by {what}", (what, "questions"), counted, shown=())
    first = table(
        "First questions",
        ("item", what, "propensity"),
        ((i, k, "" if p is None else f"{p:.4g}") for i, k, p in named[:SHOWN]),
        text=(0, 1),
        shown=range(min(3, n)),
        left_out=max(0, n - SHOWN),
    )
    questions = f"{words.count(n)} question{'' if n == 1 else 's'} to ask"
    share = f"at least {words.percent(result.epsilon)} of the questions ignore the answers"
    return Content(
        headline=(questions, f"{result.design} routing", f"seed {result.seed}"),
        lines=labelled(
            ("uniform", share if 0 < result.epsilon < 1 else ""),
            ("systems", words.listed(result.systems)),
            ("evidence", words.evidence(result.counts)),
            ("reason", result.reason),
        ),
        tables=(by_class, first) if named else (),
        notes=result.notes,
    )
