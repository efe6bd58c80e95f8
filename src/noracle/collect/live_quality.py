"""Gold questions and panel items: how often verdicts are wrong, with exact intervals, and two of
the checks of ``live_checks``.

Gold questions have a known answer. A panel item is put to all K classes; exactly one yes is
expected. Both look like all others.
"""

from __future__ import annotations

import math

import numpy as np

from noracle.bounds.binomial import clopper_pearson
from noracle.bounds.tails import binomial_at_least
from noracle.collect.live_rows import GOLD, NO, PANEL, UNSURE, YES, Project
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
