"""Check a plan in another way than it was made: budgets by plain linear algebra, labels by scipy's
Clopper–Pearson and simulation.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noracle.counts.tally import AccuracyCounts, Cell, Label, Tally
from noracle.ppi.labels import simulated_power
from noracle.results import Plan

Array = NDArray[np.float64]
Record = Mapping[str, Any]
Places = Iterable[tuple[int, ...]]
Measured = Sequence[tuple[Record, int]]
_MOST_WRITTEN = 1 << 16
_SAMPLE = 20_000


def verify_budget_plan(plan: Plan) -> bool:
    """Whether everything that the plan says of itself is so."""
    problem = plan.diagnostics["problem"]
    cov, a = (np.array(problem[name], dtype=np.float64) for name in ("covariance", "target"))
    held = [(entry["measurement"], entry["n"]) for entry in problem["have"]]
    bought = [(_named(problem, name), n) for name, n in plan.buy.items()]
    measured = [(one, n) for one, n in bought if one is not None and n >= 2]
    if len(measured) < len(bought):
        return False
    M0 = _total(held, cov)
    variance = _variance(M0 + _total(measured, cov), a)
    z = NormalDist().inv_cdf((1 + plan.confidence) / 2)
    return (
        _close(variance, plan.diagnostics["variance"])
        and _close(z * math.sqrt(variance), plan.predicted)
        and _affordable(plan, problem, measured)
        and _unbiased(plan.diagnostics, measured, M0, cov, a, variance)
        and _proved(plan, problem, M0, cov, a, variance, z)
    )


def _close(value: float, said: float, tolerance: float = 1e-7) -> bool:
    return abs(value - said) <= tolerance * max(abs(value), abs(said))


def _seen(one: Record, cov: Array) -> tuple[Array, Array]:
    """H, and the covariance H Σ Hᵀ + noise of what is seen."""
    H = np.eye(len(cov))[list(one["observes"])]
    if one.get("matrix") is not None:
        H = np.array(one["matrix"], dtype=np.float64)
    seen = H @ cov @ H.T
    if one.get("noise") is not None:
        seen = seen + np.array(one["noise"], dtype=np.float64)
    return H, seen


def _information(one: Record, cov: Array) -> Array:
    """Hᵀ (H Σ Hᵀ + noise)⁻¹ H by an explicit inverse."""
    H, seen = _seen(one, cov)
    return np.asarray(H.T @ np.linalg.inv(seen) @ H, dtype=np.float64)


def _total(measured: Measured, cov: Array) -> Array:
    return sum((n * _information(one, cov) for one, n in measured), np.zeros_like(cov))


def _variance(M: Array, a: Array) -> float:
    """aᵀ M⁺ a by least squares on a unit diagonal; infinite if a is out of reach."""
    d = np.array([1 / math.sqrt(v) if v > 0 else 1.0 for v in np.diag(M)])
    scaled = M * d[:, None] * d
    x = np.linalg.lstsq(scaled, a * d, rcond=1e-11)[0]
    if np.abs(scaled @ x - a * d).max() > 1e-6 * np.abs(a * d).max():
        return math.inf
    return float(a * d @ x)


def _price(entry: Record, places: Sequence[int]) -> list[float]:
    return [
        p["per_item"] + sum(p["sums"][i] for i in places) + max(p["largest"][i] for i in places)
        for p in entry["prices"]
    ]


def _words(problem: Record, family: Record) -> list[str]:
    """What the variables of a family are called in names of sets."""
    names = {i: problem["names"][i][len(family["prefix"]) :] for i in family["variables"]}
    names |= {family["label"]: family["called"]} if family["label"] is not None else {}
    return [names[i] for i in family["variables"]]


def _member(problem: Record, family: Record, places: Sequence[int]) -> dict[str, Any]:
    chosen, words = [family["variables"][p] for p in places], _words(problem, family)
    name = family["prefix"] + "+".join(words[p] for p in places)
    label, extra, noise = family["label"], family["noise"], None
    if label is not None and extra:
        noise = [[extra if i == j == label else 0.0 for j in chosen] for i in chosen]
    cost = _capped(problem, name, _price(family, places))
    return {"name": name, "observes": chosen, "noise": noise, "cost": cost}


def _capped(problem: Record, name: str, cost: Sequence[float]) -> list[float]:
    capped = list(cost)
    if name in problem["set_caps"]:
        capped[problem["set_caps"][name]] = 1.0
    return capped


def _named(problem: Record, name: str) -> dict[str, Any] | None:
    """The measurement of this name, found from its words."""
    for one in problem["listed"]:
        if one["name"] == name:
            return {**one, "cost": _capped(problem, name, one["cost"])}
    for family in problem["families"]:
        if name.startswith(family["prefix"]):
            words, spoken = name[len(family["prefix"]) :].split("+"), _words(problem, family)
            if set(words) <= set(spoken) and (family["label"] is None or family["called"] in words):
                return _member(problem, family, sorted(spoken.index(w) for w in words))
    return None


def _is_free(limit: float | None) -> bool:
    return limit is None or math.isnan(limit)


def _other(k: int, than: int, rng: np.random.Generator) -> int:
    """Another one of k classes, each with the same chance."""
    return int((than + 1 + rng.integers(k - 1)) % k)


def price_of(plan: Plan, name: str) -> float:
    """The price of a measurement in the budget that the plan is about; NaN if there is none."""
    problem = plan.diagnostics["problem"]
    one = _named(problem, name)
    return math.nan if one is None else float(one["cost"][_place(problem)])


def _place(problem: Record) -> int:
    """The budget that a plan is about: the free one, else the first."""
    return next((i for i, v in enumerate(problem["budgets"].values()) if _is_free(v)), 0)


def _affordable(plan: Plan, problem: Record, measured: Measured) -> bool:
    spent = []
    for i, (name, limit) in enumerate(problem["budgets"].items()):
        spent.append(sum(n * one["cost"][i] for one, n in measured))
        if not _is_free(limit) and spent[i] > limit * (1 + 1e-9):
            return False
        if abs(spent[i] - plan.diagnostics["spent"][name]) > 1e-9 * max(1.0, spent[i]):
            return False
    return bool(abs(spent[_place(problem)] - plan.cost) <= 1e-9 * max(1.0, plan.cost))


def _unbiased(
    said: Record, measured: Measured, M0: Array, cov: Array, a: Array, variance: float
) -> bool:
    """The weights sum to the target, and the estimate with these weights has the promised variance."""
    total, spread = np.zeros_like(a), 0.0
    for one, n in measured:
        weights = np.array(list(said["weights"][one["name"]].values()), dtype=np.float64)
        H, seen = _seen(one, cov)
        total += H.T @ weights
        spread += float(weights @ seen @ weights) / n
    hand = [said["weights_in_hand"].get(name, 0.0) for name in said["problem"]["names"]]
    share = np.array(hand, dtype=np.float64)
    # The rows in hand enter with the weights of their own best estimate: its covariance is M0⁺.
    spread += float(share @ np.linalg.lstsq(M0, share, rcond=1e-13)[0]) if share.any() else 0.0
    unbiased = bool(np.abs(total + share - a).max() <= 1e-9 * max(1.0, np.abs(a).max()))
    return unbiased and _close(spread, variance, 1e-6)


def _proved(
    plan: Plan, problem: Record, M0: Array, cov: Array, a: Array, variance: float, z: float
) -> bool:
    said, limits = plan.diagnostics, problem["budgets"]
    y = np.array(said["y"], dtype=np.float64)
    u = np.maximum(np.array([said["prices"][n] for n in limits], dtype=np.float64), 0.0)
    free = [i for i, v in enumerate(limits.values()) if _is_free(v)]
    wanted = (plan.wanted / z) ** 2
    if free and said["least_budget"] == 0:
        return variance <= wanted * (1 + 1e-9)
    f = _largest_ratio(problem, cov, y, u)
    if not (math.isfinite(f) and f > 0):
        return False
    u, held, gain = u * f, float(y @ M0 @ y), float(a @ y)
    paid = sum(u[i] * v for i, v in enumerate(limits.values()) if i not in free)
    if not free:
        bound = gain**2 / (held + paid) if held + paid > 0 else 0.0
        good = bound >= said["lower_bound"] * (1 - 1e-7)
        return bool(good and variance <= bound * (1 + said["gap"]) * (1 + 1e-7))
    if not u[free[0]] > 0:
        return False
    least = (2 * gain - held - paid - wanted) / u[free[0]]
    sets = len(problem["listed"]) + sum(1 << len(f["variables"]) for f in problem["families"])
    tolerance = 1e-3 if sets > _MOST_WRITTEN else 1e-5
    near = abs(least / said["least_budget"] - 1) <= tolerance
    return bool(near and variance <= wanted * (1 + 1e-9))


def _largest_ratio(problem: Record, cov: Array, y: Array, u: Array) -> float:
    """The largest yᵀ G y / (cost · u) over all that was for sale."""
    worst = 0.0
    for one in problem["listed"]:
        paid = float(np.dot(_capped(problem, one["name"], one["cost"]), u))
        worst = max(worst, _ratio(float(y @ _information(one, cov) @ y), paid))
    for family in problem["families"]:
        size = len(family["variables"])
        if 1 << size <= _MOST_WRITTEN:
            sizes = range(1, size + 1)
            every = (s for r in sizes for s in itertools.combinations(range(size), r))
            worst = max(worst, _over(problem, family, every, cov, y, u))
            continue
        rng = np.random.default_rng(0)
        rows = rng.random((_SAMPLE, size)) < rng.random((_SAMPLE, 1))
        drawn = (tuple(np.flatnonzero(row).tolist()) for row in rows if row.any())
        worst = max(worst, _over(problem, family, drawn, cov, y, u), 1.0)
        if size <= 20 and not _bounded(family, cov, y, u, worst * (1 + 1e-3)):
            return math.inf
    return worst


def _ratio(used: float, paid: float) -> float:
    return 0.0 if used <= 0 else used / paid if paid > 0 else math.inf


def _over(problem: Record, family: Record, places: Places, cov: Array, y: Array, u: Array) -> float:
    """The largest ratio over some sets of a family; sets of one size are inverted together."""
    by_size: dict[int, list[tuple[int, ...]]] = {}
    label, at = family["label"], family["variables"]
    for place in places:
        if label is None or label in [at[p] for p in place]:
            by_size.setdefault(len(place), []).append(place)
    worst = 0.0
    for size, members in by_size.items():
        for part in (members[i : i + 4096] for i in range(0, len(members), 4096)):
            index = np.array([[at[p] for p in place] for place in part])
            blocks = cov[index[:, :, None], index[:, None, :]]
            if label is not None:
                noisy = np.einsum("bi,ij->bij", index == label, np.eye(size))
                blocks = blocks + family["noise"] * noisy
            used = np.einsum("bi,bij,bj->b", y[index], np.linalg.inv(blocks), y[index])
            for q, place in zip(used.tolist(), part, strict=True):
                cost = _price(family, place)
                if problem["set_caps"]:
                    cost = _member(problem, family, place)["cost"]
                worst = max(worst, _ratio(q, float(np.dot(cost, u))))
    return worst


def _bounded(family: Record, cov: Array, y: Array, u: Array, f: float) -> bool:
    from noracle.ppi.columns import refute
    from noracle.ppi.measurements import SetPrices

    at = list(family["variables"])
    prices = [SetPrices(**p) for p in family["prices"]]
    found, _, _ = refute(cov[np.ix_(at, at)], y[at], prices, u, f, most_nodes=50_000)
    return not found


def verify_label_plan(plan: Plan) -> bool:
    """Whether the labels give what the plan says, at the price it says."""
    inputs = plan.inputs
    bought: Counter[str] = Counter()
    for name, n in plan.buy.items():
        bought[name.rpartition("/")[2]] += n  # whatever the stratum
    cost = sum(float(inputs["costs"].get(kind, 1.0)) * n for kind, n in bought.items())
    systems = len(inputs.get("by_system") or ())
    most = {kind: n * (systems if kind == "grades" else 1) for kind, n in inputs["caps"].items()}
    too_dear = plan.goal == "budget" and cost > plan.wanted * (1 + 1e-9)
    beyond = any(n > most.get(kind, n) for kind, n in bought.items())
    if abs(cost - plan.cost) > 1e-6 * max(1.0, cost) or beyond or too_dear:
        return False
    if plan.goal in ("half-width", "budget") and _is_drawn(plan):
        return _drawn_holds(plan)
    k, accuracy = int(inputs["n_classes"]), float(inputs["accuracy"])
    if plan.goal == "variance":
        ordinary = accuracy * (1 - accuracy) / int(inputs["match"])
        complementary = (accuracy + k - 2) * (1 - accuracy) / plan.buy["complementary"]
        return complementary <= ordinary * (1 + 1e-9) or accuracy in (0.0, 1.0)
    if plan.goal == "power":
        ((kind, n),) = plan.buy.items()
        apart, differ = float(inputs["difference"]), float(inputs["disagreement"])
        seed = int(inputs["seed"]) + 1
        power = simulated_power(k, apart, differ, kind, n, plan.confidence, seed, worlds=10_000)
        return bool(power >= plan.wanted - 0.04)
    limit = plan.wanted if plan.goal == "half-width" else plan.predicted
    return bool(_simulated_half_width(plan) <= limit * 1.04 + 1e-3)


def _simulated_half_width(plan: Plan, worlds: int = 400) -> float:
    """Mean half-width over simulated labels, by scipy's binomial test or a grid over A."""
    from scipy.stats import binomtest

    inputs = plan.inputs
    k, accuracy = int(inputs["n_classes"]), float(inputs["accuracy"])
    rng = np.random.default_rng(int(inputs["seed"]) + 2)
    aimed = 1 - float(inputs["epsilon"]) + float(inputs["epsilon"]) / k
    bought = Counter(plan.buy) + Counter(inputs.get("have") or {})
    told = round(bought["question"] / k)
    n_o = bought["ordinary"] + int(bought["targeted"] * aimed) + told
    n_c = bought["complementary"] + bought["question"] - told
    if n_o and n_c:
        return _simulated_pair(plan, n_o, n_c, rng)
    n, p, scale = (n_o, accuracy, 1) if n_o else (n_c, (accuracy + k - 2) / (k - 1), k - 1)
    widths = []
    seen, times = np.unique(rng.binomial(n, p, size=worlds), return_counts=True)
    for s in seen:
        found = binomtest(int(s), n).proportion_ci(plan.confidence, method="exact")
        low, high = (min(max(1 - scale * (1 - x), 0.0), 1.0) for x in (found.low, found.high))
        widths.append((high - low) / 2)
    return float(np.average(widths, weights=times))


def _simulated_pair(
    plan: Plan, n_o: int, n_c: int, rng: np.random.Generator, worlds: int = 100, draws: int = 4000
) -> float:
    """Two kinds: counts ordered by the slope of the likelihood, tails by simulation."""
    k, accuracy = int(plan.inputs["n_classes"]), float(plan.inputs["accuracy"])
    tail, far = (1 - plan.confidence) / 2, 6 * plan.predicted
    grid = np.linspace(max(0.0, accuracy - far), min(1.0, accuracy + far), 101)[:, None]
    step = (grid[-1, 0] - grid[0, 0]) / (len(grid) - 1)
    ordinary = rng.binomial(n_o, grid, (len(grid), draws))
    complementary = rng.binomial(n_c, (grid + k - 2) / (k - 1), (len(grid), draws))
    drawn = rng.binomial(n_o, accuracy, worlds)
    others = rng.binomial(n_c, (accuracy + k - 2) / (k - 1), worlds)
    widths = []
    for s_o, s_c in zip(drawn.tolist(), others.tolist(), strict=True):
        likely = _most_likely(k, n_o + n_c, s_o, s_c)
        at = min(max(likely, 1e-6), 1 - 1e-6)
        # The weight of a complementary success, if an ordinary one weighs 1.
        weight = at * (k - 1) / (at + k - 2)
        more = ordinary + weight * complementary - (s_o + weight * s_c)
        tie = 1e-6 * weight
        within = (more <= tie).mean(axis=1) >= tail
        if likely > 0:  # nothing is below an estimate of 0
            within &= (more >= -tie).mean(axis=1) >= tail
        kept = grid[within, 0]
        low, high = (kept[0] - step / 2, kept[-1] + step / 2) if len(kept) else (0.0, 0.0)
        widths.append((min(high, 1.0) - max(low, 0.0)) / 2)
    return float(np.mean(widths))


def _most_likely(k: int, n: int, s_o: int, s_c: int) -> float:
    """The larger root of N·A² + β·A + γ = 0 (equation 9)."""
    beta = (k - 2) * (n - s_o - s_c) + (k - 3) * s_o - s_c
    return (math.sqrt(beta**2 + 4 * n * (k - 2) * s_o) - beta) / (2 * n)


def _is_drawn(plan: Plan) -> bool:
    """Whether a population, several systems or evidence leave no closed form to hold against."""
    inputs = plan.inputs
    counted = inputs.get("planner") == "evidence" or inputs.get("n_items") is not None
    return counted or int(inputs.get("n_systems") or 1) > 1


class _Item(NamedTuple):
    """An item with its place, the answers (of the system in question first) and the true class."""

    cell: Cell
    answers: tuple[int | None, ...]
    truth: int
    propensity: float | None = None


def _drawn_holds(plan: Plan, worlds: int = 16) -> bool:
    """Whether default estimates of drawn labels are as wide as planned, and made as planned."""
    from noracle.accuracy import estimate_accuracy

    rng = np.random.default_rng(int(plan.inputs["seed"]) + 2)
    widths, ways = [], Counter[tuple[str, str]]()
    for _ in range(worlds):
        counts = _drawn(plan, rng)
        found = estimate_accuracy(counts, confidence=plan.confidence, checks="none")
        widths.append((found.high - found.low) / 2)
        ways[found.method, found.interval] += 1
    told = plan.inputs["estimator"]["method"], plan.inputs["estimator"]["interval"]
    limit = plan.wanted if plan.goal == "half-width" and not plan.reason else plan.predicted
    as_said = ways.most_common(1)[0][0] == told == (plan.method, plan.interval)
    return bool(as_said and np.median(widths) <= limit * 1.06 + 1e-3)


def _drawn(plan: Plan, rng: np.random.Generator) -> AccuracyCounts:
    """Counts of one system over items, answers and labels that are drawn as the plan supposes them."""
    inputs = plan.inputs
    name, buy, have = "system", plan.buy, dict(inputs.get("have") or {})
    whole, held = inputs.get("n_items") is not None, Counter[Tally]()
    if inputs.get("planner") == "evidence":
        counts = AccuracyCounts.from_dict(inputs["evidence"])
        rows: Record = inputs["by_system"]
        name = max(rows, key=lambda s: (rows[s]["n"], rows[s]["predicted"], s))
        own, n = counts.of(name), int(rows[name]["n"])
        if not own.whole:  # a sample of more items, as many as are wanted
            more = {cell: size + n for cell, size in own.answered.items()}
            own = dataclasses.replace(own, items=more, answered=more)
        items = _left_items(own, float(rows[name]["accuracy"]), rng)
        sizes, answered, whole, have = own.items, own.answered, counts.whole, {}
        held.update(own.tallies)
        buy = {"grades": n} if "grades" in buy else buy
    else:
        items = _new_items(plan, rng)
        sizes = answered = Counter(item.cell for item in items)
    pool = [items[i] for i in rng.permutation(len(items))]
    epsilon = float(inputs["epsilon"])
    for kind_of, n in (*have.items(), *buy.items()):
        stratum, _, kind = kind_of.rpartition("/")
        fit = [i for i, item in enumerate(pool) if not stratum or item.cell.stratum == stratum]
        mine = [i for i in fit if kind != "grades" or pool[i].answers[0] is not None][: int(n)]
        for item in [pool[i] for i in mine]:
            label, answer = _label(item, kind, epsilon, rng), item.answers[0]
            if label is not None:
                met = label.meet(answer, system=name, chance=_chance(item, answer, epsilon))
                held[met._replace(stratum=item.cell.stratum, weight=item.cell.weight)] += 1
        taken = set(mine)
        pool = [item for i, item in enumerate(pool) if i not in taken]
    recorded = any(t.design == "recorded" for t in held)
    known: dict[str, Any] = {"items": sizes, "answered": answered, "whole": whole}
    known["propensities"] = "recorded" if recorded else "none"
    return AccuracyCounts(tallies=dict(held), **known)


def _label(item: _Item, kind: str, epsilon: float, rng: np.random.Generator) -> Label | None:
    """What somebody who knows the truth says about an item."""
    k = item.cell.n_classes
    if kind == "grades":
        return Label.grade("yes" if item.answers[0] == item.truth else "no", n_classes=k)
    asked, propensity = item.truth, None
    if kind == "targeted":
        asked, propensity = _targeted_class(item, epsilon, rng)
    elif kind != "ordinary":
        asked = int(rng.integers(k))
        if kind == "complementary" and asked == item.truth:
            asked = _other(k, item.truth, rng)
    said = [(asked, "yes" if asked == item.truth else "no", propensity)]
    return Label.of(said, n_classes=k, recorded=propensity is not None)  # type: ignore[arg-type]


def _targeted_class(item: _Item, epsilon: float, rng: np.random.Generator) -> tuple[int, float]:
    k, given = item.cell.n_classes, [a for a in item.answers if a is not None]
    if item.propensity is not None and item.answers[0] is not None:
        if rng.random() < item.propensity:
            return item.answers[0], item.propensity
        return _other(k, item.answers[0], rng), (1 - item.propensity) / (k - 1)
    uniform = rng.random() < epsilon or not given
    asked = int(rng.integers(k)) if uniform else given[int(rng.integers(len(given)))]
    return asked, _chance(item, asked, epsilon)


def _chance(item: _Item, asked: int | None, epsilon: float) -> float:
    """How likely a question by votes is about this class."""
    k, given = item.cell.n_classes, [a for a in item.answers if a is not None]
    if item.propensity is not None and asked == item.answers[0]:
        return item.propensity
    votes = sum(a == asked for a in given) / len(given) if given else 1 / k
    return (1 - epsilon) * votes + epsilon / k


def _new_items(plan: Plan, rng: np.random.Generator) -> list[_Item]:
    """The items of a plan that starts from numbers, with as many right answers as guessed."""
    inputs, told = plan.inputs, plan.inputs["n_classes"]
    labels = sum(plan.buy.values()) + sum((inputs.get("have") or {}).values())
    total = int(inputs.get("n_items") or 4 * labels)
    mix = told if isinstance(told, Mapping) else {told: total}
    mix = {int(k): int(n) for k, n in mix.items()}
    strata = inputs.get("strata") or {"": total}
    each = (np.repeat(list(of), list(of.values())) for of in (mix, strata))
    classes, names = map(rng.permutation, each)
    accuracy, systems = float(inputs["accuracy"]), int(inputs.get("n_systems") or 1)
    right = rng.random((total, systems)) < accuracy
    right[:, 0] = rng.permutation(np.arange(total) < round(accuracy * total))
    items = []
    for k, name, row in zip(classes.tolist(), names.tolist(), right.tolist(), strict=True):
        truth = int(rng.integers(k))
        answers = tuple(truth if good else _other(k, truth, rng) for good in row)
        items.append(_Item(Cell("system", k, str(name)), answers, truth))
    return items


def _left_items(counts: AccuracyCounts, accuracy: float, rng: np.random.Generator) -> list[_Item]:
    """The items without a label, their answers right with the probability that was guessed."""
    from noracle.ppi.expected import aimed_votes, by_cell, held_votes

    votes, asked = held_votes(counts.tallies, aimed_votes(0.05)), by_cell(counts.tallies)
    met = by_cell({t: n for t, n in counts.tallies.items() if t.answered})
    items = []
    for cell, n in counts.items.items():
        k = max(cell.n_classes, 2)  # of answers that are graded only right and wrong are told apart
        law = votes(k, accuracy)
        chances = np.array([v.share for v in law]) / sum(v.share for v in law)
        left = max(0, n - asked[cell])
        there = rng.permutation(np.arange(left) < counts.answered.get(cell, 0) - met[cell])
        for i, drawn in enumerate(rng.choice(len(law), size=left, p=chances)):
            truth = int(rng.integers(k))
            good = rng.random() < law[drawn].right
            answer = truth if good else _other(k, truth, rng)
            items.append(_Item(cell, (answer if there[i] else None,), truth, law[drawn].propensity))
    return items
