"""Small things that opening evidence needs: one pattern for several files, prices, stored counts."""

from __future__ import annotations

import dataclasses
import glob
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from noracle.errors import EvidenceError, fault
from noracle.evidence.prices import Prices
from noracle.oversight.model import Source

LABEL_KINDS = ("ordinary", "complementary", "question", "targeted", "grades")


def find_pattern(paths: Sequence[str]) -> str | None:
    """One path, or one pattern that matches exactly these files; None where none was found.

    Examples
    --------
    >>> find_pattern(["answers.csv"])
    'answers.csv'
    """
    if len(paths) == 1:
        return paths[0]
    wanted = sorted(os.path.normpath(p) for p in paths)
    for pattern in _patterns(sorted(paths)):
        found = sorted(
            os.path.normpath(f)
            for f in glob.glob(pattern, recursive=True)  # noqa: PTH207 (a pattern)
            if Path(f).is_file()
        )
        if found == wanted:
            return pattern
    return None


def _patterns(paths: Sequence[str]) -> Iterator[str]:
    """Patterns to try, the plainest first."""
    prefix = _shared(paths)
    suffix = _shared([p[len(prefix) :][::-1] for p in paths])[::-1]
    yield f"{glob.escape(prefix)}*{glob.escape(suffix)}"
    folder, ends = prefix[: prefix.rfind("/") + 1], "".join(Path(paths[0]).suffixes[-2:])
    start = glob.escape(folder)
    yield f"{start}**/*{glob.escape(ends)}"
    yield f"{start}*/*{glob.escape(ends)}"
    names = [p[len(folder) :] for p in paths]
    for word in sorted(set(re.findall(r"[^\W_]{3,}", names[0])), key=lambda w: (-len(w), w)):
        if all(word in name for name in names):
            yield f"{start}*{word}*{glob.escape(ends)}"
            yield f"{start}**/*{word}*{glob.escape(ends)}"
    first = "".join(sorted({name[0] for name in names if name[0].isalnum()}))
    if first:
        yield f"{start}[{first}]*{glob.escape(ends)}"


def _shared(texts: Sequence[str]) -> str:
    """The longest text that all begin with."""
    first, last = min(texts), max(texts)
    for i, letter in enumerate(first):
        if i >= len(last) or last[i] != letter:
            return first[:i]
    return first


def price_table(path: str, source: Source) -> dict[str, float]:
    """Prices out of a table with a column of names and one of prices."""
    from noracle.evidence.frames import fetch, open_frames

    name, price = (
        str(source.options.get("name", "rater")),
        str(source.options.get("price", "price")),
    )
    frames, _connection = open_frames({"prices": path})
    rows = fetch(frames["prices"].select(name, price))
    found: dict[str, float] = {}
    for key, value in rows:
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not (math.isfinite(value) and value > 0)
            or key is None
        ):
            raise EvidenceError(
                fault(
                    f"prices.{price}",
                    "must be a positive number",
                    repr(value),
                    where=[key],
                    total=1,
                )
            )
        if str(key) in found:
            raise EvidenceError(
                fault(
                    f"prices.{name}", "must name everything once", repr(key), where=[key], total=1
                )
            )
        found[str(key)] = float(value)
    return found


def joined_prices(file: Prices | None, told: Mapping[str, float]) -> Prices:
    """The prices of a file and those that were told beside it, which win."""
    labels = {k: float(v) for k, v in told.items() if is_label(k)}
    raters = {k: float(v) for k, v in told.items() if not is_label(k)}
    known = file or Prices()
    return dataclasses.replace(
        known, labels={**known.labels, **labels}, raters={**known.raters, **raters}
    )


def is_label(name: str) -> bool:
    """Whether a price is that of a kind of label, and not of a rater."""
    kind, mark, number = name.partition("-")
    if not mark:
        return name in LABEL_KINDS
    return kind in ("complementary", "question") and number.isdecimal() and int(number) > 0


def read_counts_file(path: str) -> dict[str, Any]:
    """The JSON object in a file of stored counts."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise EvidenceError(
            fault("counts", "must be a readable JSON file", f"{path!r} ({type(error).__name__})")
        ) from None
    if not isinstance(data, dict):
        raise EvidenceError(
            fault("counts", "must hold a JSON object", f"something else in {path!r}")
        )
    return data
