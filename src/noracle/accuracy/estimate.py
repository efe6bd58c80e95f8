"""Accuracy of one system from ordinary, complementary, mixed, biased or noisy labels."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from noracle.accuracy.parts import Part, Settings, estimate_part, normal_limits
from noracle.accuracy.score import transition_scores
from noracle.accuracy.strata import ErrorRates, Guess, Matrix, Stratum, binomial_p_value, strata_of, targeting_p_value
from noracle.bounds.binomial import clopper_pearson
from noracle.bounds.linear import Cell, anytime
from noracle.counts import AccuracyCounts, count_accuracy
from noracle.errors import ArgumentError, GuaranteeWarning
from noracle.evidence import Evidence
from noracle.results import Assumption, Check, Estimate, Guarantee, Kind, Side, choose, tails

Method = Literal["ml", "ivw", "weighted", "complementary", "ordinary", "scores"]
Interval = Literal["exact", "anytime", "betting", "profile", "wald", "hoeffding", "bernstein", "theorem2", "proposition3", "theorem4"]
Rate = float | Mapping[Any, float]
VACUOUS = "the interval is [0, 1]: these labels say nothing at this confidence"
METHODS = ("ml", "ivw", "weighted", "complementary", "ordinary", "scores")

# Which promise an interval makes, and the methods whose value it can stand beside.
_LIKELIHOOD = ("ml", "ivw", "weighted", "complementary", "ordinary")
INTERVALS: dict[str, tuple[Kind, bool, tuple[str, ...]]] = {
    "exact": (Kind.FINITE_SAMPLE, False, _LIKELIHOOD),
    "anytime": (Kind.FINITE_SAMPLE, True, _LIKELIHOOD),
    "betting": (Kind.FINITE_SAMPLE, True, METHODS),
    "profile": (Kind.ASYMPTOTIC, False, _LIKELIHOOD),
    "wald": (Kind.ASYMPTOTIC, False, METHODS),
    "hoeffding": (Kind.FINITE_SAMPLE, False, ("weighted", "complementary", "ordinary")),
    "bernstein": (Kind.FINITE_SAMPLE, False, ("weighted", "complementary", "ordinary")),
    "theorem2": (Kind.FINITE_SAMPLE, False, ("complementary",)),
    "proposition3": (Kind.FINITE_SAMPLE, False, ("weighted", "ivw")),
    "theorem4": (Kind.FINITE_SAMPLE, False, ("weighted",)),
}


def estimate_accuracy(
    evidence: Evidence | AccuracyCounts, *, system: str | None = None, method: Method | None = None, interval: Interval | None = None,
    confidence: float = 0.95, side: Side = "two-sided", weight: float = 0.5, transition: Sequence[Sequence[float]] | Matrix | None = None,
    classes: Sequence[int | str] | None = None, false_no: Rate | Estimate = 0.0,
    false_yes: Rate | Estimate = 0.0,
    guess: Guess = "leave-one-out", population: Literal["answers", "beyond"] = "answers",
    checks: Sequence[Check] = (), strict: bool = False,
) -> Estimate:  # fmt: skip
    """Estimate the accuracy of a system from labels that say what an item is, or is not.

    A = P(answer is right); an item without an answer counts as wrong. With S_o of n_o ordinary labels right and S_c of n_c answers not
    ruled out, ``ml`` maximises S_o·log A + (n_o-S_o)·log(1-A) + S_c·log q + (n_c-S_c)·log(1-q), q = (A+K-2)/(K-1).

    Parameters
    ----------
    evidence
        Tables, or counts of them.
    system
        Which system; may be left out where there is one.
    method
        ``ml``; ``ivw`` weighs the two kinds by plug-in variances; ``weighted`` by ``weight`` (the ordinary share); ``complementary`` and
        ``ordinary`` use one kind; ``scores`` is the mean of unbiased scores, for everything else. Default ``ml`` where the evidence
        allows it, else ``scores``.
    interval
        See :data:`noracle.accuracy.estimate.INTERVALS`. Default ``exact``, with ``scores`` ``betting``.
    transition, classes
        T[y][k] = P(class k is ruled out | true class y), for labels that are not uniform; ``classes`` gives the order of named classes.
    false_no, false_yes
        Known rates of wrong verdicts about the answer itself, P(no | right) and P(yes | wrong), one number or one per class; or estimates
        of them, whose error rates are added.
    guess
        For recorded propensities: the guess of correctness that reduces the variance of the value. ``leave-one-out`` is the share of yes
        on other items, ``column`` the column ``guess`` of the answers (an autorater, a share of votes, fixed before the labels).
    population
        ``answers``: accuracy on the items in the answers table, so that the answered share is known. ``beyond``: these items are a sample
        of more; the answered share (of every stratum, among all items) then has an interval of its own.
    checks
        Results of ``check_*``: each is written to the guarantee, a failed one makes it HEURISTIC, or raises if ``strict``.

    Notes
    -----
    Assumes that labelled items are a random sample of the items asked about and, for uniform designs, that the class asked about does not
    depend on item, truth or answers. Strata, numbers of classes and weights are post-stratified: G parts share the error rate and a part
    without labels contributes [0, 1].

    References
    ----------
    Yin, Ishida and Sugiyama, "Towards scalable oversight via partitioned human supervision", equations (2), (7) and (9), with the
    corrections listed in the documentation.

    Examples
    --------
    >>> from noracle import AccuracyCounts, estimate_accuracy
    >>> counts = AccuracyCounts.from_counts(n_classes=10, ordinary=(300, 235), complementary=(2700, 2634))
    >>> estimate_accuracy(counts)
    Estimate(accuracy of 'system': 0.7819 [0.7452, 0.815] at 0.95, exact, finite-sample)
    """
    if isinstance(false_no, Estimate) or isinstance(false_yes, Estimate):
        options: dict[str, Any] = {
            "system": system, "method": method, "interval": interval, "confidence": confidence, "side": side, "guess": guess,
            "population": population, "checks": checks, "strict": strict, "classes": classes, "weight": weight,
        }  # fmt: skip
        return _with_estimated_rates(evidence, false_no, false_yes, options)
    rates = ErrorRates(false_no, false_yes) if false_no or false_yes else None
    by_class = transition is not None or (rates is not None and rates.by_class)
    counts = counts_of(evidence, system, by_class=by_class, by_guess=guess == "column")
    strata = strata_of(counts)
    settings = _settings(strata, method, interval, weight, transition, classes, rates, guess)
    below, above = tails(confidence, side)
    groups = _pools(strata, settings.method) if settings.pooled else [(s,) for s in strata]
    kind, every_look, _ = INTERVALS[settings.interval]
    if population == "beyond" and len({s.weight for s in strata if s.items}) > 1:
        raise ArgumentError("population must be 'answers' where weights differ, since those of other items are not known; got 'beyond'.")
    shares = _shares(groups, below, above, beyond=population == "beyond", interval=settings.interval)
    parts = [estimate_part(g, settings, shares.below, shares.above) for g in groups]
    estimate = _combine(counts, groups, parts, shares, settings, confidence, side)
    guarantee = Guarantee(
        kind=kind, error_rate=1 - confidence, anytime=every_look, assumptions=_assumptions(counts, strata, settings, population)
    )
    if settings.interval == "wald" and (math.isnan(estimate.se) or not _wald_is_sound(estimate)):
        warnings.warn(
            f"interval='wald' is unreliable here (value {estimate.value:.3g}, n = {sum(p.n for p in parts)}); use interval='exact'.",
            GuaranteeWarning, stacklevel=2,
        )  # fmt: skip
    return dataclasses.replace(estimate, guarantee=guarantee.given(*_allocation(groups), *checks, strict=strict))


def counts_of(evidence: Evidence | AccuracyCounts, system: str | None, *, by_class: bool = False, by_guess: bool = False) -> AccuracyCounts:
    """The counts of one system, from tables or from counts."""
    if isinstance(evidence, AccuracyCounts):
        return evidence.of(system)
    if not isinstance(evidence, Evidence):
        raise ArgumentError(f"evidence must be Evidence or AccuracyCounts; got {type(evidence).__name__}. Use Evidence.from_tables(…).")
    return count_accuracy(evidence, systems=None if system is None else [system], by_class=by_class, by_guess=by_guess).of(system)


def _settings(
    strata: tuple[Stratum, ...], method: str | None, interval: str | None, weight: float,
    transition: Sequence[Sequence[float]] | Matrix | None, classes: Sequence[int | str] | None,
    rates: ErrorRates | None, guess: Guess,
) -> Settings:  # fmt: skip
    """Fill in what was left open, and refuse combinations that have no meaning."""
    by_class = rates is not None and rates.by_class
    needs_scores = (
        transition is not None or by_class or any(t.design == "recorded" or t.hit_share is not None for s in strata for t in s.tallies)
    )
    method = choose("method", method or ("scores" if needs_scores else "ml"), METHODS)
    interval = choose("interval", interval or ("betting" if method == "scores" else "exact"), tuple(INTERVALS))
    if method not in INTERVALS[interval][2]:
        fits = [i for i, (_, _, methods) in INTERVALS.items() if method in methods]
        raise ArgumentError(f"interval must be one of {', '.join(fits)} for method {method!r}; got {interval!r}.")
    if transition is not None and method != "scores":
        raise ArgumentError(f"method must be 'scores' with a transition matrix; got {method!r}.")
    if not 0 <= weight <= 1:
        raise ArgumentError(f"weight must be in [0, 1]; got {weight}.")
    if rates is not None and (method not in ("scores", "ml", "ordinary") or (method == "scores") != (interval in ("betting", "wald"))):
        raise ArgumentError(
            "method must be 'ml' with interval exact, anytime or profile, or 'scores' with betting or wald, when verdicts can be wrong; "
            f"got {method!r} with {interval!r}."
        )
    if by_class and method != "scores":
        raise ArgumentError(f"method must be 'scores' where error rates differ by class; got {method!r}.")
    inverse = None if transition is None else transition_scores(transition)
    return Settings(
        method=method, interval=interval, weight=weight, inverse=inverse, classes=None if classes is None else tuple(classes),
        guess=guess, rates=rates,
    )  # fmt: skip


def _pools(strata: tuple[Stratum, ...], method: str) -> list[tuple[Stratum, ...]]:
    """Strata of the same name pool their scores; only the names given by the user are separate strata.

    The labels of one kind alone are not a random sample where numbers of classes differ (a uniform question is answered yes with
    probability 1/K), so the methods that use one kind keep the numbers of classes apart.
    """

    def key(s: Stratum) -> tuple[str, int]:
        return s.name, s.n_classes if method in ("ordinary", "complementary") else 0

    return [tuple(s for s in strata if key(s) == pool) for pool in dict.fromkeys(key(s) for s in strata)]


def _allocation(groups: Sequence[tuple[Stratum, ...]]) -> list[Check]:
    """Do the labels of each pool fall on its strata as on a random sample? Exact binomial, Bonferroni within a pool; can only refute."""
    checks = []
    for group in groups:
        sizes = [(s.answered, s.n()) for s in group if s.answered]
        answered, labelled = sum(a for a, _ in sizes), sum(n for _, n in sizes)
        if len(sizes) > 1:
            p_value = min(1.0, len(sizes) * min(binomial_p_value(n, labelled, a / answered) for a, n in sizes))
            where = f" of stratum {group[0].name!r}" if group[0].name else ""
            finding = f"labels do not fall on numbers of classes and weights{where} as on a random sample; 'exact' keeps them apart"
            checks.append(
                Check(
                    name="allocation", assumption="iid items", p_value=p_value, statistic=math.nan, finding=finding,
                    method="exact binomial", refutes_only=True,
                )
            )  # fmt: skip
    return checks


# --------------------------------------------------------------------------------------------------- putting parts together


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Shares:
    """What each part is worth: its part of the population, its answered share with limits, and its part of the error rate."""

    weights: tuple[float, ...]
    answered: tuple[tuple[float, float, float], ...]
    below: float
    above: float


def _shares(groups: Sequence[tuple[Stratum, ...]], below: float, above: float, *, beyond: bool, interval: str) -> _Shares:
    """The error rate is split over the parts with labels; over all parts, whose number is fixed beforehand, where every look counts.

    For items beyond these the shares of the parts are unknown too: each part's share of answered items among *all* items has limits.
    """
    total = sum(s.weight * s.items for g in groups for s in g)
    n_items = sum(s.items for g in groups for s in g)
    sequential = INTERVALS[interval][1]
    divide = 1 if interval == "wald" else max(1, sum(any(s.answered if sequential else s.n() for s in g) for g in groups))
    weights, answered = [], []
    for group in groups:
        size = sum(s.weight * s.items for s in group)
        with_answer = sum(s.weight * s.answered for s in group)
        weights.append(size / total if total else 1.0)
        share = with_answer / size if size else 0.0
        low, high = (share, share) if total else (0.0, 1.0)
        if beyond and size:
            n_answered, spent = sum(s.answered for s in group), 2 * len(groups)
            if sequential:
                limits = anytime([Cell(n_items, n_answered)], (below + above) / spent)
                low, high = limits.low if below > 0 else 0.0, limits.high if above > 0 else 1.0
            else:
                low, high = clopper_pearson(n_answered, n_items, below / spent, above / spent)
            low, high = low / weights[-1], high / weights[-1]
        answered.append((share, low, high))
    halve = 2 if beyond else 1
    return _Shares(weights=tuple(weights), answered=tuple(answered), below=below / (divide * halve), above=above / (divide * halve))


def _combine(
    counts: AccuracyCounts, groups: Sequence[tuple[Stratum, ...]], parts: Sequence[Part], shares: _Shares, settings: Settings,
    confidence: float, side: Side,
) -> Estimate:  # fmt: skip
    known = [(w, a, p) for w, a, p in zip(shares.weights, shares.answered, parts, strict=True) if p.n]
    blind = [w for w, a, p in zip(shares.weights, shares.answered, parts, strict=True) if not p.n and a[0] > 0]
    n = sum(p.n for p in parts)
    notes: list[str] = []
    reason, value, variance = "", math.nan, math.nan
    if known:
        covered = sum(w for w, _, _ in known) + sum(
            w for w, a, p in zip(shares.weights, shares.answered, parts, strict=True) if not p.n and a[0] <= 0
        )
        value = sum(w * a[0] * p.value for w, a, p in known) / covered
        variance = sum((w * a[0]) ** 2 * p.variance for w, a, p in known)
    elif all(a[0] <= 0 for a in shares.answered) and counts.items and sum(counts.items.values()):
        value, variance = 0.0, math.nan
        notes.append("the system answered nothing: every item counts as wrong")
    else:
        reason = "no usable label of an answered item" if sum(counts.items.values()) else "no items"
    if blind:
        notes.append(f"{len(blind)} of {len(parts)} strata have no label: they hold {sum(blind):.1%} of the items and contribute [0, 1]")
    if settings.interval == "wald" and len(known) > 1:
        whole = normal_limits(sum(w * a[0] * p.value for w, a, p in known), variance, *tails(confidence, side))
        low, high = whole.low, whole.high + sum(w * a[2] for w, a, p in zip(shares.weights, shares.answered, parts, strict=True) if not p.n)
    else:
        low = sum(w * a[1] * p.limits.low for w, a, p in zip(shares.weights, shares.answered, parts, strict=True))
        high = sum(w * a[2] * p.limits.high for w, a, p in zip(shares.weights, shares.answered, parts, strict=True))
    diagnostics: dict[str, Any] = {
        "n_labels_used": n,
        "answered_share": sum(w * a[0] for w, a in zip(shares.weights, shares.answered, strict=True)),
    }
    if any(p.limits.empty for p in parts):
        notes.append("routing alarm: no accuracy in [0, 1] fits these labels; the labels do not follow the assumed design")
        diagnostics["routing_alarm"] = True
    if known and not 0 <= value <= 1:
        notes.append(f"the unclipped value {value:.3f} lies outside [0, 1]: chance, or labels that do not follow the assumed design")
    if low <= 0 and high >= 1:
        notes.append(VACUOUS)
    if len(parts) > 1:
        diagnostics["strata"] = [
            {
                "stratum": g[0].name,
                "n_classes": sorted({s.n_classes for s in g}),
                "share": w,
                "answered_share": a[0],
                "n": p.n,
                "value": p.value,
                "low": p.limits.low,
                "high": p.limits.high,
            }
            for g, w, a, p in zip(groups, shares.weights, shares.answered, parts, strict=True)
        ]
    unsure = counts.total(verdict="unsure")
    if unsure:
        notes.append(f"{unsure} items were judged 'unsure' and are treated as missing at random; range_unsure gives the worst case")
    if counts.runs:
        notes.append("items were answered more than once: an item counts once, with the mean of its repeats")
    unused = {name: k for name, k in counts.unused.items() if k}
    notes += [f"not used: {k} {name}" for name, k in unused.items()]
    return Estimate(
        quantity="accuracy", subject=counts.systems[0] if counts.systems else "system", value=value, low=min(low, 1.0), high=min(high, 1.0),
        confidence=confidence, side=side, method=settings.method, interval=settings.interval,
        guarantee=Guarantee(kind=Kind.HEURISTIC, error_rate=1 - confidence), se=math.sqrt(variance) if variance >= 0 else math.nan,
        counts=counts.summary(), diagnostics=diagnostics, notes=tuple(notes), reason=reason,
    )  # fmt: skip


def _wald_is_sound(estimate: Estimate) -> bool:
    """Rule of thumb: the value lies at least three standard errors inside [0, 1]."""
    return min(estimate.value, 1 - estimate.value) >= 3 * estimate.se


def _assumptions(counts: AccuracyCounts, strata: tuple[Stratum, ...], settings: Settings, population: str) -> tuple[Assumption, ...]:
    rests = [Assumption(name="iid items", detail="labelled items are a random sample of the items asked about")]
    recorded = any(t.design == "recorded" for s in strata for t in s.tallies)
    complementary = any(t.verdict == "no" for s in strata for t in s.tallies)
    if recorded:
        rests.append(Assumption(name="recorded propensities", detail="each class was asked about with the probability that was recorded"))
        if settings.method != "scores":
            p_values = [p for p in (targeting_p_value(s) for s in strata) if not math.isnan(p)]
            p = min(1.0, min(p_values) * len(p_values)) if p_values else None
            rests.append(Assumption(name="questions aimed at this system", status="checked" if p is not None else "assumed", p_value=p))
    elif settings.inverse is not None:
        rests.append(Assumption(name="known transition matrix", detail="given the truth, the ruled-out class depends on nothing else"))
    elif complementary and settings.method != "ordinary":
        rests.append(Assumption(name="uniform routing", detail="the class asked about does not depend on item, truth or answers"))
    if settings.rates is not None:
        rests.append(
            Assumption(
                name="known error rates",
                detail=f"false no {settings.rates.false_no}, false yes {settings.rates.false_yes} for classes that were answered",
            )
        )
    else:
        rests.append(Assumption(name="right verdicts", detail="nobody says yes to a wrong class or no to the true one"))
    if population == "beyond":
        rests.append(
            Assumption(name="items beyond these", detail="the answered share has its own interval, error rates added", status="by-design")
        )
    rests += [Assumption(name=line) for line in counts.inferred]
    return tuple(rests)


def _with_estimated_rates(
    evidence: Evidence | AccuracyCounts, false_no: Rate | Estimate, false_yes: Rate | Estimate, options: dict[str, Any]
) -> Estimate:
    """The accuracy is monotone in each rate, so its extremes lie at the corners of their intervals; error rates are added."""

    def corners(rate: Rate | Estimate) -> tuple[Rate, tuple[Rate, ...]]:
        return (rate.value, (rate.low, rate.high)) if isinstance(rate, Estimate) else (rate, (rate,))

    (no, nos), (yes, yess) = corners(false_no), corners(false_yes)
    centre = estimate_accuracy(evidence, false_no=no, false_yes=yes, **options)
    around = [estimate_accuracy(evidence, false_no=a, false_yes=b, **options) for a in nos for b in yess]
    guarantee = centre.guarantee
    for rate in (false_no, false_yes):
        if isinstance(rate, Estimate):
            guarantee = guarantee & rate.guarantee
    return dataclasses.replace(
        centre, low=min(e.low for e in around), high=max(e.high for e in around), guarantee=guarantee, confidence=1 - guarantee.error_rate,
        notes=(*centre.notes, "error rates were estimated: their intervals are joined and their error rates added"),
    )  # fmt: skip
