"""The quickstart runs as a script and says true things."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_quickstart_tells_the_better_system_and_covers_the_key() -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples/quickstart.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "best: 'careful'" in done.stdout
    last = done.stdout.strip().splitlines()[-2:]
    assert [line.split(":")[0].strip() for line in last] == ["careful", "hasty"]
    assert all(", inside [" in line for line in last)
