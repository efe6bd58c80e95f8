"""Files that survive a kill: append-only JSON lines, and texts that are written whole or not at
all.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from noracle.errors import ArgumentError
from noracle.files import replacing

_Record = TypeVar("_Record")


class JournalFile:
    """JSON lines that one process at a time holds open; it starts after the lines that are there.

    Half a line at the end is what a killed process left, and is cut off. ``busy`` is the message of
    the error where another process holds the file (on systems that can lock files).
    """

    def __init__(self, path: Path, *, busy: str, sync: bool = True) -> None:
        self.path, self._sync = path, sync
        self._file = path.open("a+b")
        with contextlib.ExitStack() as failed:
            failed.callback(self.close)
            self._lock(busy)
            self._file.seek(0)
            data = self._file.read()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                self._file.truncate(whole)
            self._lines = data[:whole].split(b"\n")[:-1]
            failed.pop_all()

    def records(
        self, read: Callable[[int, Any], _Record], broken: Callable[[int], Exception]
    ) -> Iterator[_Record]:
        """What ``read`` makes of each line that was there; ``broken`` makes the error of a line."""
        for number, line in enumerate(self._lines, 1):
            try:
                record = read(number, json.loads(line))
            except (ValueError, KeyError, TypeError):
                raise broken(number) from None
            yield record

    def append(self, value: Any) -> str:
        """Write one line, which is on disk when this returns (``sync``) or on its way there."""
        line = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        if self._sync:
            os.fsync(self._file.fileno())
        return line

    def close(self) -> None:
        """Let go of the file and of its lock."""
        self._file.close()

    def _lock(self, busy: str) -> None:
        """The lock goes with the process, also after kill -9."""
        with contextlib.suppress(ImportError):  # Windows: a second process is not noticed there
            import fcntl

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ArgumentError(busy) from None


def write_json(path: Path, value: Any) -> Path:
    """Write plain values as one JSON text, whole."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, indent=1)
    return write_whole(path, text + "\n")


def write_whole(path: Path, text: str) -> Path:
    """Write a text so that a reader never sees half of it."""
    with replacing(path, durable=True) as part:
        part.write_text(text, encoding="utf-8", newline="\n")
    return path
