"""Simultaneous coverage of ranks and win rates over simulated worlds of preferences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from noracle import Preferences, estimate_win_rates, plan_pairs, rank_systems
from noracle.ranking.rank import _win_rates, fitted
from noracle.ranking.strength import chances, fit_strengths


def world(
    seed: Any,
    *,
    size: int,
    n: int,
    gap: float = 1.0,
    tie: float = 0.5,
    gamma: float = 0.4,
    per_item: int = 1,
    item_sd: float = 0.0,
    raters: int = 1,
    rater_sd: float = 0.0,
    ring: bool = False,
) -> Preferences:
    """Verdicts on pairs drawn at random (or on a ring); strengths that vary by item and rater."""
    rng = np.random.default_rng(seed)
    beta = np.linspace(-gap, gap, size)
    first = rng.integers(size, size=n)
    step = rng.integers(1, 3, size=n) if ring else 1 + rng.integers(size - 1, size=n)
    second = (first + step) % size
    swap = rng.random(n) < 0.5
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    item, rater = np.arange(n) // per_item, rng.integers(raters, size=n)
    own = item_sd * rng.standard_normal((int(item.max()) + 1, size))
    taste = rater_sd * rng.standard_normal((raters, size))
    pull = own[item, first] - own[item, second] + taste[rater, first] - taste[rater, second]
    d = beta[first] - beta[second] + gamma + pull
    p = chances(d, np.log(tie) if tie else -np.inf)
    outcome = (rng.random(n) > np.cumsum(p, axis=0)[:2]).sum(axis=0)
    names = tuple(f"m{i:02}" for i in range(size))
    who = tuple(map(str, range(raters)))
    return Preferences(systems=names, first=first, second=second, outcome=outcome, item=item, rater=rater, raters=who)  # fmt: skip


def judged_world(
    seed: Any, *, size: int, n: int, of: int, repeats: float, said: str = "the same", **about: Any
) -> Preferences:
    """A model compares ``of`` items, people ``n`` of these; it repeats their verdict that often, and
    else says anything. ``said`` turns its verdicts round, or makes it always name the first.
    """
    p = world([*seed, 1], size=size, n=of, **about)
    rng = np.random.default_rng([*seed, 2])
    pick = np.sort(rng.choice(of, n, replace=False))
    if said == "people aim":  # at some pairs more than at others, at random within each
        odds = (
            rng.random(size**2)[
                np.minimum(p.first, p.second) * size + np.maximum(p.first, p.second)
            ]
            ** 2
        )
        pick = np.sort(rng.choice(of, n, replace=False, p=odds / odds.sum()))
    model = np.where(rng.random(of) < repeats, p.outcome, rng.integers(3, size=of))
    if said == "reversed":
        model = np.array([1, 0, 2])[model]
    if said == "first":
        model = np.zeros_like(model)
    if said == "a taste":  # strengths of its own, and an effect of the order: no such model
        model = ((p.item + p.first * p.second) % 3) * (rng.random(of) < 0.9)

    def both(name: str) -> Any:
        return np.concatenate([getattr(p, name)[pick], getattr(p, name)])

    rows = {name: both(name) for name in ("first", "second", "item")}
    rows["outcome"] = np.concatenate([p.outcome[pick], model])
    who = np.repeat([0, 1], [n, of])
    return Preferences(systems=p.systems, **rows, rater=who, raters=("ann", "model"))


def truth(settings: dict[str, Any]) -> Any:
    """The strengths that fit best in the population: those of the world, or of one very large draw where they vary."""
    if not settings.get("item_sd") and not settings.get("rater_sd"):
        return np.linspace(-1, 1, settings["size"]) * settings.get("gap", 1.0)
    large = {**settings, "n": 400_000, "raters": 4000 if settings.get("raters") else 1}
    return fit_strengths(world(99, **large)).values


SETTINGS: list[dict[str, Any]] = [
    {"size": 2, "n": 60},
    {"size": 2, "n": 30, "tie": 0.0},
    {"size": 2, "n": 10, "tie": 0.0},
    {"size": 2, "n": 400, "gamma": 0.85},
    {"size": 2, "n": 200, "gap": 2.0},
    {"size": 3, "n": 20},
    {"size": 3, "n": 300, "gamma": 0.0, "gap": 0.0},
    {"size": 4, "n": 60, "gap": 3.0, "tie": 0.3},
    {"size": 4, "n": 200, "gap": 5.0, "tie": 0.0},
    {"size": 4, "n": 400, "per_item": 20, "item_sd": 1.0},
    {"size": 5, "n": 100},
    {"size": 5, "n": 100, "gamma": 0.85},
    {"size": 5, "n": 200, "tie": 0.0},
    {"size": 5, "n": 200, "tie": 1.5},
    {"size": 5, "n": 200, "tie": 5.0},
    {"size": 5, "n": 300, "gap": 2.5},
    {"size": 5, "n": 600, "per_item": 5, "item_sd": 1.0},
    {"size": 5, "n": 600, "per_item": 5, "item_sd": 1.0, "gamma": 0.85},
    {"size": 5, "n": 600, "per_item": 10, "item_sd": 0.5, "ring": True},
    {"size": 6, "n": 1200, "raters": 40, "rater_sd": 0.7},
    {"size": 6, "n": 1200, "raters": 25, "rater_sd": 0.7},
    {"size": 6, "n": 1200, "raters": 40, "rater_sd": 0.7, "per_item": 4, "item_sd": 0.7},
    {"size": 6, "n": 600, "raters": 10},
    {"size": 10, "n": 400, "ring": True},
    {"size": 10, "n": 500},
    {"size": 10, "n": 500, "gap": 0.2},
    {"size": 10, "n": 500, "tie": 1.5, "gamma": 0.85},
    {"size": 10, "n": 1000, "per_item": 10, "item_sd": 1.0},
    {"size": 20, "n": 150},
    {"size": 20, "n": 600},
    {"size": 20, "n": 1000, "gamma": 0.85},
    {"size": 20, "n": 800, "ring": True},
]


JUDGED: list[dict[str, Any]] = [
    {"size": 2, "n": 60, "of": 600, "repeats": 0.8},
    {"size": 3, "n": 40, "of": 400, "repeats": 0.9, "tie": 0.0},
    {"size": 3, "n": 200, "of": 400, "repeats": 0.8, "per_item": 4},
    {"size": 5, "n": 100, "of": 1500, "repeats": 0.8},
    {"size": 5, "n": 100, "of": 1500, "repeats": 0.8, "said": "reversed"},
    {"size": 5, "n": 100, "of": 1500, "repeats": 0.0},
    {"size": 5, "n": 100, "of": 1500, "repeats": 0.8, "said": "first"},
    {"size": 5, "n": 150, "of": 1500, "repeats": 0.8, "said": "a taste"},
    {"size": 5, "n": 200, "of": 1500, "repeats": 0.9, "said": "people aim"},
    {"size": 5, "n": 300, "of": 3000, "repeats": 1.0},
    {"size": 5, "n": 300, "of": 310, "repeats": 0.9, "gamma": 0.85},
    {"size": 5, "n": 300, "of": 3000, "repeats": 0.9, "gamma": 0.85},
    {"size": 5, "n": 1500, "of": 9000, "repeats": 0.9, "gamma": 0.85},
    {"size": 10, "n": 200, "of": 3000, "repeats": 0.8},
]


def named(settings: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in settings.items())


def misses(settings: dict[str, Any], worlds: int) -> tuple[int, int, float]:
    """Worlds in which a difference, or a win rate, lies outside its limits; and the mean width."""
    beta = truth(settings)
    pairs = itertools.combinations(range(len(beta)), 2)
    true = np.array([np.tanh((beta[i] - beta[j]) / 2) for i, j in pairs])
    varies = settings.get("item_sd", 0.0) or settings.get("rater_sd", 0.0)
    slack = 0.01 if varies else 0.0  # one large draw is not the population
    missed = missed_rate = 0
    width = 0.0
    for k in range(worlds):
        p = world([7, k], **settings)
        found = rank_systems(p, seed=k)
        low, high = (
            np.array([getattr(d, end) for d in found.differences]) for end in ("low", "high")
        )
        missed += bool(((true < low - slack) | (true > high + slack)).any())
        width += float((high - low).mean()) / worlds
        if not varies:
            import dataclasses

            tie = settings.get("tie", 0.5)
            known = dataclasses.replace(
                fitted(p, "adjust")[1], values=beta, tie=np.log(tie) if tie else -np.inf
            )
            rates = _win_rates(known)[0]
            own = estimate_win_rates(p, seed=k)
            missed_rate += any(not e.low <= r <= e.high for e, r in zip(own, rates, strict=True))
    return missed, missed_rate, width


@pytest.mark.slow
@pytest.mark.parametrize("settings", JUDGED, ids=named)
def test_differences_hold_together_with_any_judge(settings):
    beta, worlds = np.linspace(-1, 1, settings["size"]), 200
    missed, ratios = 0, []
    for k in range(worlds):
        p = judged_world([13, k], **settings)
        found = rank_systems(p, judge="model", seed=k)
        missed += any(
            not d.low <= np.tanh((beta[i] - beta[j]) / 2) <= d.high
            for d, (i, j) in zip(
                found.differences, itertools.combinations(range(len(beta)), 2), strict=True
            )
        )
        ratios.append(found.diagnostics["judge"]["labels_ratio"])
    assert missed <= binom.ppf(1 - 0.001, worlds, 0.05)
    useless = settings["repeats"] == 0 or settings.get("said") == "first"
    assert np.mean(ratios) > 0.9 if useless else np.mean(ratios) <= 1


@pytest.mark.full
@pytest.mark.parametrize("settings", [SETTINGS[i] for i in (0, 5, 16)], ids=named)
def test_differences_hold_together(settings):
    worlds = 100
    missed, missed_rate, width = misses(settings, worlds)
    assert max(missed, missed_rate) <= binom.ppf(0.999, worlds, 0.05)
    assert width < 1.6


# Strengths, the pairs that are compared, the effect of the order, the odds of a tie.
UNBOUNDED: list[tuple[list[float], str, float, float]] = [
    ([20, 6, 0, -1], "02 03 12 13 23", 0, 0),  # two never lose and never meet
    ([6, 0, -1], "01 02 12", 30, 0),  # the first is always named
    ([6, 0, -1], "01 02 12", 0, np.exp(12)),  # always a tie
    ([30, 20, 10, 0], "01 12 23", 0, 0.5),  # the better one always wins
]


@pytest.mark.full
@pytest.mark.parametrize(("beta", "compared", "gamma", "tie"), UNBOUNDED)
def test_differences_hold_where_verdicts_do_not_bound_them(beta, compared, gamma, tie):
    worlds, missed, pairs = 60, 0, [tuple(map(int, pair)) for pair in compared.split()]
    true = [np.tanh((a - b) / 2) for a, b in itertools.combinations(beta, 2)]
    for k in range(worlds):
        rng = np.random.default_rng([19, k])
        shown = rng.permuted(np.array(pairs)[rng.integers(len(pairs), size=200)], axis=1)
        first, second = shown.T
        d = np.array(beta)[first] - np.array(beta)[second] + gamma
        p = chances(d, np.log(tie) if tie else -np.inf)
        outcome = (rng.random(200) > np.cumsum(p, axis=0)[:2]).sum(axis=0)
        about: Any = {"item": np.arange(200), "rater": np.zeros(200, dtype=int), "raters": ("r",)}
        names = tuple(f"m{i}" for i in range(len(beta)))
        found = rank_systems(
            Preferences(systems=names, first=first, second=second, outcome=outcome, **about)
        )
        missed += any(
            not e.low <= t <= e.high for e, t in zip(found.differences, true, strict=True)
        )
    assert missed <= binom.ppf(1 - 0.001, worlds, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=named)
def test_differences_hold_together_in_every_setting(settings):
    """Nominal less two standard errors, with room for 32 settings at once."""
    worlds = 200
    missed, missed_rate, width = misses(settings, worlds)
    assert max(missed, missed_rate) <= binom.ppf(1 - 0.001, worlds, 0.05)
    assert 0 < width < 1.95


def planned_world(seed: Any, *, looks: int, batch: int, judged: bool) -> Preferences:
    """Pairs that were chosen by what was said before; a model saw 2,000 comparisons beforehand."""
    rng = np.random.default_rng(seed)
    pool = world([*seed, 1], size=5, n=2000)
    model = np.where(rng.random(2000) < 0.8, pool.outcome, rng.integers(3, size=2000))
    key = np.minimum(pool.first, pool.second) * 5 + np.maximum(pool.first, pool.second)
    chosen = np.concatenate([np.flatnonzero(key == k)[:6] for k in np.unique(key)])

    def seen() -> Preferences:
        rows: Any = {
            name: np.concatenate([getattr(pool, name)[chosen], getattr(pool, name)])
            for name in ("first", "second", "item")
        }
        rows["outcome"] = np.concatenate([pool.outcome[chosen], model])
        rater = np.repeat([0, 1], [len(chosen), 2000])
        p = Preferences(systems=pool.systems, **rows, rater=rater, raters=("ann", "model"))
        return p if judged else p.of(p.rater == 0)

    for k in range(looks):
        about: Any = {"judge": "model", "costs": {"judge": 1e3}} if judged else {}
        questions = plan_pairs(seen(), budget=batch, goal="all", seed=k, **about)
        said = questions.diagnostics["questions"]
        names = {name: i for i, name in enumerate(pool.systems)}
        for first, second in zip(said["first"], said["second"], strict=True):
            low, high = sorted((names[first], names[second]))
            free = np.setdiff1d(np.flatnonzero(key == low * 5 + high), chosen)
            chosen = np.append(chosen, free[:1])
    return seen()


@pytest.mark.slow
@pytest.mark.parametrize("judged", [False, True])
def test_pairs_that_were_planned_by_what_was_said_keep_the_promise(judged):
    worlds, missed, true = 200, 0, np.linspace(-1, 1, 5)
    pairs = list(itertools.combinations(range(5), 2))
    for k in range(worlds):
        p = planned_world([17, k], looks=4, batch=40, judged=judged)
        found = rank_systems(p, judge="model" if judged else None, seed=k)
        missed += any(
            not d.low <= np.tanh((true[i] - true[j]) / 2) <= d.high
            for d, (i, j) in zip(found.differences, pairs, strict=True)
        )
    assert missed <= binom.ppf(1 - 0.001, worlds, 0.05)
