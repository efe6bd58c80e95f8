"""Counts: all that an estimator may see of the evidence."""

from __future__ import annotations

from noracle.counts.answers import AnswerTable, answer_table
from noracle.counts.counted import Counted, Reading, count_evidence
from noracle.counts.counting import count_accuracy
from noracle.counts.decisions import count_decisions
from noracle.counts.label import Cell, Design, Label, Pattern, Tally, Verdict
from noracle.counts.partitions import Partition, count_partitions, pair_partitions
from noracle.counts.patterns import count_patterns, label_rows
from noracle.counts.questions import count_judgements
from noracle.counts.ratings import RatingCounts, count_ratings
from noracle.counts.sketch import Sketch
from noracle.counts.tallies import (
    AccuracyCounts,
    JudgementCounts,
    PatternCounts,
    Question,
    check_n_classes,
)

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
