"""Claim: 1,000 calls/s and more go through workflows, queue, caps and two caches at concurrency 32,
end to end.

    python benchmarks/bench_search.py [--only scripted,http] [--items 400] [--record]

``scripted``: each of four baselines (``direct``, ``cot-sc``, ``debate``, ``self-refine``) answers
every item through ``run_workflow`` and a ``Caller`` with concurrency 32, caps, prices and retries,
on a scripted model that replies at once: what is measured is what noracle adds. Three passes:
without a cache; with the store of a run and the cache of the user, both empty (every reply is
committed twice before it is given); again with both full (nothing is paid).

``http``: the same calls over a real server on 127.0.0.1 in a process of its own, one call per item:
client and server share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from _common import cpu_seconds, emit

from noracle.search.backends import OpenAIModel, ScriptedModel
from noracle.search.budget import Budget, CallPrices
from noracle.search.caller import Cache, Caller
from noracle.search.interpreter import run_workflow
from noracle.search.model import Model, Request
from noracle.search.task import PosedQuestion, TaskItem, pose
from noracle.search.workflow import load_workflow

ROOT = Path(__file__).parents[1]
CONCURRENCY = 32
BASELINES = ("direct", "cot-sc", "debate", "self-refine")
Figures = dict[str, Any]


def questions(n: int) -> list[PosedQuestion]:
    """Items of the length of Medical Abstracts: about 1,200 characters."""
    text = "A prospective study of patients who were followed for two years after treatment. " * 15
    options = ("neoplasms", "digestive", "nervous system", "cardiovascular", "general")
    return [
        pose(TaskItem(id=i, text=f"{text} ({i})", options=options), shuffle=0) for i in range(n)
    ]


def script(request: Request) -> str:
    return f"reasoning: the text speaks of the heart.\nanswer: {'ABCDE'[request.replicate % 5]}\nANSWER: {'ABCDE'[request.replicate % 5]}"


async def once(
    model: Model, workflows: tuple[str, ...], items: list[PosedQuestion], stores: tuple[Cache, ...]
) -> Figures:
    """One pass over all items with all workflows."""
    budget = Budget(calls=10_000_000, cost=1e9, seconds=1e6)
    caller = Caller(
        model, stores=stores, budget=budget, prices=CallPrices(0.1, 0.4), concurrency=CONCURRENCY
    )
    jobs = [(load_workflow(name), item) for name in workflows for item in items]
    begun, cpu = time.perf_counter(), cpu_seconds()
    async with caller:
        outcomes = await asyncio.gather(
            *(run_workflow(workflow, item, caller) for workflow, item in jobs)
        )
    took, used = time.perf_counter() - begun, cpu_seconds() - cpu
    calls = sum(outcome.calls for outcome in outcomes)
    answered = sum(outcome.state == "answered" for outcome in outcomes)
    ledger = caller.ledger
    return {
        "calls": calls,
        "paid": ledger.calls,
        "cached": ledger.cached,
        "answered": answered / len(outcomes),
        "calls_per_s": round(calls / took),
        "calls_per_cpu_s": round(calls / used),
    }


def scripted(args: argparse.Namespace, folder: Path) -> Figures:
    model, items = ScriptedModel(script), questions(args.items)
    found: Figures = {"no cache": asyncio.run(once(model, BASELINES, items, ()))}
    with Cache.open(folder / "run.sqlite") as run, Cache.open(folder / "user.sqlite") as user:
        found["two caches, empty"] = asyncio.run(once(model, BASELINES, items, (run, user)))
        found["two caches, full"] = asyncio.run(once(model, BASELINES, items, (run, user)))
    met = (
        all(part["calls_per_s"] >= 1000 for part in found.values())
        and found["two caches, full"]["paid"] == 0
    )
    return {"concurrency": CONCURRENCY, **found, "met": met}


def http(args: argparse.Namespace, folder: Path) -> Figures:
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "service" / "openai_server.py")],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        if server.stdout is None:
            raise SystemExit("the server has no output")
        model = OpenAIModel("m", base_url=server.stdout.readline().strip())
        with Cache.open(folder / "http.sqlite") as cache:
            found = asyncio.run(once(model, ("direct",), questions(args.items), (cache,)))
    finally:
        server.kill()
        server.wait()
    return {"concurrency": CONCURRENCY, "server_latency_ms": 10, **found}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="scripted,http")
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    claims = {
        "scripted": "at least 1,000 scripted calls/s end to end at concurrency 32, with caches on",
        "http": "calls/s over HTTP to a server on the same machine (no target)",
    }
    for name in args.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            figures = {"scripted": scripted, "http": http}[name](args, Path(folder))
        command = f"python benchmarks/bench_search.py --only {name} --items {args.items}"
        emit(f"search-{name}", claims[name], figures, command=command, record=args.record)


if __name__ == "__main__":
    main()
