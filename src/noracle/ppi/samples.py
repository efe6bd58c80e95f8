"""Rows of scores, grouped into samples: rows that observe the same columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from noracle.errors import EvidenceError, fault
from noracle.ppi.covariance import Array
from noracle.ppi.intervals import Sample
from noracle.ppi.table import read_scores

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
