"""``noracle ask``: a model answers items, or grades the answers of others."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noracle.cli import _models as models
from noracle.cli import _options as opt
from noracle.cli._models import CAPS, KEEP, WHAT, announce, bar, option
from noracle.cli._output import check_format, check_target, complain, say, say_json, write_table
from noracle.errors import ArgumentError

if TYPE_CHECKING:
    from noracle.search.ask import Asked, Claim, RunFolder
    from noracle.search.budget import Budget, Ledger, Prices
    from noracle.search.model import Model
    from noracle.search.task import Question, Task
    from noracle.search.workflow import Workflow


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The options that say what is asked."""

    items: str
    preset: str | None
    workflow: str
    shuffle: bool
    seed: int
    limit: int | None
    answers: str | None
    repeats: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is asked, read and checked before any call."""

    wish: Wish
    task: Task
    workflow: Workflow
    questions: Sequence[Question]
    claims: Sequence[Claim] | None

    @classmethod
    def prepare(cls, wish: Wish) -> Job:
        """Read items, answers and workflow."""
        from noracle.search.ask import read_claims, task_questions
        from noracle.search.task import read_task
        from noracle.search.workflow import load_workflow

        judged = wish.answers is not None
        workflow = load_workflow(wish.workflow)
        task = read_task(wish.items, preset=wish.preset, limit=None if judged else wish.limit)
        if not judged:
            return cls(
                wish=wish,
                task=task,
                workflow=workflow,
                questions=task_questions(task, seed=wish.seed, shuffle=wish.shuffle),
                claims=None,
            )
        claims = read_claims(
            wish.answers, task, seed=wish.seed if wish.shuffle else None, limit=wish.limit
        )
        return cls(
            wish=wish,
            task=task,
            workflow=workflow,
            questions=[c.question for c in claims if c.question is not None],
            claims=claims,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What makes a run this run; the number of items may grow."""
        return {
            "kind": "ask" if self.claims is None else "judge",
            "workflow": self.workflow.name,
            "workflow_digest": self.workflow.digest,
            "seed": self.wish.seed,
            "shuffle": self.wish.shuffle,
        }


def project(
    job: Job,
    folder: RunFolder,
    budget: Budget,
    prices: Prices | None,
    model: str,
    *,
    ask_first: bool,
) -> None:
    """Say on stderr what is to come; ask on a terminal."""
    from noracle.search.ask import done_before, expected_usage

    repeats = job.wish.repeats
    done = done_before(job.questions, repeats, folder)
    left = len(job.questions) * repeats - len(done)
    projection = budget.project(
        left,
        calls_per_item=job.workflow.most_calls,
        tokens_per_call=expected_usage(job.questions, job.workflow),
        prices=prices,
        model=model,
    )
    before = f" ({len(done):,} done before)" if done else ""
    what = "items" if job.claims is None else "answers"
    announce(
        f"{left:,} {what} to {job.workflow.name}{before}: {projection}",
        ask_first=ask_first and left > 0,
    )


async def work(
    job: Job,
    folder: RunFolder,
    model: Model,
    budget: Budget,
    prices: Prices | None,
    concurrency: int,
    *,
    no_cache: bool,
) -> tuple[Asked, Ledger]:
    """Ask everything that is not done yet; returns what came out and what it took."""
    from noracle.search.ask import ask_questions
    from noracle.search.caller import Cache, Caller

    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(Cache.open(folder.calls))]
        caller_stores = stores if no_cache else [*stores, stack.enter_context(Cache.open())]
        caller = Caller(
            model, stores=caller_stores, budget=budget, prices=prices, concurrency=concurrency
        )
        caller.count_past(stores[0])
        step = stack.enter_context(bar())
        try:
            asked = await ask_questions(
                job.questions,
                job.workflow,
                caller,
                seed=job.wish.seed,
                repeats=job.wish.repeats,
                concurrency=concurrency,
                run=folder,
                progress=None if step is None else functools.partial(step, job.workflow.name),
            )
        finally:
            await caller.close()
        return asked, caller.ledger


# ----------------------------------------------------------------------------


EXAMPLE = """Example:

noracle ask --items items.csv --model my-model --base-url http://127.0.0.1:8080/v1 --max-calls 500 --out answers.csv

noracle ask --items test.parquet --preset mmlu-pro --model gpt-4.1-nano --workflow cot --prices prices.json --max-cost 2 --limit 300

noracle ask --judge --answers answers.csv --items items.csv --model my-judge --out ratings.csv

Exit code 3: a cap stopped it, or every call failed. What is done is kept, and the same command goes on. Keys come from NORACLE_API_KEY
or OPENAI_API_KEY."""

SCHEMA = "ask/1"
_JUDGE = "Grading answers"


def command(
    items: models.ItemsFile = None,
    model: models.ModelName = None,
    base_url: models.BaseUrl = None,
    key_env: models.KeyVariable = None,
    preset: models.PresetName = None,
    workflow: Annotated[
        str | None,
        option(
            "--workflow",
            metavar="W",
            text="Name or JSON file; default direct, with --judge judge.",
            panel=WHAT,
        ),
    ] = None,
    shuffle: models.Shuffle = True,
    seed: opt.Seed = 0,
    limit: models.Limit = None,
    system: Annotated[
        str | None,
        option(
            "--system",
            metavar="NAME",
            text="How the answers are signed; default model and workflow.",
            panel=WHAT,
        ),
    ] = None,
    judge: Annotated[
        bool,
        typer.Option(
            "--judge",
            help="Grade the answers of --answers: yes, no or uncertain.",
            rich_help_panel=_JUDGE,
        ),
    ] = False,
    answers: Annotated[
        str | None,
        option(
            "--answers",
            metavar="FILE",
            text="With --judge: item, system, answer of other systems.",
            panel=_JUDGE,
        ),
    ] = None,
    scores: Annotated[
        str | None,
        option(
            "--scores",
            metavar="FILE",
            text="With --judge: also write item, rater, value alone.",
            panel=_JUDGE,
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats",
            min=1,
            help="With --judge: grade so often; values are means.",
            rich_help_panel=_JUDGE,
        ),
    ] = 1,
    concurrency: models.Concurrency = 8,
    max_calls: Annotated[
        int | None, option("--max-calls", metavar="N", text="Most calls of this run.", panel=CAPS)
    ] = None,
    max_tokens: models.MaxTokens = None,
    max_cost: models.MaxCost = None,
    max_seconds: models.MaxSeconds = None,
    prices: models.PricesFile = None,
    no_cache: models.NoCache = False,
    purge_cache: Annotated[
        bool,
        typer.Option(
            "--purge-cache",
            help="First empty that cache, of --model where it is given; alone: nothing else.",
            rich_help_panel=KEEP,
        ),
    ] = False,
    out: Annotated[
        str | None,
        option(
            "--out",
            metavar="FILE",
            text="CSV, JSONL or Parquet; default answers.csv, or ratings.csv.",
            panel=KEEP,
        ),
    ] = None,
    save_items: Annotated[
        str | None,
        option(
            "--save-items",
            metavar="FILE",
            text="Also write item, n_classes, stratum, text, options.",
            panel=KEEP,
        ),
    ] = None,
    run: Annotated[
        str | None,
        option(
            "--run",
            metavar="FOLDER",
            text="What is done so far, to go on from; default beside --out.",
            panel=KEEP,
        ),
    ] = None,
    yes: models.Yes = False,
    as_json: opt.AsJson = False,
) -> None:
    """Put items to a model and write the answers table, or have it grade the answers of others.

    Options are shuffled and the order is written down; an answer is a class, the place of the
    option in the file, from 0. An item without a readable answer has none, and a state that says
    why: invalid, refused or errored. What it may cost is said before the first call. A run that was
    stopped or killed goes on with the same command and pays for no call twice.
    """
    from noracle.search.backends import open_model
    from noracle.search.task import items_table

    if purge_cache:
        _purge(model, base_url, key_env)
        if items is None:
            return
    if items is None or model is None:
        missing = " and ".join(n for n, v in (("--items", items), ("--model", model)) if v is None)
        raise ArgumentError(f"{missing} must be given; got none.")
    _fit_judge(judge, answers=answers, scores=scores, repeats=repeats)
    target = _target(out, "ratings.csv" if judge else "answers.csv", run)
    for name, path in (("scores", scores), ("save-items", save_items)):
        check_target(name, path)
        check_format(name, path)
    job = Job.prepare(
        Wish(
            items=items,
            preset=preset,
            workflow=workflow or ("judge" if judge else "direct"),
            shuffle=shuffle,
            seed=seed,
            limit=limit,
            answers=answers,
            repeats=repeats,
        )
    )
    if save_items is not None:
        write_table(save_items, items_table(job.task))
    opened = open_model(model, base_url=base_url, key_env=key_env)
    name = system or _signature(opened.name, job.workflow.name, judge=judge)
    budget, known_prices = models.read_caps(
        calls=max_calls, tokens=max_tokens, cost=max_cost, seconds=max_seconds, prices=prices
    )
    folder = _folder(run or f"{Path(target).with_suffix('')}.run", job, opened, name)
    with folder:
        project(
            job, folder, budget, known_prices, opened.name, ask_first=not yes and ":" not in model
        )
        asked, ledger = models.interruptibly(
            work(job, folder, opened, budget, known_prices, concurrency, no_cache=no_cache)
        )
        _write(job, asked, name, target, scores)
    _report(
        job,
        asked,
        ledger,
        name=name,
        model=opened.name,
        target=target,
        scores=scores,
        folder=folder.path,
        as_json=as_json,
    )
    errored = asked.states["errored"]
    if errored and ledger.failure:
        complain(
            f"{errored:,} errored, the last because: {ledger.failure} The same command tries them again."
        )
    if asked.stopped:
        complain(f"stopped: {asked.stopped}")
    if asked.stopped or (errored and errored == len(asked.lines)):
        raise typer.Exit(3)


def _fit_judge(judge: bool, *, answers: str | None, scores: str | None, repeats: int) -> None:
    if judge and answers is None:
        raise ArgumentError(
            "--judge must come with --answers, the table of answers to grade; got none."
        )
    stray = [
        n
        for n, v in (("--answers", answers), ("--scores", scores), ("--repeats", repeats > 1))
        if v
    ]
    if stray and not judge:
        raise ArgumentError(f"{', '.join(stray)} must go with --judge; got no --judge.")


def _target(out: str | None, default: str, run: str | None) -> str:
    """Where the table goes. Without --out nothing that was there before this run is overwritten."""
    check_target("out", out)
    check_format("out", out)
    if (
        out is None
        and Path(default).exists()
        and not Path(run or f"{Path(default).with_suffix('')}.run").exists()
    ):
        raise ArgumentError(
            f"--out must be given where {default} exists already and is not of this run; got none."
        )
    return out or default


def _purge(model: str | None, base_url: str | None, key_env: str | None) -> None:
    from noracle.search.backends import open_model
    from noracle.search.caller import Cache

    name = None if model is None else open_model(model, base_url=base_url, key_env=key_env).name
    with Cache.open() as cache:
        n = cache.purge(model=name)
    complain(f"cache: {n:,} replies{'' if name is None else f' of {name}'} forgotten")


def _signature(model: str, workflow: str, *, judge: bool) -> str:
    return model if workflow == ("judge" if judge else "direct") else f"{model}:{workflow}"


def _folder(path: str, job: Job, model: Model, name: str) -> RunFolder:
    from noracle.search.ask import RunFolder

    return RunFolder(path, {"model": model.name, "system": name, **job.settings})


def _write(job: Job, asked: Asked, name: str, target: str, scores: str | None) -> None:
    from noracle.search.ask import answers_table, ratings_table, scores_table

    write_table(
        target,
        answers_table(asked, name)
        if job.claims is None
        else ratings_table(job.claims, asked, name),
    )
    if scores is not None and job.claims is not None:
        write_table(scores, scores_table(job.claims, asked, name))


def _report(
    job: Job,
    asked: Asked,
    ledger: Ledger,
    *,
    name: str,
    model: str,
    target: str,
    scores: str | None,
    folder: Path,
    as_json: bool,
) -> None:
    labels = _labels(job, asked)
    if as_json:
        say_json(
            {
                "schema": SCHEMA,
                "kind": job.settings["kind"],
                "task": job.task.name,
                "model": model,
                "system": name,
                "workflow": job.workflow.name,
                "seed": job.wish.seed,
                "questions": asked.total,
                "done": len(asked.lines),
                "states": dict(asked.states),
                **({"labels": labels} if labels is not None else {}),
                "ledger": ledger.to_dict(),
                "out": target,
                **({"scores": scores} if scores is not None else {}),
                "run": str(folder),
                "stopped": asked.stopped or None,
            }
        )
        return
    states = ", ".join(f"{n:,} {state}" for state, n in asked.states.items())
    say(f"{name}: {len(asked.lines):,} of {asked.total:,} asked; {states}", style="bold")
    if labels is not None:
        say(", ".join(f"{n:,} {label}" for label, n in labels.items()))
    say(str(ledger))
    say(f"{'answers' if job.claims is None else 'ratings'} {target}")
    if scores is not None:
        say(f"scores {scores}")
    say(f"run {folder}")


def _labels(job: Job, asked: Asked) -> Mapping[str, int] | None:
    """How often each verdict came, and how many answers there were none to grade."""
    if job.claims is None:
        return None
    from noracle.search.ask import VERDICTS, verdicts

    found = verdicts(job.claims, asked)
    count = {
        label: sum(v.label == label and v.state == "answered" for _, v in found)
        for label in VERDICTS
    }
    return {**count, "without an answer": sum(v.state == "unanswered" for _, v in found)}
