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

from noracle.counts import AccuracyCounts, JudgementCounts
from noracle.errors import ArgumentError, GuaranteeWarning
from noracle.evidence import Evidence
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
    _evidence("--answers", metavar="FILE", text="item, system, answer (CSV, JSONL, Parquet; globs); or logs of Inspect, lm-eval."),
]
JudgementsFile = Annotated[
    str | None, _evidence("--judgements", metavar="FILE", text="item, class, verdict (yes, no, unsure); rater, propensity, cost, at.")
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
ItemsFile = Annotated[str | None, _evidence("--items", metavar="FILE", text="item; n_classes, stratum, cluster, weight.")]
WideFile = Annotated[str | None, _evidence("--wide", metavar="FILE", text="One row an item, one column a system; see --systems.")]
SystemNames = Annotated[
    list[str] | None, _evidence("--systems", metavar="A,B", text="The systems, separated by commas; with --wide their columns.")
]
ItemColumn = Annotated[str | None, _evidence("--item", metavar="COL", text="With --wide: the column that names items.")]
LabelColumn = Annotated[str | None, _evidence("--label", metavar="COL", text="With --wide: the column with the true class.")]
RuledOutColumn = Annotated[str | None, _evidence("--ruled-out", metavar="COL", text="With --wide: the column with a class ruled out.")]
NClasses = Annotated[int | None, _evidence("--n-classes", metavar="K", text="Number of classes, where the items do not say.", panel=_ABOUT)]
Classes = Annotated[str | None, _evidence("--classes", metavar="A,B,C", text="All classes, where they are not 0 to K - 1.", panel=_ABOUT)]
ConflictChoice = Annotated[
    Conflicts, typer.Option("--conflicts", help="Items whose labels contradict each other: refuse or leave out.", rich_help_panel=_ABOUT)
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
    list[str] | None, _evidence("--counts", metavar="FILE", text="Counts of --save-counts (counts/1 JSON); several are added.")
]
ProjectAddress = Annotated[
    str | None,
    _evidence(
        "--project", metavar="DB#SLUG",
        text="A running project of noracle collect: sqlite:///noracle.db#slug, path#slug or postgresql://…#slug. The look is logged.",
    ),
]  # fmt: skip
ClusterChoice = Annotated[
    Literal["auto", "ignore"],
    typer.Option(
        "--clusters",
        help="auto: items of one cluster (column cluster of the items) may depend on each other, where that matters. ignore: they do not.",
        rich_help_panel=_ABOUT,
    ),
]
PopulationChoice = Annotated[
    Literal["answers", "beyond"], typer.Option("--population", help="These items, or more of their kind.", rich_help_panel=_ABOUT)
]
Confidence = Annotated[float, typer.Option("--confidence", metavar="P", help="Coverage that is promised, between 0 and 1.")]
Strict = Annotated[bool, typer.Option("--strict", help="A failed check is an error (exit code 1) instead of a weaker promise.")]
CheckRouting = Annotated[
    bool,
    typer.Option(
        "--check/--no-check", help="Check how labels were collected and write it into the guarantee (reads the judgements again)."
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Makes everything random reproducible.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.", rich_help_panel=_OUTPUT)]
Html = Annotated[str | None, typer.Option("--html", metavar="FILE", help="Also write a self-contained report.", rich_help_panel=_OUTPUT)]


def names(values: str | Sequence[str] | None) -> list[str] | None:
    """Names separated by commas, given once or several times; a name with a comma is quoted as in CSV."""
    if values is None:
        return None
    parts = [values] if isinstance(values, str) else list(values)
    found = [cell.strip() for row in csv.reader(parts, skipinitialspace=True) for cell in row]
    return [name for name in found if name] or None


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
    wide: str | None = None
    systems: Sequence[str] | None = None
    item: str | None = None
    label: str | None = None
    ruled_out: str | None = None
    n_classes: int | None = None
    classes: str | None = None
    conflicts: Conflicts = "error"
    repeats: Repeats = "mean"

    @property
    def given(self) -> bool:
        """Whether any table was named."""
        return any(v is not None for v in (self.answers, self.judgements, self.grades, self.items, self.wide))

    def load(self) -> Evidence:
        """The evidence; raises where the options do not fit together."""
        started = time.perf_counter()
        evidence = (self._from_wide() if self.wide is not None else self._from_tables()).with_repeats(self.repeats)
        log.info("evidence opened in %.2f s", time.perf_counter() - started)
        return evidence

    def _from_tables(self) -> Evidence:
        stray = [f"--{n}" for n, v in (("item", self.item), ("label", self.label), ("ruled-out", self.ruled_out)) if v is not None]
        if stray:
            raise ArgumentError(f"{', '.join(stray)} must go with --wide; got no --wide.")
        if self.answers is None and self.judgements is None and self.grades is None:
            raise ArgumentError(
                "evidence must be given: --answers and --judgements, or --grades, or --wide, or --counts where the verb takes it; got none."
            )
        return Evidence.from_tables(
            self.answers, self.judgements, self.items, grades=self.grades, n_classes=self.n_classes, classes=self._classes(),
            conflicts=self.conflicts,
        )  # fmt: skip

    def _from_wide(self) -> Evidence:
        tables = {"answers": self.answers, "judgements": self.judgements, "grades": self.grades, "items": self.items}
        stray = [f"--{name}" for name, value in tables.items() if value is not None]
        if stray:
            raise ArgumentError(f"--wide must come without {', '.join(stray)}; got both.")
        if not self.systems:
            raise ArgumentError("--wide must come with --systems, the columns with answers; got none.")
        evidence = Evidence.from_wide(
            self.wide,
            systems=list(self.systems),
            item=self.item,
            label=self.label,
            ruled_out=self.ruled_out,
            n_classes=self.n_classes,
            classes=self._classes(),
        )
        return dataclasses.replace(evidence, conflicts=self.conflicts)

    def _classes(self) -> list[int | str] | None:
        found = names(self.classes)
        if found is None:
            return None
        return [int(c) for c in found] if all(c.lstrip("-").isdecimal() for c in found) else list(found)

    def protocol(self, asked: Protocol | None) -> Protocol | None:
        """The protocol that was asked for; a wide table has columns that were filled separately."""
        return asked or ("sets" if self.wide is not None else None)


def policy_checks(
    evidence: Evidence | AccuracyCounts, *, counts: AccuracyCounts | None = None, judgements: JudgementCounts | None = None,
    systems: Sequence[str] | None = None, protocol: Protocol | None, seed: int, estimate: bool = False,
    clusters: Literal["auto", "ignore"] = "auto", population: Literal["answers", "beyond"] = "answers",
) -> list[Check]:  # fmt: skip
    """The checks of :mod:`noracle.accuracy.policy` that apply; a failure is also warned about, with the way out.

    With ``estimate`` nothing is said of failures that do not bear on an estimate of accuracy.
    """
    from noracle.accuracy.policy import bears_on_estimates, label_checks, remedy
    from noracle.results.guarantee import failed_checks

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
