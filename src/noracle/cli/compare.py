"""``noracle compare``: which system is better?"""

from __future__ import annotations

import dataclasses

from noracle.accuracy import compare_systems
from noracle.accuracy.compare import Interval
from noracle.cli._options import Output, Policy, Sources, option, paragraphs, with_options
from noracle.cli._output import working

EXAMPLE = paragraphs("""Example:
noracle compare --answers answers.csv --judgements judgements.csv --n-classes 10 --systems agent-7,agent-8
noracle compare --grades grades.csv""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _CompareOptions:
    interval: Interval = option(
        "auto and fixed-n hold at this number of labels, betting at every look; wald is asymptotic.",
        default="auto",
    )


@with_options()
def command(given: Sources, own: _CompareOptions, policy: Policy, output: Output) -> None:
    """Compare systems on the same labels; all differences hold together at --confidence.

    Systems that cannot be separated share places: that is an answer too, and the exit code stays 0.
    """
    with working("comparing"):
        evidence, checks, about = policy.compared(given)
        result = compare_systems(evidence, interval=own.interval, **about)
    shown = policy.seed if checks else None
    output.emit("Which system is better?", [result], single=True, seed=shown, more=checks)
