"""Label Studio as a peer: in an environment of its own, started as its documentation says, with the
same loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from _collect_worlds import summary

from noracle.collect.simulate import connect

CONFIG = """<View><Text name="text" value="$text"/><Choices name="choice" toName="text" choice="single">
<Choice value="Yes"/><Choice value="No"/><Choice value="Not sure"/></Choices></View>"""
ADDRESS = "admin@example.org"
_USERS = """
import json, os
from django.contrib.auth import get_user_model
from rest_framework.authtoken.models import Token
from organizations.models import Organization
User = get_user_model()
admin = User.objects.get(email=os.environ["BENCH_ADMIN"])
organization = admin.active_organization or Organization.objects.first()
found = []
for i in range(int(os.environ["BENCH_USERS"])):
    email = f"annotator{i}@example.org"
    user = User.objects.filter(email=email).first() or User.objects.create_user(email=email, username=email, password=os.urandom(12).hex())
    organization.add_user(user)
    user.active_organization = organization
    user.save()
    found.append(Token.objects.get_or_create(user=user)[0].key)
print("TOKENS " + json.dumps(found))
"""


def environment(given: str | None, folder: Path) -> Path:
    """The environment with label-studio, installed if it is not given; raises LookupError with a
    reason.
    """
    venv = Path(given) if given else folder / "venv"
    if not (venv / "bin" / "label-studio").exists():
        try:
            subprocess.run(
                [sys.executable, "-m", "venv", str(venv)],
                check=True,
                capture_output=True,
                timeout=300,
            )
            install = [
                str(venv / "bin" / "python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "label-studio",
            ]
            subprocess.run(install, check=True, capture_output=True, timeout=1800)
        except (OSError, subprocess.SubprocessError) as error:
            raise LookupError(
                f"label-studio cannot be installed here ({type(error).__name__})"
            ) from None
    return venv


def version(venv: Path) -> str:
    """The version that is measured."""
    code = "import importlib.metadata as m; print(m.version('label-studio'))"
    return subprocess.run(
        [str(venv / "bin" / "python"), "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


@contextlib.contextmanager
def running(venv: Path, folder: Path, users: int) -> Iterator[tuple[str, str, list[str], int]]:
    """``label-studio start`` with SQLite: address, the owner's token, a token for each annotator,
    the process.
    """
    token = secrets.token_hex(20)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    values = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        "BASE_DATA_DIR": str(folder),
        "LABEL_STUDIO_BASE_DATA_DIR": str(folder),
        "COLLECT_ANALYTICS": "False",
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
        "LATEST_VERSION_CHECK": "False",
        "DJANGO_DB": "sqlite",
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "BENCH_ADMIN": ADDRESS,
        "BENCH_USERS": str(users),
    }
    program = str(venv / "bin" / "label-studio")
    common = ["--data-dir", str(folder), "--no-browser", "--log-level", "ERROR"]
    account = [
        "--username",
        ADDRESS,
        "--password",
        secrets.token_hex(12),
        "--user-token",
        token,
        "--enable-legacy-api-token",
    ]
    log = (folder / "log").open("w")
    try:
        subprocess.run(
            [program, "init", "bench", *common, *account],
            env=values,
            stdout=log,
            stderr=log,
            check=True,
            timeout=900,
        )
        shell = subprocess.run(
            [program, "shell", "--data-dir", str(folder)],
            input=f"exec({_USERS!r})\n",
            env=values,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        line = next((row for row in shell.stdout.splitlines() if "TOKENS " in row), None)
        if line is None:
            raise LookupError(f"label-studio's accounts cannot be made: {shell.stderr[-300:]!r}")
        tokens = json.loads(line.partition("TOKENS ")[2])
        start = [
            program,
            "start",
            "bench",
            *common,
            "--internal-host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        process = subprocess.Popen(
            start, env=values, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield f"http://127.0.0.1:{port}", token, tokens, process.pid
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    finally:
        log.close()


async def _call(
    connection: httpx.AsyncClient, token: str, method: str, path: str, value: object = None
) -> tuple[int, Any]:
    headers = {"authorization": f"Token {token}", "content-type": "application/json"}
    reply = await connection.request(method, path, headers=headers, json=value)
    plain = reply.content and "json" in reply.headers.get("content-type", "")
    return reply.status_code, reply.json() if plain else None


async def prepare(url: str, token: str, tasks: int) -> int:
    """A project with one annotation per task and uniform sampling; its number."""
    connection = connect(url, timeout=120)
    for _ in range(600):
        with contextlib.suppress(httpx.TransportError):
            if (await connection.get("/health")).status_code == 200:
                break
        await asyncio.sleep(0.5)
    fields = {
        "title": "bench",
        "label_config": CONFIG,
        "maximum_annotations": 1,
        "sampling": "Uniform sampling",
    }
    status, made = await _call(connection, token, "POST", "/api/projects/", fields)
    if status != 201:
        raise LookupError(f"label-studio refuses a project ({status})")
    project = int(made["id"])
    texts = [
        {"data": {"text": f"Text number {i}. " + "It says something. " * 10}} for i in range(tasks)
    ]
    await _call(connection, token, "POST", f"/api/projects/{project}/import", texts)
    await connection.aclose()
    return project


async def measure(url: str, project: int, tokens: list[str], *, seconds: float) -> dict[str, Any]:
    """Next task and its annotation, by every annotator at the same time."""
    times: list[float] = []
    errors = 0
    seen: dict[int, int] = {}
    began = time.perf_counter()
    until = began + seconds

    async def one(token: str) -> None:
        nonlocal errors
        connection = connect(url, timeout=300)
        while time.perf_counter() < until:
            sent = time.perf_counter()
            try:
                status, task = await _call(
                    connection, token, "GET", f"/api/projects/{project}/next"
                )
                if status != 200 or not isinstance(task, Mapping):
                    errors += 1
                    continue
                chosen = [
                    {
                        "from_name": "choice",
                        "to_name": "text",
                        "type": "choices",
                        "value": {"choices": ["No"]},
                    }
                ]
                status, _ = await _call(
                    connection,
                    token,
                    "POST",
                    f"/api/tasks/{task['id']}/annotations/",
                    {"result": chosen},
                )
            except httpx.TransportError:
                errors += 1
                continue
            if status != 201:
                errors += 1
                continue
            seen[int(task["id"])] = seen.get(int(task["id"]), 0) + 1
            times.append(1000 * (time.perf_counter() - sent))
        await connection.aclose()

    await asyncio.gather(*(one(token) for token in tokens))
    return {
        **summary(times, errors, time.perf_counter() - began),
        "tasks_annotated_twice": sum(n > 1 for n in seen.values()),
    }
