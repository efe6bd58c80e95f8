"""Scores as an array, one column per rater, and its rows grouped into samples that observe the same
columns.
"""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from noracle.errors import ArgumentError, EvidenceError, EvidenceWarning, fault
from noracle.evidence.frames import fetch, open_frames
from noracle.evidence.shapes import ALIASES, renamed, resolve
from noracle.evidence.tables import TABLES
from noracle.ppi.covariance import Array
from noracle.ppi.intervals import Sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONG = ("item", "rater", "value")
_NO_RATERS = ("item", "cluster", *ALIASES["item"])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """Rows of scores; ``strata`` names the stratum of each row where a column says so."""

    names: tuple[str, ...]
    rows: Array
    strata: tuple[str, ...] = ()

    def of(self, stratum: str) -> Array:
        """The rows of a stratum; all of them where it has no name."""
        mine = np.array([s == stratum for s in self.strata], dtype=bool)
        return self.rows[mine] if stratum else self.rows


def one_table(tables: object, what: str = "data", columns: Mapping[str, str] | None = None) -> Any:
    """Several files or frames as one wide table; anything else as it is.

    Each has a column for each rater, or rows ``item, rater, value``; they need not be alike. Rows
    of one item are one row. A file without a column ``item`` has items of its own. ``columns`` are
    the caller's names of ``item``, ``rater`` and ``value``, where they have others: ``{"item":
    "question_id"}``.

    Examples
    --------
    >>> one_table({"human": [1, 0]})
    {'human': [1, 0]}
    """
    if columns:
        tables = with_names(
            tables if isinstance(tables, (list, tuple)) else [tables], columns, what
        )
    if not isinstance(tables, (list, tuple)) or not tables or not all(_is_table(t) for t in tables):
        return tables
    if len(tables) == 1:
        return tables[0]
    parts = [_cells(table, what) for table in tables]
    nameless = [
        _called(table, n)
        for n, (table, (_, has_items)) in enumerate(zip(tables, parts, strict=True))
        if not has_items
    ]
    if nameless:
        note = f"{', '.join(nameless)}: no column item, so that its rows are taken as items of their own, in no other file"
        warnings.warn(note, EvidenceWarning, stacklevel=2)
    items: dict[str, dict[str, Any]] = {}
    twice: dict[str, dict[Any, None]] = {}
    for number, (rows, has_items) in enumerate(parts):
        for place, (item, cells) in enumerate(rows):
            known = items.setdefault(
                _key(item) if has_items else f"row {place} of table {number}", {"item": item}
            )
            for name, value in cells.items():
                if known.get(name) is None:
                    known[name] = value
                elif value is not None and value != known[name]:
                    twice.setdefault(name, {})[item] = None
    if twice:
        rule, remedy = (
            "must have one value for each item in all files together",
            "Keep one of them.",
        )
        raise EvidenceError(
            *(
                fault(
                    f"{what}.{name}",
                    rule,
                    "two",
                    where=list(where),
                    total=len(where),
                    remedy=remedy,
                )
                for name, where in twice.items()
            )
        )
    names = dict.fromkeys(name for row in items.values() for name in row)
    found = {name: [row.get(name) for row in items.values()] for name in names}
    for name, values in found.items():
        if any(isinstance(v, str) for v in values):
            found[name] = [None if v is None else str(v) for v in values]
    if nameless:
        del found["item"]
    return found


def with_names(
    tables: Sequence[object], columns: Mapping[str, str], what: str = "data"
) -> list[dict[str, list[Any]]]:
    """The tables with the caller's columns under their canonical names; every name must be in one
    of them.

    Examples
    --------
    >>> with_names([{"qid": [1], "human": [0.5]}], {"item": "qid"})
    [{'item': [1], 'human': [0.5]}]
    """
    names = {column: name.removeprefix("scores.") for name, column in columns.items()}
    strange = [name for name in names.values() if name not in (*_LONG, "cluster")]
    if strange:
        raise ArgumentError(
            f"columns must name item, rater, value or cluster of scores; got {', '.join(strange)}."
        )
    found, seen = [], set[str]()
    for table in tables:
        frames, _connection = open_frames({what: table})
        given = list(frames[what].columns)
        seen |= {column for column in given if column in names}
        rows = fetch(frames[what])
        found.append(
            {names.get(column, column): [row[i] for row in rows] for i, column in enumerate(given)}
        )
    missing = [column for column in names if column not in seen]
    if missing:
        raise EvidenceError(
            fault("columns", f"must be columns of {what}", f"no {', '.join(missing)} there")
        )
    return found


def _is_table(table: object) -> bool:
    return isinstance(table, (str, os.PathLike, Mapping)) or hasattr(table, "columns")


def _called(table: object, number: int) -> str:
    return os.fspath(table) if isinstance(table, (str, os.PathLike)) else f"table {number + 1}"


def _key(item: Any) -> str:
    """An item by its text, so that 7 in one file is 7 in another; a float that is whole is that
    number.
    """
    return f"item {int(item)}" if isinstance(item, float) and item.is_integer() else f"item {item}"


def _cells(table: object, what: str) -> tuple[list[tuple[Any, dict[str, Any]]], bool]:
    """The rows of one file as item and cells, raters of a long table side by side; and whether it
    names items.
    """
    frames, _connection = open_frames({what: table})
    frame = frames[what]
    columns = list(frame.columns)
    fetched = fetch(frame)
    has_items = "item" in columns
    plain = [
        [None if isinstance(v, float) and math.isnan(v) else v for v in row] for row in fetched
    ]
    rows = [
        (row[columns.index("item")] if has_items else None, dict(zip(columns, row, strict=True)))
        for row in plain
    ]
    if set(_LONG) <= set(columns):
        return [
            (
                i,
                {
                    **_others(c),
                    str(c["rater"]): None if c["value"] is None else _score(c["value"], what),
                },
            )
            for i, c in rows
        ], True
    names = [item for item, _ in rows]
    if has_items and len(set(names)) < len(names):
        again = [item for item, n in Counter(names).items() if n > 1]
        shown = repr(os.fspath(table)) if isinstance(table, (str, os.PathLike)) else "a table"
        raise EvidenceError(
            fault(
                what,
                "must have one row for each item",
                f"two in {shown}",
                where=again,
                total=len(again),
            )
        )
    return [
        (item, {k: v for k, v in cells.items() if k != "item"}) for item, cells in rows
    ], has_items


def _others(cells: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in cells.items() if name not in _LONG}


def _score(value: Any, what: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise EvidenceError(fault(f"{what}.value", "must hold numbers", repr(value))) from None


def read_clusters(table: object, column: str) -> NDArray[np.int64] | None:
    """A number for the cluster of each row of :func:`read_scores`, None without that column; a row
    without a cluster is one of its own.

    Examples
    --------
    >>> read_clusters({"human": [1, 0, 1], "cluster": ["a", None, "a"]}, "cluster").tolist()
    [0, 1, 0]
    """
    if isinstance(table, (np.ndarray, list, tuple)):
        return None
    if isinstance(table, Mapping):
        given: Mapping[str, Any] = {str(name): values for name, values in table.items()}
        if column not in given:
            return None
        is_long = set(_LONG) <= set(given)
        rows = list(zip(given["item"] if is_long else given[column], given[column], strict=True))
    else:
        frames, _connection = open_frames({"data": table})
        columns = list(frames["data"].columns)
        if column not in columns:
            return None
        is_long = set(_LONG) <= set(columns)
        rows = [
            (row[0], row[-1])
            for row in fetch(frames["data"].select(*(["item"] if is_long else []), column))
        ]
    named = [cluster for _, cluster in rows]
    if is_long:
        by_item: dict[Any, Any] = {}
        for item, cluster in rows:
            if by_item.setdefault(item, cluster) != cluster:
                raise EvidenceError(
                    fault(
                        column,
                        "must be the same in all rows of an item",
                        "two",
                        where=[item],
                        total=1,
                    )
                )
        named = list(by_item.values())
    place: dict[Any, int] = {}
    return np.array(
        [place.setdefault(("", i) if c is None else c, len(place)) for i, c in enumerate(named)],
        dtype=np.int64,
    )


def read_scores(
    table: object,
    *,
    names: Sequence[str] | None = None,
    strata: str | None = None,
    what: str = "pilot",
) -> Scores:
    """Scores out of an array, a dict of columns, a file or any data frame.

    Parameters
    ----------
    table
        A 2-D array (then ``names`` says what its columns are); or a wide table with a column for
        each rater; or a long table with the columns ``item``, ``rater`` and ``value``; or a list of
        files of both forms. Null and NaN mean: not observed.
    names
        The wanted raters, in this order. By default all columns that hold numbers, but ``item``
        (also called ``id``, ``question_id``, …) and ``cluster``.
    strata
        The column that names the stratum of an item.

    Examples
    --------
    >>> read_scores({"human": [1, 0, None], "judge": [0.9, 0.2, 0.4]}).rows.tolist()
    [[1.0, 0.9], [0.0, 0.2], [nan, 0.4]]
    >>> long = {"item": [1, 1, 2], "rater": ["human", "judge", "judge"], "value": [1.0, 0.9, 0.2]}
    >>> read_scores(long, names=["human", "judge"]).rows.tolist()
    [[1.0, 0.9], [nan, 0.2]]
    """
    table = one_table(table, what)
    if isinstance(table, (np.ndarray, list, tuple)):
        return _from_array(table, names, what)
    frames, _connection = open_frames({what: table})
    names_of, _, _ = resolve(frames[what].columns, TABLES["scores"], {})
    frame = renamed(frames[what], names_of) if set(_LONG) <= set(names_of) else frames[what]
    columns = list(frame.columns)
    if set(_LONG) <= set(columns):
        return _from_long(fetch(frame.select(*_LONG, *((strata,) if strata else ()))), names, what)
    schema = frame.collect_schema()
    chosen = (
        list(names)
        if names is not None
        else [c for c in columns if c not in _NO_RATERS and c != strata and schema[c].is_numeric()]
    )
    missing = [c for c in [*chosen, *((strata,) if strata else ())] if c not in columns]
    if missing or not chosen:
        raise EvidenceError(
            fault(
                what,
                f"must have columns {', '.join(chosen) or 'of numbers'}",
                f"no {', '.join(missing) or 'such column'}",
            )
        )
    other = [
        c
        for c in chosen
        if not (
            schema[c].is_numeric()
            or schema[c].is_boolean()
            or str(schema[c]) in ("Unknown", "Null")
        )
    ]
    if other:
        raise EvidenceError(
            fault(what, "must hold numbers", f"{schema[other[0]]} in column {other[0]!r}")
        )
    fetched = fetch(frame.select(*chosen, *((strata,) if strata else ())))
    rows = np.array(
        [[_number(v) for v in row[: len(chosen)]] for row in fetched], dtype=np.float64
    ).reshape(-1, len(chosen))
    return Scores(
        names=tuple(chosen),
        rows=rows,
        strata=tuple(str(row[-1]) for row in fetched) if strata else (),
    )


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _from_array(table: object, names: Sequence[str] | None, what: str) -> Scores:
    try:
        rows = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise EvidenceError(
            fault(what, "must be rows of numbers, NaN where not observed", type(table).__name__)
        ) from None
    if rows.ndim != 2:
        raise EvidenceError(
            fault(what, "must be a table of rows and columns", f"shape {rows.shape}")
        )
    if names is not None and len(names) != rows.shape[1]:
        raise EvidenceError(
            fault("names", f"must be {rows.shape[1]}, one for each column", len(names))
        )
    return Scores(
        names=tuple(names) if names is not None else tuple(f"x{j}" for j in range(rows.shape[1])),
        rows=rows,
    )


def _from_long(
    fetched: Sequence[tuple[Any, ...]], names: Sequence[str] | None, what: str
) -> Scores:
    raters = (
        list(names) if names is not None else list(dict.fromkeys(str(row[1]) for row in fetched))
    )
    place = {rater: j for j, rater in enumerate(raters)}
    missing = sorted(set(raters) - {str(row[1]) for row in fetched})
    if missing:
        raise EvidenceError(
            fault(what, f"must have values of {', '.join(raters)}", f"none of {', '.join(missing)}")
        )
    items: dict[Any, int] = {}
    for row in fetched:
        items.setdefault(row[0], len(items))
    rows = np.full((len(items), len(raters)), np.nan)
    seen: set[tuple[int, int]] = set()
    twice: dict[Any, None] = {}
    strata = [""] * len(items)
    for row in fetched:
        i, j = items[row[0]], place.get(str(row[1]))
        if len(row) > 3:
            strata[i] = str(row[3])
        if j is None:
            continue
        if (i, j) in seen:
            twice[row[0]] = None
        seen.add((i, j))
        rows[i, j] = _number(row[2])
    if twice:
        raise EvidenceError(
            fault(
                what,
                "must have one value for each item and rater",
                "two",
                where=list(twice),
                total=len(twice),
            )
        )
    return Scores(
        names=tuple(raters),
        rows=rows,
        strata=tuple(strata) if fetched and len(fetched[0]) > 3 else (),
    )


def patterns(rows: Array) -> Mapping[tuple[int, ...], int]:
    """How many rows observe each set of columns; rows that observe nothing are left out.

    Examples
    --------
    >>> patterns(np.array([[1.0, np.nan], [0.0, 2.0], [1.0, 3.0]]))
    {(0,): 1, (0, 1): 2}
    """
    seen, count = np.unique(~np.isnan(rows), axis=0, return_counts=True)
    return {
        tuple(np.flatnonzero(p).tolist()): int(n)
        for p, n in zip(seen, count, strict=True)
        if p.any()
    }


# ----------------------------------------------------------------------------
# Rows of scores, grouped into samples: rows that observe the same columns.


def read_rows(
    data: object, names: Sequence[str] | None, what: str
) -> tuple[Array, tuple[str, ...]]:
    """The rows of any table and the names of its columns, checked."""
    if isinstance(data, Mapping) and not {"item", "rater", "value"} <= {str(k) for k in data}:
        data, names = _stacked(data, names, what)
    scores = read_scores(data, names=names, what=what)
    return check_rows(scores.rows, scores.names), scores.names


def _stacked(
    data: Mapping[object, object], names: Sequence[str] | None, what: str
) -> tuple[Array, tuple[str, ...]]:
    """A dict of columns side by side; a column may be empty of values."""
    given = {str(k): v for k, v in data.items()}
    wanted = (
        tuple(names)
        if names is not None
        else tuple(k for k in given if k not in ("item", "cluster"))
    )
    missing = [n for n in wanted if n not in given]
    if missing or not wanted:
        raise EvidenceError(
            fault(
                what,
                f"must have columns {', '.join(wanted)}",
                f"no {', '.join(missing)} in {list(given)}",
            )
        )
    columns, faults = {}, []
    for name in wanted:
        values = given[name]
        try:
            columns[name] = np.array([np.nan if v is None else v for v in values], dtype=np.float64)  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            if names is not None:
                faults.append(
                    fault(
                        f"{what}.{name}",
                        "must hold numbers",
                        "other values",
                        remedy="Use null where a rater did not look.",
                    )
                )
    lengths = {n: len(c) for n, c in columns.items()}
    if len(set(lengths.values())) > 1:
        faults.append(
            fault(
                what,
                "must have columns of one length",
                ", ".join(f"{n} {size}" for n, size in lengths.items()),
            )
        )
    if not columns and not faults:
        faults.append(fault(what, "must hold numbers", f"none in {', '.join(wanted)}"))
    if faults:
        raise EvidenceError(*faults)
    return np.column_stack(list(columns.values())), tuple(columns)


def check_rows(rows: Array, names: Sequence[str]) -> Array:
    """The rows, or all that is wrong with them at once."""
    faults = []
    if not rows.size:
        raise EvidenceError(fault("data", "must have rows", "none"))
    if len(set(names)) != len(names):
        faults.append(fault("raters", "must have different names", list(names)))
    endless = np.isinf(rows)
    if endless.any():
        where = np.flatnonzero(endless.any(axis=1)).tolist()
        found = ", ".join(
            n for n, bad in zip(names, np.asarray(endless.any(axis=0)), strict=True) if bad
        )
        remedy = "Use null where a rater did not look."
        faults.append(
            fault(
                f"data.{found}",
                "must be finite",
                "an infinite value",
                where=where,
                total=len(where),
                remedy=remedy,
            )
        )
    if np.isnan(rows).all():
        faults.append(fault("data", "must have values", "NaN everywhere"))
    if faults:
        raise EvidenceError(*faults)
    return rows


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """Samples by what they observe, and what became of the rows that fit nowhere."""

    samples: tuple[Sample, ...]
    unused: int
    notes: tuple[str, ...]


def group_samples(
    rows: Array,
    labels: Sequence[int],
    allowed: Sequence[tuple[int, ...]] | None = None,
    *,
    least: int = 2,
    clusters: NDArray[np.int64] | None = None,
) -> Grouped:
    """Put rows with the same observed columns into one sample.

    Parameters
    ----------
    rows
        Scores, NaN where not observed.
    labels
        Columns that the target speaks of: samples that observe one estimate the covariance, and so
        do further samples where a pair of raters is not seen otherwise.
    allowed
        The sets of columns that may be used; a row goes to the set that fits it best (most labels,
        then most columns, then the first) and what it observes beyond that is not looked at.
        Default: the sets as observed, those with fewer than ``least`` rows put under others.
    clusters
        The cluster of each row; then equal rows are not merged.
    """
    seen = ~np.isnan(rows)
    patterns, which = np.unique(seen, axis=0, return_inverse=True)
    which = which.ravel()
    sizes = np.bincount(which, minlength=len(patterns))
    observed = {
        tuple(np.flatnonzero(p).tolist()): (i, int(sizes[i]))
        for i, p in enumerate(patterns)
        if p.any()
    }
    kept = (
        list(allowed)
        if allowed is not None
        else [c for c, (_, n) in observed.items() if n >= least]
    )
    if allowed is None:
        kept = _with_known_pairs(kept, observed, labels, least)
        # Labels are never lost: where the raters beside them cannot be used, the labels are used
        # alone.
        for columns in observed:
            alone = tuple(c for c in columns if c in labels)
            if (
                alone
                and alone not in kept
                and not any(set(c) <= set(columns) and set(c) & set(labels) for c in kept)
            ):
                kept.append(alone)
    held: dict[tuple[int, ...], list[int]] = {c: [] for c in kept}
    unused = 0
    for columns, (place, n) in observed.items():
        fits = [c for c in kept if set(c) <= set(columns)]
        if not fits:
            unused += n
            continue
        best = max(fits, key=lambda c: (len(set(c) & set(labels)), len(c), -kept.index(c)))
        held[best].append(place)
    samples = []
    for columns, places in held.items():
        chosen = np.isin(which, places)
        n = int(chosen.sum())
        if n < least:
            unused += n
            continue
        pilot = bool(set(columns) & set(labels))
        if clusters is not None:
            values, of = rows[chosen][:, list(columns)], clusters[chosen]
            samples.append(
                Sample(columns=columns, values=values, counts=np.ones(n), pilot=pilot, clusters=of)
            )
            continue
        values, counts = np.unique(rows[chosen][:, list(columns)], axis=0, return_counts=True)
        samples.append(
            Sample(columns=columns, values=values, counts=counts.astype(np.float64), pilot=pilot)
        )
    notes = (
        (f"{unused} rows are not used: they observe no usable set of columns",) if unused else ()
    )
    return Grouped(samples=_with_pilots(samples), unused=unused, notes=notes)


def _with_known_pairs(
    kept: list[tuple[int, ...]],
    observed: Mapping[tuple[int, ...], tuple[int, int]],
    labels: Sequence[int],
    least: int,
) -> list[tuple[int, ...]]:
    """Leave out sets with so few rows that the covariance of a pair of their columns rests on less
    than ``3 * least`` rows.
    """

    def together(pair: set[int]) -> int:
        return sum(n for c, (_, n) in observed.items() if pair <= set(c))

    return [
        c
        for c in kept
        if len(c) == 1
        or set(c) <= set(labels)
        or min(together({a, b}) for a in c for b in c if a < b) >= 3 * least
    ]


def _with_pilots(samples: list[Sample]) -> tuple[Sample, ...]:
    """Samples without labels estimate the covariance too, where one of their pairs of columns is
    seen in no pilot.
    """
    known = {(a, b) for s in samples if s.pilot for a in s.columns for b in s.columns}
    result = []
    for sample in sorted(samples, key=lambda s: (not s.pilot, -len(s.columns), s.columns)):
        pairs = {(a, b) for a in sample.columns for b in sample.columns}
        if not sample.pilot and not pairs <= known:
            sample = dataclasses.replace(sample, pilot=True)
            known |= pairs
        result.append(sample)
    return tuple(result)


def split_clusters(
    samples: Sequence[Sample], n_folds: int, rng: np.random.Generator
) -> list[Sample]:
    """The samples with whole clusters dealt into folds; a pilot without rows in some fold is none."""
    names = np.unique(np.concatenate([s.clusters for s in samples if s.clusters is not None]))
    labelled = np.unique(
        np.concatenate([s.clusters for s in samples if s.pilot and s.clusters is not None])
    )
    fold = dict(
        zip(
            rng.permutation(labelled).tolist(),
            (np.arange(len(labelled)) % n_folds).tolist(),
            strict=True,
        )
    )
    of = np.array([fold.get(name, 0) for name in names.tolist()])
    found = []
    for sample in samples:
        if sample.pilot and sample.clusters is not None:
            folds = (
                of[np.searchsorted(names, sample.clusters)] == np.arange(n_folds)[:, None]
            ).astype(np.float64)
            whole = bool(folds.any(axis=1).all())
            sample = (
                dataclasses.replace(sample, folds=folds)
                if whole
                else dataclasses.replace(sample, pilot=False)
            )
        found.append(sample)
    return found


def split(sample: Sample, n_folds: int, rng: np.random.Generator) -> Sample:
    """The sample with its rows dealt into folds at random; rows are sorted by value, so that their
    order in a file does not matter.
    """
    rows = sample.counts.astype(np.int64)
    n = int(rows.sum())
    sizes = [n // n_folds + (f < n % n_folds) for f in range(n_folds)]
    folds = []
    for size in sizes[:-1]:
        drawn = rng.multivariate_hypergeometric(rows, size, method="marginals")
        folds.append(drawn)
        rows = rows - drawn
    return dataclasses.replace(sample, folds=np.array([*folds, rows], dtype=np.float64))
