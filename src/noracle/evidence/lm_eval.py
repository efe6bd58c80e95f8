"""Samples of lm-evaluation-harness, ``samples_<task>_<time>.jsonl``: one line for each document and
filter.

- Multiple choice: one request an option, so K is their number; the answer is the option with the
  largest log-likelihood (``acc``), or the largest per character (``acc_norm``). Both are in the
  file as text.
- Generation: the answer is the text after the filter; ``[invalid]`` is none. With options in the
  document a letter becomes a class.
- Two filters are two readings of one reply: two systems, ``model [filter]``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.evidence.logs import Logged, LogTables, Mark, tables_of
from noracle.evidence.replies import State, read_choice, read_text

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
    if prediction not in {"acc", "acc_norm"}:
        raise ArgumentError(f"prediction must be 'acc' or 'acc_norm'; got {prediction!r}.")
    chose = False

    def rows() -> Iterator[Logged]:
        nonlocal chose
        for item, system, (answers, k, choice) in _samples(
            paths, "answers", lambda line: _answers(line, prediction)
        ):
            chose = chose or choice
            for repeat, (answer, state) in enumerate(answers):
                yield Logged(item, system, answer, state, k, repeat + 1)

    tables = tables_of(rows())
    notes = [f"multiple choice: the option that {prediction} chooses"] if chose else []
    return LogTables(
        answers=tables.answers, items=tables.items, judgements=None, notes=tuple(notes)
    )


def lm_eval_marks(paths: Sequence[Path]) -> Iterator[Mark]:
    """What the metrics of a task said of each document: ``exact_match``, ``acc``, or the score of a
    judge. Others are not numbers.
    """
    for item, system, metrics in _samples(paths, "grades", _metrics):
        for name, value in metrics.items():
            yield Mark(item, system, name, value=value, failed=value is None)


def _metrics(line: Mapping[str, Any]) -> dict[str, float | None]:
    """The metrics of a line by name, as far as they are numbers; None for NaN."""
    found = {name: line.get(name) for name in line.get("metrics") or ()}
    numbers = {
        name: float(value) for name, value in found.items() if isinstance(value, (bool, int, float))
    }
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}


_Said = TypeVar("_Said")


def _samples(
    paths: Sequence[Path], table: str, read: Callable[[Mapping[str, Any]], _Said]
) -> Iterator[tuple[int | str, str, _Said]]:
    """Item, system and what ``read`` finds in each line; a line that it cannot read is named."""
    tasks = {_task(path) for path in paths}
    filters = {(path.resolve().parent, _task(path)): _filters(path) for path in paths}
    places = [(path.resolve().parent, _task(path)) for path in paths]
    twice = [path for path, place in zip(paths, places, strict=True) if places.count(place) > 1]
    if twice:
        remedy = "Name one of them."
        raise EvidenceError(
            fault(
                table,
                "must hold one file of each model and task",
                f"{twice[0].name!r} and others",
                remedy=remedy,
            )
        )
    for path, place in zip(paths, places, strict=True):
        several = len(filters[place]) > 1
        for number, line in _lines(path, table):
            try:
                said = read(line)
                item: int | str = (
                    f"{place[1]}/{line['doc_id']}" if len(tasks) > 1 else line["doc_id"]
                )
                system = f"{place[0].name} [{line['filter']}]" if several else place[0].name
            except EvidenceError:
                raise
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                what = f"{type(error).__name__} at line {number} of {path.name!r}"
                raise EvidenceError(
                    fault(table, "must be samples of lm-eval", what, remedy="Write them again.")
                ) from None
            yield item, system, said


def _task(path: Path) -> str:
    found = _NAME.search(path.name)
    return found["task"] if found else path.stem


def _lines(path: Path, table: str) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except ValueError:
                    what = f"other text at line {number} of {path.name!r}"
                    raise EvidenceError(
                        fault(
                            table,
                            "must hold one JSON object a line",
                            what,
                            remedy="Repair that line.",
                        )
                    ) from None


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
    """The answers of a line (one for each repeat) with their states, the number of classes, and
    whether likelihood chose.
    """
    replies = line["filtered_resps"]
    if (
        replies
        and isinstance(replies[0], (list, tuple))
        and len(replies[0]) == 2
        and str(replies[0][1]) in {"True", "False"}
    ):
        chosen = _most_likely(line, prediction)
        return [(chosen, "invalid" if chosen is None else "answered")], _n_options(line), True
    options = _options(line.get("doc"))
    texts = replies[0] if replies and isinstance(replies[0], list) else replies[:1]
    return (
        [_spoken(str(text), options) for text in texts] or [(None, "invalid")],
        None if options is None else len(options),
        False,
    )


def _n_options(line: Mapping[str, Any]) -> int:
    """The number of options; ``acc_mutual_info`` asks for each of them twice."""
    n = len(line["filtered_resps"])
    n = n // 2 if "acc_mutual_info" in line.get("metrics", ()) else n
    if n < 2:
        remedy = "Likelihoods of one text are not answers."
        raise EvidenceError(
            fault("answers", "must be multiple choice or generation", f"{n} option", remedy=remedy)
        )
    return n


def _most_likely(line: Mapping[str, Any], prediction: Prediction) -> int | None:
    n = _n_options(line)
    values = [float(reply[0]) for reply in line["filtered_resps"][:n]]
    if any(math.isnan(v) for v in values):
        return None
    if prediction == "acc_norm":
        texts = [str(line["arguments"][f"gen_args_{i}"]["arg_1"]) for i in range(n)]
        if all(
            text.startswith(" ") for text in texts
        ):  # the delimiter before an option is not part of it
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
