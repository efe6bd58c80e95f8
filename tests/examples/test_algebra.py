from __future__ import annotations

import dataclasses
import doctest
import random
from fractions import Fraction
from types import ModuleType

import numpy as np
import pytest

from examples.papers import algebra, evaluations, independent, marginals
from examples.papers.algebra import (
    PairStatistics,
    generate_pair,
    generate_pair_rates,
    generate_uses,
    n_pair_correlations,
    pair_axiom,
    pair_axiom_rates,
    pair_correlations,
    single_axiom,
    single_axiom_rates,
    single_residuals,
)
from examples.papers.independent import root, solve_agreement
from noracle.errors import ArgumentError, EvidenceError
from noracle.logic.crowd import read_patterns


@pytest.mark.parametrize("module", [algebra, evaluations, independent, marginals])
def test_examples_of_the_docstrings_hold(module: ModuleType) -> None:
    done = doctest.testmod(module)
    assert done.attempted
    assert not done.failed


def random_table(rng: random.Random, most: int = 12) -> list[list[list[int]]]:
    return [[[rng.randint(0, most) for _ in range(2)] for _ in range(2)] for _ in range(2)]


def random_pairs(n: int, seed: int = 0) -> list[PairStatistics]:
    """Answered tests in which both labels occur."""
    rng = random.Random(seed)
    found: list[PairStatistics] = []
    while len(found) < n:
        s = PairStatistics.from_table(random_table(rng))
        if min(s.prevalence) > 0:
            found.append(s)
    return found


def test_every_axiom_is_zero_for_every_true_evaluation() -> None:
    for s in random_pairs(500):
        for i in (0, 1):
            assert single_axiom(s, classifier=i) == 0
            assert single_axiom_rates(s, classifier=i) == 0
            assert pair_axiom_rates(s, classifier=i) == 0
        assert pair_axiom(s, label="a") == pair_axiom(s, label="b") == 0


def test_axioms_are_not_zero_for_false_evaluations() -> None:
    """One item more or less in any unknown breaks an axiom that contains it."""
    for s in random_pairs(200, seed=1):
        (i_a, i_b), second = s.correct
        moved = dataclasses.replace(s, correct=((i_a + 1, i_b), second))
        assert single_axiom(moved) == s.n_items
        assert single_axiom_rates(moved) == Fraction(1, s.n_items)
        assert pair_axiom(moved) == -1
        together = dataclasses.replace(s, both_correct=(s.both_correct[0] + 1, s.both_correct[1]))
        assert single_axiom(together) == 0
        assert pair_axiom(together, label="a") == pair_axiom(together, label="b") == 1


def test_generating_sets_give_back_the_answers() -> None:
    for s in random_pairs(300, seed=2):
        assert generate_uses(correct=s.correct[0], prevalence=s.prevalence) == s.uses[0]
        assert generate_uses(correct=s.correct[1], prevalence=s.prevalence) == s.uses[1]
        assert (
            generate_pair(correct=s.correct, both_correct=s.both_correct, prevalence=s.prevalence)
            == s.joint
        )
        rates = generate_pair_rates(
            accuracies=s.accuracies,
            correlations=s.correlations,
            prevalence_rates=s.prevalence_rates,
        )
        assert rates == tuple(tuple(Fraction(n, s.n_items) for n in row) for row in s.joint)


def test_covariance_is_the_same_from_both_labels() -> None:
    for s in random_pairs(50, seed=3):
        (f_a, _), (g_a, _) = s.use_rates
        assert s.covariance == Fraction(s.joint[0][0], s.n_items) - f_a * g_a


def test_counts_axioms_hold_where_a_label_does_not_occur_and_rates_say_so() -> None:
    s = PairStatistics.from_table([[[3, 0], [1, 0]], [[0, 0], [2, 0]]])
    assert single_axiom(s) == pair_axiom(s) == pair_axiom(s, label="b") == 0
    with pytest.raises(ArgumentError, match="prevalence must be positive for both labels"):
        single_axiom_rates(s)
    empty = PairStatistics.from_table(np.zeros((2, 2, 2), dtype=int))
    assert single_axiom(empty) == pair_axiom(empty) == 0
    with pytest.raises(ArgumentError, match="at least one item"):
        _ = empty.covariance


@pytest.mark.parametrize("r", [2, 3, 4, 7])
def test_single_axioms_of_any_number_of_labels(r: int) -> None:
    rng = np.random.default_rng(r)
    for _ in range(50):
        confusion = rng.integers(0, 9, size=(r, r))
        uses, prevalence = confusion.sum(axis=1), confusion.sum(axis=0)
        assert single_residuals(uses, prevalence=prevalence, wrong=confusion) == (0,) * r
        wrong = confusion.copy()
        wrong[0, 1] += 1  # one item of label 1 more answered 0, so one fewer right on 1
        assert single_residuals(uses, prevalence=prevalence, wrong=wrong)[:2] == (-1, 1)


def test_single_axioms_of_two_labels_are_the_binary_axiom() -> None:
    for s in random_pairs(50, seed=4):
        (c_a, c_b), (q_a, q_b) = s.correct[0], s.prevalence
        moved = dataclasses.replace(s, correct=((c_a - 1, c_b), s.correct[1]))
        wrong = [[0, q_b - c_b], [q_a - c_a + 1, 0]]
        residuals = single_residuals(s.uses[0], prevalence=s.prevalence, wrong=wrong)
        assert residuals == (1, -1)
        assert single_axiom(moved) == -s.n_items


@pytest.mark.parametrize("r", [2, 3, 4])
def test_pair_correlations_have_r_times_r_minus_1_squared_free_numbers(r: int) -> None:
    rng = np.random.default_rng(r)
    tables = rng.integers(1, 40, size=(2 * r**3, r, r, r))
    gamma = np.array([pair_correlations(t).ravel() for t in tables])
    assert np.linalg.matrix_rank(gamma, tol=1e-9) == n_pair_correlations(r) == r * (r - 1) ** 2


def test_pair_correlations_are_those_of_the_binary_form() -> None:
    rng = random.Random(5)
    table = [[[n + 1 for n in row] for row in block] for block in random_table(rng)]
    gamma = pair_correlations(table)
    g_a, g_b = PairStatistics.from_table(table).correlations
    assert gamma[0, 0, 0] == pytest.approx(float(g_a))
    assert gamma[1, 1, 1] == pytest.approx(float(g_b))


def test_pair_correlations_of_an_absent_label_are_undefined() -> None:
    assert np.isnan(pair_correlations([[[3, 0], [2, 0]], [[0, 0], [1, 0]]])[:, :, 1]).all()


def test_bad_pattern_counts_are_named() -> None:
    cases: list[tuple[object, str]] = [
        ({}, "must map patterns to counts"),
        ({"ab": 3}, "must be a tuple of labels"),
        ({("a",): 1, ("a", "b"): 2}, "one answer for each classifier"),
        ({("a", "b"): -1}, "at least 0; got -1"),
        ({("a", "b"): 1.5}, "whole number"),
        ({("a", None): 1, ("b", "a"): 2}, "an answer of every classifier"),
    ]
    for counts, message in cases:
        with pytest.raises(EvidenceError, match=message):
            read_patterns(counts)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="two different labels"):
        read_patterns({("a", "a"): 3})
    with pytest.raises(EvidenceError, match=r"must be one of \['a', 'b'\]"):
        read_patterns({("a", "c"): 3}, labels=["a", "b"])
    with pytest.raises(EvidenceError, match="whole number"):
        PairStatistics.from_table([[[0.5, 1], [1, 1]], [[1, 1], [1, 1]]])
    with pytest.raises(ArgumentError, match="shape"):
        PairStatistics.from_table([[1, 2], [3, 4]])


def agreements(e: tuple[Fraction, Fraction, Fraction]) -> list[Fraction]:
    return [1 - x - y + 2 * x * y for x, y in ((e[0], e[1]), (e[0], e[2]), (e[1], e[2]))]


def test_agreement_equations_recover_error_rates_that_multiply() -> None:
    rng = random.Random(6)
    for _ in range(300):
        e = tuple(Fraction(rng.randint(0, 99), 200) for _ in range(3))
        solution = solve_agreement(agreements(e))  # type: ignore[arg-type]
        assert solution.status == "solved"
        assert solution.error_rates == (e, tuple(1 - x for x in e))


def test_agreement_equations_name_their_failures() -> None:
    assert solve_agreement([Fraction(1, 2), Fraction(3, 4), Fraction(3, 4)]).status == "degenerate"
    assert solve_agreement([0.4, 0.6, 0.7]).status == "complex"
    assert solve_agreement([0.9, 0.9, 0.55]).status == "outside"
    with pytest.raises(ArgumentError, match="three rates"):
        solve_agreement([0.4, 0.6])
    with pytest.raises(ArgumentError, match="three rates"):
        solve_agreement([0.4, 0.6, float("nan")])


def test_root_is_exact_for_squares_and_close_for_others() -> None:
    assert root(Fraction(49, 81)) == Fraction(7, 9)
    huge = Fraction(10**40 + 1, 3**90)
    assert root(huge) == pytest.approx(float(huge) ** 0.5, rel=1e-15)
    assert root(Fraction(1, 10**700)) == Fraction(1, 10**350)
    assert root(Fraction(2, 10**600)) == pytest.approx(2**0.5 * 1e-300, rel=1e-15)
