"""What every verb prints: cards or JSON on stdout, an HTML page, progress and one-line messages on
stderr.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import math
import os
import re
import shlex
import shutil
import sys
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noracle.errors import EvidenceError, require, require_evidence
from noracle.files import replacing

if TYPE_CHECKING:
    from noracle.report.chart import Bar, Bars
    from noracle.results import Estimate, Result

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


# --------------------------------------------------------------------------------------------------
# many systems: one table, the best first, with their intervals as bars

MOST_CARDS = 3
"""More systems than that are a table; ``--verbose`` prints a card for each."""
_MOST_SYSTEMS, _LEAST_BAR = 40, 10
_BRACKETS, _FLOOR = {"": " ", "first": "┐", "inner": "│", "last": "┘"}, "┊"


def estimate_lines(estimates: Sequence[Estimate], width: int | None = None) -> list[str]:
    """Estimates of one quantity and one confidence: a headline, the table, and what is true of all
    of them.
    """
    from noracle.report import words
    from noracle.report.card import labelled_lines
    from noracle.report.chart import Bars
    from noracle.report.content import content

    width = width or columns()

    ordered = sorted(estimates, key=lambda e: -e.value if math.isfinite(e.value) else 1.0)
    first, rows = ordered[0], [_row(e) for e in ordered]
    told = [content(e) for e in ordered]
    alerts = list(dict.fromkeys(alert for one in told for alert in one.alerts))
    some = [e.subject for e, one in zip(ordered, told, strict=True) if one.alerts]
    kind = "intervals" if first.side == "two-sided" else f"{first.side} bounds"
    headline = f"{first.quantity} of {len(rows):,} systems"
    headline += f"    {words.level(first.confidence)} {kind}, each by itself"
    lines = ["    ".join([headline, *alerts])]
    lines += bars_lines(Bars(anchor="", title="", rows=rows, most=(0.0, 1.0)), "", width)[:-1]
    if some and len(some) < len(rows):
        lines.append(f"  {'promise':<12}weaker for {words.listed(some)}")
    sound = [e for e, one in zip(ordered, told, strict=True) if not one.alerts] or ordered
    guarantee = reduce(and_, (e.guarantee for e in sound))
    how = dict.fromkeys(words.how(e.method, e.interval) for e in sound)
    shared = [note for note in sound[0].notes if all(note in e.notes for e in sound)]
    said = [("method", text) for text in how]
    said += [("guarantee", words.kind(guarantee)), ("rests on", words.rests_on(guarantee))]
    said += [("note", note) for note in shared]
    said.append(("--verbose", "a card for each system, with its evidence"))
    return [*lines, *(line for pair in said for line in labelled_lines(*pair, width))]


def best_line(estimates: Sequence[Estimate]) -> str:
    """The system with the highest value, in one line."""
    known = [e for e in estimates if math.isfinite(e.value)]
    if not known:
        return f"no {estimates[0].quantity} of {len(estimates):,} systems is known"
    row = _row(max(known, key=lambda e: e.value))
    return f"highest {known[0].quantity} of {len(estimates):,} systems: {row.name!r} {row.said} ({row.more} %)"


def in_columns(result: Result) -> str:
    """The card of a result, no wider than the terminal."""
    if not sys.stdout.isatty():
        return str(result)
    from noracle.report.card import WIDTH, card

    return card(result, min(WIDTH, columns()))


def columns() -> int:
    """The width of the terminal; 100 columns where there is none."""
    return max(40, shutil.get_terminal_size((100, 24)).columns)


def _row(estimate: Estimate) -> Bar:
    from noracle.report.chart import Bar

    return Bar.of(estimate.subject, estimate.low, estimate.high, estimate.value)


def bars_lines(chart: Bars, tied: str = "", width: int | None = None) -> list[str]:
    """The rows of a chart in the width of the terminal; a bracket holds those that cannot be told
    apart.
    """
    width = max(40, width or columns())
    rows = chart.rows[:_MOST_SYSTEMS]
    more = [row.more if row.more == "unknown" else f"{row.more} %" for row in rows]
    lanes = ["".join(_BRACKETS[lane] for lane in row.lanes) for row in rows]
    ends = max(len(row.said) for row in rows) + max(map(len, more)) + max(map(len, lanes)) + 6
    name = min(max(_cells(row.name) for row in rows), max(12, (width - ends) // 2))
    room = width - ends - name - 2
    lines = []
    for row, told, ties in zip(rows, more, lanes, strict=True):
        bar = _bar(chart, row, room) if room >= _LEAST_BAR else ""
        value = row.said.rjust(max(len(r.said) for r in rows))
        cells = (_cut(row.name, name), bar, value, told.rjust(max(map(len, more))), ties)
        lines.append("  ".join(cell for cell in cells if cell).rstrip())
    if room >= _LEAST_BAR:
        (first, low), (last, high) = chart.ticks[0], chart.ticks[-1]
        scale = [" "] * (room + 5)
        for at, text in ((first, low), (last, high)):
            start = max(0, round(float(at) / 100 * (room - 1)) - len(text) // 2)
            scale[start : start + len(text)] = text
        lines.append((" " * (name + 2) + "".join(scale)).rstrip())
    left = len(chart.rows) - len(rows)
    if left > 0:
        lines.append(f"… and {left:,} more systems; the report has all of them")
    if tied:
        lines.append("┐┘ " + tied.removesuffix(" with these labels"))
    lines += [f"{_FLOOR} {said}" for _, said in chart.lines]
    return [*lines, ""]


def _bar(chart: Bars, row: Bar, room: int) -> str:
    """An interval with its value on a line of so many characters."""

    def at(value: float) -> int:
        return round(float(chart.at(value)) / 100 * (room - 1))

    cells = [" "] * room
    for x, _ in chart.lines:
        cells[at(x)] = _FLOOR
    if row.low == row.low and row.high == row.high:
        low, high = at(row.low), at(row.high)
        cells[low : high + 1] = "─" * (high + 1 - low)
    if row.value == row.value:
        cells[at(row.value)] = "●"
    return "".join(cells)


def _cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _cut(text: str, cells: int) -> str:
    """The text in so many columns, cut where it is longer."""
    text = "".join(c if c.isprintable() else "\ufffd" for c in text)
    if _cells(text) > cells:
        while _cells(text) >= cells:
            text = text[:-1]
        text += "…"
    return text + " " * (cells - _cells(text))
