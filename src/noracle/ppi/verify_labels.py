"""Check a plan of labels in another way than it was made: scipy's own Clopper–Pearson, another simulation, plain arithmetic."""

from __future__ import annotations

import math

import numpy as np

from noracle.ppi.power import simulated_power
from noracle.results import Plan


def verify_label_plan(plan: Plan) -> bool:
    """Whether the labels give what the plan says, at the price it says."""
    inputs = plan.inputs
    k, accuracy = int(inputs["n_classes"]), float(inputs["accuracy"])
    cost = sum(float(inputs["costs"].get(kind, 1.0)) * n for kind, n in plan.buy.items())
    if abs(cost - plan.cost) > 1e-6 * max(1.0, cost) or any(n > inputs["caps"].get(kind, n) for kind, n in plan.buy.items()):
        return False
    if plan.goal == "variance":
        n_c, n_o = plan.buy["complementary"], int(inputs["match"])
        ordinary, complementary = accuracy * (1 - accuracy) / n_o, (accuracy + k - 2) * (1 - accuracy) / n_c
        return complementary <= ordinary * (1 + 1e-9) or accuracy in (0.0, 1.0)
    if plan.goal == "power":
        ((kind, n),) = plan.buy.items()
        again = simulated_power(
            k, float(inputs["difference"]), float(inputs["disagreement"]), kind, n, plan.confidence, int(inputs["seed"]) + 1, worlds=10_000
        )
        return bool(again >= plan.wanted - 0.04)
    if plan.goal == "budget" and cost > plan.wanted * (1 + 1e-9):
        return False
    again = _simulated_half_width(plan)
    limit = plan.wanted if plan.goal == "half-width" else plan.predicted
    return bool(again <= limit * 1.04 + 1e-3)


def _simulated_half_width(plan: Plan, worlds: int = 400) -> float:
    """Mean half-width over simulated labels, each interval by scipy's binomial test or, for two kinds, by a grid over A."""
    from scipy.stats import binomtest

    inputs = plan.inputs
    k, accuracy = int(inputs["n_classes"]), float(inputs["accuracy"])
    rng = np.random.default_rng(int(inputs["seed"]) + 2)
    aimed = 1 - float(inputs["epsilon"]) + float(inputs["epsilon"]) / k
    n_o, n_c = plan.buy.get("ordinary", 0) + int(plan.buy.get("targeted", 0) * aimed), plan.buy.get("complementary", 0)
    questions = plan.buy.get("question", 0)
    n_o, n_c = n_o + round(questions / k), n_c + questions - round(questions / k)
    q = (accuracy + k - 2) / (k - 1)
    if not n_o or not n_c:
        n, p, scale = (n_o, accuracy, 1) if n_o else (n_c, q, k - 1)
        widths = []
        seen, times = np.unique(rng.binomial(n, p, size=worlds), return_counts=True)
        for s in seen:
            found = binomtest(int(s), n).proportion_ci(plan.confidence, method="exact")
            low, high = (min(max(1 - scale * (1 - x), 0.0), 1.0) for x in (found.low, found.high))
            widths.append((high - low) / 2)
        return float(np.average(widths, weights=times))
    return _simulated_pair(plan, n_o, n_c, rng)


def _simulated_pair(plan: Plan, n_o: int, n_c: int, rng: np.random.Generator, worlds: int = 100, draws: int = 4000) -> float:
    """Two kinds: equal-tailed limits, the counts ordered by the slope of the likelihood where it is largest; tails by simulation."""
    k, accuracy, tail = int(plan.inputs["n_classes"]), float(plan.inputs["accuracy"]), (1 - plan.confidence) / 2
    grid = np.linspace(max(0.0, accuracy - 6 * plan.predicted), min(1.0, accuracy + 6 * plan.predicted), 101)[:, None]
    step = (grid[-1, 0] - grid[0, 0]) / (len(grid) - 1)
    ordinary, complementary = (rng.binomial(n, p, (len(grid), draws)) for n, p in ((n_o, grid), (n_c, (grid + k - 2) / (k - 1))))
    widths = []
    for s_o, s_c in zip(rng.binomial(n_o, accuracy, worlds), rng.binomial(n_c, (accuracy + k - 2) / (k - 1), worlds), strict=True):
        likely = _most_likely(k, n_o + n_c, int(s_o), int(s_c))
        at = min(max(likely, 1e-6), 1 - 1e-6)
        weight = at * (k - 1) / (at + k - 2)  # of a complementary success, if an ordinary one weighs 1
        more = ordinary + weight * complementary - (s_o + weight * s_c)
        tie = 1e-6 * weight
        above = (more >= -tie).mean(axis=1) >= tail if likely > 0 else True  # nothing is below an estimate of 0
        kept = grid[((more <= tie).mean(axis=1) >= tail) & above, 0]
        low, high = (kept[0] - step / 2, kept[-1] + step / 2) if len(kept) else (0.0, 0.0)
        widths.append((min(high, 1.0) - max(low, 0.0)) / 2)
    return float(np.mean(widths))


def _most_likely(k: int, n: int, s_o: int, s_c: int) -> float:
    """The larger root of N·A² + β·A + γ = 0 (equation 9)."""
    beta = (k - 2) * (n - s_o - s_c) + (k - 3) * s_o - s_c
    return (math.sqrt(beta**2 + 4 * n * (k - 2) * s_o) - beta) / (2 * n)
