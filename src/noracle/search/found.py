"""What a search found: the record, and how it is read from the journal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from noracle._version import __version__
from noracle.errors import ArgumentError
from noracle.report import plots
from noracle.report.content import Content, content
from noracle.results import Assumption, Comparison, Estimate, Kind, NaN
from noracle.results.base import Result, encode
from noracle.search.candidates import Entry
from noracle.search.model import BudgetReached
from noracle.search.workflow import Workflow, parse_workflow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from noracle.search.archive import Archive, Event

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
