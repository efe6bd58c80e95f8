"""The printed formulas of "A logical alarm for misaligned binary classifiers" (Corrada-Emmanuel,
Parker, Bharadwaj), and their corrections.

Each erratum has a test in which the printed formula stands beside ours and fails. Whole numbers and
fractions throughout.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from examples.papers.algebra import (
    PairStatistics,
    generate_pair,
    generate_pair_rates,
    n_pair_correlations,
    pair_axiom,
    pair_axiom_rates,
    pair_correlations,
    single_axiom,
    single_axiom_rates,
)
from examples.papers.evaluations import n_consistent
from examples.papers.independent import BinaryEvaluation, solve_agreement, solve_trio
from examples.papers.marginals import check_marginals

N = 2_000
TABLE_2 = {
    "aaa": (12, 0),
    "aab": (0, 0),
    "aba": (113, 8),
    "baa": (14, 0),
    "bba": (72, 15),
    "bab": (0, 1),
    "abb": (11, 2),
    "bbb": (15, 18),
}


@cache
def evaluations() -> tuple[PairStatistics, ...]:
    """Random answered tests of two classifiers in which both labels occur."""
    rng = random.Random(3)
    found: list[PairStatistics] = []
    while len(found) < N:
        s = PairStatistics.from_table(
            [[[rng.randint(0, 12) for _ in range(2)] for _ in range(2)] for _ in range(2)]
        )
        if min(s.prevalence) > 0:
            found.append(s)
    return tuple(found)


def holds(formula: Callable[[PairStatistics], bool]) -> int:
    return sum(map(formula, evaluations()))


# ---------------------------------------------------------------------------------------------------------------------
# the axioms of a pair


def test_equation_6_needs_minus_q_b() -> None:
    def printed(s: PairStatistics) -> bool:
        (first, second), (right, right_second) = s.uses, s.correct
        return (
            sum(s.both_correct)
            - s.prevalence[0]
            + (first[0] + second[0])
            - s.joint[0][0]
            - (right[0] + right_second[0])
            == 0
        )

    assert holds(lambda s: pair_axiom(s, label="a") == 0) == N
    assert holds(printed) < N / 10
    assert (
        holds(lambda s: printed(s) == (s.prevalence[0] == s.prevalence[1])) == N
    )  # right by accident where both labels are as frequent


def test_equations_14_and_15_count_items_of_the_true_label() -> None:
    """The generating set of P-space gives the frequencies only with R_{ai,aj,a} and R_{bi,bj,b}."""

    def makes_frequencies(s: PairStatistics, gamma: tuple[Fraction, Fraction]) -> bool:
        made = generate_pair_rates(
            accuracies=s.accuracies, correlations=gamma, prevalence_rates=s.prevalence_rates
        )
        return made == tuple(tuple(Fraction(n, s.n_items) for n in row) for row in s.joint)

    def printed(s: PairStatistics) -> tuple[Fraction, Fraction]:
        (first, second), q = s.accuracies, s.prevalence
        return Fraction(s.joint[0][0], q[0]) - first[0] * second[0], Fraction(
            s.joint[1][1], q[1]
        ) - first[1] * second[1]

    assert holds(lambda s: makes_frequencies(s, s.correlations)) == N
    assert holds(lambda s: makes_frequencies(s, printed(s))) < N / 10


def test_equation_28_subtracts_both_counts() -> None:
    def printed(s: PairStatistics) -> bool:
        (i_a, _), (j_a, _) = s.correct
        return (s.prevalence[0] - i_a * j_a + s.both_correct[0]) + s.both_correct[1] == s.joint[1][
            1
        ]

    assert (
        holds(
            lambda s: (
                generate_pair(
                    correct=s.correct, both_correct=s.both_correct, prevalence=s.prevalence
                )
                == s.joint
            )
        )
        == N
    )
    assert holds(printed) < N / 10


def test_the_text_before_equation_29_needs_plus() -> None:
    """Right B answers of both: Q_b minus the wrong A answers of each *plus* those of both, as Eq.
    30 has it.
    """

    def said(s: PairStatistics, sign: int) -> bool:
        (first, second), (right, right_second) = s.uses, s.correct
        each = (first[0] - right[0]) + (second[0] - right_second[0])
        both = s.joint[0][0] - s.both_correct[0]
        return s.both_correct[1] == s.prevalence[1] - each + sign * both

    assert holds(lambda s: said(s, 1)) == N
    assert holds(lambda s: said(s, -1)) < N / 5


def test_what_is_right_as_printed() -> None:
    """Eq. 10, 11, 18, 19, 25–27, 32 and 33."""
    for i in (0, 1):
        assert holds(lambda s, i=i: single_axiom(s, classifier=i) == 0) == N  # type: ignore[misc]
        assert holds(lambda s, i=i: single_axiom_rates(s, classifier=i) == 0) == N  # type: ignore[misc]
        assert holds(lambda s, i=i: pair_axiom_rates(s, classifier=i) == 0) == N  # type: ignore[misc]
    assert holds(lambda s: pair_axiom(s, label="b") == 0) == N


@pytest.mark.parametrize(("r", "printed"), [(2, 2), (3, 24), (4, 252)])
def test_pair_correlations_are_fewer_than_r_to_the_r_minus_r(r: int, printed: int) -> None:
    rng = np.random.default_rng(r)
    gamma = np.array(
        [pair_correlations(t).ravel() for t in rng.integers(1, 60, size=(printed + 40, r, r, r))]
    )
    rank = int(np.linalg.matrix_rank(gamma, tol=1e-9))
    assert printed == r**r - r
    assert rank == n_pair_correlations(r)
    assert (rank == printed) == (r == 2)


# ------------------------------------------------------------------------------------------------------------------------
# independent trios


def frequency(e: BinaryEvaluation, pattern: tuple[str, ...]) -> Fraction:
    """Eq. 46–53."""
    first = Fraction(e.prevalence_rate or 0)
    second = 1 - first
    for said, a, b in zip(pattern, e.accuracy_a, e.accuracy_b, strict=True):
        right_a, right_b = Fraction(a or 0), Fraction(b or 0)
        first *= right_a if said == "a" else 1 - right_a
        second *= 1 - right_b if said == "a" else right_b
    return first + second


PATTERNS = tuple(itertools.product("ab", repeat=3))


@cache
def trios(low: int = 0) -> tuple[tuple[BinaryEvaluation, dict[tuple[str, ...], int]], ...]:
    """445 rational truths with the counts that they make; each tenth has P_a = 1/2. Accuracies are
    at least ``low`` tenths.
    """
    rng = random.Random(5 + low)
    found: list[tuple[BinaryEvaluation, dict[tuple[str, ...], int]]] = []
    while len(found) < 445:
        d = rng.randint(2, 9)
        p_a = Fraction(1, 2) if len(found) % 10 == 0 else Fraction(rng.randint(1, d - 1), d)
        a, b = (tuple(Fraction(rng.randint(low, 10), 10) for _ in range(3)) for _ in range(2))
        if any(x + y == 1 for x, y in zip(a, b, strict=True)):
            continue
        truth = BinaryEvaluation(prevalence_rate=p_a, accuracy_a=a, accuracy_b=b)
        q = math.lcm(*(frequency(truth, p).denominator for p in PATTERNS))
        found.append((truth, {p: int(frequency(truth, p) * q) for p in PATTERNS}))
    return tuple(found)


def same_frequencies(one: BinaryEvaluation, other: BinaryEvaluation) -> bool:
    return all(frequency(one, p) == frequency(other, p) for p in PATTERNS)


def test_trio_is_exact_in_all_cases() -> None:
    assert sum(truth in solve_trio(counts).branches for truth, counts in trios()) == 445
    assert sum(truth.prevalence_rate == Fraction(1, 2) for truth, _ in trios()) >= 45


def test_equations_55_and_56_swap_the_labels() -> None:
    """P_{i,a} → 1 − P_{i,b}: as printed, 1 − P_{i,a}, the answers change; it is right only where
    P_{i,a} = P_{i,b} for all three.
    """

    def printed(e: BinaryEvaluation) -> BinaryEvaluation:
        return BinaryEvaluation(
            prevalence_rate=1 - (e.prevalence_rate or 0),
            accuracy_a=tuple(1 - (x or 0) for x in e.accuracy_a),
            accuracy_b=tuple(1 - (x or 0) for x in e.accuracy_b),
        )

    assert sum(same_frequencies(truth, truth.mirror()) for truth, _ in trios()) == 445
    assert sum(same_frequencies(truth, printed(truth)) for truth, _ in trios()) < 10


def test_table_3_prints_the_mirror_branch() -> None:
    """For classifiers better than a coin (1 − κ/D)/2 is P_b; it is P_a only where both are 1/2."""
    good = [(truth, solve_trio(counts)) for truth, counts in trios(low=6)]
    right = wrong = 0
    for truth, found in good:
        assert found.branches[0] == truth
        d = Fraction(
            math.isqrt(found.discriminant.numerator), math.isqrt(found.discriminant.denominator)
        )
        printed = (1 - found.third_moment / d) / 2
        assert printed == 1 - (truth.prevalence_rate or 0)
        right += printed == truth.prevalence_rate
        wrong += printed != truth.prevalence_rate
    assert right == sum(truth.prevalence_rate == Fraction(1, 2) for truth, _ in good)
    assert wrong > 300


def test_table_2_is_complex() -> None:
    found = solve_trio({tuple(p): a + b for p, (a, b) in TABLE_2.items()})
    assert found.status == "complex"
    assert f"{float(found.discriminant):.2e}" == "-4.03e-06"


@pytest.mark.thin(3)
@pytest.mark.parametrize("q", [281, 2_000, 20_000])
def test_irrational_values_are_no_alarm(q: int) -> None:
    """Classifiers that do err independently have an irrational D in nearly every run, so it says
    nothing.
    """
    rng = np.random.default_rng(q)
    fired = solved = 0
    for _ in range(75):
        accuracy = rng.uniform(0.6, 0.9, size=(2, 3))
        is_a = rng.random(q) < 0.6
        right = rng.random((q, 3)) < np.where(is_a[:, None], accuracy[0], accuracy[1])
        counts = Counter(map(tuple, np.where(is_a[:, None], ~right, right).astype(int).tolist()))
        found = solve_trio(counts, labels=(0, 1))
        if found.discriminant > 0:
            solved += 1
            fired += not found.exact
    assert solved > 60
    assert fired >= 0.95 * solved
    assert q < 1_000 or fired == solved


# ---------------------------------------------------------------------------------------------------------------------
# agreement equations


def test_equations_57_and_58_need_twice_the_agreement_minus_one() -> None:
    rng = random.Random(11)
    recovered = printed_real = printed_recovered = 0
    for _ in range(500):
        e = tuple(Fraction(rng.randint(1, 99), 200) for _ in range(3))
        a = [1 - x - y + 2 * x * y for x, y in ((e[0], e[1]), (e[0], e[2]), (e[1], e[2]))]
        recovered += e in solve_agreement(a).error_rates
        printed = solve_agreement(a, form="printed")
        printed_real += printed.status != "complex"
        printed_recovered += e in printed.error_rates
    assert (recovered, printed_real, printed_recovered) == (500, 0, 0)


def test_equations_59_and_60_independence_by_label_is_not_independence_over_all() -> None:
    """The right form fails for errors that are independent for each label, unless each errs alike
    on both. The trio does not.
    """
    failed = alike = 0
    for truth, counts in trios(low=6):
        n = sum(counts.values())
        agree = [
            Fraction(sum(k for p, k in counts.items() if p[i] == p[j]), n)
            for i, j in ((0, 1), (0, 2), (1, 2))
        ]
        p_a = Fraction(truth.prevalence_rate or 0)
        errors = tuple(
            1 - (p_a * Fraction(a or 0) + (1 - p_a) * Fraction(b or 0))
            for a, b in zip(truth.accuracy_a, truth.accuracy_b, strict=True)
        )
        found = solve_agreement(agree)
        same = truth.accuracy_a == truth.accuracy_b
        alike += same
        failed += errors not in found.error_rates
        assert not same or errors in found.error_rates
        assert solve_trio(counts).branches[0] == truth
    assert failed > 300


# ------------------------------------------------------------------------------------------------------------------------
# spoofed summaries


def test_every_table_is_possible_so_none_betrays_spoofing() -> None:
    rng = random.Random(13)
    impossible = 0
    for _ in range(200):
        table = {p: rng.randint(0, 30) for p in itertools.product("ab", repeat=rng.choice([2, 3]))}
        items = sum(table.values())
        impossible += (
            n_consistent(table) == 0 or n_consistent(table, prevalence={"a": items, "b": 0}) != 1
        )
        impossible += not check_marginals({("x", "y", "z")[: len(next(iter(table)))]: table}).passed
    assert impossible == 0


def test_random_margins_do_betray_it() -> None:
    """Tables of pairs that were made up one by one have no joint table, nearly always."""
    rng = random.Random(17)
    caught = 0
    for _ in range(50):
        tables = {
            pair: {p: rng.randint(0, 30) for p in itertools.product("ab", repeat=2)}
            for pair in (("x", "y"), ("y", "z"), ("x", "z"))
        }
        caught += not check_marginals(tables).passed
    assert caught >= 48
