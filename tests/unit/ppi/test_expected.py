"""Expected labels: their laws against an enumeration of truth, answers and questions, and the
search for the fewest.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter

import pytest

from noracle import plan_labels
from noracle.counts.tally import Cell, Label, Tally
from noracle.ppi.expected import (
    Expected,
    Place,
    Votes,
    aimed_votes,
    fewest,
    held_votes,
    model_votes,
    places_of,
)

K, A, EPSILON = 4, 0.7, 0.2


def enumerated(kind: str, systems: int) -> Counter[Tally]:
    """The probability of every tally of the first system: right with A, else a wrong class,
    uniform; questions as they are routed.
    """
    law: Counter[Tally] = Counter()
    for answers in itertools.product(range(K), repeat=systems):  # the truth is class 0
        chance = 1.0
        for a in answers:
            chance *= A if a == 0 else (1 - A) / (K - 1)
        for asked in range(K):
            share = answers.count(asked) / systems
            propensity: float | None = (
                (1 - EPSILON) * share + EPSILON / K if kind == "targeted" else None
            )
            p = {
                "ordinary": float(asked == 0),
                "complementary": (asked > 0) / (K - 1),
                "question": 1 / K,
            }.get(kind, propensity or 0.0)
            if p:
                label = Label.of(
                    [(asked, "yes" if asked == 0 else "no", propensity)],
                    n_classes=K,
                    recorded=propensity is not None,
                )
                assert label is not None
                law[label.meet(answers[0])] += chance * p  # type: ignore[assignment]
    return law


def coarse(law: Counter[Tally]) -> dict[tuple[object, ...], float]:
    """Tallies of questions about other classes say the same to an estimate of recorded
    propensities.
    """
    found: dict[tuple[object, ...], float] = {}
    for t, p in law.items():
        score = round((t.yes_score or 0) + (t.no_score or 0), 6)
        key = (
            (t.design, t.hit, score)
            if t.design == "recorded" and not t.hit
            else (t.design, t.hit, score, t.verdict)
        )
        found[key] = found.get(key, 0.0) + p
    return found


@pytest.mark.parametrize(
    ("kind", "systems"),
    [
        ("ordinary", 1),
        ("complementary", 1),
        ("question", 1),
        ("targeted", 1),
        ("targeted", 2),
        ("targeted", 3),
    ],
)
def test_law_of_a_label_is_that_of_an_enumeration(kind: str, systems: int) -> None:
    votes: Votes = aimed_votes(EPSILON) if systems == 1 else model_votes(systems, EPSILON)
    n = 10**7
    world = Expected(
        places=places_of(n_classes={K: 10**9}, strata=None),
        accuracy=A,
        confidence=0.95,
        votes=votes,
    )
    counted = Counter({t: m / n for t, m in world.counts({kind: n}).tallies.items()})
    expected = coarse(enumerated(kind, systems))
    assert coarse(counted) == pytest.approx(expected, abs=1e-6)  # type: ignore[arg-type]


def test_expected_labels_and_closed_forms_plan_alike() -> None:
    for kind in ("ordinary", "question", "complementary", "targeted"):
        closed = plan_labels(n_classes=5, accuracy=0.8, half_width=0.04, kind=kind)  # type: ignore[arg-type]
        drawn = plan_labels(n_classes=5, accuracy=0.8, half_width=0.04, kind=kind, n_items=10**8)  # type: ignore[arg-type]
        assert drawn.buy[kind] == pytest.approx(closed.buy[kind], rel=0.01)


def test_fewest_is_the_smallest_where_widths_are_exact() -> None:
    asked: list[int] = []

    def width(n: int) -> float:
        asked.append(n)
        return 2.0 / (n + 1) ** 0.5

    assert fewest(width, 0.2, 10**9) == 99
    assert len(asked) < 12
    assert fewest(width, 0.2, 98) is None
    assert fewest(width, 2.0, 10**9) == 0


def test_strata_are_filled_up_to_one_rate() -> None:
    places = tuple(
        Place(Cell("system", K, name), 1000, 1000, asked)
        for name, asked in (("a", 300), ("b", 100), ("c", 0))
    )
    world = Expected(
        places=places, accuracy=A, confidence=0.95, votes=aimed_votes(EPSILON), strata=True
    )
    assert world.by_stratum(50) == {"a": 0, "b": 0, "c": 50}
    assert world.by_stratum(500) == {"a": 0, "b": 200, "c": 300}
    assert world.by_stratum(1100) == {"a": 200, "b": 400, "c": 500}
    assert world.to_one_rate == 500


def test_vote_shares_are_read_off_the_labels() -> None:
    model = model_votes(3, EPSILON)
    world = Expected(
        places=places_of(n_classes={K: 10**9}, strata=None),
        accuracy=A,
        confidence=0.95,
        votes=model,
    )
    read = held_votes(world.counts({"targeted": 10**6}).tallies, aimed_votes(EPSILON))
    for accuracy in (A, 0.8):
        seen = read(K, accuracy)
        assert sum(v.share * v.right for v in seen) == pytest.approx(accuracy, abs=1e-6)
    for found, expected in zip(read(K, A), model(K, A), strict=True):
        assert found == pytest.approx(expected, abs=2e-3)


def test_few_labels_do_not_tell_vote_shares() -> None:
    world = Expected(
        places=places_of(n_classes={K: 10**9}, strata=None),
        accuracy=A,
        confidence=0.95,
        votes=model_votes(3, EPSILON),
    )
    fallback = aimed_votes(EPSILON)
    assert held_votes(world.counts({"targeted": 60}).tallies, fallback) is fallback
    assert dataclasses.replace(world, votes=fallback).of({}) == 0.5
