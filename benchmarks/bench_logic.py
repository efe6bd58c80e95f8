"""Claims: a proof from answers alone takes milliseconds on an ordinary table, and seconds on a
million items of thirty classifiers.

    python benchmarks/bench_logic.py [--record]

Worlds have 0.8 accurate classifiers ("healthy"), or half of them answer at random ("half-bad"); the
claim is accuracy > 0.6 on every label. Each size runs in a process of its own; times are processor
seconds from the table of answers to the verdict with its proof.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from _common import cpu_seconds, emit, in_child, peak_gib

from noracle.counts.sketch import Sketch
from noracle.logic.cascade import prove_malfunction
from noracle.logic.spec import Spec

SIZES = ((10_000, 30, 10, 1.0), (1_000_000, 30, 10, 20.0))
WORLDS = ("healthy", "half-bad")


def answers(n_items: int, n_classifiers: int, n_labels: int, world: str) -> np.ndarray:
    """Answers of independent classifiers, uniform among the wrong labels where they err."""
    rng = np.random.default_rng(1)
    accuracy = np.full(n_classifiers, 0.8)
    if world == "half-bad":
        accuracy[n_classifiers // 2 :] = 1 / n_labels
    truth = rng.integers(0, n_labels, n_items).astype(np.int16)
    codes = np.empty((n_items, n_classifiers), dtype=np.int16)
    for i in range(n_classifiers):
        wrong = (truth + rng.integers(1, n_labels, n_items)) % n_labels
        codes[:, i] = np.where(rng.random(n_items) < accuracy[i], truth, wrong)
    return codes


def one_size(n_items: int, n_classifiers: int, n_labels: int, world: str) -> dict[str, Any]:
    codes = answers(n_items, n_classifiers, n_labels, world)
    start = cpu_seconds()
    sketch = Sketch.from_arrays(codes, labels=list(range(n_labels)))
    proof = prove_malfunction(sketch, "accuracy > 0.6", time_limit=60)
    return {
        "status": proof.status,
        "method": proof.method,
        "steps": proof.diagnostics["steps"],
        "groups": sketch.n_groups,
        "cpu_s": round(cpu_seconds() - start, 2),
        "peak_gib": peak_gib(),
    }


def instance(seed: int) -> tuple[Sketch, Spec]:
    """2–8 classifiers, 2–5 labels, 20–1000 items, some answers missing."""
    rng = np.random.default_rng([7, seed])
    N, R, Q = int(rng.integers(2, 9)), int(rng.integers(2, 6)), int(rng.integers(20, 1001))
    truth = rng.integers(0, R, Q)
    codes = np.where(
        rng.random((Q, N)) < rng.uniform(0.3, 0.95, N), truth[:, None], rng.integers(0, R, (Q, N))
    )
    if rng.random() < 0.3:
        codes[rng.random((Q, N)) < 0.1] = -1
    label = rng.random() < 0.7
    above = str(
        rng.choice(["0.4", "1/2", "0.55", "0.6", "0.7"] if label else ["0.6", "0.7", "0.8"])
    )
    return Sketch.from_arrays(codes, labels=list(range(R))), Spec.accuracy(
        above
    ) if label else Spec.grade(above)


def many_small(n: int) -> dict[str, Any]:
    """The verdicts on ``n`` instances; those that can be checked without a solver are."""
    prove_malfunction(*instance(30))  # imports are not timed
    seconds, undecided, checked, wrong = [], 0, 0, 0
    for seed in range(n):
        sketch, spec = instance(seed)
        start = time.process_time()
        proof = prove_malfunction(sketch, spec, time_limit=10)
        seconds.append(time.process_time() - start)
        undecided += proof.status == "undecided"
        if proof.status != "undecided" and proof.certificate.get("kind") != "solver":
            checked += 1
            wrong += not proof.verify()
    return {
        "instances": n,
        "undecided": undecided,
        "verified": checked - wrong,
        "not_verified": n - undecided - (checked - wrong),
        "median_ms": round(1000 * statistics.median(seconds), 2),
        "worst_ms": round(1000 * max(seconds), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--record", action="store_true", help="append the results to benchmarks/results.jsonl"
    )
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        n_items, n_classifiers, n_labels, world = args.child
        print(json.dumps(one_size(int(n_items), int(n_classifiers), int(n_labels), world)))
        return
    command = "python benchmarks/bench_logic.py"
    small = many_small(250)
    emit(
        "logic: many small",
        "median ≤ 5 ms, ≤ 1 % undecided, every proof verified",
        small,
        command=command,
        record=args.record,
    )
    for n_items, n_classifiers, n_labels, limit in SIZES:
        for world in WORLDS:
            figures = in_child(
                __file__, "--child", str(n_items), str(n_classifiers), str(n_labels), world
            )
            size = {
                "items": n_items,
                "classifiers": n_classifiers,
                "labels": n_labels,
                "world": world,
            }
            claim = f"≤ {limit:g} s processor time, ≤ 4 GiB"
            emit("logic: scale", claim, {**size, **figures}, command=command, record=args.record)


if __name__ == "__main__":
    main()
