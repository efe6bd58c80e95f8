"""Tables out: CSV, JSONL and Parquet that ``noracle estimate`` reads as they are."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

TableFormat = Literal["csv", "jsonl", "parquet"]
_SQL = {"text": "VARCHAR", "whole": "BIGINT", "number": "DOUBLE", "list": "VARCHAR[]"}
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under named columns; a column is ``text``, ``whole``, ``number`` or ``list`` (of texts)."""

    columns: Mapping[str, str]
    rows: Sequence[Sequence[Any]]


def table_bytes(table: Table, kind: TableFormat) -> bytes:
    """One table as the bytes of a file.

    Examples
    --------
    >>> table_bytes(Table(columns={"item": "text", "class": "whole"}, rows=[("a", 1), ("b", None)]), "csv").decode().split()
    ['item,class', 'a,1', 'b,']
    """
    if kind == "parquet":
        return _parquet(table)
    text = io.StringIO(newline="")
    if kind == "csv":
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows([_cell(value) for value in row] for row in table.rows)
    else:
        names = list(table.columns)
        for row in table.rows:
            text.write(
                json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, allow_nan=False)
                + "\n"
            )
    return text.getvalue().encode()


def _cell(value: object) -> object:
    if isinstance(value, list | tuple):
        return json.dumps(list(value), ensure_ascii=False)
    return repr(value) if isinstance(value, float) else value


def _parquet(table: Table) -> bytes:
    """DuckDB writes it; rows reach it as JSON lines, so that no data frame library is needed."""
    from noracle.evidence import files

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "rows.jsonl", Path(folder) / "rows.parquet"
        source.write_bytes(table_bytes(table, "jsonl"))
        columns = ", ".join(
            f"{_quoted(name)}: {_quoted(_SQL[kind])}" for name, kind in table.columns.items()
        )
        reader = f"read_json('{source}', format = 'newline_delimited', columns = {{{columns}}}, maximum_object_size = 67108864)"
        with files.connect() as connection:
            connection.execute(
                f"COPY (SELECT * FROM {reader}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)"  # noqa: S608 (our own names)
            )
        return target.read_bytes()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def table_files(tables: Mapping[str, Table], kind: TableFormat) -> dict[str, bytes]:
    """File names and bytes of several tables; tables without rows are left out, because an empty
    table says nothing.

    Readers of CSV guess the type of a column from what they see. Where some names of items look
    like numbers, dates or truth values and others do not, the guess may differ between files; then
    all names get the prefix ``item:`` in the CSV files, and the table of items has the name itself
    in the column ``name``.
    """
    filled = {name: table for name, table in tables.items() if table.rows}
    if kind == "csv" and not _safe_names(filled):
        filled = {name: _prefixed(table, keep=name == "items") for name, table in filled.items()}
    return {f"{name}.{kind}": table_bytes(table, kind) for name, table in filled.items()}


def _safe_names(tables: Mapping[str, Table]) -> bool:
    names = {
        str(row[0])
        for table in tables.values()
        if next(iter(table.columns)) == "item"
        for row in table.rows
    }
    whole = sum(re.fullmatch(r"0|[1-9][0-9]{0,15}", name) is not None for name in names)
    words = re.compile(r"(?i)true|false|nan|inf|infinity|null|t|f|yes|no")
    plain = sum(
        re.match(r"[A-Za-z_]", name) is not None and not words.fullmatch(name) for name in names
    )
    return whole == len(names) or plain == len(names)


def _prefixed(table: Table, *, keep: bool) -> Table:
    if next(iter(table.columns)) != "item":
        return table
    columns = {**table.columns, **({"name": "text"} if keep else {})}
    rows = [(f"item:{row[0]}", *row[1:], *((row[0],) if keep else ())) for row in table.rows]
    return Table(columns=columns, rows=rows)


def zip_bytes(files: Mapping[str, bytes]) -> bytes:
    """The files in one zip; the same files give the same bytes."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, date_time=_EPOCH)
            info.compress_type, info.create_system, info.external_attr = (
                zipfile.ZIP_DEFLATED,
                3,
                0o600 << 16,
            )
            out.writestr(info, data)
    return whole.getvalue()
