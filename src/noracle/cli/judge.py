"""``noracle judge``: how good is the judge, and what does it save?"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import typer

from noracle.accuracy.judge import check_judge, estimate_with_judges, judged_answers, route_judged
from noracle.accuracy.panel import certify_panel
from noracle.cli import _options as opt
from noracle.cli._options import Output, Sources, only, option, with_options
from noracle.cli._output import check_format, check_target, working, write_table
from noracle.errors import require
from noracle.results import Check, Result, Side

EXAMPLE = opt.paragraphs("""Example:
noracle judge --grades grades.csv --half-width 0.02
noracle judge --grades grades.csv --judge gpt --people ann,bob --next 200 --out to-grade.csv
noracle judge --answers answers.csv --grades grades.csv --judge gpt,claude,gemini --at-most 0.02
Exit code 1 says that a test found bias, or that --at-most does not hold.""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _JudgeOptions:
    judge: opt.Names = option("The judges, raters of the grades; default who graded (almost) all.")
    people: opt.Names = option("The raters that are right; default all others.")
    method: Literal["post-stratified", "ppi"] = option(
        "Divide by the judge's verdict; or correct its mean guess (column guess) by people's grades.",
        default="post-stratified",
    )
    weight: float = option("For ppi: how much the judge's guess counts, from 0 to 1.", "W", 1.0)
    half_width: float | None = option("Also say how many grades this half-width takes.", "H")
    own: opt.Names = option("Systems of the judge's own family, for the test of that bias.")
    at_most: float | None = option(
        "Certify that several judges are unanimous and wrong on at most this share.", "P"
    )
    next: opt.Count = option("Draw this many answers that people should grade next.", min=1)
    out: opt.File = option("Write them as .csv, .jsonl or .parquet.")
    population: opt.Population = option(
        "Accuracy on these items, or on all items of their kind.", default="answers"
    )
    confidence: float = opt.confidence()
    side: Side = option("An interval, or only a lower or an upper limit.", default="two-sided")
    strict: bool = opt.strictly()
    seed: int = opt.seed()


_TAKEN = ("answers", "judgements", "grades", "items", "systems", "columns", "no_answer", "invalid")


@with_options()
def command(
    given: Annotated[Sources, only(*_TAKEN, "n_classes", "classes", "conflicts", "wide")],
    own: _JudgeOptions,
    output: Output,
) -> None:
    """Say how good a judge is that graded everything, and how accurate systems are with its help.

    The grades need a column rater: the judge graded all answers, people some of them, drawn at
    random. People are taken as right; the judge is never believed.
    """
    check_target("out", own.out)
    check_format("out", own.out)
    require(own.out is None or own.next, "--out must go with --next; got no --next.")
    require(given.grades, "evidence must be given: --grades FILE with a column rater; got none.")
    systems = given.chosen
    with working("judging"):
        evidence = given.load()
        told = judged_answers(evidence, judge=opt.names(own.judge), people=opt.names(own.people))
        judges, about = told.judges, {"people": told.people}  # a judge is no person for another one
        how: dict[str, Any] = {**about, **{name: getattr(own, name) for name in _ESTIMATE}}
        estimates = estimate_with_judges(evidence, judge=judges, systems=systems, **how)
        results: list[Result] = [*estimates.values()]
        sure: dict[str, Any] = {"confidence": own.confidence, **about}
        family = opt.names(own.own) or ()
        results += [
            check_judge(evidence, judge=name, systems=systems, own=family, seed=own.seed, **sure)
            for name in judges
        ]
        fine = all(r.passed for r in results if isinstance(r, Check))
        require(own.at_most is None or len(judges) > 1, "--at-most must go with several judges.")
        if len(judges) > 1:
            limit = 0.05 if own.at_most is None else own.at_most
            sure |= {"panel": judges, "at_most": limit}
            panels = [certify_panel(evidence, system=name, **sure) for name in estimates]
            fine = fine and (own.at_most is None or all(panel.certified for panel in panels))
            results += panels
        if own.next is not None:
            drawn: dict[str, Any] = {"n": own.next, "seed": own.seed, **about}
            routing = route_judged(evidence, judge=judges, systems=systems, **drawn)
            results.append(routing)
            if own.out is not None:
                write_table(own.out, routing.columns())
    after = [f"questions {own.out}"] if own.out is not None else []
    output.emit("How good is the judge?", results, seed=own.seed, after=after)
    raise typer.Exit(0 if fine else 1)


_ESTIMATE = (
    *("method", "weight", "half_width", "population"),
    *("confidence", "side", "strict", "seed"),
)
