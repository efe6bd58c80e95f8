"""Ratings: several raters on the same items, and what systems answered to them."""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

import narwhals as nw

from noracle.errors import (
    EvidenceError,
    EvidenceWarning,
    fault,
    raise_faults,
    require,
    require_evidence,
)
from noracle.evidence.classes import Classes, apart, meet_ids, no_answers
from noracle.evidence.evidence import EMPTY, FIRST_ONLY, T, first_runs, numbered_runs
from noracle.evidence.frames import (
    Frame,
    cases,
    distinct,
    fetch,
    has_rows,
    is_there,
    keeps_order,
    number_rows,
    open_frames,
)
from noracle.evidence.labels import RowFault, faults_of_table, items_fault, repeats, short
from noracle.evidence.tables import (
    ROW,
    TABLES,
    Column,
    Shape,
    TableRules,
    either,
    is_long,
    item_column,
    long_fault,
    normalise,
    rename,
    rows_as_items,
    shape_of,
    shaped,
    shown,
    unpivot,
    wide_columns,
    wide_note,
)

_SHOWN, _MOST_SHOWN = "_shown_", 30
MOST_LABELS = 1000
"""The largest number of different labels; more are taken for texts that are no labels."""
_BITS = 60
_MOST_MASKS = 8

_AT = tuple(Column(name=c, kind="any", required=False, nullable=True) for c in ("at", ROW))
LONG = TableRules(name="ratings", columns=(*TABLES["ratings"].columns, *_AT))
SCORES = TableRules(name="scores", columns=(*TABLES["scores"].columns, *_AT))
_ITEM, _VOTE = TABLES["ratings"].columns[0], Column(name="label", kind="class")
_VOTED = (_ITEM, _VOTE, Column(name="n", kind="number", low=0))
VOTES = TableRules(name="votes", columns=_VOTED, key=("item", "label"))


def wide_table(raters: Sequence[str]) -> TableRules:
    """The rules of a table with one row per item and these columns of raters."""
    columns = [Column(name=name, kind="class", nullable=True) for name in raters]
    return TableRules(name="ratings", columns=(_ITEM, *columns), key=("item",))


def bands_of(
    cuts: Sequence[float], labels: Sequence[int | str | None] | None, closed: Any
) -> tuple[tuple[int | str | None, ...], nw.Expr]:
    """The label of each band between cut points (None: left out), and of the column ``value``."""
    points = tuple(float(c) for c in cuts)
    rise = all(a < b for a, b in itertools.pairwise(points))
    rise = rise and bool(points) and all(math.isfinite(c) for c in points)
    require(rise, f"cuts must be increasing finite numbers; got {list(cuts)!r}.")
    require(closed in {"right", "left"}, f"closed must be 'right' or 'left'; got {closed!r}.")
    n = len(points)
    named = tuple(range(n + 1)) if labels is None else tuple(labels)
    came = f"{n + 1} for {n} cuts, None for a band left out; got {len(named)}."
    require(len(named) == n + 1, f"labels must be {came}")
    dtype: Any = nw.String if any(isinstance(label, str) for label in named) else nw.Int64
    *lower, last = [nw.lit(label, dtype=dtype) for label in named]
    value = nw.col("value")
    below = [value <= cut if closed == "right" else value < cut for cut in points]
    pairs = [(value.is_null(), nw.lit(None, dtype=dtype)), *zip(below, lower, strict=True)]
    return named, cases(pairs, last)


def known_labels(labels: Sequence[int | str] | None) -> tuple[int | str, ...] | None:
    """The labels as they were given, if they can be labels."""
    if labels is None:
        return None
    known = tuple(labels)
    whole = all(isinstance(label, int) and not isinstance(label, bool) for label in known)
    alike = whole or all(isinstance(label, str) for label in known)
    alike, came = alike and not isinstance(labels, str), repr(labels)[:80]
    require_evidence(alike, "labels", "must be all texts or all whole numbers", came)
    differ = len(set(known)) == len(known) and 2 <= len(known) <= MOST_LABELS
    require_evidence(differ, "labels", f"must be 2 to {MOST_LABELS} different ones", came)
    return known


def check_first(first: object) -> None:
    """Refuse a number of ratings that is not one."""
    whole = isinstance(first, int) and not isinstance(first, bool) and first >= 1
    told = f"first must be a whole number of at least 1; got {first!r}."
    require(first is None or whole, told)


def check_raters(n: int) -> None:
    """Refuse one rater alone."""
    require_evidence(n >= 2, "raters", "must be at least 2", n, remedy=_ALONE)


_ALONE = "One rater agrees with nobody; ask a second one."


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
    different = [distinct(frame.filter(is_there(c)), c).rename({c: "_label"}) for c in columns]
    some = [group.head(MOST_LABELS + 1) for group in different]
    found = {row[0] for row in fetch(nw.concat(some, how="vertical"))}
    few, remedy = len(found) <= MOST_LABELS, "Pass labels, or the column that holds labels."
    rule = f"must have at most {MOST_LABELS} different values"
    require_evidence(few, "label", rule, "more", remedy=remedy)
    return tuple(sorted(found))


def raters_in(frame: Frame) -> tuple[str, ...]:
    """The raters of a long table, sorted; those who said nothing are among them."""
    rows = fetch(distinct(frame, "rater"))
    return tuple(sorted(str(row[0]) for row in rows if row[0] is not None))


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
    for name, beside in (("answers", ratings.answers), ("items", ratings.items)):
        lines += [] if beside is None else faults_of_table(beside, TABLES[name])
    return lines or _too_few(ratings, columns)


def _outside(ratings: Ratings, columns: Sequence[str]) -> list[RowFault]:
    if ratings.labels is None or ratings.table is SCORES:
        return []
    rule = f"must be one of {short(list(ratings.labels))}"
    remedy = "Correct it or add it to labels."
    mark = _SHOWN if ratings.label_kind == "text" else ""
    strange = {c: ~nw.col(c).is_in(ratings.labels) & is_there(c) for c in columns}
    return [RowFault(c, rule, broken, mark + c, remedy) for c, broken in strange.items()]


def _shortened(column: str) -> nw.Expr:
    """The label as a message shows it."""
    long = nw.col(column).str.len_chars() > _MOST_SHOWN
    return cases([(long, "a long text")], nw.col(column)).alias(_SHOWN + column)


def _more(ratings: Ratings) -> list[RowFault]:
    if ratings.form == "votes":
        n = nw.col("n")
        broken = ((n != n.floor()) | (n >= 2**31)).fill_null(value=False)
        return [RowFault("n", "must be a whole number below 2**31", broken, "n")]
    if ratings.first is not None and "at" in ratings.frame.columns and ratings.form == "long":
        rule, missing = "must not be null where first is given", nw.col("at").is_null()
        return [RowFault("at", rule, missing, remedy="Fill it in.")]
    return []


def _too_few(ratings: Ratings, columns: Sequence[str]) -> list[str]:
    """Nothing said at all, or said by one rater only."""
    said = nw.col("n") > 0 if ratings.form == "votes" else either([is_there(c) for c in columns])
    if not has_rows(ratings.used.filter(said).select("item")):
        rule, remedy = "must hold at least one label", "Check the column of labels."
        return [fault("ratings", rule, "none: all are missing", remedy=remedy)]
    n_raters = 2
    if ratings.form == "long":
        n_raters = len(raters_in(ratings.frame.filter(is_there("label"))))
    if ratings.form == "wide":
        spoken = {c: is_there(c).cast(nw.Int64).sum() for c in columns}
        n_raters = sum(n > 0 for n in fetch(ratings.frame.select(**spoken))[0])
    rule = "must come from at least 2 raters"
    return [] if n_raters >= 2 else [fault("ratings", rule, "one", remedy=_ALONE)]


def _repeated(frame: Frame) -> list[str]:
    """Items that one rater rated twice."""
    twice = _by_masks(frame) if frame.implementation.is_duckdb() else None
    if twice is None:
        twice = distinct(repeats(frame, ("item", "rater")), "item")
    rule, remedy = "must have one row for each item and rater", "Keep one row of each."
    return items_fault(twice, "ratings", rule, "repeated rows", remedy)


def _by_masks(frame: Frame) -> Frame | None:
    """The same with a bit for each rater; None where there are too many raters."""
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


Form = Literal["long", "wide", "votes"]
Label = int | str
_PLAIN = Shape()


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
    table: TableRules = LONG
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
        return cls._made(given, LONG, form="long", labels=labels, first=first, shape=shape)

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
        """Ratings from a table with one row per item and one column per rater.

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
            Columns of the same table with answers, one per system; instead of ``answers``.
        items
            As in :meth:`from_tables`; needs ``item``.

        Examples
        --------
        >>> wide = {"q": [1, 2], "ann": ["cat", "dog"], "bob": ["cat", None], "agent": ["cat", "cat"]}
        >>> Ratings.from_wide(wide, raters=["ann", "bob"], item="q", systems=["agent"]).raters
        ('ann', 'bob')
        """
        for name, given in (("raters", raters), ("systems", systems)):
            listed = not isinstance(given, str) and (bool(given) or name == "systems")
            differ, rule = len(set(given)) == len(given), "must be a list of different columns"
            require_evidence(listed and differ, name, rule, repr(given)[:80])
        require(not systems or answers is None, "systems must come without answers; got both.")
        alone = answers is None and items is None
        rule = "must name the column with items where answers or items are given"
        require(alone or item is not None, f"item {rule}; got None.")
        free = item == "item" or "item" not in (*raters, *systems)
        came, remedy = "a column of that name", "Rename the column."
        require_evidence(free, "raters", "must not be called 'item'", came, remedy=remedy)
        check_raters(len(raters))
        tables = {"ratings": table, "answers": answers, "items": items}
        about: dict[str, Any] = {"item": item, "systems": tuple(systems), "raters": tuple(raters)}
        rules = wide_table(raters)
        return cls._made(tables, rules, form="wide", labels=labels, first=first, **about)

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
        tables = {"ratings": table, "answers": answers, "items": items}
        return cls._made(tables, VOTES, form="votes", labels=labels)

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
        named, bands = bands_of(cuts, labels, closed)
        known = tuple(dict.fromkeys(label for label in named if label is not None))
        tables = {"ratings": table, "answers": answers}
        return cls._made(tables, SCORES, form="long", labels=known, first=first, bands=bands)

    @classmethod
    def _made(
        cls,
        given: dict[str, object],
        table: TableRules,
        *,
        form: Form,
        labels: Sequence[Label] | None,
        first: int | None = None,
        item: str | None = None,
        systems: tuple[str, ...] = (),
        raters: tuple[str, ...] | None = None,
        bands: nw.Expr | None = None,
        shape: Shape = _PLAIN,
    ) -> Self:
        known = known_labels(labels)
        check_first(first)
        there = {name: frame for name, frame in given.items() if frame is not None}
        frames, connection = open_frames(there)
        notes: list[str] = []
        if form == "long":
            found = _recognised(frames, table, shape, notes)
            if found is not None:
                item, raters, systems = found
                check_raters(len(raters))
                form, table = "wide", wide_table(raters)
        elif form == "votes":
            frames["ratings"] = rename(frames["ratings"], VOTES, shape.columns, notes)
        if form == "wide":
            frames = _from_wide(frames, raters or (), item, systems)
        others = dataclasses.replace(shape, wide=None, systems=() if systems else shape.systems)
        frames = _beside(frames, others, notes)
        if form == "long" and first is not None and "at" not in frames["ratings"].columns:
            frames["ratings"] = _numbered(frames["ratings"])
        tables = {"ratings": table, "answers": TABLES["answers"], "items": TABLES["items"]}
        faults: list[str] = []
        for name in frames:
            frames[name], problems = normalise(frames[name], tables[name])
            faults += problems
        if not faults:
            empty = [name for name in frames if not has_rows(frames[name].select("item"))]
            faults = [f"{name} {EMPTY}" for name in empty]
        if "items" in frames and "cluster" not in frames["items"].columns:
            rule = "must have a column cluster beside ratings"
            faults.append(fault("items", rule, shown(frames["items"].columns)))
        raise_faults(faults)
        if bands is not None:
            frames["ratings"] = frames["ratings"].with_columns(label=bands)
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
        raise_faults(faults)
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
            raise_faults(faults_of_ratings(self))
            self._known["checked"] = True
        return self

    @property
    def used(self) -> Frame:
        """The frame without missing ratings and, with ``first``, without the later ones; in the
        wide form those are null.
        """
        if self.form == "wide":
            if self.first is None:
                return self.frame
            return self.frame.with_columns(*first_columns(self.raters or (), self.first))
        said = ~nw.col("label").is_null()
        if self.first is None:
            return self.frame.filter(said)
        # A score in a band that is left out is a rating all the same: which ones come first must
        # not depend on what they say.
        frame = self.frame.filter(~nw.col("value").is_null() if self.table is SCORES else said)
        order = ["at", "rater"] if "at" in frame.columns else [ROW]
        place = nw.col("_one").cum_sum().over("item", order_by=order)
        numbered = frame.with_columns(_one=nw.lit(1)).with_columns(_place=place)
        return numbered.filter((nw.col("_place") <= self.first) & said).drop("_one", "_place")

    def seen_labels(self) -> tuple[Label, ...]:
        """The labels that were given or, where none were, those that the raters used, sorted."""
        if self.labels is not None:
            return self.labels
        return self._recall("labels", lambda: labels_in(self.frame, self.raters or ("label",)))

    def seen_raters(self) -> tuple[str, ...]:
        """The raters, sorted (the columns of a wide table in their order); empty where they are
        unknown.
        """
        if self.raters is not None:
            return self.raters
        return () if self.form == "votes" else self._recall("raters", lambda: raters_in(self.used))

    def _recall(self, name: str, make: Callable[[], T]) -> T:
        if name not in self._known:
            self._known[name] = make()
        found: T = self._known[name]
        return found


def _recognised(
    frames: dict[str, Frame], table: TableRules, shape: Shape, notes: list[str]
) -> tuple[str | None, tuple[str, ...], tuple[str, ...]] | None:
    """The item, raters and systems of a wide table; None for a long one, which is renamed."""
    frame, name = frames["ratings"], "scores" if table is SCORES else "ratings"
    if {"item", "label", "n"} <= set(frame.columns) and "rater" not in frame.columns:
        rule = "must have columns item, rater, label"
        raise EvidenceError.of("ratings", rule, "votes (item, label, n)", remedy="Use from_votes.")
    if is_long(frame, name, shape):
        faults = [long_fault(name)] if shape.wide else []
        named = (*shape.raters, *(() if "answers" in frames else shape.systems))
        strange = [c for c in named if c not in frame.columns]
        if strange:
            came = f"no {', '.join(strange[:6])} in {shown(frame.columns)}"
            faults.append(fault("raters", "must be columns of ratings", came))
        raise_faults(faults)
        frames["ratings"] = rename(frame, table, shape.columns, notes)
        return None
    item, lines = item_column(frame, name, shape)
    columns, others = wide_columns(frame, name, shape, item)
    here = () if "answers" in frames else shape.systems
    systems = tuple(s for s in here if s in frame.columns)
    notes += lines
    if not shape.raters:
        rest = [c for c in others if c not in systems]
        notes.append(wide_note("ratings", "rater", columns, rest))
    if table is not SCORES:
        return item, tuple(columns), systems
    if item is None:
        came, remedy = str(shown(frame.columns)), "Name it in columns."
        raise EvidenceError.of("ratings.item", "must be a column", came, remedy=remedy)
    frames["ratings"] = unpivot(frame, item, columns, ("rater", "value"))
    return None


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
    rule, remedy = "must have a column at where first is given", "Rows have no order there."
    require_evidence(keeps_order(frame), "ratings", rule, "none", remedy=remedy)
    return number_rows(frame, ROW)


def _from_wide(
    frames: dict[str, Frame], raters: Sequence[str], item: str | None, systems: Sequence[str]
) -> dict[str, Frame]:
    """The wide frame with its item column, and long answers of its systems."""
    wide = frames["ratings"]
    wanted = [*raters, *systems, *([item] if item is not None else [])]
    missing = [c for c in wanted if c not in wide.columns]
    if missing:
        found = f"no {', '.join(missing[:6])} in {shown(wide.columns)}"
        raise EvidenceError.of("table", f"must have columns {', '.join(wanted[:12])}", found)
    if item is None:
        wide, item = rows_as_items(wide), ROW
    others = [c for c in (*raters, *systems) if c != "item"]
    wide = wide.select(nw.col(item).alias("item"), *others)
    found_frames = {"ratings": wide.select("item", *raters)}
    if systems:
        found_frames["answers"] = unpivot(wide, "item", systems, ("system", "answer"))
    found_frames |= {name: frames[name] for name in ("answers", "items") if name in frames}
    return found_frames
