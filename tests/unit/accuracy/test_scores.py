"""Every score is unbiased: exact enumeration over truths, answers, labels and verdicts, for K up to 5.

The joint distribution of truth and answer is arbitrary (no symmetry to hide a transposition), and some answers are missing.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from noracle import AccuracyCounts, ArgumentError, estimate_accuracy
from noracle.accuracy.scores import (
    complementary_score,
    corrected_score,
    ordinary_score,
    transition_scores,
    verification_score,
)
from noracle.accuracy.strata import Stratum, score_rows, strata_of
from noracle.counts import Cell, Tally

SIZES = (2, 3, 4, 5)


def joint(k: int) -> np.ndarray:
    """P(truth y, answer a), a = K for no answer; no two entries alike."""
    weights = np.array([[1 + (3 * y + 7 * a * a + 2 * y * a) % 11 for a in range(k + 1)] for y in range(k)], dtype=float)
    return weights / weights.sum()


def asymmetric(k: int) -> np.ndarray:
    matrix = np.array([[0.0 if i == j else 1 + (2 * i + 5 * j) % 7 for j in range(k)] for i in range(k)])
    return matrix / matrix.sum(axis=1, keepdims=True)


def accuracy(k: int) -> float:
    return float(np.trace(joint(k)[:, :k]))


def situations(k: int) -> list[tuple[float, int, int | None]]:
    """(probability, truth, answer or None)."""
    p = joint(k)
    return [(float(p[y, a]), y, a if a < k else None) for y in range(k) for a in range(k + 1)]


@pytest.mark.parametrize("k", SIZES)
def test_ordinary_score_is_unbiased(k: int) -> None:
    mean = sum(p * (ordinary_score(hit=a == y).value if a is not None else 0.0) for p, y, a in situations(k))
    assert mean == pytest.approx(accuracy(k), abs=1e-14)


@pytest.mark.parametrize(("k", "m"), [(k, m) for k in SIZES for m in range(1, k)])
def test_complementary_score_is_unbiased_and_within_its_range(k: int, m: int) -> None:
    mean = 0.0
    for p, y, a in situations(k):
        draws = list(itertools.combinations([c for c in range(k) if c != y], m))
        for ruled in draws:
            score = complementary_score(hit=a in ruled, n_classes=k, n_ruled_out=m)
            assert score.low <= score.value <= score.high
            mean += p / len(draws) * (score.value if a is not None else 0.0)
    assert mean == pytest.approx(accuracy(k), abs=1e-14)


@pytest.mark.parametrize(("k", "m"), [(k, m) for k in SIZES for m in range(1, k)])
def test_complementary_score_has_the_stated_variance(k: int, m: int) -> None:
    rate = 0.37
    hit = (1 - rate) * m / (k - 1)
    values = [complementary_score(hit=h, n_classes=k, n_ruled_out=m).value for h in (True, False)]
    mean = hit * values[0] + (1 - hit) * values[1]
    variance = hit * (values[0] - mean) ** 2 + (1 - hit) * (values[1] - mean) ** 2
    assert mean == pytest.approx(rate)
    assert variance == pytest.approx((1 - rate) * (rate + (k - 1) / m - 1))


@pytest.mark.parametrize("k", SIZES[1:])
def test_transition_score_is_unbiased(k: int) -> None:
    t, scores = asymmetric(k), transition_scores(asymmetric(k))
    mean = sum(p * t[y, r] * scores[r, a] for p, y, a in situations(k) if a is not None for r in range(k))
    assert mean == pytest.approx(accuracy(k), abs=1e-12)


@pytest.mark.parametrize("k", SIZES[1:])
def test_transposed_transition_score_is_biased(k: int) -> None:
    t, scores = asymmetric(k), transition_scores(asymmetric(k)).T
    mean = sum(p * t[y, r] * scores[r, a] for p, y, a in situations(k) if a is not None for r in range(k))
    assert abs(mean - accuracy(k)) > 0.005


def by_class_counts(k: int, scale: int, matrix: np.ndarray) -> AccuracyCounts:
    """Expected counts, rounded, of labels drawn from ``matrix``."""
    tallies: dict[Tally, int] = {}
    for p, y, a in situations(k):
        for r in range(k):
            hit = a == r
            tally = Tally("s", k, "no", hit, a is not None, 1, hit, asked=r, answer=a)
            tallies[tally] = tallies.get(tally, 0) + round(scale * p * matrix[y, r])
    answered = sum(n for t, n in tallies.items() if t.answered)
    return AccuracyCounts(tallies=tallies, items={Cell("s", k): sum(tallies.values())}, answered={Cell("s", k): answered})


@pytest.mark.parametrize("k", SIZES[1:])
def test_estimate_reads_rows_of_the_matrix_as_true_classes(k: int) -> None:
    counts = by_class_counts(k, 10_000_000, asymmetric(k))
    right = estimate_accuracy(counts, transition=asymmetric(k), interval="wald")
    assert right.value == pytest.approx(accuracy(k), abs=1e-4)
    transposed = asymmetric(k).T
    wrong = estimate_accuracy(counts, transition=transposed / transposed.sum(axis=1, keepdims=True), interval="wald")
    assert abs(wrong.value - accuracy(k)) > 0.005


def test_uniform_matrix_gives_the_complementary_score() -> None:
    k = 5
    uniform = (np.ones((k, k)) - np.eye(k)) / (k - 1)
    assert transition_scores(uniform) == pytest.approx(np.ones((k, k)) - (k - 1) * np.eye(k))


def propensities(k: int, y: int, a: int | None) -> np.ndarray:
    """Chances that go with the answer (and with nothing that is unknown)."""
    weights = np.array([1.0 + (0 if a is None else 3 * (c == a) + (c * a) % 3) for c in range(k)])
    return weights / weights.sum()


@pytest.mark.parametrize("guess", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("k", SIZES)
def test_verification_score_is_unbiased_with_any_guess(k: int, guess: float) -> None:
    mean = 0.0
    for p, y, a in situations(k):
        chances = propensities(k, y, a)
        for asked in range(k):
            if a is not None:
                score = verification_score(asked_answer=asked == a, yes=asked == y, propensity=chances[asked], guess=guess)
                mean += p * chances[asked] * score
    assert mean == pytest.approx(accuracy(k), abs=1e-13)


@pytest.mark.parametrize("k", SIZES)
def test_verification_score_has_the_stated_variance(k: int) -> None:
    rate, chance = 0.6, 0.35
    for guess in (0.0, rate):
        outcomes = [
            (chance * rate, verification_score(asked_answer=True, yes=True, propensity=chance, guess=guess)),
            (chance * (1 - rate), verification_score(asked_answer=True, yes=False, propensity=chance, guess=guess)),
            (1 - chance, verification_score(asked_answer=False, yes=False, propensity=chance, guess=guess)),
        ]
        variance = sum(p * (v - rate) ** 2 for p, v in outcomes)
        wanted = rate / chance - rate**2 if guess == 0 else rate * (1 - rate) / chance
        assert variance == pytest.approx(wanted)


@pytest.mark.parametrize("k", SIZES)
def test_corrected_score_is_unbiased(k: int) -> None:
    false_no, false_yes = 0.15, 0.08
    mean = 0.0
    for p, y, a in situations(k):
        if a is None:
            continue
        chances = propensities(k, y, a)
        for asked, said in itertools.product(range(k), (True, False)):
            says_yes = 1 - false_no if asked == y else false_yes
            score = corrected_score(asked_answer=asked == a, yes=said, propensity=chances[asked], false_no=false_no, false_yes=false_yes)
            mean += p * chances[asked] * (says_yes if said else 1 - says_yes) * score
    assert mean == pytest.approx(accuracy(k), abs=1e-13)


def test_uncorrected_score_is_biased_by_wrong_verdicts() -> None:
    rate, false_no, false_yes = 0.7, 0.1, 0.2
    seen = rate * (1 - false_no) + (1 - rate) * false_yes
    mean = seen * verification_score(asked_answer=True, yes=True, propensity=1.0)
    assert abs(mean - rate) > 0.005


@pytest.mark.parametrize("n", [1, 2, 3])
def test_leave_one_out_value_is_unbiased(n: int) -> None:
    """All samples of n items, each asked about its answer or not, enumerated; the guess of an item comes from the others."""
    rate, chance, k = 0.7, 0.6, 4
    outcomes = [
        (chance * rate, Tally("s", k, "yes", True, design="recorded", yes_score=1 / chance, no_score=0.0)),
        (chance * (1 - rate), Tally("s", k, "no", True, n_ruled_out=1, design="recorded", yes_score=0.0, no_score=1 / chance)),
        (1 - chance, Tally("s", k, "no", False, n_ruled_out=1, design="recorded", yes_score=0.0, no_score=0.0)),
    ]
    mean = 0.0
    for sample in itertools.product(outcomes, repeat=n):
        tallies: dict[Tally, int] = {}
        for _, tally in sample:
            tallies[tally] = tallies.get(tally, 0) + 1
        counts = AccuracyCounts(tallies=tallies, items={Cell("s", k): n}, answered={Cell("s", k): n})
        mean += float(np.prod([p for p, _ in sample])) * estimate_accuracy(counts, method="scores").value
    assert mean == pytest.approx(rate, abs=1e-12)


def test_lower_and_upper_scores_have_the_accuracy_as_mean_and_keep_their_ranges() -> None:
    """One uniform question over two numbers of classes, enumerated: the rows that the bets use."""
    groups = ((3, 0.9, 0.4), (5, 0.3, 0.6))
    scale = 3 * 5 * 4 * 2 * 100
    tallies: dict[Tally, int] = {}
    items = {}
    for k, rate, share in groups:
        size = scale * share
        for verdict, hit, p in (
            ("yes", True, rate / k),
            ("yes", False, (1 - rate) / k),
            ("no", True, (1 - rate) / k),
            ("no", False, 1 - 1 / k - (1 - rate) / k),
        ):
            tally = Tally("s", k, verdict, hit, n_ruled_out=int(verdict == "no"), ruled_hit=verdict == "no" and hit)  # type: ignore[arg-type]
            tallies[tally] = round(size * p)
            assert tallies[tally] == pytest.approx(size * p)
        items[Cell("s", k)] = round(size)
    rows = score_rows(strata_of(AccuracyCounts(tallies=tallies, items=items, answered=items)))
    for side in (rows.lower, rows.upper):
        assert sum(s.value * s.n for s in side) / sum(s.n for s in side) == pytest.approx(0.4 * 0.9 + 0.6 * 0.3)
        assert all(s.low <= s.value <= s.high for s in side)
        # A kind of label goes with the number of classes here, so that every kind must have the same range.
        assert len({(s.low, s.high) for s in side}) == 1
    assert rows.moments()[0] == pytest.approx(0.54)


def test_kinds_keep_their_own_range_where_all_items_have_one_number_of_classes() -> None:
    counts = AccuracyCounts.from_counts(n_classes=5, ordinary=(10, 5), complementary=(20, 18))
    assert {(s.low, s.high) for s in score_rows(strata_of(counts)).lower} == {(0.0, 1.0), (-3.0, 1.0)}


def test_uniform_questions_beside_aimed_ones_share_one_range() -> None:
    tallies = {
        Tally("s", 4, "yes", True, design="recorded", yes_score=1.25, no_score=0.0): 5,
        Tally("s", 4, "no", True, n_ruled_out=1, ruled_hit=True): 3,
        Tally("s", 4, "yes", True): 2,
    }
    stratum = Stratum(name="", n_classes=4, weight=1.0, items=10, answered=10, tallies=tallies)
    assert {s.low for s in score_rows((stratum,)).lower} == {-2.0}


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[0.0, 1.0]], "square"),
        ([[0.5, 0.6], [1.0, 0.0]], "sum to 1"),
        ([[0.5, 0.5], [0.5, 0.5]], "invertible"),
        ([[1.5, -0.5], [1.0, 0.0]], "non-negative"),
        ([[float("nan"), 1.0], [1.0, 0.0]], "sum to 1"),
        (np.ones((1, 1)), "square"),
    ],
)
def test_impossible_transition_matrices_are_refused(matrix: object, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        transition_scores(matrix)  # type: ignore[arg-type]


@pytest.mark.parametrize(("no", "yes"), [(0.5, 0.5), (1.0, 0.0), (-0.1, 0.0), (0.0, 1.2)])
def test_error_rates_that_say_nothing_are_refused(no: float, yes: float) -> None:
    with pytest.raises(ArgumentError, match="below 1"):
        corrected_score(asked_answer=True, yes=True, propensity=0.5, false_no=no, false_yes=yes)
