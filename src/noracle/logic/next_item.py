"""Which item to check next: what one more known answer would do to the alarm, or to the range of an
accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError
from noracle.logic.cascade import (
    Bounds,
    ask,
    check_limit,
    check_prevalence,
    described,
    promise,
    share,
)
from noracle.logic.program import Array, Case, Program, rows_of
from noracle.logic.ranges import range_accuracies
from noracle.logic.solver import MOST_ENTRIES, entries, relax
from noracle.logic.spec import Spec, as_spec
from noracle.results import Assumption, Guarantee, Kind, Range, Ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from noracle.evidence.evidence import Evidence


def range_checks(
    sketch: Sketch,
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
    sketch
        How often each pattern of answers was given, with what is known of the items.
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

    Assumptions as in :func:`prove_malfunction`: one true label an item, and what is known of the
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
    deadline = check_limit(time_limit)
    spec = as_spec(spec)
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
        raise ArgumentError(f"most must be a whole number of at least 1; got {most!r}.")
    bounds = check_prevalence(sketch, prevalence)
    open_ = np.flatnonzero(sketch.allowed.sum(axis=1) > 1)
    already = ask(sketch, spec, bounds, deadline=share(deadline, 0.2)).status == "alarm"
    if already or not len(open_):
        reason = (
            "the claims raise an alarm already: no further answer is needed"
            if already
            else "every true label is known"
        )
        return _result(sketch, bounds, [], only, reason)
    if only is None:
        slack, order = _order(sketch, spec, bounds, open_, deadline)
        rows = [
            _alarm_row(sketch, spec, bounds, int(g), slack, deadline, len(order))
            for g in order[:most]
        ]
    else:
        order = open_[np.argsort(-sketch.n[open_], kind="stable")]
        before = range_accuracies(
            sketch, given=spec, prevalence=bounds, only=only, time_limit=max(1e-3, 0.3 * time_limit)
        ).ranges[0]
        rows = []
        for place, g in enumerate(order[:most]):
            until = share(deadline, 1 / (min(most, len(order)) - place))
            rows.append(_range_row(sketch, spec, bounds, int(g), only, before, until))
    rows.sort(key=lambda row: (-len(row["fires"]), -row["expected"], -row["high"]))
    return _result(sketch, bounds, rows, only, "")


def items_like(evidence: Evidence, checks: Ranges, *, place: int = 0, most: int = 20) -> list[Any]:
    """Items of the evidence with one of the patterns of :func:`range_checks`, at most ``most`` of
    them, in order.

    Items that judgements speak about are left out, because what is known of them may differ.

    Examples
    --------
    >>> from noracle.evidence import Evidence
    >>> from noracle.counts.decisions import count_decisions
    >>> answers = {"item": [1, 1, 2, 2, 3, 3], "system": ["x", "y"] * 3, "answer": ["a", "a", "a", "b", "b", "b"]}
    >>> evidence = Evidence.from_tables(answers=answers, classes=["a", "b"])
    >>> checks = range_checks(count_decisions(evidence), "accuracy >= 1/2")
    >>> checks.ranges[0].name, items_like(evidence, checks)
    ('x=a, y=a', [1])
    """
    import narwhals as nw

    from noracle.counts.met import answers_of
    from noracle.evidence.frames import fetch

    said: Mapping[str, str | None] = checks.diagnostics["rows"][place]["answers"]
    frame = answers_of(evidence, list(said)).filter(~nw.col("answer").is_null())
    fits: nw.Expr | None = None
    for system, answer in said.items():
        if answer is not None:
            one = (nw.col("system") == system) & (nw.col("answer").cast(nw.String) == answer)
            fits = one if fits is None else fits | one
    if fits is None:
        return []
    counted = (
        frame.with_columns(fits=fits.cast(nw.Int64))
        .group_by("item")
        .agg(nw.col("fits").sum(), n=nw.len())
    )
    wanted = sum(answer is not None for answer in said.values())
    rows = fetch(
        counted.filter((nw.col("fits") == wanted) & (nw.col("n") == wanted)).select("item")
    )
    judged: set[Any] = set()
    if evidence.judgements is not None:
        judged = {row[0] for row in fetch(evidence.judgements.select("item"))}
    return sorted({row[0] for row in rows} - judged)[:most]


def with_known(sketch: Sketch, group: int, label: int) -> Sketch:
    """The sketch if one item of a group were known to have a label."""
    R = len(sketch.labels)
    n = sketch.n.copy()
    n[group] -= 1
    return Sketch.from_arrays(
        np.concatenate([sketch.patterns, sketch.patterns[[group]]]),
        labels=sketch.labels,
        classifiers=sketch.classifiers,
        allowed=np.concatenate([sketch.allowed, np.eye(R, dtype=bool)[[label]]]),
        n=np.append(n, 1),
    )


def _order(
    sketch: Sketch, spec: Spec, bounds: Bounds, open_: NDArray[np.intp], deadline: float
) -> tuple[float, NDArray[np.intp]]:
    """The slack that all claims can have at once, and the groups in the order of what their
    multipliers promise.
    """
    program = _loose(sketch, spec, bounds)
    promised: Array = sketch.n[open_].astype(np.float64)
    slack = float("nan")
    if entries(program) <= MOST_ENTRIES:
        solved = relax(Case(program), share(deadline, 0.4))
        if solved.status == "solved":
            slack = solved.value
            scores, can = program.scores(solved.weights)[open_], sketch.allowed[open_]
            promised = np.where(can, scores, -np.inf).max(axis=1) - np.where(
                can, scores, np.inf
            ).min(axis=1)
    return slack, open_[np.argsort(-promised, kind="stable")]


def _loose(sketch: Sketch, spec: Spec, bounds: Bounds) -> Program:
    """The program with "at least" for "more than", so that no claim depends on which labels occur."""
    rows = [
        row._replace(at_least=0, unless=None) if row.unless is not None else row
        for row in rows_of(sketch, spec, bounds)
    ]
    return Program(sketch, tuple(rows))


def _alarm_row(
    sketch: Sketch, spec: Spec, bounds: Bounds, g: int, slack: float, deadline: float, n_groups: int
) -> dict[str, Any]:
    gains: dict[int, float] = {}
    fires = []
    for r in np.flatnonzero(sketch.allowed[g]).tolist():
        known = with_known(sketch, g, r)
        part = 1 / (2 * max(2, n_groups))
        if ask(known, spec, bounds, deadline=share(deadline, part)).status == "alarm":
            fires.append(sketch.labels[r])
        gains[r] = 0.0
        program = _loose(known, spec, bounds)
        if np.isfinite(slack) and entries(program) <= MOST_ENTRIES:
            solved = relax(Case(program), share(deadline, part))
            gains[r] = (
                max(0.0, round(solved.value - slack, 9)) if solved.status == "solved" else 0.0
            )
    return _row(sketch, g, gains, fires)


def _range_row(
    sketch: Sketch, spec: Spec, bounds: Bounds, g: int, only: str, before: Range, until: float
) -> dict[str, Any]:
    import time

    labels = np.flatnonzero(sketch.allowed[g]).tolist()
    gains, fires = {}, []
    for place, r in enumerate(labels):
        left = max(1e-3, (until - time.monotonic()) / (len(labels) - place))
        after = range_accuracies(
            with_known(sketch, g, r), given=spec, prevalence=bounds, only=only, time_limit=left
        )
        if "contradiction" in after.diagnostics:
            fires.append(sketch.labels[r])
        width = after.ranges[0].high - after.ranges[0].low
        gains[r] = 0.0 if np.isnan(width) else max(0.0, round(before.high - before.low - width, 12))
    return _row(sketch, g, gains, fires)


def _row(
    sketch: Sketch, g: int, gains: Mapping[int, float], fires: Sequence[str]
) -> dict[str, Any]:
    votes = np.bincount(sketch.patterns[g][sketch.patterns[g] >= 0], minlength=len(sketch.labels))[
        list(gains)
    ].astype(np.float64)
    votes = votes if votes.any() else np.ones(len(votes))
    said = {
        c: None if a < 0 else sketch.labels[a]
        for c, a in zip(sketch.classifiers, sketch.patterns[g].tolist(), strict=True)
    }
    return {
        "answers": said,
        "items": int(sketch.n[g]),
        "possible": [sketch.labels[r] for r in gains],
        "gain": {sketch.labels[r]: v for r, v in gains.items()},
        "expected": float(np.dot(votes / votes.sum(), list(gains.values()))),
        "fires": list(fires),
        "low": min(gains.values()),
        "high": max(gains.values()),
    }


def _result(
    sketch: Sketch, bounds: Bounds, rows: list[dict[str, Any]], only: str | None, reason: str
) -> Ranges:
    def name(row: dict[str, Any]) -> str:
        said = ", ".join(
            f"{c}={'no answer' if a is None else a}" for c, a in row["answers"].items()
        )
        return (
            said
            if len(row["possible"]) == len(sketch.labels)
            else f"{said}; can be {', '.join(row['possible'])}"
        )

    known = promise(sketch, bounds)
    order = Assumption(
        name="the order of patterns is a rule of thumb",
        detail="the labels under 'fires' are proved",
    )
    return Ranges(
        ranges=tuple(Range(name=name(row), low=row["low"], high=row["high"]) for row in rows),
        method="one more known answer, pattern by pattern",
        subject=f"what one more known answer would gain for {only or 'the alarm'}",
        guarantee=Guarantee(
            kind=Kind.HEURISTIC, error_rate=0.0, assumptions=(*known.assumptions, order)
        ),
        counts=described(sketch),
        diagnostics={"checks": only or "alarm", "rows": rows},
        reason=reason,
    )
