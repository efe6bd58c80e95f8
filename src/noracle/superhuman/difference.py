"""Tests behind certificates: of one mean, and of system and ceiling apart."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

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
from noracle.errors import require, require_evidence
from noracle.results import Kind, choose
from noracle.superhuman import bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Whole = NDArray[np.int64]

Ties = Literal["share", "random"]
Row = tuple[int, int, int, int, int]
"""hit (0 or 1), labels tied at the top, votes of the top label, votes, number of items."""
Cluster = tuple[tuple[Row, ...], float]
"""The rows of a cluster, and how many clusters are like it."""
CeilingName = Literal["plurality", "free", "quadratic", "paper", "paper-empirical"]
CEILINGS: tuple[CeilingName, ...] = get_args(CeilingName)
_FOR_TEST: dict[str, tuple[CeilingName, ...]] = {
    "binomial": CEILINGS,
    "exact": CEILINGS[1:],
    "paper-hms": ("paper", "paper-empirical"),
    "paper-oms": ("paper", "paper-empirical"),
}
WIDTH = 2.0
"""Z lies in [-1, 1 - 1/n], n not bounded beforehand: the range that is used is [-1, 1]."""
_STEPS = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """The difference, its lower limit, and the p-value of "it is at most the margin"."""

    value: float
    low: float
    p_value: float
    kind: Kind
    anytime: bool = False
    score: float = math.nan


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VoteSample:
    """Items with the same match, ties and votes together; if ``shared``, one of t tied counts 1/t.

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
        sums = math.fsum(n * top / votes for _, _, top, votes, n in self.rows)
        return sums / self.n if self.n else math.nan

    def values(self, rows: Iterable[Row]) -> list[tuple[float, int]]:
        """Z and how many items have it."""
        one = not self.shared
        return [(h / (1 if one else tied) - top / k, n) for h, tied, top, k, n in rows]

    def scores(self) -> list[Score]:
        """Z with its range, in the form that betting takes."""
        return [Score(z, -1.0, 1.0, n) for z, n in self.values(self.rows)]

    def cluster_sums(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Size, sum of Z and number of each kind of cluster."""
        values = [self.values(rows) for rows, _ in self.clusters]
        sizes = np.array([sum(n for _, n in rows) for rows in values], dtype=float)
        sums = np.array([math.fsum(z * n for z, n in rows) for rows in values])
        return sizes, sums, np.array([n for _, n in self.clusters], dtype=float)

    def moments(self) -> tuple[float, float]:
        """Mean and unbiased variance of Z; the variance is NaN below two items."""
        values = self.values(self.rows)
        mean = math.fsum(z * n for z, n in values) / self.n if self.n else math.nan
        spread = math.fsum(n * (z - mean) ** 2 for z, n in values)
        return mean, spread / (self.n - 1) if self.n > 1 else math.nan

    def times(self, times: float) -> VoteSample:
        """So many times as many items (or clusters) of every kind, in whole ones."""
        if self.clusters:
            more = tuple((rows, float(round(n * times))) for rows, n in self.clusters)
            return dataclasses.replace(self, clusters=more)
        rows = tuple((*row[:4], round(row[4] * times)) for row in self.rows)
        return dataclasses.replace(self, rows=rows)


def sample_of(
    counts: RatingCounts, system: str, *, ties: Ties, seed: int
) -> tuple[VoteSample, tuple[Row, ...]]:
    """Matches with the most frequent label, and the rows before ties were broken at random.

    An answer among t tied labels is the drawn one with probability 1/t, whatever the system.
    """
    hits = counts.hits(system)
    rows = _grouped(hits, counts.n_items - hits, counts.tied, counts)
    if ties == "share":
        return VoteSample(rows=rows), rows
    return VoteSample(rows=_draw_ties(rows, seed), shared=False), rows


def sample_by_cluster(rows: Sequence[tuple[str, Row]]) -> VoteSample:
    """Items one by one, each with its cluster, as a sample with the cluster as the unit."""
    found: dict[str, Counter[tuple[int, int, int, int]]] = {}
    for cluster, (hit, tied, top, votes, n) in rows:
        found.setdefault(cluster, Counter())[hit, tied, top, votes] += n
    alike = Counter(_rows_of(counted) for counted in found.values())
    together = _rows_of(sum(found.values(), Counter()))
    return VoteSample(rows=together, clusters=tuple(sorted(alike.items())))


def _rows_of(counted: Counter[tuple[int, int, int, int]]) -> tuple[Row, ...]:
    return tuple((*kind, n) for kind, n in sorted(counted.items()) if n)


def sample_of_matches(matches: Whole, counts: RatingCounts) -> VoteSample:
    """Matches with another aggregate: by kind, items that match and items that do not."""
    fits = matches.shape == (len(counts.n_items), 2)
    fits = fits and bool((matches.sum(axis=1) == counts.n_items).all())
    rule = "must split the items of every kind of votes in two"
    require_evidence(fits, "matches", rule, f"shape {matches.shape}")
    rows = _grouped(matches[:, 0], matches[:, 1], np.ones_like(counts.top), counts)
    return VoteSample(rows=rows, shared=False)


def _grouped(hits: Whole, misses: Whole, tied: Whole, counts: RatingCounts) -> tuple[Row, ...]:
    """Kinds of items that Z cannot tell apart, added up and sorted."""
    kinds = np.column_stack([tied, counts.top, counts.n_ratings]).tolist()
    found: Counter[tuple[int, int, int, int]] = Counter()
    for hit, numbers in ((0, misses), (1, hits)):
        for (t, top, votes), n in zip(kinds, numbers.tolist(), strict=True):
            found[hit, t, top, votes] += n
    return _rows_of(found)


def _draw_ties(rows: Sequence[Row], seed: int) -> tuple[Row, ...]:
    """Of n answers among t tied labels, a Binomial(n, 1/t) number are the drawn label."""
    rng = np.random.default_rng(seed)
    drawn: Counter[tuple[int, int, int, int]] = Counter()
    for hit, tied, top, votes, n in rows:
        kept = int(rng.binomial(n, 1 / tied)) if hit and tied > 1 else n * hit
        drawn[1, tied, top, votes] += kept
        drawn[0, tied, top, votes] += n - kept
    return _rows_of(drawn)


# Tests of the mean of Z: the p-value of "the mean is at most the margin", and the lower limit.


def p_by_betting(sample: VoteSample, margin: float) -> float:
    """One over the wealth of bets of fixed fractions that the mean is above; valid at every look.

    Bets do not look at the data, so order does not matter (Waudby-Smith and Ramdas 2024). Clusters
    are bet on as a whole: the sum of Z - mean, over the size of the largest one.
    """
    if not sample.clusters:
        return min(1.0, math.exp(-max(log_wealth(sample.scores(), margin), 0.0)))
    size, total, times = sample.cluster_sums()
    gains = (total - size * margin) / (float(size.max()) * (margin + 1))
    with np.errstate(divide="ignore"):
        logs = np.log1p(np.multiply.outer(FRACTIONS, gains)) @ times + LOG_PRIOR
    return math.exp(-max(float(np.logaddexp.reduce(logs)), 0.0))


def _low_by_betting(sample: VoteSample, error: float) -> float:
    if not sample.clusters:
        return betting_interval(sample.scores(), error, 0.0, floor=-1.0, ceiling=1.0)[0]
    size, total, times = sample.cluster_sums()
    repeat = np.rint(times).astype(int)
    size, total = np.repeat(size, repeat), np.repeat(total, repeat)
    most = float(size.max())
    found = cluster_limits(
        size, size, total, error, 0.0, largest=most, low=-1.0, floor=-1.0, anytime=True
    )
    return found.low


def p_by_t(sample: VoteSample, margin: float) -> float:
    """Student's t: asymptotic; 1 without spread. Clusters have the CR2 variance."""
    mean, variance, freedom = _t_moments(sample)
    return float(stdtr(freedom, (margin - mean) / math.sqrt(variance))) if variance > 0 else 1.0


def _low_by_t(sample: VoteSample, error: float) -> float:
    mean, variance, freedom = _t_moments(sample)
    return mean + float(stdtrit(freedom, error)) * math.sqrt(variance) if variance > 0 else -1.0


def _t_moments(sample: VoteSample) -> tuple[float, float, float]:
    """Mean, variance of the mean (CR2 for clusters), and degrees of freedom."""
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


class PairedTest(NamedTuple):
    """A test of the mean of Z."""

    p_value: Callable[[VoteSample, float], float]
    low: Callable[[VoteSample, float], float]
    kind: Kind = Kind.FINITE_SAMPLE
    anytime: bool = False

    def run(self, sample: VoteSample, margin: float, error: float) -> Tested:
        """What it finds."""
        return Tested(
            value=sample.moments()[0],
            low=max(-1.0, self.low(sample, error)),
            p_value=self.p_value(sample, margin),
            kind=self.kind,
            anytime=self.anytime,
        )


PAIRED = {
    "betting": PairedTest(p_by_betting, _low_by_betting, anytime=True),
    # Maurer and Pontil (2009), at a number of items fixed beforehand.
    "bernstein": PairedTest(
        lambda sample, margin: bernstein_above(*sample.moments(), sample.n, WIDTH, margin),
        lambda sample, error: bernstein_low(*sample.moments(), sample.n, WIDTH, error),
    ),
    "t": PairedTest(p_by_t, _low_by_t, Kind.ASYMPTOTIC),
}


# Tests that look at the system and at the ceiling of the annotators apart, as one must with
# published figures.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The mean over n items of the share of the top label, or of the agreement of pairs.

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
    def kind(self) -> Kind:
        """What a test against it promises."""
        return Kind.HEURISTIC if self.name == "paper-empirical" else Kind.FINITE_SAMPLE

    @property
    def floor(self) -> float:
        """The smallest value that the statistic can take on an item."""
        k = self.n_votes
        if k is None:
            return 0.0
        labels = self.n_labels or k
        whole, rest = divmod(k, labels)
        if self.name == "plurality":
            return (whole + (rest > 0)) / k
        if k == 1:
            return 1.0
        pairs = rest * (whole + 1) * whole + (labels - rest) * whole * (whole - 1)
        return pairs / (k * (k - 1))

    @property
    def exact(self) -> bool:
        """Whether the statistic has two values only, so that its sum is binomial."""
        k = self.n_votes
        return k is not None and k > 1 and -(-k // (self.n_labels or k)) == k - 1

    def tail(self, threshold: float) -> float:
        """P-value of "the ceiling is at least this": exact binomial if possible, else Chernoff."""
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


def ceiling_for(
    test: str, ceiling: CeilingName | None, known: Sequence[CeilingName]
) -> CeilingName:
    """The ceiling that was asked for, if it goes with the test, or the test's own."""
    allowed = _FOR_TEST.get(test, ("plurality",))
    if ceiling is None:
        return allowed[0]
    choose("ceiling", ceiling, known)
    rule = f"{' or '.join(map(repr, allowed))} for test {test!r}; got {ceiling!r}"
    require(ceiling in allowed, f"ceiling must be {rule}. Others go with other tests.")
    return ceiling


def bound_at(name: CeilingName, mean: float, n_votes: int | None) -> float:
    """The ceiling where the statistic has this mean."""
    if name == "plurality" or n_votes is None:
        return mean
    if name == "paper-empirical":
        return bounds.empirical_bound(mean)
    return 1.0 if n_votes == 1 else float(bounds.FROM_AGREEMENT[name](mean, n_votes))


def statistic_at(name: CeilingName, ceiling: float, n_votes: int | None) -> float:
    """The mean of the statistic at this ceiling: the inverse of :func:`bound_at`."""
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


class Apart(NamedTuple):
    """Matches and ceiling, tested by exact tails of both or by the paper's scores."""

    test: str
    hits: int
    match_rate: float
    n: int
    ceiling: Ceiling

    @property
    def is_scored(self) -> bool:
        """Whether the test is one of the paper's."""
        return self.test.startswith("paper")

    @property
    def value(self) -> float:
        """Match rate minus ceiling."""
        rate = self.match_rate if self.is_scored else self.hits / self.n
        return rate - self.ceiling.value

    def score(self, margin: float) -> float:
        """The paper's S; its split is chosen after the fact: the error is up to 2(1 - S)."""
        score = hms_score if self.test == "paper-hms" else oms_score
        return score(self.match_rate, self.ceiling.value, self.n, margin=margin)

    def p_value(self, margin: float) -> float:
        """1 - S, or 2·min over c of max(P(Binomial(n, c + margin) >= hits), tail of "the ceiling is
        at least c"); 1 where the sample is against it.

        If the claim is false, then L <= c + margin or U >= c for every c. The factor 2 pays for
        choosing c after the fact.
        """
        if self.is_scored:
            return min(1.0, 1 - self.score(margin))
        if not self.value > margin:
            return 1.0

        def tails(c: float) -> tuple[float, float]:
            return binomial_at_least(self.hits, self.n, c + margin), self.ceiling.tail(c)

        ends = _crossing(lambda c: tails(c)[0] >= tails(c)[1], 0.0, 1.0 - margin)
        return min(1.0, 2 * min(max(tails(c)) for c in ends))

    def low(self, error: float) -> float:
        """The lower limit of the difference; exact tails have half of the error rate each."""
        if not self.is_scored:
            system = clopper_pearson(self.hits, self.n, error / 2, 0.0)[0]
            return max(-1.0, system - self.ceiling.high(error / 2))
        if self.score(-1.0) < 1 - error:
            return -1.0
        top = max(self.value, -1.0)
        return _crossing(lambda m: self.score(m) < 1 - error, -1.0, top)[0]

    def run(self, margin: float, error: float) -> Tested:
        """What the test finds."""
        return Tested(
            value=self.value,
            low=self.low(error),
            p_value=self.p_value(margin),
            kind=self.ceiling.kind,
            score=self.score(margin) if self.is_scored else math.nan,
        )


def _crossing(reached: Callable[[float], bool], below: float, above: float) -> tuple[float, float]:
    """Where a condition that holds from some point on begins, as a pair that encloses it."""
    for _ in range(60):
        middle = (below + above) / 2
        below, above = (below, middle) if reached(middle) else (middle, above)
    return below, above


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
    lower = max(0.0, match_rate - margin - math.sqrt(upper + ceiling**2))
    return 1 - math.exp(-2 * n_items * upper**2) - math.exp(-2 * n_items * lower**2)


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

    def loss(c: Any) -> Any:
        upper, lower = (c**2 - ceiling**2) ** 2, (top - c) ** 2
        return np.exp(-2 * n_items * upper) + np.exp(-2 * n_items * lower)

    grid = np.linspace(ceiling, top, _STEPS + 1)
    losses = loss(grid)
    best = int(losses.argmin())
    around = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _STEPS)])
    close = 1e-10 * (top - ceiling)
    found = minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": close})
    return 1 - min(float(found.fun), float(losses[best]))
