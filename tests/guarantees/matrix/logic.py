"""What answers alone prove, against random answer keys that are known here: one violation is one
too many.

Each world has a key and answers; whatever is proved from the answers must be true of the key.
Ranges must contain the true accuracies, a claim that the key keeps must raise no alarm, trusted
claims are true ones, and what is said about the items (known labels, ruled-out labels, prevalences)
is true. The width is that of the ranges; for alarms the share of false claims that are found out.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from noracle import (
    Sketch,
    prove_by_axioms,
    prove_conflict,
    prove_malfunction,
    range_accuracies,
    range_prevalence,
    range_threshold,
    range_violators,
)
from noracle.logic import Spec
from tests.guarantees.matrix.record import Case, Seen, fewer, row_of, seeded
from tests.guarantees.measure import Row

Whole = np.ndarray[Any, Any]
LIMIT = 60.0  # seconds; never reached on a quiet machine, so that rows come out the same again


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """So many classifiers, labels and items; how good they are; what is known of the items."""

    classifiers: int
    labels: int
    items: int
    accuracy: str = "any"
    known: str = "nothing"

    @property
    def name(self) -> str:
        return f"{self.classifiers} classifiers, {self.labels} labels, {self.items} items, accuracies {self.accuracy}, {self.known} known"


@dataclasses.dataclass(frozen=True)
class World:
    """A key, the answers, and what is said of them."""

    key: Whole
    answers: Whole
    sketch: Sketch
    prevalence: dict[str, tuple[int, int]]

    def right(self, i: int, label: int | None) -> Fraction | None:
        """The true accuracy: right among the answered items (of the label); None without such an
        item.
        """
        mine = (self.answers[:, i] >= 0) & (True if label is None else self.key == label)
        total = int(mine.sum())
        return (
            Fraction(int((self.answers[mine, i] == self.key[mine]).sum()), total) if total else None
        )

    @property
    def least(self) -> Fraction:
        """The smallest accuracy of any classifier on any label."""
        n, r = self.answers.shape[1], len(self.sketch.labels)
        found = [self.right(i, label) for i in range(n) for label in range(r)]
        return min((f for f in found if f is not None), default=Fraction(1))


def draw(setting: Setting, rng: np.random.Generator) -> World:
    """A key with random prevalences and classifiers of random quality, or all at an end."""
    n, r, q = setting.classifiers, setting.labels, setting.items
    key = rng.choice(r, size=q, p=rng.dirichlet(np.ones(r)))
    ends = {"0": (0.0, 0.0), "1": (1.0, 1.0), "high": (0.7, 1.0), "any": (0.0, 1.0)}[
        setting.accuracy
    ]
    right = rng.random((q, n)) < rng.uniform(*ends, size=(r, n))[key]
    answers = np.where(right, key[:, None], (key[:, None] + rng.integers(1, r, size=(q, n))) % r)
    if setting.known == "some unanswered":
        answers[rng.random((q, n)) < 0.3] = -1
    allowed = np.ones((q, r), dtype=bool)
    if setting.known in {"some labels", "prevalence and labels"}:
        told = rng.random(q) < 0.3
        allowed[told] = np.eye(r, dtype=bool)[key[told]]
    if setting.known == "ruled-out labels":
        allowed[np.arange(q), (key + rng.integers(1, r, size=q)) % r] = False
    prevalence = {}
    if setting.known in {"prevalence", "prevalence and labels"}:
        for label in range(r - 1):
            true = int((key == label).sum())
            prevalence[str(label)] = (
                max(0, true - int(rng.integers(3))),
                min(q, true + int(rng.integers(3))),
            )
    sketch = Sketch.from_arrays(
        answers,
        labels=[str(v) for v in range(r)],
        classifiers=[f"c{i}" for i in range(n)],
        allowed=allowed,
    )
    return World(key, answers, sketch, prevalence)


# Each looks at one world: whether all that is said is true, how wide it is, and the promise.
Said = tuple[bool, float, str]


def _inside(world: World, given: dict[str, str] | None, *, exact: bool) -> Said:
    found = range_accuracies(
        world.sketch, given=given, prevalence=world.prevalence, exact=exact, time_limit=LIMIT
    )  # type: ignore[arg-type]
    held, widths = not found.diagnostics.get("contradiction"), []
    names = world.sketch.classifiers
    for i, name in enumerate(names):
        for label in (*range(len(world.sketch.labels)), None):
            what = (
                f"grade of {name}"
                if label is None
                else f"accuracy of {name} on {world.sketch.labels[label]}"
            )
            true, shown = world.right(i, label), found[what]
            if math.isnan(shown.low):
                held &= true is None
                continue
            widths.append(shown.high - shown.low)
            held &= true is None or shown.low - 1e-12 <= float(true) <= shown.high + 1e-12
    return held, float(np.mean(widths)) if widths else 1.0, found.guarantee.kind.label


def ranges(world: World) -> Said:
    return _inside(world, None, exact=True)


def outer_ranges(world: World) -> Said:
    return _inside(world, None, exact=False)


def trusting_ranges(world: World) -> Said:
    """The first classifier is trusted to be as good as it is."""
    true, items = world.right(0, None) or Fraction(0), len(world.key)
    claim = f"grade > {true - Fraction(1, 2 * items)}" if true > 0 else "grade >= 0"
    return _inside(world, {"c0": claim}, exact=True)


def _claim(world: World) -> Spec:
    """A claim that the key keeps, though barely: two different shares of at most Q items differ by
    1/Q² or more.
    """
    if not world.least:
        return Spec.grade(0, strict=False)
    return Spec.accuracy(world.least - Fraction(1, 2 * len(world.key) ** 2))


def alarm(world: World) -> Said:
    """A true claim raises no alarm; what is proved is checked again."""
    proof = prove_malfunction(
        world.sketch, _claim(world), prevalence=world.prevalence, time_limit=LIMIT
    )  # type: ignore[arg-type]
    false = prove_malfunction(
        world.sketch, Spec.accuracy(Fraction(9, 10)), prevalence=world.prevalence, time_limit=LIMIT
    )  # type: ignore[arg-type]
    broken = world.least <= Fraction(9, 10)
    held = (
        proof.status != "alarm"
        and (false.status != "alarm" or broken)
        and (proof.status != "consistent" or proof.verify())
    )
    return held, float(false.status == "alarm"), proof.guarantee.kind.label


def axioms(world: World) -> Said:
    uses = {
        c: dict(zip(world.sketch.labels, row, strict=True))
        for c, row in zip(world.sketch.classifiers, world.sketch.uses.tolist(), strict=True)
    }
    proof = prove_by_axioms(uses, _claim(world) if world.least else Spec.accuracy(0))
    false = prove_by_axioms(uses, Spec.accuracy(Fraction(9, 10)))
    held = (proof.status != "alarm" or world.least == 0) and (
        false.status != "alarm" or world.least <= Fraction(9, 10)
    )
    return held, float(false.status == "alarm"), proof.guarantee.kind.label


def largest_claim(world: World) -> Said:
    """Somebody is not better than the border: the least true accuracy does not lie above it."""
    found = range_threshold(
        world.sketch, denominator=100, prevalence=world.prevalence, time_limit=LIMIT
    )  # type: ignore[arg-type]
    (shown,) = found.ranges
    held = world.least <= 0 if math.isnan(shown.high) else float(world.least) <= shown.high + 1e-12
    return held, 0.0 if math.isnan(shown.high) else shown.high, found.guarantee.kind.label


def traced(world: World) -> Said:
    """The true prevalence of a label is not struck out by a claim that is true."""
    found = range_prevalence(
        world.sketch, _claim(world), label="0", prevalence=world.prevalence, time_limit=LIMIT
    )  # type: ignore[arg-type]
    true = int((world.key == 0).sum())
    held = any(r.low <= true <= r.high for r in found.ranges)
    return (
        held,
        sum(r.high - r.low + 1 for r in found.ranges) / (len(world.key) + 1),
        found.guarantee.kind.label,
    )


def _broken(world: World, claim: Fraction) -> set[str]:
    found = set()
    for i, name in enumerate(world.sketch.classifiers):
        rates = [world.right(i, label) for label in range(len(world.sketch.labels))]
        if any(rate is not None and rate <= claim for rate in rates):
            found.add(name)
    return found


def conflict(world: World) -> Said:
    """Somebody in the conflict breaks the claim; at least as many as said break it."""
    claim = Fraction(3, 4)
    proof = prove_conflict(
        world.sketch, Spec.accuracy(claim), prevalence=world.prevalence, time_limit=LIMIT
    )  # type: ignore[arg-type]
    least = range_violators(
        world.sketch, Spec.accuracy(claim), prevalence=world.prevalence, time_limit=LIMIT
    )  # type: ignore[arg-type]
    broken, core = _broken(world, claim), proof.diagnostics["conflict"]
    held = (not core or bool(broken & set(core))) and least.ranges[0].low <= len(broken)
    return held, float(bool(core)), proof.guarantee.kind.label


SAID: dict[str, Callable[[World], Said]] = {
    "range_accuracies": ranges,
    "range_accuracies, outer": outer_ranges,
    "range_accuracies, one trusted": trusting_ranges,
    "prove_malfunction": alarm,
    "prove_by_axioms": axioms,
    "range_threshold": largest_claim,
    "range_prevalence": traced,
    "prove_conflict": conflict,
}
ONE_ALONE = {
    "range_accuracies",
    "range_accuracies, outer",
    "range_accuracies, one trusted",
    "range_prevalence",
    "range_threshold",
}


CHEAP = {"prove_malfunction", "prove_by_axioms", "prove_conflict"}


def _measured(setting: Setting, names: tuple[str, ...], worlds: int) -> list[Row]:
    rows = []
    for name in names:
        started, seen, rng = time.perf_counter(), Seen(), seeded(setting.name)
        for _ in range(
            fewer(worlds, 5, 50)
            if name in CHEAP
            else fewer(worlds, 50 if setting.items <= 12 else 100, 10)
        ):
            held, width, promise = SAID[name](draw(setting, rng))
            seen.add(held, width, promise)
        rows.append(
            row_of(
                seen,
                part="logic",
                setting=setting.name,
                method=name,
                interval="logical",
                n=setting.items,
                started=started,
                nominal=1.0,
            )
        )
    return rows


def _names(setting: Setting) -> tuple[str, ...]:
    """What can be asked in a setting: alarms need two classifiers or known items, the axioms
    complete answers and nothing known.
    """
    found = []
    for name in SAID:
        if setting.classifiers == 1 and name not in ONE_ALONE:
            continue
        if setting.known == "some unanswered" and name == "prove_malfunction" and setting.items < 5:
            continue
        if name == "prove_by_axioms" and setting.known != "nothing":
            continue
        if name == "range_accuracies, outer" and setting.items < 20:
            continue
        if name == "range_prevalence" and setting.items > 200:  # every prevalence is asked about
            continue
        found.append(name)
    return tuple(found)


def settings() -> Iterator[Setting]:
    for n, r, q in itertools.product((1, 2, 3), (2, 3), (1, 2, 10)):
        yield Setting(classifiers=n, labels=r, items=q)
    for n, r, q in ((2, 2, 100), (3, 2, 40), (2, 4, 30), (5, 2, 30), (2, 10, 20), (2, 2, 2000)):
        yield Setting(classifiers=n, labels=r, items=q)
    for accuracy, (n, r, q) in itertools.product(
        ("0", "1", "high"), ((2, 2, 10), (3, 2, 30), (2, 3, 10))
    ):
        yield Setting(classifiers=n, labels=r, items=q, accuracy=accuracy)
    known = (
        "some labels",
        "ruled-out labels",
        "prevalence",
        "prevalence and labels",
        "some unanswered",
    )
    for what, (n, r, q) in itertools.product(
        known, ((2, 2, 10), (3, 2, 25), (2, 3, 12), (1, 2, 20))
    ):
        yield Setting(classifiers=n, labels=r, items=q, known=what)


def cases() -> list[Case]:
    """Every case of this file."""
    return [
        Case(
            part="logic",
            name=s.name,
            quick=(s.classifiers, s.labels, s.items, s.accuracy) == (2, 2, 10, "any"),
            measured=lambda worlds, s=s: _measured(s, _names(s), worlds),
        )
        for s in settings()
    ]
