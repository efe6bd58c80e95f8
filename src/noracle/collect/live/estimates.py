"""Intervals of a running project that hold at every look, whatever the classes' speeds, and
whatever hides behind "unsure".

The names are those of the proof in ``docs/explanation/collecting-labels.md``: s_k is the share of
items that the system answered with class k, r_k = P(the truth is k | answered k), A = Σ_k s_k·r_k.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from noracle.accuracy import estimate_accuracy, range_unsure
from noracle.accuracy.score import law_of
from noracle.bounds import binomial as linear
from noracle.bounds.betting import betting_interval, equal_together
from noracle.bounds.binomial import BinomialCell, anytime
from noracle.collect.live import records
from noracle.collect.live.records import MAIN, NO, UNSURE, YES, Project, Rows, SystemView, Whole
from noracle.collect.model import OTHER, ProjectSpec
from noracle.counts import AccuracyCounts, RatingCounts, Tally
from noracle.counts import Cell as Place
from noracle.counts.tally import Verdict, tally
from noracle.errors import ArgumentError
from noracle.results import Assumption, Check, Estimate, Guarantee, Kind
from noracle.superhuman import estimate_agreement

_MOST_SETS = 40
_LONGER = 1.4
_ROUNDING = 1e-12
Rates = tuple[Estimate, Estimate] | None
Checks = Sequence[Check]
_LARGEST = 0.36  # below 1/e, as the proof about unsure verdicts needs


class Hits(NamedTuple):
    """Questions about a system's own answer in the sealed order; ``value`` is a verdict, ``shares[k]`` s_k."""

    pool: Whole
    place: Whole
    value: Whole
    shares: records.Real


def hits_of(main: Rows, answers: Whole, n_classes: int) -> Hits:
    """The hits of a partitioned project; the population are the items with a main question.

    >>> rows = Rows(item=np.arange(4), place=np.arange(4), pool=np.array([0, 1, 0, 1]), kind=np.zeros(4, int), value=np.array([1, 0, 0, 1]),
    ...     unsure=np.zeros(4, bool), held=np.zeros(4, bool), expired=np.zeros(4, int))
    >>> hits = hits_of(rows, np.array([0, 0, 1, 1]), 2)
    >>> hits.place.tolist(), hits.shares.tolist()
    ([0, 3], [0.5, 0.5])
    """
    hit = main.where(answers[main.item] == main.pool)
    return Hits(hit.pool, hit.place, hit.value, answer_shares(main, answers, n_classes))


def answer_shares(main: Rows, answers: Whole, n_classes: int) -> records.Real:
    """Share of the items with a main question that the system answered with each class."""
    items = main.items
    given = answers[items]
    counts = np.bincount(given[(given >= 0) & (given < n_classes)], minlength=n_classes)
    return np.asarray(counts / max(1, len(items)), dtype=np.float64)


def set_error(error: float, n_classes: int, left_out: int) -> float:
    """The part of the error that belongs to one set which leaves so many classes out.

    >>> K = 6
    >>> sum(math.comb(K, j) * set_error(0.05, K, j) for j in range(K)) <= 0.05
    True
    """
    sets = left_out * (left_out + 1) * math.comb(n_classes, left_out) if left_out else 1
    return error / (2 * sets)


def unsure_limits(yes: int, no: int, unsure: int, error: float) -> tuple[float, float]:
    """Limits for the rate of right answers at every look, whatever the unsure verdicts hide.

    >>> unsure_limits(0, 0, 5, 0.05)[0], unsure_limits(80, 20, 0, 0.05)[1] < 0.95
    (0.0, True)
    """
    n = yes + no + unsure
    if not n:
        return 0.0, 1.0
    error = min(error, _LARGEST) if unsure else error
    least, most = (anytime([BinomialCell(n, n_yes)], error) for n_yes in (yes, yes + unsure))
    return least.low, most.high


class SetLimits(NamedTuple):
    """What one set of classes says about the accuracy."""

    left_out: int
    n: int
    low: float
    high: float


def set_limits(
    hits: Hits, open_places: Whole, *, error: float, everything: bool
) -> tuple[SetLimits, ...]:
    """The limits of the sets without the slowest classes; that of all classes if ``everything``."""
    shares, k = hits.shares, len(hits.shares)
    end = int(hits.place.max()) + 1 if len(hits.place) else 0
    opened = np.minimum(np.where(shares > 0, open_places, end), end)
    slow = np.argsort(opened, kind="stable")
    ranks = np.argsort(slow)[hits.pool]
    total, reached = float(shares.sum()), int(opened[slow[0]])
    found = []
    for j in range(0 if everything else 1, min(k, _MOST_SETS)):
        if j and not int(opened[slow[j]]) > _LONGER * reached:
            continue  # the prefix is hardly longer than that of a larger set
        reached = int(opened[slow[j]])
        values = hits.value[(ranks >= j) & (hits.place < reached)]
        low, high = _limits(values, set_error(error, k, j))
        share = float(shares[slow[j:]].sum())
        low = max(0.0, share * low - _ROUNDING)  # outwards, so that rounding excludes nothing
        high = min(1.0, share * high + total - share + _ROUNDING)
        found.append(SetLimits(j, len(values), low, high))
    return tuple(found)


def class_limits(yes: Whole, n: Whole, unsure: Whole, *, error: float) -> tuple[float, float]:
    """Limits for Σ_k P(yes | asked k) at every look: a sequence per class at a K-th of the error."""
    low = high = 0.0
    for y, total, u in zip(yes.tolist(), n.tolist(), unsure.tolist(), strict=True):
        below, above = unsure_limits(y, total - y - u, u, error / len(yes))
        low, high = low + below, high + above
    return low, high


_VERDICTS: dict[int, Verdict] = {YES: "yes", NO: "no", UNSURE: "unsure"}
_SCALE = 1_000_000
_MOST_SEARCHED = 2000
PICKS = "picks uniform among the wrong classes"


def tallies_of(
    name: str, rows: Rows, answers: Whole, n_classes: int, population: Whole
) -> AccuracyCounts:
    """Answered main questions of a partitioned project as tallies, over the items asked about."""
    rows = rows.where(rows.done)
    given = answers[rows.item]
    code = (rows.value + 2) * 4 + (given >= 0) * 2 + (given == rows.pool)
    if rows.propensity is None:
        met = {(c, None): n for c, n in enumerate(np.bincount(code).tolist()) if n}
    else:
        met = Counter(zip(code.tolist(), rows.propensity.tolist(), strict=True))
    place, tallies = Place(name, n_classes), Counter[Tally]()
    for (c, chance), n in met.items():
        tallies[_tally(place, _VERDICTS[c // 4 - 2], bool(c // 2 % 2), bool(c % 2), chance)] += n
    n, answered = len(population), int((answers[population] >= 0).sum())
    return AccuracyCounts(tallies=dict(tallies), items={place: n}, answered={place: answered})


def _tally(place: Place, said: Verdict, answered: bool, hit: bool, chance: float | None) -> Tally:
    inverse = None if chance is None else hit / chance
    return tally(place, said, hit=hit, answered=answered, inverse=inverse)


def resolved(counts: AccuracyCounts, *, best: bool) -> AccuracyCounts:
    """All unsure verdicts for the system (yes to its answer, no to another class), or against it."""
    tallies: Counter[Tally] = Counter()
    for t, n in counts.tallies.items():
        if t.verdict == "unsure":
            chance = None if t.design == "uniform" else 1.0
            verdict: Verdict = "yes" if t.hit == best else "no"
            made = _tally(Place(t.system, t.n_classes), verdict, t.answered, t.hit, chance)
            n_out, hit = made.n_ruled_out, made.ruled_hit
            kept = t._replace(verdict=made.verdict, n_ruled_out=n_out, ruled_hit=hit)
            t = made if chance is None else kept
        tallies[t] += n
    return dataclasses.replace(counts, tallies=dict(tallies))


def partitioned_view(
    project: Project, name: str, *, checks: Checks = (), rates: Rates = None, points: int = 16
) -> SystemView:
    """A system in a partitioned project, uniform or targeted, or in one of grades."""
    spec, answers, k = project.spec, project.answers[name], project.spec.n_classes
    main = project.rows.of(MAIN)
    population, opened = main.items, records.open_places(main, len(spec.pools))
    if spec.protocol == "grade":
        main = asked_once(main, answers)
    whole = main.where(main.done & (main.place < opened.min()))
    prefix = tallies_of(name, whole, answers, k, population)
    recorded = main.propensity is not None
    if recorded:
        sides = (prefix, resolved(prefix, best=False), resolved(prefix, best=True))
        means = (estimate_accuracy(side, method="scores").value for side in sides)
        value, worst, best = means if prefix.tallies else [math.nan] * 3
        absent, method = 0.0, "scores over recorded chances"
    else:
        value, worst, best, absent = weighted_values(main, answers, opened, k)
        method = "maximum likelihood, weighted by completion"
    known = f"classes without an answer hold {absent:.1%} of the answers: only bounds are known"
    reason = "" if not math.isnan(value) else known if main.done.any() else "no answers yet"
    rests: Any = {"counts": prefix, "recorded": recorded, "checks": checks}
    ends = partitioned_limits(main, answers, spec, prefix)
    estimate = make_estimate(spec, name, value, ends, method, reason, **rests)
    view = SystemView(name=name, estimate=estimate, worst=worst, best=best, absent_share=absent)
    if recorded or spec.draws > 1:
        return view
    error, share = (1 - spec.confidence) / 2, _share(main, answers)
    path = _path(whole, answers, k, share, error, estimate, points)
    line, fixed = corrected(name, main, answers, opened, spec, rates), _fixed(project, name, main)
    return dataclasses.replace(view, fixed=fixed, corrected=line, path=path)


def asked_once(main: Rows, answers: Whole) -> Rows:
    """One question of each item of a project of grades, as if the answer was a class: that about the
    system's answer, else one that is chosen whatever its place, so that items stay in random order.
    """
    if main.shown is None or main.verdicts is None:
        raise ArgumentError("rows must show an answer each; got rows of another protocol.")
    asked, verdict = main.shown[:, 0], main.verdicts[:, 0]
    order = np.lexsort((asked, asked != answers[main.item], main.item))
    first = np.sort(order[np.unique(main.item[order], return_index=True)[1]])
    return dataclasses.replace(main, pool=asked, value=verdict).where(first)


def grade_view(project: Project, name: str, **how: Any) -> SystemView:
    """A system whose answers are graded; with all different answers asked about, a grade each.

    Where some are drawn, a grade weighs one over the chance of its question: items on which systems
    agree are asked about more often. Answers that nobody is asked about are open in the interval.
    """
    main, answers = project.rows.of(MAIN), project.answers[name]
    unasked = float((answers[main.items] == OTHER).mean()) if len(main.item) else 0.0
    if not unasked and main.propensity is not None and (main.propensity == 1).all():
        return judge_all_view(project, name, **how)
    view = partitioned_view(project, name, **how)
    if not unasked:
        return view
    reason = f"nobody is asked about {unasked:.1%} of the answers: only bounds are known"
    estimate = dataclasses.replace(view.estimate, value=math.nan, reason=reason)
    best = min(1.0, view.best + unasked)
    return dataclasses.replace(view, estimate=estimate, best=best, absent_share=unasked)


def partitioned_limits(
    main: Rows, answers: Whole, spec: ProjectSpec, prefix: AccuracyCounts
) -> linear.Limits:
    """The interval of a partitioned project, valid at every look."""
    error, k = 1 - spec.confidence, spec.n_classes
    if main.propensity is not None:
        return linear.ordered(*_prefix_limits(prefix, error))
    low, high = 0.0, 1.0
    if spec.draws == 1:
        low, high = _prefix_limits(prefix, set_error(error, k, 0))
    hits, every = hits_of(main, answers, k), spec.draws > 1 or not prefix.tallies
    for limits in set_limits(hits, records.open_places(main, k), error=error, everything=every):
        low, high = max(low, limits.low), min(high, limits.high)
    return linear.ordered(low, high)


def _prefix_limits(counts: AccuracyCounts, error: float) -> tuple[float, float]:
    """The interval over a completed prefix, whatever the unsure verdicts hide."""
    how: Any = {"method": "ml", "interval": "anytime", "confidence": 1 - error}
    if any(t.design == "recorded" for t in counts.tallies):
        how |= {"method": "scores", "interval": "betting"}
    worst = best = estimate_accuracy(resolved(counts, best=False), **how)
    if any(t.verdict == "unsure" for t in counts.tallies):
        best = estimate_accuracy(resolved(counts, best=True), **how)
    return worst.low, best.high


def weighted_values(
    main: Rows, answers: Whole, opened: Whole, n_classes: int, **wrong: float
) -> tuple[float, float, float, float]:
    """The value repaired for unequal completion, its worst and best, and the absent share.

    Each answer before the first gap of its class weighs (questions of the class)/(decided questions
    of the class). Worst and best have all unsure verdicts against and for the system. With a class
    that nobody has answered there are only bounds: its share of the system's answers may be all
    wrong or all right. Rates of wrong verdicts are as in ``label_cells``.
    """
    used = main.where(main.done & (main.place < opened[main.pool]))
    shares = answer_shares(main, answers, n_classes)
    given, decided = answers[used.item], used.value != UNSURE
    hit, there = given == used.pool, given >= 0

    def count(pool: Whole) -> Whole:
        return np.bincount(pool, minlength=n_classes)

    asked, n_used, n_decided = count(main.pool), count(used.pool), count(used.pool[decided])
    missing = (n_decided == 0) & (asked > 0)
    absent = float(shares[missing].sum())
    if missing.any():
        yes, unsure, n = (count(used.pool[hit & m]) for m in (used.value == YES, ~decided, True))
        known = n > 0
        worst = float((shares[known] * yes[known] / n[known]).sum())
        right = float((shares[known] * (yes + unsure)[known] / n[known]).sum())
        return math.nan, worst, right + float(shares[~known].sum()), absent
    by_decided, by_used = asked / np.maximum(n_decided, 1), asked / np.maximum(n_used, 1)

    def value(verdict: Whole, keep: records.Bools, weights: records.Real) -> float:
        w = np.rint(weights[used.pool[keep]] * _SCALE)
        yes, right = verdict[keep] == YES, hit[keep]
        parts = (yes & right, yes & ~right, ~yes & right, ~yes & ~right)
        a, b, c, d = (int(w[part].sum()) for part in parts)
        cells = label_cells(a, b, c, d, n_classes, **wrong)
        return float(shares.sum()) * linear.maximum_likelihood(cells) if cells else math.nan

    middle = value(used.value, decided & there, by_decided)
    against = np.where(decided, used.value, np.where(hit, NO, YES))
    favour = np.where(decided, used.value, np.where(hit, YES, NO))
    return middle, value(against, there, by_used), value(favour, there, by_used), absent


def running_counts(code: Whole, ends: Whole, size: int) -> Whole:
    """How often each code below ``size`` occurs among the first ``ends[i]`` rows; one row per end.

    >>> running_counts(np.array([0, 1, 1, 0]), np.array([2, 4]), 2).tolist()
    [[1, 1], [2, 2]]
    """
    part = np.searchsorted(ends, np.arange(len(code)), side="right")
    inside, n = part < len(ends), len(ends)
    counts = np.bincount(part[inside] * size + code[inside], minlength=n * size)
    return np.asarray(np.cumsum(counts.reshape(n, size), axis=0))


def label_cells(
    yes_hit: int,
    yes_other: int,
    no_hit: int,
    no_other: int,
    n_classes: int,
    *,
    false_no: float = 0.0,
    false_yes: float = 0.0,
) -> list[linear.BinomialCell]:
    """The two kinds of label as binomial counts in the accuracy A among answered items.

    With wrong verdicts the questions are split by what was asked. About the system's answer, yes
    has the chance f + (1 - f - m)·A; about another class f + (1 - f - m)·(1 - A)/(K - 1), with f =
    ``false_yes`` and m = ``false_no``. At f = m = 0 both splits have the same likelihood, because
    the chance of a hit and the chance of a yes are 1/K whatever A is.

    >>> exact, nearly = label_cells(30, 10, 9, 71, 3), label_cells(30, 10, 9, 71, 3, false_yes=1e-12)
    >>> abs(linear.maximum_likelihood(exact) - linear.maximum_likelihood(nearly)) < 1e-9
    True
    """
    law = law_of("no", n_classes)
    if false_no or false_yes:
        told = 1 - false_yes - false_no
        first = BinomialCell(yes_hit + no_hit, yes_hit, false_yes, told)
        slope = told * law.b
        second = BinomialCell(yes_other + no_other, no_other, 1 - false_yes - slope, slope)
    else:
        first = BinomialCell(yes_hit + yes_other, yes_hit)
        second = BinomialCell(no_hit + no_other, no_other, *law)
    return [cell for cell in (first, second) if cell.n]


def _ends(n: int, points: int) -> Whole:
    """The lengths of the shorter prefixes that a chart shows."""
    inner = np.linspace(0, n, points + 1)[1:-1].astype(np.int64)
    return np.unique(inner) if n > 1 and points > 1 else inner[:0]


def _path(
    whole: Rows, answers: Whole, k: int, share: float, error: float, now: Estimate, size: int
) -> tuple[records.Point, ...]:
    """Intervals over shorter prefixes, and the one of now at the end."""
    n = len(whole.item)
    if n < 2 or size < 2:
        return ()
    ends, given = _ends(n, size), answers[whole.item]
    code = np.where(given >= 0, (whole.value + 2) * 2 + (given == whole.pool), 8)
    points = []
    for end, row in zip(ends.tolist(), running_counts(code, ends, 9).tolist(), strict=True):
        um, uh, _, _, nm, nh, ym, yh, _ = row
        worst = best = linear.anytime(label_cells(yh, ym + um, nh + uh, nm, k), error)
        if uh + um:
            best = linear.anytime(label_cells(yh + uh, ym, nh, nm + um, k), error)
        value = share * linear.maximum_likelihood(label_cells(yh, ym, nh, nm, k))
        points.append(
            records.Point(n=end, value=value, low=share * worst.low, high=share * best.high)
        )
    return (*points, records.Point(n=n, value=now.value, low=now.low, high=now.high))


def _fixed(project: Project, name: str, main: Rows) -> Estimate | None:
    """The fixed-n interval over the first ``planned_n`` questions, once all are answered."""
    spec, n = project.spec, project.spec.planned_n
    if n is None or n > len(main.item) or not main.done[:n].all():
        return None
    rows = main.where(np.arange(n))
    counts = tallies_of(name, rows, project.answers[name], spec.n_classes, main.items)
    parts = (tuple(part.items()) for part in (counts.tallies, counts.items, counts.answered))
    return _exact(*parts, spec.confidence)


Pairs = tuple[tuple[Any, int], ...]


@functools.lru_cache(maxsize=256)
def _exact(tallies: Pairs, items: Pairs, answered: Pairs, confidence: float) -> Estimate:
    """Remembered for later looks; with many labels and unsure ones the corners of the anytime interval."""
    counts = AccuracyCounts(tallies=dict(tallies), items=dict(items), answered=dict(answered))
    unsure = counts.total(verdict="unsure")
    if unsure and sum(counts.tallies.values()) > _MOST_SEARCHED:
        estimate = estimate_accuracy(counts, interval="anytime", confidence=confidence)
        low, high = _prefix_limits(counts, 1 - confidence)
        return dataclasses.replace(estimate, low=low, high=high)
    estimate = estimate_accuracy(counts, interval="exact", confidence=confidence)
    if not unsure:
        return estimate
    ranges = range_unsure(counts, confidence=confidence)
    low, high = ranges["interval"].low, ranges["interval"].high
    return dataclasses.replace(estimate, low=low, high=high, guarantee=ranges.guarantee)


def corrected(
    name: str, main: Rows, answers: Whole, opened: Whole, spec: ProjectSpec, rates: Rates
) -> Estimate | None:
    """The value if verdicts are wrong at the rates seen on gold or panel items.

    A sensitivity line without an interval: the rates are estimates, and must be the same for every
    class and for the system's own wrong answers, which may be nearer misses than those of gold items.
    """
    if rates is None:
        return None
    no, yes = (r.value for r in rates)
    if not no + yes < 1:  # so with few gold answers: a verdict says nothing to correct with
        return None
    value = weighted_values(main, answers, opened, spec.n_classes, false_no=no, false_yes=yes)[0]
    if math.isnan(value):
        return None
    detail = "the same for all classes, near misses too"
    one_rate = Assumption(name="one rate of wrong verdicts", detail=detail)
    rests, error = (one_rate, *rates[0].guarantee.assumptions), 1 - spec.confidence
    method = "maximum likelihood, weighted by completion, with the rates of wrong verdicts seen"
    found = make_estimate(spec, name, value, linear.Limits(0.0, 1.0), method, "")
    promise = Guarantee(kind=Kind.HEURISTIC, error_rate=error, assumptions=rests)
    about: Any = {"guarantee": promise, "diagnostics": {"false_no": no, "false_yes": yes}}
    about |= {"notes": ("a sensitivity line: no interval is claimed",), "interval": "none"}
    return dataclasses.replace(found, **about)


def make_estimate(
    spec: ProjectSpec,
    name: str,
    value: float,
    ends: linear.Limits,
    method: str,
    reason: str,
    *,
    counts: AccuracyCounts | None = None,
    kind: Kind = Kind.FINITE_SAMPLE,
    recorded: bool = False,
    assumptions: Sequence[str] = (),
    checks: Sequence[Check] = (),
    quantity: str = "accuracy",
) -> Estimate:
    """A result of the live view; each failed one of ``checks`` takes the promise away."""
    routing = "recorded propensities" if recorded else "uniform routing"
    sealed = "drawn from the committed seed before opening"
    sample = Assumption(name="iid items", detail="the items of the project are a random sample")
    drawn = Assumption(name=routing, status="by-design", detail=sealed)
    rests = (sample, drawn, Assumption(name="right verdicts"))
    others, error = tuple(Assumption(name=each) for each in assumptions), 1 - spec.confidence
    promise = Guarantee(kind=kind, error_rate=error, anytime=True, assumptions=others or rests)
    if checks:  # each failed at a threshold of its own, by which false alarms are shared out
        failed = tuple(
            Assumption(name=c.assumption, status="failed", detail=c.finding, p_value=c.p_value)
            for c in sorted(checks, key=lambda c: (c.p_value, c.name))
        )
        kind = Kind.HEURISTIC
        promise &= Guarantee(kind=kind, error_rate=0.0, anytime=True, assumptions=failed)
    broken = ("no accuracy fits these answers: an assumption is broken",)
    counted = counts.summary() if counts is not None else {}
    about: Any = {"confidence": spec.confidence, "method": method, "interval": "anytime"}
    about |= {"quantity": quantity, "subject": name, "reason": reason, "counts": counted}
    about |= {"guarantee": promise, "notes": broken if ends.empty else ()}
    return Estimate(value=value, low=ends.low, high=ends.high, **about)


UNTOLD = "answers made without the verdicts"
LATE = "uploaded after answers"


def timed(view: SystemView, *, late: bool) -> SystemView:
    """The view, with what is known of when the system came; a late one promises nothing."""
    told = "the events say that it came before the first answer, or was committed to"
    rest = Assumption(name=UNTOLD, status="by-design", detail=told)
    promise = Guarantee(kind=Kind.LOGICAL, error_rate=0.0, anytime=True)
    notes: tuple[str, ...] = ()
    if late:
        rest = Assumption(name=UNTOLD, status="failed", detail=LATE)
        promise = Guarantee(kind=Kind.HEURISTIC, error_rate=0.0)
        notes = (f"{LATE}: it may have been made from the verdicts",)
    promise = dataclasses.replace(promise, assumptions=(rest,))
    parts: dict[str, Any] = {}
    for name in ("estimate", "fixed", "corrected"):
        if (found := getattr(view, name)) is not None:
            known = found.guarantee  # the events say more than an estimator can assume
            rests = tuple(a for a in known.assumptions if a.name != UNTOLD or a.status == "failed")
            known = dataclasses.replace(known, assumptions=rests) & promise
            about: Any = {"guarantee": known, "notes": (*found.notes, *notes)}
            parts[name] = dataclasses.replace(found, **about)
    return dataclasses.replace(view, late=late, **parts)


def _prefix(rows: Rows) -> Rows:
    """The answered main questions before the first gap of the sealed order."""
    return rows.where(rows.done & (rows.place < records.open_places(rows, 1)[0]))


def _share(rows: Rows, answers: Whole) -> float:
    """Share of the items that the system answered."""
    items = rows.items
    return float((answers[items] >= 0).mean()) if len(items) else 0.0


def _ratio(yes: float, n: float, share: float) -> float:
    return share * float(yes) / float(n) if n else math.nan


def judge_all_view(
    project: Project, name: str, *, checks: Checks = (), points: int = 16
) -> SystemView:
    """A system where m random classes are shown and each is judged: each verdict about its answer
    stands for K/m questions, in whatever order people choose among the shown classes. Verdicts about
    one item go together, so only the first of each item enters the interval.
    """
    main, answers, spec = project.rows.of(MAIN), project.answers[name], project.spec
    share, error = _share(main, answers), 1 - spec.confidence
    verdict, hits = shown_verdicts(_prefix(main), answers)
    first, n = verdict[hits.firsts], len(verdict)

    def point(said: Whole, valued: Whole) -> records.Point:
        low, high = _limits(said, error)
        value = _ratio((valued == YES).sum(), (valued != UNSURE).sum(), share)
        return records.Point(n=len(said), value=value, low=share * low, high=share * high)

    now = point(first, verdict)
    path = tuple(point(first[:end], first[:end]) for end in _ends(len(first), points))
    method = f"verdicts on all shown classes, weight K/{spec.shown}, clustered by item"
    graded = spec.protocol == "grade"
    method = "share of the answers graded right" if graded else method
    ends, reason = linear.Limits(now.low, now.high), "" if n else "no verdict about an answer yet"
    how: Any = {"recorded": graded, "checks": checks}
    estimate = make_estimate(spec, name, now.value, ends, method, reason, **how)
    worst, best = (_ratio(m.sum(), n, share) for m in (verdict == YES, verdict != NO))
    path = (*path, now) if len(first) > 1 and points > 1 else ()
    return SystemView(name=name, estimate=estimate, worst=worst, best=best, path=path)


def shown_verdicts(rows: Rows, answers: Whole) -> tuple[Whole, Rows]:
    """Verdicts about the system's answers where these were shown, and the rows they come from."""
    if rows.shown is None or rows.verdicts is None:
        raise ArgumentError("rows must show several classes; got rows of another protocol.")
    at = rows.shown == answers[rows.item][:, None]
    hit = at.any(axis=1)
    return rows.verdicts[hit, at[hit].argmax(axis=1)], rows.where(hit)


def _limits(verdict: Whole, error: float) -> tuple[float, float]:
    yes, no, unsure = (int((verdict == v).sum()) for v in (YES, NO, UNSURE))
    return unsure_limits(yes, no, unsure, error)


def pick_wrong_view(project: Project, name: str) -> SystemView:
    """A system where people rule out a shown class; rests on an assumption that people rarely keep."""
    main, answers, spec = project.rows.of(MAIN), project.answers[name], project.spec
    share, used, law = _share(main, answers), _prefix(main), law_of("no", spec.n_classes)
    answered = answers[used.item] >= 0
    picked = used.where(answered & (used.value >= 0))
    ruled = picked.value == answers[picked.item]
    unsure = int((answered & (used.value < 0)).sum())
    n, wrong = len(ruled), int(ruled.sum())

    def score(bad: int, total: int) -> float:
        return share * law.score(1 - bad / total) if total else math.nan

    first = ruled[picked.firsts]
    ends = linear.Limits(0.0, 1.0)
    if len(first):
        ends = anytime([BinomialCell(len(first), int((~first).sum()), *law)], 1 - spec.confidence)
    ends = linear.Limits(share * ends.low, share * ends.high)
    reason = "" if n else "no class was ruled out yet"
    rests: Any = {"kind": Kind.HEURISTIC, "assumptions": (PICKS, "iid items")}
    method, value = "ruled-out classes, if picked uniformly", score(wrong, n)
    estimate = make_estimate(spec, name, value, ends, method, reason, **rests)
    worst, best = max(0.0, score(wrong + unsure, n + unsure)), min(1.0, score(wrong, n + unsure))
    return SystemView(name=name, estimate=estimate, worst=worst, best=best)


def votes_of(project: Project) -> tuple[Whole, Whole, Whole]:
    """Items of an ordinary project with all their ratings: votes by class, items, unsure ratings."""
    main, k = project.rows.of(MAIN), project.spec.n_classes
    items, place = np.unique(main.item, return_inverse=True)
    votes = np.zeros((len(items), k), dtype=np.int64)
    said = main.value >= 0
    np.add.at(votes, (place[said], main.value[said]), 1)
    parts, n = (main.value == records.UNANSWERED, main.value == UNSURE), len(items)
    missing, unsure = (np.bincount(place[part], minlength=n) for part in parts)
    complete = missing == 0
    return votes[complete], items[complete], unsure[complete]


def ordinary_view(
    project: Project, name: str, votes: Whole, items: Whole, unsure: Whole
) -> SystemView:
    """How often a rating is the system's answer; certificates are made from the export."""
    given, spec = project.answers[name][items], project.spec
    answered = (given >= 0) & (given < votes.shape[1])
    same = votes[np.arange(len(items)), np.where(answered, given, 0)] * answered
    decided = votes.sum(axis=1)
    total, rated = decided + unsure, decided > 0
    value = float((same[rated] / decided[rated]).mean()) if rated.any() else math.nan
    least, most = same / np.maximum(total, 1), (same + unsure * answered) / np.maximum(total, 1)
    tail = (1 - spec.confidence) / 2
    low, _ = betting_interval(equal_together(least, 0.0, 1.0), tail, 0.0)
    _, high = betting_interval(equal_together(most, 0.0, 1.0), 0.0, tail)
    reason = "" if rated.any() else "no item has all its ratings yet"
    rests: Any = {"assumptions": ("iid items",), "quantity": "agreement with the annotators"}
    method, ends = "share of the ratings that are the answer", linear.ordered(low, high)
    estimate = make_estimate(spec, name, value, ends, method, reason, **rests)
    worst, best = (float(s.mean()) if len(s) else math.nan for s in (least, most))
    return SystemView(name=name, estimate=estimate, worst=worst, best=best)


def agreement_of(votes: Whole, confidence: float) -> Estimate | None:
    """How much the annotators agree, over items with two ratings or more; None without such."""
    several = votes[votes.sum(axis=1) >= 2]
    if not len(several):
        return None
    return estimate_agreement(RatingCounts.from_votes(several), confidence=confidence, n_boot=400)
