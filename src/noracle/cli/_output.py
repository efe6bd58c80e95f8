"""What every verb prints: cards or JSON on stdout, an HTML page, progress and one-line messages on
stderr.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noracle.errors import ArgumentError

if TYPE_CHECKING:
    from noracle.results import Result


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
