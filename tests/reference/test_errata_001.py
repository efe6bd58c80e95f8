"""Errata and traps of "Humanly certifying superhuman classifiers" (Xu, Walder, Xu, ICLR 2023) about
bounds and assumptions.

Each has a test in which the statement of the paper, or the tempting shortcut, stands beside ours
and fails.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from noracle import ArgumentError
from noracle.counts.ratings import RatingCounts
from noracle.results import Kind
from noracle.superhuman import check_assumptions, estimate_ceiling
from noracle.superhuman.assumptions import KnownItems
from noracle.superhuman.bounds import empirical_bound, free_bound, paper_bound, quadratic_bound

# -------------------------------------------------------------------------------------------------
# U_e of Definition 1 is not a bound


def test_empirical_bound_lies_below_an_oracle_and_a_weak_annotator() -> None:
    """K = 2, accuracies 1 and 0.6, independent, so that assumption (2) holds with equality."""
    rng = np.random.default_rng(0)
    n = 50_000
    truth = rng.integers(0, 10, n)
    weak = np.where(rng.random(n) < 0.6, truth, (truth + rng.integers(1, 10, n)) % 10)
    ratings = np.column_stack([truth, weak])
    counts, mean = (
        RatingCounts.from_arrays(ratings, pairs=True),
        float((ratings == truth[:, None]).mean()),
    )
    printed = estimate_ceiling(counts, method="paper-empirical", confidence=0.9999)
    assert mean == pytest.approx(0.8, abs=0.005)
    assert printed.value == pytest.approx(0.7746, abs=0.005)
    assert printed.high < mean  # no number of items repairs it
    assert printed.guarantee.kind == Kind.HEURISTIC
    for method in ("plurality", "free", "quadratic", "paper", "pairwise"):
        assert estimate_ceiling(counts, method=method).high > mean  # type: ignore[arg-type]


def test_empirical_bound_fails_for_many_independent_pools() -> None:
    rng = np.random.default_rng(1)
    below = {"empirical": 0, "quadratic": 0, "paper": 0}
    for _ in range(2000):
        k = int(rng.integers(2, 8))
        p = rng.random(k)
        v = float(np.mean([p[i] * p[j] for i, j in combinations(range(k), 2)]))
        below["empirical"] += empirical_bound(v) < p.mean() - 1e-12
        below["quadratic"] += quadratic_bound(v, k) < p.mean() - 1e-12
        below["paper"] += paper_bound(v, k) < p.mean() - 1e-12
    assert (
        below["empirical"] > 1900
    )  # the geometric-mean argument goes the wrong way whenever accuracies differ
    assert below["quadratic"] == below["paper"] == 0


# ---------------------------------------------------------------------------------------------
# Theorem 1 does not need assumption (2)


def test_theorem_1_holds_where_assumption_2_fails_and_only_pairwise_needs_it() -> None:
    """Two of three annotators are right on every item, in turn: p_i·p_j = 4/9 > P_ij = 1/3."""
    n = 900
    truth = np.arange(n) // 3 % 2
    right = (np.arange(n)[:, None] + np.arange(3)) % 3 > 0
    ratings = np.where(right, truth[:, None], 1 - truth[:, None])
    counts, mean = RatingCounts.from_arrays(ratings, pairs=True), float(right.mean())
    assert mean == pytest.approx(2 / 3)
    for method in ("plurality", "free", "quadratic", "paper"):
        assert estimate_ceiling(counts, method=method).value >= mean - 1e-12  # type: ignore[arg-type]
    assert estimate_ceiling(counts, method="pairwise").value == pytest.approx(3**-0.5)
    assert estimate_ceiling(counts, method="pairwise").high < mean
    check = check_assumptions(ratings, truth)
    assert not check.passed  # and the check sees it
    assert (
        estimate_ceiling(counts, method="pairwise", checks=[check]).guarantee.kind == Kind.HEURISTIC
    )


def test_theorem_1_is_not_the_best_that_follows_from_agreement() -> None:
    for v, k, free, paper in ((0.939**2, 3, 0.9409, 0.9598), (0.879**2, 5, 0.8863, 0.9045)):
        assert free_bound(v, k) == pytest.approx(free, abs=5e-5)
        assert paper_bound(v, k) == pytest.approx(paper, abs=5e-5)


# ------------------------------------------------------------------------------- (6) with a fixed
# wrong label does not imply L <= accuracy


def fixed_label_example() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """1,000 items of six classes: truth, vote and system. Which wrong label the vote has goes
    round.
    """
    rows = [(i % 6, i % 6, i % 6) for i in range(584)]  # both right
    rows += [(i % 6, i % 6, (i + 1 + i % 5) % 6) for i in range(111)]  # only the vote is right
    for i in range(305):  # the vote is wrong by 1 … 5
        y, off = i % 6, 1 + i % 5
        if i < 61:
            rows.append((y, (y + off) % 6, y))
        elif i < 183:
            rows.append((y, (y + off) % 6, (y + off) % 6))
        else:
            rows.append((y, (y + off) % 6, (y + 1 + off % 5) % 6))
    truth, vote, system = np.array(rows).T
    return truth, vote, system


def test_assumption_6_as_worded_allows_a_match_rate_above_the_accuracy() -> None:
    truth, vote, system = fixed_label_example()
    wrong = vote != truth
    right_there = float((system == truth)[wrong].mean())
    for label in range(6):  # as worded: for any single incorrect label
        of_label = wrong & (truth != label)
        assert (system == truth)[of_label].mean() >= (system == label)[of_label].mean()
    for off in range(1, 6):  # the same, for labels counted from the true one
        assert right_there >= (system == (truth + off) % 6)[wrong].mean()
    assert (system == vote).mean() == pytest.approx(0.706)
    assert (system == truth).mean() == pytest.approx(0.645)
    # In the form that is equivalent to L <= accuracy it is plainly broken, and the check says so.
    assert (system == vote)[wrong].mean() > right_there
    check = check_assumptions(vote[:, None], truth, system="agent", answers={"agent": system})
    assert not check.passed
    assert check.diagnostics["accuracy_minus_match_rate"] == pytest.approx(0.645 - 0.706)


def test_our_form_of_6_is_equivalent_to_a_match_rate_below_the_accuracy() -> None:
    rng = np.random.default_rng(2)
    for _ in range(500):
        truth, vote, system = rng.integers(0, 3, (3, 40))
        wrong = vote != truth
        holds = (system == truth)[wrong].sum() >= (system == vote)[wrong].sum()
        assert holds == ((system == vote).mean() <= (system == truth).mean() + 1e-12)


# -------------------------------------------------------------------------------------------------------------------
# Appendix B


def test_appendix_b_prints_30_where_40_is_right() -> None:
    given_right, given_wrong = (
        (Fraction(8, 10), Fraction(2, 10)),
        (Fraction(6, 10), Fraction(4, 10)),
    )
    right, wrong = Fraction(7, 10), Fraction(3, 10)
    joint = {("*", "*"): right * given_right[0], ("*", "x"): right * given_right[1]}
    joint |= {("x", "*"): wrong * given_wrong[0], ("x", "x"): wrong * given_wrong[1]}
    b_wrong = joint["*", "x"] + joint["x", "x"]
    assert b_wrong == Fraction(26, 100)
    assert joint["x", "x"] / wrong == Fraction(40, 100) != Fraction(30, 100)
    assert joint["x", "x"] / b_wrong == pytest.approx(0.462, abs=5e-4)  # the line below it is right


# -------------------------------------------------------------------------------------------------
# U² is affine in kappa, not proportional


def test_squared_bound_is_affine_in_kappa() -> None:
    """With chance agreement c: v = c + (1 - c)·kappa. Without any agreement beyond chance the bound
    is not 0.
    """
    chance = 0.5

    def tables(kappa: float) -> np.ndarray:
        v = chance + (1 - chance) * kappa
        return np.array([[v / 2, (1 - v) / 2], [(1 - v) / 2, v / 2]])

    def kappa_of(table: np.ndarray) -> float:
        expected = float(table.sum(axis=0) @ table.sum(axis=1))
        return (float(np.trace(table)) - expected) / (1 - expected)

    kappas = [0.0, 0.25, 0.5, 1.0]
    squared = [empirical_bound(float(np.trace(tables(k)))) ** 2 for k in kappas]
    assert [kappa_of(tables(k)) for k in kappas] == pytest.approx(kappas)
    assert squared == pytest.approx([chance + (1 - chance) * k for k in kappas])
    assert squared[0] == pytest.approx(0.5)  # proportional would be 0
    assert squared[2] / kappas[2] != pytest.approx(squared[3] / kappas[3])


# -------------------------------------------------------------------------------------------------
# adaptive annotation and pooled pairs


def adaptive_votes(n: int, seed: int) -> tuple[np.ndarray, float, np.ndarray]:
    """Two ratings, three more where they disagree; votes, accuracy of the average annotation, and
    the first two ratings (0 is right).
    """
    rng = np.random.default_rng(seed)
    hard = rng.random(n) < 0.2
    right = rng.random((n, 5)) < np.where(hard, 0.75, 0.99)[:, None]
    said = np.where(right, 0, rng.integers(1, 10, (n, 5)))
    first = said[:, 0] == said[:, 1]
    used = np.where(first, 2, 5)
    counted = np.arange(5) < used[:, None]
    votes = np.stack([((said == label) & counted).sum(axis=1) for label in range(10)], axis=1)
    return votes, float((votes[:, 0] / used).mean()), said[:, :2]


def test_pooled_pairs_of_adaptive_annotation_are_far_too_low_and_refused() -> None:
    votes, mean, first_two = adaptive_votes(40_000, 3)
    sizes = votes.sum(axis=1)
    pooled = float((votes * (votes - 1)).sum() / (sizes * (sizes - 1)).sum())
    assert empirical_bound(pooled) < mean - 0.05  # as 0.876 stood for 0.961
    assert paper_bound(pooled, 5) < mean  # even Theorem 1 breaks
    fixed = estimate_ceiling(RatingCounts.from_arrays(first_two, labels=10), method="paper")
    assert fixed.value > float((first_two == 0).mean())  # a part that was fixed beforehand is sound
    counts = RatingCounts.from_votes(votes)
    for method in ("free", "quadratic", "paper", "paper-empirical"):
        with pytest.raises(ArgumentError, match="no ceiling"):
            estimate_ceiling(counts, method=method, pairs="pooled")  # type: ignore[arg-type]
    for method in ("plurality", "free", "quadratic", "paper"):
        assert estimate_ceiling(counts, method=method).value >= mean  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------
# a system trained on its annotators


def test_a_system_that_copies_the_vote_half_the_time_matches_more_than_it_is_right() -> None:
    """Annotators who err together on hard items; the copy breaks (6), and only known answers show
    it.
    """
    rng = np.random.default_rng(4)
    n = 20_000
    truth = rng.integers(0, 5, n)
    confused = (truth + 1) % 5  # on hard items people fall for the same label
    hard = rng.random((n, 1)) < 0.25
    right = rng.random((n, 3)) < np.where(hard, 0.35, 0.95)
    ratings = np.where(
        right,
        truth[:, None],
        np.where(hard, confused[:, None], (truth[:, None] + rng.integers(1, 5, (n, 3))) % 5),
    )
    vote = KnownItems.from_arrays(ratings, truth).plurality(0)
    own = np.where(rng.random(n) < 0.8, truth, (truth + rng.integers(1, 5, n)) % 5)
    copied = np.where(rng.random(n) < 0.5, vote, own)
    assert (copied == vote).mean() > (copied == truth).mean() + 0.01  # L is no lower bound
    assert (own == vote).mean() < (own == truth).mean()
    answers = {"copied": copied, "own": own}
    assert not check_assumptions(ratings, truth, system="copied", answers=answers).passed
    assert check_assumptions(ratings, truth, system="own", answers=answers).diagnostics["supported"]
    few = check_assumptions(
        ratings[:100], truth[:100], system="copied", answers={"copied": copied[:100]}
    )
    assert not few.diagnostics["supported"]  # with few known answers a pass proves nothing
    assert few.refutes_only


# ------------------------------------------------------------------------------------------------------------
# persons and columns


def test_columns_that_are_not_persons_break_pairwise_only() -> None:
    """Persons of accuracy 1, 0.2 and 0.2 in a new order on every item: (2) holds for persons, not
    for columns.
    """
    rng = np.random.default_rng(5)
    n = 20_000
    persons = np.where(rng.random((n, 3)) < (1.0, 0.2, 0.2), 0, rng.integers(1, 40, (n, 3)))
    columns = rng.permuted(persons, axis=1)
    mean = float((persons == 0).mean())
    by_person = RatingCounts.from_arrays(persons, labels=40, pairs=True)
    by_column = RatingCounts.from_arrays(columns, labels=40, pairs=True)
    assert estimate_ceiling(by_person, method="pairwise").high > mean
    assert estimate_ceiling(by_column, method="pairwise").high < mean
    assert any(
        "one person" in note for note in estimate_ceiling(by_column, method="pairwise").notes
    )
    assert estimate_ceiling(by_column).value == pytest.approx(estimate_ceiling(by_person).value)
    assert estimate_ceiling(by_column).value > mean
