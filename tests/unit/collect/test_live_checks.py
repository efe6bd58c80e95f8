"""Checks of a running project: e-values by enumeration, the budget of false alarms, and what each
check sees.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from noracle.bounds.binomial import maximum_likelihood
from noracle.collect.live.checks import (
    BUDGET,
    _least_evidence,
    check_gold,
    check_panel,
    check_project,
    error_rates,
    gold_outcomes,
    likeliest_accuracy,
    outcome_chances,
    panel_outcomes,
    rates_for_correction,
    verdict_evidence,
    yes_evidence,
)
from noracle.collect.live.estimates import label_cells
from noracle.collect.live.records import (
    GOLD,
    MAIN,
    NO,
    PANEL,
    UNANSWERED,
    UNSURE,
    YES,
    Project,
    Rows,
)
from noracle.collect.live.simulation import Faults, simulate_partitioned, simulate_shown, spec_of


def project_with(
    kind: int,
    item: list[int],
    pool: list[int],
    value: list[int],
    truth: dict[int, int] | None = None,
    k: int = 3,
) -> Project:
    n = len(item)
    rows = Rows(
        item=np.array(item, dtype=np.int64),
        place=np.arange(n),
        pool=np.array(pool, dtype=np.int64),
        kind=np.full(n, kind, dtype=np.int64),
        value=np.array(value, dtype=np.int64),
        unsure=np.array(value) == UNSURE,
        held=np.zeros(n, dtype=bool),
        expired=np.zeros(n, dtype=np.int64),
    )
    return Project(
        slug="p",
        name="p",
        state="open",
        spec=spec_of("partitioned", k),
        rows=rows,
        answers={},
        truth=truth or {},
    )


def failed(project: Project) -> set[str]:
    return {c.name for c in check_project(project) if not c.passed}


def test_all_errors_sum_to_five_percent() -> None:
    assert math.fsum(BUDGET.values()) == pytest.approx(0.05)
    assert math.fsum(6 / (math.pi * j) ** 2 for j in range(1, 10_000)) <= 1


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("accuracy", [0.0, 0.3, 0.805, 1.0])
def test_the_expected_evidence_against_right_verdicts_is_at_most_one(
    n_classes: int, accuracy: float
) -> None:
    n = 9
    chances = outcome_chances(np.array([accuracy]), 0.0, 0.0, n_classes)[0] / n_classes
    counts = np.array(
        [c for c in itertools.product(range(n + 1), repeat=4) if sum(c) == n], dtype=float
    )
    ways = np.array(
        [math.factorial(n) / math.prod(math.factorial(int(v)) for v in c) for c in counts]
    )
    probability = ways * np.prod(chances**counts, axis=1)
    assert probability.sum() == pytest.approx(1)
    assert (probability * np.exp(verdict_evidence(counts, n_classes))).sum() <= 1 + 1e-9


@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_expected_evidence_against_the_yes_rate_is_one(n_classes: int) -> None:
    yes = np.arange(31.0)
    probability = np.array(
        [
            math.comb(30, int(y)) * (1 / n_classes) ** y * (1 - 1 / n_classes) ** (30 - y)
            for y in yes
        ]
    )
    assert (probability * np.exp(yes_evidence(yes, 30 - yes, n_classes))).sum() == pytest.approx(1)


@pytest.mark.parametrize(("n_classes", "shown"), [(5, 2), (10, 4), (3, 3)])
def test_the_expected_evidence_where_several_classes_are_shown_is_one(
    n_classes: int, shown: int
) -> None:
    share = shown / n_classes
    yes = np.arange(21.0)
    probability = np.array(
        [math.comb(20, int(y)) * share**y * (1 - share) ** (20 - y) for y in yes]
    )
    seen = probability > 0
    assert (
        probability[seen] * np.exp(yes_evidence(yes[seen], 20 - yes[seen], n_classes, shown))
    ).sum() == pytest.approx(1)


def test_a_missing_yes_is_found_where_several_classes_are_shown() -> None:
    fair = simulate_shown(np.random.default_rng(2), protocol="judge-all", n_items=2000).project
    assert not failed(fair)
    verdicts = fair.rows.verdicts
    assert verdicts is not None
    blind = np.where(np.random.default_rng(3).random(verdicts.shape) < 0.25, NO, verdicts)
    assert failed(
        dataclasses.replace(fair, rows=dataclasses.replace(fair.rows, verdicts=blind))
    ) == {"verdicts"}
    open_ = np.where(np.random.default_rng(3).random(verdicts.shape) < 0.25, UNSURE, verdicts)
    assert not failed(
        dataclasses.replace(fair, rows=dataclasses.replace(fair.rows, verdicts=open_))
    )


def test_the_likeliest_accuracy_is_that_of_the_library() -> None:
    rng = np.random.default_rng(3)
    for k in (2, 3, 10):
        for counts in [
            *rng.integers(0, 40, size=(30, 4)),
            np.array([0, 0, 0, 5]),
            np.array([0, 3, 0, 0]),
            np.array([4, 0, 0, 0]),
        ]:
            if not counts.sum():
                continue
            ours = float(likeliest_accuracy(counts.astype(float), k))
            theirs = maximum_likelihood(label_cells(*(int(c) for c in counts), k))
            assert ours == pytest.approx(theirs, abs=1e-9), (k, counts)


@pytest.mark.parametrize(
    "outcomes",
    [(5, 3, 2, 60, 4, 7), (0, 20, 1, 60, 3, 30), (9, 1, 0, 90, 0, 12), (0, 0, 0, 1, 5, 5)],
)
def test_the_least_evidence_is_that_of_a_full_search(outcomes: tuple[int, ...]) -> None:
    yh, ym, nh, nm, uh, um = outcomes
    every = np.array(
        [(yh + a, ym + b, nh + uh - a, nm + um - b) for a in range(uh + 1) for b in range(um + 1)],
        dtype=float,
    )
    least = float(_least_evidence(np.array([outcomes], dtype=float), 10, system=True)[0])
    assert least == pytest.approx(float(verdict_evidence(every, 10).min()), abs=1e-6)
    hidden = np.arange(uh + um + 1.0)
    every_yes = yes_evidence(yh + ym + hidden, nh + nm + uh + um - hidden, 10)
    assert (
        float(_least_evidence(np.array([outcomes], dtype=float), 10, system=False)[0])
        <= float(every_yes.min()) + 1e-9
    )


def test_a_project_under_the_protocol_has_no_alarm_and_honest_unsure_is_none() -> None:
    rng = np.random.default_rng(4)
    assert not failed(simulate_partitioned(rng, panel_items=50).project)
    assert not failed(simulate_partitioned(rng, faults=Faults(unsure=(0.1, 0.4, 0.01))).project)
    assert not failed(
        simulate_partitioned(rng, faults=Faults(speeds=tuple(np.linspace(1, 0.1, 10)))).project
    )


def test_false_yes_is_found_and_cancelling_errors_by_the_panel_alone() -> None:
    rng = np.random.default_rng(6)
    assert failed(simulate_partitioned(rng, faults=Faults(false_yes=0.03)).project) & {
        "verdicts",
        "yes rate",
        "overlap",
    }
    assert failed(
        simulate_partitioned(
            rng, faults=Faults(false_yes=0.01, false_no=0.09), panel_items=50
        ).project
    ) == {"panel"}


def test_the_yes_rate_alone_is_watched_where_there_is_no_system() -> None:
    project = simulate_partitioned(np.random.default_rng(7), faults=Faults(false_yes=0.04)).project
    assert "verdicts" in failed(dataclasses.replace(project, answers={}))


def test_work_stealing_shows_in_the_routing() -> None:
    assert "routing" in failed(
        simulate_partitioned(np.random.default_rng(8), faults=Faults(stolen=2)).project
    )


def test_a_system_that_knows_the_routes_hits_too_often() -> None:
    project = simulate_partitioned(np.random.default_rng(9), n_items=1000).project
    knows = project.answers["system"].copy()
    knows[:60] = project.rows.pool[:60]
    assert "chance hits" in failed(dataclasses.replace(project, answers={"system": knows}))


def test_three_broken_panel_items_of_fifty_are_an_alarm_and_two_are_not() -> None:
    def panel(broken: int) -> Project:
        item = [i for i in range(50) for _ in range(3)]
        value = [v for i in range(50) for v in ((YES, YES, NO) if i < broken else (YES, NO, NO))]
        return project_with(PANEL, item, [0, 1, 2] * 50, value)

    for broken, passed in ((0, True), (2, True), (3, False), (20, False)):
        check = check_panel(panel(broken))
        assert check is not None
        assert check.passed is passed, broken


def test_an_unsure_panel_item_is_broken_only_where_it_must_be() -> None:
    project = project_with(
        PANEL,
        [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3,
        [0, 1, 2] * 4,
        [NO, NO, UNSURE, NO, NO, NO, YES, YES, UNANSWERED, NO, NO, UNANSWERED],
    )
    assert panel_outcomes(project) == (4, 2, 2, 1)


def test_gold_counts_false_yes_and_false_no_apart_and_not_unsure() -> None:
    project = project_with(
        GOLD,
        [0, 1, 2, 3, 4],
        [0, 0, 1, 2, 2],
        [NO, YES, YES, UNSURE, UNANSWERED],
        {0: 0, 1: 0, 2: 2, 3: 2, 4: 1},
    )
    assert gold_outcomes(project) == (1, 2, 1, 1)
    rates = error_rates(project)
    assert rates["gold false no"].value == 0.5
    assert rates["gold false yes"].high == 1.0
    check = check_gold(project)
    assert check is not None
    assert check.counts["sealed"] == 5


def test_gold_is_tested_against_all_that_were_sealed() -> None:
    few = project_with(
        GOLD,
        list(range(200)),
        [0] * 200,
        [NO] * 2 + [YES] * 2 + [UNANSWERED] * 196,
        dict.fromkeys(range(200), 0),
    )
    check = check_gold(few)
    assert check is not None
    assert check.passed  # 2 wrong of 200 to come may be chance at 1 %
    many = project_with(
        GOLD,
        list(range(200)),
        [0] * 200,
        [NO] * 9 + [UNANSWERED] * 191,
        dict.fromkeys(range(200), 0),
    )
    worse = check_gold(many)
    assert worse is not None
    assert not worse.passed


def test_no_gold_and_no_panel_give_no_check_and_no_correction() -> None:
    project = project_with(MAIN, [0], [0], [YES])
    assert check_gold(project) is None
    assert check_panel(project) is None
    assert rates_for_correction(project) is None
    assert error_rates(project) == {}
