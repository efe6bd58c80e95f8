"""Answers that were given more than once: every item counts once.

Repeats of an item (epochs, samples of a model) share its truth and its label, so they are no more
labels than one, and items, not runs, are the unit. When is an item right?

    mean   as often as its runs are: its score is the mean of the scores of its runs, 0 for a run without an answer
    any    if one of its different answers is: since at most one of them can be, its score is the sum of their scores
    all    if all its runs are: they must give one answer, else the item is wrong whatever its label (:func:`noracle.counts.met.answers_of`)

An item whose runs all gave one answer is counted as if there were one run; so identical repeats
change nothing. Whether runs differ is a matter of the answers, never of the label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import narwhals as nw

from noracle.counts.label import Cell, Repeats, Tally, tally
from noracle.counts.met import (
    Labels,
    answers_of,
    labels_of,
    met_labels,
    place_columns,
    place_of,
    placed,
    unused_of,
)
from noracle.counts.tallies import AccuracyCounts
from noracle.errors import EvidenceError, fault
from noracle.evidence.evidence import Evidence
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.normal import VERDICTS

_REMEDY = "Keep one answer of each item, or pass repeats='all'."


def count_states(answers: Frame) -> dict[tuple[str, str], int]:
    """How many answers of each system are missing for each reason; empty without a column
    ``state``.
    """
    if "state" not in answers.columns:
        return {}
    silent = answers.filter(nw.col("answer").is_null() & ~nw.col("state").is_null())
    rows = fetch(silent.group_by("system", "state").agg(n=nw.len()).select("system", "state", "n"))
    return {(str(system), str(state)): int(n) for system, state, n in sorted(rows)}


def repeats_of(evidence: Evidence, systems: Sequence[str]) -> dict[str, Any]:
    """What counts say of repeats: ``runs``, ``repeats`` and ``most_answers``; nothing where no item
    was answered more than once.
    """
    if evidence.repeats is None:
        return {}
    wanted = evidence.repeats.filter(nw.col("system").is_in(list(systems)))
    runs = {
        str(name): int(n)
        for name, n in fetch(wanted.group_by("system").agg(n=nw.len()).select("system", "n"))
    }
    about: dict[str, Any] = {"runs": runs, "repeats": evidence.repeats_as}
    if evidence.repeats_as == "any":
        given = different_answers(wanted.filter(~nw.col("answer").is_null()))
        most = (
            given.group_by("item", "system")
            .agg(n=nw.len())
            .group_by("system")
            .agg(n=nw.col("n").max())
        )
        about["most_answers"] = {str(name): int(n) for name, n in fetch(most.select("system", "n"))}
    return about


def different_answers(answers: Frame) -> Frame:
    """Each answer of a system to an item once; no answer is one of them."""
    return (
        answers.group_by("item", "system", "answer")
        .agg(times=nw.len())
        .select("item", "system", "answer")
    )


def met_runs(
    evidence: Evidence, answers: Frame, labels: Labels | None, *, by_cluster: bool
) -> tuple[Frame, list[str]]:
    """One row per item and system, and the names of the columns that are the same for all its runs.

    ``runs``, ``answered``, ``hit`` and ``ruled_hit`` are numbers of runs, or of different answers
    where any right one will do; ``differ`` says whether answers differ, ``inverse`` is the mean or
    the sum of 1{asked = answer}/propensity, ``given`` the last of the answers.
    """
    any_of = evidence.repeats_as == "any"
    answers = different_answers(answers) if any_of else answers
    if labels is None:
        frame = placed(answers, evidence, by_cluster=by_cluster).with_columns(
            answered=~nw.col("answer").is_null(), given=nw.col("answer")
        )
    else:
        frame = met_labels(evidence, answers, labels, by_cluster=by_cluster, given=True)
    constant = [
        "system",
        *(name for name in ("verdict", "n_no") if labels is not None),
        *place_columns(evidence, by_cluster=by_cluster),
    ]
    sums = {
        name: nw.col(name).cast(nw.Int64).sum()
        for name in ("answered", "hit", "ruled_hit")
        if name in frame.columns
    }
    inverse = nw.col("inverse").sum() if any_of else nw.col("inverse").mean()
    more = {"inverse": inverse} if "inverse" in frame.columns else {}
    if more and any_of:  # a sum without a value would be 0, which is a recorded question
        more["told"] = (~nw.col("inverse").is_null()).cast(nw.Int64).max()
    found = frame.group_by("item", *constant).agg(
        runs=nw.len(), low=nw.col("given").min(), given=nw.col("given").max(), **sums, **more
    )
    differ = (nw.col("low") != nw.col("given")).fill_null(value=False)
    if not any_of:
        differ = differ | ((nw.col("answered") > 0) & (nw.col("answered") < nw.col("runs")))
    found = found.with_columns(differ=differ)
    if "told" in more:
        found = found.with_columns(inverse=nw.when(nw.col("told") == 1).then(nw.col("inverse")))
    return found, constant


def shares_of(how: Repeats, row: dict[str, Any]) -> tuple[float, float] | None:
    """What :func:`noracle.counts.label.tally` takes as shares of a row of :func:`met_runs`."""
    if not row["differ"]:
        return None
    weight = 1 if how == "any" else int(row["runs"])
    return int(row["hit"]) / weight, int(row["answered"]) / weight


def count_repeats(
    evidence: Evidence,
    *,
    systems: Sequence[str] | None,
    by_class: bool,
    by_guess: bool,
    by_cluster: bool,
) -> AccuracyCounts:
    """How often repeated answers met the labels, where runs are averaged or any right one will do."""
    if by_class or by_guess:
        what = "transition matrices, rates by class and guesses"
        raise EvidenceError(
            fault(
                "answers",
                f"must have one row for each item and system for {what}",
                "repeats",
                remedy=_REMEDY,
            )
        )
    evidence.check()
    answers = answers_of(evidence, systems, every=True)
    labels = None if evidence.judgements is None else labels_of(evidence)
    by_item, constant = met_runs(evidence, answers, labels, by_cluster=by_cluster)
    keys = [
        *constant,
        *(
            name
            for name in ("runs", "answered", "hit", "ruled_hit", "differ", "inverse")
            if name in by_item.columns
        ),
    ]
    found = fetch(by_item.group_by(*keys).agg(n=nw.len()).sort(*keys).select(*keys, "n"))
    unused = {} if labels is None else unused_of(labels, answers)
    rows = [dict(zip([*keys, "n"], row, strict=True)) for row in found]
    return _tallied(evidence, rows, {name: n for name, n in unused.items() if n})


def _tallied(
    evidence: Evidence, rows: Sequence[dict[str, Any]], unused: dict[str, int]
) -> AccuracyCounts:
    tallies: Counter[Tally] = Counter()
    items: Counter[Cell] = Counter()
    answered: Counter[Cell] = Counter()
    for row in rows:
        cell = place_of(evidence, row, str(row["system"]))
        n = int(row["n"])
        items[cell] += n
        answered[cell] += n if row["answered"] else 0
        if row.get("verdict") is not None:
            tallies[_tally(evidence.repeats_as, row, cell)] += n
    return AccuracyCounts(
        tallies=dict(tallies),
        items=dict(items),
        answered=dict(answered),
        unused=unused,
        inferred=evidence.assumed,
    )


def _tally(how: Repeats, row: dict[str, Any], cell: Cell) -> Tally:
    verdict: Any = VERDICTS[int(row["verdict"])]
    hits, all_of = int(row["hit"]), int(row["answered" if how == "any" else "runs"])
    return tally(
        cell,
        verdict,
        hit=hits > 0 if how == "any" else hits == all_of,
        answered=int(row["answered"]) > 0,
        n_ruled_out=int(row["n_no"] or 0),
        ruled_hit=0 < all_of == int(row["ruled_hit"]),
        inverse=row.get("inverse"),
        shares=shares_of(how, row),
    )
