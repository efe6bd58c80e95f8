"""``noracle conflict``: who cannot all be right?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from noracle.cli import _options as opt
from noracle.cli import _sketch as sk
from noracle.cli._options import Sources
from noracle.cli._output import Output, working
from noracle.cli.alarm import EXIT
from noracle.logic.conflict import least_violators, minimal_conflict
from noracle.logic.next_item import range_checks

EXAMPLE = """Example:

noracle conflict --answers answers.csv --spec "accuracy > 0.7" --least

Exit code 0: no conflict. 1: a set of systems cannot all keep the claim. 3: undecided."""


def command(
    spec: sk.SpecText,
    answers: opt.AnswersFile = None,
    judgements: opt.JudgementsFile = None,
    items: opt.ItemsFile = None,
    wide: opt.IsWide = False,
    systems: opt.SystemNames = None,
    item: opt.ItemColumn = None,
    label: opt.LabelColumn = None,
    ruled_out: opt.RuledOutColumn = None,
    columns: opt.ColumnNames = None,
    no_answer: opt.NoAnswer = None,
    invalid: opt.InvalidChoice = "wrong",
    sketch: sk.StoredSketches = None,
    save_sketch: sk.SaveSketch = None,
    known: sk.KnownFile = None,
    prevalence: sk.Prevalence = None,
    use_judgements: sk.UseJudgements = True,
    n_classes: opt.NClasses = None,
    classes: opt.Classes = None,
    conflicts: opt.ConflictChoice = "error",
    least: Annotated[
        bool,
        typer.Option("--least", help="Also: the least number of systems that break the claim."),
    ] = False,
    check_next: Annotated[
        bool,
        typer.Option("--check-next", help="Also: which item to check next, to settle the alarm."),
    ] = False,
    time_limit: sk.TimeLimit = 30.0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Find a smallest set of systems that cannot all be as good as claimed, with the proof for this
    set alone.
    """
    output = Output(title="Who cannot all be right?", as_json=as_json, html=html)
    sources = Sources(
        answers=answers,
        judgements=judgements,
        items=items,
        wide=wide,
        systems=opt.names(systems),
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
    bounds = sk.prevalences(prevalence)
    with working("counting"):
        gathered = sk.gather(
            sources, sketches=sketch, known=known, use_judgements=use_judgements, save=save_sketch
        )
    with working("proving"):
        proof = minimal_conflict(gathered, spec, prevalence=bounds, time_limit=time_limit)
        results: list[Any] = [proof]
        if least:
            results.append(
                least_violators(gathered, spec, prevalence=bounds, time_limit=time_limit)
            )
        if check_next:
            results.append(range_checks(gathered, spec, prevalence=bounds, time_limit=time_limit))
    output.emit(results, single=len(results) == 1)
    if EXIT[proof.status]:
        raise typer.Exit(EXIT[proof.status])
