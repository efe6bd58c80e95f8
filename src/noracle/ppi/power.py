"""How many labels it takes to find a better system: the power of the paired betting test,
simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from noracle.bounds.betting import FRACTIONS, LOG_PRIOR
from noracle.errors import ArgumentError
from noracle.ppi.labels import option, promise, smallest
from noracle.results import Plan

_MOST = 10**7


def plan_difference(inputs: Mapping[str, Any], confidence: float) -> Plan:
    """The fewest labels that find a difference with the wanted power; ``inputs`` are those of
    :func:`~noracle.ppi.labels.plan_labels`.
    """
    accuracy, difference, power = (
        float(inputs[name]) for name in ("accuracy", "difference", "power")
    )
    common = min(accuracy, 1 - accuracy + difference)
    share = (
        common + max(0.0, common - difference)
        if inputs["disagreement"] is None
        else float(inputs["disagreement"])
    )
    if not 0 < difference <= min(share, accuracy) or share > 1:
        raise ArgumentError(
            f"difference must be positive, at most the disagreement and at most the accuracy; got {difference} with disagreement {share:g}."
        )
    if not 0 < power < 1:
        raise ArgumentError(f"power must be in (0, 1); got {power}.")
    options = []
    for kind, price in inputs["costs"].items():
        if kind not in ("ordinary", "complementary"):
            raise ArgumentError(
                f"kind must be 'ordinary' or 'complementary' for a comparison; got {kind!r}."
            )
        found = partial(
            simulated_power,
            inputs["n_classes"],
            difference,
            share,
            kind,
            confidence=confidence,
            seed=inputs["seed"],
        )
        n = smallest(partial(_strong, found, power), _MOST)
        options.append(
            option({kind: _MOST}, why=f"10 million {kind} labels are not enough")
            if n is None
            else option({kind: n}, found(n), n * price)
        )
    usable = [o for o in options if o["feasible"]]
    if not usable:
        raise ArgumentError(f"difference cannot be found: {options[0]['why']}.")
    best = min(usable, key=lambda o: o["cost"])
    return Plan(
        goal="power",
        wanted=power,
        predicted=best["predicted"],
        buy=best["buy"],
        cost=best["cost"],
        confidence=confidence,
        method="simulated power of the paired betting test",
        interval="betting",
        guarantee=promise(confidence),
        inputs={**inputs, "disagreement": share},
        alternatives=tuple(options),
        notes=("the plan rests on the guessed difference and disagreement",),
    )


def _strong(found: Callable[[int], float], power: float, n: int) -> bool:
    return found(n) >= power


def simulated_power(
    k: int,
    difference: float,
    disagreement: float,
    kind: str,
    n: int,
    confidence: float,
    seed: int,
    worlds: int = 2000,
) -> float:
    """Share of simulated worlds in which the two-sided paired betting interval lies above 0.

    An item on which exactly one system is right has d = ±1 with an ordinary label and, with
    probability 1/(K-1), d = ±(K-1) with a complementary one. Items on which both are wrong in
    different ways are left out, which favours complementary labels.
    """
    up, down = (disagreement + difference) / 2, (disagreement - difference) / 2
    chance = 1.0 if kind == "ordinary" else 1 / (k - 1)
    rng = np.random.default_rng([seed, n])
    drawn = rng.multinomial(n, [up * chance, down * chance, 1 - (up + down) * chance], size=worlds)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = (
            drawn[:, :1] * np.log1p(FRACTIONS)
            + np.where(drawn[:, 1:2] > 0, drawn[:, 1:2] * np.log1p(-FRACTIONS), 0.0)
            + LOG_PRIOR
        )
    top = logs.max(axis=1, keepdims=True)
    wealth = top[:, 0] + np.log(np.exp(logs - top).sum(axis=1))
    return float(np.mean(wealth >= math.log(2 / (1 - confidence))))
