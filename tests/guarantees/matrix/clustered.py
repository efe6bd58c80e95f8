"""Accuracy where items come in clusters whose items are alike: the cluster is the unit, in the
table and beyond it.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
import warnings
from collections import Counter
from collections.abc import Iterator

import numpy as np

from noracle import AccuracyCounts, GuaranteeWarning, estimate_accuracy
from noracle.counts import Cell, Tally
from tests.guarantees.matrix.record import Case, Seen, fewer, row_of, seeded
from tests.guarantees.matrix.samples import STATES, Labels
from tests.guarantees.measure import Row

PART = "clusters"
KINDS = {
    "ordinary": Labels(ordinary=1.0),
    "ruled out": Labels(ruled_out=1.0),
    "questions": Labels(questions=1.0),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Clusters:
    """``n`` clusters are labelled; their sizes are equally likely, their accuracies drawn from a
    beta law, or 0 and 1 at the ends.

    ``by_size`` makes large clusters hard. ``of`` is how many clusters there are in the table; 0
    says that all of them are labelled and that more of their kind are meant. ``each`` items of a
    cluster are labelled, all of them for 0.
    """

    n: int
    sizes: tuple[int, ...]
    accuracy: float
    alike: float = 0.3
    by_size: bool = False
    of: int = 0
    each: int = 0
    labels: str = "ordinary"
    k: int = 4

    @property
    def name(self) -> str:
        where = f"{self.n} of {self.of} clusters" if self.of else f"{self.n} clusters, beyond"
        told = "hard where large" if self.by_size else f"A={self.accuracy:g}"
        labelled = f", {self.each} of each labelled" if self.each else ""
        return f"{where} of {'/'.join(map(str, self.sizes))}, {told}, {self.alike:g} alike, K={self.k} {self.labels}{labelled}"

    def mean(self, size: int) -> float:
        return 1 - size / (max(self.sizes) + 1) if self.by_size else self.accuracy

    @property
    def truth(self) -> float:
        """Beyond: the mean over the items of the law."""
        return sum(m * self.mean(m) for m in self.sizes) / sum(self.sizes)

    def world(self, rng: np.random.Generator) -> tuple[AccuracyCounts, float]:
        """One world, and the accuracy that its interval must contain."""
        total = self.of or self.n
        sizes = rng.choice(self.sizes, size=total)
        means = np.array([self.mean(int(m)) for m in sizes])
        scale = 1 / self.alike - 1
        inside = (means > 0) & (means < 1)
        rates = np.where(
            inside,
            rng.beta(
                np.where(inside, means, 0.5) * scale, np.where(inside, 1 - means, 0.5) * scale
            ),
            means,
        )
        right = rng.binomial(sizes, rates)
        tallies: Counter[Tally] = Counter()
        items: dict[Cell, int] = {}
        drawn = set(rng.permutation(total)[: self.n].tolist())
        for c in range(total):
            name = f"c{c}"
            items[Cell("s", self.k, cluster=name)] = int(sizes[c])
            if c not in drawn:
                continue
            labelled = min(self.each or int(sizes[c]), int(sizes[c]))
            hits = int(rng.hypergeometric(right[c], sizes[c] - right[c], labelled))
            for state, n in zip(STATES[:2], (hits, labelled - hits), strict=True):
                law = KINDS[self.labels].outcomes(self.k, state, cluster=name)
                for (tally, _), count in zip(
                    law, rng.multinomial(n, [p for _, p in law]).tolist(), strict=True
                ):
                    tallies[tally] += count
        counts = AccuracyCounts(
            tallies={t: n for t, n in tallies.items() if n}, items=items, answered=items
        )
        return counts, float(right.sum() / sizes.sum()) if self.of else self.truth


def _measured(clusters: Clusters, worlds: int) -> list[Row]:
    rows = []
    for interval in ("auto", "wald"):
        started, seen, n = time.perf_counter(), Seen(), 0
        for seed in range(worlds):
            counts, truth = clusters.world(seeded(clusters.name, seed))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GuaranteeWarning)
                found = estimate_accuracy(
                    counts, interval=interval, population="answers" if clusters.of else "beyond"
                )  # type: ignore[arg-type]
            seen.add(
                found.low - 1e-12 <= truth <= found.high + 1e-12,
                found.high - found.low,
                found.guarantee.kind.label,
            )
            n = sum(counts.tallies.values())
        rows.append(
            row_of(
                seen,
                part=PART,
                setting=clusters.name,
                method="default",
                interval=interval,
                n=n,
                started=started,
            )
        )
    return rows


def _all() -> Iterator[Clusters]:
    for sizes, labels, n in itertools.product(((5,), (1, 2, 9)), KINDS, (4, 30)):
        yield Clusters(n=n, sizes=sizes, accuracy=0.7, labels=labels)
    for labels in KINDS:
        yield Clusters(n=30, sizes=(1, 3, 8), accuracy=0.0, by_size=True, labels=labels)
        yield Clusters(n=30, sizes=(1, 3, 8), accuracy=0.0, by_size=True, labels=labels, of=300)
        yield Clusters(n=30, sizes=(6,), accuracy=0.6, labels=labels, of=300, each=2)
    for accuracy in (0.0, 0.02, 0.98, 1.0):
        yield Clusters(n=12, sizes=(2, 6), accuracy=accuracy)
        yield Clusters(n=12, sizes=(2, 6), accuracy=accuracy, of=200)
    yield Clusters(n=20, sizes=(10,), accuracy=0.5, alike=0.9)
    yield Clusters(n=20, sizes=(10,), accuracy=0.5, alike=0.9, of=200)


def cases() -> list[Case]:
    """Every case of this file."""
    return [
        Case(
            part=PART,
            name=c.name,
            quick=c.n == 4 and c.labels == "ordinary",
            measured=lambda worlds, c=c: _measured(c, fewer(worlds, 5, 200)),
        )
        for c in _all()
    ]
