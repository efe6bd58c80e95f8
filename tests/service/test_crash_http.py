"""kill -9 of servers and of PostgreSQL under load over HTTP: no acknowledged answer is lost or kept
twice, and exports verify.
"""

from __future__ import annotations

import asyncio
import dataclasses
import io
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import pytest

pytest.importorskip("fastapi", reason="the extra 'collect' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")
pytest.importorskip("argon2", reason="the extra 'collect' is not installed")

from noracle.collect.archive import read_archive
from noracle.collect.errors import Unavailable
from noracle.collect.model import ClassSpec, Item, ProjectSpec
from noracle.collect.server import make_key
from noracle.collect.service import access, exports, people, projects
from noracle.collect.simulate import CrowdClient, Unreachable, connect
from noracle.collect.store import open_store
from noracle.collect.store.base import Work
from noracle.collect.verify import verify_archive
from tests.service.worlds import PostgresServer
from tests.unit.collect.service_world import SEAL

pytestmark = pytest.mark.full

PEOPLE, CLASSES = 16, 4
SLUG = "crash"


@dataclasses.dataclass(frozen=True)
class Project:
    """A sealed and open project, and a session of each annotator."""

    url: str
    key_file: Path
    id: int
    tokens: tuple[str, ...]


def make_project(url: str, folder: Path, *, n_items: int) -> Project:
    key_file = folder / "server.key"
    make_key(key_file)
    spec = ProjectSpec(
        protocol="partitioned",
        classes=tuple(ClassSpec(name=f"class {k}") for k in range(CLASSES)),
        reasks=1,
    )
    tokens = tuple(access.new_token() for _ in range(PEOPLE))
    now = time.time()

    def fill(work: Work) -> int:
        owner = people.add_person(
            work, email="owner@example.org", name="Owner", password_hash="-", now=now
        )
        project = projects.create_project(
            work, slug=SLUG, name="A project", spec=spec, owner=owner, now=now
        )
        items = [Item(name=f"i{i:05}", content={"text": f"Text {i}"}) for i in range(n_items)]
        projects.import_items(work, project, items, now=now)
        member = access.member_of(work, owner, project)
        assert member is not None
        for i, token in enumerate(tokens):
            person = people.add_person(
                work, email=f"p{i}@example.org", name=f"P {i}", password_hash="-", now=now
            )
            invitation = people.invite(work, member, role="annotator", pool=i % CLASSES, now=now)
            people.accept_invitation(work, access.token_hash(invitation), person=person, now=now)
            people.start_session(work, person, access.token_hash(token), now=now)
        projects.seal_project(work, project, actor=member.alias, now=now, seed=SEAL)
        projects.open_project(work, project, actor=member.alias, now=now)
        return project

    store = open_store(url)
    try:
        return Project(url, key_file, store.write_now(fill), tokens)
    finally:
        store.close()


class Server:
    """``noracle collect serve`` on one port, as often as it is killed."""

    def __init__(self, project: Project, folder: Path, *, workers: int = 1) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = folder / "server.log"
        self._command = [
            sys.executable,
            "-m",
            "noracle",
            "collect",
            "serve",
            "--db",
            project.url,
            "--key-file",
            str(project.key_file),
        ]
        self._command += [
            "--port",
            str(port),
            "--workers",
            str(workers),
            "--answers-per-minute",
            "1000000",
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        env = {
            **os.environ,
            "PYTHONPATH": str(Path(sys.modules["noracle"].__file__ or "").parents[1]),
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=env,
                start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9 of the process, and of those that it started."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def check(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"the server has ended: {self.log.read_text()[-2000:]}"


Form = tuple[int, str, str]  # question, key, value


class Crowd:
    """People who answer almost without a pause, and send again what was not acknowledged, with the
    same key.
    """

    def __init__(self, server: Server, project: Project) -> None:
        self.server, self.project = server, project
        self.acknowledged: dict[
            int, tuple[int, str]
        ] = {}  # number and value of the answer, by question
        self.forms: list[tuple[int, Form]] = []
        self.seen: Counter[str] = Counter()
        self.shortest_wait = 60.0  # that a 503 asked for
        self.stop = asyncio.Event()

    async def until_it_answers(self, call: Callable[[], Awaitable[Any]]) -> tuple[Any, bool]:
        """The reply, and whether it took more than one try; anything but a lost connection or a 503
        is raised.
        """
        ends, tries = time.monotonic() + 90, 0
        while True:
            try:
                return await call(), tries > 0
            except Unreachable:
                self.seen["lost"] += 1
            except Unavailable as error:
                self.seen["503"] += 1
                self.shortest_wait = min(self.shortest_wait, error.wait)
            assert time.monotonic() < ends, "the server does not come back"
            self.server.check()
            tries += 1
            await asyncio.sleep(0.1)

    async def send(
        self, client: CrowdClient, form: Form, *, want_next: bool
    ) -> tuple[dict[str, Any] | None, bool]:
        question, key, value = form
        asked = {"question": question, "key": key}
        (number, follow), late = await self.until_it_answers(
            lambda: client.answer(
                SLUG, asked, value, want_next=want_next
            )  # raises unless it is 200
        )
        assert self.acknowledged.setdefault(question, (number, value)) == (number, value), (
            "another answer under the same key"
        )
        return follow, late

    async def work(self, person: int) -> None:
        rng = random.Random(person)
        async with CrowdClient(
            self.server.url, timeout=20, token=self.project.tokens[person]
        ) as client:
            last: Form | None = None
            asked, _ = await self.until_it_answers(lambda: client.next(SLUG))
            while not self.stop.is_set():
                assert asked is not None, "there are too few items"
                form = (asked["question"], asked["key"], rng.choice(("yes", "no", "no", "unsure")))
                self.forms.append((person, form))
                asked, late = await self.send(client, form, want_next=True)
                self.seen["answers"] += 1
                if late:
                    self.seen["repeated"] += 1
                    for old in (form, last):  # once more: both were acknowledged
                        if old is not None:
                            await self.send(client, old, want_next=False)
                last = form
                await asyncio.sleep(0.005)  # so that the items last on any machine

    async def wait_for(self, n: int) -> None:
        """Until n more answers are acknowledged."""
        until, ends = self.seen["answers"] + n, time.monotonic() + 90
        while self.seen["answers"] < until:
            assert time.monotonic() < ends, f"no answers: {self.seen}"
            await asyncio.sleep(0.005)

    async def repeat(self, most: int) -> None:
        """Send forms again that were all acknowledged."""
        chosen = random.Random(3).sample(self.forms, min(most, len(self.forms)))

        async def one(person: int) -> None:
            async with CrowdClient(
                self.server.url, timeout=20, token=self.project.tokens[person]
            ) as client:
                for who, form in chosen:
                    if who == person:
                        assert form[0] in self.acknowledged
                        await self.send(client, form, want_next=False)

        await asyncio.gather(*map(one, range(PEOPLE)))


async def under_load(
    crowd: Crowd, disturb: Callable[[], Awaitable[None]], times: int, *, most: float, repeats: int
) -> None:
    """Disturb so many times while all people work; then let them finish what they sent, and repeat."""
    rng = random.Random(7)
    working = [asyncio.ensure_future(crowd.work(person)) for person in range(PEOPLE)]

    async def disturbances() -> None:
        await crowd.wait_for(1)
        crowd.seen["lost"] = 0  # until here the server had not begun to listen
        for _ in range(times):
            await crowd.wait_for(20)
            await asyncio.sleep(rng.random() * most)
            await disturb()
        await crowd.wait_for(20)
        crowd.stop.set()

    telling = asyncio.ensure_future(disturbances())
    try:
        for done in asyncio.as_completed([telling, *working]):
            await done  # the first that fails is told
        await crowd.repeat(repeats)
    finally:
        for task in (telling, *working):
            task.cancel()
        await asyncio.gather(telling, *working, return_exceptions=True)


def audit(crowd: Crowd) -> None:
    """Just the acknowledged answers are in the database, once each; the export verifies, now and
    after closing.
    """
    project = crowd.project
    store = open_store(project.url)
    try:
        rows = store.read_now(
            lambda w: w.all(
                "SELECT id, question_id, value, revision FROM answer WHERE project_id = :p",
                p=project.id,
            )
        )
        assert all(row["revision"] == 0 for row in rows)
        assert len({row["question_id"] for row in rows}) == len(rows), "an answer was kept twice"
        assert {row["question_id"]: (row["id"], row["value"]) for row in rows} == crowd.acknowledged
        assert len(crowd.forms) == len(rows)
        for close in (False, True):
            if close:
                store.write_now(
                    lambda w: projects.close_project(w, project.id, actor="system", now=time.time())
                )
            _, _, data = store.read_chained_now(
                project.id, lambda w: exports.export_one(w, project.id, "archive")
            )
            archive = read_archive(io.BytesIO(data))
            checked = verify_archive(archive)
            assert checked.passed, checked.findings
            kinds = [event["kind"] for event in archive.events]
            assert kinds.count("answer") == len(rows)
            assert len(archive.answers) == (len(rows) if close else 0)
    finally:
        store.close()


def kill_servers(
    url: str, folder: Path, kills: int, *, workers: int, n_items: int, repeats: int = 10**9
) -> Counter[str]:
    project = make_project(url, folder, n_items=n_items)
    with Server(project, folder, workers=workers) as server:
        crowd = Crowd(server, project)

        async def disturb() -> None:
            server.kill()
            server.start()

        asyncio.run(under_load(crowd, disturb, kills, most=0.4, repeats=repeats))
    assert crowd.seen["lost"] >= kills
    assert crowd.seen["repeated"] >= 1
    audit(crowd)
    return crowd.seen


def test_kill_9_of_a_server_on_sqlite_loses_and_doubles_nothing(
    sqlite_url: str, tmp_path: Path
) -> None:
    kill_servers(sqlite_url, tmp_path, 3, workers=1, n_items=3000)


def test_kill_9_of_two_processes_on_postgresql_loses_and_doubles_nothing(
    postgres_url: str, tmp_path: Path
) -> None:
    kill_servers(postgres_url, tmp_path, 2, workers=2, n_items=3000)


@pytest.mark.slow
@pytest.mark.parametrize(("url", "workers"), [("sqlite_url", 1), ("postgres_url", 2)])
def test_50_times_kill_9_of_the_server(
    request: pytest.FixtureRequest, url: str, workers: int, tmp_path: Path
) -> None:
    seen = kill_servers(
        request.getfixturevalue(url), tmp_path, 50, workers=workers, n_items=25_000, repeats=1000
    )
    assert seen["repeated"] >= 50


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_server_outlives_kill_9_of_postgresql_and_says_503_meanwhile(
    own_server: PostgresServer, tmp_path: Path, kills: int
) -> None:
    project = make_project(
        own_server.url(own_server.new_database()), tmp_path, n_items=2500 * kills
    )
    with Server(project, tmp_path) as server:
        crowd = Crowd(server, project)

        async def disturb() -> None:
            await asyncio.to_thread(own_server.kill)
            probe = connect(server.url, timeout=20)
            bearer, cookie = (
                {"authorization": f"Bearer {project.tokens[0]}"},
                {"cookie": f"noracle={project.tokens[0]}"},
            )
            for method, path in (
                ("POST", f"/api/v1/projects/{SLUG}/next"),
                ("GET", "/api/v1/projects"),
                ("GET", "/healthz"),
                ("GET", "/"),
            ):
                reply = await probe.request(
                    method, path, headers=bearer if path.startswith("/api/") else cookie
                )
                assert reply.status_code == 503, (path, reply.status_code, reply.content)
                assert int(reply.headers["retry-after"]) >= 1
                assert b"psycopg" not in reply.content
                assert b"127.0.0.1" not in reply.content
            await probe.aclose()
            await asyncio.to_thread(own_server.start)

        asyncio.run(under_load(crowd, disturb, kills, most=0.3, repeats=1000))
        server.check()
    assert crowd.seen["503"] >= kills
    assert crowd.shortest_wait >= 1
    assert "Traceback" not in server.log.read_text()
    audit(crowd)
