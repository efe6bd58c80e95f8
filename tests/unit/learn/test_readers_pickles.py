"""Pickles of data are read; a pickle that would do anything is refused, and does nothing."""

from __future__ import annotations

import builtins
import io
import os
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noracle.errors import EvidenceError
from noracle.learn import files as _pickles
from noracle.learn.files import read_pickle
from noracle.learn.readers import read_items


def dumped(path: Path, value: Any, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_climage_layout_in_every_protocol(tmp_path: Path, protocol: int) -> None:
    rng = np.random.default_rng(1)
    images = [rng.integers(0, 256, (4, 4, 3), dtype=np.uint8) for _ in range(5)]
    stored = {
        "names": [f"image_{i}.png" for i in range(5)],
        "images": images,
        "ord_labels": [0, 1, 2, 3, 1],
        "cl_labels": [[1, 2, 3], [0, 0, 2], [3, 1, 0], [0, 1, 2], [2, 3, 0]],
    }
    read = read_items(dumped(tmp_path / "clcifar10.pkl", stored, protocol))
    assert np.array_equal(read.items, np.stack(images))
    assert read.ruled_out is not None
    assert read.label is not None
    assert read.ruled_out.tolist() == stored["cl_labels"]
    assert read.label.tolist() == stored["ord_labels"]
    assert list(read.ids) == stored["names"]
    assert read.classes == ("0", "1", "2", "3")


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize(
    "value",
    [
        np.arange(12, dtype=np.int64).reshape(3, 4),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.array(["ab", "c"]),
        np.array([True, False]),
        np.zeros((0, 3), np.float32),
        np.arange(24.0).reshape(2, 3, 4)[:, ::2],
    ],
    ids=["int64", "fortran", "big-endian", "text", "bool", "empty", "strided"],
)
def test_arrays_come_back_as_they_were(tmp_path: Path, value: np.ndarray, protocol: int) -> None:
    found = read_pickle(
        dumped(
            tmp_path / "a.pkl", {"a": value, "b": [value, (np.float64(0.5), np.int8(-3))]}, protocol
        )
    )
    assert np.array_equal(found["a"], value)
    assert found["a"].dtype == value.dtype.newbyteorder("=")
    assert np.array_equal(found["b"][0], value)
    assert found["b"][1] == [0.5, -3]


def test_array_of_objects_is_a_list_of_plain_values(tmp_path: Path) -> None:
    value = np.empty(2, dtype=object)
    value[:] = [np.zeros((2, 2), np.uint8), "x"]
    found = read_pickle(dumped(tmp_path / "a.pkl", value))
    assert isinstance(found, list)
    assert (found[0].shape, found[1]) == ((2, 2), "x")


class _Acts:
    """Makes a file when it is unpickled by anything that runs it."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.arguments


def payloads(flag: Path) -> dict[str, bytes]:
    act = _Acts(os.system, f"touch {flag}")
    inside = np.empty(1, dtype=object)
    inside[0] = act
    shell = f"touch {flag}"
    return {
        "os.system": pickle.dumps(act),
        "nested": pickle.dumps({"images": [[{"deep": (1, act)}]]}),
        "as a key": pickle.dumps({"a": 1, _Acts(os.system, shell): 2}),
        "object array": pickle.dumps(inside),
        "eval": pickle.dumps(_Acts(builtins.eval, f"__import__('os').system({shell!r})")),
        "subprocess": pickle.dumps(_Acts(subprocess.call, ["touch", str(flag)])),
        "open": pickle.dumps(_Acts(builtins.open, str(flag), "w")),
        "getattr": pickle.dumps(_Acts(builtins.getattr, "x", "upper")),
        "old opcodes": f"(S'{shell}'\nios\nsystem\n.".encode(),
        "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c"
        + bytes([len(shell)])
        + shell.encode()
        + b"\x85R.",
        "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x13dtype.__init__.__gl\x93.",
        "numpy.load": b"\x80\x04\x8c\x05numpy\x8c\x04load\x93.",
        "numpy exec": b"\x80\x04\x8c\x14numpy.testing._private\x8c\x05utils\x93.",
        "ndarray called": b"\x80\x04\x8c\x05numpy\x8c\x07ndarray\x93K\x05\x85R.",
        "extension": b"\x80\x02\x82\x01.",
        "persistent": b"\x80\x02Phello\n.",
        "codec": b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00xX\x03\x00\x00\x00zip\x86R.",
        "changed function": b"\x80\x02c_codecs\nencode\n}b.",
        "many bytes": b"\x80\x02c__builtin__\nbytes\nJ\xff\xff\xff\x7f\x85R.",
        "new object": b"\x80\x02cnumpy\ndtype\n)\x81.",
        "structured type": pickle.dumps(np.zeros(2, dtype=[("a", "i4"), ("b", "O")])),
        "datetime": pickle.dumps(np.array(["2020-01-01"], dtype="M8[D]")),
    }


NAMES = sorted(payloads(Path("x")))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_in_a_hostile_pickle_runs(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "flag"
    path = tmp_path / "evil.pkl"
    path.write_bytes(payloads(flag)[name])
    before = set(sys.modules)
    with pytest.raises(EvidenceError, match="Nothing in it was run"):
        read_items(path)
    assert not flag.exists()
    assert set(sys.modules) - before == set()


def test_the_payload_would_have_acted(tmp_path: Path) -> None:
    """The flag is a fair witness: the library that we do not use does make it."""
    flag = tmp_path / "flag"
    pickle.loads(payloads(flag)["os.system"])
    assert flag.exists()


def test_forged_type_state_cannot_claim_that_bytes_are_objects(tmp_path: Path) -> None:
    """Numpy's own reader believes the flags of a type; with them plain bytes would be taken for
    addresses.
    """
    honest = pickle.dumps(np.arange(2, dtype=np.int64), protocol=2)
    assert read_pickle(_put(tmp_path / "a.pkl", honest)).tolist() == [0, 1]
    code = next(arg for op, arg, _ in pickletools.genops(honest) if arg == "i8")
    assert code == "i8"
    for wrong in (b"O8", b"V8", b"M8"):
        forged = honest.replace(b"i8", wrong)
        with pytest.raises(EvidenceError):
            read_pickle(_put(tmp_path / "b.pkl", forged))


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04\x8e" + (2**62).to_bytes(8, "little") + b"x.",  # bytes
        b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b"x.",  # bytearray
        b"\x80\x04\x95" + (2**62).to_bytes(8, "little") + b"N.",  # frame
        b"\x80\x04Nr\xff\xff\xff\x7f.",  # a place in the memo
        b"\x80\x04\x8b" + (2**31 - 1).to_bytes(4, "little") + b"\x01.",  # a long number
    ],
    ids=["bytes", "bytearray", "frame", "memo", "long"],
)
def test_promised_sizes_take_no_memory(tmp_path: Path, data: bytes) -> None:
    import tracemalloc

    path = _put(tmp_path / "a.pkl", data)
    tracemalloc.start()
    try:
        try:
            assert read_pickle(path) is None
        except EvidenceError:
            pass
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_values_inside_themselves_and_many_times_over(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(EvidenceError, match="inside itself"):
        read_pickle(dumped(tmp_path / "a.pkl", loop))
    deep: list[Any] = []
    for _ in range(50):
        deep = [deep]
    with pytest.raises(EvidenceError, match="inside each other"):
        read_pickle(dumped(tmp_path / "b.pkl", deep))
    laughs: list[Any] = ["ha"]
    for _ in range(15):
        laughs = [laughs] * 10  # 10^15 in all, 150 in the file
    assert len(read_pickle(dumped(tmp_path / "c.pkl", laughs))) == 10


def test_too_large_truncated_and_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = dumped(
        tmp_path / "a.pkl", {"images": np.zeros((5, 2, 2), np.uint8), "cl_labels": [0, 1, 0, 1, 0]}
    )
    whole = path.read_bytes()
    for end in range(1, len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(EvidenceError):
            read_items(path)
    with pytest.raises(EvidenceError, match="at most 10 bytes"):
        read_pickle(_put(path, whole), limit=10)
    with pytest.raises(EvidenceError, match="dict of arrays; got a list"):
        read_items(dumped(path, [1, 2]))
    with pytest.raises(EvidenceError):
        read_items(_put(path, b"\x89PNG\r\n\x1a\n"))
    assert _pickles.MAX_PICKLE_BYTES == 2 << 30


def test_changed_bytes_never_escape(tmp_path: Path) -> None:
    """Whatever one byte of a file becomes: read, or refused by name."""
    rng = np.random.default_rng(3)
    value = {
        "images": [np.zeros((2, 2, 3), np.uint8)] * 2,
        "cl_labels": [[0, 1], [1, 2]],
        "names": ["a", "b"],
    }
    whole = bytearray(pickle.dumps(value, protocol=2))
    path = tmp_path / "a.pkl"
    for _ in range(600):
        changed = bytearray(whole)
        changed[rng.integers(len(whole))] = rng.integers(256)
        try:
            read_items(_put(path, bytes(changed)))
        except EvidenceError:
            pass


def _put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_reader_is_the_one_written_in_python() -> None:
    assert not issubclass(_pickles._PlainUnpickler, pickle.Unpickler)
    assert issubclass(_pickles._PlainUnpickler, pickle._Unpickler)  # type: ignore[attr-defined]
    assert pickle._Unpickler(io.BytesIO(b"N.")).load() is None  # type: ignore[attr-defined]
