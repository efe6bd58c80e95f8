"""``noracle search``: find a better workflow with weak labels, or the best of systems that exist."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli._files import replacing, write_json
from noracle.cli._options import Sources
from noracle.cli._output import Output, check_target, complain, settings, working
from noracle.errors import ArgumentError
from noracle.search.model import BudgetReached

if TYPE_CHECKING:
    from noracle.search.budget import Budget, Prices
    from noracle.search.candidates import Strategy
    from noracle.search.found import Found
    from noracle.search.model import Model
    from noracle.search.task import Task
    from noracle.search.vault import Vault
    from noracle.search.workflow import Workflow

EXAMPLE = """Example:

noracle search --items items.csv --judgements judgements.csv --model my-model --base-url http://127.0.0.1:8080/v1 --budget 5000

noracle search --items test.parquet --preset mmlu-pro --judgements no.csv --model small --designer large --strategy adas --budget 20000

noracle search --answers answers.csv --judgements judgements.csv --strategy halving

Exit code 3: the labels cannot tell whether the winner is better, or a cap stopped it. Stopped, it goes on with the same command."""

StrategyChoice = Literal["adas", "aflow", "mutate", "halving"]
_WHAT, _MODEL, _HOW, _CAPS, _KEEP = "What is searched", "Models", "Search", "Caps", "What is kept"
_UNDECIDED = 3
_GOES_ON = "The same command with a larger cap goes on."
_FIRST = {"aflow": ("direct",), "halving": ("cot",)}
_ROUNDS = {"adas": 30, "aflow": 20, "mutate": 30, "halving": 200}
_NEED_DESIGNER = ("adas", "aflow")


def _option(*names: str, text: str, panel: str, metavar: str | None = None, minimum: int | None = None) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, min=minimum)


def command(
    items: Annotated[
        str | None, _option("--items", metavar="FILE", text="item, text, options (CSV, JSONL, Parquet); or see --preset.", panel=_WHAT)
    ] = None,
    judgements: opt.JudgementsFile = None,
    model: Annotated[
        str | None,
        _option("--model", metavar="M", text="Name on the server; or inspect:PROVIDER/NAME, script:FILE, replay:FILE.", panel=_MODEL),
    ] = None,
    strategy: Annotated[
        StrategyChoice,
        typer.Option("--strategy", help="adas and aflow have a designer model; mutate and halving need none.", rich_help_panel=_HOW),
    ] = "mutate",
    budget: Annotated[
        int | None, _option("--budget", metavar="CALLS", text="Most calls of the whole search, designer included.", panel=_CAPS, minimum=1)
    ] = None,
    designer: Annotated[
        str | None, _option("--designer", metavar="M", text="The model that writes workflows; default --model.", panel=_MODEL)
    ] = None,
    base_url: Annotated[
        str | None, _option("--base-url", metavar="URL", text="A server that speaks OpenAI's protocol; default OpenAI's own.", panel=_MODEL)
    ] = None,
    designer_url: Annotated[
        str | None, _option("--designer-url", metavar="URL", text="The server of --designer; default --base-url.", panel=_MODEL)
    ] = None,
    key_env: Annotated[
        str | None, _option("--key-env", metavar="NAME", text="The environment variable that holds the key.", panel=_MODEL)
    ] = None,
    preset: Annotated[
        str | None, _option("--preset", metavar="P", text="Columns of a public benchmark: mmlu-pro, gpqa, …; or a JSON file.", panel=_WHAT)
    ] = None,
    limit: Annotated[int | None, _option("--limit", metavar="N", text="Only the first N items.", panel=_WHAT, minimum=1)] = None,
    workflow: Annotated[
        list[str] | None, _option("--workflow", metavar="W", text="Name or JSON file of one more workflow to begin with.", panel=_HOW)
    ] = None,
    baseline: Annotated[
        list[str] | None, _option("--baseline", metavar="W", text="Begin with these instead; the first is compared with.", panel=_HOW)
    ] = None,
    generations: Annotated[
        int | None, _option("--generations", metavar="N", text="Most proposals; default 30, aflow 20.", panel=_HOW, minimum=0)
    ] = None,
    repeats: Annotated[
        int | None, _option("--repeats", metavar="R", text="Answers to each item; default 1, aflow 3.", panel=_HOW, minimum=1)
    ] = None,
    shares: Annotated[
        str, _option("--shares", metavar="V,C,F", text="Shares of labelled items: validation, confirm, final.", panel=_HOW)
    ] = "0.5,0.2,0.3",
    shuffle: Annotated[
        bool, typer.Option("--shuffle/--no-shuffle", help="Show the options of each item in a random order.", rich_help_panel=_HOW)
    ] = True,
    confidence: opt.Confidence = 0.95,
    seed: opt.Seed = 0,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Calls at one time.", rich_help_panel=_MODEL)] = 8,
    max_tokens: Annotated[int | None, _option("--max-tokens", metavar="N", text="Most tokens, in and out.", panel=_CAPS)] = None,
    max_cost: Annotated[float | None, _option("--max-cost", metavar="X", text="Most money; needs --prices.", panel=_CAPS)] = None,
    max_seconds: Annotated[float | None, _option("--max-seconds", metavar="S", text="Longest time.", panel=_CAPS)] = None,
    prices: Annotated[str | None, _option("--prices", metavar="FILE", text="JSON: price per million tokens by model.", panel=_CAPS)] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither use nor fill the cache of this user.", rich_help_panel=_KEEP)
    ] = False,
    out: Annotated[
        str, _option("--out", metavar="FOLDER", text="Journal, archive and calls; a search that is there goes on.", panel=_KEEP)
    ] = "noracle-search",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before the first call.", rich_help_panel=_KEEP)] = False,
    answers: opt.AnswersFile = None,
    systems: opt.SystemNames = None,
    n_classes: opt.NClasses = None,
    classes: opt.Classes = None,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Search a workflow that answers better, with labels that may only say what is wrong.

    Labelled items are split: validation labels score candidates, confirm labels decide whether one is better, final labels estimate the
    winner and are opened once. No model and no strategy sees a label. With --answers and no model: the best of systems that exist.
    """
    output = Output(title="A workflow found with weak labels", as_json=as_json, html=html)
    if answers is not None:
        _fit_pool(model=model, designer=designer, strategy=strategy)
        from noracle.cli._search_pool import race_answers

        sources = Sources(answers=answers, judgements=judgements, items=items, n_classes=n_classes, classes=classes)
        pool = dataclasses.replace(output, title="The best of systems that exist")
        race_answers(sources, pool, systems=opt.names(systems), budget=budget, confidence=confidence, seed=seed)
        return
    wanted = {"--items": items, "--judgements": judgements, "--model": model, "--budget": budget}
    missing = [name for name, value in wanted.items() if value is None]
    if missing or items is None or judgements is None or model is None or budget is None:
        raise ArgumentError(f"{', '.join(missing)} must be given; got none. Without a model pass --answers and --strategy halving.")
    check_target("out", str(Path(out) / "journal.jsonl") if Path(out).exists() else out)
    job = _prepare(
        items=items, judgements=judgements, preset=preset, limit=limit, strategy=strategy, workflow=workflow or (), baseline=baseline or (),
        generations=generations, repeats=repeats, shares=shares, seed=seed,
    )  # fmt: skip
    known_prices, caps = _caps(budget, max_tokens, max_cost, max_seconds, prices)
    opened = _open_models(model, designer, strategy, base_url, designer_url, key_env)
    _announce(job, budget, caps, known_prices, opened[0].name, ask_first=not yes and ":" not in model)
    try:
        found = _interruptibly(
            lambda: _work(
                job, opened, folder=Path(out), budget=budget, caps=caps, prices=known_prices, concurrency=concurrency, no_cache=no_cache,
                seed=seed, shuffle=shuffle, confidence=confidence,
            )
        )  # fmt: skip
    except BudgetReached as reached:  # before the first baseline was done, so there is nothing to report
        complain(f"stopped: {reached} {_GOES_ON}")
        raise typer.Exit(_UNDECIDED) from None
    _report(found, output, folder=Path(out), seed=seed)
    if not found.decided:
        if found.held_out is None:
            complain(f"stopped: {found.stopped} {_GOES_ON}")
        raise typer.Exit(_UNDECIDED)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What is searched, read and checked before any call."""

    task: Task
    vault: Vault
    strategy: Strategy
    baselines: Sequence[Workflow]
    generations: int
    repeats: int


def _prepare(
    *, items: str, judgements: str, preset: str | None, limit: int | None, strategy: StrategyChoice, workflow: Sequence[str],
    baseline: Sequence[str], generations: int | None, repeats: int | None, shares: str, seed: int,
) -> _Job:  # fmt: skip
    from noracle.search.engine import BASELINES
    from noracle.search.strategies import make_strategy
    from noracle.search.task import read_task
    from noracle.search.vault import Vault
    from noracle.search.workflow import load_workflow

    task = read_task(items, preset=preset, limit=limit)
    vault = Vault.open(judgements, task.items, seed=seed, shares=_shares(shares))
    more = [load_workflow(w) for w in workflow]
    first = [load_workflow(w) for w in (baseline or _FIRST.get(strategy, BASELINES))]
    pool = [*(load_workflow(w) for w in BASELINES), *more] if strategy == "halving" else []
    rounds = generations if generations is not None else _ROUNDS[strategy]
    made = make_strategy(strategy, task=task, workflows=pool, rounds=max(1, rounds), most_calls=20, seed=seed)
    again = repeats if repeats is not None else int(getattr(made, "repeats", 1))
    unique = {w.digest: w for w in (first if strategy == "halving" else [*first, *more])}
    return _Job(task=task, vault=vault, strategy=made, baselines=tuple(unique.values()), generations=rounds, repeats=again)


def _fit_pool(*, model: str | None, designer: str | None, strategy: str) -> None:
    if model is not None or designer is not None:
        raise ArgumentError("--answers must come without --model and --designer; got both. Leave one out.")
    if strategy != "halving":
        raise ArgumentError(
            f"--answers must come with --strategy halving; got {strategy!r}. There is nothing to propose among systems that exist."
        )


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentError(f"--shares must be three numbers separated by commas; got {text!r}.") from None


def _caps(calls: int, tokens: int | None, cost: float | None, seconds: float | None, prices: str | None) -> tuple[Prices | None, Budget]:
    from noracle.search.budget import Budget, Prices

    return None if prices is None else Prices.read(prices), Budget(calls=calls, tokens=tokens, cost=cost, seconds=seconds)


def _open_models(
    model: str, designer: str | None, strategy: str, base_url: str | None, designer_url: str | None, key_env: str | None
) -> tuple[Model, Model | None]:
    """The model that answers and the one that designs; one and the same unless another is named."""
    from noracle.search.backends import open_model

    answering = open_model(model, base_url=base_url, key_env=key_env)
    if strategy not in _NEED_DESIGNER:
        if designer is not None:
            raise ArgumentError(f"--designer must go with --strategy adas or aflow; got {strategy!r}, which needs none. Leave it out.")
        return answering, None
    if designer is None:
        return answering, answering
    server = not designer.startswith(("inspect:", "script:", "replay:"))
    url = (designer_url or base_url) if server else designer_url
    return answering, open_model(designer, base_url=url, key_env=key_env if server else None)


def _announce(job: _Job, budget: int, caps: Budget, prices: Prices | None, model: str, *, ask_first: bool) -> None:
    """Say on stderr what is to come; ask on a terminal."""
    from noracle.search.asking import expected_usage
    from noracle.search.task import pose

    sizes = {part: len(job.vault.items(part)) for part in ("validation", "confirm", "final")}
    usage = expected_usage([pose(item) for item in job.task.items[:200]], job.baselines[0])
    projection = caps.project(budget, calls_per_item=1, tokens_per_call=usage, prices=prices, model=model)
    first = sum(w.most_calls for w in job.baselines) * sizes["validation"] * job.repeats
    parts = ", ".join(f"{n:,} {part}" for part, n in sizes.items())
    if not settings.quiet:
        complain(
            f"{job.strategy.name} on {sum(sizes.values()):,} labelled items ({parts}); baselines take up to {first:,} calls; {projection}"
        )
    if ask_first and sys.stdin.isatty() and sys.stderr.isatty() and not typer.confirm("Go on?", default=True, err=True):
        raise typer.Abort


async def _work(
    job: _Job, models: tuple[Model, Model | None], *, folder: Path, budget: int, caps: Budget, prices: Prices | None, concurrency: int,
    no_cache: bool, seed: int, shuffle: bool, confidence: float,
) -> Found:  # fmt: skip
    from noracle.search.archive import CALLS
    from noracle.search.cache import Cache
    from noracle.search.caller import Caller
    from noracle.search.engine import search_workflows

    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(Cache.open(folder / CALLS))
        stores = [own] if no_cache else [own, stack.enter_context(Cache.open())]
        answering, designing = models
        caller = Caller(answering, stores=stores, budget=caps, prices=prices, concurrency=concurrency)
        callers = [caller]
        if designing is not None and designing is not answering:
            callers.append(Caller(designing, stores=stores, budget=caps, prices=prices, concurrency=concurrency))
        for one in {c.model.name: c for c in callers}.values():
            one.count_past(own)
        step = stack.enter_context(_bar())
        try:
            return await search_workflows(
                job.task, job.vault, strategy=job.strategy, calls=caller, designer=None if designing is None else callers[-1],
                generations=job.generations, repeats=job.repeats, seed=seed, folder=folder, shuffle=shuffle, confidence=confidence,
                baselines=job.baselines, budget=budget, progress=step,
            )  # fmt: skip
        finally:
            for one in callers:
                await one.close()


def _interruptibly(work: Callable[[], Any]) -> Found:
    """Run it so that Ctrl-C ends it in order: calls that are out are paid, so they are waited for; a second Ctrl-C does not wait."""
    on_main = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGINT, signal.default_int_handler) if on_main else None
    try:
        found: Found = asyncio.run(work())
        return found
    except KeyboardInterrupt:
        complain("stopped; the same command goes on from here")
        raise
    finally:
        if on_main:
            signal.signal(signal.SIGINT, previous)


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on stderr if that is a terminal."""
    if settings.quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("searching", total=None)
        yield lambda what, done, total: bar.update(task, description=what[:60], completed=done, total=total)


def _report(found: Found, output: Output, *, folder: Path, seed: int) -> None:
    from noracle.search.report import search_page

    write_json(folder / "winner.json", found.winner.to_dict())
    if output.html is not None:
        with working("drawing the report"), replacing(output.html) as temporary:
            temporary.write_text(search_page(found, title=output.title, command=settings.command, seed=seed), encoding="utf-8")
    after = [f"folder {folder}", f"winner {folder / 'winner.json'}", *([f"report {output.html}"] if output.html is not None else [])]
    dataclasses.replace(output, html=None).emit([found], single=True, seed=seed, after=after)
