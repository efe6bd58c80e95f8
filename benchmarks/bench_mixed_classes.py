"""Accuracy from uniform questions about items with different numbers of options: how wide, how
often wrong, how fast.

Real answers of 20 language models to MMLU-Pro (`NORACLE_DATA`), 2,000 questions drawn at random,
one uniformly chosen option each. The peer is the normal interval of the same statistic with known
shares of the parts (stratified Wald), which promises nothing at a finite number of labels.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from _common import emit
from scipy.special import ndtri

from noracle import AccuracyCounts, estimate_accuracy
from noracle.accuracy.score import binomial_cells, strata_of
from noracle.bounds.parts import Part, sum_estimate
from noracle.counts.tally import Cell, Label, Tally

N_LABELS, SEEDS = 2000, 10


def load() -> (
    tuple[
        np.ndarray[Any, Any],
        np.ndarray[Any, Any],
        np.ndarray[Any, Any],
        dict[str, np.ndarray[Any, Any]],
    ]
    | None
):
    """Options, categories, key and answers by model; None without the data."""
    path = Path(os.environ.get("NORACLE_DATA") or "missing") / "mmlu_pro_predictions.parquet"
    if not path.is_file():
        return None
    import duckdb

    table = duckdb.connect().sql(f"SELECT * FROM '{path}' WHERE n_options >= 3").fetchnumpy()
    systems = {
        name: np.asarray(v)
        for name, v in table.items()
        if name not in ("item", "category", "n_options", "answer")
    }
    return (
        np.asarray(table["n_options"]),
        np.asarray(table["category"]),
        np.asarray(table["answer"]),
        systems,
    )


def draw(k: Any, strata: Any, key: Any, answers: Any, chosen: Any, asked: Any) -> AccuracyCounts:
    """What a routing of one uniform question per chosen item would have counted."""
    tallies: Counter[Tally] = Counter()
    for i, question in zip(chosen.tolist(), asked.tolist(), strict=True):
        verdict = "yes" if question == key[i] else "no"
        label = Label(int(k[i]), verdict, frozenset({question}), stratum=str(strata[i]))
        tallies[label.meet(None if answers[i] < 0 else int(answers[i]))] += 1
    items = Counter(Cell("system", int(a), str(s)) for a, s in zip(k, strata, strict=True))
    answered = Counter(
        Cell("system", int(a), str(s)) for a, s, g in zip(k, strata, answers, strict=True) if g >= 0
    )
    return AccuracyCounts(
        tallies=dict(tallies), items=dict(items), answered={c: answered.get(c, 0) for c in items}
    )


def wald_width(counts: AccuracyCounts) -> float:
    """The normal width of the same statistic: parts by number of options, shares known."""
    strata = strata_of(counts)
    total = sum(s.items for s in strata)
    parts = [Part(s.answered / total, binomial_cells(s)) for s in strata if s.n()]
    return float(-2 * ndtri(0.025) * math.sqrt(sum_estimate(parts)[1]))


def main() -> None:
    found = load()
    if found is None:
        print("skipped: NORACLE_DATA does not hold mmlu_pro_predictions.parquet")
        return
    k, category, key, systems = found
    ratios, growth, misses, seconds, apart = [], [], 0, [], []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        chosen = rng.choice(len(k), N_LABELS, replace=False)
        asked = np.floor(rng.random(N_LABELS) * k[chosen]).astype(int)
        for answers in systems.values():
            truth = float(np.mean(answers == key))
            counts = draw(k, np.full(len(k), ""), key, answers, chosen, asked)
            started = time.perf_counter()
            estimate = estimate_accuracy(counts, checks="none")
            seconds.append(time.perf_counter() - started)
            misses += not estimate.low <= truth <= estimate.high
            ratios.append(estimate.width / wald_width(counts))
            named = estimate_accuracy(draw(k, category, key, answers, chosen, asked), checks="none")
            growth.append(named.width / estimate.width)
            apart.append(len(named.diagnostics.get("parts", ())))
    n = len(ratios)
    figures = {
        "runs": n,
        "width_ratio": round(statistics.mean(ratios), 3),
        "worst_ratio": round(max(ratios), 3),
        "misses": misses,
        "most_misses": round(n * 0.05 + 2 * math.sqrt(n * 0.05 * 0.95), 1),
        "category_growth": round(statistics.mean(growth), 4),
        "worst_growth": round(max(growth), 3),
        "parts": max(apart),
        "milliseconds": round(1000 * min(seconds), 1),
    }
    claim = "mean width <= 1.45 x stratified Wald, misses <= 5 % + 2 s.e., categories cost <= 3 %"
    emit(
        "mixed classes",
        claim,
        figures,
        command="python benchmarks/bench_mixed_classes.py",
        record="--record" in sys.argv,
    )


if __name__ == "__main__":
    main()
