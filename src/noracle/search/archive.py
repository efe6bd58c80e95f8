"""The archive of a search: an append-only journal that a killed search goes on from, and a snapshot
of it.

    FOLDER/journal.jsonl   one line an event, on disk before the next step begins; never rewritten
    FOLDER/archive.json    everything in the journal as one value (schema archive/1), replaced whole
    FOLDER/calls.sqlite    every call of the search, so that none is paid twice

Neither holds a label, the text of an item, a prompt that was sent, a key or a time of day: the same
search writes the same bytes. Prompts of workflows are there, since they are the result.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from noracle.errors import ArgumentError
from noracle.results import Estimate
from noracle.search.candidates import Entry, Outcome, Proposal
from noracle.search.model import Usage
from noracle.search.workflow import parse_workflow

SCHEMA = "archive/1"
JOURNAL, SNAPSHOT, CALLS = "journal.jsonl", "archive.json", "calls.sqlite"
_LONGEST_CHANGE = 200
_FREE = ("budget",)
"""Settings that may differ when a search goes on: a larger budget is no other search."""

Event = dict[str, Any]


class Archive:
    """The events of one search, in memory and on disk. Make it with :meth:`open`; close it, or use
    it in a ``with`` block.
    """

    def __init__(self, folder: Path, events: list[Event], journal: Any) -> None:
        self.folder = folder
        self._events = events
        self._journal = journal

    @classmethod
    def open(cls, folder: str | Path, settings: Mapping[str, Any]) -> Self:
        """Begin a search in a folder, or go on with the one that is there.

        Raises
        ------
        ArgumentError
            If the folder holds a search with other settings, a file that is no journal, or a search
            that is running now.
        """
        where = Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        journal = (where / JOURNAL).open("a+b")
        try:
            _lock(journal, where)
            events = _read(journal, where)
            archive = cls(where, events, journal)
            if not events:
                archive.append(
                    {"event": "begin", "schema": SCHEMA, "settings": _plain(dict(settings))}
                )
            archive._check(settings)
        except BaseException:
            journal.close()
            raise
        return archive

    @property
    def events(self) -> Sequence[Event]:
        """All events so far."""
        return tuple(self._events)

    @property
    def settings(self) -> dict[str, Any]:
        """What the search began with."""
        return dict(self._events[0]["settings"])

    def of(self, kind: str) -> list[Event]:
        """The events of one kind, in order."""
        return [event for event in self._events if event["event"] == kind]

    def append(self, event: Mapping[str, Any]) -> Event:
        """Write an event; it is on disk when this returns."""
        line = json.dumps(_plain(event), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        self._journal.seek(0, os.SEEK_END)
        self._journal.write(line.encode() + b"\n")
        self._journal.flush()
        os.fsync(self._journal.fileno())
        self._events.append(json.loads(line))
        return self._events[-1]

    def snapshot(self) -> Path:
        """Write ``archive.json`` under another name and rename it, so that a reader never sees half
        of it.
        """
        target = self.folder / SNAPSHOT
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=f".{SNAPSHOT}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(
                    json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=1) + "\n"
                )
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(
                (self.folder / JOURNAL).stat().st_mode
            )  # a temporary file is private to the user
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return target

    def to_dict(self) -> dict[str, Any]:
        """Settings, candidates, challenges and the end, as plain JSON values."""
        made = {e["number"]: e for e in self.of("proposal")}
        entries = [{**_without(made[e["number"]]), **_without(e)} for e in self.of("entry")]
        ends = self.of("end")
        end = _without(ends[-1]) if ends else None
        return {
            "schema": SCHEMA,
            "settings": self.settings,
            "entries": entries,
            "challenges": [_without(e) for e in self.of("challenge")],
            "end": end,
        }

    def entries(self) -> list[Entry]:
        """The candidates that were evaluated or given up, as records; ``accepted`` follows from the
        challenges.
        """
        made = {e["number"]: e for e in self.of("proposal")}
        accepted = {e["number"] for e in self.of("challenge") if e["accepted"]}
        return [
            entry_of(made[e["number"]], e, accepted=e["number"] in accepted)
            for e in self.of("entry")
        ]

    def clean(self) -> None:
        """Remove temporary files that a killed search left."""
        for stray in self.folder.glob(f".{SNAPSHOT}.*.tmp"):
            stray.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the journal."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, settings: Mapping[str, Any]) -> None:
        began, now = self.settings, _plain(dict(settings))
        if self._events[0].get("schema") != SCHEMA:
            raise ArgumentError(
                f"folder must hold a journal of schema {SCHEMA}; got another in {str(self.folder)!r}. Name a new folder."
            )
        other = [
            name
            for name in {**began, **now}
            if began.get(name) != now.get(name) and name not in _FREE
        ]
        if other:
            raise ArgumentError(
                f"folder must hold a search with the same settings to go on; got another {', '.join(sorted(other))} in "
                f"{str(self.folder)!r}. Use the settings it began with, or name a new folder."
            )


def proposal_event(
    number: int, proposal: Proposal, *, origin: str, generation: int, cost: Mapping[str, float]
) -> Event:
    """A candidate before it is run. Thoughts of a designer are left out: they may quote items."""
    change = " ".join(proposal.change.split())[:_LONGEST_CHANGE]
    return {
        "event": "proposal",
        "number": number,
        "origin": origin,
        "generation": generation,
        "parents": list(proposal.parents),
        "change": change,
        "problem": proposal.problem,
        "share": proposal.share,
        "workflow": proposal.workflow.to_dict(),
        "digest": proposal.workflow.digest,
        "design": dict(cost),
    }


def entry_event(
    number: int,
    *,
    outcomes: Sequence[Outcome],
    fitness: Estimate | None,
    problem: str,
    cost: Mapping[str, float],
) -> Event:
    """A candidate after it was run, or given up."""
    return {
        "event": "entry",
        "number": number,
        "problem": problem,
        "cost": dict(cost),
        "fitness": None if fitness is None else fitness.to_dict(),
        "outcomes": outcome_columns(outcomes),
    }


def entry_of(made: Event, done: Event, *, accepted: bool) -> Entry:
    """The record of a candidate from its two events."""
    return Entry(
        number=made["number"],
        workflow=parse_workflow(made["workflow"]),
        origin=made["origin"],
        parents=tuple(made["parents"]),
        change=made["change"],
        generation=made["generation"],
        outcomes=outcomes_of(done["outcomes"]),
        fitness=None if done["fitness"] is None else Estimate.from_dict(done["fitness"]),
        accepted=accepted,
        problem=done["problem"],
        cost={
            **done["cost"],
            **{f"design_{name}": value for name, value in made["design"].items()},
        },
    )


def outcome_columns(outcomes: Sequence[Outcome]) -> dict[str, list[Any]]:
    """Outcomes as columns, which takes a third of the space of rows."""
    return {
        "item": [o.item for o in outcomes],
        "answer": [o.answer for o in outcomes],
        "state": [o.state for o in outcomes],
        "repeat": [o.repeat for o in outcomes],
        "calls": [o.calls for o in outcomes],
        "input_tokens": [o.usage.input_tokens for o in outcomes],
        "output_tokens": [o.usage.output_tokens for o in outcomes],
    }


def outcomes_of(columns: Mapping[str, Sequence[Any]]) -> tuple[Outcome, ...]:
    """Read back what :func:`outcome_columns` wrote."""
    rows = zip(
        *(
            columns[name]
            for name in (
                "item",
                "answer",
                "state",
                "repeat",
                "calls",
                "input_tokens",
                "output_tokens",
            )
        ),
        strict=True,
    )
    return tuple(
        Outcome(
            item=item,
            answer=answer,
            state=state,
            repeat=repeat,
            calls=calls,
            usage=Usage(read, written),
        )
        for item, answer, state, repeat, calls, read, written in rows
    )


def _without(event: Event) -> Event:
    return {name: value for name, value in event.items() if name != "event"}


def _plain(value: Any) -> Any:
    """What JSON gives back for a value, so that a search that goes on sees what one that was not
    stopped sees.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    return json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False))


def _read(journal: Any, folder: Path) -> list[Event]:
    """All whole lines; half a line at the end is what a killed search left, and is cut off."""
    journal.seek(0)
    data = journal.read()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        journal.truncate(whole)
    events: list[Event] = []
    for i, line in enumerate(data[:whole].splitlines(), start=1):
        try:
            event = json.loads(line)
            if (
                not isinstance(event, dict)
                or "event" not in event
                or (i == 1) != (event["event"] == "begin")
            ):
                raise ValueError
        except ValueError:
            raise ArgumentError(
                f"folder must hold the journal of a search; got something else in line {i} of {str(folder / JOURNAL)!r}. Name a new folder."
            ) from None
        events.append(event)
    return events


def _lock(journal: Any, folder: Path) -> None:
    """Where the system can lock files, a second search in the same folder is refused; the lock goes
    with the process.
    """
    with contextlib.suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(journal.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ArgumentError(
                f"folder must not be in use; another search is running in {str(folder)!r}. Wait for it."
            ) from None


__all__ = [
    "CALLS",
    "JOURNAL",
    "SCHEMA",
    "SNAPSHOT",
    "Archive",
    "entry_event",
    "entry_of",
    "outcome_columns",
    "outcomes_of",
    "proposal_event",
]
