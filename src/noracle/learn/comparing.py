"""Which of two models is better, from ruled-out labels alone; or that these labels cannot tell."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import Any, Literal

import numpy as np

from noracle.accuracy.compare import compare_systems
from noracle.bounds.betting import betting_interval, equal_together
from noracle.bounds.linear import ordered
from noracle.bounds.special import ndtri
from noracle.counts.label import Cell, Pattern, pattern
from noracle.counts.tallies import PatternCounts
from noracle.errors import ArgumentError
from noracle.learn.promises import normal_range, own_draws, transition_notes, with_transition
from noracle.learn.scored import (
    Floats,
    Ints,
    RuledOut,
    TransitionLike,
    as_array,
    is_uniform,
    item_scores,
    read_logits,
    read_predicted,
    read_ruled_out,
    read_transition,
    score_table,
)
from noracle.learn.temperature import fit_temperature, item_losses
from noracle.learn.transition import Transition
from noracle.results import (
    Assumption,
    Comparison,
    Difference,
    Guarantee,
    Kind,
    Rank,
    check_confidence,
    choose,
)

Measure = Literal["zero-one", "scel"]
POWER = 0.8
_BETTING = 1.8  # width of a betting interval over that of a normal one
_SCEL = "scel with its sign turned round: larger is better"


def compare_models(
    a: Any,
    b: Any,
    ruled_out: Any,
    *,
    transition: TransitionLike,
    n_classes: int | None = None,
    measure: Measure = "zero-one",
    temperature: float | Literal["fit"] = 1.0,
    names: tuple[str, str] = ("a", "b"),
    interval: Literal["betting", "wald"] | None = None,
    confidence: float = 0.95,
) -> Comparison:
    """Compare two models on the same ruled-out labels, item by item.

    ``zero-one``: d = T⁻¹[ruled out, a] - T⁻¹[ruled out, b], whose mean is the difference of
    accuracies. ``scel``: the loss of b less that of a, so that a positive difference again says
    that a is better. Where the interval holds 0 the verdict is ``not separable``, and
    ``diagnostics["separate"]`` says how many labels would separate models that differ by as much as
    these seem to.

    Parameters
    ----------
    a, b
        Class numbers (-1: no answer) for ``zero-one``; logits for ``scel``.
    ruled_out, transition
        As in :func:`~noracle.learn.validation.estimate_model_accuracy`.
    temperature
        For ``scel``: of both models, or ``"fit"``, each its own on these labels.
    interval
        ``betting`` (finite-sample, valid at every look) or ``wald`` (asymptotic). ``scel`` is
        unbounded and has ``wald`` only. Default ``betting`` where there is one.

    Notes
    -----
    Assumes what :func:`~noracle.learn.validation.estimate_model_accuracy` assumes, and that neither
    model was trained or chosen on these labels.

    References
    ----------
    Ishida et al. (2019), ICML, for the risk; Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27, for
    the bets.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> truth = rng.integers(4, size=3000)
    >>> good, bad = truth, np.where(rng.random(3000) < 0.6, truth, (truth + 1) % 4)
    >>> found = compare_models(good, bad, (truth + rng.integers(1, 4, size=3000)) % 4, transition="uniform", n_classes=4)
    >>> found.difference("a", "b").verdict
    'first'
    """
    check_confidence(confidence)
    choose("measure", measure, ("zero-one", "scel"))
    fits = ("betting", "wald") if measure == "zero-one" else ("wald",)
    if len(names) != 2 or names[0] == names[1]:
        raise ArgumentError(f"names must be two different ones; got {list(names)}.")
    how = choose("interval", interval or fits[0], fits)
    if measure == "scel":
        return _by_loss(a, b, ruled_out, transition, n_classes, temperature, names, confidence)
    values = as_array(ruled_out)
    T = read_transition(
        transition,
        values.shape[1]
        if n_classes is None and values.dtype == bool and values.ndim == 2
        else n_classes,
    )
    labels = read_ruled_out(values, T.n_classes)
    first, second = read_predicted("a", a, labels), read_predicted("b", b, labels)
    if is_uniform(T):
        found = compare_systems(
            _patterns(first, second, labels, names),
            interval=how,  # type: ignore[arg-type]
            confidence=confidence,
        )
        scores = item_scores(first, labels, T) - item_scores(second, labels, T)
        return _finished(found, T, scores[~np.isnan(scores)], measure)
    return _by_scores(first, second, labels, T, names, how, confidence)


def _patterns(a: Ints, b: Ints, labels: RuledOut, names: tuple[str, str]) -> PatternCounts:
    mask = labels.mask()
    m = mask.sum(axis=1)
    rows = np.stack(
        [m, *(np.where(p < 0, -1, mask[np.arange(len(p)), p]) for p in (a, b))], axis=1
    )[m > 0]
    patterns: Counter[Pattern] = Counter()
    if len(rows):
        for (size, *hits), n in zip(
            *(x.tolist() for x in np.unique(rows, axis=0, return_counts=True)), strict=True
        ):
            met = pattern(
                Cell("", labels.n_classes),
                "no",
                [None if h < 0 else bool(h) for h in hits],
                n_ruled_out=size,
            )
            patterns[met] += n
    return PatternCounts(systems=tuple(names), patterns=dict(patterns))


def _by_scores(
    a: Ints,
    b: Ints,
    labels: RuledOut,
    transition: Transition,
    names: tuple[str, str],
    interval: str,
    confidence: float,
) -> Comparison:
    """Any T: scores subtracted item by item; the range of a difference is known from T alone."""
    scores = [item_scores(p, labels, transition) for p in (a, b)]
    keep = ~np.isnan(scores[0])
    values = (scores[0] - scores[1])[keep]
    table = score_table(transition)
    most = float((table.max(axis=1) - table.min(axis=1)).max())
    n, mean, se = _moments(values)
    low, high = -1.0, 1.0
    if interval == "betting" and n:
        rows = equal_together(values, -most, most)
        tail = (1 - confidence) / 2
        limits = ordered(*betting_interval(rows, tail, tail, floor=-1.0), -1.0)
        low, high = limits.low, limits.high
    elif se > 0:
        low, high = (min(max(x, -1.0), 1.0) for x in normal_range(mean, se, 1 - confidence))
    kind, every = (Kind.FINITE_SAMPLE, True) if interval == "betting" else (Kind.ASYMPTOTIC, False)
    guarantee = Guarantee(
        kind=kind,
        error_rate=1 - confidence,
        anytime=every,
        assumptions=(Assumption(name="iid items"),),
    )
    if int(labels.sizes.max(initial=0)) > 1:
        guarantee = own_draws(guarantee, labels, transition)
    difference = Difference(first=names[0], second=names[1], value=mean, low=low, high=high, n=n)
    means = [float(s[keep].mean()) if n else math.nan for s in scores]
    found = _comparison(difference, means, labels, guarantee, interval, confidence, "paired scores")
    return _finished(found, transition, values, "zero-one")


def _by_loss(
    a: Any,
    b: Any,
    ruled_out: Any,
    transition: TransitionLike,
    n_classes: int | None,
    temperature: float | Literal["fit"],
    names: tuple[str, str],
    confidence: float,
) -> Comparison:
    logits = [read_logits(name, z) for name, z in (("a", a), ("b", b))]
    T = read_transition(transition, logits[0].shape[1] if n_classes is None else n_classes)
    labels = read_ruled_out(ruled_out, T.n_classes)
    for name, z in zip(("a", "b"), logits, strict=True):
        read_logits(name, z, labels)
        read_transition(T, z.shape[1])
    keep = labels.sizes > 0
    taus = [_temperature(z, labels, T, temperature) for z in logits]
    losses = [
        item_losses(z, labels, T, temperature=tau)[keep]
        for z, tau in zip(logits, taus, strict=True)
    ]
    values = losses[1] - losses[0]
    n, mean, se = _moments(values)
    low, high = normal_range(mean, se, 1 - confidence)
    guarantee = Guarantee(
        kind=Kind.ASYMPTOTIC, error_rate=1 - confidence, assumptions=(Assumption(name="iid items"),)
    )
    difference = Difference(first=names[0], second=names[1], value=mean, low=low, high=high, n=n)
    means = [-float(x.mean()) if n else math.nan for x in losses]
    found = _comparison(difference, means, labels, guarantee, "wald", confidence, "paired losses")
    notes = [
        _SCEL,
        *(["each temperature was fitted to the same labels"] if temperature == "fit" else []),
    ]
    found = dataclasses.replace(
        found,
        notes=(*found.notes, *notes),
        diagnostics={"temperature": dict(zip(names, taus, strict=True))},
    )
    return _finished(found, T, values, "scel")


def _temperature(
    logits: Floats, labels: RuledOut, transition: Transition, temperature: float | Literal["fit"]
) -> float:
    if temperature != "fit":
        return float(temperature)
    return fit_temperature(logits, labels.said, transition) if labels.sizes.any() else 1.0


def _moments(values: Floats) -> tuple[int, float, float]:
    """Number, mean and standard error; NaN where undefined or zero, for equal differences say
    nothing of their spread.
    """
    n = len(values)
    se = float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return n, float(values.mean()) if n else math.nan, se if se > 0 else math.nan


def _comparison(
    difference: Difference,
    means: list[float],
    labels: RuledOut,
    guarantee: Guarantee,
    interval: str,
    confidence: float,
    method: str,
) -> Comparison:
    """Two systems and what follows from their difference."""
    names = (difference.first, difference.second)
    places = {"first": ((1, 1), (2, 2)), "second": ((2, 2), (1, 1))}.get(
        difference.verdict, ((1, 2), (1, 2))
    )
    ranks = [
        Rank(system=s, best=p[0], worst=p[1], value=v)
        for s, p, v in zip(names, places, means, strict=True)
    ]
    ranks.sort(
        key=lambda r: (r.best, r.worst, math.inf if math.isnan(r.value) else -r.value, r.system)
    )
    open_pair = difference.verdict == "not separable"
    return Comparison(
        systems=names,
        differences=(difference,),
        ranks=tuple(ranks),
        leaders=tuple(r.system for r in ranks if r.best == 1),
        confidence=confidence,
        method=method,
        interval=interval,
        guarantee=guarantee,
        counts={"labelled": int((labels.sizes > 0).sum()), "labels": int(labels.sizes.sum())},
        notes=("1 of 1 pairs cannot be separated with these labels",) if open_pair else (),
        reason=""
        if difference.n
        else "no usable label of an item that all systems were asked about",
    )


def _finished(
    found: Comparison, transition: Transition, values: Floats, measure: str
) -> Comparison:
    (difference,) = found.differences
    separate = _separate(difference, values, found.confidence, found.interval)
    notes = list(found.notes)
    if difference.verdict == "not separable" and not math.isnan(separate["labels"]):
        notes.append(
            f"models that differ by {abs(difference.value):.3g} would be separated by about {separate['labels']:,} labelled items "
            f"(power {POWER:g})"
        )
    return dataclasses.replace(
        found,
        guarantee=with_transition(found.guarantee, transition),
        notes=(*notes, *transition_notes(transition)),
        diagnostics={
            **found.diagnostics,
            "measure": measure,
            "separate": separate,
            "transition": transition.summary(),
        },
    )


def _separate(
    difference: Difference, values: Floats, confidence: float, interval: str
) -> dict[str, Any]:
    """Labelled items that would separate models as far apart as these seem to be, by an interval as
    wide for its standard error as this.

    The difference is itself a guess: :func:`plan_validation` takes one that matters.
    """
    n, mean, se = _moments(values)
    if not n > 1 or math.isnan(se) or mean == 0:
        return {
            "difference": abs(mean),
            "power": POWER,
            "labels": math.nan,
            "reason": "no difference and spread to go by",
        }
    reach = -float(ndtri((1 - confidence) / 2)) * (_BETTING if interval == "betting" else 1.0)
    if difference.low > -1 and difference.high < 1:
        reach = (difference.high - difference.low) / 2 / se
    labels = math.ceil(n * ((reach + float(ndtri(POWER))) * se / mean) ** 2)
    return {"difference": abs(mean), "power": POWER, "labels": labels}
