"""Which item to check next: what one more known answer would do to an alarm or a range."""

from __future__ import annotations

import dataclasses
import functools
import operator
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from noracle.counts.sketch import Sketch
from noracle.logic.cascade import Claims, check_whole, share, sketch_of
from noracle.logic.program import Array, Case, IntegerProgram, Places
from noracle.logic.ranges import range_accuracies
from noracle.logic.solver import MOST_ENTRIES, Solved, entries, relax
from noracle.logic.spec import Spec, as_spec
from noracle.results import Assumption, Guarantee, Kind, Range, Ranges

if TYPE_CHECKING:
    from noracle.evidence.evidence import Evidence


def range_checks(
    evidence: Evidence | Sketch,
    spec: Spec | str,
    *,
    only: str | None = None,
    prevalence: Mapping[str, tuple[int, int]] | None = None,
    most: int = 10,
    time_limit: float = 30.0,
) -> Ranges:
    """Which item to check next: for each pattern of answers, what knowing the true label of one of
    its items would gain.

    Parameters
    ----------
    evidence
        As in :func:`prove_malfunction`.
    spec
        What is claimed; with ``only``, what is trusted.
    only
        A quantity as in :func:`range_accuracies`, such as ``"accuracy of gpt on A"``: the gain is
        how much its range would shrink. By default the gain is about the alarm: how much slack the
        claims would lose (in items, by the linear program).
    prevalence, time_limit
        As in :func:`prove_malfunction`.
    most
        How many patterns to look at closely.

    Returns
    -------
    Ranges
        The patterns with the best first. ``low`` is the gain if the label turns out least useful,
        ``high`` if most. ``diagnostics["rows"]`` has for each pattern the gain by label, what it
        would be on average if each classifier were right equally often (``expected``), and
        ``fires``: the labels that would settle the alarm, which is proved.

    Notes
    -----
    The order is a heuristic: by the labels that settle the alarm, then by ``expected``, then by
    ``high``. With many patterns only those are looked at that the multipliers of the linear program
    (or, with ``only``, their number of items) put first.

    gain(label) = range now - range with the item known to have that label; for the alarm, the slack
    of the claims takes the place of the range.

    Assumptions as in :func:`prove_malfunction`: one true label per item, and what is known of the
    items is true. Nothing about how errors depend on each other.

    References
    ----------
    Corrada-Emmanuel, Parker and Bharadwaj, "A logical alarm for misaligned binary classifiers",
    whose alarm a known answer can fire.

    Examples
    --------
    >>> counts = {("a", "a"): 4, ("a", "b"): 3, ("b", "a"): 2, ("b", "b"): 4}
    >>> sketch = Sketch.from_counts(counts, classifiers=["x", "y"], labels=["a", "b"])
    >>> checks = range_checks(sketch, "accuracy > 0.7")
    >>> checks.ranges[0].name, checks.diagnostics["rows"][0]["fires"]
    ('x=a, y=a', ['b'])
    """
    sketch, most = sketch_of(evidence), check_whole("most", most, 1)
    claims = Claims.read(sketch, as_spec(spec), prevalence, time_limit)
    open_ = np.flatnonzero(sketch.allowed.sum(axis=1) > 1)
    reason = "" if len(open_) else "every true label is known"
    if claims.ask(0.2).status == "alarm":
        reason = "the claims raise an alarm already: no further answer is needed"
    rows: list[dict[str, Any]] = []
    if not reason and only is None:
        slack, order = _order(claims, open_)
        part = 1 / (2 * max(2, len(order)))
        rows = [_alarm_row(claims, g, slack, part) for g in order[:most].tolist()]
    elif not reason and only is not None:
        order = open_[np.argsort(-sketch.n[open_], kind="stable")][:most]
        before = _width(claims, only, max(1e-3, 0.3 * time_limit))[0]
        for place, g in enumerate(order.tolist()):
            until = share(claims.deadline, 1 / (len(order) - place))
            rows.append(_range_row(claims, g, only, before, until))
    rows.sort(key=lambda row: (-len(row["fires"]), -row["expected"], -row["high"]))
    by, proved = "the order of patterns is a rule of thumb", "the labels under 'fires' are proved"
    assumptions = (*claims.guarantee().assumptions, Assumption(name=by, detail=proved))
    names = [_name(row, len(sketch.labels)) for row in rows]
    pairs = zip(names, rows, strict=True)
    return claims.result(
        [Range(name=name, low=row["low"], high=row["high"]) for name, row in pairs],
        method="one more known answer, pattern by pattern",
        subject=f"what one more known answer would gain for {only or 'the alarm'}",
        guarantee=Guarantee(kind=Kind.HEURISTIC, error_rate=0.0, assumptions=assumptions),
        diagnostics={"checks": only or "alarm", "rows": rows},
        reason=reason,
    )


def items_like(evidence: Evidence, checks: Ranges, *, place: int = 0, most: int = 20) -> list[Any]:
    """Items of the evidence with one of the patterns of :func:`range_checks`, at most ``most`` of
    them, in order.

    Items that judgements speak about are left out, because what is known of them may differ.

    Examples
    --------
    >>> from noracle.evidence import Evidence
    >>> from noracle.counts.sketch import count_decisions
    >>> answers = {"item": [1, 1, 2, 2, 3, 3], "system": ["x", "y"] * 3, "answer": ["a", "a", "a", "b", "b", "b"]}
    >>> evidence = Evidence.from_tables(answers=answers, classes=["a", "b"])
    >>> checks = range_checks(count_decisions(evidence), "accuracy >= 1/2")
    >>> checks.ranges[0].name, items_like(evidence, checks)
    ('x=a, y=a', [1])
    """
    import narwhals as nw

    from noracle.counts.count import answers_of
    from noracle.evidence.frames import fetch

    said: Mapping[str, str | None] = checks.diagnostics["rows"][place]["answers"]
    given = [
        (nw.col("system") == system) & (nw.col("answer").cast(nw.String) == answer)
        for system, answer in said.items()
        if answer is not None
    ]
    if not given:
        return []
    frame = answers_of(evidence, list(said)).filter(~nw.col("answer").is_null())
    fits = functools.reduce(operator.or_, given).cast(nw.Int64)
    counted = frame.with_columns(fits=fits).group_by("item").agg(nw.col("fits").sum(), n=nw.len())
    whole = (nw.col("fits") == len(given)) & (nw.col("n") == len(given))
    rows = fetch(counted.filter(whole).select("item"))
    judged: set[Any] = set()
    if evidence.judgements is not None:
        judged = {row[0] for row in fetch(evidence.judgements.select("item"))}
    return sorted({row[0] for row in rows} - judged)[:most]


def with_known(sketch: Sketch, group: int, label: int) -> Sketch:
    """The sketch if one item of a group were known to have a label."""
    n = sketch.n.copy()
    n[group] -= 1
    return Sketch.from_arrays(
        np.concatenate([sketch.patterns, sketch.patterns[[group]]]),
        labels=sketch.labels,
        classifiers=sketch.classifiers,
        allowed=np.concatenate([sketch.allowed, np.eye(len(sketch.labels), dtype=bool)[[label]]]),
        n=np.append(n, 1),
    )


def _relaxed(claims: Claims, part: float) -> tuple[IntegerProgram, Solved | None]:
    """The linear program with "at least" for "more than", so that no row is conditional."""
    rows = (r if r.unless is None else r._replace(at_least=0, unless=None) for r in claims.rows)
    program = IntegerProgram(claims.sketch, tuple(rows))
    if entries(program) > MOST_ENTRIES:
        return program, None
    solved = relax(Case(program), share(claims.deadline, part))
    return program, solved if solved.status == "solved" else None


def _order(claims: Claims, open_: Places) -> tuple[float, Places]:
    """The slack of all claims at once, and the groups in the order of what they promise."""
    sketch = claims.sketch
    promised: Array = sketch.n[open_].astype(np.float64)
    slack = float("nan")
    program, solved = _relaxed(claims, 0.4)
    if solved is not None:
        slack = solved.value
        scores, can = program.scores(solved.weights)[open_], sketch.allowed[open_]
        best, worst = np.where(can, scores, -np.inf), np.where(can, scores, np.inf)
        promised = best.max(axis=1) - worst.min(axis=1)
    return slack, open_[np.argsort(-promised, kind="stable")]


def _if_known(claims: Claims, g: int) -> dict[int, Claims]:
    """The claims if one item of a group were known to have a label, by label."""
    labels = np.flatnonzero(claims.sketch.allowed[g]).tolist()
    sketches = {r: with_known(claims.sketch, g, r) for r in labels}
    return {r: dataclasses.replace(claims, sketch=sketch) for r, sketch in sketches.items()}


def _alarm_row(claims: Claims, g: int, slack: float, part: float) -> dict[str, Any]:
    gains, fires = {}, []
    for r, known in _if_known(claims, g).items():
        if known.ask(part).status == "alarm":
            fires.append(claims.sketch.labels[r])
        solved = _relaxed(known, part)[1] if np.isfinite(slack) else None
        gains[r] = 0.0 if solved is None else max(0.0, round(solved.value - slack, 9))
    return _row(claims.sketch, g, gains, fires)


def _range_row(claims: Claims, g: int, only: str, before: float, until: float) -> dict[str, Any]:
    gains, fires, cases = {}, [], _if_known(claims, g)
    for place, (r, known) in enumerate(cases.items()):
        left = max(1e-3, (until - time.monotonic()) / (len(cases) - place))
        width, contradiction = _width(known, only, left)
        if contradiction:
            fires.append(claims.sketch.labels[r])
        gains[r] = 0.0 if np.isnan(width) else max(0.0, round(before - width, 12))
    return _row(claims.sketch, g, gains, fires)


def _width(claims: Claims, only: str, seconds: float) -> tuple[float, bool]:
    """How wide a range is, and whether the claims contradict each other."""
    known: dict[str, Any] = {"given": claims.spec, "prevalence": claims.bounds}
    found = range_accuracies(claims.sketch, **known, only=only, time_limit=seconds)
    return found.ranges[0].high - found.ranges[0].low, "contradiction" in found.diagnostics


def _row(sketch: Sketch, g: int, gains: Mapping[int, float], fires: list[str]) -> dict[str, Any]:
    pattern, labels = sketch.patterns[g], sketch.labels
    votes = np.bincount(pattern[pattern >= 0], minlength=len(labels))[list(gains)].astype(float)
    votes = votes if votes.any() else np.ones(len(votes))
    said = [None if a < 0 else labels[a] for a in pattern.tolist()]
    return {
        "answers": dict(zip(sketch.classifiers, said, strict=True)),
        "items": int(sketch.n[g]),
        "possible": [labels[r] for r in gains],
        "gain": {labels[r]: v for r, v in gains.items()},
        "expected": float(np.dot(votes / votes.sum(), list(gains.values()))),
        "fires": fires,
        "low": min(gains.values()),
        "high": max(gains.values()),
    }


def _name(row: Mapping[str, Any], n_labels: int) -> str:
    said = [f"{c}={'no answer' if a is None else a}" for c, a in row["answers"].items()]
    some = len(row["possible"]) < n_labels
    return ", ".join(said) + (f"; can be {', '.join(row['possible'])}" if some else "")
