"""Do ruled-out labels depend on the item beyond its class?"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import ArgumentError, EvidenceError, MissingExtra, fault
from noracle.learn._label_table import LabelTable
from noracle.results import Check, NaN

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]
_LEAST_ITEMS = 10  # items in a cluster, on average
_FITTED = 5_000  # items that clusters are fitted on
_CELLS = 4_000_000  # table cells held at a time
NAME, ASSUMPTION = "feature dependence", "labels depend on the item only through its class"


class _Part(NamedTuple):
    """The clusters of one class, as what a shuffle needs: for each number of labels, clusters and
    label patterns.
    """

    name: str
    n_items: int
    n_clusters: int
    tables: Sequence[
        tuple[Whole, Floats]
    ]  # (clusters × patterns) counts, (patterns × classes) labels


def check_dependence(
    table: LabelTable,
    features: ArrayLike,
    group: Whole,
    *,
    heuristic: bool = False,
    n_clusters: int = 5,
    n_permutations: int = 4_999,
    rng: np.random.Generator,
) -> Check:
    """Test whether labels depend on the item beyond its class.

    Inside each class the items are put into clusters by their features alone. If labels depend on
    the item only through its class, the labels of the items of a class, and so those of its
    clusters, may be shuffled. The statistic is the sum over classes of the chi-square of clusters ×
    ruled-out classes; p = (1 + shuffles that reach it)/(1 + shuffles), which is valid at every
    number of items. All labels of an item move together, and only among items with as many labels.
    A pass proves nothing: clusters may not show a dependence.

    Parameters
    ----------
    group
        The class of each item, -1 for items to leave out.
    heuristic
        Say that ``group`` is a guess. Then classes are mixed inside a group, labels differ because
        classes do, and p promises nothing.
    """
    x = _features(features, table.n_items)
    labelled = np.bincount(table.item, minlength=table.n_items)
    parts = _parts(table, x, np.where(labelled > 0, group, -1), n_clusters, rng)
    n = sum(p.n_items for p in parts)
    shared: dict[str, Any] = {
        "name": NAME,
        "assumption": ASSUMPTION,
        "refutes_only": True,
        "method": f"chi-square of k-means clusters × ruled-out classes inside classes, {n_permutations:,} shuffles",
        "counts": {"labelled_items": n, "classes_tested": len(parts)},
        "diagnostics": {
            "heuristic": heuristic,
            "oracle": not heuristic,
            "shuffles": n_permutations,
        },
        "notes": ("Classes are guesses, so that p promises nothing.",) if heuristic else (),
    }
    if not parts:
        reason = f"no class has {2 * _LEAST_ITEMS} labelled items with different features"
        return Check(
            p_value=NaN, statistic=NaN, finding=f"not tested: {reason}", reason=reason, **shared
        )
    seen, shuffled = zip(*(_statistics(p, n_permutations, rng) for p in parts), strict=True)
    statistic, null = float(np.sum(seen)), np.sum(shuffled, axis=0)
    p_value = _p_value(statistic, null)
    rows = tuple(
        {
            "class": p.name,
            "n": p.n_items,
            "clusters": p.n_clusters,
            "statistic": s,
            "expected": float(d.mean()),
            "p_value": _p_value(s, d),
        }
        for p, s, d in zip(parts, seen, shuffled, strict=True)
    )
    ratio = (
        f"differences between clusters are {statistic / null.mean():.2f} times those of shuffled labels"
        if null.mean() > 0
        else ""
    )
    finding = ratio or "all labels of a class are alike"
    return Check(
        p_value=p_value,
        statistic=statistic,
        finding=f"heuristic: {finding}" if heuristic else finding,
        parts=tuple(sorted(rows, key=lambda r: table.classes.index(str(r["class"])))),
        **shared,
    )


def _p_value(statistic: float, null: Floats) -> float:
    reached = int(np.sum(null >= statistic - 1e-9 * max(1.0, abs(statistic))))
    return (1 + reached) / (1 + len(null))


def _features(features: ArrayLike, n: int) -> NDArray[Any]:
    """One row an item, in the type they came in."""
    x = np.asarray(features)
    if x.ndim == 0 or len(x) != n:
        raise ArgumentError(
            f"features must have one row for each of the {n} items; got shape {x.shape}."
        )
    if x.size and not (np.issubdtype(x.dtype, np.number) or x.dtype == bool):
        raise ArgumentError(
            f"features must be numbers; got {x.dtype}. Turn texts into numbers first, for example with TF-IDF."
        )
    x = x.reshape(n, -1) if n else np.empty((0, 1))
    bad = (
        np.flatnonzero(~np.isfinite(x).all(axis=1))
        if np.issubdtype(x.dtype, np.inexact)
        else np.empty(0, dtype=np.int64)
    )
    if bad.size:
        raise EvidenceError(
            fault(
                "features",
                "must be finite",
                "NaN or infinity",
                where=bad[:5].tolist(),
                total=len(bad),
            )
        )
    return x


def _scaled(x: Floats) -> Floats:
    """Columns of mean 0 and deviation 1; a constant one says nothing."""
    spread = x.std(axis=0)
    found: Floats = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0) + 0.0
    return found


def _sorted_rows(x: Floats) -> Whole:
    """An order of the rows that depends on their values alone, so that the order of the items does
    not matter.
    """
    rows = np.ascontiguousarray(x)
    return np.argsort(
        rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(-1), kind="stable"
    ).astype(np.int64)


def _parts(
    table: LabelTable, x: NDArray[Any], group: Whole, n_clusters: int, rng: np.random.Generator
) -> list[_Part]:
    """Clusters of every class that is large enough, in an order that the names of the classes do
    not change.
    """
    found: list[tuple[bytes, int, Whole, Floats]] = []
    for k in np.unique(group[group >= 0]):
        own = np.flatnonzero(group == k)
        mine = x[own].astype(np.float64) + 0.0
        order = _sorted_rows(mine)
        found.append((mine[order[:5]].tobytes(), int(k), own[order], _scaled(mine[order])))
    parts = []
    for _, k, own, scaled in sorted(found, key=lambda f: (f[0], len(f[2]))):
        distinct = 1 + int((np.diff(scaled, axis=0) != 0).any(axis=1).sum())
        size = min(n_clusters, distinct, len(own) // _LEAST_ITEMS)
        if size >= 2:
            clusters = _clusters(scaled, size, rng)
            parts.append(_Part(table.classes[k], len(own), size, _tables(table, own, clusters)))
    return parts


def _clusters(x: Floats, size: int, rng: np.random.Generator) -> Whole:
    """Clusters by k-means, made without a look at any label."""
    try:
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
    except ImportError as error:
        raise MissingExtra("a feature-dependence check", "scikit-learn", "learn") from error
    fitted = x if len(x) <= _FITTED else x[rng.choice(len(x), _FITTED, replace=False)]
    model = KMeans(size, n_init=1, max_iter=50, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any clusters do
        model.fit(fitted)
    return np.asarray(model.predict(x), dtype=np.int64)


def _tables(table: LabelTable, own: Whole, clusters: Whole) -> list[tuple[Whole, Floats]]:
    """For each number of labels: how often each pattern of labels met each cluster, and what each
    pattern rules out.
    """
    place = np.full(table.n_items, -1)
    place[own] = np.arange(len(own))
    mine = place[table.item] >= 0
    row, label = place[table.item[mine]], table.label[mine]
    order = np.lexsort((label, row))
    row, label = row[order], label[order]
    n_labels = np.bincount(row, minlength=len(own))
    start = np.concatenate([[0], np.cumsum(n_labels)[:-1]])
    found = []
    for m in np.unique(n_labels[n_labels > 0]):
        rows = np.flatnonzero(n_labels == m)
        patterns, which, times = np.unique(
            label[start[rows][:, None] + np.arange(m)],
            axis=0,
            return_inverse=True,
            return_counts=True,
        )
        rank = np.argsort(
            np.argsort(times, kind="stable"), kind="stable"
        )  # by size, whatever the classes are called
        met = np.zeros((int(clusters.max()) + 1, len(patterns)), dtype=np.int64)
        np.add.at(met, (clusters[rows], rank[which.reshape(-1)]), 1)
        rules_out = np.zeros((len(patterns), table.n_classes))
        np.add.at(rules_out, (np.repeat(rank, m), patterns.reshape(-1)), 1.0)
        found.append((met, rules_out))
    return found


def _statistics(part: _Part, n_permutations: int, rng: np.random.Generator) -> tuple[float, Floats]:
    """The chi-square of the class, and those of its shuffles."""
    from scipy.stats import random_table

    seen = sum(met @ rules_out for met, rules_out in part.tables)
    null = np.empty(n_permutations)
    step = max(
        1,
        _CELLS
        // max(met.size + met.shape[0] * rules_out.shape[1] for met, rules_out in part.tables),
    )
    for start in range(0, n_permutations, step):
        block = min(step, n_permutations - start)
        drawn: Any = 0.0
        for met, rules_out in part.tables:
            tables = random_table.rvs(
                met.sum(axis=1), met.sum(axis=0), size=block, random_state=rng
            )
            drawn = (
                drawn + np.asarray(tables, dtype=np.float64).reshape(block, *met.shape) @ rules_out
            )
        null[start : start + block] = _chi_square(drawn)
    return float(_chi_square(np.asarray(seen)[None])[0]), null


def _chi_square(tables: Floats) -> Floats:
    """Σ (O - E)²/E over the cells of each table; empty rows and columns add nothing."""
    rows, columns = tables.sum(axis=2, keepdims=True), tables.sum(axis=1, keepdims=True)
    expected = rows * columns / tables.sum(axis=(1, 2), keepdims=True)
    squares = np.divide(
        (tables - expected) ** 2, expected, out=np.zeros_like(tables), where=expected > 0
    )
    found: Floats = squares.sum(axis=(1, 2))
    return found
