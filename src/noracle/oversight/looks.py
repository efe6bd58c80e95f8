"""What a watch says at one look."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Mapping
from typing import Any

from noracle.oversight.model import Inventory
from noracle.results import Certificate, Estimate, Guarantee, Proof, Result


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is known at one look.

    ``guarantee`` is for all statements of the watch at all looks together. ``new_alarm`` says that
    ``proof`` was found at this look. ``waiting`` counts evidence that cannot be used yet, by the
    reason.
    """

    number: int
    run: int
    accuracy: tuple[Estimate, ...] = ()
    certificates: tuple[Certificate, ...] = ()
    proof: Proof | None = None
    new_alarm: bool = False
    n_rows: int = 0
    """New rows in this look."""
    n_items: int = 0
    """Items that every system answered."""
    verdict_now: str = ""
    """What all these items say of the claim: alarm, consistent or undecided; an alarm that fewer
    items raised is kept all the same.
    """
    waiting: Mapping[str, int] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    guarantee: Guarantee
    inventory: Inventory | None = None

    @property
    def results(self) -> tuple[Result, ...]:
        """All results, those without probability last."""
        return (*self.accuracy, *self.certificates, *([] if self.proof is None else [self.proof]))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values: schema ``results/1``, and the look itself under ``watch``."""
        look = {
            "look": self.number,
            "run": self.run,
            "alarm": self.proof is not None,
            "new_alarm": self.new_alarm,
            "new_rows": self.n_rows,
            "items": self.n_items,
            "verdict_now": self.verdict_now,
            "waiting": dict(self.waiting),
            "notes": list(self.notes),
            "error_rate": self.guarantee.error_rate,
            "kind": self.guarantee.kind.label,
        }
        return {
            "schema": "results/1",
            "results": [r.to_dict() for r in self.results],
            "watch": look,
        }


def joined(look: Look) -> Guarantee:
    """The weakest kind and all assumptions of the statements, at the error rate of the whole watch."""
    parts = [*(e.guarantee for e in look.accuracy), *(c.guarantee for c in look.certificates)]
    together = functools.reduce(operator.and_, parts, look.guarantee)
    return dataclasses.replace(together, error_rate=look.guarantee.error_rate, anytime=True)
