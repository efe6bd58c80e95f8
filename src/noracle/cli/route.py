"""``noracle route``: which question to ask next?"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from noracle.accuracy import route_items
from noracle.cli import _options as opt
from noracle.cli._options import Sources
from noracle.cli._output import Output, check_format, check_target, read_json, working, write_table
from noracle.errors import EvidenceError, NoracleError, fault
from noracle.results import Plan, read_result

EXAMPLE = """Example:

noracle route --answers answers.csv --n-classes 10 --design targeted --epsilon 0.05 --n 500 --seed 7 --out questions.csv

noracle route --answers answers.csv --judgements judgements.csv --n-classes 10 --plan plan.json --seed 7 --out questions.csv

noracle route --answers answers.csv --grades grades.csv --n 200 --seed 7 --out to-grade.csv"""


def command(
    answers: opt.AnswersFile = None,
    judgements: opt.JudgementsFile = None,
    grades: opt.GradesFile = None,
    items: opt.ItemsFile = None,
    plan: Annotated[
        str | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="Ask as many questions of each kind as a plan says (JSON of 'noracle plan').",
        ),
    ] = None,
    design: Annotated[
        Literal["uniform", "targeted", "grades"] | None,
        typer.Option(
            "--design",
            help="uniform (default) serves every system; targeted asks about the answers and needs fewer labels; grades (default with "
            "--grades) asks whether an answer is right.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon",
            metavar="E",
            help="Uniform share of targeted questions; default as planned, else 0.05.",
        ),
    ] = None,
    systems: Annotated[
        list[str] | None,
        typer.Option("--systems", metavar="A,B", help="Whose answers are targeted; default all."),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("--n", metavar="N", min=1, help="How many items; default all, or as planned."),
    ] = None,
    wide: opt.IsWide = False,
    columns: opt.ColumnNames = None,
    no_answer: opt.NoAnswer = None,
    invalid: opt.InvalidChoice = "wrong",
    n_classes: opt.NClasses = None,
    classes: opt.Classes = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", min=0, help="Makes the routing reproducible; drawn and printed if left out."
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="FILE", help="Write the questions as .csv, .jsonl or .parquet."
        ),
    ] = None,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Draw the questions to ask, in random order, and record with which probability each was asked.

    The file has columns item, class and propensity: add the verdicts and pass it on as
    --judgements. With --plan items get the kinds of label that were planned; a row without a class
    is an open question: write the class beside it, with the verdict yes. Items that --judgements or
    --grades name are not asked about again. Answers to grade have columns item, system and
    propensity: add the verdicts (right, wrong, unsure) and pass the file on as --grades.
    """
    output = Output(title="Questions to ask", as_json=as_json, html=html)
    check_target("out", out)
    check_format("out", out)
    planned = None if plan is None else _read_plan(plan)
    with working("drawing questions"):
        evidence = Sources(
            answers=answers,
            judgements=judgements,
            grades=grades,
            items=items,
            n_classes=n_classes,
            classes=classes,
            wide=wide,
            systems=opt.names(systems),
            columns=columns,
            no_answer=no_answer,
            invalid=invalid,
        ).load()
        result = route_items(
            evidence,
            plan=planned,
            design=design,
            systems=opt.names(systems),
            epsilon=epsilon,
            n=n,
            seed=seed,
        )
        if out is not None:
            write_table(out, result.columns())
    after = [f"questions {out}"] if out is not None else ["--out FILE writes all questions"]
    output.emit([result], single=True, seed=result.seed, after=after)


def _read_plan(path: str) -> Plan:
    """A plan that ``noracle plan`` wrote."""
    value = read_json(path, "--plan")
    try:
        plan = read_result(value)
    except (NoracleError, KeyError, TypeError, ValueError, AttributeError):
        plan = None
    if not isinstance(plan, Plan):
        remedy = "Write it with 'noracle plan … --out FILE'."
        raise EvidenceError(
            fault(
                "--plan",
                "must hold a plan (schema plan/1)",
                f"something else in {path!r}",
                remedy=remedy,
            )
        )
    return plan
