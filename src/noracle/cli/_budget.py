"""What ``noracle plan --pilot`` does: prices and options as arguments of the budget planner."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noracle.cli import _options as opt
from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.evidence.prices import Prices

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
