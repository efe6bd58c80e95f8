"""One result of every type, and some that are awkward: undefined, vacuous, failed, hostile names."""

from __future__ import annotations

import math

from noracle.counts.tally import AccuracyCounts
from noracle.results import (
    Assumption,
    Check,
    Comparison,
    Difference,
    Drift,
    Estimate,
    Guarantee,
    Kind,
    LabelAnalysis,
    Plan,
    Range,
    Ranges,
    Rank,
    Result,
    Routing,
)
from noracle.results.analysis import AnnotatorRow, Rate, TransitionTable

IID = Assumption(name="iid items")
UNIFORM = Assumption(
    name="uniform routing", status="checked", detail="asked classes look uniform", p_value=0.41
)
FINITE = Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=0.05, assumptions=(IID, UNIFORM))
COUNTS = AccuracyCounts.from_counts(
    n_classes=10,
    system="agent-7",
    ordinary=(300, 235),
    complementary=(2700, 2634),
    n_without_answer=3,
)

ESTIMATE = Estimate(
    quantity="accuracy",
    subject="agent-7",
    value=0.8,
    low=0.708,
    high=0.869,
    se=0.041,
    confidence=0.95,
    method="complementary",
    interval="exact",
    guarantee=FINITE,
    counts={**COUNTS.summary(), "unused": {"judgements_without_answers": 4}},
)
UNDEFINED = Estimate(
    quantity="accuracy",
    subject="agent-8",
    value=math.nan,
    low=0.0,
    high=1.0,
    confidence=0.95,
    method="ml",
    interval="exact",
    guarantee=FINITE,
    counts=AccuracyCounts.from_counts(n_classes=10, n_items=7).summary(),
    reason="no labels",
)
HEURISTIC = Estimate(
    quantity="accuracy",
    subject="<script>alert('x')</script>",
    value=-0.031,
    low=0.0,
    high=0.004,
    confidence=0.99,
    side="upper",
    method="ml",
    interval="wald",
    guarantee=Guarantee(
        kind=Kind.HEURISTIC,
        error_rate=0.01,
        anytime=True,
        assumptions=(
            Assumption(
                name="uniform routing",
                status="failed",
                detail="class 3 was asked far too often",
                p_value=2e-7,
            ),
            IID,
        ),
    ),
    notes=("The estimate is not clipped: a value below 0 speaks against uniform routing.",),
)
COMPARISON = Comparison(
    systems=("agent-7", "agent-8", "baseline"),
    differences=(
        Difference(first="agent-7", second="agent-8", value=0.021, low=-0.013, high=0.055, n=3000),
        Difference(first="agent-7", second="baseline", value=0.191, low=0.122, high=0.26, n=3000),
        Difference(first="agent-8", second="baseline", value=0.17, low=0.101, high=0.239, n=3000),
    ),
    ranks=(
        Rank(system="agent-7", best=1, worst=2, value=0.8),
        Rank(system="agent-8", best=1, worst=2, value=0.779),
        Rank(system="baseline", best=3, worst=3, value=0.609),
    ),
    leaders=("agent-7", "agent-8"),
    dropped={"baseline": 1200},
    confidence=0.95,
    method="scores",
    interval="betting",
    guarantee=FINITE,
    counts={"items": 3000},
)
PLAN = Plan(
    goal="half-width",
    wanted=0.02,
    predicted=0.0198,
    buy={"ordinary": 300, "complementary": 9100},
    cost=12100.0,
    confidence=0.95,
    method="cheapest mix",
    interval="exact",
    guarantee=FINITE,
    inputs={"n_classes": 10, "accuracy": 0.8, "cost_ordinary": 10.0, "cost_complementary": 1.0},
    alternatives=(
        {"ordinary": 0, "complementary": 19000, "cost": 19000.0, "predicted": 0.0199},
        {"ordinary": 1560, "complementary": 0, "cost": 15600.0, "predicted": 0.0199},
    ),
)
CHECK = Check(
    name="routing",
    assumption="uniform routing",
    p_value=0.41,
    statistic=8.2,
    finding="the asked classes look uniform",
    method="chi-squared",
    parts=(
        {"class": "A", "observed": 310, "expected": 300.0, "p_value": 0.5},
        {"class": "B", "observed": 290, "expected": 300.0, "p_value": 0.5},
    ),
    counts={"questions": 600},
)
FAILED_CHECK = Check(
    name="yes rate",
    assumption="verdicts are right",
    p_value=3e-9,
    statistic=41.0,
    finding="'yes' was said to 14.2 % of the questions; 10 % were expected",
    method="exact binomial",
)
RANGES = Ranges(
    ranges=(
        Range(name="accuracy of 'agent-7'", low=0.61, high=0.83),
        Range(name="accuracy of 'agent-8'", low=0.0, high=1.0),
    ),
    method="worst case over unsure verdicts",
    guarantee=Guarantee(kind=Kind.LOGICAL, error_rate=0.0),
    counts={"items": 500, "unsure": 12},
)
DRIFT = Drift(
    subject="agent-7",
    level=0.75,
    statistic=10_412.6,
    run_length=10_000.0,
    confidence=0.95,
    label=412,
    at="2026-10-03T18:00:00",
    since=(301, 409),
    since_at=("2026-10-02T18:00:00", "2026-10-03T18:00:00"),
    likely=334,
    windows=(
        {
            "window": "2026-10-01",
            "first": 1,
            "last": 200,
            "n": 200,
            "value": 0.84,
            "low": 0.78,
            "high": 0.89,
        },
        {
            "window": "2026-10-02",
            "first": 201,
            "last": 400,
            "n": 200,
            "value": 0.7,
            "low": 0.63,
            "high": 0.76,
        },
    ),
    moved=(
        {
            "what": "stratum",
            "name": "<b>law</b>",
            "n_before": 90,
            "before": 0.8,
            "n_since": 20,
            "since": 0.3,
            "part_of_fall": 0.12,
        },
    ),
    method="e-detector, post-stratified by a judge",
    guarantee=Guarantee(
        kind=Kind.FINITE_SAMPLE,
        error_rate=0.05,
        anytime=True,
        assumptions=(
            Assumption(name="labels drawn at random at their time"),
            Assumption(name="one fall"),
        ),
    ),
    counts={"labelled": 400, "used": 412, "judged": 4000},
    diagnostics={
        "floor": 0.8,
        "margin": 0.05,
        "window": "day",
        "judge": "gpt",
        "judge_weights": [0.0, 0.52],
    },
    notes=("12 labels wait for their window to end",),
)
ROUTING = Routing(
    rows=(("q17", "C", 0.955), ("q2", "A", 0.005), ("q9", "B", 0.955), ("q4", "B", 0.955)),
    design="targeted",
    epsilon=0.05,
    seed=7,
    systems=("agent-7",),
    counts={"items": 4},
)

ANALYSIS = LabelAnalysis(
    classes=("cat", "<b>dog</b>", "$frog$"),
    noise=Estimate(
        quantity="noise rate",
        subject="labels",
        value=0.125,
        low=0.0032,
        high=0.5265,
        confidence=0.95,
        se=0.125,
        method="labels that rule out the trusted true class (oracle)",
        interval="exact",
        guarantee=Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=0.05, assumptions=(IID,)),
        counts={"items": 8, "labels": 8, "wrong": 1},
    ),
    noise_by_class=(
        Rate(name="cat", hits=0, n=2, items=2, value=0.0, low=0.0, high=0.89),
        Rate(name="<b>dog</b>", hits=1, n=6, items=6, value=1 / 6, low=0.001, high=0.74),
        Rate(name="$frog$", hits=0, n=0, items=0, value=math.nan, low=0.0, high=1.0),
    ),
    shares=tuple(
        Rate(name=name, hits=n, n=8, items=8, value=n / 8, low=0.1, high=0.8, expected=1 / 3)
        for name, n in (("cat", 3), ("<b>dog</b>", 3), ("$frog$", 2))
    ),
    preferences=(
        Rate(
            name="cat",
            hits=3,
            n=5,
            items=5,
            value=0.6,
            low=0.51,
            high=0.97,
            expected=0.5,
            verdict="more",
        ),
        Rate(
            name="<b>dog</b>", hits=1, n=2, items=2, value=0.5, low=0.004, high=0.996, expected=0.5
        ),
        Rate(
            name="$frog$",
            hits=2,
            n=7,
            items=7,
            value=2 / 7,
            low=0.02,
            high=0.49,
            expected=0.5,
            verdict="less",
        ),
    ),
    transitions=(
        TransitionTable(
            source="oracle",
            oracle=True,
            detail="counted on 8 labels",
            counts=((0, 1, 1), (3, 1, 2), (0, 0, 0)),
            matrix=((0.0, 0.5, 0.5), (0.5, 1 / 6, 1 / 3), (math.nan,) * 3),
            reason="no trusted label of an item of class $frog$",
        ),
        TransitionTable(
            source="anchors",
            oracle=False,
            detail="",
            matrix=(),
            reason="anchor points need two items or more",
        ),
    ),
    agreement=Estimate(
        quantity="agreement",
        subject="annotators",
        value=math.nan,
        low=0.0,
        high=1.0,
        confidence=0.95,
        method="pairs",
        interval="betting",
        guarantee=FINITE,
        reason="no item has labels of two annotators",
    ),
    annotators=(
        AnnotatorRow(
            name="ann",
            n_labels=8,
            n_items=8,
            noise=Rate(name="ann", hits=1, n=8, items=8, value=0.125, low=0.003, high=0.53),
            favourite=("cat", "<b>dog</b>"),
            favourite_share=0.375,
            agreement=math.nan,
            pairs=0,
            seconds=4.5,
        ),
    ),
    checks=(CHECK, FAILED_CHECK),
    findings=(
        "Labels rule out the truth in 12.5 % of cases.",
        "The annotators avoid ruling out $frog$.",
    ),
    confidence=0.95,
    method="counts with exact or betting limits",
    oracle=True,
    guarantee=Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=0.05, assumptions=(IID,)),
    counts={"items": 9, "labels": 8},
    notes=("The limits in one table hold together (Bonferroni).",),
)

SAMPLES: dict[str, Result] = {
    "estimate": ESTIMATE,
    "undefined": UNDEFINED,
    "heuristic": HEURISTIC,
    "comparison": COMPARISON,
    "plan": PLAN,
    "check": CHECK,
    "failed-check": FAILED_CHECK,
    "ranges": RANGES,
    "drift": DRIFT,
    "routing": ROUTING,
    "analysis": ANALYSIS,
}
