"""Accuracy with a judge: exact coverage, what the judge saves, and answers of real models.

Two parts with known shares, people's grades a random sample of each: all outcomes are enumerated.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from noracle import Evidence, check_judge, estimate_with_judges
from noracle.accuracy.judge import worth_parts
from noracle.bounds.binomial import BinomialCell, clopper_pearson
from noracle.bounds.parts import Part, sum_limits
from tests.guarantees.matrix.judges import JUDGES, SETTINGS, coverage_of


def test_there_are_sixty_settings() -> None:
    assert len(SETTINGS) >= 60


@pytest.mark.thin(12)
@pytest.mark.parametrize("setting", SETTINGS)
def test_two_parts_cover_by_enumeration(setting: str) -> None:
    covered, width, _ = coverage_of(SETTINGS[setting])
    assert covered >= 0.95 - 1e-9
    assert width < 0.95


# what the judge saves


@functools.cache
def width_alone(accuracy: float, n: int) -> float:
    """The mean width of Clopper–Pearson."""
    law = binom(n, accuracy)
    seen = [k for k in range(n + 1) if law.pmf(k) > 1e-7]
    limits = [clopper_pearson(k, n, 0.025, 0.025) for k in seen]
    return sum(
        float(law.pmf(k)) * (high - low) for k, (low, high) in zip(seen, limits, strict=True)
    )


def labels_needed(accuracy: float, judge: tuple[float, float], n: int, worlds: int = 60) -> float:
    """Labels with the judge over those that people alone need for the same mean width, items
    without end.
    """
    rng = np.random.default_rng(8)
    q = accuracy * judge[0] + (1 - accuracy) * (1 - judge[1])
    rates = (accuracy * judge[0] / q, accuracy * (1 - judge[0]) / (1 - q))
    widths = []
    for _ in range(worlds):
        m = rng.binomial(n, q)
        sizes = (m, n - m)
        seen = [int(rng.binomial(k, r)) for k, r in zip(sizes, rates, strict=True)]
        cells = [BinomialCell(k, s) for k, s in zip(sizes, seen, strict=True)]
        if worth_parts([(round(1e6 * q), m), (round(1e6 * (1 - q)), n - m)]):
            parts = [Part(share, (cell,)) for share, cell in zip((q, 1 - q), cells, strict=True)]
        else:
            parts = [Part(1.0, (BinomialCell(n, sum(seen)),))]
        found = sum_limits(parts, 0.025, 0.025)
        widths.append(found.high - found.low)
    wide = float(np.mean(widths))
    return n / brentq(lambda k: _interpolated(accuracy, k) - wide, 2, 40 * n)


def _interpolated(accuracy: float, k: float) -> float:
    low = math.floor(k)
    return width_alone(accuracy, low) + (k - low) * (
        width_alone(accuracy, low + 1) - width_alone(accuracy, low)
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("accuracy", "judge", "most"),
    [
        (0.7, (0.9, 0.85), 0.70),
        (0.5, (0.95, 0.95), 0.45),
        (0.9, (0.9, 0.85), 0.85),
        (0.7, (0.05, 0.05), 0.45),
    ],
)
def test_a_good_judge_saves_labels(
    accuracy: float, judge: tuple[float, float], most: float
) -> None:
    assert labels_needed(accuracy, judge, 300) <= most


@pytest.mark.full
@pytest.mark.parametrize("accuracy", [0.5, 0.7, 0.9, 0.97])
@pytest.mark.parametrize("yes", [0.01, 0.02, 0.05, 0.2, 0.5, 0.8, 0.97])
def test_a_useless_judge_costs_nothing(accuracy: float, yes: float) -> None:
    assert labels_needed(accuracy, (yes, 1 - yes), 300) <= 1.03


# tables


def drawn_grades(
    n: int, graded: int, rng: np.random.Generator, flip: float = 0.1
) -> dict[str, list]:
    right = rng.random(n) < 0.7
    said = right ^ (rng.random(n) < flip)
    people = rng.permutation(n)[:graded]
    return {
        "item": [*range(n), *people.tolist()],
        "system": ["a"] * (n + graded),
        "verdict": [*said.tolist(), *right[people].tolist()],
        "rater": ["model"] * n + ["ann"] * graded,
        "truth": float(right.mean()),  # type: ignore[dict-item]
    }


@pytest.mark.slow
@pytest.mark.parametrize(("n", "graded", "flip"), [(60, 20, 0.1), (300, 40, 0.5), (80, 60, 0.02)])
def test_estimates_from_tables_cover(n: int, graded: int, flip: float) -> None:
    """Whole path, with the number of grades in each part left to chance."""
    rng, missed, worlds = np.random.default_rng(3), 0, 200
    for _ in range(worlds):
        grades = drawn_grades(n, graded, rng, flip)
        truth = grades.pop("truth")
        found = estimate_with_judges(Evidence.from_tables(grades=grades))["a"]
        missed += not found.low - 1e-9 <= truth <= found.high + 1e-9  # type: ignore[operator]
    assert missed <= worlds * 0.05 + 2 * math.sqrt(worlds * 0.05 * 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_ppi_covers(noise: float) -> None:
    rng, missed, worlds = np.random.default_rng(4), 0, 150
    for _ in range(worlds):
        grades = drawn_grades(400, 80, rng)
        truth = grades.pop("truth")
        sure = np.where(grades["verdict"], 0.85, 0.2) + noise * (rng.random(480) - 0.5)
        grades["guess"] = np.clip(sure, 0, 1).tolist()
        found = estimate_with_judges(Evidence.from_tables(grades=grades), method="ppi")["a"]
        missed += not found.low <= truth <= found.high  # type: ignore[operator]
        assert found.width < 0.3
    assert missed <= worlds * 0.05 + 2 * math.sqrt(worlds * 0.05 * 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("judge", ["good", "inverted", "errs with the system", "useless"])
@pytest.mark.parametrize("accuracy", [0.1, 0.7, 0.98])
def test_sensitivity_and_specificity_cover(judge: str, accuracy: float) -> None:
    """The number of grades fixed in each part, at different rates."""
    rng, missed, worlds = np.random.default_rng(5), np.zeros(3), 60
    sens, spec = JUDGES[judge]
    n = 200
    right = np.arange(n) < round(n * accuracy)
    said = np.concatenate(
        [
            np.arange(right.sum()) < round(right.sum() * sens),
            np.arange(n - right.sum()) >= round((n - right.sum()) * spec),
        ]
    )
    truth = [said[right].mean(), 1 - said[~right].mean(), (said == right).mean()]
    for _ in range(worlds):
        people = np.concatenate(
            [rng.permutation(np.flatnonzero(said == s))[:k] for s, k in ((True, 12), (False, 20))]
        )
        grades = {
            "item": [*range(n), *people.tolist()],
            "system": ["a"] * (n + len(people)),
            "verdict": [*said.tolist(), *right[people].tolist()],
            "rater": ["model"] * n + ["ann"] * len(people),
        }
        parts = check_judge(Evidence.from_tables(grades=grades), judge="model").parts
        for i, part in enumerate(parts):
            missed[i] += not part["low"] - 1e-3 <= truth[i] <= part["high"] + 1e-3
    assert (missed <= worlds * 0.05 + 3 * math.sqrt(worlds * 0.05 * 0.95)).all(), missed
