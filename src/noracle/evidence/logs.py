"""Logs of evaluation tools as tables: what the readers of foreign formats share.

    inspect_logs.py   Inspect: ``.eval`` (ZIP with deflate or zstd members) and ``.json``
    lm_eval.py        lm-evaluation-harness: ``samples_*.jsonl``
    grade_logs.py     what these and other tools said of the answers: promptfoo, DeepEval, OpenTelemetry

Every reader gives one :class:`Logged` for each record of the log. A class is the place of an
option, from 0; where a log has no options the classes are texts. Nothing here imports the tools,
and answer keys in a log (targets) are not read.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from noracle.errors import EvidenceError, fault

Columns = dict[str, list[Any]]
METADATA = ("label", "ruled_out", "judgement")
"""Where labels are looked for in the metadata of a sample."""


class Label(NamedTuple):
    """What was said of one class of an item."""

    kind: Any
    verdict: str
    rater: str | None = None
    propensity: float | None = None
    cost: float | None = None


class Logged(NamedTuple):
    """One record of a log. ``repeat`` counts runs of the same item; ``bad`` is metadata that should
    be a label and is not.
    """

    item: int | str
    system: str
    answer: int | str | None
    state: str
    n_classes: int | None = None
    repeat: int = 1
    labels: tuple[Label, ...] = ()
    bad: str = ""


class Mark(NamedTuple):
    """One metric of one answer: a number, a word, or an error. ``whole`` is a tool's own sum over
    its metrics.
    """

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
    """Tables out of logs, as columns. ``notes`` are the visible choices that were made, one line
    each.
    """

    answers: Columns
    items: Columns | None = None
    judgements: Columns | None = None
    notes: tuple[str, ...] = ()


def log_format(path: object) -> str | None:
    """``inspect``, ``lm-eval``, or None where this is not a log; for a glob or a list the first
    file tells.
    """
    if isinstance(path, (list, tuple)) and path:
        return log_format(path[0])
    if not isinstance(path, (str, Path)):
        return None
    name = os.fspath(path).lower()
    if not name.endswith((".eval", ".json", ".jsonl")):
        return None
    if name.endswith(".eval"):
        return "inspect"
    found = files_of(path)
    if not found:
        return None
    try:
        with found[0].open("rb") as file:
            head = file.read(4096) if name.endswith(".json") else file.readline(4_000_000)
    except OSError:
        return None
    if name.endswith(".json"):
        return (
            "inspect"
            if re.match(
                rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"\w+"\s*,\s*"eval"\s*:', head
            )
            else None
        )
    return (
        "lm-eval"
        if all(key in head for key in (b'"doc_id"', b'"filtered_resps"', b'"arguments"'))
        else None
    )


def files_of(path: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files that a path, a glob or a list of these names, sorted."""
    if not isinstance(path, (str, Path)):
        return [file for part in path for file in files_of(part)]
    name = os.fspath(path)
    names = [name] if Path(name).is_file() else sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (the pattern may be absolute)
    return [Path(n) for n in names if Path(n).is_file()]


def read_logs(path: str | Path | Sequence[str | Path], *, labels: bool = True) -> LogTables:
    """The tables of a log, or of all logs that a glob names.

    Parameters
    ----------
    path
        ``.eval`` or ``.json`` logs of Inspect, or ``samples_*.jsonl`` of lm-evaluation-harness; not
        both in one glob.
    labels
        Look for labels in the metadata of samples (Inspect only).

    Raises
    ------
    EvidenceError
        If a file is not such a log, is cut off, or holds labels that name no option.
    """
    found = files_of(path)
    kind = log_format(path)
    if not found or kind is None:
        raise EvidenceError(
            fault(
                "answers",
                "must name a log or a glob that matches logs",
                repr(path),
                remedy="Check the path.",
            )
        )
    if kind == "inspect":
        from noracle.evidence.inspect_logs import read_inspect

        return read_inspect(found, labels=labels)
    from noracle.evidence.lm_eval import read_lm_eval

    return read_lm_eval(found)


def tables_of(rows: Iterable[Logged], notes: Sequence[str] = ()) -> LogTables:
    """Records as tables: answers; items with their number of classes; labels, each once."""
    answers: Columns = {"item": [], "system": [], "answer": [], "state": [], "repeat": []}
    classes: dict[int | str, int | None] = {}
    labels: dict[tuple[Any, Label], None] = {}
    bad: dict[int | str, str] = {}
    clash: dict[int | str, None] = {}
    for row in rows:
        for column, value in zip(
            answers.values(), (row.item, row.system, row.answer, row.state, row.repeat), strict=True
        ):
            column.append(value)
        if classes.setdefault(row.item, row.n_classes) != row.n_classes:
            clash[row.item] = None
        for label in row.labels:
            labels[row.item, label] = None
        if row.bad:
            bad[row.item] = row.bad
    faults = []
    if bad:
        remedy = "Write a letter, a place from 0 or the text of an option, or pass judgements."
        rule = "must name an option of its sample"
        faults.append(
            fault(
                "metadata",
                rule,
                next(iter(bad.values())),
                where=list(bad)[:5],
                total=len(bad),
                remedy=remedy,
            )
        )
    if clash:
        rule = "must be the same in all logs"
        faults.append(
            fault(
                "number of options",
                rule,
                "different ones",
                where=list(clash)[:5],
                total=len(clash),
                remedy="Read them apart.",
            )
        )
    known = [k is not None for k in classes.values()]
    if any(known) and not all(known):
        without = [item for item, k in classes.items() if k is None]
        rule = "must be there for all samples or for none"
        faults.append(
            fault(
                "options",
                rule,
                "samples without",
                where=without[:5],
                total=len(without),
                remedy="Read the tasks apart.",
            )
        )
    if faults:
        raise EvidenceError(*faults)
    if not answers["item"]:
        raise EvidenceError(fault("answers", "must have records", "a log without samples"))
    one_type(answers["item"])
    if max(Counter(zip(answers["item"], answers["system"], strict=True)).values()) == 1:
        del answers["repeat"]
    items = list(classes)
    one_type(items)
    return LogTables(
        answers=answers,
        items={"item": items, "n_classes": list(classes.values())} if all(known) else None,
        judgements=_judgements(labels, text=any(isinstance(i, str) for i in items)),
        notes=tuple(notes),
    )


def one_type(items: list[Any]) -> None:
    """Ids as whole numbers, or all as text where one is."""
    if any(isinstance(i, str) for i in items):
        items[:] = [str(i) for i in items]


def _judgements(labels: Iterable[tuple[Any, Label]], *, text: bool) -> Columns | None:
    columns: Columns = {
        "item": [],
        "class": [],
        "verdict": [],
        "rater": [],
        "propensity": [],
        "cost": [],
    }
    for item, label in labels:
        for column, value in zip(
            columns.values(), (str(item) if text else item, *label), strict=True
        ):
            column.append(value)
    if not columns["item"]:
        return None
    for name in ("rater", "propensity", "cost"):
        if all(v is None for v in columns[name]):
            del columns[name]
    return columns


# -------------------------------------------------------------------------------------------------
# options, letters, labels


def _place_of_text(text: str, choices: Sequence[str]) -> int | None:
    return choices.index(text) if list(choices).count(text) == 1 else None


def place_of_label(value: object, choices: Sequence[str] | None) -> int | str | None:
    """The class that a label names: the text of an option, else its letter, else its place from 0."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    if not choices:
        return str(value)
    if isinstance(value, int):
        return value if 0 <= value < len(choices) else None
    text = value.strip()
    place = _place_of_text(text, choices)
    if place is not None:
        return place
    from noracle.evidence.replies import place_of_letter  # its patterns take a while to compile

    return place_of_letter(text, len(choices))


def labels_of(
    metadata: Mapping[str, Any], choices: Sequence[str] | None
) -> tuple[tuple[Label, ...], str]:
    """The labels in the metadata of a sample, and what could not be read.

    ``label`` is the true class, ``ruled_out`` one class or a list of classes that are wrong,
    ``judgement`` an object (or a list of them) with ``class``, ``verdict`` and optionally
    ``rater``, ``propensity``, ``cost``.

    Examples
    --------
    >>> labels_of({"ruled_out": ["B", "green"]}, ["red", "blue", "green"])[0]
    (Label(kind=1, verdict='no', ...), Label(kind=2, verdict='no', ...))
    """
    asked: list[tuple[str, Mapping[str, Any]]] = []
    for key, verdict in (("label", "yes"), ("ruled_out", "no")):
        value = metadata.get(key)
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        asked += [(key, {"class": v, "verdict": verdict}) for v in values if v is not None]
    value = metadata.get("judgement")
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    asked += [
        ("judgement", v if isinstance(v, Mapping) else {"class": None})
        for v in values
        if v is not None
    ]
    labels = []
    for key, said in asked:
        place, word = place_of_label(said.get("class"), choices), said.get("verdict")
        word = ("yes" if word else "no") if isinstance(word, bool) else word
        if place is None or not isinstance(word, str):
            return (), f"something else in {key!r}"
        labels.append(
            Label(place, word, _text(said.get("rater")), said.get("propensity"), said.get("cost"))
        )
    return tuple(labels), ""


def _text(value: object) -> str | None:
    return None if value is None else str(value)
