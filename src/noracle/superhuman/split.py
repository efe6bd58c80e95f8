"""Tests that look at the system and at the ceiling of the annotators apart, as one must with
published figures.

The system matches the vote at rate L, the annotators' ceiling is U = g(mean of a statistic of the
votes). The claim L - U > margin is proved by any threshold c with L > c + margin and U < c.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from noracle.bounds.binomial import clopper_pearson
from noracle.bounds.tails import binomial_at_least, binomial_at_most, chernoff_at_most
from noracle.results import Kind
from noracle.superhuman import bounds
from noracle.superhuman.difference import Outcome

CeilingName = Literal["plurality", "free", "quadratic", "paper", "paper-empirical"]
CEILINGS: tuple[CeilingName, ...] = ("plurality", "free", "quadratic", "paper", "paper-empirical")
_STEPS = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The mean of a statistic of the votes over n items: the share of the most frequent label, or
    the agreement of pairs.

    ``n_votes`` is the number of votes on every item (None: they differ), ``n_labels`` the number of
    labels that a vote may name (None: not known). Both only make the smallest possible statistic
    larger and so the test sharper.
    """

    name: CeilingName
    mean: float
    n: int
    n_votes: int | None
    n_labels: int | None = None

    @property
    def value(self) -> float:
        """The ceiling at the sample."""
        return bound_at(self.name, self.mean, self.n_votes)

    @property
    def floor(self) -> float:
        """The smallest value that the statistic can take on an item."""
        k = self.n_votes
        if k is None:
            return 0.0
        whole, rest = divmod(k, self.n_labels or k)
        if self.name == "plurality":
            return (whole + (rest > 0)) / k
        return (
            (rest * (whole + 1) * whole + ((self.n_labels or k) - rest) * whole * (whole - 1))
            / (k * (k - 1))
            if k > 1
            else 1.0
        )

    @property
    def exact(self) -> bool:
        """Whether the statistic has two values only, so that its sum is binomial: all agree, or all
        but one do.
        """
        k = self.n_votes
        return k is not None and k > 1 and -(-k // (self.n_labels or k)) == k - 1

    def tail(self, threshold: float) -> float:
        """P-value of "the ceiling is at least this threshold": exact binomial where possible, else
        Chernoff's bound.
        """
        if threshold > 1:
            return 0.0
        # Chernoff's bound takes agreement in [0, 1], as published comparisons do; the share of the
        # top label starts at its floor.
        floor = self.floor if self.exact or self.name == "plurality" or self.n_votes == 1 else 0.0
        if floor >= 1:
            return 1.0
        expected = (statistic_at(self.name, threshold, self.n_votes) - floor) / (1 - floor)
        mean = min(max((self.mean - floor) / (1 - floor), 0.0), 1.0)
        if expected <= 0:
            return 1.0
        if self.exact:
            return binomial_at_most(math.ceil(mean * self.n - 1e-6), self.n, min(expected, 1.0))
        return chernoff_at_most(mean, self.n, min(expected, 1.0))

    def high(self, error: float) -> float:
        """Upper limit of the ceiling: the largest threshold that is not refuted."""
        if self.tail(1.0) > error:
            return 1.0
        return _crossing(lambda c: self.tail(c) <= error, min(self.value, 1.0), 1.0)[1]


def bound_at(name: CeilingName, mean: float, n_votes: int | None) -> float:
    """The ceiling where the statistic has this mean."""
    if name == "plurality" or n_votes is None:
        return mean
    if name == "paper-empirical":
        return bounds.empirical_bound(mean)
    if n_votes == 1:
        return 1.0
    formula = {
        "free": bounds.free_bound,
        "quadratic": bounds.quadratic_bound,
        "paper": bounds.paper_bound,
    }[name]
    return float(formula(mean, n_votes))


def statistic_at(name: CeilingName, ceiling: float, n_votes: int | None) -> float:
    """The mean of the statistic at which the ceiling has this value: the inverse of
    :func:`bound_at`.
    """
    if name == "plurality" or n_votes is None:
        return ceiling
    k = n_votes
    if name == "paper-empirical":
        return ceiling**2
    if name == "paper":
        return (k * ceiling**2 - 1) / (k - 1)
    if name == "quadratic":
        return ceiling * (k * ceiling - 1) / (k - 1) if ceiling > 1 / k else 0.0
    right = np.arange(1, k + 1)
    return float(np.interp(ceiling, right / k, right * (right - 1) / (k * (k - 1))))


def by_tails(hits: int, n: int, ceiling: Ceiling, margin: float, error: float) -> Outcome:
    """The non-overlap test: a p-value from :func:`p_by_tails`, and half of the error rate for each
    side of the lower limit.
    """
    low = clopper_pearson(hits, n, error / 2, 0.0)[0] - ceiling.high(error / 2)
    kind = Kind.HEURISTIC if ceiling.name == "paper-empirical" else Kind.FINITE_SAMPLE
    return Outcome(
        value=hits / n - ceiling.value,
        low=max(low, -1.0),
        p_value=p_by_tails(hits, n, ceiling, margin),
        kind=kind,
    )


def p_by_tails(hits: int, n: int, ceiling: Ceiling, margin: float) -> float:
    """2·min over c of max(P(Binomial(n, c + margin) >= hits), tail of "the ceiling is at least c");
    1 where the sample is against it.

    If the claim is false, then L <= c + margin or U >= c for every c. The factor 2 pays for
    choosing c after the fact.
    """
    if not hits / n - ceiling.value > margin:
        return 1.0

    def system_wins(c: float) -> bool:
        return binomial_at_least(hits, n, c + margin) >= ceiling.tail(c)

    ends = _crossing(system_wins, 0.0, 1.0 - margin)
    return min(
        1.0, 2 * min(max(binomial_at_least(hits, n, c + margin), ceiling.tail(c)) for c in ends)
    )


def _crossing(reached: Callable[[float], bool], below: float, above: float) -> tuple[float, float]:
    """Where a condition that holds from some point on begins, as a pair that encloses it."""
    for _ in range(60):
        middle = (below + above) / 2
        below, above = (below, middle) if reached(middle) else (middle, above)
    return below, above


# ---------------------------------------------------------------------------------------------------------
# as in the paper


def hms_score(match_rate: float, ceiling: float, n_items: int, *, margin: float = 0.0) -> float:
    """Heuristic margin separation: S = 1 - exp(-2N·t_u²) - exp(-2N·t_l²), half of the difference to
    t_u.

    t_u = (L - margin - U)/2 and t_l = L - margin - sqrt(t_u + U²). A slack that is not positive
    proves nothing: its term is 1, it is never squared.

    References
    ----------
    Xu, Walder and Xu, "Humanly certifying superhuman classifiers" (ICLR 2023), Algorithm 1.

    Examples
    --------
    >>> round(hms_score(0.971, 0.939, 1821), 4), hms_score(0.80, 0.879, 10_000)
    (0.473, -1.0)
    """
    upper = (match_rate - margin - ceiling) / 2
    if upper <= 0:
        return -1.0
    lower = match_rate - margin - math.sqrt(upper + ceiling**2)
    return 1 - _hoeffding(upper, n_items) - _hoeffding(lower, n_items)


def oms_score(match_rate: float, ceiling: float, n_items: int, *, margin: float = 0.0) -> float:
    """Optimal margin separation: the largest S(c) = 1 - exp(-2N(c² - U²)²) - exp(-2N(L - margin -
    c)²) over c in [U, L - margin].

    S is not concave: a grid finds the hill, Brent's bounded method its top. -1 where the interval
    is empty.

    References
    ----------
    Xu, Walder and Xu, "Humanly certifying superhuman classifiers" (ICLR 2023), Algorithm 2.

    Examples
    --------
    >>> round(oms_score(0.971, 0.939, 1821), 6), oms_score(0.80, 0.879, 10_000)
    (0.620776, -1.0)
    """
    top = match_rate - margin
    if top <= ceiling:
        return -1.0
    from scipy.optimize import minimize_scalar

    def loss(c: float) -> float:
        return math.exp(-2 * n_items * (c * c - ceiling * ceiling) ** 2) + math.exp(
            -2 * n_items * (top - c) ** 2
        )

    grid = np.linspace(ceiling, top, _STEPS + 1)
    losses = np.exp(-2 * n_items * (grid**2 - ceiling**2) ** 2) + np.exp(
        -2 * n_items * (top - grid) ** 2
    )
    best = int(losses.argmin())
    around = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _STEPS)])
    found = minimize_scalar(
        loss, bounds=around, method="bounded", options={"xatol": 1e-10 * (top - ceiling)}
    )
    return 1 - min(float(found.fun), float(losses[best]))


def _hoeffding(slack: float, n: int) -> float:
    return math.exp(-2 * n * slack * slack) if slack > 0 else 1.0


def p_by_paper(match_rate: float, n: int, ceiling: Ceiling, margin: float, *, split: str) -> float:
    """1 - S, at most 1."""
    score = hms_score if split == "paper-hms" else oms_score
    return min(1.0, 1 - score(match_rate, ceiling.value, n, margin=margin))


def by_paper(
    match_rate: float,
    n: int,
    ceiling: Ceiling,
    margin: float,
    error: float,
    *,
    split: Literal["paper-hms", "paper-oms"],
) -> Outcome:
    """The paper's confidence score; its split is chosen after the fact, so that the error is up to
    twice 1 - S.
    """
    score = hms_score if split == "paper-hms" else oms_score
    value = match_rate - ceiling.value
    at_margin = score(match_rate, ceiling.value, n, margin=margin)
    low = -1.0
    if score(match_rate, ceiling.value, n, margin=-1.0) >= 1 - error:
        low = _crossing(
            lambda m: score(match_rate, ceiling.value, n, margin=m) < 1 - error,
            -1.0,
            max(value, -1.0),
        )[0]
    kind = Kind.HEURISTIC if ceiling.name == "paper-empirical" else Kind.FINITE_SAMPLE
    return Outcome(
        value=value,
        low=low,
        p_value=p_by_paper(match_rate, n, ceiling, margin, split=split),
        kind=kind,
        score=at_margin,
    )
