"""Answers that were given more than once: every item counts once, with the mean of its repeats.

Repeats of an item (epochs, samples of a model) share its truth and its label, so they are no more labels than one. The score of an item is
the mean of the scores of its repeats, 0 for a repeat without an answer: its mean is the accuracy of one draw, and items stay independent.
An item whose repeats all met its label alike is counted as if there were one; so identical repeats change nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import narwhals as nw

from noracle.counts.met import labels_of, met_labels, place_columns, place_of, placed, rounded, unused_of
from noracle.counts.tallies import AccuracyCounts, Cell, Tally
from noracle.errors import EvidenceError, fault
from noracle.evidence.evidence import Evidence
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.normal import UNSURE, VERDICTS

_REMEDY = "Keep one answer of each item."


def count_states(answers: Frame) -> dict[tuple[str, str], int]:
    """How many answers of each system are missing for each reason; empty without a column ``state``."""
    if "state" not in answers.columns:
        return {}
    silent = answers.filter(nw.col("answer").is_null() & ~nw.col("state").is_null())
    rows = fetch(silent.group_by("system", "state").agg(n=nw.len()).select("system", "state", "n"))
    return {(str(system), str(state)): int(n) for system, state, n in sorted(rows)}


def count_repeats(evidence: Evidence, *, systems: Sequence[str] | None, by_class: bool, by_guess: bool) -> AccuracyCounts:
    """How often repeated answers met the labels."""
    if by_class or by_guess:
        what = "transition matrices, rates by class and guesses"
        raise EvidenceError(fault("answers", f"must have one row for each item and system for {what}", "repeats", remedy=_REMEDY))
    if evidence.repeats is None:
        raise EvidenceError(fault("answers", "must have repeats", "none"))
    evidence.check()
    answers = evidence.repeats
    if systems is not None:
        answers = answers.filter(nw.col("system").is_in([str(s) for s in systems]))
    places = place_columns(evidence)
    unused: dict[str, int] = {}
    if evidence.judgements is None:
        frame = placed(answers, evidence).with_columns(answered=~nw.col("answer").is_null())
        told: list[str] = []
    else:
        labels = labels_of(evidence)
        frame = met_labels(evidence, answers, labels)
        told = [name for name in ("verdict", "n_no", "recorded") if name in frame.columns]
        unused = unused_of(labels, answers)
    sums = {name: nw.col(name).cast(nw.Int64).sum() for name in ("answered", "hit", "ruled_hit") if name in frame.columns}
    means = {name: nw.col(name).fill_null(0.0).mean() for name in ("yes_score", "no_score") if name in frame.columns}
    constant = ["system", *told, *places]
    by_item = frame.group_by("item", *constant).agg(runs=nw.len(), **sums, **means)
    keys = [*constant, "runs", *sums, *means]
    rows = [
        dict(zip([*keys, "n"], row, strict=True)) for row in fetch(by_item.group_by(*keys).agg(n=nw.len()).sort(*keys).select(*keys, "n"))
    ]
    return _tallied(evidence, rows, {name: n for name, n in unused.items() if n})


def _tallied(evidence: Evidence, rows: Sequence[dict[str, Any]], unused: dict[str, int]) -> AccuracyCounts:
    tallies: Counter[Tally] = Counter()
    items: Counter[Cell] = Counter()
    answered: Counter[Cell] = Counter()
    runs: Counter[str] = Counter()
    for row in rows:
        k, stratum, weight = place_of(evidence, row)
        cell = Cell(str(row["system"]), k, stratum, weight)
        n = int(row["n"])
        items[cell] += n
        answered[cell] += n if row["answered"] else 0
        runs[cell.system] += n * int(row["runs"])
        if row.get("verdict") is not None:
            tallies[_tally(row, cell)] += n
    return AccuracyCounts(
        tallies=dict(tallies), items=dict(items), answered=dict(answered), unused=unused, inferred=evidence.inferred, runs=dict(runs)
    )


def _tally(row: dict[str, Any], cell: Cell) -> Tally:
    runs, spoken, hits, verdict = int(row["runs"]), int(row["answered"]), int(row["hit"]), int(row["verdict"])
    is_recorded = bool(row.get("recorded"))
    scored = is_recorded and verdict != UNSURE
    apart = 0 < hits < runs or 0 < spoken < runs
    return Tally(
        cell.system,
        cell.n_classes,
        VERDICTS[verdict],  # type: ignore[arg-type]
        hits == runs,
        spoken > 0,
        int(row["n_no"] or 0),
        int(row["ruled_hit"]) == runs,
        "recorded" if is_recorded else "uniform",
        rounded(row["yes_score"]) if scored else None,
        rounded(row["no_score"]) if scored else None,
        cell.stratum,
        cell.weight,
        hit_share=hits / runs if apart else None,
        answered_share=spoken / runs if apart else None,
    )
