from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from examples.papers.algebra import PairStatistics, pair_axiom, single_axiom
from examples.papers.evaluations import (
    Evaluation,
    enumerate_axioms,
    enumerate_consistent,
    enumerate_possible,
    n_consistent,
    n_possible,
)
from noracle.errors import ArgumentError, EvidenceError

TABLE_2 = {"aaa": 12, "aab": 0, "aba": 121, "baa": 14, "bba": 87, "bab": 1, "abb": 13, "bbb": 33}
GRADERS = {tuple(p): n for p, n in TABLE_2.items()}


@pytest.mark.parametrize("q", [0, 1, 2, 5, 9])
def test_single_binary_evaluations_are_those_of_the_papers_three_loops(q: int) -> None:
    loops = {
        (right_a, right_b, a)
        for a in range(q + 1)
        for right_a in range(a + 1)
        for right_b in range(q - a + 1)
    }
    found = [e.counts for e in enumerate_possible(q)]
    assert len(found) == len(set(found)) == n_possible(q) == (q + 1) * (q + 2) * (q + 3) // 6
    assert set(found) == loops


@pytest.mark.parametrize(("q", "r", "n"), [(3, 3, 1), (2, 2, 2), (3, 2, 2), (2, 3, 2), (1, 2, 9)])
def test_possible_evaluations_are_counted_right(q: int, r: int, n: int) -> None:
    found = list(enumerate_possible(q, n_classes=r, n_classifiers=n))
    assert len(set(found)) == len(found) == n_possible(q, n_classes=r, n_classifiers=n)
    assert all(e.n_items == q for e in found)


def test_rates_are_undefined_where_a_label_does_not_occur() -> None:
    rates = {e.counts: e.rates for e in enumerate_possible(2)}
    assert rates[1, 0, 2] == (Fraction(1, 2), None, Fraction(1))
    assert rates[1, 1, 1] == (Fraction(1), Fraction(1), Fraction(1, 2))
    assert [e.rates for e in enumerate_possible(0)] == [(None, None, None)]


def test_answers_pick_the_evaluations_that_obey_the_single_axiom() -> None:
    """Of all evaluations of 7 items, those with 5 uses of a are exactly those for which Eq. 3 gives
    5.
    """
    given = {e.counts for e in enumerate_consistent({("a",): 5, ("b",): 2})}
    obeys = {
        (x, y, a) for x, y, a in (e.counts for e in enumerate_possible(7)) if x + (7 - a) - y == 5
    }
    assert given == obeys
    assert len(given) == n_consistent({("a",): 5, ("b",): 2}) == 6 * 3


def test_pair_evaluations_obey_all_axioms_and_are_all_that_do() -> None:
    joint = {("a", "a"): 2, ("a", "b"): 1, ("b", "a"): 0, ("b", "b"): 2}
    found = list(enumerate_consistent(joint))
    assert len(found) == len(set(found)) == 3 * 2 * 1 * 3
    points = set()
    for e in found:
        table = [
            [list(dict(zip(e.patterns, e.truth, strict=True))[x, y]) for y in "ab"] for x in "ab"
        ]
        s = PairStatistics.from_table(table)
        assert s.joint == ((2, 1), (0, 2))
        assert single_axiom(s) == single_axiom(s, classifier=1) == pair_axiom(s) == 0
        points.add((*s.correct, s.both_correct, s.prevalence))
    brute = set()
    for q_a, i_a, i_b, j_a, j_b, both_a, both_b in itertools.product(range(6), repeat=7):
        s = PairStatistics(
            joint=((2, 1), (0, 2)),
            prevalence=(q_a, 5 - q_a),
            correct=((i_a, i_b), (j_a, j_b)),
            both_correct=(both_a, both_b),
        )
        if single_axiom(s) or single_axiom(s, classifier=1) or pair_axiom(s):
            continue
        cells_a = (both_a, i_a - both_a, j_a - both_a, q_a - i_a - j_a + both_a)
        cells_b = (5 - q_a - i_b - j_b + both_b, j_b - both_b, i_b - both_b, both_b)
        if min(*cells_a, *cells_b) >= 0:
            brute.add((*s.correct, s.both_correct, s.prevalence))
    assert points == brute


def test_prevalence_splits_the_consistent_set() -> None:
    joint = {("a", "b", "c"): 2, ("b", "b", "a"): 2, ("c", "a", "a"): 1}
    total = 0
    for a in range(6):
        for b in range(6 - a):
            prevalence = {"a": a, "b": b, "c": 5 - a - b}
            found = list(enumerate_consistent(joint, prevalence=prevalence))
            assert len(set(found)) == len(found) == n_consistent(joint, prevalence=prevalence)
            assert all(e.prevalence == tuple(prevalence.values()) for e in found)
            total += len(found)
    assert total == n_consistent(joint) == 6 * 6 * 3


def test_the_graders_of_table_2_have_two_thousand_million_evaluations() -> None:
    assert [n_consistent(GRADERS, prevalence={"a": a, "b": 281 - a}) for a in (8, 141)] == [
        2_079,
        16_202_095,
    ]
    assert n_consistent(GRADERS) == 1_993_031_040
    assert sum(1 for _ in enumerate_consistent(GRADERS, prevalence={"a": 8, "b": 273})) == 2_079


def test_axioms_of_single_classifiers_allow_the_papers_cuboid() -> None:
    """Table 2 at Q_a = 237: R_{a_i,a} from max(0, R − 44) to min(237, R), by Eq. 35, 37 and 39."""
    uses = [{"a": 146, "b": 135}, {"a": 27, "b": 254}, {"a": 234, "b": 47}]
    found = list(enumerate_axioms(uses, prevalence={"a": 237, "b": 44}))
    rights = [sorted({s[i].correct[0][0] for s in found}) for i in range(3)]
    assert rights == [list(range(102, 147)), list(range(28)), list(range(190, 235))]
    assert len(found) == 45 * 28 * 45


def test_joint_answers_allow_less_than_single_axioms() -> None:
    joint = {("a", "b"): 3, ("b", "a"): 2}
    prevalence = {"a": 2, "b": 3}
    full = {e.correct for e in enumerate_consistent(joint, prevalence=prevalence)}
    single = {
        tuple(e.correct[0] for e in s)
        for s in enumerate_axioms([{"a": 3, "b": 2}, {"a": 2, "b": 3}], prevalence=prevalence)
    }
    assert full < single


def test_too_many_evaluations_are_refused_before_the_first() -> None:
    with pytest.raises(ArgumentError, match="got 1,000,000 for 1,993,031,040 of them"):
        enumerate_consistent(GRADERS)
    with pytest.raises(ArgumentError, match="limit must cover"):
        enumerate_possible(281)
    with pytest.raises(ArgumentError, match="about 10"):
        enumerate_possible(100, n_classes=5, n_classifiers=3)
    with pytest.raises(ArgumentError, match="limit must cover"):
        enumerate_axioms([{"a": 146, "b": 135}] * 5, prevalence={"a": 141, "b": 140})
    with pytest.raises(ArgumentError, match="states of the count"):
        n_consistent(
            {("a",): 900, ("b",): 900, ("c",): 900},
            prevalence={"a": 900, "b": 900, "c": 900},
            limit=1000,
        )


def test_thousands_of_patterns_are_no_obstacle() -> None:
    counts = dict.fromkeys(itertools.product("ab", repeat=11), 1)
    found = list(enumerate_consistent(counts, prevalence={"a": 0, "b": 2048}))
    assert len(found) == 1
    assert found[0].prevalence == (0, 2048)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(EvidenceError, match="must add up to the 3 items; got 4"):
        n_consistent({("a",): 2, ("b",): 1}, prevalence={"a": 2, "b": 2})
    with pytest.raises(ArgumentError, match=r"one number for each of \['a', 'b'\]"):
        n_consistent({("a",): 2, ("b",): 1}, prevalence={"a": 3})
    with pytest.raises(EvidenceError, match="at least 0"):
        n_possible(-1)
    with pytest.raises(ArgumentError, match="n_classes must be at least 2"):
        n_possible(3, n_classes=1)
    with pytest.raises(ArgumentError, match="at least one classifier"):
        enumerate_axioms([], prevalence={"a": 1, "b": 1})


def test_evaluations_can_be_counted_in_a_set() -> None:
    one = Evaluation(labels=("a", "b"), patterns=(("a",), ("b",)), truth=((1, 0), (0, 1)))
    assert (
        len({one, Evaluation(labels=("a", "b"), patterns=(("a",), ("b",)), truth=((1, 0), (0, 1)))})
        == 1
    )
