"""``noracle ask``: a model answers items, or grades the answers of others."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from noracle.cli import _options as opt
from noracle.cli._models import (
    CAPS,
    KEEP,
    WHAT,
    ModelOptions,
    announce,
    call_bar,
    interruptibly,
    show_exchanges,
)
from noracle.cli._options import Output, flags, panel, with_options
from noracle.cli._output import check_format, check_target, complain, write_table
from noracle.errors import require

if TYPE_CHECKING:
    from noracle.search.ask import Asked, Claim, RunFolder
    from noracle.search.budget import Budget, CallPrices, Ledger
    from noracle.search.model import Model
    from noracle.search.task import PosedQuestion, Task
    from noracle.search.workflow import Workflow


EXAMPLE = opt.paragraphs("""Example:
noracle ask --items items.csv --model script:model.json --yes --out answers.csv
noracle ask --judge --answers answers.csv --items items.csv --model script:judge.json --yes --out ratings.csv
noracle ask --items items.csv --model my-model --base-url http://127.0.0.1:8080/v1 --max-calls 500 --out answers.csv
noracle ask --items test.parquet --preset mmlu-pro --model gpt-4.1-nano --workflow cot --prices prices.json --max-cost 2 --limit 300
Exit code 3: a cap stopped it, or every call failed. What is done is kept, and the same command goes on. Keys come from NORACLE_API_KEY
 or OPENAI_API_KEY.""")

SCHEMA = "ask/1"
_grading = panel("Grading answers")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _AskOptions:
    workflow: str | None = WHAT(
        "Name, JSON file, or text file with a prompt; default direct, with --judge judge.", "W"
    )
    seed: int = opt.seed()
    system: str | None = WHAT(
        "Name of the system in the answers; default model and workflow.", "NAME"
    )
    judge: bool = _grading("Grade the answers of --answers: yes, no or uncertain.", default=False)
    answers: opt.File = _grading("With --judge: item, system, answer of other systems.")
    scores: opt.File = _grading("With --judge: also write item, rater, value alone.")
    repeats: int = _grading("With --judge: grade so often; values are means.", default=1, min=1)
    max_calls: opt.Count = CAPS("At most this many calls in this run.")
    purge_cache: bool = KEEP(
        "First empty that cache, of --model where it is given; alone: nothing else.", default=False
    )
    out: opt.File = KEEP("CSV, JSONL or Parquet; default answers.csv, or ratings.csv.")
    save_items: opt.File = KEEP("Also write item, n_classes, stratum, text, options.")
    run: str | None = KEEP(
        "Progress so far, from which a stopped run resumes; default beside --out.", "FOLDER"
    )
    show: str | None = KEEP("Print what was asked and said about one item of --run.", "ITEM")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is asked, read and checked before any call."""

    by: ModelOptions
    own: _AskOptions
    task: Task
    workflow: Workflow
    questions: Sequence[PosedQuestion]
    claims: Sequence[Claim] | None

    @classmethod
    def prepare(cls, by: ModelOptions, own: _AskOptions) -> Job:
        """Read items, answers and workflow."""
        from noracle.search.ask import read_claims, task_questions
        from noracle.search.task import read_task
        from noracle.search.workflow import load_workflow

        workflow = load_workflow(own.workflow or _plain(own))
        judged = own.answers is not None
        task = read_task(str(by.items), preset=by.preset, limit=None if judged else by.limit)
        claims = None
        if judged:
            order = own.seed if by.shuffle else None
            claims = read_claims(own.answers, task, seed=order, limit=by.limit)
            questions = [c.question for c in claims if c.question is not None]
        else:
            questions = list(task_questions(task, seed=own.seed, shuffle=by.shuffle))
        return cls(by=by, own=own, task=task, workflow=workflow, questions=questions, claims=claims)

    @property
    def settings(self) -> dict[str, Any]:
        """What makes a run this run; the number of items may grow."""
        return {
            "kind": "ask" if self.claims is None else "judge",
            "workflow": self.workflow.name,
            "workflow_digest": self.workflow.digest,
            "seed": self.own.seed,
            "shuffle": self.by.shuffle,
            **({"reply_tokens": room} if (room := self.by.reply_tokens) else {}),
        }

    def project(
        self, folder: RunFolder, budget: Budget, prices: CallPrices | None, model: Model
    ) -> None:
        """Say on stderr what is to come; ask on a terminal."""
        from noracle.search.ask import done_before, expected_usage

        done = done_before(self.questions, self.own.repeats, folder)
        left = len(self.questions) * self.own.repeats - len(done)
        usage = expected_usage(self.questions, self.workflow, reply_tokens=self.by.reply_tokens)
        about: Any = {"calls_per_item": self.workflow.most_calls, "tokens_per_call": usage}
        projection = budget.project(left, prices=prices, model=model.name, **about)
        before = f" ({len(done):,} done before)" if done else ""
        what = "items" if self.claims is None else "answers"
        line = f"{left:,} {what} to {self.workflow.name}{before}: {projection}"
        announce(line, ask_first=left > 0 and self.by.asks_first(prices, model))

    async def work(
        self, folder: RunFolder, model: Model, budget: Budget, prices: CallPrices | None
    ) -> tuple[Asked, Ledger]:
        """Ask everything that is not done yet; returns what came out and what it took."""
        from noracle.search.ask import ask_questions

        with contextlib.ExitStack() as stack:
            [caller] = self.by.callers(stack, folder.calls, budget, prices, model)
            step = stack.enter_context(call_bar())
            try:
                asked = await ask_questions(
                    self.questions,
                    self.workflow,
                    caller,
                    seed=self.own.seed,
                    repeats=self.own.repeats,
                    concurrency=self.by.concurrency,
                    run=folder,
                    progress=None if step is None else functools.partial(step, self.workflow.name),
                )
            finally:
                await caller.close()
            return asked, caller.ledger


def _plain(own: _AskOptions) -> str:
    """The workflow that does no more than ask."""
    return "judge" if own.judge else "direct"


@with_options(
    workflow="preset",
    shuffle="workflow",
    limit="shuffle",
    judge="key_env",
    max_calls="concurrency",
    yes="run",
)
def command(by: ModelOptions, own: _AskOptions, output: opt.JsonOutput) -> None:
    """Put items to a model and write the answers table, or have it grade the answers of others.

    Options are shuffled and the order is written down; an answer is a class, the place of the
    option in the file, from 0. An item without a readable answer has none, and a state that says
    why: invalid, refused or errored. What it may cost is said before the first call. A run that was
    stopped or killed goes on with the same command and pays for no call twice.
    """
    from noracle.search.ask import RunFolder
    from noracle.search.task import items_table

    if own.purge_cache:
        _purge(by)
        if by.items is None:
            return
    if own.show is not None:
        default = own.out or ("ratings.csv" if own.judge else "answers.csv")
        place = Path(own.run or _run_of(default))
        show_exchanges(place, lambda about: str(about.get("item")) == own.show)
        return
    missing = flags({"items": by.items is None, "model": by.model is None})
    require(not missing, f"{' and '.join(missing)} must be given; got none.")
    rule = "--judge must come with --answers, the table of answers to grade; got none."
    require(own.answers is not None or not own.judge, rule)
    stray = flags({"answers": own.answers, "scores": own.scores, "repeats": own.repeats > 1})
    rule = "must go with --judge; got no --judge."
    require(own.judge or not stray, f"{', '.join(stray)} {rule}")
    target = _target(own)
    for option, path in (("scores", own.scores), ("save-items", own.save_items)):
        check_target(option, path)
        check_format(option, path)
    job = Job.prepare(by, own)
    if own.save_items is not None:
        write_table(own.save_items, items_table(job.task))
    opened = by.open()
    plain = job.workflow.name == _plain(own)
    name = own.system or (opened.name if plain else f"{opened.name}:{job.workflow.name}")
    budget, prices = by.caps(own.max_calls)
    about = {"model": opened.name, "system": name, **job.settings}
    with RunFolder(own.run or _run_of(target), about) as folder:
        job.project(folder, budget, prices, opened)
        asked, ledger = interruptibly(job.work(folder, opened, budget, prices))
        _write(job, asked, name, target)
    _report(job, asked, ledger, about, target, folder.folder, output)
    errored = asked.states["errored"]
    if errored and ledger.failure:
        why = f"the last because: {ledger.failure}"
        complain(f"{errored:,} errored, {why} The same command tries them again.")
    if asked.stopped:
        complain(f"stopped: {asked.stopped}")
    if asked.stopped or (errored and errored == len(asked.lines)):
        raise typer.Exit(3)


def _run_of(target: str) -> str:
    return f"{Path(target).with_suffix('')}.run"


def _target(own: _AskOptions) -> str:
    """Where the table goes. Without --out nothing that was there before this run is overwritten."""
    check_target("out", own.out)
    check_format("out", own.out)
    default = "ratings.csv" if own.judge else "answers.csv"
    mine = Path(own.run or _run_of(default)).exists()
    rule = f"--out must be given where {default} exists already and is not of this run; got none."
    require(own.out is not None or mine or not Path(default).exists(), rule)
    return own.out or default


def _purge(by: ModelOptions) -> None:
    from noracle.search.caller import Cache

    name = None if by.model is None else by.open().name
    with Cache.open() as cache:
        n = cache.purge(model=name)
    complain(f"cache: {n:,} replies{'' if name is None else f' of {name}'} forgotten")


def _write(job: Job, asked: Asked, name: str, target: str) -> None:
    from noracle.search.ask import answers_table, ratings_table, scores_table

    if job.claims is None:
        write_table(target, answers_table(asked, name))
        return
    write_table(target, ratings_table(job.claims, asked, name))
    if job.own.scores is not None:
        write_table(job.own.scores, scores_table(job.claims, asked, name))


def _report(
    job: Job,
    asked: Asked,
    ledger: Ledger,
    about: Mapping[str, Any],
    target: str,
    folder: Path,
    output: Output,
) -> None:
    labels, scores = _labels(job, asked), job.own.scores
    found = {
        "schema": SCHEMA,
        "kind": about["kind"],
        "task": job.task.name,
        **{name: about[name] for name in ("model", "system", "workflow", "seed")},
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
    states = ", ".join(f"{n:,} {state}" for state, n in asked.states.items())
    verdicts = ", ".join(f"{n:,} {label}" for label, n in (labels or {}).items())
    lines = (
        f"{about['system']}: {len(asked.lines):,} of {asked.total:,} asked; {states}",
        verdicts,
        str(ledger),
        f"{'answers' if job.claims is None else 'ratings'} {target}",
        "" if scores is None else f"scores {scores}",
        f"run {folder}",
    )
    output.tell(found, filter(None, lines), bold=True)


def _labels(job: Job, asked: Asked) -> Mapping[str, int] | None:
    """How often each verdict came, and how many answers there were none to grade."""
    if job.claims is None:
        return None
    from noracle.search.ask import VERDICTS, verdicts

    found = [v for _, v in verdicts(job.claims, asked)]
    count = {k: sum(v.label == k and v.state == "answered" for v in found) for k in VERDICTS}
    return {**count, "without an answer": sum(v.state == "unanswered" for v in found)}
