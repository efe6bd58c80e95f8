"""Claim: a wide file is read and counted about as fast as the long one.

The same answers of 20 systems to one million items, as one row per item with a column for each
system and as one row per item and system (Parquet), with judgements of every tenth item. Both are
read and counted by ``count_accuracy`` in fresh processes, turn by turn, best of N. The counts must
be equal.

    python benchmarks/bench_wide.py --items 1000000
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from _common import cpu_seconds, emit, in_child, peak_gib

N_CLASSES = 10


def generate(folder: Path, items: int, systems: int) -> None:
    """Answers in both forms, 2 % of them missing; kept if already there."""
    import duckdb

    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(
        config={"memory_limit": "3GB", "temp_directory": str(folder / "spill")}
    ) as con:
        columns = ", ".join(
            f'CASE WHEN hash(i * {s + 3}) % 50 = 0 THEN NULL ELSE (hash(i * 7 + {s}) % {N_CLASSES})::TINYINT END AS "model-{s:02}"'
            for s in range(systems)
        )
        con.sql(
            f"SELECT (i * 7919 + 13) % {items} AS item, {columns} FROM range({items}) t(i)"
        ).write_parquet(str(folder / "wide.parquet"))
        con.sql(
            f"SELECT item, system, answer FROM '{folder}/wide.parquet' "
            "UNPIVOT INCLUDE NULLS (answer FOR system IN (COLUMNS(* EXCLUDE item)))"
        ).write_parquet(str(folder / "long.parquet"))
        con.sql(
            f"SELECT i * 10 AS item, (hash(i * 5 + 2) % {N_CLASSES})::INT AS class, "
            f"CASE WHEN hash(i * 11) % 10 = 0 THEN 'yes' ELSE 'no' END AS verdict FROM range({items // 10}) t(i)"
        ).write_parquet(str(folder / "judgements.parquet"))
    (folder / "done").touch()


def child(form: str, folder: Path) -> None:
    """One form, timed without the start of the interpreter but with its own imports."""
    start = time.perf_counter()
    from noracle.counts import count_accuracy
    from noracle.evidence import Evidence

    counts = count_accuracy(
        Evidence.from_tables(
            folder / f"{form}.parquet", folder / "judgements.parquet", n_classes=N_CLASSES
        )
    )
    seconds = time.perf_counter() - start
    met = sorted((str(tuple(t)), n) for t, n in counts.tallies.items()) + sorted(
        (str(tuple(c)), n) for c, n in counts.answered.items()
    )
    print(json.dumps({"seconds": seconds, "cpu": cpu_seconds(), "gib": peak_gib(), "met": met}))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--systems", type=int, default=20)
    parser.add_argument(
        "--dir", type=Path, help="where the files are kept; by default a temporary folder"
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--record", action="store_true", help="append the line to results.jsonl")
    parser.add_argument("--child", choices=("long", "wide"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.dir)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.dir or Path(temporary)) / f"wide-{options.items}-{options.systems}"
        generate(folder, options.items, options.systems)
        runs: dict[str, list[dict[str, Any]]] = {"long": [], "wide": []}
        for _ in range(options.repeat):
            for form, found in runs.items():
                found.append(in_child(__file__, "--child", form, "--dir", str(folder)))
    best = {form: min(found, key=lambda run: run["seconds"]) for form, found in runs.items()}
    figures: dict[str, Any] = {
        "items": options.items,
        "systems": options.systems,
        "repeat": options.repeat,
    }
    for form, found in runs.items():
        figures[f"{form}_s"] = round(best[form]["seconds"], 2)
        figures[f"{form}_cpu_s"] = round(min(run["cpu"] for run in found), 2)
        figures[f"{form}_gib"] = max(run["gib"] for run in found)
    figures["ratio"] = round(best["wide"]["seconds"] / best["long"]["seconds"], 3)
    figures["ratio_cpu"] = round(figures["wide_cpu_s"] / figures["long_cpu_s"], 3)
    figures["same_counts"] = best["wide"]["met"] == best["long"]["met"]
    claim = (
        "reading and counting a wide file takes at most 1.3 times the long form, with equal counts"
    )
    command = f"python benchmarks/bench_wide.py --items {options.items} --systems {options.systems} --repeat {options.repeat}"
    emit("wide", claim, figures, command=command, record=options.record)


if __name__ == "__main__":
    main()
