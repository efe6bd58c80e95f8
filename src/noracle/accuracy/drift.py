"""Has accuracy fallen below a stated level? Labels in their order, with the help of a judge.

A label of any kind is an unbiased score of correctness, at most 1, so that one bet fits all kinds
(:mod:`noracle.bounds.drift`). A judge that graded every answer is a control variate: in each
window the answers without a label are dealt out to the labels, and the score becomes

    x = score - λ·(judge's verdict - mean verdict of the label's own companions),

which has the accuracy as its mean whatever the judge does, since the label's answer and its
companions come from the same window. λ comes from earlier windows. No answer is used twice, so that
the x of one window are independent of each other. It is post-stratification by the verdict, done
label by label.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from noracle.accuracy.estimate import estimate_accuracy
from noracle.accuracy.judge import BLIND, judges_in
from noracle.accuracy.score import law_of, require_type, sided_scores
from noracle.bounds.betting import betting_interval, equal_together
from noracle.bounds.binomial import clopper_pearson
from noracle.bounds.drift import change_points, detector_path
from noracle.counts.tally import AccuracyCounts, Cell, Label, Tally
from noracle.errors import EvidenceError, refuse, require, require_evidence
from noracle.evidence import Evidence
from noracle.evidence.frames import keeps_order
from noracle.evidence.labels import propensities_of
from noracle.evidence.tables import UNSURE, VERDICTS, YES
from noracle.results import Assumption, Drift, Guarantee, Kind, check_confidence

FAIR = Assumption(
    name="labels drawn at random at their time",
    detail="which answers get a label has nothing to do with whether they are right",
)
ONE_CHANGE = Assumption(
    name="one fall",
    detail="accuracy was at or above the level up to one label, and at or below it after",
)
CLUSTERED = Assumption(
    name="iid items",
    status="failed",
    detail="items come in clusters, whose items depend on each other, and are counted one by one",
)
_FEWEST_PAIRS, _MOST_PAIRS, _MOST_WINDOWS = 20, 2000, 400
_PERIODS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m"}
_DATE = re.compile(r"\d{4}(-\d\d){0,2}")

Window = Literal["day", "week", "month"] | int


class Moment(NamedTuple):
    """One label of one system, where it stands in the stream."""

    item: Any
    tally: Tally
    at: str = ""
    stratum: str = ""
    cluster: str = ""


class Called(NamedTuple):
    """What the judge said of one answer: 1 for right, else 0."""

    item: Any
    right: float
    at: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DriftRule:
    """What accuracy is compared with: fixed before the labels that it judges.

    Examples
    --------
    >>> DriftRule(reference="2026-09").in_reference("2026-09-30T23:59:59"), DriftRule(floor=0.8).level_of_floor
    (True, 0.8)
    """

    floor: float | None = None
    reference: str | None = None
    margin: float = 0.0
    run_length: float = 10_000.0
    window: Window | None = None
    judge: str | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        f, r, w = self.floor, self.reference, self.window
        level = 0.5 if f is None else f - self.margin
        ends = [] if r is None else r.split("..")
        dated = len(ends) <= 2 and all(map(_is_date, ends)) and ends == sorted(ends)
        refuse(
            {
                "floor or reference must be given, and not both: without a stated level there is "
                f"no alarm; got floor {f} and reference {r!r}.": (f is None) == (r is None),
                f"floor - margin must be in (0, 1); got {level:g}.": not 0 < level < 1,
                f"margin must be in [0, 1); got {self.margin}.": not 0 <= self.margin < 1,
                f"run_length must be a number of labels above 1; got {self.run_length}.": (
                    not 1 < self.run_length < 1e12
                ),
                "reference must be a period such as 2026, 2026-09, 2026-09-14 or "
                f"2026-09-01..2026-09-14; got {r!r}.": not dated,
                f"window must be day, week, month or a number of answers; got {w!r}.": (
                    w is not None and w not in _PERIODS and not (isinstance(w, int) and w >= 1)
                ),
            }
        )
        check_confidence(self.confidence)

    @property
    def level_of_floor(self) -> float:
        """The level where a floor is stated."""
        return math.nan if self.floor is None else self.floor - self.margin

    def _ends(self) -> tuple[str, str]:
        ends = str(self.reference).split("..")
        return ends[0], ends[-1]

    def in_reference(self, at: str) -> bool:
        """Whether a time is in the reference period."""
        first, last = self._ends()
        return first <= at and at[: len(last)] <= last

    def is_after(self, at: str) -> bool:
        """Whether a time is behind the reference period; always, where a floor is stated."""
        return self.reference is None or at[: len(self._ends()[1])] > self._ends()[1]


def _is_date(text: str) -> bool:
    """Whether it is a year, a month or a day."""
    with contextlib.suppress(ValueError):
        return bool(_DATE.fullmatch(text) and dt.date.fromisoformat(f"{text}-01-01"[:10]))
    return False


def time_text(value: Any) -> str:
    """A time as text that sorts: ISO 8601, in UTC where it has a zone; empty where there is none.

    Examples
    --------
    >>> time_text("2026-09-01T01:00:00+02:00"), time_text(dt.date(2026, 9, 1)), time_text(None)
    ('2026-08-31T23:00:00', '2026-09-01T00:00:00', '')
    """
    if value is None or value == "" or value != value:
        return ""
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = dt.datetime.fromtimestamp(value, dt.UTC)
        elif isinstance(value, str):
            value = dt.datetime.fromisoformat(value.strip())
        elif not isinstance(value, dt.datetime):
            value = dt.datetime.combine(value, dt.time())
    except (TypeError, ValueError, OverflowError, OSError):
        rule = "must be a time as ISO 8601 writes it, or seconds since 1970"
        remedy = "Write it as 2026-09-14 or 2026-09-14T08:30:00."
        raise EvidenceError.of("at", rule, repr(value), remedy=remedy) from None
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return str(value.isoformat())


def _name_of_window(at: str, window: Window) -> str:
    return dt.datetime.fromisoformat(at).strftime(_PERIODS[str(window)])


class _Scores(NamedTuple):
    """The stream as numbers: scores against which is bet from above and from below, with the ends
    of their ranges; ``plain`` is the score from above without a judge.
    """

    moments: list[Moment]
    upper: np.ndarray
    high: np.ndarray
    lower: np.ndarray
    low: np.ndarray
    plain: np.ndarray
    weights: list[float]
    late: int
    open: int


def _scores(labels: Sequence[Moment], judged: Sequence[Called], window: Window) -> _Scores:
    """Scores in the order in which they are bet on."""
    pairs = {m.tally: sided_scores(m.tally) for m in labels}
    # Of all kinds the range of the widest: which kind an item has may go with the item.
    widest = min((_least(t) for t in pairs), default=0.0)
    order, late, still_open = list(labels), 0, 0
    shift, bound, weights = np.zeros(len(order)), np.zeros(len(order)), list[float]()
    if judged:
        order, shifts, late, still_open = _dealt(labels, judged, window, pairs, weights)
        shift = np.array([s for s, _ in shifts])
        bound = np.array([b for _, b in shifts])
    lower, upper = (np.array([pairs[m.tally][i] for m in order], dtype=float) for i in (0, 1))
    ends = upper - shift, 1.0 + bound, lower - shift, widest - bound
    return _Scores(order, *ends, upper, weights, late, still_open)


def _least(t: Tally) -> float:
    """The least score from below of a label of this kind."""
    return 0.0 if t.design == "recorded" else law_of(t.verdict, t.n_classes, t.n_ruled_out).low


def _dealt(
    labels: Sequence[Moment],
    judged: Sequence[Called],
    window: Window,
    pairs: Mapping[Tally, tuple[float, float]],
    weights: list[float],
) -> tuple[list[Moment], list[tuple[float, float]], int, int]:
    """Labels in the order of windows, each with what the judge takes off its score and with the
    most that this can be; labels that came too late; labels of the window that is still open.

    A window ends with the first label of a later one: then the answers without a label are dealt
    out. A label that comes later still is left out, for its answer was used.
    """
    place: dict[Any, int] = {}
    windows: dict[int, list[Called]] = defaultdict(list)
    names: dict[int | str, int] = {}
    for i, v in enumerate(judged):
        if v.item in place:
            continue
        name = i // window if isinstance(window, int) else _name_of_window(v.at, window)
        w = place[v.item] = names.setdefault(name, len(names))
        windows[w].append(v)
    order, shifts, late, newest = list[Moment](), list[tuple[float, float]](), 0, 0
    waiting: dict[int, list[Moment]] = defaultdict(list)
    known: list[tuple[float, float]] = []
    for m in labels:
        w = place.get(m.item, newest)
        if w < newest:
            late += 1
            continue
        if w > newest:
            for done in sorted(waiting):
                _deal(waiting.pop(done), windows[done], pairs, known, order, shifts, weights)
            newest = w
        waiting[w].append(m)
    return order, shifts, late, sum(map(len, waiting.values()))


def _deal(
    labelled: Sequence[Moment],
    judged: Sequence[Called],
    pairs: Mapping[Tally, tuple[float, float]],
    known: list[tuple[float, float]],
    order: list[Moment],
    shifts: list[tuple[float, float]],
    weights: list[float],
) -> None:
    """Deal the answers of a window that have no label out to those that have one."""
    said, mine = {v.item: v.right for v in judged}, {m.item for m in labelled}
    graded = [m for m in labelled if m.item in said]
    rest = [v.right for v in judged if v.item not in mine]
    weight = _weight(known, len(rest) / max(len(graded), 1)) if rest else 0.0
    weights.append(weight)
    n, given = len(graded), -1
    for m in labelled:
        shift = 0.0
        if m.item in said:
            given += 1
            own = rest[given::n]
            if own and weight:
                shift = weight * (said[m.item] - math.fsum(own) / len(own))
        order.append(m)
        shifts.append((shift, abs(weight)))
    known += [(said[m.item], pairs[m.tally][1]) for m in graded]


def _weight(known: Sequence[tuple[float, float]], companions: float) -> float:
    """What to take off for a verdict, from earlier windows: ¾·cov/(var·(1 + 1/companions)).

    That has the least variance but for the ¾: a bet loses more by large scores than variance says.
    """
    if len(known) < _FEWEST_PAIRS:
        return 0.0
    f, s = np.array(known[-_MOST_PAIRS:]).T
    spread = float(((f - f.mean()) ** 2).sum())
    together = float(((f - f.mean()) * (s - s.mean())).sum())
    return min(1.0, max(-1.0, 0.75 * together / ((spread + 1.0) * (1 + 1 / companions))))


def counted(moments: Iterable[Moment]) -> AccuracyCounts:
    """Labels as counts, of which more are to come."""
    tallies = Counter(m.tally for m in moments)
    items, answered = Counter[Cell](), Counter[Cell]()
    for t, n in tallies.items():
        items[Cell(t.system, t.n_classes)] += n
        answered[Cell(t.system, t.n_classes)] += n * t.answered
    return AccuracyCounts(tallies=dict(tallies), items=items, answered=answered)


def drift_of(
    system: str, labels: Sequence[Moment], judged: Sequence[Called], rule: DriftRule
) -> Drift:
    """The drift of one system from its labels and the judge's verdicts, both in their order."""
    times = bool(labels) and all(m.at for m in labels) and all(v.at for v in judged)
    window = rule.window or ("day" if times else 200)
    needs = rule.reference is not None or not isinstance(window, int)
    remedy = "Add the column at, or state a floor and a window in numbers of answers."
    require_evidence(
        times or not needs or not labels,
        "judgements and grades",
        "must have a time in column at for a reference or windows of time",
        f"rows of {system!r} without",
        remedy=remedy,
    )
    found, error = _scores(labels, judged, window), 1 - rule.confidence
    moments, notes = found.moments, list[str]()
    timed = sum(bool(m.at) for m in labels) + sum(bool(v.at) for v in judged)
    n, windows = len(labels) + len(judged), window if times else f"{window} answers"
    told = {
        f"{n - timed:,} of {n:,} rows have no time that can be read: all are taken in the order of "
        f"the rows, in windows of {windows}": timed if timed < n else 0,
        f"{found.late:,} labels came after their window had ended and are left out": found.late,
        f"{found.open:,} labels wait for their window to end": found.open,
    }
    notes += [text for text, n in told.items() if n]
    level, reason, guarantee = rule.level_of_floor, "", _promise(counted(moments), judged)
    at = [m.at for m in moments]
    after = np.array([i for i, t in enumerate(at) if rule.is_after(t)], dtype=np.int64)
    before: dict[str, Any] = {}
    if rule.reference is not None:
        mine = [m for m in moments if rule.in_reference(m.at)]
        level, before = math.nan, {"reference": rule.reference, "reference_labels": len(mine)}
        if mine and len(after):
            error /= 2
            base = _reference(counted(mine), confidence=1 - error)
            level = base.low - rule.margin
            before |= {"reference_value": base.value, "reference_low": base.low}
            guarantee &= dataclasses.replace(base.guarantee, error_rate=error, anytime=True)
        reason = "" if level > 0 else f"nothing is known of the reference period {rule.reference}"
        if math.isnan(level) and mine:
            reason = f"no label is behind the reference period {rule.reference} yet"
        elif level <= 0 and mine:
            reason = "the reference's lower bound less the margin is no accuracy"
    upper, high = found.upper[after], found.high[after]
    path = np.zeros(0)
    if level > 0 and len(upper):
        path = detector_path(upper, high, level, run_length=rule.run_length)
    elif not reason:
        reason = "no labels yet"
    alarm = len(path) > 0 and path[-1] >= rule.run_length
    known: dict[str, Any] = {}
    if alarm:
        used = after[: len(path)]
        lower = found.lower[used], found.low[used]
        first, last = change_points(lower, (found.plain[used], 1.0), level, error)
        excess = np.concatenate([[0.0], np.cumsum(found.upper[used] - level)])[first : last + 1]
        likely = last - int(np.argmax(excess[::-1]))
        known = {
            "label": int(used[-1]) + 1,
            "at": at[used[-1]],
            "since": (int(used[first]) + 1, int(used[last]) + 1),
            "since_at": (at[used[first]], at[used[last]]) if times else None,
            "likely": int(used[likely]) + 1,
            "moved": _moved(found, int(used[likely]), int(used[-1]) + 1),
        }
    if any(m.cluster for m in moments):
        failed = Guarantee(
            kind=Kind.HEURISTIC, error_rate=0.0, anytime=True, assumptions=(CLUSTERED,)
        )
        guarantee = (guarantee & failed).given()
    total = error if rule.reference is None else 2 * error
    return Drift(
        subject=system,
        level=level,
        statistic=float(path.max()) if len(path) else math.nan,
        run_length=float(rule.run_length),
        confidence=rule.confidence,
        windows=_windows(found, window),
        method="e-detector" + (", post-stratified by a judge" if judged else ""),
        guarantee=dataclasses.replace(guarantee, error_rate=total, anytime=True),
        counts={
            "labelled": len(moments) + found.open + found.late,
            "used": len(path),
            **({"judged": len({v.item for v in judged})} if judged else {}),
        },
        diagnostics={
            "floor": rule.floor,
            "margin": rule.margin,
            "window": window,
            **before,
            **({"judge": rule.judge, "judge_weights": found.weights[-20:]} if judged else {}),
        },
        notes=tuple(notes),
        reason=reason,
        **known,
    )


def _reference(counts: AccuracyCounts, *, confidence: float) -> Any:
    """A lower bound of the accuracy in the reference period."""
    kind = next(iter(counts.tallies)).design
    more: dict[str, Any] = {"method": "scores"} if kind == "recorded" else {}
    return estimate_accuracy(
        counts, side="lower", confidence=confidence, population="beyond", checks="none", **more
    )


def _promise(counts: AccuracyCounts, judged: Sequence[Called]) -> Guarantee:
    """What the run length and the set for the change rest on."""
    rests = [
        FAIR,
        ONE_CHANGE,
        Assumption(name="independent items"),
        Assumption(name="right verdicts"),
    ]
    if any(t.design == "recorded" for t in counts.tallies):
        rests.append(Assumption(name="recorded propensities"))
    if any(t.design == "uniform" for t in counts.tallies):
        rests.append(Assumption(name="uniform routing"))
    rests += [BLIND] if judged else []
    kind = Kind.FINITE_SAMPLE
    return Guarantee(kind=kind, error_rate=0.0, anytime=True, assumptions=tuple(rests))


def _windows(found: _Scores, window: Window) -> tuple[dict[str, Any], ...]:
    """Accuracy by window with 95 % intervals of their own, to look at; the last ones of many."""
    rows: dict[str, list[int]] = defaultdict(list)
    for i, m in enumerate(found.moments):
        name = str(i // window + 1) if isinstance(window, int) else _name_of_window(m.at, window)
        rows[name].append(i)
    told = []
    for name, places in list(rows.items())[-_MOST_WINDOWS:]:
        low, high = _interval(found, np.array(places))
        value = float(np.clip((found.upper[places].mean() + found.lower[places].mean()) / 2, 0, 1))
        ends = {"first": places[0] + 1, "last": places[-1] + 1}
        told.append(
            {"window": name, **ends, "n": len(places), "value": value, "low": low, "high": high}
        )
    return tuple(told)


def _interval(found: _Scores, at: np.ndarray) -> tuple[float, float]:
    upper, lower = found.upper[at], found.lower[at]
    if set(upper.tolist()) <= {0.0, 1.0}:
        return clopper_pearson(float(upper.sum()), len(at), 0.025, 0.025)
    top, bottom = float(found.high[at].max()), float(found.low[at].min())
    low, _ = betting_interval(equal_together(lower, bottom, math.inf), 0.025, 0.0)
    _, high = betting_interval(equal_together(upper, -math.inf, top), 0.0, 0.025)
    return low, max(low, high)


def _moved(found: _Scores, change: int, end: int) -> tuple[dict[str, Any], ...]:
    """Strata and clusters before the likely change and since, the largest part of the fall first."""
    rows = []
    for what in ("stratum", "cluster"):
        of: dict[str, list[int]] = defaultdict(list)
        for i, m in enumerate(found.moments[:end]):
            of[getattr(m, what)].append(i)
        for name, places in of.items():
            at = np.array(places)
            old, new = found.upper[at[at < change]], found.upper[at[at >= change]]
            if not name or not len(old) or not len(new):
                continue
            row = {"what": what, "name": name, "n_before": len(old), "before": float(old.mean())}
            row |= {"n_since": len(new), "since": float(new.mean())}
            part = len(new) / (end - change) * float(old.mean() - new.mean())
            rows.append({**row, "part_of_fall": part})
    return tuple(sorted(rows, key=lambda row: (-row["part_of_fall"], row["what"], row["name"])))


# evidence


def detect_drift(
    evidence: Evidence,
    *,
    floor: float | None = None,
    reference: str | None = None,
    margin: float = 0.0,
    run_length: float = 10_000,
    window: Window | None = None,
    judge: str | None = None,
    systems: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> dict[str, Drift]:
    """Has the accuracy of each system fallen below a stated level, and since when?

    Labels are taken in the order of their times (column ``at``), else of their rows. Against the
    level a one bets on every score, from every start: M_t = Σ_{j ≤ t} Π_{i=j..t} (1 + θ·(a -
    x_i)/(1 - a)), mixed over a fixed grid of θ, raises an alarm when it reaches ``run_length``.

    Parameters
    ----------
    evidence
        Answers with judgements, or grades, of any kind of label.
    floor, reference
        What accuracy is compared with, one of them: a number, or a period such as ``2026-09`` or
        ``2026-09-01..2026-09-14``. The accuracy of a period enters by its lower bound. Both must be
        stated before the labels that they judge are seen.
    margin
        How far below the floor or the reference is still fine.
    run_length
        The average number of labels until a false alarm is at least this, for each system. It is no
        probability: half of the false alarms may come earlier.
    window
        ``day``, ``week``, ``month``, or a number of answers: windows of the curve, and of the judge.
        Default: days where all rows have times, else 200 answers.
    judge
        A rater of the grades, who graded (almost) every answer: the verdicts are control variates.
    systems
        Which systems; by default all.
    confidence
        Of the set for the change; with a reference together with its lower bound.

    Returns
    -------
    dict
        The name of each system with its :class:`Drift`. The same labels in the same order give the
        same alarm at the same label; labels that are added at the end change nothing before.

    Notes
    -----
    Assumes that which answers get a label has nothing to do with whether they are right, at their
    time; that scores have, given the past, a mean of at least the level while nothing has fallen;
    and for the set that accuracy fell once and labels are independent. If it did, the set holds the
    true change and the alarm is after it, but for a probability of 1 - confidence.

    References
    ----------
    Shin, Ramdas and Rinaldo (2022), "E-detectors: a nonparametric framework for sequential change
    detection"; Saha and Ramdas (2025), "Post-detection inference for sequential changepoint
    localization"; Angelopoulos et al. (2023), Science 382, 669-674 (control variates of a judge).

    Examples
    --------
    >>> right = (["yes"] * 19 + ["no"]) * 20 + ["yes", "no"] * 50
    >>> grades = {"item": list(range(500)), "system": ["a"] * 500, "verdict": right}
    >>> found = detect_drift(Evidence.from_tables(grades=grades), floor=0.8, run_length=1000)["a"]
    >>> found.label, found.since, found.likely
    (426, (349, 422), 400)
    """
    require_type(evidence, Evidence)
    rule = DriftRule(
        floor=floor,
        reference=reference,
        margin=margin,
        run_length=run_length,
        window=window,
        judge=judge,
        confidence=confidence,
    )
    labels, judged = _stream(evidence, judge)
    names = sorted(labels) if systems is None else list(dict.fromkeys(systems))
    unknown = [name for name in names if name not in labels]
    require(not unknown, f"systems must be among {sorted(labels)}; got {unknown}.")
    return {name: drift_of(name, labels[name], judged.get(name, ()), rule) for name in names}


def _stream(
    evidence: Evidence, judge: str | None
) -> tuple[dict[str, list[Moment]], dict[str, list[Called]]]:
    """The labels of each system and what the judge said of it, in their order."""
    places = _items(evidence)
    rows: list[tuple[str, Any, str | None, Label, str]] = []
    rows += [(at, item, None, label, "") for at, item, label in _judgements(evidence, places)]
    graded, judged = _grades(evidence, judge)
    rows += graded
    if rows and all(row[0] for row in rows):
        rows.sort(key=lambda row: row[0])
    given: dict[Any, dict[str, Any]] = defaultdict(dict)
    for item, system, answer in evidence.rows("answers", "item", "system", "answer"):
        given[item][str(system)] = answer
    found: dict[str, list[Moment]] = {s: [] for s in sorted({s for g in given.values() for s in g})}
    seen = set[tuple[Any, str]]()
    for at, item, system, label, cluster in rows:
        place = places.get(item, {})
        answers = given.get(item, {})
        if system is not None:
            answers = {system: answers.get(system, "")}
        for name, answer in answers.items():
            if (item, name) in seen:
                continue
            seen.add((item, name))
            tally = label.meet(answer, system=name)
            where = str(place.get("stratum") or ""), cluster or str(place.get("cluster") or "")
            found.setdefault(name, []).append(Moment(item, tally, at, *where))
    return found, judged


def _table(evidence: Evidence, name: Any, *columns: str) -> list[dict[str, Any]]:
    frame = getattr(evidence, name)
    there = () if frame is None else tuple(c for c in columns if c in frame.columns)
    rows = evidence.rows(name, *there) if there else ()
    return [dict(zip(there, row, strict=True)) for row in rows]


def _items(evidence: Evidence) -> dict[Any, dict[str, Any]]:
    rows = _table(evidence, "items", "item", "n_classes", "stratum", "cluster")
    return {row["item"]: row for row in rows}


def _timed(evidence: Evidence, name: Any, *columns: str) -> list[dict[str, Any]]:
    """Rows in the order of their times, where all have one, else as they stand."""
    rows = _table(evidence, name, *columns, "at")
    for row in rows:
        row["at"] = time_text(row.get("at"))
    if rows and all(row["at"] for row in rows):
        return sorted(rows, key=lambda row: row["at"])
    frame = getattr(evidence, name)
    ordered = not rows or keeps_order(frame)
    rule = "must have a column at, filled, where rows have no order of their own"
    require_evidence(ordered, name, rule, "no times", remedy="Add the times of the labels.")
    return rows


def _judgements(
    evidence: Evidence, places: Mapping[Any, Mapping[str, Any]]
) -> list[tuple[str, Any, Label]]:
    """Time, item and label: the first judgement of each item, or, of sets, the rows of it that
    follow each other.
    """
    recorded = propensities_of(evidence) == "recorded"
    groups: list[tuple[Any, list[dict[str, Any]]]] = []
    for row in _timed(evidence, "judgements", "item", "class", "said", "propensity"):
        if row["said"] == UNSURE:
            continue
        same = evidence.protocol == "sets" and groups and groups[-1][0] == row["item"]
        if same:
            groups[-1][1].append(row)
        else:
            groups.append((row["item"], [row]))
    found, seen = [], set[Any]()
    for item, rows in groups:
        if item in seen:
            continue
        seen.add(item)
        k = places.get(item, {}).get("n_classes") or evidence.n_classes
        require_evidence(k, "n_classes", "must be known", "none", remedy="Pass n_classes=….")
        said: list[Any] = [(r["class"], VERDICTS[r["said"]], r.get("propensity")) for r in rows]
        label = Label.of(said, n_classes=int(k or 0), recorded=recorded)
        if label is not None:
            found.append((rows[0]["at"], item, label))
    return found


def _grades(
    evidence: Evidence, judge: str | None
) -> tuple[list[tuple[str, Any, str | None, Label, str]], dict[str, list[Called]]]:
    """Grades by people as rows of the stream, and those of the judge by system."""
    columns = ("item", "system", "said", "rater", "propensity", "cluster")
    rows = _timed(evidence, "grades", *columns)
    raters = sorted({str(row.get("rater") or "") for row in rows})
    known = judge is None or judge in raters
    require_evidence(known, "judge", f"must be among the raters {raters[:8]}", repr(judge))
    more = [name for name in judges_in(evidence) if name != judge]
    if more and judge is None:
        rule = "must be named where a rater graded every answer beside others"
        raise EvidenceError.of("judge", rule, "none", remedy=f"Pass judge={more[0]!r}.")
    if more:
        rule = "must be the only rater that graded every answer beside others"
        raise EvidenceError.of(
            "judge", rule, repr(judge), remedy=f"Leave out the grades of {more[0]!r}."
        )
    graded: list[tuple[str, Any, str | None, Label, str]] = []
    judged = defaultdict[str, list[Called]](list)
    for row in rows:
        system, said = str(row["system"]), row["said"]
        if judge is not None and str(row.get("rater") or "") == judge:
            judged[system].append(Called(row["item"], float(said == YES), row["at"]))
        elif said != UNSURE:
            verdict: Any = VERDICTS[said]
            label = Label.grade(verdict, propensity=row.get("propensity"))
            graded.append((row["at"], row["item"], system, label, str(row.get("cluster") or "")))
    return graded, dict(judged)
