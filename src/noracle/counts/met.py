"""How answers met labels, item by item: the steps that all counts share."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals as nw

from noracle.counts.label import Cell, rounded
from noracle.errors import EvidenceError, EvidenceWarning, fault
from noracle.evidence.evidence import FIRST_ONLY, Evidence
from noracle.evidence.frames import Frame, fetch, settle
from noracle.evidence.labels import gather, item_labels, propensities_of, with_n_classes
from noracle.evidence.normal import NO, YES
from noracle.evidence.validate import count

WITHOUT_ANSWERS = "judgements of items without answers"
REPEATED = "repeated judgements"
CONTRADICTORY = "contradictory items"
LATER = "later questions about items that were asked about before"
NOT_ALL_SYSTEMS = "labelled items that some system was not asked about"

_PLACE = ("n_classes", "stratum", "weight")


def answers_of(evidence: Evidence, systems: Sequence[str] | None, *, every: bool = False) -> Frame:
    """The answers of the chosen systems, or of all; of repeats the first, or ``every`` one."""
    if evidence.answers is None:
        raise EvidenceError(fault("evidence", "must have answers", "none"))
    if isinstance(systems, str) or (systems is not None and not systems):
        raise EvidenceError(fault("systems", "must be a list of names", repr(systems)))
    answers = evidence.answers
    if evidence.repeats is not None and not every:
        warnings.warn(FIRST_ONLY, EvidenceWarning, stacklevel=3)
    elif evidence.repeats is not None:
        answers = _agreed(evidence, evidence.repeats) if evidence.repeats_as == "all" else evidence.repeats
    return answers if systems is None else answers.filter(nw.col("system").is_in([str(s) for s in systems]))


def _agreed(evidence: Evidence, runs: Frame) -> Frame:
    """The answer that all runs of a system gave to an item; null where they differ or one of them has none."""
    kept = evidence._kept.get("agreed")
    if kept is None or kept[0] is not runs:
        evidence.check()
        answer = nw.col("answer")
        guess = {"guess": nw.col("guess").mean()} if "guess" in runs.columns else {}
        by_item = runs.with_columns(spoken=(~answer.is_null()).cast(nw.Int64)).group_by("item", "system")
        found = by_item.agg(low=answer.min(), high=answer.max(), spoken=nw.col("spoken").min(), **guess)
        same = (nw.col("spoken") == 1) & (nw.col("low") == nw.col("high"))
        found = found.with_columns(answer=nw.when(same).then(nw.col("low"))).drop("low", "high", "spoken")
        kept = evidence._kept["agreed"] = runs, settle(found, ours=evidence._connection is not None)
    agreed: Frame = kept[1]
    return agreed


def place_columns(evidence: Evidence, *, by_cluster: bool = False) -> list[str]:
    """The columns of ``items`` that place an item in the population."""
    names = (*_PLACE, "cluster") if by_cluster else _PLACE
    return [] if evidence.items is None else [c for c in names if c in evidence.items.columns]


def placed(frame: Frame, evidence: Evidence, *, by_cluster: bool = False) -> Frame:
    """The frame with number of classes, stratum, weight and cluster of its items, and ``known`` (whether ``items`` holds the item).

    An item without a cluster is one of its own.
    """
    if evidence.items is None:
        return frame
    items = evidence.items.select("item", *place_columns(evidence, by_cluster=by_cluster), known=nw.lit(value=True))
    if "stratum" in items.columns:
        items = items.with_columns(nw.col("stratum").fill_null(""))
    if "cluster" in items.columns:
        alone = nw.concat_str(nw.lit("item "), nw.col("item").cast(nw.String))
        items = items.with_columns(cluster=nw.when(nw.col("cluster").is_null()).then(alone).otherwise(nw.col("cluster")))
    return frame.join(items, on="item", how="left")


def classes_expr(evidence: Evidence) -> nw.Expr:
    """The number of classes of an item."""
    return nw.col("n_classes") if evidence.has_own_n_classes else nw.lit(evidence.n_classes)


def place_of(evidence: Evidence, row: dict[str, Any], system: str = "") -> Cell:
    """Where an item lies: number of classes, stratum, weight and cluster."""
    k = row["n_classes"] if evidence.has_own_n_classes else evidence.n_classes
    return Cell(system, int(k or 0), row.get("stratum") or "", rounded(row.get("weight")) or 1.0, row.get("cluster") or "")


class Labels(NamedTuple):
    """Judgements gathered: by item and class, by item (without contradictory items), and what is not used."""

    classes: Frame
    items: Frame
    unused: dict[str, int]


def labels_of(evidence: Evidence, *, by_class: bool = False) -> Labels:
    """The judgements as one label an item; what is repeated or contradictory is counted as unused."""
    found = gather(evidence)
    items = found.items
    if by_class:
        asked = item_labels(found.classes, by_class=True).select("item", "asked")
        items = items.join(asked, on="item", how="left")
    unused = {REPEATED: 0 if evidence.judgements is None else count(evidence.judgements) - count(found.each)}
    if found.kept is not found.each:
        unused[LATER] = count(found.each) - count(found.kept)
    if evidence.conflicts == "drop":
        unused[CONTRADICTORY] = count(items.filter(nw.col("conflict")))
        if unused[CONTRADICTORY]:
            items = items.filter(~nw.col("conflict"))
    return Labels(found.classes, items, unused)


def aim_of(evidence: Evidence) -> float | None:
    """The uniform share ε, if questions were aimed at the answers here: π_k = (1 - ε)·votes(k)/votes + ε/K for every question; else None.

    Then the probability of a question about *any* answer is known, not only of those that were asked. Every recorded propensity must
    agree with one ε; an item without an answer is asked with 1/K.
    """
    if evidence.answers is None or evidence.repeats is not None or propensities_of(evidence) != "recorded":
        return None
    about = (evidence.answers, evidence.judgements, evidence.items, evidence.n_classes)
    kept = evidence._kept.get("aim")
    if kept is not None and all(a is b for a, b in zip(kept[0], about, strict=True)):
        found: float | None = kept[1]
        return found
    each = with_n_classes(gather(evidence).each.filter(~nw.col("propensity").is_null()), evidence)
    votes, totals = _votes(evidence.answers)
    told = each.join(votes, left_on=["item", "class"], right_on=["item", "answer"], how="left").join(totals, on="item", how="inner")
    keys = ["propensity", "votes", "total", "k"]
    rows = fetch(told.with_columns(nw.col("votes").fill_null(0)).group_by(*keys).agg(n=nw.len()).select(*keys, "n"))
    epsilons = []
    consistent = sum(row[-1] for row in rows) >= ENOUGH
    for propensity, mine, total, k, _ in rows:
        share = mine / total if total else 1 / k
        if abs(share - 1 / k) < 1e-12:
            consistent = consistent and abs(propensity - 1 / k) < _SAME
        else:
            epsilons.append((share - propensity) / (share - 1 / k))
    found = None
    if consistent and epsilons and max(epsilons) - min(epsilons) < _SAME and _SAME < epsilons[0] <= 1 + _SAME:
        found = min(1.0, sum(epsilons) / len(epsilons))
    evidence._kept["aim"] = about, found
    return found


_SAME = 1e-6
ENOUGH = 20
"""Questions that show how they were aimed."""


def _votes(answers: Frame) -> tuple[Frame, Frame]:
    """How many systems gave each answer of an item, and how many gave one at all."""
    given = answers.filter(~nw.col("answer").is_null())
    totals = answers.group_by("item").agg(total=(~nw.col("answer").is_null()).cast(nw.Int64).sum())
    return given.group_by("item", "answer").agg(votes=nw.len()), totals


def unused_of(labels: Labels, answers: Frame) -> dict[str, int]:
    """What is not used of the labels, with the judgements of items that these answers leave out."""
    without = labels.items.join(answers.select("item"), on="item", how="anti")
    return {**labels.unused, WITHOUT_ANSWERS: int(fetch(without.select(n=nw.col("n_judged").sum()))[0][0] or 0)}


def met_once(evidence: Evidence, answers: Frame, labels: Labels) -> Frame:
    """:func:`met_labels` for the counts that ask alike, worked out once; the answer itself is there where propensities were recorded."""
    about = (evidence.judgements, evidence.items, answers, evidence.n_classes, evidence.conflicts)
    kept = evidence._kept.get("met")
    if kept is None or any(a is not b for a, b in zip(kept[0], about, strict=True)):
        met = met_labels(evidence, answers, labels, given="recorded" in labels.items.columns)
        kept = evidence._kept["met"] = about, settle(met, ours=evidence._connection is not None)
    found: Frame = kept[1]
    return found


def met_labels(
    evidence: Evidence, answers: Frame, labels: Labels, *, by_class: bool = False, by_guess: bool = False, by_cluster: bool = False,
    given: bool = False,
) -> Frame:  # fmt: skip
    """One row per answer: how it met the label of its item (``verdict`` is null without a label).

    ``by_class`` keeps the class that was asked about and the answer, ``given`` only the answer. ``inverse`` is 1{asked = answer}/propensity
    for questions with a recorded propensity, null for others.
    """
    scored = "recorded" in labels.items.columns
    about = ["item", "verdict", "n_no", *(["recorded"] if scored else []), *(["asked"] if by_class else [])]
    of_class = labels.classes.select("item", "class", "yes", "no", "unsure", *(["inverse"] if scored else []))
    frame = placed(answers, evidence, by_cluster=by_cluster).join(labels.items.select(*about), on="item", how="left")
    frame = frame.join(of_class, left_on=["item", "answer"], right_on=["item", "class"], how="left")
    verdict, labelled = nw.col("verdict"), ~nw.col("verdict").is_null()
    spoken = nw.when(verdict == YES).then(nw.col("yes")).when(verdict == NO).then(nw.col("no")).otherwise(nw.col("unsure"))
    columns: dict[str, nw.Expr] = {
        "item": nw.col("item"),
        "system": nw.col("system"),
        "answered": ~nw.col("answer").is_null(),
        "verdict": verdict,
        "hit": (labelled & (spoken == 1)).fill_null(value=False),
        "n_no": nw.col("n_no").fill_null(0),
        "ruled_hit": (labelled & (nw.col("no") == 1)).fill_null(value=False),
        **{name: nw.col(name) for name in place_columns(evidence, by_cluster=by_cluster)},
    }
    aim = aim_of(evidence) if scored else None
    if aim is not None and evidence.answers is not None:
        votes, totals = _votes(evidence.answers)
        frame = frame.join(votes, on=["item", "answer"], how="left").join(totals, on="item", how="left")
        share = nw.col("votes").cast(nw.Float64) / nw.col("total").cast(nw.Float64)
        chance = (1 - aim) * share + aim / classes_expr(evidence).cast(nw.Float64)
        columns["chance"] = nw.when((nw.col("recorded") == 1) & ~nw.col("answer").is_null()).then(chance)
    if scored:
        is_recorded = (nw.col("recorded") == 1).fill_null(value=False)
        columns["inverse"] = nw.when(is_recorded).then(nw.col("inverse").fill_null(0.0))
        if by_guess:
            columns["guess"] = nw.when(is_recorded).then(nw.col("guess"))
    if by_class:
        columns["asked"] = nw.col("asked")
    if by_class or given:
        columns["given"] = nw.when(labelled).then(nw.col("answer"))
    return frame.select(**columns)
