"""``noracle compare``: which system is better?"""

from __future__ import annotations

from typing import Annotated

import typer

from noracle.accuracy import compare_systems
from noracle.accuracy.check import for_comparison
from noracle.accuracy.compare import Interval
from noracle.accuracy.estimate import Checks
from noracle.cli import _options as opt
from noracle.cli._options import Sources, policy_checks
from noracle.cli._output import Output, working

EXAMPLE = """Example:

noracle compare --answers answers.csv --judgements judgements.csv --n-classes 10 --systems agent-7,agent-8

noracle compare --grades grades.csv"""


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
    interval: Annotated[
        Interval,
        typer.Option(
            "--interval",
            help="auto and fixed-n hold at this number of labels, betting at every look; wald is asymptotic.",
        ),
    ] = "auto",
    confidence: opt.Confidence = 0.95,
    check: opt.CheckRouting = True,
    strict: opt.Strict = False,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Compare systems on the same labels; all differences hold together at --confidence.

    Systems that cannot be separated share places: that is an answer too, and the exit code stays 0.
    """
    output = Output(title="Which system is better?", as_json=as_json, html=html)
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
    with working("comparing"):
        evidence = sources.load(labels=True)
        about = {
            "protocol": sources.protocol(protocol),
            "clusters": clusters,
            "population": population,
            "seed": seed,
        }
        checks = policy_checks(evidence, systems=named, **about) if check else []  # type: ignore[arg-type]
        used: Checks = for_comparison(checks) if check else "none"
        result = compare_systems(
            evidence,
            systems=named,
            interval=interval,
            confidence=confidence,
            checks=used,
            clusters=clusters,
            population=population,
            strict=strict,
        )
    output.emit([result], single=True, seed=seed if checks else None, more=checks)
