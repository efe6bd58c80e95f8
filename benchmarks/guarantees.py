"""Measure how often every promise of the package holds, in every setting of every part, and write
guarantees.json for the docs.

    python benchmarks/guarantees.py [--jobs 2] [--part ceilings …] [--worlds 1000] [--out benchmarks/guarantees.json]
    python benchmarks/guarantees.py --quick          a few settings of each part, in about a minute; nothing is written without --out

Worlds with a known truth are those of tests/guarantees; the matrix itself is
tests/guarantees/matrix. Rows that were measured with the same sources and as many worlds are kept.
A run that was stopped goes on where it was: finished cases lie in a journal beside the output.
Prints one JSON line; the exit status is 1 if a finite-sample or logical promise is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy: one thread a process
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.guarantees.matrix.record import PROMISED, judged  # noqa: E402
from tests.guarantees.matrix.registry import PARTS, all_cases, digest  # noqa: E402

WORLDS = 1000
OUT = ROOT / "benchmarks" / "guarantees.json"
Key = tuple[str, str]
Rows = list[dict[str, Any]]


def measure_case(key: Key, worlds: int) -> tuple[Key, Rows, float]:
    """The rows of one case; runs in a process of its own pool."""
    start = time.perf_counter()
    rows = [row.to_dict() for row in all_cases()[key].measured(worlds)]
    return key, rows, time.perf_counter() - start


def measured(keys: Sequence[Key], worlds: int, jobs: int) -> Iterator[tuple[Key, Rows, float]]:
    """The rows of each case, as they come."""
    if jobs == 1:
        for key in keys:
            yield measure_case(key, worlds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(measure_case, key, worlds) for key in keys]
        try:
            for done in as_completed(waiting):
                yield done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


# -------------------------------------------------------------------------------------------------
# what was measured before


def journal_of(out: Path) -> Path:
    return out.with_suffix(".journal")


def stored_parts(out: Path) -> dict[str, dict[str, Any]]:
    """By part what the output holds: digest, worlds, rows."""
    if not out.exists():
        return {}
    data = json.loads(out.read_text(encoding="utf-8"))
    found = {part: {**about, "rows": []} for part, about in data.get("parts", {}).items()}
    for row in data["rows"]:
        if row.get("part") in found:
            found[row["part"]]["rows"].append(row)
    return found


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Finished cases of a run that was stopped; a line that was cut off is left out."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def leave(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Keep only these lines of a journal: those of other parts, whose run was stopped too."""
    if not lines:
        path.unlink(missing_ok=True)
        return
    temporary = path.with_suffix(".tmp")
    temporary.write_text(
        "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines), encoding="utf-8"
    )
    temporary.replace(path)


def write_whole(out: Path, parts: dict[str, dict[str, Any]]) -> Rows:
    """All parts in their order, with the verdict over all rows together."""
    order = [part for part in PARTS if part in parts]
    rows = judged(row for part in order for row in parts[part]["rows"])
    about = {
        part: {name: value for name, value in parts[part].items() if name != "rows"}
        for part in order
    }
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
    temporary = out.with_suffix(".tmp")
    temporary.write_text(
        '{"parts": %s,\n"rows": [\n%s\n]}\n' % (json.dumps(about), lines),  # noqa: UP031
        encoding="utf-8",
    )
    temporary.replace(out)
    return rows


# ---------------------------------------------------------------------------------------------------------------------
# runs


def run(names: Sequence[str], *, worlds: int, jobs: int, out: Path, again: bool) -> Rows:
    """Measure what is not known, part by part, and write the whole table."""
    parts = stored_parts(out)
    journal = journal_of(out)
    wanted: dict[str, list[Key]] = {part: [] for part in names}
    for key in all_cases():
        if key[0] in wanted:
            wanted[key[0]].append(key)
    current = {part: {"digest": digest(part), "worlds": worlds} for part in names}
    fresh = {
        part
        for part in names
        if not again
        and part in parts
        and all(parts[part].get(k) == v for k, v in current[part].items())
    }
    known: dict[Key, Rows] = {}
    seconds: dict[Key, float] = {}
    for line in [] if again else read_journal(journal):
        key = line["part"], line["case"]
        if (
            key[0] in current
            and line["digest"] == current[key[0]]["digest"]
            and line["worlds"] == worlds
            and key in all_cases()
        ):
            known[key], seconds[key] = line["rows"], line["seconds"]
    todo = [key for part in names if part not in fresh for key in wanted[part] if key not in known]
    print(
        f"{len(todo)} cases to measure; {len(known)} of a stopped run and {len(fresh)} parts are known",
        file=sys.stderr,
        flush=True,
    )
    with journal.open("a", encoding="utf-8") as file:
        for done, (key, rows, took) in enumerate(measured(todo, worlds, jobs), 1):
            line = {
                "part": key[0],
                "case": key[1],
                "worlds": worlds,
                "digest": current[key[0]]["digest"],
                "seconds": took,
                "rows": rows,
            }
            file.write(json.dumps(line, allow_nan=False) + "\n")
            file.flush()
            known[key], seconds[key] = rows, took
            print(
                f"{done}/{len(todo)} {took:6.1f} s  {key[0]}: {key[1]}", file=sys.stderr, flush=True
            )
    for part in names:
        if part not in fresh:
            rows = [row for key in wanted[part] for row in known[key]]
            parts[part] = {
                **current[part],
                "seconds": round(sum(seconds[key] for key in wanted[part]), 1),
                "rows": rows,
            }
    whole = write_whole(out, parts)
    leave(journal, [line for line in read_journal(journal) if line["part"] not in names])
    return whole


def run_quick(names: Sequence[str], *, worlds: int, jobs: int) -> Rows:
    """A few settings of each part."""
    keys = [key for key, case in all_cases().items() if case.quick and key[0] in names]
    return judged(row for _, rows, _ in measured(keys, worlds, jobs) for row in rows)


def summary(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What is printed and what the tests look at."""
    rows = list(rows)
    promised = [r for r in rows if r["guarantee"] in PROMISED]
    others = [r for r in rows if r["guarantee"] not in PROMISED]
    return {
        "parts": len({r["part"] for r in rows}),
        "settings": len({(r["part"], r["setting"]) for r in rows}),
        "rows": len(rows),
        "promised_failures": sum(r["significant"] for r in promised),
        "lowest_promised": min(
            (round(r["coverage"] - r["nominal"], 4) for r in promised), default=None
        ),
        "asymptotic_failures": sum(r["significant"] for r in others),
        "lowest_asymptotic": min(
            (round(r["coverage"] - r["nominal"], 4) for r in others), default=None
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="only a few settings of each part")
    parser.add_argument(
        "--part",
        nargs="+",
        choices=list(PARTS),
        default=list(PARTS),
        metavar="PART",
        help=", ".join(PARTS),
    )
    parser.add_argument(
        "--worlds",
        type=int,
        default=None,
        help=f"worlds per setting; cases that cost much draw fewer (default {WORLDS})",
    )
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    parser.add_argument("--again", action="store_true", help="measure also what is known")
    parser.add_argument(
        "--out", type=Path, default=None, help=f"default {OUT.relative_to(ROOT)}; with --quick none"
    )
    options = parser.parse_args()
    start = time.perf_counter()
    if options.quick and options.out is None:
        rows = run_quick(options.part, worlds=options.worlds or 200, jobs=options.jobs)
    elif options.quick:
        rows = run_quick(options.part, worlds=options.worlds or 200, jobs=options.jobs)
        options.out.write_text(
            json.dumps({"parts": {}, "rows": rows}, allow_nan=False), encoding="utf-8"
        )
    else:
        out = options.out or OUT
        rows = run(
            options.part,
            worlds=options.worlds or WORLDS,
            jobs=options.jobs,
            out=out,
            again=options.again,
        )
    line = {
        "bench": "guarantees",
        **summary(rows),
        "seconds": round(time.perf_counter() - start, 1),
    }
    for r in rows:
        if r["significant"] and r["guarantee"] in PROMISED:
            print(
                f"BROKEN  {r['part']}: {r['method']}, {r['interval']}, {r['setting']}: {r['coverage']} < {r['nominal']}",
                file=sys.stderr,
            )
    print(json.dumps(line))
    sys.exit(1 if line["promised_failures"] else 0)


if __name__ == "__main__":
    main()
