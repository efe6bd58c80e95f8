"""Counting partition by partition: yesterday's partition is read once and never again.

Counts of partitions add only where no item is in two of them. That is not taken on trust: the items
of every partition are kept as sorted keys (8 bytes an item), and partitions whose ranges of keys
overlap are compared. A key is the item itself where items are whole numbers, else 64 bits of the
MD5 of its text; texts behind equal keys are compared themselves.

Many new partitions at once, as on the first day of a store, are counted several together, which
takes a fraction of the queries. Where one of them changes or goes, those beside it are read again.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

import narwhals as nw
import numpy as np

from noracle._version import __version__
from noracle.counts.counted import Counted, Reading, count_evidence
from noracle.counts.item_keys import item_keys, items_with
from noracle.counts.met import Aims, aims_of
from noracle.counts.partition_store import Kept, Keys, PartitionStore, Together, fingerprint
from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.evidence.evidence import Conflicts, Evidence, Repeats
from noracle.evidence.files import files_of, is_url
from noracle.evidence.labels import as_recorded, propensities_of
from noracle.evidence.shapes import Shape

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
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
        return (*self.answers, *self.judgements, *self.grades, *self.items)


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
    tables = {
        "answers": _listed(answers),
        "judgements": _listed(judgements),
        "items": _listed(items),
        "grades": _listed(grades),
    }
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
    return [
        name
        for path in given
        for name in ([str(f) for f in files_of(os.fspath(path))] or [os.fspath(path)])
    ]


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
    if vanished not in {"drop", "keep"}:
        raise ArgumentError(f"vanished must be 'drop' or 'keep'; got {vanished!r}.")
    named = _named(partitions)
    told = {
        "n_classes": n_classes,
        "classes": None if classes is None else list(classes),
        "conflicts": conflicts,
        "repeats": repeats,
    }
    options = {
        **told,
        "sketch": sketch,
        "by_cluster": by_cluster,
        "read_as": dict(read_as or {}),
        "version": __version__,
    }

    counting = _Counting(
        named=named,
        read=read
        or (
            lambda part: _open(
                part, n_classes=n_classes, classes=classes, conflicts=conflicts
            ).with_repeats(repeats)
        ),
        sketch=sketch,
        by_cluster=by_cluster,
        progress=progress,
    )
    if store is not None:
        return _with_store(PartitionStore(store, options), counting, vanished)
    kept = {name: counting.one(name) for name in named}
    for name in _other_design({name: k.counted.propensities for name, k in kept.items()}):
        kept[name] = counting.one(name, recorded=True)
    aim = _aim({name: k.aims for name, k in kept.items()})
    for name in _other_aim({name: (k.aims, k.aim) for name, k in kept.items()}, aim):
        kept[name] = counting.one(name, recorded=True, aim=aim)
    spans = {name: (*_ends(k.keys), k.item_kind) for name, k in kept.items()}
    _require_disjoint(spans, list(named), lambda name: kept[name].keys, counting.opened)
    total = Counted.total(k.counted for k in kept.values())
    return dataclasses.replace(
        total if aim is not None else total.without_chances(), reading=Reading(read=tuple(named))
    )


def _with_clusters(evidence: Evidence) -> Evidence:
    """Items of a partition that name no cluster, where others do, are clusters of their own."""
    if evidence.items is None or "cluster" in evidence.items.columns:
        return evidence
    return dataclasses.replace(
        evidence, items=evidence.items.with_columns(cluster=nw.lit(None, dtype=nw.String)), _kept={}
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Counting:
    """How partitions become counts, one by one or several as one."""

    named: Mapping[str, Partition | Evidence]
    read: Callable[[Partition], Evidence]
    sketch: bool | Literal["decisions"]
    by_cluster: bool
    progress: Callable[[str], None] | None

    def opened(self, name: str) -> Evidence:
        return self.opened_as(self.named[name])

    def opened_as(self, part: Partition | Evidence) -> Evidence:
        if isinstance(part, Evidence):
            return part
        return self.read(part)

    def one(self, name: str, *, recorded: bool = False, aim: float | None = None) -> Kept:
        if self.progress is not None:
            self.progress(f"partition {name}")
        try:
            evidence = self.opened(name)
            found, *design = self.counts_of(evidence, recorded=recorded, aim=aim)
            return Kept(found, *item_keys(evidence), *design)
        except EvidenceError as error:
            raise EvidenceError(*[f"partition {name!r}: {line}" for line in error.faults]) from None

    def counts_of(self, evidence: Evidence, *, recorded: bool, aim: float | None) -> Any:
        evidence = _with_clusters(evidence) if self.by_cluster else evidence
        if any(line.startswith("n_classes =") for line in evidence.inferred):
            raise EvidenceError(
                fault(
                    "n_classes",
                    "must be given to count partitions",
                    "none",
                    remedy="Pass n_classes or classes.",
                )
            )
        if recorded and propensities_of(evidence) == "uniform":
            evidence = as_recorded(evidence)
        found = count_evidence(evidence, sketch=self.sketch, by_cluster=self.by_cluster, aim=aim)
        aims = aims_of(evidence)
        return found, aims, aim if aim is not None or aims is None else aims.share

    def several(
        self, names: Sequence[str], *, recorded: bool = False, aim: float | None = None
    ) -> Together | None:
        """The count of several partitions as one; None where each must be looked at by itself."""
        try:
            keyed = {name: item_keys(self.opened(name)) for name in names}
            spans = {name: (*_ends(keys), kind) for name, (keys, kind) in keyed.items()}
            _require_disjoint(spans, names, lambda name: keyed[name][0], self.opened)
            counts = self.counts_of(
                self.opened_as(_joined(self.named, names)), recorded=recorded, aim=aim
            )
        except EvidenceError:
            return None
        if self.progress is not None:
            for name in names:
                self.progress(f"partition {name}")
        found, *design = counts
        return Together(found, {n: k for n, (k, _) in keyed.items()}, keyed[names[0]][1], *design)

    def add(
        self,
        store: PartitionStore,
        names: Sequence[str],
        states: Mapping[str, str],
        *,
        alone: bool,
        **design: Any,
    ) -> None:
        """Count partitions and keep them; many of them several at once, unless each must be kept
        ``alone``.
        """
        size = _TOGETHER if len(names) >= _MANY and not alone else 1
        for start in range(0, len(names), size):
            some = names[start : start + size]
            found = self.several(some, **design) if len(some) > 1 else None
            if found is not None:
                store.add_together({name: states[name] for name in some}, found)
                continue
            for name in some:
                store.add(name, states[name], self.one(name, **design))


def _joined(named: Mapping[str, Partition | Evidence], names: Sequence[str]) -> Partition:
    """Several partitions of files as one."""
    parts = [part for name in names if isinstance(part := named[name], Partition)]
    tables = {
        table: tuple(path for part in parts for path in getattr(part, table))
        for table in ("answers", "judgements", "items", "grades")
    }
    return Partition(name=f"{names[0]} to {names[-1]}", **tables)


def _with_store(store: PartitionStore, counting: _Counting, vanished: str) -> Counted:
    named, states = counting.named, {}
    for name, part in named.items():
        if isinstance(part, Evidence) or any(is_url(path) for path in part.paths):
            came = "open evidence" if isinstance(part, Evidence) else "a URL"
            raise EvidenceError(
                fault(
                    "partitions",
                    "must be local files to be kept in a store",
                    came,
                    remedy="Leave store out.",
                )
            )
        states[name] = fingerprint(part.paths)
    changed = [name for name in named if store.state(name) not in {None, states[name]}]
    gone = [name for name in store.names if name not in named]
    new = [name for name in named if store.state(name) != states[name]]
    drop = vanished == "drop"
    read = _with_those_beside(store, [*new, *(gone if drop else ())], named, drop=drop)
    counting.add(store, read, states, alone=not drop)
    if drop:
        store.forget([name for name in store.listed if name not in named])
    names = [*named, *(gone if vanished == "keep" else ())]
    other = _other_design({name: store.about(name).propensities for name in names})
    again = _with_those_beside(store, other, named, drop=drop)
    counting.add(store, again, states, alone=not drop, recorded=True)
    aim = _aim({name: store.about(name).aims for name in names})
    aimed = _other_aim(
        {name: (store.about(name).aims, store.about(name).aim) for name in names}, aim
    )
    if not set(aimed) <= named.keys():  # a partition that is gone cannot be counted again
        aim, aimed = None, []
    aimed = _with_those_beside(store, aimed, named, drop=drop)
    counting.add(store, aimed, states, alone=not drop, recorded=True, aim=aim)
    read = [name for name in named if name in {*read, *again, *aimed}]
    total, members = store.total(names)
    others = [name for name in names if name not in members]
    spans = {name: store.about(name)[:3] for name in names}
    _require_disjoint(spans, others, store.keys, counting.opened)
    if others or total is None:
        total = Counted.total([*([] if total is None else [total]), *store.read(others)])
        store.keep_total(names, total)
    known = tuple(name for name in named if name not in set(read))
    reading = Reading(read=tuple(read), known=known, changed=tuple(changed), vanished=tuple(gone))
    return dataclasses.replace(
        total if aim is not None else total.without_chances(), reading=reading
    )


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
        raise EvidenceError(
            fault("store", "must hold partitions that are gone by themselves", came, remedy=remedy)
        )
    return found


def _other_design(propensities: Mapping[str, str]) -> list[str]:
    """The partitions with propensities of 1/K only, if others have different ones: no question of
    the whole is then a uniform one.
    """
    return (
        [name for name, kind in propensities.items() if kind == "uniform"]
        if "recorded" in propensities.values()
        else []
    )


def _aim(aims: Mapping[str, Aims | None]) -> float | None:
    """The uniform share with which the questions of all partitions were aimed, if there is one."""
    return Aims.total(part for part in aims.values() if part is not None).share


def _other_aim(
    aims: Mapping[str, tuple[Aims | None, float | None]], aim: float | None
) -> list[str]:
    """The partitions that were counted with another share than that of the whole; without a share
    chances are left out of the sum.
    """
    return (
        [name for name, (told, mine) in aims.items() if told is not None and mine != aim]
        if aim is not None
        else []
    )


def _named(partitions: Iterable[Partition | Evidence]) -> dict[str, Partition | Evidence]:
    named: dict[str, Partition | Evidence] = {}
    for i, part in enumerate(partitions, start=1):
        name = part.name if isinstance(part, Partition) else f"partition {i}"
        if name in named:
            raise EvidenceError(fault("partitions", "must have different names", f"{name!r} twice"))
        named[name] = part
    if not named:
        raise EvidenceError(fault("partitions", "must be at least one", "none"))
    return named


def _open(
    part: Partition,
    *,
    n_classes: int | None,
    classes: Sequence[int | str] | None,
    conflicts: Conflicts,
) -> Evidence:
    if (
        n_classes is None
        and classes is None
        and not part.items
        and not (part.grades and not part.judgements)
    ):
        raise EvidenceError(
            fault(
                "n_classes",
                "must be given to count partitions",
                "none",
                remedy="Pass n_classes or classes.",
            )
        )
    given = {
        "answers": part.answers,
        "judgements": part.judgements,
        "grades": part.grades,
        "items": part.items,
    }
    tables = {name: list(paths) or None for name, paths in given.items()}
    return Evidence._made(
        tables,
        Shape(),
        n_classes=n_classes,
        classes=classes,
        conflicts=conflicts,
        invalid="wrong",
        part=True,
    )


# ---------------------------------------------------------------- no item in two partitions


def _ends(keys: Keys) -> tuple[Any, Any]:
    return (int(keys[0]), int(keys[-1])) if len(keys) else (None, None)


def _require_disjoint(
    spans: dict[str, tuple[Any, Any, str]],
    new: Sequence[str],
    keys_of: Callable[[str], Keys],
    opened: Callable[[str], Evidence],
) -> None:
    """Refuse an item that is in two partitions; partitions that are not ``new`` were compared with
    each other before.
    """
    kinds = {kind: name for name, (_, _, kind) in spans.items()}
    if len(kinds) > 1:
        came = " and ".join(f"{kind} in {name!r}" for kind, name in sorted(kinds.items()))
        raise EvidenceError(fault("items", "must be whole numbers or text in all partitions", came))
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
            _compare(mine[first], mine[second], keys_of, spans, opened)
        for name in cluster:
            if name not in fresh:
                theirs = keys_of(name)
                place = np.minimum(np.searchsorted(keys, theirs), len(keys) - 1)
                for other in np.unique(owner[place[keys[place] == theirs]]):
                    _compare(name, mine[int(other)], keys_of, spans, opened)


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


def _compare(
    one: str,
    other: str,
    keys_of: Callable[[str], Keys],
    spans: dict[str, tuple[Any, Any, str]],
    opened: Callable[[str], Evidence],
) -> None:
    """Refuse two partitions that share items, and name these; equal keys of different texts are no
    fault.
    """
    first, second = sorted((one, other))
    keys: Keys = np.intersect1d(keys_of(first), keys_of(second), assume_unique=True)
    if spans[first][2] == "whole":
        shared: list[Any] = keys.tolist()
    else:
        shared = sorted(items_with(opened(first), keys) & items_with(opened(second), keys))
    if shared:
        came = f"{first!r} and {second!r}, which share {len(shared)}"
        remedy = "Split by item, or count them as one."
        raise EvidenceError(
            fault(
                "partitions",
                "must have no item in common",
                came,
                where=shared[:5],
                total=len(shared),
                remedy=remedy,
            )
        )
