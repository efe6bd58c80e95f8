"""Ruled-out labels in one long form: rates with limits, and whether they depend on the item."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.bounds.betting import Score, betting_interval, equal_together, log_wealth
from noracle.bounds.binomial import binomial_at_least, chdtrc, clopper_pearson
from noracle.errors import MissingExtra, require, require_rows
from noracle.learn.labels import _distinct_integers as distinct_integers
from noracle.results import Check, NaN
from noracle.results.analysis import Rate

Whole = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelTable:
    """One entry per label; ``truth`` has one per item, -1 where it is not trusted."""

    n_items: int
    classes: tuple[str, ...]
    item: Whole
    label: Whole
    truth: Whole | None = None
    annotator: Whole | None = None
    annotators: tuple[str, ...] = ()
    seconds: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.classes)

    @property
    def label_truth(self) -> Whole:
        """The true class of the item of each label, -1 where it is not trusted."""
        nothing = np.full(len(self.item), -1, dtype=np.int64)
        return nothing if self.truth is None else self.truth[self.item]

    def trusted(self) -> LabelTable | None:
        """The labels of trusted items; None if nothing is trusted."""
        if self.truth is None:
            return None
        use = self.label_truth >= 0
        who = None if self.annotator is None else self.annotator[use]
        item, label = self.item[use], self.label[use]
        return dataclasses.replace(self, item=item, label=label, annotator=who, seconds=None)


def read_labels(
    ruled_out: ArrayLike,
    *,
    n_classes: int | None = None,
    classes: Sequence[object] | None = None,
    truth: ArrayLike | None = None,
    trusted: ArrayLike | None = None,
    annotator: ArrayLike | None = None,
    seconds: ArrayLike | None = None,
) -> LabelTable:
    """Check everything and lay it out label by label."""
    said = np.asarray(ruled_out)
    rule, came = "ruled_out must have one row per item, and one or two axes", said.shape
    require(said.ndim in (1, 2), f"{rule}; got shape {came}.")
    names, notes = _names(said, truth, n_classes, classes)
    if said.dtype == bool:
        rule = f"ruled_out must have one column for each of the {len(names)} classes as a mask"
        require(said.shape[1:] == (len(names),), f"{rule}; got shape {came}.")
        item, slot = np.nonzero(said)
        codes = slot
    else:
        table = _codes("ruled_out", said, names)
        table = table.reshape(len(said), -1) if len(said) else table.reshape(0, 1)
        item, slot = np.nonzero(table >= 0)
        codes = table[item, slot]
    who, people = _annotators(annotator, said.shape, item, slot)
    times = None if seconds is None else np.asarray(seconds, dtype=np.float64)
    return LabelTable(
        n_items=len(said),
        classes=names,
        item=item.astype(np.int64),
        label=codes.astype(np.int64),
        truth=_truth(truth, trusted, names, len(said)),
        annotator=who,
        annotators=people,
        seconds=None if times is None else _spread("seconds", times, said.shape, item, slot),
        notes=notes,
    )


def untested(reason: str, **shared: Any) -> Check:
    """A check that says why it was not made."""
    finding = f"not tested: {reason}"
    return Check(p_value=NaN, statistic=NaN, finding=finding, reason=reason, **shared)


def _names(
    said: NDArray[Any], truth: ArrayLike | None, n_classes: int | None, classes: Any
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the classes, and what was inferred."""
    notes: tuple[str, ...] = ()
    if classes is not None:
        names = tuple(str(c) for c in classes)
        ok = len(set(names)) == len(names) and n_classes in (None, len(names))
        came = f"{len(names)} names and n_classes {n_classes}"
        require(ok, f"classes must be different names, n_classes of them; got {came}.")
    elif n_classes is not None:
        names = tuple(map(str, range(n_classes)))
    elif said.dtype == bool and said.ndim == 2:
        names = tuple(map(str, range(said.shape[-1])))
    else:
        names = _seen([said] if truth is None else [said, np.asarray(truth)])
        inferred = f"{len(names)} classes inferred: those that were seen"
        notes = (inferred,) if said.dtype != bool else ()
    remedy = "Pass n_classes or classes: too few are seen in the labels."
    require(len(names) >= 2, f"n_classes must be at least 2; got {len(names)}. {remedy}")
    return names, notes


def _seen(values: Sequence[NDArray[Any]]) -> tuple[str, ...]:
    if all(_is_number(v) or not v.size for v in values):
        numbers = np.concatenate([v.astype(np.float64).ravel() for v in values])
        most = int(np.nanmax(np.append(numbers, -1)))
        return tuple(map(str, range(most + 1)))
    cells = (v for each in values for v in each.reshape(-1).tolist())
    return tuple(sorted({str(v) for v in cells if not _missing(v)}))


def _is_number(values: NDArray[Any]) -> bool:
    return np.issubdtype(values.dtype, np.number)


def _missing(value: object) -> bool:
    if isinstance(value, (int, float)):
        return value != value or (value == -1 and isinstance(value, int))
    return value is None or value == ""


def _codes(name: str, values: NDArray[Any], names: tuple[str, ...]) -> Whole:
    """Class numbers, -1 for nothing said."""
    if not len(values):
        return np.empty(values.shape, dtype=np.int64)
    flat = values.reshape(len(values), -1)
    if _is_number(values):
        numbers = np.where(np.isnan(flat.astype(np.float64)), -1, flat)
        bad = (numbers < -1) | (numbers >= len(names)) | (numbers != np.floor(numbers))
        found = np.where(bad, -1, numbers).astype(np.int64)
        rule = f"must be a whole number in [0, {len(names)}), or -1 for none"
    else:
        place = {n: k for k, n in enumerate(names)}
        rows = flat.tolist()
        known = [[-1 if _missing(v) else place.get(str(v), -2) for v in row] for row in rows]
        found = np.array(known, dtype=np.int64).reshape(flat.shape)
        bad = found == -2
        rule = f"must be one of the {len(names)} classes"
    remedy = "Pass n_classes or classes, or drop those items."
    require_rows(~bad, name, rule, flat, remedy=remedy)
    return found.reshape(values.shape)


def _truth(
    truth: ArrayLike | None, trusted: ArrayLike | None, names: tuple[str, ...], n: int
) -> Whole | None:
    if truth is None:
        rule, remedy = "trusted must come with truth", "Pass the true classes of the trusted items."
        require(trusted is None, f"{rule}; got trusted alone. {remedy}")
        return None
    values = np.asarray(truth)
    rule = f"truth must be one class for each of the {n} items"
    require(values.shape == (n,), f"{rule}; got shape {values.shape}.")
    if trusted is None:
        return _codes("truth", values, names)
    mask = np.asarray(trusted)
    rule = f"trusted must be one bool for each of the {n} items"
    ok = mask.shape == (n,) and (not n or mask.dtype == bool)
    require(ok, f"{rule}; got {mask.dtype} with shape {mask.shape}.")
    found = np.full(n, -1, dtype=np.int64)
    if n and mask.any():  # what is not trusted is not even looked at
        found[mask] = _codes("truth", values[mask], names)
    return found


def _spread(
    name: str, values: NDArray[Any], shape: tuple[int, ...], item: Whole, slot: Whole
) -> NDArray[Any]:
    """One value per label, from one per item or one per label."""
    each = values.shape == shape[:1]
    rule = f"{name} must have the shape of ruled_out, {shape}, or one entry per item"
    require(each or values.shape == shape, f"{rule}; got {values.shape}.")
    found: NDArray[Any] = values[item] if each else values[item, slot]
    return found


def _annotators(
    annotator: ArrayLike | None, shape: tuple[int, ...], item: Whole, slot: Whole
) -> tuple[Whole | None, tuple[str, ...]]:
    """A number for each label's annotator, -1 where nobody is named, and the names in order."""
    if annotator is None:
        return None, ()
    values = _spread("annotator", np.asarray(annotator), shape, item, slot)
    if values.dtype.kind in "iuU":
        found, place = np.unique(values, return_inverse=True)
        gone = found == ("" if values.dtype.kind == "U" else -1)
        numbers = np.where(gone, -1, np.cumsum(~gone) - 1)[place.reshape(-1)]
        return numbers.astype(np.int64), tuple(map(str, found[~gone].tolist()))
    given = [None if _missing(v) else v for v in values.tolist()]
    people = {v for v in given if v is not None}
    numeric = all(isinstance(v, (int, float)) for v in people)
    order = sorted(people, key=None if numeric else str)
    number = {None: -1, **{v: k for k, v in enumerate(order)}}
    return np.array([number[v] for v in given], dtype=np.int64), tuple(map(str, order))


# Rates of labels with limits that hold when an item has several labels; tests of even use.

Floats = NDArray[np.float64]
_FEW = 8  # classes of one item that are drawn one by one


class Sums(NamedTuple):
    """Hits and labels of each item that has a label."""

    hits: Floats
    n: Floats


def sums_by_item(item: Whole, hit: NDArray[np.bool_]) -> Sums:
    """Hits and labels of each item."""
    if item.size and item.max() < 8 * item.size:
        n = np.bincount(item)
        hits = np.bincount(item[hit], minlength=len(n))
        return Sums(hits[n > 0].astype(np.float64), n[n > 0].astype(np.float64))
    place = np.unique(item, return_inverse=True)[1].reshape(-1)
    hits, n = np.bincount(place, weights=hit), np.bincount(place)
    return Sums(hits.astype(np.float64), n.astype(np.float64))


def rate_of(name: str, sums: Sums, tail: float, *, expected: float = NaN) -> Rate:
    """The rate with limits that each fail with chance ``tail``; NaN and [0, 1] without labels."""
    items = len(sums.n)
    hits, total = round(float(sums.hits.sum())), round(float(sums.n.sum()))
    value, low, high = NaN, 0.0, 1.0
    if items and total == items:
        value = hits / items
        low, high = clopper_pearson(hits, items, tail, tail)
    elif items:
        value = float(np.mean(np.sort(sums.hits / sums.n)))
        low, high = betting_interval(_scores(sums), tail, tail)
        low, high = min(low, value), max(high, value)
    verdict = "more" if low > expected else "less" if high < expected else ""
    limits = {"value": value, "low": low, "high": high, "expected": expected}
    said: dict[str, Any] = {**limits, "verdict": verdict if items else ""}
    return Rate(name=name, hits=hits, n=total, items=items, **said)


def p_at_least(sums: Sums, rate: float) -> float:
    """P-value of "the mean share is at most ``rate``": exact binomial, or from a bet."""
    items = len(sums.n)
    if not items or rate >= 1:
        return 1.0
    if sums.n.sum() == items:
        return binomial_at_least(round(float(sums.hits.sum())), items, rate)
    return min(1.0, math.exp(-max(0.0, log_wealth(_scores(sums), rate))))


def _scores(sums: Sums) -> list[Score]:
    return equal_together(sums.hits / sums.n, 0.0, 1.0)


class Use(NamedTuple):
    """How evenly classes are ruled out; ``patterns``: how often an item names its classes."""

    counts: Whole
    expected: float
    scale: float
    statistic: float
    patterns: Whole

    @property
    def few(self) -> bool:
        """Whether there are too few labels for the chi-square limit."""
        return self.scale > 0 and min(self.expected * self.scale, self.expected / self.scale) < 5

    @property
    def p_limit(self) -> float:
        """The p-value for many items; 1 where every item rules out every class equally often."""
        return float(chdtrc(len(self.counts) - 1, self.statistic)) if self.scale > 0 else 1.0


def measure_use(item: Whole, label: Whole, n_classes: int) -> Use | None:
    """Are ``n_classes`` classes, numbered from 0, used evenly, whatever the dependence inside an
    item? None without labels or a choice.

    Under even use the classes of an item's labels may be renamed at random, item by item. Then the
    counts C_k have mean E = n/K and covariance φ·E·(I - J/K), φ = Σ_i (K·Σ_k m_ik² - m_i²)/((K -
    1)·n), with m_ik labels of item i on class k. So X² = Σ (C_k - E)²/(φ·E) tends to chi-square
    with K - 1 degrees; φ is 1 with one label per item. Where E·φ or E/φ is below 5
    :func:`simulate_use` renames instead, which is valid at every n.
    """
    n = len(label)
    if n == 0 or n_classes < 2:
        return None
    counts = np.bincount(label, minlength=n_classes)
    expected = n / n_classes
    pairs, times = np.unique(np.stack([item, label]), axis=1, return_counts=True)
    place = np.unique(pairs[0], return_inverse=True)[1].reshape(-1)
    per_item = np.bincount(place, weights=times)
    scale = float((n_classes * (times**2).sum() - (per_item**2).sum()) / ((n_classes - 1) * n))
    squares = float(np.sort((counts - expected) ** 2).sum())
    statistic = squares / (scale * expected) if scale > 0 else 0.0
    use = Use(counts, expected, scale, statistic, np.empty((0, 0), dtype=np.int64))
    return use._replace(patterns=_patterns(place, times)) if use.few else use


def _patterns(place: Whole, times: Whole) -> Whole:
    order = np.lexsort((-times, place))
    rank = np.arange(len(place)) - np.searchsorted(place[order], place[order], side="left")
    patterns = np.zeros((int(place.max()) + 1, int(rank.max()) + 1), dtype=np.int64)
    patterns[place[order], rank] = times[order]
    return patterns[np.lexsort(patterns.T[::-1])]  # the order of the items must not matter


def simulate_use(use: Use, size: int, rng: np.random.Generator) -> Floats:
    """Statistics under even use: the classes of every item are renamed at random."""
    n_classes, (n, width) = len(use.counts), use.patterns.shape
    if width == 1 and (use.patterns == 1).all():
        drawn = rng.multinomial(n, np.full(n_classes, 1 / n_classes), size=size)
        return _statistics_of(drawn, use)
    found = np.empty(size)
    step = max(1, 1_000_000 // (n * (width if width <= _FEW else n_classes)))
    for start in range(0, size, step):
        block = min(step, size - start)
        if width <= _FEW:
            classes = distinct_integers(block * n, width, n_classes, rng).reshape(block, -1)
            cell = (classes + n_classes * np.arange(block)[:, None]).reshape(-1)
            weights = np.tile(use.patterns.reshape(-1), block)
            drawn = np.bincount(cell, weights=weights, minlength=block * n_classes)
            drawn = drawn.reshape(block, n_classes)
        else:
            padded = np.pad(use.patterns, ((0, 0), (0, n_classes - width)))
            every = np.broadcast_to(padded, (block, *padded.shape))
            drawn = rng.permuted(every, axis=2).sum(axis=1)
        found[start : start + block] = _statistics_of(drawn, use)
    return found


def _statistics_of(counts: NDArray[Any], use: Use) -> Floats:
    squares = np.sort((counts - use.expected) ** 2, axis=1).sum(axis=1)
    return np.asarray(squares / (use.scale * use.expected), dtype=np.float64)


def p_of(statistic: float, simulated: Floats) -> float:
    """(1 + number that reach the statistic)/(1 + number): valid at every number of simulations."""
    reached = int(np.sum(simulated >= statistic - 1e-9 * max(1.0, abs(statistic))))
    return (1 + reached) / (1 + len(simulated))


# Do ruled-out labels depend on the item beyond its class?

_LEAST_ITEMS = 10  # items in a cluster, on average
_FITTED = 5_000  # items that clusters are fitted on
_CELLS = 4_000_000  # table cells held at a time
NAME, ASSUMPTION = "feature dependence", "labels depend on the item only through its class"


class _Part(NamedTuple):
    """The clusters of one class, as what a shuffle needs."""

    name: str
    n_items: int
    n_clusters: int
    # (clusters × patterns) counts, (patterns × classes) labels
    tables: Sequence[tuple[Whole, Floats]]


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

    ``group`` has the class of each item, -1 for items to leave out. Where it is a guess
    (``heuristic``) classes are mixed inside a group, labels differ because classes do, and p
    promises nothing.
    """
    x = _features(features, table.n_items)
    labelled = np.bincount(table.item, minlength=table.n_items)
    parts = _parts(table, x, np.where(labelled > 0, group, -1), n_clusters, rng)
    n = sum(p.n_items for p in parts)
    clusters = "chi-square of k-means clusters × ruled-out classes inside classes"
    guessed = ("Classes are guesses, so that p promises nothing.",)
    shared: dict[str, Any] = {
        "name": NAME,
        "assumption": ASSUMPTION,
        "refutes_only": True,
        "method": f"{clusters}, {n_permutations:,} shuffles",
        "counts": {"labelled_items": n, "classes_tested": len(parts)},
        "diagnostics": {"heuristic": heuristic, "oracle": not heuristic}
        | {"shuffles": n_permutations},
        "notes": guessed if heuristic else (),
    }
    if not parts:
        few = f"no class has {2 * _LEAST_ITEMS} labelled items with different features"
        return untested(few, **shared)
    seen, shuffled = zip(*(_statistics(p, n_permutations, rng) for p in parts), strict=True)
    statistic, null = float(np.sum(seen)), np.sum(shuffled, axis=0)
    rows: list[dict[str, Any]] = [
        {"class": p.name, "n": p.n_items, "clusters": p.n_clusters, "statistic": s}
        | {"expected": float(d.mean()), "p_value": p_of(s, d)}
        for p, s, d in zip(parts, seen, shuffled, strict=True)
    ]
    finding = "all labels of a class are the same"
    if null.mean() > 0:
        ratio = f"{statistic / null.mean():.2f} times those of shuffled labels"
        finding = f"differences between clusters are {ratio}"
    return Check(
        p_value=p_of(statistic, null),
        statistic=statistic,
        finding=f"heuristic: {finding}" if heuristic else finding,
        parts=tuple(sorted(rows, key=lambda r: table.classes.index(str(r["class"])))),
        **shared,
    )


def _features(features: ArrayLike, n: int) -> NDArray[Any]:
    """One row per item, in the type they came in."""
    x = np.asarray(features)
    rule = f"features must have one row for each of the {n} items"
    require(x.ndim and len(x) == n, f"{rule}; got shape {x.shape}.")
    ok = not x.size or np.issubdtype(x.dtype, np.number) or x.dtype == bool
    remedy = "Turn texts into numbers first, for example with TF-IDF."
    require(ok, f"features must be numbers; got {x.dtype}. {remedy}")
    x = x.reshape(n, -1) if n else np.empty((0, 1))
    if np.issubdtype(x.dtype, np.inexact):
        finite = np.isfinite(x).all(axis=1)
        require_rows(finite, "features", "must be finite", "NaN or infinity")
    return x


def _parts(
    table: LabelTable, x: NDArray[Any], group: Whole, n_clusters: int, rng: np.random.Generator
) -> list[_Part]:
    """Clusters of every large class, in an order that the names of the classes do not change."""
    found: list[tuple[bytes, int, Whole, Floats]] = []
    for k in np.unique(group[group >= 0]):
        own = np.flatnonzero(group == k)
        mine = np.ascontiguousarray(x[own].astype(np.float64) + 0.0)
        # by their values alone: the order of the items does not matter
        whole_row = np.dtype((np.void, mine.itemsize * mine.shape[1]))
        order = np.argsort(mine.view(whole_row).reshape(-1), kind="stable")
        mine, first = mine[order], mine[order[:5]].tobytes()
        spread = mine.std(axis=0)  # a constant column says nothing
        scaled = (mine - mine.mean(axis=0)) / np.where(spread > 0, spread, 1.0) + 0.0
        found.append((first, int(k), own[order], scaled))
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
    """For each number of labels."""
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
        said = label[start[rows][:, None] + np.arange(m)]
        patterns, which, times = np.unique(said, axis=0, return_inverse=True, return_counts=True)
        # by size, whatever the classes are called
        rank = np.argsort(np.argsort(times, kind="stable"), kind="stable")
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
    cells = max(met.size + met.shape[0] * rules_out.shape[1] for met, rules_out in part.tables)
    step = max(1, _CELLS // cells)
    for start in range(0, n_permutations, step):
        block = min(step, n_permutations - start)
        drawn: Any = 0.0
        for met, rules_out in part.tables:
            sums = met.sum(axis=1), met.sum(axis=0)
            tables = random_table.rvs(*sums, size=block, random_state=rng)
            counts = np.asarray(tables, dtype=np.float64).reshape(block, *met.shape)
            drawn = drawn + counts @ rules_out
        null[start : start + block] = _chi_square(drawn)
    return float(_chi_square(np.asarray(seen)[None])[0]), null


def _chi_square(tables: Floats) -> Floats:
    """Σ (O - E)²/E over the cells of each table; empty rows and columns add nothing."""
    rows, columns = tables.sum(axis=2, keepdims=True), tables.sum(axis=1, keepdims=True)
    expected = rows * columns / tables.sum(axis=(1, 2), keepdims=True)
    nothing, squares = np.zeros_like(tables), (tables - expected) ** 2
    squares = np.divide(squares, expected, out=nothing, where=expected > 0)
    return np.asarray(squares.sum(axis=(1, 2)))
