"""What answers alone prove: alarms, possible ranges, conflicts."""

from __future__ import annotations

from noracle.logic.axioms import axiom_alarm
from noracle.logic.cascade import prove_malfunction
from noracle.logic.spec import ANY_ANSWER, Linear, Spec, Statement
from noracle.logic.verify import verify_proof

__all__ = ["ANY_ANSWER", "Linear", "Spec", "Statement", "axiom_alarm", "prove_malfunction", "verify_proof"]
