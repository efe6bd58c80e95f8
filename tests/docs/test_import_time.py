from __future__ import annotations

import json
import subprocess
import sys

HEAVY = ("torch", "matplotlib", "scipy.stats", "pandas", "polars", "pyarrow", "pyspark", "duckdb", "jinja2", "sklearn", "typer")


def test_import_brings_nothing_heavy() -> None:
    code = "import json, sys; import noracle; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True)
    loaded = set(json.loads(done.stdout))
    assert "noracle" in loaded
    assert [name for name in HEAVY if name in loaded] == []
    assert done.stderr == ""
