"""Differences of accuracies at a fixed number of labels: exact for ordinary ones, bets that learn
for the others; strata by their share.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from noracle import PatternCounts, compare_systems
from noracle.counts import Cell, Pattern
from tests.guarantees.matrix.comparisons import (
    Answers,
    Contest,
    Labels,
    compared,
    contests,
    independent,
)
from tests.guarantees.matrix.record import Case, Seen, fewer, row_of, seeded
from tests.guarantees.measure import Row

FIXED, STRATA = "paired, fixed n", "paired, strata"
Stratum = tuple[dict[Answers, float], int, int]  # how two systems answer, items, labels


def _fixed() -> Iterator[Case]:
    for contest in contests():
        interval = "exact" if contest.labels == "ordinary" else "fixed-n"
        for n in (2, 40):
            yield Case(
                part=FIXED,
                name=f"{contest.name}, n={n}",
                quick=(n, contest.k) == (2, 10),
                measured=lambda worlds, c=contest, n=n, i=interval: compared(
                    c, n, fewer(worlds, 8, 150), intervals=(i,), part=FIXED
                ),
            )
    ends: dict[str, dict[Answers, float]] = {
        "always the first": {(0, 1): 1.0},
        "never apart": {(0, 0): 0.5, (1, 1): 0.5},
        "one in fifty": {(0, 0): 0.98, (0, 1): 0.01, (1, 0): 0.01},
        "always apart": {(0, 1): 0.5, (1, 0): 0.5},
        "often the first": {(0, 1): 0.6, (1, 0): 0.2, (0, 0): 0.2},
    }
    for (name, table), n in itertools.product(ends.items(), (1, 10, 200)):
        contest = Contest(
            name=f"2 systems, {name} right alone, K=4, ordinary",
            k=4,
            table=table,
            labels="ordinary",
        )
        intervals = ("auto", "exact", "fixed-n" if n < 100 else "wald")
        yield Case(
            part=FIXED,
            name=f"{contest.name}, n={n}",
            measured=lambda worlds, c=contest, n=n, i=intervals: compared(
                c, n, worlds, intervals=i, part=FIXED
            ),
        )


def _stratified(
    name: str,
    k: int,
    strata: Sequence[Stratum],
    labels: Labels,
    intervals: Sequence[str],
    worlds: int,
) -> list[Row]:
    """Shares of the strata are known, their items drawn from a law; numbers of labels are fixed by
    stratum.
    """
    made = [Contest(name=name, k=k, table=table, labels=labels) for table, _, _ in strata]
    total = sum(size for _, size, _ in strata)
    truth = float(
        sum(size * (c.truth[0] - c.truth[1]) for c, (_, size, _) in zip(made, strata, strict=True))
        / total
    )
    rng, patterns, columns = seeded(name, labels), [], []
    for i, (contest, (_, _, n)) in enumerate(zip(made, strata, strict=True)):
        found, chances = contest.outcomes()
        patterns += [p._replace(stratum=f"s{i}") for p in found]
        columns.append(rng.multinomial(n, chances, size=worlds))
    items = {Cell("", k, f"s{i}"): size for i, (_, size, _) in enumerate(strata)}
    drawn = Counter(map(tuple, np.concatenate(columns, axis=1).tolist()))
    rows = []
    for interval in intervals:
        started, seen = time.perf_counter(), Seen()
        for key, times in drawn.items():
            met: dict[Pattern, int] = {p: c for p, c in zip(patterns, key, strict=True) if c}
            result = compare_systems(
                PatternCounts(systems=("a", "b"), patterns=met, items=items), interval=interval
            )  # type: ignore[arg-type]
            d = result.difference("a", "b")
            seen.add(
                d.low - 1e-12 <= truth <= d.high + 1e-12,
                d.high - d.low,
                result.guarantee.kind.label,
                times,
            )
        n = sum(labelled for _, _, labelled in strata)
        rows.append(
            row_of(
                seen,
                part=STRATA,
                setting=name,
                method="all pairs",
                interval=interval,
                n=n,
                started=started,
            )
        )
    return rows


def _strata() -> Iterator[Case]:
    pairs = {
        "each better in one": (independent((0.9, 0.6)), independent((0.4, 0.7))),
        "alike": (independent((0.5, 0.5)), independent((0.5, 0.5))),
        "opposite": (independent((1.0, 0.0)), independent((0.0, 1.0))),
        "the second never right": (independent((0.98, 0.0)), independent((0.02, 0.0))),
        "with gaps": (independent((0.7, 0.7), silent=0.3), independent((0.2, 0.9), silent=0.3)),
    }
    designs = {
        "80 of 2,000 and 20 of 2,000": ((2000, 80), (2000, 20)),
        "1 of 30 and 40 of 70": ((30, 1), (70, 40)),
        "30 of 300 and none of 100": ((300, 30), (100, 0)),
    }
    kinds: tuple[Labels, ...] = ("ordinary", "ruled out", "questions", "targeted")
    for (who, tables), (design, sizes), labels in itertools.product(
        pairs.items(), designs.items(), kinds
    ):
        name = f"2 systems, {who}, K=4, {labels}, strata labelled {design}"
        strata = [(table, size, n) for table, (size, n) in zip(tables, sizes, strict=True)]
        yield Case(
            part=STRATA,
            name=name,
            quick=(who, labels) == ("each better in one", "ordinary") and design.startswith("80"),
            measured=lambda worlds, v=(name, 4, strata, labels): _stratified(
                *v, ("auto", "betting", "wald"), fewer(worlds, 5, 200)
            ),
        )
    for labels in kinds:
        many = [
            (independent((0.9, 0.6) if i % 2 else (0.4, 0.7)), 100, 12 if i % 2 else 1)
            for i in range(12)
        ]
        name = f"2 systems, 12 strata of 100 labelled 1 or 12, K=4, {labels}"
        yield Case(
            part=STRATA,
            name=name,
            measured=lambda worlds, v=(name, 4, many, labels): _stratified(
                *v, ("auto", "betting", "wald"), fewer(worlds, 5, 200)
            ),
        )


def cases() -> list[Case]:
    """Every case of this file."""
    return [case for make in (_fixed, _strata) for case in make()]
