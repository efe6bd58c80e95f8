"""``noracle ranges``: what can each accuracy still be?"""

from __future__ import annotations

import dataclasses
from typing import Any

import typer

from noracle.cli._options import Output, option, paragraphs, with_options
from noracle.cli._output import working
from noracle.cli._sketch import Answers, Preferred, Sketches
from noracle.logic.disagreement import range_agreement
from noracle.logic.next_item import range_checks
from noracle.logic.ranges import range_accuracies
from noracle.results import Ranges

EXAMPLE = paragraphs("""Example:
noracle ranges --answers answers.csv --given "accuracy of gpt > 1/2"
noracle ranges --answers answers.csv --given "accuracy of gpt > 1/2; accuracy of claude > 1/2" --prevalence spam=200..260
noracle ranges --preferences preferences.csv --order one
Exit code 1: no answer key satisfies what is given. 3: an end was not found in time and is an outer bound.""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _RangesOptions:
    given: str | None = option("Claims that are trusted, as in noracle alarm.", "TEXT")
    only: str | None = option("One quantity, such as 'accuracy of gpt on A'.", "NAME")
    check_next: bool = option("Also: which item to check next for --only.", default=False)
    exact: bool = option("Exact ends, or quick outer bounds.", None, True, "--exact/--outer")


@with_options()
def command(
    given: Answers, own: _RangesOptions, preferred: Preferred, sketched: Sketches, output: Output
) -> None:
    """Say what remains possible for each accuracy, for every answer key that the evidence and the
    trusted claims allow.
    """
    if own.check_next and (own.only is None or own.given is None):
        raise typer.BadParameter("--check-next must come with --only and --given.")
    limits = sketched.limits
    with working("counting"):
        table = preferred.load(given, sketched, check_next=own.check_next, outer=not own.exact)
    if table is not None:
        with working("proving"):
            told: Any = {"given": own.given, "only": own.only, **preferred.limits(sketched)}
            possible = range_agreement(table, **told)
        output.emit("How far can each judge agree?", [possible], single=True)
        _leave(possible, exact=True)
        return
    with working("counting"):
        gathered = sketched.gather(given)
    with working("proving"):
        wanted = {"only": own.only, **limits}
        found = range_accuracies(gathered, given=own.given, exact=own.exact, **wanted)
        results: list[Any] = [found]
        if own.check_next and own.given is not None:
            results.append(range_checks(gathered, own.given, **wanted))
    output.emit("What can each accuracy still be?", results, single=len(results) == 1)
    _leave(found, exact=own.exact)


def _leave(found: Ranges, *, exact: bool) -> None:
    if "contradiction" in found.diagnostics:
        raise typer.Exit(1)
    ends = found.diagnostics["ends"].values()
    if exact and any("outer" in {e.get("low is"), e.get("high is")} for e in ends):
        raise typer.Exit(3)
