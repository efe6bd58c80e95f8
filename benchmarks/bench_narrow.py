"""Claims: at a fixed number of labels bets that aim at what is left to win, and exact paired tests,
need far fewer labels than the limits made for streams.

    python benchmarks/bench_narrow.py [--worlds N] [--record]

The peer is ``betting_interval`` (a mixture of 30 fixed bets, valid at every look) in the same run.
"Labels" is the ratio of sample sizes at equal expected width: the peer's mean width at n labels is
met by ours at n' labels, found on a line through the logarithms of two sizes. Scores of one kind of
label have two values; the default there is the exact binomial limits, in both releases. They are
shown beside the bets, with "oracle", what the best *constant* bet would need that knows the law:
bets that look at their wealth need less. For comparisons the figure is the ratio of sample sizes at which
the first system is called better with probability 0.8.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

sys.path.insert(0, str(Path(__file__).parent))

from _common import emit

from noracle.accuracy.score import REACH, guessed_scores, sided_scores
from noracle.bounds.betting import Score, betting_interval, fixed_interval
from noracle.bounds.binomial import clopper_pearson, hypergeometric_limits
from noracle.bounds.paired import difference_limits
from noracle.counts.tally import Cell, tally

TAIL = 0.025
Draw = Callable[[int, np.random.Generator], list[Score]]


def rows(values: np.ndarray, low: float, high: float) -> list[Score]:
    distinct, counts = np.unique(values, return_counts=True)
    return [Score(float(v), low, high, int(c)) for v, c in zip(distinct, counts, strict=True)]


def complementary(k: int, accuracy: float) -> Draw:
    """Scores 1 - (K - 1)·1{the ruled-out class is the answer}."""
    return lambda n, rng: rows(
        1 - (k - 1.0) * (rng.random(n) < (1 - accuracy) / (k - 1)), 2.0 - k, 1.0
    )


def skewed(a: float, b: float) -> Draw:
    return lambda n, rng: rows(rng.beta(a, b, n), 0.0, 1.0)


def width(limits: tuple[float, float]) -> float:
    return limits[1] - limits[0]


def mean_width(
    interval: Callable[[list[Score]], tuple[float, float]],
    draw: Draw,
    n: int,
    worlds: int,
    *,
    sided: bool = False,
) -> float:
    """Of the interval, or of the part below the mean of the scores where these serve one limit
    only.
    """
    rng, found = np.random.default_rng(n), []
    for _ in range(worlds):
        scores = draw(n, rng)
        low, high = interval(scores)
        found.append(sum(s.value * s.n for s in scores) / n - low if sided else high - low)
    return float(np.mean(found))


def fixed_bets(scores: list[Score]) -> tuple[float, float]:
    return fixed_interval(scores, TAIL, 0.0 if scores[0].high == math.inf else TAIL)


def mixture(scores: list[Score]) -> tuple[float, float]:
    return betting_interval(scores, TAIL, 0.0 if scores[0].high == math.inf else TAIL)


def oracle(law: list[Score]) -> Callable[[list[Score]], tuple[float, float]]:
    """Limits by the one bet that is best for this law and number of scores; not valid in practice,
    as the law is unknown.
    """

    def limit(scores: list[Score], sign: int) -> float:
        n = sum(s.n for s in scores)
        value, mass = (
            sign * np.array([s.value for s in law]),
            np.array([s.n for s in law], dtype=float),
        )
        mass /= mass.sum()
        low = law[0].low if sign > 0 else -law[0].high
        mean = float(mass @ value)

        def bet(m: float) -> float:
            top = (1 - 1e-9) / (m - low)
            slope = lambda x: float(mass @ ((value - m) / (1 + x * (value - m))))  # noqa: E731
            return top if slope(top) > 0 else float(brentq(slope, 0.0, top))

        aim = float(
            brentq(
                lambda m: float(mass @ np.log1p(bet(m) * (value - m))) - math.log(1 / TAIL) / n,
                low + 1e-6,
                mean - 1e-9,
            )
        )
        best = bet(aim)
        seen, times = (
            sign * np.array([s.value for s in scores]),
            np.array([float(s.n) for s in scores]),
        )

        def wealth(m: float) -> float:
            return float(
                times @ np.log1p(min(best, (1 - 1e-9) / (m - low)) * (seen - m))
            ) - math.log(1 / TAIL)

        ends = (0.0, 1.0) if sign > 0 else (-1.0, 0.0)
        start = max(ends[0], low) + 1e-9
        return ends[0] if wealth(start) < 0 else float(brentq(wealth, start, ends[1]))

    return lambda scores: (limit(scores, 1), -limit(scores, -1))


def labels_needed(
    draw: Draw,
    n: int,
    worlds: int,
    ours: Callable[[list[Score]], tuple[float, float]],
    *,
    sided: bool = False,
) -> float:
    """n'/n with ours at n' as wide as the peer at n."""
    wanted = math.log(mean_width(mixture, draw, n, worlds, sided=sided))
    sizes = [round(0.4 * n), round(0.65 * n)]
    small, large = (math.log(mean_width(ours, draw, size, worlds, sided=sided)) for size in sizes)
    slope = (large - small) / math.log(sizes[1] / sizes[0])
    return sizes[0] / n * math.exp((wanted - small) / slope)


def repeated(k: int, accuracy: float) -> Draw:
    """Share of k runs that are right, of items that are not equally hard."""
    return lambda n, rng: rows(
        rng.binomial(k, rng.beta(2 * accuracy, 2 * (1 - accuracy), n)) / k, 0.0, 1.0
    )


def aimed(k: int, accuracies: tuple[float, ...], which: int, side: int) -> Draw:
    """Scores of questions aimed by votes, without a guess: for the lower limit (side 0) or,
    mirrored, for the upper one.
    """

    def draw(n: int, rng: np.random.Generator) -> list[Score]:
        hit, yes, chance = (x[which] for x in votes(accuracies, k, n, rng))
        return rows(np.where(hit & (yes if side == 0 else ~yes), 1 / chance, 0.0), 0.0, math.inf)

    return draw


def bounded_scores(n: int, worlds: int) -> dict[str, Any]:
    """Scores on which the release made bets by default; then those of one kind of label, whose
    default is the exact binomial limits.
    """
    laws = {
        "beta(0.5, 4.5)": skewed(0.5, 4.5),
        "beta(2, 2)": skewed(2, 2),
        "beta(10, 1)": skewed(10, 1),
    }
    laws |= {f"{k} runs A={a}": repeated(k, a) for k in (2, 8) for a in (0.5, 0.95)}
    ratio = {
        name: round(labels_needed(draw, n, worlds, fixed_bets), 3) for name, draw in laws.items()
    }
    for k, accuracies in ((4, (0.95, 0.6, 0.45)), (10, (0.8, 0.7, 0.6, 0.5, 0.4))):
        for which, side in ((0, 0), (0, 1), (len(accuracies) - 1, 0), (len(accuracies) - 1, 1)):
            name = f"aimed K={k} A={accuracies[which]} {'lower' if side == 0 else 'upper'}"
            ratio[name] = round(
                labels_needed(aimed(k, accuracies, which, side), n, worlds, fixed_bets, sided=True),
                3,
            )
    two_valued = {}
    for k in (4, 10):
        for a in (0.5, 0.8, 0.95):
            draw = complementary(k, a)
            ours = {
                "bets": fixed_bets,
                "oracle": oracle(draw(4_000_000, np.random.default_rng(0))),
                "exact": exact_limits,
            }
            two_valued[f"complementary K={k} A={a}"] = {
                way: round(labels_needed(draw, n, worlds, x), 3) for way, x in ours.items()
            }
    every = [*ratio.values(), *(row["bets"] for row in two_valued.values())]
    figures = {
        "n": n,
        "worlds": worlds,
        "labels": ratio,
        "two_valued": two_valued,
        "mean": round(math.exp(sum(map(math.log, every)) / len(every)), 3),
        "worst": max(every),
    }
    return {**figures, "target": 0.65, "met": figures["worst"] <= 0.65}


def exact_limits(scores: list[Score]) -> tuple[float, float]:
    """Of scores 1 and 2 - K: the binomial limits that are the default for one kind of label."""
    n, ones = sum(s.n for s in scores), sum(s.n for s in scores if s.value == 1)
    low, high = clopper_pearson(ones, n, TAIL, TAIL)
    least = scores[0].low
    return max(0.0, least + (1 - least) * low), least + (1 - least) * high


def fixed_time(repeat: int) -> dict[str, Any]:
    seconds = {}
    for name, draw in {
        "complementary K=10": complementary(10, 0.8),
        "beta(0.5, 4.5)": skewed(0.5, 4.5),
    }.items():
        scores = draw(2000, np.random.default_rng(0))
        seconds[name] = round(min(timed(lambda s=scores: fixed_bets(s)) for _ in range(repeat)), 4)  # type: ignore[misc]
    slowest = max(seconds.values())
    return {"n": 2000, "seconds": seconds, "target_s": 0.15, "met": slowest <= 0.15}


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def paired_rows(wins: int, losses: int, n: int) -> list[Score]:
    return [
        Score(1.0, -1.0, 1.0, wins),
        Score(-1.0, -1.0, 1.0, losses),
        Score(0.0, -1.0, 1.0, n - wins - losses),
    ]


def paired_mixture(wins: int, losses: int, n: int) -> tuple[float, float]:
    return betting_interval(paired_rows(wins, losses, n), TAIL, TAIL, floor=-1.0)


def paired_exact(wins: int, losses: int, n: int) -> tuple[float, float]:
    limits = difference_limits(wins, losses, n, TAIL, TAIL)
    return limits.low, limits.high


def items_for_power(
    interval: Callable[[int, int, int], tuple[float, float]],
    p10: float,
    p01: float,
    worlds: int,
    power: float = 0.8,
) -> int:
    """The number of items at which the lower limit is above 0 with this probability; by bisection,
    to one per cent.
    """

    def found(n: int) -> float:
        draws = np.random.default_rng(1).multinomial(n, [p10, p01, 1 - p10 - p01], size=worlds)
        return float(np.mean([interval(int(b), int(c), n)[0] > 0 for b, c, _ in draws]))

    low, high = 10, 20
    while found(high) < power:
        low, high = high, 2 * high
    while high - low > max(1, 0.01 * low):
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle) >= power else (middle, high)
    return high


def paired_power(worlds: int) -> dict[str, Any]:
    figures = {}
    for p10, p01 in ((0.1, 0.05), (0.2, 0.15), (0.06, 0.03), (0.3, 0.2)):
        ours, peer = (items_for_power(x, p10, p01, worlds) for x in (paired_exact, paired_mixture))
        figures[f"{p10} against {p01}"] = {
            "ours": ours,
            "peer": peer,
            "ratio": round(ours / peer, 3),
        }
    worst = max(f["ratio"] for f in figures.values())
    return {
        "power": 0.8,
        "worlds": worlds,
        "items": figures,
        "worst": worst,
        "target": 0.55,
        "met": worst <= 0.55,
    }


def paired_width(worlds: int) -> dict[str, Any]:
    figures = {}
    for n, p10, p01 in ((200, 0.15, 0.1), (1000, 0.1, 0.05), (1000, 0.35, 0.3), (5000, 0.1, 0.08)):
        draws = np.random.default_rng(n).multinomial(n, [p10, p01, 1 - p10 - p01], size=worlds)
        ours, peer = (
            np.mean([width(x(int(b), int(c), n)) for b, c, _ in draws])
            for x in (paired_exact, paired_mixture)
        )
        normal = 2 * 1.959964 * math.sqrt((p10 + p01 - (p10 - p01) ** 2) / n)
        figures[f"n={n}, {p10} against {p01}"] = {
            "to_peer": round(float(ours / peer), 3),
            "to_normal": round(float(ours / normal), 3),
        }
    worst = max(f["to_peer"] for f in figures.values())
    return {"worlds": worlds, "ratio": figures, "worst": worst, "target": 0.8, "met": worst <= 0.8}


def paired_time(repeat: int) -> dict[str, Any]:
    seconds = {
        f"{b}:{c}": round(
            min(timed(lambda b=b, c=c: paired_exact(b, c, 5000)) for _ in range(repeat)), 4
        )  # type: ignore[misc]
        for b, c in ((300, 250), (600, 500), (1200, 1000))
    }
    slowest = max(seconds.values())
    return {"n": 5000, "seconds": seconds, "target_s": 0.03, "met": slowest <= 0.03}


def finite_population(size: int = 1000, wanted: float = 0.03) -> dict[str, Any]:
    """The fewest ordinary labels for a half-width, of all items there are against an unlimited
    number of them.
    """
    needed: dict[str, dict[str, int]] = {}
    for accuracy in (0.5, 0.7, 0.8):
        counts = {n: round(accuracy * n) for n in range(50, 3000)}
        narrow = (
            n
            for n, s in counts.items()
            if n <= size and width(hypergeometric_limits(s, n, size, TAIL, TAIL)) / 2 <= wanted
        )
        found = {
            "ours": next(narrow),
            "peer": next(
                n
                for n, s in counts.items()
                if width(clopper_pearson(s, n, TAIL, TAIL)) / 2 <= wanted
            ),
        }
        needed[f"A={accuracy:g}"] = found
    ratios = {name: round(row["ours"] / row["peer"], 3) for name, row in needed.items()}
    return {"labels": needed, "ratio": ratios, "target": 0.6, "met": max(ratios.values()) <= 0.6}


def votes(
    accuracies: tuple[float, ...], k: int, n: int, rng: np.random.Generator, epsilon: float = 0.05
) -> tuple[np.ndarray, ...]:
    """Answers of systems that find the same items hard, questions aimed by their votes: hit, yes
    and chance of each answer.
    """
    truth, ease = rng.integers(k, size=n), 0.4 * (rng.random(n) - 0.5)
    wrong = (truth + rng.integers(1, k, size=(len(accuracies), n))) % k
    answers = np.where(rng.random(wrong.shape) < np.array(accuracies)[:, None] + ease, truth, wrong)
    shares = np.stack([(answers == c).mean(axis=0) for c in range(k)], axis=1)
    chances = (1 - epsilon) * shares + epsilon / k
    asked = (rng.random(n)[:, None] > np.cumsum(chances, axis=1)).sum(axis=1).clip(max=k - 1)
    return (
        answers == asked,
        np.broadcast_to(asked == truth, answers.shape),
        np.take_along_axis(chances, answers.T, axis=1).T,
    )


def guessed(worlds: int, n: int = 600) -> dict[str, Any]:
    """Widths of estimates from questions aimed at several systems: with a guess, against the
    released plain scores and mixture of bets.
    """
    ratios: dict[str, float] = {}
    for k, accuracies in ((4, (0.8, 0.6, 0.45)), (10, (0.8, 0.7, 0.6, 0.5, 0.4))):
        widths = {"ours": np.zeros(len(accuracies)), "peer": np.zeros(len(accuracies))}
        for seed in range(max(4, worlds // 5)):
            hit, yes, chance = votes(accuracies, k, n, np.random.default_rng([k, seed]))
            for i in range(len(accuracies)):
                place = Cell("s", k)
                met = [
                    tally(
                        place,
                        "yes" if y else "no",
                        hit=bool(h),
                        inverse=float(h) / c,
                        chance=float(c),
                    )
                    for h, y, c in zip(hit[i], yes[i], chance[i], strict=True)
                ]
                sides = np.array([guessed_scores(t) for t in met])
                plain = np.array([sided_scores(t) for t in met])
                low = fixed_interval(rows(sides[:, 0], -REACH, math.inf), TAIL, 0.0)[0]
                high = fixed_interval(rows(sides[:, 1], -math.inf, 1 + REACH), 0.0, TAIL)[1]
                widths["ours"][i] += high - low
                low = betting_interval(rows(plain[:, 0], 0.0, math.inf), TAIL, 0.0)[0]
                high = betting_interval(rows(plain[:, 1], -math.inf, 1.0), 0.0, TAIL)[1]
                widths["peer"][i] += high - low
        for accuracy, ratio in zip(accuracies, (widths["ours"] / widths["peer"]) ** 2, strict=True):
            ratios[f"K={k} A={accuracy:g}"] = round(float(ratio), 3)
    return {"labels": ratios, "n": n, "target": 0.8, "met": max(ratios.values()) <= 0.8}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=7, help="best of so many runs")
    parser.add_argument(
        "--worlds",
        type=int,
        default=100,
        help="simulated samples for mean widths; ten times as many for power",
    )
    parser.add_argument("--record", action="store_true", help="append the lines to results.jsonl")
    options = parser.parse_args()
    command = (
        f"python benchmarks/bench_narrow.py --repeat {options.repeat} --worlds {options.worlds}"
    )
    benches: list[tuple[str, str, Callable[[], dict[str, Any]]]] = [
        (
            "narrow-scores",
            "bounded scores of every law need at most 0.65 of the labels of the mixture",
            lambda: bounded_scores(2000, options.worlds),
        ),
        (
            "narrow-scores-time",
            "both limits of 2,000 scores take at most 150 ms",
            lambda: fixed_time(options.repeat),
        ),
        (
            "narrow-paired",
            '"first is better" needs at most 0.55 of the items of the mixture',
            lambda: paired_power(10 * options.worlds),
        ),
        (
            "narrow-paired-width",
            "limits of a difference are at most 0.8 times as wide as the mixture's",
            lambda: paired_width(options.worlds),
        ),
        (
            "narrow-finite",
            "of 1,000 items at most 0.60 of the labels give ± 0.03",
            finite_population,
        ),
        (
            "narrow-guess",
            "questions aimed by votes need at most 0.80 of the labels with a guess",
            lambda: guessed(options.worlds),
        ),
        (
            "narrow-paired-time",
            "both limits of a difference on 5,000 items take at most 30 ms",
            lambda: paired_time(options.repeat),
        ),
    ]
    fine = True
    for name, claim, bench in benches:
        figures = bench()
        fine &= figures["met"]
        emit(name, claim, figures, command=command, record=options.record)
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
