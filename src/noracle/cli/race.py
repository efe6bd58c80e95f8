"""``noracle race``: stop testing the losers early."""

from __future__ import annotations

import typer

from noracle.accuracy import race_systems
from noracle.cli._options import Output, Policy, Sources, log, paragraphs, with_options
from noracle.cli._output import working

EXAMPLE = paragraphs("""Example:
noracle race --answers answers.csv --judgements judgements.csv --n-classes 10
noracle race --grades grades.csv
Exit code 3 says that the labels were used up before one system was left.""")

_UNDECIDED = 3


@with_options()
def command(given: Sources, policy: Policy, output: Output) -> None:
    """Drop systems that are certainly not the best, label by label, valid however often one looks.

    Labels are taken in the order of the column at, else of the rows.
    """
    with working("racing"):
        evidence, checks, about = policy.compared(given)
        log.info("the race begins")
        result = race_systems(evidence, **about)
    decided = len(result.leaders) == 1
    after = [] if decided else [f"labels used up: not separable among {', '.join(result.leaders)}"]
    shown = policy.seed if checks else None
    output.emit("Race of systems", [result], single=True, seed=shown, more=checks, after=after)
    if not decided:
        raise typer.Exit(_UNDECIDED)
