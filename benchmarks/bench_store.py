"""Claim: with ``noracle report --store``, one partition more of 100 costs at most 5 % of counting
all of them, and nothing else changes.

The tables of ``bench_report_scale.py`` (ten judgements per item by twenty raters, three systems,
disjoint items) lie in one folder. In fresh processes, one after the other: a report with an empty
store, a report with one partition more, which is all that is counted, and a report of the same
folder without a store, whose JSON must be the same but for the notes about the store. Counting is
the time inside ``count_partitions``: fingerprints of all files, the new partition, the comparison
of its items with all others, the sum, and the files of the store. ``plain`` counts everything at
once, without a store, which is less work than counting 100 partitions. What the report does beside
(looking for evidence, intervals, proofs, the page) is in the seconds of the whole report.

    python benchmarks/bench_store.py --judgements 10000000 [--dir /path/with/space] [--record]
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

from _common import cpu_seconds, emit, in_child
from bench_report_scale import N_CLASSES, PER_ITEM, SYSTEMS, generate

WAYS = ("empty", "more", "plain")


def report(folder: Path, way: str) -> dict[str, Any]:
    """The command line in this process, with a clock on the counting of partitions."""
    from noracle import counts
    from noracle.cli import run

    spent = {"seconds": 0.0, "cpu": 0.0}

    def timed(count: Callable[..., Any]) -> Callable[..., Any]:
        def run_timed(*args: Any, **kwargs: Any) -> Any:
            start, cpu = time.perf_counter(), cpu_seconds()
            found = count(*args, **kwargs)
            spent["seconds"], spent["cpu"] = (
                spent["seconds"] + time.perf_counter() - start,
                spent["cpu"] + cpu_seconds() - cpu,
            )
            return found

        return run_timed

    for name in (
        ("count_accuracy", "count_judgements", "count_patterns", "count_decisions")
        if way == "plain"
        else ("count_partitions",)
    ):
        setattr(counts, name, timed(getattr(counts, name)))
    page = folder / f"{way}.html"
    store = [] if way == "plain" else ["--store", str(folder / "counts")]
    start = time.perf_counter()
    code = run(
        [
            "report",
            str(folder / "evidence"),
            "--n-classes",
            str(N_CLASSES),
            "--out",
            str(page),
            *store,
        ]
    )
    if code not in {0, 1}:
        raise SystemExit(f"noracle report ended with {code}")
    return {
        "report_s": round(time.perf_counter() - start, 2),
        "count_s": round(spent["seconds"], 3),
        "count_cpu_s": round(spent["cpu"], 3),
    }


def add_partition(folder: Path) -> None:
    for path in sorted((folder / "more").glob("*/*.parquet")):
        shutil.copy(path, folder / "evidence" / path.parent.name / path.name)


def said(folder: Path, way: str) -> tuple[dict[str, Any], list[str]]:
    found = json.loads((folder / f"{way}.json").read_text(encoding="utf-8"))
    notes = found.pop("notes")
    return {**found, "notes": [n for n in notes if not n.startswith("store: ")]}, [
        n for n in notes if n.startswith("store: ")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--judgements", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument(
        "--dir", type=Path, help="where the files are kept; by default a temporary folder"
    )
    parser.add_argument("--record", action="store_true", help="append the line to results.jsonl")
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(report(options.dir, options.child)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = (
            options.dir or Path(temporary)
        ) / f"store-{options.judgements}-{options.partitions}"
        shutil.rmtree(folder, ignore_errors=True)
        generate(folder, options.judgements, options.partitions)
        figures: dict[str, Any] = {
            "judgements": options.judgements,
            "items": options.judgements // PER_ITEM,
            "systems": len(SYSTEMS),
        }
        for way in WAYS:
            if way == "more":
                add_partition(folder)
            found = in_child(__file__, "--child", way, "--dir", str(folder))
            figures |= {f"{way}_{name}": value for name, value in found.items()}
        (with_store, notes), (without, _) = said(folder, "more"), said(folder, "plain")
        figures["note"] = notes[0].removeprefix("store: ").split(".")[0]
        figures["same_json"] = with_store == without
        figures["share"] = round(figures["more_count_s"] / figures["empty_count_s"], 4)
        figures["cpu_share"] = round(figures["more_count_cpu_s"] / figures["empty_count_cpu_s"], 4)
        figures["cpu_share_of_plain"] = round(
            figures["more_count_cpu_s"] / figures["plain_count_cpu_s"], 4
        )
        figures["met"] = figures["share"] <= 0.05 and figures["same_json"]
    claim = "with a store, one partition more of 100 costs at most 5 % of counting all of them, and the report says the same"
    command = f"python benchmarks/bench_store.py --judgements {options.judgements} --partitions {options.partitions}"
    emit("store", claim, figures, command=command, record=options.record)


if __name__ == "__main__":
    main()
