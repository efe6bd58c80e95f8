"""What estimators return: frozen objects that carry their guarantee.

    Estimate     a number with an interval                     estimate_*
    Comparison   differences of systems and their ranking      compare_*, race_*
    Certificate  a claim with its test and a verify()          certify_*
    Plan         what to buy next, with a verify()             plan_*
    Proof        what answers alone prove, with a verify()     prove_*
    Check        does the evidence look as it should?          check_*
    Ranges       what is possible, without probability         range_*
    Routing      the questions to ask, with propensities       route_*
    LabelAnalysis  how noisy and biased labels are             analyse_*

``repr`` is one line, ``str`` a card, ``to_dict``/``from_dict`` JSON with a ``"schema"``. An
undefined number is NaN in Python, ``null`` with a ``reason`` in JSON.
"""

from __future__ import annotations

from noracle.results.analysis import LabelAnalysis
from noracle.results.base import (
    FAILED_BELOW,
    Assumption,
    Guarantee,
    Kind,
    NaN,
    Result,
    Side,
    Status,
    check_confidence,
    choose,
    results_dict,
    tails,
)
from noracle.results.certificate import Certificate
from noracle.results.check import Check, Range, Ranges
from noracle.results.estimate import Comparison, Difference, Estimate, Rank
from noracle.results.plan import Plan, Routing
from noracle.results.proof import Proof, Verdict
from noracle.results.registry import RESULT_TYPES, read_result

__all__ = [
    "FAILED_BELOW",
    "RESULT_TYPES",
    "Assumption",
    "Certificate",
    "Check",
    "Comparison",
    "Difference",
    "Estimate",
    "Guarantee",
    "Kind",
    "LabelAnalysis",
    "NaN",
    "Plan",
    "Proof",
    "Range",
    "Ranges",
    "Rank",
    "Result",
    "Routing",
    "Side",
    "Status",
    "Verdict",
    "check_confidence",
    "choose",
    "read_result",
    "results_dict",
    "tails",
]
