"""``noracle estimate``: how accurate is each system?"""

from __future__ import annotations

import dataclasses
import time
from typing import Literal

from noracle.accuracy.check import late_of
from noracle.accuracy.estimate import Interval, Method, estimate_accuracies
from noracle.cli import _options as opt
from noracle.cli._options import Output, Records, Sources, Stored, option, values, with_options
from noracle.cli._output import check_target, working, write_json
from noracle.counts import count_accuracy, count_judgements
from noracle.errors import require
from noracle.results import Check, Side

EXAMPLE = opt.paragraphs("""Example:
noracle estimate --answers answers.csv --judgements judgements.csv --n-classes 10 --html report.html
noracle estimate --grades grades.csv
noracle estimate --counts monday.json --counts tuesday.json --system agent-7 --json
noracle estimate --project noracle.db#survey""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _EstimateOptions:
    save_counts: opt.File = option("Save the counts, so that later ones can be added to them.")
    system: str | None = option("Only this system; default all.", "S")
    method: Method | None = option("Default ml; scores where labels were not uniform.")
    interval: Interval = option(
        "auto: the narrowest with a promise that the design allows.", default="auto"
    )
    confidence: float = opt.confidence()
    side: Side = option("An interval, or only a lower or an upper limit.", default="two-sided")
    population: opt.Population = option(
        "Accuracy on these items, or on all items of their kind.", default="answers"
    )
    weight: float = option("For method weighted: the ordinary share.", "W", 0.5)
    transition: opt.File = option("Matrix P(ruled out | true class), CSV or JSON; rows true.")
    false_no: float = option("Known rate of no to a right answer.", "P", 0.0)
    false_yes: float = option("Known rate of yes to a wrong answer.", "P", 0.0)
    guess: Literal["leave-one-out", "column"] = option(
        "For recorded propensities: the share of yes on other items, or the column guess of the answers.",
        default="leave-one-out",
    )
    check: bool = opt.checking()
    strict: bool = opt.strictly()
    seed: int = opt.seed()


@with_options()
def command(
    given: Sources, stored: Stored, own: _EstimateOptions, records: Records, output: Output
) -> None:
    """Estimate the accuracy of each system, with an interval and what it rests on.

    An item without an answer counts as wrong. Without --system all systems are estimated, each at
    --confidence.
    """
    check_target("save-counts", own.save_counts)
    title = "Accuracy without an answer key"
    view = stored.view(
        given,
        save_counts=own.save_counts,
        method=own.method,
        interval=None if own.interval == "auto" else own.interval,
        transition=own.transition,
    )
    if view is not None:
        found = [s.estimate for s in view.systems if own.system in (None, s.name)]
        require(found or own.system, "the project must have a system.")
        require(found, f"--system must be a system of the project; got {own.system!r}.")
        single, after = own.system is not None, records.write(found)
        output.emit(title, found, single=single, more=list(view.checks), after=after)
        return
    matrix = opt.read_matrix(own.transition)
    # A wide table needs its columns named; else --systems chooses among the systems. Stored counts
    # hold all systems.
    wanted = [own.system] if own.system is not None else given.chosen
    parts = stored.read()
    evidence, asked = None, None
    if given.given or not parts:
        with working("counting"):
            evidence = given.load(labels=True)
            started = time.perf_counter()
            columns = () if evidence.items is None else evidence.items.columns
            counted = count_accuracy(
                evidence,
                systems=None if own.save_counts or parts else wanted,
                by_class=matrix is not None,
                by_guess=own.guess == "column",
                by_cluster=given.clusters == "auto" and "cluster" in columns,
            )
            parts.append(counted)
            opt.log.info("answers and labels counted in %.2f s", time.perf_counter() - started)
            if own.check and evidence.judgements is not None:
                asked = count_judgements(evidence, by_rater=False, counts=counted)
    total = opt.add_up(parts)
    require(total.systems, "evidence must hold at least one system; got none.")
    checks: list[Check] = []
    if own.check:
        checks = opt.policy_checks(
            total if evidence is None else evidence,
            counts=total,
            judgements=asked,
            systems=wanted,
            protocol=given.known_protocol,
            seed=own.seed,
            estimate=True,
            clusters=given.clusters,
            population=own.population,
        )
    late = [] if evidence is None else late_of(evidence, wanted or None)
    if own.save_counts is not None:
        rule = "--save-counts must be of systems that came before the answers"
        why = "counts do not tell which came later, and would promise too much"
        require(not late, f"{rule}; got one that came later: {why}. Leave it out.")
        write_json(own.save_counts, total.to_dict())
    about = values(own, "save_counts", "system", "transition", "check") | {
        "repeats": given.repeats if given.given else None,
        "transition": matrix,
        "classes": evidence and evidence.classes and list(evidence.classes),
        "checks": checks if own.check else "none",
        "clusters": given.clusters,
    }
    with working("estimating"):
        estimates = estimate_accuracies(total, systems=wanted or None, **about)
        if late and not own.check:  # which is no check, but what the answers say of themselves
            about["checks"] = late
            marked = {part["system"] for check in late for part in check.parts}
            names = [name for name in estimates if name in marked]
            estimates |= estimate_accuracies(total, systems=names, **about)
        results = [*estimates.values()]
    shown = own.seed if checks else None
    after = records.write(results)
    output.emit(title, results, single=own.system is not None, seed=shown, more=checks, after=after)
