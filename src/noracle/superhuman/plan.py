"""How many items, or how many ratings on each, would be needed to certify?"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from noracle.bounds.betting import FRACTIONS, LOG_PRIOR
from noracle.bounds.binomial import ndtri, stdtr
from noracle.counts.ratings import RatingCounts, count_ratings
from noracle.errors import require
from noracle.results import Assumption, Guarantee, Kind, Plan, check_confidence, choose
from noracle.superhuman import verify as retest
from noracle.superhuman.certify import the_system
from noracle.superhuman.difference import WIDTH, sample_of
from noracle.superhuman.statement import MOST_ITEMS, check_margin

if TYPE_CHECKING:
    from noracle.evidence.ratings import Ratings

Pool = Counter[Fraction]
"""Values of Z and how often they occur."""
PlannedTest = Literal["betting", "bernstein", "t"]
Array = NDArray[np.float64]
_WORLDS = 1000
_DRAWS = 20_000


def plan_certificate(
    ratings: Ratings | RatingCounts,
    *,
    system: str | None = None,
    vary: Literal["items", "ratings"] = "items",
    margin: float = 0.0,
    test: PlannedTest = "betting",
    power: float = 0.8,
    most_ratings: int = 25,
    cost_per_rating: float = 1.0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Plan:
    """How many items, or ratings on each item, certify with probability ``power`` if rates stay as
    they are in these ratings.

    Parameters
    ----------
    ratings
        A pilot: ratings with the answers of the system, or their counts.
    vary
        ``items``: more items with as many ratings each. ``ratings``: as many items with another
        number of ratings each, from 2 up to ``most_ratings``. Fewer than an item has are drawn from
        its own. Further ones are drawn given those that it has and the answer of the system, from a
        Dirichlet distribution of votes with the pilot's agreement and share of votes for the
        answer.
    test
        ``betting``, ``bernstein`` or ``t``, as in :func:`certify_superhuman`.
    cost_per_rating
        Price of one rating.

    Returns
    -------
    Plan
        ``buy`` has the total number of items and of ratings per item; ``predicted`` is the simulated
        power. HEURISTIC: the rates are those of the pilot, taken as exact.

    Notes
    -----
    Z of :func:`certify_superhuman` is drawn again with replacement, in 1,000 worlds for each number
    of items that is tried; the number is found by doubling and bisection to two per cent.

    power(n) = P(the certificate is given on n items), counted over the worlds.

    Assumes that new items are like those of the pilot, and (for ``vary="ratings"``) that further
    votes follow the Dirichlet distribution above.

    References
    ----------
    Efron (1979), Ann. Statist. 7, 1-26 (drawing the sample again); Xu, Walder and Xu, "Humanly
    certifying superhuman classifiers" (ICLR 2023), for the claim.

    Examples
    --------
    >>> counts = RatingCounts.from_arrays([[0, 0, 0]] * 70 + [[0, 0, 1]] * 30, labels=2, answers={"a": [0] * 96 + [1] * 4})
    >>> plan = plan_certificate(counts)
    >>> 100 < plan.buy["items"] < 400, plan.predicted >= 0.8, plan.verify()
    (True, True, True)
    """
    choose("vary", vary, ("items", "ratings"))
    choose("test", test, get_args(PlannedTest))
    margin, confidence = check_margin(margin), check_confidence(confidence)
    require(0 < power < 1, f"power must be in (0, 1); got {power!r}.")
    rule = f"must not be negative; got {cost_per_rating!r}"
    require(cost_per_rating >= 0, f"cost_per_rating {rule}.")
    counts = ratings if isinstance(ratings, RatingCounts) else count_ratings(ratings)
    system = the_system(counts, system)
    in_hand = int(counts.n_items.sum())
    goal = _Goal(margin, 1 - confidence, test, power, seed)
    alternatives: list[dict[str, Any]] = []
    pool = _pool(counts, system)
    n: int | None = in_hand
    if vary == "items":
        n, k = goal.items_for(pool), float(counts.n_ratings @ counts.n_items) / in_hand
        bought = {"items": n or 0}
    else:
        pool, each, alternatives = _ratings_for(counts, system, goal, most_ratings)
        n, k = (in_hand, float(each)) if each else (None, math.nan)
        bought = {"items": in_hand, "ratings_per_item": each}
    again = " with other numbers of ratings" if vary == "ratings" else ""
    as_pilot = (Assumption(name="rates as in the pilot"),)
    return Plan(
        goal="power of a certificate",
        wanted=power,
        predicted=math.nan if n is None else goal.reached(pool, n),
        buy=bought,
        cost=math.nan if n is None else n * k * cost_per_rating,
        confidence=confidence,
        method=f"items of {system!r} drawn again{again}",
        interval=test,
        guarantee=Guarantee(kind=Kind.HEURISTIC, error_rate=1 - confidence, assumptions=as_pilot),
        inputs={
            "planner": "certificate",
            "vary": vary,
            "margin": margin,
            "test": test,
            "seed": seed,
            "cost_per_rating": cost_per_rating,
            "ratings_per_item": k,
            "values": [[z.numerator, z.denominator, m] for z, m in sorted(pool.items())],
        },
        alternatives=tuple(alternatives),
        diagnostics={"items_in_hand": in_hand, "difference": _mean(pool)},
        notes=(
            f"{in_hand:,} items are in hand and count towards the total",
            "the system must also not be trained on these annotators",
        ),
        reason="" if n is not None else _why_not(pool, margin, vary),
    )


def _why_not(pool: Pool, margin: float, vary: str) -> str:
    if _mean(pool) <= margin:
        return f"the difference {_mean(pool):+.4f} is not above the margin {margin:g}: at these rates no number of items would do"
    more = ": more items are needed" if vary == "ratings" else ""
    return f"no number up to the largest that was tried would do{more}"


def _mean(pool: Pool) -> float:
    return float(sum(z * m for z, m in pool.items()) / pool.total())


def _pool(counts: RatingCounts, system: str) -> Pool:
    found: Pool = Counter()
    for hit, tied, top, votes, n in sample_of(counts, system, ties="share", seed=0)[1]:
        found[Fraction(hit, tied) - Fraction(top, votes)] += n
    return found


class _Goal(NamedTuple):
    """A test, and how often it should certify."""

    margin: float
    error: float
    test: str
    power: float
    seed: int

    def reached(self, pool: Pool, n: int) -> float:
        """Share of simulated samples of n items that certify."""
        margin, error = self.margin, self.error
        values = np.array([float(z) for z in pool])
        shares = np.array(list(pool.values()), dtype=float) / pool.total()
        drawn = np.random.default_rng([self.seed, n]).multinomial(n, shares, size=_WORLDS)
        if self.test == "betting":
            with np.errstate(divide="ignore", invalid="ignore"):
                gains = np.log1p(np.multiply.outer((values - margin) / (margin + 1), FRACTIONS))
                wealth = np.logaddexp.reduce(_times(drawn, gains) + LOG_PRIOR, axis=1)
            return float(np.mean(wealth >= -math.log(error)))
        mean = drawn @ values / n
        variance = np.maximum(drawn @ values**2 - n * mean**2, 0.0) / max(n - 1, 1)
        if n < 2:
            return 0.0
        if self.test == "bernstein":
            log = math.log(2 / error)
            slack = np.sqrt(2 * variance * log / n) + 7 * WIDTH * log / (3 * (n - 1))
            return float(np.mean(mean - slack > margin))
        spread = variance > 1e-15
        t = (margin - mean[spread]) / np.sqrt(variance[spread] / n)
        return float(np.sum(stdtr(n - 1, t) <= error) / _WORLDS)

    def items_for(self, pool: Pool) -> int | None:
        """The smallest number of items, to two per cent; None if the difference is too small."""
        mean = _mean(pool)
        if mean <= self.margin:
            return None
        variance = float(sum(m * (float(z) - mean) ** 2 for z, m in pool.items())) / pool.total()
        width = (float(ndtri(self.power)) - float(ndtri(self.error))) / (mean - self.margin)
        low, high = 1, max(2, math.ceil(variance * width**2))
        while self.reached(pool, high) < self.power:
            low, high = high, 2 * high
            if high > MOST_ITEMS:
                return None
        while high - low > max(1, low // 50):
            middle = (low + high) // 2
            enough = self.reached(pool, middle) >= self.power
            low, high = (low, middle) if enough else (middle, high)
        return high


def _times(drawn: NDArray[np.int64], gains: Array) -> Array:
    """Matrix product in which nothing times minus infinity is nothing."""
    finite = np.where(np.isneginf(gains), 0.0, gains)
    lost = drawn @ np.isneginf(gains).astype(float) > 0
    return np.asarray(np.where(lost, -np.inf, drawn @ finite))


def _ratings_for(
    counts: RatingCounts, system: str, goal: _Goal, most: int
) -> tuple[Pool, int, list[dict[str, Any]]]:
    """The fewest ratings per item that reach the power, with Z for it, and all that were tried."""
    n = int(counts.n_items.sum())
    rng = np.random.default_rng([goal.seed, n])
    flat = counts.answers[system].reshape(-1)
    places = rng.choice(len(flat), size=_DRAWS, p=flat / flat.sum())
    kind, answer = np.divmod(places, len(counts.labels) + 1)
    tried: list[dict[str, Any]] = []
    pool, prior = _pool(counts, system), _prior(counts, system)
    for k in range(2, max(2, most) + 1):
        votes = _drawn_votes(counts.votes[kind], k, prior[answer], rng)
        top = votes.max(axis=1)
        tied = (votes == top[:, None]).sum(axis=1)
        hit = np.pad(votes, ((0, 0), (0, 1)))[np.arange(len(votes)), answer] == top
        drawn = Counter(zip(hit.tolist(), tied.tolist(), top.tolist(), strict=True))
        pool = Counter()
        for (h, t, a), m in drawn.items():
            pool[Fraction(h, t) - Fraction(a, k)] += m
        reached = goal.reached(pool, n)
        row = {"items": n, "ratings_per_item": k, "predicted": reached}
        tried.append({**row, "difference": _mean(pool)})
        if reached >= goal.power:
            return pool, k, tried
    return pool, 0, tried


def _drawn_votes(
    votes: NDArray[np.int64], k: int, prior: Array, rng: np.random.Generator
) -> NDArray[np.int64]:
    """So many ratings of each item: a part of its own, or its own and drawn ones."""
    total = votes.sum(axis=1)
    drawn = votes.copy()
    enough = total > k
    drawn[enough] = _subsets(votes[enough], k, rng)
    for have in range(int(total.min(initial=k)), k):
        rows = np.flatnonzero(total <= have)
        weights = np.cumsum(drawn[rows] + prior[rows], axis=1)
        chosen = (rng.random((len(rows), 1)) * weights[:, -1:] >= weights).sum(axis=1)
        drawn[rows, chosen] += 1
    return drawn


def _prior(counts: RatingCounts, system: str) -> Array:
    """Weights of labels before any vote, by answer (the last: none), from the pilot.

    Votes are Dirichlet with mean r for the label that the system answers and (1 - r)/(R - 1) for
    every other. r is the share of votes for the answer and A, the sum of the weights, gives the
    agreement v = (A·q + 1)/(A + 1), q = r² + (1 - r)²/(R - 1).
    """
    size, several = len(counts.labels), counts.n_ratings > 1
    if size < 2:
        return np.ones((size + 1, size))
    v = 1.0
    if several.any():
        v = float(np.average(counts.agreement[several], weights=counts.n_items[several]))
    said = counts.answers[system][:, :-1]
    shares = counts.votes / counts.n_ratings[:, None]
    r = float((said * shares).sum() / said.sum()) if said.sum() else 1 / size
    q = r**2 + (1 - r) ** 2 / (size - 1)
    total = min(100.0, max(0.01, (1 - v) / (v - q))) if v > q else 100.0
    weights = np.full((size + 1, size), (1 - r) / (size - 1))
    weights[np.arange(size), np.arange(size)] = r
    weights[size] = 1 / size
    return total * weights


def _subsets(votes: NDArray[np.int64], k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """So many of the ratings of every row, label by label."""
    left, wanted = votes.sum(axis=1), np.full(len(votes), k)
    drawn = np.zeros_like(votes)
    for label in range(votes.shape[1]):
        left = left - votes[:, label]
        drawn[:, label] = rng.hypergeometric(votes[:, label], left, wanted)
        wanted = wanted - drawn[:, label]
    return drawn


def verify_certificate_plan(plan: Plan, worlds: int = 400) -> bool:
    """Simulate the plan again with other draws and other code; check cost and reason."""
    inputs, n = plan.inputs, plan.buy["items"]
    values = [(Fraction(a, b), m) for a, b, m in inputs["values"]]
    total = sum(m for _, m in values)
    mean = float(sum(z * m for z, m in values) / total)
    if math.isnan(plan.predicted):
        return bool(plan.reason) and (mean <= inputs["margin"] or inputs["vary"] == "ratings")
    cost = n * inputs["ratings_per_item"] * inputs["cost_per_rating"]
    if abs(plan.cost - cost) > 1e-6 * max(1.0, plan.cost):
        return False
    rng = np.random.default_rng([int(inputs["seed"]), 1])
    passed = 0
    for drawn in rng.multinomial(n, [m / total for _, m in values], size=worlds):
        items = [(1, z, int(m)) for (z, _), m in zip(values, drawn, strict=True) if m]
        passed += retest.paired_p(inputs["test"], items, inputs["margin"]) <= 1 - plan.confidence
    spread = 4 * math.sqrt(0.25 / worlds + 0.25 / _WORLDS)
    near = abs(passed / worlds - plan.predicted) <= spread
    return bool(near and plan.predicted >= plan.wanted - 1e-12)
