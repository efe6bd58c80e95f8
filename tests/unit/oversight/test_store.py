"""A report with a store: the same as without one, whatever the design, and right after a run that
was killed.
"""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noracle.errors import EvidenceError, MissingExtra
from noracle.oversight import find_evidence, oversee
from noracle.oversight.load import Loaded
from noracle.oversight.model import FolderSettings
from tests.unit.cli.conftest import Run, noracle

__all__ = ["noracle"]

Row = dict[str, Any]
Parts = dict[str, dict[str, list[Row]]]
"""Rows by partition and table."""


def write(parts: Parts, folder: Path, *, suffix: str = "csv") -> Path:
    for day, tables in parts.items():
        for table, rows in tables.items():
            path = folder / table / f"day={day}" / f"part.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            if suffix == "parquet":
                import polars as pl

                pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
                continue
            with path.open("w", encoding="utf-8", newline="") as file:
                names = list(dict.fromkeys(name for row in rows for name in row))
                writer = csv.DictWriter(file, names)
                writer.writeheader()
                writer.writerows(rows)
    return folder


def uniform(seed: int, *, days: int = 4, n: int = 40) -> Parts:
    """One uniform question for each judged item, with strata, clusters, numbers of classes by item,
    and unsure verdicts.
    """
    draw = random.Random(seed)
    parts: Parts = {}
    for day in range(days):
        tables: dict[str, list[Row]] = {"answers": [], "judgements": [], "items": []}
        for item in range(day * n, (day + 1) * n):
            k, truth = draw.choice([3, 4]), draw.randrange(3)
            about = {
                "item": item,
                "n_classes": k,
                "stratum": draw.choice(["law", "physics"]),
                "cluster": f"c{draw.randrange(30)}",
            }
            tables["items"].append(about)
            for system in ("a", "b") if day else ("a", "b", "c"):
                given = truth if draw.random() < 0.7 else draw.randrange(k)
                tables["answers"].append(
                    {
                        "item": item,
                        "system": system,
                        "answer": "" if draw.random() < 0.05 else given,
                    }
                )
            if draw.random() < 0.6:
                asked = draw.randrange(k)
                verdict = "unsure" if draw.random() < 0.1 else "yes" if asked == truth else "no"
                tables["judgements"].append(
                    {
                        "item": item,
                        "class": asked,
                        "verdict": verdict,
                        "rater": draw.choice(["ann", "bob"]),
                    }
                )
        parts[str(day)] = tables
    return parts


def aimed(seed: int, *, sizes: tuple[int, ...] = (60, 12, 40), again: float = 0.3) -> Parts:
    """Questions aimed at the answers with one uniform share: too few in one partition to see that,
    and only 1/K in another.
    """
    draw = random.Random(seed)
    parts: Parts = {}
    item = 0
    for day, size in enumerate(sizes):
        tables: dict[str, list[Row]] = {"answers": [], "judgements": []}
        for _ in range(size):
            item += 1
            truth = draw.randrange(4)
            last = (
                day == len(sizes) - 1
            )  # four systems with four answers: every class has a quarter of the votes
            given = (
                draw.sample(range(4), 4)
                if last
                else [truth if draw.random() < 0.7 else draw.randrange(4) for _ in range(4)]
            )
            tables["answers"] += [
                {"item": item, "system": s, "answer": a} for s, a in zip("abcd", given, strict=True)
            ]
            for _ in range(1 + (draw.random() < again and not last)):
                asked = draw.choice(given) if draw.random() < 0.8 else draw.randrange(4)
                chance = 0.8 * given.count(asked) / 4 + 0.2 / 4
                verdict = "yes" if asked == truth else "no"
                tables["judgements"].append(
                    {"item": item, "class": asked, "verdict": verdict, "propensity": chance}
                )
        parts[str(day)] = tables
    return parts


def worded(seed: int) -> Parts:
    """Items and classes of text, with contradictions."""
    draw = random.Random(seed)
    names = ["Straße", "a, b", "日本"]
    parts: Parts = {}
    for day in range(3):
        tables: dict[str, list[Row]] = {"answers": [], "judgements": []}
        for i in range(30):
            item = f"q{draw.randrange(10**9)}-{day}-{i}"
            tables["answers"] += [
                {"item": item, "system": s, "answer": draw.choice(names)} for s in ("x y", "ÿ")
            ]
            for rater in ("ann", "bob")[: draw.randrange(3)]:
                said = {
                    "item": item,
                    "class": draw.choice(names),
                    "verdict": draw.choice(["yes", "no", "no"]),
                    "rater": rater,
                }
                tables["judgements"].append(said)
        parts[str(day)] = tables
    return parts


def said(
    place: Path, *, store: str | Path | None = None, **settings: Any
) -> tuple[dict[str, Any], list[str]]:
    """The report as JSON without its notes about the store, and these."""
    report = oversee(
        find_evidence(place, settings=FolderSettings(time_limit=5.0, **settings)), store=store
    ).to_dict()
    notes = [note for note in report["notes"] if note.startswith("store: ")]
    report["notes"] = [note for note in report["notes"] if not note.startswith("store: ")]
    return report, notes


def counted(
    place: Path, *, store: str | Path | None = None, **settings: Any
) -> tuple[list[Any], list[str]]:
    """What the analyses of a report see, and the notes about the store."""
    loaded = Loaded(find_evidence(place, settings=FolderSettings(**settings)), store=store)
    clusters = loaded.accuracy_by_cluster
    seen = [
        loaded.accuracy,
        clusters and clusters.to_dict(),
        loaded.asked,
        loaded.patterns,
        loaded.sketch.to_dict(),
    ]
    return seen, [note for note in loaded.notes if note.startswith("store: ")]


WORLDS: dict[str, tuple[Callable[[int], Parts], dict[str, Any]]] = {
    "uniform": (uniform, {}),
    "aimed": (aimed, {"n_classes": 4}),
    "worded": (worded, {"classes": ("Straße", "a, b", "日本"), "conflicts": "drop"}),
    "two aims": (
        lambda seed: {**aimed(seed), **shifted(aimed(seed + 9, again=0.0), epsilon=0.5)},
        {"n_classes": 4},
    ),
    "one day unlabelled": (
        lambda seed: {
            **uniform(seed),
            "3": {k: v for k, v in uniform(seed)["3"].items() if k != "judgements"},
        },
        {},
    ),
}


def shifted(parts: Parts, *, epsilon: float) -> Parts:
    """The same as other items of other days, with propensities of another design."""
    moved: Parts = {}
    for day, tables in parts.items():
        rows = {
            name: [{**row, "item": row["item"] + 10_000} for row in table]
            for name, table in tables.items()
        }
        rows["judgements"] = [
            {**r, "propensity": (r["propensity"] - 0.05) / 0.8 * (1 - epsilon) + epsilon / 4}
            for r in rows["judgements"]
        ]
        moved[f"1{day}"] = rows
    return moved


def world_params() -> list[Any]:
    return [
        pytest.param(name, marks=() if name == "aimed" else pytest.mark.slow) for name in WORLDS
    ]


@pytest.mark.full
@pytest.mark.parametrize("suffix", ["csv", pytest.param("parquet", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", world_params())
def test_report_with_a_store_says_what_it_says_without_one(
    name: str, suffix: str, tmp_path: Path
) -> None:
    make, settings = WORLDS[name]
    parts = make(3)
    if suffix == "parquet":
        parts = {
            day: {
                t: [{k: None if v == "" else v for k, v in r.items()} for r in rows]
                for t, rows in tables.items()
            }
            for day, tables in parts.items()
        }
    folder, store = tmp_path / "evidence", tmp_path / "store"
    *first, last = parts
    write({day: parts[day] for day in first}, folder, suffix=suffix)
    _, notes = said(folder, store=store, **settings)
    assert notes[0].startswith(
        f"store: {len(first)} partitions: {len(first)} read, 0 known from before."
    )
    write({last: parts[last]}, folder, suffix=suffix)
    wanted, nothing = said(folder, **settings)
    found, notes = said(folder, store=store, **settings)
    assert (found, nothing) == (wanted, [])
    assert notes[0].startswith(f"store: {len(parts)} partitions: ")
    again, notes = said(folder, store=store, **settings)
    assert again == wanted
    assert notes[0].startswith(
        f"store: {len(parts)} partitions: 0 read, {len(parts)} known from before."
    )


@pytest.mark.parametrize("zero", [False, True], ids=["from 1", "from 0"])
def test_whether_classes_count_from_1_is_decided_for_all_partitions(
    tmp_path: Path, zero: bool
) -> None:
    """Day 1 shows classes 1 and 2 of three only, or 1 to 3 (an invalid answer) beside a day with 0."""
    shown = {"0": (1, 2, 0 if zero else 3), "1": (1, 2, 3 if zero else 1)}
    parts: Parts = {}
    for day, classes in shown.items():
        items = [10 * int(day) + i for i in range(6)]
        given = [{"item": i, "system": "a", "answer": classes[i % 3]} for i in items]
        given += [{"item": i, "system": "b", "answer": classes[(i + 1) % 3]} for i in items]
        said = [{"item": i, "class": classes[i % 3], "verdict": "yes"} for i in items]
        parts[day] = {"answers": given, **({} if zero and day == "1" else {"judgements": said})}
    folder = write(parts, tmp_path / "evidence")
    wanted, _ = counted(folder, n_classes=3)
    found, notes = counted(folder, store=tmp_path / "store", n_classes=3)
    assert found == wanted
    assert notes[0].startswith("store: 2 partitions: 2 read, 0 known from before.")


@pytest.mark.slow
def test_tables_that_cannot_be_counted_by_partition_are_counted_as_one(tmp_path: Path) -> None:
    """Verdicts of a later day about items of an earlier one: the report is the same, and says why
    the store did not help.
    """
    parts = aimed(5, sizes=(30, 30, 24))
    parts["1"]["judgements"].append({"item": 1, "class": 0, "verdict": "no", "propensity": 0.3})
    folder = write(parts, tmp_path / "evidence")
    wanted, _ = counted(folder, n_classes=4, conflicts="drop")
    found, notes = counted(folder, store=tmp_path / "store", n_classes=4, conflicts="drop")
    assert found == wanted
    (note,) = notes
    assert note.startswith(
        "store: not used, since the tables cannot be counted by partition: partitions must have no item in common"
    )
    assert "got 'day=0' and 'day=1', which share 1 at item 1" in note


@pytest.mark.full
def test_a_number_in_one_file_that_is_text_in_another_is_not_read_as_a_number(
    tmp_path: Path,
) -> None:
    """Alone, 1.50 would be taken for the number 1.5, and the stratum would have another name than
    in the whole table.
    """

    def day(first: int, stratum: str) -> dict[str, list[Row]]:
        return {
            "answers": [{"item": first + i, "system": "a", "answer": i % 2} for i in range(8)],
            "judgements": [
                {"item": first + i, "class": 0, "verdict": "yes" if i % 2 == 0 else "no"}
                for i in range(6)
            ],
            "items": [{"item": first + i, "n_classes": 2, "stratum": stratum} for i in range(8)],
        }

    folder = write({"1": day(0, "1.50"), "2": day(100, "law")}, tmp_path / "evidence")
    wanted, _ = counted(folder)
    found, notes = counted(folder, store=tmp_path / "store")
    assert found == wanted
    assert "items.stratum must hold text in every partition, as in the whole; got float" in notes[0]


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (
            {"item": [1, 2], "system": ["a", "a"], "answer": [0, 1], "repeat": [1, 1]},
            "systems answered items more than once",
        ),
        (
            {"item": [1, 2], "system": ["a", "a"], "answer": [0, 1]},
            "n_classes must be given to count partitions",
        ),
    ],
)
def test_a_store_that_is_not_used_says_why(
    table: dict[str, list[Any]], why: str, tmp_path: Path
) -> None:
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    folder = write({"1": {"answers": rows}}, tmp_path / "evidence")
    _, notes = said(folder, store=tmp_path / "store")
    assert len(notes) == 1
    assert notes[0].startswith("store: not used, since ")
    assert why in notes[0]


@pytest.mark.full
def test_stores_live_where_fsspec_reaches(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    folder, store = (
        write(aimed(4, sizes=(24, 24)), tmp_path / "evidence"),
        f"memory://noracle-{tmp_path.name}/counts",
    )
    wanted, _ = counted(folder, n_classes=4)
    for read in (2, 0):
        found, notes = counted(folder, store=store, n_classes=4)
        assert found == wanted
        assert notes[0].startswith(
            f"store: 2 partitions: {read} read, {2 - read} known from before."
        )
    files = [
        Path(name).name
        for name in fsspec.filesystem("memory").ls(f"/noracle-{tmp_path.name}/counts", detail=False)
    ]
    assert {"index.json", "total.npz"} < set(files)
    partition = next(name for name in files if name not in {"index.json", "total.npz"})
    fsspec.filesystem("memory").rm_file(f"/noracle-{tmp_path.name}/counts/{partition}")
    found, notes = counted(folder, store=store, n_classes=4)  # a file that is gone is counted again
    assert found == wanted
    assert notes[0].startswith("store: 2 partitions: 1 read, 1 known from before.")


def test_places_that_cannot_be_stores_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(aimed(4, sizes=(24,)), tmp_path / "evidence")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine", encoding="utf-8")
    for store, match in (
        (
            str(tmp_path / "other"),
            r"store must be a new folder or one that this function made; got a folder with 'notes.txt'",
        ),
        (
            "nowhere://x",
            r"store must be a place that fsspec opens; got 'nowhere://x' \(Protocol not known",
        ),
        (str(tmp_path / "other" / "notes.txt"), r"store must be a folder that can be made"),
    ):
        with pytest.raises(EvidenceError, match=match):
            said(folder, store=store, n_classes=4)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(
        MissingExtra,
        match=r"A store at s3:// needs fsspec\. Install it with: pip install 'noracle\[store\]'",
    ):
        said(folder, store="s3://bucket/x", n_classes=4)


_KILLED = """
import os, signal, sys
from pathlib import Path
import numpy, narwhals
from noracle.counts import count_partitions, pair_partitions
import duckdb  # all that a child needs is loaded before it is made

folder, stores, points = Path(sys.argv[1]), Path(sys.argv[2]), [int(p) for p in sys.argv[3].split(",")]
parts = pair_partitions(str(folder / "answers/*/*.csv"), str(folder / "judgements/*/*.csv"))
for point in points:
    child = os.fork()
    if not child:
        left = [point]
        def hook(event, args):
            if event in ("open", "os.rename", "os.remove") and str(stores) in str(args[0]):
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        count_partitions(parts, n_classes=4, sketch=False, store=stores / str(point))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else "done", flush=True)
wanted = count_partitions(parts, n_classes=4, sketch=False)
for point in points:
    found = count_partitions(parts, n_classes=4, sketch=False, store=stores / str(point))
    after = count_partitions(parts, n_classes=4, sketch=False, store=stores / str(point))
    left = [p.name for p in (stores / str(point)).iterdir() if p.suffix == ".tmp"]
    print("right" if found == wanted == after and not after.reading.read and not left else "wrong", len(found.reading.read), flush=True)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    "points",
    [[3, 13], pytest.param(list(range(1, 30)), marks=pytest.mark.slow)],
    ids=["some", "all"],
)
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_a_run_that_is_killed_leaves_a_store_that_is_right(
    points: list[int], tmp_path: Path
) -> None:
    """Killed by the system at its n-th touch of a file in the store: what is there then counts
    right, and the rest is counted again.
    """
    parts = aimed(7, sizes=(8, 6), again=0.0)
    for tables in parts.values():
        tables["judgements"] = [
            {k: v for k, v in row.items() if k != "propensity"} for row in tables["judgements"]
        ]
    folder = write(parts, tmp_path / "evidence")
    (tmp_path / "stores").mkdir()
    command = [
        sys.executable,
        "-c",
        _KILLED,
        str(folder),
        str(tmp_path / "stores"),
        ",".join(map(str, points)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[: len(points)].count("killed") >= 2
    assert [line.split()[0] for line in lines[len(points) :]] == ["right"] * len(points)


@pytest.mark.slow
def test_a_total_that_belongs_to_another_design_is_not_taken(tmp_path: Path) -> None:
    """First days ask with 1/K only; a later one shows that the design was another one: the known
    days are counted again.
    """
    parts = aimed(6, sizes=(40, 30))
    folder, store = tmp_path / "evidence", tmp_path / "store"
    write({"1": parts["1"]}, folder)
    _, notes = counted(folder, store=store, n_classes=4)
    assert notes[0].startswith("store: 1 partition: 1 read")
    write({"0": parts["0"]}, folder)
    found, notes = counted(folder, store=store, n_classes=4)
    assert notes[0].startswith("store: 2 partitions: 2 read, 0 known from before.")
    assert found == counted(folder, n_classes=4)[0]
    assert (
        json.loads((store / "index.json").read_text(encoding="utf-8"))["schema"]
        == "partition-store/3"
    )


@pytest.mark.full
def test_the_command_line_tells_what_was_read_and_refuses_a_store_among_the_evidence(
    noracle: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(
        {day: {"answers": tables["answers"]} for day, tables in aimed(2, sizes=(6, 4)).items()},
        tmp_path / "evidence",
    )
    ended = noracle("report", "evidence", "--n-classes", "4", "--store", "evidence/counts")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.strip().endswith(
        "--store must lie outside of the folder, or have a name that begins with a full stop; got 'evidence/counts'."
    )
    for store in ("evidence/.counts", "evidence/.counts"):
        ended = noracle("report", "evidence", "--n-classes", "4", "--store", store)
        assert ended.code in {0, 1}, ended.err
    assert "store: 2 partitions: 0 read, 2 known from before." in ended.out
    page = (tmp_path / "noracle-report.html").read_text(encoding="utf-8")
    assert "2 partitions: 0 read, 2 known from before" in page
