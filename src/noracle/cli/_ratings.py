"""Options that name ratings, and how ratings are loaded from them."""

from __future__ import annotations

import csv
import dataclasses
import time
from collections.abc import Sequence
from typing import Annotated

from noracle.cli._options import (
    Column,
    File,
    Files,
    Names,
    add_up,
    class_names,
    column_names,
    flags,
    log,
    names,
    panel,
    without,
)
from noracle.cli._output import read_json, settings
from noracle.counts.ratings import RatingCounts, count_ratings
from noracle.errors import ArgumentError, EvidenceError, NoracleError, fault
from noracle.evidence.ratings import Ratings

_ratings = panel("Ratings")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RatingSources:
    """Where the ratings are, and how to read them."""

    answers: File = _ratings("item, system, answer: what systems said of these items.")
    ratings: File = _ratings(
        "item, rater, label, or one row per item (CSV, JSONL, Parquet; globs); see --votes, --cuts."
    )
    items: File = _ratings("item, cluster: items of one cluster may depend on each other.")
    wide: bool = _ratings(
        "Ratings have one row per item; needed only where columns do not tell.", default=False
    )
    votes: bool = _ratings("The ratings are counts: item, label, n; raters unknown.", default=False)
    raters: Names = _ratings("Of a wide file: the columns of the raters, separated by commas.")
    item: Column = _ratings("Of a wide file: the column with items; else the row number.")
    systems: Names = _ratings("Columns of the wide file with the answers of systems.")
    labels: str | None = _ratings(
        "All labels, in their order; with --cuts the label of each band (empty: leave it out).",
        "A,B,C",
    )
    cuts: str | None = _ratings(
        "Ratings are scores (item, rater, value), cut here; a cut is in the lower band.", "X,Y"
    )
    first: int | None = _ratings(
        "Use only the first M ratings of each item, by the column at or by the order of the rows.",
        "M",
    )
    counts: Files = _ratings("Stored counts of ratings (rating-counts/1 JSON); several are added.")
    columns: list[str] | None = _ratings(
        "Your names of columns: item=question_id,rater=worker; for one file ratings.item=id.",
        "NAME=COL",
    )
    no_answer: Names = _ratings("What stands for no label or answer, as -1,N/A.")

    @property
    def whole(self) -> bool:
        """Whether all ratings are there item by item."""
        return self.ratings is not None and not self.counts

    def load(self) -> Ratings:
        """The ratings; raises where the options do not fit together."""
        started = time.perf_counter()
        self._fit()
        if self.votes:
            ratings = Ratings.from_votes(
                self.ratings, self.answers, items=self.items, labels=class_names(self.labels)
            )
        elif self.cuts is not None:
            ratings = Ratings.from_scores(
                self.ratings,
                self.answers,
                cuts=self._cuts(),
                labels=self._bands(),
                first=self.first,
            )
        else:
            columns = column_names(self.columns)
            columns |= {} if self.item is None else {"ratings.item": self.item}
            ratings = Ratings.from_tables(
                self.ratings,
                self.answers,
                items=self.items,
                labels=class_names(self.labels),
                first=self.first,
                columns=columns,
                wide=self.wide or None,
                raters=names(self.raters),
                systems=names(self.systems),
                no_answer=names(self.no_answer) or (),
            )
        settings.notes += ratings.inferred
        log.info("ratings opened in %.2f s", time.perf_counter() - started)
        return ratings

    def count(
        self,
        loaded: Ratings | None = None,
        *,
        systems: Sequence[str] | None = None,
        pairs: bool = False,
    ) -> RatingCounts:
        """The counts of the ratings (``loaded`` if they are open already) and of stored counts,
        added.
        """
        parts = [read_rating_counts(path) for path in self.counts or ()]
        if self.ratings is not None or not parts:
            started = time.perf_counter()
            parts.append(count_ratings(loaded or self.load(), systems=systems, pairs=pairs))
            log.info("ratings counted in %.2f s", time.perf_counter() - started)
        return add_up(parts)

    def _fit(self) -> None:
        if self.ratings is None:
            raise ArgumentError(
                "ratings must be given: --ratings FILE (or --counts FILE where the verb takes it); got none."
            )
        forms = flags({"wide": self.wide, "votes": self.votes, "cuts": self.cuts is not None})
        if len(forms) > 1:
            raise ArgumentError(f"{' and '.join(forms)} must not come together; got both.")
        stray = flags({"raters": self.raters, "item": self.item, "systems": self.systems})
        if stray and (self.votes or self.cuts is not None):
            raise ArgumentError(
                f"{', '.join(stray)} must go with one row per item and a column for each rater; got {forms[0]}."
            )
        if self.items is not None and self.cuts is not None:
            raise ArgumentError("--items must not come with --cuts; cut the scores first.")
        if self.first is not None and self.votes:
            raise ArgumentError("--first must not come with --votes; counts have no order.")

    def _bands(self) -> list[int | str | None] | None:
        """The labels of the bands; an empty one is left out."""
        if self.labels is None:
            return None
        cells = [cell.strip() for cell in next(csv.reader([self.labels], skipinitialspace=True))]
        whole = all(_is_whole(cell) for cell in cells if cell)
        return [None if not cell else int(cell) if whole else cell for cell in cells]

    def _cuts(self) -> list[float]:
        try:
            return [float(cut) for cut in names(self.cuts) or ()]
        except ValueError:
            raise ArgumentError(
                f"--cuts must be numbers separated by commas; got {self.cuts!r}."
            ) from None


Rated = Annotated[RatingSources, without("answers", "items", "systems")]


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def read_rating_counts(path: str) -> RatingCounts:
    """Counts of ratings that were stored as JSON."""
    value = read_json(path, "--counts")
    try:
        return RatingCounts.from_dict(value)
    except (NoracleError, KeyError, TypeError, ValueError, AttributeError):
        came = f"something else in {path!r}"
        raise EvidenceError(
            fault("--counts", "must hold counts of ratings (schema rating-counts/1)", came)
        ) from None
