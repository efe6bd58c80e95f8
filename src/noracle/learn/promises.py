"""What results of validation rest on: the transition matrix, and how labels were drawn from it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from noracle.bounds.special import betainc, ndtri
from noracle.learn.scored import RuledOut, is_learnt, is_uniform
from noracle.learn.transition import Transition
from noracle.results import Assumption, Check, Guarantee, Kind

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
