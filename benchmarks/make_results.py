"""Write RESULTS.md from results.jsonl: for every claim the latest figures and the command that
gives them.

    python benchmarks/make_results.py

With ``--check`` nothing is written, and the exit code is 1 if the page is not what the lines say.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
HEADER = (
    "# Results\n\n"
    "Written by `python benchmarks/make_results.py` from `results.jsonl`; do not edit by hand. Record new lines with\n"
    "`make bench ARGS=--record`. The latest line of every claim and command is shown."
)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The results; single trials of a study, which its table sums up, are left out, and so is a
    line that a crash cut short.
    """
    lines = []
    for text in path.read_text(encoding="utf-8").split("\n"):
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if "trial" not in line:
            lines.append(line)
    return lines


def latest(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last line of each bench and command, in the order in which they first came."""
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        seen[line["bench"], line["command"]] = line
    return list(seen.values())


def shown(value: Any) -> str:
    """A figure as a table shows it."""
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, dict):
        return "; ".join(f"{k}: {shown(v)}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(shown(v) for v in value)
    if isinstance(value, int):
        return f"{value:,}"
    return str(value).replace("|", "\\|")


def page(lines: list[dict[str, Any]]) -> str:
    """The whole page."""
    parts = [HEADER]
    for line in latest(lines):
        figures = {k: v for k, v in line.items() if k not in ("bench", "claim", "command")}
        table = "\n".join(
            f"| {name.replace('_', ' ')} | {shown(value)} |" for name, value in figures.items()
        )
        parts.append(
            f"## {line['bench']}\n\nClaim: {line['claim']}.\n\n`{line['command']}`\n\n| figure | value |\n|---|---|\n{table}"
        )
    return "\n\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; 1 if the page is out of date"
    )
    parser.add_argument("--lines", type=Path, default=FOLDER / "results.jsonl")
    parser.add_argument("--page", type=Path, default=FOLDER / "RESULTS.md")
    options = parser.parse_args()
    lines = read_lines(options.lines)
    text = page(lines)
    if options.check:
        current = options.page.read_text(encoding="utf-8") if options.page.exists() else ""
        if current != text:
            print(f"{options.page.name} is out of date: run python benchmarks/make_results.py")
        return int(current != text)
    options.page.write_text(text, encoding="utf-8")
    print(f"{options.page.name}: {len(latest(lines))} results")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
