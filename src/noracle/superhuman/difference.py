"""Tests behind certificates: of one mean (how much more often the system agrees with the vote than
the vote's own share), and of the system and the annotators' ceiling apart.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from noracle.bounds.betting import FRACTIONS, LOG_PRIOR, Score, betting_interval, log_wealth
from noracle.bounds.binomial import (
    bernstein_above,
    bernstein_low,
    binomial_at_least,
    binomial_at_most,
    chernoff_at_most,
    clopper_pearson,
    stdtr,
    stdtrit,
)
from noracle.bounds.clusters import cluster_limits
from noracle.counts.ratings import RatingCounts
from noracle.errors import EvidenceError, fault
from noracle.results import Kind
from noracle.superhuman import bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

Ties = Literal["share", "random"]
Row = tuple[int, int, int, int, int]
"""hit (0 or 1), labels tied at the top, votes of the top label, votes, number of items."""
Cluster = tuple[tuple[Row, ...], float]
"""The rows of a cluster, and how many clusters are like it."""
WIDTH = 2.0
"""Z lies in [-1, 1 - 1/n]; n may differ by item and is not bounded beforehand, so the range that is
used is [-1, 1].
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a test found: the difference, its lower limit and the p-value of "the difference is at
    most the margin".
    """

    value: float
    low: float
    p_value: float
    kind: Kind
    anytime: bool = False
    score: float = math.nan


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Items with the same match, ties and votes counted together; ``shared`` says that a match
    among t tied labels counts 1/t.

    ``clusters`` are the same items by cluster, where the cluster is the unit; then ties are shared.
    """

    rows: tuple[Row, ...]
    shared: bool = True
    clusters: tuple[Cluster, ...] = ()

    @property
    def n(self) -> int:
        """Number of items."""
        return sum(row[4] for row in self.rows)

    @property
    def votes(self) -> int | None:
        """Votes on every item; None where they differ."""
        seen = {row[3] for row in self.rows}
        return seen.pop() if len(seen) == 1 else None

    @property
    def matched(self) -> float:
        """Sum of the credits."""
        return math.fsum(n * hit / (tied if self.shared else 1) for hit, tied, _, _, n in self.rows)

    @property
    def match_rate(self) -> float:
        """Share of items on which the system agrees with the vote, L."""
        return self.matched / self.n if self.n else math.nan

    @property
    def ceiling(self) -> float:
        """Mean share of the most frequent label, U."""
        return (
            math.fsum(n * top / votes for _, _, top, votes, n in self.rows) / self.n
            if self.n
            else math.nan
        )

    def scores(self) -> list[Score]:
        """Z with its range, in the form that betting takes."""
        return [
            Score(hit / (tied if self.shared else 1) - top / votes, -1.0, 1.0, n)
            for hit, tied, top, votes, n in self.rows
        ]

    def cluster_sums(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Size, sum of Z and number of each kind of cluster."""
        sizes = [sum(row[4] for row in rows) for rows, _ in self.clusters]
        sums = [
            math.fsum(n * (hit / tied - top / votes) for hit, tied, top, votes, n in rows)
            for rows, _ in self.clusters
        ]
        return (
            np.array(sizes, dtype=float),
            np.array(sums),
            np.array([n for _, n in self.clusters], dtype=float),
        )

    def moments(self) -> tuple[float, float]:
        """Mean and unbiased variance of Z; the variance is NaN below two items."""
        scores = self.scores()
        mean = math.fsum(s.value * s.n for s in scores) / self.n if self.n else math.nan
        spread = math.fsum(s.n * (s.value - mean) ** 2 for s in scores)
        return mean, spread / (self.n - 1) if self.n > 1 else math.nan


def sample_of(
    counts: RatingCounts, system: str, *, ties: Ties, seed: int
) -> tuple[Sample, tuple[Row, ...]]:
    """Matches with the most frequent label, and the rows before ties were broken at random (the
    same rows where they are shared).

    A tie is broken without the system: an answer among t tied labels is the drawn one with
    probability 1/t, item by item.
    """
    hits = counts.hits(system)
    rows = grouped(hits, counts.n_items - hits, counts.tied, counts.top, counts.n_ratings)
    if ties == "share":
        return Sample(rows=rows), rows
    return Sample(rows=draw_ties(rows, seed), shared=False), rows


def sample_by_cluster(rows: Sequence[tuple[str, Row]]) -> Sample:
    """Items one by one, each with its cluster, as a sample with the cluster as the unit."""
    found: dict[str, dict[tuple[int, int, int, int], int]] = {}
    together: dict[tuple[int, int, int, int], int] = {}
    for cluster, (hit, tied, top, votes, n) in rows:
        for counted in (found.setdefault(cluster, {}), together):
            counted[hit, tied, top, votes] = counted.get((hit, tied, top, votes), 0) + n
    alike: dict[tuple[Row, ...], int] = {}
    for counted in found.values():
        key: tuple[Row, ...] = tuple((*kind, n) for kind, n in sorted(counted.items()))
        alike[key] = alike.get(key, 0) + 1
    return Sample(
        rows=tuple((*kind, n) for kind, n in sorted(together.items())),
        clusters=tuple(sorted(alike.items())),
    )


def sample_of_matches(matches: NDArray[np.int64], counts: RatingCounts) -> Sample:
    """Matches with another aggregate than the plurality: row p has the items of kind p that match
    it and those that do not.
    """
    if matches.shape != (len(counts.n_items), 2) or np.any(matches.sum(axis=1) != counts.n_items):
        raise EvidenceError(
            fault(
                "matches",
                "must split the items of every kind of votes in two",
                f"shape {matches.shape}",
            )
        )
    one = np.ones_like(counts.top)
    return Sample(
        rows=grouped(matches[:, 0], matches[:, 1], one, counts.top, counts.n_ratings), shared=False
    )


def grouped(
    hits: NDArray[np.int64],
    misses: NDArray[np.int64],
    tied: NDArray[np.int64],
    top: NDArray[np.int64],
    votes: NDArray[np.int64],
) -> tuple[Row, ...]:
    """Kinds of items that Z cannot tell apart, added up and sorted."""
    size = int(votes.max(initial=0)) + 1
    key = (tied * size + top) * size + votes
    found, place = np.unique(key, return_inverse=True)
    rows: list[Row] = []
    for hit, n in ((0, misses), (1, hits)):
        sums = np.zeros(len(found), dtype=np.int64)
        np.add.at(sums, place.reshape(-1), n)
        rows += [
            (hit, int(k) // size**2, int(k) // size % size, int(k) % size, int(m))
            for k, m in zip(found, sums, strict=True)
            if m
        ]
    return tuple(rows)


def draw_ties(rows: Sequence[Row], seed: int) -> tuple[Row, ...]:
    """Break ties at random: of n answers among t tied labels a Binomial(n, 1/t) number are the
    drawn label, row by row.
    """
    rng = np.random.default_rng(seed)
    drawn: dict[tuple[int, int, int, int], int] = {}
    for hit, tied, top, votes, n in rows:
        kept = int(rng.binomial(n, 1 / tied)) if hit and tied > 1 else n * hit
        for key, m in (((1, tied, top, votes), kept), ((0, tied, top, votes), n - kept)):
            drawn[key] = drawn.get(key, 0) + m
    return tuple((*key, n) for key, n in sorted(drawn.items()) if n)


def by_betting(sample: Sample, margin: float, error: float) -> Outcome:
    """Wealth of betting that the mean is above the margin, mixed over fixed fractions; p =
    1/wealth. Valid at every look.

    The bets do not look at the data, so the order of the items does not matter (Waudby-Smith and
    Ramdas 2024). Where items come in clusters, the bet is on the sum of Z - mean over a cluster,
    over the size of the largest one.
    """
    if sample.clusters:
        size, total, times = sample.cluster_sums()
        repeat = np.rint(times).astype(int)
        size, total = np.repeat(size, repeat), np.repeat(total, repeat)
        found = cluster_limits(
            size,
            size,
            total,
            error,
            0.0,
            largest=float(size.max()),
            low=-1.0,
            floor=-1.0,
            anytime=True,
        )
        p = p_by_betting(sample, margin)
        return Outcome(
            value=sample.moments()[0],
            low=found.low,
            p_value=p,
            kind=Kind.FINITE_SAMPLE,
            anytime=True,
        )
    low, _ = betting_interval(sample.scores(), error, 0.0, floor=-1.0, ceiling=1.0)
    return Outcome(
        value=sample.moments()[0],
        low=low,
        p_value=p_by_betting(sample, margin),
        kind=Kind.FINITE_SAMPLE,
        anytime=True,
    )


def p_by_betting(sample: Sample, margin: float) -> float:
    """P-value of "the mean is at most the margin": one over the wealth."""
    if sample.clusters:
        size, total, times = sample.cluster_sums()
        gains = (total - size * margin) / (float(size.max()) * (margin + 1))
        with np.errstate(divide="ignore"):
            logs = np.log1p(np.multiply.outer(FRACTIONS, gains)) @ times + LOG_PRIOR
        top = float(logs.max())
        return (
            min(1.0, math.exp(-max(top + math.log(float(np.exp(logs - top).sum())), 0.0)))
            if math.isfinite(top)
            else 1.0
        )
    return min(1.0, math.exp(-max(log_wealth(sample.scores(), margin), 0.0)))


def by_bernstein(sample: Sample, margin: float, error: float) -> Outcome:
    """Empirical Bernstein bound (Maurer and Pontil 2009): finite-sample, at a number of items fixed
    beforehand.
    """
    mean, variance = sample.moments()
    low = max(-1.0, bernstein_low(mean, variance, sample.n, WIDTH, error))
    return Outcome(
        value=mean, low=low, p_value=p_by_bernstein(sample, margin), kind=Kind.FINITE_SAMPLE
    )


def p_by_bernstein(sample: Sample, margin: float) -> float:
    """P-value of "the mean is at most the margin"."""
    return bernstein_above(*sample.moments(), sample.n, WIDTH, margin)


def by_t(sample: Sample, margin: float, error: float) -> Outcome:
    """Student's t: asymptotic. Without spread it says nothing. Where items come in clusters, with
    the CR2 variance.
    """
    mean, variance, freedom = _t_moments(sample)
    if not variance > 0:
        return Outcome(value=mean, low=-1.0, p_value=1.0, kind=Kind.ASYMPTOTIC)
    low = mean + float(stdtrit(freedom, error)) * math.sqrt(variance)
    return Outcome(
        value=mean, low=max(-1.0, low), p_value=p_by_t(sample, margin), kind=Kind.ASYMPTOTIC
    )


def p_by_t(sample: Sample, margin: float) -> float:
    """P-value of "the mean is at most the margin"; 1 without spread."""
    mean, variance, freedom = _t_moments(sample)
    return float(stdtr(freedom, (margin - mean) / math.sqrt(variance))) if variance > 0 else 1.0


def _t_moments(sample: Sample) -> tuple[float, float, float]:
    """Mean, variance of the mean, and degrees of freedom; for clusters
    :func:`~noracle.bounds.clusters.cr2` of whole clusters.
    """
    if not sample.clusters:
        mean, variance = sample.moments()
        return mean, variance / max(sample.n, 1), sample.n - 1
    size, total, times = sample.cluster_sums()
    n = float(size @ times)
    mean = float(total @ times) / n
    if times.sum() < 2:
        return mean, math.nan, math.nan
    rest = 1 - size / n
    variance = float(times @ ((total - size * mean) ** 2 / rest)) / n**2
    share = size**2 / rest / n
    freedom = n**2 / (float(times @ size**2) + float(times @ share) ** 2 - float(times @ share**2))
    return mean, variance, freedom


# ---------------------------------------------------------------------------- Tests that look at
# the system and at the ceiling of the annotators apart, as one must with published figures.


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
