"""The table of what can be asked of evidence, and how each question is put.

Each analysis ends ``done``, ``not possible`` with what is missing and how to get it, or ``failed``
with the text of the error. An error in one never stops the others.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable

from noracle.errors import EvidenceWarning, GuaranteeWarning, NoracleError
from noracle.oversight import by_labels, by_logic, by_plans, by_ratings
from noracle.oversight.asking import Analysis, Asking, Outcome
from noracle.oversight.joint import promises
from noracle.oversight.loading import Loaded
from noracle.oversight.model import Step

ANALYSES: tuple[Analysis, ...] = (
    Analysis(
        name="accuracy",
        question="How accurate is each system?",
        needs=by_labels.needs_labels,
        run=by_labels.accuracy,
        statements=lambda loaded: len(loaded.systems),
    ),
    Analysis(
        name="comparison",
        question="Which system is better?",
        needs=by_labels.needs_pairs,
        run=by_labels.comparison,
        statements=lambda _: 1,
    ),
    Analysis(
        name="checks",
        question="Were the labels collected fairly?",
        needs=by_labels.needs_judgements,
        run=by_labels.checks,
        statements=lambda loaded: len(by_labels.unsure_systems(loaded)),
    ),
    Analysis(
        name="ranges",
        question="What can each accuracy still be, whatever the key?",
        needs=by_logic.needs_answers,
        run=by_logic.ranges,
    ),
    Analysis(
        name="alarm",
        question="Can all graders be as good as claimed?",
        needs=by_logic.needs_claim,
        run=by_logic.alarm,
    ),
    Analysis(
        name="conflict",
        question="Who cannot all be right?",
        needs=by_logic.needs_claim,
        run=by_logic.conflict,
    ),
    Analysis(
        name="ceiling",
        question="How accurate can the average annotator be?",
        needs=by_ratings.needs_two,
        run=by_ratings.ceiling,
        statements=lambda _: 1,
    ),
    Analysis(
        name="agreement",
        question="How much do the raters agree?",
        needs=by_ratings.needs_two,
        run=by_ratings.agreement,
        statements=lambda _: len(by_ratings.STATISTICS),
    ),
    Analysis(
        name="certificate",
        question="Is a system better than its annotators?",
        needs=by_ratings.needs_judged,
        run=by_ratings.certificate,
        statements=lambda loaded: len(loaded.judged_systems),
    ),
    Analysis(
        name="mean",
        question="What is the mean of the gold rater?",
        needs=by_plans.needs_target,
        run=by_plans.mean,
        statements=lambda _: 1,
    ),
    Analysis(
        name="labels",
        question="How many labels are still needed?",
        needs=by_plans.needs_classes,
        run=by_plans.labels,
    ),
    Analysis(
        name="budget",
        question="Which raters should be paid?",
        needs=by_plans.needs_prices,
        run=by_plans.budget,
    ),
    Analysis(
        name="route",
        question="What should be asked next?",
        needs=by_plans.needs_routable,
        run=by_plans.route,
    ),
)
"""What can be asked, in the order in which it is asked: a later analysis may use the results of an
earlier one.
"""


def count_statements(loaded: Loaded) -> dict[str, int]:
    """How many statements with a probability each analysis will make; fixed by what the tables
    hold, before any value is looked at.

    Examples
    --------
    >>> from noracle.oversight.model import Inventory
    >>> count_statements(Loaded(Inventory(place=".", sources=())))
    {}
    """
    planned = {a.name: a.statements(loaded) for a in ANALYSES if not a.needs(loaded)}
    return {name: n for name, n in planned.items() if n}


def take_steps(asking: Asking, progress: Callable[[str], None] | None = None) -> tuple[Step, ...]:
    """Put every question to the evidence, one after the other."""
    for analysis in ANALYSES:
        if progress is not None:
            progress(analysis.question)
        asking.done[analysis.name] = take_step(analysis, asking)
    return tuple(asking.done.values())


def take_step(analysis: Analysis, asking: Asking) -> Step:
    """One question: done, not possible, or failed."""
    step = Step(name=analysis.name, question=analysis.question, status="not possible")
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            missing = analysis.needs(asking.loaded)
            outcome = Outcome(reason=missing) if missing else analysis.run(asking)
        asking.heard += [
            f"{analysis.name}: {w.message}"
            for w in heard
            if issubclass(w.category, (EvidenceWarning, GuaranteeWarning))
        ]
    except NoracleError as error:
        return dataclasses.replace(
            step, status="failed", reason=f"It stopped with an error: {error}"
        )
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError, OSError) as error:
        return dataclasses.replace(
            step,
            status="failed",
            reason=f"It stopped with an error: {type(error).__name__}: {error}",
        )
    if not outcome.results:
        return dataclasses.replace(step, reason=outcome.reason)
    spent = sum(promise.error_rate for promise in promises(outcome.results))
    return dataclasses.replace(
        step,
        status="done",
        results=outcome.results,
        command=outcome.command,
        reason=outcome.reason,
        error_rate=spent,
    )
