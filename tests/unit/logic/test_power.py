"""What the alarm can and cannot see: one classifier that guesses among good ones. The page on
alarms shows these figures for 60 runs.
"""

from __future__ import annotations

import numpy as np
import pytest

from noracle.counts.sketch import Sketch
from noracle.logic.cascade import prove_malfunction


def fired(n_classifiers: int, n_labels: int, claim: str, runs: int) -> int:
    """Alarms in ``runs`` worlds of 300 items: all are right on 85 %, but the last one guesses."""
    n = 0
    for seed in range(runs):
        rng = np.random.default_rng([13, n_classifiers, n_labels, seed])
        truth = rng.integers(0, n_labels, 300)
        accuracy = np.full(n_classifiers, 0.85)
        accuracy[-1] = 1 / n_labels
        wrong = (truth[:, None] + rng.integers(1, n_labels, (300, n_classifiers))) % n_labels
        codes = np.where(rng.random((300, n_classifiers)) < accuracy, truth[:, None], wrong)
        sketch = Sketch.from_arrays(codes, labels=list(range(n_labels)))
        n += prove_malfunction(sketch, f"accuracy > {claim}", time_limit=5).status == "alarm"
    return n


@pytest.mark.parametrize(
    ("n_classifiers", "n_labels", "claim", "share"),
    [(3, 2, "1/2", 0), (5, 5, "1/2", 0), (5, 5, "0.7", 1), (3, 3, "0.7", 1)],
)
def test_a_guesser_is_seen_at_large_claims_only(
    n_classifiers: int, n_labels: int, claim: str, share: int
) -> None:
    assert fired(n_classifiers, n_labels, claim, 10) == 10 * share


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_classifiers", "n_labels", "claim", "expected"),
    [
        (10, 5, "1/2", 0),
        (10, 2, "1/2", 0),
        (5, 2, "0.6", 0),
        (5, 5, "0.6", 60),
        (3, 2, "0.7", 9),
        (5, 2, "0.7", 8),
        (3, 3, "0.7", 60),
    ],
)
def test_figures_of_the_page_on_alarms(
    n_classifiers: int, n_labels: int, claim: str, expected: int
) -> None:
    assert fired(n_classifiers, n_labels, claim, 60) == expected
