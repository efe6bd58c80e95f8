"""Results out of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noracle.errors import EvidenceError
from noracle.results.analysis import LabelAnalysis
from noracle.results.base import Result
from noracle.results.certificate import Certificate
from noracle.results.check import Check, Ranges
from noracle.results.estimate import Comparison, Estimate
from noracle.results.plan import Plan, Routing
from noracle.results.proof import Proof

RESULT_TYPES: dict[str, type[Result]] = {
    c.schema: c
    for c in (Estimate, Comparison, Certificate, Plan, Proof, Check, Ranges, Routing, LabelAnalysis)
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
        raise EvidenceError(
            f"schema must be one of {sorted(RESULT_TYPES)}; got {schema!r}. It may come from a newer noracle."
        )
    return RESULT_TYPES[str(schema)].from_dict(data)
