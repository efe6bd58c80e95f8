"""Unbiased scores of answers and ruled-out labels, what results rest on, and temperatures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.accuracy.score import law_of, transition_scores
from noracle.bounds.binomial import betainc, ndtri
from noracle.errors import ArgumentError, MissingExtra, require, require_evidence, require_rows
from noracle.learn.transition import Transition, padded_classes, require_class_left, require_classes
from noracle.results import Assumption, Check, Comparison, Estimate, Guarantee, Kind

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
TransitionLike = Transition | ArrayLike | Literal["uniform"]

Judged = TypeVar("Judged", Estimate, Comparison)


def as_array(values: Any) -> NDArray[Any]:
    """An array of numpy; tensors leave their device, and floats become 64 bits."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = (values.double() if values.is_floating_point() else values).numpy()
    return np.asarray(values)


def read_transition(transition: TransitionLike, n_classes: int | None) -> Transition:
    """A checked matrix; ``"uniform"`` needs the number of classes."""
    if isinstance(transition, str):
        rule = "transition must be 'uniform', a matrix or a Transition"
        require(transition == "uniform", f"{rule}; got {transition!r}.")
        if n_classes is None:
            raise ArgumentError("n_classes must be given with transition='uniform'; got None.")
        return Transition.uniform(n_classes)
    found = transition
    if not isinstance(found, Transition):
        found = Transition(np.asarray(transition, dtype=np.float64))
    rule = f"transition must have one row for each of the {n_classes} classes"
    require(n_classes in (None, found.n_classes), f"{rule}; got {found.n_classes} rows.")
    return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RuledOut:
    """Ruled-out classes (n, s), padded with -1; ``masked``: repeats could not be told."""

    said: Ints
    n_classes: int
    masked: bool = False

    @property
    def sizes(self) -> Ints:
        """Labels of each item, repeats counted."""
        return np.asarray((self.said >= 0).sum(axis=1), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.said)

    def read_predicted(self, name: str, predicted: Any) -> Ints:
        """Class numbers, -1 for no answer, one for each item."""
        values = as_array(predicted)
        rule = f"must have one class for each of the {len(self)} items of ruled_out"
        require_evidence(values.shape == (len(self),), name, rule, f"shape {values.shape}")
        return _whole(name, values, self.n_classes)

    def mask(self) -> NDArray[np.bool_]:
        """Which classes are ruled out, (n, K); an item for which all are contradicts itself."""
        wide = np.zeros((len(self.said), self.n_classes + 1), dtype=bool)
        np.put_along_axis(wide, np.where(self.said < 0, self.n_classes, self.said), True, axis=1)
        require_class_left(wide[:, :-1])
        return wide[:, :-1]


def read_ruled_out(ruled_out: Any, n_classes: int) -> RuledOut:
    """Class numbers (n,), several padded with -1 (n, s), or a mask (n, K)."""
    values = as_array(ruled_out)
    came = f"shape {values.shape}"
    if values.dtype == bool:
        ok, rule = values.shape[1:] == (n_classes,), f"must be a mask of {n_classes} columns"
        require_evidence(ok, "ruled_out", rule, came)
        said = padded_classes(values)
        return RuledOut(said=said, n_classes=n_classes, masked=said.shape[1] > 1)
    require_evidence(values.ndim in (1, 2), "ruled_out", "must have one row per item", came)
    width = -1 if values.size else max(1, values.shape[-1])
    said = _whole("ruled_out", values, n_classes).reshape(len(values), width)
    return RuledOut(said=said, n_classes=n_classes)


def read_labels_of(
    ruled_out: Any, transition: TransitionLike, n_classes: int | None
) -> tuple[RuledOut, Transition]:
    """Labels and their T; the columns of a mask tell K where nobody said it."""
    values = as_array(ruled_out)
    if n_classes is None and values.dtype == bool and values.ndim == 2:
        n_classes = int(values.shape[1])
    T = read_transition(transition, n_classes)
    return read_ruled_out(values, T.n_classes), T


def read_logits(name: str, logits: Any, labels: RuledOut | None = None) -> Floats:
    """Finite numbers (n, K)."""
    values = as_array(logits)
    rule = "must have one row per item and one column per class"
    ok = values.ndim == 2 and values.shape[1] > 1
    require_evidence(ok, name, rule, f"shape {values.shape}")
    if labels is not None:
        rule = f"must have one row for each of the {len(labels)} items of ruled_out"
        require_evidence(len(values) == len(labels), name, rule, f"{len(values)} rows")
    found: Floats = np.asarray(values, dtype=np.float64)
    require_rows(np.isfinite(found).all(axis=1), name, "must be finite", found)
    return found


def _whole(name: str, values: NDArray[Any], n_classes: int) -> Ints:
    if values.size:
        rule = "must be whole class numbers (-1: none)"
        require_evidence(values.dtype.kind in "iu", name, rule, f"values of type {values.dtype}")
        require_classes(name, values, n_classes)
    return np.asarray(values, dtype=np.int64)


def row_counts(rows: Ints) -> list[tuple[tuple[int, ...], int]]:
    """Every different row, in order, and how often it occurs."""
    if not len(rows):
        return []
    found, n = np.unique(rows, axis=0, return_counts=True)
    return [(tuple(row), times) for row, times in zip(found.tolist(), n.tolist(), strict=True)]


def score_table(transition: Transition) -> Floats:
    """T⁻¹[ruled out, answer], or an error, with a last column of zeros for no answer (-1)."""
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
    if transition.is_uniform:
        mask = labels.mask()
        m = mask.sum(axis=1)
        k = transition.n_classes
        hit = mask[np.arange(len(labels)), predicted] & (predicted >= 0)
        by_size = np.array([law_of("no", k, max(1, s)).low for s in range(k)])
        scores = np.where(predicted < 0, 0.0, np.where(hit, by_size[m], 1.0))
        return np.where(labelled, scores, np.nan)
    # A set does not say which classes were drawn twice, so T does not describe it.
    rule = "ruled_out must have one column for each label where"
    other = "the transition matrix is not uniform, repeats kept"
    came = "a mask with several classes of an item"
    remedy = "Pass class numbers padded with -1, or one label per item."
    require(not labels.masked, f"{rule} {other}; got {came}. {remedy}")
    each = score_table(transition)[labels.said, predicted[:, None]]
    total = np.where(labels.said >= 0, each, 0.0).sum(axis=1)
    return np.where(labelled, total / np.maximum(labels.sizes, 1), np.nan)


# What results of validation rest on: the transition matrix, and how labels were drawn from it.

_OWN = "labels of an item are drawn from T on their own"
_KNOWN, _RIGHT = "known transition matrix", "right verdicts"


def with_transition(guarantee: Guarantee, transition: Transition) -> Guarantee:
    """The promise with what is known of T; a T out of data has an error and promises nothing."""
    uniform, learnt = transition.is_uniform, transition.is_learnt
    gone = (_KNOWN,) if uniform else (_KNOWN, _RIGHT)
    rests = [a for a in guarantee.assumptions if a.name not in gone]
    if not uniform or learnt or not any(a.name == "uniform routing" for a in rests):
        seen = ", true labels were seen (oracle)" if transition.oracle else ""
        given = "given the truth, the ruled-out class depends on nothing else"
        rests.insert(1, Assumption(name=_KNOWN, detail=f"{transition.source}{seen}; {given}"))
    kind = Kind.HEURISTIC if learnt else guarantee.kind
    return dataclasses.replace(guarantee, kind=kind, assumptions=tuple(rests))


def transition_notes(transition: Transition) -> tuple[str, ...]:
    """What a reader must know of T."""
    estimated = f"the transition matrix is an estimate ({transition.source})"
    notes = {
        "oracle: the transition matrix was made with true labels": transition.oracle,
        f"{estimated}; its error is not in the interval": transition.is_learnt,
    }
    return tuple(note for note, said in notes.items() if said)


def rest_on(result: Judged, transition: Transition, **diagnostics: Any) -> Judged:
    """The result with the matrix in its promise, its notes and its diagnostics."""
    return dataclasses.replace(
        result,
        guarantee=with_transition(result.guarantee, transition),
        notes=(*result.notes, *transition_notes(transition)),
        diagnostics={**result.diagnostics, **diagnostics, "transition": transition.summary()},
    )


def independent_draws(labels: RuledOut, transition: Transition) -> Check:
    """Whether labels of an item repeat as often as draws from T must: at least with chance min_y
    Σ_k T[y, k]² for a pair.

    Labels drawn without replacement do not follow T, and no score is unbiased for them. One pair per
    item, exact binomial.

    Examples
    --------
    >>> labels = RuledOut(said=np.array([[0, 1]] * 200), n_classes=3)
    >>> independent_draws(labels, Transition.noisy(3, 0.1)).p_value < 1e-20
    True
    """
    pairs = labels.said[labels.sizes > 1]
    first = np.argsort(pairs < 0, axis=1, kind="stable")  # labels first, in their order
    packed = np.take_along_axis(pairs, first, axis=1)
    n = len(packed)
    repeats = int((packed[:, 0] == packed[:, 1]).sum()) if n else 0
    chance = float((transition.matrix**2).sum(axis=1).min())
    p_value = 1.0 if n else math.nan
    if repeats < n:
        p_value = float(1 - betainc(repeats + 1, n - repeats, min(chance, 1.0)))
    finding = f"{repeats} of {n} first pairs of labels repeat; "
    finding += f"independent draws from T repeat with chance {chance:.3g} or more"
    return Check(
        name="independent draws",
        assumption=_OWN,
        p_value=p_value,
        statistic=float(repeats),
        finding=finding,
        method="exact binomial",
        refutes_only=True,
        reason="" if n else "no item has two labels",
    )


def own_draws(guarantee: Guarantee, labels: RuledOut, transition: Transition) -> Guarantee:
    """The promise for several labels per item, which falls where they refute independent draws."""
    own = Assumption(name=_OWN, detail="with replacement")
    rests = dataclasses.replace(guarantee, assumptions=(*guarantee.assumptions, own))
    return rests.given(independent_draws(labels, transition))


def normal_range(mean: float, se: float, error: float) -> tuple[float, float]:
    """Two-sided normal limits without ends; NaN without a standard error."""
    z = -float(ndtri(error / 2))
    return mean - z * se, mean + z * se


# How well a model's
# chances explain the ruled-out labels, and the temperature that explains them best.

_CELLS = 4_000_000  # numbers in memory at a time
_REACH, _STEPS = 6.0, 13
"""The search spans e^-6 … e^6 times the spread of the logits, first in this many steps: the mean
loss need not be convex.
"""


def item_losses(
    logits: Floats, labels: RuledOut, transition: Transition, *, temperature: float = 1.0
) -> Floats:
    """-log (Tᵀp)_ȳ of each item, the mean over its labels; NaN without a label."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("the loss of a model's chances", "torch", "learn") from None
    from noracle.learn.losses import get_loss, label_mask, scel

    n, k = logits.shape
    context = get_loss("fwd").make_context(transition, dtype=torch.float64)
    total = np.zeros(n)
    block = max(1, _CELLS // k**2)
    with torch.no_grad():
        for start in range(0, n, block):
            part = slice(start, start + block)
            z = torch.tensor(logits[part], dtype=torch.float64)
            for column in labels.said[part].T:
                if (column >= 0).any():  # label by label, so that repeats count
                    mask = label_mask(torch.tensor(column), k)
                    total[part] += scel(z, mask, context, temperature=temperature).numpy()
    return np.where(labels.sizes > 0, total / np.maximum(labels.sizes, 1), np.nan)


def fit_temperature(logits: Any, ruled_out: Any, transition: TransitionLike = "uniform") -> float:
    """The temperature τ with the smallest mean of -log (Tᵀ softmax(z/τ))_ȳ on these labels.

    Scales the logits of a model that is right more or less often than it says; its answers stay as
    they are. Only ruled-out labels are needed. Multiplying the logits by a number multiplies τ by
    it. Where no temperature is best (useless logits ask for an ever larger τ, perfect ones for an
    ever smaller) the result is the end of the search, e^±6 times the spread of the logits.

    Parameters
    ----------
    logits
        One row per item, one column per class.
    ruled_out
        Class numbers, one per item or several padded with -1, or a mask.
    transition
        T[y, k] = P(class k is ruled out | true class y): a matrix, a ``Transition`` or
        ``"uniform"``.

    References
    ----------
    Guo et al. (2017), ICML, for ordinary labels.

    Examples
    --------
    >>> z = np.array([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0], [9.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    >>> round(fit_temperature(z, [1, 2, 0, 0, 2]), 2)
    8.19
    """
    from scipy.optimize import minimize_scalar

    z = read_logits("logits", logits)
    T = read_transition(transition, z.shape[1])
    labels = read_ruled_out(ruled_out, z.shape[1])
    z = read_logits("logits", z, labels)
    keep = labels.sizes > 0
    rule = "must have a label to fit a temperature to"
    require_evidence(keep.any(), "ruled_out", rule, "none")
    z, labels = z[keep], dataclasses.replace(labels, said=labels.said[keep])
    spread = float(np.sqrt(z.var(axis=1).mean()))
    if spread <= 0:
        return 1.0  # equal logits: every temperature says the same

    def loss(log_temperature: float) -> float:
        tau = math.exp(log_temperature)
        return float(item_losses(z / spread, labels, T, temperature=tau).mean())

    grid = np.linspace(-_REACH, _REACH, _STEPS)
    found = [loss(x) for x in grid.tolist()]
    place = int(np.argmin(found))
    bounds = float(grid[max(0, place - 1)]), float(grid[min(_STEPS - 1, place + 1)])
    refined = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-4})
    best = float(refined.x) if refined.fun < found[place] else float(grid[place])
    return spread * math.exp(best)


def chosen_temperature(
    z: Floats, labels: RuledOut, transition: Transition, temperature: float | Literal["fit"]
) -> float:
    """The temperature as given, or the best for these labels; 1 where there is none to fit it to."""
    if temperature != "fit":
        return float(temperature)
    return fit_temperature(z, labels.said, transition) if labels.sizes.any() else 1.0


# Scorers for scikit-learn's searches: what these call y is what items are *not*.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RuledOutScorer:
    """(estimator, X, ruled_out) → number, larger is better, for searches of scikit-learn."""

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
            predicted = labels.read_predicted("predicted", answers)
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
    made = zero_one_scorer(transition, classes=classes)
    return dataclasses.replace(made, measure="scel", temperature=temperature)


def class_numbers(names: Any, known: NDArray[Any]) -> NDArray[Any]:
    """The places of class names; a mask stays, and -1, "", None and NaN are no label."""
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
