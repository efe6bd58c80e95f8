"""The folder of a run: what came out so far, so that a run that was killed goes on and pays nothing
twice.

run.json         what the run is: model, workflow, seed, shuffling; another run is refused
outcomes.jsonl   one line an item, appended when it is done; ids, classes and counts, never texts
calls.sqlite     every completion that was paid for (see cache.py)
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self, get_args

from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.evidence.replies import State
from noracle.search.candidates import Outcome
from noracle.search.model import Usage

SCHEMA = "run/1"
_STATES = get_args(State)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One outcome with the order in which the options stood, and the print of the question that it
    answers.
    """

    outcome: Outcome
    order: tuple[int, ...]
    of: str

    def to_dict(self) -> dict[str, Any]:
        """As one line of ``outcomes.jsonl``."""
        o = self.outcome
        return {
            "item": o.item,
            "repeat": o.repeat,
            "answer": o.answer,
            "state": o.state,
            "order": list(self.order),
            "calls": o.calls,
            "input_tokens": o.usage.input_tokens,
            "output_tokens": o.usage.output_tokens,
            "of": self.of,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A line that was written."""
        if data["state"] not in _STATES or (data["answer"] is None) == (
            data["state"] == "answered"
        ):
            raise ValueError(data["state"])
        outcome = Outcome(
            item=data["item"],
            repeat=data["repeat"],
            answer=data["answer"],
            state=data["state"],
            calls=data["calls"],
            usage=Usage(data["input_tokens"], data["output_tokens"]),
        )
        return cls(outcome=outcome, order=tuple(data["order"]), of=data["of"])


def fingerprint(*texts: object) -> str:
    """Sixteen hexadecimal digits that change with the texts, and do not tell them.

    Examples
    --------
    >>> fingerprint("a", "b") == fingerprint("ab"), len(fingerprint("a"))
    (False, 16)
    """
    words = json.dumps([str(t) for t in texts], ensure_ascii=True)
    return hashlib.sha256(words.encode()).hexdigest()[:16]


class RunFolder:
    """An open run folder; one process at a time.

    Use it in a ``with`` statement. ``lines`` holds what is done, by (item, repeat); an item that
    was written twice counts as last written.
    """

    def __init__(self, path: str | Path, settings: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.settings = dict(settings)
        self.lines: dict[tuple[int | str, int], Line] = {}
        self._file: IO[str] | None = None
        self._lock: IO[str] | None = None

    @property
    def calls(self) -> Path:
        """Where the completions of this run are kept."""
        return self.path / "calls.sqlite"

    def __enter__(self) -> Self:
        if self.path.exists() and not self.path.is_dir():
            raise ArgumentError(f"run must name a folder; got the file {str(self.path)!r}.")
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._hold()
            self._agree()
            self._load()
            self._file = (self.path / "outcomes.jsonl").open("a", encoding="utf-8", newline="\n")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._file, self._lock):
            if file is not None:
                file.close()
        self._file = self._lock = None

    def add(self, line: Line) -> None:
        """Keep an outcome: it is on its way to the disk when this returns."""
        if self._file is None:
            raise ArgumentError("the run folder must be open; use it in a with statement.")
        self._file.write(
            json.dumps(line.to_dict(), ensure_ascii=False, separators=(",", ":")) + "\n"
        )
        self._file.flush()
        self.lines[line.outcome.item, line.outcome.repeat] = line

    def done(self, item: int | str, repeat: int, of: str) -> Line | None:
        """The outcome of this very question, unless its call failed: then it is asked again."""
        line = self.lines.get((item, repeat))
        return (
            line if line is not None and line.of == of and line.outcome.state != "errored" else None
        )

    def _hold(self) -> None:
        """Refuse a second process; the lock goes with the process, also after kill -9."""
        self._lock = (self.path / "lock").open("a", encoding="utf-8")
        try:
            import fcntl
        except ImportError:  # Windows: two runs in one folder are not noticed there
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ArgumentError(
                f"run must be a folder that no other process uses; got {str(self.path)!r}. Wait or name another."
            ) from None

    def _agree(self) -> None:
        """Write what the run is, or refuse to go on with another one."""
        file = self.path / "run.json"
        mine = {"schema": SCHEMA, **self.settings}
        if not file.exists():
            temporary = file.with_suffix(".tmp")
            temporary.write_text(
                json.dumps(mine, ensure_ascii=False, indent=1, allow_nan=False) + "\n",
                encoding="utf-8",
            )
            temporary.replace(file)
            return
        try:
            before = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            before = None
        if not isinstance(before, dict) or before.get("schema") != SCHEMA:
            raise ArgumentError(
                f"run must be a folder of a run; got something else in {str(file)!r}. Name another folder."
            )
        if before != mine:
            other = sorted(k for k in {*before, *mine} if before.get(k) != mine.get(k))
            said = ", ".join(
                f"{k} {str(before.get(k))[:40]!r} there and {str(mine.get(k))[:40]!r} here"
                for k in other
            )
            raise ArgumentError(
                f"run must go on as it began; got {said} in {str(self.path)!r}. Name another folder."
            )

    def _load(self) -> None:
        """Read what is done. A last line that was cut by a crash is dropped; any other broken line
        is an error.
        """
        file = self.path / "outcomes.jsonl"
        if not file.exists():
            return
        data = file.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            with file.open("r+b") as cut:
                cut.truncate(whole)
                os.fsync(cut.fileno())
        for number, text in enumerate(data[:whole].split(b"\n")[:-1], 1):
            try:
                line = Line.from_dict(json.loads(text))
            except (ValueError, KeyError, TypeError):
                where = f"another text at line {number} of {str(file)!r}"
                raise EvidenceError(
                    fault(
                        "run", "must hold one outcome a line", where, remedy="Name another folder."
                    )
                ) from None
            self.lines[line.outcome.item, line.outcome.repeat] = line
