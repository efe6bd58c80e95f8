"""How answers met labels, item by item, and tallies out of evidence: one group-by for any size."""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw

from noracle.counts.tally import (
    AccuracyCounts,
    Cell,
    JudgementCounts,
    Question,
    Repeats,
    Tally,
    rounded,
    tally,
)
from noracle.errors import EvidenceError, EvidenceWarning, known_names
from noracle.evidence.evidence import FIRST_ONLY, Evidence
from noracle.evidence.frames import Frame, fetch, settle
from noracle.evidence.labels import (
    contradictions,
    count,
    gather,
    grade_labels,
    graded_pairs,
    item_labels,
    knows_classes,
    once,
    outside,
    propensities_of,
    recorded_grades,
    repeats,
    row_faults,
    with_n_classes,
)
from noracle.evidence.tables import NO, TABLES, UNKNOWN, UNSURE, VERDICTS, YES, either

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
        raise EvidenceError.of("evidence", "must have answers", "none")
    if isinstance(systems, str) or (systems is not None and not systems):
        raise EvidenceError.of("systems", "must be a list of names", repr(systems))
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
            raise EvidenceError.of("systems", "must be a list of names", repr(systems))
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
    return EvidenceError.of(
        "systems", f"must be in {where}", came, remedy=known_names(missing[0], known)
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


# ----------------------------------------------------------------------------
# Answers that were given more than once: every item counts once.


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
    """What :func:`noracle.counts.tally.tally` takes as shares of a row of :func:`met_runs`."""
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
        raise EvidenceError.of(
            "answers",
            f"must have one row for each item and system for {what}",
            "repeats",
            remedy=_REMEDY,
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
    return _tallied_runs(evidence, rows, {name: n for name, n in unused.items() if n})


def _tallied_runs(
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


# ---------------------------------------------------------------------------- The answers by item,
# for drawing questions; items are sorted so that the order of the rows does not matter.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTable:
    """Items in sorted order with their number of classes and the answers given to each."""

    items: tuple[Any, ...]
    systems: tuple[str, ...]
    n_classes: Mapping[Any, int] | int
    names: tuple[int | str, ...] | None
    answers: Mapping[Any, Counter[Any]]

    def classes_of(self, i: int) -> Sequence[int | str]:
        """The classes of the i-th item."""
        k = self.n_classes if isinstance(self.n_classes, int) else self.n_classes[self.items[i]]
        return range(k) if self.names is None else self.names[:k]

    def votes(self, i: int) -> dict[Any, int]:
        """How many systems gave each answer to the i-th item."""
        return dict(self.answers.get(self.items[i], Counter()))


def answer_table(evidence: Evidence, *, systems: Sequence[str] | None = None) -> AnswerTable:
    """All items of the evidence (of ``items`` if there, else of ``answers``) with the answers of
    the chosen systems.
    """
    if evidence.answers is None and evidence.items is None:
        raise EvidenceError.of("evidence", "must have answers or items", "neither")
    evidence.check()
    names = evidence.classes
    if names is None and evidence.class_kind == "text":
        raise EvidenceError.of(
            "classes",
            "must be given where classes are text",
            "none",
            remedy="Pass classes=[…], all of them.",
        )
    rows = (
        []
        if evidence.answers is None
        else fetch(evidence.answers.select("item", "system", "answer"))
    )
    found = sorted({str(r[1]) for r in rows})
    missing = [s for s in systems or () if s not in found]
    if missing:
        came = f"{missing}, which have no answers"
        raise EvidenceError.of(
            "systems", "must be in answers", came, remedy=known_names(missing[0], found)
        )
    chosen = set(found if systems is None else systems)
    votes: dict[Any, Counter[Any]] = {}
    for item, system, answer in rows:
        if system in chosen and answer is not None:
            votes.setdefault(item, Counter())[answer] += 1
    items = {
        r[0] for r in (rows if evidence.items is None else fetch(evidence.items.select("item")))
    }
    n_classes: Mapping[Any, int] | int = int(evidence.n_classes or 0)
    if evidence.has_own_n_classes and evidence.items is not None:
        n_classes = {
            item: int(k) for item, k in fetch(evidence.items.select("item", nw.col("n_classes")))
        }
    return AnswerTable(
        items=tuple(sorted(items)),
        systems=tuple(sorted(chosen)),
        n_classes=n_classes,
        names=names,
        answers=votes,
    )


# ----------------------------------------------------------------------------
# What was asked and what was said.


def count_judgements(
    evidence: Evidence,
    *,
    by_rater: bool = True,
    by_time: bool = False,
    counts: AccuracyCounts | None = None,
) -> JudgementCounts:
    """What was asked and what was said, over all judgements, whether their items have answers or
    not.

    Where propensities were recorded, only the first question of each item counts, as in its label:
    whether there is a second one may depend on the first verdict, and then neither classes nor
    verdicts are as the design says. Exact repeats count once; judgements of items that the table of
    items does not hold are left out where that table gives the number of classes.

    Parameters
    ----------
    by_time
        Adds the ``period`` of each question: ten periods with about the same number of judgements,
        in the order of ``at``.
    counts
        Counts of the same evidence, if they are there: where they prove one judgement an item,
        nothing can be repeated or contradictory, and one scan is enough.

    Examples
    --------
    >>> evidence = Evidence.from_tables(judgements={"item": [1, 2], "class": [0, 0], "verdict": ["yes", "no"]}, n_classes=3)
    >>> sorted(q.verdict for q in count_judgements(evidence).questions)
    ['no', 'yes']
    """
    if evidence.judgements is None:
        raise EvidenceError.of("evidence", "must have judgements", "none")
    if by_time and "at" not in evidence.judgements.columns:
        raise EvidenceError.of("judgements", "must have a column at to be counted by time", "none")
    frame = _questions(
        evidence,
        evidence.judgements,
        single=counts is not None and _one_judgement_an_item(evidence, counts),
    )
    keys = [
        "class",
        "said",
        *(
            name
            for name, wanted in (("rater", by_rater), ("propensity", True), ("at", by_time))
            if wanted
        ),
    ]
    keys = [name for name in keys if name in frame.columns]
    if evidence.has_own_n_classes and evidence.items is not None:
        frame = frame.join(evidence.items.select("item", "n_classes"), on="item", how="inner")
        keys.append("n_classes")
    rows = [
        (dict(zip(keys, values, strict=True)), int(n))
        for *values, n in fetch(frame.group_by(*keys).agg(n=nw.len()).sort(*keys))
    ]
    if by_time:
        rows.sort(key=lambda pair: (pair[0]["at"] is not None, pair[0]["at"]))
    questions: Counter[Question] = Counter()
    total, seen = sum(n for _, n in rows), 0
    for row, n in rows:
        k = int(row.get("n_classes") or evidence.n_classes or 0)
        verdict: Any = VERDICTS[int(row["said"])]
        period = f"period {10 * seen // total + 1} of 10" if by_time else ""
        questions[
            Question(
                k,
                row["class"],
                verdict,
                row.get("rater") or "",
                rounded(row.get("propensity")),
                period,
            )
        ] += n
        seen += n
    return JudgementCounts(questions=dict(questions), inferred=evidence.assumed).ordered()


def _questions(evidence: Evidence, judgements: Frame, *, single: bool) -> Frame:
    """The judgements that make labels, each once, without those of contradictory items if these are
    dropped.
    """
    if single:
        return judgements
    evidence.check()
    labels = gather(
        evidence
        if evidence.grades is None
        else dataclasses.replace(evidence, grades=None, _kept={})
    )
    if evidence.conflicts == "drop":
        return labels.kept.join(
            labels.known.filter(nw.col("conflict")).select("item"), on="item", how="anti"
        )
    return labels.kept


def _one_judgement_an_item(evidence: Evidence, counts: AccuracyCounts) -> bool:
    """Every labelled item has a judgement; if there are no more judgements than labelled items,
    each has exactly one.
    """
    if evidence.grades is not None:
        return False
    labelled: Counter[str] = Counter()
    for found, n in counts.tallies.items():
        labelled[found.system] += n
    judgements = 0 if evidence.judgements is None else count(evidence.judgements)
    return judgements == max(labelled.values(), default=0) + counts.unused.get(WITHOUT_ANSWERS, 0)


def count_first_verdicts(evidence: Evidence) -> dict[tuple[str, int], int]:
    """Items with recorded propensities, by the first verdict and the number of questions; empty
    where none were recorded.

    Examples
    --------
    >>> judgements = {"item": [1, 1, 2], "class": [0, 1, 0], "verdict": ["no", "yes", "yes"], "propensity": [0.5, 0.5, 0.5]}
    >>> count_first_verdicts(Evidence.from_tables(judgements=judgements, n_classes=3))
    {('no', 2): 1, ('yes', 1): 1}
    """
    if (evidence.judgements is None and evidence.grades is None) or propensities_of(
        evidence
    ) != "recorded":
        return {}
    about = (evidence.judgements, evidence.items, evidence.n_classes, evidence.grades)
    kept = evidence._kept.get("first verdicts")
    if kept is not None and all(a is b for a, b in zip(kept[0], about, strict=True)):
        known: dict[tuple[str, int], int] = dict(kept[1])
        return known
    evidence.check()
    labels = gather(evidence)
    told = labels.each.filter(~nw.col("propensity").is_null()).group_by("item").agg(asked=nw.len())
    first = labels.kept.select("item", "said").join(told, on="item", how="inner")
    if evidence.conflicts == "drop":
        first = first.join(contradictions(evidence).select("item"), on="item", how="anti")
    rows = fetch(first.group_by("said", "asked").agg(n=nw.len()).sort("said", "asked"))
    return {(VERDICTS[int(said)], int(asked)): int(n) for said, asked, n in rows}


# ----------------------------------------------------------------------------
# Tallies out of evidence: one group-by for any size.


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
        raise EvidenceError.of(
            "items", "must have a column cluster to be counted by cluster", "none"
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
        raise EvidenceError.of("answers", "must have a column guess to be counted by guess", "none")
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
        raise EvidenceError.of(
            "evidence",
            "must keep its rules",
            "rows that changed while they were read",
            remedy="Read it again.",
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
