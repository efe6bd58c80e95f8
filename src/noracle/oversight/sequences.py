"""Labels of a stream as scores, and the limits that hold at every look.

Each item is counted once, with the judgements that came first. Its score x is unbiased for whether
the answer is right: 1{answer = y} for a known class; 1 - (K-1)/m·1{answer among the m classes ruled
out}; with recorded propensities p 1{asked the answer, yes}/p from below and 1 - 1{asked the answer,
no}/p from above, of the first question. No answer scores 0. The limits are those of betting
(:mod:`noracle.bounds.betting`): they hold at all looks together, at the error rate, for items that
come in random order.

Where items have different numbers of classes, the share of yes depends on the number, so that a
kind of label is no random sample of the items. All scores are then bet on with the range of the
largest number of classes, which does not depend on the item.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from noracle.accuracy.estimate import VACUOUS, estimate_accuracy
from noracle.accuracy.score import sided_rows
from noracle.bounds import linear
from noracle.bounds.betting import betting_interval
from noracle.counts.label import Cell, Label, Tally
from noracle.counts.tallies import AccuracyCounts
from noracle.errors import EvidenceError, fault
from noracle.results import Assumption, Estimate, Guarantee, Kind

RANDOM_ORDER = Assumption(
    name="random order",
    detail="which items are judged first, and which answers come late, has nothing to do with whether they are right",
)

DEPENDENT = Assumption(
    name="iid items",
    status="failed",
    detail="items come in clusters, whose items depend on each other, and are counted one by one",
)


def tally_of(
    system: str,
    answer: str | None,
    rows: Sequence[Sequence[Any]],
    *,
    n_classes: int,
    recorded: bool,
    drop: bool,
    item: str,
) -> Tally | None:
    """How an answer meets the first judgements of its item (class, verdict, propensity); None where
    they contradict each other.

    Examples
    --------
    >>> tally_of("a", "2", [["2", "no", None], ["0", "no", None]], n_classes=5, recorded=False, drop=False, item="7").n_ruled_out
    2
    """
    label = Label.of(
        [(str(c), verdict, p) for c, verdict, p in rows], n_classes=n_classes, recorded=recorded
    )
    if label is None and not drop:
        came, remedy = (
            "different verdicts",
            "Correct the labels, or set conflicts = 'drop' in noracle.toml.",
        )
        raise EvidenceError(
            fault(
                "judgements",
                "must not contradict each other",
                came,
                where=[item],
                total=1,
                remedy=remedy,
            )
        )
    return None if label is None else label.meet(answer, system=system)


def counts_of(tallies: Iterable[Tally]) -> AccuracyCounts:
    """Tallies of items as counts; the population are these items."""
    counted = Counter(tallies)
    items: Counter[Cell] = Counter()
    answered: Counter[Cell] = Counter()
    for t, n in counted.items():
        items[Cell(t.system, t.n_classes)] += n
        answered[Cell(t.system, t.n_classes)] += n * t.answered
    return AccuracyCounts(tallies=dict(counted), items=dict(items), answered=dict(answered))


def sequence_limits(
    tallies: Mapping[Tally, int], *, error: float, most_classes: int | None = None
) -> linear.Limits:
    """Limits for the accuracy that hold at every look; ``most_classes`` where items have different
    numbers of classes.

    Examples
    --------
    >>> right, wrong = Tally("a", 4, "yes", True), Tally("a", 4, "yes", False)
    >>> limits = sequence_limits({right: 80, wrong: 20}, error=0.05)
    >>> round(limits.low, 2), round(limits.high, 2)
    (0.65, 0.91)
    """
    lower, upper = sided_rows(tallies, n_classes=most_classes)
    low, _ = betting_interval(lower, error / 2, 0.0)
    _, high = betting_interval(upper, 0.0, error / 2)
    return linear.ordered(low, high)


_SHARED = 0.1
"""What the share of items with an answer has of the error rate, beside grades."""


def sequence_estimate(
    counts: AccuracyCounts,
    *,
    error: float,
    most_classes: int | None = None,
    clustered: bool = False,
    asked: tuple[int, int] | None = None,
) -> Estimate:
    """The accuracy of one system now, with limits that hold at every look; where items come in
    clusters nothing is promised.

    ``asked`` are the items so far and those of them with an answer, where answers are graded: an
    answer that is missing has no grade. The limits are then those among answered items, times
    limits of the share that has an answer.
    """
    if asked is not None:
        counts = dataclasses.replace(
            counts,
            tallies={t: n for t, n in counts.tallies.items() if t.answered},
            items=counts.answered,
            answered=counts.answered,
        )
    limits = sequence_limits(
        counts.tallies, error=error * (1 - _SHARED) if asked else error, most_classes=most_classes
    )
    estimate = estimate_accuracy(counts, method="scores", interval="betting", confidence=1 - error)
    if asked is not None:
        share = linear.anytime([linear.Cell(*asked)], error * _SHARED)
        limits = linear.Limits(limits.low * share.low, limits.high * share.high, limits.empty)
        estimate = dataclasses.replace(estimate, value=estimate.value * asked[1] / asked[0])
    notes = [note for note in estimate.notes if note != VACUOUS]
    if asked is not None and asked[1] < asked[0]:
        notes.append(
            f"{asked[0] - asked[1]:,} of {asked[0]:,} items have no answer, which counts as wrong"
        )
    if limits.low <= 0 and limits.high >= 1:
        notes.append(VACUOUS)
    guarantee = dataclasses.replace(
        estimate.guarantee, assumptions=(*estimate.guarantee.assumptions, RANDOM_ORDER)
    )
    if clustered:
        guarantee = (
            guarantee
            & Guarantee(kind=Kind.HEURISTIC, error_rate=0.0, anytime=True, assumptions=(DEPENDENT,))
        ).given()
    return dataclasses.replace(
        estimate,
        low=limits.low,
        high=limits.high,
        notes=tuple(notes),
        method="scores, label by label",
        guarantee=guarantee,
    )
