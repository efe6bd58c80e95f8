"""The ledger of a gate: one line per decision, each with the hash of the lines before it.

The file is meant to be committed. Branches that are merged leave a union of lines: a line names all
lines that were last when it was written, so the order in the file says nothing and nothing is lost.
What the ledger holds of labels are hashes under a key that lies beside it and is not committed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import hmac
import json
import math
import os
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypedDict

from noracle.bounds.histories import history_share, step_error
from noracle.errors import ArgumentError, EvidenceError, fault, refuse
from noracle.files import canonical, digest
from noracle.results import check_confidence, choose

Outcome = Literal["pass", "fail", "undecided"]
OUTCOMES = ("pass", "fail", "undecided")
SCHEMA = "gate-ledger/1"
LEDGER, KEY = "gate.jsonl", "gate.key"
_ITEM, _VALUE = 12, 4  # hexadecimal digits
_FREE = ("known", "unchanged", "none")
_TESTS = ("fresh", "reused", *_FREE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """What the first line of a ledger fixes for good.

    Attributes
    ----------
    confidence
        All decisions together are right with this probability.
    usual, most_unusual
        Histories are counted with at most this many outcomes other than the usual one; None: with
        as many as there will be, which costs a factor of 2 per history and a little more.
    branches
        How many branches may decide without seeing each other's lines.

    Examples
    --------
    >>> GateSettings(branches=4).confidence
    0.95
    """

    confidence: float = 0.95
    usual: Outcome = "pass"
    most_unusual: int | None = None
    branches: int = 1

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        choose("usual", self.usual, OUTCOMES)
        most, branches = self.most_unusual, self.branches
        refuse(
            {
                f"most_unusual must be a whole number, at least 0; got {most}.": most is not None
                and (type(most) is not int or most < 0),
                f"branches must be a whole number in [1, 1000]; got {branches}.": type(branches)
                is not int
                or not 1 <= branches <= 1000,
            }
        )

    @property
    def error(self) -> float:
        """The error rate of all decisions together."""
        return 1 - self.confidence


class _Past(TypedDict):
    """What stands before a line: which lines, how many decisions, and what they spent."""

    lines: int
    decisions: int
    unusual: int
    spent: float


_NOTHING: _Past = {"lines": 0, "decisions": 0, "unusual": 0, "spent": 0.0}


class GateLedger:
    """The lines of a ledger, open for one run: ``with GateLedger(path) as ledger``.

    While it is open to write, other runs wait. A line is on the disk before its outcome is told; a
    line that a kill cut off was never told, and the next run takes it away.

    Parameters
    ----------
    path
        The file; made by the first decision. The key lies beside it, with the suffix ``.key``.
    settings
        What a new ledger fixes; an old one must have been made with the same. None: as it is.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with GateLedger(Path(folder) / "gate.jsonl") as ledger:
    ...         t, error, level = ledger.next_error(reused=False)
    ...         _ = ledger.append({"kind": "decision", "t": t, "test": "fresh", "error": error, "level": level, "outcome": "pass"})
    ...     len(ledger.decisions), ledger.faults, round(ledger.spent, 4)
    (1, [], 0.0304)
    """

    def __init__(self, path: str | os.PathLike[str], settings: GateSettings | None = None) -> None:
        self.path = Path(path)
        self.key_path = self.path.with_suffix(".key")
        self.settings = settings or GateSettings()
        self._asked = settings
        self.lines: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self.cut_off = self.sealed = False
        self._file: Any = None
        self._key: bytes | None = None
        self._places: dict[str, int] = {}
        self._past: dict[str, _Past] = {}
        self._now = _NOTHING

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """The ledger as it is, with what is wrong with it in ``faults``; nothing is written."""
        ledger = cls(path)
        try:
            ledger._parse(Path(path).read_bytes())
        except OSError as error:
            came = f"{os.fspath(path)!r} ({error.strerror})"
            remedy = "The first 'noracle gate' makes it."
            raise EvidenceError.of(
                "ledger", "must be a readable file", came, remedy=remedy
            ) from None
        return ledger

    def __enter__(self) -> Self:
        while not self._same():
            try:
                self._file = self.path.open("a+b")
            except OSError as error:
                rule, came = "must be a file that can be written", f"{str(self.path)!r}"
                raise EvidenceError.of("ledger", rule, f"{came} ({error.strerror})") from None
            _lock(self._file)
        try:
            self._file.seek(0)
            self._parse(self._file.read())
            self._mend()
            if self.faults:
                remedy = (
                    "noracle gate verify says more; restore it from the history of the repository."
                )
                raise EvidenceError.of("ledger", "must be whole", self.faults[0], remedy=remedy)
            if self._asked is not None and self.lines and self._asked != self.settings:
                rule = f"must be those of the first line of {self.path.name}: {self.settings}"
                raise ArgumentError(fault("settings", rule, self._asked, remedy="Leave them out."))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not self.lines and not self.faults:  # nothing was decided: there is no ledger yet
            with contextlib.suppress(OSError):
                self.path.unlink()
        self._file.close()  # and with it the lock

    def _same(self) -> bool:
        """Whether the file that is locked is still the one of that name."""
        with contextlib.suppress(OSError):
            if self._file is not None and os.path.samestat(
                os.fstat(self._file.fileno()), self.path.stat()
            ):
                return True
        if self._file is not None:
            self._file.close()
        return False

    # reading

    def _parse(self, data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        rows = text.split("\n")
        seen: set[str] = set()
        for number, row in enumerate(rows, start=1):
            row = row.strip("\ufeff\r\n\t ")  # a checkout or an editor may have added these
            if not row:
                continue
            try:
                line = json.loads(row)
                sound = isinstance(line["hash"], str) and isinstance(line["kind"], str)
                sound = sound and all(isinstance(p, str) for p in [*line["prev"]])
                same = sound and _hash(line) == line["hash"]
            except (ValueError, KeyError, TypeError, RecursionError):
                sound = same = False
            if not sound and number == len(rows):
                self.cut_off = True
                told = (
                    f"line {number} is cut off: that run told no outcome; the next run removes it"
                )
                self.faults.append(told)
            elif not sound:
                conflict = row.startswith(("<<<<<<<", "=======", ">>>>>>>"))
                why = "a mark of a merge conflict" if conflict else "no line of a ledger"
                remedy = f"{self.path.name} merge=union in .gitattributes keeps both sides"
                self.faults.append(f"line {number} is {why}" + f"; {remedy}" * conflict)
            elif not same:
                self.faults.append(f"line {number} was changed after it was written")
            elif line["hash"] not in seen:  # a merge may leave a line twice
                seen.add(line["hash"])
                self.lines.append({**line, "_number": number})
        self._follow()

    def _mend(self) -> None:
        """Take away what a kill left, and end the last line."""
        self._file.seek(0)
        data = self._file.read()
        if self.cut_off:
            self._file.truncate(data.rfind(b"\n") + 1)
            self.cut_off, self.faults = False, [f for f in self.faults if "cut off" not in f]
        elif data and not data.endswith(b"\n"):
            self._file.write(b"\n")

    def _follow(self) -> None:
        """Go from the first line to the last along the hashes, and compare each with its rules."""
        starts = [line for line in self.lines if line["kind"] == "start"]
        if self.lines and len(starts) != 1:
            why = "make the ledger before branches part"
            self.faults.append(f"there are {len(starts)} first lines; there must be one: {why}")
        if not starts:
            return
        names = {f.name for f in dataclasses.fields(GateSettings)}
        try:
            given = {k: v for k, v in starts[0]["settings"].items() if k in names}
            self.settings = GateSettings(**given)
        except (KeyError, TypeError, AttributeError, ArgumentError):
            self.faults.append("the first line has no settings that a gate could have")
            return
        with contextlib.suppress(EvidenceError):  # a line can be read where the key is not
            self.sealed = bool(self.key)
        waiting, self.lines = self.lines, []
        while waiting:
            ready = [x for x in waiting if all(p in self._past for p in x["prev"])]
            for line in ready:
                self._enter(line)
            if not ready:
                break
            waiting = [x for x in waiting if x["hash"] not in self._past]
        for line in waiting:
            self.faults.append(f"line {line['_number']}: a line before it is missing")

    def _enter(self, line: dict[str, Any]) -> None:
        """Add a line whose parents are there."""
        before = _NOTHING
        for i, name in enumerate(dict.fromkeys(line["prev"])):
            one = self._with(self._past[name], self.lines[self._places[name]])
            both = before["lines"] | one["lines"]
            before = self._union(both) if i else one
        self.faults += self._wrong(line, before)
        self._places[line["hash"]] = len(self.lines)
        self._past[line["hash"]] = before
        self.lines.append(line)
        self._now = self._with(self._now, line)

    def _union(self, lines: int) -> _Past:
        """What stands before a line that follows all of these."""
        joined = _NOTHING
        for i, line in enumerate(self.lines):
            if lines >> i & 1:
                joined = self._with(joined, line)
        return joined

    def _with(self, before: _Past, line: Mapping[str, Any]) -> _Past:
        """What stands before the line that follows this one."""
        decided = line["kind"] == "decision"
        return {
            "lines": before["lines"] | 1 << self._places[line["hash"]],
            "decisions": before["decisions"] + decided,
            "unusual": before["unusual"] + (decided and line["outcome"] != self.settings.usual),
            "spent": before["spent"] + (line["error"] if decided else 0.0),
        }

    def _wrong(self, line: dict[str, Any], before: _Past) -> list[str]:
        """What a line says that does not follow from those before it."""
        where, found = f"line {line['_number']}", []
        if self.sealed and line.get("seal") != self._seal(line["hash"]):
            found.append(f"{where} was not written by a gate with the key {self.key_path.name}")
        if line["kind"] != "decision":
            known = line["kind"] == "reveal" or (line["kind"] == "start" and not line["prev"])
            return [
                *found,
                *[f"{where}: no line of a ledger is {line['kind']!r} there"] * (not known),
            ]
        for name, words, safe in (("outcome", OUTCOMES, "undecided"), ("test", _TESTS, "fresh")):
            if line.get(name) not in words:
                found.append(f"{where}: {name} must be one of {', '.join(words)}")
                line[name] = safe
        for name in ("fresh", "grades"):
            marks = line.get(name, [])
            if not isinstance(marks, list) or not all(isinstance(mark, str) for mark in marks):
                found.append(f"{where}: {name} must be a list of hashes")
                line[name] = []
        wanted = dict(zip(("t", "error", "level"), self._error(before, line["test"]), strict=True))
        for name, value in wanted.items():
            given = line.get(name)
            if not math.isclose(_number(given), value, rel_tol=1e-9, abs_tol=1e-15):
                told = f"{where}: {name} must be {value:.6g} after {before['decisions']} decisions"
                found.append(f"{told}; got {str(given)[:40]!r}")
                line[name] = value
        return found

    # what a decision may spend

    def _error(self, before: _Past, test: object) -> tuple[int, float, float]:
        """Number, error rate spent, and the level of the test."""
        s, t = self.settings, before["decisions"] + 1
        if test in _FREE:
            return t, 0.0, 0.0
        left = s.error - before["spent"]
        error = step_error(t, s.error, branches=s.branches, left=left)
        if test != "reused":
            return t, error, error
        share = history_share(t - 1, before["unusual"], s.most_unusual)
        return t, error, error * share

    def next_error(self, *, reused: bool = False, after: int = 0) -> tuple[int, float, float]:
        """Number, error rate and level of the next decision, or of the one ``after`` it."""
        now: _Past = {**self._now}
        for _ in range(after):
            t, error, _level = self._error(now, "fresh")
            now = {**now, "decisions": t, "spent": now["spent"] + error}
        return self._error(now, "reused" if reused else "fresh")

    @property
    def decisions(self) -> list[dict[str, Any]]:
        """The lines of decisions."""
        return [line for line in self.lines if line["kind"] == "decision"]

    @property
    def spent(self) -> float:
        """The error rate that all decisions spent together."""
        return self._now["spent"]

    @property
    def heads(self) -> list[str]:
        """The lines that no other line follows."""
        followed = {p for line in self.lines for p in line["prev"]}
        return [line["hash"] for line in self.lines if line["hash"] not in followed]

    @property
    def parallel(self) -> int:
        """The most decisions that have one number."""
        numbers = [line["t"] for line in self.decisions]
        return max((numbers.count(t) for t in set(numbers)), default=0)

    def recorded(self, fingerprint: str) -> dict[str, Any] | None:
        """The decision on the same answers, labels and claim, if there was one."""
        found = (x for x in self.decisions if x.get("fingerprint") == fingerprint)
        return next(found, None)

    # labels

    @property
    def key(self) -> bytes:
        """The key of the hashes of labels; made with the ledger."""
        if self._key is None:
            start = next((line for line in self.lines if line["kind"] == "start"), None)
            there = self.key_path.exists() and self.key_path.stat().st_size
            if start is None and not there:
                self.key_path.write_text(f"{secrets.token_hex(16)}\n", encoding="utf-8")
                self.key_path.chmod(0o600)
            key = b""
            with contextlib.suppress(OSError):
                key = self.key_path.read_text(encoding="utf-8", errors="replace").strip().encode()
            if not key and start is None:  # an empty key would hide nothing
                rule, came = "must be a file with one secret line", str(self.key_path)
                raise EvidenceError.of("key", rule, f"no text in {came!r}", remedy="Remove it.")
            if start is not None and start.get("key") != digest(key.decode())[:16]:
                rule, came = f"must be the key of {self.path.name}", str(self.key_path)
                remedy = "Put back the file that was made with it; it lies with the labels."
                raise EvidenceError.of(
                    "key", rule, f"another one, or none, in {came!r}", remedy=remedy
                )
            self._key = key
        return self._key

    def _seal(self, name: str) -> str:
        """What only who has the key can write under the hash of a line."""
        return self.sign(f"line {name}")[:32]

    def sign(self, text: str) -> str:
        """A hash of a text that nobody without the key can find again."""
        return hmac.new(self.key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def split(self, item: str, value: str = "") -> tuple[str, str]:
        """What the ledger keeps of a label: hashes of the item, and of its class where it has one."""
        said = self.sign(f"label {item} {value}")[:_VALUE] if value else ""
        return self.mark(item), said

    def mark(self, item: str) -> str:
        """The hash of an item."""
        return self.sign(f"item {item}")[:_ITEM]

    def marks(self, name: str) -> dict[str, str]:
        """All that lines keep of labels (``fresh``), or of grades: items, and what was said."""
        marks = [mark for line in self.decisions for mark in line.get(name, ())]
        return {mark[:_ITEM]: mark[_ITEM:] for mark in marks}

    def seen(self) -> dict[str, str]:
        """The items whose labels were there at an earlier decision."""
        return self.marks("fresh")

    def vault(self, items: str) -> set[str]:
        """Those of them that are a random sample of the items with this hash, and were not shown."""
        burnt = self._burnt()
        return {
            mark[:_ITEM]
            for line in self.decisions
            if line.get("scope") == "all" and line.get("items") == items
            for mark in line.get("fresh", ())
            if line["hash"] not in burnt
        }

    def _burnt(self) -> set[str]:
        """The decisions whose labels were shown: all that were not made after every reveal."""
        reveals = [self._places[x["hash"]] for x in self.lines if x["kind"] == "reveal"]
        return {
            x["hash"]
            for x in self.decisions
            if not all(self._past[x["hash"]]["lines"] >> i & 1 for i in reveals)
        }

    # writing

    def append(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Write a line after all others; it is on the disk when this returns."""
        if not self.lines:
            about = {
                "schema": SCHEMA,
                "kind": "start",
                "settings": dataclasses.asdict(self.settings),
            }
            key = digest(self.key.decode())[:16]
            self._write({**about, "key": key, "nonce": secrets.token_hex(8), "prev": []})
        return self._write({**line, "prev": self.heads})

    def _write(self, line: Mapping[str, Any]) -> dict[str, Any]:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        whole: dict[str, Any] = {**line, "at": at}
        whole["hash"] = _hash(whole)
        whole["seal"] = self._seal(whole["hash"])
        self._file.write(canonical(whole).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._enter({**whole, "_number": len(self.lines) + 1})
        return whole

    def missing(self, *, ever: bool = True) -> list[str]:
        """Lines that the history of the repository has and the file has not, wherever in it the
        ledger lay: what was taken away once stands there for good. Without ``ever`` those of the
        last commit alone.
        """
        known = {line["hash"] for line in self.lines}
        lost: dict[str, tuple[bool, dict[str, Any]]] = {}
        for here, row in _committed(self.path, ever=ever):
            with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                line = json.loads(row)
                parents = all(isinstance(p, str) for p in line["prev"])
                if parents and line["hash"] not in known and _hash(line) == line["hash"]:
                    lost[line["hash"]] = (here or lost.get(line["hash"], (False,))[0], line)
        mine, more = known, True
        while more:  # other ledgers of the repository have another first line
            own = {h for h, (here, x) in lost.items() if here or mine.intersection(x["prev"])}
            more = not own <= mine
            mine = mine | own
        return [
            f"a line that was committed is gone: {line.get('kind')} of {line.get('at')}"
            for name, (_, line) in lost.items()
            if name in mine
        ]

    def doubts(self) -> list[str]:
        """What cannot be checked here, and what makes a check worth less."""
        name, key = self.path.name, self.key_path.name
        shallow = _git(self.path, "rev-parse", "--is-shallow-repository")
        is_here, key_is = (_git(self.path, "ls-files", "--error-unmatch", n) for n in (name, key))
        why = {
            "no history of a repository can be read here": shallow is None,
            f"{name} is not committed": is_here is None,
            "the history is cut off (a shallow clone)": "true" in (shallow or ""),
        }
        unseen = [f"{w}: whether lines were taken away is not checked" for w in why if why[w]][:1]
        if not self.sealed:
            told = f"{key} is not here, or another ledger's: who wrote the lines is not checked"
            return [told, *unseen]
        open_ = f"{key} is committed: whoever reads it can undo the hashes and write lines"
        return [open_] * (key_is is not None) + unseen


def _git(path: Path, *words: str) -> str | None:
    """What git says in the folder of a file; None where it says nothing."""
    with contextlib.suppress(OSError):
        done = subprocess.run(["git", *words], cwd=path.parent, capture_output=True, check=False)
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
    return None


def _committed(path: Path, *, ever: bool) -> Iterator[tuple[bool, str]]:
    """The lines of a file that the last commit has, and those that some commit before it took out,
    of this file or of one of its name elsewhere in the repository; and whether it is this one.
    """
    log = ["log", "-p", "-m", "--format=", "--unified=0", "--no-ext-diff", "--no-color", "--"]
    ways = [(True, ["show", f"HEAD:./{path.name}"])]
    ways += [(True, [*log, path.name]), (False, [*log, f":(top,glob)**/{path.name}"])] * ever
    for here, words in ways:
        for row in (_git(path, *words) or "").splitlines():
            if row.startswith(("{", "-{")):
                yield here, row.removeprefix("-")


def _number(value: object) -> float:
    """A number of a line; NaN for anything else."""
    with contextlib.suppress(OverflowError):
        return float(value) if type(value) in (int, float) else math.nan  # type: ignore[arg-type]
    return math.nan


def _hash(line: Mapping[str, Any]) -> str:
    own = {k: v for k, v in line.items() if k not in ("hash", "seal") and not k.startswith("_")}
    return digest(own)


def _lock(file: Any) -> None:
    """Wait for other runs. The lock goes with the process, also after kill -9."""
    with contextlib.suppress(ImportError):  # Windows: one run at a time is up to the caller there
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
