"""Results of evaluation tools as grades: who said that which system's answer to which item is
right.

    Inspect         scores of samples in ``.eval`` and ``.json`` logs, by scorers and by models that grade
    lm-eval         metrics of each document in ``samples_*.jsonl``
    promptfoo       results as ``--output results.json`` or ``.jsonl`` writes them (summary versions 2 and 3)
    DeepEval        ``test_run_*.json``, and ``EvaluationResult`` written as JSON
    OpenTelemetry   ``gen_ai.evaluation.result`` events as JSON lines: OTLP, single log records, flat records, and events of spans

Each metric is a rater of its own name, with the model that judged where the file says so:
``Correctness by gpt-4.1``. A file with several metrics does not say which one is the grade:
``FILE#METRIC`` does. ``FILE#METRIC>=0.5`` makes a grade of a score, ``FILE#METRIC=LABEL`` of a
label, and ``FILE#all`` takes every metric. An error of the tool or of the judge is not a wrong
answer: it is left out, and counted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from noracle.errors import EvidenceError, fault, raise_faults, require_evidence
from noracle.evidence.frames import files_of, log_format
from noracle.evidence.logs import Columns, Mark, inspect_marks, json_lines, lm_eval_marks, one_type

GradesFormat = Literal["inspect", "lm-eval", "promptfoo", "deepeval", "opentelemetry"]
TOOLS: dict[str, str] = {
    "inspect": "Inspect",
    "lm-eval": "lm-evaluation-harness",
    "promptfoo": "promptfoo",
    "deepeval": "DeepEval",
    "opentelemetry": "OpenTelemetry",
}
Paths = str | Path | Sequence[str | Path]

_HEAD = 1_000_000
_PARSED = 8_000_000  # bytes of a JSON file that is parsed to tell what it is
_EVENT, _EVENT_NAME = "gen_ai.evaluation.result", "gen_ai.evaluation.name"
_OWN = b'"noracle.guarantee"'  # of events that we wrote: results, not grades
_MODEL = ("gen_ai.request.model", "gen_ai.response.model")
_SYSTEM = ("system", "gen_ai.agent.name", *_MODEL, "service.name")
_WORDS = {
    **dict.fromkeys(("yes", "true", "right", "correct", "pass", "passed", "1", "c"), "yes"),
    **dict.fromkeys(("no", "false", "wrong", "incorrect", "fail", "failed", "0", "i", "n"), "no"),
    **dict.fromkeys(("unsure", "uncertain", "unknown"), "unsure"),
}
_CHOICE = re.compile(r"(?P<metric>.+?)\s*(?:>=\s*(?P<least>[-+.\deE]+)|=\s*(?P<label>[^=]+))?")
_TALKS = ("conversationalTestCases", "conversational_test_cases")
_CASES = ("test_results", "testCases", "test_cases", *_TALKS)
_ID = ("id", "item", "item_id", "question_id", "qid", "doc_id")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GradeLog:
    """A table out of results, as columns, with the visible choices that were made."""

    columns: Columns
    notes: tuple[str, ...] = ()


class _Choice(NamedTuple):
    """Which metric is read, and what makes it a yes."""

    metric: str | None = None
    least: float | None = None
    label: str | None = None


def grades_log_format(path: object) -> GradesFormat | None:
    """The tool that wrote results, or None where it is none; of several files, the first.

    ``#METRIC`` at the end of a path is no part of the name.
    """
    if isinstance(path, (list, tuple)):
        return grades_log_format(path[0]) if path else None
    if not isinstance(path, (str, Path)):
        return None
    place, _ = split_metric(path)
    name = os.fspath(place).lower()
    if not name.endswith((".eval", ".json", ".jsonl", ".ndjson")):
        return None
    log: Any = log_format(place)
    if log is not None:
        return log  # type: ignore[no-any-return]
    found = files_of(place)
    if not found:
        return None
    try:
        with found[0].open("rb") as file:
            head = file.read(_HEAD)
        if _OWN in head:
            return None
        return _format_of_json(found[0], head) if name.endswith(".json") else _format_of_lines(head)
    except OSError:
        return None


def _format_of_lines(head: bytes) -> GradesFormat | None:
    """JSON lines: events of OpenTelemetry, or results of promptfoo."""
    if _EVENT.encode() in head or b'"gen_ai.evaluation.name"' in head:
        return "opentelemetry"
    line = head.lstrip().split(b"\n", 1)[0]
    keys = (b'"testIdx"', b'"promptIdx"', b'"success"')
    return "promptfoo" if line[:1] == b"{" and all(key in line for key in keys) else None


def _format_of_json(path: Path, head: bytes) -> GradesFormat | None:
    if head.lstrip()[:1] != b"{":
        return None
    if re.match(rb'\s*\{\s*"evalId"\s*:[^{]{0,200}"results"\s*:\s*\{', head):
        return "promptfoo"
    if re.match(rb'\s*\{\s*"test_results"\s*:\s*\[', head):
        return "deepeval"
    if re.match(rb'\s*\{\s*"resource(?:Logs|Spans)"\s*:\s*\[', head):
        large = path.stat().st_size > _PARSED
        events = large or _EVENT.encode() in head or _EVENT.encode() in path.read_bytes()
        return "opentelemetry" if events else None
    if any(word in head for word in (b'"metricsData"', b'"metrics_data"')):
        return "deepeval"
    own = b'"promptIdx"' in head or b'"gradingResult"' in head
    if own and b'"results"' in head and b'"success"' in head:
        return "promptfoo"
    words = (b'"results"', b'"testCases"', b'"test_results"', b'"conversationalTestCases"')
    if path.stat().st_size > _PARSED or not any(word in head for word in words):
        return None
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    if _deepeval_cases(value):
        return "deepeval"
    rows = _promptfoo_rows(value)
    if rows and isinstance(rows[0], dict) and {"success", "provider"} <= rows[0].keys():
        return "promptfoo"
    return None


def split_metric(path: str | Path) -> tuple[str | Path, str | None]:
    """A path and the metric after ``#``; a file that has the mark in its own name is meant as it
    is.
    """
    if isinstance(path, Path) or "#" not in path or Path(path).exists():
        return path, None
    place, _, metric = path.partition("#")
    return place, metric.strip() or None


def read_grades(
    path: Paths, *, metric: str | None = None, repeats: Literal["first", "all"] = "first"
) -> GradeLog:
    """The grades in results of an evaluation tool: item, system, verdict, rater, repeat.

    Parameters
    ----------
    path
        A file, a glob or a list of files of one tool; ``FILE#METRIC`` chooses a metric.
    metric
        The metric that is the grade, as after ``#``: its name, ``name>=0.5`` for scores,
        ``name=label`` for labels, ``all`` for all.
    repeats
        ``first`` takes the first run of an item (epochs, repeated tests, several files of one
        system), with a note; ``all`` takes every run and numbers them in a column ``repeat``.

    Raises
    ------
    EvidenceError
        If the file is cut off or of another kind; if several metrics could be the grade; if the
        metric is a score without a limit.
    """
    said, choice, name = _marks(path, metric)
    if choice.metric is None:
        marks, note = _only_metric(said, name)
    else:
        marks, note = _chosen(said, choice, name), ""
    notes = [*([note] if note else []), *_about_errors(said, marks)]
    verdicts = zip(marks, _verdicts(marks, choice, name), strict=True)
    kept = [(mark, verdict) for mark, verdict in verdicts if verdict is not None]
    missing = len(marks) - len(kept)
    if missing:
        notes.append(f"{name}: {missing} result{'s' * (missing > 1)} without a verdict left out")
    _require_verdicts(kept, name)
    judges = ", ".join(sorted({mark.rater for mark, _ in kept if mark.judge}))
    if judges:
        notes.append(f"{name}: verdicts are those of a model ({judges}), and as right as it is")
    rows: list[tuple[Any, ...]] = []
    seen: Counter[tuple[Any, ...]] = Counter()
    for mark, verdict in kept:
        key = (str(mark.item), mark.system, mark.rater)
        seen[key] += 1
        rows.append((mark.item, mark.system, verdict, mark.rater, seen[key]))
    later = sum(row[-1] > 1 for row in rows)
    if later and repeats == "first":
        notes.append(
            f"{name}: {later} grades of later runs of the same items are not used; the first run of an item counts"
        )
        rows = [row for row in rows if row[-1] == 1]
    names = ("item", "system", "verdict", "rater", "repeat")
    columns: Columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    if repeats == "first" or not later:
        del columns["repeat"]
    one_type(columns["item"])
    return GradeLog(columns=columns, notes=tuple(notes))


def read_scores(path: Paths, *, metric: str | None = None) -> GradeLog:
    """The scores in results of an evaluation tool: item, rater, value; every metric is a rater.

    An item that was scored more than once has the mean of its scores. All results must be of one
    system.
    """
    said, choice, name = _marks(path, metric)
    marks = [mark for mark in _told(said) if mark.value is not None]
    if choice.metric is not None:
        marks = _chosen(marks, choice, name)
    notes = _about_errors(said, marks)
    came, remedy = f"none in {name}", "Read it as grades."
    require_evidence(marks, "scores", "must hold numbers", came, remedy=remedy)
    systems = sorted({mark.system for mark in marks})
    came = f"{len(systems)} in {name} ({_some(systems, 3)})"
    remedy = "Write the results of each system into a file."
    require_evidence(len(systems) == 1, "scores", "must be of one system", came, remedy=remedy)
    sums: dict[tuple[Any, str], list[float]] = {}
    for mark in marks:
        sums.setdefault((mark.item, mark.rater), []).append(float(mark.value or 0.0))
    again = sum(len(values) > 1 for values in sums.values())
    if again:
        notes.append(f"{name}: {again} scores are means over repeats")
    columns: Columns = {
        "item": [item for item, _ in sums],
        "rater": [rater for _, rater in sums],
        "value": [math.fsum(values) / len(values) for values in sums.values()],
    }
    one_type(columns["item"])
    return GradeLog(columns=columns, notes=tuple(notes))


def _marks(path: Paths, metric: str | None) -> tuple[list[Mark], _Choice, str]:
    """Everything that was said in these files, what is chosen of it, and how to call them."""
    parts = [path] if isinstance(path, (str, Path)) else list(path)
    places = [split_metric(part)[0] for part in parts]
    found = files_of(places)
    kind = grades_log_format(places) if found else None
    if not found or kind is None:
        remedy = f"Results of {', '.join(TOOLS.values())} are read."
        rule = "must name results of an evaluation tool"
        more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
        came = f"{parts[0]!r}{more}" if parts else "no path"
        raise EvidenceError.of("grades", rule, came, remedy=remedy)
    name = found[0].name if len(found) == 1 else f"{found[0].name} and {len(found) - 1} more"
    marks: list[Mark] = []
    if kind in _OF_LOGS:
        marks += _OF_LOGS[kind](found)
    for file in found if kind in _READERS else ():
        try:
            marks += _READERS[kind](file)
        except EvidenceError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            what = f"{file.name!r} ({type(error).__name__})"
            rule = f"must be results of {TOOLS[kind]}"
            raise EvidenceError.of("grades", rule, what, remedy="Write them again.") from None
    require_evidence(marks or kind in _OF_LOGS, "grades", "must hold results", f"none in {name}")
    named = {split_metric(part)[1] for part in parts} if metric is None else {metric}
    came, rule = ", ".join(sorted(map(str, named))), "must be read by one metric"
    require_evidence(len(named) == 1, "grades", rule, came, remedy="Name one of them.")
    return marks, _choice(named.pop()), name


def _some(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def _require_verdicts(found: object, name: str) -> None:
    came, remedy = f"none in {name}", "Look at the errors in the file."
    require_evidence(found, "grades", "must hold verdicts", came, remedy=remedy)


def _about_errors(said: Sequence[Mark], used: Sequence[Mark]) -> list[str]:
    metrics = {None, *(mark.metric for mark in used)}
    failed = sum(mark.failed and mark.metric in metrics for mark in said)
    what = "with an error or without a score left out: that is no wrong answer"
    return [f"{failed} result{'s' * (failed > 1)} {what}"] if failed else []


def _choice(given: str | None) -> _Choice:
    if given is None:
        return _Choice()
    found = _CHOICE.fullmatch(given.strip())
    if found is not None:
        label = None if found["label"] is None else found["label"].strip()
        with contextlib.suppress(ValueError):
            least = None if found["least"] is None else float(found["least"])
            return _Choice(found["metric"], least, label)
    raise EvidenceError.of("metric", "must be NAME, NAME>=NUMBER or NAME=LABEL", repr(given))


def _told(marks: Sequence[Mark]) -> list[Mark]:
    return [mark for mark in marks if mark.metric is not None and not mark.failed]


def _metrics(marks: Sequence[Mark]) -> list[str]:
    return list(dict.fromkeys(mark.metric for mark in marks if mark.metric is not None))


def _only_metric(marks: Sequence[Mark], name: str) -> tuple[list[Mark], str]:
    """The marks of the one metric, or of the tool's own sum (``whole``)."""
    whole = [mark for mark in marks if mark.whole]
    parts = _metrics([mark for mark in marks if not mark.whole])
    if whole and len(parts) == 1:
        judges = {mark.judge for mark in marks if not mark.whole and mark.judge}
        judge = judges.pop() if len(judges) == 1 else None
        return [mark._replace(metric=parts[0], judge=judge) for mark in whole], ""
    if whole:
        rule = f"all of {_some(parts, 6)} must pass; #METRIC chooses one"
        return whole, f"{name}: the verdict is the tool's own: {rule}" if parts else ""
    if len(parts) > 1:
        remedy = f"Choose one, as in '{name.split(' and ', maxsplit=1)[0]}#{parts[0]}'."
        came = f"{len(parts)} in {name}: {_some(parts, 12)}"
        raise EvidenceError.of("grades", "must be read by one metric", came, remedy=remedy)
    _require_verdicts(parts, name)
    return _told(marks), ""


def _chosen(marks: Sequence[Mark], choice: _Choice, name: str) -> list[Mark]:
    parts = [mark for mark in _told(marks) if not mark.whole]
    if choice.metric == "all":
        return parts
    wanted = str(choice.metric)
    exact = [mark for mark in parts if wanted in (mark.metric, mark.rater)]
    near = [mark for mark in parts if wanted.casefold() == str(mark.metric).casefold()]
    for found in (exact, near):
        if len({mark.metric for mark in found}) == 1:
            return found
    known = _metrics(parts)
    remedy = f"Known are {_some(known, 12)}." if known else "It has none."
    raise EvidenceError.of("metric", f"must be one of {name}", repr(wanted), remedy=remedy)


def _verdicts(marks: Sequence[Mark], choice: _Choice, name: str) -> list[str | None]:
    """Yes, no, unsure or None (nothing was said) for each mark."""
    least = choice.least
    if least is not None:
        return [None if m.value is None else "yes" if m.value >= least else "no" for m in marks]
    if choice.label is not None:
        label = choice.label.casefold()
        told = [None if m.label is None else m.label.casefold() == label for m in marks]
        if not any(told):
            known = sorted({m.label for m in marks if m.label})
            rule, remedy = f"must be one of those in {name}", f"Known are {', '.join(known[:8])}."
            raise EvidenceError.of("label", rule, repr(choice.label), remedy=remedy)
        return [None if right is None else "yes" if right else "no" for right in told]
    faults, first = [], name.split(" and ", maxsplit=1)[0]
    for metric in _metrics(marks):
        of = [m for m in marks if m.metric == metric]
        spoken = {m.label for m in of if m.label is not None}
        labels = sorted(word for word in spoken if word.strip().casefold() not in _WORDS)
        scores = {m.value for m in of if m.label is None and m.value is not None}
        numbers = sorted(scores - {0.0, 1.0})
        if labels:
            remedy = f"Say which label is right, as in '{first}#{metric}={labels[0]}'."
            rule = "must be words such as pass and fail"
            faults.append(fault(f"labels of {metric}", rule, ", ".join(labels[:6]), remedy=remedy))
        elif numbers:
            remedy = f"Say from where on it is right, as in '{first}#{metric}>=0.5', or read it as scores with 'noracle mean --data'."
            rule = "must be right or wrong to be a grade"
            came = f"scores such as {numbers[0]:g}"
            faults.append(fault(f"{metric} in {name}", rule, came, remedy=remedy))
    raise_faults(faults)
    return [_word(mark) for mark in marks]


def _word(mark: Mark) -> str | None:
    if mark.label is not None:
        return _WORDS[mark.label.strip().casefold()]
    return None if mark.value is None else "yes" if mark.value == 1.0 else "no"


def _promptfoo_rows(value: object) -> list[Any] | None:
    """The list of results in a file of promptfoo: an output file, or a summary alone."""
    for _ in range(2):
        value = value.get("results") if isinstance(value, dict) else None
        if isinstance(value, list):
            return value
    return None


def _promptfoo(path: Path) -> Iterator[Mark]:
    whole = path.suffix.lower() == ".json"
    rows = _promptfoo_rows(_json(path)) if whole else [line for _, line in _lines(path)]
    if rows is None:
        came = f"{path.name!r}, which has no results"
        raise EvidenceError.of("grades", "must be results of promptfoo", came)
    prompts: dict[str, set[Any]] = {}
    for row in rows:
        prompts.setdefault(_provider(row.get("provider")), set()).add(row.get("promptIdx", 0))
    ids = _promptfoo_ids(rows)
    for row, item in zip(rows, ids, strict=True):
        system = _provider(row.get("provider"))
        if len(prompts[system]) > 1:
            system = f"{system} [{_prompt(row)}]"
        reason, ungraded = row.get("failureReason"), not row.get("gradingResult")
        if reason == 2 or (reason is None and row.get("error") and ungraded):
            yield Mark(item, system, failed=True)
            continue
        score, label = _float(row.get("score")), _passed(row.get("success"))
        yield Mark(item, system, "promptfoo", value=score, label=label, whole=True)
        parts: dict[str, list[tuple[bool, float | None, str | None]]] = {}
        for part in _components(row.get("gradingResult")):
            rule = part["assertion"]
            name = str(rule.get("metric") or rule.get("type") or "assertion")
            judge = _provider(rule.get("provider")) or None
            told = (part.get("pass") is True, _float(part.get("score")), judge)
            parts.setdefault(name, []).append(told)
        for name, said in parts.items():
            scores = [s for _, s, _ in said if s is not None]
            value = math.fsum(scores) / len(scores) if scores else None
            yield Mark(item, system, name, said[0][2], value, _passed(all(ok for ok, _, _ in said)))


def _promptfoo_ids(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Tests by an id among their variables, else by number; a rerun keeps its first number."""
    tests = [(row.get("testCase") or {}) for row in rows]
    both = zip(rows, tests, strict=True)
    given = [row.get("vars") or test.get("vars") or {} for row, test in both]
    keys = []
    for test, variables in zip(tests, given, strict=True):
        about = [variables, test.get("assert"), test.get("description")]
        keys.append(json.dumps(about, sort_keys=True, default=str))
    for name in _ID:
        ids = [variables.get(name) for variables in given]
        named = all(isinstance(i, (int, str)) and not isinstance(i, bool) for i in ids)
        # An id of the test, not of something that several tests share.
        if ids and named and len(set(zip(keys, ids, strict=True))) == len(set(ids)):
            return ids
    numbers: dict[str, Any] = {}
    found = []
    for place, (row, key, variables) in enumerate(zip(rows, keys, given, strict=True)):
        number = row.get("testIdx", place)
        found.append(numbers.setdefault(key, number) if variables else number)
    return found


def _provider(value: object) -> str:
    if isinstance(value, Mapping):
        return str(value.get("label") or value.get("id") or "provider")
    return "" if value is None else str(value)


def _prompt(row: Mapping[str, Any]) -> str:
    prompt = row.get("prompt")
    label = prompt.get("label") if isinstance(prompt, Mapping) else None
    short = isinstance(label, str) and 0 < len(label) <= 40 and "\n" not in label
    own = isinstance(prompt, Mapping) and label != prompt.get("raw")
    return str(label) if short and own else f"prompt {row.get('promptIdx', 0)}"


def _components(grading: object, depth: int = 8) -> Iterator[Mapping[str, Any]]:
    """The results of single assertions, also inside sets of them."""
    if not isinstance(grading, Mapping) or depth == 0:
        return
    parts = grading.get("componentResults") or []
    if not parts and isinstance(grading.get("assertion"), Mapping):
        yield grading
    for part in parts:
        yield from _components(part, depth - 1)


def _deepeval_cases(value: object) -> list[Mapping[str, Any]]:
    """The test cases of a run, by names of attributes or of DeepEval's own file."""
    if not isinstance(value, Mapping):
        return []
    found = [value[name] for name in _CASES if isinstance(value.get(name), list)]
    cases = [row for rows in found for row in rows if isinstance(row, Mapping)]
    return [case for case in cases if "metrics_data" in case or "metricsData" in case]


def _deepeval(path: Path) -> Iterator[Mark]:
    value = _json(path)
    cases = _deepeval_cases(value)
    if not cases:
        came = f"{path.name!r}, which has no test case with metrics"
        raise EvidenceError.of("grades", "must be results of DeepEval", came)
    system = str(
        _mapping(value, "hyperparameters").get("model") or value.get("identifier") or path.stem
    )
    names = [case.get("name") for case in cases]
    named = all(isinstance(name, str) and name for name in names) and len(set(names)) == len(names)
    for place, case in enumerate(cases):
        order = _first(case, "index", "order")
        item: Any = names[place] if named else place if order is None else order
        for data in _first(case, "metrics_data", "metricsData") or []:
            judge = str(_first(data, "evaluation_model", "evaluationModel") or "") or None
            failed = bool(data.get("error")) or _first(data, "success", "score") is None
            score, label = _float(data.get("score")), _passed(data.get("success"))
            yield Mark(item, system, str(data["name"]), judge, score, label, failed)


def _first(row: Mapping[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _opentelemetry(path: Path) -> Iterator[Mark]:
    """Events of semantic conventions 1.38, of a response or else of their span."""
    whole = path.suffix.lower() == ".json"
    for number, row in [(1, _json(path))] if whole else _lines(path):
        for event in _events(row):
            name = event.get(_EVENT_NAME)
            item = _first(event, "item", "item.id", "gen_ai.response.id", "span")
            if not isinstance(name, str) or item is None:
                named = isinstance(name, str)
                lacks = "neither gen_ai.response.id nor a span" if named else f"no {_EVENT_NAME}"
                rule = "must be evaluation events with a name and what was evaluated"
                what = f"{lacks} at line {number} of {path.name!r}"
                raise EvidenceError.of("grades", rule, what)
            item = item if isinstance(item, int) else str(item)
            system = str(_first(event, *_SYSTEM) or path.stem)
            value = _float(event.get("gen_ai.evaluation.score.value"))
            label = event.get("gen_ai.evaluation.score.label")
            failed = bool(event.get("error.type")) or (value is None and label is None)
            label = None if label is None or not str(label).strip() else str(label)
            yield Mark(item, system, name, None, value, label, failed)


_OF_LOGS = {"inspect": inspect_marks, "lm-eval": lm_eval_marks}
_READERS = {"promptfoo": _promptfoo, "deepeval": _deepeval, "opentelemetry": _opentelemetry}


def _events(row: object) -> Iterator[dict[str, Any]]:
    """The evaluation events of a line, flat: attributes of event over span over resource."""
    if not isinstance(row, Mapping):
        return
    nested = (("resourceLogs", "scopeLogs", "logRecords"), ("resourceSpans", "scopeSpans", "spans"))
    for outer, inner, leaf in nested:
        for group in row.get(outer) or []:
            resource = _attributes((group.get("resource") or {}).get("attributes"))
            for scope in group.get(inner) or []:
                for record in scope.get(leaf) or []:
                    for event in _events(record):
                        yield {**resource, **event}
    own = {**_attributes(row.get("attributes")), **{k: v for k, v in row.items() if "." in k}}
    where = _span(row)
    for event in row.get("events") or []:
        if event.get("name") == _EVENT:
            yield {**own, **where, **_attributes(event.get("attributes"))}
    names = (row.get("eventName"), row.get("event_name"), row.get("name"), own.get("event.name"))
    if _EVENT in names or (not any(names) and "gen_ai.evaluation.name" in own):
        yield {**_attributes(_mapping(row, "resource").get("attributes")), **where, **own}


def _mapping(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    return value if isinstance(value, Mapping) else {}


def _span(row: Mapping[str, Any]) -> dict[str, str]:
    context = _mapping(row, "context")
    trace = _first(row, "traceId", "trace_id") or _first(context, "trace_id", "traceId") or ""
    span = _first(row, "spanId", "span_id") or _first(context, "span_id", "spanId")
    return {} if not span else {"span": f"{trace}/{span}" if trace else str(span)}


def _attributes(value: object) -> dict[str, Any]:
    """Attributes as a plain dict; OTLP writes them as a list of keys and typed values."""
    if isinstance(value, Mapping):
        return dict(value)
    found: dict[str, Any] = {}
    for pair in value if isinstance(value, list) else []:
        typed = pair.get("value") if isinstance(pair, Mapping) else None
        if isinstance(typed, Mapping):
            kind, inner = next(iter(typed.items()), ("", None))
            found[str(pair["key"])] = (
                int(inner) if inner is not None and kind == "intValue" else inner
            )
    return found


def _passed(value: object) -> str | None:
    return None if not isinstance(value, bool) else "pass" if value else "fail"


def _float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        place = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        what = f"{path.name!r}, which is cut off or broken{place}"
        rule = "must be a whole JSON file"
        raise EvidenceError.of("grades", rule, what, remedy="Write it again.") from None


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    return json_lines(path, "grades", "must hold one JSON object on each line")
