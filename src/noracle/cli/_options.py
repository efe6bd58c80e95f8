"""Options that several verbs share, and how evidence is loaded from them."""

from __future__ import annotations

import csv
import dataclasses
import logging
import time
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from noracle.cli._output import settings
from noracle.counts import AccuracyCounts, JudgementCounts
from noracle.errors import ArgumentError, GuaranteeWarning
from noracle.evidence import Evidence
from noracle.evidence.classes import Invalid
from noracle.results import Check

log = logging.getLogger("noracle.cli")

Protocol = Literal["question", "sets"]
Repeats = Literal["mean", "all", "any"]
Conflicts = Literal["error", "drop"]

_EVIDENCE, _ABOUT, _OUTPUT = "Evidence", "Reading the evidence", "Output"


def _evidence(*names: str, metavar: str, text: str, panel: str = _EVIDENCE) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel)


AnswersFile = Annotated[
    str | None,
    _evidence(
        "--answers",
        metavar="FILE",
        text="item, system, answer (CSV, JSONL, Parquet; globs); or one row per item with a column for each system; or logs of Inspect, "
        "lm-eval.",
    ),
]
JudgementsFile = Annotated[
    str | None,
    _evidence(
        "--judgements",
        metavar="FILE",
        text="item, class, verdict (yes, no, unsure); rater, propensity, cost, at.",
    ),
]
GradesFile = Annotated[
    str | None,
    _evidence(
        "--grades",
        metavar="FILE",
        text="item, system, verdict (is this answer right? right, wrong, unsure); rater, propensity, at. Or results of promptfoo, "
        "DeepEval, Inspect, lm-eval, OpenTelemetry; FILE#METRIC chooses a metric.",
    ),
]
ItemsFile = Annotated[
    str | None,
    _evidence("--items", metavar="FILE", text="item; n_classes, stratum, cluster, weight."),
]
IsWide = Annotated[
    bool,
    typer.Option(
        "--wide",
        help="The answers have one row per item; needed only where their columns do not tell.",
        rich_help_panel=_EVIDENCE,
    ),
]
SystemNames = Annotated[
    list[str] | None,
    _evidence(
        "--systems",
        metavar="A,B",
        text="The systems, separated by commas; of a wide file their columns.",
    ),
]
ItemColumn = Annotated[
    str | None,
    _evidence("--item", metavar="COL", text="Of a wide file: the column that names items."),
]
LabelColumn = Annotated[
    str | None,
    _evidence("--label", metavar="COL", text="Of a wide file: the column with the true class."),
]
RuledOutColumn = Annotated[
    str | None,
    _evidence(
        "--ruled-out", metavar="COL", text="Of a wide file: the column with a class ruled out."
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    _evidence(
        "--columns",
        metavar="NAME=COL",
        panel=_ABOUT,
        text="Your names of columns: item=question_id,system=model; for one file answers.item=id. Common names are found without it.",
    ),
]
NoAnswer = Annotated[
    list[str] | None,
    _evidence(
        "--no-answer",
        metavar="A,B",
        text="What stands for no answer, as -1,N/A; empty always does.",
        panel=_ABOUT,
    ),
]
InvalidChoice = Annotated[
    Invalid,
    typer.Option(
        "--invalid",
        help="An answer that is no class of its item: count it as wrong, and say whose it is, or refuse.",
        rich_help_panel=_ABOUT,
    ),
]
NClasses = Annotated[
    int | None,
    _evidence(
        "--n-classes",
        metavar="K",
        text="Number of classes, where the items do not say.",
        panel=_ABOUT,
    ),
]
Classes = Annotated[
    str | None,
    _evidence(
        "--classes",
        metavar="A,B,C",
        text="All classes, where they are not 0 to K - 1.",
        panel=_ABOUT,
    ),
]
ConflictChoice = Annotated[
    Conflicts,
    typer.Option(
        "--conflicts",
        help="Items whose labels contradict each other: refuse or leave out.",
        rich_help_panel=_ABOUT,
    ),
]
ProtocolChoice = Annotated[
    Protocol | None,
    typer.Option(
        "--protocol",
        help="question: one random class was asked about an item, yes or no. sets: yes labels and no labels were collected separately, "
        "so that how often a class was asked tells nothing. Default: question where both verdicts or propensities are there.",
        rich_help_panel=_ABOUT,
    ),
]
RepeatsChoice = Annotated[
    Repeats,
    typer.Option(
        "--repeats",
        help="Items answered more than once (column repeat): the mean of the runs, right in all of them, or in any.",
        rich_help_panel=_ABOUT,
    ),
]
StoredCounts = Annotated[
    list[str] | None,
    _evidence(
        "--counts",
        metavar="FILE",
        text="Counts of --save-counts (counts/1 JSON); several are added.",
    ),
]
ProjectAddress = Annotated[
    str | None,
    _evidence(
        "--project",
        metavar="DB#SLUG",
        text="A running project of noracle collect: sqlite:///noracle.db#slug, path#slug or postgresql://…#slug. The look is logged.",
    ),
]
ClusterChoice = Annotated[
    Literal["auto", "ignore"],
    typer.Option(
        "--clusters",
        help="auto: items of one cluster (column cluster of the items) may depend on each other, where that matters. ignore: they do not.",
        rich_help_panel=_ABOUT,
    ),
]
PopulationChoice = Annotated[
    Literal["answers", "beyond"],
    typer.Option(
        "--population", help="These items, or more of their kind.", rich_help_panel=_ABOUT
    ),
]
Confidence = Annotated[
    float,
    typer.Option("--confidence", metavar="P", help="Coverage that is promised, between 0 and 1."),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="A failed check is an error (exit code 1) instead of a weaker promise."
    ),
]
CheckRouting = Annotated[
    bool,
    typer.Option(
        "--check/--no-check",
        help="Check how labels were collected and write it into the guarantee (reads the judgements again).",
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Makes everything random reproducible.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON and nothing else.", rich_help_panel=_OUTPUT)
]
Html = Annotated[
    str | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Also write a self-contained report.",
        rich_help_panel=_OUTPUT,
    ),
]


def names(values: str | Sequence[str] | None) -> list[str] | None:
    """Names separated by commas, given once or several times; a name with a comma is quoted as in
    CSV.
    """
    if values is None:
        return None
    parts = [values] if isinstance(values, str) else list(values)
    found = [cell.strip() for row in csv.reader(parts, skipinitialspace=True) for cell in row]
    return [name for name in found if name] or None


def column_names(values: Sequence[str] | None) -> dict[str, str]:
    """``name=column``, by commas or given several times."""
    found: dict[str, str] = {}
    for value in names(values) or ():
        name, mark, column = (part.strip() for part in value.partition("="))
        if not (name and mark and column):
            raise ArgumentError(
                f"--columns must be name=column, as in item=question_id; got {value!r}."
            )
        found[name] = column
    return found


def say_notes(notes: Sequence[str]) -> None:
    """Print the choices that were made while reading, one line each, when the work is done."""
    settings.notes += notes


def pairs(option: str, values: Sequence[str] | None) -> dict[str, float] | None:
    """``name=number``, given several times."""
    if not values:
        return None
    found: dict[str, float] = {}
    for value in names(values) or ():
        name, mark, number = value.partition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            mark = ""
        if not mark or not name.strip():
            raise ArgumentError(f"--{option} must be name=number; got {value!r}.")
    return found


def combination(option: str, value: str | None) -> str | dict[str, float] | None:
    """A name, or names with coefficients as in ``a=1,b=-1``."""
    if value is None or "=" not in value:
        return value
    return pairs(option, [value])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the evidence is, as the options say."""

    answers: str | None = None
    judgements: str | None = None
    grades: str | None = None
    items: str | None = None
    wide: bool = False
    systems: Sequence[str] | None = None
    item: str | None = None
    label: str | None = None
    ruled_out: str | None = None
    n_classes: int | None = None
    classes: str | None = None
    conflicts: Conflicts = "error"
    repeats: Repeats = "mean"
    columns: Sequence[str] | None = None
    no_answer: Sequence[str] | None = None
    invalid: Invalid = "wrong"

    @property
    def given(self) -> bool:
        """Whether any table was named."""
        return any(v is not None for v in (self.answers, self.judgements, self.grades, self.items))

    def load(self, *, labels: bool = False) -> Evidence:
        """The evidence; raises where the options do not fit together, and with ``labels`` where
        nobody said anything of the truth.
        """
        started = time.perf_counter()
        stray = [
            f"--{n}"
            for n, v in (("item", self.item), ("label", self.label), ("ruled-out", self.ruled_out))
            if v is not None
        ]
        if self.answers is None and (stray or (self.wide and self.grades is None)):
            raise ArgumentError(
                f"{', '.join(stray or ['--wide'])} must go with --answers, a file with one row per item; got no --answers."
            )
        if self.answers is None and self.judgements is None and self.grades is None:
            raise ArgumentError(
                "evidence must be given: --answers and --judgements, or --grades, or --counts where the verb takes it; got none."
            )
        columns = column_names(self.columns)
        columns |= {} if self.item is None else {"answers.item": self.item}
        evidence = Evidence.from_tables(
            self.answers,
            self.judgements,
            self.items,
            grades=self.grades,
            n_classes=self.n_classes,
            classes=self._classes(),
            conflicts=self.conflicts,
            columns=columns,
            wide=self.wide or None,
            systems=self.systems,
            label=self.label,
            ruled_out=self.ruled_out,
            no_answer=names(self.no_answer) or (),
            invalid=self.invalid,
        ).with_repeats(self.repeats)
        say_notes(evidence.inferred)
        if labels and evidence.judgements is None and evidence.grades is None:
            raise ArgumentError(
                "--judgements (item, class, verdict) or --grades (item, system, verdict) must be given, or --label or --ruled-out with a "
                "column of a wide --answers file, or --counts; got answers alone, which say nothing of the truth."
            )
        log.info("evidence opened in %.2f s", time.perf_counter() - started)
        return evidence

    def _classes(self) -> list[int | str] | None:
        found = names(self.classes)
        if found is None:
            return None
        return (
            [int(c) for c in found]
            if all(c.lstrip("-").isdecimal() for c in found)
            else list(found)
        )

    def protocol(self, asked: Protocol | None) -> Protocol | None:
        """The protocol that was asked for; columns of a wide table were filled separately."""
        return asked or ("sets" if self.label is not None or self.ruled_out is not None else None)


def policy_checks(
    evidence: Evidence | AccuracyCounts,
    *,
    counts: AccuracyCounts | None = None,
    judgements: JudgementCounts | None = None,
    systems: Sequence[str] | None = None,
    protocol: Protocol | None,
    seed: int,
    estimate: bool = False,
    clusters: Literal["auto", "ignore"] = "auto",
    population: Literal["answers", "beyond"] = "answers",
) -> list[Check]:
    """The checks of :mod:`noracle.accuracy.check` that apply; a failure is also warned about, with
    the way out.

    With ``estimate`` nothing is said of failures that do not bear on an estimate of accuracy.
    """
    from noracle.accuracy.check import bears_on_estimates, label_checks, remedy
    from noracle.results.base import failed_checks

    checks = label_checks(
        evidence,
        counts=counts,
        judgements=judgements,
        systems=systems,
        protocol=protocol,
        clusters=clusters,
        population=population,
        seed=seed,
    )
    for check in failed_checks(c for c in checks if not estimate or bears_on_estimates(c)):
        warnings.warn(f"{check.finding}. {remedy(check)}".strip(), GuaranteeWarning, stacklevel=2)
    return list(checks)


def seeded(check: Check, seed: int) -> Check:
    """The check with the seed that its simulated p-values came from."""
    return dataclasses.replace(check, diagnostics={**check.diagnostics, "seed": seed})
