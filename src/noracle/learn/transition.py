"""Transition matrices: row = true class, column = ruled-out class, rows sum to 1.

Every matrix carries its source. ``oracle`` says that true labels were seen; whatever is fitted with
it repeats the word.

    uniform       every wrong class is equally likely
    given         known from how the labels were drawn
    floor         a matrix with a share of labels drawn at random
    noisy         uniform or another matrix with a share of labels on the true class
    interpolated  between uniform and another matrix
    evened        a matrix whose noise was kept and whose bias was taken away
    oracle        counted against true labels
    anchors       estimated from a fitted model, without true labels
    estimated     the likeliest matrix for held-out labels and a model's chances, without true labels
    trained       a free parameter of the model
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import SingularTransition, require, require_evidence, require_rows

Source = Literal[
    "uniform",
    "given",
    "floor",
    "noisy",
    "interpolated",
    "evened",
    "oracle",
    "anchors",
    "estimated",
    "trained",
]
Matrix = NDArray[np.float64]

WORST_CONDITION = 1e6
"""Above this condition number the inverse multiplies noise so much that no risk can be estimated.
"""

_TINY = 1e-12
_SAME = 1e-9  # numbers that differ by less are equal


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Transition:
    """A checked matrix P(ruled out | true class) and where it came from.

    Parameters
    ----------
    matrix
        Rows are true classes, columns ruled-out classes; each row sums to 1.
    source
        How the matrix was found.
    detail
        A few words more, for reports.
    oracle
        Whether true labels were seen; every matrix that is made out of this one says the same.

    Examples
    --------
    >>> t = Transition.uniform(10)
    >>> t.source, round(t.condition, 6), round(t.diagonal_noise, 6), round(t.strength, 6)
    ('uniform', 9.0, 0.0, 1.0)
    """

    matrix: Matrix
    source: Source = "given"
    detail: str = ""
    oracle: bool = False

    def __post_init__(self) -> None:
        T = np.array(self.matrix, dtype=np.float64)
        rule = "transition must be a square matrix with one row per true class"
        square = T.ndim == 2 and T.shape[0] == T.shape[1] and len(T) > 1
        require(square, f"{rule}; got shape {T.shape}.")
        sums = T.sum(axis=1)
        ok = np.isfinite(T).all() and T.min() >= 0 and np.abs(sums - 1).max() <= 1e-6
        rule = "transition must have non-negative rows that sum to 1"
        came = f"row sums {np.round(sums, 6).tolist()}"
        require(ok, f"{rule}; got {came}. Rows are true classes, columns ruled-out ones.")
        T = T / sums[:, None]
        T.setflags(write=False)
        object.__setattr__(self, "matrix", T)
        object.__setattr__(self, "oracle", self.oracle or self.source == "oracle")

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.matrix)

    @property
    def condition(self) -> float:
        """Condition number of the matrix (2-norm); what rounding cannot tell from a singular one is
        1/ε = 4.5e15.
        """
        return min(float(np.linalg.cond(self.matrix)), 1 / float(np.finfo(float).eps))

    @property
    def diagonal_noise(self) -> float:
        """η: the mean chance that the true class itself is ruled out."""
        return float(np.diag(self.matrix).mean())

    @property
    def strength(self) -> float:
        """1 - ηK: what noise leaves of a label; 0 is a random annotator."""
        return 1 - self.diagonal_noise * self.n_classes

    @property
    def is_even(self) -> bool:
        """Whether T has one number on its diagonal and one beside it: uniform with a share of noise."""
        off = self.matrix[~np.eye(self.n_classes, dtype=bool)]
        return bool(np.ptp(np.diag(self.matrix)) < _SAME and np.ptp(off) < _SAME)

    @property
    def is_uniform(self) -> bool:
        """Whether every wrong class is equally likely and the true one impossible."""
        return self.is_even and self.diagonal_noise < _SAME

    @property
    def is_learnt(self) -> bool:
        """Whether the matrix was counted or estimated from data, so that it has its own error."""
        said = f"{self.source} {self.detail}"
        return self.oracle or any(word in said for word in ("anchors", "estimated", "trained"))

    def inverse(self) -> Matrix:
        """T⁻¹; rows sum to 1.

        Raises
        ------
        SingularTransition
            If the matrix cannot be inverted usefully, as at η = 1/K, where a label says nothing.
        """
        condition = self.condition
        if not condition < WORST_CONDITION:
            rule = f"transition must be invertible (condition number below {WORST_CONDITION:g})"
            came = f"{condition:.3g}, 1 - ηK = {self.strength:.3g}"
            why = "Such labels cannot tell the classes apart"
            remedy = "use a loss without T⁻¹ or better labels"
            raise SingularTransition(f"{rule}; got {came}. {why}; {remedy}.")
        return np.asarray(np.linalg.inv(self.matrix), dtype=np.float64)

    def class_shares(self, ruled_out_shares: ArrayLike) -> Matrix:
        """Shares of the true classes from those of the ruled-out ones: π = T⁻ᵀ π̄, its negative
        entries set to 0.

        Examples
        --------
        >>> Transition.uniform(3).class_shares([0.25, 0.25, 0.5]).tolist()
        [0.5, 0.5, 0.0]
        """
        pi_bar = shares_of("ruled_out_shares", ruled_out_shares, self.n_classes)
        return shares_of("shares", np.clip(pi_bar @ self.inverse(), 0, None), self.n_classes)

    def summary(self) -> dict[str, Any]:
        """What a report says of the matrix."""
        return {
            "source": self.source,
            "oracle": self.oracle,
            "detail": self.detail,
            "n_classes": self.n_classes,
            "condition": self.condition,
            "diagonal_noise": self.diagonal_noise,
            "strength": self.strength,
        }

    @classmethod
    def uniform(cls, n_classes: int) -> Transition:
        """Every wrong class with probability 1/(K - 1)."""
        require(n_classes >= 2, f"n_classes must be at least 2; got {n_classes}.")
        return cls((1 - np.eye(n_classes)) / (n_classes - 1), "uniform")

    @classmethod
    def noisy(cls, n_classes: int, noise: float) -> Transition:
        """η on the diagonal, the rest uniform; singular at η = 1/K."""
        return cls.uniform(n_classes).with_noise(noise)

    def with_noise(self, noise: float) -> Transition:
        """A share η of all labels rules out the true class: (1 - η)·T + η·I."""
        identity = np.eye(self.n_classes)
        return self._mixed("noise", noise, identity, "noisy", "on the diagonal, rest")

    def with_floor(self, share: float) -> Transition:
        """A share of all labels is drawn from all K classes at random: (1 - share)·T + share·J/K."""
        even = np.full_like(self.matrix, 1 / self.n_classes)
        return self._mixed("share", share, even, "floor", "over")

    def towards_uniform(self, share: float) -> Transition:
        """share·U + (1 - share)·T."""
        uniform = Transition.uniform(self.n_classes).matrix
        return self._mixed("share", share, uniform, "interpolated", "uniform, rest")

    def evened(self) -> Transition:
        """The same noise without bias: the diagonal stays, the rest of each row is spread evenly
        over the wrong classes.

        Examples
        --------
        >>> Transition([[0.1, 0.9, 0.0], [0.5, 0.0, 0.5], [0.2, 0.8, 0.0]]).evened().matrix.tolist()
        [[0.1, 0.45, 0.45], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]]
        """
        noise = np.diag(self.matrix)[:, None]
        uniform = Transition.uniform(self.n_classes).matrix
        return self._made((1 - noise) * uniform + noise * np.eye(self.n_classes), "evened", "")

    def _mixed(self, name: str, share: float, other: Matrix, to: Source, how: str) -> Transition:
        require(0 <= share <= 1, f"{name} must be in [0, 1]; got {share}.")
        return self._made((1 - share) * self.matrix + share * other, to, f"{share:g} {how} ")

    def _made(self, matrix: Matrix, source: Source, how: str) -> Transition:
        """A matrix out of this one, which says so."""
        own = f"{self.source}: {self.detail}" if self.detail else self.source
        return Transition(matrix, source, how + own, self.oracle)


def shares_of(name: str, values: ArrayLike, n_classes: int) -> Matrix:
    """Non-negative shares of the classes, which sum to 1."""
    shares = np.asarray(values, dtype=np.float64)
    ok = shares.shape == (n_classes,) and np.isfinite(shares).all()
    ok = ok and shares.min() >= 0 and shares.sum() > 0
    require(ok, f"{name} must be {n_classes} non-negative shares; got {shares.tolist()[:8]}.")
    return np.asarray(shares / shares.sum(), dtype=np.float64)


def padded_classes(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The classes of each row of a mask (n, K), in order, padded with -1."""
    width = max(1, int(mask.sum(axis=1).max(initial=0)))
    order = np.argsort(~mask, axis=1, kind="stable")[:, :width]
    return np.where(np.take_along_axis(mask, order, axis=1), order, -1).astype(np.int64)


def require_classes(name: str, values: NDArray[Any], n_classes: int, *, low: int = -1) -> None:
    """Raise where class numbers, one row per item, are not from ``low`` to K - 1."""
    good = (values >= low) & (values < n_classes)
    several = values.ndim == 2 and values.shape[1] > 1
    rule = f"must be in [{low}, {n_classes})"
    require_rows(good.all(axis=1) if several else good, name, rule, values)


def require_class_left(mask: Any) -> None:
    """Raise for items of which all classes are ruled out."""
    remedy = "Drop labels of these items."
    left = ~mask.all(axis=1)
    require_rows(left, "ruled_out", "must leave a class", "all classes", remedy=remedy)


def ruled_out_counts(
    truth: ArrayLike, ruled_out: ArrayLike, *, n_classes: int
) -> NDArray[np.int64]:
    """How often each class (column) was ruled out for the items of each true class (row); -1 is no
    label.

    Examples
    --------
    >>> ruled_out_counts([0, 0, 1], [[1, 2], [1, -1], [0, 2]], n_classes=3).tolist()
    [[0, 2, 1], [1, 0, 1], [0, 0, 0]]
    """
    return _counts(*_checked(truth, ruled_out, n_classes), n_classes)


def count_transition(
    truth: ArrayLike, ruled_out: ArrayLike, *, n_classes: int, prior: float = 0.0
) -> Transition:
    """T counted from items whose true labels are known: an oracle, and said so.

    ``ruled_out`` is one class per item, or several padded with -1. ``prior`` is added to every cell,
    so that a rare class gets a row; it pulls the row towards a random annotator.

    Examples
    --------
    >>> t = count_transition([0, 0, 1], [1, 1, 0], n_classes=2)
    >>> t.matrix.tolist(), t.oracle
    ([[0.0, 1.0], [1.0, 0.0]], True)
    """
    table = ruled_out_counts(truth, ruled_out, n_classes=n_classes) + prior
    require(0 <= prior < np.inf, f"prior must be at least 0; got {prior}.")
    empty = np.flatnonzero(table.sum(axis=1) == 0)
    rule, remedy = "must hold every class at least once", "Pass prior=1 or more items."
    came = f"none of class {empty[0]}" if empty.size else ""
    require_evidence(not came, "truth", rule, came, remedy=remedy)
    detail = f"counted on {len(np.asarray(truth))} items with true labels"
    return Transition(table / table.sum(axis=1, keepdims=True), "oracle", detail)


def count_transitions(
    truth: ArrayLike,
    ruled_out: ArrayLike,
    *,
    annotator: ArrayLike,
    n_classes: int,
    prior: float = 10.0,
) -> dict[Hashable, Transition]:
    """T of every annotator, counted from items whose true labels are known: oracles, and said so.

    Few labels an annotator make a wild matrix. So each row starts with ``prior`` labels that are
    spread as the same row of all annotators together, T_a[j] = (counts_a[j] + prior·T[j]) / (n_a[j]
    + prior); with ``prior=0`` an annotator without labels of a class gets the row of all.

    Parameters
    ----------
    ruled_out, annotator
        One class and who said so for each item, or several: two tables of one shape, -1 where
        nothing was said.

    Examples
    --------
    >>> found = count_transitions([0, 0, 1, 1], [1, 0, 0, 0], annotator=["ann", "bob", "ann", "bob"], n_classes=2, prior=0)
    >>> found["bob"].matrix.tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    pooled = count_transition(truth, ruled_out, n_classes=n_classes, prior=0.0)
    y, said = _checked(truth, ruled_out, n_classes)
    names, shape = np.asarray(annotator), np.shape(ruled_out)
    rule = f"annotator must have the shape of ruled_out, {shape}"
    require(names.shape == shape, f"{rule}; got {names.shape}.")
    require(0 <= prior < np.inf, f"prior must be at least 0; got {prior}.")
    names = names.reshape(said.shape)
    found: dict[Hashable, Transition] = {}
    for name in np.unique(names[said >= 0]):
        table = _counts(y, np.where(names == name, said, -1), n_classes).astype(np.float64)
        n = table.sum(axis=1, keepdims=True)
        weight = np.where(n + prior > 0, prior, 1.0)
        detail = f"counted on {int(n.sum())} labels of one annotator with true labels"
        rows = (table + weight * pooled.matrix) / (n + weight)
        found[name.item()] = Transition(rows, "oracle", detail)
    return found


def estimate_transition(
    complementary_probabilities: ArrayLike,
    *,
    ruled_out: ArrayLike | None = None,
    quantile: float = 0.97,
) -> Transition:
    """T from anchor points, without any true label.

    A model fitted to the *complementary* labels gives q(x) ≈ Tᵀ p(x). Where an item is certainly of
    class j, q(x) is row j of T. The true class is the one that is ruled out least often, so the
    anchors of class j are the items with argmin_k q_k(x) = j, and among them the 1 - quantile share
    of all items with the lowest q_j. Row j is the mean of q over its anchors, or, with
    ``ruled_out``, what was in fact ruled out there, which forgives a model whose q is badly scaled.
    Then the items must be others than the model was fitted to, since it has seen its own labels.

    Assumes that every class has items of which the model is certain, that T[j, j] is the smallest
    entry of its row *and* of its column, and that labels depend on the item only through its class.
    None of these can be seen in the labels alone. Where T[i, j] < T[j, j], items between i and j
    look more certain than those of j, and row j comes out mixed.

    Parameters
    ----------
    complementary_probabilities
        q, one row per item: the chances of each class to be ruled out.
    ruled_out
        One class for each of these items, or several padded with -1.
    quantile
        Share of the items that are no anchors of a class.

    References
    ----------
    Yu, Liu, Gong and Tao (2018), ECCV: anchors known to be of a class. Patrini et al. (2017), CVPR:
    anchors found by a model.

    Examples
    --------
    >>> T = [[0.0, 0.8, 0.2], [0.4, 0.0, 0.6], [0.5, 0.5, 0.0]]
    >>> estimate_transition(np.repeat(T, 10, axis=0)).matrix.round(6).tolist() == T
    True
    """
    q = np.asarray(complementary_probabilities, dtype=np.float64)
    ok = q.ndim == 2 and len(q) > 1 and np.isfinite(q).all() and q.min() >= 0
    ok = ok and np.abs(q.sum(axis=1) - 1).max() <= 1e-3
    rule = "complementary_probabilities must be rows of probabilities"
    require(ok, f"{rule}; got shape {q.shape}.")
    require(0 < quantile < 1, f"quantile must be in (0, 1); got {quantile}.")
    n, k = q.shape
    said = None if ruled_out is None else _checked(np.zeros(n, dtype=np.int64), ruled_out, k)[1]
    least, wanted = q.argmin(axis=1), max(1, round((1 - quantile) * n))
    rows = np.empty((k, k))
    rule = "must have items for which each class is the least likely to be ruled out"
    remedy = "Fit a better model, or count T on a few items with true labels."
    for j in range(k):
        own = np.flatnonzero(least == j)
        anchors = own[np.argsort(q[own, j], kind="stable")[:wanted]]
        seen = q[anchors].sum(axis=0)
        if said is not None:
            seen = _counts(np.zeros(len(anchors), dtype=np.int64), said[anchors], k)[0]
        came = f"none for class {j}"
        require_evidence(seen.sum(), "complementary_probabilities", rule, came, remedy=remedy)
        rows[j] = seen / seen.sum()
    return Transition(rows, "anchors", f"quantile {quantile:g} of {n} items")


def likeliest_transition(
    class_probabilities: ArrayLike,
    ruled_out: ArrayLike,
    *,
    expected: ArrayLike | None = None,
    belief: float = 0.0,
    rounds: int = 500,
) -> tuple[Transition, Matrix]:
    """T from a model's chances of the *true* classes and labels that it was not trained on, without
    any true label; and the standard error of each entry.

    The labels have the likelihood Π_i Σ_j p_ij T[j, ȳ_i], which is concave in T: EM finds its
    maximum. Errors are those of the observed information among rows that sum to 1; entries at 0
    have none.

    Assumes chances that are calibrated, and labels that depend on the item through its class alone;
    several labels of an item count as independent.

    Parameters
    ----------
    class_probabilities
        p, one row per item.
    ruled_out
        One class for each of these items, or several padded with -1.
    expected, belief
        A matrix, and so many labels of each class that count as if drawn from it: few labels alone
        make a wild matrix.
    rounds
        Steps of EM at most.

    Examples
    --------
    >>> T, errors = likeliest_transition(np.repeat(np.eye(2), 50, axis=0), np.repeat([1, 0, 1], [45, 40, 15]))
    >>> T.matrix.round(3).tolist(), errors.round(3).tolist()
    ([[0.1, 0.9], [0.7, 0.3]], [[0.042, 0.042], [0.065, 0.065]])
    """
    p = np.asarray(class_probabilities, dtype=np.float64)
    ok = p.ndim == 2 and p.shape[1] > 1 and np.isfinite(p).all() and p.min(initial=0) >= 0
    ok = ok and np.abs(p.sum(axis=1) - 1).max(initial=0) <= 1e-3
    rule = "class_probabilities must be rows of probabilities"
    require(ok, f"{rule}; got shape {p.shape}.")
    n, k = p.shape
    said = _checked(np.zeros(n, dtype=np.int64), ruled_out, k)[1]
    rows, columns = np.nonzero(said >= 0)
    require_evidence(rows.size, "ruled_out", "must name a class for some item", "none")
    parts = [p[rows[said[rows, columns] == c]] for c in range(k)]
    T = np.full((k, k), 1 / k) if expected is None else np.asarray(expected, dtype=np.float64)
    before = belief * T + _TINY
    for _ in range(rounds):
        seen = [part / np.maximum(part @ T[:, c], _TINY)[:, None] for c, part in enumerate(parts)]
        tally = T * np.stack([each.sum(axis=0) for each in seen], axis=1) + before
        new = tally / tally.sum(axis=1, keepdims=True)
        done, T = np.abs(new - T).max() < 1e-7, new
        if done:
            break
    free = T > 1e-5
    information, tangent = np.zeros((k, k, k, k)), np.zeros((k, k, k, k))
    for c, part in enumerate(parts):
        each = part / np.maximum(part @ T[:, c], _TINY)[:, None]
        information[:, c, :, c] = each.T @ each
        information[range(k), c, range(k), c] += belief / np.maximum(T[:, c], 1e-5)
    for j in range(k):  # changes of row j that keep its sum, among entries that are free
        own = free[j].astype(float)
        tangent[j, :, j, :] = np.diag(own) - np.outer(own, own) / own.sum()
    Z = tangent.reshape(k * k, k * k)
    inverse = np.linalg.pinv(Z @ information.reshape(k * k, k * k) @ Z, hermitian=True)
    errors = np.sqrt(np.maximum(np.diag(inverse), 0)).reshape(k, k)
    detail = f"{len(rows)} labels that taught nothing, standard error at most {errors.max():.2g}"
    return Transition(T, "estimated", detail), errors


def _checked(
    truth: ArrayLike, ruled_out: ArrayLike, n_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Classes (n,) and ruled-out classes (n, s)."""
    y, said = _whole("truth", truth).reshape(-1), _whole("ruled_out", ruled_out)
    rule = f"ruled_out must have one row for each of the {len(y)} items"
    require(len(said) == len(y), f"{rule}; got {len(said)}.")
    said = said.reshape(len(y), -1) if len(y) else said.reshape(0, 1)
    require_classes("truth", y, n_classes, low=0)
    require_classes("ruled_out", said, n_classes)
    return y, said


def _whole(name: str, values: ArrayLike) -> NDArray[np.int64]:
    found = np.asarray(values)
    whole = found.ndim and (not found.size or np.issubdtype(found.dtype, np.integer))
    rule, came = "whole numbers, one row per item", f"{found.dtype} with shape {found.shape}"
    require(whole, f"{name} must be {rule}; got an array of {came}.")
    return found.astype(np.int64)


def _counts(y: NDArray[np.int64], said: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    rows, flat = np.repeat(y, said.shape[1]), said.reshape(-1)
    use = flat >= 0
    cells = rows[use] * n_classes + flat[use]
    return np.bincount(cells, minlength=n_classes**2).reshape(n_classes, n_classes)
