"""Results as records for other tools: evaluation results of the Hugging Face Hub, events of
OpenTelemetry, and a badge.

All three carry the interval, the kind of the promise and what it rests on; a number without a
promise says so in its own text.
"""

from __future__ import annotations

import html
import json
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from noracle._version import __version__
from noracle.errors import ArgumentError, require
from noracle.report import words
from noracle.results import Estimate, Guarantee, Kind

EVENT = "gen_ai.evaluation.result"
_DATASET = re.compile(r"[\w.-]+/[\w.-]+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?")
_HASH = re.compile(r"[0-9a-f]{7,64}")


def told(estimate: Estimate) -> str:
    """The number, its interval, the promise and what it rests on, in one line.

    Examples
    --------
    >>> from noracle import AccuracyCounts, estimate_accuracy
    >>> line = told(estimate_accuracy(AccuracyCounts.from_counts(n_classes=4, ordinary=(50, 40)), checks="none"))
    >>> line[:83]
    'accuracy 0.800, 95 % interval [0.663, 0.900]; finite-sample; rests on iid items (as'
    """
    e, digits = estimate, words.digits_for(estimate.width)
    value = words.number(e.value, digits)
    if math.isnan(e.value):
        value = f"undefined ({e.reason})" if e.reason else "undefined"
    unit = e.quantity in ("accuracy", "win rate")
    promised = words.bound(e.low, e.high, e.confidence, e.side, digits, unit=unit)
    rests = ", ".join(map(str, e.guarantee.assumptions)) or "nothing beyond the counts"
    kind = words.kind(e.guarantee)
    kind = "HEURISTIC: no promise" if e.guarantee.kind is Kind.HEURISTIC else kind
    return f"{e.quantity} {value}, {promised}; {kind}; rests on {rests}"


# the Hugging Face Hub


def eval_results(
    estimates: Estimate | Sequence[Estimate],
    *,
    dataset: str,
    task: str,
    revision: str | None = None,
    date: str | None = None,
    source: Mapping[str, str] | None = None,
    percent: bool = False,
) -> list[dict[str, Any]]:
    """Evaluation results of one model as the Hugging Face Hub reads them from ``.eval_results/``.

    Parameters
    ----------
    estimates
        Estimates of one system; the file belongs to the repository of that model.
    dataset, task
        The benchmark, as in ``TIGER-Lab/MMLU-Pro``, and the identifier of the task in its
        ``eval.yaml``.
    revision
        The hash of the data set that was answered.
    date
        When it was evaluated (ISO 8601); by default the Hub takes the date of the commit.
    source
        ``url``, and optionally ``name``, ``user`` or ``org``: where the evidence lies.
    percent
        Whether the benchmark counts from 0 to 100.

    Notes
    -----
    The Hub has no field for an interval: interval, promise and assumptions are in ``notes``. Without
    a ``verifyToken``, which only the Hub's own runs have, the result is not shown as verified.

    References
    ----------
    Hugging Face, "Evaluation Results", https://huggingface.co/docs/hub/eval-results.

    Examples
    --------
    >>> from noracle import AccuracyCounts, estimate_accuracy
    >>> estimate = estimate_accuracy(AccuracyCounts.from_counts(n_classes=4, ordinary=(50, 40)), checks="none")
    >>> entry = eval_results(estimate, dataset="TIGER-Lab/MMLU-Pro", task="mmlu_pro")[0]
    >>> entry["dataset"], entry["value"], entry["notes"][:46]
    ({'id': 'TIGER-Lab/MMLU-Pro', 'task_id': 'mmlu_pro'}, 0.8, 'accuracy 0.800, 95 % interval [0.663, 0.900]; ')
    """
    given = [estimates] if isinstance(estimates, Estimate) else list(estimates)
    systems = sorted({e.subject for e in given})
    one = f"estimates must be of one system, whose repository the file goes to; got {systems}."
    require(len(systems) == 1, one)
    unknown = [e.quantity for e in given if math.isnan(e.value)]
    rule = "estimates must have a value, which the Hub asks for"
    require(not unknown, f"{rule}; got an undefined {', '.join(unknown)}.")
    _must(_DATASET, "dataset", dataset, "owner/name, as in TIGER-Lab/MMLU-Pro")
    require(task.strip(), "task must be an identifier of the benchmark's eval.yaml; got none.")
    if revision is not None:
        _must(_HASH, "revision", revision, "the hash of a commit")
    if date is not None:
        _must(_DATE, "date", date, "a date of ISO 8601, as in 2026-09-30")
    if source is not None:
        known = {"url", "name", "user", "org"}
        fine = "url" in source and set(source) <= known
        require(fine, f"source must have url, and may have name, user, org; got {dict(source)}.")
    place = {"id": dataset, "task_id": task} | ({"revision": revision} if revision else {})
    rest: dict[str, Any] = {"date": date} if date else {}
    rest |= {"source": dict(source)} if source else {}
    scale = 100.0 if percent else 1.0
    return [
        {"dataset": place, "value": round(e.value * scale, 10), **rest, "notes": told(e)}
        for e in given
    ]


def _must(pattern: re.Pattern[str], name: str, value: str, rule: str) -> None:
    if not (isinstance(value, str) and pattern.fullmatch(value)):
        raise ArgumentError(f"{name} must be {rule}; got {value!r}.")


def as_yaml(entries: Iterable[Mapping[str, Any]]) -> str:
    """The entries as YAML; every text is quoted.

    Examples
    --------
    >>> print(as_yaml([{"dataset": {"id": "a/b", "task_id": "no"}, "value": 0.8}]), end="")
    - dataset:
        id: "a/b"
        task_id: "no"
      value: 0.8
    """
    lines = []
    for entry in entries:
        for i, (name, value) in enumerate(entry.items()):
            start = "- " if i == 0 else "  "
            if isinstance(value, Mapping):
                lines += [f"{start}{name}:"]
                lines += [f"    {key}: {_scalar(inner)}" for key, inner in value.items()]
            else:
                lines.append(f"{start}{name}: {_scalar(value)}")
    return "\n".join(lines) + "\n"


def _scalar(value: object) -> str:
    """A number with its digits, or a text, where what YAML does not print is escaped."""
    if isinstance(value, float):  # readers of YAML 1.1 take 1e-05 for text
        return f"{value:.10f}".rstrip("0").removesuffix(".") + ("" if value % 1 else ".0")
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]",
        lambda m: f"\\u{ord(m[0]):04x}",
        text,
    )


# OpenTelemetry


def evaluation_events(
    estimates: Iterable[Estimate], *, at: float | None = None, service: str = "noracle"
) -> dict[str, Any]:
    """Events ``gen_ai.evaluation.result`` as OTLP in JSON: what a collector takes at ``/v1/logs``.

    Parameters
    ----------
    estimates
        One event each.
    at
        Seconds since 1970; by default now.
    service
        The name of the service (``service.name``) that was evaluated.

    Notes
    -----
    Attributes of the semantic conventions: ``gen_ai.evaluation.name`` (the quantity),
    ``gen_ai.evaluation.score.value``, ``gen_ai.evaluation.explanation``; an undefined number has no
    score and the label ``undefined``. What they have no name for is under ``noracle.``: system,
    confidence, interval, guarantee, assumptions, method. An estimate is about many answers, so there is
    no ``gen_ai.response.id`` and no parent span. The conventions are in development.

    References
    ----------
    OpenTelemetry, "Semantic conventions for Generative AI events",
    https://github.com/open-telemetry/semantic-conventions-genai.

    Examples
    --------
    >>> from noracle import AccuracyCounts, estimate_accuracy
    >>> estimate = estimate_accuracy(AccuracyCounts.from_counts(n_classes=4, ordinary=(50, 40)), checks="none")
    >>> record = evaluation_events([estimate], at=0)["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    >>> record["eventName"], record["attributes"][1]
    ('gen_ai.evaluation.result', {'key': 'gen_ai.evaluation.score.value', 'value': {'doubleValue': 0.8}})
    """
    now = str(round((time.time() if at is None else at) * 1e9))
    records = [
        {
            "timeUnixNano": now,
            "observedTimeUnixNano": now,
            "severityNumber": 9,
            "severityText": "INFO",
            "eventName": EVENT,
            "attributes": _attributes(_said(e)),
        }
        for e in estimates
    ]
    scope = {"scope": {"name": "noracle", "version": __version__}, "logRecords": records}
    resource = {"attributes": _attributes({"service.name": service})}
    return {"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]}


def _said(e: Estimate) -> dict[str, Any]:
    """The attributes of one event; limits that nothing bounds are left out."""
    limits = {"low": e.low, "high": e.high}
    found: dict[str, Any] = {"gen_ai.evaluation.name": e.quantity}
    if math.isfinite(e.value):
        found["gen_ai.evaluation.score.value"] = float(e.value)
    else:
        found["gen_ai.evaluation.score.label"] = "undefined"
    found["gen_ai.evaluation.explanation"] = told(e)
    found["noracle.system"] = e.subject
    found["noracle.confidence"] = float(e.confidence)
    found["noracle.side"] = e.side
    found |= {f"noracle.interval.{k}": float(v) for k, v in limits.items() if math.isfinite(v)}
    found["noracle.guarantee"] = e.guarantee.kind.label
    found["noracle.assumptions"] = [str(a) for a in e.guarantee.assumptions]
    return found | {"noracle.method": f"{e.method}, {e.interval}"}


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _any(value)} for key, value in values.items()]


def _any(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any(v) for v in value]}}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


# badges


class BadgeRow(NamedTuple):
    """What one row of a badge says."""

    name: str
    value: float
    low: float
    high: float
    guarantee: Guarantee | None
    sure: str
    """With which confidence, in words."""

    @classmethod
    def of(cls, e: Estimate) -> BadgeRow:
        """The row of an estimate."""
        sure = f"{words.percent(e.confidence)} interval"
        return cls(f"{e.quantity} of {e.subject}", e.value, e.low, e.high, e.guarantee, sure)

    @property
    def promised(self) -> bool:
        """Whether the interval holds with its confidence."""
        known = not (math.isnan(self.low) or math.isnan(self.high))
        return known and self.guarantee is not None and self.guarantee.kind > Kind.HEURISTIC

    @property
    def short(self) -> str:
        """What the badge shows; limits are rounded outwards."""
        digits = max(2, words.digits_for(self.high - self.low) - 1)
        number = "unknown" if math.isnan(self.value) else words.number(self.value, digits)
        if not self.promised:
            return number if math.isnan(self.value) else f"{number}, no promise"
        unit = 10**digits
        low, high = math.floor(self.low * unit + 1e-9), math.ceil(self.high * unit - 1e-9)
        return f"{number} [{words.number(low / unit, digits)}, {words.number(high / unit, digits)}]"

    @property
    def spoken(self) -> str:
        """The same as one sentence, for those who do not see it."""
        kind = "nothing is promised"
        if self.promised and self.guarantee is not None:
            kind = f"{self.sure}, {words.kind(self.guarantee)}"
        return f"{self.name}: {self.short} ({kind})"


_HEIGHT, _PAD, _LETTER = 20, 6, 6.6
_PROMISED, _OPEN, _NAME = "#0b5c8a", "#8a4b00", "#3b424a"


def badge(rows: Iterable[BadgeRow | Estimate]) -> str:
    """An SVG badge: one row per estimate, with its interval; without a promise it says so.

    Examples
    --------
    >>> from noracle import AccuracyCounts, estimate_accuracy
    >>> estimate = estimate_accuracy(AccuracyCounts.from_counts(n_classes=4, ordinary=(50, 40)), checks="none")
    >>> "0.80 [0.66, 0.90]" in badge([estimate])
    True
    """
    told_ = [BadgeRow.of(row) if isinstance(row, Estimate) else row for row in rows]
    require(told_, "rows must have at least one estimate; got none.")
    left = max(_width(row.name) for row in told_)
    right = max(_width(row.short) for row in told_)
    spoken = html.escape(_plain("; ".join(row.spoken for row in told_)))
    height = _HEIGHT * len(told_)
    size, font = f'width="{left + right}" height="{height}"', "Verdana,DejaVu Sans,sans-serif"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{spoken}">',
        f"<title>{spoken}</title>",
        f'<g fill="#ffffff" font-family="{font}" font-size="11" text-anchor="middle">',
    ]
    for i, row in enumerate(told_):
        y, colour = _HEIGHT * i, _PROMISED if row.promised else _OPEN
        for x, width, fill, text in (
            (0, left, _NAME, row.name),
            (left, right, colour, row.short),
        ):
            lines.append(
                f'<rect x="{x}" y="{y}" width="{width}" height="{_HEIGHT}" fill="{fill}"/>'
            )
            fit = f' textLength="{width - 2 * _PAD}" lengthAdjust="spacingAndGlyphs"'
            fit = fit if _width(text) == width else ""
            lines.append(
                f'<text x="{x + width / 2:g}" y="{y + 14}"{fit}>{html.escape(_plain(text))}</text>'
            )
    return "\n".join([*lines, "</g>", "</svg>", ""])


def _plain(text: str) -> str:
    """The text without what XML does not allow."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)


def _width(text: str) -> int:
    """How wide a text is, roughly."""
    return math.ceil(_LETTER * len(text)) + 2 * _PAD
