"""Drift: run lengths while nothing falls, what a judge saves, and the set for the change.

A run is cut at a horizon, so that the mean shown is a lower bound of the average run length.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from noracle.accuracy.drift import DriftRule, drift_of
from noracle.bounds.drift import change_points, detector_path
from tests.guarantees.drift_worlds import KINDS, found, graded, judged

SLOW = pytest.mark.slow


def run_lengths(kind: str, n: int, rule: DriftRule, accuracy: np.ndarray) -> np.ndarray:
    """The label that raised the alarm in each stream, or the last one."""
    return np.array([d.label or len(accuracy) for d in found(kind, range(n), accuracy, rule)])


def assert_long_enough(lengths: np.ndarray, promised: float) -> None:
    assert lengths.mean() >= promised - 2 * lengths.std() / math.sqrt(len(lengths))


def test_run_length_on_the_boundary_in_many_streams() -> None:
    rng, horizon = np.random.default_rng(1), 4000
    for level in (0.02, 0.5, 0.8, 0.98):
        right = (rng.random((horizon, 100)) < level).astype(float)
        path = detector_path(right, 1.0, level, run_length=500)
        reached = np.vstack([path >= 500, np.ones((1, 100), dtype=bool)])
        lengths = reached.argmax(axis=0) + 1.0
        assert_long_enough(lengths, 500)
        # It is not that nothing is ever found: the promise is met, not missed by far.
        assert lengths.mean() < 3200


@pytest.mark.parametrize("kind", [*KINDS])
@pytest.mark.parametrize("n", [20, pytest.param(500, marks=SLOW)])
def test_average_run_length_is_as_promised(kind: str, n: int) -> None:
    promised = 100 if n == 20 else 500
    rule = DriftRule(floor=0.8, run_length=promised, window=500)
    lengths = run_lengths(kind, n, rule, np.full(4 * promised, 0.8))
    assert_long_enough(lengths, promised)
    if n == 500:
        assert lengths.mean() >= promised


@SLOW
@pytest.mark.parametrize("kind", [*KINDS])
def test_average_run_length_where_accuracy_moves_above_the_level(kind: str) -> None:
    rule = DriftRule(floor=0.85, margin=0.05, run_length=500, window=500)
    accuracy = 0.8 + 0.1 * np.abs(np.sin(np.arange(2000) / 100))
    assert run_lengths(kind, 500, rule, accuracy).mean() >= 500


@SLOW
def test_average_run_length_where_the_reference_is_estimated() -> None:
    rng, lengths = np.random.default_rng(5), []
    rule = DriftRule(reference="2026-01", run_length=300, confidence=0.9)
    for _ in range(500):
        labels, _ = graded(rng, np.full(1300, 0.85))
        at = [f"2026-{1 if i < 100 else 2:02d}-01T00:00:00" for i in range(1300)]
        labels = [m._replace(at=t) for m, t in zip(labels, at, strict=True)]
        lengths.append((drift_of("a", labels, (), rule).label or 1300) - 100)
    assert np.mean(lengths) >= 300


def delays(
    n: int, *, companions: int, before: int = 1000, after: int = 1500
) -> tuple[float, float]:
    """Mean labels from a fall by 10 points to the alarm, without a judge and with one; with it all
    labels that were in when the window of the alarm had ended are counted.
    """
    accuracy = np.concatenate([np.full(before, 0.85), np.full(after, 0.75)])
    window = 20 * (companions + 1)
    rule = DriftRule(floor=0.8, run_length=10_000, window=window)
    alone, helped = [], []
    for seed in range(n):
        rng = np.random.default_rng([seed, 70])
        seen = drift_of("a", *graded(rng, accuracy), rule).label or len(accuracy)
        alone += [seen - before] if seen > before else []
        labels, verdicts = judged(rng, accuracy, companions=companions)
        seen = drift_of("a", labels, verdicts, rule).label or len(accuracy)
        closed = math.ceil(seen / 20) * 20 + 1
        helped += [closed - before] if seen > before else []
    assert len(alone) > 0.9 * n < 1.1 * len(helped)
    return float(np.mean(alone)), float(np.mean(helped))


@SLOW
def test_a_judge_finds_a_fall_with_seventy_percent_of_the_labels() -> None:
    # 200 labels a day of 6,000 answers; the judge calls .9 of the right and .15 of the wrong right.
    alone, helped = delays(150, companions=29)
    assert helped <= 0.7 * alone
    assert helped > 20  # not at once


def coverage(
    kind: str, n: int, base: float, since: float, level: float
) -> tuple[float, int, float]:
    """Coverage of the change among true alarms, their number, and the median width."""
    before = 300
    accuracy = np.concatenate([np.full(before, base), np.full(700, since)])
    rule = DriftRule(floor=level, run_length=2000, window=250)
    true = [
        d for d in found(kind, range(n), accuracy, rule) if d.label is not None and d.label > before
    ]
    spans = [d.since or (0, 0) for d in true]
    hit = [first <= before + 1 <= last for first, last in spans]
    return float(np.mean(hit)), len(hit), float(np.median([last - first for first, last in spans]))


WORLDS = [(0.8, 0.6, 0.8), (0.95, 0.6, 0.8), (0.8, 0.3, 0.8), (0.9, 0.7, 0.8), (0.99, 0.8, 0.95)]


@SLOW
@pytest.mark.parametrize("kind", [*KINDS])
@pytest.mark.parametrize(("base", "since", "level"), WORLDS)
def test_the_set_for_the_change_covers(kind: str, base: float, since: float, level: float) -> None:
    covered, n, _ = coverage(kind, 500, base, since, level)
    assert n >= 100
    assert covered >= 0.95 - 2 * math.sqrt(0.95 * 0.05 / n)


def test_the_set_for_the_change_covers_and_says_something() -> None:
    covered, n, width = coverage("graded", 30, 0.95, 0.5, 0.8)
    assert n >= 25
    assert covered >= 0.95 - 2 * math.sqrt(0.95 * 0.05 / n)
    assert width < 100  # of more than 300 labels


def test_the_set_without_an_alarm_before_it_is_as_sure_as_it_says() -> None:
    # The error of both directions together, with the change known and the end fixed.
    rng, missed = np.random.default_rng(3), 0
    for _ in range(120):
        right = (rng.random(200) < np.repeat([0.8, 0.5], 100)).astype(float)
        first, last = change_points((right, 0.0), (right, 1.0), 0.8, 0.2)
        missed += not first <= 100 <= last
    assert missed / 120 <= 0.2
    assert missed > 0  # it is no set of everything
