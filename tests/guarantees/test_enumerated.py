"""Coverage proved, not sampled: all samples of a small size are enumerated and the exact coverage
is checked at 401 accuracies.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from noracle import AccuracyCounts, estimate_accuracy

RATES = np.linspace(0, 1, 401)
SIZES = [
    (3, 0, 9, 1),
    (4, 6, 0, 1),
    (4, 5, 8, 1),
    (10, 2, 20, 1),
    (5, 4, 6, 2),
    (50, 1, 12, 1),
    (2, 4, 5, 1),
    (4, 3, 4, 3),
    (10, 1, 0, 1),
    (10, 0, 1, 1),
]
METHODS = {"exact": "ml", "anytime": "ml", "betting": "scores"}


def coverage(
    k: int,
    n_o: int,
    n_c: int,
    m: int,
    interval: str,
    side: str = "two-sided",
    confidence: float = 0.95,
) -> np.ndarray:
    """Exact coverage at every rate."""
    escape = 1 - (1 - RATES) * m / (k - 1)
    total = np.zeros_like(RATES)
    for s_o in range(n_o + 1):
        for s_c in range(n_c + 1):
            counts = AccuracyCounts.from_counts(
                n_classes=k, ordinary=(n_o, s_o), complementary=(n_c, s_c), n_ruled_out=m
            )
            e = estimate_accuracy(
                counts,
                method=METHODS[interval],
                interval=interval,
                side=side,
                confidence=confidence,
            )  # type: ignore[arg-type]
            chance = binom.pmf(s_o, n_o, RATES) * binom.pmf(s_c, n_c, escape)
            total += chance * ((e.low <= RATES + 1e-12) & (e.high >= RATES - 1e-12))
    return total


@pytest.mark.parametrize("interval", METHODS)
@pytest.mark.parametrize(("k", "n_o", "n_c", "m"), SIZES)
def test_coverage_holds_at_every_accuracy(
    k: int, n_o: int, n_c: int, m: int, interval: str
) -> None:
    assert coverage(k, n_o, n_c, m, interval).min() >= 0.95 - 1e-9


@pytest.mark.parametrize("interval", METHODS)
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_one_sided_coverage_holds_at_every_accuracy(interval: str, side: str) -> None:
    found = coverage(5, 4, 7, 1, interval, side, 0.8)
    assert found.min() >= 0.8 - 1e-9
    assert found.min() < 1.0


def test_exact_is_not_wasteful() -> None:
    """The least coverage over the middle is near the promise: nothing is given away to the other
    kind of label.
    """
    assert coverage(4, 12, 20, 1, "exact")[100:300].mean() < 0.98
