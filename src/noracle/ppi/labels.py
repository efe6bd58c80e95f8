"""How many labels, of which kind, for a wanted half-width, budget or power.

Which kinds to buy, and how they mix, is for :func:`~noracle.ppi.plan.plan_budget` to say, which
plans with variances. Here its counts are moved until the interval that the default estimate will
use keeps the goal. That is worked out in closed form for one number of classes and an unknown
population (:class:`Widths`), and by the estimate of the expected labels otherwise
(:class:`~noracle.ppi.expected.Expected`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from noracle.bounds import binomial as linear
from noracle.bounds.betting import FRACTIONS, LOG_PRIOR
from noracle.bounds.binomial import Cell, betaincinv
from noracle.counts.tally import check_n_classes
from noracle.errors import ArgumentError
from noracle.ppi.expected import (
    UNKNOWN,
    Expected,
    aimed,
    aimed_votes,
    make_label,
    model_votes,
    places_of,
    with_held,
)
from noracle.ppi.measurements import Label
from noracle.ppi.plan import plan_budget
from noracle.results import Assumption, Guarantee, Kind, Plan, check_confidence, choose

LabelKind = Literal["ordinary", "complementary", "question", "targeted"]
KINDS: tuple[LabelKind, ...] = ("ordinary", "complementary", "question", "targeted")
MOST = 10**9
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
    place = _Place.of(n_classes, n_items, strata, have, systems)
    check_confidence(confidence)
    if not 0 <= accuracy <= 1:
        raise ArgumentError(f"accuracy must be in [0, 1]; got {accuracy}.")
    given = {"half_width": half_width, "budget": budget, "match": match, "difference": difference}
    goals = [name for name, value in given.items() if value is not None]
    if len(goals) != 1:
        raise ArgumentError(
            f"one goal must be given: half_width, budget, match or difference; got {', '.join(goals) or 'none'}."
        )
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
    k = place.typical
    if (match is not None or difference is not None) and len(place.n_classes) > 1:
        raise ArgumentError(
            f"n_classes must be one number for match and difference; got {len(place.n_classes)} of them."
        )
    if match is not None:
        return _match(k, accuracy, match, prices, confidence, inputs)
    if difference is not None:
        return plan_difference(inputs, confidence)
    if half_width is not None and not 0 < half_width < 0.5:
        raise ArgumentError(
            f"half_width must be in (0, 0.5); got {half_width}. For plus or minus 2 points pass 0.02."
        )
    if budget is not None and not (budget > 0 and math.isfinite(budget)):
        raise ArgumentError(f"budget must be positive; got {budget}.")
    market = _Market(
        labels={
            name: make_label(name, n_classes=k, price=price, epsilon=epsilon)
            for name, price in prices.items()
        },
        caps={name: most for name, most in (caps or {}).items() if name in prices},
        guess=min(max(accuracy, _EDGE), 1 - _EDGE),
        confidence=confidence,
        widths=place.widths(accuracy, confidence, epsilon, seed),
        left=place.left,
    )
    key = "cost" if half_width is not None else "predicted"
    options = [
        market.fewest(group, half_width)
        if half_width is not None
        else market.most(group, float(budget or 0))
        for group in _groups(list(prices), systems, mixed=not place.by_stratum)
    ]
    best = _best(options, key, goals[0])
    estimator = market.estimator(best["buy"])
    return Plan(
        goal="half-width" if half_width is not None else "budget",
        wanted=float(half_width or budget or 0),
        predicted=best["predicted"],
        buy=market.told(best["buy"]),
        cost=best["cost"],
        confidence=confidence,
        method=estimator["method"],
        interval=estimator["interval"],
        guarantee=promise(confidence),
        inputs={**inputs, "estimator": estimator},
        alternatives=tuple(_different(options)),
        notes=(
            "the plan rests on the guessed accuracy; the interval you get does not",
            *_sums(estimator),
        ),
    )


def _groups(kinds: list[str], systems: int, *, mixed: bool) -> list[list[str]]:
    """What is bought together: each kind alone and all of them; several systems' targeted questions
    only with ordinary labels.

    Uniform questions beside them would be scored by their propensities, too, and lose most of what
    they say.
    """
    alone = [[name] for name in kinds]
    if len(kinds) < 2 or not mixed:
        return alone
    if systems == 1 or "targeted" not in kinds:
        return [*alone, kinds]
    together = [
        [name for name in kinds if name != "targeted"],
        [name for name in kinds if name in ("ordinary", "targeted")],
    ]
    return [*alone, *(group for group in together if len(group) > 1)]


def _sums(estimator: Mapping[str, str]) -> tuple[str, ...]:
    """What a reader should know of the interval that will be used."""
    if estimator["interval"] == "parts":
        return (
            "parts of the items must be kept apart: one bound for their sum is about 1.4 times as wide as an interval without parts",
        )
    return ()


def promise(confidence: float) -> Guarantee:
    """What a plan of labels promises: nothing beyond its guesses."""
    names = ("guessed accuracy", "iid items", "uniform routing", "right verdicts")
    return Guarantee(
        kind=Kind.HEURISTIC,
        error_rate=1 - confidence,
        assumptions=tuple(Assumption(name=name) for name in names),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The population as the arguments say it."""

    n_classes: Mapping[int, int]
    n_items: int | None
    strata: Mapping[str, int] | None
    have: Mapping[str, int]
    systems: int

    @classmethod
    def of(
        cls,
        n_classes: object,
        n_items: int | None,
        strata: Mapping[str, int] | None,
        have: Mapping[str, int] | None,
        systems: int,
    ) -> Self:
        """The population, if the arguments agree."""
        sizes = {"n_classes": sum(n_classes.values())} if isinstance(n_classes, Mapping) else {}
        sizes |= {"n_items": n_items} if n_items is not None else {}
        sizes |= {"strata": sum(strata.values())} if strata else {}
        if len(set(sizes.values())) > 1 or any(
            not isinstance(n, int) or n < 1 for n in sizes.values()
        ):
            told = ", ".join(f"{n} in {name}" for name, n in sizes.items())
            raise ArgumentError(
                f"n_items must be positive and the sum of n_classes and of strata; got {told}."
            )
        total = next(iter(sizes.values()), None)
        mix = {
            check_n_classes(k): int(n)
            for k, n in (
                n_classes if isinstance(n_classes, Mapping) else {n_classes: total or 1}
            ).items()
        }
        if not isinstance(systems, int) or systems < 1:
            raise ArgumentError(f"systems must be a whole number of at least 1; got {systems}.")
        for name, n in (have or {}).items():
            stratum, _, kind = name.rpartition("/")
            choose("have", kind, KINDS)
            if stratum and stratum not in (strata or {}):
                raise ArgumentError(
                    f"have must name strata that are given; got {stratum!r}. Pass strata={{{stratum!r}: …}}."
                )
            if (
                not isinstance(n, int)
                or n < 0
                or (stratum and strata and n > strata[stratum])
                or (total is not None and n > total)
            ):
                raise ArgumentError(
                    f"have must be whole numbers that are not larger than their population; got {n} for {name!r}."
                )
        return cls(
            n_classes=mix, n_items=total, strata=strata, have=dict(have or {}), systems=systems
        )

    @property
    def told(self) -> int | dict[str, int]:
        """The numbers of classes as a plan stores them."""
        return (
            {str(k): n for k, n in self.n_classes.items()}
            if len(self.n_classes) > 1
            else next(iter(self.n_classes))
        )

    @property
    def typical(self) -> int:
        """One number of classes, for which kinds are weighed against each other."""
        return max(
            2, round(sum(k * n for k, n in self.n_classes.items()) / sum(self.n_classes.values()))
        )

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
            votes=aimed_votes(epsilon) if self.systems == 1 else model_votes(self.systems, epsilon),
            whole=self.n_items is not None,
            strata=self.by_stratum,
            seed=seed,
        )
        return with_held(world, self.have) if self.have else world


def _prices(costs: Mapping[str, float] | None, kind: str) -> dict[str, float]:
    prices = (
        dict(costs)
        if costs is not None
        else dict.fromkeys(("ordinary", "complementary") if kind == "cheapest" else (kind,), 1.0)
    )
    for name, price in prices.items():
        choose("costs", name, KINDS)
        if not (price > 0 and math.isfinite(price)):
            raise ArgumentError(
                f"costs must be positive; got {price} for {name}. A free kind of label needs no plan."
            )
    if kind != "cheapest":
        if kind not in prices:
            raise ArgumentError(f"costs must have a price for {kind!r}; got {sorted(prices)}.")
        prices = {kind: prices[kind]}
    return prices


# -----------------------------------------------------------------------------------------------------------
# what can be bought


def option(
    buy: Mapping[str, int], predicted: float = math.nan, cost: float = math.nan, *, why: str = ""
) -> dict[str, Any]:
    """Something that could be bought; or, with a ``why``, not."""
    return {"buy": dict(buy), "predicted": predicted, "cost": cost, "feasible": not why} | (
        {"why": why} if why else {}
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Market:
    """Kinds of label with their prices and caps, for one guess of the accuracy."""

    labels: Mapping[str, Label]
    caps: Mapping[str, int]
    guess: float
    confidence: float
    widths: Widths | Expected
    left: int = MOST

    def cap(self, name: str, taken: int = 0) -> int:
        """The most labels of a kind, beside others that take items."""
        return max(0, min(self.caps.get(name, MOST), self.left - taken))

    def estimator(self, buy: Mapping[str, int]) -> dict[str, str]:
        """Which estimate the labels will lead to."""
        if isinstance(self.widths, Widths):
            return {"method": "ml", "interval": "exact"}
        found = self.widths.estimate(buy)
        return {"method": found.method, "interval": found.interval}

    def told(self, buy: Mapping[str, int]) -> dict[str, int]:
        """What to buy; by stratum where that is how labels were bought."""
        return dict(buy) if isinstance(self.widths, Widths) else self.widths.told(buy)

    def planned(
        self, kinds: Sequence[str], *, budget: float | None = None, half_width: float | None = None
    ) -> Mapping[str, int]:
        """What :func:`plan_budget` buys of these kinds."""
        plan = plan_budget(
            cov=[[self.guess * (1 - self.guess)]],
            names=["right"],
            target="right",
            costs={},
            labels=[self.labels[name] for name in kinds],
            caps={name: self.cap(name) for name in kinds if name in self.caps or self.left < MOST},
            accuracy=self.guess,
            budgets=budget,
            half_width=half_width,
            confidence=self.confidence,
        )
        return plan.buy

    def most(self, kinds: Sequence[str], budget: float) -> dict[str, Any]:
        """What a budget buys of these kinds."""
        try:
            return self._option(self._that_fit(self.planned(kinds, budget=budget)))
        except ArgumentError as error:
            return option(dict.fromkeys(kinds, 0), why=f"{error}".rstrip("."))

    def _that_fit(self, buy: Mapping[str, int]) -> dict[str, int]:
        """As many of these as there are items for, the cheapest information first."""
        fit: dict[str, int] = {}
        for name in sorted(buy, key=self._price_of_information):
            fit[name] = min(buy[name], self.cap(name, sum(fit.values())))
        return {name: fit[name] for name in buy}

    def fewest(self, kinds: Sequence[str], half_width: float) -> dict[str, Any]:
        """The fewest labels of these kinds whose interval is narrow enough: one kind after the
        other, each up to its cap.
        """
        buy: dict[str, int] = {}
        if self.widths.of(buy) <= half_width:
            return self._option(buy)
        for name in self._order(kinds, half_width):
            cap = self.cap(name, sum(buy.values()))
            n = self._fewest(buy, name, half_width, cap) if cap else None
            buy[name] = cap if n is None else n
            if n is not None:
                return self._option(buy)
        return option(
            buy,
            why=f"{' and '.join(f'{n} {name}' for name, n in buy.items())} labels are not enough",
        )

    def _fewest(self, buy: Mapping[str, int], name: str, half_width: float, cap: int) -> int | None:
        if isinstance(self.widths, Widths):
            return smallest(partial(self._narrow, buy, name, half_width), cap)
        return self.widths.fewest(name, half_width, cap, beside=buy)

    def _order(self, kinds: Sequence[str], half_width: float) -> list[str]:
        """The kinds that :func:`plan_budget` buys, the cheapest information first; then the others,
        for an exact interval may need more.
        """
        try:
            bought = self.planned(kinds, half_width=half_width) if len(kinds) > 1 else {}
        except (
            ArgumentError
        ):  # out of reach for a normal interval, perhaps not for one that ends at 0 and 1
            bought = {}
        return sorted(
            kinds, key=lambda name: (name not in bought, self._price_of_information(name))
        )

    def _price_of_information(self, name: str) -> float:
        label = self.labels[name]
        return label.price * (self.guess * (1 - self.guess) + label.noise(self.guess))

    def _narrow(self, buy: Mapping[str, int], name: str, half_width: float, n: int) -> bool:
        return self.widths.of({**buy, name: n}) <= half_width

    def _option(self, buy: Mapping[str, int]) -> dict[str, Any]:
        held = {name: n for name, n in buy.items() if n}
        return option(
            held, self.widths.of(held), sum(self.labels[name].price * n for name, n in held.items())
        )


def _best(options: Sequence[dict[str, Any]], key: str, goal: str) -> dict[str, Any]:
    """The best option; one with several kinds only if that saves something worth the trouble."""
    usable = [o for o in options if o["feasible"]]
    if not usable:
        raise ArgumentError(
            f"{goal} cannot be met: {options[0]['why']}. Raise the caps, widen the goal or allow other kinds of label."
        )
    best = min(usable, key=lambda o: (o[key], o["cost"], o["predicted"]))
    simple = min(
        (o for o in usable if len(o["buy"]) <= 1),
        key=lambda o: (o[key], o["cost"], o["predicted"]),
        default=best,
    )
    return best if best[key] < _PAYS * simple[key] else simple


def _different(options: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        o for i, o in enumerate(options) if o["buy"] not in [other["buy"] for other in options[:i]]
    ]


# ------------------------------------------------------------------------------------------------------
# exact half-widths


class Widths:
    """Expected half-width of the exact interval for numbers of labels of each kind, beside those
    that are there.
    """

    def __init__(
        self,
        k: int,
        accuracy: float,
        confidence: float,
        epsilon: float,
        have: Mapping[str, int] | None = None,
    ) -> None:
        self.k, self.accuracy, self.tail, self.have = (
            k,
            accuracy,
            (1 - confidence) / 2,
            dict(have or {}),
        )
        self.aimed = aimed(k, epsilon)
        self.slope = 1 / (k - 1)

    def of(self, buy: Mapping[str, int]) -> float:
        """Half-width, expected over the labels; for a mixture over quantiles of the counts that
        vary much for their size.
        """
        buy = {name: buy.get(name, 0) + self.have.get(name, 0) for name in {**buy, **self.have}}
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
        return sum(
            share
            * other
            * self._pair(Cell(ordinary, s_o), Cell(complementary, s_c, 1 - self.slope, self.slope))
            for s_o, share in _quantiles(ordinary, self.accuracy)
            for s_c, other in _quantiles(complementary, q)
        )

    def _pair(self, *cells: Cell) -> float:
        limits = linear.exact(cells, self.tail, self.tail)
        return (limits.high - limits.low) / 2

    def _expected(self, n: int, a: float, b: float) -> float:
        if n < 1:
            return 0.5
        p = a + b * self.accuracy
        counts, pmf = linear.support(n, p)
        with np.errstate(invalid="ignore"):
            low = np.where(
                counts <= 0, 0.0, betaincinv(np.maximum(counts, 1), n - counts + 1, self.tail)
            )
            high = np.where(
                counts >= n, 1.0, betaincinv(counts + 1, np.maximum(n - counts, 1), 1 - self.tail)
            )
        width = np.clip((high - a) / b, 0, 1) - np.clip((low - a) / b, 0, 1)
        return float(np.dot(pmf, width)) / 2


def _quantiles(n: int, p: float) -> list[tuple[int, float]]:
    """A few counts of successes with their shares: the mean of a count that is nearly normal, else
    quantiles.
    """
    if n * p * (1 - p) > _SMOOTH:
        return [(round(n * p), 1.0)]
    counts, pmf = linear.support(n, p)
    found, times = np.unique(
        counts[np.searchsorted(np.cumsum(pmf), (np.arange(_QUANTILES) + 0.5) / _QUANTILES)],
        return_counts=True,
    )
    return [(int(s), float(t) / _QUANTILES) for s, t in zip(found, times, strict=True)]


def smallest(enough: Callable[[int], bool], most: int) -> int | None:
    """The smallest n that is enough, for a condition that (nearly) stays true once it is; None
    beyond ``most``.
    """
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


def _match(
    k: int,
    accuracy: float,
    match: int,
    prices: Mapping[str, float],
    confidence: float,
    inputs: dict[str, Any],
) -> Plan:
    if match < 1 or accuracy <= 0:
        raise ArgumentError(
            f"match must be at least 1 and accuracy positive; got {match} and {accuracy}."
        )
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
        guarantee=promise(confidence),
        inputs={**inputs, "match": match},
        notes=("the plan rests on the guessed accuracy",),
    )


# ----------------------------------------------------------------------------
# How many labels it takes to find a better system: the power of the paired betting test, simulated.


_MOST = 10**7


def plan_difference(inputs: Mapping[str, Any], confidence: float) -> Plan:
    """The fewest labels that find a difference with the wanted power; ``inputs`` are those of
    :func:`~noracle.ppi.labels.plan_labels`.
    """
    accuracy, difference, power = (
        float(inputs[name]) for name in ("accuracy", "difference", "power")
    )
    common = min(accuracy, 1 - accuracy + difference)
    share = (
        common + max(0.0, common - difference)
        if inputs["disagreement"] is None
        else float(inputs["disagreement"])
    )
    if not 0 < difference <= min(share, accuracy) or share > 1:
        raise ArgumentError(
            f"difference must be positive, at most the disagreement and at most the accuracy; got {difference} with disagreement {share:g}."
        )
    if not 0 < power < 1:
        raise ArgumentError(f"power must be in (0, 1); got {power}.")
    options = []
    for kind, price in inputs["costs"].items():
        if kind not in ("ordinary", "complementary"):
            raise ArgumentError(
                f"kind must be 'ordinary' or 'complementary' for a comparison; got {kind!r}."
            )
        found = partial(
            simulated_power,
            inputs["n_classes"],
            difference,
            share,
            kind,
            confidence=confidence,
            seed=inputs["seed"],
        )
        n = smallest(partial(_strong, found, power), _MOST)
        options.append(
            option({kind: _MOST}, why=f"10 million {kind} labels are not enough")
            if n is None
            else option({kind: n}, found(n), n * price)
        )
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
        guarantee=promise(confidence),
        inputs={**inputs, "disagreement": share},
        alternatives=tuple(options),
        notes=("the plan rests on the guessed difference and disagreement",),
    )


def _strong(found: Callable[[int], float], power: float, n: int) -> bool:
    return found(n) >= power


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
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = (
            drawn[:, :1] * np.log1p(FRACTIONS)
            + np.where(drawn[:, 1:2] > 0, drawn[:, 1:2] * np.log1p(-FRACTIONS), 0.0)
            + LOG_PRIOR
        )
    top = logs.max(axis=1, keepdims=True)
    wealth = top[:, 0] + np.log(np.exp(logs - top).sum(axis=1))
    return float(np.mean(wealth >= math.log(2 / (1 - confidence))))
