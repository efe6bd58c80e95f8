"""Re-make the tables and figures of the five papers, ours beside theirs, and write them as a
chapter of the documentation.

    python examples/papers/reproduce.py --out docs/reproduce                    (or: make reproduce PAPER=alarm)

Every item is a record: what is published, the difference, the reason, a status (reproduced; reproduced in
shape; input missing), the seconds. An item is not made again while its sources, its data and what
it left in the chapter are the same; ``--again`` makes it all the same. An item that fails does not
stop the others; then the exit code is 1. ``--quick`` makes small runs, for tests; never keep their
numbers.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import _reproduce_chapter as chapter
from _reproduce_model import Item, Paper, Record, Size

PAPERS = ("partitioned", "superhuman", "multippi", "alarm", "climage")


def load(name: str) -> Paper:
    """The items of one paper."""
    paper = importlib.import_module(f"_reproduce_{name}").PAPER
    if not isinstance(paper, Paper):
        raise TypeError(f"_reproduce_{name}.PAPER must be a Paper; got {type(paper).__name__}")
    return paper


def make(item: Item, size: Size, work: Path, out: Path, sources: str) -> tuple[Record, str]:
    """Run one item; an error becomes a record."""
    began, cpu = time.perf_counter(), time.process_time()
    try:
        made = item.make(size, work)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
        return chapter.write_item(
            out, item, made, seconds=seconds, cpu_seconds=cpu_seconds, sources=sources
        )
    except Exception as error:  # noqa: BLE001 - one item must not stop the others
        traceback.print_exc()
        return chapter.failed_item(
            item, f"{type(error).__name__}: {error}", seconds=time.perf_counter() - began
        )


def reproduce(
    papers: Sequence[Paper],
    *,
    out: Path,
    size: Size,
    again: bool = False,
    only: Sequence[str] = (),
    wanted: Sequence[str] = PAPERS,
) -> dict[chapter.Key, Record]:
    """Run what is wanted and not done, and write the chapter after each item, so that an
    interrupted run goes on.
    """
    records = chapter.read_records(out)
    chosen = [paper for paper in papers if paper.key in wanted]
    total = sum(not only or item.key in only for paper in chosen for item in paper.items)
    place = 0
    with tempfile.TemporaryDirectory() as folder:
        for paper in chosen:
            sections, sources = (
                chapter.read_sections(out, paper),
                chapter.sources_digest(paper, size),
            )
            for item in paper.items:
                if only and item.key not in only:
                    continue
                place += 1
                key = (paper.key, item.name)
                tell = f"[{place}/{total}] {paper.key} {item.name}"
                if not again and chapter.is_done(
                    out, records.get(key), sections.get(item.name), sources
                ):
                    print(f"{tell}: unchanged", flush=True)
                    continue
                work = Path(folder) / paper.key
                work.mkdir(exist_ok=True)
                records[key], sections[item.name] = make(item, size, work, out, sources)
                late = (
                    f" (more than the {item.at_most:g} s planned)"
                    if records[key].seconds > item.at_most and not size.quick
                    else ""
                )
                print(
                    f"{tell}: {records[key].status}, {records[key].seconds:.1f} s, processor {records[key].cpu_seconds:.1f} s{late}",
                    flush=True,
                )
                chapter.write_page(out, paper, sections, quick=size.quick)
                chapter.write_index(out, papers, records, quick=size.quick)
    return records


def main(argv: Sequence[str] | None = None) -> int:
    """Write the chapter; 1 if an item failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--paper",
        action="append",
        choices=PAPERS,
        default=[],
        help="only this paper; may be given several times",
    )
    parser.add_argument(
        "--item",
        action="append",
        default=[],
        help="only this item, as table-1 or figure-3; may be given several times",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("docs/reproduce"),
        help="folder of the chapter (default docs/reproduce)",
    )
    parser.add_argument("--again", action="store_true", help="also make what is unchanged")
    parser.add_argument(
        "--quick", action="store_true", help="small runs, for tests; needs an --out of its own"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    if options.quick and options.out.resolve() == (chapter.ROOT / "docs" / "reproduce").resolve():
        parser.error("--quick must not overwrite the chapter; give another --out")
    os.environ["MPLBACKEND"] = "Agg"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(
            name, "1"
        )  # small matrices: threads cost more than they save, and sums come out in one order
    papers = [load(name) for name in PAPERS]
    known = {item.key for paper in papers for item in paper.items}
    if unknown := sorted(set(options.item) - known):
        parser.error(f"--item must be one of {', '.join(sorted(known))}; got {', '.join(unknown)}")
    wanted = tuple(options.paper) or PAPERS
    began = time.perf_counter()
    records = reproduce(
        papers,
        out=options.out,
        size=Size(options.quick, options.seed),
        again=options.again,
        only=options.item,
        wanted=wanted,
    )
    mine = [r for r in records.values() if r.paper in wanted]
    failed = [f"{r.paper} {r.item}" for r in mine if r.status == "failed"]
    counts = ", ".join(
        f"{sum(r.status == s for r in mine)} {s}" for s in dict.fromkeys(r.status for r in mine)
    )
    print(f"{options.out / 'index.md'}: {counts}; {time.perf_counter() - began:.0f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
