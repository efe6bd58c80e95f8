"""``noracle ceiling``: how accurate can the average annotator be at most?"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli import _ratings as rated
from noracle.cli._output import Output, working
from noracle.superhuman.ceiling import estimate_ceiling

Choice = Literal["plurality", "pairwise", "quadratic", "free", "paper", "paper-empirical", "all"]

EXAMPLE = """Example:

noracle ceiling --ratings ratings.csv

noracle ceiling --ratings wide.csv --wide --raters ann,bob,cy --method all --html report.html"""


def command(
    ratings: rated.RatingsFile = None,
    wide: rated.IsWide = False,
    votes: rated.IsVotes = False,
    raters: rated.RaterNames = None,
    item: rated.ItemColumn = None,
    labels: rated.Labels = None,
    cuts: rated.Cuts = None,
    first: rated.First = None,
    counts: rated.StoredRatings = None,
    columns: rated.ColumnNames = None,
    no_answer: rated.NoAnswer = None,
    method: Annotated[
        Choice,
        typer.Option(
            "--method",
            help="Which bound; plurality assumes nothing of annotators. all shows every one that applies.",
        ),
    ] = "plurality",
    pairs: Annotated[
        Literal["item", "pooled"],
        typer.Option(
            "--pairs", help="How agreement is averaged; pooled is refused where numbers differ."
        ),
    ] = "item",
    by_annotators: Annotated[
        bool,
        typer.Option(
            "--by-annotators", help="Also the bounds with fewer annotators, in the JSON output."
        ),
    ] = False,
    confidence: opt.Confidence = 0.95,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Bound the accuracy of the average annotator from above, without an answer key.

    Ratings say how often annotators agree; nobody can be right more often than that allows.
    """
    output = Output(title="How accurate can annotators be?", as_json=as_json, html=html)
    sources = rated.RatingSources(
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
    with working("counting"):
        counted = sources.count(pairs=method == "pairwise" or (method == "all" and not votes))
    plain: tuple[Literal["plurality", "free", "quadratic", "paper"], ...] = (
        "plurality",
        "free",
        "quadratic",
        "paper",
    )
    with working("bounding"):
        if method == "all":
            # U_e is left out: it is not a bound. U* stands here where it is known who rated what.
            results = [
                estimate_ceiling(counted, method=m, pairs=pairs, confidence=confidence)
                for m in plain
            ]
            if counted.pairs:
                results.append(estimate_ceiling(counted, method="pairwise", confidence=confidence))
        else:
            results = [
                estimate_ceiling(
                    counted,
                    method=method,
                    pairs=pairs,
                    confidence=confidence,
                    by_annotators=by_annotators,
                )
            ]
    output.emit(results, single=method != "all")
