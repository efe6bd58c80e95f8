"""Tallies out of evidence: one group-by for any size.

Two ways give the same counts. *Flat*: one outer join of judgements and answers and one group-by;
right where every item has one judgement, which the totals of that same query prove. *Grouped*:
judgements are first gathered into one label an item. Only tallies leave the engine.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw

from noracle.counts.label import Cell, Tally, tally
from noracle.counts.met import (
    WITHOUT_ANSWERS,
    after_grades,
    aim_of,
    asked_of,
    classes_expr,
    labels_of,
    met_labels,
    met_once,
    place_columns,
    place_of,
    placed,
    unknown_systems,
    unused_of,
)
from noracle.counts.repeats import count_repeats, count_states, repeats_of
from noracle.counts.tallies import AccuracyCounts
from noracle.errors import EvidenceError, fault
from noracle.evidence.evidence import Evidence
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.labels import propensities_of
from noracle.evidence.normal import NO, UNKNOWN, VERDICTS, either
from noracle.evidence.tables import TABLES
from noracle.evidence.validate import count, outside, repeats, row_faults

_LOOKED_AT = 20
"""Items whose judgements are counted before the flat way is tried."""


def count_accuracy(
    evidence: Evidence,
    *,
    systems: Sequence[str] | None = None,
    by_class: bool = False,
    by_guess: bool = False,
    by_cluster: bool = False,
) -> AccuracyCounts:
    """How often the answers of each system met the labels.

    An item with a ``yes`` has an ordinary label; without one its distinct ``no`` classes make a
    complementary label; an item with only ``unsure`` is unsure. The population is every row of the
    answers table. Where the table has a propensity other than 1/K, every question with a propensity
    is part of that design: the first question of an item (by ``at``, then by row) is its label,
    with 1{class = answer}/propensity beside it; later ones are counted as unused. A judgement
    without a propensity is uniform. Where a system answered an item more than once (column
    ``repeat``), the item counts once, as :meth:`Evidence.with_repeats` says.

    A grade is an ordinary label of its own system, and goes before what judgements say of that
    answer. Where there are grades and no answers, the population is every item of the items with
    every system that was graded; without items it is the graded answers, which are a sample of
    more.

    Parameters
    ----------
    evidence
        Answers and judgements; without judgements only the population is counted.
    systems
        The systems to count; by default all.
    by_class
        Keep the class that was asked about and the answer, for transition matrices.
    by_guess
        Keep the guess of correctness that came with the answer, for questions with recorded
        propensities.
    by_cluster
        Keep the cluster of each item.

    Returns
    -------
    AccuracyCounts

    Raises
    ------
    EvidenceError
        If rows break a rule; all faults at once.

    Examples
    --------
    >>> evidence = Evidence.from_tables(
    ...     answers={"item": [1, 2, 3], "system": ["a", "a", "a"], "answer": [0, 2, None]},
    ...     judgements={"item": [1, 2], "class": [0, 2], "verdict": ["yes", "no"]},
    ...     n_classes=3,
    ... )
    >>> counts = count_accuracy(evidence)
    >>> counts.total(verdict="yes", hit=True), counts.total(verdict="no", hit=True), sum(counts.answered.values())
    (1, 1, 2)
    """
    by = _By(by_class, by_guess, by_cluster)
    if by_cluster and (evidence.items is None or "cluster" not in evidence.items.columns):
        raise EvidenceError(
            fault("items", "must have a column cluster to be counted by cluster", "none")
        )
    if evidence._connection is None:  # somebody else's tables, which may grow
        return _count(evidence, systems, by)
    about = (
        evidence.answers,
        evidence.judgements,
        evidence.items,
        evidence.repeats,
        evidence.n_classes,
        evidence.conflicts,
        evidence.grades,
    )
    key = f"accuracy {None if systems is None else [str(s) for s in systems]} {by} {evidence.repeats_as}"
    kept = evidence._kept.get(key)
    if kept is None or any(a is not b for a, b in zip(kept[0], about, strict=True)):
        kept = evidence._kept[key] = about, _count(evidence, systems, by)
    found: AccuracyCounts = kept[1]
    return found


class _By(NamedTuple):
    """What is kept apart beside the kinds of label."""

    by_class: bool = False
    by_guess: bool = False
    by_cluster: bool = False


def _count(evidence: Evidence, systems: Sequence[str] | None, by: _By) -> AccuracyCounts:
    if evidence.repeats is not None and evidence.repeats_as != "all":
        found = count_repeats(
            evidence,
            systems=systems,
            by_class=by.by_class,
            by_guess=by.by_guess,
            by_cluster=by.by_cluster,
        )
        return _finished(evidence, found, evidence.repeats, systems)
    if systems is not None:
        evidence._meet()
    answers = asked_of(evidence, systems)
    if by.by_guess and "guess" not in answers.columns:
        raise EvidenceError(
            fault("answers", "must have a column guess to be counted by guess", "none")
        )
    plain = evidence.judgements is not None and evidence.grades is None
    if (
        plain
        and not _several_judgements(evidence, evidence.judgements)  # type: ignore[arg-type]
        and aim_of(evidence) is None
    ):
        flat = _flat(evidence, answers, by)
        if flat is not None:
            return _finished(evidence, flat, answers, systems)
    return _finished(evidence, _grouped(evidence, answers, by), answers, systems)


def _finished(
    evidence: Evidence, counts: AccuracyCounts, answers: Frame, systems: Sequence[str] | None
) -> AccuracyCounts:
    """The counts with how many answers are missing, and why; all systems that were asked for must
    be there.
    """
    missing = [s for s in systems or () if str(s) not in counts.systems]
    if missing:
        raise unknown_systems(missing, evidence)
    states = {key: n for key, n in count_states(answers).items() if key[0] in counts.systems}
    return dataclasses.replace(
        counts,
        states=states or counts.states,
        propensities=propensities_of(evidence),
        whole=counts.whole and not evidence.open_ended,
        **repeats_of(evidence, counts.systems),
    ).ordered()


class _Met(NamedTuple):
    """One row of the last group-by: how ``n`` answers met their labels. ``verdict`` is None without
    a label.
    """

    system: str
    answered: bool
    verdict: int | None
    hit: bool
    n_ruled_out: int
    ruled_hit: bool
    inverse: float | None
    chance: float | None
    place: tuple[Any, ...]
    asked: Any
    answer: Any
    guess: float | None
    n: int
    clusters: Mapping[str, int] | None = None
    """How many of them are in each cluster."""
    graded: bool = False


def _apart(
    keys: Sequence[str], rows: Iterable[tuple[Any, ...]], *, by_cluster: bool
) -> list[dict[str, Any]]:
    """Rows with the values of ``keys`` and n; those that differ in the cluster only are one row
    with the numbers by ``clusters``.
    """
    if not by_cluster:
        return [dict(zip([*keys, "n"], row, strict=True)) for row in rows]
    at = keys.index("cluster")
    found: dict[tuple[Any, ...], dict[str, int]] = {}
    for row in rows:
        inside = found.setdefault(row[:at] + row[at + 1 : -1], {})
        inside[row[at]] = inside.get(row[at], 0) + row[-1]
    others = [*keys[:at], *keys[at + 1 :]]
    return [
        {
            **dict(zip(others, key, strict=True)),
            "cluster": None,
            "n": sum(inside.values()),
            "clusters": inside,
        }
        for key, inside in found.items()
    ]


def _tallied(
    evidence: Evidence, rows: Iterable[_Met], by: _By, unused: dict[str, int]
) -> AccuracyCounts:
    tallies: Counter[Tally] = Counter()
    items: Counter[Cell] = Counter()
    answered: Counter[Cell] = Counter()
    columns = place_columns(evidence, by_cluster=by.by_cluster)
    for row in rows:
        cell = place_of(evidence, dict(zip(columns, row.place, strict=True)), row.system)
        where = {cell: row.n}
        if row.clusters is not None:
            where = {cell._replace(cluster=cluster): n for cluster, n in row.clusters.items()}
        for place, n in where.items():
            items[place] += n
            answered[place] += n if row.answered else 0
        if row.verdict is not None:
            verdict: Any = VERDICTS[row.verdict]
            met = tally(
                cell,
                verdict,
                hit=row.hit,
                answered=row.answered,
                n_ruled_out=row.n_ruled_out,
                ruled_hit=row.ruled_hit,
                inverse=row.inverse,
                asked=row.asked,
                answer=row.answer,
                guess=row.guess,
                chance=row.chance,
                graded=row.graded,
            )
            if row.clusters is None:
                tallies[met] += row.n
            else:
                for cluster, n in row.clusters.items():
                    tallies[met._replace(cluster=cluster)] += n
    used = {name: n for name, n in unused.items() if n}
    return AccuracyCounts(
        tallies=dict(tallies),
        items=dict(items),
        answered=dict(answered),
        unused=used,
        inferred=evidence.assumed,
    )


# ---------------------------------------------------------------- the flat way


def _flat(evidence: Evidence, answers: Frame, by: _By) -> AccuracyCounts | None:
    """Counts by one outer join and one group-by, or None where some item has several judgements."""
    judgements = evidence.judgements
    if judgements is None:
        return None
    frame, keys = _flat_groups(evidence, answers, judgements, by)
    rows = _apart(keys, fetch(frame), by_cluster=by.by_cluster)
    for (
        row
    ) in rows:  # a judgement that joined has said something, an answer that joined has a system
        row["has_label"], row["has_answer"] = row["said"] is not None, row["system"] is not None
    if any(row["broken"] for row in rows):
        evidence.check()
        raise EvidenceError(
            fault(
                "evidence",
                "must keep its rules",
                "rows that changed while they were read",
                remedy="Read it again.",
            )
        )
    names = {row["system"] for row in rows if row["has_answer"]}
    both = sum(row["n"] for row in rows if row["has_answer"] and row["has_label"])
    alone = sum(row["n"] for row in rows if not row["has_answer"])
    unlabelled = sum(row["n"] for row in rows if not row["has_label"])
    n_answers, n_judgements = count(answers), count(judgements)
    one_answer = both + alone == n_judgements
    one_judgement = both + unlabelled == n_answers
    if len(names) > 1 or (one_answer and one_judgement and unlabelled):
        again = (
            repeats(answers, ("item", "system"))
            if evidence._rows is None
            else evidence.repeated_answers()
        )
        one_answer = not fetch(again.head(1))
    if (len(names) > 1 and one_judgement) or (one_answer and one_judgement and alone):
        one_judgement = not fetch(repeats(judgements, ("item",)).head(1))
    if not (one_answer and one_judgement):
        return None
    # Whether answers and labels speak of the same items is seen here for nothing.
    same = answers is evidence.answers
    evidence._meet((n_judgements - alone, n_judgements) if same else None)
    met = [_flat_row(evidence, row, by) for row in rows if row["has_answer"]]
    return _tallied(evidence, met, by, {WITHOUT_ANSWERS: alone})


def _several_judgements(evidence: Evidence, judgements: Frame) -> bool:
    """Whether labels are gathered already, or some of the first items are seen to have several
    judgements; no proof if not.
    """
    if "labels" in evidence._kept:
        return True
    first = [
        row[0] for row in fetch(judgements.select("item").head(_LOOKED_AT)) if row[0] is not None
    ]
    return (
        count(judgements.filter(nw.col("item").is_in(list(dict.fromkeys(first))))) > len(set(first))
        if first
        else False
    )


def _flat_groups(
    evidence: Evidence, answers: Frame, judgements: Frame, by: _By
) -> tuple[Frame, list[str]]:
    scored = propensities_of(evidence) == "recorded"
    broken = either(
        [
            rule.broken
            for rule in row_faults(TABLES["judgements"], judgements.columns)
            if rule.column != "verdict"
        ]
    )
    said = nw.when(broken).then(nw.lit(UNKNOWN)).otherwise(nw.col("said"))
    left = judgements.select(
        "item", "class", said.alias("said"), *(["propensity"] if scored else [])
    )
    wrong = either([rule.broken for rule in row_faults(TABLES["answers"], answers.columns)])
    right = placed(answers.with_columns(wrong=wrong), evidence, by_cluster=by.by_cluster)
    places = place_columns(evidence, by_cluster=by.by_cluster)
    if evidence.items is not None:
        strange = [nw.col("known").is_null()]
        strange += [
            rule.broken
            for rule in row_faults(TABLES["items"], ["item", *places])
            if rule.column != "item"
        ]
        right = right.with_columns(wrong=nw.col("wrong") | either(strange))
    right = right.select(
        nw.col("item").alias("answered_item"),
        "system",
        "answer",
        "wrong",
        *(["guess"] if by.by_guess else []),
        *places,
    )
    joined = left.join(right, left_on="item", right_on="answered_item", how="full")
    faults = [nw.col("said") == UNKNOWN, nw.col("wrong")]
    faults += [
        e
        for e in (outside(c, evidence, classes_expr(evidence)) for c in ("answer", "class"))
        if e is not None
    ]
    hit = nw.col("answer") == nw.col("class")
    columns: dict[str, nw.Expr] = {
        "system": nw.col("system"),
        "said": nw.col("said"),
        "hit": hit,
        "answered": ~nw.col("answer").is_null(),
        "broken": either(faults).fill_null(value=False),
        **{name: nw.col(name) for name in places},
    }
    if scored:
        columns["recorded"] = ~nw.col("propensity").is_null()
        columns["propensity"] = nw.when(columns["recorded"] & hit).then(nw.col("propensity"))
        if by.by_guess:
            columns["guess"] = nw.when(columns["recorded"]).then(nw.col("guess"))
    if by.by_class:
        columns["asked"], columns["given"] = nw.col("class"), nw.col("answer")
    return joined.select(**columns).group_by(*columns).agg(n=nw.len()).sort(*columns), list(columns)


def _flat_row(evidence: Evidence, row: dict[str, Any], by: _By) -> _Met:
    verdict = int(row["said"]) if row["has_label"] else None
    hit, p = bool(row["hit"]), row.get("propensity")
    return _Met(
        system=str(row["system"]),
        answered=bool(row["answered"]),
        verdict=verdict,
        hit=hit,
        n_ruled_out=int(verdict == NO),
        ruled_hit=hit and verdict == NO,
        inverse=(0.0 if p is None else 1.0 / p) if row.get("recorded") else None,
        chance=None,
        place=tuple(row[name] for name in place_columns(evidence, by_cluster=by.by_cluster)),
        asked=row.get("asked"),
        answer=row.get("given") if verdict is not None else None,
        guess=row.get("guess"),
        n=int(row["n"]),
        clusters=row.get("clusters"),
    )


# ---------------------------------------------------------------- the grouped way


def _grouped(evidence: Evidence, answers: Frame, by: _By) -> AccuracyCounts:
    evidence.check()
    places = place_columns(evidence, by_cluster=by.by_cluster)
    if evidence.judgements is None and evidence.grades is None:
        frame = placed(answers, evidence, by_cluster=by.by_cluster).with_columns(
            answered=~nw.col("answer").is_null()
        )
        keys, unused = ["system", "answered", *places], dict[str, int]()
    else:
        labels = labels_of(evidence, by_class=by.by_class)
        frame = (
            met_labels(evidence, answers, labels, **by._asdict())
            if any(by)
            else met_once(evidence, answers, labels)
        )
        frame = frame if evidence.grades is None else after_grades(frame)
        keys = [
            name for name in frame.columns if name != "item" and (by.by_class or name != "given")
        ]
        unused = unused_of(labels, answers, evidence)
    rows = _apart(
        keys, fetch(frame.group_by(*keys).agg(n=nw.len()).sort(*keys)), by_cluster=by.by_cluster
    )
    met = [
        _Met(
            system=str(row["system"]),
            answered=bool(row["answered"]),
            verdict=None if row.get("verdict") is None else int(row["verdict"]),
            hit=bool(row.get("hit")),
            n_ruled_out=int(row.get("n_no") or 0),
            ruled_hit=bool(row.get("ruled_hit")),
            inverse=row.get("inverse"),
            chance=row.get("chance"),
            place=tuple(row[name] for name in places),
            asked=row.get("asked"),
            answer=row.get("given"),
            guess=row.get("guess"),
            n=int(row["n"]),
            clusters=row.get("clusters"),
            graded=bool(row.get("graded")),
        )
        for row in rows
    ]
    return _tallied(evidence, met, by, unused)
