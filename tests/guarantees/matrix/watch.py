"""The watch of a folder: limits that hold at every look, while labels of every kind come in."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from noracle.counts import Tally
from noracle.oversight.watch.stream import sequence_limits, tally_of
from tests.guarantees.matrix.record import Case, Seen, fewer, row_of, seeded
from tests.guarantees.measure import Row

LOOKS = (1, 2, 5, 10, 20, 50, 100, 200)


class Items(NamedTuple):
    """A kind of items: its share, number of classes, accuracy, share without an answer, and the
    chance that the answer is asked about.

    ``aim`` None is one uniform question; 0 says the true class; ``ruled`` classes that are not true
    are ruled out instead of a question.
    """

    share: float
    k: int
    accuracy: float
    silent: float = 0.0
    aim: float | None = None
    ruled: int = 0


def outcomes(kinds: Sequence[Items], *, recorded: bool) -> dict[Tally, float]:
    """What one label can say, with its chance; the true class is 0 and a wrong answer is class 1."""
    found: Counter[Tally] = Counter()
    for kind in kinds:
        answers = {
            "0": (1 - kind.silent) * kind.accuracy,
            "1": (1 - kind.silent) * (1 - kind.accuracy),
            None: kind.silent,
        }
        for answer, share in answers.items():
            for rows, chance in _said(kind, answer, recorded=recorded):
                if share * chance > 0:
                    tally = tally_of(
                        "s", answer, rows, n_classes=kind.k, recorded=recorded, drop=False, item="1"
                    )
                    assert tally is not None
                    found[tally] += kind.share * share * chance  # type: ignore[assignment]
    return dict(found)


def _said(
    kind: Items, answer: str | None, *, recorded: bool
) -> Iterator[tuple[list[list[object]], float]]:
    """Judgements of one item with their chances; classes that are neither true nor the answer are
    all alike.
    """
    k = kind.k
    if kind.ruled:
        with_one = kind.ruled / (k - 1)  # class 1 is among those ruled out
        others = [str(c) for c in range(2, k)]
        yield [[c, "no", None] for c in ["1", *others[: kind.ruled - 1]]], with_one
        if with_one < 1:
            yield [[c, "no", None] for c in others[: kind.ruled]], 1 - with_one
        return
    if kind.aim == 0:
        yield [["0", "yes", None]], 1.0
        return
    aimed = 1 / k if kind.aim is None or answer is None else kind.aim
    rest = (1 - aimed) / (k - 1)
    for c in range(min(k, 3)):
        chance = (
            aimed
            if answer is not None and str(c) == answer
            else rest
            if answer is not None
            else 1 / k
        )
        times = k - 2 if c == 2 else 1
        yield [[str(c), "yes" if c == 0 else "no", chance if recorded else None]], times * chance


def _watched(name: str, kinds: Sequence[Items], worlds: int, *, recorded: bool) -> list[Row]:
    made = outcomes(kinds, recorded=recorded)
    tallies, chances = list(made), [p / sum(made.values()) for p in made.values()]
    truth = sum(i.share * (1 - i.silent) * i.accuracy for i in kinds)
    several = len({i.k for i in kinds}) > 1
    most = max(i.k for i in kinds) if several else None
    started, seen = time.perf_counter(), Seen()
    for codes in seeded("watch", name).choice(len(chances), size=(worlds, LOOKS[-1]), p=chances):
        held, width = True, 1.0
        for look in LOOKS:
            counted = Counter(tallies[c] for c in codes[:look].tolist())
            limits = sequence_limits(counted, error=0.05, most_classes=most)
            held &= limits.low - 1e-12 <= truth <= limits.high + 1e-12
            width = limits.high - limits.low
        seen.add(held, width)
    return [
        row_of(
            seen,
            part="watch",
            setting=f"{name}, looked at {len(LOOKS)} times",
            method="watch",
            interval="betting",
            n=LOOKS[-1],
            started=started,
            promise="finite-sample",
        )
    ]


def cases() -> list[Case]:
    """Every case of this file."""
    settings: dict[str, tuple[tuple[Items, ...], bool]] = {}
    for k, a in ((2, 0.5), (4, 0.0), (4, 0.5), (4, 1.0), (10, 0.98), (100, 0.02)):
        settings[f"K={k} A={a:g} questions"] = (Items(1.0, k, a),), False
        settings[f"K={k} A={a:g} ordinary"] = (Items(1.0, k, a, aim=0.0),), False
        settings[f"K={k} A={a:g} aimed at the system, recorded"] = (
            (Items(1.0, k, a, aim=0.9 + 0.1 / k),),
            True,
        )
    settings |= {
        "K=10 A=0.7 of 60 % answered, questions": ((Items(1.0, 10, 0.7, silent=0.4),), False),
        "K=10 A=0.7 of 60 % answered, recorded": (
            (Items(1.0, 10, 0.7, silent=0.4, aim=0.5),),
            True,
        ),
        "K=5 A=0.6, two ruled out": ((Items(1.0, 5, 0.6, ruled=2),), False),
        "K=4 A=0.98, all ruled out": ((Items(1.0, 4, 0.98, ruled=3),), False),
        "mixed K=3/50 A=0.95/0.2 questions": ((Items(0.5, 3, 0.95), Items(0.5, 50, 0.2)), False),
        "mixed K=3/50 A=0.2/0.95 questions": ((Items(0.5, 3, 0.2), Items(0.5, 50, 0.95)), False),
        "mixed K=2/100 A=1/0 questions": ((Items(0.5, 2, 1.0), Items(0.5, 100, 0.0)), False),
        "propensity 0.001 on half of the items, A=0.02/1, recorded": (
            (Items(0.5, 100, 0.02, aim=0.9), Items(0.5, 100, 1.0, aim=0.001)),
            True,
        ),
        "propensity 0.001 on half of the items, A=1/0.5, recorded": (
            (Items(0.5, 100, 1.0, aim=0.9), Items(0.5, 100, 0.5, aim=0.001)),
            True,
        ),
    }
    return [
        Case(
            part="watch",
            name=name,
            quick=name == "mixed K=3/50 A=0.95/0.2 questions",
            measured=lambda worlds, m=name, v=value: _watched(
                m, v[0], fewer(worlds, 4, 100), recorded=v[1]
            ),
        )
        for name, value in settings.items()
    ]
