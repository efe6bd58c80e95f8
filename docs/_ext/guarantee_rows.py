"""Rows of the table of guarantees, out of the measurements in ``benchmarks/guarantees.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

COLUMNS = ("interval", "method", "setting", "coverage", "nominal", "mean width", "promise", "verdict")


def verdict(row: dict[str, Any]) -> str:
    """Whether the measured coverage can be the promised one: exact where it was enumerated, else a binomial test at 1e-4."""
    return "FAILS" if row["significant"] else "holds"


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    width = row.get("width")
    return (
        str(row["interval"]),
        str(row["method"]),
        str(row["setting"]),
        f"{row['coverage']:.3f}",
        f"{row['nominal']:.3f}",
        "undefined" if width is None else f"{width:.3f}",
        str(row["guarantee"]),
        verdict(row),
    )


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of the file, sorted by interval and setting; none if there is no file."""
    if not path.exists():
        return []
    data = json.loads(path.read_text(encoding="utf-8"))
    rows = data["rows"] if isinstance(data, dict) else data
    return sorted(rows, key=lambda r: (str(r["interval"]), str(r["method"]), str(r["setting"])))
