"""Logs of Inspect, without inspect_ai: ``.eval`` (a ZIP whose members are deflated or zstd) and
``.json``.

Summaries are read first: they hold ids, options, answers, metadata and errors, so that a thousand
samples take a few hundredths of a second. A whole sample is opened only where its summary does not
tell: no answer, no score, or metadata that was cut. A run that was killed has no summaries at its
end; its journal has them.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from noracle.errors import EvidenceError, fault
from noracle.evidence.logs import METADATA, Logged, LogTables, Mark, labels_of, tables_of
from noracle.evidence.replies import Finish, read_choice, read_text

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
    """One log: what it says of itself, its samples (or their summaries), and how to open a whole
    sample.
    """

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
    found: set[tuple[str, int | str]] = set()

    def rows() -> Iterator[Logged]:
        for log, system, task in _named(logs):
            for sample in log.samples:
                row = _logged(log, sample, system, labels=labels)
                found.update(
                    (key, row.item)
                    for key in METADATA
                    if row.labels and (sample.get("metadata") or {}).get(key) is not None
                )
                row = row._replace(item=f"{task}{row.item}") if task else row
                yield orders.same(row, sample.get("choices") or ())

    orders = _Orders()
    tables = tables_of(rows(), notes)
    if orders.moved:
        note = f"options in different orders ({len(orders.moved)} of the items): classes are places in the order of the first log"
        tables = dataclasses.replace(tables, notes=(*tables.notes, note))
    if tables.judgements is None:
        return tables
    numbers = Counter(key for key, _ in found)
    told = ", ".join(f"{numbers[key]} {key}" for key in METADATA if numbers[key])
    return dataclasses.replace(
        tables, notes=(*tables.notes, f"labels out of the metadata of samples: {told}")
    )


def inspect_marks(paths: Sequence[Path]) -> Iterator[Mark]:
    """What scorers said of the answers in these logs: the words C, I and N, and numbers (P, partly
    right, is ½).

    Systems and items are called as in :func:`read_inspect`. A scorer that is a model is named with
    it where the log says which.
    """
    logs, _ = _latest([open_inspect(path, "grades") for path in paths])
    for log, system, task in _named(logs):
        judges = {
            str(scorer.get("name")): _judge(scorer, log.about)
            for scorer in log.about.get("scorers") or []
            if isinstance(scorer, dict)
        }
        for sample in log.samples:
            item = (
                sample["id"]
                if isinstance(sample["id"], int) and not task
                else f"{task}{sample['id']}"
            )
            if sample.get("error"):
                yield Mark(item, system, failed=True)
                continue
            scores = sample.get("scores") or {}
            if not scores:
                yield Mark(item, system, failed=True)
            for name, score in scores.items():
                if name not in _OWN:
                    yield from _scored(
                        Mark(item, system, name, judges.get(name)), (score or {}).get("value")
                    )


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
    """The model that a scorer asks, where the log names it: among its options, or as the role of a
    grader.
    """
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
    """The order of the options of each item; a dataset may have been shuffled anew for every run."""

    def __init__(self) -> None:
        self.first: dict[int | str, Sequence[str]] = {}
        self.moved: set[int | str] = set()

    def same(self, row: Logged, choices: Sequence[str]) -> Logged:
        """The record with its classes as places in the order that was seen first."""
        first = self.first.setdefault(row.item, choices)
        if choices == first:
            return row
        if sorted(choices) != sorted(first) or len(set(choices)) < len(choices):
            rule = "must be the same in all logs, in any order"
            raise EvidenceError(
                fault(
                    "options",
                    rule,
                    "different ones",
                    where=[row.item],
                    total=1,
                    remedy="Read the logs apart.",
                )
            )
        self.moved.add(row.item)
        place = [first.index(text) for text in choices]
        labels = tuple(label._replace(kind=place[label.kind]) for label in row.labels)
        return row._replace(
            answer=place[row.answer] if isinstance(row.answer, int) else row.answer, labels=labels
        )


def _latest(logs: Sequence[InspectLog]) -> tuple[list[InspectLog], list[str]]:
    newest: dict[str, InspectLog] = {}
    for log in logs:
        if log.run not in newest or log.created > newest[log.run].created:
            newest[log.run] = log
    left = len(logs) - len(newest)
    notes = (
        [f"{left} log{'' if left == 1 else 's'} of runs that were retried or copied left out"]
        if left
        else []
    )
    return list(newest.values()), notes


def _unfinished(log: InspectLog) -> str:
    planned = (log.about.get("dataset") or {}).get("samples")
    epochs = (log.about.get("config") or {}).get("epochs") or 1
    total = f" of {planned * epochs}" if isinstance(planned, int) else ""
    return f"{log.path.name} is not finished ({log.status}): {len(log.samples)}{total} samples"


# -----------------------------------------------------------------------------------------------------
# one sample


def _logged(log: InspectLog, sample: Sample, system: str, *, labels: bool) -> Logged:
    item, choices = sample["id"], sample.get("choices") or None
    metadata = sample.get("metadata") or {}
    if labels and any(
        str(metadata.get(key, "")).startswith("Key removed from summary") for key in METADATA
    ):
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
    for name in _SCORERS:
        if name in scores:
            score: Mapping[str, Any] = scores[name]
            return score
    first: Mapping[str, Any] = next(
        (s for s in scores.values() if s.get("answer")), next(iter(scores.values()))
    )
    return first


def answer_of_output(
    output: Mapping[str, Any], choices: Sequence[str] | None
) -> tuple[int | str | None, str]:
    """The class in the output of a model, and the state.

    Examples
    --------
    >>> answer_of_output({"completion": "ANSWER: B"}, ["red", "blue"])
    (1, 'answered')
    >>> answer_of_output({"completion": "No.", "choices": [{"stop_reason": "content_filter"}]}, ["red", "blue"])
    (None, 'refused')
    """
    spoken = output.get("choices") or [{}]
    text = str(output.get("completion") or "")
    finish = FINISH.get(str(spoken[0].get("stop_reason")), "stop")
    return read_choice(text, choices, finish=finish) if choices else read_text(text, finish=finish)


# ------------------------------------------------------------------------------------------------------------
# files


def open_inspect(path: Path, table: str = "answers") -> InspectLog:
    """Open a log; its samples are summaries where it has them."""
    try:
        return _open_json(path) if path.suffix.lower() == ".json" else _open_zip(path)
    except zipfile.BadZipFile:
        remedy = "If the run was killed, try: inspect log recover."
        raise EvidenceError(
            fault(
                table,
                "must be a whole .eval file",
                f"{path.name!r}, which is cut off",
                remedy=remedy,
            )
        ) from None
    except (KeyError, ValueError, TypeError, AttributeError, struct.error) as error:
        what = f"{path.name!r} ({type(error).__name__})"
        raise EvidenceError(
            fault(
                table, "must be a log of Inspect", what, remedy="Write it again with its own tool."
            )
        ) from None


def _open_json(path: Path) -> InspectLog:
    data = json.loads(path.read_bytes())
    samples = [_without_error_text(s) for s in data.get("samples") or []]
    return InspectLog(
        path=path,
        about=data["eval"],
        status=str(data["status"]),
        samples=samples,
        whole=lambda sample: sample,
    )


def _without_error_text(sample: dict[str, Any]) -> dict[str, Any]:
    """Only what is needed: events and messages may be large."""
    return {
        key: sample.get(key)
        for key in ("id", "epoch", "choices", "metadata", "scores", "error", "output")
    }


def _open_zip(path: Path) -> InspectLog:
    archive = _Archive(path)
    header = archive.json("header.json")
    about = header or archive.json("_journal/start.json")
    if about is None:
        raise EvidenceError(
            fault("answers", "must be a log of Inspect", f"{path.name!r}, a ZIP without a header")
        )
    summaries = archive.json("summaries.json")
    if summaries is None:
        parts = sorted(
            (n for n in archive.names if n.startswith("_journal/summaries/")),
            key=lambda n: int(Path(n).stem),
        )
        summaries = [row for name in parts for row in archive.json(name) or []]
    known = {(str(s["id"]), int(s.get("epoch") or 1)) for s in summaries}
    more = [n for n in archive.names if n.startswith("samples/")]
    if len(more) > len(known):
        for name in more:
            sample = archive.json(name)
            if (
                sample is not None
                and (str(sample["id"]), int(sample.get("epoch") or 1)) not in known
            ):
                summaries.append(_without_error_text(sample))

    def whole(sample: Sample) -> Sample:
        found = archive.json(f"samples/{sample['id']}_epoch_{sample.get('epoch') or 1}.json")
        return sample if found is None else found

    status = "interrupted" if header is None else str(header.get("status"))
    return InspectLog(path=path, about=about["eval"], status=status, samples=summaries, whole=whole)


class _Archive:
    """A ZIP whose members may be zstd (method 93), which the standard library reads only from
    Python 3.14 on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with zipfile.ZipFile(path) as archive:
            self.members = {
                info.filename: info for info in archive.infolist()
            }  # of members with one name the last counts

    @property
    def names(self) -> list[str]:
        """The members."""
        return list(self.members)

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
        with zstandard.ZstdDecompressor().stream_reader(
            io.BytesIO(raw), read_across_frames=True
        ) as reader:
            return reader.read()
