"""How long a short command takes: the list of verbs, the version, the import, and a small estimate
and the whole report on the project that ``noracle init`` writes; and the report on 20 systems, where
NORACLE_DATA names the larger data sets.

Each is the best of several fresh processes; processor time is stated beside the time on the clock,
because other work on the machine does not stretch it. The start is held to a time on the clock, the
estimate and the report to processor time.

    python benchmarks/bench_start.py --repeat 5
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from _common import emit

from tests.unit.oversight import mmlu_pro


class Case(NamedTuple):
    """What is run, what it is called, and the most seconds that it may take."""

    said: str
    line: str
    target: float
    of_processor: bool = False


CASES = {
    "help": Case("noracle --help", "-m noracle --help", 0.6),
    "version": Case("noracle --version", "-m noracle --version", 0.6),
    "import": Case("import noracle", "-c import_noracle", 0.2),
    "estimate": Case(
        "noracle estimate on the project of noracle init",
        "-m noracle estimate --answers demo/answers.csv --judgements demo/judgements.csv --n-classes 5",
        0.6,
        of_processor=True,
    ),
    "report": Case(
        "noracle report on the project of noracle init",
        "-m noracle report demo --out report.html",
        2.0,
        of_processor=True,
    ),
    "report-20": Case(
        "noracle report on 20 systems and 12,025 items of MMLU-Pro",
        "-m noracle report twenty --out twenty.html",
        6.0,
        of_processor=True,
    ),
}


def measure(case: Case, repeat: int, folder: Path) -> dict[str, Any]:
    """Seconds on the clock and of the processor for one fresh process, the best of so many."""
    seconds, cpu = [], []
    line = [part.replace("import_", "import ") for part in case.line.split()]
    for _ in range(repeat):
        before, started = os.times(), time.perf_counter()
        subprocess.run(
            [sys.executable, *line], check=True, cwd=folder, capture_output=True, env=ENVIRONMENT
        )
        seconds.append(time.perf_counter() - started)
        after = os.times()
        cpu.append(
            after.children_user
            - before.children_user
            + after.children_system
            - before.children_system
        )
    held = min(cpu if case.of_processor else seconds)
    return {
        "seconds": round(min(seconds), 3),
        "cpu_seconds": round(min(cpu), 3),
        "repeat": repeat,
        "target_cpu_seconds" if case.of_processor else "target_seconds": case.target,
        "met": held <= case.target,
    }


# As installed: modules are compiled once, wherever the processes run.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
if "PYTHONPATH" in ENVIRONMENT:
    ENVIRONMENT["PYTHONPATH"] = os.pathsep.join(
        str(Path(part).resolve()) for part in ENVIRONMENT["PYTHONPATH"].split(os.pathsep)
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5, help="best of so many processes")
    parser.add_argument("--only", default=",".join(CASES), help="cases, separated by commas")
    parser.add_argument("--record", action="store_true", help="append the lines to results.jsonl")
    options = parser.parse_args()
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        init = [sys.executable, "-m", "noracle", "init", "demo"]
        subprocess.run(init, check=True, cwd=folder, capture_output=True, env=ENVIRONMENT)
        data = Path(os.environ.get("NORACLE_DATA") or "none")
        if (data / mmlu_pro.FILE).is_file():
            mmlu_pro.write_judged(Path(folder, "twenty"), data)
        for name in options.only.split(","):
            if name == "report-20" and not Path(folder, "twenty").is_dir():
                continue  # NORACLE_DATA does not name the larger data sets
            case = CASES[name]
            figures = measure(case, options.repeat, Path(folder))
            fine &= figures["met"]
            kind = " of processor time" if case.of_processor else ""
            emit(
                f"start-{name}",
                f"{case.said} takes at most {case.target} s{kind}",
                figures,
                command=f"python benchmarks/bench_start.py --repeat {options.repeat}",
                record=options.record,
            )
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
