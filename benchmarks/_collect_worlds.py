"""What the benchmarks of the collection service share: databases, projects, a server process, and
annotators that measure.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
import secrets
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from noracle.collect.model import ClassSpec, Item, ProjectSpec
from noracle.collect.server import make_key
from noracle.collect.simulate import CrowdClient

SOURCES = Path(__file__).parents[1] / "src"
PASSWORD = "correct horse battery"
SLUG = "bench"
LOOPS_PER_MINUTE = (
    1_000_000  # of each annotator: the limit is on, and far above what a server can serve
)
TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


# ----------------------------------------------------------------------------------------------------------------
# databases


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A PostgreSQL server of our own with its safe defaults; raises LookupError with a reason if
    there is none.
    """
    found = shutil.which("initdb") or next(
        map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None
    )
    if found is None:
        raise LookupError("PostgreSQL (initdb) is not installed")
    programs = Path(found).parent
    cluster = folder / "cluster"
    cluster.mkdir(mode=0o700)
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        os.chown(cluster, 65534, 65534)
        folder.chmod(0o711)
        user = {
            "user": 65534,
            "group": 65534,
            "extra_groups": [],
            "env": {**os.environ, "HOME": str(cluster)},
        }
    data = cluster / "data"

    def call(*command: object) -> None:
        subprocess.run(
            [str(part) for part in command],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            cwd=cluster,
            **user,
        )

    call(
        programs / "initdb",
        "-D",
        data,
        "-A",
        "trust",
        "-U",
        "noracle",
        "--encoding",
        "UTF8",
        "--no-locale",
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={cluster}"
    call(programs / "pg_ctl", "-D", data, "-w", "-l", cluster / "log", "-o", options, "start")
    try:
        yield f"postgresql://noracle@127.0.0.1:{port}/postgres"
    finally:
        call(programs / "pg_ctl", "-D", data, "-m", "fast", "stop")


# -----------------------------------------------------------------------------------------------------------------
# projects


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An open project in a database."""

    url: str
    key_file: Path
    project: int
    tokens: tuple[str, ...]
    import_seconds: float
    seal_seconds: float
    import_and_seal_cpu: float


def make_world(
    url: str,
    folder: Path,
    *,
    n_items: int,
    n_classes: int,
    annotators: int,
    systems: int = 0,
    seed: int = 0,
) -> World:
    """A partitioned project with text items, sealed and open, and an invitation for every
    annotator.
    """
    import random

    from noracle.collect.service import people, projects
    from noracle.collect.service.access import member_of
    from noracle.collect.store import open_store

    key_file = folder / "bench.key"
    make_key(key_file)
    hashed = people.hash_password(PASSWORD)
    spec = ProjectSpec(
        protocol="partitioned",
        classes=tuple(ClassSpec(name=f"class {k}") for k in range(n_classes)),
    )
    rng = random.Random(seed)
    store = open_store(url)
    try:

        def begin(work: Any) -> Any:
            owner = people.add_person(
                work, email="owner@example.org", name="Owner", password_hash=hashed, now=time.time()
            )
            project = projects.create_project(
                work, slug=SLUG, name="Benchmark", spec=spec, owner=owner, now=time.time()
            )
            return member_of(work, owner, project)

        member = store.write_now(begin)
        project = member.project
        began, cpu = time.perf_counter(), time.process_time()
        items = (
            Item(
                name=f"item-{i:06d}",
                content={"text": f"Text number {i}. " + "It says something. " * 10},
            )
            for i in range(n_items)
        )
        store.write_now(lambda work: projects.import_items(work, project, items, now=time.time()))
        imported = time.perf_counter()
        store.write_now(
            lambda work: projects.seal_project(work, project, actor=member.alias, now=time.time())
        )
        sealed, used = time.perf_counter(), time.process_time() - cpu

        def finish(work: Any) -> list[str]:
            for s in range(systems):
                answers = {f"item-{i:06d}": rng.randrange(n_classes) for i in range(n_items)}
                projects.add_system(
                    work, project, f"system-{s}", answers, actor=member.alias, now=time.time()
                )
            projects.open_project(work, project, actor=member.alias, now=time.time())
            return [
                people.invite(work, member, role="annotator", pool=a % n_classes, now=time.time())
                for a in range(annotators)
            ]

        tokens = store.write_now(finish)
    finally:
        store.close()
    return World(
        url=url,
        key_file=key_file,
        project=project,
        tokens=tuple(tokens),
        import_seconds=imported - began,
        seal_seconds=sealed - imported,
        import_and_seal_cpu=used,
    )


# -------------------------------------------------------------------------------------------------------------------
# server


class Server:
    """``noracle collect serve`` in a process of its own."""

    def __init__(self, world: World, *, workers: int = 1) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        began = time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "noracle",
            "collect",
            "serve",
            "--db",
            world.url,
            "--key-file",
            str(world.key_file),
        ]
        command += [
            "--port",
            str(port),
            "--workers",
            str(workers),
            "--answers-per-minute",
            str(LOOPS_PER_MINUTE),
        ]
        paths = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
        )
        line = self.process.stdout.readline() if self.process.stdout else ""
        found = re.search(r"https?://\S+", line)
        if found is None:
            raise SystemExit(f"the server did not start: {line!r}")
        self.url = found[0]
        asyncio.run(until_healthy(self.url))
        self.start_seconds = time.perf_counter() - began
        self.start_cpu = cpu_of(tree(self.process.pid))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)
        if self.process.stdout:
            self.process.stdout.close()


async def until_healthy(url: str) -> None:
    """Wait for the first 200."""
    import httpx

    from noracle.collect.simulate import connect

    connection = connect(url, timeout=5)
    for _ in range(400):
        with contextlib.suppress(httpx.TransportError):
            if (await connection.get("/healthz")).status_code == 200:
                await connection.aclose()
                return
        await asyncio.sleep(0.02)
    raise SystemExit(f"{url} never became healthy")


def tree(pid: int) -> list[int]:
    """A process and its children."""
    found = [pid]
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in listed.read_text().split():
            found += tree(int(child))
    return found


def cpu_of(pids: list[int]) -> float:
    """User and system seconds of these processes."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / TICK
    return total


def rss_mib(pids: list[int]) -> float:
    """Resident memory of these processes together."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
            total += int(found[1]) if found else 0
    return round(total / 1024, 1)


def all_cpu() -> tuple[float, float]:
    """Busy seconds of the whole machine, and the clock."""
    fields = [int(v) for v in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / TICK, time.perf_counter()


# ---------------------------------------------------------------------------------------------------------------
# annotators


async def join_all(url: str, tokens: tuple[str, ...]) -> list[CrowdClient]:
    """One signed-in annotator for each invitation."""
    clients = [CrowdClient(url, timeout=120) for _ in tokens]

    async def one(place: int, client: CrowdClient, token: str) -> None:
        await client.join(
            token,
            name=f"Annotator {place}",
            email=f"a{place}-{secrets.token_hex(3)}@example.org",
            password=PASSWORD,
        )

    for start in range(0, len(clients), 4):
        part = range(start, min(start + 4, len(clients)))
        await asyncio.gather(*(one(i, clients[i], tokens[i]) for i in part))
    return clients


async def loops(
    clients: list[CrowdClient], *, seconds: float, stop: asyncio.Event | None = None
) -> tuple[list[float], int, float]:
    """Answer and take the next question for so long (or until ``stop``): milliseconds of each loop,
    errors, seconds.
    """
    times: list[float] = []
    errors = 0
    began = time.perf_counter()
    until = began + seconds

    async def one(client: CrowdClient) -> None:
        nonlocal errors
        asked = await client.next(SLUG)
        while asked is not None and time.perf_counter() < until and not (stop and stop.is_set()):
            sent = time.perf_counter()
            try:
                _, asked = await client.answer(SLUG, asked, "no")
            except Exception:  # noqa: BLE001 (counted)
                errors += 1
                asked = await client.next(SLUG)
                continue
            times.append(1000 * (time.perf_counter() - sent))

    await asyncio.gather(*(one(client) for client in clients))
    return times, errors, time.perf_counter() - began


def summary(times: list[float], errors: int, seconds: float) -> dict[str, Any]:
    """Loops a second and percentiles."""
    cuts = statistics.quantiles(times, n=100) if len(times) > 1 else [float("nan")] * 99
    return {
        "loops": len(times),
        "loops_per_s": round(len(times) / seconds, 1),
        "p50_ms": round(cuts[49], 1),
        "p95_ms": round(cuts[94], 1),
        "p99_ms": round(cuts[98], 1),
        "errors": errors,
    }
