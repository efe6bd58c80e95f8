"""The search with a real model: short calls only, a designer that sees no item, and a recording
that is replayed to the same end.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest
import real_search

from noracle.search.backends import open_model
from noracle.search.backends.scripted import ScriptedModel
from noracle.search.caller import Cache, Caller, record
from noracle.search.model import Request


@pytest.mark.full
def test_a_recorded_search_is_short_blind_and_replayed_to_the_same_end(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = data_folder / "medical_abstracts.parquet"
    if not path.is_file():
        pytest.skip("NORACLE_DATA has no medical_abstracts.parquet")
    for name, value in {"VALIDATION": 12, "CONFIRM": 4, "FINAL": 12, "GENERATIONS": 3}.items():
        monkeypatch.setattr(real_search, name, value)
    items = real_search.abstracts(path).items
    asked: list[Request] = []

    def reply(request: Request) -> str:
        asked.append(request)
        text = request.messages[-1].text
        if "Write one new instruction" in text:
            return f'"Look for the organ, version {len(asked)}."'
        place = hashlib.sha256(text.encode()).digest()[0] % 5
        return f"ANSWER: {'ABCDE'[place]}"

    async def recorded() -> object:
        with Cache.open(tmp_path / "calls.sqlite") as cache:
            model = ScriptedModel(reply, name=real_search.MODEL)
            found = await real_search.search(
                Caller(model, stores=[cache], concurrency=1), path, tmp_path / "one"
            )
            assert record(cache, tmp_path / "calls.jsonl") == len(cache)
            return found

    found = asyncio.run(recorded())
    designs = [r for r in asked if "Write one new instruction" in r.messages[-1].text]
    assert len(designs) == 3
    assert all(i.text[:40] not in r.messages[-1].text for r in designs for i in items)
    assert all(r.max_tokens <= 64 for r in asked if r not in designs)
    replay = Caller(open_model(f"replay:{tmp_path / 'calls.jsonl'}"))
    again = asyncio.run(real_search.search(replay, path, tmp_path / "two"))
    assert real_search.tell(again, path) == real_search.tell(found, path)  # type: ignore[arg-type]
    assert "final items" in real_search.tell(again, path)
    assert all(w.most_calls <= 3 for w in real_search.BASELINES)
