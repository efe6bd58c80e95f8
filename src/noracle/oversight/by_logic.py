"""Questions that answers alone decide, for every possible answer key: ranges, alarm, conflict."""

from __future__ import annotations

from noracle.counts import Sketch
from noracle.logic.cascade import prove_malfunction
from noracle.logic.conflict import minimal_conflict
from noracle.logic.ranges import quantities, range_accuracies
from noracle.oversight.asking import Asking, Outcome
from noracle.oversight.loading import Loaded
from noracle.oversight.settings import NO_CLAIM, claim_of
from noracle.results import Proof, Result

MOST_RANGES = 60
"""So many ranges are found exactly, on every label; else only one range for each system."""
_MOST_SYSTEMS = 200
_MOST_ENTRIES = 30_000_000
_LARGE = 50_000
_MOST_LABELS = 200


def needs_answers(loaded: Loaded) -> str:
    """Answers of systems, or of raters in a wide table."""
    if loaded.graders is not None and loaded.free_text:
        return "Answers are graded and their classes are not known: free text is right or wrong by its grade alone."
    if loaded.graders is not None:
        return ""
    if loaded.rated is not None:
        return "There are no answers of systems, and raters can be graders only in a wide table, with one column a rater."
    return "There are no answers. Add a table with columns item, system, answer."


def ranges(asking: Asking) -> Outcome:
    """What each accuracy can still be: exact ends where there are few, outer bounds from linear
    programs where there are many.
    """
    loaded = asking.loaded
    too_large = _too_large(loaded)
    if too_large:
        return Outcome(reason=too_large)
    sketch, limit = loaded.sketch, loaded.settings.time_limit
    words = [*loaded.grader_words(), "--time-limit", repr(float(limit))]
    small = (
        len(sketch.classifiers) * (len(sketch.labels) + 1) <= MOST_RANGES
        and _size(sketch) <= _LARGE
    )
    if small:
        found: tuple[Result, ...] = (range_accuracies(sketch, time_limit=limit),)
        return Outcome(results=found, command=loaded.command("ranges", words))
    grades = [name for (_, label), name in quantities(sketch).items() if label is None]
    found = tuple(
        range_accuracies(sketch, only=name, exact=False, time_limit=limit) for name in grades
    )
    lines = [loaded.command("ranges", words, ["--outer", "--only", name]) for name in grades]
    return Outcome(results=found, command="\n".join(lines))


def needs_claim(loaded: Loaded) -> str:
    """A claim that somebody stated, and two graders of the same items or one and judgements:
    without a claim nothing can be broken.
    """
    missing = needs_answers(loaded)
    if missing or loaded.graders is None:
        return missing
    if not claim_of(loaded.settings):
        return f'{NO_CLAIM} Or pass it: noracle report --claim "accuracy > 1/2".'
    side = loaded.evidence is not None and loaded.evidence.judgements is not None
    n = (
        len(loaded.systems)
        if loaded.evidence is not None and loaded.evidence.answers is not None
        else len(loaded.grader_names)
    )
    if n < 2 and not side:
        return (
            "One grader alone contradicts nobody. Add the answers of another system, or judgements."
        )
    return ""


def alarm(asking: Asking) -> Outcome:
    """Can all graders be as good as somebody claimed?"""
    loaded = asking.loaded
    too_large = _too_large(loaded)
    if too_large:
        return Outcome(reason=too_large)
    sketch, words = _for_proofs(loaded)
    claim, limit = claim_of(loaded.settings), float(loaded.settings.time_limit)
    proof = prove_malfunction(sketch, claim, time_limit=limit)
    return Outcome(
        results=(proof,),
        command=loaded.command("alarm", ["--spec", claim], words, ["--time-limit", repr(limit)]),
    )


def conflict(asking: Asking) -> Outcome:
    """A smallest set of graders that cannot all be as good as claimed, where the alarm fired."""
    step = asking.done.get("alarm")
    claimed = step.results[0] if step is not None and step.results else None
    fired = isinstance(claimed, Proof) and claimed.status == "alarm"
    if not fired:
        return Outcome(reason="No alarm fired, so there is no conflict to name.")
    loaded = asking.loaded
    sketch, words = _for_proofs(loaded)
    claim, limit = claim_of(loaded.settings), loaded.settings.time_limit
    proof = minimal_conflict(sketch, claim, time_limit=limit)
    command = loaded.command(
        "conflict", ["--spec", claim], words, ["--time-limit", repr(float(limit))]
    )
    return Outcome(results=(proof,), command=command)


def _for_proofs(loaded: Loaded) -> tuple[Sketch, list[str]]:
    """The sketch of a proof; a large one without what judgements rule out, which weakens a proof
    and never makes it wrong.
    """
    sketch, words = loaded.sketch, loaded.grader_words()
    evidence = loaded.graders
    side = evidence is not None and evidence.judgements is not None
    if _size(sketch) <= _LARGE or not side or (evidence is not None and evidence.has_own_n_classes):
        return sketch, words
    plain = Sketch.from_arrays(
        sketch.patterns, labels=sketch.labels, classifiers=sketch.classifiers, n=sketch.n
    )
    return plain, [*words, "--ignore-judgements"]


def _size(sketch: Sketch) -> int:
    return sketch.n_groups * len(sketch.labels)


def _too_large(loaded: Loaded) -> str:
    """Why a proof would be too large, if it would."""
    k, n = loaded.n_classes or 0, len(loaded.systems)
    if k > _MOST_LABELS:
        return f"There are {k} classes: proofs from answers are made for up to {_MOST_LABELS}. Group the classes, or ask about fewer items."
    if n > _MOST_SYSTEMS:
        return f"There are {n} systems: proofs from answers are made for up to {_MOST_SYSTEMS}. Choose some with --systems."
    size = _size(loaded.sketch)
    if size > _MOST_ENTRIES:
        return f"There are {loaded.sketch.n_groups:,} different patterns of answers and judgements. Choose fewer systems with --systems."
    return ""
