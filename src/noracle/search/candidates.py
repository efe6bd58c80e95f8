"""The records of a search: what is tried, what came out, what a strategy may see of it, and where
that puts each entry. The scale of the scores never matters.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np

from noracle.evidence.replies import State
from noracle.results import Estimate
from noracle.search.model import Calls, Usage
from noracle.search.workflow import Workflow

COSTS = ("calls", "input_tokens", "output_tokens")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a candidate made of one item: a class (None: no answer), how that came, and what it
    took.

    Examples
    --------
    >>> Outcome(item=1, answer=None, state="refused").state
    'refused'
    """

    item: int | str
    answer: int | None
    state: State
    calls: int = 0
    usage: Usage = dataclasses.field(default_factory=Usage)
    repeat: int = 0

    def to_dict(self) -> dict[str, Any]:
        """One flat record, as journals and tables hold it."""
        own = {name: getattr(self, name) for name in ("item", "repeat", "answer", "state", "calls")}
        return {**own, **dataclasses.asdict(self.usage)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read back what :meth:`to_dict` wrote; other fields are passed over."""
        own = {name: data[name] for name in ("item", "repeat", "answer", "state", "calls")}
        return cls(**own, usage=Usage(data["input_tokens"], data["output_tokens"]))


def outcome_columns(outcomes: Iterable[Outcome]) -> dict[str, list[Any]]:
    """Outcomes as columns, which takes a third of the space of rows."""
    rows = [outcome.to_dict() for outcome in outcomes]
    names = Outcome(item=0, answer=None, state="errored").to_dict()
    return {name: [row[name] for row in rows] for name in names}


def cost_of(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Calls and tokens of outcomes."""
    table = outcome_columns(outcomes)
    return {name: sum(table[name]) for name in COSTS}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A workflow to try. ``parents`` are numbers of archive entries; ``change`` says in one line
    what is new.

    ``problem`` says that no workflow could be made: the generation is used up and becomes an entry
    with that problem (``workflow`` is then the parent, and is not run). ``share`` < 1 asks for the
    first part of the validation items only, in one fixed order, so that a larger share holds the
    smaller one (successive halving).

    Examples
    --------
    >>> from noracle.search.workflow import load_workflow
    >>> Proposal(workflow=load_workflow("cot"), parents=(0,), change="think first").share
    1.0
    """

    workflow: Workflow
    parents: tuple[int, ...] = ()
    change: str = ""
    thought: str = ""
    problem: str = ""
    share: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One candidate in the archive. ``fitness`` is an estimate on the validation labels;
    ``problem`` says why there is none.

    ``outcomes`` holds the answers to the validation items (several repeats where the strategy asks
    for them), so that any later estimator can be run again. ``accepted`` says that it became the
    incumbent.

    Examples
    --------
    >>> from noracle.search.workflow import load_workflow
    >>> entry = Entry(number=0, workflow=load_workflow("direct"), origin="baseline")
    >>> entry.workflow.name, entry.fitness is None
    ('direct', True)
    """

    number: int
    workflow: Workflow
    origin: str
    parents: tuple[int, ...] = ()
    change: str = ""
    generation: int = 0
    outcomes: tuple[Outcome, ...] = ()
    fitness: Estimate | None = None
    accepted: bool = False
    problem: str = ""
    cost: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Scored:
    """What a strategy sees of an entry: its score and standard error on *some* scale, and what was
    tried.

    A strategy may only use :func:`standardised` scores, so that q, A and 100·A lead to the same
    choices. ``excluded`` lists validation items whose answer an expert excluded, with that answer;
    ``unanswered`` those without a valid one. Never the truth.

    Examples
    --------
    >>> from noracle.search.workflow import load_workflow
    >>> Scored(Entry(number=0, workflow=load_workflow("direct"), origin="baseline"), score=0.6, se=0.05).score
    0.6
    """

    entry: Entry
    score: float
    se: float
    excluded: tuple[tuple[int | str, int], ...] = ()
    unanswered: tuple[int | str, ...] = ()


def standardised(scored: Sequence[Scored]) -> np.ndarray[Any, Any]:
    """(score - best)/typical standard error: at most 0, and the same on every scale.

    One common standard error (the median of those above 0) is used, so that the order is that of
    the scores. Where none is known, the spread of the scores takes its place; where all are equal,
    zeros.

    Examples
    --------
    >>> from noracle.search.workflow import load_workflow
    >>> entry = Entry(number=0, workflow=load_workflow("direct"), origin="baseline")
    >>> standardised([Scored(entry, 0.6, 0.05), Scored(entry, 0.7, 0.05)]).round(6).tolist()
    [-2.0, 0.0]
    """
    scores = np.array([s.score for s in scored], dtype=float)
    errors = np.array([s.se for s in scored], dtype=float)
    errors = errors[np.isfinite(errors) & (errors > 0)]
    spread = float(np.std(scores)) if scores.size else 0.0
    typical = float(np.median(errors)) if errors.size else spread
    if not typical > 0:
        return np.zeros(len(scores))
    return np.asarray((scores - scores.max(initial=-np.inf)) / typical)


class Strategy(Protocol):
    """What to try next. State is only what :meth:`tell` was told and the seed, so that a search
    that was killed goes on.
    """

    name: str

    async def ask(
        self, generation: int, rng: np.random.Generator, designer: Calls | None
    ) -> Proposal | None:
        """The next workflow, or None when the strategy is done. A ``designer`` is a model that
        writes workflows.
        """

    def tell(self, scored: Scored) -> None:
        """Take note of an entry that was evaluated; also called for the baselines, and again for
        all entries after a restart.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """An entry and how many standard errors it lies below the best one (0 for the best)."""

    scored: Scored
    z: float

    @property
    def number(self) -> int:
        """The number of the entry."""
        return self.scored.entry.number


class Told:
    """All that a strategy was told, by entry: telling an entry again changes nothing."""

    room = math.inf
    """The most calls per item that the budget allows the next workflow; the search says so."""

    def __init__(self) -> None:
        self._by_number: dict[int, Scored] = {}

    def tell(self, scored: Scored) -> None:
        """Take note of an entry."""
        self._by_number[scored.entry.number] = scored

    def told(self) -> list[Scored]:
        """Everything, by number."""
        return [self._by_number[k] for k in sorted(self._by_number)]

    def digests(self) -> dict[str, int]:
        """The workflows that were tried, with the number of their first entry."""
        entries = [s.entry for s in reversed(self.told()) if not s.entry.problem]
        return {entry.workflow.digest: entry.number for entry in entries}

    def standings(self) -> list[Standing]:
        """Where the entries that have a score stand, by number."""
        return stand(self.told())

    def best(self) -> Workflow | None:
        """The workflow that stands best (the first of several), or the first that was told."""
        ranked = [s.scored for s in rank(self.standings())]
        first = (ranked or self.told())[:1]
        return first[0].entry.workflow if first else None


def stand(scored: Sequence[Scored]) -> list[Standing]:
    """Standardised scores of the entries that have one.

    Numbers are settled at nine decimals, far below anything that matters, so that the last bits of
    q, A and 100·A cannot tell apart what is equal: the choices are then the same, bit for bit.
    """
    useful = [s for s in scored if not s.entry.problem and math.isfinite(s.score)]
    scores = np.array([s.score for s in useful])
    flat = scores.size and float(np.ptp(scores)) <= 1e-12 * float(np.abs(scores).max(initial=0.0))
    z = np.zeros(len(useful)) if flat else np.round(standardised(useful), 9) + 0.0
    return [Standing(s, float(v)) for s, v in zip(useful, z, strict=True)]


def rank(standings: Sequence[Standing]) -> list[Standing]:
    """Best first; the earlier one where two are equal."""
    return sorted(standings, key=lambda s: (-s.z, s.number))


def mixture(
    z: Sequence[float], *, uniform: float = 0.3, sharpness: float = 1.0
) -> np.ndarray[Any, Any]:
    r"""Probabilities of being worked on: ``uniform/n + (1 - uniform)·softmax(sharpness·z)``.

    z is in standard errors. AFlow's 0.2 per percentage point is a ``sharpness`` of 1 where the
    standard error is five points, as with some hundred ordinary labels; on q, on A and on
    percentages that rule itself would give three different searches.

    Examples
    --------
    >>> mixture([0.0, -1.0, -1.0]).round(3).tolist()
    [0.503, 0.248, 0.248]
    """
    values = np.asarray(z, dtype=float)
    weights = np.exp(sharpness * (values - values.max()))
    return np.asarray(uniform / values.size + (1 - uniform) * weights / weights.sum())


def pick(
    standings: Sequence[Standing],
    rng: np.random.Generator,
    *,
    uniform: float = 0.3,
    sharpness: float = 1.0,
) -> Standing:
    """One entry, drawn from the mixture."""
    p = mixture([s.z for s in standings], uniform=uniform, sharpness=sharpness)
    place = np.searchsorted(np.cumsum(p), rng.random() * p.sum(), side="right")
    return standings[min(int(place), len(standings) - 1)]
