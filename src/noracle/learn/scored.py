"""What validation sees: class numbers of answers and ruled-out labels, and one unbiased score of
correctness for each item.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.accuracy.score import law_of, transition_scores
from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.learn.transition import Transition

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
TransitionLike = Transition | ArrayLike | Literal["uniform"]

_SAME = 1e-9
_LEARNT = ("anchors", "trained")


def as_array(values: Any) -> NDArray[Any]:
    """An array of numpy; tensors leave their device, and floats become 64 bits."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = (values.double() if values.is_floating_point() else values).numpy()
    return np.asarray(values)


def read_transition(transition: TransitionLike, n_classes: int | None) -> Transition:
    """A checked matrix; ``"uniform"`` needs the number of classes."""
    if isinstance(transition, str):
        if transition != "uniform":
            raise ArgumentError(
                f"transition must be 'uniform', a matrix or a Transition; got {transition!r}."
            )
        if n_classes is None:
            raise ArgumentError("n_classes must be given with transition='uniform'; got None.")
        return Transition.uniform(n_classes)
    found = (
        transition
        if isinstance(transition, Transition)
        else Transition(np.asarray(transition, dtype=np.float64))
    )
    if n_classes is not None and found.n_classes != n_classes:
        raise ArgumentError(
            f"transition must have one row for each of the {n_classes} classes; got {found.n_classes} rows."
        )
    return found


def is_even(transition: Transition) -> bool:
    """Whether one number stands on the diagonal and one beside it: uniform labels with a share η of
    noise.
    """
    T = transition.matrix
    off = T[~np.eye(len(T), dtype=bool)]
    return bool(np.ptp(np.diag(T)) < _SAME and np.ptp(off) < _SAME)


def is_uniform(transition: Transition) -> bool:
    """Whether every wrong class is equally likely and the true one impossible."""
    return is_even(transition) and transition.diagonal_noise < _SAME


def is_learnt(transition: Transition) -> bool:
    """Whether the matrix was counted or estimated from data, so that it has an error of its own."""
    return transition.oracle or any(
        word in f"{transition.source} {transition.detail}" for word in _LEARNT
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RuledOut:
    """The classes ruled out for each item, (n, s), -1 where there is no more; ``masked`` says that
    repeats could not be told.
    """

    said: Ints
    n_classes: int
    masked: bool = False

    @property
    def sizes(self) -> Ints:
        """Labels of each item, repeats counted."""
        return np.asarray((self.said >= 0).sum(axis=1), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.said)

    def mask(self) -> NDArray[np.bool_]:
        """Which classes are ruled out, (n, K); an item for which all are contradicts itself."""
        wide = np.zeros((len(self.said), self.n_classes + 1), dtype=bool)
        np.put_along_axis(wide, np.where(self.said < 0, self.n_classes, self.said), True, axis=1)
        found = wide[:, :-1]
        full = np.flatnonzero(found.all(axis=1))
        if full.size:
            remedy = "Drop labels of these items."
            rows = full[:5].tolist()
            raise EvidenceError(
                fault(
                    "ruled_out",
                    "must leave a class",
                    "all classes",
                    where=rows,
                    total=len(full),
                    remedy=remedy,
                )
            )
        return found


def read_ruled_out(ruled_out: Any, n_classes: int) -> RuledOut:
    """Class numbers (n,), several padded with -1 (n, s), or a mask (n, K)."""
    values = as_array(ruled_out)
    if values.dtype == bool:
        if values.ndim != 2 or values.shape[1] != n_classes:
            raise EvidenceError(
                fault(
                    "ruled_out", f"must be a mask of {n_classes} columns", f"shape {values.shape}"
                )
            )
        most = max(1, int(values.sum(axis=1).max())) if len(values) else 1
        order = np.argsort(~values, axis=1, kind="stable")[:, :most]
        said = np.where(np.take_along_axis(values, order, axis=1), order, -1)
        return RuledOut(said=said.astype(np.int64), n_classes=n_classes, masked=most > 1)
    if values.ndim not in (1, 2):
        raise EvidenceError(
            fault("ruled_out", "must have one row an item", f"shape {values.shape}")
        )
    said = _whole("ruled_out", values, n_classes).reshape(
        len(values), -1 if len(values) and values.size else max(1, values.shape[-1])
    )
    return RuledOut(said=said, n_classes=n_classes)


def read_predicted(name: str, predicted: Any, labels: RuledOut) -> Ints:
    """Class numbers, -1 for no answer, one for each item."""
    values = as_array(predicted)
    if values.ndim != 1 or len(values) != len(labels):
        raise EvidenceError(
            fault(
                name,
                f"must have one class for each of the {len(labels)} items of ruled_out",
                f"shape {values.shape}",
            )
        )
    return _whole(name, values, labels.n_classes)


def read_logits(name: str, logits: Any, labels: RuledOut | None = None) -> Floats:
    """Finite numbers (n, K)."""
    values = as_array(logits)
    if values.ndim != 2 or values.shape[1] < 2:
        raise EvidenceError(
            fault(name, "must have one row an item and one column a class", f"shape {values.shape}")
        )
    if labels is not None and len(values) != len(labels):
        raise EvidenceError(
            fault(
                name,
                f"must have one row for each of the {len(labels)} items of ruled_out",
                f"{len(values)} rows",
            )
        )
    found: Floats = np.asarray(values, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if bad.size:
        raise EvidenceError(
            fault(
                name,
                "must be finite",
                found[bad[0]].tolist()[:8],
                where=bad[:5].tolist(),
                total=len(bad),
            )
        )
    return found


def _whole(name: str, values: NDArray[Any], n_classes: int) -> Ints:
    if values.size == 0:
        return values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise EvidenceError(
            fault(name, "must be whole class numbers (-1: none)", f"values of type {values.dtype}")
        )
    rows = values.reshape(len(values), -1)
    bad = np.flatnonzero(((rows < -1) | (rows >= n_classes)).any(axis=1))
    if bad.size:
        came = rows[bad[0]].tolist()
        raise EvidenceError(
            fault(
                name,
                f"must be in [-1, {n_classes})",
                came[0] if len(came) == 1 else came,
                where=bad[:5].tolist(),
                total=len(bad),
            )
        )
    return np.asarray(values, dtype=np.int64)


def score_table(transition: Transition) -> Floats:
    """T⁻¹[ruled out, answer], with a last column of zeros for no answer (index -1).

    Raises
    ------
    SingularTransition
        If T has no inverse to speak of.
    """
    transition.inverse()  # the named error, with its limit; the scores themselves are the foundation's
    scores = transition_scores(transition.matrix)
    return np.concatenate([scores, np.zeros((len(scores), 1))], axis=1)


def item_scores(predicted: Ints, labels: RuledOut, transition: Transition) -> Floats:
    """One unbiased score of correctness for each item; NaN without a label.

    Uniform labels: 1 - (K - 1)/m·1{answer among the m ruled out}. Else the mean of T⁻¹[ruled out,
    answer] over the labels of the item, each of which must be drawn from T on its own. No answer
    scores 0.
    """
    labelled = labels.sizes > 0
    if is_uniform(transition):
        mask = labels.mask()
        m = mask.sum(axis=1)
        k = transition.n_classes
        hit = mask[np.arange(len(labels)), predicted] & (predicted >= 0)
        by_size = np.array([law_of("no", k, max(1, s)).low for s in range(k)])
        scores = np.where(predicted < 0, 0.0, np.where(hit, by_size[m], 1.0))
        return np.where(labelled, scores, np.nan)
    require_own_draws(labels)
    each = score_table(transition)[labels.said, predicted[:, None]]
    total = np.where(labels.said >= 0, each, 0.0).sum(axis=1)
    return np.where(labelled, total / np.maximum(labels.sizes, 1), np.nan)


def require_own_draws(labels: RuledOut) -> None:
    """Raise for a mask with several labels of an item: a set does not say which were drawn twice,
    so T does not describe it.
    """
    if labels.masked:
        raise ArgumentError(
            "ruled_out must have one column for each label where the transition matrix is not uniform, repeats kept; got a mask with "
            "several classes of an item. Pass class numbers padded with -1, or one label an item."
        )
