"""noracle: how good is an AI system when there is no answer key?

The flow is evidence → counts → bounds → estimators → results → report. Start with :class:`Evidence`
and :func:`estimate_accuracy`. Names are loaded when they are first used, so that importing the
package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noracle._lazy import RENAMED, lazy
from noracle._version import __version__ as __version__

if TYPE_CHECKING:
    from noracle.accuracy import AccuracyStream as AccuracyStream
    from noracle.accuracy import Race as Race
    from noracle.accuracy import certify_panel as certify_panel
    from noracle.accuracy import check_clusters as check_clusters
    from noracle.accuracy import check_grading as check_grading
    from noracle.accuracy import check_hits as check_hits
    from noracle.accuracy import check_judge as check_judge
    from noracle.accuracy import check_label_rates as check_label_rates
    from noracle.accuracy import check_missing as check_missing
    from noracle.accuracy import check_overlap as check_overlap
    from noracle.accuracy import check_questions as check_questions
    from noracle.accuracy import check_routing as check_routing
    from noracle.accuracy import check_sensitivity as check_sensitivity
    from noracle.accuracy import check_yes_rate as check_yes_rate
    from noracle.accuracy import checks_for as checks_for
    from noracle.accuracy import compare_systems as compare_systems
    from noracle.accuracy import detect_drift as detect_drift
    from noracle.accuracy import estimate_accuracies as estimate_accuracies
    from noracle.accuracy import estimate_accuracy as estimate_accuracy
    from noracle.accuracy import estimate_with_judges as estimate_with_judges
    from noracle.accuracy import label_checks as label_checks
    from noracle.accuracy import race_systems as race_systems
    from noracle.accuracy import range_unsure as range_unsure
    from noracle.accuracy import route_items as route_items
    from noracle.accuracy import route_judged as route_judged
    from noracle.counts import AccuracyCounts as AccuracyCounts
    from noracle.counts import JudgementCounts as JudgementCounts
    from noracle.counts import PatternCounts as PatternCounts
    from noracle.counts import RatingCounts as RatingCounts
    from noracle.counts import Sketch as Sketch
    from noracle.counts import count_accuracy as count_accuracy
    from noracle.counts import count_decisions as count_decisions
    from noracle.counts import count_judgements as count_judgements
    from noracle.counts import count_patterns as count_patterns
    from noracle.counts import count_ratings as count_ratings
    from noracle.errors import ArgumentError as ArgumentError
    from noracle.errors import AssumptionError as AssumptionError
    from noracle.errors import EvidenceError as EvidenceError
    from noracle.errors import EvidenceWarning as EvidenceWarning
    from noracle.errors import GuaranteeWarning as GuaranteeWarning
    from noracle.errors import MissingExtra as MissingExtra
    from noracle.errors import NoracleError as NoracleError
    from noracle.errors import NoracleWarning as NoracleWarning
    from noracle.evidence import Evidence as Evidence
    from noracle.evidence import Preferences as Preferences
    from noracle.evidence import Ratings as Ratings
    from noracle.logic import Spec as Spec
    from noracle.logic import prove_by_axioms as prove_by_axioms
    from noracle.logic import prove_conflict as prove_conflict
    from noracle.logic import prove_disagreement as prove_disagreement
    from noracle.logic import prove_malfunction as prove_malfunction
    from noracle.logic import range_accuracies as range_accuracies
    from noracle.logic import range_agreement as range_agreement
    from noracle.logic import range_checks as range_checks
    from noracle.logic import range_dissenters as range_dissenters
    from noracle.logic import range_prevalence as range_prevalence
    from noracle.logic import range_threshold as range_threshold
    from noracle.logic import range_violators as range_violators
    from noracle.ppi import estimate_mean as estimate_mean
    from noracle.ppi import plan_accuracy as plan_accuracy
    from noracle.ppi import plan_budget as plan_budget
    from noracle.ppi import plan_labels as plan_labels
    from noracle.ranking import check_position as check_position
    from noracle.ranking import estimate_win_rates as estimate_win_rates
    from noracle.ranking import plan_pairs as plan_pairs
    from noracle.ranking import rank_systems as rank_systems
    from noracle.results import Assumption as Assumption
    from noracle.results import Certificate as Certificate
    from noracle.results import Check as Check
    from noracle.results import Comparison as Comparison
    from noracle.results import Difference as Difference
    from noracle.results import Drift as Drift
    from noracle.results import Estimate as Estimate
    from noracle.results import Guarantee as Guarantee
    from noracle.results import Kind as Kind
    from noracle.results import Plan as Plan
    from noracle.results import Proof as Proof
    from noracle.results import Range as Range
    from noracle.results import Ranges as Ranges
    from noracle.results import Rank as Rank
    from noracle.results import Routing as Routing
    from noracle.results import read_result as read_result
    from noracle.superhuman import CertificateStream as CertificateStream
    from noracle.superhuman import aggregate_labels as aggregate_labels
    from noracle.superhuman import certify_published as certify_published
    from noracle.superhuman import certify_superhuman as certify_superhuman
    from noracle.superhuman import certify_thresholds as certify_thresholds
    from noracle.superhuman import check_assumptions as check_assumptions
    from noracle.superhuman import estimate_agreement as estimate_agreement
    from noracle.superhuman import estimate_ceiling as estimate_ceiling
    from noracle.superhuman import estimate_ceilings as estimate_ceilings
    from noracle.superhuman import plan_certificate as plan_certificate

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "._version": "__version__",
        ".accuracy": "AccuracyStream Race certify_panel check_clusters check_grading check_hits "
        "check_judge check_label_rates check_missing check_overlap check_questions check_routing "
        "check_sensitivity check_yes_rate checks_for compare_systems detect_drift "
        "estimate_accuracies estimate_accuracy estimate_with_judges label_checks race_systems range_unsure "
        "route_items route_judged",
        ".counts": "AccuracyCounts JudgementCounts PatternCounts RatingCounts Sketch "
        "count_accuracy count_decisions count_judgements count_patterns count_ratings",
        ".errors": "ArgumentError AssumptionError EvidenceError EvidenceWarning GuaranteeWarning "
        "MissingExtra NoracleError NoracleWarning",
        ".evidence": "Evidence Preferences Ratings",
        ".logic": "Spec prove_by_axioms prove_conflict prove_disagreement prove_malfunction "
        "range_accuracies range_agreement range_checks range_dissenters range_prevalence "
        "range_threshold range_violators",
        ".ppi": "estimate_mean plan_accuracy plan_budget plan_labels",
        ".ranking": "check_position estimate_win_rates plan_pairs rank_systems",
        ".results": "Assumption Certificate Check Comparison Difference Drift Estimate Guarantee Kind "
        "Plan Proof Range Ranges Rank Routing read_result",
        ".superhuman": "CertificateStream aggregate_labels certify_published certify_superhuman "
        "certify_thresholds check_assumptions estimate_agreement estimate_ceiling "
        "estimate_ceilings plan_certificate",
    },
    modules=("collect", "learn", "search"),  # they need extras
    renamed=RENAMED,
)
