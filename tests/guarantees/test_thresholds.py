"""Bounds and certificates at every threshold of a score hold together, in worlds where each alone
is as likely to fail as it may be.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from noracle import ArgumentError, RatingCounts, certify_thresholds, estimate_ceiling
from noracle import estimate_ceilings as ceilings
from noracle.evidence import Ratings

SCORES = (1, 2, 3, 4, 5)


def votes_around(rng: np.random.Generator, n: int, split: float) -> np.ndarray:
    """Three ratings: each item is contested at one threshold, where with chance ``split`` one of
    the three is on the wrong side. The most frequent side is always the right one.
    """
    contested = rng.integers(1, 5, n)
    right_above = rng.random(n) < 0.5
    rows = np.repeat(np.where(right_above, contested, contested - 1)[:, None], 3, axis=1)
    odd = rng.random(n) < split
    rows[odd, 0] = np.where(right_above, contested - 1, contested)[odd]
    return rows.astype(np.int16)


def at_most(misses: int, n: int, rate: float) -> bool:
    return bool(binomtest(misses, n, rate, alternative="greater").pvalue > 1e-3)


@pytest.mark.full
@pytest.mark.parametrize(("n", "split"), [(60, 0.5), (400, 0.9), (25, 0.05)])
def test_ceilings_at_all_thresholds_hold_together(n: int, split: float) -> None:
    """Top and right share are the same here, so that a ceiling is exactly the accuracy."""
    truth = 1 - split / 3 / 4  # at each threshold a quarter of the items is contested
    misses, widths = 0, []
    for world in range(500):
        rng = np.random.default_rng([21, n, world])
        counts = RatingCounts.from_arrays(votes_around(rng, n, split), labels=5)
        found = ceilings(counts, confidence=0.8)
        misses += any(e.high < truth for e in found)
        widths.append(float(np.mean([e.high - truth for e in found])))
    assert at_most(misses, 500, 0.2)
    assert np.mean(widths) < 1 - truth or split < 0.1


@pytest.mark.full
@pytest.mark.parametrize("shared", [False, True])
def test_no_certificate_at_any_threshold_is_false(shared: bool) -> None:
    """The system is as often on the vote's side as a rating is, at every threshold."""
    false, some = 0, 0
    for world in range(500):
        rng = np.random.default_rng([22, int(shared), world])
        rows = votes_around(rng, 150, 0.9)
        if shared:  # all thresholds are contested at once
            rows = np.where(rows > np.median(rows, axis=1)[:, None], 4, 0).astype(np.int16)
            rows = np.where(rng.random(len(rows))[:, None] < 0.5, 4 - rows, rows).astype(np.int16)
        vote = np.median(rows, axis=1).astype(np.int16)
        picked = rows[np.arange(len(rows)), rng.integers(0, 3, len(rows))]
        for answers, name in ((picked, "false"), (vote, "true")):
            counts = RatingCounts.from_arrays(rows, labels=5, answers={"agent": answers.tolist()})
            found = certify_thresholds(counts, trained_on_annotators="no", confidence=0.8)
            certified = any(c.certified for c in found)
            false += certified and name == "false"
            some += certified and name == "true"
    assert at_most(false, 500, 0.2)
    assert some > 250  # a system on the vote's side is seen to be better


def test_each_threshold_is_the_ceiling_of_scores_cut_there() -> None:
    rows = votes_around(np.random.default_rng(3), 80, 0.5)
    counts = RatingCounts.from_arrays(rows, labels=SCORES)
    for t, joint in enumerate(ceilings(counts), start=1):
        cut = RatingCounts.from_arrays((rows >= t).astype(np.int16), labels=2)
        alone = estimate_ceiling(cut, confidence=1 - 0.05 / 4)
        assert joint.value == pytest.approx(alone.value)
        assert joint.high == pytest.approx(alone.high)
        assert joint.confidence == 0.95
        assert joint.guarantee.error_rate == pytest.approx(0.05)
        assert joint.value >= estimate_ceiling(counts).value - 1e-12
    agent = {"agent": rows[:, 0].tolist()}
    with_answers = RatingCounts.from_arrays(rows, labels=SCORES, answers=agent)
    for made in certify_thresholds(with_answers, trained_on_annotators="no"):
        assert made.verify()
        assert made.confidence == pytest.approx(1 - 0.05 / 4)


def test_pairs_of_raters_are_cut_too() -> None:
    table = {"item": [1, 1, 2, 2], "rater": ["a", "b"] * 2, "label": [1, 3, 2, 2]}
    found = ceilings(Ratings.from_tables(table), method="pairwise")
    assert [e.subject[-1] for e in found] == ["2", "3"]


def test_labels_in_no_order_are_refused() -> None:
    counts = RatingCounts.from_votes([[1, 2, 0]], labels=[3, 1, 2])
    with pytest.raises(ArgumentError, match="ascending order"):
        ceilings(counts)
    words = {"item": [1, 1], "rater": ["a", "b"], "label": ["poor", "good"]}
    with pytest.raises(ArgumentError, match="must be given in ascending order"):
        ceilings(Ratings.from_tables(words))
    assert len(ceilings(Ratings.from_tables(words, labels=["poor", "good"]))) == 1
    one = RatingCounts.from_votes([[2]], labels=[1])
    with pytest.raises(ArgumentError, match="two scores or more"):
        ceilings(one)


def test_clusters_are_refused() -> None:
    ratings = Ratings.from_tables(
        {"item": [1, 1], "rater": ["a", "b"], "label": [1, 2]},
        {"item": [1], "system": ["s"], "answer": [1]},
        items={"item": [1], "cluster": ["c"]},
    )
    with pytest.raises(ArgumentError, match="clusters"):
        certify_thresholds(ratings)
