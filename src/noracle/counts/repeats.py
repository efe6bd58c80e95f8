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

from noracle.counts.label import Cell, Tally, tally
from noracle.counts.met import labels_of, met_labels, place_columns, place_of, placed, unused_of
from noracle.counts.tallies import AccuracyCounts
from noracle.errors import EvidenceError, fault
from noracle.evidence.evidence import Evidence
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.normal import VERDICTS

_REMEDY = "Keep one answer of each item."


def count_states(answers: Frame) -> dict[tuple[str, str], int]:
    """How many answers of each system are missing for each reason; empty without a column ``state``."""
    if "state" not in answers.columns:
        return {}
    silent = answers.filter(nw.col("answer").is_null() & ~nw.col("state").is_null())
    rows = fetch(silent.group_by("system", "state").agg(n=nw.len()).select("system", "state", "n"))
    return {(str(system), str(state)): int(n) for system, state, n in sorted(rows)}


def count_repeats(evidence: Evidence, *, systems: Sequence[str] | None, by_class: bool, by_guess: bool, by_cluster: bool) -> AccuracyCounts:
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
    places = place_columns(evidence, by_cluster=by_cluster)
    unused: dict[str, int] = {}
    if evidence.judgements is None:
        frame = placed(answers, evidence, by_cluster=by_cluster).with_columns(answered=~nw.col("answer").is_null())
        told: list[str] = []
    else:
        labels = labels_of(evidence)
        frame = met_labels(evidence, answers, labels, by_cluster=by_cluster)
        told = [name for name in ("verdict", "n_no") if name in frame.columns]
        unused = unused_of(labels, answers)
    sums = {name: nw.col(name).cast(nw.Int64).sum() for name in ("answered", "hit", "ruled_hit") if name in frame.columns}
    means = {"inverse": nw.col("inverse").mean()} if "inverse" in frame.columns else {}
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
        cell = place_of(evidence, row, str(row["system"]))
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
    runs, spoken, hits = int(row["runs"]), int(row["answered"]), int(row["hit"])
    verdict: Any = VERDICTS[int(row["verdict"])]
    apart = 0 < hits < runs or 0 < spoken < runs
    return tally(
        cell,
        verdict,
        hit=hits == runs,
        answered=spoken > 0,
        n_ruled_out=int(row["n_no"] or 0),
        ruled_hit=int(row["ruled_hit"]) == runs,
        inverse=row.get("inverse"),
        shares=(hits / runs, spoken / runs) if apart else None,
    )
