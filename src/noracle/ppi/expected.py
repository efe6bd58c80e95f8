"""The half-width that labels are expected to give: labels as they are expected, and the default
estimate made of them.

A plan is kept only if it counts with the interval that the estimate will use. So nothing is
approximated here: expected numbers of tallies are rounded to whole ones, added to the labels that
are there, and given to :func:`~noracle.accuracy.estimate_accuracy`.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from noracle.bounds.binomial import gammaln, ndtri
from noracle.counts.tally import AccuracyCounts, Cell, Tally, Verdict, tally
from noracle.errors import ArgumentError, require
from noracle.ppi.measurements import LabelType, complementary, ordinary
from noracle.results import Estimate


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLabel(LabelType):
    """``n_asked`` classes drawn uniformly: an ordinary label if right, else a complementary one."""

    n_asked: int = 1

    def noise(self, accuracy: float) -> float:
        """The variance that this kind of label adds to that of an ordinary one."""
        # A complementary label has the variance (1 - A)(A + more).
        more = (self.n_classes - 1) / self.n_asked - 1
        if more <= 0 or not 0 < accuracy < 1:
            return 0.0
        told = self.n_asked / self.n_classes
        scale = told * (accuracy + more) + (1 - told) * accuracy
        return accuracy * (1 - accuracy) * (1 - told) * more / scale


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TargetedLabel(LabelType):
    """A question about the answer with probability 1 - ε + ε/K; other ones are not counted on."""

    epsilon: float = 0.05

    def noise(self, accuracy: float) -> float:
        """The variance that this kind of label adds to that of an ordinary one."""
        return accuracy * (1 - accuracy) * (1 / aimed(self.n_classes, self.epsilon) - 1)


def aimed(n_classes: int, epsilon: float) -> float:
    """The probability that a targeted question is about the answer."""
    return 1 - epsilon + epsilon / n_classes


def question(
    *, n_classes: int, n_asked: int = 1, price: float, name: str | None = None
) -> QuestionLabel:
    """A question to somebody who can say yes or no: ``n_asked`` distinct classes, drawn uniformly.

    With J classes asked, the right one is among them with probability J/K, whatever the answer.
    Then the label is an ordinary one; else J classes are ruled out. The information is J/K of the
    one and 1 - J/K of the other: I = (J/K)/(A(1 - A)) + (1 - J/K)/((1 - A)(A + (K - 1)/J - 1)).

    A *complementary* label as in :func:`~noracle.ppi.measurements.complementary` rules out classes
    in any case. Where nobody knows the class beforehand that cannot be had, and a question is what
    is bought.

    Examples
    --------
    >>> from noracle.ppi import complementary
    >>> asked, ruled_out = question(n_classes=4, price=0.25), complementary(n_classes=4, price=0.25)
    >>> round(0.21 + asked.noise(0.7), 4), round(0.21 + ruled_out.noise(0.7), 4)
    (0.4725, 0.81)
    """
    rule = f"n_asked must be in [1, n_classes); got {n_asked} of {n_classes}."
    require(n_classes >= 2 and 1 <= n_asked < n_classes, rule)
    called = name or ("question" if n_asked == 1 else f"question-{n_asked}")
    price = ordinary(price=price, name=called).price
    return QuestionLabel(name=called, price=price, n_classes=n_classes, n_asked=n_asked)


def targeted(
    *, n_classes: int, epsilon: float = 0.05, price: float, name: str = "targeted"
) -> TargetedLabel:
    """A question about the class that the system answered, with a uniform share ε; see
    :func:`~noracle.accuracy.route.route_items`.

    A verdict on the answer is an ordinary label. It comes with probability 1 - ε + ε/K; the other
    questions are not counted on, so that the variance is A(1 - A)/(1 - ε + ε/K).

    Examples
    --------
    >>> round(targeted(n_classes=10, epsilon=0.5, price=1.0).noise(0.5), 4)
    0.2045
    """
    rule = f"epsilon must be in (0, 1] and n_classes at least 2; got {epsilon} and {n_classes}."
    require(n_classes >= 2 and 0 < epsilon <= 1, rule)
    price = ordinary(price=price, name=name).price
    return TargetedLabel(name=name, price=price, n_classes=n_classes, epsilon=epsilon)


def make_label(
    name: str, *, n_classes: int | None, price: float, epsilon: float = 0.05
) -> LabelType:
    """The kind of label of this name; complementary-J and question-J for J classes."""
    kind, mark, several = name.partition("-")
    if name == "ordinary":
        return ordinary(price=price)
    sound = kind in ("complementary", "question") and several.isdecimal() == bool(mark)
    kinds = "ordinary, complementary, complementary-J, question, question-J or targeted"
    require(sound or name == "targeted", f"labels must be {kinds}; got {name!r}.")
    if n_classes is None:
        raise ArgumentError(f"n_classes must be given with the label {name!r}; got none.")
    n = int(several or 1)
    if kind == "complementary":
        return complementary(n_classes=n_classes, n_ruled_out=n, price=price, name=name)
    if kind == "question":
        return question(n_classes=n_classes, n_asked=n, price=price, name=name)
    return targeted(n_classes=n_classes, epsilon=epsilon, price=price)


SYSTEM = "system"
GRADES = "grades"
UNKNOWN = 10**9
"""How many items there are supposed to be where that is not known."""
_CLOSE, _NOISY = 0.002, 0.01
_SMOOTH = 25.0
_ORDERS = 2
_SCORED = 1.03
"""Limits from scores are by as much wider over drawn labels than over expected ones (simulated:
1.00 to 1.05 over 500 to 4,000 labels).
"""
_SHIFTS = (-1.3830, -0.6745, -0.2104, 0.2104, 0.6745, 1.3830)
"""Quantiles of the normal law at 1/12, 3/12, …, 11/12."""


class Place(NamedTuple):
    """A part of the population: items, those with an answer, and those asked about."""

    cell: Cell
    items: int
    answered: int
    asked: int = 0

    @property
    def left(self) -> int:
        """Items that nobody was asked about."""
        return self.items - self.asked


class Voted(NamedTuple):
    """Answers with one probability to be asked about: their share, and how many are right."""

    propensity: float
    share: float
    right: float


Votes = Callable[[int, float], Sequence[Voted]]
"""From a number of classes and an accuracy to the probabilities of a question about the answer."""


def model_votes(systems: int, epsilon: float) -> Votes:
    """Vote shares of independent, equally good systems; others get narrower intervals."""
    if systems == 1:
        return aimed_votes(epsilon)

    def votes(n_classes: int, accuracy: float) -> list[Voted]:
        others = np.arange(systems)
        agree = (accuracy, (1 - accuracy) / (n_classes - 1))
        right, wrong = (_binomial(others, systems - 1, p) for p in agree)
        right, wrong = accuracy * right, (1 - accuracy) * wrong
        asked = (1 - epsilon) * (others + 1) / systems + epsilon / n_classes
        rows = zip(asked.tolist(), (right + wrong).tolist(), right.tolist(), strict=True)
        return [Voted(p, share, good / share) for p, share, good in rows if share > 0]

    return votes


def held_votes(held: Mapping[Tally, int], fallback: Votes, *, least: int = 100) -> Votes:
    """Vote shares as the labels show them: an answer asked about with probability π stands for 1/π.

    Questions aimed at this system have one probability for each number of classes. Otherwise
    classes are taken together, and the share that is right is moved to the accuracy by the odds.
    """
    seen: dict[tuple[int, float], list[float]] = {}
    for t, n in held.items():
        inverse = (t.yes_score or 0.0) + (t.no_score or 0.0)
        if t.design == "recorded" and t.answered and t.verdict != "unsure" and inverse > 0:
            row = seen.setdefault((t.n_classes, round(1 / inverse, 9)), [0.0, 0.0])
            row[t.verdict == "yes"] += n
    if seen and len({k for k, _ in seen}) == len(seen):
        chance = dict(seen.keys())
        return lambda k, accuracy: (
            [Voted(chance[k], 1.0, accuracy)] if k in chance else fallback(k, accuracy)
        )
    if sum(map(sum, seen.values())) < least:
        return fallback
    pooled: dict[float, list[float]] = {}
    for (_, p), row in seen.items():
        old = pooled.get(p, [0.0, 0.0])
        pooled[p] = [old[0] + row[0], old[1] + row[1]]
    total = sum(sum(row) / p for p, row in pooled.items())
    seen_of = [(p, sum(row), row[1]) for p, row in sorted(pooled.items())]
    rows = [(p, n / p / total, (yes + 0.5) / (n + 1)) for p, n, yes in seen_of]
    return lambda _, accuracy: _moved(rows, accuracy)


def _moved(rows: Sequence[tuple[float, float, float]], accuracy: float) -> list[Voted]:
    """The shares that are right, moved so that together they are the accuracy."""

    def at(shift: float) -> list[Voted]:
        odds = [(p, share, math.log(r / (1 - r)) + shift) for p, share, r in rows]
        return [Voted(p, share, 1 / (1 + math.exp(-x))) for p, share, x in odds]

    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        under = sum(v.share * v.right for v in at(middle)) < accuracy
        low, high = (middle, high) if under else (low, middle)
    return at(high)


def _binomial(k: Any, n: int, p: float) -> Any:
    if p <= 0 or p >= 1:
        return np.where(k == (n if p >= 1 else 0), 1.0, 0.0)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Expected:
    """What labels would say of one system of a guessed accuracy, added to those there."""

    places: tuple[Place, ...]
    accuracy: float
    confidence: float
    votes: Votes
    held: Mapping[Tally, int] = dataclasses.field(default_factory=dict)
    whole: bool = True
    recorded: bool = False
    strata: bool = False
    seed: int = 0

    @property
    def left(self) -> int:
        """How many items can get a label."""
        return sum(p.left for p in self.places)

    @property
    def ungraded(self) -> int:
        """How many answers can get a grade."""
        return sum(max(0, p.answered - p.asked) for p in self.places)

    def of(self, buy: Mapping[str, int]) -> float:
        """The expected half-width; for few labels the mean over more and less lucky ones."""
        n = sum(buy.values()) + sum(self.held.values())
        spread = n * self.accuracy * (1 - self.accuracy)
        if not n:
            return 0.5
        if spread > _SMOOTH or self.held:
            found = self.estimate(buy)
            if self.strata and found.interval != "parts" and sum(buy.values()) < self.to_one_rate:
                # Rates that differ too little to be seen, but by design: strata must not be taken
                # together.
                return 0.5
            if found.method != "scores":
                return _half(found)
            # Limits depend on the order.
            orders = [dataclasses.replace(self, seed=self.seed + i) for i in range(1, _ORDERS)]
            more = [world.estimate(buy) for world in orders]
            return _SCORED * sum(map(_half, (found, *more))) / _ORDERS
        shift = math.sqrt(self.accuracy * (1 - self.accuracy) / n)
        lucky = [min(max(self.accuracy + z * shift, 0.0), 1.0) for z in _SHIFTS]
        found_for = [dataclasses.replace(self, accuracy=a).estimate(buy) for a in lucky]
        return sum(map(_half, found_for)) / len(lucky)

    def estimator(self, buy: Mapping[str, int]) -> dict[str, str]:
        """Which estimate the labels will lead to."""
        found = self.estimate(buy)
        return {"method": found.method, "interval": found.interval}

    def estimate(self, buy: Mapping[str, int]) -> Estimate:
        """The default estimate of the expected labels."""
        from noracle.accuracy import estimate_accuracy

        key = tuple(sorted(buy.items()))
        if key not in self._estimates:
            options: dict[str, Any] = {"confidence": self.confidence, "seed": self.seed}
            found = estimate_accuracy(self.counts(buy), checks="none", **options)
            self._estimates[key] = found
        return self._estimates[key]

    @cached_property
    def _estimates(self) -> dict[tuple[tuple[str, int], ...], Estimate]:
        return {}

    def counts(self, buy: Mapping[str, int]) -> AccuracyCounts:
        """Tallies in whole numbers, as near to the expected ones as can be."""
        tallies: Counter[Tally] = Counter(self.held)
        for kind, n in buy.items():
            expected: dict[int, list[tuple[Tally, float]]] = {}
            for place, new in zip(self.places, self.spread(n), strict=True):
                for i, (t, share) in enumerate(self._law(kind, place)):
                    expected.setdefault(i, []).append((t, new * share))
            tallies.update(_whole(row for rows in expected.values() for row in rows))
        most = by_cell({t: n for t, n in tallies.items() if t.answered})
        answered = {p.cell: max(p.answered, most[p.cell]) for p in self.places}
        return AccuracyCounts(
            tallies=dict(+tallies),
            items={p.cell: max(p.items, answered[p.cell]) for p in self.places},
            answered=answered,
            whole=self.whole,
            propensities="recorded" if self.recorded or "targeted" in buy else "none",
        )

    def spread(self, n: int) -> list[float]:
        """How many of n labels fall on every place."""
        if not self.strata:
            left = max(self.left, 1)
            return [n * p.left / left for p in self.places]
        new, left_of = self.by_stratum(n), Counter[str]()
        for p in self.places:
            left_of[p.cell.stratum] += p.left
        return [new[p.cell.stratum] * p.left / max(left_of[p.cell.stratum], 1) for p in self.places]

    @cached_property
    def _strata(self) -> dict[str, tuple[int, int]]:
        return dict(sorted(strata_of(self.places).items()))

    @property
    def to_one_rate(self) -> int:
        """How many labels bring every stratum to the rate of the most labelled one."""
        rows = self._strata.values()
        rate = max(asked / items for items, asked in rows if items)
        return sum(math.ceil(max(0.0, rate * items - asked) - 1e-9) for items, asked in rows)

    def by_stratum(self, n: int) -> dict[str, int]:
        """New labels by stratum: those labelled least first, until all have one rate."""
        rows = self._strata
        low, high = 0.0, 1.0
        for _ in range(60):
            rate = (low + high) / 2
            enough = sum(max(0.0, rate * items - asked) for items, asked in rows.values()) >= n
            low, high = (low, rate) if enough else (rate, high)
        exact = {name: max(0.0, high * items - asked) for name, (items, asked) in rows.items()}
        return dict(zip(exact, _rounded(list(exact.values())), strict=True))

    def fewest(
        self, kind: str, half_width: float, most: int, *, beside: Mapping[str, int] | None = None
    ) -> int | None:
        """The fewest labels of a kind, beside others; None if not even ``most`` are enough."""
        others = dict(beside or {})
        k = self.places[0].cell.n_classes
        noisy = self.recorded or (kind == "targeted" and len(self.votes(k, 0.5)) > 1)
        return fewest(
            lambda n: self.of({**others, kind: n}),
            half_width,
            most,
            start=start_at(self.accuracy, half_width, self.confidence),
            there=sum(self.held.values()) + sum(others.values()),
            close=_NOISY if noisy and not self.aims else _CLOSE,
        )

    def told(self, buy: Mapping[str, int]) -> dict[str, int]:
        """What to buy; by stratum where strata were labelled at different rates."""
        if not self.strata:
            return dict(buy)
        parts = [
            (s, name, n) for name, all_ in buy.items() for s, n in self.by_stratum(all_).items()
        ]
        return {f"{s}/{name}" if s else name: n for s, name, n in parts if n}

    @property
    def aims(self) -> bool:
        """Whether the questions that are there were aimed at this system."""
        classes = {p.cell.n_classes for p in self.places}
        return self.recorded and all(len(self.votes(k, 0.5)) == 1 for k in classes)

    def _law(self, kind: str, place: Place) -> list[tuple[Tally, float]]:
        """What one label of a kind says in a place: tallies with their probabilities."""
        cell, a, k = place.cell, self.accuracy, place.cell.n_classes
        there = place.answered / place.items if place.items else 1.0
        share = {True: a, False: 1 - a}
        if kind == GRADES:  # of an answer that is there
            return [(tally(cell, "yes", hit=hit, graded=True), p) for hit, p in share.items()]
        rows: list[tuple[Tally, float]]
        if kind == "ordinary":
            rows = [(tally(cell, "yes", hit=hit), p) for hit, p in share.items()]
        elif kind == "targeted":
            rows = _targeted(cell, self.votes(k, a))
        else:
            told = 1 / k if kind == "question" else 0.0
            struck = (1 - told) * (1 - a) / (k - 1)
            rows = [(tally(cell, "yes", hit=hit), told * p) for hit, p in share.items()]
            rows.append((tally(cell, "no", hit=True), struck))
            rows.append((tally(cell, "no", hit=False), 1 - told - struck))
        verdict: Verdict = "yes" if kind == "ordinary" else "no"
        inverse = 0.0 if kind == "targeted" else None
        silent = tally(cell, verdict, hit=False, answered=False, inverse=inverse)
        return [*((t, there * p) for t, p in rows), (silent, 1 - there)]


def by_cell(tallies: Mapping[Tally, int]) -> Counter[Cell]:
    """How many labels every part of the population has."""
    found: Counter[Cell] = Counter()
    for t, n in tallies.items():
        found[Cell(t.system, t.n_classes, t.stratum, t.weight)] += n
    return found


def strata_of(places: Iterable[Place]) -> dict[str, tuple[int, int]]:
    """Items, and items that were asked about, of each stratum."""
    items, asked = Counter[str](), Counter[str]()
    for p in places:
        items[p.cell.stratum] += p.items
        asked[p.cell.stratum] += p.asked
    return {stratum: (n, asked[stratum]) for stratum, n in items.items()}


def _targeted(cell: Cell, votes: Sequence[Voted]) -> list[tuple[Tally, float]]:
    """As a routing by votes records them, with the chance of every answer."""
    rows: list[tuple[Tally, float]] = []
    for v in votes:
        p = v.propensity
        yes = tally(cell, "yes", hit=True, inverse=1 / p, chance=p)
        no = tally(cell, "no", hit=True, inverse=1 / p, chance=p)
        other = tally(cell, "no", hit=False, inverse=0.0, chance=p)
        right, wrong = v.share * p * v.right, v.share * p * (1 - v.right)
        rows += [(yes, right), (no, wrong), (other, v.share * (1 - p))]
    return rows


def _half(estimate: Estimate) -> float:
    return (estimate.high - estimate.low) / 2


def _whole(rows: Iterable[tuple[Tally, float]]) -> Counter[Tally]:
    """Whole numbers whose running sums are the rounded ones, so that each tally has its total."""
    told = [(t, x) for t, x in rows if x > 0]
    found: Counter[Tally] = Counter()
    for (t, _), n in zip(told, _rounded([x for _, x in told]), strict=True):
        found[t] += n
    return found


def _rounded(values: Sequence[float]) -> list[int]:
    sums = np.rint(np.cumsum([0.0, *values])).astype(int)
    return [int(x) for x in np.diff(sums)]


def places_of(
    *, n_classes: Mapping[int, int], strata: Mapping[str, int] | None
) -> tuple[Place, ...]:
    """Places of a population where classes and strata are independent and all have an answer."""
    total = sum(n_classes.values())
    of = strata or {"": total}
    cells = [Cell(SYSTEM, k, name) for name in of for k in n_classes]
    sizes = _rounded([of[c.stratum] * n_classes[c.n_classes] / total for c in cells])
    return tuple(Place(c, n, n) for c, n in zip(cells, sizes, strict=True))


def with_held(world: Expected, have: Mapping[str, int]) -> Expected:
    """The world with labels that are there already, by kind or by stratum and kind."""
    held: Counter[Tally] = Counter()
    asked: Counter[Cell] = Counter()
    for name, n in have.items():
        stratum, _, kind = name.rpartition("/")
        there = tuple(p for p in world.places if not stratum or p.cell.stratum == stratum)
        part = dataclasses.replace(world, places=there, strata=False)
        held.update(part.counts({kind: n}).tallies)
        asked.update(dict(zip((p.cell for p in there), _rounded(part.spread(n)), strict=True)))
    places = tuple(p._replace(asked=min(p.items, asked[p.cell])) for p in world.places)
    aims = any(name.endswith("targeted") for name in have)
    return dataclasses.replace(world, places=places, held=dict(held), recorded=aims)


def fewest(
    width: Callable[[int], float],
    goal: float,
    most: int,
    *,
    start: int = 1,
    there: int = 0,
    close: float = _CLOSE,
) -> int | None:
    """About the smallest n with a width of at most ``goal``; None if not even ``most`` is enough.

    Every step goes where the width would be the goal if √(n + there)·width stayed the same, inside
    the bracket, until that is ``close``.
    """
    if width(0) <= goal:
        return 0
    low, high = 0, most + 1  # not enough; enough, or more than there are
    n, turn = min(max(start, 1), most), 0
    while high - low > max(1, int(close * low)):
        found = width(n)
        low, high = (low, n) if found <= goal else (n, high)
        turn += 1
        margin = int(close * n / 2)
        n = math.ceil((n + there) * (found / goal) ** 2) - there
        n += margin if found > goal else -margin
        if not low < n < high or (turn % 4 == 0 and high <= most):
            n = most if n >= high > most else (low + high) // 2
    return None if high > most else high


def start_at(accuracy: float, half_width: float, confidence: float) -> int:
    """Ordinary labels for a normal interval of this half-width: where a search starts."""
    z = -float(ndtri((1 - confidence) / 2))
    return math.ceil(max(accuracy * (1 - accuracy), 0.01) * (z / half_width) ** 2)


def aimed_votes(epsilon: float) -> Votes:
    """One system: its answer is asked about with probability 1 - ε + ε/K."""
    return lambda n_classes, accuracy: [Voted(aimed(n_classes, epsilon), 1.0, accuracy)]
