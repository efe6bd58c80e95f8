"""Folders of evidence from MMLU-Pro: 20 systems with one question on each item, and the answers of
five without any label.
"""

from __future__ import annotations

import csv
from pathlib import Path

import duckdb
import numpy as np

FILE = "mmlu_pro_predictions.parquet"
_FIXED = 4
"""Columns before those of the systems: item, category, number of options, key."""


def _rows(data: Path, least: int) -> tuple[list[str], list[tuple[int, ...]]]:
    """The systems, and the rows with so many options or more, without their category."""
    with duckdb.connect() as connection:
        table = connection.sql(f"FROM '{(data / FILE).as_posix()}'")
        systems = table.columns[_FIXED:]
        found = table.filter(f"n_options BETWEEN {least} AND 10").order("item").fetchall()
    return systems, [(row[0], *row[2:]) for row in found]


def _write(path: Path, header: str, rows: list[tuple[object, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header.split(","), *rows])


def _answer(answer: int, n: int) -> object:
    return answer if 0 <= answer < n else ""


def write_judged(folder: Path, data: Path) -> None:
    """All answers of 20 systems, and of each item whether one random class is the true one."""
    systems, rows = _rows(data, 3)
    folder.mkdir()
    rng = np.random.default_rng(7)
    asked = [int(rng.integers(row[1])) for row in rows]
    answers = [
        (r[0], s, _answer(a, r[1])) for r in rows for s, a in zip(systems, r[3:], strict=True)
    ]
    told = [(r[0], k, "yes" if k == r[2] else "no") for r, k in zip(rows, asked, strict=True)]
    _write(folder / "answers.csv", "item,system,answer", [*answers])
    _write(folder / "judgements.csv", "item,class,verdict", [*told])
    _write(folder / "items.csv", "item,n_classes", [(r[0], r[1]) for r in rows])


def write_answers(folder: Path, data: Path) -> None:
    """The answers of five systems to some items with ten options, and nothing else."""
    systems, rows = _rows(data, 10)
    folder.mkdir()
    answers = [
        (r[0], s, _answer(a, r[1]))
        for r in rows[:1500]
        for s, a in list(zip(systems, r[3:], strict=True))[:5]
    ]
    _write(folder / "answers.csv", "item,system,answer", [*answers])
    (folder / "noracle.toml").write_text("n_classes = 10\n", encoding="utf-8")
