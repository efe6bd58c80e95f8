"""Items that were answered more than once: scores without bias, and limits that cover, by
enumeration and in worlds.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pytest
from scipy.stats import binom

from noracle import AccuracyCounts, PatternCounts, compare_systems, estimate_accuracy
from noracle.accuracy.score import (
    difference_scores,
    least_difference,
    pattern_scores,
    score_ends,
    sided_scores,
)
from noracle.bounds.binomial import clopper_pearson
from noracle.counts import Cell
from noracle.counts.tally import Label, Repeats, Tally, pattern
from tests.runs import meet_runs

Protocol = Literal["ordinary", "complementary", "two ruled out", "question", "recorded"]
MODES: tuple[Repeats, ...] = ("mean", "all", "any")
Runs = tuple[int | None, ...]


def labels(protocol: Protocol, truth: int, k: int) -> Iterator[tuple[float, Label]]:
    """Every label that a protocol can give to an item, with its probability."""
    wrong = [c for c in range(k) if c != truth]
    if protocol == "ordinary":
        yield 1.0, Label(k, "yes", frozenset({truth}))
    elif protocol == "complementary":
        yield from ((1 / (k - 1), Label(k, "no", frozenset({c}))) for c in wrong)
    elif protocol == "two ruled out":
        pairs = list(itertools.combinations(wrong, 2))
        yield from ((1 / len(pairs), Label(k, "no", frozenset(pair))) for pair in pairs)
    else:
        weight = [c + 1.0 if protocol == "recorded" else 1.0 for c in range(k)]
        for c in range(k):
            chance = weight[c] / sum(weight)
            yield (
                chance,
                Label(
                    k,
                    "yes" if c == truth else "no",
                    frozenset({c}),
                    chance if protocol == "recorded" else None,
                ),
            )


def right(runs: Runs, truth: int, how: Repeats) -> float:
    hits = [answer == truth for answer in runs]
    return float({"mean": np.mean(hits), "all": all(hits), "any": any(hits)}[how])


# -------------------------------------------------------------------------------------------------------------
# no bias


@pytest.mark.parametrize("how", MODES)
@pytest.mark.parametrize(
    "protocol", ["ordinary", "complementary", "two ruled out", "question", "recorded"]
)
def test_scores_of_repeats_have_no_bias_for_every_answer_and_truth(
    protocol: Protocol, how: Repeats
) -> None:
    for k, n_runs in ((3, 2), (4, 3)):
        for runs in itertools.product((None, *range(k)), repeat=n_runs):
            for truth in range(k):
                below = above = total = 0.0
                for chance, label in labels(protocol, truth, k):
                    t = meet_runs(label, runs, how=how)
                    low, high = sided_scores(t)
                    below, above, total = (
                        below + chance * low,
                        above + chance * high,
                        total + chance,
                    )
                    if t.design == "uniform":
                        least, most = score_ends(
                            t.verdict, k, t.n_ruled_out, min(k, n_runs) if how == "any" else 1
                        )
                        assert least - 1e-12 <= low <= most + 1e-12
                    else:
                        assert low >= 0
                        assert high <= (n_runs if how == "any" else 1) + 1e-12
                assert total == pytest.approx(1)
                assert (below, above) == pytest.approx((right(runs, truth, how),) * 2, abs=1e-9)


@pytest.mark.parametrize("how", ["mean", "any"])
@pytest.mark.parametrize("protocol", ["ordinary", "complementary", "two ruled out", "recorded"])
def test_differences_of_repeats_have_no_bias_and_stay_above_their_least(
    protocol: Protocol, how: Repeats
) -> None:
    k, most = 4, 2 if how == "any" else 1
    choices = [(None, 0), (0, 1), (1, 2), (2, 2), (3, None), (None, None)]
    for first, second in itertools.product(choices, repeat=2):
        for truth in range(k):
            mean = np.zeros((2, 2))
            for chance, label in labels(protocol, truth, k):
                t = [meet_runs(label, runs, how=how) for runs in (first, second)]
                met = pattern(
                    label.place,
                    label.verdict,
                    [x.hit if x.answered else None for x in t],
                    n_ruled_out=t[0].n_ruled_out,
                    inverse=None
                    if label.propensity is None
                    else [(x.yes_score or 0.0) + (x.no_score or 0.0) for x in t],
                    answers=[
                        runs[0] if len(set(runs)) == 1 else i
                        for i, runs in enumerate((first, second), start=10)
                    ],
                    shares=[
                        None if x.hit_share is None else (x.hit_share, x.answered_share or 0.0)
                        for x in t
                    ],
                )
                least = least_difference(
                    met.verdict,
                    k,
                    max(1, met.n_ruled_out),
                    recorded=protocol == "recorded",
                    most_answers=most,
                )
                assert difference_scores(met).min() >= least - 1e-12
                assert pattern_scores(met) == pytest.approx(
                    [sided_scores(x)[0] for x in t], abs=1e-9
                )
                mean += chance * difference_scores(met)
            wanted = right(first, truth, how) - right(second, truth, how)
            assert (mean[0, 1], mean[1, 0]) == pytest.approx((wanted, -wanted), abs=1e-9)


# -------------------------------------------------------------------------------------------
# coverage, by enumeration

RATES = (0.0, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 1.0)
K, N_RUNS = 3, 2


def outcomes(
    protocol: Protocol, how: Repeats, rate: float, *, same: bool, silent: float
) -> tuple[Counter[Tally], float, float]:
    """The law of one item's tally, how often it is right, and how often it has an answer that may
    be.
    """
    truth, found = 0, Counter[Tally]()
    is_right = answered = 0.0
    for runs in itertools.product((None, *range(K)), repeat=N_RUNS):
        if same and len(set(runs)) > 1:
            continue
        p = math.prod(
            silent if a is None else (1 - silent) * (rate if a == truth else (1 - rate) / (K - 1))
            for a in (runs[:1] if same else runs)
        )
        is_right += p * right(runs, truth, how)
        for chance, label in labels(protocol, truth, K):
            t = meet_runs(label, runs, how=how)
            found[t] += p * chance  # type: ignore[assignment]
            answered += p * chance * t.answered
    return found, is_right, answered


def counted(
    tallies: Counter[Tally], answered: float, how: Repeats, n_items: int = 10**6
) -> AccuracyCounts:
    """Labels of a few items out of many, of which the share with an answer is known."""
    cell = Cell("system", K)
    return AccuracyCounts(
        tallies=dict(tallies),
        items={cell: n_items},
        answered={cell: round(answered * n_items)},
        whole=False,
        repeats=how,
        runs={"system": N_RUNS * n_items},
        most_answers={"system": N_RUNS} if how == "any" else {},
    )


def coverage(
    protocol: Protocol, how: Repeats, n: int, *, same: bool, silent: float = 0.0
) -> list[float]:
    """The exact probability that the interval of n labelled items covers, at every rate of right
    runs.
    """
    found = []
    known: dict[tuple[Any, ...], tuple[float, float]] = {}
    for rate in RATES:
        law, truth, answered = outcomes(protocol, how, rate, same=same, silent=silent)
        possible = sorted((t for t, p in law.items() if p > 0), key=str)
        covered = 0.0
        for drawn in itertools.combinations_with_replacement(possible, n):
            tallies = Counter(drawn)
            key = (drawn, round(answered, 12))
            if key not in known:
                estimate = estimate_accuracy(counted(tallies, answered, how), checks="none")
                known[key] = estimate.low, estimate.high
            low, high = known[key]
            ways = math.factorial(n) / math.prod(math.factorial(m) for m in tallies.values())
            covered += (
                ways
                * math.prod(law[t] ** m for t, m in tallies.items())
                * (low - 1e-6 <= truth <= high + 1e-6)
            )
        found.append(covered)
    return found


SETTINGS = [
    (protocol, how, same)
    for protocol in ("ordinary", "complementary", "question", "recorded")
    for how in MODES
    for same in (False, True)
]


@pytest.mark.parametrize(("protocol", "how", "same"), SETTINGS)
def test_two_labels_cover_at_every_accuracy(protocol: Protocol, how: Repeats, same: bool) -> None:
    assert min(coverage(protocol, how, 2, same=same)) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "how", "same"), SETTINGS)
def test_four_labels_with_silent_runs_cover_at_every_accuracy(
    protocol: Protocol, how: Repeats, same: bool
) -> None:
    assert min(coverage(protocol, how, 4, same=same, silent=0.1)) >= 0.95


def test_runs_taken_for_items_would_not_cover() -> None:
    """Five runs that always agree are one: as 5n items they cover far less than they promise, as n
    items they do.
    """
    n, rate = 40, 0.7
    naive = honest = 0.0
    for hits in range(n + 1):
        chance = float(binom.pmf(hits, n, rate))
        low, high = clopper_pearson(5 * hits, 5 * n, 0.025, 0.025)
        naive += chance * (low <= rate <= high)
        label = Label(K, "yes", frozenset({0}))
        met = Counter({meet_runs(label, [0] * 5): hits, meet_runs(label, [1] * 5): n - hits})
        estimate = estimate_accuracy(counted(+met, 1.0, "mean"), checks="none")
        honest += chance * (estimate.low <= rate <= estimate.high)
    assert naive < 0.75
    assert honest >= 0.95


# -------------------------------------------------------------------------------------------------
# coverage, in worlds


def drawn(
    rng: np.random.Generator, n: int, n_runs: int, rate: float, k: int, together: float
) -> tuple[np.ndarray, np.ndarray]:
    """Truths, and runs of which a share ``together`` repeats the first one."""
    truth = rng.integers(k, size=n)
    runs = np.where(
        rng.random((n, n_runs)) < rate,
        truth[:, None],
        (truth[:, None] + rng.integers(1, k, size=(n, n_runs))) % k,
    )
    return truth, np.where(rng.random((n, n_runs)) < together, runs[:, :1], runs)


def label_of(rng: np.random.Generator, protocol: Protocol, truth: int, k: int) -> Label:
    found = list(labels(protocol, truth, k))
    return found[int(rng.choice(len(found), p=[p for p, _ in found]))][1]


WORLDS = [
    ("ordinary", "mean", 0.97, 60, 0.0),
    ("ordinary", "any", 0.5, 40, 0.0),
    ("complementary", "mean", 0.9, 80, 0.5),
    ("complementary", "any", 0.3, 80, 0.0),
    ("complementary", "all", 0.95, 60, 0.0),
    ("question", "mean", 0.05, 60, 1.0),
    ("question", "any", 0.7, 80, 0.3),
    ("question", "all", 0.8, 60, 0.9),
    ("recorded", "mean", 0.6, 60, 0.0),
    ("recorded", "any", 0.4, 60, 0.5),
    ("two ruled out", "any", 0.3, 60, 0.0),
    ("two ruled out", "mean", 0.9, 60, 0.0),
]


def misses(
    protocol: Protocol,
    how: Repeats,
    rate: float,
    n: int,
    together: float,
    worlds: int,
    *,
    k: int = 5,
) -> tuple[int, float]:
    """How often the interval of all n items' labels misses what these items are, and its mean
    width; two thirds of them have a label.
    """
    rng = np.random.default_rng([n, int(1000 * rate), len(protocol), worlds])
    missed, width = 0, 0.0
    cell = Cell("system", k)
    for _ in range(worlds):
        truth, runs = drawn(rng, n, 3, rate, k, together)
        met = [
            meet_runs(label_of(rng, protocol, int(y), k), row, how=how)
            for y, row in zip(truth.tolist(), runs.tolist(), strict=True)
        ]
        labelled = Counter(met[: 2 * n // 3])
        answered = {cell: sum(t.answered for t in met)}
        counts = AccuracyCounts(
            tallies=labelled,
            items={cell: n},
            answered=answered,
            repeats=how,
            runs={"system": 3 * n},
            most_answers={"system": 3} if how == "any" else {},
        )
        estimate = estimate_accuracy(counts, checks="none")
        value = float(
            np.mean(
                [
                    right(tuple(row), y, how)
                    for y, row in zip(truth.tolist(), runs.tolist(), strict=True)
                ]
            )
        )
        missed += not estimate.low - 1e-9 <= value <= estimate.high + 1e-9
        width += estimate.width / worlds
    return missed, width


@pytest.mark.full
@pytest.mark.parametrize(("protocol", "how", "rate", "n", "together"), WORLDS[::4])
def test_estimates_of_repeats_cover_in_worlds(
    protocol: Protocol, how: Repeats, rate: float, n: int, together: float
) -> None:
    missed, width = misses(protocol, how, rate, n, together, 60)
    assert missed <= binom.ppf(0.999, 60, 0.05)
    assert width < 0.99


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "how", "rate", "n", "together"), WORLDS)
def test_estimates_of_repeats_cover_in_many_worlds(
    protocol: Protocol, how: Repeats, rate: float, n: int, together: float
) -> None:
    missed, width = misses(protocol, how, rate, n, together, 2000)
    assert missed <= binom.ppf(0.999, 2000, 0.05)
    assert width < 0.99


def compared(
    protocol: Protocol, how: Repeats, rates: tuple[float, float], n: int, worlds: int, *, k: int = 5
) -> int:
    """How often the interval of the difference of two systems misses; they have two and four runs."""
    rng = np.random.default_rng([n, int(1000 * rates[0]), len(protocol), worlds])
    missed = 0
    for _ in range(worlds):
        truth = rng.integers(k, size=n)
        table: Counter[Any] = Counter()
        value = 0.0
        for i, y in enumerate(truth.tolist()):
            both = []
            for rate, n_runs in zip(rates, (2, 4), strict=True):
                own = np.where(
                    rng.random(n_runs) < rate, y, (y + rng.integers(1, k, size=n_runs)) % k
                ).tolist()
                both.append(tuple(own if rng.random() < 0.5 else own[:1] * n_runs))
            value += (right(both[0], y, how) - right(both[1], y, how)) / n
            if i >= n // 2:
                continue
            label = label_of(rng, protocol, y, k)
            t = [meet_runs(label, runs, how=how) for runs in both]
            table[
                pattern(
                    label.place,
                    label.verdict,
                    [x.hit if x.answered else None for x in t],
                    n_ruled_out=t[0].n_ruled_out,
                    inverse=None
                    if label.propensity is None
                    else [(x.yes_score or 0.0) + (x.no_score or 0.0) for x in t],
                    answers=[
                        runs[0] if len(set(runs)) == 1 else -1 - j for j, runs in enumerate(both)
                    ],
                    shares=[
                        None if x.hit_share is None else (x.hit_share, x.answered_share or 0.0)
                        for x in t
                    ],
                )
            ] += 1
        counts = PatternCounts(
            systems=("a", "b"),
            patterns=dict(table),
            items={Cell("", k): n},
            repeats=how,
            runs={"a": 2 * n, "b": 4 * n},
            most_answers={"a": 2, "b": 4} if how == "any" else {},
        )
        d = compare_systems(counts, checks="none").difference("a", "b")
        missed += not d.low - 1e-9 <= value <= d.high + 1e-9
    return missed


COMPARED = [
    ("ordinary", "mean", (0.8, 0.6)),
    ("ordinary", "any", (0.5, 0.3)),
    ("ordinary", "all", (0.9, 0.9)),
    ("complementary", "mean", (0.9, 0.5)),
    ("question", "any", (0.4, 0.6)),
    ("recorded", "mean", (0.95, 0.2)),
    ("recorded", "any", (0.3, 0.5)),
]


@pytest.mark.parametrize(("protocol", "how", "rates"), COMPARED[::3])
def test_comparisons_of_repeats_cover_in_worlds(
    protocol: Protocol, how: Repeats, rates: tuple[float, float]
) -> None:
    assert compared(protocol, how, rates, 60, 40) <= binom.ppf(0.999, 40, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "how", "rates"), COMPARED)
def test_comparisons_of_repeats_cover_in_many_worlds(
    protocol: Protocol, how: Repeats, rates: tuple[float, float]
) -> None:
    assert compared(protocol, how, rates, 80, 1000) <= binom.ppf(0.999, 1000, 0.05)
