"""Size and power of the checks, by simulation: rarely false alarms, planted faults found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from noracle import (
    AccuracyCounts,
    Check,
    Evidence,
    JudgementCounts,
    check_overlap,
    check_routing,
    check_sensitivity,
    check_yes_rate,
    count_judgements,
    range_unsure,
)
from noracle.accuracy.check import sum_of_binomials_p
from noracle.counts import Cell, Question, Tally
from noracle.errors import ArgumentError

K = 5


def judgements(
    rng: np.random.Generator, n: int, asked: np.ndarray, *, yes_rate: float = 1 / K
) -> JudgementCounts:
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
    always = JudgementCounts(
        questions={
            Question(10, 0, "yes", propensity=0.905): 300,
            Question(10, 1, "no", propensity=0.905): 100,
        }
    )
    assert not check_routing(always).passed  # 38 questions about other classes are missing
    some = JudgementCounts(
        questions={
            Question(10, 0, "yes", propensity=0.905): 395,
            Question(10, 1, "no", propensity=0.2): 5,
        }
    )
    assert not check_routing(some).passed
    right = JudgementCounts(
        questions={
            Question(10, 0, "yes", propensity=0.905): 362,
            Question(10, 1, "no", propensity=0.095 / 9): 38,
        }
    )
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
    assert (
        alarms(lambda rng: check_yes_rate(judgements(rng, 1000, UNIFORM, yes_rate=0.3)), 50, 1e-3)
        > 0.9
    )
    assert (
        alarms(lambda rng: check_yes_rate(judgements(rng, 1000, UNIFORM, yes_rate=0.12)), 50, 1e-3)
        > 0.9
    )


def test_yes_rate_check_does_not_apply_to_labels_of_one_kind() -> None:
    only_no = JudgementCounts(questions={Question(K, 0, "no"): 100})
    check = check_yes_rate(only_no)
    assert math.isnan(check.p_value)
    assert check.passed
    assert "not applicable" in check.finding


def overlap_counts(rng: np.random.Generator, share: float, *, common: bool) -> AccuracyCounts:
    """Ordinary and complementary labels at accuracy 0.7; the wrong answer is ruled out with
    probability ``share``.
    """
    if common:
        wrong = int(rng.binomial(200, 0.3))
        hit = int(rng.binomial(wrong, share))
        tallies = {
            Tally("s", K, "yes", True, n_ruled_out=1): 200 - wrong,
            Tally("s", K, "yes", False, n_ruled_out=1, ruled_hit=True): hit,
            Tally("s", K, "yes", False, n_ruled_out=1): wrong - hit,
        }
        return AccuracyCounts(
            tallies={t: n for t, n in tallies.items() if n},
            items={Cell("s", K): 200},
            answered={Cell("s", K): 200},
        )
    right, ruled = int(rng.binomial(300, 0.7)), int(rng.binomial(1000, 0.3 * share))
    return AccuracyCounts.from_counts(
        n_classes=K, system="s", ordinary=(300, right), complementary=(1000, 1000 - ruled)
    )


@pytest.mark.parametrize("common", [True, False])
def test_overlap_check_is_silent_when_fair_and_finds_unfair_choices(common: bool) -> None:
    assert (
        alarms(lambda rng: check_overlap(overlap_counts(rng, 1 / (K - 1), common=common)), 300)
        <= 0.03
    )
    assert (
        alarms(lambda rng: check_overlap(overlap_counts(rng, 0.6, common=common)), 50, 1e-3) > 0.9
    )


def test_overlap_check_needs_both_kinds() -> None:
    check = check_overlap(AccuracyCounts.from_counts(n_classes=K, ordinary=(100, 70)))
    assert math.isnan(check.p_value)
    assert check.passed


def test_sum_of_binomials_is_exact_and_its_normal_form_close() -> None:
    from scipy.stats import binom

    assert sum_of_binomials_p([(10, 0.3), (7, 0.3)], 9) == pytest.approx(
        min(1.0, 2 * min(binom.cdf(9, 17, 0.3), binom.sf(8, 17, 0.3)))
    )
    pmf = np.convolve(
        binom.pmf(np.arange(9001), 9000, 0.1), binom.pmf(np.arange(10_001), 10_000, 0.2)
    )
    assert sum_of_binomials_p([(9000, 0.1), (10_000, 0.2)], 2980) == pytest.approx(
        2 * float(pmf[2980:].sum()), rel=1e-6
    )
    pmf = np.convolve(
        binom.pmf(np.arange(9001), 9000, 0.1), binom.pmf(np.arange(11_501), 11_500, 0.2)
    )
    assert sum_of_binomials_p([(9000, 0.1), (11_500, 0.2)], 3300) == pytest.approx(
        2 * float(pmf[3300:].sum()), rel=0.05
    )
    assert math.isnan(sum_of_binomials_p([], 0))
    assert sum_of_binomials_p([(5, 1.0), (3, 0.0)], 5) == 1.0
    assert sum_of_binomials_p([(5, 1.0), (3, 0.0)], 4) == 0.0


COUNTS = AccuracyCounts.from_counts(n_classes=10, ordinary=(300, 240), complementary=(2700, 2640))


def test_sensitivity_falls_as_the_statement_gets_bolder() -> None:
    rates = [
        check_sensitivity(COUNTS, at_least=x).diagnostics["false_yes_answer"]
        for x in (0.7, 0.72, 0.74)
    ]
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
    assert (ranges["interval"].low, ranges["interval"].high) == pytest.approx(
        (estimate.low, estimate.high)
    )
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
        return AccuracyCounts(
            tallies={t: c for t, c in tallies.items() if c}, items=place, answered=place
        )

    widths = [
        range_unsure(counts(n))["value"].high - range_unsure(counts(n))["value"].low
        for n in (0, 5, 50)
    ]
    assert widths[0] < 1e-12 < widths[1] < widths[2]
    aimed = {Tally("s", 4, "unsure", True, design="recorded"): 5, Tally("s", 4, "yes", True): 5}
    place = {Cell("s", 4): 10}
    with pytest.raises(ArgumentError, match="uniform questions"):
        range_unsure(AccuracyCounts(tallies=aimed, items=place, answered=place))


# ------------------------------------------------------------------------------- designs that are a
# property of the table


def by_votes(n: int, seed: int) -> JudgementCounts:
    """K = 3 and three votes, two against one: a single vote has the propensity 1/3, and is seldom
    right.
    """
    rng, questions = np.random.default_rng(seed), Counter[Question]()
    chances, right = (0.6 + 0.1 / 3, 1 / 3, 0.1 / 3), (0.8, 0.1, 0.1)
    for i in rng.choice(3, size=n, p=chances).tolist():
        questions[
            Question(
                3, int(rng.integers(3)), "yes" if rng.random() < right[i] else "no", "", chances[i]
            )
        ] += 1
    return JudgementCounts(questions=dict(questions))


def test_a_recorded_propensity_of_one_over_k_is_no_uniform_question() -> None:
    counts = [by_votes(1500, seed) for seed in range(10)]
    assert min(check_yes_rate(c).p_value for c in counts) > 1e-3
    assert min(check_routing(c).p_value for c in counts) > 1e-3
    assert {check_routing(c).assumption for c in counts} == {"recorded propensities"}
    assert len(check_routing(counts[0]).parts) == 1


@pytest.mark.parametrize("again", ["yes", "no"])
def test_only_the_first_of_several_recorded_questions_is_held_against_the_design(
    again: str,
) -> None:
    """Whether there is a second question depends on the first verdict; the yes rate over all
    questions is no longer as designed.
    """
    rng = np.random.default_rng(5)
    rows: dict[str, list[Any]] = {
        "item": [],
        "class": [],
        "verdict": [],
        "propensity": [],
        "at": [],
    }
    chances = np.array([0.52, 0.12, 0.12, 0.12, 0.12])
    for item in range(1500):
        said: list[str] = []
        while not said or (said[-1] == again and len(said) < 3):
            c = int(rng.choice(5, p=chances))
            said.append("yes" if c == item % 2 else "no")
            for name, value in zip(
                rows, (item, c, said[-1], float(chances[c]), float(len(rows["at"]))), strict=True
            ):
                rows[name].append(value)
    shuffled = rng.permutation(len(rows["item"])).tolist()
    evidence = Evidence.from_tables(
        judgements={name: [column[i] for i in shuffled] for name, column in rows.items()},
        n_classes=5,
    )
    counts = count_judgements(evidence)
    assert sum(counts.questions.values()) == 1500
    assert check_yes_rate(counts).passed
    assert check_routing(counts).passed
