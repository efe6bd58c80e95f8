"""Claim: limits for a sum of rates over 8 parts take at most 8 ms, over 107 parts at most 150 ms,
and share no error between parts.

    python benchmarks/bench_parts.py [--only 8,107,2] [--record]

One uniform question per item, K from 3 to 10, 250 labels in each of 8 parts (50 in each of 107):
ordinary labels where the question hits the answer, complementary ones elsewhere. ``ms`` is the best
of five runs. ``ratio_to_normal`` compares the width with the normal limits of the same statistic
(the Chernoff constant alone is 1.39), ``box_ratio_to_normal`` the width of one exact interval for
each part at its share of the error.
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

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from _common import emit

from noracle.bounds.binomial import BinomialCell, exact
from noracle.bounds.parts import Part, predicted_width, sum_estimate, sum_limits, sum_profile

TAIL = 0.025
LABELS = {8: 250, 107: 50, 2: 1000}
MOST_MS = {8: 8.0, 107: 150.0}


def population(parts: int, seed: int) -> list[Part]:
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(parts):
        k, n, rate = 3 + i % 8, LABELS[parts], 0.8 - 0.25 * (i % 8) / 7
        hits = int(rng.binomial(n, 1 / k))
        escaped = int(rng.binomial(n - hits, 1 - (1 - rate) / (k - 1)))
        cells = (
            BinomialCell(hits, int(rng.binomial(hits, rate))),
            BinomialCell(n - hits, escaped, (k - 2) / (k - 1), 1 / (k - 1)),
        )
        rows.append(Part(1 / parts, cells))
    return rows


def best_ms(function: Callable[[], object]) -> float:
    took = []
    for _ in range(5):
        begun = time.perf_counter()
        function()
        took.append(time.perf_counter() - begun)
    return round(min(took) * 1e3, 2)


def measure(parts: int) -> dict[str, Any]:
    rows = population(parts, 1)
    limits, likelihood = sum_limits(rows, TAIL, TAIL), sum_profile(rows, TAIL, TAIL)
    normal = 2 * 1.96 * math.sqrt(sum_estimate(rows)[1])
    ends = [(part.share, exact(part.cells, TAIL / parts, TAIL / parts)) for part in rows]
    ms = best_ms(lambda: sum_limits(rows, TAIL, TAIL))
    return {
        "parts": parts,
        "labels": parts * LABELS[parts],
        "method": limits.method,
        "ms": ms,
        "profile_likelihood_ms": best_ms(lambda: sum_profile(rows, TAIL, TAIL)),
        "ratio_to_normal": round((limits.high - limits.low) / normal, 3),
        "box_ratio_to_normal": round(
            sum(share * (e.high - e.low) for share, e in ends) / normal, 3
        ),
        "profile_likelihood_ratio_to_normal": round((likelihood.high - likelihood.low) / normal, 3),
        "predicted_over_width": round(
            predicted_width(rows, TAIL, TAIL, guess=0.68) / (limits.high - limits.low), 3
        ),
        "met": ms <= MOST_MS.get(parts, math.inf),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="8,107,2")
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    for parts in (int(name) for name in args.only.split(",")):
        claim = f"finite-sample limits for a sum over {parts} parts, without sharing the error between them"
        emit(
            f"parts-{parts}",
            claim,
            measure(parts),
            command=f"python benchmarks/bench_parts.py --only {parts}",
            record=args.record,
        )


if __name__ == "__main__":
    main()
