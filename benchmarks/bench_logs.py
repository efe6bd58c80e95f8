"""Claim: logs of evaluation tools are read faster than their own libraries read them, and without
them.

A log of Inspect with N samples (zstd members, as version 0.3.285 writes them) and samples of
lm-eval with M lines, both made here by repeating what the tools wrote (tests/reference/logs). Ours
and Inspect's own reader (where it is installed), each in a fresh process: processor seconds of
reading alone (imports done), and the peak of memory.

    python benchmarks/bench_logs.py [--samples 1000] [--lines 100000] [--record]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from _common import cpu_seconds, emit, in_child, peak_gib

LOGS = Path(__file__).parents[1] / "tests" / "reference" / "logs"


def write_inspect(path: Path, n: int) -> None:
    """A whole log: every sample in full, and their summaries; as Inspect itself writes it."""
    from inspect_ai.log import read_eval_log, write_eval_log

    log = read_eval_log(str(LOGS / "inspect-new.eval"))
    whole = log.samples or []
    log.samples = [
        whole[i % len(whole)].model_copy(update={"id": i + 1, "uuid": f"u{i}"}) for i in range(n)
    ]
    write_eval_log(log, str(path))


def write_lm_eval(path: Path, n: int) -> None:
    """Lines of multiple choice."""
    (source,) = LOGS.glob("lm-eval/*/samples_mini_mc_*.jsonl")
    lines = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    with path.open("w", encoding="utf-8") as file:
        for i in range(n):
            file.write(json.dumps({**lines[i % len(lines)], "doc_id": i}) + "\n")


def read_ours(path: str) -> dict[str, Any]:
    import zstandard  # noqa: F401

    from noracle.evidence.logs import read_logs

    started = cpu_seconds()
    tables = read_logs(path)
    return {
        "cpu_s": round(cpu_seconds() - started, 4),
        "records": len(tables.answers["item"]),
        "peak_gib": peak_gib(),
    }


def read_theirs(path: str) -> dict[str, Any]:
    from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries

    started = cpu_seconds()
    summaries = read_eval_log_sample_summaries(path)
    middle = cpu_seconds()
    log = read_eval_log(path)
    return {
        "cpu_s": round(cpu_seconds() - middle, 4),
        "summaries_cpu_s": round(middle - started, 4),
        "records": min(len(summaries), len(log.samples or [])),
        "peak_gib": peak_gib(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--child", nargs=2)
    options = parser.parse_args()
    if options.child:
        which, path = options.child
        print(json.dumps(read_ours(path) if which == "ours" else read_theirs(path)))
        return
    command = f"python benchmarks/bench_logs.py --samples {options.samples} --lines {options.lines}"
    with tempfile.TemporaryDirectory() as folder:
        if importlib.util.find_spec("inspect_ai") is not None:
            log = Path(folder) / "log.eval"
            write_inspect(log, options.samples)
            ours, theirs = (
                in_child(__file__, "--child", who, str(log)) for who in ("ours", "theirs")
            )
            figures = {
                "samples": options.samples,
                "bytes": log.stat().st_size,
                "ours": ours,
                "inspect_ai": theirs,
            }
            emit(
                "logs_inspect",
                "1,000 samples in at most 0.2 CPU s",
                figures,
                command=command,
                record=options.record,
            )
        lines = Path(folder) / "samples_mc.jsonl"
        write_lm_eval(lines, options.lines)
        ours = in_child(__file__, "--child", "ours", str(lines))
        figures = {"lines": options.lines, "bytes": lines.stat().st_size, "ours": ours}
        emit(
            "logs_lm_eval",
            "100,000 lines in at most 5 s and 300 MB",
            figures,
            command=command,
            record=options.record,
        )


if __name__ == "__main__":
    main()
