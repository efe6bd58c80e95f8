"""What a real model said, recorded once and replayed without it (``python -m tests.llm.record``
made the recordings).
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from examples.papers import _agents_recorded as recorded
from noracle.search.archive import Found
from noracle.search.backends import open_model
from noracle.search.caller import Cache, Caller
from tests.llm import items, runs

ABSTRACTS = Path(os.environ.get("NORACLE_DATA", "")) / "medical_abstracts.parquet"


def replay_search(folder: Path) -> tuple[Found, Caller]:
    async def work() -> tuple[Found, Caller]:
        async with Caller(
            open_model(f"replay:{runs.RECORDINGS / 'mutate.jsonl'}"),
            stores=[Cache.open(folder / "calls.sqlite")],
        ) as calls:
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
    assert calls.ledger.usage.output_tokens == sum(
        json.loads(line)["output_tokens"] for line in recorded
    )
    assert (found.counts["validation"], found.counts["confirm"], found.counts["final"]) == (
        12,
        6,
        6,
    )


def test_the_held_out_interval_of_the_recorded_search_holds_the_truth(tmp_path: Path) -> None:
    found, _ = replay_search(tmp_path)
    _, key = items.make(runs.N_ITEMS)
    winner = found.entries[found.number]
    right = [outcome.answer == key[str(outcome.item)] for outcome in winner.outcomes]
    assert found.held_out.low <= sum(right) / len(right) <= found.held_out.high


@pytest.mark.skipif(
    not ABSTRACTS.is_file(), reason="medical_abstracts.parquet is not in NORACLE_DATA"
)
def test_recorded_answers_to_medical_abstracts_are_valid_and_the_truth_lies_in_the_interval() -> (
    None
):
    rows = recorded.rows(ABSTRACTS)
    assert [row.workflow for row in rows] == list(recorded.WORKFLOWS)
    assert sum(row.calls for row in rows) == len(
        recorded.RECORDING.read_text(encoding="utf-8").splitlines()
    )
    check_abstracts(rows[0])


def check_abstracts(row: recorded.Row) -> None:
    """At least 27 of 30 answers are valid, and an interval from ruled-out classes alone holds the
    true accuracy.
    """
    assert row.answered >= 27
    assert row.estimate.low <= row.truth <= row.estimate.high
    assert row.truth > 0.3
