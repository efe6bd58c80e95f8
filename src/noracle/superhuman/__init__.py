"""Certificates: is the system better than its annotators?"""

from __future__ import annotations

from noracle.superhuman.aggregate import AggregatedLabels, aggregate_labels, matches_of
from noracle.superhuman.agreement import estimate_agreement
from noracle.superhuman.assumptions import check_assumptions
from noracle.superhuman.ceiling import ceiling_path, estimate_ceiling
from noracle.superhuman.certify import CertificateStream, certify_superhuman
from noracle.superhuman.plan import plan_certificate
from noracle.superhuman.published import certify_published, hms_score, oms_score
from noracle.superhuman.statement import recorded_training
from noracle.superhuman.thresholds import certify_thresholds, estimate_ceilings
from noracle.superhuman.verify import verify_certificate

__all__ = [
    "AggregatedLabels",
    "aggregate_labels",
    "ceiling_path",
    "check_assumptions",
    "estimate_agreement",
    "estimate_ceiling",
    "matches_of",
    "CertificateStream",
    "certify_published",
    "certify_superhuman",
    "certify_thresholds",
    "estimate_ceilings",
    "hms_score",
    "oms_score",
    "plan_certificate",
    "recorded_training",
    "verify_certificate",
]
