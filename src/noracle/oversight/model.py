"""The records of the oversight report: what was found, what was done with it, and what follows.

Source      one table of evidence, and how it was recognised
Inventory   everything in a folder: sources, and what was ignored and why
Step        one question put to the evidence, with its results, or why it was not asked
Finding     two parts of the report compared with each other
SystemLine  one system on the first screen
NextStep    what to do next
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

from noracle.results import Guarantee, NaN, Result

SourceKind = Literal[
    "answers",
    "judgements",
    "grades",
    "items",
    "ratings",
    "scores",
    "preferences",
    "prices",
    "counts",
]
"""What a table says. Logs of Inspect and lm-eval are answers; ``scores`` are pilot scores of
raters; ``counts`` are stored counts.
"""
SOURCE_KINDS: tuple[SourceKind, ...] = get_args(SourceKind)

Form = Literal["long", "wide", "votes", "log", "json"]
Status = Literal["done", "not possible", "failed"]
"""``not possible``: the evidence does not allow it, and ``reason`` says what is missing.
``failed``: it stopped with an error.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FolderSettings:
    """What ``noracle.toml`` may say; everything has a default, and an unknown key is an error that
    names the nearest known one.

    ``confidence`` is for the whole report: every statement with a probability holds, together with
    all others, with this confidence.
    """

    title: str = ""
    confidence: float = 0.95
    seed: int = 0
    n_classes: int | None = None
    classes: tuple[int | str, ...] | None = None
    conflicts: Literal["error", "drop"] = "error"
    repeats: Literal["mean", "all", "any"] = "mean"
    """When an item is right that was answered more than once: accuracy and comparison count by it,
    everything else uses the first run.
    """
    protocol: Literal["question", "sets"] | None = None
    files: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Kind of source to paths or globs, relative to the folder; these are not guessed."""
    ignore: tuple[str, ...] = ()
    """Globs of files that are no evidence."""
    claim: str = ""
    """What graders are held to, in the words of ``noracle alarm --spec``, as in 'accuracy > 1/2';
    empty: nothing, so there is no alarm.
    """
    trained_on_annotators: Literal["yes", "no", "unknown"] = "unknown"
    margin: float = 0.0
    target: str = ""
    """The gold rater of the scores."""
    prices: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Price of one label of a kind (ordinary, complementary, question, targeted) or of one score of
    a rater.
    """
    half_width: float = 0.02
    """The precision that the next labels are planned for."""
    budget: float | None = None
    time_limit: float = 30.0
    """Seconds for each proof from answers alone."""
    wide: Mapping[str, Mapping[str, str | tuple[str, ...]]] = dataclasses.field(
        default_factory=dict
    )
    """Columns of wide tables, by kind: item, systems, raters, label, ruled_out; becomes
    ``Source.options``.
    """
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The names of columns in the tables: ``item`` for every table, ``answers.item`` for one."""
    no_answer: tuple[str, ...] = ()
    """What stands for no answer, beside nothing at all."""
    invalid: Literal["wrong", "refuse"] = "wrong"
    """What becomes of an answer that is no class of its item."""
    drift: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What accuracy is compared with as labels come: arguments of ``detect_drift``, floor or
    reference among them; empty: nothing, so no fall is looked for.
    """


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One table of evidence: all files that together hold it, and how it was recognised.

    Examples
    --------
    >>> Source(kind="answers", paths=("answers.csv",), why="columns item, system, answer").form
    'long'
    """

    kind: SourceKind
    paths: tuple[str, ...]
    """Paths as given or found, sorted; several are partitions of one table."""
    why: str
    """In plain words, as 'columns item, system, answer' or 'named in noracle.toml'."""
    columns: tuple[str, ...] = ()
    form: Form = "long"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What a reader must know beside the path: for wide tables item, systems or raters, label,
    ruled_out.
    """
    n_rows: int | None = None
    """Rows, where the file knows without being read (Parquet), else None until it was counted."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """A file that is no evidence here, and why."""

    path: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything that was found; nothing is left out silently."""

    place: str
    """The folder or files, as given."""
    sources: tuple[Source, ...]
    unused: tuple[Unused, ...] = ()
    settings: FolderSettings = dataclasses.field(default_factory=FolderSettings)
    notes: tuple[str, ...] = ()
    """Visible choices that were made, one line each."""

    def of(self, kind: SourceKind) -> tuple[Source, ...]:
        """The sources of one kind."""
        return tuple(s for s in self.sources if s.kind == kind)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One question put to the evidence.

    Examples
    --------
    >>> step = Step(name="mean", question="What is the mean of the gold rater?", status="not possible", reason="There are no scores.")
    >>> step.results, step.error_rate
    ((), 0.0)
    """

    name: str
    """A short fixed word: accuracy, comparison, checks, drift, ranges, alarm, conflict, ceiling,
    agreement, certificate, mean, preference, labels, budget, route.
    """
    question: str
    """As a user would ask it: 'How accurate is each system?'"""
    status: Status
    results: tuple[Result, ...] = ()
    reason: str = ""
    """Why it was not possible or failed, and what would make it possible."""
    command: str = ""
    """The command line that re-makes exactly these results."""
    error_rate: float = 0.0
    """What this step spends of the error rate of the report; 0 for what holds without probability.
    """


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Two parts of the report compared with each other.

    Examples
    --------
    >>> Finding(name="range", agrees=True, statement="[0.83, 0.94] lies inside [0.18, 0.95].", between=("accuracy", "ranges")).agrees
    True
    """

    name: str
    agrees: bool
    statement: str
    """One sentence with the numbers; where they disagree it says what follows, and from which
    assumptions.
    """
    between: tuple[str, ...]
    """The names of the steps."""
    subject: str = ""
    """The system or rater, where there is one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SystemLine:
    """One system on the first screen.

    Examples
    --------
    >>> line = SystemLine(system="agent-1", value=0.893, low=0.829, high=0.936)
    >>> f"{line.system}: {line.low} to {line.high}"
    'agent-1: 0.829 to 0.936'
    """

    system: str
    value: float = NaN
    low: float = NaN
    high: float = NaN
    guarantee: Guarantee | None = None
    rests_on: str = ""
    """Plain words: what the number rests on, failed assumptions first."""
    statement: str = ""
    """One sentence: what can truthfully be said."""
    next_step: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """What to do next, the best first.

    Examples
    --------
    >>> NextStep(statement="Label more items", reason="The interval is ± 0.053.", command="noracle plan …").statement
    'Label more items'
    """

    statement: str
    reason: str
    command: str = ""
    cost: float | None = None
