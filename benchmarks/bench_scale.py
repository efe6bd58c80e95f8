"""Claim: counting is bounded by the join that anyone would have to write.

Two Parquet files (answers of one system and as many judgements) are joined and counted by
``count_accuracy`` and by a hand-written DuckDB query for the same counts; both in fresh processes,
turn by turn, best of N. The query counts, by system, how every answer met its label and how many
answers there are; it checks nothing. Ours also proves that every row keeps the rules. Beside them:
the same in pandas, and in PySpark on a smaller file, where only equality of the counts is asked
for.

    python benchmarks/bench_scale.py --rows 10000000 python benchmarks/bench_scale.py --rows
    100000000 --dir /path/with/space --no-pandas --spark-rows 0
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from _common import cpu_seconds, emit, in_child, peak_gib

N_CLASSES = 10
Met = Counter[tuple[Any, ...]]


def generate(folder: Path, rows: int) -> None:
    """Items in a scrambled order, 2 % without an answer, 10 % yes; kept if already there."""
    import duckdb

    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(
        config={
            "memory_limit": "3GB",
            "temp_directory": str(folder / "spill"),
            "preserve_insertion_order": "false",
        }
    ) as con:
        con.sql(
            f"SELECT (i * 7919 + 13) % {rows} AS item, 'agent' AS system, "
            f"CASE WHEN hash(i) % 50 = 0 THEN NULL ELSE (hash(i * 3 + 1) % {N_CLASSES})::INT END AS answer FROM range({rows}) t(i)"
        ).write_parquet(str(folder / "answers.parquet"))
        con.sql(
            f"SELECT (i * 104729 + 5) % {rows} AS item, (hash(i * 5 + 2) % {N_CLASSES})::INT AS class, "
            f"CASE WHEN hash(i * 11) % 10 = 0 THEN 'yes' ELSE 'no' END AS verdict FROM range({rows}) t(i)"
        ).write_parquet(str(folder / "judgements.parquet"))
    (folder / "done").touch()


def peer(folder: Path) -> Met:
    """The hand-written query."""
    import duckdb

    with duckdb.connect() as con:
        rows = con.sql(
            f"""
            SELECT system, verdict, answer = class AS hit, answer IS NOT NULL AS answered, count(*) AS n
            FROM '{folder}/judgements.parquet' JOIN '{folder}/answers.parquet' USING (item) GROUP BY ALL
            """
        ).fetchall()
        population = con.sql(
            f"SELECT system, count(*), count(answer) FROM '{folder}/answers.parquet' GROUP BY ALL"
        ).fetchall()
    met: Met = Counter()
    for system, verdict, hit, answered, n in rows:
        met[system, verdict, bool(hit), answered] += n
    for system, n, answered in population:
        met[system, "items"] += n
        met[system, "answered"] += answered
    return met


def _met(counts: Any) -> Met:
    met: Met = Counter()
    for tally, n in counts.tallies.items():
        met[tally.system, tally.verdict, tally.hit, tally.answered] += n
    for cell, n in counts.items.items():
        met[cell.system, "items"] += n
    for cell, n in counts.answered.items():
        met[cell.system, "answered"] += n
    return met


def ours(folder: Path) -> Met:
    from noracle.counts import count_accuracy
    from noracle.evidence import Evidence

    return _met(
        count_accuracy(
            Evidence.from_tables(
                folder / "answers.parquet", folder / "judgements.parquet", n_classes=N_CLASSES
            )
        )
    )


def pandas(folder: Path) -> Met:
    import pandas as pd

    answers = pd.read_parquet(folder / "answers.parquet")
    judgements = pd.read_parquet(folder / "judgements.parquet")
    joined = judgements.merge(answers, on="item")
    joined["hit"] = joined["answer"] == joined["class"]
    joined["answered"] = joined["answer"].notna()
    met: Met = Counter(
        {
            (k[0], k[1], bool(k[2]), bool(k[3])): int(n)
            for k, n in joined.groupby(["system", "verdict", "hit", "answered"]).size().items()
        }
    )
    for system, column in answers.groupby("system")["answer"]:
        met[system, "items"] += len(column)
        met[system, "answered"] += int(column.notna().sum())
    return met


def spark(folder: Path) -> Met:
    from pyspark.sql import SparkSession

    from noracle.counts import count_accuracy
    from noracle.evidence import Evidence

    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
    )
    session = (
        builder.config("spark.driver.memory", "2g")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    frames = [
        session.read.parquet(str(folder / f"{name}.parquet")) for name in ("answers", "judgements")
    ]
    met = _met(count_accuracy(Evidence.from_tables(*frames, n_classes=N_CLASSES)))
    session.stop()
    return met


WAYS = {"peer": peer, "ours": ours, "pandas": pandas, "spark": spark}


def child(way: str, folder: Path) -> None:
    """One way, timed without the start of the interpreter but with its own imports."""
    start = time.perf_counter()
    met = WAYS[way](folder)
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                "seconds": seconds,
                "cpu": cpu_seconds(),
                "gib": peak_gib(),
                "met": sorted((str(k), n) for k, n in met.items() if n),
            }
        )
    )


def timed(ways: list[str], folder: Path, repeat: int) -> dict[str, dict[str, Any]]:
    """The best of ``repeat`` runs of each way, turn by turn."""
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(repeat):
        for way in ways:
            runs[way].append(in_child(__file__, "--child", way, "--dir", str(folder)))
    return {
        way: {
            **min(rs, key=lambda r: r["seconds"]),
            "cpu": round(min(r["cpu"] for r in rs), 2),
            "gib": max(r["gib"] for r in rs),
        }
        for way, rs in runs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument(
        "--dir", type=Path, help="where the files are kept; by default a temporary folder"
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--pandas", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--spark-rows", type=int, default=200_000)
    parser.add_argument("--record", action="store_true", help="append the line to results.jsonl")
    parser.add_argument("--child", choices=sorted(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.dir)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.dir or Path(temporary)
        generate(folder / str(options.rows), options.rows)
        found = timed(
            ["peer", "ours", *(["pandas"] if options.pandas else [])],
            folder / str(options.rows),
            options.repeat,
        )
        figures: dict[str, Any] = {"rows": options.rows, "repeat": options.repeat}
        for way, result in found.items():
            figures[f"{way}_s"], figures[f"{way}_cpu_s"], figures[f"{way}_gib"] = (
                round(result["seconds"], 2),
                result["cpu"],
                result["gib"],
            )
        figures["ratio"] = round(found["ours"]["seconds"] / found["peer"]["seconds"], 3)
        figures["same_counts"] = all(
            result["met"] == found["peer"]["met"] for result in found.values()
        )
        if options.spark_rows:
            generate(folder / str(options.spark_rows), options.spark_rows)
            small = timed(["ours", "spark"], folder / str(options.spark_rows), 1)
            figures |= {
                "spark_rows": options.spark_rows,
                "spark_s": round(small["spark"]["seconds"], 2),
            }
            figures["spark_same_counts"] = small["spark"]["met"] == small["ours"]["met"]
    claim = "count_accuracy takes at most 1.3 times a hand-written DuckDB query for the same counts, below 5 GiB"
    command = f"python benchmarks/bench_scale.py --rows {options.rows} --repeat {options.repeat} --spark-rows {options.spark_rows}"
    emit(
        "scale",
        claim,
        figures,
        command=command + ("" if options.pandas else " --no-pandas"),
        record=options.record,
    )


if __name__ == "__main__":
    main()
