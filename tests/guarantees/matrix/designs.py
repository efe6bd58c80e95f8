"""Accuracy of one system where the design is not one random sample of one kind of item: rates,
propensities, weights, populations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tests.guarantees.matrix.accuracy import RATES
from tests.guarantees.matrix.record import Case, fewer
from tests.guarantees.matrix.samples import (
    ORDINARY,
    POLICIES,
    QUESTIONS,
    RULED_OUT,
    Items,
    Labels,
    asked,
    drawn,
    part,
    sampled,
)
from tests.guarantees.measure import Known, Row, measure
from tests.guarantees.settings import Pair, Setting
from tests.guarantees.worlds import World, plain, questions

DEFAULT: Pair = ("auto", "default")
BETTING: Pair = ("betting", "scores")
FIXED: Pair = ("fixed-n", "scores")
WALD: Pair = ("wald", "ml")
WALD_SCORES: Pair = ("wald", "scores")
EVERY_LOOK: Pair = ("anytime", "ml")
KINDS = {"ordinary": ORDINARY, "ruled out": RULED_OUT, "questions": QUESTIONS}
VOTES = tuple(
    0.9 * share / 3 + 0.1 / 3 for share in (3, 2, 1, 0)
)  # three votes, a tenth of the questions uniform: 1 vote is 1/3


def _case(
    part: str,
    name: str,
    settings: Sequence[tuple[str, World]],
    pairs: Sequence[Pair],
    *,
    divisor: int = 4,
    quick: bool = False,
) -> Case:
    """Settings that share a design, so that limits found for one are known for the others; their
    names differ in the accuracies.
    """

    def rows(worlds: int) -> list[Row]:
        known: Known = {}
        made = [Setting(name=named, world=world, pairs=tuple(pairs)) for named, world in settings]
        n = fewer(worlds, divisor, 200)
        return [
            measure(s, interval, method, worlds=n, part=part, known=known)
            for s in made
            for interval, method in s.pairs
        ]

    return Case(part=part, name=name, measured=rows, quick=quick)


# -------------------------------------------------------------------------------------------------------
# unequal rates


def _unequal() -> Iterator[Case]:
    """Two strata that were labelled at different rates; which one is the easy one changes."""
    designs = {
        "16 of 40 and 2 of 40": (40, 16, 40, 2),
        "80 of 2,000 and 20 of 2,000": (2000, 80, 2000, 20),
        "1 of 30 and 40 of 70": (30, 1, 70, 40),
        "30 of 300 and none of 100": (300, 30, 100, 0),
        "all 10 and 10 of 90": (10, 10, 90, 10),
    }
    rates = ((0.9, 0.4), (0.0, 1.0), (0.98, 0.02), (0.5, 0.5))
    for (design, (n1, l1, n2, l2)), (kind, labels) in itertools.product(
        designs.items(), KINDS.items()
    ):
        settings = [
            (
                f"strata labelled {design}, A={a:g}/{b:g}, K=4 {kind}",
                sampled(
                    [
                        part(4, n1, a, stratum="a", labels=labels),
                        part(4, n2, b, stratum="b", labels=labels),
                    ],
                    {"a": l1, "b": l2},
                ),
            )
            for a, b in rates
        ]
        yield _case(
            "unequal rates",
            f"{design}, {kind}",
            settings,
            (DEFAULT, BETTING, WALD),
            quick=design.startswith("16") and kind == "ordinary",
        )
    for size, (labelled, kind) in itertools.product(
        (5, 50), (((1, 4, 2), "ordinary"), ((1, 4, 2), "questions"))
    ):
        three = [
            part(4, 10 * size, 0.9, stratum="a", labels=KINDS[kind]),
            part(4, 4 * size, 0.3, stratum="b", labels=KINDS[kind], silent=0.3),
            part(4, 2 * size, 1.0, stratum="c", labels=KINDS[kind]),
        ]
        n = dict(zip("abc", (c * size // 5 * 2 for c in labelled), strict=True))
        name = f"three strata of {10 * size}/{4 * size}/{2 * size}, {'/'.join(map(str, n.values()))} {kind}, one with gaps"
        yield _case("unequal rates", name, [(name, sampled(three, n))], (DEFAULT, BETTING, WALD))


# ---------------------------------------------------------------------------------------------------
# recorded propensities


def _votes(k: int, shares: Sequence[float], rates: Sequence[float], size: int) -> list[Items]:
    """Items on which so many of three systems gave this answer; a tenth of the questions is
    uniform.
    """
    chances = (0.9 + 0.1 / k, 0.6 + 0.1 / k, 0.3 + 0.1 / k)
    return [
        part(k, round(share * size), a, labels=Labels(aimed=1.0, propensity=p))
        for share, a, p in zip(shares, rates, chances, strict=True)
    ]


def _propensities() -> Iterator[Case]:
    rates = ((0.95, 0.75, 0.1), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.02, 0.5, 0.98))
    pairs = (DEFAULT, BETTING, WALD_SCORES)
    for k, n in itertools.product((2, 3, 10, 100), (1, 10, 60)):
        settings = [
            (
                f"questions by three votes, K={k} A={'/'.join(f'{a:g}' for a in given)} n={n}",
                sampled(_votes(k, (0.1, 0.6, 0.3), given, 3000), n),
            )
            for given in rates
        ]
        yield _case(
            "recorded propensities", f"K={k} n={n}", settings, pairs, quick=(k, n) == (3, 10)
        )
    for n in (60, 400):
        name = f"questions by three votes beside uniform ones, K=3 n={n}"
        mixed = [
            *_votes(3, (0.1, 0.6, 0.0), (0.95, 0.75, 0.5), 3000)[:2],
            part(3, 900, 0.1, labels=Labels(aimed=1.0, propensity=1 / 3)),
        ]
        yield _case("recorded propensities", name, [(name, sampled(mixed, n))], pairs)
    # The same probability for all, but nobody aimed: 1/K for every item is a uniform design.
    for k in (2, 10):
        name = f"every propensity 1/K, recorded, K={k} A=0.5 n=40"
        yield _case(
            "recorded propensities",
            name,
            [(name, sampled([part(k, 2000, 0.5, labels=QUESTIONS)], 40))],
            (DEFAULT, BETTING),
        )
    for share, n in itertools.product((0.0, 0.5, 1.0), (10, 40)):
        name = f"questions by votes with {share:.0%} of the items without an answer, K=4 n={n}"
        world = sampled(
            [part(4, 1000, 0.7, silent=share, labels=Labels(aimed=1.0, propensity=0.4))], n
        )
        yield _case("recorded propensities", name, [(name, world)], pairs)


# -----------------------------------------------------------------------------------------------
# several questions an item


def _again() -> Iterator[Case]:
    """Whether there is another question follows from the verdicts."""
    for (policy, rule), k, aim in itertools.product(POLICIES.items(), (3, 6), (0.6, None)):
        if aim is None and "settled" not in policy and "unsure" not in policy:
            continue  # without propensities all questions count, and their number must not depend on the answer
        unsure = 0.02 if "unsure" in policy else 0.0
        how = "uniform" if aim is None else "targeted"
        made = asked(k, rule, aim=aim, unsure=unsure)
        settings = [
            (
                f"{how} questions {policy}, K={k} A={a:g} n=30",
                sampled([Items(k, 2000, round(2000 * a), made=made)], 30, population="shares"),
            )
            for a in (0.0, 0.5, 0.98, 1.0)
        ]
        pairs = (DEFAULT, BETTING, WALD_SCORES)
        yield _case(
            "asked again",
            f"{how} {policy} K={k}",
            settings,
            pairs,
            quick=(policy, k, how) == ("again after no", 3, "targeted"),
        )


# -------------------------------------------------------------------------------------------------------------
# many parts


def _parts() -> Iterator[Case]:
    """Numbers of classes and strata together, pooled where the design allows it."""
    grid = ((2, 1.0), (4, 0.5), (10, 0.98), (100, 0.02))
    for kind, equal, size in itertools.product(
        ("ordinary", "ruled out", "questions"), (True, False), (50, 400)
    ):
        kinds = [
            part(
                k, size * (1 + (s == "b")), a if s == "a" else 1 - a, stratum=s, labels=KINDS[kind]
            )
            for s in "ab"
            for k, a in grid
        ]
        n: int | dict[str, int] = 60 if equal else {"a": 48, "b": 12}
        name = f"K=2/4/10/100 in two strata of {4 * size} and {8 * size}, 60 {kind}{'' if equal else ', 48 and 12'}"
        yield _case(
            "mixed parts", name, [(name, sampled(kinds, n))], (DEFAULT, BETTING, WALD), divisor=5
        )
    for k1, k2, n in ((3, 50, 10), (3, 50, 100), (2, 100, 40), (4, 5, 40)):
        settings = [
            (
                f"K={k1}/{k2} A={a:g}/{b:g}, {n} questions",
                sampled(
                    [part(k1, 1000, a, labels=QUESTIONS), part(k2, 1000, b, labels=QUESTIONS)], n
                ),
            )
            for a, b in ((0.0, 1.0), (0.98, 0.02), (0.5, 0.5), (1.0, 1.0))
        ]
        yield _case(
            "mixed parts",
            f"{k1}/{k2} {n}",
            settings,
            (DEFAULT, BETTING, WALD),
            divisor=5,
            quick=(k1, n) == (3, 10),
        )
    for groups in (8, 20):
        kinds = [
            part(4, 100, float(i % 2), stratum=f"s{i}", labels=Labels(ordinary=0.3, ruled_out=0.7))
            for i in range(groups)
        ]
        for low, high in ((1, 12), (2, 20)):
            name = f"{groups} strata of 100, half of them right and labelled {high}, half wrong and labelled {low}, both kinds"
            n = {f"s{i}": high if i % 2 else low for i in range(groups)}
            yield _case(
                "mixed parts",
                name,
                [(name, sampled(kinds, n))],
                (DEFAULT, BETTING, WALD),
                divisor=5,
            )


def _weights() -> Iterator[Case]:
    for many, heaviest in itertools.product((9, 30), (3.0, 100.0)):
        for kind, n in (("ordinary", 20), ("questions", 60), ("ordinary", 200)):
            steps = [heaviest ** (i / (many - 1)) for i in range(many)]
            for rising in (True, False):
                kinds = [
                    part(
                        4,
                        60,
                        (i if rising else many - 1 - i) / (many - 1),
                        weight=round(w, 6),
                        labels=KINDS[kind],
                    )
                    for i, w in enumerate(steps)
                ]
                name = f"{many} weights of 1 to {heaviest:g}, the heavy {'right' if rising else 'wrong'}, {n} {kind}"
                yield _case(
                    "many weights",
                    name,
                    [(name, sampled(kinds, n))],
                    (DEFAULT, BETTING, WALD_SCORES),
                    divisor=5,
                    quick=(many, heaviest, n, rising) == (9, 3.0, 20, True),
                )


# ------------------------------------------------------------------------------------------------------------
# populations


def _beyond() -> Iterator[Case]:
    pairs = (DEFAULT, WALD, BETTING)
    for kind, mixed, n in itertools.product(("ordinary", "questions"), (False, True), (10, 100)):
        settings = []
        for a, b, silent in ((0.95, 0.2, 0.0), (1.0, 0.0, 0.0), (0.98, 0.02, 0.3)):
            two = [
                part(3 if mixed else 4, 1000, a, stratum="a", labels=KINDS[kind]),
                part(10 if mixed else 4, 1000, b, stratum="b", labels=KINDS[kind], silent=silent),
            ]
            name = f"{'K=3/10' if mixed else 'K=4'} strata, A={a:g}/{b:g}, {silent:.0%} of b silent, {n} {kind}, beyond"
            settings.append((name, sampled(two, n, population="beyond")))
        yield _case(
            "beyond",
            f"{kind} {mixed} {n}",
            settings,
            pairs,
            quick=(kind, mixed, n) == ("ordinary", True, 10),
        )
    for kind, (n, rest) in itertools.product(("ordinary", "ruled out"), ((5, 5), (30, 300))):
        settings = [
            (
                f"{n} {kind} of {n + rest} items, A={a:g} of {1 - silent:.0%} answered, beyond",
                sampled(
                    [part(4, 1000, a, silent=silent, labels=KINDS[kind])],
                    n,
                    population="beyond",
                    rest=rest,
                ),
            )
            for a, silent in ((0.5, 0.5), (1.0, 0.05), (0.5, 1.0), (0.0, 0.0))
        ]
        yield _case("beyond", f"gaps {kind} {n} {rest}", settings, pairs)
    for n in (10, 60):
        settings = [
            (
                f"{n} questions by three votes, K=3 A={'/'.join(f'{x:g}' for x in a)}, beyond",
                sampled(_votes(3, (0.1, 0.6, 0.3), a, 3000), n, population="beyond"),
            )
            for a in ((0.95, 0.75, 0.1), (1.0, 1.0, 1.0))
        ]
        yield _case("beyond", f"votes {n}", settings, (DEFAULT, WALD_SCORES, BETTING))


def _beyond_by_stratum() -> Iterator[Case]:
    """The table is a sample, and its strata were labelled at different rates: their shares are not
    known.
    """
    for kind, (size, often, seldom) in itertools.product(
        ("ordinary", "questions"), ((2000, 900, 90), (200, 80, 15))
    ):
        settings = []
        for a, b, silent in ((1.0, 0.0, 0.0), (0.9, 0.3, 0.0), (1.0, 1.0, 0.5)):
            two = [
                part(4, 1000, a, stratum="a", labels=KINDS[kind]),
                part(4, 1000, b, stratum="b", labels=KINDS[kind], silent=silent),
            ]
            name = f"{often} and {seldom} {kind} in strata of {size} items, A={a:g}/{b:g}, {silent:.0%} of b silent, beyond"
            settings.append(
                (name, sampled(two, {"a": often, "b": seldom}, population="beyond", rest=size))
            )
        yield _case("beyond", f"by stratum {kind} {size}", settings, (DEFAULT, WALD, BETTING))


def _without_replacement() -> Iterator[Case]:
    """All samples of a finite population, enumerated."""
    for size, labels in (
        (2, (1, 2)),
        (5, (1, 2, 4)),
        (10, (1, 2, 5, 9, 10)),
        (50, (1, 10, 25, 49)),
        (400, (2, 40, 200, 390)),
        (3000, (10, 1500)),
    ):
        for n in labels:
            settings = [
                (f"{n} of {size} items, {right} right, ordinary", drawn(4, right, size, n))
                for right in sorted({0, 1, size // 50, size // 2, size - 1, size})
            ]
            pairs = (DEFAULT, BETTING, WALD)
            yield _case(
                "without replacement",
                f"{n} of {size}",
                settings,
                pairs,
                divisor=2,
                quick=(size, n) == (10, 5),
            )
    for size, n, kind in (
        (20, 20, "ruled out"),
        (20, 10, "questions"),
        (200, 100, "ruled out"),
        (60, 60, "questions"),
    ):
        settings = [
            (
                f"{n} of {size} items, {right} right, K=4 {kind}",
                sampled([Items(4, size, right, labels=KINDS[kind])], n),
            )
            for right in (0, 1, size // 2, size)
        ]
        yield _case(
            "without replacement",
            f"{kind} {n} of {size}",
            settings,
            (DEFAULT, FIXED, BETTING, WALD),
        )


# -------------------------------------------------------------------------------------------------
# aimed at this system


def _aimed() -> Iterator[Case]:
    """Questions about this system's answers over items of different numbers of classes, so that
    propensities differ a little.
    """
    for ks, epsilon in itertools.product(((2, 10), (3, 50), (2, 4, 100)), (0.05, 0.3, 0.8)):
        for n in (10, 80):
            settings = []
            for rates in ((0.95, 0.2, 0.6), (0.0, 1.0, 0.5), (1.0, 1.0, 1.0)):
                kinds = [
                    part(k, 500, a, labels=Labels(aimed=1.0, propensity=1 - epsilon + epsilon / k))
                    for k, a in zip(ks, rates, strict=False)
                ]
                told = (
                    f"K={'/'.join(map(str, ks))} A={'/'.join(f'{a:g}' for a in rates[: len(ks)])}"
                )
                settings.append((f"aimed, {epsilon:.0%} uniform, {told} n={n}", sampled(kinds, n)))
            yield _case(
                "aimed, mixed K",
                f"{ks} {epsilon} {n}",
                settings,
                (DEFAULT, BETTING, WALD_SCORES),
                divisor=5,
                quick=(ks, epsilon, n) == ((2, 10), 0.3, 10),
            )


# ----------------------------------------------------------------------------------------------------------------
# fixed n


def _fixed() -> Iterator[Case]:
    """Scores at a number of labels that was fixed beforehand; all samples enumerated where they are
    few.
    """
    for k, n in itertools.product((2, 4, 10, 100), (1, 2, 10, 40)):
        settings = [(f"K={k} A={a:g} n_c={n}, scores", plain(k, a, 0, n)) for a in RATES]
        yield _case(
            "fixed n", f"ruled out {k} {n}", settings, (FIXED, WALD_SCORES), quick=(k, n) == (4, 10)
        )
    for n in (1, 2, 10, 100):
        settings = [(f"K=4 A={a:g} n_o={n}, scores", plain(4, a, n, 0)) for a in RATES]
        yield _case("fixed n", f"ordinary {n}", settings, (FIXED,))
    for k, n in itertools.product((2, 4, 100), (2, 20)):
        settings = [(f"K={k} A={a:g} n={n} questions, scores", questions(k, a, n)) for a in RATES]
        yield _case("fixed n", f"questions {k} {n}", settings, (FIXED,))
    for n_o, n_c in ((3, 9), (15, 15)):
        settings = [
            (f"K=10 A={a:g} n_o={n_o} n_c={n_c}, scores", plain(10, a, n_o, n_c)) for a in RATES
        ]
        yield _case("fixed n", f"both {n_o} {n_c}", settings, (FIXED,))


def cases() -> list[Case]:
    """Every case of this file."""
    made = (
        _unequal,
        _propensities,
        _again,
        _parts,
        _weights,
        _beyond,
        _beyond_by_stratum,
        _without_replacement,
        _aimed,
        _fixed,
    )
    return [case for make in made for case in make()]
