"""A backup of a PostgreSQL database: one zip with a member for each table, read in one transaction.

Members hold what ``COPY`` writes; ``backup.json`` names the columns, the schema version and the
number of rows.
"""

from __future__ import annotations

import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any

from noracle.collect.store.migrate import migrate, migrations, schema_version
from noracle.collect.store.postgres_work import Connection, PostgresWork, connect, lock_writers
from noracle.errors import ArgumentError

FORMAT = "noracle-backup/1"
TABLES = (
    "person",
    "session",
    "project",
    "membership",
    "pool_member",
    "invitation",
    "item",
    "image",
    "gold",
    "question",
    "held",
    "answer",
    "event",
    "system",
    "prediction",
    "throttle",
)
"""In an order in which every row finds those that it names."""


def write_backup(connection: Connection, path: Path) -> None:
    """Write the archive under another name, then rename it."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "w+b") as file:
        with (
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            connection.transaction(),
        ):
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            work = PostgresWork(connection)
            about: dict[str, Any] = {
                "format": FORMAT,
                "version": schema_version(work),
                "tables": {},
            }
            for table in _tables(work):
                columns = _columns(work, table)
                with (
                    archive.open(f"{table}.copy", "w", force_zip64=True) as member,
                    connection.cursor() as cursor,
                ):
                    with cursor.copy(f"COPY {table} ({', '.join(columns)}) TO STDOUT") as copy:
                        for block in copy:
                            member.write(block)
                    about["tables"][table] = {"columns": columns, "rows": cursor.rowcount}
            archive.writestr("backup.json", json.dumps(about))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def restore(path: Path, url: str) -> None:
    """Fill an empty database from a backup: tables as they were then, the rows, then the newer
    migrations.
    """
    with zipfile.ZipFile(_checked(path)) as archive, connect(url) as connection:
        about = json.loads(archive.read("backup.json"))
        newest = len(migrations("postgresql"))
        if about.get("format") != FORMAT or about["version"] > newest:
            raise ArgumentError(
                f"path must name a backup of schema version at most {newest}; got {about.get('version')}. Upgrade noracle."
            )
        with connection.transaction():
            lock_writers(connection)
            work = PostgresWork(connection)
            if schema_version(work):
                raise ArgumentError("url must name a database without tables; this one has some.")
            migrate(work, now=time.time(), to=about["version"])
            for table, told in about["tables"].items():
                _fill(archive, connection, table, told)
            migrate(work, now=time.time())


def _fill(
    archive: zipfile.ZipFile, connection: Connection, table: str, told: dict[str, Any]
) -> None:
    work = PostgresWork(connection)
    if table not in _tables(work) or set(told["columns"]) - set(_columns(work, table)):
        raise ArgumentError(f"path must name a backup with the tables of its version; got {table}.")
    with archive.open(f"{table}.copy") as member, connection.cursor() as cursor:
        with cursor.copy(f"COPY {table} ({', '.join(told['columns'])}) FROM STDIN") as copy:
            while block := member.read(1 << 16):
                copy.write(block)
        if cursor.rowcount != told["rows"]:
            raise ArgumentError(
                f"path must name a whole backup; {table} has {cursor.rowcount} rows of {told['rows']}."
            )
    if "id" in told["columns"]:
        work.one(
            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), COALESCE(MAX(id), 0) + 1, false) FROM {table}"  # noqa: S608 (one of TABLES)
        )


def _checked(path: Path) -> Path:
    try:
        with zipfile.ZipFile(path) as archive:
            if "backup.json" in archive.namelist() and archive.testzip() is None:
                return path
    except (zipfile.BadZipFile, OSError) as error:
        raise ArgumentError(f"path must name a backup; got {path} ({error}).") from None
    raise ArgumentError(f"path must name a whole backup; {path} is something else, or damaged.")


def _tables(work: PostgresWork) -> list[str]:
    """The tables that there are, those that we know in their order first."""
    rows = work.all(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
    )
    found = {row["table_name"] for row in rows} - {"schema_version"}
    return [table for table in TABLES if table in found]


def _columns(work: PostgresWork, table: str) -> list[str]:
    rows = work.all(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = :table "
        "ORDER BY ordinal_position",
        table=table,
    )
    return [row["column_name"] for row in rows]
