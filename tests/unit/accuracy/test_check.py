"""Size and power of the checks, by simulation: rarely false alarms, planted faults found."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from noracle import AccuracyCounts, Check, JudgementCounts, check_overlap, check_routing, check_sensitivity, check_yes_rate, range_unsure
from noracle.accuracy.check import sum_of_binomials_p
from noracle.counts import Cell, Question, Tally
from noracle.errors import ArgumentError

K = 5


def judgements(rng: np.random.Generator, n: int, asked: np.ndarray, *, yes_rate: float = 1 / K) -> JudgementCounts:
    found: dict[Question, int] = {}
    for c, size in enumerate(rng.multinomial(n, asked).tolist()):
        yes = int(rng.binomial(size, yes_rate))
        for verdict, count in (("yes", yes), ("no", size - yes)):
            if count:
                found[Question(K, c, verdict)] = count  # type: ignore[arg-type]
    return JudgementCounts(questions=found)


def alarms(make: Callable[[np.random.Generator], Check], worlds: int, below: float = 0.01) -> float:
    rng = np.random.default_rng(6)
    p_values = [make(rng).p_value for _ in range(worlds)]
    return float(np.mean([p < below for p in p_values]))


UNIFORM = np.full(K, 1 / K)


@pytest.mark.parametrize("n", [8, 60, 1000])
def test_routing_check_rarely_raises_a_false_alarm(n: int) -> None:
    assert alarms(lambda rng: check_routing(judgements(rng, n, UNIFORM)), 150) <= 0.05


def test_routing_check_finds_a_favoured_class() -> None:
    leaning = np.array([0.3, 0.175, 0.175, 0.175, 0.175])
    assert alarms(lambda rng: check_routing(judgements(rng, 1000, leaning)), 50, 1e-3) > 0.9
    check = check_routing(judgements(np.random.default_rng(0), 1000, leaning))
    assert not check.passed
    assert "class 0 asked" in check.finding


def test_routing_check_finds_propensities_that_are_not_those_used() -> None:
    """Recorded 0.905 and 0.01, but the answer was asked always."""
    always = JudgementCounts(questions={Question(10, 0, "yes", propensity=0.905): 300, Question(10, 1, "no", propensity=0.905): 100})
    assert not check_routing(always).passed  # 38 questions about other classes are missing
    some = JudgementCounts(questions={Question(10, 0, "yes", propensity=0.905): 395, Question(10, 1, "no", propensity=0.2): 5})
    assert not check_routing(some).passed
    right = JudgementCounts(questions={Question(10, 0, "yes", propensity=0.905): 362, Question(10, 1, "no", propensity=0.095 / 9): 38})
    assert check_routing(right).passed


def test_routing_check_by_rater_finds_the_one_who_chooses() -> None:
    fair = {Question(K, c, "no", rater="ann"): 40 for c in range(K)}
    chooser = {Question(K, 0, "no", rater="bob"): 60, Question(K, 1, "no", rater="bob"): 20}
    counts = JudgementCounts(questions=fair | chooser)
    check = check_routing(counts, by="rater")
    assert not check.passed
    assert "bob" in check.finding
    with pytest.raises(ArgumentError, match="by must be"):
        check_routing(counts, by="moon")


@pytest.mark.parametrize("n", [10, 200, 3000])
def test_yes_rate_check_rarely_raises_a_false_alarm(n: int) -> None:
    assert alarms(lambda rng: check_yes_rate(judgements(rng, n, UNIFORM)), 300) <= 0.03


def test_yes_rate_check_finds_wrong_verdicts() -> None:
    assert alarms(lambda rng: check_yes_rate(judgements(rng, 1000, UNIFORM, yes_rate=0.3)), 50, 1e-3) > 0.9
    assert alarms(lambda rng: check_yes_rate(judgements(rng, 1000, UNIFORM, yes_rate=0.12)), 50, 1e-3) > 0.9


def test_yes_rate_check_does_not_apply_to_labels_of_one_kind() -> None:
    only_no = JudgementCounts(questions={Question(K, 0, "no"): 100})
    check = check_yes_rate(only_no)
    assert math.isnan(check.p_value)
    assert check.passed
    assert "not applicable" in check.finding


def overlap_counts(rng: np.random.Generator, share: float, *, common: bool) -> AccuracyCounts:
    """Ordinary and complementary labels at accuracy 0.7; the wrong answer is ruled out with probability ``share``."""
    if common:
        wrong = int(rng.binomial(200, 0.3))
        hit = int(rng.binomial(wrong, share))
        tallies = {
            Tally("s", K, "yes", True, n_ruled_out=1): 200 - wrong,
            Tally("s", K, "yes", False, n_ruled_out=1, ruled_hit=True): hit,
            Tally("s", K, "yes", False, n_ruled_out=1): wrong - hit,
        }
        return AccuracyCounts(tallies={t: n for t, n in tallies.items() if n}, items={Cell("s", K): 200}, answered={Cell("s", K): 200})
    right, ruled = int(rng.binomial(300, 0.7)), int(rng.binomial(1000, 0.3 * share))
    return AccuracyCounts.from_counts(n_classes=K, system="s", ordinary=(300, right), complementary=(1000, 1000 - ruled))


@pytest.mark.parametrize("common", [True, False])
def test_overlap_check_is_silent_when_fair_and_finds_unfair_choices(common: bool) -> None:
    assert alarms(lambda rng: check_overlap(overlap_counts(rng, 1 / (K - 1), common=common)), 300) <= 0.03
    assert alarms(lambda rng: check_overlap(overlap_counts(rng, 0.6, common=common)), 50, 1e-3) > 0.9


def test_overlap_check_needs_both_kinds() -> None:
    check = check_overlap(AccuracyCounts.from_counts(n_classes=K, ordinary=(100, 70)))
    assert math.isnan(check.p_value)
    assert check.passed


def test_sum_of_binomials_is_exact_and_its_normal_form_close() -> None:
    from scipy.stats import binom

    assert sum_of_binomials_p([(10, 0.3), (7, 0.3)], 9) == pytest.approx(min(1.0, 2 * min(binom.cdf(9, 17, 0.3), binom.sf(8, 17, 0.3))))
    pmf = np.convolve(binom.pmf(np.arange(9001), 9000, 0.1), binom.pmf(np.arange(10_001), 10_000, 0.2))
    assert sum_of_binomials_p([(9000, 0.1), (10_000, 0.2)], 2980) == pytest.approx(2 * float(pmf[2980:].sum()), rel=1e-6)
    pmf = np.convolve(binom.pmf(np.arange(9001), 9000, 0.1), binom.pmf(np.arange(11_501), 11_500, 0.2))
    assert sum_of_binomials_p([(9000, 0.1), (11_500, 0.2)], 3300) == pytest.approx(2 * float(pmf[3300:].sum()), rel=0.05)
    assert math.isnan(sum_of_binomials_p([], 0))
    assert sum_of_binomials_p([(5, 1.0), (3, 0.0)], 5) == 1.0
    assert sum_of_binomials_p([(5, 1.0), (3, 0.0)], 4) == 0.0


COUNTS = AccuracyCounts.from_counts(n_classes=10, ordinary=(300, 240), complementary=(2700, 2640))


def test_sensitivity_falls_as_the_statement_gets_bolder() -> None:
    rates = [check_sensitivity(COUNTS, at_least=x).diagnostics["false_yes_answer"] for x in (0.7, 0.72, 0.74)]
    assert rates == sorted(rates, reverse=True)
    assert all(0 < r < 0.5 for r in rates)


def test_sensitivity_refuses_a_statement_that_does_not_hold() -> None:
    check = check_sensitivity(COUNTS, at_least=0.9)
    assert not check.passed
    assert "not supported" in check.finding
    with pytest.raises(ArgumentError, match="one of them; got neither"):
        check_sensitivity(COUNTS)
    with pytest.raises(ArgumentError, match="one of them; got both"):
        check_sensitivity(COUNTS, at_least=0.1, at_most=0.9)


def test_sensitivity_rate_overturns_the_statement_and_a_smaller_one_does_not() -> None:
    from noracle.accuracy.sensitivity import _noisy_limits

    check = check_sensitivity(COUNTS, at_least=0.7)
    rate = check.diagnostics["false_yes_answer"]
    n = (240, 60, 60, 2640)
    assert _noisy_limits(n, 10, 0.0, rate + 0.01, 0.0, 0.05)[0] < 0.7
    assert _noisy_limits(n, 10, 0.0, rate - 0.01, 0.0, 0.05)[0] >= 0.7


def test_range_of_unsure_without_unsure_is_the_estimate() -> None:
    from noracle import estimate_accuracy

    ranges, estimate = range_unsure(COUNTS), estimate_accuracy(COUNTS)
    assert ranges["value"].low == ranges["value"].high == estimate.value
    assert (ranges["interval"].low, ranges["interval"].high) == pytest.approx((estimate.low, estimate.high))
    assert any("no unsure" in note for note in ranges.notes)


def test_range_of_unsure_grows_with_unsure_and_refuses_aimed_questions() -> None:
    def counts(n: int) -> AccuracyCounts:
        tallies = {
            Tally("s", 4, "yes", True): 70,
            Tally("s", 4, "yes", False): 30,
            Tally("s", 4, "unsure", True): n,
            Tally("s", 4, "unsure", False): n,
        }
        place = {Cell("s", 4): 100 + 2 * n}
        return AccuracyCounts(tallies={t: c for t, c in tallies.items() if c}, items=place, answered=place)

    widths = [range_unsure(counts(n))["value"].high - range_unsure(counts(n))["value"].low for n in (0, 5, 50)]
    assert widths[0] < 1e-12 < widths[1] < widths[2]
    aimed = {Tally("s", 4, "unsure", True, design="recorded"): 5, Tally("s", 4, "yes", True): 5}
    place = {Cell("s", 4): 10}
    with pytest.raises(ArgumentError, match="uniform questions"):
        range_unsure(AccuracyCounts(tallies=aimed, items=place, answered=place))
