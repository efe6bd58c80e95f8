"""Check a budget plan without the code that made it: plain linear algebra on the stored numbers,
and all sets written down.

The variance, the weights, the costs and the certificate are computed again from the covariance in
the plan. The lower bound is taken over every set that was for sale: one by one up to 2^16 sets;
beyond that by branch and bound (up to 20 variables, where the planner swept), or on a large random
sample of sets, which can only refute.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noracle.results import Plan

Array = NDArray[np.float64]
_MOST_WRITTEN = 1 << 16
_SAMPLE = 20_000


def verify_budget_plan(plan: Plan) -> bool:
    """Whether everything that the plan says of itself is so."""
    said = plan.diagnostics
    problem = said["problem"]
    cov, a = (
        np.array(problem["covariance"], dtype=np.float64),
        np.array(problem["target"], dtype=np.float64),
    )
    M0 = _in_hand(problem, cov)
    bought = {name: _named(problem, name) for name in plan.buy}
    if any(one is None for one in bought.values()) or any(n < 2 for n in plan.buy.values()):
        return False
    measured = [
        (one, n)
        for one, n in zip(bought.values(), plan.buy.values(), strict=True)
        if one is not None
    ]
    M = M0 + sum((n * _information(one, cov) for one, n in measured), np.zeros_like(cov))
    variance = _variance(M, a)
    z = NormalDist().inv_cdf((1 + plan.confidence) / 2)
    return (
        _close(variance, said["variance"])
        and _close(z * math.sqrt(variance), plan.predicted)
        and _affordable(plan, problem, measured)
        and _unbiased(said, measured, problem, M0, cov, a, variance)
        and _proved(plan, problem, M0, cov, a, variance, z)
    )


def _close(value: float, said: float, tolerance: float = 1e-7) -> bool:
    return abs(value - said) <= tolerance * max(abs(value), abs(said))


def _information(one: Mapping[str, Any], cov: Array) -> Array:
    """Hᵀ (H Σ Hᵀ + noise)⁻¹ H by an explicit inverse."""
    H = (
        np.zeros((len(one["observes"]), len(cov)))
        if one.get("matrix") is None
        else np.array(one["matrix"], dtype=np.float64)
    )
    if one.get("matrix") is None:
        for row, i in enumerate(one["observes"]):
            H[row, i] = 1.0
    seen = H @ cov @ H.T
    if one.get("noise") is not None:
        seen = seen + np.array(one["noise"], dtype=np.float64)
    return np.asarray(H.T @ np.linalg.inv(seen) @ H, dtype=np.float64)


def _in_hand(problem: Mapping[str, Any], cov: Array) -> Array:
    M = np.zeros_like(cov)
    for entry in problem["have"]:
        M += entry["n"] * _information(entry["measurement"], cov)
    return M


def _variance(M: Array, a: Array) -> float:
    """aᵀ M⁺ a by least squares on a unit diagonal; infinite if a is out of reach."""
    d = np.array([1 / math.sqrt(v) if v > 0 else 1.0 for v in np.diag(M)])
    scaled = M * d[:, None] * d
    x = np.linalg.lstsq(scaled, a * d, rcond=1e-11)[0]
    if np.abs(scaled @ x - a * d).max() > 1e-6 * np.abs(a * d).max():
        return math.inf
    return float(a * d @ x)


# --------------------------------------------------------------------------------------------------------------
# what is sold


def _price(entry: Mapping[str, Any], places: Sequence[int]) -> list[float]:
    return [
        p["per_item"]
        + sum(p["sums"][i] for i in places)
        + max((p["largest"][i] for i in places), default=0.0)
        for p in entry["prices"]
    ]


def _member(
    problem: Mapping[str, Any], family: Mapping[str, Any], places: Sequence[int]
) -> dict[str, Any]:
    chosen = [family["variables"][p] for p in places]
    label = family["label"]
    words = [
        family["called"] if i == label else problem["names"][i][len(family["prefix"]) :]
        for i in chosen
    ]
    name = family["prefix"] + "+".join(words)
    noise = None
    if label is not None and family["noise"]:
        noise = [[family["noise"] if i == j == label else 0.0 for j in chosen] for i in chosen]
    return {
        "name": name,
        "observes": chosen,
        "noise": noise,
        "cost": _capped(problem, name, _price(family, places)),
    }


def _capped(problem: Mapping[str, Any], name: str, cost: Sequence[float]) -> list[float]:
    capped = list(cost)
    if name in problem["set_caps"]:
        capped[problem["set_caps"][name]] = 1.0
    return capped


def _named(problem: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The measurement of this name, found from its words."""
    for one in problem["listed"]:
        if one["name"] == name:
            return {**one, "cost": _capped(problem, name, one["cost"])}
    for family in problem["families"]:
        if not name.startswith(family["prefix"]):
            continue
        words = name[len(family["prefix"]) :].split("+")
        spoken = [
            family["called"]
            if i == family["label"]
            else problem["names"][i][len(family["prefix"]) :]
            for i in family["variables"]
        ]
        if set(words) <= set(spoken) and (family["label"] is None or family["called"] in words):
            return _member(problem, family, sorted(spoken.index(w) for w in words))
    return None


def price_of(plan: Plan, name: str) -> float:
    """The price of one measurement of this name in the budget that the plan is about; NaN if there
    is none.
    """
    problem = plan.diagnostics["problem"]
    one = _named(problem, name)
    limits = list(problem["budgets"].values())
    place = next((i for i, v in enumerate(limits) if v is None or math.isnan(v)), 0)
    return math.nan if one is None else float(one["cost"][place])


def _affordable(
    plan: Plan, problem: Mapping[str, Any], measured: Sequence[tuple[Mapping[str, Any], int]]
) -> bool:
    names = list(problem["budgets"])
    spent = [sum(n * one["cost"][i] for one, n in measured) for i in range(len(names))]
    for i, (name, limit) in enumerate(problem["budgets"].items()):
        free = limit is None or math.isnan(limit)
        if not free and spent[i] > limit * (1 + 1e-9):
            return False
        if abs(spent[i] - plan.diagnostics["spent"][name]) > 1e-9 * max(1.0, spent[i]):
            return False
    free_names = [n for n, v in problem["budgets"].items() if v is None or math.isnan(v)]
    place = names.index(free_names[0]) if free_names else 0
    return bool(abs(spent[place] - plan.cost) <= 1e-9 * max(1.0, plan.cost))


# --------------------------------------------------------------------------------------------------------------
# unbiasedness


def _unbiased(
    said: Mapping[str, Any],
    measured: Sequence[tuple[Mapping[str, Any], int]],
    problem: Mapping[str, Any],
    M0: Array,
    cov: Array,
    a: Array,
    variance: float,
) -> bool:
    """The weights sum to the target, and the estimate with these weights has the promised variance."""
    total = np.zeros_like(a)
    spread = 0.0
    for one, n in measured:
        weights = np.array(list(said["weights"][one["name"]].values()), dtype=np.float64)
        H = (
            np.eye(len(a))[list(one["observes"])]
            if one.get("matrix") is None
            else np.array(one["matrix"], dtype=np.float64)
        )
        seen = H @ cov @ H.T + (
            0.0 if one.get("noise") is None else np.array(one["noise"], dtype=np.float64)
        )
        total += H.T @ weights
        spread += float(weights @ seen @ weights) / n
    share = np.array(
        [said["weights_in_hand"].get(name, 0.0) for name in problem["names"]], dtype=np.float64
    )
    # The rows in hand enter with the weights of their own best estimate: its covariance is M0⁺.
    spread += float(share @ np.linalg.lstsq(M0, share, rcond=1e-13)[0]) if share.any() else 0.0
    return bool(np.abs(total + share - a).max() <= 1e-9 * max(1.0, np.abs(a).max())) and _close(
        spread, variance, 1e-6
    )


# ---------------------------------------------------------------------------------------------------------------
# certificate


def _proved(
    plan: Plan,
    problem: Mapping[str, Any],
    M0: Array,
    cov: Array,
    a: Array,
    variance: float,
    z: float,
) -> bool:
    said = plan.diagnostics
    names = list(problem["budgets"])
    y = np.array(said["y"], dtype=np.float64)
    u = np.maximum(np.array([said["prices"][n] for n in names], dtype=np.float64), 0.0)
    limits = [problem["budgets"][n] for n in names]
    free = [i for i, v in enumerate(limits) if v is None or math.isnan(v)]
    if free and said["least_budget"] == 0:
        return variance <= (plan.wanted / z) ** 2 * (1 + 1e-9)
    f = _largest_ratio(problem, cov, y, u)
    if not (math.isfinite(f) and f > 0):
        return False
    u = u * f
    held = float(y @ M0 @ y)
    if not free:
        total = held + float(np.dot(u, limits))
        bound = float(a @ y) ** 2 / total if total > 0 else 0.0
        return bool(
            bound >= said["lower_bound"] * (1 - 1e-7)
            and variance <= bound * (1 + said["gap"]) * (1 + 1e-7)
        )
    wanted = (plan.wanted / z) ** 2
    others = sum(u[i] * limits[i] for i in range(len(names)) if i not in free)
    if not u[free[0]] > 0:
        return False
    least = (2 * float(a @ y) - held - others - wanted) / u[free[0]]
    tolerance = 1e-3 if _total_sets(problem) > _MOST_WRITTEN else 1e-5
    return bool(
        variance <= wanted * (1 + 1e-9) and abs(least / said["least_budget"] - 1) <= tolerance
    )


def _total_sets(problem: Mapping[str, Any]) -> int:
    return len(problem["listed"]) + sum(1 << len(f["variables"]) for f in problem["families"])


def _largest_ratio(problem: Mapping[str, Any], cov: Array, y: Array, u: Array) -> float:
    """The largest yᵀ G y / (cost · u) over all that was for sale."""
    worst = 0.0
    for one in problem["listed"]:
        used = float(y @ _information(one, cov) @ y)
        paid = float(np.dot(_capped(problem, one["name"], one["cost"]), u))
        worst = max(worst, _ratio(used, paid))
    for family in problem["families"]:
        size = len(family["variables"])
        if 1 << size <= _MOST_WRITTEN:
            worst = max(worst, _over(problem, family, _all_places(size), cov, y, u))
            continue
        rng = np.random.default_rng(0)
        drawn = (
            tuple(np.flatnonzero(row).tolist())
            for row in rng.random((_SAMPLE, size)) < rng.random((_SAMPLE, 1))
        )
        worst = max(worst, _over(problem, family, (d for d in drawn if d), cov, y, u), 1.0)
        if size <= 20 and not _bounded(family, cov, y, u, worst * (1 + 1e-3)):
            return math.inf
    return worst


def _ratio(used: float, paid: float) -> float:
    return 0.0 if used <= 0 else used / paid if paid > 0 else math.inf


def _all_places(size: int) -> Iterator[tuple[int, ...]]:
    return itertools.chain.from_iterable(
        itertools.combinations(range(size), r) for r in range(1, size + 1)
    )


def _over(
    problem: Mapping[str, Any],
    family: Mapping[str, Any],
    places: Iterator[tuple[int, ...]],
    cov: Array,
    y: Array,
    u: Array,
) -> float:
    """The largest ratio over some sets of a family; sets of one size are inverted together."""
    by_size: dict[int, list[tuple[int, ...]]] = {}
    label = family["label"]
    for place in places:
        if label is None or label in [family["variables"][p] for p in place]:
            by_size.setdefault(len(place), []).append(place)
    worst = 0.0
    for members in by_size.values():
        for start in range(0, len(members), 4096):
            part = members[start : start + 4096]
            index = np.array([[family["variables"][p] for p in place] for place in part])
            blocks = cov[index[:, :, None], index[:, None, :]] + (
                0.0
                if label is None
                else family["noise"]
                * np.einsum("bi,ij->bij", index == label, np.eye(index.shape[1]))
            )
            values = y[index]
            used = np.einsum("bi,bij,bj->b", values, np.linalg.inv(blocks), values)
            if problem["set_caps"]:
                paid = np.array(
                    [np.dot(_member(problem, family, place)["cost"], u) for place in part]
                )
            else:
                paid = np.array([np.dot(_price(family, place), u) for place in part])
            worst = max(
                worst, *(_ratio(float(q), float(p)) for q, p in zip(used, paid, strict=True))
            )
    return worst


def _bounded(family: Mapping[str, Any], cov: Array, y: Array, u: Array, f: float) -> bool:
    from noracle.ppi.columns import refute
    from noracle.ppi.measurements import SetPrices

    at = list(family["variables"])
    prices = [
        SetPrices(per_item=p["per_item"], sums=tuple(p["sums"]), largest=tuple(p["largest"]))
        for p in family["prices"]
    ]
    found, _, _ = refute(cov[np.ix_(at, at)], y[at], prices, u, f, most_nodes=50_000)
    return not found
