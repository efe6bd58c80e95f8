"""Claim: a million items with fifty annotators each are counted, bounded and certified in at most
ten seconds.

The ratings lie in Parquet, long (item, rater, label; fifty million rows) and wide (a column a
rater), beside the answers of one system. Each way runs in a fresh process, turn by turn, best of N:
reading, checking every row, counting votes, ceiling and certificate. Beside it a hand-written
DuckDB query for the ceiling and the match rate alone, which checks nothing; both must give the same
two numbers. ``pairs`` also counts the tables of all 1,225 pairs of raters.

    python benchmarks/bench_superhuman.py
    python benchmarks/bench_superhuman.py --items 100000 --repeat 1
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

N_RATERS, N_LABELS = 50, 5
RATERS = [f"rater{j:02d}" for j in range(N_RATERS)]
LIMIT_S, LIMIT_GIB = 10.0, 4.0


def _label(i: str, j: str) -> str:
    """A rater is right seven times in ten; items are true in turn."""
    return f"CASE WHEN hash({i} * 100 + {j}) % 10 < 7 THEN ({i} * 7919) % {N_LABELS} ELSE hash({i} * 77 + {j} * 3 + 1) % {N_LABELS} END"


def generate(folder: Path, items: int) -> None:
    """The three files; kept if already there."""
    import duckdb

    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(
        config={"memory_limit": "3GB", "temp_directory": str(folder / "spill")}
    ) as con:
        con.sql(
            f"SELECT i AS item, 'rater' || lpad(j::VARCHAR, 2, '0') AS rater, ({_label('i', 'j')})::TINYINT AS label "
            f"FROM range({items}) t(i), range({N_RATERS}) s(j)"
        ).write_parquet(str(folder / "long.parquet"))
        columns = ", ".join(
            f"({_label('i', str(j))})::TINYINT AS {name}" for j, name in enumerate(RATERS)
        )
        con.sql(f"SELECT i AS item, {columns} FROM range({items}) t(i)").write_parquet(
            str(folder / "wide.parquet")
        )
        answer = f"CASE WHEN hash(i * 13) % 100 < 90 THEN (i * 7919) % {N_LABELS} ELSE hash(i) % {N_LABELS} END"
        con.sql(
            f"SELECT i AS item, 'agent' AS system, ({answer})::INT AS answer FROM range({items}) t(i)"
        ).write_parquet(str(folder / "answers.parquet"))
    (folder / "done").touch()


def peer(folder: Path) -> dict[str, Any]:
    """The hand-written query on the long file; ties go to the system in equal parts."""
    import duckdb

    votes = ", ".join(f"count(*) FILTER (label = {k}) AS v{k}" for k in range(N_LABELS))
    names = ", ".join(f"v{k}" for k in range(N_LABELS))
    tied = " + ".join(f"(v{k} = top)::INT" for k in range(N_LABELS))
    hit = " ".join(f"WHEN {k} THEN v{k} = top" for k in range(N_LABELS))
    with duckdb.connect() as con:
        ceiling, match = con.sql(
            f"WITH votes AS (SELECT item, {votes}, count(*) AS n FROM '{folder}/long.parquet' GROUP BY item), "
            f"tops AS (SELECT *, greatest({names}) AS top FROM votes) "
            f"SELECT avg(top / n), avg(CASE WHEN CASE answer {hit} END THEN 1.0 / ({tied}) ELSE 0 END) "
            f"FROM tops JOIN '{folder}/answers.parquet' USING (item)"
        ).fetchall()[0]
    return {"ceiling": ceiling, "match": match}


def _judged(ratings: Any, *, pairs: bool = False) -> dict[str, Any]:
    from noracle.counts import count_ratings
    from noracle.superhuman import certify_superhuman, estimate_ceiling

    counts = count_ratings(ratings, pairs=pairs)
    ceiling = estimate_ceiling(counts)
    certificate = certify_superhuman(
        counts, ties="share", trained_on_annotators="no", confidence=0.99
    )
    match = float((counts.hits("agent") / counts.tied).sum() / counts.n_items.sum())
    return {
        "ceiling": ceiling.value,
        "match": match,
        "certified": certificate.certified,
        "pairs": len(counts.pairs),
    }


def long(folder: Path) -> dict[str, Any]:
    from noracle.evidence import Ratings

    return _judged(Ratings.from_tables(folder / "long.parquet", folder / "answers.parquet"))


def wide(folder: Path, *, pairs: bool = False) -> dict[str, Any]:
    from noracle.evidence import Ratings

    ratings = Ratings.from_wide(
        folder / "wide.parquet", folder / "answers.parquet", raters=RATERS, item="item"
    )
    return _judged(ratings, pairs=pairs)


def with_pairs(folder: Path) -> dict[str, Any]:
    return wide(folder, pairs=True)


WAYS = {"peer": peer, "long": long, "wide": wide, "pairs": with_pairs}


def child(way: str, folder: Path) -> None:
    """One way, timed without the start of the interpreter but with its own imports."""
    start = time.perf_counter()
    found = WAYS[way](folder)
    print(
        json.dumps(
            {
                **found,
                "seconds": time.perf_counter() - start,
                "cpu": cpu_seconds(),
                "gib": peak_gib(),
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument(
        "--dir", type=Path, help="where the files are kept; by default a temporary folder"
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--record", action="store_true", help="append the line to results.jsonl")
    parser.add_argument("--child", choices=sorted(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.dir)
        return
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.dir or Path(temporary)) / str(options.items)
        generate(folder, options.items)
        for _ in range(options.repeat):
            for way in WAYS:
                runs[way].append(in_child(__file__, "--child", way, "--dir", str(folder)))
    figures: dict[str, Any] = {
        "items": options.items,
        "raters": N_RATERS,
        "labels": N_LABELS,
        "repeat": options.repeat,
    }
    for way, found in runs.items():
        figures[f"{way}_s"] = round(min(r["seconds"] for r in found), 2)
        figures[f"{way}_cpu_s"] = round(min(r["cpu"] for r in found), 2)
        figures[f"{way}_gib"] = max(r["gib"] for r in found)
    first = runs["peer"][0]
    rest = [r for way in ("long", "wide", "pairs") for r in runs[way]]
    figures["same_numbers"] = all(
        abs(r[k] - first[k]) < 1e-9 for r in rest for k in ("ceiling", "match")
    )
    figures["certified"] = all(r["certified"] for r in rest)
    figures["met"] = (
        max(figures["long_s"], figures["wide_s"]) <= LIMIT_S
        and max(r["gib"] for r in rest) <= LIMIT_GIB
    )
    claim = "ceiling and certificate for 1,000,000 items with 50 annotators each in at most 10 s, below 4 GiB"
    command = (
        f"python benchmarks/bench_superhuman.py --items {options.items} --repeat {options.repeat}"
    )
    emit("superhuman", claim, figures, command=command, record=options.record)


if __name__ == "__main__":
    main()
