"""How many labels, of which kind, for a wanted half-width, budget or power.

Which kinds to buy, and how they mix, is for :func:`~noracle.ppi.plan.plan_budget` to say, which
plans with variances. Here its counts are moved until the interval that the default estimate will
use keeps the goal. That is worked out in closed form for one number of classes and an unknown
population (:class:`Widths`), and by the estimate of the expected labels otherwise
(:class:`~noracle.ppi.expected.Expected`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from noracle.bounds import binomial as linear
from noracle.bounds.betting import FRACTIONS, LOG_PRIOR
from noracle.bounds.binomial import BinomialCell, betaincinv
from noracle.counts.tally import check_n_classes
from noracle.errors import ArgumentError, require
from noracle.ppi.expected import (
    UNKNOWN,
    Expected,
    aimed,
    make_label,
    model_votes,
    places_of,
    with_held,
)
from noracle.ppi.measurements import LabelType
from noracle.ppi.plan import plan_budget
from noracle.results import Assumption, Guarantee, Kind, Plan, check_confidence, choose

LabelKind = Literal["ordinary", "complementary", "question", "targeted"]
KINDS: tuple[LabelKind, ...] = ("ordinary", "complementary", "question", "targeted")
MOST = 10**9
_MOST = 10**7  # of labels that compare systems
_EDGE = 1e-3  # kinds are weighed as if the accuracy were at least so far from 0 and 1
_SMOOTH, _QUANTILES = 25.0, 11
_PAYS = 0.99  # a second kind of label must save 1 %


def plan_labels(
    *,
    n_classes: int | Mapping[int, int],
    accuracy: float,
    n_items: int | None = None,
    strata: Mapping[str, int] | None = None,
    systems: int = 1,
    have: Mapping[str, int] | None = None,
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

    - ``half_width``: the least cost for which the half-width of the interval that
      :func:`~noracle.accuracy.estimate_accuracy` will use for these labels is expected to be at
      most this;
    - ``budget``: the smallest expected half-width that this much money buys;
    - ``match``: the complementary labels with the variance of ``match`` ordinary ones, n_c = (1 +
      (K - 2)/A)·n_o (equation 5);
    - ``difference``: labels to find a system better by this much with probability ``power`` (paired
      betting test, simulated).

    Parameters
    ----------
    n_classes
        Number of classes; or, where items have different ones, how many items have which, as in
        ``{4: 300, 10: 700}``.
    accuracy
        A guess of the accuracy; of the better system for ``difference``.
    n_items
        How many items there are, where these are all that matter: then the share without labels is
        what is uncertain, and no plan buys more than one label for each. None where items are a
        sample of more, or not counted yet.
    strata
        Number of items in each stratum. A plan draws items at random, so that strata need no labels
        of their own; they matter where ``have`` says that they were labelled at different rates:
        then new labels are bought by stratum, the least labelled first.
    systems
        How many systems share targeted questions, which then follow their votes. They are supposed
        to be equally good and independent.
    have
        Labels that are there already, as in ``{"ordinary": 200}``, or by stratum, as in
        ``{"law/ordinary": 200}``. They count.
    disagreement
        For ``difference``: the share of items on which exactly one of the two systems is right;
        default the largest possible.
    kind
        ``ordinary``; ``complementary``; ``question`` (one uniform class per item, yes or no);
        ``targeted`` (ask about the answer with probability 1 - ε + ε/K); ``cheapest`` of those that
        have a price.
    costs
        Price per label of each kind; default 1 for all, so that the fewest labels win.
    caps
        Most labels of a kind. Where the cheapest kind is capped, kinds are mixed.

    Notes
    -----
    :func:`plan_budget` says which kinds to buy together: those with the most information for their price, 1/(A(1-A)) for an ordinary label
    and 1/((A+K-2)(1-A)) for a complementary one, each up to its cap. Every kind alone is an
    alternative, and is taken where a mixture would not save 1 %. A plan of autoraters and labels
    together is a matter for :func:`plan_budget` itself.

    Assumes that the accuracy is as guessed, that wrong answers and ruled-out classes are uniform,
    and that verdicts are right. The interval that the labels then give does not rest on the guess.

    References
    ----------
    Yin, Ishida and Sugiyama, "Towards scalable oversight via partitioned human supervision",
    equation (5); Cowen-Breen et al., "Multiple-prediction-powered inference" (2026), for mixtures
    of kinds.

    Examples
    --------
    >>> plan_labels(n_classes=10, accuracy=0.78, match=300).buy
    {'complementary': 3377}
    >>> plan = plan_labels(n_classes=4, accuracy=0.9, half_width=0.03, kind="ordinary")
    >>> plan.buy["ordinary"] > 300, plan.verify()
    (True, True)
    >>> few = plan_labels(n_classes=4, accuracy=0.9, half_width=0.03, kind="ordinary", n_items=500)
    >>> few.buy["ordinary"] < plan.buy["ordinary"], few.inputs["estimator"]["interval"]
    (True, 'hypergeometric')
    """
    place = _Place(n_classes, n_items, strata, have, systems)
    check_confidence(confidence)
    given = {"half_width": half_width, "budget": budget, "match": match, "difference": difference}
    goals = [name for name, value in given.items() if value is not None]
    several = f"{len(place.n_classes)} of them" if len(place.n_classes) > 1 else ""
    require(0 <= accuracy <= 1, f"accuracy must be in [0, 1]; got {accuracy}.")
    rule, got = "half_width, budget, match or difference", ", ".join(goals) or "none"
    require(len(goals) == 1, f"one goal must be given: {rule}; got {got}.")
    choose("kind", kind, (*KINDS, "cheapest"))
    prices = _prices(costs, kind)
    inputs: dict[str, Any] = {
        "n_classes": place.told,
        "accuracy": accuracy,
        "kind": kind,
        "costs": prices,
        "caps": dict(caps or {}),
        "epsilon": epsilon,
        "seed": seed,
        "disagreement": disagreement,
        "power": power,
        "difference": difference,
        "n_items": place.n_items,
        "strata": dict(strata) if place.by_stratum and strata else None,
        "n_systems": systems,
        "have": dict(have or {}),
    }
    mixed = several and (match is not None or difference is not None)
    require(not mixed, f"n_classes must be one number for {goals[0]}; got {several}.")
    if match is not None:
        return _match(match, inputs, confidence)
    if difference is not None:
        return _plan_difference(inputs, confidence)
    money, k = float(budget or 0), place.typical
    if half_width is not None:
        check_half_width(half_width)
    else:
        require(money > 0 and math.isfinite(money), f"budget must be positive; got {budget}.")
    market = _Market(
        labels={s: make_label(s, n_classes=k, price=p, epsilon=epsilon) for s, p in prices.items()},
        caps={name: most for name, most in (caps or {}).items() if name in prices},
        guess=min(max(accuracy, _EDGE), 1 - _EDGE),
        confidence=confidence,
        widths=place.widths(accuracy, confidence, epsilon, seed),
        left=place.left,
    )
    groups = _groups(list(prices), systems, mixed=not place.by_stratum)
    options = [market.most(group, money) for group in groups if half_width is None]
    options += [market.fewest(group, half_width) for group in groups if half_width is not None]
    best = _best(options, "predicted" if half_width is None else "cost", goals[0])
    estimator = market.widths.estimator(best["buy"])
    notes = ["the plan rests on the guessed accuracy; the interval you get does not"]
    wider = "one bound for their sum is about 1.4 times as wide as an interval without parts"
    if estimator["interval"] == "parts":
        notes.append(f"parts of the items must be kept apart: {wider}")
    bought = [o["buy"] for o in options]
    return as_plan(
        {**best, "buy": market.widths.told(best["buy"])},
        estimator,
        confidence,
        goal="budget" if half_width is None else "half-width",
        wanted=float(half_width or budget or 0),
        inputs={**inputs, "estimator": estimator},
        alternatives=tuple(o for i, o in enumerate(options) if o["buy"] not in bought[:i]),
        notes=tuple(notes),
    )


def as_plan(
    best: Mapping[str, Any], estimator: Mapping[str, Any], confidence: float, **rest: Any
) -> Plan:
    """One option as a plan."""
    told = {name: best[name] for name in ("predicted", "buy", "cost")}
    names = ("guessed accuracy", "iid items", "uniform routing", "right verdicts")
    rests_on = tuple(Assumption(name=name) for name in names)
    # Nothing beyond its guesses is promised.
    promised = Guarantee(kind=Kind.HEURISTIC, error_rate=1 - confidence, assumptions=rests_on)
    return Plan(**told, **estimator, confidence=confidence, guarantee=promised, **rest)


def check_half_width(half_width: float) -> None:
    """Refuse what is no half-width of a share."""
    rule, remedy = "half_width must be in (0, 0.5)", "For plus or minus 2 points pass 0.02."
    require(0 < half_width < 0.5, f"{rule}; got {half_width}. {remedy}")


def check_costs(costs: Mapping[str, float], kinds: Sequence[str]) -> None:
    """Refuse prices of unknown kinds of label, and prices that are not positive."""
    for name, price in costs.items():
        choose("costs", name, kinds)
        rule = f"costs must be positive; got {price} for {name}"
        free = "A free kind of label needs no plan."
        require(price > 0 and math.isfinite(price), f"{rule}. {free}")


def _groups(kinds: list[str], systems: int, *, mixed: bool) -> list[list[str]]:
    """What is bought together: each kind, and all; targeted ones with ordinary labels only."""
    together = [kinds]
    if systems > 1 and "targeted" in kinds:
        apart = [name for name in kinds if name != "targeted"]
        together = [apart, [name for name in kinds if name in ("ordinary", "targeted")]]
    alone = [[name] for name in kinds]
    return [*alone, *(group for group in together if mixed and len(group) > 1)]


class _Place:
    """The population as the arguments say it, if they agree."""

    def __init__(
        self,
        n_classes: int | Mapping[int, int],
        n_items: int | None,
        strata: Mapping[str, int] | None,
        have: Mapping[str, int] | None,
        systems: int,
    ) -> None:
        sizes = {"n_classes": sum(n_classes.values())} if isinstance(n_classes, Mapping) else {}
        sizes |= {"n_items": n_items} if n_items is not None else {}
        sizes |= {"strata": sum(strata.values())} if strata else {}
        counts = all(isinstance(n, int) and n > 0 for n in sizes.values())
        told = ", ".join(f"{n} in {name}" for name, n in sizes.items())
        rule = f"n_items must be positive and the sum of n_classes and of strata; got {told}."
        require(counts and len(set(sizes.values())) <= 1, rule)
        total = next(iter(sizes.values()), None)
        mix = n_classes if isinstance(n_classes, Mapping) else {n_classes: total or 1}
        self.n_classes = {check_n_classes(k): int(n) for k, n in mix.items()}
        whole = isinstance(systems, int) and systems >= 1
        require(whole, f"systems must be a whole number of at least 1; got {systems}.")
        self.n_items, self.strata, self.systems = total, strata, systems
        self.have, parts = dict(have or {}), strata or {}
        for name, n in self.have.items():
            stratum, _, kind = name.rpartition("/")
            choose("have", kind, KINDS)
            rule = f"have must name strata that are given; got {stratum!r}"
            require(not stratum or stratum in parts, f"{rule}. Pass strata={{{stratum!r}: …}}.")
            most = [x for x in (parts.get(stratum), total) if x is not None]
            sound = isinstance(n, int) and 0 <= n <= min(most, default=n)
            rule = "have must be whole numbers that are not larger than their population"
            require(sound, f"{rule}; got {n} for {name!r}.")

    @property
    def told(self) -> int | dict[str, int]:
        """The numbers of classes as a plan stores them."""
        mix = {str(k): n for k, n in self.n_classes.items()}
        return mix if len(mix) > 1 else next(iter(self.n_classes))

    @property
    def typical(self) -> int:
        """One number of classes, for which kinds are weighed against each other."""
        total = sum(k * n for k, n in self.n_classes.items())
        return max(2, round(total / sum(self.n_classes.values())))

    @property
    def by_stratum(self) -> bool:
        """Whether labels were bought by stratum, so that new ones are."""
        return any("/" in name for name in self.have)

    @property
    def left(self) -> int:
        """Items without a label."""
        return MOST if self.n_items is None else max(0, self.n_items - sum(self.have.values()))

    def widths(
        self, accuracy: float, confidence: float, epsilon: float, seed: int
    ) -> Widths | Expected:
        """Closed forms where there are some, else the estimate of expected labels."""
        if self.n_items is None and self.systems == 1:
            return Widths(self.typical, accuracy, confidence, epsilon, self.have)
        mix = self.n_classes if self.n_items is not None else {self.typical: UNKNOWN}
        world = Expected(
            places=places_of(n_classes=mix, strata=self.strata if self.by_stratum else None),
            accuracy=accuracy,
            confidence=confidence,
            votes=model_votes(self.systems, epsilon),
            whole=self.n_items is not None,
            strata=self.by_stratum,
            seed=seed,
        )
        return with_held(world, self.have) if self.have else world


def _prices(costs: Mapping[str, float] | None, kind: str) -> dict[str, float]:
    usual = ("ordinary", "complementary") if kind == "cheapest" else (kind,)
    prices = dict.fromkeys(usual, 1.0) if costs is None else dict(costs)
    check_costs(prices, KINDS)
    known = kind == "cheapest" or kind in prices
    require(known, f"costs must have a price for {kind!r}; got {sorted(prices)}.")
    return prices if kind == "cheapest" else {kind: prices[kind]}


def option(
    buy: Mapping[str, int], predicted: float = math.nan, cost: float = math.nan, *, why: str = ""
) -> dict[str, Any]:
    """Something that could be bought; or, with a ``why``, not."""
    found = {"buy": dict(buy), "predicted": predicted, "cost": cost, "feasible": not why}
    return found | ({"why": why} if why else {})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Market:
    """Kinds of label with their prices and caps, for one guess of the accuracy."""

    labels: Mapping[str, LabelType]
    caps: Mapping[str, int]
    guess: float
    confidence: float
    widths: Widths | Expected
    left: int = MOST

    def cap(self, name: str, taken: int = 0) -> int:
        """The most labels of a kind, beside others that take items."""
        return max(0, min(self.caps.get(name, MOST), self.left - taken))

    def planned(self, kinds: Sequence[str], **goal: Any) -> Mapping[str, int]:
        """What :func:`plan_budget` buys of these kinds."""
        capped = [name for name in kinds if name in self.caps or self.left < MOST]
        return plan_budget(
            cov=[[self.guess * (1 - self.guess)]],
            names=["right"],
            target="right",
            costs={},
            labels=[self.labels[name] for name in kinds],
            caps={name: self.cap(name) for name in capped},
            accuracy=self.guess,
            confidence=self.confidence,
            **goal,
        ).buy

    def most(self, kinds: Sequence[str], budget: float) -> dict[str, Any]:
        """What a budget buys of these kinds."""
        try:
            return self._option(self._that_fit(self.planned(kinds, budgets=budget)))
        except ArgumentError as error:
            return option(dict.fromkeys(kinds, 0), why=f"{error}".rstrip("."))

    def _that_fit(self, buy: Mapping[str, int]) -> dict[str, int]:
        """As many of these as there are items for, the cheapest information first."""
        fit: dict[str, int] = {}
        for name in sorted(buy, key=self._price_of_information):
            fit[name] = min(buy[name], self.cap(name, sum(fit.values())))
        return {name: fit[name] for name in buy}

    def fewest(self, kinds: Sequence[str], half_width: float) -> dict[str, Any]:
        """The fewest labels, one kind after the other, each up to its cap."""
        buy: dict[str, int] = {}
        if self.widths.of(buy) <= half_width:
            return self._option(buy)
        for name in self._order(kinds, half_width):
            cap = self.cap(name, sum(buy.values()))
            n = self.widths.fewest(name, half_width, cap, beside=buy) if cap else None
            buy[name] = cap if n is None else n
            if n is not None:
                return self._option(buy)
        tried = " and ".join(f"{n} {name}" for name, n in buy.items())
        return option(buy, why=f"{tried} labels are not enough")

    def _order(self, kinds: Sequence[str], half_width: float) -> list[str]:
        """The kinds that plan_budget buys, the cheapest information first; then the others."""
        bought: Mapping[str, int] = {}
        # What is out of reach for a normal interval may not be so for one that ends at 0 and 1.
        with contextlib.suppress(ArgumentError):
            bought = self.planned(kinds, half_width=half_width) if len(kinds) > 1 else {}
        return sorted(kinds, key=lambda s: (s not in bought, self._price_of_information(s)))

    def _price_of_information(self, name: str) -> float:
        label = self.labels[name]
        return label.price * (self.guess * (1 - self.guess) + label.noise(self.guess))

    def _option(self, buy: Mapping[str, int]) -> dict[str, Any]:
        held = {name: n for name, n in buy.items() if n}
        cost = sum(self.labels[name].price * n for name, n in held.items())
        return option(held, self.widths.of(held), cost)


def _best(options: Sequence[dict[str, Any]], key: str, goal: str) -> dict[str, Any]:
    """The best option; one with several kinds only if that saves something worth the trouble."""
    remedy = "Raise the caps, widen the goal or allow other kinds of label."
    usable = _usable(options, f"{goal} cannot be met", f" {remedy}")
    usable.sort(key=lambda o: (o[key], o["cost"], o["predicted"]))
    simple = next((o for o in usable if len(o["buy"]) <= 1), usable[0])
    return usable[0] if usable[0][key] < _PAYS * simple[key] else simple


def _usable(options: Sequence[dict[str, Any]], rule: str, remedy: str = "") -> list[dict[str, Any]]:
    usable = [o for o in options if o["feasible"]]
    require(usable, f"{rule}: {options[0].get('why')}.{remedy}")
    return usable


class Widths:
    """Expected half-width of the exact interval for labels of each kind beside those there."""

    def __init__(
        self, k: int, accuracy: float, confidence: float, epsilon: float, have: Mapping[str, int]
    ) -> None:
        self.k, self.accuracy, self.tail = k, accuracy, (1 - confidence) / 2
        self.have, self.aimed, self.slope = dict(have), aimed(k, epsilon), 1 / (k - 1)

    def of(self, buy: Mapping[str, int]) -> float:
        """Half-width, expected over the labels; of a mixture over quantiles of small counts."""
        n = Counter(buy) + Counter(self.have)
        told = round(n["question"] / self.k)
        ordinary = n["ordinary"] + math.floor(n["targeted"] * self.aimed) + told
        complementary = n["complementary"] + n["question"] - told
        a, b = 1 - self.slope, self.slope
        if not complementary:
            return self._expected(ordinary, 0.0, 1.0)
        if not ordinary:
            return self._expected(complementary, a, b)
        total, hit = 0.0, 1 - self.slope * (1 - self.accuracy)
        for s_o, share in _quantiles(ordinary, self.accuracy):
            for s_c, other in _quantiles(complementary, hit):
                cells = BinomialCell(ordinary, s_o), BinomialCell(complementary, s_c, a, b)
                limits = linear.exact(cells, self.tail, self.tail)
                total += share * other * ((limits.high - limits.low) / 2)
        return total

    def fewest(
        self, kind: str, half_width: float, most: int, *, beside: Mapping[str, int]
    ) -> int | None:
        """The fewest labels of a kind, beside others, for this half-width; None beyond ``most``."""
        return smallest(lambda n: self.of({**beside, kind: n}) <= half_width, most)

    def estimator(self, buy: Mapping[str, int]) -> dict[str, str]:  # noqa: ARG002
        """Which estimate the labels will lead to."""
        return {"method": "ml", "interval": "exact"}

    def told(self, buy: Mapping[str, int]) -> dict[str, int]:
        """What to buy."""
        return dict(buy)

    def _expected(self, n: int, a: float, b: float) -> float:
        if n < 1:
            return 0.5
        s, pmf = linear.support(n, a + b * self.accuracy)
        with np.errstate(invalid="ignore"):
            low = betaincinv(np.maximum(s, 1), n - s + 1, self.tail)
            high = betaincinv(s + 1, np.maximum(n - s, 1), 1 - self.tail)
        low, high = np.where(s <= 0, 0.0, low), np.where(s >= n, 1.0, high)
        width = np.clip((high - a) / b, 0, 1) - np.clip((low - a) / b, 0, 1)
        return float(np.dot(pmf, width)) / 2


def _quantiles(n: int, p: float) -> list[tuple[int, float]]:
    """Counts of successes with their shares: the mean if nearly normal, else quantiles."""
    if n * p * (1 - p) > _SMOOTH:
        return [(round(n * p), 1.0)]
    counts, pmf = linear.support(n, p)
    levels = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    drawn = counts[np.searchsorted(np.cumsum(pmf), levels)]
    return [(int(s), times / _QUANTILES) for s, times in sorted(Counter(drawn.tolist()).items())]


def smallest(enough: Callable[[int], bool], most: int) -> int | None:
    """The smallest n that is enough, if more than enough is enough; None beyond ``most``."""
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


def _match(match: int, inputs: Mapping[str, Any], confidence: float) -> Plan:
    k, accuracy = int(inputs["n_classes"]), float(inputs["accuracy"])
    rule = f"match must be at least 1, accuracy positive; got {match}, {accuracy}."
    require(match >= 1 and accuracy > 0, rule)
    n = math.ceil((1 + (k - 2) / accuracy) * match - 1e-9)
    variance = (accuracy + k - 2) * (1 - accuracy) / n
    best = option({"complementary": n}, variance, n * inputs["costs"].get("complementary", 1.0))
    way = {"method": "equation (5): n_c = (1 + (K - 2)/A)·n_o", "interval": "none"}
    return as_plan(
        best,
        way,
        confidence,
        goal="variance",
        wanted=accuracy * (1 - accuracy) / match,
        inputs={**inputs, "match": match},
        notes=("the plan rests on the guessed accuracy",),
    )


def _plan_difference(inputs: Mapping[str, Any], confidence: float) -> Plan:
    """The fewest labels that find a difference with the wanted power in the paired betting test."""
    accuracy, difference, power = (float(inputs[s]) for s in ("accuracy", "difference", "power"))
    common = min(accuracy, 1 - accuracy + difference)
    share = inputs["disagreement"]
    share = common + max(0.0, common - difference) if share is None else float(share)
    rule = "difference must be positive, at most the disagreement and at most the accuracy"
    sound = 0 < difference <= min(share, accuracy) and share <= 1
    require(sound, f"{rule}; got {difference} with disagreement {share:g}.")
    require(0 < power < 1, f"power must be in (0, 1); got {power}.")
    k, seed, options = inputs["n_classes"], inputs["seed"], []
    for kind, price in inputs["costs"].items():
        known = kind in ("ordinary", "complementary")
        require(known, f"kind must be 'ordinary' or 'complementary' here; got {kind!r}.")

        def reached(n: int, kind: str = kind) -> float:
            return simulated_power(k, difference, share, kind, n, confidence, seed)

        n = smallest(lambda n, of=reached: of(n) >= power, _MOST)  # type: ignore[misc]
        none = option({kind: _MOST}, why=f"10 million {kind} labels are not enough")
        options.append(none if n is None else option({kind: n}, reached(n), n * price))
    usable = _usable(options, "difference cannot be found")
    best = min(usable, key=lambda o: float(o["cost"]))
    way = {"method": "simulated power of the paired betting test", "interval": "betting"}
    return as_plan(
        best,
        way,
        confidence,
        goal="power",
        wanted=power,
        inputs={**inputs, "disagreement": share},
        alternatives=tuple(options),
        notes=("the plan rests on the guessed difference and disagreement",),
    )


def simulated_power(
    k: int,
    difference: float,
    disagreement: float,
    kind: str,
    n: int,
    confidence: float,
    seed: int,
    worlds: int = 2000,
) -> float:
    """Share of simulated worlds in which the two-sided paired betting interval lies above 0.

    An item on which exactly one system is right has d = ±1 with an ordinary label and, with
    probability 1/(K-1), d = ±(K-1) with a complementary one. Items on which both are wrong in
    different ways are left out, which favours complementary labels.
    """
    up, down = (disagreement + difference) / 2, (disagreement - difference) / 2
    chance = 1.0 if kind == "ordinary" else 1 / (k - 1)
    rng = np.random.default_rng([seed, n])
    drawn = rng.multinomial(n, [up * chance, down * chance, 1 - (up + down) * chance], size=worlds)
    won, lost = drawn[:, :1], drawn[:, 1:2]
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.where(lost > 0, lost * np.log1p(-FRACTIONS), 0.0)
        logs = won * np.log1p(FRACTIONS) + losses + LOG_PRIOR
    top = logs.max(axis=1, keepdims=True)
    wealth = top[:, 0] + np.log(np.exp(logs - top).sum(axis=1))
    return float(np.mean(wealth >= math.log(2 / (1 - confidence))))
