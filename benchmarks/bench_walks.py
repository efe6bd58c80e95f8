"""Claim: one estimate passes at most 18 modules of noracle, one alarm 18, one report 75, and one
answer posted to the collection service 13.

A module is passed if a function of it is called between the command line (or the request) and what
is written. What runs while a module is imported does not count: each walk runs in a fresh process
which has imported what the walk needs, and nothing else of it is warm. The evidence is what
``noracle init`` writes; the answer is posted by ASGI, in the process itself, to a service on
SQLite.

    python benchmarks/bench_walks.py --list
    python benchmarks/bench_walks.py --only estimate,alarm
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import inspect
import io
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from _common import emit, in_child

TARGETS = {"estimate": 18, "alarm": 18, "report": 75, "answer": 13}
CLAIMS = {
    "estimate": "noracle estimate",
    "alarm": "noracle alarm",
    "report": "noracle report on the project of noracle init",
    "answer": "an answer posted to the collection service",
}


class Tracer:
    """Counts the calls of functions of noracle, by module in the order of their first call; in
    this thread, and in those that start after it is made.
    """

    def __init__(self) -> None:
        import noracle

        self.calls: Counter[str] = Counter()
        self._root = str(Path(inspect.getfile(noracle)).parent)
        self._on = False
        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not self._on or event != "call" or not code.co_filename.startswith(self._root):
            return
        name = frame.f_globals.get("__name__")  # a template of a page has none
        function = code.co_flags & inspect.CO_OPTIMIZED  # neither a module nor the body of a class
        if name and function and (code.co_name == "<lambda>" or code.co_name[0] != "<"):
            self.calls[name] += 1

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Count what is called inside."""
        self._on = True
        try:
            yield
        finally:
            self._on = False


def command(folder: Path, tracer: Tracer, *line: str) -> None:
    """One line of the command line, in this process."""
    from noracle.cli import run

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        if not (folder / "demo").exists():
            run(["init", str(folder / "demo")])
        with tracer.on():
            code = run([part.replace("DEMO", str(folder / "demo")) for part in line])
    if code not in {0, 1}:
        raise SystemExit(f"noracle {' '.join(line)} ended with {code}:\n{said.getvalue()}")


def estimate(folder: Path, tracer: Tracer) -> None:
    tables = ["--answers=DEMO/answers.csv", "--judgements=DEMO/judgements.csv"]
    command(folder, tracer, "estimate", *tables, "--n-classes=5", "--json")


def alarm(folder: Path, tracer: Tracer) -> None:
    line = ["--answers=DEMO/answers.csv", "--spec=accuracy > 1/2", "--n-classes=5", "--json"]
    command(folder, tracer, "alarm", *line)


def report(folder: Path, tracer: Tracer) -> None:
    command(folder, tracer, "report", "DEMO", f"--out={folder / 'report.html'}")


def answer(folder: Path, tracer: Tracer) -> None:
    """One answer of one annotator, who is signed in and was asked; the reply holds the next
    question.
    """
    from noracle.collect.model import ClassSpec, Item, ProjectSpec
    from noracle.collect.service import access, people, projects
    from noracle.collect.store import open_store
    from noracle.collect.web.app import WebSettings, make_app

    now, token = time.time(), access.new_token()
    spec = ProjectSpec(protocol="partitioned", classes=(ClassSpec(name="a"), ClassSpec(name="b")))

    def begin(work: Any) -> int:
        person, rater = (
            people.add_person(
                work, email=f"{name}@example.org", name=name, password_hash="none", now=now
            )
            for name in ("owner", "rater")
        )
        project = projects.create_project(
            work, slug="walk", name="A walk", spec=spec, owner=person, now=now
        )
        items = [Item(name=f"i{j}", content={"text": f"text {j}"}) for j in range(40)]
        projects.import_items(work, project, items, now=now)
        owner = access.member_of(work, person, project)
        assert owner is not None
        invited = people.invite(work, owner, role="annotator", pool=0, now=now)
        people.accept_invitation(work, access.token_hash(invited), person=rater, now=now)
        people.start_session(work, rater, access.token_hash(token), now=now)
        projects.seal_project(work, project, actor="system", now=now, seed=bytes(range(32)))
        projects.open_project(work, project, actor="system", now=now)
        return project

    store = open_store(f"sqlite:///{folder / 'walk.db'}")
    try:
        store.write_now(begin)
        settings = WebSettings(base_url="http://127.0.0.1", secure=False, key=bytes(range(32)))
        asyncio.run(_post(make_app(store, settings=settings), token, tracer))
    finally:
        store.close()


async def _post(app: Any, token: str, tracer: Tracer) -> None:
    import httpx

    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app),
        base_url="http://127.0.0.1",
        headers={"Authorization": f"Bearer {token}"},
    )
    async with client:
        asked = await client.post("/api/v1/projects/walk/next")
        held = asked.raise_for_status().json()["next"]
        said = {"question": held["question"], "key": held["key"], "value": "unsure"}
        said |= {"shown_at": time.time(), "want_next": True}
        with tracer.on():
            done = await client.post("/api/v1/projects/walk/answers", json=said)
        done.raise_for_status()


WALKS: dict[str, Callable[[Path, Tracer], None]] = {
    "estimate": estimate,
    "alarm": alarm,
    "report": report,
    "answer": answer,
}


def child(walk: str, modules: list[str]) -> None:
    """One walk, after ``modules`` are imported: what it called, and what is imported now."""
    for name in modules:
        importlib.import_module(name)
    tracer = Tracer()
    with tempfile.TemporaryDirectory() as folder:
        WALKS[walk](Path(folder), tracer)
    imported = [name for name in sys.modules if name.split(".")[0] == "noracle"]
    print(json.dumps({"calls": tracer.calls, "imported": imported}))


def walk_modules(walk: str) -> dict[str, int]:
    """The calls by module, in the order of the first, of a process that had imported all."""
    imported = in_child(__file__, "--child", walk)["imported"]
    calls: dict[str, int] = in_child(__file__, "--child", walk, *imported)["calls"]
    return calls


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(WALKS), help="walks, separated by commas")
    parser.add_argument("--list", action="store_true", help="also the modules and their calls")
    parser.add_argument("--record", action="store_true", help="append the lines to results.jsonl")
    parser.add_argument("--child", choices=sorted(WALKS), help=argparse.SUPPRESS)
    parser.add_argument("modules", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.modules)
        return 0
    fine = True
    for walk in options.only.split(","):
        calls = walk_modules(walk)
        fine &= len(calls) <= TARGETS[walk]
        emit(
            f"walk-{walk}",
            f"{CLAIMS[walk]} passes at most {TARGETS[walk]} modules",
            {
                "modules": len(calls),
                "target": TARGETS[walk],
                "met": len(calls) <= TARGETS[walk],
                "calls": sum(calls.values()),
            },
            command=f"python benchmarks/bench_walks.py --only {walk}",
            record=options.record,
        )
        if options.list:
            for name, times in calls.items():
                print(f"{times:>9,}  {name}")
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
