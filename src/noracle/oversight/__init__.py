"""The oversight report: everything that the evidence of a folder allows to say.

Start with :func:`oversee`, which takes a folder. Names are loaded when they are first used.

model.py                    the records: source, inventory, step, finding, next step, line of a system
settings.py, recognise.py, finding.py   what ``noracle.toml`` says, and which table is which
opening.py, loading.py      the evidence opened once and counted once; command_lines.py has its options on the command line
analyses.py, asking.py      the table of what can be asked; by_labels.py, by_logic.py, by_ratings.py, by_plans.py ask it
parts.py, consistency.py    do the parts fit together? joint.py: what are they worth together?
next_step.py, lines.py      what to do next; one line for each system
oversight.py, card.py       the report; its text card
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noracle._lazy import lazy

if TYPE_CHECKING:
    from noracle.oversight.find import find_evidence as find_evidence
    from noracle.oversight.model import Finding as Finding
    from noracle.oversight.model import Inventory as Inventory
    from noracle.oversight.model import NextStep as NextStep
    from noracle.oversight.model import Settings as Settings
    from noracle.oversight.model import Source as Source
    from noracle.oversight.model import Step as Step
    from noracle.oversight.model import SystemLine as SystemLine
    from noracle.oversight.oversight import Oversight as Oversight
    from noracle.oversight.oversight import oversee as oversee
    from noracle.oversight.page import write_oversight as write_oversight
    from noracle.oversight.settings import read_settings as read_settings

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        ".finding": "find_evidence",
        ".model": "Finding Inventory NextStep Settings Source Step SystemLine",
        ".oversight": "Oversight oversee",
        ".page": "write_oversight",
        ".settings": "read_settings",
    },
)
