"""Items whose true label is known, with what raters and systems said of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import EvidenceError, fault
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.known import read_known
from noracle.evidence.ratings import Ratings

Whole = NDArray[np.int64]

# Up to so many known items are looked up by the engine; with more all rows are read.
MOST_LOOKED_UP = 5000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownItems:
    """Codes of labels, one row an item; -1 is missing.

    ``items`` are their names, or row numbers. ``ratings`` has a column for each of ``raters`` and
    none where they are unknown; ``votes`` a column for each of ``labels``.
    """

    items: tuple[Any, ...]
    labels: tuple[int | str, ...]
    raters: tuple[str, ...]
    ratings: Whole
    votes: Whole
    truth: Whole
    answers: Mapping[str, Whole]

    @classmethod
    def from_arrays(
        cls, ratings: ArrayLike, known: ArrayLike, *, answers: Mapping[str, ArrayLike] | None = None
    ) -> Self:
        """From a matrix of codes (rows items, columns raters; -1 missing) and the code of the true
        label of each item (-1 unknown).
        """
        given, truth = np.asarray(ratings, dtype=np.int64), np.asarray(known, dtype=np.int64)
        said = {name: np.asarray(a, dtype=np.int64) for name, a in (answers or {}).items()}
        if given.ndim != 2:
            raise EvidenceError(
                fault("ratings", "must be a matrix of items and raters", f"{given.ndim} dimensions")
            )
        for name, column in {
            "known": truth,
            **{f"answers[{s!r}]": a for s, a in said.items()},
        }.items():
            if column.shape != (len(given),):
                raise EvidenceError(
                    fault(
                        name,
                        f"must have one entry for each of {len(given)} items",
                        f"shape {column.shape}",
                    )
                )
        size = 1 + max([int(a.max(initial=-1)) for a in (given, truth, *said.values())], default=-1)
        keep = truth >= 0
        given, truth, said = given[keep], truth[keep], {s: a[keep] for s, a in said.items()}
        names = tuple(str(i) for i in range(given.shape[1]))
        return cls(
            items=tuple(np.flatnonzero(keep).tolist()),
            labels=tuple(range(size)),
            raters=names,
            ratings=given,
            votes=_tally(given, size),
            truth=truth,
            answers=said,
        )

    @classmethod
    def from_ratings(cls, ratings: Ratings, known: object) -> Self:
        """From ratings and a table ``item``, ``label`` or a mapping of items to labels; known items
        without ratings are left out.
        """
        ratings.check()
        wanted = read_known(known).items()
        text = ratings.frame.collect_schema()["item"] == nw.String
        truth_of = {
            _as(item, text=text, what="item"): _as(
                label, text=ratings.label_kind == "text", what="label"
            )
            for item, label in wanted
        }
        rows = _rated(ratings, truth_of)
        items = sorted({row[0] for row in rows})
        if not items:
            raise EvidenceError(
                fault(
                    "known",
                    "must name items that were rated",
                    f"{len(truth_of)} others",
                    remedy="Compare the item ids.",
                )
            )
        place = {item: i for i, item in enumerate(items)}
        answered = _answered(ratings, place)
        seen: set[Any] = (
            {truth_of[i] for i in items}
            | {row[2] for row in rows}
            | {a for said in answered.values() for a in said.values()}
        )
        first = ratings.labels or ()
        labels = (*first, *sorted(seen - set(first)))
        code = {label: k for k, label in enumerate(labels)}
        raters = tuple(sorted({str(row[1]) for row in rows if row[1] is not None}))
        column = {name: j for j, name in enumerate(raters)}
        matrix, votes = (
            np.full((len(items), len(raters)), -1, dtype=np.int64),
            np.zeros((len(items), len(labels)), dtype=np.int64),
        )
        for item, rater, label, n in rows:
            votes[place[item], code[label]] += n
            if rater is not None:
                matrix[place[item], column[str(rater)]] = code[label]
        answers = {
            system: np.array([code[said[i]] if i in said else -1 for i in items], dtype=np.int64)
            for system, said in answered.items()
        }
        truth = np.array([code[truth_of[i]] for i in items], dtype=np.int64)
        return cls(
            items=tuple(items),
            labels=labels,
            raters=raters,
            ratings=matrix,
            votes=votes,
            truth=truth,
            answers=answers,
        )

    def plurality(self, seed: int) -> Whole:
        """The most frequent label of each item, ties drawn at random; -1 without votes. No answer
        of a system is looked at.
        """
        if not self.votes.size:
            return np.full(len(self.votes), -1, dtype=np.int64)
        best = self.votes == self.votes.max(axis=1, keepdims=True)
        drawn = np.where(best, np.random.default_rng(seed).random(best.shape), -1.0).argmax(axis=1)
        return np.where(self.votes.sum(axis=1) > 0, drawn, -1)


def _tally(ratings: Whole, size: int) -> Whole:
    votes = np.zeros((len(ratings), size), dtype=np.int64)
    for column in ratings.T:
        said = column >= 0
        votes[np.flatnonzero(said), column[said]] += 1
    return votes


def _as(value: Any, *, text: bool, what: str) -> Any:
    if text:
        return str(value)
    try:
        return int(value)
    except (TypeError, ValueError):
        raise EvidenceError(
            fault(
                f"known.{what}", "must be a whole number, as in the ratings", type(value).__name__
            )
        ) from None


def _only(frame: Frame, items: Sequence[Any]) -> Frame:
    return frame.filter(nw.col("item").is_in(items)) if len(items) <= MOST_LOOKED_UP else frame


def _rated(ratings: Ratings, truth: Mapping[Any, Any]) -> list[tuple[Any, str | None, Any, int]]:
    """Item, rater, label and how many, of the known items."""
    frame = _only(ratings.used, list(truth))
    if ratings.form == "wide":
        names = ratings.raters or ()
        wide = fetch(frame.select("item", *names))
        return [
            (r[0], names[j], v, 1)
            for r in wide
            if r[0] in truth
            for j, v in enumerate(r[1:])
            if v is not None
        ]
    if ratings.form == "votes":
        return [
            (i, None, label, int(n))
            for i, label, n in fetch(frame.select("item", "label", "n"))
            if i in truth and n
        ]
    return [
        (i, rater, label, 1)
        for i, rater, label in fetch(frame.select("item", "rater", "label"))
        if i in truth
    ]


def _answered(ratings: Ratings, place: Mapping[Any, int]) -> dict[str, dict[Any, Any]]:
    found: dict[str, dict[Any, Any]] = {}
    if ratings.answers is not None:
        for item, system, answer in fetch(
            _only(ratings.answers.select("item", "system", "answer"), list(place))
        ):
            own = found.setdefault(str(system), {})
            if item in place and answer is not None:
                own[item] = answer
    return found
