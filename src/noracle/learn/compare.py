"""Which of two models is better, from ruled-out labels alone, and how many it takes to tell."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import Any, Literal

import numpy as np

from noracle.accuracy.compare import compare_systems
from noracle.bounds.betting import FRACTIONS, LOG_PRIOR, betting_interval, equal_together
from noracle.bounds.binomial import ndtr, ndtri, ordered
from noracle.counts import check_n_classes
from noracle.counts.tally import Cell, Pattern, PatternCounts, pattern
from noracle.errors import ArgumentError, SingularTransition, require
from noracle.learn.scores import (
    Floats,
    Ints,
    RuledOut,
    TransitionLike,
    as_array,
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
    transition_notes,
    with_transition,
)
from noracle.learn.transition import Transition
from noracle.results import Assumption, Comparison, Difference, Guarantee, Kind, Plan, Rank
from noracle.results.base import check_confidence, choose

Measure = Literal["zero-one", "scel"]
POWER = 0.8
_IID = (Assumption(name="iid items"),)
_BETTING = 1.8  # width of a betting interval over that of a normal one


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
    two = len(names) == 2 and names[0] != names[1]
    require(two, f"names must be two different ones; got {list(names)}.")
    how = choose("interval", interval or fits[0], fits)
    notes: tuple[str, ...] = ()
    diagnostics: dict[str, Any] = {}
    if measure == "scel":
        logits = [read_logits(name, z) for name, z in (("a", a), ("b", b))]
        T = read_transition(transition, logits[0].shape[1] if n_classes is None else n_classes)
        labels = read_ruled_out(ruled_out, T.n_classes)
        for name, z in zip(("a", "b"), logits, strict=True):
            read_logits(name, z, labels)
            read_transition(T, z.shape[1])
        taus = [chosen_temperature(z, labels, T, temperature) for z in logits]
        both = zip(logits, taus, strict=True)
        scores = [-item_losses(z, labels, T, temperature=tau) for z, tau in both]
        fitted = ("each temperature was fitted to the same labels",) if temperature == "fit" else ()
        notes = ("scel with its sign reversed: larger is better", *fitted)
        diagnostics = {"temperature": dict(zip(names, taus, strict=True))}
    else:
        labels, T = read_labels_of(ruled_out, transition, n_classes)
        answers = [labels.read_predicted(name, p) for name, p in (("a", a), ("b", b))]
        scores = [item_scores(p, labels, T) for p in answers]
    scores = [s[labels.sizes > 0] for s in scores]
    if measure == "zero-one" and T.is_uniform:
        patterns = _patterns(answers, labels, names)
        found = compare_systems(patterns, interval=how, confidence=confidence)  # type: ignore[arg-type]
    else:
        found = _paired(scores, labels, T, names, measure, how, confidence)
    (difference,) = found.differences
    separate = _separate(difference, scores[0] - scores[1], confidence, found.interval)
    if difference.verdict == "not separable" and not math.isnan(separate["labels"]):
        models = f"models that differ by {abs(difference.value):.3g} would be separated"
        about = f"about {separate['labels']:,} labelled items (power {POWER:g})"
        notes = (*notes, f"{models} by {about}")
    found = dataclasses.replace(found, notes=(*found.notes, *notes))
    return rest_on(found, T, **diagnostics, measure=measure, separate=separate)


def _patterns(answers: list[Ints], labels: RuledOut, names: tuple[str, str]) -> PatternCounts:
    mask = labels.mask()
    m = mask.sum(axis=1)
    hits = (np.where(p < 0, -1, mask[np.arange(len(p)), p]) for p in answers)
    rows = np.stack([m, *hits], axis=1)[m > 0]
    patterns: Counter[Pattern] = Counter()
    cell = Cell("", labels.n_classes)
    for (size, *seen), n in row_counts(rows):
        said = [None if h < 0 else bool(h) for h in seen]
        patterns[pattern(cell, "no", said, n_ruled_out=size)] += n
    return PatternCounts(systems=tuple(names), patterns=dict(patterns))


def _paired(
    scores: list[Floats],
    labels: RuledOut,
    transition: Transition,
    names: tuple[str, str],
    measure: Measure,
    interval: str,
    confidence: float,
) -> Comparison:
    """Scores subtracted item by item; the range of a difference is known from T alone."""
    n, mean, se = _moments(scores[0] - scores[1])
    low, high = normal_range(mean, se, 1 - confidence)
    betting = interval == "betting"
    if measure == "zero-one":
        low, high = (max(-1.0, low), min(1.0, high)) if se > 0 and not betting else (-1.0, 1.0)
    if betting and n:
        most, tail = _widest(transition), (1 - confidence) / 2
        rows = equal_together(scores[0] - scores[1], -most, most)
        limits = ordered(*betting_interval(rows, tail, tail, floor=-1.0), -1.0)
        low, high = limits.low, limits.high
    kind = Kind.FINITE_SAMPLE if betting else Kind.ASYMPTOTIC
    guarantee = Guarantee(kind=kind, error_rate=1 - confidence, anytime=betting, assumptions=_IID)
    if measure == "zero-one" and int(labels.sizes.max(initial=0)) > 1:
        guarantee = own_draws(guarantee, labels, transition)
    difference = Difference(first=names[0], second=names[1], value=mean, low=low, high=high, n=n)
    orders = {"first": ((1, 1), (2, 2)), "second": ((2, 2), (1, 1))}
    places = orders.get(difference.verdict, ((1, 2), (1, 2)))
    means = [float(s.mean()) if n else math.nan for s in scores]
    each = zip(names, places, means, strict=True)
    ranks = [Rank(system=s, best=p[0], worst=p[1], value=v) for s, p, v in each]
    ranks.sort(key=lambda r: (r.best, r.worst, -r.value if n else math.inf, r.system))
    nothing = "no usable label of an item that all systems were asked about"
    open_pair = difference.verdict == "not separable"
    return Comparison(
        systems=names,
        differences=(difference,),
        ranks=tuple(ranks),
        leaders=tuple(r.system for r in ranks if r.best == 1),
        confidence=confidence,
        method="paired scores" if measure == "zero-one" else "paired losses",
        interval=interval,
        guarantee=guarantee,
        counts={"labelled": int((labels.sizes > 0).sum()), "labels": int(labels.sizes.sum())},
        notes=("1 of 1 pairs cannot be separated with these labels",) if open_pair else (),
        reason="" if n else nothing,
    )


def _widest(transition: Transition) -> float:
    """The largest difference of two scores of one label."""
    table = score_table(transition)
    return float((table.max(axis=1) - table.min(axis=1)).max())


def _moments(values: Floats) -> tuple[int, float, float]:
    """Number, mean and standard error."""
    n = len(values)
    se = float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return n, float(values.mean()) if n else math.nan, se if se > 0 else math.nan


def _separate(gap: Difference, values: Floats, confidence: float, interval: str) -> dict[str, Any]:
    """Labelled items that would separate models as far apart as these seem to be, by an interval as
    wide for its standard error as this.

    The difference is itself a guess: :func:`plan_validation` takes one that matters.
    """
    n, mean, se = _moments(values)
    if not n > 1 or math.isnan(se) or mean == 0:
        found = {"difference": abs(mean), "power": POWER, "labels": math.nan}
        return {**found, "reason": "no difference and spread to go by"}
    reach = -float(ndtri((1 - confidence) / 2)) * (_BETTING if interval == "betting" else 1.0)
    if gap.low > -1 and gap.high < 1:
        reach = (gap.high - gap.low) / 2 / se
    labels = math.ceil(n * ((reach + float(ndtri(POWER))) * se / mean) ** 2)
    return {"difference": abs(mean), "power": POWER, "labels": labels}


# How many ruled-out labels it takes to tell two models apart, and how blunt a validation set is.

_MOST = 10**9
_VALUES = 400  # different differences that a simulation tells apart
_WORLDS = 2000


def zero_one_standard_error(*, n_classes: int, noise: float, accuracy: float, n: int) -> float:
    """Standard error of the accuracy that ruled-out labels give, with symmetric noise η.

    (K - 1)/abs(1 - ηK)·√(q(1 - q)/n), where q = ηA + (1 - η)(1 - A)/(K - 1) is the chance that a
    prediction is ruled out.

    Examples
    --------
    >>> round(zero_one_standard_error(n_classes=10, noise=0.0393, accuracy=0.35, n=5000), 3)
    0.058
    """
    k = check_n_classes(n_classes)
    ok, came = 0 <= noise <= 1 and 0 <= accuracy <= 1 and n >= 1, f"{noise}, {accuracy} and {n}"
    require(ok, f"noise and accuracy must be in [0, 1] and n at least 1; got {came}.")
    strength = 1 - noise * k
    if abs(strength) < 1e-9:
        rule = f"noise must not be 1/K = {1 / k:g}, where a label says nothing"
        raise SingularTransition(f"{rule}; got {noise}.")
    q = noise * accuracy + (1 - noise) * (1 - accuracy) / (k - 1)
    return (k - 1) / abs(strength) * math.sqrt(q * (1 - q) / n)


def plan_validation(
    *,
    transition: TransitionLike,
    n_classes: int | None = None,
    difference: float | None = None,
    accuracy: float | None = None,
    disagreement: float | None = None,
    pilot: tuple[Any, Any, Any] | None = None,
    power: float = 0.8,
    interval: Literal["betting", "wald"] = "betting",
    cost: float = 1.0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Plan:
    """Plan how many ruled-out labels, one per item, separate two models with probability ``power``.

    Give guesses (``accuracy`` of the better model, ``difference``), or a ``pilot`` of predictions
    and labels.

    Parameters
    ----------
    difference
        The difference of accuracies that matters; with a pilot by default the one seen there.
    accuracy
        A guess of the accuracy of the better model.
    disagreement
        Share of items on which exactly one model is right; by default the largest possible. Where
        both are wrong their answers are taken as independent, over wrong classes and all classes
        evenly.
    pilot
        ``(a, b, ruled_out)``: class numbers of two models and labels of the same items; only the
        spread of the score differences is used, tilted to the wanted difference.
    interval
        The interval of :func:`compare_models` that must exclude 0. ``betting``: simulated;
        ``wald``: normal approximation.
    cost
        Price of a label.

    Returns
    -------
    Plan
        ``buy`` has the number of labels, ``predicted`` the power.

    Notes
    -----
    ``wald``: n = ((z((1 + confidence)/2) + z(power))·σ/difference)², σ being the standard deviation
    of the difference of scores. ``betting``: the smallest number of labels with which the simulated
    test finds the difference with probability ``power``.

    Assumes that the guesses (or the pilot) are right, independent items, and labels drawn from T.
    The comparison that follows does not rest on the guesses.

    References
    ----------
    Ishida et al. (2019), ICML, for the scores; Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27, for
    the test.

    Examples
    --------
    >>> plan = plan_validation(transition="uniform", n_classes=10, accuracy=0.8, difference=0.05, disagreement=0.1, interval="wald")
    >>> plan.buy
    {'complementary': 11609}
    """
    check_confidence(confidence)
    choose("interval", interval, ("betting", "wald"))
    require(0 < power < 1, f"power must be in (0, 1); got {power}.")
    require(0 < cost < math.inf, f"cost must be positive; got {cost}.")
    T = read_transition(transition, n_classes)
    one = (pilot is None) != (accuracy is None)
    require(one, "one of accuracy and pilot must be given; got both or neither.")
    if pilot is not None:
        values, chances, share = *_piloted(pilot, T, difference), None
    else:
        values, chances, share = _guessed(T, float(accuracy or 0.0), difference, disagreement)
    gap, most = float(values @ chances), _widest(T)
    tail = (1 - confidence) / 2
    spread = math.sqrt(float(chances @ values**2) - gap**2)
    n = max(2, math.ceil(((-float(ndtri(tail)) + float(ndtri(power))) * spread / gap) ** 2))
    z = gap * math.sqrt(n) / spread + float(ndtri(tail)) if spread > 0 else math.inf
    predicted = float(ndtr(z))
    if interval == "betting":
        n = _fewest(values, chances, most, tail, power, seed, n)
        predicted = betting_power(values, chances, most, n, tail, seed)
    guesses = {"accuracy": accuracy, "disagreement": share}
    lists = {"difference": values, "chance": chances, "transition": T.matrix}
    inputs = {
        "planner": "validation",
        "n_classes": T.n_classes,
        "difference": gap,
        **{k: v for k, v in guesses.items() if v is not None},
        "power": power,
        "cost": cost,
        "seed": seed,
        "values": {name: array.tolist() for name, array in lists.items()},
    }
    rests = (Assumption(name="guessed difference and spread"), *_IID)
    guarantee = Guarantee(kind=Kind.HEURISTIC, error_rate=1 - confidence, assumptions=rests)
    how = "simulated" if interval == "betting" else "normal"
    se = spread / math.sqrt(n)
    return Plan(
        goal="power",
        wanted=power,
        predicted=predicted,
        buy={"complementary": n},
        cost=cost * n,
        confidence=confidence,
        method=f"{how} power of the paired comparison of two models",
        interval=interval,
        guarantee=with_transition(guarantee, T),
        inputs=inputs,
        diagnostics={"spread": spread, "standard_error": se, "transition": T.summary()},
        notes=(
            "the plan rests on the guessed difference and its spread; the comparison does not",
            *transition_notes(T),
        ),
    )


def verify_validation_plan(plan: Plan) -> bool:
    """Whether so many labels give the power that the plan says, in other simulated worlds."""
    lists = {k: np.asarray(v, dtype=np.float64) for k, v in plan.inputs["values"].items()}
    values, chances = lists["difference"], lists["chance"]
    ((_, n),) = plan.buy.items()
    priced = abs(plan.cost - n * float(plan.inputs["cost"])) <= 1e-6 * plan.cost
    if not priced or abs(float(values @ chances) - plan.inputs["difference"]) > 1e-6:
        return False
    tail = (1 - plan.confidence) / 2
    rng = np.random.default_rng(int(plan.inputs["seed"]) + 1)
    drawn = rng.multinomial(n, chances / chances.sum(), size=_WORLDS)
    if plan.interval == "wald":
        mean = drawn @ values / n
        spread = np.sqrt(np.maximum(drawn @ values**2 / n - mean**2, 0) / max(1, n - 1))
        found = float((mean > -float(ndtri(tail)) * spread).mean())
    else:
        from noracle.bounds.betting import equal_together, log_wealth

        most = _widest(Transition(lists["transition"]))
        ends = [equal_together(values, -most, most, row) for row in drawn[:400]]
        found = float(np.mean([log_wealth(rows, 0.0) >= math.log(1 / tail) for rows in ends]))
    return found >= plan.wanted - 0.06


def _piloted(
    pilot: tuple[Any, Any, Any], transition: Transition, difference: float | None
) -> tuple[Floats, Floats]:
    require(len(pilot) == 3, f"pilot must be (a, b, ruled_out); got {len(pilot)} entries.")
    labels = read_ruled_out(as_array(pilot[2]), transition.n_classes)
    answers = [labels.read_predicted(*each) for each in zip("ab", pilot[:2], strict=True)]
    a, b = (item_scores(each, labels, transition) for each in answers)
    seen = (a - b)[~np.isnan(a)]
    n, rule = len(seen), "pilot must have labels on which the models score differently"
    require(n > 1 and np.ptp(seen), f"{rule}; got {n} labelled items without any.")
    if seen.mean() < 0:
        seen = -seen
    values, chances = _few(seen, np.full(len(seen), 1 / len(seen)))
    wanted = float(seen.mean()) if difference is None else difference
    rule = "difference must be positive and possible for the pilot's labels"
    ok = 0 < wanted < min(1.0, float(values.max()))
    require(ok, f"{rule}; got {wanted}. Pass the one that matters.")
    return values, _tilted(values, chances, wanted)


def _tilted(values: Floats, chances: Floats, mean: float) -> Floats:
    """The chances nearest to these (in relative entropy) whose mean is as wanted: p·e^{tv}, normed."""
    from noracle.bounds.binomial import find_root

    def tilt(t: float) -> Floats:
        weight = chances * np.exp(t * values - (t * values).max())
        return np.asarray(weight / weight.sum(), dtype=np.float64)

    scale = 1.0
    while not tilt(-scale) @ values < mean < tilt(scale) @ values:
        scale *= 2
    return tilt(find_root(lambda t: float(tilt(t) @ values) - mean, -scale, scale, xtol=1e-14))


def _guessed(
    transition: Transition, accuracy: float, difference: float | None, disagreement: float | None
) -> tuple[Floats, Floats, float]:
    """Differences of scores and their chances, if classes and wrong answers are even."""
    if difference is None:
        raise ArgumentError("difference must be given with accuracy; got None.")
    common = min(accuracy, 1 - accuracy + difference)
    share = common + max(0.0, common - difference) if disagreement is None else disagreement
    only_a, only_b = (share + difference) / 2, (share - difference) / 2
    ok = 0 < difference <= min(share, accuracy) and share <= 1 and only_a <= accuracy <= 1
    rule = "difference must be positive, at most the disagreement and at most the accuracy"
    came = f"{difference} with disagreement {share:g} and accuracy {accuracy:g}"
    require(ok, f"{rule}; got {came}.")
    both_wrong = 1 - accuracy - only_b
    rule, came = "must leave room beside the accuracy", f"{share:g} with accuracy {accuracy:g}"
    require(both_wrong >= -1e-9, f"disagreement {rule}; got {came}.")
    table, T, k = score_table(transition)[:, :-1], transition.matrix, transition.n_classes
    bins: list[tuple[Floats, Floats]] = []
    for y in range(k):
        wrong = [c for c in range(k) if c != y]
        own, other = table[:, [y]], table[:, wrong]  # [ruled out, answer]
        weight = np.repeat(T[y][:, None], k - 1, axis=1) / (k * (k - 1))
        bins.append(((own - other).ravel(), only_a * weight.ravel()))
        bins.append(((other - own).ravel(), only_b * weight.ravel()))
        apart = (other[:, :, None] - other[:, None, :]).ravel()
        even = np.repeat(T[y], (k - 1) ** 2) / (k * (k - 1) ** 2)
        bins.append(_few(apart, max(0.0, both_wrong) * even))
    values, chances = _few(*(np.concatenate(column) for column in zip(*bins, strict=True)))
    rest = 1 - float(chances.sum())
    return np.append(values, 0.0), np.append(chances, max(rest, 0.0)), share


def _few(values: Floats, chances: Floats) -> tuple[Floats, Floats]:
    """The same distribution on few values, its mean kept: near values become one."""
    unique, place = np.unique(np.round(values, 9), return_inverse=True)
    if len(unique) > _VALUES:
        step = np.ptp(values) / (_VALUES - 1)
        place = np.floor((values - values.min()) / step).astype(np.int64)
    size = int(place.max()) + 1
    total = np.bincount(place, chances, size).astype(np.float64)
    kept = total > 0
    means = np.bincount(place, chances * values, size)[kept] / total[kept]
    return means, total[kept]


def betting_power(
    values: Floats, chances: Floats, most: float, n: int, tail: float, seed: int
) -> float:
    """Share of simulated worlds in which the paired betting interval lies above 0."""
    rng = np.random.default_rng([seed, n])
    drawn = rng.multinomial(n, chances / chances.sum(), size=_WORLDS)
    share = np.maximum(values / most, -1.0)
    with np.errstate(divide="ignore"):
        gains = np.log1p(np.multiply.outer(share, FRACTIONS))  # [value, fraction]
    finite = np.where(np.isfinite(gains), gains, -1e12)  # a lost bet is lost for good
    logs = drawn @ finite + LOG_PRIOR
    top = logs.max(axis=1, keepdims=True)
    wealth = top[:, 0] + np.log(np.exp(logs - top).sum(axis=1))
    return float(np.mean(wealth >= math.log(1 / tail)))


def _fewest(
    values: Floats, chances: Floats, most: float, tail: float, power: float, seed: int, start: int
) -> int:
    """The fewest labels with the wanted simulated power, to 1 %; more than a normal interval needs."""

    def enough(n: int) -> bool:
        return betting_power(values, chances, most, n, tail, seed) >= power

    low, high = start - 1, start
    while not enough(high):
        require(high < _MOST, f"difference cannot be found: {_MOST} labels are not enough.")
        low, high = high, min(2 * high, _MOST)
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
