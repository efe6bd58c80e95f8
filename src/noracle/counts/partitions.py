"""Counting partition by partition: yesterday's partition is read once and never again.

Counts of partitions add only where no item is in two of them. That is not taken on trust: the items
of every partition are kept as sorted keys (8 bytes per item), and partitions whose ranges of keys
overlap are compared. A key is the item itself where items are whole numbers, else 64 bits of the
MD5 of its text; texts behind equal keys are compared themselves.

Many new partitions at once, as on the first day of a store, are counted several together, which
takes a fraction of the queries. Where one of them changes or goes, those beside it are read again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import io
import json
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from noracle._version import __version__
from noracle.counts.count import Aims, aims_of
from noracle.counts.sketch import Sketch
from noracle.counts.totals import Counted, Reading, count_evidence
from noracle.errors import EvidenceError, MissingExtra, require, require_evidence
from noracle.evidence.evidence import Conflicts, Evidence, Repeats
from noracle.evidence.frames import Frame, distinct, fetch, fetch_arrays, files_of, is_there, is_url
from noracle.evidence.labels import as_recorded, gather, propensities_of
from noracle.evidence.tables import Shape
from noracle.files import replacing

SCHEMA = "partition-store/3"
_INDEX, _TOTAL = "index.json", "total.npz"
_BLOCK = 1 << 16
_SKETCHES = ("decisions", "answers_only")
Keys = NDArray[Any]
"""Whole numbers of 64 bits, with a sign where items are whole numbers."""


class Kept(NamedTuple):
    """Partitions that were counted as one: counts, sorted keys of the items, kind of item.

    ``aims`` is what their propensities say of the design, and ``aim`` the share that they were
    counted with.
    """

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
    """The state of some files: names, sizes, times of change, first and last 64 KiB.

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
        about = {"schema": SCHEMA, "options": self._options}
        empty: dict[str, Any] = {**about, "partitions": {}, "total": []}
        if _INDEX not in self._found:
            others = [name for name in self._found if not name.endswith((".npz", ".tmp"))]
            came = f"a folder with {min(others, default='')!r}"
            rule = "must be a new folder or one that this function made"
            require_evidence(not others, "store", rule, came, remedy="Name another one.")
            return empty
        path = f"{self.folder.path}/{_INDEX}"
        try:
            index: dict[str, Any] = json.loads(self.folder.read(_INDEX).decode())
            schema = str(index["schema"])
        except (ValueError, KeyError, TypeError):
            rule = "must hold a readable index.json"
            raise EvidenceError.of("store", rule, path, remedy="Delete the folder.") from None
        kind, remedy = SCHEMA.rpartition("/")[0], "Name another folder."
        ours = schema.partition("/")[0] == kind
        require_evidence(ours, "store", f"must have schema {SCHEMA!r}", repr(schema), remedy=remedy)
        return index if schema == SCHEMA and index["options"] == self._options else empty

    @property
    def names(self) -> list[str]:
        """The partitions that it holds."""
        return [name for name in self._index["partitions"] if self._holds(name)]

    @property
    def listed(self) -> list[str]:
        """The partitions in its index, also those whose counts are lost."""
        return list(self._index["partitions"])

    def _holds(self, name: str) -> bool:
        """Whether the counts are there, with all partitions that were counted together."""
        entry = self._index["partitions"].get(name, {"file": None})
        return entry["file"] in self._found and self._sizes[entry["file"]] == entry["together"]

    def state(self, name: str) -> str | None:
        """The fingerprint of a partition when it was counted; None if unknown, or lost."""
        held = self._holds(name)
        return str(self._index["partitions"][name]["fingerprint"]) if held else None

    def about(self, name: str) -> About:
        """The keys' ends, their kind, and the design of a partition's questions."""
        entry = {field: self._index["partitions"][name][field] for field in About._fields}
        return About(**{**entry, "aims": None if entry["aims"] is None else Aims(*entry["aims"])})

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
        """The sum that is there already, if all its partitions are ``names``, and which."""
        entries = self._index["partitions"]
        mine = self._index["total"]
        members = {name for name, digest in mine if entries.get(name, {}).get("file") == digest}
        whole = bool(mine) and len(members) == len(mine) and _TOTAL in self._found
        if not whole or not members <= set(names):
            return None, set()
        return _unpacked(self._arrays(_TOTAL)), members

    def add(self, states: Mapping[str, str], kept: Kept) -> None:
        """Keep partitions that were counted as one, with the state of each; the first of them
        speaks of their design. How they were counted is part of the name of their file, so that no
        sum takes it for another.
        """
        counted = [*states.items(), self._options, kept.counted.propensities, kept.aim]
        digest = hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()
        file = f"{digest[:24]}.npz"
        places = {name: f"keys{i}" for i, name in enumerate(states)}
        keys = {places[name]: found for name, found in kept.keys.items()}
        self._write(file, {**_packed(kept.counted), **keys})
        entries = self._index["partitions"]
        old = {entries[name]["file"] for name in states if name in entries}
        shared = {"file": file, "together": len(states), "item_kind": kept.item_kind}
        shared |= {"propensities": kept.counted.propensities, "aim": kept.aim}
        for name, state in states.items():
            mine, place = kept.keys[name], places[name]
            own = dict(zip(("low", "high"), _ends(mine), strict=True))
            own |= {"fingerprint": state, "keys": place, "n_items": len(mine)}
            entries[name] = {**shared, **own, "aims": kept.aims if place == "keys0" else None}
        self._write_index()
        self._delete_unused(old)

    def forget(self, names: Sequence[str]) -> None:
        """Leave partitions out from now on."""
        files = {self._index["partitions"].pop(name)["file"] for name in names}
        if files:
            self._write_index()
        self._delete_unused(files)

    def keep_total(self, names: Sequence[str], counted: Counted) -> None:
        """Keep the sum of partitions; the index that names it forgets the old one first."""
        self._index["total"] = []
        self._write_index()
        self._write(_TOTAL, _packed(counted))
        self._index["total"] = [[name, self._index["partitions"][name]["file"]] for name in names]
        self._write_index()
        used = {entry["file"] for entry in self._index["partitions"].values()} | {_TOTAL, _INDEX}
        for name in sorted(self._found - used):  # left by a run that was stopped
            self._delete(name)

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
            rule = "must hold whole files"
            raise EvidenceError.of("store", rule, came, remedy="Delete the folder.") from None


class _Folder:
    """A folder on this machine: no library is needed, and a file is there whole or not at all."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            came = f"{str(folder)!r} ({error.strerror})"
            raise EvidenceError.of("store", "must be a folder that can be made", came) from None

    def names(self) -> set[str]:
        return {entry.name for entry in self.path.iterdir()}

    def open(self, name: str) -> IO[bytes]:
        return (self.path / name).open("rb")

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        with replacing(self.path / name, durable=True) as part:
            part.write_bytes(data)

    def delete(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)


class _Remote:
    """A folder that fsspec reaches."""

    def __init__(self, url: str) -> None:
        try:
            fsspec = importlib.import_module("fsspec")
        except ImportError:
            what = f"A store at {url.partition('://')[0]}://"
            raise MissingExtra(what, "fsspec", "store") from None
        self.path = url.rstrip("/")
        try:
            self._system, self._folder = fsspec.core.url_to_fs(self.path)
            self._system.makedirs(self._folder, exist_ok=True)
        except (ImportError, OSError, ValueError) as error:
            came = f"{url!r} ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
            rule = "must be a place that fsspec opens"
            raise EvidenceError.of("store", rule, came, remedy="Check the address.") from None

    def names(self) -> set[str]:
        self._system.invalidate_cache()
        paths = self._system.ls(self._folder, detail=False)
        return {str(path).rstrip("/").rsplit("/", 1)[-1] for path in paths}

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
            bits = np.unpackbits(arrays[f"{name}_allowed"], axis=1, count=len(labels))
            sketches[name] = Sketch(
                classifiers=tuple(about["classifiers"]),
                labels=labels,
                patterns=arrays[f"{name}_patterns"],
                allowed=bits.astype(bool),
                n=arrays[f"{name}_n"],
            )
    return dataclasses.replace(Counted.from_dict(small), **sketches)  # type: ignore[arg-type]


def item_keys(evidence: Evidence) -> tuple[Keys, str]:
    """The sorted keys of all items in any table, and the kind of the items: ``whole`` (the key is
    the item) or ``text``.
    """
    frames = _item_frames(evidence)
    whole = frames[0].collect_schema()["item"] == nw.Int64
    pools = [fetch_arrays(f)["item"].astype(np.int64) if whole else _hashed(f) for f in frames]
    keys: Keys = np.unique(np.concatenate(pools))
    return keys, "whole" if whole else "text"


def items_with(evidence: Evidence, keys: Keys) -> set[str]:
    """The items of text that have one of these keys."""
    wanted = set(keys.tolist())
    texts = (str(row[0]) for frame in _item_frames(evidence) for row in fetch(frame))
    return {text for text in texts if key_of(text) in wanted}


def key_of(item: str) -> int:
    """The key of a text: the second half of its MD5, as DuckDB's ``md5_number_lower``."""
    return int.from_bytes(hashlib.md5(item.encode(), usedforsecurity=False).digest()[8:], "little")


def _item_frames(evidence: Evidence) -> list[Frame]:
    """The items of each table, each once."""
    given = (evidence.answers, evidence.grades, evidence.items)
    tables = [frame for frame in given if frame is not None]
    frames: list[Frame] = []
    if evidence.judgements is not None and "labels" in evidence._kept:
        frames = [gather(evidence).items.select("item")]
    elif evidence.judgements is not None:
        tables.insert(0, evidence.judgements)
    return frames + [distinct(frame.filter(is_there("item")), "item") for frame in tables]


def _hashed(frame: Frame) -> Any:
    native: Any = frame.to_native()
    if frame.implementation.is_duckdb():
        hashed = native.select("md5_number_lower(item) AS item").fetchnumpy()["item"]
        return np.asarray(hashed).astype(np.uint64)
    return np.array([key_of(str(row[0])) for row in fetch(frame)], dtype=np.uint64)


Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_NAMES = ("answers", "judgements", "grades", "items")
_HIVE = re.compile(r"[^=]+=[^=]*")
_MANY, _TOGETHER = 8, 25
"""So many new partitions are counted together, and at most so many at once."""
_TABLE = re.compile(r"(answers?|judge?ments?|grades?|items?)", flags=re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The files that hold all that was said of some items."""

    name: str
    answers: tuple[str, ...] = ()
    judgements: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    grades: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """All files."""
        return tuple(path for name in _NAMES for path in getattr(self, name))


def pair_partitions(
    answers: Paths = (), judgements: Paths = (), items: Paths = (), *, grades: Paths = ()
) -> tuple[Partition, ...]:
    """Partitions out of the files of each table.

    Files belong together that share their Hive keys (``day=2026-03-01``), else their name without
    the words answers, judgements, grades and items, else the name of their folder. Where that does
    not pair the files, there is one partition with all of them.

    Parameters
    ----------
    answers, judgements, items, grades
        Paths or globs.

    Examples
    --------
    >>> pairs = pair_partitions(["answers/day=1/a.parquet", "answers/day=2/a.parquet"], ["judgements/day=1/j.parquet"])
    >>> [(p.name, len(p.judgements)) for p in pairs]
    [('day=1', 1), ('day=2', 0)]
    """
    given = {"answers": answers, "judgements": judgements, "items": items, "grades": grades}
    tables = {name: _listed(paths) for name, paths in given.items()}
    keyed: dict[str, dict[str, list[str]]] = {name: {} for name in tables}
    for name, paths in tables.items():
        for path in paths:
            keyed[name].setdefault(_key(path), []).append(path)
    keys = keyed["answers"].keys() or keyed["judgements"].keys() or keyed["grades"].keys()
    said = keyed["judgements"].keys() | keyed["grades"].keys()
    paired = said <= keys and (not keyed["items"] or keyed["items"].keys() == keys)
    if not paired:
        return (Partition(name="all", **{name: tuple(paths) for name, paths in tables.items()}),)
    return tuple(
        Partition(name=key, **{name: tuple(found.get(key, ())) for name, found in keyed.items()})
        for key in sorted(keys)
    )


def _listed(paths: Paths) -> list[str]:
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    names = [os.fspath(path) for path in given]
    return [str(file) for name in names for file in (*files_of(name),) or (name,)]


def _key(path: str) -> str:
    parts = PurePosixPath(path.replace("\\", "/")).parts
    hive = [part for part in parts[:-1] if _HIVE.fullmatch(part)]
    if hive:
        return "/".join(hive)
    for part in (parts[-1].split(".", 1)[0], *reversed(parts[:-1])):
        left = _TABLE.sub("", part).strip("-_. ")
        if left:
            return left
    return "all"


def count_partitions(
    partitions: Iterable[Partition | Evidence],
    *,
    n_classes: int | None = None,
    classes: Sequence[int | str] | None = None,
    conflicts: Conflicts = "error",
    repeats: Repeats = "mean",
    sketch: bool | Literal["decisions"] = True,
    by_cluster: bool = False,
    store: str | os.PathLike[str] | None = None,
    vanished: Literal["drop", "keep"] = "drop",
    read: Callable[[Partition], Evidence] | None = None,
    read_as: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Counted:
    """All counts of partitions whose items are disjoint; equal to one count of everything.

    Parameters
    ----------
    partitions
        Files that belong together (:func:`pair_partitions`), or evidence that is open already.
    n_classes, classes, conflicts
        As in :meth:`Evidence.from_tables`, for partitions that are files. The number of classes
        must be given, here or in the items: one partition may not show all classes.
    repeats
        When an item is right that was answered more than once, as in :meth:`Evidence.with_repeats`,
        for partitions that are files.
    sketch
        Also count the patterns of answers; ``"decisions"`` only those with what judgements say of
        the items.
    by_cluster
        Keep the cluster of each item, where items name clusters.
    store
        A folder for what was counted, here or at a URL that fsspec opens (``s3://…``; extra
        ``store``). A partition whose files have the size, the time of change and the first and last
        64 KiB that they had when it was counted is not read again.
    vanished
        What becomes of partitions that the store holds and that are not given now: ``"drop"``
        forgets them, ``"keep"`` counts them in.
    read, read_as
        How the files of a partition become evidence, instead of by ``n_classes``, ``classes`` and
        ``conflicts``; and what that depends on, as values for JSON: a store is emptied where these
        differ.
    progress
        Called with one line a partition that is read.

    Returns
    -------
    Counted
        ``reading`` names the partitions that were read, known, changed and gone.

    Raises
    ------
    EvidenceError
        If rows of a partition break a rule, or an item is in two partitions; the partitions and
        items are named.

    Examples
    --------
    >>> def day(first):
    ...     answers = {"item": [first, first + 1], "system": ["a", "a"], "answer": [0, 2]}
    ...     return Evidence.from_tables(answers, {"item": [first], "class": [0], "verdict": ["yes"]}, n_classes=3)
    >>> count_partitions([day(1), day(3)]).accuracy.summary()["items"]
    4
    >>> count_partitions([day(1), day(2)])
    Traceback (most recent call last):
    noracle.errors.EvidenceError: partitions must have no item in common; got 'partition 1' and 'partition 2', which share 1 at item 2. \
Split by item, or count them as one.
    """
    known = vanished in {"drop", "keep"}
    require(known, f"vanished must be 'drop' or 'keep'; got {vanished!r}.")
    named = _named(partitions)
    told: dict[str, Any] = {"n_classes": n_classes, "classes": classes, "conflicts": conflicts}
    counted: dict[str, Any] = {"sketch": sketch, "by_cluster": by_cluster}
    options = {**told, "classes": None if classes is None else list(classes), "repeats": repeats}
    options |= {**counted, "read_as": dict(read_as or {}), "version": __version__}

    def opened(part: Partition) -> Evidence:
        return _open(part, **told).with_repeats(repeats)

    counting = _Counting(named=named, read=read or opened, progress=progress, **counted)
    if store is not None:
        return _with_store(PartitionStore(store, options), counting, vanished)
    kept = {name: counting.one(name) for name in named}
    for name in _other_design({name: k.counted.propensities for name, k in kept.items()}):
        kept[name] = counting.one(name, recorded=True)
    aim = _aim(k.aims for k in kept.values())
    for name in _other_aim(kept, aim):
        kept[name] = counting.one(name, recorded=True, aim=aim)
    keys = {name: k.keys[name] for name, k in kept.items()}
    spans = {name: (*_ends(keys[name]), k.item_kind) for name, k in kept.items()}
    _require_disjoint(spans, list(named), keys.__getitem__, counting.opened)
    total = Counted.total(k.counted for k in kept.values())
    total = total if aim is not None else total.without_chances()
    return dataclasses.replace(total, reading=Reading(read=tuple(named)))


def _with_clusters(evidence: Evidence) -> Evidence:
    """Items of a partition that name no cluster, where others do, are clusters of their own."""
    if evidence.items is None or "cluster" in evidence.items.columns:
        return evidence
    items = evidence.items.with_columns(cluster=nw.lit(None, dtype=nw.String))
    return dataclasses.replace(evidence, items=items, _kept={})


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Counting:
    """How partitions become counts, one by one or several as one."""

    named: Mapping[str, Partition | Evidence]
    read: Callable[[Partition], Evidence]
    sketch: bool | Literal["decisions"]
    by_cluster: bool
    progress: Callable[[str], None] | None

    def opened(self, name: str) -> Evidence:
        part = self.named[name]
        return part if isinstance(part, Evidence) else self.read(part)

    def one(self, name: str, *, recorded: bool = False, aim: float | None = None) -> Kept:
        if self.progress is not None:
            self.progress(f"partition {name}")
        try:
            evidence = self.opened(name)
            found, *design = self.counts_of(evidence, recorded=recorded, aim=aim)
            keys, kind = item_keys(evidence)
            return Kept(found, {name: keys}, kind, *design)
        except EvidenceError as error:
            raise EvidenceError(*[f"partition {name!r}: {line}" for line in error.faults]) from None

    def counts_of(self, evidence: Evidence, *, recorded: bool, aim: float | None) -> Any:
        evidence = _with_clusters(evidence) if self.by_cluster else evidence
        _require_classes(all(not line.startswith("n_classes =") for line in evidence.inferred))
        if recorded and propensities_of(evidence) == "uniform":
            evidence = as_recorded(evidence)
        found = count_evidence(evidence, sketch=self.sketch, by_cluster=self.by_cluster, aim=aim)
        aims = aims_of(evidence)
        return found, aims, aim if aim is not None or aims is None else aims.share

    def several(
        self, names: Sequence[str], *, recorded: bool = False, aim: float | None = None
    ) -> Kept | None:
        """The count of several partitions as one; None where each must be looked at by itself."""
        try:
            keyed = {name: item_keys(self.opened(name)) for name in names}
            spans = {name: (*_ends(keys), kind) for name, (keys, kind) in keyed.items()}
            _require_disjoint(spans, names, lambda name: keyed[name][0], self.opened)
            whole = self.read(_joined(self.named, names))
            counts = self.counts_of(whole, recorded=recorded, aim=aim)
        except EvidenceError:
            return None
        if self.progress is not None:
            for name in names:
                self.progress(f"partition {name}")
        found, *design = counts
        return Kept(found, {n: k for n, (k, _) in keyed.items()}, keyed[names[0]][1], *design)

    def add(
        self, store: PartitionStore, states: Mapping[str, str], size: int, **design: Any
    ) -> None:
        """Count partitions and keep them, each with its state; up to ``size`` of them at once."""
        names = list(states)
        size = size if len(names) >= _MANY else 1
        for start in range(0, len(names), size):
            some = names[start : start + size]
            found = self.several(some, **design) if len(some) > 1 else None
            if found is not None:
                store.add({name: states[name] for name in some}, found)
                continue
            for name in some:
                store.add({name: states[name]}, self.one(name, **design))


def _require_classes(known: object) -> None:
    rule, remedy = "must be given to count partitions", "Pass n_classes or classes."
    require_evidence(known, "n_classes", rule, "none", remedy=remedy)


def _joined(named: Mapping[str, Partition | Evidence], names: Sequence[str]) -> Partition:
    """Several partitions of files as one."""
    parts = [part for name in names if isinstance(part := named[name], Partition)]
    tables = {table: tuple(p for part in parts for p in getattr(part, table)) for table in _NAMES}
    return Partition(name=f"{names[0]} to {names[-1]}", **tables)


def _with_store(store: PartitionStore, counting: _Counting, vanished: str) -> Counted:
    named, states = counting.named, {}
    for name, part in named.items():
        if isinstance(part, Evidence) or any(is_url(path) for path in part.paths):
            came = "open evidence" if isinstance(part, Evidence) else "a URL"
            rule = "must be local files to be kept in a store"
            raise EvidenceError.of("partitions", rule, came, remedy="Leave store out.")
        states[name] = fingerprint(part.paths)
    changed = [name for name in named if store.state(name) not in {None, states[name]}]
    gone = [name for name in store.names if name not in named]
    new = [name for name in named if store.state(name) != states[name]]
    drop, counted = vanished == "drop", set[str]()

    def count(some: Sequence[str], **design: Any) -> None:
        """Count some partitions, and those beside them; by itself each that may be kept alone."""
        wanted = _with_those_beside(store, some, named, drop=drop)
        size = _TOGETHER if drop else 1
        counting.add(store, {name: states[name] for name in wanted}, size, **design)
        counted.update(wanted)

    count([*new, *(gone if drop else ())])
    if drop:
        store.forget([name for name in store.listed if name not in named])
    names = [*named, *(gone if vanished == "keep" else ())]
    count(_other_design({name: store.about(name).propensities for name in names}), recorded=True)
    told = {name: store.about(name) for name in names}
    aim = _aim(about.aims for about in told.values())
    aimed = _other_aim(told, aim)
    if not set(aimed) <= named.keys():  # a partition that is gone cannot be counted again
        aim, aimed = None, []
    count(aimed, recorded=True, aim=aim)
    read = [name for name in named if name in counted]
    total, members = store.total(names)
    others = [name for name in names if name not in members]
    spans = {name: store.about(name)[:3] for name in names}
    _require_disjoint(spans, others, store.keys, counting.opened)
    if others or total is None:
        total = Counted.total([*([] if total is None else [total]), *store.read(others)])
        store.keep_total(names, total)
    known = tuple(name for name in named if name not in counted)
    reading = Reading(read=tuple(read), known=known, changed=tuple(changed), vanished=tuple(gone))
    total = total if aim is not None else total.without_chances()
    return dataclasses.replace(total, reading=reading)


def _with_those_beside(
    store: PartitionStore, names: Sequence[str], named: Mapping[str, Any], *, drop: bool
) -> list[str]:
    """The partitions to be counted: some, and those that were counted together with them."""
    mine = store.beside(names)
    found = [name for name in named if name in mine]
    stuck = [] if drop else sorted(store.beside(found) - named.keys())
    if stuck:
        came = f"{stuck[0]!r} counted together with others of which one must be read again"
        remedy = "Bring its files back, or pass vanished='drop'."
        rule = "must hold partitions that are gone by themselves"
        raise EvidenceError.of("store", rule, came, remedy=remedy)
    return found


def _other_design(propensities: Mapping[str, str]) -> list[str]:
    """Partitions with propensities of 1/K only, where others have different ones."""
    if "recorded" in propensities.values():
        return [name for name, kind in propensities.items() if kind == "uniform"]
    return []


def _aim(aims: Iterable[Aims | None]) -> float | None:
    """The uniform share with which the questions of all partitions were aimed, if there is one."""
    return Aims.total(part for part in aims if part is not None).share


def _other_aim(counted: Mapping[str, Kept | About], aim: float | None) -> list[str]:
    """Partitions that were counted with another share than that of the whole."""
    if aim is None:
        return []
    return [name for name, k in counted.items() if k.aims is not None and k.aim != aim]


def _named(partitions: Iterable[Partition | Evidence]) -> dict[str, Partition | Evidence]:
    named: dict[str, Partition | Evidence] = {}
    for i, part in enumerate(partitions, start=1):
        name = part.name if isinstance(part, Partition) else f"partition {i}"
        rule = "must have different names"
        require_evidence(name not in named, "partitions", rule, f"{name!r} twice")
        named[name] = part
    require_evidence(named, "partitions", "must be at least one", "none")
    return named


def _open(part: Partition, **told: Any) -> Evidence:
    given = told["n_classes"] is not None or told["classes"] is not None
    _require_classes(given or part.items or (part.grades and not part.judgements))
    tables = {name: list(getattr(part, name)) or None for name in _NAMES}
    return Evidence._made(tables, Shape(), **told, invalid="wrong", part=True)


def _ends(keys: Keys) -> tuple[Any, Any]:
    return (int(keys[0]), int(keys[-1])) if len(keys) else (None, None)


def _require_disjoint(
    spans: dict[str, tuple[Any, Any, str]],
    new: Sequence[str],
    keys_of: Callable[[str], Keys],
    opened: Callable[[str], Evidence],
) -> None:
    """Refuse an item in two partitions, of which one is ``new``."""
    kinds = {kind: name for name, (_, _, kind) in spans.items()}
    if len(kinds) > 1:
        came = " and ".join(f"{kind} in {name!r}" for kind, name in sorted(kinds.items()))
        raise EvidenceError.of("items", "must be whole numbers or text in all partitions", came)

    def compare(one: str, other: str) -> None:
        """Refuse two partitions that share items; equal keys of different texts are no fault."""
        first, second = sorted((one, other))
        common: Keys = np.intersect1d(keys_of(first), keys_of(second), assume_unique=True)
        shared: list[Any] = common.tolist()
        if spans[first][2] != "whole":
            shared = sorted(items_with(opened(first), common) & items_with(opened(second), common))
        if shared:
            came = f"{first!r} and {second!r}, which share {len(shared)}"
            where: dict[str, Any] = {"where": shared[:5], "total": len(shared)}
            rule, remedy = "must have no item in common", "Split by item, or count them as one."
            raise EvidenceError.of("partitions", rule, came, **where, remedy=remedy)

    fresh = set(new)
    for cluster in _clusters(spans):
        mine = [name for name in cluster if name in fresh]
        if not mine or len(cluster) < 2:
            continue
        pools = [keys_of(name) for name in mine]
        keys = np.concatenate(pools)
        owner = np.repeat(np.arange(len(mine)), [len(p) for p in pools])
        order = np.argsort(keys, kind="stable")
        keys, owner = keys[order], owner[order]
        twice = np.flatnonzero(keys[1:] == keys[:-1])
        for first, second in {(int(owner[i]), int(owner[i + 1])) for i in twice}:
            compare(mine[first], mine[second])
        for name in cluster:
            if name not in fresh:
                theirs = keys_of(name)
                place = np.minimum(np.searchsorted(keys, theirs), len(keys) - 1)
                for other in np.unique(owner[place[keys[place] == theirs]]):
                    compare(name, mine[int(other)])


def _clusters(spans: dict[str, tuple[Any, Any, str]]) -> Iterator[list[str]]:
    """Partitions whose ranges of keys overlap, directly or through others."""
    ranged = sorted((low, high, name) for name, (low, high, _) in spans.items() if low is not None)
    cluster: list[str] = []
    end = None
    for low, high, name in ranged:
        if end is not None and low > end:
            yield cluster
            cluster, end = [], None
        cluster.append(name)
        end = high if end is None else max(end, high)
    if cluster:
        yield cluster
