"""What answers alone prove: alarms, possible ranges, conflicts.

spec.py, cascade.py       a claim, and the proof that it cannot hold for all
program.py, solver.py     the rows behind it: weights that prove it, linear and integer programs
verify.py                 proofs checked in whole numbers, without a solver
ranges.py, prevalence.py  what remains possible: accuracies, prevalences, thresholds
conflict.py               who is in conflict, and how many at least break the claim
next_item.py              the known answer that would say most
crowd.py                  Dawid–Skene and its kin beside the ranges
"""

from __future__ import annotations

from noracle._lazy import RENAMED, missing
from noracle.logic.cascade import prove_by_axioms, prove_malfunction
from noracle.logic.conflict import prove_conflict, range_violators
from noracle.logic.disagreement import prove_disagreement, range_agreement, range_dissenters
from noracle.logic.next_item import items_like, range_checks
from noracle.logic.prevalence import range_prevalence, range_threshold
from noracle.logic.ranges import exact_ends, range_accuracies
from noracle.logic.spec import ANY_ANSWER, Linear, Spec, Statement
from noracle.logic.verify import verify_proof

__all__ = [
    "ANY_ANSWER",
    "Linear",
    "Spec",
    "Statement",
    "exact_ends",
    "items_like",
    "prove_by_axioms",
    "prove_conflict",
    "prove_disagreement",
    "prove_malfunction",
    "range_accuracies",
    "range_agreement",
    "range_checks",
    "range_dissenters",
    "range_prevalence",
    "range_threshold",
    "range_violators",
    "verify_proof",
]


def __getattr__(name: str) -> object:
    raise missing(__name__, RENAMED, name)
