"""The oversight report as text card, and as one self-contained HTML page."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from noracle.oversight import words as plain
from noracle.oversight.findings import first_of, joint_guarantee, left_out, promises
from noracle.oversight.model import Finding, Inventory, NextStep, Step, SystemLine
from noracle.oversight.oversight import Oversight
from noracle.report import words
from noracle.report.assumptions import registered
from noracle.report.card import templates
from noracle.report.chart import Bar, Bars
from noracle.report.content import Content, ContentTable, labelled
from noracle.report.page import MOST_ROWS, Section, make_section, write_text
from noracle.report.plots import drawn_differences, short_name
from noracle.results import (
    Assumption,
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
)

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
"""Plots of one question; further results are shown by their numbers."""
_MOST_TABLE_ROWS = 400
_MOST_PATHS = 5
_MOST_ALERTS = 3
_MOST_LANES = 10
"""Brackets beside each other; with more ties than that the rows name no bracket of their own."""
_MARKS = {"failed": "!", "assumed": "○", "checked": "✓", "by-design": "✓"}
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
    answer: str
    sections: tuple[Section, ...] = ()
    bars: tuple[Bars, ...] = ()
    table: ContentTable | None = None
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
    ...     "What could not be answered, and why?" in page.read_text(encoding="utf-8")
    True
    """
    return write_text(path, render_oversight(oversight, command=command))


def render_oversight(oversight: Oversight, *, command: str | None = None) -> str:
    """Return the text that :func:`write_oversight` writes."""
    shown = _shown(oversight.steps, first=bool(oversight.systems))
    not_said = [s for s in oversight.steps if s.status != "done"]
    following = oversight.next_steps
    unused = [(u.path, u.reason) for u in oversight.inventory.unused]
    chart, tied = systems_chart(oversight)
    source = next((one for one in shown if one.step.name in ("accuracy", "ranges")), None)
    assumptions, others = _assumptions(oversight, shown)
    n_against = len(oversight.contradictions)
    n_files = sum(len(s.paths) for s in oversight.inventory.sources)
    guarantees = {g.kind for s in oversight.steps for g in promises(s.results)}
    text = (
        templates()
        .get_template("oversight.html")
        .render(
            title=oversight.title,
            lead=lead(oversight),
            alerts=_first(alerts(oversight.steps, oversight.findings), _MOST_ALERTS),
            chart=chart,
            chart_command=source.command_id if source else "",
            tied=tied,
            facts=_facts(shown),
            joint=joint_sentence(oversight),
            joint_note=_joint_note(oversight),
            together_answer=f"{words.percent(oversight.confidence)}, for everything together",
            inventory=oversight.inventory,
            found=_found_table(oversight.inventory),
            unused=_text_table("Ignored", ("file", "why"), unused),
            found_answer=f"{_count(n_files, 'file')}; {_count(len(unused), 'file')} ignored",
            shown=shown,
            findings=_findings_table(oversight.findings),
            agree_answer=f"No: {_count(n_against, 'statement')} contradicted"
            if n_against
            else f"Yes, in {_count(len(oversight.findings), 'comparison')}"
            if oversight.findings
            else "Nothing to compare",
            kinds=[(k.label, words.KINDS[k]) for k in sorted(guarantees)],
            assumptions=assumptions,
            others=others,
            others_answer=_count(len(others), "more assumption"),
            not_said=sorted(not_said, key=lambda s: s.status != "failed"),
            not_said_answer=", ".join(s.name for s in not_said) or "Every question could be asked",
            next_steps=[dataclasses.replace(n, statement=sentence(n.statement)) for n in following],
            next_answer=following[1].statement if len(following) > 1 else "",
            prices=[price(n, oversight.inventory) for n in following],
            notes=oversight.notes,
            command=command,
            seed=oversight.seed,
            confidence=words.percent(oversight.confidence),
            version=oversight.version,
        )
    )
    return text.translate(_UNSEEN)


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def price(step: NextStep, inventory: Inventory) -> str:
    """What a next step costs, in the unit of the prices that were stated."""
    if step.cost is None or not math.isfinite(step.cost):
        return "not known"
    stated = inventory.settings.prices or inventory.of("prices")
    return f"{step.cost:,.6g}{'' if stated else ' at 1 per label'}"


def lead(oversight: Oversight) -> str:
    """One sentence: the most that can be said."""
    if contradictions(oversight.findings):
        return "Parts of this evidence contradict each other. Do not rely on the numbers until that is resolved."
    if oversight.contradictions:
        guess = "Until that is fixed, treat every number that rests on them as a guess."
        return f"The labels failed a check. {guess}"
    systems, steps = oversight.systems, oversight.steps
    known = [s for s in ranked(systems) if math.isfinite(s.low) and s.high - s.low < 1]
    best = first_of({s.name: s for s in steps}, "comparison", Comparison)
    n, plural = f"{len(systems):,}", "system" if len(systems) == 1 else "systems"
    said = {s.system: limits(s) for s in known}
    if best is not None and best.guarantee.kind > Kind.HEURISTIC:
        names = [s.system for s in known if s.system in best.leaders]
        names = names or list(best.leaders)
        if len(best.leaders) == 1:
            value = _right(said.get(names[0]))
            return f"{names[0]} is the best of {len(best.systems):,} systems{value}."
        if len(best.leaders) < len(best.systems):
            which = f"{', '.join(names[:-1])} or {names[-1]}"
            if len(names) > 2 * _SHOWN:
                which = f"one of {len(names):,}, with {names[0]} ahead"
            value = _right(said.get(names[0])) if len(names) > 2 * _SHOWN else ""
            tail = "" if value else "; these labels cannot tell which"
            return f"The best of {len(best.systems):,} systems is {which}{value}{tail}."
        if known and math.isfinite(known[0].value) and len(best.systems) > 1:
            return f"No system is shown to be the best of {n}; {known[0].system} is ahead{_right(said[known[0].system])}."
    if len(known) == len(systems) == 1:
        return f"{known[0].system} is right on {_spelled(said[known[0].system])}."
    if known:
        those = f"all {n}" if len(known) == len(systems) else f"{len(known):,} of {n}"
        return f"The accuracy of {those} {plural} can be narrowed down, without an answer key."
    if systems:
        missing = {s.name: s for s in steps if s.status == "not possible"}
        those = "the system is" if len(systems) == 1 else f"the {n} systems are"
        labels = "there are too few labels" if "accuracy" not in missing else "there are no labels"
        return f"Nothing can be said yet about how accurate {those}: {labels}."
    preferred = first_of({s.name: s for s in steps}, "preference", Comparison)
    if preferred is not None:
        n, ahead = f"{len(preferred.systems):,}", preferred.ranks[0].system
        if len(preferred.leaders) == 1:
            return f"{ahead} is preferred to all others of {n} systems."
        return f"No one of {n} systems is shown to be preferred to all others; {ahead} is ahead."
    done = sum(s.status == "done" for s in steps)
    return f"{done:,} of {len(steps):,} questions can be answered from this evidence, which judges no system."


def _right(said: tuple[str, str] | None) -> str:
    return "" if said is None or said[0] == "—" else f": right on {_spelled(said)}"


def _spelled(said: tuple[str, str]) -> str:
    return f"{said[1]} of the items" if said[0] == "—" else f"{said[0]} of the items ({said[1]})"


def ranked(systems: Iterable[SystemLine]) -> list[SystemLine]:
    """The systems, the most accurate first; those without a value by their interval."""

    def place(line: SystemLine) -> tuple[float, ...]:
        numbers = (line.value, line.low, line.high)
        return tuple(-1.0 if math.isnan(v) else v for v in numbers)

    return sorted(systems, key=place, reverse=True)


def alerts(steps: Sequence[Step], findings: Sequence[Finding]) -> list[str]:
    """What must not be missed: contradictions first, then alarms, then checks that failed."""
    clashes = [f.statement.removeprefix("CONTRADICTION: ") for f in contradictions(findings)]
    found = [f"Contradiction: {said}" for said in clashes]
    proof = fired_alarm(steps)
    if proof is not None:
        claim = f"not every grader can keep '{proof.claim}'"
        found.append(f"Alarm: {claim}, whatever the answer key is.")
    found += [f"Alarm: {plain.fall(d)}." for d in fallen(steps)]
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


def fallen(steps: Iterable[Step]) -> list[Drift]:
    """The systems whose accuracy was found to have fallen below the stated level."""
    found = (r for s in steps if s.name == "drift" for r in s.results)
    return [r for r in found if isinstance(r, Drift) and r.alarm]


def joint_sentence(oversight: Oversight) -> str:
    """The joint guarantee in one sentence, and which statements are not part of it."""
    if contradictions(oversight.findings):
        return "There is no joint promise: the parts contradict each other, so at least one assumption is false."
    weak, joint = left_out(oversight.steps), joint_guarantee(oversight.steps)
    if joint.kind == Kind.HEURISTIC:
        nothing = "Nothing is claimed, so nothing is promised."
        return "There is no joint promise: no statement here has one." if weak else nothing
    said = "This holds for every possible answer key, if the assumptions are true."
    if joint.error_rate > 0:
        rate = min(1.0, max(joint.error_rate, 1 - oversight.confidence))
        confidence = plain.confidence_of(rate)
        said = f"With at least {confidence} confidence all intervals hold, if the assumptions are true."
    names = [name for name in weak if name in ("accuracy", "comparison", "ranges")]
    return f"{said} This leaves out {', '.join(names)}." if names else said


def _joint_note(oversight: Oversight) -> str:
    """How the error rate is shared, and which statements the joint promise leaves out."""
    rates = [g.error_rate for s in oversight.steps for g in promises(s.results) if g.error_rate > 0]
    promise = joint_guarantee(oversight.steps)
    share = words.percent(oversight.confidence)
    said = "No statement on this page spends a probability of being wrong."
    if rates and promise.error_rate > 0:
        said = f"{share} is the confidence of the page as a whole: the chance that any of its statements is wrong is shared among them, "
        said += f"so each is made at {plain.confidence_of(max(rates))} or more, and all hold together, however they depend on each other. "
        said += "That is why an interval here is wider than that of a single estimate."
    reasons = {
        Kind.ASYMPTOTIC: "whose confidence is about right only with many labels",
        Kind.HEURISTIC: "which promises nothing",
    }
    weak = left_out(oversight.steps)
    for kind, reason in reasons.items():
        names = [name for name, weakest in weak.items() if weakest == kind]
        said += f" It leaves out {', '.join(names)}, {reason}." if names else ""
    return said


def limits(line: SystemLine) -> tuple[str, str]:
    """Value and interval of a system as people write them; a dash where there is no number."""
    digits = words.digits_for(line.high - line.low) - 2
    value = words.percent(line.value, f".{digits}f") if math.isfinite(line.value) else "—"
    if math.isnan(line.low) or math.isnan(line.high):
        return value, "unknown"
    if line.low <= 0 and line.high >= 1:
        return value, "anything from 0 % to 100 %"
    return value, f"{100 * line.low:.{digits}f} to {words.percent(line.high, f'.{digits}f')}"


_CLAIMED = re.compile(r"\s*(?:accuracy|grade)\s*>=?\s*([\d.]+(?:/\d+)?)\s*")


def systems_chart(oversight: Oversight) -> tuple[Bars | None, str]:
    """All systems, the best first, with a bracket around those that cannot be told apart."""
    systems, of = ranked(oversight.systems), {s.name: s for s in oversight.steps}
    if not systems:
        return None, ""
    comparison = first_of(of, "comparison", Comparison)
    broken = contradictions(oversight.findings)
    if comparison is not None and (comparison.guarantee.kind is Kind.HEURISTIC or broken):
        comparison = None
    runs = [] if comparison is None else ties([s.system for s in systems], comparison)
    lanes = _lanes(runs, len(systems))
    places = {} if comparison is None else {r.system: r for r in comparison.ranks}
    rows = []
    for i, s in enumerate(systems):
        rank, weak = places.get(s.system), s.guarantee
        place = "" if rank is None else f"place {rank.best} to {rank.worst}"
        empty = "open" if not s.high - s.low < 1 else ""
        look = "hint" if broken or (weak is not None and weak.kind is Kind.HEURISTIC) else empty
        bracket = tuple(lane[i] for lane in lanes)
        rows.append(Bar.of(s.system, s.low, s.high, s.value, look=look, place=place, lanes=bracket))
    claim = oversight.inventory.settings.claim
    stated = _CLAIMED.fullmatch(claim)
    at = float(Fraction(stated[1])) if stated else math.nan
    lines = [(at, f"claimed: above {words.percent(at, '.3g')}")] if 0 <= at <= 1 else []
    tied = "cannot be told apart with these labels" if lanes else ""
    title = "Accuracy of each system"
    return Bars(anchor="systems", title=title, rows=rows, lines=lines, most=(0.0, 1.0)), tied


def ties(names: Sequence[str], comparison: Comparison) -> list[tuple[int, int]]:
    """Runs of neighbours, as long as possible, in which no two systems are separated."""
    place = {name: i for i, name in enumerate(names)}
    near: dict[int, set[int]] = {}
    for d in comparison.differences:
        if d.verdict == "not separable" and d.first in place and d.second in place:
            i, j = sorted((place[d.first], place[d.second]))
            near.setdefault(i, set()).add(j)
    reach = []
    for i in range(len(names)):
        j = i
        while j + 1 in near.get(i, ()):
            j += 1
        reach.append(j)
    runs: list[tuple[int, int]] = []
    for i, end in enumerate(reach):
        j = i
        while j < end:
            j, end = j + 1, min(end, reach[j + 1]) if reach[j + 1] > j + 1 else j + 1
        if j > i and (not runs or runs[-1][1] < j):
            runs.append((i, j))
    return runs


def _lanes(runs: Sequence[tuple[int, int]], n: int) -> list[list[str]]:
    """Brackets beside each other, so that none overlaps another in its lane; too many are none."""
    lanes: list[list[str]] = []
    for first, last in runs:
        lane = next((lane for lane in lanes if not any(lane[first:])), None)
        if lane is None:
            lane = [""] * n
            lanes.append(lane)
        lane[first : last + 1] = ["first", *["inner"] * (last - first - 1), "last"]
    return lanes if len(lanes) <= _MOST_LANES else []


def _facts(shown: Sequence[_Shown]) -> list[tuple[str, str]]:
    """Headlines of the answers and where they are, for a page that judges no system."""
    said = [(one.anchor, s.said) for one in shown for s in one.sections[:2]]
    return [(at, f"{x.title}: {', '.join(x.headline[1:])}") for at, x in said[:6]]


def _shown(steps: Sequence[Step], *, first: bool) -> list[_Shown]:
    names, shown = Counter[str](), []
    for step in [step for step in steps if step.status == "done"]:
        names[step.name] += 1
        place = names[step.name]
        told = f"{step.name}-{place}" if place > 1 else step.name
        shown.append(_show(step, told, first=first))
    return shown


def _show(step: Step, name: str, *, first: bool) -> _Shown:
    anchor = f"step-{name}"
    # The accuracies are the chart of the first screen.
    bars = () if step.name == "accuracy" and first else tuple(_multiples(anchor, step))
    table = None
    checks = [r for r in step.results if isinstance(r, Check)]
    if checks:
        table = _text_table("Checks", ("check", "of", "p", "outcome", "finding"), map(_row, checks))
    sections: list[Section] = []
    undrawn = plots = 0
    for i, result in enumerate(step.results, start=1):
        figure = not isinstance(result, (Check, Certificate, Comparison, Estimate))
        figure = figure and not (isinstance(result, Ranges) and _plain(result))
        figure = figure and not (isinstance(result, Plan) and not result.buy)
        drawn = figure and plots < _MOST_PLOTS
        plots, undrawn = plots + drawn, undrawn + (figure and not drawn)
        section = make_section(f"{anchor}-{i}", result, drawn=drawn)
        # Long tables are cut, and one that only repeats a row of the chart is left out.
        tables = tuple(map(_capped, section.said.tables[int(isinstance(result, Estimate)) :]))
        lines = tuple(line for line in section.said.lines if line[0] != "rests on")
        said = dataclasses.replace(section.said, tables=tables, lines=lines)
        sections.append(dataclasses.replace(section, said=said))
    return _Shown(
        anchor=anchor,
        command_id=f"command-{name}" if step.command else "",
        step=step,
        answer=plain.answer(step),
        sections=tuple(sections),
        bars=bars,
        table=table,
        undrawn=undrawn,
    )


def _row(check: Check) -> tuple[str, ...]:
    p = "—" if math.isnan(check.p_value) else f"{check.p_value:.2g}"
    outcome = "—" if math.isnan(check.p_value) else "passed" if check.passed else "FAILED"
    return check.name, check.assumption, p, outcome, check.finding


def _plain(result: Ranges) -> bool:
    """Are these shares, so that rows of a chart show them?"""
    special = {"trace", "violators", "checks"} & {*result.diagnostics}
    ends = [v for r in result.ranges for v in (r.low, r.high) if math.isfinite(v)]
    return not special and all(0 <= v <= 1 for v in ends)


def _multiples(anchor: str, step: Step) -> Iterator[Bars]:
    """Charts of one form, side by side: one for every quantity of a question."""
    groups: dict[tuple[str, str], list[Bar]] = {}
    for r in step.results:
        if isinstance(r, Estimate):
            rows = groups.setdefault(
                (r.quantity, "estimate" if plain.is_share(r) else "number"), []
            )
            look = "hint" if r.guarantee.kind is Kind.HEURISTIC else ""
            rows.append(Bar.of(r.subject, r.low, r.high, r.value, look=look))
        elif isinstance(r, Certificate):
            rows = groups.setdefault(("advantage over the average annotator", "zero"), [])
            look = "" if r.certified else "open"
            rows.append(Bar.of(r.subject, r.low, max(r.value, r.low), r.value, look=look))
        elif isinstance(r, Ranges) and _plain(r):
            rows = groups.setdefault((r.subject or "possible values", "range"), [])
            found = sorted(r.ranges, key=lambda x: not x.name.startswith("grade of"))
            rows += [Bar.of(x.name, x.low, x.high, math.nan) for x in found]
        elif isinstance(r, Comparison):
            rows = groups.setdefault(("difference of accuracy", "zero"), [])
            for d in drawn_differences(r):
                look = "open" if d.verdict == "not separable" else ""
                name = f"{short_name(d.first, 20)} − {short_name(d.second, 20)}"
                rows.append(Bar.of(name, d.low, d.high, d.value, look=look))
    for i, ((title, form), rows) in enumerate([*groups.items()][:_MOST_PLOTS]):
        seen = [v for b in rows for v in (b.low, b.high, b.value) if math.isfinite(v)]
        unit = form != "number" and bool(seen) and min(seen) >= -1 and max(seen) <= 1
        if not unit:
            rows = [_number_bar(row) for row in rows]
        yield Bars(
            anchor=f"{anchor}-bars-{i}",
            title=title[:1].upper() + title[1:],
            rows=rows[:MOST_ROWS],
            left_out=max(0, len(rows) - MOST_ROWS),
            lines=[(0.0, "no difference")] if form == "zero" else [],
            percent=unit,
            most=(0.0, 1.0) if unit and form != "zero" else (-math.inf, math.inf),
        )


def _number_bar(row: Bar) -> Bar:
    """A row whose numbers are no shares."""
    value, low, high = (words.scalar(v) for v in (row.value, row.low, row.high))
    exact = f"{row.name}: {value}, from {low} to {high}"
    return dataclasses.replace(row, said=value, more=f"{low} to {high}", exact=exact)


def _capped(table: ContentTable) -> ContentTable:
    """The first rows of a long table; the JSON of the report has all of them."""
    left = max(0, len(table.rows) - _MOST_TABLE_ROWS)
    rows = table.rows[:_MOST_TABLE_ROWS]
    return dataclasses.replace(table, rows=rows, left_out=table.left_out + left)


def _text_table(
    caption: str, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]
) -> ContentTable:
    numeric = tuple(name in ("rows", "p") for name in header)
    return _capped(ContentTable(caption=caption, header=header, rows=tuple(rows), numeric=numeric))


def _assumptions(
    oversight: Oversight, shown: Sequence[_Shown]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every assumption once with its weakest status: those of the first screen, and the others."""
    carries: dict[str, dict[str, None]] = {}
    every: dict[str, Assumption] = {}
    first: set[str] = set()

    def take(guarantee: Guarantee | None, question: str = "", *, leads: bool = False) -> None:
        for a in guarantee.assumptions if guarantee else ():
            if question:
                carries.setdefault(a.name, {})[question.rstrip("?")] = None
            if leads:
                first.add(a.name)
            known = every.get(a.name)
            if known is None or ((leads or a.name not in first) and _weaker(a, known)):
                every[a.name] = a

    for line in oversight.systems:
        take(line.guarantee, leads=True)
    # Labels read under other assumptions, to see what then happens, say nothing new about these.
    told_of = [one for one in shown if one.step.name != "checks"]
    for one in sorted(told_of, key=lambda one: one.step.name != "comparison"):
        leads = one.step.name == "comparison" or not oversight.systems
        for s in one.sections:
            take(s.guarantee, one.step.question, leads=leads)
    rows = sorted(every.values(), key=lambda a: [*_MARKS].index(a.status))
    told: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for a in rows:
        known = registered(a.name)
        p = "" if a.p_value is None else f", {words.p_value(a.p_value)}"
        said = "FAILED" if a.status == "failed" else a.status.replace("-", " ")
        row = {
            "plain": known.plain or sentence(a.name[:1].upper() + a.name[1:]),
            "status": a.status,
            "mark": _MARKS[a.status],
            "said": (said + p).replace(" ", "\u00a0"),
            "check": known.check,
            "detail": a.detail.rstrip("."),
            "remedy": " ".join(known.remedies),
            "carries": [*carries.get(a.name, {"the first screen": None})],
        }
        told[a.name not in first].append(row)
    return told


def _weaker(one: Assumption, other: Assumption) -> bool:
    order = [*_MARKS]
    return order.index(one.status) < order.index(other.status)


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
    return _text_table("Parts compared with each other", header, rows)


def sentence(text: str) -> str:
    """The text with a full stop at its end."""
    return text if not text or text[-1] in ".!?…" else f"{text}."


def _first(lines: list[str], most: int) -> list[str]:
    more = [f"… and {len(lines) - most:,} more; see below."] if len(lines) > most else []
    return [*lines[:most], *more]
