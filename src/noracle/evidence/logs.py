"""Logs of evaluation tools as tables: what the readers of foreign formats share.

    Inspect          ``.eval`` (ZIP with deflate or zstd members) and ``.json``
    lm-eval          lm-evaluation-harness: ``samples_*.jsonl``
    grade_logs.py    what these and other tools said of the answers: promptfoo, DeepEval, OpenTelemetry

Every reader gives one :class:`Logged` for each record of the log. A class is the place of an
option, from 0; where a log has no options the classes are texts. Nothing here imports the tools,
and answer keys in a log (targets) are not read.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import itertools
import json
import math
import re
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from noracle.errors import EvidenceError, fault, raise_faults, require, require_evidence
from noracle.evidence.frames import files_of, log_format
from noracle.evidence.replies import Finish, State, read_choice, read_text

Columns = dict[str, list[Any]]
METADATA = ("label", "ruled_out", "judgement")
"""Where labels are looked for in the metadata of a sample."""


class LogLabel(NamedTuple):
    """What was said of one class of an item."""

    kind: Any
    verdict: str
    rater: str | None = None
    propensity: float | None = None
    cost: float | None = None


class Logged(NamedTuple):
    """One record of a log; ``bad`` is metadata that should be a label and is not."""

    item: int | str
    system: str
    answer: int | str | None
    state: str
    n_classes: int | None = None
    repeat: int = 1
    labels: tuple[LogLabel, ...] = ()
    bad: str = ""


class Mark(NamedTuple):
    """One metric of one answer; ``whole`` is a tool's own sum over its metrics."""

    item: Any
    system: str
    metric: str | None = None
    judge: str | None = None
    value: float | None = None
    label: str | None = None
    failed: bool = False
    whole: bool = False

    @property
    def rater(self) -> str:
        """Who said it: the metric, and the model that judged."""
        return f"{self.metric} by {self.judge}" if self.judge else str(self.metric)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogTables:
    """Tables out of logs, as columns, with the visible choices that were made."""

    answers: Columns
    items: Columns | None = None
    judgements: Columns | None = None
    notes: tuple[str, ...] = ()


def read_logs(path: str | Path | Sequence[str | Path], *, labels: bool = True) -> LogTables:
    """The tables of a log, or of all logs that a glob names."""
    found, kind = files_of(path), log_format(path)
    rule = "must name a log or a glob that matches logs"
    require_evidence(found and kind, "answers", rule, repr(path), remedy="Check the path.")
    return read_inspect(found, labels=labels) if kind == "inspect" else read_lm_eval(found)


def tables_of(rows: Iterable[Logged], notes: Sequence[str] = ()) -> LogTables:
    """Records as tables: answers; items with their number of classes; labels, each once."""
    answers: Columns = {"item": [], "system": [], "answer": [], "state": [], "repeat": []}
    classes: dict[int | str, int | None] = {}
    labels: dict[tuple[Any, LogLabel], None] = {}
    bad: dict[int | str, str] = {}
    clash: dict[int | str, None] = {}
    for row in rows:
        for name, column in answers.items():
            column.append(getattr(row, name))
        if classes.setdefault(row.item, row.n_classes) != row.n_classes:
            clash[row.item] = None
        for label in row.labels:
            labels[row.item, label] = None
        if row.bad:
            bad[row.item] = row.bad
    without = [item for item, k in classes.items() if k is None]
    words = "Write a letter, a place from 0 or the text of an option, or pass judgements."
    metadata = ("metadata", "must name an option of its sample", next(iter(bad.values()), ""))
    number = ("number of options", "must be the same in all logs", "different ones")
    options = ("options", "must be there for all samples or for none", "samples without")
    broken = (
        (metadata, list(bad), words),
        (number, list(clash), "Read them apart."),
        (options, without if len(without) < len(classes) else [], "Read the tasks apart."),
    )
    raise_faults(
        [
            fault(*what, where=where[:5], total=len(where), remedy=remedy)
            for what, where, remedy in broken
            if where
        ]
    )
    require_evidence(answers["item"], "answers", "must have records", "a log without samples")
    one_type(answers["item"])
    if max(Counter(zip(answers["item"], answers["system"], strict=True)).values()) == 1:
        del answers["repeat"]
    items = list(classes)
    one_type(items)
    return LogTables(
        answers=answers,
        items=None if without else {"item": items, "n_classes": list(classes.values())},
        judgements=_judgements(labels, text=any(isinstance(i, str) for i in items)),
        notes=tuple(notes),
    )


def one_type(items: list[Any]) -> None:
    """Ids as whole numbers, or all as text where one is."""
    if any(isinstance(i, str) for i in items):
        items[:] = [str(i) for i in items]


def _judgements(labels: Iterable[tuple[Any, LogLabel]], *, text: bool) -> Columns | None:
    rows = [(str(item) if text else item, *label) for item, label in labels]
    if not rows:
        return None
    names = ("item", "class", "verdict", "rater", "propensity", "cost")
    columns: Columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    for name in ("rater", "propensity", "cost"):
        if all(v is None for v in columns[name]):
            del columns[name]
    return columns


def place_of_label(value: object, choices: Sequence[str] | None) -> int | str | None:
    """The class that a label names: the text of an option, else its letter, else its place from 0."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    if not choices:
        return str(value)
    if isinstance(value, int):
        return value if 0 <= value < len(choices) else None
    text = value.strip()
    if list(choices).count(text) == 1:
        return choices.index(text)
    from noracle.evidence.replies import place_of_letter  # its patterns take long to compile

    return place_of_letter(text, len(choices))


def labels_of(
    metadata: Mapping[str, Any], choices: Sequence[str] | None
) -> tuple[tuple[LogLabel, ...], str]:
    """The labels in the metadata of a sample, and what could not be read.

    ``label`` is the true class, ``ruled_out`` one class or a list of classes that are wrong,
    ``judgement`` an object (or a list of them) with ``class``, ``verdict`` and optionally
    ``rater``, ``propensity``, ``cost``.
    """
    asked: list[tuple[str, Any]] = []
    for key in METADATA:
        value = metadata.get(key)
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        asked += [(key, v) for v in values if v is not None]
    labels = []
    for key, value in asked:
        said = value if isinstance(value, Mapping) else {}
        if key != "judgement":
            said = {"class": value, "verdict": "yes" if key == "label" else "no"}
        place, word = place_of_label(said.get("class"), choices), said.get("verdict")
        word = ("yes" if word else "no") if isinstance(word, bool) else word
        if place is None or not isinstance(word, str):
            return (), f"something else in {key!r}"
        rater = None if said.get("rater") is None else str(said["rater"])
        labels.append(LogLabel(place, word, rater, said.get("propensity"), said.get("cost")))
    return tuple(labels), ""


Prediction = Literal["acc", "acc_norm"]
_NAME = re.compile(r"samples_(?P<task>.+)_\d{4}-\d\d-\d\dT[\d.-]+\.jsonl$")
_OPTIONS = ("choices", "options", "endings")


def read_lm_eval(paths: Sequence[Path], *, prediction: Prediction = "acc") -> LogTables:
    """The tables of these files.

    The system is the folder of the file, which lm-eval names after the model. Items are document
    numbers; with several tasks, ``task/number``. Several replies to one document (``repeats``) are
    repeats.

    Parameters
    ----------
    paths
        The files.
    prediction
        For multiple choice: ``acc`` or ``acc_norm``, which may choose different options.
    """
    known = prediction in {"acc", "acc_norm"}
    require(known, f"prediction must be 'acc' or 'acc_norm'; got {prediction!r}.")
    rows, chose = [], False
    read = functools.partial(_answers, prediction=prediction)
    for item, system, (answers, k, choice) in _samples(paths, "answers", read):
        chose = chose or choice
        for repeat, (answer, state) in enumerate(answers, start=1):
            rows.append(Logged(item, system, answer, state, k, repeat))
    return tables_of(
        rows, [f"multiple choice: the option that {prediction} chooses"] if chose else []
    )


def lm_eval_marks(paths: Sequence[Path]) -> Iterator[Mark]:
    """What the metrics of a task said of each document, as far as they are numbers."""
    for item, system, metrics in _samples(paths, "grades", _metrics):
        for name, value in metrics.items():
            yield Mark(item, system, name, value=value, failed=value is None)


def _metrics(line: Mapping[str, Any]) -> dict[str, float | None]:
    """The metrics of a line by name, as far as they are numbers; None for NaN."""
    found = {name: line.get(name) for name in line.get("metrics") or ()}
    numbers = {name: float(v) for name, v in found.items() if isinstance(v, (bool, int, float))}
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}


_Said = TypeVar("_Said")


def _samples(
    paths: Sequence[Path], table: str, read: Callable[[Mapping[str, Any]], _Said]
) -> Iterator[tuple[int | str, str, _Said]]:
    """Item, system and what ``read`` finds in each line; a line that it cannot read is named."""
    places = [(path.resolve().parent, _task(path)) for path in paths]
    tasks = {task for _, task in places}
    twice = [path for path, place in zip(paths, places, strict=True) if places.count(place) > 1]
    if twice:
        remedy = "Name one of them."
        rule = "must hold one file of each model and task"
        raise EvidenceError.of(table, rule, f"{twice[0].name!r} and others", remedy=remedy)
    for path, (folder, task) in zip(paths, places, strict=True):
        several = len(_filters(path)) > 1
        for number, line in json_lines(path, table, "must hold one JSON object a line"):
            try:
                said = read(line)
                item: int | str = f"{task}/{line['doc_id']}" if len(tasks) > 1 else line["doc_id"]
                system = f"{folder.name} [{line['filter']}]" if several else folder.name
            except EvidenceError:
                raise
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                what = f"{type(error).__name__} at line {number} of {path.name!r}"
                rule = "must be samples of lm-eval"
                raise EvidenceError.of(table, rule, what, remedy="Write them again.") from None
            yield item, system, said


def _task(path: Path) -> str:
    found = _NAME.search(path.name)
    return found["task"] if found else path.stem


def json_lines(path: Path, table: str, rule: str) -> Iterator[tuple[int, Any]]:
    """The values in a file of JSON lines, with their numbers."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except (ValueError, RecursionError):
                    what = f"other text at line {number} of {path.name!r}"
                    raise EvidenceError.of(table, rule, what, remedy="Repair that line.") from None


def _filters(path: Path) -> set[str]:
    """The filters in a file; its name alone is looked for, so that lines are parsed once."""
    found: set[bytes] = set()
    with path.open("rb") as file:
        for line in file:
            at = line.rfind(b'"filter": "')
            if at >= 0:
                found.add(line[at + 11 : line.index(b'"', at + 11)])
    return {name.decode("utf-8", "replace") for name in found}


def _answers(
    line: Mapping[str, Any], prediction: Prediction
) -> tuple[list[tuple[int | str | None, State]], int | None, bool]:
    """The answers of a line with states, the number of classes, and whether likelihood chose."""
    replies = line["filtered_resps"]
    pair = bool(replies) and isinstance(replies[0], (list, tuple)) and len(replies[0]) == 2
    if pair and str(replies[0][1]) in {"True", "False"}:
        chosen = _most_likely(line, prediction)
        return [(chosen, "invalid" if chosen is None else "answered")], _n_options(line), True
    options = _options(line.get("doc"))
    texts = replies[0] if replies and isinstance(replies[0], list) else replies[:1]
    answers = [_spoken(str(text), options) for text in texts] or [(None, "invalid")]
    return answers, None if options is None else len(options), False


def _n_options(line: Mapping[str, Any]) -> int:
    """The number of options; ``acc_mutual_info`` asks for each of them twice."""
    n = len(line["filtered_resps"])
    n = n // 2 if "acc_mutual_info" in line.get("metrics", ()) else n
    if n < 2:
        remedy = "Likelihoods of one text are not answers."
        rule = "must be multiple choice or generation"
        raise EvidenceError.of("answers", rule, f"{n} option", remedy=remedy)
    return n


def _most_likely(line: Mapping[str, Any], prediction: Prediction) -> int | None:
    n = _n_options(line)
    values = [float(reply[0]) for reply in line["filtered_resps"][:n]]
    if any(math.isnan(v) for v in values):
        return None
    if prediction == "acc_norm":
        texts = [str(line["arguments"][f"gen_args_{i}"]["arg_1"]) for i in range(n)]
        if all(text.startswith(" ") for text in texts):  # the delimiter before an option
            texts = [text[1:] for text in texts]
        values = [v / max(1, len(text)) for v, text in zip(values, texts, strict=True)]
    return values.index(max(values))


def _options(doc: object) -> list[str] | None:
    """The options in a document, where it has them under one of the usual names."""
    if not isinstance(doc, Mapping):
        return None
    for name in _OPTIONS:
        value = doc.get(name)
        value = value.get("text") if isinstance(value, Mapping) else value
        if isinstance(value, list) and len(value) > 1 and all(isinstance(v, str) for v in value):
            return value
    return None


def _spoken(text: str, options: Sequence[str] | None) -> tuple[int | str | None, State]:
    if text.strip() == "[invalid]":  # what lm-eval writes where a filter finds nothing
        return None, "invalid"
    return read_text(text) if options is None else read_choice(text, options)


_ZSTD = 93
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_SCORERS = ("weak_choice", "choice")  # whose answer counts, where several scorers gave one
_REFUSED = {"refusal"}
_OWN = {"weak_choice"}  # our own scorer says what is known of an answer, not whether it is right
_VALUES = {"C": 1.0, "I": 0.0, "N": 0.0, "P": 0.5}
FINISH: Mapping[str, Finish] = {
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refused",
}
"""What Inspect calls the end of a reply, as :mod:`noracle.evidence.replies` calls it."""
Sample = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InspectLog:
    """What a log says of itself, its samples or their summaries, and how to open a whole one."""

    path: Path
    about: Mapping[str, Any]
    status: str
    samples: Sequence[Sample]
    whole: Callable[[Sample], Sample]

    @property
    def task(self) -> str:
        """The task."""
        return str(self.about.get("task", "task"))

    @property
    def model(self) -> str:
        """The model."""
        return str(self.about.get("model", "model"))

    @property
    def run(self) -> str:
        """What a run and its retries share."""
        return str(self.about.get("task_id") or self.about.get("eval_id") or self.path)

    @property
    def created(self) -> str:
        """When it began."""
        return str(self.about.get("created", ""))


def read_inspect(paths: Sequence[Path], *, labels: bool = True) -> LogTables:
    """The tables of these logs.

    Systems are models; where one model ran a task more than once, ``model@time``. Items are sample
    ids; with several tasks, ``task/id``. Of a run and its retries only the latest counts. Repeats
    are epochs. A sample that failed has the state ``errored``.
    """
    logs, notes = _latest([open_inspect(path) for path in paths])
    notes += [_unfinished(log) for log in logs if log.status != "success"]
    found: dict[str, set[int | str]] = {key: set() for key in METADATA}
    orders, rows = _Orders(), []
    for log, system, task in _named(logs):
        for sample in log.samples:
            row = _logged(log, sample, system, labels=labels)
            for key in METADATA if row.labels else ():
                if (sample.get("metadata") or {}).get(key) is not None:
                    found[key].add(row.item)
            row = row._replace(item=f"{task}{row.item}") if task else row
            rows.append(orders.same(row, sample.get("choices") or ()))
    tables = tables_of(rows, notes)
    if orders.moved:
        notes.append(
            f"options in different orders ({len(orders.moved)} of the items): classes are places in the order of the first log"
        )
    if tables.judgements is not None:
        told = ", ".join(f"{len(items)} {key}" for key, items in found.items() if items)
        notes.append(f"labels out of the metadata of samples: {told}")
    return dataclasses.replace(tables, notes=tuple(notes))


def inspect_marks(paths: Sequence[Path]) -> Iterator[Mark]:
    """What scorers said: the words C, I and N, and numbers (P, partly right, is ½).

    Systems and items are called as in :func:`read_inspect`. A scorer that is a model is named with
    it where the log says which.
    """
    logs, _ = _latest([open_inspect(path, "grades") for path in paths])
    for log, system, task in _named(logs):
        scorers = [s for s in log.about.get("scorers") or [] if isinstance(s, dict)]
        judges = {str(scorer.get("name")): _judge(scorer, log.about) for scorer in scorers}
        for sample in log.samples:
            plain = isinstance(sample["id"], int) and not task
            item = sample["id"] if plain else f"{task}{sample['id']}"
            scores = {} if sample.get("error") else sample.get("scores") or {}
            if not scores:
                yield Mark(item, system, failed=True)
            for name, score in scores.items():
                if name not in _OWN:
                    mark = Mark(item, system, name, judges.get(name))
                    yield from _scored(mark, (score or {}).get("value"))


def _scored(mark: Mark, value: object) -> Iterator[Mark]:
    """The marks of one score; a score of several values is several metrics."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _scored(mark._replace(metric=f"{mark.metric}/{name}"), part)
    elif isinstance(value, bool) or (isinstance(value, (int, float)) and math.isfinite(value)):
        yield mark._replace(value=float(value))
    elif isinstance(value, str) and value.strip():
        number = _VALUES.get(value)
        yield mark._replace(value=number, label=None if number is not None else value)
    else:
        yield mark._replace(failed=True)  # not scored


def _judge(scorer: Mapping[str, Any], about: Mapping[str, Any]) -> str | None:
    """The model that a scorer asks: among its options, or the role of a grader."""
    model = (scorer.get("options") or {}).get("model")
    if model is None and "model_graded" in str(scorer.get("name")):
        role = (scorer.get("options") or {}).get("model_role") or "grader"
        model = (about.get("model_roles") or {}).get(role)
        model = model.get("model") if isinstance(model, Mapping) else model
    models = model if isinstance(model, list) else [model]
    names = [str(m.get("model") if isinstance(m, Mapping) else m) for m in models if m]
    return "+".join(names) or None


def _named(logs: Sequence[InspectLog]) -> Iterator[tuple[InspectLog, str, str]]:
    """Each log with the name of its system, and its task as a prefix where there are several."""
    tasks = {log.task for log in logs}
    runs = Counter((log.task, log.model) for log in logs)
    for log in logs:
        system = log.model if runs[log.task, log.model] == 1 else f"{log.model}@{log.created}"
        yield log, system, f"{log.task}/" if len(tasks) > 1 else ""


class _Orders:
    """The order of the options of each item; a dataset may have been shuffled again for every run."""

    def __init__(self) -> None:
        self.first: dict[int | str, Sequence[str]] = {}
        self.moved: set[int | str] = set()
        self.labels: dict[int | str, set[tuple[Any, ...]]] = {}

    def same(self, row: Logged, choices: Sequence[str]) -> Logged:
        """The record with its classes as places in the order that was seen first."""
        first = self.first.setdefault(row.item, choices)
        if choices == first:
            self.labels.setdefault(row.item, set()).update(label[:3] for label in row.labels)
            return row
        where: dict[str, Any] = {"where": [row.item], "total": 1}
        if sorted(choices) != sorted(first) or len(set(choices)) < len(choices):
            rule, remedy = "must be the same in all logs, in any order", "Read the logs apart."
            raise EvidenceError.of("options", rule, "different ones", **where, remedy=remedy)
        self.moved.add(row.item)
        place = [first.index(text) for text in choices]
        labels = tuple(label._replace(kind=place[label.kind]) for label in row.labels)
        if {label[:3] for label in labels} - self.labels.get(row.item, set()):
            what, rule = "metadata", "must name options by their text where choices are shuffled"
            remedy = "Letters do not move with choices. Or pass judgements."
            raise EvidenceError.of(what, rule, "letters or places", remedy=remedy, **where)
        answer = place[row.answer] if isinstance(row.answer, int) else row.answer
        return row._replace(answer=answer, labels=labels)


def _latest(logs: Sequence[InspectLog]) -> tuple[list[InspectLog], list[str]]:
    newest: dict[str, InspectLog] = {}
    for log in logs:
        if log.run not in newest or log.created > newest[log.run].created:
            newest[log.run] = log
    left = len(logs) - len(newest)
    note = f"{left} log{'' if left == 1 else 's'} of runs that were retried or copied left out"
    return list(newest.values()), [note] if left else []


def _unfinished(log: InspectLog) -> str:
    planned = (log.about.get("dataset") or {}).get("samples")
    epochs = (log.about.get("config") or {}).get("epochs") or 1
    total = f" of {planned * epochs}" if isinstance(planned, int) else ""
    return f"{log.path.name} is not finished ({log.status}): {len(log.samples)}{total} samples"


def _logged(log: InspectLog, sample: Sample, system: str, *, labels: bool) -> Logged:
    item, choices = sample["id"], sample.get("choices") or None
    metadata = sample.get("metadata") or {}
    texts = [str(metadata.get(key, "")) for key in METADATA]
    if labels and any(text.startswith("Key removed from summary") for text in texts):
        metadata = log.whole(sample).get("metadata") or {}
    said, bad = labels_of(metadata, choices) if labels else ((), "")
    answer, state = _answer(log, sample, choices)
    return Logged(
        item=item if isinstance(item, int) else str(item),
        system=system,
        answer=answer,
        state=state,
        n_classes=len(choices) if choices else None,
        repeat=int(sample.get("epoch") or 1),
        labels=said,
        bad=bad,
    )


def _answer(
    log: InspectLog, sample: Sample, choices: Sequence[str] | None
) -> tuple[int | str | None, str]:
    if sample.get("error"):
        return None, "errored"
    score = _score(sample.get("scores"))
    given = None if score is None else score.get("answer")
    if given:
        return read_choice(str(given), choices) if choices else read_text(str(given))
    if score is not None and score.get("reason") in _REFUSED:
        return None, "refused"
    return answer_of_output(log.whole(sample).get("output") or {}, choices)


def _score(scores: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The score whose answer counts: our own, Inspect's choice, else the first that has one."""
    if not scores:
        return None
    own = (scores[name] for name in _SCORERS if name in scores)
    answered = (score for score in scores.values() if score.get("answer"))
    found: Mapping[str, Any] = next(itertools.chain(own, answered, scores.values()))
    return found


def answer_of_output(
    output: Mapping[str, Any], choices: Sequence[str] | None
) -> tuple[int | str | None, str]:
    """The class in the output of a model, and the state."""
    spoken = output.get("choices") or [{}]
    text = str(output.get("completion") or "")
    finish = FINISH.get(str(spoken[0].get("stop_reason")), "stop")
    return read_choice(text, choices, finish=finish) if choices else read_text(text, finish=finish)


def open_inspect(path: Path, table: str = "answers") -> InspectLog:
    """Open a log; its samples are summaries where it has them."""
    try:
        return _open_json(path) if path.suffix.lower() == ".json" else _open_zip(path)
    except zipfile.BadZipFile:
        remedy = "If the run was killed, try: inspect log recover."
        came = f"{path.name!r}, which is cut off"
        raise EvidenceError.of(table, "must be a whole .eval file", came, remedy=remedy) from None
    except (KeyError, ValueError, TypeError, AttributeError, struct.error) as error:
        what = f"{path.name!r} ({type(error).__name__})"
        remedy = "Write it again with its own tool."
        raise EvidenceError.of(table, "must be a log of Inspect", what, remedy=remedy) from None


def _open_json(path: Path) -> InspectLog:
    data = json.loads(path.read_bytes())
    samples = [_needed(s) for s in data.get("samples") or []]
    about: dict[str, Any] = {"about": data["eval"], "status": str(data["status"])}
    return InspectLog(path=path, **about, samples=samples, whole=lambda sample: sample)


def _needed(sample: dict[str, Any]) -> dict[str, Any]:
    """Only what is needed: events and messages may be large."""
    names = ("id", "epoch", "choices", "metadata", "scores", "error", "output")
    return {name: sample.get(name) for name in names}


def _open_zip(path: Path) -> InspectLog:
    archive = _Archive(path)
    header = archive.json("header.json")
    about = header or archive.json("_journal/start.json")
    if about is None:
        came = f"{path.name!r}, a ZIP without a header"
        raise EvidenceError.of("answers", "must be a log of Inspect", came)
    summaries = archive.json("summaries.json")
    if summaries is None:
        parts = [n for n in archive.members if n.startswith("_journal/summaries/")]
        parts.sort(key=lambda n: int(Path(n).stem))
        summaries = [row for name in parts for row in archive.json(name) or []]

    def key(sample: Sample) -> tuple[str, int]:
        return str(sample["id"]), int(sample.get("epoch") or 1)

    known = {key(sample) for sample in summaries}
    more = [n for n in archive.members if n.startswith("samples/")]
    for name in more if len(more) > len(known) else ():
        sample = archive.json(name)
        if sample is not None and key(sample) not in known:
            summaries.append(_needed(sample))

    def whole(sample: Sample) -> Sample:
        found = archive.json(f"samples/{sample['id']}_epoch_{sample.get('epoch') or 1}.json")
        return sample if found is None else found

    status = "interrupted" if header is None else str(header.get("status"))
    return InspectLog(path=path, about=about["eval"], status=status, samples=summaries, whole=whole)


class _Archive:
    """A ZIP whose members may be zstd, which Python reads from 3.14 on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with zipfile.ZipFile(path) as archive:  # of members with one name the last counts
            self.members = {info.filename: info for info in archive.infolist()}

    def json(self, name: str) -> Any:
        """The member as JSON; None where there is none."""
        info = self.members.get(name)
        return None if info is None else json.loads(self._bytes(info))

    def _bytes(self, info: zipfile.ZipInfo) -> bytes:
        if info.compress_type != _ZSTD:
            with zipfile.ZipFile(self.path) as archive:
                return archive.read(info)
        import zstandard

        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            header = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            file.seek(header[-2] + header[-1], io.SEEK_CUR)  # the name and the extra field
            raw = file.read(info.compress_size)
        unpack = zstandard.ZstdDecompressor().stream_reader
        with unpack(io.BytesIO(raw), read_across_frames=True) as reader:
            return reader.read()
