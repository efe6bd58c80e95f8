"""True labels of some items, as a caller may know them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import narwhals as nw

from noracle.errors import EvidenceError, fault
from noracle.evidence.frames import fetch, open_frames
from noracle.evidence.normal import normalise
from noracle.evidence.tables import Column, Table

KNOWN = Table(name="known", columns=(Column(name="item", kind="id"), Column(name="label", kind="class")), key=("item",))


def read_known(known: object) -> dict[Any, Any]:
    """Labels by item, from a table ``item``, ``label`` (in any form that evidence takes) or from a mapping; without a label, not known.

    Examples
    --------
    >>> read_known({"item": [1, 2], "label": ["cat", None]})
    {1: 'cat'}
    """
    if isinstance(known, Mapping) and (not known or isinstance(known.get("item", 0), (int, str))):  # not a dict of columns
        return dict(known)
    frames, connection = open_frames({"known": known})
    frame, faults = normalise(frames["known"], KNOWN)
    if faults:
        raise EvidenceError(*faults)
    rows = fetch(frame.select("item", "label").filter(~nw.col("label").is_null()))
    del connection  # it had to live until the rows were read
    twice = [item for item, n in Counter(row[0] for row in rows).items() if n > 1]
    if twice:
        rule = "must name each item once, with one label for each item"
        raise EvidenceError(fault("known", rule, "some more often", where=twice, total=len(twice), remedy="Keep one row an item."))
    return {row[0]: row[1] for row in rows}
