"""Checks of a running project, and the rates of wrong verdicts on gold questions and panel items."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from noracle.accuracy import check_hits, check_overlap, check_routing, check_yes_rate
from noracle.accuracy.score import binomial_p_value
from noracle.bounds.binomial import binomial_at_least, clopper_pearson
from noracle.collect.live import records
from noracle.collect.live.estimates import UNTOLD, class_limits, running_counts, tallies_of
from noracle.collect.live.records import MAIN, NO, UNSURE, YES, Project, Real, Rows, Whole
from noracle.counts import JudgementCounts
from noracle.counts.tally import Question
from noracle.results import Assumption, Check, Estimate, Guarantee, Kind

Counts = Mapping[str, int]
RIGHT, _LIKE = "right verdicts", "gold like all others"
GOLD_ERROR, PANEL_ERROR = 0.005, 0.015
"""The error of the two checks."""
TOLERATED = 0.01
"""Share of gold questions, and of panel items, that may go wrong without an alarm."""


def gold_outcomes(project: Project) -> tuple[int, int, int, int]:
    """Wrong and all decided gold verdicts on the true class, and on other classes."""
    rows, protocol = project.rows.of(records.GOLD), project.spec.protocol
    truth = np.array([project.truth.get(i, -1) for i in rows.item.tolist()], dtype=np.int64)
    if rows.shown is not None and rows.verdicts is not None:
        right = np.ones((1, 1)) if project.spec.texts else rows.shown
        verdict, is_true = rows.verdicts.ravel(), (right == truth[:, None]).ravel()
    elif protocol == "partitioned":
        verdict, is_true = rows.value, rows.pool == truth
    else:  # a class that was said is right (ordinary) or wrong (ruled out) as a whole
        said, same = rows.value >= 0, rows.value == truth
        bad = said & (~same if protocol == "ordinary" else same)
        return int(bad.sum()), int(said.sum()), 0, 0
    yes, no = verdict == YES, verdict == NO
    parts = (no & is_true, (yes | no) & is_true, yes & ~is_true, (yes | no) & ~is_true)
    return tuple(int(part.sum()) for part in parts)  # type: ignore[return-value]


def _sealed_check(name: str, wrong: int, finding: str, counts: Counts) -> Check:
    """The number of wrong ones only grows, so it is tested against the number that were sealed."""
    p_value = binomial_at_least(wrong, counts["sealed"], TOLERATED)
    method = f"exact binomial against {TOLERATED:.0%} of the {counts['sealed']} that were sealed"
    return _check(name, p_value, float(wrong), finding, method, counts)


def check_gold(project: Project) -> Check | None:
    """Are gold questions answered right?"""
    rows, spec = project.rows.of(records.GOLD), project.spec
    sealed = len(rows.item) * (spec.shown if spec.protocol == "judge-all" else 1)
    if not sealed:
        return None
    false_no, of_true, false_yes, of_other = gold_outcomes(project)
    wrong, n = false_no + false_yes, of_true + of_other
    finding = f"{wrong} of {n} gold verdicts wrong: {false_no} false no, {false_yes} false yes"
    counts = {"answered": n, "wrong": wrong, "sealed": sealed}
    return _sealed_check("gold", wrong, finding, counts)


def panel_outcomes(project: Project) -> tuple[int, int, int, int]:
    """Panel items: sealed, complete, certainly without exactly one yes; and yes too many."""
    rows = project.rows.of(records.PANEL)
    items, place = np.unique(rows.item, return_inverse=True)
    parts = (rows.value == YES, rows.value == UNSURE, rows.done, rows.kind == records.PANEL)
    yes, unsure, done, asked = (np.bincount(place[m], minlength=len(items)) for m in parts)
    complete = done == asked
    broken = (yes >= 2) | (complete & (yes + unsure == 0))
    return len(items), int(complete.sum()), int(broken.sum()), int(np.maximum(yes - 1, 0).sum())


def check_panel(project: Project) -> Check | None:
    """Has every panel item exactly one yes? This sees errors that cancel in the yes rate."""
    sealed, complete, broken, _ = panel_outcomes(project)
    if not sealed:
        return None
    finding = f"{broken} of {complete} complete panel items without exactly one yes"
    counts = {"sealed": sealed, "complete": complete, "broken": broken}
    return _sealed_check("panel", broken, finding, counts)


def _rate(
    project: Project, quantity: str, wrong: int, n: int, rests: str, kind: Kind = Kind.FINITE_SAMPLE
) -> Estimate:
    confidence = project.spec.confidence
    tail = (1 - confidence) / 2
    low, high = clopper_pearson(wrong, n, tail, tail) if n else (0.0, 1.0)
    assumed = (Assumption(name=rests),)
    promise = Guarantee(kind=kind, error_rate=1 - confidence, assumptions=assumed)
    about: Any = {"low": low, "high": high, "confidence": confidence, "guarantee": promise}
    about |= {"method": "share", "interval": "exact", "quantity": quantity, "subject": "verdicts"}
    value, reason = (wrong / n, "") if n else (math.nan, "none answered yet")
    return Estimate(value=value, reason=reason, counts={"wrong": wrong, "n": n}, **about)


def _gold_rates(project: Project) -> tuple[Estimate, Estimate]:
    false_no, of_true, false_yes, of_other = gold_outcomes(project)
    missed = _rate(project, "false no", false_no, of_true, _LIKE)
    return missed, _rate(project, "false yes", false_yes, of_other, _LIKE)


def error_rates(project: Project) -> dict[str, Estimate]:
    """Rates of wrong verdicts with exact intervals, from gold questions and panel items."""
    found: dict[str, Estimate] = {}
    if (project.rows.kind == records.GOLD).any():
        found["gold false no"], found["gold false yes"] = _gold_rates(project)
    sealed, complete, broken, _ = panel_outcomes(project)
    if sealed:
        quantity = "items without exactly one yes"
        found["panel"] = _rate(project, quantity, broken, complete, "iid items")
    return found


def rates_for_correction(project: Project) -> tuple[Estimate, Estimate] | None:
    """False no and false yes: from gold where both are known, else from panel items (HEURISTIC)."""
    if project.spec.protocol != "partitioned":
        return None
    _, of_true, _, of_other = gold_outcomes(project)
    if of_true and of_other:
        return _gold_rates(project)
    sealed, complete, broken, extra = panel_outcomes(project)
    if not sealed or not complete:
        return None
    rows = project.rows.of(records.PANEL)
    _, n_yes = np.unique(rows.item[rows.value == YES], return_counts=True)
    missed, others = max(0, broken - int((n_yes >= 2).sum())), project.spec.n_classes - 1
    rests = ("at most one wrong verdict a panel item", Kind.HEURISTIC)
    false_no = _rate(project, "false no", missed, complete, *rests)
    return false_no, _rate(project, "false yes", extra, complete * others, *rests)


# Do the answers look as the protocol says? All alarms of a project together are false with
# probability at most 5 %, over its whole life.

BUDGET = {"verdicts": 0.01, **dict.fromkeys(("yes rate", "overlap", "class sum"), 0.005)}
BUDGET |= {"routing": 0.0025, "chance hits": 0.0025, "gold": GOLD_ERROR, "panel": PANEL_ERROR}
"""The error of each check; they sum to 5 %."""
_LOOKS, _LOOKS_UNSURE = 40, 8
_SIDE = 7
_ORDER = np.array([1, 0, 2, 2])  # of no, yes, unsure (which is -2): yes first
_MOST_SUMMED = 100

_FALSE_YES, _FALSE_NO = (0.0, 0.005, 0.01, 0.02, 0.04, 0.08), (0.0, 0.05, 0.1, 0.2, 0.4)
_PAIRS = [(fy, fn) for fy in _FALSE_YES for fn in _FALSE_NO if fy or fn]
_RATES = np.sin(np.linspace(0.05, 1, 25) * math.pi / 2) ** 2  # of accuracy under the alternatives


def check_project(project: Project) -> tuple[Check, ...]:
    """All checks that apply to a project, in the order of the table above."""
    protocol, main = project.spec.protocol, project.rows.of(MAIN)
    found: list[Check | None] = []
    if protocol == "partitioned":
        found.append(_routing(project, main))
    uniform = protocol == "partitioned" and main.propensity is None
    if uniform:
        found += [check(project, main) for check in (_verdicts, _at_the_end, _class_sum)]
    for j, name in enumerate(project.answers, start=1):
        found.append(_chance_hits(project, main, name, j))
        found.append(_overlap(project, main, name, j) if uniform else None)
    if protocol == "judge-all":
        found.append(_shown_verdicts(project, main))
    found += [check_gold(project), check_panel(project) if protocol != "ordinary" else None]
    return tuple(c for c in found if c is not None)


def outcome_chances(accuracy: Real, false_yes: float, false_no: float, n_classes: int) -> Real:
    """K times the chances of yes about the answer, yes about another, no about each; by accuracy."""
    a, k = accuracy, n_classes
    hit = a * (1 - false_no) + (1 - a) * false_yes
    miss = (1 - a) * (1 - false_no) + (a + k - 2) * false_yes
    return np.stack([hit, miss, 1 - hit, k - 1 - miss], axis=-1)


def verdict_evidence(counts: Real, n_classes: int) -> Real:
    """Log of the e-value against right verdicts, for rows of the counts of ``outcome_chances``.

    E = mean over alternatives of their likelihood, over the largest likelihood under right
    verdicts. For the true accuracy the quotient with that accuracy below is a non-negative
    martingale that starts at 1; the largest likelihood only makes it smaller. So E ever reaches
    1/error with probability at most error (Ville), for every accuracy. The alternatives are a fixed
    grid of false-yes and false-no rates and accuracies.
    """
    right = outcome_chances(likeliest_accuracy(counts, n_classes), 0.0, 0.0, n_classes)
    null = (counts * np.log(np.maximum(right, 1e-300))).sum(axis=-1)
    return np.asarray(_log_mean(counts, _alternatives(n_classes)) - null)


@functools.lru_cache(maxsize=8)
def _alternatives(n_classes: int) -> Real:
    grid = [outcome_chances(_RATES, fy, fn, n_classes) for fy, fn in _PAIRS]
    return np.asarray(np.log(np.maximum(np.concatenate(grid), 1e-300)))


def likeliest_accuracy(counts: Real, n_classes: int) -> Real:
    """The likeliest accuracy if verdicts are right: larger root of N·A² + β·A = (K-2)·(yes, own answer)."""
    right, wrong, avoided = counts[..., 0], counts[..., 1] + counts[..., 2], counts[..., 3]
    k, n = n_classes, right + wrong + avoided
    beta, gamma = (k - 3) * right - avoided + (k - 2) * wrong, -(k - 2) * right
    root = np.sqrt(np.maximum(beta * beta - 4 * n * gamma, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(beta > 0, -2 * gamma / (beta + root), (root - beta) / (2 * n))
    return np.asarray(np.clip(np.nan_to_num(value), 0.0, 1.0))


def yes_chances(n_classes: int, shown: int) -> tuple[float, Real]:
    """P(some yes) where ``shown`` random classes are judged: if right, and for the alternatives."""
    m, share = shown, shown / n_classes
    none = [share * fn * (1 - fy) ** (m - 1) + (1 - share) * (1 - fy) ** m for fy, fn in _PAIRS]
    return share, 1 - np.array(none)


def yes_evidence(yes: Real, no: Real, n_classes: int, shown: int = 1) -> Real:
    """Log of the e-value against the rate shown/K of questions with a yes."""
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
    """The smallest log e-value over all numbers of hidden yes, in which it is convex."""
    first, last = 0.0, unsure
    while True:
        hidden = np.unique(np.rint(np.linspace(first, last, 101)))
        logs = yes_evidence(yes + hidden, no + unsure - hidden, n_classes, shown)
        at = int(logs.argmin())
        if len(hidden) > last - first:
            return float(logs[at])
        first, last = float(hidden[max(at - 1, 0)]), float(hidden[min(at + 1, len(hidden) - 1)])


def _least_evidence(outcomes: Real, n_classes: int, *, system: bool) -> Real:
    """The smallest log e-value by row over what unsure verdicts may hide, on an ever finer grid."""
    yh, ym, nh, nm, uh, um = outcomes.T
    if not system:
        rows = np.stack([yh + ym, nh + nm, uh + um], axis=-1).tolist()
        return np.array([_least_yes(y, n, u, n_classes) for y, n, u in rows])
    at = reach = np.stack([uh, um]) / 2
    best = np.full(len(outcomes), np.inf)
    side = np.linspace(-1, 1, _SIDE)
    steps = np.stack([x.ravel() for x in np.meshgrid(side, side)])
    while True:
        near = [at[i][:, None] + reach[i][:, None] * steps[i] for i in (0, 1)]
        a, b = (np.rint(np.clip(x, 0.0, u[:, None])) for x, u in zip(near, (uh, um), strict=True))
        hidden = (yh[:, None] + a, ym[:, None] + b, (nh + uh)[:, None] - a, (nm + um)[:, None] - b)
        logs = verdict_evidence(np.stack(hidden, axis=-1), n_classes)
        chosen = logs.argmin(axis=1)
        best = np.minimum(best, logs.min(axis=1))
        if reach.max() * 2 / (_SIDE - 1) <= 1:
            return np.asarray(best)
        at = np.stack([x[np.arange(len(x)), chosen] for x in (a, b)])
        reach = reach * 2.5 / (_SIDE - 1)


def _looks(n: int, looks: int) -> Whole:
    return np.unique(np.linspace(0, n, looks + 1)[1:].astype(int))


def _shown_verdicts(project: Project, main: Rows) -> Check | None:
    """F1 where several classes are judged at once: m of K shown classes hold the truth so often."""
    k, m = project.spec.n_classes, project.spec.shown
    whole = main.where(main.done & (main.place < records.open_places(main, 1)[0]))
    whole = whole.where(whole.firsts)
    n = len(whole.item)
    if n < 2 or whole.verdicts is None:
        return None
    some = (whole.verdicts == YES).any(axis=1)
    open_ = ~some & (whole.verdicts == UNSURE).any(axis=1)
    code = np.where(some, 0, np.where(open_, 2, 1))
    sums = running_counts(code, _looks(n, _LOOKS_UNSURE), 3).astype(float)
    logs = [_least_yes(yes, no, unsure, k, m) for yes, no, unsure in sums.tolist()]
    largest, yes = math.exp(min(max(logs), 600.0)), int(some.sum())
    found = f"{yes} of {n} items with a yes, expected {m} of {k}; evidence {largest:.3g} to 1"
    return _evidence_check(largest, found, {"questions": n, "yes": yes})


def _evidence_check(largest: float, finding: str, counts: Counts) -> Check:
    p_value = min(1.0, 1 / largest) if largest > 0 else 1.0
    return _check("verdicts", p_value, largest, finding, "e-value along the sealed order", counts)


def _verdicts(project: Project, main: Rows) -> Check | None:
    """F1 and F4 along the sealed order, over each item's first question; the largest e-value."""
    k = project.spec.n_classes
    whole = main.where(main.done & (main.place < records.open_places(main, k).min()))
    whole = whole.where(whole.firsts) if project.spec.draws > 1 else whole
    n = len(whole.item)
    if n < 2:
        return None
    looks = _looks(n, _LOOKS_UNSURE if (whole.value == UNSURE).any() else _LOOKS)
    evidence = np.zeros(len(looks))
    known = {n: a for n, a in project.answers.items() if n not in project.late}
    systems: list[Whole | None] = [*known.values()] or [None]
    for answers in systems:
        given = whole.item * 0 if answers is None else answers[whole.item]
        hit = (given == whole.pool) & (answers is not None)
        code = np.where(given >= 0, _ORDER[whole.value] * 2 + ~hit, 6)
        sums = running_counts(code, looks, 7)[:, :6]
        logs = _least_evidence(sums.astype(float), k, system=answers is not None)
        evidence += np.exp(np.minimum(logs, 600.0)) / len(systems)
    largest = float(evidence.max())
    yes, decided = int((whole.value == YES).sum()), int((whole.value != UNSURE).sum())
    found = f"{yes} yes of {decided} in order, expected 1 of {k} each"
    found += f"; evidence against right verdicts {largest:.3g} to 1"
    return _evidence_check(largest, found, {"questions": n, "yes": yes, "decided": decided})


def _check(
    name: str, p: float, value: float, finding: str, method: str, counts: Counts, rests: str = RIGHT
) -> Check:
    """A check that can only refute."""
    seen: Any = {"statistic": value, "finding": finding, "method": method}
    seen |= {"counts": dict(counts), "refutes_only": True, "threshold": BUDGET[name]}
    return Check(name=name, assumption=rests, p_value=p, **seen)


def _routing(project: Project, main: Rows) -> Check | None:
    """The sealed classes against the design, once: they are drawn before anything is known."""
    k, n = project.spec.n_classes, len(main.item)
    if not n:
        return None
    if main.propensity is not None:
        met = zip(main.pool.tolist(), main.propensity.tolist(), strict=True)
        asked = Counter(Question(k, pool, "no", propensity=p) for pool, p in met)
        return _routed(tuple(asked.items()))
    if n < 5 * k and k > _MOST_SUMMED:
        return None  # too few to tell; the routes are proved by the seed
    counted = np.bincount(main.pool, minlength=k).tolist()
    return _routed(tuple((Question(k, c, "no"), n) for c, n in enumerate(counted) if n))


@functools.lru_cache(maxsize=64)
def _routed(questions: tuple[tuple[Question, int], ...]) -> Check:
    """Remembered: sealed classes never change."""
    check = check_routing(JudgementCounts(questions=dict(questions)))
    return dataclasses.replace(check, threshold=BUDGET["routing"])


def _at_the_end(project: Project, main: Rows) -> Check | None:
    """F1 once all main questions are answered; unsure counts as what speaks least against it."""
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
    k, error = project.spec.n_classes, BUDGET["class sum"]
    if k > _MOST_SUMMED or not main.done.any():
        return None
    used = main.where(main.done & (main.place < records.open_places(main, k)[main.pool]))
    parts = (used.value == YES, used.value == UNSURE, used.done)
    yes, unsure, n = (np.bincount(used.pool[m], minlength=k) for m in parts)
    low, high = class_limits(yes, n, unsure, error=error)
    p_value = error / 2 if low > 1 or high < 1 else 1.0
    sums = f"rates of yes sum to between {low:.3f} and {high:.3f} over the classes, expected 1"
    method, counts = "one confidence sequence a class, summed", {"questions": int(n.sum())}
    return _check("class sum", p_value, (low + high) / 2, sums, method, counts)


def _chance_hits(project: Project, main: Rows, name: str, number: int) -> Check | None:
    """F3 over the sealed questions; the j-th system has 6/(πj)² of the error."""
    spec, answers = project.spec, project.answers[name]
    first = main if spec.protocol == "partitioned" else main.where(main.firsts)
    n = int((answers[first.items] >= 0).sum())
    if not n or spec.protocol in ("ordinary", "grade"):
        return None
    if main.propensity is not None:
        asked = dataclasses.replace(main, value=np.where(main.done, main.value, NO))
        told = tallies_of(name, asked, answers, spec.n_classes, main.items)
        found = check_hits(told, protocol="question")
        return _about_system(project, found, "chance hits", name, number)
    chance = (spec.draws if first is main else spec.shown) / spec.n_classes
    hit = answers[first.item] == first.pool
    if first.shown is not None:
        hit = (first.shown == answers[first.item][:, None]).any(axis=1)
    hits = int(hit.sum())
    finding = f"{name}: asked about its answer {hits} times, expected {n * chance:.1f}"
    about = (binomial_p_value(hits, n, chance), hits / n, finding, "exact binomial")
    check = _check("chance hits", *about, {"items": n, "hits": hits}, UNTOLD)
    return _about_system(project, check, "chance hits", name, number)


def _overlap(project: Project, main: Rows, name: str, number: int) -> Check | None:
    """F4 once all main questions are answered."""
    answers, items = project.answers[name], main.items
    early = not main.done.all() or project.spec.draws > 1 or (main.value == UNSURE).any()
    if early or not (answers[items] >= 0).any():
        return None
    found = check_overlap(tallies_of(name, main, answers, project.spec.n_classes, items))
    return _about_system(project, found, "overlap", name, number)


def _about_system(project: Project, check: Check, kind: str, name: str, number: int) -> Check:
    of = f" of {name}" if len(project.answers) > 1 else ""
    threshold = BUDGET[kind] * 6 / (math.pi * number) ** 2
    about: Any = {"name": f"{kind}{of}", "threshold": threshold}
    told = {**check.diagnostics, "system": name}
    return dataclasses.replace(check, **about, diagnostics=told)
