"""One promise for the whole report: what all its statements together are worth."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence

from noracle.oversight.model import Step
from noracle.results import (
    Certificate,
    Comparison,
    Estimate,
    Guarantee,
    Kind,
    Proof,
    Ranges,
    Result,
)

NOTHING = Guarantee(kind=Kind.HEURISTIC, error_rate=0.0)
"""The promise of a report that says nothing."""


def promises(results: Iterable[Result]) -> tuple[Guarantee, ...]:
    """The promises of the results that state something; checks, plans and questions to ask state
    nothing of systems or annotators.
    """
    return tuple(
        r.guarantee
        for r in results
        if isinstance(r, (Estimate, Comparison, Certificate, Ranges, Proof))
    )


def joint_guarantee(steps: Sequence[Step], *, every: bool = False) -> Guarantee:
    """The promise that all statements of a report hold together.

    By Boole's inequality the probability that some of k statements is wrong is at most the sum of
    their error rates, P(∪ wrong_i) ≤ Σ P(wrong_i), however they depend on each other. So error
    rates are added, the kind is the weakest one, and an assumption has the weakest status that any
    statement gives it (``Guarantee.__and__``).

    Parameters
    ----------
    steps
        The steps of a report.
    every
        False: the statements that hold at every sample size (finite-sample and logical), so that
        the joint promise does too. True: all statements, also those whose promise is asymptotic or
        heuristic; the joint one is then as weak as the weakest.

    Notes
    -----
    Assumes nothing beyond what the statements assume. A statement that rests on a refuted
    assumption is heuristic and left out, unless ``every`` is True: :func:`left_out` names it.

    References
    ----------
    Boole (1854), An investigation of the laws of thought, ch. XIX; Bonferroni (1936).

    Examples
    --------
    >>> from noracle import AccuracyCounts, estimate_accuracy
    >>> counts = AccuracyCounts.from_counts(n_classes=4, ordinary=(100, 80))
    >>> estimates = tuple(estimate_accuracy(counts, confidence=0.975) for _ in range(2))
    >>> step = Step(name="accuracy", question="How accurate is each system?", status="done", results=estimates)
    >>> round(joint_guarantee([step]).error_rate, 3)
    0.05
    """
    found = [
        g for step in steps for g in promises(step.results) if every or g.kind >= Kind.FINITE_SAMPLE
    ]
    return functools.reduce(operator.and_, found) if found else NOTHING


def left_out(steps: Sequence[Step]) -> dict[str, Kind]:
    """The steps with a statement that the finite-sample promise leaves out, and the weakest kind of
    promise that it has.
    """
    weak = {
        step.name: [g.kind for g in promises(step.results) if g.kind < Kind.FINITE_SAMPLE]
        for step in steps
    }
    return {name: min(kinds) for name, kinds in weak.items() if kinds}
