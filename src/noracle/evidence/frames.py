"""Any data frame or file as a lazy narwhals frame, and lazy frames as plain rows.

Polars, PySpark (also Spark Connect), Ibis and SQLFrame stay where they are; everything else (files,
dicts, pandas, Arrow, DuckDB relations) runs in DuckDB.
"""

from __future__ import annotations

import importlib
import itertools
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from noracle.errors import EvidenceError, EvidenceWarning, MissingExtra, fault
from noracle.evidence import files
from noracle.evidence.files import log_format

if TYPE_CHECKING:
    import duckdb

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
        raise EvidenceError(fault(name, f"must be {_ACCEPTED}", type(table).__name__)) from None
    kind = str(native.implementation)
    if kind not in {"pandas", "polars", "pyarrow", "duckdb", *_ENGINES}:
        raise EvidenceError(
            fault(name, f"must be {_ACCEPTED}", f"a {kind} frame", remedy="Convert it first.")
        )
    return kind


def _is_paths(table: object) -> bool:
    return (
        isinstance(table, (list, tuple))
        and bool(table)
        and all(isinstance(part, (str, os.PathLike)) for part in table)
    )


def open_frames(tables: Mapping[str, object]) -> tuple[dict[str, Frame], object]:
    """Bring tables onto one engine; also returns the connection, which must live as long as the
    frames.
    """
    kinds = {name: backend(table, name) for name, table in tables.items()}
    used = set(kinds.values())
    natives: dict[str, Any] = {
        name: nw.to_native(table, pass_through=True) for name, table in tables.items()
    }
    for kind, engine in _ENGINES.items():
        if kind in used and len(used) > 1:
            remedy = f"Read the others with {engine} too."
            raise EvidenceError(
                fault(
                    "tables", f"must all be {engine} frames or none", _listed(kinds), remedy=remedy
                )
            )
    if len(used) == 1 and used <= {"polars", *_ENGINES}:
        _require_one_session(natives, used)
        return {name: nw.from_native(native).lazy() for name, native in natives.items()}, None
    anchors = [natives[name] for name, kind in kinds.items() if kind == "duckdb"]
    connection = None if anchors else files.connect()

    def run(query: str, frame: Any = None) -> duckdb.DuckDBPyRelation:  # noqa: ARG001
        # DuckDB finds ``frame`` by its name in the query: it looks at the variables of the caller.
        return anchors[0].query("noracle_anchor", query) if anchors else connection.sql(query)  # type: ignore[union-attr]

    frames = {
        name: nw.from_native(
            _relation(natives[name], kinds[name], name, run, ours=connection is not None)
        )
        for name in tables
    }
    if len(anchors) > 1:
        _require_one_connection(anchors)
    return frames, connection


def _require_one_session(natives: Mapping[str, Any], used: set[str]) -> None:
    """Tables of two connections cannot be joined; Spark and Polars say so themselves."""
    try:
        if used == {"ibis"}:
            homes = {id(native.get_backend()) for native in natives.values()}
        else:
            homes = (
                {id(native.session) for native in natives.values()}
                if used == {"sqlframe"}
                else set()
            )
    except Exception as error:  # noqa: BLE001 (an Ibis table without a connection, or with several, is refused by an error of Ibis's own)
        came = f"tables for which Ibis says {type(error).__name__}"
        raise EvidenceError(
            fault("tables", "must belong to one connection", came, remedy="Connect them first.")
        ) from None
    if len(homes) > 1:
        raise EvidenceError(
            fault(
                "tables",
                "must belong to one connection",
                "two",
                remedy="Make them with the same connection.",
            )
        )


def _require_one_connection(relations: Sequence[Any]) -> None:
    import duckdb

    try:
        for other in relations[1:]:
            relations[0].limit(0).set_alias("left_side").cross(
                other.limit(0).set_alias("right_side")
            )
    except duckdb.Error:
        raise EvidenceError(
            fault(
                "tables",
                "must be relations of one DuckDB connection",
                "two connections",
                remedy="Make them with the same connection.",
            )
        ) from None


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
        return files.scan(table, name, run, ours=ours)
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
                faults.append(
                    fault(
                        f"{name}.{column}",
                        "must hold one type",
                        " and ".join(sorted(seen)),
                        remedy="Convert the column.",
                    )
                )
    if faults:
        raise EvidenceError(*faults)


def _from_columns(
    table: Mapping[str, Any], name: str, run: Callable[..., duckdb.DuckDBPyRelation]
) -> duckdb.DuckDBPyRelation:
    columns = {str(k): _values(v) for k, v in table.items()}
    lengths = {len(v) for v in columns.values()}
    if len(lengths) > 1:
        found = ", ".join(f"{k} {len(v)}" for k, v in columns.items())
        raise EvidenceError(fault(name, "must have columns of one length", found))
    if not columns:
        raise EvidenceError(fault(name, "must have columns", "an empty dict"))
    types, faults = {}, []
    for k, v in columns.items():
        try:
            types[k] = _sql_type(v)
        except TypeError as error:
            faults.append(
                fault(f"{name}.{k}", "must hold one type", error, remedy="Convert the column.")
            )
    if faults:
        raise EvidenceError(*faults)
    parts = ", ".join(f"CAST({_quoted(k)} AS {sql}) AS {_quoted(k)}" for k, sql in types.items())
    return run(f"SELECT {parts} FROM frame", {k: _array(v, types[k]) for k, v in columns.items()})  # noqa: S608 (names are quoted)


def _values(column: Any) -> list[Any]:
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    return [None if isinstance(v, float) and math.isnan(v) else v for v in values]


def _sql_type(values: Sequence[Any]) -> str:
    seen = {type(v) for v in values if v is not None}
    names = {t.__name__ for t in seen}
    for allowed, sql in (
        ({"bool"}, "BOOLEAN"),
        ({"int"}, "BIGINT"),
        ({"int", "float"}, "DOUBLE"),
        ({"str"}, "VARCHAR"),
        ({"date"}, "DATE"),
        ({"datetime"}, "TIMESTAMP"),
        ({"list", "tuple"}, "VARCHAR[]"),
    ):
        if names and names <= allowed:
            return sql
    if not names:
        return "VARCHAR"
    raise TypeError(" and ".join(sorted(names)))


def _array(values: Sequence[Any], sql: str) -> Any:
    """A numpy array that DuckDB can scan without any data frame library."""
    if sql in {"BIGINT", "BOOLEAN"}:
        kind = np.int64 if sql == "BIGINT" else np.bool_
        return np.ma.masked_array(
            [v or 0 for v in values], mask=[v is None for v in values], dtype=kind
        )
    if sql == "DOUBLE":
        return np.array([math.nan if v is None else v for v in values], dtype=np.float64)
    array = np.empty(len(values), dtype=object)
    array[:] = [
        [str(part) for part in v] if sql == "VARCHAR[]" and v is not None else v for v in values
    ]
    return array


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items())


def fetch(frame: Frame) -> list[tuple[Any, ...]]:
    """All rows of a lazy frame as tuples of plain Python values; without pyarrow on every engine."""
    native: Any = frame.to_native()
    if frame.implementation.is_polars():
        rows: list[tuple[Any, ...]] = native.collect().rows()
        return rows
    if frame.implementation.is_duckdb():
        import duckdb

        try:
            rows = native.fetchall()
        except duckdb.Error as error:
            raise files.unreadable(error, "evidence") from None
        return rows
    if frame.implementation.is_ibis():
        table = native.to_pyarrow()
        return (
            list(zip(*(column.to_pylist() for column in table.columns), strict=True))
            if table.num_columns
            else []
        )
    return [tuple(row) for row in native.collect()]


def settle(frame: Frame, *, ours: bool) -> Frame:
    """The frame worked out once, for several queries: a temporary table that spills to disk
    (DuckDB), or a frame in memory (Polars).

    Without ``ours`` the connection is somebody else's, and no table is left on it. PySpark, Ibis
    and SQLFrame keep their own plans: what is cached there would stay after us.
    """
    native: Any = frame.to_native()
    if frame.implementation.is_polars():
        collected: Frame = nw.from_native(native.collect().lazy())
        return collected
    if not (ours and frame.implementation.is_duckdb()):
        return frame
    import duckdb

    name = f"noracle_settled_{next(_settled)}"
    try:
        native.query(
            "noracle_unsettled",
            f"CREATE TEMP TABLE {name} AS SELECT * FROM noracle_unsettled",  # noqa: S608 (our own name)
        )
        settled: Frame = nw.from_native(native.query("noracle_unsettled", f"SELECT * FROM {name}"))  # noqa: S608 (our own name)
    except duckdb.Error as error:
        raise files.unreadable(error, "evidence") from None
    return settled


def keeps_order(frame: Frame) -> bool:
    """Whether the rows of a frame have an order of their own; on a cluster or in a warehouse they
    have none.
    """
    return frame.implementation.is_polars() or frame.implementation.is_duckdb()


def engine_of(frame: Frame) -> str:
    """The engine of a frame as a message names it."""
    return _ENGINES.get(str(frame.implementation), str(frame.implementation))


def number_rows(frame: Frame, name: str) -> Frame:
    """The frame with its row numbers (from 0) in a new column, where the engine keeps the order of
    rows.
    """
    native: Any = frame.to_native()
    if frame.implementation.is_polars():
        native = native.with_row_index(name).cast({name: importlib.import_module("polars").Int64})
    elif frame.implementation.is_duckdb():
        native = native.select(f"*, row_number() OVER () - 1 AS {_quoted(name)}")
    elif frame.implementation.is_ibis():
        native = native.mutate(**{name: importlib.import_module("ibis").row_number()})
    elif frame.implementation.is_sqlframe():
        dialect = type(native).__module__.rsplit(".", 1)[0]
        functions, window = (
            importlib.import_module(f"{dialect}.{part}") for part in ("functions", "window")
        )
        native = native.withColumn(
            name, functions.row_number().over(window.Window.orderBy(functions.lit(1))) - 1
        )
    else:
        connect = ".connect" if frame.implementation.is_pyspark_connect() else ""
        functions = importlib.import_module(f"pyspark.sql{connect}.functions")
        native = native.withColumn(name, functions.monotonically_increasing_id())
    numbered: Frame = nw.from_native(native)
    return numbered
