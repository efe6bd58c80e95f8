"""What a real model said, recorded once and replayed without it (``python -m tests.llm.record`` made the recordings)."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import duckdb
import pytest

from noracle import Evidence, estimate_accuracy
from noracle.search.asking import answers_table
from noracle.search.backends import open_model
from noracle.search.cache import Cache
from noracle.search.caller import Caller
from noracle.search.found import Found
from tests.llm import items, runs

ABSTRACTS = Path(os.environ.get("NORACLE_DATA", "")) / "medical_abstracts.parquet"


def replay_search(folder: Path) -> tuple[Found, Caller]:
    async def work() -> tuple[Found, Caller]:
        async with Caller(open_model(f"replay:{runs.RECORDINGS / 'mutate.jsonl'}"), stores=[Cache.open(folder / "calls.sqlite")]) as calls:
            return await runs.search(calls, folder / "search"), calls

    return asyncio.run(work())


def test_a_recorded_search_of_ten_generations_replays(tmp_path: Path) -> None:
    found, calls = replay_search(tmp_path)
    recorded = (runs.RECORDINGS / "mutate.jsonl").read_text(encoding="utf-8").splitlines()
    assert len({entry.generation for entry in found.entries}) >= 1 + 10
    assert all(entry.fitness is not None for entry in found.entries)
    assert calls.ledger.failed == 0
    # Every recorded reply was asked for once: the search takes the same steps.
    assert calls.ledger.calls == len(recorded)
    assert calls.ledger.usage.output_tokens == sum(json.loads(line)["output_tokens"] for line in recorded)
    assert (found.counts["validation"], found.counts["confirm"], found.counts["final"]) == (12, 6, 6)


def test_the_held_out_interval_of_the_recorded_search_holds_the_truth(tmp_path: Path) -> None:
    found, _ = replay_search(tmp_path)
    _, key = items.make(runs.N_ITEMS)
    winner = found.entries[found.number]
    right = [outcome.answer == key[str(outcome.item)] for outcome in winner.outcomes]
    assert found.held_out.low <= sum(right) / len(right) <= found.held_out.high


@pytest.mark.skipif(not ABSTRACTS.is_file(), reason="medical_abstracts.parquet is not in NORACLE_DATA")
def test_recorded_answers_to_medical_abstracts_are_valid_and_the_truth_lies_in_the_interval() -> None:
    async def work() -> object:
        async with Caller(open_model(f"replay:{runs.RECORDINGS / 'abstracts.jsonl'}")) as calls:
            return await runs.ask(calls, ABSTRACTS)

    check_abstracts(asyncio.run(work()))


def check_abstracts(asked: object) -> None:
    """At least 27 of 30 answers are valid, and an interval from ruled-out classes alone holds the true accuracy."""
    table = answers_table(asked, "qwen")  # type: ignore[arg-type]
    assert sum(state == "answered" for state in table["state"]) >= 27
    labels = duckdb.sql(f"SELECT condition_label FROM '{ABSTRACTS}' LIMIT {runs.N_ABSTRACTS}").fetchall()
    key = {item: int(label) - 1 for item, (label,) in zip(table["item"], labels, strict=True)}
    truth = sum(key[item] == answer for item, answer in zip(table["item"], table["answer"], strict=True)) / len(key)
    judgements = runs.ruled_out(key, 5, seed=3)
    estimate = estimate_accuracy(Evidence.from_tables(table, judgements, n_classes=5))
    assert estimate.low <= truth <= estimate.high
    assert truth > 0.3
