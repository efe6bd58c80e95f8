"""How many more labels the evidence needs: a plan that starts from what is there."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from noracle.counts.count import count_accuracy
from noracle.counts.tally import AccuracyCounts, Tally
from noracle.errors import ArgumentError, require
from noracle.evidence import Evidence
from noracle.ppi.expected import (
    GRADES,
    Expected,
    Place,
    Voted,
    by_cell,
    held_votes,
    model_votes,
    strata_of,
)
from noracle.ppi.labels import KINDS, LabelKind, as_plan, check_costs, check_half_width, option
from noracle.results import Plan, check_confidence, choose

GUESS = 0.7
"""The accuracy of a system of which nothing is known."""
_CHEAPER = 0.95
_NAMES: dict[str, str] = {"question": "uniform questions", "targeted": "targeted questions"}


def plan_accuracy(
    evidence: Evidence | AccuracyCounts,
    *,
    half_width: float,
    systems: Sequence[str] | None = None,
    kind: LabelKind | Literal["grades"] | None = None,
    costs: Mapping[str, float] | None = None,
    caps: Mapping[str, int] | None = None,
    epsilon: float = 0.05,
    confidence: float = 0.95,
    seed: int = 0,
) -> Plan:
    """Plan the labels that are missing for intervals of a wanted half-width.

    The population, the numbers of classes, strata, weights and missing answers are those of the
    evidence; labels that are there count. Every system's current estimate is the guess of its
    accuracy, and labels are bought until the default
    :func:`~noracle.accuracy.estimate_accuracy` of every system is expected to be ± ``half_width``, or no item without a label is left.

    Parameters
    ----------
    evidence
        Answers, with or without judgements; or grades; or counts of them.
    half_width
        Wanted half-width of every system's interval.
    systems
        Which systems; all by default.
    kind
        Which labels to buy; by default those that are there, else the cheapest kind that has a
        price, else ordinary ones. One label of an item serves all systems; ``grades`` serve their
        own system only.
    costs, caps
        Price and largest number of labels of each kind; by default 1 and all items.
    epsilon
        Uniform share of targeted questions, where the labels do not show it.

    Returns
    -------
    Plan
        ``inputs["by_system"]`` has the guess, the labels needed and the predicted half-width of
        each system; what is bought is the largest of these numbers, and of grades their sum.
        ``inputs["estimator"]`` is the estimate that needs it. Other kinds that have a price are
        alternatives. Where the goal is out of reach, all items that are left are bought and
        ``reason`` says so.

    Notes
    -----
    With w(n) the half-width of the estimate of the labels that are there and n expected ones, the
    plan is n = min{n : w(n) <= half_width}, to two thousandths. Where strata were labelled at
    different rates, new labels are bought by stratum, the least labelled first: n_s = max(0, r·N_s
    - labels there) with one rate r, and strata are taken together only once r is the rate of all.
    Otherwise items are drawn at random among those without a label.

    Assumes that accuracies are as estimated, that wrong answers are uniform, and that verdicts are
    right. The interval that the labels then give does not rest on the guess. Other than
    :func:`~noracle.accuracy.route_items`, this draws nothing.

    References
    ----------
    Yin, Ishida and Sugiyama, "Towards scalable oversight via partitioned human supervision", for
    the laws of the labels.

    Examples
    --------
    >>> from noracle import AccuracyCounts, plan_accuracy
    >>> counts = AccuracyCounts.from_counts(n_classes=5, ordinary=(200, 156), n_items=2000)
    >>> plan = plan_accuracy(counts, half_width=0.03)
    >>> plan.buy, plan.inputs["estimator"]["interval"], plan.verify()
    ({'ordinary': 352}, 'hypergeometric', True)
    """
    check_confidence(confidence)
    check_half_width(half_width)
    if kind is not None:
        choose("kind", kind, (*KINDS, GRADES))
    check_costs(costs or {}, (*KINDS, GRADES))
    counts = _counts(evidence, systems)
    held = held_kind(counts)
    plain = GRADES if not _known(counts) else "ordinary"
    chosen: str = kind or held or (min(costs, key=lambda name: costs[name]) if costs else plain)
    prices = {**(costs or {})}
    prices.setdefault(chosen, 1.0)
    worlds = _worlds(counts, epsilon, confidence, seed)
    limits = dict(caps or {})
    fitting = [name for name in prices if _fits(name, counts, len(worlds), held)]
    needs = {name: _needed(worlds, name, half_width, limits) for name in fitting}
    rule = f"kind must fit the labels that are there ({_NAMES.get(str(held), held)})"
    require(chosen in needs, f"{rule}, as they can be estimated together; got {chosen!r}.")
    need = needs[chosen]
    rows = need.by_system
    best = max(rows, key=lambda s: (rows[s]["n"], rows[s]["predicted"], s))
    world = worlds[best]
    buy = {chosen: need.n} if need.n else {}
    estimator = {way: rows[best][way] for way in ("method", "interval")}
    options = [
        option({name: n.n} if n.n else {}, n.predicted, prices[name] * n.n, why=n.why)
        for name, n in needs.items()
    ]
    inputs = {
        "planner": "evidence",
        "kind": chosen,
        "costs": prices,
        "caps": limits,
        "epsilon": _epsilon(worlds, epsilon),
        "seed": seed,
        "n_items": max(sum(p.items for p in w.places) for w in worlds.values()),
        "have": _have(counts, worlds),
        "strata": sorted({p.cell.stratum for p in world.places}) if world.strata else None,
        "systems": _targets(worlds, chosen),
        "estimator": estimator,
        "by_system": rows,
        "evidence": counts.to_dict(),
    }
    told = buy if chosen == GRADES else world.told(buy)
    return as_plan(
        option(told, need.predicted, prices[chosen] * need.n),
        estimator,
        confidence,
        goal="half-width",
        wanted=float(half_width),
        reason=need.why,
        inputs=inputs,
        alternatives=tuple(options),
        notes=tuple(_notes(chosen, options, prices, worlds, world)),
    )


def _known(counts: AccuracyCounts) -> bool:
    return all(c.n_classes for c in counts.items)


def held_kind(counts: AccuracyCounts) -> LabelKind | Literal["grades"] | None:
    """Which kind of label the evidence holds most of; None without labels."""
    seen: Counter[str] = Counter()
    expected = 0.0
    for t, n in counts.tallies.items():
        if t.verdict != "unsure":
            uniform = t.design == "uniform"
            seen[t.verdict if uniform else t.design] += n
            expected += n / t.n_classes if uniform else 0.0
    if not seen:
        return None
    if not _known(counts) or seen["graded"] > sum(seen.values()) / 2:
        return "grades"
    if seen["recorded"]:
        return "targeted"
    if not seen["no"]:
        return "ordinary"
    if not seen["yes"]:
        return "complementary"
    near = abs(seen["yes"] - expected) <= 4 * math.sqrt(expected) + 1
    if counts.propensities == "uniform" or near:
        return "question"
    return "ordinary" if seen["yes"] > seen["no"] else "complementary"


def _counts(evidence: Evidence | AccuracyCounts, systems: Sequence[str] | None) -> AccuracyCounts:
    if isinstance(evidence, Evidence):
        return count_accuracy(evidence, systems=None if systems is None else list(systems))
    if not isinstance(evidence, AccuracyCounts):
        raise ArgumentError(
            f"evidence must be Evidence or AccuracyCounts; got {type(evidence).__name__}. Use Evidence.from_tables(…)."
        )
    counts = evidence.without_clusters()
    if systems is None:
        return counts
    parts = [counts.of(name) for name in systems]
    return dataclasses.replace(
        counts,
        tallies={t: n for part in parts for t, n in part.tallies.items()},
        items={c: n for part in parts for c, n in part.items.items()},
        answered={c: n for part in parts for c, n in part.answered.items()},
    )


def _worlds(
    counts: AccuracyCounts, epsilon: float, confidence: float, seed: int
) -> dict[str, Expected]:
    """Every system's labels and what more of them would say."""
    rule = "evidence must have items with answers to plan labels for; got none."
    require(any(counts.items.values()), rule)
    many, model = 10**9, model_votes(len(counts.systems), epsilon)
    if not _known(counts):  # grades of a system are about its own answers
        model = lambda _, accuracy: [Voted(1.0, 1.0, accuracy)]  # noqa: E731
    found = {}
    for name in counts.systems:
        own = counts.of(name)
        asked, there = by_cell(own.tallies), sorted(own.items.items())
        places = tuple(Place(c, n, own.answered.get(c, 0), min(n, asked[c])) for c, n in there)
        each = many // len(places)
        endless = tuple(p._replace(items=each, answered=each) for p in places)
        found[name] = Expected(
            places=places if counts.whole else endless,
            accuracy=_guess(own, confidence, seed),
            confidence=confidence,
            votes=held_votes(own.tallies, model),
            held=own.tallies,
            whole=counts.whole,
            recorded=counts.propensities == "recorded",
            strata=_unequal(places),
            seed=seed,
        )
    return found


def _guess(counts: AccuracyCounts, confidence: float, seed: int) -> float:
    """The current estimate among answered items, kept off 0 and 1; `GUESS` if nothing is known."""
    from noracle.accuracy import estimate_accuracy

    if not any(t.answered and t.verdict != "unsure" for t in counts.tallies):
        return GUESS
    found = estimate_accuracy(counts, confidence=confidence, checks="none", seed=seed)
    n, share = int(found.diagnostics["n_labels_used"]), float(found.diagnostics["answered_share"])
    if not n or not share or math.isnan(found.value) or (found.low <= 0 and found.high >= 1):
        return GUESS
    return min(max(found.value / share, 1 / (n + 2)), 1 - 1 / (n + 2))


def _unequal(places: Sequence[Place]) -> bool:
    """Whether named strata were labelled at rates that a random sample would not have."""
    from noracle.accuracy.score import DIFFERENT_BELOW, binomial_p_value

    rows = strata_of(places).values()
    items, asked = (sum(row[i] for row in rows) for i in (0, 1))
    if len(rows) < 2 or not asked:
        return False
    least = min(binomial_p_value(n, asked, size / items) for size, n in rows if size)
    return len(rows) * least < DIFFERENT_BELOW


def _fits(kind: str, counts: AccuracyCounts, systems: int, held: str | None) -> bool:
    """Whether labels there and new ones of a kind are estimated together without a loss."""
    if kind == GRADES or not _known(counts):
        return kind == GRADES
    if held in ("targeted", GRADES):
        return kind in (held, "ordinary")
    alone = systems == 1 or held in (None, "ordinary")
    return kind != "targeted" or (counts.propensities == "none" and alone)


class _Need(NamedTuple):
    """Labels of one kind: how many, and what every system gets."""

    n: int
    predicted: float
    by_system: dict[str, dict[str, Any]]
    why: str = ""


def _needed(
    worlds: Mapping[str, Expected], kind: str, half_width: float, caps: Mapping[str, int]
) -> _Need:
    """Labels for every system: one serves all of them, but a grade its own only."""
    cap, grades = caps.get(kind, 10**9), kind == GRADES
    left = min(w.left for w in worlds.values())
    most = {name: min(cap, w.ungraded if grades else left) for name, w in worlds.items()}
    found: dict[str, int | None] = {}
    for name, world in worlds.items():
        if most[name] or not grades:
            found[name] = world.fewest(kind, half_width, most[name])
        else:
            found[name] = 0 if world.of({}) <= half_width else None
    wanted = {name: most[name] if n is None else n for name, n in found.items()}
    rows: dict[str, dict[str, Any]] = {}
    for name, world in worlds.items():
        buy = {kind: wanted[name] if grades else max(wanted.values())}
        about = {"accuracy": round(world.accuracy, 4), "n": wanted[name]}
        rows[name] = {**about, "predicted": world.of(buy), **world.estimator(buy)}
    short = [name for name, n in found.items() if n is None]
    why = ""
    if short:
        widest = max(short, key=lambda s: rows[s]["predicted"])
        n, width = most[widest], f"± {rows[widest]['predicted']:.3g}"
        limit = "the cap" if n == caps.get(kind) else "every item without a label"
        gives = f"{limit}, {n:,} {kind} labels, gives {width} for {widest}"
        gives = f"all {n:,} grades that can be had of {widest} give {width}" if grades else gives
        why = f"± {half_width:g} is out of reach: {gives}"
    n = sum(wanted.values()) if grades else max(wanted.values())
    return _Need(n, max(row["predicted"] for row in rows.values()), rows, why)


def _have(counts: AccuracyCounts, worlds: Mapping[str, Expected]) -> dict[str, int]:
    """Items that were asked about, by what they got, of the system with the most of them."""
    name = max(worlds, key=lambda s: (sum(worlds[s].held.values()), s))
    told, question = Counter[str](), held_kind(counts) == "question"
    for t, n in worlds[name].held.items():
        told[_kind_of(t, question=question)] += n
    return dict(told)


def _kind_of(t: Tally, *, question: bool) -> str:
    if t.verdict == "unsure":
        return "unsure"
    if t.design != "uniform":
        return "targeted" if t.design == "recorded" and t.n_classes else GRADES
    return "question" if question else "ordinary" if t.verdict == "yes" else "complementary"


def _targets(worlds: Mapping[str, Expected], kind: str) -> list[str]:
    """Whose answers are asked about: the one system that questions were aimed at, else all."""
    aimed = [name for name, w in worlds.items() if kind == "targeted" and w.aims]
    return aimed if len(aimed) == 1 else sorted(worlds)


def _epsilon(worlds: Mapping[str, Expected], epsilon: float) -> float:
    """The uniform share that the labels show, where they were aimed at one system."""
    for world in worlds.values():
        if world.aims:
            k = max(p.cell.n_classes for p in world.places)
            if k < 2:
                return epsilon
            chance = world.votes(k, 0.5)[0].propensity
            share = (1 - chance) / (1 - 1 / k)
            return round(share, 6) if 0 < share <= 1 else epsilon
    return epsilon


def _notes(
    chosen: str,
    options: Sequence[Mapping[str, Any]],
    prices: Mapping[str, float],
    worlds: Mapping[str, Expected],
    world: Expected,
) -> list[str]:
    have = sum(worlds[max(worlds)].held.values())
    several = chosen == GRADES and len(worlds) > 1
    told = {
        "the plan rests on the accuracies estimated so far; the intervals you get hold for a number of labels that is fixed now": True,
        "a grade speaks of one system: the number is the sum over systems, and grades of one item for all of them compare best": several,
        f"{have:,} labels are there and count: the plan is what is missing": have,
    }
    notes = [note for note, holds in told.items() if holds]
    own = next(o for o in options if set(o["buy"]) <= {chosen})
    for other in options:
        cheaper = not own["feasible"] or other["cost"] < _CHEAPER * own["cost"]
        if other is not own and other["feasible"] and cheaper:
            ((kind, n),) = other["buy"].items() or ((chosen, 0),)
            saved = f"cost {other['cost']:g} instead of {own['cost']:g}"
            notes.append(f"{n:,} {kind} labels would do, at {prices[kind]:g} each: {saved}")
    rates = "strata were labelled at different rates: the least labelled get labels first"
    return [*notes, f"{rates}, so that strata need not be kept apart"] if world.strata else notes
