"""How many labels, of which kind, for a wanted half-width, budget or power."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.special import betaincinv

from noracle.bounds import linear
from noracle.bounds.betting import FRACTIONS, LOG_PRIOR
from noracle.bounds.linear import Cell
from noracle.counts.tallies import check_n_classes
from noracle.errors import ArgumentError
from noracle.results import Assumption, Guarantee, Kind, Plan, check_confidence, choose

KINDS = ("ordinary", "complementary", "question", "targeted")
LabelKind = Literal["ordinary", "complementary", "question", "targeted"]
_MOST = 10**9


def plan_labels(
    *,
    n_classes: int,
    accuracy: float,
    half_width: float | None = None,
    budget: float | None = None,
    match: int | None = None,
    difference: float | None = None,
    disagreement: float | None = None,
    power: float = 0.8,
    kind: LabelKind | Literal["cheapest"] = "cheapest",
    costs: Mapping[str, float] | None = None,
    caps: Mapping[str, int] | None = None,
    epsilon: float = 0.05,
    confidence: float = 0.95,
    seed: int = 0,
) -> Plan:
    """Plan labels for one of four goals.

    - ``half_width``: the least cost for which the expected half-width of the *actual* exact interval is at most this;
    - ``budget``: the smallest expected half-width that this much money buys;
    - ``match``: the complementary labels with the variance of ``match`` ordinary ones, n_c = (1 + (K - 2)/A)·n_o (equation 5);
    - ``difference``: labels to find a system better by this much with probability ``power`` (paired betting test, simulated).

    Parameters
    ----------
    accuracy
        A guess of the accuracy; of the better system for ``difference``.
    disagreement
        For ``difference``: the share of items on which exactly one of the two systems is right; default the largest possible.
    kind
        ``ordinary``; ``complementary``; ``question`` (one uniform class per item, yes or no); ``targeted`` (ask about the answer with
        probability
        1 - ε + ε/K); ``cheapest`` of those that have a price.
    costs
        Price per label of each kind; default 1 for all, so that the fewest labels win.
    caps
        Most labels of a kind. Where the cheapest kind is capped, ordinary and complementary labels are mixed.

    Notes
    -----
    Information per label is 1/(A(1-A)) for an ordinary label and 1/((A+K-2)(1-A)) for a complementary one; a mixture fills the cheaper
    source
    of information first.

    Examples
    --------
    >>> plan_labels(n_classes=10, accuracy=0.78, match=300).buy
    {'complementary': 3377}
    >>> plan = plan_labels(n_classes=4, accuracy=0.9, half_width=0.03, kind="ordinary")
    >>> plan.buy["ordinary"] > 300, plan.verify()
    (True, True)
    """
    k = check_n_classes(n_classes)
    check_confidence(confidence)
    if not 0 <= accuracy <= 1:
        raise ArgumentError(f"accuracy must be in [0, 1]; got {accuracy}.")
    goals = [
        name
        for name, value in (("half_width", half_width), ("budget", budget), ("match", match), ("difference", difference))
        if value is not None
    ]
    if len(goals) != 1:
        raise ArgumentError(f"one goal must be given: half_width, budget, match or difference; got {', '.join(goals) or 'none'}.")
    choose("kind", kind, (*KINDS, "cheapest"))
    prices = _prices(costs, kind)
    inputs: dict[str, Any] = {
        "n_classes": k, "accuracy": accuracy, "kind": kind, "costs": prices, "caps": dict(caps or {}), "epsilon": epsilon, "seed": seed,
        "disagreement": disagreement, "power": power, "difference": difference,
    }  # fmt: skip
    if match is not None:
        return _match(k, accuracy, match, prices, confidence, inputs)
    if difference is not None:
        return _power(k, accuracy, difference, disagreement, power, prices, confidence, seed, inputs)
    widths = _Widths(k, accuracy, confidence, epsilon)
    if half_width is not None:
        if not 0 < half_width < 0.5:
            raise ArgumentError(f"half_width must be in (0, 0.5); got {half_width}. For plus or minus 2 points pass 0.02.")
        options = [_least(widths, name, half_width, price, caps) for name, price in prices.items()]
        goal, wanted = "half-width", half_width
    else:
        if not (budget or 0) > 0:
            raise ArgumentError(f"budget must be positive; got {budget}.")
        options = [_most(widths, name, float(budget or 0), price, caps) for name, price in prices.items()]
        goal, wanted = "budget", float(budget or 0)
    options += _mixed(widths, half_width, budget, prices, caps)
    usable = [o for o in options if o["feasible"]]
    if not usable:
        raise ArgumentError(
            f"{goal.replace('-', '_')} cannot be met: {options[0]['why']}. Raise the caps, widen the goal or allow other kinds of label."
        )
    best = min(usable, key=(lambda o: (o["cost"], o["predicted"])) if half_width is not None else (lambda o: (o["predicted"], o["cost"])))
    return Plan(
        goal=goal, wanted=wanted, predicted=best["predicted"], buy=best["buy"], cost=best["cost"], confidence=confidence,
        method="expected half-width of the exact interval", interval="exact", guarantee=_promise(confidence), inputs=inputs,
        alternatives=tuple({key: v for key, v in o.items() if key != "why" or v} for o in options),
        notes=("the plan rests on the guessed accuracy; the interval you get does not",),
    )  # fmt: skip


def _promise(confidence: float) -> Guarantee:
    return Guarantee(
        kind=Kind.HEURISTIC,
        error_rate=1 - confidence,
        assumptions=(
            Assumption(name="guessed accuracy"),
            Assumption(name="iid items"),
            Assumption(name="uniform routing"),
            Assumption(name="right verdicts"),
        ),
    )


def _prices(costs: Mapping[str, float] | None, kind: str) -> dict[str, float]:
    prices = dict(costs) if costs is not None else dict.fromkeys(("ordinary", "complementary") if kind == "cheapest" else (kind,), 1.0)
    for name, price in prices.items():
        choose("costs", name, KINDS)
        if not (price > 0 and math.isfinite(price)):
            raise ArgumentError(f"costs must be positive; got {price} for {name}. A free kind of label needs no plan.")
    if kind != "cheapest":
        if kind not in prices:
            raise ArgumentError(f"costs must have a price for {kind!r}; got {sorted(prices)}.")
        prices = {kind: prices[kind]}
    return prices


class _Widths:
    """Expected half-width of the exact interval for numbers of labels of each kind."""

    def __init__(self, k: int, accuracy: float, confidence: float, epsilon: float) -> None:
        self.k, self.accuracy, self.tail = k, accuracy, (1 - confidence) / 2
        self.aimed = 1 - epsilon + epsilon / k
        self.slope = 1 / (k - 1)

    def of(self, buy: Mapping[str, int]) -> float:
        """Half-width: expected over the labels for one kind, at the expected counts for a mixture."""
        ordinary = buy.get("ordinary", 0) + math.floor(buy.get("targeted", 0) * self.aimed)
        complementary = buy.get("complementary", 0)
        questions = buy.get("question", 0)
        ordinary += round(questions / self.k)
        complementary += questions - round(questions / self.k)
        if not complementary:
            return self._expected(ordinary, 0.0, 1.0)
        if not ordinary:
            return self._expected(complementary, 1 - self.slope, self.slope)
        q = 1 - self.slope * (1 - self.accuracy)
        cells = (
            Cell(ordinary, round(ordinary * self.accuracy)),
            Cell(complementary, round(complementary * q), 1 - self.slope, self.slope),
        )  # fmt: skip
        limits = linear.exact(cells, self.tail, self.tail)
        return (limits.high - limits.low) / 2

    def _expected(self, n: int, a: float, b: float) -> float:
        if n < 1:
            return 0.5
        p = a + b * self.accuracy
        counts, pmf = linear.support(n, p)
        with np.errstate(invalid="ignore"):
            low = np.where(counts <= 0, 0.0, betaincinv(np.maximum(counts, 1), n - counts + 1, self.tail))
            high = np.where(counts >= n, 1.0, betaincinv(counts + 1, np.maximum(n - counts, 1), 1 - self.tail))
        width = np.clip((high - a) / b, 0, 1) - np.clip((low - a) / b, 0, 1)
        return float(np.dot(pmf, width)) / 2


def _search(enough: Callable[[int], bool], most: int) -> int | None:
    """The smallest n that is enough, for a condition that (nearly) stays true once it is; None beyond ``most``."""
    high = 1
    while not enough(high):
        if high >= most:
            return None
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    while high > 1 and enough(high - 1):
        high -= 1
    return high


def _option(buy: dict[str, int], predicted: float, cost: float, *, feasible: bool = True, why: str = "") -> dict[str, Any]:
    return {"buy": buy, "predicted": predicted, "cost": cost, "feasible": feasible, "why": why}


def _narrow(widths: _Widths, fixed: Mapping[str, int], kind: str, half_width: float, n: int) -> bool:
    return widths.of({**fixed, kind: n}) <= half_width


def _least(widths: _Widths, kind: str, half_width: float, price: float, caps: Mapping[str, int] | None) -> dict[str, Any]:
    cap = (caps or {}).get(kind, _MOST)
    n = _search(partial(_narrow, widths, {}, kind, half_width), max(1, cap))
    if n is None or n > cap:
        return _option({kind: cap}, math.nan, math.nan, feasible=False, why=f"{cap} {kind} labels are not enough")
    return _option({kind: n}, widths.of({kind: n}), n * price)


def _most(widths: _Widths, kind: str, budget: float, price: float, caps: Mapping[str, int] | None) -> dict[str, Any]:
    n = min(int(budget / price + 1e-9), (caps or {}).get(kind, _MOST))
    if n < 1:
        return _option({kind: 0}, math.nan, 0.0, feasible=False, why=f"{budget:g} does not buy one {kind} label")
    return _option({kind: n}, widths.of({kind: n}), n * price)


def _mixed(
    widths: _Widths, half_width: float | None, budget: float | None, prices: Mapping[str, float], caps: Mapping[str, int] | None
) -> list[dict[str, Any]]:
    """All of a capped kind, the rest of the other: only where a cap on one of the two plain kinds binds."""
    options = []
    for capped, other in (("ordinary", "complementary"), ("complementary", "ordinary")):
        if capped not in prices or other not in prices or capped not in (caps or {}):
            continue
        fixed = (caps or {})[capped]
        if budget is not None:
            fixed = min(fixed, int(budget / prices[capped] + 1e-9))
            rest = int((budget - fixed * prices[capped]) / prices[other] + 1e-9)
        else:
            cap = (caps or {}).get(other, _MOST)
            rest = _search(partial(_narrow, widths, {capped: fixed}, other, float(half_width or 0)), cap) or 0
        if fixed and rest:
            buy = {capped: fixed, other: rest}
            options.append(_option(buy, widths.of(buy), sum(prices[name] * n for name, n in buy.items())))
    return options


def _match(k: int, accuracy: float, match: int, prices: Mapping[str, float], confidence: float, inputs: dict[str, Any]) -> Plan:
    if match < 1 or accuracy <= 0:
        raise ArgumentError(f"match must be at least 1 and accuracy positive; got {match} and {accuracy}.")
    n = math.ceil((1 + (k - 2) / accuracy) * match - 1e-9)
    variance = (accuracy + k - 2) * (1 - accuracy) / n
    wanted = accuracy * (1 - accuracy) / match
    return Plan(
        goal="variance",
        wanted=wanted,
        predicted=variance,
        buy={"complementary": n},
        cost=n * prices.get("complementary", 1.0),
        confidence=confidence,
        method="equation (5): n_c = (1 + (K - 2)/A)·n_o",
        interval="none",
        guarantee=_promise(confidence),
        inputs={**inputs, "match": match},
        notes=("the plan rests on the guessed accuracy",),
    )


# ------------------------------------------------------------------------------------------------------------------- power


def _power(
    k: int,
    accuracy: float,
    difference: float,
    disagreement: float | None,
    power: float,
    prices: Mapping[str, float],
    confidence: float,
    seed: int,
    inputs: dict[str, Any],
) -> Plan:
    most = min(accuracy, 1 - accuracy + difference) + max(0.0, min(accuracy, 1 - accuracy + difference) - difference)
    share = most if disagreement is None else disagreement
    if not 0 < difference <= min(share, accuracy) or share > 1:
        raise ArgumentError(
            f"difference must be positive, at most the disagreement and at most the accuracy; got {difference} with disagreement {share:g}."
        )
    if not 0 < power < 1:
        raise ArgumentError(f"power must be in (0, 1); got {power}.")
    options = []
    for kind, price in prices.items():
        if kind not in ("ordinary", "complementary"):
            raise ArgumentError(f"kind must be 'ordinary' or 'complementary' for a comparison; got {kind!r}.")
        found = partial(simulated_power, k, difference, share, kind, confidence=confidence, seed=seed)
        n = _search(partial(_strong, found, power), 10**7)
        if n is None:
            options.append(_option({kind: 10**7}, math.nan, math.nan, feasible=False, why=f"10 million {kind} labels are not enough"))
        else:
            options.append(_option({kind: n}, found(n), n * price))
    usable = [o for o in options if o["feasible"]]
    if not usable:
        raise ArgumentError(f"difference cannot be found: {options[0]['why']}.")
    best = min(usable, key=lambda o: o["cost"])
    return Plan(
        goal="power",
        wanted=power,
        predicted=best["predicted"],
        buy=best["buy"],
        cost=best["cost"],
        confidence=confidence,
        method="simulated power of the paired betting test",
        interval="betting",
        guarantee=_promise(confidence),
        inputs={**inputs, "disagreement": share},
        alternatives=tuple(options),
        notes=("the plan rests on the guessed difference and disagreement",),
    )


def _strong(found: Callable[[int], float], power: float, n: int) -> bool:
    return found(n) >= power


def simulated_power(
    k: int, difference: float, disagreement: float, kind: str, n: int, confidence: float, seed: int, worlds: int = 2000
) -> float:
    """Share of simulated worlds in which the two-sided paired betting interval lies above 0.

    An item on which exactly one system is right has d = ±1 with an ordinary label and, with probability 1/(K-1), d = ±(K-1) with a
    complementary one. Items on which both are wrong in different ways are left out, which favours complementary labels.
    """
    up, down = (disagreement + difference) / 2, (disagreement - difference) / 2
    chance = 1.0 if kind == "ordinary" else 1 / (k - 1)
    rng = np.random.default_rng([seed, n])
    drawn = rng.multinomial(n, [up * chance, down * chance, 1 - (up + down) * chance], size=worlds)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = drawn[:, :1] * np.log1p(FRACTIONS) + np.where(drawn[:, 1:2] > 0, drawn[:, 1:2] * np.log1p(-FRACTIONS), 0.0) + LOG_PRIOR
    top = logs.max(axis=1, keepdims=True)
    wealth = top[:, 0] + np.log(np.exp(logs - top).sum(axis=1))
    return float(np.mean(wealth >= math.log(2 / (1 - confidence))))


# ------------------------------------------------------------------------------------------------------------- verification


def verify_plan(plan: Plan) -> bool:
    """Check a label plan in another way than it was made: scipy's own Clopper–Pearson, another simulation, plain arithmetic."""
    inputs = plan.inputs
    k, accuracy = int(inputs["n_classes"]), float(inputs["accuracy"])
    cost = sum(float(inputs["costs"].get(kind, 1.0)) * n for kind, n in plan.buy.items())
    if abs(cost - plan.cost) > 1e-6 * max(1.0, cost) or any(n > inputs["caps"].get(kind, _MOST) for kind, n in plan.buy.items()):
        return False
    if plan.goal == "variance":
        n_c, n_o = plan.buy["complementary"], int(inputs["match"])
        ordinary, complementary = accuracy * (1 - accuracy) / n_o, (accuracy + k - 2) * (1 - accuracy) / n_c
        return complementary <= ordinary * (1 + 1e-9) or accuracy in (0.0, 1.0)
    if plan.goal == "power":
        ((kind, n),) = plan.buy.items()
        again = simulated_power(
            k, float(inputs["difference"]), float(inputs["disagreement"]), kind, n, plan.confidence, int(inputs["seed"]) + 1, worlds=10_000
        )
        return bool(again >= plan.wanted - 0.04)
    if plan.goal == "budget" and cost > plan.wanted * (1 + 1e-9):
        return False
    again = _simulated_half_width(plan)
    limit = plan.wanted if plan.goal == "half-width" else plan.predicted
    return bool(again <= limit * 1.04 + 1e-3)


def _simulated_half_width(plan: Plan, worlds: int = 400) -> float:
    """Mean half-width over simulated labels, each interval by scipy's binomial test or, for two kinds, by a grid over A."""
    from scipy.stats import binom, binomtest

    inputs = plan.inputs
    k, accuracy, tail = int(inputs["n_classes"]), float(inputs["accuracy"]), (1 - plan.confidence) / 2
    rng = np.random.default_rng(int(inputs["seed"]) + 2)
    aimed = 1 - float(inputs["epsilon"]) + float(inputs["epsilon"]) / k
    n_o, n_c = plan.buy.get("ordinary", 0) + int(plan.buy.get("targeted", 0) * aimed), plan.buy.get("complementary", 0)
    questions = plan.buy.get("question", 0)
    n_o, n_c = n_o + round(questions / k), n_c + questions - round(questions / k)
    q = (accuracy + k - 2) / (k - 1)
    if not n_o or not n_c:
        n, p, scale = (n_o, accuracy, 1) if n_o else (n_c, q, k - 1)
        widths = []
        for s in rng.binomial(n, p, size=worlds):
            found = binomtest(int(s), n).proportion_ci(plan.confidence, method="exact")
            low, high = (min(max(1 - scale * (1 - x), 0.0), 1.0) for x in (found.low, found.high))
            widths.append((high - low) / 2)
        return float(np.mean(widths))
    # Two kinds: equal-tailed limits of a weighted sum with the plan's weights, tails by simulation on a grid of A.
    weights = 1 / (accuracy * (1 - accuracy)), 1 / ((accuracy + k - 2) * (1 - accuracy)) * (k - 1)
    centre = weights[0] * n_o * accuracy + weights[1] * n_c * q
    grid = np.linspace(max(0.0, accuracy - 4 * plan.predicted), min(1.0, accuracy + 4 * plan.predicted), 81)
    kept = []
    for a in grid:
        total = weights[0] * binom.rvs(n_o, a, size=4000, random_state=rng) + weights[1] * binom.rvs(
            n_c, (a + k - 2) / (k - 1), size=4000, random_state=rng
        )
        if tail <= np.mean(total >= centre) and tail <= np.mean(total <= centre):
            kept.append(a)
    return float(max(kept) - min(kept)) / 2 if kept else 0.5
