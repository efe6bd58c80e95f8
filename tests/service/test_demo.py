"""The demo and the table of what breaks a protocol."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra 'collect' is not installed")

pytestmark = pytest.mark.full


SEALED_ALIKE = """
from noracle.cli import main
from noracle.collect import protocols
protocols.new_seed = lambda: bytes(range(32))
main()
"""


def noracle(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, whose seals are always the same."""
    command = [sys.executable, "-c", SEALED_ALIKE, *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment(),
        cwd=cwd,
        timeout=300,
        check=False,
    )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(sys.modules["noracle"].__file__ or "").parents[1])}


def test_the_demo_fills_a_project_over_http_and_proves_it(tmp_path: Path) -> None:
    done = noracle("collect", "demo", "--n-items", "60", "--out", "demo", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["verified"]
    assert found["answers"] >= found["questions"] > 60
    assert [s["name"] for s in found["systems"]] == ["large-eye", "small-eye"]
    for system in found["systems"]:
        estimate = system["estimate"]
        assert 0 <= estimate["low"] <= estimate["value"] <= estimate["high"] <= 1
        assert (
            estimate["low"] - 0.15 < system["truth"] < estimate["high"] + 0.15
        )  # 60 items, and specialists who err a little
    assert (tmp_path / "demo" / "demo.db.key").stat().st_mode & 0o777 == 0o600
    assert noracle("verify", "demo/shapes.zip", cwd=tmp_path).returncode == 0
    refused = noracle("collect", "demo", "--out", "demo", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--out must be a new or empty folder" in refused.stderr


def test_the_demo_serves_on_until_it_is_told_to_stop(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "noracle", "collect", "demo", "--n-items", "20"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "still serving" in line:
                break
        text = "".join(lines)
        found = re.search(r"dashboard\s+(http://127\.0\.0\.1:\d+)/p/shapes", text)
        password = re.search(r"with the password (\S+)", text)
        assert found, text
        assert password
        assert "verified: every route" in text
        assert asked_live(found[1], password[1]) == ["large-eye", "small-eye"]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert list(tmp_path.iterdir()) == []  # the temporary folder is gone


def asked_live(url: str, password: str) -> list[str]:
    """Names of the systems on the dashboard, as the owner sees them."""
    import asyncio

    from noracle.collect.demo import EMAIL, SLUG
    from noracle.collect.simulate import CrowdClient

    async def ask() -> list[str]:
        async with CrowdClient(url) as client:
            await client.sign_in(EMAIL, password)
            live = await client.call("GET", f"/projects/{SLUG}/live")
            return [system["name"] for system in live["systems"]]

    return asyncio.run(ask())


@pytest.mark.slow
def test_the_table_of_what_breaks_the_protocol(tmp_path: Path) -> None:
    arguments = ("collect", "simulate", "--runs", "2", "--n-items", "300", "--seed", "3")
    done = noracle(*arguments, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert rows[0]["what"] == "the protocol"
    assert len(rows) > 12
    shown = noracle(*arguments, "--html", "table.html", cwd=tmp_path)
    assert shown.returncode == 0
    text, page = shown.stdout, (tmp_path / "table.html").read_text(encoding="utf-8")
    for row in rows:
        assert row["what"] in text
        assert row["what"].split("<")[0] in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert noracle("collect", "simulate", "--runs", "1", cwd=tmp_path).returncode == 2
    assert (
        noracle("collect", "simulate", "--html", "nowhere/table.html", cwd=tmp_path).returncode == 2
    )
