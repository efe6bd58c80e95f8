"""A real small model as worker and designer: a search on Medical Abstracts with weak labels only.

    python examples/papers/real_search.py                       replay the recording (seconds; needs NORACLE_DATA)
    python examples/papers/real_search.py --url http://127.0.0.1:8080/v1 --folder run    record, for hours; again: goes on
    python examples/papers/real_search.py --folder run --write  turn what was recorded into the recording that is replayed
    python examples/papers/real_search.py --calls               how many calls a whole recording takes

Qwen2.5-Coder-1.5B-Instruct (4 bits) answers, and the same model writes the instructions that are
tried: it sees those that were tried with their standing and writes another. Workflows take at most
three calls of at most 64 new tokens. Of each abstract one class, drawn at random, is asked about:
yes or no is all that the search and its final interval know. The recording holds addresses of calls
and replies, never prompts or abstracts; a search that stopped goes on from it on any machine: calls
that it holds are not made again (exit code 3: not finished, the same command goes on).
``tests/llm/local_model.py serve --parallel 1`` serves the model: prompts begin with the abstract, so
that the second workflow on it has a fifth as much to read.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _agents_recorded import Brief, true_classes

from noracle.files import replacing
from noracle.search.archive import Found
from noracle.search.backends import open_model
from noracle.search.caller import Cache, Caller, record
from noracle.search.candidates import Proposal, Told, pick, rank
from noracle.search.engine import search_workflows
from noracle.search.journal import JOURNAL
from noracle.search.model import BudgetReached, Calls, Completion, Message, Model, Request, Usage
from noracle.search.strategies.edits import valid
from noracle.search.task import Task, read_task
from noracle.search.vault import Vault
from noracle.search.workflow import Ask, Workflow, load_workflow, parse_workflow

RECORDING = Path(__file__).with_name("recordings") / "real_search.jsonl"
COST = RECORDING.with_suffix(".json")
"""What the recording took: calls, tokens, hours and cores; beside it, for it holds no times."""
MODEL = "qwen2.5-coder-1.5b-instruct-q4_k_m"
N_CLASSES, MOST_CHARACTERS, MOST_TOKENS, SEED = 5, 700, 64, 3
VALIDATION, CONFIRM, FINAL, GENERATIONS = 64, 16, 200, 6
_LONGEST = 1800.0  # seconds that one call may take
_BREAK = 180.0  # seconds without a reply after which the recording was not going on
_SHORT = {"temperature": 0.5, "max_tokens": MOST_TOKENS}


def _workflow(name: str, *nodes: dict[str, Any], fallback: bool = False) -> Workflow:
    end = {"kind": "answer", "input": nodes[-1]["id"], **({"fallback": True} if fallback else {})}
    return parse_workflow({"schema": "workflow/1", "name": name, "nodes": [*nodes, end]})


BASELINES = (
    load_workflow("direct"),
    _workflow(
        "short-cot",
        {
            "kind": "ask",
            "id": "thought",
            "prompt": {"instruction": "Think in one short sentence, then choose.", **_SHORT},
        },
        fallback=True,
    ),
    _workflow(
        "three-votes",
        {
            "kind": "ask",
            "id": "thought",
            "prompt": {"instruction": "Choose.", **_SHORT, "temperature": 0.8},
            "fields": ["answer"],
            "n": 3,
        },
        {"kind": "vote", "id": "vote", "inputs": ["thought"]},
    ),
)


class Instructions(Told):
    """The designer writes a new instruction for one of the workflows that stand well; the nodes stay
    as they are.
    """

    name = "instructions"
    repeats = 1

    async def ask(
        self, generation: int, rng: np.random.Generator, designer: Calls | None
    ) -> Proposal | None:
        """A parent with another instruction; a problem where the reply cannot be used."""
        if designer is None:
            raise ValueError("designer must be a model; got none.")
        parent = pick(rank(self.standings())[:3], rng)
        lines = [
            f"- standing {s.z:+.1f}: {_instruction(s.scored.entry.workflow)}"
            for s in reversed(rank(self.standings()))
        ]
        said = "\n".join(
            [
                (
                    "A small language model reads a medical abstract and picks one of five kinds of condition. It was given these "
                    "instructions; a standing of 0 is the best, below that is worse:"
                ),
                *lines,
                (
                    "Write one new instruction that could make it right more often: say what to look for in the abstract and how to choose "
                    "between a specific kind of disease and general pathological conditions. At most 40 words, one paragraph, nothing else."
                ),
            ]
        )
        request = Request(
            messages=(Message("user", said),), temperature=0.8, max_tokens=90, seed=generation
        )
        reply = await designer.call(dataclasses.replace(request, replicate=generation))
        text = " ".join(reply.text.replace("```", " ").split()).strip("\"'- ")[:500]
        old = parent.scored.entry.workflow
        nodes = [
            dataclasses.replace(n, prompt=dataclasses.replace(n.prompt, instruction=text))
            if isinstance(n, Ask)
            else n
            for n in old.nodes
        ]
        made = valid(nodes) if text else None
        known = self.digests()
        problem = "" if made else "the designer wrote nothing that can be an instruction"
        if made is not None and made.digest in known:
            problem = f"the instruction is that of entry {known[made.digest]}"
        return Proposal(
            workflow=made or old,
            parents=(parent.number,),
            change=f"says: {text}",
            problem=problem,
        )


def _instruction(workflow: Workflow) -> str:
    return next(n.prompt.instruction for n in workflow.nodes if isinstance(n, Ask))


def abstracts(path: Path) -> Task:
    """The abstracts, cut so that they fit a small machine."""
    n = VALIDATION + CONFIRM + FINAL
    task = read_task(path, preset="medical-abstracts", limit=n)
    cut = (dataclasses.replace(i, text=i.text[:MOST_CHARACTERS]) for i in task.items)
    return dataclasses.replace(task, items=tuple(cut))


def questions(task: Task, key: dict[Any, int]) -> dict[str, list[Any]]:
    """One class of each item, drawn at random, and whether the item is of it."""
    asked = np.random.default_rng(SEED).integers(N_CLASSES, size=len(task.items)).tolist()
    verdicts = ["yes" if key[i.id] == k else "no" for i, k in zip(task.items, asked, strict=True)]
    return {"item": [i.id for i in task.items], "class": asked, "verdict": verdicts}


async def search(calls: Calls, path: Path, folder: Path, progress: Any = None) -> Found:
    """The search; the same folder goes on."""
    task = abstracts(path)
    n = len(task.items)
    shares = (VALIDATION / n, CONFIRM / n, FINAL / n)
    table = questions(task, true_classes(path, task))
    vault = Vault.open(table, task.items, seed=SEED, shares=shares)
    return await search_workflows(
        task,
        vault,
        strategy=Instructions(),
        calls=Brief(calls, MOST_TOKENS),
        designer=calls,
        generations=GENERATIONS,
        seed=SEED,
        folder=folder,
        baselines=BASELINES,
        progress=progress,
    )


def final_truth(folder: Path, path: Path) -> dict[int, float]:
    """The share of final items that the winner and the first baseline got right, by the key."""
    key = true_classes(path, abstracts(path))
    lines = (folder / JOURNAL).read_text(encoding="utf-8").split("\n")
    ends = [event for line in lines if line and (event := json.loads(line))["event"] == "end"]
    found = {}
    for end in ends:
        for number, part in zip(dict.fromkeys((end["winner"], 0)), end["outcomes"], strict=True):
            right = [key[i] == k for i, k in zip(part["item"], part["answer"], strict=True)]
            found[number] = float(np.mean(right))
    return found


def tell(found: Found, path: Path, truth: Mapping[int, float] | None = None) -> str:
    """What was tried and what came out; the key is looked at here only, for what is true."""
    key = true_classes(path, abstracts(path))
    lines = [
        "| entry | workflow | instruction | calls | validation | true, validation items |",
        "|---|---|---|---:|---:|---:|",
    ]
    for e in found.entries:
        right = [key[o.item] == o.answer for o in e.outcomes]
        value = "–" if e.fitness is None else f"{100 * e.fitness.value:.1f}"
        true = f"{100 * np.mean(right):.1f}" if right else "–"
        said = (e.problem or _instruction(e.workflow)).replace("|", "/")
        calls = sum(o.calls for o in e.outcomes)
        lines.append(f"| {e.number} | {e.workflow.name} | {said} | {calls} | {value} | {true} |")
    if found.held_out is None:
        return "\n".join([*lines, "", f"not finished: {found.stopped}"])
    held, shares = found.held_out, truth or {}
    kind = held.guarantee.kind.label
    said = f"{100 * held.value:.1f} % [{100 * held.low:.1f}, {100 * held.high:.1f}] ({kind})"
    lines += ["", f"winner: entry {found.number}; on {FINAL} final items {said}"]
    if found.comparison is not None:
        lines.append(f"less the first baseline: {against(found)}")
    if shares:
        by = (f"entry {number} {100 * share:.1f} %" for number, share in shares.items())
        lines.append(f"right on the final items, by the key: {', '.join(by)}")
    return "\n".join(lines)


def against(found: Found) -> str:
    """The winner less the first baseline, on labels that neither had met."""
    if found.comparison is None:
        return "the first baseline won"
    d = found.comparison.differences[0]
    words = {"first": "better", "second": "worse"}.get(d.verdict, "not separable")
    return f"{100 * d.value:+.1f} points [{100 * d.low:+.1f}, {100 * d.high:+.1f}], {words}"


def bounds() -> tuple[int, int]:
    """The fewest and the most calls of the whole search, the designer's included."""
    least, most = ([getattr(w, f"{name}_calls") for w in BASELINES] for name in ("least", "most"))
    started = VALIDATION * sum(least), VALIDATION * sum(most)
    fewest = started[0] + GENERATIONS * (1 + VALIDATION * min(least)) + FINAL
    # Every later candidate leads, is one of three votes, and challenges another such.
    each = 1 + VALIDATION * max(most) + CONFIRM * 2 * max(most)
    last = FINAL * (most[0] + max(most))
    return fewest, started[1] + CONFIRM * sum(most) + GENERATIONS * each + last


def main(argv: Sequence[str] | None = None) -> int:
    """Replay, record or write the recording."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="a server of the model: record with it")
    parser.add_argument("--folder", type=Path, help="where a recording is made; it goes on there")
    parser.add_argument("--write", action="store_true", help="write the recording that is replayed")
    parser.add_argument("--calls", action="store_true", help="how many calls a recording takes")
    options = parser.parse_args(argv)
    if (options.url or options.write) and not options.folder:
        parser.error("--url and --write need --folder")
    if options.calls:
        fewest, most = bounds()
        print(f"{fewest:,} to {most:,} calls")
        return 0
    if options.write:
        print(f"{RECORDING}: {write(options.folder)} calls")
        return 0
    path = Path(os.environ.get("NORACLE_DATA", "")) / "medical_abstracts.parquet"
    if not path.is_file():
        print("left out: medical_abstracts.parquet is not in NORACLE_DATA")
        return 0
    if options.url:
        options.folder.mkdir(parents=True, exist_ok=True)
        try:
            model = open_model(MODEL, base_url=options.url)
            found = asyncio.run(recorded(model, path, options.folder))
        except BudgetReached as error:  # before the first baseline was done
            print(f"not finished: {error}")
            return 3
        print(tell(found, path, final_truth(options.folder / "search", path)))
        return 0 if found.held_out is not None else 3
    if not RECORDING.is_file():
        print(f"left out: {RECORDING.name} was not recorded yet")
        return 0
    found, truth = replayed(path)
    print(tell(found, path, truth))
    return 0


def replayed(path: Path) -> tuple[Found, dict[int, float]]:
    """The search out of the recording, and what is true of the final items."""
    with tempfile.TemporaryDirectory() as folder:
        calls = Caller(open_model(f"replay:{RECORDING}"))
        found = asyncio.run(search(calls, path, Path(folder)))
        return found, final_truth(Path(folder), path)


async def recorded(model: Model, path: Path, folder: Path) -> Found:
    """Search with the model, for hours; what the folder or the recording holds is not asked again."""
    began = time.monotonic()

    def progress(what: str, done: int, of: int) -> None:
        line = {"after_s": round(time.monotonic() - began), "what": what, "done": done, "of": of}
        with (folder / "progress.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    with Cache.open(folder / "calls.sqlite") as cache:
        resume(cache, folder)
        calls = Caller(model, stores=[cache], concurrency=1, timeout=_LONGEST)
        return await search(calls, path, folder / "search", progress)


def resume(cache: Cache, folder: Path) -> int:
    """Take the calls of the recording into a cache that lacks them, and what they took; how many."""
    held = len(cache)
    lines = RECORDING.read_text(encoding="utf-8").split("\n") if RECORDING.is_file() else []
    for row in (json.loads(line) for line in lines if line):
        usage = Usage(row["input_tokens"], row["output_tokens"])
        said = Completion(text=row["text"], finish=row["finish"], usage=usage, cached=True)
        cache.put(row["digest"], row["model"], said)
    taken = len(cache) - held
    if taken and COST.is_file():
        (folder / COST.name).write_bytes(COST.read_bytes())
    return taken


def write(folder: Path) -> int:
    """Add these calls to the recording, and what they took to what stands beside it; returns how
    many it holds. A search that asks something else begins without the old files.
    """
    with Cache.open(folder / "calls.sqlite") as cache:
        resume(cache, folder)
    earlier = folder / COST.name
    hours = json.loads(earlier.read_text(encoding="utf-8"))["hours"] if earlier.is_file() else 0.0
    with Cache.open(folder / "calls.sqlite") as cache:
        n = record(cache, RECORDING)
        tokens = [r.usage for _, _, r in cache.rows()]
    with contextlib.closing(sqlite3.connect(folder / "calls.sqlite")) as db:
        ends = [at for (at,) in db.execute("select at from calls where paid order by at")]
    gaps = np.diff(ends)
    hours += float(gaps[gaps < _BREAK].sum()) / 3600
    took = {
        "model": MODEL,
        "calls": n,
        "input_tokens": sum(u.input_tokens for u in tokens),
        "output_tokens": sum(u.output_tokens for u in tokens),
        "hours": round(hours, 2),
        "cores": os.cpu_count(),
    }
    with replacing(COST) as part:
        part.write_text(json.dumps(took) + "\n", encoding="utf-8")
    return n


if __name__ == "__main__":
    raise SystemExit(main())
