"""Projects that are open for answers, put straight into the tables; a PostgreSQL server; people who
work in parallel.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from noracle.collect.chain import canonical, event_hash
from noracle.collect.model import HeldQuestion, ProjectSpec
from noracle.collect.store.base import Store, Work

START = 1_800_000_000.0
_names = itertools.count(1)


def token(person: int) -> str:
    return hashlib.sha256(f"token of {person}".encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class World:
    """An open project: its annotators, the pools of each, and what was drawn (item, pool, shown) by
    place.
    """

    project: int
    spec: ProjectSpec
    people: tuple[int, ...]
    pools: dict[int, tuple[int, ...]]
    routes: dict[int, tuple[int, int, str]]

    def token(self, index: int) -> str:
        return token(self.people[index])


def build(
    store: Store,
    *,
    protocol: str = "partitioned",
    n_classes: int = 4,
    n_items: int = 20,
    n_people: int = 4,
    draws: int = 1,
    reasks: int = 0,
    lease_seconds: float = 900.0,
    pools: list[tuple[int, ...]] | None = None,
    state: str = "open",
    kinds: tuple[str, ...] = ("main",),
    seed: int = 0,
    **more: Any,
) -> World:
    """Items with ``draws`` questions each in random order. Person i belongs to pool i modulo K, or
    to the pools given.
    """
    rng = random.Random(seed)
    classes = [f"class {k}" for k in range(n_classes)]
    spec = ProjectSpec.from_dict(
        {
            "protocol": protocol,
            "classes": classes,
            "draws": draws,
            "reasks": reasks,
            "lease_seconds": lease_seconds,
            "shown": 2,
            **more,
        }
    )
    belongs = pools or [(spec.pools[i % len(spec.pools)],) for i in range(n_people)]
    drawn = []
    for item in range(n_items):
        for draw, k in enumerate(
            rng.sample(range(n_classes), draws) if protocol == "partitioned" else range(draws)
        ):
            shown = {"partitioned": [k], "ordinary": list(range(n_classes))}.get(
                protocol
            ) or rng.sample(range(n_classes), 2)
            pool = k if protocol in ("partitioned", "ordinary") else 0
            drawn.append(
                (item, draw, pool, json.dumps(shown, separators=(",", ":")), rng.choice(kinds))
            )
    rng.shuffle(drawn)

    def fill(work: Work) -> World:
        found = work.one(
            "INSERT INTO project (slug, name, state, spec, created_at) VALUES (:slug, 'A project', :state, :spec, :now) RETURNING id",
            slug=f"project-{next(_names)}-{os.getpid()}",
            state=state,
            spec=json.dumps(spec.to_dict()),
            now=START,
        )
        project = int((found or {})["id"])
        people = []
        for i, mine in enumerate(belongs):
            email, name = f"p{i}-{project}@example.org", f"P {i}"
            row = work.one(
                "INSERT INTO person (email, name, created_at) VALUES (:e, :n, :now) RETURNING id",
                e=email,
                n=name,
                now=START,
            )
            person = int((row or {})["id"])
            people.append(person)
            work.run(
                "INSERT INTO session VALUES (:t, :p, :now, :now, :until)",
                t=token(person),
                p=person,
                now=START,
                until=START + 1e8,
            )
            work.run(
                "INSERT INTO membership (project_id, person_id, role, alias, joined_at) VALUES (:j, :p, 'annotator', :a, :now)",
                j=project,
                p=person,
                a=f"a-{i}",
                now=START,
            )
            for pool in mine:
                work.run(
                    "INSERT INTO pool_member VALUES (:j, :pool, :p)", j=project, pool=pool, p=person
                )
        first = int((work.one("SELECT COALESCE(MAX(id), 0) AS n FROM item") or {})["n"]) + 1
        work.many(
            "INSERT INTO item (id, project_id, name, content, sha256) VALUES (:i, :j, :name, :content, '-')",
            [
                {
                    "i": first + i,
                    "j": project,
                    "name": f"item {i}",
                    "content": json.dumps({"text": f"Text {i}"}),
                }
                for i in range(n_items)
            ],
        )
        work.many(
            "INSERT INTO question (project_id, item_id, place, draw, kind, pool, shown, propensity) "
            "VALUES (:j, :i, :place, :draw, :kind, :pool, :shown, 0.25)",
            [
                {
                    "j": project,
                    "i": first + i,
                    "place": n,
                    "draw": draw,
                    "kind": kind,
                    "pool": pool,
                    "shown": shown,
                }
                for n, (i, draw, pool, shown, kind) in enumerate(drawn)
            ],
        )
        if work.dialect == "postgresql":
            work.one("SELECT setval(pg_get_serial_sequence('item', 'id'), :n)", n=first + n_items)
        work.log(project, "opened", {}, actor="system", at=START)
        routes = {n: (first + i, p, s) for n, (i, _, p, s, _) in enumerate(drawn)}
        return World(project, spec, tuple(people), dict(zip(people, belongs, strict=True)), routes)

    return store.write_now(fill)


def some_value(spec: ProjectSpec, asked: HeldQuestion, rng: random.Random) -> str:
    """A random answer that fits."""
    if spec.protocol == "judge-all":
        return "|".join(rng.choice(("yes", "no", "unsure")) for _ in asked.shown)
    if spec.protocol == "partitioned":
        return rng.choice(("yes", "no", "no", "unsure"))
    return rng.choice((*map(str, asked.shown), "unsure"))


def audit(
    store: Store, world: World, *, acknowledged: dict[int, tuple[int, str]] | None = None
) -> Counter[str]:
    """Check everything that must hold after any work; returns what there is of each kind.

    ``acknowledged`` has for each question the number of the first answer that was acknowledged, and
    its value.
    """
    store.chain(world.project)

    def look(work: Work) -> Counter[str]:
        project = world.project
        questions = work.all("SELECT * FROM question WHERE project_id = :p", p=project)
        answers = work.all("SELECT * FROM answer WHERE project_id = :p ORDER BY id", p=project)
        events = work.all("SELECT * FROM event WHERE project_id = :p ORDER BY seq", p=project)
        by_id = {q["id"]: q for q in questions}
        sql = "SELECT answer_id FROM settled WHERE project_id = :p AND undone = 1"
        undone = {row["answer_id"] for row in work.all(sql, p=project)}
        given = [a for a in answers if a["revision"] == a["undone"]]
        first = [a for a in given if a["id"] not in undone]
        assert len({a["question_id"] for a in first}) == len(first), (
            "two first answers to one question"
        )
        assert {q["id"] for q in questions if q["status"] == 2} == {
            a["question_id"] for a in first
        }, "done, not answered"
        leased = (q["person_id"] for q in questions if q["status"] == 1)
        leases = Counter(person for person in leased if person is not None)
        assert all(n == 1 for n in leases.values()), "a person with two leases"
        for q in questions:
            assert world.routes[q["place"]] == (q["item_id"], q["pool"], q["shown"]), (
                "a question outside the sealed route"
            )
            assert (q["kind"] == "reask") == (q["draw"] >= 1000)
            assert q["person_id"] is None or q["pool"] in world.pools[q["person_id"]], (
                "a person outside the pool"
            )
        pairs = Counter(
            (q["item_id"], q["person_id"]) for q in questions if q["person_id"] is not None
        )
        assert all(n == 1 for n in pairs.values()), "two questions about one item to one person"
        counted = [a for a in answers if a["id"] not in undone]
        assert all(by_id[a["question_id"]]["person_id"] == a["person_id"] for a in counted)
        told_undone = [json.loads(e["payload"])["answer"] for e in events if e["kind"] == "undone"]
        assert sorted(told_undone) == sorted(undone), "undone answers and events differ"
        payloads = [json.loads(e["payload"]) for e in events if e["kind"] in ("answer", "amended")]
        told = {(p["answer"], p["question"], p["revision"], p["value"]) for p in payloads}
        assert told == {(a["id"], a["question_id"], a["revision"], a["value"]) for a in answers}, (
            "answers and events differ"
        )
        head = ""
        for seq, e in enumerate(events, start=1):
            assert e["seq"] == seq, "a gap in the chain"
            assert e["prev"] == head, "a broken chain"
            assert canonical(json.loads(e["payload"])) == e["payload"], (
                "a payload that is not canonical"
            )
            head = event_hash(
                head, seq=seq, at=e["at"], actor=e["actor"], kind=e["kind"], payload=e["payload"]
            )
            assert e["hash"] == head, "a wrong hash"
        row = work.one("SELECT last_seq, head FROM project WHERE id = :p", p=project) or {}
        assert (row["last_seq"], row["head"]) == (len(events), head)
        kept = {a["question_id"]: (a["id"], a["value"]) for a in first}
        for question, answer in (acknowledged or {}).items():
            assert kept.get(question) == answer, "an acknowledged answer is lost or changed"
        return Counter(
            {
                "answers": len(first),
                "questions": len(questions),
                **Counter(e["kind"] for e in events),
            }
        )

    return store.read_chained_now(world.project, look)


# ------------------------------------------------------------------------------------------------------------------
# PostgreSQL


class PostgresServer:
    """A server in a folder of its own, on a free port of the loopback address."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)

    @classmethod
    def create(cls, *, in_memory: bool = False) -> PostgresServer:
        """``in_memory`` keeps the files in memory where the system can; for tests that do not ask
        what the disk has.
        """
        shared = Path("/dev/shm")
        roomy = (
            in_memory
            and shared.is_dir()
            and os.access(shared, os.W_OK)
            and shutil.disk_usage(shared).free > 4 << 30
        )
        folder = Path(tempfile.mkdtemp(prefix="noracle-pg-", dir=shared if roomy else None))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = cls(folder, port)
        if server._user:
            os.chown(folder, 65534, 65534)
        try:
            options = [
                "-D",
                str(folder / "data"),
                "-A",
                "trust",
                "-U",
                "noracle",
                "--no-sync",
                "--encoding=UTF8",
                "--locale=C",
            ]
            done = subprocess.run(
                ["initdb", *options], capture_output=True, check=False, cwd=folder, **server._user
            )
            if done.returncode:
                raise OSError(f"initdb failed: {done.stderr.decode()[-500:]}")
            server.start()
        except BaseException:
            server.remove()
            raise
        return server

    @property
    def _user(self) -> dict[str, Any]:
        """PostgreSQL refuses to run as root."""
        return (
            {"user": 65534, "group": 65534, "extra_groups": []}
            if hasattr(os, "geteuid") and os.geteuid() == 0
            else {}
        )

    def start(self, *settings: str) -> None:
        command = [
            "postgres",
            "-D",
            str(self.folder / "data"),
            "-k",
            str(self.folder),
            "-p",
            str(self.port),
            "-h",
            "127.0.0.1",
        ]
        for setting in ("max_connections=200", "shared_buffers=64MB", *settings):
            command += ["-c", setting]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, **self._user
            )
        import psycopg

        ends = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
            except psycopg.OperationalError:
                if time.monotonic() > ends or self.process.poll() is not None:
                    raise
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """kill -9 of the postmaster and all its children."""
        if self.process is None:
            return
        pids = [self.process.pid, *_children(self.process.pid)]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        ends = time.monotonic() + 20
        while any(_alive(pid) for pid in pids[1:]) and time.monotonic() < ends:
            time.sleep(0.02)
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # fast: ends sessions
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str) -> str:
        return f"postgresql://noracle@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        name = f"test_{next(self._numbers)}"
        self._admin(f"CREATE DATABASE {name}")
        return name

    def drop_database(self, name: str) -> None:
        self._admin(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _admin(self, sql: str) -> None:
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql)  # type: ignore[call-overload]


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        text = subprocess.run(
            ["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False
        ).stdout
    return [int(word) for word in text.split()]


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
