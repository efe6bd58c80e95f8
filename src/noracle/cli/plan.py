"""``noracle plan``: how many labels, of which kind?"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from noracle.accuracy import plan_labels
from noracle.cli import _options as opt
from noracle.cli._output import Output, working
from noracle.errors import ArgumentError
from noracle.evidence.prices import Prices, read_prices

EXAMPLE = """Example:

noracle plan --n-classes 10 --accuracy 0.8 --half-width 0.02 --cost ordinary=1 --cost complementary=0.2 --cap ordinary=500"""

Kind = Literal["ordinary", "complementary", "question", "targeted", "cheapest"]
_GOAL, _PRICES = "Goal (one of them)", "Prices"


def command(
    n_classes: Annotated[int, typer.Option("--n-classes", metavar="K", help="Number of classes.")],
    accuracy: Annotated[
        float, typer.Option("--accuracy", metavar="A", help="A guess of the accuracy; of the better system with --difference.")
    ],
    half_width: Annotated[
        float | None, typer.Option("--half-width", metavar="W", help="Least cost for an interval of ± W.", rich_help_panel=_GOAL)
    ] = None,
    budget: Annotated[
        float | None, typer.Option("--budget", metavar="B", help="Narrowest interval for this money.", rich_help_panel=_GOAL)
    ] = None,
    match: Annotated[
        int | None, typer.Option("--match", metavar="N", help="Complementary labels worth N ordinary ones.", rich_help_panel=_GOAL)
    ] = None,
    difference: Annotated[
        float | None, typer.Option("--difference", metavar="D", help="Find a system that is better by D.", rich_help_panel=_GOAL)
    ] = None,
    disagreement: Annotated[
        float | None, typer.Option("--disagreement", metavar="P", help="Share of items on which exactly one of the two is right.")
    ] = None,
    power: Annotated[float, typer.Option("--power", metavar="P", help="Chance to find the difference.")] = 0.8,
    kind: Annotated[
        Kind,
        typer.Option("--kind", help="Kind of label; cheapest of those that have a price."),
    ] = "cheapest",
    prices: Annotated[
        str | None, typer.Option("--prices", metavar="FILE", help="TOML with [labels] and [caps]; see the guide.", rich_help_panel=_PRICES)
    ] = None,
    cost: Annotated[
        list[str] | None, typer.Option("--cost", metavar="KIND=PRICE", help="Price of a label; repeat.", rich_help_panel=_PRICES)
    ] = None,
    cap: Annotated[
        list[str] | None, typer.Option("--cap", metavar="KIND=N", help="Most labels of a kind; repeat.", rich_help_panel=_PRICES)
    ] = None,
    epsilon: Annotated[float, typer.Option("--epsilon", metavar="E", help="Uniform share of targeted questions.")] = 0.05,
    confidence: opt.Confidence = 0.95,
    verify: Annotated[bool, typer.Option("--verify", help="Check the plan in another way; exit code 1 if it does not hold.")] = False,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Plan labels for a wanted half-width, a budget, a match or a comparison."""
    output = Output(title="Labels to buy", as_json=as_json, html=html)
    listed = Prices() if prices is None else read_prices(prices)
    costs = {**listed.labels, **(opt.pairs("cost", cost) or {})} or None
    caps = {**listed.caps, **(opt.pairs("cap", cap) or {})} or None
    for name, n in (caps or {}).items():
        if n != int(n) or n < 0:
            raise ArgumentError(f"--cap must be a whole number; got {n:g} for {name}.")
    if not 0 < epsilon <= 1:
        raise ArgumentError(f"--epsilon must be in (0, 1]; got {epsilon:g}.")
    with working("planning"):
        result = plan_labels(
            n_classes=n_classes,
            accuracy=accuracy,
            half_width=half_width,
            budget=budget,
            match=match,
            difference=difference,
            disagreement=disagreement,
            power=power,
            kind=kind,
            costs=costs,
            caps=None if caps is None else {k: int(n) for k, n in caps.items()},
            epsilon=epsilon,
            confidence=confidence,
            seed=seed,
        )
        holds = result.verify() if verify else True
    after = [f"verified: {'yes' if holds else 'NO'}"] if verify else []
    output.emit([result], single=True, seed=seed, after=after)
    if not holds:
        raise typer.Exit(1)
