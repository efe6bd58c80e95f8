"""Who gave the labels: how often, how wrong, and in agreement with whom."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from noracle.learn._label_rates import Sums, rate_of, sums_by_item
from noracle.learn._label_table import LabelTable, truth_of
from noracle.results import Assumption, Estimate, Guarantee, Kind, NaN
from noracle.results.analysis import AnnotatorRow

Whole = NDArray[np.int64]
ITEMS = Assumption(name="independent items")
_MOST_FAVOURITES = 3


def _same(*keys: Whole) -> NDArray[np.int64]:
    """For each label, how many labels have the same keys."""
    if not keys[0].size:
        return np.empty(0, dtype=np.int64)
    _, place, times = np.unique(np.stack(keys), axis=1, return_inverse=True, return_counts=True)
    return np.asarray(times[place.reshape(-1)], dtype=np.int64)


def _pairs(table: LabelTable) -> tuple[Whole, NDArray[np.int64], NDArray[np.int64]]:
    """Labels with an annotator, and for each how many labels others gave to its item, and how many
    of these are the same.
    """
    if table.annotator is None:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, nothing
    named = np.flatnonzero(table.annotator >= 0)
    item, who, label = table.item[named], table.annotator[named], table.label[named]
    return named, _same(item) - _same(item, who), _same(item, label) - _same(item, label, who)


def estimate_pairs(table: LabelTable, confidence: float) -> Estimate:
    """Mean over items with labels of two annotators of the share of pairs that are the same."""
    named, others, same = _pairs(table)
    met = others > 0
    _, place = np.unique(table.item[named[met]], return_inverse=True)
    place = place.reshape(-1)
    share = (
        np.bincount(place, weights=same[met]) / np.bincount(place, weights=others[met])
        if place.size
        else np.empty(0)
    )
    rate = rate_of("agreement", Sums(2 * share, np.full(len(share), 2.0)), (1 - confidence) / 2)
    who = (
        "no annotators are named"
        if table.annotator is None
        else "no item has labels of two annotators"
    )
    return Estimate(
        quantity="agreement",
        subject="annotators",
        value=rate.value,
        low=rate.low,
        high=rate.high,
        confidence=confidence,
        method="share of pairs of annotators with the same label, item by item",
        interval="betting",
        guarantee=Guarantee(
            kind=Kind.FINITE_SAMPLE, error_rate=1 - confidence, assumptions=(ITEMS,)
        ),
        counts={"items": len(share), "pairs": int(others[met].sum()) // 2},
        diagnostics={"independent_even_labels": 1 / (table.n_classes - 1)},
        reason="" if len(share) else who,
    )


def annotator_rows(
    table: LabelTable, known: LabelTable | None, error: float
) -> tuple[AnnotatorRow, ...]:
    """One row an annotator; the limits of the noise rates hold together with an error rate of
    ``error``.
    """
    if table.annotator is None:
        return ()
    named, others, same = _pairs(table)
    size, k = len(table.annotators), table.n_classes
    who = table.annotator[named]
    pairs, equal = (
        np.bincount(who, weights=others, minlength=size),
        np.bincount(who, weights=same, minlength=size),
    )
    used = np.bincount(who * k + table.label[named], minlength=size * k).reshape(size, k)
    places = _places(table.annotator, size)
    trusted = (
        _places(known.annotator, size)
        if known is not None and known.annotator is not None
        else [np.empty(0, dtype=np.int64)] * size
    )
    wrong = np.empty(0, dtype=bool) if known is None else known.label == truth_of(known)
    items = np.empty(0, dtype=np.int64) if known is None else known.item
    rows = []
    for a, name in enumerate(table.annotators):
        top = np.flatnonzero(used[a] == used[a].max())
        time = np.empty(0) if table.seconds is None else table.seconds[places[a]]
        time = time[np.isfinite(time)]
        rows.append(
            AnnotatorRow(
                name=name,
                n_labels=len(places[a]),
                n_items=len(np.unique(table.item[places[a]])),
                noise=rate_of(
                    name, sums_by_item(items[trusted[a]], wrong[trusted[a]]), error / (2 * size)
                ),
                favourite=tuple(table.classes[int(j)] for j in top)
                if len(top) <= _MOST_FAVOURITES
                else (),
                favourite_share=float(used[a].max() / len(places[a])),
                agreement=float(equal[a] / pairs[a]) if pairs[a] else NaN,
                pairs=int(pairs[a]),
                seconds=float(np.median(time)) if time.size else NaN,
            )
        )
    return tuple(rows)


def _places(annotator: Whole, size: int) -> list[Whole]:
    """The labels of each annotator."""
    order = np.argsort(annotator, kind="stable")
    edges = np.searchsorted(annotator[order], np.arange(size + 1))
    return [order[edges[a] : edges[a + 1]] for a in range(size)]
