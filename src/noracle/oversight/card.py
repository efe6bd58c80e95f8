"""The text card of an oversight report: systems, findings, next step."""

from __future__ import annotations

import math

from noracle.oversight.oversight import Oversight
from noracle.report import words
from noracle.report.content import Content, Table, labelled

_SHOWN = 3


def describe(report: Oversight) -> Content:
    """What is said about an oversight report, for text and pages.

    Examples
    --------
    >>> from noracle.oversight.model import Inventory
    >>> from noracle.results import Guarantee, Kind
    >>> report = Oversight(
    ...     title="Demo", inventory=Inventory(place=".", sources=()), systems=(), steps=(), findings=(),
    ...     guarantee=Guarantee(kind=Kind.LOGICAL, error_rate=0.0), next_steps=(), confidence=0.95, seed=0,
    ... )
    >>> describe(report).headline[0]
    'Demo'
    """
    done = [s for s in report.steps if s.status == "done"]
    failed = [s.name for s in report.steps if s.status == "failed"]
    missing = [s.name for s in report.steps if s.status == "not possible"]
    against = report.contradictions
    first = report.next_steps[0] if report.next_steps else None
    rate = report.guarantee.error_rate
    holds = (
        f"all {words.kind(report.guarantee)} statements hold together at {words.percent(1 - rate)}"
        if done
        else ""
    )
    return Content(
        headline=(
            report.title,
            f"{len(report.systems)} systems",
            f"{len(done)} of {len(report.steps)} questions answered",
        ),
        alerts=tuple(f"{f.name}{f' ({f.subject})' if f.subject else ''}" for f in against),
        lines=labelled(
            *((line.system, line.statement) for line in report.systems[: 2 * _SHOWN]),
            *(("disagrees", f.statement) for f in against[:_SHOWN]),
            ("failed", words.listed(failed) if failed else ""),
            ("not possible", words.listed(missing, most=len(missing)) if missing else ""),
            ("next", "" if first is None else first.statement),
            ("command", "" if first is None else first.command),
            ("guarantee", holds),
        ),
        tables=(_table(report),) if report.systems else (),
        notes=report.notes,
    )


def _table(report: Oversight) -> Table:
    def shown(value: float) -> str:
        return "—" if math.isnan(value) else words.number(value)

    return Table(
        caption=f"Systems, all together at {words.percent(report.confidence)}",
        header=("system", "accuracy", "low", "high", "rests on", "next step"),
        rows=tuple(
            (s.system, shown(s.value), shown(s.low), shown(s.high), s.rests_on, s.next_step)
            for s in report.systems
        ),
        numeric=(False, True, True, True, False, False),
        shown=(),
    )
