"""A designer that repeats everything that it is told: nothing of an item or a label is in any file
but the two that hold exchanges as they were, which others cannot read.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from noracle.search.backends.scripted import ScriptedModel
from noracle.search.caller import Cache, Caller
from noracle.search.engine import search_workflows
from noracle.search.model import Request
from noracle.search.report import search_page
from noracle.search.strategies import Adas, Aflow
from noracle.search.task import Task, TaskItem
from noracle.search.transcript import TRANSCRIPT, Transcript
from noracle.search.vault import Quotes, Vault
from noracle.search.view import view_page
from tests.unit.search.searching import one_call

K = 4
ITEMS = tuple(
    TaskItem(
        id=f"case-{i:03}",
        text=f"CANARY{i:03} came in with pain in side number {i} since last week",
        options=tuple(f"canary option {i}.{k} of the ward" for k in range(K)),
    )
    for i in range(60)
)


def repeat(request: Request) -> str:
    """All that was told, in every field that takes text."""
    told = "\n".join(message.text for message in request.messages)
    n = len(told) % 97
    quotes = [line for line in told.splitlines() if "CANARY" in line or "excluded" in line]
    said = " ".join(quotes)[:1500] or "nothing yet"
    workflow = one_call("design", f"Think {n} steps. {said}").to_dict()
    workflow["description"] = said[:300]
    return json.dumps({"change": said, "thought": said, "workflow": workflow})


@pytest.mark.parametrize("strategy", ["adas", "aflow"])
def test_nothing_of_an_item_is_in_any_file_but_the_two_of_exchanges(
    tmp_path: Path, strategy: str
) -> None:
    task = Task(name="ward", items=ITEMS)
    ids = [item.id for item in ITEMS]
    judgements = {"item": ids, "class": [i % K for i in range(60)], "verdict": ["no"] * 60}
    vault = Vault.open(judgements, ITEMS, seed=1)
    made = Adas(task=task, generations=4) if strategy == "adas" else Aflow(task=task, rounds=4)
    told: list[str] = []

    def designer(request: Request) -> str:
        told.append("\n".join(message.text for message in request.messages))
        return repeat(request)

    with (
        Cache.open(tmp_path / "calls.sqlite") as cache,
        Transcript(tmp_path / TRANSCRIPT) as transcript,
    ):
        designs = ScriptedModel(designer, name="designer")
        found = asyncio.run(
            search_workflows(
                task,
                vault,
                strategy=made,
                calls=Caller(ScriptedModel(lambda _: "ANSWER: A"), stores=[cache]),
                designer=Caller(designs, stores=[cache], transcript=transcript),
                generations=4,
                folder=tmp_path,
                baselines=[one_call("plain")],
            )
        )
    assert any("CANARY" in text and "excluded option" in text for text in told)
    exchanges = {"calls.sqlite", TRANSCRIPT}
    kept = {p.name: p.read_text("utf-8") for p in tmp_path.iterdir() if p.name not in exchanges}
    assert {"journal.jsonl", "archive.json"} <= kept.keys()
    assert all((tmp_path / name).stat().st_mode & 0o077 == 0 for name in exchanges)
    kept["page"] = search_page(found)
    kept["winner"] = json.dumps(found.winner.to_dict())
    assert any("[item]" in text for text in kept.values())
    for name, text in kept.items():
        assert not re.search(
            r"canary\d|canary option|came in with|case-\d+.{1,3}an expert", text, re.IGNORECASE
        ), name
    assert not re.search("an expert excluded|canary", view_page(tmp_path), re.IGNORECASE)
    assert "An expert excluded" in view_page(tmp_path, with_labels=True)


def test_what_many_items_share_and_plain_words_stay() -> None:
    items = [
        TaskItem(id=i, text=f"Is claim {i} about enzymes true?", options=("yes", "no", "not sure"))
        for i in range(50)
    ]
    quotes = Quotes(items)
    for text in (
        "Say yes, no or not sure.",
        "Think about enzymes first.",
        "Write item names.",
        "Answer in 3 steps.",
        "",
    ):
        assert quotes.strike(text) == text
    assert quotes.strike("As in item 7: is claim 7 about enzymes true?") == "As in [item]?"
    assert quotes.strike("IS CLAIM 7 ABOUT — enzymes") == "[item]"


def test_texts_without_spaces_are_struck_in_part_and_as_a_whole() -> None:
    texts = [f"患者は{word}の痛みを訴えて来院した第{i}例" for i, word in enumerate("頭胸腹背足")]
    items = [TaskItem(id=i, text=t, options=("はい", "いいえ")) for i, t in enumerate(texts)]
    quotes = Quotes(
        [
            *items,
            *(TaskItem(id=9, text=f"他の文{i}", options=("はい", "いいえ")) for i in range(95)),
        ]
    )
    said = quotes.strike("例：胸の痛みを訴えた人。Think first. はい")
    assert said == "例：[item]た人。Think first. はい"
    assert quotes.strike(texts[2]) == "[item]"


@pytest.mark.parametrize("text", ["x" * 200_000, "case-001 " * 20_000, "\ud83d\x00 [item] " * 999])
def test_hostile_texts_are_struck_in_time(text: str) -> None:
    assert isinstance(Quotes(ITEMS).strike(text), str)
