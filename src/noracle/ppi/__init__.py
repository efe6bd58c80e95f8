"""Means from several raters within a budget: what to buy, and what is then known.

One plan says which sets of labels and raters to observe on how many items, so that the mean of the
target has the least variance that the budgets allow, and proves how close to the least it is.
"""

from __future__ import annotations

from noracle._lazy import missing
from noracle.ppi.accuracy_plan import plan_accuracy
from noracle.ppi.estimate import estimate_mean
from noracle.ppi.expected import question, targeted
from noracle.ppi.labels import plan_labels
from noracle.ppi.measurements import (
    Additive,
    Cascade,
    LabelType,
    Maximum,
    Measurement,
    Table,
    complementary,
    ordinary,
)
from noracle.ppi.plan import plan_budget

__all__ = [
    "Additive",
    "Cascade",
    "LabelType",
    "Maximum",
    "Measurement",
    "Table",
    "complementary",
    "estimate_mean",
    "ordinary",
    "plan_accuracy",
    "plan_budget",
    "plan_labels",
    "question",
    "targeted",
]


def __getattr__(name: str) -> object:
    raise missing(__name__, {"Label": "LabelType"}, name)
