"""``noracle estimate``: how accurate is each system?"""

from __future__ import annotations

import time
from typing import Annotated, Literal

import typer

from noracle.accuracy.estimate import Interval, Method, estimate_accuracy
from noracle.cli import _options as opt
from noracle.cli._options import Sources, log, policy_checks
from noracle.cli._output import Output, check_target, read_counts, read_matrix, working, write_json
from noracle.counts import AccuracyCounts, count_accuracy, count_judgements
from noracle.errors import ArgumentError
from noracle.results import Check, Side

EXAMPLE = """Example:

noracle estimate --answers answers.csv --judgements judgements.csv --n-classes 10 --html report.html

noracle estimate --grades grades.csv

noracle estimate --counts monday.json --counts tuesday.json --system agent-7 --json

noracle estimate --project noracle.db#survey"""


def command(
    answers: opt.AnswersFile = None,
    judgements: opt.JudgementsFile = None,
    grades: opt.GradesFile = None,
    items: opt.ItemsFile = None,
    wide: opt.IsWide = False,
    systems: opt.SystemNames = None,
    item: opt.ItemColumn = None,
    label: opt.LabelColumn = None,
    ruled_out: opt.RuledOutColumn = None,
    columns: opt.ColumnNames = None,
    no_answer: opt.NoAnswer = None,
    invalid: opt.InvalidChoice = "wrong",
    counts: opt.StoredCounts = None,
    project: opt.ProjectAddress = None,
    save_counts: Annotated[
        str | None,
        typer.Option("--save-counts", metavar="FILE", help="Write the counts, to be added later."),
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", metavar="S", help="One system only; default all.")
    ] = None,
    n_classes: opt.NClasses = None,
    classes: opt.Classes = None,
    conflicts: opt.ConflictChoice = "error",
    protocol: opt.ProtocolChoice = None,
    clusters: opt.ClusterChoice = "auto",
    repeats: opt.RepeatsChoice = "mean",
    method: Annotated[
        Method | None,
        typer.Option("--method", help="Default ml; scores where labels were not uniform."),
    ] = None,
    interval: Annotated[
        Interval,
        typer.Option(
            "--interval", help="auto: the narrowest with a promise that the design allows."
        ),
    ] = "auto",
    confidence: opt.Confidence = 0.95,
    side: Annotated[
        Side, typer.Option("--side", help="Interval on both sides, or a lower or upper limit only.")
    ] = "two-sided",
    population: Annotated[
        Literal["answers", "beyond"],
        typer.Option("--population", help="Accuracy on these items, or on more of their kind."),
    ] = "answers",
    weight: Annotated[
        float,
        typer.Option("--weight", metavar="W", help="For method weighted: the ordinary share."),
    ] = 0.5,
    transition: Annotated[
        str | None,
        typer.Option(
            "--transition",
            metavar="FILE",
            help="Matrix P(ruled out | true class), CSV or JSON; rows true.",
        ),
    ] = None,
    false_no: Annotated[
        float, typer.Option("--false-no", metavar="P", help="Known rate of no to a right answer.")
    ] = 0.0,
    false_yes: Annotated[
        float, typer.Option("--false-yes", metavar="P", help="Known rate of yes to a wrong answer.")
    ] = 0.0,
    guess: Annotated[
        Literal["leave-one-out", "column"],
        typer.Option(
            "--guess",
            help="For recorded propensities: the share of yes on other items, or the column guess of the answers.",
        ),
    ] = "leave-one-out",
    check: opt.CheckRouting = True,
    strict: opt.Strict = False,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Estimate the accuracy of each system, with an interval and what it rests on.

    An item without an answer counts as wrong. Without --system all systems are estimated, each at
    --confidence.
    """
    output = Output(title="Accuracy without an answer key", as_json=as_json, html=html)
    check_target("save-counts", save_counts)
    others = {
        "answers": answers,
        "judgements": judgements,
        "grades": grades,
        "items": items,
        "counts": counts,
        "save-counts": save_counts,
        "method": method,
        "interval": None if interval == "auto" else interval,
        "transition": transition,
    }
    view = None
    if project is not None:
        from noracle.cli._collect import look_alone

        view = look_alone(project, others)
    if view is not None:
        found = [s.estimate for s in view.systems if system in (None, s.name)]
        if not found:
            raise ArgumentError(
                f"--system must be a system of the project; got {system!r}."
                if system
                else "the project must have a system."
            )
        output.emit(found, single=system is not None, more=list(view.checks))
        return
    named = opt.names(systems)
    sources = Sources(
        answers=answers,
        judgements=judgements,
        grades=grades,
        items=items,
        wide=wide,
        systems=named,
        item=item,
        label=label,
        ruled_out=ruled_out,
        n_classes=n_classes,
        classes=classes,
        conflicts=conflicts,
        repeats=repeats,
        columns=columns,
        no_answer=no_answer,
        invalid=invalid,
    )
    matrix = read_matrix(transition)
    # A wide table needs its columns named; else --systems chooses among the systems. Stored counts
    # hold all systems.
    wanted = [system] if system is not None else named
    checks: list[Check] = []
    parts = [read_counts(path) for path in counts or ()]
    order: list[int | str] | None = None
    evidence, asked = None, None
    if sources.given or not parts:
        with working("counting"):
            evidence = sources.load(labels=True)
            order = None if evidence.classes is None else list(evidence.classes)
            started = time.perf_counter()
            chosen = None if save_counts or parts else wanted
            by_cluster = (
                clusters == "auto"
                and evidence.items is not None
                and "cluster" in evidence.items.columns
            )
            by = {
                "by_class": matrix is not None,
                "by_guess": guess == "column",
                "by_cluster": by_cluster,
            }
            parts.append(count_accuracy(evidence, systems=chosen, **by))
            log.info("answers and labels counted in %.2f s", time.perf_counter() - started)
            if check and evidence.judgements is not None:
                asked = count_judgements(evidence, by_rater=False, counts=parts[-1])
    total = _added(parts)
    if check:
        checks = policy_checks(
            total if evidence is None else evidence,
            counts=total,
            judgements=asked,
            systems=wanted,
            protocol=sources.protocol(protocol),
            seed=seed,
            estimate=True,
            clusters=clusters,
            population=population,
        )
    if save_counts is not None:
        write_json(save_counts, total.to_dict())
    with working("estimating"):
        results = [
            estimate_accuracy(
                total.of(name),
                repeats=repeats if sources.given else None,
                method=method,
                interval=interval,
                confidence=confidence,
                side=side,
                population=population,
                weight=weight,
                transition=matrix,
                classes=order,
                false_no=false_no,
                false_yes=false_yes,
                guess=guess,
                checks=checks if check else "none",
                clusters=clusters,
                strict=strict,
                seed=seed,
            )
            for name in wanted or total.systems
        ]
    output.emit(results, single=system is not None, seed=seed if checks else None, more=checks)


def _added(parts: list[AccuracyCounts]) -> AccuracyCounts:
    total = parts[0]
    for other in parts[1:]:
        total = total + other
    if not total.systems:
        raise ArgumentError("evidence must hold at least one system; got none.")
    return total
