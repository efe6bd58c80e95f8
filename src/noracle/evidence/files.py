"""Files as DuckDB relations: CSV, JSONL and Parquet, also compressed and as globs.

Errors of the engine become one line that names the file and what to do; lines of the file are never
quoted, because they may hold the text of an item.
"""

from __future__ import annotations

import atexit
import contextlib
import glob
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from noracle.errors import EvidenceError, fault

if TYPE_CHECKING:
    import duckdb

# Types that a column of text may have. Not BOOLEAN: a column of yes and no is text, also where
# these are classes or names of systems.
_TYPES = "auto_type_candidates = ['BIGINT', 'DOUBLE', 'TIME', 'DATE', 'TIMESTAMP', 'VARCHAR']"
_READERS = {
    ".csv": f"read_csv({{}}, header = true, skip = 0, union_by_name = true, {_TYPES}{{}})",
    ".tsv": f"read_csv({{}}, header = true, skip = 0, union_by_name = true, {_TYPES}{{}})",
    ".jsonl": "read_json({}, format = 'newline_delimited', union_by_name = true)",
    ".ndjson": "read_json({}, format = 'newline_delimited', union_by_name = true)",
    ".json": "read_json({}, union_by_name = true)",
    ".parquet": "read_parquet({}, union_by_name = true)",
    ".pq": "read_parquet({}, union_by_name = true)",
}
_COMPRESSED = (".gz", ".zst")
_MEMORY_LIMIT = 4_500_000_000  # bytes: a join of two files with 100 million rows each just fits
_SMALL = 4_000_000  # bytes
_connections = itertools.count()
_tables = itertools.count()


def connect() -> duckdb.DuckDBPyConnection:
    """A private DuckDB connection that spills to disk instead of taking all memory.

    The limit is 4.5 GB or half the memory of the machine, whichever is less, or what the
    environment variable ``NORACLE_MEMORY_LIMIT`` says (for example ``8GB``).
    """
    import duckdb

    atexit.unregister(_forget_engines)
    atexit.register(_forget_engines)
    spill = Path(tempfile.gettempdir()) / f"noracle-{os.getpid()}-{next(_connections)}"
    limit = os.environ.get("NORACLE_MEMORY_LIMIT", f"{min(_MEMORY_LIMIT, _memory() // 2)}B")
    return duckdb.connect(":memory:", config={"memory_limit": limit, "temp_directory": str(spill)})


def _memory() -> int:
    """Bytes of memory of this machine; a small guess where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 8_000_000_000


def _forget_engines() -> None:
    """At exit: narwhals keeps its DuckDB namespace for ever, and DuckDB 2.0 would then report its
    types as leaked on stderr.
    """
    cached = getattr(sys.modules.get("narwhals._namespace"), "_builtin_namespace", None)
    if cached is not None and hasattr(cached, "cache_clear"):
        cached.cache_clear()


def scan(
    path: object, table: str, run: Callable[[str], duckdb.DuckDBPyRelation], *, ours: bool = False
) -> duckdb.DuckDBPyRelation:
    """The file, glob or list of these as a relation; ``run`` makes a relation out of a query. On a
    connection of ``ours`` small text files are read once, into a table, and not by every query.

    A URL (``s3://``, ``gs://``, ``abfs://``, ``https://``, ``file://``) goes to DuckDB's own
    readers as it is.
    """
    import duckdb

    given = [os.fspath(p) for p in path] if isinstance(path, (list, tuple)) else [os.fspath(path)]  # type: ignore[call-overload]
    shown = repr(given[0]) if len(given) == 1 else f"{given[0]!r} and {len(given) - 1} more"
    readers = {_reader(name) for name in given}
    if None in readers or len(readers) > 1:
        rule = (
            f"must be a file ending in {', '.join(_READERS)}"
            if None in readers
            else "must be files of one kind"
        )
        raise EvidenceError(fault(table, rule, shown, remedy="Rename it or pass a data frame."))
    files = [file for name in given for file in _files(name, table)]
    local = [file for file in files if not is_url(file)]
    for file in local:
        if Path(file).stat().st_size == 0:
            raise EvidenceError(
                fault(
                    table,
                    "must not be empty",
                    f"the empty file {file!r}",
                    remedy="Write a header and rows into it.",
                )
            )
    # The engine reads its own globs: a file whose name has one in it is meant as it is.
    plain = [file if is_url(file) else glob.escape(file) for file in files]
    listed = "[" + ", ".join("'" + f.replace("'", "''") + "'" for f in plain) + "]"
    query = f"SELECT * FROM {str(readers.pop()).format(listed, _delimiter(local))}"  # noqa: S608 (names are quoted)
    if ours and len(local) == len(files) and _is_small(files):
        name = f"noracle_file_{next(_tables)}"
        with contextlib.suppress(duckdb.Error):  # the query itself says better what is wrong
            run(f"CREATE TEMP TABLE {name} AS {query}")
            query = f"SELECT * FROM {name}"  # noqa: S608 (our own name)
    try:
        return run(query)
    except duckdb.Error as error:
        raise unreadable(error, f"{table} file {shown}") from None


def _is_small(paths: list[str]) -> bool:
    """Whether these are a few megabytes of text."""
    packed = (*_COMPRESSED, ".parquet", ".pq")
    text = not any(path.lower().endswith(packed) for path in paths)
    return text and sum(Path(path).stat().st_size for path in paths) <= _SMALL


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether this names a place that only an engine's own reader can open."""
    return "://" in os.fspath(path)


def _reader(name: str) -> str | None:
    """The reader of a file, by the end of its name; what follows a question mark in a URL is no
    part of it.
    """
    suffixes = [s.lower() for s in Path(name.split("?", 1)[0] if is_url(name) else name).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return _READERS.get(suffixes[-1] if suffixes else "")


def _files(name: str, table: str) -> list[str]:
    """The files that a path or glob names; a URL is left to the engine."""
    if Path(name).is_file():
        return [name]
    if is_url(name):
        return [name]
    files = [f for f in sorted(glob.glob(name, recursive=True)) if Path(f).is_file()]  # noqa: PTH207 (the pattern may be absolute)
    if not files:
        raise EvidenceError(
            fault(
                table,
                "must name a file or a glob that matches files",
                repr(name),
                remedy="Check the path.",
            )
        )
    return files


def _delimiter(files: list[str]) -> str:
    """The delimiter of the header line; guessed from all lines, one ragged line could make it
    disappear.
    """
    if not files or files[0].lower().endswith(_COMPRESSED):
        return ""
    with Path(files[0]).open("rb") as file:
        header = file.readline(100_000)
    found = max((",", ";", "\t", "|"), key=lambda mark: header.count(mark.encode()))
    return f", delim = '{found}'" if found.encode() in header else ""


_REASONS = (
    (
        r"invalid unicode|not utf-8|byte sequence|invalid utf",
        "must be UTF-8 text",
        "Save it as UTF-8",
    ),
    (
        r"magic bytes|footer|thrift|snappy|truncated|not a parquet|too small to be",
        "must be a complete Parquet file",
        "Write it again",
    ),
    (r"json", "must hold one JSON object a line", "Repair that line"),
    (
        r"convert",
        "must keep one type a column",
        "Make the whole column text or the whole column whole numbers",
    ),
    (r"csv", "must be a regular CSV file", "Repair that line"),
    (
        r"schema|type mismatch|mismatch",
        "must have the same columns in every file",
        "Write the files again with one schema",
    ),
)


def unreadable(error: Exception, what: str) -> EvidenceError:
    """One line about a file (or a query on it) that the engine refused."""
    text = str(error)
    extension = re.search(
        r"required extension '(\w+)|extension \"(\w+)\"|(\w+) extension", text, flags=re.IGNORECASE
    )
    if extension and re.search(r"install|load|missing extension", text, flags=re.IGNORECASE):
        name = next(group for group in extension.groups() if group)
        remedy = f"With a network run once: python -c \"import duckdb; duckdb.sql('INSTALL {name}')\", or copy the file to this machine."
        return EvidenceError(
            fault(
                what,
                "must be readable",
                f"a place that needs DuckDB's extension {name!r}, not installed",
                remedy=remedy,
            )
        )
    named = re.search(r"file = (.+)$", text, flags=re.MULTILINE) or re.search(
        r"file [\"']([^\"']+)[\"']", text
    )
    if named and "file" not in what:
        what = f"file {named[1].strip()!r}"
    lines = re.search(r"line:?\s*(\d+)", text, flags=re.IGNORECASE)
    column = re.search(r'column "([^"]{1,60})"', text)
    place = f" at line {lines[1]}" if lines else ""
    place += f", column {column[1]!r}" if column else ""
    kind = text.split(":", 1)[0]
    for pattern, rule, remedy in _REASONS:
        if re.search(pattern, text, flags=re.IGNORECASE):
            return EvidenceError(
                fault(
                    what,
                    rule,
                    f"{_article(kind)}{place}",
                    remedy=f"{remedy}, or pass a data frame.",
                )
            )
    return EvidenceError(
        fault(
            what,
            "must be readable",
            f"{_article(kind)}{place}",
            remedy="Open it with its own tool and save it again.",
        )
    )


def _article(kind: str) -> str:
    kind = kind.strip().lower()[:60]
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"


def log_format(path: object) -> str | None:
    """``inspect``, ``lm-eval``, or None where this is not a log; for a glob or a list the first
    file tells.
    """
    if isinstance(path, (list, tuple)) and path:
        return log_format(path[0])
    if not isinstance(path, (str, Path)):
        return None
    name = os.fspath(path).lower()
    if not name.endswith((".eval", ".json", ".jsonl")):
        return None
    if name.endswith(".eval"):
        return "inspect"
    found = files_of(path)
    if not found:
        return None
    try:
        with found[0].open("rb") as file:
            head = file.read(4096) if name.endswith(".json") else file.readline(4_000_000)
    except OSError:
        return None
    if name.endswith(".json"):
        return (
            "inspect"
            if re.match(
                rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"\w+"\s*,\s*"eval"\s*:', head
            )
            else None
        )
    return (
        "lm-eval"
        if all(key in head for key in (b'"doc_id"', b'"filtered_resps"', b'"arguments"'))
        else None
    )


def files_of(path: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files that a path, a glob or a list of these names, sorted."""
    if not isinstance(path, (str, Path)):
        return [file for part in path for file in files_of(part)]
    name = os.fspath(path)
    names = [name] if Path(name).is_file() else sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (the pattern may be absolute)
    return [Path(n) for n in names if Path(n).is_file()]
