"""Claims: with answers of other models as judges, people's grades of a fifth of the answers miss
the accuracy in at most 5 % of the redraws; the bound on "unanimous and wrong" of panels of 3, 5 and
7 models holds in at least 95 % of the redraws, on average within 2.5 points of the truth with 300 labels; the
votes of the best seven models are worth two.

Needs mmlu_pro_predictions.parquet in NORACLE_DATA. A judge calls an answer right where it gave the
same one.

    python benchmarks/bench_judge.py --systems 20 --redraws 50 --panels 1000
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from _common import cpu_seconds, emit

ROOT = Path(__file__).resolve().parents[1]


def answers_and_key() -> tuple[dict[str, np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """The answers of each model to the questions with at least three options, and the key."""
    import duckdb

    path = Path(os.environ["NORACLE_DATA"]) / "mmlu_pro_predictions.parquet"
    columns = duckdb.connect().sql(f"SELECT * FROM '{path}' WHERE n_options > 2").fetchnumpy()
    key = np.asarray(columns["answer"])
    about = ("item", "category", "n_options", "answer")
    return {name: np.asarray(v) for name, v in columns.items() if name not in about}, key


def real_judges(systems: int, redraws: int, items: int = 1000, graded: int = 200) -> dict[str, Any]:
    """Misses over systems and redraws; each redraw draws items, a judge and who is graded."""
    from noracle import Evidence, estimate_with_judges

    answers, key = answers_and_key()
    rng, names = np.random.default_rng(24), sorted(answers)
    missed, ratios = 0, []
    for system in names[:systems]:
        grades: dict[str, list[Any]] = {"item": [], "system": [], "verdict": [], "rater": []}
        truths = {}
        for redraw in range(redraws):
            judge = str(rng.choice([name for name in names if name != system]))
            chosen = rng.choice(len(key), items, replace=False)
            own, right = answers[system][chosen], answers[system][chosen] == key[chosen]
            said = (own == answers[judge][chosen]) & (own >= 0)
            people = rng.choice(items, graded, replace=False)
            grades["item"] += [*range(items), *people.tolist()]
            grades["system"] += [f"{system} {redraw}"] * (items + graded)
            grades["verdict"] += [*said.tolist(), *right[people].tolist()]
            grades["rater"] += ["judge"] * items + ["people"] * graded
            truths[f"{system} {redraw}"] = right.mean()
        for name, found in estimate_with_judges(Evidence.from_tables(grades=grades)).items():
            missed += not found.low - 1e-9 <= truths[name] <= found.high + 1e-9
            ratios.append(found.diagnostics["judge"].get("labels_ratio", math.nan))
    n = min(systems, len(names)) * redraws
    most = 0.05 + 2 * math.sqrt(0.05 * 0.95 / n)
    return {
        "redraws": n,
        "missed": missed / n,
        "most": round(most, 4),
        "labels_ratio": round(float(np.nanmean(ratios)), 3),
        "met": missed / n <= most,
    }


def panel(size: int, redraws: int, labels: int = 300) -> dict[str, Any]:
    """How often the bound of the best ``size`` models holds, and how far it is from the truth."""
    from noracle.accuracy.panel import PanelItem, panel_certificate

    answers, key = answers_and_key()
    best = sorted(answers, key=lambda name: -float((answers[name] == key).mean()))[:size]
    votes = np.array([answers[name] for name in best])
    agreed = (votes == votes[0]).all(axis=0) & (votes[0] >= 0)
    wrong = agreed & (votes[0] != key)
    truth, rng = float(wrong.mean()), np.random.default_rng(size)
    others = [PanelItem(False, None, None)] * int((~agreed).sum())
    unknown = [PanelItem(True, None, None)] * (int(agreed.sum()) - labels)

    @functools.cache
    def bound_of(n_wrong: int) -> float:
        """The bound depends on the sample through how many of it are wrong."""
        told = [PanelItem(True, i < n_wrong, None) for i in range(labels)]
        rows = [*told, *unknown, *others]
        found = panel_certificate(rows, best, of="items", at_most=0.05, confidence=0.95)
        return float(found.diagnostics["bound"])

    held, above = 0, []
    for _ in range(redraws):
        asked = rng.permutation(np.flatnonzero(agreed))[:labels]
        bound = bound_of(int(wrong[asked].sum()))
        held += bound >= truth - 1e-12
        above.append(bound - truth)
    errors = [
        PanelItem(bool(a), None, tuple(e)) for a, e in zip(agreed, (votes != key).T, strict=True)
    ]
    whole = panel_certificate(errors, best, of="items", at_most=0.05, confidence=0.95).diagnostics
    return {
        "models": size,
        "redraws": redraws,
        "unanimous_and_wrong": round(truth, 4),
        "held": held / redraws,
        "mean_above": round(float(np.mean(above)), 4),
        "within_2.5_points": float(np.mean(np.array(above) <= 0.025)),
        "most_above": round(float(np.max(above)), 4),
        "error_correlation": round(whole["error_correlation"], 3),
        "effective_votes": round(whole["effective_votes"], 3),
        "met": held / redraws >= 0.95 and float(np.mean(above)) <= 0.025,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("systems", 20), ("redraws", 50), ("panels", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--record", action="store_true", help="append to results.jsonl")
    given = parser.parse_args()
    command = f"python benchmarks/bench_judge.py --systems {given.systems} --redraws {given.redraws} --panels {given.panels}"
    held = "the bound on 'unanimous and wrong' holds in 95 % of the redraws, on average within 2.5 points of the truth"
    rows = [(f"panel of {m}", held, lambda m=m: panel(m, given.panels)) for m in (3, 5, 7)]
    covers = "other models as judges of 20 systems: at most 5 % + 2 s.e. of the intervals miss"
    rows += [("judge", covers, lambda: real_judges(given.systems, given.redraws))]
    for name, claim, measure in rows:
        before = cpu_seconds()
        figures = measure()
        figures["cpu_s"] = round(cpu_seconds() - before, 1)
        emit(name, claim, figures, command=command, record=given.record)


if __name__ == "__main__":
    main()
