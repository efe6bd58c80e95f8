"""Accuracy that falls, in a watched folder: labels in their order out of the memory.

What is said is a function of the rows in the memory and the rule, however often somebody looked: in
the order of their times (where all labels have one), else of file and row.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from typing import Any

from noracle.accuracy.drift import Called, DriftRule, Moment, drift_of
from noracle.counts.tally import Label
from noracle.errors import EvidenceError, require
from noracle.oversight.model import FolderSettings
from noracle.oversight.watch.memory import Memory
from noracle.oversight.watch.stream import tally_of
from noracle.results import Drift, read_result

_PLACE = "m.at, m.file, m.row, p.stratum, p.cluster"
_JUDGED = (
    f"SELECT a.item, a.system, a.answer, l.rows, i.k, {_PLACE} FROM label l JOIN answer a ON a.item = l.item "  # noqa: S608
    "LEFT JOIN item i ON i.item = l.item LEFT JOIN moment m ON m.item = l.item AND m.system = '' "
    "LEFT JOIN place p ON p.item = l.item ORDER BY a.item, a.system"
)
_GRADED = (
    f"SELECT g.item, g.system, a.item IS NOT NULL AND a.answer IS NULL, g.verdict, i.k, {_PLACE} FROM grade g "  # noqa: S608
    "LEFT JOIN answer a ON a.item = g.item AND a.system = g.system LEFT JOIN item i ON i.item = g.item "
    "LEFT JOIN moment m ON m.item = g.item AND m.system = g.system "
    "LEFT JOIN place p ON p.item = g.item ORDER BY g.item, g.system"
)
_Row = tuple[tuple[str, str, int], Any]


def rule_of(memory: Memory, wanted: DriftRule | None) -> DriftRule | None:
    """The rule of this watch, which stays what it was when it was first stated."""
    plan = memory.get("plan", {})
    kept = DriftRule(**plan["drift"]) if "drift" in plan else None
    if wanted is None or wanted == kept:
        return kept
    remedy = f"To begin again, move {str(memory.path)!r} away."
    changed = f"what accuracy is compared with must stay as it was stated first ({_told(kept)})"
    require(kept is None, f"{changed}; got {_told(wanted)}. {remedy}")
    late = wanted.judge is not None and bool(memory.query("SELECT 1 FROM grade LIMIT 1"))
    rule = "judge must be named before the first grades are counted"
    require(not late, f"{rule}; got {wanted.judge!r} now. {remedy}")
    memory.put("plan", {**plan, "drift": dataclasses.asdict(wanted)})
    memory.note("fixed", f"drift: {_told(wanted)}")
    return wanted


def _told(rule: DriftRule | None) -> str:
    told = {} if rule is None else dataclasses.asdict(rule)
    return ", ".join(f"{name} {value}" for name, value in told.items() if value is not None)


def drifts(
    memory: Memory, settings: FolderSettings, rule: DriftRule, *, fresh: bool
) -> tuple[tuple[Drift, ...], tuple[str, ...], list[str]]:
    """The drift of each system, whose alarms are new, and notes; without ``fresh`` rows what was
    said before is said again.
    """
    stored = memory.get("drift")
    if fresh or stored is None:
        found = tuple(_computed(memory, settings, rule))
        memory.put("drift", [d.to_dict() for d in found])
    else:
        read = (read_result(values) for values in stored)
        found = tuple(d for d in read if isinstance(d, Drift))
    raised, notes, new = memory.get("drift_alarms", {}), list[str](), list[str]()
    for d in found:
        before, now = raised.get(d.subject), d.label
        if before == now:
            continue
        if before is None:
            new.append(d.subject)
            memory.note("drift", f"{d.subject}: alarm at label {now}, level {d.level:.4g}")
        else:
            text = "there is none now" if now is None else f"it is at label {now} now"
            memory.note("drift", f"{d.subject}: alarm was at label {before}, {text}")
            late = "labels or answers came late, before others that were counted"
            notes.append(f"the alarm of {d.subject!r} was at label {before}, {text}: {late}")
        raised[d.subject] = now
    memory.put("drift_alarms", raised)
    raters, judge = memory.get("raters", []), rule.judge
    if judge is not None and raters and judge not in raters:
        notes.append(
            f"no grade by the judge {judge!r} yet; raters are {', '.join(map(repr, raters))}"
        )
    if judge is None and len(raters) > 1:
        notes.append(
            f"grades of {', '.join(map(repr, raters))} count equally; name a model by --judge"
        )
    return found, tuple(new), notes


def _computed(memory: Memory, settings: FolderSettings, rule: DriftRule) -> list[Drift]:
    labels: dict[str, list[_Row]] = defaultdict(list)
    plan, drop = memory.get("plan"), settings.conflicts == "drop"
    for item, system, answer, rows, own, *place in memory.query(_JUDGED):
        k = own if plan["own_classes"] else plan["n_classes"]
        said, known = json.loads(rows), plan["recorded"]
        if k is not None:
            about: dict[str, Any] = {"n_classes": int(k), "recorded": known, "drop": drop}
            _add(labels[system], item, tally_of(system, answer, said, item=item, **about), place)
    for item, system, silent, verdict, own, *place in memory.query(_GRADED):
        k = (own if plan.get("own_classes") else plan.get("n_classes")) or 0
        label = Label.grade(verdict, n_classes=int(k))
        _add(labels[system], item, label.meet(None if silent else "", system=system), place)
    judged: dict[str, list[_Row]] = defaultdict(list)
    sql = "SELECT item, system, verdict, at, file, row FROM judged"
    for item, system, verdict, at, file, row in memory.query(sql):
        judged[system].append(((at, file, row), Called(item, float(verdict), at)))
    found = []
    for system in memory.get("systems", []):
        mine, seen = list[Moment](), set[str]()
        for moment in _ordered(labels[system]):
            if moment.item not in seen:
                mine.append(moment)
                seen.add(moment.item)
        found.append(drift_of(system, mine, _ordered(judged[system]), rule))
    return found


def _add(rows: list[_Row], item: str, tally: Any, place: list[Any]) -> None:
    at, file, row, stratum, cluster = place
    if at is None:
        rule, remedy = "must know the order of all labels", "Move it away to begin again."
        raise EvidenceError.of("memory of the watch", rule, "an older one", remedy=remedy)
    if tally is not None and tally.verdict != "unsure":
        rows.append(((at, file, row), Moment(item, tally, at, stratum or "", cluster or "")))


def _ordered(rows: list[_Row]) -> list[Any]:
    """In the order of the times where all have one, else of file and row."""
    timed = all(key[0] for key, _ in rows)
    return [value for _, value in sorted(rows, key=lambda r: r[0] if timed else r[0][1:])]
