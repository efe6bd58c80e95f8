"""What the name and the first bytes of a file say."""

from __future__ import annotations

import json
import re
from pathlib import PurePath

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".pq")
"""How the names of tables end; ``.gz`` or ``.zst`` may follow."""
_COMPRESSED = (".gz", ".zst")
_SCHEMA = re.compile(rb'\s*\{\s*"schema"\s*:\s*"([\w./-]{1,60})"')
_MOST_JSON = 64_000_000  # bytes: a larger file that does not begin with its schema is a table


def table_suffix(path: str) -> str:
    """How the name of a table ends, without the compression; empty where it is no table.

    Examples
    --------
    >>> table_suffix("answers.CSV.gz"), table_suffix("notes.txt")
    ('.csv', '')
    """
    suffixes = [
        s.lower() for s in PurePath(path.split("?", 1)[0] if "://" in path else path).suffixes
    ]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in SUFFIXES else ""


def stem_of(path: str) -> str:
    """The name of a file without its endings, in lower case."""
    return PurePath(path).name.split(".", 1)[0].lower()


def header_of(path: str) -> bytes:
    """The first line of a plain CSV file; empty for other files."""
    if (
        table_suffix(path) not in (".csv", ".tsv")
        or path.lower().endswith(_COMPRESSED)
        or "://" in path
    ):
        return b""
    with open(path, "rb") as file:  # noqa: PTH123 (the path may be a text)
        return file.readline(100_000)


def schema_of(path: str) -> str | None:
    """The schema that a JSON file names; None where it is one object without a schema, empty where
    it may be a table.
    """
    if "://" in path:
        return ""
    with open(path, "rb") as file:  # noqa: PTH123 (the path may be a text)
        head = file.read(4096)
        found = _SCHEMA.match(head)
        if found:
            return found[1].decode()
        if not head.lstrip().startswith(b"{"):
            return ""
        text = head + file.read(_MOST_JSON)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    schema = data.get("schema") if isinstance(data, dict) else None
    return schema if isinstance(schema, str) and 0 < len(schema) <= 60 else None
