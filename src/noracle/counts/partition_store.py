"""What was counted of partitions, kept in a folder so that no partition is read twice.

    index.json        the options of the count, and for each partition its state, its file, its design and the range of its items
    <digest>.npz      one partition, or several that were counted together: the counts, and by partition the keys of its items,
                      by which an item in two partitions is found
    total.npz         the sum of the partitions that index.json names for it

A folder is a plain one, or a place that fsspec knows (``s3://bucket/store``, ``memory://store``).
In a plain folder every file is written under another name and then renamed; elsewhere it is put in
one call, which an object store does whole or not at all. index.json comes last: a run that is
stopped anywhere leaves the store as it was before the partition at hand, and the next run goes on
from there. A partition whose file is gone is counted again. Nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import io
import json
import os
import tempfile
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noracle.counts.counted import Counted
from noracle.counts.met import Aims
from noracle.counts.sketch import Sketch
from noracle.errors import EvidenceError, MissingExtra, fault
from noracle.evidence.files import is_url

SCHEMA = "partition-store/3"
_INDEX, _TOTAL = "index.json", "total.npz"
_BLOCK = 1 << 16
_SKETCHES = ("decisions", "answers_only")
Keys = NDArray[Any]
"""Whole numbers of 64 bits, with a sign where items are whole numbers."""


class Kept(NamedTuple):
    """One counted partition: its counts, the sorted keys of its items, and whether items are whole
    numbers or text.

    ``aims`` is what its propensities say of the design, and ``aim`` the share that it was counted
    with.
    """

    counted: Counted
    keys: Keys
    item_kind: str
    aims: Aims | None = None
    aim: float | None = None


class Together(NamedTuple):
    """Several partitions that were counted as one; each with the sorted keys of its items."""

    counted: Counted
    keys: dict[str, Keys]
    item_kind: str
    aims: Aims | None = None
    aim: float | None = None


class About(NamedTuple):
    """What is known of a partition without reading its file."""

    low: Any
    high: Any
    item_kind: str
    propensities: str
    aims: Aims | None
    aim: float | None


def fingerprint(paths: Sequence[str]) -> str:
    """The state of some files: names, sizes, times of change, and the first and last 64 KiB (in
    Parquet the footer is last).

    A file that was changed in the middle, with the same size and the time of change set back, is
    not noticed.
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
        self.folder = _Remote(os.fspath(folder)) if is_url(folder) else _Folder(folder)
        self._options = json.loads(json.dumps(options))
        self._found = self.folder.names()
        self._index = self._read_index()
        self._sizes = self._counted_together()

    def _read_index(self) -> dict[str, Any]:
        empty: dict[str, Any] = {
            "schema": SCHEMA,
            "options": self._options,
            "partitions": {},
            "total": [],
        }
        if _INDEX not in self._found:
            others = [name for name in self._found if not name.endswith((".npz", ".part"))]
            if others:
                came = f"a folder with {min(others)!r}"
                raise EvidenceError(
                    fault(
                        "store",
                        "must be a new folder or one that this function made",
                        came,
                        remedy="Name another one.",
                    )
                )
            return empty
        path = f"{self.folder.path}/{_INDEX}"
        try:
            index: dict[str, Any] = json.loads(self.folder.read(_INDEX).decode())
            schema = str(index["schema"])
        except (ValueError, KeyError, TypeError):
            raise EvidenceError(
                fault("store", "must hold a readable index.json", path, remedy="Delete the folder.")
            ) from None
        if schema.partition("/")[0] != SCHEMA.partition("/")[0]:
            raise EvidenceError(
                fault(
                    "store",
                    f"must have schema {SCHEMA!r}",
                    repr(schema),
                    remedy="Name another folder.",
                )
            )
        return index if schema == SCHEMA and index["options"] == self._options else empty

    # ------------------------------------------------------------------------------------------------
    # what it knows

    @property
    def names(self) -> list[str]:
        """The partitions that it holds."""
        return [name for name in self._index["partitions"] if self._holds(name)]

    @property
    def listed(self) -> list[str]:
        """The partitions in its index, also those whose counts are lost."""
        return list(self._index["partitions"])

    def _holds(self, name: str) -> bool:
        """Whether the counts of a partition are there, and those that were counted together are
        still together: of a part of them there are no counts.
        """
        entry = self._index["partitions"].get(name)
        return (
            entry is not None
            and entry["file"] in self._found
            and self._sizes[entry["file"]] == entry["together"]
        )

    def state(self, name: str) -> str | None:
        """The fingerprint that a partition had when it was counted; None where it is not known, or
        its file is gone.
        """
        held = self._holds(name)
        return str(self._index["partitions"][name]["fingerprint"]) if held else None

    def about(self, name: str) -> About:
        """The least and the largest key of a partition's items, their kind, and the design of its
        questions.
        """
        e = self._index["partitions"][name]
        return About(
            e["low"],
            e["high"],
            e["item_kind"],
            e["propensities"],
            None if e["aims"] is None else Aims(*e["aims"]),
            e["aim"],
        )

    def keys(self, name: str) -> Keys:
        """The sorted keys of a partition's items."""
        entry = self._index["partitions"][name]
        keys: Keys = self._arrays(entry["file"], only=entry["keys"])[entry["keys"]]
        return keys

    def read(self, names: Sequence[str]) -> list[Counted]:
        """The counts of partitions; one for those that were counted together."""
        files = dict.fromkeys(self._index["partitions"][name]["file"] for name in names)
        return [_unpacked(self._arrays(file)) for file in files]

    def beside(self, names: Sequence[str]) -> set[str]:
        """The partitions that were counted together with some of these, and these."""
        entries = self._index["partitions"]
        files = {entries[name]["file"] for name in names if name in entries}
        return {name for name, e in entries.items() if e["file"] in files} | set(names)

    def total(self, names: Sequence[str]) -> tuple[Counted | None, set[str]]:
        """The sum of some partitions that is there already, if all of them are among ``names``, and
        which these are.
        """
        entries = self._index["partitions"]
        mine = self._index["total"]
        members = {name for name, digest in mine if entries.get(name, {}).get("file") == digest}
        if (
            not mine
            or len(members) != len(mine)
            or not members <= set(names)
            or _TOTAL not in self._found
        ):
            return None, set()
        return _unpacked(self._arrays(_TOTAL)), members

    # ------------------------------------------------------------------------------------------------
    # what it learns

    def add(self, name: str, state: str, kept: Kept) -> None:
        """Keep a partition that was counted. How it was counted is part of the name of its file, so
        that no sum takes it for another.
        """
        self.add_together(
            {name: state},
            Together(kept.counted, {name: kept.keys}, kept.item_kind, kept.aims, kept.aim),
        )

    def add_together(self, states: Mapping[str, str], kept: Together) -> None:
        """Keep partitions that were counted as one; the first of them speaks of their design."""
        counted = [*states.items(), self._options, kept.counted.propensities, kept.aim]
        file = (
            f"{hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()[:24]}.npz"
        )
        places = {name: f"keys{i}" for i, name in enumerate(states)}
        keys = {places[name]: found for name, found in kept.keys.items()}
        self._write(file, {**_packed(kept.counted), **keys})
        entries = self._index["partitions"]
        old = {entries[name]["file"] for name in states if name in entries}
        for name, state in states.items():
            mine = kept.keys[name]
            low, high = (int(mine[0]), int(mine[-1])) if len(mine) else (None, None)
            entries[name] = {
                "fingerprint": state,
                "file": file,
                "keys": places[name],
                "together": len(states),
                "low": low,
                "high": high,
                "item_kind": kept.item_kind,
                "n_items": len(mine),
                "propensities": kept.counted.propensities,
                "aims": kept.aims if places[name] == "keys0" else None,
                "aim": kept.aim,
            }
        self._write_index()
        self._delete_unused(old)

    def forget(self, names: Sequence[str]) -> None:
        """Leave partitions out from now on."""
        files = {self._index["partitions"].pop(name)["file"] for name in names}
        if files:
            self._write_index()
        self._delete_unused(files)

    def keep_total(self, names: Sequence[str], counted: Counted) -> None:
        """Keep the sum of partitions. A sum belongs to the index that names it, so the index
        forgets the old one first.
        """
        self._index["total"] = []
        self._write_index()
        self._write(_TOTAL, _packed(counted))
        self._index["total"] = [[name, self._index["partitions"][name]["file"]] for name in names]
        self._write_index()
        used = {entry["file"] for entry in self._index["partitions"].values()} | {_TOTAL, _INDEX}
        for name in sorted(
            self._found - used
        ):  # what a run that was stopped has left; not what another run is writing now
            self._delete(name)

    # ------------------------------------------------------------------------------------------------
    # files

    def _counted_together(self) -> Counter[str]:
        """How many partitions each file of counts speaks of."""
        return Counter(entry["file"] for entry in self._index["partitions"].values())

    def _write_index(self) -> None:
        self._sizes = self._counted_together()
        self.folder.write(_INDEX, json.dumps(self._index, ensure_ascii=False, indent=0).encode())
        self._found.add(_INDEX)

    def _write(self, file: str, arrays: Mapping[str, Any]) -> None:
        data = io.BytesIO()
        np.savez(data, **arrays)
        self.folder.write(file, data.getvalue())
        self._found.add(file)

    def _delete_unused(self, files: set[str]) -> None:
        used = {entry["file"] for entry in self._index["partitions"].values()}
        for file in sorted(files - used):
            self._delete(file)

    def _delete(self, file: str) -> None:
        self.folder.delete(file)
        self._found.discard(file)

    def _arrays(self, file: str, only: str | None = None) -> dict[str, Any]:
        try:
            with self.folder.open(file) as handle, np.load(handle, allow_pickle=False) as found:
                return {name: found[name] for name in ([only] if only else found.files)}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            came = f"a broken {self.folder.path}/{file}"
            raise EvidenceError(
                fault("store", "must hold whole files", came, remedy="Delete the folder.")
            ) from None


class _Folder:
    """A folder on this machine: no library is needed, and a file is there whole or not at all."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EvidenceError(
                fault(
                    "store",
                    "must be a folder that can be made",
                    f"{str(folder)!r} ({error.strerror})",
                )
            ) from None

    def names(self) -> set[str]:
        return {entry.name for entry in self.path.iterdir()}

    def open(self, name: str) -> IO[bytes]:
        return (self.path / name).open("rb")

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        handle, part = tempfile.mkstemp(dir=self.path, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(part).replace(self.path / name)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(part).unlink()
            raise

    def delete(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)


class _Remote:
    """A folder that fsspec reaches."""

    def __init__(self, url: str) -> None:
        try:
            fsspec = importlib.import_module("fsspec")
        except ImportError:
            raise MissingExtra(
                f"A store at {url.partition('://')[0]}://", "fsspec", "store"
            ) from None
        self.path = url.rstrip("/")
        try:
            self._system, self._folder = fsspec.core.url_to_fs(self.path)
            self._system.makedirs(self._folder, exist_ok=True)
        except (ImportError, OSError, ValueError) as error:
            came = f"{url!r} ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
            raise EvidenceError(
                fault(
                    "store", "must be a place that fsspec opens", came, remedy="Check the address."
                )
            ) from None

    def names(self) -> set[str]:
        self._system.invalidate_cache()
        return {
            str(path).rstrip("/").rsplit("/", 1)[-1]
            for path in self._system.ls(self._folder, detail=False)
        }

    def open(self, name: str) -> IO[bytes]:
        return io.BytesIO(self.read(name))

    def read(self, name: str) -> bytes:
        data: bytes = self._system.cat_file(f"{self._folder}/{name}")
        return data

    def write(self, name: str, data: bytes) -> None:
        self._system.pipe_file(f"{self._folder}/{name}", data)

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(f"{self._folder}/{name}")


def _packed(counted: Counted) -> dict[str, Any]:
    """Counts as arrays: the sketches, which may be large, as they are, and the rest as JSON."""
    small = dataclasses.replace(counted, decisions=None, answers_only=None).to_dict()
    arrays: dict[str, Any] = {}
    for name in _SKETCHES:
        sketch: Sketch | None = getattr(counted, name)
        if sketch is not None:
            small[name] = {"classifiers": sketch.classifiers, "labels": sketch.labels}
            arrays |= {
                f"{name}_patterns": sketch.patterns,
                f"{name}_allowed": np.packbits(sketch.allowed, axis=1),
                f"{name}_n": sketch.n,
            }
    arrays["json"] = np.frombuffer(json.dumps(small, allow_nan=False).encode(), dtype=np.uint8)
    return arrays


def _unpacked(arrays: Mapping[str, Any]) -> Counted:
    small = json.loads(arrays["json"].tobytes())
    sketches: dict[str, Sketch] = {}
    for name in _SKETCHES:
        about = small.pop(name)
        if about is not None:
            labels = tuple(about["labels"])
            allowed = np.unpackbits(arrays[f"{name}_allowed"], axis=1, count=len(labels)).astype(
                bool
            )
            sketches[name] = Sketch(
                classifiers=tuple(about["classifiers"]),
                labels=labels,
                patterns=arrays[f"{name}_patterns"],
                allowed=allowed,
                n=arrays[f"{name}_n"],
            )
    return dataclasses.replace(Counted.from_dict(small), **sketches)  # type: ignore[arg-type]
