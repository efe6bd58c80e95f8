"""The oversight report as text card, and as one self-contained HTML page."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from noracle.oversight import words as plain
from noracle.oversight.findings import joint_guarantee, left_out
from noracle.oversight.model import Finding, Inventory, Step, SystemLine
from noracle.oversight.oversight import Oversight
from noracle.report import words
from noracle.report.card import templates
from noracle.report.content import Content, Table, labelled
from noracle.report.page import (
    Drawing,
    Section,
    assumptions_of,
    estimates_overview,
    kinds_of,
    make_section,
    write_text,
)
from noracle.results import Comparison, Estimate, Kind, Proof

__all__ = ["render_oversight", "write_oversight"]

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


# ----------------------------------------------------------------------------
# The oversight report as one self-contained HTML page.


_MOST_PLOTS = 12
"""Plots of one question; further results are shown by their tables."""
_MOST_OPEN = 4
"""A question with more results than this shows each folded up."""
_MOST_TABLE_ROWS = 400
_MOST_PATHS = 5
_MOST_ALERTS = 3
# Names come from files: what would end the text, ring a bell or turn the direction of writing round
# is shown as a replacement character.
_CONTROL = {*range(32), *range(127, 160)} - {9, 10}
_TURNING = {0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_UNSEEN = dict.fromkeys(_CONTROL | _TURNING, "\ufffd")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """One question with its answers, as the page shows it."""

    anchor: str
    command_id: str
    step: Step
    sections: tuple[Section, ...] = ()
    overview: Drawing | None = None
    table: Table | None = None
    folded: bool = False
    undrawn: int = 0


def write_oversight(
    path: str | os.PathLike[str], oversight: Oversight, *, command: str | None = None
) -> Path:
    r"""Write an oversight report as one HTML file.

    The file is written under a temporary name and renamed. It holds names of systems, raters and
    files and ids of items, never the texts of items; the same report gives the same bytes.

    Parameters
    ----------
    path
        The file to write; its folder must exist.
    oversight
        What :func:`noracle.oversight.oversee` returned.
    command
        The command that made the report, shown at the end.

    Returns
    -------
    Path
        Where the page is.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from noracle.oversight.oversight import oversee
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = "".join(f"{i},{rater},{i % 3}\n" for i in range(30) for rater in ("ann", "bob"))
    ...     _ = Path(folder, "ratings.csv").write_text("item,rater,label\n" + rows, encoding="utf-8")
    ...     page = write_oversight(folder + "/report.html", oversee(folder))
    ...     "What is not said, and why" in page.read_text(encoding="utf-8")
    True
    """
    return write_text(path, render_oversight(oversight, command=command))


def render_oversight(oversight: Oversight, *, command: str | None = None) -> str:
    """Return the text that :func:`write_oversight` writes."""
    shown = _shown(oversight.steps)
    sections = [s for one in shown for s in one.sections]
    text = (
        templates()
        .get_template("oversight.html")
        .render(
            title=oversight.title,
            lead=lead(oversight),
            alerts=_first(alerts(oversight.steps, oversight.findings), _MOST_ALERTS),
            systems=[_system(line, shown) for line in oversight.systems],
            facts=_facts(shown),
            joint=joint_sentence(oversight),
            inventory=oversight.inventory,
            found=_found_table(oversight.inventory),
            unused=_unused_table(oversight.inventory),
            shown=shown,
            findings=_findings_table(oversight.findings),
            against=[f for f in oversight.findings if not f.agrees],
            kinds=kinds_of(sections),
            assumptions=_assumptions(shown),
            not_said=sorted(
                (s for s in oversight.steps if s.status != "done"),
                key=lambda s: s.status != "failed",
            ),
            next_steps=[
                dataclasses.replace(n, statement=sentence(n.statement))
                for n in oversight.next_steps
            ],
            notes=oversight.notes,
            command=command,
            seed=oversight.seed,
            confidence=words.percent(oversight.confidence),
            version=oversight.version,
        )
    )
    return text.translate(_UNSEEN)


def lead(oversight: Oversight) -> str:
    """One sentence: the most that can be said."""
    if contradictions(oversight.findings):
        return "Parts of this evidence contradict each other. Do not rely on the numbers before that is settled."
    if any(not f.agrees for f in oversight.findings):
        return (
            "The labels failed a check. Read what rests on them as a guess before that is repaired."
        )
    known = [
        s
        for s in oversight.systems
        if math.isfinite(s.low) and math.isfinite(s.high) and s.high - s.low < 1
    ]
    best = next(
        (
            r
            for s in oversight.steps
            if s.name == "comparison"
            for r in s.results
            if isinstance(r, Comparison)
        ),
        None,
    )
    plural = "system" if len(oversight.systems) == 1 else "systems"
    if (
        best is not None
        and best.guarantee.kind > Kind.HEURISTIC
        and len(best.leaders) < len(best.systems)
    ):
        verdict = (
            f"{best.leaders[0]!r} is the best"
            if len(best.leaders) == 1
            else f"the best is one of {words.listed(best.leaders, 3)}"
        )
        return f"Of {len(best.systems):,} systems {verdict}, as far as this evidence can say without an answer key."
    if known:
        return f"The accuracy of {len(known):,} of {len(oversight.systems):,} {plural} can be narrowed down without an answer key."
    done = sum(s.status == "done" for s in oversight.steps)
    if oversight.systems:
        return f"Nothing can be said yet about how accurate the {len(oversight.systems):,} {plural} are; see what would change that."
    return f"{done:,} of {len(oversight.steps):,} questions can be answered from this evidence, which judges no system."


def alerts(steps: Sequence[Step], findings: Sequence[Finding]) -> list[str]:
    """What must not be missed: contradictions first, then alarms, then checks that failed."""
    clashes = [
        f"Contradiction: {f.statement.removeprefix('CONTRADICTION: ')}"
        for f in contradictions(findings)
    ]
    failed = [f"Failed check: {f.statement}" for f in findings if _is_failed_check(f)]
    proof = fired_alarm(steps)
    alarms = (
        []
        if proof is None
        else [f"Alarm: not every grader can keep '{proof.claim}', whatever the answer key is."]
    )
    return list(dict.fromkeys([*clashes, *alarms, *failed]))


def contradictions(findings: Iterable[Finding]) -> list[Finding]:
    """Findings of two parts that cannot both be true; a check that failed speaks against one."""
    return [f for f in findings if not f.agrees and not _is_failed_check(f)]


def _is_failed_check(finding: Finding) -> bool:
    return not finding.agrees and finding.name.startswith("failed check")


def fired_alarm(steps: Iterable[Step]) -> Proof | None:
    """The proof that the stated claim is broken, where there is one."""
    first = next((r for s in steps if s.name == "alarm" for r in s.results[:1]), None)
    return first if isinstance(first, Proof) and first.status == "alarm" else None


def joint_sentence(oversight: Oversight) -> str:
    """The joint guarantee in one sentence, and which statements are not part of it."""
    if contradictions(oversight.findings):
        return "There is no joint promise: the parts contradict each other, so something that they rest on is not true."
    weak = left_out(oversight.steps)
    joint = joint_guarantee(oversight.steps)
    if joint.kind == Kind.HEURISTIC:
        return (
            "There is no joint promise: no statement here has one."
            if weak
            else "Nothing is stated, so nothing is promised."
        )
    if joint.error_rate <= 0:
        said = "All statements hold without any probability, if what they rest on is true."
    else:
        confidence = plain.confidence_of(joint.error_rate)
        said = f"Taken together, all statements hold with at least {confidence} confidence, if what they rest on is true."
    reasons = {
        Kind.ASYMPTOTIC: "where the confidence is about right only with many labels",
        Kind.HEURISTIC: "without any promise",
    }
    for kind, reason in reasons.items():
        names = [name for name, weakest in weak.items() if weakest == kind]
        said += f" This leaves out {', '.join(names)}, {reason}." if names else ""
    return said


def limits(line: SystemLine) -> tuple[str, str]:
    """Value and interval of a system as text; a dash where there is no number."""
    digits = words.digits_for(line.high - line.low)
    value = "—" if math.isnan(line.value) else words.number(line.value, digits)
    if math.isnan(line.low) or math.isnan(line.high):
        return value, "unknown"
    return (
        value,
        "anything from 0 to 1"
        if line.low <= 0 and line.high >= 1
        else f"{words.number(line.low, digits)} to {words.number(line.high, digits)}",
    )


def _system(line: SystemLine, shown: Sequence[_Shown]) -> dict[str, Any]:
    value, interval = limits(line)
    promise = (
        "nothing is promised"
        if line.guarantee is None
        else plain.promised(line.guarantee).replace(" %", "\u00a0%")
    )
    source = _source(line, shown)
    return {
        "line": line,
        "value": value,
        "interval": interval,
        "promise": promise,
        "command_id": source.command_id if source else "",
    }


def _source(line: SystemLine, shown: Sequence[_Shown]) -> _Shown | None:
    """The question that the numbers of a system come from."""
    for one in shown:
        for r in one.step.results:
            if (
                isinstance(r, Estimate)
                and r.subject == line.system
                and (r.low, r.high) == (line.low, line.high)
            ):
                return one
    return next((one for one in shown if one.step.name in ("accuracy", "ranges")), None)


def _facts(shown: Sequence[_Shown]) -> list[tuple[str, str]]:
    """Headlines of the answers, each with where it is: what the first screen says where no system
    is judged.
    """
    return [
        (one.anchor, f"{s.said.title}: {', '.join(s.said.headline[1:])}")
        for one in shown
        for s in one.sections[:2]
    ][:6]


def _shown(steps: Sequence[Step]) -> list[_Shown]:
    names: dict[str, int] = {}
    shown = []
    for step in steps:
        if step.status != "done":
            continue
        place = names[step.name] = names.get(step.name, 0) + 1
        shown.append(_show(step, f"{step.name}-{place}" if place > 1 else step.name))
    return shown


def _show(step: Step, name: str) -> _Shown:
    anchor = f"step-{name}"
    estimates = [r for r in step.results if isinstance(r, Estimate)]
    together = len(estimates) > 1 and len({(e.quantity, e.side) for e in estimates}) == 1
    overview, table = (
        estimates_overview(f"{anchor}-overview", estimates) if together else (None, None)
    )
    sections: list[Section] = []
    undrawn = plots = 0
    for i, result in enumerate(step.results, start=1):
        in_overview = together and isinstance(result, Estimate)
        drawn = not in_overview and plots < _MOST_PLOTS
        plots += drawn
        undrawn += not drawn and not in_overview
        sections.append(
            _few_rows(
                make_section(f"{anchor}-{i}", result, drawn=drawn), but=1 if in_overview else 0
            )
        )
    return _Shown(
        anchor=anchor,
        command_id=f"command-{name}" if step.command else "",
        step=step,
        sections=tuple(sections),
        overview=overview,
        table=None if table is None else _capped(table),
        folded=together or len(sections) > _MOST_OPEN,
        undrawn=undrawn,
    )


def _few_rows(section: Section, *, but: int = 0) -> Section:
    """The section with its long tables cut, and without the first ones, which stand elsewhere."""
    tables = tuple(_capped(table) for table in section.said.tables[but:])
    return dataclasses.replace(section, said=dataclasses.replace(section.said, tables=tables))


def _capped(table: Table) -> Table:
    """The first rows of a long table; the JSON of the report has all of them."""
    left = len(table.rows) - _MOST_TABLE_ROWS
    return (
        table
        if left <= 0
        else dataclasses.replace(
            table, rows=table.rows[:_MOST_TABLE_ROWS], left_out=table.left_out + left
        )
    )


def _assumptions(shown: Sequence[_Shown]) -> list[dict[str, Any]]:
    """Every assumption and status once, with its meaning and the questions that it carries."""
    told = [
        dataclasses.replace(
            s, anchor=one.anchor, said=dataclasses.replace(s.said, headline=(one.step.question,))
        )
        for one in shown
        for s in one.sections
    ]
    rows = assumptions_of(told)
    for row in rows:
        row["plain"] = plain.meaning(row["assumption"].name)
        row["sections"] = list({s.anchor: s for s in row["sections"]}.values())
    return rows


def _found_table(inventory: Inventory) -> Table:
    def row(kind: str, paths: Sequence[str], n_rows: int | None, why: str) -> tuple[str, ...]:
        more = f" and {len(paths) - _MOST_PATHS:,} more" if len(paths) > _MOST_PATHS else ""
        return (
            kind,
            ", ".join(paths[:_MOST_PATHS]) + more,
            "—" if n_rows is None else words.count(n_rows),
            why,
        )

    table = Table(
        caption="Evidence",
        header=("what", "files", "rows", "recognised by"),
        rows=tuple(row(s.kind, s.paths, s.n_rows, s.why) for s in inventory.sources),
        numeric=(False, False, True, False),
    )
    if all(
        s.n_rows is None for s in inventory.sources
    ):  # only some formats know before they are read
        kept = tuple((what, files, why) for what, files, _, why in table.rows)
        table = dataclasses.replace(
            table, header=("what", "files", "recognised by"), rows=kept, numeric=(False,) * 3
        )
    return _capped(table)


def _unused_table(inventory: Inventory) -> Table:
    rows = tuple((u.path, u.reason) for u in inventory.unused)
    return _capped(
        Table(caption="Left aside", header=("file", "why"), rows=rows, numeric=(False, False))
    )


def _findings_table(findings: Sequence[Finding]) -> Table:
    ordered = sorted(findings, key=lambda f: f.agrees)
    rows = tuple(
        ("yes" if f.agrees else "NO", " and ".join(f.between), f.subject, f.statement)
        for f in ordered
    )
    return _capped(
        Table(
            caption="Parts held against each other",
            header=("agree", "parts", "about", "what follows"),
            rows=rows,
            numeric=(False,) * 4,
        )
    )


def sentence(text: str) -> str:
    """The text with a full stop at its end."""
    return text if not text or text[-1] in ".!?…" else f"{text}."


def _first(lines: list[str], most: int) -> list[str]:
    return (
        lines
        if len(lines) <= most
        else [*lines[:most], f"… and {len(lines) - most:,} more; see below."]
    )
