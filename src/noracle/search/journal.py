"""The one journal of runs and searches: JSON lines that are only added to, so that what was killed
goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from noracle.errors import ArgumentError, require

JOURNAL, CALLS = "journal.jsonl", "calls.sqlite"
_FREE = ("budget",)
"""Settings that may differ when a search goes on: a larger budget is no other search."""

Event = dict[str, Any]


class EventJournal(contextlib.AbstractContextManager[Any]):
    """The events of one run or search, in memory and on disk; the first one holds its settings.

    One process at a time has it open (on systems that can lock files). Half a line at the end is
    what a killed process left, and is cut off.

    Raises
    ------
    ArgumentError
        If the folder holds another run or search, a journal that is none, or one that is open.
    """

    schema: ClassVar[str]
    what: ClassVar[str]
    sync: ClassVar[bool] = True

    def __init__(self, folder: str | Path, settings: Mapping[str, Any]) -> None:
        self.folder, self._events = Path(folder), list[Event]()
        came, is_file = repr(str(folder)), self.folder.exists() and not self.folder.is_dir()
        require(not is_file, f"folder must be the folder of a {self.what}; got the file {came}.")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = (self.folder / JOURNAL).open("a+b")
        with contextlib.ExitStack() as failed:
            failed.callback(self.close)
            self._lock()
            self._read()
            if not self._events:
                self.append({"event": "begin", "schema": self.schema, "settings": dict(settings)})
            self._agree(settings)
            failed.pop_all()

    @property
    def settings(self) -> dict[str, Any]:
        """What it began with."""
        return dict(self._events[0]["settings"])

    def of(self, kind: str) -> list[Event]:
        """The events of one kind, in order."""
        return [event for event in self._events if event["event"] == kind]

    def append(self, event: Mapping[str, Any]) -> Event:
        """Write an event; with ``sync`` it is on disk when this returns, else on its way there."""
        line = json.dumps(event, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        if self.sync:
            os.fsync(self._file.fileno())
        self._take(json.loads(line))
        return self._events[-1]

    def close(self) -> None:
        """Let go of the file and of its lock."""
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, event: Event) -> None:
        """Keep an event; the first one, and only that, begins."""
        first = not self._events
        if first != (event["event"] == "begin") or (first and type(event["settings"]) is not dict):
            raise ValueError
        self._events.append(event)

    def _lock(self) -> None:
        """The lock goes with the process, also after kill -9."""
        with contextlib.suppress(ImportError):  # Windows: a second process is not noticed there
            import fcntl

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                came = f"another {self.what} is running in {str(self.folder)!r}"
                remedy = "Wait for it, or name another folder."
                raise ArgumentError(f"folder must not be in use; {came}. {remedy}") from None

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].split(b"\n")[:-1], 1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, RecursionError):
                rule = f"folder must hold the journal of a {self.what}"
                came = f"something else in line {number} of {str(self.folder / JOURNAL)!r}"
                raise ArgumentError(f"{rule}; got {came}. Name a new folder.") from None
        if whole < len(data):
            self._file.truncate(whole)

    def _agree(self, settings: Mapping[str, Any]) -> None:
        began, now = self.settings, json.loads(json.dumps(dict(settings)))
        rule, there = f"folder must hold a {self.what}", f"in {str(self.folder)!r}"
        came = f"{rule} to go on; got something else {there}. Name a new folder."
        require(self._events[0].get("schema") == self.schema, came)
        other = sorted(k for k in {**began, **now} if began.get(k) != now.get(k) and k not in _FREE)
        pairs = [(k, str(began.get(k)), str(now.get(k))) for k in other]
        said = ", ".join(
            f"{k} ({a!r} there, {b!r} here)" if len(a + b) <= 80 else k for k, a, b in pairs
        )
        remedy = "Use the settings it began with, or name a new folder."
        rule = f"{rule} with the same settings to go on"
        require(not other, f"{rule}; got another {said} {there}. {remedy}")
