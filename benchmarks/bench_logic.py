"""Claims: a proof from answers alone takes milliseconds on an ordinary table, and seconds on a
million items of thirty classifiers.

    python benchmarks/bench_logic.py [--record]

Worlds have 0.8 accurate classifiers ("healthy"), or half of them answer at random ("half-bad"); the
claim is accuracy > 0.6 on every label. Each size runs in a process of its own; times are processor
seconds from the table of answers to the verdict with its proof.

Preferences: 20 judges of 10,000 items and 20 systems; all judges see the same pair of an item
("same pair"), or each a pair of its own ("own pair"). Claims are agreement > 0.7 with one order per
item, and with one ranking; "half-bad" judges flip a coin.
"""

from __future__ import annotations

import argparse
import itertools
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
from noracle.evidence.preferences import Preferences
from noracle.logic.cascade import prove_malfunction
from noracle.logic.disagreement import prove_disagreement
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


def preferences(kind: str, n_bad: int) -> Preferences:
    """20 judges, right in 80 % of their verdicts (or half of them), on pairs of 20 systems."""
    rng, J, Q, K = np.random.default_rng(1), 20, 10_000, 20
    quality = rng.normal(size=(Q, K)) + 0.3 * np.arange(K)
    shape = (1 if kind == "same pair" else J, Q)
    first = rng.integers(0, K, shape)
    second = (first + rng.integers(1, K, shape)) % K
    first, second = np.broadcast_to(first, (J, Q)), np.broadcast_to(second, (J, Q))
    items = np.arange(Q)
    better = quality[items, first] > quality[items, second]
    right = rng.random((J, Q)) < np.where(np.arange(J) < n_bad, 0.5, 0.8)[:, None]
    return Preferences(
        systems=tuple(f"system {k:02}" for k in range(K)),
        first=first.ravel(),
        second=second.ravel(),
        outcome=np.where(better == right, 0, 1).ravel(),
        item=np.tile(items, J),
        rater=np.repeat(np.arange(J), Q),
        raters=tuple(f"judge {j:02}" for j in range(J)),
    )


def one_table(kind: str, world: str, order: str, above: str) -> dict[str, Any]:
    table = preferences(kind, 10 if world == "half-bad" else 0)
    start = cpu_seconds()
    claim: Any = {"spec": f"agreement > {above}", "order": order}
    proof = prove_disagreement(table, **claim, time_limit=300)
    spent = cpu_seconds() - start
    holds = proof.verify()
    return {
        "status": proof.status,
        "cases": proof.diagnostics["cases"],
        "groups": len(proof.sketch["n"]),
        "verified": holds,
        "cpu_s": round(spent, 2),
        "verify_cpu_s": round(cpu_seconds() - start - spent, 2),
        "peak_gib": peak_gib(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--record", action="store_true", help="append the results to benchmarks/results.jsonl"
    )
    parser.add_argument("--only", choices=("answers", "preferences"), help="one part only")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--table", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.table:
        print(json.dumps(one_table(*args.table)))
        return
    if args.child:
        n_items, n_classifiers, n_labels, world = args.child
        print(json.dumps(one_size(int(n_items), int(n_classifiers), int(n_labels), world)))
        return
    command = "python benchmarks/bench_logic.py"
    if args.only != "answers":
        tables = [
            (kind, world, order, "0.7")
            for order, kind, world in itertools.product(
                ("one", "item"), ("same pair", "own pair"), WORLDS
            )
        ]
        # Where every item has cycles, near the share above which there is an alarm: .9733.
        tables += [("own pair", "healthy", "item", above) for above in ("0.98", "0.95", "0.965")]
        for kind, world, order, above in tables:
            figures = in_child(__file__, "--table", kind, world, order, above)
            size = {"judges": 20, "items": 10_000, "systems": 20}
            about = {**size, "design": kind, "world": world, "order": order, "agreement": above}
            where = f"{kind}, {world}, order {order}, agreement > {above}"
            claim = f"≤ 10 s processor time, every proof verified ({where})"
            line = f"{command} --only preferences"
            emit(
                "logic: preferences", claim, {**about, **figures}, command=line, record=args.record
            )
    if args.only == "preferences":
        return
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
