"""The rules that ratings must keep, and the helpers that put them into one shape."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw

from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.normal import either
from noracle.evidence.tables import TABLES, Column, Table
from noracle.evidence.validate import RowFault, count, faults_of_table, repeats

if TYPE_CHECKING:
    from noracle.evidence.ratings import Ratings

ROW = "_noracle_row"
_SHOWN, _MOST_SHOWN = "_shown_", 30
MOST_LABELS = 1000
"""The largest number of different labels; more are taken for texts that are no labels."""
_BITS = 60
_MOST_MASKS = 8

_AT = (
    Column(name="at", kind="any", required=False, nullable=True),
    Column(name=ROW, kind="any", required=False, nullable=True),
)
LONG = Table(name="ratings", columns=(*TABLES["ratings"].columns, *_AT))
SCORES = Table(name="scores", columns=(*TABLES["scores"].columns, *_AT))
VOTES = Table(
    name="votes",
    columns=(
        Column(name="item", kind="id"),
        Column(name="label", kind="class"),
        Column(name="n", kind="number", low=0),
    ),
    key=("item", "label"),
)


def wide_table(raters: Sequence[str]) -> Table:
    """The rules of a table with one row an item and these columns of raters."""
    columns = [Column(name=name, kind="class", nullable=True) for name in raters]
    return Table(name="ratings", columns=(Column(name="item", kind="id"), *columns), key=("item",))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """Cut points and the label of each band between them; None leaves a band out."""

    cuts: tuple[float, ...]
    labels: tuple[int | str | None, ...]
    closed: Literal["right", "left"]

    def expr(self) -> nw.Expr:
        """The label of the column ``value``."""
        value = nw.col("value")
        dtype: Any = nw.String if any(isinstance(label, str) for label in self.labels) else nw.Int64
        named = [nw.lit(label, dtype=dtype) for label in self.labels]
        chain: Any = nw.when(value.is_null()).then(nw.lit(None, dtype=dtype))
        for cut, label in zip(self.cuts, named[:-1], strict=True):
            chain = chain.when(value <= cut if self.closed == "right" else value < cut).then(label)
        found: nw.Expr = chain.otherwise(named[-1])
        return found


def bands_of(
    cuts: Sequence[float], labels: Sequence[int | str | None] | None, closed: Any
) -> Bands:
    """The bands, if cut points and labels fit together."""
    points = tuple(float(c) for c in cuts)
    if (
        not points
        or not all(math.isfinite(c) for c in points)
        or any(a >= b for a, b in itertools.pairwise(points))
    ):
        raise ArgumentError(f"cuts must be increasing finite numbers; got {list(cuts)!r}.")
    if closed not in {"right", "left"}:
        raise ArgumentError(f"closed must be 'right' or 'left'; got {closed!r}.")
    named = tuple(range(len(points) + 1)) if labels is None else tuple(labels)
    if len(named) != len(points) + 1:
        raise ArgumentError(
            f"labels must be {len(points) + 1} for {len(points)} cuts, None for a band left out; got {len(named)}."
        )
    return Bands(cuts=points, labels=named, closed=closed)


def known_labels(labels: Sequence[int | str] | None) -> tuple[int | str, ...] | None:
    """The labels as they were given, if they can be labels."""
    if labels is None:
        return None
    known = tuple(labels)
    whole = all(isinstance(label, int) and not isinstance(label, bool) for label in known)
    if isinstance(labels, str) or not (whole or all(isinstance(label, str) for label in known)):
        raise EvidenceError(
            fault("labels", "must be all texts or all whole numbers", repr(labels)[:80])
        )
    if len(set(known)) != len(known) or not 2 <= len(known) <= MOST_LABELS:
        raise EvidenceError(
            fault("labels", f"must be 2 to {MOST_LABELS} different ones", repr(labels)[:80])
        )
    return known


def check_first(first: object) -> None:
    """Refuse a number of ratings that is not one."""
    if first is not None and (isinstance(first, bool) or not isinstance(first, int) or first < 1):
        raise ArgumentError(f"first must be a whole number of at least 1; got {first!r}.")


def check_raters(n: int) -> None:
    """Refuse one rater alone."""
    if n < 2:
        raise EvidenceError(
            fault(
                "raters",
                "must be at least 2",
                n,
                remedy="One rater agrees with nobody; ask a second one.",
            )
        )


def first_columns(raters: Sequence[str], first: int) -> list[nw.Expr]:
    """The columns of a wide table, null where ``first`` raters before them have spoken."""
    kept: list[nw.Expr] = []
    spoken = nw.lit(0)
    for name in raters:
        said = ~nw.col(name).is_null()
        spoken = spoken + said.cast(nw.Int64)
        kept.append(nw.when(spoken <= first).then(nw.col(name)).alias(name))
    return kept


def labels_in(frame: Frame, columns: Sequence[str]) -> tuple[int | str, ...]:
    """The different labels of these columns, sorted."""
    groups = [
        frame.filter(~nw.col(c).is_null())
        .group_by(c)
        .agg(_n=nw.len())
        .select(nw.col(c).alias("_label"))
        for c in columns
    ]
    found = {
        row[0]
        for row in fetch(
            nw.concat([group.head(MOST_LABELS + 1) for group in groups], how="vertical")
        )
    }
    if len(found) > MOST_LABELS:
        remedy = "Pass labels, or the column that holds labels."
        raise EvidenceError(
            fault(
                "label", f"must have at most {MOST_LABELS} different values", "more", remedy=remedy
            )
        )
    return tuple(sorted(found))


def raters_in(frame: Frame) -> tuple[str, ...]:
    """The raters of a long table, sorted; those who said nothing are among them."""
    return tuple(
        sorted(
            str(row[0])
            for row in fetch(frame.group_by("rater").agg(_n=nw.len()).select("rater"))
            if row[0] is not None
        )
    )


def faults_of_ratings(ratings: Ratings) -> list[str]:
    """All faults of the ratings and the answers, each with its first five items."""
    frame, table = ratings.frame, ratings.table
    columns = ratings.raters or ("label",)
    unknown = _outside(ratings, columns)
    if unknown and ratings.label_kind == "text":
        frame = frame.with_columns(*[_shortened(c) for c in columns])
    lines = faults_of_table(frame, table, [*unknown, *_more(ratings)])
    if ratings.form == "long":
        lines += _repeated(frame)
    if ratings.answers is not None:
        lines += faults_of_table(ratings.answers, TABLES["answers"])
    if ratings.items is not None:
        lines += faults_of_table(ratings.items, TABLES["items"])
    return lines or _too_few(ratings, columns)


def _outside(ratings: Ratings, columns: Sequence[str]) -> list[RowFault]:
    if ratings.labels is None or ratings.table is SCORES:
        return []
    rule = f"must be one of {_short(list(ratings.labels))}"
    remedy = "Correct it or add it to labels."
    mark = _SHOWN if ratings.label_kind == "text" else ""
    return [
        RowFault(
            c, rule, (~nw.col(c).is_in(ratings.labels) & ~nw.col(c).is_null()), mark + c, remedy
        )
        for c in columns
    ]


def _shortened(column: str) -> nw.Expr:
    """The label as a message shows it; what is long may be the text of an item, in the wrong
    column.
    """
    long = nw.col(column).str.len_chars() > _MOST_SHOWN
    return (
        nw.when(long).then(nw.lit("a long text")).otherwise(nw.col(column)).alias(_SHOWN + column)
    )


def _more(ratings: Ratings) -> list[RowFault]:
    if ratings.form == "votes":
        n = nw.col("n")
        return [
            RowFault(
                "n",
                "must be a whole number below 2**31",
                ((n != n.floor()) | (n >= 2**31)).fill_null(value=False),
                "n",
            )
        ]
    if ratings.first is not None and "at" in ratings.frame.columns and ratings.form == "long":
        return [
            RowFault(
                "at",
                "must not be null where first is given",
                nw.col("at").is_null(),
                remedy="Fill it in.",
            )
        ]
    return []


def _too_few(ratings: Ratings, columns: Sequence[str]) -> list[str]:
    """Nothing said at all, or said by one rater only."""
    used = ratings.used
    said = (
        nw.col("n") > 0
        if ratings.form == "votes"
        else either([~nw.col(c).is_null() for c in columns])
    )
    if not fetch(used.filter(said).select("item").head(1)):
        return [
            fault(
                "ratings",
                "must hold at least one label",
                "none: all are missing",
                remedy="Check the column of labels.",
            )
        ]
    if (
        ratings.form == "long"
        and len(raters_in(ratings.frame.filter(~nw.col("label").is_null()))) < 2
    ):
        return [
            fault(
                "ratings",
                "must come from at least 2 raters",
                "one",
                remedy="One rater agrees with nobody; ask a second one.",
            )
        ]
    if ratings.form == "wide":
        present = fetch(
            ratings.frame.select(
                *[(~nw.col(c).is_null()).cast(nw.Int64).sum().alias(c) for c in columns]
            )
        )[0]
        if sum(1 for n in present if n) < 2:
            return [
                fault(
                    "ratings",
                    "must come from at least 2 raters",
                    "one",
                    remedy="One rater agrees with nobody; ask a second one.",
                )
            ]
    return []


def _repeated(frame: Frame) -> list[str]:
    """Items that one rater rated twice."""
    twice = _by_masks(frame) if frame.implementation.is_duckdb() else None
    if twice is None:
        twice = repeats(frame, ("item", "rater")).group_by("item").agg(_n=nw.len()).select("item")
    total = count(twice)
    if not total:
        return []
    where = [row[0] for row in fetch(twice.sort("item").head(5))]
    rule = "must have one row for each item and rater"
    return [
        fault(
            "ratings",
            rule,
            "repeated rows",
            where=where,
            total=total,
            remedy="Keep one row of each.",
        )
    ]


def _by_masks(frame: Frame) -> Frame | None:
    """The same without a group for every item and rater: each rater is a bit, and an item without
    repeats has a bit for each row.

    None where there are too many raters for a few masks.
    """
    n_raters = len(raters_in(frame))
    n_masks = -(-n_raters // _BITS)
    if not 0 < n_masks <= _MOST_MASKS:
        return None
    bits = " + ".join(
        f"bit_count(bit_or(CASE WHEN mask = {m} THEN bit ELSE 0 END))" for m in range(n_masks)
    )
    query = (
        "WITH numbered AS (SELECT rater, row_number() OVER () - 1 AS c FROM (SELECT DISTINCT rater FROM noracle_ratings "  # noqa: S608
        f"WHERE rater IS NOT NULL)), coded AS (SELECT rater, (c // {_BITS})::INTEGER AS mask, 1::BIGINT << (c % {_BITS})::INTEGER AS bit "
        f"FROM numbered) SELECT item FROM (SELECT item, count(*) AS n, {bits} AS b FROM noracle_ratings "
        "JOIN coded USING (rater) WHERE item IS NOT NULL GROUP BY item) WHERE n <> b"
    )
    found: Frame = nw.from_native(frame.to_native().query("noracle_ratings", query))
    return found


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
