"""Runs searches in child processes and kills them; ``python -m tests.unit.search.killing FOLDER
STRATEGY N``.

This process imports everything and opens nothing, so that its children start at once by fork. Each
child writes the address of every call that the model answers to a file before the reply is given.
In each of so many folders a search is killed with SIGKILL three times, in turn after a random
number of calls and after a random time, then run to its end. Prints one JSON line a folder.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from noracle.search.model import Request
from noracle.search.strategies import make_strategy
from noracle.search.task import draws
from noracle.search.workflow import load_workflow
from tests.unit.search.searching import World, one_call, search


def run(folder: Path, log: Path, strategy: str) -> None:
    """One search to its end, or until somebody kills it."""
    world = World(40)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def reply(request: Request) -> str:
        time.sleep(0.0005)
        os.write(out, request.digest("scripted").encode() + b"\n")
        return (
            _designed(request)
            if request.messages[0].role == "system"
            and "design workflows" in request.messages[0].text
            else world.reply(request)
        )

    made = make_strategy(strategy, task=world.task, rounds=5)  # type: ignore[arg-type]
    options: dict[str, Any] = {"designer": "same"} if strategy in ("adas", "aflow") else {}
    search(
        world,
        folder,
        strategy=made,
        reply=reply,
        generations=5,
        budget=900,
        baselines=[one_call("plain"), load_workflow("step-back")],
        **options,
    )


def _designed(request: Request) -> str:
    """What a designer says: a workflow of its own for every request, now and then a broken one."""
    rng = draws("designer", request.digest("d"))
    if rng.random() < 0.3:
        return "I would rather not."
    word = f"w{int(rng.integers(10**6))}"
    nodes = [
        {"kind": "ask", "id": "a", "prompt": {"instruction": f"Think step {word}."}},
        {"kind": "answer", "input": "a"},
    ]
    whole = {"schema": "workflow/1", "name": word, "nodes": nodes}
    return json.dumps({"thought": "so", "change": f"new words {word}", "workflow": whole})


def forked(
    work: Callable[[], None], *, log: Path, calls: float = math.inf, seconds: float = math.inf
) -> bool:
    """Run in a child; kill it after so many calls or seconds. Whether it came to its end by itself."""
    before, start = lines(log), time.monotonic()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if os.waitstatus_to_exitcode(status) != 0:
                raise SystemExit("a search failed by itself")
            return True
        if lines(log) - before >= calls or time.monotonic() - start >= seconds:
            time.sleep(random.Random(before).random() * 0.004)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.0005)


def lines(log: Path) -> int:
    return log.stat().st_size // 65 if log.exists() else 0


def stored(folder: Path) -> set[str]:
    """The addresses of all calls in the store of the run."""
    if not (folder / "calls.sqlite").exists():
        return set()
    connection = sqlite3.connect(folder / "calls.sqlite")
    try:
        return {row[0] for row in connection.execute("SELECT digest FROM calls")}
    except sqlite3.OperationalError:  # killed before the table was made
        return set()
    finally:
        connection.close()


def main(where: Path, strategy: str, n: int) -> None:
    whole_log, start = where / "whole.log", time.monotonic()
    forked(lambda: run(where / "whole", whole_log, strategy), log=whole_log)
    total, took = lines(whole_log), time.monotonic() - start
    draw = random.Random(n)
    for i in range(n):
        folder, log = where / f"folder-{i}", where / f"folder-{i}.log"
        repeated: list[str] = []
        kills = 0
        for turn in range(4):
            kept, asked = stored(folder), lines(log)
            left = max(1, total - len(kept) - 1)
            when: dict[str, float] = {}
            if turn < 3:
                when = (
                    {"calls": draw.randint(1, left)}
                    if (turn + i) % 2
                    else {"seconds": draw.random() * took}
                )
            kills += not forked(lambda f=folder, g=log: run(f, g, strategy), log=log, **when)  # type: ignore[misc]
            new = log.read_text(encoding="ascii").splitlines()[asked:] if log.exists() else []
            repeated += [digest for digest in new if digest in kept]
        same = [
            (folder / name).read_bytes() == (where / "whole" / name).read_bytes()
            for name in ("archive.json", "journal.jsonl")
        ]
        calls = stored(folder) == stored(where / "whole")
        said = {
            "kills": kills,
            "repeated": len(repeated),
            "archive": same[0],
            "journal": same[1],
            "calls": calls,
            "total": total,
        }
        sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    random.seed(int(os.environ.get("KILL_SEED", "8")))
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
