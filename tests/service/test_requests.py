"""Requests that would freeze the server, and changes that take long: others go on meanwhile."""

from __future__ import annotations

import asyncio
import io
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")

from noracle.collect import content, formats, protocols
from noracle.collect.errors import Conflict, Refused
from noracle.collect.model import ClassSpec, Item, ProjectSpec
from noracle.collect.service import people, projects
from noracle.collect.store.base import SQL
from tests.service.web_site import CLASSES, Visitor, running, texts

SPEC = ProjectSpec(protocol="partitioned", classes=tuple(ClassSpec(name=n) for n in CLASSES))


def send_large(visitor: Visitor, path: str, size: int) -> tuple[int, float]:
    """Send a large body as a hostile stranger would, and read the reply; status and seconds until
    it was there.
    """
    import socket

    host, _, port = visitor.netloc.partition(":")
    began = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=20) as line:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {visitor.netloc}\r\nContent-Type: application/json\r\n"
        )
        line.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode() + b"[" * 100_000)
        status = int(line.recv(4096).split(b" ", 2)[1])
    return status, time.monotonic() - began


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/projects/alpha/items",
        "/p/alpha/items",
        "/anything/items",
        "/api/v1/session/systems",
    ],
)
def test_sixty_megabytes_without_a_session_are_turned_away(tmp_path: Path, path: str) -> None:
    with running(tmp_path) as site:
        site.project("alpha", site.person("boss"))
        visitor = site.visitor()
        visitor.get("/healthz")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = [send_large(visitor, path, 60_000_000) for _ in range(5)]
        assert {status for status, _ in found} == {413}
        assert min(seconds for _, seconds in found) < 0.1
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def test_the_whole_body_is_thrown_away_so_that_the_reason_is_read(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        reply = site.visitor().send(
            "POST",
            "/api/v1/projects/alpha/items",
            b"[" * 20_000_000,
            {"Content-Type": "application/json"},
        )
        assert reply.status == 413
        assert "larger than" in reply.json()["detail"]


def test_who_may_send_much_is_asked_before_anything_is_read(tmp_path: Path) -> None:
    with running(tmp_path, max_body=10_000) as site:
        boss, rater, stranger = (site.person(n) for n in ("boss", "rater", "stranger"))
        site.project("alpha", boss)
        site.project("beta", stranger)
        site.join("alpha", boss, rater, "annotator", 0)
        large = {"items": [{"name": f"i{k}", "content": {"text": "x" * 50}} for k in range(400)]}
        for who in (rater, stranger):
            assert site.as_(who).api("POST", "/projects/alpha/items", large).status == 413
        assert site.as_(boss).api("POST", "/projects/alpha/items", large).status == 201
        assert site.as_(boss).api("POST", "/projects/alpha/invitations/items", large).status == 413


def chunked(visitor: Visitor, path: str, parts: int) -> int:
    import http.client

    line = http.client.HTTPConnection(visitor.netloc, timeout=20)
    try:
        line.putrequest("POST", path)
        for name, value in (("Transfer-Encoding", "chunked"), ("Content-Type", "application/json")):
            line.putheader(name, value)
        line.endheaders()
        for _ in range(parts):
            line.send(b"%x\r\n%s\r\n" % (50_000, b"[" * 50_000))
        line.send(b"0\r\n\r\n")
        return line.getresponse().status
    except ConnectionError:
        return 413
    finally:
        line.close()


def test_a_body_without_a_length_is_cut_off_too(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        site.project("alpha", site.person("boss"))
        assert chunked(site.visitor(), "/api/v1/projects/alpha/items", 20) in (401, 413)
        assert chunked(site.visitor(), "/api/v1/session", 20) == 413


# Markdown

N = 200_000
HOSTILE = {
    "hashes": "#" * N,
    "headings": "#\n" * (N // 2),
    "closed heading": "# a" + " #" * (N // 2),
    "spaced heading": "# " + " " * N + "x",
    "stars": "*" * N,
    "emphasis": "a*b_" * (N // 4),
    "brackets": "[" * N,
    "links": "[a](" * (N // 4),
    "images": "![" * (N // 2),
    "ticks": "`a" * (N // 2),
    "lists": "- a\n" * (N // 4),
    "nested": "".join(" " * 2 * i + "- a\n" for i in range(440)),
    "fences": "~~~a\n" * (N // 5),
    "just below": "#\n" * 1_490,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_keeps_the_server_busy(name: str) -> None:
    times = []
    for k in range(3):
        began = time.thread_time()
        content.render_markdown(HOSTILE[name] + " " * k)  # never one that is remembered
        times.append(time.thread_time() - began)
    assert min(times) < 0.05


def test_a_text_with_too_many_marks_is_shown_as_it_is() -> None:
    shown = content.render_markdown("# <b>\n" * 5_000)
    assert shown.startswith("<p># &lt;b&gt;\n")
    assert content.render_markdown("# a\n" * 100).count("<strong>") == 100


# packed files


def packed(name: str, size: int) -> bytes:
    whole = io.BytesIO()
    with (
        zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(name, "w") as file,
    ):
        for _ in range(size // 1_000_000):
            file.write(b"0" * 1_000_000)
    return whole.getvalue()


def test_a_zip_bomb_is_refused_at_once() -> None:
    data, began = packed("items.csv", 300_000_000), time.monotonic()
    assert len(data) < 1_000_000
    with pytest.raises(Refused, match="must have at most"):
        formats.read_items(data, spec=SPEC, name="items.zip")
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 'i' AS item, repeat('x', 1000000) AS text FROM range(2000)",
        "SELECT 'i' AS item, 'x' AS text FROM range(3000000)",
    ],
)
def test_a_parquet_bomb_is_refused(tmp_path: Path, query: str) -> None:
    import duckdb

    path = tmp_path / "items.parquet"
    duckdb.sql(query).write_parquet(str(path), compression="zstd")
    assert path.stat().st_size < 20_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Refused, match="must have at most"):
        formats.read_items(path.read_bytes(), spec=SPEC, name="items.parquet")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000


def test_a_file_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_UPLOAD_SECONDS", 0.0)
    with pytest.raises(Refused, match="readable in"):
        formats.read_items(b"item,text\na,b\n", spec=SPEC, name="items.csv")


# sealing and importing while others write


def draft(store: Any, n: int = 0) -> int:
    """A draft with items."""

    def make(work: Any) -> int:
        about: Any = {"email": "o@example.org", "name": "o", "password_hash": "x"}
        owner = people.add_person(work, now=time.time(), **about)
        project = projects.create_project(
            work, slug="alpha", name="Alpha", spec=SPEC, owner=owner, now=time.time()
        )
        if n:
            projects.import_items(work, project, texts(n), now=time.time())
        return project

    return int(store.write_now(make))


def counts(store: Any) -> tuple[int, int]:
    count = "SELECT (SELECT COUNT(*) FROM item) AS i, (SELECT COUNT(*) FROM question) AS q"
    row = store.read_now(lambda work: work.one(count))
    return int(row["i"]), int(row["q"])


def test_steps_seal_and_fill_as_one_transaction_does(store: Any) -> None:
    project = draft(store)
    items = [Item(name=f"i{k}", content={"text": f"t {k}"}) for k in range(5_000)]
    assert projects.import_in_steps(store, project, items, (), actor="system") == 5_000
    root = projects.seal_in_steps(store, project, actor="system")
    assert root == protocols.seal(SPEC, items).root, "the tests have one seed"
    row = store.read_now(lambda work: projects.project_of(work, project))
    assert (row["state"], row["busy"], row["n_routes"]) == ("sealed", None, 5_000)
    assert counts(store) == (5_000, 5_000)
    kinds = store.read_now(lambda w: w.all("SELECT kind FROM event ORDER BY id"))
    assert [k["kind"] for k in kinds] == ["created", "imported", "sealed"]


def test_a_refused_import_leaves_nothing(store: Any) -> None:
    project = draft(store)
    twice = [*texts(3_000), texts(1)[0]]
    with pytest.raises(Refused, match="named only once"):
        projects.import_in_steps(store, project, twice, (), actor="system")
    assert counts(store) == (0, 0)
    assert projects.import_in_steps(store, project, texts(10), (), actor="system") == 10


def test_nobody_changes_a_draft_while_it_is_sealed(store: Any) -> None:
    project = draft(store, 100)
    with projects._Steps(store, project) as steps:
        for op in (
            lambda work: projects.import_items(work, project, [texts(101)[100]], now=time.time()),
            lambda work: projects.change_spec(work, project, SPEC),
            lambda work: projects.seal_project(work, project, actor="system", now=time.time()),
        ):
            with pytest.raises(Conflict, match="being filled or sealed"):
                store.write_now(op)
        with pytest.raises(Conflict, match="being filled or sealed"):
            projects.seal_in_steps(store, project, actor="system")
        steps.finish(lambda _: None)
    projects.seal_in_steps(store, project, actor="system")


def test_a_change_that_was_taken_for_dead_ends_and_harms_nothing(store: Any) -> None:
    project = draft(store, 100)
    with projects._Steps(store, project) as steps:
        store.write_now(lambda w: w.run("UPDATE project SET busy = busy - 3600"))
        projects.seal_in_steps(store, project, actor="system")
        with pytest.raises(Conflict, match="somebody else"):
            steps.write(lambda _: None)
    assert counts(store) == (100, 100)
    assert store.read_now(lambda w: projects.project_of(w, project))["state"] == "sealed"


_CHILD = """
import sys, time
from noracle.collect.service import projects
from noracle.collect.store import open_store
from noracle.collect.model import Item
store, what = open_store(sys.argv[1]), sys.argv[2]
projects._AT_A_TIME = 50
real = projects._Steps.write
def slow(self, op):
    print("step", flush=True)
    time.sleep(0.02)
    return real(self, op)
projects._Steps.write = slow
if what == "seal":
    projects.seal_in_steps(store, 1, actor="system")
else:
    items = [Item(name=f"n{k}", content={"text": "t"}, truth=0) for k in range(3000)]
    projects.import_in_steps(store, 1, items, (), actor="system")
"""


@pytest.mark.parametrize("what", ["seal", "import"])
@pytest.mark.full
def test_killed_changes_leave_a_draft_that_can_be_sealed(
    store: Any, store_url: str, what: str
) -> None:
    project = draft(store, 2_000)
    for after in (3, 15, 30):
        with subprocess.Popen(
            [sys.executable, "-c", _CHILD, store_url, what],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as child:
            assert child.stdout is not None
            for _ in range(after):
                assert child.stdout.readline()
            child.send_signal(signal.SIGKILL)
        assert store.read_now(lambda w: projects.project_of(w, project))["state"] == "draft"
        with pytest.raises(Conflict, match="being filled or sealed"):
            projects.seal_in_steps(store, project, actor="system")
        store.write_now(lambda w: w.run("UPDATE project SET busy = busy - 61"))
        store.write_now(lambda w: projects.hold(w, project, "draft"))
        assert counts(store) == (2_000, 0)
    projects.seal_in_steps(store, project, actor="system")
    assert counts(store) == (2_000, 2_000)


@pytest.mark.slow
def test_others_write_while_a_hundred_thousand_items_are_sealed(store: Any) -> None:
    project = draft(store)
    items = [Item(name=f"i{k}", content={"text": f"text {k}"}) for k in range(100_000)]
    waits: list[float] = []
    over = threading.Event()

    async def write() -> None:
        while not over.is_set():
            began = time.monotonic()
            await store.write(lambda w: w.run(SQL.set_locale, locale="en", person=1))
            waits.append(time.monotonic() - began)
            await asyncio.sleep(0.005)

    other = threading.Thread(target=lambda: asyncio.run(write()))
    other.start()
    try:
        projects.import_in_steps(store, project, items, (), actor="system")
        projects.seal_in_steps(store, project, actor="system")
    finally:
        over.set()
        other.join()
    waits.sort()
    p99 = waits[int(0.99 * len(waits))]
    assert len(waits) > 200
    assert p99 <= 0.25


def test_pages_seal_and_import_in_steps(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        boss = site.person("boss")
        site.project("alpha", boss)
        visitor = site.as_(boss)
        rows = "item,text\n" + "".join(f"i{k},t {k}\n" for k in range(3_000))
        assert visitor.upload("/p/alpha/items", "items.csv", rows.encode()).status == 303
        chosen = {"do": "add", "item": "item", "text": "text"}
        assert visitor.post("/p/alpha/items", chosen).status == 303
        assert visitor.post("/p/alpha/setup", {"do": "seal"}).status == 303
        assert visitor.post("/p/alpha/setup", {"do": "seal"}).status == 409
        assert counts(site.store) == (3_000, 3_000)
