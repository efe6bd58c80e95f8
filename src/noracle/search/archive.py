"""The archive of a search: an append-only journal that a killed search goes on from, a snapshot of
it, and what the search found.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from noracle._version import __version__
from noracle.errors import ArgumentError
from noracle.report import plots
from noracle.report.content import Content, content
from noracle.results import Assumption, Comparison, Estimate, Kind, NaN
from noracle.results.base import Result, encode
from noracle.search.candidates import Entry, Outcome, Proposal
from noracle.search.model import BudgetReached, Usage
from noracle.search.workflow import Workflow, parse_workflow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


# ----------------------------------------------------------------------------
# What a search found: the record, and how it is read from the journal.


_TOTALS = ("calls", "input_tokens", "output_tokens")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Found(Result):
    """The outcome of a search.

    ``winner`` is the candidate that leads on validation labels: a choice. ``validation`` is its
    value on these labels (no promise), ``held_out`` its value on labels that nothing before had
    met, ``shrinkage`` the first minus the second. ``incumbent`` is the last candidate that the
    challenges accepted as better than the one before; 0 is the first baseline. ``comparison`` is
    the winner against the first baseline on the held-out labels. ``cost`` counts the whole search;
    ``ledger`` what was paid in this run of it. ``guarantees`` says what each number promises.

    Examples
    --------
    >>> from noracle.results import Guarantee, Kind
    >>> from noracle.search.workflow import load_workflow
    >>> value = Estimate(quantity="accuracy", subject="direct", value=0.6, low=0.5, high=0.7, confidence=0.95, method="ml",
    ...     interval="exact", guarantee=Guarantee(kind=Kind.HEURISTIC, error_rate=0.05))
    >>> found = Found(task="parity", strategy="mutate", model="m", designer="", winner=load_workflow("direct"), number=0, incumbent=0,
    ...     validation=value, held_out=None, shrinkage=float("nan"), comparison=None, entries=(), stopped="cap on calls")
    >>> found.better, found.decided  # the first baseline leads, and no final label was looked at
    (False, False)
    """

    schema: ClassVar[str] = "search/1"
    _numbers: ClassVar[tuple[str, ...]] = ("shrinkage",)

    task: str
    strategy: str
    model: str
    designer: str
    winner: Workflow
    number: int
    incumbent: int
    validation: Estimate
    held_out: Estimate | None
    shrinkage: float
    comparison: Comparison | None
    entries: tuple[Entry, ...]
    challenges: tuple[Mapping[str, Any], ...] = ()
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    cost: Mapping[str, int] = dataclasses.field(default_factory=dict)
    ledger: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    guarantees: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stopped: str = ""
    reason: str = ""
    version: str = __version__

    @property
    def accepted(self) -> bool:
        """Whether the winner was accepted on confirm labels."""
        return self.number != 0 and self.number == self.incumbent

    @property
    def better(self) -> bool:
        """Whether labels that the winner never met say that it beats the first baseline: confirm
        labels, or the final ones.

        A false yes has probability at most 1 - confidence: half of it for all challenges together,
        half for one side of the comparison.
        """
        final = self.comparison is not None and self.comparison.differences[0].low > 0
        return self.number != 0 and (self.accepted or final)

    @property
    def decided(self) -> bool:
        """Whether the search has an answer: the winner is better, or no candidate even looked
        better than the first baseline.
        """
        return self.held_out is not None and (self.better or self.number == 0)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; estimates and the workflow carry their own schema. Answers to items
        are in the archive.
        """
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        plain |= {
            "winner": self.winner.to_dict(),
            "entries": [_entry_dict(e) for e in self.entries],
        }
        plain |= {name: _inner(plain[name]) for name in ("validation", "held_out", "comparison")}
        return {"schema": self.schema, **encode(plain)}

    @classmethod
    def _revive(cls, values: dict[str, Any]) -> dict[str, Any]:
        readers: dict[str, type[Result]] = {
            "validation": Estimate,
            "held_out": Estimate,
            "comparison": Comparison,
        }
        values |= {
            name: None if values[name] is None else read.from_dict(values[name])
            for name, read in readers.items()
        }
        values["winner"] = parse_workflow(values["winner"])
        values["entries"] = tuple(_entry_from(e) for e in values["entries"])
        return values

    def __repr__(self) -> str:
        held_out = (
            "no held-out value yet"
            if self.held_out is None
            else f"held out {self.held_out.value:.4g}"
        )
        return f"Found({self.winner.name!r} of {len(self.entries)} candidates, validation {self.validation.value:.4g}, {held_out})"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Every candidate on validation labels, in the order tried, and the winner on held-out
        labels.
        """
        ax = plots.new_axes(ax, 7)
        rows = [
            (e.number, e.fitness, e.accepted or e.number == 0)
            for e in self.entries
            if e.fitness is not None
        ]
        for x, fitness, accepted in rows:
            ax.plot([x, x], [fitness.low, fitness.high], color=plots.LINE, linewidth=2, zorder=1)
            face = plots.BLUE if accepted else "none"
            ax.plot(
                [x],
                [fitness.value],
                marker="o",
                markersize=5,
                color=plots.BLUE,
                markerfacecolor=face,
                linestyle="none",
                zorder=2,
            )
        if self.held_out is not None:
            x = self.number
            ax.plot(
                [x + 0.25] * 2,
                [self.held_out.low, self.held_out.high],
                color=plots.ORANGE,
                linewidth=2,
                zorder=3,
            )
            ax.plot(
                [x + 0.25],
                [self.held_out.value],
                marker="D",
                markersize=5,
                color=plots.ORANGE,
                linestyle="none",
                zorder=4,
            )
        ax.grid(axis="y", color=plots.LINE, linewidth=0.6)
        ax.set_xlabel("candidate (filled: was the incumbent; diamond: held-out labels)")
        ax.set_ylabel("accuracy", color=plots.INK, fontsize=8.5)
        ax.locator_params(axis="x", integer=True)
        return ax


def found_of(
    archive: Archive,
    entries: Sequence[Entry],
    *,
    leader: int,
    end: Event | None,
    capped: str,
    ledger: Mapping[str, Any],
) -> Found:
    """The outcome as the journal has it; without an ``end`` event there is no held-out value, and
    ``capped`` says why.
    """
    if not entries:  # the cap came before the first baseline was done
        raise BudgetReached(capped)
    settings = archive.settings
    won = [e.number for e in entries if e.accepted]
    winner = entries[leader if end is None else end["winner"]]
    if winner.fitness is None:
        raise ArgumentError(f"the first baseline must have a fitness; got none ({winner.problem}).")
    validation = _selected(winner.fitness, sum(e.fitness is not None for e in entries))
    held_out = None if end is None else Estimate.from_dict(end["held_out"])
    comparison = (
        None
        if end is None or end["comparison"] is None
        else Comparison.from_dict(end["comparison"])
    )
    challenges = [
        {k: v for k, v in e.items() if k not in ("event", "outcomes")}
        for e in archive.of("challenge")
    ]
    return Found(
        task=settings["task"],
        strategy=settings["strategy"],
        model=settings["model"],
        designer=settings["designer"],
        winner=winner.workflow,
        number=winner.number,
        incumbent=won[-1] if won else 0,
        validation=validation,
        held_out=held_out,
        shrinkage=NaN if held_out is None else validation.value - held_out.value,
        comparison=comparison,
        entries=tuple(entries),
        challenges=tuple(challenges),
        counts={part: len(settings["split"][part]) for part in ("validation", "confirm", "final")},
        cost=_totals(archive),
        ledger=dict(ledger),
        guarantees=_guarantees(
            validation, held_out, comparison, challenges, settings["confidence"]
        ),
        stopped=capped if end is None else end["stopped"],
        reason=f"no held-out value: {capped}" if end is None else "",
    )


def _selected(fitness: Estimate, n: int) -> Estimate:
    """The same numbers without a promise, since the candidate was chosen with these labels."""
    why = f"selected among {n} candidates with these labels: the value is too high on average, the interval promises nothing"
    kind = Kind.HEURISTIC if n > 1 else fitness.guarantee.kind
    assumption = Assumption(name="labels not used to select", status="failed", detail=why)
    guarantee = dataclasses.replace(
        fitness.guarantee,
        kind=kind,
        assumptions=(*fitness.guarantee.assumptions, *((assumption,) if n > 1 else ())),
    )
    return dataclasses.replace(
        fitness, guarantee=guarantee, notes=(*fitness.notes, *((why,) if n > 1 else ()))
    )


def _totals(archive: Archive) -> dict[str, int]:
    """Calls and tokens of the whole search, by what they were for."""
    parts = {
        "design": [e["design"] for e in archive.of("proposal")],
        "validation": [e["cost"] for e in archive.of("entry")],
        "confirm": [e["cost"] for e in archive.of("challenge")],
        "final": [e["cost"] for e in archive.of("end")],
    }
    totals = {
        name: sum(cost.get(name, 0) for costs in parts.values() for cost in costs)
        for name in _TOTALS
    }
    return {
        **totals,
        **{
            f"{part}_calls": sum(cost.get("calls", 0) for cost in costs)
            for part, costs in parts.items()
        },
    }


def _guarantees(
    validation: Estimate,
    held_out: Estimate | None,
    comparison: Comparison | None,
    challenges: Sequence[Mapping[str, Any]],
    confidence: float,
) -> dict[str, str]:
    said = {
        "validation": f"{validation.guarantee.kind.label}: the winner was chosen with these labels"
    }
    if challenges:
        said["acceptance"] = str(challenges[-1]["guarantee"])
    if held_out is not None:
        said["held_out"] = (
            f"{held_out.guarantee.kind.label} at {confidence:g}: labels that neither design nor choice had met"
        )
    if comparison is not None:
        said["comparison"] = (
            f"{comparison.guarantee.kind.label} at {confidence:g}: paired, on the same held-out labels"
        )
    if challenges or comparison is not None:
        said["better"] = (
            f"finite-sample at {confidence:g}: the winner is called better only by confirm or final labels"
        )
    said["strategy"] = (
        "heuristic: which candidates are proposed, and whether a better one exists, carries no promise"
    )
    return said


def _inner(result: Result | None) -> dict[str, Any] | None:
    return None if result is None else result.to_dict()


def _entry_dict(entry: Entry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "origin": entry.origin,
        "generation": entry.generation,
        "parents": list(entry.parents),
        "change": entry.change,
        "accepted": entry.accepted,
        "problem": entry.problem,
        "cost": dict(entry.cost),
        "fitness": _inner(entry.fitness),
        "workflow": entry.workflow.to_dict(),
    }


def _entry_from(data: Mapping[str, Any]) -> Entry:
    return Entry(
        number=data["number"],
        origin=data["origin"],
        generation=data["generation"],
        parents=tuple(data["parents"]),
        change=data["change"],
        accepted=data["accepted"],
        problem=data["problem"],
        cost=data["cost"],
        fitness=None if data["fitness"] is None else Estimate.from_dict(data["fitness"]),
        workflow=parse_workflow(data["workflow"]),
    )


@content.register
def _(result: Found) -> Content:
    from noracle.search.report import describe

    return describe(result)
