"""The export: deterministic, whole, without personal data, and with what the seed would betray left
out until closing.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from noracle.collect.archive import (
    TABLES,
    read_archive,
    verdicts,
    write_archive,
)
from noracle.errors import EvidenceError
from tests.unit.collect.archives import filled, items_of, judged, spec_of


@pytest.fixture(scope="module")
def archive() -> Any:
    spec = spec_of(gold_rate=0.2, panel_items=2, reasks=1, shuffle_options=True)
    return filled(spec, items_of(12, n_gold=3, options=True)).archive(texts=True)


def test_the_same_records_give_the_same_bytes(archive: Any, tmp_path: Path) -> None:
    write_archive(archive, tmp_path / "a.zip")
    write_archive(archive, tmp_path / "b.zip")
    first = (tmp_path / "a.zip").read_bytes()
    assert first == (tmp_path / "b.zip").read_bytes() == archive.to_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zip", "b.zip"]
    with zipfile.ZipFile(tmp_path / "a.zip") as whole:
        assert whole.namelist() == ["project.json", *(f"{name}.jsonl" for name in TABLES)]


def test_it_is_read_back_as_it_was(archive: Any, tmp_path: Path) -> None:
    write_archive(archive, tmp_path / "a.zip")
    assert read_archive(tmp_path / "a.zip") == archive


def test_names_with_odd_separators_survive() -> None:
    items = items_of(3)
    items[0] = type(items[0])(name="a\u2028b\x85c\r", content={"text": "\u2029\n"})
    archive = filled(spec_of(), items).archive(texts=True)
    assert read_archive(io.BytesIO(archive.to_bytes())) == archive


def test_before_closing_neither_seed_nor_truth_is_shown() -> None:
    spec, items = spec_of(gold_rate=0.3), items_of(10, n_gold=3)
    chances = {item.name: [0.25] * 4 for item in items}
    still_open = filled(spec, items, chances=chances, close=False).archive()
    assert still_open.project["seed"] is None
    assert all(item["truth"] is None and item["chances"] is None for item in still_open.items)
    closed = filled(spec, items, chances=chances).archive()
    assert len(bytes.fromhex(closed.project["seed"])) == 32
    assert sum(item["truth"] is not None for item in closed.items) == 3
    assert all(item["chances"] for item in closed.items)


def test_texts_are_left_out_unless_asked_for(archive: Any) -> None:
    without = filled(spec_of(), items_of(5)).archive()
    assert all(item["content"] is None for item in without.items)
    assert b"text 3" not in b"".join(
        zipfile.ZipFile(io.BytesIO(without.to_bytes())).read(n)
        for n in ("items.jsonl", "events.jsonl")
    )
    item = archive.items[0]
    raw = json.dumps(item["content"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert item["sha256"] == hashlib.sha256(raw.encode()).hexdigest()


@pytest.mark.parametrize(
    ("protocol", "shown", "value", "expected"),
    [
        ("partitioned", [2], "unsure", [(2, "unsure")]),
        ("judge-all", [3, 0], "no|unsure", [(3, "no"), (0, "unsure")]),
        ("judge-all", [3, 0], "unsure", [(3, "unsure"), (0, "unsure")]),
        ("pick-wrong", [3, 0], "3", [(3, "no")]),
        ("pick-wrong", [3, 0], "none", [(None, "none")]),
        ("ordinary", [0, 1, 2, 3], "1", [(1, "yes")]),
        ("ordinary", [0, 1, 2, 3], "unsure", [(None, "unsure")]),
    ],
)
def test_answers_are_read_as_verdicts(
    protocol: Any, shown: list[int], value: str, expected: list[tuple[Any, str]]
) -> None:
    assert verdicts(spec_of(protocol, shown=2), shown, value) == expected


def test_judgements_are_first_answers_only(archive: Any) -> None:
    first = [row for row in archive.answers if row["revision"] == 0]
    assert len(first) < len(archive.answers)
    assert [row["question"] for row in archive.judgements] == [row["question"] for row in first]
    assert {row["kind"] for row in archive.judgements} == {"main", "gold", "panel", "reask"}
    assert judged(archive) == archive.judgements


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.pop("routes.jsonl"), "archive must hold project.json"),
        (lambda files: files.update({"more.txt": "x"}), "archive must hold project.json"),
        (lambda files: files.update({"project.json": "[]"}), "project.json must be of format"),
        (
            lambda files: files.update({"project.json": '{"format":"other/1"}'}),
            "project.json must be of format",
        ),
        (lambda files: files.update({"items.jsonl": "{}\nnonsense\n"}), "items.jsonl must be JSON"),
        (lambda files: files.update({"items.jsonl": '{"a":NaN}\n'}), "items.jsonl must be JSON"),
        (
            lambda files: files.update({"items.jsonl": "{},{}\n"}),
            "items.jsonl must hold one object per line",
        ),
        (
            lambda files: files.update({"items.jsonl": "[]\n"}),
            "items.jsonl must hold one object per line",
        ),
    ],
)
def test_what_is_no_archive_is_said_so(
    archive: Any, change: Any, message: str, tmp_path: Path
) -> None:
    with zipfile.ZipFile(io.BytesIO(archive.to_bytes())) as whole:
        files = {name: whole.read(name).decode() for name in whole.namelist()}
    change(files)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as whole:
        for name, text in files.items():
            whole.writestr(name, text)
    with pytest.raises(EvidenceError, match=message):
        read_archive(tmp_path / "a.zip")


def test_a_damaged_file_is_said_so(archive: Any, tmp_path: Path) -> None:
    data = bytearray(archive.to_bytes())
    (tmp_path / "half.zip").write_bytes(data[: len(data) // 2])
    data[200] ^= 0xFF
    (tmp_path / "bits.zip").write_bytes(data)
    (tmp_path / "text.zip").write_text("no zip")
    for name in ("half.zip", "bits.zip", "text.zip", "missing.zip"):
        with pytest.raises(EvidenceError, match=r"archive must be a \.zip file that can be read"):
            read_archive(tmp_path / name)
