"""Questions about money and the next label: mean across raters, labels, budget, route."""

from __future__ import annotations

import math
from typing import Any, Literal

from noracle.accuracy import route_items
from noracle.evidence import Evidence
from noracle.oversight.asking import Asking, Outcome
from noracle.oversight.command_lines import csv_words
from noracle.oversight.loading import Loaded
from noracle.oversight.opening import LABEL_KINDS
from noracle.ppi import Additive, Cascade, Maximum, estimate_mean, plan_budget, plan_labels
from noracle.results import Plan

MOST_ROUTED = 200_000
"""More rows of answers than these are not drawn from here."""
N_ROUTED = 20
_GUESS = 0.5


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
    result = estimate_mean(None, loaded.scores, target=loaded.settings.target, raters=raters, confidence=asking.level, seed=asking.seed)
    words = ["--data", str(loaded.scores), "--target", loaded.settings.target]
    words += ["--raters", csv_words(raters)] if raters else []
    return Outcome(results=(result,), command=loaded.command("mean", words, asking.level_words, asking.seed_words))


def needs_classes(loaded: Loaded) -> str:
    """A number of classes."""
    if loaded.n_classes is None:
        return "The number of classes is not known. Add answers, or write n_classes = K into noracle.toml."
    return ""


def labels(asking: Asking) -> Outcome:
    """How many labels, of which kind, make the interval of the leading system as narrow as wanted."""
    loaded, s = asking.loaded, asking.loaded.settings
    k = loaded.n_classes or 0
    guess = guessed_accuracy(asking)
    costs = {name: price for name, price in loaded.prices.labels.items() if name in LABEL_KINDS} or None
    caps = {name: n for name, n in loaded.prices.caps.items() if name in LABEL_KINDS} or None
    plan = plan_labels(
        n_classes=k, accuracy=guess, half_width=s.half_width, costs=costs, caps=caps, confidence=asking.level, seed=asking.seed
    )
    words = ["--n-classes", str(k), "--accuracy", repr(guess), "--half-width", repr(float(s.half_width))]
    words += [w for name, price in (costs or {}).items() for w in ("--cost", f"{name}={price!r}")]
    words += [w for name, n in (caps or {}).items() for w in ("--cap", f"{name}={n}")]
    return Outcome(results=(plan,), command=loaded.command("plan", words, asking.level_words, asking.seed_words))


def guessed_accuracy(asking: Asking) -> float:
    """The estimate of the leading system to three digits, or one half where nothing is known."""
    values = [e.value for e in asking.accuracies().values() if not math.isnan(e.value)]
    return round(min(max(*values, 0.0), 1.0), 3) if values else _GUESS


def needs_prices(loaded: Loaded) -> str:
    """Scores, the gold rater and prices of raters."""
    missing = needs_target(loaded)
    if missing:
        return missing
    if not (loaded.prices.raters or loaded.prices.lengths):
        return "There are no prices of raters. Add a file prices.toml with a table [raters], or [prices] to noracle.toml."
    return ""


def budget(asking: Asking) -> Outcome:
    """Which raters to ask about how many items: the best within the budget, or the cheapest for the half-width."""
    loaded, s = asking.loaded, asking.loaded.settings
    prices = loaded.prices
    goal: dict[str, Any] = {"budgets": s.budget} if s.budget is not None else {"half_width": s.half_width}
    costs: Any = Additive(prices=prices.raters, per_item=prices.overhead)
    if prices.model == "cascade":
        costs = Cascade(lengths=prices.lengths, output=prices.output, input=prices.input, prices=prices.raters, per_item=prices.overhead)
    elif prices.model == "maximum":
        costs = Maximum(prices=prices.raters, per_item=prices.overhead)
    caps = {name: float(n) for name, n in prices.caps.items()} or None
    kinds = _labels(loaded)
    plan = plan_budget(loaded.scores, target=s.target, costs=costs, caps=caps, labels=kinds, have="pilot", confidence=asking.level, **goal)
    words = ["--pilot", str(loaded.scores), "--target", s.target, "--have", "pilot"]
    words += ["--prices", loaded.price_file] if loaded.price_file is not None else []
    words += [w for name, price in loaded.told_prices.items() for w in ("--cost", f"{name}={float(price)!r}")]
    words += ["--budget", repr(float(s.budget))] if s.budget is not None else ["--half-width", repr(float(s.half_width))]
    words += ["--n-classes", str(loaded.n_classes)] if any(name != "ordinary" for name in prices.labels) else []
    return Outcome(results=(plan,), command=loaded.command("plan", words, asking.level_words))


def _labels(loaded: Loaded) -> tuple[Any, ...]:
    from noracle.ppi.kinds import make_label

    kinds = loaded.prices.labels
    return tuple(make_label(name, n_classes=loaded.n_classes, price=price, epsilon=0.05) for name, price in kinds.items())


def needs_routable(loaded: Loaded) -> str:
    """A long table of answers that fits into memory."""
    if loaded.answers is None or loaded.evidence is None:
        return "There are no answers to ask about. Add a table with columns item, system, answer."
    if loaded.answers.form == "wide":
        return "Questions are drawn from long tables. Write the answers as item, system, answer."
    counts = loaded.accuracy
    rows = 0 if counts is None else sum(counts.items.values())
    if rows > MOST_ROUTED:
        return f"There are {rows:,} answers, too many to draw from for a page. 'noracle route --out questions.csv' draws from them."
    if loaded.evidence.class_kind == "text" and loaded.evidence.classes is None:
        return "Classes are text and not all of them are named. Write classes = ['A', 'B', …] into noracle.toml."
    return ""


def route(asking: Asking) -> Outcome:
    """The next questions, drawn with their probabilities."""
    loaded = asking.loaded
    counts = loaded.accuracy
    items = min((sum(counts.of(s).items.values()) for s in loaded.systems), default=0) if counts is not None else 0
    n = max(1, min(N_ROUTED, items))
    k, classes = _classes(loaded)
    given = {s.kind: loaded.table(s) for s in (loaded.answers, loaded.items) if s is not None}
    evidence = Evidence.from_tables(given["answers"], None, given.get("items"), n_classes=k, classes=classes)
    design = _design(asking)
    result = route_items(evidence, design=design, n=n, seed=asking.seed)
    return Outcome(results=(result,), command=_route_words(loaded, n, design, asking.seed))


def _design(asking: Asking) -> Literal["uniform", "targeted"]:
    """How the plan would ask: about the answers, or about any class; without a plan about the answers, which needs fewer labels."""
    step = asking.done.get("labels")
    plan = next((r for r in step.results if isinstance(r, Plan)), None) if step is not None else None
    return "uniform" if plan is not None and not plan.buy.get("targeted") else "targeted"


def _classes(loaded: Loaded) -> tuple[int | None, Any]:
    """The number of classes and the classes, as they are known with judgements."""
    evidence = loaded.evidence
    if evidence is None or evidence.classes is not None:
        return None, None if evidence is None else evidence.classes
    return (loaded.settings.n_classes if evidence.has_own_n_classes else evidence.n_classes), None


def _route_words(loaded: Loaded, n: int, design: str, seed: int) -> str:
    k, classes = _classes(loaded)
    words = [w for s in (loaded.answers, loaded.items) if s is not None for w in (f"--{s.kind}", loaded.path(s))]
    words += ["--n-classes", str(k)] if k is not None else []
    words += ["--classes", csv_words(classes)] if classes is not None else []
    words += ["--design", design, "--n", str(n)]
    return loaded.command("route", words, ["--seed", str(seed)])
