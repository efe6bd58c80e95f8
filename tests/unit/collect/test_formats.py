"""Files in: the same items from every format, and nothing from outside."""

from __future__ import annotations

import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
from PIL import Image

from noracle.collect.errors import Refused
from noracle.collect.formats import (
    class_number,
    read_answers,
    read_gold,
    read_items,
    read_propensities,
)
from noracle.collect.model import Item
from noracle.collect.service.exports import ExportTable, table_bytes, table_files, zip_bytes
from tests.unit.collect.service_world import spec_of

ROWS: list[dict[str, Any]] = [
    {"item": "007", "text": 'one, "two"\nthree', "options": ["a", "b", "c"], "truth": "c1"},
    {"item": "x", "text": "2020-01-01", "options": ["d", "e|f", "g"], "truth": None},
    {"item": "ü;|\t9", "text": "=1+1", "options": ["h", "i", "j"], "truth": 2},
]
WANTED = [
    Item(name="007", content={"text": 'one, "two"\nthree', "options": ["a", "b", "c"]}, truth=1),
    Item(name="x", content={"text": "2020-01-01", "options": ["d", "e|f", "g"]}),
    Item(name="ü;|\t9", content={"text": "=1+1", "options": ["h", "i", "j"]}, truth=2),
]


def png(colour: str = "red") -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (9, 9), colour).save(target, format="PNG")
    return target.getvalue()


def written(kind: str) -> bytes:
    if kind == "json":
        return json.dumps(ROWS).encode()
    if kind in ("jsonl", "ndjson"):
        return "\ufeff".encode() + b"\n\n".join(json.dumps(row).encode() for row in ROWS)
    truth = {None: None, "c1": "c1", 2: "2"}
    rows = [(row["item"], row["text"], row["options"], truth[row["truth"]]) for row in ROWS]
    table = ExportTable(
        columns={"item": "text", "text": "text", "options": "list", "truth": "text"}, rows=rows
    )
    return table_bytes(table, "parquet" if kind in ("parquet", "pq") else "csv")


@pytest.mark.parametrize("kind", ["jsonl", "ndjson", "json", "csv", "parquet", "pq"])
@pytest.mark.parametrize("way", ["file", "bytes", "folder", "zip"])
def test_every_format_gives_the_same_items(tmp_path: Path, kind: str, way: str) -> None:
    data, name = written(kind), f"items.{kind}"
    source: Path | bytes = data
    if way in ("file", "folder"):
        (tmp_path / name).write_bytes(data)
        source = tmp_path if way == "folder" else tmp_path / name
    elif way == "zip":
        source, name = zip_bytes({f"inside/{name}": data, "inside/readme.txt": b"x"}), "upload.zip"
    assert read_items(source, spec=spec_of(), name=name).items == WANTED


@pytest.mark.parametrize(
    ("mark", "suffix"), [(";", "csv"), ("\t", "tsv"), ("|", "csv"), (",", "csv")]
)
def test_delimiter_is_that_of_the_header(mark: str, suffix: str) -> None:
    data = f"item{mark}markdown\r\na{mark}*x*\r\n".encode()
    assert read_items(data, spec=spec_of(), name=f"t.{suffix}").items == [
        Item(name="a", content={"markdown": "*x*"})
    ]


def test_numbers_name_items_as_people_write_them() -> None:
    rows = [{"item": 7, "text": "x"}, {"item": 8.0, "text": "x"}]
    items = read_items(json.dumps(rows).encode(), spec=spec_of(), name="a.json").items
    assert [item.name for item in items] == ["7", "8"]


BROKEN = [
    (b"", "a.jsonl"),
    (b"\n", "a.jsonl"),
    (b"{", "a.jsonl"),
    (b"[1]", "a.jsonl"),
    (b'{"text":"x"}', "a.jsonl"),
    (b'{"item":null,"text":"x"}', "a.jsonl"),
    (b'{"item":"a","text":"\xff"}', "a.jsonl"),
    (b'{"item":"a","text":"x","truth":"nobody"}', "a.jsonl"),
    (b'{"item":"a","text":"x","truth":3}', "a.jsonl"),
    (b'{"item":"a","text":"x","truth":true}', "a.jsonl"),
    (b'{"item":"a","text":"x","options":7}', "a.jsonl"),
    (b"[" * 100_000, "a.json"),
    (b'{"item":1}', "a.json"),
    (b"[1, 2]", "a.json"),
    (b"item,text\na,b,c\n", "a.csv"),
    (b'item,text\na,"b', "a.csv"),
    (b"item,text\na," + b"x" * 200_000, "a.csv"),
    (b"text\nx\n", "a.csv"),
    (b"PAR1 nonsense", "a.parquet"),
    (b"", "a.parquet"),
    (b"x", "a.xlsx"),
    (b"PK\x03\x04 nonsense", "a.zip"),
    (b"nonsense", "a.zip"),
    (zip_bytes({"a.csv": b"item\n", "b.csv": b"item\n"}), "a.zip"),
    (zip_bytes({"readme.txt": b"x"}), "a.zip"),
]


@pytest.mark.parametrize(("data", "name"), BROKEN, ids=range(len(BROKEN)))
def test_broken_file_is_refused_in_one_line(data: bytes, name: str) -> None:
    with pytest.raises(Refused) as caught:
        read_items(data, spec=spec_of(), name=name)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.full
def test_random_bytes_never_crash_a_reader() -> None:
    rng = random.Random(5)
    for kind in ("jsonl", "json", "csv", "parquet", "zip"):
        whole = zip_bytes({"items.jsonl": written("jsonl")}) if kind == "zip" else written(kind)
        for _ in range(60):
            data = bytearray(whole)
            for _ in range(rng.randint(1, 6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            try:
                read_items(bytes(data), spec=spec_of(), name=f"a.{kind}")
            except Refused:
                pass


# ------------------------------------------------------------------------------------------------------------------
# images


def test_images_come_from_the_folder_or_zip_and_are_drawn_anew(tmp_path: Path) -> None:
    rows = [
        {"item": "a", "image": "pictures/red.png"},
        {"item": "b", "text": "x", "image": "./pictures/red.png"},
    ]
    table = json.dumps(rows).encode()
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "red.png").write_bytes(png())
    (tmp_path / "items.json").write_bytes(table)
    zipped = zip_bytes({"deep/items.json": table, "deep/pictures/red.png": png()})
    apart = tmp_path / "apart.json"
    found = [
        read_items(tmp_path, spec=spec_of()),
        read_items(zipped, spec=spec_of(), name="x.zip"),
    ]
    apart.write_bytes(table)
    found.append(read_items(apart, spec=spec_of(), images=tmp_path))
    for upload in found:
        (sha256,) = upload.pictures
        assert [item.content for item in upload.items] == [
            {"image": sha256},
            {"text": "x", "image": sha256},
        ]
        assert upload.pictures[sha256].media == "image/png"


@pytest.mark.parametrize(
    "name",
    [
        "../secret.png",
        "/etc/passwd",
        "link.png",
        "..\\secret.png",
        "http://example.org/a.png",
        "//example.org/a.png",
        "data:image/png;base64,",
        "no.png",
        ".",
    ],
)
def test_nothing_outside_is_read(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.png").write_bytes(png())
    (inside / "link.png").symlink_to(tmp_path / "secret.png")
    table = json.dumps([{"item": "a", "image": name}]).encode()
    (inside / "items.json").write_bytes(table)
    with pytest.raises(Refused):
        read_items(inside, spec=spec_of())
    with pytest.raises(Refused):
        read_items(
            zip_bytes({"a/items.json": table, "secret.png": png()}), spec=spec_of(), name="x.zip"
        )
    with pytest.raises(Refused):
        read_items(table, spec=spec_of(), name="items.json")


def test_bad_image_names_its_item() -> None:
    table = json.dumps([{"item": "a7", "image": "x.svg"}]).encode()
    with pytest.raises(Refused, match="at item a7"):
        read_items(
            zip_bytes({"items.json": table, "x.svg": b"<svg/>"}), spec=spec_of(), name="x.zip"
        )


def test_zip_bomb_is_not_unpacked() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as whole:
        whole.writestr("items.json", json.dumps([{"item": "a", "image": "x.png"}]))
        whole.writestr("x.png", bytes(200_000_000))
    with pytest.raises(Refused, match="bytes"):
        read_items(target.getvalue(), spec=spec_of(), name="x.zip")


# -------------------------------------------------------------------------------------------------
# gold, answers, chances


def test_gold_and_answers_name_classes_by_number_or_name() -> None:
    spec = spec_of()
    assert read_gold(b"item,label\na,c2\nb,0\n", spec=spec, name="g.csv") == {"a": 2, "b": 0}
    items = read_items(
        b"item,text\na,x\nb,y\nc,z\n", spec=spec, name="i.csv", gold={"a": 2, "b": 0}
    ).items
    assert [item.truth for item in items] == [2, 0, None]
    with pytest.raises(Refused, match="gold"):
        read_items(b"item,text\na,x\n", spec=spec, name="i.csv", gold={"q": 2})
    both = b"item,system,answer\na,s,1\na,t,\nb,s,c0\n"
    assert read_answers(both, spec=spec, name="a.csv") == {"s": {"a": 1, "b": 0}, "t": {"a": None}}
    assert read_answers(b"item,answer\na,1\n", spec=spec, name="a.csv", system="z") == {
        "z": {"a": 1}
    }
    for data in (
        b"item,answer\na,1\n",
        b"item,system,answer\na,s,1\na,s,2\n",
        b"item,system\na,s\n",
        b"item,system,answer\na,s,9\n",
    ):
        with pytest.raises(Refused):
            read_answers(data, spec=spec, name="a.csv")
    for data in (b"item,truth\na,0\na,0\n", b"item\na\n", b"item,truth\na,\n"):
        with pytest.raises(Refused):
            read_gold(data, spec=spec, name="g.csv")


def test_text_that_names_a_class_is_that_class() -> None:
    from noracle.collect.model import ProjectSpec

    spec = ProjectSpec.from_dict({"protocol": "partitioned", "classes": ["2", "1", "0"]})
    assert [class_number("2", spec, "x"), class_number(2, spec, "x")] == [0, 2]


def test_chances_of_a_targeted_design() -> None:
    data = b"item,class,propensity\na,c0,0.5\na,1,0.25\na,2,0.25\n"
    assert read_propensities(data, spec=spec_of(), name="p.csv") == {"a": [0.5, 0.25, 0.25]}
    with pytest.raises(Refused):
        read_propensities(b"item,class,propensity\na,c0,much\n", spec=spec_of(), name="p.csv")


# ------------------------------------------------------------------------------------------------------------
# label studio


def test_label_studio_tasks_become_items() -> None:
    truth = [{"ground_truth": True, "result": [{"type": "choices", "value": {"choices": ["c2"]}}]}]
    said = [{"ground_truth": False, "result": [{"type": "choices", "value": {"choices": ["c1"]}}]}]
    tasks = [
        {"id": 11, "data": {"text": "one"}, "annotations": said},
        {"id": 12, "data": {"abstract": "two"}, "annotations": truth},
        {"id": 13, "data": {"item": "own", "image": "/data/upload/3/0a1b2c3d-red.png"}},
    ]
    found = read_items(
        zip_bytes({"tasks.json": json.dumps(tasks).encode(), "red.png": png()}),
        spec=spec_of(),
        name="x.zip",
    )
    assert [item.name for item in found.items] == ["11", "12", "own"]
    assert [item.truth for item in found.items] == [None, 2, None]
    assert found.items[1].content == {"text": "two"}
    assert found.items[2].content["image"] in found.pictures


@pytest.mark.parametrize(
    "data", [{}, {"a": "x", "b": "y"}, {"n": 1}, {"image": "http://example.org/x.png"}]
)
def test_task_without_one_text_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        read_items(json.dumps([{"id": 1, "data": data}]).encode(), spec=spec_of(), name="x.json")


# ---------------------------------------------------------------------------------------------------------------------
# out


def test_tables_come_back_as_they_were(tmp_path: Path) -> None:
    columns = {"item": "text", "class": "whole", "propensity": "number", "options": "list"}
    rows = [("ü,\"'\n", 3, 0.1 + 0.2, ["a", "b"]), ("b", None, 1e-300, None)]
    for kind, reader in (("parquet", "read_parquet"), ("jsonl", "read_json")):
        path = tmp_path / f"t.{kind}"
        path.write_bytes(table_bytes(ExportTable(columns=columns, rows=rows), kind))  # type: ignore[arg-type]
        assert duckdb.sql(f"SELECT * FROM {reader}('{path}')").fetchall() == rows


def test_names_that_a_reader_would_take_for_numbers_get_a_prefix_in_csv() -> None:
    def names(*given: str) -> str:
        tables = {
            "items": ExportTable(
                columns={"item": "text", "n_classes": "whole"}, rows=[(name, 3) for name in given]
            ),
            "judgements": ExportTable(
                columns={"item": "text", "class": "whole"}, rows=[(given[0], 1)]
            ),
            "empty": ExportTable(columns={"item": "text"}, rows=[]),
        }
        files = table_files(tables, "csv")
        assert set(files) == {"items.csv", "judgements.csv"}
        assert "item:" not in b"".join(table_files(tables, "jsonl").values()).decode()
        return files["judgements.csv"].decode() + files["items.csv"].decode()

    assert "item:" not in names("1", "2", "30")
    assert "item:" not in names("a1", "_2", "nodule")
    for odd in (
        ("1", "a"),
        ("007", "8"),
        ("1.5",),
        ("2020-01-01", "a"),
        ("true", "a"),
        ("1e5",),
        ("-1",),
    ):
        assert f"item:{odd[0]}," in names(*odd)
        kept = f"'{odd[-1]}" if odd[-1].startswith("-") else odd[-1]
        assert names(*odd).endswith(f",{kept}\r\n")
