"""Intervals that hold at every look: the proofs of the module, checked by enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from noracle.bounds.binomial import anytime
from noracle.collect.live.estimates import (
    Hits,
    answer_shares,
    class_limits,
    hits_of,
    label_cells,
    set_error,
    set_limits,
    unsure_limits,
)
from noracle.collect.live.records import NO, UNANSWERED, UNSURE, YES, Rows, open_places

FOREVER = np.iinfo(np.int64).max


def rows_of(
    pool: list[int],
    value: list[int],
    *,
    held: list[int] | None = None,
    item: list[int] | None = None,
) -> Rows:
    n = len(pool)
    return Rows(
        item=np.array(item if item is not None else range(n)),
        place=np.arange(n),
        pool=np.array(pool),
        kind=np.zeros(n, dtype=np.int64),
        value=np.array(value),
        unsure=np.array(value) == UNSURE,
        held=np.isin(np.arange(n), held or []),
        expired=np.zeros(n, dtype=np.int64),
    )


@pytest.mark.parametrize("n_classes", [2, 3, 10, 37, 1000])
def test_the_errors_of_all_sets_sum_to_at_most_the_error(n_classes: int) -> None:
    total = math.fsum(
        math.comb(n_classes, j) * set_error(0.05, n_classes, j) for j in range(n_classes)
    )
    assert total <= 0.05


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize(
    "decided",
    [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 2, 3), (5, 2, 1, 20), (0, 0, 4, 9), (12, 0, 0, 30)],
)
@pytest.mark.parametrize("hidden", [(1, 0), (0, 3), (3, 4)])
def test_two_corners_are_the_union_over_all_hidden_verdicts(
    n_classes: int, decided: tuple[int, ...], hidden: tuple[int, int]
) -> None:
    yh, ym, nh, nm = decided
    uh, um = hidden
    found = [
        anytime(label_cells(yh + a, ym + b, nh + uh - a, nm + um - b, n_classes), 0.05)
        for a, b in itertools.product(range(uh + 1), range(um + 1))
    ]
    worst = anytime(label_cells(yh, ym + um, nh + uh, nm, n_classes), 0.05)
    best = anytime(label_cells(yh + uh, ym, nh, nm + um, n_classes), 0.05)
    assert worst.low <= min(f.low for f in found) + 1e-9
    assert best.high >= max(f.high for f in found) - 1e-9


def test_unsure_is_never_a_no() -> None:
    low, high = unsure_limits(80, 0, 20, 0.05)
    assert low < 0.8 < 0.95 < high
    assert unsure_limits(80, 20, 0, 0.05)[1] < high
    assert unsure_limits(0, 0, 0, 0.05) == (0.0, 1.0)


def test_open_places_stop_at_what_somebody_holds_and_pass_what_nobody_could_be_asked() -> None:
    rows = rows_of([0, 0, 0, 1, 1, 1], [YES, UNANSWERED, NO, YES, UNANSWERED, UNANSWERED], held=[1])
    assert open_places(rows, 3).tolist() == [1, 4, FOREVER]
    passed_over = rows_of([0, 0, 0, 0], [YES, UNANSWERED, NO, UNANSWERED])
    assert open_places(passed_over, 1).tolist() == [3]


def test_an_absent_class_contributes_between_nothing_and_its_share() -> None:
    rng = np.random.default_rng(1)
    pool = rng.integers(4, size=4000)
    answers = rng.integers(4, size=4000)
    value = np.where(pool == 3, UNANSWERED, np.where(rng.random(4000) < 0.8, YES, NO))
    main = rows_of(pool.tolist(), value.tolist())
    hits = hits_of(main, answers, 4)
    limits = set_limits(hits, open_places(main, 4), error=0.05, everything=True)
    low, high = max(s.low for s in limits), min(s.high for s in limits)
    share = answer_shares(main, answers, 4)
    assert 0.5 < low < 0.8 * share[:3].sum() < 0.8 * share[:3].sum() + share[3] < high < 1
    assert high - low > share[3]


def test_sets_without_hits_say_nothing() -> None:
    hits = Hits(
        pool=np.zeros(0, int),
        place=np.zeros(0, int),
        value=np.zeros(0, int),
        shares=np.array([0.5, 0.2]),
    )
    (only,) = set_limits(hits, np.array([0, 0]), error=0.05, everything=True)
    assert (only.low, only.high) == (0.0, pytest.approx(0.7))


def test_items_without_an_answer_count_as_wrong() -> None:
    main = rows_of([0, 1, 0, 1], [YES, YES, YES, YES])
    hits = hits_of(main, np.array([0, -1, -1, 1]), 2)
    assert hits.shares.tolist() == [0.25, 0.25]
    assert set_limits(hits, open_places(main, 2), error=0.05, everything=True)[
        0
    ].high == pytest.approx(0.5)


def test_class_limits_hold_one_for_right_verdicts_and_are_vacuous_without_answers() -> None:
    none = np.zeros(3, dtype=np.int64)
    assert class_limits(none, none, none, error=0.05) == (0.0, 3.0)
    low, high = class_limits(np.array([500, 300, 200]), np.array([1000] * 3), none, error=0.05)
    assert low < 1 < high
    low, _ = class_limits(np.array([700, 600, 500]), np.array([1000] * 3), none, error=0.05)
    assert low > 1
