"""``noracle mean``: what is the mean of the gold rater, with the help of the others?"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli._output import Output, read_json, working
from noracle.errors import ArgumentError, EvidenceError, NoracleError, fault
from noracle.results import Plan, Side, read_result

EXAMPLE = """Example:

noracle mean --data scores.csv --target human

noracle mean --data pilot.csv --data work.csv --plan plan.json --html report.html"""

_DATA, _HOW = "Data", "How to estimate"


def command(
    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            metavar="FILE",
            help="Scores: a column for each rater (empty: not observed), or rows item, rater, value (CSV, JSONL or Parquet; globs too); "
            "or results of promptfoo, DeepEval, Inspect, lm-eval or OpenTelemetry. Repeat for a pilot and a work list: rows of one item "
            "are put together.",
            rich_help_panel=_DATA,
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="NAME",
            help="The gold rater; or a combination, as in a=1,b=-1. A plan knows it.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="The plan that the data were collected by (JSON of 'noracle plan').",
            rich_help_panel=_DATA,
        ),
    ] = None,
    raters: Annotated[
        list[str] | None,
        typer.Option(
            "--raters",
            metavar="A,B",
            help="The columns to use; default all that hold numbers.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    same_mean: Annotated[
        list[str] | None,
        typer.Option(
            "--same-mean",
            metavar="COL=NAME",
            help="A column that has the mean of another, as scores of labels do; repeat.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    strata: Annotated[
        str | None,
        typer.Option(
            "--strata", metavar="COL", help="The column that names strata.", rich_help_panel=_DATA
        ),
    ] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(
            "--share",
            metavar="STRATUM=P",
            help="Share of a stratum in the population; repeat.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            metavar="NAME=COL",
            help="Your names of columns, as item=question_id,rater=judge,value=score.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    interval: Annotated[
        Literal["crossfit-t", "jackknife-t", "paper", "anytime", "classical"],
        typer.Option(
            "--interval",
            help="crossfit-t: weights from other folds. jackknife-t: a little wider. anytime: valid at every look. classical: the gold "
            "rater alone. paper: as published, too narrow for few labels.",
            rich_help_panel=_HOW,
        ),
    ] = "crossfit-t",
    measurements: Annotated[
        list[str] | None,
        typer.Option(
            "--measurements",
            metavar="A+B,B",
            help="Sets of raters that may be used together; default as observed.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    side: Annotated[
        Side,
        typer.Option("--side", help="An interval, or a bound on one side.", rich_help_panel=_HOW),
    ] = "two-sided",
    confidence: opt.Confidence = 0.95,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Estimate the mean of the gold rater, or any combination of means, from rows that observe
    different raters.

    Rows must be independent, and what a row observes must not depend on its scores. The classical
    interval is shown beside.
    """
    from noracle.ppi import estimate_mean

    output = Output(title="Mean across raters", as_json=as_json, html=html)
    known = None if plan is None else _read_plan(plan)
    wanted = opt.combination("target", target)
    if wanted is None and known is None:
        raise ArgumentError(
            "--target must name the gold rater, or --plan must be given; got neither."
        )
    sets = opt.names(measurements)
    with working("estimating"):
        result = estimate_mean(
            known,
            data[0] if len(data) == 1 else data,
            target=wanted,
            interval=interval,
            confidence=confidence,
            side=side,
            raters=opt.names(raters),
            same_mean=_named(same_mean),
            measurements=None if sets is None else [one.split("+") for one in sets],
            strata=strata,
            shares=opt.pairs("share", share),
            columns=opt.column_names(columns) or None,
            seed=seed,
        )
    output.emit([result], single=True, seed=seed)


def _read_plan(path: str) -> Plan:
    """A plan that ``noracle plan`` wrote for several raters."""
    value = read_json(path, "--plan")
    remedy = "Write it with 'noracle plan --pilot … --out FILE'."
    try:
        plan = read_result(value)
    except (NoracleError, KeyError, TypeError, ValueError, AttributeError):
        raise EvidenceError(
            fault(
                "--plan",
                "must hold a plan (schema plan/1)",
                f"something else in {path!r}",
                remedy=remedy,
            )
        ) from None
    if not isinstance(plan, Plan) or "problem" not in plan.diagnostics:
        raise EvidenceError(
            fault(
                "--plan",
                "must hold a plan across raters",
                f"another result in {path!r}",
                remedy=remedy,
            )
        )
    return plan


def _named(values: list[str] | None) -> dict[str, str] | None:
    if not values:
        return None
    found = {}
    for value in opt.names(values) or ():
        name, mark, other = (part.strip() for part in value.partition("="))
        if not (name and mark and other):
            raise ArgumentError(f"--same-mean must be column=name; got {value!r}.")
        found[name] = other
    return found
