"""Ratings counted: one group-by an item, one by votes, for any size."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from noracle.counts.count import unknown_systems
from noracle.counts.tally import require_schema, summed
from noracle.errors import EvidenceError, require, require_evidence
from noracle.evidence.frames import Frame, cases, distinct, fetch, fetch_arrays, has_rows, is_there
from noracle.evidence.labels import count
from noracle.evidence.ratings import Ratings

__all__ = ["RatingCounts", "count_ratings"]

Whole = NDArray[np.int64]
MOST_COLUMNS = 64
"""With more labels votes are counted row by row instead of by one column per label."""
MOST_PAIRED = 200
"""With more raters there would be too many pairs to count."""


def check_scores(labels: Sequence[int | str], *, in_order: bool = True) -> None:
    """Refuse labels that are no scores in ascending order; text must be said to be in order."""
    try:
        values = [float(label) for label in labels]
    except ValueError:
        rule = "labels must be given in ascending order, where scores are no numbers"
        require(in_order, f"{rule}; got {', '.join(map(str, labels))}.")
        values = [float(place) for place in range(len(labels))]
    fits = len(values) > 1 and all(a < b for a, b in itertools.pairwise(values))
    rule = "labels must be two scores or more, in ascending order, for thresholds"
    remedy = "Pass them in that order."
    require(fits, f"{rule}; got {', '.join(map(str, labels))}. {remedy}")


def matrix(found: Mapping[str, NDArray[Any]], names: Sequence[str]) -> Whole:
    """Some columns side by side."""
    if names:
        return np.stack([found[name].astype(np.int64) for name in names], axis=1)
    return np.zeros((0, 0), dtype=np.int64)


def vote_columns(labels: Sequence[int | str]) -> list[str]:
    """The names of the columns with votes."""
    return [f"v{i}" for i in range(len(labels))]


def vote_frame(ratings: Ratings, labels: Sequence[int | str]) -> Frame:
    """``item`` and its votes for each label; items without votes are left out."""
    names = vote_columns(labels)
    used = ratings.used
    if ratings.form == "wide":
        columns = ratings.raters or ()
        said = ([cases([(nw.col(c) == label, 1)], 0) for c in columns] for label in labels)
        sums = (functools.reduce(operator.add, parts) for parts in said)
        counted = used.select("item", **dict(zip(names, sums, strict=True)))
    else:
        amount = nw.col("n") if ratings.form == "votes" else nw.lit(1)
        sums = (_total(nw.col("label") == label, amount) for label in labels)
        counted = used.group_by("item").agg(**dict(zip(names, sums, strict=True)))
    return counted.filter(nw.sum_horizontal(*names) > 0)


def _total(condition: nw.Expr, amount: nw.Expr) -> nw.Expr:
    """The sum of an amount over the rows where a condition holds."""
    return cases([(condition, amount)], 0).sum().cast(nw.Int64)


def coded(column: str, labels: Sequence[int | str], otherwise: int) -> nw.Expr:
    """The place of a label in ``labels``."""
    return cases(((nw.col(column) == label, i) for i, label in enumerate(labels)), otherwise)


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
    """The items, and a row of codes for each, one per rater; -1 where there is no rating.

    Long ratings are packed in the engine: a rater is a digit of a number in base R + 1, so that one
    sum per item holds many raters.
    """
    raters = ratings.seen_raters()
    came, remedy = "votes of unknown raters", "Pass a table with a column rater."
    known = ratings.form != "votes"
    require_evidence(known, "ratings", "must say who rated", came, remedy=remedy)
    rule = f"must be at most {MOST_COLUMNS} to compare raters"
    require_evidence(len(labels) <= MOST_COLUMNS, "labels", rule, len(labels))
    if ratings.form == "wide":
        codes_of = {f"c{i}": coded(c, labels, -1) for i, c in enumerate(raters)}
        found = fetch_arrays(ratings.used.select("item", **codes_of))
        return found["item"], matrix(found, list(codes_of)).astype(np.int16)
    base = len(labels) + 1
    digits = int(62 * math.log(2) / math.log(base))
    groups = [raters[start : start + digits] for start in range(0, len(raters), digits)]
    places = _rater_places(ratings.used, groups, base)
    digit = (coded("label", labels, -1) + 1) * nw.col("_power")
    sums = {f"p{g}": _total(nw.col("_group") == g, digit) for g in range(len(groups))}
    rated = ratings.used.select("item", "rater", "label").join(places, on="rater", how="inner")
    found = fetch_arrays(rated.group_by("item").agg(**sums))
    codes = np.empty((len(found["item"]), len(raters)), dtype=np.int16)
    for g, group in enumerate(groups):
        rest = found[f"p{g}"].astype(np.int64)
        for i in range(len(group)):
            rest, digit_here = np.divmod(rest, base)
            codes[:, g * digits + i] = digit_here - 1
    return found["item"], codes


def _rater_places(frame: Frame, groups: Sequence[Sequence[str]], base: int) -> Frame:
    """``rater``, its group and the power of ``base`` that its digit has; one row per rater."""
    rater = nw.col("rater")
    group = cases(((rater.is_in(list(names)), g) for g, names in enumerate(groups)), -1)
    digits = range(max(len(names) for names in groups))
    at = {i: [names[i] for names in groups if i < len(names)] for i in digits}
    power = cases(((rater.is_in(names), base**i) for i, names in at.items()), 0)
    return distinct(frame, "rater").select("rater", _group=group, _power=power.cast(nw.Int64))


def pair_tables(codes: NDArray[np.int16], size: int) -> dict[tuple[int, int], Whole]:
    """For each pair of columns with common rows: how often codes a and b met.

    One product of indicator matrices counts all pairs at once.
    """
    n, n_raters = codes.shape
    rule = f"must be at most {MOST_PAIRED} to count pairs"
    require_evidence(n_raters <= MOST_PAIRED, "raters", rule, n_raters)
    total = np.zeros((n_raters * size, n_raters * size))
    step = max(1, 4_000_000 // max(1, n_raters * size))
    labels = np.arange(size, dtype=codes.dtype)
    for start in range(0, n, step):
        is_label = codes[start : start + step, :, None] == labels
        ones = is_label.astype(np.float32).reshape(-1, n_raters * size)
        total += (ones.T @ ones).astype(np.float64)  # below 2**24 rows per part: exact in float32
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
    answers = ratings.answers
    found = [] if answers is None else sorted(str(r[0]) for r in fetch(distinct(answers, "system")))
    missing = [s for s in systems or () if s not in found]
    if missing:
        raise unknown_systems(missing, ratings)
    return found if systems is None else list(dict.fromkeys(systems))


def given_answers(ratings: Ratings, systems: Sequence[str]) -> Frame:
    """The answers of these systems, without those that are missing."""
    if ratings.answers is None:
        raise EvidenceError.of("ratings", "must have answers", "none", remedy="Pass answers.")
    mine = is_there("answer") & nw.col("system").is_in(list(systems))
    return ratings.answers.filter(mine).select("item", "system", "answer")


SCHEMA = "rating-counts/1"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RatingCounts:
    """What ceilings, certificates and agreement statistics may see of the ratings.

    Attributes
    ----------
    labels
        The R labels.
    votes
        Row p, column l: how many raters gave label l to an item of kind p. Rows differ from each
        other.
    n_items
        How many items have these votes.
    answers
        For each system: row p, column l is the number of items of kind p to which it answered label
        l; the last column (R) counts the items without an answer, or with an answer that is no
        label.
    raters
        The J raters; empty where they are unknown.
    pairs
        For raters i < j (places in ``raters``) with common items: row a, column b is the number of
        items that i called a and j called b.
    matches
        For each system, where items were given a reference label of their own: row p holds how many
        items of kind p it answered with that label, and how many not.
    """

    labels: tuple[int | str, ...]
    votes: Whole
    n_items: Whole
    answers: Mapping[str, Whole] = dataclasses.field(default_factory=dict)
    raters: tuple[str, ...] = ()
    pairs: Mapping[tuple[int, int], Whole] = dataclasses.field(default_factory=dict)
    matches: Mapping[str, Whole] = dataclasses.field(default_factory=dict)
    unused: Mapping[str, int] = dataclasses.field(default_factory=dict)
    inferred: tuple[str, ...] = ()

    def __repr__(self) -> str:
        raters = f"{len(self.raters)} raters, " if self.raters else ""
        systems = f"{len(self.answers)} systems, " if self.answers else ""
        n, ratings = int(self.n_items.sum()), int((self.votes.sum(axis=1) * self.n_items).sum())
        return f"RatingCounts({n:,} items, {ratings:,} ratings, {raters}{systems}{len(self.labels)} labels)"

    @classmethod
    def from_arrays(
        cls,
        ratings: Any,
        *,
        labels: Sequence[int | str] | int | None = None,
        raters: Sequence[str] = (),
        answers: Mapping[str, Any] | None = None,
        pairs: bool = False,
    ) -> Self:
        """Counts from a matrix with one row per item and one column per rater; entries are places in
        ``labels``, -1 is missing.

        Examples
        --------
        >>> counts = RatingCounts.from_arrays([[0, 0, 1], [1, 1, -1]], labels=2, answers={"a": [0, 1]})
        >>> counts.votes.tolist(), counts.n_items.tolist()
        ([[0, 2], [2, 1]], [1, 1])
        """
        given = np.asarray(ratings, dtype=np.int64)
        rule = "must be a matrix of items and raters"
        require_evidence(given.ndim == 2, "ratings", rule, f"{given.ndim} dimensions")
        if labels is None:
            labels = int(given.max(initial=0)) + 1
        names = tuple(range(labels)) if isinstance(labels, int) else tuple(labels)
        size = len(names)
        low, high = given.min(initial=-1), given.max(initial=-1)
        fits = low >= -1 and high < size
        require_evidence(fits, "ratings", f"must be in [0, {size}) or -1", int(high))
        rows = np.arange(len(given))
        tally = np.zeros((len(given), size), dtype=np.int64)
        for column in given.T:
            said = column >= 0
            tally[rows[said], column[said]] += 1
        tables = pair_tables(given.astype(np.int16), size) if pairs else {}
        return cls.from_votes(tally, labels=names, answers=answers, raters=raters, pairs=tables)

    @classmethod
    def from_votes(
        cls,
        votes: Any,
        *,
        labels: Sequence[int | str] | None = None,
        answers: Mapping[str, Any] | None = None,
        raters: Sequence[str] = (),
        pairs: Mapping[tuple[int, int], Whole] | None = None,
    ) -> Self:
        """Counts from a matrix of votes, one row per item and one column per label; items without
        votes are left out.

        ``answers`` maps a system to its answers, one per item, as places in ``labels`` (-1: none).
        """
        tally = np.asarray(votes, dtype=np.int64)
        rated = tally.sum(axis=1) > 0
        kinds, place, n = kinds_of(tally[rated])
        size = tally.shape[1]
        counted = {}
        for system, chosen in (answers or {}).items():
            column = np.asarray(chosen, dtype=np.int64)[rated]
            column = np.where((column < 0) | (column >= size), size, column)
            cell, shape = place * (size + 1) + column, (len(kinds), size + 1)
            counted[system] = np.bincount(cell, minlength=math.prod(shape)).reshape(shape)
        unused = {"items without a rating": int((~rated).sum())} if not rated.all() else {}
        return cls(
            labels=tuple(range(size)) if labels is None else tuple(labels),
            votes=kinds,
            n_items=n,
            answers=counted,
            raters=tuple(raters),
            pairs=dict(pairs or {}),
            unused=unused,
        )

    def summary(self) -> dict[str, Any]:
        """The figures that a card prints."""
        n = self.n_ratings
        return {
            "items": int(self.n_items.sum()),
            "ratings": int((n * self.n_items).sum()),
            "fewest_ratings_of_an_item": int(n.min(initial=2**62)) if len(n) else 0,
            "most_ratings_of_an_item": int(n.max(initial=0)),
            "labels": len(self.labels),
            **({"raters": len(self.raters)} if self.raters else {}),
            "unused": dict(self.unused),
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values with schema ``rating-counts/1``: items are counted, never named."""
        return {
            "schema": SCHEMA,
            "labels": list(self.labels),
            "votes": self.votes.tolist(),
            "n_items": self.n_items.tolist(),
            "answers": {s: t.tolist() for s, t in self.answers.items()},
            "matches": {s: t.tolist() for s, t in self.matches.items()},
            "raters": list(self.raters),
            "pairs": [{"raters": [i, j], "table": t.tolist()} for (i, j), t in self.pairs.items()],
            "unused": dict(self.unused),
            "inferred": list(self.inferred),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read back what :meth:`to_dict` wrote."""
        require_schema(data, SCHEMA)
        size = len(data["labels"])

        def table(rows: Any, width: int) -> Whole:
            return np.asarray(rows, dtype=np.int64).reshape(-1, width)

        counts = cls(
            labels=tuple(data["labels"]),
            votes=table(data["votes"], size),
            n_items=np.asarray(data["n_items"], dtype=np.int64),
            answers={s: table(t, size + 1) for s, t in data["answers"].items()},
            matches={s: table(t, 2) for s, t in data.get("matches", {}).items()},
            raters=tuple(data["raters"]),
            pairs={
                (p["raters"][0], p["raters"][1]): table(p["table"], size) for p in data["pairs"]
            },
            unused=dict(data.get("unused", {})),
            inferred=tuple(data.get("inferred", ())),
        )
        counts._check()
        return counts

    def _check(self) -> None:
        """Refuse numbers that no ratings can give."""
        by_system = (*self.answers.values(), *self.matches.values())
        tables = [self.votes, self.n_items, *by_system, *self.pairs.values()]
        same = all(np.array_equal(t.sum(axis=1), self.n_items) for t in by_system)
        whole = same and len(self.votes) == len(self.n_items)
        if not whole or any((t < 0).any() for t in tables) or (self.votes.sum(axis=1) < 1).any():
            rule = "must be whole numbers that add up to n_items"
            raise EvidenceError.of("counts", rule, "others", remedy="Count again.")

    def __add__(self, other: RatingCounts) -> RatingCounts:
        """Counts of disjoint sets of items add; labels are brought into the order of the first,
        kinds of votes are joined, raters are matched by name.

        Raises
        ------
        EvidenceError
            If labels or systems differ, or if only one side knows its raters' pairs or its matches.
        """
        if set(self.labels) != set(other.labels):
            rule = f"must be {list(self.labels)} on both sides"
            raise EvidenceError.of("labels", rule, list(other.labels), remedy="Pass labels.")
        for name in ("answers", "matches"):
            here, there = sorted(getattr(self, name)), sorted(getattr(other, name))
            require_evidence(here == there, name, f"must be of {here} on both sides", there)
        same, remedy = bool(self.pairs) == bool(other.pairs), "Count both with pairs=True."
        rule = "must be counted on both sides or on none"
        require_evidence(same, "pairs", rule, "one side", remedy=remedy)
        order = [other.labels.index(label) for label in self.labels]
        kinds, place, _ = kinds_of(np.concatenate([self.votes, other.votes[:, order]]))

        def joined(a: Whole, b: Whole) -> Whole:
            total = np.zeros((len(kinds), *a.shape[1:]), dtype=np.int64)
            np.add.at(total, place, np.concatenate([a, b]))
            return total

        with_none = [*order, len(order)]
        raters = tuple(dict.fromkeys((*self.raters, *other.raters)))
        return RatingCounts(
            labels=self.labels,
            votes=kinds,
            n_items=joined(self.n_items, other.n_items),
            answers={s: joined(t, other.answers[s][:, with_none]) for s, t in self.answers.items()},
            matches={s: joined(t, other.matches[s]) for s, t in self.matches.items()},
            raters=raters,
            pairs=_pairs(self, other, raters, order),
            unused=summed(self.unused, other.unused),
            inferred=tuple(dict.fromkeys((*self.inferred, *other.inferred))),
        )

    @property
    def n_ratings(self) -> Whole:
        """Votes on an item of each kind."""
        return np.asarray(self.votes.sum(axis=1))

    @property
    def top(self) -> Whole:
        """Votes for the most frequent label of each kind."""
        return np.asarray(self.votes.max(axis=1))

    @property
    def tied(self) -> Whole:
        """How many labels share the most votes."""
        return np.asarray((self.votes == self.top[:, None]).sum(axis=1))

    @property
    def agreement(self) -> NDArray[np.float64]:
        """Share of ordered pairs of votes on an item that agree; NaN where there is one vote."""
        n = self.n_ratings
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((self.votes * (self.votes - 1)).sum(axis=1) / (n * (n - 1)))

    def at(self, label: int | str) -> RatingCounts:
        """The same ratings cut at a label: "below", or at least it.

        Labels must be in ascending order. Matches with a reference label are left out.

        Examples
        --------
        >>> counts = RatingCounts.from_votes([[1, 1, 1], [2, 0, 1]], labels=[1, 2, 3])
        >>> cut = counts.at(3)
        >>> cut.labels, cut.votes.tolist(), cut.n_items.tolist()
        (('below 3', 'at least 3'), [[2, 1]], [2])
        """
        rule = f"must be a label of {list(self.labels[1:])}, which has one below it"
        require_evidence(label in self.labels[1:], "label", rule, repr(label))
        cut = self.labels.index(label)

        def two(table: Whole, axis: int = 1) -> Whole:
            parts = np.split(table, [cut, len(self.labels)], axis=axis)
            return np.concatenate(
                [*(p.sum(axis=axis, keepdims=True) for p in parts[:2]), parts[2]], axis=axis
            )

        kinds, place, _ = kinds_of(two(self.votes))

        def joined(table: Whole) -> Whole:
            total = np.zeros((len(kinds), *table.shape[1:]), dtype=np.int64)
            np.add.at(total, place, table)
            return total

        return dataclasses.replace(
            self,
            labels=(f"below {label}", f"at least {label}"),
            votes=kinds,
            n_items=joined(self.n_items),
            answers={s: joined(two(t)) for s, t in self.answers.items()},
            pairs={who: two(two(t), axis=0) for who, t in self.pairs.items()},
            matches={},
            inferred=(),
        )

    def hits(self, system: str) -> Whole:
        """Items of each kind to which the system gave a label with the most votes (shared or not)."""
        rule = f"must be one of {sorted(self.answers)}"
        require_evidence(system in self.answers, "system", rule, repr(system))
        chosen = self.answers[system][:, :-1]
        return np.asarray((chosen * (self.votes == self.top[:, None])).sum(axis=1))


def _pairs(
    first: RatingCounts, second: RatingCounts, raters: tuple[str, ...], order: list[int]
) -> dict[tuple[int, int], Whole]:
    if first.pairs and not (first.raters and second.raters):
        rule = "must be named on both sides to add their pairs"
        raise EvidenceError.of("raters", rule, "raters without names")
    place = {rater: i for i, rater in enumerate(raters)}
    total: dict[tuple[int, int], Whole] = {}
    for counts, labels in ((first, list(range(len(order)))), (second, order)):
        for (i, j), table in counts.pairs.items():
            a, b = place[counts.raters[i]], place[counts.raters[j]]
            here = table[np.ix_(labels, labels)]
            key, here = ((a, b), here) if a < b else ((b, a), here.T)
            total[key] = total[key] + here if key in total else here.copy()
    return dict(sorted(total.items()))


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
    by = _by_columns if len(labels) <= MOST_COLUMNS else _by_rows
    counted, lines = by(ratings, labels, chosen), []
    if ratings.labels is None:
        many = "" if len(labels) == 1 else "s"
        lines.append(f"{len(labels)} label{many} inferred: those that were seen")
    if ratings.first is not None:
        fewer = int(counted.n_items[counted.n_ratings < ratings.first].sum())
        used = f"only the first {ratings.first} ratings of each item are used"
        lines.append(f"{used}; {fewer} items have fewer")
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
    matches = {s: _matches(ratings, counted, reference, s) for s in chosen}
    return dataclasses.replace(counted, matches=matches)


def _by_columns(
    ratings: Ratings, labels: Sequence[int | str], systems: Sequence[str]
) -> RatingCounts:
    """One column per label, grouped in the engine: first by item, then by votes."""
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
        given = given.select("item", "system", code=coded("answer", labels, len(labels)))
        met, keys = votes.join(given, on="item", how="inner"), [*names, "system", "code"]
        found = fetch_arrays(met.group_by(*keys).agg(n=nw.len()).sort(*keys))
        n = found["n"].astype(np.int64)
        stacked, at, _ = kinds_of(np.concatenate([kinds, matrix(found, names)]))
        same, rule = len(stacked) == len(kinds), "must stay as they are"
        came, remedy = "rows that changed meanwhile", "Read them again."
        require_evidence(same, "ratings", rule, came, remedy=remedy)
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
    """The same with one query: an item has at most one answer of a system."""
    names, size = vote_columns(labels), len(labels)
    given = given_answers(ratings, [system]).select("item", code=coded("answer", labels, size))
    met = votes.join(given, on="item", how="left")
    met = met.with_columns(code=nw.col("code").fill_null(size + 1))
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
    """Answers to items that nobody rated, from how many ``met`` a rated item."""
    silent = [s for s in systems if not met[s]]
    if silent:
        came = f"none of the items of {', '.join(map(repr, silent[:5]))}"
        rule = "must name items that were rated"
        raise EvidenceError.of("answers.item", rule, came, remedy="Check the names of the items.")
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
    frame = ratings.frame
    if ratings.form == "long" and not has_rows(frame.filter(nw.col("label").is_null())):
        return {}
    total = count(frame if ratings.form == "wide" else distinct(frame, "item"))
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
        rule = "must have a label for each rated item"
        raise EvidenceError.of("reference", rule, "none", where=where, total=len(missing))
    said = {item: answer for item, _, answer in fetch(given_answers(ratings, [system]))}
    wanted = [(item, reference[item]) for item in items]
    met = np.array([label is not None and said.get(item) == label for item, label in wanted])
    _, place, _ = kinds_of(votes)
    hits = np.bincount(place, weights=met, minlength=len(counted.votes)).astype(np.int64)
    return np.stack([hits, counted.n_items - hits], axis=1)
