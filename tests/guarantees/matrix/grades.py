"""Grades: somebody says of a system's answer that it is right or wrong. The number of classes is
not known in any of these worlds.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import binom, hypergeom

from noracle import AccuracyCounts, GuaranteeWarning, compare_systems, estimate_accuracy
from noracle.accuracy.compare import Race
from noracle.counts import Cell, PatternCounts
from noracle.counts.tally import Label, Pattern, Tally, pattern, tally
from tests.guarantees.matrix.record import Case, Seen, row_of, seeded
from tests.guarantees.measure import Row

PART = "grades"
RATES = (0.0, 0.02, 0.5, 0.98, 1.0)
Rng = np.random.Generator
Built = tuple[AccuracyCounts, float]
SYSTEM = "a"


def graded(
    right: bool | None, *, answered: bool = True, stratum: str = "", cluster: str = ""
) -> Tally:
    """The tally of one grade; None is unsure."""
    verdict: Any = "unsure" if right is None else "yes" if right else "no"
    label = Label.grade(verdict)._replace(stratum=stratum, cluster=cluster)
    return label.meet("text" if answered else None, system=SYSTEM)


def _limits(counts: AccuracyCounts, **options: Any) -> tuple[float, float, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        found = estimate_accuracy(counts, checks="none", **options)
    return found.low, found.high, found.guarantee.kind.label


# ----------------------------------------------------------------------------------------------------
# all worlds, enumerated


def _one_sample(n: int, of: int | None) -> Callable[[int], AccuracyCounts]:
    """``n`` grades of all items there are, or of a sample of more."""

    def build(right: int) -> AccuracyCounts:
        tallies = {graded(True): right, graded(False): n - right}
        place = {Cell(SYSTEM, 0): n if of is None else of}
        return AccuracyCounts(
            tallies={t: k for t, k in tallies.items() if k},
            items=place,
            answered=place,
            whole=of is not None,
        )

    return build


def _enumerated(name: str, n: int, of: int | None, laws: Mapping[str, tuple[float, Any]]) -> Case:
    """Every number of right answers with its chance, for several truths."""

    def rows(_: int) -> list[Row]:
        started, build, found = time.perf_counter(), _one_sample(n, of), []
        limits = {right: _limits(build(right)) for right in range(n + 1)}
        for told, (truth, law) in laws.items():
            share = {right: float(law.pmf(right)) for right in limits}
            covered = sum(
                p
                for right, p in share.items()
                if limits[right][0] - 1e-12 <= truth <= limits[right][1] + 1e-12
            )
            width = sum(p * (limits[right][1] - limits[right][0]) for right, p in share.items())
            found.append(
                Row(
                    part=PART,
                    setting=told,
                    method="ml",
                    interval="exact",
                    n=n,
                    worlds=n + 1,
                    enumerated=True,
                    coverage=covered,
                    nominal=0.95,
                    width=width,
                    guarantee=limits[0][2],
                    p_value=1.0 if covered >= 0.95 - 1e-9 else 0.0,
                    seconds=time.perf_counter() - started,
                )
            )
        return found

    return Case(part=PART, name=name, measured=rows, quick=n == 10)


def _plain() -> Iterator[Case]:
    for n in (1, 2, 10, 100):
        laws = {f"{n} grades, A={a:g}, a sample of more": (a, binom(n, a)) for a in RATES}
        yield _enumerated(f"{n} grades, A=*", n, None, laws)
    for size, n in ((2, 1), (10, 10), (40, 25), (500, 60)):
        rights = sorted({0, 1, size // 2, size})
        laws = {
            f"{n} grades of {size} items, {right} right": (right / size, hypergeom(size, right, n))
            for right in rights
        }
        yield _enumerated(f"{n} grades of {size} items", n, size, laws)


# ----------------------------------------------------------------------------------------------------------------
# drawn worlds


def _drawn(
    name: str,
    n: int,
    world: Callable[[Rng], Built],
    *,
    interval: str = "auto",
    quick: bool = False,
    **options: Any,
) -> Case:
    def rows(worlds: int) -> list[Row]:
        started, seen, rng = time.perf_counter(), Seen(), seeded(PART, name)
        known: dict[Any, tuple[float, float, str]] = {}
        for _ in range(worlds):
            counts, truth = world(rng)
            key = frozenset(counts.tallies.items()) if not counts.clustered else None
            if key is None or key not in known:
                found = _limits(counts, interval=interval, **options)
                if key is not None:
                    known[key] = found
            low, high, kind = found if key is None else known[key]
            seen.add(low - 1e-12 <= truth <= high + 1e-12, high - low, kind)
        return [
            row_of(
                seen,
                part=PART,
                setting=name,
                method="default",
                interval=interval,
                n=n,
                started=started,
            )
        ]

    return Case(part=PART, name=name, measured=rows, quick=quick)


def _counts(
    tallies: Mapping[Tally, int],
    items: Mapping[Cell, int],
    answered: Mapping[Cell, int],
    **more: Any,
) -> AccuracyCounts:
    return AccuracyCounts(
        tallies={t: n for t, n in tallies.items() if n}, items=items, answered=answered, **more
    )


def _strata(
    sizes: Sequence[int], rights: Sequence[int], labels: Sequence[int], silent: Sequence[int]
) -> Callable[[Rng], Built]:
    """Strata of a finite population, each with grades at its own rate, of answers that are there."""
    truth = sum(rights) / sum(sizes)

    def world(rng: Rng) -> Built:
        tallies: Counter[Tally] = Counter()
        items, answered = {}, {}
        for i, (size, right, n, none) in enumerate(zip(sizes, rights, labels, silent, strict=True)):
            cell = Cell(SYSTEM, 0, f"s{i}" if len(sizes) > 1 else "")
            items[cell], answered[cell] = size, size - none
            good = int(rng.hypergeometric(right, size - none - right, n)) if n else 0
            tallies[graded(True, stratum=cell.stratum)] += good
            tallies[graded(False, stratum=cell.stratum)] += n - good
        return _counts(tallies, items, answered), truth

    return world


def _parts() -> Iterator[Case]:
    for labels in ((80, 20), (30, 30), (200, 5), (0, 40)):
        world = _strata((400, 400), (360, 160), labels, (0, 0))
        yield _drawn(
            f"two strata, {labels[0]} and {labels[1]} grades",
            sum(labels),
            world,
            quick=labels == (80, 20),
        )
    four = _strata((100, 200, 300, 400), (99, 100, 6, 400), (10, 40, 20, 15), (0,) * 4)
    yield _drawn("four strata of 99, 50, 2 and 100 %", 85, four)
    for none, right in ((20, 300), (200, 100), (380, 19)):
        yield _drawn(
            f"{none} of 400 without an answer",
            60 if none < 300 else 15,
            _strata((400,), (right,), (60 if none < 300 else 15,), (none,)),
        )
    both = _strata((300, 300), (100, 280), (60, 12), (150, 5))
    yield _drawn("two strata, half of one without an answer", 72, both)


def _unsure(n: int, rate: float, accuracy: float) -> Callable[[Rng], Built]:
    def world(rng: Rng) -> Built:
        open_ = int(rng.binomial(n, rate))
        right = int(rng.binomial(n - open_, accuracy))
        place = {Cell(SYSTEM, 0): n}
        tallies = {graded(True): right, graded(False): n - open_ - right, graded(None): open_}
        return _counts(tallies, place, place, whole=False), accuracy

    return world


def _missing() -> Iterator[Case]:
    for n, rate, accuracy in ((10, 0.3, 0.9), (80, 0.05, 0.5), (200, 0.01, 0.98)):
        yield _drawn(
            f"{n} grades, {rate:.0%} unsure at random, A={accuracy:g}",
            n,
            _unsure(n, rate, accuracy),
            quick=n == 80,
        )


def _clustered(clusters: int, size: int, accuracy: float, alike: float) -> Callable[[Rng], Built]:
    """Clusters of a law, all of whose items were graded; the answers of one cluster are right
    together more often than not.
    """

    def world(rng: Rng) -> Built:
        tallies: Counter[Tally] = Counter()
        items: dict[Cell, int] = {}
        for c in range(clusters):
            whole = rng.random() < alike
            good = size * (rng.random() < accuracy) if whole else int(rng.binomial(size, accuracy))
            tallies[graded(True, cluster=f"c{c}")] += int(good)
            tallies[graded(False, cluster=f"c{c}")] += size - int(good)
            items[Cell(SYSTEM, 0, cluster=f"c{c}")] = size
        return _counts(tallies, items, items, whole=False), accuracy

    return world


def _alike() -> Iterator[Case]:
    for clusters, size, accuracy, alike in (
        (40, 5, 0.7, 0.3),
        (25, 4, 0.95, 1.0),
        (60, 2, 0.5, 0.0),
        (12, 10, 0.8, 0.5),
    ):
        name = f"{clusters} clusters of {size}, A={accuracy:g}, {alike:g} alike"
        yield _drawn(
            name, clusters * size, _clustered(clusters, size, accuracy, alike), quick=clusters == 40
        )


# -----------------------------------------------------------------------------------------------------
# recorded propensities


def _voted(
    n: int, accuracy: float, systems: int, *, told: bool, share: float = 0.5
) -> Callable[[Rng], Built]:
    """One answer of each item was drawn by its votes. Others share this system's answer with a
    chance that goes with its being right.
    """

    def world(rng: Rng) -> Built:
        tallies: Counter[Tally] = Counter()
        for _ in range(n):
            right = bool(rng.random() < accuracy)
            votes = 1 + int(rng.binomial(systems - 1, share + 0.3 * right * (share > 0)))
            chance = votes / systems
            asked = rng.random() < chance
            tallies[_asked(right, chance if asked else None, chance if told else None)] += 1
        place = {Cell(SYSTEM, 0): n}
        return _counts(tallies, place, place, whole=False, propensities="recorded"), accuracy

    return world


def _asked(right: bool, propensity: float | None, chance: float | None) -> Tally:
    """A question that fell on this system's answer with a propensity, or on another one's (None)."""
    verdict: Any = "yes" if right else "no"
    inverse = 0.0 if propensity is None else 1 / propensity
    return tally(
        Cell(SYSTEM, 0), verdict, hit=propensity is not None, inverse=inverse, chance=chance
    )


def _propensities() -> Iterator[Case]:
    for n, accuracy, systems in (
        (30, 0.7, 3),
        (150, 0.9, 5),
        (150, 0.5, 2),
        (60, 0.02, 4),
        (60, 0.98, 4),
    ):
        for told in (True, False):
            name = f"{n} items, one of {systems} systems' answers graded by votes, A={accuracy:g}{', shares known' if told else ''}"
            yield _drawn(
                name, n, _voted(n, accuracy, systems, told=told), quick=(n, told) == (30, True)
            )
    for systems, accuracy in ((2, 0.6), (5, 0.9)):
        name = f"one of {systems} systems graded by lot, answers not known, A={accuracy:g}"
        yield _drawn(name, 100, _voted(100, accuracy, systems, told=False, share=0.0))


# ---------------------------------------------------------------------------------------------------------
# several systems

Pairs = Callable[[Rng], tuple[PatternCounts, dict[tuple[str, str], float]]]


def _systems(
    n: int,
    accuracies: Mapping[str, float],
    *,
    both: float,
    size: int | None = None,
    silent: float = 0.0,
    strata: bool = False,
) -> Pairs:
    """Items of which each system's answer is graded with a chance of its own, or all of them
    together (``both`` = 1).

    A system gives no answer with the chance ``silent``; then it has no grade. With ``strata`` two
    thirds of the items are graded at a third of the rate, and systems do worse there.
    """
    names = tuple(sorted(accuracies))

    def world(rng: Rng) -> tuple[PatternCounts, dict[tuple[str, str], float]]:
        total = size or n
        hard = rng.random(total) < (2 / 3 if strata else 0.0)
        common = rng.random(total)  # items on which all are right or wrong together
        right = np.array(
            [
                np.where(rng.random(total) < 0.5, common, rng.random(total)) < accuracies[s]
                for s in names
            ]
        )
        right[0] &= ~(hard & (rng.random(total) < 0.5))
        missing = rng.random((len(names), total)) < silent
        right &= ~missing
        by_item = rng.random(total) < (n / total) * np.where(hard, 1 / 3, 1.0)
        seen = by_item & (rng.random((len(names), total)) < both) & ~missing
        patterns: Counter[Pattern] = Counter()
        items: Counter[Cell] = Counter()
        population: Counter[tuple[Cell, tuple[bool, ...]]] = Counter()
        for i in range(total):
            cell = Cell("", 0, "hard" if hard[i] else "easy" if strata else "")
            items[cell] += 1
            population[cell, tuple(map(bool, missing[:, i]))] += 1
            known = seen[:, i] | (missing[:, i] & bool(silent))
            if seen[:, i].any() and known.sum() >= 2:
                hits = [None if missing[j, i] else bool(right[j, i]) for j in range(len(names))]
                patterns[pattern(cell, "yes", hits, known=list(map(bool, known)), graded=True)] += 1
        counts = PatternCounts(
            systems=names,
            patterns=dict(patterns),
            items=dict(items) if size else {},
            whole=size is not None,
            silent=dict(population) if silent else {},
        )
        means = {s: float(right[j].mean()) if size else accuracies[s] for j, s in enumerate(names)}
        return counts, {(a, b): means[a] - means[b] for a, b in itertools.combinations(names, 2)}

    return world


def _compared(
    name: str, n: int, world: Pairs, *, interval: str = "auto", quick: bool = False
) -> Case:
    """All differences of a world must hold together."""

    def rows(worlds: int) -> list[Row]:
        started, seen, rng = time.perf_counter(), Seen(), seeded(PART, name)
        for _ in range(worlds):
            counts, truths = world(rng)
            found = compare_systems(counts, interval=interval, checks="none")  # type: ignore[arg-type]
            held = all(
                d.low - 1e-12 <= truths[d.first, d.second] <= d.high + 1e-12
                for d in found.differences
            )
            seen.add(
                held,
                float(np.mean([d.high - d.low for d in found.differences])),
                found.guarantee.kind.label,
            )
        return [
            row_of(
                seen,
                part=PART,
                setting=name,
                method="compare",
                interval=interval,
                n=n,
                started=started,
            )
        ]

    return Case(part=PART, name=name, measured=rows, quick=quick)


def _pairs() -> Iterator[Case]:
    two, three = {"a": 0.9, "b": 0.8}, {"a": 0.9, "b": 0.85, "c": 0.3}
    yield _compared(
        "two systems, both graded on 60 items", 60, _systems(60, two, both=1.0), quick=True
    )
    yield _compared("two systems, both graded on 3 items", 3, _systems(3, two, both=1.0))
    yield _compared(
        "two systems that are always right", 40, _systems(40, {"a": 1.0, "b": 1.0}, both=1.0)
    )
    yield _compared("two systems, half of the answers graded", 80, _systems(80, two, both=0.5))
    yield _compared(
        "three systems, a third of the answers graded", 120, _systems(120, three, both=0.33)
    )
    yield _compared(
        "three systems, some without an answer",
        150,
        _systems(150, three, both=0.6, size=400, silent=0.2),
    )
    yield _compared(
        "two systems, many without an answer", 60, _systems(60, two, both=0.5, size=200, silent=0.5)
    )
    yield _compared(
        "two systems, strata graded at different rates",
        150,
        _systems(150, two, both=1.0, size=400, strata=True),
    )
    yield _compared("two systems, every look", 60, _systems(60, two, both=0.7), interval="betting")


def _raced(name: str, n: int, accuracies: Mapping[str, float], both: float) -> Case:
    """The best system must not be dropped; a tie is kept by all that share it."""
    world = _systems(n, accuracies, both=both)
    best = {s for s, a in accuracies.items() if a == max(accuracies.values())}

    def rows(worlds: int) -> list[Row]:
        started, seen, rng = time.perf_counter(), Seen(), seeded(PART, name)
        for _ in range(worlds):
            counts, _ = world(rng)
            race = Race(counts.systems, n_classes=0)
            order = [p for p, k in counts.patterns.items() for _ in range(k)]
            for i in rng.permutation(len(order)):
                race.update(order[i])
            seen.add(not best & set(race.dropped), len(race.leaders), "finite-sample")
        return [
            row_of(
                seen,
                part=PART,
                setting=name,
                method="race",
                interval="betting",
                n=n,
                started=started,
            )
        ]

    return Case(part=PART, name=name, measured=rows, quick=False)


def _races() -> Iterator[Case]:
    yield _raced(
        "race of two equal systems, half of the answers graded", 80, {"a": 0.7, "b": 0.7}, 0.5
    )
    yield _raced("race of three, the worst far behind", 100, {"a": 0.9, "b": 0.88, "c": 0.3}, 0.7)


def cases() -> list[Case]:
    """Every case of this file."""
    return [
        case
        for make in (_plain, _parts, _missing, _alike, _propensities, _pairs, _races)
        for case in make()
    ]
