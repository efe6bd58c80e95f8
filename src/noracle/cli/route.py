"""``noracle route``: which question to ask next?"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from noracle.accuracy import route_items
from noracle.cli import _options as opt
from noracle.cli._options import Output, Sources, only, option, read_plan, values, with_options
from noracle.cli._output import check_format, check_target, working, write_table

EXAMPLE = opt.paragraphs("""Example:
noracle route --answers answers.csv --n-classes 10 --design targeted --epsilon 0.05 --n 500 --seed 7 --out questions.csv
noracle route --answers answers.csv --judgements judgements.csv --n-classes 10 --plan plan.json --seed 7 --out questions.csv
noracle route --answers answers.csv --grades grades.csv --n 200 --seed 7 --out to-grade.csv""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _RouteOptions:
    plan: opt.File = option(
        "Ask as many questions of each kind as a plan says (JSON of 'noracle plan')."
    )
    design: Literal["uniform", "targeted", "grades"] | None = option(
        "uniform (default) serves every system; targeted asks about the answers and needs fewer labels; grades (default with --grades) "
        "asks whether an answer is right."
    )
    epsilon: float | None = option(
        "Uniform share of targeted questions; default as planned, else 0.05.", "E"
    )
    systems: opt.Names = option("Whose answers are targeted; default all.")
    n: opt.Count = option("How many items; default all, or as planned.", min=1)
    seed: int | None = option(
        "Makes the routing reproducible; drawn and printed if left out.", min=0
    )
    out: opt.File = option("Write the questions as .csv, .jsonl or .parquet.")


_TAKEN = (
    *("answers", "judgements", "grades", "raters", "items", "wide"),
    *("columns", "no_answer", "invalid", "n_classes", "classes"),
)


@with_options()
def command(
    given: Annotated[Sources, only(*_TAKEN)],
    own: _RouteOptions,
    output: Output,
) -> None:
    """Draw the questions to ask, in random order, and record with which probability each was asked.

    The file has columns item, class and propensity: add the verdicts and pass it on as
    --judgements. With --plan items get the kinds of label that were planned; a row without a class
    is an open question: write the class beside it, with the verdict yes. Items that --judgements or
    --grades name are not asked about again. Answers to grade have columns item, system and
    propensity: add the verdicts (right, wrong, unsure) and pass the file on as --grades.
    """
    check_target("out", own.out)
    check_format("out", own.out)
    planned = None if own.plan is None else read_plan(own.plan, "… --out FILE")
    with working("drawing questions"):
        evidence = dataclasses.replace(given, systems=own.systems).load()
        about = values(own, "out") | {"plan": planned, "systems": opt.names(own.systems)}
        result = route_items(evidence, **about)
        if own.out is not None:
            write_table(own.out, result.columns())
    after = [f"questions {own.out}"] if own.out is not None else ["--out FILE writes all questions"]
    output.emit("Questions to ask", [result], single=True, seed=result.seed, after=after)
