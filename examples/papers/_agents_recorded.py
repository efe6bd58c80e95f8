"""A real small model on Medical Abstracts: three workflows, recorded once and replayed without the
model.

``python -m tests.llm.record`` makes the recording. It holds addresses of calls and replies, never
prompts or abstracts.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from noracle import Estimate, Evidence, estimate_accuracy
from noracle.search.ask import Asked, answers_table, ask_items
from noracle.search.backends import open_model
from noracle.search.caller import Caller
from noracle.search.model import Calls, Completion, Request
from noracle.search.task import Task, read_task
from noracle.search.workflow import load_workflow

RECORDING = Path(__file__).with_name("recordings") / "abstracts.jsonl"
WORKFLOWS = ("direct", "cot", "role")
N_ABSTRACTS, MOST_CHARACTERS, MOST_TOKENS, N_CLASSES = 30, 900, 150, 5


@dataclasses.dataclass(frozen=True)
class Brief:
    """Calls with short replies, so that a small machine records them in minutes."""

    calls: Calls
    most_tokens: int = MOST_TOKENS

    async def call(self, request: Request) -> Completion:
        return await self.calls.call(
            dataclasses.replace(request, max_tokens=min(request.max_tokens, self.most_tokens))
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One workflow: what it cost, what ruled-out labels say of it, and the truth."""

    workflow: str
    calls: int
    tokens: int
    answered: int
    estimate: Estimate
    truth: float


def ruled_out(key: Mapping[Any, int], n_classes: int, seed: int) -> dict[str, list[object]]:
    """One wrong class for every item, each equally likely: all that an estimate may know."""
    rng = np.random.default_rng(seed)
    classes = [(y + 1 + int(rng.integers(n_classes - 1))) % n_classes for y in key.values()]
    return {"item": list(key), "class": list(classes), "verdict": ["no"] * len(key)}


def abstracts(path: Path) -> Task:
    """The first medical abstracts, cut so that they fit a small machine."""
    task = read_task(path, preset="medical-abstracts", limit=N_ABSTRACTS)
    return dataclasses.replace(
        task, items=tuple(dataclasses.replace(i, text=i.text[:MOST_CHARACTERS]) for i in task.items)
    )


def true_classes(path: Path, task: Task) -> dict[Any, int]:
    """The key, which no call sees."""
    labels = duckdb.execute(
        "SELECT condition_label FROM read_parquet(?) LIMIT ?", [str(path), len(task.items)]
    ).fetchall()
    return {item.id: int(label) - 1 for item, (label,) in zip(task.items, labels, strict=True)}


async def ask(calls: Calls, path: Path, workflow: str = "direct") -> Asked:
    """Each abstract, answered by one workflow."""
    return await ask_items(
        abstracts(path), load_workflow(workflow), Brief(calls), seed=0, shuffle=True, concurrency=2
    )


async def row(calls: Caller, path: Path, workflow: str = "direct") -> Row:
    """One workflow over all abstracts, compared with the key at the end."""
    table = answers_table(await ask(calls, path, workflow), workflow)
    key = true_classes(path, abstracts(path))
    right = [
        key[item] == answer for item, answer in zip(table["item"], table["answer"], strict=True)
    ]
    return Row(
        workflow=workflow,
        calls=calls.ledger.calls,
        tokens=calls.ledger.usage.input_tokens + calls.ledger.usage.output_tokens,
        answered=sum(state == "answered" for state in table["state"]),
        estimate=estimate_accuracy(
            Evidence.from_tables(table, ruled_out(key, N_CLASSES, seed=3), n_classes=N_CLASSES)
        ),
        truth=sum(right) / len(right),
    )


def rows(path: Path) -> list[Row]:
    """Every workflow, replayed."""

    async def work() -> list[Row]:
        found = []
        for name in WORKFLOWS:
            async with Caller(open_model(f"replay:{RECORDING}")) as calls:
                found.append(await row(calls, path, name))
        return found

    return asyncio.run(work())
