"""A gate that is asked for years: pass, fail or undecided, with one error rate for all decisions.

decision.py   what a claim asks of answers and labels, and the three outcomes
ledger.py     the lines that are committed: what was decided, and what it spent
summary.py    a ledger as a page, outcomes as JUnit XML and Markdown
plugin.py     the fixture ``noracle`` of pytest
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noracle._lazy import lazy

if TYPE_CHECKING:
    from noracle.gate.decision import GateClaim as GateClaim
    from noracle.gate.decision import GateDecision as GateDecision
    from noracle.gate.decision import GateDesign as GateDesign
    from noracle.gate.decision import GateRun as GateRun
    from noracle.gate.decision import decide_gate as decide_gate
    from noracle.gate.ledger import GateLedger as GateLedger
    from noracle.gate.ledger import GateSettings as GateSettings

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        ".decision": "GateClaim GateDecision GateDesign GateRun decide_gate",
        ".ledger": "GateLedger GateSettings",
    },
)
