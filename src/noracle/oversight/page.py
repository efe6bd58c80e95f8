"""The oversight report as text card, and as one self-contained HTML page."""

from __future__ import annotations

import dataclasses
import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from noracle.oversight import words as plain
from noracle.oversight.findings import first_of, joint_guarantee, left_out
from noracle.oversight.model import Finding, Inventory, Step, SystemLine
from noracle.oversight.oversight import Oversight
from noracle.report import words
from noracle.report.assumptions import meaning
from noracle.report.card import templates
from noracle.report.content import Content, ContentTable, labelled
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
    """What is said about an oversight report, for text and pages."""
    states = ("done", "failed", "not possible")
    done, failed, missing = [[s.name for s in report.steps if s.status == x] for x in states]
    against, first = report.contradictions, next(iter(report.next_steps), None)
    holds = ""
    if done:
        share = words.percent(1 - report.guarantee.error_rate)
        holds = f"all {words.kind(report.guarantee)} statements hold together at {share}"
    answered = f"{len(done)} of {len(report.steps)} questions answered"
    return Content(
        headline=(report.title, f"{len(report.systems)} systems", answered),
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


def _table(report: Oversight) -> ContentTable:
    def shown(value: float) -> str:
        return "—" if math.isnan(value) else words.number(value)

    return ContentTable(
        caption=f"Systems, all together at {words.percent(report.confidence)}",
        header=("system", "accuracy", "low", "high", "rests on", "next step"),
        rows=tuple(
            (s.system, shown(s.value), shown(s.low), shown(s.high), s.rests_on, s.next_step)
            for s in report.systems
        ),
        numeric=(False, True, True, True, False, False),
        shown=(),
    )


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
    table: ContentTable | None = None
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
    not_said = [s for s in oversight.steps if s.status != "done"]
    following = oversight.next_steps
    template = templates().get_template("oversight.html")
    unused = [(u.path, u.reason) for u in oversight.inventory.unused]
    text = template.render(
        title=oversight.title,
        lead=lead(oversight),
        alerts=_first(alerts(oversight.steps, oversight.findings), _MOST_ALERTS),
        systems=[_system(line, shown) for line in oversight.systems],
        facts=_facts(shown),
        joint=joint_sentence(oversight),
        inventory=oversight.inventory,
        found=_found_table(oversight.inventory),
        unused=_text_table("Left aside", ("file", "why"), unused),
        shown=shown,
        findings=_findings_table(oversight.findings),
        against=oversight.contradictions,
        kinds=kinds_of([s for one in shown for s in one.sections]),
        assumptions=_assumptions(shown),
        not_said=sorted(not_said, key=lambda s: s.status != "failed"),
        next_steps=[dataclasses.replace(n, statement=sentence(n.statement)) for n in following],
        notes=oversight.notes,
        command=command,
        seed=oversight.seed,
        confidence=words.percent(oversight.confidence),
        version=oversight.version,
    )
    return text.translate(_UNSEEN)


def lead(oversight: Oversight) -> str:
    """One sentence: the most that can be said."""
    if contradictions(oversight.findings):
        return "Parts of this evidence contradict each other. Do not rely on the numbers before that is settled."
    if oversight.contradictions:
        guess = "Read what rests on them as a guess before that is repaired."
        return f"The labels failed a check. {guess}"
    systems, steps = oversight.systems, oversight.steps
    known = sum(math.isfinite(s.low) and s.high - s.low < 1 for s in systems)
    best = first_of({s.name: s for s in steps}, "comparison", Comparison)
    plural = "system" if len(systems) == 1 else "systems"
    led = best is not None and len(best.leaders) < len(best.systems)
    if led and best is not None and best.guarantee.kind > Kind.HEURISTIC:
        verdict = f"the best is one of {words.listed(best.leaders, 3)}"
        if len(best.leaders) == 1:
            verdict = f"{best.leaders[0]!r} is the best"
        return f"Of {len(best.systems):,} systems {verdict}, as far as this evidence can say without an answer key."
    if known:
        return f"The accuracy of {known:,} of {len(systems):,} {plural} can be narrowed down without an answer key."
    if systems:
        return f"Nothing can be said yet about how accurate the {len(systems):,} {plural} are; see what would change that."
    done = sum(s.status == "done" for s in steps)
    return f"{done:,} of {len(steps):,} questions can be answered from this evidence, which judges no system."


def alerts(steps: Sequence[Step], findings: Sequence[Finding]) -> list[str]:
    """What must not be missed: contradictions first, then alarms, then checks that failed."""
    clashes = [f.statement.removeprefix("CONTRADICTION: ") for f in contradictions(findings)]
    found = [f"Contradiction: {said}" for said in clashes]
    proof = fired_alarm(steps)
    if proof is not None:
        claim = f"not every grader can keep '{proof.claim}'"
        found.append(f"Alarm: {claim}, whatever the answer key is.")
    found += [f"Failed check: {f.statement}" for f in findings if _is_failed_check(f)]
    return list(dict.fromkeys(found))


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
    weak, joint = left_out(oversight.steps), joint_guarantee(oversight.steps)
    if joint.kind == Kind.HEURISTIC:
        nothing = "Nothing is stated, so nothing is promised."
        return "There is no joint promise: no statement here has one." if weak else nothing
    said = "All statements hold without any probability, if what they rest on is true."
    if joint.error_rate > 0:
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
    if line.low <= 0 and line.high >= 1:
        return value, "anything from 0 to 1"
    return value, f"{words.number(line.low, digits)} to {words.number(line.high, digits)}"


def _system(line: SystemLine, shown: Sequence[_Shown]) -> dict[str, Any]:
    value, interval = limits(line)
    promise = "nothing is promised"
    if line.guarantee is not None:
        promise = plain.promised(line.guarantee).replace(" %", "\u00a0%")
    source = _source(line, shown)
    found = {"line": line, "value": value, "interval": interval, "promise": promise}
    return {**found, "command_id": source.command_id if source else ""}


def _source(line: SystemLine, shown: Sequence[_Shown]) -> _Shown | None:
    """The question that the numbers of a system come from."""
    wanted = (line.system, line.low, line.high)
    for one in shown:
        estimates = [r for r in one.step.results if isinstance(r, Estimate)]
        if any((r.subject, r.low, r.high) == wanted for r in estimates):
            return one
    return next((one for one in shown if one.step.name in ("accuracy", "ranges")), None)


def _facts(shown: Sequence[_Shown]) -> list[tuple[str, str]]:
    """Headlines of the answers and where they are, for a page that judges no system."""
    said = [(one.anchor, s.said) for one in shown for s in one.sections[:2]]
    return [(at, f"{x.title}: {', '.join(x.headline[1:])}") for at, x in said[:6]]


def _shown(steps: Sequence[Step]) -> list[_Shown]:
    names, shown = Counter[str](), []
    for step in [step for step in steps if step.status == "done"]:
        names[step.name] += 1
        place = names[step.name]
        shown.append(_show(step, f"{step.name}-{place}" if place > 1 else step.name))
    return shown


def _show(step: Step, name: str) -> _Shown:
    anchor = f"step-{name}"
    estimates = [r for r in step.results if isinstance(r, Estimate)]
    together = len(estimates) > 1 and len({(e.quantity, e.side) for e in estimates}) == 1
    overview, table = None, None
    if together:
        overview, table = estimates_overview(f"{anchor}-overview", estimates)
    sections: list[Section] = []
    undrawn = plots = 0
    for i, result in enumerate(step.results, start=1):
        in_overview = together and isinstance(result, Estimate)
        drawn = not in_overview and plots < _MOST_PLOTS
        plots += drawn
        undrawn += not drawn and not in_overview
        section = make_section(f"{anchor}-{i}", result, drawn=drawn)
        # Long tables are cut, and a first one that stands in the overview is left out.
        tables = tuple(_capped(table) for table in section.said.tables[int(in_overview) :])
        said = dataclasses.replace(section.said, tables=tables)
        sections.append(dataclasses.replace(section, said=said))
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


def _capped(table: ContentTable) -> ContentTable:
    """The first rows of a long table; the JSON of the report has all of them."""
    left = max(0, len(table.rows) - _MOST_TABLE_ROWS)
    rows = table.rows[:_MOST_TABLE_ROWS]
    return dataclasses.replace(table, rows=rows, left_out=table.left_out + left)


def _text_table(
    caption: str, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]
) -> ContentTable:
    numeric = tuple(name == "rows" for name in header)
    return _capped(ContentTable(caption=caption, header=header, rows=tuple(rows), numeric=numeric))


def _assumptions(shown: Sequence[_Shown]) -> list[dict[str, Any]]:
    """Every assumption and status once, with its meaning and the questions that it carries."""
    told = []
    for one in shown:
        for s in one.sections:
            said = dataclasses.replace(s.said, headline=(one.step.question,))
            told.append(dataclasses.replace(s, anchor=one.anchor, said=said))
    rows = assumptions_of(told)
    for row in rows:
        row["plain"] = meaning(row["assumption"].name)
        row["sections"] = list({s.anchor: s for s in row["sections"]}.values())
    return rows


def _found_table(inventory: Inventory) -> ContentTable:
    header, rows = ("what", "files", "rows", "recognised by"), []
    for s in inventory.sources:
        more = f" and {len(s.paths) - _MOST_PATHS:,} more" if len(s.paths) > _MOST_PATHS else ""
        n = "—" if s.n_rows is None else words.count(s.n_rows)
        rows.append((s.kind, ", ".join(s.paths[:_MOST_PATHS]) + more, n, s.why))
    if any(s.n_rows is not None for s in inventory.sources):
        return _text_table("Evidence", header, rows)
    # Only some formats know how many rows they have before they are read.
    kept = [(what, files, why) for what, files, _, why in rows]
    return _text_table("Evidence", ("what", "files", "recognised by"), kept)


def _findings_table(findings: Sequence[Finding]) -> ContentTable:
    ordered = sorted(findings, key=lambda f: f.agrees)
    said = {True: "yes", False: "NO"}
    rows = [(said[f.agrees], " and ".join(f.between), f.subject, f.statement) for f in ordered]
    header = ("agree", "parts", "about", "what follows")
    return _text_table("Parts held against each other", header, rows)


def sentence(text: str) -> str:
    """The text with a full stop at its end."""
    return text if not text or text[-1] in ".!?…" else f"{text}."


def _first(lines: list[str], most: int) -> list[str]:
    more = [f"… and {len(lines) - most:,} more; see below."] if len(lines) > most else []
    return [*lines[:most], *more]
