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
from typing import TYPE_CHECKING, Any

from noracle.counts import AccuracyCounts, check_n_classes
from noracle.errors import ArgumentError, EvidenceError, NoracleError, fault

if TYPE_CHECKING:
    from noracle.results import Result

Columns = Mapping[str, Sequence[Any]]
FORMATS = (".csv", ".jsonl", ".parquet")
_SQL = {int: "BIGINT", float: "DOUBLE"}


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its name when all went well."""
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(
            0o666 & ~mask
        )  # a temporary file is private to the user; a result is like any other file
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: str | Path, value: Mapping[str, Any]) -> None:
    """Write one JSON value."""
    with replacing(path) as temporary:
        temporary.write_text(
            json.dumps(value, allow_nan=False, ensure_ascii=False, indent=1) + "\n",
            encoding="utf-8",
        )


def check_format(option: str, path: str | None) -> None:
    """Refuse a table whose name does not end in a known format."""
    if path is not None and Path(path).suffix.lower() not in FORMATS:
        raise EvidenceError(fault(f"--{option}", f"must end in {', '.join(FORMATS)}", repr(path)))


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

    def quoted(text: str, mark: str) -> str:
        return mark + text.replace(mark, mark + mark) + mark

    types = {}
    for name, values in columns.items():
        kinds = {type(v) for v in values if v is not None}
        types[name] = _SQL.get(kinds.pop(), "VARCHAR") if len(kinds) == 1 else "VARCHAR"
    shape = ", ".join(
        f"{quoted(name, chr(39))}: {quoted(sql, chr(39))}" for name, sql in types.items()
    )
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "rows.jsonl"
        _write_lines(lines, columns)
        source = f"read_json({quoted(str(lines), chr(39))}, format = 'newline_delimited', columns = {{{shape}}})"
        with connect() as connection:
            connection.execute(
                f"COPY (SELECT * FROM {source}) TO {quoted(str(path), chr(39))} (FORMAT parquet)"  # noqa: S608 (quoted)
            )


def read_json(path: str, what: str) -> Any:
    """The value in a JSON file."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise EvidenceError(
            fault(
                what,
                "must be a readable file",
                f"{path!r} ({error.strerror})",
                remedy="Check the path.",
            )
        ) from None
    except UnicodeDecodeError:
        raise EvidenceError(
            fault(
                what, "must be UTF-8 text", f"other bytes in {path!r}", remedy="Save it as UTF-8."
            )
        ) from None
    except (json.JSONDecodeError, RecursionError) as error:
        place = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise EvidenceError(
            fault(
                what,
                "must be a JSON file",
                f"other text in {path!r}{place}",
                remedy="Write it again.",
            )
        ) from None


def read_counts(path: str) -> AccuracyCounts:
    """Counts that ``--save-counts`` wrote, or a file of that shape with published numbers."""
    data = read_json(path, "--counts")
    shape = f"something else in {path!r}"
    if not isinstance(data, dict):
        raise EvidenceError(
            fault("--counts", "must hold a JSON object with schema counts/1", shape)
        )
    try:
        counts = AccuracyCounts.from_dict(data)
        _check_counts(counts)
    except NoracleError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"{shape} ({type(error).__name__}: {error})"
        raise EvidenceError(
            fault(
                "--counts",
                "must have the shape of schema counts/1",
                why,
                remedy="Write it with --save-counts.",
            )
        ) from None
    return counts


def _check_counts(counts: AccuracyCounts) -> None:
    for tally, n in counts.tallies.items():
        if tally.n_classes or tally.design == "uniform":  # grades of free text know of no classes
            check_n_classes(tally.n_classes)
        if tally.verdict not in ("yes", "no", "unsure"):
            raise EvidenceError(
                fault("--counts: verdict", "must be yes, no or unsure", repr(tally.verdict))
            )
        if (
            tally.verdict == "no"
            and tally.n_classes
            and not 1 <= tally.n_ruled_out < tally.n_classes
        ):
            raise EvidenceError(
                fault(
                    "--counts: n_ruled_out",
                    f"must be in [1, {tally.n_classes})",
                    repr(tally.n_ruled_out),
                )
            )
        if n < 0:
            raise EvidenceError(fault("--counts: n", "must not be negative", n))
    for cell, n in counts.items.items():
        if cell.n_classes:
            check_n_classes(cell.n_classes)
        if not 0 <= counts.answered[cell] <= n:
            raise EvidenceError(
                fault(
                    "--counts: answered",
                    "must be between 0 and the number of items",
                    counts.answered[cell],
                )
            )
        if not cell.weight > 0:
            raise EvidenceError(fault("--counts: weight", "must be positive", cell.weight))
    names = {cell.system for cell in counts.items} | {tally.system for tally in counts.tallies}
    if not names or not all(isinstance(name, str) for name in names):
        raise EvidenceError(
            fault("--counts", "must name at least one system", sorted(map(repr, names)))
        )


def read_matrix(path: str | None) -> list[list[float]] | None:
    """A transition matrix: a JSON list of rows, or CSV rows of numbers; row = true class, column =
    ruled-out class.
    """
    if path is None:
        return None
    if Path(path).suffix.lower() == ".json":
        rows = read_json(path, "--transition")
    else:
        try:
            with Path(path).open(encoding="utf-8-sig", newline="") as file:
                rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
        except OSError as error:
            raise EvidenceError(
                fault("--transition", "must be a readable file", f"{path!r} ({error.strerror})")
            ) from None
        except (UnicodeDecodeError, csv.Error):
            raise EvidenceError(
                fault(
                    "--transition",
                    "must be UTF-8 text with rows of numbers",
                    f"other bytes in {path!r}",
                )
            ) from None
    try:
        matrix = [[float(cell) for cell in row] for row in rows]
    except (TypeError, ValueError):
        raise EvidenceError(
            fault(
                "--transition",
                "must hold rows of numbers",
                f"something else in {path!r}",
                remedy="Leave out headers.",
            )
        ) from None
    size = len(matrix)
    if size < 2 or any(len(row) != size for row in matrix):
        raise EvidenceError(
            fault(
                "--transition",
                "must be a square matrix",
                f"rows of lengths {[len(row) for row in matrix][:12]} in {path!r}",
            )
        )
    if any(not 0 <= p <= 1 for row in matrix for p in row) or any(
        abs(sum(row) - 1) > 1e-6 for row in matrix
    ):
        raise EvidenceError(
            fault(
                "--transition",
                "must hold probabilities whose rows sum to 1",
                f"other numbers in {path!r}",
            )
        )
    return matrix


# ----------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class Settings:
    """The global flags of this run."""

    arguments: tuple[str, ...] = ()
    debug: bool = False
    verbose: int = 0
    quiet: bool = False
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


settings = Settings()

# Names come from files: what would move the cursor or ring the bell is shown as a replacement
# character.
_CONTROL = {c: "\ufffd" for c in (*range(32), *range(127, 160)) if c not in (9, 10)}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where the results of one verb go; made before the work, so that a wrong path is found first."""

    title: str
    as_json: bool = False
    html: str | None = None

    def __post_init__(self) -> None:
        check_target("html", self.html)

    def emit(
        self,
        results: Sequence[Result],
        *,
        single: bool = False,
        seed: int | None = None,
        more: Sequence[Result] = (),
        after: Sequence[str] = (),
    ) -> None:
        """Print the results and write the page.

        ``single`` prints one JSON object instead of a list; ``more`` are results that only the page
        shows; ``after`` are lines of text below the cards.
        """
        if self.html is not None:
            from noracle.report.page import write_page

            with working("drawing the report"):
                write_page(
                    self.html,
                    [*results, *more],
                    title=self.title,
                    command=settings.command,
                    seed=seed,
                )
        if self.as_json:
            from noracle.results import results_dict

            say_json(results[0].to_dict() if single else results_dict(results))
            return
        for result in results:
            say_card(str(result))
        for line in after:
            say(line)
        if seed is not None:
            say(f"seed {seed}")
        if self.html is not None:
            say(f"report {self.html}")


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
    name = f"--{option}"
    if Path(path).is_dir():
        raise ArgumentError(f"{name} must name a file; got the folder {path!r}. Add a file name.")
    if not Path(path).parent.is_dir():
        raise ArgumentError(
            f"{name} must lie in a folder that exists; got {path!r}. Make the folder {str(Path(path).parent)!r} first."
        )


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
    """Print a card and an empty line; its headline stands out on a terminal."""
    headline, _, rest = card.partition("\n")
    say(headline, style="bold red" if "HEURISTIC" in headline or "FAILED" in headline else "bold")
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
