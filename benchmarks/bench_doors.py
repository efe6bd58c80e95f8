"""From nothing to the first result through each of the four doors: how many commands, and how long.

Every command runs in a fresh process, in an empty folder that holds only what a reader has: two
tables, or a list of items, or texts with a class ruled out; ``make demo`` runs in a fresh clone,
which it installs first. A command that serves until Ctrl-C is timed until it answers. The number of
commands is held to a limit; so is the time of the first door, without the installation.

    python benchmarks/bench_doors.py
    python benchmarks/bench_doors.py --door evaluate --door gate
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from _common import emit


class Door(NamedTuple):
    """What is typed, the most commands and, where one is promised, the most seconds."""

    lines: tuple[str, ...]
    most_commands: int
    most_seconds: float | None = None
    serves: bool = False
    cloned: bool = False


DOORS = {
    "evaluate": Door(
        ("noracle init mine --from answers.csv --from grades.csv", "noracle report mine"), 3, 60.0
    ),
    "evaluate, make demo": Door(("make demo",), 3, 60.0, cloned=True),
    "gate": Door(
        (
            "noracle init mine --from answers.csv --from grades.csv",
            "noracle gate mine --system gpt --at-least 0.7",
        ),
        4,
    ),
    "collect": Door(
        (
            "noracle collect init --email ann@example.org --name Ann",
            "noracle collect project abstracts --protocol partitioned --classes heart,lung --items items.csv --planned-n 40",
            "noracle collect seal abstracts --yes",
            "noracle collect open abstracts",
            "noracle collect invite abstracts",
            "noracle collect serve --port 0",
        ),
        6,
        serves=True,
    ),
    "train": Door(
        (
            "noracle learn fit notes.csv --items text --ruled-out not_class --epochs 20 --out model",
            "noracle learn predict model notes.csv --items text --out predicted.csv",
        ),
        4,
    ),
}


def prepare(folder: Path) -> None:
    """Write what a reader has."""
    draw = random.Random(5)
    right = {"gpt": 0.87, "llama": 0.71}
    answers, grades = [("question_id", *right)], [("question_id", "system", "verdict")]
    for q in range(800):
        row = {m: "A" if draw.random() < p else "B" for m, p in right.items()}
        answers.append((str(q), *row.values()))
        if q % 4 == 0:
            verdicts = ((m, "right" if a == "A" else "wrong") for m, a in row.items())
            grades += [(str(q), *v) for v in verdicts]
    words = {
        "news": "election minister vote",
        "sport": "goal match team",
        "law": "court judge claim",
    }
    notes = [("item", "text", "not_class")]
    for i in range(900):
        truth = draw.choice(list(words))
        text = " ".join(draw.choice(words[truth].split()) for _ in range(8))
        notes.append((str(i), text, draw.choice([c for c in words if c != truth])))
    items = [("item", "text"), *((f"a{i}", f"Abstract {i}") for i in range(40))]
    for name, rows in {
        "answers": answers,
        "grades": grades,
        "notes": notes,
        "items": items,
    }.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)


def walk(door: Door) -> dict[str, Any]:
    """Type the lines one after the other."""
    seconds: list[float] = []
    installed: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if door.cloned:
            installed = {"install_seconds": round(install(folder), 1)}
        else:
            prepare(folder)
        before = os.times()
        for line in door.lines:
            words = shlex.split(line)
            words = words if door.cloned else [sys.executable, "-m", *words]
            started = time.perf_counter()
            if door.serves and line == door.lines[-1]:
                serve(words, folder)
            else:
                done = subprocess.run(
                    words,
                    cwd=folder,
                    env=CLONED if door.cloned else None,
                    input="a long password\n",
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if done.returncode not in (0, 3):  # 3: undecided, which is an answer
                    raise SystemExit(f"{line} ended with {done.returncode}:\n{done.stderr}")
            seconds.append(time.perf_counter() - started)
        after = os.times()
    cpu = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    met = len(door.lines) <= door.most_commands
    met = met and (door.most_seconds is None or sum(seconds) <= door.most_seconds)
    return {
        "commands": len(door.lines),
        "target_commands": door.most_commands,
        "seconds": round(sum(seconds), 1),
        "target_seconds": door.most_seconds,
        "cpu_seconds": round(cpu, 1),
        **installed,
        "met": met,
    }


CLONED = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}


def install(folder: Path) -> float:
    """Clone this repository and install its core, as ``make demo`` does; returns the seconds."""
    root = Path(__file__).parents[1]
    started = time.perf_counter()
    for line in (f"git clone -q {shlex.quote(str(root))} .", "make .venv/installed-core"):
        subprocess.run(shlex.split(line), cwd=folder, env=CLONED, check=True, capture_output=True)
    return time.perf_counter() - started


def serve(words: list[str], folder: Path) -> None:
    """Start a server, wait until it says where it is, and stop it."""
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            said = server.stdout.readline() if server.stdout is not None else ""
        finally:
            server.terminate()
        if "serving at" not in said:
            raise SystemExit(f"the server said {said!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--door", action="append", choices=list(DOORS))
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    for name in options.door or DOORS:
        claim = f"from nothing through the door '{name}': {'; '.join(DOORS[name].lines)}"
        command = f"python benchmarks/bench_doors.py --door {shlex.quote(name)}"
        emit("doors", claim, walk(DOORS[name]), command=command, record=options.record)


if __name__ == "__main__":
    main()
