"""The view of a system where several classes are shown at once (judge-all, pick-wrong), and where
the class itself is said (ordinary).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from noracle.accuracy.score import law_of
from noracle.bounds import linear
from noracle.bounds.betting import Score, betting_interval, equal_together
from noracle.collect.live_estimates import PICKS, make_estimate
from noracle.collect.live_rows import (
    MAIN,
    NO,
    UNANSWERED,
    UNSURE,
    YES,
    Project,
    Real,
    Rows,
    Whole,
    open_places,
)
from noracle.collect.live_sequences import unsure_limits
from noracle.collect.live_view import Point, SystemView
from noracle.counts import RatingCounts
from noracle.errors import ArgumentError
from noracle.results import Assumption, Check, Estimate, Kind
from noracle.superhuman import estimate_agreement


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
