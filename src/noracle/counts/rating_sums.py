"""Sums of rating counts: two sets of items counted as one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from noracle.counts.rating_counts import RatingCounts
from noracle.counts.votes import Whole, kinds_of
from noracle.errors import EvidenceError, fault


def added(first: RatingCounts, second: RatingCounts) -> RatingCounts:
    """The counts of both sets of items; kinds of votes are joined, raters are matched by name.

    Raises
    ------
    EvidenceError
        If labels or systems differ, or if only one side knows its raters' pairs or its matches.
    """
    if set(first.labels) != set(second.labels):
        raise EvidenceError(
            fault(
                "labels",
                f"must be {list(first.labels)} on both sides",
                list(second.labels),
                remedy="Pass labels.",
            )
        )
    for name in ("answers", "matches"):
        here, there = set(getattr(first, name)), set(getattr(second, name))
        if here != there:
            raise EvidenceError(
                fault(name, f"must be of {sorted(here)} on both sides", sorted(there))
            )
    if bool(first.pairs) != bool(second.pairs):
        raise EvidenceError(
            fault(
                "pairs",
                "must be counted on both sides or on none",
                "one side",
                remedy="Count both with pairs=True.",
            )
        )
    order = [second.labels.index(label) for label in first.labels]
    votes = np.concatenate([first.votes, second.votes[:, order]])
    kinds, place, _ = kinds_of(votes)

    def joined(a: Whole, b: Whole) -> Whole:
        total = np.zeros((len(kinds), *a.shape[1:]), dtype=np.int64)
        np.add.at(total, place, np.concatenate([a, b]))
        return total

    with_none = [*order, len(order)]
    raters = tuple(dict.fromkeys((*first.raters, *second.raters)))
    return RatingCounts(
        labels=first.labels,
        votes=kinds,
        n_items=joined(first.n_items, second.n_items),
        answers={s: joined(t, second.answers[s][:, with_none]) for s, t in first.answers.items()},
        matches={s: joined(t, second.matches[s]) for s, t in first.matches.items()},
        raters=raters,
        pairs=_pairs(first, second, raters, order),
        unused=_summed(first.unused, second.unused),
        inferred=tuple(dict.fromkeys((*first.inferred, *second.inferred))),
    )


def _pairs(
    first: RatingCounts, second: RatingCounts, raters: tuple[str, ...], order: list[int]
) -> dict[tuple[int, int], Whole]:
    if first.pairs and not (first.raters and second.raters):
        raise EvidenceError(
            fault(
                "raters", "must be named on both sides to add their pairs", "raters without names"
            )
        )
    place = {rater: i for i, rater in enumerate(raters)}
    total: dict[tuple[int, int], Whole] = {}
    for counts, labels in ((first, list(range(len(order)))), (second, order)):
        for (i, j), table in counts.pairs.items():
            a, b = place[counts.raters[i]], place[counts.raters[j]]
            here = table[np.ix_(labels, labels)]
            key, here = ((a, b), here) if a < b else ((b, a), here.T)
            total[key] = total[key] + here if key in total else here.copy()
    return dict(sorted(total.items()))


def _summed(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {key: a.get(key, 0) + b.get(key, 0) for key in dict.fromkeys((*a, *b))}
