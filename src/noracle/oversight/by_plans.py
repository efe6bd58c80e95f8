"""Questions about money and the next label: mean across raters, labels, budget, route."""

from __future__ import annotations

from typing import Any, Literal

from noracle.accuracy import route_items
from noracle.evidence import Evidence
from noracle.oversight.asking import Asking, Outcome
from noracle.oversight.command_lines import csv_words
from noracle.oversight.loading import Loaded
from noracle.oversight.opening import LABEL_KINDS
from noracle.ppi import (
    Additive,
    Cascade,
    Maximum,
    estimate_mean,
    plan_accuracy,
    plan_budget,
    plan_labels,
)
from noracle.results import Plan

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
