"""``noracle ranges``: what can each accuracy still be?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from noracle.cli import _options as opt
from noracle.cli import _sketch as sk
from noracle.cli._options import Sources
from noracle.cli._output import Output, working
from noracle.logic.next_item import range_checks
from noracle.logic.ranges import range_accuracies

EXAMPLE = """Example:

noracle ranges --answers answers.csv --given "accuracy of gpt > 1/2; accuracy of claude > 1/2" --prevalence spam=200..260

Exit code 1: no answer key satisfies what is given. 3: an end was not found in time and is an outer bound."""


def command(
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
    given: Annotated[
        str | None,
        typer.Option(
            "--given", metavar="TEXT", help="Claims that are trusted, as in noracle alarm."
        ),
    ] = None,
    known: sk.KnownFile = None,
    prevalence: sk.Prevalence = None,
    use_judgements: sk.UseJudgements = True,
    n_classes: opt.NClasses = None,
    classes: opt.Classes = None,
    conflicts: opt.ConflictChoice = "error",
    only: Annotated[
        str | None,
        typer.Option(
            "--only", metavar="NAME", help="One quantity, such as 'accuracy of gpt on A'."
        ),
    ] = None,
    check_next: Annotated[
        bool, typer.Option("--check-next", help="Also: which item to check next for --only.")
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact/--outer", help="Exact ends, or quick outer bounds.")
    ] = True,
    time_limit: sk.TimeLimit = 30.0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Say what remains possible for each accuracy, for every answer key that the evidence and the
    trusted claims allow.
    """
    output = Output(title="What can each accuracy still be?", as_json=as_json, html=html)
    if check_next and (only is None or given is None):
        raise typer.BadParameter("--check-next must come with --only and --given.")
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
        found = range_accuracies(
            gathered, given=given, prevalence=bounds, only=only, time_limit=time_limit, exact=exact
        )
        results: list[Any] = [found]
        if check_next and given is not None:
            results.append(
                range_checks(gathered, given, only=only, prevalence=bounds, time_limit=time_limit)
            )
    output.emit(results, single=len(results) == 1)
    if "contradiction" in found.diagnostics:
        raise typer.Exit(1)
    ends = found.diagnostics["ends"].values()
    if exact and any("outer" in {e.get("low is"), e.get("high is")} for e in ends):
        raise typer.Exit(3)
