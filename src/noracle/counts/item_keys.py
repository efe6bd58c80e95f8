"""The items of an evidence as sorted 64-bit keys, by which an item in two partitions is found."""

from __future__ import annotations

import hashlib
from typing import Any

import narwhals as nw
import numpy as np

from noracle.counts.partition_store import Keys
from noracle.counts.votes import fetch_arrays
from noracle.evidence.evidence import Evidence
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.labels import gather


def item_keys(evidence: Evidence) -> tuple[Keys, str]:
    """The sorted keys of all items in any table, and the kind of the items: ``whole`` (the key is
    the item) or ``text``.

    Examples
    --------
    >>> evidence = Evidence.from_tables({"item": [3, 1], "system": ["a", "a"], "answer": [0, 1]}, n_classes=2)
    >>> item_keys(evidence)[0].tolist()
    [1, 3]
    """
    frames = _item_frames(evidence)
    kind = "whole" if frames[0].collect_schema()["item"] == nw.Int64 else "text"
    pools = [
        fetch_arrays(frame)["item"].astype(np.int64) if kind == "whole" else _hashed(frame)
        for frame in frames
    ]
    keys: Keys = np.unique(np.concatenate(pools))
    return keys, kind


def items_with(evidence: Evidence, keys: Keys) -> set[str]:
    """The items of text that have one of these keys."""
    wanted = set(keys.tolist())
    return {
        str(row[0])
        for frame in _item_frames(evidence)
        for row in fetch(frame)
        if key_of(str(row[0])) in wanted
    }


def key_of(item: str) -> int:
    """The key of a text: the second half of its MD5, as DuckDB's ``md5_number_lower``.

    Examples
    --------
    >>> key_of("abc")
    8250560606382298838
    """
    return int.from_bytes(hashlib.md5(item.encode(), usedforsecurity=False).digest()[8:], "little")


def _item_frames(evidence: Evidence) -> list[Frame]:
    """The items of each table, each once."""
    tables = [
        frame for frame in (evidence.answers, evidence.grades, evidence.items) if frame is not None
    ]
    frames: list[Frame] = []
    if evidence.judgements is not None and "labels" in evidence._kept:
        frames = [gather(evidence).items.select("item")]
    elif evidence.judgements is not None:
        tables.insert(0, evidence.judgements)
    return frames + [
        frame.filter(~nw.col("item").is_null()).group_by("item").agg(_n=nw.len()).select("item")
        for frame in tables
    ]


def _hashed(frame: Frame) -> Any:
    native: Any = frame.to_native()
    if frame.implementation.is_duckdb():
        return np.asarray(
            native.select("md5_number_lower(item) AS item").fetchnumpy()["item"]
        ).astype(np.uint64)
    return np.array([key_of(str(row[0])) for row in fetch(frame)], dtype=np.uint64)
