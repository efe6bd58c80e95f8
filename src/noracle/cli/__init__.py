"""The command line: one file per verb.

Exit codes: 0 fine or yes; 1 a considered no (a check failed, not certified, an alarm fired, not
verified); 2 bad input or usage; 3 undecided (labels or time used up); 70 an internal error; 130
interrupted. Errors are one line on stderr; ``--debug`` shows the traceback.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Annotated, Any, NamedTuple

import typer

from noracle._version import __version__
from noracle.cli._help import GroupHelp, VerbHelp
from noracle.cli._output import complain, in_flags, settings
from noracle.errors import AssumptionError, NoracleError, NoracleWarning

__all__ = ["app", "main", "run"]

VERBS_BY_QUESTION = """\
Everything
    report     Report everything that the evidence in a folder supports, on one page.
    watch      Follow a folder while evidence comes in; every look holds, and an alarm is raised once it is provable.
    init       Write a project to start from: an example, or one on the files or logs that you have.
    demo       Simulate three systems, five people and two autoraters, and report on them as on any folder.
    doctor     Say what works on this machine, what is missing, and the line that installs it.
    simulate   Draw a world and write its tables: what you would have, and the key that you would not have.
How accurate?
    estimate   Estimate the accuracy of each system, with an interval and what it rests on.
    compare    Compare systems on the same labels; all differences hold together at --confidence.
    race       Drop systems that are certainly not the best, label by label, valid however often one looks.
    rank       Rank systems by preferences, with what being shown first is worth taken out.
    gate       Pass, fail or undecided, with one error rate for all decisions of a repository, for good.
    check      Check how the labels were collected, all that applies; with --at-least or --at-most also sensitivity.
    judge      Say how good a judge is that graded everything, and how accurate systems are with its help.
    mean       Estimate the mean of the gold rater, or any combination of means, from rows that observe different raters.
Better than people?
    certify    Certify that a system is more accurate than the average annotation, or say why not.
    ceiling    Bound the accuracy of the average annotator from above, without an answer key.
    agreement  Estimate how much the raters agree, with an interval.
Broken graders?
    alarm      Prove from the answers alone that not all systems can be as good as claimed.
    ranges     Say what remains possible for each accuracy, for every answer key that the evidence and the trusted claims allow.
    conflict   Find a smallest set of systems that cannot all be as good as claimed, with the proof for this set alone.
    verify     Check saved proofs, plans and certificates again, without the code that found them; or everything in an export of a project.
What next?
    plan       Plan labels for a wanted half-width, a budget, a match or a comparison.
    route      Draw the questions to ask, in random order, and record with which probability each was asked.
Collect
    collect…   Collect labels: pre-committed routes, honest intervals while answers come in, an export that proves itself.
Train
    learn…     Train a classifier on what items are not, without an answer key (extra learn).
Search
    ask        Put items to a model and write the answers table, or have it grade the answers of others.
    search     Search for a workflow that answers better, with labels that may only say what is wrong.
    view       Show a run or a search as one page: steps, scores, workflows and every exchange.
    workflow…  Workflows as data: what they do, and the most calls they take.
"""
"""What ``noracle --help`` lists: a verb and the first paragraph of its own help, which a test holds
together; … marks a verb with verbs of its own."""


class Verb(NamedTuple):
    """One line of ``noracle --help``."""

    name: str
    panel: str
    help: str
    group: bool = False


def _verbs() -> Iterator[Verb]:
    panel = ""
    for line in VERBS_BY_QUESTION.splitlines():
        name, _, text = line.strip().partition(" ")
        if line.startswith(" "):
            yield Verb(name.removesuffix("…"), panel, text.strip(), name.endswith("…"))
        else:
            panel = line


VERBS = tuple(_verbs())
NAMES = frozenset(v.name for v in VERBS)
_HOME = {name: f"noracle.cli.{name}" for name in NAMES}

_EXAMPLE = """Example:

noracle demo

noracle estimate --answers answers.csv --judgements judgements.csv --n-classes 10

VERB --help fits one screen; VERB --help-all explains every option."""


@functools.cache
def program(verb: str | None = None) -> typer.Typer:
    """The command line with this verb imported and the others only listed; with every verb where
    none is named.
    """
    app = typer.Typer(
        name="noracle",
        help="How good is an AI system when there is no answer key?",
        epilog=_EXAMPLE,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        cls=GroupHelp,
        rich_markup_mode=None,
    )
    for v in VERBS:
        if verb is not None and v.name != verb:
            app.command(v.name, cls=VerbHelp, help=v.help, rich_help_panel=v.panel)(_listed)
            continue
        module = importlib.import_module(_HOME[v.name])
        if v.group:
            for member in module.app.registered_commands:
                member.cls = VerbHelp
            app.add_typer(module.app, name=v.name, cls=GroupHelp, rich_help_panel=v.panel)
        else:
            shown = {"epilog": module.EXAMPLE, "rich_help_panel": v.panel}
            app.command(v.name, cls=VerbHelp, **shown)(module.command)
    return app


def _listed() -> None:
    """A verb that is shown and not called in this run."""


def wanted(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """The verb of a command line, or of the line that a shell completes; empty where there is none
    yet.

    Flags before the verb take no value, so it is the first word that is no flag.

    Examples
    --------
    >>> wanted(["-v", "plan", "--budget", "3"], {}), wanted(["--help"], {})
    ('plan', '')
    >>> wanted([], {"_NORACLE_COMPLETE": "complete_bash", "COMP_WORDS": "noracle estimate --int"})
    'estimate'
    """
    words = list(arguments)
    if environment.get("_NORACLE_COMPLETE"):
        words = (
            environment.get("COMP_WORDS") or environment.get("_TYPER_COMPLETE_ARGS", "")
        ).split()[1:]
    first = next((word for word in words if not word.startswith("-")), "")
    return first if first in NAMES else ""


FINE, NO, BAD_INPUT, UNDECIDED, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 70, 130

_WITH_FILES = {
    *("estimate", "compare", "race", "check", "route", "certify", "ceiling", "agreement", "mean"),
    *("alarm", "ranges", "conflict", "judge"),
}
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
        int,
        typer.Option(
            "--verbose", "-v", count=True, help="Log what is being done; twice logs more."
        ),
    ] = 0,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", help="Print headlines only: no details, warnings or progress."
        ),
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
            complain(f"warning: {_in_flags(text)}")
    return code


def _outcome(arguments: Sequence[str], imported: Callable[[], None]) -> tuple[int, str]:
    """The exit code and, for an error, its line."""
    try:
        command = typer.main.get_command(_made(wanted(arguments)))
        imported()
        arguments, settings.whole_help = _whole_help(arguments)
        code = command.main(args=arguments, prog_name="noracle", standalone_mode=False)
        code = code if isinstance(code, int) else FINE
        return (code, "interrupted") if code == INTERRUPTED else (code, "")
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED, "interrupted"
    except SystemExit:
        # A completion was printed, or the reader of stdout closed it while help was printed.
        return FINE, ""
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
    return f"{kind}: {_in_flags(text) if isinstance(error, NoracleError) else text}"


def _in_flags(text: str) -> str:
    """A message in the words of the command line, for verbs that take tables as options."""
    return in_flags(text) if wanted(settings.arguments) in _WITH_FILES else text


def _moved(arguments: Sequence[str]) -> str:
    """What to write instead of ``--wide FILE``, as version 0.1 had it; empty where that is not the
    mistake.
    """
    for word, after in zip(arguments, [*arguments[1:], "-"], strict=True):
        value = after if word == "--wide" else "-"
        if word.startswith("--wide="):
            value = word.removeprefix("--wide=")
        if value and not value.startswith("-"):
            return f"--wide must stand alone, it says that the answers have one row per item; got {value!r}. Write --answers {value} --wide."  # noqa: E501
    return ""


def _whole_help(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The command line with ``--help-all`` read as ``--help``, and whether it was there."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    asked = "--help-all" in arguments[:end]
    early = ["--help" if a == "--help-all" else a for a in arguments[:end]]
    return [*early, *arguments[end:]], asked


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
