"""``noracle search``: find a better workflow with weak labels, or the best of systems that exist."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from noracle.accuracy import race_systems
from noracle.cli import _models as models
from noracle.cli import _options as opt
from noracle.cli._models import CAPS, KEEP, MODEL, option
from noracle.cli._options import Sources
from noracle.cli._output import (
    Output,
    check_target,
    complain,
    replacing,
    settings,
    working,
    write_json,
)
from noracle.errors import ArgumentError
from noracle.evidence import Evidence
from noracle.results import Comparison
from noracle.search.model import BudgetReached

if TYPE_CHECKING:
    from noracle.search.archive import Found
    from noracle.search.budget import Budget, Prices
    from noracle.search.candidates import Strategy
    from noracle.search.model import Model
    from noracle.search.task import Task
    from noracle.search.vault import Vault
    from noracle.search.workflow import Workflow

_UNDECIDED = 3


def race_answers(
    sources: Sources,
    output: Output,
    *,
    systems: Sequence[str] | None,
    budget: int | None,
    confidence: float,
    seed: int,
) -> None:
    """Drop systems that are certainly not the best; with true labels only those labels are looked
    at that can change the outcome.
    """
    with working("racing"):
        evidence = sources.load()
        truth = _truths(evidence)
        if truth is None:
            if budget is not None:
                raise ArgumentError(
                    "--budget must go with labels that say what an item is (yes); got others, which are all read. Leave it out."
                )
            result, spent = race_systems(evidence, systems=systems, confidence=confidence), ""
        else:
            result, spent = _race_truths(
                evidence, truth, systems=systems, budget=budget, confidence=confidence, seed=seed
            )
    decided = len(result.leaders) == 1
    after = [] if decided else [f"not separable: {', '.join(result.leaders)}"]
    output.emit([result], single=True, seed=seed, after=[*([spent] if spent else []), *after])
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
    evidence: Evidence,
    truth: dict[int | str, int | str],
    *,
    systems: Sequence[str] | None,
    budget: int | None,
    confidence: float,
    seed: int,
) -> tuple[Comparison, str]:
    from noracle.search.pool import race_pool

    rows = [row for row in evidence.rows("answers", "item", "system", "answer") if row[0] in truth]
    answers = {
        name: [row[i] for row in rows] for i, name in enumerate(("item", "system", "answer"))
    }
    items = None
    if evidence.has_own_n_classes:
        own = [row for row in evidence.rows("items", "item", "n_classes") if row[0] in truth]
        items = {name: [row[i] for row in own] for i, name in enumerate(("item", "n_classes"))}
    labelled = Evidence.from_tables(
        answers,
        None,
        items,
        n_classes=None if items else evidence.n_classes,
        classes=evidence.classes,
    )
    picked = race_pool(
        labelled,
        lambda item, k: truth[item] == k,
        systems=systems,
        budget=budget,
        confidence=confidence,
        seed=seed,
    )
    spent = f"{len(picked.asked):,} labels looked at of {len(truth):,}; {picked.passed_over:,} items passed over, where all in the race agreed"  # noqa: E501
    return picked.comparison, spent


# ----------------------------------------------------------------------------


EXAMPLE = """Example:

noracle search --items items.csv --judgements judgements.csv --model my-model --base-url http://127.0.0.1:8080/v1 --budget 5000

noracle search --items test.parquet --preset mmlu-pro --judgements no.csv --model small --designer large --strategy adas --budget 20000

noracle search --answers answers.csv --judgements judgements.csv --strategy halving

Exit code 3: the labels cannot tell whether the winner is better, or a cap stopped it. Stopped, it goes on with the same command."""

StrategyChoice = Literal["adas", "aflow", "mutate", "halving"]
_HOW = "Search"
_GOES_ON = "The same command with a larger cap goes on."
_FIRST = {"aflow": ("direct",), "halving": ("cot",)}
_ROUNDS = {"adas": 30, "aflow": 20, "mutate": 30, "halving": 200}
_NEED_DESIGNER = ("adas", "aflow")


def command(
    items: models.ItemsFile = None,
    judgements: opt.JudgementsFile = None,
    model: models.ModelName = None,
    strategy: Annotated[
        StrategyChoice,
        typer.Option(
            "--strategy",
            help="adas and aflow have a designer model; mutate and halving need none.",
            rich_help_panel=_HOW,
        ),
    ] = "mutate",
    budget: Annotated[
        int | None,
        option(
            "--budget",
            metavar="CALLS",
            text="Most calls of the whole search, designer included.",
            panel=CAPS,
            minimum=1,
        ),
    ] = None,
    designer: Annotated[
        str | None,
        option(
            "--designer",
            metavar="M",
            text="The model that writes workflows; default --model.",
            panel=MODEL,
        ),
    ] = None,
    base_url: models.BaseUrl = None,
    designer_url: Annotated[
        str | None,
        option(
            "--designer-url",
            metavar="URL",
            text="The server of --designer; default --base-url.",
            panel=MODEL,
        ),
    ] = None,
    key_env: models.KeyVariable = None,
    preset: models.PresetName = None,
    limit: models.Limit = None,
    workflow: Annotated[
        list[str] | None,
        option(
            "--workflow",
            metavar="W",
            text="Name or JSON file of one more workflow to begin with.",
            panel=_HOW,
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        option(
            "--baseline",
            metavar="W",
            text="Begin with these instead; the first is compared with.",
            panel=_HOW,
        ),
    ] = None,
    generations: Annotated[
        int | None,
        option(
            "--generations",
            metavar="N",
            text="Most proposals; default 30, aflow 20.",
            panel=_HOW,
            minimum=0,
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        option(
            "--repeats",
            metavar="R",
            text="Answers to each item; default 1, aflow 3.",
            panel=_HOW,
            minimum=1,
        ),
    ] = None,
    shares: Annotated[
        str,
        option(
            "--shares",
            metavar="V,C,F",
            text="Shares of labelled items: validation, confirm, final.",
            panel=_HOW,
        ),
    ] = "0.5,0.2,0.3",
    shuffle: models.Shuffle = True,
    confidence: opt.Confidence = 0.95,
    seed: opt.Seed = 0,
    concurrency: models.Concurrency = 8,
    max_tokens: models.MaxTokens = None,
    max_cost: models.MaxCost = None,
    max_seconds: models.MaxSeconds = None,
    prices: models.PricesFile = None,
    no_cache: models.NoCache = False,
    out: Annotated[
        str,
        option(
            "--out",
            metavar="FOLDER",
            text="Journal, archive and calls; a search that is there goes on.",
            panel=KEEP,
        ),
    ] = "noracle-search",
    yes: models.Yes = False,
    answers: opt.AnswersFile = None,
    systems: opt.SystemNames = None,
    n_classes: opt.NClasses = None,
    classes: opt.Classes = None,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Search a workflow that answers better, with labels that may only say what is wrong.

    Labelled items are split: validation labels score candidates, confirm labels decide whether one
    is better, final labels estimate the winner and are opened once. No model and no strategy sees a
    label. With --answers and no model: the best of systems that exist.
    """
    output = Output(title="A workflow found with weak labels", as_json=as_json, html=html)
    if answers is not None:
        _fit_pool(model=model, designer=designer, strategy=strategy)

        sources = Sources(
            answers=answers,
            judgements=judgements,
            items=items,
            n_classes=n_classes,
            classes=classes,
        )
        pool = dataclasses.replace(output, title="The best of systems that exist")
        race_answers(
            sources,
            pool,
            systems=opt.names(systems),
            budget=budget,
            confidence=confidence,
            seed=seed,
        )
        return
    wanted = {"--items": items, "--judgements": judgements, "--model": model, "--budget": budget}
    missing = [name for name, value in wanted.items() if value is None]
    if missing or items is None or judgements is None or model is None or budget is None:
        raise ArgumentError(
            f"{', '.join(missing)} must be given; got none. Without a model pass --answers and --strategy halving."
        )
    check_target("out", str(Path(out) / "journal.jsonl") if Path(out).exists() else out)
    job = _prepare(
        items=items,
        judgements=judgements,
        preset=preset,
        limit=limit,
        strategy=strategy,
        workflow=workflow or (),
        baseline=baseline or (),
        generations=generations,
        repeats=repeats,
        shares=shares,
        seed=seed,
    )
    caps, known_prices = models.read_caps(
        calls=budget, tokens=max_tokens, cost=max_cost, seconds=max_seconds, prices=prices
    )
    opened = _open_models(model, designer, strategy, base_url, designer_url, key_env)
    _announce(
        job, budget, caps, known_prices, opened[0].name, ask_first=not yes and ":" not in model
    )
    try:
        found = models.interruptibly(
            _work(
                job,
                opened,
                folder=Path(out),
                budget=budget,
                caps=caps,
                prices=known_prices,
                concurrency=concurrency,
                no_cache=no_cache,
                seed=seed,
                shuffle=shuffle,
                confidence=confidence,
            )
        )
    except (
        BudgetReached
    ) as reached:  # before the first baseline was done, so there is nothing to report
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
    *,
    items: str,
    judgements: str,
    preset: str | None,
    limit: int | None,
    strategy: StrategyChoice,
    workflow: Sequence[str],
    baseline: Sequence[str],
    generations: int | None,
    repeats: int | None,
    shares: str,
    seed: int,
) -> _Job:
    from noracle.search.strategies import make_strategy
    from noracle.search.task import read_task
    from noracle.search.vault import Vault
    from noracle.search.workflow import BASELINES, load_workflow

    task = read_task(items, preset=preset, limit=limit)
    vault = Vault.open(judgements, task.items, seed=seed, shares=_shares(shares))
    more = [load_workflow(w) for w in workflow]
    first = [load_workflow(w) for w in (baseline or _FIRST.get(strategy, BASELINES))]
    pool = [*(load_workflow(w) for w in BASELINES), *more] if strategy == "halving" else []
    rounds = generations if generations is not None else _ROUNDS[strategy]
    made = make_strategy(
        strategy, task=task, workflows=pool, rounds=max(1, rounds), most_calls=20, seed=seed
    )
    again = repeats if repeats is not None else int(getattr(made, "repeats", 1))
    unique = {w.digest: w for w in (first if strategy == "halving" else [*first, *more])}
    return _Job(
        task=task,
        vault=vault,
        strategy=made,
        baselines=tuple(unique.values()),
        generations=rounds,
        repeats=again,
    )


def _fit_pool(*, model: str | None, designer: str | None, strategy: str) -> None:
    if model is not None or designer is not None:
        raise ArgumentError(
            "--answers must come without --model and --designer; got both. Leave one out."
        )
    if strategy != "halving":
        raise ArgumentError(
            f"--answers must come with --strategy halving; got {strategy!r}. There is nothing to propose among systems that exist."
        )


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentError(
            f"--shares must be three numbers separated by commas; got {text!r}."
        ) from None


def _open_models(
    model: str,
    designer: str | None,
    strategy: str,
    base_url: str | None,
    designer_url: str | None,
    key_env: str | None,
) -> tuple[Model, Model | None]:
    """The model that answers and the one that designs; one and the same unless another is named."""
    from noracle.search.backends import open_model

    answering = open_model(model, base_url=base_url, key_env=key_env)
    if strategy not in _NEED_DESIGNER:
        if designer is not None:
            raise ArgumentError(
                f"--designer must go with --strategy adas or aflow; got {strategy!r}, which needs none. Leave it out."
            )
        return answering, None
    if designer is None:
        return answering, answering
    server = not designer.startswith(("inspect:", "script:", "replay:"))
    url = (designer_url or base_url) if server else designer_url
    return answering, open_model(designer, base_url=url, key_env=key_env if server else None)


def _announce(
    job: _Job, budget: int, caps: Budget, prices: Prices | None, model: str, *, ask_first: bool
) -> None:
    """Say on stderr what is to come; ask on a terminal."""
    from noracle.search.ask import expected_usage
    from noracle.search.task import pose

    sizes = {part: len(job.vault.items(part)) for part in ("validation", "confirm", "final")}
    usage = expected_usage([pose(item) for item in job.task.items[:200]], job.baselines[0])
    projection = caps.project(
        budget, calls_per_item=1, tokens_per_call=usage, prices=prices, model=model
    )
    first = sum(w.most_calls for w in job.baselines) * sizes["validation"] * job.repeats
    parts = ", ".join(f"{n:,} {part}" for part, n in sizes.items())
    line = f"{job.strategy.name} on {sum(sizes.values()):,} labelled items ({parts}); baselines take up to {first:,} calls; {projection}"
    models.announce(line, ask_first=ask_first)


async def _work(
    job: _Job,
    opened: tuple[Model, Model | None],
    *,
    folder: Path,
    budget: int,
    caps: Budget,
    prices: Prices | None,
    concurrency: int,
    no_cache: bool,
    seed: int,
    shuffle: bool,
    confidence: float,
) -> Found:
    from noracle.search.archive import CALLS
    from noracle.search.caller import Cache, Caller
    from noracle.search.engine import search_workflows

    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(Cache.open(folder / CALLS))
        stores = [own] if no_cache else [own, stack.enter_context(Cache.open())]
        answering, designing = opened
        caller = Caller(
            answering, stores=stores, budget=caps, prices=prices, concurrency=concurrency
        )
        callers = [caller]
        if designing is not None and designing is not answering:
            callers.append(
                Caller(
                    designing, stores=stores, budget=caps, prices=prices, concurrency=concurrency
                )
            )
        for one in {c.model.name: c for c in callers}.values():
            one.count_past(own)
        step = stack.enter_context(models.bar())
        try:
            return await search_workflows(
                job.task,
                job.vault,
                strategy=job.strategy,
                calls=caller,
                designer=None if designing is None else callers[-1],
                generations=job.generations,
                repeats=job.repeats,
                seed=seed,
                folder=folder,
                shuffle=shuffle,
                confidence=confidence,
                baselines=job.baselines,
                budget=budget,
                progress=step,
            )
        finally:
            for one in callers:
                await one.close()


def _report(found: Found, output: Output, *, folder: Path, seed: int) -> None:
    from noracle.search.report import search_page

    write_json(folder / "winner.json", found.winner.to_dict())
    if output.html is not None:
        with working("drawing the report"), replacing(output.html) as temporary:
            temporary.write_text(
                search_page(found, title=output.title, command=settings.command, seed=seed),
                encoding="utf-8",
            )
    after = [
        f"folder {folder}",
        f"winner {folder / 'winner.json'}",
        *([f"report {output.html}"] if output.html is not None else []),
    ]
    dataclasses.replace(output, html=None).emit([found], single=True, seed=seed, after=after)
