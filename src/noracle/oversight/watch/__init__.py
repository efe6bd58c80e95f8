"""A folder that is watched: new evidence is added as it comes, and what is said holds at every look."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import operator
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noracle.accuracy.drift import DriftRule
from noracle.counts.tally import AccuracyCounts, Cell
from noracle.errors import ArgumentError, EvidenceError, refuse, require
from noracle.evidence.classes import no_answers
from noracle.evidence.tables import Shape, shape_of
from noracle.oversight.model import FolderSettings, Inventory, Source, SourceKind, Step, SystemLine
from noracle.oversight.oversight import Oversight
from noracle.oversight.questions import FALLEN
from noracle.oversight.settings import NO_CLAIM, SETTINGS_FILE, claim_of, read_settings
from noracle.oversight.watch.drift import drifts, rule_of
from noracle.oversight.watch.memory import Arrival, Memory, look_at, rows_in, stamp_of
from noracle.oversight.watch.stream import (
    Feed,
    known_counts,
    meet,
    rate,
    sequence_estimate,
    shares_of,
)
from noracle.results import (
    Certificate,
    Drift,
    Estimate,
    Guarantee,
    Kind,
    Proof,
    Result,
    check_confidence,
    read_result,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is known at one look.

    ``guarantee`` is for all statements of the watch at all looks together. ``new_alarm`` says that
    ``proof`` was found at this look; ``n_rows`` are the new rows, ``n_items`` the items that every
    system answered. ``verdict_now`` is what all these items say of the claim: alarm, consistent or
    undecided; an alarm that fewer items raised is kept all the same. ``drift`` says of each system
    whether it fell below the level that was stated, ``new_drift`` whose alarm is new. ``waiting``
    counts evidence that cannot be used yet, by the reason.
    """

    number: int
    run: int
    accuracy: tuple[Estimate, ...] = ()
    certificates: tuple[Certificate, ...] = ()
    proof: Proof | None = None
    new_alarm: bool = False
    drift: tuple[Drift, ...] = ()
    new_drift: tuple[str, ...] = ()
    n_rows: int = 0
    n_items: int = 0
    verdict_now: str = ""
    waiting: Mapping[str, int] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    guarantee: Guarantee
    inventory: Inventory | None = None

    @property
    def results(self) -> tuple[Result, ...]:
        """All results, those without probability last."""
        proofs = [] if self.proof is None else [self.proof]
        return (*self.accuracy, *self.drift, *self.certificates, *proofs)

    @property
    def alarm(self) -> bool:
        """Whether a claim was refuted, or some system fell below the stated level."""
        return self.proof is not None or any(d.alarm for d in self.drift)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values: schema ``results/1``, and the look itself under ``watch``."""
        look = {
            "look": self.number,
            "run": self.run,
            "alarm": self.proof is not None,
            "new_alarm": self.new_alarm,
            "new_rows": self.n_rows,
            "items": self.n_items,
            "verdict_now": self.verdict_now,
            "waiting": dict(self.waiting),
            "notes": list(self.notes),
            "error_rate": self.guarantee.error_rate,
            "kind": self.guarantee.kind.label,
        }
        if self.drift:
            told = {d.subject: d.label for d in self.drift}
            look |= {"drift": told, "new_drift": list(self.new_drift)}
        results = [r.to_dict() for r in self.results]
        return {"schema": "results/1", "results": results, "watch": look}


PLACE = ".noracle"
"""The folder, inside the one that is watched, where a watch keeps its memory."""
_FOLLOWED = ("items", "answers", "judgements", "grades", "ratings")
_CHANGED = ("rewritten", "shrunk")
_UNPROVED = "a solver says that the claim is broken, but gives no proof that can be checked"
_FEWER = "SELECT COUNT(*) FROM (SELECT item FROM {} GROUP BY item HAVING COUNT(*) < {})"
_WAITING = {
    "judged items without an answer of every system": "SELECT COUNT(*) FROM label l WHERE "
    "(SELECT COUNT(*) FROM answer a WHERE a.item = l.item) < {n}",
    "items that some system has not answered": _FEWER.format("answer", "{n}"),
    "judged items at the end of a file, which may get more in the next row": "SELECT COUNT(*) FROM open_label",
    "rated items with fewer ratings than counted": _FEWER.format("rating", "{m}"),
}
"""Evidence that cannot be used yet, and how it is counted; n systems, m ratings of each item."""


class Watch(contextlib.AbstractContextManager["Watch"]):
    r"""Watches one folder.

    Parameters
    ----------
    folder
        The folder with the evidence.
    confidence
        For everything that the watch ever says; fixed at the first look. Default: that of
        ``noracle.toml``, else 0.95.
    ratings_per_item
        An item is compared with its annotators when it has so many ratings; fixed at the first look
        that sees ratings. Default: the most frequent number there.
    alarm_from
        The claim of ``noracle.toml`` is tested from so many items on. With very few items it is
        broken by one disagreement, also by good systems. Without a claim in that file there is no
        alarm.
    memory
        Where the memory lies; default ``.noracle/watch.sqlite`` in the folder.
    grades
        A file of grades that is followed, too, where it does not lie in the folder.
    drift
        What accuracy is compared with, instead of ``[drift]`` of ``noracle.toml``; without both no
        fall is looked for. It stays what it was when first stated, and its judge's grades are no
        labels.

    Notes
    -----
    Assumes what :class:`noracle.AccuracyStream` and :class:`noracle.CertificateStream` assume:
    items come in random order, and classes are asked about as the design says. Where the items have
    a column ``cluster``, accuracies and certificates are heuristic: items of one cluster depend on
    each other, and the rest of a cluster may not have come yet. The alarm assumes only that every
    item has one true label among the labels.

    References
    ----------
    Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "answers.csv").write_text("item,system,answer\n1,a,0\n2,a,1\n")
    ...     _ = Path(folder, "judgements.csv").write_text("item,class,verdict\n1,0,yes\n2,0,no\n")
    ...     _ = Path(folder, "noracle.toml").write_text("n_classes = 3\n")
    ...     with Watch(folder) as watch:
    ...         look = watch.look()
    >>> look.accuracy[0].subject, look.accuracy[0].counts["labelled"], look.guarantee.anytime
    ('a', 2, True)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        confidence: float | None = None,
        ratings_per_item: int | None = None,
        alarm_from: int = 1,
        memory: str | os.PathLike[str] | None = None,
        grades: str | os.PathLike[str] | None = None,
        drift: DriftRule | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.drift = drift
        self.grades = None if grades is None else os.fspath(grades)
        m, place = ratings_per_item, str(self.folder)
        refuse(
            {
                f"folder must be a folder that exists; got {place!r}.": not self.folder.is_dir(),
                f"ratings_per_item must be at least 1; got {m}.": m is not None and m < 1,
                f"alarm_from must be at least 1; got {alarm_from}.": alarm_from < 1,
            }
        )
        self.confidence = None if confidence is None else check_confidence(confidence)
        self.ratings_per_item, self.alarm_from = ratings_per_item, alarm_from
        self.memory = Memory(Path(memory or self.folder / PLACE / "watch.sqlite"))
        self.outputs: set[Path] = set()
        """Files in the folder that are written about it, whose changes do not matter."""
        self._stamps: dict[str, tuple[int, int, int]] | None = None

    def close(self) -> None:
        """Close the memory."""
        self.memory.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def changed(self) -> bool:
        """Whether a file of the folder came, went or changed since this was last asked."""
        paths = [] if self.grades is None else [Path(self.grades)]
        for place, folders, files in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            here = (Path(place, name) for name in sorted(files) if not name.startswith("."))
            paths += [path for path in here if path.resolve() not in self.outputs]
        stamps = {}
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # it went while we looked
                stamps[str(path)] = stamp_of(path)
        changed, self._stamps = stamps != self._stamps, stamps
        return changed

    def look(self) -> Look:
        """Add what is new, and say what is known now."""
        memory = self.memory
        with memory.look():
            inventory, notes = self._find()
            settings = inventory.settings
            number = int(memory.get("looks", 0)) + 1
            wanted = settings.confidence if self.confidence is None else self.confidence
            self._fix("confidence", wanted)
            if number == 1 and memory.run == 1:
                memory.note("start", f"confidence {memory.get('plan')['confidence']}")
            stated = DriftRule(**settings.drift) if settings.drift else None
            rule = rule_of(memory, self.drift or stated)
            judge = None if rule is None else rule.judge
            feed, n_rows = Feed(memory, settings, self.ratings_per_item, judge), 0
            arrivals = self._arrivals(inventory, notes)
            for kind, path, arrival in arrivals:
                name = self._name(path)
                if arrival.data is not None or arrival.whole:
                    rows = rows_in(path, arrival.data, kind, _shape(inventory, kind))
                    feed.take(kind, name, rows, closed=arrival.whole)
                    n_rows += len(rows)
                if arrival.waits:
                    notes.append(f"the last line of {name} has no end: it waits")
                memory.remember(name, arrival.seen)
            notes += feed.finish()
            meet(memory, settings)
            rate(memory)
            shares = shares_of(memory)
            proof, new_alarm, why = self._alarm(settings, feed)
            drift, new_drift = tuple[Drift, ...](), tuple[str, ...]()
            if rule is not None:
                drift, new_drift, told = drifts(memory, settings, rule, fresh=n_rows > 0)
                notes += told
            memory.put("looks", number)  # also after starting over
            accuracy, certificates = self._accuracy(shares), self._certificates(shares, settings)
            said = [*(e.guarantee for e in accuracy), *(c.guarantee for c in certificates)]
            nothing = Guarantee(kind=Kind.LOGICAL, error_rate=0.0, anytime=True)
            # The weakest kind and all assumptions, at the error rate of the whole watch.
            guarantee = functools.reduce(operator.and_, said, nothing)
            rate_ = min(1.0, memory.run * self._error())
            return Look(
                number=number,
                run=memory.run,
                accuracy=accuracy,
                certificates=certificates,
                proof=proof,
                new_alarm=new_alarm,
                drift=drift,
                new_drift=new_drift,
                n_rows=n_rows,
                n_items=sum(n for _, n in memory.get("patterns", [])),
                verdict_now=memory.get("verdict_now", ""),
                waiting=self._waiting(),
                notes=(*notes, *why, *self._restarts()),
                guarantee=dataclasses.replace(guarantee, error_rate=rate_, anytime=True),
                inventory=inventory,
            )

    def _find(self) -> tuple[Inventory, list[str]]:
        """What is in the folder; the known files while a new one cannot be read yet."""
        from noracle.oversight.find import find_evidence

        known = self.memory.get("sources", [])
        try:
            found = find_evidence(self.folder, grades=self.grades)
        except EvidenceError as error:
            there = [(kind, tuple(str(self.folder / n) for n in names)) for kind, names in known]
            if not known or not all(Path(path).is_file() for _, paths in there for path in paths):
                raise
            told, why = self.folder / SETTINGS_FILE, "known from an earlier look"
            settings = read_settings(told) if told.is_file() else FolderSettings()
            sources = tuple(Source(kind=kind, paths=paths, why=why) for kind, paths in there)
            found = Inventory(place=str(self.folder), sources=sources, settings=settings)
            return found, [f"new files wait: {error}"]
        followed = [s for s in found.sources if _is_followed(s)]
        names = [[s.kind, [self._name(path) for path in s.paths]] for s in followed]
        self.memory.put("sources", names)
        return found, []

    def _name(self, path: str | Path) -> str:
        """A file's name in the memory, relative to the folder, which may be moved."""
        return os.path.relpath(path, self.folder).replace(os.sep, "/")

    def _fix(self, name: str, value: Any) -> None:
        """What is fixed at the first look stays so; another wish later is an error."""
        plan = self.memory.get("plan", {})
        fixed, remedy = plan.get(name, value), f"move {str(self.memory.path)!r} away"
        rule = f"{name} must stay {fixed!r}, as when the watch began; got {value!r}"
        require(fixed == value, f"{rule}. To begin again, {remedy}.")
        self.memory.put("plan", {**plan, name: value})

    def _arrivals(
        self, inventory: Inventory, notes: list[str]
    ) -> list[tuple[SourceKind, str, Arrival]]:
        """Every file with its kind; where counted bytes were changed, the watch starts over."""
        memory, followed = self.memory, [s for s in inventory.sources if _is_followed(s)]
        followed.sort(key=lambda s: _FOLLOWED.index(s.kind))
        wanted = [(s.kind, path) for s in followed for path in s.paths]
        for s in inventory.sources:
            if s not in followed:
                names = ", ".join(map(self._name, s.paths))
                notes.append(f"not followed: {s.kind} in {names} (the report reads it)")
        known = memory.files()
        arrivals = [(k, path, look_at(path, known.get(self._name(path)))) for k, path in wanted]
        changed = [f"{self._name(p)} was {a.state}" for _, p, a in arrivals if a.state in _CHANGED]
        if changed:
            detail, plan = "; ".join(changed), memory.get("plan")
            memory.start_over()
            memory.put("plan", {k: plan[k] for k in ("confidence", "drift") if k in plan})
            memory.note("start over", detail)
            notes.append(f"{detail} after it was counted: the watch starts over (run {memory.run})")
            arrivals = [(kind, path, look_at(path, None)) for kind, path in wanted]
        for name in memory.mark_gone(self._name(path) for _, path in wanted):
            memory.note("gone", name)
            notes.append(f"{name} is gone; what it said stays counted")
        return arrivals

    def _error(self) -> float:
        return 1 - float(self.memory.get("plan")["confidence"])

    def _accuracy(self, shares: Mapping[str, float]) -> tuple[Estimate, ...]:
        memory, plan, counts = self.memory, self.memory.get("plan"), known_counts(self.memory)
        found, systems = [], memory.get("systems", [])
        for system in [name for name in systems if f"accuracy {name}" in shares]:
            empty = {Cell(system, plan.get("most_classes") or plan.get("n_classes") or 2): 0}
            mine = AccuracyCounts(tallies={}, items=empty, answered=empty)
            mine = counts.of(system) if system in counts.systems else mine
            estimate = sequence_estimate(
                dataclasses.replace(mine, inferred=tuple(plan.get("inferred", ()))),
                error=self._error() * shares[f"accuracy {system}"],
                most_classes=plan["most_classes"] if plan.get("mixed") else None,
                clustered=bool(memory.get("clustered", False)),
                asked=self._asked(system) if memory.get("graded", False) else None,
            )
            found.append(estimate)
        return tuple(found)

    def _asked(self, system: str) -> tuple[int, int] | None:
        """Items a system was asked about and those with an answer; None where only grades are."""
        sql = "SELECT COUNT(*), COUNT(answer) FROM answer WHERE system = ?"
        n, answered = self.memory.query(sql, system)[0]
        return (int(n), int(answered)) if n else None

    def _certificates(
        self, shares: Mapping[str, float], settings: FolderSettings
    ) -> tuple[Certificate, ...]:
        from noracle.superhuman.certify import CertificateStream

        found = []
        if "ratings_per_item" in self.memory.get("plan"):
            self._fix("margin", settings.margin)
        for system in self.memory.get("systems", []):
            share = shares.get(f"certificate {system}")
            rows = [row[1:] for row in self.memory.get("rated", []) if row[0] == system]
            if share is None or not rows:
                continue
            stream = CertificateStream(
                system=system,
                margin=settings.margin,
                trained_on_annotators=settings.trained_on_annotators,
                confidence=1 - self._error() * share,
                clustered=bool(self.memory.get("clustered", False)),
            )
            for hit, tied, top, votes, silent, n in rows:  # counts are all that a stream keeps
                stream._add((hit, tied, top, votes, n))
                stream._silent += silent * n
            found.append(stream.certificate())
        return tuple(found)

    def _alarm(self, settings: FolderSettings, feed: Feed) -> tuple[Proof | None, bool, list[str]]:
        """The alarm, kept once it was proved; what all items so far say is looked at again.

        An alarm refutes a claim that somebody states. So it is shown as long as that claim stands
        in the settings; a claim that was changed is tested at once, and without one nothing is
        tested.
        """
        memory, claim, limit = self.memory, claim_of(settings), settings.time_limit
        tested, fresh, sketch = memory.get("claim_tested"), feed.new_patterns(), feed.sketch()
        if tested != claim:
            memory.put("verdict_now", "")
        if not claim:
            if sketch is None or tested == "":
                return None, False, []
            memory.put("claim_tested", "")
            return None, False, [NO_CLAIM]
        from noracle.logic.cascade import prove_malfunction
        from noracle.logic.spec import Spec

        stored = memory.get("proof")
        kept = None if stored is None else read_result(stored)
        kept = kept if isinstance(kept, Proof) and kept.claim == str(Spec.parse(claim)) else None
        if sketch is None or sketch.n_items < self.alarm_from or (tested == claim and not fresh):
            return kept, False, []
        memory.put("claim_tested", claim)
        try:
            proof = prove_malfunction(sketch, claim, time_limit=limit)
        except ArgumentError as error:
            return kept, False, [f"the claim cannot be tested yet: {error}"]
        memory.put("verdict_now", proof.status)
        if proof.status == "undecided":
            return kept, False, [f"no verdict on the claim for all items within {limit:g} s"]
        if kept is not None or proof.status != "alarm":
            return kept, False, []
        if not proof.verify():
            return None, False, [f"{_UNPROVED}: no alarm"]
        memory.put("proof", proof.to_dict())
        memory.note("alarm", f"{proof.claim}, on {sketch.n_items} items")
        return proof, True, []

    def _waiting(self) -> dict[str, int]:
        n = len(self.memory.get("systems", []))
        m = int(self.memory.get("plan").get("ratings_per_item", 0))
        found = {name: self.memory.query(sql.format(n=n, m=m)) for name, sql in _WAITING.items()}
        return {name: int(rows[0][0]) for name, rows in found.items() if rows[0][0]}

    def _restarts(self) -> list[str]:
        runs, rate = self.memory.run, min(1.0, self.memory.run * self._error())
        times = f"{runs - 1} time{'s' if runs > 2 else ''}"
        held = f"each run holds by itself, all {runs} together at error rate {rate:.3g}"
        seen = "nothing is promised if they were changed because of what was seen"
        return [f"counted files were changed {times}: {held}, and {seen}"] if runs > 1 else []


def _is_followed(source: Source) -> bool:
    """Whether a watch reads a table: long ones, and wide ones that hold no labels of their own."""
    o = source.options
    own = {"label", "ruled_out"} & set(o)
    wide = source.form == "wide" and o.get("item") is not None and not own
    return source.kind in _FOLLOWED and (source.form == "long" or wide)


def _shape(inventory: Inventory, kind: Any) -> Shape:
    s, wide = inventory.settings, [x for x in inventory.of(kind) if x.form == "wide"]
    o: Mapping[str, Any] = wide[0].options if wide else {}
    named = {f"{kind}.item": o["item"]} if o.get("item") is not None else {}
    who = {name: o.get(name) for name in ("systems", "raters")}
    return shape_of({**s.columns, **named}, no_answer=no_answers(s.no_answer), **who)


def as_oversight(look: Look) -> Oversight:
    """The look as a report: only what holds at every look stands in it."""
    found, error = look.inventory, look.guarantee.error_rate
    place = "" if found is None else found.place
    claimed = found is not None and claim_of(found.settings)

    def step(name: str, question: str, results: Sequence[Result], why: str, rate: float) -> Step:
        return Step(
            name=name,
            question=question,
            status="done" if results else "not possible",
            results=tuple(results),
            reason="" if results else why,
            command=f"noracle watch {shlex.quote(place)} --once",
            error_rate=rate if results else 0.0,
        )

    accuracy, certificates = look.accuracy, look.certificates
    alone = 0.0 if accuracy else error
    proofs = [] if look.proof is None else [look.proof]
    ask = "How accurate is each system, at every look?"
    steps = [step("accuracy", ask, accuracy, "no judgements yet", error)]
    ask, why = "Is a system better than its annotators?", "no item has enough ratings yet"
    steps.append(step("certificate", ask, certificates, why, alone))
    if look.drift:
        steps.append(step("drift", FALLEN, look.drift, "", 0.0))
    ask, why = "Can all systems be as good as claimed?", "nothing is proved so far"
    steps.append(step("alarm", ask, proofs, why if claimed else NO_CLAIM, 0.0))
    waiting = [f"{n:,} {reason} wait" for reason, n in look.waiting.items()]
    stop = "every interval holds at all looks together: one may stop whenever one likes"
    return Oversight(
        title=f"Watch: look {look.number}",
        inventory=found or Inventory(place=place, sources=()),
        systems=tuple(_line(e) for e in accuracy),
        steps=tuple(steps),
        findings=(),
        guarantee=look.guarantee,
        next_steps=(),
        confidence=1 - error,
        seed=0,
        notes=(*look.notes, *waiting, stop),
    )


def _line(e: Estimate) -> SystemLine:
    said = f"Its accuracy lies between {e.low:.3f} and {e.high:.3f}."
    return SystemLine(
        system=e.subject,
        value=e.value,
        low=e.low,
        high=e.high,
        guarantee=e.guarantee,
        rests_on=", ".join(a.name for a in e.guarantee.assumptions),
        statement="No label of this system is in yet." if math.isnan(e.value) else said,
        next_step="Leave the watch running; labels are added as they come.",
    )
