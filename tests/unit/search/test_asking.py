"""A model answers items: every item once, whatever comes back, in any order of completion, and on
from where it stopped.
"""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path
from typing import Any

import pytest

from noracle.accuracy.estimate import estimate_accuracy
from noracle.counts import count_accuracy
from noracle.errors import ArgumentError
from noracle.evidence import Evidence
from noracle.search.archive import SearchArchive
from noracle.search.ask import (
    RunFolder,
    answers_table,
    ask_items,
    expected_usage,
    fingerprint,
    task_questions,
)
from noracle.search.backends import ScriptedModel
from noracle.search.budget import Budget
from noracle.search.caller import Cache, Caller
from noracle.search.journal import JOURNAL
from noracle.search.model import Calls, Completion, ModelError, Request, Usage
from noracle.search.task import Task, TaskItem
from noracle.search.workflow import load_workflow

DIRECT = load_workflow("direct")
CANARY = "CANARY-text-of-an-item"


def make_task(n: int = 12, k: int = 4) -> Task:
    return Task(
        name="t",
        items=tuple(
            TaskItem(
                id=i, text=f"{CANARY} {i}.", options=tuple(f"option {i}.{c}" for c in range(k))
            )
            for i in range(n)
        ),
    )


def says(choose: Any) -> Any:
    """A script that names the text of class ``choose(item)``."""

    def script(request: Request) -> str | Completion | ModelError:
        item = int(re.search(rf"{CANARY} (\d+)\.", request.messages[-1].text)[1])  # type: ignore[index]
        chosen = choose(item)
        return f"ANSWER: option {item}.{chosen}" if isinstance(chosen, int) else chosen

    return script


class Counting:
    """Calls through a script; remembers every request, and replies in any order."""

    def __init__(self, script: Any, *, delays: bool = False) -> None:
        self.model, self.requests, self.delays = (
            ScriptedModel(script),
            list[Request](),
            random.Random(0) if delays else None,
        )

    async def call(self, request: Request) -> Completion:
        self.requests.append(request)
        if self.delays is not None:
            await asyncio.sleep(self.delays.random() / 200)
        return await self.model.complete(request)


def ask(task: Task, calls: Calls, **options: Any) -> Any:
    return asyncio.run(ask_items(task, options.pop("workflow", DIRECT), calls, **options))


SETTINGS = {"model": "m", "seed": 0}


def test_answers_are_classes_whatever_the_order_of_the_options() -> None:
    asked = ask(make_task(40), Counting(says(lambda i: i % 4)))
    assert [line.outcome.answer for line in asked.lines] == [i % 4 for i in range(40)]
    assert len({line.order for line in asked.lines}) > 10
    assert {
        line.order for line in ask(make_task(5), Counting(says(lambda i: 0)), shuffle=False).lines
    } == {(0, 1, 2, 3)}


def test_every_state_is_counted_and_none_raises() -> None:
    replies = [
        2,
        "ANSWER: A or B",
        "I cannot answer this.",
        ModelError("too long", refused=True),
        Completion(text="", finish="empty"),
        Completion(text="", finish="refused"),
    ]
    asked = ask(make_task(6), Counting(says(lambda i: replies[i])))
    assert [line.outcome.state for line in asked.lines] == [
        "answered",
        "invalid",
        "refused",
        "errored",
        "invalid",
        "refused",
    ]
    assert asked.states == {"answered": 1, "invalid": 2, "refused": 2, "errored": 1}
    table = answers_table(asked, "m")
    assert table["answer"] == [2, None, None, None, None, None]
    assert len(table["order"][0].split()) == 4


def test_the_order_of_completion_changes_nothing() -> None:
    tables = []
    for concurrency in (1, 3, 50):
        asked = ask(
            make_task(30),
            Counting(says(lambda i: i % 3), delays=True),
            concurrency=concurrency,
            workflow=load_workflow("cot-sc"),
        )
        tables.append(answers_table(asked, "m"))
    assert tables[0] == tables[1] == tables[2]


def test_the_answers_table_is_evidence() -> None:
    task = make_task(200)
    asked = ask(task, Counting(says(lambda i: 0 if i % 10 else "?")))
    answers = {
        name: values
        for name, values in answers_table(asked, "m").items()
        if name in ("item", "system", "answer")
    }
    judgements = {"item": list(range(200)), "class": [0] * 200, "verdict": ["yes"] * 200}
    estimate = estimate_accuracy(
        count_accuracy(Evidence.from_tables(answers, judgements, n_classes=4)).of("m")
    )
    assert estimate.value == pytest.approx(0.9)  # an item without an answer is wrong


def test_a_cap_stops_the_run_and_what_is_done_stays() -> None:
    calls = Caller(ScriptedModel(says(lambda i: 0)), budget=Budget(calls=7), concurrency=2)
    asked = ask(make_task(20), calls, concurrency=2)
    assert len(asked.lines) == 7
    assert asked.total == 20
    assert "cap on calls (7)" in asked.stopped


def test_a_run_folder_goes_on_and_asks_nothing_twice(tmp_path: Path) -> None:
    task, calls = make_task(20), Counting(says(lambda i: i % 4))
    with RunFolder(tmp_path / "run", SETTINGS) as run:
        first = ask(Task(name="t", items=task.items[:8]), calls, run=run)
    with RunFolder(tmp_path / "run", SETTINGS) as run:
        whole = ask(task, calls, run=run)
    assert len(calls.requests) == 20
    assert whole.lines[:8] == first.lines
    assert answers_table(whole, "m") == answers_table(
        ask(task, Counting(says(lambda i: i % 4))), "m"
    )


def test_an_item_whose_call_failed_is_asked_again(tmp_path: Path) -> None:
    down = True
    lost = ModelError("down", transient=True)
    calls = Counting(says(lambda i: lost if down and i == 3 else 1))
    with RunFolder(tmp_path / "run", SETTINGS) as run:
        asked = ask(make_task(5), calls, run=run)
    assert asked.states == {"answered": 4, "invalid": 0, "refused": 0, "errored": 0}
    assert asked.stopped.startswith("1 of 5 questions got no reply, the last because: down")
    assert (tmp_path / "run" / JOURNAL).read_text(encoding="utf-8").count("\n") == 5
    down = False
    with RunFolder(tmp_path / "run", SETTINGS) as run:
        assert ask(make_task(5), calls, run=run).states == {
            "answered": 5,
            "invalid": 0,
            "refused": 0,
            "errored": 0,
        }
    assert len(calls.requests) == 6


def test_an_item_whose_text_changed_is_asked_again(tmp_path: Path) -> None:
    calls = Counting(says(lambda i: 1))
    with RunFolder(tmp_path / "run", SETTINGS) as run:
        ask(make_task(3), calls, run=run)
    changed = Task(
        name="t",
        items=(
            *make_task(2).items,
            TaskItem(id=2, text=f"{CANARY} 2. Now another.", options=("option 2.1", "b")),
        ),
    )
    with RunFolder(tmp_path / "run", SETTINGS) as run:
        asked = ask(changed, calls, run=run)
    assert len(calls.requests) == 4
    assert asked.lines[2].outcome.answer == 0


def test_paid_calls_of_a_workflow_that_was_stopped_half_way_are_not_paid_again(
    tmp_path: Path,
) -> None:
    task, workflow = make_task(4), load_workflow("cot-sc")
    paid: list[str] = []

    def script(request: Request) -> str:
        paid.append(request.digest("m"))
        return "ANSWER: A"

    for cap in (7, 11, None):  # five calls per item: both caps stop in the middle of one
        with RunFolder(tmp_path / "run", SETTINGS) as run, Cache.open(run.calls) as store:
            caller = Caller(
                ScriptedModel(script, name="m"),
                stores=[store],
                budget=Budget(calls=cap),
                concurrency=1,
            )
            caller.count_past(store)
            asked = ask(task, caller, workflow=workflow, run=run, concurrency=1)
    assert len(asked.lines) == 4
    assert len(paid) == len(set(paid)) == 20
    assert caller.ledger.calls == 20


def test_the_run_folder_holds_no_text(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", SETTINGS) as run, Cache.open(run.calls) as store:
        ask(make_task(4), Caller(ScriptedModel(says(lambda i: 0)), stores=[store]), run=run)
    for file in (tmp_path / "run").iterdir():
        assert CANARY.encode() not in file.read_bytes(), file.name


def test_a_line_that_a_crash_cut_is_dropped_and_another_broken_line_is_an_error(
    tmp_path: Path,
) -> None:
    with RunFolder(tmp_path / "run", SETTINGS) as run:
        ask(make_task(3), Counting(says(lambda i: 1)), run=run)
    file = tmp_path / "run" / JOURNAL
    whole = file.read_bytes()
    for cut in range(1, len(whole.splitlines()[-1]) + 1):
        file.write_bytes(whole[:-cut])
        with RunFolder(tmp_path / "run", SETTINGS) as run:
            assert len(run.lines) == 2
        assert file.read_bytes() == b"".join(whole.splitlines(keepends=True)[:3])
    for broken in (
        b"[]\n",
        b"{}\n",
        b"nonsense\n",
        b'{"event": "outcome", "item": 1, "state": "odd"}\n',
        b'{"event": "begin"}\n',
        b"[" * 100_000 + b"\n",
        b"\xff\xff\n",
    ):
        file.write_bytes(whole + broken)
        with (
            pytest.raises(
                ArgumentError, match="the journal of a run; got something else in line 5"
            ),
            RunFolder(tmp_path / "run", SETTINGS),
        ):
            pass


def test_another_run_is_refused_and_says_what_differs(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", SETTINGS):
        pass
    with (
        pytest.raises(
            ArgumentError, match=r"same settings to go on; got another seed \('0' there, '1' here\)"
        ),
        RunFolder(tmp_path / "run", {**SETTINGS, "seed": 1}),
    ):
        pass
    SearchArchive(tmp_path / "search", {"seed": 0}).close()
    with (
        pytest.raises(ArgumentError, match="must hold a run to go on; got something else"),
        RunFolder(tmp_path / "search", SETTINGS),
    ):
        pass
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with (
        pytest.raises(ArgumentError, match="must be the folder of a run"),
        RunFolder(tmp_path / "file", SETTINGS),
    ):
        pass


def test_two_processes_do_not_share_a_run_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="locks of this kind are not there")
    with (
        RunFolder(tmp_path / "run", SETTINGS),
        pytest.raises(ArgumentError, match="another run is running"),
    ):
        RunFolder(tmp_path / "run", SETTINGS)
    with RunFolder(tmp_path / "run", SETTINGS):
        pass


def test_an_error_that_is_no_matter_of_the_model_comes_out_as_itself(tmp_path: Path) -> None:
    def broken(request: Request) -> str:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        ask(make_task(5), Counting(broken))


def test_arguments_are_checked() -> None:
    with pytest.raises(ArgumentError, match="concurrency must be at least 1"):
        ask(make_task(1), Counting(says(lambda i: 0)), concurrency=0)


def test_what_a_call_takes_is_guessed_from_the_questions() -> None:
    questions = task_questions(make_task(5), seed=0, shuffle=True)
    usage = expected_usage(questions, load_workflow("cot"))
    assert 50 < usage.input_tokens < 300
    assert usage.output_tokens == 1024
    assert expected_usage([], DIRECT) == Usage()


def test_fingerprints_tell_pieces_apart_and_take_any_text() -> None:
    assert fingerprint("a", "bc") != fingerprint("ab", "c")
    assert len(fingerprint("\ud800", 1)) == 16
