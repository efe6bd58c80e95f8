"""Measure coverage and width of every interval in every setting, and write guarantees.json, from which the docs make their table.

    python benchmarks/guarantees.py [--quick] [--worlds 2000] [--out benchmarks/guarantees.json]

The settings are those of tests/guarantees; the same worlds are drawn here and there. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.guarantees.means import all_means, measure_mean  # noqa: E402
from tests.guarantees.measure import WORLDS, measure, measure_stream  # noqa: E402
from tests.guarantees.settings import all_settings  # noqa: E402
from tests.guarantees.streams import all_streams  # noqa: E402


def rows(*, quick: bool, worlds: int) -> list[dict[str, Any]]:
    found = []
    for setting in all_settings():
        if quick and not setting.quick:
            continue
        start = time.perf_counter()
        found += [measure(setting, interval, method, worlds=worlds).to_dict() for interval, method in setting.pairs]
        print(f"{time.perf_counter() - start:6.1f} s  {setting.name}", file=sys.stderr, flush=True)
    for stream in all_streams() if not quick else ():
        found += [measure_stream(stream, interval, worlds=worlds).to_dict() for interval in stream.intervals]
        print(f"        stream  {stream.name}", file=sys.stderr, flush=True)
    for mean in all_means() if not quick else ():
        start = time.perf_counter()
        found += [row.to_dict() for row in measure_mean(mean, worlds=worlds)]
        print(f"{time.perf_counter() - start:6.1f} s  {mean.name}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the settings of the default tests")
    parser.add_argument("--worlds", type=int, default=WORLDS)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "guarantees.json")
    options = parser.parse_args()
    start = time.perf_counter()
    found = rows(quick=options.quick, worlds=options.worlds)
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in found)
    temporary = options.out.with_suffix(".tmp")
    temporary.write_text('{"worlds": %d, "rows": [\n%s\n]}\n' % (options.worlds, lines), encoding="utf-8")  # noqa: UP031
    temporary.replace(options.out)
    promised = [r for r in found if r["guarantee"] == "finite-sample"]
    line = {
        "bench": "guarantees",
        "settings": len({r["setting"] for r in found}),
        "rows": len(found),
        "seconds": round(time.perf_counter() - start, 1),
        "finite_sample_failures": sum(r["significant"] for r in promised),
        "lowest_finite_sample": min((round(r["coverage"] - r["nominal"], 4) for r in promised), default=None),
        "wald_failures": sum(r["significant"] for r in found if r["interval"] == "wald"),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
