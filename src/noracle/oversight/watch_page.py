"""A look as an oversight report, so that it has the same page."""

from __future__ import annotations

import math
import shlex

from noracle.oversight.looks import Look
from noracle.oversight.model import Inventory, Step, SystemLine
from noracle.oversight.oversight import Oversight
from noracle.oversight.settings import NO_CLAIM, claim_of
from noracle.results import Estimate


def as_oversight(look: Look) -> Oversight:
    """The look as a report: only what holds at every look stands in it."""
    place = "" if look.inventory is None else look.inventory.place
    command = f"noracle watch {shlex.quote(place)} --once"
    error = look.guarantee.error_rate
    nothing = "no judgements yet"
    claimed = look.inventory is not None and claim_of(look.inventory.settings)
    unproved = "nothing is proved so far" if claimed else NO_CLAIM
    steps = [
        Step(
            name="accuracy",
            question="How accurate is each system, at every look?",
            status="done" if look.accuracy else "not possible",
            results=look.accuracy,
            reason="" if look.accuracy else nothing,
            command=command,
            error_rate=error if look.accuracy else 0.0,
        ),
        Step(
            name="certificate",
            question="Is a system better than its annotators?",
            status="done" if look.certificates else "not possible",
            results=look.certificates,
            reason="" if look.certificates else "no item has enough ratings yet",
            command=command,
            error_rate=error if look.certificates and not look.accuracy else 0.0,
        ),
        Step(
            name="alarm",
            question="Can all systems be as good as claimed?",
            status="done" if look.proof else "not possible",
            results=() if look.proof is None else (look.proof,),
            reason="" if look.proof else unproved,
            command=command,
        ),
    ]
    waiting = [f"{n:,} {reason} wait" for reason, n in look.waiting.items()]
    return Oversight(
        title=f"Watch: look {look.number}",
        inventory=look.inventory or Inventory(place=place, sources=()),
        systems=tuple(_line(e) for e in look.accuracy),
        steps=tuple(steps),
        findings=(),
        guarantee=look.guarantee,
        next_steps=(),
        confidence=1 - error,
        seed=0,
        notes=(
            *look.notes,
            *waiting,
            "every interval holds at all looks together: one may stop whenever one likes",
        ),
    )


def _line(e: Estimate) -> SystemLine:
    said = (
        "No label of this system is in yet."
        if math.isnan(e.value)
        else f"Its accuracy lies between {e.low:.3f} and {e.high:.3f}."
    )
    rests = ", ".join(a.name for a in e.guarantee.assumptions)
    return SystemLine(
        system=e.subject,
        value=e.value,
        low=e.low,
        high=e.high,
        guarantee=e.guarantee,
        rests_on=rests,
        statement=said,
        next_step="Leave the watch running; labels are added as they come.",
    )
