"""``noracle search`` without a model: the best of systems that have answered already."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from noracle.accuracy import race_systems
from noracle.cli._options import Sources
from noracle.cli._output import Output, working
from noracle.errors import ArgumentError
from noracle.evidence import Evidence
from noracle.results import Comparison

_UNDECIDED = 3


def race_answers(
    sources: Sources,
    output: Output,
    *,
    systems: Sequence[str] | None,
    budget: int | None,
    confidence: float,
    seed: int,
) -> None:
    """Drop systems that are certainly not the best; with true labels only those labels are looked
    at that can change the outcome.
    """
    with working("racing"):
        evidence = sources.load()
        truth = _truths(evidence)
        if truth is None:
            if budget is not None:
                raise ArgumentError(
                    "--budget must go with labels that say what an item is (yes); got others, which are all read. Leave it out."
                )
            result, spent = race_systems(evidence, systems=systems, confidence=confidence), ""
        else:
            result, spent = _race_truths(
                evidence, truth, systems=systems, budget=budget, confidence=confidence, seed=seed
            )
    decided = len(result.leaders) == 1
    after = [] if decided else [f"not separable: {', '.join(result.leaders)}"]
    output.emit([result], single=True, seed=seed, after=[*([spent] if spent else []), *after])
    if not decided:
        raise typer.Exit(_UNDECIDED)


def _truths(evidence: Evidence) -> dict[int | str, int | str] | None:
    """The class of every labelled item, where all of them have one; None where some are only ruled
    out or were aimed at.
    """
    if evidence.judgements is None or "propensity" in evidence.judgements.columns:
        return None
    evidence.check()
    yes: dict[int | str, int | str] = {}
    no: set[int | str] = set()
    for item, k, verdict in evidence.rows("judgements", "item", "class", "verdict"):
        if verdict == "yes":
            yes[item] = k
        elif verdict == "no":
            no.add(item)
    return yes if yes and no <= yes.keys() else None


def _race_truths(
    evidence: Evidence,
    truth: dict[int | str, int | str],
    *,
    systems: Sequence[str] | None,
    budget: int | None,
    confidence: float,
    seed: int,
) -> tuple[Comparison, str]:
    from noracle.search.pool import race_pool

    rows = [row for row in evidence.rows("answers", "item", "system", "answer") if row[0] in truth]
    answers = {
        name: [row[i] for row in rows] for i, name in enumerate(("item", "system", "answer"))
    }
    items = None
    if evidence.has_own_n_classes:
        own = [row for row in evidence.rows("items", "item", "n_classes") if row[0] in truth]
        items = {name: [row[i] for row in own] for i, name in enumerate(("item", "n_classes"))}
    labelled = Evidence.from_tables(
        answers,
        None,
        items,
        n_classes=None if items else evidence.n_classes,
        classes=evidence.classes,
    )
    picked = race_pool(
        labelled,
        lambda item, k: truth[item] == k,
        systems=systems,
        budget=budget,
        confidence=confidence,
        seed=seed,
    )
    spent = f"{len(picked.asked):,} labels looked at of {len(truth):,}; {picked.passed_over:,} items passed over, where all in the race agreed"  # noqa: E501
    return picked.comparison, spent
