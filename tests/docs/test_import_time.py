from __future__ import annotations

import json
import subprocess
import sys

HEAVY = (
    "torch",
    "matplotlib",
    "scipy.stats",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "duckdb",
    "jinja2",
    "sklearn",
    "typer",
)


def test_import_brings_nothing_heavy() -> None:
    code = "import json, sys; import noracle; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True
    )
    loaded = set(json.loads(done.stdout))
    assert "noracle" in loaded
    assert [name for name in HEAVY if name in loaded] == []
    assert done.stderr == ""


def test_parts_with_extras_are_there_when_they_are_asked_for() -> None:
    code = (
        "import json, sys; import noracle; before = sorted(m for m in sys.modules if m.startswith('noracle.'));"
        "names = [n for n in ('collect', 'learn', 'search') if n in dir(noracle)];"
        "found = [getattr(noracle, n).__name__ for n in names]; print(json.dumps([before, names, found, 'torch' in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True
    )
    before, names, found, torch = json.loads(done.stdout)
    assert not {"noracle.collect", "noracle.learn", "noracle.search"} & set(before)
    assert names == ["collect", "learn", "search"]
    assert found == ["noracle.collect", "noracle.learn", "noracle.search"]
    assert not torch
