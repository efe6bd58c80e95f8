"""``noracle route``: which question to ask next?"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from noracle.accuracy import route_items
from noracle.cli import _options as opt
from noracle.cli._files import check_format, write_table
from noracle.cli._options import Sources
from noracle.cli._output import Output, check_target, working

EXAMPLE = """Example:

noracle route --answers answers.csv --n-classes 10 --design targeted --epsilon 0.05 --n 500 --seed 7 --out questions.csv"""


def command(
    answers: opt.AnswersFile = None,
    items: opt.ItemsFile = None,
    design: Annotated[
        Literal["uniform", "targeted"],
        typer.Option("--design", help="uniform serves every system; targeted asks about the answers and needs fewer labels."),
    ] = "uniform",
    epsilon: Annotated[float, typer.Option("--epsilon", metavar="E", help="Uniform share of targeted questions.")] = 0.05,
    systems: Annotated[list[str] | None, typer.Option("--systems", metavar="A,B", help="Whose answers are targeted; default all.")] = None,
    n: Annotated[int | None, typer.Option("--n", metavar="N", min=1, help="How many items; default all.")] = None,
    n_classes: opt.NClasses = None,
    classes: opt.Classes = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Makes the routing reproducible; drawn and printed if left out.")
    ] = None,
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Write the questions as .csv, .jsonl or .parquet.")] = None,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Draw one question an item, in random order, and record with which probability it was asked.

    The file has columns item, class and propensity: add the verdicts and pass it on as --judgements.
    """
    output = Output(title="Questions to ask", as_json=as_json, html=html)
    check_target("out", out)
    check_format("out", out)
    with working("drawing questions"):
        evidence = Sources(answers=answers, items=items, n_classes=n_classes, classes=classes).load()
        result = route_items(evidence, design=design, systems=opt.names(systems), epsilon=epsilon, n=n, seed=seed)
        if out is not None:
            write_table(out, result.columns())
    after = [f"questions {out}"] if out is not None else ["--out FILE writes all questions"]
    output.emit([result], single=True, seed=result.seed, after=after)
