"""Options that name ratings, and how ratings are loaded from them."""

from __future__ import annotations

import csv
import dataclasses
import time
from collections.abc import Sequence
from typing import Annotated, Any

from noracle.cli import _options as opt
from noracle.cli._options import class_names, column_names, flags, names, panel, without
from noracle.cli._output import read_json, settings
from noracle.counts.ratings import RatingCounts, count_ratings
from noracle.errors import ArgumentError, EvidenceError, NoracleError, require
from noracle.evidence.ratings import Ratings

_ratings = panel("Ratings")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RatingSources:
    """Where the ratings are, and how to read them."""

    answers: opt.File = _ratings("item, system, answer: what systems said of these items.")
    ratings: opt.File = _ratings(
        "item, rater, label, or one row per item (CSV, JSONL, Parquet; globs); see --votes, --cuts."
    )
    items: opt.File = _ratings("item, cluster: items of one cluster may depend on each other.")
    wide: bool = _ratings(
        "Ratings have one row per item; needed only where columns do not tell.", default=False
    )
    votes: bool = _ratings("The ratings are counts: item, label, n; raters unknown.", default=False)
    raters: opt.Names = _ratings("Of a wide file: the columns of the raters, separated by commas.")
    item: opt.Column = _ratings("Of a wide file: the column with items; else the row number.")
    systems: opt.Names = _ratings("Columns of the wide file with the answers of systems.")
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
    counts: opt.Files = _ratings(
        "Stored counts of ratings (rating-counts/1 JSON); several are added."
    )
    columns: list[str] | None = _ratings(
        "Your names of columns: item=question_id,rater=worker; for one file ratings.item=id.",
        "NAME=COL",
    )
    no_answer: opt.Names = _ratings("What stands for no label or answer, as -1,N/A.")

    @property
    def whole(self) -> bool:
        """Whether all ratings are there item by item."""
        return self.ratings is not None and not self.counts

    def load(self) -> Ratings:
        """The ratings; raises where the options do not fit together."""
        started = time.perf_counter()
        self._fit()
        labels: Any = {"labels": class_names(self.labels)}
        if self.votes:
            about: Any = {"items": self.items, **labels}
            ratings = Ratings.from_votes(self.ratings, self.answers, **about)
        elif self.cuts is not None:
            about = {"cuts": self._cuts(), "labels": self._bands(), "first": self.first}
            ratings = Ratings.from_scores(self.ratings, self.answers, **about)
        else:
            columns = column_names(self.columns)
            columns |= {} if self.item is None else {"ratings.item": self.item}
            about = {"items": self.items, "first": self.first, "columns": columns, **labels}
            ratings = Ratings.from_tables(
                self.ratings,
                self.answers,
                wide=self.wide or None,
                raters=names(self.raters),
                systems=names(self.systems),
                no_answer=names(self.no_answer) or (),
                **about,
            )
        settings.notes += ratings.inferred
        opt.log.info("ratings opened in %.2f s", time.perf_counter() - started)
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
            opt.log.info("ratings counted in %.2f s", time.perf_counter() - started)
        return opt.add_up(parts)

    def _fit(self) -> None:
        rule = "--ratings FILE (or --counts FILE where the verb takes it); got none."
        require(self.ratings is not None, f"ratings must be given: {rule}")
        forms = flags({"wide": self.wide, "votes": self.votes, "cuts": self.cuts is not None})
        require(len(forms) < 2, f"{' and '.join(forms)} must not come together; got both.")
        stray = flags({"raters": self.raters, "item": self.item, "systems": self.systems})
        rule = "must go with one row per item and a column for each rater"
        unfit = stray and (self.votes or self.cuts is not None)
        require(not unfit, f"{', '.join(stray)} {rule}; got {''.join(forms)}.")
        rule = "--items must not come with --cuts; cut the scores first."
        require(self.items is None or self.cuts is None, rule)
        rule = "--first must not come with --votes; counts have no order."
        require(self.first is None or not self.votes, rule)

    def _bands(self) -> list[int | str | None] | None:
        """The labels of the bands; an empty one is left out."""
        if self.labels is None:
            return None
        cells = [cell.strip() for cell in next(csv.reader([self.labels], skipinitialspace=True))]
        whole = all(cell.removeprefix("-").isdecimal() for cell in cells if cell)
        return [None if not cell else int(cell) if whole else cell for cell in cells]

    def _cuts(self) -> list[float]:
        try:
            return [float(cut) for cut in names(self.cuts) or ()]
        except ValueError:
            rule = "--cuts must be numbers separated by commas"
            raise ArgumentError(f"{rule}; got {self.cuts!r}.") from None


Rated = Annotated[RatingSources, without("answers", "items", "systems")]


def read_rating_counts(path: str) -> RatingCounts:
    """Counts of ratings that were stored as JSON."""
    value = read_json(path, "--counts")
    try:
        return RatingCounts.from_dict(value)
    except (NoracleError, KeyError, TypeError, ValueError, AttributeError):
        rule = "must hold counts of ratings (schema rating-counts/1)"
        raise EvidenceError.of("--counts", rule, f"something else in {path!r}") from None
