"""Counts: all that an estimator may see of the evidence."""

from __future__ import annotations

from noracle.counts.answers import AnswerTable, answer_table
from noracle.counts.counting import count_accuracy
from noracle.counts.decisions import count_decisions
from noracle.counts.patterns import count_patterns, label_rows
from noracle.counts.questions import count_judgements
from noracle.counts.ratings import RatingCounts, count_ratings
from noracle.counts.sketch import Sketch
from noracle.counts.tallies import (
    AccuracyCounts,
    Cell,
    Design,
    JudgementCounts,
    Pattern,
    PatternCounts,
    Question,
    Tally,
    Verdict,
    check_n_classes,
)

__all__ = [
    "AccuracyCounts",
    "AnswerTable",
    "Cell",
    "Design",
    "JudgementCounts",
    "Pattern",
    "PatternCounts",
    "Question",
    "RatingCounts",
    "Sketch",
    "Tally",
    "Verdict",
    "answer_table",
    "check_n_classes",
    "count_accuracy",
    "count_decisions",
    "count_judgements",
    "count_patterns",
    "count_ratings",
    "label_rows",
]
