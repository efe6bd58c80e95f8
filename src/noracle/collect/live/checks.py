"""Gold questions and panel items: how often verdicts are wrong, with exact intervals, and two of
the checks of ``live_checks``.

Gold questions have a known answer. A panel item is put to all K classes; exactly one yes is
expected. Both look like all others.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from noracle.accuracy import check_overlap, check_routing, check_yes_rate
from noracle.accuracy.score import binomial_p_value
from noracle.bounds.binomial import binomial_at_least, clopper_pearson
from noracle.collect.live.estimates import class_limits, running_counts, tallies_of
from noracle.collect.live.records import (
    GOLD,
    MAIN,
    NO,
    PANEL,
    UNSURE,
    YES,
    Project,
    Real,
    Rows,
    Whole,
    open_places,
)
from noracle.counts import JudgementCounts
from noracle.counts.tally import Question
from noracle.results import Assumption, Check, Estimate, Guarantee, Kind

GOLD_ERROR, PANEL_ERROR = 0.005, 0.015
"""The error of the two checks."""
TOLERATED = 0.01
"""Share of gold questions, and of panel items, that may go wrong without an alarm."""


def gold_outcomes(project: Project) -> tuple[int, int, int, int]:
    """Wrong and all decided gold verdicts on the true class, and on other classes: (false no, of,
    false yes, of).
    """
    rows = project.rows.of(GOLD)
    truth = np.array([project.truth.get(i, -1) for i in rows.item.tolist()], dtype=np.int64)
    if (
        project.spec.protocol == "judge-all"
        and rows.shown is not None
        and rows.verdicts is not None
    ):
        verdict, is_true = rows.verdicts.ravel(), (rows.shown == truth[:, None]).ravel()
    elif project.spec.protocol == "partitioned":
        verdict, is_true = rows.value, rows.pool == truth
    else:  # a class that was said is right (ordinary) or wrong (ruled out) as a whole
        said = rows.value >= 0
        ordinary = project.spec.protocol == "ordinary"
        bad = said & ((rows.value != truth) if ordinary else (rows.value == truth))
        return int(bad.sum()), int(said.sum()), 0, 0
    yes, no = verdict == YES, verdict == NO
    return (
        int((no & is_true).sum()),
        int(((yes | no) & is_true).sum()),
        int((yes & ~is_true).sum()),
        int(((yes | no) & ~is_true).sum()),
    )


def check_gold(project: Project) -> Check | None:
    """Are gold questions answered right? The number of wrong ones only grows, so it is tested
    against the number that were sealed.
    """
    rows = project.rows.of(GOLD)
    sealed = len(rows.item) * (project.spec.shown if project.spec.protocol == "judge-all" else 1)
    if not sealed:
        return None
    false_no, of_true, false_yes, of_other = gold_outcomes(project)
    wrong = false_no + false_yes
    return Check(
        name="gold",
        assumption="right verdicts",
        p_value=binomial_at_least(wrong, sealed, TOLERATED),
        statistic=float(wrong),
        finding=f"{wrong} of {of_true + of_other} gold verdicts wrong: {false_no} false no, {false_yes} false yes",
        method=f"exact binomial against {TOLERATED:.0%} of the {sealed} that were sealed",
        threshold=GOLD_ERROR,
        refutes_only=True,
        counts={"answered": of_true + of_other, "wrong": wrong, "sealed": sealed},
    )


def panel_outcomes(project: Project) -> tuple[int, int, int, int]:
    """Panel items: all that were sealed, complete ones, those certainly without exactly one yes,
    and how many yes too many or too few.
    """
    rows = project.rows.of(PANEL)
    items, place = np.unique(rows.item, return_inverse=True)
    if not len(items):
        return 0, 0, 0, 0
    yes, unsure, done = (
        np.bincount(place, weights=m, minlength=len(items))
        for m in (rows.value == YES, rows.value == UNSURE, rows.done)
    )
    asked = np.bincount(place, minlength=len(items))
    complete = done == asked
    broken = (yes >= 2) | (complete & (yes + unsure == 0))
    return len(items), int(complete.sum()), int(broken.sum()), int(np.maximum(yes - 1, 0).sum())


def check_panel(project: Project) -> Check | None:
    """Has every panel item exactly one yes? This sees false yes and false no that cancel in the yes
    rate.
    """
    sealed, complete, broken, _ = panel_outcomes(project)
    if not sealed:
        return None
    return Check(
        name="panel",
        assumption="right verdicts",
        p_value=binomial_at_least(broken, sealed, TOLERATED),
        statistic=float(broken),
        finding=f"{broken} of {complete} complete panel items without exactly one yes",
        threshold=PANEL_ERROR,
        refutes_only=True,
        method=f"exact binomial against {TOLERATED:.0%} of the {sealed} that were sealed",
        counts={"sealed": sealed, "complete": complete, "broken": broken},
    )


def _rate(
    quantity: str, wrong: int, n: int, confidence: float, kind: Kind, detail: str
) -> Estimate:
    tail = (1 - confidence) / 2
    low, high = clopper_pearson(wrong, n, tail, tail) if n else (0.0, 1.0)
    return Estimate(
        quantity=quantity,
        subject="verdicts",
        value=wrong / n if n else math.nan,
        low=low,
        high=high,
        confidence=confidence,
        method="share",
        interval="exact",
        counts={"wrong": wrong, "n": n},
        reason="" if n else "none answered yet",
        guarantee=Guarantee(
            kind=kind, error_rate=1 - confidence, assumptions=(Assumption(name=detail),)
        ),
    )


def error_rates(project: Project) -> dict[str, Estimate]:
    """Rates of wrong verdicts with exact intervals: from gold questions, and of panel items without
    exactly one yes.
    """
    found: dict[str, Estimate] = {}
    confidence = project.spec.confidence
    if (project.rows.kind == GOLD).any():
        false_no, of_true, false_yes, of_other = gold_outcomes(project)
        found["gold false no"] = _rate(
            "false no", false_no, of_true, confidence, Kind.FINITE_SAMPLE, "gold like all others"
        )
        found["gold false yes"] = _rate(
            "false yes", false_yes, of_other, confidence, Kind.FINITE_SAMPLE, "gold like all others"
        )
    sealed, complete, broken, _ = panel_outcomes(project)
    if sealed:
        found["panel"] = _rate(
            "items without exactly one yes",
            broken,
            complete,
            confidence,
            Kind.FINITE_SAMPLE,
            "iid items",
        )
    return found


def rates_for_correction(project: Project) -> tuple[Estimate, Estimate] | None:
    """False no and false yes for the corrected line: from gold where both are known, else from
    panel items (small rates, HEURISTIC).
    """
    if project.spec.protocol != "partitioned":
        return None
    false_no, of_true, false_yes, of_other = gold_outcomes(project)
    confidence = project.spec.confidence
    if of_true and of_other:
        return (
            _rate(
                "false no",
                false_no,
                of_true,
                confidence,
                Kind.FINITE_SAMPLE,
                "gold like all others",
            ),
            _rate(
                "false yes",
                false_yes,
                of_other,
                confidence,
                Kind.FINITE_SAMPLE,
                "gold like all others",
            ),
        )
    sealed, complete, broken, extra = panel_outcomes(project)
    if not sealed or not complete:
        return None
    rows = project.rows.of(PANEL)
    _, place = np.unique(rows.item, return_inverse=True)
    several = int((np.bincount(place, weights=rows.value == YES) >= 2).sum())
    detail = "at most one wrong verdict a panel item"
    return (
        _rate("false no", max(0, broken - several), complete, confidence, Kind.HEURISTIC, detail),
        _rate(
            "false yes",
            extra,
            complete * (project.spec.n_classes - 1),
            confidence,
            Kind.HEURISTIC,
            detail,
        ),
    )


# Do the answers look
# as the protocol says? All alarms of a project together are false with probability at most 5 %,
# over its whole life.


BUDGET: Mapping[str, float] = {
    "verdicts": 0.01,
    "yes rate": 0.005,
    "overlap": 0.005,
    "class sum": 0.005,
    "routing": 0.0025,
    "chance hits": 0.0025,
    "gold": GOLD_ERROR,
    "panel": PANEL_ERROR,
}
"""The error of each check; they sum to 5 %."""
_LOOKS, _LOOKS_UNSURE = 40, 8
_SIDE = 7
_ORDER = np.array([1, 0, 2, 2])  # of no, yes, unsure (which is -2): yes first
_MOST_SUMMED = 100

_FALSE_YES = (0.0, 0.005, 0.01, 0.02, 0.04, 0.08)
_FALSE_NO = (0.0, 0.05, 0.1, 0.2, 0.4)
_RATES = np.sin(np.linspace(0.05, 1, 25) * math.pi / 2) ** 2  # of accuracy under the alternatives


def check_project(project: Project) -> tuple[Check, ...]:
    """All checks that apply to a project, in the order of the table above."""
    if project.spec.protocol == "ordinary":
        return tuple(c for c in (check_gold(project),) if c is not None)
    found: list[Check | None] = []
    if project.spec.protocol == "partitioned":
        main = project.rows.of(MAIN)
        uniform = main.propensity is None
        found.append(_routing(project, main))
        if uniform:
            found += [
                _verdicts(project, main),
                _at_the_end(project, main),
                _class_sum(project, main),
            ]
            found += [
                check
                for j, name in enumerate(project.answers, start=1)
                for check in _of_system(project, main, name, j)
            ]
    if project.spec.protocol == "judge-all":
        found.append(_shown_verdicts(project, project.rows.of(MAIN)))
    found += [check_gold(project), check_panel(project)]
    return tuple(c for c in found if c is not None)


def outcome_chances(accuracy: Real, false_yes: float, false_no: float, n_classes: int) -> Real:
    """Chances of (yes about the answer, yes about another class, no about the answer, no about
    another), times K; one row an accuracy.
    """
    a, k = accuracy, n_classes
    hit, miss = (
        a * (1 - false_no) + (1 - a) * false_yes,
        (1 - a) * (1 - false_no) + (a + k - 2) * false_yes,
    )
    return np.stack([hit, miss, 1 - hit, k - 1 - miss], axis=-1)


def verdict_evidence(counts: Real, n_classes: int) -> Real:
    """Log of the e-value against right verdicts, for rows of four counts (see
    :func:`outcome_chances`) of answered items.

    E = mean over alternatives of their likelihood, over the largest likelihood under right
    verdicts. For the true accuracy the quotient with that accuracy below is a non-negative
    martingale that starts at 1; the largest likelihood only makes it smaller. So E ever reaches
    1/error with probability at most error (Ville), for every accuracy. The alternatives are a fixed
    grid of false-yes and false-no rates and accuracies.
    """
    right = np.maximum(
        outcome_chances(likeliest_accuracy(counts, n_classes), 0.0, 0.0, n_classes), 1e-300
    )
    return np.asarray(
        _log_mean(counts, _alternatives(n_classes)) - (counts * np.log(right)).sum(axis=-1)
    )


@functools.lru_cache(maxsize=8)
def _alternatives(n_classes: int) -> Real:
    grid = [
        outcome_chances(_RATES, fy, fn, n_classes)
        for fy in _FALSE_YES
        for fn in _FALSE_NO
        if fy or fn
    ]
    return np.asarray(np.log(np.maximum(np.concatenate(grid), 1e-300)))


def likeliest_accuracy(counts: Real, n_classes: int) -> Real:
    """The accuracy that maximises the likelihood under right verdicts, for rows of four counts; the
    larger root of N·A² + β·A = (K-2)·(yes about the answer).
    """
    right, wrong, avoided = counts[..., 0], counts[..., 1] + counts[..., 2], counts[..., 3]
    k = n_classes
    beta, gamma = (k - 3) * right - avoided + (k - 2) * wrong, -(k - 2) * right
    root = np.sqrt(np.maximum(beta * beta - 4 * (right + wrong + avoided) * gamma, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(
            beta > 0, -2 * gamma / (beta + root), (root - beta) / (2 * (right + wrong + avoided))
        )
    return np.asarray(np.clip(np.nan_to_num(value), 0.0, 1.0))


def yes_chances(n_classes: int, shown: int) -> tuple[float, Real]:
    """P(some yes) when ``shown`` random classes are judged: under right verdicts, shown/K, and
    under the alternatives.
    """
    m, share = shown, shown / n_classes
    pairs = [(fy, fn) for fy in _FALSE_YES for fn in _FALSE_NO if fy or fn]
    none = [share * fn * (1 - fy) ** (m - 1) + (1 - share) * (1 - fy) ** m for fy, fn in pairs]
    return share, 1 - np.array(none)


def yes_evidence(yes: Real, no: Real, n_classes: int, shown: int = 1) -> Real:
    """Log of the e-value against the rate of questions with a yes, shown/K: for projects without a
    system, and for judge-all.
    """
    share, rates = yes_chances(n_classes, shown)
    counts = np.stack([yes, no], axis=-1)
    if share >= 1:  # all classes are shown: there is a yes each time
        return np.where(no > 0, np.inf, 0.0)
    null = counts @ np.log(np.array([share, 1 - share]))
    return np.asarray(_log_mean(counts, np.log(np.stack([rates, 1 - rates], axis=-1))) - null)


def _log_mean(counts: Real, logs: Real) -> Real:
    total = counts @ logs.T
    top = total.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(total - top).mean(axis=-1)))


def _least_yes(yes: float, no: float, unsure: float, n_classes: int, shown: int = 1) -> float:
    """The smallest log e-value against the yes rate over all numbers of hidden yes. It is convex in
    that number: a coarse search, then a fine one.
    """
    first, last = 0.0, unsure
    while True:
        hidden = np.unique(np.rint(np.linspace(first, last, 101)))
        logs = yes_evidence(yes + hidden, no + unsure - hidden, n_classes, shown)
        at = int(logs.argmin())
        if len(hidden) > last - first:
            return float(logs[at])
        first, last = float(hidden[max(at - 1, 0)]), float(hidden[min(at + 1, len(hidden) - 1)])


def _least_evidence(outcomes: Real, n_classes: int, *, system: bool) -> Real:
    """The smallest log e-value over what unsure verdicts may hide, one a row.

    The columns of ``outcomes`` are yes, no and unsure about the answer and about another class, two
    by two. The smallest value is searched on a grid of the two numbers of hidden yes, which is made
    finer around the best point until its steps are at most one verdict.
    """
    yh, ym, nh, nm, uh, um = (outcomes[:, i] for i in range(6))
    if not system:
        return np.array(
            [
                _least_yes(y, n, u, n_classes)
                for y, n, u in np.stack([yh + ym, nh + nm, uh + um], axis=-1).tolist()
            ]
        )
    at = np.stack([uh, um]) / 2
    reach = np.stack([uh, um]) / 2
    best = np.full(len(outcomes), np.inf)
    steps = np.stack(
        [x.ravel() for x in np.meshgrid(np.linspace(-1, 1, _SIDE), np.linspace(-1, 1, _SIDE))]
    )
    while True:
        a, b = (
            np.rint(np.clip(at[i][:, None] + reach[i][:, None] * steps[i], 0.0, u[:, None]))
            for i, u in enumerate((uh, um))
        )
        counts = np.stack(
            [yh[:, None] + a, ym[:, None] + b, (nh + uh)[:, None] - a, (nm + um)[:, None] - b],
            axis=-1,
        )
        logs = verdict_evidence(counts, n_classes)
        chosen = logs.argmin(axis=1)
        best = np.minimum(best, logs.min(axis=1))
        if reach.max() * 2 / (_SIDE - 1) <= 1:
            return np.asarray(best)
        at = np.stack([x[np.arange(len(x)), chosen] for x in (a, b)])
        reach = reach * 2.5 / (_SIDE - 1)


def _shown_verdicts(project: Project, main: Rows) -> Check | None:
    """F1 where several classes are judged at once: m of K shown classes hold the truth with
    probability m/K.
    """
    spec = project.spec
    whole = main.where(main.done & (main.place < open_places(main, 1)[0]))
    whole = whole.where(whole.firsts)
    n = len(whole.item)
    if n < 2 or whole.verdicts is None:
        return None
    some = (whole.verdicts == YES).any(axis=1)
    open_ = ~some & (whole.verdicts == UNSURE).any(axis=1)
    looks = np.unique(np.linspace(0, n, _LOOKS_UNSURE + 1)[1:].astype(int))
    sums = running_counts(np.where(some, 0, np.where(open_, 2, 1)), looks, 3)
    logs = [
        _least_yes(y, no, u, spec.n_classes, spec.shown) for y, no, u in sums.astype(float).tolist()
    ]
    largest = math.exp(min(max(logs), 600.0))
    return _check(
        "verdicts",
        "right verdicts",
        min(1.0, 1 / largest),
        largest,
        f"{int(some.sum())} of {n} items with a yes, expected {spec.shown} of {spec.n_classes}; evidence {largest:.3g} to 1",
        "e-value along the sealed order",
        refutes_only=True,
        counts={"questions": n, "yes": int(some.sum())},
    )


def _verdicts(project: Project, main: Rows) -> Check | None:
    """F1 and F4 along the sealed order, over the first question of each item; the largest e-value
    that was ever reached counts.
    """
    k = project.spec.n_classes
    whole = main.where(main.done & (main.place < open_places(main, k).min()))
    whole = whole.where(whole.firsts) if project.spec.draws > 1 else whole
    n = len(whole.item)
    if n < 2:
        return None
    unsure = bool((whole.value == UNSURE).any())
    looks = (
        np.unique(np.linspace(0, n, (_LOOKS_UNSURE if unsure else _LOOKS) + 1)[1:].astype(int)) - 1
    )
    evidence = np.zeros(len(looks))
    systems: list[Whole | None] = [*project.answers.values()] or [None]
    for answers in systems:
        hit = np.zeros(n, bool) if answers is None else answers[whole.item] == whole.pool
        there = np.ones(n, bool) if answers is None else answers[whole.item] >= 0
        code = np.where(there, _ORDER[whole.value] * 2 + ~hit, 6)
        sums = running_counts(code, looks + 1, 7)[:, :6]
        logs = _least_evidence(sums.astype(float), k, system=answers is not None)
        evidence += np.exp(np.minimum(logs, 600.0)) / len(systems)
    largest = float(evidence.max())
    yes, decided = int((whole.value == YES).sum()), int((whole.value != UNSURE).sum())
    return _check(
        "verdicts",
        "right verdicts",
        min(1.0, 1 / largest) if largest > 0 else 1.0,
        largest,
        f"{yes} yes of {decided} in order, expected 1 of {k} each; evidence against right verdicts {largest:.3g} to 1",
        "e-value along the sealed order",
        refutes_only=True,
        counts={"questions": n, "yes": yes, "decided": decided},
    )


def _check(
    name: str,
    assumption: str,
    p_value: float,
    statistic: float,
    finding: str,
    method: str,
    *,
    threshold: float | None = None,
    refutes_only: bool = False,
    counts: Mapping[str, int] | None = None,
) -> Check:
    return Check(
        name=name,
        assumption=assumption,
        p_value=p_value,
        statistic=statistic,
        finding=finding,
        method=method,
        refutes_only=refutes_only,
        threshold=BUDGET[name] if threshold is None else threshold,
        counts=dict(counts or {}),
    )


def _routing(project: Project, main: Rows) -> Check | None:
    """The sealed classes against the design, once: they are drawn before anything is known."""
    k = project.spec.n_classes
    if not len(main.item):
        return None
    if main.propensity is None:
        if len(main.item) < 5 * k and k > _MOST_SUMMED:
            return None  # too few to tell; the routes are proved by the seed
        return _uniform_routing(tuple(np.bincount(main.pool, minlength=k).tolist()))
    questions: Counter[Question] = Counter()
    for pool, chance in zip(main.pool.tolist(), main.propensity.tolist(), strict=True):
        questions[Question(k, pool, "no", propensity=chance)] += 1
    return dataclasses.replace(
        check_routing(JudgementCounts(questions=questions)), threshold=BUDGET["routing"]
    )


@functools.lru_cache(maxsize=64)
def _uniform_routing(asked: tuple[int, ...]) -> Check:
    """Remembered: sealed classes never change."""
    questions = {Question(len(asked), c, "no"): n for c, n in enumerate(asked) if n}
    return dataclasses.replace(
        check_routing(JudgementCounts(questions=questions)), threshold=BUDGET["routing"]
    )


def _at_the_end(project: Project, main: Rows) -> Check | None:
    """F1 over all main questions, once all are answered; unsure verdicts count as what speaks least
    against it.
    """
    if not main.done.all() or not len(main.item) or project.spec.draws > 1:
        return None
    k, n = project.spec.n_classes, len(main.item)
    yes, unsure = int((main.value == YES).sum()), int((main.value == UNSURE).sum())
    likely = min(max(round(n / k), yes), yes + unsure)
    questions = {Question(k, 0, "yes"): likely, Question(k, 0, "no"): n - likely}
    check = check_yes_rate(JudgementCounts(questions={q: c for q, c in questions.items() if c}))
    return dataclasses.replace(check, threshold=BUDGET["yes rate"])


def _class_sum(project: Project, main: Rows) -> Check | None:
    """F2 with every class at its own speed."""
    k = project.spec.n_classes
    if k > _MOST_SUMMED or not main.done.any():
        return None
    used = main.where(main.done & (main.place < open_places(main, k)[main.pool]))
    yes, unsure, n = (
        np.bincount(used.pool[m], minlength=k)
        for m in (used.value == YES, used.value == UNSURE, np.ones(len(used.item), bool))
    )
    error = BUDGET["class sum"]
    low, high = class_limits(yes, n, unsure, error=error)
    broken = low > 1 or high < 1
    return _check(
        "class sum",
        "right verdicts",
        error / 2 if broken else 1.0,
        (low + high) / 2,
        f"rates of yes sum to between {low:.3f} and {high:.3f} over the classes, expected 1",
        "one confidence sequence a class, summed",
        refutes_only=True,
        counts={"questions": int(n.sum())},
    )


def _of_system(project: Project, main: Rows, name: str, number: int) -> list[Check]:
    """F3 over the sealed questions, and F4 once all are answered; the j-th system has 6/(πj)² of
    the error.
    """
    k, answers, part = project.spec.n_classes, project.answers[name], 6 / (math.pi * number) ** 2
    items = main.items
    n, hits = int((answers[items] >= 0).sum()), int((answers[main.item] == main.pool).sum())
    found = []
    of = f" of {name}" if len(project.answers) > 1 else ""
    if n:
        chance = project.spec.draws / k
        found.append(
            _check(
                f"chance hits{of}",
                "uniform routing",
                binomial_p_value(hits, n, chance),
                hits / n,
                f"{name}: asked about its answer {hits} times, expected {n * chance:.1f}",
                "exact binomial",
                threshold=BUDGET["chance hits"] * part,
                counts={"items": n, "hits": hits},
            )
        )
    if main.done.all() and project.spec.draws == 1 and n and not (main.value == UNSURE).any():
        check = check_overlap(tallies_of(name, main, answers, k, items))
        found.append(
            dataclasses.replace(check, name=f"overlap{of}", threshold=BUDGET["overlap"] * part)
        )
    return found
