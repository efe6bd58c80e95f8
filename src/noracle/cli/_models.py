"""What the verbs that call models share: their options, caps, a bar, and an end in order on Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from noracle.cli._options import Count, File, panel
from noracle.cli._output import bar, complain, say, settings
from noracle.errors import require

if TYPE_CHECKING:
    from noracle.search.budget import Budget, CallPrices
    from noracle.search.caller import Caller
    from noracle.search.model import Model

WHAT, MODEL = panel("What is asked"), panel("Model")
CAPS, KEEP = panel("Caps"), panel("What is kept")
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """What is asked, of which model, and the most that it may take."""

    items: File = WHAT("item, text, options (CSV, JSONL, Parquet); or see --preset.")
    preset: str | None = WHAT(
        "Columns of a public benchmark: mmlu-pro, gpqa, …; or a JSON file of that shape.", "P"
    )
    limit: Count = WHAT("Only the first N items.", min=1)
    shuffle: bool = WHAT(
        "Show the options of each item in a random order.", None, True, "--shuffle/--no-shuffle"
    )
    model: str | None = MODEL(
        "Name on the server; or anthropic:NAME, gemini:NAME, inspect:PROVIDER/NAME, script:FILE, replay:FILE.",
        "M",
    )
    base_url: str | None = MODEL(
        "The server, up to its version (…/v1); default the provider's own, OpenAI's for a bare NAME.",
        "URL",
    )
    key_env: str | None = MODEL("The environment variable that holds the key.", "NAME")
    concurrency: int = MODEL("Calls at the same time.", default=8, min=1)
    timeout: float = MODEL("Longest time for one try of a call.", "S", 300.0, min=0.1)
    retries: int = MODEL("Retries of a call that may work later.", "N", 4, min=0)
    reply_tokens: Count = MODEL(
        "Room of each reply at least; reasoning models need thousands.", min=1
    )
    max_tokens: Count = CAPS("At most this many tokens in this run, in and out.")
    max_cost: float | None = CAPS("At most this much money; needs --prices.", "X")
    max_seconds: float | None = CAPS("Stop after this time.", "S")
    prices: File = CAPS("JSON: price per million tokens by model.")
    no_cache: bool = KEEP("Do not use the cache, and do not fill it.", default=False)
    no_transcripts: bool = KEEP("Keep replies only, no prompts, times and errors.", default=False)
    yes: bool = KEEP("Start without asking.", None, False, "--yes", "-y")

    def asks_first(self, prices: CallPrices | None, *models: Model) -> bool:
        """Whether to ask before the first call: one of the models costs, by its price or, where
        none is known, because it does not run on this machine.
        """
        from noracle.search.budget import MILLION, CallPrices
        from noracle.search.model import Usage

        known = prices or CallPrices()
        each = {m.name: known.cost(m.name, Usage(MILLION, MILLION)) for m in models}
        away = {m.name for m in models if not getattr(m, "local", False)}
        costs = (p > 0 or (math.isnan(p) and name in away) for name, p in each.items())
        return not self.yes and any(costs)

    def open(self) -> Model:
        """The model that was named."""
        from noracle.search.backends import open_model

        return open_model(self.model or "", base_url=self.base_url, key_env=self.key_env)

    def callers(
        self,
        stack: contextlib.ExitStack,
        calls: Path,
        budget: Budget,
        prices: CallPrices | None,
        *models: Model,
    ) -> list[Caller]:
        """Who calls each model; replies are kept in ``calls``, and what was paid before counts."""
        from noracle.search.caller import Cache, Caller
        from noracle.search.transcript import TRANSCRIPT, Transcript

        own = stack.enter_context(Cache.open(calls))
        stores = [own] if self.no_cache else [own, stack.enter_context(Cache.open())]
        about: Any = {"budget": budget, "prices": prices, "concurrency": self.concurrency}
        about |= {"timeout": self.timeout, "retries": self.retries}
        about |= {"reply_tokens": self.reply_tokens}
        if not self.no_transcripts:
            kept = Transcript(calls.with_name(TRANSCRIPT))
            about["transcript"] = stack.enter_context(kept)
        found = [Caller(model, stores=stores, **about) for model in models]
        for one in {c.model.name: c for c in found}.values():
            one.count_past(own)
        return found

    def caps(self, calls: int | None) -> tuple[Budget, CallPrices | None]:
        """The caps of a run, and the prices where a file was named."""
        from noracle.search.budget import Budget, CallPrices

        most = {"tokens": self.max_tokens, "cost": self.max_cost, "seconds": self.max_seconds}
        prices = None if self.prices is None else CallPrices.read(self.prices)
        return Budget(calls=calls, **most), prices  # type: ignore[arg-type]


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


def show_exchanges(folder: Path, wanted: Callable[[Mapping[str, Any]], bool]) -> None:
    """Print the exchanges of a folder that are about what is wanted."""
    from noracle.search.transcript import TRANSCRIPT, read_exchanges, show

    found = [e for e in read_exchanges(folder / TRANSCRIPT) if wanted(e.about)]
    came = f"none in {str(folder)!r}"
    require(found, f"--show must name something that was asked; got {came}.")
    for exchange in found:
        say("\n".join(show(exchange)))


EVERY = 30.0
"""Seconds between two lines of progress where there is no terminal."""


@contextlib.contextmanager
def _lines() -> Iterator[Callable[[str, int, int], None]]:
    """A line at fixed times, also while nothing comes back."""
    state, ended = "no reply yet", threading.Event()

    def step(what: str, done: int, total: int) -> None:
        nonlocal state
        state = f"{what[:60]}: {done:,} of {total:,}"

    def tell() -> None:
        while not ended.wait(EVERY):
            complain(state)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield step
    finally:
        ended.set()
        teller.join()


@contextlib.contextmanager
def call_bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar that takes what is done, how much of it, and of how much; without a terminal a line
    every 30 seconds, and with --quiet nothing.
    """
    with bar() as shown:
        if shown is None:
            with contextlib.nullcontext() if settings.quiet else _lines() as step:
                yield step
            return
        task = shown.add_task("", total=None)
        yield lambda what, done, total: shown.update(
            task, description=what[:60], completed=done, total=total
        )
