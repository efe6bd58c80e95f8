"""The same tables on every engine: dicts of columns in, frames or files out."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Columns = dict[str, list[Any]]

SQL_TYPES = {
    "item": "BIGINT",
    "answer": "BIGINT",
    "class": "BIGINT",
    "n_classes": "BIGINT",
    "propensity": "DOUBLE",
    "weight": "DOUBLE",
}


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def as_dict(columns: Columns, name: str, folder: Path) -> Any:
    return columns


def as_pandas(columns: Columns, name: str, folder: Path) -> Any:
    import pandas as pd

    return pd.DataFrame(columns)


def as_polars(columns: Columns, name: str, folder: Path) -> Any:
    import polars as pl

    return pl.DataFrame(columns)


def as_polars_lazy(columns: Columns, name: str, folder: Path) -> Any:
    return as_polars(columns, name, folder).lazy()


def as_arrow(columns: Columns, name: str, folder: Path) -> Any:
    import pyarrow as pa

    return pa.table(columns)


def as_csv(columns: Columns, name: str, folder: Path) -> Path:
    path = folder / f"{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def as_jsonl(columns: Columns, name: str, folder: Path) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of(columns)), encoding="utf-8")
    return path


def as_parquet(columns: Columns, name: str, folder: Path) -> Path:
    import polars as pl

    path = folder / f"{name}.parquet"
    pl.DataFrame(columns).write_parquet(path)
    return path


def as_relations(tables: Mapping[str, Columns], folder: Path) -> dict[str, Any]:
    """Relations of one DuckDB connection."""
    import duckdb

    connection = duckdb.connect()
    return {
        name: connection.read_parquet(str(as_parquet(columns, name, folder)))
        for name, columns in tables.items()
    }


def as_spark(tables: Mapping[str, Columns], session: Any) -> dict[str, Any]:
    frames = {}
    for name, columns in tables.items():
        types = [f"`{c}` {_sql_type(c, values)}" for c, values in columns.items()]
        frames[name] = session.createDataFrame(
            list(zip(*columns.values(), strict=True)), schema=", ".join(types)
        )
    return frames


def _sql_type(column: str, values: list[Any]) -> str:
    kinds = {type(v) for v in values if v is not None}
    found = {
        frozenset({str}): "STRING",
        frozenset({int}): "BIGINT",
        frozenset({float}): "DOUBLE",
    }.get(frozenset(kinds))
    return found or SQL_TYPES.get(column, "STRING")


SINGLE: dict[str, Callable[[Columns, str, Path], Any]] = {
    "dict": as_dict,
    "pandas": as_pandas,
    "polars": as_polars,
    "polars-lazy": as_polars_lazy,
    "arrow": as_arrow,
    "csv": as_csv,
    "jsonl": as_jsonl,
    "parquet": as_parquet,
}


def as_ibis(tables: Mapping[str, Columns], folder: Path) -> dict[str, Any]:
    """Tables of one Ibis connection to DuckDB."""
    import duckdb
    import ibis

    connection = duckdb.connect()
    made = {name: _created(connection, columns, name, folder) for name, columns in tables.items()}
    backend = ibis.duckdb.from_connection(connection)
    return {name: backend.table(table) for name, table in made.items()}


def as_sqlframe(tables: Mapping[str, Columns], folder: Path) -> dict[str, Any]:
    """Frames of SQLFrame's session on DuckDB, of which there is one."""
    from sqlframe.duckdb import DuckDBSession

    session = DuckDBSession()
    made = {
        name: _created(session._conn, columns, name, folder) for name, columns in tables.items()
    }
    return {name: session.table(table) for name, table in made.items()}


def _created(connection: Any, columns: Columns, name: str, folder: Path) -> str:
    table = f"t{next(_tables)}_{name}"
    connection.execute(
        f"CREATE TABLE {table} AS SELECT * FROM read_parquet('{as_parquet(columns, name, folder)}')"
    )
    return table


_tables = itertools.count()
