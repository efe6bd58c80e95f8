"""noracle: how good is an AI system when there is no answer key?

The flow is evidence → counts → bounds → estimators → results → report. Start with :class:`Evidence` and :func:`estimate_accuracy`.
"""

from __future__ import annotations

from noracle._version import __version__
from noracle.accuracy import (
    AccuracyStream,
    Race,
    check_overlap,
    check_routing,
    check_sensitivity,
    check_yes_rate,
    compare_systems,
    estimate_accuracy,
    plan_labels,
    race_systems,
    range_unsure,
    route_items,
)
from noracle.counts import AccuracyCounts, JudgementCounts, PatternCounts, count_accuracy, count_judgements, count_patterns
from noracle.errors import (
    ArgumentError,
    AssumptionError,
    EvidenceError,
    EvidenceWarning,
    GuaranteeWarning,
    MissingExtra,
    NoracleError,
    NoracleWarning,
)
from noracle.evidence import Evidence
from noracle.results import (
    Assumption,
    Check,
    Comparison,
    Difference,
    Estimate,
    Guarantee,
    Kind,
    Plan,
    Range,
    Ranges,
    Rank,
    Routing,
    read_result,
)

__all__ = [
    "AccuracyCounts",
    "AccuracyStream",
    "ArgumentError",
    "Assumption",
    "AssumptionError",
    "Check",
    "Comparison",
    "Difference",
    "Estimate",
    "Evidence",
    "EvidenceError",
    "EvidenceWarning",
    "Guarantee",
    "GuaranteeWarning",
    "JudgementCounts",
    "Kind",
    "MissingExtra",
    "NoracleError",
    "NoracleWarning",
    "PatternCounts",
    "Plan",
    "Race",
    "Range",
    "Ranges",
    "Rank",
    "Routing",
    "__version__",
    "check_overlap",
    "check_routing",
    "check_sensitivity",
    "check_yes_rate",
    "compare_systems",
    "count_accuracy",
    "count_judgements",
    "count_patterns",
    "estimate_accuracy",
    "plan_labels",
    "race_systems",
    "range_unsure",
    "read_result",
    "route_items",
]
