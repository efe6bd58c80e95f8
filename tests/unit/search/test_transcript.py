"""Every exchange is kept, also of calls that failed, and can be seen; a kill loses none that is
whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest

from noracle.errors import ArgumentError, EvidenceError
from noracle.search.backends.scripted import ScriptedModel
from noracle.search.budget import CallPrices
from noracle.search.caller import Cache, Caller
from noracle.search.journal import JOURNAL
from noracle.search.model import Completion, Message, ModelError, Request, Usage
from noracle.search.strategies import Adas
from noracle.search.transcript import TRANSCRIPT, Exchange, Transcript, _frames, read_exchanges
from noracle.search.view import LARGEST, view_page
from tests.unit.search.searching import World, one_call, search
from tests.unit.search.test_outage import design

SAID = Exchange(
    at=1.0,
    model="m",
    digest="1f",
    about={"item": 7},
    messages=({"role": "user", "text": "Is 7 even? é \ud83d"},),
    settings={},
    reply="No",
)


def request(text: str, replicate: int = 0) -> Request:
    return Request(messages=(Message("user", text),), replicate=replicate)


def called(folder: Path, script: Any, *requests: Request, **options: Any) -> list[Exchange]:
    """Send requests one after the other and read what was kept."""

    async def work(caller: Caller) -> None:
        for each in requests:
            with contextlib.suppress(ModelError):
                await caller.call(each)

    with (
        Cache.open(folder / "run.sqlite") as run,
        Cache.open(folder / "user.sqlite") as user,
        Transcript(folder / TRANSCRIPT) as transcript,
    ):
        options = {"retries": 1, "backoff": 0.001, "stores": (run, user), **options}
        asyncio.run(work(Caller(ScriptedModel(script), transcript=transcript, **options)))
    return list(read_exchanges(folder / TRANSCRIPT))


def test_every_call_is_kept_once_with_tokens_cost_and_tries(tmp_path: Path) -> None:
    replies = iter(
        [
            Completion(text="yes", usage=Usage(3, 1)),
            ModelError("busy", transient=True),
            Completion(text="later", usage=Usage(3, 2)),
            ModelError("no key"),
        ]
    )
    asked = [request("a"), request("a"), request("b"), request("c")]
    prices = CallPrices(1_000_000.0, 0.0)
    found = called(tmp_path, lambda _: next(replies), *asked, prices=prices)
    assert [(e.reply, e.error, e.tries, e.cost) for e in found] == [
        ("yes", "", 1, 3.0),
        ("later", "", 2, 3.0),
        (None, "no key", 1, 0.0),
    ]
    assert [dict(m) for m in found[0].messages] == [{"role": "user", "text": "a"}]
    assert (tmp_path / TRANSCRIPT).stat().st_mode & 0o077 == 0


def test_a_reply_of_another_run_is_kept_as_cached_and_one_of_this_run_is_not_kept_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "one").mkdir()
    called(tmp_path / "one", ["yes"], request("a"))
    (tmp_path / "one" / "run.sqlite").unlink()
    (tmp_path / "one" / TRANSCRIPT).unlink()
    for _ in range(2):
        [only] = called(tmp_path / "one", [], request("a"))
        assert (only.reply, only.cached) == ("yes", True)


def test_half_an_exchange_at_the_end_is_cut_off_and_the_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / TRANSCRIPT
    with Transcript(path) as transcript:
        for _ in range(3):
            transcript.add(SAID)
    whole = path.read_bytes()
    for end in range(len(whole) - 40, len(whole)):
        path.write_bytes(whole[:end])
        assert len(list(read_exchanges(path))) == 2
        with Transcript(path) as transcript:
            transcript.add(dataclasses.replace(SAID, reply="again"))
        assert [e.reply for e in read_exchanges(path)] == ["No", "No", "again"]
    path.write_bytes(b"something else")
    assert list(read_exchanges(path)) == []


def test_a_frame_that_is_no_exchange_is_an_error(tmp_path: Path) -> None:
    import zstandard

    path = tmp_path / TRANSCRIPT
    path.write_bytes(zstandard.ZstdCompressor().compress(b'{"a": 1}'))
    with pytest.raises(EvidenceError, match="must hold one exchange"):
        list(read_exchanges(path))


def searched(folder: Path) -> None:
    """A search with a designer, all exchanges in one transcript."""
    world = World(40)
    with Transcript(folder / TRANSCRIPT) as transcript:
        caller = Caller(ScriptedModel(world.reply), transcript=transcript)
        designer = Caller(ScriptedModel(design, name="designer"), transcript=transcript)
        from noracle.search.engine import search_workflows

        strategy = Adas(task=world.task, generations=2)
        asyncio.run(
            search_workflows(
                world.task,
                world.vault(),
                strategy=strategy,
                calls=caller,
                designer=designer,
                generations=2,
                folder=folder,
                baselines=[one_call("plain")],
            )
        )


def test_the_page_has_every_step_and_exchange_and_no_label_unless_asked(tmp_path: Path) -> None:
    searched(tmp_path)
    found = list(read_exchanges(tmp_path / TRANSCRIPT))
    journal = (tmp_path / "journal.jsonl").read_text(encoding="utf-8")
    paid = sum(json.loads(line).get("cost", {}).get("calls", 0) for line in journal.splitlines())
    designs = sum("designer" in e.about for e in found)
    assert len(found) - designs == paid
    page = view_page(tmp_path)
    assert page.count("<pre") >= 2 * paid + designs  # of a designer: that it is hidden
    assert page.count("--with-labels shows it") == designs > 0
    assert "question 3?" in page
    assert "excluded" not in page
    assert "<script" not in page
    told = view_page(tmp_path, with_labels=True)
    assert told.count("<pre") >= 2 * len(found)
    assert "An expert excluded its answer" in told
    assert "0: plain" in page
    assert "held out" in page


@pytest.mark.thin(2)
@pytest.mark.parametrize("letter", ["<", "x", "𝔵", '"'])
def test_the_page_stays_small_and_escapes_what_models_say(tmp_path: Path, letter: str) -> None:
    searched(tmp_path)
    hostile = "<img src=x onerror=alert(1)>\x00\x1b[2J\u202e" + letter * 20_000
    with Transcript(tmp_path / TRANSCRIPT) as transcript:
        for i in range(1000):
            about = {"workflow": one_call("plain").digest, "item": i}
            transcript.add(dataclasses.replace(SAID, about=about, reply=hostile))
    page = view_page(tmp_path)
    assert "<img" not in page
    assert not {"\x00", "\x1b", "\u202e"} & set(page)
    assert "more characters" in page
    assert LARGEST / 4 < len(page.encode()) <= 2_000_000


def test_a_folder_without_a_run_or_with_another_file_is_refused(tmp_path: Path) -> None:
    strange = ("{}\n", "[]\n", "x\n", '{"settings": {"model": "m"}}\n', "[" * 100_000 + "\n", "7")
    for text in (None, *strange, '{"settings": {"model": "m", "seed": 1}}\n[]\n'):
        if text is not None:
            (tmp_path / JOURNAL).write_text(text, encoding="utf-8")
        with pytest.raises(ArgumentError, match="folder must hold a search or a run"):
            view_page(tmp_path)


def test_a_second_process_that_is_refused_leaves_the_transcript_alone(tmp_path: Path) -> None:
    path = tmp_path / TRANSCRIPT
    with Transcript(path) as first:
        first.add(SAID)
        half = path.read_bytes() + b"\x28\xb5\x2f"  # the first writes a frame just now
        path.write_bytes(half)
        with Transcript(path):
            pass
        assert path.read_bytes() == half
    with Transcript(path) as again:
        again.add(SAID)
    assert [exchange.reply for exchange in read_exchanges(path)] == ["No", "No"]


def test_reading_takes_time_in_proportion(tmp_path: Path) -> None:
    """20,000 exchanges in 0.1 s of copying, not 20,000 copies of the file."""
    path, data = tmp_path / TRANSCRIPT, b""
    with Transcript(path) as transcript:
        transcript.add(dataclasses.replace(SAID, reply=random.Random(1).randbytes(4000).hex()))
    data = path.read_bytes()
    path.write_bytes(data * 20_000)
    assert sum(1 for _ in _frames(path.read_bytes())) == 20_000


def test_a_search_without_a_transcript_has_a_page_all_the_same(tmp_path: Path) -> None:
    search(World(30), tmp_path, strategy=Adas(), generations=0)
    assert "0 (0 without a reply)" in view_page(tmp_path)
