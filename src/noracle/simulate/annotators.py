"""Simulated raters and systems for items with a known key: right more often on easy items, and
wrong together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noracle.counts.tally import check_n_classes
from noracle.errors import ArgumentError, require
from noracle.simulate.tasks import Columns, PictureTask

Whole = NDArray[np.int64]
Items = PictureTask | Mapping[Any, int] | Sequence[int] | Whole


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RaterModel:
    """How raters err: the arguments of :func:`simulate_raters`, and the agreement and kappa to
    expect.

    Examples
    --------
    >>> model = fit_raters(n_classes=4, accuracy=0.8, kappa=0.7)
    >>> round(model.kappa, 6), model.raters(2)
    (0.7, {'rater-01': 0.8, 'rater-02': 0.8})
    """

    accuracy: float
    correlation: float
    shared: float
    agreement: float
    kappa: float

    def raters(self, n_raters: int) -> dict[str, float]:
        """Names of so many raters, all of this accuracy."""
        require(n_raters >= 1, f"n_raters must be at least 1; got {n_raters}.")
        return {f"rater-{j:02d}": self.accuracy for j in range(1, n_raters + 1)}


def fit_raters(
    *, n_classes: int, accuracy: float, kappa: float, given_right: float | None = None
) -> RaterModel:
    """Find the common part of the raters' errors that gives the wanted kappa.

    For two raters of accuracy p let B(ρ) be the probability that both are right (see
    :func:`simulate_raters`). They agree with probability

        v = B(ρ) + (1 − 2p + B(ρ)) (s² + (1 − s²)/(R − 1)),

    and kappa is (v − 1/R)/(1 − 1/R) for R equally frequent classes. ``given_right``, the accuracy
    of a rater where another is right, fixes B(ρ) = p · given_right, and s follows from kappa.
    Without it s is 0 and ρ follows from kappa. With two classes there is one wrong class only, and
    kappa and ``given_right`` must fit each other.

    Parameters
    ----------
    kappa
        Wanted Fleiss' kappa, which for equally good raters is also the mean of Cohen's.
    given_right
        Wanted P(a rater is right | another rater is right), at least ``accuracy``.

    Examples
    --------
    >>> colour = fit_raters(n_classes=3, accuracy=0.836, given_right=0.850, kappa=0.6036)
    >>> round(colour.correlation, 3), round(colour.shared, 3), round(colour.agreement, 4)
    (0.176, 0.55, 0.7357)
    """
    from noracle.bounds.binomial import find_root

    size = check_n_classes(n_classes)
    p = _rate("accuracy", accuracy)
    require(0 < p < 1, f"accuracy must lie between 0 and 1; got {p}.")
    require(math.isfinite(kappa), f"kappa must be a number; got {kappa}.")
    wanted, shared = 1 / size + (1 - 1 / size) * kappa, 0.0

    def kappa_of(agreement: float) -> float:
        return (agreement - 1 / size) / (1 - 1 / size)

    def agreed(rho: float, shared: float = 0.0) -> float:
        return _agreement(p, _both_right(p, rho), shared, size)

    if given_right is not None:
        rule, why = f"must be in [accuracy, 1] = [{p}, 1]", "Raters err together here, not apart."
        require(p <= given_right <= 1, f"given_right {rule}; got {given_right}. {why}")
        both = p * given_right
        correlation = float(both >= p)
        if p * p < both < p:
            correlation = find_root(lambda rho: _both_right(p, rho) - both, 0.0, 1.0, xtol=1e-14)
        wrong = 1 - 2 * p + both
        same = (wanted - both) / wrong if wrong > 1e-12 else math.nan
        square = 0.0 if abs(same - 1) < 1e-3 else math.nan  # of two classes one is wrong
        if size > 2:
            square = (same - 1 / (size - 1)) * (size - 1) / (size - 2)
        low, high = (kappa_of(_agreement(p, both, s, size)) for s in (0.0, 1.0))
        rule = f"must be in [{low:.4f}, {high:.4f}] at this accuracy and given_right"
        require(0 <= square <= 1, f"kappa {rule}; got {kappa}.")
        shared = math.sqrt(square)
    else:
        low, high = agreed(0.0), agreed(1.0)
        rule = f"must be in [{kappa_of(low):.4f}, {kappa_of(high):.4f}] at accuracy {p}"
        require(low <= wanted <= high, f"kappa {rule}; got {kappa}. Pass given_right.")
        correlation = find_root(lambda rho: agreed(rho) - wanted, 0.0, 1.0, xtol=1e-14)
    found = agreed(correlation, shared)
    return RaterModel(
        accuracy=p, correlation=correlation, shared=shared, agreement=found, kappa=kappa_of(found)
    )


def simulate_raters(
    items: Items,
    *,
    raters: Mapping[str, float],
    n_classes: int | None = None,
    correlation: float = 0.0,
    shared: float = 0.0,
    confusion: Sequence[Sequence[float]] | None = None,
    n_per_item: int | None = None,
    missing: float = 0.0,
    seed: int = 0,
) -> Columns:
    """Ratings as a table with the columns ``item``, ``rater`` and ``label``.

    Rater j is right on item i if sqrt(ρ) z_i + sqrt(1 − ρ) e_ij ≤ Φ⁻¹(p_j), with e_ij and the
    item's hardness z_i standard normal: the accuracy is p_j over all items, and ρ (``correlation``)
    is how much of the luck all raters share. For a :class:`PictureTask` the hard items are those with a
    small lead, for a key they are drawn.

    Parameters
    ----------
    items
        A task, or the key: a mapping from item to class, or the classes of items 0, 1, 2, …
    raters
        Accuracy of each rater.
    n_classes
        Number of classes of a key; a task brings its own.
    shared
        Probability that a wrong rating is the item's own decoy, the same for all raters: the
        runner-up of a task, a drawn wrong class for a key.
    confusion
        Row y: weights of the wrong classes where the truth is y; the diagonal does not count.
        Default: all wrong classes equally likely.
    n_per_item
        Each item is rated by this many raters, drawn for each item; default: by all.
    missing
        Share of ratings that are missing, at random.
    seed
        The same seed gives :func:`simulate_raters` and :func:`simulate_systems` the same hard items
        and decoys.

    Examples
    --------
    >>> table = simulate_raters([0, 1, 2, 1], raters={"ann": 0.9, "bob": 0.7}, n_classes=3, seed=2)
    >>> table["item"][:3], table["rater"][:3], len(table["label"])
    ([0, 0, 1], ['ann', 'bob', 'ann'], 8)
    """
    errors = n_classes, correlation, shared, confusion, seed
    matrix = draw_ratings(items, raters, n_per_item, missing, *errors)
    ids, labels = _names(items, n_classes)
    names = list(raters)
    rows, columns = np.nonzero(matrix >= 0)
    return {
        "item": [ids[i] for i in rows.tolist()],
        "rater": [names[j] for j in columns.tolist()],
        "label": [labels[c] for c in matrix[rows, columns].tolist()],
    }


def draw_ratings(
    items: Items,
    raters: Mapping[str, float],
    n_per_item: int | None = None,
    missing: float = 0.0,
    *errors: Any,
    **named: Any,
) -> Whole:
    """As :func:`simulate_raters`, as a matrix of places in the labels, -1 where there is none."""
    require(raters, "raters must name one at least, as in {'ann': 0.9}; got none.")
    gap, most = _rate("missing", missing), len(raters)
    chosen = most if n_per_item is None else n_per_item
    require(1 <= chosen <= most, f"n_per_item must be in [1, {most}]; got {chosen}.")
    given, rng = _draw(items, raters, 2, *errors, **named)
    if chosen < most:
        given[rng.random(given.shape).argsort(axis=1) >= chosen] = -1
    if gap:
        given[rng.random(given.shape) < gap] = -1
    return given


def simulate_systems(
    items: Items,
    *,
    systems: Mapping[str, float],
    n_classes: int | None = None,
    correlation: float = 0.0,
    shared: float = 0.0,
    confusion: Sequence[Sequence[float]] | None = None,
    no_answer: float = 0.0,
    seed: int = 0,
) -> Columns:
    """Answers as a table with the columns ``item``, ``system`` and ``answer``.

    Systems err as raters do in :func:`simulate_raters`; with ``shared`` they fall for the same
    decoys. Large ``shared`` makes a system that repeats the raters' mistakes, which is how a
    certificate goes wrong.

    Parameters
    ----------
    systems
        Accuracy of each system on the items that it answers.
    no_answer
        Share of items without an answer (None), at random.

    Examples
    --------
    >>> simulate_systems([0, 1, 1], systems={"agent": 1.0}, n_classes=2)
    {'item': [0, 1, 2], 'system': ['agent', 'agent', 'agent'], 'answer': [0, 1, 1]}
    """
    require(systems, "systems must name one at least, as in {'agent': 0.9}; got none.")
    silent = _rate("no_answer", no_answer)
    given, rng = _draw(items, systems, 3, n_classes, correlation, shared, confusion, seed)
    given[rng.random(given.shape) < silent] = -1
    ids, labels = _names(items, n_classes)
    return {
        "item": list(ids) * len(systems),
        "system": [name for name in systems for _ in ids],
        "answer": [labels[c] if c >= 0 else None for c in given.T.reshape(-1).tolist()],
    }


def simulate_detector(
    task: PictureTask,
    *,
    name: str = "detector",
    found: float = 0.97,
    named: float = 0.97,
    seed: int = 0,
) -> Columns:
    """Answers of a detector that counts: it sees each object with chance ``found`` and calls a seen
    one right with chance ``named``.

    The answer is the class that it counted most often, drawn among equals. Like every counter it
    errs where the lead is small.

    Examples
    --------
    >>> from noracle.simulate import simulate_task
    >>> task = simulate_task("shape", n_items=200, seed=4)
    >>> [sum(map(str.__eq__, simulate_detector(task, found=f)["answer"], task.key.values())) for f in (1.0, 0.6)]
    [176, 115]
    """
    rng = np.random.default_rng([seed, 4])
    size = len(task.options)
    seen = rng.binomial(task.counts, _rate("found", found))
    right = rng.binomial(seen, _rate("named", named))
    called = right.copy()
    uniform = np.full(size - 1, 1 / (size - 1))
    for c in range(size):
        wrong = np.delete(np.arange(size), c)
        called[:, wrong] += rng.multinomial(seen[:, c] - right[:, c], uniform)
    answer = (called + rng.random(called.shape) / 2).argmax(axis=1)
    return {
        "item": list(task.items),
        "system": [name] * len(task),
        "answer": [task.options[c] for c in answer.tolist()],
    }


def _draw(
    items: Items,
    rates: Mapping[str, float],
    stream: int,
    n_classes: int | None = None,
    correlation: float = 0.0,
    shared: float = 0.0,
    confusion: Sequence[Sequence[float]] | None = None,
    seed: int = 0,
) -> tuple[Whole, np.random.Generator]:
    """Codes, one row per item and one column per rater or system."""
    from noracle.bounds.binomial import ndtri

    rho, decoys = _rate("correlation", correlation), _rate("shared", shared)
    accuracy = np.array([_rate(name, value) for name, value in rates.items()])
    require(seed >= 0, f"seed must be at least 0; got {seed}.")
    key, size = _key(items, n_classes)
    weights = _wrong_weights(confusion, size)
    hardness, decoy = _items(items, key, weights, np.random.default_rng([seed, 1]))
    rng = np.random.default_rng([seed, stream])
    shape = (len(key), len(accuracy))
    luck = math.sqrt(rho) * hardness[:, None] + math.sqrt(1 - rho) * rng.standard_normal(shape)
    right = luck <= ndtri(accuracy)
    wrong = _wrong(rng, key, weights, shape[1])
    wrong = np.where(rng.random(shape) < decoys, decoy[:, None], wrong)
    return np.where(right, key[:, None], wrong), rng


def _items(
    items: Items, key: Whole, weights: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.float64], Whole]:
    """Hardness and decoy of each item: from the picture where there is one, else drawn."""
    from noracle.bounds.binomial import ndtri

    if not isinstance(items, PictureTask):
        return rng.standard_normal(len(key)), _wrong(rng, key, weights, 1)[:, 0]
    order = np.lexsort((rng.random(len(key)), -items.lead))  # the widest lead first
    hardness = np.empty(len(key))
    hardness[order] = ndtri((np.arange(len(key)) + 0.5) / len(key))
    rest = items.counts + rng.random(items.counts.shape) / 2
    rest[np.arange(len(key)), key] = -1
    return hardness, np.asarray(rest.argmax(axis=1), dtype=np.int64)


def _wrong(rng: np.random.Generator, key: Whole, weights: NDArray[np.float64], n: int) -> Whole:
    """A wrong class for each item, n times, by the weights of its true class."""
    edges = np.cumsum(weights, axis=1)
    drawn = rng.random((len(key), n))
    out = np.zeros((len(key), n), dtype=np.int64)
    for c in range(len(weights)):  # of the classes, never of the items
        of = key == c
        out[of] = np.searchsorted(edges[c, :-1], drawn[of], side="right")
    return out


def _wrong_weights(confusion: Sequence[Sequence[float]] | None, size: int) -> NDArray[np.float64]:
    table = np.ones((size, size)) if confusion is None else np.array(confusion, dtype=float)
    fine = table.shape == (size, size) and np.isfinite(table).all() and (table >= 0).all()
    rule = f"must be a {size} × {size} table of weights that are at least 0"
    require(fine, f"confusion {rule}; got shape {table.shape}.")
    np.fill_diagonal(table, 0)
    total = table.sum(axis=1, keepdims=True)
    row = int(total.argmin())
    rule = "must give every class a wrong one"
    require((total > 0).all(), f"confusion {rule}; got only zeros in row {row}.")
    return np.asarray(table / total)


def _key(items: Items, n_classes: int | None) -> tuple[Whole, int]:
    if isinstance(items, PictureTask):
        own = len(items.options)
        rule = f"must be {own}, which the task brings"
        require(n_classes in (None, own), f"n_classes {rule}; got {n_classes}.")
        return items.codes, own
    key = np.array(list(items.values() if isinstance(items, Mapping) else items), dtype=np.int64)
    if n_classes is None:
        raise ArgumentError("n_classes must be given with a key; got none.")
    size = check_n_classes(n_classes)
    fine = len(key) and key.min() >= 0 and key.max() < size
    rule = f"must have at least one class, each in [0, {size})"
    require(fine, f"items {rule}; got {key.tolist()[:5]}.")
    return key, size


def _names(items: Items, n_classes: int | None) -> tuple[list[Any], list[Any]]:
    if isinstance(items, PictureTask):
        return list(items.items), list(items.options)
    ids = items if isinstance(items, Mapping) else range(len(items))
    return list(ids), list(range(int(n_classes or 0)))


def _both_right(p: float, rho: float) -> float:
    """P(X ≤ h, Y ≤ h) of two standard normals with correlation rho and Φ(h) = p, by Owen's T."""
    from noracle.bounds.binomial import ndtri, owens_t

    return p - 2 * float(owens_t(float(ndtri(p)), math.sqrt((1 - rho) / (1 + rho))))


def _agreement(p: float, both: float, shared: float, size: int) -> float:
    same = shared**2 + (1 - shared**2) / (size - 1)
    return both + (1 - 2 * p + both) * same


def _rate(name: str, value: float) -> float:
    require(0 <= value <= 1, f"{name} must be in [0, 1]; got {value}.")
    return float(value)
