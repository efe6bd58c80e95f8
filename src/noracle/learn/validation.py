"""Validation of models when nobody says what is right: accuracy and loss from ruled-out labels
alone.

estimate_model_accuracy   unbiased accuracy, with a promise at every n
estimate_scel             how well a model's chances explain the labels
compare_models            is one better, or can these labels not tell?
plan_validation           how many labels would tell
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import Counter
from typing import Any, Literal

import numpy as np

from noracle.accuracy.estimate import VACUOUS, estimate_accuracy
from noracle.accuracy.score import law_of, normal_limits, score
from noracle.bounds import binomial as linear
from noracle.bounds.betting import betting_interval, equal_together
from noracle.bounds.binomial import Limits, ordered
from noracle.counts.tally import AccuracyCounts, Cell, Tally, tally
from noracle.errors import ArgumentError, GuaranteeWarning
from noracle.learn.compare import compare_models, plan_validation, zero_one_standard_error
from noracle.learn.scores import (
    Floats,
    Ints,
    RuledOut,
    TransitionLike,
    as_array,
    fit_temperature,
    is_even,
    is_uniform,
    item_losses,
    item_scores,
    normal_range,
    own_draws,
    read_logits,
    read_predicted,
    read_ruled_out,
    read_transition,
    score_table,
    transition_notes,
    with_transition,
)
from noracle.learn.transition import Transition
from noracle.results import Assumption, Estimate, Guarantee, Kind, Side, check_confidence, tails

__all__ = [
    "compare_models",
    "estimate_model_accuracy",
    "estimate_scel",
    "fit_temperature",
    "plan_validation",
    "zero_one_standard_error",
]

_CAP = 0.95  # share of the money that may be lost on one score
_REACH = 2.5  # one stake serves standard deviations that differ by this factor
_MOST_STAKES = 4
_TINY = 1e-12


def spread_range(
    transition: Transition, scores: Floats, fewest: int = 1, most: int = 1
) -> tuple[float, float]:
    """Smallest and largest standard deviation that the score of an answered item can have, whatever
    answers and truth are.

    Given truth y and answer a one score has mean 1{a = y} and second moment V[y, a] = Σ_k T[y,
    k]·T⁻¹[k, a]²; the mean of s of them has V/s + (1 - 1/s)·1{a = y}. With accuracy A the variance
    is a mean of these less A², concave in A, so that its least value is at an end.
    """
    second = transition.matrix @ scores**2
    right = np.eye(len(second), dtype=bool)
    least = min(float(second[right].min()) / most - 1 / most, float(second[~right].min()) / most)
    greatest = max(
        float(second[right].max()) / fewest + 1 - 1 / fewest, float(second[~right].max()) / fewest
    )
    return math.sqrt(max(least, 0.0)), math.sqrt(greatest)


def fixed_n_limits(
    values: Floats,
    *,
    least: float,
    greatest: float,
    spread: tuple[float, float],
    below: float,
    above: float,
    floor: float = 0.0,
    ceiling: float = 1.0,
) -> Limits:
    """Limits for the mean of independent scores in [least, greatest], whose standard deviation lies
    within ``spread``.

    The promise rests on the range alone; a wrong ``spread`` only makes the interval wider.

    Examples
    --------
    >>> scores = np.repeat([1.0, -3.0], [900, 100])
    >>> limits = fixed_n_limits(scores, least=-3.0, greatest=1.0, spread=(0.8, 2.0), below=0.025, above=0.025)
    >>> round(limits.low, 3), round(limits.high, 3)
    (0.489, 0.697)
    """
    if not len(values):
        return Limits(floor, ceiling)
    unique, n = np.unique(values, return_counts=True)
    weights = n.astype(np.float64)
    low = _limit(unique, least, weights, spread, below, floor, ceiling) if below > 0 else floor
    high = (
        -_limit(-unique, -greatest, weights, spread, above, -ceiling, -floor)
        if above > 0
        else ceiling
    )
    if low >= ceiling or high <= floor:  # every mean is refuted, also the last one
        return (
            Limits(ceiling, ceiling, empty=True)
            if low >= ceiling
            else Limits(floor, floor, empty=True)
        )
    return ordered(low, high, floor, ceiling)


def _stakes(n: float, spread: tuple[float, float], tail: float) -> Floats:
    low, high = max(spread[0], spread[1] / _REACH**_MOST_STAKES), spread[1]
    size = min(_MOST_STAKES, max(1, math.ceil(math.log(high / low) / math.log(_REACH) - 1e-9)))
    spreads = low * (high / low) ** ((np.arange(size) + 0.5) / size)
    found: Floats = math.sqrt(2 * math.log(size / tail) / n) / spreads
    return found


def _limit(
    value: Floats,
    least: float,
    n: Floats,
    spread: tuple[float, float],
    tail: float,
    floor: float,
    ceiling: float,
) -> float:
    """The smallest mean that is not refuted: λ(m)·(x - m), λ(m) = min(λ, cap/(m - least)), falls as
    m rises.
    """
    stakes = _stakes(float(n.sum()), spread, tail)
    goal = math.log(1 / tail)

    def refuted(m: float) -> bool:
        m = max(m, least + _TINY)
        logs = np.log1p(np.multiply.outer(np.minimum(stakes, _CAP / (m - least)), value - m)) @ n
        top = float(logs.max())
        return top + math.log(float(np.exp(logs - top).mean())) >= goal

    if not refuted(floor):
        return floor
    if refuted(ceiling):
        return ceiling
    bad, good = floor, ceiling
    while good - bad > 1e-10:
        middle = (bad + good) / 2
        bad, good = (middle, good) if refuted(middle) else (bad, middle)
    return bad


# ----------------------------------------------------------------------------


Interval = Literal["exact", "fixed-n", "betting", "wald"]
_ALARM = "routing alarm: no accuracy in [0, 1] fits these labels; the labels do not follow the assumed design"


def estimate_model_accuracy(
    predicted: Any,
    ruled_out: Any,
    *,
    transition: TransitionLike,
    n_classes: int | None = None,
    system: str = "model",
    interval: Interval | None = None,
    confidence: float = 0.95,
    side: Side = "two-sided",
) -> Estimate:
    """Estimate the accuracy of a model from ruled-out labels: the unbiased estimate of the zero-one
    risk.

    P(predicted is right) = E[T⁻¹[ruled out, predicted]]. The value is the mean of T⁻¹[ruled out,
    predicted] over the items, one score an item; with uniform labels that is 1 - (K - 1)·(share of
    predictions that are ruled out). It may lie outside [0, 1], the interval may not.

    Parameters
    ----------
    predicted
        Class number of each item; -1 is no answer, which counts as wrong.
    ruled_out
        Class numbers (n,), several an item padded with -1 (n, s), or a mask (n, K). With uniform
        labels several classes of an item are a set drawn without replacement. With another matrix
        each label must be drawn from T on its own, repeats kept; their scores are averaged item by
        item.
    transition
        T[y, k] = P(class k is ruled out | true class y): a matrix, a ``Transition``, or
        ``"uniform"`` with ``n_classes``.
    interval
        ``exact`` (Clopper–Pearson, where the labels are uniform up to a share of noise),
        ``fixed-n`` (any T; bets whose stakes suit the number of labels), ``betting`` (any T; valid
        at every look), ``wald`` (asymptotic). Default ``exact`` where it fits, else ``fixed-n``.

    Raises
    ------
    SingularTransition
        If T cannot be inverted usefully.

    Notes
    -----
    Assumes that items are independent and that, given the true class, the ruled-out class depends
    on nothing else. A matrix that was counted or estimated has an error of its own, which no
    interval here holds: the guarantee then is HEURISTIC.

    References
    ----------
    Ishida et al. (2019), ICML, for the risk; Waudby-Smith and Ramdas (2024) for ``fixed-n``.

    Examples
    --------
    >>> predicted, ruled_out = np.repeat([0, 1], 200), np.tile([2, 3, 1, 2], 100)
    >>> estimate_model_accuracy(predicted, ruled_out, transition="uniform", n_classes=4)
    Estimate(accuracy of 'model': 0.625 [0.5156, 0.7173] at 0.95, exact, finite-sample)
    """
    values = as_array(ruled_out)
    T = read_transition(
        transition,
        values.shape[1]
        if n_classes is None and values.dtype == bool and values.ndim == 2
        else n_classes,
    )
    labels = read_ruled_out(values, T.n_classes)
    answers = read_predicted("predicted", predicted, labels)
    if not is_uniform(T) and int(labels.sizes.max(initial=0)) > 1:
        return _several(
            answers, labels, T, system, _chosen(interval, T, exact=False), confidence, side
        )
    return from_counts(
        _counted(answers, labels, T, system), T, interval=interval, confidence=confidence, side=side
    )


def from_counts(
    counts: AccuracyCounts,
    transition: Transition,
    *,
    interval: Interval | None,
    confidence: float,
    side: Side = "two-sided",
) -> Estimate:
    """The same from counts by class, one label an item (or uniform sets)."""
    counts = dataclasses.replace(
        counts, whole=False
    )  # the items are a sample of those that the model will meet
    chosen = _chosen(interval, transition, exact=is_even(transition))
    if is_uniform(transition) and chosen != "fixed-n":
        estimate = estimate_accuracy(
            counts, method="complementary", interval=chosen, confidence=confidence, side=side
        )
        return _finished(estimate, transition)
    transition.inverse()  # a singular matrix has its own error
    if chosen in ("betting", "wald"):
        return _finished(
            estimate_accuracy(
                counts,
                transition=transition.matrix,
                interval=chosen,
                confidence=confidence,
                side=side,
            ),
            transition,
        )
    with warnings.catch_warnings():  # only its value and counts are taken
        warnings.simplefilter("ignore", GuaranteeWarning)
        base = (
            estimate_accuracy(
                counts, method="complementary", interval="wald", confidence=confidence, side=side
            )
            if is_uniform(transition)
            else estimate_accuracy(
                counts,
                transition=transition.matrix,
                interval="wald",
                confidence=confidence,
                side=side,
            )
        )
    if base.reason or not base.diagnostics["n_labels_used"]:
        return _finished(_with_limits(base, Limits(0.0, 1.0), chosen), transition)
    limits = _even_limits if chosen == "exact" else _score_limits
    return _finished(
        _with_limits(base, limits(counts, transition, *tails(confidence, side)), chosen), transition
    )


def _chosen(interval: str | None, transition: Transition, *, exact: bool) -> Interval:
    fits = ("exact", "fixed-n", "betting", "wald")[0 if exact else 1 :]
    if interval is None:
        return "exact" if exact else "fixed-n"
    if interval not in fits:
        raise ArgumentError(
            f"interval must be one of {', '.join(fits)} for these labels (transition {transition.source}); got {interval!r}."
        )
    return interval  # type: ignore[return-value]


def _counted(
    predicted: Ints, labels: RuledOut, transition: Transition, system: str
) -> AccuracyCounts:
    """Counts by class; for uniform labels by the number of ruled-out classes."""
    k = transition.n_classes
    cell = Cell(system, k)
    tallies: Counter[Tally] = Counter()
    if is_uniform(transition):
        mask = labels.mask()
        rows = np.stack(
            [
                mask.sum(axis=1),
                mask[np.arange(len(labels)), predicted] & (predicted >= 0),
                predicted >= 0,
            ],
            axis=1,
        )
        for (m, hit, answered), n in _numbers(rows[rows[:, 0] > 0]):
            tallies[tally(cell, "no", hit=bool(hit), answered=bool(answered), n_ruled_out=m)] += n
    else:
        for (asked, answer), n in _numbers(
            np.stack([labels.said[:, 0], predicted], axis=1)[labels.said[:, 0] >= 0]
        ):
            met = tally(
                cell,
                "no",
                hit=asked == answer,
                answered=answer >= 0,
                asked=asked,
                answer=None if answer < 0 else answer,
            )
            tallies[met] += n
    with_answer = {cell: int((predicted >= 0).sum())}
    return AccuracyCounts(tallies=dict(tallies), items={cell: len(labels)}, answered=with_answer)


def _numbers(rows: Ints) -> list[tuple[tuple[int, ...], int]]:
    if not len(rows):
        return []
    found, n = np.unique(rows, axis=0, return_counts=True)
    return [(tuple(row), int(times)) for row, times in zip(found.tolist(), n.tolist(), strict=True)]


# ----------------------------------------------------------------------------------------------------------------
# limits


def _even_limits(
    counts: AccuracyCounts, transition: Transition, below: float, above: float
) -> Limits:
    """Clopper–Pearson: the prediction is ruled out with probability ηA + (1 - η)(1 - A)/(K - 1),
    linear in A.
    """
    noise = transition.diagonal_noise
    hits, n = counts.total(answered=True, hit=True), counts.total(answered=True)
    chance = (1 - noise) * law_of("no", transition.n_classes).b  # of a wrong answer to be ruled out
    if noise < chance:
        return linear.exact((linear.Cell(n, n - hits, 1 - chance, chance - noise),), below, above)
    return linear.exact((linear.Cell(n, hits, chance, noise - chance),), below, above)


def _score_limits(
    counts: AccuracyCounts, transition: Transition, below: float, above: float
) -> Limits:
    answered = {t: n for t, n in counts.tallies.items() if t.answered}
    if is_uniform(transition):
        values = np.repeat([score(t) for t in answered], list(answered.values()))
        least = law_of("no", transition.n_classes, min(t.n_ruled_out for t in answered)).low
        return fixed_n_limits(
            values,
            least=least,
            greatest=1.0,
            spread=(0.0, math.sqrt(-least)),
            below=below,
            above=above,
        )
    scores = score_table(transition)[:, :-1]
    values = np.repeat([scores[t.asked, t.answer] for t in answered], list(answered.values()))  # type: ignore[index]
    return _bounded(values, scores, spread_range(transition, scores), below, above)


def _bounded(
    values: Floats, scores: Floats, spread: tuple[float, float], below: float, above: float
) -> Limits:
    return fixed_n_limits(
        values,
        least=float(scores.min()),
        greatest=float(scores.max()),
        spread=spread,
        below=below,
        above=above,
    )


def _with_limits(base: Estimate, limits: Limits, interval: str) -> Estimate:
    """The estimate with other limits, found among the answered items."""
    share = base.diagnostics["answered_share"]
    low, high = share * limits.low, share * limits.high
    notes = [note for note in base.notes if note not in (VACUOUS, _ALARM)]
    diagnostics = {
        name: value for name, value in base.diagnostics.items() if name != "routing_alarm"
    }
    if limits.empty:
        notes.append(_ALARM)
        diagnostics["routing_alarm"] = True
    if low <= 0 and high >= 1:
        notes.append(VACUOUS)
    guarantee = dataclasses.replace(base.guarantee, kind=Kind.FINITE_SAMPLE, anytime=False)
    return dataclasses.replace(
        base,
        low=low,
        high=high,
        interval=interval,
        notes=tuple(notes),
        diagnostics=diagnostics,
        guarantee=guarantee,
    )


def _finished(estimate: Estimate, transition: Transition) -> Estimate:
    """The estimate with the matrix in its promise, its notes and its diagnostics."""
    return dataclasses.replace(
        estimate,
        guarantee=with_transition(estimate.guarantee, transition),
        notes=(*estimate.notes, *transition_notes(transition)),
        diagnostics={**estimate.diagnostics, "transition": transition.summary()},
    )


def _several(
    predicted: Ints,
    labels: RuledOut,
    transition: Transition,
    system: str,
    interval: Interval,
    confidence: float,
    side: Side,
) -> Estimate:
    """Several labels an item, each drawn from T on its own: the mean of an item's scores is one
    score.
    """
    below, above = tails(confidence, side)
    scores = item_scores(predicted, labels, transition)
    answered, labelled = predicted >= 0, labels.sizes > 0
    values, sizes = scores[answered & labelled], labels.sizes[answered & labelled]
    n, share = len(values), float(answered.mean()) if len(answered) else 0.0
    mean = float(values.mean()) if n else math.nan
    variance = float(values.var(ddof=1)) / n if n > 1 else math.nan
    table = score_table(transition)[:, :-1]
    if interval == "wald" or not n:
        limits = normal_limits(mean, variance, below, above)
    elif interval == "betting":
        rows = equal_together(values, float(table.min()), float(table.max()))
        limits = linear.ordered(*betting_interval(rows, below, above))
    else:
        limits = _bounded(
            values,
            table,
            spread_range(transition, table, int(sizes.min()), int(sizes.max())),
            below,
            above,
        )
    if interval == "wald" and not min(mean, 1 - mean) >= 3 * math.sqrt(
        variance if variance >= 0 else math.nan
    ):
        warnings.warn(
            f"interval='wald' is unreliable here (value {mean:.3g}, n = {n}); use interval='fixed-n'.",
            GuaranteeWarning,
            stacklevel=3,
        )
    silent = bool(len(answered)) and not answered.any()
    kind = Kind.ASYMPTOTIC if interval == "wald" else Kind.FINITE_SAMPLE
    assumptions = (
        Assumption(
            name="iid items", detail="labelled items are a random sample of the items asked about"
        ),
    )
    guarantee = Guarantee(
        kind=kind, error_rate=1 - confidence, anytime=interval == "betting", assumptions=assumptions
    )
    base = Estimate(
        quantity="accuracy",
        subject=system,
        value=0.0 if silent else share * mean,
        low=0.0,
        high=1.0,
        confidence=confidence,
        side=side,
        method="scores",
        interval=interval,
        guarantee=guarantee,
        se=share * math.sqrt(variance) if variance >= 0 else math.nan,
        counts={
            "items": len(labels),
            "without_answer": int((~answered).sum()),
            "labelled": int(labelled.sum()),
            "labelled_without_answer": int((labelled & ~answered).sum()),
            "complementary": n,
            "labels": int(labels.sizes.sum()),
        },
        diagnostics={"n_labels_used": int(sizes.sum()), "answered_share": share},
        notes=("the system answered nothing: every item counts as wrong",) if silent else (),
        reason=""
        if n or silent
        else "no usable label of an answered item"
        if len(labels)
        else "no items",
    )
    found = dataclasses.replace(
        _with_limits(base, limits, interval), guarantee=own_draws(guarantee, labels, transition)
    )
    return _finished(found, transition)


# ------------------------------------------------------------------------------------------------------------------
# scel


def estimate_scel(
    logits: Any,
    ruled_out: Any,
    *,
    transition: TransitionLike,
    temperature: float | Literal["fit"] = 1.0,
    system: str = "model",
    confidence: float = 0.95,
) -> Estimate:
    """Estimate how badly a model's chances explain the ruled-out labels: the mean of -log (Tᵀp)_ȳ,
    p = softmax(z/τ). Smaller is better.

    It never inverts T, so noisy labels cost less than in the accuracy, and it is least for the true
    chances. It is no accuracy: models with other losses give chances that are too bold or too shy,
    and a fitted temperature makes them comparable.

    Parameters
    ----------
    logits
        One row an item, one column a class; the logarithm of chances will do.
    ruled_out
        As in :func:`estimate_model_accuracy`. The loss of an item is the mean over its labels;
        items without one are left out.
    temperature
        τ > 0, or ``"fit"``: the best one for these same labels (see :func:`fit_temperature`).

    Notes
    -----
    The loss is unbounded, so there is no finite-sample interval: Wald, ASYMPTOTIC, from 0 upwards.
    A temperature that was fitted to the same labels makes the value a little too small, by about
    1/(2n).

    Assumes independent items, a T that is that of the labels, and a model that was not trained on
    these labels.

    References
    ----------
    Lin and Lin (2023), "Reduction from complementary-label learning to probability estimates".

    Examples
    --------
    >>> z = np.log([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    >>> round(estimate_scel(z, [1, 2, 0], transition="uniform").value, 4)
    0.8823
    """
    check_confidence(confidence)
    z = read_logits("logits", logits)
    T = read_transition(transition, z.shape[1])
    labels = read_ruled_out(ruled_out, T.n_classes)
    z = read_logits("logits", z, labels)
    fitted = temperature == "fit"
    labelled = labels.sizes > 0
    tau = (
        1.0
        if fitted and not labelled.any()
        else fit_temperature(z, labels.said, T)
        if temperature == "fit"
        else float(temperature)
    )
    losses = item_losses(z, labels, T, temperature=tau)[labelled]
    n = len(losses)
    mean, se = (
        float(losses.mean()) if n else math.nan,
        float(losses.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan,
    )
    low, high = normal_range(mean, se, 1 - confidence)
    kind = Kind.ASYMPTOTIC if n > 1 else Kind.HEURISTIC
    guarantee = Guarantee(
        kind=kind, error_rate=1 - confidence, assumptions=(Assumption(name="iid items"),)
    )
    notes = (
        [
            f"the temperature {tau:.4g} was fitted to the same labels: the value is slightly too small"
        ]
        if fitted and n
        else []
    )
    if 1 < n < 30:
        notes.append(f"only {n} labelled items: a normal interval needs 30 or more")
    return _finished(
        Estimate(
            quantity="scel",
            subject=system,
            value=mean,
            low=max(0.0, low),
            high=high,
            confidence=confidence,
            method="scel",
            interval="wald",
            guarantee=guarantee,
            se=se,
            counts={
                "items": len(labels),
                "labelled": n,
                "complementary": n,
                "labels": int(labels.sizes.sum()),
            },
            diagnostics={
                "temperature": tau,
                "temperature_fitted": fitted,
                "n_labels_used": int(labels.sizes.sum()),
            },
            notes=tuple(notes),
            reason="no labels"
            if not n
            else "one labelled item has no standard error"
            if n < 2
            else "",
        ),
        T,
    )
