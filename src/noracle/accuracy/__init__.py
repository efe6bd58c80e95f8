"""Accuracy from ordinary, complementary, mixed, biased and noisy labels; comparison; routing;
checks.
"""

from __future__ import annotations

from noracle.accuracy.check import (
    check_grading,
    check_hits,
    check_label_rates,
    check_missing,
    check_overlap,
    check_questions,
    check_routing,
    check_yes_rate,
    checks_for,
    label_checks,
)
from noracle.accuracy.clusters import check_clusters
from noracle.accuracy.compare import Race, compare_systems, race_systems
from noracle.accuracy.drift import detect_drift
from noracle.accuracy.estimate import estimate_accuracies, estimate_accuracy
from noracle.accuracy.judge import check_judge, estimate_with_judges, route_judged
from noracle.accuracy.panel import certify_panel
from noracle.accuracy.route import route_items
from noracle.accuracy.sensitivity import check_sensitivity, range_unsure
from noracle.accuracy.stream import AccuracyStream

__all__ = [
    "estimate_accuracy",
    "estimate_accuracies",
    "estimate_with_judges",
    "check_judge",
    "certify_panel",
    "route_judged",
    "AccuracyStream",
    "detect_drift",
    "compare_systems",
    "race_systems",
    "Race",
    "route_items",
    "checks_for",
    "label_checks",
    "check_routing",
    "check_yes_rate",
    "check_hits",
    "check_questions",
    "check_label_rates",
    "check_grading",
    "check_missing",
    "check_overlap",
    "check_clusters",
    "check_sensitivity",
    "range_unsure",
]
