"""Weak labels inside Inspect: a scorer, a metric and a solver (extra ``inspect``).

The metric calls the same estimator on the same tables as ``noracle estimate --answers LOG``. A sample
that failed never reaches a metric of Inspect; the command line counts it as wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from noracle.accuracy.estimate import Interval, Method, estimate_accuracy
from noracle.accuracy.score import score as plain_score
from noracle.counts.tally import Label as Told
from noracle.counts.tally import Verdict
from noracle.errors import ArgumentError, EvidenceError, MissingExtra, require
from noracle.evidence import Evidence, read_table
from noracle.evidence.frames import fetch
from noracle.evidence.logs import (
    FINISH,
    Logged,
    LogLabel,
    answer_of_output,
    labels_of,
    place_of_label,
    tables_of,
)
from noracle.evidence.replies import read_choice
from noracle.search.backends.inspect import chat_messages, settings
from noracle.search.interpreter import run_workflow
from noracle.search.model import Completion, ModelError, Request, Usage
from noracle.search.task import LETTERS, TaskItem, pose
from noracle.search.workflow import load_workflow

try:
    from inspect_ai.model import GenerateConfig, ModelOutput, StopReason, get_model

    # Inspect reads the annotations.
    from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
    from inspect_ai.solver import Generate, Solver, TaskState, solver
except ImportError as error:
    raise MissingExtra("noracle.search.inspect", "inspect_ai", "inspect") from error

try:
    _unreduced = metric(scores="unreduced")  # every epoch, not their mean
except TypeError:
    _OLD = "got an older one. Upgrade it: pip install -U inspect_ai"
    raise ArgumentError(f"inspect_ai must be 0.3.241 or later here; {_OLD}.") from None

_KEY = "noracle"


@_unreduced
def weak_accuracy(
    confidence: float = 0.95, method: Method | None = None, interval: Interval = "auto"
) -> Metric:
    """Accuracy from weak labels, with its interval: ``accuracy``, ``low``, ``high``, ``stderr``,
    ``labelled``, ``without_answer``.

    Epochs of a sample are averaged within it, so that they are not taken for more labels than there
    are.

    Parameters
    ----------
    confidence, method, interval
        As in :func:`noracle.estimate_accuracy`.
    """

    def compute(scores: list[SampleScore]) -> Value:
        rows = _rows(scores)
        if not rows:
            names = ("accuracy", "low", "high", "stderr", "labelled", "without_answer")
            return dict.fromkeys(names, math.nan)
        tables = tables_of(rows)
        evidence = Evidence.from_tables(tables.answers, tables.judgements, tables.items)
        found = estimate_accuracy(evidence, confidence=confidence, method=method, interval=interval)
        counts = {name: found.counts[name] for name in ("labelled", "without_answer")}
        values = {"accuracy": found.value, "low": found.low, "high": found.high, "stderr": found.se}
        return {**values, **counts}

    return compute


def _rows(scores: Sequence[SampleScore]) -> list[Logged]:
    seen: dict[Any, int] = {}
    rows = []
    for number, sample in enumerate(scores):
        told = (sample.score.metadata or {}).get(_KEY)
        if not isinstance(told, dict):
            rule = "weak_accuracy must be the metric of the scorer noracle/weak_choice"
            raise ArgumentError(f"{rule}; got scores of another.")
        item = number if sample.sample_id is None else sample.sample_id
        seen[item] = seen.get(item, 0) + 1
        labels = tuple(LogLabel(*row) for row in told["labels"])
        answer, state, k = told["answer"], told["state"], told["n_classes"]
        rows.append(Logged(item, "model", answer, state, k, seen[item], labels))
    return rows


@scorer(metrics=[weak_accuracy()])
def weak_choice(judgements: str | None = None) -> Scorer:
    """Score multiple choice by what is known of the answer: right, ruled out, not ruled out, or
    nothing.

    The value is the unbiased score of correctness where the label is one of the plain kinds (1 or 0
    for a true class; 1 or 1 - (K - 1)/m with m classes ruled out; 0 without an answer), else the
    word ``unlabelled`` or ``judged``.

    Labels are taken from the metadata of the sample (``label``, ``ruled_out``, ``judgement``), or
    from a table. The answer is what the solver marked; in a log that is scored again, where marks
    are lost, the answer of an earlier scorer, else what the completion says.

    Parameters
    ----------
    judgements
        A file with ``item`` (the sample id), ``class``, ``verdict`` and optionally ``rater``,
        ``propensity``, ``cost``; the metadata is then not looked at. Classes are letters, texts of
        options, or places from 0, in the order of the dataset.
    """
    table = None if judgements is None else _read(judgements)

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001
        placed = sorted(state.choices, key=lambda choice: choice.original_position)
        choices = [choice.value for choice in placed]
        require(choices, "weak_choice must have samples with choices; got one without.")
        if table is None:
            labels, bad = labels_of(state.metadata or {}, choices)
        else:
            labels, bad = _placed(table.get(str(state.sample_id), ()), choices)
        if bad:
            came = f"{bad} at sample {state.sample_id!r}"
            raise EvidenceError(f"labels must name an option of their sample; got {came}.")
        answer, how = _answer(state, choices)
        listed = [list(label) for label in labels]
        told = {"answer": answer, "state": how, "n_classes": len(choices), "labels": listed}
        return Score(
            value=_value(answer, len(choices), labels),
            answer="" if answer is None else _letter(answer),
            explanation=state.output.completion,
            metadata={_KEY: told},
        )

    return score


def _read(path: str) -> dict[str, list[LogLabel]]:
    frame = read_table(path, "judgements")
    more = [name for name in ("rater", "propensity", "cost") if name in frame.columns]
    found: dict[str, list[LogLabel]] = {}
    for item, kind, verdict, *values in fetch(frame.select("item", "class", "verdict", *more)):
        label = LogLabel(kind, str(verdict), **dict(zip(more, values, strict=True)))
        found.setdefault(str(item), []).append(label)
    return found


def _placed(labels: Sequence[LogLabel], choices: Sequence[str]) -> tuple[tuple[LogLabel, ...], str]:
    placed = [label._replace(kind=place_of_label(label.kind, choices)) for label in labels]
    wrong = [label.kind for label, there in zip(labels, placed, strict=True) if there.kind is None]
    return tuple(placed), f"{wrong[0]!r}" if wrong else ""


def _letter(place: int) -> str:
    return LETTERS[place] if place < len(LETTERS) else str(place - len(LETTERS) + 1)


def _answer(state: TaskState, choices: Sequence[str]) -> tuple[int | None, str]:
    """The class answered: marked by the solver, said by an earlier score, or read from text."""
    output = state.output
    refused = bool(output.choices) and output.stop_reason == "content_filter"
    marks = [choice for choice in state.choices if choice.correct is not None]
    if marks:
        chosen = [choice.original_position for choice in marks if choice.correct]
        none = None, "refused" if refused else "invalid"
        return (chosen[0], "answered") if len(chosen) == 1 else none
    for name in ("weak_choice", "choice"):
        earlier = (state.scores or {}).get(name)
        if earlier is not None and earlier.answer:
            place, found = read_choice(earlier.answer, choices)
            return place, "refused" if place is None and refused else found
    stops = [{"stop_reason": output.stop_reason}] if output.choices else []
    spoken = {"completion": output.completion, "choices": stops}
    answer, how = answer_of_output(spoken, choices)
    return cast("int | None", answer), how


def _value(answer: int | None, n_classes: int, labels: Sequence[LogLabel]) -> float | str:
    said = {label.kind: label.verdict.strip().lower() for label in labels}
    if not labels:
        return "unlabelled"
    if any(label.propensity is not None for label in labels) or "unsure" in said.values():
        return "judged"
    yes = {"yes", "true"}
    words: dict[Any, Verdict] = {k: "yes" if word in yes else "no" for k, word in said.items()}
    known = Told.of([(k, word, None) for k, word in words.items()], n_classes=n_classes)
    return "judged" if known is None else plain_score(known.meet(answer))


class _Calls:
    """The model of the running evaluation, with Inspect's own limits, retries and cache."""

    async def call(self, request: Request) -> Completion:
        """Let Inspect generate."""
        config = GenerateConfig(**settings(request))
        output = await get_model().generate(chat_messages(request), config=config)
        if not output.choices:
            raise ModelError(f"{output.model}: the reply holds no message.", transient=True)
        text, finish = output.completion, FINISH.get(str(output.stop_reason), "stop")
        finish = finish if text.strip() or finish != "stop" else "empty"
        used = output.usage
        usage = Usage() if used is None else Usage(used.input_tokens, used.output_tokens)
        return Completion(text=text, finish=finish, usage=usage)


@solver
def workflow(plan: str = "cot", seed: int = 0, shuffle: bool = False) -> Solver:
    """A workflow answers samples with choices; score it with ``noracle/weak_choice`` or Inspect's
    ``choice``.

    Parameters
    ----------
    plan
        A shipped workflow (``cot``, ``cot-sc``, ``debate``, …) or a JSON file, such as the winner
        of ``noracle search``.
    seed
        Makes the workflow's own draws reproducible.
    shuffle
        Show the options in random order, drawn from the seed and the sample id; answers are given
        back in the order of the dataset.
    """
    loaded = load_workflow(plan)

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
        options = tuple(choice.value for choice in state.choices)
        asked = state.messages
        plain = len(asked) == 1 and asked[0].role == "user" and isinstance(asked[0].content, str)
        came = "images, earlier turns or a system message"
        rule = f"sample {state.sample_id!r} must be one message of text for a workflow"
        require(plain, f"{rule}; got {came}. Leave out solvers that add some.")
        item = TaskItem(id=state.sample_id, text=state.input_text, options=options)
        question = pose(item, shuffle=seed if shuffle else None)
        outcome = await run_workflow(loaded, question, _Calls(), seed=seed, repeat=state.epoch - 1)
        for place in range(len(options)):
            state.choices.mark_choice(place, place == outcome.answer)
        said = "No answer." if outcome.answer is None else f"ANSWER: {_letter(outcome.answer)}"
        stop: StopReason = "content_filter" if outcome.state == "refused" else "stop"
        state.output = ModelOutput.from_content(str(state.model), said, stop)
        state.messages.append(state.output.message)
        return state

    return solve
