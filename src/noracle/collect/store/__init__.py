"""Where a project is kept: SQLite in a file, or PostgreSQL.

base.py                           what both offer
sqlite.py, hot.py                 one writer thread with group commit; the transactions of every click
postgres.py                       one function call per request; several server processes
sqlite_work.py, postgres_work.py  a transaction of each
sqlite_backup.py, postgres_backup.py
migrate.py, migrations/           the tables, by number
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from noracle.collect.store.base import Row, Store, Work
from noracle.errors import ArgumentError

if TYPE_CHECKING:
    from noracle.collect.store.sqlite import SqliteStore

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
    if kind == "sqlite":
        return _open_sqlite(rest, unsafe=unsafe)
    from noracle.collect.store.postgres import PostgresStore

    return PostgresStore(url, unsafe=unsafe)


def restore_store(path: Path, url: str) -> None:
    """Put a backup into a database that is new (SQLite: no such file yet; PostgreSQL: no tables
    yet).
    """
    kind, rest = _kind(url)
    if not path.is_file():
        raise ArgumentError(f"path must name a backup; there is no file {path}.")
    if kind == "sqlite":
        from noracle.collect.store.sqlite import restore

        restore(path, Path(rest.partition("?")[0]))
        return
    from noracle.collect.store.postgres import restore as restore_postgres

    restore_postgres(path, url)


def _kind(url: str) -> tuple[str, str]:
    """Which database, and for SQLite the path with its options."""
    head, mark, rest = url.partition("://")
    if mark and head in ("postgresql", "postgres"):
        return "postgresql", rest
    if (
        mark
        and head == "sqlite"
        and rest.startswith("/")
        and len(rest) > 1
        and ":memory:" not in rest
    ):
        return "sqlite", rest[1:]
    raise ArgumentError(f"url must be {_RULE}; got {_without_password(url)!r}.")


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return url if parts.password is None else url.replace(f":{parts.password}@", ":…@")


def _open_sqlite(rest: str, *, unsafe: bool) -> SqliteStore:
    from noracle.collect.store.sqlite import SqliteStore

    path, _, query = rest.partition("?")
    options = dict(parse_qsl(query))
    unknown = sorted(set(options) - {"synchronous"})
    if unknown:
        raise ArgumentError(
            f"url must have no other option than synchronous; got {', '.join(unknown)}."
        )
    return SqliteStore(
        Path(path), synchronous=options.get("synchronous", "full").lower(), unsafe=unsafe
    )
