"""The command line: one file a verb.

Exit codes: 0 fine or yes; 1 a considered no (a check failed, not certified, an alarm fired, not
verified); 2 bad input or usage; 3 undecided (labels or time used up); 70 an internal error; 130
interrupted. Errors are one line on stderr; ``--debug`` shows the traceback.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Annotated, Any

import typer

from noracle._version import __version__
from noracle.cli._output import complain, in_flags, settings
from noracle.cli._verbs import program, wanted
from noracle.errors import AssumptionError, NoracleError, NoracleWarning

FINE, NO, BAD_INPUT, UNDECIDED, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 70, 130

_WITH_FILES = frozenset(
    (
        "estimate",
        "compare",
        "race",
        "check",
        "route",
        "certify",
        "ceiling",
        "agreement",
        "alarm",
        "ranges",
        "conflict",
        "mean",
    )
)
"""The verbs that take tables as options, in whose words their errors are said."""
_GLOBAL = ("--debug", "-v", "-vv", "--verbose", "-q", "--quiet")
# The parent of typer's own parameter error is the error of every wrong use, in each version of
# typer.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"noracle {__version__}")
        raise typer.Exit


def _globals(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="Say what is done; twice says more.")
    ] = 0,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No warnings and no progress.")
    ] = False,
) -> None:
    settings.debug, settings.verbose, settings.quiet = debug, verbose, quiet
    logging.getLogger("noracle").setLevel(
        [logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)]
    )
    del version


def _made(verb: str | None) -> typer.Typer:
    made = program(verb)
    if made.registered_callback is None:
        made.callback()(_globals)
    return made


def __getattr__(name: str) -> Any:
    if name == "app":  # the whole program: every verb is imported
        return _made(None)
    raise AttributeError(f"module 'noracle.cli' has no attribute {name!r}")


def main() -> None:
    """Run the command line on ``sys.argv`` and leave with its exit code."""
    # What is imported stays until the end: to look through it for garbage, again and again and
    # once more at the end, takes a tenth of the time of a short command.
    gc.set_threshold(200_000, 10, 10)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(run(sys.argv[1:], imported=gc.freeze))


def run(arguments: Sequence[str], *, imported: Callable[[], None] = lambda: None) -> int:
    """Run the command line on these arguments and return its exit code; ``imported`` is called
    when the verb is there, before it begins.
    """
    settings.begin(arguments)
    with (
        _logging_to_stderr(),
        _interruptible() as interrupted,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", NoracleWarning)
        code, line = _outcome(_globals_first(arguments) or ["--help"], imported)
        if interrupted:
            code, line = INTERRUPTED, "interrupted"
    if line:
        complain(line)
    elif not settings.quiet:
        heard = list(
            dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, NoracleWarning))
        )
        for text in dict.fromkeys(settings.notes):
            if not any(warning.startswith(text) for warning in heard):
                complain(f"note: {text}")
        for text in heard:
            complain(f"warning: {in_flags(text) if wanted(arguments) in _WITH_FILES else text}")
    return code


def _outcome(arguments: Sequence[str], imported: Callable[[], None]) -> tuple[int, str]:
    """The exit code and, for an error, its line."""
    try:
        command = typer.main.get_command(_made(wanted(arguments)))
        imported()
        code = command.main(args=list(arguments), prog_name="noracle", standalone_mode=False)
        code = code if isinstance(code, int) else FINE
        return (code, "interrupted") if code == INTERRUPTED else (code, "")
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED, "interrupted"
    except SystemExit:
        return (
            FINE,
            "",
        )  # a completion was printed, or the reader of stdout closed it while help was printed
    except _UsageError as error:
        moved = _moved(arguments)
        if moved:
            return BAD_INPUT, f"error: {moved}"
        where = error.ctx.command_path if error.ctx is not None else "noracle"
        return BAD_INPUT, f"error: {error.format_message()} Try '{where} --help'."
    except AssumptionError as error:
        return NO, _line("error", error)
    except NoracleError as error:
        return BAD_INPUT, _line("error", error)
    except OSError as error:
        where = f": {error.filename!r}" if error.filename else ""
        return BAD_INPUT, _line("error", f"{error.strerror or error}{where}")
    except Exception as error:  # noqa: BLE001 (the top of the program: nothing may pass it)
        return INTERNAL, _line(
            "internal error", f"{type(error).__name__}: {error} (--debug shows the traceback)"
        )


def _line(kind: str, error: object) -> str:
    if settings.debug:
        traceback.print_exc()
    text = str(error)
    if "--system" in settings.arguments and text.startswith("systems must"):
        text = text.replace("systems", "system", 1)
    return f"{kind}: {in_flags(text) if isinstance(error, NoracleError) and wanted(settings.arguments) in _WITH_FILES else text}"


def _moved(arguments: Sequence[str]) -> str:
    """What to write instead of ``--wide FILE``, as version 0.1 had it; empty where that is not the
    mistake.
    """
    for word, after in zip(arguments, [*arguments[1:], "-"], strict=True):
        value = (
            word.removeprefix("--wide=")
            if word.startswith("--wide=")
            else after
            if word == "--wide"
            else "-"
        )
        if value and not value.startswith("-"):
            return f"--wide must stand alone, it says that the answers have one row per item; got {value!r}. Write --answers {value} --wide."  # noqa: E501
    return ""


def _globals_first(arguments: Sequence[str]) -> list[str]:
    """Global flags may stand anywhere before a ``--``."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    early, rest = arguments[:end], arguments[end:]
    return [a for a in early if a in _GLOBAL] + [a for a in early if a not in _GLOBAL] + list(rest)


@contextlib.contextmanager
def _logging_to_stderr() -> Iterator[None]:
    logger = logging.getLogger("noracle")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = logger.level
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextlib.contextmanager
def _interruptible() -> Iterator[list[bool]]:
    """Remember Ctrl-C: an engine that is interrupted may raise an error of its own instead of
    KeyboardInterrupt.
    """
    interrupted: list[bool] = []
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        interrupted.append(True)
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, stop)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, previous)


__all__ = ["app", "main", "run"]
