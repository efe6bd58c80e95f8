"""``noracle check``: were the labels collected fairly?"""

from __future__ import annotations

import functools
import operator
from typing import Annotated, Literal

import typer

from noracle.accuracy import check_routing, check_sensitivity, range_unsure
from noracle.accuracy.check import label_checks
from noracle.cli import _options as opt
from noracle.cli._options import Sources, seeded
from noracle.cli._output import Output, read_counts, working
from noracle.counts import AccuracyCounts, count_accuracy, count_judgements
from noracle.errors import ArgumentError
from noracle.results import Check, Ranges

EXAMPLE = """Example:

noracle check --answers answers.csv --judgements judgements.csv --n-classes 10 --at-least 0.7 --system agent-7

noracle check --answers answers.csv --grades grades.csv

Exit code 1 says that a check failed."""

By = Literal["all", "rater", "time"]


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
    system: Annotated[
        str | None, typer.Option("--system", metavar="S", help="One system only; default all.")
    ] = None,
    n_classes: opt.NClasses = None,
    classes: opt.Classes = None,
    conflicts: opt.ConflictChoice = "error",
    protocol: opt.ProtocolChoice = None,
    by: Annotated[
        By, typer.Option("--by", help="Look at the routing as a whole, by rater, or by time.")
    ] = "all",
    at_least: Annotated[
        float | None,
        typer.Option(
            "--at-least", metavar="A", help="How wrong may verdicts be before this falls?"
        ),
    ] = None,
    at_most: Annotated[
        float | None,
        typer.Option("--at-most", metavar="A", help="How wrong may verdicts be before this falls?"),
    ] = None,
    confidence: opt.Confidence = 0.95,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Check how the labels were collected, all that applies; with --at-least or --at-most also
    sensitivity.

    Where verdicts are unsure, the range of the accuracy over all that they may hide stands beside.
    """
    output = Output(title="Were the labels collected fairly?", as_json=as_json, html=html)
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
        columns=columns,
        no_answer=no_answer,
        invalid=invalid,
    )
    others = {
        "answers": answers,
        "judgements": judgements,
        "grades": grades,
        "items": items,
        "counts": counts,
        "at-least": at_least,
        "at-most": at_most,
    }
    view = None
    if project is not None:
        from noracle.cli._collect import look_alone

        view = look_alone(project, others)
    if view is not None:
        if not view.checks:
            raise ArgumentError("the project must allow at least one check; it has none yet.")
        output.emit(list(view.checks))
        if not all(c.passed for c in view.checks):
            raise typer.Exit(1)
        return
    if at_least is not None and at_most is not None:
        raise ArgumentError("--at-least or --at-most must be given, not both; got both.")
    results: list[Check | Ranges] = []
    wanted = [system] if system is not None else named
    parts = [read_counts(path) for path in counts or ()]
    with working("checking"):
        evidence, asked = None, None
        if sources.given or not parts:
            evidence = sources.load()
            bare = evidence.answers is None and evidence.grades is None
            own = None if bare else count_accuracy(evidence, systems=None if parts else wanted)
            parts += [] if own is None else [own]
            if evidence.judgements is not None:
                asked = count_judgements(evidence, by_rater=False, counts=own)
        total = functools.reduce(operator.add, parts) if parts else None
        about = total if evidence is None else evidence
        if about is not None:
            told = label_checks(
                about,
                counts=total,
                judgements=asked,
                systems=wanted,
                protocol=sources.protocol(protocol),
                seed=seed,
            )
            results += [
                seeded(check_routing(evidence, by=by, seed=seed), seed)
                if c.name == "routing" and by != "all" and evidence
                else c
                for c in told
            ]
        if total is not None:
            results += what_if(
                total,
                wanted or list(total.systems),
                at_least=at_least,
                at_most=at_most,
                confidence=confidence,
            )
    if not results:
        raise ArgumentError(
            "judgements must allow at least one check; got none that applies. Pass --answers too, or --protocol question."
        )
    output.emit(results, seed=seed)
    if any(isinstance(r, Check) and not r.passed for r in results):
        raise typer.Exit(1)


def what_if(
    counts: AccuracyCounts,
    systems: list[str],
    *,
    at_least: float | None,
    at_most: float | None,
    confidence: float,
) -> list[Check | Ranges]:
    """Sensitivity and the range of unsure verdicts, system by system."""
    of = {name: counts.of(name) for name in systems}
    results: list[Check | Ranges] = []
    if at_least is not None or at_most is not None:
        results += [
            check_sensitivity(c, at_least=at_least, at_most=at_most, confidence=confidence)
            for c in of.values()
        ]
    for own in of.values():
        recorded = any(t.design == "recorded" for t in own.tallies)
        if own.total(verdict="unsure") and not recorded:
            results.append(range_unsure(own, confidence=confidence))
    return results
