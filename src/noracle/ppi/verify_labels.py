"""Check a plan of labels in another way than it was made: scipy's Clopper–Pearson, items and labels
drawn at random, plain arithmetic.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from noracle.counts.label import Cell, Label, Tally
from noracle.counts.tallies import AccuracyCounts
from noracle.ppi.power import simulated_power
from noracle.results import Plan


def verify_label_plan(plan: Plan) -> bool:
    """Whether the labels give what the plan says, at the price it says."""
    inputs = plan.inputs
    bought = _by_kind(plan.buy)
    cost = sum(float(inputs["costs"].get(kind, 1.0)) * n for kind, n in bought.items())
    most = {
        kind: n * (len(inputs.get("by_system") or ()) if kind == "grades" else 1)
        for kind, n in inputs["caps"].items()
    }
    if abs(cost - plan.cost) > 1e-6 * max(1.0, cost) or any(
        n > most.get(kind, n) for kind, n in bought.items()
    ):
        return False
    if plan.goal in ("half-width", "budget") and _is_drawn(plan):
        return not (plan.goal == "budget" and cost > plan.wanted * (1 + 1e-9)) and _drawn_holds(
            plan
        )
    k, accuracy = int(inputs["n_classes"]), float(inputs["accuracy"])
    if plan.goal == "variance":
        n_c, n_o = plan.buy["complementary"], int(inputs["match"])
        ordinary, complementary = (
            accuracy * (1 - accuracy) / n_o,
            (accuracy + k - 2) * (1 - accuracy) / n_c,
        )
        return complementary <= ordinary * (1 + 1e-9) or accuracy in (0.0, 1.0)
    if plan.goal == "power":
        ((kind, n),) = plan.buy.items()
        again = simulated_power(
            k,
            float(inputs["difference"]),
            float(inputs["disagreement"]),
            kind,
            n,
            plan.confidence,
            int(inputs["seed"]) + 1,
            worlds=10_000,
        )
        return bool(again >= plan.wanted - 0.04)
    if plan.goal == "budget" and cost > plan.wanted * (1 + 1e-9):
        return False
    again = _simulated_half_width(plan)
    limit = plan.wanted if plan.goal == "half-width" else plan.predicted
    return bool(again <= limit * 1.04 + 1e-3)


def _simulated_half_width(plan: Plan, worlds: int = 400) -> float:
    """Mean half-width over simulated labels, each interval by scipy's binomial test or, for two
    kinds, by a grid over A.
    """
    from scipy.stats import binomtest

    inputs = plan.inputs
    k, accuracy = int(inputs["n_classes"]), float(inputs["accuracy"])
    rng = np.random.default_rng(int(inputs["seed"]) + 2)
    aimed = 1 - float(inputs["epsilon"]) + float(inputs["epsilon"]) / k
    bought = Counter({**plan.buy}) + Counter(
        {kind: int(n) for kind, n in (inputs.get("have") or {}).items()}
    )
    n_o, n_c = bought["ordinary"] + int(bought["targeted"] * aimed), bought["complementary"]
    questions = bought["question"]
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


def _simulated_pair(
    plan: Plan, n_o: int, n_c: int, rng: np.random.Generator, worlds: int = 100, draws: int = 4000
) -> float:
    """Two kinds: equal-tailed limits, the counts ordered by the slope of the likelihood where it is
    largest; tails by simulation.
    """
    k, accuracy, tail = (
        int(plan.inputs["n_classes"]),
        float(plan.inputs["accuracy"]),
        (1 - plan.confidence) / 2,
    )
    grid = np.linspace(
        max(0.0, accuracy - 6 * plan.predicted), min(1.0, accuracy + 6 * plan.predicted), 101
    )[:, None]
    step = (grid[-1, 0] - grid[0, 0]) / (len(grid) - 1)
    ordinary, complementary = (
        rng.binomial(n, p, (len(grid), draws))
        for n, p in ((n_o, grid), (n_c, (grid + k - 2) / (k - 1)))
    )
    widths = []
    for s_o, s_c in zip(
        rng.binomial(n_o, accuracy, worlds),
        rng.binomial(n_c, (accuracy + k - 2) / (k - 1), worlds),
        strict=True,
    ):
        likely = _most_likely(k, n_o + n_c, int(s_o), int(s_c))
        at = min(max(likely, 1e-6), 1 - 1e-6)
        weight = (
            at * (k - 1) / (at + k - 2)
        )  # of a complementary success, if an ordinary one weighs 1
        more = ordinary + weight * complementary - (s_o + weight * s_c)
        tie = 1e-6 * weight
        above = (
            (more >= -tie).mean(axis=1) >= tail if likely > 0 else True
        )  # nothing is below an estimate of 0
        kept = grid[((more <= tie).mean(axis=1) >= tail) & above, 0]
        low, high = (kept[0] - step / 2, kept[-1] + step / 2) if len(kept) else (0.0, 0.0)
        widths.append((min(high, 1.0) - max(low, 0.0)) / 2)
    return float(np.mean(widths))


def _most_likely(k: int, n: int, s_o: int, s_c: int) -> float:
    """The larger root of N·A² + β·A + γ = 0 (equation 9)."""
    beta = (k - 2) * (n - s_o - s_c) + (k - 3) * s_o - s_c
    return (math.sqrt(beta**2 + 4 * n * (k - 2) * s_o) - beta) / (2 * n)


# -------------------------------------------------------------------------------------------------------
# items drawn at random


def _by_kind(buy: Mapping[str, int]) -> Counter[str]:
    """Labels by kind, whatever their stratum."""
    found: Counter[str] = Counter()
    for name, n in buy.items():
        found[name.rpartition("/")[2]] += n
    return found


def _is_drawn(plan: Plan) -> bool:
    """Whether the plan has a population, several systems or evidence, so that no closed form is
    there to hold it against.
    """
    inputs = plan.inputs
    return (
        inputs.get("planner") == "evidence"
        or inputs.get("n_items") is not None
        or int(inputs.get("n_systems") or 1) > 1
    )


class _Item(NamedTuple):
    """An item with its place, the answers to it (the first system is the one in question) and the
    true class.
    """

    cell: Cell
    answers: tuple[int | None, ...]
    truth: int
    propensity: float | None = None


def _drawn_holds(plan: Plan, worlds: int = 16) -> bool:
    """Whether the mean half-width of default estimates is as planned, and made as planned, over
    labels that are drawn item by item.
    """
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
    if inputs.get("planner") == "evidence":
        counts = AccuracyCounts.from_dict(inputs["evidence"])
        rows: Mapping[str, Any] = inputs["by_system"]
        name = max(rows, key=lambda s: (rows[s]["n"], rows[s]["predicted"], s))
        own = counts.of(name)
        if not own.whole:  # a sample of more items, as many as are wanted
            more = {cell: n + int(rows[name]["n"]) for cell, n in own.answered.items()}
            own = dataclasses.replace(own, items=more, answered=more)
        items, held = _left_items(own, float(rows[name]["accuracy"]), rng), Counter(own.tallies)
        sizes, answered, whole, have = own.items, own.answered, counts.whole, {}
    else:
        items, held = _new_items(plan, rng), Counter[Tally]()
        sizes = answered = Counter(item.cell for item in items)
        whole, have, name = (
            inputs.get("n_items") is not None,
            dict(inputs.get("have") or {}),
            "system",
        )
    pool = [items[i] for i in rng.permutation(len(items))]
    epsilon = float(inputs["epsilon"])
    buy = {"grades": int(inputs["by_system"][name]["n"])} if "grades" in plan.buy else plan.buy
    for wanted in (have, buy):
        for name_of_kind, n in wanted.items():
            stratum, _, kind = name_of_kind.rpartition("/")
            fit = [i for i, item in enumerate(pool) if not stratum or item.cell.stratum == stratum]
            mine = [i for i in fit if kind != "grades" or pool[i].answers[0] is not None][: int(n)]
            for i, label in _labels(pool, mine, kind, epsilon, rng):
                item = pool[i]
                met = label.meet(
                    item.answers[0], system=name, chance=_chance(item, item.answers[0], epsilon)
                )
                held[met._replace(stratum=item.cell.stratum, weight=item.cell.weight)] += 1
            taken = set(mine)
            pool = [item for i, item in enumerate(pool) if i not in taken]
    recorded = any(t.design == "recorded" for t in held)
    return AccuracyCounts(
        tallies=dict(held),
        items=sizes,
        answered=answered,
        whole=whole,
        propensities="recorded" if recorded else "none",
    )


def _labels(
    pool: Sequence[_Item],
    chosen: Sequence[int],
    kind: str,
    epsilon: float,
    rng: np.random.Generator,
) -> Iterator[tuple[int, Label]]:
    """What somebody who knows the truth says about these items."""
    for i in chosen:
        item = pool[i]
        k = item.cell.n_classes
        if kind == "grades":
            yield i, Label.grade("yes" if item.answers[0] == item.truth else "no", n_classes=k)
            continue
        if kind == "ordinary":
            asked, propensity = item.truth, None
        elif kind == "targeted":
            asked, propensity = _targeted_class(item, epsilon, rng)
        else:
            asked, propensity = int(rng.integers(k)), None
            if kind == "complementary" and asked == item.truth:
                asked = int((item.truth + 1 + rng.integers(k - 1)) % k)
        said = [(asked, "yes" if asked == item.truth else "no", propensity)]
        label = Label.of(said, n_classes=k, recorded=propensity is not None)  # type: ignore[arg-type]
        if label is not None:
            yield i, label


def _targeted_class(item: _Item, epsilon: float, rng: np.random.Generator) -> tuple[int, float]:
    k, given = item.cell.n_classes, [a for a in item.answers if a is not None]
    if item.propensity is not None and item.answers[0] is not None:
        if rng.random() < item.propensity:
            return item.answers[0], item.propensity
        return int((item.answers[0] + 1 + rng.integers(k - 1)) % k), (1 - item.propensity) / (k - 1)
    asked = (
        int(rng.integers(k))
        if rng.random() < epsilon or not given
        else given[int(rng.integers(len(given)))]
    )
    return asked, _chance(item, asked, epsilon)


def _chance(item: _Item, asked: int | None, epsilon: float) -> float:
    """How likely a question by votes is about this class."""
    k, given = item.cell.n_classes, [a for a in item.answers if a is not None]
    if item.propensity is not None and asked == item.answers[0]:
        return item.propensity
    return (1 - epsilon) * (
        sum(a == asked for a in given) / len(given) if given else 1 / k
    ) + epsilon / k


def _new_items(plan: Plan, rng: np.random.Generator) -> list[_Item]:
    """The population of a plan that starts from numbers: as many right answers as guessed, up to
    rounding, in every world.
    """
    inputs = plan.inputs
    told = inputs["n_classes"]
    total = int(
        inputs.get("n_items")
        or 4 * (sum(plan.buy.values()) + sum((inputs.get("have") or {}).values()))
    )
    mix = (
        {int(k): int(n) for k, n in told.items()}
        if isinstance(told, Mapping)
        else {int(told): total}
    )
    strata = inputs.get("strata") or {"": total}
    classes, names = (
        rng.permutation(np.repeat(list(of), list(of.values()))) for of in (mix, strata)
    )
    systems = int(inputs.get("n_systems") or 1)
    right = rng.random((total, systems)) < float(inputs["accuracy"])
    right[:, 0] = rng.permutation(np.arange(total) < round(float(inputs["accuracy"]) * total))
    items = []
    for k, name, row in zip(classes.tolist(), names.tolist(), right.tolist(), strict=True):
        truth = int(rng.integers(k))
        answers = tuple(
            truth if good else int((truth + 1 + rng.integers(k - 1)) % k) for good in row
        )
        items.append(_Item(Cell("system", k, str(name)), answers, truth))
    return items


def _left_items(counts: AccuracyCounts, accuracy: float, rng: np.random.Generator) -> list[_Item]:
    """The items without a label, their answers right with the probability that was guessed."""
    from noracle.ppi.expected import aimed_votes, held_votes

    votes = held_votes(counts.tallies, aimed_votes(0.05))
    asked: Counter[Cell] = Counter()
    met: Counter[Cell] = Counter()
    for t, n in counts.tallies.items():
        asked[Cell(t.system, t.n_classes, t.stratum, t.weight)] += n
        met[Cell(t.system, t.n_classes, t.stratum, t.weight)] += n * t.answered
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
            answer = truth if good else int((truth + 1 + rng.integers(k - 1)) % k)
            items.append(_Item(cell, (answer if there[i] else None,), truth, law[drawn].propensity))
    return items
