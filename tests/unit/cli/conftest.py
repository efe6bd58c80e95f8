"""The command line in this process and in a process of its own, and a world to run it on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from noracle.cli import run

CANARY = "CANARY-text-of-an-item"


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


Run = Callable[..., Ended]


@pytest.fixture
def noracle(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process."""

    def command(*arguments: object) -> Ended:
        capfd.readouterr()
        code = run([str(a) for a in arguments])
        return Ended(code, *capfd.readouterr())

    return command


@pytest.fixture(scope="session")
def shell() -> Run:
    """Run a command in a process of its own."""

    def command(*arguments: object) -> Ended:
        ended = subprocess.run(
            [sys.executable, "-m", "noracle", *map(str, arguments)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return command


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables of a world; its items have a text."""
    folder = tmp_path_factory.mktemp("world")
    options = [
        "--n-items",
        "1500",
        "--n-classes",
        "5",
        "--system",
        "good=0.9",
        "--system",
        "poor=0.5",
        "--no-answer",
        "0.04",
    ]
    assert (
        run(["-q", "simulate", *options, "--unsure", "0.03", "--seed", "3", "--out", str(folder)])
        == 0
    )
    items = (folder / "items.csv").read_text(encoding="utf-8").splitlines()
    rows = [f"{row},{CANARY} {i}" for i, row in enumerate(items[1:])]
    (folder / "items.csv").write_text(
        "\n".join([f"{items[0]},text", *rows]) + "\n", encoding="utf-8"
    )
    return folder


@pytest.fixture
def tables(world: Path) -> list[str]:
    """The options that name the tables of the world."""
    return [f"--{name}={world / name}.csv" for name in ("answers", "judgements", "items")]
