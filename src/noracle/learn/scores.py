"""What validation sees: answers and ruled-out labels, one unbiased score of correctness for each,
what results rest on, and the temperature of a model.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.accuracy.score import law_of, transition_scores
from noracle.bounds.binomial import betainc, ndtri
from noracle.errors import ArgumentError, EvidenceError, MissingExtra, fault
from noracle.learn.transition import Transition
from noracle.results import Assumption, Check, Guarantee, Kind

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


# ----------------------------------------------------------------------------
# What results of validation rest on: the transition matrix, and how labels were drawn from it.


_OWN = "labels of an item are drawn from T on their own"
_KNOWN, _RIGHT = "known transition matrix", "right verdicts"


def with_transition(guarantee: Guarantee, transition: Transition) -> Guarantee:
    """The promise with what is known of T; a matrix that was counted or estimated promises nothing,
    because its own error is left out.
    """
    rests = [
        a
        for a in guarantee.assumptions
        if a.name not in (_KNOWN, *(() if is_uniform(transition) else (_RIGHT,)))
    ]
    if (
        not is_uniform(transition)
        or is_learnt(transition)
        or not any(a.name == "uniform routing" for a in rests)
    ):
        seen = ", true labels were seen (oracle)" if transition.oracle else ""
        detail = f"{transition.source}{seen}; given the truth, the ruled-out class depends on nothing else"
        rests.insert(1, Assumption(name=_KNOWN, detail=detail))
    kind = Kind.HEURISTIC if is_learnt(transition) else guarantee.kind
    return dataclasses.replace(guarantee, kind=kind, assumptions=tuple(rests))


def transition_notes(transition: Transition) -> tuple[str, ...]:
    """What a reader must know of T."""
    notes = []
    if transition.oracle:
        notes.append("oracle: the transition matrix was made with true labels")
    if is_learnt(transition):
        notes.append(
            f"the transition matrix is an estimate ({transition.source}); its error is not in the interval"
        )
    return tuple(notes)


def independent_draws(labels: RuledOut, transition: Transition) -> Check:
    """Whether labels of an item repeat as often as draws from T must: at least with chance min_y
    Σ_k T[y, k]² for a pair.

    Labels drawn without replacement do not follow T, and no score is unbiased for them. One pair an
    item, exact binomial.

    Examples
    --------
    >>> import numpy as np
    >>> labels = RuledOut(said=np.array([[0, 1]] * 200), n_classes=3)
    >>> independent_draws(labels, Transition.noisy(3, 0.1)).p_value < 1e-20
    True
    """
    said = labels.said
    pairs = said[labels.sizes > 1]
    packed = np.take_along_axis(
        pairs, np.argsort(pairs < 0, axis=1, kind="stable"), axis=1
    )  # labels first, in their order
    n = len(packed)
    repeats = int((packed[:, 0] == packed[:, 1]).sum()) if n else 0
    chance = float((transition.matrix**2).sum(axis=1).min())
    p_value = (
        math.nan
        if not n
        else 1.0
        if repeats >= n
        else float(1 - betainc(repeats + 1, n - repeats, min(chance, 1.0)))
    )
    finding = f"{repeats} of {n} first pairs of labels repeat; independent draws from T repeat with chance {chance:.3g} or more"
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
    """The promise for several labels an item: it rests on independent draws, and falls where the
    labels refute them.
    """
    rests = dataclasses.replace(
        guarantee,
        assumptions=(*guarantee.assumptions, Assumption(name=_OWN, detail="with replacement")),
    )
    return rests.given(independent_draws(labels, transition))


def normal_range(mean: float, se: float, error: float) -> tuple[float, float]:
    """Two-sided normal limits without ends; NaN without a standard error."""
    z = -float(ndtri(error / 2))
    return mean - z * se, mean + z * se


# ---------------------------------------------------------------------------- How well a model's
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
            z = torch.tensor(logits[start : start + block], dtype=torch.float64)
            for column in labels.said[start : start + block].T:
                if (column >= 0).any():  # label by label, so that repeats count
                    total[start : start + block] += scel(
                        z, label_mask(torch.tensor(column), k), context, temperature=temperature
                    ).numpy()
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
        One row an item, one column a class.
    ruled_out
        Class numbers, one an item or several padded with -1, or a mask.
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
    z = read_logits("logits", logits)
    T = read_transition(transition, z.shape[1])
    labels = read_ruled_out(ruled_out, z.shape[1])
    z = read_logits("logits", z, labels)
    keep = labels.sizes > 0
    if not keep.any():
        raise EvidenceError(fault("ruled_out", "must have a label to fit a temperature to", "none"))
    return _best(z[keep], RuledOut(said=labels.said[keep], n_classes=labels.n_classes), T)


def _best(z: Floats, labels: RuledOut, transition: Transition) -> float:
    from scipy.optimize import minimize_scalar

    spread = float(np.sqrt(z.var(axis=1).mean()))
    if spread <= 0:
        return 1.0  # equal logits: every temperature says the same

    def loss(log_temperature: float) -> float:
        return float(
            item_losses(
                z / spread, labels, transition, temperature=math.exp(log_temperature)
            ).mean()
        )

    grid = np.linspace(-_REACH, _REACH, _STEPS)
    found = [loss(x) for x in grid.tolist()]
    place = int(np.argmin(found))
    low, high = grid[max(0, place - 1)], grid[min(_STEPS - 1, place + 1)]
    refined = minimize_scalar(
        loss, bounds=(float(low), float(high)), method="bounded", options={"xatol": 1e-4}
    )
    best = float(refined.x) if refined.fun < found[place] else float(grid[place])
    return spread * math.exp(best)
