"""A real language model on this machine; asked for with ``make test-llm``."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.papers import _agents_recorded as recorded
from noracle.search.backends import open_model
from noracle.search.caller import Caller
from tests.llm.local_model import NAME
from tests.llm.test_recordings import ABSTRACTS, check_abstracts

pytestmark = pytest.mark.llm


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    pytest.importorskip("xllamacpp", reason="make test-llm installs it")
    script = [
        sys.executable,
        str(Path(__file__).with_name("local_model.py")),
        "serve",
        "--threads",
        "2",
    ]
    with subprocess.Popen(
        script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.mark.skipif(
    not ABSTRACTS.is_file(), reason="medical_abstracts.parquet is not in NORACLE_DATA"
)
def test_thirty_abstracts_have_valid_answers_and_the_truth_lies_in_the_interval(url: str) -> None:
    async def work() -> recorded.Row:
        async with Caller(open_model(NAME, base_url=url), concurrency=2) as calls:
            return await recorded.row(calls, ABSTRACTS)

    check_abstracts(asyncio.run(work()))


def test_a_short_question_is_answered(url: str) -> None:
    from noracle.search.interpreter import run_workflow
    from noracle.search.task import TaskItem, pose
    from noracle.search.workflow import load_workflow

    async def work() -> object:
        question = pose(
            TaskItem(
                id=1,
                text="What is the capital of France?",
                options=("Rome", "Paris", "Oslo", "Berne"),
            )
        )
        async with Caller(open_model(NAME, base_url=url)) as calls:
            return await run_workflow(load_workflow("direct"), question, calls)

    outcome = asyncio.run(work())
    assert (outcome.state, outcome.answer, outcome.calls) == ("answered", 1, 1)  # type: ignore[attr-defined]
