"""Three ways to spend a label on a system, measured: complementary only, one uniform question an
item, and targeted questions.

Items are drawn with replacement, so that no design profits from a finite set of items, and every
label counts, also one that falls on an item without an answer. ``labels`` below is the number of
labels a repetition buys; the variance of the estimate times ``labels`` is the variance per label,
and the ratio of two of them is the ratio of labels needed for the same standard error.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noracle import AccuracyCounts, estimate_accuracy
from noracle.counts import Cell, Tally

if TYPE_CHECKING:
    from _data import Answers

Array = np.ndarray[Any, Any]
EPSILON = 0.05
_AT_ONCE = 200


class Gain(NamedTuple):
    """One system: variance per label of each design, and how many times more labels the uniform
    designs need.
    """

    system: str
    accuracy: float
    complementary: float
    one_query: float
    targeted: float

    @property
    def over_complementary(self) -> float:
        """Complementary labels needed for each targeted one."""
        return self.complementary / self.targeted

    @property
    def over_one_query(self) -> float:
        """Uniform questions needed for each targeted one."""
        return self.one_query / self.targeted


def expected_gains(
    n_classes: int, among_answered: float, epsilon: float = EPSILON
) -> tuple[float, float]:
    """The two ratios by the formulae: (A+K−2)(1−A), the inverse information of a uniform question,
    and A(1−A)/π, π = 1−ε+ε/K.
    """
    a, k, chance = among_answered, n_classes, 1 - epsilon + epsilon / n_classes
    information = 1 / (k * a * (1 - a)) + (k - 1) / (k * (a + k - 2) * (1 - a))
    targeted = a * (1 - a) / chance
    return (a + k - 2) * (1 - a) / targeted, 1 / (information * targeted)


def targeted_counts(
    n_classes: int,
    n_items: int,
    n_without: int,
    chance: float,
    tally: tuple[int, int, int],
    system: str = "system",
) -> AccuracyCounts:
    """Counts of targeted questions about one system: said yes to its answer, said no to its answer,
    asked about another class.
    """
    yes, no, other = tally
    place = Cell(system, n_classes)
    tallies = {
        Tally(
            system, n_classes, "yes", True, design="recorded", yes_score=1 / chance, no_score=0.0
        ): yes,
        Tally(
            system,
            n_classes,
            "no",
            True,
            n_ruled_out=1,
            ruled_hit=True,
            design="recorded",
            yes_score=0.0,
            no_score=1 / chance,
        ): no,
        Tally(
            system,
            n_classes,
            "no",
            False,
            n_ruled_out=1,
            design="recorded",
            yes_score=0.0,
            no_score=0.0,
        ): other,
    }
    return AccuracyCounts(
        tallies={t: n for t, n in tallies.items() if n},
        items={place: n_items},
        answered={place: n_items - n_without},
    )


@lru_cache(maxsize=200_000)
def _targeted_value(
    n_classes: int, n_items: int, n_without: int, chance: float, tally: tuple[int, int, int]
) -> float:
    return estimate_accuracy(
        targeted_counts(n_classes, n_items, n_without, chance, tally),
        method="scores",
        interval="wald",
    ).value


@lru_cache(maxsize=200_000)
def _value(
    method: str,
    n_classes: int,
    n_items: int,
    n_without: int,
    ordinary: tuple[int, int],
    complementary: tuple[int, int],
) -> float:
    counts = AccuracyCounts.from_counts(
        n_classes=n_classes,
        n_items=n_items,
        n_without_answer=n_without,
        ordinary=ordinary,
        complementary=complementary,
    )
    return estimate_accuracy(counts, method=method, interval="wald").value  # type: ignore[arg-type]


def measure_gains(
    answers: Answers, *, labels: int, repetitions: int, seed: int, epsilon: float = EPSILON
) -> list[Gain]:
    """Variance per label of the three designs over many repetitions, for every system; all items
    have the same number of classes.
    """
    rng = np.random.default_rng(seed)
    k, n_items = int(answers.n_classes[0]), len(answers.key)
    chance = 1 - epsilon + epsilon / k
    values = np.empty((3, len(answers.systems), repetitions))
    for start in range(0, repetitions, _AT_ONCE):
        shape = (min(_AT_ONCE, repetitions - start), labels)
        items = [rng.integers(n_items, size=shape) for _ in range(3)]
        ruled_out = (answers.key[items[0]] + 1 + rng.integers(k - 1, size=shape)) % k
        asked = rng.integers(k, size=shape)
        true_class = asked == answers.key[items[1]]
        aim, other = rng.random(shape) >= epsilon, rng.integers(k, size=shape)
        for s, given in enumerate(answers.given):
            without = int((given < 0).sum())
            here = slice(start, start + shape[0])
            values[0, s, here] = _complementary(k, without, given, items[0], ruled_out)
            values[1, s, here] = _one_query(k, without, given, items[1], asked, true_class)
            values[2, s, here] = _targeted(
                k, without, chance, given, answers.key, items[2], aim, other
            )
    per_label = labels * values.var(axis=2, ddof=1)
    return [
        Gain(name, float(answers.accuracy[s]), *per_label[:, s].tolist())
        for s, name in enumerate(answers.systems)
    ]


def _complementary(
    k: int, without: int, given: Array, items: Array, ruled_out: Array
) -> list[float]:
    answer = given[items]
    n, hit = (answer >= 0).sum(axis=1), (answer == ruled_out).sum(axis=1)
    rows = zip(n.tolist(), hit.tolist(), strict=True)
    return [
        _value("complementary", k, len(given), without, (0, 0), (n, n - hit)) for n, hit in rows
    ]


def _one_query(
    k: int, without: int, given: Array, items: Array, asked: Array, true_class: Array
) -> list[float]:
    answer = given[items]
    answered, hit = answer >= 0, answer == asked
    columns = [
        answered & true_class,
        hit & true_class,
        answered & ~true_class,
        answered & ~hit & ~true_class,
    ]
    rows = zip(*(c.sum(axis=1).tolist() for c in columns), strict=True)
    return [
        _value("ml", k, len(given), without, (n_o, right), (n_c, avoided))
        for n_o, right, n_c, avoided in rows
    ]


def _targeted(
    k: int,
    without: int,
    chance: float,
    given: Array,
    key: Array,
    items: Array,
    aim: Array,
    other: Array,
) -> list[float]:
    answer = given[items]
    answered, right = answer >= 0, answer == key[items]
    # With probability 1−ε the answer itself is asked about, else a uniform class, which may be the
    # answer too.
    about = answered & (aim | (other == answer))
    columns = [about & right, about & ~right, answered & ~about]
    rows = zip(*(c.sum(axis=1).tolist() for c in columns), strict=True)
    return [_targeted_value(k, len(given), without, chance, tally) for tally in rows]
