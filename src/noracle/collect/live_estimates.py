"""The accuracy of one system in a running project.

    protocol      value                                                   interval, valid at every look
    partitioned   maximum likelihood, each answer weighted by 1/(share    completed prefix of the sealed order, and sets of classes that
                  of its class's questions that are decided)              leave out the slow ones (live_sequences)
    targeted      mean of scores over the recorded chances                betting, completed prefix
    judge-all     verdicts on the answer, weight K/m, clustered by item   first such verdict of each item, completed prefix
    pick-wrong    complementary labels if a wrong class is picked         the same; HEURISTIC, because people do not pick so
                  uniformly
    ordinary      share of the ratings that are the system's answer       betting, items with all their ratings

An unsure verdict is never a no: ``worst`` and ``best`` resolve all of them in both ways, and every
interval covers both.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from noracle.accuracy import estimate_accuracy, range_unsure
from noracle.accuracy.score import law_of
from noracle.bounds import linear
from noracle.collect.live_rows import (
    MAIN,
    NO,
    UNSURE,
    YES,
    Bools,
    Project,
    Real,
    Rows,
    Whole,
    open_places,
)
from noracle.collect.live_sequences import answer_shares, hits_of, set_error, set_limits
from noracle.collect.live_view import Point, SystemView
from noracle.collect.model import ProjectSpec
from noracle.counts import AccuracyCounts, Tally
from noracle.counts import Cell as Place
from noracle.counts.label import Verdict, tally
from noracle.results import Assumption, Check, Estimate, Guarantee, Kind

_VERDICTS: dict[int, Verdict] = {YES: "yes", NO: "no", UNSURE: "unsure"}
_SCALE = 1_000_000
_MOST_SEARCHED = 2000
PICKS = "picks uniform among the wrong classes"


# -------------------------------------------------------------------------------------------------------------------
# counts


def tallies_of(
    name: str, rows: Rows, answers: Whole, n_classes: int, population: Whole
) -> AccuracyCounts:
    """Answered main questions of a partitioned project as the tallies of the foundation;
    ``population`` are the items asked about.
    """
    said = rows.done
    given, asked, value = answers[rows.item[said]], rows.pool[said], rows.value[said]
    chances = None if rows.propensity is None else rows.propensity[said]
    there, hit = given >= 0, given == asked
    tallies: dict[Tally, int] = {}
    if chances is None:
        code = (value + 2) * 4 + there * 2 + hit
        for c, n in enumerate(np.bincount(code, minlength=16).tolist()):
            if n:
                tallies[
                    _tally(
                        name, n_classes, _VERDICTS[c // 4 - 2], bool(c % 4 // 2), bool(c % 2), None
                    )
                ] = n
    else:
        for v, t, h, p in zip(
            value.tolist(), there.tolist(), hit.tolist(), chances.tolist(), strict=True
        ):
            tally = _tally(name, n_classes, _VERDICTS[v], t, h, p)
            tallies[tally] = tallies.get(tally, 0) + 1
    place = Place(name, n_classes)
    return AccuracyCounts(
        tallies=tallies,
        items={place: len(population)},
        answered={place: int((answers[population] >= 0).sum())},
    )


def _tally(
    name: str, n_classes: int, verdict: Verdict, answered: bool, hit: bool, chance: float | None
) -> Tally:
    inverse = None if chance is None else hit / chance
    return tally(Place(name, n_classes), verdict, hit=hit, answered=answered, inverse=inverse)


def resolved(counts: AccuracyCounts, *, best: bool) -> AccuracyCounts:
    """All unsure verdicts for the system (yes to its answer, no to another class), or all against
    it.
    """
    tallies: dict[Tally, int] = {}
    for t, n in counts.tallies.items():
        if t.verdict == "unsure":
            yes = t.hit == best
            chance = None if t.design == "uniform" else 1.0
            made = _tally(t.system, t.n_classes, "yes" if yes else "no", t.answered, t.hit, chance)
            t = (
                made
                if chance is None
                else t._replace(
                    verdict=made.verdict, n_ruled_out=made.n_ruled_out, ruled_hit=made.ruled_hit
                )
            )
        tallies[t] = tallies.get(t, 0) + n
    return dataclasses.replace(counts, tallies=tallies)


# --------------------------------------------------------------------------------------------------------------
# partitioned


def partitioned_view(
    project: Project,
    name: str,
    *,
    checks: Sequence[Check] = (),
    rates: tuple[Estimate, Estimate] | None = None,
    points: int = 16,
) -> SystemView:
    """A system in a partitioned project, uniform or targeted."""
    spec, answers = project.spec, project.answers[name]
    main = project.rows.of(MAIN)
    k = spec.n_classes
    population = main.items
    opened = open_places(main, k)
    whole = main.where(main.done & (main.place < opened.min()))
    prefix = tallies_of(name, whole, answers, k, population)
    value, worst, best, absent = weighted_values(main, answers, opened, k)
    recorded = main.propensity is not None
    if recorded:
        value, worst, best = (
            _mean_score(c)
            for c in (prefix, resolved(prefix, best=False), resolved(prefix, best=True))
        )
        absent = 0.0
    ends = partitioned_limits(main, answers, spec, prefix)
    estimate = make_estimate(
        name,
        value,
        ends,
        spec.confidence,
        "scores over recorded chances"
        if recorded
        else "maximum likelihood, weighted by completion",
        prefix,
        Kind.FINITE_SAMPLE,
        _reason(value, main, absent),
        recorded=recorded,
        checks=checks,
    )
    simple, share = (
        not recorded and spec.draws == 1,
        float((answers[population] >= 0).mean()) if len(population) else 0.0,
    )
    return SystemView(
        name=name,
        estimate=estimate,
        worst=worst,
        best=best,
        absent_share=absent,
        fixed=_fixed(project, name, main, population),
        corrected=corrected(name, main, answers, opened, spec, rates) if simple else None,
        path=_path(whole, answers, k, share, (1 - spec.confidence) / 2, estimate, points)
        if simple
        else (),
    )


def _reason(value: float, main: Rows, absent: float) -> str:
    if not math.isnan(value):
        return ""
    return (
        f"classes without an answer hold {absent:.1%} of the answers: only bounds are known"
        if main.done.any()
        else "no answers yet"
    )


def _mean_score(counts: AccuracyCounts) -> float:
    return estimate_accuracy(counts, method="scores").value if counts.tallies else math.nan


def partitioned_limits(
    main: Rows, answers: Whole, spec: ProjectSpec, prefix: AccuracyCounts
) -> linear.Limits:
    """The interval of a partitioned project, valid at every look: see ``live_sequences``."""
    error = 1 - spec.confidence
    if main.propensity is not None:
        return linear.ordered(*_prefix_limits(prefix, error))
    low, high = 0.0, 1.0
    if spec.draws == 1:
        low, high = _prefix_limits(prefix, set_error(error, spec.n_classes, 0))
    opened = open_places(main, spec.n_classes)
    for limits in set_limits(
        hits_of(main, answers, spec.n_classes),
        opened,
        error=error,
        everything=spec.draws > 1 or not prefix.tallies,
    ):
        low, high = max(low, limits.low), min(high, limits.high)
    return linear.ordered(low, high)


def _prefix_limits(counts: AccuracyCounts, error: float) -> tuple[float, float]:
    """The interval over a completed prefix, whatever the unsure verdicts hide."""
    method, interval = (
        ("scores", "betting")
        if any(t.design == "recorded" for t in counts.tallies)
        else ("ml", "anytime")
    )
    sides = (False, True) if any(t.verdict == "unsure" for t in counts.tallies) else (False,)
    found = [
        estimate_accuracy(
            resolved(counts, best=best),
            method=method,  # type: ignore[arg-type]
            interval=interval,  # type: ignore[arg-type]
            confidence=1 - error,
        )
        for best in sides
    ]
    return found[0].low, found[-1].high


def weighted_values(
    main: Rows,
    answers: Whole,
    opened: Whole,
    n_classes: int,
    *,
    false_no: float = 0.0,
    false_yes: float = 0.0,
) -> tuple[float, float, float, float]:
    """The value repaired for unequal completion, the same with all unsure verdicts against and for
    the system, and the share of absent classes.

    Each answer before the first gap of its class weighs (questions of the class)/(decided questions
    of the class), so that every class weighs what it was asked. With a class that nobody has
    answered there is no value, only bounds: its share of the system's answers may be all wrong or
    all right. ``false_no`` and ``false_yes`` are rates of wrong verdicts, as in ``label_cells``.
    """
    used = main.where(main.done & (main.place < opened[main.pool]))
    asked = np.bincount(main.pool, minlength=n_classes)
    shares = answer_shares(main, answers, n_classes)
    share = float(shares.sum())
    decided = used.value != UNSURE
    n_used = np.bincount(used.pool, minlength=n_classes)
    n_decided = np.bincount(used.pool[decided], minlength=n_classes)
    given = answers[used.item]
    hit, there = given == used.pool, given >= 0
    absent = float(shares[(n_decided == 0) & (asked > 0)].sum())
    if ((n_decided == 0) & (asked > 0)).any():
        yes, unsure, n = (
            np.bincount(used.pool[hit & m], minlength=n_classes)
            for m in (used.value == YES, ~decided, np.ones(len(hit), bool))
        )
        known = n > 0
        worst = float((shares[known] * yes[known] / n[known]).sum())
        best = float(
            (shares[known] * (yes + unsure)[known] / n[known]).sum() + shares[~known].sum()
        )
        return math.nan, worst, best, absent
    with np.errstate(divide="ignore"):
        by_decided, by_used = asked / np.maximum(n_decided, 1), asked / np.maximum(n_used, 1)

    def value(verdict: Whole, keep: Bools, weights: Real) -> float:
        w = np.rint(weights[used.pool[keep]] * _SCALE)
        yes, right = verdict[keep] == YES, hit[keep]
        sums = [
            int(w[yes & right].sum()),
            int(w[yes & ~right].sum()),
            int(w[~yes & right].sum()),
            int(w[~yes & ~right].sum()),
        ]
        cells = label_cells(
            sums[0], sums[1], sums[2], sums[3], n_classes, false_no=false_no, false_yes=false_yes
        )
        return share * linear.maximum_likelihood(cells) if cells else math.nan

    middle = value(used.value, decided & there, by_decided)
    against = np.where(decided, used.value, np.where(hit, NO, YES))
    favour = np.where(decided, used.value, np.where(hit, YES, NO))
    return middle, value(against, there, by_used), value(favour, there, by_used), absent


def running_counts(code: Whole, ends: Whole, size: int) -> Whole:
    """How often each code below ``size`` occurs among the first ``ends[i]`` rows, one row an end.

    Examples
    --------
    >>> running_counts(np.array([0, 1, 1, 0]), np.array([2, 4]), 2).tolist()
    [[1, 1], [2, 2]]
    """
    part = np.searchsorted(ends, np.arange(len(code)), side="right")
    inside = part < len(ends)
    counts = np.bincount(part[inside] * size + code[inside], minlength=len(ends) * size).reshape(
        len(ends), size
    )
    return np.asarray(np.cumsum(counts, axis=0))


def label_cells(
    yes_hit: int,
    yes_other: int,
    no_hit: int,
    no_other: int,
    n_classes: int,
    *,
    false_no: float = 0.0,
    false_yes: float = 0.0,
) -> list[linear.Cell]:
    """The two kinds of label as binomial counts in the accuracy A among answered items.

    With wrong verdicts the questions are split by what was asked. About the system's answer, yes
    has the chance f + (1 - f - m)·A; about another class f + (1 - f - m)·(1 - A)/(K - 1), with f =
    ``false_yes`` and m = ``false_no``. At f = m = 0 both splits have the same likelihood, because
    the chance of a hit and the chance of a yes are 1/K whatever A is.

    Examples
    --------
    >>> exact, nearly = label_cells(30, 10, 9, 71, 3), label_cells(30, 10, 9, 71, 3, false_yes=1e-12)
    >>> abs(linear.maximum_likelihood(exact) - linear.maximum_likelihood(nearly)) < 1e-9
    True
    """
    law = law_of("no", n_classes)
    if false_no or false_yes:
        told = 1 - false_yes - false_no
        asked = linear.Cell(yes_hit + no_hit, yes_hit, false_yes, told)
        other = linear.Cell(
            yes_other + no_other, no_other, 1 - false_yes - told * law.b, told * law.b
        )
        return [c for c in (asked, other) if c.n]
    cells = (
        linear.Cell(yes_hit + yes_other, yes_hit),
        linear.Cell(no_hit + no_other, no_other, *law),
    )
    return [c for c in cells if c.n]


def _path(
    whole: Rows, answers: Whole, k: int, share: float, error: float, now: Estimate, size: int
) -> tuple[Point, ...]:
    """Intervals over shorter prefixes, and the one of now at the end."""
    n = len(whole.item)
    if n < 2 or size < 2:
        return ()
    ends = np.unique(np.linspace(0, n, size + 1)[1:-1].astype(np.int64))
    given = answers[whole.item]
    code = np.where(given >= 0, (whole.value + 2) * 2 + (given == whole.pool), 8)
    points = []
    for end, row in zip(ends.tolist(), running_counts(code, ends, 9).tolist(), strict=True):
        um, uh, _, _, nm, nh, ym, yh, _ = row
        worst = best = linear.anytime(label_cells(yh, ym + um, nh + uh, nm, k), error)
        if uh + um:
            best = linear.anytime(label_cells(yh + uh, ym, nh, nm + um, k), error)
        value = linear.maximum_likelihood(label_cells(yh, ym, nh, nm, k))
        points.append(
            Point(n=end, value=share * value, low=share * worst.low, high=share * best.high)
        )
    return (*points, Point(n=n, value=now.value, low=now.low, high=now.high))


def _fixed(project: Project, name: str, main: Rows, population: Whole) -> Estimate | None:
    """The fixed-n interval over the first ``planned_n`` questions of the sealed order, once all are
    answered.
    """
    n = project.spec.planned_n
    if (
        n is None
        or n > len(main.item)
        or not main.done[:n].all()
        or project.spec.draws > 1
        or main.propensity is not None
    ):
        return None
    counts = tallies_of(
        name, main.where(np.arange(n)), project.answers[name], project.spec.n_classes, population
    )
    return _exact(
        tuple(counts.tallies.items()),
        tuple(counts.items.items()),
        tuple(counts.answered.items()),
        project.spec.confidence,
    )


@functools.lru_cache(maxsize=256)
def _exact(
    tallies: tuple[tuple[Tally, int], ...],
    items: tuple[tuple[Place, int], ...],
    answered: tuple[tuple[Place, int], ...],
    confidence: float,
) -> Estimate:
    """Remembered: it is the same at every later look. With unsure verdicts and many labels the
    corners of the anytime interval stand for it.
    """
    counts = AccuracyCounts(tallies=dict(tallies), items=dict(items), answered=dict(answered))
    unsure = counts.total(verdict="unsure")
    if not unsure:
        return estimate_accuracy(counts, interval="exact", confidence=confidence)
    if sum(counts.tallies.values()) > _MOST_SEARCHED:
        estimate = estimate_accuracy(counts, interval="anytime", confidence=confidence)
        low, high = _prefix_limits(counts, 1 - confidence)
        return dataclasses.replace(estimate, low=low, high=high)
    ranges = range_unsure(counts, confidence=confidence)
    estimate = estimate_accuracy(counts, interval="exact", confidence=confidence)
    return dataclasses.replace(
        estimate,
        low=ranges["interval"].low,
        high=ranges["interval"].high,
        guarantee=ranges.guarantee,
    )


def corrected(
    name: str,
    main: Rows,
    answers: Whole,
    opened: Whole,
    spec: ProjectSpec,
    rates: tuple[Estimate, Estimate] | None,
) -> Estimate | None:
    """The value if verdicts are wrong at the rates seen on gold or panel items, from the same
    weighted answers as the value itself.

    A sensitivity line without an interval: the rates are estimates, and they must be the same for
    every class and for the system's own wrong answers, which may be nearer misses than those of
    gold items. With no wrong verdict seen it is the value.
    """
    if rates is None:
        return None
    no, yes = (r.value for r in rates)
    if (
        not no + yes < 1
    ):  # so with few gold answers: a verdict says nothing, and nothing can be corrected
        return None
    value = weighted_values(main, answers, opened, spec.n_classes, false_no=no, false_yes=yes)[0]
    if math.isnan(value):
        return None
    rests = [
        Assumption(
            name="one rate of wrong verdicts", detail="the same for all classes, near misses too"
        ),
        *rates[0].guarantee.assumptions,
    ]
    return Estimate(
        quantity="accuracy",
        subject=name,
        value=value,
        low=0.0,
        high=1.0,
        confidence=spec.confidence,
        interval="none",
        method="maximum likelihood, weighted by completion, with the rates of wrong verdicts seen",
        guarantee=Guarantee(
            kind=Kind.HEURISTIC, error_rate=1 - spec.confidence, assumptions=tuple(rests)
        ),
        diagnostics={"false_no": no, "false_yes": yes},
        notes=("a sensitivity line: no interval is claimed",),
    )


# ---------------------------------------------------------------------------------------------------------------
# a result


def make_estimate(
    name: str,
    value: float,
    ends: linear.Limits,
    confidence: float,
    method: str,
    counts: AccuracyCounts | None,
    kind: Kind,
    reason: str,
    *,
    recorded: bool = False,
    assumptions: Sequence[Assumption] = (),
    checks: Sequence[Check] = (),
    quantity: str = "accuracy",
) -> Estimate:
    """A result of the live view, its promise and what it rests on. ``checks`` are those that
    failed; any of them takes the promise away.
    """
    rests = (
        Assumption(name="iid items", detail="the items of the project are a random sample"),
        Assumption(
            name="recorded propensities" if recorded else "uniform routing",
            status="by-design",
            detail="drawn from the committed seed before opening",
        ),
        Assumption(name="right verdicts"),
    )
    guarantee = Guarantee(
        kind=kind, error_rate=1 - confidence, anytime=True, assumptions=tuple(assumptions) or rests
    )
    if checks:  # each failed at a threshold of its own, by which false alarms are shared out: the smallest p-value stands for all
        failed = [
            Assumption(name=c.assumption, status="failed", detail=c.finding, p_value=c.p_value)
            for c in sorted(checks, key=lambda c: (c.p_value, c.name))
        ]
        guarantee &= Guarantee(
            kind=Kind.HEURISTIC, error_rate=0.0, anytime=True, assumptions=tuple(failed)
        )
    notes = ["no accuracy fits these answers: an assumption is broken"] if ends.empty else []
    return Estimate(
        quantity=quantity,
        subject=name,
        value=value,
        low=ends.low,
        high=ends.high,
        confidence=confidence,
        method=method,
        interval="anytime",
        guarantee=guarantee,
        counts=counts.summary() if counts is not None else {},
        notes=tuple(notes),
        reason=reason,
    )
