"""What was asked, for the routing check of other verbs: cheap where every item has one judgement."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Any

import narwhals as nw

from noracle.counts import AccuracyCounts, JudgementCounts, Question, count_judgements
from noracle.counts.counting import WITHOUT_ANSWERS
from noracle.evidence import Evidence
from noracle.evidence.frames import fetch
from noracle.evidence.normal import VERDICTS

log = logging.getLogger("noracle.cli")


def asked_questions(evidence: Evidence, counts: AccuracyCounts | None = None) -> JudgementCounts:
    """The questions of the evidence, in one scan where ``counts`` of the same evidence prove one judgement an item.

    Every labelled item has at least one judgement. If there are no more judgements than labelled items, each has exactly one, and
    nothing is repeated or contradictory.
    """
    started = time.perf_counter()
    single = counts is not None and _one_judgement_an_item(evidence, counts)
    questions = _plain_count(evidence) if single else count_judgements(evidence, by_rater=False)
    log.info("questions counted in %.2f s%s", time.perf_counter() - started, ", one an item" if single else "")
    return questions


def _one_judgement_an_item(evidence: Evidence, counts: AccuracyCounts) -> bool:
    if evidence.judgements is None:
        return False
    rows = int(fetch(evidence.judgements.select(n=nw.len()))[0][0])
    labelled = Counter[str]()
    for tally, n in counts.tallies.items():
        labelled[tally.system] += n
    return rows == max(labelled.values(), default=0) + counts.unused.get(WITHOUT_ANSWERS, 0)


def _plain_count(evidence: Evidence) -> JudgementCounts:
    frame: Any = evidence.judgements
    keys = ["class", "said", *(["propensity"] if "propensity" in frame.columns else [])]
    if evidence.has_own_n_classes and evidence.items is not None:
        frame = frame.join(evidence.items.select("item", "n_classes"), on="item", how="inner")
        keys.append("n_classes")
    questions: Counter[Question] = Counter()
    for *values, n in fetch(frame.group_by(*keys).agg(n=nw.len())):
        row = dict(zip(keys, values, strict=True))
        k, p = int(row.get("n_classes") or evidence.n_classes or 0), row.get("propensity")
        verdict: Any = VERDICTS[int(row["said"])]
        questions[Question(k, row["class"], verdict, propensity=None if p is None else float(f"{p:.12g}"))] += int(n)
    return JudgementCounts(questions=dict(questions), inferred=evidence.inferred)
