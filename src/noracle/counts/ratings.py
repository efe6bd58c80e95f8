"""Ratings counted: one group-by an item, one by votes, for any size."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from noracle.counts.rating_counts import RatingCounts
from noracle.counts.votes import (
    MOST_COLUMNS,
    Whole,
    code_matrix,
    coded,
    fetch_arrays,
    given_answers,
    kinds_of,
    matrix,
    pair_tables,
    systems_of,
    vote_columns,
    vote_frame,
    vote_rows,
)
from noracle.errors import EvidenceError, fault
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.ratings import Ratings
from noracle.evidence.validate import count

__all__ = ["RatingCounts", "count_ratings"]


def count_ratings(
    ratings: Ratings,
    *,
    systems: Sequence[str] | None = None,
    pairs: bool = False,
    reference: Mapping[Any, int | str | None] | None = None,
) -> RatingCounts:
    """How the raters voted, and how systems answered to items with the same votes.

    Parameters
    ----------
    ratings
        Ratings, with or without answers.
    systems
        The systems to count; by default all that have answers. A rated item without an answer of a
        system counts as not answered.
    pairs
        Also count how each pair of raters labelled their common items, for Cohen's kappa and for
        bounds that know the raters.
    reference
        A label for each item, for example from :func:`noracle.superhuman.aggregate_labels`; then
        ``matches`` is counted too.

    Raises
    ------
    EvidenceError
        If rows break a rule; all faults at once.

    Examples
    --------
    >>> wide = {"ann": ["cat", "dog", "cat"], "bob": ["cat", None, "dog"], "agent": ["cat", "dog", None]}
    >>> counts = count_ratings(Ratings.from_wide(wide, raters=["ann", "bob"], systems=["agent"]))
    >>> counts.votes.tolist(), counts.answers["agent"].tolist()
    ([[0, 1], [1, 1], [2, 0]], [[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    """
    labels = ratings.check().seen_labels()
    chosen = systems_of(ratings, systems)
    counted = (
        _by_columns(ratings, labels, chosen)
        if len(labels) <= MOST_COLUMNS
        else _by_rows(ratings, labels, chosen)
    )
    lines = (
        []
        if ratings.labels is not None
        else [
            f"{len(labels)} label{'' if len(labels) == 1 else 's'} inferred: those that were seen"
        ]
    )
    if ratings.first is not None:
        fewer = int(counted.n_items[counted.n_ratings < ratings.first].sum())
        lines.append(
            f"only the first {ratings.first} ratings of each item are used; {fewer} items have fewer"
        )
    tables = pair_tables(code_matrix(ratings, labels)[1], len(labels)) if pairs else {}
    counted = dataclasses.replace(
        counted,
        raters=ratings.seen_raters(),
        pairs=tables,
        unused={**_missing(ratings, counted), **counted.unused},
        inferred=tuple(lines),
    )
    if reference is None:
        return counted
    return dataclasses.replace(
        counted, matches={s: _matches(ratings, counted, reference, s) for s in chosen}
    )


def _by_columns(
    ratings: Ratings, labels: Sequence[int | str], systems: Sequence[str]
) -> RatingCounts:
    """One column a label, grouped in the engine: first by item, then by votes."""
    names = vote_columns(labels)
    votes = vote_frame(ratings, labels)
    if len(systems) == 1:
        return _of_one_system(ratings, labels, systems[0], votes)
    found = fetch_arrays(votes.group_by(*names).agg(n=nw.len()).sort(*names))
    kinds, place, _ = kinds_of(matrix(found, names))
    n_items = np.zeros(len(kinds), dtype=np.int64)
    n_items[place] = found["n"].astype(np.int64)
    answers, unused = {}, {}
    if systems:
        given = given_answers(ratings, systems)
        met = votes.join(
            given.select("item", "system", code=coded("answer", labels, len(labels))),
            on="item",
            how="inner",
        )
        found = fetch_arrays(
            met.group_by(*names, "system", "code").agg(n=nw.len()).sort(*names, "system", "code")
        )
        n = found["n"].astype(np.int64)
        stacked, at, _ = kinds_of(np.concatenate([kinds, matrix(found, names)]))
        if len(stacked) != len(kinds):
            raise EvidenceError(
                fault(
                    "ratings",
                    "must stay as they are",
                    "rows that changed meanwhile",
                    remedy="Read them again.",
                )
            )
        for system in systems:
            of = found["system"] == system
            table = np.zeros((len(kinds), len(labels) + 1), dtype=np.int64)
            np.add.at(table, (at[len(kinds) :][of], found["code"][of].astype(np.int64)), n[of])
            answers[system] = table
        unused = _strangers(ratings, systems, {s: int(t.sum()) for s, t in answers.items()})
        answers = {s: _with_silent(t, n_items) for s, t in answers.items()}
    return RatingCounts(
        labels=tuple(labels), votes=kinds, n_items=n_items, answers=answers, unused=unused
    )


def _of_one_system(
    ratings: Ratings, labels: Sequence[int | str], system: str, votes: Frame
) -> RatingCounts:
    """The same with one query: an item has at most one answer of a system, so that joining it
    repeats no item.
    """
    names, size = vote_columns(labels), len(labels)
    given = given_answers(ratings, [system]).select("item", code=coded("answer", labels, size))
    met = votes.join(given, on="item", how="left").with_columns(
        code=nw.col("code").fill_null(size + 1)
    )
    found = fetch_arrays(met.group_by(*names, "code").agg(n=nw.len()).sort(*names, "code"))
    kinds, place, _ = kinds_of(matrix(found, names))
    table = np.zeros((len(kinds), size + 2), dtype=np.int64)
    np.add.at(table, (place, found["code"].astype(np.int64)), found["n"].astype(np.int64))
    unused = _strangers(ratings, [system], {system: int(table[:, :-1].sum())})
    n_items = np.asarray(table.sum(axis=1))
    answers = {system: _with_silent(table[:, :-1].copy(), n_items)}
    return RatingCounts(
        labels=tuple(labels), votes=kinds, n_items=n_items, answers=answers, unused=unused
    )


def _with_silent(table: Whole, n_items: Whole) -> Whole:
    """Items without an answer join those whose answer is no label."""
    table[:, -1] += n_items - table.sum(axis=1)
    return table


def _strangers(ratings: Ratings, systems: Sequence[str], met: Mapping[str, int]) -> dict[str, int]:
    """Answers to items that nobody rated; ``met`` says how many answers of each system met a rated
    item.
    """
    silent = [s for s in systems if not met[s]]
    if silent:
        came = f"none of the items of {', '.join(map(repr, silent[:5]))}"
        raise EvidenceError(
            fault(
                "answers.item",
                "must name items that were rated",
                came,
                remedy="Check the names of the items.",
            )
        )
    strange = count(given_answers(ratings, systems)) - sum(met.values())
    return {"answers to items without a rating": strange} if strange else {}


def _by_rows(ratings: Ratings, labels: Sequence[int | str], systems: Sequence[str]) -> RatingCounts:
    """The same row by row, for many labels."""
    items, votes = vote_rows(ratings, labels)
    place = {label: i for i, label in enumerate(labels)}
    row = {item: i for i, item in enumerate(items)}
    chosen = {s: np.full(len(items), -1, dtype=np.int64) for s in systems}
    met = dict.fromkeys(systems, 0)
    for item, system, answer in fetch(given_answers(ratings, systems)) if systems else ():
        if item in row:
            chosen[system][row[item]] = place.get(answer, -1)
            met[system] += 1
    counted = RatingCounts.from_votes(votes, labels=labels, answers=chosen)
    unused = _strangers(ratings, systems, met) if systems else {}
    return dataclasses.replace(counted, unused=unused)


def _missing(ratings: Ratings, counted: RatingCounts) -> dict[str, int]:
    """Items of the table that nobody rated."""
    if ratings.form == "long" and not fetch(
        ratings.frame.filter(nw.col("label").is_null()).select("item").head(1)
    ):
        return {}
    total = count(
        ratings.frame if ratings.form == "wide" else ratings.frame.group_by("item").agg(_n=nw.len())
    )
    without = total - int(counted.n_items.sum())
    return {"items without a rating": without} if without else {}


def _matches(
    ratings: Ratings, counted: RatingCounts, reference: Mapping[Any, int | str | None], system: str
) -> Whole:
    """How many items of each kind the system answered with the reference label, and how many not."""
    names = vote_columns(counted.labels)
    if len(counted.labels) <= MOST_COLUMNS:
        rows = fetch(vote_frame(ratings, counted.labels).select("item", *names))
        items, votes = [r[0] for r in rows], np.array([r[1:] for r in rows], dtype=np.int64)
    else:
        items, votes = vote_rows(ratings, counted.labels)
    missing = [item for item in items if item not in reference]
    if missing:
        where = sorted(missing)[:5]
        raise EvidenceError(
            fault(
                "reference",
                "must have a label for each rated item",
                "none",
                where=where,
                total=len(missing),
            )
        )
    said = {item: answer for item, _, answer in fetch(given_answers(ratings, [system]))}
    met = np.array(
        [reference[item] is not None and said.get(item) == reference[item] for item in items]
    )
    _, place, _ = kinds_of(votes)
    hits = np.bincount(place, weights=met, minlength=len(counted.votes)).astype(np.int64)
    return np.stack([hits, counted.n_items - hits], axis=1)
