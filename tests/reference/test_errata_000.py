"""The printed formulas of "Towards scalable oversight via partitioned human supervision" (Yin,
Ishida, Sugiyama), and their corrections.

Each erratum has a test in which the printed formula stands beside ours and fails.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from noracle import (
    AccuracyCounts,
    ArgumentError,
    GuaranteeWarning,
    PatternCounts,
    compare_systems,
    estimate_accuracy,
    plan_labels,
)
from noracle.accuracy.score import ivw_weight
from noracle.bounds import binomial as linear
from noracle.bounds.binomial import BinomialCell, bernstein_radius, hoeffding_radius
from noracle.counts import Cell as Place
from noracle.counts import Tally

DELTA = 0.05


def complementary_cell(k: int, n: int, s: int) -> BinomialCell:
    return BinomialCell(n, s, (k - 2) / (k - 1), 1 / (k - 1))


def expected_count(k: int, accuracy: float, n: int) -> int:
    return round(n * (accuracy + k - 2) / (k - 1))


def theorem2_radius(k: int, n: int, s: int, logs: tuple[float, float]) -> float:
    """(K - 1)·min of the Hoeffding and the Bernstein branch with the given logarithms, n - 1 under
    the root.
    """
    q = s / n
    hoeffding = math.sqrt(logs[0] / (2 * n))
    bernstein = math.sqrt(2 * q * (1 - q) * logs[1] / (n - 1)) + 7 * logs[1] / (3 * (n - 1))
    return (k - 1) * min(hoeffding, bernstein)


# ---------------------------------------------------------------------------- (a) the minimum of
# two bounds needs half the error rate each

WIDTHS = [  # K, A, n_c, exact, corrected Theorem 2, Theorem 2 as printed
    (10, 0.78, 300, 0.342, 1.214, 1.081),
    (4, 0.93, 300, 0.114, 0.405, 0.360),
    (10, 0.78, 2700, 0.108, 0.249, 0.227),
]


@pytest.mark.parametrize(("k", "accuracy", "n", "exact", "corrected", "printed"), WIDTHS)
def test_widths_are_those_of_the_errata_page(
    k: int, accuracy: float, n: int, exact: float, corrected: float, printed: float
) -> None:
    s = expected_count(k, accuracy, n)
    limits = linear.exact([complementary_cell(k, n, s)], DELTA / 2, DELTA / 2)
    ours = min(hoeffding_radius(n, DELTA / 4), bernstein_radius(s / n, n, DELTA / 4)) * (k - 1)
    assert limits.high - limits.low == pytest.approx(exact, abs=5e-4)
    assert 2 * ours == pytest.approx(corrected, abs=5e-4)
    assert 2 * theorem2_radius(
        k, n, s, (math.log(4 / DELTA), math.log(8 / DELTA))
    ) == pytest.approx(corrected, abs=5e-4)
    assert 2 * theorem2_radius(
        k, n, s, (math.log(2 / DELTA), math.log(4 / DELTA))
    ) == pytest.approx(printed, abs=5e-4)
    assert limits.high - limits.low < 0.45 * corrected


def test_exact_is_at_most_three_tenths_of_theorem_2_and_a_tenth_above_wald() -> None:
    counts = AccuracyCounts.from_counts(
        n_classes=10, complementary=(300, expected_count(10, 0.78, 300))
    )
    assert estimate_accuracy(counts).width <= 0.30 * 2 * 9 * min(
        hoeffding_radius(300, DELTA / 4),
        bernstein_radius(expected_count(10, 0.78, 300) / 300, 300, DELTA / 4),
    )
    both = AccuracyCounts.from_counts(
        n_classes=10, ordinary=(300, 234), complementary=(2700, expected_count(10, 0.78, 2700))
    )
    assert estimate_accuracy(both).width <= 1.10 * estimate_accuracy(both, interval="wald").width


def test_theorem2_interval_uses_the_corrected_logarithms() -> None:
    k, n, s = 4, 3000, 2700
    estimate = estimate_accuracy(
        AccuracyCounts.from_counts(n_classes=k, complementary=(n, s)),
        method="complementary",
        interval="theorem2",
    )
    corrected = theorem2_radius(k, n, s, (math.log(4 / DELTA), math.log(8 / DELTA)))
    printed = theorem2_radius(k, n, s, (math.log(2 / DELTA), math.log(4 / DELTA)))
    assert estimate.width == pytest.approx(2 * corrected)
    assert estimate.width > 2 * printed * 1.05


def test_minimum_of_two_bounds_can_miss_twice_as_often() -> None:
    """Two valid bounds that fail on different samples: each misses with probability δ, their
    minimum with 2δ, at δ/2 each with δ.
    """
    u = (np.arange(200_000) + 0.5) / 200_000
    truth = 1.0

    def bounds(delta: float) -> tuple[np.ndarray, np.ndarray]:
        return np.where(u < delta, 0.5, 2.0), np.where(u > 1 - delta, 0.5, 2.0)

    def misses(delta: float) -> float:
        return float(np.mean(np.minimum(*bounds(delta)) < truth))

    assert all(np.mean(b < truth) <= DELTA + 1e-9 for b in bounds(DELTA))
    assert misses(DELTA) == pytest.approx(2 * DELTA)
    assert misses(DELTA / 2) == pytest.approx(DELTA)


def test_proposition3_spends_a_quarter_of_each_branch() -> None:
    """δ_o = δ_c = δ/2: log(8/δ) for Hoeffding, log(16/δ) for Bernstein."""
    k, w = 5, 0.3
    n_o, s_o, n_c, s_c = 4000, 3000, 9000, 8300
    counts = AccuracyCounts.from_counts(n_classes=k, ordinary=(n_o, s_o), complementary=(n_c, s_c))
    estimate = estimate_accuracy(counts, method="weighted", weight=w, interval="proposition3")

    def radius(log_h: float, log_b: float) -> float:
        def bernstein(n: int, s: int) -> float:
            p = s / n
            return math.sqrt(2 * p * (1 - p) * log_b / (n - 1)) + 7 * log_b / (3 * (n - 1))

        hoeffding = w * math.sqrt(log_h / (2 * n_o)) + (1 - w) * (k - 1) * math.sqrt(
            log_h / (2 * n_c)
        )
        return min(hoeffding, w * bernstein(n_o, s_o) + (1 - w) * (k - 1) * bernstein(n_c, s_c))

    assert estimate.width == pytest.approx(2 * radius(math.log(8 / DELTA), math.log(16 / DELTA)))
    assert estimate.width > 2 * radius(math.log(4 / DELTA), math.log(8 / DELTA)) * 1.05


# -------------------------------------------------------------------------------------------------------------------
# (b) n_c - 1, not n_c


@pytest.mark.parametrize("n", [2, 5, 40])
def test_bernstein_radius_is_maurer_and_pontil_with_the_unbiased_variance(n: int) -> None:
    s, tail = n // 2, 0.01
    sample = np.array([1.0] * s + [0.0] * (n - s))
    log = math.log(2 / tail)
    defined = math.sqrt(2 * float(sample.var(ddof=1)) * log / n) + 7 * log / (3 * (n - 1))
    printed = math.sqrt(2 * (s / n) * (1 - s / n) * log / n) + 7 * log / (3 * (n - 1))
    assert bernstein_radius(s / n, n, tail) == pytest.approx(defined, rel=1e-12)
    assert printed < defined * (1 - 1e-4)


# --------------------------------------------------------------------------------------------------
# (c) the root covers the logarithm too


def test_proposition3_without_ordinary_weight_becomes_theorem_2() -> None:
    """With w -> 0 only the complementary branch is left, at half the error rate; a logarithm
    outside the root gives something else.
    """
    k, n, s = 5, 20_000, 18_400
    counts = AccuracyCounts.from_counts(n_classes=k, ordinary=(50, 25), complementary=(n, s))
    estimate = estimate_accuracy(counts, method="weighted", weight=1e-9, interval="proposition3")
    q, log = s / n, math.log(16 / DELTA)
    right = theorem2_radius(k, n, s, (math.log(8 / DELTA), log))
    outside = (k - 1) * (math.sqrt(2 * q * (1 - q) / (n - 1)) * log + 7 * log / (3 * (n - 1)))
    assert estimate.width == pytest.approx(2 * right, rel=1e-6)
    assert outside > right * 1.5


# ------------------------------------------------------------------------------------------- (d)
# half of the harmonic mean of the variances


def test_variance_of_ivw_is_half_the_harmonic_mean() -> None:
    k, n_o, s_o, n_c, s_c = 4, 300, 210, 900, 810
    estimate = estimate_accuracy(
        AccuracyCounts.from_counts(n_classes=k, ordinary=(n_o, s_o), complementary=(n_c, s_c)),
        method="ivw",
    )
    a = linear.maximum_likelihood([BinomialCell(n_o, s_o), complementary_cell(k, n_c, s_c)])
    v_o, v_c = a * (1 - a) / n_o, (a + k - 2) * (1 - a) / n_c
    w = np.linspace(0, 1, 100_001)
    least = float((w**2 * v_o + (1 - w) ** 2 * v_c).min())
    harmonic_mean = 2 / (1 / v_o + 1 / v_c)
    assert estimate.se**2 == pytest.approx(least, rel=1e-6)
    assert least == pytest.approx(harmonic_mean / 2, rel=1e-6)
    assert least < 0.51 * harmonic_mean


# -----------------------------------------------------------------------------------------------------
# (e) q and its transform are one map


def test_raw_and_transformed_fitness_rank_alike_with_one_k_and_all_answered() -> None:
    rng = np.random.default_rng(5)
    k, n = 6, 200
    avoided = rng.integers(120, n, size=30)
    raw = avoided / n
    transformed = np.array(
        [
            estimate_accuracy(
                AccuracyCounts.from_counts(n_classes=k, complementary=(n, int(s))),
                method="complementary",
            ).value
            for s in avoided
        ]
    )
    assert transformed == pytest.approx((k - 1) * raw - (k - 2))
    assert np.array_equal(np.argsort(raw, kind="stable"), np.argsort(transformed, kind="stable"))


def test_raw_fitness_rewards_refusing_and_mean_scores_do_not() -> None:
    """System b leaves unanswered what a gets wrong or right alike; W = 1{not ruled out} prefers it,
    the mean score does not.
    """
    no = {(False, False): 600, (True, False): 20, (True, None): 80, (False, None): 300}
    counts = PatternCounts.from_counts(n_classes=4, systems=("a", "b"), no=no)
    total = sum(no.values())
    weak = [sum(n for hits, n in no.items() if hits[i] is not True) / total for i in (0, 1)]
    assert weak[1] > weak[0]
    result = compare_systems(counts)
    assert result.difference("a", "b").value == pytest.approx((1 - 3 * 100 / total) - (620 / total))
    assert result.difference("a", "b").value > 0


# -----------------------------------------------------------------------------------------------------------
# items without an answer


@pytest.mark.parametrize(
    ("accuracy", "unanswered", "printed"), [(0.254, 0.246, 0.50), (0.347, 0.131, 0.479)]
)
def test_no_answer_is_not_weakly_right(accuracy: float, unanswered: float, printed: float) -> None:
    k, n, worlds = 10, 2700, 400
    rng = np.random.default_rng(0)
    read, ours = [], []
    for _ in range(worlds):
        missing = rng.binomial(n, unanswered)
        right = rng.binomial(n - missing, accuracy / (1 - unanswered))
        ruled = rng.binomial(n - missing - right, 1 / (k - 1))
        read.append((k - 1) * (n - ruled) / n - (k - 2))
        tallies = {
            Tally("s", k, "no", False, n_ruled_out=1): n - missing - int(ruled),
            Tally("s", k, "no", True, n_ruled_out=1, ruled_hit=True): int(ruled),
            Tally("s", k, "no", False, answered=False, n_ruled_out=1): int(missing),
        }
        counts = AccuracyCounts(
            tallies=tallies, items={Place("s", k): n}, answered={Place("s", k): n - int(missing)}
        )
        ours.append(estimate_accuracy(counts, method="complementary").value)
    noise = 4 * float(np.std(ours)) / math.sqrt(worlds)
    assert np.mean(read) == pytest.approx(printed, abs=0.003)
    assert np.mean(ours) == pytest.approx(accuracy, abs=noise)
    assert abs(np.mean(read) - accuracy) > 0.1


# --------------------------------------------------------------------------------------------------------------------
# Wald near the ends


@pytest.mark.parametrize(
    ("k", "accuracy", "n", "coverage"), [(4, 0.98, 120, 0.56), (10, 0.95, 300, 0.81)]
)
def test_wald_as_printed_misses_near_the_end_and_ours_says_so(
    k: int, accuracy: float, n: int, coverage: float
) -> None:
    """Exact coverage, by summing over all counts: the printed interval is a point where every
    answer escapes.
    """
    q = (accuracy + k - 2) / (k - 1)
    s = np.arange(n + 1)
    p = s / n
    value, se = (k - 1) * p - (k - 2), (k - 1) * np.sqrt(p * (1 - p) / n)
    covered = np.abs(value - accuracy) <= 1.959964 * se
    assert float(binom.pmf(s, n, q)[covered].sum()) == pytest.approx(coverage, abs=0.011)
    exact = [linear.exact([complementary_cell(k, n, int(i))], DELTA / 2, DELTA / 2) for i in s]
    ours = np.array([e.low <= accuracy <= e.high for e in exact])
    assert float(binom.pmf(s, n, q)[ours].sum()) >= 0.95
    with pytest.warns(GuaranteeWarning, match="unreliable"):
        estimate = estimate_accuracy(
            AccuracyCounts.from_counts(n_classes=k, complementary=(n, n)), interval="wald"
        )
    assert (estimate.low, estimate.high) == (0.0, 1.0)
    assert math.isnan(estimate.se)


# -------------------------------------------------------------------------------------------------------------------
# equations 5, 8 and 9


@pytest.mark.parametrize(
    ("k", "accuracy", "n_o"), [(10, 0.78, 300), (4, 0.5, 100), (2, 0.7, 60), (50, 0.02, 7)]
)
def test_equation_5_matches_variances(k: int, accuracy: float, n_o: int) -> None:
    n_c = plan_labels(n_classes=k, accuracy=accuracy, match=n_o).buy["complementary"]
    wanted = accuracy * (1 - accuracy) / n_o

    def variance(n: int) -> float:
        return (accuracy + k - 2) * (1 - accuracy) / n

    assert variance(n_c) <= wanted * (1 + 1e-9)
    assert n_c == 1 or variance(n_c - 1) > wanted


@pytest.mark.parametrize("accuracy", [0.05, 0.5, 0.9])
@pytest.mark.parametrize(("k", "n_o", "n_c"), [(4, 30, 300), (10, 50, 900), (2, 10, 10)])
def test_equation_8_minimises_the_variance(k: int, n_o: int, n_c: int, accuracy: float) -> None:
    w = np.linspace(0, 1, 200_001)
    v_o, v_c = accuracy * (1 - accuracy) / n_o, (accuracy + k - 2) * (1 - accuracy) / n_c
    best = float(w[np.argmin(w**2 * v_o + (1 - w) ** 2 * v_c)])
    equation = (accuracy + k - 2) * n_o / (accuracy * n_c + (accuracy + k - 2) * n_o)
    assert equation == pytest.approx(best, abs=1e-5)


CASES = [
    (2, 10, 7, 5, 1),
    (3, 5, 2, 9, 8),
    (4, 20, 3, 30, 12),
    (10, 50, 40, 450, 440),
    (5, 0, 0, 20, 17),
    (5, 20, 4, 0, 0),
    (7, 3, 0, 40, 2),
]


@pytest.mark.parametrize(("k", "n_o", "s_o", "n_c", "s_c"), CASES)
def test_equation_9_maximises_the_likelihood(
    k: int, n_o: int, s_o: int, n_c: int, s_c: int
) -> None:
    cells = linear.merge(
        [BinomialCell(n_o, s_o), complementary_cell(k, n_c, s_c)]
        if k > 2
        else [BinomialCell(n_o, s_o), BinomialCell(n_c, s_c)]
    )
    grid = np.linspace(0, 1, 200_001)
    with np.errstate(divide="ignore", invalid="ignore"):
        q = (grid + k - 2) / (k - 1)
        terms = [(s_o, grid), (n_o - s_o, 1 - grid), (s_c, q), (n_c - s_c, 1 - q)]
        logs = sum(c * np.log(p) for c, p in terms if c)
    found = linear.maximum_likelihood(cells)
    assert found == pytest.approx(float(grid[np.nanargmax(logs)]), abs=1e-5)
    estimate = estimate_accuracy(
        AccuracyCounts.from_counts(n_classes=k, ordinary=(n_o, s_o), complementary=(n_c, s_c))
    )
    assert estimate.value == pytest.approx(found)


def equation_9(k: int, n_o: int, s_o: int, n_c: int, s_c: int) -> tuple[int, int, int]:
    t_o, t_c = n_o - s_o, n_c - s_c
    return n_o + n_c, (k - 2) * (t_o + t_c) + (k - 3) * s_o - s_c, -(k - 2) * s_o


@pytest.mark.parametrize(
    ("k", "n_o", "s_o", "n_c", "s_c"),
    [(10, 50, 40, 450, 440), (4, 20, 3, 30, 12), (50, 100_000, 3, 900_000, 850_000)],
)
def test_equation_9_root_is_accurate_in_both_branches(
    k: int, n_o: int, s_o: int, n_c: int, s_c: int
) -> None:
    """The residual of the quadratic in exact arithmetic; written plainly, the larger root loses its
    digits where β > 0.
    """
    n, beta, gamma = equation_9(k, n_o, s_o, n_c, s_c)
    found = linear.maximum_likelihood([BinomialCell(n_o, s_o), complementary_cell(k, n_c, s_c)])
    x = Fraction(found)
    slope = 2 * n * x + beta
    error = abs((n * x * x + beta * x + gamma) / slope)
    assert float(error) < 1e-13 * max(found, 1e-12)


def test_equation_9_needs_the_other_form_where_beta_is_positive() -> None:
    k, n_o, s_o, n_c, s_c = 50, 100_000, 3, 900_000, 850_000
    n, beta, gamma = equation_9(k, n_o, s_o, n_c, s_c)
    assert beta > 0
    naive = (-beta + math.sqrt(beta**2 - 4 * n * gamma)) / (2 * n)
    ours = linear.maximum_likelihood([BinomialCell(n_o, s_o), complementary_cell(k, n_c, s_c)])
    exact = -2 * gamma / (beta + math.sqrt(beta**2 - 4 * n * gamma))
    assert ours == pytest.approx(exact, rel=1e-12)
    assert abs(naive / exact - 1) > 1e-12


def test_two_classes_make_a_ruled_out_class_an_ordinary_label() -> None:
    mixed = estimate_accuracy(
        AccuracyCounts.from_counts(n_classes=2, ordinary=(40, 30), complementary=(60, 41))
    )
    plain = estimate_accuracy(AccuracyCounts.from_counts(n_classes=2, ordinary=(100, 71)))
    assert (mixed.value, mixed.low, mixed.high) == pytest.approx(
        (plain.value, plain.low, plain.high)
    )


# --------------------------------------------------------------------------------------------------------------------------
# IVW at the ends


def printed_weight(k: int, n_o: int, s_o: int, n_c: int, s_c: int) -> float:
    """Equation 7 with plug-in variances."""
    a, q = s_o / n_o, s_c / n_c
    v_o, v_c = a * (1 - a) / n_o, (k - 1) ** 2 * q * (1 - q) / n_c
    return v_c / (v_o + v_c)


@pytest.mark.parametrize(("n_o", "s_o"), [(3, 3), (3, 0)])
def test_ivw_does_not_trust_a_lucky_sample(n_o: int, s_o: int) -> None:
    """Three labels, all right or all wrong: the printed weight is 1, with standard error 0, against
    2,000 complementary labels.
    """
    k, n_c, s_c = 4, 2000, 1800
    assert printed_weight(k, n_o, s_o, n_c, s_c) == 1.0
    estimate = estimate_accuracy(
        AccuracyCounts.from_counts(n_classes=k, ordinary=(n_o, s_o), complementary=(n_c, s_c)),
        method="ivw",
    )
    weight = ivw_weight(BinomialCell(n_o, s_o), complementary_cell(k, n_c, s_c))
    assert weight < 0.05
    assert estimate.value == pytest.approx(weight * s_o / n_o + (1 - weight) * (3 * 0.9 - 2))
    assert estimate.se > 0.01


def test_ivw_weight_at_the_end_is_equation_8() -> None:
    k, n_o, n_c = 5, 20, 100
    weight = ivw_weight(BinomialCell(n_o, n_o), complementary_cell(k, n_c, n_c))
    assert weight == pytest.approx((1 + k - 2) * n_o / (n_c + (1 + k - 2) * n_o))
    estimate = estimate_accuracy(
        AccuracyCounts.from_counts(n_classes=k, ordinary=(n_o, n_o), complementary=(n_c, n_c)),
        method="ivw",
    )
    assert estimate.value == 1.0
    assert math.isnan(estimate.se)
    with pytest.raises(ZeroDivisionError):
        printed_weight(k, n_o, n_o, n_c, n_c)


# --------------------------------------------------------------------------------------------------------
# labels against their own design


def test_complementary_labels_that_no_accuracy_explains_give_an_alarm_not_a_reversed_interval() -> (
    None
):
    estimate = estimate_accuracy(AccuracyCounts.from_counts(n_classes=10, complementary=(300, 200)))
    assert (estimate.low, estimate.high) == (0.0, 0.0)
    assert estimate.diagnostics["routing_alarm"] is True
    assert any("routing alarm" in note for note in estimate.notes)
    mapped = [(p - 8 / 9) * 9 for p in (0.61, 0.72)]
    assert mapped[0] < mapped[1] < 0  # clipping one end only would reverse it


def test_complementary_value_is_not_clipped() -> None:
    estimate = estimate_accuracy(
        AccuracyCounts.from_counts(n_classes=10, complementary=(300, 260)), method="complementary"
    )
    assert estimate.value == pytest.approx(9 * 260 / 300 - 8)
    assert estimate.value < 0
    assert 0 <= estimate.low <= estimate.high


def test_ml_is_refused_where_questions_were_aimed_at_another_system() -> None:
    """A system right on 90 % where it agrees with the targeted one and on 10 % elsewhere: the share
    of yes is far off, scores are not.
    """
    k, n, near, far = 10, 2000, 0.905, 0.01
    agree = 0.6
    truth = agree * 0.9 + (1 - agree) * 0.1
    asked = {near: agree * n * near, far: (1 - agree) * n * far}
    tallies = {}
    for chance, rate in ((near, 0.9), (far, 0.1)):
        right = round(asked[chance] * rate)
        wrong = round(asked[chance]) - right
        tallies[
            Tally("s", k, "yes", True, design="recorded", yes_score=1 / chance, no_score=0.0)
        ] = right
        tallies[
            Tally(
                "s",
                k,
                "no",
                True,
                n_ruled_out=1,
                design="recorded",
                yes_score=0.0,
                no_score=1 / chance,
            )
        ] = wrong
    rest = n - sum(tallies.values())
    tallies[
        Tally("s", k, "no", False, n_ruled_out=1, design="recorded", yes_score=0.0, no_score=0.0)
    ] = rest
    counts = AccuracyCounts(tallies=tallies, items={Place("s", k): n}, answered={Place("s", k): n})
    yes = sum(c for t, c in tallies.items() if t.verdict == "yes")
    naive = yes / (n - rest)
    assert naive - truth > 0.25
    with pytest.raises(ArgumentError, match="scores"):
        estimate_accuracy(counts, method="ml")
    only_near = dataclasses.replace(
        counts,
        tallies={t: c for t, c in tallies.items() if (t.yes_score or 0) + (t.no_score or 0) < 50},
    )
    with pytest.raises(ArgumentError, match="too few questions"):
        estimate_accuracy(only_near, method="ml")
    estimate = estimate_accuracy(counts)
    assert estimate.method == "scores"
    assert estimate.value == pytest.approx(truth, abs=0.02)
    assert estimate.low <= truth <= estimate.high
