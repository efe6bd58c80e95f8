"""How answers met labels, item by item, and tallies out of evidence: one group-by for any size."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from noracle.errors import EvidenceError, EvidenceWarning, known_names, require_evidence
from noracle.evidence.evidence import FIRST_ONLY, Evidence, T
from noracle.evidence.frames import Frame, cases, distinct, fetch, has_rows, is_there, numbers_of
from noracle.evidence.labels import (
    contradictions,
    count,
    gather,
    grade_labels,
    graded_pairs,
    grades_of,
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
from noracle.evidence.ratings import Ratings
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
    _require_names(systems)
    answers, runs = evidence.answers, evidence.repeats
    if runs is not None and not every:
        warnings.warn(FIRST_ONLY, EvidenceWarning, stacklevel=3)
    elif runs is not None:
        answers = _agreed(evidence, runs) if evidence.repeats_as == "all" else runs
    return answers if systems is None else answers.filter(_among(systems))


def _among(systems: Sequence[str]) -> nw.Expr:
    return nw.col("system").is_in([str(s) for s in systems])


def _require_names(systems: Sequence[str] | None) -> None:
    named = systems is None or (bool(systems) and not isinstance(systems, str))
    require_evidence(named, "systems", "must be a list of names", repr(systems))


def _agreed(evidence: Evidence, runs: Frame) -> Frame:
    """The answer that all runs of a system gave to an item, else null."""

    def agreed() -> Frame:
        evidence.check()
        answer = nw.col("answer")
        guess = {"guess": nw.col("guess").mean()} if "guess" in runs.columns else {}
        spoken = runs.with_columns(spoken=is_there("answer").cast(nw.Int64))
        found = spoken.group_by("item", "system").agg(
            low=answer.min(), high=answer.max(), spoken=nw.col("spoken").min(), **guess
        )
        same = (nw.col("spoken") == 1) & (nw.col("low") == nw.col("high"))
        found = found.with_columns(answer=nw.when(same).then(nw.col("low")))
        return evidence._settled(found.drop("low", "high", "spoken"))

    return evidence._recall("agreed", agreed)


def asked_of(evidence: Evidence, systems: Sequence[str] | None) -> Frame:
    """The answers that labels are counted for. Where there are grades alone, an answer is one that
    could have been graded.

    That is every item of the table of items with every system that was graded; without such a table
    the graded answers themselves. What was answered is not known then, and need not be.
    """
    if evidence.answers is not None or evidence.grades is None:
        return answers_of(evidence, systems, every=True)
    _require_names(systems)
    key = "asked" if systems is None else f"asked {sorted(str(s) for s in systems)}"
    return evidence._recall(key, lambda: evidence._settled(_could_be_graded(evidence, systems)))


def _could_be_graded(evidence: Evidence, systems: Sequence[str] | None) -> Frame:
    grades = grades_of(evidence)
    mine = grades if systems is None else grades.filter(_among(systems))
    graded = distinct(mine, "system")
    if evidence.items is not None and not evidence.open_ended:
        pairs = evidence.items.select("item").join(graded, how="cross")
    else:
        pairs = graded_pairs(evidence).select("item", "system")
        pairs = pairs if systems is None else pairs.filter(_among(systems))
        if recorded_grades(evidence):  # drawn items: the question did not fall on other systems
            drawn = distinct(grades.filter(is_there("propensity")), "item")
            every = drawn.join(graded, how="cross").select("item", "system")
            pairs = distinct(nw.concat([pairs, every]), "item", "system")
    return pairs.select("item", "system", answer=nw.lit("graded"))


def systems_in(evidence: Evidence, answers: Frame) -> list[str]:
    """The systems of some answers, sorted."""

    def names() -> list[str]:
        return sorted(str(row[0]) for row in fetch(distinct(answers, "system")))

    return _once(evidence, "systems", names, answers)


def _once(evidence: Evidence, key: str, make: Callable[[], T], *more: object) -> T:
    """What was made before of our own tables; somebody else's may grow, and are looked at again."""
    return make() if evidence._connection is None else evidence._recall(key, make, *more)


def chosen_systems(
    evidence: Evidence, answers: Frame, systems: Sequence[str] | None
) -> tuple[str, ...]:
    """The systems that were asked for, which must be among the answers; by default all."""
    found = systems_in(evidence, answers)
    missing = [s for s in systems or () if str(s) not in found]
    if missing:
        raise unknown_systems(missing, evidence)
    return tuple(found if systems is None else dict.fromkeys(str(s) for s in systems))


def unknown_systems(missing: Sequence[str], said: Evidence | Ratings) -> EvidenceError:
    """The error about systems without answers (or grades), with those that have some."""
    graded = said.answers is None and getattr(said, "grades", None) is not None
    where = "grades" if graded else "answers"
    table: Frame | None = getattr(said, where)
    rows = [] if table is None else fetch(distinct(table, "system"))
    remedy = known_names(missing[0], [row[0] for row in rows if row[0] is not None])
    came = f"{list(missing)}, which have no {where}"
    return EvidenceError.of("systems", f"must be in {where}", came, remedy=remedy)


def place_columns(evidence: Evidence, *, by_cluster: bool = False) -> list[str]:
    """The columns of ``items`` that place an item in the population."""
    names = (*_PLACE, "cluster") if by_cluster else _PLACE
    return [] if evidence.items is None else [c for c in names if c in evidence.items.columns]


def placed(frame: Frame, evidence: Evidence, *, by_cluster: bool = False) -> Frame:
    """The frame with the place of its items, and ``known``: whether ``items`` holds the item.

    An item without a cluster is one of its own.
    """
    if evidence.items is None:
        return frame
    places = place_columns(evidence, by_cluster=by_cluster)
    items = evidence.items.select("item", *places, known=nw.lit(value=True))
    if "stratum" in items.columns:
        items = items.with_columns(nw.col("stratum").fill_null(""))
    if "cluster" in items.columns:
        alone = nw.concat_str(nw.lit("item "), nw.col("item").cast(nw.String))
        items = items.with_columns(cluster=cases([(is_there("cluster"), nw.col("cluster"))], alone))
    return frame.join(items, on="item", how="left")


def classes_expr(evidence: Evidence) -> nw.Expr:
    """The number of classes of an item."""
    return nw.col("n_classes") if evidence.has_own_n_classes else nw.lit(evidence.n_classes)


def place_of(evidence: Evidence, row: dict[str, Any], system: str = "") -> Cell:
    """Where an item lies: number of classes, stratum, weight and cluster."""
    k = row["n_classes"] if evidence.has_own_n_classes else evidence.n_classes
    weight = rounded(row.get("weight")) or 1.0
    return Cell(system, int(k or 0), row.get("stratum") or "", weight, row.get("cluster") or "")


class Labels(NamedTuple):
    """Judgements by item and class, by item (no contradictory ones), and what is not used.

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
    """The judgements as one label per item; what is repeated or contradictory is counted as unused."""
    key = "labels by class" if by_class else "labels by item"
    return _once(evidence, key, lambda: _labels_of(evidence, by_class=by_class))


def _labels_of(evidence: Evidence, *, by_class: bool) -> Labels:
    drop, graded = evidence.conflicts == "drop", evidence.grades is not None
    if graded and evidence.judgements is None and not recorded_grades(evidence):
        unused = {CONTRADICTORY: count(contradictions(evidence))} if drop else {}
        return Labels(None, None, unused)
    found = gather(evidence)
    items = found.items
    if by_class:
        asked = item_labels(found.classes, by_class=True).select("item", "asked")
        items = items.join(asked, on="item", how="left")
    unused = {REPEATED: 0}
    if evidence.judgements is not None:
        each = once(evidence.judgements) if graded else found.each
        unused[REPEATED] = count(evidence.judgements) - count(each)
    if found.kept is not found.each:
        unused[LATER] = count(found.each) - count(found.kept)
    if drop:
        bad = contradictions(evidence) if graded else items.filter(nw.col("conflict"))
        unused[CONTRADICTORY] = count(bad)
        if unused[CONTRADICTORY]:
            items = items.join(bad.select("item"), on="item", how="anti")
    return Labels(found.classes, items, unused)


class Aims(NamedTuple):
    """What recorded propensities say of one uniform share ε: questions, least, largest, fit.

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
        low = min((p.low for p in found if p.low is not None), default=None)
        high = max((p.high for p in found if p.high is not None), default=None)
        return cls(sum(p.n for p in found), low, high, all(p.fits for p in found))

    @property
    def share(self) -> float | None:
        """The one ε that all agree with, to six digits; None without one or with few questions."""
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

    def share() -> float | None:
        if evidence.grades is not None and not knows_classes(evidence):
            return _aim_at_answers(evidence)
        aims = aims_of(evidence)
        return None if aims is None else aims.share

    return evidence._recall("aim", share)


def as_aimed(evidence: Evidence, share: float | None) -> Evidence:
    """The same evidence as part of a larger table whose questions were aimed with this share."""
    kept = {**evidence._known("propensities", "labels"), "aim": (evidence._about, share)}
    return dataclasses.replace(evidence, _kept=kept)


def aims_of(evidence: Evidence) -> Aims | None:
    """What recorded propensities of answered items say; None without any, or with repeats."""
    told = _votes_of_questions(evidence)
    if told is None:
        return None
    told = with_n_classes(told, evidence)
    rows = numbers_of(told, ["propensity", "votes", "total", "k"])
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
    """0 where every propensity is the share of systems with that answer; else None."""
    told = _votes_of_questions(evidence)
    if told is None:
        return None
    share = nw.col("votes").cast(nw.Float64) / nw.col("total").cast(nw.Float64)
    off = ((nw.col("propensity") - share).abs() > _SAME).cast(nw.Int64)
    n, wrong = fetch(told.select(off=off).select(n=nw.len(), off=nw.col("off").max()))[0]
    return 0.0 if n >= ENOUGH and not wrong else None


def _votes_of_questions(evidence: Evidence) -> Frame | None:
    """Drawn questions with the votes for their class and for any; None where none can be aimed."""
    answers = evidence.answers
    if answers is None or evidence.repeats is not None or propensities_of(evidence) != "recorded":
        return None
    each = gather(evidence).each.filter(is_there("propensity"))
    votes, totals = _votes(answers)
    told = each.join(votes, left_on=["item", "class"], right_on=["item", "answer"], how="left")
    told = told.join(totals, on="item", how="inner")
    return told.with_columns(nw.col("votes").fill_null(0))


_SAME = 1e-6
ENOUGH = 20
"""Questions that show how they were aimed."""


def _votes(answers: Frame) -> tuple[Frame, Frame]:
    """How many systems gave each answer of an item, and how many gave one at all."""
    given = answers.filter(is_there("answer"))
    totals = answers.group_by("item").agg(total=is_there("answer").cast(nw.Int64).sum())
    return given.group_by("item", "answer").agg(votes=nw.len()), totals


def judged_in(items: Frame | None) -> int:
    """How many judgements stand behind the labels of some items."""
    return 0 if items is None else int(fetch(items.select(n=nw.col("n_judged").sum()))[0][0] or 0)


def unused_of(labels: Labels, answers: Frame, evidence: Evidence) -> dict[str, int]:
    """What these answers leave unused of labels, judgements and grades; only what there is."""
    make = functools.partial(_unused_of, labels, answers, evidence)
    return dict(_once(evidence, "unused", make, labels.items, answers))


def _unused_of(labels: Labels, answers: Frame, evidence: Evidence) -> dict[str, int]:
    found, grades = dict(labels.unused), evidence.grades
    if labels.items is not None:
        without = labels.items.join(answers.select("item"), on="item", how="anti")
        found[WITHOUT_ANSWERS] = judged_in(without)
    if grades is not None and evidence.answers is not None:
        pairs = evidence.answers.select("item", "system")
        found[UNASKED] = count(grades.join(pairs, on=["item", "system"], how="anti"))
    if grades is not None and recorded_grades(evidence):
        told = is_there("propensity")
        drawn = distinct(grades.filter(told), "item")
        found[BESIDE] = count(grades.filter(~told).join(drawn, on="item", how="inner"))
    return {name: n for name, n in found.items() if n}


def met_once(evidence: Evidence, answers: Frame, labels: Labels) -> Frame:
    """:func:`met_labels` for the counts that ask the same, worked out once."""

    def met() -> Frame:
        return evidence._settled(met_labels(evidence, answers, labels, given=labels.scored))

    return evidence._recall("met", met, answers)


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
    told = {"recorded": scored, "asked": by_class}
    about = ["item", "verdict", "n_no", *(name for name, there in told.items() if there)]
    said = ["item", "class", "yes", "no", "unsure", *(["inverse"] if scored else [])]
    frame = placed(answers, evidence, by_cluster=by_cluster)
    frame = frame.join(labels.items.select(*about), on="item", how="left")
    of_class = labels.classes.select(*said)
    frame = frame.join(of_class, left_on=["item", "answer"], right_on=["item", "class"], how="left")
    verdict, labelled = nw.col("verdict"), is_there("verdict")
    told_of = {YES: nw.col("yes"), NO: nw.col("no")}
    spoken = cases(((verdict == code, of) for code, of in told_of.items()), nw.col("unsure"))
    columns: dict[str, nw.Expr] = {
        "item": nw.col("item"),
        "system": nw.col("system"),
        "answered": is_there("answer"),
        "verdict": verdict,
        "hit": (labelled & (spoken == 1)).fill_null(value=False),
        "n_no": nw.col("n_no").fill_null(0),
        "ruled_hit": (labelled & (nw.col("no") == 1)).fill_null(value=False),
        **{name: nw.col(name) for name in place_columns(evidence, by_cluster=by_cluster)},
    }
    aim = aim_of(evidence) if scored else None
    if aim is not None and evidence.answers is not None:
        votes, totals = _votes(evidence.answers)
        frame = frame.join(votes, on=["item", "answer"], how="left")
        frame = frame.join(totals, on="item", how="left")
        share = nw.col("votes").cast(nw.Float64) / nw.col("total").cast(nw.Float64)
        chance = (1 - aim) * share + aim / classes_expr(evidence).cast(nw.Float64) if aim else share
        drawn = (nw.col("recorded") == 1) & is_there("answer")
        columns["chance"] = nw.when(drawn).then(chance)
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
    nothing = {"verdict": nw.lit(None, dtype=nw.Int64), "n_no": nw.lit(0, dtype=nw.Int64)}
    nothing |= {name: nw.lit(value=False) for name in ("hit", "ruled_hit")}
    places = place_columns(evidence, by_cluster=by_cluster)
    return frame.select("item", "system", *places, answered=is_there("answer"), **nothing)


def _drawn(evidence: Evidence, met: Frame) -> Frame:
    """Labels of drawn grades, for systems with a propensity: the others were not in the draw."""
    alone = evidence.judgements is None and evidence.answers is not None
    if evidence.grades is None or not alone or not recorded_grades(evidence):
        return met
    told = distinct(evidence.grades.filter(is_there("propensity")), "system")
    mine = _among([row[0] for row in fetch(told)])
    return met.select(**_only_where(mine, met.columns))


def _only_where(kept: nw.Expr, columns: Sequence[str]) -> dict[str, nw.Expr]:
    """The columns of how answers met labels, where ``kept``; elsewhere as without a label."""
    found: dict[str, nw.Expr] = {name: nw.col(name) for name in columns}
    for name in ("verdict", "inverse", "chance", "given", "asked", "guess"):
        if name in found:
            found[name] = nw.when(kept).then(nw.col(name))
    found |= {name: nw.col(name) & kept for name in ("hit", "ruled_hit")}
    return {**found, "n_no": cases([(kept, nw.col("n_no"))], nw.lit(0, dtype=nw.Int64))}


def with_grades(evidence: Evidence, met: Frame) -> Frame:
    """The answers that met judgements, with a column ``grade``, null where there is none.

    Without answers a grade with a propensity is a question about its system alone, and the other
    systems of its item were not asked: ``inverse`` is 1/propensity of the graded one and 0 for
    them.
    """
    grades = grade_labels(evidence)
    if evidence.conflicts == "drop":
        grades = grades.join(contradictions(evidence).select("item"), on="item", how="anti")
    if "inverse" not in grades.columns:
        return met.join(grades, on=["item", "system"], how="left")
    pair = ["item", "system"]
    aimed = grades.filter(is_there("inverse"))
    own = aimed.select(*pair, asked_grade=nw.col("grade"), asked_inverse=nw.col("inverse"))
    asked = aimed.group_by("item").agg(asked_verdict=nw.col("grade").max(), _n=nw.len()).drop("_n")
    others = grades.filter(nw.col("inverse").is_null()).drop("inverse")
    frame = met.join(others, on=pair, how="left").join(asked, on="item", how="left")
    frame = frame.join(own, on=pair, how="left")
    here = is_there("asked_verdict") & nw.col("grade").is_null()
    no, mine = nw.col("asked_verdict") == NO, is_there("asked_grade")
    asked_here = {
        "verdict": nw.col("asked_verdict"),
        "hit": mine,
        "n_no": no.cast(nw.Int64),
        "ruled_hit": no & mine,
        "inverse": nw.col("asked_inverse").fill_null(0.0),
    }
    changed = {name: cases([(here, value)], nw.col(name)) for name, value in asked_here.items()}
    return frame.select(*[c for c in met.columns if c not in changed], "grade", **changed)


def after_grades(frame: Frame) -> Frame:
    """Of each answer the label that counts: its own grade, if that says right or wrong; else what
    judgements say; else unsure.

    ``graded`` says which it is; a graded answer has an ordinary label, whose ``hit`` says that it
    is right.
    """
    grade, verdict = nw.col("grade"), nw.col("verdict")
    sure = ((grade == YES) | (grade == NO)).fill_null(value=False)
    silent = verdict.is_null() | (verdict == UNSURE)
    open_grade = (grade == UNSURE).fill_null(value=False) & silent
    graded = sure | open_grade
    columns = _only_where(~graded, [name for name in frame.columns if name != "grade"])
    columns["verdict"] = cases([(sure, YES), (open_grade, UNSURE)], verdict)
    columns["hit"] = cases([(graded, (grade != NO) & nw.col("answered"))], nw.col("hit"))
    return frame.select(**columns, graded=graded)


_REMEDY = "Keep one answer of each item, or pass repeats='all'."


def count_states(answers: Frame) -> dict[tuple[str, str], int]:
    """How many answers of each system are missing for each reason, where a column says so."""
    if "state" not in answers.columns:
        return {}
    silent = answers.filter(nw.col("answer").is_null() & is_there("state"))
    rows = sorted(numbers_of(silent, ["system", "state"]))
    return {(str(system), str(state)): int(n) for system, state, n in rows}


def repeats_of(evidence: Evidence, systems: Sequence[str]) -> dict[str, Any]:
    """What counts say of repeats: ``runs``, ``repeats``, ``most_answers``; nothing without any."""
    if evidence.repeats is None:
        return {}
    wanted = evidence.repeats.filter(_among(systems))
    runs = {str(name): int(n) for name, n in numbers_of(wanted, ["system"])}
    about: dict[str, Any] = {"runs": runs, "repeats": evidence.repeats_as}
    if evidence.repeats_as == "any":
        given = distinct(wanted.filter(is_there("answer")), "item", "system", "answer")
        each = given.group_by("item", "system").agg(n=nw.len())
        most = each.group_by("system").agg(n=nw.col("n").max())
        about["most_answers"] = {str(name): int(n) for name, n in fetch(most.select("system", "n"))}
    return about


def met_runs(
    evidence: Evidence, answers: Frame, labels: Labels | None, *, by_cluster: bool
) -> tuple[Frame, list[str]]:
    """One row per item and system, and the names of the columns that are the same for all its runs.

    ``runs``, ``answered``, ``hit`` and ``ruled_hit`` are numbers of runs, or of different answers
    where any right one will do; ``differ`` says whether answers differ, ``inverse`` is the mean or
    the sum of 1{asked = answer}/propensity, ``given`` the last of the answers.
    """
    any_of = evidence.repeats_as == "any"
    if any_of:  # each different answer once; no answer is one of them
        answers = distinct(answers, "item", "system", "answer")
    constant = ["system", *place_columns(evidence, by_cluster=by_cluster)]
    if labels is None:
        frame = placed(answers, evidence, by_cluster=by_cluster)
        frame = frame.with_columns(answered=is_there("answer"), given=nw.col("answer"))
    else:
        frame = met_labels(evidence, answers, labels, by_cluster=by_cluster, given=True)
        constant[1:1] = ["verdict", "n_no"]
    counted = [name for name in ("answered", "hit", "ruled_hit") if name in frame.columns]
    sums = {name: nw.col(name).cast(nw.Int64).sum() for name in counted}
    inverse = nw.col("inverse").sum() if any_of else nw.col("inverse").mean()
    more = {"inverse": inverse} if "inverse" in frame.columns else {}
    if more and any_of:  # a sum without a value would be 0, which is a recorded question
        more["told"] = is_there("inverse").cast(nw.Int64).max()
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


def _count_repeats(evidence: Evidence, systems: Sequence[str] | None, by: _By) -> AccuracyCounts:
    """How often repeated answers met the labels, where runs are averaged or any right one will do."""
    what = "transition matrices, rates by class and guesses"
    rule = f"must have one row for each item and system for {what}"
    plain = not (by.by_class or by.by_guess)
    require_evidence(plain, "answers", rule, "repeats", remedy=_REMEDY)
    evidence.check()
    answers = answers_of(evidence, systems, every=True)
    labels = None if evidence.judgements is None else labels_of(evidence)
    by_item, keys = met_runs(evidence, answers, labels, by_cluster=by.by_cluster)
    facts = ("runs", "answered", "hit", "ruled_hit", "differ", "inverse")
    keys = [*keys, *(name for name in facts if name in by_item.columns)]
    unused = {} if labels is None else unused_of(labels, answers, evidence)
    rows = counted_rows(by_item, keys)
    return _tallied(evidence, rows, unused, functools.partial(_facts_of_runs, evidence.repeats_as))


def _facts_of_runs(how: Repeats, row: dict[str, Any]) -> dict[str, Any]:
    hits, all_of = int(row["hit"]), int(row["answered" if how == "any" else "runs"])
    return {
        "hit": hits > 0 if how == "any" else hits == all_of,
        "answered": int(row["answered"]) > 0,
        "n_ruled_out": int(row["n_no"] or 0),
        "ruled_hit": 0 < all_of == int(row["ruled_hit"]),
        "inverse": row.get("inverse"),
        "shares": shares_of(how, row),
    }


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
    listed = evidence.answers if evidence.items is None else evidence.items
    if listed is None:
        raise EvidenceError.of("evidence", "must have answers or items", "neither")
    evidence.check()
    names = evidence.classes
    known, rule = names or evidence.class_kind != "text", "must be given where classes are text"
    remedy = "Pass classes=[…], all of them."
    require_evidence(known, "classes", rule, "none", remedy=remedy)
    answers = evidence.answers
    rows = [] if answers is None else fetch(answers.select("item", "system", "answer"))
    found = sorted({str(r[1]) for r in rows})
    missing = [s for s in systems or () if s not in found]
    if missing:
        raise unknown_systems(missing, evidence)
    chosen = set(found if systems is None else systems)
    votes: dict[Any, Counter[Any]] = {}
    for item, system, answer in rows:
        if system in chosen and answer is not None:
            votes.setdefault(item, Counter())[answer] += 1
    n_classes: Mapping[Any, int] | int = int(evidence.n_classes or 0)
    if evidence.has_own_n_classes and evidence.items is not None:
        sizes = fetch(evidence.items.select("item", "n_classes"))
        n_classes = {item: int(k) for item, k in sizes}
    return AnswerTable(
        items=tuple(sorted({row[0] for row in fetch(listed.select("item"))})),
        systems=tuple(sorted(chosen)),
        n_classes=n_classes,
        names=names,
        answers=votes,
    )


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
        Counts of the same evidence, if they are there: where they prove one judgement per item,
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
    single = counts is not None and _one_judgement_an_item(evidence, counts)
    frame = _questions(evidence, evidence.judgements, single=single)
    wanted = {"class": True, "said": True, "rater": by_rater, "propensity": True, "at": by_time}
    keys = [name for name, kept in wanted.items() if kept and name in frame.columns]
    if evidence.has_own_n_classes and evidence.items is not None:
        frame = frame.join(evidence.items.select("item", "n_classes"), on="item", how="inner")
        keys.append("n_classes")
    rows = counted_rows(frame, keys)
    if by_time:
        rows.sort(key=lambda row: (row["at"] is not None, row["at"]))
    questions: Counter[Question] = Counter()
    total, seen = sum(int(row["n"]) for row in rows), 0
    for row in rows:
        k = int(row.get("n_classes") or evidence.n_classes or 0)
        verdict: Any = VERDICTS[int(row["said"])]
        period = f"period {10 * seen // total + 1} of 10" if by_time else ""
        rater, propensity = row.get("rater") or "", rounded(row.get("propensity"))
        questions[Question(k, row["class"], verdict, rater, propensity, period)] += int(row["n"])
        seen += int(row["n"])
    return JudgementCounts(questions=dict(questions), inferred=evidence.assumed).ordered()


def _questions(evidence: Evidence, judgements: Frame, *, single: bool) -> Frame:
    """The judgements that make labels, each once, without dropped items."""
    if single:
        return judgements
    evidence.check()
    if evidence.grades is not None:
        evidence = dataclasses.replace(evidence, grades=None, _kept={})
    labels = gather(evidence)
    if evidence.conflicts != "drop":
        return labels.kept
    bad = labels.known.filter(nw.col("conflict")).select("item")
    return labels.kept.join(bad, on="item", how="anti")


def _one_judgement_an_item(evidence: Evidence, counts: AccuracyCounts) -> bool:
    """Whether there are no more judgements than labelled items."""
    if evidence.grades is not None or evidence.judgements is None:
        return False
    labelled = max(counts.labelled().values(), default=0)
    return count(evidence.judgements) == labelled + counts.unused.get(WITHOUT_ANSWERS, 0)


def count_first_verdicts(evidence: Evidence) -> dict[tuple[str, int], int]:
    """Items with recorded propensities, by the first verdict and the number of questions.

    Examples
    --------
    >>> judgements = {"item": [1, 1, 2], "class": [0, 1, 0], "verdict": ["no", "yes", "yes"], "propensity": [0.5, 0.5, 0.5]}
    >>> count_first_verdicts(Evidence.from_tables(judgements=judgements, n_classes=3))
    {('no', 2): 1, ('yes', 1): 1}
    """
    nothing = evidence.judgements is None and evidence.grades is None
    if nothing or propensities_of(evidence) != "recorded":
        return {}
    if "first verdicts" not in evidence._kept:
        return _first_verdicts(evidence)
    return dict(evidence._recall("first verdicts", lambda: _first_verdicts(evidence)))


def _first_verdicts(evidence: Evidence) -> dict[tuple[str, int], int]:
    evidence.check()
    labels = gather(evidence)
    told = labels.each.filter(is_there("propensity")).group_by("item").agg(asked=nw.len())
    first = labels.kept.select("item", "said").join(told, on="item", how="inner")
    if evidence.conflicts == "drop":
        first = first.join(contradictions(evidence).select("item"), on="item", how="anti")
    rows = numbers_of(first, ["said", "asked"])
    return {(VERDICTS[int(said)], int(asked)): int(n) for said, asked, n in rows}


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
    named = evidence.items is not None and "cluster" in evidence.items.columns
    rule = "must have a column cluster to be counted by cluster"
    require_evidence(named or not by_cluster, "items", rule, "none")
    names = None if systems is None else [str(s) for s in systems]
    key = f"accuracy {names} {by} {evidence.repeats_as}"
    return _once(evidence, key, lambda: _count(evidence, systems, by))


class _By(NamedTuple):
    """What is kept apart beside the kinds of label."""

    by_class: bool = False
    by_guess: bool = False
    by_cluster: bool = False


def _count(evidence: Evidence, systems: Sequence[str] | None, by: _By) -> AccuracyCounts:
    if evidence.repeats is not None and evidence.repeats_as != "all":
        found = _count_repeats(evidence, systems, by)
        return _finished(evidence, found, evidence.repeats, systems)
    if systems is not None:
        evidence._meet()
    answers = asked_of(evidence, systems)
    guessed, rule = "guess" in answers.columns, "must have a column guess to be counted by guess"
    require_evidence(guessed or not by.by_guess, "answers", rule, "none")
    told, counts = evidence.judgements, None
    if told is not None and evidence.grades is None and not _several_judgements(evidence, told):
        counts = _flat(evidence, answers, told, by) if aim_of(evidence) is None else None
    if counts is None:
        counts = _grouped(evidence, answers, by)
    return _finished(evidence, counts, answers, systems)


def _finished(
    evidence: Evidence, counts: AccuracyCounts, answers: Frame, systems: Sequence[str] | None
) -> AccuracyCounts:
    """The counts with missing answers and repeats; all systems asked for must be there."""
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


def counted_rows(frame: Frame, keys: Sequence[str]) -> list[dict[str, Any]]:
    """The different values of some columns by name, each with its number of rows ``n``."""
    return _apart(keys, numbers_of(frame, keys), by_cluster=False)


def _apart(
    keys: Sequence[str], rows: Iterable[tuple[Any, ...]], *, by_cluster: bool
) -> list[dict[str, Any]]:
    """Rows as dicts; those that differ in the cluster only are one, with ``clusters``."""
    if not by_cluster:
        return [dict(zip([*keys, "n"], row, strict=True)) for row in rows]
    at = keys.index("cluster")
    found: dict[tuple[Any, ...], dict[str, int]] = {}
    for row in rows:
        inside = found.setdefault(row[:at] + row[at + 1 : -1], {})
        inside[row[at]] = inside.get(row[at], 0) + row[-1]
    others = [*keys[:at], *keys[at + 1 :], "cluster", "n", "clusters"]
    return [
        dict(zip(others, (*key, None, sum(inside.values()), inside), strict=True))
        for key, inside in found.items()
    ]


def _facts(row: dict[str, Any]) -> dict[str, Any]:
    """How an answer met its label, as :func:`noracle.counts.tally.tally` takes it."""
    told = {name: row.get(name) for name in ("inverse", "chance", "asked", "guess")}
    flags = {name: bool(row.get(name)) for name in ("hit", "answered", "ruled_hit", "graded")}
    return {**told, **flags, "n_ruled_out": int(row.get("n_no") or 0), "answer": row.get("given")}


def _tallied(
    evidence: Evidence,
    rows: Iterable[dict[str, Any]],
    unused: dict[str, int],
    facts: Callable[[dict[str, Any]], dict[str, Any]] = _facts,
) -> AccuracyCounts:
    """Counts from rows, each of which says how ``n`` answers met their labels."""
    tallies: Counter[Tally] = Counter()
    items: Counter[Cell] = Counter()
    answered: Counter[Cell] = Counter()
    for row in rows:
        cell = place_of(evidence, row, str(row["system"]))
        inside = row.get("clusters") or {cell.cluster: int(row["n"])}
        where = {cell._replace(cluster=cluster): n for cluster, n in inside.items()}
        for place, n in where.items():
            items[place] += n
            answered[place] += n if row["answered"] else 0
        if row.get("verdict") is not None:
            verdict: Any = VERDICTS[int(row["verdict"])]
            met = tally(cell, verdict, **facts(row))
            for place, n in where.items():
                tallies[met._replace(cluster=place.cluster)] += n
    return AccuracyCounts(
        tallies=dict(tallies),
        items=dict(items),
        answered=dict(answered),
        unused={name: n for name, n in unused.items() if n},
        inferred=evidence.assumed,
    )


def _flat(evidence: Evidence, answers: Frame, judgements: Frame, by: _By) -> AccuracyCounts | None:
    """Counts by one outer join and one group-by, or None where some item has several judgements."""
    frame, keys = _flat_groups(evidence, answers, judgements, by)
    rows = _apart(keys, fetch(frame), by_cluster=by.by_cluster)
    if any(row["broken"] for row in rows):
        evidence.check()
        came, remedy = "rows that changed while they were read", "Read it again."
        raise EvidenceError.of("evidence", "must keep its rules", came, remedy=remedy)
    # A judgement that joined has said something, an answer that joined has a system.
    answered = [row for row in rows if row["system"] is not None]
    names = {row["system"] for row in answered}
    both = sum(row["n"] for row in answered if row["said"] is not None)
    alone = sum(row["n"] for row in rows if row["system"] is None)
    unlabelled = sum(row["n"] for row in rows if row["said"] is None)
    n_answers, n_judgements = count(answers), count(judgements)
    one_answer = both + alone == n_judgements
    one_judgement = both + unlabelled == n_answers
    if len(names) > 1 or (one_answer and one_judgement and unlabelled):
        whole = evidence._rows is not None
        pairs = ("item", "system")
        again = evidence.repeated_answers() if whole else repeats(answers, pairs)
        one_answer = not has_rows(again)
    if (len(names) > 1 and one_judgement) or (one_answer and one_judgement and alone):
        one_judgement = not has_rows(repeats(judgements, ("item",)))
    if not (one_answer and one_judgement):
        return None
    # Whether answers and labels speak of the same items is seen here for nothing.
    same = answers is evidence.answers
    evidence._meet((n_judgements - alone, n_judgements) if same else None)
    for row in answered:
        no, p = row["said"] == NO, row.get("propensity")
        row |= {"verdict": row["said"], "n_no": int(no), "ruled_hit": no and row["hit"]}
        row["inverse"] = (0.0 if p is None else 1.0 / p) if row.get("recorded") else None
    return _tallied(evidence, answered, {WITHOUT_ANSWERS: alone})


def _several_judgements(evidence: Evidence, judgements: Frame) -> bool:
    """Whether labels are gathered, or some first item is seen to have several judgements."""
    if "labels" in evidence._kept:
        return True
    looked = fetch(judgements.select("item").head(_LOOKED_AT))
    first = list(dict.fromkeys(row[0] for row in looked if row[0] is not None))
    return bool(first) and count(judgements.filter(nw.col("item").is_in(first))) > len(first)


def _flat_groups(
    evidence: Evidence, answers: Frame, judgements: Frame, by: _By
) -> tuple[Frame, list[str]]:
    scored = propensities_of(evidence) == "recorded"

    def faults_of(table: str, columns: Sequence[str], but: str) -> list[nw.Expr]:
        rules = row_faults(TABLES[table], list(columns))
        return [rule.broken for rule in rules if rule.column != but]

    bad = either(faults_of("judgements", judgements.columns, "verdict"))
    said = cases([(bad, UNKNOWN)], nw.col("said")).alias("said")
    left = judgements.select("item", "class", said, *(["propensity"] if scored else []))
    wrong = either(faults_of("answers", answers.columns, ""))
    right = placed(answers.with_columns(wrong=wrong), evidence, by_cluster=by.by_cluster)
    places = place_columns(evidence, by_cluster=by.by_cluster)
    if evidence.items is not None:
        strange = [nw.col("known").is_null(), *faults_of("items", ["item", *places], "item")]
        right = right.with_columns(wrong=nw.col("wrong") | either(strange))
    own = ["system", "answer", "wrong", *(["guess"] if by.by_guess else []), *places]
    right = right.select(nw.col("item").alias("answered_item"), *own)
    joined = left.join(right, left_on="item", right_on="answered_item", how="full")
    faults = [nw.col("said") == UNKNOWN, nw.col("wrong")]
    beyond = [outside(c, evidence, classes_expr(evidence)) for c in ("answer", "class")]
    faults += [expr for expr in beyond if expr is not None]
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


def _grouped(evidence: Evidence, answers: Frame, by: _By) -> AccuracyCounts:
    evidence.check()
    places = place_columns(evidence, by_cluster=by.by_cluster)
    if evidence.judgements is None and evidence.grades is None:
        frame = placed(answers, evidence, by_cluster=by.by_cluster)
        frame = frame.with_columns(answered=is_there("answer"))
        keys, unused = ["system", "answered", *places], dict[str, int]()
    else:
        labels = labels_of(evidence, by_class=by.by_class)
        about = (evidence, answers, labels)
        frame = met_labels(*about, **by._asdict()) if any(by) else met_once(*about)
        frame = frame if evidence.grades is None else after_grades(frame)
        left_out = {"item"} if by.by_class else {"item", "given"}
        keys = [name for name in frame.columns if name not in left_out]
        unused = unused_of(labels, answers, evidence)
    rows = _apart(keys, numbers_of(frame, keys), by_cluster=by.by_cluster)
    return _tallied(evidence, rows, unused)
