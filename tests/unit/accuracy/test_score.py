"""Every score is unbiased: exact enumeration over truths, answers, labels and verdicts, for K up to
5.

The joint distribution of truth and answer is arbitrary (no symmetry to hide a transposition), and
some answers are missing.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from noracle import AccuracyCounts, ArgumentError, estimate_accuracy
from noracle.accuracy.score import (
    ORDINARY,
    REACH,
    PatternScores,
    Stratum,
    corrected_score,
    difference_scores,
    guessed_scores,
    law_of,
    least_difference,
    pattern_scores,
    score,
    score_rows,
    sided_rows,
    sided_scores,
    strata_of,
    succeeds,
    transition_scores,
    verification_scores,
)
from noracle.counts import Cell, Tally
from noracle.counts.tally import Label, Verdict, tally

SIZES = (2, 3, 4, 5)
KINDS: list[tuple[Verdict, int, int]] = [("yes", k, 0) for k in SIZES] + [
    ("no", k, m) for k in SIZES for m in range(1, k)
]


def labels(verdict: Verdict, k: int, m: int, y: int) -> list[Label]:
    """The labels of a kind that an item of class y may get, all equally likely."""
    if verdict == "yes":
        return [Label(k, "yes", frozenset({y}))]
    return [
        Label(k, "no", frozenset(ruled))
        for ruled in itertools.combinations([c for c in range(k) if c != y], m)
    ]


def verification_score(
    *, asked_answer: bool, yes: bool, propensity: float, guess: float = 0.0
) -> float:
    """One entry of :func:`verification_scores`."""
    return float(
        verification_scores(
            np.array([asked_answer]), np.array([True]), yes=yes, propensity=propensity, guess=guess
        )[0]
    )


def joint(k: int) -> np.ndarray:
    """P(truth y, answer a), a = K for no answer; no two entries alike."""
    weights = np.array(
        [[1 + (3 * y + 7 * a * a + 2 * y * a) % 11 for a in range(k + 1)] for y in range(k)],
        dtype=float,
    )
    return weights / weights.sum()


def asymmetric(k: int) -> np.ndarray:
    matrix = np.array(
        [[0.0 if i == j else 1 + (2 * i + 5 * j) % 7 for j in range(k)] for i in range(k)]
    )
    return matrix / matrix.sum(axis=1, keepdims=True)


def accuracy(k: int) -> float:
    return float(np.trace(joint(k)[:, :k]))


def situations(k: int) -> list[tuple[float, int, int | None]]:
    """(probability, truth, answer or None)."""
    p = joint(k)
    return [(float(p[y, a]), y, a if a < k else None) for y in range(k) for a in range(k + 1)]


# -------------------------------------------------------------------------------------------------------
# uniform labels


@pytest.mark.parametrize(("verdict", "k", "m"), KINDS)
def test_score_of_a_uniform_label_is_unbiased_and_within_its_range(
    verdict: Verdict, k: int, m: int
) -> None:
    law, mean = law_of(verdict, k, m), 0.0
    for p, y, a in situations(k):
        drawn = labels(verdict, k, m, y)
        for label in drawn:
            value = score(label.meet(a))
            assert a is None or value == pytest.approx(
                1 - (k - 1) / m * (a in label.classes) if verdict == "no" else float(a == y)
            )
            assert a is not None or value == 0.0
            assert law.low - 1e-12 <= value <= law.high + 1e-12
            mean += p / len(drawn) * value
    assert mean == pytest.approx(accuracy(k), abs=1e-14)


@pytest.mark.parametrize(("verdict", "k", "m"), KINDS)
@pytest.mark.parametrize("right", [True, False])
def test_law_is_the_chance_of_success_given_the_answer(
    verdict: Verdict, k: int, m: int, right: bool
) -> None:
    law = law_of(verdict, k, m)
    for y, a in itertools.product(range(k), repeat=2):
        if (y == a) == right:
            drawn = [succeeds(label.meet(a)) for label in labels(verdict, k, m, y)]
            assert sum(drawn) / len(drawn) == pytest.approx(law.a + law.b * right, abs=1e-14)


@pytest.mark.parametrize(("verdict", "k", "m"), KINDS)
@pytest.mark.parametrize("rate", [-1.3, -0.2, 0.0, 0.4, 2.0])
def test_generating_functions_are_those_of_the_enumerated_scores(
    verdict: Verdict, k: int, m: int, rate: float
) -> None:
    right, wrong = law_of(verdict, k, m).generating(rate)
    for y, a in itertools.product(range(k), repeat=2):
        drawn = [math.exp(rate * score(label.meet(a))) for label in labels(verdict, k, m, y)]
        assert sum(drawn) / len(drawn) == pytest.approx(right if y == a else wrong, rel=1e-12)


@pytest.mark.parametrize("rate", [-0.7, 0.9])
@pytest.mark.parametrize(("verdict", "k", "m"), KINDS)
def test_generating_function_of_a_label_is_linear_in_the_accuracy(
    verdict: Verdict, k: int, m: int, rate: float
) -> None:
    right, wrong = law_of(verdict, k, m).generating(rate)
    p = joint(k)[:, :k] / joint(k)[:, :k].sum()
    mean = 0.0
    for y, a in itertools.product(range(k), repeat=2):
        drawn = labels(verdict, k, m, y)
        mean += sum(
            float(p[y, a]) / len(drawn) * math.exp(rate * score(label.meet(a))) for label in drawn
        )
    a_rate = float(np.trace(p))
    assert mean == pytest.approx(a_rate * right + (1 - a_rate) * wrong, rel=1e-12)


@pytest.mark.parametrize(("verdict", "k", "m"), KINDS)
def test_variance_of_a_law_is_that_of_the_score_at_one_half(
    verdict: Verdict, k: int, m: int
) -> None:
    law = law_of(verdict, k, m)
    chances = [(0.5, y, y) for y in range(k)] + [
        (0.5 / (k - 1), y, a) for y in range(k) for a in range(k) if a != y
    ]
    scores = [
        (p / k / len(drawn), score(label.meet(a)))
        for p, y, a in chances
        for drawn in [labels(verdict, k, m, y)]
        for label in drawn
    ]
    mean = sum(p * v for p, v in scores)
    assert mean == pytest.approx(0.5)
    assert sum(p * (v - mean) ** 2 for p, v in scores) == pytest.approx(law.variance)


@pytest.mark.parametrize(("k", "m"), [(k, m) for _, k, m in KINDS if m])
def test_complementary_score_has_the_stated_variance(k: int, m: int) -> None:
    rate = 0.37
    hit = (1 - rate) * m / (k - 1)
    values = [score(Label(k, "no", frozenset(range(m))).meet(a)) for a in (0, k - 1)]
    mean = hit * values[0] + (1 - hit) * values[1]
    variance = hit * (values[0] - mean) ** 2 + (1 - hit) * (values[1] - mean) ** 2
    assert mean == pytest.approx(rate)
    assert variance == pytest.approx((1 - rate) * (rate + (k - 1) / m - 1))


def test_all_other_classes_ruled_out_is_an_ordinary_label() -> None:
    assert law_of("no", 4, 3) == ORDINARY == law_of("yes", 4)
    assert [score(Label(4, "no", frozenset({0, 1, 3})).meet(a)) for a in (2, 0)] == [1.0, 0.0]


@pytest.mark.parametrize(("verdict", "k", "m"), KINDS)
def test_score_of_repeats_is_the_mean_of_their_scores(verdict: Verdict, k: int, m: int) -> None:
    label = labels(verdict, k, m, 0)[0]
    for answers in itertools.product([0, k - 1, None], repeat=3):
        met = [label.meet(a) for a in answers]
        shares = sum(t.hit for t in met) / 3, sum(t.answered for t in met) / 3
        mixed = tally(
            Cell("s", k), verdict, hit=False, answered=shares[1] > 0, n_ruled_out=m, shares=shares
        )
        assert score(mixed) == pytest.approx(sum(map(score, met)) / 3)


def test_pattern_scores_are_the_scores_of_each_system() -> None:
    answers = (0, 1, None, 2)
    made = [
        Label(4, "yes", frozenset({1})),
        Label(4, "no", frozenset({0, 2})),
        Label(4, "no", frozenset({3})),
    ]
    made += [Label(4, "yes", frozenset({1}), 0.25), Label(4, "no", frozenset({2}), 0.4)]
    for label in made:
        assert pattern_scores(label.meet_all(answers)).tolist() == [
            score(label.meet(a)) for a in answers
        ]


def test_scores_of_many_patterns_are_those_of_each() -> None:
    answers = ("B", "A", None, "C", "A")
    made = [
        Label(4, "yes", frozenset("A")),
        Label(4, "no", frozenset("AB")),
        Label(4, "unsure", frozenset("C"), 0.5),
    ]
    made += [Label(4, "yes", frozenset("B"), 0.25), Label(4, "no", frozenset("A"), 0.4)]
    patterns = [label.meet_all(answers) for label in made]
    scores = PatternScores(patterns)
    assert scores.value.tolist() == [pattern_scores(p).tolist() for p in patterns]
    for i, j in itertools.product(range(5), repeat=2):
        assert scores.lower(i, j).tolist() == [difference_scores(p)[i, j] for p in patterns]
        assert scores.difference(i, j).tolist() == [
            pattern_scores(p)[i] - pattern_scores(p)[j] for p in patterns
        ]


# ---------------------------------------------------------------------------------------------
# recorded propensities


@pytest.mark.parametrize("k", SIZES)
def test_both_sided_scores_of_a_question_are_unbiased_and_bounded_on_their_side(k: int) -> None:
    below = above = 0.0
    for p, y, a in situations(k):
        chances = propensities(k, y, a)
        for asked in range(k):
            low, high = sided_scores(
                Label(
                    k, "yes" if asked == y else "no", frozenset({asked}), float(chances[asked])
                ).meet(a)
            )
            assert low >= 0.0
            assert high <= 1.0
            assert a is not None or low == high == 0.0
            below += p * chances[asked] * low
            above += p * chances[asked] * high
    assert below == pytest.approx(accuracy(k), abs=1e-11)
    assert above == pytest.approx(accuracy(k), abs=1e-11)


@pytest.mark.parametrize("k", SIZES)
def test_sided_rows_of_questions_are_open_on_the_side_that_is_not_bet_against(k: int) -> None:
    tallies = {
        Label(k, verdict, frozenset({0}), 0.3).meet(a): 2
        for verdict in ("yes", "no", "unsure")
        for a in (0, 1, None)
    }  # type: ignore[arg-type]
    lower, upper = sided_rows(tallies)
    assert {(s.low, s.high) for s in lower} == {(0.0, math.inf)}
    assert {(s.low, s.high) for s in upper} == {(-math.inf, 1.0)}
    assert sum(s.n for s in lower) == sum(n for t, n in tallies.items() if t.verdict != "unsure")


def test_sided_rows_share_the_range_of_the_most_classes_where_it_is_given() -> None:
    tallies = {
        Label(3, "no", frozenset({0})).meet(0): 1,
        Label(5, "yes", frozenset({0})).meet(0): 2,
    }
    assert {(s.low, s.high) for s in sided_rows(tallies)[0]} == {(-1.0, 1.0), (0.0, 1.0)}
    assert {(s.low, s.high) for s in sided_rows(tallies, n_classes=5)[0]} == {(-3.0, 1.0)}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("k", SIZES)
def test_difference_scores_are_unbiased_and_bounded_below(k: int, recorded: bool) -> None:
    """Two systems with any answers on an item of any class: the mean over the questions is the
    difference of their being right.
    """
    for y, a, b in itertools.product(range(k), [*range(k), None], [*range(k), None]):
        mean = 0.0
        chances = propensities(k, y, a) if recorded else np.full(k, 1 / k)
        for asked in range(k):
            verdict: Verdict = "yes" if asked == y else "no"
            if recorded:
                drawn = [
                    (
                        float(chances[asked]),
                        Label(k, verdict, frozenset({asked}), float(chances[asked])),
                    )
                ]
            else:  # an ordinary label in place of a yes, so that every label by itself is unbiased
                drawn = [
                    (1 / k / len(labels("no", k, 1, y)), label) for label in labels("no", k, 1, y)
                ]
            for chance, label in drawn:
                scores = difference_scores(label.meet_all((a, b)))
                assert scores[0, 1] >= least_difference(label.verdict, k, recorded=recorded) - 1e-12
                assert scores[0, 0] == scores[1, 1] == 0.0
                mean += chance * scores[0, 1]
        assert mean == pytest.approx(float(a == y) - float(b == y), abs=1e-11)


@pytest.mark.parametrize("k", SIZES)
def test_least_difference_is_reached(k: int) -> None:
    for m in range(1, k):
        found = difference_scores(Label(k, "no", frozenset(range(m))).meet_all((0, k - 1)))[0, 1]
        assert found == pytest.approx(least_difference("no", k, m))
    assert difference_scores(Label(k, "yes", frozenset({0})).meet_all((1, 0)))[
        0, 1
    ] == least_difference("yes", k)
    assert difference_scores(Label(k, "no", frozenset({0}), 0.5).meet_all((0, 1)))[
        0, 1
    ] == least_difference("no", k, recorded=True)


# -------------------------------------------------------------------------------------------------------------
# matrices


@pytest.mark.parametrize("k", SIZES[1:])
def test_transition_score_is_unbiased(k: int) -> None:
    t, scores = asymmetric(k), transition_scores(asymmetric(k))
    mean = sum(
        p * t[y, r] * scores[r, a] for p, y, a in situations(k) if a is not None for r in range(k)
    )
    assert mean == pytest.approx(accuracy(k), abs=1e-12)


@pytest.mark.parametrize("k", SIZES[1:])
def test_transposed_transition_score_is_biased(k: int) -> None:
    t, scores = asymmetric(k), transition_scores(asymmetric(k)).T
    mean = sum(
        p * t[y, r] * scores[r, a] for p, y, a in situations(k) if a is not None for r in range(k)
    )
    assert abs(mean - accuracy(k)) > 0.005


def by_class_counts(k: int, scale: int, matrix: np.ndarray) -> AccuracyCounts:
    """Expected counts, rounded, of labels drawn from ``matrix``."""
    tallies: dict[Tally, int] = {}
    for p, y, a in situations(k):
        for r in range(k):
            met = tally(Cell("s", k), "no", hit=a == r, answered=a is not None, asked=r, answer=a)
            tallies[met] = tallies.get(met, 0) + round(scale * p * matrix[y, r])
    answered = sum(n for t, n in tallies.items() if t.answered)
    return AccuracyCounts(
        tallies=tallies,
        items={Cell("s", k): sum(tallies.values())},
        answered={Cell("s", k): answered},
    )


@pytest.mark.parametrize("k", SIZES[1:])
def test_estimate_reads_rows_of_the_matrix_as_true_classes(k: int) -> None:
    counts = by_class_counts(k, 10_000_000, asymmetric(k))
    right = estimate_accuracy(counts, transition=asymmetric(k), interval="wald")
    assert right.value == pytest.approx(accuracy(k), abs=1e-4)
    transposed = asymmetric(k).T
    wrong = estimate_accuracy(
        counts, transition=transposed / transposed.sum(axis=1, keepdims=True), interval="wald"
    )
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
                score = verification_score(
                    asked_answer=asked == a, yes=asked == y, propensity=chances[asked], guess=guess
                )
                mean += p * chances[asked] * score
    assert mean == pytest.approx(accuracy(k), abs=1e-13)


@pytest.mark.parametrize("k", SIZES)
def test_verification_score_has_the_stated_variance(k: int) -> None:
    rate, chance = 0.6, 0.35
    for guess in (0.0, rate):
        outcomes = [
            (
                chance * rate,
                verification_score(asked_answer=True, yes=True, propensity=chance, guess=guess),
            ),
            (
                chance * (1 - rate),
                verification_score(asked_answer=True, yes=False, propensity=chance, guess=guess),
            ),
            (
                1 - chance,
                verification_score(asked_answer=False, yes=False, propensity=chance, guess=guess),
            ),
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
            score = corrected_score(
                asked_answer=asked == a,
                yes=said,
                propensity=chances[asked],
                false_no=false_no,
                false_yes=false_yes,
            )
            mean += p * chances[asked] * (says_yes if said else 1 - says_yes) * score
    assert mean == pytest.approx(accuracy(k), abs=1e-13)


def test_uncorrected_score_is_biased_by_wrong_verdicts() -> None:
    rate, false_no, false_yes = 0.7, 0.1, 0.2
    seen = rate * (1 - false_no) + (1 - rate) * false_yes
    mean = seen * verification_score(asked_answer=True, yes=True, propensity=1.0)
    assert abs(mean - rate) > 0.005


@pytest.mark.parametrize("n", [1, 2, 3])
def test_leave_one_out_value_is_unbiased(n: int) -> None:
    """All samples of n items, each asked about its answer or not, enumerated; the guess of an item
    comes from the others.
    """
    rate, chance, k = 0.7, 0.6, 4
    outcomes = [
        (chance * rate, Label(k, "yes", frozenset({0}), chance).meet(0, system="s")),
        (chance * (1 - rate), Label(k, "no", frozenset({0}), chance).meet(0, system="s")),
        (1 - chance, Label(k, "no", frozenset({1}), chance).meet(0, system="s")),
    ]
    mean = 0.0
    for sample in itertools.product(outcomes, repeat=n):
        tallies: dict[Tally, int] = {}
        for _, met in sample:
            tallies[met] = tallies.get(met, 0) + 1
        counts = AccuracyCounts(
            tallies=tallies, items={Cell("s", k): n}, answered={Cell("s", k): n}
        )
        mean += (
            float(np.prod([p for p, _ in sample]))
            * estimate_accuracy(counts, method="scores").value
        )
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
            met = tally(Cell("s", k), verdict, hit=hit)  # type: ignore[arg-type]
            tallies[met] = round(size * p)
            assert tallies[met] == pytest.approx(size * p)
        items[Cell("s", k)] = round(size)
    rows = score_rows(
        strata_of(AccuracyCounts(tallies=tallies, items=items, answered=items)),
        factor=lambda _: 1.0,
    )
    for side in (rows.lower, rows.upper):
        assert sum(s.value * s.n for s in side) / sum(s.n for s in side) == pytest.approx(
            0.4 * 0.9 + 0.6 * 0.3
        )
        assert all(s.low <= s.value <= s.high for s in side)
        # A kind of label goes with the number of classes here, so that every kind must have the
        # same range.
        assert len({(s.low, s.high) for s in side}) == 1
    assert rows.moments()[0] == pytest.approx(0.54)


def test_kinds_keep_their_own_range_where_all_items_have_one_number_of_classes() -> None:
    counts = AccuracyCounts.from_counts(n_classes=5, ordinary=(10, 5), complementary=(20, 18))
    assert {(s.low, s.high) for s in score_rows(strata_of(counts), factor=lambda _: 1.0).lower} == {
        (0.0, 1.0),
        (-3.0, 1.0),
    }


def test_uniform_questions_beside_aimed_ones_share_one_range() -> None:
    tallies = {
        Label(4, "yes", frozenset({0}), 0.8).meet(0, system="s"): 5,
        Label(4, "no", frozenset({0})).meet(0, system="s"): 3,
        Label(4, "yes", frozenset({0})).meet(0, system="s"): 2,
    }
    stratum = Stratum(name="", n_classes=4, weight=1.0, items=10, answered=10, tallies=tallies)
    assert {s.low for s in score_rows((stratum,), factor=lambda _: 1.0).lower} == {-2.0}


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


@pytest.mark.parametrize("guess", [None, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("chance", [0.02, 1 / 3, 0.5, 0.96, 1.0])
@pytest.mark.parametrize("right", [True, False])
def test_score_with_a_guess_is_unbiased_and_within_its_reach(
    chance: float, guess: float | None, right: bool
) -> None:
    """The answer is asked about with its chance, and the verdict on it is right."""
    verdict = "yes" if right else "no"
    asked = tally(Cell("s", 4), verdict, hit=True, inverse=1 / chance, chance=chance)
    other = tally(Cell("s", 4), "no", hit=False, inverse=0.0, chance=chance)
    sides = [guessed_scores(t, guess) for t in (asked, other)]
    for side in (0, 1):
        assert chance * sides[0][side] + (1 - chance) * sides[1][side] == pytest.approx(
            float(right), abs=1e-9
        )  # tallies keep twelve digits
    assert min(lower for lower, _ in sides) >= -REACH - 1e-9
    assert max(upper for _, upper in sides) <= 1 + REACH + 1e-9


def test_no_answer_scores_nothing_whatever_the_guess() -> None:
    assert guessed_scores(
        tally(Cell("s", 4), "no", hit=False, answered=False, inverse=0.0), 0.7
    ) == (0.0, 0.0)


def test_the_value_of_many_weights_is_weighted_like_its_limits() -> None:
    """Ten weights are too many for parts of their own: the limits come from scores, and the value
    must weigh the items as they do.
    """
    from noracle import Evidence, estimate_accuracy

    items = list(range(40))
    weights = [1.0 + (i % 10) for i in items]
    answers = [1 if i % 10 >= 5 else 0 for i in items]
    evidence = Evidence.from_tables(
        {"item": items, "system": ["a"] * 40, "answer": answers},
        {"item": items, "class": [1] * 40, "verdict": ["yes"] * 40},
        {"item": items, "weight": weights},
        n_classes=2,
    )
    heavy = sum(w for w, a in zip(weights, answers, strict=True) if a == 1) / sum(weights)
    assert estimate_accuracy(evidence).value == pytest.approx(heavy)
