"""Rows of the tables of guarantees, out of the measurements in ``benchmarks/guarantees.json``."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
COLUMNS = (
    "interval",
    "method",
    "setting",
    "coverage",
    "nominal",
    "mean width",
    "n",
    "worlds",
    "z",
    "seconds",
    "promise",
    "verdict",
)
PARTS = (
    "part",
    "settings",
    "rows",
    "promised: lowest coverage less promise",
    "promised: broken",
    "approximate: fail",
    "approximate: lowest coverage",
)
WEAK = ("part", "interval", "method", "rows", "fail", "lowest coverage", "there")
PROMISED = ("finite-sample", "logical")


def verdict(row: Row) -> str:
    """Whether the measured coverage can be the promised one: exact where it was enumerated, else a
    binomial test.
    """
    return "FAILS" if row["significant"] else "holds"


def cells(row: Row) -> tuple[str, ...]:
    width, z, worlds = row.get("width"), row.get("z"), row.get("worlds")
    return (
        str(row["interval"]),
        str(row["method"]),
        str(row["setting"]),
        f"{row['coverage']:.3f}",
        f"{row['nominal']:.3f}",
        "undefined" if width is None else f"{width:.3f}",
        str(row.get("n", "")),
        "" if worlds is None else f"all {worlds}" if row.get("enumerated") else str(worlds),
        "" if z is None else f"{z:+.1f}",
        "" if row.get("seconds") is None else f"{row['seconds']:.2f}",
        str(row["guarantee"]),
        verdict(row),
    )


def read_rows(path: Path) -> list[Row]:
    """The rows of the file, by part, sorted by interval and setting; none if there is no file."""
    if not path.exists():
        return []
    data = json.loads(path.read_text(encoding="utf-8"))
    rows = data["rows"] if isinstance(data, dict) else data
    order = {part: i for i, part in enumerate(dict.fromkeys(r.get("part", "") for r in rows))}
    return sorted(
        rows,
        key=lambda r: (
            order[r.get("part", "")],
            str(r["interval"]),
            str(r["method"]),
            str(r["setting"]),
        ),
    )


def by_part(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.get("part", ""), []).append(row)
    return found


def _least(rows: Sequence[Row]) -> str:
    return f"{min(r['coverage'] - r['nominal'] for r in rows):+.3f}" if rows else "none"


def part_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """One line per part, and one for all."""
    lines = []
    for part, mine in [*by_part(rows).items(), ("all", list(rows))]:
        promised = [r for r in mine if r["guarantee"] in PROMISED]
        others = [r for r in mine if r["guarantee"] not in PROMISED]
        lines.append(
            (
                part,
                str(len({(r.get("part"), r["setting"]) for r in mine})),
                str(len(mine)),
                _least(promised),
                f"{sum(r['significant'] for r in promised)} of {len(promised)}"
                if promised
                else "none",
                f"{sum(r['significant'] for r in others)} of {len(others)}" if others else "none",
                f"{min(r['coverage'] for r in others):.3f}" if others else "none",
            )
        )
    return lines


def weak_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Approximations that fail somewhere: how often, and where most."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row["guarantee"] not in PROMISED:
            groups.setdefault(
                (row.get("part", ""), str(row["interval"]), str(row["method"])), []
            ).append(row)
    lines = []
    for key, mine in groups.items():
        failed = [r for r in mine if r["significant"]]
        if failed:
            worst = min(failed, key=lambda r: r["coverage"] - r["nominal"])
            lines.append(
                (
                    *key,
                    str(len(mine)),
                    str(len(failed)),
                    f"{worst['coverage']:.3f}",
                    str(worst["setting"]),
                )
            )
    return lines


def details(rows: Sequence[Row]) -> str:
    """All rows as HTML, one part folded under the other; written at once, since a thousand rows of
    nodes would make the site slow.
    """
    head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    parts = []
    for part, mine in by_part(rows).items():
        body = "\n".join(
            f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in cells(row))}</tr>" for row in mine
        )
        failed = sum(r["significant"] for r in mine)
        said = f"{len({r['setting'] for r in mine})} settings, {len(mine)} rows" + (
            f", {failed} fail" if failed else ""
        )
        parts.append(
            f'<details class="guarantees"><summary>{html.escape(part or "all")}: {said}</summary>\n'
            f'<div style="overflow-x: auto" tabindex="0" role="region" aria-label="{html.escape(part or "all", quote=True)}">'
            f'<table class="docutils">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div></details>'
        )
    return "\n".join(parts)
