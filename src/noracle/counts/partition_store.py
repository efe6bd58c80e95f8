"""What was counted of partitions, kept in a folder so that no partition is read twice.

    index.json        the options of the count, and for each partition its state, its file and the range of its items
    <digest>.npz      one partition: its counts, and the keys of its items, by which an item in two partitions is found
    total.npz         the sum of the partitions that index.json names for it

Every file is written under another name and then renamed, index.json last: a run that is stopped anywhere leaves the store as it was
before the partition at hand, and the next run goes on from there. Nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noracle.counts.counted import Counted
from noracle.counts.sketch import Sketch
from noracle.errors import EvidenceError, fault

SCHEMA = "partition-store/1"
_BLOCK = 1 << 16
_SKETCHES = ("decisions", "answers_only")
Keys = NDArray[Any]
"""Whole numbers of 64 bits, with a sign where items are whole numbers."""


class Kept(NamedTuple):
    """One counted partition: its counts, the sorted keys of its items, and whether items are whole numbers or text."""

    counted: Counted
    keys: Keys
    item_kind: str


def fingerprint(paths: Sequence[str]) -> str:
    """The state of some files: names, sizes, times of change, and the first and last 64 KiB (in Parquet the footer is last).

    A file that was changed in the middle, with the same size and the time of change set back, is not noticed.
    """
    state = hashlib.sha256()
    for path in sorted(paths):
        file = Path(path)
        about = file.stat()
        state.update(f"{path}\0{about.st_size}\0{about.st_mtime_ns}\0".encode())
        with file.open("rb") as handle:
            state.update(handle.read(_BLOCK))
            handle.seek(max(0, about.st_size - _BLOCK))
            state.update(handle.read(_BLOCK))
    return state.hexdigest()


class PartitionStore:
    """A folder of counted partitions for one set of options; other options empty it."""

    def __init__(self, folder: str | os.PathLike[str], options: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._options = json.loads(json.dumps(options))
        self._index = self._read_index()

    def _read_index(self) -> dict[str, Any]:
        empty: dict[str, Any] = {"schema": SCHEMA, "options": self._options, "partitions": {}, "total": []}
        path = self.folder / "index.json"
        if not path.exists():
            others = [entry.name for entry in self.folder.iterdir() if entry.suffix not in {".npz", ".part"}]
            if others:
                came = f"a folder with {min(others)!r}"
                raise EvidenceError(fault("store", "must be a new folder or one that this function made", came, remedy="Name another one."))
            return empty
        try:
            index: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            schema = index["schema"]
        except (ValueError, KeyError, TypeError):
            raise EvidenceError(fault("store", "must hold a readable index.json", str(path), remedy="Delete the folder.")) from None
        if schema != SCHEMA:
            raise EvidenceError(fault("store", f"must have schema {SCHEMA!r}", repr(schema), remedy="Name another folder."))
        return index if index["options"] == self._options else empty

    # ------------------------------------------------------------------------------------------------ what it knows

    @property
    def names(self) -> list[str]:
        """The partitions that it holds."""
        return list(self._index["partitions"])

    def state(self, name: str) -> str | None:
        """The fingerprint that a partition had when it was counted."""
        entry = self._index["partitions"].get(name)
        return None if entry is None else str(entry["fingerprint"])

    def span(self, name: str) -> tuple[Any, Any, str]:
        """The least and the largest key of a partition's items, and their kind."""
        entry = self._index["partitions"][name]
        return entry["low"], entry["high"], str(entry["item_kind"])

    def keys(self, name: str) -> Keys:
        """The sorted keys of a partition's items."""
        keys: Keys = self._arrays(self._index["partitions"][name]["file"], only="keys")["keys"]
        return keys

    def read(self, name: str) -> Counted:
        """The counts of a partition."""
        return _unpacked(self._arrays(self._index["partitions"][name]["file"]))

    def total(self, names: Sequence[str]) -> tuple[Counted | None, set[str]]:
        """The sum of some partitions that is there already, if all of them are among ``names``, and which these are."""
        entries = self._index["partitions"]
        mine = self._index["total"]
        members = {name for name, digest in mine if entries.get(name, {}).get("file") == digest}
        if not mine or len(members) != len(mine) or not members <= set(names):
            return None, set()
        return _unpacked(self._arrays("total.npz")), members

    # ------------------------------------------------------------------------------------------------ what it learns

    def add(self, name: str, state: str, kept: Kept) -> None:
        """Keep a partition that was counted."""
        digest = hashlib.sha256(json.dumps([name, state, self._options], sort_keys=True).encode()).hexdigest()[:24]
        file = f"{digest}.npz"
        self._write(file, {**_packed(kept.counted), "keys": kept.keys})
        old = self._index["partitions"].get(name)
        low, high = (int(kept.keys[0]), int(kept.keys[-1])) if len(kept.keys) else (None, None)
        self._index["partitions"][name] = {
            "fingerprint": state, "file": file, "low": low, "high": high, "item_kind": kept.item_kind, "n_items": len(kept.keys),
        }  # fmt: skip
        self._write_index()
        if old is not None and old["file"] != file:
            (self.folder / old["file"]).unlink(missing_ok=True)

    def forget(self, names: Sequence[str]) -> None:
        """Leave partitions out from now on."""
        files = [self._index["partitions"].pop(name)["file"] for name in names]
        if files:
            self._write_index()
        for file in files:
            (self.folder / file).unlink(missing_ok=True)

    def keep_total(self, names: Sequence[str], counted: Counted) -> None:
        """Keep the sum of partitions. A sum belongs to the index that names it, so the index forgets the old one first."""
        self._index["total"] = []
        self._write_index()
        self._write("total.npz", _packed(counted))
        self._index["total"] = [[name, self._index["partitions"][name]["file"]] for name in names]
        self._write_index()
        used = {entry["file"] for entry in self._index["partitions"].values()} | {"total.npz"}
        for path in self.folder.iterdir():  # what a run that was stopped has left
            if path.suffix in {".npz", ".part"} and path.name not in used:
                path.unlink(missing_ok=True)

    # ------------------------------------------------------------------------------------------------ files

    def _write_index(self) -> None:
        text = json.dumps(self._index, ensure_ascii=False, indent=0)
        self._replace("index.json", lambda handle: handle.write(text.encode()))

    def _write(self, file: str, arrays: Mapping[str, Any]) -> None:
        self._replace(file, lambda handle: np.savez(handle, **arrays))

    def _replace(self, file: str, write: Any) -> None:
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as part:
                write(part)
                part.flush()
                os.fsync(part.fileno())
            Path(name).replace(self.folder / file)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise

    def _arrays(self, file: str, only: str | None = None) -> dict[str, Any]:
        path = self.folder / file
        try:
            with path.open("rb") as handle, np.load(handle, allow_pickle=False) as found:
                return {name: found[name] for name in ([only] if only else found.files)}
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            raise EvidenceError(fault("store", "must hold whole files", f"a broken {path}", remedy="Delete the folder.")) from None


def _packed(counted: Counted) -> dict[str, Any]:
    """Counts as arrays: the sketches, which may be large, as they are, and the rest as JSON."""
    small = dataclasses.replace(counted, decisions=None, answers_only=None).to_dict()
    arrays: dict[str, Any] = {}
    for name in _SKETCHES:
        sketch: Sketch | None = getattr(counted, name)
        if sketch is not None:
            small[name] = {"classifiers": sketch.classifiers, "labels": sketch.labels}
            arrays |= {f"{name}_patterns": sketch.patterns, f"{name}_allowed": np.packbits(sketch.allowed, axis=1), f"{name}_n": sketch.n}
    arrays["json"] = np.frombuffer(json.dumps(small, allow_nan=False).encode(), dtype=np.uint8)
    return arrays


def _unpacked(arrays: Mapping[str, Any]) -> Counted:
    small = json.loads(arrays["json"].tobytes())
    sketches: dict[str, Sketch] = {}
    for name in _SKETCHES:
        about = small.pop(name)
        if about is not None:
            labels = tuple(about["labels"])
            allowed = np.unpackbits(arrays[f"{name}_allowed"], axis=1, count=len(labels)).astype(bool)
            sketches[name] = Sketch(
                classifiers=tuple(about["classifiers"]), labels=labels, patterns=arrays[f"{name}_patterns"], allowed=allowed,
                n=arrays[f"{name}_n"],
            )  # fmt: skip
    return dataclasses.replace(Counted.from_dict(small), **sketches)  # type: ignore[arg-type]
