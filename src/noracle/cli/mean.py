"""``noracle mean``: what is the mean of the gold rater, with the help of the others?"""

from __future__ import annotations

import dataclasses
from typing import Literal

from noracle.cli import _options as opt
from noracle.cli._options import Output, panel, read_plan, values, with_options
from noracle.cli._output import working
from noracle.errors import require, require_evidence
from noracle.results import Side

EXAMPLE = opt.paragraphs("""Example:
noracle mean --data scores.csv --target human
noracle mean --data pilot.csv --data work.csv --plan plan.json --html report.html""")


_data = panel("Data")
_how = panel("How to estimate")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _MeanOptions:
    data: list[str] = _data(
        "Scores: a column for each rater (empty: not observed), or rows item, rater, value (CSV, JSONL or Parquet; globs too); "
        "or results of promptfoo, DeepEval, Inspect, lm-eval or OpenTelemetry. Repeat for a pilot and a work list: "
        "rows of one item are put together.",
        "FILE",
        ...,
    )
    target: str | None = _data(
        "The gold rater; or a combination, as in a=1,b=-1. A plan knows it.", "NAME"
    )
    plan: opt.File = _data("The plan that the data were collected by (JSON of 'noracle plan').")
    raters: opt.Names = _data("The columns to use; default all that hold numbers.")
    same_mean: list[str] | None = _data(
        "A column that has the mean of another, as scores of labels do; repeat.", "COL=NAME"
    )
    strata: opt.Column = _data("The column that names strata.")
    share: list[str] | None = _data("Share of a stratum in the population; repeat.", "STRATUM=P")
    columns: list[str] | None = _data(
        "Your column names, such as item=question_id,rater=judge,value=score.", "NAME=COL"
    )
    interval: Literal["crossfit-t", "jackknife-t", "paper", "anytime", "classical"] = _how(
        "crossfit-t: weights from other folds. jackknife-t: a little wider. anytime: valid at every look. classical: "
        "the gold rater alone. paper: as published, too narrow for few labels.",
        default="crossfit-t",
    )
    measurements: list[str] | None = _how(
        "Sets of raters that may be used together; default as observed.", "A+B,B"
    )
    side: Side = _how("An interval, or a bound on one side.", default="two-sided")
    confidence: float = opt.confidence()
    seed: int = opt.seed()


_READ = ("data", "target", "plan", "raters", "same_mean", "measurements", "share", "columns")
"""Options that are read before they are passed on."""


@with_options()
def command(own: _MeanOptions, output: Output) -> None:
    """Estimate the mean of the gold rater, or any combination of means, from rows that observe
    different raters.

    Rows must be independent, and what a row observes must not depend on its scores. The classical
    interval is shown beside.
    """
    from noracle.ppi import estimate_mean

    known = None
    if own.plan is not None:
        how = "--pilot … --out FILE"
        known = read_plan(own.plan, how)
        rule, remedy = "must hold a plan across raters", f"Write it with 'noracle plan {how}'."
        got, fits = f"another result in {own.plan!r}", "problem" in known.diagnostics
        require_evidence(fits, "--plan", rule, got, remedy=remedy)
    wanted = opt.combination("target", own.target)
    rule = "--target must name the gold rater, or --plan must be given; got neither."
    require(wanted is not None or known is not None, rule)
    sets = opt.names(own.measurements)
    with working("estimating"):
        result = estimate_mean(
            own.data[0] if len(own.data) == 1 else own.data,
            known,
            target=wanted,
            raters=opt.names(own.raters),
            same_mean=opt.column_names(own.same_mean, "--same-mean must be column=name") or None,
            measurements=None if sets is None else [one.split("+") for one in sets],
            shares=opt.pairs("share", own.share),
            columns=opt.column_names(own.columns) or None,
            **values(own, *_READ),
        )
    output.emit("Mean across raters", [result], single=True, seed=own.seed)
