"""The table of settings in which coverage is measured; one row a kind of world, with the intervals
that apply there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from tests.guarantees.widths import LIMITS
from tests.guarantees.worlds import (
    Aim,
    Duel,
    Group,
    World,
    aimed,
    aimed_elsewhere,
    biased,
    duels,
    finite,
    gaps,
    groups,
    noisy,
    noisy_by_class,
    plain,
    questions,
    two_m,
)

Pair = tuple[str, str]  # interval, method
USUAL: tuple[Pair, ...] = (("exact", "ml"), ("anytime", "ml"), ("betting", "scores"))
SCORES: tuple[Pair, ...] = (("betting", "scores"),)
RECORD: tuple[Pair, ...] = (("wald", "ml"), ("profile", "ml"))
COMPLEMENTARY: tuple[Pair, ...] = (
    ("hoeffding", "complementary"),
    ("bernstein", "complementary"),
    ("theorem2", "complementary"),
)
FIXED_WEIGHT: tuple[Pair, ...] = (
    ("hoeffding", "weighted"),
    ("bernstein", "weighted"),
    ("proposition3", "weighted"),
    ("proposition3", "ivw"),
    ("theorem4", "weighted"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """One row: a world and the intervals to measure in it."""

    name: str
    world: World
    pairs: tuple[Pair, ...] = USUAL
    confidence: float = 0.95
    quick: bool = False

    @property
    def limits(self) -> Mapping[str, float]:
        """Mean widths that must not be exceeded, so that [0, 1] would fail."""
        return LIMITS.get(self.name, {})


def _asymmetric(k: int) -> np.ndarray:
    """A transition matrix that leans to the next class, differently for every truth."""
    lean = np.array(
        [
            [((j - i) % k) ** (1 + 0.5 * i / k) if i != j else 0.0 for j in range(k)]
            for i in range(k)
        ]
    )
    return lean / lean.sum(axis=1, keepdims=True)


def _confusion(k: int, accuracy: float) -> np.ndarray:
    """P(truth, answer): truths are unequally frequent, wrong answers lean to the class before."""
    prior = np.arange(1, k + 1) / (k * (k + 1) / 2)
    wrong = np.array(
        [[(1.0 / (1 + (i - j) % k)) if i != j else 0.0 for j in range(k)] for i in range(k)]
    )
    wrong /= wrong.sum(axis=1, keepdims=True)
    return prior[:, None] * (accuracy * np.eye(k) + (1 - accuracy) * wrong)


def _two(k1: int, a1: float, k2: int, a2: float, share: float = 0.5) -> tuple[Group, ...]:
    return Group(k1, a1, share), Group(k2, a2, 1 - share)


_PLAIN: tuple[tuple[int, float, int, int], ...] = (
    # one label, none, few
    (4, 0.5, 0, 0),
    (4, 0.5, 1, 0),
    (4, 0.5, 0, 1),
    (3, 0.2, 1, 1),
    (50, 0.5, 0, 1),
    (10, 0.98, 2, 5),
    (5, 0.02, 5, 5),
    # the ends
    (3, 0.0, 20, 20),
    (10, 0.0, 0, 100),
    (50, 0.0, 30, 300),
    (4, 1.0, 20, 20),
    (16, 1.0, 0, 300),
    (5, 1.0, 300, 0),
    # ordinary only
    (4, 0.78, 300, 0),
    (3, 0.02, 120, 0),
    (10, 0.98, 120, 0),
    # complementary only
    (3, 0.2, 0, 60),
    (4, 0.98, 0, 120),
    (5, 0.95, 0, 300),
    (10, 0.5, 0, 300),
    (10, 0.95, 0, 300),
    (16, 0.78, 0, 1000),
    (50, 0.5, 0, 3000),
    (50, 0.98, 0, 1000),
    # both
    (3, 0.5, 10, 30),
    (3, 0.95, 50, 150),
    (4, 0.02, 30, 200),
    (4, 0.78, 60, 240),
    (5, 0.5, 30, 120),
    (5, 0.98, 100, 200),
    (10, 0.2, 50, 450),
    (10, 0.78, 30, 270),
    (16, 0.5, 20, 300),
    (16, 0.95, 60, 600),
    (50, 0.2, 20, 980),
    (50, 0.78, 60, 1000),
    (3, 0.78, 1000, 2000),
)


def _plain_settings() -> list[Setting]:
    quick = {(4, 0.5, 0, 1), (10, 0.0, 0, 100), (10, 0.95, 0, 300), (5, 0.5, 30, 120)}
    rows = []
    for k, accuracy, n_o, n_c in _PLAIN:
        pairs = USUAL + (RECORD if n_o + n_c else ())
        pairs += (
            COMPLEMENTARY
            if n_c > 1 and not n_o
            else FIXED_WEIGHT
            if n_c > 1 and n_o > 1 and n_o + n_c <= 500
            else ()
        )
        name = f"K={k} A={accuracy:g} n_o={n_o} n_c={n_c}"
        rows.append(
            Setting(
                name=name,
                world=plain(k, accuracy, n_o, n_c),
                pairs=pairs,
                quick=(k, accuracy, n_o, n_c) in quick,
            )
        )
    return rows


def all_settings() -> tuple[Setting, ...]:
    """Every row of the table."""
    t4, t3 = _asymmetric(4), _asymmetric(3)
    rows = _plain_settings()
    rows += [
        Setting(name="K=10 A=0.78 n_c=200, 3 ruled out", world=plain(10, 0.78, 0, 200, m=3)),
        Setting(name="K=5 A=0.2 n_o=20 n_c=100, 2 ruled out", world=plain(5, 0.2, 20, 100, m=2)),
        Setting(name="K=4 A=0.95 n_c=60, all 3 ruled out", world=plain(4, 0.95, 0, 60, m=3)),
        Setting(
            name="K=6 A=0.6, 1 and 3 ruled out, n=80 each, n_o=30",
            world=two_m(6, 0.6, 80, (1, 3), 30),
        ),
        Setting(name="K=4 A=0.78 n=200 questions", world=questions(4, 0.78, 200)),
        Setting(name="K=10 A=0.98 n=300 questions", world=questions(10, 0.98, 300)),
        Setting(name="K=10 A=0.5 n=1 question", world=questions(10, 0.5, 1)),
        Setting(
            name="K=4 A=0.78 of 90 % answered, n=200 of 1,000",
            world=gaps(4, 0.78, 0.9, 1000, 200, beyond=False),
            quick=True,
        ),
        Setting(
            name="K=10 A=0.5 of 70 % answered, n=300 of 2,000",
            world=gaps(10, 0.5, 0.7, 2000, 300, beyond=False),
        ),
        Setting(
            name="K=4 A=0.95 of 70 % answered, n=150, beyond",
            world=gaps(4, 0.95, 0.7, 150, 150, beyond=True),
        ),
        Setting(
            name="K=5 A=0.2 of 98 % answered, n=60, beyond",
            world=gaps(5, 0.2, 0.98, 60, 60, beyond=True),
        ),
        Setting(
            name="K=3 A=1 of 80 % answered, n=40, beyond",
            world=gaps(3, 1.0, 0.8, 40, 40, beyond=True),
        ),
        Setting(
            name="mixed K=3/50 A=0.95/0.2 n=400 questions",
            world=groups(_two(3, 0.95, 50, 0.2), 400),
            quick=True,
        ),
        Setting(
            name="mixed K=3/50 A=0.2/0.95 n=1,000 questions",
            world=groups(_two(3, 0.2, 50, 0.95), 1000),
        ),
        Setting(
            name="mixed K=3/50 A=0.95/0.2 n=1,000 ordinary by questions",
            world=groups(_two(3, 0.95, 50, 0.2), 1000),
            pairs=(("betting", "ordinary"), ("exact", "ordinary")),
        ),
        Setting(
            name="mixed K=3/50 A=0.95/0.2 n=2,000 complementary by questions",
            world=groups(_two(3, 0.95, 50, 0.2), 2000),
            pairs=(("betting", "complementary"), ("exact", "complementary")),
        ),
        Setting(
            name="mixed K=4/10 A=1/0 n=100 ordinary, beyond",
            world=groups(_two(4, 1.0, 10, 0.0), 100, ordinary=True, beyond=True),
            quick=True,
        ),
        Setting(
            name="mixed K=4/10 A=0.9/0.5 n=150 questions, beyond",
            world=groups(_two(4, 0.9, 10, 0.5), 150, beyond=True),
        ),
        Setting(
            name="strata of 2 and 98 %, A=0.02/0.95, n=120",
            world=groups(
                (Group(5, 0.02, 0.02, stratum="rare"), Group(5, 0.95, 0.98, stratum="usual")), 120
            ),
        ),
        Setting(
            name="strata labelled unequally, 10 and 200",
            world=groups(
                (Group(4, 0.3, 0.5, stratum="a"), Group(4, 0.9, 0.5, stratum="b")),
                210,
                fixed=(10, 200),
            ),
        ),
        Setting(
            name="strata, one without a label",
            world=groups(
                (Group(4, 0.9, 0.5, stratum="a"), Group(4, 0.3, 0.5, stratum="b")),
                100,
                fixed=(100, 0),
            ),
        ),
        Setting(
            name="weights 1/20, A=0.9/0.2, n=300 ordinary",
            world=groups((Group(4, 0.9, 0.9), Group(4, 0.2, 0.1, weight=20.0)), 300, ordinary=True),
        ),
        Setting(
            name="weights 1/5, A=0.5/0.98, n=300 questions",
            world=groups((Group(4, 0.5, 0.7), Group(4, 0.98, 0.3, weight=5.0)), 300),
        ),
        Setting(
            name="asymmetric T, K=4 A=0.7 n=300",
            world=biased(t4, _confusion(4, 0.7), 300),
            pairs=SCORES,
            quick=True,
        ),
        Setting(
            name="asymmetric T, K=3 A=0.95 n=100",
            world=biased(t3, _confusion(3, 0.95), 100),
            pairs=SCORES,
        ),
        Setting(
            name="asymmetric T, K=4 A=0.5 n=1,000 and n_o=50",
            world=biased(t4, _confusion(4, 0.5), 1000, 50),
            pairs=SCORES,
        ),
        Setting(
            name="asymmetric T, K=3 A=1 n=50",
            world=biased(t3, _confusion(3, 1.0), 50),
            pairs=SCORES,
        ),
        Setting(name="aimed at this system, K=10 A=0.78 n=200", world=aimed(10, 0.78, 200, 0.05)),
        Setting(name="aimed at this system, K=4 A=0.98 n=60", world=aimed(4, 0.98, 60, 0.3)),
        Setting(name="aimed at this system, K=10 A=0.02 n=3", world=aimed(10, 0.02, 3, 0.1)),
        Setting(
            name="aimed at another system, K=10 A=0.54 n=400",
            pairs=SCORES,
            quick=True,
            world=aimed_elsewhere(10, 400, (Aim(0.905, 0.85, 0.6), Aim(0.01, 0.075, 0.4))),
        ),
        Setting(
            name="aimed at another system, right where it differs, K=4 n=300",
            pairs=SCORES,
            world=aimed_elsewhere(4, 300, (Aim(0.775, 0.3, 0.5), Aim(0.075, 0.9, 0.5))),
        ),
        Setting(
            name="aimed at another system that answers 60 %, K=10 n=400",
            pairs=SCORES,
            world=aimed_elsewhere(
                10, 400, (Aim(0.905, 0.9, 0.5), Aim(0.01, 0.5, 0.1), Aim(0.1, 0.1, 0.4))
            ),
        ),
        Setting(
            name="aimed by votes of three, all different on 30 %, K=3 n=400",
            pairs=SCORES,
            world=aimed_elsewhere(3, 400, (Aim(0.9 + 0.1 / 3, 0.95, 0.7), Aim(1 / 3, 1 / 3, 0.3))),
        ),
        Setting(
            name="wrong verdicts 5 % no, 10 % yes, K=4 A=0.78 n=800",
            world=noisy(4, 0.78, 800, 0.05, 0.10),
        ),
        Setting(
            name="wrong verdicts 10 % no, 2 % yes, K=10 A=0.95 n=1,000",
            world=noisy(10, 0.95, 1000, 0.10, 0.02),
        ),
        Setting(
            name="wrong verdicts by class, K=3 n=900",
            pairs=SCORES,
            world=noisy_by_class(3, (0.9, 0.6, 0.3), 900, (0.0, 0.1, 0.2), (0.2, 0.1, 0.0)),
        ),
        Setting(name="finite population of 60, 45 right, n_o=40", world=finite(4, 45, 60, 40, 0)),
        Setting(
            name="finite population of 300, 150 right, n_o=50 n_c=240",
            world=finite(5, 150, 300, 50, 240),
        ),
        Setting(
            name="two systems alike, K=4 n=300 questions",
            world=duels((Duel(4, 1.0, 0.6, 0.1, 0.1, 0.1),), 300),
            pairs=(("betting", "compare"), ("wald", "compare")),
        ),
        Setting(
            name="two systems, each better on one of K=3/50, n=1,000",
            pairs=(("betting", "compare"),),
            quick=True,
            world=duels((Duel(3, 0.5, 0.3, 0.5, 0.1), Duel(50, 0.5, 0.2, 0.1, 0.6)), 1000),
        ),
        Setting(name="K=10 A=0.78 n_c=300 at 80 %", world=plain(10, 0.78, 0, 300), confidence=0.8),
        Setting(
            name="K=4 A=0.5 n_o=20 n_c=40 at 99 %", world=plain(4, 0.5, 20, 40), confidence=0.99
        ),
    ]
    return tuple(rows)
