"""Do the answers look as the protocol says? All alarms of a project together are false with
probability at most 5 %, over its whole life.

    check          what                                                         error   how it survives looking
    verdicts       F1 P(yes) = 1/K, F4 ordinary = complementary, one after the  1.00 %  e-value, every look of the sealed order
                   other in the sealed order
    yes rate       F1 over all questions                                        0.50 %  once, when all are answered
    overlap        F4 over all questions                                        0.50 %  once, when all are answered; j-th system 6/(πj)²
    class sum      F2 Σ_k P(yes | asked k) = 1, at the speeds of the classes    0.50 %  one sequence a class
    routing        sealed classes against the design                            0.25 %  once, at sealing
    chance hits    F3 P(asked = answer) = s/K over the sealed questions         0.25 %  once a system; j-th system 6/(πj)²
    gold           wrong answers to questions with known truth                  0.50 %  the count only grows: its last value is tested
    panel          items put to all K classes without exactly one yes           1.50 %  the count only grows: its last value is tested

The null of the first three is that verdicts are right where they are not "unsure"; unsure verdicts
may hide anything, and the p-value is the largest over what they may hide. For gold and panel it is
that at most 1 % of the questions, or items, go wrong: slips are human. A p-value of an e-value E is
1/E.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from noracle.accuracy import check_overlap, check_routing, check_yes_rate
from noracle.accuracy.strata import binomial_p_value
from noracle.collect.live_estimates import running_counts, tallies_of
from noracle.collect.live_quality import GOLD_ERROR, PANEL_ERROR, check_gold, check_panel
from noracle.collect.live_rows import MAIN, UNSURE, YES, Project, Real, Rows, Whole, open_places
from noracle.collect.live_sequences import class_limits
from noracle.counts import JudgementCounts
from noracle.counts.tallies import Question
from noracle.results import Check

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


# ------------------------------------------------------------------------------------------------------------------
# verdicts


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


# -------------------------------------------------------------------------------------------------------------
# other checks


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
