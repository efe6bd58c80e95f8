"""The same tables on every engine: dicts of columns in, frames or files out."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Columns = dict[str, list[Any]]

SQL_TYPES = {"item": "BIGINT", "answer": "BIGINT", "class": "BIGINT", "n_classes": "BIGINT", "propensity": "DOUBLE", "weight": "DOUBLE"}


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


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
    return {name: connection.read_parquet(str(as_parquet(columns, name, folder))) for name, columns in tables.items()}


def as_spark(tables: Mapping[str, Columns], session: Any) -> dict[str, Any]:
    frames = {}
    for name, columns in tables.items():
        types = [f"`{c}` {SQL_TYPES.get(c, 'STRING') if not _is_text(values) else 'STRING'}" for c, values in columns.items()]
        frames[name] = session.createDataFrame(list(zip(*columns.values(), strict=True)), schema=", ".join(types))
    return frames


def _is_text(values: list[Any]) -> bool:
    return any(isinstance(v, str) for v in values)


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
