"""What every verb prints: cards or JSON on stdout, an HTML page, progress and one-line messages on
stderr.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from noracle.errors import EvidenceError, require, require_evidence
from noracle.files import replacing

Columns = Mapping[str, Sequence[Any]]
FORMATS = (".csv", ".jsonl", ".parquet")
_SQL = {int: "BIGINT", float: "DOUBLE"}


def write_json(path: str | Path, value: Mapping[str, Any]) -> None:
    """Write one JSON value."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, indent=1)
    with replacing(path) as temporary:
        temporary.write_text(f"{text}\n", encoding="utf-8")


def template(name: str) -> str:
    """The text of a file that verbs write."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def check_format(option: str, path: str | None) -> None:
    """Refuse a table whose name does not end in a known format."""
    known = path is None or Path(path).suffix.lower() in FORMATS
    require_evidence(known, f"--{option}", f"must end in {', '.join(FORMATS)}", repr(path))


def write_table(path: str | Path, columns: Columns) -> None:
    """Write columns as CSV, JSONL or Parquet, by the end of the name; null is an empty field in
    CSV.
    """
    suffix = Path(path).suffix.lower()
    with replacing(path) as temporary:
        if suffix == ".csv":
            with temporary.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(columns)
                writer.writerows(zip(*columns.values(), strict=True))
        elif suffix == ".jsonl":
            _write_lines(temporary, columns)
        else:
            _write_parquet(temporary, columns)


def _write_lines(path: Path, columns: Columns) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in zip(*columns.values(), strict=True):
            file.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")


def _write_parquet(path: Path, columns: Columns) -> None:
    """Through JSON lines and DuckDB, so that no data frame library is needed."""
    from noracle.evidence.frames import connect

    def quoted(text: object) -> str:
        return "'" + str(text).replace("'", "''") + "'"

    types = {}
    for name, values in columns.items():
        kinds = {type(v) for v in values if v is not None}
        types[name] = _SQL.get(kinds.pop(), "VARCHAR") if len(kinds) == 1 else "VARCHAR"
    shape = ", ".join(f"{quoted(name)}: {quoted(sql)}" for name, sql in types.items())
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "rows.jsonl"
        _write_lines(lines, columns)
        how = f"format = 'newline_delimited', columns = {{{shape}}}"
        copy = f"COPY (SELECT * FROM read_json({quoted(lines)}, {how})) TO {quoted(path)}"  # noqa: S608 (quoted)
        with connect() as connection:
            connection.execute(f"{copy} (FORMAT parquet)")


def read_json(path: str, what: str) -> Any:
    """The value in a JSON file."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        rule, remedy = "must be a readable file", "Check the path."
        got = f"{path!r} ({error.strerror})"
    except UnicodeDecodeError:
        rule, got, remedy = "must be UTF-8 text", f"other bytes in {path!r}", "Save it as UTF-8."
    except (json.JSONDecodeError, RecursionError) as error:
        place = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        rule, remedy = "must be a JSON file", "Write it again."
        got = f"other text in {path!r}{place}"
    raise EvidenceError.of(what, rule, got, remedy=remedy)


@dataclasses.dataclass(slots=True)
class RunSettings:
    """The global flags of this run."""

    arguments: tuple[str, ...] = ()
    debug: bool = False
    verbose: int = 0
    quiet: bool = False
    whole_help: bool = False
    notes: list[str] = dataclasses.field(default_factory=list)
    """Choices that were made while reading; printed at the end, where no error is."""

    def begin(self, arguments: Sequence[str]) -> None:
        """Forget the run before."""
        self.notes = []
        self.arguments, self.debug, self.verbose, self.quiet = tuple(arguments), False, 0, False

    @property
    def command(self) -> str:
        """The command line as it was typed."""
        return shlex.join(["noracle", *self.arguments])


settings = RunSettings()

# Names come from files: what would move the cursor or ring the bell is shown as a replacement
# character.
_CONTROL = {c: "\ufffd" for c in (*range(32), *range(127, 160)) if c not in (9, 10)}


_TABLE = "answers|judgements|items|ratings|grades|scores"
_IN_FLAGS = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (rf"(^|\| )({_TABLE})(\.\w+)(?= must)", r"\1--\2\3"),
        (rf"(^|\| )({_TABLE})(?= must| file ')", r"\1--\2"),
        (rf"(^|\| )({_TABLE}) and ({_TABLE})(?= must)", r"\1--\2 and --\3"),
        (
            r"(^|\| )(system|systems|classes|raters|labels|columns|item|invalid)(?= must (?:be|name|map|have the type))",
            r"\1--\2",
        ),
        (r"(^|\| )wide(?= must)", r"\1--wide"),
        (r"(^|\| )n_classes(?= must)", r"\1--n-classes"),
        (r"(^|\| )no_answer(?= must)", r"\1--no-answer"),
        (r"columns=\{'([^']+)': '([^']+)'\}", r"--columns \1=\2"),
        (r"\bwide=True\b", "--wide"),
        (r"\bconflicts='drop'", "--conflicts drop"),
        (r"\bjudge='([^']*)'", r"--judge \1"),
        (r"\bn_classes=(\d+)", r"--n-classes \1"),
        (r"([Pp]ass|Correct) n_classes\b", r"\1 --n-classes"),
        (r"([Pp]ass|or|,) classes\b(?! 1 to)", r"\1 --classes"),
        (r"pass classes 1 to", "pass --classes 1 to"),
        (rf"Pass this table as ({_TABLE})", r"Pass this file as --\1"),
        (r"Use from_votes", "Pass --votes"),
    )
)
_LISTED = re.compile(r"(?:--)?\b(systems|raters|classes)=\[([^\]]*)\]")


def in_flags(text: str) -> str:
    """A message of the library in the words of the command line.

    Examples
    --------
    >>> in_flags("answers.item must be one column; got 'a' and 'b'. Say which: columns={'answers.item': 'a'}.")
    "--answers.item must be one column; got 'a' and 'b'. Say which: --columns answers.item=a."
    """
    for pattern, words in _IN_FLAGS:
        text = pattern.sub(words, text)
    return _LISTED.sub(
        lambda m: f"--{m[1]} " + ",".join(part.strip().strip("'") for part in m[2].split(",")), text
    )


def check_target(option: str, path: str | None) -> None:
    """Refuse a file that cannot be written before any work is done."""
    if path is None:
        return
    got = f"got the folder {path!r}. Add a file name."
    require(not Path(path).is_dir(), f"--{option} must name a file; {got}")
    check_folder(f"--{option}", path)


def check_folder(name: str, path: str | Path) -> None:
    """Refuse a file in a folder that is not there."""
    folder = Path(path).parent
    rule = f"{name} must lie in a folder that exists; got {str(path)!r}"
    require(folder.is_dir(), f"{rule}. Make the folder {str(folder)!r} first.")


def say(text: str, *, style: str = "") -> None:
    """Print text on stdout, styled on a terminal; a reader that went away is no error."""
    text = text.translate(_CONTROL)
    if sys.stdout.isatty() and style:
        from rich.console import Console
        from rich.text import Text

        Console(highlight=False, soft_wrap=True).print(Text(text, style=style))
        return
    _write(text + "\n")


def say_card(card: str) -> None:
    """Print a card and an empty line; its headline stands out on a terminal, and is all that
    ``--quiet`` prints.
    """
    headline, _, rest = card.partition("\n")
    say(headline, style="bold red" if "HEURISTIC" in headline or "FAILED" in headline else "bold")
    if settings.quiet:
        return
    say(rest + "\n" if rest else "")


def say_json(value: dict[str, Any]) -> None:
    """Print one JSON value, as every JSON reader accepts it."""
    _write(json.dumps(value, allow_nan=False, ensure_ascii=False, indent=2) + "\n")


def complain(text: str) -> None:
    """Print one line on stderr."""
    line = " ".join(text.translate(_CONTROL).split())
    with contextlib.suppress(BrokenPipeError):
        print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is being done: a spinner on stderr if that is a terminal."""
    if settings.quiet or settings.verbose or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} …"):
        yield


@contextlib.contextmanager
def bar(*, elapsed: bool = False, stays: bool = False) -> Iterator[Any]:
    """A progress bar of rich on stderr, without tasks yet; None if that is no terminal."""
    if settings.quiet or not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        *([rich.TimeElapsedColumn()] if elapsed else []),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=not stays) as shown:
        yield shown


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe (as `| head` does). The rest goes nowhere; files are still
        # written and the exit code stands.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
