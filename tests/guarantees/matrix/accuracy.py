"""Accuracy of one system: the settings of the tests, and a grid over accuracies, numbers of labels
and of classes with all the ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tests.guarantees.matrix.record import Case, fewer
from tests.guarantees.measure import Known, Row, measure, measure_stream
from tests.guarantees.settings import (
    COMPLEMENTARY,
    RECORD,
    SCORES,
    USUAL,
    Pair,
    Setting,
    _asymmetric,
    _confusion,
    all_settings,
)
from tests.guarantees.streams import Stream, _complementary, _ordinary, _questions, all_streams
from tests.guarantees.worlds import (
    Aim,
    Group,
    World,
    aimed,
    aimed_elsewhere,
    biased,
    finite,
    gaps,
    groups,
    noisy,
    plain,
    questions,
)

if TYPE_CHECKING:
    from collections.abc import Callable

RATES = (0.0, 0.02, 0.5, 0.98, 1.0)
CLASSES = (2, 4, 10, 100)
SIZES = (1, 2, 10, 100, 2000)
ORDINARY: tuple[Pair, ...] = (("hoeffding", "ordinary"), ("bernstein", "ordinary"))
NORMAL: tuple[Pair, ...] = (("wald", "ml"),)
WALD_SCORES: tuple[Pair, ...] = (("wald", "scores"),)
# How the settings of the tests are called, and the part that they belong to; the first that fits.
PLACES = (
    ("two systems", "comparisons"),
    ("strata", "strata and weights"),
    ("weights", "strata and weights"),
    ("mixed", "strata and weights"),
    ("asymmetric", "biased labels"),
    ("aimed", "targeted questions"),
    ("wrong verdicts", "wrong verdicts"),
    ("finite population", "finite populations"),
)


def part_of(name: str) -> str:
    if "ruled out" in name:
        return "several ruled out"
    if "answered" in name:
        return "no answer"
    return next((part for start, part in PLACES if name.startswith(start)), "accuracy")


def _case(part: str, setting: Setting, *, divisor: int = 1, quick: bool = False) -> Case:
    def rows(worlds: int) -> list[Row]:
        n = fewer(worlds, divisor, 300)
        return [
            measure(setting, interval, method, worlds=n, part=part)
            for interval, method in setting.pairs
        ]

    return Case(part=part, name=setting.name, measured=rows, quick=quick)


def _grid(
    part: str, name: str, settings: Sequence[Setting], *, divisor: int = 1, quick: bool = False
) -> Case:
    """Settings that differ in the accuracy alone: what was estimated for one is known for the
    others.
    """

    def rows(worlds: int) -> list[Row]:
        known: Known = {}
        n = fewer(worlds, divisor, 300)
        return [
            measure(s, interval, method, worlds=n, part=part, known=known)
            for s in settings
            for interval, method in s.pairs
        ]

    return Case(part=part, name=name, measured=rows, quick=quick)


def _vary(
    part: str,
    name: str,
    pairs: tuple[Pair, ...],
    world: Callable[[float], World],
    *,
    divisor: int = 1,
    quick: bool = False,
) -> Case:
    settings = [
        Setting(name=name.replace("A=*", f"A={a:g}"), world=world(a), pairs=pairs) for a in RATES
    ]
    return _grid(part, name, settings, divisor=divisor, quick=quick)


def _tested() -> Iterator[Case]:
    """The settings of the tests. Those with very many different worlds are drawn less often than in
    the tests.
    """
    for setting in all_settings():
        slow = len(setting.pairs) >= 10 or "beyond" in setting.name
        yield _case(part_of(setting.name), setting, divisor=2 if slow else 1)


def _plain() -> Iterator[Case]:
    for n in SIZES:
        name = f"K=4 A=* n_o={n}, ordinary"
        yield _vary(
            "accuracy",
            name,
            USUAL + RECORD + (ORDINARY if n > 1 else ()),
            lambda a, n=n: plain(4, a, n, 0),
            quick=n == 10,
        )
    for k, n in itertools.product(CLASSES, SIZES):
        pairs = USUAL + NORMAL + (COMPLEMENTARY if n > 1 else ())
        yield _vary(
            "accuracy",
            f"K={k} A=* n_c={n}, complementary",
            pairs,
            lambda a, k=k, n=n: plain(k, a, 0, n),
            quick=(k, n) == (10, 10),
        )
    for k, n in itertools.product(CLASSES, (1, 10, 100)):
        yield _vary(
            "accuracy",
            f"K={k} A=* n={n}, questions",
            USUAL + NORMAL,
            lambda a, k=k, n=n: questions(k, a, n),
            quick=(k, n) == (4, 10),
        )
    for k in (4, 10):
        yield _case(
            "accuracy",
            Setting(name=f"K={k} A=0.5 n=2000, questions", world=questions(k, 0.5, 2000)),
            divisor=4,
        )
    for confidence in (0.5, 0.8, 0.99, 0.999):
        settings = [
            Setting(
                name=f"K=10 A={a:g} n_c=50 at {100 * confidence:g} %, complementary",
                world=plain(10, a, 0, 50),
                confidence=confidence,
            )
            for a in RATES
        ]
        yield _grid("accuracy", f"K=10 A=* n_c=50 at {100 * confidence:g} %", settings)


def _several() -> Iterator[Case]:
    for (k, m), n in itertools.product(
        ((4, 2), (4, 3), (10, 5), (10, 9), (100, 50), (100, 99)), (1, 10, 100)
    ):
        name = f"K={k} A=* n_c={n}, {m} of {k - 1} ruled out"
        yield _vary(
            "several ruled out",
            name,
            USUAL,
            lambda a, k=k, m=m, n=n: plain(k, a, 0, n, m=m),
            quick=(k, m, n) == (10, 5, 10),
        )


def _no_answer() -> Iterator[Case]:
    for k, share, a, beyond in itertools.product(
        (4, 100), (0.05, 0.5, 0.98), (0.0, 0.5, 0.98), (False, True)
    ):
        where = "beyond" if beyond else "of 400"
        name = f"K={k} A={a:g} of {share:.0%} answered, n=50 {where}"
        world = gaps(k, a, share, 50 if beyond else 400, 50, beyond=beyond)
        yield _case(
            "no answer",
            Setting(name=name, world=world),
            divisor=2,
            quick=(k, share, a) == (4, 0.5, 0.5),
        )
    for n, share in itertools.product((1, 2), (0.0, 0.5, 1.0)):
        yield _case(
            "no answer",
            Setting(
                name=f"K=4 A=0.5 of {share:.0%} answered, n={n} of 20",
                world=gaps(4, 0.5, share, 20, n, beyond=False),
            ),
        )


def _strata() -> Iterator[Case]:
    part = "strata and weights"
    for a, b, n in itertools.product((0.0, 0.5, 1.0), (0.0, 0.98), (2, 60)):
        two = (Group(4, a, 0.3, stratum="a"), Group(4, b, 0.7, stratum="b"))
        yield _case(
            part,
            Setting(
                name=f"strata of 30 and 70 %, A={a:g}/{b:g}, n={n} questions", world=groups(two, n)
            ),
            divisor=3,
        )
    for heavy, n in itertools.product((2.0, 100.0), (10, 200)):
        for a, b in ((0.98, 0.02), (0.5, 1.0)):
            two = (Group(4, a, 0.9), Group(4, b, 0.1, weight=heavy))
            name = f"weights 1/{heavy:g}, A={a:g}/{b:g}, n={n} questions"
            yield _case(
                part,
                Setting(name=name, world=groups(two, n)),
                divisor=3,
                quick=(heavy, n, a) == (100.0, 10, 0.5),
            )
    for ordinary in (True, False):
        four = tuple(
            Group(k, a, 0.25, stratum=str(k))
            for k, a in ((2, 1.0), (4, 0.5), (10, 0.98), (100, 0.02))
        )
        name = f"four strata of K=2/4/10/100, n=200 {'ordinary' if ordinary else 'questions'}"
        yield _case(part, Setting(name=name, world=groups(four, 200, ordinary=ordinary)), divisor=4)


def _targeted() -> Iterator[Case]:
    part = "targeted questions"
    for k, n in itertools.product((2, 10, 100), (1, 10, 100)):
        name = f"aimed at this system, K={k} A=* n={n}, 5 % uniform"
        yield _vary(
            part, name, USUAL, lambda a, k=k, n=n: aimed(k, a, n, 0.05), quick=(k, n) == (10, 10)
        )
    tiny = 0.1 / 100  # ε/K of a question that is nearly always about another class
    for n, (a, b) in itertools.product(
        (1, 50, 2000), ((0.0, 0.0), (0.02, 1.0), (0.5, 0.5), (1.0, 0.98), (1.0, 1.0))
    ):
        aims = (Aim(0.901, a, 0.5), Aim(tiny, b, 0.5))
        name = f"propensity 0.001 on half of the items, K=100 A={a:g}/{b:g} n={n}"
        yield _case(
            part,
            Setting(name=name, world=aimed_elsewhere(100, n, aims), pairs=SCORES + WALD_SCORES),
            quick=(n, a) == (50, 1.0),
        )


def _noisy() -> Iterator[Case]:
    for k, (no, yes) in itertools.product((4, 10, 100), ((0.05, 0.05), (0.3, 0.1))):
        name = f"wrong verdicts {100 * no:g} % no, {100 * yes:g} % yes, K={k} A=* n=300"
        yield _vary(
            "wrong verdicts",
            name,
            USUAL,
            lambda a, k=k, no=no, yes=yes: noisy(k, a, 300, no, yes),
            divisor=3,
        )
    # With fewer labels often no yes is heard, and the estimator refuses, since it cannot tell the
    # protocol.
    name = "wrong verdicts 20 % no, 20 % yes, K=4 A=* n=30"
    yield _vary(
        "wrong verdicts", name, USUAL, lambda a: noisy(4, a, 30, 0.2, 0.2), divisor=2, quick=True
    )


def _biased() -> Iterator[Case]:
    for k, n in ((3, 1), (3, 50), (10, 1), (10, 20), (4, 2000)):
        name = f"asymmetric T, K={k} A=* n={n}, ruled out"
        table = _asymmetric(k)
        yield _vary(
            "biased labels",
            name,
            SCORES + WALD_SCORES,
            lambda a, k=k, n=n, t=table: biased(t, _confusion(k, a), n),
            divisor=4,
            quick=(k, n) == (3, 1),
        )


def _finite() -> Iterator[Case]:
    for size, labels in ((1, 1), (2, 1), (10, 10), (20, 15), (100, 99), (500, 60)):
        for right in sorted({0, 1, size // 2, size}):
            setting = Setting(
                name=f"finite population of {size}, {right} right, n_o={labels}",
                world=finite(4, right, size, labels, 0),
            )
            yield _case("finite populations", setting, quick=(size, right) == (10, 5))


def _streams() -> Iterator[Case]:
    more = [
        Stream(name=f"K={k} A={a:g}, 200 {what}", truth=a, n=200, outcomes=tuple(make(k, a)))
        for k, a in ((2, 0.0), (2, 0.5), (4, 0.98), (10, 0.02), (100, 0.5), (100, 1.0))
        for what, make in (
            ("ordinary", lambda k, a: _ordinary(k, a, 1.0)),
            ("complementary", lambda k, a: _complementary(k, a, 1.0)),
            ("questions", _questions),
        )
        if what != "ordinary" or k in {2, 4}
    ]
    for stream in (*all_streams(), *more):
        yield Case(
            part="every look",
            name=stream.name,
            quick=stream.name == "K=4 A=0.98, 200 questions",
            measured=lambda worlds, s=stream: [
                measure_stream(s, i, worlds=worlds) for i in s.intervals
            ],
        )


def cases() -> list[Case]:
    """Every case of this file."""
    made = (
        _tested,
        _plain,
        _several,
        _no_answer,
        _strata,
        _targeted,
        _noisy,
        _biased,
        _finite,
        _streams,
    )
    return [case for make in made for case in make()]
