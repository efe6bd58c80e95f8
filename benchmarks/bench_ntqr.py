"""Claim: the same verdicts as ntqr's alarm, for a thousandth of its processor time.

    python benchmarks/bench_ntqr.py [--record]

ntqr 0.9 (the authors' package) enumerates evaluations; ``prove_by_axioms`` decides the same question in
closed form, writes a proof and checks it. Cases: uses of 2 labels over at most 12 items, and of 3
labels over at most 5, by 2 or 3 classifiers. Both run in this process.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from _common import emit
from _ntqr import Case, cases, ours, theirs

SIZES = ((2, 12, 200), (3, 5, 40))


def compare(found: list[Case]) -> dict[str, Any]:
    """Verdicts and processor seconds of both."""
    theirs(found[0]), ours(found[0])  # imports and first calls are not timed
    peer, own = [theirs(c) for c in found], [ours(c) for c in found]
    peer_s, own_s = sum(s for _, s in peer), sum(s for _, s in own)
    return {
        "cases": len(found),
        "alarms": sum(fired for fired, _ in own),
        "same_verdict": sum(a[0] == b[0] for a, b in zip(peer, own, strict=True)),
        "ntqr_cpu_s": round(peer_s, 2),
        "noracle_cpu_s": round(own_s, 5),
        "times_less": round(peer_s / own_s),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--record", action="store_true", help="append the results to benchmarks/results.jsonl"
    )
    args = parser.parse_args()
    figures = {n_labels: compare(cases(n_labels, most, n)) for n_labels, most, n in SIZES}
    peer, own = (sum(f[key] for f in figures.values()) for key in ("ntqr_cpu_s", "noracle_cpu_s"))
    total = {f"{n_labels} labels": f for n_labels, f in figures.items()}
    emit(
        "logic: same verdicts as ntqr",
        "all verdicts equal, at least 1,000 × less processor time in total",
        {**total, "times_less_in_total": round(peer / own)},
        command="python benchmarks/bench_ntqr.py",
        record=args.record,
    )


if __name__ == "__main__":
    main()
