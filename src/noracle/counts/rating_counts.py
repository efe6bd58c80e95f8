"""How raters voted: items with the same votes are counted together.

Who voted is kept only in ``pairs``; ceilings and certificates need the votes alone, so that a table
of votes per item (rater unknown) is enough for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from noracle.counts.votes import Whole, kinds_of, pair_tables
from noracle.errors import EvidenceError, fault

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        """Counts from a matrix with one row an item and one column a rater; entries are places in
        ``labels``, -1 is missing.

        Examples
        --------
        >>> counts = RatingCounts.from_arrays([[0, 0, 1], [1, 1, -1]], labels=2, answers={"a": [0, 1]})
        >>> counts.votes.tolist(), counts.n_items.tolist()
        ([[0, 2], [2, 1]], [1, 1])
        """
        given = np.asarray(ratings, dtype=np.int64)
        if given.ndim != 2:
            raise EvidenceError(
                fault("ratings", "must be a matrix of items and raters", f"{given.ndim} dimensions")
            )
        size = (
            int(given.max(initial=0)) + 1
            if labels is None
            else labels
            if isinstance(labels, int)
            else len(labels)
        )
        names: tuple[int | str, ...] = (
            tuple(range(size)) if labels is None or isinstance(labels, int) else tuple(labels)
        )
        if given.size and (given.min() < -1 or given.max() >= size):
            raise EvidenceError(fault("ratings", f"must be in [0, {size}) or -1", int(given.max())))
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
        """Counts from a matrix of votes, one row an item and one column a label; items without
        votes are left out.

        ``answers`` maps a system to its answers, one an item, as places in ``labels`` (-1: none).
        """
        tally = np.asarray(votes, dtype=np.int64)
        rated = tally.sum(axis=1) > 0
        kinds, place, n = kinds_of(tally[rated])
        size = tally.shape[1]
        counted = {}
        for system, chosen in (answers or {}).items():
            column = np.asarray(chosen, dtype=np.int64)[rated]
            column = np.where((column < 0) | (column >= size), size, column)
            counted[system] = np.bincount(
                place * (size + 1) + column, minlength=len(kinds) * (size + 1)
            ).reshape(len(kinds), size + 1)
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
        if data.get("schema") != SCHEMA:
            raise EvidenceError(fault("schema", f"must be {SCHEMA!r}", repr(data.get("schema"))))
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
        tables = [
            self.votes,
            self.n_items,
            *self.answers.values(),
            *self.matches.values(),
            *self.pairs.values(),
        ]
        sums = [t.sum(axis=1) for t in (*self.answers.values(), *self.matches.values())]
        whole = len(self.votes) == len(self.n_items) and all(
            np.array_equal(s, self.n_items) for s in sums
        )
        if not whole or any((t < 0).any() for t in tables) or (self.votes.sum(axis=1) < 1).any():
            raise EvidenceError(
                fault(
                    "counts",
                    "must be whole numbers that add up to n_items",
                    "others",
                    remedy="Count again.",
                )
            )

    def __add__(self, other: RatingCounts) -> RatingCounts:
        """Counts of disjoint sets of items add; labels are brought into the order of the first."""
        from noracle.counts.rating_sums import added

        return added(self, other)

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

    def hits(self, system: str) -> Whole:
        """Items of each kind to which the system gave a label with the most votes (shared or not)."""
        if system not in self.answers:
            raise EvidenceError(
                fault("system", f"must be one of {sorted(self.answers)}", repr(system))
            )
        chosen = self.answers[system][:, :-1]
        return np.asarray((chosen * (self.votes == self.top[:, None])).sum(axis=1))
