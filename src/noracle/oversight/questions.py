"""The table of what can be asked of evidence, and how each question is put."""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from noracle.accuracy import (
    certify_panel,
    check_judge,
    check_sensitivity,
    compare_systems,
    detect_drift,
    estimate_accuracies,
    estimate_with_judges,
    range_unsure,
    route_items,
)
from noracle.accuracy.check import for_comparison, is_question, label_checks
from noracle.accuracy.judge import judges_in
from noracle.counts import Sketch
from noracle.errors import ArgumentError, EvidenceWarning, GuaranteeWarning, NoracleError
from noracle.evidence import Evidence
from noracle.logic.cascade import prove_malfunction
from noracle.logic.conflict import prove_conflict
from noracle.logic.ranges import quantities, range_accuracies
from noracle.oversight.findings import first_of, promises
from noracle.oversight.load import LABEL_KINDS, Loaded, flags
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
from noracle.ranking import rank_systems
from noracle.report.budgets import narrowing
from noracle.report.proofs import uses_of
from noracle.results import Check, Estimate, Plan, Proof, Result
from noracle.superhuman.agreement import Statistic, estimate_agreement
from noracle.superhuman.ceiling import estimate_ceiling
from noracle.superhuman.certify import certify_superhuman

StepOutcome = tuple[tuple[Result, ...], str]
"""Results and the command that reproduces them."""


@dataclasses.dataclass(kw_only=True)
class Asking:
    """What every question is given.

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

    loaded: Loaded
    level: float
    seed: int
    done: dict[str, Step] = dataclasses.field(default_factory=dict)
    heard: list[str] = dataclasses.field(default_factory=list)

    def outcome(
        self, results: Sequence[Result], verb: str, words: Sequence[str], *said: str
    ) -> StepOutcome:
        """The results, and the command that reproduces them with the options that are ``said``."""
        s = self.loaded.settings
        known = {
            "repeats": flags(repeats=None if s.repeats == "mean" else s.repeats),
            "protocol": flags(protocol=s.protocol),
            "level": flags(confidence=self.level),
            "seed": flags(seed=self.seed),
        }
        command = self.loaded.command(verb, words, *(known[name] for name in said))
        return tuple(results), command

    @functools.cached_property
    def label_checks(self) -> tuple[Check, ...]:
        """The checks of the labels that apply, as :mod:`noracle.accuracy.check` lists them."""
        loaded = self.loaded
        about = loaded.evidence if loaded.evidence is not None else loaded.accuracy
        if about is None:
            return ()
        known: dict[str, Any] = {"counts": loaded.accuracy, "judgements": loaded.asked}
        return label_checks(about, protocol=loaded.protocol, seed=self.seed, **known)


@dataclasses.dataclass(frozen=True, slots=True)
class Analysis:
    """One question that evidence may answer.

    ``needs`` says what is missing, in one sentence with the way out; an empty text means that it
    can be asked. ``run`` gives an outcome, or why there is none. ``statements`` is how many
    statements with a probability it will make, so that the error rate can be shared before anything
    is looked at.
    """

    name: str
    question: str
    needs: Callable[[Loaded], str]
    run: Callable[[Asking], StepOutcome | str]
    statements: Callable[[Loaded], int] = lambda _: 0
    asked: Callable[[Loaded], bool] = lambda _: True
    """Whether it is a question at all, where these are the tables."""


# Questions that answers and labels decide: accuracy, comparison, checks.

MOST_COMPARED = 50
"""More systems than these are not compared pair by pair."""
_MOST_SENSITIVE = 20


def needs_labels(loaded: Loaded) -> str:
    """Answers, and labels that met some of them."""
    if loaded.accuracy is None:
        return "There are no answers of systems. Add a table with columns item, system, answer; or grades: item, system, verdict."
    e = loaded.evidence
    if e is not None and e.judgements is None and e.grades is None and loaded.stored is None:
        return (
            "There are no judgements. Add a table with columns item, class, verdict; 'noracle route' writes the questions to ask. "
            "Or grades, with columns item, system, verdict."
        )
    if loaded.has_labels:
        return ""
    why = "No item has both an answer and a judgement or grade."
    if any(t.verdict == "unsure" for t in loaded.accuracy.tallies):
        why = "Every judgement of an answered item is unsure."
    return f"{why} Judge items that the systems answered; 'noracle route' draws them."


def accuracy(asking: Asking) -> StepOutcome | str:
    """The accuracy of each system, with the checks of the labels written into its guarantee."""
    loaded = asking.loaded
    counts = loaded.accuracy_by_cluster
    if counts is None:
        return needs_labels(loaded)
    results = estimate_accuracies(
        counts,
        systems=loaded.systems,
        confidence=asking.level,
        checks=asking.label_checks,
        classes=loaded.settings.classes,
    )
    words = loaded.evidence_words(stored=True)
    found = [*results.values()]
    return asking.outcome(found, "estimate", words, "repeats", "protocol", "level", "seed")


def needs_pairs(loaded: Loaded) -> str:
    """Labels, and at least two systems that answered the same items."""
    missing, n = needs_labels(loaded), len(loaded.systems)
    if missing:
        return missing
    if not loaded.has_systems:
        return "Stored counts do not say which systems were right together. Add the tables of answers and judgements."
    if n < 2:
        return f"There is one system, {loaded.systems[0]}. Add the answers of another one to compare it with."
    if n > MOST_COMPARED:
        return (
            f"There are {n} systems, {n * (n - 1) // 2} pairs: more than {MOST_COMPARED} are not compared at once. Choose some "
            "before looking at their values: noracle compare --systems A,B,C."
        )
    return ""


def comparison(asking: Asking) -> StepOutcome | str:
    """All differences of accuracies together, on the labels that all systems share."""
    patterns = asking.loaded.patterns
    if not any(p.verdict != "unsure" for p in patterns.patterns):
        return (
            "No labelled item was answered by all systems. Run every system on the labelled items."
        )
    checked = for_comparison(asking.label_checks)
    result = compare_systems(patterns, confidence=asking.level, checks=checked)
    words = asking.loaded.evidence_words()
    return asking.outcome([result], "compare", words, "repeats", "protocol", "level", "seed")


def needs_judge(loaded: Loaded) -> str:
    """Grades of everything by a judge, and of some by people."""
    if loaded.judged is not None and loaded.people:
        return ""
    return "No rater graded everything while others graded some. Have a model grade all answers, and name it in a column rater."


def judge(asking: Asking) -> StepOutcome | str:
    """The accuracy with the judge's help, how good each judge is, and panels of several."""
    loaded = asking.loaded
    if loaded.judged is None:
        return needs_judge(loaded)
    about: dict[str, Any] = {"confidence": asking.level, "seed": asking.seed}
    judges = judges_in(loaded.judged)
    results: list[Result] = [*estimate_with_judges(loaded.judged, judge=judges, **about).values()]
    results += [check_judge(loaded.judged, judge=name, **about) for name in judges]
    if len(judges) > 1:
        sure: dict[str, Any] = {"panel": judges, "confidence": asking.level}
        results += [certify_panel(loaded.judged, system=s, **sure) for s in loaded.systems]
    words = loaded.table_words(people=False)
    words += flags(conflicts=None if loaded.settings.conflicts == "error" else "drop")
    return asking.outcome(results, "judge", words, "level", "seed")


def judged_statements(loaded: Loaded) -> int:
    """An accuracy of each system, and a panel where there are several judges; what the card of a
    judge says holds one by one.
    """
    judged = loaded.judged
    return 0 if judged is None else len(loaded.systems) * (1 + (len(judges_in(judged)) > 1))


def needs_stream(loaded: Loaded) -> str:
    """Labels in their order, none of which is a judge's."""
    if needs_labels(loaded):
        return needs_labels(loaded)
    if not loaded.has_systems:
        return "Stored counts do not say when labels came. Add the tables of answers and judgements, or grades."
    named = loaded.settings.drift.get("judge")
    for name in [] if loaded.judged is None else judges_in(loaded.judged):
        if name != named:
            said = f"{name} graded every answer beside others: its grades would count as labels."
            return (
                f"{said} Write judge = '{name}' under [drift] in noracle.toml, or leave them out."
            )
    return ""


def drift(asking: Asking) -> StepOutcome | str:
    """Has accuracy fallen below the level that noracle.toml states, and since when?"""
    loaded, place = asking.loaded, asking.loaded.inventory.place
    evidence = loaded.evidence if loaded.judged is None else loaded.judged
    if evidence is None:
        return needs_stream(loaded)
    rule = loaded.settings.drift
    results = detect_drift(evidence, **rule)
    if not Path(place).is_dir():  # a watch follows folders
        return asking.outcome([*results.values()], "report", loaded.place_words())
    return asking.outcome([*results.values()], "watch", [place, "--once", *flags(**rule)])


def needs_judgements(loaded: Loaded) -> str:
    """Judgements, or stored counts of them."""
    e = loaded.evidence
    said = e is not None and (e.judgements is not None or e.grades is not None)
    none = "There are no judgements to check. Add a table with columns item, class, verdict."
    return "" if said or loaded.stored is not None else none


def unsure_systems(loaded: Loaded) -> tuple[str, ...]:
    """Systems with unsure verdicts among their labels, whose worst case is a statement of its own."""
    counts = loaded.accuracy
    if counts is None or any(t.hit_share is not None for t in counts.tallies):
        return ()
    of = {name: counts.of(name) for name in loaded.systems}
    uniform = [s for s, c in of.items() if all(t.design != "recorded" for t in c.tallies)]
    return tuple(s for s in uniform if of[s].total(verdict="unsure"))


def checks(asking: Asking) -> StepOutcome | str:
    """The checks of the labels, how robust accuracies are, and what unsure verdicts can hide."""
    loaded, counts = asking.loaded, asking.loaded.accuracy
    results: list[Result] = list(asking.label_checks)
    words = loaded.evidence_words(stored=True)
    if counts is not None:
        at_least, found = _sensitivity(asking)
        results += found
        words += flags(at_least=at_least if found else None)
        unsure = unsure_systems(loaded)
        results += [range_unsure(counts.of(name), confidence=asking.level) for name in unsure]
    if results:
        return asking.outcome(results, "check", words, "protocol", "level", "seed")
    if loaded.evidence is not None and loaded.evidence.judgements is None:
        return "No check applies: grades of one system, or of every answer, say nothing about how they were chosen."
    why = "add judgements"
    if loaded.asked is not None and is_question(loaded.asked, "question"):
        why = "set protocol = 'question' in noracle.toml if one random class was asked about each item"
    return f"No check applies: labels of one kind only say nothing about how they were asked. To check them, {why}."


def _sensitivity(asking: Asking) -> tuple[float, list[Result]]:
    """How wrong verdicts may be until an accuracy may be below the smallest lower limit."""
    counts, step = asking.loaded.accuracy, asking.done.get("accuracy")
    lows = [r.low for r in (step.results if step else ()) if isinstance(r, Estimate)]
    if counts is None or not lows or len(lows) > _MOST_SENSITIVE:
        return 0.0, []
    at_least = math.floor(min(lows) * 100) / 100
    if at_least <= 0 or asking.loaded.stored is not None:
        return 0.0, []
    try:
        options: dict[str, Any] = {"at_least": at_least, "confidence": asking.level}
        results = [check_sensitivity(counts.of(s), **options) for s in asking.loaded.systems]
    except ArgumentError:  # labels that are not uniform questions, one per item
        return 0.0, []
    return (at_least, [*results]) if all(r.passed for r in results) else (0.0, [])


# Questions that answers alone decide, for every possible answer key: ranges, alarm, conflict.

MOST_RANGES = 60
"""So many ranges are found exactly, on every label; else only one range for each system."""
_MOST_SYSTEMS = 200
_MOST_ENTRIES = 30_000_000
_LARGE = 50_000
_MOST_LABELS = 200


def needs_answers(loaded: Loaded) -> str:
    """Answers of systems, or of raters in a wide table."""
    if loaded.graders is not None:
        graded = "Answers are graded and their classes are not known: free text is right or wrong by its grade alone."
        return graded if loaded.free_text else ""
    if loaded.rated is not None:
        return "There are no answers of systems, and raters can be graders only in a wide table, with one column per rater."
    return "There are no answers. Add a table with columns item, system, answer."


def ranges(asking: Asking) -> StepOutcome | str:
    """What each accuracy can still be: exact ends where there are few, else outer bounds."""
    loaded = asking.loaded
    too_large = _too_large(loaded)
    if too_large:
        return too_large
    sketch, limit = loaded.sketch, loaded.settings.time_limit
    words = [*loaded.grader_words(), *flags(time_limit=float(limit))]
    few = len(sketch.classifiers) * (len(sketch.labels) + 1) <= MOST_RANGES
    if few and _size(sketch) <= _LARGE:
        return asking.outcome([range_accuracies(sketch, time_limit=limit)], "ranges", words)
    grades = [name for (_, label), name in quantities(sketch).items() if label is None]
    found = [range_accuracies(sketch, only=name, exact=False, time_limit=limit) for name in grades]
    lines = [loaded.command("ranges", words, ["--outer", "--only", name]) for name in grades]
    return tuple(found), "\n".join(lines)


def needs_claim(loaded: Loaded) -> str:
    """A claim that somebody stated, and two graders of the same items or one and judgements."""
    missing = needs_answers(loaded)
    if missing or loaded.graders is None:
        return missing
    if not claim_of(loaded.settings):
        return f'{NO_CLAIM} Or pass it: noracle report --claim "accuracy > 1/2".'
    e = loaded.evidence
    n = len(loaded.systems if e is not None and e.answers is not None else loaded.grader_names)
    alone = "One grader alone contradicts nobody. Add the answers of another system, or judgements."
    return alone if n < 2 and (e is None or e.judgements is None) else ""


def page_figures(result: Proof | Plan) -> dict[str, Any]:
    """What the page shows of a proof or a budget beside what the command says; it follows from the
    result alone, and the JSON of the report has it, too.
    """
    if isinstance(result, Proof):
        uses = uses_of(result)
        return {} if uses is None else {"uses": uses}
    from noracle.ppi.planner import budget_path
    from noracle.ppi.verify import price_of

    each = {name: price_of(result, name) for name in result.buy}
    return {
        "path": [point._asdict() for point in budget_path(result)],
        "set_prices": each,
        "set_costs": {name: round(n * each[name], 9) for name, n in result.buy.items()},
        "narrowing": narrowing(result),
    }


def _prove(asking: Asking, verb: str, prove: Callable[..., Proof]) -> StepOutcome:
    """The proof of the claim; a large one leaves out what judgements rule out, which weakens it."""
    loaded, evidence = asking.loaded, asking.loaded.graders
    sketch, words = loaded.sketch, loaded.grader_words()
    judged = evidence is not None and evidence.judgements is not None
    side = judged and evidence is not None and not evidence.has_own_n_classes
    if side and _size(sketch) > _LARGE:
        about: Any = {name: getattr(sketch, name) for name in ("labels", "classifiers", "n")}
        sketch = Sketch.from_arrays(sketch.patterns, **about)
        words = [*words, "--ignore-judgements"]
    claim, limit = claim_of(loaded.settings), float(loaded.settings.time_limit)
    proof = prove(sketch, claim, time_limit=limit)
    proof = dataclasses.replace(proof, diagnostics={**proof.diagnostics, **page_figures(proof)})
    return asking.outcome([proof], verb, [*flags(spec=claim), *words, *flags(time_limit=limit)])


def alarm(asking: Asking) -> StepOutcome | str:
    """Can all graders be as good as somebody claimed?"""
    return _too_large(asking.loaded) or _prove(asking, "alarm", prove_malfunction)


def conflict(asking: Asking) -> StepOutcome | str:
    """A smallest set of graders that cannot all be as good as claimed, where the alarm fired."""
    claimed = first_of(asking.done, "alarm", Proof)
    if claimed is None or claimed.status != "alarm":
        return "No alarm fired, so there is no conflict to name."
    return _prove(asking, "conflict", prove_conflict)


def _size(sketch: Sketch) -> int:
    return sketch.n_groups * len(sketch.labels)


def _too_large(loaded: Loaded) -> str:
    k, n = loaded.n_classes or 0, len(loaded.systems)
    if k > _MOST_LABELS:
        return f"There are {k} classes: proofs from answers are made for up to {_MOST_LABELS}. Group the classes, or ask about fewer items."
    if n > _MOST_SYSTEMS:
        return f"There are {n} systems: proofs from answers are made for up to {_MOST_SYSTEMS}. Choose some with --systems."
    if _size(loaded.sketch) > _MOST_ENTRIES:
        return f"There are {loaded.sketch.n_groups:,} different patterns of answers and judgements. Choose fewer systems with --systems."
    return ""


# Questions about money and the next label: mean across raters, labels, budget, route.

MOST_ROUTED = 200_000
"""More rows of answers than these are not drawn from here."""
N_ROUTED = 20
GUESS = 0.7


def needs_target(loaded: Loaded) -> str:
    """Scores of raters, and which of them is the gold one."""
    if loaded.scores is None:
        return "There are no scores of raters. Add a table with one column per rater, or with columns item, rater, value."
    if not loaded.settings.target:
        return "No gold rater is named. Write target = 'NAME' in noracle.toml."
    return ""


def mean(asking: Asking) -> StepOutcome:
    """The mean of the gold rater, with the help of the others; asymptotic."""
    scores, target = asking.loaded.scores, asking.loaded.settings.target
    raters = list(asking.loaded.score_raters) or None
    options: dict[str, Any] = {"confidence": asking.level, "seed": asking.seed}
    result = estimate_mean(scores, target=target, raters=raters, **options)
    words = flags(data=scores, target=target, raters=raters)
    return asking.outcome([result], "mean", words, "level", "seed")


def needs_classes(loaded: Loaded) -> str:
    """A number of classes, unless answers are graded."""
    unknown = (
        "The number of classes is not known. Add answers, or write n_classes = K into noracle.toml."
    )
    return unknown if loaded.n_classes is None and not loaded.free_text else ""


def labels(asking: Asking) -> StepOutcome:
    """How many labels are missing for intervals as narrow as wanted."""
    loaded, width = asking.loaded, float(asking.loaded.settings.half_width)
    counts = loaded.accuracy
    known = counts is not None and any(counts.items.values())
    kinds = [kind for kind in LABEL_KINDS if known or kind != "grades"]
    costs = {name: price for name, price in loaded.prices.labels.items() if name in kinds}
    caps = {name: int(n) for name, n in loaded.prices.caps.items() if name in kinds}
    options: dict[str, Any] = {"half_width": width, "costs": costs or None, "caps": caps or None}
    options |= {"confidence": asking.level, "seed": asking.seed}
    if known and counts is not None:
        plan = plan_accuracy(counts, **options)
        words = [*loaded.place_words(), *loaded.class_words(), *flags(half_width=width)]
    else:
        k = loaded.n_classes or 0
        plan = plan_labels(n_classes=k, accuracy=GUESS, **options)
        words = flags(n_classes=k, accuracy=GUESS, half_width=width, cost=costs, cap=caps)
    return asking.outcome([plan], "plan", words, "level", "seed")


def needs_prices(loaded: Loaded) -> str:
    """Scores, the gold rater and prices of raters."""
    missing = needs_target(loaded)
    if missing or loaded.prices.raters or loaded.prices.lengths:
        return missing
    return "There are no prices of raters. Add a file prices.toml with a table [raters], or [prices] to noracle.toml."


def budget(asking: Asking) -> StepOutcome:
    """Which raters to ask about how many items, for the budget or for the half-width."""
    from noracle.ppi.expected import make_label

    loaded, s, p = asking.loaded, asking.loaded.settings, asking.loaded.prices
    common: dict[str, Any] = {"prices": p.raters, "per_item": p.overhead}
    costs: Any = (Maximum if p.model == "maximum" else Additive)(**common)
    if p.model == "cascade":
        costs = Cascade(lengths=p.lengths, output=p.output, input=p.input, **common)
    goal = {"half_width": float(s.half_width)} if s.budget is None else {"budget": float(s.budget)}
    classes: Any = {"n_classes": loaded.n_classes, "epsilon": 0.05}
    plan = plan_budget(
        loaded.scores,
        target=s.target,
        costs=costs,
        caps={name: float(n) for name, n in p.caps.items()} or None,
        labels=[make_label(name, price=price, **classes) for name, price in p.labels.items()],
        have="pilot",
        confidence=asking.level,
        half_width=goal.get("half_width"),
        budgets=goal.get("budget"),
    )
    plan = dataclasses.replace(plan, diagnostics={**plan.diagnostics, **page_figures(plan)})
    told = {name: float(price) for name, price in loaded.told_prices.items()}
    k = loaded.n_classes if any(name != "ordinary" for name in p.labels) else None
    words = flags(pilot=loaded.scores, target=s.target, have="pilot", prices=loaded.price_file)
    words += flags(cost=told, **goal, n_classes=k)
    return asking.outcome([plan], "plan", words, "level")


def needs_routable(loaded: Loaded) -> str:
    """A long table of answers that fits into memory."""
    e, counts = loaded.evidence, loaded.accuracy
    grading = e is not None and e.grades is not None
    if e is None or (loaded.answers is None and (not grading or loaded.items is None)):
        return "There are no answers to ask about. Add a table with columns item, system, answer."
    if loaded.answers is not None and {"label", "ruled_out"} & set(loaded.answers.options):
        return "Questions are drawn for labels in a table of their own. Write them as item, class, verdict."
    rows = 0 if counts is None else sum(counts.items.values())
    if rows > MOST_ROUTED:
        return f"There are {rows:,} answers, too many to draw from for a page. 'noracle route --out questions.csv' draws from them."
    if e.class_kind == "text" and e.classes is None and not grading:
        return "Classes are text and not all of them are named. Write classes = ['A', 'B', …] into noracle.toml."
    return ""


def route(asking: Asking) -> StepOutcome | str:
    """The next questions, drawn with their probabilities."""
    loaded, counts, evidence = asking.loaded, asking.loaded.accuracy, asking.loaded.evidence
    if evidence is not None and evidence.grades is not None:
        return _route_grades(asking, evidence)
    places: dict[Any, int] = {}
    for c, size in counts.items.items() if counts is not None else ():
        place = c._replace(system="")
        places[place] = max(places.get(place, 0), size)
    items = sum(places.values())
    k, classes = None, None if evidence is None else evidence.classes
    if evidence is not None and classes is None:
        k = loaded.settings.n_classes if evidence.has_own_n_classes else evidence.n_classes
    evidence = loaded.evidence_with(n_classes=k, classes=classes)
    labelled = len({item for (item,) in evidence.rows("judgements", "item")})
    n = min(N_ROUTED, items - labelled)
    if n < 1:
        more = "Bring more items, or ask for wider intervals."
        return f"All {items:,} items have a judgement. {more}"
    # As the plan would ask; without a plan about the answers of all, which needs fewer labels.
    plan, targets = first_of(asking.done, "labels", Plan), None
    design: Any = "targeted"
    if plan is not None and plan.inputs.get("kind") != "targeted" and not plan.buy.get("targeted"):
        design = "uniform"
    elif plan is not None and set(plan.inputs.get("systems") or ()) < set(loaded.systems):
        targets = list(plan.inputs.get("systems") or ()) or None
    result = route_items(evidence, design=design, systems=targets, n=n, seed=asking.seed)
    words = loaded.table_words(systems=False)
    words += flags(n_classes=k, classes=classes, design=design, systems=targets, n=n)
    return asking.outcome([result], "route", words, "seed")


def _route_grades(asking: Asking, evidence: Evidence) -> StepOutcome | str:
    """The next answers to grade, drawn with their probabilities."""
    labelled = {item for (item,) in evidence.rows("judgements", "item")}
    labelled |= {item for (item,) in evidence.rows("grades", "item")}
    rows = evidence.rows("items", "item")
    if evidence.answers is not None:
        rows = evidence.rows("answers", "item", "answer")
    n = min(N_ROUTED, len({row[0] for row in rows if row[-1] is not None} - labelled))
    if n < 1:
        return "All items have a grade or a judgement. Bring more items, or grade further systems on these."
    result = route_items(evidence, design="grades", n=n, seed=asking.seed)
    words = [*asking.loaded.table_words(systems=False), *asking.loaded.class_words()]
    return asking.outcome([result], "route", [*words, *flags(design="grades", n=n)], "seed")


# Questions that ratings decide: ceiling, agreement, certificate.

STATISTICS: tuple[Statistic, ...] = ("pairwise", "krippendorff")
_NO_RATINGS = "There are no ratings. Add a table with columns item, rater, label: several people on the same items."


def needs_two(loaded: Loaded) -> str:
    """Items with at least two ratings, in a table or in stored counts."""
    if loaded.votes is None:
        return _NO_RATINGS
    if int(loaded.votes.n_ratings.max(initial=0)) < 2:
        return "Every item has only one rating. Have a second person rate some of them."
    return ""


def ceiling(asking: Asking) -> StepOutcome | str:
    """How accurate the average annotator can be at most."""
    votes = asking.loaded.votes_alone
    if votes is None:
        return _NO_RATINGS
    result = estimate_ceiling(votes, confidence=asking.level)
    return asking.outcome([result], "ceiling", asking.loaded.rating_words(), "level")


def agreement(asking: Asking) -> StepOutcome | str:
    """How much the raters agree; asymptotic."""
    votes = asking.loaded.votes_alone
    if votes is None:
        return _NO_RATINGS
    options: dict[str, Any] = {"confidence": asking.level, "seed": asking.seed}
    results = [estimate_agreement(votes, statistic=s, **options) for s in STATISTICS]
    words = [*asking.loaded.rating_words(), *flags(statistic=STATISTICS)]
    return asking.outcome(results, "agreement", words, "level", "seed")


def needs_judged(loaded: Loaded) -> str:
    """Ratings and the answers of systems to the same items."""
    missing, votes = needs_two(loaded), loaded.votes
    if missing or votes is None:
        return missing
    if not loaded.judged_systems:
        return (
            "There are ratings but no answers of systems to the rated items. Add a table with columns item, system, answer."
            if loaded.answers is None
            else "The answers cannot be read beside these ratings. Write both as long tables: item, system, answer and item, rater, label."
        )
    if not any(int(votes.answers[s][:, :-1].sum()) for s in loaded.judged_systems):
        return "No system answered a rated item. Run the systems on the rated items."
    return ""


def certificate(asking: Asking) -> StepOutcome | str:
    """Is a system better than the average annotation?"""
    loaded, s = asking.loaded, asking.loaded.settings
    clustered = loaded.ratings_name_clusters and loaded.stored_ratings is None
    together = loaded.ratings if clustered else loaded.votes
    if loaded.votes is None:
        return _NO_RATINGS
    told: dict[str, Any] = {"margin": s.margin, "trained_on_annotators": s.trained_on_annotators}
    options = {**told, "confidence": asking.level, "seed": asking.seed}
    results = [certify_superhuman(together, system=s, **options) for s in loaded.judged_systems]
    told["margin"] = float(s.margin)
    words = [*loaded.rating_words(answers=True), *flags(**told)]
    return asking.outcome(results, "certify", words, "level", "seed")


# The question that preferences decide.


def preference(asking: Asking) -> StepOutcome | str:
    """Who is preferred; asymptotic."""
    given, table = asking.loaded.preferences, asking.loaded.preferred
    if given is None or table is None:
        return "There are no preferences. Add a table with columns item, first, second, winner."
    result = rank_systems(given, confidence=asking.level, seed=asking.seed)
    return asking.outcome([result], "rank", [asking.loaded.path(table)], "level", "seed")


# Every question.

FALLEN = "Has accuracy fallen below the stated level?"
_UNSURE, _JUDGED = lambda x: len(unsure_systems(x)), lambda x: len(x.judged_systems)
_QUESTIONS: tuple[tuple[Any, ...], ...] = (
    ("accuracy", "How accurate is each system?", needs_labels, accuracy, lambda x: len(x.systems)),
    ("comparison", "Which system is better?", needs_pairs, comparison, lambda _: 1),
    ("checks", "Were the labels collected fairly?", needs_judgements, checks, _UNSURE),
    (
        "judge",
        "How good is the judge, and what does it save?",
        needs_judge,
        judge,
        judged_statements,
    ),
    (
        "drift",
        FALLEN,
        needs_stream,
        drift,
        lambda _: 0,
        lambda x: bool(x.settings.drift),
    ),
    ("ranges", "What can each accuracy still be, whatever the key?", needs_answers, ranges),
    ("alarm", "Can all graders be as good as claimed?", needs_claim, alarm),
    ("conflict", "Who cannot all be right?", needs_claim, conflict),
    ("ceiling", "How accurate can the average annotator be?", needs_two, ceiling, lambda _: 1),
    ("agreement", "How much do the raters agree?", needs_two, agreement, lambda _: len(STATISTICS)),
    ("certificate", "Is a system better than its annotators?", needs_judged, certificate, _JUDGED),
    ("mean", "What is the mean of the gold rater?", needs_target, mean, lambda _: 1),
    (
        "preference",
        "Which system is preferred?",
        lambda _: "",
        preference,
        lambda _: 1,
        lambda x: x.preferred is not None,
    ),
    ("labels", "How many labels are still needed?", needs_classes, labels),
    ("budget", "Which raters should be paid?", needs_prices, budget),
    ("route", "What should be asked next?", needs_routable, route),
)
ANALYSES = tuple(Analysis(*row) for row in _QUESTIONS)
"""What can be asked, in the order in which it is asked: a later analysis may use the results of an
earlier one.
"""


def count_statements(loaded: Loaded) -> dict[str, int]:
    """How many statements with a probability each analysis will make; fixed by what the tables
    hold, before any value is looked at.
    """
    asked = [a for a in ANALYSES if a.asked(loaded)]
    planned = {a.name: a.statements(loaded) for a in asked if not a.needs(loaded)}
    return {name: n for name, n in planned.items() if n}


def take_steps(asking: Asking, progress: Callable[[str], None] | None = None) -> tuple[Step, ...]:
    """Put every question to the evidence, one after the other."""
    for analysis in ANALYSES:
        if not analysis.asked(asking.loaded):
            continue
        if progress is not None:
            progress(analysis.question)
        asking.done[analysis.name] = _take_step(analysis, asking)
    return tuple(asking.done.values())


_STOPS = (ArithmeticError, LookupError, MemoryError, TypeError, ValueError, OSError)


def _take_step(analysis: Analysis, asking: Asking) -> Step:
    """One question: done, not possible, or failed."""
    step = functools.partial(Step, name=analysis.name, question=analysis.question)
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            outcome = analysis.needs(asking.loaded) or analysis.run(asking)
        kinds = (EvidenceWarning, GuaranteeWarning)
        told = [w.message for w in heard if issubclass(w.category, kinds)]
        asking.heard += [f"{analysis.name}: {message}" for message in told]
    except (NoracleError, *_STOPS) as error:
        kind = "" if isinstance(error, NoracleError) else f"{type(error).__name__}: "
        return step(status="failed", reason=f"It stopped with an error: {kind}{error}")
    if isinstance(outcome, str) or not outcome[0]:
        return step(status="not possible", reason=outcome if isinstance(outcome, str) else "")
    results, command = outcome
    spent = sum(promise.error_rate for promise in promises(results))
    return step(status="done", results=results, command=command, error_rate=spent)
