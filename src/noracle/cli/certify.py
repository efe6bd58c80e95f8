"""``noracle certify``: is a system better than its annotators?"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli import _ratings as rate
from noracle.cli._output import Output, working
from noracle.cli._ratings import RatingSources
from noracle.counts.ratings import count_ratings
from noracle.errors import ArgumentError
from noracle.results import Certificate, Check
from noracle.superhuman.assumptions import check_assumptions
from noracle.superhuman.certify import Aggregate, Test, certify_superhuman
from noracle.superhuman.difference import CeilingName, Ties
from noracle.superhuman.statement import Trained

EXAMPLE = """Example:

noracle certify --answers answers.csv --ratings ratings.csv --margin 0.02 --confidence 0.99 --trained-on-annotators no

Exit code 0 says certified, 1 not certified."""


def command(
    answers: rate.AnswersFile = None,
    ratings: rate.RatingsFile = None,
    items: rate.ItemsFile = None,
    wide: rate.IsWide = False,
    votes: rate.IsVotes = False,
    raters: rate.RaterNames = None,
    item: rate.ItemColumn = None,
    systems: rate.SystemColumns = None,
    labels: rate.Labels = None,
    cuts: rate.Cuts = None,
    first: rate.First = None,
    counts: rate.StoredRatings = None,
    columns: rate.ColumnNames = None,
    no_answer: rate.NoAnswer = None,
    system: Annotated[
        str | None,
        typer.Option(
            "--system", metavar="S", help="One system only; default all, each at --confidence."
        ),
    ] = None,
    margin: Annotated[
        float,
        typer.Option(
            "--margin", metavar="M", help="How much better it must be, as 0.02 for 2 points."
        ),
    ] = 0.0,
    trained_on_annotators: Annotated[
        Trained,
        typer.Option(
            "--trained-on-annotators",
            help="Was the system trained on labels of these annotators? It must be stated.",
        ),
    ] = "unknown",
    known: Annotated[
        str | None,
        typer.Option(
            "--known",
            metavar="FILE",
            help="item, label: true labels of some items, to check assumption (6).",
        ),
    ] = None,
    test: Annotated[Test, typer.Option("--test", help="How the claim is tested.")] = "betting",
    aggregate: Annotated[
        Aggregate,
        typer.Option("--aggregate", help="The label of an item that answers are compared with."),
    ] = "plurality",
    ties: Annotated[
        Literal["share", "random"] | None,
        typer.Option("--ties", help="Ties in the vote: shared, or drawn. Default shared."),
    ] = None,
    ceiling: Annotated[
        CeilingName | None,
        typer.Option("--ceiling", help="For tests of two sides: the annotators' ceiling."),
    ] = None,
    confidence: opt.Confidence = 0.95,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Certify that a system is more accurate than the average annotation, or say why not."""
    output = Output(title="Better than the annotators?", as_json=as_json, html=html)
    sources = RatingSources(
        ratings=ratings,
        answers=answers,
        items=items,
        wide=wide,
        votes=votes,
        raters=raters,
        item=item,
        systems=systems,
        labels=labels,
        cuts=cuts,
        first=first,
        counts=counts,
        columns=columns,
        no_answer=no_answer,
    )
    chosen: Ties | None = ties
    checks: list[Check] = []
    with working("certifying"):
        whole = ratings is not None and not counts
        if known is not None and not whole:
            raise ArgumentError(
                "--known must come with --ratings and without --counts; got no items."
            )
        loaded = sources.load() if whole else None
        counted = sources.count() if loaded is None else count_ratings(loaded)
        names = sorted(counted.answers) if system is None else [system]
        if not names:
            raise ArgumentError(
                "--answers must be given (or --systems, columns of the ratings); got no system to judge."
            )
        evidence = (
            counted
            if loaded is None or (items is None and aggregate in ("plurality", "majority"))
            else loaded
        )
        results: list[Certificate] = []
        for name in names:
            check = None
            if known is not None and loaded is not None:
                check = check_assumptions(
                    loaded, known, system=name, confidence=confidence, seed=seed
                )
                checks.append(check)
            results.append(
                certify_superhuman(
                    evidence,
                    system=name,
                    margin=margin,
                    aggregate=aggregate,
                    ties=chosen,
                    test=test,
                    ceiling=ceiling,
                    trained_on_annotators=trained_on_annotators,
                    check=check,
                    confidence=confidence,
                    seed=seed,
                )
            )
    output.emit(results, single=len(results) == 1, seed=seed, more=checks)
    if not all(r.certified for r in results):
        raise typer.Exit(1)
