"""Copies of a SQLite database: files for their owner alone, backups, restoring."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from noracle.errors import ArgumentError


def make_private(path: Path) -> None:
    """Create the file for its owner alone; the log beside it gets the same mode."""
    if not path.parent.is_dir():
        raise ArgumentError(f"url must name a file in a folder that exists; got {path}.")
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)


def copy_database(source: sqlite3.Connection, path: Path) -> None:
    """Copy an open database to a new file: written under another name, checked, then renamed."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    make_private(part)
    copy = sqlite3.connect(part, isolation_level=None)
    try:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE").fetchone()
        copy.execute("PRAGMA synchronous = FULL")
        found = copy.execute("PRAGMA integrity_check").fetchone()[0]
        if found != "ok":
            raise ArgumentError(f"database must be whole; SQLite found: {found}.")
    except BaseException:
        copy.close()
        part.unlink(missing_ok=True)
        raise
    copy.close()
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    part.replace(path)


def restore(path: Path, target: Path) -> None:
    """Put a copy of a backup where no database is yet."""
    if target.exists():
        raise ArgumentError(f"url must name a file that does not exist yet; got {target}.")
    source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        found = source.execute(
            "SELECT COUNT(*) FROM sqlite_master WHERE name IN ('schema_version', 'project', 'answer')"
        ).fetchone()[0]
        if found != 3:
            raise ArgumentError(f"path must name a backup of a collection database; got {path}.")
        copy_database(source, target)
    except sqlite3.DatabaseError as error:
        raise ArgumentError(
            f"path must name a backup of a collection database; got {path} ({error})."
        ) from None
    finally:
        source.close()
