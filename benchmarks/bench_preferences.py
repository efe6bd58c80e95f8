"""Claims: planned pairs separate the best of ten systems with at most .7 of the verdicts that pairs
drawn evenly need, both in one run at the same looks and the same confidence, and the separated system
is the best; a judge that saw everything saves further verdicts of people.

The ranking is looked at after every batch, each look at its share of the error rate.

With ``--real``: preferences made of the answers of the 20 models of MMLU-Pro, in which right beats
wrong; another model judges by its own answer. In at least 95 % of the redraws (less 2 standard
errors) the places and the differences of all models hold at once. Needs mmlu_pro_predictions.parquet
in NORACLE_DATA.

    python benchmarks/bench_preferences.py --worlds 10
    python benchmarks/bench_preferences.py --real --worlds 100
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from _common import cpu_seconds, emit

from noracle import Preferences, plan_pairs, rank_systems
from noracle.ranking.strength import chances, fit_strengths

SYSTEMS, PILOT, MOST = 10, 180, 6000
SHAPES = {
    "one ahead": np.r_[0.6, np.linspace(0.0, -1.5, 9)],
    "a ladder": np.linspace(1.6, -1.6, 10),
    "three good ones": np.r_[1.0, 0.5, 0.4, np.linspace(-0.6, -1.6, 7)],
}


class Ask:
    """Verdicts as they come, with an effect of the order and ties; a model that saw all items."""

    def __init__(self, beta: Any, seed: list[int], judge: float | None) -> None:
        self.beta, self.rng, self.judge = beta, np.random.default_rng(seed), judge
        self.rows: dict[str, list[int]] = {
            n: [] for n in ("first", "second", "outcome", "item", "rater")
        }

    def ask(self, first: int, second: int) -> None:
        """One verdict of a person on a new item; the model compared the like ten times as often."""
        item = len(self.rows["item"])
        said = self._verdict(first, second)
        self._add(first, second, said, item, 0)
        for k in range(10 if self.judge is not None else 0):
            truth = said if k == 0 else self._verdict(first, second)
            copied = self.rng.random() < (self.judge or 0)
            self._add(first, second, truth if copied else int(self.rng.integers(3)), item + k, 1)

    def _verdict(self, first: int, second: int) -> int:
        p = chances(np.array(self.beta[first] - self.beta[second] + 0.4), np.log(0.4))
        return int((self.rng.random() > np.cumsum(p)[:2]).sum())

    def _add(self, *values: int) -> None:
        for name, value in zip(self.rows, values, strict=True):
            self.rows[name].append(value)

    def preferences(self) -> Preferences:
        """All so far."""
        rows: Any = {name: np.array(values) for name, values in self.rows.items()}
        names = tuple(f"m{i}" for i in range(SYSTEMS))
        return Preferences(systems=names, **rows, raters=("people", "model"))


def needed(
    shape: str, seed: list[int], *, planned: bool, judge: float | None, batch: int
) -> tuple[int, bool]:
    """Verdicts of people until one system leads alone, and whether it is the best."""
    world = Ask(SHAPES[shape], seed, judge)
    name = None if judge is None else "model"
    pairs = list(itertools.combinations(range(SYSTEMS), 2))
    # The model is asked beforehand, here: only people are planned.
    costs = None if judge is None else {"people": 1.0, "judge": 1e3}
    confidence = 1 - 0.05 / ((MOST - PILOT) // batch + 1)
    for k in range(PILOT):
        i, j = pairs[k % len(pairs)]
        world.ask(*((i, j) if (k // len(pairs)) % 2 else (j, i)))
    asked = PILOT
    while asked < MOST:
        p = world.preferences()
        p = p if judge is not None else p.of(p.rater == 0)
        ranking = rank_systems(p, judge=name, confidence=confidence)
        if len(ranking.leaders) == 1:
            return asked, ranking.leaders[0] == "m0"
        if planned:
            about: Any = {"judge": name, "costs": costs, "confidence": confidence}
            plan = plan_pairs(p, budget=batch, seed=asked, **about)
            said = plan.diagnostics["questions"]
            todo = [
                (int(a[1:]), int(b[1:])) for a, b in zip(said["first"], said["second"], strict=True)
            ]
        else:
            drawn = world.rng.permutation(len(pairs))
            todo = [pairs[drawn[k % len(pairs)]] for k in range(batch)]
            todo = [(i, j) if world.rng.random() < 0.5 else (j, i) for i, j in todo]
        for first, second in todo:
            world.ask(first, second)
        asked += len(todo)
    return asked, False


def compared(right: Any, rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Items, pairs in a random order, and who of the two is right where one alone is."""
    item = rng.integers(right.shape[1], size=n)
    first = rng.integers(len(right), size=n)
    second = (first + 1 + rng.integers(len(right) - 1, size=n)) % len(right)
    a, b = right[first, item], right[second, item]
    outcome = np.where(a == b, 2, np.where(a, 0, 1))
    return {"item": item, "first": first, "second": second, "outcome": outcome}


def real(redraws: int, people: int = 5000, of: int = 20_000) -> dict[str, Any]:
    """How often places and differences hold, alone and with a judge of 20."""
    from bench_judge import answers_and_key

    answers, key = answers_and_key()
    names = tuple(sorted(answers))
    given = np.stack([answers[name] for name in names])
    right = given == key
    rng = np.random.default_rng(25)
    whole = compared(right, rng, 600_000)
    who = {"rater": np.zeros(600_000, dtype=int), "raters": ("key",)}
    large = fit_strengths(Preferences(systems=names, **whole, **who)).values
    place = np.argsort(np.argsort(-right.mean(axis=1))) + 1
    held: dict[str, int] = {"alone": 0, "judge": 0}
    width: dict[str, float] = {"alone": 0.0, "judge": 0.0}
    for _ in range(redraws):
        judge = int(rng.integers(len(names)))
        seen = compared(right, rng, of)
        pick = rng.choice(of, people, replace=False)
        said = compared_by(given, judge, seen)
        fair = (seen["first"] != judge) & (seen["second"] != judge)  # it judges others only
        rows = {
            name: np.concatenate(
                [seen[name][pick], (said if name == "outcome" else seen[name])[fair]]
            )
            for name in seen
        }
        rater = np.repeat([0, 1], [people, int(fair.sum())])
        p = Preferences(systems=names, **rows, rater=rater, raters=("key", "model"))
        for kind, found in (
            ("alone", rank_systems(p.of(p.rater == 0))),
            ("judge", rank_systems(p, judge="model")),
        ):
            index = {name: k for k, name in enumerate(names)}
            ranks = all(r.best <= place[index[r.system]] <= r.worst for r in found.ranks)
            gaps = [
                np.tanh((large[index[d.first]] - large[index[d.second]]) / 2)
                for d in found.differences
            ]
            inside = all(
                d.low - 0.01 <= g <= d.high + 0.01
                for d, g in zip(found.differences, gaps, strict=True)
            )
            held[kind] += ranks and inside
            width[kind] += float(np.mean([d.high - d.low for d in found.differences])) / redraws
    least = 0.95 - 2 * (0.95 * 0.05 / redraws) ** 0.5
    return {
        "redraws": redraws,
        "held": {kind: n / redraws for kind, n in held.items()},
        "least": round(least, 4),
        "width": {kind: round(w, 4) for kind, w in width.items()},
        "met": min(held.values()) / redraws >= least,
    }


def compared_by(given: Any, judge: int, seen: dict[str, Any]) -> Any:
    """The judge prefers the answer that is its own."""
    own = given[judge, seen["item"]]
    a, b = (given[seen[end], seen["item"]] == own for end in ("first", "second"))
    return np.where(a == b, 2, np.where(a, 0, 1))


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=10)
    parser.add_argument("--batch", type=int, default=120)
    parser.add_argument("--record", action="store_true", help="append the line to results.jsonl")
    parser.add_argument("--real", action="store_true", help="answers of the 20 models of MMLU-Pro")
    args = parser.parse_args()
    if args.real:
        command = f"python benchmarks/bench_preferences.py --real --worlds {args.worlds}"
        claim = "preferences of the 20 models of MMLU-Pro: places and differences hold"
        emit("preferences", claim, real(args.worlds), command=command, record=args.record)
        return
    found: dict[str, Any] = {}
    for shape in SHAPES:
        kinds = {"even": (False, None), "planned": (True, None), "planned, judge": (True, 0.85)}
        for kind, (planned, judge) in kinds.items():
            about: dict[str, Any] = {"planned": planned, "judge": judge, "batch": args.batch}
            runs = [needed(shape, [25, w], **about) for w in range(args.worlds)]
            found[f"{shape}, {kind}"] = {
                "verdicts": round(float(np.mean([n for n, _ in runs])), 1),
                "right": sum(ok for _, ok in runs),
            }
            print(shape, kind, found[f"{shape}, {kind}"], file=sys.stderr, flush=True)
    ratios = {
        shape: round(
            found[f"{shape}, planned"]["verdicts"] / found[f"{shape}, even"]["verdicts"], 3
        )
        for shape in SHAPES
    }
    figures = {
        "ratios": ratios,
        "worst": max(ratios.values()),
        "met": max(ratios.values()) <= 0.7,
        "runs": found,
        "worlds": args.worlds,
        "cpu_seconds": round(cpu_seconds(), 1),
    }
    command = f"python benchmarks/bench_preferences.py --worlds {args.worlds}"
    claim = "planned pairs separate the best of ten with at most .7 of the verdicts of even ones"
    emit("preferences", claim, figures, command=command, record=args.record)


if __name__ == "__main__":
    main()
