"""``noracle plan``: how many labels, of which kind, by which raters?"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli._options import Output, Sources, argument, only, option, panel, with_options
from noracle.cli._output import check_format, check_target, working, write_json, write_table
from noracle.cli.report import reading
from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.evidence.grade_logs import split_metric
from noracle.evidence.prices import Prices, read_prices
from noracle.ppi import plan_labels
from noracle.ppi.table import with_names

if TYPE_CHECKING:
    from noracle.ppi.measurements import CostModel, Label
    from noracle.results import Plan

_LABEL = re.compile(r"ordinary|targeted|(complementary|question)(-[1-9][0-9]*)?")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the options say."""

    pilot: Sequence[object]
    target: str | Mapping[str, float] | None
    prices: Prices
    costs: Mapping[str, float]
    caps: Mapping[str, float]
    budgets: Mapping[str, float]
    half_width: float | None
    have: Sequence[str]
    measurements: Sequence[str] | None
    strata: str | None
    shares: Mapping[str, float] | None
    n_classes: int | None
    accuracy: float | None
    confidence: float
    epsilon: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The plan, and whether it misses the half-width."""

    plan: Plan
    missed: bool = False


def budgets_of(values: Sequence[str] | None) -> dict[str, float]:
    """``--budget 500`` (a budget without a name) or ``--budget money=500 --budget minutes=300``.

    Examples
    --------
    >>> budgets_of(["500"]), budgets_of(["money=500", "minutes=300"])
    ({'': 500.0}, {'money': 500.0, 'minutes': 300.0})
    """
    found: dict[str, float] = {}
    for value in opt.names(values) or ():
        name, mark, number = value.rpartition("=")
        try:
            amount = float(number)
        except ValueError:
            amount = math.nan
        if math.isnan(amount) or (mark and not name.strip()):
            raise ArgumentError(f"--budget must be a number, or name=number; got {value!r}.")
        if name.strip() in found:
            raise ArgumentError(
                f"--budget must be given once for each budget; got {name.strip() or 'a number'} twice. Name them, as in money=5."
            )
        found[name.strip()] = amount
    if "" in found and len(found) > 1:
        raise ArgumentError(
            "--budget must be name=number where there are several; got one without a name."
        )
    return found


def one_budget(budgets: Mapping[str, float]) -> float | None:
    """The one budget of a plan without raters."""
    if any(name for name in budgets):
        raise ArgumentError(
            f"--budget must be a number without --pilot; got {next(iter(budgets))}={next(iter(budgets.values())):g}."
        )
    return budgets.get("")


def plan_with_pilot(asked: Asked) -> Found:
    """The best plan within the budget, or the smallest budget for the half-width; with both, the
    latter if it is within the former.
    """
    from noracle.ppi import plan_budget

    if asked.target is None:
        raise ArgumentError("--target must name the rater whose mean is wanted; got none.")
    if not asked.budgets and asked.half_width is None:
        raise ArgumentError("--budget or --half-width must be given; got neither.")
    if asked.shares and asked.strata is None:
        raise ArgumentError(
            "--share must come with --strata, the column that names strata; got no --strata."
        )
    first, further = _prices_by_budget(asked)
    kinds = {**asked.prices.labels, **{k: p for k, p in first.items() if _is_label(k)}}
    raters = {**asked.prices.raters, **{k: p for k, p in first.items() if not _is_label(k)}}
    if not (kinds or raters or asked.prices.lengths):
        raise ArgumentError(
            "prices must be given: --costs FILE, or --cost NAME=PRICE for each rater; got none."
        )
    main = (
        next(
            (name for name in asked.budgets if name not in further),
            "money" if further else "budget",
        )
        or "budget"
    )
    model = _model(asked.prices, raters)
    limits: dict[str, float | None] = {
        main: asked.budgets.get(main, asked.budgets.get("")),
        **_limits(asked, main, further),
    }
    known = {
        *raters,
        *asked.prices.lengths,
        *([asked.target] if isinstance(asked.target, str) else asked.target),
    }
    strange = sorted({name for prices in further.values() for name in prices} - known)
    if strange:
        raise ArgumentError(
            f"prices of a further budget must be of raters with a price; got {', '.join(strange)}. Known are {', '.join(sorted(known))}."
        )
    if limits[main] is None and asked.half_width is None:
        raise ArgumentError(
            f"--budget must say how much of {main!r} there is, as in --budget {main}=500; got no such budget."
        )
    common: dict[str, Any] = {
        "target": asked.target,
        "costs": {
            main: model,
            **{name: {**dict.fromkeys(known, 0.0), **prices} for name, prices in further.items()},
        }
        if further
        else model,
        "measurements": "auto" if asked.measurements is None else list(asked.measurements),
        "caps": dict(asked.caps) or None,
        "have": _have(asked.have),
        "labels": _labels(kinds, asked.n_classes, asked.epsilon),
        "accuracy": asked.accuracy,
        "strata": asked.strata,
        "shares": asked.shares,
        "confidence": asked.confidence,
    }
    money = limits[main]
    opened: Any = {**limits, main: None}
    if asked.half_width is None:
        return Found(plan=plan_budget(asked.pilot, budgets=limits, **common))
    if money is None:
        return Found(
            plan=plan_budget(asked.pilot, budgets=opened, half_width=asked.half_width, **common)
        )
    within = plan_budget(asked.pilot, budgets=limits, **common)
    if within.predicted > asked.half_width:
        told = (
            f"a budget of {money:g}"
            if not further
            else " and ".join(f"{v:g} {name}" for name, v in limits.items())
        )
        words = f"± {asked.half_width:g} is out of reach within {told}; the best is ± {within.predicted:.4g}"
        return Found(plan=dataclasses.replace(within, reason=words), missed=True)
    least = plan_budget(asked.pilot, budgets=opened, half_width=asked.half_width, **common)
    return Found(plan=least if least.cost <= money else within)


def _prices_by_budget(asked: Asked) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Prices in money, and those in further budgets (``minutes:human=3``, or a table
    ``[budgets.minutes]``).
    """
    first: dict[str, float] = {}
    further = {name: dict(prices) for name, prices in asked.prices.budgets.items()}
    for name, price in asked.costs.items():
        budget, mark, rater = (part.strip() for part in name.partition(":"))
        if not mark:
            first[name] = price
        elif budget in asked.budgets or budget in further:
            further.setdefault(budget, {})[rater] = price
        else:
            first[name] = price  # a rater whose name has a colon in it
    return first, further


def _limits(
    asked: Asked, main: str, further: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """How much there is of each further budget; each must have prices, and each price a budget."""
    stray = [name for name in asked.budgets if name not in ("", main) and name not in further]
    if stray:
        remedy = f"as in --cost {stray[0]}:{'RATER'}=3, or a table [budgets.{stray[0]}] in the price file"
        raise ArgumentError(f"--budget {stray[0]} must have prices, {remedy}; got none.")
    missing = [name for name in further if name not in asked.budgets]
    if missing:
        raise ArgumentError(
            f"--budget must say how much of {missing[0]!r} there is, as in --budget {missing[0]}=300; got no such budget."
        )
    return {name: asked.budgets[name] for name in further}


def _is_label(name: str) -> bool:
    return _LABEL.fullmatch(name) is not None


def _labels(kinds: Mapping[str, float], n_classes: int | None, epsilon: float) -> tuple[Label, ...]:
    """Kinds of label of the target."""
    from noracle.ppi.expected import make_label

    for name in kinds:
        if n_classes is None and name != "ordinary":
            raise ArgumentError(f"--n-classes must be given with the label {name!r}; got none.")
    return tuple(
        make_label(name, n_classes=n_classes, price=price, epsilon=epsilon)
        for name, price in kinds.items()
    )


def _model(prices: Prices, raters: Mapping[str, float]) -> CostModel:
    from noracle.ppi import Additive, Cascade, Maximum

    if prices.model == "cascade":
        return Cascade(
            lengths=prices.lengths,
            output=prices.output,
            input=prices.input,
            prices=raters,
            per_item=prices.overhead,
        )
    if prices.model == "maximum":
        return Maximum(prices=raters, per_item=prices.overhead)
    return Additive(prices=raters, per_item=prices.overhead)


def _have(values: Sequence[str]) -> str | dict[str, int] | None:
    if not values:
        return None
    if list(values) == ["pilot"]:
        return "pilot"
    counts = opt.pairs("have", values) or {}
    for name, n in counts.items():
        if n != int(n) or n < 0:
            raise ArgumentError(
                f"--have must be pilot or a whole number for each set; got {n:g} for {name}."
            )
    return {name: int(n) for name, n in counts.items()}


def assign_items(
    plan: Plan, items: str, *, pilot: Sequence[object], strata: str | None, seed: int
) -> dict[str, list[Any]]:
    """Draw the items of each set at random among those that the pilot does not hold; the values are
    to be filled in.
    """
    import random

    from noracle.evidence.frames import fetch, open_frames

    frames, _connection = open_frames({"items": items})
    wanted = ("item", *((strata,) if strata else ()))
    missing = [c for c in wanted if c not in frames["items"].columns]
    if missing:
        raise EvidenceError(
            fault(
                "--items",
                f"must have the columns {', '.join(wanted)}",
                f"no {', '.join(missing)} in {items!r}",
            )
        )
    seen: set[str] = set()
    for one in pilot:
        held, _ = open_frames({"pilot": one})
        seen |= (
            {str(row[0]) for row in fetch(held["pilot"].select("item"))}
            if "item" in held["pilot"].columns
            else set()
        )
    waiting: dict[str, list[Any]] = {}
    for row in dict.fromkeys(tuple(r) for r in fetch(frames["items"].select(*wanted))):
        if str(row[0]) not in seen:
            waiting.setdefault(str(row[1]) if strata else "", []).append(row[0])
    rng = random.Random(seed)  # noqa: S311 (a draw that anybody can repeat, not a secret)
    for group_items in waiting.values():
        group_items.sort(key=str)
        rng.shuffle(group_items)
    columns: dict[str, list[Any]] = {"item": [], "rater": [], "value": []}
    for name, n in plan.buy.items():
        group, _, raters = name.rpartition("/") if strata else ("", "", name)
        pool = waiting.get(group, [])
        if len(pool) < n:
            place = f" of {group!r}" if group else ""
            rule = f"must have {n} more items{place} that the pilot does not hold, for {name!r}"
            raise EvidenceError(
                fault(
                    "--items",
                    rule,
                    f"{len(pool)}",
                    remedy="Bring more items, or plan with a smaller budget.",
                )
            )
        for item in (pool.pop() for _ in range(n)):
            for rater in raters.split("+"):
                columns["item"].append(item)
                columns["rater"].append(rater)
                columns["value"].append(None)
    return columns


# ----------------------------------------------------------------------------


EXAMPLE = """Example:

noracle plan evidence --half-width 0.02 --out plan.json

noracle plan --grades grades.csv --half-width 0.02

Example without evidence:

noracle plan --n-classes 10 --accuracy 0.8 --half-width 0.02 --cost ordinary=1 --cost complementary=0.2 --cap ordinary=500

Example with raters:

noracle plan --pilot pilot.csv --target human --costs prices.toml --budget 500 --have pilot --out plan.json

noracle plan --pilot pilot.csv --target human --costs prices.toml --cost minutes:human=3 --budget money=500 --budget minutes=300"""

Kind = Literal["ordinary", "complementary", "question", "targeted", "grades", "cheapest"]


_goal = panel("Goal (one of them)")
_across = panel("Budgets across raters")
_prices = panel("Prices")
_output = panel("Output")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _PlanOptions:
    places: list[str] | None = argument(
        "A folder with evidence, or its files: what is there counts, what is missing is planned.",
        "[FOLDER]",
        show_default=False,
    )
    n_classes: int | None = option("Number of classes.", "K")
    accuracy: float | None = option(
        "A guess of the accuracy; of the better system with --difference.", "A"
    )
    half_width: float | None = _goal("Least cost for an interval of ± W.", "W")
    budget: list[str] | None = _goal(
        "Narrowest interval for this money. With --pilot and --half-width: the most that may be spent; and with --pilot several named "
        "budgets, as in money=500 and minutes=300; repeat.",
        "B|NAME=B",
    )
    match: int | None = _goal("Complementary labels worth N ordinary ones.", "N")
    difference: float | None = _goal("Find a system that is better by D.", "D")
    disagreement: float | None = option(
        "Share of items on which exactly one of the two is right.", "P"
    )
    power: float = option("Chance to find the difference.", "P", 0.8)
    kind: Kind | None = option(
        "Kind of label. Default with a folder: that of the labels there; else the cheapest with a price."
    )
    systems: list[str] | None = option(
        "With a folder: whose intervals are wanted; default all.", "A,B"
    )
    grades: str | None = option(
        "Grades (item, system, verdict), beside a folder or without one.", "FILE"
    )
    n_items: int | None = option(
        "Without a folder: how many items there are, where these are all.", "N", min=1
    )
    pilot: list[str] | None = _across(
        "Scores of raters on some items: a column for each rater (empty: not observed), or rows item, rater, value; repeat for several "
        "files.",
        "FILE",
    )
    target: str | None = _across(
        "The rater whose mean is wanted; or a combination, as in a=1,b=-1.", "NAME"
    )
    have: list[str] | None = _across(
        "What is paid already and will be used: the pilot, or counts such as human+judge=250; repeat.",
        "pilot|SET=N",
    )
    strata: str | None = _across("The column of the pilot that names strata.", "COL")
    share: list[str] | None = _across(
        "Share of a stratum, where the pilot does not have it; repeat.", "STRATUM=P"
    )
    measurements: list[str] | None = _across(
        "The sets of raters that may be bought together; default all that are for sale.", "A+B,B"
    )
    prices: str | None = _prices(
        "TOML with [labels], [raters], [caps], [costs] and [budgets.NAME]; see the guide.",
        "FILE",
        None,
        "--prices",
        "--costs",
    )
    cost: list[str] | None = _prices(
        "Price of a label, or of a rater's score; in a further budget BUDGET:RATER=PRICE; repeat.",
        "KIND=PRICE",
    )
    cap: list[str] | None = _prices("Most labels of a kind or scores of a rater; repeat.", "KIND=N")
    epsilon: float = option("Uniform share of targeted questions.", "E", 0.05)
    confidence: float = opt.confidence()
    verify: bool = option(
        "Check the plan in another way; exit code 1 if it does not hold.", default=False
    )
    seed: int = opt.seed()
    out: str | None = _output(
        "Write the plan as JSON, for 'noracle route --plan' and 'noracle mean --plan'.", "FILE"
    )
    items: str | None = _across("Items that could be looked at, for --assign.", "FILE")
    assign: str | None = _across(
        "Draw items at random and write who looks at which: item, rater, value (to be filled in).",
        "FILE",
    )


@with_options(
    classes="n_items", columns="classes", no_answer="columns", items="out", assign="items"
)
def command(
    own: _PlanOptions,
    given: Annotated[Sources, only("classes", "columns", "no_answer")],
    output: Output,
) -> None:
    """Plan labels for a wanted half-width, a budget, a match or a comparison.

    With a folder the plan starts from its evidence: labels that are there count, estimates are the
    guesses, and every system's interval gets the half-width. If the items that are left are too few
    for it, all of them are planned and the exit code is 3.

    With --pilot the plan spreads a budget over raters and kinds of label, for the mean of --target.
    If --half-width cannot be reached within --budget, the plan is the best within the budget and
    the exit code is 3.
    """
    check_target("out", own.out)
    check_target("assign", own.assign)
    check_format("assign", own.assign)
    if (own.items is None) != (own.assign is None):
        raise ArgumentError("--items and --assign must come together; got one of them.")
    listed = Prices() if own.prices is None else read_prices(own.prices)
    caps = {**listed.caps, **(opt.pairs("cap", own.cap) or {})}
    for name, n in caps.items():
        if n != int(n) or n < 0:
            raise ArgumentError(f"--cap must be a whole number; got {n:g} for {name}.")
    if not 0 < own.epsilon <= 1:
        raise ArgumentError(f"--epsilon must be in (0, 1]; got {own.epsilon:g}.")
    prices_of = opt.pairs("cost", own.cost) or {}
    budgets = budgets_of(own.budget)
    pilots: list[Any] = (
        with_names(own.pilot, opt.column_names(given.columns), "pilot")
        if own.pilot and given.columns
        else list(own.pilot or ())
    )
    code, after = 0, list[str]()
    if own.places or own.grades is not None:
        goal = {
            "budget": own.budget,
            "match": own.match,
            "difference": own.difference,
            "disagreement": own.disagreement,
            "accuracy": own.accuracy,
        }
        _only(
            "without a folder",
            pilot=own.pilot,
            **goal,
            **{"n-items": own.n_items},
            strata=own.strata,
            share=own.share,
            have=own.have,
            assign=own.assign,
        )
        _only("with --pilot", measurements=own.measurements)
        with working("planning"):
            result = _from_folder(
                own.places or [str(split_metric(str(own.grades))[0])],
                chosen=reading(given) | {"n_classes": own.n_classes},
                half_width=own.half_width,
                systems=opt.names(own.systems),
                grades=own.grades,
                kind=own.kind,
                costs={**listed.labels, **prices_of},
                caps={k: int(n) for k, n in caps.items()},
                epsilon=own.epsilon,
                confidence=own.confidence,
                seed=own.seed,
            )
        code = 3 if result.reason else 0
    elif own.pilot:
        _only(
            "without --pilot",
            match=own.match,
            difference=own.difference,
            disagreement=own.disagreement,
        )
        with working("planning"):
            found = plan_with_pilot(
                Asked(
                    pilot=pilots,
                    target=opt.combination("target", own.target),
                    prices=listed,
                    costs=prices_of,
                    caps=caps,
                    budgets=budgets,
                    half_width=own.half_width,
                    have=own.have or (),
                    measurements=opt.names(own.measurements),
                    strata=own.strata,
                    shares=opt.pairs("share", own.share),
                    n_classes=own.n_classes,
                    accuracy=own.accuracy,
                    confidence=own.confidence,
                    epsilon=own.epsilon,
                )
            )
        result, code = found.plan, 3 if found.missed else 0
    else:
        _only(
            "with --pilot",
            target=own.target,
            have=own.have,
            strata=own.strata,
            share=own.share,
            assign=own.assign,
            measurements=own.measurements,
        )
        _only(
            "with a folder",
            systems=own.systems,
            classes=given.classes,
            columns=given.columns,
            **{"no-answer": given.no_answer},
        )
        if own.n_classes is None or own.accuracy is None:
            missing = [
                n
                for n, v in (("--n-classes", own.n_classes), ("--accuracy", own.accuracy))
                if v is None
            ]
            raise ArgumentError(
                f"{' and '.join(missing)} must be given, or a folder with evidence, or --pilot for raters; got none of them."
            )
        with working("planning"):
            result = plan_labels(
                n_classes=own.n_classes,
                accuracy=own.accuracy,
                n_items=own.n_items,
                half_width=own.half_width,
                budget=one_budget(budgets),
                match=own.match,
                difference=own.difference,
                disagreement=own.disagreement,
                power=own.power,
                kind=_without_grades(own.kind),
                costs={**listed.labels, **prices_of} or None,
                caps={k: int(n) for k, n in caps.items()} or None,
                epsilon=own.epsilon,
                confidence=own.confidence,
                seed=own.seed,
            )
    if own.verify:
        with working("verifying"):
            holds = result.verify()
        after.append(f"verified: {'yes' if holds else 'NO'}")
        code = code if holds else 1
    if own.out is not None:
        write_json(own.out, result.to_dict())
        after.append(f"plan {own.out}")
    if own.pilot and own.items is not None and own.assign is not None:
        write_table(
            own.assign,
            assign_items(result, own.items, pilot=pilots, strata=own.strata, seed=own.seed),
        )
        after += [f"who looks at what {own.assign}", f"seed {own.seed}"]
    output.emit(
        "Labels to buy", [result], single=True, seed=None if own.pilot else own.seed, after=after
    )
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
    from noracle.oversight.find import find_evidence
    from noracle.oversight.load import LABEL_KINDS, Loaded
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
