"""Ruled-out labels drawn from known true classes: for simulations, tests and benchmarks."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import require, require_rows
from noracle.learn.transition import Matrix, Transition, require_classes, ruled_out_counts

Labels = NDArray[np.int64]

MASSES = {"weak": (0.45, 0.30, 0.25), "strong": (0.75, 0.24, 0.01)}
"""Chance that a label falls into each third of the wrong classes."""


def draw_ruled_out(
    truth: ArrayLike,
    *,
    transition: Transition | None = None,
    chances: ArrayLike | None = None,
    n_classes: int | None = None,
    n_labels: int | Literal["random"] = 1,
    replace: bool = False,
    rng: np.random.Generator,
) -> Labels:
    """Classes that are ruled out for each item.

    Pass one of ``transition``, ``chances`` and ``n_classes``.

    Parameters
    ----------
    truth
        The true class of each item.
    transition
        T: row j is the distribution of the label of an item of class j.
    chances
        One row of K weights per item, which need not sum to 1: labels that depend on the item.
    n_classes
        K, for labels that are uniform over the wrong classes.
    n_labels
        s labels per item; ``"random"`` draws s with P(s) = C(K - 1, s)/(2^(K-1) - 1), so that with a
        uniform T every non-empty set of wrong classes is equally likely.
    replace
        Whether the s labels of an item are independent and may repeat. Else each next one is drawn
        from T without those before.

    Returns
    -------
    numpy.ndarray
        Shape (n,) for one label, else (n, s); a random s is padded with -1. The first column has
        the distribution T.

    References
    ----------
    Feng et al. (2020), ICML, section 3 (a random number of labels).

    Examples
    --------
    >>> draw_ruled_out([0, 1, 1], n_classes=2, rng=np.random.default_rng(1)).tolist()
    [1, 0, 0]
    """
    y = _classes(truth)
    one = sum(given is not None for given in (transition, chances, n_classes)) == 1
    rule = "draw_ruled_out must have one of transition, chances and n_classes"
    require(one, f"{rule}; got none or several.")
    row = y if chances is None else None  # the row of weights of each item; None: each has its own
    if chances is None:
        T = transition if transition is not None else Transition.uniform(n_classes or 0)
        weights = T.matrix
    else:
        weights = np.asarray(chances, dtype=np.float64)
        rule, shape = f"chances must have one row for each of the {len(y)} items", weights.shape
        require(len(shape) == 2 and shape[0] == len(y), f"{rule}; got shape {shape}.")
        good = (np.isfinite(weights) & (weights >= 0)).all(axis=1) & (weights.sum(axis=1) > 0)
        require_rows(good, "chances", "must be non-negative with a positive sum", weights)
    k = weights.shape[1]
    require_classes("truth", y, k, low=0)
    if n_labels == "random":
        p = np.array([math.comb(k - 1, s) / (2 ** (k - 1) - 1) for s in range(1, k)])
        sizes = 1 + rng.choice(k - 1, size=len(y), p=p / p.sum())
        order = _draw_distinct(weights, row, k - 1, rng)
        return np.where(np.arange(k - 1) < sizes[:, None], order, -1)
    require(n_labels >= 1, f"n_labels must be at least 1; got {n_labels}.")
    if n_labels == 1 or replace:
        columns = [_draw_one(weights, row, rng) for _ in range(n_labels)]
        return columns[0] if n_labels == 1 else np.stack(columns, axis=1)
    return _draw_distinct(weights, row, n_labels, rng)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnnotatedLabels:
    """Ruled-out classes and the annotators who said so, both (n, answers per item)."""

    ruled_out: Labels
    annotator: Labels


def ask_annotators(
    truth: ArrayLike,
    *,
    n_classes: int,
    error: float | ArrayLike = 0.0,
    n_shown: int = 4,
    n_answers: int = 3,
    appeal: Transition | None = None,
    rng: np.random.Generator,
) -> AnnotatedLabels:
    """Labels as people give them: each annotator sees ``n_shown`` of the K classes at random and
    picks one that is wrong.

    When the true class is among those shown, the annotator picks it by mistake with chance e. With
    equal e and without ``appeal`` the labels have T = (1 - η)·U + η·I, η = e·n_shown/K.

    Parameters
    ----------
    error
        e of all annotators, or of each of a pool; every item gets ``n_answers`` different ones.
    appeal
        Row j: how much each class tempts who sees an item of class j; a shown wrong class is picked
        in proportion to it. Even by default.

    References
    ----------
    Wang et al. (2023), the collection of CLCIFAR: four classes shown, three annotators per image.

    Examples
    --------
    >>> said = ask_annotators([0, 1], n_classes=5, error=[0.0, 0.0, 0.1, 0.2], rng=np.random.default_rng(1))
    >>> said.ruled_out.shape, said.annotator.max() < 4
    ((2, 3), np.True_)
    """
    y = _classes(truth)
    ok = n_classes >= 2 and (not y.size or (y.min() >= 0 and y.max() < n_classes))
    rule, seen = f"in [0, {n_classes}), with at least two classes", sorted(set(y.tolist()))[:8]
    require(ok, f"truth must be {rule}; got {seen}.")
    rule = f"from 2 to {n_classes}, so that a wrong class is among them"
    require(2 <= n_shown <= n_classes, f"n_shown must be {rule}; got {n_shown}.")
    k = n_classes if appeal is None else appeal.n_classes
    require(k == n_classes, f"appeal must have {n_classes} classes; got {k}.")
    pool = np.asarray(error, dtype=np.float64)
    pool = np.full(n_answers, pool) if pool.ndim == 0 else pool.reshape(-1)
    enough, rule = len(pool) >= n_answers >= 1, "name at least n_answers annotators"
    require(enough, f"error must {rule}; got {len(pool)} for {n_answers}.")
    ok = ((pool >= 0) & (pool <= 1)).all()
    require(ok, f"error must be in [0, 1]; got {pool.tolist()[:8]}.")
    annotator = _distinct_integers(len(y), n_answers, len(pool), rng)
    asked = np.repeat(y, n_answers)
    shown = _distinct_integers(len(asked), n_shown, n_classes, rng)
    true = shown == asked[:, None]
    tempting = np.ones(shown.shape) if appeal is None else appeal.matrix[asked[:, None], shown]
    waiting = rng.standard_exponential(shown.shape)
    # Classes without appeal only when nothing else is left; the true class never.
    tempts = tempting > 0
    waiting = np.where(tempts, waiting / np.where(tempts, tempting, 1), 1e300 * (1 + waiting))
    waiting[true] = np.inf
    picked = np.take_along_axis(shown, waiting.argmin(axis=1)[:, None], axis=1)[:, 0]
    mistaken = true.any(axis=1) & (rng.random(len(asked)) < pool[annotator.reshape(-1)])
    ruled_out = np.where(mistaken, asked, picked).reshape(len(y), n_answers)
    return AnnotatedLabels(ruled_out=ruled_out, annotator=annotator)


def biased_transition(
    n_classes: int, *, bias: Literal["weak", "strong"], rng: np.random.Generator
) -> Transition:
    """T whose rows prefer some wrong classes: each row splits them at random in three parts, drawn
    with different chances.

    Weak: 0.45, 0.30, 0.25; strong: 0.75, 0.24, 0.01, spread evenly inside a part. Parts are as
    equal as K - 1 allows; with less than three wrong classes the chances of the parts that are
    there are scaled up.

    Examples
    --------
    >>> row = biased_transition(10, bias="weak", rng=np.random.default_rng(1)).matrix[0]
    >>> sorted(row.round(4).tolist())
    [0.0, 0.0833, 0.0833, 0.0833, 0.1, 0.1, 0.1, 0.15, 0.15, 0.15]
    """
    require(bias in MASSES, f"bias must be weak or strong; got {bias!r}.")
    sizes = [len(part) for part in np.array_split(np.arange(n_classes - 1), 3)]
    spread = np.repeat([m / max(1, n) for m, n in zip(MASSES[bias], sizes, strict=True)], sizes)
    T = Transition.uniform(n_classes).matrix.copy()
    T[T > 0] = rng.permuted(np.tile(spread / spread.sum(), (n_classes, 1)), axis=1).reshape(-1)
    return Transition(T, "given", f"{bias} bias")


def feature_chances(
    scores: ArrayLike, *, truth: ArrayLike | None = None, sharpness: float = 1.0
) -> Matrix:
    """Chances that depend on the item: P(ȳ = k | x) ∝ exp(-sharpness·score_k(x)), for
    ``draw_ruled_out(..., chances=...)``.

    With a positive ``sharpness`` classes that a teacher finds unlikely are ruled out first; with a
    negative one near misses are.

    Parameters
    ----------
    scores
        Logits or log-probabilities of a teacher, one row per item.
    truth
        Where given, the true class is never ruled out; without it the labels are as noisy as the
        teacher.

    Examples
    --------
    >>> feature_chances([[2.0, 0.0, 0.0]], truth=[0]).tolist()
    [[0.0, 0.5, 0.5]]
    """
    z = -sharpness * np.asarray(scores, dtype=np.float64)
    ok = z.ndim == 2 and z.shape[1] > 1 and np.isfinite(z).all()
    rule = "scores must be finite, one row per item and one column per class"
    require(ok, f"{rule}; got shape {z.shape}.")
    if truth is not None:
        y = _classes(truth)
        ok = len(y) == len(z) and (not y.size or (y.min() >= 0 and y.max() < z.shape[1]))
        require(ok, f"truth must be {len(z)} classes in [0, {z.shape[1]}); got {len(y)}.")
        z[np.arange(len(y)), y] = -np.inf
    weight = np.exp(z - z.max(axis=1, keepdims=True))
    chances: Matrix = weight / weight.sum(axis=1, keepdims=True)
    return chances


def resample_ruled_out(
    truth: ArrayLike, ruled_out: ArrayLike, *, n_classes: int, rng: np.random.Generator
) -> Labels:
    """New labels with the empirical T of the given ones, independent of everything but the true
    class; -1 stays where no label was.

    What differs between a model fitted to the given labels and one fitted to these is due to
    dependence on the item.

    Examples
    --------
    >>> resample_ruled_out([0, 0, 1], [1, 1, -1], n_classes=2, rng=np.random.default_rng(1)).tolist()
    [1, 1, -1]
    """
    counts = ruled_out_counts(truth, ruled_out, n_classes=n_classes).astype(np.float64)
    counts[counts.sum(axis=1) == 0] = 1  # classes without labels: never drawn from
    y, said = _classes(truth), np.asarray(ruled_out, dtype=np.int64)
    drawn = [_draw_one(counts, y, rng) for _ in range(1 if said.ndim == 1 else said.shape[1])]
    return np.where(said >= 0, np.stack(drawn, axis=1).reshape(said.shape), -1)


def drop_wrong(
    truth: ArrayLike, ruled_out: ArrayLike, *, share: float, rng: np.random.Generator
) -> Labels:
    """The labels without a share of those that rule out the true class; -1 where one was taken
    away.

    Exactly round(share·number of wrong labels) go, chosen at random.

    Examples
    --------
    >>> drop_wrong([0, 1], [[0, 1], [0, 1]], share=1.0, rng=np.random.default_rng(1)).tolist()
    [[-1, 1], [0, -1]]
    """
    require(0 <= share <= 1, f"share must be in [0, 1]; got {share}.")
    y, said = _classes(truth), np.array(ruled_out, dtype=np.int64)
    rule = f"ruled_out must have one row for each of the {len(y)} items"
    require(len(said) == len(y), f"{rule}; got {len(said)}.")
    flat = said.reshape(-1)
    wrong = np.flatnonzero(flat == np.repeat(y, flat.size // max(1, len(y))))
    flat[rng.choice(wrong, size=round(share * len(wrong)), replace=False)] = -1
    return flat.reshape(said.shape)


def _classes(truth: ArrayLike) -> Labels:
    y = np.asarray(truth)
    ok = y.ndim == 1 and (not y.size or np.issubdtype(y.dtype, np.integer))
    rule, came = "one whole number per item", f"{y.dtype} with shape {y.shape}"
    require(ok, f"truth must be {rule}; got an array of {came}.")
    return y.astype(np.int64)


def _draw_one(weights: Matrix, row: Labels | None, rng: np.random.Generator) -> Labels:
    """One class per item in proportion to its row of weights."""
    edges = np.cumsum(weights, axis=1)
    edges /= edges[:, -1:]
    if row is None:
        passed: Labels = (edges <= rng.random(len(weights))[:, None]).sum(axis=1)
        return passed
    u = rng.random(len(row))
    drawn = np.empty(len(row), dtype=np.int64)
    for j in range(len(weights)):
        mine = np.flatnonzero(row == j)
        drawn[mine] = np.searchsorted(edges[j], u[mine], side="right")
    return drawn


def _draw_distinct(
    weights: Matrix, row: Labels | None, size: int, rng: np.random.Generator
) -> Labels:
    """Classes drawn one after the other without replacement."""
    w = weights if row is None else weights[row]
    possible = (w > 0).sum(axis=1)
    came = f"{next(iter(possible[possible < size]), 0)} possible classes"
    rule = f"must leave {size} possible classes"
    remedy = "Ask for fewer labels, or pass replace=True."
    require_rows(possible >= size, "n_labels", rule, came, remedy=remedy)
    with np.errstate(divide="ignore"):
        waiting = rng.standard_exponential(w.shape) / w
    if size <= w.shape[1] // 2:
        nearest = np.argpartition(waiting, size - 1, axis=1)[:, :size]
        order = np.take_along_axis(waiting, nearest, axis=1).argsort(axis=1)
        return np.take_along_axis(nearest, order, axis=1)
    return waiting.argsort(axis=1)[:, :size]


def _distinct_integers(n: int, size: int, total: int, rng: np.random.Generator) -> Labels:
    """(n, size) different integers below ``total`` in each row, in random order."""
    drawn = np.empty((n, size), dtype=np.int64)
    for i in range(size):
        new = rng.integers(total - i, size=n)
        # The new number counts only those not yet drawn: step over these, from the smallest up.
        for old in np.sort(drawn[:, :i], axis=1).T:
            new += new >= old
        drawn[:, i] = new
    return drawn
