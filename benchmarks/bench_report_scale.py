"""Claim: a report on 10^8 judgements and 10^7 items answered by 3 systems takes at most 3 minutes
and 6 GiB on 2 cores, and one more partition of 1 % costs at most 5 % of counting everything.

Partitioned Parquet (ten judgements per item by twenty raters, disjoint items) is written by DuckDB.
In fresh processes, one after the other: ``noracle report`` on the folder; ``count_partitions`` of
all partitions with an empty store; the same with one partition more, which is all that is read;
and, where it is asked for, each counter alone and PySpark on a smaller folder, which must count the
same. Memory is the peak of the process itself.

    python benchmarks/bench_report_scale.py --judgements 10000000 python
    benchmarks/bench_report_scale.py --judgements 100000000 --dir /path/with/space --no-counters
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from _common import cpu_seconds, emit, in_child, peak_gib

N_CLASSES, PER_ITEM, N_RATERS = 10, 10, 20
SYSTEMS = {"alpha": 80, "beta": 70, "gamma": 60}
COUNTERS = ("count_accuracy", "count_judgements", "count_patterns", "count_decisions")
SPARK_PARTS = 2


def generate(folder: Path, judgements: int, parts: int) -> None:
    """``parts`` partitions and one more of the same size, kept if already there; 2 % of the answers
    are missing.
    """
    import duckdb

    if (folder / "done").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    per = judgements // PER_ITEM // parts
    systems = ", ".join(
        f"('{name}', {i}, {right})" for i, (name, right) in enumerate(SYSTEMS.items(), start=1)
    )
    config = {
        "memory_limit": "3GB",
        "temp_directory": str(folder / "spill"),
        "preserve_insertion_order": "false",
    }
    with duckdb.connect(config=config) as con:
        for p in range(parts + 1):
            first = p * per
            place = folder / ("more" if p == parts else "evidence")
            for name in ("answers", "judgements"):
                (place / name).mkdir(parents=True, exist_ok=True)
            item, truth = (
                f"({first} + (i * 7919) % {per})",
                f"(hash({first} + (i * 7919) % {per}) % {N_CLASSES})",
            )
            con.sql(
                f"SELECT {item}::BIGINT AS item, name AS system, CASE WHEN hash(i * 31 + k + {first}) % 50 = 0 THEN NULL "
                f"WHEN hash(i * 17 + k + {first}) % 100 < rate THEN {truth}::INT "
                f"ELSE (({truth} + 1 + hash(i * 13 + k) % {N_CLASSES - 1}) % {N_CLASSES})::INT END AS answer "
                f"FROM range({per}) t(i), (VALUES {systems}) s(name, k, rate)"
            ).write_parquet(str(place / "answers" / f"part-{p:04d}.parquet"))
            con.sql(
                f"SELECT item, class, CASE WHEN class = (hash(item) % {N_CLASSES})::INT THEN 'yes' ELSE 'no' END AS verdict, rater FROM "
                f"(SELECT ({first} + j // {PER_ITEM})::BIGINT AS item, (hash(j * 5 + 2 + {first}) % {N_CLASSES})::INT AS class, "
                f"'r' || (hash(j * 7 + 1 + {first}) % {N_RATERS}) AS rater FROM range({per * PER_ITEM}) t(j))"
            ).write_parquet(str(place / "judgements" / f"part-{p:04d}.parquet"))
    (folder / "evidence" / "noracle.toml").write_text(
        f'n_classes = {N_CLASSES}\nclaim = "accuracy > 1/2"\n', encoding="utf-8"
    )
    (folder / "done").touch()


def paths(folder: Path, *, more: bool = False) -> dict[str, list[str]]:
    places = ["evidence", *(["more"] if more else [])]
    return {
        name: [
            str(p) for place in places for p in sorted((folder / place / name).glob("*.parquet"))
        ]
        for name in ("answers", "judgements")
    }


def report(folder: Path) -> dict[str, Any]:
    """The command line from the start, in this process."""
    from noracle.cli import run

    page = folder / "report.html"
    code = run(["report", str(folder / "evidence"), "--out", str(page)])
    if code not in {0, 1}:
        raise SystemExit(f"noracle report ended with {code}")
    found = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    return {
        "steps": {step["name"]: step["status"] for step in found["steps"]},
        "bytes": page.stat().st_size,
    }


def counting(folder: Path, *, more: bool) -> dict[str, Any]:
    from noracle.counts import count_partitions, pair_partitions

    counted = count_partitions(
        pair_partitions(**paths(folder, more=more)), n_classes=N_CLASSES, store=folder / "store"
    )
    return {
        "read": len(counted.reading.read),
        "known": len(counted.reading.known),
        "groups": counted.decisions.n_groups,
    }


def counter(folder: Path, name: str) -> dict[str, Any]:
    """One counter alone, on one evidence with all files."""
    from noracle import counts
    from noracle.evidence import Evidence

    counted = getattr(counts, name)(Evidence.from_tables(**paths(folder), n_classes=N_CLASSES))
    return {"seen": bool(counted)}


def together(folder: Path) -> dict[str, Any]:
    """All counters on one evidence with all files, without partitions."""
    from noracle.counts import count_evidence
    from noracle.evidence import Evidence

    return {
        "groups": count_evidence(
            Evidence.from_tables(**paths(folder), n_classes=N_CLASSES)
        ).decisions.n_groups
    }


def spark(folder: Path) -> dict[str, Any]:
    """The same counts by PySpark and by DuckDB on the first partitions."""
    from pyspark.sql import SparkSession

    from noracle.counts import count_evidence
    from noracle.evidence import Evidence

    some = {name: found[:SPARK_PARTS] for name, found in paths(folder).items()}
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
    session.sparkContext.setLogLevel("OFF")
    frames = {name: session.read.parquet(*found) for name, found in some.items()}
    found = count_evidence(Evidence.from_tables(**frames, n_classes=N_CLASSES))
    session.stop()
    return {"same": found == count_evidence(Evidence.from_tables(**some, n_classes=N_CLASSES))}


WAYS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "report": report,
    "full": lambda folder: counting(folder, more=False),
    "added": lambda folder: counting(folder, more=True),
    "together": together,
    "spark": spark,
    **{name: lambda folder, name=name: counter(folder, name) for name in COUNTERS},  # type: ignore[misc]
}


def child(way: str, folder: Path) -> None:
    start = time.perf_counter()
    found = WAYS[way](folder)
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                "seconds": round(seconds, 2),
                "cpu": round(cpu_seconds(), 2),
                "gib": peak_gib(),
                **found,
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--judgements", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument(
        "--dir", type=Path, help="where the files are kept; by default a temporary folder"
    )
    parser.add_argument("--report", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--counters",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also each counter alone",
    )
    parser.add_argument(
        "--spark",
        action=argparse.BooleanOptionalAction,
        default=False,
        help=f"also PySpark on {SPARK_PARTS} partitions",
    )
    parser.add_argument("--record", action="store_true", help="append the line to results.jsonl")
    parser.add_argument("--child", choices=sorted(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.dir)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.dir or Path(temporary)) / f"{options.judgements}-{options.partitions}"
        generate(folder, options.judgements, options.partitions)
        shutil.rmtree(folder / "store", ignore_errors=True)
        ways = [*(["report"] if options.report else []), "full", "added"]
        ways += [
            *(["together", *COUNTERS] if options.counters else []),
            *(["spark"] if options.spark else []),
        ]
        figures: dict[str, Any] = {
            "judgements": options.judgements,
            "items": options.judgements // PER_ITEM,
            "systems": len(SYSTEMS),
        }
        figures["partitions"] = options.partitions
        for way in ways:
            found = in_child(__file__, "--child", way, "--dir", str(folder))
            figures[f"{way}_s"], figures[f"{way}_cpu_s"], figures[f"{way}_gib"] = (
                found["seconds"],
                found["cpu"],
                found["gib"],
            )
            if way == "report":
                figures["steps_done"] = sum(status == "done" for status in found["steps"].values())
                figures["steps_failed"] = sorted(
                    name for name, status in found["steps"].items() if status == "failed"
                )
            if way == "added":
                figures["partitions_read_again"] = found["read"] - 1
                figures["added_share"] = round(found["seconds"] / figures["full_s"], 4)
            if way == "spark":
                figures["spark_same_counts"] = found["same"]
        figures["cpu_us_per_judgement"] = round(figures["full_cpu_s"] / options.judgements * 1e6, 3)
    claim = "10^8 judgements of 10^7 items and 3 systems: report within 180 s and 6 GiB; one partition more within 5 % of a full count"
    given = f"--judgements {options.judgements} --partitions {options.partitions}"
    given += "".join(
        f" --no-{name}" for name in ("report", "counters") if not getattr(options, name)
    ) + (" --spark" if options.spark else "")
    emit(
        "report-scale",
        claim,
        figures,
        command=f"python benchmarks/bench_report_scale.py {given}",
        record=options.record,
    )


if __name__ == "__main__":
    main()
