"""The chapter of reproduced tables and figures: whole, honest about what is missing, the same when
made again.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import _reproduce_chapter as chapter
import climage
import pytest
import reproduce
from _reproduce_model import Figure, Item, Made, Paper, Record, Sections, Size, table_rows

ROOT = Path(__file__).parents[2]
CHAPTER = ROOT / "docs" / "reproduce"
# What is asked for: by paper, tables and figures.
WANTED = {
    "partitioned": ((1, 2, 3), (2, 3, 4, 5)),
    "superhuman": ((1, 2, 3, 4, 5, 6), (2, 3, 4)),
    "multippi": ((), tuple(range(1, 16))),
    "alarm": ((2, 3), (1, 2, 3, 4, 5)),
    "climage": ((1, 2, 3), (1, 2, 3)),
}
NAMES = [
    (paper, f"{kind} {n}")
    for paper, both in WANTED.items()
    for kind, numbers in zip(("Table", "Figure"), both, strict=True)
    for n in numbers
] + [("partitioned", "Real search")]
CHEAP = [
    ("alarm", "Table 3"),
    ("alarm", "Figure 1"),
    ("alarm", "Figure 2"),
    ("alarm", "Figure 3"),
    ("superhuman", "Table 3"),
    ("superhuman", "Table 4"),
    ("climage", "Table 1"),
    ("climage", "Figure 2"),
]


def item_of(paper: str, name: str) -> Item:
    (found,) = [item for item in reproduce.load(paper).items if item.name == name]
    return found


def records() -> dict[tuple[str, str], Record]:
    return chapter.read_records(CHAPTER)


# ----------------------------------------------------------------------------------------------------------------------
# the chapter


def test_every_item_that_is_asked_for_has_a_maker_and_no_other() -> None:
    made = [
        (paper, item.name) for paper in reproduce.PAPERS for item in reproduce.load(paper).items
    ]
    assert sorted(made) == sorted(NAMES)


def test_a_whole_run_is_planned_within_thirty_minutes() -> None:
    assert (
        sum(item.at_most for paper in reproduce.PAPERS for item in reproduce.load(paper).items)
        <= 30 * 60
    )


@pytest.mark.parametrize(("paper", "name"), NAMES, ids=str)
def test_item_is_in_the_chapter_with_difference_and_reason(paper: str, name: str) -> None:
    record = records()[paper, name]
    section = chapter.read_sections(CHAPTER, reproduce.load(paper))[name]
    assert record.status in ("reproduced", "reproduced in shape", "input missing")
    for words in (record.published, record.difference, record.reason):
        assert len(words) >= 4
        assert words in section
    assert record.missing or record.status == "reproduced"
    assert all(words in section for words in record.missing)
    assert all(
        (CHAPTER / figure).is_file() and f"]({figure})" in section for figure in record.figures
    )
    assert bool(record.figures) == name.startswith("Figure")
    index = (CHAPTER / "index.md").read_text(encoding="utf-8")
    assert f"[{name}]({record.ours})" in index


def test_chapter_is_a_whole_run_and_small() -> None:
    for page in CHAPTER.glob("*.md"):
        assert "quick run" not in page.read_text(encoding="utf-8").lower(), page
    assert sum(p.stat().st_size for p in (CHAPTER / "figures").iterdir()) < 3_000_000
    assert {p.relative_to(CHAPTER).as_posix() for p in (CHAPTER / "figures").iterdir()} == {
        f for r in records().values() for f in r.figures
    }


@pytest.mark.parametrize(("paper", "name"), CHEAP, ids=str)
def test_numbers_of_the_chapter_are_those_of_a_fresh_run(
    paper: str, name: str, tmp_path: Path
) -> None:
    item = item_of(paper, name)
    made = item.make(Size(), tmp_path)
    section = chapter.section_of(item, made, records()[paper, name].figures)
    assert section == chapter.read_sections(CHAPTER, reproduce.load(paper))[name]


# --------------------------------------------------------------------------------------------------------------------------
# the command


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-W",
        "error",
        str(ROOT / "examples/papers/reproduce.py"),
        *arguments,
    ]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "NORACLE_DATA": ""}
    )


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name != chapter.RECORDS
    }


@pytest.mark.full
def test_quick_run_makes_two_items_once_and_the_same_again(tmp_path: Path) -> None:
    wanted = [
        "--quick",
        "--paper",
        "alarm",
        "--item",
        "table-3",
        "--item",
        "figure-2",
        "--out",
        str(tmp_path),
    ]
    first = run(*wanted)
    assert first.returncode == 0, first.stderr + first.stdout
    assert "[2/2] alarm Figure 2: reproduced" in first.stdout
    before = bytes_of(tmp_path)
    assert set(before) == {"alarm.md", "index.md", "figures/alarm-figure-2.png"}
    second = run(*wanted)
    assert second.stdout.count(": unchanged") == 2
    third = run(*wanted, "--again")
    assert third.stdout.count(": reproduced") == 2
    assert bytes_of(tmp_path) == before
    kept = json.loads((tmp_path / chapter.RECORDS).read_text(encoding="utf-8"))
    assert [r["item"] for r in kept["records"]] == ["Table 3", "Figure 2"]


def test_quick_run_does_not_touch_the_chapter() -> None:
    done = run("--quick", "--out", str(CHAPTER))
    assert done.returncode == 2
    assert "--quick must not overwrite the chapter" in done.stderr


@pytest.mark.full
def test_unknown_item_is_refused_with_the_known_ones() -> None:
    done = run("--item", "table-99")
    assert done.returncode == 2
    assert "table-1" in done.stderr


# ---------------------------------------------------------------------------------------------------------------------
# resume and faults


class Counted:
    """Items that count how often they are made; the second can be told to fail."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.broken = False
        items = [
            Item(paper="toy", name=f"Table {n}", title="toy", make=self.maker(n), at_most=1)
            for n in (1, 2, 3)
        ]
        self.paper = Paper(
            key="toy",
            title="A toy",
            authors="Nobody",
            intro="None.",
            items=tuple(items),
            sources=("examples/papers/_tables.py",),
        )

    def maker(self, number: int):  # type: ignore[no-untyped-def]
        def make(size: Size, out: Path) -> Made:
            self.made.append(f"Table {number}")
            if self.broken and number == 2:
                raise ValueError("a planted fault")
            return Made(
                published="1",
                difference="none",
                reason="a toy",
                body=(f"| a |\n|---|\n| {number} |",),
            )

        return make

    def run(self, out: Path, **options: object) -> dict[tuple[str, str], Record]:
        self.made.clear()
        return reproduce.reproduce([self.paper], out=out, size=Size(), wanted=("toy",), **options)  # type: ignore[arg-type]


def test_failed_item_stops_no_other_and_is_tried_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    toy = Counted()
    toy.broken = True
    found = toy.run(tmp_path)
    assert [r.status for r in found.values()] == ["reproduced", "failed", "reproduced"]
    assert "ValueError: a planted fault" in (tmp_path / "index.md").read_text(encoding="utf-8")
    toy.broken = False
    found = toy.run(tmp_path)
    assert toy.made == ["Table 2"]
    assert {r.status for r in found.values()} == {"reproduced"}
    assert "planted" not in (tmp_path / "toy.md").read_text(encoding="utf-8")
    assert "planted" in capfd.readouterr().err


def test_exit_code_is_1_when_an_item_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    toy = Counted()
    monkeypatch.setattr(reproduce, "PAPERS", ("toy",))
    monkeypatch.setattr(reproduce, "load", lambda name: toy.paper)
    assert reproduce.main(["--out", str(tmp_path)]) == 0
    toy.broken = True
    assert reproduce.main(["--out", str(tmp_path), "--again"]) == 1
    assert "failed: toy Table 2" in capfd.readouterr().err


def test_section_that_was_changed_by_hand_is_made_again(tmp_path: Path) -> None:
    toy = Counted()
    toy.run(tmp_path)
    page = tmp_path / "toy.md"
    page.write_text(page.read_text(encoding="utf-8").replace("| 3 |", "| 4 |"), encoding="utf-8")
    toy.run(tmp_path)
    assert toy.made == ["Table 3"]
    assert "| 3 |" in page.read_text(encoding="utf-8")


def test_missing_or_changed_figure_is_drawn_again(tmp_path: Path) -> None:
    from PIL import Image

    drawn = tmp_path / "drawn.png"
    Image.new("RGB", (1800, 300), "white").save(drawn)
    made = Made(published="1", difference="none", reason="a toy", figures=(Figure(drawn, "white"),))
    item = Item(paper="toy", name="Figure 1", title="toy", make=lambda size, out: made, at_most=1)
    record, section = chapter.write_item(
        tmp_path / "out", item, made, seconds=0, cpu_seconds=0, sources="s"
    )
    kept = tmp_path / "out" / record.figures[0]
    with Image.open(kept) as small:
        assert small.size == (900, 150)
    assert chapter.is_done(tmp_path / "out", record, section, "s")
    assert not chapter.is_done(tmp_path / "out", record, section, "other sources")
    assert not chapter.is_done(
        tmp_path / "out", dataclasses.replace(record, status="failed"), section, "s"
    )
    kept.write_bytes(b"")
    assert not chapter.is_done(tmp_path / "out", record, section, "s")
    kept.unlink()
    assert not chapter.is_done(tmp_path / "out", record, section, "s")


def test_digest_follows_code_size_and_data_but_not_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chapter, "ROOT", tmp_path)
    monkeypatch.setenv("NORACLE_DATA", str(tmp_path / "data"))
    source = tmp_path / "a.py"
    paper = dataclasses.replace(Counted().paper, sources=("a.py",))

    def digest(text: str, size: Size = Size()) -> str:  # noqa: B008
        source.write_text(text, encoding="utf-8")
        return chapter.sources_digest(paper, size)

    first = digest('"""Words."""\ndef f():\n    """More."""\n    return 1\n')
    assert digest("def f():\n    # a remark\n    return 1\n") == first
    assert digest("def f():\n    return 2\n") != first
    assert digest("def f():\n    return 1\n", Size(quick=True)) != first
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.npz").write_bytes(b"12")
    assert digest("def f():\n    return 1\n") != first


@pytest.mark.parametrize("paper", reproduce.PAPERS)
def test_named_sources_are_there(paper: str) -> None:
    for pattern in reproduce.load(paper).sources:
        assert chapter._files([pattern]), pattern


# ------------------------------------------------------------------------------------------------------------------------------
# CLImage


def test_rows_of_table_1_are_those_of_the_recorded_summary() -> None:
    """The benchmark's own summary lines, made when the trials ended."""
    lines = [json.loads(line) for line in climage.RESULTS.read_text(encoding="utf-8").splitlines()]
    for bench, average in (("learn-cifar10-table", 0.999), ("learn-cifar10-explain", 0.0)):
        summary = [{}, *(row for row in lines if row["bench"] == bench)][-1]
        assert summary or bench != "learn-cifar10-table"
        said = {
            name: float(summary[name].split()[0]) for name in climage.ALGORITHMS if name in summary
        }
        found = {name: climage.best_of(name, "uniform", average=average) for name in said}
        assert {name: round(run.test, 2) for name, run in found.items() if run is not None} == said


def test_published_columns_are_those_of_the_algorithms_in_the_package() -> None:
    from noracle.learn.bench.trial import ALGORITHMS

    printed = dict(zip(climage.ALGORITHMS, climage.TABLE_1["uniform-CIFAR10"], strict=True))
    assert printed == {name: ALGORITHMS[name].paper for name in climage.ALGORITHMS}
    for column, place in (("CLCIFAR10", 2),):  # the same trials are in Tables 1 and 3
        assert dict(zip(climage.ALGORITHMS, climage.TABLE_1[column], strict=True)) == {
            n: row[place] for n, row in climage.TABLE_3.items()
        }


def test_table_3_chooses_by_each_objective() -> None:
    page = Sections()
    every = climage.table_3(page)
    assert set(every["uniform"]) == set(climage.ALGORITHMS)
    for found in every.values():
        for name, one in found.items():
            runs = [
                t
                for t in climage.trials()
                if t.algorithm == name and t.epochs == 30 and t.average == 0.999
            ]
            assert {one.zero_one, one.scel, one.accuracy} <= {t.points[-1]["test"] for t in runs}
    assert len(list(table_rows("\n".join(page.body)))) == sum(map(len, every.values()))


def test_runs_of_the_authors_are_read_as_the_paper_chooses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all rates the one with the best held-out accuracy, not the best test accuracy."""
    columns = "algo,data_cleaning_rate,dataset_name,lr,best_epoch-valid_acc.test_acc,best_epoch-valid_acc.valid_acc"
    rows = [
        "fwd-r,0.5,clcifar10-noiseless,0.001,0.48,0.46",
        "fwd-r,0.5,clcifar10-noiseless,0.0001,0.47,0.47",
        "fwd-r,1.0,clcifar10-noiseless,0.001,0.63,0.62",
        "fwd-r,1.0,clcifar20-noiseless,0.001,0.99,0.99",
        "ure-ga-r,0.25,clcifar10-noiseless,0.001,0.3,0.3",
    ]
    (tmp_path / "clcifar_runs.csv").write_text("\n".join([columns, *rows]), "utf-8")
    monkeypatch.setenv("NORACLE_DATA", str(tmp_path))
    found = climage.their_runs()
    assert found == {"FWD-R": {0.5: 47.0, 1.0: 63.0}, "URE-GA-R": {0.25: 30.0}}
    assert climage.human_matrix() is None
    assert climage.wrong_left(0) == climage.NOISE["CLCIFAR10"]
    assert climage.wrong_left(1) == 0


def test_rows_with_real_labels_are_chosen_without_a_true_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recipe by SCEL, plain losses as the paper does; only runs to the end."""

    def line(algorithm: str, epochs: int, points: list[tuple[float, float, float]]) -> str:
        names = ("scel", "accuracy", "test")
        row = {
            "bench": "learn-trial",
            "trial": {
                "algorithm": algorithm,
                "labels": "acl",
                "lr": 0.1,
                "seed": 0,
                "epochs": epochs,
            },
            "training": {"stem": "small", "average": 0.9, "precision": "bf16"},
            "items": "some",
            "points": [dict(zip(names, p, strict=True)) for p in points],
            "noise": 0.002,
        }
        return json.dumps(row) + "\n"

    points = [(-2.0, 60.0, 61.0), (-1.9, 59.0, 62.5), (-2.1, 58.0, 64.0)]
    path = tmp_path / "results.jsonl"
    path.write_text(
        line("consistency-E", 165, points) + line("FWD-R", 100, points) + line("FWD-U", 20, points),
        "utf-8",
    )
    read = functools.partial(climage.trials.__wrapped__, path)
    monkeypatch.setattr(climage, "trials", read)
    assert climage.real_rows() == {"consistency-E": {"acl": 62.5}, "FWD-R": {"acl": 61.0}}


def test_labels_of_the_stand_in_have_the_noise_of_its_annotators(no_data: None) -> None:
    """A label is wrong if the annotator named another class (18 %) and the true one is picked of
    four shown: 0.18/9.
    """
    climage.analysed.cache_clear()
    page = Sections()
    found = climage.figure_1(page, 0, None)
    climage.analysed.cache_clear()
    assert "simulated stand-in" in page.body[0]
    assert found.noise.low <= 0.18 / 9 <= found.noise.high


@pytest.mark.slow
def test_script_runs_on_the_stand_in_and_says_so(no_data: None, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-W",
        "error",
        str(ROOT / "examples/papers/climage.py"),
        "--quick",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    text = (tmp_path / "climage.md").read_text(encoding="utf-8")
    assert "simulated stand-in" in text
    headings = set(re.findall(r"^## ((?:Table|Figure) \d)", text, flags=re.MULTILINE))
    assert headings == {f"{kind} {n}" for kind in ("Table", "Figure") for n in (1, 2, 3)}
    for n in (1, 2, 3):
        assert (tmp_path / f"figure-{n}.png").stat().st_size > 1000


@pytest.mark.slow
def test_quick_run_makes_every_item(tmp_path: Path) -> None:
    done = run("--quick", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr + done.stdout
    found = chapter.read_records(tmp_path)
    assert sorted(found) == sorted(NAMES)
