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

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noracle.oversight.finding import find_evidence
    from noracle.oversight.model import (
        Finding,
        Inventory,
        NextStep,
        Settings,
        Source,
        Step,
        SystemLine,
    )
    from noracle.oversight.oversight import Oversight, oversee
    from noracle.oversight.page import write_oversight
    from noracle.oversight.settings import read_settings

__all__ = [
    "Finding",
    "Inventory",
    "NextStep",
    "Oversight",
    "Settings",
    "Source",
    "Step",
    "SystemLine",
    "find_evidence",
    "oversee",
    "read_settings",
    "write_oversight",
]

_MODULES = {
    "finding": ("find_evidence",),
    "model": ("Finding", "Inventory", "NextStep", "Settings", "Source", "Step", "SystemLine"),
    "oversight": ("Oversight", "oversee"),
    "page": ("write_oversight",),
    "settings": ("read_settings",),
}
_HOME = {
    name: f"noracle.oversight.{module}" for module, names in _MODULES.items() for name in names
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'noracle.oversight' has no attribute {name!r}")
    globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
