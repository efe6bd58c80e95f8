"""Certificates from published figures; the cases are Tables 2 and 3 of Xu, Walder and Xu (ICLR
2023).
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from noracle.errors import ArgumentError
from noracle.results import Certificate, Kind
from noracle.superhuman.published import certify_published, hms_score, oms_score
from noracle.superhuman.statement import SIX

# match rate, U_e, items, annotations an item, classes
CASES = {
    "Devlin SST-2": (0.949, 0.939, 1821, 3, 2),
    "Wang SST-2": (0.971, 0.939, 1821, 3, 2),
    "Radford SNLI": (0.899, 0.879, 10_000, 5, 3),
    "Zhang SNLI": (0.919, 0.879, 10_000, 5, 3),
}


def certify(case: str, **options: Any) -> Certificate:
    rate, u_e, n, k, classes = CASES[case]
    return certify_published(
        rate,
        u_e**2,
        n,
        k,
        n_classes=classes,
        system=case,
        **{"trained_on_annotators": "no", **options},
    )


@pytest.mark.parametrize(
    ("case", "hms"),
    [
        ("Wang SST-2", 0.4730),
        ("Radford SNLI", 0.8482),
        ("Zhang SNLI", 0.9997),
        ("Devlin SST-2", None),
    ],
)
def test_hms_matches_table_3(case: str, hms: float | None) -> None:
    score = certify(case, test="paper-hms", ceiling="paper-empirical").diagnostics["score"]
    if hms is None:
        assert score < 0
    else:
        assert round(score, 4) == hms


@pytest.mark.parametrize(
    ("case", "oms"),
    [
        ("Wang SST-2", 0.620776),
        ("Radford SNLI", 0.926682),
        ("Zhang SNLI", 0.999996),
        ("Devlin SST-2", -0.273021),
    ],
)
def test_oms_is_the_optimum(case: str, oms: float) -> None:
    rate, u_e, n, _, _ = CASES[case]
    assert oms_score(rate, u_e, n) == pytest.approx(oms, abs=1e-6)
    grid = np.linspace(u_e, rate, 200_001)
    best = 1 - np.min(
        np.exp(-2 * n * (grid**2 - u_e**2) ** 2) + np.exp(-2 * n * (rate - grid) ** 2)
    )
    assert oms_score(rate, u_e, n) == pytest.approx(best, abs=1e-9)
    assert certify(case, test="paper-oms", ceiling="paper-empirical").attained == pytest.approx(
        max(0.0, oms), abs=1e-6
    )


@pytest.mark.full
@pytest.mark.timing
def test_oms_takes_at_most_two_milliseconds() -> None:
    oms_score(0.971, 0.939, 1821)
    times = []
    for rate, u_e, n, _, _ in CASES.values():
        for _ in range(20):
            start = time.process_time()
            oms_score(rate, u_e, n)
            times.append(time.process_time() - start)
    assert sorted(times)[len(times) // 2] <= 0.002


def test_oms_is_global_and_never_below_hms() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        ceiling = float(rng.uniform(0.3, 0.95))
        rate, n = float(rng.uniform(ceiling, 1)), int(10 ** rng.uniform(1, 5))
        grid = np.linspace(ceiling, rate, 20_001)
        best = 1 - np.min(
            np.exp(-2 * n * (grid**2 - ceiling**2) ** 2) + np.exp(-2 * n * (rate - grid) ** 2)
        )
        assert oms_score(rate, ceiling, n) >= best - 1e-9
        assert oms_score(rate, ceiling, n) >= hms_score(rate, ceiling, n) - 1e-9


@pytest.mark.parametrize(
    ("case", "low", "high"),
    [
        ("Devlin SST-2", 0.64, 0.67),
        ("Wang SST-2", 0.9999, 1.0),
        ("Radford SNLI", 0.969, 0.971),
        ("Zhang SNLI", 0.99999, 1.0),
    ],
)
def test_published_cases_with_exact_tails(case: str, low: float, high: float) -> None:
    result = certify(case)
    assert low <= result.attained <= high
    assert result.certified == (case != "Devlin SST-2")
    assert result.guarantee.kind is Kind.FINITE_SAMPLE
    assert {a.name for a in result.guarantee.assumptions} >= {SIX, "one true label per item"}
    assert result.diagnostics["exact_binomial"] == ("SST" in case)
    assert result.verify()


def test_ceilings_of_table_2() -> None:
    assert certify("Wang SST-2", ceiling="paper").diagnostics["ceiling"] == pytest.approx(
        0.960, abs=5e-4
    )
    assert certify("Zhang SNLI", ceiling="paper").diagnostics["ceiling"] == pytest.approx(
        0.9045, abs=5e-5
    )
    assert certify("Wang SST-2").diagnostics["ceiling"] == pytest.approx(0.9409, abs=5e-5)
    assert certify("Zhang SNLI").diagnostics["ceiling"] == pytest.approx(0.8863, abs=5e-5)


def test_with_the_ceiling_that_theorem_7_asks_for_the_published_scores_fall() -> None:
    """Table 3 puts sqrt(v) where the theorem needs U_t."""
    assert certify("Wang SST-2", test="paper-oms").diagnostics["score"] == pytest.approx(
        -0.180, abs=1e-3
    )
    assert certify("Radford SNLI", test="paper-oms").value < 0
    assert certify("Zhang SNLI", test="paper-oms").attained == pytest.approx(0.672, abs=1e-3)


def test_rounding_is_allowed_for_on_the_unfavourable_side() -> None:
    for case in CASES:
        plain, careful = certify(case), certify(case, digits=3)
        assert careful.attained <= plain.attained
        assert careful.value < plain.value
        assert careful.verify()
        assert any("least favourable" in note for note in careful.notes)
        assert any("taken as exact" in note for note in plain.notes)


def test_matches_are_whole_and_said() -> None:
    assert certify("Devlin SST-2").diagnostics["match_rate"] == round(0.949 * 1821) / 1821
    assert "1,728 matches of 1,821 items" in certify("Devlin SST-2").notes[0]


@pytest.mark.parametrize("test", ["exact", "paper-hms", "paper-oms"])
def test_worse_than_people_is_never_certified(test: str) -> None:
    for rate in (0.0, 0.5, 0.80, 0.87):
        result = certify_published(
            rate,
            0.879**2,
            10_000,
            5,
            test=test,
            ceiling="paper-empirical",
            trained_on_annotators="no",
        )  # type: ignore[arg-type]
        assert not result.certified
        assert result.attained == 0.0
        assert result.verify()


def test_one_rater_says_nothing() -> None:
    result = certify_published(1.0, 1.0, 100_000, 1, trained_on_annotators="no")
    assert not result.certified
    assert "one rating" in result.reasons[0]


def test_hms_with_a_small_ceiling_does_not_square_a_negative_slack() -> None:
    """t_u = 0.05 and sqrt(0.05 + 0.04) = 0.3 = L: with U below that the second slack is negative."""
    assert hms_score(0.2, 0.1, 10**6) <= 0.0
    assert 0.2 - math.sqrt(0.05 + 0.01) < 0


def test_agreement_may_come_from_other_items() -> None:
    few = certify("Wang SST-2", agreement_items=300)
    assert few.attained < certify("Wang SST-2").attained
    assert few.verify()


@pytest.mark.parametrize(
    ("figures", "options", "message"),
    [
        ((97.1, 0.88, 1821, 3), {}, r"match_rate must be in \[0, 1\]; got 97.1. Pass a share"),
        ((0.971, math.nan, 1821, 3), {}, r"agreement must be in \[0, 1\]"),
        ((0.971, 0.88, 0, 3), {}, "n_items must be a whole number of at least 1"),
        ((0.971, 0.88, 1821, 2.5), {}, "n_raters must be a whole number"),
        (
            (0.971, 0.88, 1821, 3),
            {"n_classes": 1},
            "n_classes must be a whole number of at least 2",
        ),
        ((0.971, 0.88, 1821, 3), {"test": "t"}, "test must be one of"),
        ((0.971, 0.88, 1821, 3), {"ceiling": "plurality"}, "ceiling must be one of"),
        (
            (0.971, 0.88, 1821, 3),
            {"test": "paper-oms", "ceiling": "free"},
            "ceiling must be 'paper' or 'paper-empirical'",
        ),
        ((0.971, 0.88, 1821, 3), {"margin": -1}, r"margin must be in \[0, 1\)"),
    ],
)
def test_bad_figures_are_named(
    figures: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        certify_published(*figures, **options)
