"""Parts that are compared with each other: no false alarms where all is true, and every planted
contradiction is named.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from noracle.accuracy import compare_systems, estimate_accuracy
from noracle.counts import AccuracyCounts, Cell, Pattern, PatternCounts, Sketch, Tally
from noracle.logic.cascade import prove_malfunction
from noracle.logic.ranges import range_accuracies
from noracle.oversight.findings import find_contradictions
from noracle.oversight.model import Finding, Step
from noracle.results import (
    Assumption,
    Certificate,
    Check,
    Comparison,
    Difference,
    Estimate,
    Guarantee,
    Kind,
    Range,
    Ranges,
    Rank,
    Result,
)

FINITE = Guarantee(
    kind=Kind.FINITE_SAMPLE, error_rate=0.01, assumptions=(Assumption(name="iid items"),)
)
LOGICAL = Guarantee(kind=Kind.LOGICAL, error_rate=0.0, assumptions=(Assumption(name="one truth"),))


def step(name: str, *results: Result) -> Step:
    return Step(
        name=name, question=f"{name}?", status="done", results=results, command=f"noracle {name}"
    )


def accuracy(
    name: str,
    low: float,
    high: float,
    *,
    items: int = 100,
    without: int = 0,
    guarantee: Guarantee = FINITE,
) -> Estimate:
    counts = {"items": items, "without_answer": without}
    return Estimate(
        quantity="accuracy",
        subject=name,
        value=(low + high) / 2,
        low=low,
        high=high,
        confidence=0.99,
        method="ml",
        interval="exact",
        guarantee=guarantee,
        counts=counts,
    )


def ranges(**grades: tuple[float, float]) -> Ranges:
    found = tuple(
        Range(name=f"grade of {name}", low=low, high=high) for name, (low, high) in grades.items()
    )
    return Ranges(ranges=found, method="every key", guarantee=LOGICAL)


def against(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(f.name, f.subject) for f in findings if not f.agrees]


# ------------------------------------------------------------------------------------------------------------------
# worlds


def possible_grades(answers: np.ndarray, allowed: np.ndarray) -> list[tuple[float, float]]:
    """Share of answered items whose answer is the only possible label, and of those whose answer is
    possible: each item has its own truth, so that all can be as bad, or as good, at once.
    """
    rows = np.arange(len(answers))
    found = []
    for given in answers.T:
        can = allowed[rows, given] & (given >= 0)
        sure = can & (allowed.sum(axis=1) == 1)
        n = max(1, int((given >= 0).sum()))
        found.append((sure.sum() / n, can.sum() / n))
    return found


def world_steps(
    rng: np.random.Generator, error: float, *, programs: bool = False
) -> tuple[list[Step], np.ndarray]:
    """A world with three systems and one uniform question on each of some items; ``programs``: with
    the real, slower, logical ranges.
    """
    n, k = int(rng.integers(30, 250)), int(rng.integers(2, 6))
    truth = rng.integers(0, k, n)
    rates, silent = rng.uniform(0.2, 0.98, 3), rng.choice([0.0, 0.15])
    answers = np.stack(
        [np.where(rng.random(n) < r, truth, (truth + rng.integers(1, k, n)) % k) for r in rates],
        axis=1,
    )
    answers[rng.random(answers.shape) < silent] = -1
    asked = rng.permutation(n)[: int(rng.integers(n // 3, n + 1))]
    classes = rng.integers(0, k, n)
    yes = classes == truth
    names = ("a", "b", "c")
    tallies: Counter[Tally] = Counter()
    patterns: Counter[Pattern] = Counter()
    allowed = np.ones((n, k), dtype=bool)
    for i in asked:
        verdict = "yes" if yes[i] else "no"
        allowed[i] = np.arange(k) == classes[i] if yes[i] else np.arange(k) != classes[i]
        hits = []
        for j, name in enumerate(names):
            given, hit = answers[i, j] >= 0, bool(answers[i, j] == classes[i])
            tallies[
                Tally(name, k, verdict, hit, bool(given), int(not yes[i]), hit and not yes[i])
            ] += 1  # type: ignore[arg-type]
            hits.append(hit if given else None)
        patterns[Pattern(k, verdict, tuple(hits), n_ruled_out=int(not yes[i]))] += 1  # type: ignore[arg-type]
    cells = {Cell(name, k): n for name in names}
    answered = {Cell(name, k): int((answers[:, j] >= 0).sum()) for j, name in enumerate(names)}
    counts = AccuracyCounts(tallies=dict(tallies), items=cells, answered=answered)
    level = 1 - error / 4
    estimates = [estimate_accuracy(counts.of(name), confidence=level) for name in names]
    comparison = compare_systems(
        PatternCounts(systems=names, patterns=dict(patterns)), confidence=level
    )
    sketch = Sketch.from_arrays(
        answers, labels=[str(c) for c in range(k)], classifiers=names, allowed=allowed
    )
    found = [
        Ranges(
            ranges=(Range(name=f"grade of {name}", low=low, high=high),),
            method="closed form",
            guarantee=LOGICAL,
        )
        for name, (low, high) in zip(names, possible_grades(answers, allowed), strict=True)
    ]
    if programs:
        found = [range_accuracies(sketch, only=f"grade of {name}", exact=False) for name in names]
    proof = prove_malfunction(
        sketch, f"grade > {rng.choice(['0.3', '0.5', '0.8'])}", time_limit=5.0
    )
    steps = [
        step("accuracy", *estimates),
        step("comparison", comparison),
        step("ranges", *found),
        step("alarm", proof),
    ]
    return steps, (answers == truth[:, None]).mean(axis=0)


def false_alarms(n: int, error: float, seed: int) -> tuple[int, int]:
    """Worlds with a contradiction, and worlds in which a possible range does not hold the accuracy,
    among n.
    """
    rng = np.random.default_rng(seed)
    wrong = outside = 0
    for _ in range(n):
        steps, truth = world_steps(rng, error)
        findings = find_contradictions(steps)
        wrong += any(not f.agrees for f in findings)
        estimates = {r.subject: r for r in steps[0].results if isinstance(r, Estimate)}
        shares = [
            1 - estimates[s].counts["without_answer"] / estimates[s].counts["items"]
            for s in ("a", "b", "c")
        ]
        found = [r.ranges[0] for r in steps[2].results if isinstance(r, Ranges)]
        outside += any(
            not r.low * s - 1e-9 <= a <= r.high * s + 1e-9
            for r, s, a in zip(found, shares, truth, strict=True)
        )
    return wrong, outside


@pytest.mark.full
def test_consistent_worlds_raise_no_more_contradictions_than_the_error_rate() -> None:
    wrong, outside = false_alarms(200, error=0.05, seed=1)
    assert wrong <= binom.ppf(0.999, 200, 0.05)
    assert outside == 0


@pytest.mark.full
def test_the_closed_form_of_the_worlds_is_what_the_programs_find() -> None:
    for seed in range(5):
        first, second = (
            world_steps(np.random.default_rng(seed), 0.05, programs=p)[0][2].results
            for p in (False, True)
        )
        ends = [
            [(r.ranges[0].low, r.ranges[0].high) for r in results if isinstance(r, Ranges)]
            for results in (first, second)
        ]
        assert np.allclose(ends[0], ends[1], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("error", [0.05, 0.5])
def test_contradictions_stay_below_the_error_rate_in_many_worlds(error: float) -> None:
    wrong, outside = false_alarms(2000, error=error, seed=2)
    assert wrong <= binom.ppf(0.999, 2000, error)
    assert outside == 0


@pytest.mark.full
def test_questions_that_were_not_asked_as_recorded_contradict_the_possible_range() -> None:
    """Every question is about the answer itself, and was recorded as asked with probability 1/2:
    scores say twice the accuracy.
    """
    rng = np.random.default_rng(3)
    for _ in range(30):
        n, rate = 1000, rng.uniform(0.4, 0.6)
        right = rng.random(n) < rate
        tallies = {
            Tally("a", 4, "yes", True, True, 0, False, "recorded", 2.0, 0.0): int(right.sum()),
            Tally("a", 4, "no", True, True, 1, True, "recorded", 0.0, 2.0): int((~right).sum()),
        }
        counts = AccuracyCounts(
            tallies=tallies, items={Cell("a", 4): n}, answered={Cell("a", 4): n}
        )
        known = np.where(right[:, None], np.eye(4, dtype=bool)[0], ~np.eye(4, dtype=bool)[0])
        sketch = Sketch.from_arrays(
            np.zeros((n, 1), dtype=int), labels="0123", classifiers=["a"], allowed=known
        )
        steps = [
            step("accuracy", estimate_accuracy(counts, confidence=0.99)),
            step("ranges", range_accuracies(sketch)),
        ]
        assert ("accuracy against possible range", "a") in against(find_contradictions(steps))


# ------------------------------------------------------------------------------------------------------------------
# each pair


def test_an_interval_outside_the_possible_range_is_named_with_both_and_the_assumptions() -> None:
    (finding,) = find_contradictions(
        [step("accuracy", accuracy("x", 0.7, 0.9)), step("ranges", ranges(x=(0.1, 0.6)))]
    )
    assert not finding.agrees
    assert finding.subject == "x"
    for part in ("CONTRADICTION", "[0.700, 0.900]", "[0.100, 0.600]", "iid items", "one truth"):
        assert part in finding.statement


def test_items_without_an_answer_are_wrong_for_the_accuracy_and_no_part_of_the_grade() -> None:
    half = accuracy("x", 0.3, 0.4, items=100, without=50)  # 0.6 to 0.8 of those answered
    assert (
        against(find_contradictions([step("accuracy", half), step("ranges", ranges(x=(0.7, 0.9)))]))
        == []
    )
    assert (
        against(find_contradictions([step("accuracy", half), step("ranges", ranges(x=(0.3, 0.4)))]))
        != []
    )


def test_a_partly_outside_interval_gives_the_shared_part() -> None:
    (finding,) = find_contradictions(
        [step("accuracy", accuracy("x", 0.5, 0.9)), step("ranges", ranges(x=(0.2, 0.7)))]
    )
    assert finding.agrees
    assert "[0.500, 0.700]" in finding.statement


def test_touching_intervals_do_not_contradict() -> None:
    assert (
        against(
            find_contradictions(
                [step("accuracy", accuracy("x", 0.6, 0.9)), step("ranges", ranges(x=(0.2, 0.6)))]
            )
        )
        == []
    )


def test_weights_and_repeats_are_not_held_against_shares_of_items() -> None:
    steps = [step("accuracy", accuracy("x", 0.7, 0.9)), step("ranges", ranges(x=(0.1, 0.6)))]
    assert find_contradictions(steps, weighted=True) == ()
    repeated = accuracy("x", 0.7, 0.9)
    repeated = Estimate.from_dict(
        {**repeated.to_dict(), "counts": {**repeated.counts, "answers": 200}}
    )
    assert find_contradictions([step("accuracy", repeated), steps[1]]) == ()


def compared(low: float, high: float, unused: int = 0) -> Comparison:
    counts = {
        "unused": {"labelled items that some system was not asked about": unused} if unused else {}
    }
    return Comparison(
        systems=("x", "y"),
        differences=(
            Difference(first="x", second="y", value=(low + high) / 2, low=low, high=high),
        ),
        ranks=(
            Rank(system="x", best=1, worst=2, value=0.5),
            Rank(system="y", best=1, worst=2, value=0.5),
        ),
        leaders=("x", "y"),
        confidence=0.99,
        method="paired",
        interval="betting",
        guarantee=FINITE,
        counts=counts,
    )


def test_a_difference_that_the_accuracies_do_not_allow_is_a_contradiction() -> None:
    both = step("accuracy", accuracy("x", 0.8, 0.9), accuracy("y", 0.4, 0.5))  # x - y in [0.3, 0.5]
    assert against(find_contradictions([both, step("comparison", compared(-0.2, 0.1))])) == [
        ("comparison against accuracy", "x and y")
    ]
    assert against(find_contradictions([both, step("comparison", compared(0.1, 0.4))])) == []


def test_systems_on_different_items_are_not_held_against_each_other() -> None:
    both = step("accuracy", accuracy("x", 0.8, 0.9), accuracy("y", 0.4, 0.5))
    assert (
        against(find_contradictions([both, step("comparison", compared(-0.2, 0.1, unused=7))]))
        == []
    )
    other = step("accuracy", accuracy("x", 0.8, 0.9), accuracy("y", 0.4, 0.5, items=90))
    assert against(find_contradictions([other, step("comparison", compared(-0.2, 0.1))])) == []


SKETCH = Sketch.from_counts(
    {("A", "B"): 50, ("B", "A"): 50}, classifiers=["x", "y"], labels=["A", "B"]
)


def test_a_refuted_claim_about_grades_contradicts_intervals_that_are_all_above() -> None:
    alarm = step("alarm", prove_malfunction(SKETCH, "grade > 1/2"))
    above = step("accuracy", accuracy("x", 0.6, 0.9), accuracy("y", 0.7, 0.9))
    assert ("alarm against accuracy", "") in against(find_contradictions([above, alarm]))
    one_below = step("accuracy", accuracy("x", 0.4, 0.9), accuracy("y", 0.7, 0.9))
    assert against(find_contradictions([one_below, alarm])) == []


def test_a_refuted_claim_about_labels_does_not_contradict_accuracies_over_all_labels() -> None:
    """99 of 100 items are A and both are right on all of them; on the one B both are wrong: 0.99
    overall, 0 on B.
    """
    sketch = Sketch.from_arrays(
        [[0, 0]] * 100, labels=["A", "B"], classifiers=["x", "y"], known=[0] * 99 + [1]
    )
    proof = prove_malfunction(sketch, "accuracy > 1/2")
    assert proof.status == "alarm"
    high = step("accuracy", accuracy("x", 0.95, 1.0), accuracy("y", 0.95, 1.0))
    assert against(find_contradictions([high, step("alarm", proof)])) == []


def test_a_silent_alarm_beside_a_low_interval_is_explained_and_no_contradiction() -> None:
    agreeing = Sketch.from_counts(
        {("A", "A"): 50, ("B", "B"): 50}, classifiers=["x", "y"], labels=["A", "B"]
    )
    alarm = step("alarm", prove_malfunction(agreeing, "accuracy > 1/2"))
    findings = find_contradictions(
        [step("accuracy", accuracy("x", 0.1, 0.4), accuracy("y", 0.3, 0.8)), alarm]
    )
    assert against(findings) == []
    assert [f.subject for f in findings if f.name == "alarm against accuracy"] == ["x"]


def certified(name: str, margin: float, *, yes: bool = True) -> Certificate:
    return Certificate(
        claim="better",
        subject=name,
        certified=yes,
        value=0.3,
        low=0.2,
        margin=margin,
        confidence=0.99,
        method="plurality",
        test="betting",
        guarantee=FINITE,
    )


def test_certified_above_a_margin_contradicts_an_accuracy_below_it_on_the_same_items_only() -> None:
    steps = [step("accuracy", accuracy("x", 0.05, 0.15)), step("certificate", certified("x", 0.2))]
    assert against(find_contradictions(steps, same_items=True)) == [
        ("certificate against accuracy", "x")
    ]
    assert against(find_contradictions(steps)) == []
    assert (
        against(
            find_contradictions(
                [steps[0], step("certificate", certified("x", 0.2, yes=False))], same_items=True
            )
        )
        == []
    )
    assert (
        against(
            find_contradictions(
                [steps[0], step("certificate", certified("x", 0.0))], same_items=True
            )
        )
        == []
    )


def test_accuracy_above_the_ceiling_says_better_than_the_annotators() -> None:
    ceiling = Estimate(
        quantity="ceiling",
        subject="average annotator",
        value=0.8,
        low=0.0,
        high=0.85,
        confidence=0.99,
        method="plurality",
        interval="betting",
        guarantee=FINITE,
    )
    steps = [
        step("accuracy", accuracy("x", 0.9, 0.99), accuracy("y", 0.7, 0.99)),
        step("ceiling", ceiling),
    ]
    findings = find_contradictions(steps, same_items=True)
    assert [(f.subject, f.agrees) for f in findings if f.name == "accuracy against ceiling"] == [
        ("x", True)
    ]
    assert not [f for f in find_contradictions(steps) if f.name == "accuracy against ceiling"]


def test_a_failed_check_is_a_finding_and_sensitivity_is_none() -> None:
    failed = Check(
        name="routing",
        assumption="uniform routing",
        p_value=1e-9,
        statistic=50.0,
        finding="class 3 never",
        method="chi-square",
    )
    weak = Check(
        name="sensitivity",
        assumption="right verdicts",
        p_value=0.0,
        statistic=0.0,
        finding="not supported",
        method="limits",
    )
    findings = find_contradictions(
        [step("accuracy", accuracy("x", 0.7, 0.9)), step("checks", failed, weak)]
    )
    assert against(findings) == [("failed check: routing", "")]
    assert "class 3 never" in findings[0].statement
