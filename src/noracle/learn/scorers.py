"""Scorers for scikit-learn's searches, which see ruled-out labels and no true one.

``GridSearchCV(model, grid, scoring=zero_one_scorer())`` then ``search.fit(X, ruled_out)``: what the
search calls y is what items are *not*.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from noracle.errors import require, require_rows
from noracle.learn.scores import (
    TransitionLike,
    as_array,
    chosen_temperature,
    item_losses,
    item_scores,
    read_predicted,
    read_ruled_out,
    read_transition,
)
from noracle.learn.transition import Transition

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RuledOutScorer:
    """A function (estimator, X, ruled_out) → number, larger is better; see :func:`zero_one_scorer`
    and :func:`scel_scorer`.
    """

    measure: Literal["zero-one", "scel"]
    transition: TransitionLike = "uniform"
    classes: tuple[Any, ...] | None = None
    temperature: float | Literal["fit"] = 1.0

    def __call__(self, estimator: Any, X: Any, ruled_out: Any) -> float:
        """The score of a fitted estimator, or of a Pipeline that ends in one."""
        known = np.asarray(estimator.classes_)
        T = self.ordered_transition(known)
        labels = read_ruled_out(class_numbers(ruled_out, known), len(known))
        labelled = labels.sizes > 0
        if not labelled.any():
            return float("nan")
        if self.measure == "zero-one":
            answers = class_numbers(estimator.predict(X), known)
            predicted = read_predicted("predicted", answers, labels)
            return float(item_scores(predicted, labels, T)[labelled].mean())
        z = _log_chances(estimator, X)
        tau = chosen_temperature(z, labels, T, self.temperature)
        return -float(item_losses(z, labels, T, temperature=tau)[labelled].mean())

    def ordered_transition(self, known: NDArray[Any]) -> Transition:
        """T with rows and columns in the order of the estimator's classes."""
        if self.classes is None or isinstance(self.transition, str):
            return read_transition(self.transition, len(known))
        T = read_transition(self.transition, len(self.classes))
        place = {name: i for i, name in enumerate(self.classes)}
        rule = f"classes must name the {len(known)} classes of the estimator"
        came = f"{list(self.classes)} for {known.tolist()[:8]}"
        remedy = "Fit the estimator with classes=[…] where a class may be absent."
        same = set(known.tolist()) == set(place)
        require(same, f"{rule} in the order of the transition matrix; got {came}. {remedy}")
        order = [place[name] for name in known.tolist()]
        return Transition(T.matrix[np.ix_(order, order)], T.source, T.detail, T.oracle)


def zero_one_scorer(
    transition: TransitionLike = "uniform", *, classes: Sequence[Any] | None = None
) -> RuledOutScorer:
    """A scorer that gives the unbiased estimate of the accuracy: the mean of T⁻¹[ruled out,
    predicted].

    Parameters
    ----------
    transition
        T[y, k] = P(class k is ruled out | true class y), rows in the order of ``classes``.
    classes
        Names of the classes in the order of the matrix; by default that of the estimator's
        ``classes_``, which is sorted.

    Notes
    -----
    The best of many candidates by a noisy score is worse than it looks.
    :func:`~noracle.learn.compare.compare_models` says whether two can be told apart.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier(strategy="constant", constant="b").fit([[0]] * 3, ["a", "b", "c"])
    >>> zero_one_scorer()(model, [[0]] * 4, ["a", "c", "a", "b"])
    0.5
    """
    names = None if classes is None else tuple(classes)
    return RuledOutScorer(measure="zero-one", transition=transition, classes=names)


def scel_scorer(
    transition: TransitionLike = "uniform",
    *,
    temperature: float | Literal["fit"] = 1.0,
    classes: Sequence[Any] | None = None,
) -> RuledOutScorer:
    """A scorer that gives minus the mean of -log (Tᵀp)_ȳ, from ``predict_log_proba`` or
    ``predict_proba``.

    Less noisy than the accuracy. Fit the temperature where candidates were trained with different
    losses.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier(strategy="prior").fit([[0]] * 3, ["a", "b", "c"])
    >>> round(scel_scorer()(model, [[0]] * 4, ["a", "c", "a", "b"]), 4)  # minus log 3
    -1.0986
    """
    names = None if classes is None else tuple(classes)
    return RuledOutScorer(
        measure="scel", transition=transition, classes=names, temperature=temperature
    )


def class_numbers(names: Any, known: NDArray[Any]) -> NDArray[Any]:
    """The place of each class name among the known ones; a mask stays, and -1, "", None and NaN are
    no label.
    """
    values = as_array(names)
    if values.dtype == bool and known.dtype != bool:
        return values
    place = {name: i for i, name in enumerate(known.tolist())}
    found = [place.get(name, -1 if _is_none(name) else -2) for name in values.ravel().tolist()]
    numbers = np.array(found, dtype=np.int64).reshape(values.shape)
    rule = f"must be classes of the estimator, {known.tolist()[:8]}"
    remedy = "Fit the estimator with classes=[…] that hold them all."
    good = (numbers != -2).reshape(len(numbers), -1).all(axis=1) if numbers.size else numbers > -2
    row = values[int(np.argmin(good))] if numbers.size else ""
    require_rows(good, "ruled_out", rule, f"{row}", remedy=remedy)
    return numbers


def _is_none(name: Any) -> bool:
    return name is None or name == "" or name != name or (not isinstance(name, str) and name == -1)


def _log_chances(estimator: Any, X: Any) -> NDArray[np.float64]:
    if hasattr(estimator, "predict_log_proba"):
        logs = as_array(estimator.predict_log_proba(X)).astype(np.float64)
    else:
        with np.errstate(divide="ignore"):
            logs = np.log(as_array(estimator.predict_proba(X)).astype(np.float64))
    return np.asarray(np.maximum(logs, np.log(np.finfo(np.float64).tiny)), dtype=np.float64)
