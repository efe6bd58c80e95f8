"""Ratings as votes: one row an item and one column a label, in the engine, and small tables out of
it as arrays.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from noracle.errors import EvidenceError, fault, known_names
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.ratings import Ratings

Whole = NDArray[np.int64]
MOST_COLUMNS = 64
"""With more labels votes are counted row by row instead of by one column a label."""
MOST_PAIRED = 200
"""With more raters there would be too many pairs to count."""


def fetch_arrays(frame: Frame) -> dict[str, NDArray[Any]]:
    """The columns of a lazy frame without nulls as arrays."""
    native: Any = frame.to_native()
    if frame.implementation.is_duckdb():
        import duckdb

        from noracle.evidence.files import unreadable

        try:
            found = native.fetchnumpy()
        except duckdb.Error as error:
            raise unreadable(error, "evidence") from None
        return {name: np.asarray(found[name]) for name in frame.columns}
    if frame.implementation.is_polars():
        table = native.collect()
        return {name: table[name].to_numpy() for name in table.columns}
    rows = fetch(frame)
    return {name: np.array([row[i] for row in rows]) for i, name in enumerate(frame.columns)}


def matrix(found: Mapping[str, NDArray[Any]], names: Sequence[str]) -> Whole:
    """Some columns side by side."""
    return (
        np.stack([found[name].astype(np.int64) for name in names], axis=1)
        if names
        else np.zeros((0, 0), dtype=np.int64)
    )


def vote_columns(labels: Sequence[int | str]) -> list[str]:
    """The names of the columns with votes."""
    return [f"v{i}" for i in range(len(labels))]


def vote_frame(ratings: Ratings, labels: Sequence[int | str]) -> Frame:
    """``item`` and its votes for each label; items without votes are left out."""
    names = vote_columns(labels)
    used = ratings.used
    if ratings.form == "wide":
        columns = ratings.raters or ()
        sums = [
            _added_up([_one_if(c, label) for c in columns]).alias(name)
            for name, label in zip(names, labels, strict=True)
        ]
        counted = used.select("item", *sums)
    else:
        amount = nw.col("n") if ratings.form == "votes" else nw.lit(1)
        sums = [
            nw.when(nw.col("label") == label)
            .then(amount)
            .otherwise(nw.lit(0))
            .sum()
            .cast(nw.Int64)
            .alias(name)
            for name, label in zip(names, labels, strict=True)
        ]
        counted = used.group_by("item").agg(*sums)
    return counted.filter(nw.sum_horizontal(*names) > 0)


def _one_if(column: str, label: int | str) -> nw.Expr:
    return nw.when(nw.col(column) == label).then(nw.lit(1)).otherwise(nw.lit(0))


def _added_up(parts: Sequence[nw.Expr]) -> nw.Expr:
    return functools.reduce(operator.add, parts)


def coded(column: str, labels: Sequence[int | str], otherwise: int) -> nw.Expr:
    """The place of a label in ``labels``."""
    chain: Any = nw.when(nw.col(column) == labels[0]).then(nw.lit(0))
    for place, label in enumerate(labels[1:], start=1):
        chain = chain.when(nw.col(column) == label).then(nw.lit(place))
    found: nw.Expr = chain.otherwise(nw.lit(otherwise))
    return found


def vote_rows(ratings: Ratings, labels: Sequence[int | str]) -> tuple[list[Any], Whole]:
    """The items and their votes, row by row; for any number of labels."""
    place = {label: i for i, label in enumerate(labels)}
    items: dict[Any, int] = {}
    cells: list[tuple[int, int, int]] = []
    for item, label, n in fetch(_label_counts(ratings)):
        cells.append((items.setdefault(item, len(items)), place[label], int(n)))
    votes = np.zeros((len(items), len(labels)), dtype=np.int64)
    for row, column, n in cells:
        votes[row, column] += n
    return list(items), votes


def _label_counts(ratings: Ratings) -> Frame:
    used = ratings.used
    if ratings.form == "wide":
        parts = [used.select("item", nw.col(c).alias("label")) for c in ratings.raters or ()]
        used = nw.concat(parts, how="vertical").filter(~nw.col("label").is_null())
    if ratings.form == "votes":
        return used.filter(nw.col("n") > 0).select("item", "label", "n")
    return used.group_by("item", "label").agg(n=nw.len())


def code_matrix(
    ratings: Ratings, labels: Sequence[int | str]
) -> tuple[NDArray[Any], NDArray[np.int16]]:
    """The items, and a matrix with one row an item and one column a rater: places in ``labels``, -1
    where there is no rating.

    Long ratings are packed in the engine: a rater is a digit of a number in base R + 1, so that one
    sum an item holds many raters.
    """
    raters = ratings.seen_raters()
    if ratings.form == "votes":
        raise EvidenceError(
            fault(
                "ratings",
                "must say who rated",
                "votes of unknown raters",
                remedy="Pass a table with a column rater.",
            )
        )
    if len(labels) > MOST_COLUMNS:
        raise EvidenceError(
            fault("labels", f"must be at most {MOST_COLUMNS} to compare raters", len(labels))
        )
    if ratings.form == "wide":
        found = fetch_arrays(
            ratings.used.select(
                "item", *[coded(c, labels, -1).alias(f"c{i}") for i, c in enumerate(raters)]
            )
        )
        return found["item"], matrix(found, [f"c{i}" for i in range(len(raters))]).astype(np.int16)
    base = len(labels) + 1
    digits = int(62 * math.log(2) / math.log(base))
    groups = [raters[start : start + digits] for start in range(0, len(raters), digits)]
    places = _rater_places(ratings.used, groups, base)
    digit = (coded("label", labels, -1) + 1) * nw.col("_power")
    sums = [
        nw.when(nw.col("_group") == g)
        .then(digit)
        .otherwise(nw.lit(0))
        .sum()
        .cast(nw.Int64)
        .alias(f"p{g}")
        for g in range(len(groups))
    ]
    found = fetch_arrays(
        ratings.used.select("item", "rater", "label")
        .join(places, on="rater", how="inner")
        .group_by("item")
        .agg(*sums)
    )
    codes = np.empty((len(found["item"]), len(raters)), dtype=np.int16)
    for g, group in enumerate(groups):
        rest = found[f"p{g}"].astype(np.int64)
        for i in range(len(group)):
            rest, digit_here = np.divmod(rest, base)
            codes[:, g * digits + i] = digit_here - 1
    return found["item"], codes


def _rater_places(frame: Frame, groups: Sequence[Sequence[str]], base: int) -> Frame:
    """``rater``, its group and the power of ``base`` that its digit has; one row a rater."""
    alone = frame.group_by("rater").agg(_n=nw.len()).select("rater")
    group: Any = nw.when(nw.col("rater").is_null()).then(nw.lit(-1))
    for g, names in enumerate(groups):
        group = group.when(nw.col("rater").is_in(list(names))).then(nw.lit(g))
    power: Any = nw.when(nw.col("rater").is_null()).then(nw.lit(0))
    for i in range(max(len(names) for names in groups)):
        power = power.when(
            nw.col("rater").is_in([names[i] for names in groups if i < len(names)])
        ).then(nw.lit(base**i))
    return alone.select(
        "rater",
        _group=group.otherwise(nw.lit(-1)),
        _power=power.otherwise(nw.lit(0)).cast(nw.Int64),
    )


def pair_tables(codes: NDArray[np.int16], size: int) -> dict[tuple[int, int], Whole]:
    """For each pair of columns with common rows: how often the first had code a and the second code
    b.

    One product of indicator matrices counts all pairs at once.
    """
    n, n_raters = codes.shape
    if n_raters > MOST_PAIRED:
        raise EvidenceError(
            fault("raters", f"must be at most {MOST_PAIRED} to count pairs", n_raters)
        )
    total = np.zeros((n_raters * size, n_raters * size))
    step = max(1, 4_000_000 // max(1, n_raters * size))
    labels = np.arange(size, dtype=codes.dtype)
    for start in range(0, n, step):
        ones = (
            (codes[start : start + step, :, None] == labels)
            .astype(np.float32)
            .reshape(-1, n_raters * size)
        )
        total += (ones.T @ ones).astype(np.float64)  # below 2**24 rows a part: exact in float32
    blocks = total.round().astype(np.int64).reshape(n_raters, size, n_raters, size)
    tables = {(i, j): blocks[i, :, j, :] for i in range(n_raters) for j in range(i + 1, n_raters)}
    return {pair: table for pair, table in tables.items() if table.any()}


def kinds_of(rows: Whole) -> tuple[Whole, Whole, Whole]:
    """The different rows in order, the place of each row among them, and how often they occur."""
    base = int(rows.max(initial=0)) + 1
    if rows.shape[1] * np.log2(base + 1) >= 62:
        kinds, place, n = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
        return kinds, place.reshape(-1).astype(np.int64), n.astype(np.int64)
    key = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        key = key * base + column
    _, seen_at, place, n = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    return rows[seen_at], place.reshape(-1).astype(np.int64), n.astype(np.int64)


def systems_of(ratings: Ratings, systems: Sequence[str] | None) -> list[str]:
    """The systems that were asked for, if they have answers; by default all."""
    groups = (
        []
        if ratings.answers is None
        else fetch(ratings.answers.group_by("system").agg(n=nw.len()).select("system"))
    )
    found = sorted(str(row[0]) for row in groups)
    missing = [s for s in systems or () if s not in found]
    if missing:
        came = f"{missing}, which have no answers"
        raise EvidenceError(
            fault("systems", "must be in answers", came, remedy=known_names(missing[0], found))
        )
    return found if systems is None else list(dict.fromkeys(systems))


def given_answers(ratings: Ratings, systems: Sequence[str]) -> Frame:
    """The answers of these systems, without those that are missing."""
    if ratings.answers is None:
        raise EvidenceError(fault("ratings", "must have answers", "none", remedy="Pass answers."))
    return ratings.answers.filter(
        ~nw.col("answer").is_null() & nw.col("system").is_in(list(systems))
    ).select("item", "system", "answer")
