"""``noracle race``: stop testing the losers early."""

from __future__ import annotations

import typer

from noracle.accuracy import race_systems
from noracle.accuracy.check import for_comparison
from noracle.accuracy.estimate import Checks
from noracle.cli import _options as opt
from noracle.cli._options import Sources, log, policy_checks
from noracle.cli._output import Output, working

EXAMPLE = """Example:

noracle race --answers answers.csv --judgements judgements.csv --n-classes 10

noracle race --grades grades.csv

Exit code 3 says that the labels were used up before one system was left."""

_UNDECIDED = 3


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
    n_classes: opt.NClasses = None,
    classes: opt.Classes = None,
    conflicts: opt.ConflictChoice = "error",
    protocol: opt.ProtocolChoice = None,
    clusters: opt.ClusterChoice = "auto",
    repeats: opt.RepeatsChoice = "mean",
    population: opt.PopulationChoice = "answers",
    confidence: opt.Confidence = 0.95,
    check: opt.CheckRouting = True,
    strict: opt.Strict = False,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Drop systems that are certainly not the best, label by label, valid however often one looks.

    Labels are taken in the order of the column at, else of the rows.
    """
    output = Output(title="Race of systems", as_json=as_json, html=html)
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
    with working("racing"):
        evidence = sources.load(labels=True)
        about = {
            "protocol": sources.protocol(protocol),
            "clusters": clusters,
            "population": population,
            "seed": seed,
        }
        checks = policy_checks(evidence, systems=named, **about) if check else []  # type: ignore[arg-type]
        used: Checks = for_comparison(checks) if check else "none"
        log.info("the race begins")
        result = race_systems(
            evidence,
            systems=named,
            confidence=confidence,
            checks=used,
            clusters=clusters,
            population=population,
            strict=strict,
        )
    decided = len(result.leaders) == 1
    after = [] if decided else [f"labels used up: not separable among {', '.join(result.leaders)}"]
    output.emit([result], single=True, seed=seed if checks else None, more=checks, after=after)
    if not decided:
        raise typer.Exit(_UNDECIDED)
