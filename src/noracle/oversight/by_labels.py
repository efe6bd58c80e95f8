"""Questions that answers and labels decide: accuracy, comparison, checks."""

from __future__ import annotations

import math

from noracle.accuracy import check_sensitivity, compare_systems, estimate_accuracy, range_unsure
from noracle.accuracy.check import is_question
from noracle.accuracy.policy import checks_for, for_comparison
from noracle.errors import ArgumentError
from noracle.oversight.asking import Asking, Outcome, named
from noracle.oversight.loading import Loaded
from noracle.results import Check, Result

MOST_COMPARED = 50
"""More systems than these are not compared pair by pair."""
_MOST_SENSITIVE = 20


def needs_labels(loaded: Loaded) -> str:
    """Answers, and labels that met some of them."""
    if loaded.accuracy is None:
        return "There are no answers of systems. Add a table with columns item, system, answer; or grades: item, system, verdict."
    bare = (
        loaded.evidence is not None
        and loaded.evidence.judgements is None
        and loaded.evidence.grades is None
    )
    if bare and loaded.stored is None:
        return (
            "There are no judgements. Add a table with columns item, class, verdict; 'noracle route' writes the questions to ask. "
            "Or grades, with columns item, system, verdict."
        )
    if not loaded.has_labels:
        unsure = any(t.verdict == "unsure" for t in loaded.accuracy.tallies)
        why = (
            "Every judgement of an answered item is unsure."
            if unsure
            else "No item has both an answer and a judgement or grade."
        )
        return f"{why} Judge items that the systems answered; 'noracle route' draws them."
    return ""


def accuracy(asking: Asking) -> Outcome:
    """The accuracy of each system, with the checks of the labels written into its guarantee."""
    loaded = asking.loaded
    counts = loaded.accuracy_by_cluster
    if counts is None:
        return Outcome(reason=needs_labels(loaded))
    results = tuple(
        estimate_accuracy(
            counts.of(name),
            confidence=asking.level,
            checks=checks_for(asking.label_checks, name),
            classes=loaded.settings.classes,
        )
        for name in loaded.systems
    )
    words = loaded.evidence_words(stored=True)
    return Outcome(
        results=results,
        command=loaded.command(
            "estimate",
            words,
            asking.repeat_words,
            asking.protocol_words,
            asking.level_words,
            asking.seed_words,
        ),
    )


def needs_pairs(loaded: Loaded) -> str:
    """Labels, and at least two systems that answered the same items."""
    missing = needs_labels(loaded)
    if missing:
        return missing
    if loaded.evidence is None or (
        loaded.evidence.answers is None and loaded.evidence.grades is None
    ):
        return "Stored counts do not say which systems were right together. Add the tables of answers and judgements."
    if len(loaded.systems) < 2:
        return f"There is one system, {named(loaded.systems)}. Add the answers of another one to compare it with."
    if len(loaded.systems) > MOST_COMPARED:
        pairs = len(loaded.systems) * (len(loaded.systems) - 1) // 2
        return (
            f"There are {len(loaded.systems)} systems, {pairs} pairs: more than {MOST_COMPARED} are not compared at once. Choose some "
            "before looking at their values: noracle compare --systems A,B,C."
        )
    return ""


def comparison(asking: Asking) -> Outcome:
    """All differences of accuracies together, on the labels that all systems share."""
    loaded = asking.loaded
    patterns = loaded.patterns
    if not any(p.verdict != "unsure" for p in patterns.patterns):
        return Outcome(
            reason="No labelled item was put to all systems. Ask every system about the labelled items."
        )
    result = compare_systems(
        patterns, confidence=asking.level, checks=for_comparison(asking.label_checks)
    )
    words = loaded.evidence_words()
    return Outcome(
        results=(result,),
        command=loaded.command(
            "compare",
            words,
            asking.repeat_words,
            asking.protocol_words,
            asking.level_words,
            asking.seed_words,
        ),
    )


def needs_judgements(loaded: Loaded) -> str:
    """Judgements, or stored counts of them."""
    evidence = loaded.evidence
    if loaded.stored is not None or (
        evidence is not None and (evidence.judgements is not None or evidence.grades is not None)
    ):
        return ""
    return "There are no judgements to check. Add a table with columns item, class, verdict."


def unsure_systems(loaded: Loaded) -> tuple[str, ...]:
    """Systems with unsure verdicts among their labels, whose worst case is a statement of its own."""
    counts = loaded.accuracy
    if counts is None or any(t.hit_share is not None for t in counts.tallies):
        return ()
    of = {name: counts.of(name) for name in loaded.systems}
    return tuple(
        s
        for s, c in of.items()
        if c.total(verdict="unsure") and not any(t.design == "recorded" for t in c.tallies)
    )


def checks(asking: Asking) -> Outcome:
    """The checks of the labels; how many wrong verdicts overturn the accuracies; what unsure
    verdicts can hide.
    """
    loaded = asking.loaded
    results: list[Result] = list(asking.label_checks)
    asked = loaded.asked
    words = loaded.evidence_words(stored=True)
    counts = loaded.accuracy
    if counts is not None:
        at_least, found = _sensitivity(asking)
        results += found
        words += ["--at-least", repr(at_least)] if found else []
        results += [
            range_unsure(counts.of(name), confidence=asking.level)
            for name in unsure_systems(loaded)
        ]
    if not results:
        both = asked is not None and is_question(asked, "question")
        if loaded.evidence is not None and loaded.evidence.judgements is None:
            return Outcome(
                reason="No check applies: grades of one system, or of every answer, say nothing about how they were chosen."
            )
        why = (
            "set protocol = 'question' in noracle.toml if one random class was asked about each item"
            if both
            else "add judgements"
        )
        return Outcome(
            reason=f"No check applies: labels of one kind only say nothing about how they were asked. To check them, {why}."
        )
    return Outcome(
        results=tuple(results),
        command=loaded.command(
            "check", words, asking.protocol_words, asking.level_words, asking.seed_words
        ),
    )


def _sensitivity(asking: Asking) -> tuple[float, list[Result]]:
    """How wrong verdicts may be before all accuracies are no longer at least their smallest lower
    limit (two digits, rounded down).
    """
    found = asking.accuracies()
    counts = asking.loaded.accuracy
    lows = [e.low for e in found.values()]
    if counts is None or not lows or len(lows) > _MOST_SENSITIVE:
        return 0.0, []
    at_least = math.floor(min(lows) * 100) / 100
    if at_least <= 0 or asking.loaded.stored is not None:
        return 0.0, []
    try:
        results: list[Result] = [
            check_sensitivity(counts.of(name), at_least=at_least, confidence=asking.level)
            for name in asking.loaded.systems
        ]
    except ArgumentError:  # labels that are not uniform questions, one an item
        return 0.0, []
    return (at_least, results) if passed_all(tuple(results), every=True) else (0.0, [])


def passed_all(results: tuple[Result, ...], *, every: bool = False) -> bool:
    """Whether no test of the labels failed; sensitivity is a diagnostic and no test, and counts
    with ``every`` only.
    """
    return all(
        r.passed for r in results if isinstance(r, Check) and (every or r.name != "sensitivity")
    )


__all__ = [
    "accuracy",
    "checks",
    "comparison",
    "needs_judgements",
    "needs_labels",
    "needs_pairs",
    "passed_all",
    "unsure_systems",
]
