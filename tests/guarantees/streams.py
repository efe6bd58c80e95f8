"""Continuous looking: the interval is looked at after every label, and must hold at all looks
together.

A sequence misses at some look exactly when the wealth against the truth reaches its goal, so only
the wealth at the truth is followed, for all streams at once. ``agrees`` compares this with the
public functions at some looks.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from noracle import AccuracyCounts, estimate_accuracy
from noracle.bounds.betting import FRACTIONS, LOG_PRIOR
from noracle.counts import Cell, Tally
from tests.guarantees.worlds import escape, no, yes

Rng = np.random.Generator


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one label can say: its tally, its chance, its place in the likelihood and its scores
    with their ranges.
    """

    tally: Tally
    chance: float
    a: float
    b: float
    success: bool
    lower: float
    upper: float
    low: float
    high: float = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stream:
    """One kind of stream of labels."""

    name: str
    truth: float
    outcomes: tuple[Outcome, ...]
    n: int
    intervals: tuple[str, ...] = ("anytime", "betting")
    codes: Callable[[Rng, int], np.ndarray] | None = None

    def draw(self, rng: Rng, streams: int) -> np.ndarray:
        """Outcomes by number, one row a stream, in the order of the labels."""
        if self.codes is not None:
            return self.codes(rng, streams)
        chances = np.array([o.chance for o in self.outcomes])
        return rng.choice(len(chances), size=(streams, self.n), p=chances / chances.sum())

    def counts(self, codes: np.ndarray) -> AccuracyCounts:
        """The labels of one stream as counts."""
        tallies = Counter(self.outcomes[c].tally for c in codes.tolist())
        items: Counter[Cell] = Counter()
        for t, n in tallies.items():
            items[Cell(t.system, t.n_classes)] += n
        return AccuracyCounts(tallies=dict(tallies), items=dict(items), answered=dict(items))


def _ordinary(k: int, accuracy: float, chance: float, low: float = 0.0) -> list[Outcome]:
    return [
        Outcome(yes(k, hit=True), chance * accuracy, 0.0, 1.0, True, 1.0, 1.0, low),
        Outcome(yes(k, hit=False), chance * (1 - accuracy), 0.0, 1.0, False, 0.0, 0.0, low),
    ]


def _complementary(
    k: int, accuracy: float, chance: float, low: float | None = None
) -> list[Outcome]:
    b, q = 1 / (k - 1), escape(k, accuracy)
    least = 2.0 - k
    return [
        Outcome(
            no(k, hit=False), chance * q, 1 - b, b, True, 1.0, 1.0, least if low is None else low
        ),
        Outcome(
            no(k, hit=True),
            chance * (1 - q),
            1 - b,
            b,
            False,
            least,
            least,
            least if low is None else low,
        ),
    ]


def _questions(
    k: int, accuracy: float, share: float = 1.0, low: float | None = None
) -> list[Outcome]:
    yeses = _ordinary(k, accuracy, share / k, 0.0 if low is None else low)
    return yeses + _complementary(k, accuracy, share * (1 - 1 / k), low)


def _aimed(k: int, chance: float, accuracy: float, share: float) -> list[Outcome]:
    score = 1 / chance
    about: dict[str, Any] = {"design": "recorded"}
    rest = share * (1 - chance)
    nan = float("nan")
    none = {"yes_score": 0.0, "no_score": 0.0, **about}
    right, wrong = share * chance * accuracy, share * chance * (1 - accuracy)
    return [
        Outcome(
            yes(k, hit=True, **{**none, "yes_score": score}), right, nan, nan, True, score, 1.0, 0.0
        ),
        Outcome(
            no(k, hit=True, **{**none, "no_score": score}),
            wrong,
            nan,
            nan,
            False,
            0.0,
            1 - score,
            0.0,
        ),
        Outcome(no(k, hit=False, **none), rest, nan, nan, False, 0.0, 1.0, 0.0),
    ]


def _without_replacement(n_right: int, n_items: int) -> Callable[[Rng, int], np.ndarray]:
    def draw(rng: Rng, streams: int) -> np.ndarray:
        wrong = np.arange(n_items) >= n_right
        return rng.permuted(np.tile(wrong, (streams, 1)), axis=1).astype(int)

    return draw


def all_streams() -> tuple[Stream, ...]:
    """Every kind of stream."""
    half = 0.5
    return (
        Stream(
            name="K=4 A=0.5, 500 ordinary", truth=0.5, n=500, outcomes=tuple(_ordinary(4, 0.5, 1.0))
        ),
        Stream(
            name="K=10 A=0.95, 1,000 complementary",
            truth=0.95,
            n=1000,
            outcomes=tuple(_complementary(10, 0.95, 1.0)),
        ),
        Stream(
            name="K=4 A=0.78, 500 questions", truth=0.78, n=500, outcomes=tuple(_questions(4, 0.78))
        ),
        Stream(
            name="K=5 A=1, 300 of both",
            truth=1.0,
            n=300,
            outcomes=(*_ordinary(5, 1.0, half), *_complementary(5, 1.0, half)),
        ),
        Stream(
            name="K=5 A=0, 300 of both",
            truth=0.0,
            n=300,
            outcomes=(*_ordinary(5, 0.0, half), *_complementary(5, 0.0, half)),
        ),
        Stream(
            name="K=50 A=0.02, 600 of both",
            truth=0.02,
            n=600,
            outcomes=(*_ordinary(50, 0.02, half), *_complementary(50, 0.02, half)),
        ),
        Stream(
            name="mixed K=3/50 A=0.95/0.2, 1,000 questions",
            truth=0.575,
            n=1000,
            intervals=("betting",),
            outcomes=(*_questions(3, 0.95, half, -48.0), *_questions(50, 0.2, half, -48.0)),
        ),
        Stream(
            name="aimed at another system, K=10 A=0.54, 500",
            truth=0.54,
            n=500,
            intervals=("betting",),
            outcomes=(*_aimed(10, 0.905, 0.85, 0.6), *_aimed(10, 0.01, 0.075, 0.4)),
        ),
        Stream(
            name="finite population of 200, 140 right, to the end",
            truth=0.7,
            n=200,
            outcomes=tuple(_ordinary(4, 0.7, 1.0)),
            codes=_without_replacement(140, 200),
        ),
    )


def missed(stream: Stream, interval: str, codes: np.ndarray, error: float = 0.05) -> np.ndarray:
    """For every stream and look: does the interval of that look miss the truth?"""
    wealth = _mixture(stream, codes) if interval == "anytime" else _bets(stream, codes)
    goal = np.log(1 / error) if interval == "anytime" else np.log(2 / error)
    return np.asarray(wealth >= goal)


def _bets(stream: Stream, codes: np.ndarray) -> np.ndarray:
    """log of the larger of the two wealths against the truth, after every label."""
    m = np.float64(stream.truth)
    best = np.full(codes.shape, -np.inf)
    for side in ("lower", "upper"):
        with np.errstate(divide="ignore", invalid="ignore"):
            gains = np.array(
                [
                    (o.lower - m) / (m - o.low) if side == "lower" else (m - o.upper) / (o.high - m)
                    for o in stream.outcomes
                ]
            )
            # At an end of the range nothing can be won on that side.
            steps = np.log1p(np.multiply.outer(np.where(np.isfinite(gains), gains, 0.0), FRACTIONS))
        logs = np.zeros((len(codes), len(FRACTIONS)))
        for t in range(codes.shape[1]):
            logs += steps[codes[:, t]]
            best[:, t] = np.maximum(
                best[:, t], np.log(np.exp(logs + LOG_PRIOR).sum(axis=1).clip(1e-300))
            )
    return best


def _mixture(stream: Stream, codes: np.ndarray) -> np.ndarray:
    """log ∫ L / L(truth) after every label, on 400 Gauss nodes."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    rates = np.append((nodes + 1) / 2, stream.truth)
    rows = []
    with np.errstate(divide="ignore"):
        for o in stream.outcomes:
            p = o.a + o.b * rates
            rows.append(np.log(p if o.success else 1 - p))
    table = np.array(rows)
    logs = np.zeros((len(codes), len(rates)))
    out = np.empty(codes.shape)
    for t in range(codes.shape[1]):
        logs += table[codes[:, t]]
        ratio = logs[:, :-1] - logs[:, -1:]
        top = ratio.max(axis=1, keepdims=True)
        out[:, t] = top[:, 0] + np.log(np.exp(ratio - top) @ (weights / 2))
    return out


def agrees(
    stream: Stream, interval: str, codes: np.ndarray, looks: tuple[int, ...]
) -> list[tuple[bool, float, float]]:
    """(misses, low, high) of the public function at some looks of one stream."""
    method = "ml" if interval == "anytime" else "scores"
    found = []
    for look in looks:
        e = estimate_accuracy(
            stream.counts(codes[:look]), method=method, interval=interval, checks="none"
        )  # type: ignore[arg-type]
        found.append((not e.low <= stream.truth <= e.high, e.low, e.high))
    return found
