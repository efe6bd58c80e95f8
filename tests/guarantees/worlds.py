"""Kinds of simulated worlds. Each draws the counts of many worlds at once and knows the accuracy
that the interval must contain.

A drawn world is a tuple of whole numbers (the counts), so that equal worlds are estimated once;
``build`` turns it into counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.stats import binom

from noracle import AccuracyCounts, PatternCounts
from noracle.counts import Cell, Pattern, Tally

Key = tuple[int, ...]
Rng = np.random.Generator


@dataclasses.dataclass(frozen=True, kw_only=True)
class World:
    """One kind of world: the truth, how counts are drawn (one row per world), and how they become
    what an estimator takes.

    ``every`` gives all samples that matter with their probabilities, where they are few enough to
    need no drawing.
    """

    truth: float
    draw: Callable[[Rng, int], np.ndarray]
    build: Callable[[Key], Any]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    every: Callable[[], dict[Key, float]] | None = None


def escape(k: int, accuracy: float, m: int = 1) -> float:
    """P(the answer is not among m ruled-out classes)."""
    return 1 - (1 - accuracy) * m / (k - 1)


def _counts(
    rows: list[tuple[Tally, int]],
    items: Mapping[Cell, int],
    answered: Mapping[Cell, int] | None = None,
) -> AccuracyCounts:
    tallies: dict[Tally, int] = {}
    for tally, n in rows:
        if n:
            tallies[tally] = tallies.get(tally, 0) + int(n)
    # Items are drawn from a law whose accuracy is the truth: they are not all there are.
    return AccuracyCounts(
        tallies=tallies,
        items=dict(items),
        answered=dict(items if answered is None else answered),
        whole=False,
    )


def yes(k: int, *, hit: bool, **where: Any) -> Tally:
    return Tally("s", k, "yes", hit, **where)


def no(k: int, *, hit: bool, m: int = 1, **where: Any) -> Tally:
    return Tally("s", k, "no", hit, n_ruled_out=m, ruled_hit=hit, **where)


def _table(key: Key, start: int, k: int, m: int = 1, **where: Any) -> list[tuple[Tally, int]]:
    """Four counts from ``start``: yes hit, yes miss, no hit, no miss."""
    tallies = (
        yes(k, hit=True, **where),
        yes(k, hit=False, **where),
        no(k, hit=True, m=m, **where),
        no(k, hit=False, m=m, **where),
    )
    return list(zip(tallies, key[start : start + 4], strict=True))


def plain(k: int, accuracy: float, n_o: int, n_c: int, m: int = 1) -> World:
    """Two separate sets of labels, every item answered."""

    def draw(rng: Rng, worlds: int) -> np.ndarray:
        return np.stack(
            [
                rng.binomial(n_o, accuracy, worlds),
                rng.binomial(n_c, escape(k, accuracy, m), worlds),
            ],
            axis=1,
        )

    def build(key: Key) -> AccuracyCounts:
        return AccuracyCounts.from_counts(
            n_classes=k, ordinary=(n_o, key[0]), complementary=(n_c, key[1]), n_ruled_out=m
        )

    def every() -> dict[Key, float]:
        chances = np.outer(
            binom.pmf(np.arange(n_o + 1), n_o, accuracy),
            binom.pmf(np.arange(n_c + 1), n_c, escape(k, accuracy, m)),
        )
        return {(int(i), int(j)): float(chances[i, j]) for i, j in np.argwhere(chances > 1e-9)}

    return World(truth=accuracy, draw=draw, build=build, every=every)


def two_m(k: int, accuracy: float, n: int, ms: tuple[int, int], n_o: int) -> World:
    """Ordinary labels, and items with two different numbers of ruled-out classes: three kinds of
    label.
    """

    def draw(rng: Rng, worlds: int) -> np.ndarray:
        columns = [rng.binomial(n_o, accuracy, worlds)]
        columns += [rng.binomial(n, escape(k, accuracy, m), worlds) for m in ms]
        return np.stack(columns, axis=1)

    def build(key: Key) -> AccuracyCounts:
        first = AccuracyCounts.from_counts(
            n_classes=k, ordinary=(n_o, key[0]), complementary=(n, key[1]), n_ruled_out=ms[0]
        )
        return first + AccuracyCounts.from_counts(
            n_classes=k, complementary=(n, key[2]), n_ruled_out=ms[1]
        )

    return World(truth=accuracy, draw=draw, build=build)


def _questions(
    rng: Rng, n: np.ndarray | int, k: int, accuracy: float, worlds: int
) -> list[np.ndarray]:
    """One uniform question an item: yes hit, yes miss, no hit, no miss."""
    said_yes = rng.binomial(n, 1 / k, worlds)
    said_no = n - said_yes
    right = rng.binomial(said_yes, accuracy)
    ruled = rng.binomial(said_no, 1 - escape(k, accuracy))
    return [right, said_yes - right, ruled, said_no - ruled]


def questions(k: int, accuracy: float, n: int) -> World:
    """One uniform question an item."""

    def draw(rng: Rng, worlds: int) -> np.ndarray:
        return np.stack(_questions(rng, n, k, accuracy, worlds), axis=1)

    return World(
        truth=accuracy, draw=draw, build=lambda key: _counts(_table(key, 0, k), {Cell("s", k): n})
    )


def gaps(k: int, accuracy: float, share: float, n_items: int, n: int, *, beyond: bool) -> World:
    """Some items have no answer; ``accuracy`` is that of the answered ones, n random items get a
    question each.

    The items are the population (a fixed number of them is answered) or, ``beyond``, themselves a
    sample.
    """

    def draw(rng: Rng, worlds: int) -> np.ndarray:
        answered = (
            rng.binomial(n_items, share, worlds)
            if beyond
            else np.full(worlds, round(share * n_items))
        )
        labelled = rng.hypergeometric(answered, n_items - answered, n)
        unanswered_yes = rng.binomial(n - labelled, 1 / k)
        parts = _questions(rng, labelled, k, accuracy, worlds)
        return np.stack([*parts, answered, unanswered_yes, n - labelled - unanswered_yes], axis=1)

    def build(key: Key) -> AccuracyCounts:
        rows = [
            *_table(key, 0, k),
            (yes(k, hit=False, answered=False), key[5]),
            (no(k, hit=False, answered=False), key[6]),
        ]
        return _counts(rows, {Cell("s", k): n_items}, {Cell("s", k): key[4]})

    options = {"population": "beyond"} if beyond else {}
    truth = accuracy * (share if beyond else round(share * n_items) / n_items)
    return World(truth=truth, draw=draw, build=build, options=options)


@dataclasses.dataclass(frozen=True)
class Group:
    """A part of the population: its number of classes, accuracy, share, weight and stratum."""

    k: int
    accuracy: float
    share: float
    weight: float = 1.0
    stratum: str = ""


def groups(
    parts: tuple[Group, ...],
    n: int,
    *,
    beyond: bool = False,
    ordinary: bool = False,
    fixed: tuple[int, ...] | None = None,
) -> World:
    """Items of several groups; n of them, drawn at random, get a uniform question each (or an
    ordinary label).

    ``fixed`` labels that many of each group instead. The population is ten times the sample with
    known shares, or unknown ``beyond``.
    """
    shares = np.array([g.share for g in parts])
    weights = shares * np.array([g.weight for g in parts])
    truth = float(np.dot(weights, [g.accuracy for g in parts]) / weights.sum())

    def draw(rng: Rng, worlds: int) -> np.ndarray:
        sizes = np.tile(fixed, (worlds, 1)) if fixed else rng.multinomial(n, shares, worlds)
        columns = []
        for i, g in enumerate(parts):
            size = sizes[:, i]
            if ordinary:
                right = rng.binomial(size, g.accuracy)
                columns += [right, size - right, np.zeros_like(size), np.zeros_like(size)]
            else:
                columns += _questions(rng, size, g.k, g.accuracy, worlds)
        return np.stack(columns, axis=1)

    def build(key: Key) -> AccuracyCounts:
        rows, items = [], {}
        for i, g in enumerate(parts):
            rows += _table(key, 4 * i, g.k, stratum=g.stratum, weight=g.weight)
            size = sum(key[4 * i : 4 * i + 4])
            cell = Cell("s", g.k, g.stratum, g.weight)
            items[cell] = items.get(cell, 0) + (size if beyond else round(20 * n * g.share))
        return _counts(rows, items)

    return World(
        truth=truth, draw=draw, build=build, options={"population": "beyond"} if beyond else {}
    )


def biased(transition: np.ndarray, joint: np.ndarray, n: int, n_o: int = 0) -> World:
    """Ruled-out classes drawn from T[truth]; ``joint[y, a]`` is P(truth y, answer a). Also n_o
    ordinary labels.
    """
    k = len(transition)
    cells = np.einsum("ya,yr->ra", joint, transition)
    truth = float(np.trace(joint))

    def draw(rng: Rng, worlds: int) -> np.ndarray:
        return np.concatenate(
            [rng.multinomial(n, cells.ravel(), worlds), rng.binomial(n_o, truth, worlds)[:, None]],
            axis=1,
        )

    def build(key: Key) -> AccuracyCounts:
        rows = [
            (no(k, hit=i // k == i % k, asked=i // k, answer=i % k), c)
            for i, c in enumerate(key[:-1])
        ]
        rows += [(yes(k, hit=True), key[-1]), (yes(k, hit=False), n_o - key[-1])]
        return _counts(rows, {Cell("s", k): n + n_o})

    return World(truth=truth, draw=draw, build=build, options={"transition": transition})


def aimed(k: int, accuracy: float, n: int, epsilon: float) -> World:
    """Questions aimed at this system, mixed with uniform ones."""
    chance = 1 - epsilon + epsilon / k

    def draw(rng: Rng, worlds: int) -> np.ndarray:
        asked = rng.binomial(n, chance, worlds)
        right = rng.binomial(asked, accuracy)
        return np.stack([right, asked - right, n - asked], axis=1)

    def build(key: Key) -> AccuracyCounts:
        about = {"design": "recorded"}
        rows = [
            (yes(k, hit=True, yes_score=1 / chance, no_score=0.0, **about), key[0]),
            (no(k, hit=True, yes_score=0.0, no_score=1 / chance, **about), key[1]),
            (no(k, hit=False, yes_score=0.0, no_score=0.0, **about), key[2]),
        ]
        return _counts(rows, {Cell("s", k): n})

    return World(truth=accuracy, draw=draw, build=build)


@dataclasses.dataclass(frozen=True)
class Aim:
    """Items of one kind in a design that aims at others: how often the answer is asked about, how
    often it is right, their share.

    ``chance`` 1/K is a uniform question, which is counted as such.
    """

    chance: float
    accuracy: float
    share: float


def aimed_elsewhere(k: int, n: int, aims: tuple[Aim, ...]) -> World:
    """Questions aimed at other systems: the chance that the answer is asked about goes with the
    item, and so does the accuracy.
    """
    outcomes = []
    for aim in aims:
        uniform = abs(aim.chance * k - 1) < 1e-9
        score = 1 / aim.chance
        extra: dict[str, Any] = {} if uniform else {"design": "recorded"}
        right, wrong, rest = (
            aim.share * aim.chance * aim.accuracy,
            aim.share * aim.chance * (1 - aim.accuracy),
            aim.share * (1 - aim.chance),
        )
        yes_scores = {} if uniform else {"yes_score": score, "no_score": 0.0}
        no_scores = {} if uniform else {"yes_score": 0.0, "no_score": score}
        none = {} if uniform else {"yes_score": 0.0, "no_score": 0.0}
        # Another class asked: it is the true one only where the answer is wrong, with probability
        # 1/(K - 1).
        elsewhere_yes = rest * (1 - aim.accuracy) / (k - 1)
        outcomes += [
            (yes(k, hit=True, **yes_scores, **extra), right),
            (no(k, hit=True, **no_scores, **extra), wrong),
            (yes(k, hit=False, **none, **extra), elsewhere_yes),
            (no(k, hit=False, **none, **extra), rest - elsewhere_yes),
        ]
    chances = np.array([p for _, p in outcomes])

    def draw(rng: Rng, worlds: int) -> np.ndarray:
        return rng.multinomial(n, chances / chances.sum(), worlds)

    def build(key: Key) -> AccuracyCounts:
        return _counts(
            [(tally, c) for (tally, _), c in zip(outcomes, key, strict=True)], {Cell("s", k): n}
        )

    return World(truth=sum(a.share * a.accuracy for a in aims), draw=draw, build=build)


def noisy(k: int, accuracy: float, n: int, false_no: float, false_yes: float) -> World:
    """Uniform questions with wrong verdicts at known rates."""
    a = accuracy
    chances = np.array(
        [
            (a * (1 - false_no) + (1 - a) * false_yes) / k,
            (a * (k - 1) * false_yes + (1 - a) * (1 - false_no + (k - 2) * false_yes)) / k,
            (a * false_no + (1 - a) * (1 - false_yes)) / k,
            (a * (k - 1) * (1 - false_yes) + (1 - a) * (false_no + (k - 2) * (1 - false_yes))) / k,
        ]
    )

    def draw(rng: Rng, worlds: int) -> np.ndarray:
        return rng.multinomial(n, chances / chances.sum(), worlds)

    options = {"false_no": false_no, "false_yes": false_yes}
    return World(
        truth=accuracy,
        draw=draw,
        build=lambda key: _counts(_table(key, 0, k), {Cell("s", k): n}),
        options=options,
    )


def noisy_by_class(
    k: int,
    accuracies: tuple[float, ...],
    n: int,
    false_no: tuple[float, ...],
    false_yes: tuple[float, ...],
) -> World:
    """The same with accuracy and error rates that differ by the class answered; answers are uniform
    over the classes.
    """
    tables = [noisy(k, a, n, m, f) for a, m, f in zip(accuracies, false_no, false_yes, strict=True)]

    def draw(rng: Rng, worlds: int) -> np.ndarray:
        sizes = rng.multinomial(n, np.full(k, 1 / k), worlds)
        columns = []
        for c in range(k):
            a, m, f = accuracies[c], false_no[c], false_yes[c]
            asked = rng.binomial(sizes[:, c], 1 / k)
            hit_yes = rng.binomial(asked, a * (1 - m) + (1 - a) * f)
            columns += [hit_yes, asked - hit_yes, sizes[:, c] - asked]
        return np.stack(columns, axis=1)

    def build(key: Key) -> AccuracyCounts:
        rows = []
        for c in range(k):
            rows += [
                (yes(k, hit=True, answer=c), key[3 * c]),
                (no(k, hit=True, answer=c), key[3 * c + 1]),
            ]
            # The verdict on another class does not matter to these scores.
            rows += [(no(k, hit=False, answer=c), key[3 * c + 2])]
        return _counts(rows, {Cell("s", k): n})

    options = {"false_no": dict(enumerate(false_no)), "false_yes": dict(enumerate(false_yes))}
    return World(
        truth=float(np.mean([t.truth for t in tables])), draw=draw, build=build, options=options
    )


def finite(k: int, n_right: int, n_items: int, n_o: int, n_c: int) -> World:
    """A finite population, labelled without replacement; every item answered."""

    def draw(rng: Rng, worlds: int) -> np.ndarray:
        right = rng.hypergeometric(n_right, n_items - n_right, n_o + n_c, worlds)
        ordinary = (
            rng.hypergeometric(right, n_o + n_c - right, n_o)
            if n_o
            else np.zeros(worlds, dtype=int)
        )
        wrong = n_c - (right - ordinary)
        return np.stack([ordinary, n_c - rng.binomial(wrong, 1 / (k - 1))], axis=1)

    def build(key: Key) -> AccuracyCounts:
        return AccuracyCounts.from_counts(
            n_classes=k, ordinary=(n_o, key[0]), complementary=(n_c, key[1]), n_items=n_items
        )

    return World(truth=n_right / n_items, draw=draw, build=build)


@dataclasses.dataclass(frozen=True)
class Duel:
    """Items on which two systems do in one way: both right, only the first, only the second, both
    wrong alike, both wrong differently.
    """

    k: int
    share: float
    both: float
    first: float
    second: float
    alike: float = 0.0


def duels(parts: tuple[Duel, ...], n: int) -> World:
    """Two systems, one uniform question an item; the truth is the difference of their accuracies."""
    outcomes: list[tuple[Pattern, float]] = []
    for d in parts:
        k, apart = d.k, 1 - d.both - d.first - d.second - d.alike
        asked = d.share / k
        pattern = {
            v: (lambda hits, v=v, k=k: Pattern(k, v, hits, n_ruled_out=int(v == "no")))
            for v in ("yes", "no")
        }
        outcomes += [
            (pattern["yes"]((True, True)), asked * d.both),
            (pattern["yes"]((True, False)), asked * d.first),
            (pattern["yes"]((False, True)), asked * d.second),
            (pattern["yes"]((False, False)), asked * (d.alike + apart)),
            (pattern["no"]((False, False)), d.share * (1 - 1 / k) * d.both),
            (pattern["no"]((False, True)), asked * d.first),
            (pattern["no"]((False, False)), asked * (k - 2) * d.first),
            (pattern["no"]((True, False)), asked * d.second),
            (pattern["no"]((False, False)), asked * (k - 2) * d.second),
            (pattern["no"]((True, True)), asked * d.alike),
            (pattern["no"]((False, False)), asked * (k - 2) * d.alike),
            (pattern["no"]((True, False)), asked * apart),
            (pattern["no"]((False, True)), asked * apart),
            (pattern["no"]((False, False)), asked * (k - 3) * apart if k > 2 else 0.0),
        ]
    chances = np.array([p for _, p in outcomes])

    def draw(rng: Rng, worlds: int) -> np.ndarray:
        return rng.multinomial(n, chances / chances.sum(), worlds)

    def build(key: Key) -> PatternCounts:
        patterns: dict[Pattern, int] = {}
        for (pattern, _), c in zip(outcomes, key, strict=True):
            if c:
                patterns[pattern] = patterns.get(pattern, 0) + c
        return PatternCounts(systems=("a", "b"), patterns=patterns)

    return World(truth=sum(d.share * (d.first - d.second) for d in parts), draw=draw, build=build)
