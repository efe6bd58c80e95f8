"""How answers met labels, item by item: the steps that all counts share."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import narwhals as nw

from noracle.counts.label import Cell, rounded
from noracle.errors import EvidenceError, EvidenceWarning, fault, known_names
from noracle.evidence.evidence import FIRST_ONLY, Evidence
from noracle.evidence.frames import Frame, fetch, settle
from noracle.evidence.labels import (
    contradictions,
    gather,
    grade_labels,
    graded_pairs,
    item_labels,
    knows_classes,
    once,
    propensities_of,
    recorded_grades,
    with_n_classes,
)
from noracle.evidence.normal import NO, UNSURE, YES
from noracle.evidence.validate import count

WITHOUT_ANSWERS = "judgements of items without answers"
REPEATED = "repeated judgements"
UNASKED = "grades of answers that are not there"
BESIDE = "grades without a propensity beside a drawn one of the item"
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
        answers = (
            _agreed(evidence, evidence.repeats)
            if evidence.repeats_as == "all"
            else evidence.repeats
        )
    return (
        answers
        if systems is None
        else answers.filter(nw.col("system").is_in([str(s) for s in systems]))
    )


def _agreed(evidence: Evidence, runs: Frame) -> Frame:
    """The answer that all runs of a system gave to an item; null where they differ or one of them
    has none.
    """
    kept = evidence._kept.get("agreed")
    if kept is None or kept[0] is not runs:
        evidence.check()
        answer = nw.col("answer")
        guess = {"guess": nw.col("guess").mean()} if "guess" in runs.columns else {}
        by_item = runs.with_columns(spoken=(~answer.is_null()).cast(nw.Int64)).group_by(
            "item", "system"
        )
        found = by_item.agg(
            low=answer.min(), high=answer.max(), spoken=nw.col("spoken").min(), **guess
        )
        same = (nw.col("spoken") == 1) & (nw.col("low") == nw.col("high"))
        found = found.with_columns(answer=nw.when(same).then(nw.col("low"))).drop(
            "low", "high", "spoken"
        )
        kept = evidence._kept["agreed"] = runs, settle(found, ours=evidence._connection is not None)
    agreed: Frame = kept[1]
    return agreed


def asked_of(evidence: Evidence, systems: Sequence[str] | None) -> Frame:
    """The answers that labels are counted for. Where there are grades alone, an answer is one that
    could have been graded.

    That is every item of the table of items with every system that was graded; without such a table
    the graded answers themselves. What was answered is not known then, and need not be.
    """
    if evidence.answers is not None or evidence.grades is None:
        return answers_of(evidence, systems, every=True)
    grades = evidence.grades
    if systems is not None:
        if isinstance(systems, str) or not systems:
            raise EvidenceError(fault("systems", "must be a list of names", repr(systems)))
        grades = grades.filter(nw.col("system").is_in([str(s) for s in systems]))
    about = (evidence.grades, evidence.items, None if systems is None else tuple(systems))
    kept = evidence._kept.get("asked")
    if kept is None or any(a is not b and a != b for a, b in zip(kept[0], about, strict=True)):
        graded = grades.group_by("system").agg(_n=nw.len()).select("system")
        if evidence.items is not None and not evidence.open_ended:
            pairs = evidence.items.select("item").join(graded, how="cross")
        else:
            pairs = graded_pairs(evidence).select("item", "system")
            pairs = (
                pairs
                if systems is None
                else pairs.filter(nw.col("system").is_in([str(s) for s in systems]))
            )
            if recorded_grades(
                evidence
            ):  # a question was drawn for these items, and did not fall on the other systems
                drawn = (
                    evidence.grades.filter(~nw.col("propensity").is_null())
                    .group_by("item")
                    .agg(_n=nw.len())
                    .select("item")
                )
                every = nw.concat([pairs, drawn.join(graded, how="cross").select("item", "system")])
                pairs = every.group_by("item", "system").agg(_n=nw.len())
        frame = pairs.select("item", "system", answer=nw.lit("graded"))
        kept = evidence._kept["asked"] = about, settle(frame, ours=evidence._connection is not None)
    found: Frame = kept[1]
    return found


def unknown_systems(missing: Sequence[str], evidence: Evidence) -> EvidenceError:
    """The error about systems that have no answers (or grades, where there are no answers), with
    those that have.
    """
    where, table = (
        ("grades", evidence.grades) if evidence.answers is None else ("answers", evidence.answers)
    )
    rows = [] if table is None else fetch(table.group_by("system").agg(n=nw.len()).select("system"))
    known = [row[0] for row in rows if row[0] is not None]
    came = f"{list(missing)}, which have no {where}"
    return EvidenceError(
        fault("systems", f"must be in {where}", came, remedy=known_names(missing[0], known))
    )


def place_columns(evidence: Evidence, *, by_cluster: bool = False) -> list[str]:
    """The columns of ``items`` that place an item in the population."""
    names = (*_PLACE, "cluster") if by_cluster else _PLACE
    return [] if evidence.items is None else [c for c in names if c in evidence.items.columns]


def placed(frame: Frame, evidence: Evidence, *, by_cluster: bool = False) -> Frame:
    """The frame with number of classes, stratum, weight and cluster of its items, and ``known``
    (whether ``items`` holds the item).

    An item without a cluster is one of its own.
    """
    if evidence.items is None:
        return frame
    items = evidence.items.select(
        "item", *place_columns(evidence, by_cluster=by_cluster), known=nw.lit(value=True)
    )
    if "stratum" in items.columns:
        items = items.with_columns(nw.col("stratum").fill_null(""))
    if "cluster" in items.columns:
        alone = nw.concat_str(nw.lit("item "), nw.col("item").cast(nw.String))
        items = items.with_columns(
            cluster=nw.when(nw.col("cluster").is_null()).then(alone).otherwise(nw.col("cluster"))
        )
    return frame.join(items, on="item", how="left")


def classes_expr(evidence: Evidence) -> nw.Expr:
    """The number of classes of an item."""
    return nw.col("n_classes") if evidence.has_own_n_classes else nw.lit(evidence.n_classes)


def place_of(evidence: Evidence, row: dict[str, Any], system: str = "") -> Cell:
    """Where an item lies: number of classes, stratum, weight and cluster."""
    k = row["n_classes"] if evidence.has_own_n_classes else evidence.n_classes
    return Cell(
        system,
        int(k or 0),
        row.get("stratum") or "",
        rounded(row.get("weight")) or 1.0,
        row.get("cluster") or "",
    )


class Labels(NamedTuple):
    """Judgements gathered: by item and class, by item (without contradictory items), and what is
    not used.

    Where grades of single systems are all that was said there are no labels of items.
    """

    classes: Frame | None
    items: Frame | None
    unused: dict[str, int]

    @property
    def scored(self) -> bool:
        """Whether propensities were recorded."""
        return self.items is not None and "recorded" in self.items.columns


def labels_of(evidence: Evidence, *, by_class: bool = False) -> Labels:
    """The judgements as one label an item; what is repeated or contradictory is counted as unused."""
    if (
        evidence.grades is not None
        and evidence.judgements is None
        and not recorded_grades(evidence)
    ):
        return Labels(
            None,
            None,
            {CONTRADICTORY: count(contradictions(evidence))}
            if evidence.conflicts == "drop"
            else {},
        )
    found = gather(evidence)
    items = found.items
    if by_class:
        asked = item_labels(found.classes, by_class=True).select("item", "asked")
        items = items.join(asked, on="item", how="left")
    each = (
        found.each
        if evidence.grades is None or evidence.judgements is None
        else once(evidence.judgements)
    )
    unused = {
        REPEATED: 0 if evidence.judgements is None else count(evidence.judgements) - count(each)
    }
    if found.kept is not found.each:
        unused[LATER] = count(found.each) - count(found.kept)
    if evidence.conflicts == "drop" and evidence.grades is not None:
        bad = contradictions(evidence)
        unused[CONTRADICTORY] = count(bad)
        if unused[CONTRADICTORY]:
            items = items.join(bad.select("item"), on="item", how="anti")
    elif evidence.conflicts == "drop":
        unused[CONTRADICTORY] = count(items.filter(nw.col("conflict")))
        if unused[CONTRADICTORY]:
            items = items.filter(~nw.col("conflict"))
    return Labels(found.classes, items, unused)


class Aims(NamedTuple):
    """What recorded propensities say of one uniform share ε: the number of questions, the least and
    the largest ε, and whether each fits.

    Those of disjoint items add (:meth:`total`), so that the share of a table can be told from its
    partitions.
    """

    n: int
    low: float | None
    high: float | None
    fits: bool

    @classmethod
    def total(cls, parts: Iterable[Aims]) -> Aims:
        """The aims of all parts together."""
        found = list(parts)
        lows, highs = (
            [p.low for p in found if p.low is not None],
            [p.high for p in found if p.high is not None],
        )
        return cls(
            sum(p.n for p in found),
            min(lows, default=None),
            max(highs, default=None),
            all(p.fits for p in found),
        )

    @property
    def share(self) -> float | None:
        """The one ε that all of them agree with, to six digits; None where there is none, or where
        too few questions tell it.
        """
        if self.low is None or self.high is None or not self.fits or self.n < ENOUGH:
            return None
        agreed = self.high - self.low < _SAME and self.low > -_SAME and self.high <= 1 + _SAME
        return min(1.0, max(0.0, round((self.low + self.high) / 2, 6))) if agreed else None


def aim_of(evidence: Evidence) -> float | None:
    """The uniform share ε, if questions were aimed at the answers here: π_k = (1 -
    ε)·votes(k)/votes + ε/K for every question; else None.

    Then the probability of a question about *any* answer is known, not only of those that were
    asked. Every recorded propensity must agree with one ε; an item without an answer is asked with
    1/K.
    """
    about = (
        evidence.answers,
        evidence.judgements,
        evidence.items,
        evidence.n_classes,
        evidence.grades,
    )
    kept = evidence._kept.get("aim")
    if kept is None or any(a is not b for a, b in zip(kept[0], about, strict=True)):
        if evidence.grades is not None and not knows_classes(evidence):
            share = _aim_at_answers(evidence)
        else:
            aims = aims_of(evidence)
            share = None if aims is None else aims.share
        kept = evidence._kept["aim"] = about, share
    found: float | None = kept[1]
    return found


def as_aimed(evidence: Evidence, share: float | None) -> Evidence:
    """The same evidence as part of a larger table whose questions were aimed with this share."""
    about = (
        evidence.answers,
        evidence.judgements,
        evidence.items,
        evidence.n_classes,
        evidence.grades,
    )
    known: dict[str, Any] = {
        name: evidence._kept[name] for name in ("propensities", "labels") if name in evidence._kept
    }
    return dataclasses.replace(evidence, _kept={**known, "aim": (about, share)})


def aims_of(evidence: Evidence) -> Aims | None:
    """The shares that the recorded propensities of answered items tell; None where none were
    recorded, or where answers have repeats.
    """
    if (
        evidence.answers is None
        or evidence.repeats is not None
        or propensities_of(evidence) != "recorded"
    ):
        return None
    each = with_n_classes(gather(evidence).each.filter(~nw.col("propensity").is_null()), evidence)
    votes, totals = _votes(evidence.answers)
    told = each.join(
        votes, left_on=["item", "class"], right_on=["item", "answer"], how="left"
    ).join(totals, on="item", how="inner")
    keys = ["propensity", "votes", "total", "k"]
    rows = fetch(
        told.with_columns(nw.col("votes").fill_null(0))
        .group_by(*keys)
        .agg(n=nw.len())
        .select(*keys, "n")
    )
    epsilons, fits = [], True
    for propensity, mine, total, k, _ in rows:
        share = mine / total if total else 1 / k
        if abs(share - 1 / k) < 1e-12:
            fits = fits and abs(propensity - 1 / k) < _SAME
        else:
            epsilons.append((share - propensity) / (share - 1 / k))
    low, high = min(epsilons, default=None), max(epsilons, default=None)
    if evidence.grades is None and low is not None:  # only a grade asks about answers alone
        fits = fits and low > _SAME
    return Aims(sum(row[-1] for row in rows), low, high, fits)


def _aim_at_answers(evidence: Evidence) -> float | None:
    """0 where every propensity is the share of the systems that gave the answer: one of the systems
    was drawn, each alike.
    """
    if (
        evidence.answers is None
        or evidence.repeats is not None
        or propensities_of(evidence) != "recorded"
    ):
        return None
    each = gather(evidence).each.filter(~nw.col("propensity").is_null())
    votes, totals = _votes(evidence.answers)
    told = each.join(
        votes, left_on=["item", "class"], right_on=["item", "answer"], how="left"
    ).join(totals, on="item", how="inner")
    share = nw.col("votes").fill_null(0).cast(nw.Float64) / nw.col("total").cast(nw.Float64)
    off = (nw.col("propensity") - share).abs() > _SAME
    n, wrong = fetch(
        told.select(off=off.cast(nw.Int64)).select(n=nw.len(), off=nw.col("off").max())
    )[0]
    return 0.0 if n >= ENOUGH and not wrong else None


_SAME = 1e-6
ENOUGH = 20
"""Questions that show how they were aimed."""


def _votes(answers: Frame) -> tuple[Frame, Frame]:
    """How many systems gave each answer of an item, and how many gave one at all."""
    given = answers.filter(~nw.col("answer").is_null())
    totals = answers.group_by("item").agg(total=(~nw.col("answer").is_null()).cast(nw.Int64).sum())
    return given.group_by("item", "answer").agg(votes=nw.len()), totals


def unused_of(labels: Labels, answers: Frame, evidence: Evidence | None = None) -> dict[str, int]:
    """What is not used of the labels, with the judgements and grades of items that these answers
    leave out.
    """
    found = dict(labels.unused)
    if labels.items is not None:
        without = labels.items.join(answers.select("item"), on="item", how="anti")
        found[WITHOUT_ANSWERS] = int(fetch(without.select(n=nw.col("n_judged").sum()))[0][0] or 0)
    if evidence is not None and evidence.grades is not None and evidence.answers is not None:
        mine = evidence.grades.join(
            evidence.answers.select("item", "system"), on=["item", "system"], how="anti"
        )
        found[UNASKED] = count(mine)
    if evidence is not None and evidence.grades is not None and recorded_grades(evidence):
        told = ~nw.col("propensity").is_null()
        drawn = evidence.grades.filter(told).group_by("item").agg(_n=nw.len()).select("item")
        found[BESIDE] = count(evidence.grades.filter(~told).join(drawn, on="item", how="inner"))
    return found


def met_once(evidence: Evidence, answers: Frame, labels: Labels) -> Frame:
    """:func:`met_labels` for the counts that ask alike, worked out once; the answer itself is there
    where propensities were recorded.
    """
    about = (
        evidence.judgements,
        evidence.items,
        answers,
        evidence.n_classes,
        evidence.conflicts,
        evidence.grades,
    )
    kept = evidence._kept.get("met")
    if kept is None or any(a is not b for a, b in zip(kept[0], about, strict=True)):
        met = met_labels(evidence, answers, labels, given=labels.scored)
        kept = evidence._kept["met"] = about, settle(met, ours=evidence._connection is not None)
    found: Frame = kept[1]
    return found


def met_labels(
    evidence: Evidence,
    answers: Frame,
    labels: Labels,
    *,
    by_class: bool = False,
    by_guess: bool = False,
    by_cluster: bool = False,
    given: bool = False,
) -> Frame:
    """One row per answer: how it met the label of its item (``verdict`` is null without a label).

    ``by_class`` keeps the class that was asked about and the answer, ``given`` only the answer.
    ``inverse`` is 1{asked = answer}/propensity for questions with a recorded propensity, null for
    others.
    """
    if labels.items is None or labels.classes is None:
        return with_grades(evidence, _unjudged(evidence, answers, by_cluster=by_cluster))
    scored = labels.scored
    about = [
        "item",
        "verdict",
        "n_no",
        *(["recorded"] if scored else []),
        *(["asked"] if by_class else []),
    ]
    of_class = labels.classes.select(
        "item", "class", "yes", "no", "unsure", *(["inverse"] if scored else [])
    )
    frame = placed(answers, evidence, by_cluster=by_cluster).join(
        labels.items.select(*about), on="item", how="left"
    )
    frame = frame.join(of_class, left_on=["item", "answer"], right_on=["item", "class"], how="left")
    verdict, labelled = nw.col("verdict"), ~nw.col("verdict").is_null()
    spoken = (
        nw.when(verdict == YES)
        .then(nw.col("yes"))
        .when(verdict == NO)
        .then(nw.col("no"))
        .otherwise(nw.col("unsure"))
    )
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
        frame = frame.join(votes, on=["item", "answer"], how="left").join(
            totals, on="item", how="left"
        )
        share = nw.col("votes").cast(nw.Float64) / nw.col("total").cast(nw.Float64)
        chance = (1 - aim) * share + aim / classes_expr(evidence).cast(nw.Float64) if aim else share
        columns["chance"] = nw.when((nw.col("recorded") == 1) & ~nw.col("answer").is_null()).then(
            chance
        )
    if scored:
        is_recorded = (nw.col("recorded") == 1).fill_null(value=False)
        columns["inverse"] = nw.when(is_recorded).then(nw.col("inverse").fill_null(0.0))
        if by_guess:
            columns["guess"] = nw.when(is_recorded).then(nw.col("guess"))
    if by_class:
        columns["asked"] = nw.col("asked")
    if by_class or given:
        columns["given"] = nw.when(labelled).then(nw.col("answer"))
    found = frame.select(**columns)
    return found if evidence.grades is None else with_grades(evidence, _drawn(evidence, found))


def _unjudged(evidence: Evidence, answers: Frame, *, by_cluster: bool) -> Frame:
    """Answers of items of which no judgement says anything."""
    frame = placed(answers, evidence, by_cluster=by_cluster)
    return frame.select(
        "item",
        "system",
        *place_columns(evidence, by_cluster=by_cluster),
        answered=~nw.col("answer").is_null(),
        verdict=nw.lit(None, dtype=nw.Int64),
        hit=nw.lit(value=False),
        n_no=nw.lit(0, dtype=nw.Int64),
        ruled_hit=nw.lit(value=False),
    )


def _drawn(evidence: Evidence, met: Frame) -> Frame:
    """Labels of grades with a propensity, for the systems whose answers could be drawn: those that
    were.

    A grade asks about answers only. A system that has none with a propensity was not in the draw,
    and a score of it would have no meaning.
    """
    if (
        evidence.grades is None
        or evidence.answers is None
        or evidence.judgements is not None
        or not recorded_grades(evidence)
    ):
        return met
    told = (
        evidence.grades.filter(~nw.col("propensity").is_null()).group_by("system").agg(_n=nw.len())
    )
    mine = nw.col("system").is_in([str(row[0]) for row in fetch(told.select("system"))])
    columns: dict[str, nw.Expr] = {name: nw.col(name) for name in met.columns}
    for name in ("verdict", "inverse", "chance", "given", "asked", "guess"):
        if name in columns:
            columns[name] = nw.when(mine).then(nw.col(name))
    for name in ("hit", "ruled_hit"):
        columns[name] = nw.col(name) & mine
    columns["n_no"] = nw.when(mine).then(nw.col("n_no")).otherwise(nw.lit(0, dtype=nw.Int64))
    return met.select(**columns)


def with_grades(evidence: Evidence, met: Frame) -> Frame:
    """The answers that met judgements, with the ``grade`` of each: a code of a verdict, null
    without one.

    Without answers a grade with a propensity is a question about its system alone, and the other
    systems of its item were not asked: ``inverse`` is 1/propensity of the graded one and 0 for
    them.
    """
    grades = grade_labels(evidence)
    if evidence.conflicts == "drop":
        grades = grades.join(contradictions(evidence).select("item"), on="item", how="anti")
    if "inverse" not in grades.columns:
        return met.join(grades, on=["item", "system"], how="left")
    aimed = grades.filter(~nw.col("inverse").is_null())
    own = aimed.select(
        "item", "system", asked_grade=nw.col("grade"), asked_inverse=nw.col("inverse")
    )
    asked = aimed.group_by("item").agg(asked_verdict=nw.col("grade").max(), _n=nw.len()).drop("_n")
    frame = met.join(
        grades.filter(nw.col("inverse").is_null()).drop("inverse"),
        on=["item", "system"],
        how="left",
    )
    frame = frame.join(asked, on="item", how="left").join(own, on=["item", "system"], how="left")
    here = ~nw.col("asked_verdict").is_null() & nw.col("grade").is_null()
    names = [
        name
        for name in met.columns
        if name not in ("verdict", "hit", "n_no", "ruled_hit", "inverse")
    ]
    hit = nw.when(here).then(~nw.col("asked_grade").is_null()).otherwise(nw.col("hit"))
    return frame.select(
        *names,
        "grade",
        verdict=nw.when(here).then(nw.col("asked_verdict")).otherwise(nw.col("verdict")),
        hit=hit,
        n_no=nw.when(here)
        .then((nw.col("asked_verdict") == NO).cast(nw.Int64))
        .otherwise(nw.col("n_no")),
        ruled_hit=nw.when(here)
        .then((nw.col("asked_verdict") == NO) & ~nw.col("asked_grade").is_null())
        .otherwise(nw.col("ruled_hit")),
        inverse=nw.when(here)
        .then(nw.col("asked_inverse").fill_null(0.0))
        .otherwise(nw.col("inverse")),
    )


def after_grades(frame: Frame) -> Frame:
    """Of each answer the label that counts: its own grade, if that says right or wrong; else what
    judgements say; else unsure.

    ``graded`` says which it is; a graded answer has an ordinary label, whose ``hit`` says that it
    is right.
    """
    grade, verdict = nw.col("grade"), nw.col("verdict")
    sure = ((grade == YES) | (grade == NO)).fill_null(value=False)
    open_grade = (grade == UNSURE).fill_null(value=False) & (
        verdict.is_null() | (verdict == UNSURE)
    )
    graded = sure | open_grade
    columns: dict[str, nw.Expr] = {name: nw.col(name) for name in frame.columns if name != "grade"}
    columns["verdict"] = (
        nw.when(sure).then(nw.lit(YES)).when(open_grade).then(nw.lit(UNSURE)).otherwise(verdict)
    )
    columns["hit"] = (
        nw.when(graded).then((grade != NO) & nw.col("answered")).otherwise(nw.col("hit"))
    )
    columns["n_no"] = nw.when(graded).then(nw.lit(0, dtype=nw.Int64)).otherwise(nw.col("n_no"))
    columns["ruled_hit"] = nw.col("ruled_hit") & ~graded
    for name in ("inverse", "chance", "guess", "asked", "given"):
        if name in columns:
            columns[name] = nw.when(~graded).then(nw.col(name))
    return frame.select(**columns, graded=graded)
