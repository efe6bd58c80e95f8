"""Tests of one mean: how much more often the system agrees with the vote than the vote's own share
of the votes.

For an item with n votes, a of them for the most frequent label, the credit of the system is 1 if it
gives that label (1/t where t labels are tied and ties are shared) and Z = credit - a/n. No
annotation can be right more often than the most frequent label occurs, so the mean of a/n is at
least the accuracy of the average annotation; under (6) the mean of the credit is at most that of
the system. A mean of Z above the margin proves the claim: one paired test, no union bound.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from noracle.bounds.betting import FRACTIONS, LOG_PRIOR, Score, betting_interval, log_wealth
from noracle.bounds.clusters import cluster_limits
from noracle.bounds.special import stdtr, stdtrit
from noracle.bounds.tails import bernstein_above, bernstein_low
from noracle.counts.ratings import RatingCounts
from noracle.errors import EvidenceError, fault
from noracle.results import Kind

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
