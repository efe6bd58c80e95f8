"""``noracle plan``: how many labels, of which kind, by which raters?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli._budget import Asked, assign_items, budgets_of, one_budget, plan_with_pilot
from noracle.cli._files import check_format, write_json, write_table
from noracle.cli._output import Output, check_target, working
from noracle.cli.report import class_names
from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.evidence.grade_logs import split_metric
from noracle.evidence.prices import Prices, read_prices
from noracle.ppi import plan_labels
from noracle.ppi.table import with_names

if TYPE_CHECKING:
    from noracle.results import Plan

EXAMPLE = """Example:

noracle plan evidence --half-width 0.02 --out plan.json

noracle plan --grades grades.csv --half-width 0.02

Example without evidence:

noracle plan --n-classes 10 --accuracy 0.8 --half-width 0.02 --cost ordinary=1 --cost complementary=0.2 --cap ordinary=500

Example with raters:

noracle plan --pilot pilot.csv --target human --costs prices.toml --budget 500 --have pilot --out plan.json

noracle plan --pilot pilot.csv --target human --costs prices.toml --cost minutes:human=3 --budget money=500 --budget minutes=300"""

Kind = Literal["ordinary", "complementary", "question", "targeted", "grades", "cheapest"]
_GOAL, _PRICES, _PILOT = "Goal (one of them)", "Prices", "Budgets across raters"


def command(
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FOLDER]",
            show_default=False,
            help="A folder with evidence, or its files: what is there counts, what is missing is planned.",
        ),
    ] = None,
    n_classes: Annotated[
        int | None, typer.Option("--n-classes", metavar="K", help="Number of classes.")
    ] = None,
    accuracy: Annotated[
        float | None,
        typer.Option(
            "--accuracy",
            metavar="A",
            help="A guess of the accuracy; of the better system with --difference.",
        ),
    ] = None,
    half_width: Annotated[
        float | None,
        typer.Option(
            "--half-width",
            metavar="W",
            help="Least cost for an interval of ± W.",
            rich_help_panel=_GOAL,
        ),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            metavar="B|NAME=B",
            help="Narrowest interval for this money. With --pilot and --half-width: the most that may be spent; and with --pilot several "
            "named budgets, as in money=500 and minutes=300; repeat.",
            rich_help_panel=_GOAL,
        ),
    ] = None,
    match: Annotated[
        int | None,
        typer.Option(
            "--match",
            metavar="N",
            help="Complementary labels worth N ordinary ones.",
            rich_help_panel=_GOAL,
        ),
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option(
            "--difference",
            metavar="D",
            help="Find a system that is better by D.",
            rich_help_panel=_GOAL,
        ),
    ] = None,
    disagreement: Annotated[
        float | None,
        typer.Option(
            "--disagreement",
            metavar="P",
            help="Share of items on which exactly one of the two is right.",
        ),
    ] = None,
    power: Annotated[
        float, typer.Option("--power", metavar="P", help="Chance to find the difference.")
    ] = 0.8,
    kind: Annotated[
        Kind | None,
        typer.Option(
            "--kind",
            help="Kind of label. Default with a folder: that of the labels there; else the cheapest with a price.",
        ),
    ] = None,
    systems: Annotated[
        list[str] | None,
        typer.Option(
            "--systems",
            metavar="A,B",
            help="With a folder: whose intervals are wanted; default all.",
        ),
    ] = None,
    grades: Annotated[
        str | None,
        typer.Option(
            "--grades",
            metavar="FILE",
            help="Grades (item, system, verdict), beside a folder or without one.",
        ),
    ] = None,
    n_items: Annotated[
        int | None,
        typer.Option(
            "--n-items",
            metavar="N",
            min=1,
            help="Without a folder: how many items there are, where these are all.",
        ),
    ] = None,
    classes: opt.Classes = None,
    columns: opt.ColumnNames = None,
    no_answer: opt.NoAnswer = None,
    pilot: Annotated[
        list[str] | None,
        typer.Option(
            "--pilot",
            metavar="FILE",
            help="Scores of raters on some items: a column for each rater (empty: not observed), or rows item, rater, value; repeat for "
            "several files.",
            rich_help_panel=_PILOT,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="NAME",
            help="The rater whose mean is wanted; or a combination, as in a=1,b=-1.",
            rich_help_panel=_PILOT,
        ),
    ] = None,
    have: Annotated[
        list[str] | None,
        typer.Option(
            "--have",
            metavar="pilot|SET=N",
            help="What is paid already and will be used: the pilot, or counts such as human+judge=250; repeat.",
            rich_help_panel=_PILOT,
        ),
    ] = None,
    strata: Annotated[
        str | None,
        typer.Option(
            "--strata",
            metavar="COL",
            help="The column of the pilot that names strata.",
            rich_help_panel=_PILOT,
        ),
    ] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(
            "--share",
            metavar="STRATUM=P",
            help="Share of a stratum, where the pilot does not have it; repeat.",
            rich_help_panel=_PILOT,
        ),
    ] = None,
    measurements: Annotated[
        list[str] | None,
        typer.Option(
            "--measurements",
            metavar="A+B,B",
            help="The sets of raters that may be bought together; default all that are for sale.",
            rich_help_panel=_PILOT,
        ),
    ] = None,
    prices: Annotated[
        str | None,
        typer.Option(
            "--prices",
            "--costs",
            metavar="FILE",
            help="TOML with [labels], [raters], [caps], [costs] and [budgets.NAME]; see the guide.",
            rich_help_panel=_PRICES,
        ),
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(
            "--cost",
            metavar="KIND=PRICE",
            help="Price of a label, or of a rater's score; in a further budget BUDGET:RATER=PRICE; repeat.",
            rich_help_panel=_PRICES,
        ),
    ] = None,
    cap: Annotated[
        list[str] | None,
        typer.Option(
            "--cap",
            metavar="KIND=N",
            help="Most labels of a kind or scores of a rater; repeat.",
            rich_help_panel=_PRICES,
        ),
    ] = None,
    epsilon: Annotated[
        float, typer.Option("--epsilon", metavar="E", help="Uniform share of targeted questions.")
    ] = 0.05,
    confidence: opt.Confidence = 0.95,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Check the plan in another way; exit code 1 if it does not hold."
        ),
    ] = False,
    seed: opt.Seed = 0,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the plan as JSON, for 'noracle route --plan' and 'noracle mean --plan'.",
            rich_help_panel="Output",
        ),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(
            "--items",
            metavar="FILE",
            help="Items that could be looked at, for --assign.",
            rich_help_panel=_PILOT,
        ),
    ] = None,
    assign: Annotated[
        str | None,
        typer.Option(
            "--assign",
            metavar="FILE",
            help="Draw items at random and write who looks at which: item, rater, value (to be filled in).",
            rich_help_panel=_PILOT,
        ),
    ] = None,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Plan labels for a wanted half-width, a budget, a match or a comparison.

    With a folder the plan starts from its evidence: labels that are there count, estimates are the
    guesses, and every system's interval gets the half-width. If the items that are left are too few
    for it, all of them are planned and the exit code is 3.

    With --pilot the plan spreads a budget over raters and kinds of label, for the mean of --target.
    If --half-width cannot be reached within --budget, the plan is the best within the budget and
    the exit code is 3.
    """
    output = Output(title="Labels to buy", as_json=as_json, html=html)
    check_target("out", out)
    check_target("assign", assign)
    check_format("assign", assign)
    if (items is None) != (assign is None):
        raise ArgumentError("--items and --assign must come together; got one of them.")
    listed = Prices() if prices is None else read_prices(prices)
    caps = {**listed.caps, **(opt.pairs("cap", cap) or {})}
    for name, n in caps.items():
        if n != int(n) or n < 0:
            raise ArgumentError(f"--cap must be a whole number; got {n:g} for {name}.")
    if not 0 < epsilon <= 1:
        raise ArgumentError(f"--epsilon must be in (0, 1]; got {epsilon:g}.")
    prices_of = opt.pairs("cost", cost) or {}
    budgets = budgets_of(budget)
    pilots: list[Any] = (
        with_names(pilot, opt.column_names(columns), "pilot")
        if pilot and columns
        else list(pilot or ())
    )
    code, after = 0, list[str]()
    if places or grades is not None:
        goal = {
            "budget": budget,
            "match": match,
            "difference": difference,
            "disagreement": disagreement,
            "accuracy": accuracy,
        }
        _only(
            "without a folder",
            pilot=pilot,
            **goal,
            **{"n-items": n_items},
            strata=strata,
            share=share,
            have=have,
            assign=assign,
        )
        _only("with --pilot", measurements=measurements)
        with working("planning"):
            result = _from_folder(
                places or [str(split_metric(str(grades))[0])],
                chosen={
                    "n_classes": n_classes,
                    "classes": class_names(classes),
                    "columns": opt.column_names(columns) or None,
                    "no_answer": tuple(opt.names(no_answer) or ()) or None,
                },
                half_width=half_width,
                systems=opt.names(systems),
                grades=grades,
                kind=kind,
                costs={**listed.labels, **prices_of},
                caps={k: int(n) for k, n in caps.items()},
                epsilon=epsilon,
                confidence=confidence,
                seed=seed,
            )
        code = 3 if result.reason else 0
    elif pilot:
        _only("without --pilot", match=match, difference=difference, disagreement=disagreement)
        with working("planning"):
            found = plan_with_pilot(
                Asked(
                    pilot=pilots,
                    target=opt.combination("target", target),
                    prices=listed,
                    costs=prices_of,
                    caps=caps,
                    budgets=budgets,
                    half_width=half_width,
                    have=have or (),
                    measurements=opt.names(measurements),
                    strata=strata,
                    shares=opt.pairs("share", share),
                    n_classes=n_classes,
                    accuracy=accuracy,
                    confidence=confidence,
                    epsilon=epsilon,
                )
            )
        result, code = found.plan, 3 if found.missed else 0
    else:
        _only(
            "with --pilot",
            target=target,
            have=have,
            strata=strata,
            share=share,
            assign=assign,
            measurements=measurements,
        )
        _only(
            "with a folder",
            systems=systems,
            classes=classes,
            columns=columns,
            **{"no-answer": no_answer},
        )
        if n_classes is None or accuracy is None:
            missing = [
                n for n, v in (("--n-classes", n_classes), ("--accuracy", accuracy)) if v is None
            ]
            raise ArgumentError(
                f"{' and '.join(missing)} must be given, or a folder with evidence, or --pilot for raters; got none of them."
            )
        with working("planning"):
            result = plan_labels(
                n_classes=n_classes,
                accuracy=accuracy,
                n_items=n_items,
                half_width=half_width,
                budget=one_budget(budgets),
                match=match,
                difference=difference,
                disagreement=disagreement,
                power=power,
                kind=_without_grades(kind),
                costs={**listed.labels, **prices_of} or None,
                caps={k: int(n) for k, n in caps.items()} or None,
                epsilon=epsilon,
                confidence=confidence,
                seed=seed,
            )
    if verify:
        with working("verifying"):
            holds = result.verify()
        after.append(f"verified: {'yes' if holds else 'NO'}")
        code = code if holds else 1
    if out is not None:
        write_json(out, result.to_dict())
        after.append(f"plan {out}")
    if pilot and items is not None and assign is not None:
        write_table(assign, assign_items(result, items, pilot=pilots, strata=strata, seed=seed))
        after += [f"who looks at what {assign}", f"seed {seed}"]
    output.emit([result], single=True, seed=None if pilot else seed, after=after)
    if code:
        raise typer.Exit(code)


def _from_folder(
    places: list[str],
    *,
    chosen: Mapping[str, Any],
    half_width: float | None,
    systems: list[str] | None,
    grades: str | None,
    kind: Kind | None,
    costs: Mapping[str, float],
    caps: Mapping[str, int],
    epsilon: float,
    confidence: float,
    seed: int,
) -> Plan:
    """The plan for what a folder holds; prices and the half-width are those of its settings where
    no option says them.
    """
    from noracle.oversight.finding import find_evidence
    from noracle.oversight.loading import Loaded
    from noracle.oversight.opening import LABEL_KINDS
    from noracle.ppi import plan_accuracy
    from noracle.ppi.labels import KINDS

    given = {name: value for name, value in chosen.items() if value is not None}
    inventory = find_evidence(
        places[0] if len(places) == 1 else places, chosen=given, grades=grades
    )
    loaded = Loaded(inventory)
    if loaded.accuracy is None:
        remedy = "Add a table item, system, answer, or grades; or plan without a folder, by --n-classes and --accuracy."
        raise EvidenceError(
            fault(
                f"evidence in {inventory.place!r}",
                "must have answers to plan labels for",
                "none",
                remedy=remedy,
            )
        )
    if kind == "cheapest" and not (costs or loaded.prices.labels):
        raise ArgumentError(
            "--kind cheapest must come with prices: --cost KIND=PRICE, or prices in the folder; got none."
        )
    prices = {
        name: price
        for name, price in {**loaded.prices.labels, **costs}.items()
        if name in LABEL_KINDS
    }
    limits = {
        name: int(n) for name, n in {**loaded.prices.caps, **caps}.items() if name in LABEL_KINDS
    }
    options: dict[str, Any] = {
        "half_width": loaded.settings.half_width if half_width is None else half_width,
        "systems": systems,
        "costs": prices or None,
        "caps": limits or None,
        "epsilon": epsilon,
        "confidence": confidence,
        "seed": seed,
    }
    if kind != "cheapest":
        return plan_accuracy(loaded.accuracy, kind=kind, **options)
    plans = [
        plan_accuracy(loaded.accuracy, kind=name, **options)  # type: ignore[arg-type]
        for name in (*KINDS, "grades")
        if name in prices
    ]
    return min(plans, key=lambda plan: (bool(plan.reason), plan.cost))


def _without_grades(
    kind: Kind | None,
) -> Literal["ordinary", "complementary", "question", "targeted", "cheapest"]:
    """The kind of a plan without evidence, which knows of no answers to grade."""
    if kind == "grades":
        raise ArgumentError(
            "--kind grades must come with a folder or --grades; got neither. A grade counts as an ordinary label."
        )
    return kind or "cheapest"


def _only(when: str, **values: object) -> None:
    """Refuse options that belong to the other kind of plan."""
    stray = [f"--{name}" for name, value in values.items() if value]
    if stray:
        got = {"with --pilot": "no --pilot", "with a folder": "no folder"}.get(when, "both")
        raise ArgumentError(f"{', '.join(stray)} must come {when}; got {got}.")
