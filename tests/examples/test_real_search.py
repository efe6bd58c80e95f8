"""The search with a real model: short calls only, a designer that sees no item, and a recording
that is replayed to the same end.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
from pathlib import Path

import _reproduce_partitioned
import pytest
import real_search
from _reproduce_model import Size

from noracle.search.archive import Found
from noracle.search.backends.scripted import ScriptedModel
from noracle.search.caller import Caller
from noracle.search.model import ModelError, Request

ROOT = Path(__file__).parents[2]


@pytest.fixture
def small(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A search of few items, with a recording of its own."""
    path = data_folder / "medical_abstracts.parquet"
    if not path.is_file():
        pytest.skip("NORACLE_DATA has no medical_abstracts.parquet")
    sizes = {"VALIDATION": 12, "CONFIRM": 4, "FINAL": 12, "GENERATIONS": 3}
    files = {"RECORDING": tmp_path / "calls.jsonl", "COST": tmp_path / "calls.json"}
    for name, value in {**sizes, **files}.items():
        monkeypatch.setattr(real_search, name, value)
    return path


class Small:
    """A model that follows from the request, and has no reply after ``most`` calls."""

    def __init__(self, most: int | None = None) -> None:
        self.asked: list[Request] = []
        self.most = most

    def __call__(self, request: Request) -> str | ModelError:
        if self.most is not None and len(self.asked) >= self.most:
            return ModelError("the machine was switched off")
        self.asked.append(request)
        text = request.messages[-1].text
        place = hashlib.sha256(text.encode()).digest()[0]
        if "Write one new instruction" in text:
            return f'"Look for the organ, version {place}."'
        return f"ANSWER: {'ABCDE'[place % 5]}"

    def search(self, path: Path, folder: Path) -> Found:
        """Record in a folder, and write what there is as the recording."""
        folder.mkdir(exist_ok=True)
        model = ScriptedModel(self, name=real_search.MODEL)
        try:
            return asyncio.run(real_search.recorded(model, path, folder))
        finally:
            assert real_search.write(folder) >= len(self.asked)


@pytest.mark.full
def test_a_recorded_search_is_short_blind_and_replayed_to_the_same_end(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, items = Small(), real_search.abstracts(small).items
    found = model.search(small, tmp_path / "one")
    designs = [r for r in model.asked if "Write one new instruction" in r.messages[-1].text]
    assert len(designs) == 3
    assert all(i.text[:40] not in r.messages[-1].text for r in designs for i in items)
    assert all(r.max_tokens <= 64 for r in model.asked if r not in designs)
    again, truth = real_search.replayed(small)
    assert real_search.tell(again, small) == real_search.tell(found, small)
    said = real_search.tell(again, small, truth)
    assert "12 final items" in said
    assert "less the first baseline" in said
    assert f"entry 0 {100 * truth[0]:.1f} %" in said
    monkeypatch.setenv("NORACLE_DATA", str(small.parent))
    made = _reproduce_partitioned.real_model(Size(), tmp_path)
    assert made.status == "reproduced in shape"
    assert real_search.against(found) in made.difference
    assert f"{len(model.asked)} calls" in made.body[0]
    assert said in made.body
    fewest, most = real_search.bounds()
    assert fewest <= len(model.asked) <= most
    assert json.loads(real_search.COST.read_text())["calls"] == len(model.asked)


@pytest.mark.full
def test_a_search_that_stopped_goes_on_from_its_recording_on_another_machine(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Small()
    found = whole.search(small, tmp_path / "whole")
    recording = real_search.RECORDING.read_bytes()
    real_search.RECORDING.unlink()
    real_search.COST.unlink()
    first = Small(most=50)
    stopped = first.search(small, tmp_path / "here")
    assert stopped.held_out is None
    assert "not finished: paused: the machine" in real_search.tell(stopped, small)
    assert 0 < (tmp_path / "calls.jsonl").read_text().count("\n") < len(whole.asked)
    assert real_search.replayed(small)[0].held_out is None  # a part is no result
    monkeypatch.setenv("NORACLE_DATA", str(small.parent))
    assert _reproduce_partitioned.real_model(Size(), tmp_path).status == "input missing"
    took = json.loads(real_search.COST.read_text())
    real_search.COST.write_text(json.dumps({**took, "hours": 2.5}))
    second = Small()
    again = second.search(small, tmp_path / "there")
    assert real_search.tell(again, small) == real_search.tell(found, small)
    assert len(first.asked) + len(second.asked) == len(whole.asked)  # nothing was asked twice
    assert real_search.RECORDING.read_bytes() == recording
    assert json.loads(real_search.COST.read_text())["hours"] == pytest.approx(2.5, abs=0.1)
    assert real_search.write(tmp_path / "there") == len(whole.asked)  # again: the same, once
    assert json.loads(real_search.COST.read_text())["hours"] == pytest.approx(2.5, abs=0.1)
    assert real_search.write(tmp_path / "here") == len(whole.asked)  # a part does not replace it
    assert json.loads(real_search.COST.read_text())["hours"] == pytest.approx(2.5, abs=0.1)


def test_the_real_search_has_the_size_that_its_claim_needs() -> None:
    assert len(real_search.BASELINES) >= 3
    assert all(w.most_calls <= 3 for w in real_search.BASELINES)
    assert real_search.GENERATIONS >= 5
    assert real_search.VALIDATION >= 60
    assert real_search.FINAL >= 200


@pytest.mark.full
def test_the_recording_is_whole_and_the_chapter_says_what_it_says(data_folder: Path) -> None:
    path = data_folder / "medical_abstracts.parquet"
    if not (path.is_file() and real_search.RECORDING.is_file()):
        pytest.skip("no recording, or no medical_abstracts.parquet in NORACLE_DATA")
    lines = real_search.RECORDING.read_text(encoding="utf-8").split("\n")
    took = json.loads(real_search.COST.read_text(encoding="utf-8"))
    assert took["calls"] == sum(map(bool, lines))
    assert took["hours"] > 0
    found, truth = real_search.replayed(path)
    chapter = (ROOT / "docs/reproduce/partitioned.md").read_text(encoding="utf-8")
    assert real_search.tell(found, path, truth) in chapter
    if found.held_out is None:  # a part: it goes on from there
        assert found.stopped.startswith("paused: This call")
        return
    fewest, most = real_search.bounds()
    assert fewest <= took["calls"] <= most
    assert len(found.entries) == len(real_search.BASELINES) + real_search.GENERATIONS
    assert f"{took['calls']:,} calls" in chapter


def test_a_recording_without_a_server_says_that_it_is_not_finished(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NORACLE_DATA", str(small.parent))
    monkeypatch.setattr(real_search, "Caller", functools.partial(Caller, retries=0))
    given = ["--url", "http://127.0.0.1:9/v1", "--folder", str(tmp_path / "new")]
    assert real_search.main(given) == 3
    assert "not finished" in capsys.readouterr().out
