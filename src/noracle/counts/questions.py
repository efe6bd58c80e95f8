"""What was asked and what was said."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import narwhals as nw

from noracle.counts.label import rounded
from noracle.counts.met import WITHOUT_ANSWERS
from noracle.counts.tallies import AccuracyCounts, JudgementCounts, Question
from noracle.errors import EvidenceError, fault
from noracle.evidence.evidence import Evidence
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.labels import contradictions, gather, propensities_of
from noracle.evidence.normal import VERDICTS
from noracle.evidence.validate import count


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
        raise EvidenceError(fault("evidence", "must have judgements", "none"))
    if by_time and "at" not in evidence.judgements.columns:
        raise EvidenceError(
            fault("judgements", "must have a column at to be counted by time", "none")
        )
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
    for tally, n in counts.tallies.items():
        labelled[tally.system] += n
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
