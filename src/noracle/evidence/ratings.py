"""Ratings: several raters on the same items, and what systems answered to them."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import narwhals as nw

from noracle.errors import ArgumentError, EvidenceError, EvidenceWarning, fault
from noracle.evidence import rating_rules as rules
from noracle.evidence.classes import Classes, apart, meet_ids, no_answers
from noracle.evidence.evidence import FIRST_ONLY, first_runs, numbered_runs
from noracle.evidence.frames import Frame, engine_of, fetch, keeps_order, number_rows, open_frames
from noracle.evidence.normal import normalise, shown
from noracle.evidence.shapes import (
    Shape,
    is_long,
    long_fault,
    rename,
    resolve,
    shape_of,
    shaped,
    unpivot,
    wide_columns,
    wide_note,
)
from noracle.evidence.tables import TABLES, Table

Form = Literal["long", "wide", "votes"]
Label = int | str
_PLAIN = Shape()
_EMPTY = "must have rows; got an empty table. Write rows into it or leave it out."


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Ratings:
    """What several raters said of each item, on one engine, lazily; never changed.

    Columns and types are checked when the ratings are made, rows when they are first counted;
    :meth:`check` checks the rows at once. Build it with :meth:`from_tables`, :meth:`from_wide`,
    :meth:`from_votes` or :meth:`from_scores`.

    Attributes
    ----------
    frame
        Lazy narwhals frame. Form ``long``: ``item``, ``rater``, ``label``. Form ``votes``:
        ``item``, ``label``, ``n``. Form ``wide``: ``item`` and a column for each of ``raters``.
    answers
        ``item``, ``system``, ``answer``, or None.
    labels
        The labels in their order; None where they are those that were seen.
    label_kind
        ``"whole"`` or ``"text"``.
    raters
        The columns of the wide form; None for the other forms.
    first
        Only so many ratings of each item are used, the earliest ones; None for all.
    items
        ``item`` and ``cluster``, or None.
    """

    frame: Frame
    form: Form
    answers: Frame | None = None
    labels: tuple[Label, ...] | None = None
    label_kind: Literal["whole", "text"] = "whole"
    raters: tuple[str, ...] | None = None
    first: int | None = None
    items: Frame | None = None
    table: Table = rules.LONG
    inferred: tuple[str, ...] = ()
    _connection: object = dataclasses.field(default=None, repr=False)
    _known: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        """One line, without a query."""
        parts = [f"{self.form} ratings", *(["answers"] if self.answers is not None else [])]
        parts += [f"{len(self.raters)} raters"] if self.raters is not None else []
        parts += [f"{len(self.labels)} labels"] if self.labels is not None else []
        return f"Ratings({self.frame.implementation}: {', '.join(parts)})"

    @classmethod
    def from_tables(
        cls,
        ratings: object,
        answers: object = None,
        *,
        items: object = None,
        labels: Sequence[Label] | None = None,
        first: int | None = None,
        columns: Mapping[str, Any] | None = None,
        wide: bool | None = None,
        raters: Sequence[str] | None = None,
        systems: Sequence[str] | None = None,
        no_answer: Sequence[object] = (),
    ) -> Self:
        """Ratings from tables.

        Parameters
        ----------
        ratings
            ``item``, ``rater``, ``label`` (null: the rater did not say) and optionally ``at``, the
            time of the rating. Or one row per item with a column for each rater.
        answers
            ``item``, ``system``, ``answer`` (null: no answer); any number of systems. Or one row
            per item with a column for each system.
        items
            ``item`` and ``cluster``: items of one cluster may depend on each other. An item without
            a cluster is one of its own.
        labels
            All labels, in their order where that matters. A rating that is not among them is a
            fault. By default those that were seen.
        first
            Use only the first so many ratings of every item, by ``at`` (by rater where times are
            equal) or, without that column, in the order of the rows. Where raters were added
            because the first ones disagreed, this is the part that was fixed beforehand.
        columns, wide, no_answer
            As in :meth:`noracle.Evidence.from_tables`.
        raters, systems
            Columns of wide tables; by default all that are not the item, about the item, or a key.
            Systems may be columns of the ratings, where no answers are given.

        Each table is a path or glob (CSV, JSONL, Parquet), a dict of columns, or a frame that
        :meth:`Evidence.from_tables` takes.

        Raises
        ------
        EvidenceError
            If a column is missing or of a wrong type; all faults at once.

        Examples
        --------
        >>> ratings = Ratings.from_tables(
        ...     {"item": [1, 1, 2, 2], "rater": ["ann", "bob", "ann", "bob"], "label": ["cat", "cat", "dog", None]},
        ...     {"item": [1, 2], "system": ["a", "a"], "answer": ["cat", "dog"]},
        ... )
        >>> ratings.form, ratings.label_kind
        ('long', 'text')
        """
        given = {"ratings": ratings, "answers": answers, "items": items}
        shape = shape_of(
            columns, wide=wide, raters=raters, systems=systems, no_answer=no_answers(no_answer)
        )
        return cls._made(given, rules.LONG, form="long", labels=labels, first=first, shape=shape)

    @classmethod
    def from_wide(
        cls,
        table: object,
        answers: object = None,
        *,
        raters: Sequence[str],
        item: str | None = None,
        systems: Sequence[str] = (),
        items: object = None,
        labels: Sequence[Label] | None = None,
        first: int | None = None,
    ) -> Self:
        """Ratings from a table with one row an item and one column a rater.

        Parameters
        ----------
        table
            Any table that :meth:`from_tables` takes; null where a rater did not say.
        answers
            A long table of answers, with the same items; needs ``item``.
        raters
            The columns with ratings. ``first`` takes them in this order.
        item
            The column that names items; by default the row number, from 0.
        systems
            Columns of the same table with answers, one a system; instead of ``answers``.
        items
            As in :meth:`from_tables`; needs ``item``.

        Examples
        --------
        >>> wide = {"q": [1, 2], "ann": ["cat", "dog"], "bob": ["cat", None], "agent": ["cat", "cat"]}
        >>> Ratings.from_wide(wide, raters=["ann", "bob"], item="q", systems=["agent"]).raters
        ('ann', 'bob')
        """
        for name, given in (("raters", raters), ("systems", systems)):
            if (
                isinstance(given, str)
                or len(set(given)) != len(given)
                or (name == "raters" and not given)
            ):
                raise EvidenceError(
                    fault(name, "must be a list of different columns", repr(given)[:80])
                )
        if systems and answers is not None:
            raise ArgumentError("systems must come without answers; got both.")
        if (answers is not None or items is not None) and item is None:
            raise ArgumentError(
                "item must name the column with items where answers or items are given; got None."
            )
        if item != "item" and "item" in (*raters, *systems):
            raise EvidenceError(
                fault(
                    "raters",
                    "must not be called 'item'",
                    "a column of that name",
                    remedy="Rename the column.",
                )
            )
        rules.check_raters(len(raters))
        return cls._made(
            {"ratings": table, "answers": answers, "items": items},
            rules.wide_table(raters),
            form="wide",
            labels=labels,
            first=first,
            item=item,
            systems=tuple(systems),
            raters=tuple(raters),
        )

    @classmethod
    def from_votes(
        cls,
        table: object,
        answers: object = None,
        *,
        items: object = None,
        labels: Sequence[Label] | None = None,
    ) -> Self:
        """Ratings from counts: how many raters gave each label to an item. Who they were is not
        known.

        ``table`` has columns ``item``, ``label`` and ``n``; a label that nobody gave may be left
        out.

        Examples
        --------
        >>> Ratings.from_votes({"item": [1, 1, 2], "label": ["cat", "dog", "dog"], "n": [2, 1, 3]}).form
        'votes'
        """
        return cls._made(
            {"ratings": table, "answers": answers, "items": items},
            rules.VOTES,
            form="votes",
            labels=labels,
        )

    @classmethod
    def from_scores(
        cls,
        table: object,
        answers: object = None,
        *,
        cuts: Sequence[float],
        labels: Sequence[Label | None] | None = None,
        closed: Literal["right", "left"] = "right",
        first: int | None = None,
    ) -> Self:
        """Ratings from soft scores, mapped to labels by cut points.

        Parameters
        ----------
        table
            ``item``, ``rater``, ``value`` and optionally ``at``.
        cuts
            Increasing cut points; m of them make m + 1 bands.
        labels
            The label of each band, from the lowest; a label may stand for several bands, and None
            leaves the scores of a band out (a neutral band, say). By default 0 to m.
        closed
            To which band a score on a cut point belongs: ``"right"`` the lower one (a band holds
            its right end), ``"left"`` the upper.

        Examples
        --------
        Sentiment in [0, 1] as two classes, the middle fifth left out.

        >>> scores = {"item": [1, 1, 2], "rater": ["ann", "bob", "ann"], "value": [0.4, 0.61, 0.5]}
        >>> Ratings.from_scores(scores, cuts=[0.4, 0.6], labels=["negative", None, "positive"]).labels
        ('negative', 'positive')
        """
        bands = rules.bands_of(cuts, labels, closed)
        known = tuple(dict.fromkeys(label for label in bands.labels if label is not None))
        return cls._made(
            {"ratings": table, "answers": answers},
            rules.SCORES,
            form="long",
            labels=known,
            first=first,
            bands=bands,
        )

    @classmethod
    def _made(
        cls,
        given: dict[str, object],
        table: Table,
        *,
        form: Form,
        labels: Sequence[Label] | None,
        first: int | None = None,
        item: str | None = None,
        systems: tuple[str, ...] = (),
        raters: tuple[str, ...] | None = None,
        bands: rules.Bands | None = None,
        shape: Shape = _PLAIN,
    ) -> Self:
        known = rules.known_labels(labels)
        rules.check_first(first)
        frames, connection = open_frames(
            {name: frame for name, frame in given.items() if frame is not None}
        )
        notes: list[str] = []
        if form == "long":
            found = _recognised(frames, table, shape, notes)
            if found is not None:
                item, raters, systems = found
                rules.check_raters(len(raters))
                form, table = "wide", rules.wide_table(raters)
        elif form == "votes":
            frames["ratings"] = rename(frames["ratings"], rules.VOTES, shape.columns, notes)
        if form == "wide":
            frames = _from_wide(frames, raters or (), item, systems)
        frames = _beside(
            frames,
            dataclasses.replace(shape, wide=None, systems=() if systems else shape.systems),
            notes,
        )
        if form == "long" and first is not None and "at" not in frames["ratings"].columns:
            frames["ratings"] = _numbered(frames["ratings"])
        tables = {"ratings": table, "answers": TABLES["answers"], "items": TABLES["items"]}
        faults: list[str] = []
        for name in frames:
            frames[name], problems = normalise(frames[name], tables[name])
            faults += problems
        if not faults:
            faults = [
                f"{name} {_EMPTY}"
                for name in frames
                if not fetch(frames[name].select("item").head(1))
            ]
        if "items" in frames and "cluster" not in frames["items"].columns:
            faults.append(
                fault(
                    "items",
                    "must have a column cluster beside ratings",
                    shown(frames["items"].columns),
                )
            )
        if faults:
            raise EvidenceError(*faults)
        if bands is not None:
            frames["ratings"] = frames["ratings"].with_columns(label=bands.expr())
        faults = meet_ids(frames, notes, [(name, "item") for name in frames])
        columns = [("ratings", column) for column in raters or ("label",)]
        reader = Classes(
            frames=frames,
            pairs=[*columns, ("answers", "answer")],
            what="label and answer",
            named="labels",
            classes=known,
            no_answer=shape.no_answer,
            notes=notes,
            ours=connection is not None,
        )
        kind, more = reader.read()
        faults += more
        faults = faults or apart(frames, "ratings", "rated")
        if faults:
            raise EvidenceError(*faults)
        answers, repeats = first_runs(frames.get("answers"))
        if repeats is not None:
            warnings.warn(FIRST_ONLY, EvidenceWarning, stacklevel=3)
        return cls(
            frame=frames["ratings"],
            form=form,
            answers=answers,
            labels=known,
            label_kind="text" if kind == "text" else "whole",
            raters=raters,
            first=first,
            items=frames.get("items"),
            table=table,
            inferred=tuple(notes),
            _connection=connection,
        )

    def check(self) -> Self:
        """Check every row now; returns the ratings themselves.

        Raises
        ------
        EvidenceError
            With all faults at once, the first five items of each named.
        """
        if "checked" not in self._known:
            faults = rules.faults_of_ratings(self)
            if faults:
                raise EvidenceError(*faults)
            self._known["checked"] = True
        return self

    @property
    def used(self) -> Frame:
        """The frame without missing ratings and, with ``first``, without the later ones; in the
        wide form those are null.
        """
        if self.form == "wide":
            return (
                self.frame
                if self.first is None
                else self.frame.with_columns(*rules.first_columns(self.raters or (), self.first))
            )
        said = ~nw.col("label").is_null()
        if self.first is None:
            return self.frame.filter(said)
        # A score in a band that is left out is a rating all the same: which ones come first must
        # not depend on what they say.
        frame = self.frame.filter(
            ~nw.col("value").is_null() if self.table is rules.SCORES else said
        )
        order = ["at", "rater"] if "at" in frame.columns else [rules.ROW]
        place = nw.col("_one").cum_sum().over("item", order_by=order)
        numbered = frame.with_columns(_one=nw.lit(1)).with_columns(_place=place)
        return numbered.filter((nw.col("_place") <= self.first) & said).drop("_one", "_place")

    def seen_labels(self) -> tuple[Label, ...]:
        """The labels that were given or, where none were, those that the raters used, sorted."""
        if self.labels is not None:
            return self.labels
        if "labels" not in self._known:
            self._known["labels"] = rules.labels_in(self.frame, self.raters or ("label",))
        found: tuple[Label, ...] = self._known["labels"]
        return found

    def seen_raters(self) -> tuple[str, ...]:
        """The raters, sorted (the columns of a wide table in their order); empty where they are
        unknown.
        """
        if self.raters is not None:
            return self.raters
        if self.form == "votes":
            return ()
        if "raters" not in self._known:
            self._known["raters"] = rules.raters_in(self.used)
        found: tuple[str, ...] = self._known["raters"]
        return found


def _recognised(
    frames: dict[str, Frame], table: Table, shape: Shape, notes: list[str]
) -> tuple[str | None, tuple[str, ...], tuple[str, ...]] | None:
    """The item, raters and systems of a wide table; None for a long one, whose columns get their
    canonical names.
    """
    frame, name = frames["ratings"], "scores" if table is rules.SCORES else "ratings"
    if {"item", "label", "n"} <= set(frame.columns) and "rater" not in frame.columns:
        raise EvidenceError(
            fault(
                "ratings",
                "must have columns item, rater, label",
                "votes (item, label, n)",
                remedy="Use from_votes.",
            )
        )
    if is_long(frame, name, shape):
        faults = [long_fault(name)] if shape.wide else []
        strange = [
            c
            for c in (*shape.raters, *(() if "answers" in frames else shape.systems))
            if c not in frame.columns
        ]
        if strange:
            faults.append(
                fault(
                    "raters",
                    "must be columns of ratings",
                    f"no {', '.join(strange[:6])} in {shown(frame.columns)}",
                )
            )
        if faults:
            raise EvidenceError(*faults)
        frames["ratings"] = rename(frame, table, shape.columns, notes)
        return None
    names, lines, faults = resolve(
        frame.columns, Table(name=name, columns=table.columns[:1]), shape.columns
    )
    if faults:
        raise EvidenceError(*faults)
    item = names.get("item")
    columns, others = wide_columns(frame, name, shape, item)
    systems = (
        tuple(s for s in shape.systems if s in frame.columns) if "answers" not in frames else ()
    )
    told = (
        []
        if shape.raters
        else [wide_note("ratings", "rater", columns, [c for c in others if c not in systems])]
    )
    notes += [*lines, *told]
    if table is rules.SCORES:
        frames["ratings"] = unpivot(frame, item or _row_of(frames), columns, ("rater", "value"))
        return None
    return item, tuple(columns), systems


def _row_of(frames: dict[str, Frame]) -> str:
    raise EvidenceError(
        fault(
            "ratings.item",
            "must be a column",
            str(shown(frames["ratings"].columns)),
            remedy="Name it in columns.",
        )
    )


def _beside(frames: dict[str, Frame], shape: Shape, notes: list[str]) -> dict[str, Frame]:
    """The tables with answers and items, if there are some, in their canonical form."""
    others = {name: frame for name, frame in frames.items() if name != "ratings"}
    if not others:
        return frames
    made = shaped(others, shape)
    notes += made.notes
    if "answers" in others:
        made.frames["answers"], told = numbered_runs(made.frames["answers"])
        notes += told
    return {"ratings": frames["ratings"], **{name: made.frames[name] for name in others}}


def _numbered(frame: Frame) -> Frame:
    if not keeps_order(frame):
        raise EvidenceError(
            fault(
                "ratings",
                "must have a column at where first is given",
                "none",
                remedy="Rows have no order there.",
            )
        )
    return number_rows(frame, rules.ROW)


def _from_wide(
    frames: dict[str, Frame], raters: Sequence[str], item: str | None, systems: Sequence[str]
) -> dict[str, Frame]:
    """The wide frame with its item column in place, and the long answers of the systems among its
    columns.
    """
    wide = frames["ratings"]
    wanted = [*raters, *systems, *([item] if item is not None else [])]
    missing = [c for c in wanted if c not in wide.columns]
    if missing:
        found = f"no {', '.join(missing[:6])} in {shown(wide.columns)}"
        raise EvidenceError(fault("table", f"must have columns {', '.join(wanted[:12])}", found))
    if item is None:
        if not keeps_order(wide):
            raise EvidenceError(
                fault(
                    "item",
                    f"must name a column of {engine_of(wide)} frames",
                    None,
                    remedy="Rows have no order there.",
                )
            )
        wide, item = number_rows(wide, rules.ROW), rules.ROW
    wide = wide.select(
        nw.col(item).alias("item"), *(nw.col(c) for c in (*raters, *systems) if c != "item")
    )
    found_frames = {"ratings": wide.select("item", *raters)}
    if systems:
        found_frames["answers"] = unpivot(wide, "item", systems, ("system", "answer"))
    found_frames |= {name: frames[name] for name in ("answers", "items") if name in frames}
    return found_frames
