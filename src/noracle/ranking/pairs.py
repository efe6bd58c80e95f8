"""Which pair next, and who compares it: verdicts where they separate the systems that matter."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from noracle.errors import require
from noracle.evidence.preferences import Codes, Preferences
from noracle.ranking.rank import Names, Position, divided, fitted, rank_systems
from noracle.ranking.strength import Floats, Strengths, chances, judged_pairs
from noracle.results import Assumption, Guarantee, Kind, Plan, choose

PairGoal = Literal["best", "all"]
PEOPLE, JUDGE = "people", "judge"
_STEPS = 400
_POWER = 4  # of the norm that stands for "the largest"
METHOD = "greedy by information for its price"


class PairState(NamedTuple):
    """What is known of each pair: verdicts of people, comparisons of the judge, and the information
    of a verdict about the difference of strengths; ``explained`` is the judge's share of a win.
    """

    low: Codes
    high: Codes
    people: Floats
    judged: Floats
    information: Floats
    explained: float

    def worth(self, people: Floats, judged: Floats) -> Floats:
        """How much information the verdicts of each pair hold, with the judge's help."""
        unseen = np.maximum(0.0, 1 - people / np.maximum(judged, 1.0)) * (judged > 0)
        return np.asarray(self.information * people / (1 - self.explained * unseen))

    def differences(self, size: int) -> Floats:
        """One row per pair: 1 for the one system, -1 for the other."""
        rows = np.arange(len(self.low))
        found = np.zeros((len(self.low), size))
        found[rows, self.low], found[rows, self.high] = 1.0, -1.0
        return found


def plan_pairs(
    preferences: Preferences,
    *,
    budget: float,
    judge: Names = None,
    costs: Mapping[str, float] | None = None,
    goal: PairGoal = "best",
    position: Position = "adjust",
    confidence: float = 0.95,
    seed: int = 0,
) -> Plan:
    """Which pairs to compare next, and by whom: people, or the judge that helps them.

    A verdict is bought where it lowers most, for its price, the variances of the differences that
    are still open: Σ (Var(β_i - β_j)/E(β_i - β_j)²)⁴, which nearly is the largest of these.

    Parameters
    ----------
    preferences
        The verdicts so far; they must compare all systems, at least over others.
    budget
        What may be spent; without ``costs`` the number of verdicts of people.
    judge, position
        As in :func:`rank_systems`.
    costs
        The prices of a verdict: ``{"people": 1.0, "judge": 0.02}``; by default these, with a judge.
    goal
        ``best``: separate the best from all others. ``all``: separate all.
    confidence
        Differences that are separated at this confidence are not open.
    seed
        For the draw of the questions.

    Returns
    -------
    Plan
        ``buy`` counts verdicts by pair (and rater), ``predicted`` is the largest standard error of an
        open difference of strengths. ``diagnostics["questions"]`` are columns ``item``, ``first``,
        ``second`` and ``rater``: what to ask, in random order, each pair in both orders equally
        often. An item that is None is one that is new.

    Notes
    -----
    With v the information of a verdict, n of people and N of the judge on a pair, the information is
    n·v/(1 - r²·(1 - n/N)), r² being the share of a win that the judge explains (MultiPPI's variance
    of a mean with a control variate). Strengths are taken as they seem, a gap of theirs with its
    standard error added.

    Assumes that the model of :func:`rank_systems` is nearly right; a plan that errs costs verdicts
    and breaks no interval. That pairs are chosen by what was said before leaves the intervals of
    :func:`rank_systems` as they are, if items are drawn at random, as here, and the number of looks
    is shared among them: ten looks at 0.995 hold together at 0.95.

    References
    ----------
    Glynn and Juneja (2004), Proc. Winter Simulation Conference, 39-47; Chaloner and Verdinelli
    (1995), Statist. Sci. 10, 273-304.

    Examples
    --------
    >>> rows = [(x, y) for x, y, n in (("a", "b", 12), ("b", "a", 8), ("a", "c", 19), ("c", "a", 1),
    ...                                ("b", "c", 18), ("c", "b", 2)) for _ in range(n)]
    >>> table = {"item": list(range(len(rows))), "first": [min(r) if i % 2 else max(r) for i, r in enumerate(rows)],
    ...          "second": [max(r) if i % 2 else min(r) for i, r in enumerate(rows)], "winner": [x for x, _ in rows]}
    >>> plan = plan_pairs(Preferences.from_table(table), budget=30)
    >>> max(plan.buy, key=plan.buy.get), sum(plan.buy.values()), plan.verify()
    ('a / b', 30, True)
    """
    choose("goal", goal, ("best", "all"))
    require(
        isinstance(budget, (int, float)) and 0 < budget < math.inf,
        f"budget must be above 0; got {budget!r}.",
    )
    prices = _prices(costs, judge)
    people, fit = fitted(preferences, position, judge)
    ranking = rank_systems(
        preferences, position=position, judge=judge, confidence=confidence, seed=seed
    )
    state = pair_state(people, fit, preferences, judge)
    size = len(people.systems)
    open_ = [
        (people.systems.index(d.first), people.systems.index(d.second))
        for d in ranking.differences
        if d.verdict == "not separable"
        and (goal == "all" or {d.first, d.second} & {ranking.ranks[0].system})
    ]
    chosen, least = _bought(state, fit.values, open_, float(budget), prices)
    even = _even(state, float(budget), prices)
    uniform = largest_error(state, size, open_, even)
    if uniform < least:
        chosen, least = even, uniform
    buy = {
        f"{people.systems[i]} / {people.systems[j]}" + (f", {who}" if judge else ""): int(n)
        for who, counts in zip((PEOPLE, JUDGE), chosen, strict=True)
        for i, j, n in zip(state.low, state.high, counts, strict=True)
        if n
    }
    cost = float(sum(prices[w] * c.sum() for w, c in zip((PEOPLE, JUDGE), chosen, strict=True)))
    left = [
        (i, j) for i, j in open_ if abs(fit.values[i] - fit.values[j]) < _reach(ranking) * least
    ]
    about = Assumption(name="strengths as they seem", detail="those of the verdicts so far")
    return Plan(
        goal=f"separating {'the best' if goal == 'best' else 'all'} with a budget of",
        wanted=float(budget),
        predicted=least if open_ else math.nan,
        buy=buy,
        cost=cost,
        confidence=confidence,
        method=METHOD,
        interval="standard error of strengths",
        guarantee=Guarantee(kind=Kind.HEURISTIC, error_rate=1 - confidence, assumptions=(about,)),
        inputs={
            "planner": "pairs",
            "values": {
                "systems": list(people.systems),
                "open": [list(pair) for pair in open_],
                "pairs": np.stack([state.low, state.high], axis=1).tolist(),
                "people": state.people.tolist(),
                "judged": state.judged.tolist(),
                "information": state.information.tolist(),
                "explained": state.explained,
                "prices": prices,
                "judge": bool(judge),
            },
        },
        diagnostics={
            "questions": _questions(preferences, judge, state, chosen, seed),
            "uniform": uniform if open_ else None,
            "now": largest_error(state, size, open_, (0 * even[0], 0 * even[0])),
        },
        notes=(f"{len(left)} of {len(open_)} open differences would stay open",) if open_ else (),
        reason="" if open_ else "nothing that this goal asks for is open",
    )


def _prices(costs: Mapping[str, float] | None, judge: Names) -> dict[str, float]:
    prices = {PEOPLE: 1.0, JUDGE: 0.02} | dict(costs or {})
    known = {PEOPLE, JUDGE} if judge else {PEOPLE}
    rule = f"costs must name {' and '.join(sorted(known))} with prices above 0"
    fine = set(costs or {}) <= known and all(0 < c < math.inf for c in prices.values())
    require(fine, f"{rule}; got {dict(costs or {})}.")
    return prices


def _reach(ranking: Any) -> float:
    """Standard errors by which a difference must lie off 0, roughly: Bonferroni over the pairs."""
    from noracle.bounds.binomial import ndtri

    return float(-ndtri((1 - ranking.confidence) / 2 / max(len(ranking.differences), 1)))


def pair_state(
    people: Preferences, fit: Strengths, preferences: Preferences, judge: Names
) -> PairState:
    """What is known of each pair so far."""
    size = len(people.systems)
    pairs = np.array(list(itertools.combinations(range(size), 2)), dtype=np.int64)
    low, high = pairs.T
    place = {(i, j): k for k, (i, j) in enumerate(pairs.tolist())}

    def counted(first: Codes, second: Codes) -> Floats:
        ends = zip(
            np.minimum(first, second).tolist(), np.maximum(first, second).tolist(), strict=True
        )
        return np.bincount([place[e] for e in ends], minlength=len(pairs)).astype(float)

    gamma = 0.0 if math.isnan(fit.position) else fit.position
    d = fit.values[low] - fit.values[high]
    shares = [chances(d + g, fit.tie) for g in (gamma, -gamma)]
    information = sum((a + b - (a - b) ** 2) / 4 for a, b, _ in shares) / 2
    judged, explained = np.zeros(len(pairs)), 0.0
    _, seen = divided(preferences, judge)
    if seen is not None:
        told = judged_pairs(people, seen)
        judged = counted(told.low, told.high)
        share = min(1.0, fit.helped / len(told.own))
        explained = (1 - fit.worth) / (1 - share) if share < 1 and fit.weight else 0.0
    own = counted(people.first, people.second)
    return PairState(low, high, own, judged, np.asarray(information), min(explained, 0.95))


def largest_error(
    state: PairState, size: int, open_: list[tuple[int, int]], bought: tuple[Floats, Floats]
) -> float:
    """The largest standard error of an open difference once that is bought."""
    if not open_:
        return math.nan
    d = state.differences(size)
    worth = state.worth(state.people + bought[0], state.judged + bought[1])
    cov = np.linalg.pinv((d * worth[:, None]).T @ d, hermitian=True)
    i, j = np.array(open_).T
    return float(np.sqrt((cov[i, i] + cov[j, j] - 2 * cov[i, j]).max()))


def _even(state: PairState, budget: float, prices: Mapping[str, float]) -> tuple[Floats, Floats]:
    """As many verdicts of people on each pair."""
    n, pairs = int(budget / prices[PEOPLE] + 1e-9), len(state.low)
    return n // pairs + (np.arange(pairs) < n % pairs).astype(float), np.zeros(pairs)


def _bought(
    state: PairState,
    strengths: Floats,
    open_: list[tuple[int, int]],
    budget: float,
    prices: Mapping[str, float],
) -> tuple[tuple[Floats, Floats], float]:
    """Verdicts of people and of the judge on each pair, step by step where they help most."""
    size = len(strengths)
    people, judged = state.people.copy(), state.judged.copy()
    if open_:
        d = state.differences(size)
        c = np.zeros((len(open_), size))
        for row, (i, j) in enumerate(open_):
            c[row, i], c[row, j] = 1.0, -1.0
        cov = np.linalg.inv((d * state.worth(people, judged)[:, None]).T @ d + 1.0 / size)
        gap = (c @ strengths) ** 2 + np.einsum("ij,jk,ik->i", c, cov, c)
        left, step = budget + 1e-9, max(1, int(budget / prices[PEOPLE] / _STEPS))
        few = max(1, round(step * prices[PEOPLE] / prices[JUDGE])) if state.explained else 0
    while open_ and left >= min(prices[PEOPLE], prices[JUDGE] if few else math.inf):
        options = [(step, 0)] if left >= step * prices[PEOPLE] else []
        options += [(1, 0)] if not options and left >= prices[PEOPLE] else []
        k = min(few, int(left / prices[JUDGE])) if few else 0
        options += [(0, k)] if k else []
        now = state.worth(people, judged)
        crossed, own = c @ cov @ d.T, np.einsum("ij,jk,ik->i", d, cov, d)
        before = np.einsum("ij,jk,ik->i", c, cov, c)
        best = (0.0, 0, options[0])
        for n, m in options:
            more = np.maximum(state.worth(people + n, judged + m) - now, 0.0)
            after = before[:, None] - more * crossed**2 / (1 + more * own)
            saved = ((before / gap) ** _POWER).sum() - ((after / gap[:, None]) ** _POWER).sum(
                axis=0
            )
            saved = saved / (n * prices[PEOPLE] + m * prices[JUDGE])
            k = int(np.argmax(saved))
            best = max(best, (float(saved[k]), k, (n, m)))
        _, k, (n, m) = best
        people[k] += n
        judged[k] += m
        left -= n * prices[PEOPLE] + m * prices[JUDGE]
        gain = state.worth(people, judged)[k] - now[k]
        moved = cov @ d[k]
        cov = cov - gain * np.outer(moved, moved) / (1 + gain * own[k])
    bought = people - state.people, judged - state.judged
    return bought, largest_error(state, size, open_, bought)


def _questions(
    preferences: Preferences,
    judge: Names,
    state: PairState,
    bought: tuple[Floats, Floats],
    seed: int,
) -> dict[str, list[Any]]:
    """What to ask: of each pair items that were not compared yet, in both orders equally often."""
    rng = np.random.default_rng(seed)
    people, seen = divided(preferences, judge)
    names = preferences.items or tuple(range(int(preferences.item.max()) + 1))
    rows: list[tuple[Any, str, str, str]] = []
    for who, p, counts in ((PEOPLE, people, bought[0]), (JUDGE, seen, bought[1])):
        for i, j, n in zip(state.low, state.high, counts.astype(int), strict=True):
            if not n or p is None:
                continue
            own = _of_pair(p, i, j)
            # People see what the judge saw of this pair, so that it helps; the judge what is new.
            pool = np.arange(len(names)) if seen is None or who == JUDGE else _items(seen, i, j)
            free = rng.permutation(np.setdiff1d(pool, p.item[own]))[:n].tolist()
            items = [names[k] for k in free] + [None] * (n - len(free))
            turned = int((p.first[own] == j).sum()) - int((p.first[own] == i).sum())
            for item in items:
                ahead = turned > 0 or (turned == 0 and bool(rng.integers(2)))
                turned += -1 if ahead else 1
                first, second = (i, j) if ahead else (j, i)
                rows.append((item, p.systems[first], p.systems[second], who))
    order = rng.permutation(len(rows))
    columns = ("item", "first", "second", "rater")
    return {name: [rows[k][c] for k in order] for c, name in enumerate(columns)}


def _of_pair(p: Preferences, i: int, j: int) -> Any:
    return ((p.first == i) & (p.second == j)) | ((p.first == j) & (p.second == i))


def _items(p: Preferences, i: int, j: int) -> Codes:
    return np.unique(p.item[_of_pair(p, i, j)])


def verify_pair_plan(plan: Plan) -> bool:
    """Compute cost and errors of a plan over pairs again, with a system left out instead of a
    generalised inverse; no even spread of the same budget may be better.
    """
    said = plan.inputs["values"]
    names, prices = said["systems"], said["prices"]
    pairs = [tuple(pair) for pair in said["pairs"]]
    bought = {PEOPLE: [0] * len(pairs), JUDGE: [0] * len(pairs)}
    place = {f"{names[i]} / {names[j]}": k for k, (i, j) in enumerate(pairs)}
    for key, n in plan.buy.items():
        pair, _, who = key.rpartition(", ") if said["judge"] else (key, "", PEOPLE)
        if pair not in place or who not in bought or n < 0:
            return False
        bought[who][place[pair]] += n
    cost = sum(prices[who] * sum(counts) for who, counts in bought.items())
    asked = plan.diagnostics["questions"]["first"]
    if (
        abs(cost - plan.cost) > 1e-6
        or cost > plan.wanted + 1e-6
        or len(asked) != sum(plan.buy.values())
    ):
        return False

    def error(more: Mapping[str, list[int]]) -> float:
        """The largest standard error, strengths being told against the first system's."""
        whole = np.zeros((len(names), len(names)))
        for k, (i, j) in enumerate(pairs):
            n, m = said["people"][k] + more[PEOPLE][k], said["judged"][k] + more[JUDGE][k]
            share = max(0.0, 1 - n / m) if m else 0.0
            e = said["information"][k] * n / (1 - said["explained"] * share)
            whole[i, i] += e
            whole[j, j] += e
            whole[i, j] -= e
            whole[j, i] -= e
        cov = np.zeros_like(whole)
        cov[1:, 1:] = np.linalg.inv(whole[1:, 1:])
        return max(math.sqrt(cov[i, i] + cov[j, j] - 2 * cov[i, j]) for i, j in said["open"])

    if not said["open"]:
        return math.isnan(plan.predicted) and bool(plan.reason) and not plan.buy
    n, spread = int(plan.wanted / prices[PEOPLE] + 1e-9), [0] * len(pairs)
    even = {
        PEOPLE: [n // len(pairs) + (k < n % len(pairs)) for k in range(len(pairs))],
        JUDGE: spread,
    }
    again = error(bought)
    return abs(again - plan.predicted) <= 1e-6 * again and again <= error(even) * (1 + 1e-9)
