"""What every analysis is given, and what it gives back."""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from noracle.accuracy import (
    check_sensitivity,
    compare_systems,
    estimate_accuracy,
    range_unsure,
    route_items,
)
from noracle.accuracy.check import checks_for, for_comparison, is_question, label_checks
from noracle.counts import Sketch
from noracle.errors import ArgumentError, EvidenceWarning, GuaranteeWarning, NoracleError
from noracle.evidence import Evidence
from noracle.logic.cascade import prove_malfunction
from noracle.logic.conflict import minimal_conflict
from noracle.logic.ranges import quantities, range_accuracies
from noracle.oversight.findings import promises
from noracle.oversight.load import LABEL_KINDS, Loaded, csv_words
from noracle.oversight.model import Step
from noracle.oversight.settings import NO_CLAIM, claim_of
from noracle.ppi import (
    Additive,
    Cascade,
    Maximum,
    estimate_mean,
    plan_accuracy,
    plan_budget,
    plan_labels,
)
from noracle.results import Check, Estimate, Plan, Proof, Result
from noracle.superhuman.agreement import Statistic, estimate_agreement
from noracle.superhuman.ceiling import estimate_ceiling
from noracle.superhuman.certify import certify_superhuman

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Results and the command that re-makes them; or, without results, why there are none."""

    results: tuple[Result, ...] = ()
    command: str = ""
    reason: str = ""


class Asking:
    """The evidence, the confidence of one statement, the seed, and the steps that were taken
    already.

    Attributes
    ----------
    loaded
        The evidence and its counts.
    level
        The confidence of each statement: 1 - (1 - confidence of the report)/k for k statements.
    seed
        Makes everything random reproducible.
    done, heard
        The steps so far, by name, and what was warned about.
    """

    def __init__(self, loaded: Loaded, *, level: float, seed: int) -> None:
        self.loaded = loaded
        self.level = level
        self.seed = seed
        self.done: dict[str, Step] = {}
        self.heard: list[str] = []

    @property
    def level_words(self) -> list[str]:
        """The confidence as options of the command line, to the last digit."""
        return ["--confidence", repr(self.level)]

    @property
    def seed_words(self) -> list[str]:
        """The seed as options of the command line."""
        return ["--seed", str(self.seed)]

    @property
    def protocol_words(self) -> list[str]:
        """The protocol as options of the command line, where it was set."""
        protocol = self.loaded.settings.protocol
        return [] if protocol is None else ["--protocol", protocol]

    @property
    def repeat_words(self) -> list[str]:
        """How repeats count as options of the command line, where it was set."""
        repeats = self.loaded.settings.repeats
        return [] if repeats == "mean" else ["--repeats", repeats]

    @functools.cached_property
    def label_checks(self) -> tuple[Check, ...]:
        """The checks of the labels that apply, as the policy of :mod:`noracle.accuracy.check`
        lists them.
        """
        loaded = self.loaded
        about = loaded.evidence if loaded.evidence is not None else loaded.accuracy
        if about is None:
            return ()
        return label_checks(
            about,
            counts=loaded.accuracy,
            judgements=loaded.asked,
            protocol=loaded.protocol,
            seed=self.seed,
        )

    def accuracies(self) -> Mapping[str, Estimate]:
        """The accuracy of each system, where that step was taken."""
        step = self.done.get("accuracy")
        return (
            {} if step is None else {r.subject: r for r in step.results if isinstance(r, Estimate)}
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """One question that evidence may answer.

    ``needs`` says what is missing, in one sentence with the way out; an empty text means that it
    can be asked. ``statements`` is how many statements with a probability it will make, so that the
    error rate can be shared before anything is looked at.
    """

    name: str
    question: str
    needs: Callable[[Loaded], str]
    run: Callable[[Asking], Outcome]
    statements: Callable[[Loaded], int] = lambda _: 0


def named(names: Sequence[str], most: int = 5) -> str:
    """Names for a sentence, the rest counted."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


# ----------------------------------------------------------------------------
# Questions that answers and labels decide: accuracy, comparison, checks.


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


# ----------------------------------------------------------------------------
# Questions that answers alone decide, for every possible answer key: ranges, alarm, conflict.


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


# ----------------------------------------------------------------------------
# Questions about money and the next label: mean across raters, labels, budget, route.


MOST_ROUTED = 200_000
"""More rows of answers than these are not drawn from here."""
N_ROUTED = 20
GUESS = 0.7


def needs_target(loaded: Loaded) -> str:
    """Scores of raters, and which of them is the gold one."""
    if loaded.scores is None:
        return "There are no scores of raters. Add a table with one column a rater, or with columns item, rater, value."
    if not loaded.settings.target:
        return "Nobody said which rater is the gold one. Write target = 'NAME' into noracle.toml."
    return ""


def mean(asking: Asking) -> Outcome:
    """The mean of the gold rater, with the help of the others; asymptotic."""
    loaded = asking.loaded
    raters = list(loaded.score_raters) or None
    result = estimate_mean(
        None,
        loaded.scores,
        target=loaded.settings.target,
        raters=raters,
        confidence=asking.level,
        seed=asking.seed,
    )
    words = ["--data", str(loaded.scores), "--target", loaded.settings.target]
    words += ["--raters", csv_words(raters)] if raters else []
    return Outcome(
        results=(result,),
        command=loaded.command("mean", words, asking.level_words, asking.seed_words),
    )


def needs_classes(loaded: Loaded) -> str:
    """A number of classes, unless answers are graded."""
    if loaded.n_classes is None and not loaded.free_text:
        return "The number of classes is not known. Add answers, or write n_classes = K into noracle.toml."
    return ""


def labels(asking: Asking) -> Outcome:
    """How many labels are missing for intervals as narrow as wanted: those that are there count,
    and every system gets its interval.
    """
    loaded, s = asking.loaded, asking.loaded.settings
    costs = {
        name: price for name, price in loaded.prices.labels.items() if name in LABEL_KINDS
    } or None
    caps = {name: int(n) for name, n in loaded.prices.caps.items() if name in LABEL_KINDS} or None
    if loaded.accuracy is not None and any(loaded.accuracy.items.values()):
        plan = plan_accuracy(
            loaded.accuracy,
            half_width=s.half_width,
            costs=costs,
            caps=caps,
            confidence=asking.level,
            seed=asking.seed,
        )
        words = [
            *loaded.place_words(),
            *loaded.class_words(),
            "--half-width",
            repr(float(s.half_width)),
        ]
        return Outcome(
            results=(plan,),
            command=loaded.command("plan", words, asking.level_words, asking.seed_words),
        )
    k = loaded.n_classes or 0
    costs = {name: price for name, price in (costs or {}).items() if name != "grades"} or None
    caps = {name: n for name, n in (caps or {}).items() if name != "grades"} or None
    plan = plan_labels(
        n_classes=k,
        accuracy=GUESS,
        half_width=s.half_width,
        costs=costs,
        caps=caps,
        confidence=asking.level,
        seed=asking.seed,
    )
    words = [
        "--n-classes",
        str(k),
        "--accuracy",
        repr(GUESS),
        "--half-width",
        repr(float(s.half_width)),
    ]
    words += [w for name, price in (costs or {}).items() for w in ("--cost", f"{name}={price!r}")]
    words += [w for name, n in (caps or {}).items() for w in ("--cap", f"{name}={n}")]
    return Outcome(
        results=(plan,),
        command=loaded.command("plan", words, asking.level_words, asking.seed_words),
    )


def needs_prices(loaded: Loaded) -> str:
    """Scores, the gold rater and prices of raters."""
    missing = needs_target(loaded)
    if missing:
        return missing
    if not (loaded.prices.raters or loaded.prices.lengths):
        return "There are no prices of raters. Add a file prices.toml with a table [raters], or [prices] to noracle.toml."
    return ""


def budget(asking: Asking) -> Outcome:
    """Which raters to ask about how many items: the best within the budget, or the cheapest for the
    half-width.
    """
    loaded, s = asking.loaded, asking.loaded.settings
    prices = loaded.prices
    goal: dict[str, Any] = (
        {"budgets": s.budget} if s.budget is not None else {"half_width": s.half_width}
    )
    costs: Any = Additive(prices=prices.raters, per_item=prices.overhead)
    if prices.model == "cascade":
        costs = Cascade(
            lengths=prices.lengths,
            output=prices.output,
            input=prices.input,
            prices=prices.raters,
            per_item=prices.overhead,
        )
    elif prices.model == "maximum":
        costs = Maximum(prices=prices.raters, per_item=prices.overhead)
    caps = {name: float(n) for name, n in prices.caps.items()} or None
    kinds = _labels(loaded)
    plan = plan_budget(
        loaded.scores,
        target=s.target,
        costs=costs,
        caps=caps,
        labels=kinds,
        have="pilot",
        confidence=asking.level,
        **goal,
    )
    words = ["--pilot", str(loaded.scores), "--target", s.target, "--have", "pilot"]
    words += ["--prices", loaded.price_file] if loaded.price_file is not None else []
    words += [
        w
        for name, price in loaded.told_prices.items()
        for w in ("--cost", f"{name}={float(price)!r}")
    ]
    words += (
        ["--budget", repr(float(s.budget))]
        if s.budget is not None
        else ["--half-width", repr(float(s.half_width))]
    )
    words += (
        ["--n-classes", str(loaded.n_classes)]
        if any(name != "ordinary" for name in prices.labels)
        else []
    )
    return Outcome(results=(plan,), command=loaded.command("plan", words, asking.level_words))


def _labels(loaded: Loaded) -> tuple[Any, ...]:
    from noracle.ppi.expected import make_label

    kinds = loaded.prices.labels
    return tuple(
        make_label(name, n_classes=loaded.n_classes, price=price, epsilon=0.05)
        for name, price in kinds.items()
    )


def needs_routable(loaded: Loaded) -> str:
    """A long table of answers that fits into memory."""
    grading = loaded.evidence is not None and loaded.evidence.grades is not None
    if loaded.evidence is None or (
        loaded.answers is None and (not grading or loaded.items is None)
    ):
        return "There are no answers to ask about. Add a table with columns item, system, answer."
    if loaded.answers is not None and {"label", "ruled_out"} & set(loaded.answers.options):
        return "Questions are drawn for labels in a table of their own. Write them as item, class, verdict."
    counts = loaded.accuracy
    rows = 0 if counts is None else sum(counts.items.values())
    if rows > MOST_ROUTED:
        return f"There are {rows:,} answers, too many to draw from for a page. 'noracle route --out questions.csv' draws from them."
    if loaded.evidence.class_kind == "text" and loaded.evidence.classes is None and not grading:
        return "Classes are text and not all of them are named. Write classes = ['A', 'B', …] into noracle.toml."
    return ""


def route(asking: Asking) -> Outcome:
    """The next questions, drawn with their probabilities."""
    loaded = asking.loaded
    if loaded.evidence is not None and loaded.evidence.grades is not None:
        return _grades(asking, loaded.evidence)
    counts = loaded.accuracy
    places = {c._replace(system="") for c in counts.items} if counts is not None else set()
    items = (
        sum(max(counts.items.get(c._replace(system=s), 0) for s in loaded.systems) for c in places)
        if counts is not None
        else 0
    )
    k, classes = _classes(loaded)
    evidence = loaded.evidence_with(n_classes=k, classes=classes)
    labelled = len({item for (item,) in evidence.rows("judgements", "item")})
    n = min(N_ROUTED, items - labelled)
    if n < 1:
        return Outcome(
            reason=f"All {items:,} items have a judgement. Bring more items, or ask for wider intervals."
        )
    design, targets = _design(asking)
    result = route_items(evidence, design=design, systems=targets, n=n, seed=asking.seed)
    return Outcome(results=(result,), command=_route_words(loaded, n, design, targets, asking.seed))


def _grades(asking: Asking, evidence: Evidence) -> Outcome:
    """The next answers to grade, drawn with their probabilities."""
    loaded = asking.loaded
    labelled = {
        item for table in ("judgements", "grades") for (item,) in evidence.rows(table, "item")
    }
    rows = (
        evidence.rows("items", "item")
        if evidence.answers is None
        else evidence.rows("answers", "item", "answer")
    )
    left = len({row[0] for row in rows if row[-1] is not None} - labelled)
    n = min(N_ROUTED, left)
    if n < 1:
        return Outcome(
            reason="All items have a grade or a judgement. Bring more items, or grade further systems on these."
        )
    result = route_items(evidence, design="grades", n=n, seed=asking.seed)
    words = [
        *loaded.table_words(systems=False),
        *loaded.class_words(),
        "--design",
        "grades",
        "--n",
        str(n),
    ]
    return Outcome(
        results=(result,), command=loaded.command("route", words, ["--seed", str(asking.seed)])
    )


def _design(asking: Asking) -> tuple[Literal["uniform", "targeted"], list[str] | None]:
    """How the plan would ask, and about whose answers; without a plan about those of all, which
    needs fewer labels.
    """
    step = asking.done.get("labels")
    plan = (
        next((r for r in step.results if isinstance(r, Plan)), None) if step is not None else None
    )
    if plan is None:
        return "targeted", None
    if plan.inputs.get("kind") != "targeted" and not plan.buy.get("targeted"):
        return "uniform", None
    targets = plan.inputs.get("systems")
    return "targeted", list(targets) if targets and set(targets) < set(
        asking.loaded.systems
    ) else None


def _classes(loaded: Loaded) -> tuple[int | None, Any]:
    """The number of classes and the classes, as they are known with judgements."""
    evidence = loaded.evidence
    if evidence is None or evidence.classes is not None:
        return None, None if evidence is None else evidence.classes
    return (loaded.settings.n_classes if evidence.has_own_n_classes else evidence.n_classes), None


def _route_words(loaded: Loaded, n: int, design: str, targets: list[str] | None, seed: int) -> str:
    k, classes = _classes(loaded)
    words = loaded.table_words(systems=False)
    words += ["--n-classes", str(k)] if k is not None else []
    words += ["--classes", csv_words(classes)] if classes is not None else []
    words += [
        "--design",
        design,
        *(["--systems", csv_words(targets)] if targets else []),
        "--n",
        str(n),
    ]
    return loaded.command("route", words, ["--seed", str(seed)])


# ----------------------------------------------------------------------------
# Questions that ratings decide: ceiling, agreement, certificate.


STATISTICS: tuple[Statistic, ...] = ("pairwise", "krippendorff")


def needs_ratings(loaded: Loaded) -> str:
    """Ratings, or stored counts of them."""
    if loaded.votes is not None:
        return ""
    return "There are no ratings. Add a table with columns item, rater, label: several people on the same items."


def needs_two(loaded: Loaded) -> str:
    """Items with at least two ratings."""
    missing = needs_ratings(loaded)
    if missing or loaded.votes is None:
        return missing
    if int(loaded.votes.n_ratings.max(initial=0)) < 2:
        return "Every item has one rating, and nobody checked it. Let a second person rate some of the items."
    return ""


def ceiling(asking: Asking) -> Outcome:
    """How accurate the average annotator can be at most."""
    loaded = asking.loaded
    votes = loaded.votes_alone
    if votes is None:
        return Outcome(reason=needs_ratings(loaded))
    result = estimate_ceiling(votes, confidence=asking.level)
    return Outcome(
        results=(result,),
        command=loaded.command("ceiling", loaded.rating_words(), asking.level_words),
    )


def agreement(asking: Asking) -> Outcome:
    """How much the raters agree; asymptotic."""
    loaded = asking.loaded
    votes = loaded.votes_alone
    if votes is None:
        return Outcome(reason=needs_ratings(loaded))
    results = tuple(
        estimate_agreement(votes, statistic=s, confidence=asking.level, seed=asking.seed)
        for s in STATISTICS
    )
    words = [*loaded.rating_words(), "--statistic", ",".join(STATISTICS)]
    return Outcome(
        results=results,
        command=loaded.command("agreement", words, asking.level_words, asking.seed_words),
    )


def needs_judged(loaded: Loaded) -> str:
    """Ratings and the answers of systems to the same items."""
    missing = needs_two(loaded)
    if missing:
        return missing
    if not loaded.judged_systems:
        if loaded.answers is not None:
            return "The answers cannot be read beside these ratings. Write both as long tables: item, system, answer and item, rater, label."  # noqa: E501
        return "There are ratings but no answers of systems to the rated items. Add a table with columns item, system, answer."
    votes = loaded.votes
    if votes is not None and not any(
        int(votes.answers[s][:, :-1].sum()) for s in loaded.judged_systems
    ):
        return "No system answered an item that was rated. Let the systems answer the rated items."
    return ""


def certificate(asking: Asking) -> Outcome:
    """Is a system better than the average annotation? A system whose training is not stated is
    never certified.
    """
    loaded = asking.loaded
    if loaded.votes is None:
        return Outcome(reason=needs_ratings(loaded))
    s = loaded.settings
    together = (
        loaded.ratings
        if loaded.ratings_name_clusters and loaded.stored_ratings is None
        else loaded.votes
    )
    results = tuple(
        certify_superhuman(
            together,
            system=name,
            margin=s.margin,
            trained_on_annotators=s.trained_on_annotators,
            confidence=asking.level,
            seed=asking.seed,
        )
        for name in loaded.judged_systems
    )
    words = [
        *loaded.rating_words(answers=True),
        "--margin",
        repr(float(s.margin)),
        "--trained-on-annotators",
        s.trained_on_annotators,
    ]
    return Outcome(
        results=results,
        command=loaded.command("certify", words, asking.level_words, asking.seed_words),
    )


# ----------------------------------------------------------------------------
# The table of what can be asked of evidence, and how each question is put.


ANALYSES: tuple[Analysis, ...] = (
    Analysis(
        name="accuracy",
        question="How accurate is each system?",
        needs=needs_labels,
        run=accuracy,
        statements=lambda loaded: len(loaded.systems),
    ),
    Analysis(
        name="comparison",
        question="Which system is better?",
        needs=needs_pairs,
        run=comparison,
        statements=lambda _: 1,
    ),
    Analysis(
        name="checks",
        question="Were the labels collected fairly?",
        needs=needs_judgements,
        run=checks,
        statements=lambda loaded: len(unsure_systems(loaded)),
    ),
    Analysis(
        name="ranges",
        question="What can each accuracy still be, whatever the key?",
        needs=needs_answers,
        run=ranges,
    ),
    Analysis(
        name="alarm",
        question="Can all graders be as good as claimed?",
        needs=needs_claim,
        run=alarm,
    ),
    Analysis(
        name="conflict",
        question="Who cannot all be right?",
        needs=needs_claim,
        run=conflict,
    ),
    Analysis(
        name="ceiling",
        question="How accurate can the average annotator be?",
        needs=needs_two,
        run=ceiling,
        statements=lambda _: 1,
    ),
    Analysis(
        name="agreement",
        question="How much do the raters agree?",
        needs=needs_two,
        run=agreement,
        statements=lambda _: len(STATISTICS),
    ),
    Analysis(
        name="certificate",
        question="Is a system better than its annotators?",
        needs=needs_judged,
        run=certificate,
        statements=lambda loaded: len(loaded.judged_systems),
    ),
    Analysis(
        name="mean",
        question="What is the mean of the gold rater?",
        needs=needs_target,
        run=mean,
        statements=lambda _: 1,
    ),
    Analysis(
        name="labels",
        question="How many labels are still needed?",
        needs=needs_classes,
        run=labels,
    ),
    Analysis(
        name="budget",
        question="Which raters should be paid?",
        needs=needs_prices,
        run=budget,
    ),
    Analysis(
        name="route",
        question="What should be asked next?",
        needs=needs_routable,
        run=route,
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
