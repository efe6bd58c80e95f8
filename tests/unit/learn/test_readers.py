"""Readers of items and labels: what each kind of file gives, and one clear error for each kind of
damage.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from noracle.errors import EvidenceError, EvidenceWarning
from noracle.learn.readers import LabelledItems, read_items

FASHION = Path("/usr/share/datasets/fashion-mnist")


def shared(name: str) -> Path:
    folder = os.environ.get("NORACLE_DATA")
    if not folder or not (Path(folder) / name).is_file():
        pytest.skip(f"NORACLE_DATA has no {name}")
    return Path(folder) / name


def refused(path: Path, **options: Any) -> str:
    with pytest.raises(EvidenceError) as raised:
        read_items(path, **options)
    message = str(raised.value)
    assert "\n" not in message
    return message


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def idx(values: np.ndarray, kind: int = 0x08) -> bytes:
    return (
        bytes([0, 0, kind, values.ndim])
        + b"".join(struct.pack(">I", n) for n in values.shape)
        + values.tobytes()
    )


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


# Tables.


def test_table_with_texts_and_sets_separated_by_bars(tmp_path: Path) -> None:
    path = written(
        tmp_path / "t.csv",
        "item,text,ruled_out,label\na,one two,cat|dog,\nb,three,,door\nc,four,door,cat\n",
    )
    read = read_items(path)
    assert read.items == ["one two", "three", "four"]
    assert read.texts
    assert read.classes == ("cat", "dog", "door")
    assert read.ruled_out is not None
    assert read.ruled_out.tolist() == [[0, 1], [-1, -1], [2, -1]]
    assert read.label is not None
    assert read.label.tolist() == [-1, 2, 0]
    assert (list(read.ids), read.columns, len(read), read.n_classes) == (
        ["a", "b", "c"],
        ("text",),
        3,
        3,
    )


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".csv.gz"])
def test_number_columns_are_features_in_every_format(tmp_path: Path, suffix: str) -> None:
    rows = [
        {"u": 0.5, "v": 2, "ruled_out": 3, "label": 1},
        {"u": -1.0, "v": 4, "ruled_out": 10, "label": 3},
    ]
    path = tmp_path / f"t{suffix}"
    if suffix == ".jsonl":
        written(path, "".join(json.dumps(row) + "\n" for row in rows))
    elif suffix.startswith(".csv"):
        text = "u,v,ruled_out,label\n0.5,2,3,1\n-1.0,4,10,3\n"
        path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    else:
        from noracle.cli._output import write_table

        write_table(path, {name: [row[name] for row in rows] for name in rows[0]})
    read = read_items(path)
    assert read.items.tolist() == [[0.5, 2.0], [-1.0, 4.0]]
    assert read.classes == ("1", "3", "10")  # by size, not by the alphabet
    assert read.ruled_out is not None
    assert read.ruled_out.tolist() == [[1], [2]]
    assert read.columns == ("u", "v")


def test_several_ruled_out_columns_keep_their_places_beside_their_annotators(
    tmp_path: Path,
) -> None:
    path = written(
        tmp_path / "t.csv",
        "x,ruled_out_1,ruled_out_2,who1,who2\n1,a,b,ann,bob\n2,,c,ann,cy\n3,a,,,\n",
    )
    read = read_items(path, annotator=["who1", "who2"])
    assert read.ruled_out is not None
    assert read.annotator is not None
    assert read.ruled_out.tolist() == [[0, 1], [-1, 2], [0, -1]]
    assert read.annotator.tolist() == [["ann", "bob"], ["", "cy"], ["", ""]]


def test_one_annotator_said_all_labels_of_a_set(tmp_path: Path) -> None:
    read = read_items(written(tmp_path / "t.csv", "x,ruled_out,annotator\n1,a|b,7\n2,c,9\n"))
    assert read.annotator is not None
    assert read.annotator.tolist() == [["7", "7"], ["9", ""]]
    assert "3 names for 2 labels" in refused(
        written(tmp_path / "u.csv", "x,ruled_out,annotator\n1,a|b,p|q|r\n2,c,9\n")
    )


def test_list_columns_hold_sets_and_embeddings(tmp_path: Path) -> None:
    rows = [
        {"features": [1.0, 2.0], "ruled_out": ["a", "b"]},
        {"features": [3.0, 4.0], "ruled_out": []},
    ]
    read = read_items(written(tmp_path / "t.jsonl", "".join(json.dumps(r) + "\n" for r in rows)))
    assert read.items.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert read.ruled_out is not None
    assert read.ruled_out.tolist() == [[0, 1], [-1, -1]]


def test_labels_alone_need_no_items(tmp_path: Path) -> None:
    read = read_items(written(tmp_path / "t.csv", "item,ruled_out\n1,a\n2,b\n"))
    assert read.items is None
    read = read_items(
        written(tmp_path / "u.csv", "item,note,time,ruled_out\n1,x,3,a\n2,y,4,b\n"), items=()
    )
    assert read.items is None


def test_empty_choice_reads_no_labels(tmp_path: Path) -> None:
    read = read_items(
        written(tmp_path / "t.csv", "text,ruled_out,label\nx,a,b\n"),
        ruled_out=(),
        label=(),
        items="text",
    )
    assert (read.ruled_out, read.label, read.classes) == (None, None, ())


def test_given_classes_fix_the_numbers(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "x,ruled_out\n1,b\n2,a\n")
    read = read_items(path, classes=["b", "z", "a"])
    assert read.ruled_out is not None
    assert read.ruled_out.tolist() == [[0], [2]]
    assert read.classes == ("b", "z", "a")
    message = refused(path, classes=["b", "z"])
    assert message.startswith("ruled_out must be one of the 2 classes (b, z)")
    assert "got 'a' at item 1" in message
    assert "two different names" in refused(path, classes=["a", "a"])


def test_minus_one_in_a_table_is_no_label_and_said_so_unless_it_is_a_class(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "x,ruled_out\n1,-1\n2,0\n3,1\n")
    with pytest.warns(EvidenceWarning, match="-1 is taken as no label, at 1 items"):
        read = read_items(path)
    assert read.classes == ("0", "1")
    read = read_items(path, classes=["-1", "0", "1"])
    assert read.ruled_out is not None
    assert read.ruled_out.tolist() == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "text,more,ruled_out\na,b,c\n",
            {"items": "nothing"},
            "items must be columns of 't.csv' (text, more, ruled_out); got 'nothing'",
        ),
        ("one,more,ruled_out\na,b,c\n", {}, "several that could be (one, more)"),
        (
            "u,v,ruled_out\n1,,a\n2,3,b\n",
            {},
            "items: v must be finite numbers; got something else at item 0",
        ),
        (
            "item,text,ruled_out\np,,a\nq,x,b\n",
            {},
            "items: text must not be empty; got nothing at item p",
        ),
        ("u,note,ruled_out\n1,n,a\n", {"items": ["u", "note"]}, "items: note must be numbers"),
        (
            "u,day,ruled_out\n1,2020-01-02,a\n",
            {"items": ["u", "day"]},
            "items: day must be numbers, as the other columns; got dates",
        ),
        ("text,label\nx,a|b\ny,b\n", {}, "label must be one class per item; got several at item 0"),
        ("text,ruled_out\n", {}, "must be at least one"),
        ("", {}, "must not be empty"),
    ],
)
def test_faults_of_a_table(
    tmp_path: Path, text: str, options: dict[str, Any], message: str
) -> None:
    assert message in refused(written(tmp_path / "t.csv", text), **options)


def test_truncated_parquet_and_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1 and no more")
    assert "complete Parquet file" in refused(path)
    assert "must name a file" in refused(tmp_path / "nowhere.csv")
    assert "must end in" in refused(written(tmp_path / "t.docx", "x"))


# Arrays.


def test_npz_with_images_sets_and_class_names(tmp_path: Path) -> None:
    images = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    np.savez(
        tmp_path / "a.npz",
        images=images,
        ruled_out=[[0, 2], [1, -1]],
        label=[1, -1],
        classes=["p", "q", "r"],
        names=["f", "g"],
    )
    read = read_items(tmp_path / "a.npz")
    assert read.items.shape == (2, 3, 3, 1)
    assert read.items.dtype == np.uint8
    assert read.ruled_out is not None
    assert read.label is not None
    assert (read.ruled_out.tolist(), read.label.tolist()) == ([[0, 2], [1, -1]], [1, -1])
    assert (read.classes, list(read.ids)) == (("p", "q", "r"), ["f", "g"])


def test_mask_keeps_the_number_of_classes(tmp_path: Path) -> None:
    mask = np.array([[True, False, True, False], [False, True, False, False]])
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 5)), ruled_out=mask)
    read = read_items(tmp_path / "a.npz")
    assert read.ruled_out is not None
    assert (read.n_classes, read.ruled_out.tolist()) == (4, [[0, 2], [1, -1]])
    assert "as many as a mask has columns (4)" in refused(
        tmp_path / "a.npz", classes=["a", "b", "c"]
    )


def test_sparse_matrix_in_npz(tmp_path: Path) -> None:
    from scipy import sparse

    matrix = sparse.csr_matrix(np.array([[0.0, 1.0], [2.0, 0.0]]))
    parts = {
        "data": matrix.data,
        "indices": matrix.indices,
        "indptr": matrix.indptr,
        "shape": matrix.shape,
    }
    np.savez(tmp_path / "a.npz", **parts, ruled_out=[0, 1])
    assert read_items(tmp_path / "a.npz").items.toarray().tolist() == [[0.0, 1.0], [2.0, 0.0]]
    np.savez(tmp_path / "b.npz", **{**parts, "indices": np.array([0, 7])})
    assert "complete sparse matrix" in refused(tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"x": np.zeros((3, 2)), "ruled_out": [0, 1]},
            "must be equally many; got items 3, ruled_out 2",
        ),
        (
            {"x": np.array([[0.0], [np.nan]]), "ruled_out": [0, 1]},
            "items must be finite numbers; got NaN or infinity at item 1",
        ),
        (
            {"x": np.zeros((2, 2)), "ruled_out": [0, -2]},
            "one of the 1 classes (0), or -1 or empty for none; got -2 at item 1",
        ),
        ({"x": np.zeros((2, 2)), "ruled_out": [0.5, 1.0]}, "class numbers, names or a mask"),
        ({"x": np.zeros((2, 2)), "ruled_out": [0, 2**40]}, "must be numbered from 0"),
        ({"x": np.zeros(2), "ruled_out": [0, 1]}, "with shape (2,)"),
        ({"x": np.zeros((0, 2))}, "at least one"),
        ({"x": np.array([{}, {}], dtype=object)}, "plain arrays; got arrays of Python objects"),
        ({"jpeg": np.zeros(10, np.uint8), "offset": [0, 5, 11]}, "offset must rise from 0 to 10"),
        ({"jpeg": np.zeros(10, np.uint8), "offset": [0, 5, 5]}, "offset must rise"),
        ({"jpeg": np.zeros(10, np.uint8), "offset": [0, 5, 10]}, "images must be complete"),
    ],
)
def test_faults_of_an_archive(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    assert message in refused(tmp_path / "a.npz")


def test_class_outside_the_given_ones(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), ruled_out=[0, 3, 1])
    assert "got 3 at item 1" in refused(tmp_path / "a.npz", classes=["a", "b", "c"])
    read = read_items(tmp_path / "a.npz", classes=[3, 1, 0])  # whole numbers are names, not places
    assert read.ruled_out is not None
    assert read.ruled_out.tolist() == [[2], [0], [1]]


def test_truncated_archive_and_npy(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((30, 20)))
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(whole[: len(whole) // 2])
    assert "complete npz archive" in refused(tmp_path / "a.npz")
    np.save(tmp_path / "x.npy", np.zeros((30, 20)))
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-10])
    assert "complete npy file" in refused(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert "Python objects" in refused(tmp_path / "x.npy")


def test_npy_folder_is_memory_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", np.zeros((4, 2, 2, 3), np.uint8))
    np.save(tmp_path / "ruled_out.npy", np.array([0, 1, 2, 1]))
    for path in (tmp_path, tmp_path / "images.npy"):
        read = read_items(path)
        assert isinstance(read.items, np.memmap)
        assert read.ruled_out is not None
        assert read.ruled_out.ravel().tolist() == [0, 1, 2, 1]
    np.save(tmp_path / "other.npy", np.array([0, 0, 0, 3]))
    read = read_items(tmp_path / "images.npy", ruled_out="other.npy")
    assert read.n_classes == 4
    assert "must be a file beside" in refused(tmp_path / "images.npy", ruled_out="nowhere.npy")


@pytest.mark.parametrize("packed", [False, True])
def test_idx_pairs(tmp_path: Path, packed: bool) -> None:
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    end = ".gz" if packed else ""
    for name, data in (
        ("train-images-idx3-ubyte", idx(images)),
        ("train-labels-idx1-ubyte", idx(np.array([1, 0], np.uint8))),
    ):
        (tmp_path / (name + end)).write_bytes(gzip.compress(data, mtime=0) if packed else data)
    for path in (tmp_path, tmp_path / f"train-images-idx3-ubyte{end}"):
        read = read_items(path)
        assert np.array_equal(read.items, images[..., None])
        assert read.label is not None
        assert read.label.tolist() == [1, 0]
        assert read.ruled_out is None


def test_idx_of_wide_numbers_is_in_the_order_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "x.idx2").write_bytes(idx(np.array([[1, -2], [3, 70000]], ">i4"), 0x0C))
    assert read_items(tmp_path / "x.idx2").items.tolist() == [[1, -2], [3, 70000]]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "a-idx3-ubyte",
            b"\x00\x01\x08\x01\x00\x00\x00\x01x",
            "magic number of an idx file; got 00010801",
        ),
        (
            "a-idx3-ubyte",
            idx(np.zeros((2, 2), np.uint8))[:-1],
            "must hold 4 bytes after its head, as that says; got 3",
        ),
        ("a-idx3-ubyte", idx(np.zeros((2, 2), np.uint8)) + b"!", "got more"),
        (
            "a-idx3-ubyte.gz",
            gzip.compress(idx(np.zeros((2, 2), np.uint8)), mtime=0)[:-9],
            "complete gzip file",
        ),
        (
            "a-idx3-ubyte.gz",
            gzip.compress(idx(np.zeros((2, 2), np.uint8)) + b"!" * 9, mtime=0),
            "got more",
        ),
        ("a-idx3-ubyte.gz", b"not gzip", "complete gzip file"),
        ("a-idx3-ubyte", bytes([0, 0, 8, 3]) + b"\xff" * 12, "must hold at most"),
        ("a-idx3-ubyte", b"\x00\x00", "magic number"),
    ],
)
def test_faults_of_idx(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert message in refused(tmp_path / name)


# Images.


def test_class_folders_are_true_labels(tmp_path: Path) -> None:
    for name, grey in (("dog", 10), ("cat", 20)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(png(np.full((4, 5), grey, np.uint8)))
    (tmp_path / "dog" / "2.png").write_bytes(png(np.full((4, 5, 3), 30, np.uint8)))
    (tmp_path / "dog" / "notes.txt").write_text("not an image")
    read = read_items(tmp_path)
    assert read.items.shape == (3, 4, 5, 3)
    assert read.items[:, 0, 0, 0].tolist() == [20, 10, 30]
    assert read.label is not None
    assert (read.classes, read.label.tolist(), read.ruled_out) == (("cat", "dog"), [0, 1, 1], None)
    assert list(read.ids) == ["cat/1.png", "dog/1.png", "dog/2.png"]


def test_table_of_files_inside_a_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for i in range(3):
        (tmp_path / "sub" / f"{i}.png").write_bytes(png(np.full((2, 2), 50 * i, np.uint8)))
    table = written(tmp_path / "labels.csv", "file,ruled_out\nsub/2.png,a\nsub/0.png,b|c\n")
    for path in (tmp_path, table):
        read = read_items(path)
        assert read.items[:, 0, 0, 0].tolist() == [100, 0]
        assert read.ruled_out is not None
        assert read.ruled_out.tolist() == [[0, -1], [1, 2]]
        assert list(read.ids) == ["sub/2.png", "sub/0.png"]


@pytest.mark.parametrize("name", ["../secret.png", "/etc/hostname", "nowhere.png"])
def test_table_of_files_cannot_lead_out_of_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.png").write_bytes(png(np.zeros((2, 2), np.uint8)))
    (tmp_path / "inside").mkdir()
    written(tmp_path / "inside" / "t.csv", f"file,ruled_out\n{name},a\n")
    assert "must name images inside the folder" in refused(tmp_path / "inside")


def test_images_that_differ_or_are_broken(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").write_bytes(png(np.zeros((2, 2), np.uint8)))
    (tmp_path / "a" / "2.png").write_bytes(png(np.zeros((2, 3), np.uint8)))
    assert "must be of one size; got 2×2 and 2×3 at item a/2.png" in refused(tmp_path)
    (tmp_path / "a" / "2.png").write_bytes(png(np.zeros((20, 20), np.uint8))[:-40])
    assert "at item a/2.png" in refused(tmp_path)
    (tmp_path / "a" / "2.png").write_bytes(png(np.zeros((2, 2), np.uint16)))
    assert "8 bits a channel" in refused(tmp_path)
    assert "class folders" in refused(_empty(tmp_path / "b"))


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


# Real data.


@pytest.mark.full
def test_cifar10_with_three_human_labels() -> None:
    read = read_items(shared("cifar10_test.npz"))
    assert read.items.shape == (10_000, 32, 32, 3)
    assert read.label is not None
    assert np.bincount(read.label).tolist() == [1000] * 10


@pytest.mark.slow
def test_cifar10n_votes_agree_with_the_key_as_published() -> None:
    read = read_items(shared("cifar10_train.npz"))
    assert read.votes is not None
    assert read.label is not None
    assert read.votes.shape == (50_000, 3)
    assert abs((read.votes == read.label[:, None]).mean() - 0.8233) < 5e-4


def test_medical_abstracts() -> None:
    read: LabelledItems = read_items(shared("medical_abstracts.parquet"), label="condition_label")
    assert read.label is not None
    assert (read.columns, read.classes) == (("medical_abstract",), ("1", "2", "3", "4", "5"))
    assert np.bincount(read.label).tolist() == [633, 299, 385, 610, 961]


@pytest.mark.skipif(
    not FASHION.is_dir(), reason="the Debian package dataset-fashion-mnist is not installed"
)
def test_fashion_mnist_from_its_package() -> None:
    assert len(read_items(FASHION)) == 60_000
    read = read_items(FASHION, items="t10k")
    assert read.items.shape == (10_000, 28, 28, 1)
    assert read.label is not None
    assert np.bincount(read.label).tolist() == [1000] * 10
