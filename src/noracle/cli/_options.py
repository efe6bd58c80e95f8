"""Options that several verbs share, and how evidence is loaded from them.

Options are fields of dataclasses. :func:`with_options` shows typer a signature with a parameter for
each field, and calls the verb with the dataclasses filled in.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import inspect
import json
import logging
import operator
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

from noracle.cli._output import (
    MOST_CARDS,
    best_line,
    check_target,
    estimate_lines,
    in_columns,
    read_json,
    say,
    say_card,
    say_json,
    settings,
    working,
)
from noracle.counts import AccuracyCounts, check_n_classes
from noracle.errors import (
    ArgumentError,
    EvidenceError,
    GuaranteeWarning,
    NoracleError,
    require,
    require_evidence,
)
from noracle.evidence import Evidence
from noracle.evidence.classes import Invalid
from noracle.files import replacing
from noracle.results import Check, Estimate, Plan, Result, read_result

if TYPE_CHECKING:
    from noracle.collect.live.records import LiveView

log = logging.getLogger("noracle.cli")
_T = TypeVar("_T")

Protocol = Literal["question", "sets"]
Repeats = Literal["mean", "all", "any"]
Conflicts = Literal["error", "drop"]
Population = Literal["answers", "beyond"]
Clusters = Literal["auto", "ignore"]
File = Annotated[str | None, "FILE"]
Files = Annotated[list[str] | None, "FILE"]
Column = Annotated[str | None, "COL"]
Columns = Annotated[list[str] | None, "COL"]
Names = Annotated[list[str] | None, "A,B"]
Count = Annotated[int | None, "N"]
"""Types of options, with what their help calls a value."""
EVIDENCE, READING, OUTPUT = "Evidence", "Reading the evidence", "Output"


def option(
    text: str, metavar: str | None = None, default: Any = None, *names: str, **more: Any
) -> Any:
    """A field that is an option; it is named after the field, and required if the default is
    ``...``.
    """
    return _field(default, typer.Option(*names, metavar=metavar, help=text, **more))


def argument(text: str, metavar: str, default: Any = None, **more: Any) -> Any:
    """A field that is an argument."""
    return _field(default, typer.Argument(metavar=metavar, help=text, **more))


def _field(default: Any, info: Any) -> Any:
    value = dataclasses.MISSING if default is ... else default
    return dataclasses.field(default=value, metadata={"typer": info})


def panel(title: str) -> Callable[..., Any]:
    """:func:`option`, in this group of the help."""
    return functools.partial(option, rich_help_panel=title)


def without(*names: str) -> frozenset[str]:
    """For ``Annotated[Class, without(...)]``: fields that a verb does not offer."""
    return frozenset(names)


def with_options(**after: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a verb of a function whose parameters are dataclasses of options.

    ``name=other`` lists the option ``name`` behind ``other``; else they come field by field.
    """

    def expand(function: Callable[..., None]) -> Callable[..., None]:
        shown: dict[str, inspect.Parameter] = {}
        groups: dict[str, tuple[Any, list[str]]] = {}
        for name, hint in get_type_hints(function, include_extras=True).items():
            if name == "return":
                continue
            kind, *marks = get_args(hint) or (hint,)
            left_out: frozenset[str] = frozenset().union(*marks)
            fields = [f for f in dataclasses.fields(kind) if f.name not in left_out]
            groups[name] = kind, [f.name for f in fields]
            types = get_type_hints(kind, include_extras=True)
            for f in fields:
                annotation = _named(f, types[f.name])
                about: Any = {} if f.default is dataclasses.MISSING else {"default": f.default}
                by_name = inspect.Parameter.KEYWORD_ONLY
                shown[f.name] = inspect.Parameter(f.name, by_name, annotation=annotation, **about)
        order = list(shown)
        for name, other in after.items():
            order.remove(name)
            order.insert(order.index(other) + 1, name)

        @functools.wraps(function)
        def verb(**values: Any) -> None:
            filled = {
                name: kind(**{field: values[field] for field in fields})
                for name, (kind, fields) in groups.items()
            }
            function(**filled)

        verb.__signature__ = inspect.Signature([shown[name] for name in order])  # type: ignore[attr-defined]
        verb.__annotations__ = {name: shown[name].annotation for name in order}
        return verb

    return expand


def _named(field: dataclasses.Field[Any], hint: Any) -> Any:
    """The type of a field, and what typer shows of it; a switch has no opposite unless it is named."""
    info, kind = field.metadata["typer"], hint
    if get_origin(hint) is Annotated:
        kind, info.metavar = get_args(hint)
    if kind is bool and info.default is ...:
        info.default = f"--{field.name.replace('_', '-')}"
    return Annotated[kind, info]


def paragraphs(text: str) -> str:
    """An epilog for typer, which knows paragraphs only: each line becomes one; a line that begins
    with a space goes on with the one before.
    """
    return re.sub(r"\n(?! )", "\n\n", text).replace("\n ", "\n")


def confidence(default: float = 0.95) -> Any:
    """The option ``--confidence``."""
    return option("How often such an interval holds the truth, between 0 and 1.", "P", default)


def seed(default: int = 0) -> Any:
    """The option ``--seed``."""
    return option(
        "Seed of everything random: the same seed, the same result.", None, default, min=0
    )


def checking() -> Any:
    """The option ``--check``."""
    text = "Check how the labels were collected, and say so in the guarantee (reads the judgements again)."
    return option(text, None, True, "--check/--no-check")


def strictly() -> Any:
    """The option ``--strict``."""
    text = "Stop with exit code 1 when a check fails, instead of weakening the promise."
    return option(text, default=False)


_evidence, _reading, _output = panel(EVIDENCE), panel(READING), panel(OUTPUT)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where the results of a verb go; checked before the work, so that a wrong path is found first."""

    as_json: bool = _output("Print JSON and nothing else.", None, False, "--json")
    html: File = _output("Also write a self-contained report.")

    def __post_init__(self) -> None:
        check_target("html", self.html)

    def page(self, title: str, results: Sequence[Result], seed: int | None = None) -> None:
        """Write the page, if one is wanted."""
        if self.html is not None:
            from noracle.report.page import write_page

            with working("drawing the report"):
                write_page(self.html, results, title=title, command=settings.command, seed=seed)

    def emit(
        self,
        title: str,
        results: Sequence[Result],
        *,
        single: bool = False,
        seed: int | None = None,
        more: Sequence[Result] = (),
        after: Sequence[str] = (),
        found: dict[str, Any] | None = None,
    ) -> None:
        """Print the results and write the page.

        ``single`` prints one JSON object instead of a list, and ``found`` is what JSON says instead
        of the results; ``more`` are results that only the page shows; ``after`` are lines of text
        below the cards. Many systems are one table instead of cards.
        """
        self.page(title, [*results, *more], seed)
        if self.as_json:
            from noracle.results import results_dict

            told = results[0].to_dict() if single else results_dict(results)
            say_json(told if found is None else found)
            return
        systems = [r for r in results if isinstance(r, Estimate) and r.quantity == "accuracy"]
        if len(systems) > MOST_CARDS and not settings.verbose:
            results = [r for r in results if r not in systems]
            lines = [best_line(systems)] if settings.quiet else estimate_lines(systems)
            say_card("\n".join(lines))
        for result in results:
            say_card(in_columns(result))
        if settings.quiet:
            return
        seeds = [] if seed is None else [f"seed {seed}"]
        for line in (*after, *seeds, *([] if self.html is None else [f"report {self.html}"])):
            say(line)

    def tell(self, found: dict[str, Any], lines: Iterable[str], *, bold: bool = False) -> None:
        """Print one JSON value, or lines of text of which the first may stand out."""
        if self.as_json:
            say_json(found)
            return
        for i, line in enumerate(lines):
            say(line, style="bold" if bold and not i else "")


JsonOutput = Annotated[Output, without("html")]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records of estimates for other tools."""

    eval_results: File = _output(
        "Evaluation results (YAML) for .eval_results/ of the model's repository on the Hugging Face Hub."
    )
    benchmark: str | None = _output(
        "Of --eval-results: TIGER-Lab/MMLU-Pro:mmlu_pro.", "DATASET:TASK", show_default=False
    )
    events: File = _output("Events gen_ai.evaluation.result of OpenTelemetry (OTLP, JSON lines).")
    badge: File = _output("A badge (SVG) with the interval.")

    def __post_init__(self) -> None:
        for name in ("eval_results", "events", "badge"):
            check_target(name.replace("_", "-"), getattr(self, name, None))
        both = (self.eval_results is None) == (self.benchmark is None)
        require(both, "--eval-results and --benchmark must go together; got one of them.")
        named = self.benchmark is None or ":" in self.benchmark
        rule = "--benchmark must be the data set and its task, as in TIGER-Lab/MMLU-Pro:mmlu_pro"
        require(named, f"{rule}; got {self.benchmark!r}.")

    def write(self, results: Sequence[Result], rows: Sequence[Any] | None = None) -> list[str]:
        """Write what is wanted of the estimates; one line for each file. ``rows`` are those of the
        badge where they are no estimates.
        """
        from noracle.report import records
        from noracle.results import Estimate

        given = [r for r in results if isinstance(r, Estimate)]
        files: dict[str, tuple[str | None, Callable[[], str]]] = {
            "evaluation results": (self.eval_results, lambda: self._yaml(given)),
            "events": (self.events, lambda: json.dumps(records.evaluation_events(given)) + "\n"),
            "badge": (self.badge, lambda: records.badge(given if rows is None else rows)),
        }
        written = [(kind, path, text()) for kind, (path, text) in files.items() if path is not None]
        for _, path, text in written:
            with replacing(path) as temporary:
                temporary.write_text(text, encoding="utf-8", newline="\n")
        return [f"{kind} {path}" for kind, path, _ in written]

    def _yaml(self, given: Sequence[Any]) -> str:
        from noracle.report import records

        systems = {e.subject for e in given}
        require(len(systems) == 1, f"--eval-results must be of one system; got {sorted(systems)}.")
        dataset, _, task = (self.benchmark or "").partition(":")
        return records.as_yaml(records.eval_results(given, dataset=dataset, task=task))


def names(values: str | Sequence[str] | None) -> list[str] | None:
    """Names separated by commas, given once or several times; a name with a comma is quoted as in
    CSV.
    """
    if values is None:
        return None
    parts = [values] if isinstance(values, str) else list(values)
    found = [cell.strip() for row in csv.reader(parts, skipinitialspace=True) for cell in row]
    return [name for name in found if name] or None


def class_names(text: str | None) -> list[int | str] | None:
    """The classes that an option names: whole numbers where all of them are."""
    found = names(text)
    whole = found is not None and all(c.lstrip("-").isdecimal() for c in found)
    return [int(c) for c in found] if found is not None and whole else found  # type: ignore[return-value]


_COLUMNS = "--columns must be name=column, as in item=question_id"


def column_names(values: Sequence[str] | None, rule: str = _COLUMNS) -> dict[str, str]:
    """``name=column``, by commas or given several times."""
    found: dict[str, str] = {}
    for value in names(values) or ():
        name, mark, column = (part.strip() for part in value.partition("="))
        require(name and mark and column, f"{rule}; got {value!r}.")
        found[name] = column
    return found


def pairs(flag: str, values: Sequence[str] | None) -> dict[str, float] | None:
    """``name=number``, given several times."""
    found: dict[str, float] = {}
    rule = f"--{flag} must be name=number"
    for name, number in column_names(values, rule).items():
        try:
            found[name] = float(number)
        except ValueError:
            raise ArgumentError(f"{rule}; got '{name}={number}'.") from None
    return found if values else None


def combination(flag: str, value: str | None) -> str | dict[str, float] | None:
    """A name, or names with coefficients as in ``a=1,b=-1``."""
    return value if value is None or "=" not in value else pairs(flag, [value])


def whole_numbers(text: str, rule: str, least: int | None = None) -> list[int]:
    """Whole numbers separated by commas; else an error that says the rule."""
    try:
        found = [int(part) for part in names(text) or ()]
    except ValueError:
        found = []
    require(found and (least is None or min(found) >= least), f"{rule}; got {text!r}.")
    return found


def flags(given: Mapping[str, object]) -> list[str]:
    """The flags of the options that have a value."""
    return [f"--{name.replace('_', '-')}" for name, value in given.items() if value]


def add_up(parts: Sequence[_T]) -> _T:
    """Counts, added."""
    return functools.reduce(operator.add, parts)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the evidence is, and how to read it."""

    answers: File = _evidence(
        "item, system, answer (CSV, JSONL, Parquet; globs); or one row per item with a column for each system; or logs of Inspect, "
        "lm-eval."
    )
    judgements: File = _evidence(
        "item, class, verdict (yes, no, unsure); rater, propensity, cost, at."
    )
    grades: File = _evidence(
        "item, system, verdict (is this answer right? right, wrong, unsure); rater, propensity, at. Or results of promptfoo, "
        "DeepEval, Inspect, lm-eval, OpenTelemetry; FILE#METRIC chooses a metric."
    )
    raters: Names = _evidence("Only the judgements and grades of these raters; default all.", "A,B")
    items: File = _evidence("item; n_classes, stratum, cluster, weight.")
    wide: bool = _evidence(
        "The answers have one row per item; needed only if their columns do not show it.",
        default=False,
    )
    systems: Names = _evidence("The systems, separated by commas; in a wide file, their columns.")
    item: Column = _evidence("In a wide file: the column that names the items.")
    label: Column = _evidence("In a wide file: the column with the true class.")
    ruled_out: Column = _evidence("In a wide file: the column with a class that was ruled out.")
    columns: list[str] | None = _reading(
        "Your column names: item=question_id,system=model; for one file answers.item=id. Common names are recognised.",
        "NAME=COL",
    )
    no_answer: Names = _reading(
        "Values that mean no answer, such as -1,N/A; an empty cell always does."
    )
    invalid: Invalid = _reading(
        "An answer that is not a class of its item: count it as wrong and name its system, or refuse.",
        default="wrong",
    )
    n_classes: int | None = _reading("Number of classes, if the items do not say.", "K")
    classes: str | None = _reading("All classes, if they are not 0 to K - 1.", "A,B,C")
    conflicts: Conflicts = _reading(
        "Items whose labels contradict each other: stop, or leave them out.", default="error"
    )
    protocol: Protocol | None = _reading(
        "question: one random class was asked about an item, yes or no. sets: yes labels and no labels were collected separately, "
        "so that how often a class was asked tells nothing. Default: question where both verdicts or propensities are there."
    )
    clusters: Clusters = _reading(
        "auto: items of one cluster (column cluster of the items) may depend on each other, where that matters. ignore: they do not.",
        default="auto",
    )
    repeats: Repeats = _reading(
        "Items answered more than once (column repeat): the mean of the runs, right in all of them, or in any.",
        default="mean",
    )

    @property
    def tables(self) -> dict[str, str | None]:
        """The tables, by name."""
        return {n: getattr(self, n) for n in ("answers", "judgements", "grades", "items")}

    @property
    def given(self) -> bool:
        """Whether any table was named."""
        return any(path is not None for path in self.tables.values())

    @property
    def chosen(self) -> list[str] | None:
        """The systems that were named."""
        return names(self.systems)

    @property
    def known_protocol(self) -> Protocol | None:
        """The protocol; columns of a wide table were filled separately."""
        wide = self.label is not None or self.ruled_out is not None
        return self.protocol or ("sets" if wide else None)

    def load(self, *, labels: bool = False) -> Evidence:
        """The evidence; raises where the options do not fit together, and with ``labels`` where
        nobody said anything of the truth.
        """
        started = time.perf_counter()
        stray = flags({"item": self.item, "label": self.label, "ruled-out": self.ruled_out})
        alone = self.answers is None and (stray or (self.wide and self.grades is None))
        rule = "must go with --answers, a file with one row per item; got no --answers."
        require(not alone, f"{', '.join(stray or ['--wide'])} {rule}")
        rule = "--answers and --judgements, or --grades, or --counts where the verb takes it; got none."
        require(self.answers or self.judgements or self.grades, f"evidence must be given: {rule}")
        columns = column_names(self.columns)
        columns |= {} if self.item is None else {"answers.item": self.item}
        same = ("grades", "n_classes", "conflicts", "label", "ruled_out", "invalid")
        evidence = Evidence.from_tables(
            self.answers,
            self.judgements,
            self.items,
            classes=class_names(self.classes),
            columns=columns,
            wide=self.wide or None,
            systems=self.chosen,
            no_answer=names(self.no_answer) or (),
            **{name: getattr(self, name) for name in same},
        ).with_repeats(self.repeats)
        settings.notes += evidence.inferred
        if self.raters is not None:
            evidence = evidence.of_raters(names(self.raters) or ())
        if labels and evidence.judgements is None and evidence.grades is None:
            tables = "--judgements (item, class, verdict) or --grades (item, system, verdict)"
            others = "--label or --ruled-out with a column of a wide --answers file, or --counts"
            got = "got answers alone, which say nothing of the truth"
            raise ArgumentError(f"{tables} must be given, or {others}; {got}.")
        log.info("evidence opened in %.2f s", time.perf_counter() - started)
        return evidence


def only(*names: str) -> frozenset[str]:
    """For ``Annotated[Sources, only(...)]``: the fields that a verb offers."""
    return frozenset(f.name for f in dataclasses.fields(Sources)) - set(names)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Evidence that was counted before, or that a project collects."""

    counts: Files = _evidence("Counts of --save-counts (counts/1 JSON); several are added.")
    project: str | None = _evidence(
        "A running project of noracle collect: sqlite:///noracle.db#slug, path#slug or postgresql://…#slug. The look is logged.",
        "DB#SLUG",
    )

    def read(self) -> list[AccuracyCounts]:
        """The counts of each file."""
        return [read_counts(path) for path in self.counts or ()]

    def view(self, given: Sources, **others: object) -> LiveView | None:
        """What the project says now, which goes with no other option of evidence."""
        if self.project is None:
            return None
        from noracle.cli._collect import look_alone

        return look_alone(self.project, {**given.tables, "counts": self.counts, **others})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What systems are compared on, and what a failed check does."""

    population: Population = _reading("These items, or all items of their kind.", default="answers")
    confidence: float = confidence()
    check: bool = checking()
    strict: bool = strictly()
    seed: int = seed()

    def compared(self, given: Sources) -> tuple[Evidence, list[Check], dict[str, Any]]:
        """The evidence, its checks, and what a comparison of systems is told."""
        from noracle.accuracy.check import for_comparison

        evidence = given.load(labels=True)
        about: Any = {"clusters": given.clusters, "population": self.population}
        about["systems"] = given.chosen
        checks: list[Check] = []
        if self.check:
            how: Any = {"protocol": given.known_protocol, "seed": self.seed}
            checks = policy_checks(evidence, **how, **about)
        about |= {"confidence": self.confidence, "strict": self.strict}
        about["checks"] = for_comparison(checks) if self.check else "none"
        return evidence, checks, about


def policy_checks(
    evidence: Evidence | AccuracyCounts,
    *,
    estimate: bool = False,
    seed: int,
    **about: Any,
) -> list[Check]:
    """The checks of :mod:`noracle.accuracy.check` that apply; a failure is also warned about, with
    the way out.

    With ``estimate`` nothing is said of failures that do not bear on an estimate of accuracy.
    """
    from noracle.accuracy.check import bears_on_estimates, label_checks, remedy
    from noracle.results.base import failed_checks

    checks = label_checks(evidence, seed=seed, **about)
    for check in failed_checks(c for c in checks if not estimate or bears_on_estimates(c)):
        warnings.warn(f"{check.finding}. {remedy(check)}".strip(), GuaranteeWarning, stacklevel=2)
    return list(checks)


def read_plan(path: str, how: str) -> Plan:
    """A plan that ``noracle plan`` wrote; ``how`` are the options with which it does."""
    value = read_json(path, "--plan")
    plan = None
    with contextlib.suppress(NoracleError, KeyError, TypeError, ValueError, AttributeError):
        plan = read_result(value)
    if not isinstance(plan, Plan):
        rule, remedy = "must hold a plan (schema plan/1)", f"Write it with 'noracle plan {how}'."
        raise EvidenceError.of("--plan", rule, f"something else in {path!r}", remedy=remedy)
    return plan


def read_counts(path: str) -> AccuracyCounts:
    """Counts that ``--save-counts`` wrote, or a file of that shape with published numbers."""
    data = read_json(path, "--counts")
    shape = f"something else in {path!r}"
    rule = "must hold a JSON object with schema counts/1"
    require_evidence(isinstance(data, dict), "--counts", rule, shape)
    try:
        counts = AccuracyCounts.from_dict(data)
        _check_counts(counts)
    except NoracleError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"{shape} ({type(error).__name__}: {error})"
        rule, remedy = "must have the shape of schema counts/1", "Write it with --save-counts."
        raise EvidenceError.of("--counts", rule, why, remedy=remedy) from None
    return counts


def _check_counts(counts: AccuracyCounts) -> None:
    def hold(ok: bool, name: str, rule: str, got: object) -> None:
        require_evidence(ok, f"--counts{name}", rule, got)

    for tally, n in counts.tallies.items():
        size, out, verdict = tally.n_classes, tally.n_ruled_out, tally.verdict
        if size or tally.design == "uniform":  # grades of free text know of no classes
            check_n_classes(size)
        known = verdict in ("yes", "no", "unsure")
        hold(known, ": verdict", "must be yes, no or unsure", repr(verdict))
        some = verdict != "no" or not size or 1 <= out < size
        hold(some, ": n_ruled_out", f"must be in [1, {size})", repr(out))
        hold(n >= 0, ": n", "must not be negative", n)
    for cell, n in counts.items.items():
        if cell.n_classes:
            check_n_classes(cell.n_classes)
        answered, rule = counts.answered[cell], "must be between 0 and the number of items"
        hold(0 <= answered <= n, ": answered", rule, answered)
        hold(cell.weight > 0, ": weight", "must be positive", cell.weight)
    found = {cell.system for cell in counts.items} | {tally.system for tally in counts.tallies}
    named = bool(found) and all(isinstance(name, str) for name in found)
    hold(named, "", "must name at least one system", sorted(map(repr, found)))


def read_matrix(path: str | None) -> list[list[float]] | None:
    """A transition matrix: a JSON list of rows, or CSV rows of numbers; row = true class, column =
    ruled-out class.
    """
    if path is None:
        return None

    refused = functools.partial(EvidenceError.of, "--transition")
    if Path(path).suffix.lower() == ".json":
        rows = read_json(path, "--transition")
    else:
        try:
            with Path(path).open(encoding="utf-8-sig", newline="") as file:
                rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
        except OSError as error:
            raise refused("must be a readable file", f"{path!r} ({error.strerror})") from None
        except (UnicodeDecodeError, csv.Error):
            rule = "must be UTF-8 text with rows of numbers"
            raise refused(rule, f"other bytes in {path!r}") from None
    try:
        matrix = [[float(cell) for cell in row] for row in rows]
    except (TypeError, ValueError):
        other = f"something else in {path!r}"
        raise refused("must hold rows of numbers", other, remedy="Leave out headers.") from None
    sizes = [len(row) for row in matrix]
    if len(sizes) < 2 or set(sizes) != {len(sizes)}:
        raise refused("must be a square matrix", f"rows of lengths {sizes[:12]} in {path!r}")
    if any(min(row) < 0 or not abs(sum(row) - 1) <= 1e-6 or not max(row) <= 1 for row in matrix):
        rule = "must hold probabilities whose rows sum to 1"
        raise refused(rule, f"other numbers in {path!r}")
    return matrix


def values(options: Any, *left_out: str) -> dict[str, Any]:
    """The values of a dataclass of options by name, but for some."""
    found = (f.name for f in dataclasses.fields(options) if f.name not in left_out)
    return {name: getattr(options, name) for name in found}
