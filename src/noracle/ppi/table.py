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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noracle.errors import EvidenceError, EvidenceWarning, fault, require, require_evidence
from noracle.evidence.frames import fetch, open_frames
from noracle.evidence.tables import ALIASES, TABLES, renamed, resolve
from noracle.ppi.covariance import Array, as_rows
from noracle.ppi.intervals import Samples, ScoreSample

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONG = ("item", "rater", "value")
_NO_RATERS = ("item", "cluster", *ALIASES["item"])
_NOT_SEEN = "Use null where a rater did not look."


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

    Each has a column for each rater, or rows ``item, rater, value``. Rows of one item are one row;
    a file without a column ``item`` has items of its own. ``columns`` are the caller's names of
    these.
    """
    if columns:
        given = tables if isinstance(tables, (list, tuple)) else [tables]
        tables = with_names(given, columns, what)
    if not isinstance(tables, (list, tuple)) or not tables or not all(map(_is_table, tables)):
        return tables
    if len(tables) == 1:
        return tables[0]
    parts = [_cells(table, what) for table in tables]
    unnamed = [i for i, (_, has_items) in enumerate(parts) if not has_items]
    nameless = [_called(tables[i], f"table {i + 1}") for i in unnamed]
    if nameless:
        note = f"{', '.join(nameless)}: no column item, so that its rows are taken as items of their own, in no other file"
        warnings.warn(note, EvidenceWarning, stacklevel=2)
    items: dict[str, dict[str, Any]] = {}
    twice: dict[str, dict[Any, None]] = {}
    for number, (rows, has_items) in enumerate(parts):
        for place, (item, cells) in enumerate(rows):
            key = _key(item) if has_items else f"row {place} of table {number}"
            known = items.setdefault(key, {"item": item})
            for name, value in cells.items():
                if known.get(name) is None:
                    known[name] = value
                elif value is not None and value != known[name]:
                    twice.setdefault(name, {})[item] = None
    rule, remedy = "must have one value for each item in all files together", "Keep one of them."
    faults = [
        fault(f"{what}.{name}", rule, "two", where=list(of), total=len(of), remedy=remedy)
        for name, of in twice.items()
    ]
    if faults:
        raise EvidenceError(*faults)
    names = dict.fromkeys(name for row in items.values() for name in row)
    found = {name: [row.get(name) for row in items.values()] for name in names}
    for name, values in found.items():
        if any(isinstance(v, str) for v in values):
            found[name] = [None if v is None else str(v) for v in values]
    return {name: values for name, values in found.items() if name != "item" or not nameless}


def with_names(
    tables: Sequence[object], columns: Mapping[str, str], what: str = "data"
) -> list[dict[str, list[Any]]]:
    """The tables with the caller's columns under canonical names; all must be in some table."""
    names = {column: name.removeprefix("scores.") for name, column in columns.items()}
    strange = ", ".join(name for name in names.values() if name not in (*_LONG, "cluster"))
    require(not strange, f"columns must name item, rater, value or cluster; got {strange}.")
    found, seen = [], set[str]()
    for table in tables:
        given, rows = _opened(table, what)
        seen.update(given)
        found.append({names.get(c, c): [row[i] for row in rows] for i, c in enumerate(given)})
    missing = ", ".join(column for column in names if column not in seen)
    rule = f"must be columns of {what}"
    require_evidence(not missing, "columns", rule, f"no {missing} there")
    return found


def _opened(table: object, what: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    frames, _connection = open_frames({what: table})
    return list(frames[what].columns), fetch(frames[what])


def _is_table(table: object) -> bool:
    return isinstance(table, (str, os.PathLike, Mapping)) or hasattr(table, "columns")


def _called(table: object, otherwise: str) -> str:
    return os.fspath(table) if isinstance(table, (str, os.PathLike)) else otherwise


def _key(item: Any) -> str:
    """An item by its text, so that 7 in one file is 7 (or 7.0) in another."""
    return f"item {int(item)}" if isinstance(item, float) and item.is_integer() else f"item {item}"


def _cells(table: object, what: str) -> tuple[list[tuple[Any, dict[str, Any]]], bool]:
    """The rows of a file as item and cells, raters side by side; and whether it names items."""
    columns, fetched = _opened(table, what)
    is_long, has_items = set(_LONG) <= set(columns), "item" in columns
    rows = []
    for row in fetched:
        seen = [None if isinstance(v, float) and math.isnan(v) else v for v in row]
        cells = dict(zip(columns, seen, strict=True))
        item = cells.pop("item", None)
        if is_long:
            rater, value = str(cells.pop("rater")), cells.pop("value")
            cells[rater] = None if value is None else _score(value, what)
        rows.append((item, cells))
    again = [item for item, n in Counter(item for item, _ in rows).items() if n > 1]
    if has_items and again and not is_long:
        place, rule = _called(table, ""), "must have one row for each item"
        came = f"two in {place!r}" if place else "two in a table"
        raise EvidenceError.of(what, rule, came, where=again, total=len(again))
    return rows, has_items


def _score(value: Any, what: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise EvidenceError.of(f"{what}.value", "must hold numbers", repr(value)) from None


def read_clusters(table: object, column: str) -> NDArray[np.int64] | None:
    """The cluster of each row of :func:`read_scores`; None if nothing says, or all are alone."""
    if isinstance(table, (np.ndarray, list, tuple)):
        return None
    if isinstance(table, Mapping):
        given: Mapping[str, Any] = {str(name): values for name, values in table.items()}
    else:
        frames, _connection = open_frames({"data": table})
        there = frames["data"].columns
        wanted = [c for c in dict.fromkeys((*_LONG, column)) if c in there and column in there]
        rows = fetch(frames["data"].select(*wanted)) if wanted else []
        given = {name: [row[i] for row in rows] for i, name in enumerate(wanted)}
    if column not in given:
        return None
    named = list(given[column])
    if set(_LONG) <= set(given):
        by_item: dict[Any, Any] = {}
        for item, cluster in zip(given["item"], named, strict=True):
            if by_item.setdefault(item, cluster) != cluster:
                rule = "must be the same in all rows of an item"
                raise EvidenceError.of(column, rule, "two", where=[item], total=1)
        named = list(by_item.values())
    place: dict[Any, int] = {}
    keys = [("", i) if c is None else c for i, c in enumerate(named)]
    found = np.array([place.setdefault(key, len(place)) for key in keys], dtype=np.int64)
    return None if len(place) == len(found) else found


def read_scores(
    table: object,
    *,
    names: Sequence[str] | None = None,
    strata: str | None = None,
    what: str = "pilot",
) -> Scores:
    """Scores out of an array, a dict of columns, a file or any data frame.

    The table is an array with columns ``names``, wide with a column for each rater, long with
    ``item``, ``rater`` and ``value``, or a list of files of both forms; null and NaN mean: not
    observed. By default all columns that hold numbers are raters, but items and ``cluster``.
    """
    table = one_table(table, what)
    if isinstance(table, (np.ndarray, list, tuple)):
        array = as_rows(table, names, what)
        called = names if names is not None else [f"x{j}" for j in range(array.shape[1])]
        return Scores(names=tuple(called), rows=array)
    frames, _connection = open_frames({what: table})
    names_of, _, _ = resolve(frames[what].columns, TABLES["scores"], {})
    frame = renamed(frames[what], names_of) if set(_LONG) <= set(names_of) else frames[what]
    columns, beside = list(frame.columns), (strata,) if strata else ()
    if set(_LONG) <= set(columns):
        return _from_long(fetch(frame.select(*_LONG, *beside)), names, what)
    schema = frame.collect_schema()
    if names is None:
        left_out = (*_NO_RATERS, *beside)
        names = [c for c in columns if c not in left_out and schema[c].is_numeric()]
    chosen = list(names)
    missing = [c for c in (*chosen, *beside) if c not in columns]
    rule = f"must have columns {', '.join(chosen) or 'of numbers'}"
    came = f"no {', '.join(missing) or 'such column'}"
    require_evidence(chosen and not missing, what, rule, came)
    for c in chosen:
        kind = schema[c]
        sound = kind.is_numeric() or kind.is_boolean() or str(kind) in ("Unknown", "Null")
        require_evidence(sound, what, "must hold numbers", f"{kind} in column {c!r}")
    fetched = fetch(frame.select(*chosen, *beside))
    numbers = [[_number(v) for v in row[: len(chosen)]] for row in fetched]
    rows = np.array(numbers, dtype=np.float64).reshape(-1, len(chosen))
    groups = tuple(str(row[-1]) for row in fetched) if strata else ()
    return Scores(names=tuple(chosen), rows=rows, strata=groups)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _from_long(
    fetched: Sequence[tuple[Any, ...]], names: Sequence[str] | None, what: str
) -> Scores:
    there = dict.fromkeys(str(row[1]) for row in fetched)
    raters = list(there if names is None else names)
    missing = ", ".join(sorted(set(raters) - set(there)))
    rule = f"must have values of {', '.join(raters)}"
    require_evidence(not missing, what, rule, f"none of {missing}")
    place = {rater: j for j, rater in enumerate(raters)}
    items = {item: i for i, item in enumerate(dict.fromkeys(row[0] for row in fetched))}
    rows = np.full((len(items), len(raters)), np.nan)
    strata = [""] * len(items)
    for item, rater, value, *stratum in fetched:
        i, j = items[item], place.get(str(rater))
        strata[i] = str(stratum[0]) if stratum else ""
        if j is not None:
            rows[i, j] = _number(value)
    seen = Counter((row[0], str(row[1])) for row in fetched if str(row[1]) in place)
    twice = list(dict.fromkeys(item for (item, _), n in seen.items() if n > 1))
    if twice:
        rule = "must have one value for each item and rater"
        raise EvidenceError.of(what, rule, "two", where=twice, total=len(twice))
    groups = tuple(strata) if fetched and len(fetched[0]) > 3 else ()
    return Scores(names=tuple(raters), rows=rows, strata=groups)


def stratum_shares(groups: Sequence[str], shares: Mapping[str, float] | None) -> dict[str, float]:
    """Each stratum's part of the population, which add to 1; or what is wrong with them."""
    given = {} if shares is None else dict(shares)
    rule = f"shares must be positive and name the strata {', '.join(groups)}"
    sound = set(groups) == set(given) and all(v > 0 for v in given.values())
    require(sound, f"{rule}; got {None if shares is None else given}.")
    return {g: given[g] / sum(given.values()) for g in groups}


def patterns(rows: Array) -> Mapping[tuple[int, ...], int]:
    """How many rows observe each set of columns; rows that observe nothing are left out."""
    seen, count = np.unique(~np.isnan(rows), axis=0, return_counts=True)
    sets = [tuple(np.flatnonzero(p).tolist()) for p in seen]
    return {chosen: int(n) for chosen, n in zip(sets, count, strict=True) if chosen}


def read_rows(
    data: object, names: Sequence[str] | None, what: str
) -> tuple[Array, tuple[str, ...]]:
    """The rows of any table and the names of its columns, checked."""
    require(not isinstance(names, str), f"raters must be a list of names; got {names!r}.")
    if isinstance(data, Mapping) and not {*_LONG} <= {str(k) for k in data}:
        data, names = _stacked(data, names, what)
    scores = read_scores(data, names=names, what=what)
    return check_rows(scores.rows, scores.names), scores.names


def _stacked(
    data: Mapping[object, object], names: Sequence[str] | None, what: str
) -> tuple[Array, tuple[str, ...]]:
    """A dict of columns side by side; a column may be empty of values."""
    given = {str(k): v for k, v in data.items()}
    wanted = [k for k in given if k not in ("item", "cluster")] if names is None else list(names)
    missing, said = [n for n in wanted if n not in given], ", ".join(wanted)
    came = f"no {', '.join(missing)} in {list(given)}"
    require_evidence(wanted and not missing, what, f"must have columns {said}", came)
    columns, faults = {}, []
    for name in wanted:
        values: Any = given[name]
        try:
            columns[name] = np.array([np.nan if v is None else v for v in values], dtype=np.float64)
        except (TypeError, ValueError):
            if names is not None:
                about = f"{what}.{name}", "must hold numbers", "other values"
                faults.append(fault(*about, remedy=_NOT_SEEN))
    lengths = {n: len(c) for n, c in columns.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{n} {size}" for n, size in lengths.items())
        faults.append(fault(what, "must have columns of one length", sizes))
    if not columns and not faults:
        faults.append(fault(what, "must hold numbers", f"none in {said}"))
    if faults:
        raise EvidenceError(*faults)
    return np.column_stack(list(columns.values())), tuple(columns)


def check_rows(rows: Array, names: Sequence[str]) -> Array:
    """The rows, or all that is wrong with them at once."""
    require_evidence(rows.size, "data", "must have rows", "none")
    faults = []
    if len(set(names)) != len(names):
        faults.append(fault("raters", "must have different names", list(names)))
    endless = np.isinf(rows)
    if endless.any():
        where = np.flatnonzero(endless.any(axis=1)).tolist()
        at = "data." + ", ".join(names[j] for j in np.flatnonzero(endless.any(axis=0)).tolist())
        about: dict[str, Any] = {"where": where, "total": len(where), "remedy": _NOT_SEEN}
        faults.append(fault(at, "must be finite", "an infinite value", **about))
    if np.isnan(rows).all():
        faults.append(fault("data", "must have values", "NaN everywhere"))
    if faults:
        raise EvidenceError(*faults)
    return rows


class Grouped(NamedTuple):
    """Samples by what they observe, and what became of the rows that fit nowhere."""

    samples: tuple[ScoreSample, ...]
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

    Samples that observe one of ``labels`` estimate the covariance. A row goes to the ``allowed``
    set that fits it best (most labels, then most columns, then the first); by default sets are as
    observed, those with fewer than ``least`` rows put under others. With ``clusters`` equal rows
    are not merged.
    """
    seen, which = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
    which = which.ravel()
    sizes = np.bincount(which, minlength=len(seen)).tolist()
    sets = [tuple(np.flatnonzero(p).tolist()) for p in seen]
    observed = {c: (i, sizes[i]) for i, c in enumerate(sets) if c}
    kept = list(allowed) if allowed is not None else _usable(observed, labels, least)
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
        n, of = int(chosen.sum()), None
        if n < least:
            unused += n
            continue
        values, counts = rows[chosen][:, list(columns)], np.ones(n)
        if clusters is None:
            values, times = np.unique(values, axis=0, return_counts=True)
            counts = times.astype(np.float64)
        else:
            of = clusters[chosen]
        about: Any = {"pilot": bool(set(columns) & set(labels)), "clusters": of}
        samples.append(ScoreSample(columns=columns, values=values, counts=counts, **about))
    note = f"{unused} rows are not used: they observe no usable set of columns"
    return Grouped(_with_pilots(samples), unused, (note,) if unused else ())


def _usable(
    observed: Mapping[tuple[int, ...], tuple[int, int]], labels: Sequence[int], least: int
) -> list[tuple[int, ...]]:
    """The sets with enough rows, of which every pair of columns has ``3 * least`` rows."""
    gold = set(labels)

    def together(pair: set[int]) -> int:
        return sum(n for c, (_, n) in observed.items() if pair <= set(c))

    kept = [
        c
        for c, (_, n) in observed.items()
        if n >= least
        and (
            len(c) == 1
            or set(c) <= gold
            or min(together({a, b}) for a in c for b in c if a < b) >= 3 * least
        )
    ]
    # Labels are never lost: where the raters beside them cannot be used, the labels are used alone.
    for columns in observed:
        alone = tuple(c for c in columns if c in gold)
        usable = any(set(c) <= set(columns) and set(c) & gold for c in kept)
        if alone and alone not in kept and not usable:
            kept.append(alone)
    return kept


def _with_pilots(samples: list[ScoreSample]) -> tuple[ScoreSample, ...]:
    """Samples without labels are pilots too, where a pair of columns is seen in no other."""
    known = {(a, b) for s in samples if s.pilot for a in s.columns for b in s.columns}
    result = []
    for sample in sorted(samples, key=lambda s: (not s.pilot, -len(s.columns), s.columns)):
        pairs = {(a, b) for a in sample.columns for b in sample.columns}
        if not sample.pilot and not pairs <= known:
            sample = dataclasses.replace(sample, pilot=True)
            known |= pairs
        result.append(sample)
    return tuple(result)


def split_clusters(samples: Samples, n_folds: int, seed: int) -> list[ScoreSample]:
    """The samples with whole clusters dealt into folds; a pilot without rows in some fold is none."""
    pilots = [s.clusters for s in samples if s.pilot and s.clusters is not None]
    labelled = np.unique(np.concatenate(pilots))
    of = np.empty(labelled[-1] + 1, dtype=np.int64)
    of[np.random.default_rng(seed).permutation(labelled)] = np.arange(len(labelled)) % n_folds
    found = []
    for sample in samples:
        if sample.pilot and sample.clusters is not None:
            folds = (of[sample.clusters] == np.arange(n_folds)[:, None]).astype(np.float64)
            whole = bool(folds.any(axis=1).all())
            sample = dataclasses.replace(sample, pilot=whole, folds=folds if whole else None)
        found.append(sample)
    return found


def split_rows(samples: Samples, folds: int, seed: int) -> list[ScoreSample]:
    """The samples with rows of pilots dealt into folds at random; too few rows are no pilot."""
    require(folds >= 2, f"folds must be at least 2; got {folds}.")
    rng, found = np.random.default_rng(seed), []
    n_folds = min(folds, int(max(float(s.n) for s in samples if s.pilot)) // 2)
    for sample in samples:
        pilot, rows = sample.pilot and float(sample.n) >= n_folds, sample.counts.astype(np.int64)
        parts, n = [], int(rows.sum())
        for f in range(n_folds - 1) if pilot else ():
            size = n // n_folds + (f < n % n_folds)
            parts.append(rng.multivariate_hypergeometric(rows, size, method="marginals"))
            rows = rows - parts[-1]
        dealt = np.array([*parts, rows], dtype=np.float64) if pilot else sample.folds
        found.append(dataclasses.replace(sample, pilot=pilot, folds=dealt))
    return found
