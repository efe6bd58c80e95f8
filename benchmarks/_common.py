"""What the benchmarks share: children with a clean memory, and one JSON line a result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results.jsonl"


def emit(bench: str, claim: str, figures: dict[str, Any], *, command: str, record: bool) -> None:
    """Print one JSON line; ``record`` also appends it to ``results.jsonl``."""
    line = json.dumps(
        {"bench": bench, "claim": claim, **figures, "command": command},
        allow_nan=False,
        ensure_ascii=False,
    )
    print(line)
    if record:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def in_child(script: str, *arguments: str) -> dict[str, Any]:
    """Run ``script`` (a file) in a fresh interpreter; its last line of output is JSON."""
    done = subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{script} {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def peak_gib() -> float:
    """The largest memory this process has held, in GiB."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**30 if sys.platform == "darwin" else 2**20), 2)


def cpu_seconds() -> float:
    """The processor time of this process, which other work on the machine does not stretch."""
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
