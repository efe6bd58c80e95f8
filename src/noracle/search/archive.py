"""The journal of a search, from which a killed search goes on, and what the search found."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from noracle._version import __version__
from noracle.errors import ArgumentError
from noracle.files import replacing
from noracle.report import plots
from noracle.report.content import Content, content
from noracle.results import Assumption, Comparison, Estimate, Kind, NaN
from noracle.results.base import Result, encode
from noracle.search.candidates import COSTS, Entry, Outcome, Proposal, outcome_columns
from noracle.search.journal import Event, EventJournal
from noracle.search.model import BudgetReached
from noracle.search.workflow import Workflow, parse_workflow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_R = TypeVar("_R", bound=Result)
SCHEMA = "archive/1"
SNAPSHOT = "archive.json"
_LONGEST_CHANGE = 200


class SearchArchive(EventJournal):
    """The events of one search, in memory and on disk."""

    schema, what = SCHEMA, "search"

    def snapshot(self) -> Path:
        """Write ``archive.json``, whole."""
        text = json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=1)
        with replacing(path := self.folder / SNAPSHOT, durable=True) as part:
            part.write_text(text + "\n", encoding="utf-8", newline="\n")
        return path

    def to_dict(self) -> dict[str, Any]:
        """Settings, candidates, challenges and the end, as plain JSON values."""
        made = {e["number"]: e for e in self.of("proposal")}
        entries = [{**_without(made[e["number"]]), **_without(e)} for e in self.of("entry")]
        challenges, ends = ([_without(e) for e in self.of(k)] for k in ("challenge", "end"))
        found = {"entries": entries, "challenges": challenges, "end": ends[-1] if ends else None}
        return {"schema": SCHEMA, "settings": self.settings, **found}

    def clean(self) -> None:
        """Remove temporary files that a killed search left."""
        for stray in self.folder.glob(f".{SNAPSHOT}.*.tmp"):
            stray.unlink(missing_ok=True)


def proposal_event(
    number: int, proposal: Proposal, *, origin: str, generation: int, cost: Mapping[str, float]
) -> Event:
    """A candidate before it is run. Thoughts of a designer are left out: they may quote items."""
    return {
        "event": "proposal",
        "number": number,
        "origin": origin,
        "generation": generation,
        "parents": list(proposal.parents),
        "change": " ".join(proposal.change.split())[:_LONGEST_CHANGE],
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
        "fitness": _inner(fitness),
        "outcomes": outcome_columns(outcomes),
    }


def entry_of(made: Event, done: Event, *, accepted: bool) -> Entry:
    """The record of a candidate from its two events."""
    design = {f"design_{name}": value for name, value in made["design"].items()}
    whole = {**made, **done, "cost": {**done["cost"], **design}, "accepted": accepted}
    return dataclasses.replace(_entry_from(whole), outcomes=outcomes_of(done["outcomes"]))


def outcomes_of(columns: Mapping[str, Sequence[Any]]) -> tuple[Outcome, ...]:
    """Read back what :func:`outcome_columns` wrote."""
    rows = zip(*columns.values(), strict=True)
    return tuple(Outcome.from_dict(dict(zip(columns, row, strict=True))) for row in rows)


def _without(event: Event, *names: str) -> Event:
    return {name: value for name, value in event.items() if name not in ("event", *names)}


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
        plain |= {name: _inner(plain[name]) for name in _INNER}
        plain |= {"winner": _inner(self.winner), "entries": [_entry_dict(e) for e in self.entries]}
        return {"schema": self.schema, **encode(plain)}

    @classmethod
    def _revive(cls, values: dict[str, Any]) -> dict[str, Any]:
        values |= {name: _revived(read, values[name]) for name, read in _INNER.items()}
        entries = tuple(_entry_from(e) for e in values["entries"])
        return {**values, "winner": parse_workflow(values["winner"]), "entries": entries}

    def __repr__(self) -> str:
        value = self.held_out
        held_out = "no held-out value yet" if value is None else f"held out {value.value:.4g}"
        return f"Found({self.winner.name!r} of {len(self.entries)} candidates, validation {self.validation.value:.4g}, {held_out})"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Every candidate on validation labels, in the order tried, and the winner on held-out
        labels.
        """
        ax = plots.new_axes(ax, 7)

        def mark(x: float, value: Estimate, line: str, **style: Any) -> None:
            ax.plot([x, x], [value.low, value.high], color=line, linewidth=2, zorder=1)
            ax.plot([x], [value.value], markersize=5, linestyle="none", zorder=2, **style)

        for e in self.entries:
            if e.fitness is not None:
                face = plots.BLUE if e.accepted or e.number == 0 else "none"
                look = {"marker": "o", "color": plots.BLUE, "markerfacecolor": face}
                mark(e.number, e.fitness, plots.LINE, **look)
        if self.held_out is not None:
            mark(self.number + 0.25, self.held_out, plots.ORANGE, marker="D", color=plots.ORANGE)
        ax.grid(axis="y", color=plots.LINE, linewidth=0.6)
        ax.set_xlabel("candidate (filled: was the incumbent; diamond: held-out labels)")
        ax.set_ylabel("accuracy", color=plots.INK, fontsize=8.5)
        ax.locator_params(axis="x", integer=True)
        return ax


def found_of(
    archive: SearchArchive,
    entries: Sequence[Entry],
    *,
    leader: int,
    end: Event | None,
    capped: str,
    ledger: Mapping[str, Any],
) -> Found:
    """The outcome as the journal has it; ``capped`` says why there is no ``end`` event."""
    if not entries:  # it stopped before the first baseline was done
        raise BudgetReached(capped)
    settings = archive.settings
    won = [e.number for e in entries if e.accepted]
    winner = entries[leader if end is None else end["winner"]]
    if winner.fitness is None:
        raise ArgumentError(f"the first baseline must have a fitness; got none ({winner.problem}).")
    validation = _selected(winner.fitness, sum(e.fitness is not None for e in entries))
    final: Mapping[str, Any] = end or {"held_out": None, "comparison": None, "stopped": capped}
    held_out = _revived(Estimate, final["held_out"])
    found = Found(
        **{name: settings[name] for name in ("task", "strategy", "model", "designer")},
        winner=winner.workflow,
        number=winner.number,
        incumbent=won[-1] if won else 0,
        validation=validation,
        held_out=held_out,
        shrinkage=NaN if held_out is None else validation.value - held_out.value,
        comparison=_revived(Comparison, final["comparison"]),
        entries=tuple(entries),
        challenges=tuple(_without(e, "outcomes") for e in archive.of("challenge")),
        counts={part: len(settings["split"][part]) for part in ("validation", "confirm", "final")},
        cost=_totals(archive),
        ledger=dict(ledger),
        stopped=final["stopped"],
        reason=f"no held-out value: {capped}" if end is None else "",
    )
    return dataclasses.replace(found, guarantees=_guarantees(found))


def _selected(fitness: Estimate, n: int) -> Estimate:
    """The same numbers without a promise, since the candidate was chosen with these labels."""
    if n < 2:
        return fitness
    why = f"selected among {n} candidates with these labels: the value is too high on average, the interval promises nothing"
    failed = Assumption(name="labels not used to select", status="failed", detail=why)
    rests = (*fitness.guarantee.assumptions, failed)
    guarantee = dataclasses.replace(fitness.guarantee, kind=Kind.HEURISTIC, assumptions=rests)
    return dataclasses.replace(fitness, guarantee=guarantee, notes=(*fitness.notes, why))


def _totals(archive: SearchArchive) -> dict[str, int]:
    """Calls and tokens of the whole search, by what they were for."""
    paid = {"validation": "entry", "confirm": "challenge", "final": "end"}
    parts = {"design": [e["design"] for e in archive.of("proposal")]}
    parts |= {part: [e["cost"] for e in archive.of(kind)] for part, kind in paid.items()}
    every = [cost for costs in parts.values() for cost in costs]
    return {
        **{name: sum(cost.get(name, 0) for cost in every) for name in COSTS},
        **{f"{part}_calls": sum(c.get("calls", 0) for c in costs) for part, costs in parts.items()},
    }


def _guarantees(found: Found) -> dict[str, str]:
    level, challenges = f"{found.validation.confidence:g}", found.challenges
    kind = found.validation.guarantee.kind.label
    said = {"validation": f"{kind}: the winner was chosen with these labels"}
    if challenges:
        said["acceptance"] = str(challenges[-1]["guarantee"])
    if (met := found.held_out) is not None:
        what = "labels that neither design nor choice had met"
        said["held_out"] = f"{met.guarantee.kind.label} at {level}: {what}"
    if (pair := found.comparison) is not None:
        what = "paired, on the same held-out labels"
        said["comparison"] = f"{pair.guarantee.kind.label} at {level}: {what}"
    if challenges or pair is not None:
        what = "the winner is called better only by confirm or final labels"
        said["better"] = f"finite-sample at {level}: {what}"
    what = "which candidates are proposed, and whether a better one exists, carries no promise"
    return {**said, "strategy": f"heuristic: {what}"}


_INNER: dict[str, Any] = {"validation": Estimate, "held_out": Estimate, "comparison": Comparison}


def _revived(kind: type[_R], data: Mapping[str, Any] | None) -> _R | None:
    return None if data is None else kind.from_dict(data)


def _inner(result: Result | Workflow | None) -> dict[str, Any] | None:
    return None if result is None else result.to_dict()


_PLAIN = ("number", "origin", "generation", "change", "accepted", "problem")


def _entry_dict(entry: Entry) -> dict[str, Any]:
    return {
        **{name: getattr(entry, name) for name in _PLAIN},
        "parents": list(entry.parents),
        "cost": dict(entry.cost),
        "fitness": _inner(entry.fitness),
        "workflow": entry.workflow.to_dict(),
    }


def _entry_from(data: Mapping[str, Any]) -> Entry:
    return Entry(
        **{name: data[name] for name in _PLAIN},
        parents=tuple(data["parents"]),
        cost=data["cost"],
        fitness=_revived(Estimate, data["fitness"]),
        workflow=parse_workflow(data["workflow"]),
    )


@content.register
def _(result: Found) -> Content:
    from noracle.search.report import describe

    return describe(result)
