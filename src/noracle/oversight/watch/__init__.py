"""What a watch says at one look."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import operator
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from noracle.counts.tally import AccuracyCounts, Cell
from noracle.errors import ArgumentError, EvidenceError
from noracle.evidence.classes import no_answers
from noracle.evidence.shapes import Shape, shape_of
from noracle.oversight.model import Inventory, Settings, Source, Step, SystemLine
from noracle.oversight.oversight import Oversight
from noracle.oversight.settings import NO_CLAIM, claim_of
from noracle.oversight.watch.memory import Arrival, Memory, look_at, rows_in, stamp_of
from noracle.oversight.watch.stream import Feed, counts_of, meet, rate, sequence_estimate, shares_of
from noracle.results import (
    Certificate,
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
    ``proof`` was found at this look. ``waiting`` counts evidence that cannot be used yet, by the
    reason.
    """

    number: int
    run: int
    accuracy: tuple[Estimate, ...] = ()
    certificates: tuple[Certificate, ...] = ()
    proof: Proof | None = None
    new_alarm: bool = False
    n_rows: int = 0
    """New rows in this look."""
    n_items: int = 0
    """Items that every system answered."""
    verdict_now: str = ""
    """What all these items say of the claim: alarm, consistent or undecided; an alarm that fewer
    items raised is kept all the same.
    """
    waiting: Mapping[str, int] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    guarantee: Guarantee
    inventory: Inventory | None = None

    @property
    def results(self) -> tuple[Result, ...]:
        """All results, those without probability last."""
        return (*self.accuracy, *self.certificates, *([] if self.proof is None else [self.proof]))

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
        return {
            "schema": "results/1",
            "results": [r.to_dict() for r in self.results],
            "watch": look,
        }


def joined(look: Look) -> Guarantee:
    """The weakest kind and all assumptions of the statements, at the error rate of the whole watch."""
    parts = [*(e.guarantee for e in look.accuracy), *(c.guarantee for c in look.certificates)]
    together = functools.reduce(operator.and_, parts, look.guarantee)
    return dataclasses.replace(together, error_rate=look.guarantee.error_rate, anytime=True)


# ----------------------------------------------------------------------------
# A folder that is watched: new evidence is added as it comes, and what is said holds at every look.


PLACE = ".noracle"
"""The folder, inside the one that is watched, where a watch keeps its memory."""
_FOLLOWED = ("items", "answers", "judgements", "grades", "ratings")


class Watch:
    r"""Watches one folder.

    Parameters
    ----------
    folder
        The folder with the evidence.
    confidence
        For everything that the watch ever says; fixed at the first look. Default: that of
        ``noracle.toml``, else 0.95.
    ratings_per_item
        An item is held against its annotators when it has so many ratings; fixed at the first look
        that sees ratings. Default: the most frequent number there.
    alarm_from
        The claim of ``noracle.toml`` is tested from so many items on. With very few items it is
        broken by one disagreement, also by good systems. Without a claim in that file there is no
        alarm.
    memory
        Where the memory lies; default ``.noracle/watch.sqlite`` in the folder.
    grades
        A file of grades that is followed, too, where it does not lie in the folder.

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
    ) -> None:
        self.folder = Path(folder)
        self.grades = None if grades is None else os.fspath(grades)
        if not self.folder.is_dir():
            raise ArgumentError(f"folder must be a folder that exists; got {str(self.folder)!r}.")
        if ratings_per_item is not None and ratings_per_item < 1:
            raise ArgumentError(f"ratings_per_item must be at least 1; got {ratings_per_item}.")
        self.confidence = None if confidence is None else check_confidence(confidence)
        if alarm_from < 1:
            raise ArgumentError(f"alarm_from must be at least 1; got {alarm_from}.")
        self.ratings_per_item, self.alarm_from = ratings_per_item, alarm_from
        self.memory = Memory(
            Path(memory) if memory is not None else self.folder / PLACE / "watch.sqlite"
        )
        self.outputs: set[Path] = set()
        """Files in the folder that are written about it, whose change is no news."""
        self._stamps: dict[str, tuple[int, int, int]] | None = None

    def close(self) -> None:
        """Close the memory."""
        self.memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def changed(self) -> bool:
        """Whether a file of the folder came, went or changed since this was last asked."""
        stamps = self._poll()
        changed, self._stamps = stamps != self._stamps, stamps
        return changed

    def _poll(self) -> dict[str, tuple[int, int, int]]:
        found = {}
        for place, folders, files in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for path in (Path(place, name) for name in sorted(files) if not name.startswith(".")):
                if path.resolve() not in self.outputs:
                    with contextlib.suppress(FileNotFoundError):  # it went while we looked
                        found[str(path)] = stamp_of(path)
        if self.grades is not None:
            with contextlib.suppress(FileNotFoundError):
                found[self.grades] = stamp_of(self.grades)
        return found

    # ------------------------------------------------------------------------------------------------
    # a look

    def look(self) -> Look:
        """Add what is new, and say what is known now."""
        with self.memory.look():
            inventory, notes = self._find()
            settings = inventory.settings
            number = int(self.memory.get("looks", 0)) + 1
            self._fix(
                "confidence", settings.confidence if self.confidence is None else self.confidence
            )
            if number == 1 and self.memory.run == 1:
                self.memory.note("start", f"confidence {self.memory.get('plan')['confidence']}")
            arrivals = self._arrivals(inventory, notes)
            feed = Feed(self.memory, settings, self.ratings_per_item)
            n_rows = 0
            for kind, path, arrival in arrivals:
                if arrival.data is not None or arrival.whole:
                    rows = rows_in(path, arrival.data, kind, _shape(inventory, kind))
                    feed.take(kind, self._name(path), rows, closed=arrival.whole)
                    n_rows += len(rows)
                if arrival.waits:
                    notes.append(f"the last line of {self._name(path)} has no end: it waits")
                self.memory.remember(self._name(path), arrival.seen)
            notes += feed.finish()
            meet(self.memory, settings)
            rate(self.memory)
            shares = shares_of(self.memory)
            proof, new_alarm, why = self._alarm(settings, feed)
            self.memory.put("looks", number)
            found = Look(
                number=number,
                run=self.memory.run,
                accuracy=self._accuracy(shares),
                certificates=self._certificates(shares, settings),
                proof=proof,
                new_alarm=new_alarm,
                n_rows=n_rows,
                n_items=sum(n for _, n in self.memory.get("patterns", [])),
                verdict_now=self.memory.get("verdict_now", ""),
                waiting=self._waiting(),
                notes=(*notes, *why, *self._restarts()),
                guarantee=self._guarantee(),
                inventory=inventory,
            )
        return dataclasses.replace(found, guarantee=joined(found))

    def _find(self) -> tuple[Inventory, list[str]]:
        """What is in the folder. While a file is being written it may not read as a table: then the
        files that are known are followed.
        """
        from noracle.oversight.find import find_evidence
        from noracle.oversight.settings import SETTINGS_FILE, read_settings

        known = self.memory.get("sources", [])
        try:
            found = find_evidence(self.folder, grades=self.grades)
        except EvidenceError as error:
            if not known or not all(
                (self.folder / path).is_file() for _, paths in known for path in paths
            ):
                raise
            told = self.folder / SETTINGS_FILE
            settings = read_settings(told) if told.is_file() else Settings()
            sources = [
                Source(
                    kind=kind,
                    paths=tuple(str(self.folder / path) for path in paths),
                    why="known from an earlier look",
                )
                for kind, paths in known
            ]
            return Inventory(place=str(self.folder), sources=tuple(sources), settings=settings), [
                f"new files wait: {error}"
            ]
        followed = [s for s in found.sources if _is_followed(s)]
        self.memory.put(
            "sources", [[s.kind, [self._name(path) for path in s.paths]] for s in followed]
        )
        return found, []

    def _name(self, path: str | Path) -> str:
        """A file's name in the memory: relative to the folder, so that a folder that is moved is
        the same.
        """
        return os.path.relpath(path, self.folder).replace(os.sep, "/")

    def _fix(self, name: str, value: Any) -> Any:
        """What is fixed at the first look stays so; another wish later is an error."""
        plan = self.memory.get("plan", {})
        if name in plan and plan[name] != value:
            raise ArgumentError(
                f"{name} must stay {plan[name]!r}, as when the watch began; got {value!r}. "
                f"To begin again, move {str(self.memory.path)!r} away."
            )
        self.memory.put("plan", {**plan, name: value})
        return value

    def _arrivals(self, inventory: Inventory, notes: list[str]) -> list[tuple[str, str, Arrival]]:
        """Every file with its kind; where counted bytes were changed, the memory starts over and
        all files are new.
        """
        wanted: list[tuple[str, str]] = [
            (s.kind, p)
            for kind in _FOLLOWED
            for s in inventory.sources
            if s.kind == kind and _is_followed(s)
            for p in s.paths
        ]
        others = [s for s in inventory.sources if not _is_followed(s)]
        notes += [
            f"not followed: {s.kind} in {', '.join(map(self._name, s.paths))} (the report reads it)"
            for s in others
        ]
        known = self.memory.files()
        arrivals = [
            (kind, path, look_at(path, known.get(self._name(path)))) for kind, path in wanted
        ]
        changed = [
            (self._name(path), a.state)
            for _, path, a in arrivals
            if a.state in ("rewritten", "shrunk")
        ]
        if changed:
            detail = "; ".join(f"{name} was {state}" for name, state in changed)
            plan = {"confidence": self.memory.get("plan")["confidence"]}
            self.memory.start_over()
            self.memory.put("plan", plan)
            self.memory.note("start over", detail)
            notes.append(
                f"{detail} after it was counted: the watch starts over (run {self.memory.run})"
            )
            arrivals = [(kind, path, look_at(path, None)) for kind, path in wanted]
        for name in self.memory.mark_gone(self._name(path) for _, path in wanted):
            self.memory.note("gone", name)
            notes.append(f"{name} is gone; what it said stays counted")
        return arrivals

    # ------------------------------------------------------------------------------------------------
    # what is known now

    def _error(self) -> float:
        return 1 - float(self.memory.get("plan")["confidence"])

    def _accuracy(self, shares: Mapping[str, float]) -> tuple[Estimate, ...]:
        plan = self.memory.get("plan")
        counts = AccuracyCounts.from_dict(self.memory.get("counts", counts_of(()).to_dict()))
        found = []
        for system in self.memory.get("systems", []):
            share = shares.get(f"accuracy {system}")
            if share is None:
                continue
            k = plan.get("most_classes") or plan.get("n_classes")
            mine = counts.of(system) if system in counts.systems else _nothing(system, k)
            mine = dataclasses.replace(mine, inferred=tuple(plan.get("inferred", ())))
            most = plan["most_classes"] if plan.get("mixed") else None
            clustered = bool(self.memory.get("clustered", False))
            asked = self._asked(system) if self.memory.get("graded", False) else None
            found.append(
                sequence_estimate(
                    mine,
                    error=self._error() * share,
                    most_classes=most,
                    clustered=clustered,
                    asked=asked,
                )
            )
        return tuple(found)

    def _asked(self, system: str) -> tuple[int, int] | None:
        """Items that a system was asked about and those with an answer; None where there are grades
        and no answers.
        """
        n, answered = self.memory.query(
            "SELECT COUNT(*), COUNT(answer) FROM answer WHERE system = ?", system
        )[0]
        return (int(n), int(answered)) if n else None

    def _certificates(
        self, shares: Mapping[str, float], settings: Settings
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
            for hit, tied, top, votes, silent, n in rows:
                stream._add(
                    (hit, tied, top, votes, n)
                )  # counts are all that a stream keeps, so it is rebuilt from them
                stream._silent += silent * n
            found.append(stream.certificate())
        return tuple(found)

    def _alarm(self, settings: Settings, feed: Feed) -> tuple[Proof | None, bool, list[str]]:
        """The alarm: kept once it was proved, since it stays true of those items. What all items so
        far say is looked at anew.

        An alarm refutes a claim that somebody states. So it is shown as long as that claim stands
        in the settings; a claim that was changed is tested at once, and without one nothing is
        tested.
        """
        claim, tested = claim_of(settings), self.memory.get("claim_tested")
        fresh, sketch = feed.new_patterns(), feed.sketch()
        if tested != claim:
            self.memory.put("verdict_now", "")
        if not claim:
            if sketch is None or tested == "":
                return None, False, []
            self.memory.put("claim_tested", "")
            return None, False, [NO_CLAIM]
        from noracle.logic.cascade import prove_malfunction
        from noracle.logic.spec import Spec

        stored = self.memory.get("proof")
        kept = None if stored is None else read_result(stored)
        kept = kept if isinstance(kept, Proof) and kept.claim == str(Spec.parse(claim)) else None
        if sketch is None or sketch.n_items < self.alarm_from or (tested == claim and not fresh):
            return kept, False, []
        self.memory.put("claim_tested", claim)
        try:
            proof = prove_malfunction(sketch, claim, time_limit=settings.time_limit)
        except ArgumentError as error:
            return kept, False, [f"the claim cannot be tested yet: {error}"]
        self.memory.put("verdict_now", proof.status)
        if proof.status == "undecided":
            return (
                kept,
                False,
                [f"no verdict on the claim for all items within {settings.time_limit:g} s"],
            )
        if kept is not None or proof.status != "alarm":
            return kept, False, []
        if not proof.verify():
            return (
                None,
                False,
                [
                    "a solver says that the claim is broken, but gives no proof that can be checked: no alarm"
                ],
            )
        self.memory.put("proof", proof.to_dict())
        self.memory.note("alarm", f"{proof.claim}, on {sketch.n_items} items")
        return proof, True, []

    def _waiting(self) -> dict[str, int]:
        """Evidence that cannot be used yet."""
        systems = self.memory.get("systems", [])
        plan = self.memory.get("plan")
        found = {
            "judged items without an answer of every system": (
                "SELECT COUNT(*) FROM label l WHERE (SELECT COUNT(*) FROM answer a WHERE a.item = l.item) < ?",
                (len(systems),),
            ),
            "items that some system has not answered": (
                "SELECT COUNT(*) FROM (SELECT item FROM answer GROUP BY item HAVING COUNT(*) < ?)",
                (len(systems),),
            ),
            "judged items at the end of a file, which may get more in the next row": (
                "SELECT COUNT(*) FROM open_label",
                (),
            ),
            "rated items with fewer ratings than counted": (
                "SELECT COUNT(*) FROM (SELECT item FROM rating GROUP BY item HAVING COUNT(*) < ?)",
                (plan.get("ratings_per_item", 0),),
            ),
        }
        numbers = {
            name: int(self.memory.query(sql, *values)[0][0])
            for name, (sql, values) in found.items()
        }
        return {name: n for name, n in numbers.items() if n}

    def _restarts(self) -> list[str]:
        runs = self.memory.run
        if runs == 1:
            return []
        together = min(1.0, runs * self._error())
        times = f"{runs - 1} time{'s' if runs > 2 else ''}"
        held = f"each run holds by itself, all {runs} together at error rate {together:.3g}"
        return [
            f"counted files were changed {times}: {held}, and nothing is promised if they were changed because of what was seen"
        ]

    def _guarantee(self) -> Guarantee:
        return Guarantee(
            kind=Kind.LOGICAL, error_rate=min(1.0, self.memory.run * self._error()), anytime=True
        )


def _nothing(system: str, n_classes: int | None) -> AccuracyCounts:
    cell = Cell(system, n_classes or 2)
    return AccuracyCounts(tallies={}, items={cell: 0}, answered={cell: 0})


def _is_followed(source: Source) -> bool:
    """Whether a watch reads a table: long ones, and wide ones that hold no labels of their own."""
    wide = (
        source.form == "wide"
        and source.options.get("item") is not None
        and not {"label", "ruled_out"} & set(source.options)
    )
    return source.kind in _FOLLOWED and (source.form == "long" or wide)


def _shape(inventory: Inventory, kind: str) -> Shape:
    """How the tables of a kind are read."""
    s = inventory.settings
    options = next(
        (
            source.options
            for source in inventory.sources
            if source.kind == kind and source.form == "wide"
        ),
        {},
    )
    named = {f"{kind}.item": options["item"]} if options.get("item") is not None else {}
    return shape_of(
        {**s.columns, **named},
        systems=options.get("systems"),
        raters=options.get("raters"),
        no_answer=no_answers(s.no_answer),
    )


# ----------------------------------------------------------------------------
# A look as an oversight report, so that it has the same page.


def as_oversight(look: Look) -> Oversight:
    """The look as a report: only what holds at every look stands in it."""
    place = "" if look.inventory is None else look.inventory.place
    command = f"noracle watch {shlex.quote(place)} --once"
    error = look.guarantee.error_rate
    nothing = "no judgements yet"
    claimed = look.inventory is not None and claim_of(look.inventory.settings)
    unproved = "nothing is proved so far" if claimed else NO_CLAIM
    steps = [
        Step(
            name="accuracy",
            question="How accurate is each system, at every look?",
            status="done" if look.accuracy else "not possible",
            results=look.accuracy,
            reason="" if look.accuracy else nothing,
            command=command,
            error_rate=error if look.accuracy else 0.0,
        ),
        Step(
            name="certificate",
            question="Is a system better than its annotators?",
            status="done" if look.certificates else "not possible",
            results=look.certificates,
            reason="" if look.certificates else "no item has enough ratings yet",
            command=command,
            error_rate=error if look.certificates and not look.accuracy else 0.0,
        ),
        Step(
            name="alarm",
            question="Can all systems be as good as claimed?",
            status="done" if look.proof else "not possible",
            results=() if look.proof is None else (look.proof,),
            reason="" if look.proof else unproved,
            command=command,
        ),
    ]
    waiting = [f"{n:,} {reason} wait" for reason, n in look.waiting.items()]
    return Oversight(
        title=f"Watch: look {look.number}",
        inventory=look.inventory or Inventory(place=place, sources=()),
        systems=tuple(_line(e) for e in look.accuracy),
        steps=tuple(steps),
        findings=(),
        guarantee=look.guarantee,
        next_steps=(),
        confidence=1 - error,
        seed=0,
        notes=(
            *look.notes,
            *waiting,
            "every interval holds at all looks together: one may stop whenever one likes",
        ),
    )


def _line(e: Estimate) -> SystemLine:
    said = (
        "No label of this system is in yet."
        if math.isnan(e.value)
        else f"Its accuracy lies between {e.low:.3f} and {e.high:.3f}."
    )
    rests = ", ".join(a.name for a in e.guarantee.assumptions)
    return SystemLine(
        system=e.subject,
        value=e.value,
        low=e.low,
        high=e.high,
        guarantee=e.guarantee,
        rests_on=rests,
        statement=said,
        next_step="Leave the watch running; labels are added as they come.",
    )
