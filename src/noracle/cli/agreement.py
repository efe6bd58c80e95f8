"""``noracle agreement``: how much do the raters agree?"""

from __future__ import annotations

from typing import Annotated, cast

import typer

from noracle.cli import _options as opt
from noracle.cli import _ratings as rat
from noracle.cli._output import Output, working
from noracle.cli._ratings import RatingSources
from noracle.errors import ArgumentError
from noracle.results import choose
from noracle.superhuman.agreement import STATISTICS, Metric, Statistic, estimate_agreement

EXAMPLE = """Example:

noracle agreement --ratings ratings.csv --statistic krippendorff --metric ordinal --labels bad,fair,good

noracle agreement --ratings wide.csv --wide --raters ann,bob,eve --item question --json"""

_HOW = "How to estimate"


def command(
    ratings: rat.RatingsFile = None,
    wide: rat.IsWide = False,
    votes: rat.IsVotes = False,
    raters: rat.RaterNames = None,
    item: rat.ItemColumn = None,
    labels: rat.Labels = None,
    cuts: rat.Cuts = None,
    first: rat.First = None,
    counts: rat.StoredRatings = None,
    columns: rat.ColumnNames = None,
    no_answer: rat.NoAnswer = None,
    statistic: Annotated[
        list[str] | None,
        typer.Option(
            "--statistic",
            metavar="NAME",
            help="pairwise: share of pairs that agree. cohen: kappa of two raters, or its mean over pairs. fleiss: kappa against the "
            "overall shares. krippendorff: alpha. Several by commas; default pairwise.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    metric: Annotated[
        Metric,
        typer.Option(
            "--metric",
            help="For krippendorff: labels are names, are ordered, or are numbers.",
            rich_help_panel=_HOW,
        ),
    ] = "nominal",
    pair: Annotated[
        str | None,
        typer.Option(
            "--pair",
            metavar="A,B",
            help="For cohen: two raters; default all pairs.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    n_boot: Annotated[
        int,
        typer.Option("--n-boot", metavar="N", help="Resamples of the items.", rich_help_panel=_HOW),
    ] = 2000,
    confidence: opt.Confidence = 0.95,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Estimate how much the raters agree, with an interval.

    Agreement does not say how often the raters are right: raters who err together agree.
    """
    output = Output(title="Agreement of raters", as_json=as_json, html=html)
    chosen = _chosen(statistic)
    if metric != "nominal" and "krippendorff" not in chosen:
        raise ArgumentError(
            f"--metric must go with --statistic krippendorff; got {metric!r} without it."
        )
    two = _two(pair, chosen)
    sources = RatingSources(
        ratings=ratings,
        wide=wide,
        votes=votes,
        raters=raters,
        item=item,
        labels=labels,
        cuts=cuts,
        first=first,
        counts=counts,
        columns=columns,
        no_answer=no_answer,
    )
    by_item = ratings is not None and not counts
    with working("counting"):
        loaded = sources.load() if by_item else None
        counted = sources.count(loaded, systems=())
    with working("estimating"):
        results = [
            estimate_agreement(
                loaded if name == "cohen" and loaded is not None else counted,
                statistic=name,
                metric=metric if name == "krippendorff" else "nominal",
                raters=two if name == "cohen" else None,
                confidence=confidence,
                n_boot=n_boot,
                seed=seed,
            )
            for name in chosen
        ]
    output.emit(results, single=len(results) == 1, seed=seed)


def _chosen(names: list[str] | None) -> list[Statistic]:
    return [
        cast("Statistic", choose("--statistic", name, STATISTICS))
        for name in dict.fromkeys(opt.names(names) or ("pairwise",))
    ]


def _two(pair: str | None, statistics: list[Statistic]) -> tuple[str, str] | None:
    named = opt.names(pair)
    if named is None:
        return None
    if len(named) != 2 or "cohen" not in statistics:
        raise ArgumentError(f"--pair must be two raters with --statistic cohen; got {pair!r}.")
    return named[0], named[1]
