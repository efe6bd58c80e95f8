"""Ordinal ratings by thresholds: a score of at least t is a label of its own kind, for every t."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from noracle.counts.ratings import RatingCounts, check_scores, count_ratings
from noracle.errors import require
from noracle.results import Certificate, Estimate, check_confidence
from noracle.superhuman.ceiling import estimate_ceiling
from noracle.superhuman.certify import certify_superhuman

if TYPE_CHECKING:
    from noracle.evidence.ratings import Ratings
    from noracle.superhuman.ceiling import Method
    from noracle.superhuman.certify import Test
    from noracle.superhuman.statement import Trained


def estimate_ceilings(
    ratings: Ratings | RatingCounts,
    *,
    method: Method = "plurality",
    confidence: float = 0.95,
) -> tuple[Estimate, ...]:
    """Bound the accuracy of the average annotator at every threshold of an ordinal score.

    Parameters
    ----------
    ratings
        Ratings whose labels are scores in ascending order, or counts of them.
    method
        As in :func:`estimate_ceiling`.
    confidence
        With which all bounds hold together.

    Returns
    -------
    tuple of Estimate
        One for each label but the lowest: how often the average annotation is on the right side of
        it at most, "at least t" or "below t".

    Notes
    -----
    With L labels there are L - 1 thresholds, each at error rate α = (1 - confidence)/(L - 1): together
    they err with at most 1 - confidence, however they depend on each other (Bonferroni). With five
    scores a bound is that of 98.75 %.

    An annotation is right only if it is right at every threshold, so the least of these bounds is
    also one on the accuracy over all scores; :func:`estimate_ceiling` alone is smaller or equal at
    the sample.

    Assumes one true score per item and iid items.

    References
    ----------
    Xu, Walder and Xu, "Humanly certifying superhuman classifiers" (ICLR 2023); Frank and Hall
    (2001), "A simple approach to ordinal classification", ECML.

    Examples
    --------
    >>> counts = RatingCounts.from_votes([[3, 0, 0]] * 700 + [[1, 2, 0]] * 200 + [[0, 1, 2]] * 100, labels=[1, 2, 3])
    >>> [(e.subject, round(e.value, 3)) for e in estimate_ceilings(counts)]
    [('average annotator at 2', 0.933), ('average annotator at 3', 0.967)]
    """
    counts = _scored(ratings, pairs=method == "pairwise")
    error = 1 - check_confidence(confidence)
    cuts = counts.labels[1:]
    found = []
    for at in cuts:
        one = estimate_ceiling(counts.at(at), method=method, confidence=1 - error / len(cuts))
        found.append(
            dataclasses.replace(
                one,
                subject=f"average annotator at {at}",
                confidence=confidence,
                guarantee=dataclasses.replace(one.guarantee, error_rate=error),
                notes=(*one.notes, _together(len(cuts), confidence)),
            )
        )
    return tuple(found)


def certify_thresholds(
    ratings: Ratings | RatingCounts,
    *,
    system: str | None = None,
    margin: float = 0.0,
    test: Test = "betting",
    trained_on_annotators: Trained | bool | None = "unknown",
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Certificate, ...]:
    """Certify at every threshold of an ordinal score that a system is better than its annotators.

    Parameters
    ----------
    ratings
        Ratings with answers, whose labels are scores in ascending order, or counts of them.
    system, margin, test, trained_on_annotators, seed
        As in :func:`certify_superhuman`.
    confidence
        With which all certificates hold together.

    Returns
    -------
    tuple of Certificate
        One for each label but the lowest: is the system more often on the right side of it than the
        average annotation, by more than ``margin``?

    Notes
    -----
    Each of the L - 1 certificates is made, and verifies, at confidence
    c = 1 - (1 - confidence)/(L - 1): the chance that any of them is wrong is at most 1 - confidence, however they depend on each
    other. That all thresholds are certified at once also holds at the confidence of each alone, as
    its error needs one certain threshold to err.

    Assumes what :func:`certify_superhuman` assumes, for each threshold: with two sides its
    assumption (6) says that where the vote is on the wrong side of t, the system is on the right
    side at least as often as not. Items of clusters are refused: make certificates threshold by
    threshold.

    References
    ----------
    Xu, Walder and Xu, "Humanly certifying superhuman classifiers" (ICLR 2023).

    Examples
    --------
    >>> votes = [[2, 1, 0], [0, 2, 1], [0, 0, 3]] * 200
    >>> rows = [[0, 0, 1], [1, 1, 2], [2, 2, 2]] * 200
    >>> counts = RatingCounts.from_arrays(rows, labels=3, answers={"agent": [0, 1, 2] * 200})
    >>> [(c.certified, round(c.value, 3)) for c in certify_thresholds(counts, trained_on_annotators="no")]
    [(True, 0.111), (True, 0.111)]
    """
    error = 1 - check_confidence(confidence)
    clustered = not isinstance(ratings, RatingCounts) and ratings.items is not None
    rule = "ratings must have independent items for certificates at thresholds; got clusters"
    require(not clustered, f"{rule}. Leave out the items, or cut the scores and certify each.")
    counts = _scored(ratings)
    cuts = counts.labels[1:]
    found = []
    for at in cuts:
        one = certify_superhuman(
            counts.at(at),
            system=system,
            margin=margin,
            test=test,
            trained_on_annotators=trained_on_annotators,
            confidence=1 - error / len(cuts),
            seed=seed,
        )
        notes = (*one.notes, f"threshold {at}", _together(len(cuts), confidence))
        found.append(dataclasses.replace(one, notes=notes))
    return tuple(found)


def _scored(ratings: Ratings | RatingCounts, *, pairs: bool = False) -> RatingCounts:
    counts = ratings if isinstance(ratings, RatingCounts) else count_ratings(ratings, pairs=pairs)
    guessed = any("inferred" in line for line in counts.inferred)
    check_scores(counts.labels, in_order=not guessed)
    return counts


def _together(n: int, confidence: float) -> str:
    return f"one of {n} thresholds: together they hold at confidence {confidence:g}"
