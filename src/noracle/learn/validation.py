"""Accuracy and loss of models from ruled-out labels alone."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import Counter
from typing import Any, Literal, get_args

import numpy as np

from noracle.accuracy.estimate import VACUOUS, estimate_accuracy
from noracle.accuracy.score import law_of, normal_limits, score
from noracle.bounds import binomial as linear
from noracle.bounds.betting import betting_interval, equal_together
from noracle.bounds.binomial import Limits, ordered
from noracle.counts.tally import AccuracyCounts, Cell, Tally, tally
from noracle.errors import GuaranteeWarning, require
from noracle.learn.scores import (
    Floats,
    Ints,
    RuledOut,
    TransitionLike,
    chosen_temperature,
    item_losses,
    item_scores,
    normal_range,
    own_draws,
    read_labels_of,
    read_logits,
    read_ruled_out,
    read_transition,
    rest_on,
    row_counts,
    score_table,
)
from noracle.learn.transition import Transition
from noracle.results import Assumption, Estimate, Guarantee, Kind, Side, check_confidence, tails

_CAP = 0.95  # share of the money that may be lost on one score
_REACH = 2.5  # one stake serves standard deviations that differ by this factor
_MOST_STAKES = 4
_TINY = 1e-12
Spread = tuple[float, float]
"""The smallest and the largest standard deviation of a score."""


def spread_range(T: Transition, scores: Floats, fewest: int = 1, most: int = 1) -> Spread:
    """Smallest and largest standard deviation that the score of an answered item can have, whatever
    answers and truth are.

    Given truth y and answer a one score has mean 1{a = y} and second moment V[y, a] = Σ_k T[y,
    k]·T⁻¹[k, a]²; the mean of s of them has V/s + (1 - 1/s)·1{a = y}. With accuracy A the variance
    is a mean of these less A², concave in A, so that its least value is at an end.
    """
    second = T.matrix @ scores**2
    own = np.eye(len(second), dtype=bool)
    right, wrong = second[own], second[~own]
    least = min(float(right.min()) - 1, float(wrong.min())) / most
    greatest = max(float(right.max()) / fewest + 1 - 1 / fewest, float(wrong.max()) / fewest)
    return math.sqrt(max(least, 0.0)), math.sqrt(greatest)


def fixed_n_limits(
    values: Floats,
    *,
    least: float,
    greatest: float,
    spread: Spread,
    below: float,
    above: float,
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
        return Limits(0.0, 1.0)
    unique, times = np.unique(values, return_counts=True)
    n = times.astype(np.float64)

    def limit(value: Floats, least: float, tail: float, floor: float) -> float:
        """The smallest mean that is not refuted, from ``floor`` to ``floor + 1``."""
        stakes = _stakes(float(n.sum()), spread, tail)

        def refuted(m: float) -> bool:
            m = max(m, least + _TINY)
            most = np.minimum(stakes, _CAP / (m - least))
            logs = np.log1p(np.multiply.outer(most, value - m)) @ n
            top = float(logs.max())
            return top + math.log(float(np.exp(logs - top).mean())) >= math.log(1 / tail)

        bad, good = floor, floor + 1
        if not refuted(bad):
            return bad
        if refuted(good):
            return good
        while good - bad > 1e-10:
            middle = (bad + good) / 2
            bad, good = (middle, good) if refuted(middle) else (bad, middle)
        return bad

    low = limit(unique, least, below, 0.0) if below > 0 else 0.0
    high = -limit(-unique, -greatest, above, -1.0) if above > 0 else 1.0
    if low >= 1 or high <= 0:  # every mean is refuted, also the last one
        last = 1.0 if low >= 1 else 0.0
        return Limits(last, last, empty=True)
    return ordered(low, high, 0.0, 1.0)


def _stakes(n: float, spread: Spread, tail: float) -> Floats:
    low, high = max(spread[0], spread[1] / _REACH**_MOST_STAKES), spread[1]
    size = min(_MOST_STAKES, max(1, math.ceil(math.log(high / low) / math.log(_REACH) - 1e-9)))
    spreads = low * (high / low) ** ((np.arange(size) + 0.5) / size)
    found: Floats = math.sqrt(2 * math.log(size / tail) / n) / spreads
    return found


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
    predicted] over the items, one score per item; with uniform labels that is 1 - (K - 1)·(share of
    predictions that are ruled out). It may lie outside [0, 1], the interval may not.

    Parameters
    ----------
    predicted
        Class number of each item; -1 is no answer, which counts as wrong.
    ruled_out
        Class numbers (n,), several per item padded with -1 (n, s), or a mask (n, K). With uniform
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
    labels, T = read_labels_of(ruled_out, transition, n_classes)
    answers = labels.read_predicted("predicted", predicted)
    if not T.is_uniform and int(labels.sizes.max(initial=0)) > 1:
        chosen = _chosen(interval, T, exact=False)
        return _several(answers, labels, T, system, chosen, confidence, side)
    counts = _counted(answers, labels, T, system)
    return from_counts(counts, T, interval=interval, confidence=confidence, side=side)


def from_counts(
    counts: AccuracyCounts,
    transition: Transition,
    *,
    interval: Interval | None,
    confidence: float,
    side: Side = "two-sided",
) -> Estimate:
    """The same from counts by class, one label per item (or uniform sets)."""
    # The items are a sample of those that the model will meet.
    counts = dataclasses.replace(counts, whole=False)
    chosen = _chosen(interval, transition, exact=transition.is_even)
    uniform = transition.is_uniform
    how: dict[str, Any] = {"confidence": confidence, "side": side}
    how |= {"method": "complementary"} if uniform else {"transition": transition.matrix}
    if not uniform or chosen == "fixed-n":
        transition.inverse()  # a singular matrix has its own error
    if chosen in ("betting", "wald") or (uniform and chosen == "exact"):
        return rest_on(estimate_accuracy(counts, interval=chosen, **how), transition)
    with warnings.catch_warnings():  # only its value and counts are taken
        warnings.simplefilter("ignore", GuaranteeWarning)
        base = estimate_accuracy(counts, interval="wald", **how)
    limits = Limits(0.0, 1.0)
    if not base.reason and base.diagnostics["n_labels_used"]:
        found = _even_limits if chosen == "exact" else _score_limits
        limits = found(counts, transition, *tails(confidence, side))
    return rest_on(_with_limits(base, limits, chosen), transition)


def _chosen(interval: str | None, transition: Transition, *, exact: bool) -> Interval:
    fits = get_args(Interval)[0 if exact else 1 :]
    rule = f"interval must be one of {', '.join(fits)} for these labels"
    chosen = interval or fits[0]
    require(chosen in fits, f"{rule} (transition {transition.source}); got {interval!r}.")
    return chosen  # type: ignore[return-value]


def _counted(predicted: Ints, labels: RuledOut, T: Transition, system: str) -> AccuracyCounts:
    """Counts by class; for uniform labels by the number of ruled-out classes."""
    cell, answered = Cell(system, T.n_classes), predicted >= 0
    tallies: Counter[Tally] = Counter()
    if T.is_uniform:
        mask = labels.mask()
        hit = mask[np.arange(len(labels)), predicted] & answered
        rows = np.stack([mask.sum(axis=1), hit, answered], axis=1)
        for (m, hits, said), n in row_counts(rows[rows[:, 0] > 0]):
            tallies[tally(cell, "no", hit=bool(hits), answered=bool(said), n_ruled_out=m)] += n
    else:
        rows = np.stack([labels.said[:, 0], predicted], axis=1)
        for (asked, answer), n in row_counts(rows[rows[:, 0] >= 0]):
            given = None if answer < 0 else answer
            right: dict[str, Any] = {"hit": asked == answer, "answered": answer >= 0}
            tallies[tally(cell, "no", asked=asked, answer=given, **right)] += n
    with_answer = {cell: int(answered.sum())}
    return AccuracyCounts(tallies=dict(tallies), items={cell: len(labels)}, answered=with_answer)


def _even_limits(counts: AccuracyCounts, T: Transition, below: float, above: float) -> Limits:
    """Clopper–Pearson."""
    noise = T.diagonal_noise
    hits, n = counts.total(answered=True, hit=True), counts.total(answered=True)
    chance = (1 - noise) * law_of("no", T.n_classes).b  # of a wrong answer to be ruled out
    fewer = noise < chance
    cell = (n, n - hits, 1 - chance, chance - noise) if fewer else (n, hits, chance, noise - chance)
    return linear.exact((linear.BinomialCell(*cell),), below, above)


def _score_limits(counts: AccuracyCounts, T: Transition, below: float, above: float) -> Limits:
    answered = {t: n for t, n in counts.tallies.items() if t.answered}
    times = list(answered.values())
    if T.is_uniform:
        values = np.repeat([score(t) for t in answered], times)
        least = law_of("no", T.n_classes, min(t.n_ruled_out for t in answered)).low
        spread = (0.0, math.sqrt(-least))
        ends: dict[str, Any] = {"least": least, "greatest": 1.0, "spread": spread}
        return fixed_n_limits(values, **ends, below=below, above=above)
    scores = score_table(T)[:, :-1]
    values = np.repeat([scores[t.asked, t.answer] for t in answered], times)  # type: ignore[index]
    return _bounded(values, scores, spread_range(T, scores), below, above)


def _bounded(values: Floats, scores: Floats, spread: Spread, below: float, above: float) -> Limits:
    ends: dict[str, Any] = {"least": float(scores.min()), "greatest": float(scores.max())}
    return fixed_n_limits(values, **ends, spread=spread, below=below, above=above)


def _with_limits(base: Estimate, limits: Limits, interval: str) -> Estimate:
    """The estimate with other limits, found among the answered items."""
    share = base.diagnostics["answered_share"]
    low, high = share * limits.low, share * limits.high
    notes = [note for note in base.notes if note not in (VACUOUS, _ALARM)]
    diagnostics = {k: v for k, v in base.diagnostics.items() if k != "routing_alarm"}
    if limits.empty:
        notes.append(_ALARM)
        diagnostics["routing_alarm"] = True
    if low <= 0 and high >= 1:
        notes.append(VACUOUS)
    guarantee = dataclasses.replace(base.guarantee, kind=Kind.FINITE_SAMPLE, anytime=False)
    said: dict[str, Any] = {"notes": tuple(notes), "diagnostics": diagnostics}
    found: dict[str, Any] = {"low": low, "high": high, "interval": interval}
    return dataclasses.replace(base, guarantee=guarantee, **found, **said)


def _several(
    predicted: Ints,
    labels: RuledOut,
    transition: Transition,
    system: str,
    interval: Interval,
    confidence: float,
    side: Side,
) -> Estimate:
    """Several labels per item, each drawn from T on its own."""
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
        spread = spread_range(transition, table, int(sizes.min()), int(sizes.max()))
        limits = _bounded(values, table, spread, below, above)
    se = math.sqrt(variance) if variance >= 0 else math.nan
    if interval == "wald" and not min(mean, 1 - mean) >= 3 * se:
        where = f"(value {mean:.3g}, n = {n}); use interval='fixed-n'."
        text = f"interval='wald' is unreliable here {where}"
        warnings.warn(text, GuaranteeWarning, stacklevel=3)
    silent = bool(len(answered)) and not answered.any()
    kind = Kind.ASYMPTOTIC if interval == "wald" else Kind.FINITE_SAMPLE
    detail = "labelled items are a random sample of the items asked about"
    guarantee = Guarantee(
        kind=kind,
        error_rate=1 - confidence,
        anytime=interval == "betting",
        assumptions=(Assumption(name="iid items", detail=detail),),
    )
    reason = "no usable label of an answered item" if len(labels) else "no items"
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
        se=share * se,
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
        reason="" if n or silent else reason,
    )
    promise = own_draws(guarantee, labels, transition)
    found = dataclasses.replace(_with_limits(base, limits, interval), guarantee=promise)
    return rest_on(found, transition)


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
        One row per item, one column per class; the logarithm of chances will do.
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
    tau = chosen_temperature(z, labels, T, temperature)
    losses = item_losses(z, labels, T, temperature=tau)[labelled]
    n = len(losses)
    mean = float(losses.mean()) if n else math.nan
    se = float(losses.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    low, high = normal_range(mean, se, 1 - confidence)
    kind, iid = Kind.ASYMPTOTIC if n > 1 else Kind.HEURISTIC, Assumption(name="iid items")
    guarantee = Guarantee(kind=kind, error_rate=1 - confidence, assumptions=(iid,))
    same = f"the temperature {tau:.4g} was fitted to the same labels"
    notes = [f"{same}: the value is slightly too small"] if fitted and n else []
    if 1 < n < 30:
        notes.append(f"only {n} labelled items: a normal interval needs 30 or more")
    used = int(labels.sizes.sum())
    found = Estimate(
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
        counts={"items": len(labels), "labelled": n, "complementary": n, "labels": used},
        diagnostics={"temperature": tau, "temperature_fitted": fitted, "n_labels_used": used},
        notes=tuple(notes),
        reason=("no labels", "one labelled item has no standard error", "")[min(n, 2)],
    )
    return rest_on(found, T)
