"""Where a project is kept: SQLite in a file, or PostgreSQL; ``migrations/`` has the tables."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from noracle.collect.store.base import Row, Store, Work
from noracle.errors import ArgumentError, require

__all__ = ["Row", "Store", "Work", "open_store", "restore_store"]

_RULE = "sqlite:///PATH or postgresql://USER@HOST/DATABASE"


def open_store(url: str, *, unsafe: bool = False) -> Store:
    """Open a database, and bring its tables up to date.

    Parameters
    ----------
    url
        ``sqlite:///folder/file.db`` (relative), ``sqlite:////folder/file.db`` (absolute), or
        ``postgresql://user:password@host:port/database``.
    unsafe
        Accept settings that can lose acknowledged answers at a power cut: ``?synchronous=normal``
        for SQLite, ``synchronous_commit`` or ``fsync`` off for PostgreSQL.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(f"sqlite:///{folder}/labels.db")
    ...     print(store.read_now(lambda work: work.one("SELECT COUNT(*) AS n FROM project")))
    ...     store.close()
    {'n': 0}
    """
    kind, rest = _kind(url)
    if kind != "sqlite":
        from noracle.collect.store.postgres import PostgresStore

        return PostgresStore(url, unsafe=unsafe)
    from noracle.collect.store.sqlite import SqliteStore

    path, _, query = rest.partition("?")
    options = dict(parse_qsl(query))
    synchronous = options.pop("synchronous", "full").lower()
    came = ", ".join(sorted(options))
    require(not came, f"url must have no other option than synchronous; got {came}.")
    return SqliteStore(Path(path), synchronous=synchronous, unsafe=unsafe)


def restore_store(path: Path, url: str) -> None:
    """Put a backup into a new database: no such file yet, or no tables yet."""
    kind, rest = _kind(url)
    require(path.is_file(), f"path must name a backup; there is no file {path}.")
    if kind == "sqlite":
        from noracle.collect.store import sqlite

        sqlite.restore(path, Path(rest.partition("?")[0]))
    else:
        from noracle.collect.store import postgres

        postgres.restore(path, url)


def _kind(url: str) -> tuple[str, str]:
    """Which database, and for SQLite the path with its options."""
    head, mark, rest = url.partition("://")
    if mark and head in ("postgresql", "postgres"):
        return "postgresql", rest
    if mark and head == "sqlite" and rest[:1] == "/" and rest[1:] and ":memory:" not in rest:
        return "sqlite", rest[1:]
    password = urlsplit(url).password
    shown = url if password is None else url.replace(f":{password}@", ":…@")
    raise ArgumentError(f"url must be {_RULE}; got {shown!r}.")
