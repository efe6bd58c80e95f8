"""``noracle check``: were the labels collected fairly?"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

import typer

from noracle.accuracy import check_routing, check_sensitivity, range_unsure
from noracle.accuracy.check import label_checks, late_checks
from noracle.cli import _options as opt
from noracle.cli._options import Output, Sources, Stored, option, values, with_options, without
from noracle.cli._output import working
from noracle.counts import AccuracyCounts, count_accuracy, count_judgements
from noracle.errors import require
from noracle.results import Check, Ranges

EXAMPLE = opt.paragraphs("""Example:
noracle check --answers answers.csv --judgements judgements.csv --n-classes 10 --at-least 0.7 --system agent-7
noracle check --answers answers.csv --grades grades.csv
Exit code 1 says that a check failed.""")

By = Literal["all", "rater", "time"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _CheckOptions:
    system: str | None = option("Only this system; default all.", "S")
    by: By = option("Look at the routing as a whole, by rater, or by time.", default="all")
    at_least: float | None = option("How wrong may verdicts be before this falls?", "A")
    at_most: float | None = option("How wrong may verdicts be before this falls?", "A")
    confidence: float = opt.confidence()
    seed: int = opt.seed()


@with_options()
def command(
    given: Annotated[Sources, without("clusters", "repeats")],
    stored: Stored,
    own: _CheckOptions,
    output: Output,
) -> None:
    """Check how the labels were collected, all that applies; with --at-least or --at-most also
    sensitivity.

    Where verdicts are unsure, the range of the accuracy over all that they may hide stands beside.
    """
    title = "Were the labels collected fairly?"
    view = stored.view(given, at_least=own.at_least, at_most=own.at_most)
    if view is not None:
        require(view.checks, "the project must allow at least one check; it has none yet.")
        found = [*view.checks, *late_checks(s.name for s in view.systems if s.late)]
        output.emit(title, found)
        raise typer.Exit(0 if all(c.passed for c in found) else 1)
    both = own.at_least is not None and own.at_most is not None
    require(not both, "--at-least or --at-most must be given, not both; got both.")
    results: list[Check | Ranges] = []
    wanted = [own.system] if own.system is not None else given.chosen
    parts = stored.read()
    with working("checking"):
        evidence, asked = None, None
        if given.given or not parts:
            evidence = given.load()
            counted = None
            if evidence.answers is not None or evidence.grades is not None:
                counted = count_accuracy(evidence, systems=None if parts else wanted)
                parts.append(counted)
            if evidence.judgements is not None:
                asked = count_judgements(evidence, by_rater=False, counts=counted)
        total = opt.add_up(parts) if parts else None
        about = total if evidence is None else evidence
        if about is not None:
            told = label_checks(
                about,
                counts=total,
                judgements=asked,
                systems=wanted,
                protocol=given.known_protocol,
                seed=own.seed,
            )
            for one in told:
                if one.name == "routing" and own.by != "all" and evidence:
                    one = check_routing(evidence, by=own.by, seed=own.seed)
                    noted = {**one.diagnostics, "seed": own.seed}  # its p-values are simulated
                    one = dataclasses.replace(one, diagnostics=noted)
                results.append(one)
        if total is not None:
            results += what_if(total, wanted or list(total.systems), own)
    remedy = "Pass --answers too, or --protocol question."
    rule = "judgements must allow at least one check; got none that applies."
    require(results, f"{rule} {remedy}")
    output.emit(title, results, seed=own.seed)
    if any(isinstance(r, Check) and not r.passed for r in results):
        raise typer.Exit(1)


def what_if(counts: AccuracyCounts, systems: list[str], own: _CheckOptions) -> list[Check | Ranges]:
    """Sensitivity and the range of unsure verdicts, system by system."""
    results: list[Check | Ranges] = []
    of = [counts.of(name) for name in systems]
    if own.at_least is not None or own.at_most is not None:
        about = values(own, "system", "by", "seed")
        results += [check_sensitivity(c, **about) for c in of]
    for c in of:
        recorded = any(t.design == "recorded" for t in c.tallies)
        if c.total(verdict="unsure") and not recorded:
            results.append(range_unsure(c, confidence=own.confidence))
    return results
