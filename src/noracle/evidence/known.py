"""True labels of items, as a caller may know them: of some (known labels), or of all (a key)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

import narwhals as nw

from noracle.errors import EvidenceError, fault
from noracle.evidence.frames import fetch, open_frames
from noracle.evidence.normal import normalise, shown
from noracle.evidence.tables import Column, Table

KNOWN = Table(
    name="known",
    columns=(Column(name="item", kind="id"), Column(name="label", kind="class")),
    key=("item",),
)


def read_known(known: object, *, name: str = "known") -> dict[Any, Any]:
    """Labels by item, from a table ``item``, ``label`` (in any form that evidence takes) or from a
    mapping; without a label, not known.

    Examples
    --------
    >>> read_known({"item": [1, 2], "label": ["cat", None]})
    {1: 'cat'}
    """
    if isinstance(known, Mapping) and (
        not known or isinstance(known.get("item", 0), (int, str))
    ):  # not a dict of columns
        return dict(known)
    frames, connection = open_frames({name: known})
    frame, faults = normalise(frames[name], dataclasses.replace(KNOWN, name=name))
    if faults:
        raise EvidenceError(*faults)
    rows = fetch(frame.select("item", "label").filter(~nw.col("label").is_null()))
    del connection  # it had to live until the rows were read
    twice = [item for item, n in Counter(row[0] for row in rows).items() if n > 1]
    if twice:
        rule = "must name each item once, with one label for each item"
        raise EvidenceError(
            fault(
                name,
                rule,
                "some more often",
                where=twice,
                total=len(twice),
                remedy="Keep one row an item.",
            )
        )
    return {row[0]: row[1] for row in rows}


KEYS = (
    "label",
    "answer",
    "key",
    "truth",
    "target",
    "gold",
    "correct",
    "class",
    "true_label",
    "correct_answer",
)
"""What people call the column with the true class."""


def read_key(key: object, column: str | None = None) -> dict[Any, Any]:
    """The true class by item, from a mapping or a table with ``item`` and ``column`` (by default
    the one column named as in KEYS).

    Examples
    --------
    >>> read_key({"item": [1, 2], "gold": ["cat", None]})
    {1: 'cat'}
    """
    if isinstance(key, Mapping) and not any(
        isinstance(value, (list, tuple)) or hasattr(value, "__array__") for value in key.values()
    ):
        return dict(key)
    frames, connection = open_frames({"key": key})
    names = frames["key"].columns
    found = (
        [name for name in names if name in KEYS]
        if column is None
        else [name for name in names if name == column]
    )
    if len(found) != 1 or "item" not in names:
        rule = f"must have a column item and {'one of ' + ', '.join(KEYS) if column is None else f'the column {column}'}"
        came = f"{', '.join(found)} in {shown(names)}" if len(found) > 1 else f"{shown(names)}"
        raise EvidenceError(
            fault(
                "key",
                rule,
                came,
                remedy="Name the column with the true class: --key-column, key_column=.",
            )
        )
    table = frames["key"].select("item", label=nw.col(found[0]))
    rows = read_known(table.to_native(), name="key")
    del connection
    return rows
