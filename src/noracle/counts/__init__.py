"""Counts: all that an estimator may see of the evidence."""

from __future__ import annotations

from noracle.counts.count import AnswerTable, answer_table, count_accuracy, count_judgements
from noracle.counts.partitions import Partition, count_partitions, pair_partitions
from noracle.counts.patterns import count_patterns, label_rows
from noracle.counts.ratings import RatingCounts, count_ratings
from noracle.counts.sketch import Sketch, count_decisions
from noracle.counts.tally import (
    AccuracyCounts,
    Cell,
    Design,
    JudgementCounts,
    Label,
    Pattern,
    PatternCounts,
    Question,
    Tally,
    Verdict,
    check_n_classes,
)
from noracle.counts.totals import Counted, Reading, count_evidence

__all__ = [
    "AccuracyCounts",
    "AnswerTable",
    "Cell",
    "Counted",
    "Design",
    "JudgementCounts",
    "Label",
    "Partition",
    "Pattern",
    "PatternCounts",
    "Question",
    "RatingCounts",
    "Reading",
    "Sketch",
    "Tally",
    "Verdict",
    "answer_table",
    "check_n_classes",
    "count_accuracy",
    "count_decisions",
    "count_evidence",
    "count_judgements",
    "count_partitions",
    "count_patterns",
    "count_ratings",
    "label_rows",
    "pair_partitions",
]
