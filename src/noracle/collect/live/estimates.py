"""Intervals of a running project that hold at every look, whatever the classes' speeds, and
whatever hides behind "unsure".

Write s_k for the share of items that the system answered with class k (known from its answers
alone), r_k = P(the truth is k | answered k), so that A = Σ_k s_k·r_k. For a set S of classes let
r_S = Σ_S s_k·r_k / s_S. The hits of S are the questions about a class of S that is the answer.

**One set.** Given the answers, each hit of S is right with probability r_S, independently, in the
sealed order: the class asked about is drawn uniformly and the places at random, and an item has one
hit at most. So the likelihood-mixture sequence of
:func:`noracle.bounds.binomial.anytime` over the hits of S holds for *all* prefixes of the sealed order together with probability 1 - e. The
prefix that is complete for all classes of S may depend on anything, also on answers, because all
prefixes are covered. Then A is in [s_S·low, s_S·high + (1 - s_S - share without an answer)]: the
classes outside S contribute between nothing and their share of the answers.

**All sets at once.** Which classes are slow is seen only in the data. So the error e is divided
over all sets beforehand: one half for S = all classes, and e/(2·j·(j+1)·C(K, j)) for each of the
C(K, j) sets that leave j classes out; the sum over all sets is at most e. The intersection of the
intervals of *any* sets, chosen in any way, is then valid. We take those that leave out the j
slowest classes, j = 0, 1, 2, …

**All classes.** For S = all classes and one question an item both kinds of label enter the
likelihood (``estimate_accuracy``).

**Unsure.** Let every unsure verdict hide an unknown one. Each choice of hidden verdicts gives
counts, and the interval of the true choice is valid; so the union over all choices is. The union is
found at two corners. A label is a factor of the likelihood: h(A) = 1 - A (times a constant) if it
speaks against the system, g(A) = A or A + K - 2 if for it. Let L be the likelihood of the other
labels, Ā the mean of A under the density L/∫L. Since g and h are linear, E_g(A)/E_h(A) =
[g(Ā)/h(Ā)]·[h(A)/g(A)], which is above 1 if and only if A < Ā: below Ā the verdict against the
system keeps every A that the other keeps. Moreover each set contains its own mean: for a
log-concave density on [0, 1] the value at the mean is at least 1/e of the largest one, so E(mean)
<= e < 1/error. The mean with h lies below Ā, that with g above. So if the lower limit with g is
below Ā, the one with h is no higher; and otherwise the one with h is at most its mean, hence at
most Ā. By induction all verdicts against the system give the lowest lower limit, and likewise all
for it the highest upper limit.

Assumes iid items (given the answers), right verdicts, and that the sealed order is kept within each
class.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from noracle.accuracy import estimate_accuracy, range_unsure
from noracle.accuracy.score import law_of
from noracle.bounds import binomial as linear
from noracle.bounds.betting import Score, betting_interval, equal_together
from noracle.bounds.binomial import Cell, anytime
from noracle.collect.live.records import (
    MAIN,
    NO,
    UNANSWERED,
    UNSURE,
    YES,
    Bools,
    Point,
    Project,
    Real,
    Rows,
    SystemView,
    Whole,
    open_places,
)
from noracle.collect.model import ProjectSpec
from noracle.counts import AccuracyCounts, RatingCounts, Tally
from noracle.counts import Cell as Place
from noracle.counts.tally import Verdict, tally
from noracle.errors import ArgumentError
from noracle.results import Assumption, Check, Estimate, Guarantee, Kind
from noracle.superhuman import estimate_agreement

_MOST_SETS = 40
_LONGER = 1.4
_ROUNDING = 1e-12
_LARGEST = 0.36  # below 1/e, as the proof about unsure verdicts needs


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """The questions about a system's own answer, in the sealed order, and the shares of its answers
    over the population.

    ``value`` is the verdict (or unsure). ``shares[k]`` is s_k.
    """

    pool: Whole
    place: Whole
    value: Whole
    shares: Real


def hits_of(main: Rows, answers: Whole, n_classes: int) -> Hits:
    """The hits of a partitioned project; the population are the items with a main question.

    Examples
    --------
    >>> rows = Rows(item=np.arange(4), place=np.arange(4), pool=np.array([0, 1, 0, 1]), kind=np.zeros(4, int), value=np.array([1, 0, 0, 1]),
    ...     unsure=np.zeros(4, bool), held=np.zeros(4, bool), expired=np.zeros(4, int))
    >>> hits = hits_of(rows, np.array([0, 0, 1, 1]), 2)
    >>> hits.place.tolist(), hits.shares.tolist()
    ([0, 3], [0.5, 0.5])
    """
    hit = answers[main.item] == main.pool
    return Hits(
        pool=main.pool[hit],
        place=main.place[hit],
        value=main.value[hit],
        shares=answer_shares(main, answers, n_classes),
    )


def answer_shares(main: Rows, answers: Whole, n_classes: int) -> Real:
    """Share of the items with a main question that the system answered with each class."""
    items = main.items
    given = answers[items]
    counts = np.bincount(given[(given >= 0) & (given < n_classes)], minlength=n_classes)
    return np.asarray(counts / max(1, len(items)), dtype=np.float64)


def set_error(error: float, n_classes: int, left_out: int) -> float:
    """The part of the error that belongs to one set which leaves so many classes out.

    Examples
    --------
    >>> K = 6
    >>> sum(math.comb(K, j) * set_error(0.05, K, j) for j in range(K)) <= 0.05
    True
    """
    return (
        error / 2
        if not left_out
        else error / (2 * left_out * (left_out + 1) * math.comb(n_classes, left_out))
    )


def unsure_limits(yes: int, no: int, unsure: int, error: float) -> tuple[float, float]:
    """Limits for the rate of right answers that hold at every look, whatever the unsure verdicts
    hide.

    Examples
    --------
    >>> unsure_limits(0, 0, 5, 0.05)[0], unsure_limits(80, 20, 0, 0.05)[1] < 0.95
    (0.0, True)
    """
    n = yes + no + unsure
    if not n:
        return 0.0, 1.0
    error = min(error, _LARGEST) if unsure else error
    return anytime([Cell(n, yes)], error).low, anytime([Cell(n, yes + unsure)], error).high


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetLimits:
    """What one set of classes says about the accuracy."""

    left_out: int
    n: int
    low: float
    high: float


def set_limits(
    hits: Hits, open_places: Whole, *, error: float, everything: bool
) -> tuple[SetLimits, ...]:
    """The limits of the sets that leave out the slowest classes; the set of all classes too if
    ``everything``.

    Classes that the system never answers with need not be complete: they are taken as the quickest.
    """
    shares = hits.shares
    k = len(shares)
    end = int(hits.place.max()) + 1 if len(hits.place) else 0
    opened = np.minimum(np.where(shares > 0, open_places, end), end)
    slow = np.argsort(opened, kind="stable")
    rank = np.empty(k, dtype=np.int64)
    rank[slow] = np.arange(k)
    ranks = rank[hits.pool]
    total = float(shares.sum())
    found = []
    reached = int(opened[slow[0]])
    for j in range(0 if everything else 1, min(k, _MOST_SETS)):
        if j and not int(opened[slow[j]]) > _LONGER * reached:
            continue  # the prefix is hardly longer than that of a larger set
        reached = int(opened[slow[j]])
        inside = (ranks >= j) & (hits.place < opened[slow[j]])
        values = hits.value[inside]
        yes, no, unsure = (int((values == v).sum()) for v in (YES, NO, UNSURE))
        low, high = unsure_limits(yes, no, unsure, set_error(error, k, j))
        share = float(shares[slow[j:]].sum())
        ends = (
            max(0.0, share * low - _ROUNDING),
            min(1.0, share * high + total - share + _ROUNDING),
        )  # outwards, so that rounding excludes nothing
        found.append(SetLimits(left_out=j, n=yes + no + unsure, low=ends[0], high=ends[1]))
    return tuple(found)


def class_limits(yes: Whole, n: Whole, unsure: Whole, *, error: float) -> tuple[float, float]:
    """Limits for Σ_k P(yes | asked k) at every look: one sequence a class at a K-th of the error,
    summed. Without answers: [0, 1].
    """
    low = high = 0.0
    for y, total, u in zip(yes.tolist(), n.tolist(), unsure.tolist(), strict=True):
        below, above = unsure_limits(y, total - y - u, u, error / len(yes))
        low, high = low + below, high + above
    return low, high


# The accuracy of one system in a running project.


_VERDICTS: dict[int, Verdict] = {YES: "yes", NO: "no", UNSURE: "unsure"}
_SCALE = 1_000_000
_MOST_SEARCHED = 2000
PICKS = "picks uniform among the wrong classes"


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


# The view of a system
# where several classes are shown at once (judge-all, pick-wrong), and where the class itself is
# said (ordinary).


def _prefix(rows: Rows) -> Rows:
    """The answered main questions before the first gap of the sealed order."""
    return rows.where(rows.done & (rows.place < open_places(rows, 1)[0]))


def _share(rows: Rows, answers: Whole) -> float:
    """Share of the items that the system answered."""
    items = rows.items
    return float((answers[items] >= 0).mean()) if len(items) else 0.0


def _ratio(yes: float, n: float, share: float) -> float:
    return share * yes / n if n else math.nan


def judge_all_view(
    project: Project, name: str, *, checks: Sequence[Check] = (), points: int = 16
) -> SystemView:
    """A system where m random classes are shown and each is judged.

    A = s·P(yes about the answer | the answer is shown): each such verdict stands for K/m questions.
    It does not matter in which order, or how, people choose among the shown classes, since all are
    judged. Verdicts about one item go together, so only the first of each item enters the interval.
    """
    main, answers, spec = project.rows.of(MAIN), project.answers[name], project.spec
    share, used = _share(main, answers), _prefix(main)
    verdict, hits = shown_verdicts(used, answers)
    value = _ratio(float((verdict == YES).sum()), float((verdict != UNSURE).sum()), share)
    worst = _ratio(float((verdict == YES).sum()), float(len(verdict)), share)
    best = _ratio(float((verdict != NO).sum()), float(len(verdict)), share)
    first = verdict[hits.firsts]
    low, high = _limits(first, 1 - spec.confidence)
    path = []
    if len(first) > 1 and points > 1:
        for n in np.unique(np.linspace(0, len(first), points + 1)[1:-1].astype(int)):
            below, above = _limits(first[:n], 1 - spec.confidence)
            said = first[:n]
            path.append(
                Point(
                    n=int(n),
                    value=_ratio(float((said == YES).sum()), float((said != UNSURE).sum()), share),
                    low=share * below,
                    high=share * above,
                )
            )
        path.append(Point(n=len(first), value=value, low=share * low, high=share * high))
    estimate = make_estimate(
        name,
        value,
        linear.Limits(share * low, share * high),
        spec.confidence,
        f"verdicts on all shown classes, weight K/{spec.shown}, clustered by item",
        None,
        Kind.FINITE_SAMPLE,
        "" if len(verdict) else "no verdict about an answer yet",
        checks=checks,
    )
    return SystemView(name=name, estimate=estimate, worst=worst, best=best, path=tuple(path))


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
    """A system where people rule out one of the shown classes: training data. The estimate rests on
    an assumption that people rarely keep.
    """
    main, answers, spec = project.rows.of(MAIN), project.answers[name], project.spec
    share, used = _share(main, answers), _prefix(main)
    law = law_of("no", spec.n_classes)
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
        ends = linear.anytime(
            [linear.Cell(len(first), int((~first).sum()), *law)], 1 - spec.confidence
        )
    estimate = make_estimate(
        name,
        score(wrong, n),
        linear.Limits(share * ends.low, share * ends.high),
        spec.confidence,
        "ruled-out classes, if picked uniformly",
        None,
        Kind.HEURISTIC,
        "" if n else "no class was ruled out yet",
        assumptions=(Assumption(name=PICKS), Assumption(name="iid items")),
    )
    worst, best = max(0.0, score(wrong + unsure, n + unsure)), min(1.0, score(wrong, n + unsure))
    return SystemView(name=name, estimate=estimate, worst=worst, best=best)


def votes_of(project: Project) -> tuple[Whole, Whole, Whole]:
    """Ratings of an ordinary project: votes by item and class, items, and the unsure ratings of
    each; items with all their ratings.
    """
    main, k = project.rows.of(MAIN), project.spec.n_classes
    items, place = np.unique(main.item, return_inverse=True)
    missing = np.bincount(place, weights=main.value == UNANSWERED, minlength=len(items))
    votes = np.zeros((len(items), k), dtype=np.int64)
    said = main.value >= 0
    np.add.at(votes, (place[said], main.value[said]), 1)
    unsure = np.bincount(place, weights=main.value == UNSURE, minlength=len(items)).astype(np.int64)
    complete = missing == 0
    return votes[complete], items[complete], unsure[complete]


def ordinary_view(
    project: Project, name: str, votes: Whole, items: Whole, unsure: Whole
) -> SystemView:
    """How often a rating is the system's answer; a certificate against the annotators is made from
    the export.
    """
    given = project.answers[name][items]
    answered = (given >= 0) & (given < votes.shape[1])
    same = (
        np.where(answered, votes[np.arange(len(items)), np.where(answered, given, 0)], 0)
        if len(items)
        else np.zeros(0, dtype=np.int64)
    )
    total = votes.sum(axis=1) + unsure
    rated = total > unsure
    value = float((same[rated] / votes.sum(axis=1)[rated]).mean()) if rated.any() else math.nan
    low_scores, high_scores = (
        same / np.maximum(total, 1),
        (same + unsure * answered) / np.maximum(total, 1),
    )
    error = 1 - project.spec.confidence
    low, _ = betting_interval(_scores(low_scores), error / 2, 0.0)
    _, high = betting_interval(_scores(high_scores), 0.0, error / 2)
    estimate = make_estimate(
        name,
        value,
        linear.ordered(low, high),
        project.spec.confidence,
        "share of the ratings that are the answer",
        None,
        Kind.FINITE_SAMPLE,
        "" if rated.any() else "no item has all its ratings yet",
        assumptions=(Assumption(name="iid items"),),
        quantity="agreement with the annotators",
    )
    worst, best = (float(s.mean()) if len(s) else math.nan for s in (low_scores, high_scores))
    return SystemView(name=name, estimate=estimate, worst=worst, best=best)


def _scores(values: Real) -> list[Score]:
    return equal_together(values, 0.0, 1.0)


def agreement_of(votes: Whole, confidence: float) -> Estimate | None:
    """How much the annotators agree, over items with two ratings or more; None without such items."""
    several = votes[votes.sum(axis=1) >= 2]
    if not len(several):
        return None
    return estimate_agreement(RatingCounts.from_votes(several), confidence=confidence, n_boot=400)
