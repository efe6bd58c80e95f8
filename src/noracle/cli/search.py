"""``noracle search``: find a better workflow with weak labels, or the best of systems that exist."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from noracle.accuracy import race_systems
from noracle.cli import _options as opt
from noracle.cli._models import (
    CAPS,
    KEEP,
    MODEL,
    ModelOptions,
    announce,
    call_bar,
    interruptibly,
    show_exchanges,
)
from noracle.cli._options import Output, Sources, flags, only, panel, with_options
from noracle.cli._output import check_target, complain, settings, working, write_json
from noracle.errors import ArgumentError, require
from noracle.evidence import Evidence
from noracle.files import replacing
from noracle.results import Comparison
from noracle.search.model import BudgetReached

if TYPE_CHECKING:
    from noracle.search.archive import Found
    from noracle.search.budget import Budget, CallPrices
    from noracle.search.candidates import Strategy
    from noracle.search.model import Model
    from noracle.search.task import Task
    from noracle.search.vault import Vault
    from noracle.search.workflow import Workflow

_UNDECIDED = 3


def race_answers(given: Sources, own: _SearchOptions, output: Output) -> None:
    """Drop systems that are certainly not the best; with true labels only those labels are looked
    at that can change the outcome.
    """
    about: dict[str, Any] = {"systems": given.chosen, "confidence": own.confidence}
    spent: list[str] = []
    with working("racing"):
        evidence = dataclasses.replace(given, systems=None).load()
        truth = _truths(evidence)
        if truth is not None:
            about |= {"budget": own.budget, "seed": own.seed}
            result, line = _race_truths(evidence, truth, about)
            spent.append(line)
        else:
            rule = "--budget must go with labels that say what an item is (yes)"
            require(own.budget is None, f"{rule}; got others, which are all read. Leave it out.")
            result = race_systems(evidence, **about)
    decided = len(result.leaders) == 1
    after = spent if decided else [*spent, f"not separable: {', '.join(result.leaders)}"]
    title = "The best of systems that exist"
    output.emit(title, [result], single=True, seed=own.seed, after=after)
    if not decided:
        raise typer.Exit(_UNDECIDED)


def _truths(evidence: Evidence) -> dict[int | str, int | str] | None:
    """The class of every labelled item, where all of them have one; None where some are only ruled
    out or were aimed at.
    """
    if evidence.judgements is None or "propensity" in evidence.judgements.columns:
        return None
    evidence.check()
    yes: dict[int | str, int | str] = {}
    no: set[int | str] = set()
    for item, k, verdict in evidence.rows("judgements", "item", "class", "verdict"):
        if verdict == "yes":
            yes[item] = k
        elif verdict == "no":
            no.add(item)
    return yes if yes and no <= yes.keys() else None


def _race_truths(
    evidence: Evidence, truth: dict[int | str, int | str], about: dict[str, Any]
) -> tuple[Comparison, str]:
    from noracle.search.pool import race_pool

    def labelled(table: Literal["answers", "items"], *columns: str) -> dict[str, list[Any]]:
        rows = [row for row in evidence.rows(table, *columns) if row[0] in truth]
        return {name: [row[i] for row in rows] for i, name in enumerate(columns)}

    items = labelled("items", "item", "n_classes") if evidence.has_own_n_classes else None
    pool = Evidence.from_tables(
        labelled("answers", "item", "system", "answer"),
        None,
        items,
        n_classes=None if items else evidence.n_classes,
        classes=evidence.classes,
    )
    picked = race_pool(pool, lambda item, k: truth[item] == k, **about)
    spent = f"{len(picked.asked):,} labels looked at of {len(truth):,}; {picked.passed_over:,} items passed over, where all in the race agreed"  # noqa: E501
    return picked.comparison, spent


# ----------------------------------------------------------------------------


EXAMPLE = opt.paragraphs("""Example:
noracle search --answers answers.csv --judgements judgements.csv --strategy halving
noracle search --items items.csv --judgements judgements.csv --model script:model.json --budget 500 --yes
noracle search --items items.csv --judgements judgements.csv --model my-model --base-url http://127.0.0.1:8080/v1 --budget 5000
noracle search --items test.parquet --preset mmlu-pro --judgements no.csv --model small --designer large --strategy adas --budget 20000
Exit code 3: the labels cannot tell whether the winner is better, or a cap stopped it. Stopped, it goes on with the same command.""")

StrategyChoice = Literal["adas", "aflow", "mutate", "surrogate", "halving"]
_FIRST: Mapping[str, Sequence[str]] = {"aflow": ("direct",), "halving": ("cot",)}
_ROUNDS = {"adas": 30, "aflow": 20, "mutate": 30, "surrogate": 30, "halving": 200}
_NEED_DESIGNER = ("adas", "aflow")
_NO_SERVER = ("inspect", "script", "replay")


_search = panel("Search")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _SearchOptions:
    strategy: StrategyChoice = _search(
        "adas and aflow have a designer model; mutate, surrogate and halving need none.",
        default="mutate",
    )
    budget: int | None = CAPS("Most calls of the whole search, designer included.", "CALLS", min=1)
    designer: str | None = MODEL("The model that writes workflows; default --model.", "M")
    designer_url: str | None = MODEL("The server of --designer; default --base-url.", "URL")
    workflow: list[str] | None = _search(
        "Name, JSON file or prompt (.txt) of one more workflow to begin with.", "W"
    )
    baseline: list[str] | None = _search(
        "Begin with these instead; the first is compared with.", "W"
    )
    generations: opt.Count = _search("Most proposals; default 30, aflow 20.", min=0)
    repeats: int | None = _search("Answers to each item; default 1, aflow 3.", "R", min=1)
    shares: str = _search(
        "Shares of labelled items: validation, confirm, final.", "V,C,F", "0.5,0.2,0.3"
    )
    confidence: float = opt.confidence()
    seed: int = opt.seed()
    out: str = KEEP(
        "Journal, archive and calls; a search that is there goes on.", "FOLDER", "noracle-search"
    )
    show: tuple[str, str] | None = KEEP(
        "Print what candidate STEP was asked and said about an item, or by its designer.",
        "STEP ITEM|designer",
    )


@with_options(
    strategy="model",
    judgements="items",
    answers="judgements",
    budget="concurrency",
    designer="model",
    designer_url="base_url",
    out="no_cache",
)
def command(
    by: ModelOptions,
    given: Annotated[Sources, only("answers", "judgements", "systems", "n_classes", "classes")],
    own: _SearchOptions,
    output: Output,
) -> None:
    """Search for a workflow that answers better, with labels that may only say what is wrong.

    Labelled items are split: validation labels score candidates, confirm labels decide whether one
    is better, final labels estimate the winner and are opened once. The model that answers sees no
    label. A designer (adas, aflow) sees how workflows stand, and the texts of a few validation items
    with an answer that an expert excluded. With --answers and no model: the best of systems that exist.
    """
    if own.show is not None:
        _show(Path(own.out), *own.show)
        return
    if given.answers is not None:
        alone = by.model is None and own.designer is None
        rule = "--answers must come without --model and --designer; got both. Leave one out."
        require(alone, rule)
        rule = f"--answers must come with --strategy halving; got {own.strategy!r}."
        why = "There is nothing to propose among systems that exist."
        require(own.strategy == "halving", f"{rule} {why}")
        race_answers(dataclasses.replace(given, items=by.items), own, output)
        return
    needed = {"items": by.items, "judgements": given.judgements, "model": by.model}
    missing = flags(
        {name: value is None for name, value in (needed | {"budget": own.budget}).items()}
    )
    remedy = "Without a model pass --answers and --strategy halving."
    require(not missing, f"{', '.join(missing)} must be given; got none. {remedy}")
    folder = Path(own.out)
    check_target("out", str(folder / "journal.jsonl") if folder.exists() else own.out)
    job = _prepare(by, given, own)
    caps, prices = by.caps(own.budget)
    opened = _open_models(by, own)
    _announce(job, caps, prices, [model for model in opened if model is not None])
    try:
        found = interruptibly(_work(job, opened, folder, caps, prices))
    except BudgetReached as reached:
        # Before the first baseline was done, so there is nothing to report.
        complain(f"stopped: {reached}")
        raise typer.Exit(_UNDECIDED) from None
    _report(found, output, folder=folder, seed=own.seed)
    if not found.decided:
        if found.held_out is None:
            complain(f"stopped: {found.stopped}")
        raise typer.Exit(_UNDECIDED)


def _show(folder: Path, step: str, item: str) -> None:
    from noracle.search.view import digests

    digest = digests(folder).get(step)
    require(digest, f"--show must name the number of a candidate; got {step!r}.")

    def wanted(about: Mapping[str, Any]) -> bool:
        if item == "designer":
            return str(about.get("designer")) == step
        return about.get("workflow") == digest and str(about.get("item")) == item

    show_exchanges(folder, wanted)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What is searched, read and checked before any call."""

    by: ModelOptions
    own: _SearchOptions
    task: Task
    vault: Vault
    strategy: Strategy
    baselines: Sequence[Workflow]
    generations: int
    repeats: int


def _prepare(by: ModelOptions, given: Sources, own: _SearchOptions) -> _Job:
    from noracle.search.strategies import make_strategy
    from noracle.search.task import read_task
    from noracle.search.vault import Vault
    from noracle.search.workflow import BASELINES, load_workflow

    task = read_task(str(by.items), preset=by.preset, limit=by.limit)
    shares = _shares(own.shares)
    vault = Vault.open(given.judgements, task.items, seed=own.seed, shares=shares)
    halving = own.strategy == "halving"
    more = [load_workflow(w) for w in own.workflow or ()]
    first = [load_workflow(w) for w in (own.baseline or _FIRST.get(own.strategy, BASELINES))]
    pool = [*(load_workflow(w) for w in BASELINES), *more] if halving else []
    rounds = own.generations if own.generations is not None else _ROUNDS[own.strategy]
    about: Any = {"rounds": max(1, rounds), "most_calls": 20, "seed": own.seed}
    made = make_strategy(own.strategy, task=task, workflows=pool, **about)
    again = own.repeats if own.repeats is not None else int(getattr(made, "repeats", 1))
    unique = {w.digest: w for w in (first if halving else [*first, *more])}
    return _Job(
        by=by,
        own=own,
        task=task,
        vault=vault,
        strategy=made,
        baselines=tuple(unique.values()),
        generations=rounds,
        repeats=again,
    )


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        rule = "--shares must be three numbers separated by commas"
        raise ArgumentError(f"{rule}; got {text!r}.") from None


def _open_models(by: ModelOptions, own: _SearchOptions) -> tuple[Model, Model | None]:
    """The model that answers and the one that designs; one and the same unless another is named."""
    from noracle.search.backends import kind_of, open_model

    answering = by.open()
    if own.strategy not in _NEED_DESIGNER:
        got = f"got {own.strategy!r}, which needs none. Leave it out."
        require(own.designer is None, f"--designer must go with --strategy adas or aflow; {got}")
        return answering, None
    if own.designer is None:
        return answering, answering
    alike = kind_of(own.designer) == kind_of(by.model or "")
    url = own.designer_url or (by.base_url if alike else None)
    key = by.key_env if alike and kind_of(own.designer) not in _NO_SERVER else None
    return answering, open_model(own.designer, base_url=url, key_env=key)


def _announce(job: _Job, caps: Budget, prices: CallPrices | None, models: Sequence[Model]) -> None:
    """Say on stderr what is to come; ask on a terminal."""
    from noracle.search.ask import expected_usage
    from noracle.search.task import pose

    sizes = {part: len(job.vault.items(part)) for part in ("validation", "confirm", "final")}
    shown, room = [pose(item) for item in job.task.items[:200]], job.by.reply_tokens
    usage = expected_usage(shown, job.baselines[0], reply_tokens=room)
    about: Any = {"calls_per_item": 1, "tokens_per_call": usage, "prices": prices}
    projection = caps.project(job.own.budget or 0, model=models[0].name, **about)
    first = sum(w.most_calls for w in job.baselines) * sizes["validation"] * job.repeats
    parts = ", ".join(f"{n:,} {part}" for part, n in sizes.items())
    line = f"{job.strategy.name} on {sum(sizes.values()):,} labelled items ({parts}); baselines take up to {first:,} calls; {projection}"
    announce(line, ask_first=job.by.asks_first(prices, *models))


async def _work(
    job: _Job,
    opened: tuple[Model, Model | None],
    folder: Path,
    caps: Budget,
    prices: CallPrices | None,
) -> Found:
    from noracle.search.engine import search_workflows
    from noracle.search.journal import CALLS

    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        answering, designing = opened
        apart = designing is not None and designing is not answering
        wanted = [answering, designing] if apart else [answering]
        callers = job.by.callers(stack, folder / CALLS, caps, prices, *wanted)
        step = stack.enter_context(call_bar())
        try:
            return await search_workflows(
                job.task,
                job.vault,
                strategy=job.strategy,
                calls=callers[0],
                designer=None if designing is None else callers[-1],
                generations=job.generations,
                repeats=job.repeats,
                seed=job.own.seed,
                folder=folder,
                shuffle=job.by.shuffle,
                confidence=job.own.confidence,
                baselines=job.baselines,
                budget=job.own.budget,
                progress=step,
            )
        finally:
            for one in callers:
                await one.close()


def _report(found: Found, output: Output, *, folder: Path, seed: int) -> None:
    from noracle.search.report import search_page

    title = "A workflow found with weak labels"
    write_json(folder / "winner.json", found.winner.to_dict())
    after = [f"folder {folder}", f"winner {folder / 'winner.json'}"]
    if output.html is not None:
        with working("drawing the report"), replacing(output.html) as temporary:
            page = search_page(found, title=title, command=settings.command, seed=seed)
            temporary.write_text(page, encoding="utf-8")
        after.append(f"report {output.html}")
    unpaged = dataclasses.replace(output, html=None)
    unpaged.emit(title, [found], single=True, seed=seed, after=after)
