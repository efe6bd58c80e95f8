"""noracle: how good is an AI system when there is no answer key?

The flow is evidence → counts → bounds → estimators → results → report. Start with :class:`Evidence`
and :func:`estimate_accuracy`. Names are loaded when they are first used, so that importing the
package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from noracle._lazy import RENAMED, missing
from noracle._version import __version__

if TYPE_CHECKING:
    from noracle.accuracy import (
        AccuracyStream,
        Race,
        certify_panel,
        check_clusters,
        check_grading,
        check_hits,
        check_judge,
        check_label_rates,
        check_missing,
        check_overlap,
        check_questions,
        check_routing,
        check_sensitivity,
        check_yes_rate,
        checks_for,
        compare_systems,
        estimate_accuracies,
        estimate_accuracy,
        estimate_with_judges,
        label_checks,
        race_systems,
        range_unsure,
        route_items,
        route_judged,
    )
    from noracle.counts import (
        AccuracyCounts,
        JudgementCounts,
        PatternCounts,
        RatingCounts,
        Sketch,
        count_accuracy,
        count_decisions,
        count_judgements,
        count_patterns,
        count_ratings,
    )
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
    from noracle.evidence import Evidence, Ratings
    from noracle.logic import (
        Spec,
        prove_by_axioms,
        prove_conflict,
        prove_malfunction,
        range_accuracies,
        range_checks,
        range_prevalence,
        range_threshold,
        range_violators,
    )
    from noracle.ppi import estimate_mean, plan_accuracy, plan_budget, plan_labels
    from noracle.results import (
        Assumption,
        Certificate,
        Check,
        Comparison,
        Difference,
        Estimate,
        Guarantee,
        Kind,
        Plan,
        Proof,
        Range,
        Ranges,
        Rank,
        Routing,
        read_result,
    )
    from noracle.superhuman import (
        CertificateStream,
        aggregate_labels,
        certify_published,
        certify_superhuman,
        check_assumptions,
        estimate_agreement,
        estimate_ceiling,
        plan_certificate,
    )

__all__ = [
    "AccuracyCounts",
    "AccuracyStream",
    "ArgumentError",
    "Assumption",
    "AssumptionError",
    "Certificate",
    "CertificateStream",
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
    "Proof",
    "Race",
    "Range",
    "Ranges",
    "Rank",
    "RatingCounts",
    "Ratings",
    "Routing",
    "Sketch",
    "Spec",
    "__version__",
    "aggregate_labels",
    "certify_panel",
    "certify_published",
    "certify_superhuman",
    "check_assumptions",
    "check_clusters",
    "check_grading",
    "check_hits",
    "check_judge",
    "check_label_rates",
    "check_missing",
    "check_overlap",
    "check_questions",
    "check_routing",
    "check_sensitivity",
    "check_yes_rate",
    "checks_for",
    "compare_systems",
    "count_accuracy",
    "count_decisions",
    "count_judgements",
    "count_patterns",
    "count_ratings",
    "estimate_accuracies",
    "estimate_accuracy",
    "estimate_agreement",
    "estimate_ceiling",
    "estimate_mean",
    "estimate_with_judges",
    "label_checks",
    "plan_accuracy",
    "plan_budget",
    "plan_certificate",
    "plan_labels",
    "prove_by_axioms",
    "prove_conflict",
    "prove_malfunction",
    "race_systems",
    "range_accuracies",
    "range_checks",
    "range_prevalence",
    "range_threshold",
    "range_unsure",
    "range_violators",
    "read_result",
    "route_items",
    "route_judged",
]


_LAYERS = (
    "noracle.errors",
    "noracle.results",
    "noracle.evidence",
    "noracle.counts",
    "noracle.accuracy",
    "noracle.ppi",
    "noracle.superhuman",
    "noracle.logic",
)


_MODULES = ("collect", "learn", "search")  # parts that need extras; loaded when they are first used


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"noracle.{name}")
    if name in __all__:
        for layer in _LAYERS:
            module = importlib.import_module(layer)
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise missing(__name__, RENAMED, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
