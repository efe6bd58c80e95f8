"""Record the runs of :mod:`tests.llm.runs` with a real model, for replay without one.

    python -m tests.llm.record [--threads 2] [--url URL]      (from the root of the repository; NORACLE_DATA for the abstracts)

A recording holds addresses of calls and replies, never prompts. It is made again when a prompt of a
workflow changes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from examples.papers import _agents_recorded as recorded
from noracle.search.backends import open_model
from noracle.search.caller import Cache, Caller, record
from tests.llm import runs
from tests.llm.local_model import NAME


async def work(url: str, folder: Path) -> None:
    """All runs; what was done before a stop is not asked again."""
    model = open_model(NAME, base_url=url)
    for folder_of_recordings in (runs.RECORDINGS, recorded.RECORDING.parent):
        folder_of_recordings.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    data = Path(os.environ.get("NORACLE_DATA", "")) / "medical_abstracts.parquet"
    if data.is_file():
        store = Cache.open(folder / "abstracts.sqlite")
        calls = Caller(model, stores=[store], concurrency=2)
        for workflow in recorded.WORKFLOWS:
            asked = await recorded.ask(calls, data, workflow)
            print(  # noqa: T201 (a script)
                f"{workflow} {asked.states} {record(store, recorded.RECORDING)} calls, {time.monotonic() - began:.0f} s",
                flush=True,
            )
        store.close()
    began = time.monotonic()
    store = Cache.open(folder / "search.sqlite")
    found = await runs.search(Caller(model, stores=[store], concurrency=2), folder / "search")
    print(  # noqa: T201 (a script)
        f"search {record(store, runs.RECORDINGS / 'mutate.jsonl')} calls, {time.monotonic() - began:.0f} s\n{found}"
    )
    store.close()
    await model.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--url", help="a server that runs already")
    parser.add_argument(
        "--folder", type=Path, default=Path(".recording"), help="what is done so far"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.url:
        asyncio.run(work(options.url, options.folder))
        return
    script = [
        sys.executable,
        str(Path(__file__).with_name("local_model.py")),
        "serve",
        "--threads",
        str(options.threads),
    ]
    with subprocess.Popen(
        script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            asyncio.run(work(server.stdout.readline().strip(), options.folder))  # type: ignore[union-attr]
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
