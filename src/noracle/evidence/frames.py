"""Any data frame or file as a lazy narwhals frame, and lazy frames as plain rows.

Polars, PySpark (also Spark Connect), Ibis and SQLFrame stay where they are; everything else (files,
dicts, pandas, Arrow, DuckDB relations) runs in DuckDB.
"""

from __future__ import annotations

import atexit
import contextlib
import glob
import importlib
import itertools
import math
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from noracle.errors import (
    EvidenceError,
    EvidenceWarning,
    MissingExtra,
    fault,
    raise_faults,
    require_evidence,
)

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
    """At exit: DuckDB 2.0 would report types that narwhals keeps as leaked."""
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
    known, remedy = None not in readers, "Rename it or pass a data frame."
    rule = (
        "must be files of one kind" if known else f"must be a file ending in {', '.join(_READERS)}"
    )
    require_evidence(known and len(readers) == 1, table, rule, shown, remedy=remedy)
    files = [file for name in given for file in _files(name, table)]
    local = [file for file in files if not is_url(file)]
    for file in local:
        came, remedy = f"the empty file {file!r}", "Write a header and rows into it."
        size = Path(file).stat().st_size
        require_evidence(size, table, "must not be empty", came, remedy=remedy)
    # The engine reads its own globs: a file whose name has one in it is meant as it is.
    plain = [file if is_url(file) else glob.escape(file) for file in files]
    listed = "[" + ", ".join("'" + f.replace("'", "''") + "'" for f in plain) + "]"
    reader = str(readers.pop())
    query = f"SELECT * FROM {reader.format(listed, _delimiter(local))}"  # noqa: S608 (names are quoted)
    if ours and len(local) == len(files) and _is_small(files):
        name = f"noracle_file_{next(_tables)}"
        with contextlib.suppress(duckdb.Error):  # the query itself says better what is wrong
            run(f"CREATE TEMP TABLE {name} AS {query}")
            query = f"SELECT * FROM {name}"  # noqa: S608 (our own name)
    with _readable(f"{table} file {shown}"):
        found = run(query)
        # Numbers and texts in one column of JSON lines: a text is the text, not its JSON.
        kinds = zip(found.columns, found.types, strict=True) if reader[:9] == "read_json" else ()
        texts = ", ".join(
            f"{q} ->> '$' AS {q}" for c, k in kinds if k == "JSON" for q in [quoted(c)]
        )
        return run(query.replace("*", f"* REPLACE ({texts})", 1)) if texts else found


@contextlib.contextmanager
def _readable(what: str = "evidence") -> Iterator[None]:
    """Turn an error of the engine into one line about a file, or a query on it."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise unreadable(error, what) from None


def _is_small(paths: list[str]) -> bool:
    """Whether these are a few megabytes of text."""
    packed = (*_COMPRESSED, ".parquet", ".pq")
    text = not any(path.lower().endswith(packed) for path in paths)
    return text and sum(Path(path).stat().st_size for path in paths) <= _SMALL


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether this names a place that only an engine's own reader can open."""
    return "://" in os.fspath(path)


def _reader(name: str) -> str | None:
    """The reader of a file, by the end of its name without what follows a question mark."""
    suffixes = [s.lower() for s in Path(name.split("?", 1)[0] if is_url(name) else name).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return _READERS.get(suffixes[-1] if suffixes else "")


def _files(name: str, table: str) -> list[str]:
    """The files that a path or glob names; a URL is left to the engine."""
    if Path(name).is_file() or is_url(name):
        return [name]
    files = [f for f in sorted(glob.glob(name, recursive=True)) if Path(f).is_file()]  # noqa: PTH207 (the pattern may be absolute)
    rule = "must name a file or a glob that matches files"
    require_evidence(files, table, rule, repr(name), remedy="Check the path.")
    return files


def _delimiter(files: list[str]) -> str:
    """The delimiter of the header line: one ragged line could hide it among all lines."""
    if not files or files[0].lower().endswith(_COMPRESSED):
        return ""
    with Path(files[0]).open("rb") as file:
        header = file.readline(100_000)
    found = max((",", ";", "\t", "|"), key=lambda mark: header.count(mark.encode()))
    return f", delim = '{found}'" if found.encode() in header else ""


_TEXT = r"invalid unicode|not utf-8|byte sequence|invalid utf"
_PARQUET = r"magic bytes|footer|thrift|snappy|truncated|not a parquet|too small to be"
_ONE_TYPE = "Make the whole column text or the whole column whole numbers"
_ONE_SCHEMA = "Write the files again with one schema"
_REASONS = (
    (_TEXT, "must be UTF-8 text", "Save it as UTF-8"),
    (_PARQUET, "must be a complete Parquet file", "Write it again"),
    (r"json", "must hold one JSON object a line", "Repair that line"),
    (r"convert", "must keep one type per column", _ONE_TYPE),
    (r"csv", "must be a regular CSV file", "Repair that line"),
    (r"schema|mismatch", "must have the same columns in every file", _ONE_SCHEMA),
)


def unreadable(error: Exception, what: str) -> EvidenceError:
    """One line about a file (or a query on it) that the engine refused."""
    text = str(error)
    named_so = r"required extension '(\w+)|extension \"(\w+)\"|(\w+) extension"
    extension = re.search(named_so, text, flags=re.IGNORECASE)
    if extension and re.search(r"install|load|missing extension", text, flags=re.IGNORECASE):
        name = next(group for group in extension.groups() if group)
        remedy = f"With a network run once: python -c \"import duckdb; duckdb.sql('INSTALL {name}')\", or copy the file to this machine."
        came = f"a place that needs DuckDB's extension {name!r}, not installed"
        return EvidenceError.of(what, "must be readable", came, remedy=remedy)
    named = re.search(r"file = (.+)$", text, flags=re.MULTILINE)
    named = named or re.search(r"file [\"']([^\"']+)[\"']", text)
    if named and "file" not in what:
        what = f"file {named[1].strip()!r}"
    lines = re.search(r"line:?\s*(\d+)", text, flags=re.IGNORECASE)
    column = re.search(r'column "([^"]{1,60})"', text)
    place = f" at line {lines[1]}" if lines else ""
    place += f", column {column[1]!r}" if column else ""
    kind = text.split(":", 1)[0].strip().lower()[:60]
    came = f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}{place}"
    for pattern, rule, remedy in _REASONS:
        if re.search(pattern, text, flags=re.IGNORECASE):
            return EvidenceError.of(what, rule, came, remedy=f"{remedy}, or pass a data frame.")
    remedy = "Open it with its own tool and save it again."
    return EvidenceError.of(what, "must be readable", came, remedy=remedy)


def log_format(path: object) -> str | None:
    """``inspect``, ``lm-eval`` or None: what tool wrote a log; of several files, the first."""
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
        return "inspect" if _INSPECT.match(head) else None
    samples = all(key in head for key in (b'"doc_id"', b'"filtered_resps"', b'"arguments"'))
    return "lm-eval" if samples else None


_INSPECT = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"\w+"\s*,\s*"eval"\s*:')


def files_of(path: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files that a path, a glob or a list of these names, sorted."""
    if not isinstance(path, (str, Path)):
        return [file for part in path for file in files_of(part)]
    name = os.fspath(path)
    names = [name] if Path(name).is_file() else sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (the pattern may be absolute)
    return [Path(n) for n in names if Path(n).is_file()]


Frame = nw.LazyFrame[Any]
"""A lazy table of any backend."""

_ACCEPTED = "a path, a dict of columns, or a pandas, Polars, Arrow, DuckDB, PySpark, Ibis or SQLFrame frame, or a list of paths"
_ENGINES = {
    "pyspark": "PySpark",
    "pyspark[connect]": "Spark Connect",
    "ibis": "Ibis",
    "sqlframe": "SQLFrame",
}
"""Engines that count where their tables are: nothing else is brought to them."""
_SCORES = ("scores", "data", "pilot")  # what tables of numbers by raters are called
_settled = itertools.count()


def backend(table: object, name: str = "table") -> str:
    """Which engine holds this table: path, dict, pandas, polars, pyarrow, duckdb, pyspark,
    pyspark[connect], ibis or sqlframe.
    """
    if isinstance(table, (str, os.PathLike)) or _is_paths(table):
        return "path"
    if isinstance(table, Mapping):
        return "dict"
    try:
        native = nw.from_native(nw.to_native(table, pass_through=True))
    except TypeError:
        raise EvidenceError.of(name, f"must be {_ACCEPTED}", type(table).__name__) from None
    kind = str(native.implementation)
    known, came = kind in {"pandas", "polars", "pyarrow", "duckdb", *_ENGINES}, f"a {kind} frame"
    require_evidence(known, name, f"must be {_ACCEPTED}", came, remedy="Convert it first.")
    return kind


def _is_paths(table: object) -> bool:
    parts = table if isinstance(table, (list, tuple)) else ()
    return bool(parts) and all(isinstance(part, (str, os.PathLike)) for part in parts)


def open_frames(tables: Mapping[str, object]) -> tuple[dict[str, Frame], object]:
    """Bring tables onto one engine; its connection must live as long as the frames."""
    kinds = {name: backend(table, name) for name, table in tables.items()}
    used = set(kinds.values())
    natives: dict[str, Any] = {n: nw.to_native(t, pass_through=True) for n, t in tables.items()}
    for kind, engine in _ENGINES.items():
        fits, came = kind not in used or len(used) == 1, [f"{n} {k}" for n, k in kinds.items()]
        rule, remedy = f"must all be {engine} frames or none", f"Read the others with {engine} too."
        require_evidence(fits, "tables", rule, ", ".join(came), remedy=remedy)
    if len(used) == 1 and used <= {"polars", *_ENGINES}:
        _require_one_session(natives, used)
        return {name: nw.from_native(native).lazy() for name, native in natives.items()}, None
    anchors = [natives[name] for name, kind in kinds.items() if kind == "duckdb"]
    connection = None if anchors else connect()

    def run(query: str, frame: Any = None) -> duckdb.DuckDBPyRelation:  # noqa: ARG001
        # DuckDB finds ``frame`` by its name in the query: it looks at the variables of the caller.
        return anchors[0].query("noracle_anchor", query) if anchors else connection.sql(query)  # type: ignore[union-attr]

    frames: dict[str, Frame] = {}
    for name, native in natives.items():
        relation = _relation(native, kinds[name], name, run, ours=connection is not None)
        frames[name] = nw.from_native(relation)
    if len(anchors) > 1:
        _require_one_connection(anchors)
    return frames, connection


def _require_one_session(natives: Mapping[str, Any], used: set[str]) -> None:
    """Tables of two connections cannot be joined; Spark and Polars say so themselves."""
    homes: set[int] = set()
    try:
        if used == {"ibis"}:
            homes = {id(native.get_backend()) for native in natives.values()}
        elif used == {"sqlframe"}:
            homes = {id(native.session) for native in natives.values()}
    except Exception as error:  # noqa: BLE001 (an Ibis table without a connection, or with several, is refused by an error of Ibis's own)
        came = f"tables for which Ibis says {type(error).__name__}"
        rule = "must belong to one connection"
        raise EvidenceError.of("tables", rule, came, remedy="Connect them first.") from None
    rule, remedy = "must belong to one connection", "Make them with the same connection."
    require_evidence(len(homes) < 2, "tables", rule, "two", remedy=remedy)


def _require_one_connection(relations: Sequence[Any]) -> None:
    import duckdb

    first = relations[0].limit(0).set_alias("left_side")
    try:
        for other in relations[1:]:
            first.cross(other.limit(0).set_alias("right_side"))
    except duckdb.Error:
        rule = "must be relations of one DuckDB connection"
        remedy = "Make them with the same connection."
        raise EvidenceError.of("tables", rule, "two connections", remedy=remedy) from None


def _relation(
    table: Any, kind: str, name: str, run: Callable[..., duckdb.DuckDBPyRelation], *, ours: bool
) -> duckdb.DuckDBPyRelation:
    if kind == "path" and name == "answers" and log_format(table) is not None:
        from noracle.evidence.logs import read_logs

        return _from_columns(read_logs(table, labels=False).answers, name, run)
    if kind == "path" and name in ("grades", *_SCORES):
        found = _results(table, name)
        if found is not None:
            return _from_columns(found, name, run)
    if kind == "path":
        return scan(table, name, run, ours=ours)
    if kind == "dict":
        return _from_columns(table, name, run)
    if kind == "polars":
        try:
            importlib.import_module("pyarrow")
        except ImportError:
            raise MissingExtra("Polars together with other frames", "pyarrow", "arrow") from None
        table = nw.from_native(table).lazy().collect().to_arrow()
    if kind == "pandas":
        _refuse_mixed(table, name)
    return table if kind == "duckdb" else run("SELECT * FROM frame", table)


def _results(path: Any, name: str) -> Mapping[str, Any] | None:
    """Results of an evaluation tool as grades or scores; None for other files."""
    from noracle.evidence.grade_logs import grades_log_format, read_grades, read_scores

    if grades_log_format(path) is None:
        return None
    found = read_grades(path) if name == "grades" else read_scores(path)
    for note in found.notes if name != "grades" else ():
        warnings.warn(note, EvidenceWarning, stacklevel=3)
    return found.columns


def _refuse_mixed(table: Any, name: str) -> None:
    """A pandas column of Python objects must hold one type; DuckDB would make text of it."""
    faults = []
    for column in table.columns:
        if table[column].dtype == object:
            seen = {type(v).__name__ for v in table[column] if v is not None and v == v}
            if len(seen) > 1 and not seen <= {"int", "float"}:
                came = " and ".join(sorted(seen))
                remedy = "Convert the column."
                faults.append(fault(f"{name}.{column}", "must hold one type", came, remedy=remedy))
    raise_faults(faults)


def _from_columns(
    table: Mapping[str, Any], name: str, run: Callable[..., duckdb.DuckDBPyRelation]
) -> duckdb.DuckDBPyRelation:
    columns = {str(k): _values(v) for k, v in table.items()}
    same = len({len(v) for v in columns.values()}) < 2
    came = ", ".join(f"{k} {len(v)}" for k, v in columns.items())
    require_evidence(same, name, "must have columns of one length", came)
    require_evidence(columns, name, "must have columns", "an empty dict")
    types, faults = {}, []
    for k, v in columns.items():
        try:
            types[k] = _sql_type(v)
        except TypeError as error:
            what, remedy = f"{name}.{k}", "Convert the column."
            faults.append(fault(what, "must hold one type", error, remedy=remedy))
    raise_faults(faults)
    parts = ", ".join(f"CAST({quoted(k)} AS {sql}) AS {quoted(k)}" for k, sql in types.items())
    return run(f"SELECT {parts} FROM frame", {k: _array(v, types[k]) for k, v in columns.items()})  # noqa: S608 (names are quoted)


def _values(column: Any) -> list[Any]:
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    return [None if isinstance(v, float) and math.isnan(v) else v for v in values]


_SQL = {"bool": "BOOLEAN", "int": "BIGINT", "float": "DOUBLE", "str": "VARCHAR", "date": "DATE"}
_SQL |= {"datetime": "TIMESTAMP", "list": "VARCHAR[]", "tuple": "VARCHAR[]"}


def _sql_type(values: Sequence[Any]) -> str:
    names = {type(v).__name__ for v in values if v is not None}
    found = {_SQL.get(name) for name in names} or {"VARCHAR"}
    found = {"DOUBLE"} if found == {"BIGINT", "DOUBLE"} else found
    sql = found.pop()
    if found or sql is None:
        raise TypeError(" and ".join(sorted(names)))
    return sql


def _array(values: Sequence[Any], sql: str) -> Any:
    """A numpy array that DuckDB can scan without any data frame library."""
    if sql in {"BIGINT", "BOOLEAN"}:
        kind, missing = np.int64 if sql == "BIGINT" else np.bool_, [v is None for v in values]
        return np.ma.masked_array([v or 0 for v in values], mask=missing, dtype=kind)
    if sql == "DOUBLE":
        return np.array([math.nan if v is None else v for v in values], dtype=np.float64)
    if sql == "VARCHAR[]":
        values = [None if v is None else [str(part) for part in v] for v in values]
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def fetch(frame: Frame) -> list[tuple[Any, ...]]:
    """All rows of a lazy frame as tuples of plain Python values; without pyarrow on every engine."""
    native: Any = frame.to_native()
    rows: list[tuple[Any, ...]]
    if frame.implementation.is_polars():
        rows = native.collect().rows()
    elif frame.implementation.is_duckdb():
        with _readable():
            rows = native.fetchall()
    elif frame.implementation.is_ibis():
        columns = native.to_pyarrow().columns
        rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
    else:
        rows = [tuple(row) for row in native.collect()]
    return rows


def fetch_arrays(frame: Frame) -> dict[str, Any]:
    """The columns of a lazy frame without nulls as arrays."""
    native: Any = frame.to_native()
    if frame.implementation.is_duckdb():
        with _readable():
            found = native.fetchnumpy()
        return {name: np.asarray(found[name]) for name in frame.columns}
    if frame.implementation.is_polars():
        table = native.collect()
        return {name: table[name].to_numpy() for name in table.columns}
    rows = fetch(frame)
    return {name: np.array([row[i] for row in rows]) for i, name in enumerate(frame.columns)}


def is_there(column: str) -> nw.Expr:
    """Where a column has a value."""
    return ~nw.col(column).is_null()


def cases(pairs: Iterable[tuple[nw.Expr, Any]], otherwise: Any = None) -> nw.Expr:
    """The value of the first condition that holds; without one ``otherwise``, or null."""

    def as_expr(value: Any) -> nw.Expr:
        return value if isinstance(value, nw.Expr) else nw.lit(value)

    chain: Any = nw
    for condition, value in pairs:
        chain = chain.when(condition).then(as_expr(value))
    found: nw.Expr = chain if otherwise is None else chain.otherwise(as_expr(otherwise))
    return found


def distinct(frame: Frame, *columns: str) -> Frame:
    """The different values of some columns."""
    return frame.group_by(*columns).agg(_n=nw.len()).select(*columns)


def numbers_of(frame: Frame, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    """The different values of some columns in order, each with its number of rows."""
    return fetch(frame.group_by(*keys).agg(n=nw.len()).sort(*keys).select(*keys, "n"))


def has_rows(frame: Frame) -> bool:
    """Whether a frame has any row."""
    return bool(fetch(frame.head(1)))


def settle(frame: Frame, *, ours: bool) -> Frame:
    """The frame worked out once, for several queries: in DuckDB's tables or Polars' memory.

    Without ``ours`` the connection is somebody else's, and no table is left on it. PySpark, Ibis
    and SQLFrame keep their own plans: what is cached there would stay after us.
    """
    native: Any = frame.to_native()
    if frame.implementation.is_polars():
        collected: Frame = nw.from_native(native.collect().lazy())
        return collected
    if not (ours and frame.implementation.is_duckdb()):
        return frame
    name = f"noracle_settled_{next(_settled)}"
    copy = f"CREATE TEMP TABLE {name} AS SELECT * FROM noracle_unsettled"  # noqa: S608 (our own name)
    with _readable():
        native.query("noracle_unsettled", copy)
        settled: Frame = nw.from_native(native.query("noracle_unsettled", f"SELECT * FROM {name}"))  # noqa: S608 (our own name)
    return settled


def keeps_order(frame: Frame) -> bool:
    """Whether rows have an order of their own; on a cluster or in a warehouse they do not."""
    return frame.implementation.is_polars() or frame.implementation.is_duckdb()


def engine_of(frame: Frame) -> str:
    """The engine of a frame as a message names it."""
    return _ENGINES.get(str(frame.implementation), str(frame.implementation))


def number_rows(frame: Frame, name: str) -> Frame:
    """The frame with row numbers from 0 in a new column, where the engine keeps their order."""
    native: Any = frame.to_native()
    if frame.implementation.is_polars():
        native = native.with_row_index(name).cast({name: importlib.import_module("polars").Int64})
    elif frame.implementation.is_duckdb():
        native = native.select(f"*, row_number() OVER () - 1 AS {quoted(name)}")
    elif frame.implementation.is_ibis():
        native = native.mutate(**{name: importlib.import_module("ibis").row_number()})
    elif frame.implementation.is_sqlframe():
        dialect = type(native).__module__.rsplit(".", 1)[0]
        functions = importlib.import_module(f"{dialect}.functions")
        window = importlib.import_module(f"{dialect}.window").Window.orderBy(functions.lit(1))
        native = native.withColumn(name, functions.row_number().over(window) - 1)
    else:
        connect = ".connect" if frame.implementation.is_pyspark_connect() else ""
        functions = importlib.import_module(f"pyspark.sql{connect}.functions")
        native = native.withColumn(name, functions.monotonically_increasing_id())
    numbered: Frame = nw.from_native(native)
    return numbered
