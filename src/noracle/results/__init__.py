"""What estimators return: frozen objects that carry their guarantee.

    Estimate     a number with an interval                     estimate_*
    Comparison   differences of systems and their ranking      compare_*, race_*
    Certificate  a claim with its test and a verify()          certify_*
    Plan         what to buy next, with a verify()             plan_*
    Proof        what answers alone prove, with a verify()     prove_*
    Check        does the evidence look as it should?          check_*
    Drift        has accuracy fallen, and since when?          detect_*
    Ranges       what is possible, without probability         range_*
    Routing      the questions to ask, with propensities       route_*
    LabelAnalysis  how noisy and biased labels are             analyse_*

``repr`` is one line, ``str`` a card, ``to_dict``/``from_dict`` JSON with a ``"schema"``. An
undefined number is NaN in Python, ``null`` with a ``reason`` in JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noracle.errors import EvidenceError
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
from noracle.results.certificate import Certificate, Proof, Verdict
from noracle.results.check import Check, Drift, Range, Ranges
from noracle.results.estimate import Comparison, Difference, Estimate, Rank
from noracle.results.plan import Plan, Routing

__all__ = [
    "FAILED_BELOW",
    "RESULT_TYPES",
    "Assumption",
    "Certificate",
    "Check",
    "Comparison",
    "Difference",
    "Drift",
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

RESULT_TYPES: dict[str, type[Result]] = {
    c.schema: c
    for c in (
        *(Estimate, Comparison, Certificate, Plan, Proof),
        *(Check, Drift, Ranges, Routing, LabelAnalysis),
    )
}


def read_result(data: Mapping[str, Any]) -> Result:
    """Read any result back from its JSON values, by its ``"schema"``.

    Examples
    --------
    >>> from noracle.results import Check
    >>> check = Check(name="demo", assumption="uniform routing", p_value=0.4, statistic=1.0, finding="fine", method="exact")
    >>> read_result(check.to_dict()) == check
    True
    """
    schema = data.get("schema")
    if schema not in RESULT_TYPES:
        came = f"got {schema!r}. It may come from a newer noracle."
        raise EvidenceError(f"schema must be one of {sorted(RESULT_TYPES)}; {came}")
    return RESULT_TYPES[str(schema)].from_dict(data)
