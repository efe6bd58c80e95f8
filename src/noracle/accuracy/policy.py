"""Which checks labels must pass, and what their outcome does: one list for Python, the command line
and the report.

    label_checks   the checks that apply to some evidence or counts
    checks_for     those that bear on the accuracy of one system
    for_comparison those that bear on a comparison of systems

A check is left out where it has nothing to look at (no question, no unsure verdict, one stratum).
One that applies but has too little evidence stays, without a p-value, and says so. What a failure
does is in :data:`POLICY`; how several checks of one assumption are joined is in
:meth:`noracle.results.Guarantee.given`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from noracle.accuracy.check import (
    are_questions,
    check_grading,
    check_hits,
    check_label_rates,
    check_missing,
    check_overlap,
    check_questions,
    check_routing,
    check_yes_rate,
    is_question,
    numbers_asked,
)
from noracle.accuracy.clusters import check_clusters
from noracle.counts import AccuracyCounts, JudgementCounts, count_accuracy, count_judgements
from noracle.errors import ArgumentError
from noracle.evidence import Evidence
from noracle.evidence.labels import propensities_of, recorded_grades
from noracle.results import Check

Protocol = Literal["question", "sets"]


class Rule(NamedTuple):
    """What one check is for.

    ``assumptions`` are those it may speak of. ``estimate`` and ``comparison`` say whose promise a
    failure takes away; ``proves`` whether a pass makes the assumption *checked* (else it can only
    refute). It is ``moot`` for an estimate that does not rest on the assumption because rates of
    wrong verdicts or a transition matrix are known. ``remedy`` is the way out after a failure.
    """

    assumptions: tuple[str, ...]
    remedy: str
    estimate: bool = True
    comparison: bool = True
    proves: bool = False
    moot: tuple[Literal["error rates", "transition"], ...] = ()


_SETS = "If yes and no labels were collected as two separate sets, pass --protocol sets (in Python protocol='sets')."
_DRAW = "Draw the questions at random, without a look at the answers: 'noracle route' does."

POLICY: Mapping[str, Rule] = {
    "routing": Rule(
        ("uniform routing", "recorded propensities"), _SETS, proves=True, moot=("transition",)
    ),
    "yes rate": Rule(("right verdicts",), _SETS, moot=("error rates", "transition")),
    "overlap": Rule(("uniform routing",), _DRAW, moot=("error rates", "transition")),
    "hits": Rule(("answers made without the labels",), f"{_DRAW} {_SETS}", moot=("transition",)),
    # An estimate gives each stratum its share of the items, whatever the rate at which it was
    # labelled.
    "label rates": Rule(
        ("same label rate in all strata",),
        "Estimates weight strata by their share; compare systems within one stratum, or label all strata at the same rate.",
        estimate=False,
        proves=True,
    ),
    "number of questions": Rule(
        ("number of questions fixed beforehand",),
        "Add the column at, the time of each judgement, so that the first is known.",
        proves=True,
    ),
    "grading": Rule(
        ("graded whatever the answer",),
        "Draw the answers to grade without a look at them: 'noracle route --grades' does.",
    ),
    # Runs only where clusters are ignored: elsewhere the cluster is the unit.
    "clusters": Rule(
        ("iid items",), "Leave clusters='auto' (--clusters auto), so that the cluster is the unit."
    ),
    "missing verdicts": Rule(
        ("verdicts missing at random",),
        "Look at the worst case that unsure verdicts leave: range_unsure, or 'noracle check'.",
    ),
}
"""All checks of labels, in the order in which they are shown."""


def label_checks(
    evidence: Evidence | AccuracyCounts,
    *,
    counts: AccuracyCounts | None = None,
    judgements: JudgementCounts | None = None,
    systems: Sequence[str] | None = None,
    protocol: Protocol | None = None,
    clusters: Literal["auto", "ignore"] = "auto",
    population: Literal["answers", "beyond"] = "answers",
    seed: int = 0,
) -> tuple[Check, ...]:
    """The checks that apply to these labels, in the order of :data:`POLICY`.

    Parameters
    ----------
    evidence
        Tables; or counts alone, which allow fewer checks: they do not say how often each class was
        asked.
    counts, judgements
        Counts of the same evidence, if they are there already.
    systems
        The systems in question; by default all. Others are not looked at.
    protocol
        ``question``: one random class was asked about an item. ``sets``: yes and no labels were
        collected separately. By default what the evidence says; else questions where both verdicts
        or propensities are there. For counts alone there is no such default: without ``protocol``
        labels without propensities may be sets.
    clusters, population
        Where clusters of items are ignored (``ignore``), their dependence is tested, for these
        items or for items beyond them.
    seed
        For simulated p-values.

    Notes
    -----
    Each check has a false alarm with probability of at most 1e-3 (simulated and normal ones
    nearly). Several of one assumption are joined by Holm's procedure in the guarantee, so that this
    holds for every assumption.

    References
    ----------
    Holm (1979), "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6, 65-70.

    Examples
    --------
    >>> from noracle.simulate import simulate_world
    >>> world = simulate_world(n_items=400, n_classes=5, systems={"a": 0.8}, seed=1)
    >>> [check.name for check in label_checks(world.evidence())]
    ['routing', 'yes rate', 'overlap', 'hits']
    """
    if isinstance(evidence, AccuracyCounts):
        return _ordered(
            _count_checks(
                _chosen(evidence, systems),
                protocol=protocol,
                judgements=judgements,
                alone=True,
                seed=seed,
            )
        )
    if not isinstance(evidence, Evidence):
        raise ArgumentError(
            f"evidence must be Evidence or AccuracyCounts; got {type(evidence).__name__}. Use Evidence.from_tables(…)."
        )
    if evidence.judgements is None and evidence.grades is None:
        return (
            _ordered(
                _count_checks(_chosen(counts, systems), protocol=protocol, alone=True, seed=seed)
            )
            if counts is not None
            else ()
        )
    protocol = protocol or evidence.protocol
    if counts is None and (evidence.answers is not None or evidence.grades is not None):
        counts = count_accuracy(evidence, systems=systems)
    asked = judgements
    if asked is None and evidence.judgements is not None:
        asked = count_judgements(evidence, by_rater=False, counts=counts)
    found: list[Check] = []
    if asked is not None and is_question(asked, protocol):
        found.append(check_routing(asked, seed=seed))
        if protocol != "sets" and not (
            counts is not None and counts.propensities == "none" and _stops(counts)
        ):
            found.append(check_yes_rate(asked))
    if counts is not None:
        few = not recorded_grades(evidence)
        found += _count_checks(
            _chosen(counts, systems),
            protocol=protocol,
            judgements=asked,
            alone=asked is None,
            few=few,
            seed=seed,
        )
    if evidence.grades is not None and evidence.answers is not None:
        graded = check_grading(
            evidence, system=systems[0] if systems and len(systems) == 1 else None, seed=seed
        )
        wanted = tuple(
            part for part in graded.parts if systems is None or part["system"] in systems
        )
        if any(not math.isnan(part["p_value"]) for part in wanted):
            found.append(dataclasses.replace(graded, parts=wanted))
    if (
        clusters == "ignore"
        and counts is not None
        and evidence.items is not None
        and "cluster" in evidence.items.columns
    ):
        found.append(
            check_clusters(
                evidence,
                system=systems[0] if systems and len(systems) == 1 else None,
                population=population,
                seed=seed,
            )
        )
    tables = [table for table in (evidence.judgements, evidence.grades) if table is not None]
    if propensities_of(evidence) == "recorded" and not all(
        "at" in table.columns for table in tables
    ):
        found += [c for c in (check_questions(evidence, seed=seed),) if c.parts]
    return _ordered(found, seed=seed)


def _chosen(counts: AccuracyCounts, systems: Sequence[str] | None) -> AccuracyCounts:
    if systems is None or set(systems) == set(counts.systems):
        return counts
    wanted = set(systems)
    return dataclasses.replace(
        counts,
        tallies={t: n for t, n in counts.tallies.items() if t.system in wanted},
        items={c: n for c, n in counts.items.items() if c.system in wanted},
        answered={c: n for c, n in counts.answered.items() if c.system in wanted},
    )


def _stops(counts: AccuracyCounts) -> bool:
    """Whether the number of uniform questions differs between items: then a yes may have ended
    them, and is too frequent by design.
    """
    return any(len(m - {0}) > 1 for m in numbers_asked(counts).values())


def _count_checks(
    counts: AccuracyCounts,
    *,
    protocol: Protocol | None,
    alone: bool,
    seed: int,
    judgements: JudgementCounts | None = None,
    few: bool = True,
) -> list[Check]:
    """The checks that counts allow; ``alone`` says that they came without the tables, and may be of
    labels collected as sets.

    ``few`` says that no propensity is less than those that judgements show or imply.
    """
    tallies = [t for t in counts.tallies if t.answered or t.answered_share]
    if alone and protocol is None and judgements is None:
        protocol = "sets"
    found: list[Check] = []
    if any(t.design == "uniform" for t in counts.tallies):
        found.append(dataclasses.replace(check_overlap(counts), refutes_only=True))
    if (
        any(t.design == "recorded" for t in tallies)
        or counts.propensities == "uniform"
        or are_questions(counts, protocol, judgements)
    ):
        found.append(check_hits(counts, protocol=protocol, judgements=judgements, few=few))
    if len({(c.stratum, c.n_classes, c.weight) for c, n in counts.answered.items() if n}) > 1:
        found.append(check_label_rates(counts, seed=seed))
    if any(t.verdict == "unsure" for t in counts.tallies) and any(
        t.verdict != "unsure" for t in counts.tallies
    ):
        found.append(check_missing(counts, protocol=protocol, judgements=judgements, seed=seed))
    return [c for c in found if c.name == "overlap" or not math.isnan(c.p_value)]


def _ordered(checks: Sequence[Check], seed: int | None = None) -> tuple[Check, ...]:
    order = list(POLICY)
    told = (
        c
        if seed is None or c.name != "routing"
        else dataclasses.replace(c, diagnostics={**c.diagnostics, "seed": seed})
        for c in checks
    )
    return tuple(sorted(told, key=lambda c: order.index(c.name)))


def checks_for(
    checks: Sequence[Check], system: str, *, error_rates: bool = False, transition: bool = False
) -> tuple[Check, ...]:
    """The checks that bear on the accuracy of one system.

    A check with one part per system becomes that system's part, with its own p-value, so that a
    fault of one system takes no promise from another. Checks that do not bear on an estimate
    (``label rates``: an estimate weights strata) are left out, and so are checks that have nothing
    to say of this system. Checks that are not in :data:`POLICY` stay as they are.

    Parameters
    ----------
    checks
        Of :func:`label_checks`.
    system
        The system whose accuracy is estimated.
    error_rates, transition
        Whether the estimate knows rates of wrong verdicts, or the chances with which classes are
        ruled out: it does not rest on right verdicts, or on uniform routing, then.

    Examples
    --------
    >>> from noracle import AccuracyCounts, check_hits
    >>> fair = AccuracyCounts.from_counts(system="fair", n_classes=5, ordinary=(200, 150), complementary=(800, 750))
    >>> told = AccuracyCounts.from_counts(system="told", n_classes=5, ordinary=(150, 150), complementary=(50, 0))
    >>> check = check_hits(fair + told)
    >>> [checks_for([check], name)[0].passed for name in ("fair", "told")]
    [True, False]
    """
    found = []
    for check in checks:
        rule = POLICY.get(check.name)
        if rule is not None and (
            not rule.estimate
            or (error_rates and "error rates" in rule.moot)
            or (transition and "transition" in rule.moot)
        ):
            continue
        narrow = _narrowed(check, system) if rule is not None else check
        if narrow is not None:
            found.append(narrow)
    return tuple(found)


def _narrowed(check: Check, system: str) -> Check | None:
    """The check of one system; None where it has parts by system and none of this one."""
    if not check.parts or any("system" not in part for part in check.parts):
        return check
    own = next((part for part in check.parts if part["system"] == system), None)
    if own is None:
        return None
    return dataclasses.replace(
        check,
        p_value=own["p_value"],
        statistic=own["statistic"],
        finding=own.get("what", check.finding),
        parts=(own,),
        counts={**check.counts, "systems": 1},
    )


def bears_on_estimates(check: Check) -> bool:
    """Whether a failure of this check takes the promise of an estimate of accuracy away."""
    return check.name not in POLICY or POLICY[check.name].estimate


def for_comparison(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The checks that bear on a comparison or a race of the systems that they look at."""
    return tuple(c for c in checks if c.name not in POLICY or POLICY[c.name].comparison)


def remedy(check: Check) -> str:
    """What to do after a failure of this check, in one sentence; empty for a check that is not in
    :data:`POLICY`.
    """
    return POLICY[check.name].remedy if check.name in POLICY else ""
