"""``noracle plan``: how many labels, of which kind, by which raters?"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli._options import Output, Sources, argument, flags, only, option, panel, with_options
from noracle.cli._output import check_format, check_target, working, write_json, write_table
from noracle.cli.report import reading
from noracle.errors import ArgumentError, EvidenceError, fault, require
from noracle.evidence.grade_logs import split_metric
from noracle.evidence.prices import Prices, read_prices
from noracle.ppi import plan_labels
from noracle.ppi.table import with_names

if TYPE_CHECKING:
    from noracle.ppi.measurements import CostModel, LabelType
    from noracle.results import Plan

_CAP = "--cap must be a whole number"
_LABEL = re.compile(r"ordinary|targeted|(complementary|question)(-[1-9][0-9]*)?")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What the options say, once they are read."""

    own: _PlanOptions
    pilot: Sequence[object]
    prices: Prices
    costs: Mapping[str, float]
    caps: Mapping[str, float]
    budgets: Mapping[str, float]

    @property
    def label_costs(self) -> dict[str, float]:
        """Prices of labels: those of the file, and options before them."""
        return {**self.prices.labels, **self.costs}

    @property
    def whole_caps(self) -> dict[str, int]:
        """The caps as whole numbers."""
        return _whole(self.caps, _CAP)


def budgets_of(values: Sequence[str] | None) -> dict[str, float]:
    """``--budget 500`` (a budget without a name) or ``--budget money=500 --budget minutes=300``.

    Examples
    --------
    >>> budgets_of(["500"]), budgets_of(["money=500", "minutes=300"])
    ({'': 500.0}, {'money': 500.0, 'minutes': 300.0})
    """
    found: dict[str, float] = {}
    for value in opt.names(values) or ():
        name, mark, number = (part.strip() for part in value.rpartition("="))
        try:
            amount = float(number)
        except ValueError:
            amount = math.nan
        told = f"{name or 'a number'} twice. Name them, as in money=5."
        broken = math.isnan(amount) or bool(mark and not name)
        require(not broken, f"--budget must be a number, or name=number; got {value!r}.")
        require(name not in found, f"--budget must be given once for each budget; got {told}")
        found[name] = amount
    rule = "--budget must be name=number where there are several; got one without a name."
    require("" not in found or len(found) == 1, rule)
    return found


def plan_with_pilot(asked: PlanRequest) -> tuple[Plan, bool]:
    """The best plan within the budget, or the smallest budget for the half-width; with both, the
    latter if it is within the former. Also whether the plan misses the half-width.
    """
    from noracle.ppi import plan_budget

    own = asked.own
    target = opt.combination("target", own.target)
    shares, half_width = opt.pairs("share", own.share), own.half_width
    if target is None:
        raise ArgumentError("--target must name the rater whose mean is wanted; got none.")
    given = bool(asked.budgets) or half_width is not None
    require(given, "--budget or --half-width must be given; got neither.")
    rule = "--share must come with --strata, the column that names strata; got no --strata."
    require(not shares or own.strata is not None, rule)
    first, further = _prices_by_budget(asked)
    kinds = {**asked.prices.labels, **{k: p for k, p in first.items() if _is_label(k)}}
    raters = {**asked.prices.raters, **{k: p for k, p in first.items() if not _is_label(k)}}
    rule = "prices must be given: --costs FILE, or --cost NAME=PRICE for each rater; got none."
    require(kinds or raters or asked.prices.lengths, rule)
    usual = "money" if further else "budget"
    main = next((name for name in asked.budgets if name not in further), usual) or "budget"
    money = asked.budgets.get(main, asked.budgets.get(""))
    limits: dict[str, float | None] = {main: money, **_limits(asked, main, further)}
    known = {*raters, *asked.prices.lengths, *([target] if isinstance(target, str) else target)}
    strange = sorted({name for prices in further.values() for name in prices} - known)
    told = f"got {', '.join(strange)}. Known are {', '.join(sorted(known))}."
    require(not strange, f"prices of a further budget must be of raters with a price; {told}")
    require(money is not None or half_width is not None, _no_budget(main, 500))
    costs: Any = _model(asked.prices, raters)
    if further:
        free = dict.fromkeys(known, 0.0)
        costs = {main: costs, **{name: {**free, **prices} for name, prices in further.items()}}
    plan = functools.partial(
        plan_budget,
        asked.pilot,
        target=target,
        costs=costs,
        measurements=opt.names(own.measurements) or "auto",
        caps=dict(asked.caps) or None,
        have=_have(own.have or ()),
        labels=_labels(kinds, own.n_classes, own.epsilon),
        accuracy=own.accuracy,
        strata=own.strata,
        shares=shares,
        confidence=own.confidence,
    )
    if half_width is None:
        return plan(budgets=limits), False
    opened: Any = {**limits, main: None}
    if money is None:
        return plan(budgets=opened, half_width=half_width), False
    within = plan(budgets=limits)
    if within.predicted > half_width:
        told = f"a budget of {money:g}"
        if further:
            told = " and ".join(f"{v:g} {name}" for name, v in limits.items())
        best = f"the best is ± {within.predicted:.4g}"
        reason = f"± {half_width:g} is out of reach within {told}; {best}"
        return dataclasses.replace(within, reason=reason), True
    least = plan(budgets=opened, half_width=half_width)
    return (least if least.cost <= money else within), False


def _prices_by_budget(asked: PlanRequest) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Prices in money, and those in further budgets (``minutes:human=3``, or a table
    ``[budgets.minutes]``).
    """
    first: dict[str, float] = {}
    further = {name: dict(prices) for name, prices in asked.prices.budgets.items()}
    for name, price in asked.costs.items():
        budget, mark, rater = (part.strip() for part in name.partition(":"))
        if mark and (budget in asked.budgets or budget in further):
            further.setdefault(budget, {})[rater] = price
        else:
            first[name] = price  # perhaps a rater whose name has a colon in it
    return first, further


def _limits(
    asked: PlanRequest, main: str, further: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """How much there is of each further budget; each must have prices, and each price a budget."""
    stray = [name for name in asked.budgets if name not in ("", main) and name not in further]
    if stray:
        remedy = f"as in --cost {stray[0]}:{'RATER'}=3, or a table [budgets.{stray[0]}] in the price file"
        raise ArgumentError(f"--budget {stray[0]} must have prices, {remedy}; got none.")
    for name in further:
        require(name in asked.budgets, _no_budget(name, 300))
    return {name: asked.budgets[name] for name in further}


def _no_budget(name: str, some: int) -> str:
    rule = f"--budget must say how much of {name!r} there is"
    return f"{rule}, as in --budget {name}={some}; got no such budget."


def _is_label(name: str) -> bool:
    return _LABEL.fullmatch(name) is not None


def _labels(
    kinds: Mapping[str, float], n_classes: int | None, epsilon: float
) -> tuple[LabelType, ...]:
    """Kinds of label of the target."""
    from noracle.ppi.expected import make_label

    about: Any = {"n_classes": n_classes, "epsilon": epsilon}
    for name in kinds:
        rule = f"--n-classes must be given with the label {name!r}; got none."
        require(n_classes is not None or name == "ordinary", rule)
    return tuple(make_label(name, price=price, **about) for name, price in kinds.items())


def _model(prices: Prices, raters: Mapping[str, float]) -> CostModel:
    from noracle.ppi import Additive, Cascade, Maximum

    about: Any = {"prices": raters, "per_item": prices.overhead}
    if prices.model == "cascade":
        words: Any = {"lengths": prices.lengths, "output": prices.output, "input": prices.input}
        return Cascade(**words, **about)
    return Maximum(**about) if prices.model == "maximum" else Additive(**about)


def _have(values: Sequence[str]) -> str | dict[str, int] | None:
    if not values:
        return None
    if list(values) == ["pilot"]:
        return "pilot"
    rule = "--have must be pilot or a whole number for each set"
    return _whole(opt.pairs("have", values) or {}, rule)


def _whole(values: Mapping[str, float], rule: str) -> dict[str, int]:
    for name, n in values.items():
        require(n == int(n) and n >= 0, f"{rule}; got {n:g} for {name}.")
    return {name: int(n) for name, n in values.items()}


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
        rule = f"must have the columns {', '.join(wanted)}"
        raise EvidenceError(fault("--items", rule, f"no {', '.join(missing)} in {items!r}"))
    seen: set[str] = set()
    for one in pilot:
        held, _ = open_frames({"pilot": one})
        if "item" in held["pilot"].columns:
            seen |= {str(row[0]) for row in fetch(held["pilot"].select("item"))}
    waiting: dict[str, list[Any]] = {}
    for row in dict.fromkeys(tuple(r) for r in fetch(frames["items"].select(*wanted))):
        if str(row[0]) not in seen:
            waiting.setdefault(str(row[1]) if strata else "", []).append(row[0])
    rng = random.Random(seed)  # noqa: S311 (a draw that anybody can repeat, not a secret)
    for group_items in waiting.values():
        group_items.sort(key=str)
        rng.shuffle(group_items)
    rows: list[tuple[Any, ...]] = []
    for name, n in plan.buy.items():
        group, _, raters = name.rpartition("/") if strata else ("", "", name)
        pool = waiting.get(group, [])
        if len(pool) < n:
            place = f" of {group!r}" if group else ""
            rule = f"must have {n} more items{place} that the pilot does not hold, for {name!r}"
            remedy = "Bring more items, or plan with a smaller budget."
            raise EvidenceError(fault("--items", rule, f"{len(pool)}", remedy=remedy))
        rows += [(pool[-1 - i], rater, None) for i in range(n) for rater in raters.split("+")]
        del pool[len(pool) - n :]
    return {name: [row[i] for row in rows] for i, name in enumerate(("item", "rater", "value"))}


EXAMPLE = opt.paragraphs("""Example:
noracle plan evidence --half-width 0.02 --out plan.json
noracle plan --grades grades.csv --half-width 0.02
Example without evidence:
noracle plan --n-classes 10 --accuracy 0.8 --half-width 0.02 --cost ordinary=1 --cost complementary=0.2 --cap ordinary=500
Example with raters:
noracle plan --pilot pilot.csv --target human --costs prices.toml --budget 500 --have pilot --out plan.json
noracle plan --pilot pilot.csv --target human --costs prices.toml --cost minutes:human=3 --budget money=500 --budget minutes=300""")

Kind = Literal["ordinary", "complementary", "question", "targeted", "grades", "cheapest"]


_goal, _across = panel("Goal (one of them)"), panel("Budgets across raters")
_prices, _output = panel("Prices"), panel("Output")


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
    match: opt.Count = _goal("Complementary labels worth N ordinary ones.")
    difference: float | None = _goal("Find a system that is better by D.", "D")
    disagreement: float | None = option(
        "Share of items on which exactly one of the two is right.", "P"
    )
    power: float = option("Chance of finding the difference.", "P", 0.8)
    kind: Kind | None = option(
        "Kind of label. Default with a folder: that of the labels there; else the cheapest with a price."
    )
    systems: opt.Names = option("With a folder: whose intervals are wanted; default all.")
    grades: opt.File = option("Grades (item, system, verdict), beside a folder or without one.")
    n_items: opt.Count = option(
        "Without a folder: how many items there are, where these are all.", min=1
    )
    pilot: opt.Files = _across(
        "Scores of raters on some items: a column for each rater (empty: not observed), or rows item, rater, value; repeat for several "
        "files."
    )
    target: str | None = _across(
        "The rater whose mean is wanted; or a combination, as in a=1,b=-1.", "NAME"
    )
    have: list[str] | None = _across(
        "What is paid already and will be used: the pilot, or counts such as human+judge=250; repeat.",
        "pilot|SET=N",
    )
    strata: opt.Column = _across("The column of the pilot that names strata.")
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
        "Check the plan by other means; exit code 1 if it does not hold.", default=False
    )
    seed: int = opt.seed()
    out: opt.File = _output(
        "Write the plan as JSON, for 'noracle route --plan' and 'noracle mean --plan'."
    )
    items: opt.File = _across("Items that could be looked at, for --assign.")
    assign: opt.File = _across(
        "Draw items at random and write who looks at which: item, rater, value (to be filled in)."
    )


_GUESSED = (
    *("n_items", "half_width", "match", "difference", "disagreement", "power", "epsilon"),
    *("confidence", "seed"),
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
    together = (own.items is None) == (own.assign is None)
    require(together, "--items and --assign must come together; got one of them.")
    listed = Prices() if own.prices is None else read_prices(own.prices)
    caps = {**listed.caps, **(opt.pairs("cap", own.cap) or {})}
    _whole(caps, _CAP)
    require(0 < own.epsilon <= 1, f"--epsilon must be in (0, 1]; got {own.epsilon:g}.")
    columns = opt.column_names(given.columns)
    pilots: Sequence[Any] = own.pilot or ()
    if own.pilot and columns:
        pilots = with_names(own.pilot, columns, "pilot")
    costs, budgets = opt.pairs("cost", own.cost) or {}, budgets_of(own.budget)
    about: Any = {"prices": listed, "costs": costs, "caps": caps, "budgets": budgets}
    asked = PlanRequest(own=own, pilot=list(pilots), **about)
    code, after = 0, list[str]()
    with working("planning"):
        if own.places or own.grades is not None:
            goal = ("budget", "match", "difference", "disagreement", "accuracy", "n_items")
            _only("without a folder", own, "pilot", *goal, "strata", "share", "have", "assign")
            _only("with --pilot", own, "measurements")
            result = _from_folder(asked, reading(given) | {"n_classes": own.n_classes})
            code = 3 if result.reason else 0
        elif own.pilot:
            _only("without --pilot", own, "match", "difference", "disagreement")
            result, missed = plan_with_pilot(asked)
            code = 3 if missed else 0
        else:
            raters = ("target", "have", "strata", "share", "assign", "measurements")
            _only("with --pilot", own, *raters)
            told = ("classes", "columns", "no_answer")
            _only("with a folder", given, *told, systems=own.systems)
            result = _from_nothing(asked)
    if own.verify:
        with working("verifying"):
            holds = result.verify()
        after.append(f"verified: {'yes' if holds else 'NO'}")
        code = code if holds else 1
    if own.out is not None:
        write_json(own.out, result.to_dict())
        after.append(f"plan {own.out}")
    if own.pilot and own.items is not None and own.assign is not None:
        drawn = assign_items(result, own.items, pilot=pilots, strata=own.strata, seed=own.seed)
        write_table(own.assign, drawn)
        after += [f"who looks at what {own.assign}", f"seed {own.seed}"]
    seed = None if own.pilot else own.seed
    output.emit("Labels to buy", [result], single=True, seed=seed, after=after)
    raise typer.Exit(code)


def _from_nothing(asked: PlanRequest) -> Plan:
    """The plan for guesses, without evidence."""
    own = asked.own
    needed = {"--n-classes": own.n_classes, "--accuracy": own.accuracy}
    missing = [name for name, value in needed.items() if value is None]
    if own.n_classes is None or own.accuracy is None:
        others = "or a folder with evidence, or --pilot for raters; got none of them"
        raise ArgumentError(f"{' and '.join(missing)} must be given, {others}.")
    if own.kind == "grades":
        rule = "--kind grades must come with a folder or --grades; got neither."
        raise ArgumentError(f"{rule} A grade counts as an ordinary label.")
    budgets = asked.budgets
    told = ", ".join(f"{name}={n:g}" for name, n in list(budgets.items())[:1])
    require(not any(budgets), f"--budget must be a number without --pilot; got {told}.")
    return plan_labels(
        n_classes=own.n_classes,
        accuracy=own.accuracy,
        budget=budgets.get(""),
        kind=own.kind or "cheapest",
        costs=asked.label_costs or None,
        caps=asked.whole_caps or None,
        **{name: getattr(own, name) for name in _GUESSED},
    )


def _from_folder(asked: PlanRequest, chosen: Mapping[str, Any]) -> Plan:
    """The plan for what a folder holds; prices and the half-width are those of its settings where
    no option says them.
    """
    from noracle.oversight.find import find_evidence
    from noracle.oversight.load import LABEL_KINDS, Loaded
    from noracle.ppi import plan_accuracy
    from noracle.ppi.labels import KINDS

    own = asked.own
    places = own.places or [str(split_metric(str(own.grades))[0])]
    told = {name: value for name, value in chosen.items() if value is not None}
    place = places[0] if len(places) == 1 else places
    inventory = find_evidence(place, chosen=told, grades=own.grades)
    loaded = Loaded(inventory)
    if loaded.accuracy is None:
        what, rule = f"evidence in {inventory.place!r}", "must have answers to plan labels for"
        remedy = "Add a table item, system, answer, or grades; or plan without a folder, by --n-classes and --accuracy."
        raise EvidenceError(fault(what, rule, "none", remedy=remedy))
    rule = "--kind cheapest must come with prices: --cost KIND=PRICE, or prices in the folder; got none."
    require(own.kind != "cheapest" or asked.label_costs or loaded.prices.labels, rule)
    prices = {**loaded.prices.labels, **asked.label_costs}
    prices = {name: price for name, price in prices.items() if name in LABEL_KINDS}
    limits = {**loaded.prices.caps, **asked.whole_caps}
    limits = {name: int(n) for name, n in limits.items() if name in LABEL_KINDS}
    plan = functools.partial(
        plan_accuracy,
        loaded.accuracy,
        half_width=loaded.settings.half_width if own.half_width is None else own.half_width,
        systems=opt.names(own.systems),
        costs=prices or None,
        caps=limits or None,
        epsilon=own.epsilon,
        confidence=own.confidence,
        seed=own.seed,
    )
    if own.kind != "cheapest":
        return plan(kind=own.kind)
    kinds: tuple[Any, ...] = (*KINDS, "grades")
    plans = [plan(kind=name) for name in kinds if name in prices]
    return min(plans, key=lambda plan: (bool(plan.reason), plan.cost))


def _only(when: str, options: object, *names: str, **first: object) -> None:
    """Refuse options that belong to the other kind of plan."""
    stray = flags({**first, **{name: getattr(options, name) for name in names}})
    got = {"with --pilot": "no --pilot", "with a folder": "no folder"}.get(when, "both")
    require(not stray, f"{', '.join(stray)} must come {when}; got {got}.")
