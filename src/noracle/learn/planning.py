"""How many ruled-out labels it takes to tell two models apart, and how blunt a validation set is."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from noracle.bounds.betting import FRACTIONS, LOG_PRIOR
from noracle.bounds.special import ndtr, ndtri
from noracle.counts import check_n_classes
from noracle.errors import ArgumentError, SingularTransition
from noracle.learn.promises import transition_notes, with_transition
from noracle.learn.scored import (
    Floats,
    TransitionLike,
    as_array,
    item_scores,
    read_predicted,
    read_ruled_out,
    read_transition,
    score_table,
)
from noracle.learn.transition import Transition
from noracle.results import Assumption, Guarantee, Kind, Plan, check_confidence, choose

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
    if not (0 <= noise <= 1 and 0 <= accuracy <= 1 and n >= 1):
        raise ArgumentError(
            f"noise and accuracy must be in [0, 1] and n at least 1; got {noise}, {accuracy} and {n}."
        )
    strength = 1 - noise * k
    if abs(strength) < 1e-9:
        raise SingularTransition(
            f"noise must not be 1/K = {1 / k:g}, where a label says nothing; got {noise}."
        )
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
    """Plan how many ruled-out labels, one an item, separate two models with probability ``power``.

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
    if not 0 < power < 1:
        raise ArgumentError(f"power must be in (0, 1); got {power}.")
    if not (cost > 0 and math.isfinite(cost)):
        raise ArgumentError(f"cost must be positive; got {cost}.")
    T = read_transition(transition, n_classes)
    if (pilot is None) == (accuracy is None):
        raise ArgumentError("one of accuracy and pilot must be given; got both or neither.")
    if pilot is not None:
        values, chances, share = *_piloted(pilot, T, difference), None
    else:
        values, chances, share = _guessed(T, float(accuracy or 0.0), difference, disagreement)
    gap = float(values @ chances)
    bound = score_table(T)
    most = float((bound.max(axis=1) - bound.min(axis=1)).max())
    tail = (1 - confidence) / 2
    spread = math.sqrt(float(chances @ values**2) - gap**2)
    n = max(2, math.ceil(((-float(ndtri(tail)) + float(ndtri(power))) * spread / gap) ** 2))
    predicted = _normal_power(n, gap, spread, tail)
    if interval == "betting":
        n = _fewest(values, chances, most, tail, power, seed, n)
        predicted = betting_power(values, chances, most, n, tail, seed)
    guesses = {"accuracy": accuracy, "disagreement": share}
    inputs = {
        "planner": "validation",
        "n_classes": T.n_classes,
        "difference": gap,
        **{k: v for k, v in guesses.items() if v is not None},
        "power": power,
        "cost": cost,
        "seed": seed,
        "values": {
            "difference": values.tolist(),
            "chance": chances.tolist(),
            "transition": T.matrix.tolist(),
        },
    }
    guarantee = Guarantee(
        kind=Kind.HEURISTIC,
        error_rate=1 - confidence,
        assumptions=tuple(
            Assumption(name=name) for name in ("guessed difference and spread", "iid items")
        ),
    )
    return Plan(
        goal="power",
        wanted=power,
        predicted=predicted,
        buy={"complementary": n},
        cost=cost * n,
        confidence=confidence,
        method=f"{'simulated' if interval == 'betting' else 'normal'} power of the paired comparison of two models",
        interval=interval,
        guarantee=with_transition(guarantee, T),
        inputs=inputs,
        diagnostics={
            "spread": spread,
            "standard_error": spread / math.sqrt(n),
            "transition": T.summary(),
        },
        notes=(
            "the plan rests on the guessed difference and its spread; the comparison does not",
            *transition_notes(T),
        ),
    )


def verify_validation_plan(plan: Plan) -> bool:
    """Whether so many labels give the power that the plan says: other simulated worlds, the
    interval itself, and the price.
    """
    values, chances = (
        np.asarray(plan.inputs["values"][name], dtype=np.float64)
        for name in ("difference", "chance")
    )
    ((_, n),) = plan.buy.items()
    if (
        abs(plan.cost - n * float(plan.inputs["cost"])) > 1e-6 * plan.cost
        or abs(float(values @ chances) - plan.inputs["difference"]) > 1e-6
    ):
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

        bound = score_table(Transition(np.asarray(plan.inputs["values"]["transition"])))
        most = float((bound.max(axis=1) - bound.min(axis=1)).max())
        ends = [equal_together(values, -most, most, row) for row in drawn[:400]]
        found = float(np.mean([log_wealth(rows, 0.0) >= math.log(1 / tail) for rows in ends]))
    return found >= plan.wanted - 0.06


# -------------------------------------------------------------------------------------------------
# differences to expect


def _piloted(
    pilot: tuple[Any, Any, Any], transition: Transition, difference: float | None
) -> tuple[Floats, Floats]:
    if len(pilot) != 3:
        raise ArgumentError(f"pilot must be (a, b, ruled_out); got {len(pilot)} entries.")
    labels = read_ruled_out(as_array(pilot[2]), transition.n_classes)
    a, b = (
        item_scores(read_predicted(name, p, labels), labels, transition)
        for name, p in zip(("a", "b"), pilot[:2], strict=True)
    )
    seen = (a - b)[~np.isnan(a)]
    if len(seen) < 2 or np.ptp(seen) == 0:
        raise ArgumentError(
            f"pilot must have labels on which the models score differently; got {len(seen)} labelled items without any."
        )
    if seen.mean() < 0:
        seen = -seen
    values, chances = _few(seen, np.full(len(seen), 1 / len(seen)))
    wanted = float(seen.mean()) if difference is None else difference
    if not 0 < wanted < min(1.0, float(values.max())):
        raise ArgumentError(
            f"difference must be positive and possible for the pilot's labels; got {wanted}. Pass the one that matters."
        )
    return values, _tilted(values, chances, wanted)


def _tilted(values: Floats, chances: Floats, mean: float) -> Floats:
    """The chances nearest to these (in relative entropy) whose mean is as wanted: p·e^{tv}, normed."""
    from noracle.bounds.special import find_root

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
    if (
        not 0 < difference <= min(share, accuracy)
        or not share <= 1
        or (share + difference) / 2 > accuracy
        or accuracy > 1
    ):
        raise ArgumentError(
            f"difference must be positive, at most the disagreement and at most the accuracy; got {difference} with disagreement {share:g} "
            f"and accuracy {accuracy:g}."
        )
    only_a, only_b = (share + difference) / 2, (share - difference) / 2
    both_wrong = 1 - accuracy - only_b
    if both_wrong < -1e-9:
        raise ArgumentError(
            f"disagreement must leave room beside the accuracy; got {share:g} with accuracy {accuracy:g}."
        )
    table, T, k = score_table(transition)[:, :-1], transition.matrix, transition.n_classes
    bins: list[tuple[Floats, Floats]] = []
    for y in range(k):
        wrong = [c for c in range(k) if c != y]
        own, other = table[:, [y]], table[:, wrong]  # [ruled out, answer]
        weight = np.repeat(T[y][:, None], k - 1, axis=1) / (k * (k - 1))
        bins += [
            ((own - other).ravel(), only_a * weight.ravel()),
            ((other - own).ravel(), only_b * weight.ravel()),
        ]
        apart = (other[:, :, None] - other[:, None, :]).ravel()
        bins.append(
            _few(apart, max(0.0, both_wrong) * np.repeat(T[y], (k - 1) ** 2) / (k * (k - 1) ** 2))
        )
    values, chances = _few(*(np.concatenate(column) for column in zip(*bins, strict=True)))
    rest = 1 - float(chances.sum())
    return np.append(values, 0.0), np.append(chances, max(rest, 0.0)), share


def _few(values: Floats, chances: Floats) -> tuple[Floats, Floats]:
    """The same distribution on few values, its mean kept: near values become one."""
    unique, place = np.unique(np.round(values, 9), return_inverse=True)
    if len(unique) > _VALUES:
        place = np.floor((values - values.min()) / (np.ptp(values) / (_VALUES - 1))).astype(
            np.int64
        )
    size = int(place.max()) + 1
    total = np.bincount(place, chances, size).astype(np.float64)
    kept = total > 0
    means = np.bincount(place, chances * values, size)[kept] / total[kept]
    return means, total[kept]


# ----------------------------------------------------------------------------------------------------------------
# power


def _normal_power(n: int, gap: float, spread: float, tail: float) -> float:
    return float(ndtr(gap * math.sqrt(n) / spread + float(ndtri(tail)))) if spread > 0 else 1.0


def betting_power(
    values: Floats, chances: Floats, most: float, n: int, tail: float, seed: int
) -> float:
    """Share of simulated worlds in which the paired betting interval lies above 0."""
    rng = np.random.default_rng([seed, n])
    drawn = rng.multinomial(n, chances / chances.sum(), size=_WORLDS)
    with np.errstate(divide="ignore"):
        gains = np.log1p(
            np.multiply.outer(np.maximum(values / most, -1.0), FRACTIONS)
        )  # [value, fraction]
    finite = np.where(np.isfinite(gains), gains, -1e12)  # a lost bet is lost for good
    logs = drawn @ finite + LOG_PRIOR
    top = logs.max(axis=1, keepdims=True)
    wealth = top[:, 0] + np.log(np.exp(logs - top).sum(axis=1))
    return float(np.mean(wealth >= math.log(1 / tail)))


def _fewest(
    values: Floats, chances: Floats, most: float, tail: float, power: float, seed: int, start: int
) -> int:
    """The fewest labels with the wanted simulated power, to 1 %; more than a normal interval needs."""
    low, high = start - 1, start
    while betting_power(values, chances, most, high, tail, seed) < power:
        if high >= _MOST:
            raise ArgumentError(f"difference cannot be found: {_MOST} labels are not enough.")
        low, high = high, min(2 * high, _MOST)
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (
            (middle, high)
            if betting_power(values, chances, most, middle, tail, seed) < power
            else (low, middle)
        )
    return high
