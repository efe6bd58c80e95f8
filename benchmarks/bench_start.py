"""How long it takes to start: the list of verbs, the version, and the import.

Each is the best of several fresh processes; processor time is stated beside the time on the clock,
because other work on the machine does not stretch it.

    python benchmarks/bench_start.py --repeat 5
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import Any

from _common import emit

TARGETS = {"help": 0.6, "version": 0.6, "import": 0.2}
LINES = {
    "help": ["-m", "noracle", "--help"],
    "version": ["-m", "noracle", "--version"],
    "import": ["-c", "import noracle"],
}


def start_time(name: str, repeat: int) -> dict[str, Any]:
    """Seconds on the clock and of the processor for one fresh process, the best of so many."""
    seconds, cpu = [], []
    for _ in range(repeat):
        before, started = os.times(), time.perf_counter()
        subprocess.run([sys.executable, *LINES[name]], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - started)
        after = os.times()
        cpu.append(
            after.children_user
            - before.children_user
            + after.children_system
            - before.children_system
        )
    return {
        "seconds": round(min(seconds), 3),
        "cpu_seconds": round(min(cpu), 3),
        "repeat": repeat,
        "target_seconds": TARGETS[name],
        "met": min(seconds) <= TARGETS[name],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5, help="best of so many processes")
    parser.add_argument("--record", action="store_true", help="append the lines to results.jsonl")
    options = parser.parse_args()
    fine = True
    for name, target in TARGETS.items():
        figures = start_time(name, options.repeat)
        fine &= figures["met"]
        what = {
            "help": "noracle --help",
            "version": "noracle --version",
            "import": "import noracle",
        }[name]
        command = f"python benchmarks/bench_start.py --repeat {options.repeat}"
        emit(
            f"start-{name}",
            f"{what} takes at most {target} s",
            figures,
            command=command,
            record=options.record,
        )
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
