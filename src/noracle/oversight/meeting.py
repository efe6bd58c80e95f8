"""Where answers meet what is said of their items: labels, and ratings; each item once for each
system.
"""

from __future__ import annotations

import json
from collections import Counter

from noracle.counts.label import Label, Tally
from noracle.counts.tallies import AccuracyCounts
from noracle.errors import EvidenceError, fault
from noracle.oversight.memory import Memory
from noracle.oversight.model import Settings
from noracle.oversight.sequences import counts_of, tally_of

_FIRST_SHARE = 0.9


def meet(memory: Memory, settings: Settings) -> None:
    """Count answers that were graded, and answers whose item has a label now."""
    _grade(memory)
    plan = memory.get("plan")
    rows = memory.query(
        "SELECT a.item, a.system, a.answer, l.rows, i.k FROM touched t JOIN answer a ON a.item = t.item "
        "JOIN label l ON l.item = t.item LEFT JOIN item i ON i.item = t.item WHERE a.met = 0 ORDER BY a.item, a.system"
    )
    tallies, met = [], []
    for item, system, answer, judged, own in rows:
        k = own if plan["own_classes"] else plan["n_classes"]
        if k is None:
            continue  # the item waits for its number of classes
        said = json.loads(judged)
        outside = [
            c
            for c in (answer, *(row[0] for row in said))
            if c is not None and c.isdecimal() and int(c) >= int(k)
        ]
        if outside and settings.classes is None:
            remedy = "Correct it or the item's n_classes."
            raise EvidenceError(
                fault(
                    "answer and class",
                    f"must be in [0, {k})",
                    outside[0],
                    where=[item],
                    total=1,
                    remedy=remedy,
                )
            )
        met.append((item, system))
        tally = tally_of(
            system,
            answer,
            json.loads(judged),
            n_classes=int(k),
            recorded=plan["recorded"],
            drop=settings.conflicts == "drop",
            item=item,
        )
        if tally is not None:
            tallies.append(tally)
    if met:
        memory.mark("met", met)
        known = AccuracyCounts.from_dict(memory.get("counts", counts_of(()).to_dict()))
        memory.put("counts", (known + counts_of(tallies)).to_dict())
        memory.put("dropped", memory.get("dropped", 0) + len(met) - len(tallies))


def _grade(memory: Memory) -> None:
    """Count grades. They need no answer and no number of classes; an answer that met a judgement
    before is not counted again.
    """
    plan = memory.get("plan")
    rows = memory.query(
        "SELECT g.item, g.system, g.verdict, a.item IS NOT NULL AND a.answer IS NULL, COALESCE(a.met, 0), i.k FROM touched t "
        "JOIN grade g ON g.item = t.item LEFT JOIN answer a ON a.item = g.item AND a.system = g.system "
        "LEFT JOIN item i ON i.item = g.item WHERE g.met = 0 ORDER BY g.item, g.system"
    )
    tallies: list[Tally] = []
    for item, system, verdict, silent, met, own in rows:
        if met:
            continue
        if silent and verdict == "yes":
            remedy = "Correct the grade, or write the answer."
            raise EvidenceError(
                fault(
                    "grades.verdict",
                    "must not be right where the answer is missing",
                    "right",
                    where=[item],
                    total=1,
                    remedy=remedy,
                )
            )
        k = (own if plan.get("own_classes") else plan.get("n_classes")) or 0
        tallies.append(
            Label.grade(verdict, n_classes=int(k)).meet(None if silent else "", system=system)
        )
    if rows:
        memory.mark("met", [(row[0], row[1]) for row in rows])
    if tallies:
        known = AccuracyCounts.from_dict(memory.get("counts", counts_of(()).to_dict()))
        memory.put("counts", (known + counts_of(tallies)).to_dict())


def rate(memory: Memory) -> None:
    """Enter items whose last rating is in, each once for each system."""
    m = memory.get("plan").get("ratings_per_item")
    if m is None:
        return
    rows = {tuple(key): n for *key, n in memory.get("rated", [])}
    entered = []
    for item, system, answer in memory.query(
        "SELECT a.item, a.system, a.answer FROM touched t JOIN answer a ON a.item = t.item WHERE a.rated = 0 "
        "AND (SELECT COUNT(*) FROM rating r WHERE r.item = a.item) >= ? ORDER BY a.item, a.system",
        m,
    ):
        first = memory.query(
            "SELECT label FROM rating WHERE item = ? ORDER BY place LIMIT ?", item, m
        )
        votes = Counter(label for (label,) in first)
        top = max(votes.values())
        key = (
            system,
            int(votes.get(answer, 0) == top),
            sum(n == top for n in votes.values()),
            top,
            m,
            int(answer is None),
        )
        rows[key] = rows.get(key, 0) + 1
        entered.append((item, system))
    memory.mark("rated", entered)
    memory.put("rated", [[*key, n] for key, n in sorted(rows.items())])


def shares_of(memory: Memory) -> dict[str, float]:
    """What each statement has of the error rate."""
    shares: dict[str, float] = memory.get("shares", {})
    plan = memory.get("plan")
    labelled = "protocol" in plan or memory.get("graded", False)
    kinds = [
        kind
        for kind, on in (("accuracy", labelled), ("certificate", "ratings_per_item" in plan))
        if on
    ]
    wanted = [f"{kind} {system}" for kind in kinds for system in memory.get("systems", [])]
    new = [name for name in wanted if name not in shares]
    if new and not shares:
        shares = {name: _FIRST_SHARE / len(new) for name in new}
        memory.put("late", 0)
    else:
        for name in new:
            j = int(memory.get("late", 0)) + 1
            memory.put("late", j)
            shares[name] = (1 - _FIRST_SHARE) / (j * (j + 1))
    memory.put("shares", shares)
    return shares
