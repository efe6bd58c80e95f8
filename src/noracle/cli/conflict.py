"""``noracle conflict``: who cannot all be right?"""

from __future__ import annotations

import dataclasses
from typing import Any

import typer

from noracle.cli._options import Output, option, paragraphs, with_options
from noracle.cli._output import working
from noracle.cli._sketch import Answers, Preferred, Sketches, spec
from noracle.cli.alarm import EXIT
from noracle.logic.conflict import prove_conflict, range_violators
from noracle.logic.disagreement import prove_disagreement, range_dissenters
from noracle.logic.next_item import range_checks

EXAMPLE = paragraphs("""Example:
noracle conflict --answers answers.csv --spec "accuracy > 0.7"
noracle conflict --answers answers.csv --spec "accuracy > 0.7" --least
noracle conflict --preferences preferences.csv --spec "agreement > 0.7" --least
Exit code 0: no conflict. 1: a set of systems cannot all keep the claim. 3: undecided.""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _ConflictOptions:
    spec: str = spec()
    least: bool = option("Also: the least number of systems that break the claim.", default=False)
    check_next: bool = option("Also: which item to check next, to settle the alarm.", default=False)


@with_options()
def command(
    given: Answers, own: _ConflictOptions, preferred: Preferred, sketched: Sketches, output: Output
) -> None:
    """Find a smallest set of systems that cannot all be as good as claimed, with the proof for this
    set alone.
    """
    limits = sketched.limits
    results: list[Any]
    with working("counting"):
        table = preferred.load(given, sketched, check_next=own.check_next)
    if table is not None:
        told = preferred.limits(sketched)
        with working("proving"):
            proof = prove_disagreement(table, own.spec, smallest=True, **told)
            results = [proof, range_dissenters(table, own.spec, **told)][: 1 + own.least]
        output.emit("Which judges cannot all agree?", results, single=len(results) == 1)
        raise typer.Exit(EXIT[proof.status])
    with working("counting"):
        gathered = sketched.gather(given)
    with working("proving"):
        proof = prove_conflict(gathered, own.spec, **limits)
        results = [proof]
        if own.least:
            results.append(range_violators(gathered, own.spec, **limits))
        if own.check_next:
            results.append(range_checks(gathered, own.spec, **limits))
    output.emit("Who cannot all be right?", results, single=len(results) == 1)
    raise typer.Exit(EXIT[proof.status])
