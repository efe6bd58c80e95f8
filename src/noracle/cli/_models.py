"""What the verbs that call models share: their options, caps, a bar, and an end in order on Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from noracle.cli._output import complain, settings

if TYPE_CHECKING:
    from noracle.search.budget import Budget, Prices

WHAT, MODEL, CAPS, KEEP = "What is asked", "Model", "Caps", "What is kept"
_T = TypeVar("_T")


def option(
    *names: str, text: str, panel: str, metavar: str | None = None, minimum: int | None = None
) -> Any:
    """An option in a panel of the help."""
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, min=minimum)


ItemsFile = Annotated[
    str | None,
    option(
        "--items",
        metavar="FILE",
        text="item, text, options (CSV, JSONL, Parquet); or see --preset.",
        panel=WHAT,
    ),
]
PresetName = Annotated[
    str | None,
    option(
        "--preset",
        metavar="P",
        text="Columns of a public benchmark: mmlu-pro, gpqa, …; or a JSON file of that shape.",
        panel=WHAT,
    ),
]
Limit = Annotated[
    int | None,
    option("--limit", metavar="N", text="Only the first N items.", panel=WHAT, minimum=1),
]
Shuffle = Annotated[
    bool,
    option(
        "--shuffle/--no-shuffle",
        text="Show the options of each item in a random order.",
        panel=WHAT,
    ),
]
ModelName = Annotated[
    str | None,
    option(
        "--model",
        metavar="M",
        text="Name on the server; or inspect:PROVIDER/NAME, script:FILE, replay:FILE.",
        panel=MODEL,
    ),
]
BaseUrl = Annotated[
    str | None,
    option(
        "--base-url",
        metavar="URL",
        text="A server that speaks OpenAI's protocol; default OpenAI's own.",
        panel=MODEL,
    ),
]
KeyVariable = Annotated[
    str | None,
    option(
        "--key-env",
        metavar="NAME",
        text="The environment variable that holds the key.",
        panel=MODEL,
    ),
]
Concurrency = Annotated[
    int, option("--concurrency", text="Calls at one time.", panel=MODEL, minimum=1)
]
MaxTokens = Annotated[
    int | None, option("--max-tokens", metavar="N", text="Most tokens, in and out.", panel=CAPS)
]
MaxCost = Annotated[
    float | None, option("--max-cost", metavar="X", text="Most money; needs --prices.", panel=CAPS)
]
MaxSeconds = Annotated[
    float | None, option("--max-seconds", metavar="S", text="Longest time.", panel=CAPS)
]
PricesFile = Annotated[
    str | None,
    option("--prices", metavar="FILE", text="JSON: price per million tokens by model.", panel=CAPS),
]
NoCache = Annotated[
    bool, option("--no-cache", text="Neither use nor fill the cache of this user.", panel=KEEP)
]
Yes = Annotated[bool, option("--yes", "-y", text="Do not ask before the first call.", panel=KEEP)]


def read_caps(
    *,
    calls: int | None,
    tokens: int | None,
    cost: float | None,
    seconds: float | None,
    prices: str | None,
) -> tuple[Budget, Prices | None]:
    """The caps of a run, and the prices where a file was named."""
    from noracle.search.budget import Budget, Prices

    return Budget(
        calls=calls, tokens=tokens, cost=cost, seconds=seconds
    ), None if prices is None else Prices.read(prices)


def announce(line: str, *, ask_first: bool) -> None:
    """Say on stderr what is to come; ask on a terminal."""
    if not settings.quiet:
        complain(line)
    if (
        ask_first
        and sys.stdin.isatty()
        and sys.stderr.isatty()
        and not typer.confirm("Go on?", default=True, err=True)
    ):
        raise typer.Abort


def interruptibly(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run it so that Ctrl-C ends it in order: calls that are out are paid, so they are waited for;
    a second Ctrl-C does not wait.
    """
    on_main = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGINT, signal.default_int_handler) if on_main else None
    try:
        return asyncio.run(coroutine)
    except KeyboardInterrupt:
        complain("stopped; the same command goes on from here")
        raise
    finally:
        if on_main:
            signal.signal(signal.SIGINT, previous)


@contextlib.contextmanager
def bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on stderr if that is a terminal; it takes what is done, how much of it, and of how
    much.
    """
    if settings.quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda what, done, total: shown.update(
            task, description=what[:60], completed=done, total=total
        )
